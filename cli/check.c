// `shoal check`: parallel equals serial, on a model and plan, at random, or for programs broken on
// purpose.
#include <string.h>
#include <time.h>

#include "cli.h"
#include "models.h"
#include "planning.h"
#include "print.h"
#include "ranks.h"
#include "shoal/explore.h"

typedef struct check_options {
  cli_plan_options_t planning;
  cli_model_options_t model;
  int64_t steps, seed, random;
  const char *offload_dir;
  bool threads, processes, opaque, direct;
  const char *kase;
  bool mutate, assert_coverage, no_shrink, verbose;
  double minutes;
  int64_t stride, shapes;
  bool help;
} check_options_t;

#define CHECK_OPTION(kind, field, value, doc) SHOAL_OPTION(check_options_t, kind, field, value, doc)
static const shoal_option_t table[] = {
    CHECK_OPTION(INT, steps, "2", "training steps to compare"),
    SHOAL_OPTION(check_options_t, BOOL, threads, NULL, "ranks are threads (the default)",
                 .no_environment = true),
    CHECK_OPTION(BOOL, processes, NULL, "ranks are processes"),
    SHOAL_OPTION(check_options_t, STRING, offload_dir, NULL,
                 "folder for what the plan keeps in files (TMPDIR, or /tmp)", .argument = "DIR"),
    CHECK_OPTION(BOOL, opaque, NULL, "device memory that the host cannot read, like a GPU's"),
    CHECK_OPTION(BOOL, direct, NULL, "plan once and hand the program to all ranks"),
    CHECK_OPTION(INT, seed, "1", "seed of data and random cases (0: from the clock)"),
    CHECK_OPTION(INT, random, NULL, "check that many random models and plans"),
    {.name = "case",
     .kind = SHOAL_OPTION_STRING,
     .offset = offsetof(check_options_t, kase),
     .argument = "CASE",
     .doc = "rerun one random case from its text"},
    CHECK_OPTION(BOOL, mutate, NULL, "break programs on purpose and count which check notices"),
    CHECK_OPTION(INT, stride, "1", "with --mutate: every n-th mutation"),
    CHECK_OPTION(INT, shapes, "200",
                 "with ops: calls of random sizes of each op, besides its examples"),
    CHECK_OPTION(REAL, minutes, NULL, "stop random cases or mutations after that time"),
    CHECK_OPTION(
        BOOL, assert_coverage, NULL,
        "fail if an op, its gradient or a cut of it, a reshard kind or feature never occurs"),
    CHECK_OPTION(BOOL, no_shrink, NULL, "leave a failing case as it is"),
    CHECK_OPTION(BOOL, verbose, NULL, "a line per case; with one case or model, its program"),
    CLI_PLAN_OPTIONS(check_options_t),
    CLI_MODEL_OPTIONS(check_options_t),
    CLI_TRAINING_OPTIONS(check_options_t),
    SHOAL_OPTION(check_options_t, BOOL, help, NULL, "this text"),
};
#define TABLE_COUNT ((int64_t)(sizeof table / sizeof table[0]))

static void print_line(void *self, const char *line) {
  fprintf(self, "%s\n", line);
  fflush(self);
}

// Does the plan round gradients on their way between ranks? Of a plan file, whose decisions are not
// known yet, the text tells.
static bool rounds_gradients(const shoal_parallelize_options_t *options) {
  static const char *const types[] = {"dtype=bf16", "dtype=f16", "dtype=f32"};
  const char *compress = options->choices.compress;
  bool found = compress && compress[0] && strcmp(compress, "none") != 0;
  for (int i = 0; i < 3; ++i) {
    found |= options->plan && strstr(options->plan, types[i]);
    for (int64_t d = 0; d < options->decision_count; ++d)
      found |= strcmp(options->decisions[d].kind, "sync") == 0 &&
               strstr(options->decisions[d].choice, types[i]);
  }
  return found;
}

// Also where a choice, such as --recompute, is refused before there is a plan.
static bool is_refused(const shoal_check_report_t *report, shoal_status_t status) {
  const shoal_code_t code = shoal_status_code(status);
  return report->refused ||
         (report->step == SHOAL_CHECK_PLANNING &&
          (code == SHOAL_INVALID_ARGUMENT || code == SHOAL_UNSUPPORTED || code == SHOAL_NOT_FOUND));
}

// `world`: a launcher's, or NULL for ranks of its own. Rank 0 talks.
static shoal_status_t check_model(const check_options_t *o, const char *name, shoal_world_t *world,
                                  shoal_arena_t *arena, FILE *out) {
  const bool talks = !world || shoal_world_rank(world) == 0;
  cli_model_options_t model_options = o->model;
  model_options.seed = 1;  // the same weights for all --seed: only data differs between runs
  shoal_parallelize_options_t options = {.world = world,
                                         .strategy = o->planning.strategy,
                                         .mesh = o->planning.mesh,
                                         .cluster = o->planning.cluster,
                                         .memory = o->planning.memory,
                                         .choices = cli_choices(&o->planning),
                                         .offload_dir = o->offload_dir,
                                         .opaque = o->opaque};
  shoal_check_how_t how = {.ranks = (int32_t)o->planning.ranks,
                           .steps = o->steps,
                           .seed = (uint64_t)o->seed,
                           .processes = o->processes,
                           .direct = o->direct};
  if (o->verbose && talks) how.line = print_line, how.line_self = out;
  int64_t size = 0;
  SHOAL_RETURN_IF_ERROR(cli_plan_check(&o->planning));
  if (o->planning.plan)
    SHOAL_RETURN_IF_ERROR(shoal_file_read(o->planning.plan, arena, &options.plan, &size));
  SHOAL_RETURN_IF_ERROR(
      cli_layouts_parse(o->planning.layouts, arena, &options.layout_count, &options.layouts));
  SHOAL_RETURN_IF_ERROR(
      cli_decisions_parse(&o->planning, arena, &options.decision_count, &options.decisions));
  const char *dtype = NULL;
  SHOAL_RETURN_IF_ERROR(cli_model_dtype(name, &model_options, &dtype));
  if (model_options.eps == 0) {
    // An update is lr g / (|g| + eps): where |g| is small, rounding of g comes out 1 / eps larger.
    // In f64 1e-3 keeps that below the tolerance; narrower types need an update that is smooth on
    // their own scale.
    const bool wide = strcmp(dtype, "f64") == 0;
    model_options.eps = wide && !rounds_gradients(&options) ? 1e-3 : 1;
    if (talks)
      fprintf(out,
              "optimizer eps %g (at 1e-8 a gradient that is zero but for rounding becomes noise)\n",
              model_options.eps);
  }
  if (strcmp(dtype, "f16") == 0 && model_options.recipe.loss_scale == 0) {
    // A rank's part of a gradient may be beyond f16 where the sum of all parts is not. At the usual
    // 65536 that happens; one device then goes on where ranks rightly leave out a step.
    model_options.recipe.loss_scale = 1024;
    if (talks)
      fputs("loss scale 1024 (at 65536 a part of a gradient overflows where the whole does not)\n",
            out);
  }
  shoal_model_t *model = NULL;
  SHOAL_RETURN_IF_ERROR(cli_model_create(name, &model_options, shoal_allocator_system(), &model));
  shoal_check_report_t report;
  shoal_status_t status = shoal_check(model, &options, &how, &report);
  shoal_model_free(model);
  if (world) status = shoal_world_agree(world, status);
  if (!talks) return status;
  if (is_refused(&report, status)) report.refused = true;
  cli_say_rebuilt(&o->planning, report.rebuilt_plan);
  fprintf(out, "%s: %s %s %s on %lld %s%s%s, seed %lld: %lld values, %lld parts compared",
          !status          ? "passed"
          : report.refused ? "refused"
                           : "FAILED",
          name, dtype,
          o->planning.plan       ? o->planning.plan
          : o->planning.strategy ? o->planning.strategy
                                 : "auto",
          (long long)o->planning.ranks,
          world          ? "ranks over "
          : o->processes ? "processes"
                         : "threads",
          world ? shoal_world_backend(world) : "", o->opaque ? ", opaque" : "", (long long)o->seed,
          (long long)report.values, (long long)report.parts);
  if (report.worst > 0)
    fprintf(out, ", worst %.2g of what is allowed in '%s'", report.worst, report.worst_value);
  if (report.decisions > 0) fprintf(out, ", %lld decisions imposed", (long long)report.decisions);
  fprintf(out, "\n%d passed, %d failed, %d refused\n", !status, status && !report.refused,
          status && report.refused);
  return status;
}

// Under a launcher: on its ranks, with one seed and over its way of talking.
static shoal_status_t check_joined(check_options_t *o, const char *name, const cli_ranks_t *ranks,
                                   shoal_arena_t *arena, FILE *out) {
  shoal_world_t *world = NULL;
  shoal_group_t *group = NULL;
  SHOAL_RETURN_IF_ERROR(cli_ranks_join(ranks, &world));
  o->planning.ranks = shoal_world_size(world);
  shoal_status_t status = shoal_group_create(world, shoal_world_size(world), NULL, &group);
  if (!status) status = shoal_broadcast(group, &o->seed, sizeof o->seed, 0);
  shoal_group_free(group);
  if (!status) status = check_model(o, name, world, arena, out);
  shoal_world_release(world);
  return status;
}

static shoal_status_t check_random(const check_options_t *o, FILE *out) {
  shoal_random_options_t random = {.count = o->random,
                                   .seed = (uint64_t)o->seed,
                                   .minutes = o->minutes,
                                   .processes = o->processes,
                                   .assert_coverage = o->assert_coverage,
                                   .no_shrink = o->no_shrink,
                                   .verbose = o->verbose,
                                   .line = print_line,
                                   .line_self = out};
  if (o->kase) {
    shoal_check_report_t report;
    shoal_status_t status = shoal_check_case(o->kase, &random, &report);
    fprintf(
        out,
        "%lld values, %lld parts compared, worst %.2g of what is allowed, %lld decisions imposed\n",
        (long long)report.values, (long long)report.parts, report.worst,
        (long long)report.decisions);
    fprintf(out, "%d passed, %d failed, %d refused\n", !status, status && !report.refused,
            status && report.refused);
    return status;
  }
  fprintf(out, "random seed %lld\n", (long long)o->seed);
  shoal_random_report_t report;
  shoal_status_t status = shoal_check_random(&random, &report);
  fprintf(out, "%lld passed, %lld failed, %lld refused\n", (long long)report.passed,
          (long long)report.failed, (long long)report.refused);
  return status;
}

static shoal_status_t check_mutations(const check_options_t *o, FILE *out) {
  shoal_mutate_options_t mutate = {.seed = (uint64_t)o->seed,
                                   .stride = o->stride,
                                   .minutes = o->minutes,
                                   .verbose = o->verbose,
                                   .line = print_line,
                                   .line_self = out};
  shoal_mutate_report_t report;
  shoal_status_t status = shoal_check_mutations(&mutate, &report);
  fprintf(
      out,
      "%lld mutations of %lld plans: %lld do not parse, %lld caught by the static check, %lld by "
      "running, %lld compute the same, %lld survived\n",
      (long long)report.mutations, (long long)report.plans, (long long)report.by_parse,
      (long long)report.by_static_check, (long long)report.by_run, (long long)report.explained,
      (long long)report.survivors);
  return status;
}

// `shoal check ops [NAME]`.
static shoal_status_t check_ops(const check_options_t *o, const char *name, shoal_arena_t *arena,
                                FILE *out) {
  shoal_registry_t *registry = NULL;
  shoal_check_ops_report_t report;
  shoal_check_ops_options_t options = {
      .shapes = o->shapes, .seed = (uint64_t)o->seed, .line = print_line, .line_self = out};
  if (o->shapes < 1) return SHOAL_ERROR(INVALID_ARGUMENT, "--shapes takes 1 or more");
  options.op = !name || strchr(name, '.') ? name : cli_format(arena, "shoal.%s", name);
  if (name && !options.op) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_registry_create(shoal_allocator_system(), &registry));
  shoal_status_t status = shoal_check_ops(registry, &options, &report);
  shoal_registry_release(registry);
  const shoal_check_ops_counts_t *n = &report.counts;
  if (report.ops > 0) {
    fprintf(out,
            "%lld ops, %lld failed: %lld gradients, %lld decompositions, %lld dtypes, %lld shapes "
            "(%lld random, %lld empty, %lld refused), %lld elements NaN and infinite (* %lld ops "
            "say what becomes of them), %lld in place, %lld ways\n",
            (long long)report.ops, (long long)report.failed, (long long)n->gradients,
            (long long)n->decompositions, (long long)n->dtypes, (long long)n->shapes,
            (long long)n->random, (long long)n->empty, (long long)n->refused, (long long)n->nan,
            (long long)report.documented, (long long)n->in_place, (long long)n->ways);
  }
  return status;
}

static shoal_status_t run(check_options_t *o, int argc, char **argv, shoal_arena_t *arena,
                          FILE *out) {
  shoal_words_t words = {0};
  SHOAL_RETURN_IF_ERROR(cli_options("check", "[MODEL] | ops [OP]", table, TABLE_COUNT, argc, argv,
                                    arena, o, &words, out));
  if (o->help) return NULL;
  if (o->seed == 0) o->seed = (int64_t)time(NULL);
  if (o->threads && o->processes)
    return SHOAL_ERROR(INVALID_ARGUMENT, "ranks are threads or processes, not both");
  if (o->planning.ranks < 1 || o->planning.ranks > SHOAL_LAUNCH_MAX_RANKS)
    return SHOAL_ERROR(INVALID_ARGUMENT, "-n %lld: from 1 to %d ranks can be checked",
                       (long long)o->planning.ranks, SHOAL_LAUNCH_MAX_RANKS);
  const bool launched = shoal_launched();
  if (launched && (o->mutate || o->random > 0 || o->kase))
    return SHOAL_ERROR_HINT(
        UNSUPPORTED, "start it without the launcher, or check one MODEL",
        "random cases and mutations run on ranks of their own, not on a launcher's");
  if (words.count && strcmp(words.items[0], "ops") == 0) {
    if (words.count > 2)
      return SHOAL_ERROR(INVALID_ARGUMENT, "check ops takes one op, not %lld",
                         (long long)words.count - 1);
    return check_ops(o, words.count > 1 ? words.items[1] : NULL, arena, out);
  }
  if (o->mutate) return check_mutations(o, out);
  if (o->random > 0 || o->kase) return check_random(o, out);
  SHOAL_RETURN_IF_ERROR(cli_one_model(&words));
  cli_ranks_t ranks = {o->planning.ranks, cli_ranks_given(argc, argv), o->threads};
  bool is_told = false;
  SHOAL_RETURN_IF_ERROR(cli_ranks_threads(&ranks, &is_told));
  o->planning.ranks = ranks.count;
  if (is_told) o->processes = false;
  if (launched && !is_told) return check_joined(o, words.items[0], &ranks, arena, out);
  return check_model(o, words.items[0], NULL, arena, out);
}

shoal_status_t cli_check(int argc, char **argv, shoal_arena_t *arena, FILE *out) {
  check_options_t options = {0};
  return run(&options, argc, argv, arena, out);
}
