// Split: x in several parts, one behind the other along one dim. Part i has the elements from
// starts[i] up to starts[i + 1], the last one up to the end; starts[0] is 0.
//   x [.., n, ..] -> parts[i] [.., starts[i + 1] - starts[i], ..]
// The reverse is concat, and so is its gradient.
#include "op/families/emit.h"
#include "op/families/kernel.h"

enum { SPLIT_AXIS, SPLIT_STARTS };

static int32_t split_outputs(const shoal_op_t *op, const shoal_attr_value_t *attrs) {
  (void)op;
  return attrs[SPLIT_STARTS].count;
}

// Where part `part` ends, along a dim of `size`.
static int64_t end_of(const shoal_attr_value_t *starts, int32_t part, int64_t size) {
  return part + 1 < starts->count ? shoal_attr_list(starts)[part + 1] : size;
}

static shoal_status_t split_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_type_t *x = &call->inputs[0];
  const shoal_attr_value_t *starts = &call->attrs[SPLIT_STARTS];
  int32_t axis;
  SHOAL_RETURN_IF_ERROR(shoal_check_axis(call, call->attrs[SPLIT_AXIS].i, x->shape.rank, &axis));
  const int64_t *list = shoal_attr_list(starts), size = x->shape.dims[axis];
  REQUIRE(call, starts->count >= 1, "starts is empty: it says where each part begins");
  REQUIRE_HINT(call, list[0] == 0, "starts are positions along the axis, not sizes: 0, 3, 5, ...",
               "the first part must start at 0, not at %lld", (long long)list[0]);
  for (int32_t i = 0; i < starts->count; ++i) {
    const int64_t end = end_of(starts, i, size);
    REQUIRE_HINT(call, list[i] <= end,
                 "starts are positions along the axis, not sizes: 0, 3, 5, ...",
                 "part %d of %d goes from %lld to %lld (dim %d has %lld elements)", i,
                 starts->count, (long long)list[i], (long long)end, axis, (long long)size);
    out_types[i] = *x;
    out_types[i].shape.dims[axis] = end - list[i];
  }
  return NULL;
}

// Parts that nothing flows into are zeros.
static void split_gradient(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                           const shoal_ref_t *out, const shoal_ref_t *grads,
                           shoal_ref_t *in_grads) {
  (void)in;
  shoal_ref_t parts[SHOAL_MAX_OUTPUTS];
  for (int32_t i = 0; i < call->output_count; ++i) {
    parts[i] = grads[i];
    if (grads[i] != SHOAL_NO_REF) continue;
    const shoal_type_t type = shoal_emit_type(e, out[i]);
    parts[i] = shoal_emit_broadcast(e, shoal_emit_scalar(e, type.dtype, 0), &type.shape);
  }
  const shoal_attr_t axis = shoal_attr_int("axis", call->attrs[SPLIT_AXIS].i);
  in_grads[0] = shoal_emit_one(e, "shoal.concat", call->output_count, parts, 1, &axis);
}

OP_KERNEL(split) {
  (void)workspace;
  const shoal_shape_t *shape = &inputs->shape;
  const int32_t axis = shoal_normal_axis(call->attrs[SPLIT_AXIS].i, shape->rank);
  const int64_t *starts = shoal_attr_list(&call->attrs[SPLIT_STARTS]);
  int64_t src[SHOAL_MAX_RANK], dst[SHOAL_MAX_RANK];
  shoal_strides(shape, src);
  for (int32_t i = 0; i < call->output_count; ++i) {
    shoal_strides(&outputs[i].shape, dst);
    shoal_copy_box(&outputs[i].shape, shoal_dtype_size(inputs->dtype), inputs->data,
                   starts[i] * src[axis], src, outputs[i].data, 0, dst);
  }
  return NULL;
}

const shoal_op_t shoal_op_split = {
    .name = "shoal.split",
    .doc =
        "x in parts along axis: part i goes from starts[i] up to starts[i + 1], the last one to "
        "the end; a part may be empty. More than 8 parts are not cut along axis.",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("parts"),
    .output_number = split_outputs,
    SHOAL_OP_ATTRS(SHOAL_ATTR_AXIS,
                   {.name = "starts",
                    .kind = SHOAL_ATTR_INTS,
                    .role = SHOAL_ROLE_POSITIONS,
                    .operand = SHOAL_INPUT(0),
                    .dim = SPLIT_AXIS,
                    .doc = "where the parts begin, 0 first: positions, not sizes"}),
    .any_dtype = true,
    .infer = split_infer,
    .gradient = split_gradient,
    .cost = shoal_cost_move,
    .kernel = split_kernel,
    SHOAL_OP_CASES("f64[3,12] ; axis=1, starts=[0,5]", "f32[6,4] ; axis=0, starts=[0,2,4]",
                   "f64[3,7,2] ; axis=-2, starts=[0,3,3,4]", "bf16[9] ; axis=0, starts=[0,1]",
                   "i64[2,8]<9 ; axis=1, starts=[0]", "f32[0,4] ; axis=1, starts=[0,2]"),
};
