// AutoDist's resource_spec.yml: what its own files say, and errors that name line and key.
#include "base/text.h"
#include "cluster/cluster.h"
#include "unit.h"

static shoal_cluster_t *parse(const char *text) {
  shoal_cluster_t *cluster;
  assert_ok(shoal_cluster_parse("r.yml", text, shoal_allocator_system(), &cluster));
  return cluster;
}

// The shapes of AutoDist's own examples.
static const char two_nodes[] =
    "nodes:\n"
    "  - address: 10.0.0.1\n"
    "    gpus: [0, 1]\n"
    "    chief: true\n"
    "    network_bandwidth: 100\n"
    "  - address: 10.0.0.2\n"
    "    cpus: [0, 1, 2]\n"
    "    ssh_config: conf1\n"
    "    network_bandwidth: 25\n"
    "  - address: host-3.lan\n"
    "    cpus: [2]\n"
    "    gpus: [3]\n"
    "    ssh_config: conf2\n"
    "    network_bandwidth: 40\n"
    "ssh:\n"
    "  conf1:\n"
    "    username: 'root'\n"
    "    key_file: '/keys/id_rsa'\n"
    "    python_venv: 'source /env/bin/activate'\n"
    "    shared_envs:\n"
    "      LD_LIBRARY_PATH: '$LD_LIBRARY_PATH:/usr/local/cuda/lib64'\n"
    "      RETRIES: 3\n"
    "  conf2:\n"
    "    username: me\n"
    "    port: 12345\n";

static void test_autodist(void **state) {
  (void)state;
  shoal_cluster_t *cluster = parse(two_nodes);
  assert_int_equal(cluster->group_count, 3);
  assert_int_equal(shoal_cluster_ranks(cluster), 2 + 3 + 1);
  const shoal_cluster_nodes_t *n = cluster->groups;
  assert_string_equal(n[0].address, "10.0.0.1");
  assert_true(n[0].chief && !n[1].chief && !n[0].ssh);
  assert_int_equal(n[0].gpu_count, 2);
  assert_int_equal(n[1].devices, 3);
  assert_int_equal(n[2].devices, 1);
  assert_true(n[1].link.bandwidth == 25e9 / 8);
  assert_string_equal(n[1].ssh->username, "root");
  assert_string_equal(n[1].ssh->key_file, "/keys/id_rsa");
  assert_string_equal(n[1].ssh->python_venv, "source /env/bin/activate");
  assert_int_equal(n[1].ssh->port, 0);
  assert_int_equal(n[1].ssh->shared_env_count, 2);
  assert_string_equal(n[1].ssh->shared_envs[1].name, "RETRIES");
  assert_string_equal(n[1].ssh->shared_envs[1].value, "3");
  assert_int_equal(n[2].ssh->port, 12345);
  assert_ok(shoal_cluster_check_launch(cluster));
  shoal_cluster_free(cluster);

  cluster = parse("nodes: [{address: localhost, gpus: [0, 1]}]\n");
  assert_true(cluster->groups[0].chief && cluster->ranks == 2);
  shoal_cluster_free(cluster);
  cluster = parse("nodes: [{address: a, cpus: [2]}]\n");
  assert_int_equal(cluster->ranks, 2);  // CPU 0 is always there
  shoal_cluster_free(cluster);
  cluster = parse("shoal_cluster: 1\nnodes: [{address: a}]\ndevice: {flops: 7.0e9}\n");
  assert_true(shoal_cluster_device(cluster, 0)->flops[SHOAL_F64] == 7e9 && cluster->ranks == 1);
  shoal_cluster_free(cluster);
}

// Thousands of nodes by address, and millions by count: who is where costs a few steps.
static void test_many(void **state) {
  (void)state;
  shoal_text_t text;
  shoal_text_init(shoal_allocator_system(), &text);
  shoal_text_add(&text, "nodes:\n  - {address: chief, gpus: [0, 1, 2], chief: true}\n");
  for (int i = 0; i < 4000; ++i) {
    shoal_text_addf(&text, "  - {address: n%d, gpus: [0, 1], ssh_config: s}\n", i);
  }
  shoal_text_add(&text, "ssh: {s: {}}\n");
  shoal_cluster_t *cluster = parse(shoal_text_string(&text));
  assert_int_equal(cluster->ranks, 8003);
  for (int32_t rank = 0; rank < 8003; ++rank) {
    assert_int_equal(shoal_cluster_node(cluster, rank), rank < 3 ? 0 : (rank - 1) / 2);
  }
  shoal_cluster_free(cluster);
  shoal_text_deinit(&text);
  cluster = parse("shoal_cluster: 1\nnodes: [{count: 2097152, devices: 8, device: a100}]\n");
  assert_int_equal(shoal_cluster_ranks(cluster), 1 << 24);
  int64_t sum = 0;
  for (int32_t rank = 0; rank < 1 << 20; ++rank) sum += shoal_cluster_node(cluster, rank * 16);
  assert_int_equal(sum, (INT64_C(1) << 20) * ((INT64_C(1) << 20) - 1));
  shoal_cluster_free(cluster);
}

static void test_not_for_launching(void **state) {
  (void)state;
  shoal_cluster_t *cluster = parse("a100x8:2");
  assert_error(INVALID_ARGUMENT, "no nodes with an address", shoal_cluster_check_launch(cluster));
  shoal_cluster_free(cluster);
  cluster = parse("shoal_cluster: 1\n");
  assert_error(INVALID_ARGUMENT, "no nodes with an address", shoal_cluster_check_launch(cluster));
  shoal_cluster_free(cluster);
}

static void test_errors(void **state) {
  (void)state;
  static const struct {
    const char *text, *line, *what;
  } cases[] = {
      {"nodes: []\n", "r.yml:1:", "nodes"},
      {"nodes: 7\n", "r.yml:1:", "nodes"},
      {"ssh: {}\n", "r.yml", "shoal_cluster"},
      {"nodes:\n  - gpus: [0]\n", "r.yml:2:", "address"},
      {"nodes:\n  - address: a\n    gpu: [0]\n", "r.yml:", "did you mean 'gpus'?"},
      {"nodes:\n  - address: a\n    gpus: 2\n", "r.yml:3:", "gpus"},
      {"nodes:\n  - address: a\n    gpus: [0, x]\n", "r.yml:3:", "gpus[1]"},
      {"nodes:\n  - address: a\n    gpus: [1, 1]\n", "r.yml:3:", "again"},
      {"nodes:\n  - address: a\n    cpus: [-1]\n", "r.yml:3:", "cpus[0]"},
      {"nodes:\n  - address: 'a b'\n", "r.yml:2:", "address"},
      {"nodes:\n  - address: '-oProxyCommand=x'\n", "r.yml:2:", "address"},
      {"nodes:\n  - address: a\n    chief: maybe\n", "r.yml:3:", "chief"},
      {"nodes:\n  - address: a\n    network_bandwidth: 0\n", "r.yml:3:", "network_bandwidth"},
      {"nodes:\n  - address: a\n  - address: b\n", "r.yml:", "chief: true"},
      {"nodes:\n  - {address: a, chief: true}\n  - address: b\n", "r.yml:3:", "ssh_config"},
      {"nodes:\n  - {address: a, chief: true}\n  - {address: b, chief: true}\n",
       "r.yml:3:", "second"},
      {"nodes:\n  - {address: a, chief: true}\n  - {address: b, ssh_config: c}\n",
       "r.yml:3:", "'c'"},
      {"nodes:\n  - {address: a, chief: true}\n  - {address: a, ssh_config: c}\nssh: {c: {}}\n",
       "r.yml:3:", "already"},
      {"nodes:\n  - {address: a, chief: true}\n  - {address: 127.0.0.1, ssh_config: c}\nssh: {c: "
       "{}}\n",
       "r.yml:3:", "127.0.0.1"},
      {"nodes: [{address: a}]\nssh:\n  c: {usrname: me}\n", "r.yml:", "username"},
      {"nodes: [{address: a}]\nssh:\n  c: {port: 0}\n", "r.yml:3:", "port"},
      {"nodes: [{address: a}]\nssh:\n  c: {shared_envs: [1]}\n", "r.yml:3:", "shared_envs"},
      {"nodes: [{address: a}]\nssh:\n  c: {shared_envs: {'X[s': 1}}\n", "r.yml:3:", "variable"},
      {"nodes: [{address: a}]\nssh:\n  c: 3\n", "r.yml:3:", "ssh.c"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    shoal_cluster_t *cluster;
    shoal_status_t status =
        shoal_cluster_parse("r.yml", cases[i].text, shoal_allocator_system(), &cluster);
    if (!status) fail_msg("case %zu is taken", i);
    const char *message = shoal_status_message(status), *hint = shoal_status_hint(status);
    if (!strstr(message, cases[i].line) ||
        (!strstr(message, cases[i].what) && !strstr(hint, cases[i].what))) {
      fail_msg("case %zu: %s (%s)", i, message, hint);
    }
    shoal_status_free(status);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_autodist),
      cmocka_unit_test(test_many),
      cmocka_unit_test(test_not_for_launching),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
