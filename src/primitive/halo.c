// The geometry of sliding windows, and halo exchanges made of it.
//
// Letters: n inputs, M outputs, k kernel, s stride, d dilation, p padding before. Output j reads
// [s j - p, s j - p + d (k - 1)]; M = floor((n + padding - d (k - 1) - 1) / s) + 1, or 0. A part
// that computes outputs [a, b) needs [s a - p, s (b - 1) - p + d (k - 1)], clipped to [0, n):
// nothing says that this lies near what the part owns, or that it is not empty.
//
// As a cut: M items of s elements; relative to items [a, b) the need is p before and
// d (k - 1) + 1 - s - p behind, the same for every part, negative numbers trimming.
#include "base/status.h"
#include "comm/comm_impl.h"
#include "layout/layout_impl.h"
#include "primitive/primitive_impl.h"

// ---- geometry -------------------------------------------------------------------------

typedef struct window {
  int64_t reach;  // d (k - 1) + 1
  int64_t stride, before, after;
} window_t;

static int64_t at_least_one(int64_t value) {
  return value == 0 ? 1 : value;
}

static shoal_status_t window_of(const shoal_stencil_t *stencil, int64_t size, window_t *out) {
  const int64_t k = at_least_one(stencil->kernel), s = at_least_one(stencil->stride);
  const int64_t d = at_least_one(stencil->dilation), limit = INT32_MAX;
  if (k < 1 || s < 1 || d < 1 || stencil->before < 0 || stencil->after < 0 || size < 0) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                            "kernel, stride and dilation are at least 1, padding at least 0",
                            "a window of kernel %lld, stride %lld, dilation %lld, padding %lld and "
                            "%lld over %lld elements",
                            (long long)k, (long long)s, (long long)d, (long long)stencil->before,
                            (long long)stencil->after, (long long)size);
  }
  if (k > limit || s > limit || d > limit || stencil->before > limit || stencil->after > limit ||
      size > INT64_MAX / 4) {
    return SHOAL_ERROR(UNSUPPORTED, "a window with numbers beyond %lld", (long long)limit);
  }
  *out = (window_t){d * (k - 1) + 1, s, stencil->before, stencil->after};
  return NULL;
}

static int64_t count_outputs(const window_t *w, int64_t size) {
  const int64_t room = size + w->before + w->after - w->reach;
  return room < 0 ? 0 : room / w->stride + 1;
}

static shoal_stencil_part_t part_of(const window_t *w, int64_t size, shoal_interval_t output,
                                    shoal_interval_t owned) {
  shoal_stencil_part_t part = {.output = output, .owned = owned};
  if (output.size == 0) return part;
  const int64_t low = output.start * w->stride - w->before;
  const int64_t high = (output.start + output.size - 1) * w->stride - w->before + w->reach;
  const int64_t start = shoal_min64(shoal_max64(low, 0), size);
  const int64_t end = shoal_max64(shoal_min64(high, size), start);
  part.needed = (shoal_interval_t){start, end - start};
  part.pad_before = end > start ? start - low : high - low;  // nothing but padding: all before
  part.pad_after = end > start ? high - end : 0;
  return part;
}

shoal_status_t shoal_stencil_deal(const shoal_stencil_t *stencil, int64_t size, int64_t parts,
                                  const shoal_interval_t *owned, shoal_arena_t *arena,
                                  shoal_stencil_split_t *out_split) {
  window_t w = {.stride = 1};
  SHOAL_RETURN_IF_ERROR(window_of(stencil, size, &w));
  if (parts < 1) return SHOAL_ERROR(INVALID_ARGUMENT, "%lld parts", (long long)parts);
  shoal_stencil_part_t *list = SHOAL_NEW(arena, shoal_stencil_part_t, parts);
  if (!list) return SHOAL_OOM();
  shoal_stencil_split_t split = {
      .output_size = count_outputs(&w, size), .part_count = parts, .parts = list, .text = ""};
  int64_t from, to = 0;
  for (int64_t i = 0; i < parts; ++i) {
    shoal_interval_t mine = {0}, outputs;
    if (owned) {
      mine = owned[i];
    } else {
      shoal_layout_deal(size, parts, NULL, i, NULL, &from, &to);
      mine = (shoal_interval_t){from, to - from};
    }
    if (stencil->outputs) {
      outputs.start = i ? list[i - 1].output.start + list[i - 1].output.size : 0;
      outputs.size = stencil->outputs[i];
      if (outputs.size < 0 || outputs.size > split.output_size - outputs.start) {
        return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "the parts' outputs add up to all outputs",
                                "part %lld is to compute %lld outputs behind %lld of %lld",
                                (long long)i, (long long)outputs.size, (long long)outputs.start,
                                (long long)split.output_size);
      }
    } else {
      shoal_layout_deal(split.output_size, parts, NULL, i, NULL, &from, &to);
      outputs = (shoal_interval_t){from, to - from};
    }
    list[i] = part_of(&w, size, outputs, mine);
  }
  const shoal_interval_t last = list[parts - 1].output;
  if (stencil->outputs && last.start + last.size != split.output_size) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "the parts' outputs add up to all outputs",
                            "%lld of %lld outputs are given to parts",
                            (long long)(last.start + last.size), (long long)split.output_size);
  }
  if (!stencil->outputs && split.output_size > 0) {
    split.constant = true;
    split.cut = (shoal_cut_t){.kind = SHOAL_CUT_DIM,
                              .unit = w.stride,
                              .items = split.output_size,
                              .before = w.before,
                              .after = w.reach - w.stride - w.before};
    split.text = shoal_arena_printf(arena, "/%lld#%lld%+lld%+lld", (long long)split.cut.unit,
                                    (long long)split.cut.items, (long long)split.cut.before,
                                    (long long)split.cut.after);
    if (!split.text) return SHOAL_OOM();
  }
  *out_split = split;
  return NULL;
}

// The least j with s j >= value.
static int64_t first_at(int64_t value, int64_t stride) {
  return value <= 0 ? 0 : (value + stride - 1) / stride;
}

shoal_interval_t shoal_stencil_inner(const shoal_stencil_t *stencil, int64_t size,
                                     const shoal_stencil_part_t *part) {
  window_t w = {.stride = 1};
  shoal_status_t status = window_of(stencil, size, &w);
  shoal_interval_t inner = {part->output.start, 0};
  if (status || part->owned.size == 0) {
    shoal_status_free(status);
    return inner;
  }
  int64_t from = part->output.start, to = from + part->output.size;
  const int64_t end = part->owned.start + part->owned.size;
  // s j - p >= start of the owned part, and s j - p + reach <= its end; at the ends of the whole
  // there is padding behind it.
  if (part->owned.start > 0) {
    from = shoal_max64(from, first_at(part->owned.start + w.before, w.stride));
  }
  if (end < size) to = shoal_min64(to, first_at(end + w.before - w.reach + 1, w.stride));
  if (from < to) inner = (shoal_interval_t){from, to - from};
  return inner;
}

// ---- halo exchange --------------------------------------------------------------------

typedef struct halo {
  const shoal_layout_t *layout;
  const shoal_shape_t *shape;
  const shoal_stencil_t *stencils;
  shoal_arena_t *arena;
  shoal_stencil_split_t splits[SHOAL_MAX_RANK];
  shoal_boxes_t *boxes;  // by position
} halo_t;

// Index among the parts of a dim: coordinates along the axes that cut it, the first written
// outermost.
static int64_t slot_of(const halo_t *halo, int32_t dim, int64_t position, int64_t *out_slots) {
  const shoal_mesh_t *mesh = halo->layout->mesh;
  int64_t coords[SHOAL_MAX_AXES], slot = 0;
  shoal_mesh_coords(mesh, position, coords);
  *out_slots = 1;
  for (int32_t i = 0; i < halo->layout->cut_count; ++i) {
    const shoal_cut_t *cut = &halo->layout->cuts[i];
    if (cut->kind != SHOAL_CUT_DIM || cut->dim != dim || cut->axis < 0) continue;
    slot = slot * mesh->axes[cut->axis].size + coords[cut->axis];
    *out_slots *= mesh->axes[cut->axis].size;
  }
  return slot;
}

static shoal_status_t own_interval(const halo_t *halo, int64_t position, int32_t dim,
                                   shoal_interval_t *out) {
  const shoal_dim_part_t *part = &halo->boxes[position].dims[dim];
  if (part->own_count > 1) {
    return SHOAL_ERROR_HINT(UNSUPPORTED, "repartition to a layout without chunks first",
                            "a halo exchange of parts that are not one box, along dim %d", dim);
  }
  *out = part->own_count ? part->own[0] : (shoal_interval_t){0};
  return NULL;
}

static shoal_status_t deal_dim(halo_t *halo, int32_t dim) {
  const int64_t size = shoal_mesh_size(halo->layout->mesh);
  int64_t slots;
  slot_of(halo, dim, 0, &slots);
  shoal_interval_t *owned = SHOAL_NEW(halo->arena, shoal_interval_t, slots);
  if (!owned) return SHOAL_OOM();
  for (int64_t i = 0; i < size; ++i) {
    const int64_t slot = slot_of(halo, dim, i, &slots);
    SHOAL_RETURN_IF_ERROR(own_interval(halo, i, dim, &owned[slot]));
  }
  return shoal_status_annotatef(shoal_stencil_deal(&halo->stencils[dim], halo->shape->dims[dim],
                                                   slots, owned, halo->arena, &halo->splits[dim]),
                                "along dim %d", dim);
}

static shoal_status_t find_part(const halo_t *halo, int64_t position, int32_t dim,
                                shoal_stencil_part_t *out_part) {
  if (halo->stencils[dim].kernel) {
    int64_t slots;
    *out_part = halo->splits[dim].parts[slot_of(halo, dim, position, &slots)];
    return NULL;
  }
  shoal_interval_t own;
  SHOAL_RETURN_IF_ERROR(own_interval(halo, position, dim, &own));
  *out_part = (shoal_stencil_part_t){.output = own, .needed = own, .owned = own};
  return NULL;
}

static shoal_status_t find_boxes(halo_t *halo) {
  const int64_t size = shoal_mesh_size(halo->layout->mesh);
  halo->boxes = SHOAL_NEW(halo->arena, shoal_boxes_t, size);
  if (!halo->boxes) return SHOAL_OOM();
  for (int64_t i = 0; i < size; ++i) {
    SHOAL_RETURN_IF_ERROR(
        shoal_layout_boxes(halo->layout, halo->shape, i, -1, halo->arena, &halo->boxes[i]));
  }
  if (!shoal_layout_is_flat(halo->layout)) return NULL;
  return SHOAL_ERROR_HINT(UNSUPPORTED, "repartition to a layout that cuts dims first",
                          "a halo exchange of flat parts");
}

shoal_status_t shoal_halo_plan(const shoal_layout_t *layout, const shoal_shape_t *shape,
                               const shoal_stencil_t *stencils, shoal_arena_t *arena,
                               shoal_holding_t *out_dst,
                               const shoal_stencil_part_t **out_geometry) {
  halo_t halo = {.layout = layout, .shape = shape, .stencils = stencils, .arena = arena};
  const int64_t size = shoal_mesh_size(layout->mesh);
  const int32_t rank = shape->rank;
  SHOAL_RETURN_IF_ERROR(find_boxes(&halo));
  for (int32_t d = 0; d < rank; ++d) {
    if (stencils[d].kernel) SHOAL_RETURN_IF_ERROR(deal_dim(&halo, d));
  }
  shoal_part_t *parts = SHOAL_NEW(arena, shoal_part_t, size);
  shoal_stencil_part_t *geometry = SHOAL_NEW(arena, shoal_stencil_part_t, size * rank);
  if (!parts || !geometry) return SHOAL_OOM();
  for (int64_t i = 0; i < size; ++i) {
    parts[i].rank = shoal_mesh_rank(layout->mesh, i);
    parts[i].replica = shoal_holdings_replica(layout, i);
    for (int32_t d = 0; d < rank; ++d) {
      shoal_stencil_part_t *part = &geometry[i * rank + d];
      SHOAL_RETURN_IF_ERROR(find_part(&halo, i, d, part));
      parts[i].held.start[d] = part->needed.start;
      parts[i].held.size[d] = part->needed.size;
    }
  }
  *out_dst = (shoal_holding_t){.part_count = size, .parts = parts};
  *out_geometry = geometry;
  return NULL;
}

static shoal_primitive_options_t with_refresh(const shoal_primitive_options_t *options) {
  shoal_primitive_options_t changed = options ? *options : (shoal_primitive_options_t){0};
  changed.refresh = true;
  return changed;
}

shoal_status_t shoal_primitive_halo(shoal_world_t *world, shoal_dtype_t dtype,
                                    const shoal_shape_t *shape, const shoal_layout_t *layout,
                                    const shoal_stencil_t *stencils,
                                    const shoal_primitive_options_t *options,
                                    shoal_primitive_t **out_primitive) {
  shoal_arena_t arena;
  shoal_arena_init(world->allocator, &arena);
  const shoal_holding_t src = {.layout = layout, .micro = -1};
  shoal_holding_t dst;
  const shoal_stencil_part_t *geometry;
  shoal_primitive_t *primitive = NULL;
  const shoal_primitive_options_t owned_only = with_refresh(options);
  shoal_status_t status = shoal_halo_plan(layout, shape, stencils, &arena, &dst, &geometry);
  if (!status) {
    status = shoal_primitive_create(world, dtype, shape, &src, &dst, &owned_only, &primitive);
  }
  if (!status) {
    const int64_t position = shoal_mesh_position(layout->mesh, shoal_world_rank(world));
    for (int32_t d = 0; position >= 0 && d < shape->rank; ++d) {
      shoal_primitive_set_stencil(primitive, d, geometry[position * shape->rank + d]);
    }
    *out_primitive = primitive;
  }
  shoal_arena_deinit(&arena);
  return status;
}

shoal_status_t shoal_primitive_refresh(shoal_world_t *world, shoal_dtype_t dtype,
                                       const shoal_shape_t *shape, const shoal_layout_t *layout,
                                       const shoal_primitive_options_t *options,
                                       shoal_primitive_t **out_primitive) {
  const shoal_primitive_options_t refresh = with_refresh(options);
  const shoal_holding_t both = {.layout = layout, .micro = -1};
  return shoal_primitive_create(world, dtype, shape, &both, &both, &refresh, out_primitive);
}
