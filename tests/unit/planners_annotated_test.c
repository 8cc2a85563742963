// links: all
// labels: san
//
// Strategy `annotated`: what a model says about its parts is in the plan, and N ranks equal one.
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

enum { ROWS = 7, CLASSES = 11 };

// A replicated body, a split classifier with loss and accuracy. Sizes that divide by nothing.
static shoal_model_t *classifier(int32_t replicate, int32_t split) {
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(ROWS, 5)), h, loss, right;
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(ROWS));
  shoal_with_replicate(g, replicate) {
    h = shoal_tanh(g, shoal_nn_linear(g, "fc1", x, 9));
    h = shoal_tanh(g, shoal_nn_linear(g, "fc2", h, 6));
  }
  shoal_with_split(g, split) {
    h = shoal_nn_linear(g, "head", h, CLASSES);
    loss = shoal_nn_cross_entropy(g, h, y);
    right = shoal_equal(g, shoal_cast(g, shoal_argmax(g, h, 1), SHOAL_I32), y);
  }
  shoal_minimize(g, loss, &(shoal_adamw_t){.lr = 0.01f, .eps = 1e-3f});
  shoal_output(g, "loss", loss);
  shoal_output(g, "right", right);
  assert_ok(shoal_model_status(model));
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

static void expect_mesh(const shoal_plan_t *plan, const char *mesh) {
  assert_string_equal(shoal_plan_intent(plan)->meshes[0], mesh);
}

static void test_same_ranks(void **state) {
  (void)state;
  shoal_model_t *model = classifier(4, 4);
  shoal_plan_t *plan = plan_by(model, rules, NULL, NULL, 4);  // an annotated model needs no name
  expect_mesh(plan, "tensor=4");
  expect_way(plan, "fc1/einsum", "tensor", "{a:0 -> out:0}~");
  expect_way(plan, "fc2/einsum", "tensor", "{a:0 -> out:0}~");
  expect_way(plan, "head/einsum", "tensor", "{b:1 -> out:1}~");
  shoal_plan_free(plan);
  check_on(model, 4, NULL, NULL);
  shoal_model_free(model);
  model = classifier(0, 2);  // two copies of the split part, all ranks in the other
  plan = plan_by(model, rules, "annotated", NULL, 6);
  expect_mesh(plan, "data=3,tensor=2");
  expect_way(plan, "fc1/einsum", "data", "{a:0 -> out:0}~");
  expect_way(plan, "fc1/einsum", "tensor", "{a:0 -> out:0}~");
  expect_way(plan, "head/einsum", "data", "{a:0 -> out:0}~");
  expect_way(plan, "head/einsum", "tensor", "{b:1 -> out:1}~");
  shoal_plan_free(plan);
  check_on(model, 6, "annotated", NULL);
  check_on(model, 2, "annotated", "micro=2");
  check_on(model, 4, "annotated+zero1", NULL);
  check_on(model, 1, NULL, NULL);
  shoal_model_free(model);
}

// The loss, its gradient and the accuracy are computed on cut logits: nothing of their shape moves.
static void test_no_logits_are_gathered(void **state) {
  (void)state;
  shoal_model_t *model = classifier(2, 2);
  shoal_plan_t *plan = plan_by(model, rules, NULL, NULL, 2);
  shoal_program_t *program = lower(plan);
  bool features = false;
  for (int64_t c = 0; c < program->channel_count; ++c) {
    const shoal_shape_t *shape = &program->channels[c].type.shape;
    const bool logits = shape->rank == 2 && shape->dims[0] == ROWS && shape->dims[1] == CLASSES;
    assert_false(logits && program->channels[c].src->cut_count > 0);  // from the whole takes a part
    features |= shape->rank == 2 && shape->dims[0] == ROWS && shape->dims[1] == 6;
  }
  assert_true(features);  // these do
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// Split inside of a stage, and parts that stages hold on other ranks.
static shoal_model_t *staged(int32_t ranks, bool around) {
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(ROWS, 5)), h, loss;
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(ROWS));
  shoal_with_stage(g, 0) {
    shoal_with_replicate(g, ranks) h = shoal_tanh(g, shoal_nn_linear(g, "fc1", x, 9));
    shoal_with_split(g, ranks) {  // by columns, then by rows
      h = shoal_tanh(g, shoal_nn_linear(g, "up", h, 13));
      h = shoal_nn_linear(g, "down", h, 6);
    }
  }
  if (around) {
    shoal_with_replicate(g, ranks) shoal_with_stage(g, 1) {
      loss = shoal_nn_cross_entropy(g, shoal_nn_linear(g, "head", shoal_tanh(g, h), 4), y);
    }
  } else {
    shoal_with_stage(g, 1) shoal_with_split(g, ranks) {
      loss = shoal_nn_cross_entropy(g, shoal_nn_linear(g, "head", shoal_tanh(g, h), 4), y);
    }
  }
  shoal_minimize(g, loss, &(shoal_adamw_t){.lr = 0.01f, .eps = 1e-3f});
  shoal_output(g, "loss", loss);
  assert_ok(shoal_model_status(model));
  return model;
}

static void test_stages(void **state) {
  (void)state;
  for (int around = 0; around < 2; ++around) {
    shoal_model_t *model = staged(2, around);
    shoal_plan_t *plan = plan_by(model, rules, "annotated", "micro=2", 8);
    expect_mesh(plan, "pipe0!data=2,tensor=2,micro=2@0-3");
    expect_way(plan, "up/einsum", "tensor", "{b:1 -> out:1}~");
    expect_way(plan, "down/einsum", "tensor", "{a:1, b:0 -> out:sum}~");
    expect_way(plan, "head/einsum", "tensor", around ? "{a:0 -> out:0}~" : "{b:1 -> out:1}~");
    shoal_plan_free(plan);
    check_on(model, 4, NULL, "micro=3");
    shoal_model_free(model);
  }
}

// ---- what is said, and what cannot be ---------------------------------------------------

static void test_defaults_and_text(void **state) {
  (void)state;
  shoal_model_t *model = empty_model(), *again, *other;
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(6, 4));
  shoal_default_split(g, 2);
  shoal_value_t h = shoal_nn_linear(g, "fc1", x, 8);
  shoal_with_replicate(g, 0) h = shoal_tanh(g, h);
  h = shoal_nn_linear(g, "fc2", h, 4);
  shoal_share_default_at(g, SHOAL_SHARE_NONE, 0, SHOAL_HERE);
  h = shoal_relu(g, h);
  shoal_output(g, "h", h);
  const char *text, *second;
  assert_ok(shoal_model_print(model, arena, &text));
  assert_non_null(strstr(text, "shoal.tanh(%4) : f64[6, 8] replicate 0\n"));
  assert_non_null(strstr(text, "f64[6, 4] split 2\n"));
  assert_non_null(strstr(text, "shoal.relu(%9) : f64[6, 4]\n"));
  assert_ok(shoal_model_parse("again", text, NULL, &again));
  assert_ok(shoal_model_print(again, arena, &second));
  assert_string_equal(text, second);
  assert_true(shoal_model_structure_hash(again) == shoal_model_structure_hash(model));
  other = classifier(2, 2);
  shoal_model_t *more = classifier(2, 4);
  assert_true(shoal_model_structure_hash(other) != shoal_model_structure_hash(more));
  shoal_plan_t *plan = plan_by(again, rules, NULL, NULL, 4);
  expect_mesh(plan, "data=2,tensor=2");
  expect_way(plan, "fc1/einsum", "tensor", "{b:1 -> out:1}~");
  expect_way(plan, "tanh", "tensor", "{x:0 -> out:0}~");
  expect_way(plan, "fc2/einsum", "tensor", "{b:1 -> out:1}~");
  shoal_plan_free(plan);
  check_on(model, 4, NULL, NULL);
  shoal_model_free(more);
  shoal_model_free(other);
  shoal_model_free(again);
  shoal_model_free(model);
}

static void expect_model_error(shoal_model_t *model, const char *part) {
  assert_error(INVALID_ARGUMENT, part, shoal_model_status(model));
  shoal_model_free(model);
}

static void test_wrong_scopes(void **state) {
  (void)state;
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_with_replicate(g, 2) shoal_share_push_at(g, SHOAL_SHARE_SPLIT, 2, SHOAL_HERE);
  assert_error(INVALID_ARGUMENT, "planners_annotated_test.c:", shoal_model_status(model));
  expect_model_error(model, "split(2) is inside of replicate(2), which begins at ");
  model = empty_model();
  g = shoal_model_graph(model, "train");
  shoal_with_split(g, 2) shoal_default_replicate(g, 2);
  expect_model_error(model, "replicate(2) is inside of split(2)");
  model = empty_model();
  shoal_with_split(shoal_model_graph(model, "train"), -1) {}
  expect_model_error(model, "-1 ranks cannot split a part");
  model = empty_model();
  shoal_share_pop_at(shoal_model_graph(model, "train"), SHOAL_HERE);
  expect_model_error(model, "no part is being replicated or split");
}

static void expect_plan_error(shoal_model_t *model, const char *mesh, int32_t world,
                              const char *part) {
  shoal_plan_t *plan;
  shoal_status_t status = shoal_plan_make(
      model, rules, &(shoal_plan_options_t){.strategy = "annotated", .mesh = mesh, .world = world},
      &plan);
  if (!status || !strstr(shoal_status_message(status), part))
    fail_msg("%s", status ? shoal_status_message(status) : "no error");
  shoal_status_free(status);
  shoal_model_free(model);
}

static void test_what_does_not_fit(void **state) {
  (void)state;
  expect_plan_error(classifier(0, 4), NULL, 6,
                    "is asked to be split over 4 ranks, and there are 6");
  expect_plan_error(classifier(4, 2), NULL, 6, "'fc1/einsum' (");
  expect_plan_error(staged(2, false), NULL, 5, "5 ranks cannot be dealt to 2 stages");
  expect_plan_error(staged(4, false), NULL, 4, "its stage has 2");
  expect_plan_error(classifier(0, 2), "data=2,tensor=3", 6, "axis 'tensor' of the mesh has 3");
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(6, 4));
  shoal_with_split(g, 2) shoal_output(g, "h", shoal_tanh(g, x));
  expect_plan_error(model, NULL, 2, "nothing in the part of 'tanh' (");
  expect_plan_error(small_mlp(4), NULL, 2, "nothing in graph 'train' says how to share it");
  model = classifier(2, 2);
  g = shoal_model_graph(model, "train");
  x = shoal_input(g, "z", SHOAL_F64, SHOAL_SHAPE(6, 4));
  shoal_with_split(g, 4) shoal_output(g, "h", shoal_tanh(g, x));
  expect_plan_error(model, NULL, 4, "nothing in the part of 'tanh_2' (");
}

// What is asked for fits the mesh that follows from it, down to parts of one rank.
static void test_few_ranks(void **state) {
  (void)state;
  shoal_model_t *model = staged(0, false);
  shoal_plan_t *plan = plan_by(model, rules, NULL, NULL, 2);  // a stage has one rank
  expect_mesh(plan, "pipe0!data=1@0");
  shoal_plan_free(plan);
  check_on(model, 2, NULL, NULL);
  check_on(model, 4, NULL, NULL);
  shoal_model_free(model);
  model = classifier(0, 1);
  plan = plan_by(model, rules, NULL, NULL, 2);
  expect_mesh(plan, "data=2");
  shoal_plan_free(plan);
  check_on(model, 2, NULL, NULL);
  check_on(model, 2, NULL, "data=2");
  shoal_model_free(model);
  expect_plan_error(classifier(0, 0), "data=2", 2, "is split, and the mesh has no axis 'tensor'");
  expect_plan_error(classifier(0, 2), "data=2", 2, "axis 'tensor' of the mesh has 1");
  // counts that do not divide, on a mesh that is given in full
  expect_plan_error(classifier(4, 2), "data=3,tensor=2", 6, "over 4 ranks, and there are 6");
}

// classifier(0, `split`) with another part that is split over all ranks.
static shoal_model_t *with_all(int32_t split) {
  shoal_model_t *model = classifier(0, split);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t z = shoal_input(g, "z", SHOAL_F64, SHOAL_SHAPE(ROWS, 4));
  shoal_with_split(g, 0) shoal_output(g, "more", shoal_nn_linear(g, "more", z, 6));
  assert_ok(shoal_model_status(model));
  return model;
}

// Over all ranks is over two where there are two, and along the given axis.
static void test_all_beside_some(void **state) {
  (void)state;
  shoal_model_t *model = with_all(2);
  check_on(model, 1, NULL, NULL);
  check_on(model, 2, NULL, NULL);
  check_on(model, 4, NULL, "data=2,tensor=2");
  shoal_model_free(model);
  model = with_all(2);
  shoal_plan_t *plan = plan_by(model, rules, NULL, NULL, 4);
  expect_mesh(plan, "split=2,tensor=2");
  shoal_plan_free(plan);
  check_on(model, 4, NULL, NULL);
  check_on(model, 8, NULL, NULL);
  shoal_model_free(model);
}

// ---- splits of several sizes -----------------------------------------------------------------

// A replicated body, a block that is split over `inner` ranks, a classifier that is over `outer`;
// or the other way round.
static shoal_model_t *two_sizes(int32_t replicate, int32_t inner, int32_t outer) {
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(ROWS, 5)), h, loss, right;
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(ROWS));
  shoal_with_replicate(g, replicate) h = shoal_tanh(g, shoal_nn_linear(g, "fc1", x, 9));
  shoal_with_split(g, inner) {
    h = shoal_tanh(g, shoal_nn_linear(g, "up", h, 13));
    h = shoal_nn_linear(g, "down", h, 6);
  }
  shoal_with_replicate(g, replicate) h = shoal_tanh(g, h);
  shoal_with_split(g, outer) {
    h = shoal_nn_linear(g, "head", h, CLASSES);
    loss = shoal_nn_cross_entropy(g, h, y);
    right = shoal_equal(g, shoal_cast(g, shoal_argmax(g, h, 1), SHOAL_I32), y);
  }
  shoal_minimize(g, loss, &(shoal_adamw_t){.lr = 0.01f, .eps = 1e-3f});
  shoal_output(g, "loss", loss);
  shoal_output(g, "right", right);
  assert_ok(shoal_model_status(model));
  return model;
}

static void test_two_sizes(void **state) {
  (void)state;
  shoal_model_t *model = two_sizes(8, 2, 4);
  shoal_plan_t *plan = plan_by(model, rules, NULL, NULL, 8);
  expect_mesh(plan, "data=2,split=2,tensor=2");
  expect_way(plan, "fc1/einsum", "split", "{a:0 -> out:0}~");
  expect_way(plan, "up/einsum", "split", "{a:0 -> out:0}~");  // others take other rows
  expect_way(plan, "up/einsum", "tensor", "{b:1 -> out:1}~");
  expect_way(plan, "down/einsum", "tensor", "{a:1, b:0 -> out:sum}~");
  expect_way(plan, "head/einsum", "data", "{a:0 -> out:0}~");
  expect_way(plan, "head/einsum", "split", "{b:1 -> out:1}~");
  expect_way(plan, "head/einsum", "tensor", "{b:1 -> out:1}~");
  expect_state(plan, "up/weight", "tensor:1");
  expect_state(plan, "head/weight", "split:1,tensor:1");
  shoal_plan_free(plan);
  check_on(model, 8, NULL, NULL);
  check_on(model, 8, NULL, "micro=2");
  check_on(model, 8, "annotated+zero1", NULL);
  check_on(model, 8, NULL, "data=2,split=2,tensor=2");
  shoal_model_free(model);
  static const int32_t sizes[][3] = {{4, 2, 4}, {0, 4, 2}, {2, 2, 0}, {0, 0, 2}, {4, 1, 4}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    model = two_sizes(sizes[i][0], sizes[i][1], sizes[i][2]);
    check_on(model, 4, NULL, NULL);
    check_on(model, 4, NULL, "micro=2");
    check_on(model, 8, NULL, NULL);
    check_on(model, 1, NULL, NULL);
    shoal_model_free(model);
  }
  model = two_sizes(0, 2, 6);
  check_on(model, 6, NULL, NULL);
  shoal_model_free(model);
}

// Sizes that do not divide one another, and meshes that do not have them.
static void test_sizes_that_do_not_fit(void **state) {
  (void)state;
  expect_plan_error(two_sizes(0, 2, 3), NULL, 6, "is split over 2 ranks and 'head/einsum' (");
  expect_plan_error(two_sizes(0, 2, 4), "data=2,tensor=4", 8,
                    "is split over 2 ranks, and axis 'tensor' of the mesh has 4");
  expect_plan_error(two_sizes(0, 2, 4), "split=4,tensor=2", 8, "nor do its axes of splits");
  expect_plan_error(two_sizes(0, 2, 4), NULL, 6, "over 4 ranks, and there are 6");
}

// Stages that hold splits of two sizes.
static void test_two_sizes_in_stages(void **state) {
  (void)state;
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(ROWS, 5)), h, loss;
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(ROWS));
  shoal_with_stage(g, 0) shoal_with_split(g, 2) {
    h = shoal_tanh(g, shoal_nn_linear(g, "up", x, 13));
    h = shoal_nn_linear(g, "down", h, 6);
  }
  shoal_with_stage(g, 1) shoal_with_split(g, 4) {
    loss = shoal_nn_cross_entropy(g, shoal_nn_linear(g, "head", shoal_tanh(g, h), CLASSES), y);
  }
  shoal_minimize(g, loss, &(shoal_adamw_t){.lr = 0.01f, .eps = 1e-3f});
  shoal_output(g, "loss", loss);
  shoal_plan_t *plan = plan_by(model, rules, NULL, "micro=2", 8);
  expect_mesh(plan, "pipe0!split=2,tensor=2,micro=2@0-3");
  shoal_plan_free(plan);
  check_on(model, 8, NULL, "micro=2");
  shoal_model_free(model);
}

static shoal_model_t *with_eval(shoal_model_t *model, int32_t split) {
  shoal_graph_t *g = shoal_model_graph(model, "eval");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(ROWS, 5));
  shoal_with_split(g, split) shoal_output(g, "h", shoal_nn_linear(g, "fc1", x, 9));
  assert_ok(shoal_model_status(model));
  return model;
}

// Train decides; what other graphs ask for is checked.
static void test_other_graphs(void **state) {
  (void)state;
  expect_plan_error(with_eval(classifier(0, 0), 5), NULL, 2, "over 5 ranks, and there are 2");
  expect_plan_error(with_eval(classifier(0, 2), 4), NULL, 4, "over 2 ranks and 'fc1/einsum' (");
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t h = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(ROWS, 5));
  shoal_output(g, "h", shoal_nn_linear(g, "fc1", h, 9));
  shoal_plan_free(plan_by(with_eval(model, 2), rules, NULL, NULL, 1));
  expect_plan_error(model, NULL, 2, "nothing in graph 'train' says");
  model = empty_model();
  g = shoal_model_graph(model, "train");
  h = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(ROWS, 5));
  shoal_with_replicate(g, 0) shoal_output(g, "h", shoal_nn_linear(g, "fc1", h, 9));
  expect_plan_error(with_eval(model, 2), NULL, 2, "is split, and nothing in graph 'train' is");
  model = with_eval(classifier(0, 2), 2);
  check_on(model, 4, NULL, NULL);
  shoal_model_free(model);
}

static void test_products_name_the_mesh(void **state) {
  (void)state;
  shoal_model_t *model = classifier(0, 0);
  shoal_plan_t *plan;
  assert_error(
      INVALID_ARGUMENT, "the mesh 'tensor=4' has no axis 'data'",
      shoal_plan_make(model, rules,
                      &(shoal_plan_options_t){.strategy = "annotated+zero1", .world = 4}, &plan));
  check_on(model, 4, "annotated+zero1", "data=2,tensor=2");
  shoal_model_free(model);
  model = staged(0, false);
  assert_error(INVALID_ARGUMENT, "'annotated+pipeline' asks for the stages of a pipeline twice",
               shoal_plan_make(
                   model, rules,
                   &(shoal_plan_options_t){.strategy = "annotated+pipeline", .world = 4}, &plan));
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_same_ranks),
      cmocka_unit_test(test_no_logits_are_gathered),
      cmocka_unit_test(test_stages),
      cmocka_unit_test(test_defaults_and_text),
      cmocka_unit_test(test_wrong_scopes),
      cmocka_unit_test(test_what_does_not_fit),
      cmocka_unit_test(test_few_ranks),
      cmocka_unit_test(test_all_beside_some),
      cmocka_unit_test(test_other_graphs),
      cmocka_unit_test(test_products_name_the_mesh),
      cmocka_unit_test(test_two_sizes),
      cmocka_unit_test(test_sizes_that_do_not_fit),
      cmocka_unit_test(test_two_sizes_in_stages),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
