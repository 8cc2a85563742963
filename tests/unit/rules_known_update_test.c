// Rules that a practitioner expects of optimizer updates: parameters and moments may be cut along
// any dim, and in flat ranges, as ZeRO does; norms of gradients are sums over parts.
#include "rules_support.h"

static void updates(void **state) {
  (void)state;
  static const known_rule_t rules[] = {
      {"sgd_update", "f64[3,5], f64[3,5], f64[]+ ; weight_decay=0.1",
       "{w:0, g:0 -> w:0}~ {w:1, g:1 -> w:1}~ {w:flat, g:flat -> w:flat}"},
      {"sgd_momentum_update",
       "f32[3,5], f32[3,5], f32[3,5], f64[]+ ; momentum=0.9, weight_decay=0.1, nesterov=1",
       "{w:0, g:0, m:0 -> w:0, m:0}~ {w:1, g:1, m:1 -> w:1, m:1}~ "
       "{w:flat, g:flat, m:flat -> w:flat, m:flat}"},
      {"adam_update",
       "bf16[7], bf16[7], bf16[7], bf16[7]+, f32[]+, i64[]<9+ ; "
       "beta1=0.9, beta2=0.99, eps=1e-8, weight_decay=0.1",
       "{w:0, g:0, m:0, v:0 -> w:0, m:0, v:0}~ "
       "{w:flat, g:flat, m:flat, v:flat -> w:flat, m:flat, v:flat}"},
      {"lion_update",
       "f64[3,5], f64[3,5], f64[3,5], f64[]+ ; beta1=0.9, beta2=0.99, weight_decay=0.1",
       "{w:0, g:0, m:0 -> w:0, m:0}~ {w:1, g:1, m:1 -> w:1, m:1}~ "
       "{w:flat, g:flat, m:flat -> w:flat, m:flat}"},
      {"ema_update", "f64[3,5], f64[3,5], f64[]",
       "{e:0, x:0 -> e:0}~ {e:1, x:1 -> e:1}~ {e:flat, x:flat -> e:flat}"},
      {"lamb_direction",
       "f32[3,5], f32[3,5], f32[3,5], f32[3,5]+, i64[]<9+ ; "
       "beta1=0.9, beta2=0.99, eps=1e-6, weight_decay=0.1",
       "{w:0, g:0, m:0, v:0 -> r:0, m:0, v:0}~ {w:1, g:1, m:1, v:1 -> r:1, m:1, v:1}~ "
       "{w:flat, g:flat, m:flat, v:flat -> r:flat, m:flat, v:flat}"},
      {"lamb_update",  // in phases alone
       "f32[3,5], f32[3,5], f32[3,5], f32[3,5]+, f32[]+, i64[]<9+ ; "
       "beta1=0.9, beta2=0.99, eps=1e-6, weight_decay=0.1",
       ""},
      {"adafactor_update", "f32[3,5], f32[3,5], f32[3]+, f32[5]+, f32[]+, i64[]<9+", ""},
      {"adafactor_vector_update", "f32[7], f32[7], f32[7]+, f32[]+, i64[]<9+", ""},
      {"muon_update", "f32[3,5], f32[3,5], f32[3,5], f32[]+", ""},
      {"muon_update", "f32[8,3,5], f32[8,3,5], f32[8,3,5], f32[]+",  // stacked: by matrix
       "{w:0, g:0, m:0 -> w:0, m:0}~"},
      {"sum_squares", "f64[3,5]", "{x:0 -> out:sum}~ {x:1 -> out:sum}~ {x:flat -> out:sum}"},
  };
  EXPECT_RULES(rules);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(updates)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
