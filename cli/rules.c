// shoal rules [op] [--format json]: how ops may be cut, found by running them. Without an op, all
// native ones; each on the example calls of its record. Behind a rule stands whether it came with
// the build or was discovered now, and the small call it was found on: its key. Ops that have
// phases have a composite way too.
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "planning.h"
#include "print.h"
#include "shoal/options.h"
#include "shoal/rules.h"

typedef struct rules_options {
  int format;
  bool help;
} rules_options_t;

static const char *const FORMATS[] = {"text", "json", NULL};
static const shoal_option_t OPTIONS[] = {
    SHOAL_OPTION(rules_options_t, ENUM, format, "text", "text or json", .choices = FORMATS),
    SHOAL_OPTION(rules_options_t, BOOL, help, NULL, "say what the options are", .letter = 'h'),
};
enum { OPTION_COUNT = sizeof OPTIONS / sizeof *OPTIONS };

typedef struct printer {
  shoal_arena_t *arena;
  shoal_rules_t *rules;
  FILE *out;
  bool json, any;  // any: an object was printed before
} printer_t;

static shoal_status_t print_case(printer_t *p, const shoal_op_t *op, const char *text) {
  const shoal_rule_t *rule;
  SHOAL_RETURN_IF_ERROR(shoal_rules_of_case(p->rules, op, text, &rule));
  if (p->json) {
    fprintf(p->out, "%s\n  {\"op\": ", p->any ? "," : "");
    cli_print_json(op->name, p->out);
    fprintf(p->out, ", \"case\": ");
    cli_print_json(text, p->out);
    fprintf(p->out, ", \"ways\": [");
    p->any = true;
  } else {
    fprintf(p->out, "  %s\n", text);
  }
  for (int32_t i = 0; i < rule->way_count; ++i) {
    const char *way;
    SHOAL_RETURN_IF_ERROR(shoal_way_print(op, rule->attrs, &rule->ways[i], p->arena, &way));
    if (p->json) {
      fprintf(p->out, i ? ", " : "");
      cli_print_json(way, p->out);
    } else {
      fprintf(p->out, "    %s\n", way);
    }
  }
  const char *origin = rule->shipped ? "shipped" : "discovered";
  if (p->json) {
    fprintf(p->out,
            "], \"composite\": %s, \"origin\": \"%s\", \"key\": ", op->decompose ? "true" : "false",
            origin);
    cli_print_json(rule->key, p->out);
    fprintf(p->out, "}");
  } else {
    if (op->decompose)
      fprintf(p->out, "    composite: in parts, along any dim\n");
    else if (rule->way_count == 0)
      fprintf(p->out, "    whole only%s%s\n", rule->note ? ": " : "", rule->note ? rule->note : "");
    if (op->claimed)
      fprintf(p->out, "    claimed, where gradients are clipped before they are summed: %s\n",
              op->claimed);
    fprintf(p->out, "    (%s: %s)\n", origin, rule->key);
  }
  return NULL;
}

static shoal_status_t print_op(printer_t *p, const shoal_op_t *op) {
  if (!op->cases) return NULL;
  if (!p->json) fprintf(p->out, "%s\n", op->name);
  for (int32_t i = 0; op->cases[i]; ++i) SHOAL_RETURN_IF_ERROR(print_case(p, op, op->cases[i]));
  return NULL;
}

// "matmul" stands for "shoal.matmul".
static shoal_status_t find_op(const shoal_registry_t *registry, const char *name,
                              shoal_arena_t *arena, const shoal_op_t **out_op) {
  const char *full = strchr(name, '.') ? name : cli_format(arena, "shoal.%s", name);
  return full ? shoal_op_find(registry, full, out_op) : SHOAL_OOM();
}

static shoal_status_t print_all(printer_t *p, const shoal_registry_t *registry, const char *name) {
  if (name) {
    const shoal_op_t *op;
    SHOAL_RETURN_IF_ERROR(find_op(registry, name, p->arena, &op));
    return print_op(p, op);
  }
  for (int64_t i = 0; i < shoal_registry_count(registry); ++i)
    SHOAL_RETURN_IF_ERROR(print_op(p, shoal_registry_op(registry, i)));
  return NULL;
}

shoal_status_t cli_rules(int argc, char **argv, shoal_arena_t *arena, FILE *out) {
  shoal_registry_t *registry = NULL;
  rules_options_t options = {0};
  shoal_words_t words = {0};
  printer_t p = {.arena = arena, .out = out};
  SHOAL_RETURN_IF_ERROR(cli_options("rules", "[OP]", OPTIONS, OPTION_COUNT, argc, argv, arena,
                                    &options, &words, out));
  if (options.help) return NULL;
  if (words.count > 1)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "shoal rules [op] [--format json]",
                            "rules takes one op, not %lld", (long long)words.count);
  p.json = options.format == 1;
  shoal_status_t status = shoal_registry_create(shoal_allocator_system(), &registry);
  if (!status) status = shoal_rules_create(shoal_allocator_system(), &p.rules);
  if (!status && p.json) fputc('[', out);
  if (!status) status = print_all(&p, registry, words.count ? words.items[0] : NULL);
  if (!status && p.json) fprintf(out, "\n]\n");
  shoal_rules_free(p.rules);
  shoal_registry_release(registry);
  return status;
}
