// Reading the resolved part of plan files of an older form: maps of states and of nodes with their
// ways, instead of a list of decisions. It is not written any more.
#include <string.h>

#include "base/status.h"
#include "plan/choose.h"
#include "plan/complete.h"
#include "plan/resolved.h"

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
    shoal_choice_t found;
    bool dealt;
    shoal_status_t status = shoal_way_choice_parse(text, rule, node, 1, scratch, &dealt, &found);
    if (status) return shoal_status_annotatef(status, "%s", way->path);
    choice->way = found.way;
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

shoal_status_t shoal_resolved_read_maps(shoal_plan_t *plan, const shoal_json_t *resolved,
                                        shoal_arena_t *scratch) {
  SHOAL_RETURN_IF_ERROR(read_states(plan, resolved));
  return read_nodes(plan, resolved, scratch);
}
