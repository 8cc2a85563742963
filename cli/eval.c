// `shoal eval MODEL`: measures the weights of a checkpoint on data that they were not trained on.
#include <math.h>
#include <string.h>

#include "cli.h"
#include "data.h"
#include "interrupt.h"
#include "models.h"
#include "past.h"
#include "planning.h"
#include "print.h"
#include "ranks.h"

typedef struct eval_command {
  cli_model_options_t model;
  cli_plan_options_t planning;
  cli_data_options_t input;
  const char *load;
  int64_t eval_samples;
  int format;
  bool raw, threads, help;
} eval_command_t;

static const char *const formats[] = {"text", "json", NULL};

static const shoal_option_t table[] = {
    SHOAL_OPTION(eval_command_t, STRING, load, NULL,
                 "checkpoint with the weights: a folder, a file, or a folder of step-N",
                 .argument = "DIR"),
    SHOAL_OPTION(eval_command_t, BOOL, raw, NULL, CLI_RAW_HELP),
    SHOAL_OPTION(eval_command_t, INT, eval_samples, NULL, "samples to take (0: all)"),
    SHOAL_OPTION(eval_command_t, ENUM, format, "text", "how to print", .choices = formats),
    CLI_DATA_OPTIONS(eval_command_t),
    CLI_DATA_OPTION(eval_command_t, REAL, held_out, NULL,
                    "only what `train --held-out` with the same number holds out"),
    CLI_MODEL_OPTION(eval_command_t, INT, seed, "1", "of made-up data, as `train` had it"),
    CLI_MODEL_OPTIONS(eval_command_t),
    CLI_PLAN_OPTIONS(eval_command_t),
    SHOAL_OPTION(eval_command_t, BOOL, threads, NULL, "ranks are threads, not processes",
                 .no_environment = true),
    SHOAL_OPTION(eval_command_t, BOOL, help, NULL, "this list")};
#define TABLE_COUNT ((int64_t)(sizeof table / sizeof table[0]))

typedef struct eval_job {
  const eval_command_t *command;
  const char *name;
  FILE *out;
} eval_job_t;

static void build(void *self, shoal_graph_t *graph, const char *phase, int64_t rows) {
  shoal_zoo_build(self, graph, phase, rows);
}

static void print_text(const shoal_train_report_t *report, const char *path, int64_t samples,
                       FILE *out) {
  fprintf(out, "%s on %lld samples\n", path, (long long)samples);
  for (int64_t i = 0; i < report->metric_count; ++i)
    fprintf(out, "  %-20s %.6g\n", report->metrics[i].name, report->metrics[i].value);
}

static void print_json(const shoal_train_report_t *report, const char *path, int64_t samples,
                       FILE *out) {
  fputs("{\"checkpoint\": ", out);
  cli_print_json(path, out);
  fprintf(out, ", \"samples\": %lld", (long long)samples);
  for (int64_t i = 0; i < report->metric_count; ++i) {
    fputs(", ", out);
    cli_print_json(report->metrics[i].name, out);
    if (isfinite(report->metrics[i].value))
      fprintf(out, ": %.9g", report->metrics[i].value);
    else
      fprintf(out, ": \"%g\"", report->metrics[i].value);
  }
  fputs("}\n", out);
}

// The data as the run had it, as far as the command does not say: its tokenizer, and what was done
// to images. Data that is no images is taken as it is stored.
static shoal_status_t open_data(const eval_command_t *command, const shoal_zoo_t *zoo,
                                const cli_past_t *past, uint64_t seed, shoal_arena_t *arena,
                                shoal_dataset_t **out_rest, shoal_dataset_t **out_held_out) {
  cli_data_options_t input = command->input;
  if (!input.tokenizer) input.tokenizer = past->tokenizer;
  cli_data_options_t images = input;
  cli_past_images(past, &images);
  shoal_status_t status = cli_data_open(zoo, &images, seed, arena, out_rest, out_held_out);
  if (!status || !strstr(shoal_status_message(status), "which is no images")) return status;
  shoal_status_free(status);
  return cli_data_open(zoo, &input, seed, arena, out_rest, out_held_out);
}

static shoal_status_t evaluate(const eval_job_t *job, shoal_world_t *world, const shoal_zoo_t *zoo,
                               const cli_past_t *past, shoal_arena_t *arena,
                               shoal_train_options_t *o) {
  const eval_command_t *command = job->command;
  shoal_dataset_t *rest = NULL, *held_out = NULL;
  shoal_train_report_t report = {0};
  shoal_load_report_t loaded = {0};
  o->load_options = (shoal_load_options_t){.averages = !command->raw, .report = &loaded};
  o->seed = (uint64_t)command->model.seed;
  o->mixed = command->model.mixed;
  SHOAL_RETURN_IF_ERROR(cli_session_options(&command->planning, world, arena, &o->parallelize));
  SHOAL_RETURN_IF_ERROR(cli_past_check(past, job->name, zoo, false, arena));
  SHOAL_RETURN_IF_ERROR(open_data(command, zoo, past, o->seed, arena, &rest, &held_out));
  o->eval_data = held_out ? held_out : rest;
  const int64_t there = shoal_dataset_count(o->eval_data);
  shoal_status_t status = shoal_evaluate(o, past->path, &report);
  if (shoal_world_rank(world) == 0) cli_past_say_averages(loaded.averages, command->raw);
  const bool measured = !status || shoal_status_code(status) == SHOAL_MISMATCH;  // also what is NaN
  if (measured && report.metric_count > 0 && shoal_world_rank(world) == 0) {
    const int64_t wanted = command->eval_samples;
    const int64_t taken = wanted > 0 && wanted < there ? wanted : there;
    (command->format ? print_json : print_text)(&report, past->path, taken, job->out);
  }
  shoal_dataset_free(rest);
  shoal_dataset_free(held_out);
  return status;
}

static shoal_status_t eval_rank(void *self, shoal_world_t *world, int32_t rank) {
  (void)rank;
  const eval_job_t *job = self;
  shoal_arena_t *arena;
  shoal_zoo_t *zoo = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_arena_create(shoal_allocator_system(), &arena));
  cli_model_options_t model = job->command->model;
  cli_past_t past;
  shoal_status_t status = cli_past_open(job->command->load, arena, &past);
  if (!status) status = cli_past_know(&past, job->name, &model);
  if (!status) status = cli_zoo_create(job->name, &model, NULL, &zoo);
  if (!status) {
    shoal_train_options_t options = {.build = build,
                                     .build_self = zoo,
                                     .batch = shoal_zoo_rows(zoo),
                                     .eval_samples = job->command->eval_samples};
    status = evaluate(job, world, zoo, &past, arena, &options);
  }
  shoal_zoo_free(zoo);
  shoal_arena_free(arena);
  return status;
}

static shoal_status_t check_command(const eval_command_t *command) {
  if (!command->load)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "--load DIR, as `shoal train --save DIR` made it",
                            "there are no weights to measure");
  if (command->eval_samples < 0)
    return SHOAL_ERROR(INVALID_ARGUMENT, "--eval-samples %lld: a number of samples is not negative",
                       (long long)command->eval_samples);
  return cli_plan_check(&command->planning);
}

shoal_status_t cli_eval(int argc, char **argv, shoal_arena_t *arena, FILE *out) {
  eval_command_t command = {0};
  shoal_words_t words = {0};
  SHOAL_RETURN_IF_ERROR(
      cli_options("eval", "MODEL", table, TABLE_COUNT, argc, argv, arena, &command, &words, out));
  if (command.help) return NULL;
  SHOAL_RETURN_IF_ERROR(cli_one_model(&words));
  SHOAL_RETURN_IF_ERROR(check_command(&command));
  eval_job_t job = {&command, words.items[0], out};
  const cli_ranks_t ranks = {command.planning.ranks, cli_ranks_given(argc, argv), command.threads};
  cli_interrupt_watch();
  return cli_ranks_run(&ranks, eval_rank, &job);
}
