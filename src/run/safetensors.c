// safetensors: header in, header out. The caller moves the tensors' bytes.
#include "run/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"

enum { LENGTH_BYTES = 8, ALIGNMENT = 64, MOST_HEADER = 100000000 };

static const char *const dtype_names[SHOAL_DTYPE_COUNT] = {
    [SHOAL_F64] = "F64",         [SHOAL_F32] = "F32",         [SHOAL_BF16] = "BF16",
    [SHOAL_F16] = "F16",         [SHOAL_I64] = "I64",         [SHOAL_I32] = "I32",
    [SHOAL_U8] = "U8",           [SHOAL_BOOL] = "BOOL",       [SHOAL_I8] = "I8",
    [SHOAL_F8_E4M3] = "F8_E4M3", [SHOAL_F8_E5M2] = "F8_E5M2",
};

// ---- reading --------------------------------------------------------------------------

static shoal_status_t system_error(const char *path, int error) {
  return shoal_status_format(error == ENOENT ? SHOAL_NOT_FOUND : SHOAL_IO, __FILE__, __LINE__, NULL,
                             "cannot read '%s': %s", path, strerror(error));
}

#define BAD(path, ...)                                                                     \
  shoal_status_annotate(                                                                   \
      SHOAL_ERROR_HINT(INVALID_ARGUMENT, "the file is damaged, or is no safetensors file", \
                       __VA_ARGS__),                                                       \
      path)

shoal_status_t shoal_safetensors_read(const shoal_safetensors_t *file, int64_t offset,
                                      int64_t bytes, void *out_data) {
  char *at = out_data;
  while (bytes > 0) {
    ssize_t got = pread(file->file, at, (size_t)bytes, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(file->path, errno);
    if (got == 0) {
      return BAD(file->path, "the file is truncated: it ends at byte %lld", (long long)offset);
    }
    at += got;
    offset += got;
    bytes -= got;
  }
  return NULL;
}

static shoal_status_t read_shape(const char *path, const shoal_json_t *json,
                                 shoal_shape_t *out_shape, int64_t *out_count) {
  if (json->count > SHOAL_MAX_RANK) {
    return BAD(path, "%s has %lld dims; the most is %d", json->path, (long long)json->count,
               SHOAL_MAX_RANK);
  }
  *out_shape = (shoal_shape_t){.rank = (int32_t)json->count};
  *out_count = 1;
  for (int64_t i = 0; i < json->count; ++i) {
    const shoal_json_t *dim = &json->children[i];
    if (dim->kind != SHOAL_JSON_INT || dim->integer < 0) {
      return BAD(path, "%s is no size", dim->path);
    }
    out_shape->dims[i] = dim->integer;
    if (__builtin_mul_overflow(*out_count, dim->integer, out_count)) {
      return BAD(path, "%s is too large", json->path);
    }
  }
  return NULL;
}

static shoal_status_t read_dtype(const char *path, const shoal_json_t *json, const char *name,
                                 shoal_dtype_t *out_dtype) {
  for (int i = 0; i < SHOAL_DTYPE_COUNT; ++i) {
    *out_dtype = (shoal_dtype_t)i;
    if (strcmp(dtype_names[i], name) == 0) return NULL;
  }
  return BAD(path, "%s: unknown dtype '%s'", json->path, name);
}

static shoal_status_t read_tensor(const char *path, const shoal_json_t *json, int64_t data,
                                  int64_t data_bytes, shoal_safetensor_t *out_tensor) {
  static const char *const keys[] = {"dtype", "shape", "data_offsets"};
  const char *dtype;
  const shoal_json_t *shape, *offsets;
  int64_t count = 0, bytes;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(json, "dtype", &dtype));
  SHOAL_RETURN_IF_ERROR(shoal_json_only(json, keys, 3));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(json, "shape", SHOAL_JSON_ARRAY, &shape));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(json, "data_offsets", SHOAL_JSON_ARRAY, &offsets));
  *out_tensor = (shoal_safetensor_t){.name = json->key};
  SHOAL_RETURN_IF_ERROR(read_dtype(path, json, dtype, &out_tensor->type.dtype));
  SHOAL_RETURN_IF_ERROR(read_shape(path, shape, &out_tensor->type.shape, &count));
  if (__builtin_mul_overflow(count, (int64_t)shoal_dtype_size(out_tensor->type.dtype), &bytes)) {
    return BAD(path, "%s is too large", shape->path);
  }
  if (offsets->count != 2 || offsets->children[0].kind != SHOAL_JSON_INT ||
      offsets->children[1].kind != SHOAL_JSON_INT) {
    return BAD(path, "%s is no pair of numbers", offsets->path);
  }
  const int64_t begin = offsets->children[0].integer, end = offsets->children[1].integer;
  if (begin < 0 || end < begin) return BAD(path, "%s is no range", offsets->path);
  if (end > data_bytes) {
    return BAD(path,
               "the file is truncated: tensor '%s' ends at byte %lld of the data, which has %lld",
               json->key, (long long)end, (long long)data_bytes);
  }
  if (end - begin != bytes) {
    return BAD(path, "tensor '%s' needs %lld bytes and has %lld", json->key, (long long)bytes,
               (long long)(end - begin));
  }
  out_tensor->begin = data + begin;
  out_tensor->end = data + end;
  return NULL;
}

static shoal_status_t read_notes(const char *path, const shoal_json_t *json, shoal_arena_t *arena,
                                 shoal_safetensors_t *file) {
  if (json->kind != SHOAL_JSON_OBJECT) return BAD(path, "%s is no object", json->path);
  file->notes = SHOAL_NEW(arena, shoal_safetensors_note_t, json->count);
  if (!file->notes) return SHOAL_OOM();
  for (int64_t i = 0; i < json->count; ++i) {
    const shoal_json_t *note = &json->children[i];
    if (note->kind != SHOAL_JSON_STRING) return BAD(path, "%s is no string", note->path);
    file->notes[file->note_count++] = (shoal_safetensors_note_t){note->key, note->string};
  }
  return NULL;
}

static int compare_tensors(const void *a, const void *b) {
  const shoal_safetensor_t *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return (x->end > y->end) - (x->end < y->end);
}

static shoal_status_t check_tiling(const char *path, const shoal_safetensors_t *file, int64_t data,
                                   int64_t size) {
  int64_t at = data;
  for (int64_t i = 0; i < file->count; ++i) {
    const shoal_safetensor_t *tensor = &file->tensors[i];
    if (tensor->begin != at) {
      return BAD(path, "tensor '%s' %s", tensor->name,
                 tensor->begin < at ? "overlaps another" : "has a hole before it");
    }
    at = tensor->end;
  }
  if (at == size) return NULL;
  return BAD(path, "%lld bytes behind the last tensor", (long long)(size - at));
}

static shoal_status_t read_header(const char *path, shoal_arena_t *arena,
                                  shoal_safetensors_t *file) {
  struct stat info;
  if (fstat(file->file, &info) != 0) return system_error(path, errno);
  if (S_ISDIR(info.st_mode)) return system_error(path, EISDIR);
  if (!S_ISREG(info.st_mode)) return BAD(path, "this is no regular file");
  const int64_t size = (int64_t)info.st_size;
  unsigned char length_bytes[LENGTH_BYTES];
  if (size < LENGTH_BYTES)
    return BAD(path, "the file is truncated: it has %lld bytes", (long long)size);
  SHOAL_RETURN_IF_ERROR(shoal_safetensors_read(file, 0, LENGTH_BYTES, length_bytes));
  uint64_t length = 0;
  for (int i = LENGTH_BYTES - 1; i >= 0; --i) length = length << 8 | length_bytes[i];
  if (length > MOST_HEADER || (int64_t)length > size - LENGTH_BYTES) {
    return BAD(path, "the header would have %llu bytes; the file has %lld",
               (unsigned long long)length, (long long)size);
  }
  char *text = shoal_arena_alloc(arena, (size_t)length + 1, 1);
  if (!text) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_safetensors_read(file, LENGTH_BYTES, (int64_t)length, text));
  if (strlen(text) != length) return BAD(path, "the header contains a zero byte");
  const shoal_json_t *json;
  SHOAL_RETURN_IF_ERROR(shoal_json_parse(path, text, arena, &json));
  if (json->kind != SHOAL_JSON_OBJECT) return BAD(path, "the header is no JSON object");
  file->tensors = SHOAL_NEW(arena, shoal_safetensor_t, json->count);
  if (!file->tensors) return SHOAL_OOM();
  const int64_t data = LENGTH_BYTES + (int64_t)length;
  for (int64_t i = 0; i < json->count; ++i) {
    const shoal_json_t *child = &json->children[i];
    if (strcmp(child->key, "__metadata__") == 0) {
      SHOAL_RETURN_IF_ERROR(read_notes(path, child, arena, file));
    } else {
      SHOAL_RETURN_IF_ERROR(
          read_tensor(path, child, data, size - data, &file->tensors[file->count]));
      ++file->count;
    }
  }
  SHOAL_RETURN_IF_ERROR(shoal_safetensors_check_header(file, text, (size_t)length));
  if (file->count > 0)
    qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, compare_tensors);
  return check_tiling(path, file, data, size);
}

shoal_status_t shoal_safetensors_open(const char *path, shoal_arena_t *arena,
                                      shoal_safetensors_t *out_file) {
  *out_file = (shoal_safetensors_t){.path = path, .file = -1};
  shoal_safetensors_t file = *out_file;
  file.file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe would wait for its writer
  if (file.file < 0) return system_error(path, errno);
  shoal_status_t status = read_header(path, arena, &file);
  if (status) {
    close(file.file);
    return status;
  }
  *out_file = file;
  return NULL;
}

void shoal_safetensors_close(shoal_safetensors_t *file) {
  if (file->file >= 0) close(file->file);
  file->file = -1;
}

const shoal_safetensor_t *shoal_safetensors_find(const shoal_safetensors_t *file,
                                                 const char *name) {
  for (int64_t i = 0; i < file->count; ++i) {
    if (strcmp(file->tensors[i].name, name) == 0) return &file->tensors[i];
  }
  return NULL;
}

const char *shoal_safetensors_note(const shoal_safetensors_t *file, const char *key) {
  for (int64_t i = 0; i < file->note_count; ++i) {
    if (strcmp(file->notes[i].key, key) == 0) return file->notes[i].value;
  }
  return NULL;
}

// ---- writing --------------------------------------------------------------------------

static void print_header(shoal_text_t *text, const shoal_safetensor_t *tensors, int64_t count,
                         const shoal_safetensors_note_t *notes, int64_t note_count) {
  shoal_json_writer_t w;
  shoal_json_writer_init(text, &w);
  shoal_json_begin(&w, NULL, '{', true);
  shoal_json_begin(&w, "__metadata__", '{', true);
  for (int64_t i = 0; i < note_count; ++i) shoal_json_string(&w, notes[i].key, notes[i].value);
  shoal_json_end(&w, '}');
  for (int64_t i = 0; i < count; ++i) {
    shoal_json_begin(&w, tensors[i].name, '{', true);
    shoal_json_string(&w, "dtype", dtype_names[tensors[i].type.dtype]);
    shoal_json_begin(&w, "shape", '[', true);
    for (int32_t d = 0; d < tensors[i].type.shape.rank; ++d) {
      shoal_json_int(&w, NULL, tensors[i].type.shape.dims[d]);
    }
    shoal_json_end(&w, ']');
    shoal_json_begin(&w, "data_offsets", '[', true);
    shoal_json_int(&w, NULL, tensors[i].begin);
    shoal_json_int(&w, NULL, tensors[i].end);
    shoal_json_end(&w, ']');
    shoal_json_end(&w, '}');
  }
  shoal_json_end(&w, '}');
  // Behind the object only spaces are allowed.
  if (!text->failed && text->data[text->length - 1] == '\n') text->data[text->length - 1] = ' ';
  // The data starts aligned, so that a mapped file can be used in place.
  while ((text->length + LENGTH_BYTES) % ALIGNMENT != 0 && !text->failed) shoal_text_add(text, " ");
}

shoal_status_t shoal_safetensors_header(shoal_safetensor_t *tensors, int64_t count,
                                        const shoal_safetensors_note_t *notes, int64_t note_count,
                                        shoal_arena_t *arena, const char **out_data,
                                        int64_t *out_size) {
  int64_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t bytes;
    SHOAL_RETURN_IF_ERROR(shoal_dtype_bytes(tensors[i].type.dtype,
                                            shoal_shape_count(&tensors[i].type.shape), &bytes));
    tensors[i].begin = at;
    if (__builtin_add_overflow(at, bytes, &at)) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "the tensors are too large for one file");
    }
    tensors[i].end = at;
  }
  shoal_text_t text;
  shoal_text_init(arena->allocator, &text);
  print_header(&text, tensors, count, notes, note_count);
  shoal_status_t status = shoal_text_status(&text);
  char *data = status ? NULL : shoal_arena_alloc(arena, text.length + LENGTH_BYTES, 1);
  if (!status && !data) status = SHOAL_OOM();
  if (data) {
    for (int i = 0; i < LENGTH_BYTES; ++i) data[i] = (char)(text.length >> (8 * i));
    memcpy(data + LENGTH_BYTES, text.data, text.length);
    *out_data = data;
    *out_size = (int64_t)text.length + LENGTH_BYTES;
  }
  for (int64_t i = 0; i < count && data; ++i) {
    tensors[i].begin += *out_size;
    tensors[i].end += *out_size;
  }
  shoal_text_deinit(&text);
  return status;
}
