// Spans of the arena: whose value they hold, and whether accesses to them are ordered (vector
// clocks over queues and waits). How it fits together is at the head of check_memory.c.
#include <stdlib.h>

#include "program/check_memory.h"

// ---- spans --------------------------------------------------------------------------

static int compare_bounds(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

shoal_status_t shoal_spans_make(memory_t *m) {
  SHOAL_VEC(int64_t) bounds = {0};
  for (int64_t b = 0; b < m->class->buffer_count; ++b) {
    const shoal_buffer_t *buffer = &m->class->buffers[b];
    for (int32_t s = 0; s <= shoal_buffer_slots(m->class, buffer); ++s) {
      if (!SHOAL_PUSH(m->arena, &bounds, buffer->offset + s * buffer->bytes)) return SHOAL_OOM();
    }
  }
  for (int64_t s = 0; s < m->class->segment_count; ++s) {
    const shoal_segment_t *segment = &m->class->segments[s];
    for (int64_t i = 0; i < segment->instruction_count; ++i) {
      const shoal_instruction_t *in = &segment->instructions[i];
      if (in->workspace == 0) continue;
      if (!SHOAL_PUSH(m->arena, &bounds, in->workspace_offset) ||
          !SHOAL_PUSH(m->arena, &bounds, in->workspace_offset + in->workspace)) {
        return SHOAL_OOM();
      }
    }
  }
  if (bounds.count == 0) return NULL;
  qsort(bounds.items, (size_t)bounds.count, sizeof *bounds.items, compare_bounds);
  int64_t count = 1;
  for (int64_t i = 1; i < bounds.count; ++i) {
    if (bounds.items[i] != bounds.items[count - 1]) bounds.items[count++] = bounds.items[i];
  }
  m->bounds = bounds.items;
  m->span_count = count - 1;
  m->spans = SHOAL_NEW(m->arena, span_t, count);
  return m->spans ? NULL : SHOAL_OOM();
}

// The first span that starts at or behind `at`; edges of buffers and workspaces are always bounds.
static int64_t span_at(const memory_t *m, int64_t at) {
  int64_t low = 0, high = m->span_count;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (m->bounds[middle] < at)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

range_t shoal_spans_range(const memory_t *m, int64_t offset, int64_t bytes) {
  if (bytes == 0) return (range_t){0, 0};
  return (range_t){span_at(m, offset), span_at(m, offset + bytes)};
}

// ---- happens-before -----------------------------------------------------------------

static const shoal_instruction_t *instruction(const memory_t *m, int64_t index) {
  return &m->class->segments[m->place.segment].instructions[index];
}

void shoal_spans_clock(memory_t *m, int64_t before) {
  queue_clock_t *clock = &m->clocks[m->place.instruction];
  for (int q = 0; q < SHOAL_MAX_QUEUES; ++q) clock->done[q] = -1;
  if (before >= 0) *clock = m->clocks[before];
  for (int32_t i = 0; i < m->in->wait_count; ++i) {
    const queue_clock_t *other = &m->clocks[m->in->waits[i]];
    for (int q = 0; q < SHOAL_MAX_QUEUES; ++q) {
      if (other->done[q] > clock->done[q]) clock->done[q] = other->done[q];
    }
  }
  clock->done[m->in->queue] = m->place.instruction;
}

// Has instruction `other` of this call finished before the present one starts?
static bool is_after(const memory_t *m, int64_t other) {
  return other < 0 || m->clocks[m->place.instruction].done[instruction(m, other)->queue] >= other;
}

static shoal_status_t unordered(const memory_t *m, int64_t other, const char *what,
                                const char *did) {
  if (other == m->place.instruction) {
    return MISMATCH(&m->place, "operands and workspace of one instruction must not overlap",
                    "%s overlaps another of its own operands", what);
  }
  const shoal_instruction_t *in = instruction(m, other);
  return MISMATCH(
      &m->place, "add a wait",
      "%s touches bytes that instruction %lld %s '%s' on queue %s %s, and nothing orders the two",
      what, (long long)other, shoal_opcode_name(in->opcode), in->name,
      m->class->queues[in->queue].name, did);
}

static void enter_span(const memory_t *m, span_t *span) {
  if (span->call == m->call) return;
  span->call = m->call;
  span->writer = -1;
  for (int q = 0; q < SHOAL_MAX_QUEUES; ++q) span->readers[q] = -1;
}

shoal_status_t shoal_spans_read(memory_t *m, range_t range, const char *what) {
  for (int64_t i = range.from; i < range.to; ++i) {
    span_t *span = &m->spans[i];
    enter_span(m, span);
    if (!is_after(m, span->writer)) return unordered(m, span->writer, what, "writes");
    span->readers[m->in->queue] = (int32_t)m->place.instruction;
  }
  return NULL;
}

shoal_status_t shoal_spans_write(memory_t *m, range_t range, int32_t buffer, int32_t slot,
                                 bool over, const char *what) {
  for (int64_t i = range.from; i < range.to; ++i) {
    span_t *span = &m->spans[i];
    enter_span(m, span);
    int32_t self = (int32_t)m->place.instruction;
    if (span->writer == self || !is_after(m, span->writer)) {
      return unordered(m, span->writer, what, "writes");
    }
    for (int q = 0; q < SHOAL_MAX_QUEUES; ++q) {
      if ((span->readers[q] == self && !over) || !is_after(m, span->readers[q])) {
        return unordered(m, span->readers[q], what, "reads");
      }
      span->readers[q] = -1;
    }
    span->writer = self;
    span->buffer = buffer;
    span->slot = slot;
  }
  return NULL;
}
