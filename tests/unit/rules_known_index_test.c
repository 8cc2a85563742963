// Known rules of ops that change shapes and of ops that read and write by index.
#include "rules_support.h"

static const known_rule_t EXPECTED[] = {
    // shapes
    {"pad", "f64[3,4] ; start=[1,0], shape=[5,4], value=-1.5",  // not linear
     "{x:0@1..4 -> out:0}~ {x:1 -> out:1}~"},
    {"split", "f64[5,12] ; axis=1, starts=[0,4,8]",
     "{x:0 -> parts[0]:0, parts[1]:0, parts[2]:0}~ "
     "{x:1 -> parts[0]:1@0..4, parts[1]:1@4..8, parts[2]:1@8..12}~ "
     "{x:sum -> parts[0]:sum, parts[1]:sum, parts[2]:sum}"},
    {"stack", "f64[3,5], f64[3,5] ; axis=1",
     "{xs[0]:0, xs[1]:0 -> out:0}~ {xs[0]:1, xs[1]:1 -> out:2}~ "
     "{xs[0]:sum, xs[1]:sum -> out:sum}"},
    {"flip", "f64[3,5,2] ; dims=[0,-1]",
     "{x:1 -> out:1}~ {-> out:0}~ {-> out:2}~ {x:sum -> out:sum}"},
    {"roll", "f64[3,5] ; dims=[1], shifts=[2]", "{x:0 -> out:0}~ {-> out:1}~ {x:sum -> out:sum}"},
    {"roll", "f32[64,56,56,96] ; dims=[1,2], shifts=[-3,-3]",  // windows that shift
     "{x:0 -> out:0}~ {x:3 -> out:3}~ {-> out:1}~ {-> out:2}~ {x:sum -> out:sum}"},
    {"roll", "f64[2,100] ; dims=[1], shifts=[60]",  // larger than a probe would be
     "{x:0 -> out:0}~ {-> out:1}~ {x:sum -> out:sum}"},
    {"triangle", "f64[2,512,512] ; diagonal=3",
     "{x:0 -> out:0}~ {x:1 -> out:1}~ {x:2 -> out:2}~ {x:flat -> out:flat} {x:sum -> out:sum}"},
    {"diagonal", "f64[5,3,4] ; offset=1, rows=0, columns=2",
     "{x:0 -> out:sum}~ {x:1 -> out:0}~ {x:2 -> out:sum}~ {x:sum -> out:sum}"},
    {"diagonal_grad", "f64[2,3] ; offset=-1, shape=[2,4,3]",
     "{dy:0 -> dx:0}~ {-> dx:1}~ {-> dx:2}~ {dy:sum -> dx:sum}"},
    {"edges", "f32[8,64,32,32] ; before=[0,0,1,1], after=[0,0,1,1], mode=\"reflect\"",
     "{x:0 -> out:0}~ {x:1 -> out:1}~ {x:sum -> out:sum}"},
    {"edges_grad", "f32[8,34] ; before=[0,1], after=[0,1], mode=\"circular\"",
     "{dy:0 -> dx:0}~ {dy:sum -> dx:sum}"},
    {"stride", "f32[64,4096,128] ; start=[0,1,0], step=[1,2,1]",
     "{x:0 -> out:0}~ {x:1/2 -> out:1}~ {x:2 -> out:2}~ {x:sum -> out:sum}"},
    {"stride", "f32[2,9,5] ; start=[0,1,0], step=[1,2,1]",  // a row is left over
     "{x:0 -> out:0}~ {x:1/2#4 -> out:1} {x:2 -> out:2}~ {x:sum -> out:sum}"},
    {"stride_grad", "f32[64,2048] ; start=[0,1], step=[1,2], shape=[64,4096]",
     "{dy:0 -> dx:0}~ {dy:1 -> dx:1/2}~ {dy:sum -> dx:sum}"},
    {"unfold", "f32[32,1000] ; axis=1, size=5, step=1",
     "{x:0 -> out:0}~ {x:1#996+0+4 -> out:1} {-> out:2}~ {x:sum -> out:sum}"},
    {"unfold", "f32[8,64,60] ; axis=1, size=4, step=4",  // patches
     "{x:0 -> out:0}~ {x:1/4 -> out:1} {x:2 -> out:2}~ {-> out:3}~ {x:sum -> out:sum}"},
    {"fold", "f32[2,4,3,3] ; axis=1, size=3, step=2, shape=[2,9,3]",
     "{dy:0 -> dx:0}~ {dy:1+1+0 -> dx:1/2#4} {dy:2 -> dx:2}~ {dy:3 -> dx:sum}~ "
     "{dy:sum -> dx:sum}"},
    // order and segments
    {"sort", "f32[64,1000,3] ; axis=1",
     "{x:0 -> values:0, indices:0}~ {x:2 -> values:2, indices:2}~"},
    {"top_k", "f32[512,64] ; k=2, axis=-1", "{x:0 -> values:0, indices:0}~"},
    {"segment_sum", "f32[100000,64], i32[100000]<5000 ; segments=5000",
     "{x:0, ids:0 -> out:sum}~ {x:1 -> out:1}~ {-> out:0}~ {x:sum -> out:sum}"},
    {"segment_max", "f32[100000,64], i32[100000]<5000 ; segments=5000",
     "{x:0, ids:0 -> out:max}~ {x:1 -> out:1}~ {-> out:0}~"},
    {"segment_softmax", "f32[100000,8], i32[100000]<90000 ; segments=90000",  // hardly any alike
     "{x:1 -> out:1}~"},
    // by index
    {"gather", "f32[3,5,2], i32[7,4]<5 ; axis=1",
     "{x:0 -> out:0}~ {x:1 -> out:sum}~ {x:2 -> out:3}~ {ids:0 -> out:1}~ {ids:1 -> out:2}~ "
     "{x:sum -> out:sum}"},
    {"take_along", "f32[3,5,2], i32[3,7,2]<5 ; axis=1",
     "{x:0, ids:0 -> out:0}~ {x:1 -> out:sum}~ {x:2, ids:2 -> out:2}~ {ids:1 -> out:1}~ "
     "{x:sum -> out:sum}"},
    {"take_along_grad", "i32[3,7]<5, f32[3,7] ; axis=1, shape=[3,5]",
     "{ids:0, dy:0 -> dx:0}~ {ids:1, dy:1 -> dx:sum}~ {-> dx:1}~ {dy:sum -> dx:sum}"},
    {"scatter_add", "i32[7]<5, f32[3,7,2] ; axis=1, shape=[3,5,2]",
     "{ids:0, src:1 -> out:sum}~ {src:0 -> out:0}~ {src:2 -> out:2}~ {-> out:1}~ "
     "{src:sum -> out:sum}"},
    {"index_put", "f32[4,3], i32[7,9]<4, f32[7,9,3] ; axis=0",  // more writes than rows
     "{x:0 -> out:0}~ {x:1, values:2 -> out:1}~ {x:sum, values:sum -> out:sum}"},
    {"index_put", "f32[3,4], i32[9]<4, f32[3,9] ; axis=1, add=1",
     "{x:0, values:0 -> out:0}~ {x:1 -> out:1}~ {x:sum, values:sum -> out:sum}"},
    {"put_along", "f32[3,4], i32[3,900]<4, f32[3,900] ; axis=1",
     "{x:0, ids:0, src:0 -> out:0}~ {x:1 -> out:1}~ {x:sum, src:sum -> out:sum}"},
    {"scatter_add", "i32[7]<5, f32[3,7], f32[3,5] ; axis=1, shape=[3,5], with=\"x\"",
     "{src:0, x:0 -> out:0}~ {x:1 -> out:1}~ {src:sum, x:sum -> out:sum}"},
    {"embedding_bag", "f32[40000,64], i32[5000]<40000, i32[300]<5001 ; mode=\"mean\"",
     "{table:0 -> out:sum}~ {table:1 -> out:1}~ {table:sum -> out:sum}"},
    {"embedding_bag", "f32[40000,64], i32[5000]<40000, i32[300]<5001 ; mode=\"max\"",
     "{table:0 -> out:max}~ {table:1 -> out:1}~"},
    {"bag_index", "i32[300]<5001 ; count=5000", "{-> out:0}~"},
    {"embedding_rows", "i32[512]<40000, f32[512,64] ; rows=40000",  // hardly any alike
     "{dy:1 -> sums:1}~ {dy:sum -> sums:sum}"},
    {"rows_add", "i32[512]<40001, f32[512,64] ; rows=40000",
     "{ids:0, values:0 -> out:sum}~ {values:1 -> out:1}~ {-> out:0}~ {values:sum -> out:sum}"},
    {"embedding_grad", "i32[16,32]<40000, f32[16,32,64] ; rows=40000, padding=39999",
     "{ids:0, dy:0 -> dtable:sum}~ {ids:1, dy:1 -> dtable:sum}~ {dy:2 -> dtable:1}~ "
     "{-> dtable:0}~ {dy:sum -> dtable:sum}"},
    {"one_hot", "i32[16,512]<30000 ; classes=30000, dtype=f32",
     "{ids:0 -> out:0}~ {ids:1 -> out:1}~ {-> out:2}~"},
};

static void known_rules(void **state) {
  (void)state;
  EXPECT_RULES(EXPECTED);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(known_rules)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
