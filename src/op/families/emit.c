// The calls that gradients and decompositions make again and again.
#include "op/families/emit.h"

#include "op/families/family.h"

shoal_ref_t shoal_emit_one(shoal_emitter_t *e, const char *op, int32_t input_count,
                           const shoal_ref_t *inputs, int32_t attr_count,
                           const shoal_attr_t *attrs) {
  shoal_ref_t out = SHOAL_NO_REF;
  shoal_emit(e, op, input_count, inputs, attr_count, attrs, 1, &out);
  return out;
}

shoal_ref_t shoal_emit_unary(shoal_emitter_t *e, const char *op, shoal_ref_t x) {
  return shoal_emit_one(e, op, REFS(x), NO_ATTRS);
}

shoal_ref_t shoal_emit_binary(shoal_emitter_t *e, const char *op, shoal_ref_t a, shoal_ref_t b) {
  return shoal_emit_one(e, op, REFS(a, b), NO_ATTRS);
}

shoal_ref_t shoal_emit_affine(shoal_emitter_t *e, shoal_ref_t x, double scale, double shift) {
  return shoal_emit_one(e, "shoal.affine", REFS(x),
                        ATTRS(shoal_attr_real("scale", scale), shoal_attr_real("shift", shift)));
}

shoal_ref_t shoal_emit_scalar(shoal_emitter_t *e, shoal_dtype_t dtype, double value) {
  return shoal_emit_one(e, "shoal.full", NO_REFS,
                        ATTRS(shoal_attr_ints("shape", 0, NULL), shoal_attr_real("value", value),
                              shoal_attr_dtype("dtype", dtype)));
}

shoal_ref_t shoal_emit_cast(shoal_emitter_t *e, shoal_ref_t x, shoal_dtype_t dtype) {
  if (shoal_emit_type(e, x).dtype == dtype) return x;
  return shoal_emit_one(e, "shoal.cast", REFS(x), ATTRS(shoal_attr_dtype("dtype", dtype)));
}

shoal_ref_t shoal_emit_reshape(shoal_emitter_t *e, shoal_ref_t x, const shoal_shape_t *shape) {
  shoal_type_t type = shoal_emit_type(e, x);
  if (shoal_shape_equal(&type.shape, shape)) return x;
  return shoal_emit_one(e, "shoal.reshape", REFS(x), ATTRS(shoal_attr_shape("shape", shape)));
}

shoal_ref_t shoal_emit_broadcast(shoal_emitter_t *e, shoal_ref_t x, const shoal_shape_t *shape) {
  shoal_type_t type = shoal_emit_type(e, x);
  if (shoal_shape_equal(&type.shape, shape)) return x;
  return shoal_emit_one(e, "shoal.broadcast_to", REFS(x), ATTRS(shoal_attr_shape("shape", shape)));
}

static shoal_ref_t reduce_dims(shoal_emitter_t *e, const char *op, shoal_ref_t x, int32_t count,
                               const int64_t *dims, bool keep) {
  return shoal_emit_one(e, op, REFS(x),
                        ATTRS(shoal_attr_ints("dims", count, dims), shoal_attr_int("keep", keep)));
}

shoal_ref_t shoal_emit_sum_to(shoal_emitter_t *e, shoal_ref_t x, const shoal_shape_t *shape) {
  shoal_shape_t from = shoal_emit_type(e, x).shape;
  if (x == SHOAL_NO_REF || shoal_shape_equal(&from, shape)) return x;
  int64_t dims[SHOAL_MAX_RANK];
  int32_t lead = from.rank - shape->rank, count = 0;
  for (int32_t d = 0; d < lead; ++d) dims[d] = d;
  if (lead > 0) x = reduce_dims(e, "shoal.reduce_sum", x, lead, dims, false);
  for (int32_t d = 0; d < shape->rank; ++d) {
    if (shape->dims[d] == 1 && from.dims[lead + d] != 1) dims[count++] = d;
  }
  if (count > 0) x = reduce_dims(e, "shoal.reduce_sum", x, count, dims, true);
  return x;
}

shoal_ref_t shoal_emit_reduce(shoal_emitter_t *e, const char *op, shoal_ref_t x, int32_t axis,
                              bool keep) {
  const int64_t dim = axis;
  return reduce_dims(e, op, x, 1, &dim, keep);
}

shoal_ref_t shoal_emit_sum_leading(shoal_emitter_t *e, shoal_ref_t x) {
  shoal_shape_t shape = shoal_emit_type(e, x).shape;
  if (shape.rank < 2) return x;
  shape = shoal_shape_part(&shape, shape.rank - 1, shape.rank);
  return shoal_emit_sum_to(e, x, &shape);
}

shoal_ref_t shoal_emit_mean(shoal_emitter_t *e, shoal_ref_t x, int32_t axis, bool keep,
                            int64_t count) {
  const int64_t dim = axis;
  return shoal_emit_one(e, "shoal.reduce_mean", REFS(x),
                        ATTRS(shoal_attr_ints("dims", 1, &dim), shoal_attr_int("keep", keep),
                              shoal_attr_int("count", count)));
}

shoal_ref_t shoal_emit_exp(shoal_emitter_t *e, shoal_ref_t x, int32_t axis, shoal_ref_t *out_max,
                           shoal_ref_t *out_sum) {
  *out_max = shoal_emit_reduce(e, "shoal.reduce_max", x, axis, true);
  const shoal_ref_t p =
      shoal_emit_unary(e, "shoal.exp", shoal_emit_binary(e, "shoal.sub", x, *out_max));
  *out_sum = shoal_emit_reduce(e, "shoal.reduce_sum", p, axis, true);
  return p;
}

shoal_ref_t shoal_emit_where(shoal_emitter_t *e, shoal_ref_t condition, shoal_ref_t a,
                             shoal_ref_t b) {
  return shoal_emit_one(e, "shoal.where", REFS(condition, a, b), NO_ATTRS);
}

shoal_ref_t shoal_emit_einsum(shoal_emitter_t *e, const char *equation, shoal_ref_t a,
                              shoal_ref_t b) {
  return shoal_emit_one(e, "shoal.einsum", REFS(a, b),
                        ATTRS(shoal_attr_string("equation", equation)));
}

shoal_ref_t shoal_emit_unsqueeze(shoal_emitter_t *e, shoal_ref_t x, int32_t axis) {
  shoal_shape_t shape = shoal_emit_type(e, x).shape;
  if (x == SHOAL_NO_REF || shape.rank == SHOAL_MAX_RANK) return SHOAL_NO_REF;
  for (int32_t d = shape.rank; d > axis; --d) shape.dims[d] = shape.dims[d - 1];
  shape.dims[axis] = 1;
  ++shape.rank;
  return shoal_emit_reshape(e, x, &shape);
}

bool shoal_emit_whole(const shoal_call_t *call, shoal_emitter_t *e) {
  for (int32_t i = 0; i < call->op->attr_count; ++i) {
    if (call->op->attrs[i].kind != SHOAL_ATTR_PLACE || !call->attrs[i].place) continue;
    shoal_emit_fail(e, shoal_op_blame(call, SHOAL_ERROR(UNSUPPORTED,
                                                        "only a call on the whole is decomposed")));
    return false;
  }
  return true;
}
