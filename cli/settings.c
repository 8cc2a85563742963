// From options to a zoo model: see models.h.
#include "models.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "print.h"

enum { NOT_GIVEN = 2 };

// The distinct settings of all families, each as the first family has it.
static int64_t all_settings(const shoal_option_t *out_settings[CLI_SETTING_LIMIT]) {
  int64_t count = 0, family_count;
  const shoal_zoo_family_t *const *families = shoal_zoo_families(&family_count);
  for (int64_t f = 0; f < family_count; ++f) {
    for (int64_t i = 0; i < families[f]->setting_count && count < CLI_SETTING_LIMIT; ++i) {
      int64_t same = 0;
      while (same < count && strcmp(out_settings[same]->name, families[f]->settings[i].name) != 0)
        ++same;
      if (same == count) out_settings[count++] = &families[f]->settings[i];
    }
  }
  return count;
}

// A name that the command has for something else means that: the setting is reached by --set.
static bool has_option(const shoal_option_t *table, int64_t count, const char *name) {
  for (int64_t i = 0; i < count; ++i) {
    if (strcmp(table[i].name, name) == 0) return true;
  }
  return false;
}

shoal_status_t cli_model_table(const shoal_option_t *table, int64_t count, shoal_arena_t *arena,
                               void *options, const shoal_option_t **out_table,
                               int64_t *out_count) {
  *out_table = table;
  *out_count = count;
  int64_t at = 0;
  // Not "set": `convert` has one of its own, in another struct.
  while (at < count && strcmp(table[at].name, "config") != 0) ++at;
  if (at == count) return NULL;
  const size_t offset = table[at].offset - offsetof(cli_model_options_t, config);
  cli_model_options_t *model = (void *)((char *)options + offset);
  const shoal_option_t *settings[CLI_SETTING_LIMIT];
  const int64_t setting_count = all_settings(settings);
  shoal_option_t *rows = SHOAL_NEW(arena, shoal_option_t, count + setting_count);
  if (!rows) return SHOAL_OOM();
  int64_t used = count - 1;
  memcpy(rows, table, (size_t)used * sizeof *rows);
  for (int64_t i = 0; i < setting_count; ++i) {
    const bool flag = settings[i]->kind == SHOAL_OPTION_BOOL;
    if (flag) model->settings[i].flag = NOT_GIVEN;
    if (has_option(table, count, settings[i]->name)) continue;
    rows[used++] = (shoal_option_t){.name = settings[i]->name,
                                    .kind = flag ? SHOAL_OPTION_BOOL : SHOAL_OPTION_STRINGS,
                                    .offset = offset + offsetof(cli_model_options_t, settings) +
                                              (size_t)i * sizeof(cli_setting_t),
                                    .doc = settings[i]->doc,
                                    .hidden = true,
                                    .no_environment = settings[i]->no_environment};
  }
  rows[used++] = table[count - 1];
  *out_table = rows;
  *out_count = used;
  return NULL;
}

// Is it the flag, alone, of a setting that is true or false?
static bool is_yes_or_no(const shoal_option_t *table, int64_t count, const char *word) {
  if (strncmp(word, "--", 2) != 0) return false;
  for (int64_t i = 0; i < count; ++i) {
    if (table[i].kind != SHOAL_OPTION_BOOL || !table[i].hidden) continue;
    const char *name = table[i].name, *flag = word + 2;
    while (*name && *name == (*flag == '-' ? '_' : *flag)) ++name, ++flag;
    if (!*name && !*flag) return true;
  }
  return false;
}

shoal_status_t cli_model_words(const shoal_option_t *table, int64_t count, shoal_arena_t *arena,
                               int *argc, char ***argv) {
  static const char *const values[] = {"yes", "no", "true", "false", "on", "off", "1", "0"};
  char **words = SHOAL_NEW(arena, char *, *argc + 1);
  if (!words) return SHOAL_OOM();
  int used = 0;
  bool open = true;  // before "--", which ends the options
  for (int i = 0; i < *argc; ++i) {
    char *word = (*argv)[i];
    open = open && strcmp(word, "--") != 0;
    for (int v = 0; v < 8 && open && i + 1 < *argc && is_yes_or_no(table, count, word); ++v) {
      if (strcmp((*argv)[i + 1], values[v]) != 0) continue;
      word = cli_format(arena, "%s=%s", word, values[v]);
      if (!word) return SHOAL_OOM();
      ++i;
    }
    words[used++] = word;
  }
  *argc = used;
  *argv = words;
  return NULL;
}

// All that was given, as one text of words NAME=VALUE; what --set says counts most.
static shoal_status_t join_settings(const cli_model_options_t *o, shoal_arena_t *arena,
                                    const char **out_text) {
  const shoal_option_t *settings[CLI_SETTING_LIMIT];
  const int64_t count = all_settings(settings);
  const char *text = o->known ? o->known : "";
  if (o->dtype) text = cli_format(arena, "%s dtype=%s", text, o->dtype);
  if (text && o->batch) text = cli_format(arena, "%s batch=%lld", text, (long long)o->batch);
  for (int64_t i = 0; i < count && text; ++i) {
    const cli_setting_t *given = &o->settings[i];
    if (settings[i]->kind != SHOAL_OPTION_BOOL && given->words.count > 0)
      text = cli_format(arena, "%s %s=%s", text, settings[i]->name,
                        given->words.items[given->words.count - 1]);
    if (settings[i]->kind == SHOAL_OPTION_BOOL && given->flag != NOT_GIVEN)
      text = cli_format(arena, "%s %s=%s", text, settings[i]->name, given->flag ? "true" : "false");
  }
  for (int64_t i = 0; i < o->set.count && text; ++i)
    text = cli_format(arena, "%s %s", text, o->set.items[i]);
  *out_text = text;
  return text ? NULL : SHOAL_OOM();
}

static shoal_status_t check_mixed(const shoal_zoo_t *zoo) {
  const char *dtype = shoal_zoo_setting(zoo, "dtype", NULL);
  if (strcmp(dtype, "bf16") == 0 || strcmp(dtype, "f16") == 0) return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "--dtype bf16 or --dtype f16",
                          "--mixed: the model computes in %s, which parameters have too", dtype);
}

// A plan file in the place of its model.
static shoal_status_t check_name(const char *name) {
  struct stat info;
  const shoal_zoo_preset_t *preset;
  if (shoal_zoo_find(name, &preset) || stat(name, &info) != 0 || !S_ISREG(info.st_mode))
    return NULL;
  return SHOAL_ERROR_HINT(NOT_FOUND, "a plan file stands behind --plan, and its model before it",
                          "there is no model '%s', only a file of that name", name);
}

shoal_status_t cli_zoo_create(const char *name, const cli_model_options_t *options,
                              const shoal_recipe_t *recipe, shoal_zoo_t **out_zoo) {
  *out_zoo = NULL;
  shoal_arena_t *arena;
  SHOAL_RETURN_IF_ERROR(check_name(name));
  SHOAL_RETURN_IF_ERROR(shoal_arena_create(shoal_allocator_system(), &arena));
  shoal_zoo_options_t zoo = {.yaml_name = options->config};
  int64_t size = 0;
  shoal_recipe_t made;
  shoal_status_t status = join_settings(options, arena, &zoo.settings);
  if (!status) status = cli_recipe_make(options, arena, &made);
  zoo.recipe = recipe ? recipe : &made;
  if (!status && options->config)
    status = shoal_file_read(options->config, arena, &zoo.yaml, &size);
  if (!status) status = shoal_zoo_create(name, &zoo, out_zoo);
  if (!status && options->mixed) status = check_mixed(*out_zoo);
  if (status) {
    shoal_zoo_free(*out_zoo);
    *out_zoo = NULL;
  }
  shoal_arena_free(arena);
  return status;
}

shoal_status_t cli_model_dtype(const char *name, const cli_model_options_t *options,
                               const char **out_dtype) {
  shoal_zoo_t *zoo;
  SHOAL_RETURN_IF_ERROR(cli_zoo_create(name, options, NULL, &zoo));
  *out_dtype = shoal_zoo_setting(zoo, "dtype", NULL);
  shoal_zoo_free(zoo);
  return NULL;
}

shoal_status_t cli_model_create(const char *name, const cli_model_options_t *options,
                                shoal_allocator_t allocator, shoal_model_t **out_model) {
  *out_model = NULL;
  shoal_zoo_t *zoo;
  SHOAL_RETURN_IF_ERROR(cli_zoo_create(name, options, NULL, &zoo));
  shoal_model_options_t model_options = {
      .allocator = allocator, .seed = (uint64_t)options->seed, .mixed = options->mixed};
  shoal_status_t status = shoal_model_create(&model_options, out_model);
  if (!status) {
    shoal_zoo_add(zoo, *out_model);
    status = shoal_model_status(*out_model);
  }
  shoal_zoo_free(zoo);
  if (status) {
    shoal_model_free(*out_model);
    *out_model = NULL;
  }
  return status;
}
