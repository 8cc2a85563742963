// Data sets: checks and dispatch. Samples are read under a lock, so that callbacks need none even
// where several loaders and parts share a data set.
#include "data/dataset.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/number.h"
#include "base/status.h"
#include "base/thread.h"

struct shoal_dataset {
  shoal_arena_t arena;  // it lies in memory of its own; texts and columns in this
  _Atomic int64_t owners;
  shoal_mutex_t mutex;
  const char *name;
  int64_t count;
  shoal_column_t *columns;
  int32_t column_count;
  shoal_dataset_ops_t ops;
  void *self;
};

static shoal_status_t check_columns(const char *name, const shoal_column_t *columns,
                                    int32_t count) {
  if (count < 1 || count > SHOAL_MAX_COLUMNS)
    return SHOAL_ERROR(INVALID_ARGUMENT, "'%s': %d columns; a data set has 1 to %d", name, count,
                       SHOAL_MAX_COLUMNS);
  for (int32_t i = 0; i < count; ++i) {
    const shoal_column_t *column = &columns[i];
    if (!column->name || !column->name[0])
      return SHOAL_ERROR(INVALID_ARGUMENT, "'%s': column %d has no name", name, i);
    for (int32_t j = 0; j < i; ++j)
      if (strcmp(columns[j].name, column->name) == 0)
        return SHOAL_ERROR(INVALID_ARGUMENT, "'%s': two columns '%s'", name, column->name);
    int64_t elements = 1, bytes;
    if (column->shape.rank < 0 || column->shape.rank >= SHOAL_MAX_RANK)
      return SHOAL_ERROR(INVALID_ARGUMENT,
                         "'%s': samples of column '%s' have %d dims; the most is %d", name,
                         column->name, column->shape.rank, SHOAL_MAX_RANK - 1);
    for (int32_t d = 0; d < column->shape.rank; ++d)
      if (column->shape.dims[d] < 0 ||
          __builtin_mul_overflow(elements, column->shape.dims[d], &elements))
        return SHOAL_ERROR(INVALID_ARGUMENT, "'%s': column '%s' has a bad shape", name,
                           column->name);
    SHOAL_RETURN_IF_ERROR(shoal_dtype_bytes(column->dtype, elements, &bytes));
  }
  return NULL;
}

shoal_status_t shoal_dataset_create(const char *name, int64_t count, const shoal_column_t *columns,
                                    int32_t column_count, const shoal_dataset_ops_t *ops,
                                    void *self, shoal_allocator_t allocator,
                                    shoal_dataset_t **out_dataset) {
  *out_dataset = NULL;
  if (!name) name = "data";
  if (count < 1)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "is this the right file?", "'%s' has no samples",
                            name);
  SHOAL_RETURN_IF_ERROR(check_columns(name, columns, column_count));
  if (!allocator.alloc) allocator = shoal_allocator_system();
  shoal_dataset_t *dataset = allocator.alloc(allocator.self, sizeof *dataset);
  if (!dataset) return SHOAL_OOM();
  *dataset = (shoal_dataset_t){
      .owners = 1, .count = count, .column_count = column_count, .ops = *ops, .self = self};
  shoal_arena_init(allocator, &dataset->arena);
  dataset->name = shoal_arena_strdup(&dataset->arena, name);
  dataset->columns =
      shoal_arena_copy(&dataset->arena, columns, (size_t)column_count, sizeof *columns);
  bool complete = dataset->name && dataset->columns;
  for (int32_t i = 0; complete && i < column_count; ++i) {
    dataset->columns[i].name = shoal_arena_strdup(&dataset->arena, columns[i].name);
    complete = dataset->columns[i].name;
  }
  shoal_status_t status = complete ? shoal_mutex_init(&dataset->mutex) : SHOAL_OOM();
  if (status) {
    shoal_arena_deinit(&dataset->arena);
    allocator.free(allocator.self, dataset);
    return status;
  }
  *out_dataset = dataset;
  return NULL;
}

shoal_dataset_t *shoal_dataset_retain(shoal_dataset_t *dataset) {
  atomic_fetch_add(&dataset->owners, 1);
  return dataset;
}

void shoal_dataset_free(shoal_dataset_t *dataset) {
  if (!dataset || atomic_fetch_sub(&dataset->owners, 1) > 1) return;
  if (dataset->ops.free) dataset->ops.free(dataset->self);
  shoal_mutex_deinit(&dataset->mutex);
  const shoal_allocator_t allocator = dataset->arena.allocator;
  shoal_arena_deinit(&dataset->arena);
  allocator.free(allocator.self, dataset);
}

shoal_allocator_t shoal_dataset_allocator(const shoal_dataset_t *dataset) {
  return dataset->arena.allocator;
}

const char *shoal_dataset_name(const shoal_dataset_t *dataset) {
  return dataset->name;
}

int64_t shoal_dataset_count(const shoal_dataset_t *dataset) {
  return dataset->count;
}

int32_t shoal_dataset_column_count(const shoal_dataset_t *dataset) {
  return dataset->column_count;
}

const shoal_column_t *shoal_dataset_column(const shoal_dataset_t *dataset, int32_t i) {
  return i >= 0 && i < dataset->column_count ? &dataset->columns[i] : NULL;
}

int32_t shoal_dataset_find_column(const shoal_dataset_t *dataset, const char *name) {
  for (int32_t i = 0; i < dataset->column_count; ++i)
    if (strcmp(dataset->columns[i].name, name) == 0) return i;
  return -1;
}

shoal_status_t shoal_dataset_read(shoal_dataset_t *dataset, const shoal_sample_t *sample,
                                  void *const *out_columns) {
  if (sample->index < 0 || sample->index >= dataset->count)
    return SHOAL_ERROR(INVALID_ARGUMENT, "sample %lld of '%s', which has %lld",
                       (long long)sample->index, dataset->name, (long long)dataset->count);
  shoal_mutex_lock(&dataset->mutex);
  shoal_status_t status = dataset->ops.read(dataset->self, sample, out_columns);
  shoal_mutex_unlock(&dataset->mutex);
  if (!status) return NULL;
  return shoal_status_annotatef(status, "sample %lld of '%s'", (long long)sample->index,
                                dataset->name);
}

shoal_status_t shoal_dataset_split(shoal_dataset_t *dataset, double held_out,
                                   shoal_dataset_t **out_rest, shoal_dataset_t **out_held_out) {
  *out_rest = *out_held_out = NULL;
  const int64_t all = dataset->count;
  // Rounded down, but never to nothing: who asks for a tenth of five samples gets one.
  int64_t held = 0;
  if (held_out > 0 && held_out < 1) held = shoal_max64(1, (int64_t)(held_out * (double)all));
  if (held_out >= 1 && held_out < (double)all && held_out == floor(held_out))
    held = (int64_t)held_out;
  if (held < 1 || held >= all)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                            "a share between 0 and 1, or a whole number of samples below all",
                            "%g of the %lld samples of '%s' cannot be held out", held_out,
                            (long long)all, dataset->name);
  if (dataset->ops.split) return dataset->ops.split(dataset->self, held, out_rest, out_held_out);
  SHOAL_RETURN_IF_ERROR(shoal_part_create(dataset, 0, all - held, true, out_rest));
  shoal_status_t status = shoal_part_create(dataset, all - held, held, true, out_held_out);
  if (status) {
    shoal_dataset_free(*out_rest);
    *out_rest = NULL;
  }
  return status;
}

shoal_status_t shoal_dataset_part(shoal_dataset_t *dataset, int64_t part, int64_t parts, bool equal,
                                  shoal_dataset_t **out_part) {
  *out_part = NULL;
  if (part < 0 || part >= parts)
    return SHOAL_ERROR(INVALID_ARGUMENT, "part %lld of %lld", (long long)part, (long long)parts);
  const int64_t each = dataset->count / parts, more = equal ? 0 : dataset->count % parts;
  const int64_t count = each + (part < more);
  if (count == 0)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "use fewer parts",
                            "part %lld of %lld of '%s' would be empty: it has %lld samples",
                            (long long)part, (long long)parts, dataset->name,
                            (long long)dataset->count);
  return shoal_part_create(dataset, part * each + shoal_min64(part, more), count, false, out_part);
}
