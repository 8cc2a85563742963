// See source.h.
#include "source.h"

#include <string.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/philox.h"
#include "base/status.h"
#include "data/bytes.h"
#include "graph/graph.h"

enum { CLASS_STREAM = 1, NOISE_STREAM = 2, CENTRE_STREAM = 3 };

struct cli_source {
  shoal_arena_t arena;
  shoal_bytes_t *bytes;         // gpt
  shoal_type_t x_type, y_type;  // ids and labels, or x and y
  int64_t classes;
  uint64_t seed;
  void *x;
  int32_t *y;
};

static const shoal_type_t *input_type(const shoal_graph_t *graph, const char *name) {
  for (int64_t i = 0; i < graph->inputs.count; ++i)
    if (strcmp(graph->inputs.items[i].name, name) == 0)
      return &graph->values.items[graph->inputs.items[i].value].type;
  return NULL;
}

// Classes of a classifier: the last dim of what its eval graph puts out as "logits".
static int64_t class_count(const shoal_model_t *model) {
  const shoal_graph_t *eval = shoal_model_find_graph(model, "eval");
  for (int64_t i = 0; eval && i < eval->outputs.count; ++i) {
    const shoal_shape_t *shape = &eval->values.items[eval->outputs.items[i].value].type.shape;
    if (strcmp(eval->outputs.items[i].name, "logits") == 0 && shape->rank > 0)
      return shape->dims[shape->rank - 1];
  }
  return 2;
}

static shoal_status_t open_source(cli_source_t *source, const shoal_model_t *model,
                                  const char *path) {
  const shoal_graph_t *graph = shoal_model_find_graph(model, "train");
  const shoal_type_t *ids = input_type(graph, "ids"), *x = input_type(graph, "x");
  const shoal_type_t *labels = input_type(graph, ids ? "labels" : "y");
  if ((!ids && !x) || !labels)
    return SHOAL_ERROR(UNSUPPORTED, "shoal train feeds models with inputs ids, labels or x, y");
  source->x_type = ids ? *ids : *x;
  source->y_type = *labels;
  source->classes = class_count(model);
  int64_t bytes = 0;
  SHOAL_RETURN_IF_ERROR(
      shoal_dtype_bytes(source->x_type.dtype, shoal_shape_count(&source->x_type.shape), &bytes));
  source->x = shoal_arena_alloc(&source->arena, (size_t)bytes, 1);
  source->y = SHOAL_NEW(&source->arena, int32_t, shoal_shape_count(&source->y_type.shape));
  if (!source->x || !source->y) return SHOAL_OOM();
  if (!ids) return NULL;
  if (!path)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "--data FILE; any text will do",
                            "this model learns from a text, and none was given");
  return shoal_bytes_open(
      path,
      &(shoal_bytes_options_t){
          .batch = ids->shape.dims[0], .length = ids->shape.dims[1], .seed = source->seed},
      &source->bytes);
}

shoal_status_t cli_source_open(const shoal_model_t *model, const char *path, uint64_t seed,
                               cli_source_t **out_source) {
  *out_source = NULL;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  cli_source_t *source = SHOAL_NEW(&arena, cli_source_t, 1);
  if (!source) return SHOAL_OOM();
  source->arena = arena;
  source->seed = seed;
  shoal_status_t status = open_source(source, model, path);
  if (status)
    cli_source_close(source);
  else
    *out_source = source;
  return status;
}

void cli_source_close(cli_source_t *source) {
  if (!source) return;
  shoal_bytes_close(source->bytes);
  shoal_arena_t arena = source->arena;  // the source lies in its own arena
  shoal_arena_deinit(&arena);
}

// Noise around one centre per class, the centres drawn once.
static void make_classes(cli_source_t *source, int64_t number) {
  int64_t rows = source->y_type.shape.dims[0];
  int64_t width = shoal_shape_count(&source->x_type.shape) / (rows > 0 ? rows : 1);
  for (int64_t i = 0; i < rows; ++i) {
    uint64_t sample = (uint64_t)(number * rows + i);
    uint32_t word = shoal_philox_word(source->seed, CLASS_STREAM, 0, sample);
    source->y[i] = (int32_t)(word % (uint64_t)source->classes);
    for (int64_t j = 0; j < width; ++j) {
      uint64_t centre = (uint64_t)(source->y[i] * width + j);
      double value =
          shoal_philox_normal(shoal_philox_word(source->seed, CENTRE_STREAM, 0, centre)) +
          shoal_philox_normal(shoal_philox_word(source->seed, NOISE_STREAM, sample, (uint64_t)j));
      shoal_dtype_store(source->x_type.dtype, source->x, i * width + j, value);
    }
  }
}

shoal_status_t cli_source_feed(cli_source_t *source, int64_t number, shoal_session_t *session) {
  if (source->bytes)
    SHOAL_RETURN_IF_ERROR(shoal_bytes_batch(source->bytes, number * source->x_type.shape.dims[0],
                                            source->x, source->y));
  else
    make_classes(source, number);
  size_t x_size =
      (size_t)shoal_shape_count(&source->x_type.shape) * shoal_dtype_size(source->x_type.dtype);
  size_t y_size = (size_t)shoal_shape_count(&source->y_type.shape) * sizeof(int32_t);
  SHOAL_RETURN_IF_ERROR(shoal_feed(session, source->bytes ? "ids" : "x", source->x, x_size));
  return shoal_feed(session, source->bytes ? "labels" : "y", source->y, y_size);
}

const char *cli_source_unit(const cli_source_t *source) {
  return source->bytes ? "tokens" : "samples";
}

int64_t cli_source_count(const cli_source_t *source) {
  return shoal_shape_count(&source->y_type.shape);
}
