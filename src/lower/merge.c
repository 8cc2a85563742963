// Pairs, for the pass `paths`: a node that leaves a value and its log-sum-exp in parts, each rank
// for its own keys (partial(lse)), is followed by items that merge them. Nobody reads the parts but
// those: what others find is the merged value.
//   compute   A rank's part becomes its row of a stack [N, ..] that is cut along N, by
//             shoal.broadcast_to.
//   reshard   One instruction of both operands: each rank gets all N rows of some of the elements,
//             an all-to-all. (All rows of all of them, where no dim can be cut.)
//   compute   shoal.lse_merge over N, in the order of ranks.
// Every element is merged by one rank, or by all in the same order: whoever has it has the same
// bits. What moves is one part of both to be merged, and one more to who wants the whole: twice the
// value and its logarithms, where sums and maxima of the phases move twice the value and twice the
// logarithms of each phase.
#include "base/status.h"
#include "lower/build.h"
#include "program/bind.h"

typedef struct merging {
  build_t *b;
  graph_build_t *graph;
  const item_t *maker;
  int64_t parts;             // N
  int32_t made[2];           // instances: the value and its logarithms as the node leaves them
  int32_t stacked[2];        // the same as rows of a stack
  int32_t moved[2];          // the rows of all ranks
  int32_t merged[2];         // what others read
  shoal_layout_t layout[2];  // of that
} merging_t;

static bool is_merged(const shoal_cut_t *cut) {
  return cut->kind == SHOAL_CUT_PARTIAL && cut->reduce == SHOAL_REDUCE_LSE;
}

bool shoal_lower_is_pair(const build_t *b, const item_t *item) {
  if (item->code.opcode != SHOAL_OPCODE_COMPUTE || item->code.output_count != 2) return false;
  const shoal_layout_t *layout = instance_at(b, item->code.outputs[0])->layout;
  bool found = false;
  for (int32_t i = 0; i < layout->cut_count; ++i) found |= is_merged(&layout->cuts[i]);
  return found;
}

// ---- layouts ------------------------------------------------------------------------------

// Without the parts, and cut along `dim` by their axes instead; -1: by none.
static shoal_layout_t whole_of(const shoal_layout_t *made, int32_t dim) {
  shoal_layout_t out = *made;
  out.cut_count = 0;
  for (int32_t i = 0; i < made->cut_count; ++i)
    if (!is_merged(&made->cuts[i])) out.cuts[out.cut_count++] = made->cuts[i];
  for (int32_t i = 0; dim >= 0 && i < made->cut_count; ++i)
    if (is_merged(&made->cuts[i]))
      out.cuts[out.cut_count++] =
          (shoal_cut_t){.kind = SHOAL_CUT_DIM, .axis = made->cuts[i].axis, .dim = dim};
  return out;
}

// The layout of a stack [N, ..] of something in this layout; its parts lie along N.
static shoal_layout_t stack_of(const shoal_layout_t *layout) {
  shoal_layout_t out = *layout;
  for (int32_t i = 0; i < out.cut_count; ++i) {
    shoal_cut_t *cut = &out.cuts[i];
    if (is_merged(cut))
      *cut = (shoal_cut_t){.kind = SHOAL_CUT_DIM, .axis = cut->axis};
    else if (cut->kind == SHOAL_CUT_DIM)
      ++cut->dim;
  }
  return out;
}

// How long a rank's part of a dim is at least; 0: it should not be cut once more.
static int64_t room_along(const shoal_layout_t *layout, const shoal_shape_t *shape, int32_t dim) {
  int64_t length = shape->dims[dim];
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *cut = &layout->cuts[i];
    if (cut->kind == SHOAL_CUT_FLAT) return 0;
    if (cut->kind != SHOAL_CUT_DIM || cut->dim != dim) continue;
    if (cut->chunk_count || cut->weights || cut->items || cut->before || cut->after) return 0;
    length /=
        cut->axis == SHOAL_AXIS_MICRO ? layout->mesh->micro : layout->mesh->axes[cut->axis].size;
  }
  return length;
}

// The dim that the next node which reads the value wants cut by the axis of the parts; -1: none.
static int32_t wanted_dim(const merging_t *m) {
  const instance_t *value = instance_at(m->b, m->made[0]);
  const shoal_graph_plan_t *gp = m->graph->gp;
  int32_t axis = -1;
  for (int32_t i = value->layout->cut_count; i-- > 0;)
    if (is_merged(&value->layout->cuts[i])) axis = value->layout->cuts[i].axis;
  for (int64_t n = m->maker->node + 1; n < m->graph->graph->nodes.count; ++n) {
    const shoal_node_t *node = &m->graph->graph->nodes.items[n];
    for (int32_t k = 0; k < node->input_count; ++k) {
      if (node->inputs[k] != value->value) continue;
      const shoal_layout_t *layout = gp->nodes[n].decision->operands[k];
      const bool here = layout->mesh - m->b->plan->meshes == value->layout->mesh - m->b->meshes;
      const shoal_cut_t *cut = here ? shoal_layout_along(layout, axis) : NULL;
      return cut && cut->kind == SHOAL_CUT_DIM ? cut->dim : -1;
    }
  }
  return -1;
}

// The merged pair is cut along a dim that both have: as the next reader wants it, or the longest.
static void choose_layouts(merging_t *m) {
  const instance_t *value = instance_at(m->b, m->made[0]), *lse = instance_at(m->b, m->made[1]);
  const int32_t wanted = wanted_dim(m);
  int32_t dim = -1;
  int64_t most = 1;
  for (int32_t d = 0; d + 1 < value->type.shape.rank; ++d) {
    int64_t room = room_along(value->layout, &value->type.shape, d);
    const int64_t other = room_along(lse->layout, &lse->type.shape, d);
    if (other < room) room = other;
    if (d == wanted && room > 1) room = INT64_MAX;
    if (room > most) dim = d, most = room;
  }
  for (int k = 0; k < 2; ++k) m->layout[k] = whole_of(instance_at(m->b, m->made[k])->layout, dim);
}

// ---- items --------------------------------------------------------------------------------

static shoal_status_t new_instance(const merging_t *m, int32_t k, const shoal_shape_t *shape,
                                   const shoal_layout_t *layout, bool parts, int32_t *out_index) {
  instance_t made = *instance_at(m->b, m->made[k]);
  made.type.shape = *shape;
  made.parts = parts;
  made.next_copy = -1;
  made.phase = m->maker->phase;
  made.depth = m->maker->depth;
  SHOAL_RETURN_IF_ERROR(shoal_layouts_keep(&m->b->layouts, layout, &made.layout));
  return shoal_lower_new_instance(m->b, made, out_index);
}

static shoal_status_t add_item(const merging_t *m, shoal_opcode_t opcode, int32_t input,
                               int32_t output, item_t **out_item) {
  item_t *item = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_lower_new_item(m->b, m->graph, opcode, instance_at(m->b, input)->name,
                                             input, output, &item));
  item->side = m->maker->side;
  item->phase = m->maker->phase;
  item->depth = item->send_depth = m->maker->depth;
  *out_item = item;
  return NULL;
}

static shoal_status_t stack(merging_t *m, int k) {
  const instance_t *made = instance_at(m->b, m->made[k]);
  const shoal_layout_t from = stack_of(made->layout), to = stack_of(&m->layout[k]);
  shoal_shape_t shape = {.rank = made->type.shape.rank + 1, .dims = {m->parts}};
  for (int32_t d = 1; d < shape.rank; ++d) shape.dims[d] = made->type.shape.dims[d - 1];
  SHOAL_RETURN_IF_ERROR(new_instance(m, k, &shape, &from, true, &m->stacked[k]));
  SHOAL_RETURN_IF_ERROR(new_instance(m, k, &shape, &to, true, &m->moved[k]));
  item_t *item = NULL;
  SHOAL_RETURN_IF_ERROR(add_item(m, SHOAL_OPCODE_COMPUTE, m->made[k], m->stacked[k], &item));
  shoal_attr_value_t *attr = SHOAL_NEW(m->b->arena, shoal_attr_value_t, 1);
  if (!attr) return SHOAL_OOM();
  attr->count = shape.rank;
  for (int32_t d = 0; d < shape.rank; ++d) attr->ints[d] = shape.dims[d];
  item->code.attrs = attr;
  return shoal_op_find(m->b->plan->model->registry, "shoal.broadcast_to", &item->code.op);
}

// One reshard of both.
static shoal_status_t move(const merging_t *m) {
  item_t *item = NULL;
  SHOAL_RETURN_IF_ERROR(add_item(m, SHOAL_OPCODE_RESHARD, m->stacked[0], m->moved[0], &item));
  int32_t *lists = SHOAL_NEW(m->b->arena, int32_t, 6);
  if (!lists) return SHOAL_OOM();
  for (int k = 0; k < 2; ++k) {
    const instance_t *from = instance_at(m->b, m->stacked[k]);
    const shoal_channel_t channel = {.type = from->type,
                                     .src = from->layout,
                                     .dst = instance_at(m->b, m->moved[k])->layout,
                                     .micro = item->phase == PHASE_LOOP};
    lists[k] = m->stacked[k];
    lists[2 + k] = m->moved[k];
    lists[4 + k] = (int32_t)m->b->channels.count;
    if (!SHOAL_PUSH(m->b->arena, &m->b->channels, channel)) return SHOAL_OOM();
  }
  item->code.inputs = item->inputs = lists;
  item->code.outputs = lists + 2;
  item->code.channels = lists + 4;
  item->code.input_count = item->code.output_count = 2;
  return NULL;
}

static shoal_status_t merge(merging_t *m) {
  item_t *item = NULL;
  int32_t *lists = SHOAL_NEW(m->b->arena, int32_t, 4);
  if (!lists) return SHOAL_OOM();
  for (int k = 0; k < 2; ++k) {
    const instance_t *made = instance_at(m->b, m->made[k]);
    SHOAL_RETURN_IF_ERROR(
        new_instance(m, k, &made->type.shape, &m->layout[k], false, &m->merged[k]));
    lists[k] = m->moved[k];
    lists[2 + k] = m->merged[k];
  }
  SHOAL_RETURN_IF_ERROR(add_item(m, SHOAL_OPCODE_COMPUTE, m->moved[0], m->merged[0], &item));
  item->code.inputs = item->inputs = lists;
  item->code.outputs = lists + 2;
  item->code.input_count = item->code.output_count = 2;
  return shoal_op_find(m->b->plan->model->registry, "shoal.lse_merge", &item->code.op);
}

shoal_status_t shoal_lower_merge_pair(build_t *b, graph_build_t *graph, const item_t *maker) {
  merging_t m = {.b = b, .graph = graph, .maker = maker, .parts = 1};
  const shoal_layout_t *layout = instance_at(b, maker->code.outputs[0])->layout;
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    if (!is_merged(&layout->cuts[i])) continue;
    if (layout->cuts[i].axis == SHOAL_AXIS_MICRO)
      return SHOAL_ERROR_HINT(UNSUPPORTED, "cut the keys along an axis of the mesh",
                              "log-sum-exp merges the outputs of '%s' over ranks, not over "
                              "micro-batches",
                              maker->code.name);
    m.parts *= layout->mesh->axes[layout->cuts[i].axis].size;
  }
  for (int k = 0; k < 2; ++k) m.made[k] = maker->code.outputs[k];
  choose_layouts(&m);
  for (int k = 0; k < 2; ++k) SHOAL_RETURN_IF_ERROR(stack(&m, k));
  SHOAL_RETURN_IF_ERROR(move(&m));
  SHOAL_RETURN_IF_ERROR(merge(&m));
  for (int k = 0; k < 2; ++k) {
    const int32_t value = instance_at(b, m.made[k])->value;
    (maker->again ? graph->again_homes : graph->homes)[value] = m.merged[k];
  }
  return NULL;
}
