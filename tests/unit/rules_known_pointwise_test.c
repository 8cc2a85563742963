// Rules that a practitioner expects of element-wise ops, losses, reductions and scans: any dim and
// flat ranges for what is done element by element, partial results where an op is linear or joins
// its parts, and nothing along the axis of a scan.
#include "rules_support.h"

// ---- element by element -------------------------------------------------------------------------

// Of two operands of one shape: along each dim, flat, and nothing else.
static void pairs(void **state) {
  (void)state;
  static const struct {
    const char *op, *example;
  } ops[] = {
      {"less", "f64[3,5], f64[3,5]"},
      {"less_equal", "i32[3,5]<9, i32[3,5]<9"},
      {"greater", "bf16[3,5], bf16[3,5]"},
      {"not_equal", "f32[3,5], f32[3,5]"},
      {"logical_and", "bool[3,5], bool[3,5]"},
      {"logical_or", "bool[3,5], bool[3,5]"},
      {"logical_xor", "bool[3,5], bool[3,5]"},
      {"bitwise_and", "i64[3,5]<100, i64[3,5]<100"},
      {"bitwise_or", "u8[3,5]<100, u8[3,5]<100"},
      {"bitwise_xor", "i32[3,5]<100, i32[3,5]<100"},
      {"shift_right", "i64[3,5]<100, i64[3,5]<9"},
      {"floor_div", "f64[3,5], f64[3,5]+"},
      {"floor_div", "i64[3,5]<100, i64[3,5]<9+"},  // not linear, though a / 1 would be
      {"remainder", "f32[3,5], f32[3,5]+"},
      {"remainder", "i32[3,5]<100, i32[3,5]<9+"},
      {"pow", "f64[3,5]+, f64[3,5]"},
      {"atan2", "f64[3,5], f64[3,5]"},
      {"logaddexp", "f32[3,5], f32[3,5]"},
  };
  bench_t b;
  bench_init(&b);
  int wrong = 0;
  for (size_t i = 0; i < sizeof ops / sizeof *ops; ++i)
    wrong += compare_rule(&b, ops[i].op, ops[i].example,
                          "{a:0, b:0 -> out:0}~ {a:1, b:1 -> out:1}~ {a:flat, b:flat -> out:flat}");
  bench_deinit(&b);
  assert_int_equal(wrong, 0);
}

static void singles(void **state) {
  (void)state;
  static const char *const ops[] = {
      "abs",  "sign",  "reciprocal", "rsqrt",  "log1p",  "expm1",     "exp2", "log2", "sin",
      "cos",  "tan",   "asin",       "acos",   "atan",   "sinh",      "cosh", "erf",  "floor",
      "ceil", "round", "trunc",      "is_nan", "is_inf", "is_finite", "clamp"};
  bench_t b;
  bench_init(&b);
  int wrong = 0;
  for (size_t i = 0; i < sizeof ops / sizeof *ops; ++i) {
    const char *example =
        strcmp(ops[i], "clamp") == 0 ? "f64[3,5] ; min=-0.3, max=0.2" : "f64[3,5]";
    wrong +=
        compare_rule(&b, ops[i], example, "{x:0 -> out:0}~ {x:1 -> out:1}~ {x:flat -> out:flat}");
  }
  bench_deinit(&b);
  assert_int_equal(wrong, 0);
}

// The gradient of an activation is linear in dy and in nothing else, also where its slope is
// constant over some range of x.
static void slopes(void **state) {
  (void)state;
  static const char *const ops[] = {"silu", "gelu_erf",     "elu",        "celu",
                                    "selu", "leaky_relu",   "softplus",   "log_sigmoid",
                                    "mish", "hard_sigmoid", "hard_swish", "softsign"};
  bench_t b;
  bench_init(&b);
  int wrong = 0;
  for (size_t i = 0; i < sizeof ops / sizeof *ops; ++i) {
    wrong += compare_rule(&b, ops[i], "f64[3,5]",
                          "{x:0 -> out:0}~ {x:1 -> out:1}~ {x:flat -> out:flat}");
    wrong += compare_rule(&b, shoal_arena_printf(&b.arena, "%s_grad", ops[i]), "f64[3,5], f64[3,5]",
                          "{x:0, dy:0 -> dx:0}~ {x:1, dy:1 -> dx:1}~ {x:flat, dy:flat -> dx:flat} "
                          "{dy:sum -> dx:sum}");
  }
  bench_deinit(&b);
  assert_int_equal(wrong, 0);
}

// Losses before their reduction.
static void losses(void **state) {
  (void)state;
  static const char *const ops[] = {
      "mse", "l1", "huber", "smooth_l1", "bce", "bce_with_logits", "kl_div", "poisson_nll"};
  bench_t b;
  bench_init(&b);
  int wrong = 0;
  for (size_t i = 0; i < sizeof ops / sizeof *ops; ++i)
    wrong += compare_rule(
        &b, ops[i], "f64[3,5]<1, f64[3,5]<1",
        "{x:0, target:0 -> loss:0}~ {x:1, target:1 -> loss:1}~ {x:flat, target:flat -> "
        "loss:flat}");
  bench_deinit(&b);
  assert_int_equal(wrong, 0);
}

// ---- all others ---------------------------------------------------------------------------------

static const known_rule_t KNOWN[] = {
    {"less", "f32[2,3,5], f32[5]", "{a:0 -> out:0}~ {a:1 -> out:1}~ {a:2, b:0 -> out:2}~"},
    {"shift_left", "i64[3,5]<100, i64[3,5]<9",
     "{a:0, b:0 -> out:0}~ {a:1, b:1 -> out:1}~ {a:flat, b:flat -> out:flat}"},
    {"logical_not", "bool[3,5]", "{x:0 -> out:0}~ {x:1 -> out:1}~ {x:flat -> out:flat}"},
    {"power", "f64[3,5]+ ; exponent=1.5", "{x:0 -> out:0}~ {x:1 -> out:1}~ {x:flat -> out:flat}"},
    {"lerp", "f64[3,5], f64[3,5], f64[]",
     "{a:0, b:0 -> out:0}~ {a:1, b:1 -> out:1}~ {a:flat, b:flat -> out:flat}"},
    {"clamp", "f64[3,5] ; min=-65504, max=65504",  // linear only as long as nothing is clamped
     "{x:0 -> out:0}~ {x:1 -> out:1}~ {x:flat -> out:flat}"},
    {"clamp", "f64[3,5] ; min=-1e30, max=1e30",
     "{x:0 -> out:0}~ {x:1 -> out:1}~ {x:flat -> out:flat}"},
    {"clamp_grad", "f64[3,5], f64[3,5] ; min=-6, max=6",
     "{x:0, dy:0 -> dx:0}~ {x:1, dy:1 -> dx:1}~ {x:flat, dy:flat -> dx:flat} {dy:sum -> dx:sum}"},
    {"clamp_grad", "f64[3,5], f64[3,5] ; min=-0.3, max=0.2",
     "{x:0, dy:0 -> dx:0}~ {x:1, dy:1 -> dx:1}~ {x:flat, dy:flat -> dx:flat} {dy:sum -> dx:sum}"},
    {"neg", "i64[3,5]<9", "{x:0 -> out:0}~ {x:1 -> out:1}~ {x:flat -> out:flat}"},
    // reductions
    {"reduce_any", "bool[3,5] ; dims=[1]", "{x:0 -> out:0}~ {x:1 -> out:max}~"},
    {"reduce_all", "bool[3,5] ; dims=[0]", "{x:0 -> out:min}~ {x:1 -> out:0}~"},
    {"reduce_prod", "f64[3,5] ; dims=[1]", "{x:0 -> out:0}~ {x:1 -> out:prod}~"},
    {"reduce_prod", "i64[3,5]<9 ; dims=[0]", "{x:0 -> out:prod}~ {x:1 -> out:0}~"},
    {"reduce_prod_grad", "f64[3,5], f64[3,5] ; dims=[1]",
     "{x:0, dy:0 -> dx:0}~ {dy:sum -> dx:sum}"},
    {"argmax", "f64[3,5] ; axis=1", "{x:0 -> index:0}~"},
    {"argmin", "f32[3,5,2] ; axis=1, keep=1", "{x:0 -> index:0}~ {x:2 -> index:2}~"},
    {"variance", "f64[3,5] ; dims=[1]", "{x:0 -> out:0}~"},
    {"norm", "f64[3,5] ; dims=[1]", "{x:0 -> out:0}~"},
    {"norm", "f64[3,5] ; dims=[1], p=1", "{x:0 -> out:0}~ {x:1 -> out:sum}~"},
    {"norm", "f64[3,5] ; dims=[1], p=inf", "{x:0 -> out:0}~ {x:1 -> out:max}~"},
    {"norm", "f64[3,5] ; dims=[1], p=-inf", "{x:0 -> out:0}~ {x:1 -> out:min}~"},
    // scans
    {"cumsum", "f64[3,5] ; axis=1", "{x:0 -> out:0}~ {x:sum -> out:sum}"},
    {"cumsum", "f64[3,5,2] ; axis=0, reverse=1, exclusive=1",
     "{x:1 -> out:1}~ {x:2 -> out:2}~ {x:sum -> out:sum}"},
    {"cumprod", "f64[3,5] ; axis=1", "{x:0 -> out:0}~"},
    {"cumprod_grad", "f64[3,5], f64[3,5] ; axis=1", "{x:0, dy:0 -> dx:0}~ {dy:sum -> dx:sum}"},
};

static void known(void **state) {
  (void)state;
  EXPECT_RULES(KNOWN);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pairs),  cmocka_unit_test(singles), cmocka_unit_test(slopes),
      cmocka_unit_test(losses), cmocka_unit_test(known),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
