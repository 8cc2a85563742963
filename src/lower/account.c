// See account.h.
#include "lower/account.h"

#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "plan/plan.h"

static uint64_t hash_of(const char *name) {
  return shoal_hash_string(SHOAL_HASH_START, name);
}

static shoal_origin_t origin_of(const shoal_node_t *node) {
  switch (node->kind) {
    case SHOAL_NODE_INPUT_GRADIENT:
    case SHOAL_NODE_WEIGHT_GRADIENT:
      return SHOAL_ORIGIN_GRADIENT;
    case SHOAL_NODE_UPDATE:
      return SHOAL_ORIGIN_UPDATE;
    default:
      return SHOAL_ORIGIN_FORWARD;
  }
}

size_t shoal_account_layer(const char *name) {
  size_t first = 0;
  for (size_t at = 0;; ++at) {
    if (name[at] != '/' && name[at] != 0) continue;
    if (name[at] == '/' && first == 0) first = at;
    if (name[at] == '/' && at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9') return at;
    if (name[at] == 0) return first > 0 ? first : strcspn(name, "#.");
  }
}

shoal_origin_t shoal_account_node(const shoal_account_t *a, const char *name) {
  for (int64_t at = -1, n; (n = shoal_index_next(&a->nodes, hash_of(name), &at)) >= 0;)
    if (strcmp(a->graph->nodes.items[n].name, name) == 0)
      return origin_of(&a->graph->nodes.items[n]);
  return SHOAL_ORIGIN_UNKNOWN;
}

shoal_origin_t shoal_account_value(const shoal_account_t *a, const char *name) {
  for (int64_t at = -1, v; (v = shoal_index_next(&a->values, hash_of(name), &at)) >= 0;) {
    const shoal_value_info_t *info = &a->graph->values.items[v];
    if (strcmp(info->name, name) != 0) continue;
    if (info->source == SHOAL_FROM_NODE) return origin_of(&a->graph->nodes.items[info->node]);
    return info->source == SHOAL_FROM_STATE ? SHOAL_ORIGIN_STATE : SHOAL_ORIGIN_INPUT;
  }
  return SHOAL_ORIGIN_UNKNOWN;
}

shoal_status_t shoal_account_open(const shoal_plan_t *plan, const shoal_program_t *program,
                                  const char *graph, int32_t rank, shoal_arena_t *scratch,
                                  shoal_account_t *out_account) {
  shoal_account_t a = {.program = program, .scratch = scratch};
  a.rank_class = shoal_program_class_of(program, rank);
  if (!a.rank_class)
    return SHOAL_ERROR(INVALID_ARGUMENT, "there is no rank %d: the plan has %d", rank,
                       program->world);
  for (int64_t g = 0; g < plan->model->graphs.count; ++g)
    if (strcmp(plan->graphs[g].graph->name, graph) == 0) a.graph = plan->graphs[g].graph;
  for (int64_t o = 0; o < a.rank_class->order_count; ++o)
    if (strcmp(a.rank_class->orders[o].graph, graph) == 0) a.order = &a.rank_class->orders[o];
  if (!a.graph || !a.order) return SHOAL_ERROR(NOT_FOUND, "the plan has no graph '%s'", graph);
  shoal_index_init(scratch, &a.nodes);
  shoal_index_init(scratch, &a.values);
  for (int64_t n = 0; n < a.graph->nodes.count; ++n)
    if (!shoal_index_add(&a.nodes, hash_of(a.graph->nodes.items[n].name), n)) return SHOAL_OOM();
  for (int64_t v = 0; v < a.graph->values.count; ++v)
    if (!shoal_index_add(&a.values, hash_of(a.graph->values.items[v].name), v)) return SHOAL_OOM();
  *out_account = a;
  return NULL;
}
