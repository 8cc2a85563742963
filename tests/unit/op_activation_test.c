// Activations far from 0, where the examples of records do not go: values against formulas written
// out, slopes against differences of the values, what happens at bends, and infinities.
#include "op_support.h"

typedef double (*curve_fn_t)(double x, const double *p);

static double ramp(double x) {
  return log(1 + exp(x));
}
static double silu(double x, const double *p) {
  (void)p;
  return x / (1 + exp(-x));
}
static double gelu_erf(double x, const double *p) {
  (void)p;
  return x * 0.5 * erfc(-x / sqrt(2));
}
static double elu(double x, const double *p) {
  return fmax(x, 0) + fmin(0, p[0] * (exp(x) - 1));
}
static double celu(double x, const double *p) {
  return fmax(x, 0) + fmin(0, p[0] * (exp(x / p[0]) - 1));
}
static double selu(double x, const double *p) {
  (void)p;
  return 1.0507009873554805 * (fmax(x, 0) + fmin(0, 1.6732632423543772 * (exp(x) - 1)));
}
static double leaky_relu(double x, const double *p) {
  return fmax(x, 0) + p[0] * fmin(x, 0);
}
static double softplus(double x, const double *p) {
  return p[0] * x > p[1] ? x : ramp(p[0] * x) / p[0];
}
static double log_sigmoid(double x, const double *p) {
  (void)p;
  return log(1 / (1 + exp(-x)));
}
static double mish(double x, const double *p) {
  (void)p;
  return x * tanh(ramp(x));
}
static double hard_sigmoid(double x, const double *p) {
  (void)p;
  return fmin(fmax(x + 3, 0), 6) / 6;
}
static double hard_swish(double x, const double *p) {
  return x * hard_sigmoid(x, p);
}
static double softsign(double x, const double *p) {
  (void)p;
  return x / (1 + fabs(x));
}

static const struct {
  const char *name;
  curve_fn_t curve;
  double params[2];
  int32_t attr_count;
  const char *attrs[2];
} CURVES[] = {
    {"silu", silu, {0}, 0, {NULL}},
    {"gelu_erf", gelu_erf, {0}, 0, {NULL}},
    {"elu", elu, {1}, 0, {NULL}},
    {"elu", elu, {0.3}, 1, {"alpha"}},
    {"celu", celu, {2.5}, 1, {"alpha"}},
    {"selu", selu, {0}, 0, {NULL}},
    {"leaky_relu", leaky_relu, {0.01}, 0, {NULL}},
    {"leaky_relu", leaky_relu, {0.3}, 1, {"slope"}},
    {"softplus", softplus, {1, 20}, 0, {NULL}},
    {"softplus", softplus, {2, 3}, 2, {"beta", "threshold"}},
    {"log_sigmoid", log_sigmoid, {0}, 0, {NULL}},
    {"mish", mish, {0}, 0, {NULL}},
    {"hard_sigmoid", hard_sigmoid, {0}, 0, {NULL}},
    {"hard_swish", hard_swish, {0}, 0, {NULL}},
    {"softsign", softsign, {0}, 0, {NULL}},
};
enum { CURVE_COUNT = sizeof CURVES / sizeof *CURVES, POINTS = 120 };

static double point(int64_t i) {
  return 0.173 * (double)(i - POINTS / 2) + 0.011;  // -10 to 10, no bend among them
}

static shoal_tensor_t run(bench_t *b, int k, bool gradient, const shoal_tensor_t *in) {
  char name[64];
  shoal_attr_t attrs[2];
  shoal_tensor_t out[1];
  for (int32_t a = 0; a < CURVES[k].attr_count; ++a)
    attrs[a] = shoal_attr_real(CURVES[k].attrs[a], CURVES[k].params[a]);
  snprintf(name, sizeof name, "shoal.%s%s", CURVES[k].name, gradient ? "_grad" : "");
  assert_ok(run_named(b, name, gradient ? 2 : 1, in, CURVES[k].attr_count, attrs, out, NULL));
  return out[0];
}

static void curves(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  shoal_tensor_t in[2] = {new_tensor(&b, SHOAL_F64, SHOAL_SHAPE(POINTS), 0),
                          new_tensor(&b, SHOAL_F64, SHOAL_SHAPE(POINTS), 0)};
  double *x = in[0].data, *dy = in[1].data;
  for (int64_t i = 0; i < POINTS; ++i) x[i] = point(i), dy[i] = 1 + 0.1 * (double)(i % 7);
  for (int k = 0; k < CURVE_COUNT; ++k) {
    const curve_fn_t curve = CURVES[k].curve;
    const double *p = CURVES[k].params, h = 1e-5;
    shoal_tensor_t value = run(&b, k, false, in), slope = run(&b, k, true, in);
    for (int64_t i = 0; i < POINTS; ++i) {
      check_near(at(&value, i), curve(x[i], p), 1e-13, CURVES[k].name, i);
      const double difference = (curve(x[i] + h, p) - curve(x[i] - h, p)) / (2 * h);
      check_near(at(&slope, i), dy[i] * difference, 1e-8, CURVES[k].name, i);
    }
  }
  bench_deinit(&b);
}

// PyTorch's choice where the slope has a step.
static void bends(void **state) {
  (void)state;
  static const struct {
    const char *op;
    double x, slope;
  } steps[] = {{"elu", 0, 1},           {"selu", 0, 1.7580993408473766}, {"leaky_relu", 0, 0.01},
               {"hard_sigmoid", -3, 0}, {"hard_sigmoid", 3, 0},          {"hard_swish", -3, 0},
               {"hard_swish", 3, 1}};
  bench_t b;
  bench_init(&b);
  for (size_t i = 0; i < sizeof steps / sizeof *steps; ++i) {
    shoal_tensor_t in[2] = {new_tensor(&b, SHOAL_F64, SHOAL_SCALAR, 0),
                            new_tensor(&b, SHOAL_F64, SHOAL_SCALAR, 0)};
    *(double *)in[0].data = steps[i].x, *(double *)in[1].data = 1;
    for (int k = 0; k < CURVE_COUNT; ++k) {
      if (strcmp(CURVES[k].name, steps[i].op) != 0 || CURVES[k].attr_count) continue;
      shoal_tensor_t slope = run(&b, k, true, in);
      check_near(at(&slope, 0), steps[i].slope, 1e-15, steps[i].op, (int64_t)i);
    }
  }
  bench_deinit(&b);
}

// NaN stays NaN everywhere, and nothing else becomes NaN by overflow.
static void extremes(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  for (int32_t d = 0; d < 2; ++d) {
    shoal_tensor_t in[2] = {new_tensor(&b, d ? SHOAL_F32 : SHOAL_F64, SHOAL_SHAPE(3), 0),
                            new_tensor(&b, d ? SHOAL_F32 : SHOAL_F64, SHOAL_SHAPE(3), 0)};
    static const double x[] = {NAN, 1e4, -1e4};
    for (int64_t i = 0; i < 3; ++i) {
      shoal_dtype_store(in[0].dtype, in[0].data, i, x[i]);
      shoal_dtype_store(in[1].dtype, in[1].data, i, 1);
    }
    for (int k = 0; k < CURVE_COUNT; ++k) {
      shoal_tensor_t value = run(&b, k, false, in), slope = run(&b, k, true, in);
      if (!isnan(at(&value, 0))) fail_msg("%s loses NaN", CURVES[k].name);
      for (int64_t i = 1; i < 3; ++i) {
        if (!isfinite(at(&value, i)) || !isfinite(at(&slope, i)))
          fail_msg("%s(%g) overflows", CURVES[k].name, x[i]);
      }
    }
  }
  bench_deinit(&b);
}

static void refused(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  shoal_tensor_t x = random_tensor(&b, SHOAL_F32, SHOAL_SHAPE(3), 2, 1), out[1];
  assert_error(
      INVALID_ARGUMENT, "alpha is 0: it must be above 0",
      run_named(&b, "shoal.celu", TENSORS(x), ATTRS(shoal_attr_real("alpha", 0)), out, NULL));
  assert_error(
      INVALID_ARGUMENT, "beta is -1",
      run_named(&b, "shoal.softplus", TENSORS(x), ATTRS(shoal_attr_real("beta", -1)), out, NULL));
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(curves),
      cmocka_unit_test(bends),
      cmocka_unit_test(extremes),
      cmocka_unit_test(refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
