// Races by brute force: every order is unrolled over more steps than the static check walks, who is
// done before whom is worked out for all pairs of instructions, and any two that touch the same
// bytes, one of them writing, must be ordered.
#ifndef SHOAL_TESTS_PROGRAM_RACE_H_
#define SHOAL_TESTS_PROGRAM_RACE_H_

#include "program_support.h"

typedef struct race_access {
  int64_t from, to;  // bytes
  bool write;
} race_access_t;

typedef struct race_instance {
  const shoal_instruction_t *in;
  SHOAL_VEC(race_access_t) accesses;
} race_instance_t;

typedef struct race {
  const shoal_class_t *class;
  shoal_arena_t arena;
  int64_t count, words;
  race_instance_t *instances;
  uint64_t *before;  // [instance][word], bit j: instance j is done before it starts
} race_t;

static inline void race_touch(race_t *r, race_instance_t *instance,
                              const shoal_segment_call_t *call, int64_t step, int32_t buffer,
                              bool write) {
  if (buffer < 0) return;
  const shoal_buffer_t *b = &r->class->buffers[buffer];
  const int64_t from =
      shoal_buffer_slot_place(r->class, b, shoal_call_slot(r->class, call, b->group, step));
  assert_true(
      SHOAL_PUSH(&r->arena, &instance->accesses, ((race_access_t){from, from + b->bytes, write})));
  race_touch(r, instance, call, step, b->count, false);
}

static inline bool race_conflict(const race_instance_t *a, const race_instance_t *b) {
  for (int64_t i = 0; i < a->accesses.count; ++i) {
    for (int64_t k = 0; k < b->accesses.count; ++k) {
      const race_access_t *x = &a->accesses.items[i], *y = &b->accesses.items[k];
      if ((x->write || y->write) && x->from < y->to && y->from < x->to) return true;
    }
  }
  return false;
}

static inline void race_after(const race_t *r, int64_t i, int64_t other) {
  uint64_t *mine = &r->before[i * r->words];
  for (int64_t k = 0; k < r->words; ++k) mine[k] |= r->before[other * r->words + k];
  mine[other / 64] |= UINT64_C(1) << other % 64;
}

static inline bool order_has_race(const shoal_class_t *class, const shoal_order_t *order) {
  const int64_t steps = 2 * shoal_class_period(class) + 2, calls = steps * order->call_count;
  race_t r = {.class = class};
  bool found = false;
  shoal_arena_init(shoal_allocator_system(), &r.arena);
  int64_t *first = SHOAL_NEW(&r.arena, int64_t, calls);
  for (int64_t k = 0; k < calls; ++k) {
    first[k] = r.count;
    r.count += class->segments[order->calls[k % order->call_count].segment].instruction_count;
  }
  r.words = (r.count + 63) / 64;
  r.instances = shoal_arena_alloc(&r.arena, (size_t)r.count, sizeof *r.instances);
  r.before = SHOAL_NEW(&r.arena, uint64_t, r.count * r.words);
  assert_true(r.instances && r.before);
  int64_t last[SHOAL_MAX_QUEUES];
  for (int q = 0; q < SHOAL_MAX_QUEUES; ++q) last[q] = -1;
  for (int64_t k = 0; k < calls; ++k) {
    const shoal_segment_call_t *call = &order->calls[k % order->call_count];
    const shoal_segment_t *segment = &class->segments[call->segment];
    for (int64_t i = 0; i < segment->instruction_count; ++i) {
      const shoal_instruction_t *in = &segment->instructions[i];
      race_instance_t *instance = &r.instances[first[k] + i];
      const int64_t step = k / order->call_count;
      instance->in = in;
      for (int32_t j = 0; j < in->input_count; ++j)
        race_touch(&r, instance, call, step, in->inputs[j], false);
      for (int32_t j = 0; j < in->output_count; ++j)
        race_touch(&r, instance, call, step, in->outputs[j], true);
      race_touch(&r, instance, call, step, in->predicate, false);
      if (in->workspace > 0)
        assert_true(SHOAL_PUSH(
            &r.arena, &instance->accesses,
            ((race_access_t){in->workspace_offset, in->workspace_offset + in->workspace, true})));
      if (last[in->queue] >= 0) race_after(&r, first[k] + i, last[in->queue]);
      for (int32_t j = 0; j < in->wait_count; ++j)
        race_after(&r, first[k] + i, first[k] + in->waits[j]);
      for (int32_t j = 0; j < call->wait_count; ++j) {
        const shoal_call_wait_t *wait = &call->waits[j];
        if (wait->instruction == i && k >= wait->back)
          race_after(&r, first[k] + i, first[k - wait->back] + wait->other);
      }
      last[in->queue] = first[k] + i;
    }
  }
  for (int64_t i = 0; i < r.count && !found; ++i) {
    for (int64_t k = 0; k < i && !found; ++k) {
      if (r.before[i * r.words + k / 64] >> k % 64 & 1) continue;
      found = race_conflict(&r.instances[i], &r.instances[k]);
    }
  }
  shoal_arena_deinit(&r.arena);
  return found;
}

static inline bool has_race(const shoal_program_t *program) {
  for (int64_t c = 0; c < program->class_count; ++c) {
    for (int64_t o = 0; o < program->classes[c].order_count; ++o) {
      if (order_has_race(&program->classes[c], &program->classes[c].orders[o])) return true;
    }
  }
  return false;
}

#endif  // SHOAL_TESTS_PROGRAM_RACE_H_
