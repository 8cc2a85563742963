// Made-up data. Every number is drawn on its own, by the index of its sample. `classes`: x lies
// around the centre of its class y. `random`: normal numbers and uniform integers.
#include <string.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/philox.h"
#include "base/status.h"
#include "data/kinds.h"

enum { CLASS_STREAM = 1, NOISE_STREAM = 2, CENTRE_STREAM = 3, FIRST_STREAM = 16 };
enum { MANY = 65536, FEW_CLASSES = 2 };

typedef struct synthetic {
  shoal_arena_t arena;  // it lies in memory of its own
  uint64_t seed;
  shoal_column_t *columns;
  int32_t column_count;
} synthetic_t;

static void free_synthetic(void *self) {
  synthetic_t *made = self;
  const shoal_allocator_t allocator = made->arena.allocator;
  shoal_arena_deinit(&made->arena);
  allocator.free(allocator.self, made);
}

static void draw_classes(const synthetic_t *made, uint64_t sample, void *out_x, void *out_y) {
  const shoal_column_t *x = &made->columns[0], *y = &made->columns[1];
  const int64_t width = shoal_shape_count(&x->shape);
  const uint32_t word = shoal_philox_word(made->seed, CLASS_STREAM, 0, sample);
  const int64_t label = (int64_t)(word % (uint64_t)y->classes);
  if (out_y) shoal_dtype_store_int(y->dtype, out_y, 0, label);
  for (int64_t j = 0; out_x && j < width; ++j) {
    const double centre = shoal_philox_normal(
        shoal_philox_word(made->seed, CENTRE_STREAM, 0, (uint64_t)(label * width + j)));
    const double noise =
        shoal_philox_normal(shoal_philox_word(made->seed, NOISE_STREAM, sample, (uint64_t)j));
    shoal_dtype_store(x->dtype, out_x, j, centre + noise);
  }
}

static shoal_status_t read_classes(void *self, const shoal_sample_t *sample,
                                   void *const *out_columns) {
  draw_classes(self, (uint64_t)sample->index, out_columns[0], out_columns[1]);
  return NULL;
}

static shoal_status_t read_random(void *self, const shoal_sample_t *sample,
                                  void *const *out_columns) {
  const synthetic_t *made = self;
  for (int32_t i = 0; i < made->column_count; ++i) {
    const shoal_column_t *column = &made->columns[i];
    const int64_t count = out_columns[i] ? shoal_shape_count(&column->shape) : 0;
    for (int64_t k = 0; k < count; ++k) {
      const uint32_t word = shoal_philox_word(made->seed, (uint64_t)(FIRST_STREAM + i),
                                              (uint64_t)sample->index, (uint64_t)k);
      if (shoal_dtype_is_real(column->dtype))
        shoal_dtype_store(column->dtype, out_columns[i], k, shoal_philox_normal(word));
      else
        shoal_dtype_store_int(column->dtype, out_columns[i], k,
                              (int64_t)(word % (uint64_t)column->classes));
    }
  }
  return NULL;
}

static shoal_status_t create(const char *name, const shoal_dataset_options_t *options,
                             const shoal_column_t *columns, int32_t column_count,
                             const shoal_dataset_ops_t *ops, shoal_dataset_t **out_dataset) {
  const shoal_allocator_t allocator =
      options->allocator.alloc ? options->allocator : shoal_allocator_system();
  synthetic_t *made = allocator.alloc(allocator.self, sizeof *made);
  if (!made) return SHOAL_OOM();
  *made = (synthetic_t){.seed = options->seed, .column_count = column_count};
  shoal_arena_init(allocator, &made->arena);
  made->columns = shoal_arena_copy(&made->arena, columns, (size_t)column_count, sizeof *columns);
  shoal_status_t status = made->columns ? NULL : SHOAL_OOM();
  for (int32_t i = 0; !status && i < column_count; ++i)
    if (made->columns[i].classes < 1) made->columns[i].classes = FEW_CLASSES;
  if (!status)
    status = shoal_dataset_create(name, options->count > 0 ? options->count : MANY, made->columns,
                                  column_count, ops, made, allocator, out_dataset);
  if (status) free_synthetic(made);
  return status;
}

shoal_status_t shoal_data_open_classes(const char *path, const shoal_dataset_options_t *options,
                                       shoal_dataset_t **out_dataset) {
  (void)path;
  const shoal_column_t *x = shoal_data_input(options, "x"), *y = shoal_data_input(options, "y");
  if (!x || !y || shoal_shape_count(&y->shape) != 1 || !shoal_dtype_is_float(x->dtype) ||
      shoal_dtype_is_real(y->dtype))
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "for other models there is the data set 'random'",
                            "made-up classes are for models that take x, numbers, and y, a class");
  const shoal_column_t columns[] = {*x, *y};
  return create("classes", options, columns, 2,
                &(shoal_dataset_ops_t){.read = read_classes, .free = free_synthetic}, out_dataset);
}

shoal_status_t shoal_data_open_random(const char *path, const shoal_dataset_options_t *options,
                                      shoal_dataset_t **out_dataset) {
  (void)path;
  if (options->input_count < 1)
    return SHOAL_ERROR(INVALID_ARGUMENT,
                       "random data is made for the inputs of a model, and none were given");
  return create("random", options, options->inputs, options->input_count,
                &(shoal_dataset_ops_t){.read = read_random, .free = free_synthetic}, out_dataset);
}
