// Plans by strategies, instead of drawn ones: a mesh of one to three axes, each of which some
// strategy speaks of, and what these make of the case's model. Their intent becomes the case's, as
// if it had been drawn, so that a case's text says all.
#include <string.h>

#include "base/status.h"
#include "explore/generate.h"
#include "shoal/planners.h"

typedef shoal_generator_t gen_t;

enum { MOST_RANKS = 8 };

// The strategy's usual axis, as "height"; NULL: it has none, or memory is short.
static const char *usual_axis(gen_t *g, const shoal_strategy_t *strategy) {
  if (!strategy->axes) return NULL;
  return shoal_arena_printf(g->arena, "%.*s", (int)strcspn(strategy->axes, ","), strategy->axes);
}

static const shoal_strategy_t *draw_strategy(gen_t *g, const char *const *wanted) {
  const shoal_strategy_t *strategy = NULL;
  const int64_t count = shoal_strategies_count(NULL);
  int64_t names = 0;
  while (wanted[names]) ++names;
  const char *name = names ? wanted[shoal_roll(g, names)] : NULL;
  for (int64_t i = 0; i < count && name; ++i)
    if (strcmp(shoal_strategies_get(NULL, i)->name, name) == 0)
      strategy = shoal_strategies_get(NULL, i);
  while (!strategy || !strategy->axes) strategy = shoal_strategies_get(NULL, shoal_roll(g, count));
  return strategy;
}

// "data=2,height=3": the axis of the strategy, and perhaps others'.
static const char *draw_mesh(gen_t *g, const char *axis, int64_t *out_ranks) {
  const char *axes[3] = {axis};
  int64_t ranks = 2 + shoal_roll(g, 4), count = 1;
  char *text = shoal_arena_printf(g->arena, "%s=%lld", axis, (long long)ranks);
  while (text && count < 3 && ranks * 2 <= MOST_RANKS && shoal_chance(g, 45)) {
    static const char *const none[] = {NULL};
    const char *other = usual_axis(g, draw_strategy(g, none));
    const int64_t size = ranks * 3 <= MOST_RANKS && shoal_chance(g, 30) ? 3 : 2;
    bool known = !other;
    for (int64_t i = 0; i < count && !known; ++i) known = strcmp(axes[i], other) == 0;
    if (known) break;
    text = shoal_chance(g, 50)
               ? shoal_arena_printf(g->arena, "%s=%lld,%s", other, (long long)size, text)
               : shoal_arena_printf(g->arena, "%s,%s=%lld", text, other, (long long)size);
    axes[count++] = other;
    ranks *= size;
  }
  *out_ranks = ranks;
  return text && shoal_chance(g, 25) ? shoal_arena_printf(g->arena, "%s,micro=2", text) : text;
}

static bool copy_entries(gen_t *g, int64_t count, const shoal_intent_entry_t *from, bool stages) {
  bool ok = true;
  for (int64_t i = 0; i < count && ok; ++i) {
    const shoal_intent_entry_t entry = {shoal_arena_strdup(g->arena, from[i].pattern),
                                        shoal_arena_strdup(g->arena, from[i].value)};
    ok = entry.pattern && entry.value &&
         (stages ? SHOAL_PUSH(g->arena, &g->c->stages, entry)
                 : SHOAL_PUSH(g->arena, &g->c->pins, entry));
  }
  return ok;
}

static shoal_status_t copy_intent(gen_t *g, const shoal_intent_t *intent) {
  bool ok = copy_entries(g, intent->layout_count, intent->layouts, false) &&
            copy_entries(g, intent->stage_count, intent->stages, true);
  for (int64_t i = 0; i < intent->mesh_count && ok; ++i) {
    const char *mesh = shoal_arena_strdup(g->arena, intent->meshes[i]);
    ok = mesh && SHOAL_PUSH(g->arena, &g->c->meshes, mesh);
  }
  for (int64_t i = 0; i < intent->expand_count && ok; ++i) {
    const char *pattern = shoal_arena_strdup(g->arena, intent->expand[i]);
    ok = pattern && SHOAL_PUSH(g->arena, &g->c->expand, pattern);
  }
  for (int64_t i = 0; i < intent->decision_count && ok; ++i) {
    const shoal_intent_decision_t *from = &intent->decisions[i];
    const char *choice = shoal_arena_strdup(g->arena, from->choice);
    SHOAL_RETURN_IF_ERROR(shoal_generate_decide(g, from->kind, from->pattern, choice));
  }
  return ok ? NULL : SHOAL_OOM();
}

shoal_status_t shoal_generate_strategy(gen_t *g, const shoal_model_t *model,
                                       const char *const *wanted, bool *out_made) {
  const shoal_strategy_t *strategy = draw_strategy(g, wanted);
  const char *axis = usual_axis(g, strategy);
  int64_t ranks = 0;
  *out_made = false;
  const char *mesh = axis ? draw_mesh(g, axis, &ranks) : NULL;
  if (!mesh) return SHOAL_OOM();
  shoal_plan_t *plan = NULL;
  const shoal_plan_options_t options = {.allocator = g->arena->allocator,
                                        .strategy = strategy->name,
                                        .mesh = mesh,
                                        .world = (int32_t)ranks};
  shoal_status_t status = shoal_plan_make(model, g->rules, &options, &plan);
  const shoal_code_t code = shoal_status_code(status);
  if (status && code != SHOAL_UNSUPPORTED && code != SHOAL_INVALID_ARGUMENT) return status;
  shoal_status_free(status);  // the model has nothing of what it cuts: another plan
  if (!plan) return NULL;
  g->c->ranks = ranks;
  status = copy_intent(g, shoal_plan_intent(plan));
  shoal_plan_free(plan);
  *out_made = !status;
  return status;
}
