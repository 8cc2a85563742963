// `shoal plan MODEL`: makes a plan and prints it, or says in a few lines what it decided.
#include <string.h>

#include "cli.h"
#include "models.h"
#include "planning.h"
#include "print.h"

typedef struct plan_command {
  cli_model_options_t model;
  cli_plan_options_t planning;
  const char *output;
  int format;
  bool help;
} plan_command_t;

enum { FORMAT_TEXT, FORMAT_JSON };
static const char *const formats[] = {"text", "json", NULL};
static const shoal_option_t table[] = {
    SHOAL_OPTION(plan_command_t, STRING, output, NULL, "file to write the plan to",
                 .argument = "FILE", .letter = 'o'),
    SHOAL_OPTION(plan_command_t, ENUM, format, "text", "text, or json: the plan file itself",
                 .choices = formats),
    CLI_PLAN_OPTIONS(plan_command_t),
    CLI_MODEL_OPTIONS(plan_command_t),
    CLI_SEED_OPTION(plan_command_t),
    CLI_TRAINING_OPTIONS(plan_command_t),
    SHOAL_OPTION(plan_command_t, BOOL, help, NULL, "this list")};
#define TABLE_COUNT ((int64_t)(sizeof table / sizeof table[0]))

static shoal_status_t summarize(const shoal_plan_t *plan, const shoal_program_t *program,
                                const shoal_cluster_t *cluster, shoal_arena_t *arena, FILE *out) {
  const shoal_intent_t *intent = shoal_plan_intent(plan);
  fprintf(out, "strategy %s\n", intent->strategy);
  for (int64_t i = 0; i < intent->mesh_count; ++i) fprintf(out, "mesh %s\n", intent->meshes[i]);
  for (int64_t i = 0; i < intent->layout_count; ++i)
    fprintf(out, "layout %s: %s\n", intent->layouts[i].pattern, intent->layouts[i].value);
  for (int64_t i = 0; i < intent->stage_count; ++i)
    fprintf(out, "stage %s: mesh %s\n", intent->stages[i].pattern, intent->stages[i].value);
  const char *schedules;
  SHOAL_RETURN_IF_ERROR(shoal_plan_explain_schedules(plan, arena, &schedules));
  fputs(schedules, out);
  SHOAL_RETURN_IF_ERROR(cli_print_approximate(plan, arena, out));
  for (int64_t c = 0; c < program->class_count; ++c) {
    const shoal_class_t *rank_class = &program->classes[c];
    int64_t instructions = 0;
    for (int64_t s = 0; s < rank_class->segment_count; ++s)
      instructions += rank_class->segments[s].instruction_count;
    fputs("memory: ", out);
    cli_print_class(program, c, out);
    fprintf(out, "; %lld instructions\n  ", (long long)instructions);
    SHOAL_RETURN_IF_ERROR(cli_print_memory(program, c, out));
    fputc('\n', out);
  }
  for (int64_t o = 0; o < program->classes[0].order_count; ++o) {
    const char *graph = program->classes[0].orders[o].graph;
    shoal_simulation_t *sim;
    SHOAL_RETURN_IF_ERROR(shoal_simulate(
        program, &(shoal_simulate_options_t){.graph = graph, .cluster = cluster}, &sim));
    const shoal_simulated_t *slowest = &sim->groups[sim->slowest];
    double sent = 0;
    for (int i = 0; i < SHOAL_CLUSTER_LEVEL_COUNT; ++i) sent += slowest->sent[i];
    fprintf(out,
            "predicted %s: %.3g s alone, %.3g s in a row (compute %.3g s, communication %.3g s",
            graph, sim->seconds, sim->step_seconds, slowest->busy[SHOAL_QUEUE_COMPUTE],
            slowest->busy[SHOAL_QUEUE_COMM]);
    if (slowest->communication > 0) fprintf(out, ", %.0f%% of it hidden", 100 * slowest->hidden);
    fputs(", each rank sends ", out);
    cli_print_bytes((int64_t)sent, out);
    fputs(")\n", out);
    shoal_simulation_free(sim);
  }
  return NULL;
}

static shoal_status_t show(const plan_command_t *command, const cli_planned_t *planned,
                           shoal_arena_t *arena, FILE *out) {
  const char *text = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_plan_print(planned->plan, arena, &text));
  if (command->output)
    SHOAL_RETURN_IF_ERROR(shoal_file_write(command->output, text, (int64_t)strlen(text)));
  if (command->format == FORMAT_TEXT) {
    shoal_cluster_t *cluster;
    SHOAL_RETURN_IF_ERROR(cli_cluster(&command->planning, &cluster));
    shoal_status_t status = summarize(planned->plan, planned->program, cluster, arena, out);
    shoal_cluster_free(cluster);
    return status;
  }
  fputs(text, out);
  return NULL;
}

shoal_status_t cli_plan(int argc, char **argv, shoal_arena_t *arena, FILE *out) {
  plan_command_t command = {0};
  shoal_words_t words = {0};
  shoal_status_t status =
      cli_options("plan", "MODEL", table, TABLE_COUNT, argc, argv, arena, &command, &words, out);
  if (!status && !command.help) status = cli_one_model(&words);
  if (!status && !command.help) status = cli_use_cluster(argc, argv, &command.planning);
  cli_planned_t planned = {0};
  if (!status && !command.help)
    status = cli_planned_create(words.items[0], &command.model, &command.planning, arena, &planned);
  if (!status && !command.help) status = show(&command, &planned, arena, out);
  cli_planned_free(&planned);
  return status;
}
