// Writing along a dim by index. The result has the shape [a.., n, b..].
//   scatter_add  ids [k..]  src [a.., k.., b..]  x (may be left out)
//                x or zeros, with src[a.., k.., b..] added at [a.., ids[k..], b..], in order
//   index_put    x  ids [k..]  values [a.., k.., b..]
//                x, with values[a.., k.., b..] written (or added) at [a.., ids[k..], b..]
//   put_along    x  ids, src [a.., k, b..]
//                x, with src[a.., k, b..] written (or added) at [a.., ids[a.., k, b..], b..]
// Of several writes to one place the last in row-major order of ids wins. An index that lies in the
// whole but not in the part writes nothing here; one outside the whole is refused.
#include "op/families/along.h"
#include "op/families/emit.h"

// ---- scatter_add -----------------------------------------------------------------------

enum { IDS, SRC, START };
enum { AXIS, SHAPE, PLACE };

static shoal_status_t scatter_add_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_shape_t shape, fits;
  shoal_place_t place;
  int32_t axis;
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, IDS));
  SHOAL_RETURN_IF_ERROR(shoal_check_number(call, SRC));
  SHOAL_RETURN_IF_ERROR(shoal_check_sizes(call, SHAPE, &shape));
  SHOAL_RETURN_IF_ERROR(shoal_check_axis(call, call->attrs[AXIS].i, shape.rank, &axis));
  SHOAL_RETURN_IF_ERROR(shoal_check_replaced(call, &shape, axis, &call->inputs[IDS].shape, &fits));
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, SRC, &fits));
  const int32_t x = GIVEN(call, START);
  if (x >= 0) {
    SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, x, &shape));
    SHOAL_RETURN_IF_ERROR(shoal_check_same_dtype(call, SRC, x));
  }
  out_types[0] = (shoal_type_t){call->inputs[SRC].dtype, shape};
  return shoal_check_dims(call, PLACE, &shape, &place);
}

static int64_t scatter_add_index_count(const shoal_call_t *call, int32_t input) {
  const shoal_attr_value_t *shape = &call->attrs[SHAPE];
  return input == IDS ? shape->ints[shoal_normal_axis(call->attrs[AXIS].i, shape->count)] : 0;
}

OP_GRADIENT(scatter_add) {
  (void)out;
  in_grads[SRC] = shoal_emit_one(e, "shoal.gather", REFS(grads[0], in[IDS]),
                                 ATTRS(shoal_attr_int("axis", call->attrs[AXIS].i)));
  if (GIVEN(call, START) >= 0) in_grads[GIVEN(call, START)] = grads[0];
}

OP_KERNEL(scatter_add) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, scatter_add_kernel);
  }
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_dims(call, PLACE, &outputs->shape, &place));
  const int32_t axis = shoal_normal_axis(call->attrs[AXIS].i, outputs->shape.rank);
  const shoal_along_t x = shoal_along_of(&outputs->shape, axis);
  const int64_t count = shoal_shape_count(&inputs[IDS].shape);
  const size_t bytes = shoal_tensor_bytes(outputs);
  const int32_t start = GIVEN(call, START);
  if (bytes && start < 0) {
    memset(outputs->data, 0, bytes);
  } else if (bytes && inputs[start].data != outputs->data) {
    memcpy(outputs->data, inputs[start].data, bytes);
  }
  for (int64_t k = 0; k < count; ++k) {
    int64_t at = -1;
    SHOAL_RETURN_IF_ERROR(shoal_check_index(call, IDS, &inputs[IDS], k, &place, axis, &at));
    for (int64_t o = 0; at >= 0 && o < x.outer; ++o) {
      shoal_add_run(outputs->dtype, inputs[SRC].data, (o * count + k) * x.inner, outputs->data,
                    (o * x.size + at) * x.inner, x.inner);
    }
  }
  return NULL;
}

static void scatter_add_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = (double)shoal_shape_count(&call->inputs[SRC].shape);
}

const shoal_op_t shoal_op_scatter_add = {
    .name = "shoal.scatter_add",
    .doc =
        "x, or zeros of the given shape, with src[a.., k.., b..] added at [a.., ids[k..], b..] in "
        "order; without x the adjoint of gather. Numbers, not bools; half-size floats are added in "
        "f32. An index outside [0, n), n the size of dim `axis`, is an error, a negative one too.",
    SHOAL_OP_INPUTS("ids", "src", "x"),
    SHOAL_OP_OUTPUTS("out"),
    .optional = 1,
    .uncut = "ids, and src with them, where x is given: adding starts from x",
    SHOAL_OP_OVERWRITES({0, START}),
    SHOAL_OP_ATTRS(SHOAL_ATTR_AXIS,
                   SHOAL_ATTR_SIZES("shape", SHOAL_OUTPUT(0), "shape of the result"),
                   SHOAL_ATTR_PLACE_OF("place", SHOAL_OUTPUT(0)), SHOAL_ATTR_WITH),
    .infer = scatter_add_infer,
    .index_count = scatter_add_index_count,
    .gradient = scatter_add_gradient,
    .cost = scatter_add_cost,
    .workspace = shoal_kernel_widen_bytes,
    .kernel = scatter_add_kernel,
    SHOAL_OP_CASES(
        "i64[9]<4, f64[3,9,2] ; axis=1, shape=[3,4,2]",
        "i32[2,4]<5, f32[2,4,3] ; axis=0, shape=[5,3]", "u8[]<7, bf16[3] ; axis=-1, shape=[3,7]",
        "i64[7]<5, i32[7,3]<50 ; axis=0, shape=[5,3]", "i64[4]<1, f64[3,4] ; axis=1, shape=[3,1]",
        "i64[0]<5, f32[3,0] ; axis=1, shape=[3,5]",
        "i64[9]<4, f64[3,9], f64[3,4] ; axis=1, shape=[3,4], with=\"x\""),
};

// ---- index_put and put_along -----------------------------------------------------------

enum { X, AT, VALUES };
enum { ADD = 1, PUT_PLACE };

static shoal_status_t check_put(const shoal_call_t *call, shoal_place_t *out_place,
                                int32_t *out_axis) {
  const shoal_type_t *x = &call->inputs[X];
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, AT));
  SHOAL_RETURN_IF_ERROR(shoal_check_axis(call, call->attrs[AXIS].i, x->shape.rank, out_axis));
  SHOAL_RETURN_IF_ERROR(shoal_check_same_dtype(call, X, VALUES));
  if (call->attrs[ADD].i != 0) SHOAL_RETURN_IF_ERROR(shoal_check_number(call, X));
  return shoal_check_dims(call, PUT_PLACE, &x->shape, out_place);
}

static shoal_status_t index_put_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_place_t place;
  shoal_shape_t fits;
  int32_t axis;
  SHOAL_RETURN_IF_ERROR(check_put(call, &place, &axis));
  SHOAL_RETURN_IF_ERROR(
      shoal_check_replaced(call, &call->inputs[X].shape, axis, &call->inputs[AT].shape, &fits));
  out_types[0] = call->inputs[X];
  return shoal_check_shape(call, VALUES, &fits);
}

static shoal_status_t put_along_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_place_t place;
  int32_t axis;
  SHOAL_RETURN_IF_ERROR(check_put(call, &place, &axis));
  SHOAL_RETURN_IF_ERROR(shoal_check_along(call, AT, &call->inputs[X].shape, axis));
  out_types[0] = call->inputs[X];
  return shoal_check_shape(call, VALUES, &call->inputs[AT].shape);
}

static int64_t put_index_count(const shoal_call_t *call, int32_t input) {
  const shoal_shape_t *x = &call->inputs[X].shape;
  return input == AT ? x->dims[shoal_normal_axis(call->attrs[AXIS].i, x->rank)] : 0;
}

static shoal_ref_t emit_put(shoal_emitter_t *e, const char *op, shoal_ref_t x, shoal_ref_t ids,
                            shoal_ref_t values, int64_t axis) {
  return shoal_emit_one(e, op, REFS(x, ids, values), ATTRS(shoal_attr_int("axis", axis)));
}

static shoal_ref_t emit_full(shoal_emitter_t *e, const shoal_shape_t *shape, shoal_dtype_t dtype) {
  return shoal_emit_one(e, "shoal.full", NO_REFS,
                        ATTRS(shoal_attr_shape("shape", shape), shoal_attr_real("value", 0),
                              shoal_attr_dtype("dtype", dtype)));
}

static shoal_ref_t emit_order(shoal_emitter_t *e, const shoal_shape_t *shape, int32_t axis) {
  return shoal_emit_one(e, "shoal.iota", NO_REFS,
                        ATTRS(shoal_attr_shape("shape", shape), shoal_attr_int("axis", axis),
                              shoal_attr_dtype("dtype", SHOAL_I64)));
}

// Adding passes the gradient on; writing leaves none where something was written, and what is
// written over by a later write gets none: `wins` says which did stay.
static void put_gradient(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                         shoal_ref_t dy, const char *read, shoal_ref_t wins,
                         shoal_ref_t *in_grads) {
  const int64_t axis = call->attrs[AXIS].i;
  const shoal_type_t *values = &call->inputs[VALUES];
  const shoal_ref_t taken =
      shoal_emit_one(e, read, REFS(dy, in[AT]), ATTRS(shoal_attr_int("axis", axis)));
  if (call->attrs[ADD].i != 0) {
    in_grads[X] = dy;
    in_grads[VALUES] = taken;
    return;
  }
  in_grads[X] =
      emit_put(e, call->op->name, dy, in[AT], emit_full(e, &values->shape, values->dtype), axis);
  in_grads[VALUES] = shoal_emit_where(e, wins, taken, shoal_emit_scalar(e, values->dtype, 0));
}

OP_GRADIENT(put_along) {
  (void)out;
  const shoal_shape_t *ids = &call->inputs[AT].shape;
  const int32_t axis = shoal_normal_axis(call->attrs[AXIS].i, ids->rank);
  shoal_ref_t wins = SHOAL_NO_REF;
  if (call->attrs[ADD].i == 0) {
    const shoal_ref_t order = emit_order(e, ids, axis);
    const shoal_ref_t last = emit_put(
        e, "shoal.put_along", emit_full(e, &call->inputs[X].shape, SHOAL_I64), in[AT], order, axis);
    wins = shoal_emit_binary(e, "shoal.equal", order,
                             shoal_emit_one(e, "shoal.take_along", REFS(last, in[AT]),
                                            ATTRS(shoal_attr_int("axis", axis))));
  }
  put_gradient(call, e, in, grads[0], "shoal.take_along", wins, in_grads);
}

OP_GRADIENT(index_put) {
  (void)out;
  const shoal_shape_t *x = &call->inputs[X].shape, *ids = &call->inputs[AT].shape;
  const int32_t axis = shoal_normal_axis(call->attrs[AXIS].i, x->rank);
  shoal_ref_t wins = SHOAL_NO_REF;
  if (call->attrs[ADD].i == 0) {
    const shoal_shape_t rows = SHOAL_SHAPE(x->dims[axis]),
                        flat = SHOAL_SHAPE(shoal_shape_count(ids));
    const shoal_ref_t order = shoal_emit_reshape(e, emit_order(e, &flat, 0), ids);
    const shoal_ref_t last =
        emit_put(e, "shoal.index_put", emit_full(e, &rows, SHOAL_I64), in[AT], order, 0);
    wins = shoal_emit_binary(
        e, "shoal.equal", order,
        shoal_emit_one(e, "shoal.gather", REFS(last, in[AT]), ATTRS(shoal_attr_int("axis", 0))));
    shoal_shape_t behind = *ids;  // broadcast over the dims of x behind the axis
    for (int32_t d = axis + 1; d < x->rank && behind.rank < SHOAL_MAX_RANK; ++d) {
      behind.dims[behind.rank++] = 1;
    }
    wins = shoal_emit_reshape(e, wins, &behind);
  }
  put_gradient(call, e, in, grads[0], "shoal.gather", wins, in_grads);
}

// Writes or adds a run of `values` to the result.
static void put_run(const shoal_call_t *call, const shoal_tensor_t *inputs,
                    const shoal_tensor_t *outputs, int64_t from, int64_t to, int64_t n) {
  if (call->attrs[ADD].i != 0) {
    shoal_add_run(outputs->dtype, inputs[VALUES].data, from, outputs->data, to, n);
  } else {
    shoal_copy_run(shoal_dtype_size(outputs->dtype), inputs[VALUES].data, from, outputs->data, to,
                   n);
  }
}

static void start_from_x(const shoal_tensor_t *inputs, const shoal_tensor_t *outputs) {
  const size_t bytes = shoal_tensor_bytes(outputs);
  if (bytes && outputs->data != inputs[X].data) memcpy(outputs->data, inputs[X].data, bytes);
}

OP_KERNEL(index_put) {
  if (call->attrs[ADD].i != 0 && shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, index_put_kernel);
  }
  shoal_place_t place;
  int32_t axis;
  SHOAL_RETURN_IF_ERROR(check_put(call, &place, &axis));
  const shoal_along_t x = shoal_along_of(&outputs->shape, axis);
  const int64_t count = shoal_shape_count(&inputs[AT].shape);
  start_from_x(inputs, outputs);
  for (int64_t k = 0; k < count; ++k) {
    int64_t at = -1;
    SHOAL_RETURN_IF_ERROR(shoal_check_index(call, AT, &inputs[AT], k, &place, axis, &at));
    for (int64_t o = 0; at >= 0 && o < x.outer; ++o) {
      put_run(call, inputs, outputs, (o * count + k) * x.inner, (o * x.size + at) * x.inner,
              x.inner);
    }
  }
  return NULL;
}

OP_KERNEL(put_along) {
  if (call->attrs[ADD].i != 0 && shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, put_along_kernel);
  }
  shoal_place_t place;
  int32_t axis;
  SHOAL_RETURN_IF_ERROR(check_put(call, &place, &axis));
  const shoal_along_t x = shoal_along_of(&outputs->shape, axis);
  const shoal_along_t ids = shoal_along_of(&inputs[AT].shape, axis);
  const int64_t count = shoal_shape_count(&inputs[AT].shape);
  start_from_x(inputs, outputs);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t o = i / (ids.size * ids.inner), b = i % ids.inner;
    int64_t at = -1;
    SHOAL_RETURN_IF_ERROR(shoal_check_index(call, AT, &inputs[AT], i, &place, axis, &at));
    if (at >= 0) put_run(call, inputs, outputs, i, (o * x.size + at) * x.inner + b, 1);
  }
  return NULL;
}

static int64_t put_workspace(const shoal_call_t *call) {
  return call->attrs[ADD].i != 0 ? shoal_kernel_widen_bytes(call) : 0;
}

static void put_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  const double count = (double)shoal_shape_count(&call->inputs[VALUES].shape);
  out_cost->flops = call->attrs[ADD].i != 0 ? count : 0;
}

#define PUT_ATTRS                                                                              \
  SHOAL_OP_ATTRS(SHOAL_ATTR_AXIS,                                                              \
                 {.name = "add",                                                               \
                  .kind = SHOAL_ATTR_INT,                                                      \
                  .optional = true,                                                            \
                  .doc = "1: add instead of writing, half-size floats in f32; not for bools"}, \
                 SHOAL_ATTR_PLACE_OF("place", SHOAL_INPUT(X)))

const shoal_op_t shoal_op_index_put = {
    .name = "shoal.index_put",
    .doc =
        "x with values[a.., k.., b..] written at [a.., ids[k..], b..], where ids stand for dim "
        "`axis`. Of several writes to one place the last, in row-major order of ids, stays, and "
        "alone gets a gradient. An index outside [0, n), n the size of that dim, is an error, a "
        "negative one too.",
    SHOAL_OP_INPUTS("x", "ids", "values"),
    SHOAL_OP_OUTPUTS("out"),
    .uncut = "ids and values: the last write to a place wins, and adding starts from x",
    PUT_ATTRS,
    SHOAL_OP_OVERWRITES({0, X}),
    .infer = index_put_infer,
    .index_count = put_index_count,
    .gradient = index_put_gradient,
    .cost = put_cost,
    .workspace = put_workspace,
    .kernel = index_put_kernel,
    SHOAL_OP_CASES(
        "f64[3,4,2], i64[9]<4, f64[3,9,2] ; axis=1",
        "f32[5,3], i32[2,4]<5, f32[2,4,3] ; axis=0, add=1", "bf16[3,7], u8[]<7, bf16[3] ; axis=-1",
        "f16[3,2], i32[5]<3, f16[5,2] ; axis=0, add=1",
        "i64[5,3]<50, i64[7]<5, i64[7,3]<50 ; axis=0", "f32[1,5], i64[4]<1, f32[4,5] ; axis=0",
        "f64[3,5], i64[0]<5, f64[3,0] ; axis=1"),
};

const shoal_op_t shoal_op_put_along = {
    .name = "shoal.put_along",
    .doc =
        "x with src[a.., k, b..] written at [a.., ids[a.., k, b..], b..]. ids has the dims of x "
        "but for `axis`. Of several writes to one place the last, in row-major order of ids, "
        "stays, and alone gets a gradient. An index outside [0, n), n the size of dim `axis`, is "
        "an error, a negative one too.",
    SHOAL_OP_INPUTS("x", "ids", "src"),
    SHOAL_OP_OUTPUTS("out"),
    .uncut = "ids and src along the axis: the last write to a place wins, and adding starts from x",
    PUT_ATTRS,
    SHOAL_OP_OVERWRITES({0, X}),
    .infer = put_along_infer,
    .index_count = put_index_count,
    .gradient = put_along_gradient,
    .cost = put_cost,
    .workspace = put_workspace,
    .kernel = put_along_kernel,
    SHOAL_OP_CASES("f64[3,4,2], i64[3,7,2]<4, f64[3,7,2] ; axis=1",
                   "f32[5,3], i32[7,3]<5, f32[7,3] ; axis=0, add=1",
                   "bf16[3,7], u8[3,1]<7, bf16[3,1] ; axis=-1",
                   "f16[3,2], i32[5,2]<3, f16[5,2] ; axis=0, add=1",
                   "i64[5,3]<50, i64[7,3]<5, i64[7,3]<50 ; axis=0",
                   "f32[3,5], i64[3,0]<5, f32[3,0] ; axis=1"),
};
