// Several strategies in one plan: "tensor+zero1" on the mesh "data=2,tensor=2" (planners.h).
#include <ctype.h>
#include <string.h>

#include "base/status.h"
#include "planners/annotated.h"
#include "planners/batch.h"
#include "shoal/options.h"

typedef SHOAL_VEC(const char *) shoal_names_t;

// ---- the list --------------------------------------------------------------------------

static shoal_status_t unknown_strategy(const shoal_plan_options_t *options, const char *name,
                                       shoal_arena_t *arena) {
  SHOAL_VEC(const char *) names = {0};
  for (int64_t i = 0; i < shoal_strategies_count(options->strategies); ++i)
    if (!SHOAL_PUSH(arena, &names, shoal_strategies_get(options->strategies, i)->name))
      return SHOAL_OOM();
  shoal_hint_t hint;
  return SHOAL_ERROR_HINT(
      NOT_FOUND,
      shoal_did_you_mean(name, names.items, names.count, "`shoal strategies` lists them", &hint),
      "there is no strategy '%s'", name);
}

// Is `word` the name, or one of the names that commas separate?
static bool is_among(const char *list, char separator, const char *word) {
  const size_t length = strlen(word);
  for (const char *at = list; at && *at;) {
    const char *end = strchr(at, separator);
    if ((end ? (size_t)(end - at) : strlen(at)) == length && memcmp(at, word, length) == 0)
      return true;
    at = end ? end + 1 : NULL;
  }
  return false;
}

shoal_status_t shoal_strategies_list(const shoal_plan_options_t *options, shoal_arena_t *arena,
                                     shoal_strategy_list_t *out_list) {
  const int64_t count = shoal_strategies_count(options->strategies);
  *out_list = (shoal_strategy_list_t){0};
  for (const char *at = options->strategy; at;) {
    const char *plus = strchr(at, '+');
    const char *name = plus ? shoal_arena_printf(arena, "%.*s", (int)(plus - at), at) : at;
    if (!name) return SHOAL_OOM();
    bool known = false;
    for (int64_t i = 0; i < count; ++i)
      known |= strcmp(shoal_strategies_get(options->strategies, i)->name, name) == 0;
    if (!known) return unknown_strategy(options, name, arena);
    at = plus ? plus + 1 : NULL;
  }
  for (int64_t i = 0; i < count; ++i) {
    const shoal_strategy_t *strategy = shoal_strategies_get(options->strategies, i);
    if (!is_among(options->strategy, '+', strategy->name)) continue;
    if (!SHOAL_PUSH(arena, out_list, strategy)) return SHOAL_OOM();
  }
  for (int64_t i = 0; i < out_list->count && out_list->count > 1; ++i)
    if (!out_list->items[i]->axes)
      return SHOAL_ERROR_HINT(
          INVALID_ARGUMENT, "name it alone, or leave it out",
          "strategy '%s' plans the whole mesh: it cannot be combined with others",
          out_list->items[i]->name);
  return NULL;
}

// ---- the mesh --------------------------------------------------------------------------

// The usual axis of a strategy: the first it speaks of.
static size_t usual_axis(const shoal_strategy_t *strategy) {
  return strcspn(strategy->axes, ",");
}

// The mesh that was asked for, or all ranks on the one axis that the strategies have in common.
static shoal_status_t make_mesh(const shoal_strategy_list_t *list,
                                shoal_strategy_context_t *context) {
  const char *text = context->options->mesh;
  const shoal_strategy_t *first = list->items[0];
  const bool open = !text || (strncmp(text, "micro=", 6) == 0 && !strchr(text, ','));
  if (open && is_among(context->options->strategy, '+', "annotated"))
    SHOAL_RETURN_IF_ERROR(shoal_annotated_mesh(context, &text));
  for (int64_t i = 1; i < list->count && !text; ++i) {
    const shoal_strategy_t *other = list->items[i];
    if (usual_axis(other) != usual_axis(first) ||
        memcmp(other->axes, first->axes, usual_axis(first)) != 0)
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give a mesh, like --mesh data=2,tensor=2",
                              "nothing says how many ranks '%s' and '%s' get", first->name,
                              other->name);
  }
  if (!text)
    text = shoal_arena_printf(context->arena, "%.*s=%d", (int)usual_axis(first), first->axes,
                              context->options->world);
  if (!text) return SHOAL_OOM();
  return shoal_mesh_parse(text, context->arena, &context->mesh);
}

// Every strategy finds an axis of its own.
static shoal_status_t check_axes(const shoal_strategy_list_t *list,
                                 const shoal_strategy_context_t *context) {
  for (int64_t i = 0; i < list->count; ++i) {
    const shoal_strategy_t *strategy = list->items[i];
    const int length = (int)usual_axis(strategy);
    bool any = false;
    for (int32_t a = 0; a < context->mesh.axis_count; ++a)
      any |= is_among(strategy->axes, ',', context->mesh.axes[a].name);
    if (any) continue;
    const char *hint = shoal_arena_printf(context->arena, "name an axis %.*s: %.*s=2", length,
                                          strategy->axes, length, strategy->axes);
    const char *mesh = NULL;  // the one that is planned for: perhaps none was given
    SHOAL_RETURN_IF_ERROR(shoal_mesh_print(&context->mesh, context->arena, &mesh));
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, hint, "the mesh '%s' has no axis '%.*s'", mesh,
                            length, strategy->axes);
  }
  return NULL;
}

// The list with those that axes bring in, in the order of the table.
static shoal_status_t complete(const shoal_strategy_list_t *list, shoal_strategy_context_t *context,
                               shoal_strategy_list_t *out_all) {
  const shoal_strategies_t *table = context->options->strategies;
  uint32_t spoken = 0;  // of the mesh's axes
  for (int32_t a = 0; a < context->mesh.axis_count; ++a)
    for (int64_t i = 0; i < list->count; ++i)
      if (is_among(list->items[i]->axes, ',', context->mesh.axes[a].name)) spoken |= 1u << a;
  for (int64_t s = 0; s < shoal_strategies_count(table); ++s) {
    const shoal_strategy_t *strategy = shoal_strategies_get(table, s);
    bool wanted = false;
    for (int64_t i = 0; i < list->count; ++i) wanted |= list->items[i] == strategy;
    for (int32_t a = 0; a < context->mesh.axis_count; ++a)
      if (!(spoken >> a & 1) && strategy->axes &&
          is_among(strategy->axes, ',', context->mesh.axes[a].name))
        wanted = true, spoken |= 1u << a;
    if (wanted && !SHOAL_PUSH(context->arena, out_all, strategy)) return SHOAL_OOM();
  }
  return NULL;
}

// Does a layout ("foo:0") or a decision ("foo={a:0 -> out:0}") speak of the axis?
static bool mentions(const char *text, const char *axis) {
  const size_t length = strlen(axis);
  for (const char *at = text; at && (at = strstr(at, axis)); at += length) {
    const bool begins = at == text || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
    if (begins && (at[length] == ':' || at[length] == '=')) return true;
  }
  return false;
}

static bool is_used(const shoal_plan_options_t *options, const char *axis) {
  bool used = false;
  for (int64_t i = 0; i < options->layout_count; ++i)
    used |= mentions(options->layouts[i].value, axis);
  for (int64_t i = 0; i < options->decision_count; ++i)
    used |= mentions(options->decisions[i].choice, axis);
  return used;
}

const shoal_strategy_t *shoal_strategies_of_mesh(const shoal_strategies_t *strategies,
                                                 const shoal_mesh_t *mesh) {
  for (int64_t s = 0; s < shoal_strategies_count(strategies); ++s)
    for (int32_t a = 0; a < mesh->axis_count; ++a)
      if (is_among(shoal_strategies_get(strategies, s)->axes, ',', mesh->axes[a].name))
        return shoal_strategies_get(strategies, s);
  return NULL;
}

// The names of all axes that strategies speak of.
static shoal_status_t list_axes(const shoal_strategies_t *table, shoal_arena_t *arena,
                                shoal_names_t *out_names) {
  for (int64_t s = 0; s < shoal_strategies_count(table); ++s) {
    const char *at = shoal_strategies_get(table, s)->axes;
    for (size_t length; at && *at; at += length + (at[length] == ',')) {
      length = strcspn(at, ",");
      const char *name = shoal_arena_printf(arena, "%.*s", (int)length, at);
      bool known = false;
      for (int64_t i = 0; i < out_names->count && name; ++i)
        known |= strcmp(out_names->items[i], name) == 0;
      if (!name || (!known && !SHOAL_PUSH(arena, out_names, name))) return SHOAL_OOM();
    }
  }
  return SHOAL_PUSH(arena, out_names, "micro") ? NULL : SHOAL_OOM();
}

shoal_status_t shoal_strategies_check_axes(const shoal_strategy_list_t *all,
                                           const shoal_plan_options_t *options,
                                           const shoal_mesh_t *mesh, shoal_arena_t *arena) {
  for (int32_t a = 0; a < mesh->axis_count; ++a) {
    const char *axis = mesh->axes[a].name;
    bool spoken = is_used(options, axis);
    for (int64_t i = 0; i < all->count; ++i) spoken |= is_among(all->items[i]->axes, ',', axis);
    if (spoken) continue;
    shoal_names_t names = {0};
    SHOAL_RETURN_IF_ERROR(list_axes(options->strategies, arena, &names));
    const char *otherwise =
        shoal_arena_printf(arena,
                           "say what lies along it (--layouts 'x=%s:0'), or leave it out; `shoal "
                           "strategies` lists the axes of each",
                           axis);
    if (!otherwise) return SHOAL_OOM();
    shoal_hint_t hint;
    return SHOAL_ERROR_HINT(
        INVALID_ARGUMENT, shoal_did_you_mean(axis, names.items, names.count, otherwise, &hint),
        "no strategy speaks of axis '%s' of the mesh '%s': its ranks would all do the same work",
        axis, options->mesh);
  }
  return NULL;
}

static shoal_status_t run(const shoal_strategy_t *strategy, shoal_strategy_context_t *context) {
  context->running = strategy;
  return strategy->plan(context, strategy->user_data);
}

// What is to be balanced are the stages that a strategy makes.
static shoal_status_t check_balance(const shoal_strategy_list_t *all,
                                    const shoal_plan_options_t *options) {
  bool stages = false;
  for (int64_t i = 0; i < all->count; ++i)
    stages |= is_among(all->items[i]->axes, ',', "pipe") ||
              all->items[i]->plan == shoal_strategy_auto;  // which asks its candidates
  for (int64_t i = 0; i < options->decision_count && !stages; ++i)
    if (strcmp(options->decisions[i].kind, "balance") == 0)
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                              "stages come from strategy pipeline, --mesh pipe=2,micro=4",
                              "there are no stages to balance by %s", options->decisions[i].choice);
  return NULL;
}

shoal_status_t shoal_strategies_run(const shoal_strategy_list_t *list,
                                    shoal_strategy_context_t *context) {
  if (!list->items[0]->axes) {
    SHOAL_RETURN_IF_ERROR(check_balance(list, context->options));
    return run(list->items[0], context);
  }
  SHOAL_RETURN_IF_ERROR(make_mesh(list, context));
  SHOAL_RETURN_IF_ERROR(check_axes(list, context));
  shoal_strategy_list_t all = {0};
  SHOAL_RETURN_IF_ERROR(complete(list, context, &all));
  SHOAL_RETURN_IF_ERROR(
      shoal_strategies_check_axes(&all, context->options, &context->mesh, context->arena));
  SHOAL_RETURN_IF_ERROR(check_balance(&all, context->options));
  if (context->mesh.micro > 1) SHOAL_RETURN_IF_ERROR(shoal_strategy_cut_inputs(context, "micro:0"));
  for (int64_t i = 0; i < all.count; ++i) {
    shoal_status_t status = run(all.items[i], context);
    if (status && list->count + all.count > 2)
      status = shoal_status_annotatef(status, "'%s'", all.items[i]->name);
    if (status) return status;
  }
  if (context->meshes.count > 0) return NULL;  // a strategy has meshes of its own
  const char *text = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_mesh_print(&context->mesh, context->arena, &text));
  return shoal_context_mesh(context, text);
}
