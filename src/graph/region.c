// Parts of a graph that are marked to be computed again: shoal_with_recompute. The graph only keeps
// which region a node is of; plan/resolve.c makes it part of the plan.
#include "base/status.h"
#include "graph/builder.h"

shoal_status_t shoal_graph_push_region(shoal_graph_t *graph, shoal_open_region_t region) {
  return SHOAL_PUSH(&graph->model->arena, &graph->builder->regions, region) ? NULL : SHOAL_OOM();
}

void shoal_graph_pop_region(shoal_graph_t *graph) {
  --graph->builder->regions.count;
}

static shoal_status_t make_region(shoal_graph_t *graph, const char *file, int line,
                                  shoal_open_region_t *out_region) {
  struct shoal_graph_builder *b = graph->builder;
  *out_region = (shoal_open_region_t){0};
  if (b->regions.count > 0) {
    const shoal_open_region_t *open = &b->regions.items[b->regions.count - 1];
    return SHOAL_ERROR_HINT(
        INVALID_ARGUMENT, "end the one before the other begins",
        "a part that is recomputed is inside of another, which begins at %s:%d: they do not nest",
        open->file ? open->file : "", open->line);
  }
  if (b->region_count == SHOAL_MOST_REGIONS)
    return SHOAL_ERROR(INVALID_ARGUMENT, "no more than %d parts can be recomputed",
                       SHOAL_MOST_REGIONS);
  const char *copy = shoal_arena_strdup(&graph->model->arena, file ? file : "");
  if (!copy) return SHOAL_OOM();
  *out_region = (shoal_open_region_t){++b->region_count, copy, line};
  return NULL;
}

bool shoal_recompute_push_at(shoal_graph_t *graph, const char *file, int line) {
  if (!graph) return true;
  shoal_graph_site(graph, &file, &line);
  shoal_open_region_t region;
  shoal_status_t status = make_region(graph, file, line, &region);
  // They nest also after an error, so that pops match.
  shoal_status_t pushed = shoal_graph_push_region(graph, region);
  shoal_model_fail_at(graph->model, status, file, line);
  shoal_model_fail_at(graph->model, pushed, file, line);
  return true;
}

bool shoal_recompute_pop_at(shoal_graph_t *graph, const char *file, int line) {
  if (!graph) return false;
  if (graph->builder->regions.count) {
    shoal_graph_pop_region(graph);
  } else if (!graph->model->error) {
    shoal_graph_site(graph, &file, &line);
    shoal_model_fail_at(graph->model,
                        SHOAL_ERROR(INVALID_ARGUMENT, "no part that is recomputed is open"), file,
                        line);
  }
  return false;
}
