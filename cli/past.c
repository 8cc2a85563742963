// See past.h.
#include "past.h"

#include <string.h>
#include <sys/stat.h>

#include "print.h"
#include "shoal/checkpoint.h"

static shoal_status_t read_notes(shoal_arena_t *arena, cli_past_t *past) {
  const struct {
    const char *name, **text;
  } notes[] = {{"shoal_model", &past->family},
               {"shoal_settings", &past->settings},
               {"shoal_tokenizer", &past->tokenizer}};
  for (int i = 0; i < 3 && past->path; ++i)
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

shoal_status_t cli_past_check(const cli_past_t *past, const shoal_zoo_t *zoo,
                              shoal_arena_t *arena) {
  const shoal_zoo_family_t *family = shoal_zoo_family(zoo);
  for (int64_t i = 0; past->settings && i < family->setting_count; ++i) {
    const char *name = family->settings[i].name;
    const char *value = shoal_zoo_setting(zoo, name, arena);
    const char *was = find_word(past->settings, name, arena);
    // what is not noted follows others: weights that do not fit are found by their shapes
    if (!was || !value || !value[0] || strcmp(value, "0") == 0) continue;
    if (strcmp(value, was) == 0 || may_differ(name)) continue;
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                            cli_format(arena, "leave it out, or say --set %s=%s", name, was),
                            "%s is %s, but %s was made with %s", name, value, past->path, was);
  }
  return NULL;
}
