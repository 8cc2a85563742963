// Random chains of nodes over rows of bounded sizes: what bounds them and what reads them is cut
// along different dims, so that rows are exchanged, with counts from nothing to all. In some cases
// each group is multiplied by a weight of its own, in some a group has more rows than there is room
// for: every rank has to say so.
#include <string.h>

#include "base/status.h"
#include "explore/generate.h"

typedef shoal_generator_t gen_t;

// A product for each of the second dim's groups: experts, which a strategy may deal out.
static bool multiply(gen_t *g, const shoal_shape_t *shape, shoal_case_ref_t n,
                     shoal_case_ref_t *x) {
  const shoal_shape_t weight = SHOAL_SHAPE(shape->dims[1], shape->dims[3], 2 + shoal_roll(g, 3));
  const shoal_case_ref_t bounded[2] = {*x, n};
  shoal_case_ref_t pair[2];
  if (!shoal_generate_node(g, "bound", 2, bounded, "", 2, &pair[0])) return false;
  pair[1] = shoal_generate_state(g, &weight);
  return shoal_generate_node(g, "einsum", 2, pair, "equation=\"abcd,bde->abce\"",
                             2.0 * (double)shape->dims[3], x);
}

// [g.., C, ..]: one or two dims of groups, rows, and perhaps a dim behind them.
shoal_status_t shoal_generate_rows(gen_t *g) {
  const int32_t groups = shoal_chance(g, 75) ? 2 : 1;
  shoal_shape_t shape = {.rank = groups + (shoal_chance(g, 80) ? 2 : 1)};
  for (int32_t d = 0; d < shape.rank; ++d) shape.dims[d] = 2 + shoal_roll(g, 5);
  const int64_t capacity = shape.dims[groups] = 1 + shoal_roll(g, shoal_chance(g, 20) ? 30 : 6);
  const shoal_dtype_t dtypes[] = {SHOAL_I32, SHOAL_I64, SHOAL_U8};
  shoal_case_input_t counts = {.type = {dtypes[shoal_roll(g, 3)], shape}, .limit = capacity + 1};
  counts.type.shape.rank = groups;
  if (shoal_chance(g, 20)) counts.limit *= 4;
  g->dtype = shoal_chance(g, 70) ? SHOAL_F64 : shoal_chance(g, 60) ? SHOAL_F32 : SHOAL_BF16;
  g->c->steps = SHOAL_CASE_STEPS;
  g->c->optimizer = (shoal_case_optimizer_t)(1 + shoal_roll(g, SHOAL_CASE_DRAWN_COUNT - 1));
  g->c->eval = shoal_chance(g, 25);
  g->c->opaque = shoal_chance(g, 25);
  const shoal_case_ref_t n = shoal_generate_input(g, &counts);
  shoal_case_ref_t pair[2] = {
      shoal_generate_input(g, &(shoal_case_input_t){.type = {g->dtype, shape}}),
      shoal_generate_state(g, &shape)};
  shoal_case_ref_t x;
  bool ok = shoal_generate_node(g, "add", 2, pair, "", 2, &x);
  if (ok && shape.rank == 4 && shoal_chance(g, 50)) ok = multiply(g, &shape, n, &x);
  for (int64_t i = 1 + shoal_roll(g, 3); i > 0 && ok; --i) {
    static const char *const reads[] = {"tanh", "neg", "gelu"};
    const shoal_case_ref_t bounded[2] = {x, n};
    ok = shoal_generate_node(g, "bound", 2, bounded, "", 2, &x) &&
         shoal_generate_node(g, reads[shoal_roll(g, 3)], 1, &x, "", 2, &x);
  }
  return ok ? NULL : SHOAL_ERROR(INTERNAL, "rows of a random case could not be bounded");
}

// Cuts a node along one of its output's dims, any but `other`; says which.
static shoal_status_t cut_node(gen_t *g, const shoal_model_t *model, const shoal_graph_t *graph,
                               const shoal_node_t *node, int32_t other, int32_t *out_dim) {
  const int32_t rank = graph->values.items[node->outputs[0]].type.shape.rank;
  const int32_t groups = graph->values.items[node->inputs[node->input_count - 1]].type.shape.rank;
  int32_t dim = (int32_t)shoal_roll(g, rank);
  if (dim == other) dim = (dim + 1) % rank;
  *out_dim = dim;
  const bool counts = node->op->bounds && dim < groups;
  return shoal_generate_way(
      g, model, node->name,
      counts ? shoal_arena_printf(g->arena, "rows={x:%d, counts:%d -> out:%d}", dim, dim, dim)
             : shoal_arena_printf(g->arena, "rows={x:%d -> out:%d}", dim, dim));
}

shoal_status_t shoal_generate_dispatch(gen_t *g, const shoal_model_t *model) {
  const int64_t size = 2 + shoal_roll(g, 3), micro = shoal_chance(g, 35) ? 2 + shoal_roll(g, 2) : 1;
  const bool data = shoal_chance(g, 25);
  const char *mesh = shoal_arena_printf(g->arena, "%srows=%lld", data ? "data=2," : "",
                                        (long long)(data ? 2 : size));
  if (mesh && micro > 1)
    mesh = shoal_arena_printf(g->arena, "%s,micro=%lld", mesh, (long long)micro);
  g->c->ranks = data ? 4 : size;
  if (!mesh || !SHOAL_PUSH(g->arena, &g->c->meshes, mesh)) return SHOAL_OOM();
  // The first dim of groups is the batch: of counts and rows.
  const char *batch = data && shoal_chance(g, 60) ? "data:0" : "";
  if (micro > 1) batch = *batch ? "micro:0,data:0" : "micro:0";
  for (int i = 0; i < 2 && *batch; ++i) {
    const shoal_intent_entry_t pin = {i == 0 ? "i0" : "i1", batch};
    if (!SHOAL_PUSH(g->arena, &g->c->pins, pin)) return SHOAL_OOM();
  }
  if (shoal_chance(g, 25))
    SHOAL_RETURN_IF_ERROR(shoal_generate_decide(g, "counts", "*bound", "capacity"));
  const shoal_graph_t *graph = shoal_model_find_graph(model, "train");
  for (int64_t n = 0; n < graph->nodes.count; ++n) {
    const shoal_node_t *node = &graph->nodes.items[n];
    int32_t dim = 0, unused;
    if (!node->op->bounds) continue;
    SHOAL_RETURN_IF_ERROR(cut_node(g, model, graph, node, -1, &dim));
    for (int64_t r = n + 1; r < graph->nodes.count; ++r) {
      const shoal_node_t *reader = &graph->nodes.items[r];
      if (reader->input_count != 1 || reader->inputs[0] != node->outputs[0]) continue;
      SHOAL_RETURN_IF_ERROR(cut_node(g, model, graph, reader, dim, &unused));
    }
  }
  return NULL;
}
