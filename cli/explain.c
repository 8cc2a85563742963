// `shoal explain MODEL`: a plan read aloud - resting layouts, ways of nodes, reshards with their
// kind, memory of each rank - or, with --program, the program itself, or, with --pass, what is
// there after a pass of lowering.
#include <string.h>

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
} explain_command_t;

static const shoal_option_t table[] = {
    CLI_PLAN_OPTIONS(explain_command_t),
    SHOAL_OPTION(explain_command_t, BOOL, program, NULL, "print the program instead"),
    SHOAL_OPTION(explain_command_t, BOOL, graph, NULL, "print the model's graphs instead"),
    SHOAL_OPTION(explain_command_t, STRING, pass, NULL,
                 "print what is there after a pass of lowering instead; `list` lists them"),
    SHOAL_OPTION(explain_command_t, STRING, why, NULL,
                 "print what was decided about a state, node or output (a name, or a pattern), and "
                 "why, instead"),
    CLI_MODEL_OPTIONS(explain_command_t),
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

static shoal_status_t explain(const explain_command_t *command, const shoal_plan_t *plan,
                              const shoal_program_t *program, shoal_arena_t *arena, FILE *out) {
  const char *text = NULL;
  if (command->pass) {
    SHOAL_RETURN_IF_ERROR(shoal_lower_explain(plan, NULL, command->pass, arena, &text));
    fputs(text, out);
    return NULL;
  }
  if (command->program || command->graph) {
    SHOAL_RETURN_IF_ERROR(command->program
                              ? shoal_program_print(program, arena, &text)
                              : shoal_model_print(shoal_plan_model(plan), arena, &text));
    fputs(text, out);
    return NULL;
  }
  if (command->why) {
    SHOAL_RETURN_IF_ERROR(shoal_plan_why(plan, command->why, arena, &text));
    fputs(text, out);
    return NULL;
  }
  SHOAL_RETURN_IF_ERROR(shoal_plan_explain(plan, arena, &text));
  fputs(text, out);
  SHOAL_RETURN_IF_ERROR(explain_reshards(program, arena, out));
  fprintf(out, "memory\n");
  for (int64_t c = 0; c < program->class_count; ++c) {
    fputs("  ", out);
    cli_print_class(program, c, out);
    fputs("; of that, ", out);
    SHOAL_RETURN_IF_ERROR(cli_print_memory(program, c, out));
    fputc('\n', out);
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
