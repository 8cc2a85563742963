// Completion: what the files of plan/ share.
#ifndef SHOAL_PLAN_COMPLETE_H_
#define SHOAL_PLAN_COMPLETE_H_

#include "plan/plan.h"

// Makes a plan without the ways of its nodes: meshes, states, patterns. phased[graph][node] says
// which nodes are composite; NULL: those that the intent asks for.
SHOAL_MUST_USE shoal_status_t shoal_plan_prepare(const shoal_model_t *model, shoal_rules_t *rules,
                                                 const shoal_intent_t *intent, int32_t world,
                                                 shoal_allocator_t allocator, bool *const *phased,
                                                 shoal_plan_t **out_plan);
// Chooses ways for every node of a graph by propagation in topological order.
SHOAL_MUST_USE shoal_status_t shoal_plan_complete(shoal_plan_t *plan, shoal_graph_plan_t *graph);
// The same for the parts of a node that is composite, or might be: composite ways are not looked
// for.
SHOAL_MUST_USE shoal_status_t shoal_plan_complete_parts(shoal_plan_t *plan,
                                                        shoal_graph_plan_t *graph);
// Pins of a node's outputs: a state it is assigned to, a layout the intent gives the value by name,
// or one that shoal.constrain has or wants. NULL: none. Bit o of *out_loose: that of output o says
// nothing about micro.
SHOAL_MUST_USE shoal_status_t shoal_plan_find_pins(shoal_plan_t *plan,
                                                   const shoal_graph_plan_t *graph, int32_t node,
                                                   const shoal_layout_t **out_pins,
                                                   uint64_t *out_loose);
// What the intent says about the ways of a node of that name, by slot of its mesh.
SHOAL_MUST_USE shoal_status_t shoal_plan_find_ways(const shoal_plan_t *plan, const char *name,
                                                   int32_t mesh,
                                                   const shoal_intent_decision_t **out_decided);
// Records what was chosen for a node: its decision, which equal nodes share, and the layouts of its
// outputs in graph->values. It is an error if a choice gives an operand an invalid layout.
SHOAL_MUST_USE shoal_status_t shoal_plan_decide(shoal_plan_t *plan, shoal_graph_plan_t *graph,
                                                int32_t node, const shoal_choice_t *choices);
// The layout of one operand under these choices. It may be an invalid one.
SHOAL_MUST_USE shoal_status_t shoal_plan_operand(const shoal_mesh_t *mesh,
                                                 const shoal_choice_t *choices, int32_t operand,
                                                 const shoal_shape_t *shape,
                                                 shoal_layout_t *out_layout);

// ---- what a model says of layouts: constrain.c ------------------------------------------

// Fills graph->constrainers.
SHOAL_MUST_USE shoal_status_t shoal_plan_index_constraints(shoal_plan_t *plan,
                                                           shoal_graph_plan_t *graph);
// Who says which layout the output of a node of shoal.constrain has: the model, or the intent.
// NULL: it is no such node, or there is one rank.
SHOAL_MUST_USE shoal_status_t shoal_plan_constrained(shoal_plan_t *plan,
                                                     const shoal_graph_plan_t *graph, int32_t node,
                                                     const shoal_intent_decision_t **out_by);
// That layout, on the node's mesh; NULL likewise.
SHOAL_MUST_USE shoal_status_t shoal_plan_pin_constrained(shoal_plan_t *plan,
                                                         const shoal_graph_plan_t *graph,
                                                         int32_t node,
                                                         const shoal_layout_t **out_pin);
// "'h/constrain' is constrained to 'data:0' at FILE:LINE: ..." in front of the message.
SHOAL_MUST_USE shoal_status_t shoal_plan_blame_constraint(const shoal_graph_plan_t *graph,
                                                          int32_t node,
                                                          const shoal_intent_decision_t *by,
                                                          shoal_status_t status);
// Is the output as the pin says? Along micro anything will do, unless the pin names it.
SHOAL_MUST_USE shoal_status_t shoal_plan_check_constrained(const shoal_graph_plan_t *graph,
                                                           int32_t node, const shoal_layout_t *pin,
                                                           shoal_arena_t *scratch);

// ---- what an intent says of a name -----------------------------------------------------

// An index of decisions by pattern: those without '*' by name, the others by the text before it.
typedef struct shoal_patterns {
  int64_t count;
  const shoal_intent_decision_t *entries;
  shoal_index_t exact, by_prefix;
  uint64_t lengths;  // bit n: some pattern has n characters before its '*' (63: or more)
} shoal_patterns_t;

SHOAL_MUST_USE shoal_status_t shoal_patterns_init(int64_t count,
                                                  const shoal_intent_decision_t *entries,
                                                  shoal_arena_t *arena,
                                                  shoal_patterns_t *out_patterns);
// The last entry whose pattern matches, or NULL.
const shoal_intent_decision_t *shoal_patterns_find(const shoal_patterns_t *patterns,
                                                   const char *name);
// The same about a name of a graph: "GRAPH:NAME" counts too, which other graphs do not hear.
const shoal_intent_decision_t *shoal_patterns_find_in(const shoal_patterns_t *patterns,
                                                      const char *graph, const char *name);

SHOAL_MUST_USE shoal_status_t shoal_intent_copy(const shoal_intent_t *intent, shoal_arena_t *arena,
                                                shoal_intent_t *out_intent);
// Fills plan->patterns from plan->intent.
SHOAL_MUST_USE shoal_status_t shoal_intent_index(shoal_plan_t *plan);
// Every pattern must name something: a typo must not silently replicate.
SHOAL_MUST_USE shoal_status_t shoal_intent_check(shoal_plan_t *plan);

// ---- decisions -------------------------------------------------------------------------

// Is there such a kind, and such a choice of it? What it is about is not looked at.
SHOAL_MUST_USE shoal_status_t shoal_decision_check(const shoal_intent_decision_t *decision);
// "decision 'keep fc1/weight redo': ..." in front of the message.
SHOAL_MUST_USE shoal_status_t shoal_decision_annotate(const shoal_intent_decision_t *decision,
                                                      shoal_status_t status);
// The words of a `sync` decision; `out_sync` keeps what they do not speak of.
SHOAL_MUST_USE shoal_status_t shoal_decision_sync(const shoal_intent_decision_t *decision,
                                                  shoal_arena_t *arena, shoal_sync_t *out_sync);
// Sorts decisions about ways by axis, into plan->ways.
SHOAL_MUST_USE shoal_status_t shoal_plan_sort_ways(shoal_plan_t *plan);
shoal_keep_t shoal_keep_of(const char *choice);  // of a checked choice; NULL: SHOAL_KEEP
shoal_halo_t shoal_halo_of(const char *choice);  // the same; NULL: SHOAL_HALO_WHOLE
// Of a choice of `tile`, "4", "auto 4" or "no"; false: it is none of them.
bool shoal_tiling_of(const char *choice, shoal_tiling_t *out_tiling);
// The text that reads back.
const char *shoal_tiling_text(const shoal_tiling_t *tiling, char out[16]);
// Does a node, whose ways are known, read rows that other ranks have?
bool shoal_plan_has_halo(const shoal_graph_plan_t *gp, int64_t n);
// Does what a node bounds move with all its rows? `choice` as decided; NULL: no.
bool shoal_plan_moves_capacity(const char *choice);
// Refuses decisions about counts of nodes that bound nothing.
SHOAL_MUST_USE shoal_status_t shoal_plan_check_counts(const shoal_plan_t *plan);
// again.c: of values that a pattern wants elsewhere, takes back those that are computed again.
// Refuses decisions that nothing is left of.
SHOAL_MUST_USE shoal_status_t shoal_plan_store_rest(const shoal_plan_t *plan,
                                                    shoal_graph_plan_t *gp, shoal_arena_t *scratch);
// When all nodes have their ways: refuses decisions to split what has no halo.
SHOAL_MUST_USE shoal_status_t shoal_plan_settle_halos(shoal_plan_t *plan);
// Fills what lowering reads besides layouts: regions, keeps, syncs, memories, schedules, fetches.
SHOAL_MUST_USE shoal_status_t shoal_plan_resolve(shoal_plan_t *plan);

// ---- where things lie ------------------------------------------------------------------

int32_t shoal_plan_find_mesh(const shoal_plan_t *plan, const char *name);  // or -1
// Resting layouts; meshes[g][n] is the mesh that node n of graph g was given by a stage, or -1.
// "name#adamw.m" follows "name" unless it has a layout of its own.
SHOAL_MUST_USE shoal_status_t shoal_plan_place_states(shoal_plan_t *plan, int32_t *const *meshes);
// The state that "name#adamw.m" belongs to, if it is declared before it; else -1.
SHOAL_MUST_USE shoal_status_t shoal_plan_owner_state(shoal_plan_t *plan, int64_t state,
                                                     int32_t *out_owner);
// Gives the nodes of a graph that have no mesh one.
void shoal_plan_spread_meshes(const shoal_plan_t *plan, const shoal_graph_t *graph,
                              int32_t *meshes);
// Layouts of inputs: as the intent says, on the mesh of their first reader.
SHOAL_MUST_USE shoal_status_t shoal_plan_place_inputs(shoal_plan_t *plan, shoal_graph_plan_t *gp);
// The layout that an input is fed in, which is not partial.
SHOAL_MUST_USE shoal_status_t shoal_plan_feed_input(shoal_plan_t *plan, shoal_graph_plan_t *gp,
                                                    int32_t value, const char *text, int32_t mesh);
// Parses and checks a layout; without a "mesh!" prefix it is on mesh number `mesh`.
SHOAL_MUST_USE shoal_status_t shoal_plan_parse_layout(shoal_plan_t *plan, const char *text,
                                                      int32_t mesh, const char *what,
                                                      const shoal_shape_t *shape,
                                                      const shoal_layout_t **out_layout);
// The same for the resting layout of a state, which is neither partial nor cut along micro.
SHOAL_MUST_USE shoal_status_t shoal_plan_rest_state(shoal_plan_t *plan, int32_t state,
                                                    const char *text, int32_t mesh);

#endif  // SHOAL_PLAN_COMPLETE_H_
