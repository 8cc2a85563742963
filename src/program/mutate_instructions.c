// Mutations of instructions.
#include <math.h>
#include <string.h>

#include "program/mutate_impl.h"

// ---- the list -----------------------------------------------------------------------

// What waited for a dropped instruction waits for what that one waited for (mutate_waits.c); the
// next on its queue waits in its stead.
static void drop(walk_t *w, const shoal_segment_t *former) {
  shoal_segment_t *segment = shoal_mutate_own_segment(w);
  const int64_t at = w->place.instruction, count = former->instruction_count;
  mutate_moves_t moves;
  if (!segment || !shoal_mutate_stay(w, former, &moves)) return;
  for (int64_t i = at; i < count; ++i) moves.source[i] = moves.target[i] = (int32_t)i - 1;
  moves.source[at] = moves.target[at] = -1;
  for (int64_t i = count - 1; i > at; --i) {
    if (former->instructions[i].queue == former->instructions[at].queue) {
      moves.source[at] = (int32_t)i - 1;
    }
  }
  memmove(segment->instructions + at, segment->instructions + at + 1,
          (size_t)(count - at - 1) * sizeof *segment->instructions);
  --segment->instruction_count;
  shoal_mutate_move_waits(w, segment, &moves);
}

// The copy comes right behind; who waited for the first waits for the copy.
static void repeat(walk_t *w, const shoal_segment_t *former) {
  shoal_segment_t *segment = shoal_mutate_own_segment(w);
  const int64_t at = w->place.instruction, count = former->instruction_count;
  mutate_moves_t moves;
  if (!segment || !shoal_mutate_stay(w, former, &moves)) return;
  for (int64_t i = at; i < count; ++i) moves.source[i] = moves.target[i] = (int32_t)i + 1;
  moves.source[at] = (int32_t)at;
  memmove(segment->instructions + at + 1, segment->instructions + at,
          (size_t)(count - at) * sizeof *segment->instructions);
  ++segment->instruction_count;
  shoal_mutate_move_waits(w, segment, &moves);
}

// On one queue the first of the two waits for all that either waited for, and is waited for by who
// waited for the second: nobody's order but their own changes.
static void swap(walk_t *w, const shoal_segment_t *former) {
  shoal_segment_t *segment = shoal_mutate_own_segment(w);
  const int64_t at = w->place.instruction;
  mutate_moves_t moves;
  if (!segment || !shoal_mutate_stay(w, former, &moves)) return;
  const shoal_instruction_t first = segment->instructions[at];
  segment->instructions[at] = segment->instructions[at + 1];
  segment->instructions[at + 1] = first;
  const bool one_queue = segment->instructions[at].queue == first.queue;
  moves.source[at] = (int32_t)(one_queue ? at : at + 1);
  moves.source[at + 1] = (int32_t)at;
  moves.target[at] = (int32_t)at + 1;
  moves.target[at + 1] = (int32_t)(one_queue ? at + 1 : at);
  shoal_mutate_move_waits(w, segment, &moves);
}

static void drop_wait(walk_t *w, int32_t which) {
  shoal_instruction_t *in = shoal_mutate_own_instruction(w);
  if (!in) return;
  int32_t *waits = shoal_mutate_own(w, in->waits, in->wait_count, sizeof *waits);
  if (!waits) return;
  memmove(waits + which, waits + which + 1, (size_t)(in->wait_count - which - 1) * sizeof *waits);
  in->waits = waits;
  --in->wait_count;
}

// To another queue of its kind. Waits between instructions of one queue are left out: they would
// give it away.
static void walk_queues(walk_t *w, const shoal_segment_t *segment) {
  const shoal_class_t *class = place_class(&w->place);
  const shoal_instruction_t *in = &segment->instructions[w->place.instruction];
  for (int32_t q = 0; q < class->queue_count; ++q) {
    if (q == in->queue || class->queues[q].kind != class->queues[in->queue].kind) continue;
    if (!shoal_mutate_due(w, SHOAL_MUTATION_QUEUE, "put it on queue '%s'", class->queues[q].name)) {
      continue;
    }
    mutate_moves_t moves;
    shoal_segment_t *mine = shoal_mutate_own_segment(w);
    if (!mine || !shoal_mutate_stay(w, segment, &moves)) return;
    mine->instructions[w->place.instruction].queue = q;
    shoal_mutate_move_waits(w, mine, &moves);
  }
}

// ---- one instruction ----------------------------------------------------------------

static void change_attr(walk_t *w, int32_t which, double factor, int64_t more) {
  shoal_instruction_t *in = shoal_mutate_own_instruction(w);
  if (!in) return;
  shoal_attr_value_t *attrs = shoal_mutate_own(w, in->attrs, in->op->attr_count, sizeof *attrs);
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
    // A count that was left out says nothing, or the op finds it from shapes.
    bool count = schema->kind == SHOAL_ATTR_INT && schema->role == SHOAL_ROLE_COUNT &&
                 in->attrs[a].i != schema->fallback.i;
    if ((real || count) &&
        shoal_mutate_due(w, SHOAL_MUTATION_ATTRIBUTE, "change attribute '%s'", schema->name))
      change_attr(w, a, 2, 1);
  }
}

static void change_channel(walk_t *w, const shoal_instruction_t *in, int32_t which, int32_t other) {
  if (other < 0 || other >= w->from->channel_count) return;
  if (!shoal_mutate_due(w, SHOAL_MUTATION_CHANNEL, "use channel %d instead of %d", other,
                        in->channels[which])) {
    return;
  }
  shoal_instruction_t *mine = shoal_mutate_own_instruction(w);
  int32_t *channels =
      mine ? shoal_mutate_own(w, in->channels, shoal_instruction_channels(in), sizeof *channels)
           : NULL;
  if (!channels) return;
  channels[which] = other;
  mine->channels = channels;
  w->mutation.first = other;
  w->mutation.second = in->channels[which];
}

static void drop_member(walk_t *w, const shoal_instruction_t *in, int32_t which) {
  shoal_instruction_t *mine = shoal_mutate_own_instruction(w);
  if (!mine) return;
  const int32_t count = in->input_count;
  const int32_t *lists[] = {in->inputs, in->outputs, in->channels};
  int32_t *own[3];
  for (int i = 0; i < 3; ++i) {
    own[i] = shoal_mutate_own(w, lists[i], count, sizeof *own[i]);
    if (!own[i]) return;
    memmove(own[i] + which, own[i] + which + 1, (size_t)(count - which - 1) * sizeof *own[i]);
  }
  mine->inputs = own[0];
  mine->outputs = own[1];
  mine->channels = own[2];
  mine->input_count = mine->output_count = count - 1;
}

// It reads any other buffer of the same type instead.
static void walk_input(walk_t *w, const shoal_instruction_t *in, int32_t which,
                       shoal_mutation_kind_t kind, const char *what) {
  const shoal_class_t *class = place_class(&w->place);
  const shoal_type_t *type = &class->buffers[in->inputs[which]].type;
  for (int32_t b = 0; b < class->buffer_count; ++b) {
    if (b == in->inputs[which] || !shoal_type_equal(&class->buffers[b].type, type)) continue;
    if (!shoal_mutate_due(w, kind, "take %s from buffer %d '%s'", what, b, class->buffers[b].name))
      continue;
    shoal_mutate_read(w, which, b);
  }
}

// An exchange's counts from another part, the other side's or any; a merge's value or log-sum-exp
// from another pair, or from before they were exchanged.
static void walk_parts(walk_t *w, const shoal_instruction_t *in) {
  const shoal_class_t *class = place_class(&w->place);
  for (int32_t side = 1; in->opcode == SHOAL_OPCODE_EXCHANGE && side < 3; ++side)
    walk_input(w, in, side, SHOAL_MUTATION_COUNTS,
               side == 1 ? "its counts here" : "its counts there");
  if (in->opcode != SHOAL_OPCODE_COMPUTE || in->input_count != 2) return;
  if (!class->buffers[in->inputs[0]].parts || !class->buffers[in->inputs[1]].parts) return;
  walk_input(w, in, 0, SHOAL_MUTATION_PAIR, "the parts' values");
  walk_input(w, in, 1, SHOAL_MUTATION_PAIR, "the parts' log-sum-exp");
}

static void walk_operands(walk_t *w, const shoal_instruction_t *in) {
  for (int32_t i = 0; i < shoal_instruction_channels(in); ++i) {
    if (shoal_instruction_channels(in) > 1 &&
        shoal_mutate_due(w, SHOAL_MUTATION_MEMBER, "leave its value %d out", i)) {
      drop_member(w, in, i);
    }
    change_channel(w, in, i, in->channels[i] + 1);
    change_channel(w, in, i, in->channels[i] - 1);
  }
  walk_parts(w, in);
  if (in->opcode == SHOAL_OPCODE_ACCUMULATE) {
    shoal_reduce_t other = in->reduce == SHOAL_REDUCE_SUM ? SHOAL_REDUCE_MAX : SHOAL_REDUCE_SUM;
    if (shoal_mutate_due(w, SHOAL_MUTATION_REDUCTION, "change the reduction")) {
      shoal_instruction_t *mine = shoal_mutate_own_instruction(w);
      if (mine) mine->reduce = other;
    }
  }
  if (in->opcode == SHOAL_OPCODE_FILL &&
      shoal_mutate_due(w, SHOAL_MUTATION_FILL, "fill with another value")) {
    shoal_instruction_t *mine = shoal_mutate_own_instruction(w);
    if (mine) mine->value = isfinite(mine->value) ? mine->value + 1 : 0;
  }
  if (in->input_count > 1 && in->inputs[0] != in->inputs[1] &&
      shoal_mutate_due(w, SHOAL_MUTATION_INPUTS, "swap its first two inputs")) {
    shoal_instruction_t *mine = shoal_mutate_own_instruction(w);
    int32_t *inputs =
        mine ? shoal_mutate_own(w, mine->inputs, mine->input_count, sizeof *inputs) : NULL;
    if (!inputs) return;
    inputs[0] = in->inputs[1];
    inputs[1] = in->inputs[0];
    mine->inputs = inputs;
  }
}

// The first input that a later instruction of the segment reads, too; -1: none.
static int32_t find_read_later(const shoal_segment_t *segment, int64_t index) {
  const shoal_instruction_t *in = &segment->instructions[index];
  for (int32_t k = 0; k < in->input_count; ++k) {
    for (int64_t i = index + 1; i < segment->instruction_count && in->inputs[k] >= 0; ++i) {
      const shoal_instruction_t *later = &segment->instructions[i];
      for (int32_t j = 0; j < later->input_count; ++j) {
        if (later->inputs[j] == in->inputs[k]) return in->inputs[k];
      }
    }
  }
  return -1;
}

// An output over an input that is still needed.
static void walk_alias(walk_t *w, const shoal_segment_t *segment) {
  const shoal_class_t *class = place_class(&w->place);
  const shoal_instruction_t *in = &segment->instructions[w->place.instruction];
  const int32_t input = find_read_later(segment, w->place.instruction);
  if (input < 0 || in->output_count == 0 || in->outputs[0] < 0) return;
  const shoal_buffer_t *from = &class->buffers[input], *to = &class->buffers[in->outputs[0]];
  if (to->kind != SHOAL_BUFFER_TEMP || to->memory != from->memory || to->offset == from->offset ||
      from->bytes == 0 || to->bytes == 0 ||
      from->offset + to->bytes * shoal_buffer_slots(class, to) > class->arena_bytes[to->memory]) {
    return;
  }
  if (shoal_mutate_due(w, SHOAL_MUTATION_ALIAS, "lay '%s' over '%s', which is read later", to->name,
                       from->name)) {
    shoal_buffer_t *mine = shoal_mutate_own_buffer(w, in->outputs[0]);
    if (mine) mine->offset = from->offset;
  }
}

void shoal_mutate_instruction(walk_t *w, const shoal_segment_t *segment) {
  const shoal_instruction_t *in = &segment->instructions[w->place.instruction];
  if (shoal_mutate_due(w, SHOAL_MUTATION_DROP, "drop it")) drop(w, segment);
  if (shoal_mutate_due(w, SHOAL_MUTATION_REPEAT, "do it twice")) repeat(w, segment);
  if (w->place.instruction + 1 < segment->instruction_count &&
      shoal_mutate_due(w, SHOAL_MUTATION_SWAP, "swap it with the next")) {
    swap(w, segment);
  }
  for (int32_t i = 0; i < in->wait_count; ++i) {
    if (shoal_mutate_due(w, SHOAL_MUTATION_WAIT, "do not wait for instruction %d", in->waits[i]))
      drop_wait(w, i);
  }
  walk_queues(w, segment);
  walk_operands(w, in);
  walk_alias(w, segment);
  shoal_mutate_again(w, segment);
  walk_attrs(w, in);
  if (in->predicate >= 0 && shoal_mutate_due(w, SHOAL_MUTATION_PREDICATE, "do it always")) {
    shoal_instruction_t *mine = shoal_mutate_own_instruction(w);
    if (mine) mine->predicate = -1;
  }
  if (in->workspace > 0 &&
      shoal_mutate_due(w, SHOAL_MUTATION_WORKSPACE_MOVE, "move the workspace 64 bytes")) {
    shoal_instruction_t *mine = shoal_mutate_own_instruction(w);
    if (mine) mine->workspace_offset += mine->workspace_offset ? -64 : 64;
  }
  if (in->workspace > 0 &&
      shoal_mutate_due(w, SHOAL_MUTATION_WORKSPACE_HALVE, "halve the workspace")) {
    shoal_instruction_t *mine = shoal_mutate_own_instruction(w);
    if (mine) mine->workspace = (mine->workspace + 1) / 2;
  }
}
