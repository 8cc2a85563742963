// What a reshard amounts to, from the layouts alone: at the cost of their axes and dims, whatever
// the number of ranks.
//
// The cuts of each dim are compared outermost first. Where only one side cuts a dim any further,
// and nothing has a halo, each axis does one thing: it is gathered (cut before, a copy afterwards),
// sliced (the other way round), moved (cut on both sides, differently), reduced (partial before, a
// copy afterwards), scattered (partial before, cut afterwards) or spread (partial afterwards). The
// kind of the reshard follows, as long as there are elements: an axis of two ranks or more that is
// gathered makes some rank receive, one that is sliced makes some rank's part smaller. Everything
// else is looked at (survey.c).
#include "layout/cells.h"
#include "layout/layout_impl.h"

// ---- are all elements owned? -----------------------------------------------------------

// Along this dim, does the source own whatever the destination holds? It does, unless it trims, or
// is another micro-batch.
static shoal_status_t covers_dim(const shoal_pair_t *pair, int32_t dim, shoal_arena_t *scratch,
                                 bool *out_covers) {
  const shoal_cut_list_t *a = &pair->src_cuts[dim], *b = &pair->dst_cuts[dim];
  const int64_t length = pair->src.shape->dims[dim];
  *out_covers = false;
  if (shoal_layout_tile(pair->src.layout, dim) && shoal_pair_tiles_differ(pair, dim)) return NULL;
  for (int32_t i = 0; i < a->count; ++i) {
    if (a->cuts[i]->before < 0 || a->cuts[i]->after < 0) return NULL;
  }
  *out_covers = true;
  if (a->count == 0 || a->cuts[0]->axis != SHOAL_AXIS_MICRO) return NULL;
  if (a->same > 0 && a->cuts[0]->before == 0 && a->cuts[0]->after == 0) return NULL;
  shoal_dim_state_t owned, held;
  shoal_dim_part_t part;
  SHOAL_RETURN_IF_ERROR(shoal_dim_state_init(length, NULL, NULL, scratch, &owned));
  held = owned;
  SHOAL_RETURN_IF_ERROR(shoal_dim_state_cut(pair->roles.src_mesh, a->cuts[0], length,
                                            pair->src.micro, scratch, &owned));
  if (b->count > 0 && b->cuts[0]->axis == SHOAL_AXIS_MICRO) {
    SHOAL_RETURN_IF_ERROR(shoal_dim_state_cut(pair->roles.dst_mesh, b->cuts[0], length,
                                              pair->dst.micro, scratch, &held));
  }
  SHOAL_RETURN_IF_ERROR(shoal_dim_state_part(&held, scratch, &part));
  for (int32_t i = 0; i < part.held_count; ++i) {
    const int64_t start = part.held[i].start, size = part.held[i].size;
    if (shoal_dim_list_between(&owned.own, start, start + size) != size) *out_covers = false;
  }
  return NULL;
}

static shoal_status_t covers(const shoal_pair_t *pair, shoal_arena_t *scratch, bool *out_covers) {
  *out_covers = true;
  for (int32_t d = 0; d < pair->rank && *out_covers; ++d) {
    SHOAL_RETURN_IF_ERROR(covers_dim(pair, d, scratch, out_covers));
  }
  return NULL;
}

// ---- what each axis does ---------------------------------------------------------------

typedef struct plain {
  bool known;  // every axis does one of these things
  bool empty;  // there are no elements
  bool gathers, slices, moves, reduces, scatters;
  bool gathered[SHOAL_MAX_AXES], moved[SHOAL_MAX_AXES];
  int32_t flat;  // dims, where the flat cuts differ; -1: they do not
  shoal_dim_reps_t src[SHOAL_MAX_RANK], dst[SHOAL_MAX_RANK];
  shoal_deals_t deals;
} plain_t;

// Is there a halo, or a dim that both sides cut further, each in its own way?
static bool is_plain(const shoal_pair_t *pair) {
  bool differ = false;
  if (!shoal_tile_same(pair->src.layout, pair->dst.layout)) return false;
  for (int32_t d = 0; d <= pair->rank; ++d) {
    const shoal_cut_list_t *a = &pair->src_cuts[d], *b = &pair->dst_cuts[d];
    const bool more = a->count > a->same, other = b->count > b->same;
    if ((more && other) || (d == pair->rank && a->count + b->count > 0 && differ)) return false;
    differ |= more || other;
    for (int side = 0; side < 2; ++side) {
      const shoal_cut_list_t *list = side ? b : a;
      for (int32_t i = 0; i < list->count; ++i) {
        const shoal_cut_t *cut = list->cuts[i];
        if (cut->before || cut->after) return false;
        if (i >= list->same && cut->axis == SHOAL_AXIS_MICRO) return false;
      }
    }
  }
  return true;
}

// What the cuts behind the common ones do to their axes.
static void assign_axes(const shoal_pair_t *pair, plain_t *plain) {
  const shoal_roles_t *roles = &pair->roles;
  bool before[SHOAL_MAX_AXES] = {0}, after[SHOAL_MAX_AXES] = {0};
  for (int32_t d = 0; d <= pair->rank; ++d) {
    const shoal_cut_list_t *a = &pair->src_cuts[d], *b = &pair->dst_cuts[d];
    for (int32_t i = a->same; i < a->count; ++i) before[a->cuts[i]->axis] = true;
    for (int32_t i = b->same; i < b->count; ++i) after[b->cuts[i]->axis] = true;
  }
  for (int32_t k = 0; k < roles->src_mesh->axis_count; ++k) {
    if (roles->src_mesh->axes[k].size == 1) continue;
    plain->known = plain->known && !(before[k] && roles->spread[k]);
    plain->gathered[k] = before[k] && !after[k];
    plain->moved[k] = before[k] && after[k];
    plain->gathers |= plain->gathered[k];
    plain->moves |= plain->moved[k];
    plain->scatters |= after[k] && roles->joined[k];
    plain->slices |= after[k] && !before[k] && !roles->joined[k];
    plain->reduces |= !after[k] && roles->joined[k];
  }
}

static shoal_status_t explore(const shoal_pair_t *pair, bool src, shoal_arena_t *scratch,
                              bool *deals_out, plain_t *plain) {
  const shoal_side_t *side = src ? &pair->src : &pair->dst;
  const shoal_cut_list_t *cuts = src ? pair->src_cuts : pair->dst_cuts;
  for (int32_t d = 0; d < pair->rank; ++d) {
    const shoal_explore_t how = {.mesh = side->layout->mesh,
                                 .cut_count = cuts[d].count,
                                 .cuts = cuts[d].cuts,
                                 .base = cuts[d].same,
                                 .length = side->shape->dims[d],
                                 .tile = shoal_layout_tile(side->layout, d),
                                 .micro = side->micro,
                                 .deals = &plain->deals,
                                 .arena = scratch,
                                 .deals_out = deals_out};
    SHOAL_RETURN_IF_ERROR(shoal_dim_explore(&how, src ? &plain->src[d] : &plain->dst[d]));
  }
  return NULL;
}

static int64_t size_of(const shoal_dim_state_t *state) {
  return shoal_dim_list_between(&state->own, 0, INT64_MAX);
}

static shoal_status_t find_plain(const shoal_pair_t *pair, shoal_arena_t *scratch, plain_t *plain) {
  *plain = (plain_t){.known = pair->roles.same_mesh && is_plain(pair), .flat = -1};
  plain->deals.arena = scratch;
  if (!plain->known) return NULL;
  const shoal_cut_list_t *a = &pair->src_cuts[pair->rank], *b = &pair->dst_cuts[pair->rank];
  if (a->count > a->same || b->count > b->same) plain->flat = pair->rank;
  assign_axes(pair, plain);
  bool before[SHOAL_MAX_AXES + 1] = {0}, after[SHOAL_MAX_AXES + 1] = {0}, moves = false;
  SHOAL_RETURN_IF_ERROR(explore(pair, true, scratch, before, plain));
  SHOAL_RETURN_IF_ERROR(explore(pair, false, scratch, after, plain));
  for (int32_t d = 0; d < pair->rank; ++d) {
    bool some = false;
    for (int64_t i = 0; i < plain->src[d].count; ++i) {
      some |= size_of(&plain->src[d].items[i].state) > 0;
    }
    plain->empty |= !some;
  }
  // Along an axis that moves elements, two ranks have some before or afterwards: else nothing may
  // move.
  for (int32_t k = 0; k < SHOAL_MAX_AXES; ++k) {
    moves |= plain->moved[k] && (before[k] || after[k]);
  }
  plain->known = plain->known && (!plain->moves || moves || plain->empty);
  return NULL;
}

static shoal_reshard_kind_t kind_of(const shoal_pair_t *pair, const plain_t *plain) {
  const shoal_roles_t *roles = &pair->roles;
  const bool crosses = (plain->gathers || plain->moves) && !plain->empty && !roles->silent;
  if (roles->joins == 1) {
    if (!crosses) {
      const bool same = !roles->spreads && (!plain->slices || plain->empty);
      return same ? SHOAL_RESHARD_NONE : SHOAL_RESHARD_SLICE;
    }
    if (roles->spreads || plain->slices || (plain->gathers && plain->moves)) {
      return SHOAL_RESHARD_BETWEEN;
    }
    return plain->moves ? SHOAL_RESHARD_ALL_TO_ALL : SHOAL_RESHARD_ALL_GATHER;
  }
  if (roles->spreads || crosses) return SHOAL_RESHARD_BETWEEN;
  if (plain->empty) return SHOAL_RESHARD_ALL_REDUCE;
  if (plain->slices || (plain->reduces && plain->scatters)) return SHOAL_RESHARD_BETWEEN;
  return plain->scatters ? SHOAL_RESHARD_REDUCE_SCATTER : SHOAL_RESHARD_ALL_REDUCE;
}

// ---- does the collective of that name do it? ------------------------------------------

// Do the axes of the cuts behind the common ones ascend? Then parts that lie one behind the other
// belong to ranks that do.
static bool is_ascending(const shoal_mesh_t *mesh, const shoal_cut_list_t *cuts, int32_t rank) {
  int32_t last = -1;
  for (int32_t d = 0; d <= rank; ++d) {
    for (int32_t i = cuts[d].same; i < cuts[d].count; ++i) {
      const int32_t axis = cuts[d].cuts[i]->axis;
      if (mesh->axes[axis].size == 1) continue;
      if (axis < last) return false;
      last = axis;
    }
  }
  return true;
}

// With chunks, or turned, parts may lie in any order: ranks are looked at.
static bool has_chunks(const shoal_cut_list_t *cuts, int32_t rank) {
  for (int32_t d = 0; d < rank; ++d) {
    for (int32_t i = cuts[d].same; i < cuts[d].count; ++i) {
      if (cuts[d].cuts[i]->chunk_count || cuts[d].cuts[i]->turn) return true;
    }
  }
  return false;
}

// Is each part, whatever the sizes along the dims are, dense in the whole? Dims before some dim
// have one element, dims behind it are whole. Also, no part is empty.
static bool is_dense(int32_t rank, const shoal_dim_reps_t *dims) {
  int64_t at[SHOAL_MAX_RANK] = {0};
  for (;;) {
    bool whole = true;  // the dims behind
    for (int32_t d = rank - 1; d >= 0; --d) {
      const shoal_dim_rep_t *rep = &dims[d].items[at[d]];
      const int64_t size = size_of(&rep->state);
      if (size == 0 || (!whole && size > 1)) return false;
      whole = whole && size == size_of(&rep->base);
    }
    int32_t d = rank - 1;
    while (d >= 0 && ++at[d] == dims[d].count) at[d--] = 0;
    if (d < 0) return true;
  }
}

static shoal_status_t is_collective(const shoal_pair_t *pair, const plain_t *plain,
                                    shoal_reshard_kind_t kind, shoal_arena_t *scratch,
                                    bool *out_known, bool *out_collective) {
  const bool gathers = kind == SHOAL_RESHARD_ALL_GATHER;
  *out_collective = kind == SHOAL_RESHARD_ALL_REDUCE;
  if (!gathers && kind != SHOAL_RESHARD_REDUCE_SCATTER) return NULL;
  const shoal_cut_list_t *cuts = gathers ? pair->src_cuts : pair->dst_cuts;
  const shoal_dim_reps_t *dims = gathers ? plain->src : plain->dst;
  *out_known = !has_chunks(cuts, pair->rank);
  if (!*out_known || !is_ascending(pair->roles.src_mesh, cuts, pair->rank)) return NULL;
  if (plain->flat < 0) {
    *out_collective = is_dense(pair->rank, dims);
    return NULL;
  }
  const shoal_explore_t how = {.mesh = pair->roles.src_mesh,
                               .cut_count = cuts[pair->rank].count,
                               .cuts = cuts[pair->rank].cuts,
                               .deals = (shoal_deals_t *)&plain->deals,
                               .arena = scratch};
  shoal_points_t lengths;
  SHOAL_RETURN_IF_ERROR(shoal_flat_totals(pair->rank, dims, scratch, &lengths));
  SHOAL_RETURN_IF_ERROR(shoal_flat_explore(&how, &lengths));
  *out_collective = lengths.items[0] > 0;
  return NULL;
}

// ---- all together ----------------------------------------------------------------------

// Axes of the source's mesh along which ranks exchange something.
static void find_axes(const shoal_pair_t *pair, shoal_reshard_facts_t *facts) {
  const shoal_roles_t *roles = &pair->roles;
  const shoal_mesh_t *mesh = roles->src_mesh;
  facts->group = 1;
  if (facts->kind == SHOAL_RESHARD_NONE || facts->kind == SHOAL_RESHARD_SLICE) return;
  if (!roles->same_mesh) {
    facts->group = shoal_mesh_size(roles->src_mesh) + shoal_mesh_size(roles->dst_mesh);
    return;
  }
  bool differ = false;
  for (int32_t d = 0; d <= pair->rank; ++d) {
    const shoal_cut_list_t *a = &pair->src_cuts[d];
    const bool tiles = d < pair->rank && shoal_pair_tiles_differ(pair, d);
    bool all = tiles || (d == pair->rank && differ);  // of its cuts move something
    differ |= tiles || a->count > a->same || pair->dst_cuts[d].count > a->same;
    for (int32_t i = 0; i < pair->dst_cuts[d].count; ++i) {
      all |= pair->dst_cuts[d].cuts[i]->before || pair->dst_cuts[d].cuts[i]->after;
    }
    for (int32_t i = all ? 0 : a->same; i < a->count; ++i) {
      if (a->cuts[i]->axis != SHOAL_AXIS_MICRO) facts->axes[a->cuts[i]->axis] = true;
    }
  }
  for (int32_t k = 0; k < mesh->axis_count; ++k) {
    facts->axes[k] |= roles->joined[k];
    if (facts->kind == SHOAL_RESHARD_ALL_GATHER)
      facts->axes[k] = pair->src.cuts[k] && !pair->dst.cuts[k];
    else if (facts->kind == SHOAL_RESHARD_ALL_REDUCE || facts->kind == SHOAL_RESHARD_REDUCE_SCATTER)
      facts->axes[k] = roles->joined[k];
    facts->axes[k] = facts->axes[k] && mesh->axes[k].size > 1;
    if (facts->axes[k]) facts->group *= mesh->axes[k].size;
  }
}

static shoal_status_t describe(const shoal_pair_t *pair, shoal_arena_t *scratch, shoal_look_t look,
                               bool *out_known, shoal_reshard_facts_t *facts) {
  plain_t plain = {0};
  bool covered;
  *facts = (shoal_reshard_facts_t){.reduces = pair->roles.joins > 1, .reduce = pair->roles.reduce};
  SHOAL_RETURN_IF_ERROR(covers(pair, scratch, &covered));
  if (covered) SHOAL_RETURN_IF_ERROR(find_plain(pair, scratch, &plain));
  *out_known = plain.known;
  if (plain.known) {
    facts->kind = kind_of(pair, &plain);
    SHOAL_RETURN_IF_ERROR(
        is_collective(pair, &plain, facts->kind, scratch, out_known, &facts->collective));
  }
  const bool survey = look == SHOAL_LOOK_ALWAYS || (look == SHOAL_LOOK_IF_NEEDED && !*out_known);
  if (survey) SHOAL_RETURN_IF_ERROR(shoal_pair_survey(pair, covered, scratch, facts));
  find_axes(pair, facts);
  return NULL;
}

shoal_status_t shoal_pair_describe(const shoal_pair_t *pair, shoal_allocator_t allocator,
                                   shoal_look_t look, bool *out_known,
                                   shoal_reshard_facts_t *out_facts) {
  shoal_arena_t scratch;
  shoal_arena_init(allocator, &scratch);
  shoal_reshard_facts_t facts;
  shoal_status_t status = describe(pair, &scratch, look, out_known, &facts);
  shoal_arena_deinit(&scratch);
  if (!status) *out_facts = facts;
  return status;
}

shoal_status_t shoal_reshard_describe(const shoal_layout_t *src, int64_t src_micro,
                                      const shoal_layout_t *dst, int64_t dst_micro,
                                      const shoal_shape_t *shape, shoal_allocator_t allocator,
                                      shoal_reshard_facts_t *out_facts) {
  shoal_pair_t pair;
  bool known;
  SHOAL_RETURN_IF_ERROR(shoal_pair_init(src, src_micro, dst, dst_micro, shape, &pair));
  return shoal_pair_describe(&pair, allocator, SHOAL_LOOK_IF_NEEDED, &known, out_facts);
}
