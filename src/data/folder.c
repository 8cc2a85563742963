// Folders of images: a sub-folder per class, in the order of their names; in it PNG and JPEG files.
#include <string.h>
#include <sys/stat.h>

#include "base/status.h"
#include "data/decode.h"
#include "data/files.h"
#include "data/kinds.h"

enum { MOST_BYTES = 1 << 28 };

typedef struct item {
  const char *path;
  int32_t label;
} item_t;

typedef struct folder {
  shoal_arena_t arena;             // it lies in memory of its own
  shoal_arena_t scratch, weights;  // of one sample: its file and pixels; how it is resized
  SHOAL_VEC(item_t) items;
  int32_t classes;
  bool sized;  // images may have any size: they are resized
  shoal_image_plan_t plan;
} folder_t;

static void free_folder(void *self) {
  folder_t *folder = self;
  const shoal_allocator_t allocator = folder->arena.allocator;
  shoal_arena_deinit(&folder->weights);
  shoal_arena_deinit(&folder->scratch);
  shoal_arena_deinit(&folder->arena);
  allocator.free(allocator.self, folder);
}

bool shoal_data_is_image(const char *name) {
  return shoal_data_ends(name, ".png") || shoal_data_ends(name, ".jpg") ||
         shoal_data_ends(name, ".jpeg");
}

// Reads and decodes one; it lies in the scratch memory.
static shoal_status_t decode(folder_t *folder, const char *path, shoal_image_t *out_image) {
  shoal_arena_clear(&folder->scratch);
  shoal_data_file_t file;
  SHOAL_RETURN_IF_ERROR(shoal_data_file_open(path, &folder->scratch, &file));
  shoal_status_t status = NULL;
  void *data = NULL;
  if (file.size > MOST_BYTES) {
    status = SHOAL_ERROR(INVALID_ARGUMENT, "'%s' has %lld bytes; images have up to %d", path,
                         (long long)file.size, MOST_BYTES);
  } else {
    data = SHOAL_NEW(&folder->scratch, char, file.size);
    status = data ? shoal_data_file_read(&file, 0, file.size, data) : SHOAL_OOM();
  }
  if (!status)
    status = shoal_image_decode(path, data, file.size, folder->plan.channels, &folder->scratch,
                                out_image);
  shoal_data_file_close(&file);
  return status;
}

static shoal_status_t read_image(void *self, const shoal_sample_t *sample,
                                 void *const *out_columns) {
  folder_t *folder = self;
  const item_t *item = &folder->items.items[sample->index];
  if (out_columns[1]) *(int32_t *)out_columns[1] = item->label;
  if (!out_columns[0]) return NULL;
  shoal_image_t image;
  SHOAL_RETURN_IF_ERROR(decode(folder, item->path, &image));
  const shoal_image_plan_t *plan = &folder->plan;
  if (!folder->sized && (image.height != plan->height || image.width != plan->width))
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "say which height and width all are to have",
                            "'%s' has %lld x %lld pixels, others have %lld x %lld", item->path,
                            (long long)image.width, (long long)image.height, (long long)plan->width,
                            (long long)plan->height);
  return shoal_image_take(&image, plan, sample, &folder->weights, out_columns[0]);
}

static shoal_status_t list_class(folder_t *folder, const char *path) {
  shoal_data_names_t names;
  SHOAL_RETURN_IF_ERROR(shoal_data_folder(path, &folder->arena, &names));
  const int64_t before = folder->items.count;
  for (int64_t i = 0; i < names.count; ++i) {
    if (!shoal_data_is_image(names.items[i])) continue;
    const item_t item = {shoal_arena_printf(&folder->arena, "%s/%s", path, names.items[i]),
                         folder->classes};
    if (!item.path || !SHOAL_PUSH(&folder->arena, &folder->items, item)) return SHOAL_OOM();
  }
  ++folder->classes;
  if (folder->items.count > before) return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                          "each sub-folder is a class: remove those that are none",
                          "'%s' has no PNG or JPEG files", path);
}

static shoal_status_t list_classes(folder_t *folder, const char *path) {
  shoal_data_names_t names;
  SHOAL_RETURN_IF_ERROR(shoal_data_folder(path, &folder->arena, &names));
  for (int64_t i = 0; i < names.count; ++i) {
    const char *inner = shoal_arena_printf(&folder->arena, "%s/%s", path, names.items[i]);
    struct stat info;
    if (!inner) return SHOAL_OOM();
    if (stat(inner, &info) == 0 && S_ISDIR(info.st_mode))
      SHOAL_RETURN_IF_ERROR(list_class(folder, inner));
  }
  if (folder->classes > 0) return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "put the images of each class into a folder of its own",
                          "'%s' has no sub-folders", path);
}

static shoal_status_t open_folder(folder_t *folder, const char *path,
                                  const shoal_dataset_options_t *options) {
  SHOAL_RETURN_IF_ERROR(shoal_image_plan(options, options->channels, 0, 0, &folder->plan));
  shoal_image_plan_t *plan = &folder->plan;
  if (plan->channels == 0) plan->channels = 3;
  if (plan->channels != 1 && plan->channels != 3)
    return SHOAL_ERROR(INVALID_ARGUMENT, "images of %lld channels; they have 1 or 3",
                       (long long)plan->channels);
  SHOAL_RETURN_IF_ERROR(list_classes(folder, path));
  folder->sized = plan->height > 0 && plan->width > 0;
  if (folder->sized && !plan->random_crop && plan->resize == 0) return NULL;
  if (!folder->sized && (plan->height > 0 || plan->width > 0 || plan->resize > 0 || plan->pad > 0))
    return SHOAL_ERROR(INVALID_ARGUMENT, "images of '%s' need both a height and a width", path);
  shoal_image_t image;
  SHOAL_RETURN_IF_ERROR(decode(folder, folder->items.items[0].path, &image));
  if (!folder->sized) {
    plan->height = image.height;
    plan->width = image.width;
  }
  return shoal_image_check_crop(plan, image.height, image.width);
}

shoal_status_t shoal_data_open_images(const char *path, const shoal_dataset_options_t *options,
                                      shoal_dataset_t **out_dataset) {
  const shoal_allocator_t allocator =
      options->allocator.alloc ? options->allocator : shoal_allocator_system();
  folder_t *folder = allocator.alloc(allocator.self, sizeof *folder);
  if (!folder) return SHOAL_OOM();
  *folder = (folder_t){0};
  shoal_arena_init(allocator, &folder->arena);
  shoal_arena_init(allocator, &folder->scratch);
  shoal_arena_init(allocator, &folder->weights);
  shoal_status_t status = open_folder(folder, path, options);
  if (!status) {
    const shoal_image_plan_t *plan = &folder->plan;
    const shoal_column_t columns[] = {
        {.name = "x",
         .dtype = SHOAL_F32,
         .shape = SHOAL_SHAPE(plan->channels, plan->height, plan->width)},
        {.name = "y", .dtype = SHOAL_I32, .classes = folder->classes}};
    status = shoal_dataset_create(path, folder->items.count, columns, 2,
                                  &(shoal_dataset_ops_t){.read = read_image, .free = free_folder},
                                  folder, allocator, out_dataset);
  }
  if (status) free_folder(folder);
  return status;
}
