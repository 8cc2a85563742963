// Norms with states: running statistics follow those of the steps, evaluation uses them and leaves
// them as they are; RMS and group norm of the first step; what is refused.
#include <math.h>

#include "graph_support.h"
#include "shoal/nn.h"
#include "shoal/ops.h"

enum { N = 3, C = 2, S = 4, COUNT = N * C * S };

static void feed(shoal_interpreter_t *in, int step, double *data) {
  for (int i = 0; i < COUNT; ++i) data[i] = sin(i * i + 7 * step);
  assert_ok(shoal_interpreter_feed(in, "x", data, COUNT * sizeof(double)));
}

static void state_near(const shoal_model_t *model, shoal_interpreter_t *in, const char *name,
                       const double *want) {
  shoal_tensor_t tensor;
  const int32_t state = shoal_model_find_state(model, name);
  assert_true(state >= 0);
  assert_ok(shoal_interpreter_state(in, state, &tensor));
  for (int c = 0; c < C; ++c) assert_true(fabs(element(tensor, c) - want[c]) < 1e-13);
}

static void test_running_statistics(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *train = shoal_model_graph(model, "train"),
                *eval = shoal_model_graph(model, "eval");
  shoal_value_t x = shoal_input(train, "x", SHOAL_F64, SHOAL_SHAPE(N, C, S));
  shoal_output(train, "y", shoal_nn_batch_norm(train, "bn", x, NULL));
  x = shoal_input(eval, "x", SHOAL_F64, SHOAL_SHAPE(N, C, S));
  const shoal_nn_norm_options_t evaluate = {.eval = true};
  shoal_output(eval, "y", shoal_nn_batch_norm(eval, "bn", x, &evaluate));
  assert_ok(shoal_model_verify(model));
  shoal_interpreter_t *in;
  assert_ok(shoal_interpreter_create(model, NULL, &in));
  assert_ok(shoal_interpreter_run(in, "init"));
  double mean[C] = {0}, variance[C] = {1, 1}, data[COUNT];
  for (int step = 0; step < 3; ++step) {
    feed(in, step, data);
    assert_ok(shoal_interpreter_run(in, "train"));
    for (int c = 0; c < C; ++c) {
      double sum = 0, squares = 0;
      for (int i = 0; i < COUNT; ++i) sum += i / S % C == c ? data[i] / (N * S) : 0;
      for (int i = 0; i < COUNT; ++i) squares += i / S % C == c ? pow(data[i] - sum, 2) : 0;
      mean[c] += 0.1 * (sum - mean[c]);
      variance[c] += 0.1 * (squares / (N * S - 1) - variance[c]);
    }
    state_near(model, in, "bn/running_mean", mean);
    state_near(model, in, "bn/running_variance", variance);
  }
  shoal_tensor_t y;
  feed(in, 9, data);
  assert_ok(shoal_interpreter_run(in, "eval"));
  assert_ok(shoal_interpreter_output(in, "y", &y));
  for (int i = 0; i < COUNT; ++i) {
    const int c = i / S % C;
    assert_true(fabs(element(y, i) - (data[i] - mean[c]) / sqrt(variance[c] + 1e-5)) < 1e-13);
  }
  state_near(model, in, "bn/running_mean", mean);
  shoal_interpreter_free(in);
  shoal_model_free(model);
}

// A layer that a graph uses twice: running statistics follow the first use.
static void test_used_twice(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  const shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(N, C, S));
  const shoal_nn_norm_options_t keep = {.keep_running = true};
  shoal_output(g, "first", shoal_nn_batch_norm(g, "bn", x, NULL));
  shoal_output(g, "second", shoal_nn_batch_norm(g, "bn", shoal_affine(g, x, 2, 5), &keep));
  assert_ok(shoal_model_verify(model));
  shoal_interpreter_t *in;
  assert_ok(shoal_interpreter_create(model, NULL, &in));
  assert_ok(shoal_interpreter_run(in, "init"));
  double mean[C] = {0}, data[COUNT];
  feed(in, 1, data);
  assert_ok(shoal_interpreter_run(in, "train"));
  for (int i = 0; i < COUNT; ++i) mean[i / S % C] += 0.1 * data[i] / (N * S);
  state_near(model, in, "bn/running_mean", mean);
  shoal_tensor_t first, second;
  assert_ok(shoal_interpreter_output(in, "first", &first));
  assert_ok(shoal_interpreter_output(in, "second", &second));
  for (int i = 0; i < COUNT; ++i)  // but for eps
    assert_true(fabs(element(first, i) - element(second, i)) < 1e-3);
  shoal_interpreter_free(in);
  shoal_model_free(model);
}

static void test_others(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "f");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(N, C, S));
  shoal_output(g, "rms", shoal_nn_rms_norm(g, "rms", x));
  shoal_output(g, "instance", shoal_nn_group_norm(g, "in", x, 0, NULL));
  const shoal_nn_layer_norm_options_t all = {.dims = 2, .no_gamma = true};
  shoal_output(g, "layer", shoal_nn_layer_norm_with(g, "ln", x, &all));
  assert_true(shoal_model_find_state(model, "ln/gamma") < 0);
  assert_ok(shoal_model_verify(model));
  shoal_interpreter_t *in;
  shoal_tensor_t rms, instance, layer;
  double data[COUNT];
  assert_ok(shoal_interpreter_create(model, NULL, &in));
  assert_ok(shoal_interpreter_run(in, "init"));
  feed(in, 1, data);
  assert_ok(shoal_interpreter_run(in, "f"));
  assert_ok(shoal_interpreter_output(in, "rms", &rms));
  assert_ok(shoal_interpreter_output(in, "instance", &instance));
  assert_ok(shoal_interpreter_output(in, "layer", &layer));
  for (int r = 0; r < N; ++r) {  // of all channels together
    double sum = 0, spread = 0;
    for (int i = r * C * S; i < (r + 1) * C * S; ++i) sum += data[i] / (C * S);
    for (int i = r * C * S; i < (r + 1) * C * S; ++i) spread += pow(data[i] - sum, 2) / (C * S);
    for (int i = r * C * S; i < (r + 1) * C * S; ++i)
      assert_true(fabs(element(layer, i) - (data[i] - sum) / sqrt(spread + 1e-5)) < 1e-13);
  }
  for (int r = 0; r < N * C; ++r) {
    double sum = 0, squares = 0, spread = 0;
    for (int i = 0; i < S; ++i) sum += data[r * S + i] / S;
    for (int i = 0; i < S; ++i) squares += pow(data[r * S + i], 2) / S;
    for (int i = 0; i < S; ++i) spread += pow(data[r * S + i] - sum, 2) / S;
    for (int i = r * S; i < r * S + S; ++i) {
      assert_true(fabs(element(rms, i) - data[i] / sqrt(squares + 1e-5)) < 1e-13);
      assert_true(fabs(element(instance, i) - (data[i] - sum) / sqrt(spread + 1e-5)) < 1e-13);
    }
  }
  shoal_interpreter_free(in);
  shoal_model_free(model);
}

static void test_refused(void **state) {
  (void)state;
  const shoal_nn_layer_norm_options_t three = {.dims = 3};
  shoal_model_t *model = new_model(0);
  shoal_graph_t *layer = shoal_model_graph(model, "f");
  shoal_output(layer, "y",
               shoal_nn_layer_norm_with(
                   layer, "ln", shoal_input(layer, "x", SHOAL_F64, SHOAL_SHAPE(N, C)), &three));
  assert_error(INVALID_ARGUMENT, "fewer dims than are normed over", shoal_model_verify(model));
  shoal_model_free(model);
  model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "f");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(N));
  shoal_output(g, "y", shoal_nn_batch_norm(g, "bn", x, NULL));
  assert_error(INVALID_ARGUMENT, "batch norm: x must be [N, C, ..]", shoal_model_verify(model));
  shoal_model_free(model);
  const shoal_nn_norm_options_t fast = {.momentum = 1.5};
  model = new_model(0);
  g = shoal_model_graph(model, "f");
  x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(N, C));
  shoal_output(g, "y", shoal_nn_batch_norm(g, "bn", x, &fast));
  assert_error(INVALID_ARGUMENT, "momentum is 1.5, not in [0, 1]", shoal_model_verify(model));
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_running_statistics),
      cmocka_unit_test(test_used_twice),
      cmocka_unit_test(test_others),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
