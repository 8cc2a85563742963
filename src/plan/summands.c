// Gradients that are clipped before ranks sum them. Along the axes that cut the batch each rank has
// a *summand* of every gradient: what its rows contribute. A model that is to be clipped before
// (training.clip_before) makes tensors of its gradients that have a row for each summand, one row
// on one device, and takes norms and factors by row. A plan knows how many ranks there are: it
// works on a copy of the model with as many rows, cut so that each rank has its own. What a rank
// puts into its row is the claimed way of shoal.summands (op.h), which is used there and nowhere
// else; all that follows is cut by the rules of its ops, as ever.
#include "plan/summands.h"

#include <string.h>

#include "base/status.h"
#include "plan/resolved.h"

// Do ranks along the axis share out the rows of the batch?
static bool is_data(const shoal_axis_t *axis) {
  return strcmp(axis->name, "data") == 0 || strcmp(axis->name, "node") == 0;
}

static int64_t count_on(const shoal_mesh_t *mesh) {
  int64_t count = 1;
  for (int32_t a = 0; a < mesh->axis_count; ++a)
    if (is_data(&mesh->axes[a])) count *= mesh->axes[a].size;
  return count;
}

static bool asks(const shoal_model_t *model) {
  for (int64_t g = 0; g < model->graphs.count; ++g) {
    const shoal_graph_t *graph = model->graphs.items[g];
    for (int64_t n = 0; n < graph->nodes.count; ++n)
      if (graph->nodes.items[n].op->summands) return true;
  }
  return false;
}

shoal_status_t shoal_plan_count_summands(shoal_plan_t *plan) {
  plan->summands = 1;
  if (!asks(plan->given)) return NULL;
  plan->summands = count_on(&plan->meshes[0]);
  for (int64_t m = 1; m < plan->mesh_count; ++m) {
    const int64_t count = count_on(&plan->meshes[m]);
    if (count != plan->summands)
      return SHOAL_ERROR_HINT(
          UNSUPPORTED,
          "give all meshes as many ranks along data, or clip behind the sum: no clip_before",
          "gradients are clipped before ranks sum them, and the meshes '%s' and '%s' have %lld and "
          "%lld ranks with a summand of them",
          plan->intent.meshes[0], plan->intent.meshes[m], (long long)plan->summands,
          (long long)count);
  }
  if (plan->summands == 1) return NULL;
  SHOAL_RETURN_IF_ERROR(
      shoal_model_set_summands(plan->given, plan->summands, &plan->owned_original));
  plan->original = plan->model = plan->owned_original;
  return NULL;
}

bool shoal_plan_claims(const shoal_plan_t *plan, const shoal_rule_t *rule, int32_t mesh,
                       int32_t slot) {
  if (!rule->claimed || plan->summands == 1) return false;
  const shoal_axis_t *axis = slot > 0 ? &plan->meshes[mesh].axes[slot - 1] : NULL;
  return axis ? is_data(axis) && axis->size > 1 : plan->micro > 1;
}

// ---- a complete plan -------------------------------------------------------------------

static shoal_status_t check_node(const shoal_plan_t *plan, const shoal_graph_plan_t *gp, int64_t n,
                                 shoal_arena_t *scratch) {
  const shoal_node_t *node = &gp->graph->nodes.items[n];
  const shoal_mesh_t *mesh = &plan->meshes[gp->nodes[n].mesh];
  const shoal_rule_t *rule = NULL;
  shoal_call_t call;
  SHOAL_RETURN_IF_ERROR(shoal_node_call(gp->graph, node, scratch, &call));
  SHOAL_RETURN_IF_ERROR(shoal_rules_get(plan->rules, &call, &rule));
  for (int32_t slot = 0; slot <= mesh->axis_count; ++slot) {
    const shoal_way_t *way = gp->nodes[n].decision->choices[slot].way;
    const bool must = shoal_plan_claims(plan, rule, gp->nodes[n].mesh, slot);
    if (must ? way == (slot == 0 ? NULL : rule->claimed) : way != rule->claimed) continue;
    return SHOAL_ERROR_HINT(
        INVALID_ARGUMENT, "leave out what was decided about this node",
        must ? "node '%s' must have the way %s along %s: each rank clips its own summand there"
             : "node '%s' has the way %s along %s: it holds only along axes that cut the batch, "
               "where gradients are clipped before they are summed",
        node->name, slot == 0 ? "whole" : node->op->claimed, shoal_slot_name(mesh, slot));
  }
  return NULL;
}

// An exchange in every micro-batch would come before the clipping, which needs a rank's sum of all.
static shoal_status_t check_syncs(const shoal_plan_t *plan) {
  for (int64_t s = 0; s < plan->model->states.count && plan->micro > 1; ++s)
    if (plan->syncs[s].each)
      return SHOAL_ERROR_HINT(
          UNSUPPORTED,
          "decide 'sync * last', which keeps a rank's whole gradients (zero1), or clip behind the "
          "sum: no clip_before",
          "the gradient of state '%s' is exchanged in every micro-batch (sync each), and clipped "
          "before ranks sum it, which needs the rank's sum over all micro-batches",
          plan->model->states.items[s].name);
  return NULL;
}

shoal_status_t shoal_plan_check_summands(const shoal_plan_t *plan) {
  shoal_arena_t scratch;
  shoal_status_t status = NULL;
  shoal_arena_init(plan->allocator, &scratch);
  for (int64_t g = 0; g < plan->model->graphs.count && !status; ++g) {
    const shoal_graph_plan_t *gp = &plan->graphs[g];
    for (int64_t n = 0; n < gp->graph->nodes.count && !status; ++n)
      if (gp->graph->nodes.items[n].op->claimed) status = check_node(plan, gp, n, &scratch);
  }
  shoal_arena_deinit(&scratch);
  if (!status && plan->summands > 1) status = check_syncs(plan);
  return status;
}
