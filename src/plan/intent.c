// The intent of a plan: its deep copy, and an index of what it says about each name, by kind of
// decision. Entries of the intent's maps are decisions like those of its list, which come behind.
#include <string.h>

#include "base/status.h"
#include "plan/complete.h"

static shoal_status_t copy_entries(shoal_arena_t *arena, int64_t count,
                                   const shoal_intent_entry_t *entries,
                                   const shoal_intent_entry_t **out_entries) {
  shoal_intent_entry_t *copy = SHOAL_NEW(arena, shoal_intent_entry_t, count);
  if (!copy) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i) {
    copy[i].pattern = shoal_arena_strdup(arena, entries[i].pattern);
    copy[i].value = shoal_arena_strdup(arena, entries[i].value);
    if (!copy[i].pattern || !copy[i].value) return SHOAL_OOM();
  }
  *out_entries = copy;
  return NULL;
}

static shoal_status_t copy_strings(shoal_arena_t *arena, int64_t count, const char *const *strings,
                                   const char *const **out_strings) {
  const char **copy = SHOAL_NEW(arena, const char *, count);
  if (!copy) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i)
    if (!(copy[i] = shoal_arena_strdup(arena, strings[i]))) return SHOAL_OOM();
  *out_strings = copy;
  return NULL;
}

static shoal_status_t copy_decisions(shoal_arena_t *arena, const shoal_intent_t *intent,
                                     shoal_intent_t *out_intent) {
  shoal_intent_decision_t *copy = SHOAL_NEW(arena, shoal_intent_decision_t, intent->decision_count);
  if (!copy) return SHOAL_OOM();
  for (int64_t i = 0; i < intent->decision_count; ++i) {
    const shoal_intent_decision_t *from = &intent->decisions[i];
    if (!from->kind || !from->pattern || !from->choice)
      return SHOAL_ERROR(INVALID_ARGUMENT, "decision %lld needs a kind, a pattern and a choice",
                         (long long)i);
    copy[i] = (shoal_intent_decision_t){
        .kind = shoal_arena_strdup(arena, from->kind),
        .pattern = shoal_arena_strdup(arena, from->pattern),
        .choice = shoal_arena_strdup(arena, from->choice),
        .by = shoal_arena_strdup(arena, from->by ? from->by : "user"),
        .reason = shoal_arena_strdup(arena, from->reason ? from->reason : ""),
    };
    if (!copy[i].kind || !copy[i].pattern || !copy[i].choice || !copy[i].by || !copy[i].reason)
      return SHOAL_OOM();
  }
  out_intent->decisions = copy;
  return NULL;
}

shoal_status_t shoal_intent_copy(const shoal_intent_t *intent, shoal_arena_t *arena,
                                 shoal_intent_t *out_intent) {
  *out_intent = *intent;
  out_intent->strategy =
      shoal_arena_strdup(arena, intent->strategy ? intent->strategy : "explicit");
  if (!out_intent->strategy) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(
      copy_strings(arena, intent->mesh_count, intent->meshes, &out_intent->meshes));
  SHOAL_RETURN_IF_ERROR(
      copy_strings(arena, intent->expand_count, intent->expand, &out_intent->expand));
  SHOAL_RETURN_IF_ERROR(
      copy_entries(arena, intent->layout_count, intent->layouts, &out_intent->layouts));
  SHOAL_RETURN_IF_ERROR(
      copy_entries(arena, intent->stage_count, intent->stages, &out_intent->stages));
  return copy_decisions(arena, intent, out_intent);
}

// ---- by kind ---------------------------------------------------------------------------

typedef SHOAL_VEC(shoal_intent_decision_t) said_t;

static shoal_status_t say(shoal_arena_t *arena, said_t *said, const shoal_intent_decision_t *one) {
  return SHOAL_PUSH(arena, said, *one) ? NULL : SHOAL_OOM();
}

// All that the intent says of one kind, in order.
static shoal_status_t say_all(shoal_plan_t *plan, shoal_decide_t kind, said_t *said) {
  const shoal_intent_t *intent = &plan->intent;
  const char *name = shoal_decision_kind(kind)->name;
  const bool layouts = kind == SHOAL_DECIDE_LAYOUT, stages = kind == SHOAL_DECIDE_STAGE;
  const shoal_intent_entry_t *entries = layouts ? intent->layouts : intent->stages;
  const int64_t count = layouts ? intent->layout_count : stages ? intent->stage_count : 0;
  shoal_intent_decision_t one = {.kind = name, .by = intent->strategy, .reason = ""};
  for (int64_t i = 0; i < count; ++i) {
    one.pattern = entries[i].pattern;
    one.choice = entries[i].value;
    SHOAL_RETURN_IF_ERROR(say(&plan->arena, said, &one));
  }
  for (int64_t i = 0; kind == SHOAL_DECIDE_EXPAND && i < intent->expand_count; ++i) {
    one.pattern = intent->expand[i];
    one.choice = "yes";
    SHOAL_RETURN_IF_ERROR(say(&plan->arena, said, &one));
  }
  for (int64_t i = 0; i < intent->decision_count; ++i)
    if (strcmp(intent->decisions[i].kind, name) == 0)
      SHOAL_RETURN_IF_ERROR(say(&plan->arena, said, &intent->decisions[i]));
  return NULL;
}

shoal_status_t shoal_intent_index(shoal_plan_t *plan) {
  const shoal_intent_t *intent = &plan->intent;
  for (int64_t i = 0; i < intent->decision_count; ++i)
    SHOAL_RETURN_IF_ERROR(shoal_decision_check(&intent->decisions[i]));
  plan->patterns = SHOAL_NEW(&plan->arena, shoal_patterns_t, SHOAL_DECIDE_COUNT);
  if (!plan->patterns) return SHOAL_OOM();
  for (int k = 0; k < SHOAL_DECIDE_COUNT; ++k) {
    said_t said = {0};
    SHOAL_RETURN_IF_ERROR(say_all(plan, (shoal_decide_t)k, &said));
    SHOAL_RETURN_IF_ERROR(
        shoal_patterns_init(said.count, said.items, &plan->arena, &plan->patterns[k]));
  }
  return NULL;
}

const shoal_intent_decision_t *shoal_plan_decided(const shoal_plan_t *plan, shoal_decide_t kind,
                                                  const char *name) {
  return shoal_patterns_find(&plan->patterns[kind], name);
}

const shoal_intent_decision_t *shoal_plan_decided_value(const shoal_plan_t *plan,
                                                        const shoal_graph_t *graph,
                                                        const char *name) {
  return shoal_patterns_find_in(&plan->patterns[SHOAL_DECIDE_LAYOUT], graph->name, name);
}

const shoal_intent_decision_t *shoal_plan_decided_node(const shoal_plan_t *plan,
                                                       shoal_decide_t kind,
                                                       const shoal_graph_plan_t *graph,
                                                       int64_t node) {
  const shoal_intent_decision_t *own =
      shoal_plan_decided(plan, kind, graph->graph->nodes.items[node].name);
  const shoal_composite_t *owner = shoal_plan_owner(plan, graph, node);
  if (!owner) return own;
  const shoal_intent_decision_t *other =
      shoal_plan_decided(plan, kind, shoal_composite_node(plan, owner)->name);
  return !own || (other && other > own) ? other : own;  // later ones win
}
