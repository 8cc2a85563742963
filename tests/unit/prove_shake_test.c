// What rounding does to the one-device run: values whose terms cancel may be off by the rounding of
// the terms, and no other value may be off by more than before.
// links: explore
#include <math.h>

#include "base/dtype.h"
#include "prove/reference.h"
#include "shoal/nn.h"
#include "shoal/ops.h"
#include "unit.h"

#define ROWS 32

typedef struct fixture {
  shoal_model_t *model;
  shoal_reference_t *reference;
  shoal_check_options_t options;
} fixture_t;

static int32_t number_of(const fixture_t *f, const char *name) {
  const int32_t value = shoal_reference_find(f->reference, name);
  if (value < 0) fail_msg("there is no value '%s'", name);
  return value;
}

static double allowed(const fixture_t *f, const char *name) {
  const shoal_expected_t *e = shoal_reference_value(f->reference, number_of(f, name));
  return shoal_reference_allowed(f->reference, e, false);
}

static double largest(const fixture_t *f, const char *name) {
  return shoal_reference_value(f->reference, number_of(f, name))->largest;
}

// 3x less x + x + x is zero in every type, but for a program that rounds otherwise; its mean too.
// Nothing cancels in 3x. The second difference decides about something.
static void start(fixture_t *f, shoal_dtype_t dtype) {
  *f = (fixture_t){.options = {.allocator = shoal_allocator_system(), .seed = 4}};
  assert_ok(shoal_model_create(NULL, &f->model));
  shoal_graph_t *g = shoal_model_graph(f->model, "train");
  const shoal_state_options_t init = {.init = {SHOAL_INIT_UNIFORM, -1, 1}};
  shoal_value_t w = shoal_state(g, "w", dtype, SHOAL_SHAPE(ROWS), &init);
  shoal_value_t x = shoal_mul(g, w, shoal_input(g, "x", dtype, SHOAL_SHAPE(ROWS)));
  shoal_value_t three = shoal_affine(g, x, 3, 0), sum = shoal_add(g, shoal_add(g, x, x), x);
  shoal_value_t zero = shoal_sub(g, three, sum), decides = shoal_sub(g, three, sum);
  shoal_output(g, "mean", shoal_reduce_mean(g, zero, SHOAL_SHAPE(0)));
  shoal_output(g, "other", shoal_reduce_mean(g, decides, SHOAL_SHAPE(0)));
  shoal_output(g, "above", shoal_greater_equal(g, decides, x));
  assert_ok(shoal_model_status(f->model));
  assert_ok(shoal_reference_create(f->model, &f->options, NULL, NULL, shoal_allocator_system(),
                                   &f->reference));
  assert_ok(shoal_reference_run(f->reference, "init", 0));
  assert_ok(shoal_reference_run(f->reference, "train", 1));
}

static void stop(fixture_t *f) {
  shoal_reference_free(f->reference);
  shoal_model_free(f->model);
}

static void terms_that_cancel(void **state) {
  (void)state;
  static const shoal_dtype_t dtypes[] = {SHOAL_F32, SHOAL_BF16, SHOAL_F16};
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; ++i) {
    fixture_t f;
    start(&f, dtypes[i]);
    const double epsilon = shoal_dtype_epsilon(dtypes[i]);
    const double before = allowed(&f, "sub"), plain = allowed(&f, "affine");
    const double other = allowed(&f, "reduce_mean_1");
    const double ulp = epsilon * largest(&f, "affine");
    assert_true(before < ulp / 10);
    assert_ok(shoal_reference_shake(f.reference));
    // One unit in the last place of what is subtracted, and not many.
    assert_true(allowed(&f, "sub") >= ulp && allowed(&f, "sub") <= 16 * ulp);
    assert_true(allowed(&f, "reduce_mean") > before);
    assert_true(allowed(&f, "reduce_mean") <= allowed(&f, "sub"));
    assert_true(allowed(&f, "affine") == plain);
    // A decision is not to flip: what decides is put back, and so is what follows.
    assert_true(allowed(&f, "sub_1") >= ulp);
    assert_true(allowed(&f, "reduce_mean_1") == other);
    stop(&f);
  }
}

// f64 carries the proof: nothing is excused there.
static void nothing_in_f64(void **state) {
  (void)state;
  fixture_t f;
  start(&f, SHOAL_F64);
  const double before = allowed(&f, "sub");
  assert_ok(shoal_reference_shake(f.reference));
  assert_true(allowed(&f, "sub") == before);
  stop(&f);
}

// Every run is judged by itself: the next one begins as if nothing had been asked.
static void next_run(void **state) {
  (void)state;
  fixture_t f;
  start(&f, SHOAL_F32);
  assert_ok(shoal_reference_shake(f.reference));
  const double shaken = allowed(&f, "sub");
  assert_ok(shoal_reference_run(f.reference, "train", 2));
  assert_true(allowed(&f, "sub") < shaken / 10);
  stop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(terms_that_cancel),
      cmocka_unit_test(nothing_in_f64),
      cmocka_unit_test(next_run),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
