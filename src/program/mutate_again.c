// Mutations of what is made a second time in a step, recomputed or gathered again: it is done
// before what it needs is there, or its reader takes what was made the first time, though that
// memory has been given to others since.
#include <string.h>

#include "program/mutate_impl.h"

// The buffer in which the same value was made before, in the same layout; -1: none.
static int32_t find_twin(const shoal_class_t *class, int32_t index) {
  if (index < 0 || class->buffers[index].kind != SHOAL_BUFFER_TEMP) return -1;
  const shoal_buffer_t *buffer = &class->buffers[index];
  for (int32_t i = 0; i < index; ++i) {
    const shoal_buffer_t *other = &class->buffers[i];
    if (other->kind == SHOAL_BUFFER_TEMP && other->layout == buffer->layout &&
        other->group == buffer->group && strcmp(other->name, buffer->name) == 0)
      return i;
  }
  return -1;
}

static bool overlap(const shoal_class_t *class, int32_t first, int32_t second) {
  const shoal_buffer_t *a = &class->buffers[first], *b = &class->buffers[second];
  return a->memory == b->memory && a->bytes > 0 && b->bytes > 0 &&
         a->offset < b->offset + b->bytes * shoal_buffer_slots(class, b) &&
         b->offset < a->offset + a->bytes * shoal_buffer_slots(class, a);
}

// Is the buffer made in the segment and written over by another before instruction `end`?
static bool is_overwritten(const shoal_class_t *class, const shoal_segment_t *segment,
                           int32_t buffer, int64_t end) {
  bool written = false, overwritten = false;
  for (int64_t i = 0; i < end; ++i) {
    const shoal_instruction_t *in = &segment->instructions[i];
    for (int32_t o = 0; o < in->output_count; ++o) {
      if (in->outputs[o] < 0) continue;
      if (in->outputs[o] == buffer)
        written = true, overwritten = false;
      else if (written && overlap(class, in->outputs[o], buffer))
        overwritten = true;
    }
  }
  return overwritten;
}

// The instruction of the segment that makes what this one reads, on the same queue; -1: none.
static int64_t find_maker(const shoal_segment_t *segment, int64_t index) {
  const shoal_instruction_t *in = &segment->instructions[index];
  for (int64_t i = index; i-- > 0;)
    for (int32_t o = 0; o < segment->instructions[i].output_count; ++o)
      for (int32_t k = 0; k < in->input_count; ++k)
        if (in->inputs[k] >= 0 && in->inputs[k] == segment->instructions[i].outputs[o])
          return segment->instructions[i].queue == in->queue ? i : -1;
  return -1;
}

// To where `to` is, which comes right behind.
static void move_up(walk_t *w, const shoal_segment_t *former, int64_t to) {
  shoal_segment_t *segment = shoal_mutate_own_segment(w);
  const int64_t at = w->place.instruction;
  mutate_moves_t moves;
  if (!segment || !shoal_mutate_stay(w, former, &moves)) return;
  const shoal_instruction_t moved = segment->instructions[at];
  memmove(segment->instructions + to + 1, segment->instructions + to,
          (size_t)(at - to) * sizeof *segment->instructions);
  segment->instructions[to] = moved;
  for (int64_t i = to; i < at; ++i) moves.source[i] = moves.target[i] = (int32_t)i + 1;
  moves.source[at] = moves.target[at] = (int32_t)to;
  shoal_mutate_move_waits(w, segment, &moves);
}

void shoal_mutate_again(walk_t *w, const shoal_segment_t *segment) {
  const shoal_class_t *class = place_class(&w->place);
  const int64_t at = w->place.instruction;
  const shoal_instruction_t *in = &segment->instructions[at];
  if (in->output_count > 0 && find_twin(class, in->outputs[0]) >= 0) {
    const int64_t maker = find_maker(segment, at);
    if (maker >= 0 &&
        shoal_mutate_due(w, SHOAL_MUTATION_AGAIN,
                         "make it again before instruction %lld, which it needs", (long long)maker))
      move_up(w, segment, maker);
  }
  for (int32_t i = 0; i < in->input_count; ++i) {
    const int32_t twin = find_twin(class, in->inputs[i]);
    if (twin < 0 || !is_overwritten(class, segment, twin, at)) continue;
    if (shoal_mutate_due(w, SHOAL_MUTATION_AGAIN, "read '%s' as it was made the first time",
                         class->buffers[twin].name))
      shoal_mutate_read(w, i, twin);
  }
}
