// Losses of two tensors: values and reductions against formulas written out, at ends of ranges too;
// weights; and that a mean is the whole's.
#include <math.h>

#include "graph_support.h"
#include "shoal/nn.h"

enum { ROWS = 3, COLUMNS = 2, COUNT = ROWS * COLUMNS };

typedef shoal_value_t (*build_fn_t)(shoal_graph_t *graph, shoal_value_t x, shoal_value_t target,
                                    const shoal_loss_options_t *options, const char *file,
                                    int line);
typedef double (*loss_fn_t)(double x, double t);

static double mse(double x, double t) {
  return pow(x - t, 2);
}
static double l1(double x, double t) {
  return fabs(x - t);
}
static double huber(double x, double t) {
  const double d = fabs(x - t);
  return d <= 0.5 ? d * d / 2 : 0.5 * (d - 0.25);
}
static double smooth_l1(double x, double t) {
  const double d = fabs(x - t);
  return d < 0.5 ? d * d : d - 0.25;
}
static double bce(double x, double t) {
  return -t * fmax(log(x), -100) - (1 - t) * fmax(log(1 - x), -100);
}
static double bce_with_logits(double x, double t) {
  return log(1 + exp(x)) - t * x;
}
static double weighted_logits(double x, double t) {  // positive targets count 3 times
  return -3 * t * log(1 / (1 + exp(-x))) - (1 - t) * log(1 / (1 + exp(x)));
}
static double kl_div(double x, double t) {
  return t > 0 ? t * (log(t) - x) : 0;
}
static double kl_logs(double x, double t) {
  return exp(t) * (t - x);
}
static double poisson(double x, double t) {
  return exp(x) - t * x;
}
static double poisson_rates(double x, double t) {
  const double loss = x - t * log(x + 0.01);
  return t > 1 ? loss + t * log(t) - t + 0.5 * log(2 * acos(-1) * t) : loss;
}

static const double ANY_X[COUNT] = {-2, -0.3, 0, 0.25, 0.5, 3};
static const double ANY_T[COUNT] = {1, -0.3, 0.5, 0, -0.5, 2.5};
static const double PROBABILITY_X[COUNT] = {0, 1, 0.5, 0.25, 1e-60, 0.9};
static const double PROBABILITY_T[COUNT] = {1, 0, 0, 1, 0.5, 0.75};
static const double RATE_X[COUNT] = {0, 1, 2, 0.5, 4, 0.1};
static const double COUNT_T[COUNT] = {0, 1, 2, 3, 0.5, 7};

static const struct {
  const char *name;
  build_fn_t build;
  loss_fn_t loss;
  const double *x, *t;
  shoal_loss_options_t options;
  bool positive_weight;
} LOSSES[] = {
    {"mse", shoal_nn_mse_loss_at, mse, ANY_X, ANY_T, {0}, false},
    {"l1", shoal_nn_l1_loss_at, l1, ANY_X, ANY_T, {0}, false},
    {"huber", shoal_nn_huber_loss_at, huber, ANY_X, ANY_T, {.delta = 0.5}, false},
    {"smooth_l1", shoal_nn_smooth_l1_loss_at, smooth_l1, ANY_X, ANY_T, {.delta = 0.5}, false},
    {"bce", shoal_nn_bce_loss_at, bce, PROBABILITY_X, PROBABILITY_T, {0}, false},
    {"logits", shoal_nn_bce_with_logits_loss_at, bce_with_logits, ANY_X, PROBABILITY_T, {0}, false},
    {"weighted",
     shoal_nn_bce_with_logits_loss_at,
     weighted_logits,
     ANY_X,
     PROBABILITY_T,
     {0},
     true},
    {"kl", shoal_nn_kl_div_loss_at, kl_div, ANY_X, PROBABILITY_T, {0}, false},
    {"kl of logs", shoal_nn_kl_div_loss_at, kl_logs, ANY_X, ANY_T, {.log_target = true}, false},
    {"poisson", shoal_nn_poisson_nll_loss_at, poisson, ANY_X, COUNT_T, {0}, false},
    {"poisson of rates",
     shoal_nn_poisson_nll_loss_at,
     poisson_rates,
     RATE_X,
     COUNT_T,
     {.rates = true, .full = true, .eps = 0.01},
     false},
};

// Runs one loss; returns its elements in `out`.
static int64_t run(size_t k, shoal_reduction_t reduction, bool weighted, double *out) {
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "f");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(ROWS, COLUMNS));
  shoal_value_t t = shoal_input(g, "t", SHOAL_F64, SHOAL_SHAPE(ROWS, COLUMNS));
  shoal_value_t w = shoal_input(g, "w", SHOAL_F64, SHOAL_SHAPE(COLUMNS));
  shoal_value_t p = shoal_input(g, "p", SHOAL_F64, SHOAL_SHAPE(COLUMNS));
  shoal_loss_options_t options = LOSSES[k].options;
  options.reduction = reduction;
  if (weighted) options.weight = w;
  if (LOSSES[k].positive_weight) options.positive_weight = p;
  shoal_output(g, "loss", LOSSES[k].build(g, x, t, &options, __FILE__, __LINE__));
  assert_ok(shoal_model_verify(model));
  shoal_interpreter_t *in;
  shoal_tensor_t loss;
  assert_ok(shoal_interpreter_create(model, NULL, &in));
  assert_ok(shoal_interpreter_feed(in, "x", LOSSES[k].x, COUNT * sizeof(double)));
  assert_ok(shoal_interpreter_feed(in, "t", LOSSES[k].t, COUNT * sizeof(double)));
  assert_ok(shoal_interpreter_feed(in, "w", (double[]){2, 0.5}, COLUMNS * sizeof(double)));
  assert_ok(shoal_interpreter_feed(in, "p", (double[]){3, 3}, COLUMNS * sizeof(double)));
  assert_ok(shoal_interpreter_run(in, "f"));
  assert_ok(shoal_interpreter_output(in, "loss", &loss));
  const int64_t count = shoal_shape_count(&loss.shape);
  for (int64_t i = 0; i < count; ++i) out[i] = element(loss, i);
  shoal_interpreter_free(in);
  shoal_model_free(model);
  return count;
}

static void check_close(double value, double expected, const char *what) {
  if (!(fabs(value - expected) <= 1e-12 * fmax(1, fabs(expected))))
    fail_msg("%s is %.15g, expected %.15g", what, value, expected);
}

static void losses(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof LOSSES / sizeof *LOSSES; ++k) {
    double out[COUNT], sum = 0, weighted = 0;
    assert_int_equal(run(k, SHOAL_REDUCTION_NONE, false, out), COUNT);
    for (int i = 0; i < COUNT; ++i) {
      const double loss = LOSSES[k].loss(LOSSES[k].x[i], LOSSES[k].t[i]);
      check_close(out[i], loss, LOSSES[k].name);
      sum += loss;
      weighted += loss * (i % COLUMNS ? 0.5 : 2);
    }
    assert_int_equal(run(k, SHOAL_REDUCTION_SUM, false, out), 1);
    check_close(out[0], sum, LOSSES[k].name);
    run(k, SHOAL_REDUCTION_MEAN, false, out);
    check_close(out[0], sum / COUNT, LOSSES[k].name);
    run(k, SHOAL_REDUCTION_BATCH, false, out);
    check_close(out[0], sum / ROWS, LOSSES[k].name);
    run(k, SHOAL_REDUCTION_SUM, true, out);
    check_close(out[0], weighted, LOSSES[k].name);
  }
}

// Probabilities of exactly 0 and 1 are what a saturated sigmoid gives: gradients stay finite.
static void saturated_probabilities(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "f");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(2)), gradient;
  shoal_value_t t = shoal_input(g, "t", SHOAL_F64, SHOAL_SHAPE(2));
  shoal_value_t loss = shoal_nn_bce_loss(g, x, t, &(shoal_loss_options_t){SHOAL_REDUCTION_SUM});
  shoal_gradients(g, loss, 1, &x, &gradient);
  shoal_interpreter_t *in;
  shoal_tensor_t d;
  assert_ok(shoal_model_verify(model));
  assert_ok(shoal_interpreter_create(model, NULL, &in));
  assert_ok(shoal_interpreter_feed(in, "x", (double[]){0, 1}, 16));
  assert_ok(shoal_interpreter_feed(in, "t", (double[]){1, 1}, 16));
  assert_ok(shoal_interpreter_run(in, "f"));
  assert_ok(shoal_interpreter_value(in, gradient.id, &d));
  check_close(element(d, 0), -1e12, "gradient at 0");
  check_close(element(d, 1), 0, "gradient at 1");
  shoal_interpreter_free(in);
  shoal_model_free(model);
}

// Options may be left out; operands that do not fit are the caller's error, with his line.
static void refused(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "f");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(3));
  shoal_value_t t = shoal_input(g, "t", SHOAL_F32, SHOAL_SHAPE(4));
  shoal_value_t fine = shoal_nn_mse_loss(g, x, x, NULL);
  assert_int_equal(shoal_value_type(fine).shape.rank, 0);
  (void)shoal_nn_l1_loss(g, x, t, NULL);
  assert_error(INVALID_ARGUMENT, "target must have shape [3]", shoal_model_status(model));
  shoal_model_free(model);
  const shoal_loss_options_t options = {.reduction = (shoal_reduction_t)9};
  model = new_model(0);
  g = shoal_model_graph(model, "f");
  x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(3));
  (void)shoal_nn_mse_loss(g, x, x, &options);
  assert_error(INVALID_ARGUMENT, "there is no reduction 9", shoal_model_status(model));
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(losses),
      cmocka_unit_test(saturated_probabilities),
      cmocka_unit_test(refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
