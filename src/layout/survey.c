// Which collective a reshard amounts to, found by looking at one rank per cell: exact, whatever the
// layouts are, at the cost of those ranks' peers. The tests are those of kind.c, which looks at all
// ranks; describe.c knows most reshards without looking at any.
#include "layout/cells.h"
#include "layout/layout_impl.h"

typedef struct survey {
  const shoal_pair_t *pair;
  shoal_reshard_facts_t *facts;
  shoal_deals_t deals;
  shoal_arena_t *arena;    // lives as long as the survey
  shoal_arena_t *scratch;  // of the current rank
  bool gathered[SHOAL_MAX_AXES], moved[SHOAL_MAX_AXES], scattered;
  // Sums over groups of ranks, plus 1, by the position of a group's first rank; 0: not known yet.
  int64_t *src_gathered, *src_moved, *dst_moved, *dst_joined;
  // What still holds of all ranks that were looked at.
  bool local, identity, halo, gather, exchange, scatter, within, collective;
} survey_t;

// A rank, looked at: its parts on both sides (on two meshes only where it is on both), and what it
// gets.
typedef struct view {
  int64_t position, self;
  int64_t coords[SHOAL_MAX_AXES];
  shoal_side_part_t src, dst;
  int64_t count;
  const shoal_transfer_t *transfers;
} view_t;

static int64_t stored(const shoal_side_part_t *part) {
  return part->to - part->from;
}

static shoal_status_t part_of(survey_t *s, const shoal_side_t *side, int64_t position,
                              shoal_side_part_t *out_part) {
  int64_t coords[SHOAL_MAX_AXES];
  shoal_mesh_coords(side->layout->mesh, position, coords);
  return shoal_side_part_at(side, coords, &s->deals, s->scratch, out_part);
}

// What ranks that differ from this one along `axes` only own, or with `all` store, in all.
static shoal_status_t sum_group(survey_t *s, const shoal_side_t *side, const bool *axes, bool all,
                                const int64_t *at, int64_t **sums, int64_t *out_sum) {
  const shoal_mesh_t *mesh = side->layout->mesh;
  if (!*sums && !(*sums = SHOAL_NEW(s->arena, int64_t, shoal_mesh_size(mesh)))) return SHOAL_OOM();
  int64_t coords[SHOAL_MAX_AXES], sum = 0;
  for (int32_t i = 0; i < SHOAL_MAX_AXES; ++i) coords[i] = axes[i] ? 0 : at[i];
  int64_t *known = &(*sums)[shoal_mesh_at(mesh, coords)];
  while (*known == 0) {
    shoal_side_part_t part;
    SHOAL_RETURN_IF_ERROR(shoal_side_part_at(side, coords, &s->deals, s->scratch, &part));
    sum += all ? stored(&part) : part.owned;
    int32_t i = mesh->axis_count - 1;
    for (; i >= 0; --i) {
      if (!axes[i]) continue;
      if (++coords[i] < mesh->axes[i].size) break;
      coords[i] = 0;
    }
    if (i < 0) *known = sum + 1;
  }
  *out_sum = *known - 1;
  return NULL;
}

static bool stays_within(const view_t *v, const shoal_mesh_t *mesh, const bool *axes) {
  for (int64_t i = 0; i < v->count; ++i) {
    int64_t from[SHOAL_MAX_AXES];
    shoal_mesh_coords(mesh, v->transfers[i].src, from);
    for (int32_t k = 0; k < mesh->axis_count; ++k) {
      if (from[k] != v->coords[k] && !axes[k]) return false;
    }
  }
  return true;
}

// The rank's new part lies in its old one, its halo aside.
static bool only_halo(const survey_t *s, const view_t *v) {
  if (s->pair->src.flat || s->pair->dst.flat) return false;
  for (int32_t d = 0; d < s->pair->rank && v->dst.owned; ++d) {
    const shoal_dim_part_t *outer = v->src.dims[d], *inner = v->dst.dims[d];
    int32_t k = 0;
    for (int32_t i = 0; i < inner->own_count; ++i) {
      int64_t start = inner->own[i].start, end = start + inner->own[i].size;
      while (k < outer->own_count && outer->own[k].start + outer->own[k].size < end) ++k;
      if (k == outer->own_count || outer->own[k].start > start) return false;
    }
  }
  return true;
}

static bool is_identity(const view_t *v) {
  if (v->self < 0 || stored(&v->src) != stored(&v->dst)) return false;
  for (int64_t i = 0; i < v->count; ++i) {
    const shoal_transfer_t *t = &v->transfers[i];
    if (t->count != stored(&v->dst) || t->piece_count != 1) return false;
  }
  return true;
}

// ---- collectives -----------------------------------------------------------------------

// Elements [src, src + count) of one buffer to [dst, dst + count) of the other?
static bool is_range(const shoal_transfer_t *t, int64_t src, int64_t dst) {
  const shoal_piece_t *piece = &t->pieces[0];
  return t->piece_count == 1 && piece->rank == 1 && piece->src_stride[0] == 1 &&
         piece->dst_stride[0] == 1 && piece->src_offset == src && piece->dst_offset == dst;
}

static int64_t members(const survey_t *s, const bool *axes) {
  const shoal_mesh_t *mesh = s->pair->roles.dst_mesh;
  int64_t count = 1;
  for (int32_t k = 0; k < mesh->axis_count; ++k) count *= axes[k] ? mesh->axes[k].size : 1;
  return count;
}

// Is every part of the source that comes whole, and do they come one behind the other?
static shoal_status_t look_at_gather(survey_t *s, const view_t *v) {
  bool ordered = v->count == members(s, s->gathered);
  int64_t at = 0;
  for (int64_t i = 0; i < v->count && s->gather; ++i) {
    const shoal_transfer_t *t = &v->transfers[i];
    shoal_side_part_t part;
    SHOAL_RETURN_IF_ERROR(part_of(s, &s->pair->src, t->src, &part));
    s->gather = t->count == part.owned;
    ordered = ordered && (i == 0 || t->src > t[-1].src) && t->count == stored(&part) &&
              is_range(t, 0, at);
    at += t->count;
  }
  s->collective = s->collective && ordered && at == stored(&v->dst);
  return NULL;
}

static shoal_status_t look_at_scatter(survey_t *s, const view_t *v) {
  if (!s->collective) return NULL;
  bool ordered = v->count == members(s, s->pair->roles.joined);
  int64_t before = 0, total = 0;
  for (int64_t i = 0; i < v->count && ordered; ++i) {
    const shoal_transfer_t *t = &v->transfers[i];
    shoal_side_part_t part;
    SHOAL_RETURN_IF_ERROR(part_of(s, &s->pair->dst, t->src, &part));
    ordered = i == 0 || t->src > t[-1].src;
    if (t->src < v->position) before += stored(&part);
    total += stored(&part);
  }
  for (int64_t i = 0; i < v->count && ordered; ++i) {
    const shoal_transfer_t *t = &v->transfers[i];
    ordered = t->count > 0 && t->count == stored(&v->dst) && is_range(t, before, 0);
  }
  s->collective = ordered && total == stored(&v->src);
  return NULL;
}

// ---- one rank --------------------------------------------------------------------------

static shoal_status_t look_at_join(survey_t *s, const view_t *v) {
  const shoal_roles_t *roles = &s->pair->roles;
  s->within = s->within && stays_within(v, roles->src_mesh, roles->joined);
  s->identity = s->identity && is_identity(v);
  s->scatter = s->scatter && s->within && v->dst.owned == stored(&v->dst);
  if (!s->scatter) return NULL;
  int64_t sum;
  SHOAL_RETURN_IF_ERROR(
      sum_group(s, &s->pair->dst, roles->joined, true, v->coords, &s->dst_joined, &sum));
  s->scatter = sum == v->src.owned;
  return look_at_scatter(s, v);
}

static shoal_status_t look_at_move(survey_t *s, const view_t *v) {
  const shoal_mesh_t *mesh = s->pair->roles.src_mesh;
  int64_t src_sum, dst_sum;
  s->halo = s->halo && only_halo(s, v);
  s->gather = s->gather && stays_within(v, mesh, s->gathered);
  if (s->gather) {
    SHOAL_RETURN_IF_ERROR(
        sum_group(s, &s->pair->src, s->gathered, false, v->coords, &s->src_gathered, &src_sum));
    s->gather = src_sum == stored(&v->dst);
  }
  if (s->gather) SHOAL_RETURN_IF_ERROR(look_at_gather(s, v));
  s->exchange = s->exchange && stays_within(v, mesh, s->moved) && v->dst.owned == stored(&v->dst);
  if (!s->exchange) return NULL;
  SHOAL_RETURN_IF_ERROR(
      sum_group(s, &s->pair->src, s->moved, false, v->coords, &s->src_moved, &src_sum));
  SHOAL_RETURN_IF_ERROR(
      sum_group(s, &s->pair->dst, s->moved, true, v->coords, &s->dst_moved, &dst_sum));
  s->exchange = src_sum == dst_sum;
  return NULL;
}

static shoal_status_t look_at(survey_t *s, int64_t position) {
  const shoal_roles_t *roles = &s->pair->roles;
  view_t v = {.position = position, .self = position};
  shoal_mesh_coords(roles->dst_mesh, position, v.coords);
  SHOAL_RETURN_IF_ERROR(
      shoal_pair_received(s->pair, position, &s->deals, s->scratch, &v.count, &v.transfers));
  if (!roles->same_mesh) {
    v.self = shoal_mesh_position(roles->src_mesh, shoal_mesh_rank(roles->dst_mesh, position));
  }
  for (int64_t i = 0; i < v.count; ++i) s->local = s->local && v.transfers[i].src == v.self;
  if (!roles->same_mesh && !s->local) return NULL;
  if (v.self >= 0) SHOAL_RETURN_IF_ERROR(part_of(s, &s->pair->src, v.self, &v.src));
  SHOAL_RETURN_IF_ERROR(part_of(s, &s->pair->dst, position, &v.dst));
  if (roles->same_mesh && roles->joins > 1) return look_at_join(s, &v);
  s->identity = s->identity && is_identity(&v);
  return roles->same_mesh ? look_at_move(s, &v) : NULL;
}

// ---- all together ----------------------------------------------------------------------

static shoal_reshard_kind_t kind_of(const survey_t *s) {
  const shoal_roles_t *roles = &s->pair->roles;
  if (roles->joins == 1 && s->local) {
    return s->identity && !roles->spreads ? SHOAL_RESHARD_NONE : SHOAL_RESHARD_SLICE;
  }
  if (!roles->same_mesh || roles->spreads) return SHOAL_RESHARD_BETWEEN;
  if (roles->joins > 1) {
    return !s->within    ? SHOAL_RESHARD_BETWEEN
           : s->identity ? SHOAL_RESHARD_ALL_REDUCE
           : s->scatter  ? SHOAL_RESHARD_REDUCE_SCATTER
                         : SHOAL_RESHARD_BETWEEN;
  }
  return s->halo       ? SHOAL_RESHARD_HALO
         : s->gather   ? SHOAL_RESHARD_ALL_GATHER
         : s->exchange ? SHOAL_RESHARD_ALL_TO_ALL
                       : SHOAL_RESHARD_BETWEEN;
}

static shoal_status_t look_at_cells(survey_t *s, const shoal_reshard_cells_t *cells, bool covered) {
  for (int64_t i = 0, count = shoal_cells_count(&cells->dst); i < count; ++i) {
    int64_t coords[SHOAL_MAX_AXES];
    shoal_arena_t scratch;
    shoal_arena_init(s->arena->allocator, &scratch);
    s->scratch = &scratch;
    shoal_cells_first(&cells->dst, i, coords);
    shoal_status_t status = look_at(s, shoal_mesh_at(cells->dst.mesh, coords));
    shoal_arena_deinit(&scratch);
    s->scratch = NULL;
    if (status) return status;
    if (covered && kind_of(s) == SHOAL_RESHARD_BETWEEN) return NULL;  // it stays that
  }
  return NULL;
}

shoal_status_t shoal_pair_survey(const shoal_pair_t *pair, bool covered, shoal_arena_t *scratch,
                                 shoal_reshard_facts_t *facts) {
  const shoal_roles_t *roles = &pair->roles;
  survey_t s = {.pair = pair,
                .facts = facts,
                .arena = scratch,
                .deals = {.arena = scratch},
                .local = true,
                .halo = true,
                .gather = true,
                .exchange = true,
                .scatter = true,
                .within = true,
                .collective = true};
  s.identity = shoal_mesh_size(roles->src_mesh) == shoal_mesh_size(roles->dst_mesh);
  for (int32_t k = 0; k < roles->src_mesh->axis_count && roles->same_mesh; ++k) {
    s.gathered[k] = pair->src.cuts[k] && !pair->dst.cuts[k];
    s.moved[k] = pair->src.cuts[k] && pair->dst.cuts[k];
    s.scatter = s.scatter && (!roles->joined[k] || pair->dst.cuts[k]);
  }
  shoal_reshard_cells_t cells;
  SHOAL_RETURN_IF_ERROR(shoal_pair_cells(pair, scratch, &cells));
  SHOAL_RETURN_IF_ERROR(look_at_cells(&s, &cells, covered));
  facts->kind = kind_of(&s);
  facts->collective = facts->kind == SHOAL_RESHARD_ALL_REDUCE ||
                      (s.collective && (facts->kind == SHOAL_RESHARD_ALL_GATHER ||
                                        facts->kind == SHOAL_RESHARD_REDUCE_SCATTER));
  return NULL;
}
