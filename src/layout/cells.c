// Cells of layouts and of reshards; see cells.h. The runs are found by exploring each layout
// (explore.c); here they are joined, and axes on which it matters where parts lie are split up.
#include "layout/cells.h"

#include <stdlib.h>

#include "layout/layout_impl.h"

// ---- runs ------------------------------------------------------------------------------

typedef struct runs {
  bool all[SHOAL_MAX_AXES + 1];  // every coordinate is a run
  shoal_points_t breaks[SHOAL_MAX_AXES + 1];
} runs_t;

// Adds what one layout tells apart.
static shoal_status_t add_layout(const shoal_side_t *side, int64_t micro,
                                 const shoal_cut_list_t *cuts, shoal_arena_t *arena, runs_t *runs) {
  const int32_t rank = side->shape->rank;
  shoal_deals_t deals = {.arena = arena};
  shoal_dim_reps_t dims[SHOAL_MAX_RANK];
  shoal_explore_t how = {.mesh = side->layout->mesh,
                         .micro = micro,
                         .deals = &deals,
                         .arena = arena,
                         .breaks = runs->breaks};
  for (int32_t d = 0; d <= rank; ++d) {
    how.cut_count = cuts[d].count;
    how.cuts = cuts[d].cuts;
    if (d == rank) break;
    how.length = side->shape->dims[d];
    how.tile = shoal_layout_tile(side->layout, d);
    SHOAL_RETURN_IF_ERROR(shoal_dim_explore(&how, &dims[d]));
  }
  if (how.cut_count == 0) return NULL;
  shoal_points_t totals;
  SHOAL_RETURN_IF_ERROR(shoal_flat_totals(rank, dims, arena, &totals));
  return shoal_flat_explore(&how, &totals);
}

static shoal_status_t finish_axis(int64_t size, bool all, shoal_points_t *points,
                                  shoal_arena_t *arena, int64_t *out_count,
                                  const int64_t **out_starts) {
  static const int64_t zero = 0;
  *out_count = 1;
  *out_starts = &zero;
  if (!all) {
    shoal_points_sort(points);
    if (points->count > 1) {
      *out_count = points->count;
      *out_starts = points->items;
    }
    return NULL;
  }
  int64_t *starts = SHOAL_NEW(arena, int64_t, size);
  if (!starts) return SHOAL_OOM();
  for (int64_t i = 0; i < size; ++i) starts[i] = i;
  *out_count = size;
  *out_starts = starts;
  return NULL;
}

static shoal_status_t finish(const shoal_mesh_t *mesh, runs_t *runs, shoal_arena_t *arena,
                             shoal_cells_t *out_cells) {
  *out_cells = (shoal_cells_t){.mesh = mesh};
  for (int32_t i = 0; i <= SHOAL_MAX_AXES; ++i) {
    int64_t size = 1;
    if (i == SHOAL_CELLS_MICRO)
      size = shoal_layout_axis_size(mesh, SHOAL_AXIS_MICRO);
    else if (i < mesh->axis_count)
      size = mesh->axes[i].size;
    SHOAL_RETURN_IF_ERROR(finish_axis(size, runs->all[i], &runs->breaks[i], arena,
                                      &out_cells->run_count[i], &out_cells->run_starts[i]));
  }
  return NULL;
}

shoal_status_t shoal_layout_cells(const shoal_mesh_t *mesh, int64_t count,
                                  const shoal_cells_of_t *layouts, shoal_arena_t *arena,
                                  shoal_cells_t *out_cells) {
  runs_t runs = {0};
  for (int64_t i = 0; i < count; ++i) {
    // Compared with itself: that lists the cuts.
    shoal_pair_t pair;
    SHOAL_RETURN_IF_ERROR(shoal_pair_init(layouts[i].layout, layouts[i].micro, layouts[i].layout,
                                          layouts[i].micro, layouts[i].shape, &pair));
    SHOAL_RETURN_IF_ERROR(
        add_layout(&pair.src, pair.any_micro ? -1 : pair.src.micro, pair.src_cuts, arena, &runs));
  }
  return finish(mesh, &runs, arena, out_cells);
}

// ---- asking ----------------------------------------------------------------------------

int64_t shoal_cells_count(const shoal_cells_t *cells) {
  int64_t count = 1;
  for (int32_t i = 0; i < cells->mesh->axis_count; ++i) count *= cells->run_count[i];
  return count;
}

void shoal_cells_first(const shoal_cells_t *cells, int64_t cell,
                       int64_t out_coords[SHOAL_MAX_AXES]) {
  for (int32_t i = SHOAL_MAX_AXES - 1; i >= 0; --i) {
    out_coords[i] = 0;
    if (i >= cells->mesh->axis_count) continue;
    out_coords[i] = cells->run_starts[i][cell % cells->run_count[i]];
    cell /= cells->run_count[i];
  }
}

int64_t shoal_cells_find(const shoal_cells_t *cells, const int64_t coords[SHOAL_MAX_AXES]) {
  int64_t cell = 0;
  for (int32_t i = 0; i < cells->mesh->axis_count; ++i) {
    int64_t low = 0, high = cells->run_count[i];  // the last run that starts at or before it
    while (high - low > 1) {
      int64_t middle = low + (high - low) / 2;
      if (cells->run_starts[i][middle] <= coords[i])
        low = middle;
      else
        high = middle;
    }
    cell = cell * cells->run_count[i] + low;
  }
  return cell;
}

// ---- reshards --------------------------------------------------------------------------

static bool has_halo(const shoal_cut_list_t *list) {
  for (int32_t i = 0; i < list->count; ++i) {
    if (list->cuts[i]->before || list->cuts[i]->after) return true;
  }
  return false;
}

// Every coordinate along the axes of these cuts is a run.
static void split(const shoal_cut_list_t *list, int32_t from, runs_t *runs) {
  for (int32_t i = from; i < list->count; ++i) {
    const int32_t axis = list->cuts[i]->axis;
    runs->all[axis == SHOAL_AXIS_MICRO ? SHOAL_CELLS_MICRO : axis] = true;
  }
}

// Where it matters where parts lie.
static void split_pair(const shoal_pair_t *pair, runs_t *src, runs_t *dst) {
  const shoal_roles_t *roles = &pair->roles;
  bool differ = false;
  for (int32_t d = 0; d < pair->rank; ++d) {
    const shoal_cut_list_t *a = &pair->src_cuts[d], *b = &pair->dst_cuts[d];
    const bool tiles = shoal_pair_tiles_differ(pair, d), halo = has_halo(a) || has_halo(b) || tiles;
    differ |= tiles || a->count > a->same || b->count > b->same;
    if (!halo && (a->count == a->same || b->count == b->same)) continue;
    split(a, halo ? 0 : a->same, src);
    split(b, halo ? 0 : b->same, dst);
  }
  const shoal_cut_list_t *a = &pair->src_cuts[pair->rank], *b = &pair->dst_cuts[pair->rank];
  if (a->count + b->count > 0 && (differ || (a->count > a->same && b->count > b->same))) {
    for (int32_t d = 0; d <= pair->rank; ++d) {
      bool flat = d == pair->rank && differ;
      split(&pair->src_cuts[d], flat ? 0 : pair->src_cuts[d].same, src);
      split(&pair->dst_cuts[d], flat ? 0 : pair->dst_cuts[d].same, dst);
    }
  }
  if (roles->same_mesh) return;
  bool digits = false;
  for (int32_t i = 0; i < roles->src_mesh->axis_count; ++i) {
    digits |= roles->follows[i] && !roles->kept[i] && roles->twin[i] < 0;
  }
  const bool mixed = roles->overlap && roles->block < 0;
  for (int32_t i = 0; i < SHOAL_MAX_AXES; ++i) {
    src->all[i] |= mixed || digits;
    dst->all[i] |= mixed;
  }
}

// What is told apart along an axis is so along its twin.
static bool share_runs(const shoal_roles_t *roles, shoal_arena_t *arena, runs_t *src, runs_t *dst) {
  for (int32_t i = 0; i <= SHOAL_CELLS_MICRO; ++i) {
    if (i < SHOAL_MAX_AXES && i >= roles->src_mesh->axis_count) continue;
    const int32_t twin = i == SHOAL_CELLS_MICRO ? i : roles->twin[i];
    if (twin < 0) continue;
    src->all[i] = dst->all[twin] = src->all[i] || dst->all[twin];
    const int64_t count = src->breaks[i].count;
    for (int64_t k = 0; k < dst->breaks[twin].count; ++k) {
      if (!SHOAL_PUSH(arena, &src->breaks[i], dst->breaks[twin].items[k])) return false;
    }
    for (int64_t k = 0; k < count; ++k) {
      if (!SHOAL_PUSH(arena, &dst->breaks[twin], src->breaks[i].items[k])) return false;
    }
  }
  return true;
}

shoal_status_t shoal_pair_cells(const shoal_pair_t *pair, shoal_arena_t *arena,
                                shoal_reshard_cells_t *out_cells) {
  const shoal_roles_t *roles = &pair->roles;
  runs_t src = {0}, dst = {0};
  SHOAL_RETURN_IF_ERROR(
      add_layout(&pair->src, pair->any_micro ? -1 : pair->src.micro, pair->src_cuts, arena, &src));
  SHOAL_RETURN_IF_ERROR(
      add_layout(&pair->dst, pair->any_micro ? -1 : pair->dst.micro, pair->dst_cuts, arena, &dst));
  split_pair(pair, &src, &dst);
  for (int32_t i = 0; i < roles->dst_mesh->axis_count; ++i) {  // coordinate 0 gets the value
    if (!roles->spread[i]) continue;
    if (!SHOAL_PUSH(arena, &dst.breaks[i], (int64_t)0) ||
        !SHOAL_PUSH(arena, &dst.breaks[i], (int64_t)1)) {
      return SHOAL_OOM();
    }
  }
  // What a rank of the block has it need not receive.
  for (int64_t i = 0; i < 3 && roles->block >= 0; ++i) {
    const int64_t start = i == 0 ? 0 : roles->block + i - 1;
    if (start == roles->dst_mesh->axes[0].size) break;
    if (!SHOAL_PUSH(arena, &dst.breaks[0], start)) return SHOAL_OOM();
  }
  // Partial in time: the first micro-batch brings the value.
  if (pair->any_micro && shoal_layout_micro_partial(pair->dst.layout) &&
      !shoal_layout_micro_partial(pair->src.layout) &&
      shoal_layout_axis_size(roles->dst_mesh, SHOAL_AXIS_MICRO) > 1 &&
      (!SHOAL_PUSH(arena, &dst.breaks[SHOAL_CELLS_MICRO], (int64_t)0) ||
       !SHOAL_PUSH(arena, &dst.breaks[SHOAL_CELLS_MICRO], (int64_t)1))) {
    return SHOAL_OOM();
  }
  if (!share_runs(roles, arena, &src, &dst)) return SHOAL_OOM();
  out_cells->same_mesh = roles->same_mesh;
  SHOAL_RETURN_IF_ERROR(finish(roles->src_mesh, &src, arena, &out_cells->src));
  return finish(roles->dst_mesh, &dst, arena, &out_cells->dst);
}

shoal_status_t shoal_reshard_cells(const shoal_layout_t *src, int64_t src_micro,
                                   const shoal_layout_t *dst, int64_t dst_micro,
                                   const shoal_shape_t *shape, shoal_arena_t *arena,
                                   shoal_reshard_cells_t *out_cells) {
  shoal_pair_t pair;
  SHOAL_RETURN_IF_ERROR(shoal_pair_init(src, src_micro, dst, dst_micro, shape, &pair));
  return shoal_pair_cells(&pair, arena, out_cells);
}

// Runs end wherever one of the two does.
static shoal_status_t join_runs(const shoal_cells_t *a, const shoal_cells_t *b,
                                shoal_arena_t *arena, shoal_cells_t *out_cells) {
  shoal_cells_t joined = {.mesh = a->mesh};
  for (int32_t i = 0; i <= SHOAL_MAX_AXES; ++i) {
    shoal_points_t points = {0};
    for (int64_t k = 0; k < a->run_count[i]; ++k) {
      if (!SHOAL_PUSH(arena, &points, a->run_starts[i][k])) return SHOAL_OOM();
    }
    for (int64_t k = 0; k < b->run_count[i]; ++k) {
      if (!SHOAL_PUSH(arena, &points, b->run_starts[i][k])) return SHOAL_OOM();
    }
    shoal_points_sort(&points);
    joined.run_count[i] = points.count;
    joined.run_starts[i] = points.items;
  }
  *out_cells = joined;
  return NULL;
}

shoal_status_t shoal_reshard_cells_join(const shoal_reshard_cells_t *a,
                                        const shoal_reshard_cells_t *b, shoal_arena_t *arena,
                                        shoal_reshard_cells_t *out_cells) {
  shoal_reshard_cells_t joined = {.same_mesh = a->same_mesh && b->same_mesh};
  SHOAL_RETURN_IF_ERROR(join_runs(&a->src, &b->src, arena, &joined.src));
  SHOAL_RETURN_IF_ERROR(join_runs(&a->dst, &b->dst, arena, &joined.dst));
  *out_cells = joined;
  return NULL;
}

// ---- one rank per cell -----------------------------------------------------------------

typedef struct told {
  int64_t src, dst;  // cells, -1: the rank is not on that mesh
  int32_t rank;
} told_t;

static int compare_told(const void *a, const void *b) {
  const told_t *x = a, *y = b;
  if (x->src != y->src) return x->src < y->src ? -1 : 1;
  if (x->dst != y->dst) return x->dst < y->dst ? -1 : 1;
  return (x->rank > y->rank) - (x->rank < y->rank);
}

static int64_t cell_of(const shoal_cells_t *cells, int32_t rank) {
  int64_t coords[SHOAL_MAX_AXES], position = shoal_mesh_position(cells->mesh, rank);
  if (position < 0) return -1;
  shoal_mesh_coords(cells->mesh, position, coords);
  return shoal_cells_find(cells, coords);
}

static int32_t first_rank(const shoal_cells_t *cells, int64_t cell) {
  int64_t coords[SHOAL_MAX_AXES];
  shoal_cells_first(cells, cell, coords);
  return shoal_mesh_rank(cells->mesh, shoal_mesh_at(cells->mesh, coords));
}

shoal_status_t shoal_reshard_cells_ranks(const shoal_reshard_cells_t *cells, int64_t rank_count,
                                         const int32_t *ranks, shoal_arena_t *arena,
                                         int64_t *out_count, const int32_t **out_ranks) {
  const int64_t src = shoal_cells_count(&cells->src);
  const int64_t dst = cells->same_mesh ? 0 : shoal_cells_count(&cells->dst);
  const int64_t given = rank_count > 0 ? rank_count : src + dst;
  told_t *told = SHOAL_NEW(arena, told_t, given);
  int32_t *list = SHOAL_NEW(arena, int32_t, given);
  if (!told || !list) return SHOAL_OOM();
  int64_t count = 0, kept = 0;
  for (int64_t i = 0; i < given; ++i) {
    const int32_t rank = rank_count > 0 ? ranks[i]
                         : i < src      ? first_rank(&cells->src, i)
                                        : first_rank(&cells->dst, i - src);
    const int64_t here = cell_of(&cells->src, rank);
    const int64_t there = cells->same_mesh ? here : cell_of(&cells->dst, rank);
    if (here >= 0 || there >= 0) told[count++] = (told_t){here, there, rank};
  }
  qsort(told, (size_t)count, sizeof *told, compare_told);
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0 && told[i].src == told[i - 1].src && told[i].dst == told[i - 1].dst) continue;
    list[kept++] = told[i].rank;
  }
  *out_count = kept;
  *out_ranks = list;
  return NULL;
}
