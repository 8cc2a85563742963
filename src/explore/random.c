// Random checks: case after case until one fails, which is then made small and printed as one line.
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/time.h"
#include "explore/channels.h"
#include "explore/generate.h"
#include "explore/shrink.h"

enum { LARGE_EVERY = 16 };  // cases: one is for 33 to 200 ranks
enum { MANY_RANKS = 32 };

typedef struct random_run {
  const shoal_random_options_t *options;
  shoal_allocator_t allocator;
  shoal_registry_t *registry;
  shoal_rules_t *rules;
  shoal_coverage_t *coverage;
  shoal_random_report_t *report;
} random_run_t;

static void say(const shoal_random_options_t *options, const char *line) {
  if (options->line) options->line(options->line_self, line);
}

static void say_lines(const shoal_random_options_t *options, const char *text,
                      shoal_arena_t *arena) {
  while (*text) {
    size_t length = strcspn(text, "\n");
    const char *line = shoal_arena_printf(arena, "%.*s", (int)length, text);
    if (line) say(options, line);
    text += length + (text[length] == '\n');
  }
}

// Counts what a plan exercises. Of large worlds, where not all ranks may run, what is moved is
// counted out too.
static shoal_status_t see_plan(void *self, const shoal_plan_t *plan, const shoal_program_t *program,
                               const shoal_check_options_t *options) {
  SHOAL_RETURN_IF_ERROR(shoal_coverage_add(self, plan, program, options));
  if (options->ranks <= MANY_RANKS) return NULL;
  return shoal_check_channels(program, options->allocator);
}

// Makes a failing case small and prints it. Takes the status, returns it with the reproducer.
static shoal_status_t report_failure(random_run_t *r, const shoal_random_case_t *c,
                                     const shoal_check_report_t *report, shoal_status_t status,
                                     shoal_arena_t *arena) {
  const char *text = NULL;
  shoal_status_t printed = shoal_random_case_print(c, arena, &text);
  if (!printed)
    say_lines(r->options, shoal_arena_printf(arena, "FAILED: shoal check --case '%s'", text),
              arena);
  say_lines(r->options, shoal_arena_printf(arena, "  %s", shoal_status_message(status)), arena);
  shoal_status_free(printed);
  if (r->options->no_shrink) return status;
  shoal_random_case_t small = *c;
  shoal_status_t smaller = NULL;
  const shoal_check_options_t with = {.allocator = r->allocator,
                                      .rules = r->rules,
                                      .planned = see_plan,
                                      .planned_self = r->coverage};
  shoal_shrink_case(&small, r->registry, &with, report, status, arena, &smaller);
  if (smaller) {
    shoal_status_free(status);
    status = smaller;
    printed = shoal_random_case_print(&small, arena, &text);
    if (!printed)
      say_lines(r->options, shoal_arena_printf(arena, "shrunk to: shoal check --case '%s'", text),
                arena);
    say_lines(r->options, shoal_arena_printf(arena, "  %s", shoal_status_message(status)), arena);
    shoal_status_free(printed);
  }
  return status;
}

static shoal_status_t one_case(random_run_t *r, int64_t index) {
  shoal_arena_t arena;
  shoal_arena_init(r->allocator, &arena);
  shoal_random_case_t c;
  shoal_check_report_t report = {0};
  const char *text = NULL;
  const shoal_check_options_t with = {.allocator = r->allocator,
                                      .rules = r->rules,
                                      .planned = see_plan,
                                      .planned_self = r->coverage};
  uint64_t seed = r->options->seed * UINT64_C(0x2545f4914f6cdd1d) + (uint64_t)index;
  const bool large = index % LARGE_EVERY == LARGE_EVERY - 1;
  shoal_status_t status =
      shoal_generate_case(seed, large, r->registry, r->rules, r->coverage, &arena, &c);
  if (!status) status = shoal_random_case_print(&c, &arena, &text);
  if (status) goto done;
  // What runs is the parsed text, so that the reproducer is what failed.
  SHOAL_GOTO_IF_ERROR(status, done, shoal_random_case_parse(text, r->registry, &arena, &c));
  SHOAL_GOTO_IF_ERROR(status, done, shoal_coverage_case(r->coverage, &c, r->registry, &arena));
  if (shoal_random_case_overflows(&c))
    SHOAL_GOTO_IF_ERROR(status, done, shoal_coverage_see(r->coverage, "more rows than room"));
  for (int pass = 0; pass < 2 && !status; ++pass) {
    c.processes = pass == 1;
    if (pass == 1 && (large || (!r->options->processes && index % 8 != 0))) break;
    status = shoal_random_case_check(&c, r->registry, &with, &report);
  }
  if (status && !report.refused &&
      shoal_random_case_was_rounding(&c, r->registry, &with, &report)) {
    say_lines(
        r->options,
        shoal_arena_printf(&arena, "rounding, not on other data: shoal check --case '%s'\n  %s",
                           text, shoal_status_message(status)),
        &arena);
    ++r->report->rounding;
    shoal_status_free(status);
    status = NULL;
  }
  if (r->options->verbose)
    say_lines(r->options,
              shoal_arena_printf(&arena, "%lld %s: %s%s%s", (long long)index,
                                 !status          ? "passed"
                                 : report.refused ? "refused"
                                                  : "FAILED",
                                 text, status ? "\n    " : "",
                                 status ? shoal_status_message(status) : ""),
              &arena);
  if (!status) {
    ++r->report->passed;
  } else if (report.refused) {
    ++r->report->refused;
    shoal_status_free(status);
    status = NULL;
  } else {
    ++r->report->failed;
    status = report_failure(r, &c, &report, status, &arena);
  }
done:
  shoal_arena_deinit(&arena);
  return status;
}

static shoal_status_t run_all(random_run_t *r) {
  int64_t end =
      r->options->minutes > 0 ? shoal_time_ns() + (int64_t)(r->options->minutes * 60e9) : INT64_MAX;
  for (int64_t i = 0; i < r->options->count && shoal_time_ns() < end; ++i)
    SHOAL_RETURN_IF_ERROR(one_case(r, i));
  shoal_text_t text;
  shoal_text_init(r->allocator, &text);
  shoal_coverage_print(r->coverage, &text);
  shoal_arena_t arena;
  shoal_arena_init(r->allocator, &arena);
  say_lines(r->options, shoal_text_string(&text), &arena);
  shoal_arena_deinit(&arena);
  shoal_text_deinit(&text);
  if (!r->options->assert_coverage) return NULL;
  int64_t all = r->report->passed + r->report->refused;
  if (r->report->refused * 10 >= all * 3)
    return SHOAL_ERROR(MISMATCH,
                       "%lld of %lld cases were refused: the generator makes too many bad plans",
                       (long long)r->report->refused, (long long)all);
  return shoal_coverage_assert(r->coverage);
}

static shoal_status_t begin(random_run_t *r, const shoal_random_options_t *options) {
  r->options = options;
  r->allocator = options->allocator.alloc ? options->allocator : shoal_allocator_system();
  SHOAL_RETURN_IF_ERROR(shoal_registry_create(r->allocator, &r->registry));
  SHOAL_RETURN_IF_ERROR(shoal_rules_create(r->allocator, &r->rules));
  return shoal_coverage_create(r->allocator, r->registry, &r->coverage);
}

static void end(random_run_t *r) {
  shoal_coverage_free(r->coverage);
  shoal_rules_free(r->rules);
  if (r->registry) shoal_registry_release(r->registry);
}

shoal_status_t shoal_check_random(const shoal_random_options_t *options,
                                  shoal_random_report_t *out_report) {
  *out_report = (shoal_random_report_t){0};
  random_run_t r = {.report = out_report};
  shoal_status_t status = begin(&r, options);
  if (!status) status = run_all(&r);
  end(&r);
  return status;
}

shoal_status_t shoal_check_case(const char *text, const shoal_random_options_t *options,
                                shoal_check_report_t *out_report) {
  *out_report = (shoal_check_report_t){0};
  random_run_t r = {0};
  shoal_status_t status = begin(&r, options);
  shoal_arena_t arena;
  shoal_arena_init(r.allocator, &arena);
  shoal_random_case_t c;
  if (!status) status = shoal_random_case_parse(text, r.registry, &arena, &c);
  if (!status && options->processes) c.processes = true;
  shoal_check_options_t with = {
      .allocator = r.allocator, .rules = r.rules, .planned = see_plan, .planned_self = r.coverage};
  if (options->verbose) with.line = options->line, with.line_self = options->line_self;
  if (!status) status = shoal_random_case_check(&c, r.registry, &with, out_report);
  shoal_arena_deinit(&arena);
  end(&r);
  return status;
}
