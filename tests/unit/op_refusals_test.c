// What a user reads who calls an op wrongly: every refusal shows the call, what is wrong with it in
// numbers and, where there is one, the remedy.
#include "op/aliases.h"
#include "op_support.h"

#define CAST "cast it first (shoal_cast)"
#define CAST_ONE "cast one of them (shoal_cast): Shoal never does it by itself"
#define BROADCAST \
  "from the right, sizes must be equal or one of them 1; reshape to put a 1 in between"
#define RESHAPE "reshape it: a dim of 1 may stand anywhere"
#define STARTS "starts are positions along the axis, not sizes: 0, 3, 5, ..."

// Calls in the case language, the message behind the call and the hint (NULL: the numbers say it).
static const struct {
  const char *op, *text, *message, *hint;
} refused[] = {
    {"shoal.add", "f32[3], f32[4]",
     "a [3] and b [4] can't be broadcast together: dim 0 of a has 3 elements, dim 0 of b 4",
     BROADCAST},
    {"shoal.add", "f32[3], f64[3]", "a and b must have the same dtype, not f32 and f64", CAST_ONE},
    {"shoal.attention", "f32[1,2,3,4], f32[1,2,3,4], f32[1,2,3,4] ; causal=1, window=-2",
     "window is -2: it must not be negative", NULL},
    {"shoal.attention",
     "f32[1,3,3,4], f32[1,3,3,4], f32[1,3,3,4] ; causal=1, groups=9223372036854775807",
     "q has 3 heads and k 3, each of which is for 9223372036854775807 of q (groups)",
     "groups says how many heads of q share a head of k and v"},
    {"shoal.add", "f32[3]", "shoal.add takes 2 inputs, not 1", "its inputs: a, b"},
    {"shoal.div", "i32[3], i32[3]", "a must be a float, not i32", CAST},
    {"shoal.add", "f32[3], i8[3]", "b is i8, which is for storage: cast it first", NULL},
    {"shoal.where", "bool[3], f8_e4m3[3], f8_e4m3[3]",
     "a is f8_e4m3, which is for storage: cast it first", NULL},
    {"shoal.iota", "; shape=[3], axis=0, dtype=f8_e5m2",
     "out is f8_e5m2, which is for storage: cast to it behind the op", NULL},
    {"shoal.where", "f32[3], f32[3], f32[3]", "condition must be bool, not f32",
     "compare it with something: shoal_not_equal, ..."},
    {"shoal.exp", "i64[3]", "x must be a float, not i64", CAST},
    {"shoal.matmul", "f32[3,4], f32[5,6]",
     "the summed sizes differ: dim 1 of a has 4 elements, dim 0 of b 5", NULL},
    {"shoal.matmul", "f32[3], f32[3]", "a and b must have at least 2 dims, not 1 and 1",
     "a vector is a matrix of one row or column: reshape it"},
    {"shoal.grouped_matmul", "f32[3,4], f32[2,4,5], i64[3]", "ends must have shape [2], not [3]",
     NULL},
    {"shoal.adafactor_update", "f32[3], f32[3], f32[], f32[], f32[], i64[]",
     "w must have at least 2 dims, not 1", "adafactor_vector_update takes others"},
    {"shoal.muon_update", "f32[3], f32[3], f32[3], f32[]", "w must have at least 2 dims, not 1",
     "update vectors by AdamW, as shoal_minimize_muon does"},
    {"shoal.muon_update", "f32[3,2], f32[3,2], f32[3,2], f32[] ; adjust=\"orignal\"",
     "adjust 'orignal' is none of original, match_rms_adamw, spectral_unclamped and none",
     "did you mean 'original'?"},
    {"shoal.multinomial", "f32[3,4], i64[] ; samples=5, key=1",
     "5 samples of 4 classes without replacement", "take fewer samples, or replacement=1"},
    {"shoal.grouped_matmul", "f32[3,4], f32[2,5,4], i64[2]",
     "the summed sizes differ: dim 1 of x has 4 elements, dim 1 of w 5",
     "the other way round it fits: switch transpose_w"},
    {"shoal.matmul", "f32[2,3,4], f32[3,4,5]", "the batch dims do not fit: [2] of a and [3] of b",
     "from the right, sizes must be equal or one of them 1"},
    {"shoal.einsum", "f32[3,4], f32[4] ; equation=\"ab,b\"",
     "equation \"ab,b\" is not of the form \"ab,bc->ac\" with no letter twice in a term",
     "shoal_nn_einsum takes any number of operands, dots and repeated letters"},
    {"shoal.einsum", "f32[3,4], f32[4] ; equation=\"aa,b->a\"",
     "equation \"aa,b->a\" is not of the form \"ab,bc->ac\" with no letter twice in a term",
     "shoal_nn_einsum takes any number of operands, dots and repeated letters"},
    {"shoal.einsum", "f32[3,4], f32[5] ; equation=\"ab,b->a\"",
     "letter 'b' of \"ab,b->a\" has two sizes: 4 in a and 5 in b", NULL},
    {"shoal.einsum", "f32[3,4], f32[4] ; equation=\"abc,b->a\"",
     "equation \"abc,b->a\" gives a the 3 letters \"abc\" for 2 dims", NULL},
    {"shoal.einsum", "f32[3,4], f32[4] ; equation=\"ab,b->c\"",
     "letter 'c' of \"ab,b->c\" is in neither operand", NULL},
    {"shoal.reduce_sum", "f32[3,4] ; dims=[2]",
     "axis 2 is not one of 2 dims: 0 to 1, or -1 to -2 from the end", NULL},
    {"shoal.reduce_sum", "f32[3,4] ; dims=[0,-2]", "dim 0 is named twice in dims", NULL},
    {"shoal.reduce_mean", "i32[3,4] ; dims=[0]", "x must be a float, not i32", CAST},
    {"shoal.reshape", "f32[3,4] ; shape=[5,2]",
     "12 elements can't be reshaped to [5, 2], which has 10", NULL},
    {"shoal.reshape", "f32[3,4] ; shape=[5,-1]",
     "12 elements can't be shared out: the other sizes make 5", NULL},
    {"shoal.transpose", "f32[3,4] ; perm=[0,0]", "perm is no permutation: it names dim 0 twice",
     "perm names each dim of x once"},
    {"shoal.slice", "f32[3,4] ; start=[1,2], size=[3,2]",
     "3 elements from 1 on along dim 0 are not inside [0, 3)",
     "start counts from 0, and size is a number of elements, not where the slice ends"},
    {"shoal.pad", "f32[3,4] ; start=[1,2], shape=[3,8]",
     "3 elements from 1 on along dim 0 are not inside [0, 3)",
     "shape is the whole result, x and its borders"},
    {"shoal.concat", "f32[3,4], f32[2,4] ; axis=1",
     "xs[1] has 2 elements along dim 0, and xs[0] 3: only dim 1 may differ", NULL},
    {"shoal.concat", "; axis=1", "shoal.concat takes at least 1 input, not 0", "its inputs: xs"},
    {"shoal.broadcast_to", "f32[3] ; shape=[4]", "x can't be broadcast to [4]",
     "from the right, a size of x must be that of the result or 1; reshape to put a 1 in between"},
    {"shoal.full", "; shape=[-2], value=1, dtype=f32", "shape has the negative size -2 for dim 0",
     "a size is 0 or more; only reshape takes one -1"},
    {"shoal.iota", "; shape=[2], axis=1, dtype=i32",
     "axis 1 is not one of 1 dim: 0 to 0, or -1 to -1 from the end", NULL},
    {"shoal.random_normal", "f32[] ; shape=[2], key=1, dtype=f32, mean=0, std=1",
     "step must be i64, i32 or u8, not f32", CAST},
    {"shoal.random_normal", "i64[] ; shape=[2], key=1, dtype=i32, mean=0, std=1",
     "dtype must be a float, not i32", NULL},
    {"shoal.dropout", "f32[2], i64[] ; p=1.5, key=1", "p must be in [0, 1], not 1.5", NULL},
    {"shoal.dropout", "f32[2], i64[1] ; p=0.5, key=1",
     "step must be a scalar (no dims), not of shape [1]", "reshape it to no dims, or reduce it"},
    {"shoal.softmax", "f32[3] ; axis=1",
     "axis 1 is not one of 1 dim: 0 to 0, or -1 to -1 from the end", NULL},
    {"shoal.softmax", "f32[] ; axis=0", "axis 0 cannot be: there are no dims",
     "a scalar has no dims: reshape it to [1] first"},
    {"shoal.layer_norm", "f32[3,4], f32[4] ; dims=2, with=\"beta\"",
     "beta must have shape [3, 4], not [4]"},
    {"shoal.layer_norm", "f32[3,4] ; dims=3", "x has 2 dims, of which the last 3 cannot be"},
    {"shoal.layer_norm", "f32[3,4], f32[3], f32[4] ; with=\"gamma,beta\"",
     "gamma must have shape [4], not [3]", NULL},
    {"shoal.attention", "f32[1,2,3,4], f32[1,2,3,5], f32[1,2,3,5] ; causal=1",
     "k must have shape [1, 2, 3, 4], not [1, 2, 3, 5]", NULL},
    {"shoal.cross_entropy", "f32[3,4], i32[4]", "labels must have shape [3], not [4]", NULL},
    {"shoal.cross_entropy", "f32[3,4], f32[3]", "labels must be i64, i32 or u8, not f32", CAST},
    {"shoal.embedding", "f32[3], i32[3]", "table must have 2 dims, not 1", RESHAPE},
    {"shoal.bound", "f32[3,4,2], i32[4]", "counts must have shape [3], not [4]", NULL},
    {"shoal.bound", "f32[3], i32[3]",
     "x needs the dims of counts and a dim of rows behind them: 2 at least, not 1", NULL},
    {"shoal.bound", "f32[3,4], f32[3]", "counts must be i64, i32 or u8, not f32", CAST},
    {"shoal.conv", "f32[1,2,5,5], f32[1,3,3,3] ; stride=[1,1], padding=[0,0]",
     "x has 2 channels and w 3, no part of them",
     "with G groups w has 1/G of the channels along its dim 1"},
    {"shoal.conv", "f32[1,4,5,5], f32[3,2,3,3] ; stride=[1,1], padding=[0,0]",
     "3 outputs cannot be shared by 2 groups of channels",
     "choose a number of outputs that the groups divide"},
    {"shoal.conv", "f32[1,4,5,5], f32[4,2,3,3] ; stride=[1,1], padding=[0,0], groups=4",
     "w makes 2 groups of x's channels, not 4",
     "w has [outputs, channels / groups, kernel...]; groups may be left out"},
    {"shoal.conv", "f32[1,4,5,5], f32[4,4,3,3] ; stride=[1,1], padding=[0,0], shape=[1,4,4,3]",
     "shape asks for 4 windows along dim 2, where 3 fit", NULL},
    {"shoal.conv", "f32[4,5], f32[4,4] ; stride=[], padding=[]",
     "x has 2 dims, not three to five: [N, C] and one to three dims behind them",
     "one example needs N = 1, and one channel C = 1: reshape"},
    {"shoal.conv", "f32[1,2,5,5], f32[1,2,3,3] ; stride=[0,1], padding=[0,0]",
     "stride must be at least 1, not 0 (entry 0)", NULL},
    {"shoal.conv", "f32[1,2,5,5], f32[1,2,3,3] ; stride=[1], padding=[0,0]",
     "stride needs 2 numbers, one for each dim behind [N, C], not 1", NULL},
    {"shoal.max_pool", "f32[1,2,5,5] ; kernel=[2,2], stride=[1,1], padding=[2,2]",
     "padding 2 is more than half of the kernel's 2",
     "a window would lie in the padding alone; shoal_pad makes wider borders"},
    {"shoal.adamw_update",
     "f32[3], f64[3], f32[3], f32[3], f32[], i64[] ; beta1=0, beta2=0, eps=1, weight_decay=0",
     "g must be f32 like w, not f64", CAST_ONE},
    {"shoal.sgd_update", "f32[3], f32[3], f32[1] ; weight_decay=0",
     "lr must be a scalar (no dims), not of shape [1]", "reshape it to no dims, or reduce it"},
    {"shoal.add", "f32[3,4], f32[5,4]",
     "a [3, 4] and b [5, 4] can't be broadcast together: dim 0 of a has 3 elements, dim 0 of b 5",
     BROADCAST},
    {"shoal.add", "f32[2,3,4], f32[5,1,5]",
     "a [2, 3, 4] and b [5, 1, 5] can't be broadcast together: dim 2 of a has 4 elements, dim 2 of "
     "b 5",
     BROADCAST},
    {"shoal.mul", "f32[4,3], f32[4]",
     "a [4, 3] and b [4] can't be broadcast together: dim 1 of a has 3 elements, dim 0 of b 4",
     BROADCAST},
    {"shoal.add", "bf16[3], f32[3]", "a and b must have the same dtype, not bf16 and f32",
     CAST_ONE},
    {"shoal.maximum", "i32[3], i64[3]", "a and b must have the same dtype, not i32 and i64",
     CAST_ONE},
    {"shoal.where", "bool[3], f32[3], f64[3]", "a and b must have the same dtype, not f32 and f64",
     CAST_ONE},
    {"shoal.where", "bool[3], f32[3], f32[4]",
     "condition [3] and b [4] can't be broadcast together: dim 0 of condition has 3 elements, dim "
     "0 of b 4",
     BROADCAST},
    {"shoal.where", "bool[2,3], f32[3], f32[4,3]",
     "condition [2, 3] and b [4, 3] can't be broadcast together: dim 0 of condition has 2 "
     "elements, dim 0 of b 4",
     BROADCAST},
    {"shoal.less", "f32[3], f64[3]", "a and b must have the same dtype, not f32 and f64", CAST_ONE},
    {"shoal.lerp", "f32[3], f32[3], f32[4]",
     "a [3] and t [4] can't be broadcast together: dim 0 of a has 3 elements, dim 0 of t 4",
     BROADCAST},
    {"shoal.logical_and", "f32[3], f32[3]", "a must be bool, not f32",
     "compare numbers with something first"},
    {"shoal.bitwise_not", "f32[3]", "x must be an integer or bool, not f32", CAST},
    {"shoal.reduce_any", "i32[3] ; dims=[0]", "x must be bool, not i32",
     "compare numbers with something first"},
    {"shoal.floor_div", "bool[3], bool[3]", "a must be a float or an integer, not bool", CAST},
    {"shoal.clamp", "u8[3] ; min=300", "min is 300, and u8 holds no number that is not below it",
     "cast x first (shoal_cast)"},
    {"shoal.clamp", "u8[3] ; max=-1", "max is -1, and u8 holds no number that is not above it",
     "cast x first (shoal_cast)"},
    {"shoal.clamp", "i32[3] ; min=0.5, max=2", "min is 0.5, and x has integers",
     "give a whole number, or cast x first"},
    {"shoal.matmul", "f32[3,4], f32[6,4]",
     "the summed sizes differ: dim 1 of a has 4 elements, dim 0 of b 6",
     "the other way round it fits: switch transpose_b"},
    {"shoal.matmul", "f32[4,3], f32[4,6]",
     "the summed sizes differ: dim 1 of a has 3 elements, dim 0 of b 4",
     "the other way round it fits: switch transpose_a"},
    {"shoal.matmul", "f32[4,3], f32[5,6]",
     "the summed sizes differ: dim 1 of a has 3 elements, dim 0 of b 5", NULL},
    {"shoal.matmul", "f32[3,4], f32[4,5] ; transpose_b=1",
     "the summed sizes differ: dim 1 of a has 4 elements, dim 1 of b 5",
     "the other way round it fits: switch transpose_b"},
    {"shoal.matmul", "f32[3,4], f64[4,5]", "b must be f32 like a, not f64", CAST_ONE},
    {"shoal.einsum", "f32[3,4], f32[4] ; equation=\"ab,b->abc\"",
     "letter 'c' of \"ab,b->abc\" is in neither operand", NULL},
    {"shoal.transpose", "f32[3,4] ; perm=[0,1,2]",
     "perm needs one entry for each of 2 dims, and has 3", NULL},
    {"shoal.transpose", "f32[3,4] ; perm=[0,2]", "perm[1] is 2, and x has dims 0 to 1",
     "perm[d] is the dim of x that becomes dim d: each once, counted from 0"},
    {"shoal.transpose", "f32[3,4] ; perm=[-1,0]", "perm[0] is -1, and x has dims 0 to 1",
     "perm[d] is the dim of x that becomes dim d: each once, counted from 0"},
    {"shoal.reshape", "f32[3,4] ; shape=[-1,-1]", "shape leaves 2 sizes open",
     "one size at most may be -1: the rest"},
    {"shoal.reshape", "f32[3,4] ; shape=[-3,4]", "shape has the negative size -3 for dim 0",
     "a size is 0 or more; only reshape takes one -1"},
    {"shoal.slice", "f32[3,4] ; start=[0], size=[2]",
     "start needs one entry for each of 2 dims, and has 1", NULL},
    {"shoal.slice", "f32[3,4] ; start=[1,-1], size=[1,1]",
     "1 elements from -1 on along dim 1 are not inside [0, 4)",
     "start counts from 0, and size is a number of elements, not where the slice ends"},
    {"shoal.stride", "f32[7] ; start=[3], step=[2]", "along dim 0, start 3 is not in [0, 2)",
     "slice away what lies before the start, and step over the rest"},
    {"shoal.pad", "f32[3] ; start=[1,1], shape=[5]",
     "start needs one entry for each of 1 dim, and has 2", NULL},
    {"shoal.edges", "f32[3,4] ; before=[1,1], after=[1,1], mode=\"refelct\"",
     "mode 'refelct' is none of reflect, replicate and circular", "did you mean 'reflect'?"},
    {"shoal.edges", "f32[3] ; before=[3], after=[0], mode=\"reflect\"",
     "a border of 3 elements along dim 0 cannot be made of 3 (reflect)",
     "reflect takes fewer than x has, circular at most as many, replicate any"},
    {"shoal.edges", "f32[3] ; before=[9223372036854775807], after=[1], mode=\"replicate\"",
     "borders of 9223372036854775807 and 1 elements along dim 0 do not fit 64 bits", NULL},
    {"shoal.edges_grad",
     "f32[3] ; before=[9223372036854775807], after=[9223372036854775807], mode=\"replicate\"",
     "dy has fewer elements along dim 0 than its border", NULL},
    {"shoal.edges", "f32[3] ; before=[-1], after=[0], mode=\"circular\"",
     "a border cannot have -1 elements: to leave some out, slice", NULL},
    {"shoal.edges", "f32[3,4] ; before=[1], after=[1], mode=\"reflect\"",
     "before needs one entry for each of 2 dims, and has 1", NULL},
    {"shoal.concat", "f32[3,4], f64[3,4] ; axis=0",
     "xs[0] and xs[1] must have the same dtype, not f32 and f64", CAST_ONE},
    {"shoal.concat", "f32[3,4], f32[3] ; axis=0",
     "xs[1] and xs[0] differ in the number of dims: 1 and 2", "shoal_stack joins along a new dim"},
    {"shoal.concat", "f32[3,4], f32[3,4], f32[3,5] ; axis=0",
     "xs[2] has 5 elements along dim 1, and xs[0] 4: only dim 0 may differ", NULL},
    {"shoal.stack", "f32[3], f32[4] ; axis=0", "xs[1] and xs[0] must have the same shape",
     "shoal_concat joins tensors that differ along one dim"},
    {"shoal.stack", "f32[3], f64[3] ; axis=0",
     "xs[0] and xs[1] must have the same dtype, not f32 and f64", CAST_ONE},
    {"shoal.stack", "f32[3], f32[3] ; axis=2",
     "axis 2 is not one of 2 dims: 0 to 1, or -1 to -2 from the end", NULL},
    {"shoal.split", "f32[6] ; axis=0, starts=[2,4]", "the first part must start at 0, not at 2",
     STARTS},
    {"shoal.split", "f32[6] ; axis=0, starts=[0,4,2]",
     "part 1 of 3 goes from 4 to 2 (dim 0 has 6 elements)", STARTS},
    {"shoal.split", "f32[6] ; axis=0, starts=[0,8]",
     "part 1 of 2 goes from 8 to 6 (dim 0 has 6 elements)", STARTS},
    {"shoal.broadcast_to", "f32[3,4] ; shape=[3,5]", "x can't be broadcast to [3, 5]",
     "from the right, a size of x must be that of the result or 1; reshape to put a 1 in between"},
    {"shoal.roll", "f32[3,4] ; shifts=[1,2], dims=[0]", "2 shifts for 1 dims", NULL},
    {"shoal.roll", "f32[3,4] ; shifts=[4], dims=[1]",
     "the shift 4 is not smaller than the 4 elements of dim 1", "take the shift modulo the size"},
    {"shoal.roll", "f32[3,4] ; shifts=[-9223372036854775808], dims=[1]",
     "the shift -9223372036854775808 is not smaller than the 4 elements of dim 1",
     "take the shift modulo the size"},
    {"shoal.flip", "f32[3,4] ; dims=[0,0]", "dim 0 is named twice in dims", NULL},
    {"shoal.unfold", "f32[3] ; axis=0, size=4, step=1",
     "a window of 4 elements does not fit into the 3 of dim 0",
     "take a smaller size, or pad x first"},
    {"shoal.triangle", "f32[3]", "x needs rows and columns, and has 1 dim", NULL},
    {"shoal.diagonal", "f32[3,4] ; rows=0, columns=0", "rows and columns are the same dim 0", NULL},
    {"shoal.gather", "f32[3,4], f32[2] ; axis=0", "ids must be i64, i32 or u8, not f32", CAST},
    {"shoal.take_along", "f32[3,4], i64[3] ; axis=1", "ids must have 2 dims, not 1",
     "to index whole rows, use shoal_gather"},
    {"shoal.take_along", "f32[3,4], i64[2,2] ; axis=1",
     "ids must have 3 elements along dim 0, not 2", NULL},
    {"shoal.scatter_add", "i64[2], f64[2,4], f32[5,4] ; axis=0, shape=[5,4], with=\"x\"",
     "src and x must have the same dtype, not f64 and f32", CAST_ONE},
    {"shoal.cast", "f32[3] ; dtype=i32, scale=2",
     "scale is 2, and the result is i32: only a result of floats is scaled",
     "leave it out, and scale the floats before the cast (shoal_affine)"},
    {"shoal.cast", "f32[3] ; dtype=f16, scale=inf", "scale is inf: it must be finite",
     "leave it out for 1"},
    {"shoal.one_hot", "f32[3] ; classes=4, dtype=f32", "ids must be i64, i32 or u8, not f32", CAST},
    {"shoal.top_k", "f32[3,4] ; axis=1, k=5", "k is 5, and dim 1 has 4 elements", NULL},
    {"shoal.sort", "f32[3,4] ; axis=2",
     "axis 2 is not one of 2 dims: 0 to 1, or -1 to -2 from the end", NULL},
    {"shoal.argmax", "f32[3,0] ; axis=1", "dim 1 has no elements to choose from", NULL},
    {"shoal.segment_sum", "f32[6,2], i64[5] ; segments=3", "ids must have shape [6], not [5]",
     NULL},
    {"shoal.segment_softmax", "f32[6,2], f32[6] ; segments=3",
     "ids must be i64, i32 or u8, not f32", CAST},
    {"shoal.embedding_bag", "f32[5,3], i64[4], i64[2] ; mode=\"avg\"",
     "mode 'avg' is none of sum, mean and max", NULL},
    {"shoal.embedding_bag", "f32[5,3], i64[4], i64[2] ; mode=\"means\"",
     "mode 'means' is none of sum, mean and max", "did you mean 'mean'?"},
    {"shoal.embedding_bag", "f32[5,3], i64[4], i64[2], f32[4] ; mode=\"mean\", with=\"weights\"",
     "weights are for mode 'sum', not for mode 'mean'", NULL},
    {"shoal.embedding_bag", "f32[5,3], i64[4], i64[2], f64[4] ; mode=\"sum\", with=\"weights\"",
     "table and weights must have the same dtype, not f32 and f64", CAST_ONE},
    {"shoal.embedding_bag", "f32[5,3], i64[4], i64[2], f32[4] ; mode=\"sum\", with=\"weight\"",
     "shoal.embedding_bag: 'with' names 'weight', which is no optional input",
     "did you mean 'weights'?"},
    {"shoal.conv", "f32[1,2,3,3], f32[1,2,5,5] ; stride=[1,1], padding=[0,0]",
     "the kernel spans 5 rows, but x has 3 and 0 of padding",
     "pad more, take a smaller kernel or dilation, or a larger input"},
    {"shoal.conv", "f32[2,5,5], f32[1,2,3,3] ; stride=[1,1], padding=[0,0]",
     "w must have 3 dims, not 4", RESHAPE},
    {"shoal.conv", "f32[1,2,5,5], f32[1,2,0,3] ; stride=[1,1], padding=[0,0]",
     "the kernel has 0 elements along its dim 0: it is empty", NULL},
    {"shoal.conv", "f32[1,2,5,5], f32[1,2,3,3] ; stride=[1,1], padding=[0,-1]",
     "padding must be at least 0, not -1 (entry 1)", NULL},
    {"shoal.conv", "f32[1,2,5,5], f32[1,2,3,3] ; stride=[1,2147483648], padding=[0,0]",
     "stride must be below 2^31, not 2147483648 (entry 1)", NULL},
    {"shoal.max_pool", "f32[1,2,5] ; kernel=[4611686018427387905], stride=[1], padding=[0]",
     "the kernel has 4611686018427387905 elements along its dim 0: 2^31 or more", NULL},
    {"shoal.conv", "f32[1,2,5,5], f64[1,2,3,3] ; stride=[1,1], padding=[0,0]",
     "w must be f32 like x, not f64", CAST_ONE},
    {"shoal.conv_transpose", "f32[1,2,5], f32[3,4,3] ; stride=[1], padding=[0]",
     "x has 2 channels and w 3",
     "w has [channels, outputs / groups, kernel...], the other way round than for conv"},
    {"shoal.conv_transpose", "f32[1,2,3], f32[2,4,3] ; stride=[1], padding=[3]",
     "padding 3 leaves nothing of dim 2 of the result",
     "less padding, or a larger kernel or output_padding"},
    {"shoal.conv_transpose", "f32[1,2,3], f32[2,4,3] ; stride=[2], padding=[0], output_padding=[2]",
     "dim 2 of the result has from 7 to 8 elements, not 9",
     "output_padding says how many elements more than the fewest"},
    {"shoal.conv_transpose",
     "f32[1,2,3,3], f32[2,4,3,3] ; stride=[2,2], padding=[0,0], output_padding=[1]",
     "output_padding needs 2 numbers, one for each dim behind [N, C], not 1", NULL},
    {"shoal.max_pool", "f32[1,2,3] ; kernel=[5], stride=[1], padding=[0]",
     "the kernel spans 5 columns, but x has 3 and 0 of padding",
     "pad more, take a smaller kernel or dilation, or a larger input"},
    {"shoal.avg_pool", "f32[1,2,5,5] ; kernel=[2], stride=[1,1], padding=[0,0]",
     "kernel needs 2 numbers, one for each dim behind [N, C], not 1", NULL},
    {"shoal.adaptive_avg_pool", "f32[2,5] ; shape=[2,3]",
     "x has 2 dims, not three to five: [N, C] and one to three dims behind them",
     "one example needs N = 1, and one channel C = 1: reshape"},
    {"shoal.resize", "f32[1,2,5] ; shape=[1,2,9], mode=\"bilinear\"",
     "mode 'bilinear' is none of nearest, nearest_exact, linear and cubic",
     "did you mean 'linear'?"},
    {"shoal.resize", "f32[1,2,5] ; shape=[1,2,9], mode=\"linaer\"",
     "mode 'linaer' is none of nearest, nearest_exact, linear and cubic", "did you mean 'linear'?"},
    {"shoal.resize", "f32[1,2,5] ; shape=[1,2,9], mode=\"nearest\", align=1",
     "align is for linear and cubic, not for nearest", NULL},
    {"shoal.resize", "f32[1,2,5] ; shape=[1,2,9], scale_w=-2", "scale_w is -2: it must be above 0",
     NULL},
    {"shoal.resize", "f32[1,2,5] ; shape=[1,2,9], scale_w=1.5",
     "1.5 times the 5 elements of dim 2 are 7, not 9", NULL},
    {"shoal.resize", "f32[1,2,5] ; shape=[1,2,9], scale_h=2",
     "scale_h is given, and x has 3 dims: no such dim", NULL},
    {"shoal.resize", "f32[1,2,5] ; shape=[1,2,9], mode=\"linear\", align=1, scale_w=2",
     "scale_w has no meaning where ends are aligned", NULL},
    {"shoal.resize", "f32[1,2,0] ; shape=[1,2,9], mode=\"linear\"",
     "dim 2 goes from 0 to 9 elements: neither may be 0", NULL},
    {"shoal.multinomial", "f32[3,4], i64[] ; samples=0, key=1",
     "samples is 0: it must be at least 1", NULL},
    {"shoal.sgd_momentum_update",
     "f32[3], f32[3], f32[3], f32[] ; momentum=0.9, weight_decay=0, dampening=0.5",
     "dampening is 0.5, and the first step, which has none, is not known",
     "give the input step, which counts from 1"},
    {"shoal.loss_scale_update", "f32[], i64[], f32[]", "finite must be bool, not f32",
     "take shoal_reduce_all of shoal_is_finite"},
    {"shoal.dropout", "i32[2], i64[] ; p=0.5, key=1", "x must be a float, not i32", CAST},
    {"shoal.rms_norm", "f32[2,3], f64[3] ; eps=1e-5, with=\"gamma\"",
     "x and gamma must have the same dtype, not f32 and f64", CAST_ONE},
    {"shoal.huber", "f32[3], f32[3] ; delta=0", "delta is 0: it must be above 0", NULL},
    {"shoal.mse", "f32[3], f32[4]", "target must have shape [3], not [4]", NULL},
    {"shoal.attention", "f32[1,4,3,4], f32[1,3,3,4], f32[1,3,3,4] ; causal=1",
     "q has 4 heads and k 3, each of which is for 1 of q (groups)",
     "groups says how many heads of q share a head of k and v"},
    {"shoal.attention",
     "f32[1,2,3,4], f32[1,2,3,4], f32[1,2,3,4], f32[1,2,3,5] ; causal=0, with=\"bias\"",
     "bias has size 5 along dim 3: it must be 1 or 3", NULL},
    {"shoal.attention",
     "f32[1,2,3,4], f32[1,2,3,4], f32[1,2,3,4], f32[1,1,1,3] ; causal=0, with=\"mask\"",
     "mask must be bool, not f32", CAST},
    {"shoal.attention", "f32[1,2,3,4], f32[1,2,3,4], f32[1,2,3,4] ; causal=0, p=0.5",
     "dropout with p = 0.5 needs the input step", "give the step number: shoal_step(graph)"},
    {"shoal.cross_entropy", "f32[3,4], i64[3], f64[4] ; with=\"weights\"",
     "weights must be f32, not f64", CAST},
    {"shoal.cross_entropy", "f32[3,4], i64[3], f32[4] ; with=\"weigths\"",
     "shoal.cross_entropy: 'with' names 'weigths', which is no optional input",
     "did you mean 'weights'?"},
    {"shoal.cross_entropy", "f32[3,4], i64[3] ; smoothing=1.5",
     "smoothing is 1.5: it must be in [0, 1]", NULL},
    {"shoal.cross_entropy", "f32[], i64[]", "logits need a last dim of classes, and have no dims",
     NULL},
    {"shoal.batch_norm", "f32[3]", "x must be [N, C, ..]: at least 2 dims, not 1",
     "one example needs N = 1: reshape"},
    {"shoal.group_norm", "f32[2,6,3] ; groups=4", "6 channels are no multiple of 4 groups", NULL},
    {"shoal.layer_norm", "f32[3,4] ; dims=3",
     "x has 2 dims, of which the last 3 cannot be normed over", NULL},
    {"shoal.rotary", "f32[2,3,5] ; dims=3", "dims is 3: it must be even and at most 5", NULL},
    {"shoal.rotary", "f32[6]", "x needs a dim of positions and one of elements, and has 1", NULL},
};

static void refuses_bad_calls(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; ++i) {
    const shoal_op_t *op = bench_op(&b, refused[i].op);
    const char *hint = refused[i].hint ? refused[i].hint : "";
    shoal_case_t c;
    shoal_type_t out[MAX_OPERANDS];
    assert_ok(shoal_case_parse(op, refused[i].text, &b.arena, &c));
    const shoal_call_t call = {op,       c.input_count, shoal_op_outputs(op, c.attrs),
                               c.inputs, NULL,          c.attrs};
    shoal_status_t status = shoal_op_infer(&call, out);
    const char *message = shoal_status_message(status);
    if (shoal_status_code(status) != SHOAL_INVALID_ARGUMENT || !strstr(message, op->name) ||
        !strstr(message, refused[i].message) || strcmp(shoal_status_hint(status), hint) != 0) {
      fail_msg("%s(%s): expected '%s' (hint: %s), got '%s' (hint: %s)", op->name, refused[i].text,
               refused[i].message, hint, message, shoal_status_hint(status));
    }
    shoal_status_free(status);
  }
  bench_deinit(&b);
}

// Every string of a list is refused where it is none of them, and all of them are taken.
static void choices_are_suggested(void **state) {
  (void)state;
  static const char *const modes[] = {"nearest", "nearest_exact", "linear", "cubic"};
  bench_t b;
  bench_init(&b);
  const shoal_op_t *op = bench_op(&b, "shoal.resize");
  shoal_shape_t shape = SHOAL_SHAPE(1, 2, 9);
  shoal_tensor_t x = random_tensor(&b, SHOAL_F32, SHOAL_SHAPE(1, 2, 5), 2, 1), out[1];
  for (int32_t i = 0; i < 4; ++i) {
    char word[32], hint[64];
    assert_ok(run_named(
        &b, op->name, TENSORS(x),
        ATTRS(shoal_attr_shape("shape", &shape), shoal_attr_string("mode", modes[i])), out, NULL));
    snprintf(word, sizeof word, "%sx", modes[i]);
    snprintf(hint, sizeof hint, "did you mean '%s'?", modes[i]);
    assert_error(
        INVALID_ARGUMENT, hint,
        run_named(&b, op->name, TENSORS(x),
                  ATTRS(shoal_attr_shape("shape", &shape), shoal_attr_string("mode", word)), out,
                  NULL));
  }
  bench_deinit(&b);
}

// Names of other frameworks lead to ops that exist, and are none themselves.
static void other_names_are_known(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  assert_true(shoal_op_alias_count > 80);
  for (int32_t i = 0; i < shoal_op_alias_count; ++i) {
    const shoal_alias_t *alias = &shoal_op_aliases[i];
    const shoal_op_t *op = NULL;
    char name[64];
    snprintf(name, sizeof name, "shoal.%s", alias->name);
    assert_error(NOT_FOUND, alias->here, shoal_op_find(b.registry, name, &op));
    for (const char *at = alias->here; (at = strstr(at, "shoal.")) != NULL; at += 6) {
      const size_t length = 6 + strspn(at + 6, "abcdefghijklmnopqrstuvwxyz0123456789_");
      snprintf(name, sizeof name, "%.*s", (int)length, at);
      assert_ok(shoal_op_find(b.registry, name, &op));
    }
  }
  bench_deinit(&b);
}

// What only the kernel can see: which element, its value, the range.
static void refuses_bad_values(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  shoal_tensor_t out[1];
  shoal_tensor_t table = random_tensor(&b, SHOAL_F32, SHOAL_SHAPE(3, 2), 2, 1);
  assert_error(
      INVALID_ARGUMENT, "ids is 5",
      run_named(&b, "shoal.embedding", TENSORS(table, scalar_int(&b, 5)), NO_ATTRS, out, NULL));
  for (int64_t count = -1; count <= 4; count += 5) {
    const char *message = count < 0 ? "the count of group [] is -1: a group has from 0 to 3 rows"
                                    : "group [] has 4 rows, and dim 0 has room for 3";
    assert_error(
        INVALID_ARGUMENT, message,
        run_named(&b, "shoal.bound", TENSORS(table, scalar_int(&b, count)), NO_ATTRS, out, NULL));
  }
  shoal_tensor_t label = scalar_int(&b, -1),
                 row = random_tensor(&b, SHOAL_F32, SHOAL_SHAPE(3), 2, 1);
  assert_error(INVALID_ARGUMENT, "labels is -1",
               run_named(&b, "shoal.cross_entropy", TENSORS(row, label), NO_ATTRS, out, NULL));
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refuses_bad_calls),
      cmocka_unit_test(choices_are_suggested),
      cmocka_unit_test(other_names_are_known),
      cmocka_unit_test(refuses_bad_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
