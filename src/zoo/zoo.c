// Models by name: finds the family, reads settings, calls its builder (zoo.h).
#include "shoal/zoo.h"

#include <string.h>

#include "base/locale.h"
#include "base/text.h"
#include "base/yaml.h"
#include "graph/builder.h"
#include "zoo/family.h"

#define SHOAL_ZOO_FAMILY(name) extern const shoal_zoo_family_t shoal_zoo_family_##name;
#include "zoo/families.inc"
#undef SHOAL_ZOO_FAMILY

static const shoal_zoo_family_t *const families[] = {
#define SHOAL_ZOO_FAMILY(name) &shoal_zoo_family_##name,
#include "zoo/families.inc"
#undef SHOAL_ZOO_FAMILY
};
enum { FAMILY_COUNT = sizeof families / sizeof *families, NAME_LIMIT = 512 };

static const char *const PHASES[SHOAL_ZOO_PHASE_COUNT] = {"train", "eval", "prefill", "decode"};

const shoal_zoo_family_t *const *shoal_zoo_families(int64_t *out_count) {
  *out_count = FAMILY_COUNT;
  return families;
}

const shoal_zoo_family_t *shoal_zoo_find(const char *name, const shoal_zoo_preset_t **out_preset) {
  if (out_preset) *out_preset = NULL;
  for (int64_t f = 0; f < FAMILY_COUNT; ++f) {
    const shoal_zoo_family_t *family = families[f];
    if (strcmp(family->name, name) == 0) return family;
    for (int64_t p = 0; p < family->preset_count; ++p) {
      if (strcmp(family->presets[p].name, name) != 0) continue;
      if (out_preset) *out_preset = &family->presets[p];
      return family;
    }
  }
  return NULL;
}

static shoal_status_t no_model(const char *name) {
  const char *names[NAME_LIMIT];
  int64_t count = 0;
  char list[256] = "models are ";
  size_t used = strlen(list);
  for (int64_t f = 0; f < FAMILY_COUNT; ++f) {
    names[count++] = families[f]->name;
    used += (size_t)shoal_format(list + used, sizeof list - used, "%s%s", f ? ", " : "",
                                 families[f]->name);
    if (used >= sizeof list) used = sizeof list - 1;
  }
  for (int64_t f = 0; f < FAMILY_COUNT; ++f) {
    for (int64_t p = 0; p < families[f]->preset_count && count < NAME_LIMIT; ++p)
      names[count++] = families[f]->presets[p].name;
  }
  shoal_hint_t hint;
  return SHOAL_ERROR_HINT(NOT_FOUND, shoal_did_you_mean(name, names, count, list, &hint),
                          "there is no model '%s'", name);
}

// ---- settings -----------------------------------------------------------------------------------

// What every family has.
typedef struct common {
  int64_t batch;
  const char *dtype;
} common_t;
static const shoal_option_t common_table[] = {
    SHOAL_OPTION(common_t, INT, batch, NULL, "rows of a batch", .positive = true),
    SHOAL_OPTION(common_t, STRING, dtype, "f32", "f64, f32, bf16 or f16")};
enum { COMMON_COUNT = 2 };

typedef struct reader {
  shoal_zoo_t *zoo;
  common_t common;
} reader_t;

static const shoal_option_t *find(const shoal_option_t *table, int64_t count, const char *name) {
  for (int64_t i = 0; i < count; ++i) {
    if (strcmp(table[i].name, name) == 0) return &table[i];
  }
  return NULL;
}

static shoal_status_t no_setting(const shoal_zoo_family_t *family, const char *name,
                                 const char *from) {
  const char *names[NAME_LIMIT];
  int64_t count = 0;
  for (int64_t i = 0; i < COMMON_COUNT; ++i) names[count++] = common_table[i].name;
  for (int64_t i = 0; i < family->setting_count && count < NAME_LIMIT; ++i)
    names[count++] = family->settings[i].name;
  char list[300] = "it has ";
  size_t used = strlen(list);
  for (int64_t i = 0; i < count; ++i) {
    used += (size_t)shoal_format(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
    if (used >= sizeof list) used = sizeof list - 1;
  }
  shoal_hint_t hint;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, shoal_did_you_mean(name, names, count, list, &hint),
                          "%s%s%s has no setting '%s'", from ? from : "", from ? ": " : "",
                          family->name, name);
}

static shoal_status_t set(reader_t *r, const char *name, const char *value, const char *from) {
  shoal_zoo_t *zoo = r->zoo;
  const shoal_zoo_family_t *family = zoo->family;
  const bool common = find(common_table, COMMON_COUNT, name) != NULL;
  const shoal_option_t *table = common ? common_table : family->settings;
  const int64_t count = common ? COMMON_COUNT : family->setting_count;
  void *into = common ? (void *)&r->common : zoo->settings;
  const shoal_option_t *option = find(table, count, name);
  if (!option) return no_setting(family, name, from);
  SHOAL_RETURN_IF_ERROR(shoal_options_set(table, count, name, value, from, &zoo->arena, into));
  // so that builders may multiply two of them
  if (option->kind == SHOAL_OPTION_INT &&
      *(const int64_t *)(const void *)((const char *)into + option->offset) > INT32_MAX)
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s%s%s of %s is too large: sizes are at most %d",
                       from ? from : "", from ? ": " : "", name, value, INT32_MAX);
  return NULL;
}

// Words NAME=VALUE.
static shoal_status_t set_words(reader_t *r, const char *words) {
  if (!words) return NULL;
  for (const char *at = words; *at;) {
    const size_t length = strcspn(at, " \t\n");
    if (length > 0) {
      char *word = SHOAL_NEW(&r->zoo->arena, char, length + 1);
      if (!word) return SHOAL_OOM();
      memcpy(word, at, length);
      word[length] = 0;
      char *equals = strchr(word, '=');
      if (!equals)
        return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "write width=64", "setting '%s' has no '='",
                                word);
      *equals = 0;
      SHOAL_RETURN_IF_ERROR(set(r, word, equals + 1, NULL));
    }
    at += length + (at[length] != 0);
  }
  return NULL;
}

static shoal_status_t set_yaml(reader_t *r, const char *name, const char *text) {
  if (!text) return NULL;
  const shoal_json_t *root;
  shoal_arena_t *arena = &r->zoo->arena;
  SHOAL_RETURN_IF_ERROR(shoal_yaml_parse(name ? name : "settings", text, arena, &root));
  if (root->kind == SHOAL_JSON_NULL) return NULL;
  if (root->kind != SHOAL_JSON_OBJECT)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "write lines such as width: 64",
                            "%s: settings are names with values", root->path);
  for (int64_t i = 0; i < root->count; ++i) {
    const shoal_json_t *child = &root->children[i];
    shoal_text_t value;
    shoal_text_init(arena->allocator, &value);
    switch (child->kind) {
      case SHOAL_JSON_BOOL:
        shoal_text_add(&value, child->boolean ? "true" : "false");
        break;
      case SHOAL_JSON_INT:
        shoal_text_addf(&value, "%lld", (long long)child->integer);
        break;
      case SHOAL_JSON_REAL:
        shoal_text_add_double(&value, child->real);
        break;
      case SHOAL_JSON_STRING:
        shoal_text_add(&value, child->string);
        break;
      default:
        return SHOAL_ERROR(INVALID_ARGUMENT, "%s: a setting is one value", child->path);
    }
    const char *word;
    SHOAL_RETURN_IF_ERROR(shoal_text_finish(&value, arena, &word));
    SHOAL_RETURN_IF_ERROR(set(r, child->key, word, child->path));
  }
  return NULL;
}

static shoal_status_t read_settings(shoal_zoo_t *zoo, const shoal_zoo_preset_t *preset,
                                    const shoal_zoo_options_t *options) {
  const shoal_zoo_family_t *family = zoo->family;
  reader_t r = {.zoo = zoo, .common = {.batch = family->rows}};
  zoo->settings = shoal_arena_alloc(&zoo->arena, 1, family->size);
  if (!zoo->settings) return SHOAL_OOM();
  memset(zoo->settings, 0, family->size);
  SHOAL_RETURN_IF_ERROR(
      shoal_options_defaults(family->settings, family->setting_count, &zoo->arena, zoo->settings));
  SHOAL_RETURN_IF_ERROR(shoal_options_defaults(common_table, COMMON_COUNT, &zoo->arena, &r.common));
  if (preset) SHOAL_RETURN_IF_ERROR(set_words(&r, preset->settings));
  SHOAL_RETURN_IF_ERROR(set_yaml(&r, options->yaml_name, options->yaml));
  SHOAL_RETURN_IF_ERROR(set_words(&r, options->settings));
  zoo->batch = r.common.batch;
  if (!shoal_dtype_parse(r.common.dtype, &zoo->dtype) || !shoal_dtype_is_float(zoo->dtype))
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "use f64, f32, bf16 or f16", "'%s' is no float type",
                            r.common.dtype);
  return NULL;
}

static const char *copy_text(shoal_zoo_t *zoo, const char *text, bool *failed) {
  const char *copy = text ? shoal_arena_strdup(&zoo->arena, text) : NULL;
  *failed = *failed || (text && !copy);
  return copy;
}

static shoal_status_t copy_recipe(shoal_zoo_t *zoo, const shoal_recipe_t *recipe) {
  if (!recipe) return NULL;
  bool failed = false;
  shoal_recipe_t *copy = &zoo->recipe;
  *copy = *recipe;
  shoal_parameter_group_t *groups =
      shoal_arena_copy(&zoo->arena, recipe->groups, (size_t)recipe->group_count, sizeof *groups);
  if (recipe->group_count && !groups) return SHOAL_OOM();
  const char **texts[] = {&copy->optimizer,         &copy->adjust,        &copy->lr_schedule.kind,
                          &copy->lr_schedule.curve, &copy->training.only, &copy->training.name};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
    *texts[i] = copy_text(zoo, *texts[i], &failed);
  }
  for (int32_t i = 0; i < recipe->group_count; ++i) {
    groups[i].pattern = copy_text(zoo, groups[i].pattern, &failed);
    groups[i].name = copy_text(zoo, groups[i].name, &failed);
    groups[i].optimizer = copy_text(zoo, groups[i].optimizer, &failed);
  }
  copy->groups = groups;
  return failed ? SHOAL_OOM() : NULL;
}

shoal_status_t shoal_zoo_create(const char *name, const shoal_zoo_options_t *options,
                                shoal_zoo_t **out_zoo) {
  static const shoal_zoo_options_t defaults = {0};
  if (!options) options = &defaults;
  *out_zoo = NULL;
  const shoal_zoo_preset_t *preset;
  const shoal_zoo_family_t *family = shoal_zoo_find(name, &preset);
  if (!family) return no_model(name);
  const shoal_allocator_t allocator =
      options->allocator.alloc ? options->allocator : shoal_allocator_system();
  shoal_arena_t arena;
  shoal_arena_init(allocator, &arena);
  shoal_zoo_t *zoo = SHOAL_NEW(&arena, shoal_zoo_t, 1);
  if (!zoo) {
    shoal_arena_deinit(&arena);
    return SHOAL_OOM();
  }
  *zoo = (shoal_zoo_t){.arena = arena, .family = family};
  shoal_status_t status = read_settings(zoo, preset, options);
  if (!status) status = copy_recipe(zoo, options->recipe);
  if (status)
    shoal_zoo_free(zoo);
  else
    *out_zoo = zoo;
  return status;
}

void shoal_zoo_free(shoal_zoo_t *zoo) {
  if (!zoo) return;
  shoal_arena_t arena = zoo->arena;  // it lies in it
  shoal_arena_deinit(&arena);
}

int64_t shoal_zoo_rows(const shoal_zoo_t *zoo) {
  return zoo->batch;
}

const shoal_zoo_family_t *shoal_zoo_family(const shoal_zoo_t *zoo) {
  return zoo->family;
}

const char *shoal_zoo_setting(const shoal_zoo_t *zoo, const char *name, shoal_arena_t *arena) {
  const shoal_zoo_family_t *family = zoo->family;
  if (strcmp(name, "dtype") == 0) return shoal_dtype_name(zoo->dtype);
  if (strcmp(name, "batch") == 0) return shoal_arena_printf(arena, "%lld", (long long)zoo->batch);
  const shoal_option_t *option = find(family->settings, family->setting_count, name);
  if (!option) return NULL;
  const void *field = (const char *)zoo->settings + option->offset;
  switch (option->kind) {
    case SHOAL_OPTION_BOOL:
      return *(const bool *)field ? "true" : "false";
    case SHOAL_OPTION_ENUM:
      return option->choices[*(const int *)field];
    case SHOAL_OPTION_STRING:
      return *(const char *const *)field;
    case SHOAL_OPTION_REAL: {
      shoal_text_t text;
      const char *number = NULL;
      shoal_text_init(arena->allocator, &text);
      shoal_text_add_double(&text, *(const double *)field);
      shoal_status_free(shoal_text_finish(&text, arena, &number));
      return number;
    }
    default:
      return shoal_arena_printf(arena, "%lld", (long long)*(const int64_t *)field);
  }
}

const char *shoal_zoo_settings(const shoal_zoo_t *zoo, shoal_arena_t *arena) {
  const shoal_zoo_family_t *family = zoo->family;
  const char *text = "";
  for (int64_t i = 0; i < family->setting_count && text; ++i) {
    const shoal_option_t *option = &family->settings[i];
    const char *name = option->name, *value = shoal_zoo_setting(zoo, name, arena);
    if (!value || !value[0]) continue;
    if (option->positive && strcmp(value, "0") == 0) continue;  // what follows another
    text = shoal_arena_printf(arena, "%s%s%s=%s", text, text[0] ? " " : "", name, value);
  }
  return text;
}

// ---- graphs -------------------------------------------------------------------------------------

static bool has_phase(const shoal_zoo_family_t *family, int phase) {
  const uint32_t phases =
      family->phases ? family->phases : 1u << SHOAL_ZOO_TRAIN | 1u << SHOAL_ZOO_EVAL;
  return phases >> phase & 1;
}

bool shoal_zoo_has(const shoal_zoo_t *zoo, const char *phase) {
  for (int i = 0; i < SHOAL_ZOO_PHASE_COUNT; ++i) {
    if (strcmp(PHASES[i], phase) == 0) return has_phase(zoo->family, i);
  }
  return false;
}

void shoal_zoo_build(const shoal_zoo_t *zoo, shoal_graph_t *graph, const char *phase,
                     int64_t rows) {
  shoal_zoo_build_tokens(zoo, graph, phase, rows, 0);
}

void shoal_zoo_build_tokens(const shoal_zoo_t *zoo, shoal_graph_t *graph, const char *phase,
                            int64_t rows, int64_t tokens) {
  int at = 0;
  if (!graph) return;
  while (at < SHOAL_ZOO_PHASE_COUNT && strcmp(PHASES[at], phase) != 0) ++at;
  if (at == SHOAL_ZOO_PHASE_COUNT || !has_phase(zoo->family, at)) {
    shoal_nn_refuse_hint(graph, "phases are train, eval, and for decoders prefill and decode",
                         "%s has no graph for the phase '%s'", zoo->family->name, phase);
    return;
  }
  const shoal_zoo_job_t job = {.zoo = zoo,
                               .settings = zoo->settings,
                               .dtype = zoo->dtype,
                               .phase = (shoal_zoo_phase_t)at,
                               .rows = rows ? rows : zoo->batch,
                               .tokens = tokens};
  if (at == SHOAL_ZOO_EVAL && zoo->recipe.training.average != 0) shoal_use_averages(graph);
  zoo->family->build(graph, &job);
}

void shoal_zoo_add(const shoal_zoo_t *zoo, shoal_model_t *model) {
  shoal_zoo_build(zoo, shoal_model_graph(model, "train"), "train", 0);
  shoal_zoo_build(zoo, shoal_model_graph(model, "eval"), "eval", 0);
}

void shoal_zoo_train(shoal_graph_t *graph, const shoal_zoo_job_t *job, shoal_value_t loss,
                     const char *only, const char *name) {
  shoal_recipe_t recipe = job->zoo->recipe;
  if (only) recipe.training.only = only;
  if (name) recipe.training.name = name;
  shoal_optimize(graph, loss, &recipe);
}

void shoal_zoo_end(shoal_graph_t *graph, const shoal_zoo_job_t *job, shoal_value_t loss,
                   shoal_value_t logits) {
  if (job->phase == SHOAL_ZOO_TRAIN) {
    shoal_zoo_train(graph, job, loss, NULL, NULL);
  } else if (logits.graph) {
    shoal_output(graph, "logits", logits);
  }
  shoal_output(graph, "loss", loss);
}

void shoal_zoo_scope(shoal_graph_t *graph, const char *name, int64_t number) {
  char text[64];
  shoal_format(text, sizeof text, "%s%lld", name, (long long)number);
  shoal_scope_push(graph, text);
}
