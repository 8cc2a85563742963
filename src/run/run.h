// Run: executes a program on this rank. A *runner* binds the program to the rank, allocates the
// arena on the device once, builds every launch, copy and message at load, and then only enqueues.
// One thread uses a runner.
//
// A run that follows one of the same graph, with no collective call between, is *steady*: it waits
// for no other rank and joins no queue. Instead the ranks agree every few runs, beside them, on
// what else they would have to ask before each. An error that comes up in a run breaks the world at
// once and sticks.
//
// It knows programs, devices and ranks; never graphs, rules or plans. Functions marked *Collective*
// must be called by all ranks of the world in the same order; an error on one rank becomes the same
// error on all.
#ifndef SHOAL_RUN_RUN_H_
#define SHOAL_RUN_RUN_H_

#include "shoal/comm.h"
#include "shoal/device.h"
#include "shoal/program.h"

typedef struct shoal_runner shoal_runner_t;

// As shoal_tap_fn_t of session.h.
typedef void (*shoal_run_tap_fn_t)(void *self, int32_t rank, const char *graph, const char *value,
                                   const shoal_layout_t *layout, const shoal_type_t *whole,
                                   int64_t micro, const void *data, int64_t bytes);

typedef struct shoal_runner_options {
  shoal_allocator_t allocator;   // zero: the system's
  shoal_provider_fn_t provider;  // executes ops that have no kernel; NULL: they are refused
  void *provider_self;
  shoal_run_tap_fn_t tap;  // NULL: none. Called on queues' threads, by one at a time
  void *tap_self;
  const char *offload_dir;  // folder of the file arena; NULL: $SHOAL_OFFLOAD_DIR, $TMPDIR or /tmp
  bool timed;               // measure every instruction: shoal_runner_times
  bool no_compare;          // fed and set data is not compared between ranks
  int64_t save_round;       // bytes of a checkpoint that a rank writes before all meet; 0: 64 MiB
} shoal_runner_options_t;

// Loads a program, which must outlive the runner, as `world` and `device` must. *Collective.*
SHOAL_MUST_USE shoal_status_t shoal_runner_create(const shoal_program_t *program,
                                                  shoal_world_t *world, shoal_device_t *device,
                                                  const shoal_runner_options_t *options,
                                                  shoal_runner_t **out_runner);
void shoal_runner_free(shoal_runner_t *runner);

// Feeds the whole of an input, or this rank's part of it (session.h says in which order). The data
// is copied and kept until fed again; waits at most until the data before the last is on the
// device. Not collective; what several ranks were fed alike is compared by the next run, or beside
// the next few.
SHOAL_MUST_USE shoal_status_t shoal_runner_feed(shoal_runner_t *runner, const char *name,
                                                const void *data, size_t size);
SHOAL_MUST_USE shoal_status_t shoal_runner_feed_part(shoal_runner_t *runner, const char *name,
                                                     const void *data, size_t size);
// As shoal_session_rows and shoal_feed_rows.
SHOAL_MUST_USE shoal_status_t shoal_runner_rows(const shoal_runner_t *runner, const char *graph,
                                                const char *input, shoal_arena_t *arena,
                                                int64_t *out_count,
                                                const shoal_interval_t **out_rows);
SHOAL_MUST_USE shoal_status_t shoal_runner_feed_rows(shoal_runner_t *runner, const char *name,
                                                     const void *data, size_t size);
// Enqueues a graph's order; waits for the end of the run before the last, no more. *Collective.*
// The first run after another graph's or after any other collective call meets the other ranks
// first. MISMATCH there, before anything runs: the ranks run different graphs, or were fed
// different data that should be equal. Every other error breaks the world.
SHOAL_MUST_USE shoal_status_t shoal_runner_run(shoal_runner_t *runner, const char *graph);
// Copies an output of the graph that ran last among those that have it, as of its last run; waits
// for that value. Not collective, but for an output on request: that is gathered, *Collective*.
SHOAL_MUST_USE shoal_status_t shoal_runner_fetch(shoal_runner_t *runner, const char *name,
                                                 void *data, size_t size);
// Waits for everything, and returns the first error of any rank. *Collective.*
SHOAL_MUST_USE shoal_status_t shoal_runner_wait(shoal_runner_t *runner);

// Asks all ranks to stop; whether they have agreed to, which all of them see after the same run.
// Not collective.
void shoal_runner_ask_stop(shoal_runner_t *runner);
bool shoal_runner_should_stop(const shoal_runner_t *runner);

// What happened since creation.
typedef struct shoal_runner_counters {
  int64_t runs;
  int64_t joins;       // the host waited for all queues
  int64_t meetings;    // the host waited for the other ranks to begin a call
  int64_t agreements;  // were started beside the runs
  int64_t exchanged;   // bytes that exchanges have sent to other ranks
  // Nanoseconds of communication of runs that have ended (several queues add up), and of these
  // where the compute queue had no work.
  int64_t communication, exposed;
} shoal_runner_counters_t;
shoal_runner_counters_t shoal_runner_counters(const shoal_runner_t *runner);

// ---- times ----------------------------------------------------------------------------

// How many instructions the classes of a program have: what shoal_runner_times has room for.
int64_t shoal_runner_time_count(const shoal_program_t *program);
// Median seconds of this rank's instructions, in the order of classes and segments, and 1 in
// `counts` where there are any (0 elsewhere); of a run of the graph, and how many runs were
// measured (the first is not). Runs overlap: of one that follows another, the time from end to end.
// Not collective; after a call that waits for everything.
SHOAL_MUST_USE shoal_status_t shoal_runner_times(const shoal_runner_t *runner, const char *graph,
                                                 double *seconds, double *counts,
                                                 double *out_run_seconds, int64_t *out_runs);

// ---- states ---------------------------------------------------------------------------

// Reads or sets a whole state. *Collective.* Every rank sets the same value; else MISMATCH, and the
// state stays as it is.
SHOAL_MUST_USE shoal_status_t shoal_runner_get(shoal_runner_t *runner, const char *state,
                                               void *data, size_t size);
SHOAL_MUST_USE shoal_status_t shoal_runner_set(shoal_runner_t *runner, const char *state,
                                               const void *data, size_t size);
// The same for the part that this rank holds (session.h).
SHOAL_MUST_USE shoal_status_t shoal_runner_get_part(shoal_runner_t *runner, const char *name,
                                                    void *data, size_t size);
SHOAL_MUST_USE shoal_status_t shoal_runner_set_part(shoal_runner_t *runner, const char *name,
                                                    const void *data, size_t size);
// What a rank holds of a state. Not collective.
SHOAL_MUST_USE shoal_status_t shoal_program_state_boxes(const shoal_program_t *program,
                                                        int32_t rank, const char *name,
                                                        shoal_arena_t *arena,
                                                        shoal_boxes_t *out_boxes);
// MISMATCH where one of these states has a value that is not finite; each rank looks at its own
// part. *Collective.*
SHOAL_MUST_USE shoal_status_t shoal_runner_check_finite(shoal_runner_t *runner, int64_t count,
                                                        const char *const *states);
// Gathers a whole state on rank `root` (data is ignored elsewhere), or on every rank (root -1).
// *Collective.*
SHOAL_MUST_USE shoal_status_t shoal_runner_gather(shoal_runner_t *runner, int64_t state,
                                                  int32_t root, void *data);
// Begins a collective call, as "shoal_save" with its main argument `name`: OK if `status` is OK on
// all ranks and all of them made this call with this name; else the same error on all.
// *Collective.*
SHOAL_MUST_USE shoal_status_t shoal_runner_meet(shoal_runner_t *runner, const char *call,
                                                const char *name, shoal_status_t status);
// Ends a phase that every rank goes through: returns OK if `status` is OK on all ranks, else the
// same error on all. *Collective.*
SHOAL_MUST_USE shoal_status_t shoal_runner_agree(shoal_runner_t *runner, shoal_status_t status);

// Bytes of the arenas, by kind of memory: as planned, and the highest touched (-1 where the device
// cannot tell), once what was enqueued is done.
void shoal_runner_memory(const shoal_runner_t *runner, int64_t planned[SHOAL_MEMORY_COUNT],
                         int64_t touched[SHOAL_MEMORY_COUNT]);
// Does the file system of the file arena's folder allow copies past the system's page cache?
bool shoal_runner_is_direct(const shoal_runner_t *runner);
// Copies from and to the file arena in all graphs, and those of them that go past the page cache:
// long ones, where it is allowed. Known from creation on.
void shoal_runner_file_copies(const shoal_runner_t *runner, int64_t *out_all, int64_t *out_direct);
// Bytes that copies from and to it moved through a bounce buffer so far; others went straight.
int64_t shoal_runner_bounced(const shoal_runner_t *runner);

// Bytes beside the arenas that do not come from the allocator: messages under way, and stacks of
// queues. Those of the host's arena that do come from there are taken off. Known from creation on.
int64_t shoal_runner_fixed(const shoal_runner_t *runner);
// Bytes that a save of all states beside the runs takes on this rank. Known from creation on.
int64_t shoal_runner_saving_bytes(const shoal_runner_t *runner);

#endif  // SHOAL_RUN_RUN_H_
