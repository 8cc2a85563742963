// Cluster files: what is read, and errors that name line and key.
#include "base/arena.h"
#include "cluster/cluster.h"
#include "unit.h"

static shoal_cluster_t *parse(const char *text) {
  shoal_cluster_t *cluster;
  assert_ok(shoal_cluster_parse("c.yml", text, shoal_allocator_system(), &cluster));
  return cluster;
}

static void test_defaults(void **state) {
  (void)state;
  shoal_cluster_t *cluster = parse("shoal_cluster: 1\n");
  const shoal_cluster_t *none = shoal_cluster_default();
  const shoal_cluster_device_t *device = shoal_cluster_device(cluster, 5);
  const shoal_cluster_device_t *other = shoal_cluster_device(none, 0);
  assert_int_equal(shoal_cluster_ranks(cluster), 0);
  assert_int_equal(shoal_cluster_ranks(none), 0);
  assert_int_equal(device->memory, 0);
  assert_true(memcmp(device->flops, other->flops, sizeof device->flops) == 0);
  assert_true(device->flops[SHOAL_F32] > 0 && device->bandwidth == other->bandwidth);
  const shoal_cluster_link_t link = shoal_cluster_between(cluster, 0, 1);
  assert_true(link.latency > 0 && link.bandwidth > 0);
  assert_true(link.bandwidth == shoal_cluster_between(none, 0, 1).bandwidth);
  shoal_cluster_free(cluster);
  shoal_cluster_free(NULL);
}

static void test_all_keys(void **state) {
  (void)state;
  shoal_cluster_t *cluster = parse(
      "shoal_cluster: 1   # a comment\n"
      "ranks: 8\n"
      "device: {flops: 1.0e11, bandwidth: 20000000000, memory: 24G, collectives: ring,\n"
      "         host_bandwidth: 3.0e9, disk_bandwidth: 1.0e9}\n"
      "link:\n"
      "  latency: 2.0e-6\n"
      "  bandwidth: 5.0e9\n"
      "node_link: {latency: 1.0e-7}\n"
      "rack_link: {nodes: 2, latency: 1.0e-6, bandwidth: 1.0e9}\n");
  const shoal_cluster_device_t *device = shoal_cluster_device(cluster, 7);
  assert_int_equal(shoal_cluster_ranks(cluster), 8);
  for (int i = 0; i < SHOAL_DTYPE_COUNT; ++i) assert_true(device->flops[i] == 1e11);
  assert_true(device->bandwidth == 2e10 && device->ring);
  assert_true(device->host_bandwidth == 3e9 && device->disk_bandwidth == 1e9);
  assert_true(device->memory == INT64_C(24) << 30);
  shoal_cluster_link_t link = shoal_cluster_between(cluster, 0, 1);
  assert_true(link.latency == 2e-6 && link.bandwidth == 5e9);
  link = shoal_cluster_between(cluster, 1, 2);  // from one rack to the next
  assert_true(link.latency == 2e-6 + 1e-6 && link.bandwidth == 1e9);
  assert_int_equal(shoal_cluster_level(cluster, 0, 1), SHOAL_CLUSTER_NETWORK);
  assert_int_equal(shoal_cluster_level(cluster, 1, 2), SHOAL_CLUSTER_RACK);
  assert_int_equal(shoal_cluster_level(cluster, 3, 3), SHOAL_CLUSTER_NODE);
  shoal_cluster_free(cluster);
  cluster = parse("shoal_cluster: 1\ndevice: {memory: 4096, flops: {f32: 3.0, bf16: 7.0}}\n");
  device = shoal_cluster_device(cluster, 0);
  assert_int_equal(device->memory, 4096);
  assert_true(device->flops[SHOAL_F32] == 3 && device->flops[SHOAL_BF16] == 7);
  assert_true(device->flops[SHOAL_I32] == 3 && device->flops[SHOAL_F64] > 7);
  shoal_cluster_free(cluster);
}

// Presets by name: devices, nodes, the published numbers, and what lies between ranks.
static void test_presets(void **state) {
  (void)state;
  shoal_cluster_t *cluster = parse("a100x8:128");
  assert_int_equal(shoal_cluster_ranks(cluster), 1024);
  assert_int_equal(shoal_cluster_node(cluster, 1023), 127);
  assert_int_equal(shoal_cluster_node(cluster, 8), 1);
  assert_string_equal(shoal_cluster_device(cluster, 77)->name, "a100");
  assert_true(shoal_cluster_device(cluster, 0)->flops[SHOAL_BF16] == 312e12);
  assert_true(shoal_cluster_between(cluster, 0, 7).bandwidth == 300e9);
  assert_true(shoal_cluster_between(cluster, 7, 8).bandwidth == 25e9);
  assert_int_equal(shoal_cluster_card(cluster, 13), 13);  // a card each
  shoal_cluster_free(cluster);
  cluster = parse("v100x8:2+p100x8:2\n");
  assert_int_equal(shoal_cluster_ranks(cluster), 32);
  assert_string_equal(shoal_cluster_device(cluster, 15)->name, "v100");
  assert_string_equal(shoal_cluster_device(cluster, 16)->name, "p100");
  assert_true(shoal_cluster_between(cluster, 16, 17).bandwidth == 80e9);
  assert_true(shoal_cluster_between(cluster, 15, 16).bandwidth == 12.5e9);
  assert_int_equal(shoal_cluster_card(cluster, 8 + 3), 8 + 2);  // four cards for eight devices
  assert_int_equal(shoal_cluster_card(cluster, 8 + 4), 8 + 4);
  shoal_cluster_free(cluster);
  cluster = parse("cpu:2");
  assert_int_equal(shoal_cluster_ranks(cluster), 2);
  assert_int_equal(shoal_cluster_node(cluster, 1), 1);
  shoal_cluster_free(cluster);
  static const struct {
    const char *text, *part;
  } cases[] = {{"a1000x8", "did you mean 'a100'?"},
               {"a100x8:0", "preset"},
               {"a100x8+", "preset"},
               {"a100x8:2+", "preset"},
               {"quantum", "quantum"},
               {"a100 x8", "preset"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    assert_error(INVALID_ARGUMENT, cases[i].part,
                 shoal_cluster_parse("c.yml", cases[i].text, shoal_allocator_system(), &cluster));
  }
  assert_error(UNSUPPORTED, "16777216 devices",
               shoal_cluster_parse("c", "a100x8:9000000", shoal_allocator_system(), &cluster));
  assert_error(NOT_FOUND, "no/such.yml",
               shoal_cluster_read("no/such.yml", shoal_allocator_system(), &cluster));
  assert_error(INVALID_ARGUMENT, "h200",
               shoal_cluster_read("h201x8", shoal_allocator_system(), &cluster));
}

static void expect_same(const shoal_cluster_t *one, const shoal_cluster_t *two, int32_t a) {
  const shoal_cluster_device_t *x = shoal_cluster_device(one, a);
  const shoal_cluster_device_t *y = shoal_cluster_device(two, a);
  assert_string_equal(x->name, y->name);
  assert_true(memcmp(x->flops, y->flops, sizeof x->flops) == 0 && x->memory == y->memory &&
              x->bandwidth == y->bandwidth && x->ring == y->ring);
  assert_int_equal(shoal_cluster_card(one, a), shoal_cluster_card(two, a));
  assert_int_equal(shoal_cluster_port(one, a), shoal_cluster_port(two, a));
  for (int32_t b = 0; b < 8; ++b) {
    const shoal_cluster_link_t p = shoal_cluster_between(one, a, b);
    const shoal_cluster_link_t q = shoal_cluster_between(two, a, b);
    assert_true(p.latency == q.latency && p.bandwidth == q.bandwidth);
  }
}

// Every form prints, and what is printed parses back to the same.
static void test_print(void **state) {
  (void)state;
  static const char *const texts[] = {
      "shoal_cluster: 1\n",
      "shoal_cluster: 1\nranks: 3\nlink: {latency: 0.1, bandwidth: 3.0}\n",
      "shoal_cluster: 1\nnode_link: {bandwidth: 3.0, per: pair}\n",
      "a100x8:128",
      "v100x8:2+p100x4:3",
      "shoal_cluster: 1\ndevice: {kind: h100, name: 'it''s', memory: 40G}\nnodes:\n"
      "  - {count: 3, devices: 4, link: {cards: 2}, node_link: {per: node, bandwidth: 1.0e10}}\n"
      "  - {devices: 1, device: cpu, network_bandwidth: 100}\n"
      "rack_link: {nodes: 2, bandwidth: 1.0e10}\n",
      "nodes:\n"
      "  - {address: 10.0.0.2, cpus: [0, 3], ssh_config: 'a b', network_bandwidth: 25}\n"
      "  - {address: 10.0.0.1, gpus: [2, 5], chief: true}\n"
      "ssh: {a b: {username: me, port: 7, key_file: /k, python_venv: \"x 'y'\", "
      "shared_envs: {A: '1', B: ''}}}\n"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
    shoal_arena_t arena;
    shoal_arena_init(shoal_allocator_system(), &arena);
    shoal_cluster_t *one = parse(texts[i]);
    const char *first, *second;
    assert_ok(shoal_cluster_print(one, &arena, &first));
    shoal_cluster_t *two = parse(first);
    assert_ok(shoal_cluster_print(two, &arena, &second));
    assert_string_equal(first, second);
    assert_int_equal(shoal_cluster_ranks(one), shoal_cluster_ranks(two));
    for (int32_t a = 0; a < 8; ++a) expect_same(one, two, a);
    shoal_cluster_free(one);
    shoal_cluster_free(two);
    shoal_arena_deinit(&arena);
  }
}

static void test_errors(void **state) {
  (void)state;
  static const struct {
    const char *text;
    shoal_code_t code;
    const char *key, *line;  // both are said
  } cases[] = {
      {"", SHOAL_INVALID_ARGUMENT, "c.yml", "c.yml"},
      {"- 1\n", SHOAL_INVALID_ARGUMENT, "mapping", "c.yml"},
      {"ranks: 2\n", SHOAL_INVALID_ARGUMENT, "shoal_cluster", "c.yml"},
      {"shoal_cluster: 2\n", SHOAL_UNSUPPORTED, "shoal_cluster", "c.yml:1:"},
      {"shoal_cluster: one\n", SHOAL_INVALID_ARGUMENT, "shoal_cluster", "c.yml:1:"},
      {"shoal_cluster: 1\nranks: 0\n", SHOAL_INVALID_ARGUMENT, "ranks", "c.yml:2:"},
      {"shoal_cluster: 1\nranks: -2\n", SHOAL_INVALID_ARGUMENT, "ranks", "c.yml:2:"},
      {"shoal_cluster: 1\nranks: 99999999999\n", SHOAL_INVALID_ARGUMENT, "ranks", "c.yml:2:"},
      {"shoal_cluster: 1\n\nrank: 2\n", SHOAL_INVALID_ARGUMENT, "did you mean 'ranks'?",
       "unknown key 'rank'"},
      {"shoal_cluster: 1\ndevice: {flop: 1}\n", SHOAL_INVALID_ARGUMENT, "flops", "c.yml:2:"},
      {"shoal_cluster: 1\ndevice:\n  flops: 0\n", SHOAL_INVALID_ARGUMENT, "flops", "c.yml:3:"},
      {"shoal_cluster: 1\ndevice:\n  flops: -1e9\n", SHOAL_INVALID_ARGUMENT, "flops", "c.yml:3:"},
      {"shoal_cluster: 1\ndevice:\n  flops: .nan\n", SHOAL_INVALID_ARGUMENT, "flops", "c.yml:3:"},
      {"shoal_cluster: 1\ndevice:\n  flops: fast\n", SHOAL_INVALID_ARGUMENT, "flops", "c.yml:3:"},
      {"shoal_cluster: 1\ndevice: 7\n", SHOAL_INVALID_ARGUMENT, "device", "c.yml:2:"},
      {"shoal_cluster: 1\ndevice:\n  bandwidth: 1e9\n  memory: 24Q\n", SHOAL_INVALID_ARGUMENT,
       "memory", "c.yml:4:"},
      {"shoal_cluster: 1\ndevice: {memory: -1}\n", SHOAL_INVALID_ARGUMENT, "memory", "c.yml:2:"},
      {"shoal_cluster: 1\ndevice: {memory: [1]}\n", SHOAL_INVALID_ARGUMENT, "memory", "c.yml:2:"},
      {"shoal_cluster: 1\nlink:\n  latency: 0\n", SHOAL_INVALID_ARGUMENT, "latency", "c.yml:3:"},
      {"shoal_cluster: 1\nlink: {latency: inf}\n", SHOAL_INVALID_ARGUMENT, "link.latency is inf",
       "c.yml:2:"},
      {"shoal_cluster: 1\nlink: {bandwidth: 1e-300}\n", SHOAL_INVALID_ARGUMENT,
       "link.bandwidth is 1e-300; it must be from 1e-40 to 1e40", "c.yml:2:"},
      {"shoal_cluster: 1\nlink: {speed: 3}\n", SHOAL_INVALID_ARGUMENT, "speed", "c.yml:2:"},
      {"shoal_cluster: 1\nnode_link: {speed: 3}\n", SHOAL_INVALID_ARGUMENT, "speed", "c.yml:2:"},
      {"shoal_cluster: 1\nnode_link: {bandwidth: -1.0}\n", SHOAL_INVALID_ARGUMENT,
       "node_link.bandwidth", "c.yml:2:"},
      {"shoal_cluster: 1\ndevice: a10\n", SHOAL_INVALID_ARGUMENT, "did you mean 'a100'?",
       "c.yml:2:"},
      {"shoal_cluster: 1\ndevice: {kind: h1000}\n", SHOAL_INVALID_ARGUMENT, "h100", "c.yml:2:"},
      {"shoal_cluster: 1\ndevice: {flops: {f8: 1.0}}\n", SHOAL_INVALID_ARGUMENT, "f8", "c.yml:2:"},
      {"shoal_cluster: 1\ndevice: {flops: {f32: 0}}\n", SHOAL_INVALID_ARGUMENT, "f32", "c.yml:2:"},
      {"shoal_cluster: 1\ndevice: {collectives: tree}\n", SHOAL_INVALID_ARGUMENT, "direct, ring",
       "c.yml:2:"},
      {"shoal_cluster: 1\nlink: {cards: 0}\n", SHOAL_INVALID_ARGUMENT, "cards", "c.yml:2:"},
      {"shoal_cluster: 1\nlink: {card: 2}\n", SHOAL_INVALID_ARGUMENT, "cards", "c.yml:2:"},
      {"shoal_cluster: 1\nnode_link: {per: switch}\n", SHOAL_INVALID_ARGUMENT, "pair", "c.yml:2:"},
      {"shoal_cluster: 1\nrack_link: {bandwidth: 1.0}\n", SHOAL_INVALID_ARGUMENT, "'nodes'",
       "c.yml:2:"},
      {"shoal_cluster: 1\nrack_link: {nodes: 4}\n", SHOAL_INVALID_ARGUMENT, "'bandwidth'",
       "c.yml:2:"},
      {"shoal_cluster: 1\nranks: 2\nnodes: [{devices: 1}]\n", SHOAL_INVALID_ARGUMENT, "ranks",
       "c.yml:2:"},
      {"shoal_cluster: 1\nnodes:\n  - {devices: 2, gpus: [0]}\n", SHOAL_INVALID_ARGUMENT,
       "not both", "c.yml:3:"},
      {"shoal_cluster: 1\nnodes:\n  - {address: a, count: 2}\n", SHOAL_INVALID_ARGUMENT,
       "one address", "c.yml:3:"},
      {"shoal_cluster: 1\nnodes:\n  - {devices: 1}\n  - {address: a}\n", SHOAL_INVALID_ARGUMENT,
       "nodes[0] has none", "c.yml:4:"},
      {"shoal_cluster: 1\nlink: {\n", SHOAL_INVALID_ARGUMENT, "c.yml", "c.yml"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    shoal_cluster_t *cluster;
    shoal_status_t status =
        shoal_cluster_parse("c.yml", cases[i].text, shoal_allocator_system(), &cluster);
    if (!status) fail_msg("case %zu is taken", i);
    const char *message = shoal_status_message(status), *hint = shoal_status_hint(status);
    if (shoal_status_code(status) != cases[i].code ||
        (!strstr(message, cases[i].key) && !strstr(hint, cases[i].key)) ||
        !strstr(message, cases[i].line))
      fail_msg("case %zu: %s: %s (%s)", i, shoal_code_name(shoal_status_code(status)), message,
               hint);
    assert_null(cluster);
    shoal_status_free(status);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_defaults), cmocka_unit_test(test_all_keys),
      cmocka_unit_test(test_presets),  cmocka_unit_test(test_print),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
