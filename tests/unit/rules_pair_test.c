// Pairs that log-sum-exp merges are found for ops of users too, with logarithms [T] or [T, 1]; and
// two outputs of which only one could be merged so are none.
#include <math.h>

#include "rules_support.h"

// x [T, S], v [S, D] -> out [T, D], lse [T] or [T, 1]
static shoal_status_t pooled_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_shape_t *x = &call->inputs[0].shape, *v = &call->inputs[1].shape;
  const bool kept = call->op->name[5] == 'k';
  if (x->rank != 2 || v->rank != 2 || x->dims[1] != v->dims[0])
    return SHOAL_ERROR(INVALID_ARGUMENT, "x [T, S] and v [S, D] are wanted");
  out_types[0] = (shoal_type_t){SHOAL_F64, SHOAL_SHAPE(x->dims[0], v->dims[1])};
  out_types[1] =
      (shoal_type_t){SHOAL_F64, kept ? SHOAL_SHAPE(x->dims[0], 1) : SHOAL_SHAPE(x->dims[0])};
  return NULL;
}

// A mean of the rows of v, weighted by exp(x), and the logarithm of the weights' sum; "sums" does
// not divide.
static shoal_status_t pooled_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                    const shoal_tensor_t *outputs, void *workspace) {
  (void)workspace;
  const int64_t t = inputs[0].shape.dims[0], s = inputs[0].shape.dims[1];
  const int64_t d = inputs[1].shape.dims[1];
  const double *x = inputs[0].data, *v = inputs[1].data;
  double *out = outputs[0].data, *lse = outputs[1].data;
  for (int64_t i = 0; i < t; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < s; ++k) sum += exp(x[i * s + k]);
    lse[i] = log(sum);
    for (int64_t j = 0; j < d; ++j) {
      double total = 0;
      for (int64_t k = 0; k < s; ++k) total += exp(x[i * s + k]) * v[k * d + j];
      out[i * d + j] = call->op->name[5] == 's' || sum == 0 ? total : total / sum;
    }
  }
  return NULL;
}

static const char *const names[] = {"x", "v", "out", "lse"};

static shoal_op_t op_named(const char *name) {
  return (shoal_op_t){.name = name,
                      .doc = "a weighted mean",
                      .input_count = 2,
                      .inputs = names,
                      .output_count = 2,
                      .outputs = names + 2,
                      .infer = pooled_infer,
                      .kernel = pooled_kernel};
}

static void test_pairs(void **state) {
  (void)state;
  static const struct {
    const char *op, *rule;
  } cases[] = {
      {"user.pooled",
       " {x:0 -> out:0, lse:0}~ {x:1, v:0 -> out:lse, lse:lse}~ {v:1 -> out:1}~ {v:sum -> "
       "out:sum}"},
      {"user.kept",
       " {x:0 -> out:0, lse:0}~ {x:1, v:0 -> out:lse, lse:lse}~ {v:1 -> out:1}~ {v:sum -> "
       "out:sum}"},
      {"user.sums", " {x:0 -> out:0, lse:0}~ {v:1 -> out:1}~ {v:sum -> out:sum}"},
  };
  bench_t b;
  bench_init(&b);
  shoal_op_t ops[3];
  for (int i = 0; i < 3; ++i) {
    ops[i] = op_named(cases[i].op);
    assert_ok(shoal_op_register(b.registry, &ops[i]));
    const shoal_op_t *op = bench_op(&b, cases[i].op);
    shoal_call_t call = bench_call(&b, op, "f64[5,7], f64[7,3]");
    assert_string_equal(rule_text(&b, op, bench_rule(&b, &call)), cases[i].rule);
  }
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_pairs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
