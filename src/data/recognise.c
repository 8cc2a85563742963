// What kind of data set files are, told from their first bytes, their sizes and their names.
#include <string.h>
#include <sys/stat.h>

#include "base/status.h"
#include "data/files.h"
#include "data/kinds.h"
#include "data/npy.h"

enum { RECORD_10 = 3073, RECORD_100 = 3074, LOOKS = 16 };

// Is there a sub-folder with an image in it?
static shoal_status_t has_class(const char *path, const shoal_data_names_t *names,
                                shoal_arena_t *arena, bool *out_has) {
  *out_has = false;
  for (int64_t i = 0; i < names->count && !*out_has; ++i) {
    const char *inner = shoal_arena_printf(arena, "%s/%s", path, names->items[i]);
    struct stat info;
    if (!inner) return SHOAL_OOM();
    if (stat(inner, &info) != 0 || !S_ISDIR(info.st_mode)) continue;
    shoal_data_names_t files;
    SHOAL_RETURN_IF_ERROR(shoal_data_folder(inner, arena, &files));
    for (int64_t k = 0; k < files.count && !*out_has; ++k)
      *out_has = shoal_data_is_image(files.items[k]);
  }
  return NULL;
}

static shoal_status_t recognise_folder(const char *path, const shoal_dataset_options_t *options,
                                       shoal_arena_t *arena, const char **out_kind) {
  shoal_data_names_t names;
  SHOAL_RETURN_IF_ERROR(shoal_data_folder(path, arena, &names));
  bool npy = false, idx = false, cifar = false, fine = false, bin = false, text = false;
  for (int64_t i = 0; i < names.count; ++i) {
    const char *name = names.items[i];
    npy = npy || shoal_data_ends(name, ".npy");
    idx = idx || strstr(name, "-idx3-ubyte") || strstr(name, "-images.idx3");
    cifar = cifar || strcmp(name, "data_batch_1.bin") == 0;
    fine = fine || strcmp(name, "fine_label_names.txt") == 0;
    bin = bin || shoal_data_ends(name, ".bin");
    text = text || shoal_data_ends(name, ".txt");
  }
  *out_kind = npy                  ? "arrays"
              : idx                ? "mnist"
              : cifar              ? "cifar10"
              : fine               ? "cifar100"
              : bin                ? "tokens"
              : !text              ? NULL
              : options->tokenizer ? "text"
                                   : "bytes";
  if (npy || idx || cifar || fine) return NULL;
  bool images;
  SHOAL_RETURN_IF_ERROR(has_class(path, &names, arena, &images));
  if (images) *out_kind = "images";
  if (!*out_kind) {
    SHOAL_RETURN_IF_ERROR(shoal_data_holds_texts(path, &names, arena, &text));
    if (text) *out_kind = options->tokenizer ? "text" : "bytes";
  }
  if (*out_kind) return NULL;
  return SHOAL_ERROR_HINT(
      INVALID_ARGUMENT,
      "known are folders of .npy, .bin or .txt files, of texts alone, of MNIST, of CIFAR's "
      "binary version, and of one folder of images per class",
      "the folder '%s' holds no data that is known", path);
}

// Records of that size whose label, `place` bytes in, is below `classes` wherever one looks.
static shoal_status_t is_cifar(const shoal_data_file_t *file, int64_t size, int64_t place,
                               int classes, bool *out_is) {
  const int64_t count = file->size / size;
  *out_is = count > 0 && file->size % size == 0;
  for (int64_t i = 0; *out_is && i < LOOKS; ++i) {
    unsigned char label;
    SHOAL_RETURN_IF_ERROR(shoal_data_file_read(file, count * i / LOOKS * size + place, 1, &label));
    *out_is = label < classes;
  }
  return NULL;
}

static shoal_status_t refuse(const char *path, const unsigned char *head, int64_t got) {
  static const struct {
    const char *magic, *what, *hint;
    int64_t length;
  } known[] = {
      {"PK\3\4", "a zip or .npz archive", "save each array by numpy.save, as a .npy file", 4},
      {"\x1f\x8b", "compressed", "unpack it with gunzip", 2},
      {"\x89PNG", "a single image", "give the folder that has a sub-folder per class", 4},
      {"\xff\xd8\xff", "a single image", "give the folder that has a sub-folder per class", 3},
      {"\x80\4\x95", "a Python pickle", "save it by numpy.save, or as a file of tokens", 3},
      {"\x80\2}", "a Python pickle", "CIFAR's binary version is read, Python's is not", 3},
      {"%PDF", "a PDF", "turn it into text first", 4},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
    if (got >= known[i].length && memcmp(head, known[i].magic, (size_t)known[i].length) == 0)
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, known[i].hint, "'%s' is %s", path, known[i].what);
  return NULL;
}

static shoal_status_t recognise_file(const char *path, const shoal_dataset_options_t *options,
                                     shoal_arena_t *arena, const char **out_kind) {
  shoal_data_file_t file;
  SHOAL_RETURN_IF_ERROR(shoal_data_file_open(path, arena, &file));
  unsigned char head[16];
  int64_t got;
  bool ten = false, hundred = false;
  shoal_status_t status = shoal_data_file_head(&file, sizeof head, head, &got);
  if (!status) status = refuse(path, head, got);
  const bool named_bin = shoal_data_ends(path, ".bin");
  if (!status && named_bin) status = is_cifar(&file, RECORD_10, 0, 10, &ten);
  if (!status && named_bin) status = is_cifar(&file, RECORD_100, 1, 100, &hundred);
  shoal_data_file_close(&file);
  if (status) return status;
  const bool idx = got >= 4 && memcmp(head, "\0\0\x08", 3) == 0 && (head[3] == 3 || head[3] == 1);
  if (shoal_npy_is(head, got))
    *out_kind = shoal_data_input(options, "ids") ? "tokens" : "arrays";
  else if (idx)
    *out_kind = "mnist";
  else if (shoal_data_has_token_header(head, got))
    *out_kind = "tokens";
  else if (ten)
    *out_kind = "cifar10";
  else if (hundred)
    *out_kind = "cifar100";
  else if (named_bin)
    *out_kind = "tokens";
  else
    *out_kind = options->tokenizer ? "text" : "bytes";
  return NULL;
}

shoal_status_t shoal_data_recognise(const char *path, const shoal_dataset_options_t *options,
                                    const char **out_kind) {
  shoal_arena_t arena;
  shoal_arena_init(options->allocator.alloc ? options->allocator : shoal_allocator_system(),
                   &arena);
  struct stat info;
  shoal_data_list_t list;
  shoal_status_t status = NULL;
  if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
    status = recognise_folder(path, options, &arena, out_kind);
  } else {
    status = shoal_data_list(path, &arena, &list);
    if (!status) status = recognise_file(list.items[0].path, options, &arena, out_kind);
    // Named columns are arrays, whatever the model takes: "ids=A.npy,labels=B.npy".
    if (!status && list.items[0].name && strcmp(*out_kind, "tokens") == 0 &&
        shoal_data_ends(list.items[0].path, ".npy"))
      *out_kind = "arrays";
  }
  shoal_arena_deinit(&arena);
  return status;
}
