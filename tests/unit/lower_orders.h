// Programs to try what follows from orders on: plans of all kinds, and for those with stages also
// another order of calls, as 1F1B has it. Slots, memory and waits are then worked out again.
#ifndef SHOAL_TESTS_UNIT_LOWER_ORDERS_H_
#define SHOAL_TESTS_UNIT_LOWER_ORDERS_H_

#include <stdlib.h>

#include "lower/time.h"
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
    return make_mlp(&(mlp_sizes_t){
        .batch = 9, .in_features = 5, .hidden = 9, .classes = 3, .layers = example->layers});
  return make_gpt(&(gpt_sizes_t){
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

#endif  // SHOAL_TESTS_UNIT_LOWER_ORDERS_H_
