// Plan files: JSON with an intent, portable between batch sizes, and a resolved part guarded by
// hashes of model, rules and intent. Reading prefers the resolved part if the guard fits, else
// completes the intent anew.
#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/status.h"
#include "plan/complete.h"
#include "plan/resolved.h"
#include "plan/summands.h"

// -------------------------------------------------------------------------------------------------
// Writing
// -------------------------------------------------------------------------------------------------

static shoal_status_t write_entries(shoal_json_writer_t *w, const char *key, int64_t count,
                                    const shoal_intent_entry_t *entries, shoal_arena_t *scratch) {
  bool *repeated = SHOAL_NEW(scratch, bool, count);
  shoal_index_t seen;
  shoal_index_init(scratch, &seen);
  if (!repeated) return SHOAL_OOM();
  for (int64_t i = count; i-- > 0;) {  // a later entry of the same pattern wins: only that one
    const uint64_t hash = shoal_hash_string(SHOAL_HASH_START, entries[i].pattern);
    for (int64_t at = -1, k; (k = shoal_index_next(&seen, hash, &at)) >= 0 && !repeated[i];)
      repeated[i] = strcmp(entries[k].pattern, entries[i].pattern) == 0;
    if (!repeated[i] && !shoal_index_add(&seen, hash, i)) return SHOAL_OOM();
  }
  shoal_json_begin(w, key, '{', false);
  for (int64_t i = 0; i < count; ++i)
    if (!repeated[i]) shoal_json_string(w, entries[i].pattern, entries[i].value);
  shoal_json_end(w, '}');
  return NULL;
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

static shoal_status_t write_intent(shoal_json_writer_t *w, const shoal_intent_t *intent,
                                   shoal_arena_t *scratch) {
  shoal_json_begin(w, "intent", '{', false);
  shoal_json_string(w, "strategy", intent->strategy);
  write_strings(w, "meshes", intent->mesh_count, intent->meshes);
  SHOAL_RETURN_IF_ERROR(
      write_entries(w, "layouts", intent->layout_count, intent->layouts, scratch));
  SHOAL_RETURN_IF_ERROR(write_entries(w, "stages", intent->stage_count, intent->stages, scratch));
  write_strings(w, "expand", intent->expand_count, intent->expand);
  write_decisions(w, intent);
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
static shoal_status_t know_rules(const shoal_plan_t *plan, const shoal_model_t *model,
                                 shoal_arena_t *arena) {
  for (int64_t g = 0; g < model->graphs.count; ++g) {
    const shoal_graph_t *graph = model->graphs.items[g];
    for (int64_t n = 0; n < graph->nodes.count; ++n) {
      shoal_call_t call;
      const shoal_rule_t *rule = NULL;
      SHOAL_RETURN_IF_ERROR(shoal_node_call(graph, &graph->nodes.items[n], arena, &call));
      SHOAL_RETURN_IF_ERROR(shoal_rules_get(plan->rules, &call, &rule));
    }
  }
  return NULL;
}

// What the resolved part was made from. Rules count only where something is cut; those of parts
// follow from the model's.
typedef struct guard {
  const char *model, *rules, *intent;
} guard_t;

static shoal_status_t hash_intent(const shoal_plan_t *plan, shoal_arena_t *arena,
                                  uint64_t *out_hash) {
  shoal_text_t text;
  shoal_json_writer_t w;
  shoal_text_init(plan->allocator, &text);
  shoal_json_writer_init(&text, &w);
  shoal_json_begin(&w, NULL, '{', false);
  shoal_status_t status = write_intent(&w, &plan->intent, arena);
  shoal_json_end(&w, '}');
  if (!status) status = shoal_text_status(&text);
  *out_hash = shoal_hash_string(SHOAL_HASH_START, shoal_text_string(&text));
  shoal_text_deinit(&text);
  return status;
}

static shoal_status_t guard_of(const shoal_plan_t *plan, const shoal_model_t *model,
                               shoal_arena_t *arena, guard_t *out_guard) {
  uint64_t rules = 0, intent = 0;
  if (cuts_anything(plan)) {
    SHOAL_RETURN_IF_ERROR(know_rules(plan, model, arena));
    SHOAL_RETURN_IF_ERROR(shoal_rules_hash(plan->rules, model, &rules));
  }
  SHOAL_RETURN_IF_ERROR(hash_intent(plan, arena, &intent));
  out_guard->model = shoal_arena_printf(arena, "%016" PRIx64, shoal_model_structure_hash(model));
  out_guard->rules = shoal_arena_printf(arena, "%016" PRIx64, rules);
  out_guard->intent = shoal_arena_printf(arena, "%016" PRIx64, intent);
  return out_guard->model && out_guard->rules && out_guard->intent ? NULL : SHOAL_OOM();
}

static shoal_status_t write_plan(const shoal_plan_t *plan, shoal_arena_t *arena,
                                 shoal_text_t *text) {
  guard_t guard;
  shoal_json_writer_t w;
  SHOAL_RETURN_IF_ERROR(guard_of(plan, plan->given, arena, &guard));
  shoal_json_writer_init(text, &w);
  shoal_json_begin(&w, NULL, '{', false);
  shoal_json_int(&w, "shoal_plan", 1);
  SHOAL_RETURN_IF_ERROR(write_intent(&w, &plan->intent, arena));
  shoal_json_begin(&w, "resolved", '{', false);
  shoal_json_string(&w, "model", guard.model);
  shoal_json_string(&w, "rules", guard.rules);
  shoal_json_string(&w, "intent", guard.intent);
  shoal_json_int(&w, "world", plan->world);
  int64_t count;
  const char *const *lines;
  SHOAL_RETURN_IF_ERROR(shoal_plan_approximate(plan, arena, &count, &lines));
  if (count > 0) write_strings(&w, "approximate", count, lines);
  SHOAL_RETURN_IF_ERROR(shoal_resolved_write(plan, &w, arena));
  shoal_json_end(&w, '}');
  shoal_json_end(&w, '}');
  shoal_text_add(text, "\n");
  return NULL;
}

shoal_status_t shoal_plan_print(const shoal_plan_t *plan, shoal_arena_t *arena,
                                const char **out_text) {
  shoal_text_t text;
  shoal_text_init(plan->allocator, &text);
  shoal_status_t status = write_plan(plan, arena, &text);
  return shoal_text_close(&text, status, arena, out_text);
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

// Does the resolved part speak of this model, these rules, this world and this intent? Older files
// do not say what intent they were made from, and have hashes of the model with its parts.
static shoal_status_t guard_fits(const shoal_plan_t *plan, const shoal_json_t *resolved, bool older,
                                 shoal_arena_t *scratch, bool *out_fits) {
  // `approximate` follows from the rest: it is there to be read by people.
  static const char *const keys[] = {"model",  "rules", "intent",    "world",
                                     "states", "nodes", "decisions", "approximate"};
  SHOAL_RETURN_IF_ERROR(shoal_json_only(resolved, keys, 8));
  guard_t made, now;
  int64_t world = 0;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(resolved, "model", &made.model));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(resolved, "rules", &made.rules));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_int(resolved, "world", &world));
  SHOAL_RETURN_IF_ERROR(guard_of(plan, older ? plan->model : plan->given, scratch, &now));
  made.intent = now.intent;
  if (shoal_json_find(resolved, "intent"))
    SHOAL_RETURN_IF_ERROR(shoal_json_get_string(resolved, "intent", &made.intent));
  *out_fits = world == plan->world && strcmp(made.model, now.model) == 0 &&
              strcmp(made.rules, now.rules) == 0 && strcmp(made.intent, now.intent) == 0;
  return NULL;
}

static shoal_status_t read_resolved(shoal_plan_t *plan, const shoal_json_t *resolved,
                                    shoal_arena_t *scratch) {
  if (!shoal_json_find(resolved, "decisions"))
    return shoal_resolved_read_maps(plan, resolved, scratch);
  const shoal_json_t *list = NULL;
  if (shoal_json_find(resolved, "states") || shoal_json_find(resolved, "nodes"))
    return SHOAL_ERROR(INVALID_ARGUMENT,
                       "%s has \"decisions\": \"states\" and \"nodes\" are of an older form",
                       resolved->path);
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(resolved, "decisions", SHOAL_JSON_ARRAY, &list));
  return shoal_resolved_read(plan, list, scratch);
}

// Is the resolved part of the form that names composite nodes, and of this model? Then *out_phased
// says which they are; in older files the intent does.
static shoal_status_t read_phased(const shoal_model_t *model, const shoal_json_t *resolved,
                                  shoal_arena_t *scratch, bool ***out_phased) {
  const shoal_json_t *list = NULL;
  const char *made = NULL;
  *out_phased = NULL;
  if (resolved->kind != SHOAL_JSON_OBJECT || !shoal_json_find(resolved, "decisions")) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(resolved, "decisions", SHOAL_JSON_ARRAY, &list));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(resolved, "model", &made));
  const char *now = shoal_arena_printf(scratch, "%016" PRIx64, shoal_model_structure_hash(model));
  if (!now) return SHOAL_OOM();
  return strcmp(made, now) == 0 ? shoal_resolved_phased(model, list, scratch, out_phased) : NULL;
}

// Decisions that are given besides come behind those of the file.
static shoal_status_t add_decisions(int64_t count, const shoal_intent_decision_t *decisions,
                                    shoal_arena_t *arena, shoal_intent_t *intent) {
  if (count == 0) return NULL;
  shoal_intent_decision_t *all =
      SHOAL_NEW(arena, shoal_intent_decision_t, intent->decision_count + count);
  if (!all) return SHOAL_OOM();
  for (int64_t i = 0; i < intent->decision_count; ++i) all[i] = intent->decisions[i];
  for (int64_t i = 0; i < count; ++i) all[intent->decision_count + i] = decisions[i];
  intent->decisions = all;
  intent->decision_count += count;
  return NULL;
}

static shoal_status_t parse(const char *name, const char *text, const shoal_model_t *model,
                            shoal_rules_t *rules, int32_t world, int64_t count,
                            const shoal_intent_decision_t *decisions, shoal_allocator_t allocator,
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
  SHOAL_RETURN_IF_ERROR(add_decisions(count, decisions, scratch, &intent));
  const shoal_json_t *resolved = shoal_json_find(root, "resolved");
  bool fits = false;
  if (resolved && count == 0) {
    bool **phased = NULL;
    SHOAL_RETURN_IF_ERROR(read_phased(model, resolved, scratch, &phased));
    SHOAL_RETURN_IF_ERROR(
        shoal_plan_prepare(model, rules, &intent, world, allocator, phased, out_plan));
    SHOAL_RETURN_IF_ERROR(guard_fits(*out_plan, resolved, !phased, scratch, &fits));
    if (fits) {
      SHOAL_RETURN_IF_ERROR(read_resolved(*out_plan, resolved, scratch));
      return shoal_plan_check_summands(*out_plan);
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
  return shoal_plan_parse_decided(name, text, model, rules, world, 0, NULL, allocator, out_rebuilt,
                                  out_plan);
}

shoal_status_t shoal_plan_parse_decided(const char *name, const char *text,
                                        const shoal_model_t *model, shoal_rules_t *rules,
                                        int32_t world, int64_t decision_count,
                                        const shoal_intent_decision_t *decisions,
                                        shoal_allocator_t allocator, bool *out_rebuilt,
                                        shoal_plan_t **out_plan) {
  *out_plan = NULL;
  if (out_rebuilt) *out_rebuilt = false;
  for (int64_t i = 0; i < decision_count; ++i)
    if (strcmp(decisions[i].kind, "balance") == 0)
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "make a plan with it: --strategy pipeline",
                              "plan '%s' has its stages, which leaves nothing to balance by %s",
                              name, decisions[i].choice);
  if (!allocator.alloc) allocator = shoal_allocator_system();
  shoal_arena_t scratch;
  shoal_arena_init(allocator, &scratch);
  shoal_status_t status = parse(name, text, model, rules, world, decision_count, decisions,
                                allocator, &scratch, out_rebuilt, out_plan);
  shoal_arena_deinit(&scratch);
  if (status) {
    shoal_plan_free(*out_plan);
    *out_plan = NULL;
    bool named = strstr(shoal_status_message(status), name) != NULL;  // "name:3:7: ..." says it
    return named ? status : shoal_status_annotatef(status, "plan '%s'", name);
  }
  return NULL;
}
