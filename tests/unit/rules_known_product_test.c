// The ways a practitioner expects of products: batch, rows, columns and the summed dim, also where
// one operand is broadcast along batch dims. Random numbers have the same bits however they are
// cut.
#include "rules_support.h"

static const known_rule_t EXPECTED[] = {
    // a linear layer: the weight has no batch
    {"matmul", "f32[64,512,1024], f32[1024,4096]",
     "{a:0 -> out:0}~ {a:1 -> out:1}~ {a:2, b:0 -> out:sum}~ {b:1 -> out:2}~ {a:sum -> out:sum} "
     "{b:sum -> out:sum}"},
    // each operand has a batch dim of its own
    {"matmul", "f32[64,1,512,128], f32[16,128,256]",
     "{a:0 -> out:0}~ {a:2 -> out:2}~ {a:3, b:1 -> out:sum}~ {b:0 -> out:1}~ {b:2 -> out:3}~ "
     "{a:sum -> out:sum} {b:sum -> out:sum}"},
    {"matmul", "f32[64,16,512,128], f32[64,16,128,512]",
     "{a:0, b:0 -> out:0}~ {a:1, b:1 -> out:1}~ {a:2 -> out:2}~ {a:3, b:2 -> out:sum}~ {b:3 -> "
     "out:3}~ {a:sum -> out:sum} {b:sum -> out:sum}"},
    // experts: by row, by expert without moving rows, and within each
    {"grouped_matmul", "bf16[8192,1024], bf16[64,1024,4096], i64[64]<8193",
     "{x:0 -> out:0}~ {x:1, w:1 -> out:sum}~ {w:0 -> out:sum}~ {w:2 -> out:1}~ {x:sum -> out:sum} "
     "{w:sum -> out:sum}"},
    {"grouped_matmul_grad_w", "bf16[8192,1024], bf16[8192,4096], i64[64]<8193 ; groups=64",
     "{x:0, dy:0 -> dw:sum}~ {x:1 -> dw:1}~ {dy:1 -> dw:2}~ {-> dw:0}~ {x:sum -> dw:sum} {dy:sum "
     "-> dw:sum}"},
    {"bernoulli", "f32[512,1024]+, i64[]<9 ; key=7",
     "{p:0 -> out:0}~ {p:1 -> out:1}~ {p:flat -> out:flat}"},
    {"multinomial", "f32[512,32,50257], i64[]<9 ; key=7, samples=4",
     "{x:0 -> out:0}~ {x:1 -> out:1}~"},
};

static void known_rules(void **state) {
  (void)state;
  EXPECT_RULES(EXPECTED);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(known_rules)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
