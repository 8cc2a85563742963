// A random case: a small model, a plan and how to run it, as data and as one line of text that
// reruns it.
//
//   seed=7 ranks=4 adamw eval steps=5; i0=f64[3,5]; i1=i32[3]<5; s0=f64[5,7]; v0=matmul(i0,s0);
//   v1=softmax(v0){axis=1}; mesh data=2,tensor=2; pin s0 tensor:1; stage v1/* b; expand v1/*;
//   decide schedule train 1f1b
//
// "v2=tanh(v1) held data:0": the model constrains its first output to that layout, and what reads
// it reads the constrained value.
// i: inputs ("<n": integers from 0 to n - 1; "~n": from -n to n; "+": positive floats; "=": floats
// that are multiples of 1/4, so that zeros and ties occur), s: trainable states, v: nodes
// (v3.1: their second output), "step": the step number. Every result nobody reads goes into the
// loss: its mean squared distance from an input t3. Without an optimizer the graph "train" only
// computes the loss. "untrained": there are states besides that no optimizer updates. "guarded":
// there are states that take their next value in some steps only. "clipped", "averaged", "scaled":
// the optimizer clips gradients, averages parameters, scales the loss; "clipped_before": it clips
// before ranks sum them. "blocks=2": nodes in a row share a scope, b0, b1 ..., so that they can be
// recomputed together. Every batch norm has running statistics.
#ifndef SHOAL_EXPLORE_RANDOM_CASE_H_
#define SHOAL_EXPLORE_RANDOM_CASE_H_

#include "base/arena.h"
#include "op/case.h"
#include "prove/prove.h"
#include "shoal/explore.h"

#define SHOAL_CASE_REFS 24
#define SHOAL_CASE_OUTPUTS 16
#define SHOAL_CASE_RUN_RANKS 64  // with more, a case is planned, lowered and checked statically
#define SHOAL_CASE_MAX_RANKS 200
#define SHOAL_CASE_STEPS 3  // of "train", unless the case says more: steady state begins then

typedef struct shoal_case_ref {
  char kind;  // 'i', 's', 'v'; 'n' is the step number
  int32_t index, output;
} shoal_case_ref_t;

typedef struct shoal_case_input {
  shoal_type_t type;
  int64_t limit;      // integers are below, from 0 on; 0: see `magnitude`
  int64_t magnitude;  // integers are between it and its negative; 0: neither
  bool positive, ties;
} shoal_case_input_t;

typedef struct shoal_case_node {
  const char *op;  // "matmul" for shoal.matmul; others are qualified
  int32_t ref_count;
  shoal_case_ref_t refs[SHOAL_CASE_REFS];
  const char *attrs;     // "axis=1, keep=1"; "" for none
  const char *held;      // the layout that output 0 is constrained to; NULL: none
  int32_t output_count;  // found by shoal_random_case_infer
  shoal_type_t outputs[SHOAL_CASE_OUTPUTS];
} shoal_case_node_t;

typedef enum shoal_case_optimizer {
  SHOAL_CASE_NONE,
  SHOAL_CASE_SGD,
  SHOAL_CASE_MOMENTUM,
  SHOAL_CASE_ADAMW,
  SHOAL_CASE_DRAWN_COUNT,  // those before it are drawn in all types, the others in f64
  SHOAL_CASE_ADAM = SHOAL_CASE_DRAWN_COUNT,
  SHOAL_CASE_LION,
  SHOAL_CASE_LAMB,
  SHOAL_CASE_ADAFACTOR,
  SHOAL_CASE_MUON,
  SHOAL_CASE_OPTIMIZER_COUNT
} shoal_case_optimizer_t;

typedef struct shoal_random_case {
  uint64_t seed;
  int64_t ranks;
  int64_t steps;  // of "train"
  shoal_case_optimizer_t optimizer;
  bool eval, untrained, guarded, processes, opaque;
  bool clipped, clipped_before, averaged,
      scaled;  // what the optimizer does besides (shoal_training_t)
  int64_t
      blocks;  // so many nodes in a row share a scope: "b0/v0", "b0/v1", "b1/v2" ...; 0: none do
  SHOAL_VEC(shoal_case_input_t) inputs;
  SHOAL_VEC(shoal_type_t) states;
  SHOAL_VEC(shoal_case_node_t) nodes;
  SHOAL_VEC(const char *) meshes;
  SHOAL_VEC(shoal_intent_entry_t) pins, stages;
  SHOAL_VEC(const char *) expand;
  SHOAL_VEC(shoal_intent_decision_t) decisions;
} shoal_random_case_t;

// Everything a case points to lies in the arena.
SHOAL_MUST_USE shoal_status_t shoal_random_case_print(const shoal_random_case_t *c,
                                                      shoal_arena_t *arena, const char **out_text);
SHOAL_MUST_USE shoal_status_t shoal_random_case_parse(const char *text,
                                                      const shoal_registry_t *registry,
                                                      shoal_arena_t *arena,
                                                      shoal_random_case_t *out_case);
// The scope of a node: "v3", or "b1/v3" if it is in a block.
typedef struct shoal_case_scope {
  char text[48];
} shoal_case_scope_t;
shoal_case_scope_t shoal_random_case_scope(const shoal_random_case_t *c, int64_t node);
// What its plan is made from; borrows from the case.
shoal_intent_t shoal_random_case_intent(const shoal_random_case_t *c);
// Type of what a ref stands for; false if there is no such thing (yet).
bool shoal_random_case_type(const shoal_random_case_t *c, shoal_case_ref_t ref,
                            shoal_type_t *out_type);
// A node as a call of its op.
SHOAL_MUST_USE shoal_status_t shoal_random_case_call(const shoal_random_case_t *c,
                                                     const shoal_registry_t *registry,
                                                     const shoal_case_node_t *node,
                                                     shoal_arena_t *arena, shoal_case_t *out_call);
// "adamw"
const char *shoal_random_case_optimizer(const shoal_random_case_t *c);
// Works out a node's outputs; its refs must be known. INVALID_ARGUMENT if the op does not take
// them.
SHOAL_MUST_USE shoal_status_t shoal_random_case_infer(const shoal_random_case_t *c,
                                                      const shoal_registry_t *registry,
                                                      shoal_case_node_t *node,
                                                      shoal_arena_t *arena);
// Has a group of a bounded value more rows than there is room for, in some step? (Counts are drawn
// from far more than the room: in one of many cases none is beyond it.)
bool shoal_random_case_overflows(const shoal_random_case_t *c);
SHOAL_MUST_USE shoal_status_t shoal_random_case_build(const shoal_random_case_t *c,
                                                      shoal_registry_t *registry,
                                                      shoal_allocator_t allocator,
                                                      shoal_model_t **out_model);
// Builds and checks it. `with` gives allocator, rules, `planned` and line; the case says the rest.
SHOAL_MUST_USE shoal_status_t shoal_random_case_check(const shoal_random_case_t *c,
                                                      shoal_registry_t *registry,
                                                      const shoal_check_options_t *with,
                                                      shoal_check_report_t *out_report);

// Says whether a failed case failed by rounding rather than by its plan: it must pass in f64, and
// with other data.
bool shoal_random_case_was_rounding(const shoal_random_case_t *c, shoal_registry_t *registry,
                                    const shoal_check_options_t *with,
                                    const shoal_check_report_t *report);

#endif  // SHOAL_EXPLORE_RANDOM_CASE_H_
