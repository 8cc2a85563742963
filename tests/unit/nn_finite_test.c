// Numbers in place of NaN and infinities, in every float type, with their gradient.
#include <float.h>
#include <math.h>

#include "graph_support.h"
#include "shoal/nn.h"
#include "shoal/ops.h"

static void test_numbers(void **state) {
  (void)state;
  const shoal_dtype_t dtypes[] = {SHOAL_F64, SHOAL_F32, SHOAL_BF16, SHOAL_F16};
  const double most[] = {DBL_MAX, FLT_MAX, 0x1.FEp127, 65504};
  const double data[] = {NAN, INFINITY, -INFINITY, 1.5, -0.25};
  const double above = 7, below = -3;
  for (int k = 0; k < 4; ++k) {
    shoal_model_t *model = new_model(0);
    shoal_graph_t *g = shoal_model_graph(model, "f");
    shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(5));
    x = dtypes[k] == SHOAL_F64 ? x : shoal_cast(g, x, dtypes[k]);
    const shoal_nn_nan_to_num_options_t options = {.nan = 2, .above = &above, .below = &below};
    shoal_output(g, "plain", shoal_nn_nan_to_num(g, x, NULL));
    shoal_output(g, "chosen", shoal_nn_nan_to_num(g, x, &options));
    assert_ok(shoal_model_verify(model));
    shoal_interpreter_t *in;
    shoal_tensor_t plain, chosen;
    assert_ok(shoal_interpreter_create(model, NULL, &in));
    assert_ok(shoal_interpreter_feed(in, "x", data, sizeof data));
    assert_ok(shoal_interpreter_run(in, "f"));
    assert_ok(shoal_interpreter_output(in, "plain", &plain));
    assert_ok(shoal_interpreter_output(in, "chosen", &chosen));
    const double want[] = {0, most[k], -most[k], 1.5, -0.25}, other[] = {2, 7, -3, 1.5, -0.25};
    for (int i = 0; i < 5; ++i) {
      assert_true(element(plain, i) == want[i]);
      assert_true(element(chosen, i) == other[i]);
    }
    shoal_interpreter_free(in);
    shoal_model_free(model);
  }
}

// The sum's gradient is 1 where x is a number, and 0 elsewhere.
static void test_gradient(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "f");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(4)), dx;
  shoal_value_t sum = shoal_reduce_sum(g, shoal_nn_nan_to_num(g, x, NULL), SHOAL_SHAPE(0));
  shoal_gradients(g, sum, 1, &x, &dx);
  shoal_output(g, "dx", dx);
  assert_ok(shoal_model_verify(model));
  const double data[] = {1, NAN, INFINITY, -INFINITY};
  shoal_interpreter_t *in;
  shoal_tensor_t got;
  assert_ok(shoal_interpreter_create(model, NULL, &in));
  assert_ok(shoal_interpreter_feed(in, "x", data, sizeof data));
  assert_ok(shoal_interpreter_run(in, "f"));
  assert_ok(shoal_interpreter_output(in, "dx", &got));
  for (int i = 0; i < 4; ++i) assert_true(element(got, i) == (i == 0));
  shoal_interpreter_free(in);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_numbers),
      cmocka_unit_test(test_gradient),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
