// Why a plan is as it is, in words: completion keeps numbers (plan.h, shoal_why_t), equal nodes
// share them, and they become sentences only when somebody reads them.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "plan/choose.h"
#include "plan/complete.h"
#include "plan/cut.h"
#include "plan/resolved.h"

const char *shoal_bytes_format(double bytes, shoal_bytes_text_t *buffer) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024;
  snprintf(buffer->text, sizeof buffer->text, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
  return buffer->text;
}

double shoal_reason_cost(const shoal_layout_t *have, const shoal_layout_t *need,
                         const shoal_type_t *type) {
  const double bytes =
      (double)shoal_shape_count(&type->shape) * (double)shoal_dtype_size(type->dtype);
  if (have->mesh != need->mesh) return bytes;
  double cost = 0;
  for (int32_t a = 0; a < have->mesh->axis_count; ++a)
    cost += shoal_cut_change(shoal_layout_along(have, a), shoal_layout_along(need, a), &type->shape,
                             bytes);
  return cost;
}

void shoal_reason_by(const shoal_intent_decision_t *decided, const char *otherwise,
                     shoal_told_t *out_told) {
  *out_told = (shoal_told_t){.by = "completion", .reason = otherwise};
  if (!decided) return;
  out_told->by = decided->by;
  out_told->reason = decided->reason[0] ? decided->reason : "it was asked for";
}

void shoal_reason_of(const shoal_plan_t *plan, shoal_decide_t kind, const char *name,
                     const char *otherwise, shoal_told_t *out_told) {
  shoal_reason_by(shoal_plan_decided(plan, kind, name), otherwise, out_told);
}

void shoal_reason_of_fetch(const shoal_plan_t *plan, const shoal_graph_plan_t *gp, int64_t output,
                           shoal_told_t *out_told) {
  const shoal_named_t *port = &gp->graph->outputs.items[output];
  const bool usual = shoal_plan_waits_for_request(plan, &gp->graph->values.items[port->value].type);
  const char *otherwise = usual ? "it is larger than 1 MiB, so it is gathered when it is fetched"
                          : plan->world == 1 ? "the only rank has the whole"
                                             : "it is 1 MiB at most";
  shoal_reason_of(plan, SHOAL_DECIDE_FETCH, port->name, otherwise, out_told);
  if (gp->on_request[output] != usual && !shoal_plan_decided(plan, SHOAL_DECIDE_FETCH, port->name))
    *out_told = (shoal_told_t){.by = "the plan file", .reason = "its resolved part says so"};
}

// A node whose ways are to be explained. A composite one is not of the plan's graph.
typedef struct subject {
  const shoal_graph_t *graph;
  const shoal_node_t *node;
  const int32_t *assigned;  // by value of the plan's graph
  const int32_t *images;    // values of the plan's graph by value of this one; NULL: the same
  int32_t part_count;       // of a composite
} subject_t;

static const char *operand_name(const subject_t *of, int32_t k) {
  const shoal_node_t *node = of->node;
  const int32_t value =
      k < node->input_count ? node->inputs[k] : node->outputs[k - node->input_count];
  return of->graph->values.items[value].name;
}

static const char *assigned_state(const shoal_plan_t *plan, const subject_t *of, int32_t k) {
  const int32_t value = of->node->outputs[k - of->node->input_count];
  const int32_t state = of->assigned[of->images ? of->images[value] : value];
  return state >= 0 ? plan->model->states.items[state].name : NULL;
}

// What else could have been done, for the end of a sentence.
static void add_others(const shoal_why_t *why, shoal_text_t *text) {
  shoal_bytes_text_t bytes;
  if (isinf(why->runner_up_cost))
    shoal_text_add(text, "; nothing else is possible");
  else if (why->runner_up_cost > why->cost)
    shoal_text_addf(text, "; the next best would move %s",
                    shoal_bytes_format(why->runner_up_cost, &bytes));
}

static void add_cost(const shoal_why_t *why, shoal_text_t *text) {
  shoal_bytes_text_t bytes;
  if (why->cost > 0 && !isinf(why->cost))
    shoal_text_addf(text, ", which moves %s", shoal_bytes_format(why->cost, &bytes));
}

static void say_why(const shoal_plan_t *plan, const subject_t *of, const char *axis,
                    const shoal_why_t *why, shoal_text_t *text) {
  const bool input = why->operand >= 0 && why->operand < of->node->input_count;
  const char *name = why->operand >= 0 ? operand_name(of, why->operand) : "";
  const char *is = why->partial ? "an unreduced sum" : "cut";
  const char *state = why->operand >= 0 && !input ? assigned_state(plan, of, why->operand) : NULL;
  switch (why->because) {
    case SHOAL_BECAUSE_NONE:
    case SHOAL_BECAUSE_DECIDED:
      return;
    case SHOAL_BECAUSE_FOLLOWS:
      shoal_text_addf(text, "its input '%s' is %s along %s", name, is, axis);
      break;
    case SHOAL_BECAUSE_PINNED:
      if (state)
        shoal_text_addf(text, "the state '%s', which it updates, rests cut along %s", state, axis);
      else
        shoal_text_addf(text, "its output '%s' was asked for cut along %s", name, axis);
      break;
    case SHOAL_BECAUSE_CHEAPEST:
      shoal_text_addf(text, "no input is cut like that along %s, but this is the cheapest", axis);
      break;
    case SHOAL_BECAUSE_GATHERED:
      shoal_text_addf(text, "its %s '%s', %s along %s, is %s", input ? "input" : "output", name,
                      why->partial ? "an unreduced sum" : "cut", axis,
                      !input         ? "cut afterwards"
                      : why->partial ? "reduced first"
                                     : "gathered first");
      break;
    case SHOAL_BECAUSE_UNFIT:
      shoal_text_addf(text, "a cut along %s does not fit inside its ways along the other axes",
                      axis);
      return;
    case SHOAL_BECAUSE_EARLY:
      shoal_text_add(text, "it runs before the micro-batches, which all need its result");
      return;
    case SHOAL_BECAUSE_CLAIMED:
      shoal_text_add(text, "each rank clips its own gradients, before ranks sum them");
      return;
    case SHOAL_BECAUSE_PHASES:
      if (of->part_count > 1) shoal_text_addf(text, "computed in %d parts, ", of->part_count);
      if (why->rows)
        shoal_text_addf(text, "it sends the rows that are named along %s", axis);
      else if (input)
        shoal_text_addf(text, "it leaves its input '%s' %s along %s", name, is, axis);
      else
        shoal_text_addf(text, "it is cut along %s", axis);
      break;
  }
  if (why->merged) shoal_text_add(text, ", and log-sum-exp merges its outputs");
  if (why->rows && why->because != SHOAL_BECAUSE_PHASES)
    shoal_text_add(text, ", and all rows are added up, in one message");
  add_cost(why, text);
  add_others(why, text);
}

static shoal_status_t tell(const shoal_plan_t *plan, const subject_t *of, const char *axis,
                           const shoal_why_t *why, shoal_arena_t *arena, shoal_told_t *out_told) {
  if (why->because == SHOAL_BECAUSE_DECIDED) {
    shoal_reason_by(why->decided, NULL, out_told);
  } else {
    shoal_text_t text;
    shoal_text_init(arena->allocator, &text);
    say_why(plan, of, axis, why, &text);
    SHOAL_RETURN_IF_ERROR(shoal_text_finish(&text, arena, &out_told->reason));
    out_told->by = why->because == SHOAL_BECAUSE_PINNED ? "pin" : "completion";
  }
  out_told->cost = isinf(why->cost) ? 0 : floor(why->cost);
  if (isinf(why->runner_up_cost)) return NULL;
  const shoal_choice_t other = {.way = why->runner_up};
  const char *printed = "composite";
  if (!why->runner_up_composite)
    SHOAL_RETURN_IF_ERROR(shoal_way_choice_print(of->node, &other, 0, arena, &printed));
  out_told->runner_up = shoal_arena_printf(arena, "%s=%s", axis, printed);
  out_told->runner_up_cost = floor(why->runner_up_cost);
  return out_told->runner_up ? NULL : SHOAL_OOM();
}

shoal_status_t shoal_reason_of_way(const shoal_plan_t *plan, const shoal_graph_plan_t *gp,
                                   int64_t node, int32_t slot, shoal_arena_t *arena,
                                   shoal_told_t *out_told) {
  const shoal_node_plan_t *np = &gp->nodes[node];
  *out_told = (shoal_told_t){0};
  if (np->told) *out_told = np->told[slot];
  if (np->told || !np->why) return NULL;
  const shoal_why_t *why = &np->why[slot];
  // Nothing is cut, and nobody asked for it: there was nothing to decide.
  const bool idle = !np->decision->choices[slot].way && why->operand < 0 &&
                    why->because != SHOAL_BECAUSE_DECIDED && why->because != SHOAL_BECAUSE_UNFIT &&
                    why->because != SHOAL_BECAUSE_EARLY;
  const subject_t of = {gp->graph, &gp->graph->nodes.items[node], gp->assigned, NULL, 0};
  const char *axis = shoal_slot_name(&plan->meshes[np->mesh], slot);
  return idle ? NULL : tell(plan, &of, axis, why, arena, out_told);
}

shoal_status_t shoal_reason_of_composite(const shoal_plan_t *plan,
                                         const shoal_composite_t *composite, int32_t slot,
                                         shoal_arena_t *arena, shoal_told_t *out_told) {
  const shoal_graph_plan_t *gp = &plan->graphs[composite->graph];
  *out_told = (shoal_told_t){0};
  if (composite->told) *out_told = composite->told[slot];
  if (composite->told || !composite->why) return NULL;
  const subject_t of = {plan->original->graphs.items[composite->graph],
                        shoal_composite_node(plan, composite), gp->assigned,
                        plan->expansion.values[composite->graph], composite->count};
  const char *axis = shoal_slot_name(&plan->meshes[gp->nodes[composite->first].mesh], slot);
  return tell(plan, &of, axis, &composite->why[slot], arena, out_told);
}

shoal_status_t shoal_sync_print(const shoal_sync_t *sync, shoal_arena_t *arena,
                                const char **out_text) {
  shoal_text_t text;
  shoal_text_init(arena->allocator, &text);
  shoal_text_add(&text, sync->each ? "each" : "last");
  if (sync->bucket) shoal_text_addf(&text, " bucket=%s", sync->bucket);
  if (sync->bucket_bytes > 0) shoal_text_addf(&text, " bucket=%lld", (long long)sync->bucket_bytes);
  if (sync->cast) shoal_text_addf(&text, " dtype=%s", shoal_dtype_name(sync->dtype));
  if (sync->cast && sync->scale_log2 != 0) {
    shoal_text_add(&text, " scale=");
    shoal_text_add_double(&text, ldexp(1, sync->scale_log2));
  }
  if (sync->rows != SHOAL_ROWS_BY_COST)
    shoal_text_add(&text, sync->rows == SHOAL_ROWS_SPARSE ? " sparse" : " dense");
  return shoal_text_finish(&text, arena, out_text);
}
