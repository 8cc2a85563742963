// The simulator's internal header: what its files share.
//
//   simulate.c  entry point, and the figures that come out
//   actors.c    what runs: classes by kind of device, and which of them share nodes
//   price.c     how long instructions take
//   channel.c   what a reshard sends
//   flow.c      which links a reshard uses, and for how long
//   place.c     how many ranks of a group are on one node, without listing the group
//   traffic.c   transfers under way, and how they share links
//   queues.c    which instruction each queue is at, and what that one waits for
//   events.c    the run: instructions and transfers that start and end
//   times.c     measured times
//   report.c    texts
#ifndef SHOAL_SIMULATE_IMPL_H_
#define SHOAL_SIMULATE_IMPL_H_

#include "base/arena.h"
#include "base/status.h"
#include "cluster/cluster.h"
#include "shoal/simulate.h"
#include "target/target.h"

#define SHOAL_SIM_LEVELS SHOAL_CLUSTER_LEVEL_COUNT
enum { SHOAL_SIM_OUT, SHOAL_SIM_IN, SHOAL_SIM_WAYS };

// ---- who runs -------------------------------------------------------------------------

// An actor: the ranks of one class on devices of one kind. They do the same at the same time, so
// that one of them is simulated for all.
typedef struct shoal_sim_actor {
  int64_t class_index;
  const shoal_class_t *rank_class;
  const shoal_order_t *order;          // of the graph; NULL: nothing to do
  const shoal_cluster_nodes_t *nodes;  // what they run on
  int32_t kind;                        // of nodes: device and links alike
  int32_t first_rank, middle_rank;
  int64_t rank_count;
  int64_t node_ranks;    // of them on one node, at most
  int64_t rack_nodes;    // nodes of one rack with them
  int32_t site, region;  // actors with the same share nodes, racks
  shoal_target_t target;
} shoal_sim_actor_t;

// A range of neighbouring ranks whose nodes are of one kind.
typedef struct shoal_sim_span {
  int64_t from, to;
  int32_t kind;
} shoal_sim_span_t;

bool shoal_sim_has_rank(const shoal_class_t *rank_class, int32_t rank);

// ---- what is sent ---------------------------------------------------------------------

// How many ranks of a group are near a given rank of it.
typedef struct shoal_sim_place {
  double count;  // of the group
  double node;   // on its node, itself included
  double rack;   // in its rack, itself included; without racks: all
} shoal_sim_place_t;

// What one rank of an actor sends and receives in one reshard.
typedef struct shoal_sim_flow {
  bool sends, receives;                            // to or from other ranks
  double bytes[SHOAL_SIM_WAYS][SHOAL_SIM_LEVELS];  // of one rank, on average
  double peers;                                    // in its node
  double latency;                                  // seconds, all rounds together
  double local;                                    // bytes copied in its own memory
} shoal_sim_flow_t;

// ---- everything -----------------------------------------------------------------------

typedef struct shoal_sim {
  const shoal_program_t *program;
  const shoal_cluster_t *cluster;
  const shoal_times_t *times;
  const char *graph;
  bool one_queue;  // all of a rank runs one after the other: calls and instructions in their order
  shoal_arena_t *arena;
  int64_t span_count;
  shoal_sim_span_t *spans;
  int64_t actor_count;
  shoal_sim_actor_t *actors;
  // Micro-batches whose parts have the same sizes are one *variant*; variant 0 is outside the loop.
  int32_t variant_count;
  int32_t *variants;         // [micro + 1]
  int32_t *variant_micros;   // the first micro-batch of each; -1
  double ***seconds;         // [actor][segment * variant_count + variant][instruction], when asked
  shoal_sim_flow_t **flows;  // [channel * variant_count + variant][actor], when asked
} shoal_sim_t;

SHOAL_MUST_USE shoal_status_t shoal_sim_find_actors(shoal_sim_t *sim);
SHOAL_MUST_USE shoal_status_t shoal_sim_find_variants(shoal_sim_t *sim);
// Seconds of a segment's instructions; reshards count what they copy in the rank's own memory.
SHOAL_MUST_USE shoal_status_t shoal_sim_segment(shoal_sim_t *sim, int64_t actor, int32_t segment,
                                                int32_t variant, const double **out_seconds);
// Gives what each actor sends and receives in a reshard. Its first channel stands for all of them.
SHOAL_MUST_USE shoal_status_t shoal_sim_reshard(shoal_sim_t *sim, const shoal_instruction_t *in,
                                                int32_t variant,
                                                const shoal_sim_flow_t **out_flows);
// Groups the actors that exchange data in a channel: those with the same number, of *out_count
// numbers. Ranks of one class on devices of two kinds need not be in one group.
SHOAL_MUST_USE shoal_status_t shoal_sim_meetings(shoal_sim_t *sim, int32_t channel,
                                                 const int32_t **out_meetings, int32_t *out_count);
// The resources that a flow uses: the rank's link inside its node, its network card, all cards of
// its node, the uplink of its rack. shoal_sim_load gives the seconds that a flow takes of each when
// nothing else uses it.
enum { SHOAL_SIM_PORT, SHOAL_SIM_CARD, SHOAL_SIM_CARDS, SHOAL_SIM_UPLINK, SHOAL_SIM_RESOURCES };
void shoal_sim_load(const shoal_sim_t *sim, const shoal_sim_actor_t *actor,
                    const shoal_sim_flow_t *flow, int way, double out_seconds[SHOAL_SIM_RESOURCES]);

// Adds a collective of a group to `flow`. `bytes` is the size of the whole value (a rank's result
// of all_gather and all_reduce, its operand of reduce_scatter).
void shoal_sim_collective(const shoal_sim_t *sim, const shoal_sim_actor_t *actor,
                          shoal_reshard_kind_t kind, double bytes, const shoal_sim_place_t *place,
                          shoal_sim_flow_t *flow);
// Latency of a message at a level.
double shoal_sim_latency(const shoal_sim_t *sim, const shoal_sim_actor_t *actor, int level);
// Counts how near the ranks are that differ from the one at `position` only along these axes (a bit
// each).
void shoal_sim_place_axes(const shoal_cluster_t *cluster, const shoal_mesh_t *mesh, uint32_t axes,
                          int64_t position, shoal_sim_place_t *out_place);
// How many of them have ranks in [from, to).
int64_t shoal_sim_count_axes(const shoal_mesh_t *mesh, uint32_t axes, int64_t position,
                             int64_t from, int64_t to);

// ---- the run --------------------------------------------------------------------------

typedef SHOAL_VEC(shoal_simulated_span_t) shoal_sim_spans_t;

// Steps that follow each other.
typedef struct shoal_sim_steps {
  int64_t count;
  int64_t counted;           // the one whose figures are taken
  double *ends;              // of each: when the last rank is through with it
  shoal_sim_spans_t *spans;  // of all; NULL: they are not asked for
} shoal_sim_steps_t;

// Runs all orders; fills in seconds, busy, waiting, exposed and sent of `groups`, one per actor.
SHOAL_MUST_USE shoal_status_t shoal_sim_run(shoal_sim_t *sim, const shoal_sim_steps_t *steps,
                                            shoal_simulated_t *groups);

// ---- measured times -------------------------------------------------------------------

// Measured seconds of an instruction; false: there are none.
// MISMATCH if one of them is of an instruction that the program does not have.
SHOAL_MUST_USE shoal_status_t shoal_times_check(const shoal_times_t *times,
                                                const shoal_program_t *program);
bool shoal_times_find(const shoal_times_t *times, int64_t class_index, const char *segment,
                      int64_t index, double *out_seconds);
// Measured link, for all levels; NULL: none.
const shoal_cluster_link_t *shoal_times_link(const shoal_times_t *times);
// Says whether queues ran concurrently.
bool shoal_times_overlap(const shoal_times_t *times);

#endif  // SHOAL_SIMULATE_IMPL_H_
