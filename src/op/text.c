// Printing and reading of types and attributes.
#include "op/text.h"

#include <string.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/status.h"
#include "op/attrs.h"
#include "op/type.h"

// ---- out ----------------------------------------------------------------------------

static void add_ints(shoal_text_t *text, int32_t count, const int64_t *values) {
  shoal_text_add(text, "[");
  for (int32_t i = 0; i < count; ++i) {
    shoal_text_addf(text, "%s%lld", i ? ", " : "", (long long)values[i]);
  }
  shoal_text_add(text, "]");
}

void shoal_text_add_type(shoal_text_t *text, const shoal_type_t *type) {
  shoal_text_add(text, shoal_dtype_name(type->dtype));
  add_ints(text, type->shape.rank, type->shape.dims);
}

// To the bit: -0.0 is not 0.0, and a NaN is itself.
static bool is_default(const shoal_attr_schema_t *schema, const shoal_attr_value_t *value) {
  const shoal_attr_value_t *fallback = &schema->fallback;
  if (schema->kind == SHOAL_ATTR_PLACE) return !value->place;
  if (!schema->optional) return false;
  switch (schema->kind) {
    case SHOAL_ATTR_REAL:
      return memcmp(&value->f, &fallback->f, sizeof value->f) == 0;
    case SHOAL_ATTR_STRING:
      if (!value->s || !fallback->s) return value->s == fallback->s;
      return strcmp(value->s, fallback->s) == 0;
    case SHOAL_ATTR_INTS:
      return shoal_attr_same_ints(value, fallback);
    default:
      return value->i == fallback->i;
  }
}

shoal_status_t shoal_text_add_attrs(shoal_text_t *text, const shoal_op_t *op,
                                    const shoal_attr_value_t *attrs) {
  const char *separator = " {";
  for (int32_t i = 0; i < op->attr_count; ++i) {
    const shoal_attr_schema_t *schema = &op->attrs[i];
    const shoal_attr_value_t *value = &attrs[i];
    if (is_default(schema, value)) continue;
    shoal_text_addf(text, "%s%s=", separator, schema->name);
    separator = ", ";
    switch (schema->kind) {
      case SHOAL_ATTR_INT:
        shoal_text_addf(text, "%lld", (long long)value->i);
        break;
      case SHOAL_ATTR_INTS:
        add_ints(text, value->count, shoal_attr_list(value));
        break;
      case SHOAL_ATTR_REAL:
        shoal_text_add_double(text, value->f);
        break;
      case SHOAL_ATTR_STRING:
        shoal_text_add_quoted(text, value->s ? value->s : "");
        break;
      case SHOAL_ATTR_DTYPE:
        shoal_text_add(text, shoal_dtype_name((shoal_dtype_t)value->i));
        break;
      case SHOAL_ATTR_PLACE:
        return SHOAL_ERROR(UNSUPPORTED, "%s: '%s' speaks of a part: text speaks of the whole",
                           op->name, schema->name);
    }
  }
  if (separator[0] == ',') shoal_text_add(text, "}");
  return NULL;
}

// ---- in -----------------------------------------------------------------------------

static bool scan_ints(shoal_scan_t *scan, int32_t *out_count, int64_t out_values[SHOAL_MAX_RANK]) {
  *out_count = 0;
  if (!shoal_scan_expect(scan, "[")) return false;
  if (shoal_scan_accept(scan, "]")) return true;
  do {
    if (*out_count == SHOAL_MAX_RANK) {
      return shoal_scan_fail(scan, "more than %d numbers", SHOAL_MAX_RANK);
    }
    if (!shoal_scan_int(scan, &out_values[(*out_count)++])) return false;
  } while (shoal_scan_accept(scan, ","));
  return shoal_scan_expect(scan, "]");
}

// Like scan_ints, and longer lists go into the arena.
static bool scan_list(shoal_scan_t *scan, shoal_arena_t *arena, shoal_attr_value_t *out_value) {
  SHOAL_VEC(int64_t) list = {0};
  int64_t number;
  *out_value = (shoal_attr_value_t){0};
  if (!shoal_scan_expect(scan, "[")) return false;
  if (shoal_scan_accept(scan, "]")) return true;
  do {
    if (list.count == SHOAL_MAX_INTS) {
      return shoal_scan_fail(scan, "more than %d numbers", SHOAL_MAX_INTS);
    }
    if (!shoal_scan_int(scan, &number)) return false;
    if (!SHOAL_PUSH(arena, &list, number)) return shoal_scan_check(scan, SHOAL_OOM());
  } while (shoal_scan_accept(scan, ","));
  *out_value = shoal_attr_ints("", (int32_t)list.count, list.items).value;
  return shoal_scan_expect(scan, "]");
}

static bool scan_dtype(shoal_scan_t *scan, shoal_dtype_t *out_dtype) {
  char word[32];
  if (!shoal_scan_word(scan, word, sizeof word)) return false;
  return shoal_dtype_parse(word, out_dtype) ||
         shoal_scan_fail(scan, "'%s' is no element type", word);
}

bool shoal_scan_type(shoal_scan_t *scan, shoal_type_t *out_type) {
  *out_type = (shoal_type_t){0};
  shoal_shape_t *shape = &out_type->shape;
  if (!scan_dtype(scan, &out_type->dtype)) return false;
  if (!scan_ints(scan, &shape->rank, shape->dims)) return false;
  return shoal_scan_check(scan, shoal_type_check(out_type));
}

static bool scan_attr(shoal_scan_t *scan, const shoal_op_t *op, shoal_arena_t *arena,
                      shoal_attr_t *out_attr) {
  char name[64];
  if (!shoal_scan_word(scan, name, sizeof name)) return false;
  const shoal_attr_schema_t *schema = NULL;
  for (int32_t i = 0; i < op->attr_count && !schema; ++i) {
    if (strcmp(op->attrs[i].name, name) == 0) schema = &op->attrs[i];
  }
  if (!schema) {  // shoal_op_attrs says so, and which is near
    shoal_attr_value_t *none;
    return shoal_scan_check(scan,
                            shoal_op_attrs(op, 1, &(shoal_attr_t){.name = name}, arena, &none));
  }
  *out_attr = (shoal_attr_t){.name = schema->name, .kind = schema->kind};
  shoal_attr_value_t *value = &out_attr->value;
  shoal_dtype_t dtype;
  if (!shoal_scan_expect(scan, "=")) return false;
  switch (schema->kind) {
    case SHOAL_ATTR_INT:
      return shoal_scan_int(scan, &value->i);
    case SHOAL_ATTR_INTS:
      return scan_list(scan, arena, value);
    case SHOAL_ATTR_REAL:
      return shoal_scan_double(scan, &value->f);
    case SHOAL_ATTR_STRING:
      return shoal_scan_string(scan, arena, &value->s);
    case SHOAL_ATTR_DTYPE:
      if (!scan_dtype(scan, &dtype)) return false;
      value->i = (int64_t)dtype;
      return true;
    case SHOAL_ATTR_PLACE:
      break;
  }
  return shoal_scan_fail(scan, "%s: the place '%s' has no text: text speaks of the whole", op->name,
                         name);
}

bool shoal_scan_attrs(shoal_scan_t *scan, const char *open, const char *close, const shoal_op_t *op,
                      shoal_arena_t *arena, shoal_attr_value_t **out_values) {
  // One more than there are: shoal_op_attrs then finds one that is given twice.
  shoal_attr_t *attrs = SHOAL_NEW(arena, shoal_attr_t, op->attr_count + 1);
  if (!attrs) return shoal_scan_check(scan, SHOAL_OOM());
  int32_t count = 0;
  bool listed = shoal_scan_accept(scan, open);
  if (listed) {
    do {
      if (!scan_attr(scan, op, arena, &attrs[count++])) return false;
    } while (count <= op->attr_count && shoal_scan_accept(scan, ","));
  }
  return shoal_scan_check(scan, shoal_op_attrs(op, count, attrs, arena, out_values)) &&
         (!listed || shoal_scan_expect(scan, close));
}
