// Prove: N ranks equal one device (contract 1 of the design).
//
// A check makes a plan, lowers it, runs the program on N ranks (threads or processes) with *taps* -
// copies of every value the program materialises, in its own layout - and compares each rank's part
// with that slice of the reference interpreter's run of the whole. Only this layer decides what
// "equal" means:
//   f64   max|a-b| <= 1e-10 max(max|b|, s), s = 1e-3 times the largest magnitude among tensors of
//         that kind (activations, gradients, updates, parameters) in that run
//   else  error against a one-device f64 run from the same rounded states <= 4 max(own error of the
//         one-device run, 2 eps max(max|b|, s)); eps is the coarsest dtype's the value comes from
// Where the plan has a gradient exchanged in another type, the one-device run rounds it to that
// once it is complete, and eps is that type's for what has been exchanged and what comes of it.
// Integers are equal. Initial values are equal bit for bit.
#ifndef SHOAL_PROVE_PROVE_H_
#define SHOAL_PROVE_PROVE_H_

#include "shoal/prove.h"

typedef struct shoal_check_options shoal_check_options_t;
// Sees the plan and the program that will run, both parsed back from their text.
typedef shoal_status_t (*shoal_check_planned_fn_t)(void *self, const shoal_plan_t *plan,
                                                   const shoal_program_t *program,
                                                   const shoal_check_options_t *options);

struct shoal_check_options {
  shoal_allocator_t allocator;  // zero: the system's
  int32_t ranks;                // 0: 1
  // The plan: the first of these that is given.
  const shoal_program_t *program;  // a program for this model, not lowered here (mutations) ...
  const shoal_plan_t *from;        // ... and the plan it came from, or NULL
  const char *plan;                // text of a plan file
  const shoal_intent_t *intent;
  const char *strategy, *mesh;     // NULL: "auto" and its default mesh
  const char *cluster;             // text of a cluster file to plan for, or NULL
  shoal_strategies_t *strategies;  // NULL: native ones only
  int64_t layout_count;            // explicit layouts, added to the strategy's
  const shoal_intent_entry_t *layouts;
  int64_t decision_count;  // decisions, after the strategy's or the plan's
  const shoal_intent_decision_t *decisions;
  shoal_provider_fn_t provider;  // of ops without a kernel; may be NULL
  void *provider_self;

  int64_t steps;            // of "train"; 0: 2. Other graphs run once, after it
  bool processes;           // ranks are processes; else threads
  shoal_world_t *world;     // not NULL: its ranks instead. *Collective*; `ranks` is its size,
                            // values are compared by rank 0, on which the report is
  bool opaque;              // CPU device in opaque mode
  const char *offload_dir;  // as shoal_parallelize_options_t has it
  int64_t memory;           // the same
  bool direct;              // ranks load the re-parsed program; else each calls
                            // shoal_parallelize with the plan's text
  uint64_t seed;            // of the feeds
  bool static_only;         // plan, lower and check statically; nothing runs
  bool restart;             // every run is compared from the states the program ended the last
                            // one with; else the one-device runs go their own way from "init" on
  int64_t timeout_ms;       // without progress; 0: 60000
  int64_t feed_count;
  const shoal_check_feed_t *feeds;
  shoal_rules_t *rules;              // a store to use and fill; NULL: a new one
  shoal_check_planned_fn_t planned;  // may be NULL
  void *planned_self;
  shoal_check_line_fn_t line;  // may be NULL: gets the program's text
  void *line_self;
};

// Checks one plan of a model. MISMATCH names the first differing value in program order: layout,
// rank, micro-batch, index, got and expected. Not collective: it makes its own ranks. Processes are
// forked without exec, so the caller must have no other threads then.
SHOAL_MUST_USE shoal_status_t shoal_check_model(const shoal_model_t *model,
                                                const shoal_check_options_t *options,
                                                shoal_check_report_t *out_report);

#endif  // SHOAL_PROVE_PROVE_H_
