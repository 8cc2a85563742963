// links: all
//
// Strategies: every one on worlds of 1 to 6 ranks gives a program that checks; auto takes what
// simulates fastest; a user's own strategy; errors.
#include "plan_support.h"
#include "shoal/ops.h"
#include "shoal/simulate.h"

static shoal_rules_t *rules;
static shoal_model_t *mlp, *gpt, *cnn, *moe;

static int set_up(void **state) {
  (void)state;
  rules = new_rules();
  mlp = small_mlp(7);
  gpt = make_gpt(&(gpt_sizes_t){
      .batch = 5, .context = 4, .vocabulary = 7, .width = 24, .heads = 6, .layers = 1});
  cnn = empty_model();
  add_cnn(cnn, &(cnn_sizes_t){0});
  assert_ok(shoal_model_status(cnn));
  moe = zoo_model("moe-gpt-tiny", "layers=1 capacity=1");
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  shoal_model_free(moe);
  shoal_model_free(cnn);
  shoal_model_free(gpt);
  shoal_model_free(mlp);
  shoal_rules_free(rules);
  return 0;
}

// ---- all of them ----------------------------------------------------------------------

static void expect_valid(const shoal_model_t *model, const char *strategy, const char *mesh,
                         int32_t world) {
  shoal_plan_t *plan = plan_by(model, rules, strategy, mesh, world);
  assert_string_equal(shoal_plan_intent(plan)->strategy, strategy);
  shoal_program_t *program = lower(plan);
  assert_int_equal(program->world, world);
  for (int32_t r = 0; r < world; ++r) assert_non_null(shoal_program_class_of(program, r));
  shoal_program_free(program);
  shoal_plan_free(plan);
}

// A model that has nothing of what a strategy cuts is refused.
static bool has_use(const shoal_model_t *model, const char *strategy, const char *mesh,
                    int32_t world) {
  shoal_plan_t *plan;
  shoal_status_t status = shoal_plan_make(
      model, rules, &(shoal_plan_options_t){.strategy = strategy, .mesh = mesh, .world = world},
      &plan);
  const bool refused = status && shoal_status_code(status) == SHOAL_UNSUPPORTED;
  if (status && !refused) assert_ok(status);
  shoal_status_free(status);
  shoal_plan_free(plan);
  return !refused;
}

static void test_every_strategy(void **state) {
  (void)state;
  const shoal_model_t *models[] = {mlp, gpt, cnn, moe};
  for (int64_t s = 0; s < shoal_strategies_count(NULL); ++s) {
    const shoal_strategy_t *strategy = shoal_strategies_get(NULL, s);
    assert_true(strategy->doc && strategy->doc[0]);
    for (int32_t world = 1; world <= 6; ++world) {
      char mesh[32];
      snprintf(mesh, sizeof mesh, "data=%d", world);
      bool needs_mesh = strcmp(strategy->name, "explicit") == 0;
      int64_t used = 0;
      for (int64_t m = 0; m < COUNT(models); ++m) {
        if (!has_use(models[m], strategy->name, needs_mesh ? mesh : NULL, world)) continue;
        expect_valid(models[m], strategy->name, needs_mesh ? mesh : NULL, world);
        ++used;
      }
      // These models say nothing of how they are shared.
      assert_true(used > 0 || strcmp(strategy->name, "annotated") == 0);
    }
  }
}

static void test_micro_batches(void **state) {
  (void)state;
  expect_valid(mlp, "single", "solo=1,micro=3", 2);
  expect_valid(mlp, "data", "data=3,micro=2", 3);
  expect_valid(gpt, "tensor", "tensor=4,micro=3", 4);
  expect_valid(gpt, "auto", "data=2,tensor=2,micro=2", 4);
  expect_valid(cnn, "data", "data=2,micro=3", 2);
}

// ---- what single strategies say -------------------------------------------------------

static void test_single(void **state) {
  (void)state;
  shoal_plan_t *plan = plan_by(mlp, rules, "single", NULL, 3);
  assert_string_equal(shoal_plan_intent(plan)->meshes[0], "solo=1@0");
  shoal_program_t *program = lower(plan);
  assert_int_equal(program->class_count, 2);
  assert_int_equal(program->classes[0].rank_count, 1);
  assert_int_equal(program->classes[1].rank_count, 2);
  for (int64_t s = 0; s < program->classes[1].segment_count;
       ++s)  // the others only receive outputs
    assert_int_equal(count_in(&program->classes[1].segments[s], SHOAL_OPCODE_COMPUTE, NULL), 0);
  shoal_program_free(program);
  shoal_plan_free(plan);
}

static void test_tensor_units(void **state) {
  (void)state;
  shoal_plan_t *plan = plan_by(gpt, rules, "tensor", "tensor=4", 4);
  expect_state(plan, "block0/attn/qkv/weight", "tensor:1*3/4");  // six heads of four on four ranks
  expect_state(plan, "block0/attn/proj/weight", "tensor:0/4");
  expect_state(plan, "head/weight", "tensor:1");
  expect_state(plan, "wte/table", "");
  assert_true(plan->composites.count > 0);  // the loss over a cut vocabulary
  shoal_plan_free(plan);
  // in mixed precision products read casts of the states
  shoal_model_t *mixed;
  assert_ok(shoal_model_create(&(shoal_model_options_t){.mixed = true}, &mixed));
  add_gpt(mixed, &(gpt_sizes_t){.batch = 5,
                                .context = 4,
                                .vocabulary = 7,
                                .width = 24,
                                .heads = 6,
                                .layers = 1,
                                .dtype = SHOAL_BF16});
  plan = plan_by(mixed, rules, "tensor", "tensor=4", 4);
  expect_state(plan, "block0/attn/qkv/weight", "tensor:1*3/4");
  expect_state(plan, "block0/attn/qkv/bias", "tensor:0*3/4");
  expect_state(plan, "block0/attn/proj/weight", "tensor:0/4");
  expect_state(plan, "block0/mlp/fc1/weight#adamw.m", "tensor:1");
  shoal_plan_free(plan);
  shoal_model_free(mixed);
  // Without backward there is no gradient.
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "eval");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(4, 6));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(4));
  shoal_output(g, "loss", shoal_nn_cross_entropy(g, shoal_nn_linear(g, "fc", x, 8), y));
  plan = plan_by(model, rules, "tensor", "tensor=2", 2);
  assert_int_equal(shoal_plan_intent(plan)->expand_count, 0);
  shoal_program_free(lower(plan));
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// Moments rest flat, and only they; what has none is plain data parallelism.
static void test_zero1(void **state) {
  (void)state;
  shoal_plan_t *plan = plan_by(mlp, rules, "zero1", NULL, 4);
  expect_state(plan, "fc1/weight", "");
  expect_state(plan, "fc1/weight#adamw.m", "data:flat");
  expect_state(plan, "fc2/bias#adamw.v", "data:flat");
  expect_layout(plan, "x", "data:0");
  shoal_program_t *program = lower(plan);
  kinds_t kinds = reshards_of(program, 0, "train");
  assert_int_equal(kinds.count[SHOAL_RESHARD_REDUCE_SCATTER], 4);
  assert_int_equal(kinds.count[SHOAL_RESHARD_ALL_GATHER], 4);
  assert_int_equal(kinds.count[SHOAL_RESHARD_ALL_REDUCE], 1);  // the loss
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_model_t *sgd = make_mlp(&(mlp_sizes_t){.batch = 8, .sgd = true});
  plan = plan_by(sgd, rules, "zero1", NULL, 2);
  program = lower(plan);
  kinds = reshards_of(program, 0, "train");
  assert_int_equal(kinds.count[SHOAL_RESHARD_REDUCE_SCATTER], 0);
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_model_free(sgd);
  // A scalar among them is left whole.
  shoal_model_t *scaled = empty_model();
  shoal_graph_t *g = shoal_model_graph(scaled, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(4, 3));
  shoal_value_t w = shoal_state(g, "w", SHOAL_F32, SHOAL_SHAPE(4, 3), NULL);
  shoal_value_t m = shoal_state(g, "w#m", SHOAL_F32, SHOAL_SHAPE(4, 3), NULL);
  shoal_value_t s = shoal_state(g, "w#scale", SHOAL_F32, SHOAL_SCALAR, NULL);
  shoal_assign(g, m, shoal_add(g, m, x));
  shoal_assign(g, w, shoal_mul(g, m, s));
  plan = plan_by(scaled, rules, "zero1", NULL, 2);
  expect_state(plan, "w#m", "data:flat");
  expect_state(plan, "w#scale", "");
  shoal_program_free(lower(plan));
  shoal_plan_free(plan);
  shoal_model_free(scaled);
}

// Layouts of the caller come after the strategy's own.
static void test_layouts_on_top(void **state) {
  (void)state;
  const shoal_intent_entry_t layouts[] = {{"fc1/weight", "data:1"}, {"*#adamw.m", "data:flat"}};
  for (int i = 0; i < 2; ++i) {
    shoal_plan_t *plan;
    assert_ok(shoal_plan_make(mlp, rules,
                              &(shoal_plan_options_t){.strategy = i ? "auto" : "data",
                                                      .mesh = "data=2",
                                                      .world = 2,
                                                      .layout_count = 2,
                                                      .layouts = layouts},
                              &plan));
    expect_state(plan, "fc1/weight", "data:1");
    expect_state(plan, "fc2/weight#adamw.m", "data:flat");
    expect_layout(plan, "x", "data:0");
    shoal_program_free(lower(plan));
    shoal_plan_free(plan);
  }
}

// ---- auto -----------------------------------------------------------------------------

static double seconds_of_program(const shoal_program_t *program, const shoal_cluster_t *cluster) {
  shoal_simulation_t *simulation;
  assert_ok(shoal_simulate(program, &(shoal_simulate_options_t){.cluster = cluster}, &simulation));
  const double seconds = simulation->step_seconds;
  shoal_simulation_free(simulation);
  return seconds;
}

static double seconds_of(const shoal_model_t *model, const char *strategy, const char *mesh,
                         int32_t world, const shoal_cluster_t *cluster) {
  shoal_plan_t *plan = plan_by(model, rules, strategy, mesh, world);
  shoal_program_t *program = lower(plan);
  const double seconds = seconds_of_program(program, cluster);
  shoal_program_free(program);
  shoal_plan_free(plan);
  return seconds;
}

// The text of a cluster, its parsed form, and what auto makes of it on four ranks.
static void expect_fastest(const shoal_model_t *model, const char *text, const char **out_mesh) {
  static const struct {
    const char *strategy, *mesh;
  } candidates[] = {{"data", "data=4"}, {"tensor", "data=2,tensor=2"}, {"tensor", "tensor=4"}};
  shoal_cluster_t *cluster;
  assert_ok(shoal_cluster_parse("cluster", text, shoal_allocator_system(), &cluster));
  int64_t best = 0;
  double seconds[COUNT(candidates)];
  for (int64_t i = 0; i < COUNT(candidates); ++i) {
    seconds[i] = seconds_of(model, candidates[i].strategy, candidates[i].mesh, 4, cluster);
    if (seconds[i] < seconds[best]) best = i;
  }
  shoal_plan_t *plan;
  assert_ok(
      shoal_plan_make(model, rules, &(shoal_plan_options_t){.cluster = text, .world = 4}, &plan));
  const shoal_intent_t *intent = shoal_plan_intent(plan);
  assert_string_equal(intent->strategy, "auto");
  assert_string_equal(intent->meshes[0], candidates[best].mesh);
  shoal_program_t *program = lower(plan);
  assert_true(seconds_of_program(program, cluster) == seconds[best]);
  *out_mesh = candidates[best].mesh;
  shoal_cluster_free(cluster);
  shoal_program_free(program);
  shoal_plan_free(plan);
}

static void test_auto_takes_the_fastest(void **state) {
  (void)state;
  // A wide layer on few rows, where a gradient is larger than an activation, and the other way
  // round.
  shoal_model_t *wide = make_mlp(&(mlp_sizes_t){.batch = 8,
                                                .in_features = 256,
                                                .hidden = 512,
                                                .classes = 256,
                                                .layers = 2,
                                                .dtype = SHOAL_F32});
  shoal_model_t *tall = make_mlp(&(mlp_sizes_t){.batch = 2048,
                                                .in_features = 16,
                                                .hidden = 32,
                                                .classes = 8,
                                                .layers = 2,
                                                .dtype = SHOAL_F32});
  static const char slow_link[] =
      "shoal_cluster: 1\n"
      "device: {flops: 1.0e11, bandwidth: 1.0e11}\n"
      "link: {latency: 1.0e-7, bandwidth: 1.0e7}\n";
  const char *mesh;
  expect_fastest(wide, slow_link, &mesh);
  assert_string_equal(mesh, "tensor=4");
  expect_fastest(tall, slow_link, &mesh);
  assert_string_equal(mesh, "data=4");
  expect_fastest(wide, "shoal_cluster: 1\n", &mesh);
  expect_fastest(tall, "shoal_cluster: 1\n", &mesh);
  shoal_model_free(tall);
  shoal_model_free(wide);
}

static void test_auto_and_memory(void **state) {
  (void)state;
  shoal_plan_t *plan;
  assert_error(
      UNSUPPORTED, "no plan fits the device's memory",
      shoal_plan_make(mlp, rules,
                      &(shoal_plan_options_t){
                          .world = 2, .cluster = "shoal_cluster: 1\ndevice: {memory: 1K}\n"},
                      &plan));
  assert_null(plan);
  assert_error(
      INVALID_ARGUMENT, "memroy",
      shoal_plan_make(mlp, rules,
                      &(shoal_plan_options_t){
                          .world = 2, .cluster = "shoal_cluster: 1\ndevice: {memroy: 1K}\n"},
                      &plan));
  // Only the plan that cuts the weights fits.
  shoal_model_t *wide = make_mlp(&(mlp_sizes_t){.batch = 4,
                                                .in_features = 256,
                                                .hidden = 256,
                                                .classes = 256,
                                                .layers = 2,
                                                .dtype = SHOAL_F32});
  shoal_plan_t *data = plan_by(wide, rules, "data", "data=2", 2);
  shoal_program_t *program = lower(data);
  char text[128];
  snprintf(text, sizeof text, "shoal_cluster: 1\ndevice: {memory: %lld}\n",
           (long long)program->classes[0].arena_bytes[SHOAL_MEMORY_DEVICE] - 1);
  shoal_program_free(program);
  shoal_plan_free(data);
  assert_ok(
      shoal_plan_make(wide, rules, &(shoal_plan_options_t){.world = 2, .cluster = text}, &plan));
  assert_string_equal(shoal_plan_intent(plan)->meshes[0], "tensor=2");
  shoal_plan_free(plan);
  shoal_model_free(wide);
}

// ---- a strategy of one's own ----------------------------------------------------------

static shoal_status_t plan_rows(shoal_strategy_context_t *context, void *user_data) {
  const char *state = user_data;
  char mesh[32];
  snprintf(mesh, sizeof mesh, "rows=%d", shoal_context_options(context)->world);
  if (!shoal_context_model(context)) return SHOAL_ERROR(INTERNAL, "no model");
  SHOAL_RETURN_IF_ERROR(shoal_context_mesh(context, mesh));
  SHOAL_RETURN_IF_ERROR(shoal_context_layout(context, "x", "rows:0"));
  return shoal_context_layout(context, state, "rows:0");
}

static shoal_status_t plan_fails(shoal_strategy_context_t *context, void *user_data) {
  (void)context, (void)user_data;
  return SHOAL_ERROR(UNSUPPORTED, "not on a Sunday");
}

static void test_own_strategy(void **state) {
  (void)state;
  shoal_strategies_t *strategies;
  assert_ok(shoal_strategies_create(shoal_allocator_system(), &strategies));
  assert_ok(
      shoal_strategy_register(strategies, &(shoal_strategy_t){.name = "rows",
                                                              .doc = "rows over all",
                                                              .plan = plan_rows,
                                                              .user_data = (void *)"fc2/weight"}));
  assert_ok(shoal_strategy_register(strategies,
                                    &(shoal_strategy_t){.name = "fails", .plan = plan_fails}));
  assert_error(
      INVALID_ARGUMENT, "there is a strategy 'data' already",
      shoal_strategy_register(strategies, &(shoal_strategy_t){.name = "data", .plan = plan_rows}));
  assert_error(
      INVALID_ARGUMENT, "there is a strategy 'rows' already",
      shoal_strategy_register(strategies, &(shoal_strategy_t){.name = "rows", .plan = plan_rows}));
  assert_error(INVALID_ARGUMENT, "needs a name and a plan function",
               shoal_strategy_register(strategies, &(shoal_strategy_t){.name = "nothing"}));
  assert_int_equal(shoal_strategies_count(strategies), shoal_strategies_count(NULL) + 2);
  assert_string_equal(shoal_strategies_get(strategies, shoal_strategies_count(NULL))->name, "rows");
  assert_null(shoal_strategies_get(strategies, -1));
  assert_null(shoal_strategies_get(NULL, shoal_strategies_count(NULL)));
  shoal_plan_t *plan;
  shoal_plan_options_t options = {.strategy = "rows", .world = 3, .strategies = strategies};
  assert_ok(shoal_plan_make(mlp, rules, &options, &plan));
  expect_layout(plan, "x", "rows:0");
  expect_state(plan, "fc2/weight", "rows:0");
  shoal_program_free(lower(plan));
  shoal_plan_free(plan);
  options.strategy = "fails";
  assert_error(UNSUPPORTED, "strategy 'fails': not on a Sunday",
               shoal_plan_make(mlp, rules, &options, &plan));
  assert_null(plan);
  options.strategy = "row";
  assert_error(NOT_FOUND, "did you mean 'rows'?", shoal_plan_make(mlp, rules, &options, &plan));
  shoal_strategies_free(strategies);
}

static void test_errors(void **state) {
  (void)state;
  shoal_plan_t *plan;
#define REFUSED(code, part, ...) \
  assert_error(code, part, shoal_plan_make(mlp, rules, &(shoal_plan_options_t){__VA_ARGS__}, &plan))
  REFUSED(NOT_FOUND, "did you mean 'tensor'?", .strategy = "tesnor", .world = 2);
  REFUSED(NOT_FOUND, "`shoal strategies` lists them", .strategy = "something else", .world = 2);
  REFUSED(INVALID_ARGUMENT, "at least one rank", .strategy = "data");
  REFUSED(INVALID_ARGUMENT, "has no axis 'data'", .strategy = "data", .mesh = "rows=2", .world = 2);
  REFUSED(INVALID_ARGUMENT, "has no axis 'tensor'", .strategy = "tensor", .mesh = "data=2",
          .world = 2);
  REFUSED(INVALID_ARGUMENT, "needs a mesh", .strategy = "explicit", .world = 2);
  REFUSED(INVALID_ARGUMENT, "has 3 ranks, the world has 2", .strategy = "data", .mesh = "data=3",
          .world = 2);
  REFUSED(INVALID_ARGUMENT, "has 3 ranks, the world has 2", .mesh = "data=3", .world = 2);
  REFUSED(INVALID_ARGUMENT, "data=", .mesh = "data=", .world = 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_strategy),
      cmocka_unit_test(test_micro_batches),
      cmocka_unit_test(test_single),
      cmocka_unit_test(test_tensor_units),
      cmocka_unit_test(test_zero1),
      cmocka_unit_test(test_layouts_on_top),
      cmocka_unit_test(test_auto_takes_the_fastest),
      cmocka_unit_test(test_auto_and_memory),
      cmocka_unit_test(test_own_strategy),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
