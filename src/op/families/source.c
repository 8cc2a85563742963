// Values from nothing: full and iota. What an element is depends only on its index in the whole.
#include "op/families/emit.h"
#include "op/families/kernel.h"

// ---- full ------------------------------------------------------------------------------

enum { FULL_SHAPE, FULL_VALUE, FULL_DTYPE };

static shoal_status_t full_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  out_types[0].dtype = (shoal_dtype_t)call->attrs[FULL_DTYPE].i;
  return shoal_check_sizes(call, FULL_SHAPE, &out_types[0].shape);
}

static shoal_status_t full_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                  const shoal_tensor_t *outputs, void *workspace) {
  (void)inputs, (void)workspace;
  uint64_t element;  // any dtype
  shoal_dtype_store(outputs->dtype, &element, 0, call->attrs[FULL_VALUE].f);
  const int64_t still[SHOAL_MAX_RANK] = {0};
  int64_t dst[SHOAL_MAX_RANK];
  shoal_strides(&outputs->shape, dst);
  shoal_copy_box(&outputs->shape, shoal_dtype_size(outputs->dtype), &element, 0, still,
                 outputs->data, 0, dst);
  return NULL;
}

const shoal_op_t shoal_op_full = {
    .name = "shoal.full",
    .doc = "A tensor of one value, a double cast to dtype: integers beyond 2^53 are not exact.",
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(SHOAL_ATTR_SIZES("shape", SHOAL_OUTPUT(0), "shape of the result"),
                   {.name = "value", .kind = SHOAL_ATTR_REAL, .doc = "every element"},
                   {.name = "dtype", .kind = SHOAL_ATTR_DTYPE, .doc = "dtype of the result"}),
    .any_dtype = true,
    .infer = full_infer,
    .gradient = shoal_gradient_none,
    .kernel = full_kernel,
    SHOAL_OP_CASES("; shape=[3,5], value=0.5, dtype=f64", "; shape=[7], value=-2, dtype=f32",
                   "; shape=[], value=1.25, dtype=bf16", "; shape=[3], value=7, dtype=i64",
                   "; shape=[3], value=1, dtype=bool", "; shape=[0,3], value=1, dtype=f32"),
};

// ---- iota ------------------------------------------------------------------------------

enum { IOTA_SHAPE, IOTA_AXIS, IOTA_DTYPE, IOTA_PLACE };

// The axis is one of the whole's: a flat part has other dims.
static shoal_status_t iota_check(const shoal_call_t *call, shoal_shape_t *out_shape,
                                 shoal_place_t *out_place, int32_t *out_axis) {
  SHOAL_RETURN_IF_ERROR(shoal_check_sizes(call, IOTA_SHAPE, out_shape));
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, IOTA_PLACE, out_shape, out_place));
  return shoal_check_axis(call, call->attrs[IOTA_AXIS].i, out_place->whole.rank, out_axis);
}

static shoal_status_t iota_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_place_t place;
  int32_t axis;
  out_types[0].dtype = (shoal_dtype_t)call->attrs[IOTA_DTYPE].i;
  return iota_check(call, &out_types[0].shape, &place, &axis);
}

static shoal_status_t iota_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                  const shoal_tensor_t *outputs, void *workspace) {
  (void)inputs, (void)workspace;
  shoal_shape_t shape;
  shoal_place_t place;
  int32_t axis;
  SHOAL_RETURN_IF_ERROR(iota_check(call, &shape, &place, &axis));
  const int64_t count = shoal_shape_count(&shape);
  const int64_t inner = shoal_shape_product(&place.whole, axis + 1, place.whole.rank);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t index = shoal_place_global(&place, i) / inner % place.whole.dims[axis];
    shoal_dtype_store_int(outputs->dtype, outputs->data, i, index);
  }
  return NULL;
}

const shoal_op_t shoal_op_iota = {
    .name = "shoal.iota",
    .doc =
        "Each element is its own index along axis, from 0 on: integers wrap, floats round where "
        "the dtype does not hold it.",
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(SHOAL_ATTR_SIZES("shape", SHOAL_OUTPUT(0), "shape of the result"),
                   SHOAL_ATTR_AXIS,
                   {.name = "dtype", .kind = SHOAL_ATTR_DTYPE, .doc = "dtype of the result"},
                   SHOAL_ATTR_PLACE_OF("place", SHOAL_OUTPUT(0))),
    .infer = iota_infer,
    .gradient = shoal_gradient_none,
    .kernel = iota_kernel,
    SHOAL_OP_CASES("; shape=[3,5], axis=0, dtype=f64", "; shape=[3,5,2], axis=1, dtype=f32",
                   "; shape=[7], axis=-1, dtype=i64", "; shape=[4,3], axis=1, dtype=i32",
                   "; shape=[0,3], axis=0, dtype=u8"),
};
