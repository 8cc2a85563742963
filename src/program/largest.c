// The largest part of a value over ranks and micro-batches: what a buffer is planned at.
//
// Not every coordinate is looked at. Dealt without weights or items the parts along an axis have
// two sizes, the larger ones first, and the last may be short; a halo is widest where there are
// neighbours on both sides. So the first, the second and the last coordinate show the largest; with
// weights or items, or on short axes, all are looked at. Axes that do not cut are not walked at
// all.
#include "base/dtype.h"
#include "program/program_impl.h"

enum { SHORT_AXIS = 8 };

// How many coordinates to look at, of `size`.
static int64_t samples_of(const shoal_layout_t *layout, int32_t axis, int64_t size) {
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *cut = &layout->cuts[i];
    if (cut->axis != axis || cut->kind == SHOAL_CUT_PARTIAL) continue;
    return size <= SHORT_AXIS || cut->weights || cut->items ? size : 3;
  }
  return 1;
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
