// Memory, per class and order: every read sees the value it asks for, and accesses to the same
// bytes of which one writes are ordered.
//
// The arenas, laid one behind the other, are cut at every edge of a buffer's slot or a workspace.
// Each span of it - or run of spans that have gone through the same - knows whose value it holds
// (buffer and slot; nobody's after a workspace used it), who wrote it last and who has read it
// since on each queue. An order is walked in program order. A write takes its spans over, whoever
// owned them; a read needs all its spans to be the buffer's own: so a wrong offset, size or slot is
// found where it destroys a value. Vector clocks over queues and waits (check_clocks.h) tell
// whether an access comes after the last conflicting ones: program order is then the only order
// that matters.
//
// Steps are not joined either. Slots by step come round after a period of steps, so values are
// looked at in each step of a period, and one step more is walked for the order of accesses alone:
// what comes a period later does the same to the same bytes. Waits that reach before the first step
// are void, which is the worst case: there they have less to order.
//
// It is done once per class with the planned sizes, which no rank exceeds.
//
// Values have a history, too: a slot holds one micro-batch's value at a time; an accumulator is
// filled once, before the loop, and read when every micro-batch has been joined to it; a value
// copied together from micro-batches is read when all of them are there; nothing is written twice
// in a call.
#include <string.h>

#include "program/check_memory.h"

// Which micro-batch's value of the buffer the present call means; -1: there is only one.
static int64_t micro_of(const memory_t *m, int32_t index) {
  if (m->program->micro == 1) return -1;
  return shoal_program_micro_of(m->class->buffers[index].layout, m->place.micro);
}

static int32_t slot_of(const memory_t *m, int32_t index) {
  return shoal_call_slot(m->class, m->segment_call, m->class->buffers[index].group, m->clocks.step);
}

static range_t buffer_range(const memory_t *m, int32_t index, int32_t slot) {
  return m->ranges[index][slot];
}

// ---- definedness --------------------------------------------------------------------

// Whose value the buffer's bytes hold, if not all of them are its own; else -2.
static int32_t stranger(const memory_t *m, int32_t index, int32_t slot) {
  range_t range = buffer_range(m, index, slot);
  if (range.from == range.to) return -2;
  for (int64_t i = shoal_runs_find(&m->runs, range.from); i < range.to; i = m->runs.ends[i]) {
    const span_t *span = &m->spans[i];
    if (span->buffer != index || span->slot != slot) return span->buffer;
  }
  return -2;
}

static shoal_status_t lost(const memory_t *m, int32_t index, int32_t owner) {
  const char *name = m->class->buffers[index].name;
  const char *when = m->place.instruction >= 0 ? "before it is read" : "when the order ends";
  if (owner < 0) {
    return MISMATCH(&m->place, "plan the memory again",
                    "buffer %d '%s' has been overwritten by a workspace %s", index, name, when);
  }
  return MISMATCH(&m->place, "plan the memory again",
                  "buffer %d '%s' has been overwritten by buffer %d '%s' %s", index, name, owner,
                  m->class->buffers[owner].name, when);
}

// In the call's micro-batch; `piece`: only this micro-batch of a value over all of them is read.
static shoal_status_t need(const memory_t *m, int32_t index, bool piece) {
  const shoal_buffer_t *buffer = &m->class->buffers[index];
  int32_t slot = slot_of(m, index);
  const history_t *history = &m->histories[index][slot];
  int64_t micro = micro_of(m, index);
  if (!history->written) {
    return MISMATCH(&m->place, "write it first, in this order",
                    "buffer %d '%s' is read before it is written", index, buffer->name);
  }
  if (history->micro != micro) {
    return MISMATCH(&m->place, "give it more slots, or write it in this micro-batch",
                    "buffer %d '%s' holds micro-batch %lld, not %lld", index, buffer->name,
                    (long long)history->micro, (long long)micro);
  }
  int32_t owner = stranger(m, index, slot);
  if (owner != -2) return lost(m, index, owner);
  if (history->pieces && history->piece_count < m->program->micro &&
      !(piece && history->piece[m->place.micro])) {
    return MISMATCH(&m->place, "read it after the loop",
                    "buffer %d '%s' has %lld of %lld micro-batches when it is read", index,
                    buffer->name, (long long)history->piece_count, (long long)m->program->micro);
  }
  if (history->joined != m->joins[index]) {
    return MISMATCH(&m->place, "read it after the loop",
                    "accumulator %d '%s' has %lld of %lld joins when it is read", index,
                    buffer->name, (long long)history->joined, (long long)m->joins[index]);
  }
  return NULL;
}

static shoal_status_t read_buffer(memory_t *m, int32_t index, bool piece) {
  if (index < 0) return NULL;
  if (!m->ordering) SHOAL_RETURN_IF_ERROR(need(m, index, piece));
  SHOAL_RETURN_IF_ERROR(shoal_spans_read(m, buffer_range(m, index, slot_of(m, index)), "an input"));
  int32_t count = m->class->buffers[index].count;
  return count >= 0 ? read_buffer(m, count, false) : NULL;
}

// A micro-batch of a value over all of them.
static shoal_status_t write_piece(memory_t *m, int32_t index, const shoal_layout_t *layout) {
  const shoal_buffer_t *buffer = &m->class->buffers[index];
  const int32_t slot = slot_of(m, index);
  history_t *history = &m->histories[index][slot];
  int64_t micro = m->place.micro;
  int32_t owner = history->written ? stranger(m, index, slot) : -1;
  bool begun = history->written && history->pieces && history->piece_count < m->program->micro;
  if (begun && owner != -2) return lost(m, index, owner);
  if (owner != -2 || !history->pieces) {
    *history = (history_t){.pieces = layout};
    history->piece = SHOAL_NEW(m->arena, bool, m->program->micro);
    if (!history->piece) return SHOAL_OOM();
  } else if (!shoal_layout_equal(history->pieces, layout) || history->piece[micro]) {
    return MISMATCH(&m->place, "copy each micro-batch in once, all cut alike",
                    "buffer %d '%s' has micro-batch %lld already, or is cut otherwise", index,
                    buffer->name, (long long)micro);
  }
  history->written = true;
  history->micro = -1;
  history->piece[micro] = true;
  ++history->piece_count;
  return NULL;
}

static shoal_status_t write_joined(memory_t *m, int32_t index) {
  const shoal_buffer_t *buffer = &m->class->buffers[index];
  const int32_t slot = slot_of(m, index);
  history_t *history = &m->histories[index][slot];
  int32_t owner = history->written ? stranger(m, index, slot) : -2;
  if (owner != -2) return lost(m, index, owner);
  if (!history->filled) {
    return MISMATCH(&m->place, "fill it once before the loop",
                    "accumulator %d '%s' has not been filled in this order", index, buffer->name);
  }
  ++history->joined;
  return NULL;
}

static shoal_status_t write_whole(memory_t *m, int32_t index) {
  const shoal_buffer_t *buffer = &m->class->buffers[index];
  int32_t slot = slot_of(m, index);
  history_t *history = &m->histories[index][slot];
  int64_t micro = micro_of(m, index);
  bool fill = m->in->opcode == SHOAL_OPCODE_FILL && m->joins[index] > 0;
  if (fill && (history->filled || m->place.micro >= 0)) {
    return MISMATCH(&m->place, "fill an accumulator once, before the loop",
                    "accumulator %d '%s' is filled again, or in the loop", index, buffer->name);
  }
  if (history->written && history->call == m->call && history->micro == micro &&
      stranger(m, index, slot) == -2) {
    return MISMATCH(&m->place, "drop one of the two",
                    "buffer %d '%s' is written twice in one call; instruction %lld wrote it", index,
                    buffer->name, (long long)history->instruction);
  }
  *history = (history_t){.written = true,
                         .micro = micro,
                         .call = m->call,
                         .instruction = m->place.instruction,
                         .filled = fill};
  return NULL;
}

// With a predicate the write may not happen: the old value must be one, too, and stays one.
static shoal_status_t write_guarded(memory_t *m, int32_t index) {
  history_t *history = &m->histories[index][slot_of(m, index)];
  SHOAL_RETURN_IF_ERROR(need(m, index, false));
  if (history->guarded == m->call && history->predicate == m->in->predicate) {
    return MISMATCH(&m->place, "drop one of the two",
                    "buffer %d '%s' is written twice in one call under the same predicate", index,
                    m->class->buffers[index].name);
  }
  history->guarded = m->call;
  history->predicate = m->in->predicate;
  return NULL;
}

static shoal_status_t write_value(memory_t *m, int32_t index) {
  bool copy = m->in->opcode == SHOAL_OPCODE_COPY;
  const shoal_layout_t *from = copy ? m->class->buffers[m->in->inputs[0]].layout : NULL;
  if (m->in->opcode == SHOAL_OPCODE_ACCUMULATE) return write_joined(m, index);
  if (m->in->predicate >= 0) return write_guarded(m, index);
  if (copy && m->place.micro >= 0 && shoal_program_has_micro(from) &&
      !shoal_program_has_micro(m->class->buffers[index].layout)) {
    return write_piece(m, index, from);
  }
  return write_whole(m, index);
}

// Output number `output` of the present instruction.
static shoal_status_t write_buffer(memory_t *m, int32_t output) {
  const int32_t index = m->in->outputs[output];
  if (index < 0) return NULL;
  const bool over = shoal_program_overwritten(m->class, m->in, output) >= 0;
  const int32_t slot = slot_of(m, index);
  if (!m->ordering) SHOAL_RETURN_IF_ERROR(write_value(m, index));
  return shoal_spans_write(m, buffer_range(m, index, slot), index, slot, over, "an output");
}

// ---- instructions -------------------------------------------------------------------

static shoal_status_t check_port(memory_t *m) {
  bool feed = m->in->opcode == SHOAL_OPCODE_FEED;
  int64_t port = shoal_program_check_port(m->program, m->class, m->place.graph, m->in);
  if (port < 0) {
    return MISMATCH(&m->place, "list it among the program's ports",
                    "the graph has no %s of that name", feed ? "input" : "output");
  }
  const shoal_type_t *type =
      feed ? &m->program->inputs[port].type : &m->program->outputs[port].type;
  const shoal_buffer_t *buffer = &m->class->buffers[feed ? m->in->outputs[0] : m->in->inputs[0]];
  if (!shoal_type_equal(type, &buffer->type)) {
    return MISMATCH(&m->place, "give both the same type",
                    "buffer '%s' and the graph's %s differ in type", buffer->name,
                    feed ? "input" : "output");
  }
  if (feed) return NULL;
  // A whole fetched once counts as all of its micro-batches.
  bool piece = shoal_program_has_micro(buffer->layout);
  m->fetches[port] += piece ? 1 : m->program->micro;
  return NULL;
}

static shoal_status_t check_micro(const memory_t *m, int32_t index) {
  if (index < 0 || m->place.micro >= 0 || m->program->micro == 1) return NULL;
  if (!shoal_program_has_micro(m->class->buffers[index].layout)) return NULL;
  return MISMATCH(&m->place, "touch it inside the loop",
                  "buffer %d '%s' exists per micro-batch, and this call is outside the loop", index,
                  m->class->buffers[index].name);
}

// What is kept of one graph is not for another: it may never have run.
static shoal_status_t check_kept(const memory_t *m, int32_t index) {
  if (index < 0 || m->class->buffers[index].state < 0) return NULL;
  const shoal_buffer_t *buffer = &m->class->buffers[index];
  const shoal_program_port_t *port = shoal_program_kept_in(m->program, buffer->state);
  if (!port || strcmp(port->graph, m->place.graph) == 0) return NULL;
  return MISMATCH(&m->place, "leave it to its own graph",
                  "buffer %d '%s' is kept of graph '%s' to be fetched on request", index,
                  buffer->name, port->graph);
}

// What an instruction says of ports, channels, kept outputs and the loop.
static shoal_status_t check_meaning(memory_t *m) {
  const shoal_instruction_t *in = m->in;
  for (int32_t i = 0; i < in->input_count; ++i) {
    SHOAL_RETURN_IF_ERROR(check_micro(m, in->inputs[i]));
    SHOAL_RETURN_IF_ERROR(check_kept(m, in->inputs[i]));
  }
  for (int32_t i = 0; i < in->output_count; ++i) {
    SHOAL_RETURN_IF_ERROR(check_micro(m, in->outputs[i]));
    SHOAL_RETURN_IF_ERROR(check_kept(m, in->outputs[i]));
  }
  if (in->opcode == SHOAL_OPCODE_FEED || in->opcode == SHOAL_OPCODE_FETCH) {
    SHOAL_RETURN_IF_ERROR(check_port(m));
  }
  if (in->channels && m->program->channels[in->channels[0]].micro != (m->place.micro >= 0)) {
    return MISMATCH(&m->place, "call it where its channel says",
                    "channel %d and the call disagree whether this is inside the loop",
                    in->channels[0]);
  }
  return NULL;
}

static shoal_status_t check_instruction(memory_t *m) {
  const shoal_instruction_t *in = m->in;
  if (!m->ordering) SHOAL_RETURN_IF_ERROR(check_meaning(m));
  bool piece = in->opcode == SHOAL_OPCODE_COPY && m->place.micro >= 0 &&
               shoal_program_has_micro(m->class->buffers[in->outputs[0]].layout);
  SHOAL_RETURN_IF_ERROR(read_buffer(m, in->predicate, false));
  for (int32_t i = 0; i < in->input_count; ++i) {
    SHOAL_RETURN_IF_ERROR(read_buffer(m, in->inputs[i], piece));
  }
  for (int32_t i = 0; i < in->output_count; ++i) {
    // How many rows are made is read, too.
    if (in->opcode == SHOAL_OPCODE_COMPUTE) {
      SHOAL_RETURN_IF_ERROR(read_buffer(m, m->class->buffers[in->outputs[i]].count, false));
    }
    SHOAL_RETURN_IF_ERROR(write_buffer(m, i));
  }
  return shoal_spans_write(m, shoal_spans_range(m, in->workspace_offset, in->workspace), -1, -1,
                           false, "its workspace");
}

static shoal_status_t check_call(memory_t *m, int64_t step, int64_t index) {
  const shoal_segment_call_t *call = &m->clocks.order->calls[index];
  const shoal_segment_t *segment = &m->class->segments[call->segment];
  ++m->call;
  m->segment_call = call;
  m->place.segment = call->segment;
  m->place.micro = call->micro;
  shoal_clocks_enter(&m->clocks, step, index);
  for (int64_t i = 0; i < segment->instruction_count; ++i) {
    m->place.instruction = i;
    m->in = &segment->instructions[i];
    shoal_clocks_run(&m->clocks, i);
    SHOAL_RETURN_IF_ERROR(check_instruction(m));
  }
  shoal_clocks_leave(&m->clocks);
  m->place.instruction = m->place.segment = m->place.micro = -1;
  return NULL;
}

// ---- orders -------------------------------------------------------------------------

// Is it where the graph that is walked keeps an output?
static bool is_kept_here(const memory_t *m, const shoal_buffer_t *buffer, bool *out_kept) {
  const shoal_program_port_t *port = shoal_program_kept_in(m->program, buffer->state);
  *out_kept = port != NULL;
  return port && strcmp(port->graph, m->place.graph) == 0;
}

// States have their values, but for "init", which makes them; nothing else has. Outputs that are
// kept are made by their own graph in every step.
static void start_step(memory_t *m, bool init) {
  for (int64_t i = 0; i < m->span_count; i = m->runs.ends[i])
    m->spans[i].buffer = m->spans[i].slot = -1;
  for (int64_t p = 0; p < m->program->output_count; ++p) m->fetches[p] = 0;
  for (int64_t b = 0; b < m->class->buffer_count; ++b) {
    const shoal_buffer_t *buffer = &m->class->buffers[b];
    for (int32_t s = 0; s < shoal_buffer_slots(m->class, buffer); ++s) {
      m->histories[b][s] = (history_t){0};
    }
    bool kept = false;
    if (buffer->kind != SHOAL_BUFFER_STATE || is_kept_here(m, buffer, &kept)) continue;
    if (init && !kept) continue;
    m->histories[b][0] = (history_t){.written = true, .micro = -1};
    range_t range = buffer_range(m, (int32_t)b, 0);
    shoal_spans_split(m, range);
    for (int64_t i = range.from; i < range.to; i = m->runs.ends[i]) {
      m->spans[i].buffer = (int32_t)b;
      m->spans[i].slot = 0;
    }
  }
}

// Does the state's own memory hold its next value, whole?
static bool has_next(const memory_t *m, int32_t home) {
  const int32_t owner = stranger(m, home, 0);
  if (owner < 0 || m->class->buffers[owner].kind != SHOAL_BUFFER_NEXT) return false;
  return m->class->buffers[owner].state == m->class->buffers[home].state &&
         stranger(m, owner, 0) == -2;
}

// All of it: every micro-batch's rows.
static bool is_written(const memory_t *m, const history_t *history) {
  return history->written && (!history->pieces || history->piece_count == m->program->micro);
}

static shoal_status_t end_step(memory_t *m, bool init) {
  for (int64_t b = 0; b < m->class->buffer_count; ++b) {
    const shoal_buffer_t *buffer = &m->class->buffers[b];
    bool kept = false;
    if (buffer->kind != SHOAL_BUFFER_STATE || has_next(m, (int32_t)b)) continue;
    if (is_kept_here(m, buffer, &kept) && buffer->bytes > 0 &&
        !is_written(m, &m->histories[b][0])) {
      return MISMATCH(&m->place, "write all of it in every run of the graph",
                      "buffer %lld '%s', which is kept to be fetched on request, is not written",
                      (long long)b, buffer->name);
    }
    if (init && buffer->bytes > 0 && !m->histories[b][0].written) {
      return MISMATCH(&m->place, "write every state in \"init\"",
                      "state '%s' (buffer %lld) is not written", buffer->name, (long long)b);
    }
    int32_t owner = stranger(m, (int32_t)b, 0);
    if (owner != -2) return lost(m, (int32_t)b, owner);
  }
  for (int64_t p = 0; p < m->program->output_count; ++p) {
    const shoal_program_port_t *port = &m->program->outputs[p];
    if (strcmp(port->graph, m->place.graph) != 0) continue;
    if (port->on_request && m->fetches[p] > 0) {
      return MISMATCH(&m->place, "drop the fetch",
                      "output '%s' is kept to be fetched on request, and is fetched", port->name);
    }
    if (port->on_request || m->fetches[p] == m->program->micro) continue;
    return MISMATCH(&m->place, "fetch it once, or once in each micro-batch, on every rank",
                    "output '%s' is fetched %lld times in %lld micro-batches", port->name,
                    (long long)(m->fetches[p] > m->program->micro ? 2 : m->fetches[p]),
                    (long long)m->program->micro);
  }
  return NULL;
}

static void count_joins(memory_t *m, const shoal_order_t *order) {
  for (int64_t b = 0; b < m->class->buffer_count; ++b) m->joins[b] = 0;
  for (int64_t k = 0; k < order->call_count; ++k) {
    const shoal_segment_t *segment = &m->class->segments[order->calls[k].segment];
    for (int64_t i = 0; i < segment->instruction_count; ++i) {
      const shoal_instruction_t *in = &segment->instructions[i];
      if (in->opcode == SHOAL_OPCODE_ACCUMULATE) ++m->joins[in->outputs[0]];
    }
  }
}

static shoal_status_t check_order(memory_t *m, const shoal_order_t *order) {
  const bool init = strcmp(order->graph, "init") == 0;
  const int64_t period = shoal_class_period(m->class);
  m->place.graph = order->graph;
  m->place.segment = m->place.instruction = m->place.micro = -1;
  count_joins(m, order);
  shoal_spans_reset(m);
  SHOAL_RETURN_IF_ERROR(shoal_clocks_make(m->class, order, period + 1, m->arena, &m->clocks));
  for (int64_t step = 0; step <= period; ++step) {
    m->ordering = step == period;
    if (!m->ordering) start_step(m, init);
    for (int64_t k = 0; k < order->call_count; ++k) {
      SHOAL_RETURN_IF_ERROR(check_call(m, step, k));
    }
    if (!m->ordering) SHOAL_RETURN_IF_ERROR(end_step(m, init));
  }
  return NULL;
}

static bool has_order(const shoal_class_t *class, const char *graph) {
  for (int64_t i = 0; i < class->order_count; ++i) {
    if (strcmp(class->orders[i].graph, graph) == 0) return true;
  }
  return false;
}

static shoal_status_t find_ranges(memory_t *m) {
  m->ranges = SHOAL_NEW(m->arena, range_t *, m->class->buffer_count);
  if (!m->ranges) return SHOAL_OOM();
  for (int64_t b = 0; b < m->class->buffer_count; ++b) {
    const shoal_buffer_t *buffer = &m->class->buffers[b];
    const int32_t slots = shoal_buffer_slots(m->class, buffer);
    m->ranges[b] = SHOAL_NEW(m->arena, range_t, slots);
    if (!m->ranges[b]) return SHOAL_OOM();
    for (int32_t s = 0; s < slots; ++s) {
      m->ranges[b][s] =
          shoal_spans_range(m, shoal_buffer_slot_place(m->class, buffer, s), buffer->bytes);
    }
  }
  return NULL;
}

shoal_status_t shoal_program_check_memory(const check_t *check, int64_t class_index) {
  const shoal_program_t *program = check->program;
  shoal_arena_t *scratch = check->scratch;
  const shoal_class_t *class = &program->classes[class_index];
  memory_t m = {.program = program, .class = class, .arena = scratch};
  m.place = (place_t){
      .program = program, .class = class_index, .segment = -1, .instruction = -1, .micro = -1};
  m.histories = SHOAL_NEW(scratch, history_t *, class->buffer_count);
  m.joins = SHOAL_NEW(scratch, int64_t, class->buffer_count);
  m.fetches = SHOAL_NEW(scratch, int64_t, program->output_count);
  if (!m.histories || !m.joins || !m.fetches) return SHOAL_OOM();
  for (int64_t b = 0; b < class->buffer_count; ++b) {
    m.histories[b] = SHOAL_NEW(scratch, history_t, shoal_buffer_slots(class, &class->buffers[b]));
    if (!m.histories[b]) return SHOAL_OOM();
  }
  SHOAL_RETURN_IF_ERROR(shoal_spans_make(&m));
  SHOAL_RETURN_IF_ERROR(find_ranges(&m));
  for (int64_t i = 0; i < class->order_count; ++i) {
    SHOAL_RETURN_IF_ERROR(check_order(&m, &class->orders[i]));
  }
  for (int64_t b = 0; b < class->buffer_count; ++b) {
    if (class->buffers[b].kind != SHOAL_BUFFER_STATE || has_order(class, "init") ||
        shoal_program_kept_in(program, class->buffers[b].state))
      continue;
    return MISMATCH(&m.place, "add an order for graph \"init\"",
                    "nothing gives state '%s' its first value", class->buffers[b].name);
  }
  return NULL;
}
