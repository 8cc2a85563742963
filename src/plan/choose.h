// Choosing the ways of one node: see choose.c.
#ifndef SHOAL_PLAN_CHOOSE_H_
#define SHOAL_PLAN_CHOOSE_H_

#include "plan/plan.h"

// Is an input of a node known only behind the loop over micro-batches? Then unreduced sums wait for
// the others, and for an update everything does; other inputs that are made in the loop are an
// error (the rest of the model would run behind it).
typedef enum shoal_late { SHOAL_LATE_NOT, SHOAL_LATE_SUMS, SHOAL_LATE_ALL } shoal_late_t;

// A node as completion sees it. Layouts are those of its inputs as they are, then those that its
// outputs are pinned to (NULL: nobody said).
typedef struct shoal_chooser_node {
  const shoal_node_t *node;
  const shoal_call_t *call;
  const shoal_rule_t *rule;
  int32_t mesh;
  const shoal_layout_t *const *layouts;
  uint64_t loose;  // bit o: what output o is pinned to says nothing about micro
  // Output 0 has the layout that it is pinned to, because this says so. NULL: the pin only weighs.
  const shoal_intent_decision_t *constrained;
  const shoal_intent_decision_t *const *decided;  // by slot; NULL: completion chooses
  shoal_late_t late;
  bool early;                      // it runs before the loop, on the whole batch (early.h)
  bool gathers;                    // its outputs are no sums over ranks, unless that was decided
  const shoal_dtype_t *exchanged;  // by operand: the type in which ranks sum it; NULL: its own
  // By input: where the state that this gradient updates has its moments (gradients.h); NULL: it is
  // no gradient, or nowhere in particular.
  const shoal_layout_t *const *homes;
} shoal_chooser_node_t;

// Chooses for every axis, and says why. `scratch` is used for a moment. A decision about ways that
// cannot hold is an error that names it.
SHOAL_MUST_USE shoal_status_t shoal_plan_choose(shoal_plan_t *plan,
                                                const shoal_chooser_node_t *node,
                                                shoal_arena_t *scratch, shoal_choice_t *out_choices,
                                                shoal_why_t *out_why);

// The choice of a decision about a way, "AXIS=WAY" or the text behind the '=': "whole", or a way of
// the rule, perhaps with how its items are dealt ("{x:1 -> out:1} *3/16"), which *out_dealt says.
SHOAL_MUST_USE shoal_status_t shoal_way_choice_parse(const char *text, const shoal_rule_t *rule,
                                                     const shoal_node_t *node, int64_t axis_size,
                                                     shoal_arena_t *arena, bool *out_dealt,
                                                     shoal_choice_t *out_choice);
// The text that parses back, without the axis.
SHOAL_MUST_USE shoal_status_t shoal_way_choice_print(const shoal_node_t *node,
                                                     const shoal_choice_t *choice,
                                                     int64_t axis_size, shoal_arena_t *arena,
                                                     const char **out_text);

#endif  // SHOAL_PLAN_CHOOSE_H_
