// Shoal, data: batches to train on.
//
// These functions make a batch from its number alone, so that any rank can make any batch and a
// resumed run continues where it stopped. All functions are *Not collective*.
#ifndef SHOAL_DATA_H_
#define SHOAL_DATA_H_

#include "shoal/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// -------------------------------------------------------------------------------------------------
// Bytes: a text at byte level, its bytes as token ids, in windows of `length` at shuffled
// positions.
//
// The file is cut into windows of `length` bytes (each with the byte behind it, for the labels),
// from an offset that changes from epoch to epoch. An epoch visits every window once, in an order
// drawn from the seed. Sample n is a function of n alone: any rank can make any batch, and a cursor
// - how many samples were used - is all that resuming needs.
// -------------------------------------------------------------------------------------------------

typedef struct shoal_bytes shoal_bytes_t;

typedef struct shoal_bytes_options {
  shoal_allocator_t allocator;  // zero: the system's
  int64_t batch, length;        // B, T
  uint64_t seed;
} shoal_bytes_options_t;

// Opens a file, which stays open; INVALID_ARGUMENT when it has fewer than length + 1 bytes.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_bytes_open(const char *path,
                                                         const shoal_bytes_options_t *options,
                                                         shoal_bytes_t **out_bytes);
SHOAL_API void shoal_bytes_close(shoal_bytes_t *bytes);  // NULL is allowed

SHOAL_API int64_t shoal_bytes_size(const shoal_bytes_t *bytes);     // of the file
SHOAL_API int64_t shoal_bytes_windows(const shoal_bytes_t *bytes);  // samples in an epoch

// Samples [cursor, cursor + batch): ids and labels are i32 [B, T], labels one byte further on. The
// next batch starts at cursor + batch. Reads the file; does not allocate.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_bytes_batch(shoal_bytes_t *bytes, int64_t cursor,
                                                          int32_t *out_ids, int32_t *out_labels);

// -------------------------------------------------------------------------------------------------
// Classes: synthetic samples for classifiers. A sample is its class's centre plus noise; centres,
// classes and noise are drawn from the seed.
// -------------------------------------------------------------------------------------------------

typedef struct shoal_classes {
  int64_t width, classes;  // elements of a sample; different labels
  uint64_t seed;
} shoal_classes_t;

// Samples [cursor, cursor + batch): x is [batch, width] of a float type, labels are 0 to classes -
// 1. Neither blocks nor allocates.
SHOAL_API void shoal_classes_batch(const shoal_classes_t *classes, int64_t cursor, int64_t batch,
                                   shoal_dtype_t dtype, void *out_x, int32_t *out_labels);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_DATA_H_
