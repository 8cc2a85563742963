// A clock is kept while the call lasts, and for good only where a call waits for the instruction:
// so the walk costs instructions and waits. Which instance a number stands for is worked out when
// an error has to name it.
#include "program/check_clocks.h"

#include <stdlib.h>

static const queue_clock_t nothing_done = {{-1, -1, -1, -1, -1, -1, -1, -1}};
_Static_assert(SHOAL_MAX_QUEUES == 8, "nothing_done has an entry per queue");

// ---- waits --------------------------------------------------------------------------

static int compare_targets(const void *a, const void *b) {
  const clock_target_t *x = a, *y = b;
  if (x->call != y->call) return x->call < y->call ? -1 : 1;
  return (x->instruction > y->instruction) - (x->instruction < y->instruction);
}

// What a wait of call `index` is for.
static clock_target_t target_of(const shoal_order_t *order, int64_t index,
                                const shoal_call_wait_t *wait) {
  const int64_t count = order->call_count;
  return (clock_target_t){(index - wait->back % count + count) % count, wait->other};
}

// Sorted, each once.
static shoal_status_t list_targets(clocks_t *c, int64_t wait_count, shoal_arena_t *arena) {
  const shoal_order_t *order = c->order;
  c->targets = SHOAL_NEW(arena, clock_target_t, wait_count);
  c->first_target = SHOAL_NEW(arena, int64_t, order->call_count + 1);
  if (!c->targets || !c->first_target) return SHOAL_OOM();
  int64_t count = 0;
  for (int64_t k = 0; k < order->call_count; ++k) {
    for (int32_t i = 0; i < order->calls[k].wait_count; ++i) {
      c->targets[count++] = target_of(order, k, &order->calls[k].waits[i]);
    }
  }
  if (count > 0) qsort(c->targets, (size_t)count, sizeof *c->targets, compare_targets);
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0 && compare_targets(&c->targets[i], &c->targets[i - 1]) == 0) continue;
    c->targets[c->target_count++] = c->targets[i];
  }
  for (int64_t k = 0, t = 0; k <= order->call_count; ++k) {
    while (t < c->target_count && c->targets[t].call < k) ++t;
    c->first_target[k] = t;
  }
  return NULL;
}

static shoal_status_t list_waits(clocks_t *c, int64_t wait_count, shoal_arena_t *arena) {
  const shoal_order_t *order = c->order;
  c->waits = SHOAL_NEW(arena, clock_wait_t, wait_count);
  c->first_wait = SHOAL_NEW(arena, int64_t, order->call_count);
  if (!c->waits || !c->first_wait) return SHOAL_OOM();
  int64_t count = 0;
  for (int64_t k = 0; k < order->call_count; ++k) {
    c->first_wait[k] = count;
    for (int32_t i = 0; i < order->calls[k].wait_count; ++i) {
      const shoal_call_wait_t *wait = &order->calls[k].waits[i];
      const clock_target_t target = target_of(order, k, wait);
      const clock_target_t *found = bsearch(&target, c->targets, (size_t)c->target_count,
                                            sizeof *c->targets, compare_targets);
      c->waits[count++] =
          (clock_wait_t){.target = found - c->targets,
                         .steps = (wait->back - k + target.call) / order->call_count};
    }
  }
  return NULL;
}

shoal_status_t shoal_clocks_make(const shoal_class_t *class, const shoal_order_t *order,
                                 int64_t steps, shoal_arena_t *arena, clocks_t *out_clocks) {
  clocks_t c = {.class = class, .order = order};
  int64_t longest = 0, wait_count = 0;
  for (int64_t k = 0; k < order->call_count; ++k) {
    const int64_t count = class->segments[order->calls[k].segment].instruction_count;
    longest = count > longest ? count : longest;
    wait_count += order->calls[k].wait_count;
  }
  SHOAL_RETURN_IF_ERROR(list_targets(&c, wait_count, arena));
  SHOAL_RETURN_IF_ERROR(list_waits(&c, wait_count, arena));
  c.local = SHOAL_NEW(arena, queue_clock_t, longest);
  c.kept = SHOAL_NEW(arena, queue_clock_t, steps * c.target_count);
  if (!c.local || !c.kept) return SHOAL_OOM();
  for (int q = 0; q < SHOAL_MAX_QUEUES; ++q) c.last[q] = nothing_done;
  *out_clocks = c;
  return NULL;
}

// ---- walking ------------------------------------------------------------------------

static void merge(const clocks_t *c, queue_clock_t *clock, const queue_clock_t *other) {
  for (int32_t q = 0; q < c->class->queue_count; ++q) {
    if (other->done[q] > clock->done[q]) clock->done[q] = other->done[q];
  }
}

static const shoal_segment_t *segment_of(const clocks_t *c, int64_t call) {
  return &c->class->segments[c->order->calls[call].segment];
}

void shoal_clocks_enter(clocks_t *c, int64_t step, int64_t index) {
  const shoal_segment_call_t *call = &c->order->calls[index];
  const int64_t count = segment_of(c, index)->instruction_count;
  c->step = step;
  c->call = index;
  for (int64_t i = 0; i < count; ++i) c->local[i] = nothing_done;
  for (int32_t i = 0; i < call->wait_count; ++i) {
    const clock_wait_t *wait = &c->waits[c->first_wait[index] + i];
    if (wait->steps > step) continue;  // there was no such step: the queues were joined
    merge(c, &c->local[call->waits[i].instruction],
          &c->kept[(step - wait->steps) * c->target_count + wait->target]);
  }
}

void shoal_clocks_run(clocks_t *c, int64_t instruction) {
  const shoal_instruction_t *in = &segment_of(c, c->call)->instructions[instruction];
  queue_clock_t *clock = &c->local[instruction];
  c->now = shoal_instance(in->queue, c->next[in->queue]++);
  merge(c, clock, &c->last[in->queue]);
  for (int32_t i = 0; i < in->wait_count; ++i) merge(c, clock, &c->local[in->waits[i]]);
  clock->done[in->queue] = c->now;
  c->last[in->queue] = *clock;
  c->clock = clock;
}

void shoal_clocks_leave(clocks_t *c) {
  for (int64_t t = c->first_target[c->call]; t < c->first_target[c->call + 1]; ++t) {
    c->kept[c->step * c->target_count + t] = c->local[c->targets[t].instruction];
  }
}

// ---- naming -------------------------------------------------------------------------

clock_place_t shoal_clocks_find(const clocks_t *c, instance_t instance) {
  const int32_t queue = shoal_instance_queue(instance);
  int64_t number = 0;
  for (int64_t step = 0;; ++step) {
    for (int64_t k = 0; k < c->order->call_count; ++k) {
      const shoal_segment_t *segment = segment_of(c, k);
      for (int64_t i = 0; i < segment->instruction_count; ++i) {
        if (segment->instructions[i].queue != queue) continue;
        if (shoal_instance(queue, number++) == instance) return (clock_place_t){step, k, i};
      }
    }
    if (step > c->step) return (clock_place_t){c->step, c->call, 0};  // there is no such instance
  }
}
