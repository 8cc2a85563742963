// Checksums of tensors in files, and of their headers. See safetensors.h.
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/hash.h"
#include "base/status.h"
#include "run/safetensors.h"

enum { PIECE = 1 << 20, DIGITS = SHOAL_CHECKSUM_DIGITS, STRIDE = SHOAL_CHECKSUM_STRIDE };

#define DAMAGED(...)                                                                          \
  SHOAL_ERROR_HINT(INVALID_ARGUMENT,                                                          \
                   "the disk, or a copy, has damaged it: take another checkpoint. If it was " \
                   "changed on purpose, remove the notes " SHOAL_CHECKPOINT_NOTE              \
                   ", " SHOAL_HEADER_NOTE ", " SHOAL_SUMS_NOTE " and " SHOAL_CHECKSUMS_NOTE   \
                   " from its metadata",                                                      \
                   __VA_ARGS__)

// ---- of tensors -----------------------------------------------------------------------

static void begin(const shoal_safetensor_t *tensor, shoal_checksum_t *sum) {
  shoal_checksum_init(sum);
  shoal_checksum_add(sum, tensor->name, strlen(tensor->name) + 1);
  const char *dtype = shoal_dtype_name(tensor->type.dtype);
  shoal_checksum_add(sum, dtype, strlen(dtype) + 1);
  for (int32_t d = 0; d < tensor->type.shape.rank; ++d) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)tensor->type.shape.dims[d]);
    shoal_checksum_add(sum, text, strlen(text) + 1);
  }
}

uint64_t shoal_safetensors_sum(const shoal_safetensor_t *tensor, uint64_t parts) {
  shoal_checksum_t sum;
  unsigned char bytes[8];
  begin(tensor, &sum);
  for (int i = 0; i < 8; ++i) bytes[i] = (unsigned char)(parts >> 8 * i);
  shoal_checksum_add(&sum, bytes, sizeof bytes);
  return shoal_checksum_value(&sum);
}

bool shoal_safetensors_has_sums(const shoal_safetensors_t *file) {
  return shoal_safetensors_note(file, SHOAL_SUMS_NOTE) != NULL;
}

// With the number of the tensor's place in a note.
static shoal_status_t compare(const shoal_safetensors_t *file, const shoal_safetensor_t *tensor,
                              const char *numbers, uint64_t value) {
  if ((int64_t)strlen(numbers) != file->count * STRIDE - 1) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "the file is damaged",
                            "%s: %lld tensors do not have %lld checksums", file->path,
                            (long long)file->count, (long long)strlen(numbers) / STRIDE + 1);
  }
  char digits[DIGITS + 1];
  snprintf(digits, sizeof digits, "%016llx", (unsigned long long)value);
  if (memcmp(digits, numbers + (tensor - file->tensors) * STRIDE, DIGITS) == 0) return NULL;
  return DAMAGED("%s: tensor '%s' is not what was saved: its checksum differs", file->path,
                 tensor->name);
}

shoal_status_t shoal_safetensors_compare(const shoal_safetensors_t *file,
                                         const shoal_safetensor_t *tensor, uint64_t parts) {
  const char *numbers = shoal_safetensors_note(file, SHOAL_SUMS_NOTE);
  // Of empty ones the order is not known.
  if (!numbers || tensor->begin == tensor->end) return NULL;
  return compare(file, tensor, numbers, shoal_safetensors_sum(tensor, parts));
}

shoal_status_t shoal_safetensors_check(const shoal_safetensors_t *file,
                                       const shoal_safetensor_t *tensor, shoal_arena_t *arena) {
  const bool parts = shoal_safetensors_has_sums(file);
  const char *numbers =
      shoal_safetensors_note(file, parts ? SHOAL_SUMS_NOTE : SHOAL_CHECKSUMS_NOTE);
  if (!numbers || tensor->begin == tensor->end) return NULL;
  char *piece = shoal_arena_alloc(arena, PIECE, 1);
  if (!piece) return SHOAL_OOM();
  uint64_t sum = 0;
  shoal_checksum_t old;
  begin(tensor, &old);
  for (int64_t at = tensor->begin; at < tensor->end; at += PIECE) {
    const int64_t size = tensor->end - at < PIECE ? tensor->end - at : PIECE;
    SHOAL_RETURN_IF_ERROR(shoal_safetensors_read(file, at, size, piece));
    if (parts)
      sum = shoal_parts_sum(sum, at - tensor->begin, piece, (size_t)size);
    else
      shoal_checksum_add(&old, piece, (size_t)size);
  }
  return compare(file, tensor, numbers,
                 parts ? shoal_safetensors_sum(tensor, sum) : shoal_checksum_value(&old));
}

// ---- of headers -----------------------------------------------------------------------

const char *shoal_safetensors_header_place(const char *text, size_t size) {
  static const char key[] = "\"" SHOAL_HEADER_NOTE "\": \"";  // quotes inside texts are escaped
  const char *place = memmem(text, size, key, sizeof key - 1);
  if (!place) return NULL;
  place += sizeof key - 1;
  return place + DIGITS < text + size && place[DIGITS] == '"' ? place : NULL;
}

uint64_t shoal_safetensors_header_sum(const char *text, size_t size) {
  static const char zeros[] = "0000000000000000";
  _Static_assert(sizeof zeros == DIGITS + 1, "as many as there are digits");
  shoal_checksum_t sum;
  shoal_checksum_init(&sum);
  const char *place = shoal_safetensors_header_place(text, size);
  if (!place) return 0;
  shoal_checksum_add(&sum, text, (size_t)(place - text));
  shoal_checksum_add(&sum, zeros, DIGITS);
  shoal_checksum_add(&sum, place + DIGITS, (size_t)(text + size - place) - DIGITS);
  return shoal_checksum_value(&sum);
}

shoal_status_t shoal_safetensors_check_header(const shoal_safetensors_t *file, const char *text,
                                              size_t size) {
  const char *format = shoal_safetensors_note(file, SHOAL_CHECKPOINT_NOTE);
  const char *note = shoal_safetensors_note(file, SHOAL_HEADER_NOTE);
  const bool needs = format && strcmp(format, SHOAL_CHECKPOINT_FORMAT) == 0;
  if (!note && !needs) return NULL;
  const char *place = shoal_safetensors_header_place(text, size);
  char digits[DIGITS + 1];
  snprintf(digits, sizeof digits, "%016llx",
           (unsigned long long)shoal_safetensors_header_sum(text, size));
  if (place && memcmp(place, digits, DIGITS) == 0) return NULL;
  return DAMAGED("%s: the header is not what was saved: its checksum %s", file->path,
                 place ? "differs" : "is gone");
}
