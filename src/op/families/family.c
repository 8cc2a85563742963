// Checks that family files share. Messages show the call, so that each needs only say what is
// wrong.
#include "op/families/family.h"

#include <stdio.h>

#include "base/dtype.h"
#include "op/operands.h"
#include "op/type.h"

shoal_status_t shoal_op_blame(const shoal_call_t *call, shoal_status_t status) {
  if (shoal_status_is_silent()) return status;
  char text[512], type[SHOAL_TYPE_SIZE];
  size_t used = 0;
  text[0] = 0;
  const shoal_op_t *op = call->op;
  for (int32_t i = 0; i < call->input_count && used < sizeof text - 1; ++i) {
    int length = snprintf(text + used, sizeof text - used, "%s%s %s", i ? ", " : "",
                          shoal_input_name(op, call->attrs, i).name,
                          shoal_type_format(&call->inputs[i], type, sizeof type));
    used += (size_t)(length > 0 ? length : 0);
  }
  char context[640];
  snprintf(context, sizeof context, "%s(%s)", op->name, text);
  return shoal_status_annotate(status, context);
}

static const char *input_name(const shoal_call_t *call, int32_t input) {
  return shoal_input_name(call->op, call->attrs, input).name;
}

shoal_status_t shoal_check_floats(const shoal_call_t *call, int32_t first, int32_t count) {
  shoal_dtype_t dtype = call->inputs[first].dtype;
  REQUIRE(call, shoal_dtype_is_float(dtype), "%s must be a float, not %s", input_name(call, first),
          shoal_dtype_name(dtype));
  for (int32_t i = first + 1; i < first + count; ++i) {
    REQUIRE(call, call->inputs[i].dtype == dtype, "%s must be %s like %s, not %s",
            input_name(call, i), shoal_dtype_name(dtype), input_name(call, first),
            shoal_dtype_name(call->inputs[i].dtype));
  }
  return NULL;
}

shoal_status_t shoal_check_rank(const shoal_call_t *call, int32_t input, int32_t rank) {
  REQUIRE(call, call->inputs[input].shape.rank == rank, "%s must have %d dims, not %d",
          input_name(call, input), rank, call->inputs[input].shape.rank);
  return NULL;
}

shoal_status_t shoal_check_shape(const shoal_call_t *call, int32_t input,
                                 const shoal_shape_t *shape) {
  char text[128], found[128];
  if (shoal_shape_equal(&call->inputs[input].shape, shape)) return NULL;
  shoal_shape_format(shape, text, sizeof text);
  shoal_shape_format(&call->inputs[input].shape, found, sizeof found);
  return REFUSE(call, "%s must have shape %s, not %s", input_name(call, input), text, found);
}

shoal_status_t shoal_check_scalar(const shoal_call_t *call, int32_t input) {
  char found[128];
  if (call->inputs[input].shape.rank == 0) return NULL;
  shoal_shape_format(&call->inputs[input].shape, found, sizeof found);
  return REFUSE(call, "%s must be a scalar (no dims), not of shape %s", input_name(call, input),
                found);
}

shoal_status_t shoal_check_integer(const shoal_call_t *call, int32_t input) {
  shoal_dtype_t dtype = call->inputs[input].dtype;
  REQUIRE(call, shoal_is_integer(dtype), "%s must be i64, i32 or u8, not %s",
          input_name(call, input), shoal_dtype_name(dtype));
  return NULL;
}

shoal_status_t shoal_check_sizes(const shoal_call_t *call, int32_t attr, shoal_shape_t *out_shape) {
  *out_shape = shoal_ints_shape(&call->attrs[attr]);
  for (int32_t d = 0; d < out_shape->rank; ++d) {
    REQUIRE(call, out_shape->dims[d] >= 0, "%s has the negative size %lld",
            call->op->attrs[attr].name, (long long)out_shape->dims[d]);
  }
  return NULL;
}

shoal_status_t shoal_check_axis(const shoal_call_t *call, int64_t axis, int32_t rank,
                                int32_t *out_axis) {
  REQUIRE(call, rank > 0, "axis %lld cannot be: there are no dims", (long long)axis);
  REQUIRE(call, axis >= -rank && axis < rank,
          "axis %lld is not one of %d dim%s: 0 to %d, or -1 to %d from the end", (long long)axis,
          rank, rank == 1 ? "" : "s", rank - 1, -rank);
  *out_axis = shoal_normal_axis(axis, rank);
  return NULL;
}

shoal_status_t shoal_check_index(const shoal_call_t *call, int32_t input,
                                 const shoal_tensor_t *indices, int64_t i,
                                 const shoal_place_t *place, int32_t dim, int64_t *out_local) {
  const int64_t index = shoal_dtype_load_int(indices->dtype, indices->data, i);
  REQUIRE(call, index >= 0 && index < place->whole.dims[dim],
          "element %lld of %s is %lld, which is not in [0, %lld)", (long long)i,
          input_name(call, input), (long long)index, (long long)place->whole.dims[dim]);
  *out_local = shoal_place_local(place, dim, index);
  return NULL;
}

shoal_status_t shoal_check_place(const shoal_call_t *call, int32_t attr, const shoal_shape_t *shape,
                                 shoal_place_t *out_place) {
  const shoal_place_t *place = call->attrs[attr].place;
  if (!place) {
    *out_place = shoal_place_whole(shape);
    return NULL;
  }
  shoal_shape_t held = place->part;
  if (place->flat) held = (shoal_shape_t){.rank = 1, .dims = {place->to - place->from}};
  *out_place = *place;
  if (shoal_shape_equal(&held, shape)) return NULL;
  char text[128];
  shoal_shape_format(&held, text, sizeof text);
  return REFUSE(call, "%s speaks of a part of shape %s", call->op->attrs[attr].name, text);
}

bool shoal_shape_broadcast(const shoal_shape_t *a, const shoal_shape_t *b,
                           shoal_shape_t *out_shape) {
  shoal_shape_t shape = {.rank = a->rank > b->rank ? a->rank : b->rank};
  for (int32_t d = 1; d <= shape.rank; ++d) {  // from the right
    int64_t x = d <= a->rank ? a->dims[a->rank - d] : 1;
    int64_t y = d <= b->rank ? b->dims[b->rank - d] : 1;
    if (x != y && x != 1 && y != 1) return false;
    shape.dims[shape.rank - d] = x == 1 ? y : x;
  }
  *out_shape = shape;
  return true;
}

void shoal_gradient_none(const shoal_call_t *call, shoal_emitter_t *emitter,
                         const shoal_ref_t *inputs, const shoal_ref_t *outputs,
                         const shoal_ref_t *output_grads, shoal_ref_t *out_input_grads) {
  (void)call, (void)emitter, (void)inputs, (void)outputs, (void)output_grads;
  (void)out_input_grads;
}

void shoal_cost_move(const shoal_call_t *call, shoal_cost_t *out_cost) {
  (void)call;
  out_cost->flops = 0;
}
