// See recipe.h.
#include "recipe.h"

#include <stdlib.h>
#include <string.h>

#include "models.h"
#include "print.h"

const char *const cli_switch[] = {"default", "on", "off", NULL};

// ---- groups ---------------------------------------------------------------------------

typedef struct group_options {
  double lr_factor, weight_decay, momentum, beta1, beta2, eps;
  const char *optimizer;
  bool frozen;
} group_options_t;

static const shoal_option_t group_table[] = {
    SHOAL_OPTION(group_options_t, REAL, lr_factor, NULL, "times the learning rate"),
    SHOAL_OPTION(group_options_t, REAL, weight_decay, NULL, "weight decay"),
    SHOAL_OPTION(group_options_t, REAL, momentum, NULL, "momentum"),
    SHOAL_OPTION(group_options_t, REAL, beta1, NULL, "decay of the first moment"),
    SHOAL_OPTION(group_options_t, REAL, beta2, NULL, "decay of the second moment"),
    SHOAL_OPTION(group_options_t, REAL, eps, NULL, "epsilon"),
    SHOAL_OPTION(group_options_t, STRING, optimizer, NULL, "optimizer"),
    SHOAL_OPTION(group_options_t, BOOL, frozen, NULL, "not trained")};
enum { GROUP_COUNT = sizeof group_table / sizeof group_table[0] };

static shoal_status_t bad_group(const char *text) {
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                          "for example: --group '*/bias:weight_decay=0' or 'block0/*:frozen'",
                          "--group '%s' is not PATTERN:NAME=VALUE,...", text);
}

// 0 in a group is what the optimizer has anyway, so that nobody can ask for it.
static shoal_status_t check_of_group(const char *text, const char *name,
                                     const group_options_t *group) {
  for (int64_t i = 0; i < GROUP_COUNT; ++i) {
    const shoal_option_t *row = &group_table[i];
    if (strcmp(row->name, name) != 0 || row->kind != SHOAL_OPTION_REAL) continue;
    const double value = *(const double *)((const char *)group + row->offset);
    const bool zero = row->offset == offsetof(group_options_t, lr_factor) ||
                      row->offset == offsetof(group_options_t, weight_decay);
    if (value > 0 || (zero && value == 0)) return NULL;
    return SHOAL_ERROR_HINT(
        INVALID_ARGUMENT,
        zero ? "it is at least 0" : "it is more than 0; --group 'PATTERN:optimizer=sgd' has none",
        "--group '%s': %s is %g", text, name, value);
  }
  return NULL;
}

static shoal_status_t set_of_group(const char *text, const char *name, const char *value,
                                   shoal_arena_t *arena, group_options_t *group) {
  const char *names[GROUP_COUNT];
  bool known = false;
  for (int64_t i = 0; i < GROUP_COUNT; ++i) {
    names[i] = group_table[i].name;
    known = known || strcmp(names[i], name) == 0;
  }
  shoal_hint_t hint;
  if (!known)
    return SHOAL_ERROR_HINT(
        INVALID_ARGUMENT,
        shoal_did_you_mean(
            name, names, GROUP_COUNT,
            "lr_factor, weight_decay, momentum, beta1, beta2, eps, optimizer, frozen", &hint),
        "--group '%s': a group has no '%s'", text, name);
  SHOAL_RETURN_IF_ERROR(shoal_options_set(group_table, GROUP_COUNT, name, value,
                                          cli_format(arena, "--group '%s', %s", text, name), arena,
                                          group));
  return check_of_group(text, name, group);
}

// 'PATTERN:lr_factor=0.1,weight_decay=0,frozen'; what is behind the last ':' has none.
static shoal_status_t parse_group(const char *text, shoal_arena_t *arena,
                                  shoal_parameter_group_t *out_group) {
  char *pattern = cli_format(arena, "%s", text), *rest = pattern ? strrchr(pattern, ':') : NULL;
  if (!pattern) return SHOAL_OOM();
  if (!rest || rest == pattern || !rest[1]) return bad_group(text);
  *rest++ = 0;
  group_options_t group = {.lr_factor = 1, .weight_decay = -1};
  for (char *next; rest; rest = next) {
    next = strchr(rest, ',');
    if (next) *next++ = 0;
    char *value = strchr(rest, '=');
    if (value) *value++ = 0;
    if (!value && strcmp(rest, "frozen") != 0) return bad_group(text);
    SHOAL_RETURN_IF_ERROR(set_of_group(text, rest, value ? value : "true", arena, &group));
  }
  if (group.lr_factor == 0) group.frozen = true;
  *out_group =
      (shoal_parameter_group_t){.pattern = pattern,
                                .frozen = group.frozen,
                                .lr_factor = group.lr_factor == 1 ? 0 : group.lr_factor,
                                .weight_decay = group.weight_decay > 0 ? group.weight_decay : 0,
                                .no_decay = group.weight_decay == 0,
                                .optimizer = group.optimizer,
                                .momentum = group.momentum,
                                .beta1 = group.beta1,
                                .beta2 = group.beta2,
                                .eps = group.eps};
  return NULL;
}

// ---- the recipe -----------------------------------------------------------------------

static bool is_one_of(const char *name, const char *const *names) {
  for (; *names; ++names)
    if (strcmp(name, *names) == 0) return true;
  return false;
}

// Schedules that end.
static const char *const limited[] = {"linear", "cosine", "one_cycle", "wsd", NULL};

void cli_recipe_end(cli_recipe_options_t *recipe, int64_t steps) {
  if (recipe->lr_schedule && recipe->lr_schedule_steps == 0 &&
      is_one_of(recipe->lr_schedule, limited))
    recipe->lr_schedule_steps = steps;
}

// An option that the optimizer or the schedule does not look at would be thought to work.
static shoal_status_t check_used(const cli_model_options_t *options) {
  static const char *const momentum[] = {"sgd", "muon", NULL}, *const step[] = {"step", NULL},
                           *const wsd[] = {"wsd", NULL}, *const betas[] = {"adamw", "adam", "lion",
                                                                           "lamb",  "muon", NULL},
                           *const ends[] = {"linear", "cosine", "wsd", NULL};
  const cli_recipe_options_t *o = &options->recipe;
  const char *optimizer = options->sgd ? "sgd" : o->optimizer ? o->optimizer : "adamw";
  const char *schedule = o->lr_schedule ? o->lr_schedule : "constant";
  const struct {
    bool given;
    const char *name, *const *users, *of, *hint;
  } rows[] = {
      {o->momentum != 0, "--momentum", momentum, optimizer, "sgd and muon have it: --optimizer"},
      {o->nesterov != 0, "--nesterov", momentum, optimizer, "sgd and muon have it: --optimizer"},
      {o->beta1 != 0, "--beta1", betas, optimizer, "adam and its like have it; sgd has --momentum"},
      {o->beta2 != 0, "--beta2", betas, optimizer, "adam and its like have it; sgd has --momentum"},
      {o->gamma != 0, "--gamma", step, schedule, "it is for --lr-schedule step"},
      {o->decay_every != 0, "--decay-every", step, schedule, "it is for --lr-schedule step"},
      {o->decay_steps != 0, "--decay-steps", wsd, schedule, "it is for --lr-schedule wsd"},
      {o->last_factor != 0, "--last-factor", ends, schedule, "linear, cosine and wsd have it"},
      {o->lr_schedule_steps != 0, "--lr-schedule-steps", limited, schedule,
       "linear, cosine, wsd and one_cycle have it: --lr-schedule"}};
  if (o->clip_before && o->clip_norm == 0 && o->clip_max == 0)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give the limit: --clip-norm 1",
                            "--clip-before has no effect without --clip-norm or --clip-max");
  const bool mixed = o->group.count > 0;  // whose parameters may have another optimizer
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    if (!rows[i].given || is_one_of(rows[i].of, rows[i].users)) continue;
    if (rows[i].of == optimizer && mixed) continue;
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, rows[i].hint, "%s has no effect with %s '%s'",
                            rows[i].name, rows[i].of == optimizer ? "optimizer" : "lr_schedule",
                            rows[i].of);
  }
  return NULL;
}

shoal_status_t cli_recipe_make(const cli_model_options_t *options, shoal_arena_t *arena,
                               shoal_recipe_t *out_recipe) {
  const cli_recipe_options_t *o = &options->recipe;
  const int64_t count = o->group.count + o->freeze.count;
  shoal_parameter_group_t *groups = SHOAL_NEW(arena, shoal_parameter_group_t, count);
  if (!groups) return SHOAL_OOM();
  for (int64_t i = 0; i < o->group.count; ++i)
    SHOAL_RETURN_IF_ERROR(parse_group(o->group.items[i], arena, &groups[i]));
  for (int64_t i = 0; i < o->freeze.count; ++i)
    groups[o->group.count + i] =
        (shoal_parameter_group_t){.pattern = o->freeze.items[i], .frozen = true};
  if (options->sgd && o->optimizer && strcmp(o->optimizer, "sgd") != 0)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give one of them",
                            "--sgd and --optimizer %s do not go together", o->optimizer);
  SHOAL_RETURN_IF_ERROR(check_used(options));
  *out_recipe = (shoal_recipe_t){
      .optimizer = options->sgd ? "sgd" : o->optimizer,
      .lr = options->lr,
      .eps = options->eps,
      .weight_decay = o->weight_decay,
      .momentum = o->momentum,
      .beta1 = o->beta1,
      .beta2 = o->beta2,
      .nesterov = (shoal_switch_t)o->nesterov,
      .lr_schedule = {.kind = o->lr_schedule,
                      .warmup = o->warmup,
                      .steps = o->lr_schedule_steps,
                      .last_factor = o->last_factor,
                      .decay_every = o->decay_every,
                      .gamma = o->gamma,
                      .decay_steps = o->decay_steps,
                      .curve = o->curve},
      .training = {.clip_norm = o->clip_norm,
                   .clip_max = o->clip_max,
                   .clip_before = o->clip_before,
                   .average = o->average,
                   .loss_scale = o->loss_scale},
      .groups = groups,
      .group_count = (int32_t)count,
  };
  return NULL;
}

// ---- what checkpoints keep ------------------------------------------------------------

typedef struct only_model {
  cli_model_options_t model;
} only_model_t;

static const shoal_option_t kept_table[] = {
    CLI_RECIPE_OPTIONS(only_model_t, CLI_RECIPE_OPTION),
    CLI_MODEL_OPTION(only_model_t, REAL, eps, NULL, ""),
    CLI_MODEL_OPTION(only_model_t, BOOL, sgd, NULL, ""),
    CLI_MODEL_OPTION(only_model_t, INT, seed, NULL, ""),
    CLI_MODEL_OPTION(only_model_t, STRING, dtype, NULL, "")};
#define KEPT_COUNT ((int64_t)(sizeof kept_table / sizeof kept_table[0]))

static const char *value_of(const shoal_option_t *row, const void *options, shoal_arena_t *arena) {
  const void *field = (const char *)options + row->offset;
  switch (row->kind) {
    case SHOAL_OPTION_BOOL:
      return *(const bool *)field ? "true" : "false";
    case SHOAL_OPTION_REAL:
      return cli_format(arena, "%g", *(const double *)field);
    case SHOAL_OPTION_STRING:
      return *(const char *const *)field ? *(const char *const *)field : "default";
    case SHOAL_OPTION_ENUM:
      return row->choices[*(const int *)field];
    case SHOAL_OPTION_STRINGS: {
      const shoal_words_t *words = field;
      const char *text = words->count ? words->items[0] : "none";
      for (int64_t i = 1; i < words->count && text; ++i)
        text = cli_format(arena, "%s %s", text, words->items[i]);
      return text;
    }
    default:
      return cli_format(arena, "%lld", (long long)*(const int64_t *)field);
  }
}

const char *cli_option_word(const shoal_option_t *row, const void *options, shoal_arena_t *arena) {
  const char *value = value_of(row, options, arena);
  return value ? cli_format(arena, "%s=%s", row->name, value) : NULL;
}

shoal_status_t cli_recipe_settings(const cli_model_options_t *options, int64_t batch,
                                   const char *const *more, shoal_arena_t *arena,
                                   const char *const **out_settings) {
  int64_t count = 0, others = 0;
  while (more[others]) ++others;
  const char **settings = SHOAL_NEW(arena, const char *, KEPT_COUNT + others + 2);
  if (!settings) return SHOAL_OOM();
  for (int64_t i = 0; i < KEPT_COUNT; ++i)
    settings[count++] = cli_option_word(&kept_table[i], options, arena);
  settings[count++] = cli_format(arena, "batch=%lld", (long long)batch);
  for (int64_t i = 0; i < count; ++i)
    if (!settings[i]) return SHOAL_OOM();
  for (int64_t i = 0; i < others; ++i) settings[count++] = more[i];
  *out_settings = settings;
  return NULL;
}
