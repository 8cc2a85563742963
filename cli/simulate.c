// `shoal simulate MODEL` or `shoal simulate FILE`: what a step of a planned model, or of a program
// (as `shoal explain --program` prints it), would take on a described cluster.
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "models.h"
#include "planning.h"
#include "shoal/simulate.h"

typedef struct simulate_command {
  cli_model_options_t model;
  cli_plan_options_t planning;
  const char *graph, *times, *trace;
  int format;
  bool help;
} simulate_command_t;

enum { FORMAT_TEXT, FORMAT_JSON };
static const char *const formats[] = {"text", "json", NULL};
static const shoal_option_t table[] = {
    SHOAL_OPTION(simulate_command_t, STRING, graph, "train", "graph to simulate",
                 .argument = "NAME"),
    SHOAL_OPTION(simulate_command_t, STRING, times, NULL,
                 "file of measured times, to use instead of estimates (train --times-out)",
                 .argument = "FILE"),
    SHOAL_OPTION(simulate_command_t, STRING, trace, NULL,
                 "file to write what runs when to, for ui.perfetto.dev or chrome://tracing",
                 .argument = "FILE"),
    SHOAL_OPTION(simulate_command_t, ENUM, format, "text", "text or json", .choices = formats),
    CLI_PLAN_OPTIONS(simulate_command_t),
    CLI_MODEL_OPTIONS(simulate_command_t),
    CLI_SEED_OPTION(simulate_command_t),
    CLI_TRAINING_OPTIONS(simulate_command_t),
    SHOAL_OPTION(simulate_command_t, BOOL, help, NULL, "this list")};
#define TABLE_COUNT ((int64_t)(sizeof table / sizeof table[0]))

static shoal_status_t show(const simulate_command_t *command, const shoal_simulation_t *simulation,
                           shoal_arena_t *arena, FILE *out) {
  const char *text;
  if (command->trace) {
    SHOAL_RETURN_IF_ERROR(shoal_simulation_trace(simulation, arena, &text));
    SHOAL_RETURN_IF_ERROR(shoal_file_write(command->trace, text, (int64_t)strlen(text)));
  }
  SHOAL_RETURN_IF_ERROR(command->format == FORMAT_JSON
                            ? shoal_simulation_json(simulation, arena, &text)
                            : shoal_simulation_report(simulation, arena, &text));
  fputs(text, out);
  return NULL;
}

static shoal_status_t simulate(const simulate_command_t *command, const shoal_program_t *program,
                               const shoal_cluster_t *cluster, shoal_arena_t *arena, FILE *out) {
  shoal_times_t *times = NULL;
  shoal_simulation_t *simulation = NULL;
  shoal_status_t status = NULL;
  if (command->times) {
    const char *text;
    int64_t size;
    SHOAL_RETURN_IF_ERROR(shoal_file_read(command->times, arena, &text, &size));
    SHOAL_RETURN_IF_ERROR(
        shoal_times_parse(command->times, text, shoal_allocator_system(), &times));
  }
  const shoal_simulate_options_t options = {
      .graph = command->graph, .cluster = cluster, .times = times, .spans = command->trace != NULL};
  status = shoal_simulate(program, &options, &simulation);
  if (!status) status = show(command, simulation, arena, out);
  shoal_simulation_free(simulation);
  shoal_times_free(times);
  return status;
}

// A program's text, on as many ranks as it is for.
static shoal_status_t simulate_file(const simulate_command_t *command, const char *path,
                                    shoal_arena_t *arena, FILE *out) {
  const shoal_allocator_t allocator = shoal_allocator_system();
  shoal_registry_t *registry = NULL;
  shoal_program_t *program = NULL;
  shoal_cluster_t *cluster = NULL;
  shoal_status_t status = NULL;
  const char *text;
  int64_t size;
  SHOAL_RETURN_IF_ERROR(shoal_file_read(path, arena, &text, &size));
  SHOAL_GOTO_IF_ERROR(status, done, shoal_registry_create(allocator, &registry));
  SHOAL_GOTO_IF_ERROR(status, done, shoal_program_parse(path, text, registry, allocator, &program));
  SHOAL_GOTO_IF_ERROR(status, done, shoal_program_check(program, allocator));
  SHOAL_GOTO_IF_ERROR(status, done,
                      shoal_cluster_read(command->planning.cluster, allocator, &cluster));
  SHOAL_GOTO_IF_ERROR(status, done, simulate(command, program, cluster, arena, out));
done:
  shoal_cluster_free(cluster);
  shoal_program_free(program);
  shoal_registry_release(registry);
  return status;
}

static shoal_status_t simulate_model(const simulate_command_t *command, const char *name,
                                     shoal_arena_t *arena, FILE *out) {
  shoal_cluster_t *cluster;
  cli_planned_t planned = {0};
  SHOAL_RETURN_IF_ERROR(cli_cluster(&command->planning, &cluster));
  shoal_status_t status =
      cli_planned_create(name, &command->model, &command->planning, arena, &planned);
  const char *schedules = "";
  if (!status && command->format != FORMAT_JSON)
    status = shoal_plan_explain_schedules(planned.plan, arena, &schedules);
  if (!status) fputs(schedules, out);
  if (!status) status = simulate(command, planned.program, cluster, arena, out);
  cli_planned_free(&planned);
  shoal_cluster_free(cluster);
  return status;
}

shoal_status_t cli_simulate(int argc, char **argv, shoal_arena_t *arena, FILE *out) {
  simulate_command_t command = {0};
  shoal_words_t words = {0};
  shoal_status_t status = cli_options("simulate", "MODEL|PROGRAM", table, TABLE_COUNT, argc, argv,
                                      arena, &command, &words, out);
  if (!status && !command.help) status = cli_one_model(&words);
  if (!status && !command.help) {
    const bool is_file = strpbrk(words.items[0], "./") && access(words.items[0], F_OK) == 0;
    if (!is_file) status = cli_use_cluster(argc, argv, &command.planning);
    if (!status) {
      status = is_file ? simulate_file(&command, words.items[0], arena, out)
                       : simulate_model(&command, words.items[0], arena, out);
    }
  }
  return status;
}
