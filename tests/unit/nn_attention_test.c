// Self-attention with options: what makes no difference gives the same numbers, what does gives
// others; shapes of the states of grouped queries; what is refused.
#include <math.h>

#include "graph_support.h"
#include "shoal/nn.h"

enum { B = 2, T = 5, C = 8, HEADS = 4, COUNT = B * T * C };

// Runs one attention on the same input; `mask`: its value at every position, or -1 for none.
static void run(shoal_nn_attention_options_t options, int mask, double *out) {
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "f");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(B, T, C));
  shoal_value_t m = shoal_input(g, "m", SHOAL_BOOL, SHOAL_SHAPE(1, 1, 1, T));
  if (mask >= 0) options.mask = m;
  shoal_output(g, "y", shoal_nn_self_attention_with(g, "attn", x, HEADS, &options));
  assert_ok(shoal_model_verify(model));
  double data[COUNT];
  uint8_t seen[T];
  for (int i = 0; i < COUNT; ++i) data[i] = 30 * sin(i * i);
  for (int i = 0; i < T; ++i) seen[i] = mask != 0;
  shoal_interpreter_t *in;
  shoal_tensor_t y;
  assert_ok(shoal_interpreter_create(model, NULL, &in));
  assert_ok(shoal_interpreter_run(in, "init"));
  assert_ok(shoal_interpreter_feed(in, "x", data, sizeof data));
  assert_ok(shoal_interpreter_feed(in, "m", seen, sizeof seen));
  assert_ok(shoal_interpreter_run(in, "f"));
  assert_ok(shoal_interpreter_output(in, "y", &y));
  for (int64_t i = 0; i < COUNT; ++i) out[i] = element(y, i);
  shoal_interpreter_free(in);
  shoal_model_free(model);
}

// The largest difference.
static double apart(const double *a, const double *b) {
  double most = 0;
  for (int64_t i = 0; i < COUNT; ++i) most = fmax(most, fabs(a[i] - b[i]));
  return most;
}

static void test_options(void **state) {
  (void)state;
  double plain[COUNT], other[COUNT];
  run((shoal_nn_attention_options_t){0}, -1, plain);
  run((shoal_nn_attention_options_t){.key_heads = HEADS, .window = T}, 1, other);
  assert_true(apart(plain, other) < 1e-15);
  const shoal_nn_attention_options_t different[] = {
      {.sees_ahead = true}, {.window = 2}, {.dropout = 0.5}, {.key_heads = 2}};
  for (size_t i = 0; i < sizeof different / sizeof *different; ++i) {
    run(different[i], -1, other);
    assert_true(apart(plain, other) > 1e-6);
  }
  run((shoal_nn_attention_options_t){0}, 0, other);  // nothing is seen: the biases, which are 0
  for (int64_t i = 0; i < COUNT; ++i) assert_true(other[i] == 0);
}

static void test_states(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "f");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(B, T, C));
  shoal_nn_attention_options_t options = {.key_heads = 2, .no_bias = true};
  shoal_output(g, "y", shoal_nn_self_attention_with(g, "attn", x, HEADS, &options));
  assert_ok(shoal_model_verify(model));
  const int32_t weight = shoal_model_find_state(model, "attn/qkv/weight");
  assert_true(weight >= 0);
  assert_int_equal(model->states.items[weight].type.shape.dims[1], C + 2 * 2 * C / HEADS);
  assert_true(shoal_model_find_state(model, "attn/qkv/bias") < 0);
  shoal_model_free(model);
  model = new_model(0);
  g = shoal_model_graph(model, "f");
  x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(B, T, C));
  options.key_heads = 3;
  shoal_output(g, "y", shoal_nn_self_attention_with(g, "attn", x, HEADS, &options));
  assert_error(INVALID_ARGUMENT, "heads must be a multiple of key_heads",
               shoal_model_verify(model));
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_options),
      cmocka_unit_test(test_states),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
