// What a check feeds, and in which order it runs the graphs. Rows, ranks, steps and inputs all get
// different numbers: a test in which every rank has the same data cannot fail.
#include <string.h>

#include "base/dtype.h"
#include "base/hash.h"
#include "base/philox.h"
#include "base/status.h"
#include "prove/reference.h"

// Integers are places in something: a table's rows, a row of classes. The consumer that looks them
// up has a place attribute on what it looks in; the shorter of its first and last dim is a safe
// limit.
static int64_t limit_of(const shoal_graph_t *graph, int32_t value, int depth) {
  int64_t limit = INT64_MAX;
  for (int64_t n = 0; n < graph->nodes.count; ++n) {
    const shoal_node_t *node = &graph->nodes.items[n];
    bool reads = false;
    for (int32_t i = 0; i < node->input_count; ++i) reads |= node->inputs[i] == value;
    if (!reads) continue;
    for (int32_t a = 0; a < node->op->attr_count; ++a) {
      const shoal_attr_schema_t *attr = &node->op->attrs[a];
      if (attr->role != SHOAL_ROLE_PLACE) continue;
      int32_t operand =
          attr->operand >= 0 ? node->inputs[attr->operand] : node->outputs[~attr->operand];
      const shoal_type_t *type = &graph->values.items[operand].type;
      if (operand == value || type->shape.rank == 0 || !shoal_dtype_is_float(type->dtype)) continue;
      int64_t first = type->shape.dims[0], last = type->shape.dims[type->shape.rank - 1];
      if (first < limit) limit = first;
      if (last < limit) limit = last;
    }
    for (int32_t o = 0; o < node->output_count && depth < 8; ++o) {
      if (shoal_dtype_is_float(graph->values.items[node->outputs[o]].type.dtype)) continue;
      int64_t further = limit_of(graph, node->outputs[o], depth + 1);
      if (further < limit) limit = further;
    }
  }
  return limit;
}

void shoal_feed_fill(const shoal_check_options_t *options, const shoal_graph_t *graph,
                     int32_t value, int32_t run, void *data) {
  const shoal_value_info_t *info = &graph->values.items[value];
  shoal_check_feed_t feed = {0};
  for (int64_t i = 0; i < options->feed_count; ++i)
    if (strcmp(options->feeds[i].name, info->name) == 0) feed = options->feeds[i];
  int64_t count = shoal_shape_count(&info->type.shape);
  size_t bytes = (size_t)count * shoal_dtype_size(info->type.dtype);
  if (feed.data && feed.size == bytes) {
    memcpy(data, feed.data, bytes);
    return;
  }
  if (feed.low == 0 && feed.high == 0) feed.low = -1, feed.high = 1;
  bool floats = shoal_dtype_is_float(info->type.dtype);
  if (!floats && feed.limit <= 0) feed.limit = limit_of(graph, value, 0);
  if (feed.limit <= 0 || feed.limit == INT64_MAX || info->type.dtype == SHOAL_BOOL) feed.limit = 2;
  uint64_t stream = shoal_hash_string(SHOAL_HASH_START, info->name);
  for (int64_t i = 0; i < count; ++i) {
    uint32_t word = shoal_philox_word(options->seed, stream, (uint64_t)run, (uint64_t)i);
    if (floats)
      shoal_dtype_store(info->type.dtype, data, i,
                        feed.low + (feed.high - feed.low) * shoal_philox_uniform(word));
    else
      shoal_dtype_store_int(info->type.dtype, data, i, (int64_t)(word % (uint64_t)feed.limit));
  }
}

shoal_status_t shoal_check_schedule(const shoal_model_t *model, int64_t steps, shoal_arena_t *arena,
                                    const char *const **out_graphs, int32_t *out_count) {
  SHOAL_VEC(const char *) graphs = {0};
  bool ok = SHOAL_PUSH(arena, &graphs, "init");
  const shoal_graph_t *train = shoal_model_find_graph(model, "train");
  for (int64_t i = 0; train && i < steps && ok; ++i) ok = SHOAL_PUSH(arena, &graphs, train->name);
  for (int64_t i = 1; i < model->graphs.count && ok; ++i)
    if (model->graphs.items[i] != train)
      ok = SHOAL_PUSH(arena, &graphs, model->graphs.items[i]->name);
  if (!ok) return SHOAL_OOM();
  *out_graphs = graphs.items;
  *out_count = (int32_t)graphs.count;
  return NULL;
}
