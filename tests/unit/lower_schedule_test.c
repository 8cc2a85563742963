// links: all
//
// Schedules in lowering: which work each item goes to, in which order segments are called, and what
// cannot be scheduled, with its name. That programs with schedules compute the same is in
// session_schedules_test.c.
#include "plan/stages.h"
#include "plan_fixture.h"
#include "shoal/ops.h"
#include "shoal/schedule.h"

enum { WIDTH = 4, LAYERS = 3 };

// x -> layer0 -> layer1 -> layer2 -> loss. With `skip` layer2 also reads what layer0 makes, with
// `tied` it has the weight of layer0.
static shoal_model_t *make_model(bool skip, bool tied) {
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t h = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(8, WIDTH)), first = h;
  const shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(8));
  shoal_value_t weights[LAYERS];
  for (int c = 0; c < LAYERS; ++c) {
    char name[16];
    snprintf(name, sizeof name, "layer%d", c);
    shoal_scope_push(g, name);
    weights[c] = c == 2 && tied ? weights[0]
                                : shoal_state(g, "weight", SHOAL_F32, SHOAL_SHAPE(WIDTH, WIDTH),
                                              &(shoal_state_options_t){.trainable = true});
    if (c == 2 && skip) h = shoal_add(g, h, first);
    h = shoal_tanh(g, shoal_matmul(g, h, weights[c]));
    if (c == 0) first = h;
    shoal_scope_pop(g);
  }
  const shoal_value_t loss = shoal_nn_cross_entropy(g, h, y);
  shoal_minimize(g, loss, &(shoal_adamw_t){.lr = 1e-2f});
  shoal_output(g, "loss", loss);
  assert_ok(shoal_model_status(model));
  return model;
}

// Layer i on mesh meshes[i], each with one rank, in 4 micro-batches.
static shoal_status_t plan_as(const shoal_model_t *model, const char *const *texts,
                              const char *const meshes[LAYERS], const char *choice,
                              shoal_plan_t **out_plan) {
  const shoal_intent_entry_t stages[] = {{"layer0/*", meshes[0]},
                                         {"layer1/*", meshes[1]},
                                         {"layer2/*", meshes[2]},
                                         {"cross_entropy*", meshes[2]}};
  char x[32], y[32];
  snprintf(x, sizeof x, "%s!micro:0", meshes[0]);
  snprintf(y, sizeof y, "%s!micro:0", meshes[2]);
  const shoal_intent_entry_t layouts[] = {{"x", x}, {"y", y}};
  const shoal_intent_decision_t schedule = {
      .kind = "schedule", .pattern = "train", .choice = choice};
  return shoal_plan_create(model, rules,
                           &(shoal_intent_t){.mesh_count = 3,
                                             .meshes = texts,
                                             .layout_count = COUNT(layouts),
                                             .layouts = layouts,
                                             .stage_count = COUNT(stages),
                                             .stages = stages,
                                             .decision_count = 1,
                                             .decisions = &schedule},
                           3, shoal_allocator_system(), out_plan);
}

static const char *const APART[] = {"a!d=1,micro=4@0", "b!d=1,micro=4@1", "c!d=1,micro=4@2"};
static const char *const ABC[] = {"a", "b", "c"};

static shoal_program_t *program_of(const shoal_model_t *model, const char *choice) {
  shoal_plan_t *plan;
  assert_ok(plan_as(model, APART, ABC, choice, &plan));
  shoal_program_t *program = lower(plan);
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
  shoal_plan_free(plan);
  return program;
}

// Does a segment have an instruction of this name?
static bool has(const shoal_program_t *program, int64_t c, const char *segment, const char *name) {
  for (int64_t s = 0; s < program->classes[c].segment_count; ++s) {
    const shoal_segment_t *text = &program->classes[c].segments[s];
    if (strcmp(text->name, segment) != 0) continue;
    for (int64_t i = 0; i < text->instruction_count; ++i)
      if (strcmp(text->instructions[i].name, name) == 0) return true;
  }
  return false;
}

// The calls of the loop are the row, entry for entry.
static void expect_row(const shoal_program_t *program, int64_t c, const char *choice) {
  shoal_arena_t arena;
  const shoal_schedule_t *table;
  shoal_arena_init(shoal_allocator_system(), &arena);
  assert_ok(shoal_schedule_create(
      choice, &(shoal_pipeline_t){.mesh_count = 3, .stage_count = 3, .micro = 4}, &arena, &table));
  const shoal_schedule_row_t *row = &table->rows[c];
  const shoal_order_t *order = order_of(&program->classes[c], "train");
  int64_t at = 0;
  for (int64_t k = 0; k < order->call_count; ++k) {
    const char *name = program->classes[c].segments[order->calls[k].segment].name;
    char expected[32];
    if (strncmp(name, "train.loop.", 11) != 0) continue;
    assert_true(at < row->count);
    snprintf(expected, sizeof expected, "%c%d", "FBW"[row->entries[at].work],
             row -> entries[at].stage);
    assert_string_equal(name + 11, expected);
    assert_int_equal(order->calls[k].micro, row->entries[at++].micro);
  }
  assert_int_equal(at, row->count);
  shoal_arena_deinit(&arena);
}

static void test_rows(void **state) {
  (void)state;
  shoal_model_t *model = make_model(false, false);
  for (int64_t i = 0; shoal_schedule_name(i); ++i) {
    if (strcmp(shoal_schedule_name(i), "zb-v") == 0) continue;  // it wants them there and back
    shoal_program_t *program = program_of(model, shoal_schedule_name(i));
    for (int64_t c = 0; c < 3; ++c) expect_row(program, c, shoal_schedule_name(i));
    shoal_program_free(program);
  }
  shoal_model_free(model);
}

// Weight gradients are W where the table splits backward, else B; what is received, fed,
// accumulated is with the work that it serves.
static void test_places(void **state) {
  (void)state;
  shoal_model_t *model = make_model(false, false);
  for (int split = 0; split < 2; ++split) {
    shoal_program_t *program = program_of(model, split ? "zb-h1" : "1f1b");
    const char *weight = split ? "train.loop.W1" : "train.loop.B1";
    assert_true(has(program, 0, "train.loop.F0", "x"));
    assert_true(has(program, 2, "train.loop.F2", "y"));
    assert_true(has(program, 1, "train.loop.F1", "layer0/tanh"));  // received
    assert_true(has(program, 0, "train.loop.F0", "layer0/tanh"));  // sent
    assert_true(has(program, 1, "train.loop.B1", "grad/layer1/matmul/matmul"));
    assert_true(has(program, 1, weight, "grad/layer1/matmul/matmul_1"));
    assert_int_equal(
        count_in(segment_of(&program->classes[1], weight), SHOAL_OPCODE_ACCUMULATE, NULL), 1);
    assert_true(has(program, 2, "train.loop.F2", "cross_entropy"));
    assert_true(has(program, 2, "train.loop.B2", "grad/cross_entropy/cross_entropy_grad"));
    shoal_program_free(program);
  }
  shoal_model_free(model);
}

// What layer 2 reads of layer 0 goes there directly. The weight that stages 0 and 2 use has a
// gradient from both: that of stage 2 is sent with B, for nothing waits for W.
static void test_skips_and_ties(void **state) {
  (void)state;
  for (int64_t i = 0; shoal_schedule_name(i); ++i) {
    if (strcmp(shoal_schedule_name(i), "zb-v") == 0) continue;  // it wants them there and back
    shoal_model_t *skip = make_model(true, false), *tied = make_model(false, true);
    shoal_program_t *program = program_of(skip, shoal_schedule_name(i));
    assert_true(has(program, 2, "train.loop.F2", "layer0/tanh"));
    assert_true(has(program, 0, "train.loop.B0", "grad/layer0/tanh/add"));
    shoal_program_free(program);
    program = program_of(tied, shoal_schedule_name(i));
    assert_true(has(program, 2, "train.loop.B2", "grad/layer2/matmul/matmul_1"));
    assert_false(has(program, 2, "train.loop.W2", "grad/layer2/matmul/matmul_1"));
    shoal_program_free(program);
    shoal_model_free(tied);
    shoal_model_free(skip);
  }
}

// Layers on a, b, a: two meshes, three stages; gpipe takes them.
static void test_turns(void **state) {
  (void)state;
  shoal_model_t *model = make_model(false, false);
  const char *const turns[] = {"a", "b", "a"};
  shoal_plan_t *plan = NULL;
  assert_ok(plan_as(model, APART, turns, "gpipe", &plan));
  shoal_program_t *program = lower(plan);
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
  assert_true(has(program, 0, "train.loop.F2", "layer2/tanh"));
  shoal_program_free(program);
  shoal_plan_free(plan);
  plan = NULL;
  assert_error(INVALID_ARGUMENT, "'schedule train zb-h1'",
               plan_as(model, APART, turns, "zb-h1", &plan));
  assert_error(INVALID_ARGUMENT, "there are 3 on 2",
               plan_as(model, APART, turns, "interleaved", &plan));
  shoal_model_free(model);
}

static void refuse_plan(const shoal_model_t *model, const char *part, const char *table) {
  shoal_plan_t *plan = NULL;
  assert_error(INVALID_ARGUMENT, part, plan_as(model, APART, ABC, table, &plan));
  assert_null(plan);
}

static void refuse_lowering(const shoal_model_t *model, const char *part, const char *const *texts,
                            const char *const *meshes, const char *choice) {
  shoal_plan_t *plan = NULL;
  shoal_program_t *program = NULL;
  assert_ok(plan_as(model, texts, meshes, choice, &plan));
  assert_error(UNSUPPORTED, part, shoal_lower(plan, NULL, &program));
  shoal_plan_free(plan);
}

static void test_refusals(void **state) {
  (void)state;
  shoal_model_t *model = make_model(false, false);
  refuse_plan(model, "the table has 2 stages, the graph has 3",
              "table a: F0.0 F0.1 F0.2 F0.3 B0.0 B0.1 B0.2 B0.3\n"
              "b: F1.0 F1.1 F1.2 F1.3 B1.0 B1.1 B1.2 B1.3");
  refuse_plan(model, "the table has 1 micro-batches, the meshes have micro=4",
              "table a: F0.0 B0.0 b: F1.0 B1.0 c: F2.0 B2.0");
  refuse_plan(model, "mesh 'a', entry 0: B0.0 needs F0.0", "table a: B0.0 F0.0");
  refuse_plan(model, "expected", "table 7");
  // The messages of stage 0 come in another order than stage 1 takes them.
  refuse_lowering(model, "('layer0/tanh') is sent by entry 0, F0.0, but entry 0, F1.1, expects",
                  APART, ABC,
                  "table a: F0.0 F0.1 F0.2 F0.3 B0.0 B0.1 B0.2 B0.3\n"
                  "b: F1.1 F1.0 F1.2 F1.3 B1.0 B1.1 B1.2 B1.3\n"
                  "c: F2.0 F2.1 F2.2 F2.3 B2.0 B2.1 B2.2 B2.3");
  const char *const shared[] = {"a!d=1,micro=4@0", "b!d=2,micro=4@0-1", "c!d=1,micro=4@2"};
  refuse_lowering(model, "without common ranks; 'a' and 'b' have some", shared, ABC, "1f1b");
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows),     cmocka_unit_test(test_places),
      cmocka_unit_test(test_turns),    cmocka_unit_test(test_skips_and_ties),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
