// Images in files of equal records: MNIST's idx files (http://yann.lecun.com/exdb/mnist) and the
// binary version of CIFAR (https://www.cs.toronto.edu/~kriz/cifar.html).
#include <string.h>
#include <sys/stat.h>

#include "base/status.h"
#include "data/files.h"
#include "data/image.h"
#include "data/kinds.h"

// A file of `count` records of `size` bytes from `start` on.
typedef struct run_of_records {
  shoal_data_file_t file;
  int64_t start, size, count;
} records_t;

enum { MOST_FILES = 16 };

typedef struct pictures {
  shoal_arena_t arena, scratch;  // it lies in memory of its own
  records_t images[MOST_FILES];  // CIFAR: with the label before the pixels; MNIST: one
  int32_t files;
  records_t labels;  // MNIST
  int64_t label_bytes, classes, count;
  int64_t channels, height, width;
  shoal_image_plan_t plan;
  unsigned char *record;
} pictures_t;

static void free_pictures(void *self) {
  pictures_t *pictures = self;
  for (int32_t i = 0; i < pictures->files; ++i) shoal_data_file_close(&pictures->images[i].file);
  shoal_data_file_close(&pictures->labels.file);
  const shoal_allocator_t allocator = pictures->arena.allocator;
  shoal_arena_deinit(&pictures->scratch);
  shoal_arena_deinit(&pictures->arena);
  allocator.free(allocator.self, pictures);
}

static shoal_status_t bad_label(const records_t *records, int64_t i, int label, int64_t classes) {
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "the file is damaged, or is of another kind",
                          "'%s' has %d as label of record %lld; labels are below %lld",
                          records->file.path, label, (long long)i, (long long)classes);
}

static shoal_status_t read_picture(void *self, const shoal_sample_t *sample,
                                   void *const *out_columns) {
  pictures_t *pictures = self;
  int64_t index = sample->index;
  const records_t *records = pictures->images;
  while (index >= records->count) index -= records++->count;
  SHOAL_RETURN_IF_ERROR(shoal_data_file_read(&records->file, records->start + index * records->size,
                                             records->size, pictures->record));
  unsigned char label = 0;
  if (pictures->label_bytes > 0) {
    label = pictures->record[pictures->label_bytes - 1];
  } else {
    records = &pictures->labels;
    SHOAL_RETURN_IF_ERROR(shoal_data_file_read(&records->file, records->start + index, 1, &label));
  }
  if (label >= pictures->classes) return bad_label(records, index, label, pictures->classes);
  if (out_columns[1]) *(int32_t *)out_columns[1] = label;
  if (!out_columns[0]) return NULL;
  const int64_t plane = pictures->height * pictures->width;
  const shoal_image_t image = {.pixels = pictures->record + pictures->label_bytes,
                               .channels = pictures->channels,
                               .height = pictures->height,
                               .width = pictures->width,
                               .channel_step = plane,
                               .row_step = pictures->width,
                               .column_step = 1};
  return shoal_image_take(&image, &pictures->plan, sample, &pictures->scratch, out_columns[0]);
}

// ---- MNIST ----------------------------------------------------------------------------

static shoal_status_t open_idx(records_t *records, const char *path, int dims, const char *what,
                               shoal_arena_t *arena, int64_t *out_height, int64_t *out_width) {
  SHOAL_RETURN_IF_ERROR(shoal_data_file_open(path, arena, &records->file));
  unsigned char head[16];
  int64_t got, sizes[3] = {0, 1, 1};
  SHOAL_RETURN_IF_ERROR(shoal_data_file_head(&records->file, sizeof head, head, &got));
  if (got >= 2 && head[0] == 0x1f && head[1] == 0x8b)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "unpack it with gunzip", "'%s' is compressed", path);
  records->start = 4 + 4 * dims;
  if (got < records->start || head[0] != 0 || head[1] != 0 || head[3] != dims)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give the images first, then the labels",
                            "'%s' is no idx file of %s, with %d dims", path, what, dims);
  if (head[2] != 8)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "write it with elements of type 8, unsigned bytes",
                            "'%s' has elements of type 0x%02x", path, head[2]);
  for (int d = 0; d < dims; ++d)
    sizes[d] = (int64_t)head[4 + 4 * d] << 24 | head[5 + 4 * d] << 16 | head[6 + 4 * d] << 8 |
               head[7 + 4 * d];
  records->count = sizes[0];
  *out_height = sizes[1];
  *out_width = sizes[2];
  int64_t bytes;
  if (__builtin_mul_overflow(sizes[1], sizes[2], &records->size) || records->size == 0 ||
      __builtin_mul_overflow(records->size, records->count, &bytes) ||
      bytes > records->file.size - records->start)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "copy or unpack the file again",
                            "'%s' is truncated: %lld %s of %lld x %lld bytes do not fit its %lld",
                            path, (long long)sizes[0], what, (long long)sizes[1],
                            (long long)sizes[2], (long long)records->file.size);
  return NULL;
}

static shoal_status_t open_mnist(pictures_t *pictures, const char *path,
                                 const shoal_dataset_options_t *options) {
  shoal_data_list_t list;
  shoal_data_names_t names;
  struct stat info;
  const char *images = NULL, *labels = NULL;
  if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
    const char *part = options->test ? "t10k-" : "train-";
    SHOAL_RETURN_IF_ERROR(shoal_data_folder(path, &pictures->arena, &names));
    for (int64_t i = 0; i < names.count; ++i) {
      const char *name = names.items[i];
      const char *full = shoal_arena_printf(&pictures->arena, "%s/%s", path, name);
      if (!full) return SHOAL_OOM();
      if (strncmp(name, part, strlen(part)) != 0 || shoal_data_ends(name, ".gz")) continue;
      if (strstr(name, "images")) images = full;
      if (strstr(name, "labels")) labels = full;
    }
    if (!images || !labels)
      return SHOAL_ERROR_HINT(NOT_FOUND, "unpack them with gunzip, or name them: IMAGES,LABELS",
                              "the folder '%s' has no files %simages... and %slabels...", path,
                              part, part);
  } else {
    SHOAL_RETURN_IF_ERROR(shoal_data_list(path, &pictures->arena, &list));
    if (list.count != 2)
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "IMAGES,LABELS, or the folder of both",
                              "'%s' is not the images and the labels", path);
    images = list.items[0].path;
    labels = list.items[1].path;
  }
  int64_t one, other;
  pictures->files = 1;
  pictures->channels = 1;
  SHOAL_RETURN_IF_ERROR(open_idx(&pictures->images[0], images, 3, "images", &pictures->arena,
                                 &pictures->height, &pictures->width));
  SHOAL_RETURN_IF_ERROR(
      open_idx(&pictures->labels, labels, 1, "labels", &pictures->arena, &one, &other));
  if (pictures->images[0].count != pictures->labels.count)
    return SHOAL_ERROR_HINT(
        INVALID_ARGUMENT, "are they of the same set?", "'%s' has %lld images, '%s' has %lld labels",
        images, (long long)pictures->images[0].count, labels, (long long)pictures->labels.count);
  return NULL;
}

// ---- CIFAR ----------------------------------------------------------------------------

enum { SIDE = 32, PIXELS = 3 * SIDE * SIDE };

static shoal_status_t add_cifar(pictures_t *pictures, const char *path) {
  if (pictures->files == MOST_FILES)
    return SHOAL_ERROR(INVALID_ARGUMENT, "more than %d files", MOST_FILES);
  records_t *records = &pictures->images[pictures->files++];
  SHOAL_RETURN_IF_ERROR(shoal_data_file_open(path, &pictures->arena, &records->file));
  records->size = pictures->label_bytes + PIXELS;
  records->count = records->file.size / records->size;
  if (records->file.size % records->size == 0) return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                          "the file is truncated, or is of the other CIFAR: 10 has records of 3073 "
                          "bytes, 100 of 3074. Python's version (data_batch_1) is another one",
                          "'%s' has %lld bytes, which is no number of records of %lld", path,
                          (long long)records->file.size, (long long)records->size);
}

static shoal_status_t open_cifar(pictures_t *pictures, const char *path,
                                 const shoal_dataset_options_t *options) {
  pictures->channels = 3;
  pictures->height = pictures->width = SIDE;
  shoal_data_list_t list;
  struct stat info;
  if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
    SHOAL_RETURN_IF_ERROR(shoal_data_list(path, &pictures->arena, &list));
    for (int64_t i = 0; i < list.count; ++i)
      SHOAL_RETURN_IF_ERROR(add_cifar(pictures, list.items[i].path));
    return NULL;
  }
  const char *part = options->test ? "test" : pictures->label_bytes == 1 ? "data_batch" : "train";
  SHOAL_RETURN_IF_ERROR(shoal_data_files(path, ".bin", &pictures->arena, &list));
  for (int64_t i = 0; i < list.count; ++i)
    if (strncmp(list.items[i].name, part, strlen(part)) == 0)
      SHOAL_RETURN_IF_ERROR(add_cifar(pictures, list.items[i].path));
  if (pictures->files > 0) return NULL;
  return SHOAL_ERROR_HINT(NOT_FOUND, "unpack the binary version there, or name the files",
                          "the folder '%s' has no %s*.bin", path, part);
}

// ---- both -----------------------------------------------------------------------------

static shoal_status_t finish(pictures_t *pictures, const char *path,
                             const shoal_dataset_options_t *options,
                             shoal_dataset_t **out_dataset) {
  SHOAL_RETURN_IF_ERROR(shoal_image_plan(options, pictures->channels, pictures->height,
                                         pictures->width, &pictures->plan));
  for (int32_t i = 0; i < pictures->files; ++i) pictures->count += pictures->images[i].count;
  pictures->record = SHOAL_NEW(&pictures->arena, unsigned char, pictures->images[0].size);
  if (!pictures->record) return SHOAL_OOM();
  const shoal_column_t columns[] = {
      {.name = "x",
       .dtype = SHOAL_F32,
       .shape = SHOAL_SHAPE(pictures->plan.channels, pictures->plan.height, pictures->plan.width)},
      {.name = "y", .dtype = SHOAL_I32, .classes = pictures->classes}};
  return shoal_dataset_create(path, pictures->count, columns, 2,
                              &(shoal_dataset_ops_t){.read = read_picture, .free = free_pictures},
                              pictures, pictures->arena.allocator, out_dataset);
}

static shoal_status_t open_pictures(const char *path, const shoal_dataset_options_t *options,
                                    int64_t label_bytes, int64_t classes,
                                    shoal_status_t (*open)(pictures_t *, const char *,
                                                           const shoal_dataset_options_t *),
                                    shoal_dataset_t **out_dataset) {
  const shoal_allocator_t allocator =
      options->allocator.alloc ? options->allocator : shoal_allocator_system();
  pictures_t *pictures = allocator.alloc(allocator.self, sizeof *pictures);
  if (!pictures) return SHOAL_OOM();
  *pictures = (pictures_t){.label_bytes = label_bytes, .classes = classes};
  shoal_arena_init(allocator, &pictures->arena);
  shoal_arena_init(allocator, &pictures->scratch);
  shoal_status_t status = open(pictures, path, options);
  if (!status) status = finish(pictures, path, options, out_dataset);
  if (status) free_pictures(pictures);
  return status;
}

shoal_status_t shoal_data_open_mnist(const char *path, const shoal_dataset_options_t *options,
                                     shoal_dataset_t **out_dataset) {
  // EMNIST has more classes in the same format: what the model takes decides.
  const shoal_column_t *y = shoal_data_input(options, "y");
  return open_pictures(path, options, 0, y && y->classes > 10 ? y->classes : 10, open_mnist,
                       out_dataset);
}

shoal_status_t shoal_data_open_cifar10(const char *path, const shoal_dataset_options_t *options,
                                       shoal_dataset_t **out_dataset) {
  return open_pictures(path, options, 1, 10, open_cifar, out_dataset);
}

shoal_status_t shoal_data_open_cifar100(const char *path, const shoal_dataset_options_t *options,
                                        shoal_dataset_t **out_dataset) {
  return open_pictures(path, options, 2, 100, open_cifar, out_dataset);
}
