// shoal ops [NAME] [--format json]: which ops there are, by family, and what one of them is: its
// operands and attributes, its gradient, and how its first example may be cut.
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "planning.h"
#include "print.h"
#include "shoal/options.h"
#include "shoal/rules.h"

typedef struct ops_options {
  int format;
  bool help;
} ops_options_t;

static const char *const FORMATS[] = {"text", "json", NULL};
static const shoal_option_t OPTIONS[] = {
    SHOAL_OPTION(ops_options_t, ENUM, format, "text", "text or json", .choices = FORMATS),
    SHOAL_OPTION(ops_options_t, BOOL, help, NULL, "say what the options are", .letter = 'h'),
};
enum { OPTION_COUNT = sizeof OPTIONS / sizeof *OPTIONS };

typedef struct ops_printer {
  const shoal_registry_t *registry;
  shoal_arena_t *arena;
  FILE *out;
} ops_printer_t;

// ---- the list --------------------------------------------------------------------------

static const char *short_name(const shoal_op_t *op) {
  return strncmp(op->name, "shoal.", 6) == 0 ? op->name + 6 : op->name;
}

static shoal_status_t list_ops(const ops_printer_t *p) {
  const int64_t count = shoal_registry_count(p->registry);
  shoal_op_description_t *all = SHOAL_NEW(p->arena, shoal_op_description_t, count);
  bool *done = SHOAL_NEW(p->arena, bool, count);
  if (!all || !done) return SHOAL_OOM();
  int width = 0;
  for (int64_t i = 0; i < count; ++i) {
    const shoal_op_t *op = shoal_registry_op(p->registry, i);
    SHOAL_RETURN_IF_ERROR(shoal_op_describe(p->registry, op, p->arena, &all[i]));
    const int length = (int)strlen(short_name(op));
    if (length > width) width = length;
  }
  for (int64_t first = 0; first < count; ++first) {
    if (done[first]) continue;
    fprintf(p->out, "%s%s\n", first ? "\n" : "", all[first].family);
    for (int64_t i = first; i < count; ++i) {
      if (done[i] || strcmp(all[i].family, all[first].family) != 0) continue;
      done[i] = true;
      fprintf(p->out, "  %-*s  %s\n", width, short_name(shoal_registry_op(p->registry, i)),
              all[i].summary);
    }
  }
  fprintf(p->out, "\n%lld ops; `shoal ops NAME` says more of one\n", (long long)count);
  return NULL;
}

// ---- one op ----------------------------------------------------------------------------

// How its first example may be cut. `emit` prints a way.
static shoal_status_t print_ways(const ops_printer_t *p, const shoal_op_t *op, bool json) {
  const shoal_rule_t *rule;
  shoal_rules_t *rules = NULL;
  shoal_status_t status = shoal_rules_create(shoal_allocator_system(), &rules);
  if (!status) status = shoal_rules_of_case(rules, op, op->cases[0], &rule);
  if (!status && !json) fprintf(p->out, "\nmay be cut, for example %s\n", op->cases[0]);
  for (int32_t i = 0; !status && i < rule->way_count; ++i) {
    const char *way;
    status = shoal_way_print(op, rule->attrs, &rule->ways[i], p->arena, &way);
    if (status) break;
    if (json) {
      fputs(i ? ", " : "", p->out);
      cli_print_json(way, p->out);
    } else {
      fprintf(p->out, "  %s\n", way);
    }
  }
  if (!status && !json && op->decompose)
    fprintf(p->out, "  composite: in parts, along any dim\n");
  else if (!status && !json && rule->way_count == 0)
    fprintf(p->out, "  whole only\n");
  if (!status && !json) fprintf(p->out, "(`shoal rules %s`: all its examples)\n", short_name(op));
  shoal_rules_free(rules);
  return status;
}

static void print_field(const ops_printer_t *p, const char *name, const char *text) {
  fprintf(p->out, ", \"%s\": ", name);
  if (text) {
    cli_print_json(text, p->out);
  } else {
    fputs("null", p->out);
  }
}

static void print_attrs_json(const ops_printer_t *p, const shoal_op_t *op,
                             const shoal_op_description_t *d) {
  fputs(", \"attributes\": [", p->out);
  for (int32_t i = 0; i < op->attr_count; ++i) {
    fprintf(p->out, "%s{\"name\": ", i ? ", " : "");
    cli_print_json(op->attrs[i].name, p->out);
    print_field(p, "kind", d->attrs[i].kind);
    print_field(p, "role", d->attrs[i].role);
    print_field(p, "default", d->attrs[i].fallback);
    print_field(p, "doc", op->attrs[i].doc);
    fputc('}', p->out);
  }
  fputc(']', p->out);
}

static shoal_status_t print_json(const ops_printer_t *p, const shoal_op_t *op, bool ways) {
  shoal_op_description_t d;
  SHOAL_RETURN_IF_ERROR(shoal_op_describe(p->registry, op, p->arena, &d));
  fputs("  {\"name\": ", p->out);
  cli_print_json(op->name, p->out);
  print_field(p, "family", d.family);
  print_field(p, "doc", op->doc);
  fputs(", \"inputs\": [", p->out);
  for (int32_t i = 0; i < op->input_count; ++i) {
    fprintf(p->out, "%s{\"name\": ", i ? ", " : "");
    cli_print_json(op->inputs[i], p->out);
    fprintf(p->out, ", \"optional\": %s, \"repeats\": %s}",
            i >= op->input_count - op->optional ? "true" : "false",
            op->variadic && i == op->input_count - 1 ? "true" : "false");
  }
  fputs("], \"outputs\": [", p->out);
  for (int32_t i = 0; i < op->output_count; ++i) {
    fputs(i ? ", " : "", p->out);
    cli_print_json(op->outputs[i], p->out);
  }
  fprintf(p->out, "], \"outputs_vary\": %s", op->output_number ? "true" : "false");
  print_attrs_json(p, op, &d);
  print_field(p, "gradient", d.gradient);
  print_field(p, "decomposition", d.decomposition);
  fputs(", \"in_place\": [", p->out);
  for (int32_t i = 0; i < op->overwrite_count; ++i) {
    fputs(i ? ", [" : "[", p->out);
    cli_print_json(op->outputs[op->overwrites[i].output], p->out);
    fputs(", ", p->out);
    cli_print_json(op->inputs[op->overwrites[i].input], p->out);
    fputc(']', p->out);
  }
  fprintf(p->out, "], \"storage_types\": %s", op->any_dtype ? "true" : "false");
  print_field(p, "uncut", op->uncut);
  print_field(p, "nan", op->nan);
  if (ways) {
    fputs(", \"ways\": [", p->out);
    SHOAL_RETURN_IF_ERROR(print_ways(p, op, true));
    fputc(']', p->out);
  }
  fputc('}', p->out);
  return NULL;
}

static shoal_status_t print_one(const ops_printer_t *p, const char *name, bool json) {
  const char *full = strchr(name, '.') ? name : cli_format(p->arena, "shoal.%s", name);
  const shoal_op_t *op;
  if (!full) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_op_find(p->registry, full, &op));
  if (json) {
    SHOAL_RETURN_IF_ERROR(print_json(p, op, true));
    fputc('\n', p->out);
    return NULL;
  }
  shoal_op_description_t d;
  SHOAL_RETURN_IF_ERROR(shoal_op_describe(p->registry, op, p->arena, &d));
  fputs(d.text, p->out);
  return print_ways(p, op, false);
}

static shoal_status_t print_all_json(const ops_printer_t *p) {
  fputs("[\n", p->out);
  for (int64_t i = 0; i < shoal_registry_count(p->registry); ++i) {
    if (i) fputs(",\n", p->out);
    SHOAL_RETURN_IF_ERROR(print_json(p, shoal_registry_op(p->registry, i), false));
  }
  fputs("\n]\n", p->out);
  return NULL;
}

shoal_status_t cli_ops(int argc, char **argv, shoal_arena_t *arena, FILE *out) {
  ops_options_t options = {0};
  shoal_words_t words = {0};
  SHOAL_RETURN_IF_ERROR(cli_options("ops", "[NAME]", OPTIONS, OPTION_COUNT, argc, argv, arena,
                                    &options, &words, out));
  if (options.help) return NULL;
  if (words.count > 1)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "shoal ops [NAME] [--format json]",
                            "ops takes one name, not %lld", (long long)words.count);
  shoal_registry_t *registry = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_registry_create(shoal_allocator_system(), &registry));
  const ops_printer_t p = {.registry = registry, .arena = arena, .out = out};
  const bool json = options.format == 1;
  shoal_status_t status = words.count ? print_one(&p, words.items[0], json)
                          : json      ? print_all_json(&p)
                                      : list_ops(&p);
  shoal_registry_release(registry);
  return status;
}
