// Batches from data sets: a loader each for training and for evaluation, told which rows this rank
// needs of which input, so that it reads no others.
#include <string.h>

#include "base/status.h"
#include "graph/graph.h"
#include "shoal/data.h"
#include "train/train_impl.h"

enum { AHEAD = 2 };  // batches that are read while steps run

typedef struct source {
  shoal_loader_t *loader;
  char *wholes[SHOAL_MAX_COLUMNS];  // a whole batch of each column, where this rank's rows are put
  size_t row_bytes[SHOAL_MAX_COLUMNS];
} source_t;

struct shoal_train_source {
  source_t train, eval;
  shoal_dataset_t *first;  // samples of eval_data, where not all are asked for; NULL: all
};

// ---- what a model takes ---------------------------------------------------------------

shoal_status_t shoal_train_columns(const shoal_graph_t *graph, shoal_arena_t *arena,
                                   int32_t *out_count, const shoal_column_t **out_columns) {
  const int64_t count = graph ? graph->inputs.count : 0;
  if (count < 1 || count > SHOAL_MAX_COLUMNS) {
    return SHOAL_ERROR(UNSUPPORTED, "data sets are for models with 1 to %d inputs; this has %lld",
                       SHOAL_MAX_COLUMNS, (long long)count);
  }
  shoal_column_t *columns = SHOAL_NEW(arena, shoal_column_t, count);
  if (!columns) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i) {
    const shoal_named_t *input = &graph->inputs.items[i];
    const shoal_type_t *type = &graph->values.items[input->value].type;
    if (type->shape.rank < 1) {
      return SHOAL_ERROR_HINT(UNSUPPORTED, "feed it with a function of your own",
                              "input '%s' is a scalar: a data set gives rows", input->name);
    }
    columns[i] = (shoal_column_t){.name = input->name, .dtype = type->dtype};
    columns[i].shape.rank = type->shape.rank - 1;
    memcpy(columns[i].shape.dims, type->shape.dims + 1,
           (size_t)columns[i].shape.rank * sizeof type->shape.dims[0]);
    if (type->dtype == SHOAL_I32 || type->dtype == SHOAL_I64) {
      SHOAL_RETURN_IF_ERROR(shoal_graph_input_indices(graph, input->name, &columns[i].classes));
    }
  }
  *out_count = (int32_t)count;
  *out_columns = columns;
  return NULL;
}

// ---- making ---------------------------------------------------------------------------

static shoal_status_t want_rows(shoal_trainer_t *t, const source_t *source, const char *graph,
                                int64_t batch_rows, const char *input) {
  int64_t count;
  const shoal_interval_t *intervals;
  SHOAL_RETURN_IF_ERROR(
      shoal_session_rows(t->session, graph, input, &t->arena, &count, &intervals));
  shoal_rows_t *rows = SHOAL_NEW(&t->arena, shoal_rows_t, count);
  if (!rows) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i) {
    rows[i] = (shoal_rows_t){intervals[i].start, intervals[i].start + intervals[i].size};
  }
  return shoal_loader_want(source->loader, input, batch_rows, rows, count);
}

// For every graph of the phase, whatever its rows.
static shoal_status_t want(shoal_trainer_t *t, const source_t *source, const char *phase) {
  const size_t length = strlen(phase);
  for (int64_t g = 0; g < t->model->graphs.count; ++g) {
    const shoal_graph_t *graph = t->model->graphs.items[g];
    if (strncmp(graph->name, phase, length) != 0) continue;
    if (graph->name[length] && graph->name[length] != '.') continue;
    for (int64_t i = 0; i < graph->inputs.count; ++i) {
      const shoal_named_t *input = &graph->inputs.items[i];
      const int64_t rows = graph->values.items[input->value].type.shape.dims[0];
      SHOAL_RETURN_IF_ERROR(want_rows(t, source, graph->name, rows, input->name));
    }
  }
  return NULL;
}

static shoal_status_t open_source(shoal_trainer_t *t, const char *phase, shoal_dataset_t *dataset,
                                  shoal_loader_options_t options, source_t *source) {
  const shoal_graph_t *graph = shoal_model_find_graph(t->model, phase);
  if (!dataset || !graph) return NULL;
  options.allocator = t->allocator;
  options.batch = t->batch;
  SHOAL_RETURN_IF_ERROR(
      shoal_train_columns(graph, &t->arena, &options.input_count, &options.inputs));
  SHOAL_RETURN_IF_ERROR(shoal_loader_create(dataset, &options, &source->loader));
  for (int32_t i = 0; i < options.input_count; ++i) {
    const shoal_column_t *column = &options.inputs[i];
    source->row_bytes[i] =
        (size_t)shoal_shape_count(&column->shape) * shoal_dtype_size(column->dtype);
    source->wholes[i] = shoal_arena_alloc(&t->arena, (size_t)t->batch, source->row_bytes[i]);
    if (!source->wholes[i]) return SHOAL_OOM();
  }
  return want(t, source, phase);
}

static shoal_status_t read_first(void *self, const shoal_sample_t *sample, void *const *out) {
  return shoal_dataset_read(self, sample, out);
}

// The first samples of the data to evaluate on: the last batch of them ends there.
static shoal_status_t take_first(shoal_trainer_t *t) {
  shoal_dataset_t *all = t->options->eval_data;
  static const shoal_dataset_ops_t ops = {.read = read_first};
  shoal_column_t columns[SHOAL_MAX_COLUMNS];
  if (!all || t->eval_samples >= shoal_dataset_count(all)) return NULL;
  const int32_t count = shoal_dataset_column_count(all);
  for (int32_t i = 0; i < count; ++i) columns[i] = *shoal_dataset_column(all, i);
  return shoal_dataset_create(shoal_dataset_name(all), t->eval_samples, columns, count, &ops, all,
                              t->allocator, &t->source->first);
}

shoal_status_t shoal_train_source_open(shoal_trainer_t *t) {
  const shoal_train_options_t *o = t->options;
  if (o->feed || o->parallelize.dry_run) return NULL;
  t->source = SHOAL_NEW(&t->arena, shoal_train_source_t, 1);
  if (!t->source) return SHOAL_OOM();
  const shoal_loader_options_t training = {
      .seed = o->seed,
      .in_order = o->in_order,
      .last_batch = o->last_batch,
      .cursor = t->cursor,
      .ahead = AHEAD,
  };
  const shoal_loader_options_t evaluation = {
      .seed = o->seed, .in_order = true, .as_stored = true, .last_batch = SHOAL_LAST_SHORT};
  const bool next = !o->eval_data && o->eval_next;
  shoal_loader_options_t following = training;
  following.last_batch = SHOAL_LAST_FILLED;
  following.ahead = 0;
  SHOAL_RETURN_IF_ERROR(open_source(t, "train", o->data, training, &t->source->train));
  SHOAL_RETURN_IF_ERROR(take_first(t));
  shoal_dataset_t *held_out = t->source->first ? t->source->first : o->eval_data;
  return open_source(t, "eval", next ? o->data : held_out, next ? following : evaluation,
                     &t->source->eval);
}

void shoal_train_source_close(shoal_trainer_t *t) {
  if (!t->source) return;
  shoal_loader_free(t->source->train.loader);
  shoal_loader_free(t->source->eval.loader);
  shoal_dataset_free(t->source->first);
}

// ---- feeding --------------------------------------------------------------------------

// The loader gives the rows that this rank needs one behind the other; feeding takes them where
// they stand in the batch.
static shoal_status_t feed_column(shoal_trainer_t *t, const source_t *source, int32_t index,
                                  const shoal_train_batch_t *batch,
                                  const shoal_batch_column_t *column) {
  const size_t row = source->row_bytes[index], size = (size_t)batch->rows * row;
  if (column->rows == batch->rows) {
    return shoal_feed_rows(t->session, column->name, column->data, size);
  }
  int64_t count;
  const shoal_interval_t *rows;
  shoal_arena_clear(&t->scratch);
  SHOAL_RETURN_IF_ERROR(
      shoal_session_rows(t->session, batch->graph, column->name, &t->scratch, &count, &rows));
  const char *from = column->data;
  for (int64_t i = 0; i < count; ++i) {
    const size_t bytes = (size_t)rows[i].size * row;
    memcpy(source->wholes[index] + (size_t)rows[i].start * row, from, bytes);
    from += bytes;
  }
  return shoal_feed_rows(t->session, column->name, source->wholes[index], size);
}

shoal_status_t shoal_train_source_feed(shoal_trainer_t *t, const shoal_train_batch_t *wanted) {
  const source_t *source =
      strcmp(wanted->phase, "eval") == 0 ? &t->source->eval : &t->source->train;
  shoal_batch_t batch;
  if (shoal_loader_cursor(source->loader) != wanted->cursor) {
    SHOAL_RETURN_IF_ERROR(shoal_loader_seek(source->loader, wanted->cursor));
  }
  SHOAL_RETURN_IF_ERROR(shoal_loader_next(source->loader, &batch));
  if (batch.rows != wanted->rows || batch.cursor != wanted->cursor) {
    return SHOAL_ERROR(INTERNAL, "the loader gives rows [%lld, +%lld), not [%lld, +%lld)",
                       (long long)batch.cursor, (long long)batch.rows, (long long)wanted->cursor,
                       (long long)wanted->rows);
  }
  for (int32_t i = 0; i < batch.column_count; ++i) {
    SHOAL_RETURN_IF_ERROR(feed_column(t, source, i, wanted, &batch.columns[i]));
  }
  return NULL;
}
