// Memory of one class, while an order is walked: what check_memory.c and check_spans.c share.
#ifndef SHOAL_PROGRAM_CHECK_MEMORY_H_
#define SHOAL_PROGRAM_CHECK_MEMORY_H_

#include "base/runs.h"
#include "program/check_clocks.h"

typedef struct span {
  int32_t buffer, slot;  // whose; -1: nobody's
  instance_t writer;     // the last
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
  int64_t *bounds;    // span i is [bounds[i], bounds[i + 1])
  shoal_runs_t runs;  // of spans to which the same has happened; what follows is kept by run
  span_t *spans;
  instance_t *readers;    // [run * queues + queue]: the last since it was written
  history_t **histories;  // [buffer][slot]
  range_t **ranges;       // [buffer][slot]
  int64_t *joins;         // by buffer: accumulations in this order
  int64_t *fetches;       // by output port
  int64_t call;           // number of the present one, from 1
  const shoal_segment_call_t *segment_call;  // the present one
  clocks_t clocks;
  bool ordering;  // only: that values are there has been seen
  const shoal_instruction_t *in;
} memory_t;

// Cuts the arena at every edge of a buffer's slot or a workspace.
SHOAL_MUST_USE shoal_status_t shoal_spans_make(memory_t *m);
// The spans of a byte range that begins and ends at such edges.
range_t shoal_spans_range(const memory_t *m, int64_t offset, int64_t bytes);
// Nobody has touched any span, and no buffer has its value.
void shoal_spans_reset(memory_t *m);
// Makes runs begin and end where the range does; the range is then walked run by run, from
// range.from to runs.ends of it and so on.
void shoal_spans_split(memory_t *m, range_t range);
// Checks that the present instruction's read or write is ordered with earlier accesses to these
// bytes. A write gives them to `buffer` (-1: to none); `over`: it may write what it reads itself.
// `what` is for the message: "an input".
SHOAL_MUST_USE shoal_status_t shoal_spans_read(memory_t *m, range_t range, const char *what);
SHOAL_MUST_USE shoal_status_t shoal_spans_write(memory_t *m, range_t range, int32_t buffer,
                                                int32_t slot, bool over, const char *what);

#endif  // SHOAL_PROGRAM_CHECK_MEMORY_H_
