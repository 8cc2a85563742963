// Following a dim through a graph by the rules of its nodes: what `spatial` and `channel` share.
// Which dims belong together is read off the ways, never off names of ops.
#ifndef SHOAL_PLANNERS_TRAIL_H_
#define SHOAL_PLANNERS_TRAIL_H_

#include "planners/batch.h"

typedef struct shoal_trail {
  shoal_strategy_context_t *context;
  const shoal_graph_t *graph;  // "train", or the first after init; NULL: there is none
  const shoal_rule_t **rules;  // by node
  int32_t *dims;               // by value: the dim that is cut along the axis at hand; -1: none
  bool *seen;                  // by value, for shoal_trail_trace
} shoal_trail_t;

// What shoal_trail_trace finds, and its dim: an input, a state, or what no way makes dim by dim.
typedef shoal_status_t (*shoal_trail_fn_t)(void *self, int32_t value, int32_t dim);

SHOAL_MUST_USE shoal_status_t shoal_trail_init(shoal_strategy_context_t *context,
                                               shoal_trail_t *out_walk);
// Nothing is cut.
void shoal_trail_reset(shoal_trail_t *trail);
// Is the operand one run of as many elements as there are items: no unit, copies, window or halo?
bool shoal_operand_is_plain(const shoal_way_operand_t *operand);
// The way of node `n` that goes on with most of the dims by which its inputs are cut, the earliest
// of equals; NULL: there is none that goes on with any. Inputs that another way would need
// otherwise do not matter: they are changed.
const shoal_way_t *shoal_trail_way(const shoal_trail_t *trail, int64_t n);
// Takes the node's outputs to be cut as the way has them. NULL: not at all, but for a node that can
// be computed in phases (a norm along the cut dim): what has an input's shape stays cut like it.
void shoal_trail_take(shoal_trail_t *trail, int64_t n, const shoal_way_t *way);
// Calls `found` for each input, state and value inside of the graph that dim `dim` of a value comes
// from, element by element.
SHOAL_MUST_USE shoal_status_t shoal_trail_trace(shoal_trail_t *trail, int32_t value, int32_t dim,
                                                shoal_trail_fn_t found, void *self);

#endif  // SHOAL_PLANNERS_TRAIL_H_
