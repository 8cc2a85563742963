// Pass `alias`: states are updated in place. A graph assigns a state at the end of a step, and
// until then everybody reads the old value: so the passes before make the next value apart and copy
// it to the state at the very end. Here that copy is left out where it is not needed. If whoever
// reads the old value comes before the instruction that makes the next one, that one writes it
// where the state lies (a buffer of kind NEXT), and who reads the next value reads it there.
//
// A state that is assigned under a predicate is written in place by an op under that predicate:
// skipped, it leaves the old value. So nobody else may read what the op makes, all of it must go to
// states under the same predicate, and the predicate must be there before it.
//
// The copy stays where the two really conflict: where the old value is read later, as when two
// states are exchanged; where the next value is put together over micro-batches; where an op must
// not overwrite what it reads; where the next value is read although the state may not take it.
#include "base/status.h"
#include "lower/build.h"

// What an order does with a buffer. Times are positions in the concatenation of its calls.
typedef struct trace {
  int32_t writer_count, output;  // `output` of the last writer
  shoal_instruction_t *writer, *reader;
  int64_t written;            // -1: in the loop
  int64_t read, read_before;  // when `reader` reads it, the last one, and the last of the others
} trace_t;

typedef struct tracing {
  shoal_class_t *c;
  shoal_arena_t *arena;   // the program's
  trace_t *traces;        // by buffer
  int64_t *first, *last;  // by segment: when its first and its last call begin; -1: it has none
} tracing_t;

static void note_read(tracing_t *t, int32_t buffer, shoal_instruction_t *in, int64_t time) {
  if (buffer < 0) return;
  trace_t *trace = &t->traces[buffer];
  if (trace->reader == in) return;
  const bool later = time > trace->read;
  const int64_t before = later ? trace->read : time;
  if (before > trace->read_before) trace->read_before = before;
  if (!later) return;
  trace->reader = in;
  trace->read = time;
}

static void note_segment(tracing_t *t, int64_t s) {
  const shoal_segment_t *segment = &t->c->segments[s];
  const bool once = t->first[s] == t->last[s];
  for (int64_t i = 0; i < segment->instruction_count; ++i) {
    shoal_instruction_t *in = &segment->instructions[i];
    for (int32_t k = 0; k < in->input_count; ++k) note_read(t, in->inputs[k], in, t->last[s] + i);
    note_read(t, in->predicate, in, t->last[s] + i);
    for (int32_t o = 0; o < in->output_count; ++o) {
      if (in->outputs[o] < 0) continue;
      trace_t *trace = &t->traces[in->outputs[o]];
      ++trace->writer_count;
      trace->writer = in;
      trace->output = o;
      trace->written = once ? t->first[s] + i : -1;
    }
  }
}

static void note_order(tracing_t *t, const shoal_order_t *order) {
  int64_t time = 0;
  for (int64_t b = 0; b < t->c->buffer_count; ++b)
    t->traces[b] = (trace_t){.written = -1, .read = -1, .read_before = -1};
  for (int64_t s = 0; s < t->c->segment_count; ++s) t->first[s] = t->last[s] = -1;
  for (int64_t k = 0; k < order->call_count; ++k) {
    const int32_t s = order->calls[k].segment;
    if (t->first[s] < 0) t->first[s] = time;
    t->last[s] = time;
    time += t->c->segments[s].instruction_count;
  }
  for (int64_t s = 0; s < t->c->segment_count; ++s)
    if (t->first[s] >= 0) note_segment(t, s);
}

// May the writer write `output` over the state, if it reads that?
static bool may_overwrite(const shoal_instruction_t *writer, int32_t output, int32_t state) {
  int32_t read = -1;
  for (int32_t i = 0; i < writer->input_count; ++i) {
    if (writer->inputs[i] != state) continue;
    if (read >= 0) return false;
    read = i;
  }
  if (read < 0) return true;
  if (writer->opcode != SHOAL_OPCODE_COMPUTE) return false;
  for (int32_t i = 0; i < writer->op->overwrite_count; ++i) {
    const shoal_overwrite_t *pair = &writer->op->overwrites[i];
    if (pair->output != output) continue;
    if (shoal_op_given(writer->op, writer->attrs, pair->input) == read) return true;
  }
  return false;
}

// Can the copy of a next value to its state be left out? A predicate is another question.
static bool is_needless(const tracing_t *t, const shoal_instruction_t *copy) {
  if (copy->opcode != SHOAL_OPCODE_COPY) return false;
  const int32_t from = copy->inputs[0], to = copy->outputs[0];
  const shoal_buffer_t *next = &t->c->buffers[from], *home = &t->c->buffers[to];
  if (home->memory != next->memory) return false;
  if (home->kind != SHOAL_BUFFER_STATE || next->kind != SHOAL_BUFFER_TEMP || next->group >= 0 ||
      next->count >= 0 || !shoal_layout_equal(next->layout, home->layout))
    return false;
  const trace_t *made = &t->traces[from], *old = &t->traces[to];
  if (made->writer_count != 1 || old->writer_count != 1 || made->written < 0) return false;
  if (made->writer->opcode != SHOAL_OPCODE_COMPUTE && made->writer->opcode != SHOAL_OPCODE_RESHARD)
    return false;
  if (made->writer->predicate >= 0) return false;
  const int64_t last = old->reader == made->writer ? old->read_before : old->read;
  return last < made->written && may_overwrite(made->writer, made->output, to);
}

// Are all outputs of the op that makes the copied value written to states under the copy's
// predicate, and is that known before?
static bool may_be_skipped(const tracing_t *t, const shoal_instruction_t *copy) {
  const trace_t *made = &t->traces[copy->inputs[0]], *decides = &t->traces[copy->predicate];
  const shoal_instruction_t *writer = made->writer;
  if (writer->opcode != SHOAL_OPCODE_COMPUTE || decides->writer_count != 1 ||
      decides->written < 0 || decides->written >= made->written)
    return false;
  for (int32_t o = 0; o < writer->output_count; ++o) {
    const trace_t *output = &t->traces[writer->outputs[o]];
    const shoal_instruction_t *reader = output->reader;
    if (!reader || output->read_before >= 0 || reader->predicate != copy->predicate ||
        !is_needless(t, reader))
      return false;
  }
  return true;
}

// The op writes the states under the predicate; the copies copy states to themselves.
static shoal_status_t write_home(const tracing_t *t, const shoal_instruction_t *copy) {
  shoal_instruction_t *writer = t->traces[copy->inputs[0]].writer;
  int32_t *homes = SHOAL_NEW(t->arena, int32_t, writer->output_count);
  if (!homes) return SHOAL_OOM();
  for (int32_t o = 0; o < writer->output_count; ++o) {
    shoal_instruction_t *reader = t->traces[writer->outputs[o]].reader;
    homes[o] = reader->outputs[0];
    reader->inputs = reader->outputs;
  }
  writer->predicate = copy->predicate;
  writer->outputs = homes;
  return NULL;
}

// Gives next values the states' memory where the copies are needless.
static shoal_status_t find_next(const tracing_t *t) {
  const shoal_class_t *c = t->c;
  for (int64_t s = 0; s < c->segment_count; ++s) {
    const shoal_segment_t *segment = &c->segments[s];
    for (int64_t i = 0; i < segment->instruction_count && t->first[s] >= 0; ++i) {
      const shoal_instruction_t *in = &segment->instructions[i];
      if (!is_needless(t, in)) continue;
      if (in->predicate >= 0) {
        if (may_be_skipped(t, in)) SHOAL_RETURN_IF_ERROR(write_home(t, in));
        continue;
      }
      shoal_buffer_t *next = &c->buffers[in->inputs[0]];
      next->kind = SHOAL_BUFFER_NEXT;
      next->state = c->buffers[in->outputs[0]].state;
    }
  }
  return NULL;
}

static bool is_dropped(const shoal_class_t *c, const shoal_instruction_t *in) {
  if (in->opcode == SHOAL_OPCODE_COPY && in->inputs[0] == in->outputs[0]) return true;
  return in->opcode == SHOAL_OPCODE_COPY && c->buffers[in->inputs[0]].kind == SHOAL_BUFFER_NEXT &&
         c->buffers[in->outputs[0]].kind == SHOAL_BUFFER_STATE &&
         c->buffers[in->inputs[0]].state == c->buffers[in->outputs[0]].state;
}

static void drop_copies(const shoal_class_t *c) {
  for (int64_t s = 0; s < c->segment_count; ++s) {
    shoal_segment_t *segment = &c->segments[s];
    int64_t kept = 0;
    for (int64_t i = 0; i < segment->instruction_count; ++i)
      if (!is_dropped(c, &segment->instructions[i]))
        segment->instructions[kept++] = segment->instructions[i];
    segment->instruction_count = kept;
  }
}

// Leaves out segments without instructions, and their calls.
static shoal_status_t drop_segments(shoal_class_t *c, shoal_arena_t *scratch) {
  int32_t *moved = SHOAL_NEW(scratch, int32_t, c->segment_count);
  int64_t kept = 0;
  if (!moved) return SHOAL_OOM();
  for (int64_t s = 0; s < c->segment_count; ++s) {
    const bool empty = c->segments[s].instruction_count == 0;
    moved[s] = empty ? -1 : (int32_t)kept;
    if (!empty) c->segments[kept++] = c->segments[s];
  }
  c->segment_count = kept;
  for (int64_t g = 0; g < c->order_count; ++g) {
    shoal_order_t *order = &c->orders[g];
    int64_t calls = 0;
    for (int64_t k = 0; k < order->call_count; ++k) {
      shoal_segment_call_t call = order->calls[k];
      call.segment = moved[call.segment];
      if (call.segment >= 0) order->calls[calls++] = call;
    }
    order->call_count = calls;
  }
  return NULL;
}

static void note_uses(const int32_t *buffers, int32_t count, int32_t *moved) {
  for (int32_t i = 0; i < count; ++i)
    if (buffers[i] >= 0) moved[buffers[i]] = 0;
}

static shoal_status_t renumber(shoal_arena_t *arena, const int32_t *moved, int32_t count,
                               const int32_t **buffers) {
  int32_t *numbers = SHOAL_NEW(arena, int32_t, count);
  if (!numbers) return SHOAL_OOM();
  for (int32_t i = 0; i < count; ++i) numbers[i] = (*buffers)[i] < 0 ? -1 : moved[(*buffers)[i]];
  *buffers = numbers;
  return NULL;
}

// Leaves out temporaries that nobody touches any more.
static shoal_status_t drop_buffers(shoal_class_t *c, shoal_arena_t *arena, shoal_arena_t *scratch) {
  int32_t *moved = SHOAL_NEW(scratch, int32_t, c->buffer_count);
  int64_t kept = 0;
  if (!moved) return SHOAL_OOM();
  for (int64_t i = 0; i < c->buffer_count; ++i)
    moved[i] = c->buffers[i].kind == SHOAL_BUFFER_TEMP ? -1 : 0;
  for (int64_t s = 0; s < c->segment_count; ++s)
    for (int64_t i = 0; i < c->segments[s].instruction_count; ++i) {
      const shoal_instruction_t *in = &c->segments[s].instructions[i];
      note_uses(in->inputs, in->input_count, moved);
      note_uses(in->outputs, in->output_count, moved);
      note_uses(&in->predicate, 1, moved);
    }
  for (int64_t i = 0; i < c->buffer_count; ++i) {
    if (moved[i] < 0) continue;
    moved[i] = (int32_t)kept;
    c->buffers[kept++] = c->buffers[i];
  }
  if (kept == c->buffer_count) return NULL;
  c->buffer_count = kept;
  for (int64_t s = 0; s < c->segment_count; ++s)
    for (int64_t i = 0; i < c->segments[s].instruction_count; ++i) {
      shoal_instruction_t *in = &c->segments[s].instructions[i];
      SHOAL_RETURN_IF_ERROR(renumber(arena, moved, in->input_count, &in->inputs));
      SHOAL_RETURN_IF_ERROR(renumber(arena, moved, in->output_count, &in->outputs));
      if (in->predicate >= 0) in->predicate = moved[in->predicate];
    }
  return NULL;
}

static shoal_status_t find_homes(shoal_class_t *c, shoal_arena_t *arena, shoal_arena_t *scratch) {
  tracing_t t = {.c = c,
                 .arena = arena,
                 .traces = SHOAL_NEW(scratch, trace_t, c->buffer_count),
                 .first = SHOAL_NEW(scratch, int64_t, c->segment_count),
                 .last = SHOAL_NEW(scratch, int64_t, c->segment_count)};
  if (!t.traces || !t.first || !t.last) return SHOAL_OOM();
  for (int64_t g = 0; g < c->order_count; ++g) {
    note_order(&t, &c->orders[g]);
    SHOAL_RETURN_IF_ERROR(find_next(&t));
  }
  drop_copies(c);
  SHOAL_RETURN_IF_ERROR(drop_buffers(c, arena, scratch));
  return drop_segments(c, scratch);
}

shoal_status_t shoal_lower_pass_alias(build_t *b) {
  for (int64_t c = 0; c < b->program->class_count; ++c) {
    shoal_arena_t scratch;
    shoal_arena_init(b->plan->allocator, &scratch);
    shoal_status_t status = find_homes(&b->program->classes[c], b->arena, &scratch);
    shoal_arena_deinit(&scratch);
    if (status) return status;
  }
  return NULL;
}
