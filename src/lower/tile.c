// Pass `tile`: a node is computed in tiles, each while the next is gathered or the last is reduced.
//
// Without it a gather runs in front of a node, and a reduction behind it. Where the plan decides
// `tile NODE 4`, rows that the node's rule lets be computed one by one are divided into four: an
// input that is gathered along them is gathered in four tiles, the node is computed four times, and
// if its output is reduced, so is each tile of it as soon as it is there. Communication has a queue
// of its own: it runs beside the tile that is computed.
//
// A tile has a share of every rank's part (tile_fit.h), so all ranks send in each. Tiles are
// instances in layouts of their own: taps compare them, and nothing else has to know. Who wants a
// value that is there in tiles only gets it assembled in front of him. Only ways that concatenate
// are used: the bits are those of the node in one piece.
#include <string.h>

#include "base/status.h"
#include "lower/tile.h"

// ---- items -----------------------------------------------------------------------------------

// A tile of an instance. `value`: of the graph, for a state's home does not say.
static shoal_status_t new_piece(const tiling_t *t, int32_t of, int32_t value,
                                const shoal_layout_t *layout, const item_t *like,
                                int32_t *out_index) {
  instance_t piece = *instance_at(t->b, of);
  piece.kind = SHOAL_BUFFER_TEMP;
  piece.state = -1;
  piece.value = value;
  piece.layout = layout;
  piece.next_copy = -1;
  piece.phase = like->phase;
  piece.depth = like->depth;
  return shoal_lower_new_instance(t->b, piece, out_index);
}

// Moves a tile as a reshard would have moved all of it. The first tile takes over its channel.
static shoal_status_t move_piece(const tiling_t *t, int32_t from, int32_t to, const item_t *like,
                                 bool first) {
  build_t *b = t->b;
  const instance_t *source = instance_at(b, from);
  const shoal_channel_t channel = {.type = source->type,
                                   .src = source->layout,
                                   .dst = instance_at(b, to)->layout,
                                   .micro = like->phase == PHASE_LOOP};
  item_t *item = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_lower_new_item_beside(t->b, t->graph, SHOAL_OPCODE_RESHARD,
                                                    source->name, from, to, like, &item));
  item->one_channel = first ? like->code.channels[0] : (int32_t)b->channels.count;
  item->code.channels = &item->one_channel;
  if (first) b->channels.items[item->one_channel] = channel;
  return first || SHOAL_PUSH(b->arena, &b->channels, channel) ? NULL : SHOAL_OOM();
}

// Puts the tiles of an instance together, in front of the first that wants all of it.
static shoal_status_t assemble(const tiling_t *t, int32_t instance) {
  tiles_t *tiles = instance < t->instance_count ? t->tiles[instance] : NULL;
  const item_t *like = tiles && tiles->gather ? tiles->gather : tiles ? tiles->maker : NULL;
  item_t *item = NULL;
  if (!tiles || tiles->whole) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_lower_new_item_beside(t->b, t->graph, SHOAL_OPCODE_ASSEMBLE,
                                                    like->code.name, -1, instance, like, &item));
  item->node = like->node;
  item->code.input_count = tiles->count;
  item->code.inputs = item->inputs = tiles->pieces;
  tiles->whole = true;
  return NULL;
}

// ---- in tiles ----------------------------------------------------------------------------------

// Instead of a gather: each rank's share of each tile is copied and gathered.
static shoal_status_t gather_tiles(const tiling_t *t, const item_t *gather, tiles_t *tiles) {
  const int32_t from = gather->code.inputs[0], to = gather->code.outputs[0];
  const int32_t value = instance_at(t->b, to)->value;
  SHOAL_RETURN_IF_ERROR(assemble(t, from));
  for (int32_t i = 0; i < tiles->count; ++i) {
    int32_t share = -1;
    item_t *copy = NULL;
    SHOAL_RETURN_IF_ERROR(new_piece(t, from, value, tiles->sources[i], gather, &share));
    SHOAL_RETURN_IF_ERROR(new_piece(t, to, value, tiles->layouts[i], gather, &tiles->pieces[i]));
    SHOAL_RETURN_IF_ERROR(shoal_lower_new_item_beside(
        t->b, t->graph, SHOAL_OPCODE_COPY, gather->code.name, from, share, gather, &copy));
    SHOAL_RETURN_IF_ERROR(move_piece(t, share, tiles->pieces[i], gather, i == 0));
  }
  return NULL;
}

// A tile of an input that is not gathered in tiles.
static shoal_status_t take_piece(const tiling_t *t, const item_t *item, int32_t k,
                                 const shoal_layout_t *layout, int32_t *out_index) {
  const int32_t from = item->code.inputs[k], value = item->needs[k].value;
  item_t *copy = NULL;
  SHOAL_RETURN_IF_ERROR(new_piece(t, from, value, layout, item, out_index));
  return shoal_lower_new_item_beside(t->b, t->graph, SHOAL_OPCODE_COPY,
                                     instance_at(t->b, from)->name, from, *out_index, item, &copy);
}

static shoal_status_t compute_tile(const tiling_t *t, const item_t *node, const tiled_t *tiled,
                                   int32_t index) {
  build_t *b = t->b;
  const shoal_instruction_t *code = &node->code;
  item_t *item = SHOAL_NEW(b->arena, item_t, 1);
  int32_t *inputs = SHOAL_NEW(b->arena, int32_t, code->input_count);
  int32_t *outputs = SHOAL_NEW(b->arena, int32_t, code->output_count);
  if (!item || !inputs || !outputs) return SHOAL_OOM();
  *item = *node;
  for (int32_t k = 0; k < code->input_count; ++k) {
    const int32_t from = inputs[k] = code->inputs[k];
    if (!tiled->is_cut[k]) continue;
    tiles_t *tiles = from < t->instance_count ? t->tiles[from] : NULL;
    if (tiles && shoal_tile_is_made(tiles, tiled->count, tiled->layouts[k]))
      inputs[k] = tiles->pieces[index];
    else
      SHOAL_RETURN_IF_ERROR(take_piece(t, node, k, tiled->layouts[k][index], &inputs[k]));
  }
  for (int32_t o = 0; o < code->output_count; ++o) {
    tiles_t *tiles = t->tiles[code->outputs[o]];
    SHOAL_RETURN_IF_ERROR(new_piece(t, code->outputs[o], instance_at(b, code->outputs[o])->value,
                                    tiles->layouts[index], node, &tiles->pieces[index]));
    outputs[o] = tiles->pieces[index];
  }
  item->code.inputs = item->inputs = inputs;
  item->code.outputs = outputs;
  return SHOAL_PUSH(b->arena, &t->graph->items, item) ? NULL : SHOAL_OOM();
}

static shoal_status_t compute_tiles(const tiling_t *t, const item_t *node, const tiled_t *tiled) {
  const shoal_instruction_t *code = &node->code;
  for (int32_t k = 0; k < code->input_count; ++k) {
    tiles_t *tiles = code->inputs[k] < t->instance_count ? t->tiles[code->inputs[k]] : NULL;
    if (tiles && !(tiled->is_cut[k] && shoal_tile_is_made(tiles, tiled->count, tiled->layouts[k])))
      SHOAL_RETURN_IF_ERROR(assemble(t, code->inputs[k]));
  }
  for (int32_t i = 0; i < tiled->count; ++i) {
    SHOAL_RETURN_IF_ERROR(compute_tile(t, node, tiled, i));
    for (int32_t o = 0; o < code->output_count; ++o) {
      const item_t *reduction = tiled->reductions[o];
      if (!reduction) continue;
      const int32_t reduced = reduction->code.outputs[0];
      tiles_t *tiles = t->tiles[reduced];
      SHOAL_RETURN_IF_ERROR(new_piece(t, reduced, instance_at(t->b, reduced)->value,
                                      tiles->layouts[i], reduction, &tiles->pieces[i]));
      SHOAL_RETURN_IF_ERROR(move_piece(t, t->tiles[code->outputs[o]]->pieces[i], tiles->pieces[i],
                                       reduction, i == 0));
    }
  }
  return NULL;
}

// ---- graphs ------------------------------------------------------------------------------------

static shoal_status_t refuse(const tiling_t *t) {
  const char *name = t->graph->graph->nodes.items[t->item->node].name;
  const shoal_intent_decision_t *decision =
      shoal_plan_decided_node(t->b->plan, SHOAL_DECIDE_TILE, t->graph->gp, t->item->node);
  return SHOAL_ERROR_HINT(
      UNSUPPORTED, "decide 'no' for this node, or 'auto N' to tile where it is possible",
      "decision 'tile %s %d' cannot hold for '%s': %s", decision ? decision->pattern : name,
      t->graph->gp->tilings[t->item->node].count, name,
      t->against ? t->against : "nothing is gathered in front of it or reduced behind it");
}

static shoal_status_t find_tiles(tiling_t *t, item_t *item, tiled_t **out_tiled) {
  const bool node = item->node >= 0 && item->code.opcode == SHOAL_OPCODE_COMPUTE;
  const shoal_tiling_t tiling = node ? t->graph->gp->tilings[item->node] : (shoal_tiling_t){0};
  bool found = false;
  *out_tiled = NULL;
  if (tiling.count == 0 || tiling.ring) return NULL;
  tiled_t *tiled = SHOAL_NEW(t->scratch, tiled_t, 1);
  if (!tiled) return SHOAL_OOM();
  t->item = item;
  SHOAL_RETURN_IF_ERROR(shoal_tile_find(t, tiling.count, tiled, &found));
  if (found) *out_tiled = tiled;
  if (!found && !tiling.where_possible) return refuse(t);
  if (!found) item->untiled_because = t->against;
  return NULL;
}

// Is it a reduction that its node does in tiles?
static bool is_done_in_tiles(const tiling_t *t, const item_t *item) {
  const tiles_t *tiles =
      item->code.opcode == SHOAL_OPCODE_RESHARD ? t->tiles[item->code.outputs[0]] : NULL;
  return tiles && !tiles->gather;
}

static shoal_status_t visit(const tiling_t *t, item_t *item, const tiled_t *tiled) {
  const bool reshard = item->code.opcode == SHOAL_OPCODE_RESHARD;
  if (tiled) return compute_tiles(t, item, tiled);
  if (is_done_in_tiles(t, item)) return NULL;
  if (reshard && t->tiles[item->code.outputs[0]])
    return gather_tiles(t, item, t->tiles[item->code.outputs[0]]);
  for (int32_t k = 0; k < item->code.input_count; ++k)
    SHOAL_RETURN_IF_ERROR(assemble(t, item->code.inputs[k]));
  return SHOAL_PUSH(t->b->arena, &t->graph->items, item) ? NULL : SHOAL_OOM();
}

static shoal_status_t list_reshards(tiling_t *t) {
  for (int64_t i = 0; i < t->graph->items.count; ++i) {
    item_t *item = t->graph->items.items[i];
    shoal_reshard_kind_t kind;
    if (item->code.opcode != SHOAL_OPCODE_RESHARD) continue;
    t->makers[item->code.outputs[0]] = item;
    if (t->reducers[item->code.inputs[0]]) continue;
    if (!shoal_layout_is_partial(instance_at(t->b, item->code.inputs[0])->layout)) continue;
    SHOAL_RETURN_IF_ERROR(shoal_tile_kind(t->b, item, &kind));
    if (kind == SHOAL_RESHARD_ALL_REDUCE || kind == SHOAL_RESHARD_REDUCE_SCATTER)
      t->reducers[item->code.inputs[0]] = item;
  }
  return NULL;
}

// What goes round for one node cannot be gathered in tiles for another.
static void list_rings(tiling_t *t) {
  for (int64_t i = 0; i < t->graph->items.count; ++i) {
    item_t *item = t->graph->items.items[i];
    if (item->node < 0 || item->code.opcode != SHOAL_OPCODE_COMPUTE) continue;
    const shoal_tiling_t tiling = t->graph->gp->tilings[item->node];
    if (!tiling.ring || tiling.where_possible) continue;
    for (int32_t k = 0; k < item->code.input_count; ++k) t->rings[item->code.inputs[k]] = item;
  }
}

static shoal_status_t tile_graph(build_t *b, graph_build_t *graph, shoal_arena_t *scratch) {
  const int64_t count = graph->items.count;
  item_t **items = graph->items.items;
  tiling_t t = {.b = b,
                .graph = graph,
                .scratch = scratch,
                .instance_count = b->instances.count,
                .makers = SHOAL_NEW(scratch, item_t *, b->instances.count),
                .reducers = SHOAL_NEW(scratch, item_t *, b->instances.count),
                .rings = SHOAL_NEW(scratch, item_t *, b->instances.count),
                .tiles = SHOAL_NEW(scratch, tiles_t *, b->instances.count)};
  tiled_t **tiled = SHOAL_NEW(scratch, tiled_t *, count);
  if (!t.makers || !t.reducers || !t.rings || !t.tiles || !tiled) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_gradients_make(graph->graph, b->plan->model, scratch, &t.states));
  SHOAL_RETURN_IF_ERROR(list_reshards(&t));
  list_rings(&t);
  for (int64_t i = 0; i < count; ++i) SHOAL_RETURN_IF_ERROR(find_tiles(&t, items[i], &tiled[i]));
  graph->items.items = NULL;
  graph->items.count = graph->items.capacity = 0;
  for (int64_t i = 0; i < count; ++i) {
    shoal_status_t status = visit(&t, items[i], tiled[i]);
    if (status) return shoal_status_annotatef(status, "while tiling '%s'", items[i]->code.name);
  }
  return NULL;
}

static bool wants_tiles(const graph_build_t *graph) {
  for (int64_t n = 0; n < graph->graph->nodes.count; ++n)
    if (graph->gp->tilings[n].count > 0 && !graph->gp->tilings[n].ring) return true;
  return false;
}

shoal_status_t shoal_lower_pass_tile(build_t *b) {
  shoal_arena_t scratch;
  shoal_status_t status = NULL;
  shoal_arena_init(b->plan->allocator, &scratch);
  for (int64_t g = 0; g < b->graph_count && !status; ++g)
    if (wants_tiles(&b->graphs[g])) status = tile_graph(b, &b->graphs[g], &scratch);
  shoal_arena_deinit(&scratch);
  return status;
}
