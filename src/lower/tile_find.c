// Which tiles a node can be computed in: see tile.c. What its rule says is asked for, never what op
// it is: the first way that concatenates along the dim which is gathered or reduced.
#include <string.h>

#include "base/status.h"
#include "lower/tile.h"
#include "lower/tile_fit.h"

#define AGAINST(t, ...)                                            \
  do {                                                             \
    (t)->against = shoal_arena_printf((t)->b->arena, __VA_ARGS__); \
    return (t)->against ? NULL : SHOAL_OOM();                      \
  } while (0)

// ---- reshards ------------------------------------------------------------------------------

shoal_status_t shoal_tile_kind(const build_t *b, const item_t *reshard,
                               shoal_reshard_kind_t *out_kind) {
  const instance_t *from = instance_at(b, reshard->code.inputs[0]);
  const instance_t *to = instance_at(b, reshard->code.outputs[0]);
  const int64_t have = shoal_layout_along(from->layout, SHOAL_AXIS_MICRO) ? 0 : -1;
  const int64_t need = shoal_layout_along(to->layout, SHOAL_AXIS_MICRO) ? 0 : -1;
  shoal_reshard_facts_t facts = {.kind = SHOAL_RESHARD_BETWEEN};
  if (from->layout->mesh == to->layout->mesh)
    SHOAL_RETURN_IF_ERROR(shoal_reshard_describe(from->layout, have, to->layout, need,
                                                 &from->type.shape, b->plan->allocator, &facts));
  *out_kind = facts.kind;
  return NULL;
}

// Does the reshard run where the node does?
static bool is_beside(const item_t *reshard, const item_t *node) {
  return reshard->phase == node->phase && reshard->depth == node->depth &&
         reshard->send_depth == node->depth;
}

// The dim that is cut before a gather along an axis that does not cut afterwards; -1: none.
static int32_t dim_gathered(const shoal_layout_t *cut, const shoal_layout_t *whole) {
  for (int32_t i = cut->cut_count - 1; i >= 0; --i) {
    const int32_t axis = cut->cuts[i].axis;
    const bool ranks = cut->cuts[i].kind == SHOAL_CUT_DIM && axis != SHOAL_AXIS_MICRO;
    if (ranks && cut->mesh->axes[axis].size > 1 && !shoal_layout_along(whole, axis))
      return cut->cuts[i].dim;
  }
  return -1;
}

// Why tiles of a value are out of the question; NULL: they are not.
static shoal_status_t check_value(tiling_t *t, const instance_t *instance) {
  const shoal_plan_t *plan = t->b->plan;
  const int32_t value = instance->value;
  if (instance->memory != SHOAL_MEMORY_DEVICE)
    AGAINST(t, "'%s' rests in %s memory", instance->name, shoal_memory_kind_name(instance->memory));
  if (value < 0) return NULL;
  const shoal_value_info_t *info = &t->graph->graph->values.items[value];
  const int32_t state =
      info->source == SHOAL_FROM_STATE ? info->index : shoal_gradients_state(t->states, value);
  if (shoal_lower_is_put_away(t->graph, value))
    AGAINST(t, "'%s' is kept in other memory", instance->name);
  if (state < 0) return NULL;
  const char *name = plan->model->states.items[state].name;
  if (plan->memories[state] != SHOAL_MEMORY_DEVICE)
    AGAINST(t, "'%s' rests in %s memory", name, shoal_memory_kind_name(plan->memories[state]));
  if (plan->syncs[state].bucket || plan->syncs[state].bucket_bytes > 0)
    AGAINST(t, "'%s' is exchanged in buckets, as `sync` decides", name);
  if (info->source == SHOAL_FROM_STATE && shoal_plan_decided(plan, SHOAL_DECIDE_PREFETCH, name))
    AGAINST(t, "'%s' is gathered ahead, as `prefetch` decides", name);
  return NULL;
}

// ---- layouts of tiles ----------------------------------------------------------------------

static shoal_status_t list_layouts(tiling_t *t, const instance_t *of, int32_t count,
                                   const shoal_cut_t *cut, const shoal_layout_t ***out_layouts) {
  const shoal_layout_t **layouts = SHOAL_NEW(t->b->arena, const shoal_layout_t *, count);
  if (!layouts) return SHOAL_OOM();
  for (int32_t i = 0; i < count; ++i) {
    const shoal_tile_t tile = {i, count, *cut};
    SHOAL_RETURN_IF_ERROR(shoal_tile_layout(t->b, of, &tile, t->scratch, &layouts[i], &t->against));
    if (t->against) return NULL;
  }
  *out_layouts = layouts;
  return NULL;
}

// Which operands the way cuts, and how, if it cuts one of them like this.
static shoal_status_t follow_way(tiling_t *t, const shoal_way_t *way, int32_t operand,
                                 const shoal_cut_t *cut, tiled_t *tiled) {
  const item_t *item = t->item;
  shoal_item_cut_t items = {0};
  const shoal_shape_t *shape = &instance_at(t->b, operand_at(item, operand))->type.shape;
  if (!shoal_way_match(way, operand, shape, cut, &items))
    AGAINST(t, "its way along '%s' has other units",
            instance_at(t->b, operand_at(item, operand))->name);
  if (items.chunk_count > 1 && !way->any_order)
    AGAINST(t, "its way along '%s' needs rows in their order",
            instance_at(t->b, operand_at(item, operand))->name);
  for (int32_t k = 0; k < operand_count(item); ++k) {
    const instance_t *of = instance_at(t->b, operand_at(item, k));
    const bool input = k < item->code.input_count;
    shoal_cut_t *own = &tiled->cuts[k];
    if (way->operands[k].kind == SHOAL_OPERAND_WHOLE && input) continue;
    if (way->operands[k].kind != SHOAL_OPERAND_CUT)
      AGAINST(t, "its way along these rows does not concatenate '%s'", of->name);
    shoal_status_t status =
        shoal_way_cut(way, k, &of->type.shape, 0, &items, &tiled->is_cut[k], own);
    if (status || !tiled->is_cut[k] || own->kind != SHOAL_CUT_DIM || own->items || own->before ||
        own->after) {
      shoal_status_free(status);
      AGAINST(t, "its way along these rows cannot be tiled at '%s'", of->name);
    }
    own->weights = NULL;
  }
  return NULL;
}

// Another way that cuts the same rows would have to be the same one.
static shoal_status_t check_nesting(tiling_t *t, const shoal_way_t *way) {
  const shoal_decision_t *decision = t->graph->gp->nodes[t->item->node].decision;
  for (int32_t slot = 0; slot < SHOAL_PLAN_SLOTS; ++slot) {
    const shoal_way_t *other = decision->choices[slot].way;
    for (int32_t k = 0; k < operand_count(t->item) && other && other != way; ++k) {
      const shoal_way_operand_t *a = &way->operands[k], *b = &other->operands[k];
      if (a->kind == SHOAL_OPERAND_CUT && b->kind == SHOAL_OPERAND_CUT && a->dim == b->dim)
        AGAINST(t, "it is cut along the same dim of '%s' in another way",
                instance_at(t->b, operand_at(t->item, k))->name);
    }
  }
  return NULL;
}

static shoal_status_t lay_out(tiling_t *t, const shoal_way_t *way, int32_t operand,
                              const shoal_cut_t *cut, tiled_t *tiled) {
  const int32_t operands = operand_count(t->item);
  tiled->cuts = SHOAL_NEW(t->scratch, shoal_cut_t, operands);
  tiled->is_cut = SHOAL_NEW(t->scratch, bool, operands);
  tiled->layouts = SHOAL_NEW(t->scratch, const shoal_layout_t **, operands);
  tiled->gathers = SHOAL_NEW(t->scratch, bool, operands);
  tiled->reductions = SHOAL_NEW(t->scratch, item_t *, operands);
  if (!tiled->cuts || !tiled->is_cut || !tiled->layouts || !tiled->gathers || !tiled->reductions)
    return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(follow_way(t, way, operand, cut, tiled));
  if (!t->against) SHOAL_RETURN_IF_ERROR(check_nesting(t, way));
  for (int32_t k = 0; k < operands && !t->against; ++k) {
    const instance_t *of = instance_at(t->b, operand_at(t->item, k));
    if (!tiled->is_cut[k]) continue;
    SHOAL_RETURN_IF_ERROR(check_value(t, of));
    if (!t->against)
      SHOAL_RETURN_IF_ERROR(list_layouts(t, of, tiled->count, &tiled->cuts[k], &tiled->layouts[k]));
  }
  return NULL;
}

// ---- gathers and reductions ------------------------------------------------------------------

bool shoal_tile_is_made(const tiles_t *tiles, int32_t count, const shoal_layout_t **layouts) {
  return tiles->count == count &&
         memcmp(tiles->layouts, layouts, (size_t)count * sizeof *layouts) == 0;
}

// Notes that an instance is made in tiles.
static shoal_status_t note(tiling_t *t, int32_t instance, tiles_t proto) {
  tiles_t *tiles = SHOAL_NEW(t->scratch, tiles_t, 1);
  if (!tiles) return SHOAL_OOM();
  *tiles = proto;
  tiles->pieces = SHOAL_NEW(t->b->arena, int32_t, proto.count);
  if (!tiles->pieces) return SHOAL_OOM();
  for (int32_t i = 0; i < proto.count; ++i) tiles->pieces[i] = -1;
  t->tiles[instance] = tiles;
  return NULL;
}

// Gathers input k in the tiles that the node wants, if it is gathered. *out_found: it is.
static shoal_status_t tile_gather(tiling_t *t, tiled_t *tiled, int32_t k, bool *out_found) {
  const int32_t whole = t->item->code.inputs[k];
  item_t *gather = whole < t->instance_count ? t->makers[whole] : NULL;
  shoal_reshard_kind_t kind;
  *out_found = false;
  if (!gather || !tiled->is_cut[k]) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_tile_kind(t->b, gather, &kind));
  if (kind != SHOAL_RESHARD_ALL_GATHER || !is_beside(gather, t->item)) return NULL;
  if (t->rings[whole])
    AGAINST(t, "'%s' goes round in a ring for '%s'", instance_at(t->b, whole)->name,
            t->rings[whole]->code.name);
  if (t->tiles[whole]) {
    *out_found = t->tiles[whole]->gather &&
                 shoal_tile_is_made(t->tiles[whole], tiled->count, tiled->layouts[k]);
    if (!*out_found)
      AGAINST(t, "'%s' is gathered in other tiles already", instance_at(t->b, whole)->name);
    tiled->gathers[k] = true;
    return NULL;
  }
  const instance_t *from = instance_at(t->b, gather->code.inputs[0]);
  tiles_t tiles = {.count = tiled->count, .layouts = tiled->layouts[k], .gather = gather};
  SHOAL_RETURN_IF_ERROR(check_value(t, from));
  if (!t->against)
    SHOAL_RETURN_IF_ERROR(list_layouts(t, from, tiled->count, &tiled->cuts[k], &tiles.sources));
  if (t->against) return NULL;
  *out_found = tiled->gathers[k] = true;
  return note(t, whole, tiles);
}

static shoal_status_t tile_reduction(tiling_t *t, tiled_t *tiled, int32_t o, bool *out_found) {
  const int32_t k = t->item->code.input_count + o, made = t->item->code.outputs[o];
  item_t *reduction = t->reducers[made];
  *out_found = false;
  if (!reduction || !is_beside(reduction, t->item)) return NULL;
  const int32_t reduced = reduction->code.outputs[0];
  tiles_t tiles = {.count = tiled->count, .maker = t->item};
  SHOAL_RETURN_IF_ERROR(check_value(t, instance_at(t->b, reduced)));
  if (!t->against)
    SHOAL_RETURN_IF_ERROR(
        list_layouts(t, instance_at(t->b, reduced), tiled->count, &tiled->cuts[k], &tiles.layouts));
  if (t->against) return NULL;
  *out_found = true;
  tiled->reductions[o] = reduction;
  return note(t, reduced, tiles);
}

// Tiles of operand k along a dim, by the first way that allows them. `parts`: the instance whose
// parts they take a share of each.
static shoal_status_t try_dim(tiling_t *t, const shoal_rule_t *rule, int32_t k, int32_t dim,
                              const instance_t *parts, int32_t wanted, tiled_t *tiled,
                              bool *out_found) {
  shoal_cut_t cut;
  *out_found = false;
  for (int32_t w = 0; w < rule->way_count && !*out_found; ++w) {
    const shoal_way_operand_t *operand = &rule->ways[w].operands[k];
    if (operand->kind != SHOAL_OPERAND_CUT || operand->dim != dim) continue;
    *tiled = (tiled_t){.count = wanted};
    t->against = NULL;
    SHOAL_RETURN_IF_ERROR(
        shoal_tile_cut(t->b, parts, dim, t->scratch, &tiled->count, &cut, &t->against));
    if (!t->against) SHOAL_RETURN_IF_ERROR(lay_out(t, &rule->ways[w], k, &cut, tiled));
    *out_found = !t->against;
  }
  return NULL;
}

static shoal_status_t try_input(tiling_t *t, const shoal_rule_t *rule, int32_t k, int32_t wanted,
                                tiled_t *tiled, bool *out_found) {
  const item_t *gather = t->makers[t->item->code.inputs[k]];
  shoal_reshard_kind_t kind;
  *out_found = false;
  if (!gather) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_tile_kind(t->b, gather, &kind));
  if (kind != SHOAL_RESHARD_ALL_GATHER) return NULL;
  const instance_t *from = instance_at(t->b, gather->code.inputs[0]);
  const instance_t *to = instance_at(t->b, gather->code.outputs[0]);
  const int32_t dim = dim_gathered(from->layout, to->layout);
  if (!is_beside(gather, t->item))
    AGAINST(t, "'%s' is gathered in another part of the step", from->name);
  if (dim < 0) return NULL;
  SHOAL_RETURN_IF_ERROR(try_dim(t, rule, k, dim, from, wanted, tiled, out_found));
  if (!*out_found && !t->against)
    AGAINST(t, "no way concatenates what it makes of dim %d of '%s'", dim, from->name);
  if (*out_found) SHOAL_RETURN_IF_ERROR(tile_gather(t, tiled, k, out_found));
  return NULL;
}

static shoal_status_t try_output(tiling_t *t, const shoal_rule_t *rule, int32_t o, int32_t wanted,
                                 tiled_t *tiled, bool *out_found) {
  const item_t *reduction = t->reducers[t->item->code.outputs[o]];
  *out_found = false;
  if (!reduction) return NULL;
  const instance_t *from = instance_at(t->b, reduction->code.inputs[0]);
  const instance_t *to = instance_at(t->b, reduction->code.outputs[0]);
  if (!is_beside(reduction, t->item))
    AGAINST(t, "'%s' is reduced in another part of the step", from->name);
  // The dim that is scattered, if any, then the others from the outermost on.
  const int32_t scattered = dim_gathered(to->layout, from->layout),
                k = t->item->code.input_count + o;
  for (int32_t d = -1; d < to->type.shape.rank && !*out_found; ++d) {
    if (d == scattered || (d < 0 && scattered < 0)) continue;
    SHOAL_RETURN_IF_ERROR(try_dim(t, rule, k, d < 0 ? scattered : d, to, wanted, tiled, out_found));
    if (*out_found) SHOAL_RETURN_IF_ERROR(tile_reduction(t, tiled, o, out_found));
  }
  return NULL;
}

// ---- one node ----------------------------------------------------------------------------------

static shoal_status_t note_outputs(tiling_t *t, const tiled_t *tiled) {
  const shoal_instruction_t *code = &t->item->code;
  for (int32_t o = 0; o < code->output_count; ++o)
    SHOAL_RETURN_IF_ERROR(note(t, code->outputs[o],
                               (tiles_t){.count = tiled->count,
                                         .layouts = tiled->layouts[code->input_count + o],
                                         .maker = t->item}));
  return NULL;
}

shoal_status_t shoal_tile_find(tiling_t *t, int32_t wanted, tiled_t *tiled, bool *out_found) {
  const shoal_instruction_t *code = &t->item->code;
  const shoal_graph_t *graph = t->graph->graph;
  shoal_call_t call;
  const shoal_rule_t *rule = NULL;
  const char *first = NULL;
  *out_found = false;
  SHOAL_RETURN_IF_ERROR(
      shoal_node_call(graph, &graph->nodes.items[t->item->node], t->scratch, &call));
  SHOAL_RETURN_IF_ERROR(shoal_rules_get(t->b->plan->rules, &call, &rule));
  for (int32_t k = 0; k < operand_count(t->item) && !*out_found; ++k) {
    t->against = NULL;
    SHOAL_RETURN_IF_ERROR(k < code->input_count ? try_input(t, rule, k, wanted, tiled, out_found)
                                                : try_output(t, rule, k - code->input_count, wanted,
                                                             tiled, out_found));
    if (!*out_found && !first) first = t->against;
  }
  t->against = first;
  if (!*out_found) return NULL;
  // What else is gathered or reduced may be so in the same tiles; if not, it is as it was.
  for (int32_t k = 0; k < operand_count(t->item); ++k) {
    bool more;
    const bool input = k < code->input_count;
    t->against = NULL;
    if (input && !tiled->gathers[k]) SHOAL_RETURN_IF_ERROR(tile_gather(t, tiled, k, &more));
    if (!input && !tiled->reductions[k - code->input_count])
      SHOAL_RETURN_IF_ERROR(tile_reduction(t, tiled, k - code->input_count, &more));
  }
  t->against = NULL;
  return note_outputs(t, tiled);
}
