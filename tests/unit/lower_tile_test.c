// links: all
//
// Nodes in tiles: the pass `tile` divides them with their gathers and reductions where a decision
// says so, says why where it does not, and refuses what cannot be. Plan files keep the decision,
// and a program that takes or assembles wrong tiles is refused. That programs with tiles compute
// the same is in check_tile.sh.
#include "lower_pass_support.h"
#include "shoal/nn.h"
#include "shoal/ops.h"

// Two products over `rows` rows: 4 -> 6 -> 4 columns.
static shoal_model_t *make_model(int64_t rows) {
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(rows, 4));
  shoal_value_t h = shoal_tanh(g, shoal_nn_linear(g, "fc1", x, 6));
  h = shoal_square(g, shoal_nn_linear(g, "fc2", h, 4));
  const shoal_value_t loss = shoal_reduce_mean(g, h, SHOAL_SHAPE(0, 1));
  shoal_minimize(g, loss, &(shoal_adamw_t){.lr = 1e-2f});
  shoal_output(g, "loss", loss);
  assert_ok(shoal_model_status(model));
  return model;
}

// Rows are cut; the first product is cut along its columns, the second along what it sums over. The
// gradient of the first weight wants all of x.
static shoal_status_t plan_as(const shoal_model_t *model, const char *mesh, const char *rows,
                              const char *pattern, const char *choice, int32_t world,
                              shoal_plan_t **out_plan) {
  const shoal_intent_entry_t layouts[] = {
      {"x", rows}, {"fc2/add", rows}, {"fc1/weight", "tensor:1"}, {"fc2/weight", "tensor:0"}};
  const shoal_intent_decision_t decisions[] = {
      {.kind = "way", .pattern = "fc1/einsum", .choice = "tensor={b:1 -> out:1}"},
      {.kind = "way", .pattern = "fc2/einsum", .choice = "tensor={a:1, b:0 -> out:sum}"},
      {.kind = "way", .pattern = "grad/fc1/einsum/einsum_1", .choice = "tensor=whole"},
      {.kind = "tile", .pattern = pattern, .choice = choice}};
  return shoal_plan_create(model, rules,
                           &(shoal_intent_t){.mesh_count = 1,
                                             .meshes = &mesh,
                                             .layout_count = 4,
                                             .layouts = layouts,
                                             .decision_count = choice ? 4 : 3,
                                             .decisions = decisions},
                           world, shoal_allocator_system(), out_plan);
}

static const char *pass_of(const shoal_plan_t *plan, shoal_arena_t *arena) {
  return explain_pass(plan, "tile", arena);
}

static void expect_lines(const char *text, int64_t count, const char *const *lines) {
  const char *at = text;
  for (int64_t i = 0; i < count; ++i) {
    at = strstr(at, lines[i]);
    if (!at) fail_msg("'%s' is missing, or not in its place, in:\n%s", lines[i], text);
  }
}

// Tiles are gathered one after the other, and each is computed when it is there; each that is
// computed is scattered before the next is computed.
static void test_items(void **state) {
  (void)state;
  static const char *const gathered[] = {
      "  copy       x: x[tensor:0] -> x[tile(0/2):0*2,tensor:0]",
      "  reshard    x: x[tile(0/2):0*2,tensor:0] -> x[tile(0/2):0*2]",
      "  copy       x: x[tensor:0] -> x[tile(1/2):0*2,tensor:0]",
      "  reshard    x: x[tile(1/2):0*2,tensor:0] -> x[tile(1/2):0*2]",
      "  compute    fc1/einsum (shoal.einsum): x[tile(0/2):0*2] fc1/weight[tensor:1] -> "
      "fc1/einsum[tile(0/2):0*2,tensor:1]",
      "  compute    fc1/einsum (shoal.einsum): x[tile(1/2):0*2] fc1/weight[tensor:1] -> "
      "fc1/einsum[tile(1/2):0*2,tensor:1]",
      "  assemble   fc1/einsum: fc1/einsum[tile(0/2):0*2,tensor:1] "
      "fc1/einsum[tile(1/2):0*2,tensor:1] -> fc1/einsum[tensor:1]",
      "  assemble   x: x[tile(0/2):0*2] x[tile(1/2):0*2] -> x[]",  // for the weight's gradient
      "  compute    grad/fc1/einsum/einsum_1 "};
  static const char *const scattered[] = {
      "  copy       tanh: tanh[tensor:1] -> tanh[tile(0/2):0*2,tensor:1]",
      "  compute    fc2/einsum (shoal.einsum): tanh[tile(0/2):0*2,tensor:1] fc2/weight[tensor:0] "
      "-> fc2/einsum[tile(0/2):0*2,tensor:partial(sum)]",
      "  reshard    fc2/einsum: fc2/einsum[tile(0/2):0*2,tensor:partial(sum)] -> "
      "fc2/einsum[tile(0/2):0*2,tensor:0]",
      "  compute    fc2/einsum (shoal.einsum): tanh[tile(1/2):0*2,tensor:1] ",
      "  reshard    fc2/einsum: fc2/einsum[tile(1/2):0*2,tensor:partial(sum)] ",
      "  assemble   fc2/einsum: fc2/einsum[tile(0/2):0*2,tensor:0] "
      "fc2/einsum[tile(1/2):0*2,tensor:0] -> fc2/einsum[tensor:0]"};
  shoal_model_t *model = make_model(8);
  shoal_plan_t *plan;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  assert_ok(plan_as(model, "tensor=2", "tensor:0", "fc*/einsum", "2", 2, &plan));
  const char *text = pass_of(plan, &arena);
  expect_lines(text, COUNT(gathered), gathered);
  expect_lines(text, COUNT(scattered), scattered);
  assert_int_equal(count_parts(text, "\n  assemble "), 3);
  assert_int_equal(count_parts(text, " -> x[]"), 1);
  shoal_program_free(lower(plan));
  shoal_plan_free(plan);
  assert_ok(plan_as(model, "tensor=2", "tensor:0", NULL, NULL, 2, &plan));
  assert_int_equal(count_parts(pass_of(plan, &arena), "tile"), 0);
  shoal_plan_free(plan);
  shoal_arena_deinit(&arena);
  shoal_model_free(model);
}

// Tiles of parts of all kinds.
static void test_parts(void **state) {
  (void)state;
  static const struct {
    int64_t rows;
    const char *mesh, *layout;
    int32_t world;
    const char *choice;
    const char *says;
  } cases[] = {
      {9, "tensor=2", "tensor:0", 2, "3", "-> x[tile(2/3):0*(5,4)]"},  // shares of 1 and 1
      {12, "tensor=2", "tensor:0(1,5)", 2, "3", "x[tile(2/3):0*(2,10),tensor:0(0,3)]"},
      {9, "tensor=2", "tensor:0", 2, "7", "x[tile(4/5):0*(5,4)"},  // as many as there are rows
      {12, "tensor=3", "tensor:0(1,0,1)", 3, "2", "x[tile(1/2):0*2,tensor:0(1,0,1)]"},
      {8, "data=2,tensor=2", "data:0,tensor:0", 4, "2", "x[tile(1/2):0*4,data:0,tensor:0]"},
      {20, "tensor=10", "tensor:0", 10, "2", "x[tile(1/2):0*10,tensor:0]"},
  };
  for (int64_t i = 0; i < COUNT(cases); ++i) {
    shoal_model_t *model = make_model(cases[i].rows);
    shoal_plan_t *plan;
    shoal_arena_t arena;
    shoal_arena_init(shoal_allocator_system(), &arena);
    assert_ok(plan_as(model, cases[i].mesh, cases[i].layout, "fc1/einsum", cases[i].choice,
                      cases[i].world, &plan));
    expect_part(pass_of(plan, &arena), cases[i].says);
    shoal_program_free(lower(plan));
    shoal_plan_free(plan);
    shoal_arena_deinit(&arena);
    shoal_model_free(model);
  }
}

// A decision is kept to, or refused with its words and what speaks against it.
static void test_refused(void **state) {
  (void)state;
  static const struct {
    int64_t rows;
    const char *mesh, *layout;
    int32_t world;
    const char *pattern, *message;
  } cases[] = {
      {8, "tensor=2", "tensor:0", 2, "tanh",
       "decision 'tile tanh 2' cannot hold for 'tanh': nothing is gathered in front of it"},
      {8, "tensor=2", "tensor:0", 2, "grad/fc2/einsum/einsum_1", "does not concatenate"},
      {2, "tensor=2", "tensor:0", 2, "fc1/einsum", "has 1 rows along dim 0, too few for two tiles"},
      {25, "tensor=10", "tensor:0", 10, "fc1/einsum",
       "'x' has parts of unequal length on more than 8 ranks"},
      {8, "tensor=2,micro=2", "micro:0,tensor:0", 2, "fc1/einsum",
       "micro-batches or trims leave only some of dim 0 of 'x'"},
  };
  shoal_model_t *model = make_model(8);
  shoal_plan_t *plan;
  assert_error(INVALID_ARGUMENT, "'1' is no number of tiles from 2 to 64",
               plan_as(model, "tensor=2", "tensor:0", "*", "1", 2, &plan));
  assert_error(INVALID_ARGUMENT, "'auto' is no number of tiles",
               plan_as(model, "tensor=2", "tensor:0", "*", "auto", 2, &plan));
  assert_error(INVALID_ARGUMENT, "a plan deals out whole values, not tiles",
               plan_as(model, "tensor=2", "tile(0/2):0,tensor:0", "*", "no", 2, &plan));
  shoal_model_free(model);
  for (int64_t i = 0; i < COUNT(cases); ++i) {
    shoal_program_t *program = NULL;
    model = make_model(cases[i].rows);
    assert_ok(plan_as(model, cases[i].mesh, cases[i].layout, cases[i].pattern, "2", cases[i].world,
                      &plan));
    assert_error(UNSUPPORTED, cases[i].message, shoal_lower(plan, NULL, &program));
    shoal_plan_free(plan);
    assert_ok(plan_as(model, cases[i].mesh, cases[i].layout, cases[i].pattern, "auto 2",
                      cases[i].world, &plan));
    shoal_program_free(lower(plan));
    shoal_plan_free(plan);
    shoal_model_free(model);
  }
}

// ---- plan files --------------------------------------------------------------------------

static void test_file(void **state) {
  (void)state;
  shoal_model_t *model = make_model(8);
  shoal_plan_t *plan, *read;
  shoal_program_t *program = NULL;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const char *text, *again;
  assert_ok(plan_as(model, "tensor=2", "tensor:0", "fc1/einsum", "2", 2, &plan));
  assert_ok(shoal_plan_print(plan, &arena, &text));
  assert_ok(parse(text, model, &read));
  assert_ok(shoal_plan_print(read, &arena, &again));
  assert_string_equal(text, again);
  assert_string_equal(pass_of(plan, &arena), pass_of(read, &arena));
  assert_ok(shoal_plan_why(read, "fc1/einsum", &arena, &again));
  expect_part(again, "tile: 2");
  assert_ok(shoal_plan_explain(read, &arena, &again));
  assert_int_equal(count_parts(again, ", in 2 tiles\n"), 1);
  shoal_plan_free(read);
  // An edited entry is taken as it says, or refused.
  const char *const kind = strstr(strstr(text, "\"resolved\""), "\"kind\": \"tile\"");
  assert_ok(
      parse(edit(text, kind, "\"choice\": \"2\"", "\"choice\": \"auto 4\"", &arena), model, &read));
  expect_part(pass_of(read, &arena), "x[tile(3/4):0*2,tensor:0]");
  assert_ok(shoal_plan_explain(read, &arena, &again));
  expect_part(again, ", in 4 tiles where possible\n");
  shoal_plan_free(read);
  assert_ok(
      parse(edit(text, kind, "\"choice\": \"2\"", "\"choice\": \"no\"", &arena), model, &read));
  assert_int_equal(count_parts(pass_of(read, &arena), "tile"), 0);
  shoal_plan_free(read);
  assert_ok(parse(edit(text, kind, "fc1/einsum", "tanh", &arena), model, &read));
  assert_error(UNSUPPORTED, "decision 'tile tanh 2' cannot hold for 'tanh'",
               shoal_lower(read, NULL, &program));
  shoal_plan_free(read);
  assert_error(
      INVALID_ARGUMENT, "'65' is no number of tiles",
      parse(edit(text, kind, "\"choice\": \"2\"", "\"choice\": \"65\"", &arena), model, &read));
  shoal_plan_free(plan);
  shoal_arena_deinit(&arena);
  shoal_model_free(model);
}

// ---- programs ----------------------------------------------------------------------------

static void test_programs(void **state) {
  (void)state;
  shoal_model_t *model = make_model(8);
  shoal_plan_t *plan;
  shoal_arena_t arena;
  shoal_registry_t *registry;
  shoal_arena_init(shoal_allocator_system(), &arena);
  assert_ok(shoal_registry_create(shoal_allocator_system(), &registry));
  assert_ok(plan_as(model, "tensor=2", "tensor:0", "fc1/einsum", "2", 2, &plan));
  shoal_program_t *program = lower(plan);
  const char *const text = print_and_read(program, registry, &arena);
  // The first tile twice: the rows of the second are given by nobody.
  const char *const out = strstr(text, "\"fc1/einsum\" f32[8, 6] \"tile(1/2)");
  expect_refused(edit(text, out, "tile(1/2)", "tile(0/2)", &arena), registry, "fc1/einsum");
  const char *const call = strstr(text, " assemble (");
  assert_non_null(call);
  int first, second, whole;
  assert_int_equal(sscanf(call, " assemble (%d, %d) -> (%d)", &first, &second, &whole), 3);
  char inputs[48], wrong[48];
  snprintf(inputs, sizeof inputs, "(%d, %d)", first, second);
  snprintf(wrong, sizeof wrong, "(%d)", first);
  expect_refused(edit(text, call, inputs, wrong, &arena), registry,
                 "no input gives row 2 of this rank's part of 'fc1/einsum' along dim 0");
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
