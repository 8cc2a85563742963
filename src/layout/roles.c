// What axes do in a reshard, and which rank owns an element for a destination.
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
#include "base/dtype.h"
#include "layout/layout_impl.h"
#include "layout/reduce.h"

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

const shoal_cut_t *shoal_layout_micro_partial(const shoal_layout_t *layout) {
  const shoal_cut_t *cut = shoal_layout_along(layout, SHOAL_AXIS_MICRO);
  return cut && cut->kind == SHOAL_CUT_PARTIAL ? cut : NULL;
}

static int64_t find_block(const shoal_roles_t *roles) {
  const shoal_mesh_t *sm = roles->src_mesh, *dm = roles->dst_mesh;
  if (dm->axis_count != sm->axis_count + 1) return -1;
  for (int32_t i = 0; i < sm->axis_count; ++i) {
    if (roles->twin[i] != i + 1) return -1;
  }
  if (!shoal_mesh_is_consecutive(sm) || !shoal_mesh_is_consecutive(dm)) return -1;
  const int64_t size = shoal_mesh_size(sm), from = shoal_mesh_rank(sm, 0) - shoal_mesh_rank(dm, 0);
  return from >= 0 && from % size == 0 && from / size < dm->axes[0].size ? from / size : -1;
}

shoal_status_t shoal_roles_find(const shoal_side_t *src, const shoal_side_t *dst,
                                shoal_roles_t *out_roles) {
  const shoal_mesh_t *sm = src->layout->mesh, *dm = dst->layout->mesh;
  shoal_roles_t roles = {.src_mesh = sm, .dst_mesh = dm, .joins = 1};
  bool kept[SHOAL_MAX_AXES] = {0};  // by destination axis
  int32_t reduce = -1;
  for (int32_t i = 0; i < sm->axis_count; ++i) {
    int32_t twin = shoal_mesh_axis(dm, sm->axes[i].name);
    if (twin >= 0 && dm->axes[twin].size != sm->axes[i].size) twin = -1;
    roles.twin[i] = twin;
    roles.follows[i] = !src->cuts[i];
    if (src->partial[i] < 0) continue;
    if (twin >= 0 && dst->partial[twin] == src->partial[i]) {
      roles.kept[i] = kept[twin] = true;
      continue;
    }
    roles.joined[i] = true;
    roles.follows[i] = false;
    roles.joins *= sm->axes[i].size;
    SHOAL_RETURN_IF_ERROR(one_reduction(&reduce, src->partial[i]));
  }
  for (int32_t i = 0; i < dm->axis_count; ++i) {
    if (dst->partial[i] < 0 || kept[i]) continue;
    roles.spread[i] = roles.spreads = true;
    SHOAL_RETURN_IF_ERROR(one_reduction(&reduce, dst->partial[i]));
  }
  roles.reduce = reduce >= 0 ? (shoal_reduce_t)reduce : SHOAL_REDUCE_SUM;
  roles.silent = dst->micro > 0 && shoal_layout_micro_partial(dst->layout) &&
                 !shoal_layout_micro_partial(src->layout);
  roles.spreads |= roles.silent;
  roles.same_mesh = shoal_mesh_equal(sm, dm);
  roles.overlap = roles.same_mesh || shoal_mesh_overlap(sm, dm);
  roles.block = roles.overlap && !roles.same_mesh ? find_block(&roles) : -1;
  *out_roles = roles;
  return NULL;
}

void shoal_roles_source(const shoal_roles_t *roles, int64_t position, const int64_t *coords,
                        int64_t self, int64_t out_source[SHOAL_MAX_AXES]) {
  const shoal_mesh_t *sm = roles->src_mesh;
  int64_t own[SHOAL_MAX_AXES] = {0}, digits = position;
  if (self >= 0) shoal_mesh_coords(sm, self, own);
  for (int32_t i = sm->axis_count - 1; i >= 0; --i) {
    out_source[i] = 0;
    if (!roles->follows[i]) continue;
    if (self >= 0 && !roles->kept[i]) {
      out_source[i] = own[i];
    } else if (roles->twin[i] >= 0) {
      out_source[i] = coords[roles->twin[i]];
    } else {
      out_source[i] = digits % sm->axes[i].size;
      digits /= sm->axes[i].size;
    }
  }
}

shoal_status_t shoal_roles_unowned(int32_t rank, const shoal_products_t *need,
                                   const shoal_products_t *covered, int64_t position,
                                   shoal_arena_t *scratch) {
  shoal_products_t left = *need;
  for (int64_t i = 0; i < covered->count; ++i) {
    shoal_products_t next = {0};
    for (int64_t j = 0; j < left.count; ++j) {
      SHOAL_RETURN_IF_ERROR(
          shoal_product_subtract(rank, &left.items[j], &covered->items[i], scratch, &next));
    }
    left = next;
  }
  if (left.count == 0) return SHOAL_ERROR(INTERNAL, "an element was sent twice in a reshard");
  shoal_shape_t first = {.rank = rank};
  for (int64_t i = 0; i < left.count; ++i) {
    bool earlier = i == 0;
    for (int32_t d = 0; d < rank && i; ++d) {
      int64_t start = left.items[i].dims[d].items[0].start;
      if (start == first.dims[d]) continue;
      earlier = start < first.dims[d];
      break;
    }
    for (int32_t d = 0; d < rank && earlier; ++d) {
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
                          index, (long long)position);
}
