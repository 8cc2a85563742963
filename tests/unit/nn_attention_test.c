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

// One token after the other with a cache sees what the whole text sees, also through a window, with
// shared keys and turned by position; heads and scores have the size that is asked for.
static void test_cache(void **state) {
  (void)state;
  static const shoal_nn_attention_options_t cases[] = {{0},
                                                       {.window = 2},
                                                       {.window = 1},
                                                       {.key_heads = 2, .rotary = true},
                                                       {.head_size = 3, .scale = 2}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    shoal_nn_attention_options_t options = cases[i];
    shoal_model_t *model = new_model(0);
    shoal_graph_t *whole = shoal_model_graph(model, "whole"),
                  *one = shoal_model_graph(model, "one");
    shoal_value_t x = shoal_input(whole, "x", SHOAL_F64, SHOAL_SHAPE(B, T, C));
    shoal_output(whole, "y", shoal_nn_self_attention_with(whole, "attn", x, HEADS, &options));
    options.cache = T + 1;
    x = shoal_input(one, "x", SHOAL_F64, SHOAL_SHAPE(B, 1, C));
    options.positions = shoal_input(one, "at", SHOAL_I64, SHOAL_SHAPE(B));
    shoal_output(one, "y", shoal_nn_self_attention_with(one, "attn", x, HEADS, &options));
    assert_ok(shoal_model_verify(model));
    const shoal_type_t *type =
        &model->states.items[shoal_model_find_state(model, "attn/proj/weight")].type;
    assert_int_equal(type->shape.dims[0], options.head_size ? HEADS * options.head_size : C);
    double data[B][T][C], token[B][C];
    for (int k = 0; k < COUNT; ++k) (&data[0][0][0])[k] = 30 * sin(k * k);
    shoal_interpreter_t *in;
    shoal_tensor_t y;
    assert_ok(shoal_interpreter_create(model, NULL, &in));
    assert_ok(shoal_interpreter_run(in, "init"));
    assert_ok(shoal_interpreter_feed(in, "x", data, sizeof data));
    assert_ok(shoal_interpreter_run(in, "whole"));
    assert_ok(shoal_interpreter_output(in, "y", &y));
    double all[B][T][C];
    for (int k = 0; k < COUNT; ++k) (&all[0][0][0])[k] = element(y, k);
    for (int64_t t = 0; t < T; ++t) {
      const int64_t at[B] = {t, t};
      for (int b = 0; b < B; ++b) memcpy(token[b], data[b][t], sizeof token[b]);
      assert_ok(shoal_interpreter_feed(in, "x", token, sizeof token));
      assert_ok(shoal_interpreter_feed(in, "at", at, sizeof at));
      assert_ok(shoal_interpreter_run(in, "one"));
      assert_ok(shoal_interpreter_output(in, "y", &y));
      for (int b = 0; b < B; ++b) {
        for (int c = 0; c < C; ++c) assert_true(fabs(element(y, b * C + c) - all[b][t][c]) < 1e-12);
      }
    }
    shoal_interpreter_free(in);
    shoal_model_free(model);
  }
}

static void test_cache_refusals(void **state) {
  (void)state;
  static const struct {
    shoal_nn_attention_options_t options;
    bool placed;
    const char *message;
  } cases[] = {
      {{.cache = T - 1}, false, "x has 5 tokens: with positions it is one, else at most 4"},
      {{.cache = T}, true, "x has 5 tokens: with positions it is one"},
      {{.cache = T, .sees_ahead = true}, false, "only causal self-attention has a cache"}};
  for (int i = 0; i < 3; ++i) {
    shoal_nn_attention_options_t options = cases[i].options;
    shoal_model_t *model = new_model(0);
    shoal_graph_t *g = shoal_model_graph(model, "f");
    shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(B, T, C));
    if (cases[i].placed) options.positions = shoal_input(g, "at", SHOAL_I32, SHOAL_SHAPE(B));
    shoal_nn_self_attention_with(g, "attn", x, HEADS, &options);
    assert_error(INVALID_ARGUMENT, cases[i].message, shoal_model_status(model));
    shoal_model_free(model);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_options),
      cmocka_unit_test(test_states),
      cmocka_unit_test(test_cache),
      cmocka_unit_test(test_cache_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
