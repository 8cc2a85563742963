// Inside of a loader: loader.c decides which samples and when, fill.c reads and casts them.
#ifndef SHOAL_DATA_LOADER_IMPL_H_
#define SHOAL_DATA_LOADER_IMPL_H_

#include "base/arena.h"
#include "base/thread.h"
#include "data/dataset.h"

#define SHOAL_LOADER_MOST_SAMPLES (INT64_MAX / 4)
enum { SHOAL_LOADER_MOST_AHEAD = 1024 };

// Which rows of batches with `batch_rows` rows are wanted of a column.
typedef struct shoal_loader_rows {
  int64_t batch_rows;
  shoal_rows_t *ranges;
  int64_t count, total;
} shoal_loader_rows_t;

typedef struct shoal_loader_column {
  shoal_column_t input;                         // as it is handed over
  int32_t source;                               // column of the data set
  shoal_column_t stored;                        // as the data set has it
  int64_t elements, input_bytes, stored_bytes;  // of a sample
  bool as_it_is;                                // neither cast nor checked
  void *stored_sample;                          // room for one, where it is not
  SHOAL_VEC(shoal_loader_rows_t) rows;          // all rows of batches that are not listed
} shoal_loader_column_t;

typedef struct shoal_loader_slot {
  shoal_batch_t batch;
  shoal_batch_column_t *columns;
  shoal_status_t status;  // of reading it
} shoal_loader_slot_t;

struct shoal_loader {
  shoal_arena_t arena, buffers;  // buffers: slots and what they hold
  shoal_loader_options_t options;
  shoal_dataset_t *dataset;
  shoal_loader_column_t *columns;
  int32_t column_count;
  int64_t samples, end;  // of an epoch; of the run
  int64_t cursor;        // the caller's
  shoal_loader_slot_t *slots;
  int32_t slot_count;

  // Shared with the thread, under the mutex.
  shoal_mutex_t mutex;
  shoal_cond_t changed;
  shoal_thread_t thread;
  bool initialised;      // mutex and condition
  int64_t made, taken;   // batches, since the loader was made
  int64_t ahead_cursor;  // the thread's
  bool busy, halted, stopping;
  bool stale;  // the thread must go on at the caller's cursor
};

// Finds the columns that the model takes in the data set.
SHOAL_MUST_USE shoal_status_t shoal_loader_match(shoal_loader_t *loader);
SHOAL_MUST_USE shoal_status_t shoal_loader_set_rows(shoal_loader_t *loader, const char *name,
                                                    int64_t batch_rows, const shoal_rows_t *rows,
                                                    int64_t count);
// Allocates the slots.
SHOAL_MUST_USE shoal_status_t shoal_loader_prepare(shoal_loader_t *loader);
// Reads the batch whose cursor and rows are set. Does not allocate.
SHOAL_MUST_USE shoal_status_t shoal_loader_fill(shoal_loader_t *loader, shoal_loader_slot_t *slot);

#endif  // SHOAL_DATA_LOADER_IMPL_H_
