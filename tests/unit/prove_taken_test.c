// Summands that one device cannot know: the one-device runs go on with those of the program, and
// what these lack of the gradient is expected of the first. links: explore
#include <math.h>

#include "graph/graph.h"
#include "prove/reference.h"
#include "shoal/nn.h"
#include "shoal/ops.h"
#include "unit.h"

enum { N = 3, PARTS = 2 };

static double rows[PARTS][N] = {{3, -1, 0.5}, {0, 4, -2}};

typedef struct asked {
  int64_t times;
  int32_t run;
  bool gives;
} asked_t;

static bool take(void *self, int32_t run, const shoal_graph_t *graph, int32_t value, int64_t count,
                 double *elements) {
  asked_t *asked = self;
  assert_string_equal(graph->nodes.items[graph->values.items[value].node].op->name,
                      "shoal.summands");
  assert_int_equal(count, PARTS * N);
  ++asked->times;
  asked->run = run;
  for (int64_t i = 0; i < count && asked->gives; ++i) elements[i] = rows[i / N][i % N];
  return asked->gives;
}

// loss = sum(x w): the gradient is x, whatever w is.
static shoal_model_t *make_model(shoal_dtype_t dtype) {
  shoal_model_t *model, *copy;
  const shoal_state_options_t options = {.trainable = true, .init = {SHOAL_INIT_FILL, 0.5, 0}};
  assert_ok(shoal_model_create(NULL, &model));
  shoal_graph_t *g = shoal_model_graph(model, "train");
  const shoal_value_t x = shoal_input(g, "x", dtype, SHOAL_SHAPE(N));
  const shoal_value_t w = shoal_state(g, "w", dtype, SHOAL_SHAPE(N), &options);
  const shoal_value_t loss = shoal_reduce_sum(g, shoal_mul(g, x, w), SHOAL_SHAPE(0));
  shoal_minimize_sgd(g, loss,
                     &(shoal_sgd_t){.lr = 0.25, .training = {.clip_norm = 2, .clip_before = true}});
  assert_ok(shoal_model_status(model));
  assert_ok(shoal_model_set_summands(model, PARTS, &copy));
  shoal_model_free(model);
  return copy;
}

static const double *value_of(const shoal_reference_t *reference, const char *name) {
  const int32_t value = shoal_reference_find(reference, name);
  if (value < 0) fail_msg("no value '%s'", name);
  return shoal_reference_value(reference, value)->floats;
}

static double clipped(int64_t i) {
  double sum = 0;
  for (int k = 0; k < PARTS; ++k) {
    double squares = 0;
    for (int j = 0; j < N; ++j) squares += rows[k][j] * rows[k][j];
    sum += fmin(1, 2.0 / PARTS / (sqrt(squares) + 1e-6)) * rows[k][i];
  }
  return sum;
}

static void run_with(shoal_dtype_t dtype, const void *x, size_t size, asked_t *asked,
                     shoal_model_t **out_model, shoal_reference_t **out_reference) {
  static shoal_check_feed_t feed;
  static shoal_check_options_t options;
  feed = (shoal_check_feed_t){.name = "x", .data = x, .size = size};
  options = (shoal_check_options_t){
      .allocator = shoal_allocator_system(), .feed_count = 1, .feeds = &feed};
  *out_model = make_model(dtype);
  assert_ok(shoal_reference_create(*out_model, &options, NULL, NULL, shoal_allocator_system(),
                                   out_reference));
  shoal_reference_take(*out_reference, take, asked);
  assert_ok(shoal_reference_run(*out_reference, "init", 0));
  assert_int_equal(asked->times, 0);
  assert_ok(shoal_reference_run(*out_reference, "train", 1));
}

static const char summands[] = "update/gradients/summands", sum[] = "update/gradients/weighted_sum";

// In f64 there is one run on one device, else two.
static void test_taken(void **state) {
  (void)state;
  for (int narrow = 0; narrow < 2; ++narrow) {
    double x[N];
    float half[N];
    asked_t asked = {.gives = true};
    shoal_model_t *model;
    shoal_reference_t *reference;
    for (int i = 0; i < N; ++i) half[i] = (float)(x[i] = rows[0][i] + rows[1][i]);
    run_with(narrow ? SHOAL_F32 : SHOAL_F64, narrow ? (void *)half : x,
             narrow ? sizeof half : sizeof x, &asked, &model, &reference);
    assert_int_equal(asked.times, 1 + narrow);
    assert_int_equal(asked.run, 1);
    for (int i = 0; i < PARTS * N; ++i)
      assert_true(value_of(reference, summands)[i] == rows[i / N][i % N]);
    for (int i = 0; i < N; ++i) assert_true(fabs(value_of(reference, sum)[i] - clipped(i)) < 1e-12);
    shoal_reference_free(reference);
    shoal_model_free(model);
  }
}

// The program's summands do not add up to the gradient: they are not what is expected.
static void test_missing(void **state) {
  (void)state;
  double x[N] = {3.5, 3, -1.5};  // in the first element, half of one more than the rows have
  asked_t asked = {.gives = true};
  shoal_model_t *model;
  shoal_reference_t *reference;
  run_with(SHOAL_F64, x, sizeof x, &asked, &model, &reference);
  assert_true(value_of(reference, summands)[0] == rows[0][0] + 0.5);
  for (int i = 1; i < PARTS * N; ++i)
    assert_true(value_of(reference, summands)[i] == rows[i / N][i % N]);
  for (int i = 0; i < N; ++i) assert_true(fabs(value_of(reference, sum)[i] - clipped(i)) < 1e-12);
  shoal_reference_free(reference);
  shoal_model_free(model);
}

// The program has none: the kernel's are expected, the gradient and zeros.
static void test_not_given(void **state) {
  (void)state;
  double x[N] = {3, 3, -1.5};
  asked_t asked = {.gives = false};
  shoal_model_t *model;
  shoal_reference_t *reference;
  run_with(SHOAL_F64, x, sizeof x, &asked, &model, &reference);
  for (int i = 0; i < PARTS * N; ++i)
    assert_true(value_of(reference, summands)[i] == (i < N ? x[i] : 0));
  shoal_reference_free(reference);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_taken), cmocka_unit_test(test_missing),
                                     cmocka_unit_test(test_not_given)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
