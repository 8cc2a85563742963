// From two holdings to the links of one rank.
//
// Two layouts: shoal_links_of_rank says who sends what to whom. Otherwise - a list of boxes on one
// side, or `refresh` - each destination part takes what it holds from, in this order: the same rank
// (all it holds; with `refresh` what it owns), owners of the same replica, other owners, in the
// order of the source's list. Every rank goes through all parts, so that what is wrong is wrong
// everywhere.
#include "base/dtype.h"
#include "base/hash.h"
#include "base/status.h"
#include "layout/layout_impl.h"
#include "primitive/primitive_impl.h"

typedef struct entry {  // a rank's part
  int32_t rank, replica;
  shoal_boxes_t boxes;
  shoal_side_part_t part;
  shoal_products_t own, held;
} entry_t;

typedef struct side {
  const shoal_holding_t *holding;
  int64_t count;
  entry_t *entries;
} side_t;

// ---- entries --------------------------------------------------------------------------

static shoal_status_t entry_geometry(entry_t *entry, shoal_arena_t *arena) {
  const int32_t rank = entry->boxes.whole.rank;
  shoal_side_part_t *part = &entry->part;
  int64_t held = 1, owned = 1;
  for (int32_t d = rank - 1; d >= 0; --d) {
    const shoal_dim_part_t *dim = &entry->boxes.dims[d];
    int64_t *before = SHOAL_NEW(arena, int64_t, dim->held_count + 1);
    if (!before) return SHOAL_OOM();
    for (int32_t i = 0; i < dim->held_count; ++i) before[i + 1] = before[i] + dim->held[i].size;
    part->dims[d] = dim;
    part->offsets[d] = before;
    part->stride[d] = held;
    held *= dim->held_size;
    owned *= dim->own_size;
  }
  part->from = entry->boxes.flat ? entry->boxes.from : 0;
  part->to = entry->boxes.flat ? entry->boxes.to : held;
  part->owned = entry->boxes.flat ? part->to - part->from : owned;
  shoal_side_t side = {.shape = &entry->boxes.whole, .flat = entry->boxes.flat};
  SHOAL_RETURN_IF_ERROR(shoal_side_products(&side, part, false, arena, &entry->own));
  return shoal_side_products(&side, part, true, arena, &entry->held);
}

static shoal_status_t box_boxes(const shoal_shape_t *shape, const shoal_part_t *part,
                                shoal_arena_t *arena, shoal_boxes_t *out_boxes) {
  shoal_boxes_t boxes = {.whole = *shape};
  shoal_interval_t *intervals = SHOAL_NEW(arena, shoal_interval_t, 2 * shape->rank);
  if (!intervals) return SHOAL_OOM();
  bool empty = false;  // then own may lie anywhere
  for (int32_t d = 0; d < shape->rank; ++d) empty |= part->own.size[d] == 0;
  for (int32_t d = 0; d < shape->rank; ++d) {
    const shoal_interval_t held = {part->held.start[d], part->held.size[d]};
    const shoal_interval_t own = {part->own.start[d], empty ? 0 : part->own.size[d]};
    if (held.start < 0 || held.size < 0 || held.start > shape->dims[d] - held.size) {
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "padding is not part of a value",
                              "rank %d holds [%lld, %lld) of dim %d, which has length %lld",
                              part->rank, (long long)held.start,
                              (long long)(held.start + held.size), d, (long long)shape->dims[d]);
    }
    if (own.size < 0 || (own.size > 0 && (own.start < held.start ||
                                          own.start - held.start > held.size - own.size))) {
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "`held` covers `own`",
                              "rank %d owns [%lld, %lld) of dim %d, but holds [%lld, %lld)",
                              part->rank, (long long)own.start, (long long)(own.start + own.size),
                              d, (long long)held.start, (long long)(held.start + held.size));
    }
    intervals[2 * d] = own;
    intervals[2 * d + 1] = held;
    boxes.dims[d] = (shoal_dim_part_t){.own_count = own.size > 0,
                                       .held_count = held.size > 0,
                                       .own = &intervals[2 * d],
                                       .held = &intervals[2 * d + 1],
                                       .own_size = own.size,
                                       .held_size = held.size};
  }
  *out_boxes = boxes;
  return NULL;
}

int32_t shoal_holdings_replica(const shoal_layout_t *layout, int64_t position) {
  bool cut[SHOAL_MAX_AXES] = {0};
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    if (layout->cuts[i].axis >= 0) cut[layout->cuts[i].axis] = true;
  }
  int64_t coords[SHOAL_MAX_AXES], replica = 0;
  shoal_mesh_coords(layout->mesh, position, coords);
  for (int32_t i = 0; i < layout->mesh->axis_count; ++i) {
    if (!cut[i]) replica = replica * layout->mesh->axes[i].size + coords[i];
  }
  return (int32_t)replica;
}

static shoal_status_t make_side(const shoal_holding_t *holding, const shoal_shape_t *shape,
                                shoal_arena_t *arena, side_t *out_side) {
  const shoal_layout_t *layout = holding->layout;
  side_t side = {.holding = holding,
                 .count = layout ? shoal_mesh_size(layout->mesh) : holding->part_count};
  if (layout && shoal_layout_is_partial(layout)) {
    return SHOAL_ERROR_HINT(UNSUPPORTED, "give layouts on both sides, without refresh",
                            "a partial layout cannot be joined with a list of boxes");
  }
  side.entries = SHOAL_NEW(arena, entry_t, side.count);
  if (!side.entries) return SHOAL_OOM();
  for (int64_t i = 0; i < side.count; ++i) {
    entry_t *entry = &side.entries[i];
    if (layout) {
      entry->rank = shoal_mesh_rank(layout->mesh, i);
      entry->replica = shoal_holdings_replica(layout, i);
      SHOAL_RETURN_IF_ERROR(
          shoal_layout_boxes(layout, shape, i, holding->micro, arena, &entry->boxes));
    } else {
      entry->rank = holding->parts[i].rank;
      entry->replica = holding->parts[i].replica;
      SHOAL_RETURN_IF_ERROR(box_boxes(shape, &holding->parts[i], arena, &entry->boxes));
    }
    SHOAL_RETURN_IF_ERROR(entry_geometry(entry, arena));
  }
  *out_side = side;
  return NULL;
}

static entry_t *find_entry(const side_t *side, int32_t rank) {
  for (int64_t i = 0; i < side->count; ++i) {
    if (side->entries[i].rank == rank) return &side->entries[i];
  }
  return NULL;
}

// ---- boxes ----------------------------------------------------------------------------

typedef SHOAL_VEC(shoal_link_t) link_list_t;

typedef struct taking {  // one destination part
  const entry_t *to;
  int32_t me, dims;
  shoal_products_t need;  // still
  link_list_t *links;
  shoal_arena_t *scratch, *arena;
} taking_t;

static shoal_status_t take(taking_t *taking, const entry_t *from, const shoal_products_t *have) {
  shoal_products_t shared = {0}, left = taking->need;
  for (int64_t i = 0; i < taking->need.count; ++i) {
    for (int64_t j = 0; j < have->count; ++j) {
      SHOAL_RETURN_IF_ERROR(shoal_product_intersect(taking->dims, &taking->need.items[i],
                                                    &have->items[j], taking->scratch, &shared));
    }
  }
  if (shared.count == 0) return NULL;
  for (int64_t j = 0; j < have->count; ++j) {
    shoal_products_t next = {0};
    for (int64_t i = 0; i < left.count; ++i) {
      SHOAL_RETURN_IF_ERROR(shoal_product_subtract(taking->dims, &left.items[i], &have->items[j],
                                                   taking->scratch, &next));
    }
    left = next;
  }
  taking->need = left;
  if (from->rank != taking->me && taking->to->rank != taking->me) return NULL;
  shoal_pieces_t pieces = {0};
  for (int64_t i = 0; i < shared.count; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_pieces_add(taking->dims, &from->part, &taking->to->part,
                                           &shared.items[i], taking->arena, &pieces));
  }
  shoal_link_t link = {.from = from->rank,
                       .to = taking->to->rank,
                       .piece_count = pieces.count,
                       .pieces = pieces.items};
  for (int64_t i = 0; i < pieces.count; ++i) link.count += shoal_piece_count(&pieces.items[i]);
  return SHOAL_PUSH(taking->arena, taking->links, link) ? NULL : SHOAL_OOM();
}

static shoal_status_t take_all(taking_t *taking, const side_t *src, bool refresh) {
  const entry_t *to = taking->to, *self = find_entry(src, to->rank);
  taking->need = to->held;
  if (self) SHOAL_RETURN_IF_ERROR(take(taking, self, refresh ? &self->own : &self->held));
  for (int replica = 1; replica >= 0; --replica) {
    for (int64_t i = 0; i < src->count && taking->need.count; ++i) {
      const entry_t *from = &src->entries[i];
      if (from == self || (from->replica == to->replica) != (replica == 1)) continue;
      SHOAL_RETURN_IF_ERROR(take(taking, from, &from->own));
    }
  }
  if (taking->need.count == 0) return NULL;
  shoal_shape_t first = {.rank = taking->dims};
  for (int32_t d = 0; d < taking->dims; ++d) {
    first.dims[d] = taking->need.items[0].dims[d].items[0].start;
  }
  char index[256];
  shoal_shape_format(&first, index, sizeof index);
  return SHOAL_ERROR_HINT(MISMATCH, "every element that is held is owned by a part of the source",
                          "no part of the source owns element %s, which rank %d holds in the "
                          "destination",
                          index, to->rank);
}

static shoal_status_t link_boxes(const shoal_shape_t *shape, const shoal_holding_t *src,
                                 const shoal_holding_t *dst, bool refresh, int32_t rank,
                                 shoal_arena_t *arena, shoal_holdings_t *out) {
  side_t from, to;
  link_list_t links = {0};
  SHOAL_RETURN_IF_ERROR(make_side(src, shape, arena, &from));
  SHOAL_RETURN_IF_ERROR(make_side(dst, shape, arena, &to));
  for (int64_t i = 0; i < to.count; ++i) {
    shoal_arena_t scratch;
    shoal_arena_init(arena->allocator, &scratch);
    taking_t taking = {.to = &to.entries[i], .me = rank, .dims = shape->rank, .links = &links};
    taking.scratch = &scratch;
    taking.arena = arena;
    shoal_status_t status = take_all(&taking, &from, refresh);
    shoal_arena_deinit(&scratch);
    if (status) return status;
  }
  const entry_t *mine = find_entry(&from, rank);
  out->has_src = mine != NULL;
  if (mine) out->src = mine->boxes;
  mine = find_entry(&to, rank);
  out->has_dst = mine != NULL;
  if (mine) out->dst = mine->boxes;
  out->links = (shoal_links_t){.count = links.count,
                               .items = links.items,
                               .kind = SHOAL_RESHARD_BETWEEN,
                               .reduce = SHOAL_REDUCE_SUM,
                               .own_first = true};
  out->refresh = refresh;
  return NULL;
}

// ---- layouts --------------------------------------------------------------------------

static shoal_status_t link_layouts(const shoal_shape_t *shape, const shoal_holding_t *src,
                                   const shoal_holding_t *dst, int32_t rank, shoal_arena_t *arena,
                                   shoal_holdings_t *out) {
  const shoal_layout_t *from = src->layout, *to = dst->layout;
  SHOAL_RETURN_IF_ERROR(
      shoal_links_of_rank(from, src->micro, to, dst->micro, shape, rank, arena, &out->links));
  const int64_t at = shoal_mesh_position(from->mesh, rank);
  const int64_t there = shoal_mesh_position(to->mesh, rank);
  out->has_src = at >= 0;
  out->has_dst = there >= 0;
  if (at >= 0) {
    SHOAL_RETURN_IF_ERROR(shoal_layout_boxes(from, shape, at, src->micro, arena, &out->src));
  }
  if (there >= 0) {
    SHOAL_RETURN_IF_ERROR(shoal_layout_boxes(to, shape, there, dst->micro, arena, &out->dst));
  }
  return NULL;
}

// ---- all together ---------------------------------------------------------------------

static shoal_status_t check_holding(const shoal_holding_t *holding, const char *name) {
  if (holding->layout) return NULL;
  if (holding->part_count < 0 || (holding->part_count > 0 && !holding->parts)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "the %s has neither a layout nor parts", name);
  }
  for (int64_t i = 0; i < holding->part_count; ++i) {
    for (int64_t j = 0; j < i; ++j) {
      if (holding->parts[i].rank != holding->parts[j].rank) continue;
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "a rank has one part", "rank %d is twice in the %s",
                              holding->parts[i].rank, name);
    }
  }
  return NULL;
}

static shoal_status_t hash_holding(const shoal_holding_t *holding, int32_t dims,
                                   shoal_arena_t *arena, uint64_t *hash) {
  const shoal_layout_t *layout = holding->layout;
  if (layout) {
    const char *text;
    SHOAL_RETURN_IF_ERROR(shoal_layout_print(layout, arena, &text));
    *hash = shoal_hash_string(*hash, text);
    SHOAL_RETURN_IF_ERROR(shoal_mesh_print(layout->mesh, arena, &text));
    *hash = shoal_hash_int(shoal_hash_string(*hash, text), holding->micro);
    return NULL;
  }
  for (int64_t i = 0; i < holding->part_count; ++i) {
    const shoal_part_t *part = &holding->parts[i];
    *hash = shoal_hash_int(shoal_hash_int(*hash, part->rank), part->replica);
    for (int32_t d = 0; d < dims; ++d) {
      *hash = shoal_hash_int(shoal_hash_int(*hash, part->own.start[d]), part->own.size[d]);
      *hash = shoal_hash_int(shoal_hash_int(*hash, part->held.start[d]), part->held.size[d]);
    }
  }
  return NULL;
}

shoal_status_t shoal_holdings_plan(shoal_dtype_t dtype, const shoal_shape_t *shape,
                                   const shoal_holding_t *src, const shoal_holding_t *dst,
                                   bool refresh, int32_t rank, shoal_arena_t *arena,
                                   shoal_holdings_t *out_holdings) {
  shoal_holdings_t both = {.hash = SHOAL_HASH_START};
  SHOAL_RETURN_IF_ERROR(check_holding(src, "source"));
  SHOAL_RETURN_IF_ERROR(check_holding(dst, "destination"));
  both.hash = shoal_hash_int(shoal_hash_int(both.hash, dtype), refresh);
  for (int32_t d = 0; d < shape->rank; ++d) both.hash = shoal_hash_int(both.hash, shape->dims[d]);
  SHOAL_RETURN_IF_ERROR(hash_holding(src, shape->rank, arena, &both.hash));
  SHOAL_RETURN_IF_ERROR(hash_holding(dst, shape->rank, arena, &both.hash));
  if (src->layout && dst->layout && !refresh) {
    SHOAL_RETURN_IF_ERROR(link_layouts(shape, src, dst, rank, arena, &both));
  } else {
    SHOAL_RETURN_IF_ERROR(link_boxes(shape, src, dst, refresh, rank, arena, &both));
  }
  *out_holdings = both;
  return NULL;
}
