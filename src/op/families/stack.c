// stack: tensors of one shape along a new dim.
//   xs[i] [a.., b..]   out [a.., n, b..] with out[a.., i, b..] = xs[i][a.., b..]
#include "op/families/emit.h"
#include "op/families/kernel.h"

static shoal_status_t stack_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_type_t *first = &call->inputs[0];
  int32_t axis;
  REQUIRE(call, first->shape.rank < SHOAL_MAX_RANK, "the result would have more than %d dims",
          SHOAL_MAX_RANK);
  SHOAL_RETURN_IF_ERROR(shoal_check_axis(call, call->attrs[0].i, first->shape.rank + 1, &axis));
  for (int32_t i = 1; i < call->input_count; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_check_same_dtype(call, 0, i));
    REQUIRE_HINT(call, shoal_shape_equal(&call->inputs[i].shape, &first->shape),
                 "shoal_concat joins tensors that differ along one dim",
                 "xs[%d] and xs[0] must have the same shape", i);
  }
  shoal_type_t type = *first;
  for (int32_t d = type.shape.rank++; d > axis; --d) type.shape.dims[d] = type.shape.dims[d - 1];
  type.shape.dims[axis] = call->input_count;
  out_types[0] = type;
  return NULL;
}

OP_GRADIENT(stack) {
  (void)in, (void)out;
  const shoal_shape_t *x = &call->inputs[0].shape;
  shoal_shape_t size = call->outputs[0].shape;
  const int32_t axis = shoal_normal_axis(call->attrs[0].i, size.rank);
  int64_t start[SHOAL_MAX_RANK] = {0};
  size.dims[axis] = 1;
  for (int32_t i = 0; i < call->input_count; ++i) {
    start[axis] = i;
    in_grads[i] = shoal_emit_reshape(
        e,
        shoal_emit_one(
            e, "shoal.slice", REFS(grads[0]),
            ATTRS(shoal_attr_ints("start", size.rank, start), shoal_attr_shape("size", &size))),
        x);
  }
}

OP_KERNEL(stack) {
  (void)workspace;
  const int32_t axis = shoal_normal_axis(call->attrs[0].i, outputs->shape.rank);
  const int64_t outer = shoal_shape_product(&outputs->shape, 0, axis);
  const size_t inner = (size_t)shoal_shape_product(&outputs->shape, axis + 1, outputs->shape.rank) *
                       shoal_dtype_size(outputs->dtype);
  if (inner == 0) return NULL;
  char *to = outputs->data;
  for (int64_t o = 0; o < outer; ++o) {
    for (int32_t i = 0; i < call->input_count; ++i, to += inner) {
      memcpy(to, (const char *)inputs[i].data + (size_t)o * inner, inner);
    }
  }
  return NULL;
}

const shoal_op_t shoal_op_stack = {
    .name = "shoal.stack",
    .doc = "The inputs, which have one shape and dtype, side by side along a new dim `axis`.",
    .uncut = "the new dim of out: each input is one element of it",
    SHOAL_OP_INPUTS("xs"),
    SHOAL_OP_OUTPUTS("out"),
    .variadic = true,
    .any_dtype = true,
    SHOAL_OP_ATTRS({.name = "axis",
                    .kind = SHOAL_ATTR_INT,
                    .doc = "which dim of the result is new; -1 is the last"}),
    .infer = stack_infer,
    .gradient = stack_gradient,
    .cost = shoal_cost_move,
    .kernel = stack_kernel,
    SHOAL_OP_CASES("f64[3,5], f64[3,5] ; axis=1", "f32[5], f32[5], f32[5] ; axis=0",
                   "bf16[3,1], bf16[3,1] ; axis=-1", "i64[3], i64[3] ; axis=0",
                   "u8[3,0]<9, u8[3,0]<9 ; axis=0", "f64[3,5,2] ; axis=2"),
};
