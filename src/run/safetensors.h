// safetensors files: an 8-byte little-endian length, a JSON header, then the tensors' bytes, dense
// and little-endian. (https://huggingface.co/docs/safetensors, the format section.)
//
// Reading trusts nothing: lengths, JSON, dtypes, shapes and ranges are all checked against the file
// before anything is believed, and ranges must tile the data without holes.
#ifndef SHOAL_RUN_SAFETENSORS_H_
#define SHOAL_RUN_SAFETENSORS_H_

#include "base/arena.h"
#include "shoal/op.h"

typedef struct shoal_safetensor {
  const char *name;
  shoal_type_t type;
  int64_t begin, end;  // bytes of the file
} shoal_safetensor_t;

typedef struct shoal_safetensors_note {  // of the header's __metadata__
  const char *key, *value;
} shoal_safetensors_note_t;

typedef struct shoal_safetensors {
  const char *path;  // borrowed, for messages
  int file;          // descriptor
  int64_t count;
  shoal_safetensor_t *tensors;  // in the order of their bytes
  int64_t note_count;
  shoal_safetensors_note_t *notes;
} shoal_safetensors_t;

// Opens and checks a file. Everything but the descriptor lives in the arena.
SHOAL_MUST_USE shoal_status_t shoal_safetensors_open(const char *path, shoal_arena_t *arena,
                                                     shoal_safetensors_t *out_file);
void shoal_safetensors_close(shoal_safetensors_t *file);
const shoal_safetensor_t *shoal_safetensors_find(const shoal_safetensors_t *file, const char *name);
const char *shoal_safetensors_note(const shoal_safetensors_t *file, const char *key);  // or NULL
// Bytes [offset, offset + bytes) of the file.
SHOAL_MUST_USE shoal_status_t shoal_safetensors_read(const shoal_safetensors_t *file,
                                                     int64_t offset, int64_t bytes, void *out_data);

// What a file begins with, for tensors written one after the other in this order; sets their
// ranges.
SHOAL_MUST_USE shoal_status_t shoal_safetensors_header(shoal_safetensor_t *tensors, int64_t count,
                                                       const shoal_safetensors_note_t *notes,
                                                       int64_t note_count, shoal_arena_t *arena,
                                                       const char **out_data, int64_t *out_size);

#endif  // SHOAL_RUN_SAFETENSORS_H_
