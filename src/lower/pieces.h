// What the segments of an order do to the arena, seen from outside: call_waits.c walks it.
//
// Within a segment waits.c has ordered all conflicting accesses. So of what a segment does to a
// buffer only the first accesses matter to what came before it - readers on each queue, up to the
// first writer - and only the last ones to what comes after: if those are ordered, all that lies
// between is.
//
// The arena is cut at every edge of a workspace or a buffer's slot; the parts that several queues
// touch and somebody writes are *pieces*. Elsewhere nothing can go wrong.
#ifndef SHOAL_LOWER_PIECES_H_
#define SHOAL_LOWER_PIECES_H_

#include "base/arena.h"
#include "shoal/program.h"

typedef struct range {
  int32_t from, to;
} range_t;

// A buffer or workspace that a segment touches, and who does so last.
typedef struct item {
  int32_t buffer;                     // -1: a workspace
  int64_t offset, bytes;              // of a workspace
  range_t range;                      // of a workspace: pieces
  int32_t writer;                     // -1: none
  int32_t readers[SHOAL_MAX_QUEUES];  // since it was written; -1: none
  uint32_t queues;                    // that touch it
  uint32_t entered;  // queues whose first access is an entry; all once it is written
} item_t;

// A first access.
typedef struct entry {
  int32_t instruction, item;
  bool write;
} entry_t;

// A segment.
typedef struct view {
  bool known;
  SHOAL_VEC(item_t) items;     // by their first access; bytes are one's after the other's
  SHOAL_VEC(entry_t) entries;  // by instruction
} view_t;

typedef struct pieces {
  const shoal_class_t *c;
  shoal_arena_t *arena;
  view_t *views;  // by segment; those that the order does not call are empty
  int64_t bound_count;
  int64_t *bounds;   // sorted; stretch i of the arena is [bounds[i], bounds[i + 1])
  int32_t *numbers;  // by stretch: how many pieces come before it
  int32_t count;     // of pieces
  range_t **ranges;  // [buffer][slot]: its pieces
} pieces_t;

// `arena` keeps what is found, and scratch.
SHOAL_MUST_USE shoal_status_t shoal_lower_pieces(const shoal_class_t *c, const shoal_order_t *order,
                                                 shoal_arena_t *arena, pieces_t *out_pieces);

#endif  // SHOAL_LOWER_PIECES_H_
