// Links of a cluster file; see links.h.
#include "cluster/links.h"

#include "base/status.h"
#include "base/yaml.h"
#include "cluster/nodes.h"
#include "shoal/cluster.h"

// The chief's ranks are the first.
static const shoal_cluster_node_t *node_at(const shoal_cluster_nodes_t *nodes, int64_t i) {
  if (i == 0) return &nodes->items[nodes->chief];
  return &nodes->items[i <= nodes->chief ? i - 1 : i];
}

static shoal_status_t read_nodes(const shoal_json_t *root, shoal_arena_t *arena,
                                 shoal_cluster_links_t *links) {
  if (!shoal_json_find(root, "nodes")) return NULL;
  shoal_cluster_nodes_t nodes;
  SHOAL_RETURN_IF_ERROR(shoal_cluster_nodes_read(root, arena, &nodes));
  int32_t *ranks = SHOAL_NEW(arena, int32_t, nodes.count);
  double *bandwidths = SHOAL_NEW(arena, double, nodes.count);
  if (!ranks || !bandwidths) return SHOAL_OOM();
  for (int64_t i = 0; i < nodes.count; ++i) {
    ranks[i] = node_at(&nodes, i)->ranks;
    bandwidths[i] = node_at(&nodes, i)->network_bandwidth;
  }
  links->nodes = (int32_t)nodes.count;
  links->ranks = nodes.ranks;
  links->node_ranks = ranks;
  links->network_bandwidths = bandwidths;
  return NULL;
}

shoal_status_t shoal_cluster_links_parse(const char *name, const char *text, shoal_arena_t *arena,
                                         shoal_cluster_links_t *out_links) {
  shoal_cluster_t cluster;
  SHOAL_RETURN_IF_ERROR(shoal_cluster_parse(name, text, &cluster));  // checks all keys
  const shoal_json_t *root;
  SHOAL_RETURN_IF_ERROR(shoal_yaml_parse(name, text, arena, &root));
  const shoal_json_t *link = shoal_json_find(root, "link");
  shoal_cluster_links_t links = {
      .ranks = cluster.ranks,
      .has_bandwidth = link && shoal_json_find(link, "bandwidth"),
      .link = {cluster.link_latency, cluster.link_bandwidth},
      .node_link = {cluster.node_link_latency, cluster.node_link_bandwidth}};
  SHOAL_RETURN_IF_ERROR(read_nodes(root, arena, &links));
  if (links.nodes == 0 && !link) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "add `link: {latency: 50.0e-6, bandwidth: 125.0e6}`",
                            "%s describes no link: it has neither `link` nor `nodes`", name);
  }
  if (links.nodes == 1 && links.node_link.bandwidth == 0) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                            "add `node_link: {latency: 1.0e-6, bandwidth: 1.0e9}`",
                            "%s describes no link: it has one node and no `node_link`",
                            shoal_json_find(root, "nodes")->path);
  }
  *out_links = links;
  return NULL;
}

int32_t shoal_cluster_links_node(const shoal_cluster_links_t *links, int32_t rank) {
  if (links->nodes == 0) return rank;
  int32_t node = 0;
  while (node + 1 < links->nodes && rank >= links->node_ranks[node]) {
    rank -= links->node_ranks[node++];
  }
  return node;
}

shoal_cluster_link_t shoal_cluster_links_between(const shoal_cluster_links_t *links, int32_t from,
                                                 int32_t to) {
  if (from == to) return (shoal_cluster_link_t){0};
  const int32_t a = shoal_cluster_links_node(links, from), b = shoal_cluster_links_node(links, to);
  if (a == b) return links->node_link;
  shoal_cluster_link_t link = links->link;
  if (links->nodes > 0 && !links->has_bandwidth) {
    const double *bandwidths = links->network_bandwidths;
    link.bandwidth = bandwidths[a] < bandwidths[b] ? bandwidths[a] : bandwidths[b];
  }
  return link;
}
