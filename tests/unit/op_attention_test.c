// Attention with all its options against a model written out naively in double: grouped queries,
// values of another width, bias, mask, window, dropout. Dropout's factors are those that
// shoal.dropout has for ones of the scores' shape. Rotary embedding of positions.
#include "op_support.h"

enum { B = 2, H = 4, T = 5, S = 6, D = 3, DV = 2 };

typedef struct options {
  int64_t groups, causal, window;
  double p;
  bool bias, mask;
} options_t;

// An element of [B, H, T, S] of a tensor that has a 1 along some of these dims.
static double scattered(const shoal_tensor_t *x, const int64_t *i) {
  int64_t at_x = 0;
  for (int32_t d = 0; d < 4; ++d) {
    at_x = at_x * x->shape.dims[d] + (x->shape.dims[d] == 1 ? 0 : i[d]);
  }
  return at(x, at_x);
}

static bool sees(const options_t *o, const shoal_tensor_t *mask, const int64_t *i) {
  if (o->causal && i[3] > i[2]) return false;
  if (o->window && (i[2] - i[3] >= o->window || i[3] - i[2] >= o->window)) return false;
  return !o->mask || scattered(mask, i) != 0;
}

static void compare(bench_t *b, shoal_dtype_t dtype, const options_t *o) {
  const int64_t heads = H / o->groups;
  const double tolerance = dtype == SHOAL_F64 ? 1e-13 : 16 * shoal_dtype_epsilon(dtype);
  shoal_tensor_t in[6] = {random_tensor(b, dtype, SHOAL_SHAPE(B, H, T, D), 2, 1),
                          random_tensor(b, dtype, SHOAL_SHAPE(B, heads, S, D), 2, 2),
                          random_tensor(b, dtype, SHOAL_SHAPE(B, heads, S, DV), 2, 3)};
  shoal_tensor_t bias = random_tensor(b, dtype, SHOAL_SHAPE(1, H, T, S), 2, 4);
  shoal_tensor_t mask = random_tensor(b, SHOAL_BOOL, SHOAL_SHAPE(B, 1, T, S), 2, 5);
  for (int64_t s = 0; s < S; ++s) ((uint8_t *)mask.data)[2 * S + s] = 0;  // a row sees nothing
  for (int64_t e = 0; o->bias && e < H * T * S; ++e) {  // where no key is seen, it is not read
    const int64_t first[] = {0, 0, e / S % T, e % S}, second[] = {1, 0, e / S % T, e % S};
    if (!sees(o, &mask, first) && !sees(o, &mask, second))
      shoal_dtype_store(dtype, bias.data, e, (double)NAN);
  }
  shoal_tensor_t step = scalar_int(b, 7), ones, out[2], factors[1];
  ones = new_tensor(b, SHOAL_F64, SHOAL_SHAPE(B, H, T, S), 0);
  for (int64_t i = 0; i < B * H * T * S; ++i) ((double *)ones.data)[i] = 1;
  const shoal_attr_t p = shoal_attr_real("p", o->p), key = shoal_attr_int("key", 99);
  assert_ok(run_named(b, "shoal.dropout", TENSORS(ones, step), ATTRS(p, key), factors, NULL));
  int32_t count = 3;
  if (o->bias) in[count++] = bias;
  if (o->mask) in[count++] = mask;
  if (o->p > 0) in[count++] = step;
  const char *with = shoal_arena_printf(
      &b->arena, "%s%s%s%s%s", o->bias ? "bias" : "", o->bias && (o->mask || o->p > 0) ? "," : "",
      o->mask ? "mask" : "", o->mask && o->p > 0 ? "," : "", o->p > 0 ? "step" : "");
  assert_ok(run_named(
      b, "shoal.attention", count, in,
      ATTRS(shoal_attr_int("causal", o->causal), p, key, shoal_attr_int("groups", o->groups),
            shoal_attr_int("window", o->window), shoal_attr_string("with", with)),
      out, NULL));
  for (int64_t row = 0; row < B * H * T; ++row) {
    int64_t i[4] = {row / T / H, row / T % H, row % T, 0};
    const int64_t keys = (i[0] * heads + i[1] / o->groups) * S;
    double sum = 0, want[DV] = {0};
    for (i[3] = 0; i[3] < S; ++i[3]) {
      double score = 0;
      if (!sees(o, &mask, i)) continue;
      for (int64_t d = 0; d < D; ++d)
        score += at(&in[0], row * D + d) * at(&in[1], (keys + i[3]) * D + d);
      score = exp(score / sqrt(D) + (o->bias ? scattered(&bias, i) : 0));
      sum += score;
      for (int64_t d = 0; d < DV; ++d) {
        want[d] +=
            score * (o->p > 0 ? scattered(factors, i) : 1) * at(&in[2], (keys + i[3]) * DV + d);
      }
    }
    for (int64_t d = 0; d < DV; ++d) {
      check_near(at(&out[0], row * DV + d), sum > 0 ? want[d] / sum : 0, tolerance, "out",
                 row * DV + d);
    }
    if (sum > 0) {
      check_near(at(&out[1], row), log(sum), 16 * shoal_dtype_epsilon(out[1].dtype), "lse", row);
    } else {
      assert_true(at(&out[1], row) == -INFINITY);
    }
  }
}

static void options(void **state) {
  (void)state;
  static const options_t all[] = {
      {.groups = 1},
      {.groups = 1, .causal = 1},
      {.groups = 2, .causal = 1, .window = 2},
      {.groups = 4, .window = 2},
      {.groups = 1, .bias = true},
      {.groups = 2, .mask = true},
      {.groups = 1, .p = 0.4},
      {.groups = 2, .causal = 1, .window = 3, .p = 0.25, .bias = true, .mask = true},
  };
  static const shoal_dtype_t dtypes[] = {SHOAL_F64, SHOAL_F32, SHOAL_BF16};
  bench_t b;
  bench_init(&b);
  for (size_t k = 0; k < sizeof all / sizeof *all; ++k) {
    for (int t = 0; t < 3; ++t) compare(&b, dtypes[t], &all[k]);
  }
  bench_deinit(&b);
}

static void refused(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  shoal_tensor_t q = random_tensor(&b, SHOAL_F32, SHOAL_SHAPE(B, H, T, D), 2, 1), out[2];
  shoal_tensor_t k = random_tensor(&b, SHOAL_F32, SHOAL_SHAPE(B, 2, S, D), 2, 2);
  shoal_tensor_t bias = random_tensor(&b, SHOAL_F32, SHOAL_SHAPE(B, 3, T, S), 2, 3);
  shoal_tensor_t wide = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(B, H, T, S), 2, 3);
  const shoal_attr_t causal = shoal_attr_int("causal", 0), two = shoal_attr_int("groups", 2);
  const shoal_attr_t with = shoal_attr_string("with", "bias");
  assert_error(INVALID_ARGUMENT, "q has 4 heads and k 2, each of which is for 1 of q (groups)",
               run_named(&b, "shoal.attention", TENSORS(q, k, k), ATTRS(causal), out, NULL));
  assert_error(INVALID_ARGUMENT, "bias has size 3 along dim 1: it must be 1 or 4",
               run_named(&b, "shoal.attention", TENSORS(q, k, k, bias), ATTRS(causal, two, with),
                         out, NULL));
  assert_error(INVALID_ARGUMENT, "bias must be f32",
               run_named(&b, "shoal.attention", TENSORS(q, k, k, wide), ATTRS(causal, two, with),
                         out, NULL));
  assert_error(INVALID_ARGUMENT, "dropout with p = 0.5 needs the input step",
               run_named(&b, "shoal.attention", TENSORS(q, k, k),
                         ATTRS(causal, two, shoal_attr_real("p", 0.5)), out, NULL));
  bench_deinit(&b);
}

// Pairs turn by position base^(-2 i / n); turning back gives x.
static void rotary(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  for (int64_t interleaved = 0; interleaved < 2; ++interleaved) {
    for (int64_t given = 0; given < 2; ++given) {
      shoal_tensor_t in[2] = {random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(B, H, T, 6), 2, 1),
                              random_tensor(&b, SHOAL_I32, SHOAL_SHAPE(B, T), 100, 2)};
      shoal_tensor_t out[1], back[1];
      const shoal_attr_t dims = shoal_attr_int("dims", 4), base = shoal_attr_real("base", 50);
      const shoal_attr_t pairs = shoal_attr_int("interleaved", interleaved);
      const shoal_attr_t with = shoal_attr_string("with", given ? "positions" : "");
      assert_ok(run_named(&b, "shoal.rotary", 1 + (int32_t)given, in,
                          ATTRS(dims, base, pairs, with), out, NULL));
      for (int64_t r = 0; r < B * H * T; ++r) {
        const double t = given ? at(&in[1], r / (H * T) * T + r % T) : (double)(r % T);
        for (int64_t i = 0; i < 2; ++i) {
          const double angle = t * pow(50, -2.0 * (double)i / 4);
          const int64_t one = r * 6 + (interleaved ? 2 * i : i);
          const int64_t two = r * 6 + (interleaved ? 2 * i + 1 : i + 2);
          check_near(at(out, one), at(in, one) * cos(angle) - at(in, two) * sin(angle), 1e-13,
                     "first", one);
          check_near(at(out, two), at(in, two) * cos(angle) + at(in, one) * sin(angle), 1e-13,
                     "second", two);
        }
        for (int64_t i = 4; i < 6; ++i) assert_true(at(out, r * 6 + i) == at(in, r * 6 + i));
      }
      const shoal_tensor_t turned[2] = {out[0], in[1]};
      assert_ok(run_named(&b, "shoal.rotary", 1 + (int32_t)given, turned,
                          ATTRS(dims, base, pairs, with, shoal_attr_int("inverse", 1)), back,
                          NULL));
      for (int64_t i = 0; i < B * H * T * 6; ++i) check_near(at(back, i), at(in, i), 1e-13, "x", i);
    }
  }
  shoal_tensor_t odd = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(T, 3), 2, 1), out[1];
  assert_error(INVALID_ARGUMENT, "dims is 3: it must be even and at most 3",
               run_named(&b, "shoal.rotary", TENSORS(odd), NO_ATTRS, out, NULL));
  bench_deinit(&b);
}

// For longer texts: rates of Llama 3.1, base 500000 and 8 pairs, are transformers' own inv_freq.
static void stretched(void **state) {
  (void)state;
  static const double RATES[] = {1,
                                 0.19392274474868576,
                                 0.037606030930863933,
                                 0.0072926647372171085,
                                 0.00052484616099295468,
                                 3.4281021959525912e-05,
                                 6.6478698711812362e-06,
                                 1.2891731721515574e-06};
  const struct {
    double factor, low, high;
    int64_t original;
  } cases[] = {{4, 1, 4, 0}, {8, 1, 4, 8192}};
  bench_t b;
  bench_init(&b);
  for (int c = 0; c < 2; ++c) {
    shoal_tensor_t in[2] = {random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(T, 16), 2, 1),
                            random_tensor(&b, SHOAL_I32, SHOAL_SHAPE(T), 100, 2)},
                   out[1];
    assert_ok(run_named(
        &b, "shoal.rotary", 2, in,
        ATTRS(shoal_attr_real("base", 500000), shoal_attr_real("factor", cases[c].factor),
              shoal_attr_real("low", cases[c].low), shoal_attr_real("high", cases[c].high),
              shoal_attr_int("original", cases[c].original),
              shoal_attr_string("with", "positions")),
        out, NULL));
    for (int64_t r = 0; r < T; ++r) {
      for (int64_t i = 0; i < 8; ++i) {
        const double rate = c == 0 ? pow(500000, (double)i / -8) / 4 : RATES[i];
        const double angle = at(&in[1], r) * rate;
        const int64_t one = r * 16 + i, two = one + 8;
        check_near(at(out, one), at(in, one) * cos(angle) - at(in, two) * sin(angle), 1e-12,
                   "first", one);
      }
    }
  }
  shoal_tensor_t x = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(T, 4), 2, 1), out[1];
  assert_error(
      INVALID_ARGUMENT, "high is 1: it must be above low, 1",
      run_named(&b, "shoal.rotary", TENSORS(x),
                ATTRS(shoal_attr_real("high", 1), shoal_attr_int("original", 9)), out, NULL));
  assert_error(
      INVALID_ARGUMENT, "factor is -1: it must be above 0",
      run_named(&b, "shoal.rotary", TENSORS(x), ATTRS(shoal_attr_real("factor", -1)), out, NULL));
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(options), cmocka_unit_test(refused),
                                     cmocka_unit_test(rotary), cmocka_unit_test(stretched)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
