// See source.h.
#include "source.h"

#include "shoal/data.h"

struct cli_source {
  shoal_arena_t *arena;  // it lies in it
  shoal_dataset_t *dataset;
  shoal_loader_t *loader;
  int64_t rows, count;  // of a batch: its rows, its labels
  bool has_ids;
};

// Classes of a classifier: the last dim of what its eval graph puts out as "logits".
static int64_t class_count(const shoal_model_t *model) {
  shoal_type_t logits;
  const shoal_graph_t *eval = shoal_model_find_graph(model, "eval");
  if (!shoal_graph_output_type(eval, "logits", &logits) || logits.shape.rank == 0) return 2;
  return logits.shape.dims[logits.shape.rank - 1];
}

// The type without its first dim, the rows of a batch.
static shoal_column_t column(const char *name, const shoal_type_t *type, int64_t classes) {
  shoal_column_t column = {.name = name, .dtype = type->dtype, .classes = classes};
  column.shape.rank = type->shape.rank > 0 ? type->shape.rank - 1 : 0;
  for (int32_t d = 0; d < column.shape.rank; ++d) column.shape.dims[d] = type->shape.dims[d + 1];
  return column;
}

static shoal_status_t open_source(cli_source_t *source, const shoal_model_t *model,
                                  const char *path, uint64_t seed) {
  const shoal_graph_t *graph = shoal_model_find_graph(model, "train");
  shoal_type_t x, y;
  source->has_ids = shoal_graph_input_type(graph, "ids", &x);
  if ((!source->has_ids && !shoal_graph_input_type(graph, "x", &x)) ||
      !shoal_graph_input_type(graph, source->has_ids ? "labels" : "y", &y))
    return SHOAL_ERROR(UNSUPPORTED, "shoal train feeds models with inputs ids, labels or x, y");
  if (source->has_ids && !path)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "--data FILE; any text will do",
                            "this model learns from a text, and none was given");
  source->rows = y.shape.dims[0];
  source->count = shoal_shape_count(&y.shape);
  const shoal_column_t inputs[] = {
      column(source->has_ids ? "ids" : "x", &x, 0),
      column(source->has_ids ? "labels" : "y", &y, source->has_ids ? 0 : class_count(model))};
  const shoal_dataset_options_t options = {.inputs = inputs, .input_count = 2, .seed = seed};
  SHOAL_RETURN_IF_ERROR(
      shoal_dataset_open(source->has_ids ? path : "classes", &options, &source->dataset));
  return shoal_loader_create(source->dataset,
                             &(shoal_loader_options_t){.batch = source->rows,
                                                       .seed = seed,
                                                       .in_order = !source->has_ids,
                                                       .inputs = inputs,
                                                       .input_count = 2},
                             &source->loader);
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
  shoal_loader_free(source->loader);
  shoal_dataset_free(source->dataset);
  shoal_arena_free(source->arena);
}

shoal_status_t cli_source_feed(cli_source_t *source, int64_t number, shoal_session_t *session) {
  SHOAL_RETURN_IF_ERROR(shoal_loader_seek(source->loader, number * source->rows));
  shoal_batch_t batch;
  SHOAL_RETURN_IF_ERROR(shoal_loader_next(source->loader, &batch));
  for (int32_t i = 0; i < batch.column_count; ++i)
    SHOAL_RETURN_IF_ERROR(shoal_feed(session, batch.columns[i].name, batch.columns[i].data,
                                     (size_t)batch.columns[i].bytes));
  return NULL;
}

const char *cli_source_unit(const cli_source_t *source) {
  return source->has_ids ? "tokens" : "samples";
}

int64_t cli_source_count(const cli_source_t *source) {
  return source->count;
}
