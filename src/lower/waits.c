// Waits: two instructions of a segment that touch the same bytes of the arena, one of them writing,
// must run in the order of the list. On one queue they do; across queues the later one waits for
// the earlier, unless a chain of waits says so already (vector clocks, one entry per queue). What
// different calls do is call_waits.c's.
//
// The arenas, laid end to end, are cut at every edge of what the segment touches. A piece knows its
// last writer and, since then, its last reader on each queue: whoever came before those is done
// when they are.

#include "base/arena.h"
#include "base/edges.h"
#include "base/status.h"
#include "lower/time.h"
#include "program/bind.h"

typedef struct piece {
  int32_t writer;                     // -1: none
  int32_t readers[SHOAL_MAX_QUEUES];  // since it was written; -1: none
} piece_t;

typedef struct done {
  int32_t done[SHOAL_MAX_QUEUES];  // latest instruction known to be done before this one ends
} done_t;

typedef struct order {
  const shoal_class_t *c;
  shoal_segment_t *segment;
  shoal_arena_t *scratch;
  int64_t bound_count;
  int64_t *bounds;  // sorted; piece i is [bounds[i], bounds[i + 1])
  piece_t *pieces;
  done_t *clocks;
  int32_t latest[SHOAL_MAX_QUEUES];  // of the present instruction: conflicts, by queue; -1: none
} order_t;

typedef struct range {
  int64_t start, end;
  bool write;
} range_t;

// Access number `k` of an instruction. False: it has none.
static bool range_of(const order_t *o, const shoal_instruction_t *in, int32_t k,
                     range_t *out_range) {
  shoal_access_t access;
  if (!shoal_access_at(o->c, in, k, &access)) return false;
  if (access.buffer < 0) {
    *out_range = (range_t){in->workspace_offset, in->workspace_offset + in->workspace, true};
    return true;
  }
  const shoal_buffer_t *buffer = &o->c->buffers[access.buffer];
  const int64_t start = shoal_class_arena_start(o->c, buffer->memory) + buffer->offset;
  *out_range =
      (range_t){start, start + buffer->bytes * shoal_buffer_slots(o->c, buffer), access.write};
  return true;
}

static shoal_status_t cut_arena(order_t *o) {
  SHOAL_VEC(int64_t) bounds = {0};
  for (int64_t i = 0; i < o->segment->instruction_count; ++i) {
    const shoal_instruction_t *in = &o->segment->instructions[i];
    for (int32_t k = 0; k < shoal_access_count(in); ++k) {
      range_t range;
      if (!range_of(o, in, k, &range)) continue;
      if (!SHOAL_PUSH(o->scratch, &bounds, range.start) ||
          !SHOAL_PUSH(o->scratch, &bounds, range.end))
        return SHOAL_OOM();
    }
  }
  if (bounds.count == 0) return NULL;
  const int64_t count = shoal_edges_sort(bounds.items, bounds.count);
  o->bounds = bounds.items;
  o->bound_count = count;
  o->pieces = SHOAL_NEW(o->scratch, piece_t, count);
  if (!o->pieces) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i) {
    o->pieces[i].writer = -1;
    for (int q = 0; q < SHOAL_MAX_QUEUES; ++q) o->pieces[i].readers[q] = -1;
  }
  return NULL;
}

static void conflict(order_t *o, int32_t other) {
  if (other < 0) return;
  int32_t *latest = &o->latest[o->segment->instructions[other].queue];
  if (other > *latest) *latest = other;
}

// All conflicts are looked at before anything is marked: an instruction may read what it writes.
static void touch(order_t *o, int32_t index, bool mark) {
  const shoal_instruction_t *in = &o->segment->instructions[index];
  for (int32_t k = 0; k < shoal_access_count(in); ++k) {
    range_t range;
    if (!range_of(o, in, k, &range)) continue;
    for (int64_t i = shoal_edges_find(o->bounds, o->bound_count, range.start);
         o->bounds[i] < range.end; ++i) {
      piece_t *piece = &o->pieces[i];
      if (mark && range.write) {
        piece->writer = index;
        for (int q = 0; q < SHOAL_MAX_QUEUES; ++q) piece->readers[q] = -1;
      } else if (mark) {
        if (piece->writer != index) piece->readers[in->queue] = index;
      } else {
        conflict(o, piece->writer);
        for (int q = 0; q < SHOAL_MAX_QUEUES && range.write; ++q) conflict(o, piece->readers[q]);
      }
    }
  }
}

static shoal_status_t add_waits(order_t *o, int32_t index, shoal_arena_t *arena) {
  shoal_instruction_t *in = &o->segment->instructions[index];
  done_t *mine = &o->clocks[index];
  int32_t waits[SHOAL_MAX_QUEUES], count = 0;
  for (;;) {  // the latest first: it may say that others are done, too
    int best = -1;
    for (int q = 0; q < SHOAL_MAX_QUEUES; ++q) {
      if (q == (int)in->queue || o->latest[q] <= mine->done[q]) continue;
      if (best < 0 || o->latest[q] > o->latest[best]) best = q;
    }
    if (best < 0) break;
    waits[count++] = o->latest[best];
    for (int q = 0; q < SHOAL_MAX_QUEUES; ++q) {
      int32_t done = o->clocks[o->latest[best]].done[q];
      if (done > mine->done[q]) mine->done[q] = done;
    }
  }
  mine->done[in->queue] = index;
  in->wait_count = count;
  in->waits = shoal_arena_copy(arena, waits, (size_t)count, sizeof *waits);
  return in->waits ? NULL : SHOAL_OOM();
}

static shoal_status_t order_segment(const shoal_class_t *c, shoal_segment_t *segment,
                                    shoal_arena_t *arena, shoal_arena_t *scratch) {
  order_t o = {.c = c, .segment = segment, .scratch = scratch};
  done_t start;
  int32_t last[SHOAL_MAX_QUEUES];
  o.clocks = SHOAL_NEW(scratch, done_t, segment->instruction_count);
  if (!o.clocks) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(cut_arena(&o));
  for (int q = 0; q < SHOAL_MAX_QUEUES; ++q) last[q] = start.done[q] = -1;
  for (int32_t i = 0; i < segment->instruction_count; ++i) {
    const int32_t queue = segment->instructions[i].queue;
    for (int q = 0; q < SHOAL_MAX_QUEUES; ++q) o.latest[q] = -1;
    o.clocks[i] = last[queue] >= 0 ? o.clocks[last[queue]] : start;
    touch(&o, i, false);
    touch(&o, i, true);
    SHOAL_RETURN_IF_ERROR(add_waits(&o, i, arena));
    last[queue] = i;
  }
  return NULL;
}

shoal_status_t shoal_lower_waits(shoal_class_t *c, shoal_arena_t *arena,
                                 shoal_allocator_t allocator) {
  shoal_status_t status = NULL;
  for (int64_t s = 0; s < c->segment_count && !status; ++s) {
    shoal_arena_t scratch;
    shoal_arena_init(allocator, &scratch);
    status = order_segment(c, &c->segments[s], arena, &scratch);
    shoal_arena_deinit(&scratch);
  }
  return status;
}
