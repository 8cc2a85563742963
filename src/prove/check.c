// A check from end to end: plan, lower, print and parse back, run on N ranks, compare run by run.
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "plan/plan.h"
#include "prove/ranks.h"
#include "rules/rules.h"
#include "shoal/lower.h"
#include "shoal/planners.h"

// What a check owns.
typedef struct check {
  const shoal_model_t *model;
  shoal_check_options_t options;
  shoal_arena_t arena;
  shoal_rules_t *rules;  // NULL when they are the caller's
  shoal_plan_t *plan, *parsed_plan;
  shoal_program_t *program, *parsed_program;
  shoal_reference_t *reference, *expanded;
  shoal_check_report_t *report;
} check_t;

static bool is_refusal(shoal_status_t status) {
  shoal_code_t code = shoal_status_code(status);
  return code == SHOAL_UNSUPPORTED || code == SHOAL_INVALID_ARGUMENT || code == SHOAL_NOT_FOUND;
}

static shoal_status_t make_plan(check_t *c) {
  const shoal_check_options_t *o = &c->options;
  shoal_rules_t *rules = o->rules;
  if (!rules) {
    SHOAL_RETURN_IF_ERROR(shoal_rules_create(o->allocator, &c->rules));
    rules = c->rules;
    if (o->provider) shoal_rules_set_executor(rules, shoal_check_executor(o));
  }
  if (o->plan)
    return shoal_plan_parse_decided("plan", o->plan, c->model, rules, o->ranks, o->decision_count,
                                    o->decisions, o->allocator, &c->report->rebuilt_plan, &c->plan);
  if (o->intent)
    return shoal_plan_create(c->model, rules, o->intent, o->ranks, o->allocator, &c->plan);
  const shoal_plan_options_t make = {.allocator = o->allocator,
                                     .strategy = o->strategy,
                                     .mesh = o->mesh,
                                     .world = o->ranks,
                                     .layout_count = o->layout_count,
                                     .layouts = o->layouts,
                                     .decision_count = o->decision_count,
                                     .decisions = o->decisions,
                                     .cluster = o->cluster,
                                     .strategies = o->strategies};
  return shoal_plan_make(c->model, rules, &make, &c->plan);
}

static shoal_status_t same_text(const char *what, const char *text, const char *again) {
  if (strcmp(text, again) == 0) return NULL;
  int line = 1;
  size_t i = 0;
  for (; text[i] && text[i] == again[i]; ++i) line += text[i] == '\n';
  return SHOAL_ERROR(MISMATCH,
                     "the %s's text does not parse back to itself: line %d, '%.40s' became '%.40s'",
                     what, line, text + i, again + i);
}

static shoal_status_t plan_round_trip(check_t *c, const char **out_text) {
  const shoal_check_options_t *o = &c->options;
  const char *again = NULL;
  bool rebuilt = false;
  SHOAL_RETURN_IF_ERROR(shoal_plan_print(c->plan, &c->arena, out_text));
  shoal_status_t status =
      shoal_plan_parse("printed plan", *out_text, c->model, o->rules ? o->rules : c->rules,
                       o->ranks, o->allocator, &rebuilt, &c->parsed_plan);
  if (status) return shoal_status_annotatef(status, "parsing the printed plan back");
  if (rebuilt)
    return SHOAL_ERROR(MISMATCH, "the printed plan was rebuilt although nothing changed");
  SHOAL_RETURN_IF_ERROR(shoal_plan_print(c->parsed_plan, &c->arena, &again));
  return same_text("plan", *out_text, again);
}

// Hands a text out line by line.
static void show(const check_t *c, const char *text) {
  char line[1024];
  while (c->options.line && *text) {
    size_t length = strcspn(text, "\n");
    snprintf(line, sizeof line, "%.*s", (int)length, text);
    c->options.line(c->options.line_self, line);
    text += length + (text[length] == '\n');
  }
}

static shoal_status_t program_round_trip(check_t *c) {
  const char *text = NULL, *again = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_program_print(c->program, &c->arena, &text));
  show(c, text);
  shoal_status_t status = shoal_program_parse("printed program", text, c->model->registry,
                                              c->options.allocator, &c->parsed_program);
  if (status) return shoal_status_annotatef(status, "parsing the printed program back");
  SHOAL_RETURN_IF_ERROR(shoal_program_print(c->parsed_program, &c->arena, &again));
  return same_text("program", text, again);
}

// Plans and lowers; a plan that is refused is the caller's, not ours.
static shoal_status_t compile(check_t *c, const char **out_plan_text) {
  shoal_status_t status = make_plan(c);
  if (!status) {
    c->report->step = SHOAL_CHECK_TEXTS;
    SHOAL_RETURN_IF_ERROR(plan_round_trip(c, out_plan_text));
    c->report->step = SHOAL_CHECK_PLANNING;
    const shoal_lower_options_t lower = {.allocator = c->options.allocator,
                                         .memory = c->options.memory};
    status = shoal_lower(c->parsed_plan, &lower, &c->program);
    if (status) status = shoal_status_annotatef(status, "while lowering");
  }
  if (status) {
    c->report->refused = is_refusal(status);
    return status;
  }
  c->report->step = SHOAL_CHECK_TEXTS;
  SHOAL_RETURN_IF_ERROR(program_round_trip(c));
  if (!c->options.planned) return NULL;
  return c->options.planned(c->options.planned_self, c->parsed_plan, c->parsed_program,
                            &c->options);
}

static shoal_status_t static_check(check_t *c, const shoal_program_t *program) {
  c->report->step = SHOAL_CHECK_STATIC;
  shoal_status_t status = shoal_program_check(program, c->options.allocator);
  if (!status) return NULL;
  if (shoal_status_code(status) == SHOAL_OUT_OF_MEMORY) return status;
  // Ours: lowering made it. The code says so, whatever the check calls it.
  shoal_status_t out = SHOAL_ERROR(MISMATCH, "the static check refuses the program: %s",
                                   shoal_status_message(status));
  shoal_status_free(status);
  return out;
}

static shoal_status_t rank_memory(check_t *c, int32_t rank, const shoal_rank_log_t *log,
                                  shoal_check_memory_t *out_memory) {
  const shoal_record_t *records = NULL;
  int64_t count = 0;
  SHOAL_RETURN_IF_ERROR(
      shoal_records_read(log->data, log->size, rank, &c->arena, &records, &count));
  for (int64_t i = 0; i < count; ++i) {
    if (records[i].kind != SHOAL_RECORD_MEMORY) continue;
    memcpy(out_memory, records[i].data, sizeof *out_memory);
    return NULL;
  }
  return SHOAL_ERROR(INTERNAL, "rank %d did not report its memory", rank);
}

// Buffers are planned at the largest part a rank of the class has: no rank touches more than the
// plan, and where nothing can be touched unseen - in opaque mode, and in memory that only copies
// reach - one of them touches all of it (but for the end of the last block).
static shoal_status_t check_arena(const check_t *c, const shoal_class_t *class,
                                  shoal_memory_kind_t kind, int64_t highest) {
  const bool seen = c->options.opaque || kind != SHOAL_MEMORY_DEVICE;
  if (!seen || (highest + 63) / 64 * 64 == class->arena_bytes[kind]) return NULL;
  return SHOAL_ERROR(
      MISMATCH, "ranks like %d touched %lld bytes of their arenas of %s memory; the plan says %lld",
      class->ranks[0], (long long)highest, shoal_memory_kind_name(kind),
      (long long)class->arena_bytes[kind]);
}

static shoal_status_t check_rank(check_t *c, const shoal_class_t *class, int32_t rank,
                                 const shoal_check_memory_t *memory) {
  for (int kind = 0; kind < SHOAL_MEMORY_COUNT; ++kind) {
    if (memory->planned[kind] == class->arena_bytes[kind] &&
        memory->touched[kind] <= memory->planned[kind])
      continue;
    return SHOAL_ERROR(
        MISMATCH,
        "rank %d has %lld bytes of arena in %s memory and touched %lld; the plan says "
        "%lld",
        rank, (long long)memory->planned[kind], shoal_memory_kind_name((shoal_memory_kind_t)kind),
        (long long)memory->touched[kind], (long long)class->arena_bytes[kind]);
  }
  if (memory->planned[SHOAL_MEMORY_DEVICE] > c->report->arena_bytes)
    c->report->arena_bytes = memory->planned[SHOAL_MEMORY_DEVICE];
  if (memory->steady_run < 0) return NULL;
  return SHOAL_ERROR(MISMATCH,
                     "rank %d allocated %lld times in run %lld: steady state allocates nothing",
                     rank, (long long)memory->steady_allocations, (long long)memory->steady_run);
}

static shoal_status_t check_memory(check_t *c, const shoal_program_t *program,
                                   const shoal_rank_log_t *logs) {
  for (int64_t k = 0; k < program->class_count; ++k) {
    const shoal_class_t *class = &program->classes[k];
    int64_t highest[SHOAL_MEMORY_COUNT] = {0};
    for (int64_t i = 0; i < class->rank_count; ++i) {
      const int32_t rank = class->ranks[i];
      shoal_check_memory_t memory = {0};
      SHOAL_RETURN_IF_ERROR(rank_memory(c, rank, &logs[rank], &memory));
      SHOAL_RETURN_IF_ERROR(check_rank(c, class, rank, &memory));
      for (int kind = 0; kind < SHOAL_MEMORY_COUNT; ++kind)
        if (memory.touched[kind] > highest[kind]) highest[kind] = memory.touched[kind];
    }
    for (int kind = 0; kind < SHOAL_MEMORY_COUNT; ++kind)
      SHOAL_RETURN_IF_ERROR(check_arena(c, class, (shoal_memory_kind_t)kind, highest[kind]));
  }
  return NULL;
}

static shoal_status_t compare(check_t *c, const shoal_program_t *program,
                              const shoal_check_job_t *job, const shoal_rank_log_t *logs) {
  shoal_allocator_t allocator = c->options.allocator;
  shoal_comparison_t *comparison = NULL;
  SHOAL_RETURN_IF_ERROR(
      shoal_comparison_create(c->model, program, c->options.ranks, logs, &c->arena, &comparison));
  const shoal_plan_t *plan = c->parsed_plan ? c->parsed_plan : c->options.from;
  const shoal_model_t *model = plan && plan->owned_original ? plan->owned_original : c->model;
  SHOAL_RETURN_IF_ERROR(
      shoal_reference_create(model, &c->options, plan, program, allocator, &c->reference));
  shoal_reference_feed_as(c->reference, c->model);
  shoal_reference_take(c->reference, shoal_comparison_take, comparison);
  if (plan && plan->owned_model)
    SHOAL_RETURN_IF_ERROR(shoal_reference_create(plan->owned_model, &c->options, plan, program,
                                                 allocator, &c->expanded));
  if (c->expanded) shoal_reference_feed_as(c->expanded, c->model);
  if (c->expanded) shoal_reference_take(c->expanded, shoal_comparison_take, comparison);
  for (int32_t run = 0; run < job->run_count; ++run) {
    SHOAL_RETURN_IF_ERROR(shoal_reference_run(c->reference, job->graphs[run], run));
    if (c->expanded) SHOAL_RETURN_IF_ERROR(shoal_reference_run(c->expanded, job->graphs[run], run));
    SHOAL_RETURN_IF_ERROR(
        shoal_comparison_run(comparison, run, c->reference, c->expanded, c->report));
    if (c->options.restart && run > 0) SHOAL_RETURN_IF_ERROR(shoal_comparison_restart(comparison));
  }
  c->report->step = SHOAL_CHECK_MEMORY;
  return check_memory(c, program, logs);
}

static shoal_status_t run_check(check_t *c) {
  SHOAL_RETURN_IF_ERROR(shoal_model_status(c->model));
  const char *plan_text = NULL;
  const shoal_program_t *program = c->options.program;
  if (!program) {
    SHOAL_RETURN_IF_ERROR(compile(c, &plan_text));
    program = c->parsed_program;
  }
  SHOAL_RETURN_IF_ERROR(static_check(c, program));
  if (c->options.static_only) return NULL;
  shoal_check_job_t job = {.model = c->model,
                           .options = &c->options,
                           .allocator = c->options.allocator,
                           .plan = plan_text,
                           .program = c->options.program || c->options.direct ? program : NULL};
  SHOAL_RETURN_IF_ERROR(shoal_check_schedule(c->model, c->options.steps ? c->options.steps : 2,
                                             &c->arena, &job.graphs, &job.run_count));
  shoal_rank_log_t *logs = SHOAL_NEW(&c->arena, shoal_rank_log_t, c->options.ranks);
  if (!logs) return SHOAL_OOM();
  c->report->step = SHOAL_CHECK_RUNNING;
  SHOAL_RETURN_IF_ERROR(shoal_check_ranks(&job, &c->arena, logs));
  if (c->options.world && shoal_world_rank(c->options.world) != 0) return NULL;  // rank 0 has them
  c->report->step = SHOAL_CHECK_VALUES;
  return compare(c, program, &job, logs);
}

shoal_status_t shoal_check_model(const shoal_model_t *model, const shoal_check_options_t *options,
                                 shoal_check_report_t *out_report) {
  shoal_check_report_t unused;
  if (!out_report) out_report = &unused;
  *out_report = (shoal_check_report_t){0};
  check_t c = {.model = model, .report = out_report};
  if (options) c.options = *options;
  if (!c.options.allocator.alloc) c.options.allocator = shoal_allocator_system();
  if (c.options.ranks == 0) c.options.ranks = 1;
  if (c.options.timeout_ms == 0) c.options.timeout_ms = 60000;
  if (c.options.ranks < 0) return SHOAL_ERROR(INVALID_ARGUMENT, "at least one rank is needed");
  shoal_arena_init(c.options.allocator, &c.arena);
  shoal_status_t status = run_check(&c);
  shoal_reference_free(c.reference);
  shoal_reference_free(c.expanded);
  shoal_program_free(c.parsed_program);
  shoal_program_free(c.program);
  shoal_plan_free(c.parsed_plan);
  shoal_plan_free(c.plan);
  shoal_rules_free(c.rules);
  shoal_arena_deinit(&c.arena);
  return status;
}
