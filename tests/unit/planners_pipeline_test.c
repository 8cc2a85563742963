// links: all
//
// Strategy `pipeline`: what a link of the chain is, that its division is the best there is, the
// stages, meshes and schedules that come of it, tied weights, other strategies inside of the
// stages, and what is refused.
#include <math.h>

#include "plan_support.h"
#include "planners/chain.h"
#include "shoal/ops.h"
#include "shoal/schedule.h"

static shoal_rules_t *rules;
static shoal_model_t *gpt;  // tied
static shoal_arena_t *arena;

static int set_up(void **state) {
  (void)state;
  rules = new_rules();
  gpt = make_gpt(&(gpt_sizes_t){.batch = 7,
                                .context = 4,
                                .vocabulary = 9,
                                .width = 12,
                                .heads = 3,
                                .layers = 4,
                                .tied = true});
  assert_ok(shoal_arena_create(shoal_allocator_system(), &arena));
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  shoal_arena_free(arena);
  shoal_model_free(gpt);
  shoal_rules_free(rules);
  return 0;
}

static shoal_plan_t *plan_of_model(const shoal_model_t *model, const char *strategy,
                                   const char *mesh, int32_t world, const char *schedule) {
  shoal_plan_t *plan;
  const shoal_intent_decision_t decision = {
      .kind = "schedule", .pattern = "train", .choice = schedule};
  assert_ok(shoal_plan_make(model, rules,
                            &(shoal_plan_options_t){.strategy = strategy,
                                                    .mesh = mesh,
                                                    .world = world,
                                                    .decision_count = schedule ? 1 : 0,
                                                    .decisions = &decision},
                            &plan));
  shoal_program_free(lower(plan));
  return plan;
}

static shoal_plan_t *plan_with(const char *strategy, const char *mesh, int32_t world,
                               const char *schedule) {
  return plan_of_model(gpt, strategy, mesh, world, schedule);
}

static void expect_stage(const shoal_plan_t *plan, const char *pattern, const char *mesh) {
  const shoal_intent_t *intent = shoal_plan_intent(plan);
  for (int64_t i = 0; i < intent->stage_count; ++i) {
    if (strcmp(intent->stages[i].pattern, pattern) != 0) continue;
    assert_string_equal(intent->stages[i].value, mesh);
    return;
  }
  fail_msg("no stage is said of '%s'", pattern);
}

static void expect_meshes(const shoal_plan_t *plan, int64_t count, const char *const *texts) {
  const shoal_intent_t *intent = shoal_plan_intent(plan);
  assert_int_equal(intent->mesh_count, count);
  for (int64_t i = 0; i < count; ++i) assert_string_equal(intent->meshes[i], texts[i]);
}

// ---- the chain --------------------------------------------------------------------------

static void test_links(void **state) {
  (void)state;
  static const struct {
    const char *name, *link;
    bool scope;
  } cases[] = {{"block3/attn/q/einsum", "block3", true},
               {"layer1/0/conv1/conv", "layer1/0", true},
               {"encoder/block2/norm/mul", "encoder/block2", true},
               {"wte/embedding", "wte", true},
               {"relu_1", "relu_1", false},
               {"guess/ln/layer_norm", "guess", true},
               {"inc/conv1", "inc", true}};
  for (int64_t i = 0; i < COUNT(cases); ++i) {
    bool scope;
    assert_int_equal(shoal_chain_link_length(cases[i].name, &scope), strlen(cases[i].link));
    assert_int_equal(scope, cases[i].scope);
  }
  shoal_chain_t chain;
  const char *const names[] = {"wte",    "wpe",    "add",  "block0", "block1",
                               "block2", "block3", "ln_f", "head",   "cross_entropy"};
  assert_ok(shoal_chain_create(shoal_model_find_graph(gpt, "train"), arena, &chain));
  int32_t at = 0;
  for (int32_t i = 0; i < chain.count; ++i) {
    while (at < COUNT(names) && strcmp(names[at], chain.links[i].name) != 0) ++at;
    if (at == COUNT(names)) fail_msg("link '%s' is not expected here", chain.links[i].name);
    const bool block = strncmp(chain.links[i].name, "block", 5) == 0;
    assert_int_equal(chain.links[i].repeated, block);
    if (!block) continue;
    assert_true(chain.links[i].on_way);
    assert_true(chain.links[i].boundary == 7 * 4 * 12 * 8);  // one activation in f64
    assert_true(chain.links[i].time == chain.links[i == 3 ? 4 : i].time);
  }
}

// Against all divisions of chains of up to 9 links into up to 5 parts with a link on the way each.
static void test_division(void **state) {
  (void)state;
  uint32_t dice = 7;
  for (int round = 0; round < 600; ++round) {
    shoal_chain_link_t links[9] = {0};
    double fixed[9], moving[9], factors[5];
    int32_t starts[5];
    const int32_t n = 1 + (int32_t)((dice = dice * 1664525u + 1013904223u) >> 16) % 9;
    int32_t ways = 0;
    for (int32_t i = 0; i < n; ++i) {
      links[i].on_way = i == 0 || ((dice = dice * 1664525u + 1013904223u) >> 16) % 4 > 0;
      ways += links[i].on_way;
    }
    const int32_t parts =
        1 + (int32_t)((dice = dice * 1664525u + 1013904223u) >> 16) % (ways < 5 ? ways : 5);
    for (int32_t i = 0; i < n; ++i) {
      fixed[i] = (double)((dice = dice * 1664525u + 1013904223u) >> 16 & 7);
      moving[i] = (double)((dice = dice * 1664525u + 1013904223u) >> 16 & 3);
      links[i].boundary = (double)((dice = dice * 1664525u + 1013904223u) >> 16 & 15);
    }
    for (int32_t p = 0; p < parts; ++p) factors[p] = 1 + (round % 3 ? 0.5 * (parts - p) : 0);
    const shoal_chain_t chain = {.count = n, .longest = ways, .links = links};
    const shoal_chain_costs_t costs = {.fixed = fixed,
                                       .moving = round % 2 ? moving : NULL,
                                       .factors = factors,
                                       .bytes_first = round % 5 == 0};
    assert_ok(shoal_chain_divide(&chain, &costs, parts, arena, starts));
    double best = INFINITY, fewest = INFINITY;
    for (int32_t borders = 0; borders < 1 << (n - 1); ++borders) {  // bit i: one behind link i
      double largest = 0, cost = 0, bytes = 0;
      int32_t part = 0;
      bool passed = false, all = true;  // this part is on the way; those before it are
      for (int32_t i = 0; i < n && part < parts; ++i) {
        if (i > 0 && borders >> (i - 1) & 1) {
          ++part, cost = 0, bytes += links[i].boundary;
          all &= passed;
          passed = false;
        }
        passed |= links[i].on_way;
        if (part < parts) cost += fixed[i] + (costs.moving ? factors[part] * moving[i] : 0);
        largest = fmax(largest, cost);
      }
      if (part != parts - 1 || !all || !passed) continue;
      const bool smaller = largest < best, fewer = bytes < fewest;
      if (costs.bytes_first ? !(fewer || (bytes == fewest && smaller))
                            : !(smaller || (largest == best && fewer)))
        continue;
      best = largest;
      fewest = bytes;
    }
    double own = 0, moved = 0;
    assert_int_equal(starts[0], 0);
    for (int32_t p = 0; p < parts; ++p) {
      double cost = 0;
      for (int32_t i = starts[p]; i < (p + 1 < parts ? starts[p + 1] : n); ++i)
        cost += fixed[i] + (costs.moving ? factors[p] * moving[i] : 0);
      own = fmax(own, cost);
      if (p > 0) assert_true(starts[p] > starts[p - 1]);
      if (p > 0) moved += links[starts[p]].boundary;
    }
    assert_true(own == best && moved == fewest);
  }
}

// ---- plans ------------------------------------------------------------------------------

// The mesh of a block, by what stages are balanced by.
static void expect_balance(const char *balance, const char *schedule, const char *node,
                           const char *mesh) {
  const shoal_intent_decision_t decisions[] = {
      {.kind = "balance", .pattern = "train", .choice = balance, .by = "test", .reason = ""},
      {.kind = "schedule", .pattern = "train", .choice = schedule, .by = "test", .reason = ""}};
  shoal_plan_options_t options = {.strategy = "pipeline",
                                  .mesh = "pipe=2,micro=4",
                                  .world = 2,
                                  .decision_count = 2,
                                  .decisions = decisions};
  shoal_plan_t *plan;
  assert_ok(shoal_plan_make(gpt, rules, &options, &plan));
  expect_stage(plan, node, mesh);
  shoal_plan_free(plan);
}

// Four blocks, an embedding in front and the same table as head behind: by blocks two and two. In
// 1f1b the first of two stages has two micro-batches in flight, the second one: it takes one block
// more. With gpipe both have all four.
static void test_balance(void **state) {
  (void)state;
  expect_balance("blocks", "1f1b", "block1/*", "pipe0");
  expect_balance("blocks", "1f1b", "block2/*", "pipe1");
  expect_balance("activations", "1f1b", "block1/*", "pipe1");
  expect_balance("activations", "gpipe", "block1/*", "pipe0");
  expect_balance("parameters", "1f1b", "block2/*", "pipe1");
  const shoal_intent_decision_t decision = {
      .kind = "balance", .pattern = "train", .choice = "time", .by = "test", .reason = ""};
  shoal_plan_options_t options = {
      .strategy = "data", .world = 2, .decision_count = 1, .decisions = &decision};
  shoal_plan_t *plan;
  assert_error(INVALID_ARGUMENT, "no stages to balance by time",
               shoal_plan_make(gpt, rules, &options, &plan));
  options.strategy = "explicit";
  options.mesh = "data=2";
  assert_error(INVALID_ARGUMENT, "no stages to balance by time",
               shoal_plan_make(gpt, rules, &options, &plan));
}

// Blocks one by one, what is before and behind them with the nearest; a weight of two stages rests
// on both of them, replicated, and so do its moments.
static void test_stages(void **state) {
  (void)state;
  shoal_plan_t *plan = plan_with("uniform-pipeline", "pipe=2,micro=3", 2, NULL);
  expect_meshes(plan, 3,
                (const char *const[]){"pipe0!data=1,micro=3@0", "pipe1!data=1,micro=3@1",
                                      "tied0!pipe=2,data=1,micro=3@0-1"});
  expect_stage(plan, "wte/*", "pipe0");
  expect_stage(plan, "block1/*", "pipe0");
  expect_stage(plan, "block2/*", "pipe1");
  expect_stage(plan, "cross_entropy", "pipe1");
  expect_layout(plan, "ids", "pipe0!micro:0");
  expect_layout(plan, "labels", "pipe1!micro:0");
  expect_state(plan, "wte/table", "tied0!");
  expect_state(plan, "wte/table#adamw.m", "tied0!");
  expect_state(plan, "block2/ln_1/gamma", "pipe1!");
  for (int64_t g = 0; g < plan->model->graphs.count; ++g)
    if (strcmp(plan->graphs[g].graph->name, "train") == 0)
      assert_string_equal(plan->graphs[g].schedule->name, "1f1b");
  shoal_plan_free(plan);
}

// Stages come as the schedule wants them.
static void test_schedules(void **state) {
  (void)state;
  shoal_plan_t *plan = plan_with("uniform-pipeline", "pipe=2,micro=3", 2, "interleaved");
  expect_stage(plan, "block0/*", "pipe0");
  expect_stage(plan, "block1/*", "pipe1");
  expect_stage(plan, "block2/*", "pipe0");
  expect_stage(plan, "block3/*", "pipe1");
  shoal_plan_free(plan);
  plan = plan_with("uniform-pipeline", "pipe=2,micro=3", 2, "zb-v");
  expect_stage(plan, "block0/*", "pipe0");
  expect_stage(plan, "block3/*", "pipe0");
  expect_state(plan, "wte/table", "pipe0!");  // there and back: it is not tied over meshes
  shoal_plan_free(plan);
  plan = plan_with("uniform-pipeline", "pipe=2,micro=1", 2,
                   "table pipe1: F0.0 F2.0 B2.0 B0.0 pipe0: F1.0 B1.0");
  expect_stage(plan, "wte/*", "pipe1");
  expect_stage(plan, "cross_entropy", "pipe1");
  shoal_plan_free(plan);
}

// Values pass all stages, one after the other, also where tables are read beside what else is fed:
// the schedule has as many stages as it wants.
static void test_branches(void **state) {
  (void)state;
  static const struct {
    const char *mesh, *schedule;
    int32_t meshes, stages;
  } cases[] = {{"pipe=2,micro=2", "interleaved", 2, 4},
               {"pipe=3,micro=2", "1f1b", 3, 3},
               {"pipe=3,micro=2", "zb-v", 3, 5}};
  shoal_model_t *model = zoo_model("dlrm-tiny", "dtype=f64");
  for (int64_t i = 0; i < COUNT(cases); ++i)
    for (int uniform = 0; uniform < 2; ++uniform) {
      shoal_plan_t *plan = plan_of_model(model, uniform ? "uniform-pipeline" : "pipeline",
                                         cases[i].mesh, cases[i].meshes, cases[i].schedule);
      for (int64_t g = 0; g < plan->model->graphs.count; ++g)
        if (strcmp(plan->graphs[g].graph->name, "train") == 0)
          assert_int_equal(plan->graphs[g].schedule->stage_count, cases[i].stages);
      shoal_plan_free(plan);
    }
  shoal_model_free(model);
}

// Other axes are those of each stage, wherever `pipe` stands; ranks that are not dealt evenly.
static void test_products(void **state) {
  (void)state;
  shoal_plan_t *plan = plan_with("pipeline+zero1", "data=2,pipe=2,tensor=3,micro=2", 12, NULL);
  expect_meshes(plan, 3,
                (const char *const[]){"pipe0!data=2,tensor=3,micro=2@0-2,6-8",
                                      "pipe1!data=2,tensor=3,micro=2@3-5,9-11",
                                      "tied0!pipe=2,data=2,tensor=3,micro=2@0-2,6-8,3-5,9-11"});
  expect_layout(plan, "ids", "pipe0!micro:0,data:0");
  expect_state(plan, "block0/attn/qkv/weight#adamw.m", "pipe0!tensor:1*3/4,data:flat");
  expect_state(plan, "block3/mlp/fc2/weight", "pipe1!tensor:0");
  shoal_plan_free(plan);
  plan = plan_with("pipeline", "pipe=2,micro=2", 5, NULL);
  expect_meshes(plan, 3,
                (const char *const[]){"pipe0!data=3,micro=2@0-2", "pipe1!data=2,micro=2@3-4",
                                      "tied0!data=5,micro=2@0-4"});
  expect_layout(plan, "ids", "pipe0!micro:0,data:0");
  shoal_plan_free(plan);
  plan = plan_with("pipeline", NULL, 3, NULL);  // without micro-batches
  expect_layout(plan, "ids", "pipe0!");
  shoal_plan_free(plan);
}

// ---- stages that are asked for ----------------------------------------------------------

// Three stages, a value that goes past the second, and a loss of which nothing is said.
static shoal_model_t *staged_model(bool backwards) {
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(6, 4)), h, skip;
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(6));
  shoal_with_stage(g, backwards ? 1 : 0) h = skip = shoal_nn_linear(g, "fc1", x, 4);
  shoal_with_stage(g, backwards ? 0 : 1) {
    h = shoal_tanh(g, h);
    h = shoal_nn_linear(g, "fc2", h, 4);
  }
  shoal_with_stage(g, 2) h = shoal_nn_linear(g, "fc3", shoal_add(g, h, skip), 3);
  shoal_minimize(g, shoal_nn_cross_entropy(g, h, y), &(shoal_adamw_t){.lr = 0.1f});
  assert_ok(shoal_model_status(model));
  return model;
}

static void test_asked(void **state) {
  (void)state;
  shoal_model_t *model = staged_model(false), *again;
  shoal_plan_t *plan = plan_of_model(model, "pipeline", "pipe=3,micro=2", 3, NULL);
  expect_stage(plan, "fc1/*", "pipe0");
  expect_stage(plan, "tanh", "pipe1");
  expect_stage(plan, "fc2/*", "pipe1");
  expect_stage(plan, "add", "pipe2");
  expect_stage(plan, "cross_entropy", "pipe2");
  shoal_plan_free(plan);
  plan = plan_of_model(model, "pipeline", NULL, 7, NULL);  // three meshes of 3, 2 and 2 ranks
  assert_string_equal(shoal_plan_intent(plan)->meshes[0], "pipe0!data=3@0-2");
  expect_stage(plan, "fc3/*", "pipe2");
  shoal_plan_free(plan);
  const char *text, *second;  // the model's text keeps them
  assert_ok(shoal_model_print(model, arena, &text));
  assert_non_null(strstr(text, " stage 2\n"));
  assert_ok(shoal_model_parse("again", text, NULL, &again));
  assert_ok(shoal_model_print(again, arena, &second));
  assert_string_equal(text, second);
  assert_true(shoal_model_structure_hash(again) == shoal_model_structure_hash(model));
  shoal_model_free(again);
  assert_error(
      INVALID_ARGUMENT, "3 stages are asked for; schedule '1f1b' on 2 meshes has 2",
      shoal_plan_make(model, rules,
                      &(shoal_plan_options_t){.strategy = "pipeline", .mesh = "pipe=2", .world = 2},
                      &plan));
  again = model;
  model = staged_model(true);
  assert_true(shoal_model_structure_hash(again) != shoal_model_structure_hash(model));
  shoal_model_free(again);
  assert_error(
      INVALID_ARGUMENT, "'tanh' is asked to be in stage 0, but reads 'fc1/",
      shoal_plan_make(model, rules,
                      &(shoal_plan_options_t){.strategy = "pipeline", .mesh = "pipe=3", .world = 3},
                      &plan));
  shoal_model_free(model);
}

static void expect_model_error(shoal_model_t *model, const char *part) {
  assert_error(INVALID_ARGUMENT, part, shoal_model_status(model));
  shoal_model_free(model);
}

static void test_wrong_stages(void **state) {
  (void)state;
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_with_stage(g, 1) shoal_stage_push_at(g, 2, SHOAL_HERE);
  expect_model_error(model, "stage 2 is inside of stage 1");
  model = empty_model();
  shoal_with_stage(shoal_model_graph(model, "train"), -1);
  expect_model_error(model, "there is no stage -1");
  model = empty_model();
  shoal_stage_pop_at(shoal_model_graph(model, "train"), SHOAL_HERE);
  expect_model_error(model, "no stage is open");
}

// A decision about nodes is a cut: what comes behind them follows.
static void test_cuts(void **state) {
  (void)state;
  shoal_plan_t *plan;
  const shoal_intent_decision_t cut = {.kind = "stage", .pattern = "block3/*", .choice = "pipe1"};
  assert_ok(shoal_plan_make(gpt, rules,
                            &(shoal_plan_options_t){.strategy = "pipeline",
                                                    .mesh = "pipe=2,micro=2",
                                                    .world = 2,
                                                    .decision_count = 1,
                                                    .decisions = &cut},
                            &plan));
  expect_stage(plan, "block2/*", "pipe0");
  expect_stage(plan, "block3/*", "pipe1");
  expect_stage(plan, "cross_entropy", "pipe1");
  shoal_program_free(lower(plan));
  shoal_plan_free(plan);
}

static void test_refusals(void **state) {
  (void)state;
  shoal_plan_t *plan;
  assert_error(
      INVALID_ARGUMENT, "too few for 32 stages",
      shoal_plan_make(
          gpt, rules,
          &(shoal_plan_options_t){.strategy = "pipeline", .mesh = "pipe=32", .world = 32}, &plan));
  const shoal_intent_decision_t decision = {
      .kind = "schedule", .pattern = "*", .choice = "table a: F0.0 B0.0"};
  assert_error(INVALID_ARGUMENT, "the table has a row 'a'",
               shoal_plan_make(gpt, rules,
                               &(shoal_plan_options_t){.strategy = "pipeline",
                                                       .mesh = "pipe=2",
                                                       .world = 2,
                                                       .decision_count = 1,
                                                       .decisions = &decision},
                               &plan));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_links),     cmocka_unit_test(test_division),
      cmocka_unit_test(test_balance),   cmocka_unit_test(test_stages),
      cmocka_unit_test(test_schedules), cmocka_unit_test(test_branches),
      cmocka_unit_test(test_products),  cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_asked),     cmocka_unit_test(test_wrong_stages),
      cmocka_unit_test(test_cuts),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
