// Which collective a reshard amounts to. Decided from the transfers and part sizes, not from how
// the layouts are written; whoever wants a collective may rely on what each test below says.
#include <string.h>

#include "layout/layout_impl.h"

const char *shoal_reshard_name(shoal_reshard_kind_t kind) {
  static const char *const names[] = {
      [SHOAL_RESHARD_NONE] = "none",
      [SHOAL_RESHARD_SLICE] = "slice",
      [SHOAL_RESHARD_ALL_REDUCE] = "all_reduce",
      [SHOAL_RESHARD_REDUCE_SCATTER] = "reduce_scatter",
      [SHOAL_RESHARD_ALL_GATHER] = "all_gather",
      [SHOAL_RESHARD_ALL_TO_ALL] = "all_to_all",
      [SHOAL_RESHARD_HALO] = "halo",
      [SHOAL_RESHARD_BETWEEN] = "between",
      [SHOAL_RESHARD_PERMUTE] = "permute",
  };
  return (unsigned)kind < sizeof names / sizeof names[0] ? names[kind] : "?";
}

// Sizes by position.
typedef struct sizes {
  int64_t *src_owned, *src_stored, *dst_owned, *dst_stored;
} sizes_t;

static shoal_status_t measure(const shoal_side_t *side, shoal_arena_t *arena, int64_t **out_owned,
                              int64_t **out_stored) {
  int64_t size = shoal_mesh_size(side->layout->mesh), coords[SHOAL_MAX_AXES];
  *out_owned = SHOAL_NEW(arena, int64_t, size);
  *out_stored = SHOAL_NEW(arena, int64_t, size);
  if (!*out_owned || !*out_stored) return SHOAL_OOM();
  for (int64_t i = 0; i < size; ++i) {
    shoal_side_part_t part;
    shoal_mesh_coords(side->layout->mesh, i, coords);
    shoal_side_part(side, coords, &part);
    (*out_owned)[i] = part.owned;
    (*out_stored)[i] = part.to - part.from;
  }
  return NULL;
}

static bool is_local(const shoal_reshard_evidence_t *facts, const shoal_reshard_t *reshard) {
  for (int64_t i = 0; i < reshard->transfer_count; ++i) {
    const shoal_transfer_t *t = &reshard->transfers[i];
    if (shoal_mesh_rank(facts->src->layout->mesh, t->src) !=
        shoal_mesh_rank(facts->dst->layout->mesh, t->dst)) {
      return false;
    }
  }
  return true;
}

// Does every transfer carry its whole source buffer to a destination buffer that is stored alike?
// Elements keep their order, so one block that fills both buffers is all of both, from 0.
static bool is_identity(const shoal_reshard_evidence_t *facts, const shoal_reshard_t *reshard,
                        const sizes_t *sizes) {
  const shoal_mesh_t *sm = facts->src->layout->mesh, *dm = facts->dst->layout->mesh;
  int64_t size = shoal_mesh_size(dm);
  if (facts->spreads || shoal_mesh_size(sm) != size) return false;
  for (int64_t q = 0; q < size; ++q) {
    int64_t self = facts->same_mesh ? q : shoal_mesh_position(sm, shoal_mesh_rank(dm, q));
    if (self < 0 || sizes->src_stored[self] != sizes->dst_stored[q]) return false;
  }
  for (int64_t i = 0; i < reshard->transfer_count; ++i) {
    const shoal_transfer_t *t = &reshard->transfers[i];
    if (t->count != sizes->dst_stored[t->dst] || t->piece_count != 1) return false;
  }
  return true;
}

// Do transfers only cross along these axes?
static bool stays_within(const shoal_reshard_evidence_t *facts, const shoal_reshard_t *reshard,
                         const bool axes[SHOAL_MAX_AXES]) {
  const shoal_mesh_t *mesh = facts->src->layout->mesh;
  for (int64_t i = 0; i < reshard->transfer_count; ++i) {
    int64_t a[SHOAL_MAX_AXES], b[SHOAL_MAX_AXES];
    shoal_mesh_coords(mesh, reshard->transfers[i].src, a);
    shoal_mesh_coords(mesh, reshard->transfers[i].dst, b);
    for (int32_t k = 0; k < mesh->axis_count; ++k) {
      if (a[k] != b[k] && !axes[k]) return false;
    }
  }
  return true;
}

// Sums `value` over groups of positions that differ along `axes` only; the sum stands at each
// member.
static shoal_status_t sum_groups(const shoal_mesh_t *mesh, const bool axes[SHOAL_MAX_AXES],
                                 const int64_t *value, shoal_arena_t *arena, int64_t **out_sum) {
  int64_t size = shoal_mesh_size(mesh), coords[SHOAL_MAX_AXES];
  int64_t *sum = SHOAL_NEW(arena, int64_t, size), *group = SHOAL_NEW(arena, int64_t, size);
  if (!sum || !group) return SHOAL_OOM();
  for (int64_t i = 0; i < size; ++i) {
    shoal_mesh_coords(mesh, i, coords);
    for (int32_t k = 0; k < mesh->axis_count; ++k) coords[k] = axes[k] ? 0 : coords[k];
    group[i] = shoal_mesh_at(mesh, coords);
    sum[group[i]] += value[i];
  }
  for (int64_t i = 0; i < size; ++i) sum[i] = sum[group[i]];
  *out_sum = sum;
  return NULL;
}

static bool all_equal(const int64_t *a, const int64_t *b, int64_t count) {
  return memcmp(a, b, (size_t)count * sizeof *a) == 0;
}

// Each rank's new part lies in its old one, its halo aside.
static bool only_halo(const shoal_reshard_evidence_t *facts) {
  const shoal_side_t *src = facts->src, *dst = facts->dst;
  const shoal_mesh_t *mesh = src->layout->mesh;
  if (src->flat || dst->flat) return false;
  for (int64_t q = 0, size = shoal_mesh_size(mesh); q < size; ++q) {
    int64_t coords[SHOAL_MAX_AXES];
    shoal_side_part_t a, b;
    shoal_mesh_coords(mesh, q, coords);
    shoal_side_part(src, coords, &a);
    shoal_side_part(dst, coords, &b);
    for (int32_t d = 0; d < src->shape->rank && b.owned; ++d) {
      const shoal_dim_part_t *outer = a.dims[d], *inner = b.dims[d];
      int32_t k = 0;
      for (int32_t i = 0; i < inner->own_count; ++i) {
        int64_t start = inner->own[i].start, end = start + inner->own[i].size;
        while (k < outer->own_count && outer->own[k].start + outer->own[k].size < end) ++k;
        if (k == outer->own_count || outer->own[k].start > start) return false;
      }
    }
  }
  return true;
}

static shoal_status_t classify_join(const shoal_reshard_evidence_t *facts, const sizes_t *sizes,
                                    shoal_arena_t *arena, shoal_reshard_t *reshard) {
  const shoal_mesh_t *mesh = facts->dst->layout->mesh;
  int64_t size = shoal_mesh_size(mesh), *sum;
  if (facts->spreads || !stays_within(facts, reshard, facts->joined)) return NULL;
  if (is_identity(facts, reshard, sizes)) {
    reshard->kind = SHOAL_RESHARD_ALL_REDUCE;
    return NULL;
  }
  // Along every joined axis the destination is dealt out, so that each group's parts make up the
  // source's.
  for (int32_t k = 0; k < mesh->axis_count; ++k) {
    if (facts->joined[k] && !facts->dst->cuts[k]) return NULL;
  }
  SHOAL_RETURN_IF_ERROR(sum_groups(mesh, facts->joined, sizes->dst_stored, arena, &sum));
  if (all_equal(sizes->dst_owned, sizes->dst_stored, size) &&
      all_equal(sum, sizes->src_owned, size)) {
    reshard->kind = SHOAL_RESHARD_REDUCE_SCATTER;
  }
  return NULL;
}

static shoal_status_t classify_move(const shoal_reshard_evidence_t *facts, const sizes_t *sizes,
                                    shoal_arena_t *arena, shoal_reshard_t *reshard) {
  const shoal_mesh_t *mesh = facts->dst->layout->mesh;
  int64_t size = shoal_mesh_size(mesh), *src_sum, *dst_sum;
  if (facts->spreads) return NULL;
  if (only_halo(facts)) {
    reshard->kind = SHOAL_RESHARD_HALO;
    return NULL;
  }
  bool gathered[SHOAL_MAX_AXES] = {0}, moved[SHOAL_MAX_AXES] = {0};
  for (int32_t k = 0; k < mesh->axis_count; ++k) {
    gathered[k] = facts->src->cuts[k] && !facts->dst->cuts[k];
    moved[k] = facts->src->cuts[k] && facts->dst->cuts[k];
  }
  // Gathered: every rank gets the owned parts of its group, each of them whole.
  if (stays_within(facts, reshard, gathered)) {
    SHOAL_RETURN_IF_ERROR(sum_groups(mesh, gathered, sizes->src_owned, arena, &src_sum));
    bool whole = all_equal(src_sum, sizes->dst_stored, size);
    for (int64_t i = 0; i < reshard->transfer_count && whole; ++i) {
      whole = reshard->transfers[i].count == sizes->src_owned[reshard->transfers[i].src];
    }
    if (whole) reshard->kind = SHOAL_RESHARD_ALL_GATHER;
  }
  // Moved: within a group, every element goes to exactly one rank.
  if (reshard->kind == SHOAL_RESHARD_BETWEEN && stays_within(facts, reshard, moved) &&
      all_equal(sizes->dst_owned, sizes->dst_stored, size)) {
    SHOAL_RETURN_IF_ERROR(sum_groups(mesh, moved, sizes->src_owned, arena, &src_sum));
    SHOAL_RETURN_IF_ERROR(sum_groups(mesh, moved, sizes->dst_stored, arena, &dst_sum));
    if (all_equal(src_sum, dst_sum, size)) reshard->kind = SHOAL_RESHARD_ALL_TO_ALL;
  }
  return NULL;
}

// ---- does the collective of that name do it? ------------------------------------------

// Elements [src, src + count) of one buffer to [dst, dst + count) of the other?
static bool is_range(const shoal_transfer_t *t, int64_t src, int64_t dst) {
  const shoal_piece_t *piece = &t->pieces[0];
  return t->piece_count == 1 && piece->rank == 1 && piece->src_stride[0] == 1 &&
         piece->dst_stride[0] == 1 && piece->src_offset == src && piece->dst_offset == dst;
}

// One destination's transfers, which come from all its group, itself among them: the group's order
// is that of its positions.
static bool is_gathered(const shoal_transfer_t *list, int64_t count, const sizes_t *sizes) {
  int64_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    const shoal_transfer_t *t = &list[i];
    if (i > 0 && t->src <= t[-1].src) return false;
    if (t->count == 0 || t->count != sizes->src_stored[t->src] || !is_range(t, 0, at)) return false;
    at += t->count;
  }
  return at == sizes->dst_stored[list->dst];
}

static bool is_scattered(const shoal_transfer_t *list, int64_t count, const sizes_t *sizes) {
  int64_t before = 0, total = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0 && list[i].src <= list[i - 1].src) return false;
    if (list[i].src < list->dst) before += sizes->dst_stored[list[i].src];
    total += sizes->dst_stored[list[i].src];
  }
  for (int64_t i = 0; i < count; ++i) {
    const shoal_transfer_t *t = &list[i];
    if (t->count == 0 || t->count != sizes->dst_stored[t->dst] || !is_range(t, before, 0)) {
      return false;
    }
  }
  return total == sizes->src_stored[list->dst];
}

static bool is_collective(const shoal_reshard_evidence_t *facts, const shoal_reshard_t *reshard,
                          const sizes_t *sizes) {
  const bool gathers = reshard->kind == SHOAL_RESHARD_ALL_GATHER;
  if (reshard->kind == SHOAL_RESHARD_ALL_REDUCE) return true;
  if (!gathers && reshard->kind != SHOAL_RESHARD_REDUCE_SCATTER) return false;
  const shoal_mesh_t *mesh = facts->dst->layout->mesh;
  int64_t members = 1, groups = 0;
  for (int32_t k = 0; k < mesh->axis_count; ++k) {
    const bool along = gathers ? facts->src->cuts[k] && !facts->dst->cuts[k] : facts->joined[k];
    if (along) members *= mesh->axes[k].size;
  }
  for (int64_t i = 0; i < reshard->transfer_count; i += members, ++groups) {
    const shoal_transfer_t *list = &reshard->transfers[i];
    if (reshard->transfer_count - i < members || list[members - 1].dst != list->dst) return false;
    if (!(gathers ? is_gathered : is_scattered)(list, members, sizes)) return false;
  }
  return groups == shoal_mesh_size(mesh);
}

static shoal_status_t find_kind(const shoal_reshard_evidence_t *facts, const sizes_t *sizes,
                                shoal_arena_t *arena, shoal_reshard_t *reshard) {
  reshard->kind = SHOAL_RESHARD_BETWEEN;
  if (!reshard->reduces && is_local(facts, reshard)) {
    bool same = is_identity(facts, reshard, sizes);
    reshard->kind = same ? SHOAL_RESHARD_NONE : SHOAL_RESHARD_SLICE;
    return NULL;
  }
  if (!facts->same_mesh) return NULL;
  return reshard->reduces ? classify_join(facts, sizes, arena, reshard)
                          : classify_move(facts, sizes, arena, reshard);
}

shoal_status_t shoal_reshard_classify(const shoal_reshard_evidence_t *facts, shoal_arena_t *arena,
                                      shoal_reshard_t *reshard) {
  sizes_t sizes;
  SHOAL_RETURN_IF_ERROR(measure(facts->src, arena, &sizes.src_owned, &sizes.src_stored));
  SHOAL_RETURN_IF_ERROR(measure(facts->dst, arena, &sizes.dst_owned, &sizes.dst_stored));
  SHOAL_RETURN_IF_ERROR(find_kind(facts, &sizes, arena, reshard));
  reshard->collective = is_collective(facts, reshard, &sizes);
  return NULL;
}
