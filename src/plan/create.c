// Making a plan from an intent: meshes, resting layouts of states, meshes of nodes. Completion of
// ways is in complete.c. Invariant: every layout in a plan points at one of plan->meshes.
#include <string.h>

#include "base/dtype.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/text.h"
#include "plan/complete.h"
#include "plan/plan.h"
#include "shoal/options.h"

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

static shoal_status_t copy_intent(shoal_arena_t *arena, const shoal_intent_t *intent,
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
  return copy_entries(arena, intent->stage_count, intent->stages, &out_intent->stages);
}

static shoal_status_t index_patterns(shoal_plan_t *plan) {
  const shoal_intent_t *intent = &plan->intent;
  plan->patterns = SHOAL_NEW(&plan->arena, shoal_patterns_t, SHOAL_PATTERNS_COUNT);
  if (!plan->patterns) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_patterns_init(intent->layout_count, intent->layouts, &plan->arena,
                                            &plan->patterns[SHOAL_PATTERNS_LAYOUTS]));
  return shoal_patterns_init(intent->stage_count, intent->stages, &plan->arena,
                             &plan->patterns[SHOAL_PATTERNS_STAGES]);
}

// Parses the meshes; checks them against the world and each other.
static shoal_status_t make_meshes(shoal_plan_t *plan) {
  const shoal_intent_t *intent = &plan->intent;
  if (intent->mesh_count < 1)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "add \"meshes\": [\"data=2\"]",
                            "the plan has no mesh");
  plan->meshes = SHOAL_NEW(&plan->arena, shoal_mesh_t, intent->mesh_count);
  if (!plan->meshes) return SHOAL_OOM();
  plan->mesh_count = intent->mesh_count;
  plan->micro = 1;
  for (int64_t i = 0; i < plan->mesh_count; ++i) {
    shoal_mesh_t *mesh = &plan->meshes[i];
    SHOAL_RETURN_IF_ERROR(shoal_mesh_parse(intent->meshes[i], &plan->arena, mesh));
    int64_t micro = mesh->micro > 1 ? mesh->micro : 1;
    if (i == 0) plan->micro = micro;
    if (micro > SHOAL_PLAN_MAX_MICRO)
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "use fewer micro-batches",
                              "mesh '%s' has %lld micro-batches; %d are the most",
                              intent->meshes[i], (long long)micro, SHOAL_PLAN_MAX_MICRO);
    if (micro != plan->micro)
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give every mesh the same micro=n",
                              "meshes '%s' and '%s' differ in micro-batches", intent->meshes[0],
                              intent->meshes[i]);
    if (i > 0 && !mesh->name[0])
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "put a name before it: \"b!data=3@2-4\"",
                              "mesh '%s' is not the first and has no name", intent->meshes[i]);
    for (int64_t j = 0; j < i; ++j)
      if (strcmp(plan->meshes[j].name, mesh->name) == 0)
        return SHOAL_ERROR(INVALID_ARGUMENT, "two meshes are called '%s'", mesh->name);
    int64_t size = shoal_mesh_size(mesh);
    if (plan->mesh_count == 1 && !mesh->ranks && size != plan->world)
      return SHOAL_ERROR_HINT(
          INVALID_ARGUMENT,
          "make the product of the axes equal the number of ranks, or list ranks "
          "with @",
          "mesh '%s' has %lld ranks, the world has %d", intent->meshes[i], (long long)size,
          plan->world);
    for (int64_t p = 0; p < size; ++p)
      if (shoal_mesh_rank(mesh, p) >= plan->world)
        return SHOAL_ERROR(INVALID_ARGUMENT, "mesh '%s' names rank %d, the world has %d ranks",
                           intent->meshes[i], shoal_mesh_rank(mesh, p), plan->world);
  }
  return NULL;
}

// Replaces nodes by their decomposition where the intent asks for it.
static shoal_status_t expand_model(shoal_plan_t *plan) {
  const shoal_intent_t *intent = &plan->intent;
  for (int64_t g = 0; intent->expand_count > 0 && g < plan->model->graphs.count; ++g) {
    const shoal_graph_t *graph = plan->model->graphs.items[g];
    SHOAL_VEC(const char *) names = {0};
    for (int64_t n = 0; n < graph->nodes.count; ++n) {
      const shoal_node_t *node = &graph->nodes.items[n];
      for (int64_t e = 0; e < intent->expand_count && node->op->decompose; ++e)
        if (shoal_pattern_match(intent->expand[e], node->name)) {
          if (!SHOAL_PUSH(&plan->arena, &names, node->name)) return SHOAL_OOM();
          break;
        }
    }
    if (names.count == 0) continue;
    shoal_model_t *expanded = NULL;
    SHOAL_RETURN_IF_ERROR(
        shoal_model_expand(plan->model, graph->name, names.items, names.count, &expanded));
    shoal_model_free(plan->owned_model);
    plan->owned_model = expanded;
    plan->model = expanded;
  }
  return NULL;
}

static int32_t find_mesh(const shoal_plan_t *plan, const char *name, size_t length) {
  for (int64_t i = 0; i < plan->mesh_count; ++i)
    if (strlen(plan->meshes[i].name) == length && strncmp(plan->meshes[i].name, name, length) == 0)
      return (int32_t)i;
  return -1;
}

// The mesh a node is told to run on, or -1. A gradient that no stage names follows its forward
// node. `meshes`: of the nodes before it.
static int32_t stage_of(const shoal_plan_t *plan, const shoal_node_t *node, const int32_t *meshes) {
  if (plan->intent.stage_count == 0) return -1;
  const shoal_intent_entry_t *entry =
      shoal_patterns_find(&plan->patterns[SHOAL_PATTERNS_STAGES], node->name);
  if (entry) return find_mesh(plan, entry->value, strlen(entry->value));
  return node->of >= 0 ? meshes[node->of] : -1;
}

// Along an axis of one rank nothing is cut. The rest of the plan need not know that there are two
// ways to say so (a flat part of one rank would be stored as a list, not in its shape).
static void drop_idle_cuts(shoal_layout_t *layout) {
  int32_t kept = 0;
  for (int32_t c = 0; c < layout->cut_count; ++c) {
    const shoal_cut_t *cut = &layout->cuts[c];
    int64_t size =
        cut->axis == SHOAL_AXIS_MICRO ? layout->mesh->micro : layout->mesh->axes[cut->axis].size;
    if (size > 1) layout->cuts[kept++] = *cut;
  }
  layout->cut_count = kept;
}

shoal_status_t shoal_plan_parse_layout(shoal_plan_t *plan, const char *text, int32_t mesh,
                                       const char *what, const shoal_shape_t *shape,
                                       const shoal_layout_t **out_layout) {
  shoal_layout_t layout;
  shoal_status_t status =
      strchr(text, '!') || mesh < 0
          ? shoal_layout_parse(text, plan->meshes, plan->mesh_count, &plan->arena, &layout)
          : shoal_layout_parse(text, &plan->meshes[mesh], 1, &plan->arena, &layout);
  if (!status) status = shoal_layout_check(&layout, shape);
  if (status) return shoal_status_annotatef(status, "layout '%s' of '%s'", text, what);
  drop_idle_cuts(&layout);
  return shoal_layouts_keep(&plan->layouts, &layout, out_layout);
}

shoal_status_t shoal_plan_rest_state(shoal_plan_t *plan, int32_t s, const char *text,
                                     int32_t mesh) {
  const shoal_state_info_t *state = &plan->model->states.items[s];
  SHOAL_RETURN_IF_ERROR(
      shoal_plan_parse_layout(plan, text, mesh, state->name, &state->type.shape, &plan->states[s]));
  const shoal_layout_t *layout = plan->states[s];
  if (shoal_layout_is_partial(layout))
    return SHOAL_ERROR(INVALID_ARGUMENT, "state '%s' cannot rest unreduced", state->name);
  for (int32_t c = 0; c < layout->cut_count; ++c) {
    if (layout->cuts[c].axis == SHOAL_AXIS_MICRO)
      return SHOAL_ERROR(INVALID_ARGUMENT,
                         "state '%s' cannot be cut along micro: it outlives the step", state->name);
    if (layout->cuts[c].before < 0 || layout->cuts[c].after < 0)
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "a halo of a resting state is not negative",
                              "state '%s' cannot rest trimmed: nobody would hold what is cut off",
                              state->name);
  }
  return NULL;
}

// By state, the mesh of the first node that reads it and was given one by a stage, "train" before
// other graphs; else -1.
static shoal_status_t find_readers(shoal_plan_t *plan, int32_t *const *meshes, int32_t **out_mesh) {
  const shoal_model_t *model = plan->model;
  int32_t *found = SHOAL_NEW(&plan->arena, int32_t, model->states.count);
  if (!found) return SHOAL_OOM();
  for (int64_t s = 0; s < model->states.count; ++s) found[s] = -1;
  for (int pass = 0; pass < 2; ++pass)
    for (int64_t g = 0; g < model->graphs.count; ++g) {
      const shoal_graph_t *graph = model->graphs.items[g];
      if ((strcmp(graph->name, "train") == 0) != (pass == 0)) continue;
      for (int64_t n = 0; n < graph->nodes.count; ++n) {
        const shoal_node_t *node = &graph->nodes.items[n];
        for (int32_t i = 0; i < node->input_count && meshes[g][n] >= 0; ++i) {
          const shoal_value_info_t *value = &graph->values.items[node->inputs[i]];
          if (value->source == SHOAL_FROM_STATE && found[value->index] < 0)
            found[value->index] = meshes[g][n];
        }
      }
    }
  *out_mesh = found;
  return NULL;
}

// The state that "name#adamw.m" belongs to, if it is declared before it; else -1.
static shoal_status_t owner_of(shoal_plan_t *plan, int64_t s, int32_t *out_base) {
  const char *full = plan->model->states.items[s].name, *hash = strchr(full, '#');
  *out_base = -1;
  if (!hash) return NULL;
  char *name = shoal_arena_strdup(&plan->arena, full);
  if (!name) return SHOAL_OOM();
  name[hash - full] = 0;
  int32_t base = shoal_model_find_state(plan->model, name);
  if (base < s) *out_base = base;
  return NULL;
}

// Resting layouts. "name#adamw.m" follows "name" unless it has a layout of its own.
static shoal_status_t place_states(shoal_plan_t *plan, int32_t *const *meshes) {
  const shoal_model_t *model = plan->model;
  int32_t *readers = NULL;
  plan->states = SHOAL_NEW(&plan->arena, const shoal_layout_t *, model->states.count);
  if (!plan->states) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(find_readers(plan, meshes, &readers));
  for (int64_t s = 0; s < model->states.count; ++s) {
    const shoal_state_info_t *state = &model->states.items[s];
    const shoal_intent_entry_t *entry =
        shoal_patterns_find(&plan->patterns[SHOAL_PATTERNS_LAYOUTS], state->name);
    int32_t base = -1;
    SHOAL_RETURN_IF_ERROR(owner_of(plan, s, &base));
    int32_t mesh = base >= 0 ? (int32_t)(plan->states[base]->mesh - plan->meshes) : readers[s];
    if (mesh < 0) mesh = 0;
    if (entry) {
      SHOAL_RETURN_IF_ERROR(shoal_plan_rest_state(plan, (int32_t)s, entry->value, mesh));
    } else if (base >= 0 &&
               shoal_shape_equal(&model->states.items[base].type.shape, &state->type.shape)) {
      plan->states[s] = plan->states[base];
    } else {
      const shoal_layout_t whole = {.mesh = &plan->meshes[mesh]};
      SHOAL_RETURN_IF_ERROR(shoal_layouts_keep(&plan->layouts, &whole, &plan->states[s]));
    }
  }
  return NULL;
}

// Meshes of nodes no stage names: with the state they update or read, else their producer, else
// consumer.
static void spread_meshes(const shoal_plan_t *plan, const shoal_graph_t *graph, int32_t *meshes) {
  for (int64_t n = 0; n < graph->nodes.count; ++n) {
    const shoal_node_t *node = &graph->nodes.items[n];
    for (int32_t i = 0; i < node->input_count && meshes[n] < 0; ++i) {
      const shoal_value_info_t *value = &graph->values.items[node->inputs[i]];
      if (value->source == SHOAL_FROM_STATE && value->type.shape.rank > 0)
        meshes[n] = (int32_t)(plan->states[value->index]->mesh - plan->meshes);
    }
    for (int32_t i = node->input_count; i-- > 0 && meshes[n] < 0;) {
      const shoal_value_info_t *value = &graph->values.items[node->inputs[i]];
      if (value->source == SHOAL_FROM_NODE) meshes[n] = meshes[value->node];
    }
  }
  for (int64_t a = 0; a < graph->assigns.count; ++a) {
    const shoal_value_info_t *value = &graph->values.items[graph->assigns.items[a].value];
    if (value->source == SHOAL_FROM_NODE && meshes[value->node] < 0)
      meshes[value->node] =
          (int32_t)(plan->states[graph->assigns.items[a].state]->mesh - plan->meshes);
  }
  for (int64_t n = graph->nodes.count; n-- > 0;) {
    const shoal_node_t *node = &graph->nodes.items[n];
    if (meshes[n] < 0) meshes[n] = 0;
    for (int32_t i = 0; i < node->input_count; ++i) {
      const shoal_value_info_t *value = &graph->values.items[node->inputs[i]];
      if (value->source == SHOAL_FROM_NODE && meshes[value->node] < 0)
        meshes[value->node] = meshes[n];
    }
  }
}

// Layouts of inputs: as the intent says, on the mesh of their first reader.
static shoal_status_t place_inputs(shoal_plan_t *plan, shoal_graph_plan_t *gp) {
  const shoal_graph_t *graph = gp->graph;
  int32_t *first = SHOAL_NEW(&plan->arena, int32_t, graph->values.count);  // plus 1
  if (!first) return SHOAL_OOM();
  for (int64_t n = graph->nodes.count; n-- > 0;)
    for (int32_t k = 0; k < graph->nodes.items[n].input_count; ++k)
      first[graph->nodes.items[n].inputs[k]] = gp->nodes[n].mesh + 1;
  for (int64_t i = 0; i < graph->inputs.count; ++i) {
    const shoal_named_t *input = &graph->inputs.items[i];
    int32_t mesh = first[input->value] ? first[input->value] - 1 : 0;
    const shoal_intent_entry_t *entry =
        shoal_patterns_find(&plan->patterns[SHOAL_PATTERNS_LAYOUTS], input->name);
    const shoal_layout_t **layout = &gp->values[input->value];
    if (!entry) {
      const shoal_layout_t whole = {.mesh = &plan->meshes[mesh]};
      SHOAL_RETURN_IF_ERROR(shoal_layouts_keep(&plan->layouts, &whole, layout));
      continue;
    }
    SHOAL_RETURN_IF_ERROR(shoal_plan_parse_layout(plan, entry->value, mesh, input->name,
                                                  &graph->values.items[input->value].type.shape,
                                                  layout));
    if (shoal_layout_is_partial(*layout))
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "cut it along a dim, or leave it whole",
                              "input '%s' cannot be fed unreduced", input->name);
  }
  return NULL;
}

// The names that patterns are written for, so that a pattern without '*' is found at once.
typedef struct names {
  shoal_index_t index;
  SHOAL_VEC(const char *) items;
} names_t;

static bool add_name(shoal_arena_t *arena, names_t *names, const char *name) {
  return shoal_index_add(&names->index, shoal_hash_string(SHOAL_HASH_START, name),
                         names->items.count) &&
         SHOAL_PUSH(arena, &names->items, name);
}

static bool add_nodes(shoal_arena_t *arena, names_t *names, const shoal_model_t *model) {
  bool added = true;
  for (int64_t g = 0; g < model->graphs.count; ++g)
    for (int64_t n = 0; n < model->graphs.items[g]->nodes.count && added; ++n)
      added = add_name(arena, names, model->graphs.items[g]->nodes.items[n].name);
  return added;
}

static bool add_values(shoal_arena_t *arena, names_t *names, const shoal_model_t *model) {
  bool added = true;
  for (int64_t s = 0; s < model->states.count && added; ++s)
    added = add_name(arena, names, model->states.items[s].name);
  for (int64_t g = 0; g < model->graphs.count; ++g)
    for (int64_t v = 0; v < model->graphs.items[g]->values.count && added; ++v)
      added = add_name(arena, names, model->graphs.items[g]->values.items[v].name);
  return added;
}

static bool matches(const names_t *names, const char *pattern) {
  uint64_t hash = shoal_hash_string(SHOAL_HASH_START, pattern);
  for (int64_t at = -1, n; (n = shoal_index_next(&names->index, hash, &at)) >= 0;)
    if (strcmp(names->items.items[n], pattern) == 0) return true;
  for (int64_t n = 0; n < names->items.count && strchr(pattern, '*'); ++n)
    if (shoal_pattern_match(pattern, names->items.items[n])) return true;
  return false;
}

// NOT_FOUND with the nearest of the names people write patterns for.
static shoal_status_t no_match(shoal_plan_t *plan, const char *kind, const char *pattern,
                               bool nodes) {
  SHOAL_VEC(const char *) names = {0};
  const shoal_model_t *model = plan->model;
  for (int64_t s = 0; s < model->states.count && !nodes; ++s)
    if (!SHOAL_PUSH(&plan->arena, &names, model->states.items[s].name)) return SHOAL_OOM();
  for (int64_t g = 0; g < model->graphs.count; ++g) {
    const shoal_graph_t *graph = model->graphs.items[g];
    for (int64_t i = 0; i < graph->inputs.count && !nodes; ++i)
      if (!SHOAL_PUSH(&plan->arena, &names, graph->inputs.items[i].name)) return SHOAL_OOM();
    for (int64_t n = 0; n < graph->nodes.count; ++n)
      if (!SHOAL_PUSH(&plan->arena, &names, graph->nodes.items[n].name)) return SHOAL_OOM();
  }
  shoal_hint_t hint;
  return SHOAL_ERROR_HINT(
      NOT_FOUND,
      shoal_did_you_mean(pattern, names.items, names.count,
                         "`shoal explain MODEL --graph` lists the names", &hint),
      "%s '%s' matches no %s", kind, pattern, nodes ? "node" : "state, input or value");
}

// Every pattern must name something: a typo must not silently replicate. `original` is the model
// before nodes were expanded: their names count too.
static shoal_status_t look_up_patterns(shoal_plan_t *plan, const shoal_model_t *original,
                                       shoal_arena_t *scratch) {
  const shoal_intent_t *intent = &plan->intent;
  names_t values = {0}, nodes = {0};
  shoal_index_init(scratch, &values.index);
  shoal_index_init(scratch, &nodes.index);
  bool added = intent->layout_count == 0 || add_values(scratch, &values, plan->model);
  if (intent->stage_count + intent->expand_count > 0)
    added = added && add_nodes(scratch, &nodes, original);
  if (intent->stage_count > 0 && plan->model != original)
    added = added && add_nodes(scratch, &nodes, plan->model);
  if (!added) return SHOAL_OOM();
  for (int64_t e = 0; e < intent->layout_count; ++e) {
    const char *pattern = intent->layouts[e].pattern;
    if (strcmp(pattern, "*") != 0 && !matches(&values, pattern))
      return no_match(plan, "layout", pattern, false);
  }
  for (int64_t e = 0; e < intent->stage_count; ++e) {
    const shoal_intent_entry_t *entry = &intent->stages[e];
    if (find_mesh(plan, entry->value, strlen(entry->value)) < 0)
      return SHOAL_ERROR(INVALID_ARGUMENT,
                         "stage '%s' asks for mesh '%s', which the plan does not have",
                         entry->pattern, entry->value);
    if (!matches(&nodes, entry->pattern)) return no_match(plan, "stage", entry->pattern, true);
  }
  for (int64_t e = 0; e < intent->expand_count; ++e)
    if (!matches(&nodes, intent->expand[e]))
      return no_match(plan, "expand", intent->expand[e], true);
  return NULL;
}

static shoal_status_t check_patterns(shoal_plan_t *plan, const shoal_model_t *original) {
  shoal_arena_t scratch;
  shoal_arena_init(plan->allocator, &scratch);
  shoal_status_t status = look_up_patterns(plan, original, &scratch);
  shoal_arena_deinit(&scratch);
  return status;
}

static shoal_status_t build(shoal_plan_t *plan) {
  SHOAL_RETURN_IF_ERROR(make_meshes(plan));
  const shoal_model_t *original = plan->model;
  SHOAL_RETURN_IF_ERROR(expand_model(plan));
  SHOAL_RETURN_IF_ERROR(check_patterns(plan, original));
  const shoal_model_t *model = plan->model;
  plan->graphs = SHOAL_NEW(&plan->arena, shoal_graph_plan_t, model->graphs.count);
  int32_t **meshes = SHOAL_NEW(&plan->arena, int32_t *, model->graphs.count);
  if (!plan->graphs || !meshes) return SHOAL_OOM();
  for (int64_t g = 0; g < model->graphs.count; ++g) {
    const shoal_graph_t *graph = model->graphs.items[g];
    meshes[g] = SHOAL_NEW(&plan->arena, int32_t, graph->nodes.count);
    if (!meshes[g]) return SHOAL_OOM();
    for (int64_t n = 0; n < graph->nodes.count; ++n)
      meshes[g][n] = stage_of(plan, &graph->nodes.items[n], meshes[g]);
  }
  SHOAL_RETURN_IF_ERROR(place_states(plan, meshes));
  for (int64_t g = 0; g < model->graphs.count; ++g) {
    shoal_graph_plan_t *gp = &plan->graphs[g];
    const shoal_graph_t *graph = gp->graph = model->graphs.items[g];
    gp->nodes = SHOAL_NEW(&plan->arena, shoal_node_plan_t, graph->nodes.count);
    gp->values = SHOAL_NEW(&plan->arena, const shoal_layout_t *, graph->values.count);
    if (!gp->nodes || !gp->values) return SHOAL_OOM();
    spread_meshes(plan, graph, meshes[g]);
    for (int64_t n = 0; n < graph->nodes.count; ++n) gp->nodes[n].mesh = meshes[g][n];
    SHOAL_RETURN_IF_ERROR(place_inputs(plan, gp));
    for (int64_t v = 0; v < graph->values.count; ++v)
      if (graph->values.items[v].source == SHOAL_FROM_STATE)
        gp->values[v] = plan->states[graph->values.items[v].index];
  }
  return NULL;
}

shoal_status_t shoal_plan_prepare(const shoal_model_t *model, shoal_rules_t *rules,
                                  const shoal_intent_t *intent, int32_t world,
                                  shoal_allocator_t allocator, shoal_plan_t **out_plan) {
  *out_plan = NULL;
  if (!allocator.alloc) allocator = shoal_allocator_system();
  SHOAL_RETURN_IF_ERROR(shoal_model_status(model));
  shoal_plan_t *plan = allocator.alloc(allocator.self, sizeof *plan);
  if (!plan) return SHOAL_OOM();
  *plan = (shoal_plan_t){.allocator = allocator, .model = model, .rules = rules, .world = world};
  shoal_arena_init(allocator, &plan->arena);
  shoal_layouts_init(&plan->arena, &plan->layouts);
  shoal_index_init(&plan->arena, &plan->decision_index);
  shoal_status_t status = copy_intent(&plan->arena, intent, &plan->intent);
  if (!status) status = index_patterns(plan);
  if (!status) status = build(plan);
  if (status) {
    shoal_plan_free(plan);
    return status;
  }
  *out_plan = plan;
  return NULL;
}

shoal_status_t shoal_plan_create(const shoal_model_t *model, shoal_rules_t *rules,
                                 const shoal_intent_t *intent, int32_t world,
                                 shoal_allocator_t allocator, shoal_plan_t **out_plan) {
  SHOAL_RETURN_IF_ERROR(shoal_plan_prepare(model, rules, intent, world, allocator, out_plan));
  shoal_status_t status = NULL;
  for (int64_t g = 0; g < (*out_plan)->model->graphs.count && !status; ++g)
    status = shoal_plan_complete(*out_plan, &(*out_plan)->graphs[g]);
  if (status) {
    shoal_plan_free(*out_plan);
    *out_plan = NULL;
  }
  return status;
}

void shoal_plan_free(shoal_plan_t *plan) {
  if (!plan) return;
  shoal_allocator_t allocator = plan->allocator;
  shoal_model_free(plan->owned_model);
  shoal_arena_deinit(&plan->arena);
  allocator.free(allocator.self, plan);
}

const shoal_model_t *shoal_plan_model(const shoal_plan_t *plan) {
  return plan->model;
}

const shoal_intent_t *shoal_plan_intent(const shoal_plan_t *plan) {
  return &plan->intent;
}

shoal_status_t shoal_plan_state_layout(const shoal_plan_t *plan, const char *state,
                                       shoal_arena_t *arena, const char **out_text) {
  int32_t index = shoal_model_find_state(plan->model, state);
  if (index < 0) return SHOAL_ERROR(NOT_FOUND, "the model has no state '%s'", state);
  return shoal_layout_print(plan->states[index], arena, out_text);
}
