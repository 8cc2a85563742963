// Discovered rules: what they are for known ops, that every op has one, that small probes of large
// calls have the same, and that nothing leaks when memory is short. (Those that come with the build
// are the same: rules_shipped_test.)
#include "base/failing.h"
#include "rules_support.h"

static const known_rule_t EXPECTED[] = {
    // products
    {"matmul", "f64[3,5], f64[5,7]",
     "{a:0 -> out:0}~ {a:1, b:0 -> out:sum}~ {b:1 -> out:1}~ {a:sum -> out:sum} {b:sum -> "
     "out:sum}"},
    {"einsum", "f64[2,3,5], f64[5,7] ; equation=\"btc,cn->btn\"",
     "{a:0 -> out:0}~ {a:1 -> out:1}~ {a:2, b:0 -> out:sum}~ {b:1 -> out:2}~ {a:sum -> out:sum} "
     "{b:sum -> out:sum}"},
    {"matmul", "f64[4,4], f64[4,4]",  // all sizes alike: the data tells
     "{a:0 -> out:0}~ {a:1, b:0 -> out:sum}~ {b:1 -> out:1}~ {a:sum -> out:sum} {b:sum -> "
     "out:sum}"},
    // element-wise
    {"add", "f64[3,5], f64[3,5]",
     "{a:0, b:0 -> out:0}~ {a:1, b:1 -> out:1}~ {a:flat, b:flat -> out:flat} {a:sum, b:sum -> "
     "out:sum}"},
    {"add", "f32[2,3,5], f32[5]",
     "{a:0 -> out:0}~ {a:1 -> out:1}~ {a:2, b:0 -> out:2}~ {a:sum, b:sum -> out:sum}"},
    {"add", "f64[2,2], f64[2,2]",  // parts of one element broadcast
     "{a:0, b:0 -> out:0}~ {a:1, b:1 -> out:1}~ {a:flat, b:flat -> out:flat} {a:sum, b:sum -> "
     "out:sum}"},
    {"mul", "f64[3], f64[3]",
     "{a:0, b:0 -> out:0}~ {a:flat, b:flat -> out:flat} {a:sum -> out:sum} {b:sum -> out:sum}"},
    {"relu", "f64[3,5]", "{x:0 -> out:0}~ {x:1 -> out:1}~ {x:flat -> out:flat}"},
    {"relu_grad", "f64[7], f64[7]",
     "{x:0, dy:0 -> dx:0}~ {x:flat, dy:flat -> dx:flat} {dy:sum -> dx:sum}"},
    {"cast", "f32[3,5] ; dtype=bf16",
     "{x:0 -> out:0}~ {x:1 -> out:1}~ {x:flat -> out:flat} {x:sum -> out:sum}"},
    {"cast", "f32[5] ; dtype=i64", "{x:0 -> out:0}~ {x:flat -> out:flat}"},
    {"where", "bool[], f64[7], f64[7]",  // what the condition is must not matter
     "{a:0, b:0 -> out:0}~ {a:flat, b:flat -> out:flat} {a:sum, b:sum -> out:sum}"},
    {"where", "bool[2], f64[2], f64[2]",  // nor that both of two happen to be true
     "{condition:0, a:0, b:0 -> out:0}~ {condition:flat, a:flat, b:flat -> out:flat} {a:sum, b:sum "
     "-> out:sum}"},
    // moving elements
    {"reshape", "f64[3,5,8] ; shape=[3,5,4,2]",
     "{x:0 -> out:0}~ {x:1 -> out:1}~ {x:2/2 -> out:2}~ {x:2*4 -> out:3}~ {x:flat -> out:flat} "
     "{x:sum -> out:sum}"},
    {"reshape", "f64[3,5,4,2] ; shape=[15,8]",
     "{x:0 -> out:0/5}~ {x:1 -> out:0*3}~ {x:2 -> out:1/2}~ {x:3 -> out:1*4}~ {x:flat -> out:flat} "
     "{x:sum -> out:sum}"},
    {"reshape", "f64[3,5,2] ; shape=[30]",
     "{x:0 -> out:0/10}~ {x:1 -> out:0*3/2}~ {x:2 -> out:0*15}~ {x:flat -> out:flat} "
     "{x:sum -> out:sum}"},
    {"reshape", "f64[6,4] ; shape=[4,6]",
     "{x:0/3 -> out:0/2}~ {x:1*2 -> out:1*3}~ {x:flat -> out:flat} {x:sum -> out:sum}"},
    {"slice", "f64[3,36] ; start=[0,12], size=[3,12]",
     "{x:0 -> out:0}~ {x:1 -> out:1@12..24}~ {x:sum -> out:sum}"},
    {"pad", "f64[3,4] ; start=[1,0], shape=[5,4]",
     "{x:0@1..4 -> out:0}~ {x:1 -> out:1}~ {x:sum -> out:sum}"},
    {"concat", "f64[3,5], f64[3,7] ; axis=1",
     "{xs[0]:0, xs[1]:0 -> out:0}~ {xs[0]:1@0..5, xs[1]:1@5..12 -> out:1}~ "
     "{xs[0]:sum, xs[1]:sum -> out:sum}"},
    {"transpose", "f32[2,3,5,7] ; perm=[0,2,1,3]",
     "{x:0 -> out:0}~ {x:1 -> out:2}~ {x:2 -> out:1}~ {x:3 -> out:3}~ {x:sum -> out:sum}"},
    {"broadcast_to", "f32[3,1] ; shape=[2,3,7]",
     "{x:0 -> out:1}~ {-> out:0}~ {-> out:2}~ {x:sum -> out:sum}"},
    // reductions
    {"reduce_sum", "f64[3,5,7] ; dims=[0,2]",
     "{x:0 -> out:sum}~ {x:1 -> out:0}~ {x:2 -> out:sum}~ {x:sum -> out:sum}"},
    {"reduce_mean", "f64[3,5] ; dims=[1]", "{x:0 -> out:0}~ {x:1 -> out:sum}~ {x:sum -> out:sum}"},
    {"reduce_max", "f64[3,5] ; dims=[1]", "{x:0 -> out:0}~ {x:1 -> out:max}~"},
    {"reduce_min", "i64[3,5]<9 ; dims=[0]", "{x:0 -> out:min}~ {x:1 -> out:0}~"},
    // norms, attention, losses: several phases are the decomposition's
    {"softmax", "f32[3,5,7] ; axis=1", "{x:0 -> out:0}~ {x:2 -> out:2}~"},
    {"layer_norm", "f32[2,3,5], f32[5], f32[5] ; eps=1e-3, with=\"gamma,beta\"",
     "{x:0 -> y:0, mean:0, rstd:0}~ {x:1 -> y:1, mean:1, rstd:1}~"},
    {"attention", "f64[2,3,5,4], f64[2,3,5,4], f64[2,3,5,4] ; causal=1",
     "{q:0, k:0, v:0 -> out:0, lse:0}~ {q:1, k:1, v:1 -> out:1, lse:1}~ {q:2 -> out:2, lse:2}~ "
     "{k:2, v:2 -> out:lse, lse:lse}~ {v:3 -> out:3}~ {v:sum -> out:sum}"},
    {"lse_merge", "f64[3,2,5,4], f64[3,2,5]",
     "{value:0, lse:0 -> out:lse, lse:lse}~ {value:1, lse:1 -> out:0, lse:0}~ "
     "{value:2, lse:2 -> out:1, lse:1}~ {value:3 -> out:2}~ {value:sum -> out:sum}"},
    {"cross_entropy", "f32[2,3,9], i32[2,3]<9",
     "{logits:0, labels:0 -> loss:sum}~ {logits:1, labels:1 -> loss:sum}~"},
    // indices
    {"embedding", "f32[9,5], i32[2,3]<9",
     "{table:0 -> out:sum}~ {table:1 -> out:2}~ {ids:0 -> out:0}~ {ids:1 -> out:1}~ "
     "{table:sum -> out:sum}"},
    {"embedding_grad", "i32[2,3]<9, f32[2,3,5] ; rows=9",
     "{ids:0, dy:0 -> dtable:sum}~ {ids:1, dy:1 -> dtable:sum}~ {dy:2 -> dtable:1}~ {-> dtable:0}~ "
     "{dy:sum -> dtable:sum}"},
    {"bound", "f32[2,3,7,3], i32[2,3]<8",
     "{x:0, counts:0 -> out:0}~ {x:1, counts:1 -> out:1}~ {x:2 -> out:2}~ {x:3 -> out:3}~ "
     "{x:sum -> out:sum}"},
    // sources
    {"full", "; shape=[3,5], value=0.5, dtype=f64", "{-> out:0}~ {-> out:1}~ {-> out:flat}"},
    {"iota", "; shape=[3,5], axis=0, dtype=f64", "{-> out:0}~ {-> out:1}~ {-> out:flat}"},
    {"random_normal", "i64[]<9 ; shape=[3,5], key=77, dtype=f32, mean=0, std=1",
     "{-> out:0}~ {-> out:1}~ {-> out:flat}"},
    {"dropout", "f64[3,5], i64[]<9 ; p=0.3, key=77",
     "{x:0 -> out:0}~ {x:1 -> out:1}~ {x:flat -> out:flat} {x:sum -> out:sum}"},
    // sliding windows
    {"conv", "f64[2,3,7,5], f64[4,3,3,3] ; stride=[1,1], padding=[1,1]",
     "{x:0 -> out:0}~ {x:1, w:1 -> out:sum}~ {x:2+1+1 -> out:2} {x:3+1+1 -> out:3} {w:0 -> out:1}~ "
     "{x:sum -> out:sum} {w:sum -> out:sum}"},
    {"conv", "f64[1,2,9,10], f64[3,2,3,3] ; stride=[2,1], padding=[1,0]",
     "{x:1, w:1 -> out:sum}~ {x:2/2#5+1+0 -> out:2} {x:3#8+0+2 -> out:3} {w:0 -> out:1}~ "
     "{x:sum -> out:sum} {w:sum -> out:sum}"},
    {"conv", "f64[1,1,4,9], f64[2,1,7,3] ; stride=[1,1], padding=[3,1]",  // from end to end
     "{x:3+1+1 -> out:3} {w:0 -> out:1}~ {-> out:2}~ {x:sum -> out:sum} {w:sum -> out:sum}"},
    {"conv_grad_x", "f32[3,2,3,2], f32[1,3,5,6] ; shape=[1,2,9,7], stride=[2,1], padding=[1,0]",
     "{w:0, dy:1 -> dx:sum}~ {w:1 -> dx:1}~ {dy:2+0+1 -> dx:2/2#5} {dy:3#7+1+0 -> dx:3} "
     "{w:sum -> dx:sum} {dy:sum -> dx:sum}"},
    {"conv_grad_w", "f64[2,3,7,5], f64[2,4,7,5] ; kernel=[3,3], stride=[1,1], padding=[1,1]",
     "{x:0, dy:0 -> dw:sum}~ {x:1 -> dw:1}~ {x:2+1+1, dy:2 -> dw:sum} {x:3+1+1, dy:3 -> dw:sum} "
     "{dy:1 -> dw:0}~ {x:sum -> dw:sum} {dy:sum -> dw:sum}"},
    {"max_pool", "f64[2,3,7,9] ; kernel=[2,3], stride=[2,2], padding=[0,1]",
     "{x:0 -> out:0}~ {x:1 -> out:1}~ {x:2/2#3 -> out:2} {x:3/2#5+1+0 -> out:3}"},
    {"max_pool_grad",
     "f32[2,3,9,7], f32[2,3,5,4] ; kernel=[3,3], stride=[2,2], padding=[1,1], shape=[2,3,9,7]",
     "{x:0, dy:0 -> dx:0}~ {x:1, dy:1 -> dx:1}~ {x:2/2#5+1+2, dy:2+0+1 -> dx:2/2#5} "
     "{x:3/2#4+1+2, dy:3+0+1 -> dx:3/2#4} {dy:sum -> dx:sum}"},
    {"max_pool_grad",  // a stride of 2 would do with as small a halo, but leaves rows over
     "f64[1,1,14,4], f64[1,1,5,4] ; kernel=[2,1], stride=[3,1], padding=[1,0], shape=[1,1,14,4]",
     "{x:2/3#5+1+1, dy:2+0+1 -> dx:2/3#5} {x:3, dy:3 -> dx:3}~ {dy:sum -> dx:sum}"},
    // updates
    {"adamw_update",
     "f64[3,5], f64[3,5], f64[3,5], f64[3,5]+, f32[]+, i64[]<9+ ; beta1=0.9, beta2=0.999, "
     "eps=1e-3, "
     "weight_decay=0.1",
     "{w:0, g:0, m:0, v:0 -> w:0, m:0, v:0}~ {w:1, g:1, m:1, v:1 -> w:1, m:1, v:1}~ "
     "{w:flat, g:flat, m:flat, v:flat -> w:flat, m:flat, v:flat}"},
};

static void test_known_rules(void **state) {
  (void)state;
  EXPECT_RULES(EXPECTED);
}

static void test_rules_of_cases(void **state) {
  (void)state;
  shoal_registry_t *registry;
  shoal_rules_t *rules;
  const shoal_op_t *op;
  const shoal_rule_t *rule;
  assert_ok(shoal_registry_create(shoal_allocator_system(), &registry));
  assert_ok(shoal_rules_create(shoal_allocator_system(), &rules));
  assert_ok(shoal_op_find(registry, "shoal.matmul", &op));
  assert_ok(shoal_rules_of_case(rules, op, "f64[3,5], f64[5,7]", &rule));
  assert_int_equal(rule->way_count, 5);
  assert_error(INVALID_ARGUMENT, "case \"f64[3\" of shoal.matmul",
               shoal_rules_of_case(rules, op, "f64[3", &rule));
  shoal_rules_free(rules);
  shoal_registry_release(registry);
}

// ---- probes ------------------------------------------------------------------------------------

// Calls that can just be executed as they are.
static const known_rule_t MEDIUM[] = {
    {"matmul", "f64[16,24], f64[24,40]", NULL},
    {"einsum", "f64[16,12,8], f64[8,20] ; equation=\"btc,cn->btn\"", NULL},
    {"add", "f64[16,12,8], f64[8]", NULL},
    {"reshape", "f64[6,10,24] ; shape=[6,10,8,3]", NULL},
    {"reshape", "f64[6,10,8,12] ; shape=[60,96]", NULL},
    {"reshape", "f64[6,10,8] ; shape=[480]", NULL},
    {"reshape", "f64[15,2,10] ; shape=[5,60]", NULL},
    {"slice", "f64[10,8,144] ; start=[0,0,48], size=[10,8,48]", NULL},
    {"concat", "f64[6,32], f64[6,16], f64[6,16] ; axis=1", NULL},
    {"attention", "f64[6,8,10,4], f64[6,8,10,4], f64[6,8,10,4] ; causal=1", NULL},
    {"embedding", "f64[40,12], i32[6,10]<40", NULL},
    {"embedding_grad", "i32[6,10]<40, f64[6,10,12] ; rows=40", NULL},
    {"cross_entropy", "f64[6,10,40], i32[6,10]<40", NULL},
    {"dropout", "f64[16,24], i64[]<9 ; p=0.3, key=77", NULL},
    {"random_uniform", "i64[]<9 ; shape=[16,24], key=77, dtype=f32, low=0, high=1", NULL},
    {"reduce_max", "f64[16,12,8] ; dims=[0,2]", NULL},
    {"conv", "f64[6,4,14,14], f64[8,4,3,3] ; stride=[1,1], padding=[1,1]", NULL},
    {"conv", "f64[3,2,26,26], f64[8,2,5,5] ; stride=[2,2], padding=[2,2]", NULL},
    {"conv_grad_x", "f64[8,4,3,3], f64[6,8,10,10] ; shape=[6,4,20,20], stride=[2,2], padding=[1,1]",
     NULL},
    {"conv_grad_w", "f64[6,4,20,20], f64[6,8,10,10] ; kernel=[3,3], stride=[2,2], padding=[1,1]",
     NULL},
    {"max_pool", "f64[6,4,20,20] ; kernel=[3,3], stride=[2,2], padding=[1,1]", NULL},
    {"max_pool_grad",
     "f64[6,4,20,20], f64[6,4,10,10] ; kernel=[3,3], stride=[2,2], padding=[1,1], "
     "shape=[6,4,20,20]",
     NULL},
};

// The rule of a probe, lifted, is what executing the call itself gives.
static void test_probes_have_the_same_rule(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  int wrong = 0;
  for (size_t i = 0; i < sizeof MEDIUM / sizeof *MEDIUM; ++i) {
    const shoal_op_t *op = bench_op(&b, shoal_arena_printf(&b.arena, "shoal.%s", MEDIUM[i].op));
    shoal_call_t call = bench_call(&b, op, MEDIUM[i].example);
    const char *real = executed_rule(&b, &call);
    const char *small = rule_text(&b, op, bench_rule(&b, &call));
    if (strcmp(real, small) == 0) continue;
    print_error("%s %s\n  real %s\n  small%s\n", op->name, MEDIUM[i].example, real, small);
    ++wrong;
  }
  bench_deinit(&b);
  assert_int_equal(wrong, 0);
}

// Calls of real models: found in milliseconds, or the test does not end.
static const known_rule_t LARGE[] = {
    {"matmul", "bf16[3145728,12288], bf16[12288,49152]",
     "{a:0 -> out:0}~ {a:1, b:0 -> out:sum}~ {b:1 -> out:1}~ {a:sum -> out:sum} {b:sum -> "
     "out:sum}"},
    {"reshape", "bf16[1536,2048,12288] ; shape=[1536,2048,96,128]",
     "{x:0 -> out:0}~ {x:1 -> out:1}~ {x:2/128 -> out:2}~ {x:2*96 -> out:3}~ {x:flat -> out:flat} "
     "{x:sum -> out:sum}"},
    {"reshape", "bf16[1536,2048,96,128] ; shape=[3145728,12288]",
     "{x:0 -> out:0/2048}~ {x:1 -> out:0*1536}~ {x:2 -> out:1/128}~ {x:3 -> out:1*96}~ "
     "{x:flat -> out:flat} {x:sum -> out:sum}"},
    {"reshape", "f32[8,96,128,1024,5] ; shape=[8,1024,12288,5]",  // 96, 128, 1024 cross 1024, 12288
     "{x:0 -> out:0}~ {x:4 -> out:3}~ {x:flat -> out:flat} {x:sum -> out:sum}"},
    {"slice", "bf16[1536,2048,36864] ; start=[0,0,12288], size=[1536,2048,12288]",
     "{x:0 -> out:0}~ {x:1 -> out:1}~ {x:2 -> out:2@12288..24576}~ {x:sum -> out:sum}"},
    {"attention", "bf16[64,12,1024,64], bf16[64,12,1024,64], bf16[64,12,1024,64] ; causal=1",
     "{q:0, k:0, v:0 -> out:0, lse:0}~ {q:1, k:1, v:1 -> out:1, lse:1}~ {q:2 -> out:2, lse:2}~ "
     "{k:2, v:2 -> out:lse, lse:lse}~ {v:3 -> out:3}~ {v:sum -> out:sum}"},
    {"conv", "f32[256,3,224,224], f32[64,3,7,7] ; stride=[2,2], padding=[3,3]",
     "{x:0 -> out:0}~ {x:1, w:1 -> out:sum}~ {x:2/2+3+2 -> out:2} {x:3/2+3+2 -> out:3} {w:0 -> "
     "out:1}~ "
     "{x:sum -> out:sum} {w:sum -> out:sum}"},
    {"conv", "f32[3,2,226,226], f32[2,2,5,5] ; stride=[2,2], padding=[2,2]",  // 5 stays 5
     "{x:0 -> out:0}~ {x:1, w:1 -> out:sum}~ {x:2/2+2+1 -> out:2} {x:3/2+2+1 -> out:3} {w:0 -> "
     "out:1}~ "
     "{x:sum -> out:sum} {w:sum -> out:sum}"},
    {"conv", "f32[32,64,55,55], f32[64,64,1,1] ; stride=[2,2], padding=[0,0]",
     "{x:0 -> out:0}~ {x:1, w:1 -> out:sum}~ {x:2/2#28 -> out:2} {x:3/2#28 -> out:3} {w:0 -> "
     "out:1}~ "
     "{x:sum -> out:sum} {w:sum -> out:sum}"},
};

static void test_large_calls(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  for (size_t i = 0; i < sizeof LARGE / sizeof *LARGE; ++i) {
    const shoal_op_t *op = bench_op(&b, shoal_arena_printf(&b.arena, "shoal.%s", LARGE[i].op));
    shoal_call_t call = bench_call(&b, op, LARGE[i].example);
    const shoal_rule_t *rule = bench_rule(&b, &call);
    assert_string_equal(rule_text(&b, op, rule) + 1, LARGE[i].ways);
    for (int32_t w = 0; w < rule->way_count; ++w) {
      for (int32_t o = 0; o < call.input_count + call.output_count; ++o) {
        shoal_cut_t cut;
        bool cuts;
        assert_ok(shoal_way_cut(&rule->ways[w], o, operand_shape(&call, o), 0, NULL, &cuts, &cut));
      }
    }
  }
  bench_deinit(&b);
}

// ---- failures ----------------------------------------------------------------------------------

static void test_short_memory(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const shoal_op_t *op = bench_op(&b, "shoal.concat");
  shoal_call_t call = bench_call(&b, op, "f64[2,3], f64[2,2] ; axis=1");
  int64_t calls = 0, failed = 0;
  for (int64_t n = 0; n == 0 || n <= calls; ++n) {
    shoal_failing_t failing = {.fail_at = n};
    shoal_rules_t *rules = NULL;
    const shoal_rule_t *rule = NULL;
    shoal_status_t status = shoal_rules_create(shoal_allocator_failing(&failing), &rules);
    if (rules) shoal_rules_ignore_shipped(rules);
    if (!status) status = shoal_rules_get(rules, &call, &rule);
    if (n == 0) {
      assert_ok(status);
      calls = failing.calls;
      assert_true(calls > 15);
    } else if (status) {
      assert_int_equal(shoal_status_code(status), SHOAL_OUT_OF_MEMORY);
      shoal_status_free(status);
      ++failed;
      // The store is as it was: asked again, it answers.
      if (rules) assert_ok(shoal_rules_get(rules, &call, &rule));
    }
    if (rule) assert_int_equal(rule->way_count, 3);
    shoal_rules_free(rules);
    assert_int_equal(failing.live_blocks, 0);
  }
  assert_true(failed > 10);
  bench_deinit(&b);
}

static void test_refusals(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const shoal_rule_t *rule;
  const shoal_op_t *op = bench_op(&b, "shoal.matmul");
  shoal_type_t wrong[] = {{SHOAL_F32, SHOAL_SHAPE(2, 3)}, {SHOAL_F32, SHOAL_SHAPE(4, 5)}};
  shoal_call_t good = bench_call(&b, op, "f32[2,3], f32[3,5]");
  shoal_call_t call = good;
  call.inputs = wrong;
  assert_error(INVALID_ARGUMENT, "shoal.matmul", shoal_rules_get(b.rules, &call, &rule));
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_known_rules),
      cmocka_unit_test(test_rules_of_cases),
      cmocka_unit_test(test_probes_have_the_same_rule),
      cmocka_unit_test(test_large_calls),
      cmocka_unit_test(test_short_memory),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
