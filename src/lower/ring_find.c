// What can go round a ring: for pass `ring`. An input is known by the gather in front of it, and
// the way of the node's rule that cuts it along the same dim says what becomes of the outputs when
// the node is computed part by part.
#include "base/status.h"
#include "lower/ring.h"
#include "program/bind.h"

#define AGAINST(r, ...)                                            \
  do {                                                             \
    (r)->against = shoal_arena_printf((r)->b->arena, __VA_ARGS__); \
    return (r)->against ? NULL : SHOAL_OOM();                      \
  } while (0)

// ---- layouts ---------------------------------------------------------------------------------

shoal_layout_t shoal_ring_turned(const ring_t *ring, const shoal_layout_t *source, int64_t turn) {
  shoal_layout_t layout = *source;
  for (int32_t i = 0; i < layout.cut_count; ++i)
    if (layout.cuts[i].axis == ring->axis) layout.cuts[i].turn = turn;
  return layout;
}

static shoal_cut_t cut_of(const ring_t *ring, int32_t operand, int64_t turn) {
  shoal_cut_t cut = ring->cut;
  cut.dim = ring->way->operands[operand].dim;
  cut.turn = turn;
  return cut;
}

shoal_layout_t shoal_ring_piece(const ring_t *ring, const shoal_layout_t *whole, int32_t input,
                                int64_t turn) {
  shoal_layout_t layout = *whole;
  layout.cuts[layout.cut_count++] = cut_of(ring, input, turn);
  return layout;
}

shoal_layout_t shoal_ring_output(const ring_t *ring, const shoal_layout_t *partial, int32_t output,
                                 int64_t turn) {
  shoal_layout_t layout = *partial;
  for (int32_t i = 0; i < layout.cut_count; ++i)
    if (layout.cuts[i].axis == ring->axis)
      layout.cuts[i] = cut_of(ring, ring->way->input_count + output, turn);
  return layout;
}

static bool is_cut_along(const shoal_layout_t *layout, int32_t dim, int32_t except) {
  bool found = layout->tile.count > 0;
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *cut = &layout->cuts[i];
    found |= cut->kind == SHOAL_CUT_FLAT ||
             (cut->kind == SHOAL_CUT_DIM && cut->dim == dim && cut->axis != except);
  }
  return found;
}

// The cut that a gather undoes, if that is all it does; NULL: it is something else.
static const shoal_cut_t *gathered_cut(const build_t *b, const item_t *gather) {
  const shoal_layout_t *from = instance_at(b, gather->code.inputs[0])->layout;
  const shoal_layout_t *to = instance_at(b, gather->code.outputs[0])->layout;
  for (int32_t i = 0; i < from->cut_count; ++i) {
    const shoal_cut_t *cut = &from->cuts[i];
    if (cut->axis == SHOAL_AXIS_MICRO || cut->kind != SHOAL_CUT_DIM) continue;
    if (from->mesh->axes[cut->axis].size == 1 || shoal_layout_along(to, cut->axis)) continue;
    shoal_layout_t rest = *from;
    --rest.cut_count;
    for (int32_t k = i; k < rest.cut_count; ++k) rest.cuts[k] = from->cuts[k + 1];
    const bool plain = !cut->turn && !cut->before && !cut->after && cut->items == 0;
    return plain && shoal_layout_equal(&rest, to) ? cut : NULL;
  }
  return NULL;
}

// Are two dims dealt alike?
static bool are_alike(const shoal_layout_t *layout, shoal_cut_t a, shoal_cut_t b) {
  shoal_layout_t x = {.mesh = layout->mesh, .cut_count = 1}, y = x;
  a.dim = b.dim = 0;
  x.cuts[0] = a;
  y.cuts[0] = b;
  return shoal_layout_equal(&x, &y);
}

// ---- one way ---------------------------------------------------------------------------------

// One run of as many elements as there are items.
static bool is_plain(const shoal_way_operand_t *operand) {
  return operand->kind == SHOAL_OPERAND_CUT && operand->scale == 1 && operand->repeat == 1 &&
         operand->offset == 0 && operand->length == 0 && !operand->before && !operand->after &&
         !operand->dealt_by_items;
}

static item_t *gather_of(const rings_t *r, const item_t *item, int32_t k) {
  const int32_t whole = item->code.inputs[k];
  return whole < r->instance_count ? r->makers[whole] : NULL;
}

// Does input k travel along the axis of the ring, or along any if there is none yet?
static const shoal_cut_t *travelling(const rings_t *r, const item_t *item, const ring_t *ring,
                                     int32_t k) {
  const shoal_way_operand_t *operand = &ring->way->operands[k];
  const item_t *gather = gather_of(r, item, k);
  const shoal_cut_t *cut = gather && is_plain(operand) ? gathered_cut(r->b, gather) : NULL;
  if (!cut || cut->dim != operand->dim) return NULL;
  return ring->ranks == 0 || ring->axis == cut->axis ? cut : NULL;
}

static shoal_status_t look_at_input(rings_t *r, const item_t *item, int32_t k, ring_t *ring) {
  const shoal_way_operand_t *operand = &ring->way->operands[k];
  const instance_t *whole = instance_at(r->b, item->code.inputs[k]);
  if (operand->kind == SHOAL_OPERAND_WHOLE) return NULL;
  if (!is_plain(operand)) AGAINST(r, "its way does not cut '%s' in one run", whole->name);
  const shoal_cut_t *cut = travelling(r, item, ring, k);
  if (cut) {
    const instance_t *source = instance_at(r->b, gather_of(r, item, k)->code.inputs[0]);
    const bool away = whole->value >= 0 && shoal_lower_is_put_away(r->graph, whole->value);
    if (is_cut_along(source->layout, cut->dim, cut->axis))
      AGAINST(r, "dim %d of '%s' is cut along another axis, too", cut->dim, whole->name);
    if (!are_alike(source->layout, *cut, ring->cut))
      AGAINST(r, "'%s' is dealt otherwise than what goes round with it", whole->name);
    if (source->memory != SHOAL_MEMORY_DEVICE || away)
      AGAINST(r, "'%s' is kept in other memory", whole->name);
    ring->gathers[k] = gather_of(r, item, k);
    ring->sources[k] = source->layout;
    return NULL;
  }
  if (shoal_layout_along(whole->layout, ring->axis) ||
      is_cut_along(whole->layout, operand->dim, SHOAL_AXIS_MICRO - 1) ||
      whole->layout->cut_count == SHOAL_MAX_CUTS)
    AGAINST(r, "'%s' is cut along %s in another way", whole->name,
            whole->layout->mesh->axes[ring->axis].name);
  ring->pieces[k] = true;
  return NULL;
}

static shoal_status_t look_at_output(rings_t *r, const item_t *item, int32_t o, ring_t *ring) {
  const shoal_way_operand_t *operand = &ring->way->operands[item->code.input_count + o];
  const instance_t *made = instance_at(r->b, item->code.outputs[o]);
  const shoal_cut_t *along = shoal_layout_along(made->layout, ring->axis);
  if (operand->kind == SHOAL_OPERAND_PARTIAL && operand->reduce == SHOAL_REDUCE_LSE) {
    ring->pair = true;
    return NULL;
  }
  if (operand->kind == SHOAL_OPERAND_PARTIAL && operand->reduce == SHOAL_REDUCE_SUM) return NULL;
  if (!is_plain(operand) || !along || along->kind != SHOAL_CUT_PARTIAL ||
      along->reduce != SHOAL_REDUCE_SUM || is_cut_along(made->layout, operand->dim, ring->axis))
    AGAINST(r, "'%s' is neither a sum of parts nor of one of them", made->name);
  ring->travels[o] = true;
  return NULL;
}

// Whoever reads an unreduced sum that travels must reshard it.
static shoal_status_t look_at_readers(rings_t *r, const item_t *item, const ring_t *ring) {
  for (int64_t i = 0; i < r->item_count; ++i) {
    const shoal_instruction_t *code = &r->items[i]->code;
    for (int32_t k = 0; k < code->input_count; ++k)
      for (int32_t o = 0; o < item->code.output_count; ++o) {
        if (!ring->travels[o] || code->inputs[k] != item->code.outputs[o]) continue;
        if (code->opcode != SHOAL_OPCODE_RESHARD || code->input_count != 1 ||
            r->items[i]->phase != item->phase || r->items[i]->depth != item->depth)
          AGAINST(r, "'%s' reads the unreduced '%s'", code->name,
                  instance_at(r->b, code->inputs[k])->name);
      }
  }
  return NULL;
}

static shoal_status_t try_way(rings_t *r, const item_t *item, ring_t *ring) {
  const int32_t inputs = item->code.input_count, outputs = item->code.output_count;
  int32_t pairs = 0;
  r->against = NULL;
  for (int32_t k = 0; k < inputs && ring->ranks == 0; ++k) {
    const shoal_cut_t *cut = travelling(r, item, ring, k);
    if (!cut) continue;
    ring->axis = cut->axis;
    ring->cut = *cut;
    ring->ranks = instance_at(r->b, item->code.inputs[k])->layout->mesh->axes[cut->axis].size;
  }
  if (ring->ranks == 0) return NULL;
  if (ring->cut.chunk_count > 1 && !ring->way->any_order)
    AGAINST(r, "its way needs rows in their order, and they are dealt in chunks");
  for (int32_t k = 0; k < inputs && !r->against; ++k)
    SHOAL_RETURN_IF_ERROR(look_at_input(r, item, k, ring));
  for (int32_t o = 0; o < outputs && !r->against; ++o) {
    SHOAL_RETURN_IF_ERROR(look_at_output(r, item, o, ring));
    pairs += ring->way->operands[inputs + o].kind == SHOAL_OPERAND_PARTIAL &&
             ring->way->operands[inputs + o].reduce == SHOAL_REDUCE_LSE;
  }
  if (r->against) return NULL;
  if (ring->pair && (pairs != 2 || outputs != 2))
    AGAINST(r, "it leaves more than a value and its log-sum-exp");
  return look_at_readers(r, item, ring);
}

static shoal_status_t new_ring(const rings_t *r, const item_t *item, const shoal_way_t *way,
                               ring_t **out_ring) {
  ring_t *ring = *out_ring = SHOAL_NEW(r->scratch, ring_t, 1);
  if (!ring) return SHOAL_OOM();
  const int32_t inputs = item->code.input_count, outputs = item->code.output_count;
  *ring = (ring_t){.way = way,
                   .gathers = SHOAL_NEW(r->scratch, item_t *, inputs),
                   .sources = SHOAL_NEW(r->scratch, const shoal_layout_t *, inputs),
                   .pieces = SHOAL_NEW(r->scratch, bool, inputs),
                   .travels = SHOAL_NEW(r->scratch, bool, outputs),
                   .homes = SHOAL_NEW(r->scratch, int32_t, outputs)};
  return ring->gathers && ring->sources && ring->pieces && ring->travels && ring->homes
             ? NULL
             : SHOAL_OOM();
}

// Is an input gathered in tiles, for another node, and put together from them?
static shoal_status_t look_for_tiles(rings_t *r, const item_t *item) {
  for (int64_t i = 0; i < r->item_count; ++i) {
    const shoal_instruction_t *code = &r->items[i]->code;
    for (int32_t k = 0; k < item->code.input_count && code->opcode == SHOAL_OPCODE_ASSEMBLE; ++k)
      if (code->outputs[0] == item->code.inputs[k])
        AGAINST(r, "'%s' is there in tiles, as another node wants it",
                instance_at(r->b, item->code.inputs[k])->name);
  }
  return NULL;
}

shoal_status_t shoal_ring_find(rings_t *r, item_t *item, ring_t **out_ring) {
  const shoal_graph_t *graph = r->graph->graph;
  const shoal_rule_t *rule = NULL;
  const char *first = NULL;
  shoal_call_t call;
  *out_ring = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_node_call(graph, &graph->nodes.items[item->node], r->scratch, &call));
  SHOAL_RETURN_IF_ERROR(shoal_rules_get(r->b->plan->rules, &call, &rule));
  for (int32_t w = 0; w < rule->way_count; ++w) {
    ring_t *ring = NULL;
    SHOAL_RETURN_IF_ERROR(new_ring(r, item, &rule->ways[w], &ring));
    SHOAL_RETURN_IF_ERROR(try_way(r, item, ring));
    if (r->against && !first) first = r->against;
    if (r->against || ring->ranks == 0) continue;
    *out_ring = ring;
    return NULL;
  }
  r->against = first;
  return first ? NULL : look_for_tiles(r, item);
}

// ---- what is left ----------------------------------------------------------------------------

static shoal_status_t remove_item(rings_t *r, int64_t index) {
  r->gone[index] = true;
  return SHOAL_PUSH(r->scratch, r->free, r->items[index]->code.channels[0]) ? NULL : SHOAL_OOM();
}

// What an output becomes that travels: what somebody reduces it to in the layout in which it comes
// home, or an instance of its own. The others start from there.
static shoal_status_t find_home(rings_t *r, const item_t *item, ring_t *ring, int32_t o) {
  build_t *b = r->b;
  const int32_t output = item->code.outputs[o];
  instance_t home = *instance_at(b, output);
  const shoal_layout_t layout = shoal_ring_output(ring, home.layout, o, 0);
  SHOAL_RETURN_IF_ERROR(shoal_layouts_keep(&b->layouts, &layout, &home.layout));
  ring->homes[o] = -1;
  for (int64_t i = 0; i < r->item_count && ring->homes[o] < 0; ++i) {
    const shoal_instruction_t *code = &r->items[i]->code;
    if (r->gone[i] || code->opcode != SHOAL_OPCODE_RESHARD || code->inputs[0] != output) continue;
    if (!shoal_layout_equal(instance_at(b, code->outputs[0])->layout, home.layout)) continue;
    ring->homes[o] = code->outputs[0];
    SHOAL_RETURN_IF_ERROR(remove_item(r, i));
  }
  home.next_copy = -1;
  if (ring->homes[o] < 0) SHOAL_RETURN_IF_ERROR(shoal_lower_new_instance(b, home, &ring->homes[o]));
  for (int64_t i = 0; i < r->item_count; ++i) {
    item_t *reader = r->items[i];
    if (r->gone[i] || reader->code.opcode != SHOAL_OPCODE_RESHARD ||
        reader->code.inputs[0] != output)
      continue;
    reader->inputs[0] = ring->homes[o];
    b->channels.items[reader->code.channels[0]].src = home.layout;
  }
  return NULL;
}

// Does anybody still read what a gather makes?
static bool is_read(const rings_t *r, int32_t gathered) {
  for (int64_t i = 0; i < r->item_count; ++i) {
    const shoal_instruction_t *code = &r->items[i]->code;
    for (int32_t k = 0; k < code->input_count && !r->gone[i]; ++k)
      if (code->inputs[k] == gathered && !(r->rings[i] && r->rings[i]->gathers[k])) return true;
    if (code->predicate == gathered) return true;
  }
  return false;
}

shoal_status_t shoal_rings_settle(rings_t *r) {
  for (int64_t i = 0; i < r->item_count; ++i)
    for (int32_t o = 0; r->rings[i] && o < r->items[i]->code.output_count; ++o)
      if (r->rings[i]->travels[o]) SHOAL_RETURN_IF_ERROR(find_home(r, r->items[i], r->rings[i], o));
  for (int64_t i = 0; i < r->item_count; ++i) {
    ring_t *ring = r->rings[i];
    for (int32_t k = 0; ring && k < r->items[i]->code.input_count; ++k) {
      if (!ring->gathers[k] || is_read(r, r->items[i]->code.inputs[k])) continue;
      for (int64_t g = 0; g < r->item_count; ++g)
        if (r->items[g] == ring->gathers[k] && !r->gone[g])
          SHOAL_RETURN_IF_ERROR(remove_item(r, g));
    }
  }
  return NULL;
}
