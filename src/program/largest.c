// The largest part of a value over ranks and micro-batches: what a buffer is planned at.
//
// Not every coordinate is looked at. Dealt without weights or items the parts along an axis have
// two sizes, the larger ones first, and the last may be short; a halo is widest where there are
// neighbours on both sides. So the first, the second and the last coordinate show the largest.
// With weights or items, with a halo that may reach past the next part, where an outer part may lie
// across a chunk's end, or on short axes, all are looked at. Axes that do not cut are not walked at
// all.
#include "base/dtype.h"
#include "program/program_impl.h"

enum { SHORT_AXIS = 8 };

// Is the dim cut more than once, and once by chunks?
static bool across_chunks(const shoal_layout_t *layout, int32_t dim) {
  int32_t cuts = 0, chunked = 0;
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *cut = &layout->cuts[i];
    if (cut->kind != SHOAL_CUT_DIM || cut->dim != dim) continue;
    ++cuts;
    chunked += cut->chunk_count > 0;
  }
  return cuts > 1 && chunked > 0;
}

bool shoal_layout_uneven(const shoal_layout_t *layout, int32_t axis) {
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *cut = &layout->cuts[i];
    int64_t least = cut->unit > 1 ? cut->unit : 1;  // what a part has, unless it is the last
    if (cut->axis != axis || cut->kind == SHOAL_CUT_PARTIAL) continue;
    if (cut->weights || cut->items || cut->before > least || cut->after > least) return true;
    if (cut->kind == SHOAL_CUT_DIM && across_chunks(layout, cut->dim)) return true;
  }
  return false;
}

// How many coordinates to look at, of `size`.
static int64_t samples_of(const shoal_layout_t *layout, int32_t axis, int64_t size) {
  bool cuts = false;
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    cuts |= layout->cuts[i].axis == axis && layout->cuts[i].kind != SHOAL_CUT_PARTIAL;
  }
  if (!cuts) return 1;
  return size <= SHORT_AXIS || shoal_layout_uneven(layout, axis) ? size : 3;
}

static int64_t sample(int64_t index, int64_t samples, int64_t size) {
  return index > 0 && index == samples - 1 ? size - 1 : index;
}

shoal_status_t shoal_layout_largest(const shoal_layout_t *layout, const shoal_type_t *type,
                                    shoal_allocator_t allocator, int64_t *out_bytes) {
  const shoal_mesh_t *mesh = layout->mesh;
  int64_t micros = mesh->micro > 1 ? mesh->micro : 1, total = 1, most = 0;
  int64_t samples[SHOAL_MAX_AXES + 1];
  for (int32_t a = 0; a < mesh->axis_count; ++a) {
    total *= samples[a] = samples_of(layout, a, mesh->axes[a].size);
  }
  int32_t last = mesh->axis_count;
  total *= samples[last] = samples_of(layout, SHOAL_AXIS_MICRO, micros);
  shoal_arena_t scratch;
  shoal_arena_init(allocator, &scratch);
  shoal_status_t status = NULL;
  for (int64_t i = 0; i < total && !status; ++i) {
    int64_t coords[SHOAL_MAX_AXES] = {0}, rest = i / samples[last];
    int64_t micro = sample(i % samples[last], samples[last], micros);
    for (int32_t a = mesh->axis_count - 1; a >= 0; --a) {
      coords[a] = sample(rest % samples[a], samples[a], mesh->axes[a].size);
      rest /= samples[a];
    }
    shoal_boxes_t boxes;
    status = shoal_layout_boxes(layout, &type->shape, shoal_mesh_at(mesh, coords), micro, &scratch,
                                &boxes);
    if (status) break;
    shoal_shape_t shape = shoal_boxes_shape(&boxes);
    int64_t count = shoal_shape_count(&shape);
    if (count > most) most = count;
  }
  shoal_arena_deinit(&scratch);
  if (!status) status = shoal_dtype_bytes(type->dtype, most, out_bytes);
  return status;
}
