// `shoal models [NAME]`: what the zoo has. Sizes are counted in the graphs; nothing is computed.
#include "models.h"

#include <string.h>

#include "cli.h"
#include "planning.h"
#include "print.h"

typedef struct models_command {
  cli_model_options_t model;
  int format;
  bool help;
} models_command_t;

enum { FORMAT_TEXT, FORMAT_JSON };
static const char *const formats[] = {"text", "json", NULL};
#define CLI_MODELS_RECIPE(kind, field, ...) \
  CLI_RECIPE_OPTION(models_command_t, kind, field, NULL, __VA_ARGS__)
static const shoal_option_t table[] = {
    SHOAL_OPTION(models_command_t, ENUM, format, "text", "text or json", .choices = formats),
    CLI_MODEL_OPTIONS(models_command_t),
    CLI_MODELS_RECIPE(STRING, optimizer, "adamw (the default), adam, sgd, lion, lamb ...",
                      .heading = "What is kept beside the parameters", .argument = "NAME"),
    CLI_MODELS_RECIPE(REAL, momentum, "of sgd and muon"),
    CLI_MODELS_RECIPE(REAL, average, "decay of a moving average of the parameters"),
    CLI_MODELS_RECIPE(STRINGS, freeze, "parameters not to train; may be repeated",
                      .no_environment = true, .argument = "PATTERN"),
    SHOAL_OPTION(models_command_t, BOOL, help, NULL, "this list")};
#define TABLE_COUNT ((int64_t)(sizeof table / sizeof table[0]))

// ---- one line each ------------------------------------------------------------------------------

// "124.4 M", three or four digits.
static void print_short(double value, FILE *out) {
  static const char *const units[] = {" ", "K", "M", "G", "T", "P", "E"};
  int unit = 0;
  while (value >= 1000 && unit < 6) value /= 1000, ++unit;
  fprintf(out, "%6.*f%s", value < 10 ? 2 : 1, value, units[unit]);
}

static void print_line(const char *name, const char *doc, const shoal_zoo_size_t *size, FILE *out) {
  fprintf(out, "  %-16s ", name);
  const double columns[] = {(double)size->parameters, size->forward_flops + size->backward_flops,
                            (double)size->parameter_bytes, (double)size->other_bytes};
  for (int i = 0; i < 4; ++i) {
    print_short(columns[i], out);
    fputs("  ", out);
  }
  fprintf(out, "%s\n", doc);
}

static void print_object(const char *name, const shoal_zoo_family_t *family, const char *doc,
                         const shoal_zoo_size_t *size, FILE *out) {
  fputs("{\"name\": ", out);
  cli_print_json(name, out);
  fputs(", \"family\": ", out);
  cli_print_json(family->name, out);
  fputs(", \"doc\": ", out);
  cli_print_json(doc, out);
  fprintf(out,
          ", \"parameters\": %lld, \"forward_flops\": %.17g, \"backward_flops\": %.17g, "
          "\"parameter_bytes\": %lld, \"other_bytes\": %lld",
          (long long)size->parameters, size->forward_flops, size->backward_flops,
          (long long)size->parameter_bytes, (long long)size->other_bytes);
}

static shoal_status_t measure(const char *name, const cli_model_options_t *options,
                              shoal_zoo_t **out_zoo, shoal_zoo_size_t *out_size) {
  SHOAL_RETURN_IF_ERROR(cli_zoo_create(name, options, NULL, out_zoo));
  shoal_status_t status = shoal_zoo_measure(*out_zoo, options->mixed, out_size);
  if (status) {
    shoal_zoo_free(*out_zoo);
    *out_zoo = NULL;
  }
  return status;
}

static shoal_status_t print_all(const models_command_t *command, FILE *out) {
  int64_t count;
  const shoal_zoo_family_t *const *families = shoal_zoo_families(&count);
  const bool json = command->format == FORMAT_JSON;
  const char *between = "[\n  ";
  if (!json) fputs("                   parameters  FLOPs/row  weight and optimizer bytes\n", out);
  for (int64_t f = 0; f < count; ++f) {
    const shoal_zoo_family_t *family = families[f];
    if (!json) fprintf(out, "%s: %s\n", family->name, family->doc);
    for (int64_t p = -1; p < family->preset_count; ++p) {
      const char *name = p < 0 ? family->name : family->presets[p].name;
      const char *doc = p < 0 ? "a small one" : family->presets[p].doc;
      shoal_zoo_t *zoo;
      shoal_zoo_size_t size;
      SHOAL_RETURN_IF_ERROR(measure(name, &command->model, &zoo, &size));
      shoal_zoo_free(zoo);
      if (json) {
        fputs(between, out);
        print_object(name, family, doc, &size, out);
        fputc('}', out);
        between = ",\n  ";
      } else {
        print_line(name, doc, &size, out);
      }
    }
  }
  if (json) fputs("\n]\n", out);
  return NULL;
}

// ---- one model ----------------------------------------------------------------------------------

// What a value of a setting is, in the words of --help.
static const char *type_of(const shoal_option_t *option) {
  static const char *const names[] = {"yes|no", "N", "X", "WORD", "SIZE", "NAME", "WORD"};
  return names[option->kind];
}

static shoal_status_t print_settings(const shoal_zoo_t *zoo, bool json, const char *values,
                                     shoal_arena_t *arena, FILE *out) {
  const shoal_zoo_family_t *family = shoal_zoo_family(zoo);
  static const shoal_option_t common[] = {
      {.name = "batch", .kind = SHOAL_OPTION_INT, .doc = "rows of a batch"},
      {.name = "dtype", .kind = SHOAL_OPTION_STRING, .doc = "f64, f32, bf16 or f16"}};
  if (!json) fprintf(out, "%-15s %-7s %-10s %s\n", "setting", "type", values, "meaning");
  for (int64_t i = 0; i < family->setting_count + 2; ++i) {
    const shoal_option_t *option = i < 2 ? &common[i] : &family->settings[i - 2];
    const char *value = shoal_zoo_setting(zoo, option->name, arena);
    if (!value) value = "";
    if (json) {
      fputs(i ? ", " : ", \"settings\": {", out);
      cli_print_json(option->name, out);
      fputs(": ", out);
      const bool quoted = option->kind == SHOAL_OPTION_STRING || option->kind == SHOAL_OPTION_ENUM;
      if (quoted)
        cli_print_json(value, out);
      else
        fputs(value, out);
    } else {
      const bool flag = option->kind == SHOAL_OPTION_BOOL;
      if (flag) value = strcmp(value, "true") == 0 ? "yes" : "no";
      fprintf(out, "%-15s %-7s %-10s %s\n", option->name, type_of(option), value[0] ? value : "-",
              option->doc);
    }
  }
  if (json) fputc('}', out);
  return NULL;
}

static void print_presets(const shoal_zoo_family_t *family, FILE *out) {
  int column = fprintf(out, "\nset with --set NAME=VALUE or --NAME VALUE; presets") - 1;
  for (int64_t p = 0; p < family->preset_count; ++p) {
    const char *name = family->presets[p].name;
    const bool fits = column + 1 + (int)strlen(name) <= 100;
    if (!fits) fputc('\n', out);
    column = (fits ? column : 0) + fprintf(out, fits ? " %s" : "  %s", name);
  }
  fprintf(out, "\n");
}

// `values`: what the values of settings are called.
static shoal_status_t print_one(const models_command_t *command, const char *name,
                                const char *values, shoal_arena_t *arena, FILE *out) {
  shoal_zoo_t *zoo;
  shoal_zoo_size_t size;
  const shoal_zoo_preset_t *preset;
  SHOAL_RETURN_IF_ERROR(measure(name, &command->model, &zoo, &size));
  const shoal_zoo_family_t *family = shoal_zoo_find(name, &preset);
  if (command->format == FORMAT_JSON) {
    print_object(name, family, preset ? preset->doc : family->doc, &size, out);
  } else {
    fprintf(out, "%s: %s\nparameters %lld (", name, preset ? preset->doc : family->doc,
            (long long)size.parameters);
    cli_print_bytes(size.parameter_bytes, out);
    fputs("), optimizer and others ", out);
    cli_print_bytes(size.other_bytes, out);
    fprintf(out, "\nFLOPs of a row: forward %.4g, backward %.4g\n\n", size.forward_flops,
            size.backward_flops);
  }
  shoal_status_t status = print_settings(zoo, command->format == FORMAT_JSON, values, arena, out);
  shoal_zoo_free(zoo);
  if (command->format == FORMAT_JSON) {
    fputs("}\n", out);
    return status;
  }
  print_presets(family, out);
  return status;
}

shoal_status_t cli_models(int argc, char **argv, shoal_arena_t *arena, FILE *out) {
  models_command_t command = {0};
  shoal_words_t words = {0};
  SHOAL_RETURN_IF_ERROR(cli_options("models", "[NAME]", table, TABLE_COUNT, argc, argv, arena,
                                    &command, &words, out));
  if (command.help) return NULL;
  if (words.count > 0) SHOAL_RETURN_IF_ERROR(cli_one_model(&words));
  if (words.count > 0)
    return print_one(&command, words.items[0], argc == 1 ? "default" : "value", arena, out);
  return print_all(&command, out);
}
