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

// ---- checksums ------------------------------------------------------------------------

// Files that Shoal writes for itself have two notes, so that damage of the disk or of a copy is
// found. Both are known only when all else is: a header is made with zeros, and written at the end.
//
// "shoal_sums": a number for each tensor, in the order of their bytes, as sixteen hexadecimal
// digits with a blank between two. It counts the name, the type and the bytes, and is made of sums
// of parts (base/hash.h) that different ranks write and read.
//
// "shoal_header": a number of the header itself, as it is with zeros in its place. Files whose note
// "shoal_checkpoint" is SHOAL_CHECKPOINT_FORMAT must have it. It is checked when a file is opened.
//
// Older files (format "1") have "shoal_checksums" instead, over a tensor's bytes from the first to
// the last.
#define SHOAL_SUMS_NOTE "shoal_sums"
#define SHOAL_HEADER_NOTE "shoal_header"
#define SHOAL_CHECKSUMS_NOTE "shoal_checksums"
#define SHOAL_CHECKPOINT_NOTE "shoal_checkpoint"
#define SHOAL_CHECKPOINT_FORMAT "2"
enum { SHOAL_CHECKSUM_DIGITS = 16, SHOAL_CHECKSUM_STRIDE = SHOAL_CHECKSUM_DIGITS + 1 };
// The number of a tensor whose bytes have this sum of parts.
uint64_t shoal_safetensors_sum(const shoal_safetensor_t *tensor, uint64_t parts);
// Where the digits of the note "shoal_header" stand in a header's text; NULL: it has none.
const char *shoal_safetensors_header_place(const char *text, size_t size);
uint64_t shoal_safetensors_header_sum(const char *text, size_t size);
// Compares the header's text with its checksum.
SHOAL_MUST_USE shoal_status_t shoal_safetensors_check_header(const shoal_safetensors_t *file,
                                                             const char *text, size_t size);

// Does the file have numbers that are made of sums of parts?
bool shoal_safetensors_has_sums(const shoal_safetensors_t *file);
// Compares the sum of a tensor's parts with the file's. The error names the tensor.
SHOAL_MUST_USE shoal_status_t shoal_safetensors_compare(const shoal_safetensors_t *file,
                                                        const shoal_safetensor_t *tensor,
                                                        uint64_t parts);
// Reads a tensor of a file of any age and compares it with its checksum; a file without any has
// nothing to compare. Takes a MiB of memory from the arena.
SHOAL_MUST_USE shoal_status_t shoal_safetensors_check(const shoal_safetensors_t *file,
                                                      const shoal_safetensor_t *tensor,
                                                      shoal_arena_t *arena);

// ---- writing --------------------------------------------------------------------------

// What a file begins with, for tensors written one after the other in this order; sets their
// ranges.
SHOAL_MUST_USE shoal_status_t shoal_safetensors_header(shoal_safetensor_t *tensors, int64_t count,
                                                       const shoal_safetensors_note_t *notes,
                                                       int64_t note_count, shoal_arena_t *arena,
                                                       const char **out_data, int64_t *out_size);

#endif  // SHOAL_RUN_SAFETENSORS_H_
