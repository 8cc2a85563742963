// Which indices an integer input may hold, as the ops that read it say: what made-up data are drawn
// from.
#include <string.h>

#include "base/status.h"
#include "graph/graph.h"
#include "op/indices.h"

// Notes what one consumer says. There is a spare index only where all of them have the same.
static void narrow(const shoal_call_t *call, int32_t input, shoal_index_range_t *range) {
  const int64_t count = shoal_indices(call, input);
  int64_t spare = 0;
  if (count <= 0) return;
  const bool first = range->count == 0;
  if (first || count < range->count) range->count = count;
  const bool has = shoal_indices_spare(call, input, &spare);
  range->spared = has && (first || (range->spared && range->spare == spare));
  range->spare = spare;
}

// Also consumers that read it through other integer ops (a reshape).
static shoal_status_t find(const shoal_graph_t *graph, int32_t value, int depth,
                           shoal_arena_t *arena, shoal_index_range_t *range) {
  for (int64_t n = 0; n < graph->nodes.count; ++n) {
    const shoal_node_t *node = &graph->nodes.items[n];
    bool reads = false;
    for (int32_t i = 0; i < node->input_count; ++i) {
      if (node->inputs[i] != value) continue;
      reads = true;
      if (!node->op->index_count) continue;
      shoal_call_t call;
      SHOAL_RETURN_IF_ERROR(shoal_node_call(graph, node, arena, &call));
      narrow(&call, i, range);
    }
    for (int32_t o = 0; reads && o < node->output_count && depth < 8; ++o) {
      if (shoal_dtype_is_float(graph->values.items[node->outputs[o]].type.dtype)) continue;
      SHOAL_RETURN_IF_ERROR(find(graph, node->outputs[o], depth + 1, arena, range));
    }
  }
  return NULL;
}

shoal_status_t shoal_graph_indices(const shoal_graph_t *graph, int32_t value,
                                   shoal_index_range_t *out_range) {
  *out_range = (shoal_index_range_t){0};
  shoal_arena_t arena;
  shoal_arena_init(graph->model->allocator, &arena);
  shoal_status_t status = find(graph, value, 0, &arena, out_range);
  shoal_arena_deinit(&arena);
  return status;
}

shoal_status_t shoal_graph_input_indices(const shoal_graph_t *graph, const char *name,
                                         int64_t *out_count) {
  *out_count = 0;
  for (int64_t i = 0; graph && i < graph->inputs.count; ++i) {
    if (strcmp(graph->inputs.items[i].name, name) != 0) continue;
    shoal_index_range_t range;
    SHOAL_RETURN_IF_ERROR(shoal_graph_indices(graph, graph->inputs.items[i].value, &range));
    *out_count = range.count;
    return NULL;
  }
  return SHOAL_ERROR(NOT_FOUND, "the graph has no input '%s'", name);
}
