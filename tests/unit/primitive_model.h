// What the tests of primitives share: a model of what a primitive computes, written element by
// element over whole tensors, and the inner-product test. Elements are small integers, so that
// every sum is exact and every comparison is for equality.
#ifndef SHOAL_TESTS_UNIT_COMM_PRIMITIVE_MODEL_H_
#define SHOAL_TESTS_UNIT_COMM_PRIMITIVE_MODEL_H_

#include <stdlib.h>

#include "base/arena.h"
#include "comm_ranks.h"
#include "shoal/primitive.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static inline uint64_t mix(uint64_t a, uint64_t b) {
  a = (a ^ b) * UINT64_C(0x9e3779b97f4a7c15);
  return a ^ a >> 29;
}

// -8 to 8, different for every seed and element.
static inline double small(uint64_t seed, int64_t element) {
  return (double)(int64_t)(mix(mix(seed, 77), (uint64_t)element) % 17) - 8;
}

typedef struct randoms {
  uint64_t state;
} randoms_t;

static inline int64_t pick(randoms_t *r, int64_t low, int64_t high) {  // inclusive
  r->state = mix(r->state + 1, UINT64_C(0xd1b54a32d192ed03));
  return low + (int64_t)(r->state >> 20) % (high - low + 1);
}

static inline const shoal_cut_t *partial_along(const shoal_layout_t *layout, int32_t axis) {
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *cut = &layout->cuts[i];
    if (cut->kind == SHOAL_CUT_PARTIAL && cut->axis == axis && layout->mesh->axes[axis].size > 1) {
      return cut;
    }
  }
  return NULL;
}

// The source's value of an element at these coordinates: copies agree, partials have one each.
static inline double source_value(const shoal_layout_t *src, const int64_t *coords,
                                  int64_t element) {
  uint64_t seed = 3;
  for (int32_t i = 0; i < src->mesh->axis_count; ++i) {
    if (partial_along(src, i)) seed = mix(seed, (uint64_t)(i * 100 + coords[i]));
  }
  return small(seed, element);
}

// What the destination's rank at these coordinates is to have of it.
static inline double model_value(const shoal_layout_t *src, const shoal_layout_t *dst,
                                 const int64_t *coords, int64_t element) {
  bool kept[SHOAL_MAX_AXES] = {0}, joined[SHOAL_MAX_AXES] = {0};
  int64_t at[SHOAL_MAX_AXES] = {0}, joins = 1;
  for (int32_t i = 0; i < src->mesh->axis_count; ++i) {
    if (!partial_along(src, i)) continue;
    int32_t twin = shoal_mesh_axis(dst->mesh, src->mesh->axes[i].name);
    const shoal_cut_t *match = twin >= 0 ? partial_along(dst, twin) : NULL;
    if (match && dst->mesh->axes[twin].size == src->mesh->axes[i].size) {
      kept[twin] = true;
      at[i] = coords[twin];
    } else {
      joined[i] = true;
      joins *= src->mesh->axes[i].size;
    }
  }
  for (int32_t i = 0; i < dst->mesh->axis_count; ++i) {
    if (partial_along(dst, i) && !kept[i] && coords[i] != 0) return 0;
  }
  double sum = 0;
  for (int64_t join = 0; join < joins; ++join) {
    int64_t rest = join;
    for (int32_t i = src->mesh->axis_count - 1; i >= 0; --i) {
      if (!joined[i]) continue;
      at[i] = rest % src->mesh->axes[i].size;
      rest /= src->mesh->axes[i].size;
    }
    sum += source_value(src, at, element);
  }
  return sum;
}

// Which element of the whole each stored element of a part is.
static inline shoal_status_t elements_of(const shoal_layout_t *layout, const shoal_shape_t *shape,
                                         int32_t rank, shoal_arena_t *arena, int64_t *coords,
                                         int64_t *out_count, int64_t **out_elements) {
  *out_count = 0;
  *out_elements = NULL;
  const int64_t position = shoal_mesh_position(layout->mesh, rank);
  if (position < 0) return NULL;
  shoal_mesh_coords(layout->mesh, position, coords);
  shoal_boxes_t boxes;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_layout_boxes(layout, shape, position, 0, arena, &boxes));
  SHOAL_RETURN_IF_ERROR(shoal_boxes_place(&boxes, arena, &place));
  shoal_shape_t part = shoal_boxes_shape(&boxes);
  *out_count = shoal_shape_count(&part);
  *out_elements = SHOAL_NEW(arena, int64_t, *out_count);
  for (int64_t i = 0; i < *out_count; ++i) (*out_elements)[i] = shoal_place_global(&place, i);
  return NULL;
}

// ---- inner products -------------------------------------------------------------------

// One number per rank and case; the main thread adds them up.
typedef struct products {
  double forward[MAX_RANKS], adjoint[MAX_RANKS];
} products_t;

// <F x, y> and <x, F* y> of this rank's parts, with x and y of its own.
static inline shoal_status_t inner_products(shoal_primitive_t *p, int32_t rank, uint64_t seed,
                                            products_t *products) {
  const shoal_shape_t src_shape = shoal_primitive_src_shape(p);
  const shoal_shape_t dst_shape = shoal_primitive_dst_shape(p);
  const int64_t src = shoal_shape_count(&src_shape), dst = shoal_shape_count(&dst_shape);
  const size_t bytes = (size_t)(2 * (src + dst) + 1) * sizeof(double);
  double *x = malloc(bytes), *fx = x + src, *y = fx + dst, *fy = y + dst;
  for (int64_t i = 0; i < src; ++i) {
    x[i] = small(mix(seed, 1000 + (uint64_t)rank), i);
    fy[i] = 1e30;  // what is not written shows
  }
  for (int64_t i = 0; i < dst; ++i) {
    y[i] = small(mix(seed, 2000 + (uint64_t)rank), i);
    fx[i] = 1e30;
  }
  shoal_status_t status = shoal_primitive_apply(p, src ? x : NULL, dst ? fx : NULL);
  if (!status) status = shoal_primitive_apply_adjoint(p, dst ? y : NULL, src ? fy : NULL);
  double forward = 0, adjoint = 0;
  for (int64_t i = 0; i < dst; ++i) forward += fx[i] * y[i];
  for (int64_t i = 0; i < src; ++i) adjoint += x[i] * fy[i];
  free(x);
  products->forward[rank] = forward;
  products->adjoint[rank] = adjoint;
  return status;
}

static inline void check_products(const products_t *products, int32_t n, const char *what) {
  double forward = 0, adjoint = 0;
  for (int32_t i = 0; i < n; ++i) {
    forward += products->forward[i];
    adjoint += products->adjoint[i];
  }
  if (forward != adjoint)
    fail_msg("%s on %d ranks: <Fx,y> %g, <x,F*y> %g", what, n, forward, adjoint);
}

#endif  // SHOAL_TESTS_UNIT_COMM_PRIMITIVE_MODEL_H_
