// Which nodes the resolved part of a plan file says are composite. It is read first: everything
// else in the file speaks of the parts.
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "plan/composite.h"
#include "plan/resolved.h"

typedef struct reader {
  const shoal_model_t *model;
  shoal_index_t *nodes;  // by graph; empty until one of its nodes is looked for
  bool *indexed;
  shoal_arena_t *scratch;
} reader_t;

static bool is_string(const shoal_json_t *json) {
  return json && json->kind == SHOAL_JSON_STRING;
}

// Does an entry make its node composite? One that makes no sense is refused when the list is read.
static bool speaks_of_one(const shoal_json_t *entry) {
  if (entry->kind != SHOAL_JSON_OBJECT) return false;
  const shoal_json_t *kind = shoal_json_find(entry, "kind");
  const shoal_json_t *choice = shoal_json_find(entry, "choice");
  if (!is_string(kind) || !is_string(choice)) return false;
  if (strcmp(kind->string, "expand") == 0) return strcmp(choice->string, "yes") == 0;
  return strcmp(kind->string, "way") == 0 && shoal_choice_is_composite(choice->string);
}

static shoal_status_t unknown(const shoal_json_t *entry, const char *what, const char *name) {
  return SHOAL_ERROR(INVALID_ARGUMENT, "%s: there is no %s '%s'", entry->path, what, name);
}

static shoal_status_t find(reader_t *r, const shoal_json_t *entry, int64_t *out_graph,
                           int64_t *out_node) {
  const char *in, *name;
  int64_t g = 0;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(entry, "graph", &in));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(entry, "node", &name));
  while (g < r->model->graphs.count && strcmp(r->model->graphs.items[g]->name, in) != 0) ++g;
  if (g == r->model->graphs.count) return unknown(entry, "graph", in);
  const shoal_graph_t *graph = r->model->graphs.items[g];
  for (int64_t n = 0; n < graph->nodes.count && !r->indexed[g]; ++n)
    if (!shoal_index_add(&r->nodes[g],
                         shoal_hash_string(SHOAL_HASH_START, graph->nodes.items[n].name), n))
      return SHOAL_OOM();
  r->indexed[g] = true;
  const uint64_t hash = shoal_hash_string(SHOAL_HASH_START, name);
  for (int64_t at = -1, n; (n = shoal_index_next(&r->nodes[g], hash, &at)) >= 0;)
    if (strcmp(graph->nodes.items[n].name, name) == 0) {
      *out_graph = g;
      *out_node = n;
      return NULL;
    }
  return unknown(entry, "node", name);
}

shoal_status_t shoal_resolved_phased(const shoal_model_t *model, const shoal_json_t *list,
                                     shoal_arena_t *scratch, bool ***out_phased) {
  const int64_t count = model->graphs.count;
  reader_t r = {.model = model, .scratch = scratch};
  bool **phased = *out_phased = SHOAL_NEW(scratch, bool *, count);
  r.nodes = SHOAL_NEW(scratch, shoal_index_t, count);
  r.indexed = SHOAL_NEW(scratch, bool, count);
  if (!phased || !r.nodes || !r.indexed) return SHOAL_OOM();
  for (int64_t g = 0; g < count; ++g) {
    shoal_index_init(scratch, &r.nodes[g]);
    phased[g] = SHOAL_NEW(scratch, bool, model->graphs.items[g]->nodes.count);
    if (!phased[g]) return SHOAL_OOM();
  }
  for (int64_t i = 0; i < list->count; ++i) {
    const shoal_json_t *entry = &list->children[i];
    int64_t g = 0, n = 0;
    if (!speaks_of_one(entry)) continue;
    SHOAL_RETURN_IF_ERROR(find(&r, entry, &g, &n));
    const shoal_node_t *node = &model->graphs.items[g]->nodes.items[n];
    if (!node->op->decompose)
      return SHOAL_ERROR(UNSUPPORTED, "%s: %s has no phases, so '%s' cannot be composite",
                         entry->path, node->op->name, node->name);
    phased[g][n] = true;
  }
  return NULL;
}
