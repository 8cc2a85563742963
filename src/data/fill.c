// Batches: the wanted rows, read, cast and checked. See loader_impl.h.
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/number.h"
#include "base/status.h"
#include "data/loader_impl.h"
#include "data/order.h"

// A label that does not count, as losses have it.
enum { IGNORED = -100 };

// ---- columns --------------------------------------------------------------------------

static shoal_status_t no_column(const shoal_loader_t *loader, const char *name) {
  char list[256];
  size_t length = 0;
  list[0] = 0;
  const int32_t count = shoal_dataset_column_count(loader->dataset);
  for (int32_t i = 0; i < count && length < sizeof list; ++i)
    length += (size_t)snprintf(list + length, sizeof list - length, "%s%s", i ? ", " : "",
                               shoal_dataset_column(loader->dataset, i)->name);
  return SHOAL_ERROR_HINT(NOT_FOUND, "give a data set that has it, or name its columns otherwise",
                          "the model takes '%s'; '%s' has %s", name,
                          shoal_dataset_name(loader->dataset), list);
}

static shoal_status_t match_column(shoal_loader_t *loader, const shoal_column_t *input,
                                   shoal_loader_column_t *column) {
  const int32_t source = shoal_dataset_find_column(loader->dataset, input->name);
  if (source < 0) return no_column(loader, input->name);
  const shoal_column_t *stored = shoal_dataset_column(loader->dataset, source);
  *column = (shoal_loader_column_t){.input = *input,
                                    .source = source,
                                    .stored = *stored,
                                    .elements = shoal_shape_count(&stored->shape)};
  column->input.name = stored->name;
  if (shoal_shape_count(&input->shape) != column->elements) {
    char has[128], takes[128];
    shoal_shape_format(&stored->shape, has, sizeof has);
    shoal_shape_format(&input->shape, takes, sizeof takes);
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                            "change the model's sizes, or the length or size that is asked of "
                            "the data",
                            "a sample of '%s' in '%s' is %s; the model takes %s", input->name,
                            shoal_dataset_name(loader->dataset), has, takes);
  }
  const bool narrowed =
      input->classes > 0 && (stored->classes == 0 || stored->classes > input->classes);
  column->as_it_is = stored->dtype == input->dtype && !narrowed;
  if (!narrowed) column->input.classes = 0;
  if (shoal_dtype_is_real(stored->dtype) && !shoal_dtype_is_real(input->dtype))
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "store it as integers",
                            "'%s' in '%s' is %s; the model takes integers (%s)", input->name,
                            shoal_dataset_name(loader->dataset), shoal_dtype_name(stored->dtype),
                            shoal_dtype_name(input->dtype));
  SHOAL_RETURN_IF_ERROR(shoal_dtype_bytes(input->dtype, column->elements, &column->input_bytes));
  SHOAL_RETURN_IF_ERROR(shoal_dtype_bytes(stored->dtype, column->elements, &column->stored_bytes));
  if (column->as_it_is) return NULL;
  column->stored_sample = SHOAL_NEW(&loader->arena, char, column->stored_bytes);
  return column->stored_sample ? NULL : SHOAL_OOM();
}

shoal_status_t shoal_loader_match(shoal_loader_t *loader) {
  const shoal_column_t *inputs = loader->options.inputs;
  loader->column_count = loader->options.input_count;
  if (!inputs) {
    inputs = shoal_dataset_column(loader->dataset, 0);
    loader->column_count = shoal_dataset_column_count(loader->dataset);
  }
  loader->columns = SHOAL_NEW(&loader->arena, shoal_loader_column_t, loader->column_count);
  if (!loader->columns) return SHOAL_OOM();
  for (int32_t i = 0; i < loader->column_count; ++i) {
    SHOAL_RETURN_IF_ERROR(match_column(loader, &inputs[i], &loader->columns[i]));
    for (int32_t j = 0; j < i; ++j)
      if (loader->columns[j].source == loader->columns[i].source)
        return SHOAL_ERROR(INVALID_ARGUMENT, "two inputs '%s'", inputs[i].name);
  }
  return NULL;
}

// ---- rows -----------------------------------------------------------------------------

static shoal_status_t check_rows(int64_t batch_rows, const shoal_rows_t *rows, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    bool good = rows[i].begin >= 0 && rows[i].begin <= rows[i].end && rows[i].end <= batch_rows;
    for (int64_t j = 0; good && j < i; ++j)
      good = rows[j].end <= rows[i].begin || rows[i].end <= rows[j].begin;
    if (!good)
      return SHOAL_ERROR(INVALID_ARGUMENT,
                         "rows %lld to %lld of a batch of %lld are none, or wanted twice",
                         (long long)rows[i].begin, (long long)rows[i].end, (long long)batch_rows);
  }
  return NULL;
}

static shoal_loader_rows_t *find_rows(const shoal_loader_column_t *column, int64_t batch_rows) {
  for (int64_t i = 0; i < column->rows.count; ++i)
    if (column->rows.items[i].batch_rows == batch_rows) return &column->rows.items[i];
  return NULL;
}

shoal_status_t shoal_loader_set_rows(shoal_loader_t *loader, const char *name, int64_t batch_rows,
                                     const shoal_rows_t *rows, int64_t count) {
  if (batch_rows < 1 || batch_rows > loader->options.batch)
    return SHOAL_ERROR(INVALID_ARGUMENT, "rows of a batch of %lld; batches have up to %lld",
                       (long long)batch_rows, (long long)loader->options.batch);
  SHOAL_RETURN_IF_ERROR(check_rows(batch_rows, rows, count));
  bool found = false;
  for (int32_t i = 0; i < loader->column_count; ++i) {
    shoal_loader_column_t *column = &loader->columns[i];
    if (name && strcmp(column->input.name, name) != 0) continue;
    found = true;
    shoal_loader_rows_t wanted = {.batch_rows = batch_rows, .count = count};
    wanted.ranges = shoal_arena_copy(&loader->arena, rows, (size_t)count, sizeof *rows);
    if (!wanted.ranges) return SHOAL_OOM();
    for (int64_t k = 0; k < count; ++k) wanted.total += rows[k].end - rows[k].begin;
    shoal_loader_rows_t *old = find_rows(column, batch_rows);
    if (old)
      *old = wanted;
    else if (!SHOAL_PUSH(&loader->arena, &column->rows, wanted))
      return SHOAL_OOM();
  }
  return found ? NULL : no_column(loader, name);
}

// Where row `row` lies among those that are wanted; -1: it is not.
static int64_t row_place(const shoal_loader_rows_t *rows, int64_t row) {
  if (!rows) return row;
  int64_t before = 0;
  for (int64_t i = 0; i < rows->count; ++i) {
    if (row >= rows->ranges[i].begin && row < rows->ranges[i].end)
      return before + row - rows->ranges[i].begin;
    before += rows->ranges[i].end - rows->ranges[i].begin;
  }
  return -1;
}

shoal_status_t shoal_loader_prepare(shoal_loader_t *loader) {
  shoal_loader_slot_t *slots = SHOAL_NEW(&loader->buffers, shoal_loader_slot_t, loader->slot_count);
  if (!slots) return SHOAL_OOM();
  for (int32_t s = 0; s < loader->slot_count; ++s) {
    slots[s].columns = SHOAL_NEW(&loader->buffers, shoal_batch_column_t, loader->column_count);
    if (!slots[s].columns) return SHOAL_OOM();
    slots[s].batch.columns = slots[s].columns;
    slots[s].batch.column_count = loader->column_count;
    for (int32_t i = 0; i < loader->column_count; ++i) {
      const shoal_loader_column_t *column = &loader->columns[i];
      // Batches of a length that nobody asked rows of are handed over whole.
      const shoal_loader_rows_t *full = find_rows(column, loader->options.batch);
      int64_t most = full ? full->total : loader->options.batch;
      for (int64_t k = 0; k < column->rows.count; ++k)
        most = shoal_max64(most, column->rows.items[k].total);
      if (loader->options.last_batch == SHOAL_LAST_SHORT || loader->options.epochs > 0)
        most = loader->options.batch;
      slots[s].columns[i] = (shoal_batch_column_t){
          .name = column->input.name,
          .dtype = column->input.dtype,
          .data = shoal_arena_alloc(&loader->buffers, (size_t)most, (size_t)column->input_bytes)};
      if (!slots[s].columns[i].data) return SHOAL_OOM();
    }
  }
  loader->slots = slots;
  return NULL;
}

// ---- reading --------------------------------------------------------------------------

static shoal_status_t take(const shoal_loader_column_t *column, void *out) {
  const shoal_dtype_t from = column->stored.dtype, to = column->input.dtype;
  const int64_t classes = column->input.classes;
  if (classes > 0 && !shoal_dtype_is_real(from)) {
    for (int64_t i = 0; i < column->elements; ++i) {
      const int64_t value = shoal_dtype_load_int(from, column->stored_sample, i);
      if ((value < 0 && value != IGNORED) || value >= classes)
        return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                                "give the model more classes (a larger vocabulary), or mend the "
                                "data; -100 is a label that does not count",
                                "'%s' is %lld (element %lld); the model takes 0 to %lld",
                                column->input.name, (long long)value, (long long)i,
                                (long long)classes - 1);
    }
  }
  if (from == to) {
    memcpy(out, column->stored_sample, (size_t)column->stored_bytes);
    return NULL;
  }
  const bool real = shoal_dtype_is_real(from) || shoal_dtype_is_real(to);
  for (int64_t i = 0; i < column->elements; ++i) {
    if (real)
      shoal_dtype_store(to, out, i, shoal_dtype_load(from, column->stored_sample, i));
    else
      shoal_dtype_store_int(to, out, i, shoal_dtype_load_int(from, column->stored_sample, i));
  }
  return NULL;
}

static shoal_status_t read_row(const shoal_loader_t *loader, shoal_loader_slot_t *slot,
                               const shoal_loader_rows_t *const *rows, int64_t row) {
  void *stored[SHOAL_MAX_COLUMNS] = {NULL}, *out[SHOAL_MAX_COLUMNS] = {NULL};
  bool any = false;
  for (int32_t i = 0; i < loader->column_count; ++i) {
    const shoal_loader_column_t *column = &loader->columns[i];
    const int64_t place = row_place(rows[i], row);
    if (place < 0) continue;
    any = true;
    out[i] = (char *)slot->columns[i].data + place * column->input_bytes;
    stored[column->source] = column->as_it_is ? out[i] : column->stored_sample;
  }
  if (!any) return NULL;
  const int64_t n = slot->batch.cursor + row, epoch = n / loader->samples,
                place = n % loader->samples;
  const shoal_loader_options_t *options = &loader->options;
  const shoal_sample_t sample = {
      .index = options->in_order
                   ? place
                   : shoal_order_permute(options->seed, epoch, loader->samples, place),
      .varied = !options->as_stored,
      .epoch = epoch,
      .seed = options->seed};
  SHOAL_RETURN_IF_ERROR(shoal_dataset_read(loader->dataset, &sample, stored));
  for (int32_t i = 0; i < loader->column_count; ++i) {
    if (!out[i] || loader->columns[i].as_it_is) continue;
    shoal_status_t status = take(&loader->columns[i], out[i]);
    if (status)
      return shoal_status_annotatef(status, "sample %lld of '%s'", (long long)sample.index,
                                    shoal_dataset_name(loader->dataset));
  }
  return NULL;
}

shoal_status_t shoal_loader_fill(shoal_loader_t *loader, shoal_loader_slot_t *slot) {
  const shoal_loader_rows_t *rows[SHOAL_MAX_COLUMNS];
  for (int32_t i = 0; i < loader->column_count; ++i) {
    rows[i] = find_rows(&loader->columns[i], slot->batch.rows);
    slot->columns[i].rows = rows[i] ? rows[i]->total : slot->batch.rows;
    slot->columns[i].bytes = slot->columns[i].rows * loader->columns[i].input_bytes;
  }
  for (int64_t row = 0; row < slot->batch.rows; ++row)
    SHOAL_RETURN_IF_ERROR(read_row(loader, slot, rows, row));
  return NULL;
}
