// Links between the ranks of a cluster file: who is on which node, what lies between them, and
// errors of files that describe none.
#include "cluster/cluster.h"
#include "unit.h"

static shoal_cluster_t *parse(const char *text) {
  shoal_cluster_t *cluster;
  assert_ok(shoal_cluster_parse("c.yml", text, shoal_allocator_system(), &cluster));
  assert_ok(shoal_cluster_check_links(cluster, "c.yml"));
  return cluster;
}

static void expect(const shoal_cluster_t *links, int32_t a, int32_t b, double latency,
                   double bandwidth) {
  const shoal_cluster_link_t there = shoal_cluster_between(links, a, b);
  const shoal_cluster_link_t back = shoal_cluster_between(links, b, a);
  assert_true(there.latency == latency && there.bandwidth == bandwidth);
  assert_true(back.latency == latency && back.bandwidth == bandwidth);
}

static const char nodes[] =
    "nodes:\n"
    "  - {address: a, cpus: [0, 1], ssh_config: s, network_bandwidth: 8}\n"
    "  - {address: b, gpus: [0, 1, 2], chief: true, network_bandwidth: 16}\n"
    "  - {address: c, ssh_config: s}\n"
    "ssh: {s: {}}\n";

static void test_nodes(void **state) {
  (void)state;
  const double latency = shoal_cluster_between(shoal_cluster_default(), 0, 1).latency;
  shoal_cluster_t *links = parse(nodes);
  // The chief's three ranks first, then a's two, then c's one.
  const int32_t on[] = {0, 0, 0, 1, 1, 2};
  assert_int_equal(shoal_cluster_ranks(links), 6);
  for (int32_t i = 0; i < 6; ++i) assert_int_equal(shoal_cluster_node(links, i), on[i]);
  expect(links, 0, 0, 0, 0);
  expect(links, 0, 2, 0, 0);          // one node, no node_link
  expect(links, 2, 3, latency, 1e9);  // the slower of 16 and 8 Gbit/s
  expect(links, 4, 5, latency, 125e6);
  shoal_cluster_free(links);
}

static void test_link_and_node_link(void **state) {
  (void)state;
  char text[1000];
  snprintf(text, sizeof text,
           "%sshoal_cluster: 1\nlink: {latency: 0.5, bandwidth: 7.0}\n"
           "node_link: {latency: 0.25, bandwidth: 9.0}\n",
           nodes);
  shoal_cluster_t *links = parse(text);
  expect(links, 0, 5, 0.5, 7);
  expect(links, 0, 1, 0.25, 9);
  snprintf(text, sizeof text, "%sshoal_cluster: 1\nlink: {latency: 0.5}\n", nodes);
  shoal_cluster_free(links);
  links = parse(text);
  expect(links, 0, 5, 0.5, 125e6);  // only the latency is said for all
  // Without nodes every rank has its own.
  shoal_cluster_free(links);
  links = parse("shoal_cluster: 1\nlink: {latency: 0.5, bandwidth: 7.0}\n");
  assert_int_equal(shoal_cluster_ranks(links), 0);
  assert_int_equal(shoal_cluster_node(links, 77), 77);
  expect(links, 3, 77, 0.5, 7);
  expect(links, 3, 3, 0, 0);
  shoal_cluster_free(links);
  // What is said for one node counts more than what is said for all.
  links = parse(
      "shoal_cluster: 1\nlink: {latency: 0.5, bandwidth: 7.0}\nnodes:\n"
      "  - {count: 2, devices: 2, link: {bandwidth: 5.0},\n"
      "     node_link: {latency: 1.0, bandwidth: 2.0}}\n"
      "  - {count: 2, devices: 2}\n");
  expect(links, 0, 2, 0.5, 5);
  expect(links, 3, 4, 0.5, 5);
  expect(links, 4, 6, 0.5, 7);
  expect(links, 2, 3, 1, 2);
  expect(links, 4, 5, 0, 0);
  shoal_cluster_free(links);
}

static void test_errors(void **state) {
  (void)state;
  static const struct {
    const char *text, *part;
  } cases[] = {
      {"shoal_cluster: 1\n", "c.yml describes no link"},
      {"shoal_cluster: 1\nnode_link: {latency: 1.0}\n", "neither `link` nor `nodes`"},
      {"nodes: [{address: a, cpus: [0, 1]}]\n", "one node and no `node_link`"},
      {"nodes: [{address: a}]\nshoal_cluster: 1\nlink: {latency: 1.0}\n", "no `node_link`"},
      {"shoal_cluster: 1\nlinks: {latency: 1.0}\n", "did you mean 'link'"},
      {"shoal_cluster: 1\nlink: {latency: 0}\n", "c.yml:2: link.latency"},
      {"nodes: []\n", "nodes"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    shoal_cluster_t *cluster;
    shoal_status_t status =
        shoal_cluster_parse("c.yml", cases[i].text, shoal_allocator_system(), &cluster);
    if (!status) status = shoal_cluster_check_links(cluster, "c.yml");
    assert_error(INVALID_ARGUMENT, cases[i].part, status);
    shoal_cluster_free(cluster);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_nodes),
      cmocka_unit_test(test_link_and_node_link),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
