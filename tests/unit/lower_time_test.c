// links: all
//
// Waits, within calls and into earlier ones, against a brute force: an order is unrolled over
// several steps, who is done before whom is worked out for all pairs, and every two accesses to the
// same bytes of which one writes must be ordered. And each wait is needed. Slots against a shadow
// of the arena. All of it for the orders that lowering makes, and for others that a test writes.
#include "lower/time.h"

#include <stdlib.h>

#include "plan_fixture.h"

// ---- plans of all kinds ---------------------------------------------------------------

enum { MAX_MESHES = 4 };

typedef struct example {
  const char *name;
  const char *strategy, *mesh;  // of a GPT
  int32_t world;
  int32_t layers, each;  // of an MLP, dealt out to meshes, some at a time
  const char *meshes[MAX_MESHES];
  bool reordered;  // also with another order of calls
} example_t;

static const example_t EXAMPLES[] = {
    {"one rank", "single", NULL, 1},
    {"gradients", "data", "data=2", 2},
    {"gradients over micro-batches", "data", "data=2,micro=3", 2},
    {"tensor", "tensor", "data=2,tensor=2,micro=2", 4},
    {"2 stages", .reordered = true, .world = 5, .layers = 2, .each = 1,
     .meshes = {"a!data=2,micro=3@0-1", "b!data=3,micro=3@2-4"}},
    {"3 stages", .reordered = true, .world = 3, .layers = 6, .each = 2,
     .meshes = {"a!data=1,micro=5@0", "b!data=1,micro=5@1", "c!data=1,micro=5@2"}},
    {"4 stages", .reordered = true, .world = 4, .layers = 8, .each = 2,
     .meshes = {"a!data=1,micro=4@0", "b!data=1,micro=4@1", "c!data=1,micro=4@2",
                "d!data=1,micro=4@3"}},
    {"2 stages of 2 parts each", .reordered = true, .world = 2, .layers = 8, .each = 2,
     .meshes = {"a!data=1,micro=4@0", "b!data=1,micro=4@1"}},
    {"3 stages of 2 parts each", .reordered = true, .world = 3, .layers = 6, .each = 1,
     .meshes = {"a!data=1,micro=4@0", "b!data=1,micro=4@1", "c!data=1,micro=4@2"}},
    {"stages that share a rank", .world = 3, .layers = 2, .each = 1,
     .meshes = {"a!data=2,micro=3@0-1", "b!data=2,micro=3@1-2"}},
};

// Meshes take turns, as interleaved stages do.
static shoal_plan_t *staged(const example_t *example, const shoal_model_t *model) {
  static const char *const patterns[] = {"*fc1/*", "*fc2/*", "*fc3/*", "*fc4/*",
                                         "*fc5/*", "*fc6/*", "*fc7/*", "*fc8/*"};
  static const char *const names[] = {"a", "b", "c", "d"};
  shoal_intent_entry_t stages[12], layouts[2];
  int64_t meshes = 0, count = 0;
  char last[40];
  while (meshes < MAX_MESHES && example->meshes[meshes]) ++meshes;
  const char *end = names[(example->layers - 1) / example->each % meshes];
  for (int64_t i = 0; i < example->layers; ++i)
    stages[count++] = (shoal_intent_entry_t){patterns[i], names[i / example->each % meshes]};
  stages[count++] = (shoal_intent_entry_t){"cross_entropy", end};
  snprintf(last, sizeof last, "%s!micro:0,data:0", end);
  layouts[0] = (shoal_intent_entry_t){"x", "a!micro:0,data:0"};
  layouts[1] = (shoal_intent_entry_t){"y", last};
  shoal_plan_t *plan;
  assert_ok(shoal_plan_create(model, rules,
                              &(shoal_intent_t){.mesh_count = meshes,
                                                .meshes = example->meshes,
                                                .layout_count = 2,
                                                .layouts = layouts,
                                                .stage_count = count,
                                                .stages = stages},
                              example->world, shoal_allocator_system(), &plan));
  return plan;
}

static shoal_model_t *example_model(const example_t *example) {
  if (!example->strategy)
    return make_mlp(&(shoal_mlp_options_t){
        .batch = 9, .in_features = 5, .hidden = 9, .classes = 3, .layers = example->layers});
  return make_gpt(&(shoal_gpt_options_t){
      .batch = 6, .context = 6, .vocabulary = 11, .width = 16, .heads = 4, .layers = 1});
}

// ---- other orders ----------------------------------------------------------------------

enum { MAX_CALLS = 64 };

// The loop of a class, dealt out anew.
typedef struct schedule {
  shoal_order_t *order;
  int32_t segment_count, segments[8], depths[8];  // of the loop
  int32_t limit;                                  // micro-batches in flight
  int32_t begun, ended;
  int32_t ticks[8][8];  // [segment][micro-batch]: when it is called, from 1; 0: not yet
  int32_t call_count;
  shoal_segment_call_t calls[MAX_CALLS];
} schedule_t;

static void read_schedule(schedule_t *s, const shoal_class_t *c, int32_t limit) {
  *s = (schedule_t){.order = (shoal_order_t *)order_of(c, "train"), .limit = limit};
  for (int64_t k = 0; k < s->order->call_count; ++k) {
    const shoal_segment_call_t *call = &s->order->calls[k];
    if (call->micro != 0) continue;
    assert_true(s->segment_count < 8);
    s->segments[s->segment_count] = call->segment;
    const char *depth = strstr(c->segments[call->segment].name, "loop.") + 5;
    s->depths[s->segment_count++] = (int32_t)strtol(depth, NULL, 10);
  }
}

// Has every class done all of the micro-batch that comes before this depth? (What others feed
// themselves does not matter.)
static bool is_ready(const schedule_t *all, int64_t classes, const schedule_t *s, int32_t depth,
                     int32_t micro, int32_t tick) {
  for (int64_t k = 0; k < classes; ++k)
    for (int32_t i = 0; i < all[k].segment_count && all[k].depths[i] < depth; ++i) {
      if (all[k].depths[i] == 0 && k > 0 && &all[k] != s) continue;
      if (all[k].ticks[i][micro] == 0 || all[k].ticks[i][micro] == tick) return false;
    }
  return true;
}

// When a class calls the segment of a depth, and which does; 0: not yet, or there is none.
static int32_t tick_of(const schedule_t *all, int64_t classes, int32_t depth, int32_t micro,
                       int64_t *out_class) {
  for (int64_t k = 0; k < classes; ++k)
    for (int32_t i = 0; i < all[k].segment_count; ++i) {
      if (all[k].depths[i] != depth || (depth == 0 && k > 0)) continue;
      *out_class = k;
      return all[k].ticks[i][micro];
    }
  *out_class = -1;
  return 0;
}

// Messages from one class to another come in the order in which they are sent.
static bool is_next(const schedule_t *all, int64_t classes, const schedule_t *s, int32_t index,
                    int32_t micro, int32_t micro_count) {
  int64_t from, other;
  const int32_t sent = tick_of(all, classes, s->depths[index] - 1, micro, &from);
  for (int32_t i = 0; i < s->segment_count; ++i)
    for (int32_t m = 0; m < micro_count; ++m) {
      const int32_t before = tick_of(all, classes, s->depths[i] - 1, m, &other);
      if (s->ticks[i][m] == 0 && other == from && before > 0 && before < sent) return false;
    }
  return true;
}

// The deepest that is ready comes first: what ends a micro-batch before what begins one. Segments
// are called as soon as they can.
static bool call_next(schedule_t *all, int64_t classes, schedule_t *s, int32_t micro_count,
                      int32_t tick) {
  for (int32_t i = s->segment_count - 1; i >= 0; --i)
    for (int32_t m = 0; m < micro_count; ++m) {
      if (s->ticks[i][m] > 0 || !is_ready(all, classes, s, s->depths[i], m, tick) ||
          !is_next(all, classes, s, i, m, micro_count))
        continue;
      if (i == 0 && s->begun - s->ended >= s->limit) continue;
      s->ticks[i][m] = tick;
      s->begun += i == 0;
      s->ended += i == s->segment_count - 1;
      s->calls[s->call_count++] = (shoal_segment_call_t){.segment = s->segments[i], .micro = m};
      return true;
    }
  return false;
}

// Rewrites the loop of "train": 1F1B where each class has its part of a chain of stages, else some
// interleaved order.
static void reschedule(const example_t *example, shoal_program_t *program) {
  schedule_t all[MAX_MESHES];
  const int64_t classes = program->class_count;
  assert_true(classes <= MAX_MESHES && program->micro <= 8);
  for (int64_t k = 0; k < classes; ++k)
    read_schedule(&all[k], &program->classes[k],
                  example->layers == classes * example->each ? (int32_t)(classes - k)
                                                             : (int32_t)program->micro);
  int64_t left = 0;
  for (int64_t k = 0; k < classes; ++k) left += all[k].segment_count * program->micro;
  for (int32_t tick = 1; left > 0; ++tick) {
    assert_true(tick < 1000);
    for (int64_t k = 0; k < classes; ++k)
      left -= call_next(all, classes, &all[k], (int32_t)program->micro, tick);
  }
  for (int64_t k = 0; k < classes; ++k) {
    shoal_order_t *order = all[k].order;
    int64_t first = 0;
    while (order->calls[first].micro < 0) ++first;
    for (int32_t i = 0; i < all[k].call_count; ++i) order->calls[first + i] = all[k].calls[i];
  }
  assert_ok(shoal_lower_time(program, shoal_allocator_system()));
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
}

static void for_each_example(void (*fn)(const example_t *example, shoal_program_t *program)) {
  for (int64_t i = 0; i < COUNT(EXAMPLES); ++i) {
    const example_t *example = &EXAMPLES[i];
    shoal_model_t *model = example_model(example);
    shoal_plan_t *plan =
        example->strategy ? plan_by(model, rules, example->strategy, example->mesh, example->world)
                          : staged(example, model);
    shoal_program_t *program = lower(plan);
    fn(example, program);
    if (example->reordered) {
      reschedule(example, program);
      fn(example, program);
    }
    shoal_program_free(program);
    shoal_plan_free(plan);
    shoal_model_free(model);
  }
}

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
    const int64_t from = shoal_buffer_slot_offset(u->c, buffer, slot);
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

// ---- slots ------------------------------------------------------------------------------

enum { BLOCK = 64 };

// Whose value a block of the arena holds: buffer, micro-batch and step; 0: nobody's.
typedef struct shadow {
  const shoal_program_t *program;
  const shoal_class_t *c;
  const shoal_segment_call_t *call;
  int64_t step;
  int64_t *owners;
} shadow_t;

static int64_t owner_of(const shadow_t *shadow, int32_t index) {
  const shoal_buffer_t *buffer = &shadow->c->buffers[index];
  const bool looped = shoal_layout_along(buffer->layout, SHOAL_AXIS_MICRO) != NULL;
  const int64_t micro = looped ? shadow->call->micro : -1;
  return ((index + 1) * 100 + micro + 1) * 100 + shadow->step;
}

static void shade(const shadow_t *shadow, const shoal_instruction_t *in, int32_t index,
                  bool write) {
  if (index < 0) return;
  const shoal_buffer_t *buffer = &shadow->c->buffers[index];
  if (buffer->kind == SHOAL_BUFFER_STATE || buffer->kind == SHOAL_BUFFER_NEXT) return;
  const int32_t slot = shoal_call_slot(shadow->c, shadow->call, buffer->group, shadow->step);
  const int64_t from = shoal_buffer_slot_offset(shadow->c, buffer, slot);
  for (int64_t b = from / BLOCK; b < (from + buffer->bytes) / BLOCK; ++b) {
    if (write) shadow->owners[b] = owner_of(shadow, index);
    if (shadow->owners[b] != owner_of(shadow, index))
      fail_msg("'%s' of micro-batch %d in step %lld finds another value than '%s'", in->name,
               shadow->call->micro, (long long)shadow->step, buffer->name);
  }
}

static void shade_call(const shadow_t *shadow) {
  const shoal_segment_t *segment = &shadow->c->segments[shadow->call->segment];
  for (int64_t i = 0; i < segment->instruction_count; ++i) {
    const shoal_instruction_t *in = &segment->instructions[i];
    for (int32_t k = 0; k < in->input_count; ++k) shade(shadow, in, in->inputs[k], false);
    shade(shadow, in, in->predicate, false);
    for (int64_t b = 0; b < in->workspace / BLOCK; ++b)
      shadow->owners[in->workspace_offset / BLOCK + b] = 0;
    for (int32_t k = 0; k < in->output_count; ++k)
      shade(shadow, in, in->outputs[k], in->opcode != SHOAL_OPCODE_ACCUMULATE);
  }
}

static void expect_values(const example_t *example, shoal_program_t *program) {
  (void)example;
  for (int64_t k = 0; k < program->class_count; ++k) {
    const shoal_class_t *c = &program->classes[k];
    for (int64_t o = 0; o < c->order_count; ++o) {
      shadow_t shadow = {.program = program, .c = c};
      shadow.owners = test_calloc((size_t)(c->arena_bytes / BLOCK + 1), sizeof(int64_t));
      for (shadow.step = 0; shadow.step < 4; ++shadow.step)
        for (int64_t i = 0; i < c->orders[o].call_count; ++i) {
          shadow.call = &c->orders[o].calls[i];
          shade_call(&shadow);
        }
      test_free(shadow.owners);
    }
  }
}

static void test_values_are_there(void **state) {
  (void)state;
  for_each_example(expect_values);
}

// Of the buffers that cross from one segment of the loop to another: the most slots.
static int32_t most_slots(const shoal_class_t *c, const char *from, const char *to) {
  const shoal_segment_t *first = segment_of(c, from), *last = segment_of(c, to);
  int32_t most = 0;
  for (int64_t i = 0; i < first->instruction_count; ++i) {
    const shoal_instruction_t *made = &first->instructions[i];
    if (made->opcode != SHOAL_OPCODE_COMPUTE) continue;
    for (int64_t j = 0; j < last->instruction_count; ++j)
      for (int32_t k = 0; k < last->instructions[j].input_count; ++k) {
        if (last->instructions[j].inputs[k] != made->outputs[0]) continue;
        const int32_t slots = shoal_buffer_slots(c, &c->buffers[made->outputs[0]]);
        most = slots > most ? slots : most;
      }
  }
  return most;
}

static int32_t slots_of(const shoal_class_t *c, const char *segment, shoal_opcode_t opcode) {
  const shoal_segment_t *s = segment_of(c, segment);
  for (int64_t i = 0; i < s->instruction_count; ++i)
    if (s->instructions[i].opcode == opcode && s->instructions[i].output_count > 0 &&
        s->instructions[i].outputs[0] >= 0)
      return shoal_buffer_slots(c, &c->buffers[s->instructions[i].outputs[0]]);
  return 0;
}

static void test_slots_are_what_is_in_flight(void **state) {
  (void)state;
  const example_t *example = NULL;
  for (int64_t i = 0; i < COUNT(EXAMPLES); ++i)
    if (strcmp(EXAMPLES[i].name, "3 stages") == 0) example = &EXAMPLES[i];
  shoal_model_t *model = example_model(example);
  shoal_plan_t *plan = staged(example, model);
  shoal_program_t *program = lower(plan);
  const shoal_class_t *c = program->classes;
  for (int round = 0; round < 2; ++round) {  // GPipe, then 1F1B
    assert_int_equal(most_slots(&c[0], "train.loop.0", "train.loop.4"), round ? 3 : 5);
    assert_int_equal(most_slots(&c[1], "train.loop.1", "train.loop.3"), round ? 2 : 5);
    // What is received or fed has one more, if there are so many micro-batches.
    assert_int_equal(slots_of(&c[0], "train.loop.0", SHOAL_OPCODE_FEED), round ? 4 : 5);
    assert_int_equal(slots_of(&c[1], "train.loop.1", SHOAL_OPCODE_RESHARD), round ? 3 : 5);
    assert_int_equal(slots_of(&c[1], "train.loop.3", SHOAL_OPCODE_RESHARD), 2);
    assert_int_equal(slots_of(&c[2], "train.loop.2", SHOAL_OPCODE_RESHARD), 2);
    assert_int_equal(slots_of(&c[2], "train.loop.0", SHOAL_OPCODE_FEED), round ? 2 : 5);
    if (round == 0) reschedule(example, program);
    assert_ok(shoal_program_check(program, shoal_allocator_system()));
  }
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// Inputs that are fed once a step: the next step's are fed while this one's are read.
static void test_inputs_have_two_slots(void **state) {
  (void)state;
  shoal_model_t *model = small_mlp(6);
  shoal_plan_t *plan = plan_by(model, rules, "data", "data=2", 2);
  shoal_program_t *program = lower(plan);
  const shoal_class_t *c = program->classes;
  assert_int_equal(shoal_class_period(c), 2);
  for (int64_t i = 0; i < c->buffer_count; ++i) {
    const shoal_buffer_t *buffer = &c->buffers[i];
    assert_int_equal(shoal_buffer_slots(c, buffer), buffer->kind == SHOAL_BUFFER_INPUT ? 2 : 1);
    if (buffer->group >= 0) assert_true(c->slot_groups[buffer->group].by_step);
  }
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// ---- queues -----------------------------------------------------------------------------

// What is only sent or only received has its own lane, and a queue for each direction; classes
// without such messages have the queues that all have.
static void expect_queues(const example_t *example, shoal_program_t *program) {
  (void)example;
  for (int64_t k = 0; k < program->class_count; ++k) {
    const shoal_class_t *c = &program->classes[k];
    bool sends = false, receives = false;
    for (int64_t s = 0; s < c->segment_count; ++s)
      for (int64_t i = 0; i < c->segments[s].instruction_count; ++i) {
        const shoal_instruction_t *in = &c->segments[s].instructions[i];
        if (in->opcode != SHOAL_OPCODE_RESHARD) continue;
        const shoal_channel_t *channel = &program->channels[in->channel];
        const bool apart = !shoal_mesh_overlap(channel->src->mesh, channel->dst->mesh);
        const char *queue = !apart ? "comm" : in->outputs[0] < 0 ? "send" : "receive";
        assert_string_equal(c->queues[in->queue].name, queue);
        assert_int_equal(c->queues[in->queue].kind, SHOAL_QUEUE_COMM);
        assert_int_equal(channel->lane, apart);
        sends |= apart && in->outputs[0] < 0;
        receives |= apart && in->outputs[0] >= 0;
      }
    assert_int_equal(c->queue_count, SHOAL_QUEUE_KIND_COUNT + sends + receives);
  }
}

static void test_messages_have_queues(void **state) {
  (void)state;
  for_each_example(expect_queues);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_conflicts_are_ordered),
      cmocka_unit_test(test_each_wait_is_needed),
      cmocka_unit_test(test_waits_are_sorted),
      cmocka_unit_test(test_values_are_there),
      cmocka_unit_test(test_slots_are_what_is_in_flight),
      cmocka_unit_test(test_inputs_have_two_slots),
      cmocka_unit_test(test_messages_have_queues),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
