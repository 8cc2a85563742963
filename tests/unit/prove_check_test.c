// The checker itself: it passes what is right, and names what is wrong.
// links: explore
#include <math.h>

#include "unit.h"

#include "explore/random_case.h"
#include "prove/reference.h"
#include "shoal/lower.h"
#include "shoal/ops.h"
#include "shoal/planners.h"
#include "unit/zoo_sizes.h"

static shoal_model_t *tiny_mlp(shoal_dtype_t dtype) {
  shoal_model_t *model = NULL;
  assert_ok(shoal_model_create(&(shoal_model_options_t){.seed = 3}, &model));
  add_mlp(model, &(mlp_sizes_t){.batch = 5,
                                .in_features = 3,
                                .hidden = 4,
                                .classes = 3,
                                .layers = 1,
                                .dtype = dtype,
                                .eps = 1e-3});
  assert_ok(shoal_model_status(model));
  return model;
}

static void test_passes(void **state) {
  (void)state;
  const shoal_dtype_t dtypes[] = {SHOAL_F64, SHOAL_F32, SHOAL_BF16};
  for (int i = 0; i < 3; ++i) {
    shoal_model_t *model = tiny_mlp(dtypes[i]);
    shoal_check_report_t report;
    assert_ok(shoal_check_model(
        model,
        &(shoal_check_options_t){
            .ranks = 2, .strategy = "data", .steps = 4, .seed = 9, .opaque = i == 1},
        &report));
    assert_true(report.values > 50);
    assert_true(report.parts > report.values);
    assert_true(report.worst < 1);
    assert_true(report.arena_bytes > 0);
    shoal_model_free(model);
  }
}

static void test_processes(void **state) {
  (void)state;
  shoal_model_t *model = tiny_mlp(SHOAL_F64);
  shoal_check_report_t report;
  assert_ok(shoal_check_model(
      model,
      &(shoal_check_options_t){
          .ranks = 2, .strategy = "data", .direct = true, .processes = true, .seed = 9},
      &report));
  assert_true(report.parts > 50);
  shoal_model_free(model);
}

// Lowers, lets `spoil` change the program, and expects the check to say `what`.
static void expect(const char *what, void (*spoil)(shoal_program_t *program)) {
  shoal_model_t *model = tiny_mlp(SHOAL_F64);
  shoal_rules_t *rules = NULL;
  shoal_plan_t *plan = NULL;
  shoal_program_t *program = NULL;
  assert_ok(shoal_rules_create(shoal_allocator_system(), &rules));
  assert_ok(shoal_plan_make(
      model, rules,
      &(shoal_plan_options_t){.strategy = "data", .mesh = "data=2,micro=2", .world = 2}, &plan));
  assert_ok(shoal_lower(plan, NULL, &program));
  spoil(program);
  shoal_check_options_t options = {.ranks = 2, .program = program, .seed = 4, .timeout_ms = 5000};
  assert_error(MISMATCH, what, shoal_check_model(model, &options, NULL));
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_rules_free(rules);
  shoal_model_free(model);
}

static shoal_instruction_t *find(shoal_program_t *program, shoal_opcode_t opcode,
                                 const char *name) {
  for (int64_t s = 0; s < program->classes[0].segment_count; ++s)
    for (int64_t i = 0; i < program->classes[0].segments[s].instruction_count; ++i) {
      shoal_instruction_t *in = &program->classes[0].segments[s].instructions[i];
      if (in->opcode == opcode && strcmp(in->name, name) == 0) return in;
    }
  fail_msg("no instruction '%s'", name);
  return NULL;
}

static void scale_count(shoal_program_t *program) {
  shoal_instruction_t *in =
      find(program, SHOAL_OPCODE_COMPUTE, "grad/cross_entropy/cross_entropy_grad");
  for (int32_t a = 0; a < in->op->attr_count; ++a)
    if (strcmp(in->op->attrs[a].name, "count") == 0) ((shoal_attr_value_t *)in->attrs)[a].i += 1;
}

static void forget_slower(shoal_program_t *program) {
  shoal_instruction_t *in = find(program, SHOAL_OPCODE_COMPUTE, "update/fc1/weight/adamw_update");
  for (int32_t a = 0; a < in->op->attr_count; ++a)
    if (strcmp(in->op->attrs[a].name, "beta1") == 0) ((shoal_attr_value_t *)in->attrs)[a].f += 1e-6;
}

static void forget_numbers(shoal_program_t *program) {
  shoal_instruction_t *in = find(program, SHOAL_OPCODE_COMPUTE, "update/fc1/weight/adamw_update");
  for (int32_t a = 0; a < in->op->attr_count; ++a)
    if (strcmp(in->op->attrs[a].name, "beta1") == 0) ((shoal_attr_value_t *)in->attrs)[a].f = NAN;
}

static void forget_waits(shoal_program_t *program) {
  for (int64_t s = 0; s < program->classes[0].segment_count; ++s)
    for (int64_t i = 0; i < program->classes[0].segments[s].instruction_count; ++i)
      program->classes[0].segments[s].instructions[i].wait_count = 0;
}

static void test_names_the_first_wrong_value(void **state) {
  (void)state;
  expect("value 'grad/cross_entropy/cross_entropy_grad'", scale_count);
  expect("index [", scale_count);
  expect("micro-batch 0", scale_count);
  expect("value 'update/fc1/weight/adamw_update", forget_slower);
  expect("nan, expected", forget_numbers);
  expect("static check", forget_waits);
}

static void test_case_text(void **state) {
  (void)state;
  const char *text =
      "seed=7 ranks=2 adamw eval opaque steps=5; i0=f64[3,5]=; i1=i32[3]<7; i2=f64[]+; "
      "i3=i64[2]~4; s0=f64[5,7]; "
      "v0=matmul(i0,s0); "
      "v1=pick(v0,i1); v2=mul(v1,i2); v3=dropout(v2,step){p=0.5, key=3}; mesh data=2; pin s0 "
      "data:1; "
      "pin i0 data:0(3,1); expand v0/*";
  shoal_arena_t arena;
  shoal_registry_t *registry = NULL;
  shoal_random_case_t c;
  const char *again = NULL;
  shoal_arena_init(shoal_allocator_system(), &arena);
  assert_ok(shoal_registry_create(shoal_allocator_system(), &registry));
  assert_ok(shoal_random_case_parse(text, registry, &arena, &c));
  assert_ok(shoal_random_case_print(&c, &arena, &again));
  assert_string_equal(text, again);
  assert_error(INVALID_ARGUMENT, "v0",
               shoal_random_case_parse("seed=1 ranks=1 sgd; i0=f64[3,5]; "
                                       "v0=matmul(i0,i0)",
                                       registry, &arena, &c));
  assert_error(INVALID_ARGUMENT, "unknown word",
               shoal_random_case_parse("seed=1 rank=2", registry, &arena, &c));
  shoal_registry_release(registry);
  shoal_arena_deinit(&arena);
}

// On a mesh over ranks of several classes each class touches all it plans, and plans no other's
// parts.
static void test_every_class_touches_its_plan(void **state) {
  (void)state;
  shoal_check_report_t report;
  const shoal_random_options_t options = {0};
  assert_ok(
      shoal_check_case("seed=868806 ranks=4 adamw opaque; i0=f64[1,2]; i1=f64[2]; s0=f64[2]; "
                       "v0=dropout(i0,step){p=0.4, key=123}; "
                       "v1=mul(i1,s0); mesh p!data=2,tensor=1@0,1; mesh q!data=2@3,2; mesh "
                       "u!data=2,tensor=2@1,3,0,2; "
                       "pin s0 u!data:0,tensor:0/3; stage v0/* p",
                       &options, &report));
  assert_int_equal(report.step, SHOAL_CHECK_MEMORY);
}

static void test_case_runs_and_is_refused(void **state) {
  (void)state;
  shoal_check_report_t report;
  const shoal_random_options_t options = {0};
  assert_ok(shoal_check_case(
      "seed=1 ranks=3 sgd; i0=f32[5,4]; s0=f32[4,3]; v0=matmul(i0,s0); mesh data=3; "
      "pin i0 data:0",
      &options, &report));
  assert_error(INVALID_ARGUMENT, "data",
               shoal_check_case("seed=1 ranks=3 sgd; i0=f32[5,4]; s0=f32[4,3]; "
                                "v0=matmul(i0,s0); mesh data=2",
                                &options, &report));
  assert_true(report.refused);
}

// Indices cover the whole range their consumers allow, whatever the other dims are: the first, the
// last and most quarters in every run of nine, and all sixteenths over the runs; quarters where
// there is only one index.
static void test_feeds_cover_the_range(void **state) {
  (void)state;
  shoal_model_t *model = NULL;
  assert_ok(shoal_model_create(NULL, &model));
  shoal_graph_t *g = shoal_model_graph(model, "train");
  const shoal_state_options_t options = {.init = {SHOAL_INIT_UNIFORM, -1, 1}};
  shoal_value_t table = shoal_state(g, "table", SHOAL_F64, SHOAL_SHAPE(211, 3), &options);
  shoal_value_t ids = shoal_input(g, "ids", SHOAL_I32, SHOAL_SHAPE(3, 3));
  shoal_value_t one = shoal_input(g, "one", SHOAL_U8, SHOAL_SHAPE(1));
  shoal_output(g, "rows", shoal_embedding(g, table, shoal_reshape(g, ids, SHOAL_SHAPE(9))));
  shoal_output(g, "row", shoal_embedding(g, table, one));
  assert_ok(shoal_model_status(model));
  const shoal_check_options_t how = {.allocator = shoal_allocator_system(), .seed = 5};
  bool seen[4] = {false}, sixteenth[16] = {false};
  for (int32_t run = 1; run <= 9; ++run) {
    int32_t data[9], quarter[4] = {0}, first = 0, last = 0;
    uint8_t single = 0;
    assert_ok(shoal_feed_fill(&how, g, g->inputs.items[0].value, run, data));
    for (int i = 0; i < 9; ++i) {
      assert_in_range(data[i], 0, 210);
      quarter[data[i] * 4 / 211] = 1;
      sixteenth[data[i] * 16 / 211] = true;
      first |= data[i] == 0;
      last |= data[i] == 210;
    }
    assert_true(first && last && quarter[0] + quarter[1] + quarter[2] + quarter[3] >= 3);
    assert_ok(shoal_feed_fill(&how, g, g->inputs.items[1].value, run, &single));
    assert_in_range(single, 0, 210);
    seen[single * 4 / 211] = true;
  }
  assert_true(seen[0] && seen[1] && seen[2] && seen[3]);
  for (int i = 0; i < 16; ++i) assert_true(sixteenth[i]);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_passes),
      cmocka_unit_test(test_processes),
      cmocka_unit_test(test_names_the_first_wrong_value),
      cmocka_unit_test(test_every_class_touches_its_plan),
      cmocka_unit_test(test_feeds_cover_the_range),
      cmocka_unit_test(test_case_text),
      cmocka_unit_test(test_case_runs_and_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
