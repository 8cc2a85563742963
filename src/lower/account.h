// What the accounts of a program share (layers.c, ledger.c, traffic.c): where the value of a buffer
// comes from, looked up by name in the graph that the program was lowered from.
#ifndef SHOAL_LOWER_ACCOUNT_H_
#define SHOAL_LOWER_ACCOUNT_H_

#include "base/index.h"
#include "graph/graph.h"
#include "shoal/lower.h"

typedef enum shoal_origin {
  SHOAL_ORIGIN_FORWARD,
  SHOAL_ORIGIN_GRADIENT,
  SHOAL_ORIGIN_UPDATE,
  SHOAL_ORIGIN_STATE,
  SHOAL_ORIGIN_INPUT,
  SHOAL_ORIGIN_UNKNOWN  // made by lowering
} shoal_origin_t;

typedef struct shoal_account {
  const shoal_program_t *program;
  const shoal_class_t *rank_class;
  const shoal_graph_t *graph;
  const shoal_order_t *order;
  shoal_arena_t *scratch;
  shoal_index_t nodes, values;  // of the graph, by name
} shoal_account_t;

// NOT_FOUND: there is no such graph; INVALID_ARGUMENT: no such rank. Everything lies in `scratch`.
SHOAL_MUST_USE shoal_status_t shoal_account_open(const shoal_plan_t *plan,
                                                 const shoal_program_t *program, const char *graph,
                                                 int32_t rank, shoal_arena_t *scratch,
                                                 shoal_account_t *out_account);
// How much of a name is that of its layer: its scopes up to the first that ends in a digit
// ("block0", "decoder/block1"), else the first alone ("wte").
size_t shoal_account_layer(const char *name);
shoal_origin_t shoal_account_value(const shoal_account_t *account, const char *name);
shoal_origin_t shoal_account_node(const shoal_account_t *account, const char *name);

#endif  // SHOAL_LOWER_ACCOUNT_H_
