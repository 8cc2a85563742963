// Run: executes a program on this rank. A *runner* binds the program to the rank, allocates the
// arena on the device once, builds every launch, copy and message at load, and then only enqueues.
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
  shoal_run_tap_fn_t tap;  // NULL: none. With one, instructions run one after the other
  void *tap_self;
  bool timed;       // measure every instruction: shoal_runner_times
  bool no_compare;  // fed and set data is not compared between ranks
} shoal_runner_options_t;

// Loads a program, which must outlive the runner, as `world` and `device` must. *Collective.*
SHOAL_MUST_USE shoal_status_t shoal_runner_create(const shoal_program_t *program,
                                                  shoal_world_t *world, shoal_device_t *device,
                                                  const shoal_runner_options_t *options,
                                                  shoal_runner_t **out_runner);
void shoal_runner_free(shoal_runner_t *runner);

// Feeds the whole of an input, or this rank's part of it (session.h says in which order). The data
// is copied and kept until fed again. Not collective; the next run compares what several ranks were
// fed alike.
SHOAL_MUST_USE shoal_status_t shoal_runner_feed(shoal_runner_t *runner, const char *name,
                                                const void *data, size_t size);
SHOAL_MUST_USE shoal_status_t shoal_runner_feed_part(shoal_runner_t *runner, const char *name,
                                                     const void *data, size_t size);
// Runs a graph's order to its end. *Collective.* MISMATCH, before anything runs: the ranks run
// different graphs, or were fed different data that should be equal. After an error in the middle
// of it the world is broken.
SHOAL_MUST_USE shoal_status_t shoal_runner_run(shoal_runner_t *runner, const char *graph);
// Copies an output of the graph that ran last among those that have it. Not collective.
SHOAL_MUST_USE shoal_status_t shoal_runner_fetch(const shoal_runner_t *runner, const char *name,
                                                 void *data, size_t size);

// ---- times ----------------------------------------------------------------------------

// How many instructions the classes of a program have: what shoal_runner_times has room for.
int64_t shoal_runner_time_count(const shoal_program_t *program);
// Median seconds of this rank's instructions, in the order of classes and segments, and 1 in
// `counts` where there are any (0 elsewhere); of a run of the graph, and how many runs were
// measured (the first is not). Not collective.
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

// Bytes of the arena: as planned, and the highest touched (-1 where the device cannot tell).
void shoal_runner_memory(const shoal_runner_t *runner, int64_t *out_planned, int64_t *out_touched);

#endif  // SHOAL_RUN_RUN_H_
