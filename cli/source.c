// See source.h.
#include "source.h"

#include "shoal/data.h"

struct cli_source {
  shoal_arena_t *arena;         // it lies in it
  shoal_bytes_t *bytes;         // gpt
  shoal_type_t x_type, y_type;  // ids and labels, or x and y
  shoal_classes_t classes;
  void *x;
  int32_t *y;
};

// Classes of a classifier: the last dim of what its eval graph puts out as "logits".
static int64_t class_count(const shoal_model_t *model) {
  shoal_type_t logits;
  const shoal_graph_t *eval = shoal_model_find_graph(model, "eval");
  if (!shoal_graph_output_type(eval, "logits", &logits) || logits.shape.rank == 0) return 2;
  return logits.shape.dims[logits.shape.rank - 1];
}

static shoal_status_t open_source(cli_source_t *source, const shoal_model_t *model,
                                  const char *path, uint64_t seed) {
  const shoal_graph_t *graph = shoal_model_find_graph(model, "train");
  shoal_type_t *x = &source->x_type, *y = &source->y_type;
  const bool has_ids = shoal_graph_input_type(graph, "ids", x);
  if ((!has_ids && !shoal_graph_input_type(graph, "x", x)) ||
      !shoal_graph_input_type(graph, has_ids ? "labels" : "y", y))
    return SHOAL_ERROR(UNSUPPORTED, "shoal train feeds models with inputs ids, labels or x, y");
  const int64_t rows = y->shape.dims[0], count = shoal_shape_count(&x->shape);
  source->classes = (shoal_classes_t){
      .width = rows > 0 ? count / rows : 0, .classes = class_count(model), .seed = seed};
  source->x = shoal_arena_alloc(source->arena, (size_t)count, shoal_dtype_size(x->dtype));
  source->y = SHOAL_NEW(source->arena, int32_t, shoal_shape_count(&y->shape));
  if (!source->x || !source->y) return SHOAL_OOM();
  if (!has_ids) return NULL;
  if (!path)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "--data FILE; any text will do",
                            "this model learns from a text, and none was given");
  return shoal_bytes_open(
      path,
      &(shoal_bytes_options_t){.batch = x->shape.dims[0], .length = x->shape.dims[1], .seed = seed},
      &source->bytes);
}

shoal_status_t cli_source_open(const shoal_model_t *model, const char *path, uint64_t seed,
                               cli_source_t **out_source) {
  *out_source = NULL;
  shoal_arena_t *arena;
  SHOAL_RETURN_IF_ERROR(shoal_arena_create(shoal_allocator_system(), &arena));
  cli_source_t *source = SHOAL_NEW(arena, cli_source_t, 1);
  if (!source) {
    shoal_arena_free(arena);
    return SHOAL_OOM();
  }
  source->arena = arena;
  shoal_status_t status = open_source(source, model, path, seed);
  if (status)
    cli_source_close(source);
  else
    *out_source = source;
  return status;
}

void cli_source_close(cli_source_t *source) {
  if (!source) return;
  shoal_bytes_close(source->bytes);
  shoal_arena_free(source->arena);
}

shoal_status_t cli_source_feed(cli_source_t *source, int64_t number, shoal_session_t *session) {
  const int64_t rows = source->x_type.shape.dims[0];
  if (source->bytes)
    SHOAL_RETURN_IF_ERROR(shoal_bytes_batch(source->bytes, number * rows, source->x, source->y));
  else
    shoal_classes_batch(&source->classes, number * rows, rows, source->x_type.dtype, source->x,
                        source->y);
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
