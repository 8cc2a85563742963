// Mutations are counted and found by one walk: walk_all() passes every place of the program where
// something can be changed and asks shoal_mutate_due() whether this is the one. Nothing is stored
// per mutation.
//
// A mutated program is a copy of what is changed; the rest is borrowed. Where instructions or calls
// are dropped, doubled or swapped, the waits of the others follow them (mutate_waits.c), so that
// only the instruction itself is missing or out of place.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "program/mutate_impl.h"

// ---- copies -------------------------------------------------------------------------

void *shoal_mutate_own(walk_t *w, const void *data, int64_t count, size_t size) {
  void *copy = shoal_arena_copy(w->arena, data, (size_t)count, size);
  if (!copy) w->failed = true;
  return copy;
}

shoal_class_t *shoal_mutate_own_class(walk_t *w) {
  if (w->program.classes == w->from->classes) {
    w->program.classes =
        shoal_mutate_own(w, w->from->classes, w->from->class_count, sizeof *w->from->classes);
  }
  return w->failed ? NULL : &w->program.classes[w->place.class];
}

shoal_buffer_t *shoal_mutate_own_buffer(walk_t *w, int64_t index) {
  shoal_class_t *class = shoal_mutate_own_class(w);
  if (!class) return NULL;
  class->buffers = shoal_mutate_own(w, class->buffers, class->buffer_count, sizeof *class->buffers);
  return w->failed ? NULL : &class->buffers[index];
}

shoal_segment_t *shoal_mutate_own_segment(walk_t *w) {
  shoal_class_t *class = shoal_mutate_own_class(w);
  if (!class) return NULL;
  class->segments =
      shoal_mutate_own(w, class->segments, class->segment_count, sizeof *class->segments);
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

shoal_instruction_t *shoal_mutate_own_instruction(walk_t *w) {
  shoal_segment_t *segment = shoal_mutate_own_segment(w);
  return segment ? &segment->instructions[w->place.instruction] : NULL;
}

void shoal_mutate_read(walk_t *w, int32_t input, int32_t buffer) {
  shoal_instruction_t *mine = shoal_mutate_own_instruction(w);
  int32_t *inputs =
      mine ? shoal_mutate_own(w, mine->inputs, mine->input_count, sizeof *inputs) : NULL;
  if (!inputs) return;
  inputs[input] = buffer;
  mine->inputs = inputs;
}

shoal_order_t *shoal_mutate_own_order(walk_t *w, int64_t index) {
  shoal_class_t *class = shoal_mutate_own_class(w);
  if (!class) return NULL;
  class->orders = shoal_mutate_own(w, class->orders, class->order_count, sizeof *class->orders);
  if (w->failed) return NULL;
  shoal_order_t *order = &class->orders[index];
  order->calls = shoal_mutate_own(w, order->calls, order->call_count, sizeof *order->calls);
  return w->failed ? NULL : order;
}

// ---- counting -----------------------------------------------------------------------

bool shoal_mutate_due(walk_t *w, shoal_mutation_kind_t kind, const char *format, ...) {
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

// ---- buffers, slots, channels ------------------------------------------------------

static const shoal_layout_t *without_last_cut(walk_t *w, const shoal_layout_t *layout) {
  shoal_layout_t *mine = shoal_mutate_own(w, layout, 1, sizeof *layout);
  if (!mine) return layout;
  --mine->cut_count;
  return mine;
}

// Lays what waits in host or file memory over the next that does: what was put there first is
// overwritten before it is read back, if both wait at once.
static void walk_offloaded(walk_t *w, int64_t index) {
  const shoal_class_t *class = place_class(&w->place);
  const shoal_buffer_t *buffer = &class->buffers[index];
  if (buffer->memory == SHOAL_MEMORY_DEVICE || buffer->bytes == 0) return;
  for (int64_t k = 1; k < class->buffer_count; ++k) {
    const shoal_buffer_t *other = &class->buffers[(index + k) % class->buffer_count];
    const int64_t bytes = buffer->bytes * shoal_buffer_slots(class, buffer);
    if (other->memory != buffer->memory || other->bytes == 0 || other->offset == buffer->offset ||
        other->offset + bytes > class->arena_bytes[buffer->memory])
      continue;
    if (!shoal_mutate_due(w, SHOAL_MUTATION_OFFLOAD, "lay '%s' over '%s' in %s memory",
                          buffer->name, other->name, shoal_memory_kind_name(buffer->memory)))
      return;
    shoal_buffer_t *mine = shoal_mutate_own_buffer(w, index);
    if (mine) mine->offset = other->offset;
    return;
  }
}

static void walk_buffer(walk_t *w, int64_t index) {
  const shoal_buffer_t *buffer = &place_class(&w->place)->buffers[index];
  shoal_buffer_t *mine;
  if (buffer->bytes > 0 &&
      shoal_mutate_due(w, SHOAL_MUTATION_BUFFER_MOVE, "move buffer %lld '%s' 64 bytes",
                       (long long)index, buffer->name)) {
    if ((mine = shoal_mutate_own_buffer(w, index))) mine->offset += mine->offset ? -64 : 64;
  }
  if (buffer->bytes > 0 &&
      shoal_mutate_due(w, SHOAL_MUTATION_BUFFER_LESS, "give buffer %lld '%s' 64 bytes less",
                       (long long)index, buffer->name)) {
    if ((mine = shoal_mutate_own_buffer(w, index))) mine->bytes -= 64;
  }
  if (shoal_mutate_due(w, SHOAL_MUTATION_BUFFER_MORE, "give buffer %lld '%s' 64 bytes more",
                       (long long)index, buffer->name)) {
    if ((mine = shoal_mutate_own_buffer(w, index))) mine->bytes += 64;
  }
  if (buffer->group >= 0 &&
      shoal_mutate_due(w, SHOAL_MUTATION_BUFFER_SLOT, "take the slots of buffer %lld '%s'",
                       (long long)index, buffer->name)) {
    if ((mine = shoal_mutate_own_buffer(w, index))) mine->group = -1;
  }
  if (buffer->layout->cut_count > 0 &&
      shoal_mutate_due(w, SHOAL_MUTATION_BUFFER_CUT, "drop the last cut of buffer %lld '%s'",
                       (long long)index, buffer->name)) {
    if ((mine = shoal_mutate_own_buffer(w, index)))
      mine->layout = without_last_cut(w, mine->layout);
  }
  walk_offloaded(w, index);
}

static shoal_slot_group_t *own_group(walk_t *w, int32_t index) {
  shoal_class_t *class = shoal_mutate_own_class(w);
  if (!class) return NULL;
  class->slot_groups =
      shoal_mutate_own(w, class->slot_groups, class->slot_group_count, sizeof *class->slot_groups);
  return w->failed ? NULL : &class->slot_groups[index];
}

// Calls that name the last slot name the first one then.
static void take_slot(walk_t *w, int32_t index) {
  shoal_slot_group_t *group = own_group(w, index);
  if (!group) return;
  --group->slots;
  const shoal_class_t *class = place_class(&w->place);
  for (int64_t o = 0; o < class->order_count; ++o) {
    shoal_order_t *order = shoal_mutate_own_order(w, o);
    for (int64_t k = 0; order && k < order->call_count; ++k) {
      if (order->calls[k].slots[index] < group->slots) continue;
      int32_t *slots =
          shoal_mutate_own(w, order->calls[k].slots, class->slot_group_count, sizeof *slots);
      if (!slots) return;
      slots[index] = 0;
      order->calls[k].slots = slots;
    }
  }
}

static void walk_group(walk_t *w, int32_t index) {
  const shoal_slot_group_t *group = &place_class(&w->place)->slot_groups[index];
  if (group->slots > 1 &&
      shoal_mutate_due(w, SHOAL_MUTATION_GROUP_SLOT, "give slot group %d one slot less", index)) {
    take_slot(w, index);
  }
  if (group->by_step && group->slots > 1 &&
      shoal_mutate_due(w, SHOAL_MUTATION_GROUP_STEP,
                       "the slots of group %d stay the same in all "
                       "steps",
                       index)) {
    shoal_slot_group_t *mine = own_group(w, index);
    if (mine) mine->by_step = false;
  }
}

// What all sides agree on: nobody's buffers fit it any more, or everybody's peers and groups
// change.
static void walk_channel(walk_t *w, int64_t index) {
  const shoal_channel_t *channel = &w->from->channels[index];
  for (int side = 0; side < 2; ++side) {
    const shoal_layout_t *layout = side ? channel->dst : channel->src;
    if (layout->cut_count == 0) continue;
    if (!shoal_mutate_due(w, SHOAL_MUTATION_CHANNEL_CUT, "drop the last cut of channel %lld's %s",
                          (long long)index, side ? "destination" : "source")) {
      continue;
    }
    w->program.channels =
        shoal_mutate_own(w, w->from->channels, w->from->channel_count, sizeof *channel);
    if (w->failed) return;
    shoal_channel_t *mine = &w->program.channels[index];
    *(side ? &mine->dst : &mine->src) = without_last_cut(w, layout);
  }
  const int32_t lane = (channel->lane + 1) % SHOAL_MAX_LANES;
  if (shoal_mutate_due(w, SHOAL_MUTATION_CHANNEL_LANE, "channel %lld takes lane %d instead of %d",
                       (long long)index, lane, channel->lane)) {
    w->program.channels =
        shoal_mutate_own(w, w->from->channels, w->from->channel_count, sizeof *channel);
    if (!w->failed) w->program.channels[index].lane = lane;
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
    for (int32_t g = 0; g < class->slot_group_count && !w->found; ++g) walk_group(w, g);
    for (int64_t b = 0; b < class->buffer_count && !w->found; ++b) walk_buffer(w, b);
    for (int64_t i = 0; i < class->order_count && !w->found; ++i) shoal_mutate_order(w, i);
    for (int64_t s = 0; s < class->segment_count && !w->found; ++s) {
      w->place.segment = s;
      for (int64_t i = 0; i < class->segments[s].instruction_count && !w->found; ++i) {
        w->place.instruction = i;
        shoal_mutate_instruction(w, &class->segments[s]);
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
