// See npy.h. The header is a Python literal:
// {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}.
#include "data/npy.h"

#include <string.h>

#include "base/dtype.h"
#include "base/status.h"

enum { PREFIX = 8, MOST_HEADER = 1 << 20 };

static const char damaged[] = "the file is damaged, or is no .npy file";
#define BAD(npy, ...) bad(npy, __LINE__, damaged, __VA_ARGS__)
#define BAD_HINT(npy, hint, ...) bad(npy, __LINE__, hint, __VA_ARGS__)
__attribute__((format(printf, 4, 5))) static shoal_status_t bad(const shoal_npy_t *npy, int line,
                                                                const char *hint,
                                                                const char *format, ...) {
  char message[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  return shoal_status_format(SHOAL_INVALID_ARGUMENT, __FILE__, line, hint, "'%s': %s",
                             npy->file.path, message);
}

// ---- header ---------------------------------------------------------------------------

// Skips blanks, then the word if it is next.
static bool accept(const char **at, const char *word) {
  while (**at == ' ' || **at == '\n' || **at == '\t') ++*at;
  const size_t length = strlen(word);
  if (strncmp(*at, word, length) != 0) return false;
  *at += length;
  return true;
}

// A string in either kind of quotes; longer ones are cut.
static bool quoted(const char **at, char *out, size_t capacity) {
  const char quote = accept(at, "'") ? '\'' : accept(at, "\"") ? '"' : 0;
  const char *end = quote ? strchr(*at, quote) : NULL;
  if (!end) return false;
  size_t length = (size_t)(end - *at);
  if (length > capacity - 1) length = capacity - 1;
  memcpy(out, *at, length);
  out[length] = 0;
  *at = end + 1;
  return true;
}

static bool natural(const char **at, int64_t *out) {
  accept(at, "");
  const char *start = *at;
  *out = 0;
  for (; **at >= '0' && **at <= '9'; ++*at)
    if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, **at - '0', out))
      return false;
  if (*at == start) return false;
  if (**at == 'L') ++*at;  // as Python 2 wrote them
  return true;
}

static shoal_status_t parse_type(shoal_npy_t *npy, const char *text) {
  static const struct {
    const char *name;
    shoal_dtype_t dtype;
  } types[] = {
      {"f2", SHOAL_F16}, {"f4", SHOAL_F32}, {"f8", SHOAL_F64}, {"i1", SHOAL_I8},
      {"i2", SHOAL_I32}, {"i4", SHOAL_I32}, {"i8", SHOAL_I64}, {"u1", SHOAL_U8},
      {"u2", SHOAL_I32}, {"u4", SHOAL_I64}, {"u8", SHOAL_I64}, {"b1", SHOAL_BOOL},
  };
  const char *name = text;
  if (*name && strchr("<>=|", *name)) npy->swapped = *name++ == '>';
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i) {
    if (strcmp(types[i].name, name) != 0) continue;
    npy->kind = name[0];
    npy->width = name[1] - '0';
    npy->dtype = types[i].dtype;
    // A bool may be stored as any byte; the others are numbers of this machine as they are.
    npy->as_stored = !npy->swapped && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ &&
                     npy->kind != 'b' && (size_t)npy->width == shoal_dtype_size(npy->dtype) &&
                     (npy->kind != 'u' || npy->width == 1);
    return NULL;
  }
  return BAD_HINT(npy, "save it as numbers: array.astype('float32'), or 'int64' for classes",
                  "elements of type '%s' are not read", text);
}

static shoal_status_t parse_shape(shoal_npy_t *npy, const char **at) {
  if (!accept(at, "(")) return BAD(npy, "the header has no shape");
  npy->count = 1;
  while (!accept(at, ")")) {
    int64_t dim;
    if (npy->shape.rank == SHOAL_MAX_RANK)
      return BAD_HINT(npy, "reshape it", "more than %d dims", SHOAL_MAX_RANK);
    if (!natural(at, &dim)) return BAD(npy, "the header has a bad shape");
    npy->shape.dims[npy->shape.rank++] = dim;
    if (__builtin_mul_overflow(npy->count, dim, &npy->count))
      return BAD(npy, "the header has a shape that is too large");
    if (!accept(at, ",") && *(accept(at, ""), *at) != ')')
      return BAD(npy, "the header has a bad shape");
  }
  return NULL;
}

static shoal_status_t parse_header(shoal_npy_t *npy, const char *at) {
  bool has_type = false, has_order = false, has_shape = false;
  if (!accept(&at, "{")) return BAD(npy, "the header is no dictionary");
  while (!accept(&at, "}")) {
    char key[32], type[32];
    if (!quoted(&at, key, sizeof key) || !accept(&at, ":"))
      return BAD(npy, "the header is no dictionary");
    if (strcmp(key, "descr") == 0) {
      if (accept(&at, "["))
        return BAD_HINT(npy, "save each field as an array of its own",
                        "it is an array of records (a structured type)");
      if (!quoted(&at, type, sizeof type)) return BAD(npy, "the header has no type");
      SHOAL_RETURN_IF_ERROR(parse_type(npy, type));
      has_type = true;
    } else if (strcmp(key, "fortran_order") == 0) {
      has_order = true;
      if (accept(&at, "True"))
        return BAD_HINT(npy, "save numpy.ascontiguousarray(array)",
                        "it is in Fortran order, where samples do not lie together");
      if (!accept(&at, "False")) return BAD(npy, "the header has no order");
    } else if (strcmp(key, "shape") == 0) {
      if (has_shape) return BAD(npy, "the header has two shapes");
      has_shape = true;
      SHOAL_RETURN_IF_ERROR(parse_shape(npy, &at));
    } else {
      return BAD(npy, "the header has an unknown key '%s'", key);
    }
    accept(&at, ",");
  }
  if (!has_type || !has_order || !has_shape)
    return BAD(npy, "the header has no %s", !has_type ? "type" : !has_order ? "order" : "shape");
  return NULL;
}

bool shoal_npy_is(const void *head, int64_t bytes) {
  return bytes >= 6 && memcmp(head, "\x93NUMPY", 6) == 0;
}

static shoal_status_t read_header(shoal_npy_t *npy) {
  unsigned char head[12];
  int64_t got;
  SHOAL_RETURN_IF_ERROR(shoal_data_file_head(&npy->file, sizeof head, head, &got));
  if (!shoal_npy_is(head, got)) return BAD(npy, "it does not begin as a .npy file does");
  if (got < PREFIX + 2) return BAD(npy, "it ends at byte %lld, in its header", (long long)got);
  const int version = head[6];
  if (version < 1 || version > 3 || (version > 1 && got < PREFIX + 4))
    return BAD(npy, "it has format %d.%d; 1.0, 2.0 and 3.0 are known", head[6], head[7]);
  const int64_t start = PREFIX + (version == 1 ? 2 : 4);
  int64_t length = head[8] | head[9] << 8;
  if (version > 1) length |= (int64_t)head[10] << 16 | (int64_t)head[11] << 24;
  if (length > MOST_HEADER || start + length > npy->file.size)
    return BAD(npy, "a header of %lld bytes in a file of %lld", (long long)length,
               (long long)npy->file.size);
  npy->offset = start + length;
  char small[512];
  shoal_arena_t scratch;
  shoal_arena_init(shoal_allocator_system(), &scratch);
  char *text = length < (int64_t)sizeof small ? small : SHOAL_NEW(&scratch, char, length + 1);
  shoal_status_t status = text ? NULL : SHOAL_OOM();
  if (!status) status = shoal_data_file_read(&npy->file, start, length, text);
  if (!status) {
    text[length] = 0;
    status = parse_header(npy, text);
  }
  shoal_arena_deinit(&scratch);
  return status;
}

shoal_status_t shoal_npy_open(const char *path, shoal_arena_t *arena, shoal_npy_t *out_npy) {
  *out_npy = (shoal_npy_t){0};
  SHOAL_RETURN_IF_ERROR(shoal_data_file_open(path, arena, &out_npy->file));
  shoal_status_t status = read_header(out_npy);
  int64_t bytes = 0;
  if (!status && (__builtin_mul_overflow(out_npy->count, out_npy->width, &bytes) ||
                  bytes > out_npy->file.size - out_npy->offset))
    status = BAD(out_npy,
                 "it is truncated: %lld elements of %d bytes from byte %lld on do not fit "
                 "a file of %lld",
                 (long long)out_npy->count, out_npy->width, (long long)out_npy->offset,
                 (long long)out_npy->file.size);
  if (status) shoal_npy_close(out_npy);
  return status;
}

void shoal_npy_close(shoal_npy_t *npy) {
  shoal_data_file_close(&npy->file);
}

// ---- elements -------------------------------------------------------------------------

// Bytes of an element, as a number: little-endian unless swapped.
static uint64_t bits_of(const shoal_npy_t *npy, const unsigned char *at) {
  uint64_t bits = 0;
  for (int32_t b = 0; b < npy->width; ++b)
    bits |= (uint64_t)at[npy->swapped ? npy->width - 1 - b : b] << 8 * b;
  return bits;
}

static shoal_status_t read_integer(const shoal_npy_t *npy, uint64_t bits, int64_t *out) {
  if (npy->kind == 'b') bits = bits != 0;
  const int32_t unused = 64 - 8 * npy->width;
  *out = npy->kind == 'i' ? (int64_t)(bits << unused) >> unused : (int64_t)bits;
  if (npy->kind == 'i' || *out >= 0) return NULL;
  return BAD_HINT(npy, "save it as int64", "%llu is too large", (unsigned long long)bits);
}

shoal_status_t shoal_npy_read(const shoal_npy_t *npy, int64_t at, int64_t count, void *raw,
                              void *out_data) {
  const int64_t offset = npy->offset + at * npy->width;
  if (npy->as_stored) return shoal_data_file_read(&npy->file, offset, count * npy->width, out_data);
  SHOAL_RETURN_IF_ERROR(shoal_data_file_read(&npy->file, offset, count * npy->width, raw));
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = bits_of(npy, (const unsigned char *)raw + i * npy->width);
    if (npy->kind == 'f') {  // the same bits, in this machine's order
      if (npy->width == 2) ((uint16_t *)out_data)[i] = (uint16_t)bits;
      if (npy->width == 4) ((uint32_t *)out_data)[i] = (uint32_t)bits;
      if (npy->width == 8) ((uint64_t *)out_data)[i] = bits;
    } else {
      int64_t value;
      SHOAL_RETURN_IF_ERROR(read_integer(npy, bits, &value));
      shoal_dtype_store_int(npy->dtype, out_data, i, value);
    }
  }
  return NULL;
}
