// `shoal explain MODEL`: a plan read aloud - resting layouts, ways of nodes, reshards with their
// kind, what a rank sends, memory of each rank - or, with --show, tables of what a rank keeps and
// sends, or, with --program, the program itself, or, with --pass, what is
// there after a pass of lowering.
#include <string.h>

#include "accounts.h"
#include "cli.h"
#include "models.h"
#include "planning.h"
#include "print.h"
#include "shoal/lower.h"

typedef struct explain_command {
  cli_model_options_t model;
  cli_plan_options_t planning;
  bool program, graph, help;
  const char *pass, *why;
  int64_t rank;
  int show, format;
} explain_command_t;

enum { FORMAT_TEXT, FORMAT_JSON };
static const char *const formats[] = {"text", "json", NULL};
static const char *const shows[] = {"all", "values", "communication", "memory", NULL};
static const shoal_option_t table[] = {
    SHOAL_OPTION(explain_command_t, ENUM, show, "all",
                 "print one table only: values with layouts and bytes, communication by value and "
                 "axis, or memory by layer and kind",
                 .choices = shows),
    SHOAL_OPTION(explain_command_t, INT, rank, "-1",
                 "the rank whose tables or program are printed; -1: tables of rank 0, the program "
                 "of all ranks"),
    SHOAL_OPTION(explain_command_t, ENUM, format, "text", "tables as text or as json",
                 .choices = formats),
    SHOAL_OPTION(explain_command_t, BOOL, program, NULL, "print the program instead"),
    SHOAL_OPTION(explain_command_t, BOOL, graph, NULL, "print the model's graphs instead"),
    SHOAL_OPTION(explain_command_t, STRING, pass, NULL,
                 "print what is there after a pass of lowering instead; `list` lists them",
                 .argument = "NAME"),
    SHOAL_OPTION(explain_command_t, STRING, why, NULL,
                 "print what was decided about a state, node or output (a name, or a pattern), and "
                 "why, instead",
                 .argument = "PATTERN"),
    CLI_PLAN_OPTIONS(explain_command_t),
    CLI_MODEL_OPTIONS(explain_command_t),
    CLI_SEED_OPTION(explain_command_t),
    CLI_TRAINING_OPTIONS(explain_command_t),
    SHOAL_OPTION(explain_command_t, BOOL, help, NULL, "this list")};
#define TABLE_COUNT ((int64_t)(sizeof table / sizeof table[0]))

static bool carries(const shoal_instruction_t *in, int64_t channel) {
  const int32_t count = in->opcode == SHOAL_OPCODE_EXCHANGE ? 1 : in->input_count;
  for (int32_t i = 0; in->channels && i < count; ++i)
    if (in->channels[i] == channel) return true;
  return false;
}

static shoal_status_t explain_reshards(const shoal_program_t *program, shoal_arena_t *arena,
                                       FILE *out) {
  fprintf(out, "reshards\n");
  for (int64_t c = 0; c < program->channel_count; ++c) {
    const shoal_channel_t *channel = &program->channels[c];
    const char *name = "", *src = NULL, *dst = NULL;
    for (int64_t k = 0; k < program->class_count; ++k)
      for (int64_t s = 0; s < program->classes[k].segment_count; ++s)
        for (int64_t i = 0; i < program->classes[k].segments[s].instruction_count; ++i)
          if (carries(&program->classes[k].segments[s].instructions[i], c))
            name = program->classes[k].segments[s].instructions[i].name;
    const int64_t micro = channel->micro ? 0 : -1;
    shoal_reshard_facts_t reshard;
    SHOAL_RETURN_IF_ERROR(shoal_reshard_describe(channel->src, micro, channel->dst, micro,
                                                 &channel->type.shape, shoal_allocator_system(),
                                                 &reshard));
    SHOAL_RETURN_IF_ERROR(shoal_layout_print(channel->src, arena, &src));
    SHOAL_RETURN_IF_ERROR(shoal_layout_print(channel->dst, arena, &dst));
    fprintf(out, "  %-44s %-14s ", name, shoal_reshard_name(reshard.kind));
    cli_print_type(&channel->type, out);
    fprintf(out, "  %s -> %s\n", src[0] ? src : "replicated", dst[0] ? dst : "replicated");
  }
  return NULL;
}

// The program, or what one rank executes of it.
static shoal_status_t explain_program(const shoal_program_t *program, int64_t rank,
                                      shoal_arena_t *arena, FILE *out) {
  shoal_program_t part = *program;
  const char *text;
  if (rank >= 0) {
    part.class_count = 1;
    part.classes = (shoal_class_t *)shoal_program_class_of(program, (int32_t)rank);
  }
  SHOAL_RETURN_IF_ERROR(shoal_program_print(&part, arena, &text));
  fputs(text, out);
  return NULL;
}

static shoal_status_t explain_tables(const explain_command_t *command,
                                     const cli_accounts_t *accounts) {
  if (command->format == FORMAT_JSON) return cli_account_json(accounts, command->show);
  if (command->show == CLI_SHOW_VALUES) return cli_account_values(accounts);
  if (command->show == CLI_SHOW_MEMORY) return cli_account_memory(accounts);
  return cli_account_traffic(accounts, true);
}

// One thing is printed, and options that say nothing about it would be thought to work.
static shoal_status_t check_used(const explain_command_t *command) {
  const struct {
    bool given;
    const char *name;
  } instead[] = {{command->pass != NULL, "--pass"},
                 {command->program, "--program"},
                 {command->graph, "--graph"},
                 {command->why != NULL, "--why"}};
  const char *first = NULL;
  for (size_t i = 0; i < sizeof instead / sizeof *instead; ++i) {
    if (!instead[i].given) continue;
    if (first)
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give one", "%s and %s do not go together", first,
                              instead[i].name);
    first = instead[i].name;
  }
  const char *other = command->show != CLI_SHOW_ALL    ? "--show"
                      : command->format == FORMAT_JSON ? "--format"
                                                       : NULL;
  if (first && other)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "leave one of them out",
                            "%s has no effect beside %s, which prints no tables", other, first);
  if (command->rank < -1)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "ranks count from 0", "there is no rank %lld",
                            (long long)command->rank);
  return NULL;
}

static shoal_status_t explain(const explain_command_t *command, const shoal_plan_t *plan,
                              const shoal_program_t *program, shoal_arena_t *arena, FILE *out) {
  const char *text = NULL;
  const cli_accounts_t accounts = {plan, program, command->rank < 0 ? 0 : (int32_t)command->rank,
                                   arena, out};
  if (command->rank >= program->world)
    return SHOAL_ERROR(INVALID_ARGUMENT, "there is no rank %lld: the plan has %d",
                       (long long)command->rank, program->world);
  if (command->pass) {
    SHOAL_RETURN_IF_ERROR(shoal_lower_explain(plan, NULL, command->pass, arena, &text));
    fputs(text, out);
    return NULL;
  }
  if (command->program) return explain_program(program, command->rank, arena, out);
  if (command->graph) {
    SHOAL_RETURN_IF_ERROR(shoal_model_print(shoal_plan_model(plan), arena, &text));
    fputs(text, out);
    return NULL;
  }
  if (command->why) {
    SHOAL_RETURN_IF_ERROR(shoal_plan_why(plan, command->why, arena, &text));
    fputs(text, out);
    return NULL;
  }
  if (command->show != CLI_SHOW_ALL || command->format == FORMAT_JSON)
    return explain_tables(command, &accounts);
  SHOAL_RETURN_IF_ERROR(shoal_plan_explain(plan, arena, &text));
  fputs(text, out);
  SHOAL_RETURN_IF_ERROR(cli_print_approximate(plan, arena, out));
  SHOAL_RETURN_IF_ERROR(explain_reshards(program, arena, out));
  const bool trains = shoal_model_find_graph(shoal_plan_model(plan), "train") != NULL;
  if (trains) SHOAL_RETURN_IF_ERROR(cli_account_traffic(&accounts, false));
  fprintf(out, "memory\n");
  for (int64_t c = 0; c < program->class_count; ++c) {
    fputs("  ", out);
    cli_print_class(program, c, out);
    fputs("; of that, ", out);
    SHOAL_RETURN_IF_ERROR(cli_print_memory(program, c, out));
    fputc('\n', out);
    if (trains) SHOAL_RETURN_IF_ERROR(cli_account_layers(&accounts, c));
  }
  return NULL;
}

static void list_passes(FILE *out) {
  for (int64_t p = 0; p < shoal_lower_pass_count(); ++p)
    fprintf(out, "%-10s %s\n", shoal_lower_pass_name(p), shoal_lower_pass_doc(p));
}

shoal_status_t cli_explain(int argc, char **argv, shoal_arena_t *arena, FILE *out) {
  explain_command_t command = {0};
  shoal_words_t words = {0};
  shoal_status_t status =
      cli_options("explain", "MODEL", table, TABLE_COUNT, argc, argv, arena, &command, &words, out);
  if (!status && command.pass && strcmp(command.pass, "list") == 0) {
    list_passes(out);
    return NULL;
  }
  if (!status && !command.help) status = check_used(&command);
  if (!status && !command.help) status = cli_one_model(&words);
  if (!status && !command.help) status = cli_use_cluster(argc, argv, &command.planning);
  cli_planned_t planned = {0};
  if (!status && !command.help)
    status = cli_planned_create(words.items[0], &command.model, &command.planning, arena, &planned);
  if (!status && !command.help)
    status = explain(&command, planned.plan, planned.program, arena, out);
  cli_planned_free(&planned);
  return status;
}
