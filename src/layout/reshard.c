// Reshard: which elements move between which ranks to get from one layout to another, for all ranks
// at once. What it costs grows with the pairs of ranks that exchange something, so this is what the
// other ways are tested against (links.c for one rank, describe.c for the kind) and what tools for
// few ranks may use; nothing that plans or runs a program calls it.
//
// What axes do, and which rank owns an element for a destination, is in roles.c.
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
  shoal_roles_t roles;
  const shoal_spans_t
      *hits[SHOAL_MAX_RANK];  // [destination's slot]: source slots as intervals of size 1
  SHOAL_VEC(shoal_transfer_t) transfers;
} plan_t;

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
  if (total != needed) {
    return shoal_roles_unowned(plan->rank, &to->need, &to->covered, to->position, to->scratch);
  }
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
    if (plan->roles.spread[i] && to.coords[i] != 0) return NULL;
  }
  shoal_side_part(&plan->dst, to.coords, &to.part);
  if (to.part.from == to.part.to) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_side_products(&plan->dst, &to.part, true, scratch, &to.need));
  to.self = shoal_mesh_position(plan->src_mesh, shoal_mesh_rank(plan->dst_mesh, position));
  shoal_roles_source(&plan->roles, to.position, to.coords, to.self, to.source);
  for (int64_t join = 0; join < plan->roles.joins; ++join) {
    int64_t coords[SHOAL_MAX_AXES], rest = join;
    for (int32_t i = plan->src_mesh->axis_count - 1; i >= 0; --i) {
      coords[i] = to.source[i];
      if (!plan->roles.joined[i]) continue;
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
  SHOAL_RETURN_IF_ERROR(shoal_roles_find(&plan->src, &plan->dst, &plan->roles));
  reshard->reduces = plan->roles.joins > 1;
  reshard->reduce = plan->roles.reduce;
  for (int32_t d = 0; d < shape->rank; ++d) SHOAL_RETURN_IF_ERROR(find_hits(plan, d));
  const bool silent = plan->roles.silent;
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
  shoal_reshard_evidence_t facts = {
      .src = &plan->src,
      .dst = &plan->dst,
      .same_mesh = plan->roles.same_mesh,
      .spreads = silent,
  };
  for (int32_t i = 0; i < SHOAL_MAX_AXES; ++i) {
    facts.joined[i] = plan->roles.joined[i];
    facts.spreads |= plan->roles.spread[i];
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
