// Mutations are counted and found by one walk: walk() passes every place of the program where
// something can be changed and asks due() whether this is the one. Nothing is stored per mutation.
//
// A mutated program is a copy of what is changed; the rest is borrowed. Where instructions are
// dropped, doubled or swapped, the waits of the others follow them, so that only the instruction
// itself is missing or out of place: what waited for a dropped instruction waits for what that one
// waited for.
#include "program/mutate.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "program/check_impl.h"

typedef struct walk {
  const shoal_program_t *from;
  int64_t index, count;  // the mutation looked for; those passed
  bool found;
  shoal_arena_t *arena;     // NULL: only count
  shoal_program_t program;  // from here: the mutated copy
  shoal_mutation_t mutation;
  place_t place;
  bool failed;
} walk_t;

// ---- copies -------------------------------------------------------------------------

static void *own(walk_t *w, const void *data, int64_t count, size_t size) {
  void *copy = shoal_arena_copy(w->arena, data, (size_t)count, size);
  if (!copy) w->failed = true;
  return copy;
}

static shoal_class_t *own_class(walk_t *w) {
  w->program.classes = own(w, w->from->classes, w->from->class_count, sizeof *w->from->classes);
  return w->failed ? NULL : &w->program.classes[w->place.class];
}

static shoal_buffer_t *own_buffer(walk_t *w, int64_t index) {
  shoal_class_t *class = own_class(w);
  if (!class) return NULL;
  class->buffers = own(w, class->buffers, class->buffer_count, sizeof *class->buffers);
  return w->failed ? NULL : &class->buffers[index];
}

// With room for one more instruction.
static shoal_segment_t *own_segment(walk_t *w) {
  shoal_class_t *class = own_class(w);
  if (!class) return NULL;
  class->segments = own(w, class->segments, class->segment_count, sizeof *class->segments);
  if (w->failed) return NULL;
  shoal_segment_t *segment = &class->segments[w->place.segment];
  shoal_instruction_t *list =
      SHOAL_NEW(w->arena, shoal_instruction_t, segment->instruction_count + 1);
  w->failed = !list;
  if (!list) return NULL;
  memcpy(list, segment->instructions, (size_t)segment->instruction_count * sizeof *list);
  segment->instructions = list;
  return segment;
}

static shoal_instruction_t *own_instruction(walk_t *w) {
  shoal_segment_t *segment = own_segment(w);
  return segment ? &segment->instructions[w->place.instruction] : NULL;
}

static shoal_order_t *own_order(walk_t *w, int64_t index) {
  shoal_class_t *class = own_class(w);
  if (!class) return NULL;
  class->orders = own(w, class->orders, class->order_count, sizeof *class->orders);
  if (w->failed) return NULL;
  shoal_order_t *order = &class->orders[index];
  order->calls = own(w, order->calls, order->call_count, sizeof *order->calls);
  return w->failed ? NULL : order;
}

// ---- counting -----------------------------------------------------------------------

// Is this the mutation that is looked for? Then it is noted.
static bool due(walk_t *w, shoal_mutation_kind_t kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool due(walk_t *w, shoal_mutation_kind_t kind, const char *format, ...) {
  if (w->count++ != w->index || !w->arena) return false;
  char where[400], what[200];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  shoal_program_check_where(&w->place, where, sizeof where);
  w->mutation = (shoal_mutation_t){
      .kind = kind,
      .class = w->place.class,
      .segment = w->place.segment,
      .instruction = w->place.instruction,
      .description = shoal_arena_printf(w->arena, "%s%s%s", where, where[0] ? ": " : "", what)};
  w->failed = !w->mutation.description;
  w->found = true;
  return !w->failed;
}

// ---- waits --------------------------------------------------------------------------

typedef SHOAL_VEC(int32_t) waits_t;

static void add_wait(walk_t *w, const shoal_segment_t *segment, int64_t index, int32_t other,
                     waits_t *waits) {
  if (other < 0 || other >= index) return;
  if (segment->instructions[other].queue == segment->instructions[index].queue) return;
  for (int64_t i = 0; i < waits->count; ++i) {
    if (waits->items[i] == other) return;
  }
  if (!SHOAL_PUSH(w->arena, waits, other)) w->failed = true;
}

// Instruction `old` of the former list is now at new_index[old], or gone (-1).
static void move_waits(walk_t *w, shoal_segment_t *segment, const shoal_segment_t *former,
                       const int32_t *new_index) {
  for (int64_t i = 0; i < segment->instruction_count; ++i) {
    shoal_instruction_t *in = &segment->instructions[i];
    waits_t waits = {0};
    for (int32_t k = 0; k < in->wait_count; ++k) {
      int32_t old = in->waits[k];
      if (new_index[old] >= 0) {
        add_wait(w, segment, i, new_index[old], &waits);
        continue;
      }
      const shoal_instruction_t *gone = &former->instructions[old];
      for (int32_t j = 0; j < gone->wait_count; ++j) {
        add_wait(w, segment, i, new_index[gone->waits[j]], &waits);
      }
      for (int32_t before = old - 1; before >= 0; --before) {  // it ran behind this one
        if (former->instructions[before].queue != gone->queue) continue;
        add_wait(w, segment, i, new_index[before], &waits);
        break;
      }
    }
    in->waits = waits.items;
    in->wait_count = (int32_t)waits.count;
  }
}

static int32_t *identity_map(walk_t *w, int64_t count) {
  int32_t *map = SHOAL_NEW(w->arena, int32_t, count);
  w->failed |= !map;
  for (int64_t i = 0; map && i < count; ++i) map[i] = (int32_t)i;
  return map;
}

// ---- instructions -------------------------------------------------------------------

static void drop(walk_t *w, const shoal_segment_t *former) {
  shoal_segment_t *segment = own_segment(w);
  int64_t at = w->place.instruction, count = former->instruction_count;
  int32_t *map = identity_map(w, count);
  if (w->failed) return;
  for (int64_t i = at; i < count; ++i) --map[i];
  map[at] = -1;
  memmove(segment->instructions + at, segment->instructions + at + 1,
          (size_t)(count - at - 1) * sizeof *segment->instructions);
  --segment->instruction_count;
  move_waits(w, segment, former, map);
}

// The copy comes right behind; who waited for the first waits for the copy.
static void repeat(walk_t *w, const shoal_segment_t *former) {
  shoal_segment_t *segment = own_segment(w);
  int64_t at = w->place.instruction, count = former->instruction_count;
  int32_t *map = identity_map(w, count);
  if (w->failed) return;
  for (int64_t i = at; i < count; ++i) ++map[i];
  memmove(segment->instructions + at + 1, segment->instructions + at,
          (size_t)(count - at) * sizeof *segment->instructions);
  ++segment->instruction_count;
  move_waits(w, segment, former, map);
}

static void swap(walk_t *w, const shoal_segment_t *former) {
  shoal_segment_t *segment = own_segment(w);
  int64_t at = w->place.instruction;
  int32_t *map = identity_map(w, former->instruction_count);
  if (w->failed) return;
  shoal_instruction_t first = segment->instructions[at];
  segment->instructions[at] = segment->instructions[at + 1];
  segment->instructions[at + 1] = first;
  map[at] = (int32_t)at + 1;
  map[at + 1] = (int32_t)at;
  move_waits(w, segment, former, map);
}

static void drop_wait(walk_t *w, int32_t which) {
  shoal_instruction_t *in = own_instruction(w);
  if (!in) return;
  int32_t *waits = own(w, in->waits, in->wait_count, sizeof *waits);
  if (!waits) return;
  memmove(waits + which, waits + which + 1, (size_t)(in->wait_count - which - 1) * sizeof *waits);
  in->waits = waits;
  --in->wait_count;
}

static void change_attr(walk_t *w, int32_t which, double factor, int64_t more) {
  shoal_instruction_t *in = own_instruction(w);
  if (!in) return;
  shoal_attr_value_t *attrs = own(w, in->attrs, in->op->attr_count, sizeof *attrs);
  if (!attrs) return;
  if (in->op->attrs[which].kind == SHOAL_ATTR_REAL)
    attrs[which].f = attrs[which].f * factor + 0.125;
  else
    attrs[which].i += more;
  in->attrs = attrs;
}

static void walk_attrs(walk_t *w, const shoal_instruction_t *in) {
  for (int32_t a = 0; in->opcode == SHOAL_OPCODE_COMPUTE && a < in->op->attr_count; ++a) {
    const shoal_attr_schema_t *schema = &in->op->attrs[a];
    bool real = schema->kind == SHOAL_ATTR_REAL && isfinite(in->attrs[a].f);
    bool count = schema->kind == SHOAL_ATTR_INT && schema->role == SHOAL_ROLE_COUNT;
    if ((real || count) && due(w, SHOAL_MUTATION_ATTRIBUTE, "change attribute '%s'", schema->name))
      change_attr(w, a, 2, 1);
  }
}

static void walk_operands(walk_t *w, const shoal_instruction_t *in) {
  if (in->opcode == SHOAL_OPCODE_RESHARD) {
    for (int side = 0; side < 2; ++side) {
      int32_t step = side == 0 ? 1 : -1, other = in->channel + step;
      if (other < 0 || other >= w->from->channel_count) continue;
      if (due(w, SHOAL_MUTATION_CHANNEL, "use channel %d instead of %d", other, in->channel)) {
        shoal_instruction_t *mine = own_instruction(w);
        if (mine) mine->channel = other;
        w->mutation.first = other;
        w->mutation.second = in->channel;
      }
    }
  }
  if (in->opcode == SHOAL_OPCODE_ACCUMULATE) {
    shoal_reduce_t other = in->reduce == SHOAL_REDUCE_SUM ? SHOAL_REDUCE_MAX : SHOAL_REDUCE_SUM;
    if (due(w, SHOAL_MUTATION_REDUCTION, "change the reduction")) {
      shoal_instruction_t *mine = own_instruction(w);
      if (mine) mine->reduce = other;
    }
  }
  if (in->opcode == SHOAL_OPCODE_FILL && due(w, SHOAL_MUTATION_FILL, "fill with another value")) {
    shoal_instruction_t *mine = own_instruction(w);
    if (mine) mine->value = isfinite(mine->value) ? mine->value + 1 : 0;
  }
  if (in->input_count > 1 && in->inputs[0] != in->inputs[1] &&
      due(w, SHOAL_MUTATION_INPUTS, "swap its first two inputs")) {
    shoal_instruction_t *mine = own_instruction(w);
    int32_t *inputs = mine ? own(w, mine->inputs, mine->input_count, sizeof *inputs) : NULL;
    if (!inputs) return;
    inputs[0] = in->inputs[1];
    inputs[1] = in->inputs[0];
    mine->inputs = inputs;
  }
}

static void walk_instruction(walk_t *w, const shoal_segment_t *segment) {
  const shoal_instruction_t *in = &segment->instructions[w->place.instruction];
  if (due(w, SHOAL_MUTATION_DROP, "drop it")) drop(w, segment);
  if (due(w, SHOAL_MUTATION_REPEAT, "do it twice")) repeat(w, segment);
  if (w->place.instruction + 1 < segment->instruction_count &&
      due(w, SHOAL_MUTATION_SWAP, "swap it with the next")) {
    swap(w, segment);
  }
  for (int32_t i = 0; i < in->wait_count; ++i) {
    if (due(w, SHOAL_MUTATION_WAIT, "do not wait for instruction %d", in->waits[i]))
      drop_wait(w, i);
  }
  walk_operands(w, in);
  walk_attrs(w, in);
  if (in->workspace > 0 && due(w, SHOAL_MUTATION_WORKSPACE_MOVE, "move the workspace 64 bytes")) {
    shoal_instruction_t *mine = own_instruction(w);
    if (mine) mine->workspace_offset += mine->workspace_offset ? -64 : 64;
  }
  if (in->workspace > 0 && due(w, SHOAL_MUTATION_WORKSPACE_HALVE, "halve the workspace")) {
    shoal_instruction_t *mine = own_instruction(w);
    if (mine) mine->workspace = (mine->workspace + 1) / 2;
  }
}

// ---- buffers, orders, channels ------------------------------------------------------

static const shoal_layout_t *without_last_cut(walk_t *w, const shoal_layout_t *layout) {
  shoal_layout_t *mine = own(w, layout, 1, sizeof *layout);
  if (!mine) return layout;
  --mine->cut_count;
  return mine;
}

static void walk_buffer(walk_t *w, int64_t index) {
  const shoal_buffer_t *buffer = &place_class(&w->place)->buffers[index];
  shoal_buffer_t *mine;
  if (buffer->bytes > 0 && due(w, SHOAL_MUTATION_BUFFER_MOVE, "move buffer %lld '%s' 64 bytes",
                               (long long)index, buffer->name)) {
    if ((mine = own_buffer(w, index))) mine->offset += mine->offset ? -64 : 64;
  }
  if (buffer->bytes > 0 && due(w, SHOAL_MUTATION_BUFFER_LESS, "give buffer %lld '%s' 64 bytes less",
                               (long long)index, buffer->name)) {
    if ((mine = own_buffer(w, index))) mine->bytes -= 64;
  }
  if (due(w, SHOAL_MUTATION_BUFFER_MORE, "give buffer %lld '%s' 64 bytes more", (long long)index,
          buffer->name)) {
    if ((mine = own_buffer(w, index))) mine->bytes += 64;
  }
  if (buffer->group >= 0 && due(w, SHOAL_MUTATION_BUFFER_SLOT, "take the slots of buffer %lld '%s'",
                                (long long)index, buffer->name)) {
    if ((mine = own_buffer(w, index))) mine->group = -1;
  }
  if (buffer->layout->cut_count > 0 &&
      due(w, SHOAL_MUTATION_BUFFER_CUT, "drop the last cut of buffer %lld '%s'", (long long)index,
          buffer->name)) {
    if ((mine = own_buffer(w, index))) mine->layout = without_last_cut(w, mine->layout);
  }
}

static void walk_order(walk_t *w, int64_t index) {
  const shoal_order_t *order = &place_class(&w->place)->orders[index];
  shoal_order_t *mine;
  for (int64_t k = 0; k < order->call_count; ++k) {
    if (due(w, SHOAL_MUTATION_CALL_DROP, "order '%s': drop call %lld", order->graph,
            (long long)k) &&
        (mine = own_order(w, index))) {
      memmove(mine->calls + k, mine->calls + k + 1,
              (size_t)(mine->call_count - k - 1) * sizeof *mine->calls);
      --mine->call_count;
    }
    if (k + 1 < order->call_count &&
        due(w, SHOAL_MUTATION_CALL_SWAP, "order '%s': swap calls %lld and %lld", order->graph,
            (long long)k, (long long)k + 1) &&
        (mine = own_order(w, index))) {
      shoal_segment_call_t first = mine->calls[k];
      mine->calls[k] = mine->calls[k + 1];
      mine->calls[k + 1] = first;
      w->mutation.first = index;
      w->mutation.second = k;
    }
  }
}

// What all sides agree on: nobody's buffers fit it any more, or everybody's peers and groups
// change.
static void walk_channel(walk_t *w, int64_t index) {
  const shoal_channel_t *channel = &w->from->channels[index];
  for (int side = 0; side < 2; ++side) {
    const shoal_layout_t *layout = side ? channel->dst : channel->src;
    if (layout->cut_count == 0) continue;
    if (!due(w, SHOAL_MUTATION_CHANNEL_CUT, "drop the last cut of channel %lld's %s",
             (long long)index, side ? "destination" : "source")) {
      continue;
    }
    w->program.channels = own(w, w->from->channels, w->from->channel_count, sizeof *channel);
    if (w->failed) return;
    shoal_channel_t *mine = &w->program.channels[index];
    *(side ? &mine->dst : &mine->src) = without_last_cut(w, layout);
  }
}

static void walk_all(walk_t *w) {
  const shoal_program_t *from = w->from;
  w->program = *from;
  w->place = (place_t){.program = from, .class = -1, .segment = -1, .instruction = -1, .micro = -1};
  for (int64_t i = 0; i < from->channel_count && !w->found; ++i) walk_channel(w, i);
  for (int64_t c = 0; c < from->class_count && !w->found; ++c) {
    const shoal_class_t *class = &from->classes[c];
    w->place.class = c;
    w->place.segment = w->place.instruction = -1;
    for (int64_t b = 0; b < class->buffer_count && !w->found; ++b) walk_buffer(w, b);
    for (int64_t i = 0; i < class->order_count && !w->found; ++i) walk_order(w, i);
    for (int64_t s = 0; s < class->segment_count && !w->found; ++s) {
      w->place.segment = s;
      for (int64_t i = 0; i < class->segments[s].instruction_count && !w->found; ++i) {
        w->place.instruction = i;
        walk_instruction(w, &class->segments[s]);
      }
    }
  }
}

// ---- public -------------------------------------------------------------------------

int64_t shoal_program_mutations(const shoal_program_t *program) {
  walk_t walk = {.from = program, .index = -1};
  walk_all(&walk);
  return walk.count;
}

shoal_status_t shoal_program_mutate(const shoal_program_t *program, int64_t index,
                                    shoal_arena_t *arena, shoal_mutation_t *out_mutation) {
  walk_t walk = {.from = program, .index = index, .arena = arena};
  walk_all(&walk);
  if (walk.failed) return SHOAL_OOM();
  if (!walk.found) {
    return SHOAL_ERROR(NOT_FOUND, "the program has %lld mutations, there is no number %lld",
                       (long long)walk.count, (long long)index);
  }
  *out_mutation = walk.mutation;
  return shoal_program_print(&walk.program, arena, &out_mutation->text);
}
