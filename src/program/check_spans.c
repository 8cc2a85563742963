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
  if (!shoal_runs_init(m->arena, m->span_count, &m->runs)) return SHOAL_OOM();
  return m->spans && m->readers ? NULL : SHOAL_OOM();
}

range_t shoal_spans_range(const memory_t *m, int64_t offset, int64_t bytes) {
  if (bytes == 0) return (range_t){0, 0};
  // Edges of buffers and workspaces are always bounds.
  return (range_t){shoal_edges_find(m->bounds, m->span_count, offset),
                   shoal_edges_find(m->bounds, m->span_count, offset + bytes)};
}

void shoal_spans_reset(memory_t *m) {
  if (m->span_count == 0) return;
  shoal_runs_reset(&m->runs);
  m->spans[0] = (span_t){.buffer = -1, .slot = -1, .writer = -1};
  for (int32_t q = 0; q < m->class->queue_count; ++q) m->readers[q] = -1;
}

static void split_at(memory_t *m, int64_t span) {
  const int64_t from = shoal_runs_split(&m->runs, span);
  const int32_t queues = m->class->queue_count;
  if (from < 0) return;
  m->spans[span] = m->spans[from];
  for (int32_t q = 0; q < queues; ++q)
    m->readers[span * queues + q] = m->readers[from * queues + q];
}

void shoal_spans_split(memory_t *m, range_t range) {
  if (range.from == range.to) return;
  split_at(m, range.from);
  split_at(m, range.to);
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
  shoal_spans_split(m, range);
  for (int64_t i = range.from; i < range.to; i = m->runs.ends[i]) {
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
  if (range.from == range.to) return NULL;
  shoal_spans_split(m, range);
  for (int64_t i = range.from; i < range.to; i = m->runs.ends[i]) {
    const instance_t writer = m->spans[i].writer;
    if (writer == now || !shoal_clocks_after(&m->clocks, writer)) {
      return unordered(m, writer, what, "writes");
    }
    for (int32_t q = 0; q < queues; ++q) {
      const instance_t reader = m->readers[i * queues + q];
      if ((reader == now && !over) || reader > clock.done[q]) {
        return unordered(m, reader, what, "reads");
      }
    }
  }
  shoal_runs_join(&m->runs, range.from, range.to);
  m->spans[range.from] = (span_t){.buffer = buffer, .slot = slot, .writer = now};
  for (int32_t q = 0; q < queues; ++q) m->readers[range.from * queues + q] = -1;
  return NULL;
}
