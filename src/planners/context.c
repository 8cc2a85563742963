// The context of a strategy: what it sees, and the intent that it writes.
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "base/text.h"
#include "planners/planners.h"

const shoal_model_t *shoal_context_model(const shoal_strategy_context_t *context) {
  return context->model;
}

const shoal_plan_options_t *shoal_context_options(const shoal_strategy_context_t *context) {
  return context->options;
}

shoal_status_t shoal_context_mesh(shoal_strategy_context_t *context, const char *mesh) {
  const char *copy = shoal_arena_strdup(context->arena, mesh);
  if (!copy || !SHOAL_PUSH(context->arena, &context->meshes, copy)) return SHOAL_OOM();
  return NULL;
}

static shoal_status_t copy_entry(shoal_strategy_context_t *context, const char *pattern,
                                 const char *value, shoal_intent_entry_t *out_entry) {
  out_entry->pattern = shoal_arena_strdup(context->arena, pattern);
  out_entry->value = shoal_arena_strdup(context->arena, value);
  return out_entry->pattern && out_entry->value ? NULL : SHOAL_OOM();
}

shoal_status_t shoal_context_layout(shoal_strategy_context_t *context, const char *pattern,
                                    const char *layout) {
  shoal_intent_entry_t entry;
  const int64_t number = context->layouts.count;
  SHOAL_RETURN_IF_ERROR(copy_entry(context, pattern, layout, &entry));
  if (!SHOAL_PUSH(context->arena, &context->layouts, entry)) return SHOAL_OOM();
  const bool kept =
      shoal_pattern_is(pattern)
          ? SHOAL_PUSH(context->arena, &context->patterns, number)
          : shoal_index_add(&context->named, shoal_hash_string(SHOAL_HASH_START, pattern), number);
  return kept ? NULL : SHOAL_OOM();
}

// The number of the entry that says how `name` lies so far; -1: none does.
static int64_t find_layout(const shoal_strategy_context_t *context, const char *name) {
  int64_t best = -1;
  const uint64_t hash = shoal_hash_string(SHOAL_HASH_START, name);
  for (int64_t at = -1, n; (n = shoal_index_next(&context->named, hash, &at)) >= 0;)
    if (n > best && strcmp(context->layouts.items[n].pattern, name) == 0) best = n;
  for (int64_t i = context->patterns.count; i-- > 0 && context->patterns.items[i] > best;)
    if (shoal_pattern_match(context->layouts.items[context->patterns.items[i]].pattern, name))
      best = context->patterns.items[i];
  return best;
}

bool shoal_context_has_layout(const shoal_strategy_context_t *context, const char *name) {
  return find_layout(context, name) >= 0;
}

shoal_status_t shoal_context_layout_of(const shoal_strategy_context_t *context, const char *name,
                                       const char **out_layout) {
  const shoal_model_t *model = context->model;
  int64_t entry = find_layout(context, name);
  const char *hash = strchr(name, '#');
  *out_layout = "";
  if (entry < 0 && hash) {
    const char *base = shoal_arena_printf(context->arena, "%.*s", (int)(hash - name), name);
    if (!base) return SHOAL_OOM();
    const int32_t state = shoal_model_find_state(model, name);
    const int32_t owner = shoal_model_find_state(model, base);
    if (state >= 0 && owner >= 0 &&
        shoal_shape_equal(&model->states.items[state].type.shape,
                          &model->states.items[owner].type.shape))
      entry = find_layout(context, base);
  }
  if (entry >= 0) *out_layout = context->layouts.items[entry].value;
  return NULL;
}

// The cuts of a layout's text one by one; commas inside brackets separate chunks or weights.
static bool next_cut(const char **text, const char **out_start, size_t *out_length) {
  const char *at = *text;
  int depth = 0;
  if (!*at) return false;
  for (; *at && (*at != ',' || depth > 0); ++at) depth += (*at == '(') - (*at == ')');
  *out_start = *text;
  *out_length = (size_t)(at - *text);
  *text = *at ? at + 1 : at;
  return true;
}

static bool is_flat(const char *cut, size_t length) {
  return length > 5 && memcmp(cut + length - 5, ":flat", 5) == 0;
}

// Does `text` cut along the axis that this cut is about?
static bool cuts_along(const char *text, const char *cut, size_t length) {
  const char *colon = memchr(cut, ':', length), *start;
  const size_t axis = colon ? (size_t)(colon - cut) + 1 : length;
  for (size_t n; next_cut(&text, &start, &n);)
    if (n >= axis && memcmp(start, cut, axis) == 0) return true;
  return false;
}

shoal_status_t shoal_context_cut(shoal_strategy_context_t *context, const char *name,
                                 const char *cuts) {
  const char *old, *start;
  SHOAL_RETURN_IF_ERROR(shoal_context_layout_of(context, name, &old));
  char *text = shoal_arena_strdup(context->arena, "");
  for (int flat = 0; flat < 2; ++flat)  // a flat cut comes last: it counts what the others leave
    for (int added = 0; added < 2; ++added) {
      const char *rest = added ? cuts : old;
      for (size_t length; next_cut(&rest, &start, &length) && text;) {
        if (is_flat(start, length) != flat || (!added && cuts_along(cuts, start, length))) continue;
        text = shoal_arena_printf(context->arena, "%s%s%.*s", text, text[0] ? "," : "", (int)length,
                                  start);
      }
    }
  if (!text) return SHOAL_OOM();
  const int64_t own = find_layout(context, name);
  if (own < 0 || strcmp(context->layouts.items[own].pattern, name) != 0)
    return shoal_context_layout(context, name, text);
  context->layouts.items[own].value = text;
  return NULL;
}

int64_t shoal_context_axis(const shoal_strategy_context_t *context, const char *axis) {
  const int32_t index = shoal_mesh_axis(&context->mesh, axis);
  return index >= 0 ? context->mesh.axes[index].size : 0;
}

shoal_status_t shoal_context_stage(shoal_strategy_context_t *context, const char *pattern,
                                   const char *mesh) {
  shoal_intent_entry_t entry;
  SHOAL_RETURN_IF_ERROR(copy_entry(context, pattern, mesh, &entry));
  return SHOAL_PUSH(context->arena, &context->stages, entry) ? NULL : SHOAL_OOM();
}

shoal_status_t shoal_context_expand(shoal_strategy_context_t *context, const char *pattern) {
  const char *copy = shoal_arena_strdup(context->arena, pattern);
  if (!copy || !SHOAL_PUSH(context->arena, &context->expand, copy)) return SHOAL_OOM();
  return NULL;
}

shoal_status_t shoal_context_add_decision(shoal_strategy_context_t *context,
                                          const shoal_intent_decision_t *from) {
  const char *texts[] = {from->kind, from->pattern, from->choice, from->by, from->reason};
  for (int i = 0; i < 5; ++i)
    if (texts[i] && !(texts[i] = shoal_arena_strdup(context->arena, texts[i]))) return SHOAL_OOM();
  const shoal_intent_decision_t copy = {texts[0], texts[1], texts[2], texts[3], texts[4]};
  return SHOAL_PUSH(context->arena, &context->decisions, copy) ? NULL : SHOAL_OOM();
}

shoal_status_t shoal_context_decide(shoal_strategy_context_t *context, const char *kind,
                                    const char *pattern, const char *choice, const char *reason) {
  const shoal_intent_decision_t decision = {kind, pattern, choice, context->running->name, reason};
  return shoal_context_add_decision(context, &decision);
}
