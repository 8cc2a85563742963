// Drawing one token: greedy, temperature, top-k, top-p, repetition, and what a draw depends on.
#include <math.h>

#include "failing.h"
#include "shoal/generate.h"

#define COUNT(array) ((int64_t)(sizeof(array) / sizeof *(array)))

static int32_t sample(int64_t count, const double *logits, const shoal_tokens_t *before,
                      shoal_generate_options_t options, int64_t prompt, int64_t index) {
  const shoal_tensor_t tensor = {(void *)logits, SHOAL_F64, SHOAL_SHAPE(count)};
  int32_t token = -1;
  assert_ok(shoal_sample(&tensor, before, &options, prompt, index, &token));
  return token;
}

// How often each token comes in 4000 draws.
static void histogram(int64_t count, const double *logits, shoal_generate_options_t options,
                      int *out_times) {
  for (int64_t i = 0; i < count; ++i) out_times[i] = 0;
  for (int64_t i = 0; i < 4000; ++i) ++out_times[sample(count, logits, NULL, options, 3, i)];
}

static void test_greedy(void **state) {
  (void)state;
  const double logits[] = {-1, 3, 2.5, 3, -INFINITY};
  assert_int_equal(sample(5, logits, NULL, (shoal_generate_options_t){0}, 0, 0), 1);
  // The likeliest token too where only one may be drawn.
  const double other[] = {0.1, 0.2, 0.5, 0.4};
  for (int i = 0; i < 50; ++i) {
    assert_int_equal(
        sample(4, other, NULL, (shoal_generate_options_t){.temperature = 9, .top_k = 1}, 0, i), 2);
    assert_int_equal(
        sample(4, other, NULL, (shoal_generate_options_t){.temperature = 9, .top_p = 1e-9}, 0, i),
        2);
  }
}

// Frequencies are the softmax of logits / temperature: 4000 draws are within 4 deviations.
static void test_temperature(void **state) {
  (void)state;
  const double logits[] = {0, 2, -1, 1};
  for (double temperature = 0.5; temperature <= 2; temperature *= 2) {
    int times[4];
    double weights[4], sum = 0;
    histogram(4, logits, (shoal_generate_options_t){.temperature = temperature, .seed = 5}, times);
    for (int i = 0; i < 4; ++i) sum += weights[i] = exp(logits[i] / temperature);
    for (int i = 0; i < 4; ++i) {
      const double p = weights[i] / sum;
      const double deviation = sqrt(4000 * p * (1 - p));
      if (fabs(times[i] - 4000 * p) > 4 * deviation + 1)
        fail_msg("at %g token %d came %d times, not %g", temperature, i, times[i], 4000 * p);
    }
  }
}

static void test_top_k(void **state) {
  (void)state;
  const double logits[] = {1, 3, 2, 2, 0};
  int times[5];
  histogram(5, logits, (shoal_generate_options_t){.temperature = 5, .top_k = 2}, times);
  assert_true(times[1] > 0 && times[2] > 0 && times[3] > 0);  // equals of the second stay
  assert_int_equal(times[0] + times[4], 0);
  histogram(5, logits, (shoal_generate_options_t){.temperature = 5, .top_k = 9}, times);
  assert_true(times[0] > 0 && times[4] > 0);
}

// Shares 0.5, 0.25, 0.125, 0.125, exact in binary: the token with which the share is reached is the
// last to stay.
static void test_top_p(void **state) {
  (void)state;
  const double logits[] = {log(0.125), log(0.5), log(0.125), log(0.25)};
  static const struct {
    double p;
    int kept[4];
  } cases[] = {{0.3, {0, 1, 0, 0}},  {0.49, {0, 1, 0, 0}}, {0.51, {0, 1, 0, 1}},
               {0.74, {0, 1, 0, 1}}, {0.76, {1, 1, 0, 1}}, {0.99, {1, 1, 1, 1}},
               {1, {1, 1, 1, 1}},    {0, {1, 1, 1, 1}}};
  for (int64_t c = 0; c < COUNT(cases); ++c) {
    int times[4];
    histogram(4, logits, (shoal_generate_options_t){.temperature = 1, .top_p = cases[c].p}, times);
    for (int i = 0; i < 4; ++i) {
      if ((times[i] > 0) != cases[c].kept[i])
        fail_msg("top_p %g: token %d came %d times", cases[c].p, i, times[i]);
    }
  }
}

static void test_repetition(void **state) {
  (void)state;
  const double logits[] = {-1, 2, 1.5, -1.2};
  const int32_t ids[] = {1, 0, 1, 77};
  const shoal_tokens_t before = {ids, 4};
  assert_int_equal(sample(4, logits, &before, (shoal_generate_options_t){.repetition = 1.2}, 0, 0),
                   1);  // 2 / 1.2 once: still above 1.5
  assert_int_equal(sample(4, logits, &before, (shoal_generate_options_t){.repetition = 1.4}, 0, 0),
                   2);
  const double below[] = {-1, -9, -9, -1.2};  // -1 * 1.4 is less than -1.2
  assert_int_equal(sample(4, below, &before, (shoal_generate_options_t){.repetition = 1.4}, 0, 0),
                   3);
}

// A draw depends on seed, prompt and index, each by itself, and on nothing that came before.
static void test_draws(void **state) {
  (void)state;
  const double logits[64] = {0};
  const shoal_generate_options_t one = {.temperature = 1, .seed = 1},
                                 two = {.temperature = 1, .seed = 2};
  int equal[3] = {0};
  for (int64_t i = 0; i < 200; ++i) {
    const int32_t token = sample(64, logits, NULL, one, 7, i);
    assert_int_equal(sample(64, logits, NULL, one, 7, i), token);
    equal[0] += sample(64, logits, NULL, two, 7, i) == token;
    equal[1] += sample(64, logits, NULL, one, 8, i) == token;
    equal[2] += sample(64, logits, NULL, one, 7, i + 1) == token;
  }
  for (int i = 0; i < 3; ++i) assert_in_range(equal[i], 0, 14);
}

static void test_refusals(void **state) {
  (void)state;
  const double logits[] = {1, NAN, 2}, infinite[] = {-INFINITY, -INFINITY};
  const shoal_tensor_t broken = {(void *)logits, SHOAL_F64, SHOAL_SHAPE(3)};
  const shoal_tensor_t nothing = {(void *)infinite, SHOAL_F64, SHOAL_SHAPE(2)};
  const shoal_tensor_t none = {NULL, SHOAL_F64, SHOAL_SHAPE(0)};
  int32_t token;
  assert_error(MISMATCH, "token 1 is NaN", shoal_sample(&broken, NULL, NULL, 0, 0, &token));
  const shoal_generate_options_t warm = {.temperature = 1}, cold = {.temperature = -1},
                                 share = {.top_p = 1.5}, few = {.top_k = -1};
  assert_error(MISMATCH, "-inf", shoal_sample(&nothing, NULL, &warm, 0, 0, &token));
  assert_error(INVALID_ARGUMENT, "no logits", shoal_sample(&none, NULL, &warm, 0, 0, &token));
  assert_error(INVALID_ARGUMENT, "temperature -1",
               shoal_sample(&nothing, NULL, &cold, 0, 0, &token));
  assert_error(INVALID_ARGUMENT, "top_p 1.5", shoal_sample(&nothing, NULL, &share, 0, 0, &token));
  assert_error(INVALID_ARGUMENT, "top_k -1", shoal_sample(&nothing, NULL, &few, 0, 0, &token));
}

static shoal_status_t draw_some(shoal_allocator_t allocator, void *context) {
  (void)context;
  const double logits[] = {1, 3, 2};
  const int32_t ids[] = {1};
  const shoal_tensor_t tensor = {(void *)logits, SHOAL_F64, SHOAL_SHAPE(3)};
  const shoal_generate_options_t options = {
      .allocator = allocator, .temperature = 1, .repetition = 1.5};
  int32_t token;
  return shoal_sample(&tensor, &(shoal_tokens_t){ids, 1}, &options, 0, 0, &token);
}

// However many tokens are drawn, no memory stays taken.
static void test_memory(void **state) {
  (void)state;
  check_failing_allocations(draw_some, NULL, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_greedy),   cmocka_unit_test(test_temperature),
      cmocka_unit_test(test_top_k),    cmocka_unit_test(test_top_p),
      cmocka_unit_test(test_draws),    cmocka_unit_test(test_repetition),
      cmocka_unit_test(test_refusals), cmocka_unit_test(test_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
