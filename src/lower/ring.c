// Pass `ring`: what a node gathers goes round instead, from neighbour to neighbour.
//
// Without it a rank gathers all keys and values in front of attention. Where the plan decides
// `tile NODE ring` it never has more of them than two parts, its own size each: one it computes
// with and the next, which comes in meanwhile. A step computes the node with one part; ring_find.c
// says by which way of its rule. What becomes of an output, by that way:
//   a pair     (attention's value and log-sum-exp) is merged into the one so far;
//   a sum      (the gradient of queries) is added to the one so far;
//   a cut      (the gradients of keys and values) belongs to the part that is there: it goes round
//              with it, and each rank adds its share. It starts next door, where the part comes
//              after one step, so that it is at home when all have added theirs.
// In step s a rank has the part that lies s places on, a turned cut (`context>1:2`), so places,
// shapes and peers follow as for any other layout. All steps stand in the program one by one: it
// grows with the ranks along the axis, and with nothing else of the world.
#include "lower/ring.h"

#include "base/status.h"

// ---- items -----------------------------------------------------------------------------------

typedef struct going {
  const rings_t *r;
  const ring_t *ring;
  const item_t *item;
  int32_t *here;    // by input: the instance of what travels that is there last
  int64_t have;     // and its turn
  int32_t *made;    // by output: what this step makes
  int32_t *so_far;  // by output: of all steps before; -1: none yet
} going_t;

static shoal_status_t new_part(const going_t *g, int32_t of, int32_t value,
                               const shoal_layout_t *layout, bool parts, int32_t *out_index) {
  instance_t part = *instance_at(g->r->b, of);
  part.kind = SHOAL_BUFFER_TEMP;
  part.state = -1;
  part.value = value;
  part.parts = parts;
  part.next_copy = -1;
  part.phase = g->item->phase;
  part.depth = g->item->depth;
  SHOAL_RETURN_IF_ERROR(shoal_layouts_keep(&g->r->b->layouts, layout, &part.layout));
  return shoal_lower_new_instance(g->r->b, part, out_index);
}

static shoal_status_t list_operands(const going_t *g, int32_t input_count, const int32_t *inputs,
                                    int32_t output_count, const int32_t *outputs, item_t *item) {
  int32_t *lists = SHOAL_NEW(g->r->b->arena, int32_t, input_count + output_count);
  if (!lists) return SHOAL_OOM();
  for (int32_t i = 0; i < input_count; ++i) lists[i] = inputs[i];
  for (int32_t o = 0; o < output_count; ++o) lists[input_count + o] = outputs[o];
  item->code.inputs = item->inputs = lists;
  item->code.outputs = lists + input_count;
  item->code.input_count = input_count;
  item->code.output_count = output_count;
  return NULL;
}

// Two values that become one, or two that become two.
static shoal_status_t join(const going_t *g, const char *op, const int32_t inputs[2],
                           int32_t output_count, const int32_t *outputs) {
  build_t *b = g->r->b;
  item_t *item = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_lower_new_item_beside(b, g->r->graph, SHOAL_OPCODE_COMPUTE,
                                                    instance_at(b, outputs[0])->name, inputs[0],
                                                    outputs[0], g->item, &item));
  SHOAL_RETURN_IF_ERROR(list_operands(g, 2, inputs, output_count, outputs, item));
  SHOAL_RETURN_IF_ERROR(shoal_op_find(b->plan->model->registry, op, &item->code.op));
  item->code.attrs = SHOAL_NEW(b->arena, shoal_attr_value_t, 1);  // stack: axis 0
  return item->code.attrs ? NULL : SHOAL_OOM();
}

// One reshard of several values: a message to a neighbour with all that goes on.
static shoal_status_t hop(const going_t *g, int32_t count, const int32_t *from, const int32_t *to) {
  build_t *b = g->r->b;
  item_t *item = NULL;
  int32_t *channels = SHOAL_NEW(b->arena, int32_t, count);
  if (!channels) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_lower_new_item_beside(b, g->r->graph, SHOAL_OPCODE_RESHARD,
                                                    instance_at(b, from[0])->name, from[0], to[0],
                                                    g->item, &item));
  item->send_depth = item->depth;
  SHOAL_RETURN_IF_ERROR(list_operands(g, count, from, count, to, item));
  for (int32_t i = 0; i < count; ++i) {
    const instance_t *source = instance_at(b, from[i]);
    const shoal_channel_t channel = {.type = source->type,
                                     .src = source->layout,
                                     .dst = instance_at(b, to[i])->layout,
                                     .micro = item->phase == PHASE_LOOP};
    if (g->r->free->count > 0) {  // of a reshard that is no longer there
      channels[i] = g->r->free->items[--g->r->free->count];
      b->channels.items[channels[i]] = channel;
      continue;
    }
    channels[i] = (int32_t)b->channels.count;
    if (!SHOAL_PUSH(b->arena, &b->channels, channel)) return SHOAL_OOM();
  }
  item->code.channels = channels;
  return NULL;
}

// ---- one step --------------------------------------------------------------------------------

// Brings what travels as far as `turn`.
static shoal_status_t bring(going_t *g, int64_t turn) {
  const int32_t count = g->item->code.input_count;
  int32_t *from = SHOAL_NEW(g->r->scratch, int32_t, 2 * count), *to = from + count;
  if (!from) return SHOAL_OOM();
  for (; g->have < turn; ++g->have) {
    int32_t moved = 0;
    for (int32_t k = 0; k < count; ++k) {
      if (!g->ring->gathers[k]) continue;
      const shoal_layout_t layout = shoal_ring_turned(g->ring, g->ring->sources[k], g->have + 1);
      const int32_t whole = g->item->code.inputs[k];
      SHOAL_RETURN_IF_ERROR(
          new_part(g, whole, instance_at(g->r->b, whole)->value, &layout, false, &to[moved]));
      from[moved++] = g->here[k];
      g->here[k] = to[moved - 1];
    }
    SHOAL_RETURN_IF_ERROR(hop(g, moved, from, to));
  }
  return NULL;
}

// The operands that the node reads in this step: `now` has what travels.
static shoal_status_t take_inputs(const going_t *g, int64_t turn, const int32_t *now,
                                  int32_t *inputs) {
  const shoal_instruction_t *code = &g->item->code;
  for (int32_t k = 0; k < code->input_count; ++k) {
    inputs[k] = g->ring->gathers[k] ? now[k] : code->inputs[k];
    if (!g->ring->pieces[k]) continue;
    const instance_t *whole = instance_at(g->r->b, code->inputs[k]);
    const shoal_layout_t layout = shoal_ring_piece(g->ring, whole->layout, k, turn);
    SHOAL_RETURN_IF_ERROR(
        new_part(g, code->inputs[k], g->item->needs[k].value, &layout, false, &inputs[k]));
    SHOAL_RETURN_IF_ERROR(hop(g, 1, &code->inputs[k], &inputs[k]));  // it is there: a slice
  }
  return NULL;
}

static shoal_status_t compute(const going_t *g, int64_t turn, const int32_t *now) {
  build_t *b = g->r->b;
  const shoal_instruction_t *code = &g->item->code;
  item_t *item = SHOAL_NEW(b->arena, item_t, 1);
  int32_t *inputs = SHOAL_NEW(g->r->scratch, int32_t, code->input_count);
  if (!item || !inputs) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(take_inputs(g, turn, now, inputs));
  for (int32_t o = 0; o < code->output_count; ++o) {
    const instance_t *whole = instance_at(b, code->outputs[o]);
    const shoal_layout_t layout =
        g->ring->travels[o] ? shoal_ring_output(g->ring, whole->layout, o, turn) : *whole->layout;
    SHOAL_RETURN_IF_ERROR(new_part(g, code->outputs[o], whole->value, &layout, true, &g->made[o]));
  }
  *item = *g->item;
  SHOAL_RETURN_IF_ERROR(
      list_operands(g, code->input_count, inputs, code->output_count, g->made, item));
  return SHOAL_PUSH(b->arena, &g->r->graph->items, item) ? NULL : SHOAL_OOM();
}

// Where output o of all steps up to this one is written.
static shoal_status_t joined(const going_t *g, int32_t o, bool last, int32_t *out_index) {
  const int32_t output = g->item->code.outputs[o];
  *out_index = g->ring->travels[o] ? g->ring->homes[o] : output;
  if (last) return NULL;
  return new_part(g, output, instance_at(g->r->b, output)->value,
                  instance_at(g->r->b, g->made[o])->layout, true, out_index);
}

// A value and its log-sum-exp, each with that of the steps before: a stack of two, merged.
static shoal_status_t merge(going_t *g, bool last) {
  int32_t stacks[2], merged[2];
  for (int32_t o = 0; o < 2; ++o) {
    const instance_t *part = instance_at(g->r->b, g->made[o]);
    shoal_layout_t layout = *part->layout;
    shoal_shape_t shape = {.rank = part->type.shape.rank + 1, .dims = {2}};
    for (int32_t d = 1; d < shape.rank; ++d) shape.dims[d] = part->type.shape.dims[d - 1];
    for (int32_t i = 0; i < layout.cut_count; ++i) layout.cuts[i].dim += 1;
    SHOAL_RETURN_IF_ERROR(new_part(g, g->made[o], part->value, &layout, true, &stacks[o]));
    instance_at(g->r->b, stacks[o])->type.shape = shape;
    const int32_t both[] = {g->so_far[o], g->made[o]};
    SHOAL_RETURN_IF_ERROR(join(g, "shoal.stack", both, 1, &stacks[o]));
    SHOAL_RETURN_IF_ERROR(joined(g, o, last, &merged[o]));
  }
  SHOAL_RETURN_IF_ERROR(join(g, "shoal.lse_merge", stacks, 2, merged));
  for (int32_t o = 0; o < 2; ++o) g->so_far[o] = merged[o];
  return NULL;
}

// Sends on what goes round with its part.
static shoal_status_t send_on(going_t *g, int64_t turn) {
  const int32_t count = g->item->code.output_count;
  int32_t *from = SHOAL_NEW(g->r->scratch, int32_t, 2 * count), *to = from + count, moved = 0;
  if (!from) return SHOAL_OOM();
  for (int32_t o = 0; o < count; ++o) {
    if (!g->ring->travels[o] || g->so_far[o] < 0) continue;
    const int32_t output = g->item->code.outputs[o];
    const instance_t *whole = instance_at(g->r->b, output);
    const shoal_layout_t layout = shoal_ring_output(g->ring, whole->layout, o, turn);
    SHOAL_RETURN_IF_ERROR(new_part(g, output, whole->value, &layout, true, &to[moved]));
    from[moved++] = g->so_far[o];
    g->so_far[o] = to[moved - 1];
  }
  return moved > 0 ? hop(g, moved, from, to) : NULL;
}

static shoal_status_t combine(going_t *g, bool last) {
  if (g->so_far[0] >= 0 && g->ring->pair) return merge(g, last);
  for (int32_t o = 0; o < g->item->code.output_count; ++o) {
    int32_t sum = g->made[o];
    if (g->so_far[o] >= 0) {
      const int32_t both[] = {g->so_far[o], g->made[o]};
      SHOAL_RETURN_IF_ERROR(joined(g, o, last, &sum));
      SHOAL_RETURN_IF_ERROR(join(g, "shoal.add", both, 1, &sum));
    }
    g->so_far[o] = sum;
  }
  return NULL;
}

// ---- one node --------------------------------------------------------------------------------

static shoal_status_t go_round(const rings_t *r, const item_t *item, const ring_t *ring) {
  const int32_t inputs = item->code.input_count, outputs = item->code.output_count;
  going_t g = {.r = r,
               .ring = ring,
               .item = item,
               .here = SHOAL_NEW(r->scratch, int32_t, inputs),
               .made = SHOAL_NEW(r->scratch, int32_t, outputs),
               .so_far = SHOAL_NEW(r->scratch, int32_t, outputs)};
  int32_t *now = SHOAL_NEW(r->scratch, int32_t, inputs);
  bool travels = false;
  if (!g.here || !g.made || !g.so_far || !now) return SHOAL_OOM();
  for (int32_t o = 0; o < outputs; ++o) g.so_far[o] = -1, travels |= ring->travels[o];
  for (int32_t k = 0; k < inputs; ++k)
    if (ring->gathers[k]) g.here[k] = ring->gathers[k]->code.inputs[0];
  for (int64_t step = 0; step < ring->ranks; ++step) {
    const int64_t turn = travels ? (step + 1) % ring->ranks : step;
    for (int32_t k = 0; k < inputs; ++k)
      now[k] = turn == 0 && ring->gathers[k] ? ring->gathers[k]->code.inputs[0] : g.here[k];
    if (turn > g.have) {
      SHOAL_RETURN_IF_ERROR(bring(&g, turn));
      for (int32_t k = 0; k < inputs; ++k) now[k] = g.here[k];
    }
    if (step > 0) SHOAL_RETURN_IF_ERROR(send_on(&g, turn));
    if (turn + 1 < ring->ranks && turn == g.have) SHOAL_RETURN_IF_ERROR(bring(&g, turn + 1));
    SHOAL_RETURN_IF_ERROR(compute(&g, turn, now));
    SHOAL_RETURN_IF_ERROR(combine(&g, step + 1 == ring->ranks));
  }
  return NULL;
}

// ---- graphs ----------------------------------------------------------------------------------

static shoal_status_t refuse(const rings_t *r, const item_t *item) {
  const char *name = r->graph->graph->nodes.items[item->node].name;
  return SHOAL_ERROR_HINT(
      UNSUPPORTED, "decide 'no' for this node, or 'auto ring' for a ring where it is possible",
      "decision 'tile %s ring' cannot hold: %s", name,
      r->against ? r->against : "nothing is gathered in front of it along what its rule can cut");
}

static shoal_status_t ring_graph(build_t *b, graph_build_t *graph, shoal_arena_t *scratch) {
  const int64_t count = graph->items.count;
  item_t **items = graph->items.items;
  free_channels_t channels = {0};
  rings_t r = {.b = b,
               .graph = graph,
               .scratch = scratch,
               .item_count = count,
               .items = items,
               .makers = SHOAL_NEW(scratch, item_t *, b->instances.count),
               .instance_count = b->instances.count,
               .free = &channels};
  ring_t **rings = SHOAL_NEW(scratch, ring_t *, count);
  bool *gone = SHOAL_NEW(scratch, bool, count);
  if (!r.makers || !rings || !gone) return SHOAL_OOM();
  r.gone = gone;
  r.rings = rings;
  for (int64_t i = 0; i < count; ++i)
    if (items[i]->code.opcode == SHOAL_OPCODE_RESHARD && items[i]->code.input_count == 1)
      r.makers[items[i]->code.outputs[0]] = items[i];
  for (int64_t i = 0; i < count; ++i) {
    const bool node = items[i]->node >= 0 && items[i]->code.opcode == SHOAL_OPCODE_COMPUTE;
    const shoal_tiling_t tiling = node ? graph->gp->tilings[items[i]->node] : (shoal_tiling_t){0};
    if (!tiling.ring) continue;
    SHOAL_RETURN_IF_ERROR(shoal_ring_find(&r, items[i], &rings[i]));
    if (!rings[i] && !tiling.where_possible) return refuse(&r, items[i]);
    if (!rings[i]) items[i]->untiled_because = r.against;
  }
  SHOAL_RETURN_IF_ERROR(shoal_rings_settle(&r));
  graph->items.items = NULL;
  graph->items.count = graph->items.capacity = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (gone[i]) continue;
    if (!rings[i] && !SHOAL_PUSH(b->arena, &graph->items, items[i])) return SHOAL_OOM();
    if (rings[i]) SHOAL_RETURN_IF_ERROR(go_round(&r, items[i], rings[i]));
  }
  if (channels.count > 0) return SHOAL_ERROR(INTERNAL, "a ring leaves channels that nobody uses");
  return NULL;
}

static bool wants_rings(const graph_build_t *graph) {
  for (int64_t n = 0; n < graph->graph->nodes.count; ++n)
    if (graph->gp->tilings[n].ring) return true;
  return false;
}

shoal_status_t shoal_lower_pass_ring(build_t *b) {
  shoal_arena_t scratch;
  shoal_status_t status = NULL;
  shoal_arena_init(b->plan->allocator, &scratch);
  for (int64_t g = 0; g < b->graph_count && !status; ++g)
    if (wants_rings(&b->graphs[g])) status = ring_graph(b, &b->graphs[g], &scratch);
  shoal_arena_deinit(&scratch);
  return status;
}
