// AutoDist's resource_spec.yml: what its own files say, and errors that name line and key.
#include "base/arena.h"
#include "cluster/nodes.h"
#include "shoal/cluster.h"
#include "unit.h"

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
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_cluster_nodes_t nodes;
  assert_ok(shoal_cluster_nodes_parse("r.yml", two_nodes, &arena, &nodes));
  assert_int_equal(nodes.count, 3);
  assert_int_equal(nodes.chief, 0);
  assert_int_equal(nodes.ranks, 2 + 3 + 1);
  const shoal_cluster_node_t *n = nodes.items;
  assert_string_equal(n[0].address, "10.0.0.1");
  assert_true(n[0].chief && !n[1].chief && !n[0].ssh);
  assert_int_equal(n[0].gpus, 2);
  assert_int_equal(n[0].cpus, 1);
  assert_int_equal(n[1].ranks, 3);
  assert_int_equal(n[2].ranks, 1);
  assert_int_equal(n[2].cpus, 2);  // CPU 0 is always there
  assert_true(n[1].network_bandwidth == 25e9 / 8);
  assert_string_equal(n[1].ssh->username, "root");
  assert_string_equal(n[1].ssh->key_file, "/keys/id_rsa");
  assert_string_equal(n[1].ssh->python_venv, "source /env/bin/activate");
  assert_int_equal(n[1].ssh->port, 0);
  assert_int_equal(n[1].ssh->shared_env_count, 2);
  assert_string_equal(n[1].ssh->shared_envs[1].name, "RETRIES");
  assert_string_equal(n[1].ssh->shared_envs[1].value, "3");
  assert_int_equal(n[2].ssh->port, 12345);

  shoal_cluster_t cluster;
  assert_ok(shoal_cluster_parse("r.yml", two_nodes, &cluster));
  assert_int_equal(cluster.ranks, 6);
  assert_true(cluster.link_bandwidth == 25e9 / 8);

  const char alone[] = "nodes: [{address: localhost, gpus: [0, 1]}]\n";
  assert_ok(shoal_cluster_nodes_parse("r.yml", alone, &arena, &nodes));
  assert_true(nodes.items[0].chief && nodes.ranks == 2);
  assert_ok(shoal_cluster_parse("r.yml", alone, &cluster));
  assert_true(cluster.link_bandwidth == shoal_cluster_default().link_bandwidth);
  assert_ok(shoal_cluster_parse(
      "r.yml", "shoal_cluster: 1\nnodes: [{address: a}]\ndevice: {flops: 7.0e9}\n", &cluster));
  assert_true(cluster.flops == 7e9 && cluster.ranks == 1);
  shoal_arena_deinit(&arena);
}

static void test_errors(void **state) {
  (void)state;
  static const struct {
    const char *text, *line, *what;
  } cases[] = {
      {"nodes: []\n", "r.yml:1:", "nodes"},
      {"nodes: 7\n", "r.yml:1:", "nodes"},
      {"ssh: {}\n", "r.yml", "nodes"},
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
      {"nodes: [{address: a}]\nssh:\n  c: 3\n", "r.yml:3:", "ssh.c"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    shoal_arena_t arena;
    shoal_arena_init(shoal_allocator_system(), &arena);
    shoal_cluster_nodes_t nodes;
    shoal_status_t status = shoal_cluster_nodes_parse("r.yml", cases[i].text, &arena, &nodes);
    if (!status) fail_msg("case %zu is taken", i);
    const char *message = shoal_status_message(status), *hint = shoal_status_hint(status);
    if (!strstr(message, cases[i].line) ||
        (!strstr(message, cases[i].what) && !strstr(hint, cases[i].what))) {
      fail_msg("case %zu: %s (%s)", i, message, hint);
    }
    shoal_status_free(status);
    shoal_arena_deinit(&arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_autodist),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
