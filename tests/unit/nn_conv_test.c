// Convolution layers: the shapes of their results and the number of their parameters over one to
// three dims, with groups, strides and dilation, transposed, without bias; what they refuse.
#include "graph_support.h"
#include "shoal/nn.h"

static void expect_shape(shoal_value_t value, shoal_shape_t shape) {
  const shoal_type_t type = shoal_value_type(value);
  assert_true(shoal_value_ok(value));
  assert_true(shoal_shape_equal(&type.shape, &shape));
}

static void shapes(void **state) {
  (void)state;
  shoal_model_t *model = new_model(1);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  const shoal_value_t line = shoal_input(g, "line", SHOAL_F32, SHOAL_SHAPE(2, 4, 9));
  const shoal_value_t image = shoal_input(g, "image", SHOAL_F32, SHOAL_SHAPE(2, 4, 9, 7));
  const shoal_value_t box = shoal_input(g, "box", SHOAL_F32, SHOAL_SHAPE(2, 4, 5, 6, 7));
  const shoal_nn_conv_options_t depthwise = {.padding = 2, .dilation = 2, .groups = 4};
  const shoal_nn_conv_options_t twice = {
      .stride = 2, .padding = 1, .groups = 2, .output_padding = 1, .no_bias = true};
  expect_shape(shoal_nn_conv1d(g, "a", line, 6, 3, 2, 1), SHOAL_SHAPE(2, 6, 5));
  int64_t count = 6 * 4 * 3 + 6;
  expect_shape(shoal_nn_conv2d(g, "b", image, 6, 3, 1, 1), SHOAL_SHAPE(2, 6, 9, 7));
  count += 6 * 4 * 9 + 6;
  expect_shape(shoal_nn_conv3d(g, "c", box, 6, 3, 2, 0), SHOAL_SHAPE(2, 6, 2, 2, 3));
  count += 6 * 4 * 27 + 6;
  expect_shape(shoal_nn_conv(g, "d", image, 4, 3, &depthwise), SHOAL_SHAPE(2, 4, 9, 7));
  count += 4 * 1 * 9 + 4;
  expect_shape(shoal_nn_conv_transpose(g, "e", image, 6, 3, &twice), SHOAL_SHAPE(2, 6, 18, 14));
  count += 4 * 3 * 9;
  expect_shape(shoal_nn_conv_transpose(g, "f", line, 3, 4, NULL), SHOAL_SHAPE(2, 3, 12));
  count += 4 * 3 * 4 + 3;
  assert_ok(shoal_model_status(model));
  assert_int_equal(shoal_model_parameters(model), count);
  shoal_model_free(model);
}

static void refusals(void **state) {
  (void)state;
  static const char *const messages[] = {"conv1d: x must be [N, C, L]",
                                         "conv3d: x must be [N, C, D, H, W]",
                                         "conv: x must have one to three dims behind [N, C]",
                                         "groups must divide x's channels and those of the result"};
  for (int32_t i = 0; i < 4; ++i) {
    shoal_model_t *model = new_model(1);
    shoal_graph_t *g = shoal_model_graph(model, "train");
    const shoal_value_t image = shoal_input(g, "image", SHOAL_F32, SHOAL_SHAPE(2, 4, 9, 7));
    const shoal_value_t table = shoal_input(g, "table", SHOAL_F32, SHOAL_SHAPE(2, 4));
    const shoal_nn_conv_options_t thirds = {.groups = 3};
    if (i == 0) shoal_nn_conv1d(g, "a", image, 6, 3, 1, 0);
    if (i == 1) shoal_nn_conv3d(g, "a", image, 6, 3, 1, 0);
    if (i == 2) shoal_nn_conv(g, "a", table, 6, 3, NULL);
    if (i == 3) shoal_nn_conv_transpose(g, "a", image, 6, 3, &thirds);
    assert_error(INVALID_ARGUMENT, messages[i], shoal_model_status(model));
    shoal_model_free(model);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(shapes), cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
