// What a model says of layouts by shoal.constrain: the node's output has the layout, whatever that
// costs. What a person decides about the value comes later and is said in its place; else the plan
// is refused where the layout cannot be had. Completion also tells the node that makes the value
// what is wanted of it, so that it is made like that where that is cheaper (find_pins).
#include <string.h>

#include "base/status.h"
#include "op/attrs.h"
#include "plan/complete.h"
#include "plan/cut.h"

#define BY_MODEL "model"

shoal_status_t shoal_plan_index_constraints(shoal_plan_t *plan, shoal_graph_plan_t *gp) {
  const shoal_graph_t *graph = gp->graph;
  for (int32_t n = (int32_t)graph->nodes.count; n-- > 0;) {
    const shoal_node_t *node = &graph->nodes.items[n];
    if (!node->op->constrains) continue;
    if (!gp->constrainers) {
      gp->constrainers = SHOAL_NEW(&plan->arena, int32_t, graph->values.count);
      if (!gp->constrainers) return SHOAL_OOM();
      for (int64_t v = 0; v < graph->values.count; ++v) gp->constrainers[v] = -1;
    }
    gp->constrainers[node->inputs[0]] = n;
  }
  return NULL;
}

// The layout as the model writes it.
static shoal_status_t of_model(shoal_plan_t *plan, const char *name, const char *layout,
                               const shoal_intent_decision_t **out_by) {
  shoal_intent_decision_t *by = SHOAL_NEW(&plan->arena, shoal_intent_decision_t, 1);
  char *reason = shoal_arena_printf(&plan->arena, "shoal_constrain asks for %s",
                                    layout[0] ? layout : "the whole on every rank");
  if (!by || !reason) return SHOAL_OOM();
  *by = (shoal_intent_decision_t){.kind = shoal_decision_kind(SHOAL_DECIDE_LAYOUT)->name,
                                  .pattern = name,
                                  .choice = layout,
                                  .by = BY_MODEL,
                                  .reason = reason};
  *out_by = by;
  return NULL;
}

shoal_status_t shoal_plan_constrained(shoal_plan_t *plan, const shoal_graph_plan_t *gp, int32_t n,
                                      const shoal_intent_decision_t **out_by) {
  const shoal_node_t *node = &gp->graph->nodes.items[n];
  const char *layout = shoal_op_constraint(node->op, node->attrs);
  *out_by = NULL;
  if (!layout || plan->world == 1) return NULL;
  const char *name = gp->graph->values.items[node->outputs[0]].name;
  const shoal_intent_decision_t *entry = shoal_plan_decided_value(plan, gp->graph, name);
  if (!entry || strcmp(entry->pattern, "*") == 0 || strcmp(entry->choice, layout) == 0)
    return of_model(plan, name, layout, out_by);
  *out_by = entry;
  return NULL;
}

shoal_status_t shoal_plan_blame_constraint(const shoal_graph_plan_t *gp, int32_t n,
                                           const shoal_intent_decision_t *by,
                                           shoal_status_t status) {
  const shoal_node_t *node = &gp->graph->nodes.items[n];
  if (!status || shoal_status_code(status) == SHOAL_OUT_OF_MEMORY) return status;
  if (strcmp(by->by, BY_MODEL) != 0) return shoal_decision_annotate(by, status);
  shoal_status_t told = SHOAL_ERROR_HINT(
      UNSUPPORTED,
      "plan with a mesh that has these axes, constrain it otherwise, or decide --layouts for it",
      "'%s' is constrained to '%s' at %s:%d: %s", node->name, by->choice, node->file, node->line,
      shoal_status_message(status));
  shoal_status_free(status);
  return told;
}

shoal_status_t shoal_plan_pin_constrained(shoal_plan_t *plan, const shoal_graph_plan_t *gp,
                                          int32_t n, const shoal_layout_t **out_pin) {
  const shoal_node_t *node = &gp->graph->nodes.items[n];
  const shoal_value_info_t *info = &gp->graph->values.items[node->outputs[0]];
  const shoal_mesh_t *mesh = &plan->meshes[gp->nodes[n].mesh];
  const shoal_intent_decision_t *by = NULL;
  *out_pin = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_plan_constrained(plan, gp, n, &by));
  if (!by) return NULL;
  shoal_status_t status = shoal_plan_parse_layout(plan, by->choice, gp->nodes[n].mesh, info->name,
                                                  &info->type.shape, out_pin);
  if (!status && (*out_pin)->mesh != mesh)
    status = SHOAL_ERROR(UNSUPPORTED, "it is made on mesh '%s'", mesh->name);
  return shoal_plan_blame_constraint(gp, n, by, status);
}

// ---- was it met? -----------------------------------------------------------------------

static int32_t place_of(const shoal_layout_t *layout, int32_t axis) {
  for (int32_t i = 0; i < layout->cut_count; ++i)
    if (layout->cuts[i].axis == axis) return i;
  return -1;
}

// Does the order of the two cuts matter?
static bool is_nested(const shoal_cut_t *a, const shoal_cut_t *b) {
  if (a->kind == SHOAL_CUT_PARTIAL || b->kind == SHOAL_CUT_PARTIAL) return false;
  return a->kind != b->kind || a->kind == SHOAL_CUT_FLAT || a->dim == b->dim;
}

// Weights are compared by what they are: each layout that is kept has a copy of its own.
static bool same_cut(const shoal_cut_t *have, const shoal_cut_t *pin, const shoal_layout_t *of,
                     const shoal_shape_t *shape) {
  const int64_t parts =
      pin->axis == SHOAL_AXIS_MICRO ? of->mesh->micro : of->mesh->axes[pin->axis].size;
  shoal_cut_t cut = *have;
  if (cut.weights && pin->weights &&
      memcmp(cut.weights, pin->weights, (size_t)parts * sizeof *cut.weights) == 0)
    cut.weights = pin->weights;
  return shoal_cut_same(&cut, pin, shape, false);
}

static bool is_met(const shoal_layout_t *have, const shoal_layout_t *pin,
                   const shoal_shape_t *shape) {
  const bool free = !shoal_layout_along(pin, SHOAL_AXIS_MICRO);
  int32_t count = have->cut_count;
  if (free && shoal_layout_along(have, SHOAL_AXIS_MICRO)) --count;
  bool met = have->mesh == pin->mesh && count == pin->cut_count;
  for (int32_t i = 0; i < pin->cut_count && met; ++i) {
    const int32_t at = place_of(have, pin->cuts[i].axis);
    met = at >= 0 && same_cut(&have->cuts[at], &pin->cuts[i], pin, shape);
    for (int32_t k = 0; k < i && met; ++k)
      met = !is_nested(&pin->cuts[k], &pin->cuts[i]) || place_of(have, pin->cuts[k].axis) < at;
  }
  return met;
}

shoal_status_t shoal_plan_check_constrained(const shoal_graph_plan_t *gp, int32_t n,
                                            const shoal_layout_t *pin, shoal_arena_t *scratch) {
  const shoal_node_t *node = &gp->graph->nodes.items[n];
  const shoal_layout_t *have = gp->values[node->outputs[0]];
  const char *text;
  if (is_met(have, pin, &gp->graph->values.items[node->outputs[0]].type.shape)) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_layout_print(have, scratch, &text));
  return SHOAL_ERROR(UNSUPPORTED,
                     "it would be held as '%s': axes that cut one dim are nested in the order that "
                     "the mesh has them in, and micro-batches outside of all",
                     text);
}
