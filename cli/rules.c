// shoal rules [op] [--format json]: how ops may be cut, found by running them. Without an op, all
// native ones; each on the example calls of its record.
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/options.h"
#include "base/status.h"
#include "cli.h"
#include "op/case.h"
#include "planning.h"
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
  bool json;
  shoal_json_writer_t writer;
} printer_t;

static shoal_status_t print_case(printer_t *p, const shoal_op_t *op, const char *text) {
  shoal_case_t example;
  SHOAL_RETURN_IF_ERROR(shoal_case_parse(op, text, p->arena, &example));
  shoal_call_t call = {.op = op,
                       .input_count = example.input_count,
                       .output_count = op->output_count,
                       .inputs = example.inputs,
                       .attrs = example.attrs};
  const shoal_rule_t *rule;
  SHOAL_RETURN_IF_ERROR(shoal_rules_get(p->rules, &call, &rule));
  if (p->json) {
    shoal_json_begin(&p->writer, NULL, '{', false);
    shoal_json_string(&p->writer, "op", op->name);
    shoal_json_string(&p->writer, "case", text);
    shoal_json_begin(&p->writer, "ways", '[', false);
  } else {
    fprintf(p->out, "  %s\n", text);
  }
  for (int32_t i = 0; i < rule->way_count; ++i) {
    const char *way;
    SHOAL_RETURN_IF_ERROR(shoal_way_print(op, &rule->ways[i], p->arena, &way));
    if (p->json)
      shoal_json_string(&p->writer, NULL, way);
    else
      fprintf(p->out, "    %s\n", way);
  }
  if (p->json) {
    shoal_json_end(&p->writer, ']');
    shoal_json_end(&p->writer, '}');
  } else if (rule->way_count == 0) {
    fprintf(p->out, "    whole only\n");
  }
  return NULL;
}

static shoal_status_t print_op(printer_t *p, const shoal_op_t *op) {
  if (!op->cases) return NULL;
  if (!p->json) fprintf(p->out, "%s\n", op->name);
  for (int32_t i = 0; op->cases[i]; ++i) {
    shoal_status_t status = print_case(p, op, op->cases[i]);
    if (status) return shoal_status_annotatef(status, "case \"%s\" of %s", op->cases[i], op->name);
  }
  return NULL;
}

// "matmul" stands for "shoal.matmul".
static shoal_status_t find_op(const shoal_registry_t *registry, const char *name,
                              shoal_arena_t *arena, const shoal_op_t **out_op) {
  const char *full = strchr(name, '.') ? name : shoal_arena_printf(arena, "shoal.%s", name);
  return full ? shoal_op_find(registry, full, out_op) : SHOAL_OOM();
}

shoal_status_t cli_rules(int argc, char **argv, FILE *out) {
  shoal_arena_t arena;
  shoal_text_t text;
  shoal_registry_t *registry = NULL;
  rules_options_t options = {0};
  shoal_words_t words = {0};
  printer_t p = {.arena = &arena, .out = out};
  shoal_status_t status = NULL;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_text_init(shoal_allocator_system(), &text);
  SHOAL_GOTO_IF_ERROR(status, done,
                      cli_options("rules", "[OP]", OPTIONS, OPTION_COUNT, argc, argv, &arena,
                                  &options, &words, out));
  if (options.help) goto done;
  if (words.count > 1) {
    status = SHOAL_ERROR_HINT(INVALID_ARGUMENT, "shoal rules [op] [--format json]",
                              "rules takes one op, not %lld", (long long)words.count);
    goto done;
  }
  SHOAL_GOTO_IF_ERROR(status, done, shoal_registry_create(shoal_allocator_system(), &registry));
  SHOAL_GOTO_IF_ERROR(status, done, shoal_rules_create(shoal_allocator_system(), &p.rules));
  p.json = options.format == 1;
  shoal_json_writer_init(&text, &p.writer);
  if (p.json) shoal_json_begin(&p.writer, NULL, '[', false);
  if (words.count == 1) {
    const shoal_op_t *op;
    SHOAL_GOTO_IF_ERROR(status, done, find_op(registry, words.items[0], &arena, &op));
    SHOAL_GOTO_IF_ERROR(status, done, print_op(&p, op));
  } else {
    for (int64_t i = 0; i < shoal_registry_count(registry); ++i) {
      SHOAL_GOTO_IF_ERROR(status, done, print_op(&p, shoal_registry_op(registry, i)));
    }
  }
  if (p.json) {
    shoal_json_end(&p.writer, ']');
    SHOAL_GOTO_IF_ERROR(status, done, shoal_text_status(&text));
    fprintf(out, "%s\n", shoal_text_string(&text));
  }
done:
  shoal_rules_free(p.rules);
  shoal_registry_release(registry);
  shoal_text_deinit(&text);
  shoal_arena_deinit(&arena);
  return status;
}
