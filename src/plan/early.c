// Which nodes run on the whole batch before the loop over micro-batches: see early.h. Completion
// goes forward and sees only behind a node that somebody needs its result early; so it marks such
// nodes when it is done and starts again.
#include "plan/early.h"

#include "base/status.h"
#include "plan/complete.h"

static bool is_in_loop(const shoal_graph_plan_t *gp, int64_t n) {
  return gp->nodes[n].decision->choices[0].way != NULL;
}

// The node that makes an input of another; -1: it is an input of the graph or a state.
static int32_t maker_of(const shoal_graph_plan_t *gp, const shoal_node_t *node, int32_t input) {
  const shoal_value_info_t *info = &gp->graph->values.items[node->inputs[input]];
  return info->source == SHOAL_FROM_NODE ? info->node : -1;
}

// Is everything that leads to a node among those that are marked?
static bool all_marked(const shoal_graph_plan_t *gp, const shoal_node_t *node, const bool *marked) {
  bool all = true;
  for (int32_t i = 0; i < node->input_count && all; ++i) {
    const int32_t maker = maker_of(gp, node, i);
    all = maker < 0 || marked[maker];
  }
  return all;
}

// ---- before nodes have their last ways -------------------------------------------------

// Did somebody ask for a cut of the node along micro?
static shoal_status_t is_asked_for(shoal_plan_t *plan, const shoal_graph_plan_t *gp, int32_t n,
                                   shoal_arena_t *scratch, bool *out_asked) {
  const shoal_node_t *node = &gp->graph->nodes.items[n];
  const shoal_layout_t **pins = SHOAL_NEW(scratch, const shoal_layout_t *, node->output_count);
  if (!pins) return SHOAL_OOM();
  *out_asked = gp->nodes[n].why[0].decided != NULL;
  uint64_t loose = 0;
  SHOAL_RETURN_IF_ERROR(shoal_plan_find_pins(plan, gp, n, pins, &loose));
  for (int32_t o = 0; o < node->output_count; ++o)
    *out_asked |= pins[o] && shoal_layout_along(pins[o], SHOAL_AXIS_MICRO);
  return NULL;
}

// By node: may it run early? What is learned through may not: the model would run before the loop.
static shoal_status_t find_possible(shoal_plan_t *plan, const shoal_graph_plan_t *gp,
                                    shoal_arena_t *scratch, bool **out_possible) {
  const int64_t count = gp->graph->nodes.count;
  bool *possible = SHOAL_NEW(scratch, bool, count), *learned = SHOAL_NEW(scratch, bool, count);
  if (!possible || !learned) return SHOAL_OOM();
  for (int64_t n = 0; n < count; ++n) {
    const shoal_node_t *node = &gp->graph->nodes.items[n];
    if (shoal_node_is_gradient(node) && node->of >= 0) learned[node->of] = true;
  }
  for (int32_t n = 0; n < count; ++n) {
    const shoal_node_t *node = &gp->graph->nodes.items[n];
    if (node->kind != SHOAL_NODE_FORWARD || learned[n] || !all_marked(gp, node, possible)) continue;
    bool asked = false;
    SHOAL_RETURN_IF_ERROR(is_asked_for(plan, gp, n, scratch, &asked));
    possible[n] = !asked;
  }
  *out_possible = possible;
  return NULL;
}

// Does a node of the loop need an input that would be known only behind the loop?
static bool comes_late(const shoal_graph_plan_t *gp, int64_t n, int32_t input, const bool *late) {
  const int32_t value = gp->graph->nodes.items[n].inputs[input];
  return late[value] ||
         (shoal_layout_along(gp->values[value], SHOAL_AXIS_MICRO) &&
          !shoal_layout_along(gp->nodes[n].decision->operands[input], SHOAL_AXIS_MICRO));
}

static shoal_status_t mark(shoal_plan_t *plan, const shoal_graph_plan_t *gp, const bool *late,
                           shoal_arena_t *scratch, bool *early, bool *out_more) {
  bool *possible = NULL;  // found when it is needed: few graphs have any
  for (int64_t n = gp->graph->nodes.count; n-- > 0;) {
    const shoal_node_t *node = &gp->graph->nodes.items[n];
    for (int32_t i = 0; i < node->input_count; ++i) {
      const int32_t maker = maker_of(gp, node, i);
      if (maker < 0 || early[maker]) continue;
      if (!early[n] && (!is_in_loop(gp, n) || !comes_late(gp, n, i, late))) continue;
      if (!possible) SHOAL_RETURN_IF_ERROR(find_possible(plan, gp, scratch, &possible));
      if (possible[maker]) early[maker] = *out_more = true;
    }
  }
  return NULL;
}

shoal_status_t shoal_early_mark(shoal_plan_t *plan, const shoal_graph_plan_t *gp, const bool *late,
                                bool *early, bool *out_more) {
  *out_more = false;
  if (plan->micro < 2) return NULL;
  shoal_arena_t scratch;
  shoal_arena_init(plan->allocator, &scratch);
  shoal_status_t status = mark(plan, gp, late, &scratch, early, out_more);
  shoal_arena_deinit(&scratch);
  return status;
}

// ---- in a plan -------------------------------------------------------------------------

shoal_status_t shoal_early_find(const shoal_graph_plan_t *gp, shoal_arena_t *arena,
                                const bool **out_early) {
  const int64_t count = gp->graph->nodes.count;
  bool *early = SHOAL_NEW(arena, bool, count), *needed = SHOAL_NEW(arena, bool, count);
  if (!early || !needed) return SHOAL_OOM();
  for (int64_t n = 0; n < count; ++n)
    early[n] = !is_in_loop(gp, n) && all_marked(gp, &gp->graph->nodes.items[n], early);
  for (int64_t n = count; n-- > 0;) {
    const shoal_node_t *node = &gp->graph->nodes.items[n];
    early[n] = early[n] && needed[n];
    for (int32_t i = 0; i < node->input_count; ++i) {
      const int32_t maker = maker_of(gp, node, i);
      if (maker >= 0 && (early[n] || is_in_loop(gp, n))) needed[maker] = true;
    }
  }
  *out_early = early;
  return NULL;
}
