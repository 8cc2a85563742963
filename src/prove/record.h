// Records: what one rank observed during a check (taps, outputs, states, memory) as one array of
// bytes, so that threads and processes, which send theirs through a file, report alike.
#ifndef SHOAL_PROVE_RECORD_H_
#define SHOAL_PROVE_RECORD_H_

#include "base/arena.h"
#include "shoal/session.h"

typedef enum shoal_record_kind {
  SHOAL_RECORD_LAYOUT,  // name: printed layout; taps after it name it by its number
  SHOAL_RECORD_TAP,
  SHOAL_RECORD_OUTPUT,
  SHOAL_RECORD_STATE,
  SHOAL_RECORD_MEMORY  // data: shoal_check_memory_t
} shoal_record_kind_t;

typedef struct shoal_check_memory {
  // Bytes of the arenas, by kind of memory; touched -1: the device cannot tell.
  int64_t planned[SHOAL_MEMORY_COUNT], touched[SHOAL_MEMORY_COUNT];
  int64_t steady_allocations;  // in the first run from the third step on that had any
  int64_t steady_run;          // which; -1: none had
} shoal_check_memory_t;

// A record as read back; name and data point into the log.
typedef struct shoal_record {
  shoal_record_kind_t kind;
  int32_t rank, run, micro;
  int32_t layout;       // TAP: number of the rank's LAYOUT record
  shoal_dtype_t dtype;  // TAP: a gradient may be exchanged in another than its own
  int64_t sequence;     // of the rank's records
  const char *name;
  const void *data;
  int64_t bytes;
} shoal_record_t;

typedef struct shoal_record_log {
  shoal_allocator_t allocator;
  char *data;
  int64_t size, capacity;
  bool failed;                              // memory ran short: incomplete
  int32_t run;                              // that taps belong to
  shoal_arena_t arena;                      // of `known`
  SHOAL_VEC(const shoal_layout_t *) known;  // layouts printed so far
} shoal_record_log_t;

void shoal_record_log_init(shoal_allocator_t allocator, shoal_record_log_t *out_log);
void shoal_record_log_deinit(shoal_record_log_t *log);
void shoal_record_add(shoal_record_log_t *log, shoal_record_kind_t kind, int32_t micro,
                      int32_t layout, const char *name, const void *data, int64_t bytes);
// A shoal_tap_fn_t; self is the log.
void shoal_record_tap(void *self, int32_t rank, const char *graph, const char *value,
                      const shoal_layout_t *layout, const shoal_type_t *whole, int64_t micro,
                      const void *data, int64_t bytes);
// The records of a log of `rank`, arena-allocated; they borrow `data`. INTERNAL when it is cut
// short.
SHOAL_MUST_USE shoal_status_t shoal_records_read(const char *data, int64_t size, int32_t rank,
                                                 shoal_arena_t *arena,
                                                 const shoal_record_t **out_records,
                                                 int64_t *out_count);

#endif  // SHOAL_PROVE_RECORD_H_
