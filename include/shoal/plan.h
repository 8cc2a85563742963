// Shoal, plan: how a model is cut over ranks, as data.
//
// A plan has two parts. The *intent* is what a person or a strategy says: meshes, layouts of some
// states, inputs and values by name or pattern, stages. The *resolved* part is what completion
// works out from it: for every node its way along every axis and its mesh, for every state its
// resting layout. Layouts of values follow from the ways; where producer and consumer differ,
// lowering puts a reshard. Planners produce plans; lowering reads nothing else.
//
// shoal_parallelize (session.h) and shoal_plan_make (planners.h) make plans from strategies; call
// shoal_plan_create for an intent of your own, and the functions below it to look at a plan, to
// keep it as a file or to read one back. docs/plan.md describes the kinds of decisions.
//
// Everything here is *Not collective* and works on this rank alone. The same model, rules and
// intent give the same plan; in a session rank 0 plans and the others get its program. Planning
// takes as long as rules have to be discovered. What it costs does not grow with the number of
// ranks, except where meshes list ranks or cuts have weights. A plan does not change once it is
// made and may be read by several threads; the rules it was made with may not (rules.h), and
// creating, printing and parsing ask them.
#ifndef SHOAL_PLAN_H_
#define SHOAL_PLAN_H_

#include "shoal/rules.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_plan shoal_plan_t;

// A pattern of names ('*' matches anything; "re:block[3-5]/.*" is a regular expression that matches
// whole names) and what it stands for. Later entries win over earlier ones.
typedef struct shoal_intent_entry {
  const char *pattern;
  const char *value;
} shoal_intent_entry_t;

// One decision of a person or a strategy: a kind, what it is about, and what is chosen. Later ones
// win over earlier ones of the same kind. One that cannot hold is an error that names it.
typedef struct shoal_intent_decision {
  const char *kind;     // "recompute": see shoal_decision_kind
  const char *pattern;  // of nodes, states, values, outputs or graphs, as the kind says
  const char *choice;   // "yes"
  const char *by;       // who decided; NULL: "user"
  const char *reason;   // NULL: none is given
} shoal_intent_decision_t;

typedef struct shoal_intent {
  const char *strategy;  // who made it: "data", "explicit" ...
  int64_t mesh_count;
  const char *const *meshes;  // texts: "data=2,micro=3", "b!data=3@2-4"
  // Of states, inputs and values by name: "block*/fc1/weight": "tensor:1". "eval:x", without a
  // pattern, is about the input or value of one graph alone.
  int64_t layout_count;
  const shoal_intent_entry_t *layouts;
  int64_t stage_count;
  const shoal_intent_entry_t *stages;  // of nodes by name: "block1/*": "b" (a mesh's name)
  int64_t expand_count;
  const char *const *expand;  // patterns of nodes that are computed in parts, cut or not
  int64_t decision_count;
  // They come after the maps above, which say the same as the kinds "layout", "stage" and "expand".
  const shoal_intent_decision_t *decisions;
} shoal_intent_t;

// A kind of decision, for programs that list or explain them.
typedef struct shoal_decision_kind {
  const char *name;     // "recompute"
  const char *of;       // what its pattern is matched with: "nodes", "states" ...
  const char *choices;  // what may be chosen: "yes|no", "<layout>"
  const char *doc;      // what it does, in a line
} shoal_decision_kind_t;
// The kinds by number, from 0; NULL after the last. Static: nothing to free.
SHOAL_API const shoal_decision_kind_t *shoal_decision_kind(int64_t index);

// Makes a plan from an intent, for `world` ranks. What cannot be done is an error that names the
// node or the decision (UNSUPPORTED, INVALID_ARGUMENT; NOT_FOUND for a pattern that matches
// nothing). The plan borrows `model` and `rules`, which must outlive it; the intent is copied. The
// caller owns the plan and frees it with shoal_plan_free.
SHOAL_API SHOAL_MUST_USE shoal_status_t
shoal_plan_create(const shoal_model_t *model, shoal_rules_t *rules, const shoal_intent_t *intent,
                  int32_t world, shoal_allocator_t allocator, shoal_plan_t **out_plan);
SHOAL_API void shoal_plan_free(shoal_plan_t *plan);  // NULL is allowed

// A plan file and back: JSON, "shoal_plan": 1. The printed text lies in `arena`.
//
// Parsing makes a plan that the caller owns, as shoal_plan_create does; `name` stands for the text
// in messages. A resolved part that was made for this model, these rules and this many ranks is
// used as it is (an optimizer's eps and other numbers that only change values may differ); else the
// plan is completed from the intent, and *out_rebuilt (may be NULL) says whether a resolved part
// was dropped for that. Unknown keys are errors with a suggestion.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_plan_print(const shoal_plan_t *plan,
                                                         shoal_arena_t *arena,
                                                         const char **out_text);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_plan_parse(
    const char *name, const char *text, const shoal_model_t *model, shoal_rules_t *rules,
    int32_t world, shoal_allocator_t allocator, bool *out_rebuilt, shoal_plan_t **out_plan);
// The same with decisions behind those of the text, so that they win. A resolved part, which does
// not know them, is dropped then.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_plan_parse_decided(
    const char *name, const char *text, const shoal_model_t *model, shoal_rules_t *rules,
    int32_t world, int64_t decision_count, const shoal_intent_decision_t *decisions,
    shoal_allocator_t allocator, bool *out_rebuilt, shoal_plan_t **out_plan);
// The intent that the plan was completed from; borrowed for the plan's life.
SHOAL_API const shoal_intent_t *shoal_plan_intent(const shoal_plan_t *plan);
// Describes the plan for people, as text in `arena`: meshes, resting layouts of states, and for
// every node its way along each axis, with a reason where it costs anything or was asked for. The
// text does not parse back.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_plan_explain(const shoal_plan_t *plan,
                                                           shoal_arena_t *arena,
                                                           const char **out_text);
// The part of that text about pipelines, a line for each graph that has a schedule; "" if none has:
// stages, bubble (if all work takes equally long), how many micro-batches each stage has in flight,
// and below that what goes from stage to stage and which inputs and states several stages read.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_plan_explain_schedules(const shoal_plan_t *plan,
                                                                     shoal_arena_t *arena,
                                                                     const char **out_text);
// Lists, a line each in `arena`, where the plan does not compute what one device computes:
// gradients that are summed over ranks in a narrower type than their own, and gradients that each
// rank clips before they are summed. A plan without such lines is *exact*: it differs from one
// device by the order of sums at most.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_plan_approximate(const shoal_plan_t *plan,
                                                               shoal_arena_t *arena,
                                                               int64_t *out_count,
                                                               const char *const **out_lines);
// Everything about the states, inputs, nodes and outputs whose names match a pattern: what was
// decided, by whom, why, at what cost, and what was the next best; as text in `arena`. NOT_FOUND if
// there are none.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_plan_why(const shoal_plan_t *plan,
                                                       const char *pattern, shoal_arena_t *arena,
                                                       const char **out_text);
// The model that the plan was made for, as it was given: nodes that the plan computes in parts are
// whole in it. Borrowed from the caller of shoal_plan_create, not owned by the plan.
SHOAL_API const shoal_model_t *shoal_plan_model(const shoal_plan_t *plan);
// Resting layout of a state, printed into `arena`. NOT_FOUND if there is no such state.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_plan_state_layout(const shoal_plan_t *plan,
                                                                const char *state,
                                                                shoal_arena_t *arena,
                                                                const char **out_text);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_PLAN_H_
