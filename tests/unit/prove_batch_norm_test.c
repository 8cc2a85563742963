// links: all
//
// Batch norm in a model that is trained in parts. Statistics are those of the whole batch, however
// it is cut: over ranks they are summed in phases, and what N ranks compute, running statistics and
// evaluation by them included, equals one device. Micro-batches come one after the other, so that
// whole statistics are known only behind them: a norm of what is fed runs before or behind all of
// them, and a model that would need what it learns before the norm in each of them is refused by
// name.
#include "plan/composite.h"
#include "plan_support.h"
#include "prove/prove.h"
#include "shoal/ops.h"

enum { N = 9, C = 3, S = 8, HIDDEN = 5, CLASSES = 4 };

static shoal_value_t logits(shoal_graph_t *g, bool first, bool eval) {
  const shoal_nn_norm_options_t norm = {.eps = 0.01, .eval = eval};
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(N, C, S));
  if (first) {  // nothing before it learns
    x = shoal_nn_batch_norm(g, "bn", x, &norm);
  } else {
    x = shoal_nn_batch_norm(g, "bn", shoal_nn_conv1d(g, "conv", x, HIDDEN, 3, 1, 1), &norm);
  }
  return shoal_nn_linear(
      g, "fc", shoal_reshape(g, shoal_relu(g, x), SHOAL_SHAPE(N, (first ? C : HIDDEN) * S)),
      CLASSES);
}

// Training, and evaluation by the running statistics.
static shoal_model_t *norm_model(bool first, bool labelled) {
  shoal_model_t *model = empty_model();
  shoal_graph_t *train = shoal_model_graph(model, "train");
  shoal_value_t y = logits(train, first, false), loss;
  if (labelled) {
    loss = shoal_nn_cross_entropy(train, y, shoal_input(train, "y", SHOAL_I32, SHOAL_SHAPE(N)));
  } else {
    loss = shoal_reduce_mean(train, shoal_square(train, y), SHOAL_SHAPE(0, 1));
  }
  shoal_minimize_sgd(train, loss, &(shoal_sgd_t){.lr = 0.1});
  shoal_output(train, "loss", loss);
  shoal_graph_t *eval = shoal_model_graph(model, "eval");
  shoal_output(eval, "logits", logits(eval, first, true));
  assert_ok(shoal_model_status(model));
  return model;
}

static bool is_composite(const shoal_plan_t *plan, const char *node) {
  for (int64_t i = 0; i < plan->composites.count; ++i) {
    if (!strcmp(shoal_composite_node(plan, &plan->composites.items[i])->name, node)) return true;
  }
  return false;
}

static void test_cut_batch(void **state) {
  (void)state;
  shoal_model_t *model = norm_model(false, true);
  shoal_rules_t *rules = new_rules();
  const int32_t ranks[] = {2, 5};
  for (int i = 0; i < 2; ++i) {
    const char *mesh = i ? "data=5" : "data=2";
    shoal_plan_t *plan = plan_by(model, rules, "data", mesh, ranks[i]);
    assert_true(is_composite(plan, "bn/batch_norm"));
    assert_true(is_composite(plan, "grad/bn/batch_norm/batch_norm_grad"));
    shoal_plan_free(plan);
    shoal_check_report_t report;
    assert_ok(shoal_check_model(model,
                                &(shoal_check_options_t){.ranks = ranks[i],
                                                         .strategy = "data",
                                                         .mesh = mesh,
                                                         .steps = 3,
                                                         .seed = 5,
                                                         .rules = rules},
                                &report));
    assert_true(report.parts > report.values);
  }
  shoal_rules_free(rules);
  shoal_model_free(model);
}

static void test_micro_batches(void **state) {
  (void)state;
  shoal_check_options_t how = {
      .ranks = 2, .strategy = "data", .mesh = "data=2,micro=3", .steps = 3, .seed = 6};
  shoal_check_report_t report;
  for (int labelled = 0; labelled < 2; ++labelled) {
    shoal_model_t *model = norm_model(true, labelled);
    assert_ok(shoal_check_model(model, &how, &report));
    assert_true(report.parts > report.values);
    shoal_model_free(model);
  }
  shoal_model_t *model = norm_model(false, true);
  assert_error(UNSUPPORTED, "batch_norm' (shoal.batch_norm) runs on the whole batch",
               shoal_check_model(model, &how, &report));
  assert_true(report.refused);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cut_batch),
      cmocka_unit_test(test_micro_batches),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
