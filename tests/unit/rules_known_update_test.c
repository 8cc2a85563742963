// Rules that a practitioner expects of optimizer updates: parameters and moments may be cut along
// any dim, and in flat ranges, as ZeRO does; norms of gradients are sums over parts.
#include "rules_support.h"

static void updates(void **state) {
  (void)state;
  static const struct {
    const char *op, *example, *expected;
  } rules[] = {
      {"sgd_update", "f64[3,5], f64[3,5], f64[]+ ; weight_decay=0.1",
       " {w:0, g:0 -> w:0}~ {w:1, g:1 -> w:1}~ {w:flat, g:flat -> w:flat}"},
      {"sgd_momentum_update",
       "f32[3,5], f32[3,5], f32[3,5], f64[]+ ; momentum=0.9, weight_decay=0.1, nesterov=1",
       " {w:0, g:0, m:0 -> w:0, m:0}~ {w:1, g:1, m:1 -> w:1, m:1}~ "
       "{w:flat, g:flat, m:flat -> w:flat, m:flat}"},
      {"adam_update",
       "bf16[7], bf16[7], bf16[7], bf16[7]+, f32[]+, i64[]<9+ ; "
       "beta1=0.9, beta2=0.99, eps=1e-8, weight_decay=0.1",
       " {w:0, g:0, m:0, v:0 -> w:0, m:0, v:0}~ "
       "{w:flat, g:flat, m:flat, v:flat -> w:flat, m:flat, v:flat}"},
      {"lion_update",
       "f64[3,5], f64[3,5], f64[3,5], f64[]+ ; beta1=0.9, beta2=0.99, weight_decay=0.1",
       " {w:0, g:0, m:0 -> w:0, m:0}~ {w:1, g:1, m:1 -> w:1, m:1}~ "
       "{w:flat, g:flat, m:flat -> w:flat, m:flat}"},
      {"ema_update", "f64[3,5], f64[3,5], f64[]",
       " {e:0, x:0 -> e:0}~ {e:1, x:1 -> e:1}~ {e:flat, x:flat -> e:flat}"},
      {"sum_squares", "f64[3,5]", " {x:0 -> out:sum}~ {x:1 -> out:sum}~ {x:flat -> out:sum}"},
  };
  bench_t b;
  bench_init(&b);
  int wrong = 0;
  for (size_t i = 0; i < sizeof rules / sizeof *rules; ++i) {
    const shoal_op_t *op = bench_op(&b, shoal_arena_printf(&b.arena, "shoal.%s", rules[i].op));
    shoal_call_t call = bench_call(&b, op, rules[i].example);
    const char *found = rule_text(&b, op, bench_rule(&b, &call));
    if (strcmp(found, rules[i].expected) == 0) continue;
    print_error("%s\n  expected%s\n  found   %s\n", rules[i].op, rules[i].expected, found);
    wrong++;
  }
  bench_deinit(&b);
  assert_int_equal(wrong, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(updates)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
