// Shoal, cluster: the machines that ranks run on, described.
//
// One description serves launching (addresses, ssh), slowed-down links (SHOAL_COMM_THROTTLE),
// planning and simulation (rates, memory, links). It comes from a YAML file, from a *preset* such
// as "a100x8:128" (128 nodes of 8 A100), or from AutoDist's resource_spec.yml. docs/cluster.md
// describes the file's keys.
//
// Ranks are dealt to nodes in order: as many as a node has devices, the chief's node first. Every
// question about a rank costs at most the logarithm of the number of different nodes, however many
// ranks there are. Everything here is *Not collective* and does not block.
#ifndef SHOAL_CLUSTER_H_
#define SHOAL_CLUSTER_H_

#include "shoal/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_cluster shoal_cluster_t;

// What a device can do. Rates are peaks as published; a plan's estimate is the longer of computing
// and moving bytes.
typedef struct shoal_cluster_device {
  const char *name;                 // "a100", or what the file calls it
  double flops[SHOAL_DTYPE_COUNT];  // per second; of integers: as of f32
  double bandwidth;                 // bytes per second of its memory
  double host_bandwidth;            // between its memory and the host's, each way
  double disk_bandwidth;            // between the host's memory and a disk
  int64_t memory;                   // bytes; 0: not known
  bool ring;  // collectives run as rings over a hierarchy of links (NCCL); else every rank sends to
              // every other at once, as Shoal's own collectives do
} shoal_cluster_device_t;

// How far apart two ranks are, from near to far: which links a message between them passes.
typedef enum shoal_cluster_level {
  SHOAL_CLUSTER_NODE,     // inside one node
  SHOAL_CLUSTER_NETWORK,  // between nodes, over their network cards
  SHOAL_CLUSTER_RACK,     // between racks, also over the racks' uplinks
  SHOAL_CLUSTER_LEVEL_COUNT
} shoal_cluster_level_t;

typedef struct shoal_cluster_link {
  double latency;    // seconds
  double bandwidth;  // bytes per second, each way; 0: the file describes no link here
} shoal_cluster_link_t;

// Reads a cluster: the path of a file, or a preset. NULL: shoal_cluster_default's. Errors name
// file, line and key, and suggest the nearest key or kind of device.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_cluster_read(const char *path_or_preset,
                                                           shoal_allocator_t allocator,
                                                           shoal_cluster_t **out_cluster);
// The same from a file's text, which may be just a preset; `name` stands for it in messages.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_cluster_parse(const char *name, const char *text,
                                                            shoal_allocator_t allocator,
                                                            shoal_cluster_t **out_cluster);
SHOAL_API void shoal_cluster_free(shoal_cluster_t *cluster);  // NULL is allowed
// The cluster that is planned for when none is described: any number of machines with one slow core
// each.
SHOAL_API const shoal_cluster_t *shoal_cluster_default(void);
// The file's text in its full form, in the arena; it parses back to a cluster that prints the same.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_cluster_print(const shoal_cluster_t *cluster,
                                                            shoal_arena_t *arena,
                                                            const char **out_text);

// How many ranks it has room for; 0: any number.
SHOAL_API int32_t shoal_cluster_ranks(const shoal_cluster_t *cluster);
// Which node a rank is on, from 0. Ranks beyond the last device count as on the last node.
SHOAL_API int32_t shoal_cluster_node(const shoal_cluster_t *cluster, int32_t rank);
// A rank's device. Borrowed.
SHOAL_API const shoal_cluster_device_t *shoal_cluster_device(const shoal_cluster_t *cluster,
                                                             int32_t rank);
SHOAL_API shoal_cluster_level_t shoal_cluster_level(const shoal_cluster_t *cluster, int32_t from,
                                                    int32_t to);
// The link between two ranks: latencies along the path add up, and the lowest bandwidth counts.
// There is no link from a rank to itself.
SHOAL_API shoal_cluster_link_t shoal_cluster_between(const shoal_cluster_t *cluster, int32_t from,
                                                     int32_t to);
SHOAL_API const char *shoal_cluster_level_name(shoal_cluster_level_t level);  // "network"
// Kinds of devices that presets and files may name, by index; NULL after the last. Borrowed.
SHOAL_API const shoal_cluster_device_t *shoal_cluster_kind(int64_t index);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_CLUSTER_H_
