// Makes random cases. It steers to what coverage says has occurred least.
//   generate.c        dice, values to choose from, the case as a whole
//   generators.h      uses of ops
//   generate_medley.c     uses of many ops side by side, each cut in a way that is rare
//   generate_plan.c   meshes, pins, stages
//   generate_offload.c    what lies in host memory and in files
//   generate_again.c      what is recomputed and what is gathered again
//   generate_ways.c       ways and layouts that are decided on
//   generate_constraints.c    results that are held as the model says
//   generate_windows.c    chains of windowed nodes over an image that is cut
//   generate_bounded.c    chains over rows of bounded sizes, which are exchanged
//   generate_products.c   chains of products over rows that are cut, in tiles
//   generate_strategy.c   plans that strategies make
//   generate_schedule.c   chains of layers, stages, the order of micro-batches
#ifndef SHOAL_EXPLORE_GENERATE_H_
#define SHOAL_EXPLORE_GENERATE_H_

#include "explore/coverage.h"
#include "explore/random_case.h"

typedef struct shoal_generator {
  uint64_t state;  // of the dice
  shoal_registry_t *registry;
  shoal_rules_t *rules;
  const shoal_coverage_t *coverage;
  shoal_arena_t *arena;  // of the case
  shoal_random_case_t *c;
  shoal_dtype_t dtype;       // most floats of this case
  int64_t sizes[4];          // of most dims of this case
  bool large;                // for many ranks
  bool ties;                 // some inputs have zeros and ties
  SHOAL_VEC(double) bounds;  // per node: magnitudes stay below it, roughly
  int32_t window_dim;        // of the image, where it is cut
  bool newest;               // take the newest node wherever it fits
} shoal_generator_t;

// A case from `seed`, all in `arena`; `large`: for 33 to SHOAL_CASE_MAX_RANKS ranks. Never fails
// but for memory.
SHOAL_MUST_USE shoal_status_t shoal_generate_case(uint64_t seed, bool large,
                                                  shoal_registry_t *registry, shoal_rules_t *rules,
                                                  const shoal_coverage_t *coverage,
                                                  shoal_arena_t *arena,
                                                  shoal_random_case_t *out_case);

// ---- between the files --------------------------------------------------------------------------

int64_t shoal_roll(shoal_generator_t *g, int64_t count);  // 0 .. count-1
bool shoal_chance(shoal_generator_t *g, int64_t percent);
int64_t shoal_roll_size(shoal_generator_t *g);                                            // a dim
const char *shoal_ints_text(shoal_generator_t *g, int32_t count, const int64_t *values);  // "[3,5]"

// Draws a type and how the case is trained: for families of cases with a graph of their own.
void shoal_generate_training(shoal_generator_t *g);

// Which results are constrained, before there is a plan; and to what, when its meshes are there.
void shoal_generate_constrained(shoal_generator_t *g);
SHOAL_MUST_USE shoal_status_t shoal_generate_constraints(shoal_generator_t *g);

// Adds a node; false if the op does not take these inputs, or the result is too large. attrs may be
// NULL (memory was short: nothing is added).
bool shoal_generate_node(shoal_generator_t *g, const char *op, int32_t count,
                         const shoal_case_ref_t *refs, const char *attrs, double bound,
                         shoal_case_ref_t *out_ref);
shoal_type_t shoal_generate_type(const shoal_generator_t *g, shoal_case_ref_t ref);
double shoal_generate_bound(const shoal_generator_t *g, shoal_case_ref_t ref);
// A float value of the case's dtype with at least and at most so many dims; makes one if there is
// none.
shoal_case_ref_t shoal_generate_value(shoal_generator_t *g, int32_t least, int32_t most);
// A new state or input of that shape.
shoal_case_ref_t shoal_generate_fresh(shoal_generator_t *g, const shoal_shape_t *shape);
shoal_case_ref_t shoal_generate_state(shoal_generator_t *g, const shoal_shape_t *shape);
shoal_case_ref_t shoal_generate_input(shoal_generator_t *g, const shoal_case_input_t *input);

// An op that has occurred, and was differentiated, least among a few.
const shoal_op_t *shoal_generate_scarce(shoal_generator_t *g);
// Tries to add a use of an op: one that has occurred seldom.
void shoal_generate_op(shoal_generator_t *g);
// Tries to add an op of which a way has never occurred, where what it wants unreduced can be had
// so.
void shoal_generate_wish(shoal_generator_t *g);
// A chain of layers, perhaps with a skip and a tied weight; and its plan: stages in a row or in
// turns, micro-batches, a schedule.
SHOAL_MUST_USE shoal_status_t shoal_generate_layers(shoal_generator_t *g);
SHOAL_MUST_USE shoal_status_t shoal_generate_pipeline(shoal_generator_t *g,
                                                      const shoal_model_t *model);
// A chain of convolutions and pools; and its plan: rows or columns are cut, and nodes that wait for
// halos are split.
SHOAL_MUST_USE shoal_status_t shoal_generate_windows(shoal_generator_t *g);
SHOAL_MUST_USE shoal_status_t shoal_generate_space(shoal_generator_t *g,
                                                   const shoal_model_t *model);
// A chain of nodes that bound rows by counts, and of readers; and its plan: both are cut, along
// different dims.
SHOAL_MUST_USE shoal_status_t shoal_generate_rows(shoal_generator_t *g);
SHOAL_MUST_USE shoal_status_t shoal_generate_dispatch(shoal_generator_t *g,
                                                      const shoal_model_t *model);
// Uses of many ops, side by side; and its plan: a small mesh, and for many nodes a way that has
// occurred seldom.
SHOAL_MUST_USE shoal_status_t shoal_generate_medley(shoal_generator_t *g);
SHOAL_MUST_USE shoal_status_t shoal_generate_medley_ways(shoal_generator_t *g,
                                                         const shoal_model_t *model);
// Decides on a schedule, if the stages can have one. `two`: they are on two meshes.
SHOAL_MUST_USE shoal_status_t shoal_generate_schedule(shoal_generator_t *g,
                                                      const shoal_model_t *model, bool two);
// Adds a decision. `kind` and `pattern` are copied; `choice` lies in the arena, or is NULL for want
// of memory.
SHOAL_MUST_USE shoal_status_t shoal_generate_decide(shoal_generator_t *g, const char *kind,
                                                    const char *pattern, const char *choice);
// Keeps some states and values of some cases in host memory or in files. Behind the plan.
SHOAL_MUST_USE shoal_status_t shoal_generate_offload(shoal_generator_t *g,
                                                     const shoal_model_t *model);
// Decides that some blocks are recomputed, and that copies of some states are redone.
SHOAL_MUST_USE shoal_status_t shoal_generate_again(shoal_generator_t *g,
                                                   const shoal_model_t *model);
// Decides on a way of a node ("data={x:0 -> out:0}"; NULL for want of memory), unless no plan can
// be completed with it.
SHOAL_MUST_USE shoal_status_t shoal_generate_way(shoal_generator_t *g, const shoal_model_t *model,
                                                 const char *node, const char *way);
// Decides on ways of some nodes, and on a layout in the place of a pin. Behind all of the plan.
SHOAL_MUST_USE shoal_status_t shoal_generate_ways(shoal_generator_t *g, const shoal_model_t *model);
// A chain of products; and its plan: rows are gathered in front of one and scattered behind the
// next.
SHOAL_MUST_USE shoal_status_t shoal_generate_products(shoal_generator_t *g);
SHOAL_MUST_USE shoal_status_t shoal_generate_sequence(shoal_generator_t *g);
// Attention, once or twice; and its plan: keys are cut, and ranks merge what they have of them.
SHOAL_MUST_USE shoal_status_t shoal_generate_attention(shoal_generator_t *g);
SHOAL_MUST_USE shoal_status_t shoal_generate_context(shoal_generator_t *g);
// The plan that a strategy makes of the model, on a mesh with its axis and perhaps others': one of
// `wanted`, which ends with NULL, or any if there is none. *out_made: false if the model has
// nothing of what it cuts; nothing is planned then.
SHOAL_MUST_USE shoal_status_t shoal_generate_strategy(shoal_generator_t *g,
                                                      const shoal_model_t *model,
                                                      const char *const *wanted, bool *out_made);
// Decides that some nodes are computed in tiles, where they can be.
SHOAL_MUST_USE shoal_status_t shoal_generate_tiles(shoal_generator_t *g);
// Decides that some outputs are gathered on request.
SHOAL_MUST_USE shoal_status_t shoal_generate_fetches(shoal_generator_t *g,
                                                     const shoal_model_t *model);
// Chooses ranks, meshes, pins, stages and expansions for the case's model.
SHOAL_MUST_USE shoal_status_t shoal_generate_plan(shoal_generator_t *g, const shoal_model_t *model);

#endif  // SHOAL_EXPLORE_GENERATE_H_
