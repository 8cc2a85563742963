// Builders over several ops or with states of their own, against the ops that they stand for, read
// from the same states: values, and gradients of the states. Activations by name, parts, linear
// layers with options, bags of embeddings, rotary and cross-attention; what is refused.
#include <math.h>
#include <string.h>

#include "graph_support.h"
#include "shoal/nn.h"
#include "shoal/ops.h"

enum { B = 2, T = 5, S = 3, C = 8, M = 6, HEADS = 4, KEYS = 2, D = C / HEADS };

// A state that a builder has made, by its full name.
static shoal_value_t known(shoal_graph_t *g, const char *name, shoal_shape_t shape) {
  char full[64];
  snprintf(full, sizeof full, "/%s", name);
  return shoal_state(g, full, SHOAL_F64, shape, NULL);
}

static double output_at(shoal_interpreter_t *in, const char *name, int64_t i) {
  shoal_tensor_t tensor;
  assert_ok(shoal_interpreter_output(in, name, &tensor));
  return element(tensor, i);
}

static void outputs_equal(shoal_interpreter_t *in, const char *a, const char *b, bool not_zero) {
  shoal_tensor_t x, y;
  double most = 0;
  assert_ok(shoal_interpreter_output(in, a, &x));
  assert_ok(shoal_interpreter_output(in, b, &y));
  assert_true(shoal_shape_equal(&x.shape, &y.shape));
  for (int64_t i = 0; i < shoal_shape_count(&x.shape); ++i) {
    if (!(fabs(element(x, i) - element(y, i)) < 1e-12)) {
      fail_msg("%s[%lld] is %g, %s has %g", a, (long long)i, element(x, i), b, element(y, i));
    }
    most = fmax(most, fabs(element(x, i)));
  }
  if (not_zero) assert_true(most > 1e-6);
}

// Outputs y and expected; for each state the gradients of the sums of their squares.
static void compare(shoal_graph_t *g, shoal_value_t y, shoal_value_t expected, int32_t count,
                    const shoal_value_t *states) {
  const shoal_value_t both[] = {y, expected};
  shoal_output(g, "y", y);
  shoal_output(g, "expected", expected);
  for (int32_t k = 0; k < 2; ++k) {
    shoal_shape_t all = {.rank = shoal_value_type(y).shape.rank};
    for (int32_t d = 0; d < all.rank; ++d) all.dims[d] = d;
    shoal_value_t grads[8];
    shoal_gradients(g, shoal_reduce_sum(g, shoal_square(g, both[k]), all), count, states, grads);
    for (int32_t i = 0; i < count; ++i) {
      char name[16];
      snprintf(name, sizeof name, "%s%d", k ? "want" : "grad", i);
      shoal_output(g, name, grads[i]);
    }
  }
  assert_ok(shoal_model_verify(g->model));
}

static void fill(shoal_interpreter_t *in, const char *name, int64_t count, double scale) {
  double data[256];
  for (int64_t i = 0; i < count; ++i) data[i] = scale * sin((double)(i * i) + 1);
  assert_ok(shoal_interpreter_feed(in, name, data, (size_t)count * sizeof *data));
}

static void check_equal(shoal_interpreter_t *in, int32_t count) {
  outputs_equal(in, "y", "expected", true);
  for (int32_t i = 0; i < count; ++i) {
    char grad[16], want[16];
    snprintf(grad, sizeof grad, "grad%d", i);
    snprintf(want, sizeof want, "want%d", i);
    outputs_equal(in, grad, want, true);
  }
}

// ---- attention ----------------------------------------------------------------------------------

// [B, L, heads D] -> [B, heads, L, D]
static shoal_value_t split(shoal_graph_t *g, shoal_value_t x, int64_t length, int64_t heads) {
  return shoal_transpose(g, shoal_reshape(g, x, SHOAL_SHAPE(B, length, heads, D)),
                         SHOAL_SHAPE(0, 2, 1, 3));
}

static void test_cross_attention(void **state) {
  (void)state;
  shoal_model_t *model = new_model(1);
  shoal_graph_t *g = shoal_model_graph(model, "f");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(B, T, C));
  shoal_value_t memory = shoal_input(g, "memory", SHOAL_F64, SHOAL_SHAPE(B, S, M));
  const shoal_nn_attention_options_t options = {
      .key_heads = KEYS, .rotary = true, .rotary_base = 100, .no_bias = true};
  shoal_value_t y = shoal_nn_cross_attention(g, "attn", x, memory, HEADS, &options);
  shoal_value_t w[] = {known(g, "attn/q/weight", SHOAL_SHAPE(C, C)),
                       known(g, "attn/kv/weight", SHOAL_SHAPE(M, 2 * KEYS * D)),
                       known(g, "attn/proj/weight", SHOAL_SHAPE(C, C))};
  shoal_value_t q = split(g, shoal_matmul(g, x, w[0]), T, HEADS);
  shoal_value_t kv = shoal_matmul(g, memory, w[1]), parts[2];
  shoal_nn_split(g, kv, -1, 2, NULL, parts);
  const shoal_rotary_options_t turn = {.base = 100};
  q = shoal_rotary_with(g, q, &turn);
  shoal_value_t k = shoal_rotary_with(g, split(g, parts[0], S, KEYS), &turn), out;
  const shoal_attention_options_t groups = {.groups = HEADS / KEYS};
  shoal_attention_with(g, q, k, split(g, parts[1], S, KEYS), false, &groups, &out, NULL);
  out = shoal_reshape(g, shoal_transpose(g, out, SHOAL_SHAPE(0, 2, 1, 3)), SHOAL_SHAPE(B, T, C));
  compare(g, y, shoal_matmul(g, out, w[2]), 3, w);
  shoal_interpreter_t *in;
  assert_ok(shoal_interpreter_create(model, NULL, &in));
  assert_ok(shoal_interpreter_run(in, "init"));
  fill(in, "x", B * T * C, 20);
  fill(in, "memory", B * S * M, 20);
  assert_ok(shoal_interpreter_run(in, "f"));
  check_equal(in, 3);
  shoal_interpreter_free(in);
  shoal_model_free(model);
}

// What turns, turns in self-attention too, and positions then matter though nothing is masked.
static void test_rotary(void **state) {
  (void)state;
  shoal_model_t *model = new_model(1);
  shoal_graph_t *g = shoal_model_graph(model, "f");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(B, T, C));
  const shoal_nn_attention_options_t turned = {.rotary = true, .sees_ahead = true},
                                     plain = {.sees_ahead = true};
  shoal_output(g, "turned", shoal_nn_self_attention_with(g, "attn", x, HEADS, &turned));
  shoal_output(g, "plain", shoal_nn_self_attention_with(g, "attn", x, HEADS, &plain));
  assert_ok(shoal_model_verify(model));
  shoal_interpreter_t *in;
  assert_ok(shoal_interpreter_create(model, NULL, &in));
  assert_ok(shoal_interpreter_run(in, "init"));
  fill(in, "x", B * T * C, 30);
  assert_ok(shoal_interpreter_run(in, "f"));
  double apart = 0;
  for (int64_t i = 0; i < B * T * C; ++i) {
    apart = fmax(apart, fabs(output_at(in, "turned", i) - output_at(in, "plain", i)));
  }
  assert_true(apart > 1e-6);
  shoal_interpreter_free(in);
  shoal_model_free(model);
}

// ---- embedding bags, linear layers --------------------------------------------------------------

static void test_embedding_bag(void **state) {
  (void)state;
  enum { ROWS = 5, WIDTH = 3, IDS = 7, BAGS = 3 };
  static const int64_t ids[IDS] = {0, 4, 4, 1, 2, 0, 3}, offsets[BAGS] = {0, 2, 5};
  shoal_model_t *model = new_model(1);
  shoal_graph_t *g = shoal_model_graph(model, "f");
  shoal_value_t rows = shoal_input(g, "ids", SHOAL_I64, SHOAL_SHAPE(IDS));
  shoal_value_t starts = shoal_input(g, "offsets", SHOAL_I64, SHOAL_SHAPE(BAGS));
  shoal_value_t factors = shoal_input(g, "factors", SHOAL_F64, SHOAL_SHAPE(IDS));
  const shoal_nn_embedding_bag_options_t weighted = {.weights = factors};
  shoal_value_t mean = shoal_nn_embedding_bag(g, "bag", rows, starts, ROWS, WIDTH, SHOAL_F64, NULL);
  shoal_value_t sum =
      shoal_nn_embedding_bag(g, "bag", rows, starts, ROWS, WIDTH, SHOAL_F64, &weighted);
  shoal_value_t table = known(g, "bag/table", SHOAL_SHAPE(ROWS, WIDTH));
  // by hand: rows, times their factors, added up by bag
  shoal_value_t bags = shoal_bag_index(g, starts, IDS);
  shoal_value_t each = shoal_embedding(g, table, rows);
  shoal_value_t sizes =
      shoal_segment_sum(g, shoal_full(g, SHOAL_SHAPE(IDS, 1), 1, SHOAL_F64), bags, BAGS);
  shoal_value_t means = shoal_div(g, shoal_segment_sum(g, each, bags, BAGS), sizes);
  shoal_value_t scaled = shoal_mul(g, each, shoal_reshape(g, factors, SHOAL_SHAPE(IDS, 1)));
  shoal_value_t sums = shoal_segment_sum(g, scaled, bags, BAGS);
  shoal_value_t both[2] = {mean, sum}, wants[2] = {means, sums};
  compare(g, shoal_concat(g, 2, both, 0), shoal_concat(g, 2, wants, 0), 1, &table);
  shoal_interpreter_t *in;
  assert_ok(shoal_interpreter_create(model, NULL, &in));
  assert_ok(shoal_interpreter_run(in, "init"));
  assert_ok(shoal_interpreter_feed(in, "ids", ids, sizeof ids));
  assert_ok(shoal_interpreter_feed(in, "offsets", offsets, sizeof offsets));
  fill(in, "factors", IDS, 2);
  assert_ok(shoal_interpreter_run(in, "f"));
  check_equal(in, 1);
  shoal_interpreter_free(in);
  shoal_model_free(model);
}

static void test_linear(void **state) {
  (void)state;
  shoal_model_t *model = new_model(1);
  shoal_graph_t *g = shoal_model_graph(model, "f");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(B, C));
  const shoal_nn_linear_options_t options = {.no_bias = true, .activation = "silu"};
  shoal_value_t y = shoal_nn_linear_with(g, "fc", x, M, &options);
  shoal_value_t w = known(g, "fc/weight", SHOAL_SHAPE(C, M));
  assert_true(shoal_model_find_state(model, "fc/bias") < 0);
  compare(g, y, shoal_silu(g, shoal_matmul(g, x, w)), 1, &w);
  shoal_interpreter_t *in;
  assert_ok(shoal_interpreter_create(model, NULL, &in));
  assert_ok(shoal_interpreter_run(in, "init"));
  fill(in, "x", B * C, 1);
  assert_ok(shoal_interpreter_run(in, "f"));
  check_equal(in, 1);
  shoal_interpreter_free(in);
  shoal_model_free(model);
}

// ---- without states -----------------------------------------------------------------------------

static void test_activations(void **state) {
  (void)state;
  static const char *const names[] = {"relu",       "gelu",         "gelu_erf",   "silu",
                                      "tanh",       "sigmoid",      "leaky_relu", "elu",
                                      "celu",       "selu",         "softplus",   "mish",
                                      "hard_swish", "hard_sigmoid", "softsign",   "log_sigmoid"};
  shoal_model_t *model = new_model(1);
  shoal_graph_t *g = shoal_model_graph(model, "f");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(C));
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    char op[32];
    snprintf(op, sizeof op, "shoal.%s", names[i]);
    const shoal_value_t y = shoal_nn_activation(g, names[i], x);
    assert_true(shoal_value_ok(y));
    assert_string_equal(g->nodes.items[g->nodes.count - 1].op->name, op);
  }
  const int32_t nodes = g->nodes.count;
  assert_int_equal(shoal_nn_activation(g, "none", x).id, x.id);
  assert_int_equal(shoal_nn_activation(g, NULL, x).id, x.id);
  assert_int_equal(g->nodes.count, nodes);
  shoal_model_free(model);
}

static void test_split(void **state) {
  (void)state;
  static const int64_t sizes[] = {3, 0, 5};
  shoal_model_t *model = new_model(1);
  shoal_graph_t *g = shoal_model_graph(model, "f");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(B, C)), halves[2], parts[3];
  shoal_nn_split(g, x, -1, 2, NULL, halves);
  shoal_nn_split(g, x, 1, 3, sizes, parts);
  shoal_output(g, "joined", shoal_concat(g, 2, halves, 1));
  shoal_output(g, "again", shoal_concat(g, 3, parts, 1));
  shoal_output(g, "x", shoal_affine(g, x, 1, 0));
  shoal_output(g, "last", parts[2]);
  assert_ok(shoal_model_verify(model));
  shoal_interpreter_t *in;
  assert_ok(shoal_interpreter_create(model, NULL, &in));
  fill(in, "x", B * C, 1);
  assert_ok(shoal_interpreter_run(in, "f"));
  outputs_equal(in, "joined", "x", true);
  outputs_equal(in, "again", "x", true);
  for (int64_t i = 0; i < 5; ++i)
    assert_true(output_at(in, "last", i) == sin((3.0 + i) * (3 + i) + 1));
  shoal_interpreter_free(in);
  shoal_model_free(model);
}

// ---- refusals -----------------------------------------------------------------------------------

typedef void (*build_fn_t)(shoal_graph_t *g, shoal_value_t x);  // x [B, T, C]

static void misspelt(shoal_graph_t *g, shoal_value_t x) {
  shoal_nn_activation(g, "gelo", x);
}
static void misspelt_layer(shoal_graph_t *g, shoal_value_t x) {
  shoal_nn_linear_with(g, "fc", x, 3, &(shoal_nn_linear_options_t){.activation = "swish"});
}
static void third_of_eight(shoal_graph_t *g, shoal_value_t x) {
  shoal_value_t parts[3];
  shoal_nn_split(g, x, 2, 3, NULL, parts);
  assert_false(shoal_value_ok(parts[0]));
}
static void wrong_sum(shoal_graph_t *g, shoal_value_t x) {
  shoal_value_t parts[2];
  shoal_nn_split(g, x, 2, 2, (const int64_t[]){3, 4}, parts);
}
static void no_axis(shoal_graph_t *g, shoal_value_t x) {
  shoal_value_t parts[2];
  shoal_nn_split(g, x, 3, 2, NULL, parts);
}
static void five_heads(shoal_graph_t *g, shoal_value_t x) {
  shoal_nn_self_attention(g, "attn", x, 5);
}
static void flat_memory(shoal_graph_t *g, shoal_value_t x) {
  shoal_nn_cross_attention(g, "attn", x, shoal_input(g, "m", SHOAL_F64, SHOAL_SHAPE(S, M)), 4,
                           NULL);
}
static void conv_of_image(shoal_graph_t *g, shoal_value_t x) {
  shoal_nn_conv2d(g, "conv", x, 4, 3, 1, 1);
}
static void flat_keys(shoal_graph_t *g, shoal_value_t x) {
  shoal_nn_remember(g, "cache_k", x, 4, shoal_none());
}

static void no_mode(shoal_graph_t *g, shoal_value_t x) {
  (void)x;
  const shoal_nn_embedding_bag_options_t options = {.mode = "avg"};
  shoal_nn_embedding_bag(g, "bag", shoal_input(g, "i", SHOAL_I64, SHOAL_SHAPE(4)),
                         shoal_input(g, "o", SHOAL_I64, SHOAL_SHAPE(2)), 5, 3, SHOAL_F64, &options);
}

static void test_refusals(void **state) {
  (void)state;
  static const struct {
    build_fn_t build;
    const char *message, *hint;
  } cases[] = {
      {misspelt, "there is no activation 'gelo'", "did you mean 'gelu'?"},
      {misspelt_layer, "there is no activation 'swish'", "relu, gelu"},
      {third_of_eight, "split: 3 equal parts of the 8 elements of dim 2", "sizes of the parts"},
      {wrong_sum, "split: the sizes sum to 7, and dim 2 has 8 elements", ""},
      {no_axis, "split: axis 3 of 3 dims, in 2 parts", ""},
      {five_heads, "C a multiple of heads, not [2, 5, 8] and 5", ""},
      {flat_memory, "memory must be [B, S, M] with x's B = 2, not [3, 6]", ""},
      {conv_of_image, "conv2d: x must be [N, C, H, W], not [2, 5, 8]", "reshape"},
      {flat_keys, "remember: x must be [B, H, T, D] with T = 1 at a position, else T of at most 4",
       ""},
      {no_mode, "mode 'avg' is none of sum, mean and max", ""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    shoal_model_t *model = new_model(1);
    shoal_graph_t *g = shoal_model_graph(model, "f");
    cases[i].build(g, shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(B, T, C)));
    shoal_status_t status = shoal_model_status(model);
    assert_int_equal(shoal_status_code(status), SHOAL_INVALID_ARGUMENT);
    if (!strstr(shoal_status_message(status), cases[i].message) ||
        !strstr(shoal_status_hint(status), cases[i].hint)) {
      fail_msg("no '%s' (hint: %s) in '%s' (hint: %s)", cases[i].message, cases[i].hint,
               shoal_status_message(status), shoal_status_hint(status));
    }
    assert_non_null(strstr(shoal_status_file(status), "nn_pieces_test.c"));
    shoal_status_free(status);
    shoal_model_free(model);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cross_attention), cmocka_unit_test(test_rotary),
      cmocka_unit_test(test_embedding_bag),   cmocka_unit_test(test_linear),
      cmocka_unit_test(test_activations),     cmocka_unit_test(test_split),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
