// Reshard: which elements move between which ranks to get from one layout to another.
//
// Source axes play one of four parts. *Joined*: partial there and not kept by the destination; one
// contribution comes from each coordinate. *Kept*: partial on both sides with the same reduction,
// name and size; a destination takes from its own coordinate. *Cutting*: the owner's coordinate
// follows from the element. *Replicating*: a destination takes its own coordinate if its rank is on
// the source's mesh, else that of an axis of the same name and size, else the digits of its
// position, so that replicas share the load. The owner of an element for a given destination and
// joined coordinates is thus one rank.
//
// Partials along micro are joined in time, by accumulation, not here.
#include <stdlib.h>

#include "base/dtype.h"
#include "layout/layout_impl.h"
#include "layout/reduce.h"

typedef struct plan {
  shoal_side_t src, dst;
  const shoal_mesh_t *src_mesh, *dst_mesh;
  shoal_arena_t *out;   // what the caller keeps
  shoal_arena_t *keep;  // lives as long as the planning
  int32_t rank;
  bool joined[SHOAL_MAX_AXES];  // by source axis
  int32_t
      twin[SHOAL_MAX_AXES];  // by source axis: the destination's axis of that name and size, or -1
  bool spread[SHOAL_MAX_AXES];  // by destination axis: partial here only; coordinate 0 gets the
                                // value
  int64_t joins;                // contributions per element
  const shoal_spans_t
      *hits[SHOAL_MAX_RANK];  // [destination's slot]: source slots as intervals of size 1
  SHOAL_VEC(shoal_transfer_t) transfers;
} plan_t;

// ---- what the axes do ------------------------------------------------------------------

static shoal_status_t one_reduction(int32_t *seen, int32_t reduce) {
  if (*seen >= 0 && *seen != reduce) {
    return SHOAL_ERROR_HINT(UNSUPPORTED, "go through a layout in between: one reduction at a time",
                            "a reshard cannot join partial(%s) and partial(%s) at once",
                            shoal_reduce_name((shoal_reduce_t)*seen),
                            shoal_reduce_name((shoal_reduce_t)reduce));
  }
  *seen = reduce;
  return NULL;
}

static shoal_status_t assign_axes(plan_t *plan, shoal_reshard_t *reshard) {
  const shoal_mesh_t *sm = plan->src_mesh, *dm = plan->dst_mesh;
  bool kept[SHOAL_MAX_AXES] = {0};
  int32_t reduce = -1;
  plan->joins = 1;
  for (int32_t i = 0; i < sm->axis_count; ++i) {
    int32_t twin = shoal_mesh_axis(dm, sm->axes[i].name);
    if (twin >= 0 && dm->axes[twin].size != sm->axes[i].size) twin = -1;
    plan->twin[i] = twin;
    if (plan->src.partial[i] < 0) continue;
    if (twin >= 0 && plan->dst.partial[twin] == plan->src.partial[i]) {
      kept[twin] = true;
      continue;
    }
    plan->joined[i] = true;
    plan->joins *= sm->axes[i].size;
    SHOAL_RETURN_IF_ERROR(one_reduction(&reduce, plan->src.partial[i]));
  }
  reshard->reduces = plan->joins > 1;
  for (int32_t i = 0; i < dm->axis_count; ++i) {
    if (plan->dst.partial[i] < 0 || kept[i]) continue;
    plan->spread[i] = true;
    SHOAL_RETURN_IF_ERROR(one_reduction(&reduce, plan->dst.partial[i]));
  }
  reshard->reduce = reduce >= 0 ? (shoal_reduce_t)reduce : SHOAL_REDUCE_SUM;
  return NULL;
}

static bool is_micro_partial(const shoal_layout_t *layout) {
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *cut = &layout->cuts[i];
    if (cut->kind == SHOAL_CUT_PARTIAL && cut->axis == SHOAL_AXIS_MICRO) return true;
  }
  return false;
}

// ---- which slots of the source a destination's slot needs ------------------------------

typedef struct owner {
  int64_t start, end, slot;
} owner_t;

static int compare_owners(const void *a, const void *b) {
  const owner_t *x = a, *y = b;
  return (x->start > y->start) - (x->start < y->start);
}

static int compare_spans(const void *a, const void *b) {
  const shoal_interval_t *x = a, *y = b;
  return (x->start > y->start) - (x->start < y->start);
}

// Owned intervals of different slots are disjoint, so sorting them makes the search a bisection.
static shoal_status_t find_hits(plan_t *plan, int32_t dim) {
  const shoal_side_t *src = &plan->src, *dst = &plan->dst;
  int64_t owners = 0;
  for (int64_t s = 0; s < src->slots[dim]; ++s) owners += src->parts[dim][s].own_count;
  owner_t *owner = SHOAL_NEW(plan->keep, owner_t, owners);
  int64_t *stamp = SHOAL_NEW(plan->keep, int64_t, src->slots[dim]);  // last destination slot + 1
  shoal_spans_t *hits = SHOAL_NEW(plan->keep, shoal_spans_t, dst->slots[dim]);
  if (!owner || !stamp || !hits) return SHOAL_OOM();
  int64_t count = 0;
  for (int64_t s = 0; s < src->slots[dim]; ++s) {
    const shoal_dim_part_t *part = &src->parts[dim][s];
    for (int32_t i = 0; i < part->own_count; ++i) {
      owner[count++] = (owner_t){part->own[i].start, part->own[i].start + part->own[i].size, s};
    }
  }
  qsort(owner, (size_t)count, sizeof *owner, compare_owners);
  for (int64_t slot = 0; slot < dst->slots[dim]; ++slot) {
    const shoal_dim_part_t *part = &dst->parts[dim][slot];
    SHOAL_VEC(shoal_interval_t) found = {0};
    for (int32_t i = 0; i < part->held_count; ++i) {
      int64_t start = part->held[i].start, end = start + part->held[i].size, low = 0, high = count;
      while (low < high) {  // the first owner that ends behind start
        int64_t middle = low + (high - low) / 2;
        if (owner[middle].end <= start)
          low = middle + 1;
        else
          high = middle;
      }
      for (; low < count && owner[low].start < end; ++low) {
        if (stamp[owner[low].slot] == slot + 1) continue;
        stamp[owner[low].slot] = slot + 1;
        if (!SHOAL_PUSH(plan->keep, &found, ((shoal_interval_t){owner[low].slot, 1}))) {
          return SHOAL_OOM();
        }
      }
    }
    if (found.count) qsort(found.items, (size_t)found.count, sizeof *found.items, compare_spans);
    hits[slot] = (shoal_spans_t){found.items, found.count};
  }
  plan->hits[dim] = hits;
  return NULL;
}

// ---- one destination -------------------------------------------------------------------

typedef struct destination {
  int64_t position;
  int64_t coords[SHOAL_MAX_AXES];
  shoal_side_part_t part;
  shoal_products_t need;           // what it holds
  int64_t self;                    // its rank's position on the source's mesh, or -1
  int64_t source[SHOAL_MAX_AXES];  // source coordinates, but for cutting and joined axes
  shoal_products_t covered;        // of the current joined coordinates, for the message
  shoal_arena_t *scratch;
} destination_t;

static void choose_replicas(const plan_t *plan, destination_t *to) {
  const shoal_mesh_t *sm = plan->src_mesh;
  int64_t own[SHOAL_MAX_AXES] = {0}, digits = to->position;
  if (to->self >= 0) shoal_mesh_coords(sm, to->self, own);
  for (int32_t i = sm->axis_count - 1; i >= 0; --i) {
    to->source[i] = 0;
    if (plan->joined[i] || plan->src.cuts[i]) continue;
    bool kept = plan->src.partial[i] >= 0;
    if (to->self >= 0 && !kept) {
      to->source[i] = own[i];
    } else if (plan->twin[i] >= 0) {
      to->source[i] = to->coords[plan->twin[i]];
    } else {
      to->source[i] = digits % sm->axes[i].size;
      digits /= sm->axes[i].size;
    }
  }
}

// Adds the transfer of what `have` and `need` share from the rank at `coords` of the source.
static shoal_status_t add_transfer(plan_t *plan, destination_t *to, const int64_t *coords,
                                   const shoal_side_part_t *part, const shoal_products_t *have,
                                   const shoal_products_t *need, int64_t *total) {
  shoal_arena_t *scratch = to->scratch;
  shoal_products_t shared = {0};
  for (int64_t i = 0; i < need->count; ++i) {
    for (int64_t j = 0; j < have->count; ++j) {
      SHOAL_RETURN_IF_ERROR(
          shoal_product_intersect(plan->rank, &need->items[i], &have->items[j], scratch, &shared));
    }
  }
  if (shared.count == 0) return NULL;
  shoal_pieces_t pieces = {0};
  for (int64_t i = 0; i < shared.count; ++i) {
    SHOAL_RETURN_IF_ERROR(
        shoal_pieces_add(plan->rank, part, &to->part, &shared.items[i], scratch, &pieces));
    if (!SHOAL_PUSH(scratch, &to->covered, shared.items[i])) return SHOAL_OOM();
  }
  shoal_transfer_t transfer = {
      .src = shoal_mesh_at(plan->src_mesh, coords),
      .dst = to->position,
      .piece_count = pieces.count,
      .pieces =
          shoal_arena_copy(plan->out, pieces.items, (size_t)pieces.count, sizeof *pieces.items),
  };
  if (!transfer.pieces) return SHOAL_OOM();
  for (int64_t i = 0; i < pieces.count; ++i) {
    int64_t count = 1;
    for (int32_t d = 0; d < pieces.items[i].rank; ++d) count *= pieces.items[i].size[d];
    transfer.count += count;
  }
  *total += transfer.count;
  return SHOAL_PUSH(plan->keep, &plan->transfers, transfer) ? NULL : SHOAL_OOM();
}

static bool same_packing(int32_t rank, const shoal_side_part_t *a, const shoal_side_part_t *b) {
  for (int32_t d = 0; d < rank; ++d) {
    const shoal_dim_part_t *x = a->dims[d], *y = b->dims[d];
    if (x->own_count != y->own_count) return false;
    for (int32_t i = 0; i < x->own_count; ++i) {
      if (x->own[i].start != y->own[i].start || x->own[i].size != y->own[i].size) return false;
    }
  }
  return true;
}

// The source rank at `coords`: what it owns of `need`.
static shoal_status_t try_owner(plan_t *plan, destination_t *to, const int64_t *coords,
                                const shoal_products_t *need, int64_t *total) {
  shoal_side_part_t part;
  shoal_side_part(&plan->src, coords, &part);
  if (part.owned == 0) return NULL;
  if (plan->src.flat && plan->dst.flat && (part.to <= to->part.from || to->part.to <= part.from) &&
      same_packing(plan->rank, &part, &to->part)) {
    return NULL;  // both are ranges of the same elements: most pairs end here
  }
  shoal_products_t have = {0};
  SHOAL_RETURN_IF_ERROR(shoal_side_products(&plan->src, &part, false, to->scratch, &have));
  return add_transfer(plan, to, coords, &part, &have, need, total);
}

// All ranks that own a part of `need`, for given coordinates along all but the cutting axes.
static shoal_status_t try_owners(plan_t *plan, destination_t *to, int64_t *coords,
                                 const shoal_products_t *need, int64_t *total) {
  const shoal_side_t *src = &plan->src;
  shoal_spans_t hits[SHOAL_MAX_RANK];
  int64_t at[SHOAL_MAX_RANK] = {0}, flats = 1;
  for (int32_t d = 0; d < plan->rank; ++d) {
    hits[d] = plan->hits[d][shoal_side_slot(&plan->dst, d, to->coords)];
    if (hits[d].count == 0) return NULL;
  }
  for (int32_t i = 0; i < src->flat_axis_count; ++i) {
    flats *= plan->src_mesh->axes[src->flat_axes[i]].size;
  }
  for (;;) {
    for (int32_t d = 0; d < plan->rank; ++d) {
      int64_t slot = hits[d].items[at[d]].start;
      for (int32_t i = src->axis_count[d] - 1; i >= 0; --i) {
        int32_t axis = src->axes[d][i];
        coords[axis] = slot % plan->src_mesh->axes[axis].size;
        slot /= plan->src_mesh->axes[axis].size;
      }
    }
    for (int64_t flat = 0; flat < flats; ++flat) {
      int64_t rest = flat;
      for (int32_t i = src->flat_axis_count - 1; i >= 0; --i) {
        int32_t axis = src->flat_axes[i];
        coords[axis] = rest % plan->src_mesh->axes[axis].size;
        rest /= plan->src_mesh->axes[axis].size;
      }
      SHOAL_RETURN_IF_ERROR(try_owner(plan, to, coords, need, total));
    }
    int32_t d = plan->rank - 1;
    while (d >= 0 && ++at[d] == hits[d].count) at[d--] = 0;
    if (d < 0) return NULL;
  }
}

static shoal_status_t nobody_owns(const plan_t *plan, destination_t *to) {
  shoal_products_t left = to->need;
  for (int64_t i = 0; i < to->covered.count; ++i) {
    shoal_products_t next = {0};
    for (int64_t j = 0; j < left.count; ++j) {
      SHOAL_RETURN_IF_ERROR(shoal_product_subtract(plan->rank, &left.items[j],
                                                   &to->covered.items[i], to->scratch, &next));
    }
    left = next;
  }
  if (left.count == 0) return SHOAL_ERROR(INTERNAL, "an element was sent twice in a reshard");
  shoal_shape_t first = {.rank = plan->rank};
  for (int64_t i = 0; i < left.count; ++i) {
    bool earlier = i == 0;
    for (int32_t d = 0; d < plan->rank && i; ++d) {
      int64_t start = left.items[i].dims[d].items[0].start;
      if (start == first.dims[d]) continue;
      earlier = start < first.dims[d];
      break;
    }
    for (int32_t d = 0; d < plan->rank && earlier; ++d) {
      first.dims[d] = left.items[i].dims[d].items[0].start;
    }
  }
  char index[256];
  shoal_shape_format(&first, index, sizeof index);
  return SHOAL_ERROR_HINT(MISMATCH,
                          "the source layout trims it, or is one micro-batch of it: reshard from a "
                          "layout that owns every element",
                          "no rank of the source owns element %s, which position %lld of the "
                          "destination needs",
                          index, (long long)to->position);
}

static int compare_sources(const void *a, const void *b) {
  const shoal_transfer_t *x = a, *y = b;
  return (x->src > y->src) - (x->src < y->src);
}

// The contributions from one set of joined coordinates, which `coords` has.
static shoal_status_t plan_join(plan_t *plan, destination_t *to, int64_t *coords) {
  int64_t needed = to->part.to - to->part.from, total = 0, before = plan->transfers.count;
  shoal_products_t need = to->need;
  to->covered.count = 0;
  if (to->self >= 0) {
    // The rank takes what it holds itself; that only needs care where it holds more than it owns.
    int64_t own[SHOAL_MAX_AXES];
    shoal_mesh_coords(plan->src_mesh, to->self, own);
    bool mine = true;
    for (int32_t i = 0; i < plan->src_mesh->axis_count; ++i) {
      if (!plan->src.cuts[i]) mine = mine && own[i] == coords[i];
    }
    shoal_side_part_t part;
    shoal_side_part(&plan->src, own, &part);
    if (mine && part.halo) {
      shoal_products_t held = {0};
      SHOAL_RETURN_IF_ERROR(shoal_side_products(&plan->src, &part, true, to->scratch, &held));
      SHOAL_RETURN_IF_ERROR(add_transfer(plan, to, own, &part, &held, &to->need, &total));
      need = (shoal_products_t){0};
      for (int64_t i = 0; i < to->need.count; ++i) {  // with a halo nothing is flat: one product
        SHOAL_RETURN_IF_ERROR(shoal_product_subtract(plan->rank, &to->need.items[i], &held.items[0],
                                                     to->scratch, &need));
      }
    }
  }
  SHOAL_RETURN_IF_ERROR(try_owners(plan, to, coords, &need, &total));
  if (total != needed) return nobody_owns(plan, to);
  int64_t added = plan->transfers.count - before;
  if (added > 1) {
    qsort(plan->transfers.items + before, (size_t)added, sizeof *plan->transfers.items,
          compare_sources);
  }
  return NULL;
}

static shoal_status_t plan_destination(plan_t *plan, int64_t position, shoal_arena_t *scratch) {
  destination_t to = {.position = position, .scratch = scratch};
  shoal_mesh_coords(plan->dst_mesh, position, to.coords);
  for (int32_t i = 0; i < plan->dst_mesh->axis_count; ++i) {
    if (plan->spread[i] && to.coords[i] != 0) return NULL;
  }
  shoal_side_part(&plan->dst, to.coords, &to.part);
  if (to.part.from == to.part.to) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_side_products(&plan->dst, &to.part, true, scratch, &to.need));
  to.self = shoal_mesh_position(plan->src_mesh, shoal_mesh_rank(plan->dst_mesh, position));
  choose_replicas(plan, &to);
  for (int64_t join = 0; join < plan->joins; ++join) {
    int64_t coords[SHOAL_MAX_AXES], rest = join;
    for (int32_t i = plan->src_mesh->axis_count - 1; i >= 0; --i) {
      coords[i] = to.source[i];
      if (!plan->joined[i]) continue;
      coords[i] = rest % plan->src_mesh->axes[i].size;
      rest /= plan->src_mesh->axes[i].size;
    }
    SHOAL_RETURN_IF_ERROR(plan_join(plan, &to, coords));
  }
  return NULL;
}

// ---- all together ----------------------------------------------------------------------

static shoal_status_t plan_all(plan_t *plan, const shoal_layout_t *src, int64_t src_micro,
                               const shoal_layout_t *dst, int64_t dst_micro,
                               const shoal_shape_t *shape, shoal_reshard_t *reshard) {
  SHOAL_RETURN_IF_ERROR(shoal_side_init(src, shape, src_micro, plan->keep, &plan->src));
  SHOAL_RETURN_IF_ERROR(shoal_side_init(dst, shape, dst_micro, plan->keep, &plan->dst));
  plan->src_mesh = src->mesh;
  plan->dst_mesh = dst->mesh;
  plan->rank = shape->rank;
  SHOAL_RETURN_IF_ERROR(assign_axes(plan, reshard));
  for (int32_t d = 0; d < shape->rank; ++d) SHOAL_RETURN_IF_ERROR(find_hits(plan, d));
  // Partial in time: only the first micro-batch brings the value.
  bool silent = dst_micro > 0 && is_micro_partial(dst) && !is_micro_partial(src);
  for (int64_t q = 0, size = silent ? 0 : shoal_mesh_size(dst->mesh); q < size; ++q) {
    shoal_arena_t scratch;
    shoal_arena_init(plan->keep->allocator, &scratch);
    shoal_status_t status = plan_destination(plan, q, &scratch);
    shoal_arena_deinit(&scratch);
    if (status) return status;
  }
  reshard->transfer_count = plan->transfers.count;
  reshard->transfers = shoal_arena_copy(plan->out, plan->transfers.items,
                                        (size_t)plan->transfers.count, sizeof(shoal_transfer_t));
  if (!reshard->transfers) return SHOAL_OOM();
  shoal_reshard_facts_t facts = {
      .src = &plan->src,
      .dst = &plan->dst,
      .same_mesh = shoal_mesh_equal(src->mesh, dst->mesh),
      .spreads = silent,
  };
  for (int32_t i = 0; i < SHOAL_MAX_AXES; ++i) {
    facts.joined[i] = plan->joined[i];
    facts.spreads |= plan->spread[i];
  }
  return shoal_reshard_classify(&facts, plan->keep, reshard);
}

shoal_status_t shoal_layout_reshard(const shoal_layout_t *src, int64_t src_micro,
                                    const shoal_layout_t *dst, int64_t dst_micro,
                                    const shoal_shape_t *shape, shoal_arena_t *arena,
                                    shoal_reshard_t *out_reshard) {
  shoal_arena_t keep;
  shoal_arena_init(arena->allocator, &keep);
  plan_t plan = {.out = arena, .keep = &keep};
  shoal_reshard_t reshard = {0};
  shoal_status_t status = plan_all(&plan, src, src_micro, dst, dst_micro, shape, &reshard);
  shoal_arena_deinit(&keep);
  if (!status) *out_reshard = reshard;
  return status;
}
