// Cross-entropy over classes with labels that are ignored, class weights and smoothing: every
// reduction against the formula written out, gradients by their sum, and what is refused.
#include <math.h>

#include "graph_support.h"
#include "shoal/nn.h"

enum { ROWS = 4, CLASSES = 3 };

static const double LOGITS[ROWS * CLASSES] = {0.5, -1, 2, 0, 0.25, -3, 1, 1, 1, -0.5, 4, 0.75};
static const double WEIGHTS[CLASSES] = {0.5, 2, 3};

// The loss of one row, and what it counts in the mean.
static double cost(const int64_t *labels, int64_t row, bool weighted, double smoothing,
                   int64_t ignore, double *out_count) {
  const double *x = LOGITS + row * CLASSES;
  *out_count = 0;
  if (labels[row] == ignore) return 0;
  double sum = 0, spread = 0;
  for (int v = 0; v < CLASSES; ++v) sum += exp(x[v]);
  for (int v = 0; v < CLASSES; ++v) spread += (weighted ? WEIGHTS[v] : 1) * (log(sum) - x[v]);
  *out_count = weighted ? WEIGHTS[labels[row]] : 1;
  return (1 - smoothing) * *out_count * (log(sum) - x[labels[row]]) + smoothing / CLASSES * spread;
}

static void compare(shoal_reduction_t reduction, bool weighted, double smoothing, int64_t ignore) {
  const int64_t labels[ROWS] = {2, ignore, 1, 0};
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "f");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(ROWS, CLASSES));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I64, SHOAL_SHAPE(ROWS));
  shoal_value_t w = shoal_input(g, "w", SHOAL_F64, SHOAL_SHAPE(CLASSES));
  shoal_nn_cross_entropy_options_t options = {.reduction = reduction, .smoothing = smoothing};
  if (weighted) options.weights = w;
  if (ignore != -100) options.ignore = &ignore;
  shoal_output(g, "loss", shoal_nn_cross_entropy_with(g, x, y, &options));
  assert_ok(shoal_model_verify(model));
  shoal_interpreter_t *in;
  shoal_tensor_t loss;
  assert_ok(shoal_interpreter_create(model, NULL, &in));
  assert_ok(shoal_interpreter_feed(in, "x", LOGITS, sizeof LOGITS));
  assert_ok(shoal_interpreter_feed(in, "y", labels, sizeof labels));
  assert_ok(shoal_interpreter_feed(in, "w", WEIGHTS, sizeof WEIGHTS));
  assert_ok(shoal_interpreter_run(in, "f"));
  assert_ok(shoal_interpreter_output(in, "loss", &loss));
  double sum = 0, total = 0, count;
  for (int64_t r = 0; r < ROWS; ++r) {
    const double each = cost(labels, r, weighted, smoothing, ignore, &count);
    if (reduction == SHOAL_REDUCTION_NONE) {
      assert_true(fabs(element(loss, r) - each) < 1e-13);
    }
    sum += each, total += count;
  }
  if (reduction == SHOAL_REDUCTION_MEAN) sum /= total;
  if (reduction == SHOAL_REDUCTION_BATCH) sum /= ROWS;
  if (reduction != SHOAL_REDUCTION_NONE) assert_true(fabs(element(loss, 0) - sum) < 1e-13);
  shoal_interpreter_free(in);
  shoal_model_free(model);
}

static void test_reductions(void **state) {
  (void)state;
  static const shoal_reduction_t reductions[] = {SHOAL_REDUCTION_MEAN, SHOAL_REDUCTION_SUM,
                                                 SHOAL_REDUCTION_BATCH, SHOAL_REDUCTION_NONE};
  for (int r = 0; r < 4; ++r) {
    for (int weighted = 0; weighted < 2; ++weighted) {
      compare(reductions[r], weighted, 0, -100);
      compare(reductions[r], weighted, 0.3, -100);
      compare(reductions[r], weighted, 0.3, 7);
    }
  }
}

// The plain loss ignores -100, and its mean is over all labels; any other label that is no class
// is an error that names it.
static void test_plain(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "f");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(ROWS, CLASSES));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I64, SHOAL_SHAPE(ROWS));
  shoal_output(g, "loss", shoal_nn_cross_entropy(g, x, y));
  assert_ok(shoal_model_verify(model));
  int64_t labels[ROWS] = {2, -100, 1, -100};
  shoal_interpreter_t *in;
  shoal_tensor_t loss;
  assert_ok(shoal_interpreter_create(model, NULL, &in));
  assert_ok(shoal_interpreter_feed(in, "x", LOGITS, sizeof LOGITS));
  assert_ok(shoal_interpreter_feed(in, "y", labels, sizeof labels));
  assert_ok(shoal_interpreter_run(in, "f"));
  assert_ok(shoal_interpreter_output(in, "loss", &loss));
  double sum = 0, count;
  for (int64_t r = 0; r < ROWS; ++r) sum += cost(labels, r, false, 0, -100, &count);
  assert_true(fabs(element(loss, 0) - sum / ROWS) < 1e-13);
  labels[3] = -1;
  assert_ok(shoal_interpreter_feed(in, "y", labels, sizeof labels));
  assert_error(INVALID_ARGUMENT, "element 3 of labels is -1, which is not in [0, 3)",
               shoal_interpreter_run(in, "f"));
  shoal_interpreter_free(in);
  shoal_model_free(model);
}

static void test_refused(void **state) {
  (void)state;
  static const struct {
    const char *message;
    shoal_nn_cross_entropy_options_t options;
  } cases[] = {
      {"smoothing is 1.5, not in [0, 1]", {.smoothing = 1.5}},
      {"there is no reduction 9", {.reduction = (shoal_reduction_t)9}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    shoal_model_t *model = new_model(0);
    shoal_graph_t *g = shoal_model_graph(model, "f");
    shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(ROWS, CLASSES));
    shoal_value_t y = shoal_input(g, "y", SHOAL_I64, SHOAL_SHAPE(ROWS));
    shoal_output(g, "loss", shoal_nn_cross_entropy_with(g, x, y, &cases[i].options));
    assert_error(INVALID_ARGUMENT, cases[i].message, shoal_model_verify(model));
    shoal_model_free(model);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reductions),
      cmocka_unit_test(test_plain),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
