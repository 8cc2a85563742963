// Names in the resolved part of a plan file. A plan has tens of thousands of them, so they are
// found by their hashes; where there is none, the nearest is suggested.
#include "plan/resolved_names.h"

#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "shoal/options.h"

shoal_status_t shoal_entry_names_init(const shoal_model_t *model, shoal_arena_t *scratch,
                                      shoal_entry_names_t *out_names) {
  *out_names = (shoal_entry_names_t){.model = model, .scratch = scratch};
  out_names->graphs = SHOAL_NEW(scratch, shoal_entry_graph_t, model->graphs.count);
  return out_names->graphs ? NULL : SHOAL_OOM();
}

shoal_status_t shoal_entry_annotate(const shoal_json_t *entry, shoal_status_t status) {
  if (!status || strstr(shoal_status_message(status), entry->path)) return status;
  return shoal_status_annotatef(status, "%s", entry->path);
}

shoal_status_t shoal_entry_unknown(const char *what, const char *name, int64_t count,
                                   const char *const *names, const char *otherwise) {
  shoal_hint_t hint;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                          shoal_did_you_mean(name, names, count, otherwise, &hint),
                          "there is no %s '%s'", what, name);
}

typedef enum sort { GRAPH, STATE, NODE, VALUE, INPUT, OUTPUT } sort_t;

// The i-th name of a sort, in a graph where it is one of a graph's; NULL behind the last.
static const char *name_at(const shoal_model_t *model, const shoal_graph_t *graph, sort_t sort,
                           int64_t i) {
  switch (sort) {
    case GRAPH:
      return i < model->graphs.count ? model->graphs.items[i]->name : NULL;
    case STATE:
      return i < model->states.count ? model->states.items[i].name : NULL;
    case NODE:
      return i < graph->nodes.count ? graph->nodes.items[i].name : NULL;
    case VALUE:
      return i < graph->values.count ? graph->values.items[i].name : NULL;
    case INPUT:
      return i < graph->inputs.count ? graph->inputs.items[i].name : NULL;
    case OUTPUT:
      return i < graph->outputs.count ? graph->outputs.items[i].name : NULL;
  }
  return NULL;
}

static shoal_status_t unknown(const shoal_entry_names_t *names, const shoal_graph_t *graph,
                              sort_t sort, const char *what, const char *name) {
  SHOAL_VEC(const char *) all = {0};
  const char *one;
  for (int64_t i = 0; (one = name_at(names->model, graph, sort, i)); ++i)
    if (!SHOAL_PUSH(names->scratch, &all, one)) return SHOAL_OOM();
  return shoal_entry_unknown(what, name, all.count, all.items,
                             "`shoal explain MODEL --graph` lists the names");
}

// ---- by hash ---------------------------------------------------------------------------

static shoal_status_t fill(const shoal_entry_names_t *names, const shoal_graph_t *graph,
                           sort_t sort, shoal_index_t *index) {
  const char *name;
  shoal_index_init(names->scratch, index);
  for (int64_t i = 0; (name = name_at(names->model, graph, sort, i)); ++i)
    if (!shoal_index_add(index, shoal_hash_string(SHOAL_HASH_START, name), i)) return SHOAL_OOM();
  return NULL;
}

// The index of a node or value in its graph; -1: there is none of that name.
static shoal_status_t look_up(const shoal_entry_names_t *names, int64_t g, sort_t sort,
                              const char *name, int32_t *out_index) {
  const shoal_graph_t *graph = names->model->graphs.items[g];
  shoal_entry_graph_t *known = &names->graphs[g];
  shoal_index_t *index = sort == NODE ? &known->nodes : &known->values;
  bool *has = sort == NODE ? &known->has_nodes : &known->has_values;
  if (!*has) SHOAL_RETURN_IF_ERROR(fill(names, graph, sort, index));
  *has = true;
  *out_index = -1;
  const uint64_t hash = shoal_hash_string(SHOAL_HASH_START, name);
  for (int64_t at = -1, i; *out_index < 0 && (i = shoal_index_next(index, hash, &at)) >= 0;)
    if (strcmp(name_at(names->model, graph, sort, i), name) == 0) *out_index = (int32_t)i;
  return NULL;
}

// ---- entries ---------------------------------------------------------------------------

shoal_status_t shoal_entry_graph(const shoal_entry_names_t *names, const shoal_json_t *entry,
                                 int64_t *out_graph) {
  const char *name;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(entry, "graph", &name));
  for (int64_t g = 0; g < names->model->graphs.count; ++g)
    if (strcmp(names->model->graphs.items[g]->name, name) == 0) {
      *out_graph = g;
      return NULL;
    }
  return unknown(names, NULL, GRAPH, "graph", name);
}

shoal_status_t shoal_entry_node(const shoal_entry_names_t *names, const shoal_json_t *entry,
                                int64_t *out_graph, int32_t *out_node) {
  const char *name;
  SHOAL_RETURN_IF_ERROR(shoal_entry_graph(names, entry, out_graph));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(entry, "node", &name));
  SHOAL_RETURN_IF_ERROR(look_up(names, *out_graph, NODE, name, out_node));
  if (*out_node >= 0) return NULL;
  return unknown(names, names->model->graphs.items[*out_graph], NODE, "node", name);
}

shoal_status_t shoal_entry_value(const shoal_entry_names_t *names, const shoal_json_t *entry,
                                 int64_t *out_graph, int32_t *out_value) {
  const char *name;
  SHOAL_RETURN_IF_ERROR(shoal_entry_graph(names, entry, out_graph));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(entry, "value", &name));
  SHOAL_RETURN_IF_ERROR(look_up(names, *out_graph, VALUE, name, out_value));
  if (*out_value >= 0) return NULL;
  return unknown(names, names->model->graphs.items[*out_graph], VALUE, "value", name);
}

// The index of one of a graph's inputs or outputs.
static shoal_status_t find_named(const shoal_entry_names_t *names, const shoal_json_t *entry,
                                 sort_t sort, const char *key, int64_t *out_graph,
                                 int64_t *out_index) {
  const char *name, *one;
  SHOAL_RETURN_IF_ERROR(shoal_entry_graph(names, entry, out_graph));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(entry, key, &name));
  const shoal_graph_t *graph = names->model->graphs.items[*out_graph];
  for (int64_t i = 0; (one = name_at(names->model, graph, sort, i)); ++i)
    if (strcmp(one, name) == 0) {
      *out_index = i;
      return NULL;
    }
  return unknown(names, graph, sort, key, name);
}

shoal_status_t shoal_entry_input(const shoal_entry_names_t *names, const shoal_json_t *entry,
                                 int64_t *out_graph, int32_t *out_value) {
  int64_t input = 0;
  SHOAL_RETURN_IF_ERROR(find_named(names, entry, INPUT, "input", out_graph, &input));
  *out_value = names->model->graphs.items[*out_graph]->inputs.items[input].value;
  return NULL;
}

shoal_status_t shoal_entry_output(const shoal_entry_names_t *names, const shoal_json_t *entry,
                                  int64_t *out_graph, int64_t *out_output) {
  return find_named(names, entry, OUTPUT, "output", out_graph, out_output);
}

shoal_status_t shoal_entry_state(const shoal_entry_names_t *names, const shoal_json_t *entry,
                                 int32_t *out_state) {
  const char *name;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(entry, "state", &name));
  *out_state = shoal_model_find_state(names->model, name);
  return *out_state >= 0 ? NULL : unknown(names, NULL, STATE, "state", name);
}
