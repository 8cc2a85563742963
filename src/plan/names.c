// Whether the patterns of an intent name anything: a typo must not silently replicate.
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "plan/complete.h"
#include "plan/kinds.h"
#include "shoal/options.h"

// The names that patterns are written for, so that a pattern without '*' is found at once.
typedef struct names {
  bool filled;
  shoal_index_t index;
  SHOAL_VEC(const char *) items;
} names_t;

typedef struct lookup {
  shoal_plan_t *plan;
  shoal_arena_t *arena;
  names_t names[SHOAL_OF_COUNT];
} lookup_t;

static bool add(lookup_t *lookup, names_t *names, const char *name) {
  return shoal_index_add(&names->index, shoal_hash_string(SHOAL_HASH_START, name),
                         names->items.count) &&
         SHOAL_PUSH(lookup->arena, &names->items, name);
}

static bool add_graph(lookup_t *lookup, names_t *names, shoal_of_t of, const shoal_graph_t *graph) {
  bool added = of != SHOAL_OF_GRAPH || add(lookup, names, graph->name);
  for (int64_t n = 0; of == SHOAL_OF_NODE && n < graph->nodes.count && added; ++n)
    added = add(lookup, names, graph->nodes.items[n].name);
  for (int64_t v = 0; of == SHOAL_OF_VALUE && v < graph->values.count && added; ++v)
    added = add(lookup, names, graph->values.items[v].name);
  for (int64_t o = 0; of == SHOAL_OF_OUTPUT && o < graph->outputs.count && added; ++o)
    added = add(lookup, names, graph->outputs.items[o].name);
  return added;
}

static bool add_all(lookup_t *lookup, names_t *names, shoal_of_t of, const shoal_model_t *model) {
  bool added = true;
  for (int64_t s = 0; (of == SHOAL_OF_STATE || of == SHOAL_OF_VALUE) && s < model->states.count;
       ++s)
    added = added && add(lookup, names, model->states.items[s].name);
  for (int64_t g = 0; g < model->graphs.count; ++g)
    added = added && add_graph(lookup, names, of, model->graphs.items[g]);
  return added;
}

// Names of that sort in the plan's model. Composite nodes count as their parts do.
static shoal_status_t names_of(lookup_t *lookup, shoal_of_t of, names_t **out_names) {
  names_t *names = *out_names = &lookup->names[of];
  if (names->filled) return NULL;
  names->filled = true;
  shoal_index_init(lookup->arena, &names->index);
  bool added = add_all(lookup, names, of, lookup->plan->model);
  for (int64_t c = 0; of == SHOAL_OF_NODE && c < lookup->plan->composites.count; ++c)
    added =
        added && add(lookup, names,
                     shoal_composite_node(lookup->plan, &lookup->plan->composites.items[c])->name);
  return added ? NULL : SHOAL_OOM();
}

static bool matches(const names_t *names, const char *pattern) {
  uint64_t hash = shoal_hash_string(SHOAL_HASH_START, pattern);
  for (int64_t at = -1, n; (n = shoal_index_next(&names->index, hash, &at)) >= 0;)
    if (strcmp(names->items.items[n], pattern) == 0) return true;
  for (int64_t n = 0; n < names->items.count && shoal_pattern_is(pattern); ++n)
    if (shoal_pattern_match(pattern, names->items.items[n])) return true;
  return false;
}

// Is it "GRAPH:NAME", about an input or a computed value of one graph?
static bool is_in_graph(const shoal_model_t *model, const char *pattern) {
  for (int64_t g = 0; g < model->graphs.count; ++g) {
    const shoal_graph_t *graph = model->graphs.items[g];
    const size_t length = strlen(graph->name);
    if (strncmp(graph->name, pattern, length) != 0 || pattern[length] != ':') continue;
    for (int64_t v = 0; v < graph->values.count; ++v)
      if (graph->values.items[v].source != SHOAL_FROM_STATE &&
          strcmp(graph->values.items[v].name, pattern + length + 1) == 0)
        return true;
  }
  return false;
}

// NOT_FOUND with the nearest of the names people write patterns for.
static shoal_status_t no_match(lookup_t *lookup, shoal_decide_t kind, const char *pattern) {
  static const char *const sorts[SHOAL_OF_COUNT] = {
      [SHOAL_OF_NODE] = "node",   [SHOAL_OF_VALUE] = "state, input or value",
      [SHOAL_OF_STATE] = "state", [SHOAL_OF_OUTPUT] = "output",
      [SHOAL_OF_GRAPH] = "graph",
  };
  const shoal_of_t of = shoal_kind_of(kind);
  names_t *names;
  SHOAL_RETURN_IF_ERROR(names_of(lookup, of, &names));
  shoal_hint_t hint;
  return SHOAL_ERROR_HINT(
      NOT_FOUND,
      shoal_did_you_mean(pattern, names->items.items, names->items.count,
                         "`shoal explain MODEL --graph` lists the names", &hint),
      "%s '%s' matches no %s", shoal_decision_kind(kind)->name, pattern, sorts[of]);
}

static shoal_status_t look_up(lookup_t *lookup, shoal_decide_t kind,
                              const shoal_intent_decision_t *decision) {
  const char *pattern = decision->pattern;
  SHOAL_RETURN_IF_ERROR(shoal_decision_annotate(decision, shoal_pattern_check(pattern)));
  if (kind == SHOAL_DECIDE_LAYOUT && strcmp(pattern, "*") == 0) return NULL;
  if (kind == SHOAL_DECIDE_STAGE && shoal_plan_find_mesh(lookup->plan, decision->choice) < 0)
    return SHOAL_ERROR_HINT(
        INVALID_ARGUMENT, "give the mesh a name where the plan lists it: b!data=2@2-3",
        "stage '%s' asks for mesh '%s', which the plan does not have", pattern, decision->choice);
  names_t *names;
  SHOAL_RETURN_IF_ERROR(names_of(lookup, shoal_kind_of(kind), &names));
  if (matches(names, pattern)) return NULL;
  if (kind == SHOAL_DECIDE_LAYOUT && is_in_graph(lookup->plan->model, pattern)) return NULL;
  return no_match(lookup, kind, pattern);
}

shoal_status_t shoal_intent_check(shoal_plan_t *plan) {
  shoal_arena_t scratch;
  shoal_arena_init(plan->allocator, &scratch);
  lookup_t lookup = {.plan = plan, .arena = &scratch};
  shoal_status_t status = NULL;
  for (int k = 0; k < SHOAL_DECIDE_COUNT; ++k)
    for (int64_t e = 0; e < plan->patterns[k].count && !status; ++e)
      status = look_up(&lookup, (shoal_decide_t)k, &plan->patterns[k].entries[e]);
  shoal_arena_deinit(&scratch);
  return status;
}
