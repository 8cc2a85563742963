// Arrays: .npy files whose first dim counts the samples, one column each.
#include "base/number.h"
#include "base/status.h"
#include "data/kinds.h"
#include "data/npy.h"

typedef struct arrays {
  shoal_arena_t arena;  // it lies in memory of its own
  shoal_npy_t *npys;
  shoal_column_t *columns;
  int32_t count;
  void *raw;  // a sample of the largest array, as it is stored
} arrays_t;

static void free_arrays(void *self) {
  arrays_t *arrays = self;
  for (int32_t i = 0; i < arrays->count; ++i) shoal_npy_close(&arrays->npys[i]);
  const shoal_allocator_t allocator = arrays->arena.allocator;
  shoal_arena_deinit(&arrays->arena);
  allocator.free(allocator.self, arrays);
}

static shoal_status_t read_arrays(void *self, const shoal_sample_t *sample,
                                  void *const *out_columns) {
  const arrays_t *arrays = self;
  for (int32_t i = 0; i < arrays->count; ++i) {
    const int64_t each = shoal_shape_count(&arrays->columns[i].shape);
    if (out_columns[i])
      SHOAL_RETURN_IF_ERROR(shoal_npy_read(&arrays->npys[i], sample->index * each, each,
                                           arrays->raw, out_columns[i]));
  }
  return NULL;
}

static shoal_status_t add(arrays_t *arrays, const shoal_data_entry_t *entry, int32_t place) {
  static const char *const names[] = {"x", "y"};
  if (arrays->count == SHOAL_MAX_COLUMNS)
    return SHOAL_ERROR(INVALID_ARGUMENT, "more than %d arrays", SHOAL_MAX_COLUMNS);
  if (!entry->name && place > 1)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "NAME=FILE,NAME=FILE names them as the model does",
                            "the third array, '%s', has no name", entry->path);
  shoal_npy_t *npy = &arrays->npys[arrays->count];
  SHOAL_RETURN_IF_ERROR(shoal_npy_open(entry->path, &arrays->arena, npy));
  shoal_column_t *column = &arrays->columns[arrays->count++];
  if (npy->shape.rank == 0)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "the first dim of an array counts its samples",
                            "'%s' is a single number", entry->path);
  if (npy->shape.dims[0] == 0)  // the other dims may then be any
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "is this the right file?", "'%s' has no samples",
                            entry->path);
  if (npy->shape.dims[0] != arrays->npys[0].shape.dims[0])
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "the first dim of an array counts its samples",
                            "'%s' has %lld samples, '%s' has %lld", arrays->npys[0].file.path,
                            (long long)arrays->npys[0].shape.dims[0], entry->path,
                            (long long)npy->shape.dims[0]);
  *column = (shoal_column_t){.name = entry->name ? entry->name : names[place],
                             .dtype = npy->dtype,
                             .shape.rank = npy->shape.rank - 1};
  for (int32_t d = 0; d < column->shape.rank; ++d) column->shape.dims[d] = npy->shape.dims[d + 1];
  return NULL;
}

static shoal_status_t open_all(arrays_t *arrays, const char *path) {
  shoal_data_list_t list;
  SHOAL_RETURN_IF_ERROR(shoal_data_files(path, ".npy", &arrays->arena, &list));
  arrays->npys = SHOAL_NEW(&arrays->arena, shoal_npy_t, list.count);
  arrays->columns = SHOAL_NEW(&arrays->arena, shoal_column_t, list.count);
  if (!arrays->npys || !arrays->columns) return SHOAL_OOM();
  int64_t most = 0;
  for (int64_t i = 0; i < list.count; ++i) {
    SHOAL_RETURN_IF_ERROR(add(arrays, &list.items[i], (int32_t)i));
    most = shoal_max64(most, shoal_shape_count(&arrays->columns[i].shape) * arrays->npys[i].width);
  }
  arrays->raw = SHOAL_NEW(&arrays->arena, char, most);
  return arrays->raw ? NULL : SHOAL_OOM();
}

shoal_status_t shoal_data_open_arrays(const char *path, const shoal_dataset_options_t *options,
                                      shoal_dataset_t **out_dataset) {
  const shoal_allocator_t allocator =
      options->allocator.alloc ? options->allocator : shoal_allocator_system();
  arrays_t *arrays = allocator.alloc(allocator.self, sizeof *arrays);
  if (!arrays) return SHOAL_OOM();
  *arrays = (arrays_t){0};
  shoal_arena_init(allocator, &arrays->arena);
  shoal_status_t status = open_all(arrays, path);
  if (!status)
    status =
        shoal_dataset_create(path, arrays->npys[0].shape.dims[0], arrays->columns, arrays->count,
                             &(shoal_dataset_ops_t){.read = read_arrays, .free = free_arrays},
                             arrays, allocator, out_dataset);
  if (status) free_arrays(arrays);
  return status;
}
