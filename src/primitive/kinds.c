// The named kinds: each makes two layouts of one and a set of axes. Nothing here knows how anything
// moves.
#include "base/status.h"
#include "comm/comm_impl.h"
#include "comm/mesh_group.h"
#include "primitive/primitive_impl.h"

// What a kind starts from, and the two layouts it makes.
typedef struct pair {
  const shoal_layout_t *layout;
  int32_t axis_count, axes[SHOAL_MAX_AXES];
  shoal_arena_t arena;
  shoal_mesh_t corner;  // the mesh at coordinate 0 along the axes
  shoal_layout_t src, dst;
} pair_t;

static bool names(const pair_t *pair, int32_t axis) {
  for (int32_t i = 0; i < pair->axis_count; ++i) {
    if (pair->axes[i] == axis) return true;
  }
  return false;
}

static const char *axis_name(const pair_t *pair, int32_t i) {
  return pair->layout->mesh->axes[pair->axes[i]].name;
}

// `layout` on the mesh that has lost the axes: the same cuts, by other indices.
static shoal_status_t move_to_corner(pair_t *pair, shoal_layout_t *out_layout) {
  const shoal_mesh_t *mesh = pair->layout->mesh;
  shoal_mesh_t corner = {.micro = mesh->micro};
  int32_t index[SHOAL_MAX_AXES];
  for (int32_t i = 0; i < mesh->axis_count; ++i) {
    if (names(pair, i)) continue;
    index[i] = corner.axis_count;
    corner.axes[corner.axis_count++] = mesh->axes[i];
  }
  const int64_t size = shoal_mesh_size(&corner);
  int32_t *ranks = SHOAL_NEW(&pair->arena, int32_t, size);
  if (!ranks) return SHOAL_OOM();
  for (int64_t k = 0; k < size; ++k) {
    int64_t small[SHOAL_MAX_AXES], coords[SHOAL_MAX_AXES] = {0};
    shoal_mesh_coords(&corner, k, small);
    for (int32_t i = 0; i < mesh->axis_count; ++i) {
      if (!names(pair, i)) coords[i] = small[index[i]];
    }
    ranks[k] = shoal_mesh_rank(mesh, shoal_mesh_at(mesh, coords));
  }
  corner.ranks = ranks;
  pair->corner = corner;
  shoal_layout_t layout = *pair->layout;
  layout.mesh = &pair->corner;
  for (int32_t i = 0; i < layout.cut_count; ++i) {
    const int32_t axis = layout.cuts[i].axis;
    if (axis >= 0 && names(pair, axis)) {
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "leave the axis out of the layout",
                              "the layout names axis '%s', along which there are only copies",
                              mesh->axes[axis].name);
    }
    if (axis >= 0) layout.cuts[i].axis = index[axis];
  }
  *out_layout = layout;
  return NULL;
}

static shoal_status_t add_partials(const pair_t *pair, shoal_layout_t *layout) {
  for (int32_t i = 0; i < pair->axis_count; ++i) {
    if (layout->cut_count == SHOAL_MAX_CUTS) {
      return SHOAL_ERROR(UNSUPPORTED, "a layout of more than %d items", SHOAL_MAX_CUTS);
    }
    layout->cuts[layout->cut_count++] =
        (shoal_cut_t){.axis = pair->axes[i], .kind = SHOAL_CUT_PARTIAL, .reduce = SHOAL_REDUCE_SUM};
  }
  return NULL;
}

// Without the cuts along the axes, each of which must cut.
static shoal_status_t drop_cuts(const pair_t *pair, shoal_layout_t *layout) {
  for (int32_t k = 0; k < pair->axis_count; ++k) {
    int32_t at = 0;
    while (at < layout->cut_count &&
           (layout->cuts[at].axis != pair->axes[k] || layout->cuts[at].kind == SHOAL_CUT_PARTIAL)) {
      ++at;
    }
    if (at == layout->cut_count) {
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "name axes that cut a dim, or flat",
                              "the layout is not cut along axis '%s'", axis_name(pair, k));
    }
    --layout->cut_count;
    for (; at < layout->cut_count; ++at) layout->cuts[at] = layout->cuts[at + 1];
  }
  return NULL;
}

typedef shoal_status_t (*kind_fn_t)(pair_t *pair, int32_t dim);

static shoal_status_t broadcast(pair_t *pair, int32_t dim) {
  (void)dim;
  return move_to_corner(pair, &pair->src);
}

static shoal_status_t sum_reduce(pair_t *pair, int32_t dim) {
  (void)dim;
  SHOAL_RETURN_IF_ERROR(move_to_corner(pair, &pair->dst));
  return add_partials(pair, &pair->src);
}

static shoal_status_t all_sum_reduce(pair_t *pair, int32_t dim) {
  (void)dim;
  return add_partials(pair, &pair->src);
}

static shoal_status_t all_gather(pair_t *pair, int32_t dim) {
  (void)dim;
  return drop_cuts(pair, &pair->dst);
}

static shoal_status_t reduce_scatter(pair_t *pair, int32_t dim) {
  (void)dim;
  SHOAL_RETURN_IF_ERROR(drop_cuts(pair, &pair->src));
  return add_partials(pair, &pair->src);
}

static shoal_status_t all_to_all(pair_t *pair, int32_t dim) {
  if (pair->axis_count != 1) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "an all-to-all along %d axes instead of one",
                       pair->axis_count);
  }
  SHOAL_RETURN_IF_ERROR(drop_cuts(pair, &pair->dst));
  // Before flat items, which come last.
  int32_t at = pair->dst.cut_count++;
  for (; at > 0 && pair->dst.cuts[at - 1].kind == SHOAL_CUT_FLAT; --at) {
    pair->dst.cuts[at] = pair->dst.cuts[at - 1];
  }
  pair->dst.cuts[at] = (shoal_cut_t){.axis = pair->axes[0], .kind = SHOAL_CUT_DIM, .dim = dim};
  return NULL;
}

static shoal_status_t create(kind_fn_t kind, shoal_world_t *world, shoal_dtype_t dtype,
                             const shoal_shape_t *shape, const shoal_layout_t *layout,
                             const char *axes, int32_t dim,
                             const shoal_primitive_options_t *options, shoal_primitive_t **out) {
  pair_t pair = {.layout = layout, .src = *layout, .dst = *layout};
  SHOAL_RETURN_IF_ERROR(shoal_mesh_axes(layout->mesh, axes, &pair.axis_count, pair.axes));
  shoal_arena_init(world->allocator, &pair.arena);
  shoal_status_t status = kind(&pair, dim);
  if (!status) {
    status = shoal_primitive_create(world, dtype, shape, &(shoal_holding_t){.layout = &pair.src},
                                    &(shoal_holding_t){.layout = &pair.dst}, options, out);
  }
  shoal_arena_deinit(&pair.arena);
  return status;
}

shoal_status_t shoal_primitive_broadcast(shoal_world_t *world, shoal_dtype_t dtype,
                                         const shoal_shape_t *shape, const shoal_layout_t *layout,
                                         const char *axes, const shoal_primitive_options_t *options,
                                         shoal_primitive_t **out_primitive) {
  return create(broadcast, world, dtype, shape, layout, axes, 0, options, out_primitive);
}

shoal_status_t shoal_primitive_sum_reduce(shoal_world_t *world, shoal_dtype_t dtype,
                                          const shoal_shape_t *shape, const shoal_layout_t *layout,
                                          const char *axes,
                                          const shoal_primitive_options_t *options,
                                          shoal_primitive_t **out_primitive) {
  return create(sum_reduce, world, dtype, shape, layout, axes, 0, options, out_primitive);
}

shoal_status_t shoal_primitive_all_sum_reduce(shoal_world_t *world, shoal_dtype_t dtype,
                                              const shoal_shape_t *shape,
                                              const shoal_layout_t *layout, const char *axes,
                                              const shoal_primitive_options_t *options,
                                              shoal_primitive_t **out_primitive) {
  return create(all_sum_reduce, world, dtype, shape, layout, axes, 0, options, out_primitive);
}

shoal_status_t shoal_primitive_all_gather(shoal_world_t *world, shoal_dtype_t dtype,
                                          const shoal_shape_t *shape, const shoal_layout_t *layout,
                                          const char *axes,
                                          const shoal_primitive_options_t *options,
                                          shoal_primitive_t **out_primitive) {
  return create(all_gather, world, dtype, shape, layout, axes, 0, options, out_primitive);
}

shoal_status_t shoal_primitive_reduce_scatter(shoal_world_t *world, shoal_dtype_t dtype,
                                              const shoal_shape_t *shape,
                                              const shoal_layout_t *layout, const char *axes,
                                              const shoal_primitive_options_t *options,
                                              shoal_primitive_t **out_primitive) {
  return create(reduce_scatter, world, dtype, shape, layout, axes, 0, options, out_primitive);
}

shoal_status_t shoal_primitive_all_to_all(shoal_world_t *world, shoal_dtype_t dtype,
                                          const shoal_shape_t *shape, const shoal_layout_t *layout,
                                          const char *axis, int32_t dim,
                                          const shoal_primitive_options_t *options,
                                          shoal_primitive_t **out_primitive) {
  return create(all_to_all, world, dtype, shape, layout, axis, dim, options, out_primitive);
}
