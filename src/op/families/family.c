// Checks that family files share. Messages show the call, so that each needs only say what is
// wrong.
#include "op/families/family.h"

#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "op/operands.h"
#include "op/type.h"
#include "shoal/options.h"

// An input's name, one of several with its number: "xs[2]".
typedef struct operand_text {
  char text[64];
} operand_text_t;

static const char *input_text(const shoal_call_t *call, int32_t input, operand_text_t *out) {
  const shoal_operand_name_t name = shoal_input_name(call->op, call->attrs, input);
  snprintf(out->text, sizeof out->text, name.number < 0 ? "%s" : "%s[%d]", name.name, name.number);
  return out->text;
}

shoal_status_t shoal_op_blame(const shoal_call_t *call, shoal_status_t status) {
  if (shoal_status_is_silent()) return status;
  char text[512], type[SHOAL_TYPE_SIZE];
  size_t used = 0;
  text[0] = 0;
  const shoal_op_t *op = call->op;
  for (int32_t i = 0; i < call->input_count && used < sizeof text - 1; ++i) {
    operand_text_t name;
    int length = snprintf(text + used, sizeof text - used, "%s%s %s", i ? ", " : "",
                          input_text(call, i, &name),
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

#define CAST_IT "cast it first (shoal_cast)"
#define CAST_ONE "cast one of them (shoal_cast): Shoal never does it by itself"

shoal_status_t shoal_check_floats(const shoal_call_t *call, int32_t first, int32_t count) {
  shoal_dtype_t dtype = call->inputs[first].dtype;
  REQUIRE_HINT(call, shoal_dtype_is_float(dtype), CAST_IT, "%s must be a float, not %s",
               input_name(call, first), shoal_dtype_name(dtype));
  for (int32_t i = first + 1; i < first + count; ++i) {
    REQUIRE_HINT(call, call->inputs[i].dtype == dtype, CAST_ONE, "%s must be %s like %s, not %s",
                 input_name(call, i), shoal_dtype_name(dtype), input_name(call, first),
                 shoal_dtype_name(call->inputs[i].dtype));
  }
  return NULL;
}

shoal_status_t shoal_check_same_dtype(const shoal_call_t *call, int32_t first, int32_t second) {
  const shoal_dtype_t a = call->inputs[first].dtype, b = call->inputs[second].dtype;
  if (a == b) return NULL;
  operand_text_t name, other;
  return REFUSE_HINT(call, CAST_ONE, "%s and %s must have the same dtype, not %s and %s",
                     input_text(call, first, &name), input_text(call, second, &other),
                     shoal_dtype_name(a), shoal_dtype_name(b));
}

shoal_status_t shoal_check_dtype(const shoal_call_t *call, int32_t input, shoal_dtype_t dtype) {
  const shoal_dtype_t found = call->inputs[input].dtype;
  REQUIRE_HINT(call, found == dtype, CAST_IT, "%s must be %s, not %s", input_name(call, input),
               shoal_dtype_name(dtype), shoal_dtype_name(found));
  return NULL;
}

// Says which dims do not fit, each by its number in its own tensor.
static shoal_status_t refuse_broadcast(const shoal_call_t *call, int32_t first, int32_t second) {
  const shoal_shape_t *a = &call->inputs[first].shape, *b = &call->inputs[second].shape;
  int32_t d = 1;  // from the right
  while (a->dims[a->rank - d] == b->dims[b->rank - d] || a->dims[a->rank - d] == 1 ||
         b->dims[b->rank - d] == 1) {
    ++d;
  }
  char shape_a[128], shape_b[128];
  operand_text_t name_a, name_b;
  shoal_shape_format(a, shape_a, sizeof shape_a);
  shoal_shape_format(b, shape_b, sizeof shape_b);
  input_text(call, first, &name_a);
  input_text(call, second, &name_b);
  return REFUSE_HINT(
      call, "from the right, sizes must be equal or one of them 1; reshape to put a 1 in between",
      "%s %s and %s %s can't be broadcast together: dim %d of %s has %lld elements, dim %d of %s "
      "%lld",
      name_a.text, shape_a, name_b.text, shape_b, a->rank - d, name_a.text,
      (long long)a->dims[a->rank - d], b->rank - d, name_b.text, (long long)b->dims[b->rank - d]);
}

shoal_status_t shoal_check_broadcast(const shoal_call_t *call, int32_t first, int32_t count,
                                     shoal_shape_t *out_shape) {
  shoal_shape_t shape = call->inputs[first].shape, pair;
  for (int32_t i = first + 1; i < first + count; ++i) {
    const shoal_shape_t *next = &call->inputs[i].shape;
    if (shoal_shape_broadcast(&shape, next, &shape)) continue;
    int32_t other = first;  // the size that does not fit is one of an input before
    while (other < i - 1 && shoal_shape_broadcast(&call->inputs[other].shape, next, &pair)) ++other;
    return refuse_broadcast(call, other, i);
  }
  *out_shape = shape;
  return NULL;
}

shoal_status_t shoal_check_rank(const shoal_call_t *call, int32_t input, int32_t rank) {
  REQUIRE_HINT(call, call->inputs[input].shape.rank == rank,
               "reshape it: a dim of 1 may stand anywhere", "%s must have %d dim%s, not %d",
               input_name(call, input), rank, rank == 1 ? "" : "s", call->inputs[input].shape.rank);
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
  return REFUSE_HINT(call, "reshape it to no dims, or reduce it",
                     "%s must be a scalar (no dims), not of shape %s", input_name(call, input),
                     found);
}

shoal_status_t shoal_check_integer(const shoal_call_t *call, int32_t input) {
  shoal_dtype_t dtype = call->inputs[input].dtype;
  REQUIRE_HINT(call, shoal_is_integer(dtype), CAST_IT, "%s must be i64, i32 or u8, not %s",
               input_name(call, input), shoal_dtype_name(dtype));
  return NULL;
}

shoal_status_t shoal_check_update(const shoal_call_t *call, int32_t count) {
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, count));
  for (int32_t i = 1; i < count; ++i)
    SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, i, &call->inputs[0].shape));
  SHOAL_RETURN_IF_ERROR(shoal_check_scalar(call, count));
  return shoal_check_floats(call, count, 1);
}

shoal_status_t shoal_check_sizes(const shoal_call_t *call, int32_t attr, shoal_shape_t *out_shape) {
  *out_shape = shoal_ints_shape(&call->attrs[attr]);
  for (int32_t d = 0; d < out_shape->rank; ++d) {
    REQUIRE_HINT(call, out_shape->dims[d] >= 0, "a size is 0 or more; only reshape takes one -1",
                 "%s has the negative size %lld for dim %d", call->op->attrs[attr].name,
                 (long long)out_shape->dims[d], d);
  }
  return NULL;
}

shoal_status_t shoal_check_choice(const shoal_call_t *call, int32_t attr, const char *const *names,
                                  int32_t count, int32_t *out_choice) {
  const char *value = call->attrs[attr].s;
  for (*out_choice = 0; *out_choice < count; ++*out_choice) {
    if (strcmp(value, names[*out_choice]) == 0) return NULL;
  }
  *out_choice = 0;
  if (shoal_status_is_silent()) return SHOAL_ERROR(INVALID_ARGUMENT, "choice");
  char list[256] = "";
  size_t used = 0;
  for (int32_t i = 0; i < count && used < sizeof list; ++i) {
    const char *joint = i == 0 ? "" : i + 1 == count ? " and " : ", ";
    const int length = snprintf(list + used, sizeof list - used, "%s%s", joint, names[i]);
    used += (size_t)(length > 0 ? length : 0);
  }
  shoal_hint_t hint;
  return REFUSE_HINT(call, shoal_did_you_mean(value, names, count, NULL, &hint),
                     "%s '%s' is none of %s", call->op->attrs[attr].name, value, list);
}

shoal_status_t shoal_check_entries(const shoal_call_t *call, int32_t attr, int32_t rank) {
  REQUIRE(call, call->attrs[attr].count == rank,
          "%s needs one entry for each of %d dim%s, and has %d", call->op->attrs[attr].name, rank,
          rank == 1 ? "" : "s", call->attrs[attr].count);
  return NULL;
}

shoal_status_t shoal_check_axis(const shoal_call_t *call, int64_t axis, int32_t rank,
                                int32_t *out_axis) {
  REQUIRE_HINT(call, rank > 0, "a scalar has no dims: reshape it to [1] first",
               "axis %lld cannot be: there are no dims", (long long)axis);
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
  REQUIRE_HINT(call, index >= 0 && index < place->whole.dims[dim],
               "indices count from 0: look at what computes or feeds them",
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

void shoal_cost_libm(const shoal_call_t *call, shoal_cost_t *out_cost) {
  (void)call;
  out_cost->flops *= 10;
}
