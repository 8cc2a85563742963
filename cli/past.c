// See past.h.
#include "past.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "print.h"
#include "shoal/checkpoint.h"

static shoal_status_t read_notes(shoal_arena_t *arena, cli_past_t *past) {
  const struct {
    const char *name, **text;
  } notes[] = {{"shoal_model", &past->family},        {"shoal_settings", &past->settings},
               {"shoal_tokenizer", &past->tokenizer}, {"shoal_resize", &past->resize},
               {"shoal_mean", &past->mean},           {"shoal_deviation", &past->deviation}};
  for (size_t i = 0; i < sizeof notes / sizeof *notes && past->path; ++i)
    SHOAL_RETURN_IF_ERROR(shoal_checkpoint_note(past->path, notes[i].name, arena, notes[i].text));
  return NULL;
}

shoal_status_t cli_past_open(const char *path, shoal_arena_t *arena, cli_past_t *out_past) {
  struct stat info;
  int64_t step;
  *out_past = (cli_past_t){0};
  if (stat(path, &info) != 0 || !S_ISREG(info.st_mode))
    SHOAL_RETURN_IF_ERROR(shoal_checkpoint_latest(path, arena, &out_past->path, &step));
  if (!out_past->path) out_past->path = path;
  return read_notes(arena, out_past);
}

shoal_status_t cli_past_latest(const char *folder, shoal_arena_t *arena, cli_past_t *out_past) {
  struct stat info;
  int64_t step;
  *out_past = (cli_past_t){0};
  if (stat(folder, &info) != 0) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_checkpoint_latest(folder, arena, &out_past->path, &step));
  return read_notes(arena, out_past);
}

shoal_status_t cli_past_know(const cli_past_t *past, const char *name,
                             cli_model_options_t *options) {
  const shoal_zoo_preset_t *preset = NULL;
  const shoal_zoo_family_t *family = shoal_zoo_find(name, &preset);
  if (!family || !past->family || !past->settings)
    return NULL;  // an unknown name is said elsewhere
  if (strcmp(family->name, past->family) != 0)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "name that model, or another checkpoint",
                            "%s holds a model '%s', not '%s'", past->path, past->family,
                            family->name);
  if (!preset && !options->config) options->known = past->settings;
  return NULL;
}

// What a text of words NAME=VALUE says; NULL: nothing.
static const char *find_word(const char *text, const char *name, shoal_arena_t *arena) {
  const size_t length = strlen(name);
  for (const char *word = text; *word; word += strspn(word, " ")) {
    const size_t end = strcspn(word, " ");
    if (strncmp(word, name, length) == 0 && word[length] == '=')
      return cli_format(arena, "%.*s", (int)(end - length - 1), word + length + 1);
    word += end;
  }
  return NULL;
}

// It says how large what is fed is, or changes training alone: the weights mean the same.
static bool may_differ(const char *name) {
  static const char *const names[] = {"context", "target", "size", "nodes", "edges", "balance"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (strcmp(name, names[i]) == 0) return true;
  return strstr(name, "dropout") != NULL;
}

// What may differ besides where training begins with the weights: which weights there are, where
// the names of those that are missing or too many are said; what is fed to learn from; how far and
// how attention looks, for a model that is to learn longer texts.
static bool may_begin(const char *name) {
  static const char *const names[] = {"layers", "decoder_layers", "tied",  "masked",
                                      "typed",  "padded",         "window"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (strcmp(name, names[i]) == 0) return true;
  return strncmp(name, "rotary_", strlen("rotary_")) == 0;
}

// By default it follows others, and weights that do not fit are found by their shapes.
static bool is_size(const char *name) {
  static const char *const names[] = {"hidden",    "positions", "classes",
                                      "key_heads", "head_size", "decoder_layers"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (strcmp(name, names[i]) == 0) return true;
  return false;
}

// In a note, what is zero may be left out, where that is the default.
static const char *value_then(const cli_past_t *past, const shoal_option_t *option,
                              shoal_arena_t *arena) {
  const char *was = find_word(past->settings, option->name, arena);
  const bool number = option->kind == SHOAL_OPTION_INT || option->kind == SHOAL_OPTION_REAL;
  return was || option->value || !number ? was : "0";
}

// `preset`: settings that are not given may be its own.
static shoal_status_t refuse(const cli_past_t *past, const shoal_zoo_family_t *family,
                             const shoal_option_t *option, bool preset, const char *value,
                             const char *was, shoal_arena_t *arena) {
  const char *name = option->name;
  const char *hint = preset ? cli_format(arena,
                                         "name the model %s, whose settings are then the "
                                         "checkpoint's",
                                         family->name)
                            : "leave it out";
  if (option->positive && strcmp(was, "0") == 0)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, hint, "%s is %s, but %s was made without", name,
                            value, past->path);
  if (hint) hint = cli_format(arena, "%s, or say --set %s=%s", hint, name, was);
  if (option->positive && strcmp(value, "0") == 0)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, hint, "there is no %s, but %s was made with %s", name,
                            past->path, was);
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, hint, "%s is %s, but %s was made with %s", name, value,
                          past->path, was);
}

shoal_status_t cli_past_check(const cli_past_t *past, const char *name, const shoal_zoo_t *zoo,
                              bool begins, shoal_arena_t *arena) {
  const shoal_zoo_preset_t *preset = NULL;
  const shoal_zoo_family_t *family = shoal_zoo_find(name, &preset);
  for (int64_t i = 0; past->settings && i < family->setting_count; ++i) {
    const shoal_option_t *option = &family->settings[i];
    const char *value = shoal_zoo_setting(zoo, option->name, arena);
    const char *was = value_then(past, option, arena);
    if (!was || !value || !value[0] || may_differ(option->name)) continue;
    if (begins && may_begin(option->name)) continue;
    if (is_size(option->name) && (strcmp(value, "0") == 0 || strcmp(was, "0") == 0)) continue;
    if (strcmp(value, was) == 0) continue;
    return refuse(past, family, option, preset != NULL, value, was, arena);
  }
  return NULL;
}

void cli_past_images(const cli_past_t *past, cli_data_options_t *options) {
  if (!options->mean) options->mean = past->mean;
  if (!options->deviation) options->deviation = past->deviation;
  if (options->resize == 0 && past->resize) options->resize = strtoll(past->resize, NULL, 10);
}

void cli_past_say_averages(int64_t averages, bool raw) {
  if (averages == 0) return;
  fprintf(stderr,
          raw ? "shoal: with %lld parameters as they are, not their moving averages\n"
              : "shoal: with the moving averages of %lld parameters; --raw: the parameters\n",
          (long long)averages);
}
