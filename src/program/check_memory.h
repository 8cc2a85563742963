// Memory of one class, while an order is walked: what check_memory.c and check_spans.c share.
#ifndef SHOAL_PROGRAM_CHECK_MEMORY_H_
#define SHOAL_PROGRAM_CHECK_MEMORY_H_

#include "program/check_impl.h"

// The last instruction known to be done on each queue; -1: none.
typedef struct queue_clock {
  int64_t done[SHOAL_MAX_QUEUES];
} queue_clock_t;

typedef struct span {
  int32_t buffer, slot;  // whose; -1: nobody's
  int64_t call;          // writer and readers are of this call
  int32_t writer, readers[SHOAL_MAX_QUEUES];
} span_t;

typedef struct range {
  int64_t from, to;  // spans
} range_t;

typedef struct history {
  bool written;
  int64_t micro;                 // whose value
  int64_t call, instruction;     // of the last write
  int64_t guarded;               // call of the last write with a predicate
  int32_t predicate;             // which
  bool filled;                   // by FILL, in this order
  int64_t joined;                // accumulations since
  const shoal_layout_t *pieces;  // copied together from values of this layout
  int64_t piece_count;
  bool *piece;  // by micro-batch
} history_t;

typedef struct memory {
  const shoal_program_t *program;
  const shoal_class_t *class;
  shoal_arena_t *arena;
  place_t place;
  int64_t span_count;
  int64_t *bounds;  // span i is [bounds[i], bounds[i + 1])
  span_t *spans;
  history_t **histories;                     // [buffer][slot]
  range_t **ranges;                          // [buffer][slot]
  int64_t *joins;                            // by buffer: accumulations in this order
  int64_t *fetches;                          // by output port
  int64_t call;                              // number of the present one, from 1
  const shoal_segment_call_t *segment_call;  // the present one
  int64_t step;
  queue_clock_t *clocks;  // by instruction of the segment
  const shoal_instruction_t *in;
} memory_t;

// Cuts the arena at every edge of a buffer's slot or a workspace.
SHOAL_MUST_USE shoal_status_t shoal_spans_make(memory_t *m);
// The spans of a byte range that begins and ends at such edges.
range_t shoal_spans_range(const memory_t *m, int64_t offset, int64_t bytes);
// The present instruction's clock, from its queue's last instruction (-1: none) and its waits.
void shoal_spans_clock(memory_t *m, int64_t before);
// Checks that the present instruction's read or write is ordered with earlier accesses to these
// bytes. A write gives them to `buffer` (-1: to none); `over`: it may write what it reads itself.
// `what` is for the message: "an input".
SHOAL_MUST_USE shoal_status_t shoal_spans_read(memory_t *m, range_t range, const char *what);
SHOAL_MUST_USE shoal_status_t shoal_spans_write(memory_t *m, range_t range, int32_t buffer,
                                                int32_t slot, bool over, const char *what);

#endif  // SHOAL_PROGRAM_CHECK_MEMORY_H_
