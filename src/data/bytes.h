// A byte-level text dataset: a file's bytes as token ids, in windows of `length` at shuffled
// positions.
//
// The file is cut into windows of `length` bytes (each with the byte behind it, for the labels),
// from an offset that changes from epoch to epoch. An epoch visits every window once, in an order
// drawn from the seed. Sample n is a function of n alone: any rank can make any batch, and a cursor
// - how many samples were used - is all that resuming needs.
#ifndef SHOAL_DATA_BYTES_H_
#define SHOAL_DATA_BYTES_H_

#include "shoal/base.h"

typedef struct shoal_bytes shoal_bytes_t;

typedef struct shoal_bytes_options {
  shoal_allocator_t allocator;  // zero: the system's
  int64_t batch, length;        // B, T
  uint64_t seed;
} shoal_bytes_options_t;

// Opens a file; INVALID_ARGUMENT when it has fewer than length + 1 bytes. Not collective.
SHOAL_MUST_USE shoal_status_t shoal_bytes_open(const char *path,
                                               const shoal_bytes_options_t *options,
                                               shoal_bytes_t **out_bytes);
void shoal_bytes_close(shoal_bytes_t *bytes);

int64_t shoal_bytes_size(const shoal_bytes_t *bytes);     // of the file
int64_t shoal_bytes_windows(const shoal_bytes_t *bytes);  // samples in an epoch

// Samples [cursor, cursor + batch): ids and labels are i32 [B, T], labels one byte further on. The
// next batch starts at cursor + batch. Reads the file; does not allocate.
SHOAL_MUST_USE shoal_status_t shoal_bytes_batch(shoal_bytes_t *bytes, int64_t cursor,
                                                int32_t *out_ids, int32_t *out_labels);

#endif  // SHOAL_DATA_BYTES_H_
