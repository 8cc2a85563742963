// Binding: attributes of the whole, rewritten by role for one rank's part. The only place that
// knows what a role means for a part; nothing here knows any op.
#include "base/arena.h"
#include "base/status.h"
#include "op/operands.h"
#include "shoal/op.h"

// Elements that are held before `position` along the dim.
static int64_t held_before(const shoal_dim_part_t *dim, int64_t position) {
  int64_t count = 0;
  for (int32_t i = 0; i < dim->held_count; ++i) {
    const int64_t ahead = position - dim->held[i].start;
    if (ahead > 0) count += ahead < dim->held[i].size ? ahead : dim->held[i].size;
  }
  return count;
}

static bool is_whole(const shoal_boxes_t *boxes) {
  if (boxes->flat) return false;
  for (int32_t d = 0; d < boxes->whole.rank; ++d) {
    if (boxes->dims[d].held_size != boxes->whole.dims[d]) return false;
  }
  return true;
}

static shoal_status_t flat_refused(const shoal_op_t *op, const shoal_attr_schema_t *schema) {
  return SHOAL_ERROR(UNSUPPORTED, "%s: '%s' counts along dims, and a flat part has none", op->name,
                     schema->name);
}

static shoal_status_t bind_size(const shoal_op_t *op, const shoal_attr_schema_t *schema,
                                int32_t dim, const shoal_boxes_t *boxes,
                                shoal_attr_value_t *value) {
  const shoal_shape_t shape = shoal_boxes_shape(boxes);
  if (schema->kind == SHOAL_ATTR_INTS) {
    value->count = shape.rank;
    for (int32_t d = 0; d < shape.rank; ++d) value->ints[d] = shape.dims[d];
    return NULL;
  }
  if (boxes->flat) return flat_refused(op, schema);
  value->i = shape.dims[dim];
  return NULL;
}

static shoal_status_t bind_position(const shoal_op_t *op, const shoal_attr_schema_t *schema,
                                    int32_t dim, const shoal_boxes_t *boxes,
                                    shoal_attr_value_t *value) {
  if (boxes->flat) return flat_refused(op, schema);
  if (schema->kind == SHOAL_ATTR_INT) {
    value->i = held_before(&boxes->dims[dim], value->i);
    return NULL;
  }
  for (int32_t d = 0; d < value->count && d < boxes->whole.rank; ++d) {
    value->ints[d] = held_before(&boxes->dims[d], value->ints[d]);
  }
  return NULL;
}

static shoal_status_t bind_positions(const shoal_op_t *op, const shoal_attr_schema_t *schema,
                                     const shoal_attr_value_t *attrs, const shoal_boxes_t *boxes,
                                     shoal_arena_t *arena, shoal_attr_value_t *value) {
  const int64_t named = attrs[schema->dim].i, rank = boxes->whole.rank;
  const int64_t dim = named < 0 ? named + rank : named, *list = shoal_attr_list(value);
  if (boxes->flat) return flat_refused(op, schema);
  if (dim < 0 || dim >= rank) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s: '%s' speaks of dim %lld of an operand with %d",
                       op->name, schema->name, (long long)named, boxes->whole.rank);
  }
  int64_t *bound = value->ints;
  if (value->count > SHOAL_MAX_RANK) {
    bound = SHOAL_NEW(arena, int64_t, value->count);
    if (!bound) return SHOAL_OOM();
    value->list = bound;
  }
  for (int32_t i = 0; i < value->count; ++i) bound[i] = held_before(&boxes->dims[dim], list[i]);
  return NULL;
}

static shoal_status_t bind_place(const shoal_boxes_t *boxes, shoal_arena_t *arena,
                                 shoal_attr_value_t *value) {
  value->place = NULL;
  if (is_whole(boxes)) return NULL;
  shoal_place_t *place = SHOAL_NEW(arena, shoal_place_t, 1);
  if (!place) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_boxes_place(boxes, arena, place));
  value->place = place;
  return NULL;
}

// Does the attribute speak of an input or output that this call does not have? It keeps its value.
static bool is_left_out(const shoal_op_t *op, const shoal_attr_value_t *attrs,
                        const shoal_attr_schema_t *schema) {
  if (schema->operand < 0) return SHOAL_OUTPUT(schema->operand) >= shoal_op_outputs(op, attrs);
  return shoal_op_given(op, attrs, schema->operand) < 0;
}

shoal_status_t shoal_op_bind(const shoal_op_t *op, int32_t input_count,
                             const shoal_attr_value_t *attrs, const shoal_boxes_t *inputs,
                             const shoal_boxes_t *outputs, shoal_arena_t *arena,
                             shoal_attr_value_t *out_attrs) {
  for (int32_t i = 0; i < op->attr_count; ++i) {
    const shoal_attr_schema_t *schema = &op->attrs[i];
    shoal_attr_value_t value = attrs[i];
    out_attrs[i] = value;
    if (schema->role == SHOAL_ROLE_PLAIN || schema->role == SHOAL_ROLE_COUNT) continue;
    const int32_t operand = shoal_attr_operand(op, attrs, input_count, i);
    if (operand < 0 && is_left_out(op, attrs, schema)) continue;
    if (operand < 0) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s: '%s' speaks of an operand that is not there",
                         op->name, schema->name);
    }
    const shoal_boxes_t *boxes =
        operand < input_count ? &inputs[operand] : &outputs[operand - input_count];
    int32_t dim = schema->dim;
    if (dim < 0) dim += boxes->whole.rank;
    if (schema->kind == SHOAL_ATTR_INT && (dim < 0 || dim >= boxes->whole.rank)) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s: '%s' speaks of dim %d of an operand with %d",
                         op->name, schema->name, schema->dim, boxes->whole.rank);
    }
    switch (schema->role) {
      case SHOAL_ROLE_PLAIN:
      case SHOAL_ROLE_COUNT:
        break;
      case SHOAL_ROLE_POSITIONS:
        SHOAL_RETURN_IF_ERROR(bind_positions(op, schema, attrs, boxes, arena, &value));
        break;
      case SHOAL_ROLE_SIZE:
        SHOAL_RETURN_IF_ERROR(bind_size(op, schema, dim, boxes, &value));
        break;
      case SHOAL_ROLE_POSITION:
        SHOAL_RETURN_IF_ERROR(bind_position(op, schema, dim, boxes, &value));
        break;
      case SHOAL_ROLE_PLACE:
        SHOAL_RETURN_IF_ERROR(bind_place(boxes, arena, &value));
        break;
    }
    out_attrs[i] = value;
  }
  return NULL;
}
