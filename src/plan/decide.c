// From choices to a decision: the layouts of a node's operands, kept once for all nodes that are
// alike.
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "op/type.h"
#include "plan/complete.h"

// Does the cut `inner` count inside chunks of `outer`'s units? Then it must be written after it: a
// unit of 64 columns cut 12 * 64 -> 12 * 32 could not be found again in what the finer cut leaves.
static bool finer(const shoal_cut_t *inner, const shoal_cut_t *outer, const shoal_shape_t *shape) {
  if (inner->kind != SHOAL_CUT_DIM || outer->kind != SHOAL_CUT_DIM || inner->dim != outer->dim)
    return false;
  if (inner->chunk_count < 2 || outer->chunk_count >= inner->chunk_count || outer->unit < 2)
    return false;
  int64_t length = shape->dims[inner->dim];
  if (inner->chunks[0].length == 0) return outer->unit % (length / inner->chunk_count) == 0;
  int64_t end = 0, due = outer->unit;  // every unit must end where a chunk does
  for (int32_t i = 0; i < inner->chunk_count && end < length; ++i) {
    end += inner->chunks[i].length;
    if (end > due && due < length) return false;
    if (end == due) due += outer->unit;
  }
  return true;
}

shoal_status_t shoal_plan_operand(const shoal_mesh_t *mesh, const shoal_choice_t *choices,
                                  int32_t operand, const shoal_shape_t *shape,
                                  shoal_layout_t *out_layout) {
  out_layout->mesh = mesh;
  out_layout->cut_count = 0;
  shoal_cut_t flats[SHOAL_PLAN_SLOTS];
  int32_t flat_count = 0;
  for (int32_t slot = 0; slot <= mesh->axis_count; ++slot) {
    const shoal_choice_t *choice = &choices[slot];
    if (!choice->way) continue;
    bool cuts = false;
    shoal_cut_t cut = {0};
    SHOAL_RETURN_IF_ERROR(shoal_way_cut(choice->way, operand, shape,
                                        slot == 0 ? SHOAL_AXIS_MICRO : slot - 1, &choice->item_cut,
                                        &cuts, &cut));
    if (!cuts) continue;
    if (cut.kind == SHOAL_CUT_FLAT) {
      flats[flat_count++] = cut;
      continue;
    }
    // In front of the first cut that is finer along the same dim; micro stays first.
    int32_t at = 0, count = out_layout->cut_count++;
    while (at < count && (out_layout->cuts[at].axis == SHOAL_AXIS_MICRO ||
                          !finer(&out_layout->cuts[at], &cut, shape)))
      ++at;
    for (int32_t i = count; i > at; --i) out_layout->cuts[i] = out_layout->cuts[i - 1];
    out_layout->cuts[at] = cut;
  }
  for (int32_t i = 0; i < flat_count; ++i) out_layout->cuts[out_layout->cut_count++] = flats[i];
  return NULL;
}

// ---- alike -----------------------------------------------------------------------------

static const shoal_type_t *operand_type(const shoal_graph_t *graph, const shoal_node_t *node,
                                        int32_t k) {
  int32_t value = k < node->input_count ? node->inputs[k] : node->outputs[k - node->input_count];
  return &graph->values.items[value].type;
}

static int32_t listed_chunks(const shoal_item_cut_t *cut) {
  bool equal = cut->chunk_count > SHOAL_MAX_CHUNKS || cut->chunks[0].length == 0;
  return equal ? 0 : cut->chunk_count;
}

static bool same_choice(const shoal_choice_t *a, const shoal_choice_t *b) {
  if (a->way != b->way) return false;
  if (!a->way) return true;
  const shoal_item_cut_t *x = &a->item_cut, *y = &b->item_cut;
  return x->unit == y->unit && x->chunk_count == y->chunk_count && x->weights == y->weights &&
         listed_chunks(x) == listed_chunks(y) &&
         memcmp(x->chunks, y->chunks, (size_t)listed_chunks(x) * sizeof *x->chunks) == 0;
}

static uint64_t hash_type(uint64_t hash, const shoal_type_t *type) {
  hash = shoal_hash_int(hash, (int64_t)type->dtype * 16 + type->shape.rank);
  return shoal_hash_bytes(hash, type->shape.dims,
                          (size_t)type->shape.rank * sizeof *type->shape.dims);
}

static uint64_t hash_decision(int32_t mesh, const shoal_choice_t *choices,
                              const shoal_graph_t *graph, const shoal_node_t *node) {
  uint64_t hash = shoal_hash_int(SHOAL_HASH_START, mesh);
  for (int32_t slot = 0; slot < SHOAL_PLAN_SLOTS; ++slot) {
    const shoal_choice_t *choice = &choices[slot];
    hash = shoal_hash_int(hash, (int64_t)(intptr_t)choice->way);
    if (!choice->way) continue;
    hash = shoal_hash_int(hash, choice->item_cut.unit * 64 + choice->item_cut.chunk_count);
  }
  for (int32_t k = 0; k < node->input_count + node->output_count; ++k) {
    hash = hash_type(hash, operand_type(graph, node, k));
  }
  return hash;
}

static bool is_alike(const shoal_decision_t *decision, int32_t mesh, const shoal_choice_t *choices,
                     const shoal_graph_t *graph, const shoal_node_t *node) {
  if (decision->mesh != mesh || decision->operand_count != node->input_count + node->output_count)
    return false;
  for (int32_t slot = 0; slot < SHOAL_PLAN_SLOTS; ++slot)
    if (!same_choice(&decision->choices[slot], &choices[slot])) return false;
  for (int32_t k = 0; k < decision->operand_count; ++k)
    if (!shoal_type_equal(&decision->types[k], operand_type(graph, node, k))) return false;
  return true;
}

// ---- decide ----------------------------------------------------------------------------

static shoal_status_t new_decision(shoal_plan_t *plan, int32_t mesh, const shoal_choice_t *choices,
                                   const shoal_graph_t *graph, const shoal_node_t *node,
                                   shoal_decision_t **out_decision) {
  int32_t count = node->input_count + node->output_count;
  shoal_decision_t *decision = SHOAL_NEW(&plan->arena, shoal_decision_t, 1);
  shoal_type_t *types = SHOAL_NEW(&plan->arena, shoal_type_t, count);
  if (!decision || !types) return SHOAL_OOM();
  *decision = (shoal_decision_t){.mesh = mesh, .operand_count = count, .types = types};
  memcpy(decision->choices, choices, sizeof decision->choices);
  decision->operands = SHOAL_NEW(&plan->arena, const shoal_layout_t *, count);
  if (!decision->operands) return SHOAL_OOM();
  for (int32_t k = 0; k < count; ++k) {
    types[k] = *operand_type(graph, node, k);
    shoal_layout_t layout = {0};
    SHOAL_RETURN_IF_ERROR(
        shoal_plan_operand(&plan->meshes[mesh], choices, k, &types[k].shape, &layout));
    SHOAL_RETURN_IF_ERROR(shoal_layout_check(&layout, &types[k].shape));
    SHOAL_RETURN_IF_ERROR(shoal_layouts_keep(&plan->layouts, &layout, &decision->operands[k]));
  }
  *out_decision = decision;
  return NULL;
}

shoal_status_t shoal_plan_decide(shoal_plan_t *plan, shoal_graph_plan_t *gp, int32_t n,
                                 const shoal_choice_t *choices) {
  const shoal_node_t *node = &gp->graph->nodes.items[n];
  int32_t mesh = gp->nodes[n].mesh;
  uint64_t hash = hash_decision(mesh, choices, gp->graph, node);
  shoal_decision_t *decision = NULL;
  for (int64_t at = -1, i; (i = shoal_index_next(&plan->decision_index, hash, &at)) >= 0;) {
    decision = plan->decisions.items[i];
    if (is_alike(decision, mesh, choices, gp->graph, node)) break;
    decision = NULL;
  }
  if (!decision) {
    SHOAL_RETURN_IF_ERROR(new_decision(plan, mesh, choices, gp->graph, node, &decision));
    if (!shoal_index_add(&plan->decision_index, hash, plan->decisions.count) ||
        !SHOAL_PUSH(&plan->arena, &plan->decisions, decision))
      return SHOAL_OOM();
  }
  gp->nodes[n].decision = decision;
  for (int32_t o = 0; o < node->output_count; ++o)
    gp->values[node->outputs[o]] = decision->operands[node->input_count + o];
  return NULL;
}
