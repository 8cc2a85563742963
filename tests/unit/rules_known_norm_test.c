// Rules that a practitioner expects of softmax, norms, attention and losses over classes: whole
// rows by any other dim, parameters replicated and their gradients summed.
#include "rules_support.h"

static const known_rule_t KNOWN[] = {
    {"log_softmax", "f64[3,5,7] ; axis=1", "{x:0 -> out:0}~ {x:2 -> out:2}~"},
    {"log_sum_exp", "f64[3,5,7,2] ; dims=[1,3]", "{x:0 -> out:0}~ {x:2 -> out:1}~"},
    {"log_softmax_grad", "f64[3,5], f64[3,5] ; axis=1", "{y:0, dy:0 -> dx:0}~ {dy:sum -> dx:sum}"},
    {"rms_norm", "f64[2,3,5], f64[5] ; with=\"gamma\"",
     "{x:0 -> y:0, rstd:0}~ {x:1 -> y:1, rstd:1}~ {gamma:sum -> y:sum}"},
    {"rms_norm", "f64[3,5]", "{x:0 -> y:0, rstd:0}~"},
    {"rms_norm_grad", "f64[3,5], f64[3]+, f64[3,5], f64[5] ; with=\"gamma\"",
     "{x:0, rstd:0, dy:0 -> dx:0, dgamma:sum}~ {dy:sum -> dx:sum, dgamma:sum} {gamma:sum -> "
     "dx:sum}"},
    {"rms_norm_grad", "f64[3,5], f64[3]+, f64[3,5]",
     "{x:0, rstd:0, dy:0 -> dx:0}~ {dy:sum -> dx:sum}"},
    {"layer_norm", "f64[3,5]", "{x:0 -> y:0, mean:0, rstd:0}~"},
    {"layer_norm", "f64[3,2,5], f64[2,5] ; dims=2, with=\"beta\"", "{x:0 -> y:0, mean:0, rstd:0}~"},
    {"layer_norm", "f64[3,5], f64[5] ; with=\"gamma\"",
     "{x:0 -> y:0, mean:0, rstd:0}~ {gamma:sum -> y:sum}"},
    {"layer_norm_grad", "f64[3,5], f64[3], f64[3]+, f64[3,5], f64[5] ; beta=1, with=\"gamma\"",
     "{x:0, mean:0, rstd:0, dy:0 -> dx:0, dgamma:sum, dbeta:sum}~ {dy:sum -> dx:sum, dgamma:sum, "
     "dbeta:sum} {gamma:sum -> dx:sum}"},
    {"layer_norm_grad", "f64[3,2,5], f64[3], f64[3]+, f64[3,2,5]",
     "{x:0, mean:0, rstd:0, dy:0 -> dx:0}~ {dy:sum -> dx:sum}"},
    // losses over classes: rows are summed, whatever is ignored, weighted or smoothed
    {"cross_entropy", "f64[5,7], i64[5]<7", "{logits:0, labels:0 -> loss:sum}~"},
    {"cross_entropy", "f64[5,7], i64[5]<7, f64[7]+, f64[]+ ; smoothing=0.1, with=\"weights,total\"",
     "{logits:0, labels:0 -> loss:sum}~ {weights:sum -> loss:sum}"},
    {"cross_entropy_grad", "f64[5,7], i64[5]<7, f64[], f64[]+ ; with=\"total\"",
     "{logits:0, labels:0 -> dlogits:0}~ {dloss:sum -> dlogits:sum}"},
    {"label_weight", "i64[9]<7 ; classes=7, dtype=f64",
     "{labels:0 -> out:0}~ {labels:flat -> out:flat}"},
    {"batch_norm", "f64[3,2,5], f64[2], f64[2] ; with=\"gamma,beta\"",
     "{x:1, gamma:0, beta:0 -> y:1, mean:0, variance:0}~"},
    {"batch_norm_grad", "f64[3,2,5], f64[2], f64[2]+, f64[3,2,5], f64[2] ; beta=1, with=\"gamma\"",
     "{x:1, mean:0, variance:0, dy:1, gamma:0 -> dx:1, dgamma:0, dbeta:0}~ {dy:sum -> dx:sum, "
     "dgamma:sum, dbeta:sum} {gamma:sum -> dx:sum}"},
    {"group_norm", "f64[3,6,5], f64[6], f64[6] ; groups=2, with=\"gamma,beta\"",
     "{x:0 -> y:0, mean:0, variance:0}~ {x:1/3, gamma:0/3, beta:0/3 -> y:1/3, mean:1, "
     "variance:1}~"},
    {"group_norm",  // instance norm
     "f64[3,6,5] ; groups=6",
     "{x:0 -> y:0, mean:0, variance:0}~ {x:1 -> y:1, mean:1, variance:1}~"},
    {"group_norm_grad",
     "f64[3,6,5], f64[3,2], f64[3,2]+, f64[3,6,5], f64[6] ; beta=1, with=\"gamma\"",
     "{x:0, mean:0, variance:0, dy:0 -> dx:0, dgamma:sum, dbeta:sum}~ {x:1/3, mean:1, variance:1, "
     "dy:1/3, gamma:0/3 -> dx:1/3, dgamma:0/3, dbeta:0/3}~ {dy:sum -> dx:sum, dgamma:sum, "
     "dbeta:sum} "
     "{gamma:sum -> dx:sum}"},
    {"rotary", "f64[2,3,5,4]",
     "{x:0 -> out:0}~ {x:1 -> out:1}~ {x:2 -> out:2}~ {x:sum -> out:sum}"},
    {"rotary", "f64[2,3,5,4], i64[2,5]<9 ; with=\"positions\"",
     "{x:0, positions:0 -> out:0}~ {x:1 -> out:1}~ {x:2, positions:1 -> out:2}~ {x:sum -> "
     "out:sum}"},
    // attention: batch, heads, queries, values; keys by log-sum-exp
    {"attention", "f64[2,3,5,4], f64[2,3,5,4], f64[2,3,5,4] ; causal=1, window=3",
     "{q:0, k:0, v:0 -> out:0, lse:0}~ {q:1, k:1, v:1 -> out:1, lse:1}~ {q:2 -> out:2, lse:2}~ "
     "{k:2, v:2 -> out:lse, lse:lse}~ {v:3 -> out:3}~ {v:sum -> out:sum}"},
    {"attention",  // grouped queries: their heads alone, or with those of the keys
     "f64[2,8,3,2], f64[2,2,5,2], f64[2,2,5,3] ; causal=1, groups=4",
     "{q:0, k:0, v:0 -> out:0, lse:0}~ {q:1 -> out:1, lse:1}~ {q:1/4, k:1, v:1 -> out:1/4, "
     "lse:1/4}~ {q:2 -> out:2, lse:2}~ {k:2, v:2 -> out:lse, lse:lse}~ {v:3 -> out:3}~ {v:sum -> "
     "out:sum}"},
    {"attention",  // one head of keys for all
     "f64[2,4,3,2], f64[2,1,5,2], f64[2,1,5,3], i64[]<9 ; causal=0, groups=4, p=0.5, key=3, "
     "with=\"step\"",
     "{q:0, k:0, v:0 -> out:0, lse:0}~ {q:1 -> out:1, lse:1}~ {q:2 -> out:2, lse:2}~ {k:2, v:2 -> "
     "out:lse, lse:lse}~ {v:3 -> out:3}~ {v:sum -> out:sum}"},
    {"attention",
     "f64[2,3,5,4], f64[2,3,7,4], f64[2,3,7,4], f64[1,3,5,7], bool[2,1,1,7] ; causal=0, "
     "with=\"bias,mask\"",
     "{q:0, k:0, v:0, mask:0 -> out:0, lse:0}~ {q:1, k:1, v:1, bias:1 -> out:1, lse:1}~ {q:2, "
     "bias:2 -> out:2, lse:2}~ {k:2, v:2, bias:3, mask:3 -> out:lse, lse:lse}~ {v:3 -> out:3}~ "
     "{v:sum -> out:sum}"},
    {"attention_grad",  // the gradient of a bias that is shared is summed
     "f64[2,4,3,2], f64[2,2,5,2], f64[2,2,5,3], f64[2,4,3,3], f64[2,4,3], f64[2,4,3,3], "
     "f64[1,4,1,5], bool[2,1,1,5] ; causal=0, groups=2, with=\"bias,mask\"",
     "{q:0, k:0, v:0, out:0, lse:0, dout:0, mask:0 -> dq:0, dk:0, dv:0, dbias:sum}~ {q:1, out:1, "
     "lse:1, dout:1, bias:1 -> dq:1, dk:sum, dv:sum, dbias:1}~ {q:1/2, k:1, v:1, out:1/2, lse:1/2, "
     "dout:1/2, bias:1/2 -> dq:1/2, dk:1, dv:1, dbias:1/2}~ {q:2, out:2, lse:2, dout:2 -> dq:2, "
     "dk:sum, dv:sum, dbias:sum}~ {k:2, v:2, bias:3, mask:3 -> dq:sum, dk:2, dv:2, dbias:3}~ {v:3, "
     "out:3, dout:3 -> dq:sum, dk:sum, dv:3, dbias:sum}~ {dout:sum -> dq:sum, dk:sum, dv:sum, "
     "dbias:sum}"},
};

static void known(void **state) {
  (void)state;
  EXPECT_RULES(KNOWN);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(known)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
