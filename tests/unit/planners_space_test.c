// links: all
//
// Strategies that cut pictures: `spatial` and `channel`. What they cut and in which units, where
// maps begin and end, that completion follows without a gather, both at once, and what is refused.
// tests/check_space.sh proves the plans.
#include "plan_support.h"
#include "shoal/ops.h"

static shoal_rules_t *rules;
static shoal_model_t *cnn, *unet, *gan;

static int set_up(void **state) {
  (void)state;
  rules = new_rules();
  cnn = zoo_model("cnn", NULL);
  unet = zoo_model("unet-tiny", NULL);
  gan = zoo_model("gan-tiny", NULL);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  shoal_model_free(gan);
  shoal_model_free(unet);
  shoal_model_free(cnn);
  shoal_rules_free(rules);
  return 0;
}

// Rows are dealt in units of the pool's stride, so that its input and output share borders; forward
// and backward follow.
static void test_rows(void **state) {
  (void)state;
  shoal_plan_t *plan = plan_by(cnn, rules, "spatial", NULL, 2);
  assert_string_equal(shoal_plan_intent(plan)->meshes[0], "height=2");
  expect_layout(plan, "x", "height:2/2");
  expect_way(plan, "conv1/conv", "height", "{x:2+1+1 -> out:2}");
  expect_way(plan, "max_pool", "height", "{x:2/2 -> out:2}~");
  expect_way(plan, "conv2/conv", "height", "{x:2#4+0+2 -> out:2}");
  expect_way(plan, "grad/conv2/conv/conv_grad_x", "height", "{dy:2#6+2+0 -> dx:2}");
  expect_way(plan, "grad/max_pool/max_pool_grad", "height", "{x:2/2, dy:2 -> dx:2/2}~");
  shoal_plan_free(plan);
}

// Labels of pixels are cut with the pixels; 4 is the stride of both pools together, and norms are
// computed in phases in between.
static void test_both_dims(void **state) {
  (void)state;
  shoal_plan_t *plan = plan_by(unet, rules, "spatial", "data=2,height=2,width=2", 8);
  expect_layout(plan, "x", "data:0,height:2/4,width:3/4");
  expect_layout(plan, "y", "data:0,height:1/4,width:2/4");
  expect_way(plan, "down1/conv2/conv", "height", "{x:2+1+1 -> out:2}");
  expect_way(plan, "down1/conv2/conv", "width", "{x:3+1+1 -> out:3}");
  shoal_program_free(lower(plan));
  shoal_plan_free(plan);
}

// Units give way to balance: 6 units of 2 rows for 5 ranks would leave one 4 rows of 12.
static void test_balance(void **state) {
  (void)state;
  shoal_plan_t *plan = plan_by(cnn, rules, "spatial", NULL, 5);
  expect_layout(plan, "x", "height:2");
  expect_way(plan, "max_pool", "height", "{x:2/2 -> out:2}~");
  shoal_plan_free(plan);
}

// A generator's map is cut where it is large enough, and only there.
static void test_map_begins_inside(void **state) {
  (void)state;
  shoal_plan_t *plan = plan_by(gan, rules, "spatial", NULL, 4);
  expect_layout(plan, "x", "height:2/4");
  expect_way(plan, "generator/conv0/conv_transpose", "height", "");
  expect_way(plan, "generator/conv1/conv_transpose", "height", "{x:2+1+1 -> out:2/2}");
  expect_way(plan, "generator/conv2/conv_transpose", "height", "{x:2+1+1 -> out:2/2}");
  assert_int_equal(shoal_plan_intent(plan)->decision_count, 1);
  shoal_plan_free(plan);
}

// Output channels, then input channels; what the channels meet rests with them, also where the
// product behind has several columns for each.
static void test_channels(void **state) {
  (void)state;
  shoal_plan_t *plan = plan_by(unet, rules, "channel", NULL, 3);
  expect_state(plan, "inc/conv1/weight", "channel:0");
  expect_state(plan, "inc/bn1/gamma", "channel:0");
  expect_state(plan, "inc/bn1/running_mean", "channel:0");
  expect_state(plan, "inc/conv2/weight", "channel:1");
  expect_state(plan, "inc/bn2/gamma", "");
  expect_way(plan, "inc/conv1/conv", "channel", "{w:0 -> out:1}~");
  expect_way(plan, "inc/conv2/conv", "channel", "{x:1, w:1 -> out:sum}~");
  shoal_plan_free(plan);
}

static shoal_model_t *grouped(void) {
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(2, 4, 9));
  x = shoal_nn_conv(g, "wide", x, 12, 3, &(shoal_nn_conv_options_t){0});
  x = shoal_nn_conv(g, "groups", x, 18, 3, &(shoal_nn_conv_options_t){.groups = 3});
  x = shoal_nn_linear(g, "head", shoal_reshape(g, x, SHOAL_SHAPE(2, -1)), 3);
  shoal_minimize(g,
                 shoal_nn_mse_loss(g, x, shoal_input(g, "y", SHOAL_F64, SHOAL_SHAPE(2, 3)), NULL),
                 &(shoal_adamw_t){0});
  assert_ok(shoal_model_status(model));
  return model;
}

// Groups stay together, in the convolution and in what comes behind it.
static void test_groups(void **state) {
  (void)state;
  shoal_model_t *model = grouped();
  shoal_plan_t *plan = plan_by(model, rules, "channel", NULL, 2);
  expect_state(plan, "wide/weight", "channel:0");
  expect_state(plan, "groups/weight", "channel:0/6");
  expect_state(plan, "groups/bias", "channel:0/6");
  expect_state(plan, "head/weight", "channel:0/30");
  shoal_plan_free(plan);
  plan = plan_by(model, rules, "spatial", "width=3", 3);  // a line has one dim
  expect_layout(plan, "x", "width:2");
  expect_way(plan, "groups/conv", "width", "{x:2#5+0+2 -> out:2}");
  shoal_plan_free(plan);
  shoal_model_free(model);
}

static void test_both_strategies(void **state) {
  (void)state;
  shoal_plan_t *plan = plan_by(cnn, rules, "spatial", "data=2,height=2,channel=2", 8);
  expect_layout(plan, "x", "data:0,height:2/2");
  expect_state(plan, "conv2/weight", "channel:1");
  expect_way(plan, "conv2/conv", "height", "{x:2#4+0+2 -> out:2}");
  expect_way(plan, "conv2/conv", "channel", "{x:1, w:1 -> out:sum}~");
  shoal_program_free(lower(plan));
  shoal_plan_free(plan);
}

static void test_refusals(void **state) {
  (void)state;
  shoal_plan_t *plan;
  shoal_model_t *mlp = small_mlp(4);
  for (int i = 0; i < 2; ++i) {
    const shoal_plan_options_t options = {.strategy = i ? "channel" : "spatial", .world = 2};
    assert_error(UNSUPPORTED, i ? "no convolution whose channels" : "slides over a map",
                 shoal_plan_make(mlp, rules, &options, &plan));
  }
  shoal_model_free(mlp);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_both_dims),
      cmocka_unit_test(test_balance),
      cmocka_unit_test(test_map_begins_inside),
      cmocka_unit_test(test_channels),
      cmocka_unit_test(test_groups),
      cmocka_unit_test(test_both_strategies),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
