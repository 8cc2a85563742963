// What reductions over named dims share.
#include "op/families/reduced.h"

shoal_status_t shoal_reduced_dims(const shoal_call_t *call, bool out_reduced[SHOAL_MAX_RANK]) {
  const shoal_attr_value_t *dims = &call->attrs[SHOAL_REDUCED_DIMS];
  memset(out_reduced, 0, SHOAL_MAX_RANK * sizeof *out_reduced);
  for (int32_t i = 0; i < dims->count; ++i) {
    int32_t axis;
    SHOAL_RETURN_IF_ERROR(shoal_check_axis(call, dims->ints[i], call->inputs[0].shape.rank, &axis));
    REQUIRE(call, !out_reduced[axis], "dim %d is named twice in dims", axis);
    out_reduced[axis] = true;
  }
  return NULL;
}

shoal_shape_t shoal_reduced_shape(const shoal_shape_t *x, const bool *reduced, bool keep) {
  shoal_shape_t shape = {0};
  for (int32_t d = 0; d < x->rank; ++d) {
    if (!reduced[d] || keep) shape.dims[shape.rank++] = reduced[d] ? 1 : x->dims[d];
  }
  return shape;
}

shoal_status_t shoal_reduced_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  bool reduced[SHOAL_MAX_RANK];
  SHOAL_RETURN_IF_ERROR(shoal_reduced_dims(call, reduced));
  const shoal_type_t *x = &call->inputs[0];
  const bool keep = call->attrs[SHOAL_REDUCED_KEEP].i != 0;
  out_types[0] = (shoal_type_t){x->dtype, shoal_reduced_shape(&x->shape, reduced, keep)};
  return NULL;
}

int64_t shoal_reduced_count(const shoal_call_t *call) {
  const shoal_shape_t *x = &call->inputs[0].shape;
  const shoal_attr_value_t *dims = &call->attrs[SHOAL_REDUCED_DIMS];
  int64_t count = 1;
  for (int32_t i = 0; i < dims->count; ++i) {
    const int32_t axis = shoal_normal_axis(dims->ints[i], x->rank);
    if (axis >= 0 && axis < x->rank) count *= x->dims[axis];
  }
  return count;
}

shoal_status_t shoal_reduced_walk(const shoal_call_t *call, shoal_walk_t *out_walk) {
  const shoal_shape_t *x = &call->inputs[0].shape;
  bool reduced[SHOAL_MAX_RANK];
  SHOAL_RETURN_IF_ERROR(shoal_reduced_dims(call, reduced));
  const shoal_shape_t kept = shoal_reduced_shape(x, reduced, true);
  shoal_walk_init(out_walk, x, 2);
  shoal_strides(x, out_walk->stride[0]);
  shoal_strides(&kept, out_walk->stride[1]);
  for (int32_t d = 0; d < x->rank; ++d) {
    if (reduced[d]) out_walk->stride[1][d] = 0;
  }
  return NULL;
}

shoal_ref_t shoal_reduced_repeat(const shoal_call_t *call, shoal_emitter_t *e, shoal_ref_t value) {
  bool reduced[SHOAL_MAX_RANK];
  shoal_status_t status = shoal_reduced_dims(call, reduced);
  if (status) {
    shoal_emit_fail(e, status);
    return SHOAL_NO_REF;
  }
  const shoal_shape_t *x = &call->inputs[0].shape;
  const shoal_shape_t kept = shoal_reduced_shape(x, reduced, true);
  return shoal_emit_broadcast(e, shoal_emit_reshape(e, value, &kept), x);
}

shoal_ref_t shoal_reduced_emit(const shoal_call_t *call, shoal_emitter_t *e, const char *op,
                               shoal_ref_t x, bool keep) {
  const shoal_attr_value_t *dims = &call->attrs[SHOAL_REDUCED_DIMS];
  return shoal_emit_one(
      e, op, REFS(x),
      ATTRS(shoal_attr_ints("dims", dims->count, dims->ints), shoal_attr_int("keep", keep)));
}

void shoal_reduced_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = (double)shoal_shape_count(&call->inputs[0].shape);
}
