// stride: every n-th element along each dim, and its adjoint.
//   stride       x [n..]   out [m..] with out[i..] = x[start + step * i ..]
//   stride_grad  dy [m..]  dx [n..]: zeros with dy[i..] at [start + step * i ..]
// where m = ceil((n - start) / step) and start lies in [0, step): to begin further on, slice first.
// Parts of both operands know where they lie; an element of x that lies in another part reads as 0.
#include "op/families/along.h"
#include "op/families/emit.h"

enum { START, STEP, SHAPE, PLACE_IN, PLACE_OUT };

static int64_t steps_in(const shoal_call_t *call, int32_t dim, int64_t size) {
  const int64_t start = call->attrs[START].ints[dim], step = call->attrs[STEP].ints[dim];
  return size <= start ? 0 : (size - start - 1) / step + 1;
}

// Places of the dense operand [n..] and of the thin one [m..], either of which is the input.
static shoal_status_t check_steps(const shoal_call_t *call, bool adjoint, shoal_shape_t *out_shape,
                                  shoal_place_t *out_dense, shoal_place_t *out_thin) {
  const shoal_attr_value_t *start = &call->attrs[START], *step = &call->attrs[STEP];
  const shoal_shape_t *in = &call->inputs[0].shape;
  shoal_place_t from, to;
  SHOAL_RETURN_IF_ERROR(shoal_check_sizes(call, SHAPE, out_shape));
  for (int32_t attr = START; attr <= SHAPE; ++attr) {
    SHOAL_RETURN_IF_ERROR(shoal_check_entries(call, attr, in->rank));
  }
  SHOAL_RETURN_IF_ERROR(shoal_check_dims(call, PLACE_IN, in, &from));
  SHOAL_RETURN_IF_ERROR(shoal_check_dims(call, PLACE_OUT, out_shape, &to));
  *out_dense = adjoint ? to : from;
  *out_thin = adjoint ? from : to;
  for (int32_t d = 0; d < in->rank; ++d) {
    REQUIRE(call, step->ints[d] >= 1, "along dim %d, step %lld is not at least 1", d,
            (long long)step->ints[d]);
    REQUIRE_HINT(call, start->ints[d] >= 0 && start->ints[d] < step->ints[d],
                 "slice away what lies before the start, and step over the rest",
                 "along dim %d, start %lld is not in [0, %lld)", d, (long long)start->ints[d],
                 (long long)step->ints[d]);
    const int64_t size = steps_in(call, d, out_dense->whole.dims[d]);
    REQUIRE(call, out_thin->whole.dims[d] == size, "dim %d has %lld steps, not %lld", d,
            (long long)size, (long long)out_thin->whole.dims[d]);
  }
  return NULL;
}

static void stride_complete(const shoal_call_t *call, shoal_attr_value_t *attrs) {
  const shoal_shape_t *x = &call->inputs[0].shape;
  shoal_attr_value_t *shape = &attrs[SHAPE];
  if (shape->count > 0 || attrs[START].count != x->rank || attrs[STEP].count != x->rank) return;
  for (int32_t d = 0; d < x->rank; ++d) {
    if (attrs[STEP].ints[d] < 1) return;
  }
  shape->count = x->rank;
  for (int32_t d = 0; d < x->rank; ++d) shape->ints[d] = steps_in(call, d, x->dims[d]);
}

// Copies between the elements that both parts hold.
static void copy_steps(const shoal_call_t *call, const shoal_place_t *dense,
                       const shoal_place_t *thin, size_t size, char *in_dense, char *in_thin,
                       bool to_dense) {
  const shoal_shape_t *shape = &thin->part;
  const int64_t count = shoal_shape_count(shape);
  int64_t strides[SHOAL_MAX_RANK];
  shoal_strides(&dense->part, strides);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, at = 0;
    bool held = true;
    for (int32_t d = shape->rank - 1; d >= 0; --d) {
      const int64_t local = rest % shape->dims[d];
      rest /= shape->dims[d];
      const int64_t global = thin->index[d] ? thin->index[d][local] : local;
      const int64_t found = shoal_place_local(
          dense, d, call->attrs[START].ints[d] + call->attrs[STEP].ints[d] * global);
      held &= found >= 0;
      at += found * strides[d];
    }
    if (!held) continue;
    char *a = in_dense + (size_t)at * size, *b = in_thin + (size_t)i * size;
    memcpy(to_dense ? a : b, to_dense ? b : a, size);
  }
}

static shoal_status_t run_steps(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                const shoal_tensor_t *outputs, bool adjoint) {
  shoal_shape_t shape;
  shoal_place_t dense, thin;
  SHOAL_RETURN_IF_ERROR(check_steps(call, adjoint, &shape, &dense, &thin));
  const size_t bytes = shoal_tensor_bytes(outputs);
  if (bytes == 0) return NULL;
  memset(outputs->data, 0, bytes);
  copy_steps(call, &dense, &thin, shoal_dtype_size(inputs->dtype),
             adjoint ? outputs->data : inputs->data, adjoint ? inputs->data : outputs->data,
             adjoint);
  return NULL;
}

static shoal_status_t stride_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_place_t dense, thin;
  out_types[0].dtype = call->inputs[0].dtype;
  return check_steps(call, false, &out_types[0].shape, &dense, &thin);
}

static shoal_status_t stride_grad_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_place_t dense, thin;
  out_types[0].dtype = call->inputs[0].dtype;
  return check_steps(call, true, &out_types[0].shape, &dense, &thin);
}

OP_KERNEL(stride) {
  (void)workspace;
  return run_steps(call, inputs, outputs, false);
}

OP_KERNEL(stride_grad) {
  (void)workspace;
  return run_steps(call, inputs, outputs, true);
}

static shoal_ref_t emit_steps(const shoal_call_t *call, shoal_emitter_t *e, const char *op,
                              shoal_ref_t x) {
  const shoal_attr_value_t *start = &call->attrs[START], *step = &call->attrs[STEP];
  return shoal_emit_one(e, op, REFS(x),
                        ATTRS(shoal_attr_ints("start", start->count, start->ints),
                              shoal_attr_ints("step", step->count, step->ints),
                              shoal_attr_shape("shape", &call->inputs[0].shape)));
}

OP_GRADIENT(stride) {
  (void)in, (void)out;
  in_grads[0] = emit_steps(call, e, "shoal.stride_grad", grads[0]);
}

OP_GRADIENT(stride_grad) {
  (void)in, (void)out;
  in_grads[0] = emit_steps(call, e, "shoal.stride", grads[0]);
}

#define STEP_ATTRS(shape_optional, shape_doc)                                                 \
  SHOAL_OP_ATTRS({.name = "start",                                                            \
                  .kind = SHOAL_ATTR_INTS,                                                    \
                  .doc = "first element along each dim, below its step"},                     \
                 {.name = "step", .kind = SHOAL_ATTR_INTS, .doc = "distance along each dim"}, \
                 {.name = "shape",                                                            \
                  .kind = SHOAL_ATTR_INTS,                                                    \
                  .role = SHOAL_ROLE_SIZE,                                                    \
                  .operand = SHOAL_OUTPUT(0),                                                 \
                  .optional = shape_optional,                                                 \
                  .doc = shape_doc},                                                          \
                 SHOAL_ATTR_PLACE_OF("place_in", SHOAL_INPUT(0)),                             \
                 SHOAL_ATTR_PLACE_OF("place_out", SHOAL_OUTPUT(0)))

const shoal_op_t shoal_op_stride = {
    .name = "shoal.stride",
    .doc =
        "Every step-th element of x from start on, along each dim: out[i..] = x[start + step * "
        "i ..] with start below step. To begin further on, slice first.",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    .any_dtype = true,
    .window = "step",
    STEP_ATTRS(true, "shape of the result: as many as fit"),
    .complete = stride_complete,
    .infer = stride_infer,
    .gradient = stride_gradient,
    .cost = shoal_cost_move,
    .kernel = stride_kernel,
    SHOAL_OP_CASES("f64[3,8] ; start=[0,0], step=[1,2]", "f32[2,9,5] ; start=[0,1,0], step=[1,2,1]",
                   "bf16[7] ; start=[2], step=[3]", "i64[5,9]<50 ; start=[1,0], step=[2,3]",
                   "f32[3,1] ; start=[0,0], step=[1,2]", "f32[0,6] ; start=[0,0], step=[1,2]"),
};

const shoal_op_t shoal_op_stride_grad = {
    .name = "shoal.stride_grad",
    .doc = "Adjoint of stride: zeros of the given shape with dy[i..] at [start + step * i ..].",
    SHOAL_OP_INPUTS("dy"),
    SHOAL_OP_OUTPUTS("dx"),
    .any_dtype = true,
    .window = "step",
    STEP_ATTRS(false, "shape of the result"),
    .infer = stride_grad_infer,
    .gradient = stride_grad_gradient,
    .cost = shoal_cost_move,
    .kernel = stride_grad_kernel,
    SHOAL_OP_CASES("f64[3,4] ; start=[0,0], step=[1,2], shape=[3,8]",
                   "f32[2,4,5] ; start=[0,1,0], step=[1,2,1], shape=[2,9,5]",
                   "bf16[2] ; start=[2], step=[3], shape=[7]",
                   "f32[3,1] ; start=[0,0], step=[1,2], shape=[3,1]",
                   "f32[0,3] ; start=[0,0], step=[1,2], shape=[0,6]"),
};
