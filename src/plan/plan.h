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
#define SHOAL_PLAN_MAX_PREFETCH 1024
#define SHOAL_PLAN_MAX_TILES 64

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

// Why a node has its way along an axis.
typedef enum shoal_because {
  SHOAL_BECAUSE_NONE,      // nothing was to be chosen
  SHOAL_BECAUSE_FOLLOWS,   // an input is cut like that
  SHOAL_BECAUSE_PINNED,    // an output is to be cut like that
  SHOAL_BECAUSE_CHEAPEST,  // no operand is cut like that, but it moves least
  SHOAL_BECAUSE_GATHERED,  // it is whole; an input that is cut has to be gathered
  SHOAL_BECAUSE_UNFIT,     // it is whole, for a cut would not fit the ways along other axes
  SHOAL_BECAUSE_EARLY,     // it is whole along micro: each micro-batch needs what all of them give
  SHOAL_BECAUSE_PHASES,    // it is composite: an input stays cut like that
  SHOAL_BECAUSE_CLAIMED,   // each rank clips its own summand of a gradient (summands.c)
  SHOAL_BECAUSE_DECIDED    // the intent says so
} shoal_because_t;

// Costs are in bytes that are moved; they only rank alternatives.
typedef struct shoal_why {
  shoal_because_t because;
  int32_t operand;  // the operand in question: inputs, then outputs; -1: none
  bool partial;     // it is an unreduced sum
  bool merged;      // log-sum-exp merges its outputs, which `cost` has
  bool rows;        // ranks exchange rows, if it is composite, or else their sum: `cost` has that
  double cost;
  const shoal_way_t *runner_up;  // the next best way; NULL: whole
  bool runner_up_composite;      // the next best is the composite way
  double runner_up_cost;         // infinite where there is no other
  const shoal_intent_decision_t *decided;
} shoal_why_t;

// The same as a plan file tells it.
typedef struct shoal_told {
  const char *by, *reason, *runner_up;  // NULL: not told
  double cost, runner_up_cost;
} shoal_told_t;

typedef struct shoal_node_plan {
  int32_t mesh;
  const shoal_decision_t *decision;
  const shoal_why_t *why;    // by slot; shared by nodes that are alike. NULL: see `told`
  const shoal_told_t *told;  // by slot, of a plan that was read. NULL: see `why`
} shoal_node_plan_t;

// A node of the model that is computed in phases: nodes of its op's decomposition stand for it in
// the plan. Each has a way of its own.
typedef struct shoal_composite {
  int32_t graph, node;       // in plan->original
  int32_t first, count;      // its parts: nodes of plan->model
  const shoal_why_t *why;    // by slot, of plan->graphs[graph].nodes[first].mesh. NULL: see `told`
  const shoal_told_t *told;  // by slot, of a plan that was read. NULL: see `why`
} shoal_composite_t;

// Where a copy of a value is needed.
typedef enum shoal_side {
  SHOAL_SIDE_FORWARD,
  SHOAL_SIDE_BACKWARD,
  SHOAL_SIDE_UPDATE,
  SHOAL_SIDE_COUNT
} shoal_side_t;

// What becomes of a value between the forward pass and whoever needs it later: it is kept; copies
// of it in other layouts than its own are made again on each side; it waits in the host's memory or
// in a file.
typedef enum shoal_keep {
  SHOAL_KEEP,
  SHOAL_KEEP_REDO,
  SHOAL_KEEP_HOST,
  SHOAL_KEEP_FILE
} shoal_keep_t;

// Whether ranks exchange the rows that a gradient is a sum of, or add up all of it (sparse.c).
typedef enum shoal_rows_word {
  SHOAL_ROWS_BY_COST,
  SHOAL_ROWS_SPARSE,
  SHOAL_ROWS_DENSE
} shoal_rows_word_t;

// How the gradient of a state is exchanged, and how early copies of the state are gathered.
typedef struct shoal_sync {
  bool each;             // every micro-batch; else once, behind the last
  int64_t bucket_bytes;  // exchanged together up to this size; 0: one by one
  const char *bucket;    // exchanged together with all of that name; NULL: by size
  bool cast;             // it is exchanged as `dtype`; else as what it is
  shoal_dtype_t dtype;
  int32_t scale_log2;  // multiplied by 2 to this power on its way, where it is cast
  shoal_rows_word_t rows;
  const shoal_intent_decision_t *rows_by;  // the decision that says so; NULL: none, or a plan file
  int32_t prefetch;                        // how many layers ahead copies are gathered
} shoal_sync_t;

// Whether a node that reads rows of neighbours computes first what needs none of them: never; it
// does, and cannot be lowered otherwise; where that is possible.
typedef enum shoal_halo { SHOAL_HALO_WHOLE, SHOAL_HALO_SPLIT, SHOAL_HALO_AUTO } shoal_halo_t;

// In how many tiles a node is computed, beside the gather of its input or the reduction of its
// output; 0: in one piece. A ring counts as 1: its tiles are the ranks' parts.
typedef struct shoal_tiling {
  int32_t count;
  bool ring;
  bool where_possible;  // else it cannot be lowered otherwise
} shoal_tiling_t;

// A node that makes a sum of rows: what decides whether ranks exchange the rows or the sum.
typedef struct shoal_row_sum {
  int32_t state;               // whose gradient it is a summand of; -1: of none
  bool alone;                  // and all others are such sums as well
  bool by_cost;                // completion weighs both
  const shoal_layout_t *home;  // where the gradient is wanted once it is complete
  int64_t times;               // how often in a step the sum would be added up
} shoal_row_sum_t;

typedef struct shoal_graph_plan {
  const shoal_graph_t *graph;
  shoal_node_plan_t *nodes;       // one per node
  const shoal_layout_t **values;  // one per value: as produced, fed or read
  int32_t *regions;         // by node: the region it is recomputed with, numbered from 0; -1: it is
                            // computed once
  shoal_keep_t *keeps;      // by value
  int32_t *assigned;        // by value: the state it is assigned to, or -1
  int32_t *constrainers;    // by value: the first node of shoal.constrain that reads it, or -1.
                            // NULL: there are none
  shoal_halo_t *halos;      // by node; WHOLE where it has no halo
  bool *at_capacity;        // by node: what it bounds moves with all its rows
  shoal_tiling_t *tilings;  // by node
  const shoal_row_sum_t *rows;  // by node; NULL: none makes sums of rows, or the plan was read
  const int32_t *owners;     // by node: the composite it is a part of, or -1. NULL: there are none
  shoal_dtype_t *exchanged;  // by value: the type in which ranks sum it; NULL: all as they are
  int32_t *scale_log2;       // by value: and its scale, 2 to this power; NULL: 1
  bool *on_request;          // by output: gathered only when somebody asks for it
  const struct shoal_schedule *schedule;  // of micro-batches; NULL: none was asked for
} shoal_graph_plan_t;

// Decisions about ways along one axis ("micro" too), by pattern.
typedef struct shoal_way_decisions {
  const char *axis;
  struct shoal_patterns *patterns;
} shoal_way_decisions_t;

struct shoal_plan {
  shoal_allocator_t allocator;
  shoal_arena_t arena;
  const shoal_model_t *given;     // the model that it was made for
  const shoal_model_t *original;  // the same, or a copy with as many summands as ranks have
  const shoal_model_t *model;     // the same, or a copy in which parts stand for composite nodes
  shoal_model_t *owned_original, *owned_model;  // these copies, or NULL
  int64_t summands;             // how many ranks clip their own part of a gradient; 1: none does
  bool **phased;                // by graph and node of `original`: it is composite
  bool settled;                 // which nodes are composite is not to be asked again
  int64_t found;                // composite ways that completion found cheaper
  shoal_expansion_t expansion;  // from `original` to `model`; zero if they are the same
  SHOAL_VEC(shoal_composite_t) composites;
  shoal_rules_t *rules;
  int32_t world;
  shoal_intent_t intent;  // deep copy
  int64_t mesh_count;
  shoal_mesh_t *meshes;  // the intent's; micro is the same on all
  int64_t micro;
  struct shoal_patterns *patterns;  // of the intent, by kind of decision
  int64_t way_count;
  shoal_way_decisions_t *ways;    // by axis that some decision about a way names
  shoal_layouts_t layouts;        // all layouts of the plan, kept once
  const shoal_layout_t **states;  // resting layout per state of the model
  shoal_sync_t *syncs;            // by state
  bool *trained;                  // by state: it has a gradient; NULL: nobody asked
  shoal_memory_kind_t *memories;  // by state: where it rests
  shoal_graph_plan_t *graphs;     // one per graph of the model
  shoal_index_t decision_index;
  SHOAL_VEC(shoal_decision_t *) decisions;
};

// Kinds of decisions, as decisions.inc lists them.
typedef enum shoal_decide {
#define SHOAL_DECISION(id, name, of, choices, doc) SHOAL_DECIDE_##id,
#include "plan/decisions.inc"
#undef SHOAL_DECISION
  SHOAL_DECIDE_COUNT
} shoal_decide_t;

// The decision of the intent that `name` falls under, or NULL where there is none; entries of the
// intent's maps count as decisions. For messages: "decision 'recompute block* yes' ...".
const shoal_intent_decision_t *shoal_plan_decided(const shoal_plan_t *plan, shoal_decide_t kind,
                                                  const char *name);
// Marks the values of a graph that its regions let be computed again if the backward side needs
// them, wherever they wait: not those that leave their region in the forward pass, are outputs,
// assigned, or read by an update.
void shoal_plan_find_again(const shoal_graph_plan_t *gp, bool *again);
// The layout that is decided for an input or a computed value of a graph.
const shoal_intent_decision_t *shoal_plan_decided_value(const shoal_plan_t *plan,
                                                        const shoal_graph_t *graph,
                                                        const char *name);
// Is an output of this type gathered on request where no decision says when?
bool shoal_plan_waits_for_request(const shoal_plan_t *plan, const shoal_type_t *type);

// Does this item of a layout reach over to other ranks' rows?
bool shoal_cut_widens(const shoal_layout_t *layout, int32_t item);

// The same about a node of the plan: what was decided about a composite node holds for its parts.
const shoal_intent_decision_t *shoal_plan_decided_node(const shoal_plan_t *plan,
                                                       shoal_decide_t kind,
                                                       const shoal_graph_plan_t *graph,
                                                       int64_t node);
static inline const shoal_composite_t *shoal_plan_owner(const shoal_plan_t *plan,
                                                        const shoal_graph_plan_t *graph,
                                                        int64_t node) {
  const int32_t owner = graph->owners ? graph->owners[node] : -1;
  return owner < 0 ? NULL : &plan->composites.items[owner];
}
static inline const shoal_node_t *shoal_composite_node(const shoal_plan_t *plan,
                                                       const shoal_composite_t *composite) {
  return &plan->original->graphs.items[composite->graph]->nodes.items[composite->node];
}

#endif  // SHOAL_PLAN_PLAN_H_
