// The plan as lowering and planners see it.
#ifndef SHOAL_PLAN_PLAN_H_
#define SHOAL_PLAN_PLAN_H_

#include "base/arena.h"
#include "graph/graph.h"
#include "layout/intern.h"
#include "rules/rules.h"
#include "shoal/plan.h"

// Choices are per axis: slot 0 is micro, slot 1 + a is axis a of the node's mesh.
#define SHOAL_PLAN_SLOTS (SHOAL_MAX_AXES + 1)
#define SHOAL_PLAN_MAX_MICRO (1 << 16)  // as many as a program may have

typedef struct shoal_choice {
  const shoal_way_t *way;  // NULL: whole
  shoal_item_cut_t item_cut;
} shoal_choice_t;

// What was decided for a node, and what follows from it. Equal nodes share one decision: a hundred
// equal blocks have the decisions of one block.
typedef struct shoal_decision {
  int32_t mesh, operand_count;
  shoal_choice_t choices[SHOAL_PLAN_SLOTS];
  const shoal_type_t *types;        // of the operands: inputs, then outputs
  const shoal_layout_t **operands;  // as the node wants its inputs and makes its outputs
} shoal_decision_t;

typedef struct shoal_node_plan {
  int32_t mesh;
  const shoal_decision_t *decision;
} shoal_node_plan_t;

typedef struct shoal_graph_plan {
  const shoal_graph_t *graph;
  shoal_node_plan_t *nodes;       // one per node
  const shoal_layout_t **values;  // one per value: as produced, fed or read
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
  struct shoal_patterns *patterns;  // of the intent: layouts, then stages
  shoal_layouts_t layouts;          // all layouts of the plan, kept once
  const shoal_layout_t **states;    // resting layout per state of the model
  shoal_graph_plan_t *graphs;       // one per graph of the model
  shoal_index_t decision_index;
  SHOAL_VEC(shoal_decision_t *) decisions;
};

#endif  // SHOAL_PLAN_PLAN_H_
