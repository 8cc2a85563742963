// One side of a reshard: the parts of all its ranks, and the geometry of their buffers.
//
// A buffer stores what a rank holds, packed dense and row-major; with flat, the range [from, to) of
// the packed owned part (there is no halo then). In both cases element (i0, i1, ...) of the packed
// part lies at sum(i_d * stride_d) - from.
#include "layout/layout_impl.h"

shoal_status_t shoal_slot_offsets(const shoal_dim_part_t *part, shoal_arena_t *arena,
                                  const int64_t **out_offsets) {
  static const int64_t none[2];
  *out_offsets = none;
  if (part->held_count < 2) return NULL;
  int64_t *before = SHOAL_NEW(arena, int64_t, part->held_count);
  if (!before) return SHOAL_OOM();
  for (int32_t i = 1; i < part->held_count; ++i) {
    before[i] = before[i - 1] + part->held[i - 1].size;
  }
  *out_offsets = before;
  return NULL;
}

static shoal_status_t init_dim(shoal_side_t *side, int32_t dim, shoal_arena_t *arena) {
  const shoal_mesh_t *mesh = side->layout->mesh;
  int64_t slots = 1;
  for (int32_t i = 0; i < side->axis_count[dim]; ++i) slots *= mesh->axes[side->axes[dim][i]].size;
  shoal_dim_part_t *parts = SHOAL_NEW(arena, shoal_dim_part_t, slots);
  const int64_t **offsets = SHOAL_NEW(arena, const int64_t *, slots);
  if (!parts || !offsets) return SHOAL_OOM();
  int64_t coords[SHOAL_MAX_AXES] = {0};
  for (int64_t slot = 0; slot < slots; ++slot) {
    int64_t rest = slot;
    for (int32_t i = side->axis_count[dim] - 1; i >= 0; --i) {
      int32_t axis = side->axes[dim][i];
      coords[axis] = rest % mesh->axes[axis].size;
      rest /= mesh->axes[axis].size;
    }
    SHOAL_RETURN_IF_ERROR(shoal_layout_dim_part(side->layout, dim, side->shape->dims[dim], coords,
                                                side->micro, NULL, arena, &parts[slot]));
    SHOAL_RETURN_IF_ERROR(shoal_slot_offsets(&parts[slot], arena, &offsets[slot]));
  }
  side->slots[dim] = slots;
  side->parts[dim] = parts;
  side->offsets[dim] = offsets;
  return NULL;
}

shoal_status_t shoal_side_axes(const shoal_layout_t *layout, const shoal_shape_t *shape,
                               int64_t micro, shoal_side_t *out_side) {
  SHOAL_RETURN_IF_ERROR(shoal_layout_check(layout, shape));
  int64_t micros = shoal_layout_axis_size(layout->mesh, SHOAL_AXIS_MICRO);
  if (micro < -1 || micro >= micros) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "use -1 for the part over all micro-batches",
                            "there is no micro-batch %lld, the mesh has %lld", (long long)micro,
                            (long long)micros);
  }
  *out_side = (shoal_side_t){.layout = layout, .shape = shape, .micro = micro};
  for (int32_t i = 0; i < SHOAL_MAX_AXES; ++i) out_side->partial[i] = -1;
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *cut = &layout->cuts[i];
    if (cut->axis == SHOAL_AXIS_MICRO) continue;
    if (cut->kind == SHOAL_CUT_PARTIAL) {
      if (layout->mesh->axes[cut->axis].size > 1)
        out_side->partial[cut->axis] = (int32_t)cut->reduce;
      continue;
    }
    out_side->cuts[cut->axis] = true;
    if (cut->kind == SHOAL_CUT_FLAT) {
      out_side->flat = true;
      out_side->flat_axes[out_side->flat_axis_count++] = cut->axis;
    } else {
      out_side->axes[cut->dim][out_side->axis_count[cut->dim]++] = cut->axis;
    }
  }
  return NULL;
}

shoal_status_t shoal_side_init(const shoal_layout_t *layout, const shoal_shape_t *shape,
                               int64_t micro, shoal_arena_t *arena, shoal_side_t *out_side) {
  SHOAL_RETURN_IF_ERROR(shoal_side_axes(layout, shape, micro, out_side));
  for (int32_t d = 0; d < shape->rank; ++d) SHOAL_RETURN_IF_ERROR(init_dim(out_side, d, arena));
  return NULL;
}

int64_t shoal_side_slot(const shoal_side_t *side, int32_t dim, const int64_t *coords) {
  int64_t slot = 0;
  for (int32_t i = 0; i < side->axis_count[dim]; ++i) {
    int32_t axis = side->axes[dim][i];
    slot = slot * side->layout->mesh->axes[axis].size + coords[axis];
  }
  return slot;
}

void shoal_side_part_shape(const shoal_side_t *side, shoal_side_part_t *part) {
  int64_t held = 1, owned = 1;
  for (int32_t d = side->shape->rank - 1; d >= 0; --d) {
    part->stride[d] = held;
    held *= part->dims[d]->held_size;
    owned *= part->dims[d]->own_size;
  }
  part->from = 0;
  part->to = held;
  part->owned = owned;
  part->halo = held != owned;
}

static void cut_flat(const shoal_side_t *side, const int64_t *coords, shoal_deals_t *deals,
                     shoal_side_part_t *part) {
  if (!side->flat) return;
  shoal_layout_flat_range(side->layout, coords, part->owned, deals, &part->from, &part->to);
  part->owned = part->to - part->from;
}

void shoal_side_part(const shoal_side_t *side, const int64_t *coords, shoal_side_part_t *out_part) {
  shoal_side_part_t part = {0};
  for (int32_t d = side->shape->rank - 1; d >= 0; --d) {
    int64_t slot = shoal_side_slot(side, d, coords);
    part.dims[d] = &side->parts[d][slot];
    part.offsets[d] = side->offsets[d][slot];
  }
  shoal_side_part_shape(side, &part);
  cut_flat(side, coords, NULL, &part);
  *out_part = part;
}

shoal_status_t shoal_side_part_at(const shoal_side_t *side, const int64_t *coords,
                                  shoal_deals_t *deals, shoal_arena_t *arena,
                                  shoal_side_part_t *out_part) {
  shoal_side_part_t part = {0};
  shoal_dim_part_t *dims = SHOAL_NEW(arena, shoal_dim_part_t, side->shape->rank);
  if (!dims) return SHOAL_OOM();
  for (int32_t d = 0; d < side->shape->rank; ++d) {
    SHOAL_RETURN_IF_ERROR(shoal_layout_dim_part(side->layout, d, side->shape->dims[d], coords,
                                                side->micro, deals, arena, &dims[d]));
    SHOAL_RETURN_IF_ERROR(shoal_slot_offsets(&dims[d], arena, &part.offsets[d]));
    part.dims[d] = &dims[d];
  }
  shoal_side_part_shape(side, &part);
  cut_flat(side, coords, deals, &part);
  *out_part = part;
  return deals && deals->failed ? SHOAL_OOM() : NULL;
}

shoal_status_t shoal_side_products(const shoal_side_t *side, const shoal_side_part_t *part,
                                   bool held, shoal_arena_t *arena, shoal_products_t *out) {
  shoal_product_t product = {0};
  for (int32_t d = 0; d < side->shape->rank; ++d) {
    const shoal_dim_part_t *dim = part->dims[d];
    product.dims[d] = held ? (shoal_spans_t){dim->held, dim->held_count}
                           : (shoal_spans_t){dim->own, dim->own_count};
    if (product.dims[d].count == 0) return NULL;
  }
  if (side->flat) {
    return shoal_product_range(side->shape->rank, &product, part->from, part->to, arena, out);
  }
  return SHOAL_PUSH(arena, out, product) ? NULL : SHOAL_OOM();
}

// ---- blocks ----------------------------------------------------------------------------

// A stretch of one dim that is contiguous in both buffers.
typedef struct run {
  int64_t src, dst, size;
} run_t;

int64_t shoal_side_local(const shoal_side_part_t *part, int32_t dim, int64_t global) {
  const shoal_dim_part_t *held = part->dims[dim];
  int64_t low = 0, high = held->held_count;  // the last interval that starts at or before global
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (held->held[middle].start <= global)
      low = middle;
    else
      high = middle;
  }
  return part->offsets[dim][low] + global - held->held[low].start;
}

static int64_t make_runs(shoal_spans_t spans, const shoal_side_part_t *src,
                         const shoal_side_part_t *dst, int32_t dim, run_t *runs) {
  int64_t count = 0;
  for (int64_t i = 0; i < spans.count; ++i) {
    run_t run = {shoal_side_local(src, dim, spans.items[i].start),
                 shoal_side_local(dst, dim, spans.items[i].start), spans.items[i].size};
    run_t *last = count ? &runs[count - 1] : NULL;
    if (last && last->src + last->size == run.src && last->dst + last->size == run.dst) {
      last->size += run.size;
    } else {
      runs[count++] = run;
    }
  }
  return count;
}

// Appends dim (size, strides) to a block; dims that continue the one outside them are folded into
// it.
static void piece_add_dim(shoal_piece_t *piece, int64_t size, int64_t src_stride,
                          int64_t dst_stride) {
  if (size == 1) return;
  int32_t r = piece->rank;
  if (r && piece->src_stride[r - 1] == size * src_stride &&
      piece->dst_stride[r - 1] == size * dst_stride) {
    --r;
    size *= piece->size[r];
  }
  piece->size[r] = size;
  piece->src_stride[r] = src_stride;
  piece->dst_stride[r] = dst_stride;
  piece->rank = r + 1;
}

static bool is_dense(const shoal_piece_t *piece) {
  return piece->rank == 1 && piece->src_stride[0] == 1 && piece->dst_stride[0] == 1;
}

static bool push_piece(shoal_arena_t *arena, shoal_pieces_t *pieces, shoal_piece_t *piece) {
  if (piece->rank == 0) {
    piece->rank = 1;
    piece->size[0] = piece->src_stride[0] = piece->dst_stride[0] = 1;
  }
  shoal_piece_t *last = pieces->count ? &pieces->items[pieces->count - 1] : NULL;
  if (last && is_dense(last) && is_dense(piece) &&
      last->src_offset + last->size[0] == piece->src_offset &&
      last->dst_offset + last->size[0] == piece->dst_offset) {
    last->size[0] += piece->size[0];
    return true;
  }
  return SHOAL_PUSH(arena, pieces, *piece);
}

shoal_status_t shoal_pieces_add(int32_t rank, const shoal_side_part_t *src,
                                const shoal_side_part_t *dst, const shoal_product_t *product,
                                shoal_arena_t *arena, shoal_pieces_t *pieces) {
  run_t *runs[SHOAL_MAX_RANK], inline_runs[SHOAL_MAX_RANK];
  int64_t counts[SHOAL_MAX_RANK], at[SHOAL_MAX_RANK] = {0};
  for (int32_t d = 0; d < rank; ++d) {
    shoal_spans_t spans = product->dims[d];
    runs[d] = spans.count == 1 ? &inline_runs[d] : SHOAL_NEW(arena, run_t, spans.count);
    if (!runs[d]) return SHOAL_OOM();
    counts[d] = make_runs(spans, src, dst, d, runs[d]);
  }
  for (;;) {  // one block per choice of runs, row-major
    shoal_piece_t piece = {.src_offset = -src->from, .dst_offset = -dst->from};
    for (int32_t d = 0; d < rank; ++d) {
      const run_t *run = &runs[d][at[d]];
      piece.src_offset += run->src * src->stride[d];
      piece.dst_offset += run->dst * dst->stride[d];
      piece_add_dim(&piece, run->size, src->stride[d], dst->stride[d]);
    }
    if (!push_piece(arena, pieces, &piece)) return SHOAL_OOM();
    int32_t d = rank - 1;
    while (d >= 0 && ++at[d] == counts[d]) at[d--] = 0;
    if (d < 0) return NULL;
  }
}
