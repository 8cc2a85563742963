// Mixed precision: parameters and moments in f32, layers in bf16 or f16, losses in f32; and f16's
// loss scale, which comes by itself.
#include <math.h>

#include "graph_support.h"
#include "shoal/nn.h"
#include "shoal/ops.h"

enum { ROWS = 4, IN = 3, OUT = 2 };

static shoal_model_t *mixed_model(void) {
  shoal_model_t *model;
  assert_ok(shoal_model_create(&(shoal_model_options_t){.seed = 3, .mixed = true}, &model));
  return model;
}

static shoal_dtype_t dtype_of(const shoal_model_t *model, const char *name) {
  const int32_t state = shoal_model_find_state(model, name);
  if (state < 0) fail_msg("no state '%s'", name);
  return model->states.items[state].type.dtype;
}

// y = norm(x W + b), loss = mean of (y - t)^2
static shoal_value_t build(shoal_graph_t *g, shoal_dtype_t dtype, shoal_value_t *out_y) {
  shoal_value_t x = shoal_input(g, "x", dtype, SHOAL_SHAPE(ROWS, IN));
  shoal_value_t t = shoal_input(g, "t", dtype, SHOAL_SHAPE(ROWS, OUT));
  shoal_value_t y = shoal_nn_linear(g, "fc", x, OUT);
  if (out_y) *out_y = y;
  return shoal_nn_mse_loss(g, y, t, NULL);
}

static void masters(void **state) {
  (void)state;
  for (int half = 0; half < 2; ++half) {
    const shoal_dtype_t dtype = half ? SHOAL_F16 : SHOAL_BF16;
    shoal_model_t *model = mixed_model();
    shoal_graph_t *g = shoal_model_graph(model, "train");
    shoal_value_t y, loss = build(g, dtype, &y);
    shoal_optimize(g, loss, NULL);
    assert_ok(shoal_model_verify(model));
    assert_int_equal(shoal_value_type(y).dtype, dtype);
    assert_int_equal(shoal_value_type(loss).dtype, SHOAL_F32);
    static const char *const states[] = {"fc/weight", "fc/bias", "fc/weight#adamw.m",
                                         "fc/bias#adamw.v"};
    for (int i = 0; i < 4; ++i) assert_int_equal(dtype_of(model, states[i]), SHOAL_F32);
    assert_true((shoal_model_find_state(model, "loss_scale") >= 0) == (half == 1));
    shoal_model_free(model);
  }
  // a parameter of one's own
  shoal_model_t *own = mixed_model();
  shoal_value_t scale = shoal_nn_parameter(shoal_model_graph(own, "train"), "scale", SHOAL_BF16,
                                           SHOAL_SHAPE(OUT), (shoal_init_t){SHOAL_INIT_FILL, 1});
  assert_int_equal(shoal_value_type(scale).dtype, SHOAL_BF16);
  assert_int_equal(dtype_of(own, "scale"), SHOAL_F32);
  assert_true(own->states.items[0].options.trainable);
  shoal_model_free(own);
  // without it, and in f32, layers are as they were
  shoal_model_t *model = new_model(0);
  build(shoal_model_graph(model, "train"), SHOAL_BF16, NULL);
  assert_int_equal(dtype_of(model, "fc/weight"), SHOAL_BF16);
  shoal_model_free(model);
  model = mixed_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  build(g, SHOAL_F32, NULL);
  for (int64_t n = 0; n < g->nodes.count; ++n)
    assert_string_not_equal(g->nodes.items[n].op->name, "shoal.cast");
  shoal_model_free(model);
}

// A loss for each label of bf16 logits is made of f32 sums too.
static void losses(void **state) {
  (void)state;
  shoal_model_t *model = mixed_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_BF16, SHOAL_SHAPE(ROWS, IN));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(ROWS));
  shoal_value_t each = shoal_nn_cross_entropy_with(
      g, x, y, &(shoal_nn_cross_entropy_options_t){.reduction = SHOAL_REDUCTION_NONE});
  assert_int_equal(shoal_value_type(each).dtype, SHOAL_F32);
  assert_int_equal(shoal_value_type(shoal_nn_cross_entropy(g, x, y)).dtype, SHOAL_F32);
  shoal_value_t weight = shoal_input(g, "w", SHOAL_BF16, SHOAL_SHAPE(IN));
  shoal_value_t bce = shoal_nn_bce_with_logits_loss(
      g, x, x, &(shoal_loss_options_t){.weight = weight, .positive_weight = weight});
  assert_int_equal(shoal_value_type(bce).dtype, SHOAL_F32);
  assert_ok(shoal_model_verify(model));
  shoal_model_free(model);
}

// Gradients of 1e-7 are nothing in f16, but for the scale; ones of 4 overflow at a scale of 65536:
// the steps are left out until the scale is small enough.
static void f16_scale(void **state) {
  (void)state;
  static const double sizes[] = {1e-7, 4};
  for (int k = 0; k < 2; ++k) {
    shoal_model_t *model = mixed_model();
    shoal_graph_t *g = shoal_model_graph(model, "train");
    shoal_value_t x = shoal_input(g, "x", SHOAL_F16, SHOAL_SHAPE(1, 1));
    shoal_value_t y = shoal_nn_linear_with(g, "fc", x, 1,
                                           &(shoal_nn_linear_options_t){
                                               .no_bias = true,
                                               .weight_init = {SHOAL_INIT_FILL, 0, 0},
                                           });
    shoal_value_t loss = shoal_reduce_sum(g, shoal_cast(g, y, SHOAL_F32), SHOAL_SHAPE(0, 1));
    loss = shoal_affine(g, loss, sizes[k], 0);
    shoal_optimize(g, loss, &(shoal_recipe_t){.optimizer = "sgd", .lr = 1});
    assert_ok(shoal_model_verify(model));
    shoal_interpreter_t *in;
    assert_ok(shoal_interpreter_create(model, NULL, &in));
    assert_ok(shoal_interpreter_run(in, "init"));
    const uint16_t one = 0x3c00;  // 1 in f16
    const int32_t w = shoal_model_find_state(model, "fc/weight");
    const int32_t scale = shoal_model_find_state(model, "loss_scale");
    const int32_t updates = shoal_model_find_state(model, "updates");
    shoal_tensor_t tensor;
    for (int step = 1; step <= 4; ++step) {
      assert_ok(shoal_interpreter_feed(in, "x", &one, sizeof one));
      assert_ok(shoal_interpreter_run(in, "train"));
      // 4 x 65536 and 4 x 32768 are beyond 65504, 4 x 16384 is too
      const int taken = k == 0 ? step : step > 3 ? step - 3 : 0;
      assert_ok(shoal_interpreter_state(in, updates, &tensor));
      assert_int_equal((int)element(tensor, 0), taken);
      assert_ok(shoal_interpreter_state(in, w, &tensor));
      const double expected = -sizes[k] * taken;
      assert_true(fabs(element(tensor, 0) - expected) < 0.01 * sizes[k]);
      assert_ok(shoal_interpreter_state(in, scale, &tensor));
      assert_true(element(tensor, 0) == (k == 0 ? 65536 : step < 3 ? 65536 >> step : 8192));
    }
    shoal_interpreter_free(in);
    shoal_model_free(model);
  }
}

static void scale_by_choice(void **state) {
  (void)state;
  shoal_model_t *model = mixed_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_optimize(g, build(g, SHOAL_F16, NULL),
                 &(shoal_recipe_t){.training = {.no_loss_scale = true}});
  assert_ok(shoal_model_status(model));
  assert_int_equal(shoal_model_find_state(model, "loss_scale"), -1);
  shoal_model_free(model);
  model = mixed_model();
  g = shoal_model_graph(model, "train");
  shoal_optimize(g, build(g, SHOAL_F16, NULL),
                 &(shoal_recipe_t){.training = {.no_loss_scale = true, .loss_scale = 8}});
  assert_error(INVALID_ARGUMENT, "no_loss_scale is set", shoal_model_status(model));
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(masters),
      cmocka_unit_test(losses),
      cmocka_unit_test(f16_scale),
      cmocka_unit_test(scale_by_choice),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
