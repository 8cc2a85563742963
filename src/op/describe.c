// A record in words: what `shoal ops` prints and what the generated header says of an op. Nothing
// is known here about any op but what its record says.
#include "op/describe.h"

#include <string.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"
#include "op/families/family.h"
#include "op/operands.h"

enum { WIDTH = 96 };  // of the text

static const struct {
  const char *op, *family;
} families[] = {
#define SHOAL_OP_FAMILY(title) {NULL, title},
#define SHOAL_OP(name) {"shoal." #name, NULL},
#include "op/ops.inc"
#undef SHOAL_OP
#undef SHOAL_OP_FAMILY
};

// ---- pieces ----------------------------------------------------------------------------

static const char *family_of(const shoal_op_t *op) {
  const char *family = "";
  for (size_t i = 0; i < sizeof families / sizeof *families; ++i) {
    if (families[i].family) family = families[i].family;
    if (families[i].op && strcmp(families[i].op, op->name) == 0) return family;
  }
  return "Others";
}

// Up to the first point that ends a sentence: behind it stands a blank and no small letter.
static const char *first_sentence(const char *doc, shoal_arena_t *arena) {
  size_t length = 0;
  for (; doc[length]; ++length) {
    if (doc[length] != '.') continue;
    const char next = doc[length + 1], after = next ? doc[length + 2] : 0;
    if (!next || (next == ' ' && !(after >= 'a' && after <= 'z'))) break;
  }
  char *copy = shoal_arena_alloc(arena, length + 2, 1);
  if (copy) memcpy(copy, doc, length);
  if (copy && doc[length] == '.') copy[length] = '.';
  return copy;
}

static const char *operand_of(const shoal_op_t *op, int32_t operand) {
  return operand < 0 ? op->outputs[SHOAL_OUTPUT(operand)] : op->inputs[operand];
}

static const char *role_of(const shoal_op_t *op, const shoal_attr_schema_t *attr,
                           shoal_arena_t *arena) {
  const bool many = attr->kind == SHOAL_ATTR_INTS;
  if (attr->role == SHOAL_ROLE_PLAIN) return "";
  if (attr->role == SHOAL_ROLE_COUNT) return "of the whole, however the op is cut";
  const char *operand = operand_of(op, attr->operand);
  switch (attr->role) {
    case SHOAL_ROLE_SIZE:
    case SHOAL_ROLE_POSITION: {
      const char *what = attr->role == SHOAL_ROLE_SIZE ? "size" : "position";
      if (many) return shoal_arena_printf(arena, "a %s along each dim of %s", what, operand);
      if (attr->dim == -1)
        return shoal_arena_printf(arena, "a %s along %s's last dim", what, operand);
      return shoal_arena_printf(arena, "a %s along dim %d of %s", what, (int)attr->dim, operand);
    }
    case SHOAL_ROLE_PLACE:
      return shoal_arena_printf(arena, "where the part of %s lies in the whole", operand);
    case SHOAL_ROLE_POSITIONS:
      return shoal_arena_printf(arena, "positions along the dim of %s that '%s' names", operand,
                                op->attrs[attr->dim].name);
    default:
      return "";
  }
}

static shoal_status_t fallback_of(const shoal_attr_schema_t *attr, shoal_arena_t *arena,
                                  const char **out_text) {
  *out_text = NULL;
  if (!attr->optional || attr->kind == SHOAL_ATTR_PLACE) return NULL;
  const shoal_attr_value_t *value = &attr->fallback;
  shoal_text_t text;
  shoal_text_init(shoal_allocator_system(), &text);
  switch (attr->kind) {
    case SHOAL_ATTR_INT:
      shoal_text_addf(&text, "%lld", (long long)value->i);
      break;
    case SHOAL_ATTR_INTS:
      for (int32_t i = 0; i < value->count; ++i)
        shoal_text_addf(&text, "%s%lld", i ? ", " : "[", (long long)shoal_attr_list(value)[i]);
      shoal_text_add(&text, value->count ? "]" : "[]");
      break;
    case SHOAL_ATTR_REAL:
      shoal_text_add_double(&text, value->f);
      break;
    case SHOAL_ATTR_STRING:
      shoal_text_add_quoted(&text, value->s ? value->s : "");
      break;
    case SHOAL_ATTR_DTYPE:
      shoal_text_add(&text, shoal_dtype_name((shoal_dtype_t)value->i));
      break;
    case SHOAL_ATTR_PLACE:
      break;
  }
  return shoal_text_finish(&text, arena, out_text);
}

static shoal_status_t join(const char *const *names, const char *part, shoal_arena_t *arena,
                           const char **out_text) {
  shoal_text_t text;
  shoal_text_init(shoal_allocator_system(), &text);
  for (; *names; ++names) {
    if (part && !strstr(*names, part)) continue;
    shoal_text_addf(&text, "%s%s", text.length ? ", " : "", *names);
  }
  if (!text.length && !text.failed) {
    shoal_text_deinit(&text);
    *out_text = NULL;
    return NULL;
  }
  return shoal_text_finish(&text, arena, out_text);
}

static shoal_status_t gradient_of(const shoal_registry_t *registry, const shoal_op_t *op,
                                  shoal_arena_t *arena, const char **out_text) {
  const char *const *names, *through;
  *out_text = op->gradient ? "none flows" : "no";
  if (!op->gradient || op->gradient == shoal_gradient_none) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_op_emits(registry, op, true, arena, &names));
  SHOAL_RETURN_IF_ERROR(join(names, "_grad", arena, &through));
  *out_text = through ? shoal_arena_printf(arena, "through %s", through) : "yes";
  return *out_text ? NULL : SHOAL_OOM();
}

bool shoal_attr_is_argument(const shoal_attr_schema_t *attr) {
  return (!attr->optional || attr->stated) && attr->kind != SHOAL_ATTR_PLACE;
}

bool shoal_attr_is_option(const shoal_attr_schema_t *attr) {
  return attr->optional && !attr->stated && attr->kind != SHOAL_ATTR_PLACE &&
         strcmp(attr->name, SHOAL_WITH) != 0;
}

// ---- all of it -------------------------------------------------------------------------

// Words of `text` in lines of WIDTH columns, the first behind what is there already.
static void add_wrapped(shoal_text_t *out, int column, int indent, const char *text) {
  while (*text) {
    const int length = (int)strcspn(text, " ");
    if (column > indent && column + 1 + length > WIDTH) {
      shoal_text_addf(out, "\n%*s", indent, "");
      column = indent;
    } else if (column > indent) {
      shoal_text_add(out, " ");
      ++column;
    }
    shoal_text_addf(out, "%.*s", length, text);
    column += length;
    text += length;
    text += strspn(text, " ");
  }
  shoal_text_add(out, "\n");
}

static void add_line(shoal_text_t *out, const char *title, const char *text) {
  enum { INDENT = 15 };
  shoal_text_addf(out, "%-*s", INDENT, title);
  add_wrapped(out, INDENT, INDENT, text);
}

static void add_operands(shoal_text_t *out, const shoal_op_t *op) {
  shoal_text_t line;
  shoal_text_init(out->allocator, &line);
  for (int32_t i = 0; i < op->input_count; ++i) {
    const bool repeats = op->variadic && i == op->input_count - 1;
    const bool optional = i >= op->input_count - op->optional;
    shoal_text_addf(&line, "%s%s%s%s", i ? ", " : "", op->inputs[i],
                    repeats ? " (one or more)" : "", optional ? " (optional)" : "");
  }
  add_line(out, "inputs", op->input_count ? shoal_text_string(&line) : "none");
  shoal_text_deinit(&line);
  for (int32_t i = 0; i < op->output_count; ++i) {
    shoal_text_addf(&line, "%s%s", i ? ", " : "", op->outputs[i]);
  }
  if (op->output_number) shoal_text_add(&line, " (how many, its attributes say)");
  add_line(out, "outputs", shoal_text_string(&line));
  shoal_text_deinit(&line);
}

static void add_attrs(shoal_text_t *out, const shoal_op_t *op,
                      const shoal_attr_description_t *attrs) {
  for (int32_t i = 0; i < op->attr_count; ++i) {
    const shoal_attr_schema_t *attr = &op->attrs[i];
    shoal_text_t line;
    shoal_text_init(out->allocator, &line);
    shoal_text_addf(&line, "%s, %s", attr->name, attrs[i].kind);
    if (attrs[i].fallback) shoal_text_addf(&line, " = %s", attrs[i].fallback);
    if (attr->doc && attr->doc[0]) shoal_text_addf(&line, ": %s", attr->doc);
    if (attrs[i].role[0]) shoal_text_addf(&line, " (%s)", attrs[i].role);
    add_line(out, i ? "" : "attributes", shoal_text_string(&line));
    shoal_text_deinit(&line);
  }
}

static void add_overwrites(shoal_text_t *out, const shoal_op_t *op) {
  shoal_text_t line;
  shoal_text_init(out->allocator, &line);
  for (int32_t i = 0; i < op->overwrite_count; ++i) {
    shoal_text_addf(&line, "%s%s over %s", i ? ", " : "", op->outputs[op->overwrites[i].output],
                    op->inputs[op->overwrites[i].input]);
  }
  add_line(out, "in place", op->overwrite_count ? shoal_text_string(&line) : "never");
  shoal_text_deinit(&line);
}

// The builders of ops.h, which the native ops have.
static void add_builders(shoal_text_t *out, const shoal_op_t *op) {
  if (strncmp(op->name, "shoal.", 6) != 0) return;
  shoal_text_t line, options;
  shoal_text_init(out->allocator, &line);
  shoal_text_init(out->allocator, &options);
  shoal_text_addf(&line, "shoal_%s(graph", op->name + 6);
  for (int32_t i = 0; i < op->input_count; ++i) {
    if (i >= op->input_count - op->optional) {
      shoal_text_addf(&options, "%s%s", options.length ? ", " : "", op->inputs[i]);
    } else {
      const bool repeats = op->variadic && i == op->input_count - 1;
      shoal_text_addf(&line, ", %s%s", repeats ? "count, " : "", op->inputs[i]);
    }
  }
  for (int32_t i = 0; i < op->attr_count; ++i) {
    const shoal_attr_schema_t *attr = &op->attrs[i];
    if (shoal_attr_is_argument(attr)) shoal_text_addf(&line, ", %s", attr->name);
    if (!shoal_attr_is_option(attr)) continue;
    shoal_text_addf(&options, "%s%s", options.length ? ", " : "", attr->name);
  }
  shoal_text_addf(&line, "%s)", op->output_count > 1 || op->output_number ? ", outputs.." : "");
  if (options.length) {
    shoal_text_addf(&line, "; shoal_%s_with takes options: %s", op->name + 6,
                    shoal_text_string(&options));
  }
  add_line(out, "in C", shoal_text_string(&line));
  shoal_text_deinit(&line);
  shoal_text_deinit(&options);
}

static shoal_status_t write_all(const shoal_op_t *op, shoal_arena_t *arena,
                                shoal_op_description_t *d) {
  shoal_text_t out;
  shoal_text_init(shoal_allocator_system(), &out);
  shoal_text_addf(&out, "%s\n\n", op->name);
  shoal_text_add(&out, "  ");
  add_wrapped(&out, 2, 2, op->doc ? op->doc : "");
  shoal_text_add(&out, "\n");
  add_line(&out, "family", d->family);
  add_operands(&out, op);
  add_attrs(&out, op, d->attrs);
  add_builders(&out, op);
  if (op->any_dtype) add_line(&out, "dtypes", "all, those for storage too: i8, f8_e4m3, f8_e5m2");
  if (op->random) add_line(&out, "random", "draws by the attribute key, the step and the index");
  add_line(&out, "gradient", d->gradient);
  add_overwrites(&out, op);
  add_line(&out, "decomposition", d->decomposition ? d->decomposition : "none");
  if (op->uncut) add_line(&out, "not cut", op->uncut);
  if (op->nan) add_line(&out, "NaN and Inf", op->nan);
  return shoal_text_finish(&out, arena, &d->text);
}

shoal_status_t shoal_op_describe(const shoal_registry_t *registry, const shoal_op_t *op,
                                 shoal_arena_t *arena, shoal_op_description_t *out_description) {
  static const char *const kinds[] = {
      [SHOAL_ATTR_INT] = "integer",   [SHOAL_ATTR_INTS] = "integers", [SHOAL_ATTR_REAL] = "real",
      [SHOAL_ATTR_STRING] = "string", [SHOAL_ATTR_DTYPE] = "dtype",   [SHOAL_ATTR_PLACE] = "place"};
  shoal_op_description_t d = {.family = family_of(op)};
  d.summary = first_sentence(op->doc ? op->doc : "", arena);
  shoal_attr_description_t *attrs = SHOAL_NEW(arena, shoal_attr_description_t, op->attr_count);
  if (!d.summary || !attrs) return SHOAL_OOM();
  for (int32_t i = 0; i < op->attr_count; ++i) {
    attrs[i].kind = kinds[op->attrs[i].kind];
    attrs[i].role = role_of(op, &op->attrs[i], arena);
    if (!attrs[i].role) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(fallback_of(&op->attrs[i], arena, &attrs[i].fallback));
  }
  d.attrs = attrs;
  SHOAL_RETURN_IF_ERROR(gradient_of(registry, op, arena, &d.gradient));
  const char *const *names;
  SHOAL_RETURN_IF_ERROR(shoal_op_emits(registry, op, false, arena, &names));
  SHOAL_RETURN_IF_ERROR(join(names, NULL, arena, &d.decomposition));
  if (op->decompose && !d.decomposition) d.decomposition = "yes";
  SHOAL_RETURN_IF_ERROR(write_all(op, arena, &d));
  *out_description = d;
  return NULL;
}
