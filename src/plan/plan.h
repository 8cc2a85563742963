// The plan as lowering and planners see it.
#ifndef SHOAL_PLAN_PLAN_H_
#define SHOAL_PLAN_PLAN_H_

#include "base/arena.h"
#include "graph/graph.h"
#include "rules/rules.h"
#include "shoal/plan.h"

// Choices are per axis: slot 0 is micro, slot 1 + a is axis a of the node's mesh.
#define SHOAL_PLAN_SLOTS (SHOAL_MAX_AXES + 1)

typedef struct shoal_choice {
  const shoal_way_t *way;  // NULL: whole
  shoal_item_cut_t item_cut;
} shoal_choice_t;

typedef struct shoal_node_plan {
  int32_t mesh;
  shoal_choice_t choices[SHOAL_PLAN_SLOTS];
} shoal_node_plan_t;

typedef struct shoal_graph_plan {
  const shoal_graph_t *graph;
  shoal_node_plan_t *nodes;  // one per node
  shoal_layout_t *values;    // one per value: as produced, fed or read
} shoal_graph_plan_t;

struct shoal_plan {
  shoal_allocator_t allocator;
  shoal_arena_t arena;
  const shoal_model_t *model;  // expanded where the intent says so
  shoal_model_t *owned_model;  // the expanded copy, or NULL
  shoal_rules_t *rules;
  int32_t world;
  shoal_intent_t intent;  // deep copy
  int64_t mesh_count;
  shoal_mesh_t *meshes;  // the intent's; micro is the same on all
  int64_t micro;
  shoal_layout_t *states;      // resting layout per state of the model
  shoal_graph_plan_t *graphs;  // one per graph of the model
};

// Layout of operand `operand` (inputs, then outputs) of a node, from its choices.
SHOAL_MUST_USE shoal_status_t shoal_plan_operand(const shoal_plan_t *plan,
                                                 const shoal_graph_plan_t *graph, int32_t node,
                                                 int32_t operand, shoal_layout_t *out_layout);

#endif  // SHOAL_PLAN_PLAN_H_
