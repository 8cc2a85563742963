// The forward pass of a graph as a chain of *links*, and where it is best divided. A link is what
// the graph's author named as one (a block, a layer, an op outside of all scopes); stages of a
// pipeline are links in a row.
#ifndef SHOAL_PLANNERS_CHAIN_H_
#define SHOAL_PLANNERS_CHAIN_H_

#include "graph/graph.h"

typedef struct shoal_chain_link {
  const char *name;     // of its scope, or of its only node
  int32_t first, last;  // of its nodes in the order of the graph
  bool scope;           // `name` is a scope's
  bool on_way;          // it is on the longest way through the chain
  bool repeated;        // there are others of this name but for the number, and all have weights
  double time;          // of its nodes, F, B and W, in operations; see chain.c
  double boundary;      // bytes of activations that go over the border in front of it
  double parameters;    // bytes of trainable states that it is the first to read
  double states;        // of these with what belongs to them (moments, masters) and their gradients
  double activations;   // bytes of its values that the backward pass reads
} shoal_chain_link_t;

typedef struct shoal_chain {
  int32_t count;
  int32_t longest;  // links on the longest way: the most stages that values pass one after another
  shoal_chain_link_t *links;
  int32_t *of_node;  // by node: its link; -1: it is none of the forward pass that inputs lead to
} shoal_chain_t;

// How much of a node's name is that of its link: "block3" of "block3/attn/q/matmul", "layer1/0",
// "encoder/block2", "wte"; all of it where it is in no scope.
size_t shoal_chain_link_length(const char *name, bool *out_scope);

// Lies in the arena. Linear in the graph.
SHOAL_MUST_USE shoal_status_t shoal_chain_create(const shoal_graph_t *graph, shoal_arena_t *arena,
                                                 shoal_chain_t *out_chain);

// What a part of the chain costs: the sum of `fixed` over its links, and of `moving` times what the
// part's number says (how many micro-batches are in flight there).
typedef struct shoal_chain_costs {
  const double *fixed, *moving;  // by link; `moving` may be NULL
  const double *factors;         // by part
  bool bytes_first;              // moving few bytes over borders comes before small parts
} shoal_chain_costs_t;

// Divides the links, in order, into `stages` parts, each with a link on the longest way, so that
// the largest cost is as small as it can be, and of all such divisions takes one that moves the
// fewest bytes over its borders, and of these the most even; with `bytes_first` one that moves the
// fewest bytes, and of these one with the smallest largest cost. out_starts: the first link of each
// part. Dynamic programming: stages x links x links. The longest way must have as many links as
// there are stages.
SHOAL_MUST_USE shoal_status_t shoal_chain_divide(const shoal_chain_t *chain,
                                                 const shoal_chain_costs_t *costs, int32_t stages,
                                                 shoal_arena_t *arena, int32_t *out_starts);

#endif  // SHOAL_PLANNERS_CHAIN_H_
