// links: all
// labels: san
//
// Parts that a model marks with shoal_with_recompute: under every strategy they are computed again
// as if a person had decided it, people win over marks, and N ranks equal one.
#include <stdlib.h>

#include "plan_fixture.h"
#include "shoal/ops.h"
#include "shoal/prove.h"

enum { ROWS = 7, WIDTH = 6, BLOCKS = 3 };

static shoal_value_t block(shoal_graph_t *g, shoal_value_t x, int i) {
  char name[16];
  snprintf(name, sizeof name, "block%d", i);
  shoal_scope_push(g, name);
  shoal_value_t h = shoal_gelu(g, shoal_nn_linear(g, "up", shoal_nn_layer_norm(g, "ln", x), 10));
  h = shoal_nn_dropout(g, "drop", shoal_exp(g, shoal_gelu(g, h)), 0.3);
  h = shoal_add(g, x, shoal_nn_linear(g, "down", h, WIDTH));
  shoal_scope_pop(g);
  return h;
}

static shoal_value_t marked_block(shoal_graph_t *g, shoal_value_t x, int i) {
  shoal_value_t h = x;
  shoal_with_recompute(g) h = block(g, x, i);
  return h;
}

// Blocks that are marked or not, between layers that are not. Sizes that divide by nothing.
static shoal_model_t *blocks(bool marked) {
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t h = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(ROWS, 5));
  const shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(ROWS));
  h = shoal_nn_linear(g, "in", h, WIDTH);
  for (int i = 0; i < BLOCKS; ++i) h = (marked ? marked_block : block)(g, h, i);
  const shoal_value_t loss = shoal_nn_cross_entropy(g, shoal_nn_linear(g, "head", h, 4), y);
  shoal_minimize(g, loss, &(shoal_adamw_t){.lr = 0.01f, .eps = 1e-3f});
  shoal_output(g, "loss", loss);
  assert_ok(shoal_model_status(model));
  return model;
}

static int32_t region(const shoal_plan_t *plan, const char *node) {
  for (int64_t g = 0; g < plan->model->graphs.count; ++g) {
    const shoal_graph_plan_t *gp = &plan->graphs[g];
    for (int64_t n = 0; n < gp->graph->nodes.count; ++n)
      if (strcmp(gp->graph->nodes.items[n].name, node) == 0) return gp->regions[n];
  }
  fail_msg("no node '%s'", node);
  return -1;
}

static shoal_plan_t *plan_with(const shoal_model_t *model, const char *strategy, const char *mesh,
                               int32_t world, const char *recompute, const char *never) {
  const shoal_intent_decision_t no = {.kind = "recompute", .pattern = never, .choice = "no"};
  const shoal_plan_options_t options = {.strategy = strategy,
                                        .mesh = mesh,
                                        .world = world,
                                        .choices = {.recompute = recompute},
                                        .decision_count = never ? 1 : 0,
                                        .decisions = &no};
  shoal_plan_t *plan;
  assert_ok(shoal_plan_make(model, rules, &options, &plan));
  return plan;
}

// ---- plans -----------------------------------------------------------------------------

static void test_regions(void **state) {
  (void)state;
  shoal_model_t *model = blocks(true);
  shoal_plan_t *plan = plan_with(model, "data", NULL, 2, NULL, NULL);
  assert_int_equal(region(plan, "in/einsum"), -1);
  for (int32_t i = 0; i < BLOCKS; ++i) {
    char up[32], down[32];
    snprintf(up, sizeof up, "block%d/up/einsum", (int)i);
    snprintf(down, sizeof down, "block%d/down/einsum", (int)i);
    assert_int_equal(region(plan, up), i);
    assert_int_equal(region(plan, down), i);
  }
  assert_int_equal(region(plan, "head/einsum"), -1);
  const shoal_graph_plan_t *gp = &plan->graphs[1];
  assert_string_equal(gp->graph->name, "train");
  for (int64_t n = 0; n < gp->graph->nodes.count; ++n)
    if (gp->graph->nodes.items[n].kind != SHOAL_NODE_FORWARD) assert_int_equal(gp->regions[n], -1);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// A person's decision counts for the nodes that it names, the marks for the others.
static void test_people_win(void **state) {
  (void)state;
  shoal_model_t *model = blocks(true);
  shoal_plan_t *plan = plan_with(model, "data", NULL, 2, NULL, "block1/*");
  assert_int_equal(region(plan, "block0/up/einsum"), 0);
  assert_int_equal(region(plan, "block1/up/einsum"), -1);
  assert_int_equal(region(plan, "block2/up/einsum"), 1);
  shoal_plan_free(plan);
  plan = plan_with(model, "data", NULL, 2, "none", NULL);
  for (int64_t n = 0; n < plan->graphs[1].graph->nodes.count; ++n)
    assert_int_equal(plan->graphs[1].regions[n], -1);
  shoal_plan_free(plan);
  plan = plan_with(model, "data", NULL, 2, "in/*,block0/up/*", NULL);
  const int32_t in = region(plan, "in/einsum"), up = region(plan, "block0/up/einsum");
  const int32_t rest = region(plan, "block0/down/einsum");
  assert_true(in >= 0 && up >= 0 && rest >= 0 && in != up && up != rest && in != rest);
  assert_true(region(plan, "block1/up/einsum") == region(plan, "block1/down/einsum"));
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// Plan files keep the regions, and say whose they are.
static void test_files(void **state) {
  (void)state;
  shoal_model_t *model = blocks(true);
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_plan_t *plan = plan_with(model, "tensor", NULL, 2, NULL, "block1*"), *again;
  const char *text;
  assert_ok(shoal_plan_print(plan, &arena, &text));
  assert_non_null(strstr(text, "the model marks it"));
  assert_ok(shoal_plan_parse("p", text, model, rules, 2, shoal_allocator_system(), NULL, &again));
  int64_t marked = 0;
  for (int64_t g = 0; g < plan->model->graphs.count; ++g)
    for (int64_t n = 0; n < plan->graphs[g].graph->nodes.count; ++n) {
      assert_int_equal(plan->graphs[g].regions[n], again->graphs[g].regions[n]);
      marked += plan->graphs[g].regions[n] >= 0;
    }
  assert_true(marked > 10);
  shoal_plan_free(again);
  shoal_plan_free(plan);
  shoal_arena_deinit(&arena);
  shoal_model_free(model);
}

// Parts of an op that is computed in parts are of its region.
static void test_parts(void **state) {
  (void)state;
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t h = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(ROWS, 5));
  h = shoal_nn_linear(g, "in", h, WIDTH);
  shoal_with_recompute(g) h = shoal_softmax(g, shoal_tanh(g, h), 1);
  const shoal_value_t loss = shoal_reduce_mean(g, shoal_mul(g, h, h), SHOAL_SHAPE(0, 1));
  shoal_minimize(g, loss, &(shoal_adamw_t){.lr = 0.01f});
  shoal_output(g, "loss", loss);
  assert_ok(shoal_model_status(model));
  const shoal_intent_decision_t expand = {.kind = "expand", .pattern = "softmax", .choice = "yes"};
  const shoal_plan_options_t options = {
      .strategy = "data", .world = 2, .decision_count = 1, .decisions = &expand};
  shoal_plan_t *plan;
  assert_ok(shoal_plan_make(model, rules, &options, &plan));
  assert_int_equal(region(plan, "softmax/exp"), 0);
  assert_int_equal(region(plan, "tanh"), 0);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// ---- memory ----------------------------------------------------------------------------

static int64_t kept(const shoal_plan_t *plan, const char *layer) {
  shoal_program_t *program = lower(plan);
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  int64_t count, bytes = -1;
  const shoal_layer_memory_t *layers;
  assert_ok(shoal_lower_layers(plan, program, 0, NULL, &arena, &count, &layers));
  for (int64_t i = 0; i < count; ++i)
    if (strcmp(layers[i].layer, layer) == 0) bytes = layers[i].kept[SHOAL_MEMORY_DEVICE];
  shoal_arena_deinit(&arena);
  shoal_program_free(program);
  return bytes;
}

static int64_t arena_bytes(const shoal_plan_t *plan) {
  shoal_program_t *program = lower(plan);
  const int64_t bytes = program->classes[0].arena_bytes[SHOAL_MEMORY_DEVICE];
  shoal_program_free(program);
  return bytes;
}

static const struct {
  const char *strategy, *mesh;
  int32_t ranks;
} RUNS[] = {
    {"data", "data=1", 1},
    {"data", "data=3", 3},
    {"zero3", "data=2,micro=2", 2},
    {"tensor", "tensor=2", 2},
    {"tensor+zero1", "data=2,tensor=2", 4},
};

// Marked blocks keep what they keep where a person decides it, which is less than without.
static void test_kept_bytes(void **state) {
  (void)state;
  shoal_model_t *model = blocks(true), *plain = blocks(false);
  for (int64_t i = 0; i < COUNT(RUNS); ++i) {
    const char *s = RUNS[i].strategy, *mesh = RUNS[i].mesh;
    shoal_plan_t *by_marks = plan_with(model, s, mesh, RUNS[i].ranks, NULL, NULL);
    shoal_plan_t *by_choice = plan_with(plain, s, mesh, RUNS[i].ranks, "block", NULL);
    shoal_plan_t *without = plan_with(plain, s, mesh, RUNS[i].ranks, NULL, NULL);
    const int64_t bytes = kept(by_marks, "block1");
    assert_int_equal(bytes, kept(by_choice, "block1"));
    assert_true(bytes > 0 && 4 * bytes < kept(without, "block1"));
    assert_int_equal(arena_bytes(by_marks), arena_bytes(by_choice));
    assert_true(arena_bytes(by_marks) < arena_bytes(without));
    shoal_plan_free(without);
    shoal_plan_free(by_choice);
    shoal_plan_free(by_marks);
  }
  shoal_model_free(plain);
  shoal_model_free(model);
}

// ---- contract 1 ------------------------------------------------------------------------

static void check_on(const shoal_model_t *model, int32_t ranks, const char *strategy,
                     const char *mesh) {
  const shoal_parallelize_options_t options = {.strategy = strategy, .mesh = mesh};
  const shoal_check_how_t how = {.ranks = ranks, .steps = 2, .direct = true};
  shoal_check_report_t report;
  assert_ok(shoal_check(model, &options, &how, &report));
  assert_true(report.values > 20);
}

static void test_checks(void **state) {
  (void)state;
  shoal_model_t *model = blocks(true);
  for (int64_t i = 0; i < COUNT(RUNS); ++i)
    check_on(model, RUNS[i].ranks, RUNS[i].strategy, RUNS[i].mesh);
  check_on(model, 3, "pipeline", "pipe=3,micro=2");
  check_on(model, 2, NULL, NULL);
  shoal_model_free(model);
}

// A region around stages and shares is one on each mesh.
static void test_stages(void **state) {
  (void)state;
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(ROWS, WIDTH)), h = x;
  const shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(ROWS));
  shoal_with_recompute(g) {
    shoal_with_stage(g, 0) shoal_with_replicate(g, 2) h = block(g, h, 0);
    shoal_with_stage(g, 1) shoal_with_replicate(g, 2) h = block(g, h, 1);
  }
  shoal_value_t loss = h;
  shoal_with_stage(g, 1) loss = shoal_nn_cross_entropy(g, shoal_nn_linear(g, "head", h, 4), y);
  shoal_minimize(g, loss, &(shoal_adamw_t){.lr = 0.01f, .eps = 1e-3f});
  shoal_output(g, "loss", loss);
  assert_ok(shoal_model_status(model));
  shoal_plan_t *plan = plan_with(model, NULL, "micro=2", 4, NULL, NULL);
  assert_int_equal(region(plan, "block0/up/einsum"), 0);
  assert_int_equal(region(plan, "block1/up/einsum"), 1);
  assert_int_equal(region(plan, "head/einsum"), -1);
  shoal_plan_free(plan);
  check_on(model, 4, NULL, "micro=2");
  shoal_model_free(model);
}

// ---- what is said, and what cannot be --------------------------------------------------

static void test_text(void **state) {
  (void)state;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_model_t *model = blocks(true), *plain = blocks(false), *again;
  const char *text, *second, *unmarked;
  assert_ok(shoal_model_print(model, &arena, &text));
  assert_ok(shoal_model_print(plain, &arena, &unmarked));
  assert_non_null(strstr(text, " recompute 2\n"));
  assert_null(strstr(text, " recompute 3\n"));
  assert_ok(shoal_model_parse("again", text, NULL, &again));
  assert_ok(shoal_model_print(again, &arena, &second));
  assert_string_equal(text, second);
  assert_true(shoal_model_structure_hash(again) == shoal_model_structure_hash(model));
  assert_true(shoal_model_structure_hash(plain) != shoal_model_structure_hash(model));
  // More of a model that was read gets regions of its own.
  shoal_graph_t *g = shoal_model_graph(again, "train");
  shoal_value_t x = shoal_input(g, "z", SHOAL_F64, SHOAL_SHAPE(2, 2));
  shoal_with_recompute(g) x = shoal_tanh(g, x);
  assert_ok(shoal_model_print(again, &arena, &second));
  assert_non_null(strstr(second, " recompute 3\n"));
  shoal_model_free(again);
  // Marks are all that sets the two apart.
  char *bare = shoal_arena_strdup(&arena, text), *to = bare;
  for (const char *from = text; *from;) {
    if (strncmp(from, " recompute ", 11) == 0)
      from = strchr(from, '\n');
    else
      *to++ = *from++;
  }
  *to = 0;
  assert_string_equal(bare, unmarked);
  shoal_model_free(plain);
  shoal_model_free(model);
  shoal_arena_deinit(&arena);
}

static void expect_parse_error(const char *line, const char *part) {
  char text[400];
  shoal_model_t *model = NULL;
  snprintf(text, sizeof text, "model seed = 7\ngraph train\n  %%0 = input \"x\" f64[2]\n  %s\n",
           line);
  assert_error(INVALID_ARGUMENT, part, shoal_model_parse("bad", text, NULL, &model));
}

static void test_wrong_marks(void **state) {
  (void)state;
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_with_recompute(g) shoal_recompute_push_at(g, SHOAL_HERE);
  assert_error(INVALID_ARGUMENT, "planners_recompute_test.c:", shoal_model_status(model));
  assert_error(INVALID_ARGUMENT, "is inside of another, which begins at ",
               shoal_model_status(model));
  shoal_model_free(model);
  model = empty_model();
  shoal_recompute_pop_at(shoal_model_graph(model, "train"), SHOAL_HERE);
  assert_error(INVALID_ARGUMENT, "no part that is recomputed is open", shoal_model_status(model));
  shoal_model_free(model);
  shoal_with_recompute(NULL) {}
  expect_parse_error("%1 \"tanh\" = shoal.tanh(%0) : f64[2] recompute -1", "there is no region -1");
  expect_parse_error("%1 \"tanh\" = shoal.tanh(%0) : f64[2] update recompute 0",
                     "only nodes of the forward pass");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_regions),     cmocka_unit_test(test_people_win),
      cmocka_unit_test(test_files),       cmocka_unit_test(test_parts),
      cmocka_unit_test(test_kept_bytes),  cmocka_unit_test(test_checks),
      cmocka_unit_test(test_stages),      cmocka_unit_test(test_text),
      cmocka_unit_test(test_wrong_marks),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
