// The graph as passes see it. Read-only outside graph/: rules, planners and lowering walk these
// arrays.
#ifndef SHOAL_GRAPH_GRAPH_H_
#define SHOAL_GRAPH_GRAPH_H_

#include "base/index.h"
#include "base/text.h"
#include "shoal/graph.h"

typedef enum shoal_source { SHOAL_FROM_NODE, SHOAL_FROM_INPUT, SHOAL_FROM_STATE } shoal_source_t;

typedef struct shoal_value_info {
  shoal_type_t type;
  const char
      *name;  // the node's ("block0/attn/softmax"; "block0/attn/attention.lse" when the op has
              // several outputs), the input's or the state's. Unique in the graph
  shoal_source_t source;
  int32_t node, output;  // FROM_NODE
  int32_t index;         // FROM_INPUT: into inputs; FROM_STATE: into the model's states
  const char *file;
  int line;
} shoal_value_info_t;

// How ranks share a node's work, as shoal_with_replicate and shoal_with_split ask.
typedef struct shoal_sharing {
  shoal_share_t kind;
  int32_t ranks;  // of one copy; 0: all there are
} shoal_sharing_t;

typedef struct shoal_node {
  const shoal_op_t *op;
  const char *name;  // unique in the graph
  int32_t input_count, output_count;
  const int32_t *inputs, *outputs;  // value ids
  const shoal_attr_value_t *attrs;  // in schema order, for the whole
  shoal_node_kind_t kind;
  int32_t of;  // of a gradient: the forward node it belongs to, which comes before it; of a sum of
               // gradients of a state, the first that reads the state. -1: none
  int32_t stage;  // of a pipeline, that shoal_with_stage asks for, plus 1; 0: none
  shoal_sharing_t sharing;
  int32_t recompute;  // the region that shoal_with_recompute makes it part of, plus 1; 0: none
  const char *file;
  int line;
} shoal_node_t;

typedef struct shoal_named {
  const char *name;
  int32_t value;
} shoal_named_t;
// What shoal_constrain was told.
typedef struct shoal_constraint {
  int32_t value;
  const char *layout, *file;  // the model's own copies
  int line;
} shoal_constraint_t;
typedef struct shoal_assignment {
  int32_t state, value;
  int32_t predicate;  // a bool scalar: without it the state stays as it is. -1: always assigned
} shoal_assignment_t;

struct shoal_graph {
  shoal_model_t *model;
  const char *name;
  SHOAL_VEC(shoal_value_info_t) values;
  SHOAL_VEC(shoal_node_t) nodes;  // in topological order
  SHOAL_VEC(shoal_named_t) inputs, outputs;
  SHOAL_VEC(shoal_assignment_t) assigns;  // at most one per state
  const char *instead;  // a trainable state is read as the state "<name>#<instead>" if there is one
  struct shoal_graph_builder *builder;        // names in use, scopes: private to graph/
  SHOAL_VEC(shoal_constraint_t) constraints;  // at most one per value
};

typedef struct shoal_state_info {
  const char *name;
  shoal_type_t type;
  shoal_state_options_t options;
  const char *file;
  int line;
} shoal_state_info_t;

// What shoal_freeze was told.
typedef struct shoal_frozen {
  const char *pattern, *file;
  int line;
  bool late;  // after a minimize, which trains what it trains already
  bool used;  // a minimize left a state out for it
} shoal_frozen_t;

struct shoal_model {
  shoal_allocator_t allocator;
  shoal_arena_t arena;
  shoal_registry_t *registry;
  uint64_t seed;
  bool mixed;  // parameters of layers that compute in half precision are f32
  SHOAL_VEC(shoal_state_info_t) states;
  shoal_index_t state_index;          // by name
  SHOAL_VEC(shoal_graph_t *) graphs;  // "init" is graphs.items[0]
  SHOAL_VEC(shoal_frozen_t) frozen;
  bool minimized;        // a graph of it trains
  bool init_rewritten;   // "init" no longer follows from the states alone
  shoal_status_t error;  // the first
};

// "forward", "input_gradient" ...: as the text form has it.
const char *shoal_node_kind_name(shoal_node_kind_t kind);
const char *shoal_share_name(shoal_share_t share);  // "", "replicate", "split": likewise
static inline bool shoal_node_is_gradient(const shoal_node_t *node) {
  return node->kind == SHOAL_NODE_INPUT_GRADIENT || node->kind == SHOAL_NODE_WEIGHT_GRADIENT;
}

int32_t shoal_model_find_state(const shoal_model_t *model, const char *name);  // or -1
// Says whether a minimize leaves this trainable state out, and marks the patterns that freeze it as
// used.
bool shoal_model_freezes(shoal_model_t *model, const char *state);
// types[] of a node's operands, arena-allocated, as a call on the whole.
SHOAL_MUST_USE shoal_status_t shoal_node_call(const shoal_graph_t *graph, const shoal_node_t *node,
                                              shoal_arena_t *arena, shoal_call_t *out_call);
// Indices that an integer value may hold: [0, count) and, if `spared`, the number `spare`, which
// stands for none. count is the least that a consumer allows; 0: none of them says.
typedef struct shoal_index_range {
  int64_t count, spare;
  bool spared;
} shoal_index_range_t;
SHOAL_MUST_USE shoal_status_t shoal_graph_indices(const shoal_graph_t *graph, int32_t value,
                                                  shoal_index_range_t *out_range);
// Hash of everything that decides what the model computes (not of file and line).
uint64_t shoal_model_hash(const shoal_model_t *model);
// Hash of what a plan speaks of: states, values and nodes with their names, types and attributes,
// without numbers that change values only (real attributes, initial values, the seed).
uint64_t shoal_model_structure_hash(const shoal_model_t *model);

// A copy of the model in which each named node of `graph` is replaced by its op's decomposition
// (nodes "name/op"); the node's outputs keep their names. For ways that need several phases.
SHOAL_MUST_USE shoal_status_t shoal_model_expand(const shoal_model_t *model, const char *graph,
                                                 const char *const *nodes, int64_t count,
                                                 shoal_model_t **out_model);
// What became of nodes and values, by graph.
typedef struct shoal_expansion {
  const int32_t **sources;  // by node of the copy: the node that it is, or is a part of
  const int32_t **values;   // by value of the model: the value of the copy
} shoal_expansion_t;
// The same for nodes of all graphs, chosen[graph][node]; chosen[graph] may be NULL. The expansion
// lies in `arena`.
SHOAL_MUST_USE shoal_status_t shoal_model_expand_nodes(const shoal_model_t *model,
                                                       const bool *const *chosen,
                                                       shoal_arena_t *arena,
                                                       shoal_expansion_t *out_expansion,
                                                       shoal_model_t **out_model);
// A copy of the model in which gradients have so many summands, for ops that ask (`summands` in
// op.h): the same nodes, in the same order and by the same names, on types that follow from it.
SHOAL_MUST_USE shoal_status_t shoal_model_set_summands(const shoal_model_t *model, int64_t count,
                                                       shoal_model_t **out_model);
// A model whose last graph is the decomposition of one node alone; what the node reads are its
// inputs. Names are those that an expanded copy has. out_operands: the values of that graph that
// are the node's inputs, then its outputs.
SHOAL_MUST_USE shoal_status_t shoal_node_expand(const shoal_graph_t *graph,
                                                const shoal_node_t *node, shoal_arena_t *arena,
                                                int32_t *out_operands, shoal_model_t **out_model);

#endif  // SHOAL_GRAPH_GRAPH_H_
