// Shoal, simulate: what a program would take on a described cluster, without running it.
#ifndef SHOAL_SIMULATE_H_
#define SHOAL_SIMULATE_H_

#include "shoal/cluster.h"
#include "shoal/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_simulation {
  double seconds;          // of one run of the graph, on the slowest class
  double compute_seconds;  // of that class, on the compute queue
  double comm_seconds;     // of that class, on the communication queue
  double comm_bytes;       // sent by a rank of that class
  int64_t arena_bytes;     // the largest of all classes
} shoal_simulation_t;

// Simulates one run of a graph: per class the first rank, instruction by instruction, queues
// overlapping as the waits allow; a kernel takes the longer of flops and bytes, a message latency
// plus bytes. Waiting for another class is not modelled yet. Not collective.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_simulate(const shoal_program_t *program,
                                                       const char *graph,
                                                       const shoal_cluster_t *cluster,
                                                       shoal_allocator_t allocator,
                                                       shoal_simulation_t *out_simulation);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_SIMULATE_H_
