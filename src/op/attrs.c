// Attributes: made by name, put into the schema's order.
#include "op/attrs.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"
#include "shoal/options.h"

shoal_attr_t shoal_attr_int(const char *name, int64_t value) {
  return (shoal_attr_t){.name = name, .kind = SHOAL_ATTR_INT, .value = {.i = value}};
}

shoal_attr_t shoal_attr_ints(const char *name, int32_t count, const int64_t *values) {
  shoal_attr_t attr = {.name = name, .kind = SHOAL_ATTR_INTS, .value = {.count = count}};
  if (count > SHOAL_MAX_RANK) attr.value.list = values;
  for (int32_t i = 0; i < count && count <= SHOAL_MAX_RANK; ++i) attr.value.ints[i] = values[i];
  return attr;
}

const int64_t *shoal_attr_list(const shoal_attr_value_t *value) {
  return value->count > SHOAL_MAX_RANK ? value->list : value->ints;
}

shoal_attr_t shoal_attr_shape(const char *name, const shoal_shape_t *shape) {
  return shoal_attr_ints(name, shape->rank, shape->dims);
}

shoal_attr_t shoal_attr_real(const char *name, double value) {
  return (shoal_attr_t){.name = name, .kind = SHOAL_ATTR_REAL, .value = {.f = value}};
}

shoal_attr_t shoal_attr_string(const char *name, const char *value) {
  return (shoal_attr_t){.name = name, .kind = SHOAL_ATTR_STRING, .value = {.s = value}};
}

shoal_attr_t shoal_attr_dtype(const char *name, shoal_dtype_t value) {
  return (shoal_attr_t){.name = name, .kind = SHOAL_ATTR_DTYPE, .value = {.i = (int64_t)value}};
}

shoal_attr_t shoal_attr_place(const char *name, const shoal_place_t *value) {
  return (shoal_attr_t){.name = name, .kind = SHOAL_ATTR_PLACE, .value = {.place = value}};
}

// Numbers that lie elsewhere move into the arena; false: memory ran short.
static bool own_list(shoal_attr_value_t *value, shoal_arena_t *arena) {
  if (value->count <= SHOAL_MAX_RANK) return true;
  value->list = shoal_arena_copy(arena, value->list, (size_t)value->count, sizeof(int64_t));
  return value->list;
}

bool shoal_attr_same_ints(const shoal_attr_value_t *a, const shoal_attr_value_t *b) {
  return a->count == b->count &&
         memcmp(shoal_attr_list(a), shoal_attr_list(b), (size_t)a->count * sizeof(int64_t)) == 0;
}

const char *shoal_op_constraint(const shoal_op_t *op, const shoal_attr_value_t *attrs) {
  for (int32_t i = 0; op->constrains && i < op->attr_count; ++i)
    if (strcmp(op->attrs[i].name, op->constrains) == 0) return attrs[i].s;
  return NULL;
}

shoal_attr_value_t *shoal_attrs_copy(const shoal_op_t *op, const shoal_attr_value_t *attrs,
                                     shoal_arena_t *arena) {
  shoal_attr_value_t *copy = shoal_arena_copy(arena, attrs, (size_t)op->attr_count, sizeof *copy);
  for (int32_t i = 0; copy && i < op->attr_count; ++i) {
    if (op->attrs[i].kind == SHOAL_ATTR_STRING && copy[i].s &&
        !(copy[i].s = shoal_arena_strdup(arena, copy[i].s))) {
      return NULL;
    }
    if (op->attrs[i].kind == SHOAL_ATTR_INTS && !own_list(&copy[i], arena)) return NULL;
  }
  return copy;
}

static const char *const kind_names[] = {
    [SHOAL_ATTR_INT] = "an integer", [SHOAL_ATTR_INTS] = "a list of integers",
    [SHOAL_ATTR_REAL] = "a real",    [SHOAL_ATTR_STRING] = "a string",
    [SHOAL_ATTR_DTYPE] = "a dtype",  [SHOAL_ATTR_PLACE] = "a place"};

static shoal_status_t unknown_attr(const shoal_op_t *op, const char *name) {
  const char *names[64];
  shoal_hint_t hint;
  int64_t count = 0;
  for (int32_t i = 0; i < op->attr_count && i < 64; ++i) names[count++] = op->attrs[i].name;
  return SHOAL_ERROR_HINT(
      INVALID_ARGUMENT,
      shoal_did_you_mean(name, names, count, "`shoal ops NAME` lists the attributes of an op",
                         &hint),
      "%s has no attribute '%s'", op->name, name);
}

// Checks the value and copies what it borrows.
static shoal_status_t take(const shoal_op_t *op, const shoal_attr_schema_t *schema,
                           const shoal_attr_t *attr, shoal_arena_t *arena,
                           shoal_attr_value_t *out_value) {
  if (attr->kind != schema->kind) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s: attribute '%s' must be %s, not %s", op->name,
                       attr->name, kind_names[schema->kind],
                       (size_t)attr->kind <= SHOAL_ATTR_PLACE ? kind_names[attr->kind] : "that");
  }
  *out_value = attr->value;
  const int32_t most = schema->role == SHOAL_ROLE_POSITIONS ? SHOAL_MAX_INTS : SHOAL_MAX_RANK;
  if (attr->kind == SHOAL_ATTR_INTS) {
    if (attr->value.count < 0 || attr->value.count > most) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s: attribute '%s' takes at most %d values, not %d",
                         op->name, attr->name, most, attr->value.count);
    }
    if (!own_list(out_value, arena)) return SHOAL_OOM();
  }
  if (attr->kind == SHOAL_ATTR_DTYPE && (attr->value.i < 0 || attr->value.i >= SHOAL_DTYPE_COUNT)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s: attribute '%s' is no dtype", op->name, attr->name);
  }
  if (attr->kind == SHOAL_ATTR_STRING) {
    if (!attr->value.s) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s: attribute '%s' is NULL", op->name, attr->name);
    }
    out_value->s = shoal_arena_strdup(arena, attr->value.s);
    if (!out_value->s) return SHOAL_OOM();
  }
  return NULL;
}

shoal_status_t shoal_op_attrs(const shoal_op_t *op, int32_t attr_count, const shoal_attr_t *attrs,
                              shoal_arena_t *arena, shoal_attr_value_t **out_values) {
  shoal_attr_value_t *values = SHOAL_NEW(arena, shoal_attr_value_t, op->attr_count);
  bool *given = SHOAL_NEW(arena, bool, op->attr_count);
  if (!values || !given) return SHOAL_OOM();
  for (int32_t i = 0; i < attr_count; ++i) {
    int32_t slot = 0;
    const char *name = attrs[i].name ? attrs[i].name : "";
    while (slot < op->attr_count && strcmp(op->attrs[slot].name, name) != 0) ++slot;
    if (slot == op->attr_count) return unknown_attr(op, name);
    if (given[slot]) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s: attribute '%s' is given twice", op->name, name);
    }
    given[slot] = true;
    SHOAL_RETURN_IF_ERROR(take(op, &op->attrs[slot], &attrs[i], arena, &values[slot]));
  }
  for (int32_t slot = 0; slot < op->attr_count; ++slot) {
    const shoal_attr_schema_t *schema = &op->attrs[slot];
    if (given[slot]) continue;
    if (!schema->optional && schema->kind != SHOAL_ATTR_PLACE) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s needs the attribute '%s' (%s)", op->name,
                         schema->name, kind_names[schema->kind]);
    }
    values[slot] = schema->fallback;
  }
  *out_values = values;
  return NULL;
}
