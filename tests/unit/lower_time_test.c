// links: all
//
// Waits, within calls and into earlier ones, against a brute force: an order is unrolled over
// several steps, who is done before whom is worked out for all pairs, and every two accesses to the
// same bytes of which one writes must be ordered. And each wait is needed. All of it for the orders
// that lowering makes, and for others that a test writes.
#include "lower/time.h"

#include "lower_orders.h"

// ---- the unrolled order ----------------------------------------------------------------

enum { MAX_ACCESSES = 64 };

typedef struct extent {
  int64_t from, to;  // bytes
  bool write;
} extent_t;

typedef struct instance {
  const shoal_instruction_t *in;
  int64_t call;  // over all steps
  int32_t index, access_count;
  extent_t *accesses;
} instance_t;

typedef struct pair {
  int64_t first, second;
} pair_t;

typedef struct unrolled {
  const shoal_class_t *c;
  const shoal_order_t *order;
  int64_t count;
  instance_t *instances;
  int64_t *first;  // instance of each call, over all steps
  int64_t words;
  uint64_t *before;             // [instance][word]: bit j: instance j is done before it starts
  SHOAL_VEC(pair_t) conflicts;  // on different queues
  shoal_arena_t arena;
} unrolled_t;

static void list_accesses(unrolled_t *u, instance_t *instance, const shoal_segment_call_t *call,
                          int64_t step) {
  const shoal_instruction_t *in = instance->in;
  extent_t list[MAX_ACCESSES];
  int32_t count = 0;
  for (int32_t i = 0; i <= in->input_count + in->output_count; ++i) {
    const bool write = i >= in->input_count && i < in->input_count + in->output_count;
    const int32_t index = i < in->input_count ? in->inputs[i]
                          : write             ? in->outputs[i - in->input_count]
                                              : in->predicate;
    if (index < 0) continue;
    const shoal_buffer_t *buffer = &u->c->buffers[index];
    const int32_t slot = shoal_call_slot(u->c, call, buffer->group, step);
    assert_true(slot >= 0 && slot < shoal_buffer_slots(u->c, buffer) && count < MAX_ACCESSES);
    const int64_t from = shoal_buffer_slot_place(u->c, buffer, slot);
    list[count++] = (extent_t){from, from + buffer->bytes, write};
  }
  if (in->workspace > 0)
    list[count++] = (extent_t){in->workspace_offset, in->workspace_offset + in->workspace, true};
  instance->access_count = count;
  instance->accesses = shoal_arena_copy(&u->arena, list, (size_t)count, sizeof *list);
  assert_non_null(instance->accesses);
}

static bool conflicts(const instance_t *x, const instance_t *y) {
  for (int32_t i = 0; i < x->access_count; ++i)
    for (int32_t j = 0; j < y->access_count; ++j) {
      const extent_t *a = &x->accesses[i], *b = &y->accesses[j];
      if ((a->write || b->write) && a->from < b->to && b->from < a->to) return true;
    }
  return false;
}

static void unroll(unrolled_t *u, const shoal_class_t *c, const shoal_order_t *order,
                   int64_t steps) {
  *u = (unrolled_t){.c = c, .order = order};
  shoal_arena_init(shoal_allocator_system(), &u->arena);
  for (int64_t k = 0; k < order->call_count; ++k)
    u->count += steps * c->segments[order->calls[k].segment].instruction_count;
  u->instances = SHOAL_NEW(&u->arena, instance_t, u->count);
  u->first = SHOAL_NEW(&u->arena, int64_t, steps * order->call_count);
  u->words = (u->count + 63) / 64;
  u->before = SHOAL_NEW(&u->arena, uint64_t, u->count * u->words);
  assert_true(u->instances && u->first && u->before);
  int64_t at = 0;
  for (int64_t k = 0; k < steps * order->call_count; ++k) {
    const shoal_segment_call_t *call = &order->calls[k % order->call_count];
    const shoal_segment_t *segment = &c->segments[call->segment];
    u->first[k] = at;
    for (int32_t i = 0; i < segment->instruction_count; ++i, ++at) {
      u->instances[at] = (instance_t){.in = &segment->instructions[i], .call = k, .index = i};
      list_accesses(u, &u->instances[at], call, k / order->call_count);
    }
  }
  for (int64_t i = 0; i < u->count; ++i)
    for (int64_t j = 0; j < i; ++j)
      if (u->instances[i].in->queue != u->instances[j].in->queue &&
          conflicts(&u->instances[i], &u->instances[j]))
        assert_true(SHOAL_PUSH(&u->arena, &u->conflicts, (pair_t){j, i}));
}

// ---- who is done before whom -----------------------------------------------------------

static uint64_t *row(const unrolled_t *u, int64_t i) {
  return &u->before[i * u->words];
}

static void comes_after(const unrolled_t *u, int64_t i, int64_t other) {
  for (int64_t k = 0; k < u->words; ++k) row(u, i)[k] |= row(u, other)[k];
  row(u, i)[other / 64] |= UINT64_C(1) << other % 64;
}

static void work_out(const unrolled_t *u) {
  int64_t last[SHOAL_MAX_QUEUES];
  memset(u->before, 0, (size_t)(u->count * u->words) * sizeof *u->before);
  for (int q = 0; q < SHOAL_MAX_QUEUES; ++q) last[q] = -1;
  for (int64_t i = 0; i < u->count; ++i) {
    const instance_t *instance = &u->instances[i];
    const int32_t queue = instance->in->queue;
    const shoal_segment_call_t *call = &u->order->calls[instance->call % u->order->call_count];
    if (last[queue] >= 0) comes_after(u, i, last[queue]);
    last[queue] = i;
    for (int32_t k = 0; k < instance->in->wait_count; ++k)
      comes_after(u, i, u->first[instance->call] + instance->in->waits[k]);
    for (int32_t k = 0; k < call->wait_count; ++k) {
      const shoal_call_wait_t *wait = &call->waits[k];
      if (wait->instruction == instance->index && instance->call >= wait->back)
        comes_after(u, i, u->first[instance->call - wait->back] + wait->other);
    }
  }
}

// The first conflict that nothing orders, or NULL.
static const pair_t *find_race(const unrolled_t *u) {
  work_out(u);
  for (int64_t i = 0; i < u->conflicts.count; ++i) {
    const pair_t *pair = &u->conflicts.items[i];
    if (!(row(u, pair->second)[pair->first / 64] >> pair->first % 64 & 1)) return pair;
  }
  return NULL;
}

// ---- no race ---------------------------------------------------------------------------

static void for_each_order(shoal_program_t *program, int64_t more, const example_t *example,
                           void (*fn)(const example_t *example, const unrolled_t *u)) {
  for (int64_t k = 0; k < program->class_count; ++k)
    for (int64_t o = 0; o < program->classes[k].order_count; ++o) {
      unrolled_t u;
      unroll(&u, &program->classes[k], &program->classes[k].orders[o],
             shoal_class_period(&program->classes[k]) + more);
      fn(example, &u);
      shoal_arena_deinit(&u.arena);
    }
}

static void expect_no_race(const example_t *example, const unrolled_t *u) {
  const pair_t *race = find_race(u);
  if (!race) return;
  const instance_t *first = &u->instances[race->first], *second = &u->instances[race->second];
  fail_msg("%s, '%s': '%s' in call %lld and '%s' in call %lld of %lld a step", example->name,
           u->order->graph, first->in->name, (long long)first->call, second->in->name,
           (long long)second->call, (long long)u->order->call_count);
}

static void expect_ordered(const example_t *example, shoal_program_t *program) {
  for_each_order(program, 2, example, expect_no_race);
}

static void test_conflicts_are_ordered(void **state) {
  (void)state;
  for_each_example(expect_ordered);
}

// ---- no wait for nothing ---------------------------------------------------------------

static int64_t waits_into_calls;

static void expect_each_needed(const example_t *example, const unrolled_t *u) {
  for (int64_t k = 0; k < u->order->call_count; ++k) {
    shoal_segment_call_t *call = &u->order->calls[k];
    const shoal_call_wait_t *all = call->waits;
    for (int32_t i = 0; i < call->wait_count; ++i) {
      shoal_call_wait_t *changed = test_calloc((size_t)call->wait_count, sizeof *changed);
      memcpy(changed, all, (size_t)call->wait_count * sizeof *changed);
      changed[i].instruction = -1;
      call->waits = changed;
      if (!find_race(u))
        fail_msg("%s, '%s', call %lld: instruction %d need not wait for %d calls back, %d",
                 example->name, u->order->graph, (long long)k, all[i].instruction, all[i].back,
                 all[i].other);
      call->waits = all;
      test_free(changed);
      ++waits_into_calls;
    }
  }
}

static void expect_needed(const example_t *example, shoal_program_t *program) {
  for_each_order(program, 1, example, expect_each_needed);
}

static void test_each_wait_is_needed(void **state) {
  (void)state;
  waits_into_calls = 0;
  for_each_example(expect_needed);
  assert_true(waits_into_calls > 100);
}

// Waits stand in the order of instructions: whoever runs a call reads them once, in passing.
static void expect_sorted(const example_t *example, shoal_program_t *program) {
  (void)example;
  for (int64_t k = 0; k < program->class_count; ++k)
    for (int64_t o = 0; o < program->classes[k].order_count; ++o)
      for (int64_t i = 0; i < program->classes[k].orders[o].call_count; ++i) {
        const shoal_segment_call_t *call = &program->classes[k].orders[o].calls[i];
        for (int32_t w = 1; w < call->wait_count; ++w)
          assert_true(call->waits[w - 1].instruction <= call->waits[w].instruction);
      }
}

static void test_waits_are_sorted(void **state) {
  (void)state;
  for_each_example(expect_sorted);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_conflicts_are_ordered),
      cmocka_unit_test(test_each_wait_is_needed),
      cmocka_unit_test(test_waits_are_sorted),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
