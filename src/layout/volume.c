// How many elements a rank sends and receives in a reshard, at most.
//
// On one mesh it follows from the parts of one rank per cell. A rank receives every element it
// holds once per joined coordinate, but for what it has itself. Of what it owns, it sends each
// element to all coordinates of axes that cut nothing afterwards, except those along which a
// destination decides (there it serves its own coordinate only); and along axes that cut, to all
// that hold the element. Between meshes, and where ranks hold more than they own, the links of one
// rank per cell are counted.
#include "layout/cells.h"
#include "layout/layout_impl.h"
#include "layout/motion.h"

typedef struct volume {
  const shoal_pair_t *pair;
  shoal_deals_t deals;
  int64_t copies;                 // destinations of an element along axes that do not cut
  bool searched[SHOAL_MAX_RANK];  // who holds elements of the dim must be searched for
  int64_t most_sent, most_received;
} volume_t;

static bool has_halo(const shoal_cut_list_t *list) {
  for (int32_t i = 0; i < list->count; ++i) {
    if (list->cuts[i]->before || list->cuts[i]->after) return true;
  }
  return false;
}

// Is the volume to be had from parts alone?
static bool find_axes(volume_t *v) {
  const shoal_pair_t *pair = v->pair;
  const shoal_roles_t *roles = &pair->roles;
  if (!roles->same_mesh || !shoal_tile_same(pair->src.layout, pair->dst.layout)) return false;
  for (int32_t d = 0; d <= pair->rank; ++d) {
    const shoal_cut_list_t *b = &pair->dst_cuts[d];
    bool searched = has_halo(b);
    if (has_halo(&pair->src_cuts[d])) return false;
    for (int32_t i = 0; i < b->count; ++i) {
      if (b->cuts[i]->axis != SHOAL_AXIS_MICRO) searched |= roles->follows[b->cuts[i]->axis];
      if (b->cuts[i]->axis == SHOAL_AXIS_MICRO) searched |= i >= b->same;  // a slice in time
    }
    const bool flat = pair->src_cuts[pair->rank].count + pair->dst_cuts[pair->rank].count > 0;
    if (searched && flat) return false;
    if (d < pair->rank) v->searched[d] = searched;
  }
  v->copies = 1;
  for (int32_t k = 0; k < roles->dst_mesh->axis_count; ++k) {
    if (pair->dst.cuts[k] || roles->spread[k] || roles->follows[k]) continue;
    v->copies *= roles->dst_mesh->axes[k].size;
  }
  return true;
}

static int64_t count_shared(const shoal_interval_t *a, int64_t a_count, const shoal_interval_t *b,
                            int64_t b_count) {
  int64_t shared = 0;
  for (int64_t i = 0, k = 0; i < a_count && k < b_count;) {
    const int64_t a_to = a[i].start + a[i].size, b_to = b[k].start + b[k].size;
    const int64_t start = shoal_max64(a[i].start, b[k].start);
    shared += shoal_max64(0, shoal_min64(a_to, b_to) - start);
    if (a_to <= b_to)
      ++i;
    else
      ++k;
  }
  return shared;
}

// Elements that the rank has itself.
static shoal_status_t count_own(const volume_t *v, const shoal_side_part_t *src,
                                const shoal_side_part_t *dst, shoal_arena_t *scratch,
                                int64_t *out_count) {
  const shoal_pair_t *pair = v->pair;
  shoal_products_t have = {0}, need = {0}, shared = {0};
  *out_count = 0;
  SHOAL_RETURN_IF_ERROR(shoal_side_products(&pair->src, src, false, scratch, &have));
  SHOAL_RETURN_IF_ERROR(shoal_side_products(&pair->dst, dst, true, scratch, &need));
  for (int64_t i = 0; i < have.count; ++i) {
    for (int64_t k = 0; k < need.count; ++k) {
      SHOAL_RETURN_IF_ERROR(
          shoal_product_intersect(pair->rank, &have.items[i], &need.items[k], scratch, &shared));
    }
  }
  for (int64_t i = 0; i < shared.count; ++i) {
    int64_t count = 1;
    for (int32_t d = 0; d < pair->rank; ++d) {
      const shoal_spans_t spans = shared.items[i].dims[d];
      int64_t size = 0;
      for (int64_t k = 0; k < spans.count; ++k) size += spans.items[k].size;
      count *= size;
    }
    *out_count += count;
  }
  return NULL;
}

// Elements, times the slots of the dim that hold them and that this rank serves.
static shoal_status_t count_holders(volume_t *v, int32_t dim, const shoal_dim_part_t *part,
                                    const int64_t *coords, shoal_arena_t *scratch,
                                    int64_t *out_count) {
  const shoal_side_t *dst = &v->pair->dst;
  int64_t fixed[SHOAL_MAX_AXES];
  for (int32_t k = 0; k < SHOAL_MAX_AXES; ++k) {
    fixed[k] = v->pair->roles.follows[k] ? coords[k] : -1;
  }
  const shoal_owners_t query = {.layout = dst->layout,
                                .micro = dst->micro,
                                .dim = dim,
                                .held = true,
                                .want = {part->own, part->own_count},
                                .fixed = fixed};
  shoal_slots_t slots;
  SHOAL_RETURN_IF_ERROR(
      shoal_owners_find(&query, dst->shape->dims[dim], &v->deals, scratch, &slots));
  *out_count = 0;
  for (int64_t i = 0; i < slots.count; ++i) {
    const shoal_dim_part_t *held = &slots.items[i].part;
    *out_count += count_shared(part->own, part->own_count, held->held, held->held_count);
  }
  return NULL;
}

static shoal_status_t count_rank(volume_t *v, const int64_t *coords, shoal_arena_t *scratch) {
  const shoal_pair_t *pair = v->pair;
  const shoal_roles_t *roles = &pair->roles;
  shoal_side_part_t src, dst;
  int64_t own = 0, sent = v->copies;
  SHOAL_RETURN_IF_ERROR(shoal_side_part_at(&pair->src, coords, &v->deals, scratch, &src));
  SHOAL_RETURN_IF_ERROR(shoal_side_part_at(&pair->dst, coords, &v->deals, scratch, &dst));
  bool receives = true, sends = true;
  for (int32_t k = 0; k < roles->dst_mesh->axis_count; ++k) {
    if (!roles->spread[k] || coords[k] == 0) continue;
    receives = false;
    sends = sends && !roles->follows[k];
  }
  if (receives) {
    SHOAL_RETURN_IF_ERROR(count_own(v, &src, &dst, scratch, &own));
    const int64_t received = (dst.to - dst.from) * roles->joins - own;
    v->most_received = shoal_max64(v->most_received, received);
  }
  if (!sends) return NULL;
  if (pair->src_cuts[pair->rank].count > 0) {  // flat: nothing is searched
    sent *= src.owned;
  } else {
    for (int32_t d = 0; d < pair->rank; ++d) {
      int64_t count = src.dims[d]->own_size;
      if (v->searched[d] && count > 0) {
        SHOAL_RETURN_IF_ERROR(count_holders(v, d, src.dims[d], coords, scratch, &count));
      }
      sent *= count;
    }
  }
  v->most_sent = shoal_max64(v->most_sent, sent - own);
  return NULL;
}

static shoal_status_t count_cells(volume_t *v, const shoal_reshard_cells_t *cells,
                                  shoal_arena_t *scratch) {
  for (int64_t i = 0, count = shoal_cells_count(&cells->dst); i < count; ++i) {
    int64_t coords[SHOAL_MAX_AXES];
    shoal_arena_t own;
    shoal_cells_first(&cells->dst, i, coords);
    shoal_arena_init(scratch->allocator, &own);
    shoal_status_t status = count_rank(v, coords, &own);
    shoal_arena_deinit(&own);
    if (status) return status;
  }
  return NULL;
}

static shoal_status_t count_links(volume_t *v, const shoal_reshard_cells_t *cells,
                                  shoal_arena_t *scratch) {
  int64_t count;
  const int32_t *ranks;
  SHOAL_RETURN_IF_ERROR(shoal_reshard_cells_ranks(cells, 0, NULL, scratch, &count, &ranks));
  for (int64_t i = 0; i < count; ++i) {
    shoal_arena_t own;
    shoal_arena_init(scratch->allocator, &own);
    shoal_links_t links = {0};
    shoal_status_t status = shoal_pair_links(v->pair, ranks[i], &own, &links);
    int64_t sent = 0, received = 0;
    for (int64_t k = 0; k < links.count && !status; ++k) {
      const shoal_link_t *link = &links.items[k];
      if (link->from == link->to) continue;
      *(link->to == ranks[i] ? &received : &sent) += link->count;
    }
    shoal_arena_deinit(&own);
    if (status) return status;
    v->most_sent = shoal_max64(v->most_sent, sent);
    v->most_received = shoal_max64(v->most_received, received);
  }
  return NULL;
}

shoal_status_t shoal_pair_volume(const shoal_pair_t *pair, const shoal_reshard_facts_t *facts,
                                 shoal_arena_t *scratch, int64_t *out_sent, int64_t *out_received) {
  volume_t v = {.pair = pair, .deals = {.arena = scratch}};
  *out_sent = *out_received = 0;
  if (facts->kind == SHOAL_RESHARD_NONE || facts->kind == SHOAL_RESHARD_SLICE) return NULL;
  if (pair->roles.silent) return NULL;
  shoal_reshard_cells_t cells;
  SHOAL_RETURN_IF_ERROR(shoal_pair_cells(pair, scratch, &cells));
  if (find_axes(&v)) {
    SHOAL_RETURN_IF_ERROR(count_cells(&v, &cells, scratch));
  } else {
    SHOAL_RETURN_IF_ERROR(count_links(&v, &cells, scratch));
  }
  if (facts->kind == SHOAL_RESHARD_ALL_REDUCE) {  // scattered and gathered again
    const int64_t part = v.most_sent / (pair->roles.joins - 1);
    v.most_sent = v.most_received = 2 * (part - part / pair->roles.joins);
  }
  *out_sent = v.most_sent;
  *out_received = v.most_received;
  return NULL;
}
