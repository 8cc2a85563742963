// Slots: how many values of a buffer are in flight at once, and which call means which of them.
//
// A value of the micro-batch loop that is made in one call and used in another lives from the first
// call of its micro-batch that touches it to the last. Buffers for which these are calls of the
// same segments form a group, with as many slots as micro-batches are in flight at once; this
// follows from the order alone, whatever it is. What is received or fed gets one more, where there
// are so many micro-batches, so that the next one may come in while this one is read; a call takes
// the slot that has been free for longest. Inputs that are fed once a step have two slots, by step.
#include <string.h>

#include "base/arena.h"
#include "base/status.h"
#include "lower/time.h"
#include "program/bind.h"

typedef enum source { SOURCE_MADE, SOURCE_RECEIVED, SOURCE_FED } source_t;

// A group in the making.
typedef struct group {
  int32_t order, first, last;  // segments; order -1: slots by step
  source_t source;
  bool *segments;  // that touch it
  int32_t slots;
} group_t;

// What the present order does with a buffer.
typedef struct use {
  int32_t first, last;  // segments, as micro-batch 0 calls them; -1: none
  source_t source;
} use_t;

typedef struct slots {
  const shoal_program_t *program;
  shoal_class_t *c;
  shoal_arena_t *scratch;
  SHOAL_VEC(group_t) groups;
  use_t *uses;     // by buffer
  bool *called;    // by segment: in the present order
  int64_t *calls;  // [segment * micro + micro-batch]: call of the present order; -1: none
} slots_t;

static int64_t *call_of(const slots_t *s, int32_t segment, int64_t micro) {
  return &s->calls[segment * s->program->micro + micro];
}

static bool is_looped(const slots_t *s, const shoal_buffer_t *buffer) {
  return s->program->micro > 1 && shoal_layout_along(buffer->layout, SHOAL_AXIS_MICRO) != NULL;
}

// ---- groups ---------------------------------------------------------------------------

static void note(slots_t *s, const shoal_instruction_t *in, int32_t segment,
                 shoal_access_t access) {
  use_t *use = &s->uses[access.buffer];
  if (use->first < 0) *use = (use_t){segment, segment, SOURCE_MADE};
  if (*call_of(s, segment, 0) < *call_of(s, use->first, 0)) use->first = segment;
  if (*call_of(s, segment, 0) > *call_of(s, use->last, 0)) use->last = segment;
  if (!access.write) return;
  if (in->opcode == SHOAL_OPCODE_FEED) use->source = SOURCE_FED;
  if (in->opcode == SHOAL_OPCODE_RESHARD && in->inputs[0] < 0) use->source = SOURCE_RECEIVED;
}

// The group that a buffer belongs to; -1: it needs none.
static shoal_status_t group_of(slots_t *s, int32_t order, const shoal_buffer_t *buffer,
                               const use_t *use, int32_t *out_group) {
  group_t group = {.order = order, .first = use->first, .last = use->last, .source = use->source};
  *out_group = -1;
  if (buffer->kind == SHOAL_BUFFER_STATE || buffer->kind == SHOAL_BUFFER_NEXT) return NULL;
  if (!is_looped(s, buffer)) {
    if (use->source != SOURCE_FED) return NULL;
    group = (group_t){.order = -1, .slots = 2};
  } else if (use->first == use->last && use->source == SOURCE_MADE) {
    return NULL;
  }
  for (int64_t i = 0; i < s->groups.count; ++i) {
    const group_t *known = &s->groups.items[i];
    if (known->order == group.order && known->first == group.first && known->last == group.last &&
        known->source == group.source) {
      *out_group = (int32_t)i;
      return NULL;
    }
  }
  *out_group = (int32_t)s->groups.count;
  group.segments = SHOAL_NEW(s->scratch, bool, s->c->segment_count);
  return group.segments && SHOAL_PUSH(s->scratch, &s->groups, group) ? NULL : SHOAL_OOM();
}

// What the segments of an order do with buffers: first all of it, then into the groups it goes.
static void note_segment(slots_t *s, int32_t segment, bool in_groups) {
  const shoal_segment_t *text = &s->c->segments[segment];
  for (int64_t i = 0; i < text->instruction_count; ++i) {
    const shoal_instruction_t *in = &text->instructions[i];
    shoal_access_t access;
    for (int32_t k = 0; k < shoal_access_count(in); ++k) {
      if (!shoal_access_at(s->c, in, k, &access) || access.buffer < 0) continue;
      const int32_t group = s->c->buffers[access.buffer].group;
      if (!in_groups)
        note(s, in, segment, access);
      else if (group >= 0)
        s->groups.items[group].segments[segment] = true;
    }
  }
}

// Where the order calls each segment.
static void find_calls(slots_t *s, const shoal_order_t *order) {
  for (int64_t i = 0; i < s->c->segment_count * s->program->micro; ++i) s->calls[i] = -1;
  for (int64_t k = 0; k < order->call_count; ++k) {
    const shoal_segment_call_t *call = &order->calls[k];
    s->called[call->segment] = true;
    *call_of(s, call->segment, call->micro < 0 ? 0 : call->micro) = k;
  }
}

static shoal_status_t make_groups(slots_t *s, int32_t index) {
  shoal_class_t *c = s->c;
  memset(s->called, 0, (size_t)c->segment_count * sizeof *s->called);
  for (int64_t b = 0; b < c->buffer_count; ++b) s->uses[b] = (use_t){-1, -1, SOURCE_MADE};
  find_calls(s, &c->orders[index]);
  for (int32_t i = 0; i < c->segment_count; ++i)
    if (s->called[i]) note_segment(s, i, false);
  for (int64_t b = 0; b < c->buffer_count; ++b)
    if (s->uses[b].first >= 0)
      SHOAL_RETURN_IF_ERROR(group_of(s, index, &c->buffers[b], &s->uses[b], &c->buffers[b].group));
  for (int32_t i = 0; i < c->segment_count; ++i)
    if (s->called[i]) note_segment(s, i, true);
  return NULL;
}

// ---- slots ----------------------------------------------------------------------------

typedef struct stay {
  int64_t first, last;  // call; -1: none
} stay_t;

// From the first call of each micro-batch that touches a group to the last.
static void find_stays(const slots_t *s, const group_t *group, stay_t *stays) {
  for (int64_t m = 0; m < s->program->micro; ++m) {
    stays[m] = (stay_t){-1, -1};
    for (int32_t i = 0; i < s->c->segment_count; ++i) {
      const int64_t call = group->segments[i] ? *call_of(s, i, m) : -1;
      if (call < 0) continue;
      if (stays[m].first < 0 || call < stays[m].first) stays[m].first = call;
      if (call > stays[m].last) stays[m].last = call;
    }
  }
}

static int32_t most_in_flight(const slots_t *s, const shoal_order_t *order, const group_t *group,
                              const stay_t *stays) {
  int32_t count = 0, most = 0;
  for (int64_t k = 0; k < order->call_count; ++k) {
    const shoal_segment_call_t *call = &order->calls[k];
    if (call->micro < 0 || !group->segments[call->segment]) continue;
    if (stays[call->micro].first == k && ++count > most) most = count;
    count -= stays[call->micro].last == k;
  }
  return most < s->program->micro && group->source != SOURCE_MADE ? most + 1 : most;
}

// The slot that has been free for longest: who writes it waits least. `ring` has the free ones.
static void deal_slots(const shoal_order_t *order, const group_t *group, const stay_t *stays,
                       int32_t *ring, int32_t *of_micro, int32_t *of_call) {
  int64_t taken = 0, given = group->slots;
  for (int32_t i = 0; i < group->slots; ++i) ring[i] = i;
  for (int64_t k = 0; k < order->call_count; ++k) {
    const int32_t micro = order->calls[k].micro;
    if (micro < 0 || !group->segments[order->calls[k].segment]) continue;
    if (stays[micro].first == k) of_micro[micro] = ring[taken++ % group->slots];
    of_call[k] = of_micro[micro];
    if (stays[micro].last == k) ring[given++ % group->slots] = of_micro[micro];
  }
  // Whatever the order is, micro-batch 0 has slot 0 (shoal_buffer_slot_offset says why).
  const int32_t first = of_micro[0];
  for (int64_t k = 0; k < order->call_count; ++k) {
    if (of_call[k] == first) {
      of_call[k] = 0;
    } else if (of_call[k] == 0) {
      of_call[k] = first;
    }
  }
}

// Of every group: by call of the order, -1 where it does not touch it.
static shoal_status_t number_slots(slots_t *s, int32_t index, int32_t **out_of_calls) {
  const shoal_order_t *order = &s->c->orders[index];
  const int64_t micro = s->program->micro;
  stay_t *stays = SHOAL_NEW(s->scratch, stay_t, micro);
  int32_t *ring = SHOAL_NEW(s->scratch, int32_t, micro + 1);
  int32_t *of_micro = SHOAL_NEW(s->scratch, int32_t, micro);
  if (!stays || !ring || !of_micro) return SHOAL_OOM();
  find_calls(s, order);
  for (int64_t g = 0; g < s->groups.count; ++g) {
    group_t *group = &s->groups.items[g];
    int32_t *of_call = out_of_calls[g] = SHOAL_NEW(s->scratch, int32_t, order->call_count);
    if (!of_call) return SHOAL_OOM();
    for (int64_t k = 0; k < order->call_count; ++k)
      of_call[k] = group->order < 0 && group->segments[order->calls[k].segment] ? 0 : -1;
    if (group->order != index) continue;
    find_stays(s, group, stays);
    group->slots = most_in_flight(s, order, group, stays);
    deal_slots(order, group, stays, ring, of_micro, of_call);
  }
  return NULL;
}

static shoal_status_t write_slots(slots_t *s, int32_t index, shoal_arena_t *arena) {
  const shoal_order_t *order = &s->c->orders[index];
  int32_t **of_calls = SHOAL_NEW(s->scratch, int32_t *, s->groups.count);
  int32_t *slots = SHOAL_NEW(arena, int32_t, order->call_count * s->groups.count);
  if (!of_calls || !slots) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(number_slots(s, index, of_calls));
  for (int64_t k = 0; k < order->call_count; ++k) {
    order->calls[k].slots = s->groups.count > 0 ? slots : NULL;
    for (int64_t g = 0; g < s->groups.count; ++g) *slots++ = of_calls[g][k];
  }
  return NULL;
}

static shoal_status_t plan_slots(slots_t *s, shoal_arena_t *arena) {
  shoal_class_t *c = s->c;
  s->uses = SHOAL_NEW(s->scratch, use_t, c->buffer_count);
  s->called = SHOAL_NEW(s->scratch, bool, c->segment_count);
  s->calls = SHOAL_NEW(s->scratch, int64_t, c->segment_count * s->program->micro);
  if (!s->uses || !s->called || !s->calls) return SHOAL_OOM();
  for (int64_t b = 0; b < c->buffer_count; ++b) c->buffers[b].group = -1;
  for (int32_t i = 0; i < c->order_count; ++i) SHOAL_RETURN_IF_ERROR(make_groups(s, i));
  for (int32_t i = 0; i < c->order_count; ++i) SHOAL_RETURN_IF_ERROR(write_slots(s, i, arena));
  c->slot_groups = SHOAL_NEW(arena, shoal_slot_group_t, s->groups.count);
  if (!c->slot_groups) return SHOAL_OOM();
  c->slot_group_count = (int32_t)s->groups.count;
  for (int64_t g = 0; g < s->groups.count; ++g)
    c->slot_groups[g] =
        (shoal_slot_group_t){s->groups.items[g].slots, s->groups.items[g].order < 0};
  return NULL;
}

shoal_status_t shoal_lower_slots(const shoal_program_t *program, shoal_class_t *c,
                                 shoal_allocator_t allocator) {
  shoal_arena_t scratch;
  shoal_arena_init(allocator, &scratch);
  slots_t s = {.program = program, .c = c, .scratch = &scratch};
  shoal_status_t status = plan_slots(&s, program->arena);
  shoal_arena_deinit(&scratch);
  return status;
}
