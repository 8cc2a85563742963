// opgen: prints the typed op builders from the registry - the header shoal/ops.h and its
// implementation.
//
//   shoal_opgen --header FILE --source FILE
//
// For each native op "shoal.name" there is a function shoal_name_at(graph, inputs.., attributes..,
// file, line) and a macro shoal_name that passes the caller's file and line. It takes what must be
// given. Where something may be left out - optional inputs, attributes with a default - a second
// pair, shoal_name_with, takes a struct of that, in which zero is the default. Places speak of
// parts and are never given by hand. An op whose attributes say how many outputs it has takes their
// number and an array.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "op/describe.h"
#include "shoal/op.h"

static const char *short_name(const shoal_op_t *op) {
  return strchr(op->name, '.') + 1;
}

static bool has_options(const shoal_op_t *op) {
  for (int32_t i = 0; i < op->attr_count; ++i)
    if (shoal_attr_is_option(&op->attrs[i])) return true;
  return op->optional > 0;
}

// A list that may be longer than a shape.
static bool is_long(const shoal_attr_schema_t *attr) {
  return attr->kind == SHOAL_ATTR_INTS && attr->role == SHOAL_ROLE_POSITIONS;
}

static int32_t required_inputs(const shoal_op_t *op) {
  return op->input_count - op->optional;
}

// C type of an attribute, the function that makes it a shoal_attr_t, and how a field is not zero.
static const struct {
  const char *type, *make, *address, *is_given;
} kinds[] = {
    [SHOAL_ATTR_INT] = {"int64_t ", "shoal_attr_int", "", " != 0"},
    [SHOAL_ATTR_INTS] = {"shoal_shape_t ", "shoal_attr_shape", "&", ".rank > 0"},
    [SHOAL_ATTR_REAL] = {"double ", "shoal_attr_real", "", " != 0"},
    [SHOAL_ATTR_STRING] = {"const char *", "shoal_attr_string", "", ""},
    [SHOAL_ATTR_DTYPE] = {"shoal_dtype_t ", "shoal_attr_dtype", "", " != SHOAL_F64"},
};

// Adds `text` as comment lines of at most 100 columns.
static void add_comment(shoal_text_t *out, const char *indent, const char *text) {
  size_t column = 0;
  while (*text) {
    size_t length = strcspn(text, " ");
    if (column && column + 1 + length > 100) {
      shoal_text_add(out, "\n");
      column = 0;
    }
    if (!column) {
      shoal_text_addf(out, "// %s", indent);
      column = 3 + strlen(indent);
    } else {
      shoal_text_add(out, " ");
      ++column;
    }
    shoal_text_addf(out, "%.*s", (int)length, text);
    column += length;
    text += length;
    text += strspn(text, " ");
  }
  shoal_text_add(out, "\n");
}

// Adds a comment line of its own, made like printf.
__attribute__((format(printf, 2, 3))) static void add_note(shoal_text_t *out, const char *format,
                                                           ...) {
  char line[4096];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  add_comment(out, "  ", line);
}

static void add_doc(shoal_text_t *out, const shoal_op_t *op, const shoal_op_description_t *d) {
  add_comment(out, "", op->doc);
  for (int32_t i = 0; i < op->attr_count; ++i) {
    const shoal_attr_schema_t *attr = &op->attrs[i];
    if (attr->kind == SHOAL_ATTR_PLACE) {
      add_note(out, "%s: %s", attr->name, d->attrs[i].role);
    } else if (shoal_attr_is_argument(attr)) {
      add_note(out, "%s: %s", attr->name, attr->doc);
    } else if (shoal_attr_is_option(attr)) {
      add_note(out, "%s = %s: %s", attr->name, d->attrs[i].fallback, attr->doc);
    }
  }
  for (int32_t i = required_inputs(op); i < op->input_count; ++i) {
    add_note(out, "%s is optional.", op->inputs[i]);
  }
  if (op->output_number) add_note(out, "How many outputs there are, the attributes say.");
  const char *gradient = d->gradient;
  if (strcmp(gradient, "no") == 0) {
    add_note(out, "Not differentiable.");
  } else if (strcmp(gradient, "none flows") == 0) {
    add_note(out, "No gradient flows through it.");
  } else {
    const bool plain = strcmp(gradient, "yes") == 0;
    add_note(out, "Differentiable%s%s.", plain ? "" : ", ", plain ? "" : gradient);
  }
  if (op->uncut) add_note(out, "Not cut: %s", op->uncut);
}

// Adds a declaration, broken behind commas at 100 columns.
static void add_wrapped(shoal_text_t *out, const char *text) {
  size_t column = 0;
  while (*text) {
    size_t length = strcspn(text, ",");
    length += text[length] == ',';
    if (column && column + length > 99) {
      shoal_text_add(out, "\n   ");
      column = 3;
    }
    shoal_text_addf(out, "%.*s", (int)length, text);
    column += length;
    text += length;
  }
}

static void add_parameter(shoal_text_t *out, const shoal_attr_schema_t *attr) {
  if (is_long(attr)) {
    shoal_text_addf(out, "int32_t %s_count, const int64_t *%s", attr->name, attr->name);
  } else {
    shoal_text_addf(out, "%s%s", kinds[attr->kind].type, attr->name);
  }
}

static void add_signature(shoal_text_t *out, const shoal_op_t *op, bool with) {
  const bool varies = op->output_number != NULL, single = op->output_count == 1 && !varies;
  shoal_text_addf(out, "%s shoal_%s%s_at(shoal_graph_t *graph", single ? "shoal_value_t" : "void",
                  short_name(op), with ? "_with" : "");
  for (int32_t i = 0; i < required_inputs(op); ++i) {
    if (op->variadic && i == op->input_count - 1) {
      shoal_text_addf(out, ", int32_t count, const shoal_value_t *%s", op->inputs[i]);
    } else {
      shoal_text_addf(out, ", shoal_value_t %s", op->inputs[i]);
    }
  }
  for (int32_t i = 0; i < op->attr_count; ++i) {
    if (!shoal_attr_is_argument(&op->attrs[i])) continue;
    shoal_text_add(out, ", ");
    add_parameter(out, &op->attrs[i]);
  }
  if (with) shoal_text_addf(out, ", const shoal_%s_options_t *options", short_name(op));
  if (varies) {
    shoal_text_addf(out, ", int32_t output_count, shoal_value_t *out_%s",
                    op->output_count == 1 ? op->outputs[0] : "outputs");
  }
  for (int32_t i = 0; i < op->output_count && !single && !varies; ++i) {
    shoal_text_addf(out, ", shoal_value_t *out_%s", op->outputs[i]);
  }
  shoal_text_add(out, ", const char *file, int line)");
}

// The struct of what may be left out.
static void add_options(shoal_text_t *out, const shoal_op_t *op, const shoal_op_description_t *d) {
  shoal_text_addf(out, "typedef struct shoal_%s_options {\n", short_name(op));
  for (int32_t i = required_inputs(op); i < op->input_count; ++i) {
    shoal_text_addf(out, "  shoal_value_t %s;  // zero: left out\n", op->inputs[i]);
  }
  for (int32_t i = 0; i < op->attr_count; ++i) {
    const shoal_attr_schema_t *attr = &op->attrs[i];
    if (!shoal_attr_is_option(attr)) continue;
    shoal_text_add(out, "  ");
    add_parameter(out, attr);
    const char *fallback = d->attrs[i].fallback;
    const bool zero = strcmp(fallback, "0") == 0;
    const char *nothing = attr->kind == SHOAL_ATTR_STRING ? "NULL"
                          : attr->kind == SHOAL_ATTR_INTS ? "no dims"
                                                          : "0";
    if (zero) {
      shoal_text_add(out, ";\n");
    } else {
      shoal_text_addf(out, ";  // %s means %s\n", nothing, fallback);
    }
  }
  shoal_text_addf(out, "} shoal_%s_options_t;\n", short_name(op));
}

static void add_function(shoal_text_t *out, const shoal_op_t *op, bool with) {
  const char *name = short_name(op), *suffix = with ? "_with" : "";
  shoal_text_t line;
  shoal_text_init(out->allocator, &line);
  shoal_text_add(&line, "SHOAL_API ");
  add_signature(&line, op, with);
  add_wrapped(out, shoal_text_string(&line));
  shoal_text_deinit(&line);
  shoal_text_addf(out, ";\n#define shoal_%s%s(...) shoal_%s%s_at(__VA_ARGS__, SHOAL_HERE)\n", name,
                  suffix, name, suffix);
}

static void add_declaration(shoal_text_t *out, const shoal_op_t *op,
                            const shoal_op_description_t *d) {
  shoal_text_add(out, "\n");
  add_doc(out, op, d);
  add_function(out, op, false);
  if (!has_options(op)) return;
  add_options(out, op, d);
  add_function(out, op, true);
}

static shoal_status_t add_header(shoal_text_t *out, const shoal_registry_t *registry) {
  shoal_arena_t *arena = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_arena_create(shoal_allocator_system(), &arena));
  shoal_status_t status = NULL;
  shoal_text_add(
      out,
      "// Shoal, ops: typed builders of the native ops. Generated by tools/opgen from the op "
      "records.\n"
      "//\n"
      "// shoal_NAME(graph, inputs.., attributes..) adds a node and returns its value; ops with "
      "several results\n"
      "// write them through out pointers, of which any may be NULL. What may be left out - "
      "optional "
      "inputs, and\n"
      "// attributes with a default, written \"name = default\" - is given to shoal_NAME_with in a "
      "struct, where zero is\n"
      "// the default: shoal_pad_with(g, x, start, shape, &(shoal_pad_options_t){.value = 1}). "
      "Where "
      "the default is\n"
      "// another number, zero itself goes by name, through shoal_node_add; where it is as usual "
      "as "
      "the default, the\n"
      "// attribute is an argument (shoal_clamp's bounds). `shoal ops NAME` says "
      "the "
      "same of one op,\n"
      "// and how it may be cut. Errors are kept by the model, with the caller's file and line.\n"
      "// All functions are *Not collective* and do not block.\n"
      "#ifndef SHOAL_OPS_H_\n#define SHOAL_OPS_H_\n\n#include \"shoal/graph.h\"\n\n"
      "#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
  for (int64_t i = 0; i < shoal_registry_count(registry) && !status; ++i) {
    const shoal_op_t *op = shoal_registry_op(registry, i);
    shoal_op_description_t description;
    if (op->constrains) continue;  // graph.h has it
    status = shoal_op_describe(registry, op, arena, &description);
    if (!status) add_declaration(out, op, &description);
  }
  shoal_text_add(out, "\n#ifdef __cplusplus\n}\n#endif\n#endif  // SHOAL_OPS_H_\n");
  shoal_arena_free(arena);
  return status;
}

// "shoal_attr_int("axis", axis)", where the value is in `from`.
static void add_attr(shoal_text_t *out, const shoal_attr_schema_t *attr, const char *from) {
  if (is_long(attr)) {
    shoal_text_addf(out, "shoal_attr_ints(\"%s\", %s%s_count, %s%s)", attr->name, from, attr->name,
                    from, attr->name);
  } else {
    shoal_text_addf(out, "%s(\"%s\", %s%s%s)", kinds[attr->kind].make, attr->name,
                    kinds[attr->kind].address, from, attr->name);
  }
}

// The array of attributes; what was chosen is behind what must be given. Returns how many fit.
static int add_attrs(shoal_text_t *out, const shoal_op_t *op, bool with) {
  int count = 0;
  for (int32_t i = 0; i < op->attr_count; ++i) {
    count += shoal_attr_is_argument(&op->attrs[i]) || (with && shoal_attr_is_option(&op->attrs[i]));
  }
  if (count == 0) return 0;
  shoal_text_addf(out, "  shoal_attr_t attrs[%d];\n  int32_t attr_count = 0;\n", count);
  for (int32_t i = 0; i < op->attr_count; ++i) {
    const shoal_attr_schema_t *attr = &op->attrs[i];
    if (!shoal_attr_is_argument(attr)) continue;
    shoal_text_add(out, "  attrs[attr_count++] = ");
    add_attr(out, attr, "");
    shoal_text_add(out, ";\n");
  }
  for (int32_t i = 0; with && i < op->attr_count; ++i) {
    const shoal_attr_schema_t *attr = &op->attrs[i];
    if (!shoal_attr_is_option(attr)) continue;
    if (is_long(attr)) {
      shoal_text_addf(out, "  if (options && options->%s_count > 0) ", attr->name);
    } else {
      shoal_text_addf(out, "  if (options && options->%s%s) ", attr->name,
                      kinds[attr->kind].is_given);
    }
    shoal_text_add(out, "attrs[attr_count++] = ");
    add_attr(out, attr, "options->");
    shoal_text_add(out, ";\n");
  }
  return count;
}

static void add_definition(shoal_text_t *out, const shoal_op_t *op, bool with) {
  const bool varies = op->output_number != NULL;
  const int32_t inputs = with ? op->input_count : required_inputs(op);
  shoal_text_add(out, "\n");
  add_signature(out, op, with);
  shoal_text_add(out, " {\n");
  const int attrs = add_attrs(out, op, with);
  if (inputs && !op->variadic) {
    shoal_text_add(out, "  const shoal_value_t inputs[] = {");
    for (int32_t i = 0; i < inputs; ++i) {
      const bool optional = i >= required_inputs(op);
      shoal_text_addf(out, "%s%s%s%s", i ? ", " : "", optional ? "options ? options->" : "",
                      op->inputs[i], optional ? " : shoal_none()" : "");
    }
    shoal_text_add(out, "};\n");
  }
  if (!varies) shoal_text_addf(out, "  shoal_value_t outputs[%d];\n", op->output_count);
  shoal_text_addf(out, "  shoal_node_add_at(graph, \"%s\", ", op->name);
  if (op->variadic) {
    shoal_text_addf(out, "count, %s, ", op->inputs[0]);
  } else {
    shoal_text_addf(out, "%d, %s, ", inputs, inputs ? "inputs" : "NULL");
  }
  shoal_text_add(out, attrs ? "attr_count, attrs, " : "0, NULL, ");
  if (varies) {
    shoal_text_addf(out, "output_count, out_%s, file, line);\n}\n",
                    op->output_count == 1 ? op->outputs[0] : "outputs");
    return;
  }
  shoal_text_addf(out, "%d, outputs, file, line);\n", op->output_count);
  if (op->output_count == 1) shoal_text_add(out, "  return outputs[0];\n");
  for (int32_t i = 0; i < op->output_count && op->output_count > 1; ++i) {
    shoal_text_addf(out, "  if (out_%s) *out_%s = outputs[%d];\n", op->outputs[i], op->outputs[i],
                    i);
  }
  shoal_text_add(out, "}\n");
}

static void add_source(shoal_text_t *out, const shoal_registry_t *registry) {
  shoal_text_add(
      out,
      "// Typed builders of the native ops. Generated by tools/opgen from the op records.\n"
      "#include \"shoal/ops.h\"\n");
  for (int64_t i = 0; i < shoal_registry_count(registry); ++i) {
    const shoal_op_t *op = shoal_registry_op(registry, i);
    if (op->constrains) continue;
    add_definition(out, op, false);
    if (has_options(op)) add_definition(out, op, true);
  }
}

static int write_file(const char *path, const shoal_text_t *text) {
  FILE *file = fopen(path, "w");
  int bad = !file || text->failed || fputs(shoal_text_string(text), file) == EOF;
  if (file && fclose(file)) bad = 1;
  if (bad) fprintf(stderr, "shoal_opgen: error: can't write %s\n", path);
  return bad;
}

int main(int argc, char **argv) {
  const char *header = NULL, *source = NULL;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--header") == 0) header = argv[i + 1];
    if (strcmp(argv[i], "--source") == 0) source = argv[i + 1];
  }
  if (!header || !source || argc != 5) {
    fprintf(stderr, "usage: shoal_opgen --header FILE --source FILE\n");
    return 2;
  }
  shoal_registry_t *registry = NULL;
  shoal_status_t status = shoal_registry_create(shoal_allocator_system(), &registry);
  shoal_text_t texts[2];
  for (int i = 0; i < 2; ++i) shoal_text_init(shoal_allocator_system(), &texts[i]);
  if (!status) status = add_header(&texts[0], registry);
  if (!status) add_source(&texts[1], registry);
  if (status) fprintf(stderr, "shoal_opgen: error: %s\n", shoal_status_message(status));
  const int bad = status || write_file(header, &texts[0]) || write_file(source, &texts[1]);
  shoal_status_free(status);
  for (int i = 0; i < 2; ++i) shoal_text_deinit(&texts[i]);
  shoal_registry_release(registry);
  return bad;
}
