// Rules that a practitioner expects of softmax, norms, attention and losses over classes: whole
// rows by any other dim, parameters replicated and their gradients summed.
#include "rules_support.h"

static const struct {
  const char *op, *example, *ways;
} KNOWN[] = {
    {"log_softmax", "f64[3,5,7] ; axis=1", "{x:0 -> out:0}~ {x:2 -> out:2}~"},
    {"log_softmax_grad", "f64[3,5], f64[3,5] ; axis=1", "{y:0, dy:0 -> dx:0}~ {dy:sum -> dx:sum}"},
    {"rms_norm", "f64[2,3,5], f64[5] ; with=\"gamma\"",
     "{x:0 -> y:0, rstd:0}~ {x:1 -> y:1, rstd:1}~ {gamma:sum -> y:sum}"},
    {"rms_norm", "f64[3,5]", "{x:0 -> y:0, rstd:0}~"},
    {"rms_norm_grad", "f64[3,5], f64[3]+, f64[3,5], f64[5] ; with=\"gamma\"",
     "{x:0, rstd:0, dy:0 -> dx:0, dgamma:sum}~ {dy:sum -> dx:sum, dgamma:sum} {gamma:sum -> "
     "dx:sum}"},
    {"rms_norm_grad", "f64[3,5], f64[3]+, f64[3,5]",
     "{x:0, rstd:0, dy:0 -> dx:0}~ {dy:sum -> dx:sum}"},
};

static void known(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  int wrong = 0;
  for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; ++i) {
    const shoal_op_t *op = bench_op(&b, shoal_arena_printf(&b.arena, "shoal.%s", KNOWN[i].op));
    shoal_call_t call = bench_call(&b, op, KNOWN[i].example);
    const char *found = rule_text(&b, op, bench_rule(&b, &call));
    if (found[0] == ' ' && strcmp(found + 1, KNOWN[i].ways) == 0) continue;
    print_error("%s %s\n  expected  %s\n  found    %s\n", KNOWN[i].op, KNOWN[i].example,
                KNOWN[i].ways, found);
    ++wrong;
  }
  bench_deinit(&b);
  assert_int_equal(wrong, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(known)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
