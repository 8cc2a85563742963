// Initial values: normals between limits, the formulas of torch.nn.init, and layers that are told
// what to start with.
#include <math.h>

#include "graph_support.h"
#include "shoal/nn.h"
#include "shoal/ops.h"

enum { MANY = 40000 };

static const shoal_state_info_t *info_of(const shoal_model_t *model, const char *name) {
  const int32_t state = shoal_model_find_state(model, name);
  if (state < 0) fail_msg("no state '%s'", name);
  return &model->states.items[state];
}

// Mean and deviation are those of the cut normal, to a few standard errors.
static void truncated_normal(void **state) {
  (void)state;
  static const struct {
    shoal_init_t init;
    double low, high, mean, deviation;
  } cases[] = {
      {{SHOAL_INIT_TRUNCATED_NORMAL, 0, 1}, -2, 2, 0, 0.8796256610342398},
      {{SHOAL_INIT_TRUNCATED_NORMAL, 0, 0.02, -0.04, 0.04}, -0.04, 0.04, 0, 0.017592513220684796},
      {{SHOAL_INIT_TRUNCATED_NORMAL, 1, 2, 0, 2.5}, 0, 2.5, 1.2191224097952722, 0.7026218221780383},
      {{SHOAL_INIT_TRUNCATED_NORMAL, 0, 0.5, -9, 9}, -2.65, 2.65, 0, 0.5},  // cuts nothing
  };
  for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k) {
    shoal_model_t *model = new_model(7);
    shoal_graph_t *g = shoal_model_graph(model, "train");
    shoal_state(g, "w", SHOAL_F32, SHOAL_SHAPE(MANY),
                &(shoal_state_options_t){.init = cases[k].init});
    assert_ok(shoal_model_verify(model));
    shoal_interpreter_t *in;
    shoal_tensor_t w;
    assert_ok(shoal_interpreter_create(model, NULL, &in));
    assert_ok(shoal_interpreter_run(in, "init"));
    assert_ok(shoal_interpreter_state(in, 0, &w));
    double sum = 0, squares = 0, least = INFINITY, largest = -INFINITY;
    for (int i = 0; i < MANY; ++i) {
      const double x = element(w, i);
      sum += x;
      squares += (x - cases[k].mean) * (x - cases[k].mean);
      least = fmin(least, x);
      largest = fmax(largest, x);
    }
    const double error = 4 * cases[k].deviation / sqrt(MANY);
    const double range = cases[k].high - cases[k].low;
    assert_true(least >= cases[k].low - 1e-8 && largest <= cases[k].high + 1e-8);
    if (k < 3) assert_true(least < cases[k].low + 0.01 * range);
    if (k < 3) assert_true(largest > cases[k].high - 0.01 * range);
    assert_true(fabs(sum / MANY - cases[k].mean) < error);
    assert_true(fabs(sqrt(squares / MANY) - cases[k].deviation) < error);
    shoal_interpreter_free(in);
    shoal_model_free(model);
  }
}

// What torch.nn.init's functions draw from, for a [30, 50] weight; gains of calculate_gain.
static void formulas(void **state) {
  (void)state;
  const struct {
    shoal_init_t found;
    double b;
  } cases[] = {
      {shoal_init_xavier_uniform(30, 50, 0), 0.27386127875258306},
      {shoal_init_xavier_normal(30, 50, 0), 0.15811388300841897},
      {shoal_init_xavier_normal(30, 50, shoal_init_gain("tanh")), 0.26352313834736496},
      {shoal_init_kaiming_uniform(30, 0), 0.4472135954999579},
      {shoal_init_kaiming_normal(30, 0), 0.2581988897471611},
      {shoal_init_kaiming_normal(50, shoal_init_gain("leaky_relu")), 0.19999000074993753},
      {shoal_init_kaiming_normal(30, shoal_init_gain("none")), 0.18257418583505536},
      {shoal_init_kaiming_normal(30, shoal_init_gain("selu")), 0.13693063937629152},
      {shoal_init_kaiming_normal(30, shoal_init_gain("sigmoid")), 0.18257418583505536},
  };
  for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k) {
    const bool uniform = cases[k].found.kind == SHOAL_INIT_UNIFORM;
    assert_true(uniform == (k == 0 || k == 3));
    assert_true(cases[k].found.a == (uniform ? -cases[k].found.b : 0));
    assert_true(fabs(cases[k].found.b - cases[k].b) < 1e-12);
  }
}

static void layers(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  const shoal_init_t one = {SHOAL_INIT_NORMAL, 0, 1}, two = {SHOAL_INIT_FILL, 2, 0};
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(2, 3, 8));
  shoal_value_t ids = shoal_input(g, "ids", SHOAL_I32, SHOAL_SHAPE(2));
  shoal_nn_linear_with(g, "fc", x, 4,
                       &(shoal_nn_linear_options_t){.weight_init = one, .bias_init = two});
  shoal_nn_linear(g, "own", x, 4);
  shoal_nn_conv(g, "conv", x, 4, 3,
                (&(shoal_nn_conv_options_t){.weight_init = one, .bias_init = two}));
  shoal_nn_embedding_with(g, "table", ids, 4, 4, SHOAL_F32,
                          &(shoal_nn_embedding_options_t){.init = one});
  shoal_nn_embedding_bag(g, "bag", ids, ids, 4, 4, SHOAL_F32,
                         &(shoal_nn_embedding_bag_options_t){.init = one});
  shoal_nn_self_attention_with(
      g, "attn", x, 2, &(shoal_nn_attention_options_t){.weight_init = one, .proj_init = two});
  shoal_value_t bare = shoal_nn_rms_norm_with(
      g, "bare", x, &(shoal_nn_rms_norm_options_t){.eps = 1e-2, .no_gamma = true});
  assert_ok(shoal_model_verify(model));
  static const char *const ones[] = {"fc/weight", "conv/weight", "table/table", "bag/table",
                                     "attn/qkv/weight"};
  static const char *const twos[] = {"fc/bias", "conv/bias", "attn/proj/weight"};
  for (int i = 0; i < 5; ++i) {
    assert_int_equal(info_of(model, ones[i])->options.init.kind, SHOAL_INIT_NORMAL);
    assert_true(info_of(model, ones[i])->options.init.b == 1);
  }
  for (int i = 0; i < 3; ++i) assert_true(info_of(model, twos[i])->options.init.a == 2);
  assert_int_equal(info_of(model, "own/weight")->options.init.kind, SHOAL_INIT_UNIFORM);
  assert_int_equal(info_of(model, "own/bias")->options.init.kind, SHOAL_INIT_ZEROS);
  assert_int_equal(shoal_model_find_state(model, "bare/gamma"), -1);
  const shoal_node_t *norm = &g->nodes.items[g->values.items[bare.id].node];
  assert_string_equal(norm->op->name, "shoal.rms_norm");
  assert_int_equal(norm->input_count, 1);
  assert_true(norm->attrs[0].f == 1e-2);
  shoal_model_free(model);
}

static void refusals(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_state(g, "w", SHOAL_F32, SHOAL_SHAPE(3),
              &(shoal_state_options_t){
                  .init = shoal_init_kaiming_normal(3, shoal_init_gain("no such thing"))});
  assert_error(INVALID_ARGUMENT, "random numbers of 0 and", shoal_model_status(model));
  shoal_model_free(model);
  model = new_model(0);
  g = shoal_model_graph(model, "train");
  shoal_state(g, "w", SHOAL_F32, SHOAL_SHAPE(3),
              &(shoal_state_options_t){.init = {SHOAL_INIT_TRUNCATED_NORMAL, 0, 1, 2, 1}});
  assert_error(INVALID_ARGUMENT, "low must be below high: 2 and 1", shoal_model_status(model));
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(truncated_normal),
      cmocka_unit_test(formulas),
      cmocka_unit_test(layers),
      cmocka_unit_test(refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
