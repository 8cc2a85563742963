// See lives.h.
#include "program/lives.h"

#include "base/status.h"
#include "program/bind.h"

// A segment that the order calls.
typedef struct called {
  int64_t first, last;  // call; first -1: none
  int32_t number;       // by first calls
} called_t;

// The segments that touch a buffer: the one with the earliest call, and the one with the latest.
typedef struct use {
  int32_t first, last;  // -1: none
} use_t;

// The first and last of the segments, by number, that are called between two calls.
typedef struct stretch {
  bool known;
  int32_t low, high;  // segments
} stretch_t;

typedef struct walk {
  const shoal_class_t *class;
  const shoal_order_t *order;
  shoal_lives_t *lives;
  called_t *called;      // by segment
  use_t *uses;           // by buffer
  stretch_t *stretches;  // [segment of the first call][of the last one]
  int64_t *wanted;       // by buffer: the first one behind that needs it, in its segment; 0: none
} walk_t;

static void note(walk_t *w, int32_t buffer, int64_t time, int64_t end, int32_t segment) {
  if (buffer < 0) return;
  note(w, w->class->buffers[buffer].count, time, end, segment);
  shoal_life_t *life = &w->lives->buffers[buffer];
  use_t *use = &w->uses[buffer];
  if (use->first < 0) {
    *life = (shoal_life_t){.first = time, .last = end};
    *use = (use_t){segment, segment};
  }
  if (w->called[segment].last > w->called[use->last].last) use->last = segment;
  if (end > life->last) life->last = end;
}

// Is it a copy that puts something away, to host memory or a file? Nobody waits for what it brings,
// and what it reads is to make room.
static bool puts_away(const walk_t *w, const shoal_instruction_t *in) {
  return in->opcode == SHOAL_OPCODE_COPY &&
         w->class->buffers[in->outputs[0]].memory != SHOAL_MEMORY_DEVICE;
}

// What runs beside others ends before the first instruction that needs something of it, directly or
// by way of another that runs beside. If all that stands in between is of its own queue, it is over
// when the next of them begins. What is put away has the time of one kernel.
static void find_ends(walk_t *w, int32_t s) {
  const shoal_segment_t *segment = &w->class->segments[s];
  const int64_t start = w->lives->starts[s];
  int64_t other = start + segment->instruction_count;  // the next one of another queue
  int64_t kernel = other, second = other;              // the next two that compute
  for (int64_t i = segment->instruction_count; i-- > 0;) {
    const shoal_instruction_t *in = &segment->instructions[i];
    const int64_t time = start + i;
    const bool beside = w->class->queues[in->queue].kind != SHOAL_QUEUE_COMPUTE;
    if (i + 1 < segment->instruction_count && segment->instructions[i + 1].queue != in->queue)
      other = time + 1;
    int64_t end = 0;
    for (int32_t k = 0; k < in->output_count; ++k) {
      if (in->outputs[k] < 0) continue;
      int64_t *wanted = &w->wanted[in->outputs[k]];
      if (*wanted > 0 && (end == 0 || *wanted < end)) end = *wanted;
      *wanted = 0;
    }
    const bool away = puts_away(w, in);
    w->lives->ends[time] = away ? second - 1 : beside && end > other ? end - 1 : time;
    if (!beside) second = kernel, kernel = time;
    for (int32_t k = 0; k < in->input_count; ++k)
      if (in->inputs[k] >= 0) w->wanted[in->inputs[k]] = beside && !away && end > 0 ? end : time;
    if (in->predicate >= 0) w->wanted[in->predicate] = time;
  }
  for (int64_t i = 0; i < segment->instruction_count; ++i) {  // read, and written before it
    const shoal_instruction_t *in = &segment->instructions[i];
    for (int32_t k = 0; k < in->input_count; ++k)
      if (in->inputs[k] >= 0) w->wanted[in->inputs[k]] = 0;
    if (in->predicate >= 0) w->wanted[in->predicate] = 0;
  }
}

static void note_segment(walk_t *w, int32_t s) {
  const shoal_segment_t *segment = &w->class->segments[s];
  w->lives->starts[s] = w->lives->length;
  find_ends(w, s);
  for (int64_t i = 0; i < segment->instruction_count; ++i) {
    const shoal_instruction_t *in = &segment->instructions[i];
    const int64_t time = w->lives->length++, end = w->lives->ends[time];
    for (int32_t k = 0; k < in->input_count; ++k) note(w, in->inputs[k], time, end, s);
    for (int32_t k = 0; k < in->output_count; ++k) note(w, in->outputs[k], time, end, s);
    note(w, in->predicate, time, end, s);
  }
}

static const stretch_t *stretch_of(const walk_t *w, const use_t *use) {
  stretch_t *stretch = &w->stretches[use->first * w->class->segment_count + use->last];
  if (stretch->known) return stretch;
  *stretch = (stretch_t){true, use->first, use->first};
  for (int64_t k = w->called[use->first].first; k <= w->called[use->last].last; ++k) {
    const int32_t s = w->order->calls[k].segment;
    if (w->called[s].number < w->called[stretch->low].number) stretch->low = s;
    if (w->called[s].number > w->called[stretch->high].number) stretch->high = s;
  }
  return stretch;
}

static bool is_once(const walk_t *w, int32_t segment) {
  return w->called[segment].first == w->called[segment].last;
}

static void widen(const walk_t *w, const shoal_buffer_t *buffer, const use_t *use,
                  shoal_life_t *life) {
  if (buffer->group >= 0 && w->class->slot_groups[buffer->group].by_step) {
    *life = (shoal_life_t){.last = w->lives->length - 1, .goes_on = true};
    return;
  }
  if (use->first == use->last && shoal_buffer_slots(w->class, buffer) == 1) return;
  const stretch_t *stretch = stretch_of(w, use);
  const int64_t start = w->lives->starts[stretch->low];
  const int64_t end =
      w->lives->starts[stretch->high] + w->class->segments[stretch->high].instruction_count - 1;
  if (stretch->low != use->first || !is_once(w, use->first)) life->first = start;
  life->goes_on = stretch->high != use->last || !is_once(w, use->last);
  if (life->goes_on) life->last = end;
}

shoal_status_t shoal_lives_find(const shoal_class_t *rank_class, const shoal_order_t *order,
                                shoal_arena_t *scratch, shoal_lives_t *out_lives) {
  const int64_t buffers = rank_class->buffer_count, segments = rank_class->segment_count;
  *out_lives = (shoal_lives_t){.buffers = SHOAL_NEW(scratch, shoal_life_t, buffers),
                               .starts = SHOAL_NEW(scratch, int64_t, segments)};
  walk_t w = {.class = rank_class,
              .order = order,
              .lives = out_lives,
              .called = SHOAL_NEW(scratch, called_t, segments),
              .uses = SHOAL_NEW(scratch, use_t, buffers),
              .stretches = SHOAL_NEW(scratch, stretch_t, segments * segments),
              .wanted = SHOAL_NEW(scratch, int64_t, buffers)};
  if (!out_lives->buffers || !out_lives->starts || !w.called || !w.uses || !w.stretches ||
      !w.wanted)
    return SHOAL_OOM();
  for (int64_t i = 0; i < buffers; ++i) {
    out_lives->buffers[i] = (shoal_life_t){.last = -1};
    w.uses[i] = (use_t){-1, -1};
  }
  for (int64_t s = 0; s < segments; ++s) out_lives->starts[s] = w.called[s].first = -1;
  int32_t number = 0;
  int64_t length = 0;
  for (int64_t k = 0; k < order->call_count; ++k) {
    const int32_t s = order->calls[k].segment;
    called_t *called = &w.called[s];
    if (called->first < 0) {
      *called = (called_t){k, k, number++};
      length += rank_class->segments[s].instruction_count;
    }
    called->last = k;
  }
  out_lives->ends = SHOAL_NEW(scratch, int64_t, length);
  if (!out_lives->ends) return SHOAL_OOM();
  for (int64_t k = 0; k < order->call_count; ++k) {
    const int32_t s = order->calls[k].segment;
    if (out_lives->starts[s] < 0) note_segment(&w, s);
  }
  for (int64_t i = 0; i < buffers; ++i)
    if (w.uses[i].first >= 0)
      widen(&w, &rank_class->buffers[i], &w.uses[i], &out_lives->buffers[i]);
  return NULL;
}
