// Reading along a dim by index. x has the shape [a.., n, b..].
//   gather      ids [k..]          out [a.., k.., b..] = x[a.., ids[k..], b..]
//   take_along  ids [a.., k, b..]  out [a.., k, b..] = x[a.., ids[a.., k, b..], b..]
// and the adjoint of take_along (that of gather is scatter_add). An index that lies in the whole
// but not in the part gives 0, so that an x cut along the dim gives partial sums; one outside the
// whole is refused.
#include "op/families/along.h"
#include "op/families/emit.h"

enum { X, IDS };
enum { AXIS, PLACE };

// ---- gather ----------------------------------------------------------------------------

static shoal_status_t gather_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_type_t *x = &call->inputs[X];
  shoal_place_t place;
  int32_t axis;
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, IDS));
  SHOAL_RETURN_IF_ERROR(shoal_check_axis(call, call->attrs[AXIS].i, x->shape.rank, &axis));
  SHOAL_RETURN_IF_ERROR(shoal_check_dims(call, PLACE, &x->shape, &place));
  out_types[0].dtype = x->dtype;
  return shoal_check_replaced(call, &x->shape, axis, &call->inputs[IDS].shape, &out_types[0].shape);
}

static int64_t read_index_count(const shoal_call_t *call, int32_t input) {
  const shoal_shape_t *x = &call->inputs[X].shape;
  return input == IDS ? x->dims[shoal_normal_axis(call->attrs[AXIS].i, x->rank)] : 0;
}

OP_GRADIENT(gather) {
  (void)out;
  in_grads[X] = shoal_emit_one(e, "shoal.scatter_add", REFS(in[IDS], grads[0]),
                               ATTRS(shoal_attr_int("axis", call->attrs[AXIS].i),
                                     shoal_attr_shape("shape", &call->inputs[X].shape)));
}

OP_KERNEL(gather) {
  (void)workspace;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_dims(call, PLACE, &inputs[X].shape, &place));
  const int32_t axis = shoal_normal_axis(call->attrs[AXIS].i, inputs[X].shape.rank);
  const shoal_along_t x = shoal_along_of(&inputs[X].shape, axis);
  const int64_t count = shoal_shape_count(&inputs[IDS].shape);
  const size_t size = shoal_dtype_size(inputs[X].dtype);
  for (int64_t k = 0; k < count; ++k) {
    int64_t at = -1;
    SHOAL_RETURN_IF_ERROR(shoal_check_index(call, IDS, &inputs[IDS], k, &place, axis, &at));
    for (int64_t o = 0; o < x.outer; ++o) {
      shoal_copy_run(size, inputs[X].data, at < 0 ? -1 : (o * x.size + at) * x.inner, outputs->data,
                     (o * count + k) * x.inner, x.inner);
    }
  }
  return NULL;
}

const shoal_op_t shoal_op_gather = {
    .name = "shoal.gather",
    .doc =
        "Slices of x by index: out[a.., k.., b..] = x[a.., ids[k..], b..], where ids stand for dim "
        "`axis` (PyTorch's index_select). An index outside [0, n), n the size of that dim, is an "
        "error, a negative one too.",
    SHOAL_OP_INPUTS("x", "ids"),
    SHOAL_OP_OUTPUTS("out"),
    .any_dtype = true,
    SHOAL_OP_ATTRS(SHOAL_ATTR_AXIS, SHOAL_ATTR_PLACE_OF("place", SHOAL_INPUT(X))),
    .infer = gather_infer,
    .index_count = read_index_count,
    .gradient = gather_gradient,
    .cost = shoal_cost_move,
    .kernel = gather_kernel,
    SHOAL_OP_CASES("f64[3,4,2], i64[9]<4 ; axis=1", "f32[5,3], i32[2,4]<5 ; axis=0",
                   "bf16[3,7], u8[]<7 ; axis=-1", "i64[5,2]<50, i64[7,2]<5 ; axis=0",
                   "f32[3,1,2], i64[4]<1 ; axis=1", "f64[3,5], i64[0]<5 ; axis=1"),
};

// ---- take_along and its adjoint --------------------------------------------------------

static shoal_status_t take_along_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_type_t *x = &call->inputs[X];
  shoal_place_t place;
  int32_t axis;
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, IDS));
  SHOAL_RETURN_IF_ERROR(shoal_check_axis(call, call->attrs[AXIS].i, x->shape.rank, &axis));
  SHOAL_RETURN_IF_ERROR(shoal_check_along(call, IDS, &x->shape, axis));
  out_types[0] = (shoal_type_t){x->dtype, call->inputs[IDS].shape};
  return shoal_check_dims(call, PLACE, &x->shape, &place);
}

OP_GRADIENT(take_along) {
  (void)out;
  in_grads[X] = shoal_emit_one(e, "shoal.take_along_grad", REFS(in[IDS], grads[0]),
                               ATTRS(shoal_attr_int("axis", call->attrs[AXIS].i),
                                     shoal_attr_shape("shape", &call->inputs[X].shape)));
}

OP_KERNEL(take_along) {
  (void)workspace;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_dims(call, PLACE, &inputs[X].shape, &place));
  const int32_t axis = shoal_normal_axis(call->attrs[AXIS].i, inputs[X].shape.rank);
  const shoal_along_t x = shoal_along_of(&inputs[X].shape, axis);
  const shoal_along_t ids = shoal_along_of(&inputs[IDS].shape, axis);
  const int64_t count = shoal_shape_count(&inputs[IDS].shape);
  const size_t size = shoal_dtype_size(inputs[X].dtype);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t o = i / (ids.size * ids.inner), b = i % ids.inner;
    int64_t at = -1;
    SHOAL_RETURN_IF_ERROR(shoal_check_index(call, IDS, &inputs[IDS], i, &place, axis, &at));
    shoal_copy_run(size, inputs[X].data, at < 0 ? -1 : (o * x.size + at) * x.inner + b,
                   outputs->data, i, 1);
  }
  return NULL;
}

const shoal_op_t shoal_op_take_along = {
    .name = "shoal.take_along",
    .doc =
        "Elements of x by an index for each: out[a.., k, b..] = x[a.., ids[a.., k, b..], b..]. ids "
        "has the dims of x but for `axis` (PyTorch's gather). An index outside [0, n), n the size "
        "of that dim, is an error, a negative one too.",
    SHOAL_OP_INPUTS("x", "ids"),
    SHOAL_OP_OUTPUTS("out"),
    .any_dtype = true,
    SHOAL_OP_ATTRS(SHOAL_ATTR_AXIS, SHOAL_ATTR_PLACE_OF("place", SHOAL_INPUT(X))),
    .infer = take_along_infer,
    .index_count = read_index_count,
    .gradient = take_along_gradient,
    .cost = shoal_cost_move,
    .kernel = take_along_kernel,
    SHOAL_OP_CASES("f64[3,4,2], i64[3,7,2]<4 ; axis=1", "f32[5,3], i32[7,3]<5 ; axis=0",
                   "bf16[3,7], u8[3,1]<7 ; axis=-1", "i64[5,2]<50, i64[7,2]<5 ; axis=0",
                   "f32[3,5], i64[3,0]<5 ; axis=1"),
};

enum { GRAD_IDS, DY };
enum { SHAPE = 1, GRAD_PLACE };

static shoal_status_t take_along_grad_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_shape_t shape;
  shoal_place_t place;
  int32_t axis;
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, GRAD_IDS));
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, DY, 1));
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, DY, &call->inputs[GRAD_IDS].shape));
  SHOAL_RETURN_IF_ERROR(shoal_check_sizes(call, SHAPE, &shape));
  SHOAL_RETURN_IF_ERROR(shoal_check_axis(call, call->attrs[AXIS].i, shape.rank, &axis));
  SHOAL_RETURN_IF_ERROR(shoal_check_along(call, GRAD_IDS, &shape, axis));
  out_types[0] = (shoal_type_t){call->inputs[DY].dtype, shape};
  return shoal_check_dims(call, GRAD_PLACE, &shape, &place);
}

static int64_t take_along_grad_index_count(const shoal_call_t *call, int32_t input) {
  const shoal_attr_value_t *shape = &call->attrs[SHAPE];
  return input == GRAD_IDS ? shape->ints[shoal_normal_axis(call->attrs[AXIS].i, shape->count)] : 0;
}

OP_GRADIENT(take_along_grad) {
  (void)out;
  in_grads[DY] = shoal_emit_one(e, "shoal.take_along", REFS(grads[0], in[GRAD_IDS]),
                                ATTRS(shoal_attr_int("axis", call->attrs[AXIS].i)));
}

OP_KERNEL(take_along_grad) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, take_along_grad_kernel);
  }
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_dims(call, GRAD_PLACE, &outputs->shape, &place));
  const int32_t axis = shoal_normal_axis(call->attrs[AXIS].i, outputs->shape.rank);
  const shoal_along_t x = shoal_along_of(&outputs->shape, axis);
  const shoal_along_t ids = shoal_along_of(&inputs[GRAD_IDS].shape, axis);
  const int64_t count = shoal_shape_count(&inputs[GRAD_IDS].shape);
  const size_t bytes = shoal_tensor_bytes(outputs);
  if (bytes) memset(outputs->data, 0, bytes);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t o = i / (ids.size * ids.inner), b = i % ids.inner;
    int64_t at = -1;
    SHOAL_RETURN_IF_ERROR(
        shoal_check_index(call, GRAD_IDS, &inputs[GRAD_IDS], i, &place, axis, &at));
    if (at < 0) continue;
    shoal_add_run(outputs->dtype, inputs[DY].data, i, outputs->data,
                  (o * x.size + at) * x.inner + b, 1);
  }
  return NULL;
}

static void take_along_grad_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = (double)shoal_shape_count(&call->inputs[DY].shape);
}

const shoal_op_t shoal_op_take_along_grad = {
    .name = "shoal.take_along_grad",
    .doc =
        "Adjoint of take_along: zeros of the given shape with dy[a.., k, b..] added at [a.., "
        "ids[a.., k, b..], b..], in order.",
    SHOAL_OP_INPUTS("ids", "dy"),
    SHOAL_OP_OUTPUTS("dx"),
    SHOAL_OP_ATTRS(SHOAL_ATTR_AXIS, SHOAL_ATTR_SIZES("shape", SHOAL_OUTPUT(0), "shape of x"),
                   SHOAL_ATTR_PLACE_OF("place", SHOAL_OUTPUT(0))),
    .infer = take_along_grad_infer,
    .index_count = take_along_grad_index_count,
    .gradient = take_along_grad_gradient,
    .cost = take_along_grad_cost,
    .workspace = shoal_kernel_widen_bytes,
    .kernel = take_along_grad_kernel,
    SHOAL_OP_CASES("i64[3,7,2]<4, f64[3,7,2] ; axis=1, shape=[3,4,2]",
                   "i32[7,3]<5, f32[7,3] ; axis=0, shape=[5,3]",
                   "u8[3,1]<7, bf16[3,1] ; axis=-1, shape=[3,7]",
                   "i64[3,0]<5, f32[3,0] ; axis=1, shape=[3,5]"),
};
