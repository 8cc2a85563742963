// What a plan computes otherwise than one device would: gradients that ranks sum in a type that
// rounds more, or reaches less far, than their own; and gradients that each rank clips before.
#include "base/status.h"
#include "plan/gradients.h"

// Does the exchange lose something of what the type holds? bf16 and f16 lose of each other.
static bool loses(shoal_dtype_t own, shoal_dtype_t exchanged) {
  return exchanged != own && shoal_dtype_size(exchanged) <= shoal_dtype_size(own);
}

// Along how many axes ranks have parts of a sum. Those of micro-batches are summed where they are.
static int32_t count_partial(const shoal_layout_t *layout) {
  int32_t count = 0;
  for (int32_t i = 0; i < layout->cut_count; ++i)
    count += layout->cuts[i].kind == SHOAL_CUT_PARTIAL && layout->cuts[i].axis != SHOAL_AXIS_MICRO;
  return count;
}

// Marks the values of which ranks have parts of a sum that others want summed.
static void find_summed(const shoal_graph_plan_t *gp, bool *summed) {
  const shoal_graph_t *graph = gp->graph;
  for (int64_t n = 0; n < graph->nodes.count; ++n) {
    const shoal_node_t *node = &graph->nodes.items[n];
    for (int32_t k = 0; k < node->input_count; ++k)
      summed[node->inputs[k]] |= count_partial(gp->nodes[n].decision->operands[k]) <
                                 count_partial(gp->values[node->inputs[k]]);
  }
  for (int64_t a = 0; a < graph->assigns.count; ++a)
    summed[graph->assigns.items[a].value] |=
        count_partial(gp->values[graph->assigns.items[a].value]) > 0;
  for (int64_t o = 0; o < graph->outputs.count; ++o)
    summed[graph->outputs.items[o].value] |=
        count_partial(gp->values[graph->outputs.items[o].value]) > 0;
}

// Marks the states whose gradients lose something where ranks sum them.
static shoal_status_t find_losses(const shoal_plan_t *plan, const shoal_graph_plan_t *gp,
                                  shoal_arena_t *arena, bool *lost) {
  shoal_gradients_t *gradients = NULL;
  if (!gp->exchanged) return NULL;
  bool *summed = SHOAL_NEW(arena, bool, gp->graph->values.count);
  if (!summed) return SHOAL_OOM();
  find_summed(gp, summed);
  SHOAL_RETURN_IF_ERROR(shoal_gradients_make(gp->graph, plan->model, arena, &gradients));
  for (int32_t v = 0; v < gp->graph->values.count; ++v) {
    const shoal_dtype_t own = gp->graph->values.items[v].type.dtype;
    if (!summed[v] || !loses(own, gp->exchanged[v])) continue;
    const int32_t state = shoal_gradients_state(gradients, v);
    if (state >= 0) lost[state] = true;
  }
  return NULL;
}

shoal_status_t shoal_plan_approximate(const shoal_plan_t *plan, shoal_arena_t *arena,
                                      int64_t *out_count, const char *const **out_lines) {
  int64_t counts[SHOAL_DTYPE_COUNT] = {0}, scaled[SHOAL_DTYPE_COUNT] = {0}, count = 0;
  const char **lines = SHOAL_NEW(arena, const char *, SHOAL_DTYPE_COUNT + 1);
  bool *lost = SHOAL_NEW(arena, bool, plan->model->states.count);
  if (!lines || !lost) return SHOAL_OOM();
  for (int64_t g = 0; g < plan->model->graphs.count && plan->world > 1; ++g)
    SHOAL_RETURN_IF_ERROR(find_losses(plan, &plan->graphs[g], arena, lost));
  for (int64_t s = 0; s < plan->model->states.count; ++s) {
    if (!lost[s]) continue;
    ++counts[plan->syncs[s].dtype];
    scaled[plan->syncs[s].dtype] += plan->syncs[s].scale_log2 != 0;
  }
  if (plan->summands > 1) {
    lines[count] = shoal_arena_printf(arena, "gradients are clipped before %lld ranks sum them",
                                      (long long)plan->summands);
    if (!lines[count++]) return SHOAL_OOM();
  }
  for (int t = 0; t < SHOAL_DTYPE_COUNT; ++t) {
    if (counts[t] == 0) continue;
    const char *rest = scaled[t] == 0 ? "" : ", scaled";
    if (scaled[t] > 0 && scaled[t] < counts[t])
      rest = shoal_arena_printf(arena, ", %lld of them scaled", (long long)scaled[t]);
    lines[count] =
        !rest ? NULL
              : shoal_arena_printf(
                    arena, "the gradient%s of %lld state%s %s summed over ranks in %s%s",
                    counts[t] > 1 ? "s" : "", (long long)counts[t], counts[t] > 1 ? "s" : "",
                    counts[t] > 1 ? "are" : "is", shoal_dtype_name((shoal_dtype_t)t), rest);
    if (!lines[count++]) return SHOAL_OOM();
  }
  *out_count = count;
  *out_lines = lines;
  return NULL;
}
