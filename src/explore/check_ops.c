// Ways at random sizes: what `shoal check ops` does. A rule is found on one small call and said of
// all with the same relations; here every way of every example call is executed on other sizes, in
// 2, 3, 5 and 7 parts of random lengths, empty ones among them. (Gradients, decompositions, types
// and overwriting are the unit tests' business: op_cases_test, graph_gradient_test.)
#include <string.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"
#include "op/case.h"
#include "rules/rules.h"
#include "rules/symbols.h"
#include "shoal/explore.h"

static const int64_t PARTS[] = {2, 3, 5, 7};
enum { PARTS_COUNT = sizeof PARTS / sizeof *PARTS };

typedef struct checker {
  const shoal_check_ops_options_t *options;
  shoal_check_ops_report_t *report;
  shoal_rules_t *rules;
  shoal_arena_t arena;                       // of one call
  int64_t shapes, ways, executions, failed;  // of the op
} checker_t;

static void say(const checker_t *c, const char *line) {
  if (c->options->line && line) c->options->line(c->options->line_self, line);
}

// One call: each of its ways, in so many parts.
static shoal_status_t check_call(checker_t *c, const shoal_call_t *call, uint64_t seed) {
  const shoal_rule_t *rule;
  SHOAL_RETURN_IF_ERROR(shoal_rules_get(c->rules, call, &rule));
  ++c->shapes;
  for (int32_t i = 0; i < PARTS_COUNT; ++i) {
    shoal_tried_t tried;
    SHOAL_RETURN_IF_ERROR(shoal_rules_try(call, rule, PARTS[i], seed + (uint64_t)i,
                                          shoal_allocator_system(), &tried));
    c->ways += tried.ways;
    c->executions += tried.executions;
    if (tried.wrong < 0) continue;
    const char *way = "", *text = "";
    SHOAL_RETURN_IF_ERROR(
        shoal_way_print(call->op, call->attrs, &rule->ways[tried.wrong], &c->arena, &way));
    SHOAL_RETURN_IF_ERROR(probe_key(call, &c->arena, &text));
    say(c, shoal_arena_printf(&c->arena, "FAILED: %s in %lld parts: %s (found on %s)", text,
                              (long long)PARTS[i], way, rule->key));
    ++c->failed;
  }
  return NULL;
}

static shoal_status_t check_op(checker_t *c, const shoal_op_t *op, uint64_t seed) {
  int32_t cases = 0;
  c->shapes = c->ways = c->executions = c->failed = 0;
  while (op->cases && op->cases[cases]) ++cases;
  for (int64_t k = 0; cases && k < c->options->shapes; ++k) {
    shoal_arena_clear(&c->arena);
    shoal_case_t example;
    shoal_call_t varied;
    bool found = false;
    const uint64_t own = seed + (uint64_t)k * 16;
    SHOAL_RETURN_IF_ERROR(shoal_case_parse(op, op->cases[k % cases], &c->arena, &example));
    const shoal_call_t call = {.op = op,
                               .input_count = example.input_count,
                               .output_count = shoal_op_outputs(op, example.attrs),
                               .inputs = example.inputs,
                               .attrs = example.attrs};
    if (k >= cases) SHOAL_RETURN_IF_ERROR(shoal_rules_vary(&call, own, &c->arena, &varied, &found));
    SHOAL_RETURN_IF_ERROR(check_call(c, found ? &varied : &call, own));
  }
  say(c, shoal_arena_printf(&c->arena, "%-32s shapes %4lld  ways %6lld  parts executed %7lld  %s",
                            op->name, (long long)c->shapes, (long long)c->ways,
                            (long long)c->executions, c->failed ? "FAILED" : "ok"));
  c->report->ops += cases > 0;
  c->report->failed += c->failed > 0;
  c->report->shapes += c->shapes;
  c->report->ways += c->ways;
  return NULL;
}

shoal_status_t shoal_check_ops(const shoal_registry_t *registry,
                               const shoal_check_ops_options_t *options,
                               shoal_check_ops_report_t *out_report) {
  shoal_check_ops_options_t o = *options;
  if (o.shapes == 0) o.shapes = 200;
  *out_report = (shoal_check_ops_report_t){0};
  checker_t c = {.options = &o, .report = out_report};
  shoal_arena_init(shoal_allocator_system(), &c.arena);
  const shoal_op_t *only = NULL;
  shoal_status_t status = shoal_rules_create(shoal_allocator_system(), &c.rules);
  if (!status && o.op) status = shoal_op_find(registry, o.op, &only);
  for (int64_t i = 0; !status && i < shoal_registry_count(registry); ++i) {
    const shoal_op_t *op = shoal_registry_op(registry, i);
    if (only && op != only) continue;
    status = check_op(&c, op, o.seed * 1000003 + (uint64_t)i * 4099);
    if (status) status = shoal_status_annotatef(status, "while checking '%s'", op->name);
  }
  shoal_rules_free(c.rules);
  shoal_arena_deinit(&c.arena);
  if (status || out_report->failed == 0) return status;
  return SHOAL_ERROR(MISMATCH, "%lld of %lld ops have ways that do not hold",
                     (long long)out_report->failed, (long long)out_report->ops);
}
