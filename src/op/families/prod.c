// reduce_prod: products over named dims, for every dtype, and its gradient. Floats are multiplied
// in doubles, in row-major order; integers wrap; of bools it is "all". Over no elements it is 1.
#include "op/families/reduced.h"

OP_KERNEL(reduce_prod) {
  const bool floats = shoal_dtype_is_float(inputs->dtype);
  const int64_t n = shoal_shape_count(&outputs->shape);
  double *reals = workspace;
  uint64_t *ints = workspace;
  shoal_walk_t walk;
  SHOAL_RETURN_IF_ERROR(shoal_reduced_walk(call, &walk));
  for (int64_t i = 0; i < n; ++i) {
    if (floats) {
      reals[i] = 1;
    } else {
      ints[i] = 1;
    }
  }
  for (bool more = shoal_walk_start(&walk); more; more = shoal_walk_next(&walk)) {
    for (int64_t i = 0; i < walk.run; ++i) {
      const int64_t from = walk.offset[0] + i * walk.step[0];
      const int64_t to = walk.offset[1] + i * walk.step[1];
      if (floats) {
        reals[to] *= shoal_dtype_load(inputs->dtype, inputs->data, from);
      } else {
        ints[to] *= (uint64_t)shoal_dtype_load_int(inputs->dtype, inputs->data, from);
      }
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    if (floats) {
      shoal_dtype_store(outputs->dtype, outputs->data, i, reals[i]);
    } else {
      shoal_dtype_store_int(outputs->dtype, outputs->data, i, (int64_t)ints[i]);
    }
  }
  return NULL;
}

static int64_t reduce_prod_workspace(const shoal_call_t *call) {
  return shoal_shape_count(&call->outputs[0].shape) * 8;
}

// ---- gradient --------------------------------------------------------------------------

OP_GRADIENT(reduce_prod) {
  (void)out;
  const shoal_ref_t dy = shoal_reduced_repeat(call, e, grads[0]);
  const shoal_attr_value_t *dims = &call->attrs[SHOAL_REDUCED_DIMS];
  in_grads[0] = shoal_emit_one(e, "shoal.reduce_prod_grad", REFS(in[0], dy),
                               ATTRS(shoal_attr_ints("dims", dims->count, dims->ints)));
}

static shoal_status_t reduce_prod_grad_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  bool reduced[SHOAL_MAX_RANK];
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 2));
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, 1, &call->inputs[0].shape));
  SHOAL_RETURN_IF_ERROR(shoal_reduced_dims(call, reduced));
  out_types[0] = call->inputs[0];
  return NULL;
}

// Of every element: the product of those before it; then, running product of each result.
static int64_t grad_workspace(const shoal_call_t *call) {
  return 2 * shoal_align64(shoal_shape_count(&call->inputs[0].shape) * 8);
}

// Which result the element number i of x goes into.
static int64_t result_of(const shoal_shape_t *x, const int64_t *stride, int64_t i) {
  int64_t at = 0;
  for (int32_t d = x->rank - 1; d >= 0; --d) {
    at += i % x->dims[d] * stride[d];
    i /= x->dims[d];
  }
  return at;
}

// dx = dy * (product of all before) * (product of all behind): right also where x has zeros.
OP_KERNEL(reduce_prod_grad) {
  const shoal_shape_t *x = &inputs->shape;
  const int64_t n = shoal_shape_count(x);
  double *before = workspace, *running = before + shoal_align64(n * 8) / 8;
  shoal_walk_t walk;
  SHOAL_RETURN_IF_ERROR(shoal_reduced_walk(call, &walk));
  for (int64_t i = 0; i < n; ++i) running[i] = 1;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = result_of(x, walk.stride[1], i);
    before[i] = running[at];
    running[at] *= shoal_dtype_load(inputs[0].dtype, inputs[0].data, i);
  }
  for (int64_t i = 0; i < n; ++i) running[i] = 1;
  for (int64_t i = n - 1; i >= 0; --i) {
    const int64_t at = result_of(x, walk.stride[1], i);
    const double value = shoal_dtype_load(inputs[0].dtype, inputs[0].data, i);
    const double dy = shoal_dtype_load(inputs[1].dtype, inputs[1].data, i);
    shoal_dtype_store(outputs->dtype, outputs->data, i, dy * before[i] * running[at]);
    running[at] *= value;
  }
  return NULL;
}

// ---- records ---------------------------------------------------------------------------

const shoal_op_t shoal_op_reduce_prod = {
    .name = "shoal.reduce_prod",
    .doc =
        "Product over the given dims, in x's dtype; 1 of no elements. Integers wrap; of bools it "
        "is \"all\".",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(SHOAL_REDUCED_ATTRS),
    .infer = shoal_reduced_infer,
    .gradient = reduce_prod_gradient,
    .cost = shoal_reduced_cost,
    .workspace = reduce_prod_workspace,
    .kernel = reduce_prod_kernel,
    SHOAL_OP_CASES("f64[3,5] ; dims=[1]", "f32[3,5,2] ; dims=[0,2]",
                   "f64[3,1,2] ; dims=[1], keep=1", "bf16[3,9] ; dims=[-1]",
                   "i64[3,5]<9 ; dims=[0]", "f32[3,0] ; dims=[1]"),
};

const shoal_op_t shoal_op_reduce_prod_grad = {
    .name = "shoal.reduce_prod_grad",
    .doc =
        "Gradient of reduce_prod, right also where x has zeros: dy, repeated to x's shape, times "
        "the product of all other elements.",
    .nan = "an element that is NaN makes all others' NaN, not its own",
    .uncut = "the reduced dims: each element needs all others",
    SHOAL_OP_INPUTS("x", "dy"),
    SHOAL_OP_OUTPUTS("dx"),
    SHOAL_OP_ATTRS({.name = "dims", .kind = SHOAL_ATTR_INTS, .doc = "dims that were reduced"}),
    SHOAL_OP_OVERWRITES({0, 0}, {0, 1}),
    .infer = reduce_prod_grad_infer,
    .workspace = grad_workspace,
    .kernel = reduce_prod_grad_kernel,
    SHOAL_OP_CASES("f64[3,5,2], f64[3,5,2] ; dims=[1,2]", "f32[3,5,2], f32[3,5,2] ; dims=[0,1]",
                   "bf16[3,5,1], bf16[3,5,1] ; dims=[0,1]", "f32[3,2,0], f32[3,2,0] ; dims=[1,2]"),
};
