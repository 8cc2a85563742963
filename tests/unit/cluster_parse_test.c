// Cluster files: what is read, and errors that name line and key.
#include "shoal/cluster.h"
#include "unit.h"

static void test_defaults(void **state) {
  (void)state;
  shoal_cluster_t none = shoal_cluster_default(), cluster;
  assert_ok(shoal_cluster_parse("c.yml", "shoal_cluster: 1\n", &cluster));
  assert_int_equal(cluster.ranks, 0);
  assert_int_equal(cluster.memory, 0);
  assert_true(cluster.flops == none.flops && none.flops > 0);
  assert_true(cluster.memory_bandwidth == none.memory_bandwidth && none.memory_bandwidth > 0);
  assert_true(cluster.link_latency == none.link_latency && none.link_latency > 0);
  assert_true(cluster.node_link_latency == 0 && cluster.node_link_bandwidth == 0);
  assert_true(cluster.link_bandwidth == none.link_bandwidth && none.link_bandwidth > 0);
}

static void test_all_keys(void **state) {
  (void)state;
  shoal_cluster_t cluster;
  assert_ok(shoal_cluster_parse("c.yml",
                                "shoal_cluster: 1   # a comment\n"
                                "ranks: 8\n"
                                "device: {flops: 1.0e11, bandwidth: 20000000000, memory: 24G}\n"
                                "link:\n"
                                "  latency: 2.0e-6\n"
                                "  bandwidth: 5.0e9\n"
                                "node_link: {latency: 1.0e-7}\n",
                                &cluster));
  assert_int_equal(cluster.ranks, 8);
  assert_true(cluster.flops == 1e11);
  assert_true(cluster.memory_bandwidth == 2e10);
  assert_true(cluster.memory == INT64_C(24) << 30);
  assert_true(cluster.link_latency == 2e-6);
  assert_true(cluster.link_bandwidth == 5e9);
  assert_true(cluster.node_link_latency == 1e-7);
  assert_true(cluster.node_link_bandwidth == shoal_cluster_default().link_bandwidth);
  assert_ok(shoal_cluster_parse("c.yml", "shoal_cluster: 1\ndevice: {memory: 4096}\n", &cluster));
  assert_int_equal(cluster.memory, 4096);
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
      {"shoal_cluster: 1\nlink: {speed: 3}\n", SHOAL_INVALID_ARGUMENT, "speed", "c.yml:2:"},
      {"shoal_cluster: 1\nnode_link: {speed: 3}\n", SHOAL_INVALID_ARGUMENT, "speed", "c.yml:2:"},
      {"shoal_cluster: 1\nnode_link: {bandwidth: -1.0}\n", SHOAL_INVALID_ARGUMENT,
       "node_link.bandwidth", "c.yml:2:"},
      {"shoal_cluster: 1\nlink: {\n", SHOAL_INVALID_ARGUMENT, "c.yml", "c.yml"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    shoal_cluster_t cluster = {.ranks = 77};
    shoal_status_t status = shoal_cluster_parse("c.yml", cases[i].text, &cluster);
    if (!status) fail_msg("case %zu is taken", i);
    const char *message = shoal_status_message(status), *hint = shoal_status_hint(status);
    if (shoal_status_code(status) != cases[i].code ||
        (!strstr(message, cases[i].key) && !strstr(hint, cases[i].key)) ||
        !strstr(message, cases[i].line))
      fail_msg("case %zu: %s: %s (%s)", i, shoal_code_name(shoal_status_code(status)), message,
               hint);
    assert_int_equal(cluster.ranks, 77);  // nothing is written
    shoal_status_free(status);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_defaults),
      cmocka_unit_test(test_all_keys),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
