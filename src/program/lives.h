// When the buffers of a class are in use, within one order. Time is the position of an instruction
// in the concatenation of the order's segments, each once, by their first calls.
//
// Communication and copies run beside what stands behind them, up to the first instruction that
// needs what they bring. Until then they use their operands and their workspace: others that lay
// there would have to wait, and nothing would run beside anything.
#ifndef SHOAL_PROGRAM_LIVES_H_
#define SHOAL_PROGRAM_LIVES_H_

#include "base/arena.h"
#include "shoal/program.h"

// From its first use to its last; first > last: the order does not use it. What is used in more
// than one segment, or has several slots, lives in every segment that is called between the first
// call that touches it and the last, whatever the order: through the whole of it, but for a segment
// that is called once and in which it is used first or last. With slots by step it lives always.
typedef struct shoal_life {
  int64_t first, last;
  bool goes_on;  // a later call uses it, too: who uses it at `last` must leave it as it is
} shoal_life_t;

typedef struct shoal_lives {
  shoal_life_t *buffers;
  int64_t *starts;  // by segment: the time of its first instruction; -1: the order does not call it
  int64_t length;   // of the order
  int64_t *ends;    // by time: the last one at which the instruction may still run
} shoal_lives_t;

SHOAL_MUST_USE shoal_status_t shoal_lives_find(const shoal_class_t *rank_class,
                                               const shoal_order_t *order, shoal_arena_t *scratch,
                                               shoal_lives_t *out_lives);

#endif  // SHOAL_PROGRAM_LIVES_H_
