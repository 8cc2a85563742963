// links: all
// labels: san
//
// shoal_constrain: what it returns is laid out as it says, under every strategy, and so is its
// gradient; or the plan is refused with the line that says so. N ranks equal one.
#include "op/attrs.h"
#include "plan_support.h"
#include "shoal/ops.h"
#include "shoal/prove.h"

static shoal_rules_t *rules;
static shoal_arena_t *arena;

static int set_up(void **state) {
  (void)state;
  static shoal_arena_t own;
  shoal_arena_init(shoal_allocator_system(), &own);
  arena = &own;
  rules = new_rules();
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  shoal_rules_free(rules);
  shoal_arena_deinit(arena);
  return 0;
}

enum { ROWS = 7, WIDTH = 9, CLASSES = 4 };

// What is constrained: behind a bias, behind a tanh that its gradient reads again, logits that are
// fetched, a weight and what is fed.
typedef struct said {
  const char *sum, *hidden, *logits, *weight, *input;  // NULL: nothing
} said_t;

static shoal_model_t *constrained(const said_t *said) {
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(ROWS, 5));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(ROWS));
  if (said->input) x = shoal_constrain(g, x, said->input);
  shoal_value_t h = shoal_nn_linear(g, "fc1", x, WIDTH);
  if (said->sum) h = shoal_constrain(g, h, said->sum);
  h = shoal_tanh(g, h);
  if (said->hidden) h = shoal_constrain(g, h, said->hidden);
  if (said->weight)
    shoal_constrain(g, shoal_state(g, "fc1/weight", SHOAL_F64, SHOAL_SHAPE(5, WIDTH), NULL),
                    said->weight);
  h = shoal_nn_linear(g, "fc2", h, CLASSES);
  if (said->logits) h = shoal_constrain(g, h, said->logits);
  shoal_output(g, "logits", h);
  shoal_value_t loss = shoal_nn_cross_entropy(g, h, y);
  shoal_minimize(g, loss, &(shoal_adamw_t){.lr = 0.01f, .eps = 1e-3f});
  shoal_output(g, "loss", loss);
  return model;
}

static void check_on(const shoal_model_t *model, int32_t ranks, const char *strategy,
                     const char *mesh) {
  const shoal_parallelize_options_t options = {.strategy = strategy, .mesh = mesh};
  const shoal_check_how_t how = {.ranks = ranks, .steps = 2, .direct = true};
  shoal_check_report_t report;
  assert_ok(shoal_check(model, &options, &how, &report));
  assert_true(report.values > 20);
}

static const char *printed(const shoal_layout_t *layout) {
  const char *text;
  assert_ok(shoal_layout_print(layout, arena, &text));
  return text;
}

// The layout without micro-batches, unless `named`, and without what is cut into one part.
static const char *held(const shoal_layout_t *layout, bool named) {
  shoal_layout_t out = *layout;
  out.cut_count = 0;
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const bool micro = layout->cuts[i].axis == SHOAL_AXIS_MICRO;
    if (micro ? named : layout->mesh->axes[layout->cuts[i].axis].size > 1)
      out.cuts[out.cut_count++] = layout->cuts[i];
  }
  return printed(&out);
}

// Is every constrained value of the plan as the model says? Gradients count.
static void expect_met(const shoal_plan_t *plan, int64_t expected) {
  int64_t count = 0;
  for (int64_t g = 0; g < plan->model->graphs.count; ++g) {
    const shoal_graph_plan_t *gp = &plan->graphs[g];
    for (int64_t n = 0; n < gp->graph->nodes.count; ++n) {
      const shoal_node_t *node = &gp->graph->nodes.items[n];
      const char *said = shoal_op_constraint(node->op, node->attrs);
      shoal_layout_t wanted;
      if (!said) continue;
      ++count;
      assert_ok(shoal_layout_parse(said, &plan->meshes[gp->nodes[n].mesh], 1, arena, &wanted));
      const char *have = held(gp->values[node->outputs[0]], strstr(said, "micro:") != NULL);
      if (strcmp(have, held(&wanted, true)) != 0)
        fail_msg("'%s' is held as '%s', expected '%s'", node->name, have, held(&wanted, true));
    }
  }
  assert_int_equal(count, expected);
}

// Made, printed, read again and checked.
static void expect_held(const said_t *said, const char *strategy, const char *mesh, int32_t ranks,
                        int64_t count) {
  shoal_model_t *model = constrained(said);
  assert_ok(shoal_model_status(model));
  shoal_plan_t *plan = plan_by(model, rules, strategy, mesh, ranks), *again;
  expect_met(plan, count);
  const char *text;
  bool rebuilt;
  assert_ok(shoal_plan_print(plan, arena, &text));
  assert_ok(shoal_plan_parse("again", text, model, rules, ranks, shoal_allocator_system(), &rebuilt,
                             &again));
  assert_false(rebuilt);
  expect_met(again, count);
  shoal_plan_free(again);
  shoal_plan_free(plan);
  check_on(model, ranks, strategy, mesh);
  shoal_model_free(model);
}

// ---- under every strategy ------------------------------------------------------------------

static const struct {
  const char *strategy, *mesh;
  int32_t ranks;
} ways_to_plan[] = {
    {"data", "data=2,tensor=2", 4},
    {"data", "data=2,tensor=2,micro=3", 4},
    {"zero3", "data=2,tensor=2", 4},
    {"zero3+tensor", "data=2,tensor=2,micro=2", 4},
    {"tensor", "data=2,tensor=2", 4},
    {"sequence", "data=2,tensor=2", 4},
    {"explicit", "data=2,tensor=2", 4},
    {"pipeline", "pipe=2,data=2,tensor=2", 8},
    {"pipeline", "pipe=2,data=1,tensor=2,micro=3", 4},
    {"pipeline+zero1", "pipe=2,data=2,tensor=1,micro=2", 4},
};

static void test_every_strategy(void **state) {
  (void)state;
  static const said_t cases[] = {
      {.sum = "data:0,tensor:1", .hidden = "tensor:0", .logits = ""},
      {.sum = "tensor:1/4", .hidden = "data:1,tensor:0", .logits = "data:0,tensor:0"},
      {.sum = "", .hidden = "tensor:1(3,1)", .logits = "tensor:1*2", .weight = "tensor:0"},
      {.sum = "data:1", .hidden = "", .logits = "data:0"},
  };
  for (int64_t w = 0; w < COUNT(ways_to_plan); ++w)
    for (int64_t c = 0; c < COUNT(cases); ++c) {
      if (strstr(ways_to_plan[w].mesh, "tensor=1") && strchr(cases[c].hidden, '(')) continue;
      expect_held(&cases[c], ways_to_plan[w].strategy, ways_to_plan[w].mesh, ways_to_plan[w].ranks,
                  6);
    }
}

// Neither flat ranges nor unreduced sums are something that a tanh could make.
static void test_other_cuts(void **state) {
  (void)state;
  expect_held(&(said_t){.hidden = "data:0,tensor:flat"}, "data", "data=2,tensor=2", 4, 2);
  expect_held(&(said_t){.sum = "data:flat", .logits = "tensor:flat"}, "tensor", "data=2,tensor=2",
              4, 4);
  // The gradient of an unreduced sum is wanted whole: it has no node.
  expect_held(&(said_t){.logits = "data:0,tensor:partial(sum)"}, "tensor", "data=2,tensor=2", 4, 1);
  expect_held(&(said_t){.sum = "tensor:partial(sum)"}, "data", "data=2,tensor=2,micro=2", 4, 1);
}

// The node that makes the value is told what is wanted of it: it computes a part, not the whole.
static void test_the_maker_is_told(void **state) {
  (void)state;
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(ROWS, 5));
  shoal_value_t w = shoal_state(g, "w", SHOAL_F64, SHOAL_SHAPE(5, WIDTH), NULL);
  shoal_output(g, "h", shoal_constrain(g, shoal_matmul(g, x, w), "tensor:1"));
  static const char *const meshes[] = {"tensor=2", "data=1,tensor=2,micro=2"};
  for (int i = 0; i < 2; ++i) {
    shoal_plan_t *plan = plan_by(model, rules, i ? "data" : "explicit", meshes[i], 2);
    expect_way(plan, "matmul", "tensor", "{b:1 -> out:1}~");
    expect_met(plan, 1);
    shoal_plan_free(plan);
  }
  shoal_model_free(model);
}

// ---- no instruction, no copy ---------------------------------------------------------------

static int64_t count_computes(const shoal_program_t *program, const char *op) {
  int64_t count = 0;
  for (int64_t c = 0; c < program->class_count; ++c)
    for (int64_t s = 0; s < program->classes[c].segment_count; ++s) {
      const shoal_segment_t *segment = &program->classes[c].segments[s];
      for (int64_t i = 0; i < segment->instruction_count; ++i)
        count += segment->instructions[i].op && strcmp(segment->instructions[i].op->name, op) == 0;
    }
  return count;
}

static void test_no_instruction(void **state) {
  (void)state;
  const said_t said = {.sum = "data:0,tensor:1", .hidden = "data:0", .logits = "tensor:1"};
  static const char *const meshes[] = {"data=2,tensor=2", "data=2,tensor=2,micro=2"};
  shoal_model_t *model = constrained(&said);
  for (int i = 0; i < 2; ++i) {
    shoal_plan_t *plan = plan_by(model, rules, "zero3", meshes[i], 4);
    shoal_program_t *program = lower(plan);
    assert_int_equal(count_computes(program, "shoal.constrain"), 0);
    assert_true(count_computes(program, "shoal.tanh") > 0);
    shoal_program_free(program);
    shoal_plan_free(plan);
  }
  check_on(model, 1, NULL, NULL);
  shoal_model_free(model);
}

// ---- what is said, and what cannot be -------------------------------------------------------

static void expect_model_error(shoal_model_t *model, const char *part) {
  assert_error(INVALID_ARGUMENT, part, shoal_model_status(model));
  shoal_model_free(model);
}

static void expect_refusal(shoal_model_t *model, const char *strategy, const char *mesh,
                           int32_t world, const char *part) {
  shoal_plan_t *plan;
  assert_ok(shoal_model_status(model));
  assert_error(
      UNSUPPORTED, part,
      shoal_plan_make(model, rules,
                      &(shoal_plan_options_t){.strategy = strategy, .mesh = mesh, .world = world},
                      &plan));
  shoal_model_free(model);
}

static void test_text(void **state) {
  (void)state;
  const said_t said = {.hidden = "data:0,tensor:1", .weight = "tensor:0"};
  shoal_model_t *model = constrained(&said), *again;
  const char *text, *second;
  assert_ok(shoal_model_print(model, arena, &text));
  assert_non_null(strstr(text, "shoal.constrain("));
  assert_non_null(strstr(text, "layout=\"data:0,tensor:1\""));
  assert_non_null(strstr(text, " \"tensor:0\"\n"));
  assert_ok(shoal_model_parse("again", text, NULL, &again));
  assert_ok(shoal_model_print(again, arena, &second));
  assert_string_equal(text, second);
  assert_true(shoal_model_structure_hash(again) == shoal_model_structure_hash(model));
  shoal_plan_t *plan = plan_by(again, rules, "data", "data=2,tensor=2", 4);
  expect_layout(plan, "tanh/constrain", "data:0,tensor:1");
  expect_state(plan, "fc1/weight", "tensor:0");
  shoal_plan_free(plan);
  shoal_model_free(model);
  model = constrained(&(said_t){.hidden = "data:0", .weight = "tensor:0"});
  assert_true(shoal_model_structure_hash(again) != shoal_model_structure_hash(model));
  shoal_model_free(again);
  shoal_model_free(model);
  assert_error(INVALID_ARGUMENT, "'tanh' is computed",
               shoal_model_parse("old",
                                 "model seed=1\n"
                                 "graph train\n"
                                 "  %0 = input x f64[4]\n"
                                 "  %1 \"tanh\" = shoal.tanh(%0) : f64[4]\n"
                                 "  constrain %1 \"data:0\"\n",
                                 NULL, &again));
}

static void test_wrong_calls(void **state) {
  (void)state;
  shoal_model_t *model = constrained(&(said_t){.hidden = "data:0"});
  shoal_constrain(shoal_model_graph(model, "train"), shoal_none(), "data:0");
  expect_model_error(model, "what is constrained is no value of graph 'train'");
  model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(ROWS, 5));
  shoal_constrain(g, shoal_constrain(g, x, "data:0"), "data:1");
  expect_model_error(model, "'x' is constrained to 'data:0' at ");
  model = empty_model();
  g = shoal_model_graph(model, "train");
  x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(ROWS, 5));
  shoal_constrain(g, shoal_tanh(g, x), NULL);
  expect_model_error(model, "the layout of 'tanh' is NULL");
}

static void test_what_cannot_be(void **state) {
  (void)state;
  const said_t weight = {.hidden = "data:0", .weight = "tensor:0"};
  expect_refusal(constrained(&weight), "data", NULL, 2,
                 "'fc1/weight' is constrained to 'tensor:0' at ");
  expect_refusal(constrained(&(said_t){.hidden = "data:2"}), "data", NULL, 2,
                 "planners_constrain_test.c:");  // it has two dims
  expect_refusal(constrained(&(said_t){.hidden = "tensor:1"}), "data", NULL, 2,
                 "'tanh/constrain' is constrained to 'tensor:1' at ");
  expect_refusal(constrained(&(said_t){.hidden = "tensor:0,data:0"}), "data", "data=2,tensor=2", 4,
                 "nested in the order that the mesh has them in");
  expect_refusal(constrained(&(said_t){.hidden = "data:0+1+1"}), "data", NULL, 2,
                 "cannot be held like that along 'data'");
  expect_refusal(constrained(&(said_t){.hidden = "data:partial(max)"}), "data", NULL, 2,
                 "cannot be held like that along 'data'");
  expect_refusal(constrained(&(said_t){.hidden = "micro:1"}), "data", "data=2,micro=2", 2,
                 "known only when all micro-batches are done");
}

// ---- graphs, people, micro-batches, meshes ---------------------------------------------------

// A graph beside `train` with values of the same names and other shapes.
static shoal_model_t *two_graphs(const char *train, const char *eval, bool flat) {
  shoal_model_t *model = constrained(&(said_t){.hidden = train});
  shoal_graph_t *g = shoal_model_graph(model, "eval");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(ROWS, 5));
  shoal_value_t h =
      flat ? shoal_reduce_sum(g, x, SHOAL_SHAPE(1)) : shoal_nn_linear(g, "fc1", x, WIDTH);
  h = shoal_tanh(g, h);
  if (eval) h = shoal_constrain(g, h, eval);
  shoal_output(g, "h", h);
  assert_ok(shoal_model_status(model));
  return model;
}

static const char *layout_in(const shoal_plan_t *plan, const char *graph, const char *value) {
  const char *text = NULL;
  for (int64_t g = 0; g < plan->model->graphs.count; ++g) {
    const shoal_graph_t *of = plan->model->graphs.items[g];
    for (int64_t v = 0; v < of->values.count && strcmp(of->name, graph) == 0; ++v)
      if (strcmp(of->values.items[v].name, value) == 0) text = printed(plan->graphs[g].values[v]);
  }
  assert_non_null(text);
  return text;
}

// What a graph says of its values is about its own.
static void test_one_graph(void **state) {
  (void)state;
  static const char *const layouts[][2] = {{"data:0", ""}, {"", "data:1"}};
  for (int64_t i = 0; i < COUNT(layouts); ++i) {
    shoal_model_t *model = two_graphs(layouts[i][0], layouts[i][1], false);
    shoal_plan_t *plan = plan_by(model, rules, "data", NULL, 2);
    assert_string_equal(layout_in(plan, "train", "tanh/constrain"), layouts[i][0]);
    assert_string_equal(layout_in(plan, "eval", "tanh/constrain"), layouts[i][1]);
    shoal_plan_free(plan);
    check_on(model, 2, "data", NULL);
    shoal_model_free(model);
  }
  shoal_model_t *model = two_graphs("data:1", "data:0", true);  // eval's has one dim
  check_on(model, 3, "data", NULL);
  shoal_model_free(model);
  model = constrained(&(said_t){.hidden = "data:0", .weight = "data:0"});
  shoal_graph_t *g = shoal_model_graph(model, "eval");
  shoal_value_t w = shoal_state(g, "fc1/weight", SHOAL_F64, SHOAL_SHAPE(5, WIDTH), NULL);
  shoal_output(g, "w", shoal_tanh(g, shoal_constrain(g, w, "data:1")));
  assert_ok(shoal_model_status(model));
  shoal_plan_t *plan;
  assert_error(INVALID_ARGUMENT, "and to 'data:0' at ",
               shoal_plan_make(model, rules,
                               &(shoal_plan_options_t){.strategy = "data", .world = 2}, &plan));
  shoal_model_free(model);
}

static shoal_model_t *of_inputs(const char *train, const char *eval) {
  shoal_model_t *model = constrained(&(said_t){.weight = "data:1", .input = train});
  shoal_graph_t *g = shoal_model_graph(model, "eval");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(ROWS, 5));
  shoal_output(g, "h", shoal_nn_linear(g, "fc1", shoal_constrain(g, x, eval), WIDTH));
  assert_ok(shoal_model_status(model));
  return model;
}

// Inputs are fed like that, each graph's as it says; states rest so.
static void test_inputs_and_states(void **state) {
  (void)state;
  shoal_model_t *model = of_inputs("data:1", "");
  shoal_plan_t *plan = plan_by(model, rules, "data", NULL, 2);
  const char *why;
  assert_string_equal(layout_in(plan, "train", "x"), "data:1");
  assert_string_equal(layout_in(plan, "eval", "x"), "");
  expect_state(plan, "fc1/weight", "data:1");
  for (int i = 0; i < 2; ++i) {
    assert_ok(shoal_plan_why(plan, i ? "x" : "fc1/weight", arena, &why));
    assert_non_null(strstr(why, "by model: shoal_constrain asks for data:1"));
  }
  shoal_plan_free(plan);
  const shoal_intent_entry_t layouts[] = {{"x", "data:0"}, {"*weight", ""}};
  assert_ok(
      shoal_plan_make(model, rules,
                      &(shoal_plan_options_t){
                          .strategy = "data", .world = 2, .layout_count = 2, .layouts = layouts},
                      &plan));
  assert_string_equal(layout_in(plan, "train", "x"), "data:0");
  assert_string_equal(layout_in(plan, "eval", "x"), "data:0");
  expect_state(plan, "fc1/weight", "");
  shoal_plan_free(plan);
  plan = plan_by(model, rules, "data", "data=2,micro=2", 2);
  assert_string_equal(layout_in(plan, "train", "x"), "micro:0,data:1");
  shoal_plan_free(plan);
  check_on(model, 2, "data", "data=2,micro=2");
  shoal_model_free(model);
  model = of_inputs("micro:0", "data:1");
  plan = plan_by(model, rules, "data", "data=2,micro=2", 2);
  assert_string_equal(layout_in(plan, "train", "x"), "micro:0");
  shoal_plan_free(plan);
  check_on(model, 2, "data", "data=2,micro=2");
  shoal_model_free(model);
}

// What a person says comes later, and is said by `--why`.
static void test_people_win(void **state) {
  (void)state;
  shoal_model_t *model = two_graphs("data:1", "data:0", false);
  const shoal_intent_entry_t layout = {"tanh/constrain", ""};
  const shoal_intent_decision_t decisions[] = {
      {.kind = "layout", .pattern = "train:tanh/constrain", .choice = "data:0", .by = "user"},
      {.kind = "way", .pattern = "tanh/constrain", .choice = "data=whole", .by = "user"}};
  shoal_plan_options_t options = {
      .strategy = "data", .world = 2, .layout_count = 1, .layouts = &layout};
  shoal_plan_t *plan;
  const char *why;
  assert_ok(shoal_plan_make(model, rules, &options, &plan));
  assert_string_equal(layout_in(plan, "train", "tanh/constrain"), "");
  assert_string_equal(layout_in(plan, "eval", "tanh/constrain"), "");
  shoal_plan_free(plan);
  for (int i = 0; i < 2; ++i) {
    options = (shoal_plan_options_t){
        .strategy = "data", .world = 2, .decision_count = 1, .decisions = &decisions[i]};
    assert_ok(shoal_plan_make(model, rules, &options, &plan));
    assert_string_equal(layout_in(plan, "train", "tanh/constrain"), i == 0 ? "data:0" : "");
    assert_ok(shoal_plan_why(plan, "tanh/constrain", arena, &why));
    assert_non_null(strstr(why, "by user: it was asked for"));
    shoal_plan_free(plan);
  }
  plan = plan_by(model, rules, "data", NULL, 2);
  assert_ok(shoal_plan_why(plan, "tanh/constrain", arena, &why));
  assert_non_null(strstr(why, "by model: shoal_constrain asks for data:1"));
  assert_non_null(strstr(why, "by model: shoal_constrain asks for data:0"));
  shoal_plan_free(plan);
  // An intent that knows nothing of it, as in a file that a person wrote.
  plan = plan_of(model, rules, "data=2", 0, NULL, 2);
  expect_met(plan, 3);
  shoal_plan_free(plan);
  const shoal_intent_entry_t missing = {"eval:fc2", "data:0"};
  options = (shoal_plan_options_t){
      .strategy = "data", .world = 2, .layout_count = 1, .layouts = &missing};
  assert_error(NOT_FOUND, "layout 'eval:fc2' matches no state, input or value",
               shoal_plan_make(model, rules, &options, &plan));
  options.layouts = &(const shoal_intent_entry_t){"tanh/constrain", "data:0,data:1"};
  assert_error(INVALID_ARGUMENT, "tanh/constrain", shoal_plan_make(model, rules, &options, &plan));
  shoal_model_free(model);
}

// A strategy of a user's that says something of every value.
static shoal_status_t pin_all(shoal_strategy_context_t *context, void *user_data) {
  (void)user_data;
  shoal_status_t status = shoal_context_mesh(context, "data=2");
  if (!status) status = shoal_context_layout(context, "tanh*", "data:0");
  return status;
}

static void test_strategies_lose(void **state) {
  (void)state;
  shoal_strategies_t *strategies;
  shoal_plan_t *plan;
  assert_ok(shoal_strategies_create(shoal_allocator_system(), &strategies));
  assert_ok(shoal_strategy_register(
      strategies, &(shoal_strategy_t){.name = "mine", .doc = "", .plan = pin_all}));
  shoal_model_t *model = constrained(&(said_t){.hidden = "data:1"});
  assert_ok(shoal_plan_make(
      model, rules,
      &(shoal_plan_options_t){.strategy = "mine", .world = 2, .strategies = strategies}, &plan));
  expect_met(plan, 2);
  shoal_plan_free(plan);
  shoal_model_free(model);
  shoal_strategies_free(strategies);
}

// A layout that names micro-batches has its own way with them.
static void test_micro(void **state) {
  (void)state;
  static const char *const layouts[] = {"micro:0,data:0", "micro:0", "data:1"};
  for (int64_t i = 0; i < COUNT(layouts); ++i) {
    shoal_model_t *model = constrained(&(said_t){.hidden = layouts[i]});
    shoal_plan_t *plan = plan_by(model, rules, "data", "data=2,micro=2", 2);
    expect_layout(plan, "tanh/constrain", i == 2 ? "micro:0,data:1" : layouts[i]);
    shoal_plan_free(plan);
    check_on(model, 2, "data", "data=2,micro=2");
    shoal_model_free(model);
  }
}

// Constrained on its way from one stage to the next; in split and replicated parts; computed again;
// of a weight, whose gradient is then a state's; twice.
static shoal_model_t *parts(const char *layout) {
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(ROWS, 5)), h, loss;
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(ROWS));
  shoal_with_stage(g, 0) {
    shoal_with_replicate(g, 2) {
      h = shoal_tanh(g, shoal_nn_linear(g, "fc1", x, WIDTH));
      h = shoal_constrain(g, h, layout);
    }
    shoal_with_recompute(g) shoal_with_split(g, 2) {
      h = shoal_constrain(g, shoal_tanh(g, shoal_nn_linear(g, "up", h, 13)), layout);
      h = shoal_nn_linear(g, "down", h, 6);
    }
  }
  shoal_with_stage(g, 1) shoal_with_replicate(g, 2) {
    h = shoal_constrain(g, shoal_constrain(g, h, layout), "");
    shoal_state_options_t trained = {.init = {SHOAL_INIT_NORMAL, 0, 0.5}, .trainable = true};
    shoal_value_t w = shoal_state(g, "w", SHOAL_F64, SHOAL_SHAPE(6, CLASSES), &trained);
    w = shoal_constrain(g, shoal_tanh(g, w), layout);
    loss = shoal_nn_cross_entropy(g, shoal_matmul(g, shoal_tanh(g, h), w), y);
  }
  shoal_minimize(g, loss, &(shoal_adamw_t){.lr = 0.01f, .eps = 1e-3f});
  shoal_output(g, "loss", loss);
  assert_ok(shoal_model_status(model));
  return model;
}

static void test_parts(void **state) {
  (void)state;
  static const char *const layouts[] = {"tensor:1", "tensor:0", "", "tensor:flat"};
  for (int64_t i = 0; i < COUNT(layouts); ++i) {
    shoal_model_t *model = parts(layouts[i]);
    for (int micro = 1; micro <= 3; micro += 2) {
      shoal_plan_t *plan = plan_by(model, rules, NULL, micro == 1 ? NULL : "micro=3", 4);
      expect_met(plan, 10);
      shoal_plan_free(plan);
      check_on(model, 4, "annotated", micro == 1 ? NULL : "micro=3");
    }
    check_on(model, 2, "zero2", "data=1,tensor=2,micro=2");
    shoal_model_free(model);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_strategy),
      cmocka_unit_test(test_other_cuts),
      cmocka_unit_test(test_the_maker_is_told),
      cmocka_unit_test(test_no_instruction),
      cmocka_unit_test(test_text),
      cmocka_unit_test(test_wrong_calls),
      cmocka_unit_test(test_what_cannot_be),
      cmocka_unit_test(test_one_graph),
      cmocka_unit_test(test_people_win),
      cmocka_unit_test(test_strategies_lose),
      cmocka_unit_test(test_micro),
      cmocka_unit_test(test_parts),
      cmocka_unit_test(test_inputs_and_states),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
