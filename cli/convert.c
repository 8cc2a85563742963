// `shoal convert IN OUT`: weights between Hugging Face's names and Shoal's.
#include <string.h>

#include "cli.h"
#include "past.h"
#include "planning.h"
#include "print.h"
#include "shoal/convert.h"
#include "shoal/options.h"

typedef struct convert_command {
  const char *to, *model, *dtype;
  shoal_words_t set;
  int64_t shard_size;
  bool raw, help;
} convert_command_t;

static const shoal_option_t table[] = {
    SHOAL_OPTION(convert_command_t, STRING, to, NULL,
                 "hf or shoal; by default what the input is not", .argument = "NAME"),
    SHOAL_OPTION(convert_command_t, STRING, model, NULL,
                 "model of the zoo; by default as the input says", .argument = "NAME"),
    SHOAL_OPTION(convert_command_t, STRINGS, set, NULL,
                 "a setting of the model, such as width=64; may be repeated",
                 .argument = "NAME=VALUE"),
    SHOAL_OPTION(convert_command_t, STRING, dtype, NULL,
                 "type of the weights; by default their own", .argument = "NAME"),
    SHOAL_OPTION(convert_command_t, BOOL, raw, NULL, CLI_RAW_HELP),
    SHOAL_OPTION(convert_command_t, SIZE, shard_size, NULL,
                 "bytes of a file before the next is begun (0: 5 GB)"),
    SHOAL_OPTION(convert_command_t, BOOL, help, NULL, "this list")};
#define TABLE_COUNT ((int64_t)(sizeof table / sizeof table[0]))

static shoal_status_t join_settings(const shoal_words_t *set, shoal_arena_t *arena,
                                    const char **out_settings) {
  const char *text = "";
  for (int64_t i = 0; i < set->count && text; ++i) {
    text = cli_format(arena, "%s%s%s", text, i ? " " : "", set->items[i]);
  }
  *out_settings = text;
  return text ? NULL : SHOAL_OOM();
}

// Of weights by Shoal's names; what others wrote says no settings that could be compared.
static shoal_status_t check_settings(const char *in, const convert_command_t *command,
                                     const char *settings, shoal_arena_t *arena) {
  cli_past_t past;
  cli_model_options_t model = {0};
  shoal_zoo_t *zoo = NULL;
  SHOAL_RETURN_IF_ERROR(cli_past_open(in, arena, &past));
  if (!past.family || !past.settings) return NULL;
  const char *name = command->model ? command->model : past.family;
  SHOAL_RETURN_IF_ERROR(cli_past_know(&past, name, &model));
  const char *all = cli_format(arena, "%s %s", past.settings, settings);
  if (!all) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_zoo_create(name, &(shoal_zoo_options_t){.settings = all}, &zoo));
  shoal_status_t status = cli_past_check(&past, name, zoo, false, arena);
  shoal_zoo_free(zoo);
  return status;
}

shoal_status_t cli_convert(int argc, char **argv, shoal_arena_t *arena, FILE *out) {
  convert_command_t command = {0};
  shoal_words_t words = {0};
  SHOAL_RETURN_IF_ERROR(cli_options("convert", "IN OUT", table, TABLE_COUNT, argc, argv, arena,
                                    &command, &words, out));
  if (command.help) return NULL;
  if (words.count != 2)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "shoal convert IN OUT [--to hf|shoal]",
                            "convert takes the folder to read and the folder to write");
  shoal_convert_report_t report;
  shoal_convert_options_t options = {.to = command.to,
                                     .model = command.model,
                                     .dtype = command.dtype,
                                     .raw = command.raw,
                                     .shard_bytes = command.shard_size,
                                     .report = &report};
  SHOAL_RETURN_IF_ERROR(join_settings(&command.set, arena, &options.settings));
  SHOAL_RETURN_IF_ERROR(check_settings(words.items[0], &command, options.settings, arena));
  SHOAL_RETURN_IF_ERROR(shoal_convert(words.items[0], words.items[1], &options));
  cli_past_say_averages(report.averages, command.raw);
  fprintf(out, "model %s\nsettings %s\n", report.model, report.settings);
  fprintf(out, "wrote %lld tensors, %.1f MiB, in %s names\n", (long long)report.tensors,
          (double)report.bytes / (1 << 20), report.to_shoal ? "Shoal's" : "Hugging Face's");
  if (report.ignored > 0) {
    fprintf(out, "passed over %lld tensors that are no weights: %s\n", (long long)report.ignored,
            report.ignored_names);
  }
  return NULL;
}
