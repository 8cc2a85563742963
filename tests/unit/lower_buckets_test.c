// links: all
//
// The pass `buckets`: which reshards become one, why a bucket is closed, and that nobody waits for
// one who must not. That the bits stay the same is tests/check_buckets.sh's to show.
#include "op/type.h"
#include "plan_fixture.h"
#include "shoal/ops.h"

#define D(pattern_, choice_) \
  { .kind = "sync", .pattern = pattern_, .choice = choice_ }

static shoal_plan_t *plan_with(const shoal_model_t *model, const char *mesh, int32_t world,
                               int64_t layout_count, const shoal_intent_entry_t *layouts,
                               int64_t count, const shoal_intent_decision_t *decisions) {
  const shoal_intent_t intent = {.mesh_count = 1,
                                 .meshes = &mesh,
                                 .layout_count = layout_count,
                                 .layouts = layouts,
                                 .decision_count = count,
                                 .decisions = decisions};
  shoal_plan_t *plan;
  assert_ok(shoal_plan_create(model, rules, &intent, world, shoal_allocator_system(), &plan));
  return plan;
}

static shoal_program_t *lowered(const shoal_plan_t *plan) {
  shoal_program_t *program;
  assert_ok(shoal_lower(plan, NULL, &program));
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
  return program;
}

static const shoal_intent_entry_t by_rows[] = {{"ids", "data:0"}, {"labels", "data:0"}};

// Reductions of gradients: of each their bytes, and the instruction that carries them.
typedef struct gradients {
  int64_t count, instructions, largest, members[64];
} gradients_t;

static bool is_gradient(const shoal_buffer_t *buffer) {
  return strncmp(buffer->name, "grad/", 5) == 0 && shoal_layout_is_partial(buffer->layout);
}

static gradients_t count_gradients(const shoal_program_t *program) {
  gradients_t found = {0};
  const shoal_class_t *c = &program->classes[0];
  for (int64_t s = 0; s < c->segment_count; ++s) {
    if (strncmp(c->segments[s].name, "train", 5) != 0) continue;
    for (int64_t i = 0; i < c->segments[s].instruction_count; ++i) {
      const shoal_instruction_t *in = &c->segments[s].instructions[i];
      if (in->opcode != SHOAL_OPCODE_RESHARD || !is_gradient(&c->buffers[in->inputs[0]])) continue;
      int64_t bytes = 0;
      for (int32_t k = 0; k < in->input_count; ++k) {
        assert_true(is_gradient(&c->buffers[in->inputs[k]]));
        bytes += shoal_type_bytes(&c->buffers[in->inputs[k]].type);
      }
      if (in->input_count > 1 && bytes > found.largest) found.largest = bytes;
      found.members[found.instructions++] = in->input_count;
      found.count += in->input_count;
    }
  }
  return found;
}

static void test_sizes(void **state) {
  (void)state;
  shoal_model_t *model = small_gpt(false);
  static const struct {
    const char *choice;
    int64_t limit;
  } cases[] = {{"bucket=1K", 1024}, {"bucket=16K", 16384}, {"bucket=1G", INT64_MAX}};
  shoal_plan_t *plan = plan_with(model, "data=3", 3, 2, by_rows, 0, NULL);
  shoal_program_t *program = lowered(plan);
  const gradients_t alone = count_gradients(program);
  assert_int_equal(alone.count, alone.instructions);
  assert_true(alone.count > 20);
  shoal_program_free(program);
  shoal_plan_free(plan);
  int64_t before = alone.instructions;
  for (int64_t i = 0; i < COUNT(cases); ++i) {
    const shoal_intent_decision_t decision = D("*", cases[i].choice);
    plan = plan_with(model, "data=3", 3, 2, by_rows, 1, &decision);
    program = lowered(plan);
    const gradients_t found = count_gradients(program);
    assert_int_equal(found.count, alone.count);
    assert_true(found.largest > 0 && found.largest <= cases[i].limit);
    assert_true(found.instructions < before);
    before = found.instructions;
    shoal_program_free(program);
    shoal_plan_free(plan);
  }
  assert_int_equal(before, 1);
  shoal_model_free(model);
}

// By name, and only what the patterns speak of: a gradient belongs to the state that it updates.
static void test_names(void **state) {
  (void)state;
  shoal_model_t *model = small_gpt(false);
  static const shoal_intent_decision_t decisions[] = {
      D("block0/*", "bucket=first"), D("block1/*", "bucket=second"), D("wpe*", "bucket=first")};
  shoal_plan_t *plan = plan_with(model, "data=2", 2, 2, by_rows, 3, decisions);
  shoal_program_t *program = lowered(plan);
  const gradients_t found = count_gradients(program);
  int64_t together = 0, several = 0;
  for (int64_t i = 0; i < found.instructions; ++i) {
    several += found.members[i] > 1;
    if (found.members[i] > 1) together += found.members[i];
  }
  assert_int_equal(several, 2);
  assert_int_equal(together, 2 * 12 + 1);  // of both blocks, and the positions'
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// ---- who must not wait ------------------------------------------------------------------

// Three gradients; before the last, the forward pass needs the first.
static shoal_model_t *needy_model(void) {
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  const shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(6, 4));
  shoal_value_t w[3], d[3];
  for (int i = 0; i < 3; ++i) {
    static const char *const names[] = {"u", "v", "w"};
    w[i] = shoal_state(g, names[i], SHOAL_F32, SHOAL_SHAPE(4),
                       &(shoal_state_options_t){.trainable = true});
  }
  for (int i = 0; i < 3; ++i) {
    shoal_kind_push(g, SHOAL_NODE_WEIGHT_GRADIENT);
    d[i] = shoal_reduce_sum(g, shoal_mul(g, x, w[i]), SHOAL_SHAPE(0));
    shoal_kind_pop(g);
    if (i == 1) shoal_output(g, "needed", shoal_square(g, shoal_square(g, d[0])));
  }
  shoal_kind_push(g, SHOAL_NODE_UPDATE);
  for (int i = 0; i < 3; ++i) shoal_assign(g, w[i], shoal_sub(g, w[i], d[i]));
  shoal_kind_pop(g);
  assert_ok(shoal_model_status(model));
  return model;
}

static void test_needed(void **state) {
  (void)state;
  shoal_model_t *model = needy_model();
  static const shoal_intent_entry_t layouts[] = {{"x", "data:0"}};
  const shoal_intent_decision_t decision = D("*", "bucket=all");
  shoal_plan_t *plan = plan_with(model, "data=2", 2, 1, layouts, 1, &decision);
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const char *text;
  assert_ok(shoal_lower_explain(plan, NULL, "buckets", &arena, &text));
  const char *first = strstr(text, "closed: '"), *square = strstr(text, "(shoal.square)");
  assert_non_null(first);
  assert_non_null(strstr(first, "needs it"));
  assert_true(first < square);
  assert_non_null(strstr(square, "closed: the segment ended"));
  assert_true(strstr(text, "(shoal.sub)") > square);
  shoal_program_free(lowered(plan));
  shoal_arena_deinit(&arena);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// What rests in parts is gathered together, where the first is needed.
typedef struct gathers {
  int64_t instructions, states;
} gathers_t;

static gathers_t count_gathers(const shoal_program_t *program) {
  const shoal_class_t *c = &program->classes[0];
  gathers_t found = {0};
  for (int64_t s = 0; s < c->segment_count; ++s) {
    if (strncmp(c->segments[s].name, "train", 5) != 0) continue;
    for (int64_t i = 0; i < c->segments[s].instruction_count; ++i) {
      const shoal_instruction_t *in = &c->segments[s].instructions[i];
      if (in->opcode != SHOAL_OPCODE_RESHARD) continue;
      if (c->buffers[in->inputs[0]].kind != SHOAL_BUFFER_STATE) continue;
      ++found.instructions;
      found.states += in->input_count;
    }
  }
  return found;
}

// What is gathered again for the backward pass is not gathered with the forward pass's: it would be
// kept in between.
static void test_gathers(void **state) {
  (void)state;
  shoal_model_t *model = small_mlp(6);
  static const shoal_intent_entry_t layouts[] = {
      {"*", "data:flat"}, {"x", "data:0"}, {"y", "data:0"}, {"step", ""}, {"lr", ""}};
  const shoal_intent_decision_t decisions[] = {
      D("*", "bucket=all"), {.kind = "keep", .pattern = "*weight", .choice = "redo"}};
  for (int64_t redo = 0; redo < 2; ++redo) {
    shoal_plan_t *plan = plan_with(model, "data=2", 2, 5, layouts, 1 + redo, decisions);
    shoal_program_t *program = lowered(plan);
    const gathers_t found = count_gathers(program);
    assert_int_equal(found.instructions, 1 + redo);
    assert_int_equal(found.states, 4 + redo);
    shoal_program_free(program);
    shoal_plan_free(plan);
  }
  shoal_model_free(model);
}

// The first instruction behind `at` that reads what it brings; the segment's end if there is none.
static int64_t first_reader(const shoal_segment_t *segment, int64_t at) {
  const shoal_instruction_t *in = &segment->instructions[at];
  for (int64_t i = at + 1; i < segment->instruction_count; ++i)
    for (int32_t k = 0; k < segment->instructions[i].input_count; ++k)
      for (int32_t o = 0; o < in->output_count; ++o)
        if (segment->instructions[i].inputs[k] == in->outputs[o]) return i;
  return segment->instruction_count;
}

// While a bucket is reduced, everything up to who needs it goes on: nothing of it lies where the
// bucket's operands or its workspace lie, so nothing waits. Buckets share one workspace.
static void test_nothing_waits_beside(void **state) {
  (void)state;
  shoal_model_t *model = small_gpt(false);
  const shoal_intent_decision_t decisions[] = {D("*", "bucket=4K")};
  shoal_plan_t *plan = plan_with(model, "data=3", 3, 2, by_rows, 1, decisions);
  shoal_program_t *program = lowered(plan);
  const shoal_class_t *c = &program->classes[0];
  int64_t buckets = 0, beside = 0, workspace = -1;
  for (int64_t s = 0; s < c->segment_count; ++s) {
    const shoal_segment_t *segment = &c->segments[s];
    for (int64_t i = 0; i < segment->instruction_count; ++i) {
      const shoal_instruction_t *in = &segment->instructions[i];
      if (in->opcode != SHOAL_OPCODE_RESHARD || in->input_count < 2) continue;
      const int64_t reader = first_reader(segment, i);
      for (int64_t k = i + 1; k < reader; ++k) {
        const shoal_instruction_t *other = &segment->instructions[k];
        for (int32_t w = 0; w < other->wait_count; ++w) assert_int_not_equal(other->waits[w], i);
        beside += other->queue != in->queue;
      }
      if (reader == i + 1) continue;
      ++buckets;
      if (workspace >= 0) assert_int_equal(in->workspace_offset, workspace);
      workspace = in->workspace_offset;
    }
  }
  assert_true(buckets >= 3 && beside > 10);
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sizes),   cmocka_unit_test(test_nothing_waits_beside),
      cmocka_unit_test(test_names),   cmocka_unit_test(test_needed),
      cmocka_unit_test(test_gathers),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
