// links: all
//
// Memory plans and waits, checked independently: a shadow of the arena is filled and read in the
// order of the program, and every wait is needed.
#include "plan_fixture.h"
#include "shoal/ops.h"

// ---- plans of all kinds ---------------------------------------------------------------

typedef struct example {
  const char *model, *strategy, *mesh;
  int32_t world;
} example_t;

static const example_t EXAMPLES[] = {
    {"mlp", "single", NULL, 2},           {"mlp", "data", "data=2", 2},
    {"mlp", "data", "data=3,micro=3", 3}, {"mlp", "tensor", "data=2,tensor=2,micro=2", 4},
    {"gpt", "tensor", "tensor=5", 5},     {"gpt", "data", "data=2,micro=3", 2},
    {"tied", "stages", NULL, 5},          {"cnn", "rows", NULL, 3},
};

static shoal_model_t *example_model(const example_t *example) {
  if (strcmp(example->model, "mlp") == 0) return small_mlp(7);
  if (strcmp(example->model, "gpt") == 0) return small_gpt(false);
  if (strcmp(example->model, "tied") == 0) return small_gpt(true);
  shoal_model_t *model = empty_model();
  add_cnn(model, &(cnn_sizes_t){0});
  assert_ok(shoal_model_status(model));
  return model;
}

static shoal_plan_t *example_plan(const example_t *example, const shoal_model_t *model) {
  static const shoal_intent_entry_t layouts[] = {{"ids", "a!micro:0,data:0"},
                                                 {"labels", "b!micro:0,data:0"},
                                                 {"wte/table", "a!"},
                                                 {"*#adamw.m", "data:flat"}};
  static const shoal_intent_entry_t stages[] = {
      {"block1/*", "b"}, {"ln_f/*", "b"}, {"head/*", "b"}, {"cross_entropy", "b"}};
  static const shoal_intent_entry_t rows = {"x", "rows:2"};  // halos
  static const char *const one_mesh[] = {"rows=3"};
  static const char *const two_meshes[] = {"a!data=2,micro=3@0-1", "b!data=3,micro=3@2-4"};
  shoal_intent_t intent = {
      .mesh_count = 1, .meshes = one_mesh, .layout_count = 1, .layouts = &rows};
  if (strcmp(example->strategy, "stages") == 0)
    intent = (shoal_intent_t){.mesh_count = 2,
                              .meshes = two_meshes,
                              .layout_count = COUNT(layouts),
                              .layouts = layouts,
                              .stage_count = COUNT(stages),
                              .stages = stages};
  else if (strcmp(example->strategy, "rows") != 0)
    return plan_by(model, rules, example->strategy, example->mesh, example->world);
  shoal_plan_t *plan;
  assert_ok(
      shoal_plan_create(model, rules, &intent, example->world, shoal_allocator_system(), &plan));
  return plan;
}

static void for_each_example(void (*fn)(const example_t *example, shoal_program_t *program)) {
  for (int64_t i = 0; i < COUNT(EXAMPLES); ++i) {
    shoal_model_t *model = example_model(&EXAMPLES[i]);
    shoal_plan_t *plan = example_plan(&EXAMPLES[i], model);
    shoal_program_t *program = lower(plan);
    fn(&EXAMPLES[i], program);
    shoal_program_free(program);
    shoal_plan_free(plan);
    shoal_model_free(model);
  }
}

// ---- the shadow -----------------------------------------------------------------------

enum { BLOCK = 64 };

// Who wrote a block of the arena last: buffer and slot, or nobody.
typedef struct shadow {
  const shoal_class_t *c;
  int64_t *owner;  // per block: buffer * 1000 + slot + 1; 0 nobody
} shadow_t;

typedef struct extent {
  int64_t from, to;  // bytes
} extent_t;

static bool has_micro(const shoal_layout_t *layout) {
  for (int32_t i = 0; i < layout->cut_count; ++i)
    if (layout->cuts[i].axis == SHOAL_AXIS_MICRO) return true;
  return false;
}

static int64_t slot_of(const shoal_class_t *c, const shoal_buffer_t *buffer, int32_t micro) {
  return micro > 0 && has_micro(buffer->layout) ? micro % shoal_buffer_slots(c, buffer) : 0;
}

static extent_t extent_of(const shadow_t *shadow, int32_t index, int32_t micro) {
  const shoal_buffer_t *buffer = &shadow->c->buffers[index];
  int64_t from = shoal_buffer_slot_offset(shadow->c, buffer, slot_of(shadow->c, buffer, micro));
  return (extent_t){from, from + buffer->bytes};
}

static void shadow_write(shadow_t *shadow, int32_t index, int32_t micro) {
  extent_t e = extent_of(shadow, index, micro);
  assert_true(e.from % BLOCK == 0 && e.to % BLOCK == 0 &&
              e.to <= shadow->c->arena_bytes[SHOAL_MEMORY_DEVICE]);
  int64_t id = (int64_t)index * 1000 + slot_of(shadow->c, &shadow->c->buffers[index], micro) + 1;
  for (int64_t b = e.from / BLOCK; b < e.to / BLOCK; ++b) shadow->owner[b] = id;
}

static void shadow_read(const shadow_t *shadow, int32_t index, int32_t micro,
                        const shoal_instruction_t *in) {
  extent_t e = extent_of(shadow, index, micro);
  int64_t id = (int64_t)index * 1000 + slot_of(shadow->c, &shadow->c->buffers[index], micro) + 1;
  for (int64_t b = e.from / BLOCK; b < e.to / BLOCK; ++b)
    if (shadow->owner[b] != id)
      fail_msg("%s '%s' reads '%s', but byte %lld belongs to '%s'", shoal_opcode_name(in->opcode),
               in->name, shadow->c->buffers[index].name, (long long)(b * BLOCK),
               shadow->owner[b] ? shadow->c->buffers[shadow->owner[b] / 1000].name : "nobody");
}

// May the output lie exactly over the input?
static bool overwrites(const shoal_instruction_t *in, int32_t output, int32_t input) {
  for (int32_t i = 0; in->op && i < in->op->overwrite_count; ++i)
    if (in->op->overwrites[i].output == output &&
        shoal_op_given(in->op, in->attrs, in->op->overwrites[i].input) == input)
      return true;
  return false;
}

// Outputs and workspace lie apart from everything else the instruction touches, but for outputs
// that overwrite one input.
static void expect_apart(const shadow_t *shadow, const shoal_instruction_t *in, int32_t micro) {
  extent_t touched[40];
  int32_t count = 0, inputs;
  for (int32_t i = 0; i < in->input_count; ++i)
    if (in->inputs[i] >= 0) touched[count++] = extent_of(shadow, in->inputs[i], micro);
  inputs = count;
  for (int32_t o = 0; o < in->output_count; ++o)
    if (in->outputs[o] >= 0) touched[count++] = extent_of(shadow, in->outputs[o], micro);
  if (in->workspace > 0) {
    assert_true(in->workspace_offset % BLOCK == 0);
    assert_true(in->workspace_offset + in->workspace <=
                shadow->c->arena_bytes[SHOAL_MEMORY_DEVICE]);
    touched[count++] = (extent_t){in->workspace_offset, in->workspace_offset + in->workspace};
  }
  for (int32_t i = inputs, over = 0; i < count; ++i, over = 0)
    for (int32_t j = 0; j < i; ++j)
      if (touched[i].from < touched[j].to && touched[j].from < touched[i].to &&
          !(touched[i].from == touched[j].from && touched[i].to == touched[j].to &&
            overwrites(in, i - inputs, j) && ++over == 1))
        fail_msg("%s '%s': its operands overlap", shoal_opcode_name(in->opcode), in->name);
}

static void shadow_step(shadow_t *shadow, const shoal_instruction_t *in, int32_t micro) {
  expect_apart(shadow, in, micro);
  for (int32_t i = 0; i < in->input_count; ++i)
    if (in->inputs[i] >= 0) shadow_read(shadow, in->inputs[i], micro, in);
  if (in->predicate >= 0) shadow_read(shadow, in->predicate, micro, in);
  for (int64_t b = in->workspace_offset / BLOCK;
       in->workspace > 0 && b < (in->workspace_offset + in->workspace + BLOCK - 1) / BLOCK; ++b)
    shadow->owner[b] = 0;
  // What is put together over micro-batches must still be there when the next piece comes.
  bool piece = in->opcode == SHOAL_OPCODE_ACCUMULATE ||
               (in->opcode == SHOAL_OPCODE_COPY && micro > 0 &&
                !has_micro(shadow->c->buffers[in->outputs[0]].layout));
  for (int32_t o = 0; o < in->output_count; ++o) {
    if (in->outputs[o] < 0) continue;
    if (piece) shadow_read(shadow, in->outputs[o], micro, in);
    shadow_write(shadow, in->outputs[o], micro);
  }
}

// Between two runs, the next values of states are the states'.
static void adopt_next(shadow_t *shadow) {
  const shoal_class_t *c = shadow->c;
  for (int64_t b = 0; b < c->arena_bytes[SHOAL_MEMORY_DEVICE] / BLOCK; ++b) {
    if (shadow->owner[b] == 0) continue;
    const shoal_buffer_t *next = &c->buffers[shadow->owner[b] / 1000];
    for (int64_t i = 0; i < c->buffer_count && next->kind == SHOAL_BUFFER_NEXT; ++i)
      if (c->buffers[i].kind == SHOAL_BUFFER_STATE && c->buffers[i].state == next->state)
        shadow->owner[b] = i * 1000 + 1;
  }
}

static void run_shadow(const example_t *example, shoal_program_t *program) {
  (void)example;
  static const char *const runs[] = {"init", "train", "eval", "train", "train"};
  for (int64_t k = 0; k < program->class_count; ++k) {
    const shoal_class_t *c = &program->classes[k];
    shadow_t shadow = {
        c, test_calloc((size_t)(c->arena_bytes[SHOAL_MEMORY_DEVICE] / BLOCK + 1), sizeof(int64_t))};
    for (int64_t r = 0; r < COUNT(runs); ++r) {
      const shoal_order_t *order = order_of(c, runs[r]);
      adopt_next(&shadow);
      for (int64_t i = 0; i < order->call_count; ++i) {
        const shoal_segment_t *segment = &c->segments[order->calls[i].segment];
        for (int64_t j = 0; j < segment->instruction_count; ++j)
          shadow_step(&shadow, &segment->instructions[j], order->calls[i].micro);
      }
    }
    test_free(shadow.owner);
  }
}

static void test_no_live_buffers_overlap(void **state) {
  (void)state;
  for_each_example(run_shadow);
}

// ---- sizes ----------------------------------------------------------------------------

// The arena holds its largest buffer and no more than all of them; temporaries share memory.
static void expect_sizes(const example_t *example, shoal_program_t *program) {
  for (int64_t k = 0; k < program->class_count; ++k) {
    const shoal_class_t *c = &program->classes[k];
    int64_t sum = 0, states = 0, end = 0;
    for (int64_t i = 0; i < c->buffer_count; ++i) {
      const shoal_buffer_t *buffer = &c->buffers[i];
      int64_t bytes = buffer->bytes * shoal_buffer_slots(c, buffer), largest = 0;
      assert_ok(shoal_layout_largest(buffer->layout, &buffer->type, c, shoal_allocator_system(),
                                     &largest));
      assert_true(buffer->bytes >= largest && buffer->bytes < largest + BLOCK);
      sum += bytes;
      if (buffer->kind == SHOAL_BUFFER_STATE) states += bytes;
      if (buffer->offset + bytes > end) end = buffer->offset + bytes;
    }
    for (int64_t s = 0; s < c->segment_count; ++s)
      for (int64_t i = 0; i < c->segments[s].instruction_count; ++i) {
        const shoal_instruction_t *in = &c->segments[s].instructions[i];
        sum += in->workspace;
        if (in->workspace > 0 && in->workspace_offset + in->workspace > end)
          end = in->workspace_offset + in->workspace;
      }
    assert_int_equal(c->arena_bytes[SHOAL_MEMORY_DEVICE], end);
    assert_true(c->arena_bytes[SHOAL_MEMORY_DEVICE] <= sum);
    if (strcmp(example->strategy, "single") != 0 || k == 0)
      assert_true(c->arena_bytes[SHOAL_MEMORY_DEVICE] - states <
                  (sum - states) / 2);  // the graphs and their steps share
  }
}

static void test_sizes(void **state) {
  (void)state;
  for_each_example(expect_sizes);
}

// Ranks of two classes hold rows of one mesh: 2 those of the first, 1 those of the second. Each
// class plans its own.
static void test_sizes_are_of_the_class(void **state) {
  (void)state;
  static const char *const meshes[] = {"all!data=4@0-3", "one!data=1@0"};
  static const shoal_intent_entry_t layouts[] = {{"x", "all!data:0"}, {"y", "one!"}};
  static const shoal_intent_entry_t stages[] = {
      {"fc1/*", "all"}, {"fc2/*", "one"}, {"cross_entropy", "one"}};
  shoal_model_t *model = make_mlp(
      &(mlp_sizes_t){.batch = 5, .in_features = 40, .hidden = 40, .classes = 3, .layers = 2});
  const shoal_intent_t intent = {.mesh_count = 2,
                                 .meshes = meshes,
                                 .layout_count = COUNT(layouts),
                                 .layouts = layouts,
                                 .stage_count = COUNT(stages),
                                 .stages = stages};
  shoal_plan_t *plan;
  assert_ok(shoal_plan_create(model, rules, &intent, 4, shoal_allocator_system(), &plan));
  shoal_program_t *program = lower(plan);
  assert_int_equal(program->class_count, 2);
  for (int64_t k = 0; k < 2; ++k) {
    const shoal_class_t *c = &program->classes[k];
    bool found = false;
    for (int64_t i = 0; i < c->buffer_count; ++i) {
      if (strcmp(c->buffers[i].name, "x") != 0) continue;
      found = true;
      assert_int_equal(c->buffers[i].bytes, c->ranks[0] == 0 ? 640 : 320);
    }
    assert_true(found);
  }
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// ---- waits ----------------------------------------------------------------------------

// Each wait taken away alone is noticed: none is there for nothing. (That none is missing, the
// check of the program as it is has shown.)
static void expect_waits_needed(const example_t *example, shoal_program_t *program) {
  int64_t waits = 0, tried = 0, stride = strcmp(example->model, "tied") == 0 ? 7 : 1;
  for (int64_t k = 0; k < program->class_count; ++k)
    for (int64_t s = 0; s < program->classes[k].segment_count; ++s)
      for (int64_t i = 0; i < program->classes[k].segments[s].instruction_count; ++i) {
        shoal_instruction_t *in = &program->classes[k].segments[s].instructions[i];
        int32_t kept[16], count = in->wait_count;
        const int32_t *all = in->waits;
        assert_true(count <= SHOAL_QUEUE_KIND_COUNT - 1);  // one per other queue is enough
        for (int32_t w = 0; w < count; ++w) {
          if (waits++ % stride) continue;
          ++tried;
          int32_t rest = 0;
          for (int32_t j = 0; j < count; ++j)
            if (j != w) kept[rest++] = all[j];
          in->waits = kept;
          in->wait_count = rest;
          shoal_status_t status = shoal_program_check(program, shoal_allocator_system());
          if (!status)
            fail_msg("%s on %s: '%s' of segment '%s' need not wait for instruction %d",
                     example->model, example->strategy, in->name,
                     program->classes[k].segments[s].name, all[w]);
          assert_int_equal(shoal_status_code(status), SHOAL_MISMATCH);
          shoal_status_free(status);
        }
        in->waits = all;
        in->wait_count = count;
      }
  if (tried < 4)
    fail_msg("only %lld waits in %s on %s", (long long)waits, example->model, example->strategy);
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
}

// And those into earlier calls. Lowering's own walk is lower_time_test.c's; this one is the static
// check's.
static int64_t call_waits;

static void expect_call_waits_needed(const example_t *example, shoal_program_t *program) {
  for (int64_t c = 0; c < program->class_count; ++c)
    for (int64_t o = 0; o < program->classes[c].order_count; ++o)
      for (int64_t k = 0; k < program->classes[c].orders[o].call_count; ++k) {
        shoal_segment_call_t *call = &program->classes[c].orders[o].calls[k];
        const shoal_call_wait_t *all = call->waits;
        const int32_t count = call->wait_count;
        shoal_call_wait_t *kept = test_malloc((size_t)(count + 1) * sizeof *kept);
        for (int32_t w = 0; w < count; ++w, ++call_waits) {
          memcpy(kept, all, (size_t)w * sizeof *kept);
          memcpy(kept + w, all + w + 1, (size_t)(count - w - 1) * sizeof *kept);
          call->waits = kept;
          call->wait_count = count - 1;
          shoal_status_t status = shoal_program_check(program, shoal_allocator_system());
          if (!status || !strstr(shoal_status_message(status), "nothing orders the two"))
            fail_msg("%s on %s: call %lld of '%s' need not wait by %d<%d.%d: %s", example->model,
                     example->strategy, (long long)k, program->classes[c].orders[o].graph,
                     all[w].instruction, all[w].back, all[w].other,
                     status ? shoal_status_message(status) : "passes");
          shoal_status_free(status);
        }
        call->waits = all;
        call->wait_count = count;
        test_free(kept);
      }
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
}

static void test_every_call_wait_is_needed(void **state) {
  (void)state;
  call_waits = 0;
  for_each_example(expect_call_waits_needed);
  assert_true(call_waits > 20);
}

static void test_every_wait_is_needed(void **state) {
  (void)state;
  for_each_example(expect_waits_needed);
}

// ---- what outlives a call -------------------------------------------------------------

// The last instruction of a micro-batch reads what all of them share, and nobody reads what it
// makes: it is not the last use all the same.
static void test_loop_keeps_what_it_shares(void **state) {
  (void)state;
  static const shoal_intent_entry_t layout = {"x", "micro:0"};
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(4, 3));
  shoal_value_t w = shoal_state(g, "w", SHOAL_F64, SHOAL_SHAPE(3, 3), NULL);
  shoal_value_t shared = shoal_exp(g, w);
  shoal_value_t product = shoal_matmul(g, shoal_transpose(g, x, SHOAL_SHAPE(1, 0)), x);
  shoal_mul(g, shared, product);
  assert_ok(shoal_model_status(model));
  shoal_plan_t *plan = plan_of(model, rules, "data=1,micro=2", 1, &layout, 1);
  shoal_program_t *program = lower(plan);
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_no_live_buffers_overlap),
      cmocka_unit_test(test_sizes),
      cmocka_unit_test(test_sizes_are_of_the_class),
      cmocka_unit_test(test_every_wait_is_needed),
      cmocka_unit_test(test_every_call_wait_is_needed),
      cmocka_unit_test(test_loop_keeps_what_it_shares),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
