// Spans of the arena: whose value they hold, and whether accesses to them are ordered (vector
// clocks over queues and waits). How it fits together is at the head of check_memory.c.
#include <stdio.h>

#include "base/edges.h"
#include "program/check_memory.h"

// ---- spans --------------------------------------------------------------------------

shoal_status_t shoal_spans_make(memory_t *m) {
  SHOAL_VEC(int64_t) bounds = {0};
  for (int64_t b = 0; b < m->class->buffer_count; ++b) {
    const shoal_buffer_t *buffer = &m->class->buffers[b];
    const int64_t start = shoal_class_arena_start(m->class, buffer->memory) + buffer->offset;
    for (int32_t s = 0; s <= shoal_buffer_slots(m->class, buffer); ++s) {
      if (!SHOAL_PUSH(m->arena, &bounds, start + s * buffer->bytes)) return SHOAL_OOM();
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
  const int64_t count = shoal_edges_sort(bounds.items, bounds.count);
  m->bounds = bounds.items;
  m->span_count = count - 1;
  m->spans = SHOAL_NEW(m->arena, span_t, count);
  m->readers = SHOAL_NEW(m->arena, instance_t, count * m->class->queue_count);
  return m->spans && m->readers ? NULL : SHOAL_OOM();
}

range_t shoal_spans_range(const memory_t *m, int64_t offset, int64_t bytes) {
  if (bytes == 0) return (range_t){0, 0};
  // Edges of buffers and workspaces are always bounds.
  return (range_t){shoal_edges_find(m->bounds, m->span_count, offset),
                   shoal_edges_find(m->bounds, m->span_count, offset + bytes)};
}

void shoal_spans_reset(memory_t *m) {
  const span_t untouched = {.buffer = -1, .slot = -1, .writer = -1};
  for (int64_t i = 0; i < m->span_count; ++i) m->spans[i] = untouched;
  for (int64_t i = 0; i < m->span_count * m->class->queue_count; ++i) m->readers[i] = -1;
}

// ---- happens-before -----------------------------------------------------------------

// Whose call it is, seen from the present one; "" in the present one.
static const char *which_call(const clocks_t *clocks, clock_place_t there, char *buffer,
                              size_t capacity) {
  char call[200], step[40] = "";
  const int64_t steps = clocks->step - there.step;
  buffer[0] = 0;
  if (steps == 0 && there.call == clocks->call) return buffer;
  shoal_program_check_call(clocks->class, clocks->order, there.call, call, sizeof call);
  if (steps == 1) snprintf(step, sizeof step, " of the step before");
  if (steps > 1) snprintf(step, sizeof step, " of %lld steps before", (long long)steps);
  snprintf(buffer, capacity, " in %s%s", call, step);
  return buffer;
}

static shoal_status_t unordered(const memory_t *m, instance_t other, const char *what,
                                const char *did) {
  if (other == m->clocks.now) {
    return MISMATCH(&m->place, "operands and workspace of one instruction must not overlap",
                    "%s overlaps another of its own operands", what);
  }
  const clocks_t *clocks = &m->clocks;
  const clock_place_t there = shoal_clocks_find(clocks, other);
  const shoal_segment_t *segment = &m->class->segments[clocks->order->calls[there.call].segment];
  const shoal_instruction_t *in = &segment->instructions[there.instruction];
  char call[300], hint[160] = "add a wait";
  which_call(clocks, there, call, sizeof call);
  const int64_t back =
      (clocks->step - there.step) * clocks->order->call_count + clocks->call - there.call;
  if (back > 0) {
    snprintf(hint, sizeof hint, "add a wait to call %lld: [%lld<%lld.%lld]",
             (long long)clocks->call, (long long)m->place.instruction, (long long)back,
             (long long)there.instruction);
  }
  return MISMATCH(
      &m->place, hint,
      "%s touches bytes that instruction %lld %s '%s' on queue %s %s%s, and nothing orders the two",
      what, (long long)there.instruction, shoal_opcode_name(in->opcode), in->name,
      m->class->queues[in->queue].name, did, call);
}

shoal_status_t shoal_spans_read(memory_t *m, range_t range, const char *what) {
  const int32_t queues = m->class->queue_count;
  for (int64_t i = range.from; i < range.to; ++i) {
    const instance_t writer = m->spans[i].writer;
    if (!shoal_clocks_after(&m->clocks, writer)) return unordered(m, writer, what, "writes");
    m->readers[i * queues + m->in->queue] = m->clocks.now;
  }
  return NULL;
}

shoal_status_t shoal_spans_write(memory_t *m, range_t range, int32_t buffer, int32_t slot,
                                 bool over, const char *what) {
  const int32_t queues = m->class->queue_count;
  const instance_t now = m->clocks.now;
  const queue_clock_t clock = *m->clocks.clock;
  for (int64_t i = range.from; i < range.to; ++i) {
    span_t *span = &m->spans[i];
    if (span->writer == now || !shoal_clocks_after(&m->clocks, span->writer)) {
      return unordered(m, span->writer, what, "writes");
    }
    instance_t *readers = &m->readers[i * queues];
    for (int32_t q = 0; q < queues; ++q) {
      if ((readers[q] == now && !over) || readers[q] > clock.done[q]) {
        return unordered(m, readers[q], what, "reads");
      }
      readers[q] = -1;
    }
    *span = (span_t){.buffer = buffer, .slot = slot, .writer = now};
  }
  return NULL;
}
