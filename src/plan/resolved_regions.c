// Regions that the resolved part of a plan file asks to be recomputed: nodes with the same number
// are one, and a node without a number is one by itself.
#include "base/status.h"
#include "plan/resolved.h"
#include "plan/stages.h"

// Regions of nodes that have one of their own: numbers that no other has.
static shoal_status_t number_regions(shoal_graph_plan_t *gp, shoal_arena_t *scratch) {
  const int64_t count = gp->graph->nodes.count;
  bool *used = SHOAL_NEW(scratch, bool, count + 1);
  int32_t next = 0;
  if (!used) return SHOAL_OOM();
  for (int64_t n = 0; n < count; ++n)
    if (gp->regions[n] >= 0) used[gp->regions[n]] = true;
  for (int64_t n = 0; n < count; ++n) {
    if (gp->regions[n] != SHOAL_OWN_REGION) continue;
    while (used[next]) ++next;
    gp->regions[n] = next++;
  }
  return NULL;
}

// The backward pass goes through meshes and stages the other way round, so that a region is on one
// mesh, in one stage.
static shoal_status_t check_regions(const shoal_plan_t *plan, const shoal_graph_plan_t *gp,
                                    shoal_arena_t *scratch) {
  const int64_t count = gp->graph->nodes.count;
  int64_t *first = SHOAL_NEW(scratch, int64_t, count + 1);  // by region: a node of it, from 1
  const int32_t *stages;
  if (!first) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_plan_several_stages(gp, scratch, &stages));
  for (int64_t n = 0; n < count; ++n) {
    if (gp->regions[n] < 0) continue;
    int64_t *seen = &first[gp->regions[n]];
    if (*seen == 0) *seen = n + 1;
    const int32_t mesh = gp->nodes[*seen - 1].mesh, other = gp->nodes[n].mesh;
    if (mesh != other)
      return SHOAL_ERROR_HINT(
          INVALID_ARGUMENT, "give the nodes of each mesh a region with another number",
          "region %d is recomputed on one mesh, but '%s' is on mesh '%s' and '%s' on mesh '%s'",
          gp->regions[n], gp->graph->nodes.items[*seen - 1].name, plan->meshes[mesh].name,
          gp->graph->nodes.items[n].name, plan->meshes[other].name);
    if (stages && stages[*seen - 1] != stages[n])
      return SHOAL_ERROR_HINT(
          INVALID_ARGUMENT, "give the nodes of each stage a region with another number",
          "region %d is recomputed in one stage, but '%s' and '%s' are in different ones",
          gp->regions[n], gp->graph->nodes.items[*seen - 1].name, gp->graph->nodes.items[n].name);
  }
  return NULL;
}

shoal_status_t shoal_resolved_regions(shoal_plan_t *plan, const shoal_json_t *list,
                                      shoal_arena_t *scratch) {
  for (int64_t g = 0; g < plan->model->graphs.count; ++g) {
    shoal_graph_plan_t *gp = &plan->graphs[g];
    SHOAL_RETURN_IF_ERROR(number_regions(gp, scratch));
    shoal_status_t status = check_regions(plan, gp, scratch);
    if (status) return shoal_status_annotatef(status, "%s", list->path);
  }
  return NULL;
}
