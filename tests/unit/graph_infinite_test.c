// What ops give for infinities, their decompositions give as well: rows that are cut are computed
// by these.
#include <math.h>

#include "graph_support.h"
#include "shoal/ops.h"

enum { ROWS = 4, WIDTH = 3 };

static void expect(const shoal_model_t *model, const double *want) {
  static const double data[ROWS * WIDTH] = {-INFINITY, -INFINITY, -INFINITY, 0, -INFINITY, 0,
                                            INFINITY,  1,         -INFINITY, 2, NAN,       1};
  shoal_interpreter_t *in;
  shoal_tensor_t out;
  assert_ok(shoal_interpreter_create(model, NULL, &in));
  assert_ok(shoal_interpreter_feed(in, "x", data, sizeof data));
  assert_ok(shoal_interpreter_run(in, "f"));
  assert_ok(shoal_interpreter_output(in, "y", &out));
  for (int i = 0; i < ROWS; ++i) {
    if (isnan(want[i])) {
      assert_true(isnan(element(out, i)));
    } else if (isinf(want[i])) {
      assert_true(element(out, i) == want[i]);
    } else {
      assert_true(fabs(element(out, i) - want[i]) < 1e-14);
    }
  }
  shoal_interpreter_free(in);
}

static void test_log_sum_exp(void **state) {
  (void)state;
  const double want[ROWS] = {-INFINITY, log(2), INFINITY, NAN};
  shoal_model_t *model = new_model(0), *parts;
  shoal_graph_t *g = shoal_model_graph(model, "f");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(ROWS, WIDTH));
  shoal_output(g, "y", shoal_log_sum_exp(g, x, SHOAL_SHAPE(1)));
  assert_ok(shoal_model_verify(model));
  expect(model, want);
  const char *const node = "log_sum_exp";
  assert_ok(shoal_model_expand(model, "f", &node, 1, &parts));
  expect(parts, want);
  shoal_model_free(parts);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_log_sum_exp)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
