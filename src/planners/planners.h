// Planners make plans. Each strategy is one file and one line in strategies.inc; it writes an
// intent, and completion (plan/) does the rest. `auto` simulates a few candidates and takes the
// fastest.
//
// Strategies compose: "tensor+zero1" runs both on one context, in the order of strategies.inc, each
// on its own axes of one mesh (compose.c). What makes that work:
//   - A strategy says what it adds, with shoal_context_cut: "data:flat" behind whatever cuts the
//     state has already. shoal_context_layout would replace them.
//   - It does not name a mesh: context->mesh is the one asked for, or AXIS=world. One that needs
//     others (a mesh for each stage) gives them by shoal_context_mesh; the one asked for is then
//     left out. Layouts without a mesh's name hold on the mesh of whoever reads the value.
//   - Micro-batches are cut before the first strategy runs.
#ifndef SHOAL_PLANNERS_PLANNERS_H_
#define SHOAL_PLANNERS_PLANNERS_H_

#include "base/index.h"
#include "plan/plan.h"
#include "shoal/planners.h"

typedef struct shoal_context_node {
  const shoal_graph_t *graph;
  const shoal_node_t *node;
} shoal_context_node_t;

struct shoal_strategy_context {
  const shoal_model_t *model;
  shoal_rules_t *rules;
  const shoal_plan_options_t *options;
  shoal_arena_t *arena;             // what the intent points to
  shoal_mesh_t mesh;                // with strategies that have axes: the mesh that they share
  const shoal_strategy_t *running;  // the one that writes now
  SHOAL_VEC(const char *) meshes;
  SHOAL_VEC(shoal_intent_entry_t) layouts, stages;
  shoal_index_t named;          // layouts by name, patterns apart
  SHOAL_VEC(int64_t) patterns;  // those whose name has a '*', by number
  SHOAL_VEC(const char *) expand;
  SHOAL_VEC(shoal_intent_decision_t) decisions;
  SHOAL_VEC(shoal_context_node_t) nodes;  // of all graphs, for shoal_context_decide_way
  shoal_index_t by_name;                  // into nodes
};

// cache.c: the file of a plan that is asked for; the plan in it, or NULL; keeping one.
SHOAL_MUST_USE shoal_status_t shoal_cache_open(const shoal_model_t *model,
                                               const shoal_plan_options_t *options,
                                               shoal_arena_t *arena, const char **out_path);
SHOAL_MUST_USE shoal_status_t shoal_cache_read(const char *path, const shoal_model_t *model,
                                               shoal_rules_t *rules,
                                               const shoal_plan_options_t *options,
                                               shoal_arena_t *arena, shoal_cache_note_t *note,
                                               shoal_plan_t **out_plan);
SHOAL_MUST_USE shoal_status_t shoal_cache_write(const char *path, const shoal_plan_t *plan,
                                                const shoal_plan_options_t *options,
                                                shoal_arena_t *arena, shoal_cache_note_t *note);

// context.c: whether a name has a layout so far, and which, "" if none is given ("w#m" follows w);
// adding a decision that somebody else made.
bool shoal_context_has_layout(const shoal_strategy_context_t *context, const char *name);
SHOAL_MUST_USE shoal_status_t shoal_context_layout_of(const shoal_strategy_context_t *context,
                                                      const char *name, const char **out_layout);
SHOAL_MUST_USE shoal_status_t shoal_context_add_decision(shoal_strategy_context_t *context,
                                                         const shoal_intent_decision_t *decision);

// constraints.c: adds the layouts that shoal_constrain asks for.
SHOAL_MUST_USE shoal_status_t shoal_context_constrain(shoal_strategy_context_t *context);

// ways.c: decides that a node is cut along an axis by a way of its rule; nothing, where a graph has
// a node of that name without that way.
SHOAL_MUST_USE shoal_status_t shoal_context_decide_way(shoal_strategy_context_t *context,
                                                       const shoal_node_t *node, const char *axis,
                                                       const shoal_way_t *way, const char *reason);
// The same, and how items are dealt: " *8" in chunks; "" is as what the node reads is.
SHOAL_MUST_USE shoal_status_t shoal_context_decide_deal(shoal_strategy_context_t *context,
                                                        const shoal_node_t *node, const char *axis,
                                                        const shoal_way_t *way, const char *deal,
                                                        const char *reason);

// compose.c: the strategies that a text such as "tensor+zero1" names, each checked to be there.
typedef SHOAL_VEC(const shoal_strategy_t *) shoal_strategy_list_t;
SHOAL_MUST_USE shoal_status_t shoal_strategies_list(const shoal_plan_options_t *options,
                                                    shoal_arena_t *arena,
                                                    shoal_strategy_list_t *out_list);
// INVALID_ARGUMENT: neither these strategies nor layouts and decisions of the options speak of an
// axis of the mesh, along which all ranks would then do the same.
SHOAL_MUST_USE shoal_status_t shoal_strategies_check_axes(const shoal_strategy_list_t *all,
                                                          const shoal_plan_options_t *options,
                                                          const shoal_mesh_t *mesh,
                                                          shoal_arena_t *arena);
// The first strategy of the table that speaks of an axis of the mesh; NULL: none does.
const shoal_strategy_t *shoal_strategies_of_mesh(const shoal_strategies_t *strategies,
                                                 const shoal_mesh_t *mesh);
// Runs them all, and those that the mesh's other axes bring in.
SHOAL_MUST_USE shoal_status_t shoal_strategies_run(const shoal_strategy_list_t *list,
                                                   shoal_strategy_context_t *context);

#define SHOAL_STRATEGY(id, name, axes, doc)                                            \
  SHOAL_MUST_USE shoal_status_t shoal_strategy_##id(shoal_strategy_context_t *context, \
                                                    void *user_data);
#include "planners/strategies.inc"
#undef SHOAL_STRATEGY

#endif  // SHOAL_PLANNERS_PLANNERS_H_
