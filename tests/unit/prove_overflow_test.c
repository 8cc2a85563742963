// Sums at the edge of f16: where rounding alone decides whether one overflows, ranks may have an
// infinity that one device has not, and what follows from it; anywhere else they may not.
#include "base/dtype.h"
#include "shoal/shoal.h"
#include "unit.h"

enum { ROWS = 4 };

static shoal_model_t *make(int64_t columns) {
  shoal_model_t *model = NULL;
  assert_ok(shoal_model_create(NULL, &model));
  shoal_graph_t *g = shoal_model_graph(model, "train");
  const shoal_value_t x = shoal_input(g, "x", SHOAL_F16, SHOAL_SHAPE(ROWS, columns));
  const shoal_value_t sum = shoal_reduce_sum(g, x, SHOAL_SHAPE(0));
  shoal_output(g, "half", shoal_affine(g, sum, 0.5, 0));
  shoal_output(g, "finite", shoal_is_finite(g, sum));
  assert_ok(shoal_model_status(model));
  return model;
}

// On two ranks, which have two rows each.
static shoal_status_t check(const double *rows, int64_t columns, shoal_check_report_t *out_report) {
  uint16_t data[ROWS * 2];
  for (int64_t i = 0; i < ROWS * columns; ++i) shoal_dtype_store(SHOAL_F16, data, i, rows[i]);
  const shoal_check_feed_t feed = {
      .name = "x", .data = data, .size = (size_t)(ROWS * columns) * sizeof *data};
  const shoal_intent_entry_t cut = {"x", "ranks:0"};
  const shoal_parallelize_options_t options = {
      .mesh = "ranks=2", .layouts = &cut, .layout_count = 1};
  const shoal_check_how_t how = {.ranks = 2, .steps = 1, .feed_count = 1, .feeds = &feed};
  shoal_model_t *model = make(columns);
  shoal_status_t status = shoal_check(model, &options, &how, out_report);
  shoal_model_free(model);
  return status;
}

// 65504 on one device. The first rank's 32816 becomes 32832 in f16, and the sum 65520: infinite.
static void overflows_by_rounding(void **state) {
  (void)state;
  const double above[ROWS] = {16416, 16400, 16352, 16336};
  const double below[ROWS] = {-16416, -16400, -16352, -16336};
  shoal_check_report_t report;
  assert_ok(check(above, 1, &report));
  assert_true(report.decisions > 0);
  assert_ok(check(below, 1, &report));
  assert_true(report.decisions > 0);
}

// The first rank's part is 80000, the sum 30000: no rounding makes an infinity of that.
static void overflows_far_from_the_edge(void **state) {
  (void)state;
  const double rows[ROWS] = {40000, 40000, -20000, -30000};
  shoal_check_report_t report;
  assert_error(MISMATCH, "got inf, expected 30", check(rows, 1, &report));
}

// The first column overflows on one device, too. In the second, ranks add infinities of two signs.
static void overflows_everywhere(void **state) {
  (void)state;
  const double rows[ROWS * 2] = {40000, 40000, 40000, 40000, 40000, -40000, 40000, -40000};
  shoal_check_report_t report;
  assert_ok(check(rows, 2, &report));
  assert_true(report.decisions > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(overflows_by_rounding),
                                     cmocka_unit_test(overflows_far_from_the_edge),
                                     cmocka_unit_test(overflows_everywhere)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
