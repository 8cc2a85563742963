// The links of a cluster file, between any two of its ranks: what a slowed-down world needs.
//
// Ranks are dealt to nodes as the launcher does: the chief's first, then node by node in file
// order. A file without `nodes` gives every rank a node of its own, so that `link` is between all.
#ifndef SHOAL_CLUSTER_LINKS_H_
#define SHOAL_CLUSTER_LINKS_H_

#include "base/arena.h"

typedef struct shoal_cluster_link {
  double latency;    // seconds
  double bandwidth;  // bytes per second; 0: there is no link, nothing is delayed
} shoal_cluster_link_t;

typedef struct shoal_cluster_links {
  int32_t ranks;                     // that the file describes; 0: any number
  int32_t nodes;                     // 0: as many as ranks
  const int32_t *node_ranks;         // on each
  const double *network_bandwidths;  // of each, bytes per second
  bool has_bandwidth;                // `link` says it for all nodes
  shoal_cluster_link_t link;         // between nodes
  shoal_cluster_link_t node_link;    // between ranks of one node
} shoal_cluster_links_t;

// Reads a cluster file's text; errors name line and key. A file that delays nothing is one.
// Results live in the arena.
SHOAL_MUST_USE shoal_status_t shoal_cluster_links_parse(const char *name, const char *text,
                                                        shoal_arena_t *arena,
                                                        shoal_cluster_links_t *out_links);
// Which node a rank is on, of those described.
int32_t shoal_cluster_links_node(const shoal_cluster_links_t *links, int32_t rank);
// What lies between two ranks of different nodes, or of one; a rank and itself have no link. The
// slower of two nodes' network_bandwidth counts, unless `link` has a bandwidth.
shoal_cluster_link_t shoal_cluster_links_between(const shoal_cluster_links_t *links, int32_t from,
                                                 int32_t to);

#endif  // SHOAL_CLUSTER_LINKS_H_
