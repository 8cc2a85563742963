// unfold: windows of a dim as a new last dim, and its adjoint, fold.
//   unfold  x [.., n, ..]         out [.., m, .., size]: out[.., i, .., j] = x[.., step*i + j, ..]
//   fold    dy [.., m, .., size]  dx [.., n, ..]: each dy[.., i, .., j] added at step*i + j
// where m = (n - size) / step + 1. Parts of both operands know where they lie; an element that lies
// in another part reads as 0.
#include "op/families/along.h"
#include "op/families/emit.h"

enum { AXIS, SIZE, STEP, SHAPE, PLACE_IN, PLACE_OUT };

static int64_t windows_in(const shoal_attr_value_t *attrs, int64_t size) {
  return size < attrs[SIZE].i ? 0 : (size - attrs[SIZE].i) / attrs[STEP].i + 1;
}

// The shape of the windows of a tensor of shape `x`.
static shoal_shape_t windows_shape(const shoal_attr_value_t *attrs, const shoal_shape_t *x,
                                   int32_t axis) {
  shoal_shape_t shape = *x;
  shape.dims[axis] = windows_in(attrs, x->dims[axis]);
  shape.dims[shape.rank++] = attrs[SIZE].i;
  return shape;
}

typedef struct fold {
  int32_t axis;
  shoal_place_t x, windows;
} fold_t;

static shoal_status_t check_fold(const shoal_call_t *call, bool adjoint, shoal_shape_t *out_shape,
                                 fold_t *out_fold) {
  const shoal_shape_t *in = &call->inputs[0].shape;
  shoal_place_t from, to;
  SHOAL_RETURN_IF_ERROR(shoal_check_sizes(call, SHAPE, out_shape));
  const int32_t rank = adjoint ? out_shape->rank : in->rank;
  REQUIRE(call, rank < SHOAL_MAX_RANK, "the result would have more than %d dims", SHOAL_MAX_RANK);
  SHOAL_RETURN_IF_ERROR(shoal_check_axis(call, call->attrs[AXIS].i, rank, &out_fold->axis));
  REQUIRE(call, call->attrs[SIZE].i >= 1 && call->attrs[STEP].i >= 1,
          "size is %lld and step %lld: both are at least 1", (long long)call->attrs[SIZE].i,
          (long long)call->attrs[STEP].i);
  SHOAL_RETURN_IF_ERROR(shoal_check_dims(call, PLACE_IN, in, &from));
  SHOAL_RETURN_IF_ERROR(shoal_check_dims(call, PLACE_OUT, out_shape, &to));
  out_fold->x = adjoint ? to : from;
  out_fold->windows = adjoint ? from : to;
  const int64_t size = out_fold->x.whole.dims[out_fold->axis];
  REQUIRE_HINT(call, size >= call->attrs[SIZE].i, "take a smaller size, or pad x first",
               "a window of %lld elements does not fit into the %lld of dim %d",
               (long long)call->attrs[SIZE].i, (long long)size, out_fold->axis);
  const shoal_shape_t fits = windows_shape(call->attrs, &out_fold->x.whole, out_fold->axis);
  char text[128];
  shoal_shape_format(&fits, text, sizeof text);
  REQUIRE(call, shoal_shape_equal(&out_fold->windows.whole, &fits), "the windows have shape %s",
          text);
  for (int32_t d = 0; d < rank; ++d) {
    REQUIRE(call, d == out_fold->axis || out_fold->x.part.dims[d] == out_fold->windows.part.dims[d],
            "the operands differ along dim %d", d);
  }
  return NULL;
}

static void unfold_complete(const shoal_call_t *call, shoal_attr_value_t *attrs) {
  const shoal_shape_t *x = &call->inputs[0].shape;
  const int64_t axis = shoal_normal_axis(attrs[AXIS].i, x->rank);
  if (attrs[SHAPE].count > 0 || x->rank >= SHOAL_MAX_RANK || axis < 0 || axis >= x->rank) return;
  if (attrs[STEP].i < 1) return;
  const shoal_shape_t shape = windows_shape(attrs, x, (int32_t)axis);
  attrs[SHAPE].count = shape.rank;
  for (int32_t d = 0; d < shape.rank; ++d) attrs[SHAPE].ints[d] = shape.dims[d];
}

static shoal_status_t unfold_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  fold_t fold;
  out_types[0].dtype = call->inputs[0].dtype;
  return check_fold(call, false, &out_types[0].shape, &fold);
}

static shoal_status_t fold_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  fold_t fold;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 1));
  out_types[0].dtype = call->inputs[0].dtype;
  return check_fold(call, true, &out_types[0].shape, &fold);
}

// Where element i of the windows' part lies in the part of x; -1: in another one.
static int64_t element_of(const shoal_call_t *call, const fold_t *fold, int64_t i) {
  const shoal_shape_t *shape = &fold->windows.part;
  const int32_t last = shape->rank - 1;
  const int64_t *const *index = fold->windows.index;
  const int64_t j = i % shape->dims[last];
  int64_t rest = i / shape->dims[last], at = 0, stride = 1;
  for (int32_t d = last - 1; d >= 0; --d) {
    int64_t here = rest % shape->dims[d];
    rest /= shape->dims[d];
    if (d == fold->axis) {
      const int64_t window = index[d] ? index[d][here] : here,
                    tap = index[last] ? index[last][j] : j;
      here = shoal_place_local(&fold->x, d, window * call->attrs[STEP].i + tap);
      if (here < 0) return -1;
    }
    at += here * stride;
    stride *= fold->x.part.dims[d];
  }
  return at;
}

OP_KERNEL(unfold) {
  (void)workspace;
  shoal_shape_t shape;
  fold_t fold;
  SHOAL_RETURN_IF_ERROR(check_fold(call, false, &shape, &fold));
  const int64_t count = shoal_shape_count(&shape);
  const size_t size = shoal_dtype_size(inputs->dtype);
  for (int64_t i = 0; i < count; ++i) {
    shoal_copy_run(size, inputs->data, element_of(call, &fold, i), outputs->data, i, 1);
  }
  return NULL;
}

OP_KERNEL(fold) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, fold_kernel);
  }
  shoal_shape_t shape;
  fold_t fold;
  SHOAL_RETURN_IF_ERROR(check_fold(call, true, &shape, &fold));
  const int64_t count = shoal_shape_count(&inputs->shape);
  const size_t bytes = shoal_tensor_bytes(outputs);
  if (bytes) memset(outputs->data, 0, bytes);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t to = element_of(call, &fold, i);
    if (to >= 0) shoal_add_run(outputs->dtype, inputs->data, i, outputs->data, to, 1);
  }
  return NULL;
}

static shoal_ref_t emit_fold(const shoal_call_t *call, shoal_emitter_t *e, const char *op,
                             shoal_ref_t x) {
  return shoal_emit_one(e, op, REFS(x),
                        ATTRS(shoal_attr_int("axis", call->attrs[AXIS].i),
                              shoal_attr_int("size", call->attrs[SIZE].i),
                              shoal_attr_int("step", call->attrs[STEP].i),
                              shoal_attr_shape("shape", &call->inputs[0].shape)));
}

OP_GRADIENT(unfold) {
  (void)in, (void)out;
  in_grads[0] = emit_fold(call, e, "shoal.fold", grads[0]);
}

OP_GRADIENT(fold) {
  (void)in, (void)out;
  in_grads[0] = emit_fold(call, e, "shoal.unfold", grads[0]);
}

static void fold_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = (double)shoal_shape_count(&call->inputs[0].shape);
}

#define FOLD_ATTRS(shape_optional, shape_doc)                                                    \
  SHOAL_OP_ATTRS(SHOAL_ATTR_AXIS,                                                                \
                 {.name = "size", .kind = SHOAL_ATTR_INT, .doc = "elements of a window"},        \
                 {.name = "step", .kind = SHOAL_ATTR_INT, .doc = "from one window to the next"}, \
                 {.name = "shape",                                                               \
                  .kind = SHOAL_ATTR_INTS,                                                       \
                  .role = SHOAL_ROLE_SIZE,                                                       \
                  .operand = SHOAL_OUTPUT(0),                                                    \
                  .optional = shape_optional,                                                    \
                  .doc = shape_doc},                                                             \
                 SHOAL_ATTR_PLACE_OF("place_in", SHOAL_INPUT(0)),                                \
                 SHOAL_ATTR_PLACE_OF("place_out", SHOAL_OUTPUT(0)))

const shoal_op_t shoal_op_unfold = {
    .name = "shoal.unfold",
    .doc =
        "Windows of x along axis, `step` apart, each as a new last dim: out[.., i, .., j] = x[.., "
        "step * i + j, ..]. Of n elements there are (n - size) / step + 1 windows, rounded down; "
        "what lies behind the last is left out.",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    .any_dtype = true,
    FOLD_ATTRS(true, "shape of the result: as many windows as fit"),
    .complete = unfold_complete,
    .infer = unfold_infer,
    .gradient = unfold_gradient,
    .cost = shoal_cost_move,
    .kernel = unfold_kernel,
    SHOAL_OP_CASES("f64[3,9] ; axis=1, size=3, step=1", "f32[2,9,3] ; axis=1, size=3, step=2",
                   "bf16[8] ; axis=0, size=2, step=2", "i64[3,5]<50 ; axis=0, size=1, step=1",
                   "f32[0,5] ; axis=1, size=2, step=1"),
};

const shoal_op_t shoal_op_fold = {
    .name = "shoal.fold",
    .doc =
        "Adjoint of unfold: zeros of the given shape, with each dy[.., i, .., j] added at [.., "
        "step * i + j, ..].",
    SHOAL_OP_INPUTS("dy"),
    SHOAL_OP_OUTPUTS("dx"),
    FOLD_ATTRS(false, "shape of x"),
    .infer = fold_infer,
    .gradient = fold_gradient,
    .cost = fold_cost,
    .workspace = shoal_kernel_widen_bytes,
    .kernel = fold_kernel,
    SHOAL_OP_CASES("f64[3,7,3] ; axis=1, size=3, step=1, shape=[3,9]",
                   "f32[2,4,3,3] ; axis=1, size=3, step=2, shape=[2,9,3]",
                   "bf16[4,2] ; axis=0, size=2, step=2, shape=[8]",
                   "f64[3,5,1] ; axis=0, size=1, step=1, shape=[3,5]",
                   "f32[0,4,2] ; axis=1, size=2, step=1, shape=[0,5]"),
};
