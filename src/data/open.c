// shoal_dataset_open: which kind of data set files are.
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/status.h"
#include "data/files.h"
#include "data/kinds.h"
#include "shoal/options.h"

typedef struct kind {
  const char *name;
  bool has_files, has_pixels;
  shoal_status_t (*open)(const char *path, const shoal_dataset_options_t *options,
                         shoal_dataset_t **out_dataset);
} kind_t;

static const kind_t kinds[] = {
#define SHOAL_DATA_KIND(name, files, pixels) {#name, files, pixels, shoal_data_open_##name},
#include "data/kinds.inc"
#undef SHOAL_DATA_KIND
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static const kind_t *find_kind(const char *name, size_t length) {
  for (int i = 0; i < KINDS; ++i)
    if (strlen(kinds[i].name) == length && memcmp(kinds[i].name, name, length) == 0)
      return &kinds[i];
  return NULL;
}

static shoal_status_t no_kind(const char *name) {
  const char *names[KINDS];
  char list[256];
  size_t length = 0;
  for (int i = 0; i < KINDS; ++i) {
    names[i] = kinds[i].name;
    if (length < sizeof list)
      length += (size_t)snprintf(list + length, sizeof list - length, "%s%s", i ? ", " : "one of ",
                                 names[i]);
  }
  shoal_hint_t hint;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, shoal_did_you_mean(name, names, KINDS, list, &hint),
                          "there are no data sets of kind '%s'", name);
}

const shoal_column_t *shoal_data_input(const shoal_dataset_options_t *options, const char *name) {
  for (int32_t i = 0; i < options->input_count; ++i)
    if (strcmp(options->inputs[i].name, name) == 0) return &options->inputs[i];
  return NULL;
}

int64_t shoal_data_length(const shoal_dataset_options_t *options) {
  const shoal_column_t *ids = shoal_data_input(options, "ids");
  if (options->length > 0 || !ids || ids->shape.rank != 1) return options->length;
  return ids->shape.dims[0];
}

shoal_status_t shoal_data_list(const char *path, shoal_arena_t *arena,
                               shoal_data_list_t *out_list) {
  *out_list = (shoal_data_list_t){0};
  char *text = shoal_arena_strdup(arena, path);
  if (!text) return SHOAL_OOM();
  struct stat info;
  const bool one = stat(path, &info) == 0;
  while (text) {
    char *next = one ? NULL : strchr(text, ',');
    if (next) *next++ = 0;
    char *value = one ? NULL : strchr(text, '=');
    if (value && memchr(text, '/', (size_t)(value - text))) value = NULL;  // of a folder's name
    if (value) *value++ = 0;
    const shoal_data_entry_t entry = {value ? text : NULL, value ? value : text};
    if (!SHOAL_PUSH(arena, out_list, entry)) return SHOAL_OOM();
    text = next;
  }
  return NULL;
}

shoal_status_t shoal_data_files(const char *path, const char *ending, shoal_arena_t *arena,
                                shoal_data_list_t *out_list) {
  struct stat info;
  if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
    return shoal_data_list(path, arena, out_list);
  *out_list = (shoal_data_list_t){0};
  shoal_data_names_t names;
  SHOAL_RETURN_IF_ERROR(shoal_data_folder(path, arena, &names));
  for (int64_t i = 0; i < names.count; ++i) {
    const char *name = names.items[i];
    if (!shoal_data_ends(name, ending)) continue;
    const int length = (int)(strlen(name) - strlen(ending));
    const shoal_data_entry_t entry = {shoal_arena_printf(arena, "%.*s", length, name),
                                      shoal_arena_printf(arena, "%s/%s", path, name)};
    if (!entry.name || !entry.path) return SHOAL_OOM();
    if (stat(entry.path, &info) == 0 && S_ISDIR(info.st_mode)) continue;
    if (!SHOAL_PUSH(arena, out_list, entry)) return SHOAL_OOM();
  }
  if (out_list->count > 0) return NULL;
  return SHOAL_ERROR_HINT(NOT_FOUND, "name the files, or give the folder that they are in",
                          "the folder '%s' has no %s%sfiles", path, ending, ending[0] ? " " : "");
}

shoal_status_t shoal_data_text_files(const char *path, const char *ending, bool test,
                                     shoal_arena_t *arena, shoal_data_list_t *out_list) {
  shoal_status_t status = shoal_data_files(path, ending, arena, out_list);
  if (status && shoal_status_code(status) == SHOAL_NOT_FOUND && strcmp(ending, ".txt") == 0) {
    // Texts under other names, which say nothing of training: "training.md" is one of many.
    shoal_status_free(status);
    status = shoal_data_files(path, "", arena, out_list);
    if (!status && !test) return NULL;
  }
  SHOAL_RETURN_IF_ERROR(status);
  bool named = false;
  for (int64_t i = 0; i < out_list->count; ++i) {
    const char *name = out_list->items[i].name;
    named = named || (name && strstr(name, "train"));
  }
  if (!named && !test) return NULL;
  int64_t kept = 0;
  for (int64_t i = 0; i < out_list->count; ++i) {
    const char *name = out_list->items[i].name;
    if (name &&
        (test ? strstr(name, "val") || strstr(name, "test") : strstr(name, "train") != NULL))
      out_list->items[kept++] = out_list->items[i];
  }
  out_list->count = kept;
  if (kept > 0) return NULL;
  return SHOAL_ERROR_HINT(NOT_FOUND, "name the file to test on",
                          "'%s' has no %s files with 'val' or 'test' in their names", path, ending);
}

// The name of an option that is given and only counts for images; NULL: none.
static const char *option_of_images(const shoal_dataset_options_t *o) {
  if (o->flip) return "flip";
  if (o->random_crop) return "random_crop";
  if (o->pad != 0) return "pad";
  if (o->resize != 0) return "resize";
  for (int c = 0; c < 3; ++c) {
    if (o->mean[c] != 0) return "mean";
    if (o->deviation[c] != 0) return "deviation";
  }
  return NULL;
}

shoal_status_t shoal_dataset_open(const char *path, const shoal_dataset_options_t *options,
                                  shoal_dataset_t **out_dataset) {
  *out_dataset = NULL;
  const shoal_dataset_options_t defaults = {0};
  if (!options) options = &defaults;
  const kind_t *kind = NULL;
  const char *colon = path ? strchr(path, ':') : NULL;
  if (options->kind) {
    kind = find_kind(options->kind, strlen(options->kind));
    if (!kind) return no_kind(options->kind);
  } else if (colon && find_kind(path, (size_t)(colon - path))) {
    kind = find_kind(path, (size_t)(colon - path));
    path = colon + 1;
  } else if (path) {
    kind = find_kind(path, strlen(path));
    if (kind && kind->has_files) kind = NULL;  // a file of that name
    if (!kind && path[0]) {
      const char *name;
      SHOAL_RETURN_IF_ERROR(shoal_data_recognise(path, options, &name));
      kind = find_kind(name, strlen(name));
      if (!kind) return no_kind(name);
    }
  }
  if (!kind || (kind->has_files && (!path || !path[0])))
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give a file or a folder", "no data was given");
  const char *of_images = option_of_images(options);
  if (of_images && !kind->has_pixels)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "leave it out, or give a folder of images",
                            "%s has no effect on data of kind '%s', which is no images", of_images,
                            kind->name);
  return kind->open(path, options, out_dataset);
}
