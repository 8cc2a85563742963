// Rules that came with the build are those that discovery finds, for every key; the zoo's models
// need no others; and nothing else tells where a rule came from.
// links: rules zoo
#include "graph/graph.h"
#include "op/text.h"
#include "rules/resolve.h"
#include "rules/search.h"
#include "rules_support.h"
#include "unit/zoo_sizes.h"

// A key is the text of a call.
static shoal_call_t parse_key(bench_t *b, const char *key) {
  char name[64];
  shoal_scan_t scan;
  shoal_scan_init("key", key, &scan);
  assert_true(shoal_scan_word(&scan, name, sizeof name));
  const shoal_op_t *op = bench_op(b, name);
  shoal_type_t *types = SHOAL_NEW(&b->arena, shoal_type_t, 4 * SHOAL_CASE_MAX_INPUTS);
  shoal_attr_value_t *attrs = NULL;
  int32_t count = 0;
  while (count < SHOAL_CASE_MAX_INPUTS && !shoal_scan_at_end(&scan) &&
         !shoal_scan_peek(&scan, "{")) {
    if (count) assert_true(shoal_scan_expect(&scan, ","));
    assert_true(shoal_scan_type(&scan, &types[count++]));
  }
  assert_true(shoal_scan_attrs(&scan, "{", "}", op, &b->arena, &attrs));
  assert_true(shoal_scan_at_end(&scan));
  assert_ok(shoal_scan_status(&scan));
  shoal_call_t call = {.op = op,
                       .input_count = count,
                       .output_count = shoal_op_outputs(op, attrs),
                       .inputs = types,
                       .attrs = attrs};
  assert_ok(shoal_op_infer(&call, types + count));
  call.outputs = types + count;
  return call;
}

static void test_shipped_is_fresh(void **state) {
  (void)state;
  assert_true(shoal_shipped_rules.count > 200);
  bench_t b;
  bench_init(&b);
  shoal_allocator_t allocator = shoal_allocator_system();
  int64_t pairs = 0;
  for (int64_t i = 0; i < shoal_shipped_rules.count; ++i) {
    const char *key = shoal_shipped_rules.rules[i].key;
    if (i) assert_true(strcmp(shoal_shipped_rules.rules[i - 1].key, key) < 0);
    // The text of two calls of different size: the models below are compared as a whole.
    pairs += strstr(key, " and ") != NULL;
    if (strstr(key, " and ") || (UNIT_SAMPLES && i % 16)) continue;
    shoal_call_t call = parse_key(&b, key);
    shoal_keyed_rule_t shipped = {.key = key};
    shoal_rule_t fresh;
    assert_ok(shoal_rules_find_shipped(&call, &b.arena, &shipped));
    assert_true(shipped.shipped);
    assert_ok(shoal_rules_discover(&call, shoal_executor_reference(&allocator), allocator, &b.arena,
                                   &fresh));
    bool same = shipped.way_count == fresh.way_count;
    for (int32_t w = 0; same && w < fresh.way_count; ++w) {
      same = search_same_way(&shipped.ways[w], &fresh.ways[w]);
    }
    if (!same) print_error("%s: shipped %s\n", key, shoal_shipped_rules.rules[i].ways);
    assert_true(same);
  }
  assert_true(pairs > 0);
  bench_deinit(&b);
}

// Asks for every rule; returns how many came with the build, and sets how many there are.
static int64_t ask(shoal_rules_t *rules, const shoal_model_t *model, int64_t *out_count) {
  int64_t shipped = *out_count = 0;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  for (int64_t i = 0; i < model->graphs.count; ++i) {
    const shoal_graph_t *graph = model->graphs.items[i];
    for (int64_t n = 0; n < graph->nodes.count; ++n, ++*out_count) {
      shoal_call_t call;
      const shoal_rule_t *rule;
      assert_ok(shoal_node_call(graph, &graph->nodes.items[n], &arena, &call));
      assert_ok(shoal_rules_get(rules, &call, &rule));
      assert_non_null(rule->key);
      shipped += rule->shipped;
    }
  }
  shoal_arena_deinit(&arena);
  return shipped;
}

static void test_zoo_needs_no_discovery(void **state) {
  (void)state;
  for (int32_t i = 0; i < 4; ++i) {
    shoal_model_t *model = NULL;
    shoal_rules_t *rules = NULL, *fresh = NULL;
    assert_ok(shoal_model_create(&(shoal_model_options_t){0}, &model));
    assert_ok(shoal_rules_create(shoal_allocator_system(), &rules));
    assert_ok(shoal_rules_create(shoal_allocator_system(), &fresh));
    shoal_rules_ignore_shipped(fresh);
    if (i == 0) {
      add_gpt(model, &(gpt_sizes_t){.batch = 1536,
                                    .context = 2048,
                                    .vocabulary = 50257,
                                    .width = 12288,
                                    .heads = 96,
                                    .layers = 3,
                                    .dropout = 0.2,
                                    .dtype = SHOAL_BF16});
    } else if (i == 1) {
      add_gpt(model, &(gpt_sizes_t){.context = 1024, .width = 1024, .tied = true});
    } else if (i == 2) {
      add_mlp(model, &(mlp_sizes_t){.hidden = 999, .layers = 4, .dtype = SHOAL_F32});
    } else {
      add_cnn(model, &(cnn_sizes_t){.size = 64, .dtype = SHOAL_F32});
    }
    assert_ok(shoal_model_status(model));
    int64_t count, shipped = ask(rules, model, &count);
    assert_int_equal(shipped, count);
    assert_int_equal(ask(fresh, model, &count), 0);
    // A plan's guard is the same.
    uint64_t hash, other;
    assert_ok(shoal_rules_hash(rules, model, &hash));
    assert_ok(shoal_rules_hash(fresh, model, &other));
    assert_true(hash == other);
    shoal_rules_free(fresh);
    shoal_rules_free(rules);
    shoal_model_free(model);
  }
}

// An equation that no model of the zoo has.
static void test_a_miss_discovers(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  shoal_rules_t *rules = NULL;
  const shoal_rule_t *rule;
  assert_ok(shoal_rules_create(shoal_allocator_system(), &rules));
  shoal_call_t call =
      bench_call(&b, bench_op(&b, "shoal.einsum"), "f64[9,8], f64[8] ; equation=\"qz,z->q\"");
  assert_ok(shoal_rules_get(rules, &call, &rule));
  assert_false(rule->shipped);
  assert_string_equal(
      rule_text(&b, call.op, rule),
      " {a:0 -> out:0}~ {a:1, b:0 -> out:sum}~ {a:sum -> out:sum} {b:sum -> out:sum}");
  shoal_rules_free(rules);
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_shipped_is_fresh),
      cmocka_unit_test(test_zoo_needs_no_discovery),
      cmocka_unit_test(test_a_miss_discovers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
