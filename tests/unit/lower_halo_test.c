// links: all
//
// Nodes that wait for halos: the pass `halo` splits them where a decision says so, says why where
// it does not, and refuses what cannot be split. Plan files keep the decision, and a program that
// puts the pieces together wrongly is refused. That split programs compute the same is in
// check_halo.sh.
#include "lower_pass_support.h"
#include "shoal/nn.h"
#include "shoal/ops.h"

// Two convolutions with windows of 3 rows and 3 columns over an image of rows x 6.
static shoal_model_t *make_model(int64_t rows) {
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t h = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(4, 1, rows, 6));
  h = shoal_tanh(g, shoal_nn_conv2d(g, "c1", h, 2, 3, 1, 1));
  h = shoal_tanh(g, shoal_nn_conv2d(g, "c2", h, 2, 3, 1, 1));
  const shoal_value_t loss = shoal_reduce_mean(g, shoal_square(g, h), SHOAL_SHAPE(0, 1, 2, 3));
  shoal_minimize(g, loss, &(shoal_adamw_t){.lr = 1e-2f});
  shoal_output(g, "loss", loss);
  assert_ok(shoal_model_status(model));
  return model;
}

static shoal_status_t plan_as(const shoal_model_t *model, const char *mesh, const char *layout,
                              const char *pattern, const char *choice, int32_t world,
                              shoal_plan_t **out_plan) {
  const shoal_intent_entry_t layouts[] = {{"x", layout}};
  const shoal_intent_decision_t halo = {.kind = "halo", .pattern = pattern, .choice = choice};
  return shoal_plan_create(model, rules,
                           &(shoal_intent_t){.mesh_count = 1,
                                             .meshes = &mesh,
                                             .layout_count = 1,
                                             .layouts = layouts,
                                             .decision_count = choice ? 1 : 0,
                                             .decisions = &halo},
                           world, shoal_allocator_system(), out_plan);
}

static const char *pass_of(const shoal_plan_t *plan, shoal_arena_t *arena) {
  return explain_pass(plan, "halo", arena);
}

// The interior from the image without halo, then borders from the one with it, then all together.
static void test_items(void **state) {
  (void)state;
  static const char *const lines[] = {
      "  reshard    x: x[space:2] -> x[space:2+1+1]",
      "  compute    c1/conv (shoal.conv): x[space:2] c1/weight[] -> c1/conv[space:2-1-1]",
      "  compute    c1/conv (shoal.conv): x[space:2+1+1] c1/weight[] -> "
      "c1/conv[space:2+0-5]",
      "  compute    c1/conv (shoal.conv): x[space:2+1+1] c1/weight[] -> "
      "c1/conv[space:2-5+0]",
      "  assemble   c1/conv: c1/conv[space:2-1-1] c1/conv[space:2+0-5] "
      "c1/conv[space:2-5+0] -> c1/conv[space:2]"};
  shoal_model_t *model = make_model(13);  // parts of 7 and 6 rows
  shoal_plan_t *plan;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  assert_ok(plan_as(model, "space=2", "space:2", "c1/conv", "split", 2, &plan));
  const char *text = pass_of(plan, &arena), *at = text;
  for (int64_t i = 0; i < COUNT(lines); ++i) {
    at = strstr(at, lines[i]);
    if (!at) fail_msg("'%s' is missing, or not in its place, in:\n%s", lines[i], text);
  }
  assert_int_equal(count_parts(text, "\n  assemble "), 1);
  expect_part(text, "-> c2/conv[space:2]  before the loop  whole: no decision asks for a split");
  shoal_program_free(lower(plan));
  shoal_plan_free(plan);
  assert_ok(plan_as(model, "space=2", "space:2", NULL, NULL, 2, &plan));
  assert_int_equal(count_parts(pass_of(plan, &arena), "\n  assemble "), 0);
  shoal_plan_free(plan);
  shoal_arena_deinit(&arena);
  shoal_model_free(model);
}

// What is split and what is not, in parts of all kinds. Two convolutions and the gradient by the
// input of the second can be: the first one's input has none.
static void test_parts(void **state) {
  (void)state;
  static const struct {
    int64_t rows;
    const char *mesh, *layout;
    int32_t world;
    int64_t splits;
    const char *whole;  // a reason that is given
  } cases[] = {
      {13, "space=2", "space:2", 2, 3, "is not cut along 'space'"},
      {13, "space=2", "space:2(9,4)", 2, 3, NULL},
      {13, "space=3", "space:2", 3, 3, NULL},  // parts of 5, 4 and 4
      {9, "space=3", "space:2", 3, 3, NULL},   // one row is inside
      {8, "space=3", "space:2", 3, 0, "has 2 rows, and 2 of them wait for the halo"},
      {4, "space=4", "space:2", 4, 0, "has 1 rows, and 2 of them wait for the halo"},
      {3, "space=5", "space:2", 5, 0, "wait for the halo"},  // two ranks have nothing
      {20, "space=3", "space:2(1,0,1)", 3, 3, NULL},         // one rank has nothing
      {13, "space=2,micro=2", "micro:0,space:2", 2, 3, NULL},
      {13, "data=2,space=2", "data:0,space:2", 4, 3, NULL},
      {13, "space=2,seq=2", "space:2,seq:3", 4, 0, "halos along two axes, 'space' and 'seq'"},
      {13, "space=1", "space:2", 1, 0, NULL},
  };
  for (int64_t i = 0; i < COUNT(cases); ++i) {
    shoal_model_t *model = make_model(cases[i].rows);
    shoal_plan_t *plan;
    shoal_arena_t arena;
    shoal_arena_init(shoal_allocator_system(), &arena);
    assert_ok(plan_as(model, cases[i].mesh, cases[i].layout, "*", "auto", cases[i].world, &plan));
    const char *text = pass_of(plan, &arena);
    if (count_parts(text, "\n  assemble ") != cases[i].splits)
      fail_msg("%lld rows, %s: not %lld splits in:\n%s", (long long)cases[i].rows, cases[i].layout,
               (long long)cases[i].splits, text);
    if (cases[i].whole) expect_part(text, cases[i].whole);
    shoal_program_free(lower(plan));
    shoal_plan_free(plan);
    shoal_arena_deinit(&arena);
    shoal_model_free(model);
  }
}

// A decision to split is kept to, or refused with its words and what speaks against it.
static void test_refused(void **state) {
  (void)state;
  shoal_model_t *model = make_model(8);
  shoal_plan_t *plan;
  shoal_program_t *program = NULL;
  assert_error(INVALID_ARGUMENT, "'halo tanh* split': no node that it names waits for a halo",
               plan_as(model, "space=2", "space:2", "tanh*", "split", 2, &plan));
  assert_error(INVALID_ARGUMENT, "no node that it names waits for a halo",
               plan_as(model, "space=2", "space:0", "c1/conv", "split", 2, &plan));
  assert_error(INVALID_ARGUMENT, "'halves' is no choice of halo",
               plan_as(model, "space=2", "space:2", "*", "halves", 2, &plan));
  assert_ok(plan_as(model, "space=3", "space:2", "c1/*", "split", 3, &plan));
  assert_error(UNSUPPORTED,
               "decision 'halo c1/* split' cannot hold for 'c1/conv': a rank's part of "
               "'c1/conv' has 2 rows",
               shoal_lower(plan, NULL, &program));
  shoal_plan_free(plan);
  assert_ok(plan_as(model, "space=2", "space:2", "grad/c1/*", "split", 2, &plan));
  assert_error(UNSUPPORTED, "cannot hold for 'grad/c1/conv/conv_grad_w': its output",
               shoal_lower(plan, NULL, &program));
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// ---- plan files --------------------------------------------------------------------------

static void test_file(void **state) {
  (void)state;
  shoal_model_t *model = make_model(13);
  shoal_plan_t *plan, *read;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const char *text, *again;
  assert_ok(plan_as(model, "space=2", "space:2", "c*", "split", 2, &plan));
  assert_ok(shoal_plan_print(plan, &arena, &text));
  assert_ok(parse(text, model, &read));
  assert_ok(shoal_plan_print(read, &arena, &again));
  assert_string_equal(text, again);
  assert_string_equal(pass_of(plan, &arena), pass_of(read, &arena));
  assert_int_equal(count_parts(pass_of(read, &arena), "\n  assemble "), 2);
  assert_ok(shoal_plan_why(read, "c1/conv", &arena, &again));
  expect_part(again, "halo: split");
  assert_ok(shoal_plan_explain(read, &arena, &again));
  assert_int_equal(count_parts(again, ", split for its halo\n"), 2);
  shoal_plan_free(read);
  // An edited entry is taken as it says, or refused.
  const char *const kind = strstr(strstr(text, "\"resolved\""), "\"kind\": \"halo\"");
  assert_ok(parse(edit(text, kind, "\"choice\": \"split\"", "\"choice\": \"whole\"", &arena), model,
                  &read));
  assert_int_equal(count_parts(pass_of(read, &arena), "\n  assemble "), 1);
  shoal_plan_free(read);
  assert_ok(parse(edit(text, kind, "c1/conv", "grad/c2/conv/conv_grad_x", &arena), model, &read));
  expect_part(pass_of(read, &arena), "\n  assemble   grad/c2/conv/conv_grad_x: ");
  shoal_plan_free(read);
  assert_error(INVALID_ARGUMENT, "node 'tanh' waits for no halo",
               parse(edit(text, kind, "c1/conv", "tanh", &arena), model, &read));
  assert_error(INVALID_ARGUMENT, "there is no node 'c3/conv'",
               parse(edit(text, kind, "c1/conv", "c3/conv", &arena), model, &read));
  assert_error(INVALID_ARGUMENT, "'halves' is no choice of halo",
               parse(edit(text, kind, "\"split\"", "\"halves\"", &arena), model, &read));
  shoal_plan_free(plan);
  shoal_arena_deinit(&arena);
  shoal_model_free(model);
}

// ---- programs ----------------------------------------------------------------------------

static void test_programs(void **state) {
  (void)state;
  shoal_model_t *model = make_model(13);
  shoal_plan_t *plan;
  shoal_arena_t arena;
  shoal_registry_t *registry;
  shoal_arena_init(shoal_allocator_system(), &arena);
  assert_ok(shoal_registry_create(shoal_allocator_system(), &registry));
  assert_ok(plan_as(model, "space=2", "space:2", "c1/conv", "split", 2, &plan));
  shoal_program_t *program = lower(plan);
  const char *const text = print_and_read(program, registry, &arena);
  expect_refused(edit(text, text, "space:2-1-1", "space:2-2-1", &arena), registry,
                 "no input gives row 1 of this rank's part of 'c1/conv' along dim 2");
  const char *const call = strstr(text, " assemble (");
  assert_non_null(call);
  int interior, first, last, whole;
  assert_int_equal(sscanf(call, " assemble (%d, %d, %d) -> (%d)", &interior, &first, &last, &whole),
                   4);
  char inputs[48], wrong[48];
  snprintf(inputs, sizeof inputs, "(%d, %d, %d)", interior, first, last);
  snprintf(wrong, sizeof wrong, "(%d, %d, %d)", interior, first, whole);
  expect_refused(edit(text, call, inputs, wrong, &arena), registry,
                 "it assembles 'c1/conv' of 'c1/conv'");
  snprintf(wrong, sizeof wrong, "(%d, %d, %d)", interior, first, whole + 1);
  expect_refused(edit(text, call, inputs, wrong, &arena), registry, "'c1/conv'");
  expect_refused(edit(text, call, inputs, "()", &arena), registry, "expected a whole number");
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_registry_release(registry);
  shoal_arena_deinit(&arena);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_items), cmocka_unit_test(test_parts),
                                     cmocka_unit_test(test_refused), cmocka_unit_test(test_file),
                                     cmocka_unit_test(test_programs)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
