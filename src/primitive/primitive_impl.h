// Primitives' internal header: what their files share. Nothing here is public.
//
//   primitive.c        create, start, wait: two motions of one rank, carried
//   plan.c             two holdings -> two motions, the interior
//   links.c            two holdings -> links
//   kinds.c            the layouts of the named kinds
//   halo.c             the geometry of windows, and halo exchanges
//
// Motions are planned by layout/motion.c and run by carrier.c, as a program's reshards are.
#ifndef SHOAL_PRIMITIVE_PRIMITIVE_IMPL_H_
#define SHOAL_PRIMITIVE_PRIMITIVE_IMPL_H_

#include "primitive/carrier.h"
#include "shoal/primitive.h"

// What one rank knows of two holdings: its links and its parts.
typedef struct shoal_holdings {
  shoal_links_t links;    // pieces are in the arena they were planned in
  bool has_src, has_dst;  // is the rank on that side?
  shoal_boxes_t src, dst;
  // Of the source part, what is stored but not owned is not read: the adjoint zeroes it.
  bool refresh;
  uint64_t hash;  // of all arguments: the same on all ranks that planned the same primitive
} shoal_holdings_t;

SHOAL_MUST_USE shoal_status_t shoal_holdings_plan(shoal_dtype_t dtype, const shoal_shape_t *shape,
                                                  const shoal_holding_t *src,
                                                  const shoal_holding_t *dst, bool refresh,
                                                  int32_t rank, shoal_arena_t *arena,
                                                  shoal_holdings_t *out_holdings);
// The number of a layout's part among its copies: its coordinates along axes the layout leaves out.
int32_t shoal_holdings_replica(const shoal_layout_t *layout, int64_t position);

typedef struct shoal_primitive_plan {
  bool linear;    // the adjoint exists
  bool in_place;  // input and output may be the same memory
  shoal_shape_t src_shape, dst_shape;
  shoal_motion_t forward, adjoint;
  int64_t interior_count;
  const shoal_box_t *interior;
  uint64_t hash;
} shoal_primitive_plan_t;

SHOAL_MUST_USE shoal_status_t shoal_primitive_plan(shoal_dtype_t dtype, const shoal_shape_t *shape,
                                                   const shoal_holding_t *src,
                                                   const shoal_holding_t *dst, bool refresh,
                                                   int32_t rank, shoal_arena_t *arena,
                                                   shoal_primitive_plan_t *out_plan);

// The destination of a halo exchange: each rank's needed box; with its geometry by position, then
// dim.
SHOAL_MUST_USE shoal_status_t shoal_halo_plan(const shoal_layout_t *layout,
                                              const shoal_shape_t *shape,
                                              const shoal_stencil_t *stencils, shoal_arena_t *arena,
                                              shoal_holding_t *out_dst,
                                              const shoal_stencil_part_t **out_geometry);
// The geometry that shoal_primitive_stencil returns.
void shoal_primitive_set_stencil(shoal_primitive_t *primitive, int32_t dim,
                                 shoal_stencil_part_t part);

#endif  // SHOAL_PRIMITIVE_PRIMITIVE_IMPL_H_
