// links: all
//
// What each micro-batch needs of all of them runs before them, if only inputs and states lead to
// it: the number of labels that are not ignored, which a mean loss divides by, and the bags of
// rows. What N ranks compute then equals one device. Where a plan wants it cut along micro all the
// same, it is refused with the ways out.
#include "plan_support.h"
#include "prove/prove.h"
#include "shoal/ops.h"

enum { ROWS = 7, TOKENS = 5, WIDTH = 6, CLASSES = 4, BAGS = 7, IDS = 11 };

static const int64_t ignored = 2;

typedef enum what { PERCEPTRON, WEIGHTED, ATTENTION, BAG } what_t;

static shoal_value_t loss_of(shoal_graph_t *g, what_t what) {
  const int64_t tokens = what == ATTENTION ? TOKENS : 1;
  const shoal_shape_t shape = what == ATTENTION ? SHOAL_SHAPE(ROWS, tokens) : SHOAL_SHAPE(ROWS);
  shoal_nn_cross_entropy_options_t options = {.ignore = &ignored};
  shoal_value_t x;
  if (what == ATTENTION) {
    x = shoal_nn_embedding(g, "tokens", shoal_input(g, "ids", SHOAL_I32, shape), IDS, WIDTH,
                           SHOAL_F64);
    x = shoal_add(g, x, shoal_nn_self_attention(g, "attn", shoal_nn_layer_norm(g, "ln", x), 2));
  } else if (what == BAG) {
    x = shoal_nn_embedding_bag(g, "bags", shoal_input(g, "ids", SHOAL_I32, SHOAL_SHAPE(IDS)),
                               shoal_input(g, "offsets", SHOAL_I32, SHOAL_SHAPE(BAGS)), IDS, WIDTH,
                               SHOAL_F64, NULL);
  } else {
    x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(ROWS, WIDTH));
    x = shoal_tanh(g, shoal_nn_linear(g, "fc1", x, WIDTH + 1));
  }
  if (what == WEIGHTED) {
    options.weights = shoal_exp(g, shoal_input(g, "w", SHOAL_F64, SHOAL_SHAPE(CLASSES)));
    options.smoothing = 0.1;
  }
  return shoal_nn_cross_entropy_with(g, shoal_nn_linear(g, "fc2", x, CLASSES),
                                     shoal_input(g, "y", SHOAL_I32, shape), &options);
}

static shoal_model_t *model_of(what_t what) {
  shoal_model_t *model = empty_model();
  shoal_graph_t *train = shoal_model_graph(model, "train");
  shoal_value_t loss = loss_of(train, what);
  shoal_minimize_sgd(train, loss, &(shoal_sgd_t){.lr = 0.1});
  shoal_output(train, "loss", loss);
  shoal_graph_t *eval = shoal_model_graph(model, "eval");
  shoal_output(eval, "loss", loss_of(eval, what));
  assert_ok(shoal_model_status(model));
  return model;
}

static void test_equal_to_one_device(void **state) {
  (void)state;
  static const struct {
    int32_t ranks;
    const char *strategy, *mesh;
  } plans[] = {{2, "data", "data=2,micro=2"},
               {2, "data", "data=2,micro=3"},
               {1, "data", "data=1,micro=3"},
               {4, "tensor", "data=2,tensor=2,micro=2"}};
  for (what_t what = PERCEPTRON; what <= BAG; ++what) {
    shoal_model_t *model = model_of(what);
    for (int64_t i = 0; i < COUNT(plans); ++i) {
      shoal_check_report_t report;
      assert_ok(shoal_check_model(model,
                                  &(shoal_check_options_t){.ranks = plans[i].ranks,
                                                           .strategy = plans[i].strategy,
                                                           .mesh = plans[i].mesh,
                                                           .steps = 2,
                                                           .seed = 5},
                                  &report));
      assert_true(report.values > 0);
    }
    shoal_model_free(model);
  }
}

// What is summed up is whole along micro and still cut over ranks; the model runs in the loop.
static void test_what_runs_early(void **state) {
  (void)state;
  shoal_model_t *model = model_of(PERCEPTRON);
  shoal_rules_t *rules = new_rules();
  shoal_plan_t *plan = plan_by(model, rules, "data", "data=2,micro=3", 2);
  expect_layout(plan, "y", "micro:0,data:0");
  expect_layout(plan, "label_weight", "data:0");
  expect_layout(plan, "reduce_sum", "data:partial(sum)");
  expect_layout(plan, "tanh", "micro:0,data:0");
  assert_non_null(choice_of(plan, "train", "cross_entropy", "micro")->way);
  shoal_program_free(lower(plan));
  shoal_plan_free(plan);
  shoal_rules_free(rules);
  shoal_model_free(model);
}

static void test_pins_win(void **state) {
  (void)state;
  shoal_model_t *model = model_of(PERCEPTRON);
  shoal_rules_t *rules = new_rules();
  const shoal_intent_entry_t pins[] = {
      {"x", "micro:0,data:0"}, {"y", "micro:0,data:0"}, {"label_weight", "micro:0,data:0"}};
  shoal_plan_t *plan = plan_of(model, rules, "data=2,micro=3", COUNT(pins), pins, 2);
  expect_layout(plan, "label_weight", "micro:0,data:0");
  shoal_program_t *program;
  shoal_status_t status = shoal_lower(plan, NULL, &program);
  assert_int_equal(shoal_status_code(status), SHOAL_UNSUPPORTED);
  assert_non_null(strstr(shoal_status_message(status), "'reduce_sum' is known only after all"));
  assert_non_null(strstr(shoal_status_hint(status), "without micro"));
  shoal_status_free(status);
  shoal_plan_free(plan);
  shoal_rules_free(rules);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_equal_to_one_device),
      cmocka_unit_test(test_what_runs_early),
      cmocka_unit_test(test_pins_win),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
