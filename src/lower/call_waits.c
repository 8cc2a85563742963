// Waits into earlier calls: calls are not joined, so two accesses to the same bytes in different
// calls, also of different steps, are ordered by queues and waits alone. An order is walked as the
// host enqueues it, for as many steps as slots take to come round and one more, with a vector clock
// over queues for every instruction of every call. What is not ordered gets a wait, which stands in
// the call and so holds in every step: later steps find it there.
#include <stdlib.h>
#include <string.h>

#include "base/runs.h"
#include "base/status.h"
#include "lower/pieces.h"
#include "lower/time.h"
#include "program/bind.h"

// Instances are instructions of calls, numbered as they are enqueued, over all steps.
typedef struct touched {
  int32_t writer, writer_queue;       // -1: none
  int32_t readers[SHOAL_MAX_QUEUES];  // since it was written; -1: none
} touched_t;

typedef SHOAL_VEC(shoal_call_wait_t) waits_t;

typedef struct walk {
  const shoal_class_t *c;
  const shoal_order_t *order;
  shoal_arena_t *scratch;
  pieces_t pieces;
  shoal_runs_t runs;   // of pieces to which the same has happened
  touched_t *touched;  // by run
  waits_t *waits;      // by call of the order
  int64_t step, call;  // the present ones
  int32_t segment;     // of the present call
  waits_t found;       // in the present call
  int32_t *first;      // by call, over all steps: its first instance
  int32_t *clocks;     // by instance and queue: the latest instance that is done when it ends
  int32_t last[SHOAL_MAX_QUEUES];    // instance on each queue; -1: none
  int32_t latest[SHOAL_MAX_QUEUES];  // of the present instance: conflicts by queue; -1: none
} walk_t;

static int32_t *clock_of(const walk_t *w, int64_t instance) {
  return &w->clocks[instance * w->c->queue_count];
}

static void join(const walk_t *w, int32_t *clock, int64_t other) {
  const int32_t *done = clock_of(w, other);
  for (int32_t q = 0; q < w->c->queue_count; ++q)
    if (done[q] > clock[q]) clock[q] = done[q];
}

static range_t range_of(const walk_t *w, const item_t *item) {
  if (item->buffer < 0) return item->range;
  const int32_t group = w->c->buffers[item->buffer].group;
  const int32_t slot = shoal_call_slot(w->c, &w->order->calls[w->call], group, w->step);
  return w->pieces.ranges[item->buffer][slot];
}

// ---- what is known at the start --------------------------------------------------------

static int64_t number_of(const walk_t *w, int64_t back) {
  return w->step * w->order->call_count + w->call - back;
}

// Of `index`, by its queue, its segment's waits and those that the call has already.
static void start_clock(const walk_t *w, int32_t index, const shoal_instruction_t *in,
                        int64_t *next_wait) {
  const int64_t now = number_of(w, 0);
  const waits_t *waits = &w->waits[w->call];
  int32_t *clock = clock_of(w, w->first[now] + index);
  const size_t size = (size_t)w->c->queue_count * sizeof *clock;
  if (w->last[in->queue] >= 0)
    memcpy(clock, clock_of(w, w->last[in->queue]), size);
  else
    memset(clock, 0xff, size);
  for (int32_t i = 0; i < in->wait_count; ++i) join(w, clock, w->first[now] + in->waits[i]);
  for (; *next_wait < waits->count && waits->items[*next_wait].instruction <= index; ++*next_wait) {
    const shoal_call_wait_t *wait = &waits->items[*next_wait];
    const int64_t there = number_of(w, wait->back);
    if (there >= 0) join(w, clock, w->first[there] + wait->other);
  }
}

// ---- what is missing -------------------------------------------------------------------

static void conflict(walk_t *w, const int32_t *clock, int32_t other, int32_t queue) {
  if (other > clock[queue] && other > w->latest[queue]) w->latest[queue] = other;
}

// The first access of the call to an item: who of the earlier calls is not known to be done?
static void enter(walk_t *w, const int32_t *clock, const entry_t *entry) {
  const range_t range = range_of(w, &w->pieces.views[w->segment].items.items[entry->item]);
  if (range.from == range.to) return;
  for (int64_t i = shoal_runs_find(&w->runs, range.from); i < range.to; i = w->runs.ends[i]) {
    const touched_t *piece = &w->touched[i];
    if (piece->writer >= 0) conflict(w, clock, piece->writer, piece->writer_queue);
    for (int32_t q = 0; q < w->c->queue_count && entry->write; ++q)
      conflict(w, clock, piece->readers[q], q);
  }
}

// How many calls back an instance lies.
static int64_t back_to(const walk_t *w, int32_t instance) {
  const int64_t now = number_of(w, 0);
  int64_t low = 0, high = now;  // the last call that begins no later
  while (low + 1 < high) {
    const int64_t middle = low + (high - low) / 2;
    if (w->first[middle] <= instance)
      low = middle;
    else
      high = middle;
  }
  return now - low;
}

static shoal_status_t add_waits(walk_t *w, int32_t index, int32_t *clock) {
  for (;;) {  // the latest first: it may say that others are done, too
    int32_t best = -1;
    for (int32_t q = 0; q < w->c->queue_count; ++q) {
      if (w->latest[q] <= clock[q]) continue;
      if (best < 0 || w->latest[q] > w->latest[best]) best = q;
    }
    if (best < 0) return NULL;
    const int32_t other = w->latest[best];
    const int64_t back = back_to(w, other);
    const shoal_call_wait_t wait = {index, (int32_t)back, other - w->first[number_of(w, back)]};
    if (!SHOAL_PUSH(w->scratch, &w->found, wait)) return SHOAL_OOM();
    join(w, clock, other);
  }
}

// ---- the walk --------------------------------------------------------------------------

static void split_at(walk_t *w, int64_t piece) {
  const int64_t from = shoal_runs_split(&w->runs, piece);
  if (from >= 0) w->touched[piece] = w->touched[from];
}

static void leave(walk_t *w, const item_t *item) {
  const range_t range = range_of(w, item);
  if (range.from == range.to) return;
  split_at(w, range.from);
  split_at(w, range.to);
  if (item->writer >= 0) shoal_runs_join(&w->runs, range.from, range.to);
  const int32_t first = w->first[number_of(w, 0)];
  const shoal_instruction_t *instructions = w->c->segments[w->segment].instructions;
  for (int64_t i = range.from; i < range.to; i = w->runs.ends[i]) {
    touched_t *piece = &w->touched[i];
    if (item->writer >= 0) {
      piece->writer = first + item->writer;
      piece->writer_queue = instructions[item->writer].queue;
      for (int32_t q = 0; q < w->c->queue_count; ++q) piece->readers[q] = -1;
    }
    for (int32_t q = 0; q < w->c->queue_count; ++q)
      if (item->readers[q] >= 0) piece->readers[q] = first + item->readers[q];
  }
}

static int by_instruction(const void *a, const void *b) {
  const shoal_call_wait_t *x = a, *y = b;
  if (x->instruction != y->instruction) return x->instruction < y->instruction ? -1 : 1;
  if (x->back != y->back) return x->back < y->back ? -1 : 1;
  return (x->other > y->other) - (x->other < y->other);
}

static shoal_status_t keep_found(walk_t *w) {
  waits_t *waits = &w->waits[w->call];
  for (int64_t i = 0; i < w->found.count; ++i)
    if (!SHOAL_PUSH(w->scratch, waits, w->found.items[i])) return SHOAL_OOM();
  if (w->found.count > 0)
    qsort(waits->items, (size_t)waits->count, sizeof *waits->items, by_instruction);
  w->found.count = 0;
  return NULL;
}

static shoal_status_t walk_call(walk_t *w) {
  w->segment = w->order->calls[w->call].segment;
  const shoal_segment_t *segment = &w->c->segments[w->segment];
  const view_t *view = &w->pieces.views[w->segment];
  const int64_t now = number_of(w, 0);
  int64_t next_wait = 0, next_entry = 0;
  w->first[now + 1] = w->first[now] + (int32_t)segment->instruction_count;
  for (int32_t i = 0; i < segment->instruction_count; ++i) {
    const shoal_instruction_t *in = &segment->instructions[i];
    int32_t *clock = clock_of(w, w->first[now] + i);
    start_clock(w, i, in, &next_wait);
    for (int32_t q = 0; q < w->c->queue_count; ++q) w->latest[q] = -1;
    for (; next_entry < view->entries.count && view->entries.items[next_entry].instruction == i;)
      enter(w, clock, &view->entries.items[next_entry++]);
    SHOAL_RETURN_IF_ERROR(add_waits(w, i, clock));
    clock[in->queue] = w->last[in->queue] = w->first[now] + i;
  }
  for (int64_t i = 0; i < view->items.count; ++i) leave(w, &view->items.items[i]);
  return keep_found(w);
}

static shoal_status_t start_walk(walk_t *w, int64_t steps) {
  int64_t instances = 0;
  for (int64_t k = 0; k < w->order->call_count; ++k)
    instances += w->c->segments[w->order->calls[k].segment].instruction_count;
  if (instances * steps > INT32_MAX)
    return SHOAL_ERROR_HINT(UNSUPPORTED, "use fewer micro-batches",
                            "graph '%s' has %lld instructions over all its calls", w->order->graph,
                            (long long)instances);
  w->waits = SHOAL_NEW(w->scratch, waits_t, w->order->call_count);
  w->first = SHOAL_NEW(w->scratch, int32_t, steps * w->order->call_count + 1);
  w->clocks = SHOAL_NEW(w->scratch, int32_t, steps * instances * w->c->queue_count);
  if (!w->waits || !w->first || !w->clocks) return SHOAL_OOM();
  for (int q = 0; q < SHOAL_MAX_QUEUES; ++q) w->last[q] = -1;
  SHOAL_RETURN_IF_ERROR(shoal_lower_pieces(w->c, w->order, w->scratch, &w->pieces));
  w->touched = SHOAL_NEW(w->scratch, touched_t, w->pieces.count);
  if (!w->touched || !shoal_runs_init(w->scratch, w->pieces.count, &w->runs)) return SHOAL_OOM();
  memset(w->touched, 0xff, (size_t)w->pieces.count * sizeof *w->touched);
  return NULL;
}

static shoal_status_t walk_order(shoal_class_t *c, shoal_order_t *order, shoal_arena_t *arena,
                                 shoal_arena_t *scratch) {
  const int64_t steps = shoal_class_period(c) + 1;
  walk_t w = {.c = c, .order = order, .scratch = scratch};
  SHOAL_RETURN_IF_ERROR(start_walk(&w, steps));
  for (w.step = 0; w.step < steps; ++w.step)
    for (w.call = 0; w.call < order->call_count; ++w.call) SHOAL_RETURN_IF_ERROR(walk_call(&w));
  for (int64_t k = 0; k < order->call_count; ++k) {
    const waits_t *waits = &w.waits[k];
    order->calls[k].wait_count = (int32_t)waits->count;
    order->calls[k].waits =
        shoal_arena_copy(arena, waits->items, (size_t)waits->count, sizeof *waits->items);
    if (!order->calls[k].waits) return SHOAL_OOM();
  }
  return NULL;
}

shoal_status_t shoal_lower_call_waits(shoal_class_t *c, shoal_arena_t *arena,
                                      shoal_allocator_t allocator) {
  shoal_status_t status = NULL;
  for (int64_t o = 0; o < c->order_count && !status; ++o) {
    shoal_arena_t scratch;
    shoal_arena_init(allocator, &scratch);
    status = walk_order(c, &c->orders[o], arena, &scratch);
    shoal_arena_deinit(&scratch);
  }
  return status;
}
