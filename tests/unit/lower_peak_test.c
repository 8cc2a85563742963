// links: all
//
// How much memory programs plan: no second copy of states, updates as soon as they can run, and
// temporaries packed close to what is alive at once. Nothing is run.
#include <stdlib.h>

#include "plan_fixture.h"
#include "shoal/ops.h"

// ---- models over 64 MiB ---------------------------------------------------------------

static shoal_model_t *large_mlp(int64_t batch) {
  shoal_model_t *model = empty_model();
  add_mlp(model,
          &(mlp_sizes_t){
              .batch = batch, .in_features = 1024, .hidden = 1536, .layers = 4, .classes = 1000});
  assert_ok(shoal_model_status(model));
  return model;
}

static shoal_model_t *large_gpt(int64_t batch) {
  shoal_model_t *model = empty_model();
  add_gpt(model, &(gpt_sizes_t){.batch = batch,
                                .context = 128,
                                .vocabulary = 8000,
                                .width = 384,
                                .heads = 12,
                                .layers = 4});
  assert_ok(shoal_model_status(model));
  return model;
}

static shoal_model_t *large_cnn(int64_t batch) {
  shoal_model_t *model = empty_model();
  add_cnn(model, &(cnn_sizes_t){.batch = batch, .size = 96});
  assert_ok(shoal_model_status(model));
  return model;
}

typedef struct example {
  const char *name;
  shoal_model_t *(*make)(int64_t batch);
  int64_t batch;
} example_t;

static const example_t EXAMPLES[] = {{"mlp, small batch", large_mlp, 24},
                                     {"mlp, large batch", large_mlp, 2400},
                                     {"gpt, small batch", large_gpt, 12},
                                     {"gpt, large batch", large_gpt, 48},
                                     {"cnn", large_cnn, 120}};

typedef struct way {
  const char *strategy, *mesh;
  int32_t world;
} way_t;

static const way_t WAYS[] = {
    {"single", NULL, 1},
    {"data", "data=2", 2},
    {"data", "data=3", 3},
    {"data", "data=4", 4},
    {"data", "data=2,micro=4", 2},
    {"data", "data=1,micro=3", 1},
    {"tensor", "tensor=2", 2},
    {"tensor", "tensor=3", 3},
    {"tensor", "data=2,tensor=2", 4},
    {"tensor", "data=2,tensor=2,micro=2", 4},
    {"zero1", "data=2", 2},
    {"zero1", "data=3", 3},
    {"zero1", "data=4,micro=2", 4},
    {"stages", NULL, 4},
};

// The second half of the model on ranks of its own, with micro-batches. NULL: it has no halves.
static shoal_plan_t *plan_stages(const shoal_model_t *model, const example_t *example) {
  static const char *const meshes[] = {"a!data=2,micro=3@0-1", "b!data=2,micro=3@2-3"};
  static const shoal_intent_entry_t mlp_layouts[] = {{"x", "a!micro:0,data:0"},
                                                     {"y", "b!micro:0,data:0"},
                                                     {"*#adamw.m", "data:flat"},
                                                     {"*#adamw.v", "data:flat"}};
  static const shoal_intent_entry_t gpt_layouts[] = {
      {"ids", "a!micro:0,data:0"}, {"labels", "b!micro:0,data:0"}, {"*#adamw.m", "data:flat"}};
  static const shoal_intent_entry_t mlp_stages[] = {
      {"fc3/*", "b"}, {"fc4/*", "b"}, {"relu_2", "b"}, {"cross_entropy", "b"}};
  static const shoal_intent_entry_t gpt_stages[] = {{"block2/*", "b"},
                                                    {"block3/*", "b"},
                                                    {"ln_f/*", "b"},
                                                    {"head/*", "b"},
                                                    {"cross_entropy", "b"}};
  shoal_intent_t intent = {.mesh_count = 2, .meshes = meshes};
  if (example->make == large_mlp)
    intent.layouts = mlp_layouts, intent.layout_count = COUNT(mlp_layouts),
    intent.stages = mlp_stages, intent.stage_count = COUNT(mlp_stages);
  else if (example->make == large_gpt)
    intent.layouts = gpt_layouts, intent.layout_count = COUNT(gpt_layouts),
    intent.stages = gpt_stages, intent.stage_count = COUNT(gpt_stages);
  else
    return NULL;
  shoal_plan_t *plan;
  assert_ok(shoal_plan_create(model, rules, &intent, 4, shoal_allocator_system(), &plan));
  return plan;
}

// ---- what is alive --------------------------------------------------------------------

// The most bytes of values that are alive at once when the calls of an order run one after the
// other: found by looking at every instruction of every call, not by the lives that the plan was
// packed by. A value - of one micro-batch, where there is one for each - is alive from who touches
// it first to who does last.
typedef struct alive {
  const shoal_program_t *program;
  const shoal_class_t *c;
  int64_t *first, *last;  // by buffer and micro-batch; -1: never
  int64_t *change;        // by time
} alive_t;

static int64_t value_of(const alive_t *a, int32_t buffer, int32_t micro) {
  const bool looped = shoal_layout_along(a->c->buffers[buffer].layout, SHOAL_AXIS_MICRO) != NULL;
  return buffer * a->program->micro + (looped && micro >= 0 ? micro : 0);
}

static void touch(const alive_t *a, int32_t buffer, int32_t micro, int64_t time) {
  if (buffer < 0) return;
  const int64_t value = value_of(a, buffer, micro);
  if (a->first[value] < 0) a->first[value] = time;
  a->last[value] = time;
}

static bool is_temporary(const alive_t *a, int32_t buffer) {
  const shoal_buffer_kind_t kind = a->c->buffers[buffer].kind;
  return kind == SHOAL_BUFFER_TEMP || kind == SHOAL_BUFFER_OUTPUT;
}

// Bytes that need not be there twice, because the op may write an output over an input that dies.
static int64_t shared_bytes(const alive_t *a, const shoal_instruction_t *in, int32_t micro,
                            int64_t time) {
  int64_t bytes = 0;
  for (int32_t i = 0; in->opcode == SHOAL_OPCODE_COMPUTE && i < in->op->overwrite_count; ++i) {
    const shoal_overwrite_t *pair = &in->op->overwrites[i];
    const int32_t input = shoal_op_given(in->op, in->attrs, pair->input);
    if (input < 0 || pair->output >= in->output_count) continue;
    const int32_t from = in->inputs[input], to = in->outputs[pair->output];
    if (!is_temporary(a, from) || !is_temporary(a, to)) continue;
    if (a->last[value_of(a, from, micro)] == time && a->first[value_of(a, to, micro)] == time &&
        a->c->buffers[from].bytes == a->c->buffers[to].bytes)
      bytes = a->c->buffers[to].bytes > bytes ? a->c->buffers[to].bytes : bytes;
  }
  return bytes;
}

static int64_t most_alive(const shoal_program_t *program, const shoal_class_t *c,
                          const shoal_order_t *order) {
  int64_t length = 0, now = 0, most = 0;
  for (int64_t k = 0; k < order->call_count; ++k)
    length += c->segments[order->calls[k].segment].instruction_count;
  const int64_t values = c->buffer_count * program->micro;
  alive_t a = {program, c, calloc((size_t)values, sizeof(int64_t)),
               calloc((size_t)values, sizeof(int64_t)),
               calloc((size_t)length + 1, sizeof(int64_t))};
  for (int64_t i = 0; i < values; ++i) a.first[i] = a.last[i] = -1;
  for (int pass = 0; pass < 2; ++pass) {
    int64_t time = 0;
    for (int64_t k = 0; k < order->call_count; ++k) {
      const shoal_segment_t *segment = &c->segments[order->calls[k].segment];
      const int32_t micro = order->calls[k].micro;
      for (int64_t i = 0; i < segment->instruction_count; ++i, ++time) {
        const shoal_instruction_t *in = &segment->instructions[i];
        if (pass == 1) {
          const int64_t here = in->workspace - shared_bytes(&a, in, micro, time);
          a.change[time] += here;
          a.change[time + 1] -= here;
          continue;
        }
        for (int32_t o = 0; o < in->input_count; ++o) touch(&a, in->inputs[o], micro, time);
        for (int32_t o = 0; o < in->output_count; ++o) touch(&a, in->outputs[o], micro, time);
        touch(&a, in->predicate, micro, time);
      }
    }
  }
  for (int64_t i = 0; i < values; ++i) {
    const int32_t buffer = (int32_t)(i / program->micro);
    if (a.first[i] < 0 || !is_temporary(&a, buffer)) continue;
    a.change[a.first[i]] += c->buffers[buffer].bytes;
    a.change[a.last[i] + 1] -= c->buffers[buffer].bytes;
  }
  for (int64_t time = 0; time < length; ++time) {
    now += a.change[time];
    if (now > most) most = now;
  }
  free(a.first);
  free(a.last);
  free(a.change);
  return most;
}

static const shoal_order_t *order_called(const shoal_class_t *c, const char *graph) {
  for (int64_t i = 0; i < c->order_count; ++i)
    if (strcmp(c->orders[i].graph, graph) == 0) return &c->orders[i];
  return NULL;
}

// Does it add a micro-batch's part of an output to what is kept of all of them, to be fetched on
// request? That is no second copy: the part dies in its micro-batch.
static bool keeps_part(const shoal_program_t *program, const shoal_class_t *c,
                       const shoal_instruction_t *in) {
  const shoal_buffer_t *to = &c->buffers[in->outputs[0]];
  bool kept = false;
  for (int64_t i = 0; i < program->output_count; ++i)
    kept |= program->outputs[i].on_request && program->outputs[i].state == to->state;
  return kept && shoal_layout_along(c->buffers[in->inputs[0]].layout, SHOAL_AXIS_MICRO) &&
         program->micro > 1;
}

// How often a class copies to a state. Outputs that are kept whole are made in their state.
static int64_t commits(const shoal_program_t *program, const shoal_class_t *c) {
  int64_t count = 0;
  for (int64_t s = 0; s < c->segment_count; ++s)
    for (int64_t i = 0; i < c->segments[s].instruction_count; ++i) {
      const shoal_instruction_t *in = &c->segments[s].instructions[i];
      count += in->opcode == SHOAL_OPCODE_COPY &&
               c->buffers[in->outputs[0]].kind == SHOAL_BUFFER_STATE && !keeps_part(program, c, in);
    }
  return count;
}

static void test_no_second_copy_of_states(void **state) {
  (void)state;
  int64_t large = 0;
  for (int64_t e = 0; e < COUNT(EXAMPLES); ++e) {
    shoal_model_t *model = EXAMPLES[e].make(EXAMPLES[e].batch);
    for (int64_t w = 0; w < COUNT(WAYS); ++w) {
      shoal_plan_t *plan =
          WAYS[w].mesh || WAYS[w].world == 1
              ? plan_by(model, rules, WAYS[w].strategy, WAYS[w].mesh, WAYS[w].world)
              : plan_stages(model, &EXAMPLES[e]);
      if (!plan) continue;
      shoal_program_t *program = lower(plan);
      for (int64_t k = 0; k < program->class_count; ++k) {
        shoal_memory_use_t use;
        assert_ok(shoal_program_memory(program, k, shoal_allocator_system(), &use));
        const int64_t arena = program->classes[k].arena_bytes[SHOAL_MEMORY_DEVICE];
        assert_int_equal(use.states + use.inputs + use.temporaries, arena);
        assert_true(use.bound <= use.temporaries);
        if (commits(program, &program->classes[k]) > 0)
          fail_msg("%s, %s %s: class %lld copies a state", EXAMPLES[e].name, WAYS[w].strategy,
                   WAYS[w].mesh, (long long)k);
        if (arena <= INT64_C(64) << 20) continue;
        ++large;
        if ((double)use.temporaries > 1.05 * (double)use.bound)
          fail_msg("%s, %s %s: temporaries take %lld bytes, %lld are alive at once",
                   EXAMPLES[e].name, WAYS[w].strategy, WAYS[w].mesh, (long long)use.temporaries,
                   (long long)use.bound);
        const int64_t least = most_alive(program, &program->classes[k],
                                         order_called(&program->classes[k], use.graph));
        assert_true(least <= use.bound);
        // Stages have a slot more for what they receive: a value that is not there yet.
        const double most = program->class_count > 1 ? 1.15 : 1.05;
        if ((double)use.temporaries > most * (double)least)
          fail_msg("%s, %s %s: temporaries take %lld bytes, %lld of values are alive at once",
                   EXAMPLES[e].name, WAYS[w].strategy, WAYS[w].mesh, (long long)use.temporaries,
                   (long long)least);
      }
      shoal_program_free(program);
      shoal_plan_free(plan);
    }
    shoal_model_free(model);
  }
  assert_true(large > 40);
}

// ---- order ----------------------------------------------------------------------------

// Hidden layers of equal size, a batch that does not matter. On one rank one gradient is alive at a
// time. With data parallelism there is its sum, too. The plan before this one held all of them, and
// all states twice.
static void test_one_gradient_at_a_time(void **state) {
  (void)state;
  shoal_model_t *model = empty_model();
  add_mlp(model,
          &(mlp_sizes_t){
              .batch = 32, .in_features = 1024, .hidden = 1024, .layers = 9, .classes = 1024});
  assert_ok(shoal_model_status(model));
  static const struct {
    const char *strategy, *mesh;
    int32_t world;
    double weights;
  } cases[] = {{"single", NULL, 1, 1.7}, {"data", "data=2", 2, 2.7}, {"zero1", "data=2", 2, 2.7}};
  for (int64_t i = 0; i < COUNT(cases); ++i) {
    shoal_plan_t *plan = plan_by(model, rules, cases[i].strategy, cases[i].mesh, cases[i].world);
    shoal_program_t *program = lower(plan);
    shoal_memory_use_t use;
    assert_ok(shoal_program_memory(program, 0, shoal_allocator_system(), &use));
    if ((double)use.temporaries > cases[i].weights * 1024 * 1024 * 8)
      fail_msg("%s: temporaries take %lld bytes", cases[i].strategy, (long long)use.temporaries);
    assert_string_equal(use.graph, "train");
    assert_error(INVALID_ARGUMENT, "no class 1",
                 shoal_program_memory(program, 1, shoal_allocator_system(), &use));
    shoal_program_free(program);
    shoal_plan_free(plan);
  }
  shoal_model_free(model);
}

// ---- homes ----------------------------------------------------------------------------

// Every kind of assignment that can be made in place, and every kind that cannot.
static shoal_model_t *homes_model(void) {
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  const shoal_shape_t shape = SHOAL_SHAPE(6, 6);
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, shape);
  shoal_value_t plain = shoal_state(g, "plain", SHOAL_F64, shape, NULL);
  shoal_value_t unread = shoal_state(g, "unread", SHOAL_F64, shape, NULL);
  shoal_value_t followed = shoal_state(g, "followed", SHOAL_F64, shape, NULL);
  shoal_value_t average = shoal_state(g, "average", SHOAL_F64, shape, NULL);
  shoal_value_t later = shoal_state(g, "later", SHOAL_F64, shape, NULL);
  shoal_value_t product = shoal_state(g, "product", SHOAL_F64, shape, NULL);
  shoal_value_t twice = shoal_state(g, "twice", SHOAL_F64, shape, NULL);
  shoal_value_t one = shoal_state(g, "one", SHOAL_F64, shape, NULL);
  shoal_value_t two = shoal_state(g, "two", SHOAL_F64, shape, NULL);
  shoal_value_t fetched = shoal_state(g, "fetched", SHOAL_F64, shape, NULL);
  shoal_assign(g, plain, shoal_add(g, plain, x));
  shoal_assign(g, unread, shoal_square(g, x));
  shoal_value_t next = shoal_mul(g, followed, x);  // its next value is read
  shoal_assign(g, followed, next);
  shoal_assign(g, average, shoal_add(g, average, next));
  shoal_value_t new_later = shoal_add(g, later, x);  // its old value is read behind the new one
  shoal_assign(g, later, new_later);
  shoal_output(g, "difference", shoal_sub(g, new_later, later));
  shoal_assign(g, product, shoal_matmul(g, product, x));  // no op to overwrite with
  shoal_assign(g, twice, shoal_mul(g, twice, twice));     // read in two places
  shoal_value_t both = shoal_relu(g, x);                  // one value for two states
  shoal_assign(g, one, both);
  shoal_assign(g, two, both);
  shoal_assign(g, fetched, shoal_add(g, fetched, x));  // its old value is an output
  shoal_output(g, "old", fetched);
  assert_ok(shoal_model_status(model));
  return model;
}

static void test_homes(void **state) {
  (void)state;
  static const char *const copied[] = {"later", "product", "twice"};
  shoal_model_t *model = homes_model();
  shoal_plan_t *plan = plan_by(model, rules, "single", NULL, 1);
  shoal_program_t *program = lower(plan);
  const shoal_class_t *c = &program->classes[0];
  const shoal_segment_t *commit = segment_of(c, "train.commit.0");
  int64_t doubles = 0;
  for (int64_t i = 0; i < commit->instruction_count; ++i) {
    const char *name = commit->instructions[i].name;
    bool expected = false;
    for (int64_t k = 0; k < COUNT(copied); ++k) expected |= strcmp(name, copied[k]) == 0;
    doubles += strcmp(name, "one") == 0 || strcmp(name, "two") == 0;
    if (!expected && strcmp(name, "one") != 0 && strcmp(name, "two") != 0)
      fail_msg("state '%s' is copied", name);
  }
  assert_int_equal(doubles, 1);  // the other one is the value's home
  assert_int_equal(commit->instruction_count, COUNT(copied) + 1);
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_no_second_copy_of_states),
      cmocka_unit_test(test_one_gradient_at_a_time),
      cmocka_unit_test(test_homes),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
