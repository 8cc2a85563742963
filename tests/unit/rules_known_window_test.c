// The ways a practitioner expects of convolution, pooling and resizing, in the sizes of real
// networks: batch, channels, groups, and rows with the halos that kernel, stride, dilation and
// padding ask for. All of them are found on small calls.
#include "rules_support.h"

static const known_rule_t EXPECTED[] = {
    // the first layer of a ResNet
    {"conv", "f32[256,3,224,224], f32[64,3,7,7] ; stride=[2,2], padding=[3,3]",
     "{x:0 -> out:0}~ {x:1, w:1 -> out:sum}~ {x:2/2+3+2 -> out:2} {x:3/2+3+2 -> out:3} {w:0 -> "
     "out:1}~ {x:sum -> out:sum} {w:sum -> out:sum}"},
    {"conv_grad_x",
     "f32[64,3,7,7], f32[256,64,112,112] ; shape=[256,3,224,224], stride=[2,2], padding=[3,3]",
     "{w:0, dy:1 -> dx:sum}~ {w:1 -> dx:1}~ {dy:0 -> dx:0}~ {dy:2+1+2 -> dx:2/2} {dy:3+1+2 -> "
     "dx:3/2} {w:sum -> dx:sum} {dy:sum -> dx:sum}"},
    {"conv_grad_w",
     "f32[256,3,224,224], f32[256,64,112,112] ; kernel=[7,7], stride=[2,2], padding=[3,3]",
     "{x:0, dy:0 -> dw:sum}~ {x:1 -> dw:1}~ {x:2/2+3+2, dy:2 -> dw:sum} {x:3/2+3+2, dy:3 -> "
     "dw:sum} {dy:1 -> dw:0}~ {x:sum -> dw:sum} {dy:sum -> dw:sum}"},
    {"max_pool", "f32[256,64,112,112] ; kernel=[3,3], stride=[2,2], padding=[1,1]",
     "{x:0 -> out:0}~ {x:1 -> out:1}~ {x:2/2+1+0 -> out:2} {x:3/2+1+0 -> out:3}"},
    {"max_pool_grad",
     "f32[256,64,112,112], f32[256,64,56,56] ; kernel=[3,3], stride=[2,2], padding=[1,1], "
     "shape=[256,64,112,112]",
     "{x:0, dy:0 -> dx:0}~ {x:1, dy:1 -> dx:1}~ {x:2/2+1+2, dy:2+0+1 -> dx:2/2} {x:3/2+1+2, "
     "dy:3+0+1 -> dx:3/2} {dy:sum -> dx:sum}"},
    // dilation
    {"conv", "f32[16,512,64,64], f32[512,512,3,3] ; stride=[1,1], padding=[2,2], dilation=[2,2]",
     "{x:0 -> out:0}~ {x:1, w:1 -> out:sum}~ {x:2+2+2 -> out:2} {x:3+2+2 -> out:3} {w:0 -> "
     "out:1}~ {x:sum -> out:sum} {w:sum -> out:sum}"},
    // groups of one channel
    {"conv", "f32[64,512,28,28], f32[512,1,3,3] ; stride=[1,1], padding=[1,1], groups=512",
     "{x:0 -> out:0}~ {x:1, w:0 -> out:1}~ {x:2+1+1 -> out:2} {x:3+1+1 -> out:3} {x:sum -> "
     "out:sum} {w:sum -> out:sum}"},
    {"avg_pool", "f32[256,64,112,112] ; kernel=[3,2], stride=[2,2], padding=[1,0], count_pad=0",
     "{x:0 -> out:0}~ {x:1 -> out:1}~ {x:2/2+1+0 -> out:2} {x:3/2 -> out:3}~ {x:sum -> out:sum}"},
    {"avg_pool_grad",
     "f32[256,64,56,56] ; kernel=[3,2], stride=[2,2], padding=[1,0], shape=[256,64,112,112]",
     "{dy:0 -> dx:0}~ {dy:1 -> dx:1}~ {dy:2+0+1 -> dx:2/2} {dy:3 -> dx:3/2}~ {dy:sum -> dx:sum}"},
    {"adaptive_avg_pool", "f32[256,64,56,100] ; shape=[256,64,7,37]",  // 100 to 37: nothing fits
     "{x:0 -> out:0}~ {x:1 -> out:1}~ {x:2/8 -> out:2}~ {x:sum -> out:sum}"},
    // transposed, with and without groups
    {"conv_transpose", "f32[64,512,32,32], f32[512,256,4,4] ; stride=[2,2], padding=[1,1]",
     "{x:0 -> out:0}~ {x:1, w:0 -> out:sum}~ {x:2+1+1 -> out:2/2} {x:3+1+1 -> out:3/2} {w:1 -> "
     "out:1}~ {x:sum -> out:sum} {w:sum -> out:sum}"},
    {"conv_transpose", "f32[64,64,32,32], f32[64,1,4,4] ; stride=[2,2], padding=[1,1], groups=64",
     "{x:0 -> out:0}~ {x:1, w:0 -> out:1}~ {x:2+1+1 -> out:2/2} {x:3+1+1 -> out:3/2} {x:sum -> "
     "out:sum} {w:sum -> out:sum}"},
    // twice as large, half as large, and in no proportion
    {"resize", "f32[64,256,32,32] ; shape=[64,256,64,64]",
     "{x:0 -> out:0}~ {x:1 -> out:1}~ {x:2 -> out:2/2}~ {x:3 -> out:3/2}~ {x:sum -> out:sum}"},
    {"resize", "f32[64,256,32,32] ; shape=[64,256,64,16], mode=\"linear\"",
     "{x:0 -> out:0}~ {x:1 -> out:1}~ {x:2+1+1 -> out:2/2} {x:3/2 -> out:3}~ {x:sum -> out:sum}"},
    {"resize",  // by factors: twice, and 1.5 times rounded down, where parts see a whole x
     "f32[64,256,32,133] ; shape=[64,256,64,199], mode=\"linear\", scale_h=2, scale_w=1.5",
     "{x:0 -> out:0}~ {x:1 -> out:1}~ {x:2+1+1 -> out:2/2} {-> out:3}~ {x:sum -> out:sum}"},
    {"resize", "f32[64,256,32,100] ; shape=[64,256,64,37], mode=\"cubic\"",
     "{x:0 -> out:0}~ {x:1 -> out:1}~ {x:2+2+2 -> out:2/2} {x:sum -> out:sum}"},
    {"resize_grad", "f32[64,256,64,64] ; shape=[64,256,32,32], mode=\"linear\"",
     "{dy:0 -> dx:0}~ {dy:1 -> dx:1}~ {dy:2/2+1+1 -> dx:2} {dy:3/2+1+1 -> dx:3} {dy:sum -> "
     "dx:sum}"},
    // one dim, far-reaching kernels, three dims
    // stride, dilation and padding at once; sizes that parts do not divide
    {"conv", "f64[2,1,31,3], f64[2,1,3,1] ; stride=[2,1], padding=[3,0], dilation=[2,1]",
     "{x:0 -> out:0}~ {x:2/2#17+3+0 -> out:2} {x:3 -> out:3}~ {w:0 -> out:1}~ {x:sum -> out:sum} "
     "{w:sum -> out:sum}"},
    {"conv_transpose", "f64[2,2,17,3], f64[2,1,3,1] ; stride=[1,1], padding=[0,0], dilation=[2,1]",
     "{x:0 -> out:0}~ {x:1, w:0 -> out:sum}~ {x:2#21+4+0 -> out:2} {x:3 -> out:3}~ "
     "{x:sum -> out:sum} {w:sum -> out:sum}"},
    {"max_pool", "f64[2,1,31,3] ; kernel=[3,1], stride=[2,1], padding=[1,0], dilation=[2,1]",
     "{x:0 -> out:0}~ {x:2/2#15+1+2 -> out:2} {x:3 -> out:3}~"},
    {"max_pool", "f64[2,1,31,3] ; kernel=[3,1], stride=[3,1], padding=[0,0], ceil=1",
     "{x:0 -> out:0}~ {x:2/3#11 -> out:2} {x:3 -> out:3}~"},
    {"avg_pool", "f64[2,1,31,3] ; kernel=[4,1], stride=[1,1], padding=[2,0], count_pad=0",
     "{x:0 -> out:0}~ {x:2#32+2+1 -> out:2} {x:3 -> out:3}~ {x:sum -> out:sum}"},
    {"resize", "f64[2,1,17,3] ; shape=[2,1,34,3], mode=\"cubic\"",
     "{x:0 -> out:0}~ {x:2+2+2 -> out:2/2} {x:3 -> out:3}~ {x:sum -> out:sum}"},
    {"adaptive_avg_pool", "f64[2,1,30,3] ; shape=[2,1,10,3]",
     "{x:0 -> out:0}~ {x:2/3 -> out:2}~ {x:3 -> out:3}~ {x:sum -> out:sum}"},
    {"conv", "f32[16,80,3000], f32[512,80,3] ; stride=[2], padding=[1]",
     "{x:0 -> out:0}~ {x:1, w:1 -> out:sum}~ {x:2/2+1+0 -> out:2} {w:0 -> out:1}~ {x:sum -> "
     "out:sum} {w:sum -> out:sum}"},
    {"conv", "f32[16,64,4000], f32[64,64,7] ; stride=[1], padding=[0], dilation=[3]",
     "{x:0 -> out:0}~ {x:1, w:1 -> out:sum}~ {x:2#3982+0+18 -> out:2} {w:0 -> out:1}~ {x:sum -> "
     "out:sum} {w:sum -> out:sum}"},
    {"conv", "f32[16,64,4000], f32[64,64,31] ; stride=[1], padding=[15]",
     "{x:0 -> out:0}~ {x:1, w:1 -> out:sum}~ {x:2+15+15 -> out:2} {w:0 -> out:1}~ {x:sum -> "
     "out:sum} {w:sum -> out:sum}"},
    {"conv", "f32[8,3,16,112,112], f32[64,3,3,3,1] ; stride=[1,2,1], padding=[1,1,0]",
     "{x:0 -> out:0}~ {x:1, w:1 -> out:sum}~ {x:2+1+1 -> out:2} {x:3/2+1+0 -> out:3} {x:4 -> "
     "out:4}~ {w:0 -> out:1}~ {x:sum -> out:sum} {w:sum -> out:sum}"},
};

static void known_rules(void **state) {
  (void)state;
  EXPECT_RULES(EXPECTED);
}

static int64_t executed;

static shoal_status_t count_and_execute(void *self, const shoal_call_t *call,
                                        const shoal_tensor_t *inputs,
                                        const shoal_tensor_t *outputs) {
  const shoal_executor_t *reference = self;
  ++executed;
  return reference->execute(reference->self, call, inputs, outputs);
}

// Numbers of channels with many divisors: what could be a part of them, and in what order, is
// tried for groups and for what lies in a group, not for all there is between.
static void many_groups(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  shoal_allocator_t allocator = shoal_allocator_system();
  shoal_executor_t reference = shoal_executor_reference(&allocator);
  const shoal_op_t *op = bench_op(&b, "shoal.conv");
  shoal_call_t call = bench_call(&b, op, "f64[2,160,7], f64[224,5,3] ; stride=[1], padding=[1]");
  shoal_rule_t rule;
  executed = 0;
  assert_ok(shoal_rules_discover(&call, (shoal_executor_t){&reference, count_and_execute},
                                 allocator, &b.arena, &rule));
  assert_string_equal(rule_text(&b, op, &rule),
                      " {x:0 -> out:0}~ {x:1/5, w:0/7 -> out:1/7}~ {x:1*32, w:1 -> out:sum}~ "
                      "{x:2+1+1 -> out:2} {w:0*32 -> out:1*32}~ {x:sum -> out:sum} "
                      "{w:sum -> out:sum}");
  if (executed > 400) fail_msg("%lld parts were executed", (long long)executed);
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(known_rules), cmocka_unit_test(many_groups)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
