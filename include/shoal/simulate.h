// Shoal, simulate: what a run of a program would take on a described cluster, without running it.
//
// Every segment is priced once for each class of ranks and kind of device; then the classes' orders
// run as discrete events. Modelled are: queues in order, call after call and step after step; waits
// across queues, in a call and for earlier calls; ranks that wait for each other at communication;
// messages that only send and are not waited for; and transfers that share links. It costs classes
// and instructions, not ranks.
//
// A graph is run twice: once alone, and then several times in a row, as training does, where a run
// may begin before the one before it has ended; at most two are under way, as in a session.
//
// A price is the longer of computing and moving bytes at the device's rates; a message costs
// latency plus bytes over the links it passes. Measured times may take their place (shoal_times_t).
#ifndef SHOAL_SIMULATE_H_
#define SHOAL_SIMULATE_H_

#include "shoal/cluster.h"
#include "shoal/program.h"

#ifdef __cplusplus
extern "C" {
#endif

// Times that were measured (`shoal train --times-out`): instructions' seconds, links' latency and
// bandwidth. docs/cluster.md describes the file.
typedef struct shoal_times shoal_times_t;
// Reads a times file's text; errors name the key. Not collective.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_times_parse(const char *name, const char *text,
                                                          shoal_allocator_t allocator,
                                                          shoal_times_t **out_times);
SHOAL_API void shoal_times_free(shoal_times_t *times);  // NULL is allowed

typedef struct shoal_simulate_options {
  shoal_allocator_t allocator;     // zero: the system's
  const char *graph;               // NULL: "train"
  const shoal_cluster_t *cluster;  // NULL: shoal_cluster_default. Borrowed during the call
  const shoal_times_t *times;      // NULL: everything is priced. Borrowed during the call
  bool spans;                      // keep what ran when, for shoal_simulation_trace
} shoal_simulate_options_t;

typedef struct shoal_simulated_queue {
  const char *name;  // in the class
  shoal_queue_kind_t kind;
  double busy;  // seconds that it works
} shoal_simulated_queue_t;

// The ranks of one class that have devices of one kind: they do the same at the same time. Figures
// are of a run alone, if they do not say otherwise.
typedef struct shoal_simulated {
  int64_t class_index;
  int64_t rank_count;
  int32_t first_rank;
  const char *device;                   // name of their kind
  double seconds;                       // until the last of their instructions is done
  double busy[SHOAL_QUEUE_KIND_COUNT];  // seconds that their queues work, by kind; comm: that data
                                        // moves
  double waiting;                       // seconds that their comm queue waits for other ranks
  double bubble;                        // seconds of the run that their compute queue has no work
  // Of a run in a row: seconds that its communication moves data (several queues add up), how many
  // of these their compute queue has no work, and the share of communication that work hides:
  // 1 - exposed / communication; 1 where there is none.
  double communication, exposed, hidden;
  double sent[SHOAL_CLUSTER_LEVEL_COUNT];  // bytes one of them sends over each level
  int64_t arena_bytes;                     // memory that one of them plans
  int64_t memory;                          // that its device has; 0: not known
  int32_t queue_count;                     // of the class
  shoal_simulated_queue_t *queues;
} shoal_simulated_t;

typedef struct shoal_simulation {
  shoal_arena_t *arena;  // owns everything here
  const char *graph;
  int32_t world;
  double seconds;       // of one run of the graph alone: the last rank's end
  double step_seconds;  // of each run of many in a row: from one's end to the next one's
  int64_t steps;        // in a row that were simulated; 1: no run begins before the last has ended
  int64_t count;        // of `groups`
  int64_t slowest;      // index of the one whose compute queue works longest
  const shoal_simulated_t *groups;
  double bytes[SHOAL_CLUSTER_LEVEL_COUNT];  // all that is sent, by all ranks
  int64_t arena_bytes;                      // the largest arena
  bool fits;                                // every arena into its device's memory, as far as known
  int64_t span_count;
  const struct shoal_simulated_span *spans;  // of the runs in a row
} shoal_simulation_t;

typedef struct shoal_simulated_span {
  int64_t group;               // index into `groups`
  int32_t queue;               // index into the group's queues
  bool waits;                  // for other ranks; else it works
  const char *name, *segment;  // of the instruction
  int32_t instruction;         // index in the segment
  int32_t step;                // which of the runs in a row, from 0
  int64_t call;                // index in the order
  int32_t micro;
  double start, end;
} shoal_simulated_span_t;

// Simulates runs of a graph. NOT_FOUND: the program has no such graph; INVALID_ARGUMENT: the
// cluster has fewer devices than the program has ranks; MISMATCH: the times are of another program,
// or ranks wait for each other for ever (the program was not checked). Not collective.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_simulate(const shoal_program_t *program,
                                                       const shoal_simulate_options_t *options,
                                                       shoal_simulation_t **out_simulation);
SHOAL_API void shoal_simulation_free(shoal_simulation_t *simulation);  // NULL is allowed

// Texts, in the arena: a report to read, the same figures as JSON, and a trace for
// chrome://tracing or ui.perfetto.dev, one track for each group and queue (needs `spans`).
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_simulation_report(
    const shoal_simulation_t *simulation, shoal_arena_t *arena, const char **out_text);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_simulation_json(const shoal_simulation_t *simulation,
                                                              shoal_arena_t *arena,
                                                              const char **out_text);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_simulation_trace(const shoal_simulation_t *simulation,
                                                               shoal_arena_t *arena,
                                                               const char **out_text);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_SIMULATE_H_
