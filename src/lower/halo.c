// Pass `halo`: a node whose windows reach over to neighbours starts before their rows are there.
//
// Without it a reshard fills the halo of an input, and the node runs behind it. Where the plan
// decides `halo NODE split`, the node is computed in pieces: the *interior*, outputs whose windows
// stay within what the rank has itself, from the input as it was before the reshard; then, from the
// input with its halo, the first and the last rows. An assembly makes the output of the three.
// Pieces are instances of the output's value whose layouts trim its cut, so taps compare each of
// them and nothing else has to know. Communication has a queue of its own: it runs beside the
// interior.
//
// A cut trims all parts alike, and parts differ in size: the interior is trimmed by the thickest
// border that any rank has, and what strips leave out is counted from the smallest part. Rows that
// two pieces have are taken from the interior.
#include <string.h>

#include "base/status.h"
#include "lower/build.h"

enum { INTERIOR, FIRST_ROWS, LAST_ROWS, PIECES };

typedef struct splitting {
  build_t *b;
  graph_build_t *graph;
  item_t **makers;  // by instance: the reshard that makes it, or NULL
  shoal_arena_t *scratch;
} splitting_t;

// What is found out about a node, as long as nothing speaks against a split.
typedef struct split {
  item_t *item;
  int32_t axis;
  int64_t unit;         // of the items that the axis deals
  int32_t *near;        // by input: the instance without halo; -1: it has none anyway
  int64_t first, last;  // items at the ends of a part that need rows of neighbours, at most
  int64_t *smallest;    // by output: rows of the smallest part that has any
  const char *against;  // why it stays whole; NULL: it is split
} split_t;

static const shoal_cut_t *cut_of(const build_t *b, int32_t instance, int32_t axis) {
  return shoal_layout_along(instance_at(b, instance)->layout, axis);
}

static int64_t unit_of(const shoal_cut_t *cut) {
  return cut->unit > 1 ? cut->unit : 1;
}

#define AGAINST(split, ...)                                          \
  do {                                                               \
    (split)->against = shoal_arena_printf(s->b->arena, __VA_ARGS__); \
    return (split)->against ? NULL : SHOAL_OOM();                    \
  } while (0)

// ---- which axis, which inputs ------------------------------------------------------------

// Finds the axis along which inputs have halos. *out_axis is -1 where none has.
static shoal_status_t find_axis(const splitting_t *s, split_t *split, int32_t *out_axis) {
  *out_axis = -1;
  for (int32_t k = 0; k < split->item->code.input_count; ++k) {
    const shoal_layout_t *layout = instance_at(s->b, split->item->code.inputs[k])->layout;
    for (int32_t i = 0; i < layout->cut_count; ++i) {
      if (!shoal_cut_widens(layout, i)) continue;
      const int32_t axis = layout->cuts[i].axis;
      if (*out_axis >= 0 && axis != *out_axis)
        AGAINST(split, "it has halos along two axes, '%s' and '%s'",
                layout->mesh->axes[*out_axis].name,
                axis == SHOAL_AXIS_MICRO ? "micro" : layout->mesh->axes[axis].name);
      *out_axis = axis;
    }
  }
  return NULL;
}

// Does anything but the item along `axis` differ?
static bool same_otherwise(const shoal_layout_t *a, const shoal_layout_t *c, int32_t axis) {
  shoal_layout_t x = *a, y = *c;
  x.cut_count = y.cut_count = 0;
  for (int32_t i = 0; i < a->cut_count; ++i)
    if (a->cuts[i].axis != axis) x.cuts[x.cut_count++] = a->cuts[i];
  for (int32_t i = 0; i < c->cut_count; ++i)
    if (c->cuts[i].axis != axis) y.cuts[y.cut_count++] = c->cuts[i];
  return shoal_layout_equal(&x, &y);
}

// Is the dim that the axis cuts cut by no other axis?
static bool cut_once(const shoal_layout_t *layout, const shoal_cut_t *cut) {
  for (int32_t i = 0; i < layout->cut_count; ++i)
    if (&layout->cuts[i] != cut && layout->cuts[i].kind != SHOAL_CUT_PARTIAL &&
        (layout->cuts[i].kind == SHOAL_CUT_FLAT || layout->cuts[i].dim == cut->dim))
      return false;
  return true;
}

static shoal_status_t find_near(const splitting_t *s, split_t *split, int32_t k) {
  const build_t *b = s->b;
  const int32_t wide = split->item->code.inputs[k];
  const instance_t *input = instance_at(b, wide);
  const shoal_cut_t *need = cut_of(b, wide, split->axis);
  split->near[k] = -1;
  if (!need || need->kind != SHOAL_CUT_DIM || (need->before <= 0 && need->after <= 0)) return NULL;
  const item_t *maker = s->makers[wide];
  if (!maker) AGAINST(split, "'%s' has its halo without a reshard", input->name);
  const int32_t from = maker->code.inputs[0];
  const shoal_cut_t *have = cut_of(b, from, split->axis);
  if (!have || have->kind != SHOAL_CUT_DIM || have->dim != need->dim ||
      instance_at(b, from)->layout->mesh != input->layout->mesh ||
      !same_otherwise(instance_at(b, from)->layout, input->layout, split->axis))
    AGAINST(split, "the reshard of '%s' does more than fill a halo", input->name);
  if (!cut_once(input->layout, need) || !cut_once(instance_at(b, from)->layout, have))
    AGAINST(split, "two axes cut the rows of '%s'", input->name);
  split->near[k] = from;
  return NULL;
}

static shoal_status_t check_output(const splitting_t *s, split_t *split, int32_t o) {
  const int32_t index = split->item->code.outputs[o];
  const instance_t *output = instance_at(s->b, index);
  const shoal_cut_t *cut = cut_of(s->b, index, split->axis);
  if (!cut || cut->kind != SHOAL_CUT_DIM)
    AGAINST(split, "its output '%s' is not cut along '%s'", output->name,
            output->layout->mesh->axes[split->axis].name);
  if (cut->before || cut->after || cut->chunk_count || cut->items < 0 ||
      unit_of(cut) % split->unit != 0 || !cut_once(output->layout, cut))
    AGAINST(split, "the cut of its output '%s' cannot be trimmed", output->name);
  return NULL;
}

// ---- how thick the border is -------------------------------------------------------------

// The rows along the axis that the rank at `coordinate` of it holds of an instance: one interval.
static shoal_status_t rows_of(const splitting_t *s, int32_t instance, int32_t axis,
                              int64_t coordinate, shoal_interval_t *out_rows, bool *out_one) {
  const instance_t *value = instance_at(s->b, instance);
  const int64_t micro = shoal_layout_along(value->layout, SHOAL_AXIS_MICRO) ? 0 : -1;
  int64_t coords[SHOAL_MAX_AXES] = {0};
  shoal_boxes_t boxes;
  coords[axis] = coordinate;
  SHOAL_RETURN_IF_ERROR(shoal_layout_boxes(value->layout, &value->type.shape,
                                           shoal_mesh_at(value->layout->mesh, coords), micro,
                                           s->scratch, &boxes));
  const shoal_dim_part_t *part = &boxes.dims[cut_of(s->b, instance, axis)->dim];
  *out_one = part->held_count <= 1;
  *out_rows = part->held_count > 0 ? part->held[0] : (shoal_interval_t){0, 0};
  return NULL;
}

// The items of a part. From `loose` on they are not of one length: where a cut deals a given number
// of items, the last of them take the rest of the rows.
typedef struct items {
  int64_t from, to, loose;
} items_t;

// How many items at either end see rows of input k that this rank lacks.
static shoal_status_t measure_border(const splitting_t *s, split_t *split, int32_t k,
                                     shoal_interval_t have, items_t items) {
  const int32_t wide = split->item->code.inputs[k];
  const shoal_cut_t *need = cut_of(s->b, wide, split->axis);
  const int64_t scale = unit_of(need) / split->unit;
  const int64_t length = instance_at(s->b, wide)->type.shape.dims[need->dim];
  const int64_t end = have.start + have.size;
  int64_t first = 0, last = 0;
  while (items.from + first < items.to && have.start > 0 &&
         (items.from + first) * scale - need->before < have.start)
    ++first;
  while (items.to - last > items.from && end < length &&
         (items.to - last) * scale + need->after > end)
    ++last;
  if (items.from + first > items.loose || (items.to > items.loose && last > 0))
    AGAINST(split, "the last rank waits for the halo of '%s' with all it has",
            instance_at(s->b, wide)->name);
  if (first > split->first) split->first = first;
  if (last > split->last) split->last = last;
  return NULL;
}

static shoal_status_t measure_part(const splitting_t *s, split_t *split, int64_t coordinate) {
  const shoal_instruction_t *code = &split->item->code;
  items_t items = {.loose = INT64_MAX};
  for (int32_t o = 0; o < code->output_count; ++o) {
    shoal_interval_t rows;
    bool one;
    SHOAL_RETURN_IF_ERROR(rows_of(s, code->outputs[o], split->axis, coordinate, &rows, &one));
    if (!one) AGAINST(split, "its parts have several pieces");
    if (rows.size == 0) return NULL;
    const shoal_cut_t *cut = cut_of(s->b, code->outputs[o], split->axis);
    const int64_t scale = unit_of(cut) / split->unit;
    const int64_t loose = (cut->items - 1) * split->unit;
    if (cut->items > 0 && loose < items.loose) items.loose = loose;
    if (split->smallest[o] == 0 || rows.size < split->smallest[o]) split->smallest[o] = rows.size;
    items.from = rows.start / scale;
    items.to = (rows.start + rows.size + scale - 1) / scale;
  }
  for (int32_t k = 0; k < code->input_count; ++k) {
    shoal_interval_t have;
    bool one;
    if (split->near[k] < 0) continue;
    SHOAL_RETURN_IF_ERROR(rows_of(s, split->near[k], split->axis, coordinate, &have, &one));
    if (!one || have.size == 0) AGAINST(split, "a rank has no rows of its own");
    SHOAL_RETURN_IF_ERROR(measure_border(s, split, k, have, items));
    if (split->against) return NULL;
  }
  return NULL;
}

static shoal_status_t check_length(const splitting_t *s, split_t *split) {
  const shoal_instruction_t *code = &split->item->code;
  if (split->first + split->last == 0) AGAINST(split, "no window reaches over to a neighbour");
  for (int32_t o = 0; o < code->output_count; ++o) {
    const int64_t scale = unit_of(cut_of(s->b, code->outputs[o], split->axis)) / split->unit;
    const int64_t border = (split->first + split->last) * scale;
    if (split->smallest[o] <= border)
      AGAINST(split, "a rank's part of '%s' has %lld rows, and %lld of them wait for the halo",
              instance_at(s->b, code->outputs[o])->name, (long long)split->smallest[o],
              (long long)border);
  }
  return NULL;
}

static shoal_status_t examine(const splitting_t *s, split_t *split) {
  const shoal_instruction_t *code = &split->item->code;
  const shoal_mesh_t *mesh = instance_at(s->b, code->outputs[0])->layout->mesh;
  const shoal_decision_t *decision = s->graph->gp->nodes[split->item->node].decision;
  const int64_t unit = decision->choices[1 + split->axis].item_cut.unit;
  split->unit = unit > 1 ? unit : 1;
  split->near = SHOAL_NEW(s->scratch, int32_t, code->input_count);
  split->smallest = SHOAL_NEW(s->scratch, int64_t, code->output_count);
  if (!split->near || !split->smallest) return SHOAL_OOM();
  for (int32_t o = 0; o < code->output_count && !split->against; ++o)
    SHOAL_RETURN_IF_ERROR(check_output(s, split, o));
  for (int32_t k = 0; k < code->input_count && !split->against; ++k)
    SHOAL_RETURN_IF_ERROR(find_near(s, split, k));
  for (int64_t c = 0; c < mesh->axes[split->axis].size && !split->against; ++c)
    SHOAL_RETURN_IF_ERROR(measure_part(s, split, c));
  return split->against ? NULL : check_length(s, split);
}

// ---- the pieces ----------------------------------------------------------------------------

// An instance of output o that holds only a piece of each part.
static shoal_status_t make_piece(const splitting_t *s, const split_t *split, int32_t o, int piece,
                                 int32_t *out_index) {
  instance_t part = *instance_at(s->b, split->item->code.outputs[o]);
  shoal_layout_t layout = *part.layout;
  for (int32_t i = 0; i < layout.cut_count; ++i) {
    shoal_cut_t *cut = &layout.cuts[i];
    if (cut->axis != split->axis) continue;
    const int64_t scale = unit_of(cut) / split->unit;
    const int64_t first = split->first * scale, last = split->last * scale;
    cut->before = piece == INTERIOR     ? -first
                  : piece == FIRST_ROWS ? 0
                                        : -(split->smallest[o] - last);
    cut->after = piece == INTERIOR     ? -last
                 : piece == FIRST_ROWS ? -(split->smallest[o] - first)
                                       : 0;
  }
  part.next_copy = -1;
  SHOAL_RETURN_IF_ERROR(shoal_layouts_keep(&s->b->layouts, &layout, &part.layout));
  return shoal_lower_new_instance(s->b, part, out_index);
}

static shoal_status_t compute_piece(const splitting_t *s, const split_t *split, int piece,
                                    int32_t *outputs) {
  build_t *b = s->b;
  const shoal_instruction_t *code = &split->item->code;
  item_t *item = SHOAL_NEW(b->arena, item_t, 1);
  int32_t *inputs = SHOAL_NEW(b->arena, int32_t, code->input_count);
  if (!item || !inputs) return SHOAL_OOM();
  *item = *split->item;
  for (int32_t k = 0; k < code->input_count; ++k)
    inputs[k] = piece == INTERIOR && split->near[k] >= 0 ? split->near[k] : code->inputs[k];
  for (int32_t o = 0; o < code->output_count; ++o)
    SHOAL_RETURN_IF_ERROR(make_piece(s, split, o, piece, &outputs[o]));
  item->code.inputs = item->inputs = inputs;
  item->code.outputs = outputs;
  return SHOAL_PUSH(b->arena, &s->graph->items, item) ? NULL : SHOAL_OOM();
}

static shoal_status_t assemble(const splitting_t *s, const split_t *split, int32_t o,
                               int32_t *const *pieces) {
  int32_t *inputs = SHOAL_NEW(s->b->arena, int32_t, PIECES);
  item_t *item = NULL;
  if (!inputs) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(
      shoal_lower_new_item_beside(s->b, s->graph, SHOAL_OPCODE_ASSEMBLE, split->item->code.name, -1,
                                  split->item->code.outputs[o], split->item, &item));
  item->code.inputs = item->inputs = inputs;
  for (int piece = 0; piece < PIECES; ++piece)
    if (pieces[piece]) inputs[item->code.input_count++] = pieces[piece][o];
  item->node = split->item->node;
  return NULL;
}

static shoal_status_t split_item(const splitting_t *s, const split_t *split) {
  const int32_t count = split->item->code.output_count;
  int32_t *pieces[PIECES] = {NULL};
  for (int piece = 0; piece < PIECES; ++piece) {
    if ((piece == FIRST_ROWS && split->first == 0) || (piece == LAST_ROWS && split->last == 0))
      continue;
    pieces[piece] = SHOAL_NEW(s->b->arena, int32_t, count);
    if (!pieces[piece]) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(compute_piece(s, split, piece, pieces[piece]));
  }
  for (int32_t o = 0; o < count; ++o) SHOAL_RETURN_IF_ERROR(assemble(s, split, o, pieces));
  return NULL;
}

// ---- graphs --------------------------------------------------------------------------------

// A decision that cannot hold is refused, with what speaks against it.
static shoal_status_t refuse(const splitting_t *s, const split_t *split) {
  const char *name = s->graph->graph->nodes.items[split->item->node].name;
  const shoal_intent_decision_t *decision = shoal_plan_decided(s->b->plan, SHOAL_DECIDE_HALO, name);
  return SHOAL_ERROR_HINT(UNSUPPORTED,
                          "decide 'whole' for this node, or 'auto' to split where it is possible",
                          "decision 'halo %s split' cannot hold for '%s': %s",
                          decision ? decision->pattern : name, name, split->against);
}

static shoal_status_t visit(const splitting_t *s, item_t *item) {
  split_t split = {.item = item, .axis = -1};
  const bool node = item->node >= 0 && item->code.opcode == SHOAL_OPCODE_COMPUTE;
  const shoal_halo_t halo = node ? s->graph->gp->halos[item->node] : SHOAL_HALO_WHOLE;
  if (node) SHOAL_RETURN_IF_ERROR(find_axis(s, &split, &split.axis));
  if (split.axis >= 0 && halo == SHOAL_HALO_WHOLE) split.against = "no decision asks for a split";
  if (split.axis >= 0 && !split.against) SHOAL_RETURN_IF_ERROR(examine(s, &split));
  if (split.axis >= 0 && !split.against) return split_item(s, &split);
  if (split.against && halo == SHOAL_HALO_SPLIT) return refuse(s, &split);
  item->whole_because = split.against;
  return SHOAL_PUSH(s->b->arena, &s->graph->items, item) ? NULL : SHOAL_OOM();
}

static shoal_status_t split_graph(build_t *b, graph_build_t *graph, shoal_arena_t *scratch) {
  splitting_t s = {.b = b, .graph = graph, .scratch = scratch};
  item_t **items = graph->items.items;
  const int64_t count = graph->items.count;
  s.makers = SHOAL_NEW(scratch, item_t *, b->instances.count);
  if (!s.makers) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i)
    if (items[i]->code.opcode == SHOAL_OPCODE_RESHARD)
      s.makers[items[i]->code.outputs[0]] = items[i];
  graph->items.items = NULL;
  graph->items.count = graph->items.capacity = 0;
  for (int64_t i = 0; i < count; ++i) {
    shoal_status_t status = visit(&s, items[i]);
    if (status) return shoal_status_annotatef(status, "while splitting '%s'", items[i]->code.name);
  }
  return NULL;
}

shoal_status_t shoal_lower_pass_halo(build_t *b) {
  shoal_arena_t scratch;
  shoal_status_t status = NULL;
  shoal_arena_init(b->plan->allocator, &scratch);
  for (int64_t g = 0; g < b->graph_count && !status; ++g)
    status = split_graph(b, &b->graphs[g], &scratch);
  shoal_arena_deinit(&scratch);
  return status;
}
