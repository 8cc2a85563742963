// What a check feeds, and in which order it runs the graphs. Rows, ranks, steps and inputs all get
// different numbers: a test in which every rank has the same data cannot fail.
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/hash.h"
#include "base/philox.h"
#include "base/status.h"
#include "prove/reference.h"

// An integer input's values lie in [from, from + count), or are the spare index.
typedef struct range {
  int64_t from, count, spare;
  bool spared;
} range_t;

static shoal_status_t range_of(const shoal_check_feed_t *feed, const shoal_graph_t *graph,
                               int32_t value, range_t *out_range) {
  const shoal_dtype_t dtype = graph->values.items[value].type.dtype;
  range_t range = {.count = feed->limit};
  if (dtype == SHOAL_BOOL) {
    range.count = 2;
  } else if (feed->limit <= 0 && feed->high > feed->low) {
    range =
        (range_t){.from = (int64_t)feed->low, .count = (int64_t)feed->high - (int64_t)feed->low};
  } else if (feed->limit <= 0) {
    shoal_index_range_t found;
    SHOAL_RETURN_IF_ERROR(shoal_graph_indices(graph, value, &found));
    range = (range_t){.count = found.count, .spare = found.spare, .spared = found.spared};
    if (!found.count) range = dtype == SHOAL_I8 ? (range_t){-8, 17} : (range_t){0, 2};
  }
  if (dtype == SHOAL_U8 && range.count > 256) range.count = 256;
  if (range.count < 1) range.count = 1;
  *out_range = range;
  return NULL;
}

// Integers are often indices into something that is cut, and an index tests only the part it falls
// in. So neighbours lie far apart - multiples of the golden ratio, which spread evenly over the
// range however few there are, and go on from run to run -, one in eight repeats another (rows are
// added twice), one in eight is anything, one in eight the spare index if there is one, and the
// first and the last index occur in every run.
static void fill_integers(uint64_t seed, uint64_t stream, int32_t run, range_t range,
                          const shoal_type_t *type, void *data) {
  const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15), size = (uint64_t)range.count;
  const int64_t count = shoal_shape_count(&type->shape);
  const uint64_t start = shoal_philox_word(seed, stream, UINT64_MAX, 0) * golden;
  const int64_t first =
      count ? (int64_t)(shoal_philox_word(seed, stream, (uint64_t)run, 0) % (uint64_t)count) : 0;
  const int64_t last = (first + (count + 1) / 2) % (count ? count : 1);
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t word = shoal_philox_word(seed, stream, (uint64_t)run, (uint64_t)i);
    const uint64_t at = (uint64_t)run * (uint64_t)count + (uint64_t)(word % 8 == 0 ? i / 2 : i);
    const uint64_t spread = (start + at * golden) >> 32;  // a fraction of 2^32
    uint64_t index = size >> 32 ? (start + at * golden) % size : spread * size >> 32;
    if (word % 8 == 1) index = (word >> 3) % size;
    if (count > 1 && i == first) index = 0;
    if (count > 1 && i == last) index = size - 1;
    const bool spared = range.spared && word % 8 == 2 && i != first && i != last;
    shoal_dtype_store_int(type->dtype, data, i, spared ? range.spare : range.from + (int64_t)index);
  }
}

shoal_status_t shoal_feed_fill(const shoal_check_options_t *options, const shoal_graph_t *graph,
                               int32_t value, int32_t run, void *data) {
  const shoal_value_info_t *info = &graph->values.items[value];
  shoal_check_feed_t feed = {0};
  for (int64_t i = 0; i < options->feed_count; ++i)
    if (strcmp(options->feeds[i].name, info->name) == 0) feed = options->feeds[i];
  const int64_t count = shoal_shape_count(&info->type.shape);
  const size_t bytes = (size_t)count * shoal_dtype_size(info->type.dtype);
  if (feed.data && feed.size == bytes) {
    memcpy(data, feed.data, bytes);
    return NULL;
  }
  const uint64_t stream = shoal_hash_string(SHOAL_HASH_START, info->name);
  if (!shoal_dtype_is_real(info->type.dtype)) {
    range_t range;
    SHOAL_RETURN_IF_ERROR(range_of(&feed, graph, value, &range));
    fill_integers(options->seed, stream, run, range, &info->type, data);
    return NULL;
  }
  if (feed.low == 0 && feed.high == 0) feed.low = -1, feed.high = 1;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t word = shoal_philox_word(options->seed, stream, (uint64_t)run, (uint64_t)i);
    double number = feed.low + (feed.high - feed.low) * shoal_philox_uniform(word);
    if (feed.multiple > 0) number = floor(number / feed.multiple) * feed.multiple;
    shoal_dtype_store(info->type.dtype, data, i, number);
  }
  return NULL;
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
  const bool others = graphs.count > steps + 1;  // and back from them
  if (train && others && ok) ok = SHOAL_PUSH(arena, &graphs, train->name);
  if (!ok) return SHOAL_OOM();
  *out_graphs = graphs.items;
  *out_count = (int32_t)graphs.count;
  return NULL;
}
