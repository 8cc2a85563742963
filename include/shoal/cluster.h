// Shoal, cluster: the machines a plan is for, described.
//
// YAML, all keys optional but the first:
//   shoal_cluster: 1
//   ranks: 8                 # devices, one rank each
//   device: {flops: 1.0e11, bandwidth: 2.0e10, memory: 24G}
//   link: {latency: 2.0e-6, bandwidth: 5.0e9}
//   node_link: {latency: 1.0e-6, bandwidth: 2.0e10}   # between ranks of one node; plans do not use
//                                                     it yet
// AutoDist's resource_spec.yml is taken as it is: `nodes` and `ssh`, without the first key; ranks
// are then the nodes' GPUs (CPUs where there are none), and link bandwidth the slowest node's
// network_bandwidth.
#ifndef SHOAL_CLUSTER_H_
#define SHOAL_CLUSTER_H_

#include "shoal/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_cluster {
  int32_t ranks;             // 0: as many as asked for
  double flops;              // floating-point operations per second of one device
  double memory_bandwidth;   // bytes per second of one device
  int64_t memory;            // bytes of one device; 0: unknown
  double link_latency;       // seconds per message
  double link_bandwidth;     // bytes per second of one device's link
  double node_link_latency;  // between ranks of one node; both 0: not described
  double node_link_bandwidth;
} shoal_cluster_t;

// One machine like the one this was measured on: for plans without a cluster file.
SHOAL_API shoal_cluster_t shoal_cluster_default(void);
// Parses a cluster file's text; errors name line and key.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_cluster_parse(const char *name, const char *text,
                                                            shoal_cluster_t *out_cluster);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_CLUSTER_H_
