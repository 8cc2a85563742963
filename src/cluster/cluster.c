// Clusters: life, and questions about ranks. See shoal/cluster.h.
#include "cluster/cluster.h"

#include <unistd.h>

#include "base/file.h"
#include "base/status.h"

// ---- life -----------------------------------------------------------------------------

void shoal_cluster_free(shoal_cluster_t *cluster) {
  if (cluster) shoal_arena_free(cluster->arena);  // the cluster lies in it
}

shoal_status_t shoal_cluster_read(const char *path_or_preset, shoal_allocator_t allocator,
                                  shoal_cluster_t **out_cluster) {
  *out_cluster = NULL;
  if (!allocator.alloc) allocator = shoal_allocator_system();
  const char *text = path_or_preset ? path_or_preset : "shoal_cluster: 1";
  const char *name = path_or_preset ? path_or_preset : "default";
  // A file of that name comes first: nobody's file is hidden by a kind that is added later.
  if (!path_or_preset || (shoal_cluster_is_preset(text) && access(path_or_preset, F_OK) != 0)) {
    return shoal_cluster_parse(name, text, allocator, out_cluster);
  }
  shoal_arena_t arena;
  shoal_arena_init(allocator, &arena);
  int64_t size;
  shoal_status_t status = shoal_file_read(path_or_preset, &arena, &text, &size);
  if (!status) status = shoal_cluster_parse(path_or_preset, text, allocator, out_cluster);
  shoal_arena_deinit(&arena);
  return status;
}

shoal_status_t shoal_cluster_number(shoal_cluster_nodes_t *groups, int64_t count,
                                    shoal_cluster_t *cluster) {
  int64_t ranks = 0, nodes = 0;
  for (int64_t i = 0; i < count; ++i) {
    groups[i].first_rank = (int32_t)ranks;
    groups[i].first_node = (int32_t)nodes;
    nodes += groups[i].count;
    ranks += (int64_t)groups[i].count * groups[i].devices;
    if (ranks > SHOAL_CLUSTER_MAX_RANKS) {
      return SHOAL_ERROR(UNSUPPORTED, "a cluster of more than %d devices", SHOAL_CLUSTER_MAX_RANKS);
    }
  }
  cluster->ranks = (int32_t)ranks;
  cluster->node_count = (int32_t)nodes;
  cluster->groups = groups;
  cluster->group_count = count;
  return NULL;
}

// ---- ranks ----------------------------------------------------------------------------

int32_t shoal_cluster_ranks(const shoal_cluster_t *cluster) {
  return cluster->ranks;
}

const shoal_cluster_nodes_t *shoal_cluster_group(const shoal_cluster_t *cluster, int32_t rank) {
  int64_t low = 0, high = cluster->group_count - 1;  // the last whose first rank is not behind it
  while (low < high) {
    const int64_t middle = high - (high - low) / 2;
    if (cluster->groups[middle].first_rank <= rank) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return &cluster->groups[low];
}

const shoal_cluster_nodes_t *shoal_cluster_group_of_node(const shoal_cluster_t *cluster,
                                                         int32_t node) {
  int64_t low = 0, high = cluster->group_count - 1;
  while (low < high) {
    const int64_t middle = high - (high - low) / 2;
    if (cluster->groups[middle].first_node <= node) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return &cluster->groups[low];
}

int32_t shoal_cluster_node(const shoal_cluster_t *cluster, int32_t rank) {
  const shoal_cluster_nodes_t *group = shoal_cluster_group(cluster, rank);
  const int32_t node = (rank - group->first_rank) / group->devices;
  return group->first_node + (node < group->count ? node : group->count - 1);
}

void shoal_cluster_node_ranks(const shoal_cluster_t *cluster, int32_t node, int32_t *out_first,
                              int32_t *out_end) {
  const shoal_cluster_nodes_t *group = shoal_cluster_group_of_node(cluster, node);
  *out_first = group->first_rank + (node - group->first_node) * group->devices;
  *out_end = *out_first + group->devices;
}

int32_t shoal_cluster_card(const shoal_cluster_t *cluster, int32_t rank) {
  const shoal_cluster_nodes_t *group = shoal_cluster_group(cluster, rank);
  int32_t first, end;
  shoal_cluster_node_ranks(cluster, shoal_cluster_node(cluster, rank), &first, &end);
  if (group->cards >= group->devices) return rank;
  // Device i has card i * cards / devices; the first with that card is the ceiling of its inverse.
  const int64_t card = (int64_t)(rank - first) * group->cards / group->devices;
  return first + (int32_t)((card * group->devices + group->cards - 1) / group->cards);
}

int32_t shoal_cluster_port(const shoal_cluster_t *cluster, int32_t rank) {
  if (shoal_cluster_group(cluster, rank)->per != SHOAL_CLUSTER_PER_NODE) return rank;
  int32_t first, end;
  shoal_cluster_node_ranks(cluster, shoal_cluster_node(cluster, rank), &first, &end);
  return first;
}

const shoal_cluster_device_t *shoal_cluster_device(const shoal_cluster_t *cluster, int32_t rank) {
  return &shoal_cluster_group(cluster, rank)->device;
}

shoal_cluster_level_t shoal_cluster_level(const shoal_cluster_t *cluster, int32_t from,
                                          int32_t to) {
  const int32_t a = shoal_cluster_node(cluster, from), b = shoal_cluster_node(cluster, to);
  if (a == b) return SHOAL_CLUSTER_NODE;
  const int32_t rack = cluster->rack_nodes;
  return rack > 0 && a / rack != b / rack ? SHOAL_CLUSTER_RACK : SHOAL_CLUSTER_NETWORK;
}

static double smaller(double a, double b) {
  return a < b ? a : b;
}

shoal_cluster_link_t shoal_cluster_between(const shoal_cluster_t *cluster, int32_t from,
                                           int32_t to) {
  if (from == to) return (shoal_cluster_link_t){0};
  const shoal_cluster_nodes_t *a = shoal_cluster_group(cluster, from);
  const shoal_cluster_nodes_t *b = shoal_cluster_group(cluster, to);
  const shoal_cluster_level_t level = shoal_cluster_level(cluster, from, to);
  if (level == SHOAL_CLUSTER_NODE) {
    return a->has_node_link ? a->node_link : (shoal_cluster_link_t){0};
  }
  shoal_cluster_link_t link = {
      .latency = a->link.latency > b->link.latency ? a->link.latency : b->link.latency,
      .bandwidth = smaller(a->link.bandwidth, b->link.bandwidth)};
  if (level == SHOAL_CLUSTER_RACK) {
    link.latency += cluster->rack_link.latency;
    link.bandwidth = smaller(link.bandwidth, cluster->rack_link.bandwidth);
  }
  return link;
}

const char *shoal_cluster_level_name(shoal_cluster_level_t level) {
  static const char *const names[] = {[SHOAL_CLUSTER_NODE] = "node",
                                      [SHOAL_CLUSTER_NETWORK] = "network",
                                      [SHOAL_CLUSTER_RACK] = "rack"};
  return (unsigned)level < SHOAL_CLUSTER_LEVEL_COUNT ? names[level] : "?";
}

// ---- fit for what? --------------------------------------------------------------------

shoal_status_t shoal_cluster_check_launch(const shoal_cluster_t *cluster) {
  if (cluster->has_nodes && cluster->groups[0].address) return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "list them: `nodes: [{address: ..., gpus: [0, 1]}]`",
                          "the cluster has no nodes with an address, so nothing can be started on "
                          "them");
}

shoal_status_t shoal_cluster_check_links(const shoal_cluster_t *cluster, const char *name) {
  if (!cluster->has_nodes && !cluster->has_link) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "add `link: {latency: 50.0e-6, bandwidth: 125.0e6}`",
                            "%s describes no link: it has neither `link` nor `nodes`", name);
  }
  if (cluster->has_nodes && cluster->node_count == 1 && !cluster->groups[0].has_node_link) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                            "add `node_link: {latency: 1.0e-6, bandwidth: 1.0e9}`",
                            "%s describes no link: it has one node and no `node_link`", name);
  }
  return NULL;
}
