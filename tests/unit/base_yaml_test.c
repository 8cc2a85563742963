// YAML into the JSON tree: kinds, lines in paths, refusals, short memory.
#include "base/yaml.h"

#include "unit/failing.h"

// AutoDist's resource_spec.yml, as users have it.
static const char resource_spec[] =
    "nodes:\n"
    "  - address: 10.20.41.57   # the chief\n"
    "    gpus: [0, 1]\n"
    "    chief: true\n"
    "    network_bandwidth: 1.5\n"
    "  - address: \"8\"\n"
    "    cpus: 0x10\n"
    "ssh:\n"
    "  conf: {username: 'root', port: 22, key_file: ~, big: 1e9, neg: -3}\n";

static void reads_kinds_and_lines(void **state) {
  (void)state;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const shoal_json_t *root, *nodes, *conf;
  assert_ok(shoal_yaml_parse("spec.yml", resource_spec, &arena, &root));
  assert_ok(shoal_json_get_child(root, "nodes", SHOAL_JSON_ARRAY, &nodes));
  assert_int_equal(nodes->count, 2);
  const shoal_json_t *first = &nodes->children[0], *second = &nodes->children[1];
  const char *string;
  int64_t integer;
  double real;
  assert_ok(shoal_json_get_string(first, "address", &string));
  assert_string_equal(string, "10.20.41.57");
  assert_ok(shoal_json_get_string(second, "address", &string));
  assert_string_equal(string, "8");
  assert_ok(shoal_json_get_int(second, "cpus", &integer));
  assert_int_equal(integer, 16);
  assert_ok(shoal_json_get_real(first, "network_bandwidth", &real));
  assert_true(real == 1.5);
  assert_true(shoal_json_find(first, "chief")->boolean);
  assert_int_equal(shoal_json_find(first, "gpus")->children[1].integer, 1);
  assert_ok(shoal_json_get_child(shoal_json_find(root, "ssh"), "conf", SHOAL_JSON_OBJECT, &conf));
  assert_int_equal(shoal_json_find(conf, "key_file")->kind, SHOAL_JSON_NULL);
  assert_true(shoal_json_find(conf, "big")->real == 1e9);
  assert_int_equal(shoal_json_find(conf, "neg")->integer, -3);
  assert_string_equal(shoal_json_find(second, "cpus")->path, "spec.yml:7: nodes[1].cpus");
  assert_error(INVALID_ARGUMENT, "spec.yml:6: nodes[1].address: expected a whole number",
               shoal_json_get_int(second, "address", &integer));
  shoal_arena_deinit(&arena);
}

static void refuses(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"a: 1\nb: [1\n", "f:"},
      {"a: 1\na: 2\n", "f:2: the key 'a' occurs twice"},
      {"a: 1\n? [x]\n: 2\n", "f:2: a key must be a plain word"},
      {"a: &x {b: 1}\nc:\n  <<: *x\n", "merge keys"},
      {"a: &x [*x]\n", "nested too deeply"},
      {"", "empty"},
      {"a: 1\n---\nb: 2\n", "more than one document"},
      {"a: *missing\n", "f:1:"},
      {"\ta: 1\n", "f:1:"},
  };
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const shoal_json_t *root;
    assert_error(INVALID_ARGUMENT, cases[i].message,
                 shoal_yaml_parse("f", cases[i].text, &arena, &root));
    assert_null(root);
  }
  shoal_arena_deinit(&arena);
}

static shoal_status_t parse_yaml(shoal_allocator_t allocator, void *context) {
  (void)context;
  shoal_arena_t arena;
  shoal_arena_init(allocator, &arena);
  const shoal_json_t *root;
  shoal_status_t status = shoal_yaml_parse("spec.yml", resource_spec, &arena, &root);
  shoal_arena_deinit(&arena);
  return status;
}

static void survives_short_memory(void **state) {
  (void)state;
  check_failing_allocations(parse_yaml, NULL, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_kinds_and_lines),
      cmocka_unit_test(refuses),
      cmocka_unit_test(survives_short_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
