// The largest part of a value over ranks and micro-batches: what a buffer is planned at.
//
// Not every coordinate is looked at. Dealt without weights or items the parts along an axis have
// two sizes, the larger ones first, and the last may be short; a halo is widest where there are
// neighbours on both sides. So the first, the second and the last coordinate show the largest.
// With weights or items, with a halo that may reach past the next part, where an outer part may lie
// across a chunk's end, or on short axes, all are looked at. Axes that do not cut are not walked at
// all. Of a class that has only some ranks of the mesh, every rank is looked at.
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

// A walk over coordinates and micro-batches, and the largest part it saw.
typedef struct walk {
  const shoal_layout_t *layout;
  const shoal_shape_t *shape;
  int64_t micros, micro_samples;
  shoal_arena_t scratch;
  int64_t most;
} walk_t;

static shoal_status_t look_at(walk_t *w, int64_t position) {
  for (int64_t i = 0; i < w->micro_samples; ++i) {
    shoal_boxes_t boxes;
    SHOAL_RETURN_IF_ERROR(shoal_layout_boxes(w->layout, w->shape, position,
                                             sample(i, w->micro_samples, w->micros), &w->scratch,
                                             &boxes));
    shoal_shape_t shape = shoal_boxes_shape(&boxes);
    int64_t count = shoal_shape_count(&shape);
    if (count > w->most) w->most = count;
  }
  return NULL;
}

static shoal_status_t look_at_mesh(walk_t *w) {
  const shoal_mesh_t *mesh = w->layout->mesh;
  int64_t total = 1, samples[SHOAL_MAX_AXES];
  for (int32_t a = 0; a < mesh->axis_count; ++a) {
    total *= samples[a] = samples_of(w->layout, a, mesh->axes[a].size);
  }
  for (int64_t i = 0; i < total; ++i) {
    int64_t coords[SHOAL_MAX_AXES] = {0}, rest = i;
    for (int32_t a = mesh->axis_count - 1; a >= 0; --a) {
      coords[a] = sample(rest % samples[a], samples[a], mesh->axes[a].size);
      rest /= samples[a];
    }
    SHOAL_RETURN_IF_ERROR(look_at(w, shoal_mesh_at(mesh, coords)));
  }
  return NULL;
}

// Which of the mesh's coordinates a class has follows no pattern: all of its ranks are looked at.
static shoal_status_t look_at_class(walk_t *w, const shoal_class_t *class) {
  for (int64_t i = 0; i < class->rank_count; ++i) {
    int64_t position = shoal_mesh_position(w->layout->mesh, class->ranks[i]);
    if (position >= 0) SHOAL_RETURN_IF_ERROR(look_at(w, position));
  }
  return NULL;
}

// Is there a rank of the mesh that the class lacks, and does it matter?
static bool is_some_of(const shoal_layout_t *layout, const shoal_class_t *class) {
  const shoal_mesh_t *mesh = layout->mesh;
  bool cut = false;
  int64_t ranks = 0;
  for (int32_t a = 0; a < mesh->axis_count; ++a) {
    cut |= samples_of(layout, a, mesh->axes[a].size) > 1;
  }
  for (int64_t i = 0; i < class->rank_count && cut; ++i) {
    ranks += shoal_mesh_position(mesh, class->ranks[i]) >= 0;
  }
  return cut && ranks < shoal_mesh_size(mesh);
}

shoal_status_t shoal_layout_largest(const shoal_layout_t *layout, const shoal_type_t *type,
                                    const shoal_class_t *class, shoal_allocator_t allocator,
                                    int64_t *out_bytes) {
  int64_t micros = layout->mesh->micro > 1 ? layout->mesh->micro : 1;
  walk_t w = {.layout = layout, .shape = &type->shape, .micros = micros};
  w.micro_samples = samples_of(layout, SHOAL_AXIS_MICRO, micros);
  shoal_arena_init(allocator, &w.scratch);
  shoal_status_t status =
      class && is_some_of(layout, class) ? look_at_class(&w, class) : look_at_mesh(&w);
  shoal_arena_deinit(&w.scratch);
  if (!status) status = shoal_dtype_bytes(type->dtype, w.most, out_bytes);
  return status;
}
