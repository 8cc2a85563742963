// Pass `paths`: meets every need of every item, in the order of the list. A need that no instance
// meets yet gets one, made by new items in front of the one that needs it: whatever brings a value
// from the layout it was made in to the layout it is wanted in. Three steps, where needed:
//   leave the loop    micro:partial is accumulated, micro:dim is gathered, once per micro-batch
//   reshard           between layouts of one mesh or two; the only communication. An exchange, if
//                     the value is bounded: it goes without the rows that its counts leave out
//   enter the loop    a micro-batch's part is sliced out
// so a gradient is summed over micro-batches first and reduced over ranks once; unless the plan
// wants it exchanged in each of them: then it is resharded first, and only parts are summed. Where
// the plan wants it exchanged in another type, it is cast in front of the step that reduces it, and
// back behind the last one, and perhaps scaled there. Phases and depths of items and instances
// follow from what they read (places.c).
#include <math.h>

#include "base/status.h"
#include "lower/build.h"
#include "op/reduce.h"
#include "plan/cut.h"
#include "plan/early.h"
#include "plan/gradients.h"
#include "program/bind.h"

// Where copies are made that are not shared with everybody: see redo_for.
typedef struct redo {
  int32_t key;  // 0: all share one
  phase_t phase;
  int32_t depth;
} redo_t;

typedef struct routing {
  build_t *b;
  graph_build_t *out;  // its items: those that are done
  const shoal_graph_t *graph;
  shoal_gradients_t *states;  // NULL: nobody asks for the state of a gradient
  const bool *early;          // by node: it runs before the loop, for the loop
  redo_t redo;                // of the value that is being brought
} routing_t;

// Adds an item with a place of its own.
static shoal_status_t add_item(const routing_t *l, shoal_opcode_t opcode, const char *name,
                               phase_t phase, int32_t depth, int32_t input, int32_t output,
                               item_t **out_item) {
  item_t *item = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_lower_new_item(l->b, l->out, opcode, name, input, output, &item));
  item->phase = phase;
  item->depth = item->send_depth = depth;
  if (out_item) *out_item = item;
  return NULL;
}

// A layout of the program with some of the cuts of another.
static shoal_status_t keep_cuts(const routing_t *l, const shoal_layout_t *layout,
                                const bool kept[SHOAL_MAX_CUTS],
                                const shoal_layout_t **out_layout) {
  shoal_layout_t out = *layout;
  out.cut_count = 0;
  for (int32_t i = 0; i < layout->cut_count; ++i)
    if (kept[i]) out.cuts[out.cut_count++] = layout->cuts[i];
  return shoal_layouts_keep(&l->b->layouts, &out, out_layout);
}

static shoal_status_t without_micro(const routing_t *l, const shoal_layout_t *layout,
                                    const shoal_layout_t **out_layout) {
  bool kept[SHOAL_MAX_CUTS];
  for (int32_t i = 0; i < layout->cut_count; ++i)
    kept[i] = layout->cuts[i].axis != SHOAL_AXIS_MICRO;
  return keep_cuts(l, layout, kept, out_layout);
}

// `layout` without micro and without what is cut inside it along the same dim. Micro-batches are
// outermost: a rank's rows of all of them are not the rows it would have without them, so a value
// enters and leaves the loop whole along that dim.
static shoal_status_t outside_loop(const routing_t *l, const shoal_layout_t *layout,
                                   const shoal_cut_t *micro, bool keep_micro,
                                   const shoal_layout_t **out_layout) {
  bool kept[SHOAL_MAX_CUTS];
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *cut = &layout->cuts[i];
    bool inside =
        cut->kind == SHOAL_CUT_FLAT || (cut->kind == SHOAL_CUT_DIM && cut->dim == micro->dim);
    kept[i] = cut->axis == SHOAL_AXIS_MICRO ? keep_micro : !inside;
  }
  return keep_cuts(l, layout, kept, out_layout);
}

// A copy of `source` in this type and layout that exists already, or -1.
static int32_t find_cast_copy(const routing_t *l, const instance_t *source, shoal_dtype_t dtype,
                              const shoal_layout_t *layout) {
  for (int32_t i = l->out->copies[source->value]; i >= 0; i = instance_at(l->b, i)->next_copy) {
    const instance_t *copy = instance_at(l->b, i);
    if (copy->again == source->again && copy->redo == l->redo.key && copy->type.dtype == dtype &&
        shoal_layout_equal(copy->layout, layout))
      return i;
  }
  return -1;
}

static int32_t find_copy(const routing_t *l, const instance_t *source,
                         const shoal_layout_t *layout) {
  return find_cast_copy(l, source, source->type.dtype, layout);
}

static shoal_status_t new_copy(const routing_t *l, int32_t from, const shoal_layout_t *layout,
                               phase_t phase, int32_t depth, int32_t *out_index) {
  const instance_t *source = instance_at(l->b, from);
  SHOAL_RETURN_IF_ERROR(
      shoal_lower_new_instance(l->b,
                               (instance_t){.name = source->name,
                                            .value = source->value,
                                            .kind = SHOAL_BUFFER_TEMP,
                                            .state = -1,
                                            .type = source->type,
                                            .layout = layout,
                                            .again = source->again,
                                            .redo = l->redo.key,
                                            .next_copy = l->out->copies[source->value],
                                            .phase = phase,
                                            .depth = depth},
                               out_index));
  l->out->copies[source->value] = *out_index;
  return NULL;
}

static shoal_status_t reshard(const routing_t *l, int32_t from, const shoal_layout_t *need,
                              int32_t *out_index);

static shoal_status_t leave_loop(const routing_t *l, int32_t from, const shoal_cut_t *micro,
                                 int32_t *out_index) {
  if (micro->kind == SHOAL_CUT_DIM) {
    const shoal_layout_t *whole = NULL;
    SHOAL_RETURN_IF_ERROR(outside_loop(l, instance_at(l->b, from)->layout, micro, true, &whole));
    if (!shoal_layout_equal(instance_at(l->b, from)->layout, whole))
      SHOAL_RETURN_IF_ERROR(reshard(l, from, whole, &from));
  }
  const instance_t *source = instance_at(l->b, from);
  const shoal_layout_t *layout = NULL;
  SHOAL_RETURN_IF_ERROR(without_micro(l, source->layout, &layout));
  if ((*out_index = find_copy(l, source, layout)) >= 0) return NULL;
  SHOAL_RETURN_IF_ERROR(new_copy(l, from, layout, PHASE_AFTER, 0, out_index));
  item_t *item = NULL;
  if (micro->kind == SHOAL_CUT_PARTIAL) {
    SHOAL_RETURN_IF_ERROR(
        add_item(l, SHOAL_OPCODE_FILL, source->name, PHASE_BEFORE, 0, -1, *out_index, &item));
    item->code.value = shoal_reduce_identity(micro->reduce);
    SHOAL_RETURN_IF_ERROR(add_item(l, SHOAL_OPCODE_ACCUMULATE, source->name, PHASE_LOOP,
                                   source->depth, from, *out_index, &item));
    item->code.reduce = micro->reduce;
    return NULL;
  }
  return add_item(l, SHOAL_OPCODE_COPY, source->name, PHASE_LOOP, source->depth, from, *out_index,
                  NULL);
}

static shoal_status_t enter_loop(const routing_t *l, int32_t from, const shoal_layout_t *need,
                                 int32_t *out_index) {
  const instance_t *source = instance_at(l->b, from);
  if (source->phase == PHASE_AFTER) return shoal_lower_refuse_late(l->b, l->out, source);
  if ((*out_index = find_copy(l, source, need)) >= 0) return NULL;
  int32_t depth = source->phase == PHASE_LOOP ? source->depth : 0;
  if (l->redo.key > 0 && depth < l->redo.depth) depth = l->redo.depth;
  SHOAL_RETURN_IF_ERROR(new_copy(l, from, need, PHASE_LOOP, depth, out_index));
  return add_item(l, SHOAL_OPCODE_COPY, source->name, PHASE_LOOP, depth, from, *out_index, NULL);
}

// The item goes by a channel of its own.
static shoal_status_t add_channel(const routing_t *l, const instance_t *source,
                                  const shoal_layout_t *need, phase_t phase, item_t *item) {
  const shoal_channel_t channel = {
      .type = source->type, .src = source->layout, .dst = need, .micro = phase == PHASE_LOOP};
  item->one_channel = (int32_t)l->b->channels.count;
  item->code.channels = &item->one_channel;
  return SHOAL_PUSH(l->b->arena, &l->b->channels, channel) ? NULL : SHOAL_OOM();
}

static shoal_status_t move(const routing_t *l, int32_t from, const shoal_layout_t *need,
                           int32_t *out_index) {
  const instance_t *source = instance_at(l->b, from);
  if ((*out_index = find_copy(l, source, need)) >= 0) return NULL;
  const int32_t crosses = source->layout->mesh != need->mesh;
  const bool late = l->redo.key > 0 && l->redo.phase > source->phase;
  const phase_t phase = late ? l->redo.phase : source->phase;
  int32_t depth = (late ? 0 : source->depth) + crosses;
  if (l->redo.key > 0 && depth < l->redo.depth) depth = l->redo.depth;
  SHOAL_RETURN_IF_ERROR(new_copy(l, from, need, phase, depth, out_index));
  item_t *item = NULL;
  SHOAL_RETURN_IF_ERROR(
      add_item(l, SHOAL_OPCODE_RESHARD, source->name, phase, depth, from, *out_index, &item));
  item->send_depth = depth - crosses;
  return add_channel(l, source, need, phase, item);
}

static shoal_status_t bring(const routing_t *l, const need_t *wanted, int32_t *out_index);

// The value that bounds the rows of an instance on its way to another layout; -1: all of it goes.
static shoal_status_t counts_for(const routing_t *l, const instance_t *source,
                                 const shoal_layout_t *need, int32_t *out_counts) {
  const shoal_value_info_t *info = &l->graph->values.items[source->value];
  *out_counts = -1;
  if (info->source != SHOAL_FROM_NODE || !shoal_exchange_fits(source->layout, need)) return NULL;
  const shoal_node_t *node = &l->graph->nodes.items[info->node];
  if (!node->op->bounds || info->output != 0 || l->out->gp->at_capacity[info->node]) return NULL;
  const int64_t micro = shoal_layout_along(source->layout, SHOAL_AXIS_MICRO) ? 0 : -1;
  shoal_reshard_facts_t facts;
  SHOAL_RETURN_IF_ERROR(shoal_reshard_describe(source->layout, micro, need, micro,
                                               &source->type.shape, l->b->plan->allocator, &facts));
  if (facts.kind != SHOAL_RESHARD_NONE && facts.kind != SHOAL_RESHARD_SLICE)
    *out_counts = node->inputs[node->input_count - 1];
  return NULL;
}

// Sends the rows that are used, in one step. Both sides read in the counts which these are.
static shoal_status_t exchange(const routing_t *l, int32_t from, int32_t counts,
                               const shoal_layout_t *need, int32_t *out_index) {
  const instance_t *source = instance_at(l->b, from);
  if ((*out_index = find_copy(l, source, need)) >= 0) return NULL;
  const int32_t groups = l->graph->values.items[counts].type.shape.rank;
  int32_t inputs[] = {from, -1, -1};
  phase_t phase = l->redo.key > 0 && l->redo.phase > source->phase ? l->redo.phase : source->phase;
  for (int side = 0; side < 2; ++side) {
    const shoal_layout_t cut = shoal_exchange_counts(side == 0 ? source->layout : need, groups);
    need_t wanted = {.value = counts, .again = source->again && l->out->again[counts]};
    SHOAL_RETURN_IF_ERROR(shoal_layouts_keep(&l->b->layouts, &cut, &wanted.layout));
    SHOAL_RETURN_IF_ERROR(bring(l, &wanted, &inputs[1 + side]));
    const phase_t known = instance_at(l->b, inputs[1 + side])->phase;
    if (known > phase) phase = known;
  }
  int32_t depth = l->redo.key > 0 ? l->redo.depth : 0;
  for (int i = 0; i < 3; ++i) {
    const instance_t *input = instance_at(l->b, inputs[i]);
    if (input->phase == phase && input->depth > depth) depth = input->depth;
  }
  SHOAL_RETURN_IF_ERROR(new_copy(l, from, need, phase, depth, out_index));
  item_t *item = NULL;
  SHOAL_RETURN_IF_ERROR(
      add_item(l, SHOAL_OPCODE_EXCHANGE, source->name, phase, depth, from, *out_index, &item));
  for (int i = 0; i < 3; ++i) item->exchanged[i] = inputs[i];
  item->code.inputs = item->inputs = item->exchanged;
  item->code.input_count = 3;
  return add_channel(l, source, need, phase, item);
}

// The instance as another type, where it lies. `leads`: what follows is the exchange, and it is
// scaled for that; else it was.
static shoal_status_t cast(const routing_t *l, int32_t from, shoal_dtype_t dtype, bool leads,
                           int32_t *out_index) {
  const instance_t *source = instance_at(l->b, from);
  if ((*out_index = find_cast_copy(l, source, dtype, source->layout)) >= 0) return NULL;
  item_t *item = NULL;
  const int32_t scale_log2 = l->out->gp->scale_log2[source->value];
  shoal_attr_value_t *attrs = SHOAL_NEW(l->b->arena, shoal_attr_value_t, 2);
  if (!attrs) return SHOAL_OOM();
  attrs[0].i = dtype;
  attrs[1].f = ldexp(1, leads ? scale_log2 : -scale_log2);
  SHOAL_RETURN_IF_ERROR(new_copy(l, from, source->layout, source->phase, source->depth, out_index));
  instance_at(l->b, *out_index)->type.dtype = dtype;
  SHOAL_RETURN_IF_ERROR(add_item(l, SHOAL_OPCODE_COMPUTE, source->name, source->phase,
                                 source->depth, from, *out_index, &item));
  item->leads = leads;
  item->code.attrs = attrs;
  return shoal_op_find(l->b->plan->model->registry, "shoal.cast", &item->code.op);
}

static int32_t count_partial(const shoal_layout_t *layout) {
  int32_t count = 0;
  for (int32_t i = 0; i < layout->cut_count; ++i)
    count += layout->cuts[i].kind == SHOAL_CUT_PARTIAL;
  return count;
}

// One step of a reshard. The first that reduces takes the value in the type of its exchange.
static shoal_status_t step(const routing_t *l, const shoal_layout_t *need, int32_t *at) {
  const instance_t *source = instance_at(l->b, *at);
  const shoal_dtype_t *types = l->out->gp->exchanged;
  if (types && source->type.dtype != types[source->value] &&
      count_partial(need) < count_partial(source->layout))
    SHOAL_RETURN_IF_ERROR(cast(l, *at, types[source->value], true, at));
  return move(l, *at, need, at);
}

// Between meshes a value goes in one step: what is in between would belong to one of the two, and
// the order of messages to both. It goes once, also where the plan wants copies redone.
static shoal_status_t reshard(const routing_t *l, int32_t from, const shoal_layout_t *need,
                              int32_t *out_index) {
  const instance_t *source = instance_at(l->b, from);
  const shoal_dtype_t own = source->type.dtype;
  const routing_t once = {.b = l->b, .out = l->out, .graph = l->graph};
  if (source->layout->mesh != need->mesh) l = &once;
  if ((*out_index = find_copy(l, source, need)) >= 0) return NULL;
  int32_t counts = -1;
  if (source->layout->mesh == need->mesh)
    SHOAL_RETURN_IF_ERROR(counts_for(l, source, need, &counts));
  if (counts >= 0) return exchange(l, from, counts, need, out_index);
  *out_index = from;
  if (source->layout->mesh != need->mesh) {
    SHOAL_RETURN_IF_ERROR(step(l, need, out_index));
  } else {
    const path_t *path = NULL;
    SHOAL_RETURN_IF_ERROR(shoal_lower_path(l->b, source, need, &path));
    for (int64_t i = 0; i < path->count; ++i)
      SHOAL_RETURN_IF_ERROR(step(l, path->layouts[i], out_index));
  }
  return instance_at(l->b, *out_index)->type.dtype == own
             ? NULL
             : cast(l, *out_index, own, false, out_index);
}

static shoal_status_t home_of(const routing_t *l, const need_t *need, int32_t *out_index);

// Takes a gradient that is to be exchanged in each micro-batch to the parts it is needed in, within
// the loop.
static shoal_status_t exchange_each(const routing_t *l, const shoal_layout_t *need,
                                    const shoal_cut_t *micro, int32_t *at) {
  const instance_t *source = instance_at(l->b, *at);
  if (!l->states || micro->kind != SHOAL_CUT_PARTIAL || source->layout->mesh != need->mesh)
    return NULL;
  const int32_t state = shoal_gradients_state(l->states, source->value);
  if (state < 0 || !l->b->plan->syncs[state].each) return NULL;
  shoal_layout_t inside = *need;
  const shoal_layout_t *kept = NULL;
  if (inside.cut_count == SHOAL_MAX_CUTS) return NULL;
  for (int32_t i = inside.cut_count++; i > 0; --i) inside.cuts[i] = inside.cuts[i - 1];
  inside.cuts[0] = *micro;
  SHOAL_RETURN_IF_ERROR(shoal_layouts_keep(&l->b->layouts, &inside, &kept));
  if (shoal_layout_equal(source->layout, kept)) return NULL;
  return reshard(l, *at, kept, at);
}

// The instance that meets the need; makes it if there is none.
static shoal_status_t bring(const routing_t *l, const need_t *wanted, int32_t *out_index) {
  const shoal_layout_t *need = wanted->layout;
  int32_t at = -1;
  SHOAL_RETURN_IF_ERROR(home_of(l, wanted, &at));
  const shoal_shape_t *shape = &instance_at(l->b, at)->type.shape;
  const shoal_cut_t *have_micro =
      shoal_layout_along(instance_at(l->b, at)->layout, SHOAL_AXIS_MICRO);
  const shoal_cut_t *need_micro = shoal_layout_along(need, SHOAL_AXIS_MICRO);
  bool same_micro = shoal_cut_same(have_micro, need_micro, shape, false);
  if (!same_micro && have_micro && need_micro)
    return SHOAL_ERROR(UNSUPPORTED, "'%s' is cut along micro in two different ways",
                       instance_at(l->b, at)->name);
  if (!same_micro && have_micro) {
    SHOAL_RETURN_IF_ERROR(exchange_each(l, need, have_micro, &at));
    SHOAL_RETURN_IF_ERROR(leave_loop(l, at, have_micro, &at));
  }
  const shoal_layout_t *between = need, *inside = NULL;
  if (!same_micro && need_micro)
    SHOAL_RETURN_IF_ERROR(outside_loop(l, need, need_micro, false, &between));
  if (!shoal_layout_equal(instance_at(l->b, at)->layout, between))
    SHOAL_RETURN_IF_ERROR(reshard(l, at, between, &at));
  if (!same_micro && need_micro) {
    SHOAL_RETURN_IF_ERROR(outside_loop(l, need, need_micro, true, &inside));
    SHOAL_RETURN_IF_ERROR(enter_loop(l, at, inside, &at));
    if (!shoal_layout_equal(inside, need)) SHOAL_RETURN_IF_ERROR(reshard(l, at, need, &at));
  }
  *out_index = at;
  return NULL;
}

static shoal_status_t feed(const routing_t *l, int32_t value, const shoal_layout_t *layout,
                           int32_t *out_index) {
  const shoal_value_info_t *info = &l->graph->values.items[value];
  phase_t phase = shoal_layout_along(layout, SHOAL_AXIS_MICRO) ? PHASE_LOOP : PHASE_BEFORE;
  char *name = shoal_arena_strdup(l->b->arena, info->name);
  if (!name) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_lower_new_instance(l->b,
                                                 (instance_t){.name = name,
                                                              .kind = SHOAL_BUFFER_INPUT,
                                                              .state = -1,
                                                              .value = value,
                                                              .type = info->type,
                                                              .layout = layout,
                                                              .next_copy = -1,
                                                              .phase = phase},
                                                 out_index));
  return add_item(l, SHOAL_OPCODE_FEED, name, phase, 0, -1, *out_index, NULL);
}

// An input that is fed in micro-batches and that a node of the loop, or one that runs early for the
// loop, needs whole is fed once more, before the loop: what the loop gathers would be there only
// behind it. False: it is none.
static bool is_fed_whole(const routing_t *l, const item_t *item, const need_t *need) {
  const shoal_value_info_t *info = &l->graph->values.items[need->value];
  return item->node >= 0 &&
         (l->early[item->node] || l->out->gp->nodes[item->node].decision->choices[0].way) &&
         info->source == SHOAL_FROM_INPUT && !shoal_layout_is_partial(need->layout) &&
         !shoal_layout_along(need->layout, SHOAL_AXIS_MICRO) &&
         shoal_layout_along(l->out->gp->values[need->value], SHOAL_AXIS_MICRO);
}

static shoal_status_t feed_whole(const routing_t *l, const need_t *need, int32_t *out_index) {
  int32_t *copies = &l->out->copies[need->value];
  for (int32_t i = *copies; i >= 0; i = instance_at(l->b, i)->next_copy) {
    const instance_t *copy = instance_at(l->b, i);
    *out_index = i;
    if (copy->phase == PHASE_BEFORE && shoal_layout_equal(copy->layout, need->layout)) return NULL;
  }
  SHOAL_RETURN_IF_ERROR(feed(l, need->value, need->layout, out_index));
  instance_at(l->b, *out_index)->next_copy = *copies;
  *copies = *out_index;
  return NULL;
}

static shoal_status_t home_of(const routing_t *l, const need_t *need, int32_t *out_index) {
  const shoal_value_info_t *info = &l->graph->values.items[need->value];
  int32_t *home = &(need->again ? l->out->again_homes : l->out->homes)[need->value];
  if (*home < 0 && info->source == SHOAL_FROM_INPUT) {
    const shoal_layout_t *layout = NULL;
    SHOAL_RETURN_IF_ERROR(shoal_lower_layout(l->b, l->out->gp->values[need->value], &layout));
    SHOAL_RETURN_IF_ERROR(feed(l, need->value, layout, home));
  }
  if (*home < 0 && info->source == SHOAL_FROM_STATE) {
    // Copies are found by value, which is a number of this graph: so each graph has its own record
    // of the state's home. classes.c knows that they are one buffer.
    instance_t record = *instance_at(l->b, l->b->state_homes[info->index]);
    record.value = need->value;
    SHOAL_RETURN_IF_ERROR(shoal_lower_new_instance(l->b, record, home));
  }
  if (*home < 0 || instance_at(l->b, *home)->phase == PHASE_COUNT)
    return SHOAL_ERROR(INTERNAL, "value '%s' is used before it is made", info->name);
  *out_index = *home;
  return NULL;
}

// ---- items --------------------------------------------------------------------------------

// A state's value is taken aside before any state changes.
static shoal_status_t take_aside(const routing_t *l, int32_t *at) {
  const instance_t *from = instance_at(l->b, *at);
  const int32_t old = *at;
  if (from->kind != SHOAL_BUFFER_STATE) return NULL;
  SHOAL_RETURN_IF_ERROR(new_copy(l, old, from->layout, PHASE_AFTER, 0, at));
  return add_item(l, SHOAL_OPCODE_COPY, from->name, PHASE_AFTER, 0, old, *at, NULL);
}

// The value is there in the state's layout. *out_needless: it is that of the state itself.
static shoal_status_t place_assign(const routing_t *l, item_t *item, bool *out_needless) {
  const instance_t *from = instance_at(l->b, item->one_input);
  const instance_t *home = instance_at(l->b, item->one_output);
  item->phase = PHASE_COMMIT;
  *out_needless = from->kind == SHOAL_BUFFER_STATE && from->state == home->state;
  if (*out_needless) return NULL;
  SHOAL_RETURN_IF_ERROR(take_aside(l, &item->one_input));
  if (item->decides.value < 0) return NULL;
  SHOAL_RETURN_IF_ERROR(bring(l, &item->decides, &item->code.predicate));
  return take_aside(l, &item->code.predicate);
}

// What is fed is no copy.
static bool is_redone(const routing_t *l, const item_t *item, int32_t input) {
  return item->node >= 0 && l->out->gp->keeps[item->needs[input].value] == SHOAL_KEEP_REDO &&
         !is_fed_whole(l, item, &item->needs[input]);
}

// Copies of a value that the plan wants redone are shared by what runs in one segment, on one side
// and for one kind of work; whoever comes later makes his own. They are made where they are needed:
// in the loop, if need be, though the value is there before it.
static redo_t redo_for(const routing_t *l, const item_t *item) {
  const shoal_node_kind_t kind =
      item->again ? SHOAL_NODE_INPUT_GRADIENT : l->graph->nodes.items[item->node].kind;
  return (redo_t){.key = 1 + (item->depth * PHASE_COUNT + (int32_t)item->phase) * 4 + (int32_t)kind,
                  .phase = item->phase,
                  .depth = item->depth};
}

// Does the program need no instruction for a node that only says how ranks hold its input? What it
// reads then stands for what it makes. They have to be alike in what later passes ask of a value:
// whether it is kept, computed again, and a gradient that is exchanged in some way.
static bool is_same_as_input(const routing_t *l, const item_t *item) {
  if (item->node < 0 || !item->code.op->constrains) return false;
  const shoal_graph_plan_t *gp = l->out->gp;
  const shoal_node_t *node = &l->graph->nodes.items[item->node];
  const int32_t from = node->inputs[0], to = node->outputs[0];
  const instance_t *have = instance_at(l->b, item->inputs[0]);
  return l->graph->values.items[from].source == SHOAL_FROM_NODE &&
         have->kind == SHOAL_BUFFER_TEMP && have->redo == 0 && have->again == item->again &&
         shoal_layout_equal(have->layout, instance_at(l->b, item->code.outputs[0])->layout) &&
         gp->keeps[from] == SHOAL_KEEP && gp->keeps[to] == SHOAL_KEEP &&
         (!gp->exchanged || gp->exchanged[from] == gp->exchanged[to]) &&
         shoal_gradients_state(l->states, from) == shoal_gradients_state(l->states, to);
}

static shoal_status_t route_item(routing_t *l, item_t *item) {
  const int64_t first = l->out->items.count;
  bool redone = false, needless = false;
  for (int32_t i = 0; i < item->need_count; ++i) {
    if (is_redone(l, item, i))
      redone = true;
    else if (is_fed_whole(l, item, &item->needs[i]))
      SHOAL_RETURN_IF_ERROR(feed_whole(l, &item->needs[i], &item->inputs[i]));
    else
      SHOAL_RETURN_IF_ERROR(bring(l, &item->needs[i], &item->inputs[i]));
  }
  if (redone) SHOAL_RETURN_IF_ERROR(shoal_lower_find_place(l->b, l->out, item));
  if (redone) l->redo = redo_for(l, item);
  for (int32_t i = 0; i < item->need_count && redone; ++i)
    if (is_redone(l, item, i)) SHOAL_RETURN_IF_ERROR(bring(l, &item->needs[i], &item->inputs[i]));
  l->redo = (redo_t){0};
  if (item->node >= 0) {
    SHOAL_RETURN_IF_ERROR(shoal_lower_place_node(l->b, l->out, item));
  } else if (item->code.opcode == SHOAL_OPCODE_FETCH || shoal_lower_is_kept(l->b, item)) {
    shoal_lower_place_fetch(l->b, item);
  } else {
    SHOAL_RETURN_IF_ERROR(place_assign(l, item, &needless));
  }
  for (int64_t i = first; i < l->out->items.count; ++i) l->out->items.items[i]->side = item->side;
  if (is_same_as_input(l, item)) {
    const int32_t value = l->graph->nodes.items[item->node].outputs[0];
    (item->again ? l->out->again_homes : l->out->homes)[value] = item->inputs[0];
    return NULL;
  }
  if (needless) return NULL;
  if (!SHOAL_PUSH(l->b->arena, &l->out->items, item)) return SHOAL_OOM();
  return item->node >= 0 && shoal_lower_is_pair(l->b, item)
             ? shoal_lower_merge_pair(l->b, l->out, item)
             : NULL;
}

static shoal_status_t route_graph(build_t *b, graph_build_t *graph) {
  routing_t l = {.b = b, .out = graph, .graph = graph->graph};
  bool each = false;
  SHOAL_RETURN_IF_ERROR(shoal_early_find(graph->gp, b->arena, &l.early));
  for (int64_t s = 0; s < b->plan->model->states.count; ++s) each |= b->plan->syncs[s].each;
  if (each || graph->gp->constrainers)
    SHOAL_RETURN_IF_ERROR(shoal_gradients_make(graph->graph, b->plan->model, b->arena, &l.states));
  item_t **items = graph->items.items;
  const int64_t count = graph->items.count;
  graph->items.items = NULL;
  graph->items.count = graph->items.capacity = 0;
  for (int64_t i = 0; i < count; ++i) {
    shoal_status_t status = route_item(&l, items[i]);
    if (status && items[i]->node >= 0)
      status = shoal_status_annotatef(status, "while lowering node %d '%s'", items[i]->node,
                                      items[i]->code.name);
    if (status) return shoal_status_annotatef(status, "while lowering graph '%s'", graph->name);
  }
  return NULL;
}

shoal_status_t shoal_lower_pass_paths(build_t *b) {
  for (int64_t g = 0; g < b->graph_count; ++g) SHOAL_RETURN_IF_ERROR(route_graph(b, &b->graphs[g]));
  return NULL;
}
