// Plan files: JSON with an intent, portable between batch sizes, and a resolved part guarded by
// hashes of model and rules. Reading prefers the resolved part if the guard fits, else completes
// the intent anew.
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "base/status.h"
#include "plan/complete.h"

// -------------------------------------------------------------------------------------------------
// Writing
// -------------------------------------------------------------------------------------------------

static void write_entries(shoal_json_writer_t *w, const char *key, int64_t count,
                          const shoal_intent_entry_t *entries) {
  shoal_json_begin(w, key, '{', false);
  for (int64_t i = 0; i < count; ++i) {
    bool repeated = false;  // a later entry of the same pattern wins: only that one is written
    for (int64_t j = i + 1; j < count; ++j)
      repeated |= strcmp(entries[i].pattern, entries[j].pattern) == 0;
    if (!repeated) shoal_json_string(w, entries[i].pattern, entries[i].value);
  }
  shoal_json_end(w, '}');
}

static void write_strings(shoal_json_writer_t *w, const char *key, int64_t count,
                          const char *const *strings) {
  shoal_json_begin(w, key, '[', true);
  for (int64_t i = 0; i < count; ++i) shoal_json_string(w, NULL, strings[i]);
  shoal_json_end(w, ']');
}

static void write_decisions(shoal_json_writer_t *w, const shoal_intent_t *intent) {
  if (intent->decision_count == 0) return;
  shoal_json_begin(w, "decisions", '[', false);
  for (int64_t i = 0; i < intent->decision_count; ++i) {
    const shoal_intent_decision_t *decision = &intent->decisions[i];
    shoal_json_begin(w, NULL, '{', true);
    shoal_json_string(w, "kind", decision->kind);
    shoal_json_string(w, "pattern", decision->pattern);
    shoal_json_string(w, "choice", decision->choice);
    shoal_json_string(w, "by", decision->by);
    if (decision->reason[0]) shoal_json_string(w, "reason", decision->reason);
    shoal_json_end(w, '}');
  }
  shoal_json_end(w, ']');
}

static void write_intent(shoal_json_writer_t *w, const shoal_intent_t *intent) {
  shoal_json_begin(w, "intent", '{', false);
  shoal_json_string(w, "strategy", intent->strategy);
  write_strings(w, "meshes", intent->mesh_count, intent->meshes);
  write_entries(w, "layouts", intent->layout_count, intent->layouts);
  write_entries(w, "stages", intent->stage_count, intent->stages);
  write_strings(w, "expand", intent->expand_count, intent->expand);
  write_decisions(w, intent);
  shoal_json_end(w, '}');
}

static const char *slot_name(const shoal_mesh_t *mesh, int32_t slot) {
  return slot == 0 ? "micro" : mesh->axes[slot - 1].name;
}

static shoal_status_t write_choice(shoal_json_writer_t *w, const shoal_mesh_t *mesh, int32_t slot,
                                   const shoal_op_t *op, const shoal_choice_t *choice,
                                   shoal_arena_t *scratch) {
  const char *text = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_way_print(op, choice->way, scratch, &text));
  const shoal_item_cut_t *cut = &choice->item_cut;
  if (cut->unit <= 1 && cut->chunk_count == 0 && !cut->weights) {
    shoal_json_string(w, slot_name(mesh, slot), text);
    return NULL;
  }
  shoal_json_begin(w, slot_name(mesh, slot), '{', true);
  shoal_json_string(w, "way", text);
  if (cut->unit > 1) shoal_json_int(w, "unit", cut->unit);
  if (cut->chunk_count > 0 && cut->chunks[0].length == 0) {
    shoal_json_int(w, "equal_chunks", cut->chunk_count);
  } else if (cut->chunk_count > 0) {
    shoal_json_begin(w, "chunks", '[', true);
    for (int32_t i = 0; i < cut->chunk_count; ++i) {
      shoal_json_begin(w, NULL, '[', true);
      shoal_json_int(w, NULL, cut->chunks[i].length);
      shoal_json_int(w, NULL, cut->chunks[i].unit);
      shoal_json_end(w, ']');
    }
    shoal_json_end(w, ']');
  }
  if (cut->weights) {
    int64_t count = slot == 0 ? mesh->micro : mesh->axes[slot - 1].size;
    shoal_json_begin(w, "weights", '[', true);
    for (int64_t i = 0; i < count; ++i) shoal_json_int(w, NULL, cut->weights[i]);
    shoal_json_end(w, ']');
  }
  shoal_json_end(w, '}');
  return NULL;
}

static shoal_status_t write_graph(shoal_json_writer_t *w, const shoal_plan_t *plan,
                                  const shoal_graph_plan_t *gp, shoal_arena_t *scratch) {
  shoal_json_begin(w, gp->graph->name, '{', false);
  for (int64_t n = 0; n < gp->graph->nodes.count; ++n) {
    const shoal_node_t *node = &gp->graph->nodes.items[n];
    const shoal_node_plan_t *np = &gp->nodes[n];
    const shoal_mesh_t *mesh = &plan->meshes[np->mesh];
    shoal_json_begin(w, node->name, '{', true);
    if (plan->mesh_count > 1) shoal_json_string(w, "mesh", mesh->name);
    shoal_json_begin(w, "ways", '{', true);
    for (int32_t slot = 0; slot <= mesh->axis_count; ++slot)
      if (np->decision->choices[slot].way)
        SHOAL_RETURN_IF_ERROR(
            write_choice(w, mesh, slot, node->op, &np->decision->choices[slot], scratch));
    shoal_json_end(w, '}');
    shoal_json_end(w, '}');
  }
  shoal_json_end(w, '}');
  return NULL;
}

static bool cuts_anything(const shoal_plan_t *plan) {
  bool cuts = plan->micro > 1;
  for (int64_t m = 0; m < plan->mesh_count; ++m) cuts |= shoal_mesh_size(&plan->meshes[m]) > 1;
  return cuts;
}

// A store knows only the rules it was asked for, and a new one none: all that the plan may stand on
// are asked for, or a plan would never fit in another process.
static shoal_status_t know_rules(const shoal_plan_t *plan, shoal_arena_t *arena) {
  for (int64_t g = 0; g < plan->model->graphs.count; ++g) {
    const shoal_graph_t *graph = plan->model->graphs.items[g];
    for (int64_t n = 0; n < graph->nodes.count; ++n) {
      shoal_call_t call;
      const shoal_rule_t *rule = NULL;
      SHOAL_RETURN_IF_ERROR(shoal_node_call(graph, &graph->nodes.items[n], arena, &call));
      SHOAL_RETURN_IF_ERROR(shoal_rules_get(plan->rules, &call, &rule));
    }
  }
  return NULL;
}

static shoal_status_t guard_of(const shoal_plan_t *plan, shoal_arena_t *arena,
                               const char **out_model, const char **out_rules) {
  uint64_t rules = 0;
  if (cuts_anything(plan)) {
    SHOAL_RETURN_IF_ERROR(know_rules(plan, arena));
    SHOAL_RETURN_IF_ERROR(shoal_rules_hash(plan->rules, plan->model, &rules));
  }
  *out_model = shoal_arena_printf(arena, "%016" PRIx64, shoal_model_structure_hash(plan->model));
  *out_rules = shoal_arena_printf(arena, "%016" PRIx64, rules);
  return *out_model && *out_rules ? NULL : SHOAL_OOM();
}

shoal_status_t shoal_plan_print(const shoal_plan_t *plan, shoal_arena_t *arena,
                                const char **out_text) {
  shoal_text_t text;
  shoal_text_init(plan->allocator, &text);
  shoal_json_writer_t w;
  shoal_json_writer_init(&text, &w);
  shoal_json_begin(&w, NULL, '{', false);
  shoal_json_int(&w, "shoal_plan", 1);
  write_intent(&w, &plan->intent);
  shoal_json_begin(&w, "resolved", '{', false);
  const char *model_hash = NULL, *rules_hash = NULL;
  shoal_status_t status = guard_of(plan, arena, &model_hash, &rules_hash);
  if (!status) {
    shoal_json_string(&w, "model", model_hash);
    shoal_json_string(&w, "rules", rules_hash);
    shoal_json_int(&w, "world", plan->world);
    shoal_json_begin(&w, "states", '{', false);
    for (int64_t s = 0; s < plan->model->states.count && !status; ++s) {
      const char *layout = NULL;
      status = shoal_layout_print(plan->states[s], arena, &layout);
      if (!status) shoal_json_string(&w, plan->model->states.items[s].name, layout);
    }
    shoal_json_end(&w, '}');
    shoal_json_begin(&w, "nodes", '{', false);
    for (int64_t g = 0; g < plan->model->graphs.count && !status; ++g)
      status = write_graph(&w, plan, &plan->graphs[g], arena);
    shoal_json_end(&w, '}');
  }
  shoal_json_end(&w, '}');
  shoal_json_end(&w, '}');
  shoal_text_add(&text, "\n");
  if (!status) status = shoal_text_finish(&text, arena, out_text);
  shoal_text_deinit(&text);
  return status;
}

// -------------------------------------------------------------------------------------------------
// Reading
// -------------------------------------------------------------------------------------------------

static shoal_status_t read_entries(const shoal_json_t *intent, const char *key,
                                   shoal_arena_t *arena, int64_t *out_count,
                                   const shoal_intent_entry_t **out_entries) {
  *out_count = 0;
  if (!shoal_json_find(intent, key)) return NULL;
  const shoal_json_t *object = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(intent, key, SHOAL_JSON_OBJECT, &object));
  shoal_intent_entry_t *entries = SHOAL_NEW(arena, shoal_intent_entry_t, object->count);
  if (!entries) return SHOAL_OOM();
  for (int64_t i = 0; i < object->count; ++i) {
    entries[i].pattern = object->children[i].key;
    if (object->children[i].kind != SHOAL_JSON_STRING)
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s must be a string", object->children[i].path);
    entries[i].value = object->children[i].string;
  }
  *out_count = object->count;
  *out_entries = entries;
  return NULL;
}

static shoal_status_t read_strings(const shoal_json_t *intent, const char *key,
                                   shoal_arena_t *arena, int64_t *out_count,
                                   const char *const **out_strings) {
  *out_count = 0;
  if (!shoal_json_find(intent, key)) return NULL;
  const shoal_json_t *array = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(intent, key, SHOAL_JSON_ARRAY, &array));
  const char **strings = SHOAL_NEW(arena, const char *, array->count);
  if (!strings) return SHOAL_OOM();
  for (int64_t i = 0; i < array->count; ++i) {
    if (array->children[i].kind != SHOAL_JSON_STRING)
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s must be a string", array->children[i].path);
    strings[i] = array->children[i].string;
  }
  *out_count = array->count;
  *out_strings = strings;
  return NULL;
}

static shoal_status_t read_decisions(const shoal_json_t *intent, shoal_arena_t *arena,
                                     shoal_intent_t *out_intent) {
  static const char *const keys[] = {"kind", "pattern", "choice", "by", "reason"};
  const shoal_json_t *array = NULL;
  if (!shoal_json_find(intent, "decisions")) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(intent, "decisions", SHOAL_JSON_ARRAY, &array));
  shoal_intent_decision_t *decisions = SHOAL_NEW(arena, shoal_intent_decision_t, array->count);
  if (!decisions) return SHOAL_OOM();
  for (int64_t i = 0; i < array->count; ++i) {
    const shoal_json_t *entry = &array->children[i];
    const char **texts[] = {&decisions[i].kind, &decisions[i].pattern, &decisions[i].choice,
                            &decisions[i].by, &decisions[i].reason};
    if (entry->kind != SHOAL_JSON_OBJECT)
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s must be an object", entry->path);
    SHOAL_RETURN_IF_ERROR(shoal_json_only(entry, keys, 5));
    for (int k = 0; k < 5; ++k)
      if (k < 3 || shoal_json_find(entry, keys[k]))
        SHOAL_RETURN_IF_ERROR(shoal_json_get_string(entry, keys[k], texts[k]));
  }
  out_intent->decision_count = array->count;
  out_intent->decisions = decisions;
  return NULL;
}

static shoal_status_t read_intent(const shoal_json_t *root, shoal_arena_t *arena,
                                  shoal_intent_t *out_intent) {
  static const char *const keys[] = {"strategy", "meshes", "layouts",
                                     "stages",   "expand", "decisions"};
  const shoal_json_t *intent = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(root, "intent", SHOAL_JSON_OBJECT, &intent));
  SHOAL_RETURN_IF_ERROR(shoal_json_only(intent, keys, 6));
  memset(out_intent, 0, sizeof *out_intent);
  if (shoal_json_find(intent, "strategy"))
    SHOAL_RETURN_IF_ERROR(shoal_json_get_string(intent, "strategy", &out_intent->strategy));
  SHOAL_RETURN_IF_ERROR(
      read_strings(intent, "meshes", arena, &out_intent->mesh_count, &out_intent->meshes));
  SHOAL_RETURN_IF_ERROR(
      read_strings(intent, "expand", arena, &out_intent->expand_count, &out_intent->expand));
  SHOAL_RETURN_IF_ERROR(
      read_entries(intent, "layouts", arena, &out_intent->layout_count, &out_intent->layouts));
  SHOAL_RETURN_IF_ERROR(
      read_entries(intent, "stages", arena, &out_intent->stage_count, &out_intent->stages));
  return read_decisions(intent, arena, out_intent);
}

// A number of at least `low`, small enough that sums of them do not overflow.
static shoal_status_t read_number(const shoal_json_t *number, int64_t low, int64_t *out_value) {
  if (number->kind != SHOAL_JSON_INT || number->integer < low || number->integer > INT32_MAX)
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s must be a number from %lld to %d", number->path,
                       (long long)low, INT32_MAX);
  *out_value = number->integer;
  return NULL;
}

static shoal_status_t read_chunks(const shoal_json_t *entry, shoal_item_cut_t *out_cut) {
  const shoal_json_t *list = NULL, *equal = shoal_json_find(entry, "equal_chunks");
  if (equal) {
    int64_t count = 0;
    if (shoal_json_find(entry, "chunks"))
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s: give \"chunks\" or \"equal_chunks\"", entry->path);
    SHOAL_RETURN_IF_ERROR(read_number(equal, 1, &count));
    out_cut->chunk_count = (int32_t)count;
  }
  if (!shoal_json_find(entry, "chunks")) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(entry, "chunks", SHOAL_JSON_ARRAY, &list));
  if (list->count < 1 || list->count > SHOAL_MAX_CHUNKS)
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s needs 1 to %d chunks", list->path, SHOAL_MAX_CHUNKS);
  out_cut->chunk_count = (int32_t)list->count;
  for (int64_t i = 0; i < list->count; ++i) {
    const shoal_json_t *pair = &list->children[i];
    if (pair->kind != SHOAL_JSON_ARRAY || pair->count != 2)
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s must be [length, unit]", pair->path);
    SHOAL_RETURN_IF_ERROR(read_number(&pair->children[0], 1, &out_cut->chunks[i].length));
    SHOAL_RETURN_IF_ERROR(read_number(&pair->children[1], 0, &out_cut->chunks[i].unit));
  }
  return NULL;
}

static shoal_status_t read_item_cut(const shoal_json_t *entry, int64_t axis_size,
                                    shoal_arena_t *arena, shoal_item_cut_t *out_cut) {
  static const char *const keys[] = {"way", "unit", "chunks", "equal_chunks", "weights"};
  SHOAL_RETURN_IF_ERROR(shoal_json_only(entry, keys, 5));
  const shoal_json_t *unit = shoal_json_find(entry, "unit");
  if (unit) SHOAL_RETURN_IF_ERROR(read_number(unit, 1, &out_cut->unit));
  SHOAL_RETURN_IF_ERROR(read_chunks(entry, out_cut));
  if (!shoal_json_find(entry, "weights")) return NULL;
  const shoal_json_t *list = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(entry, "weights", SHOAL_JSON_ARRAY, &list));
  int64_t *weights = SHOAL_NEW(arena, int64_t, axis_size);
  if (!weights) return SHOAL_OOM();
  if (list->count != axis_size)
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s needs one weight per rank of the axis", list->path);
  for (int64_t i = 0; i < axis_size; ++i)
    SHOAL_RETURN_IF_ERROR(read_number(&list->children[i], 0, &weights[i]));
  out_cut->weights = weights;
  return NULL;
}

// Finds the way of that text in the node's rule; names what is there if it is not.
static shoal_status_t find_way(const shoal_rule_t *rule, const shoal_op_t *op, const char *text,
                               const char *path, shoal_arena_t *scratch,
                               const shoal_way_t **out_way) {
  for (int32_t w = 0; w < rule->way_count; ++w) {
    const char *printed = NULL;
    SHOAL_RETURN_IF_ERROR(shoal_way_print(op, &rule->ways[w], scratch, &printed));
    if (strcmp(printed, text) == 0) {
      *out_way = &rule->ways[w];
      return NULL;
    }
  }
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "`shoal rules` lists the ways of an op",
                          "%s: '%s' is no way of %s", path, text, op->name);
}

static shoal_status_t read_node(shoal_plan_t *plan, shoal_graph_plan_t *gp, int32_t n,
                                const shoal_json_t *entry, shoal_arena_t *scratch) {
  static const char *const keys[] = {"mesh", "ways"};
  const shoal_node_t *node = &gp->graph->nodes.items[n];
  shoal_node_plan_t *np = &gp->nodes[n];
  SHOAL_RETURN_IF_ERROR(shoal_json_only(entry, keys, 2));
  const char *mesh_name = NULL;
  if (shoal_json_find(entry, "mesh")) {
    SHOAL_RETURN_IF_ERROR(shoal_json_get_string(entry, "mesh", &mesh_name));
    np->mesh = -1;
    for (int64_t m = 0; m < plan->mesh_count; ++m)
      if (strcmp(plan->meshes[m].name, mesh_name) == 0) np->mesh = (int32_t)m;
    if (np->mesh < 0)
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s: no mesh '%s'", entry->path, mesh_name);
  }
  const shoal_mesh_t *mesh = &plan->meshes[np->mesh];
  const shoal_json_t *ways = NULL;
  shoal_choice_t choices[SHOAL_PLAN_SLOTS] = {0};
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(entry, "ways", SHOAL_JSON_OBJECT, &ways));
  shoal_call_t call;
  const shoal_rule_t *rule = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_node_call(gp->graph, node, scratch, &call));
  SHOAL_RETURN_IF_ERROR(shoal_rules_get(plan->rules, &call, &rule));
  for (int64_t i = 0; i < ways->count; ++i) {
    const shoal_json_t *way = &ways->children[i];
    int32_t slot = strcmp(way->key, "micro") == 0 ? 0 : shoal_mesh_axis(mesh, way->key) + 1;
    if (slot == 0 && strcmp(way->key, "micro") != 0)
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s: the mesh has no axis '%s'", way->path, way->key);
    shoal_choice_t *choice = &choices[slot];
    const char *text = NULL;
    if (way->kind == SHOAL_JSON_OBJECT) {
      SHOAL_RETURN_IF_ERROR(shoal_json_get_string(way, "way", &text));
      int64_t size = slot == 0 ? mesh->micro : mesh->axes[slot - 1].size;
      SHOAL_RETURN_IF_ERROR(read_item_cut(way, size, &plan->arena, &choice->item_cut));
    } else if (way->kind == SHOAL_JSON_STRING) {
      text = way->string;
    } else {
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s must be a way or an object with one", way->path);
    }
    SHOAL_RETURN_IF_ERROR(find_way(rule, node->op, text, way->path, scratch, &choice->way));
  }
  shoal_status_t status = shoal_plan_decide(plan, gp, n, choices);
  if (status) return shoal_status_annotatef(status, "%s", entry->path);
  return NULL;
}

// Resting layouts as they were resolved; the intent's are what they were made from.
static shoal_status_t read_states(shoal_plan_t *plan, const shoal_json_t *resolved) {
  const shoal_model_t *model = plan->model;
  const shoal_json_t *states = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(resolved, "states", SHOAL_JSON_OBJECT, &states));
  if (states->count != model->states.count)
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s lists %lld states, the model has %lld", states->path,
                       (long long)states->count, (long long)model->states.count);
  for (int64_t s = 0; s < model->states.count; ++s) {
    const char *text = NULL;
    SHOAL_RETURN_IF_ERROR(shoal_json_get_string(states, model->states.items[s].name, &text));
    SHOAL_RETURN_IF_ERROR(shoal_plan_rest_state(plan, (int32_t)s, text, -1));
  }
  for (int64_t g = 0; g < model->graphs.count; ++g) {
    const shoal_graph_t *graph = model->graphs.items[g];
    for (int64_t v = 0; v < graph->values.count; ++v)
      if (graph->values.items[v].source == SHOAL_FROM_STATE)
        plan->graphs[g].values[v] = plan->states[graph->values.items[v].index];
  }
  return NULL;
}

static shoal_status_t read_nodes(shoal_plan_t *plan, const shoal_json_t *resolved,
                                 shoal_arena_t *scratch) {
  const shoal_json_t *nodes = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(resolved, "nodes", SHOAL_JSON_OBJECT, &nodes));
  for (int64_t g = 0; g < plan->model->graphs.count; ++g) {
    shoal_graph_plan_t *gp = &plan->graphs[g];
    const shoal_json_t *graph = NULL;
    SHOAL_RETURN_IF_ERROR(shoal_json_get_child(nodes, gp->graph->name, SHOAL_JSON_OBJECT, &graph));
    if (graph->count != gp->graph->nodes.count)
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s lists %lld nodes, the graph has %lld", graph->path,
                         (long long)graph->count, (long long)gp->graph->nodes.count);
    for (int32_t n = 0; n < gp->graph->nodes.count; ++n) {
      const shoal_json_t *entry = NULL;
      SHOAL_RETURN_IF_ERROR(
          shoal_json_get_child(graph, gp->graph->nodes.items[n].name, SHOAL_JSON_OBJECT, &entry));
      SHOAL_RETURN_IF_ERROR(read_node(plan, gp, n, entry, scratch));
    }
  }
  return NULL;
}

// Does the resolved part speak of this model, these rules and this world?
static shoal_status_t guard_fits(const shoal_plan_t *plan, const shoal_json_t *resolved,
                                 shoal_arena_t *scratch, bool *out_fits) {
  static const char *const keys[] = {"model", "rules", "world", "states", "nodes"};
  SHOAL_RETURN_IF_ERROR(shoal_json_only(resolved, keys, 5));
  const char *model = NULL, *rules = NULL, *model_now = NULL, *rules_now = NULL;
  int64_t world = 0;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(resolved, "model", &model));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(resolved, "rules", &rules));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_int(resolved, "world", &world));
  SHOAL_RETURN_IF_ERROR(guard_of(plan, scratch, &model_now, &rules_now));
  *out_fits =
      world == plan->world && strcmp(model, model_now) == 0 && strcmp(rules, rules_now) == 0;
  return NULL;
}

static shoal_status_t parse(const char *name, const char *text, const shoal_model_t *model,
                            shoal_rules_t *rules, int32_t world, shoal_allocator_t allocator,
                            shoal_arena_t *scratch, bool *out_rebuilt, shoal_plan_t **out_plan) {
  static const char *const keys[] = {"shoal_plan", "intent", "resolved"};
  const shoal_json_t *root = NULL;
  shoal_intent_t intent;
  int64_t version = 0;
  SHOAL_RETURN_IF_ERROR(shoal_json_parse(name, text, scratch, &root));
  if (root->kind != SHOAL_JSON_OBJECT)
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s: a plan is a JSON object", name);
  SHOAL_RETURN_IF_ERROR(shoal_json_only(root, keys, 3));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_int(root, "shoal_plan", &version));
  if (version != 1)
    return SHOAL_ERROR(UNSUPPORTED, "%s: plan format %lld; this version reads 1", name,
                       (long long)version);
  SHOAL_RETURN_IF_ERROR(read_intent(root, scratch, &intent));
  const shoal_json_t *resolved = shoal_json_find(root, "resolved");
  bool fits = false;
  if (resolved) {
    SHOAL_RETURN_IF_ERROR(shoal_plan_prepare(model, rules, &intent, world, allocator, out_plan));
    SHOAL_RETURN_IF_ERROR(guard_fits(*out_plan, resolved, scratch, &fits));
    if (fits) {
      SHOAL_RETURN_IF_ERROR(read_states(*out_plan, resolved));
      return read_nodes(*out_plan, resolved, scratch);
    }
    shoal_plan_free(*out_plan);
    *out_plan = NULL;
  }
  if (out_rebuilt) *out_rebuilt = resolved != NULL;
  return shoal_plan_create(model, rules, &intent, world, allocator, out_plan);
}

shoal_status_t shoal_plan_parse(const char *name, const char *text, const shoal_model_t *model,
                                shoal_rules_t *rules, int32_t world, shoal_allocator_t allocator,
                                bool *out_rebuilt, shoal_plan_t **out_plan) {
  *out_plan = NULL;
  if (out_rebuilt) *out_rebuilt = false;
  if (!allocator.alloc) allocator = shoal_allocator_system();
  shoal_arena_t scratch;
  shoal_arena_init(allocator, &scratch);
  shoal_status_t status =
      parse(name, text, model, rules, world, allocator, &scratch, out_rebuilt, out_plan);
  shoal_arena_deinit(&scratch);
  if (status) {
    shoal_plan_free(*out_plan);
    *out_plan = NULL;
    bool named = strstr(shoal_status_message(status), name) != NULL;  // "name:3:7: ..." says it
    return named ? status : shoal_status_annotatef(status, "plan '%s'", name);
  }
  return NULL;
}
