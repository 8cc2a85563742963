// Pass `schedule`: the order of items within their segments, the same for all ranks. It is that of
// the list so far, where a value is brought when it is needed first, except for states about which
// the plan decides how their gradients are exchanged or how early they are gathered:
//
//   gradients  are reduced as soon as they are made, so that the reduction runs beside the backward
//              pass. Updates lag one reduction behind: the one that was started last is not waited
//              for by the queue that computes the next gradient.
//   states     that rest in parts are gathered some consumers ahead (prefetch.c).
//
// Each item is moved once and looked at a few times. Items come behind those that make what they
// read, and in front of those that write over it.
#include <string.h>

#include "base/status.h"
#include "lower/schedule.h"
#include "plan/gradients.h"

typedef struct ordering {
  build_t *b;
  graph_build_t *graph;
  shoal_gradients_t *states;
  const bool *decided;  // by state
  shoal_arena_t *scratch;
  int32_t *levels;       // by instance: which reduction of the segment it comes from; -1: none
  held_t waiting;        // the items of `held`
  int32_t *eager;        // by instance: the first reduction that waits for it, by place; -1: none
  int32_t *next_eager;   // by place in the segment: another one of the same instance
  bool *waits;           // by place: it is such a reduction
  int32_t *made;         // by instance: the segment after the last in which it was made
  item_t *const *items;  // of the segment
  int32_t *makers;       // by instance: for prefetch.c
  int32_t reductions;    // of the segment, so far
  SHOAL_VEC(item_t *) held, out;
} ordering_t;

// ---- gradients --------------------------------------------------------------------------

// Is it a reduction, or another step on the way of a gradient to its update? The cast that comes
// in front of a reduction is one, the cast behind it is not: that one waits for it.
static bool is_reduction(const ordering_t *o, const item_t *item) {
  const bool moves = item->code.opcode == SHOAL_OPCODE_RESHARD;
  if ((!moves && !item->leads) || item->segment != item->send_segment) return false;
  const int32_t value = instance_at(o->b, item->code.inputs[0])->value;
  const int32_t state = value < 0 ? -1 : shoal_gradients_state(o->states, value);
  return state >= 0 && o->decided[state];
}

// What may be held: updates, and what brings values to them or from them.
static bool may_wait(const item_t *item) {
  return item->node < 0 || item->side == SHOAL_SIDE_UPDATE;
}

static int32_t level_of(const ordering_t *o, const item_t *item) {
  int32_t level = -1;
  for (int32_t i = 0; i < item->code.input_count; ++i)
    if (o->levels[item->code.inputs[i]] > level) level = o->levels[item->code.inputs[i]];
  return level;
}

// A reduction that waits for what another item makes will write its outputs: where that item is
// held, so is whoever reads them.
static void promise(const ordering_t *o, const item_t *item, int32_t more) {
  for (int32_t k = 0; k < item->code.output_count; ++k)
    o->waiting.writers[item->code.outputs[k]] += more;
}

// Puts an item, and behind it the reductions that waited for what it makes.
static shoal_status_t put(ordering_t *o, item_t *item) {
  if (!SHOAL_PUSH(o->scratch, &o->out, item)) return SHOAL_OOM();
  if (is_reduction(o, item)) {
    const int32_t before = o->levels[item->code.inputs[0]];
    const int32_t level = before >= 0 ? before : o->reductions++;
    for (int32_t k = 0; k < item->code.output_count; ++k) o->levels[item->code.outputs[k]] = level;
  }
  for (int32_t k = 0; k < item->code.output_count; ++k)
    for (int32_t at = o->eager[item->code.outputs[k]]; at >= 0; at = o->next_eager[at]) {
      o->items[at]->why = "behind what makes it";
      promise(o, o->items[at], -1);
      SHOAL_RETURN_IF_ERROR(put(o, o->items[at]));
    }
  return NULL;
}

// Puts the held items, in their order, that come from no later reduction than this. What others
// keep back stays.
static shoal_status_t release(ordering_t *o, int32_t level) {
  int64_t kept = 0;
  for (int64_t i = 0; i < o->held.count; ++i) shoal_lower_hold(&o->waiting, o->held.items[i], -1);
  for (int64_t i = 0; i < o->held.count; ++i) {
    item_t *item = o->held.items[i];
    if (level_of(o, item) <= level && !shoal_lower_is_held_up(&o->waiting, item)) {
      SHOAL_RETURN_IF_ERROR(put(o, item));
      continue;
    }
    shoal_lower_hold(&o->waiting, item, 1);
    o->held.items[kept++] = item;
  }
  o->held.count = kept;
  return NULL;
}

static shoal_status_t hold(ordering_t *o, item_t *item, int32_t level, const char *why) {
  item->why = why;
  for (int32_t k = 0; k < item->code.output_count; ++k)
    if (level > o->levels[item->code.outputs[k]]) o->levels[item->code.outputs[k]] = level;
  shoal_lower_hold(&o->waiting, item, 1);
  return SHOAL_PUSH(o->scratch, &o->held, item) ? NULL : SHOAL_OOM();
}

static shoal_status_t take(ordering_t *o, item_t *item) {
  const int32_t before = o->reductions, level = level_of(o, item);
  const bool blocked = shoal_lower_is_held_up(&o->waiting, item);
  if (may_wait(item) && !is_reduction(o, item)) {
    if (level >= 0 && level > o->reductions - 2)
      return hold(o, item, level, "one reduction behind");
    if (blocked) return hold(o, item, level, "behind what it needs");
  }
  if (blocked) SHOAL_RETURN_IF_ERROR(release(o, INT32_MAX));
  SHOAL_RETURN_IF_ERROR(put(o, item));
  return o->reductions > before ? release(o, o->reductions - 2) : NULL;
}

// ---- segments -----------------------------------------------------------------------------

// Lists the reductions by what they wait for, if that is made in this segment.
static shoal_status_t list_reductions(ordering_t *o, int64_t count, item_t *const *items) {
  o->next_eager = SHOAL_NEW(o->scratch, int32_t, count);
  o->waits = SHOAL_NEW(o->scratch, bool, count);
  if (!o->next_eager || !o->waits) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i)
    for (int32_t k = 0; k < items[i]->code.output_count; ++k)
      o->made[items[i]->code.outputs[k]] = items[0]->segment + 1;
  for (int32_t i = (int32_t)count - 1; i >= 0; --i) {
    if (!is_reduction(o, items[i]) || o->made[items[i]->code.inputs[0]] != items[0]->segment + 1)
      continue;
    o->next_eager[i] = o->eager[items[i]->code.inputs[0]];
    o->eager[items[i]->code.inputs[0]] = i;
    o->waits[i] = true;
    promise(o, items[i], 1);
  }
  return NULL;
}

static shoal_status_t order_segment(ordering_t *o, int64_t count, item_t **items) {
  if (count == 0) return NULL;
  o->items = items;
  o->out.count = o->held.count = o->reductions = 0;
  SHOAL_RETURN_IF_ERROR(list_reductions(o, count, items));
  for (int64_t i = 0; i < count; ++i)
    if (!o->waits[i]) SHOAL_RETURN_IF_ERROR(take(o, items[i]));
  SHOAL_RETURN_IF_ERROR(release(o, INT32_MAX));
  if (o->out.count != count) return SHOAL_ERROR(INTERNAL, "items wait for each other");
  memcpy(items, o->out.items, (size_t)count * sizeof *items);
  for (int64_t i = 0; i < count; ++i) {
    for (int32_t k = 0; k < items[i]->code.input_count; ++k)
      o->eager[items[i]->code.inputs[k]] = -1;
    for (int32_t k = 0; k < items[i]->code.output_count; ++k)
      o->levels[items[i]->code.outputs[k]] = -1;
  }
  return NULL;
}

// Every segment is looked at alone: only the order within it matters.
static shoal_status_t order_graph(ordering_t *o) {
  graph_build_t *graph = o->graph;
  by_segment_t sorted;
  SHOAL_RETURN_IF_ERROR(shoal_lower_by_segment(graph, o->scratch, &sorted));
  for (int64_t s = 0, from = 0; s < graph->segments.count; from = sorted.ends[s++]) {
    const int64_t count = sorted.ends[s] - from;
    item_t **items = sorted.items + from;
    SHOAL_RETURN_IF_ERROR(order_segment(o, count, items));
    SHOAL_RETURN_IF_ERROR(
        shoal_lower_prefetch(o->b, o->decided, count, items, o->makers, o->scratch));
    for (int64_t i = 0; i < count; ++i) graph->items.items[sorted.places[from + i]] = items[i];
  }
  return NULL;
}

static shoal_status_t schedule_graph(build_t *b, graph_build_t *graph, const bool *decided,
                                     shoal_arena_t *scratch) {
  const int64_t count = b->instances.count;
  ordering_t o = {
      .b = b,
      .graph = graph,
      .decided = decided,
      .scratch = scratch,
      .levels = SHOAL_NEW(scratch, int32_t, count),
      .waiting = {SHOAL_NEW(scratch, int32_t, count), SHOAL_NEW(scratch, int32_t, count)},
      .eager = SHOAL_NEW(scratch, int32_t, count),
      .made = SHOAL_NEW(scratch, int32_t, count),
      .makers = SHOAL_NEW(scratch, int32_t, count)};
  if (!o.levels || !o.waiting.writers || !o.waiting.users || !o.eager || !o.made || !o.makers)
    return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i) o.levels[i] = o.eager[i] = o.makers[i] = -1;
  SHOAL_RETURN_IF_ERROR(shoal_gradients_make(graph->graph, b->plan->model, scratch, &o.states));
  return order_graph(&o);
}

// The states that the plan says something about.
static shoal_status_t find_decided(const build_t *b, shoal_arena_t *scratch, bool *out_any,
                                   const bool **out_decided) {
  const int64_t count = b->plan->model->states.count;
  bool *decided = SHOAL_NEW(scratch, bool, count);
  if (!decided) return SHOAL_OOM();
  *out_any = false;
  for (int64_t s = 0; s < count; ++s) {
    const char *name = b->plan->model->states.items[s].name;
    decided[s] = shoal_plan_decided(b->plan, SHOAL_DECIDE_SYNC, name) ||
                 shoal_plan_decided(b->plan, SHOAL_DECIDE_PREFETCH, name);
    *out_any |= decided[s];
  }
  *out_decided = decided;
  return NULL;
}

shoal_status_t shoal_lower_pass_schedule(build_t *b) {
  shoal_arena_t scratch;
  bool any = false;
  const bool *decided = NULL;
  shoal_arena_init(b->plan->allocator, &scratch);
  shoal_status_t status = find_decided(b, &scratch, &any, &decided);
  for (int64_t g = 0; any && g < b->graph_count && !status; ++g)
    status = schedule_graph(b, &b->graphs[g], decided, &scratch);
  shoal_arena_deinit(&scratch);
  return status;
}
