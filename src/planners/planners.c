// The table of strategies, the context that they write their intent into, and shoal_plan_make.
#include "planners/planners.h"

#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "planners/annotated.h"
#include "shoal/options.h"

static const shoal_strategy_t native[] = {
#define SHOAL_STRATEGY(id_, name_, axes_, doc_) \
  {.name = name_, .doc = doc_, .plan = shoal_strategy_##id_, .axes = axes_},
#include "planners/strategies.inc"
#undef SHOAL_STRATEGY
};
#define NATIVE_COUNT ((int64_t)(sizeof native / sizeof native[0]))

struct shoal_strategies {
  shoal_allocator_t allocator;
  shoal_arena_t arena;
  SHOAL_VEC(shoal_strategy_t) users;
};

shoal_status_t shoal_strategies_create(shoal_allocator_t allocator,
                                       shoal_strategies_t **out_strategies) {
  *out_strategies = NULL;
  if (!allocator.alloc) allocator = shoal_allocator_system();
  shoal_strategies_t *strategies = allocator.alloc(allocator.self, sizeof *strategies);
  if (!strategies) return SHOAL_OOM();
  *strategies = (shoal_strategies_t){.allocator = allocator};
  shoal_arena_init(allocator, &strategies->arena);
  *out_strategies = strategies;
  return NULL;
}

void shoal_strategies_free(shoal_strategies_t *strategies) {
  if (!strategies) return;
  shoal_allocator_t allocator = strategies->allocator;
  shoal_arena_deinit(&strategies->arena);
  allocator.free(allocator.self, strategies);
}

int64_t shoal_strategies_count(const shoal_strategies_t *strategies) {
  return NATIVE_COUNT + (strategies ? strategies->users.count : 0);
}

const shoal_strategy_t *shoal_strategies_get(const shoal_strategies_t *strategies, int64_t index) {
  if (index < 0 || index >= shoal_strategies_count(strategies)) return NULL;
  return index < NATIVE_COUNT ? &native[index] : &strategies->users.items[index - NATIVE_COUNT];
}

static const shoal_strategy_t *find(const shoal_strategies_t *strategies, const char *name) {
  for (int64_t i = 0; i < shoal_strategies_count(strategies); ++i)
    if (strcmp(shoal_strategies_get(strategies, i)->name, name) == 0)
      return shoal_strategies_get(strategies, i);
  return NULL;
}

shoal_status_t shoal_strategy_register(shoal_strategies_t *strategies,
                                       const shoal_strategy_t *strategy) {
  if (!strategy->name || !strategy->plan)
    return SHOAL_ERROR(INVALID_ARGUMENT, "a strategy needs a name and a plan function");
  if (strchr(strategy->name, '+'))
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "'+' stands between strategies that are combined",
                            "a strategy cannot be called '%s'", strategy->name);
  if (find(strategies, strategy->name))
    return SHOAL_ERROR(INVALID_ARGUMENT, "there is a strategy '%s' already", strategy->name);
  if (!SHOAL_PUSH(&strategies->arena, &strategies->users, *strategy)) return SHOAL_OOM();
  return NULL;
}

// Runs the strategy and completes its intent.
static shoal_status_t make(const shoal_model_t *model, shoal_rules_t *rules,
                           const shoal_plan_options_t *options, shoal_arena_t *arena,
                           shoal_plan_t **out_plan) {
  shoal_strategy_context_t context = {
      .model = model, .rules = rules, .options = options, .arena = arena};
  shoal_strategy_list_t list = {0};
  shoal_index_init(arena, &context.named);
  SHOAL_RETURN_IF_ERROR(shoal_strategies_list(options, arena, &list));
  SHOAL_RETURN_IF_ERROR(shoal_strategies_run(&list, &context));
  SHOAL_RETURN_IF_ERROR(shoal_context_constrain(&context));
  for (int64_t i = 0; i < options->layout_count; ++i)
    SHOAL_RETURN_IF_ERROR(
        shoal_context_layout(&context, options->layouts[i].pattern, options->layouts[i].value));
  for (int64_t i = 0; i < options->decision_count; ++i)
    SHOAL_RETURN_IF_ERROR(shoal_context_add_decision(&context, &options->decisions[i]));
  const shoal_intent_t intent = {.strategy = options->strategy,
                                 .mesh_count = context.meshes.count,
                                 .meshes = context.meshes.items,
                                 .layout_count = context.layouts.count,
                                 .layouts = context.layouts.items,
                                 .stage_count = context.stages.count,
                                 .stages = context.stages.items,
                                 .expand_count = context.expand.count,
                                 .expand = context.expand.items,
                                 .decision_count = context.decisions.count,
                                 .decisions = context.decisions.items};
  return shoal_plan_create(model, rules, &intent, options->world, options->allocator, out_plan);
}

static bool is_native(const shoal_strategy_list_t *list) {
  for (int64_t i = 0; i < list->count; ++i)
    if (list->items[i] < native || list->items[i] >= native + NATIVE_COUNT) return false;
  return true;
}

static shoal_status_t make_or_find(const shoal_model_t *model, shoal_rules_t *rules,
                                   const shoal_plan_options_t *options, shoal_arena_t *arena,
                                   shoal_plan_t **out_plan) {
  shoal_cache_note_t ignored, *note = options->cache_note ? options->cache_note : &ignored;
  *note = (shoal_cache_note_t){0};
  shoal_strategy_list_t list = {0};
  SHOAL_RETURN_IF_ERROR(shoal_strategies_list(options, arena, &list));
  if (!options->cache || !options->cache[0] || !is_native(&list))
    return make(model, rules, options, arena, out_plan);
  const char *path;
  SHOAL_RETURN_IF_ERROR(shoal_cache_open(model, options, arena, &path));
  SHOAL_RETURN_IF_ERROR(shoal_cache_read(path, model, rules, options, arena, note, out_plan));
  if (*out_plan) return NULL;
  SHOAL_RETURN_IF_ERROR(make(model, rules, options, arena, out_plan));
  shoal_status_t status = shoal_cache_write(path, *out_plan, options, arena, note);
  if (!status) return NULL;
  shoal_plan_free(*out_plan);
  *out_plan = NULL;
  return status;
}

shoal_status_t shoal_plan_make(const shoal_model_t *model, shoal_rules_t *rules,
                               const shoal_plan_options_t *options, shoal_plan_t **out_plan) {
  *out_plan = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_model_status(model));
  if (options->world < 1) return SHOAL_ERROR(INVALID_ARGUMENT, "a plan needs at least one rank");
  shoal_plan_options_t filled = *options;
  if (!filled.strategy) filled.strategy = shoal_model_is_annotated(model) ? "annotated" : "auto";
  if (!filled.allocator.alloc) filled.allocator = shoal_allocator_system();
  shoal_arena_t arena;
  shoal_arena_init(filled.allocator, &arena);
  shoal_status_t status =
      shoal_choices_decide(model, &options->choices, options->decision_count, options->decisions,
                           &arena, &filled.decision_count, &filled.decisions);
  if (!status) status = make_or_find(model, rules, &filled, &arena, out_plan);
  shoal_arena_deinit(&arena);
  if (status) return shoal_status_annotatef(status, "strategy '%s'", filled.strategy);
  return NULL;
}
