// Primitives, inside: what the files of this family share. Nothing here is public.
//
//   primitive.c        create, start, wait: one rank's plan, executed
//   primitive_plan.c   links -> messages, steps and staging of one rank, in both directions
//   primitive_links.c  two holdings -> links
//   primitive_kinds.c  the layouts of the named kinds
//   primitive_halo.c   the geometry of windows, and halo exchanges
//   primitive_copy.c   strided copies and sums
//
// A *link* is one block of ones of the matrix F: elements that go from a rank's source part to a
// rank's destination part. Everything else is derived from the list of links, forward and, with the
// two sides swapped, backward: that is what makes the two directions transposes of each other.
#ifndef SHOAL_COMM_PRIMITIVE_IMPL_H_
#define SHOAL_COMM_PRIMITIVE_IMPL_H_

#include "base/arena.h"
#include "shoal/primitive.h"

// ---- links ----------------------------------------------------------------------------

typedef struct shoal_link {
  int32_t from, to;  // ranks of the world
  int64_t piece_count;
  const shoal_piece_t *pieces;
  int64_t count;  // elements
} shoal_link_t;

// The links of one rank - those from it or to it - in an order that all ranks share, and its parts.
typedef struct shoal_links {
  int64_t count;
  const shoal_link_t *items;
  shoal_reduce_t reduce;  // how several contributions to an element are joined
  bool own_first;         // in the adjoint
  bool has_src, has_dst;  // is the rank on that side?
  shoal_boxes_t src, dst;
  // Of the source part, what is stored but not owned (refresh): the adjoint zeroes it.
  bool refresh;
  uint64_t hash;  // of all arguments: the same on all ranks that planned the same primitive
} shoal_links_t;

SHOAL_MUST_USE shoal_status_t shoal_links_plan(shoal_dtype_t dtype, const shoal_shape_t *shape,
                                               const shoal_holding_t *src,
                                               const shoal_holding_t *dst, bool refresh,
                                               int32_t rank, shoal_arena_t *arena,
                                               shoal_links_t *out_links);
// The number of a layout's part among its copies: its coordinates along axes the layout leaves out.
int32_t shoal_links_replica(const shoal_layout_t *layout, int64_t position);

// ---- one rank's plan ------------------------------------------------------------------

typedef struct shoal_parcel {  // a message
  int32_t peer;
  int64_t count;
  int64_t piece_count;
  const shoal_piece_t *pieces;  // send: from the input to the message; recv: from it to the output
  // Where the message lies: at `offset` bytes of the staging memory, or, when it is dense there
  // anyway, of the input (output) itself.
  bool direct;
  int64_t offset;
} shoal_parcel_t;

typedef struct shoal_step {  // one contribution to the output, in order
  int32_t recv;              // index of the received parcel; -1: from this rank's input
  bool add;                  // to what earlier steps left there; else it comes first
  int64_t piece_count;
  const shoal_piece_t *pieces;
} shoal_step_t;

// One direction of a primitive, on one rank.
typedef struct shoal_motion {
  int64_t input_count, output_count;  // elements
  int32_t send_count, recv_count;
  int64_t step_count;
  const shoal_parcel_t *sends, *recvs;
  const shoal_step_t *steps;
  bool adds;   // some step does: steps run in order, in wait
  bool clear;  // elements without a contribution: the output starts at the identity
  int64_t zero_count;
  const shoal_piece_t *zeros;  // instead of clear, where the output may be the input: (dst side)
  bool wide;                   // sums of half precision: through scratch of output_count floats
  int64_t staging;             // bytes
} shoal_motion_t;

typedef struct shoal_primitive_plan {
  shoal_dtype_t dtype;
  shoal_reduce_t reduce;
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

// What start and wait do around the exchange, on bare memory: tests run ranks in one thread with
// these. `staging` and `scratch` have the sizes the motion says; messages' data are filled in.
void shoal_motion_pack(const shoal_primitive_plan_t *plan, const shoal_motion_t *motion,
                       const void *input, void *output, void *staging, shoal_message_t *sends,
                       shoal_message_t *recvs);
void shoal_motion_begin(const shoal_primitive_plan_t *plan, const shoal_motion_t *motion,
                        const void *input, void *output);  // local copies, where nothing is added
void shoal_motion_finish(const shoal_primitive_plan_t *plan, const shoal_motion_t *motion,
                         const void *input, void *output, const shoal_message_t *recvs,
                         float *scratch);

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

// ---- copies, on host memory; nothing allocates ----------------------------------------

int64_t shoal_piece_count(const shoal_piece_t *piece);  // elements
// Calls fn(self, src, dst, count, src_stride, dst_stride) for each row, offsets in elements.
typedef void (*shoal_row_fn_t)(void *self, int64_t src, int64_t dst, int64_t count,
                               int64_t src_stride, int64_t dst_stride);
void shoal_piece_rows(const shoal_piece_t *piece, shoal_row_fn_t fn, void *self);

void shoal_pieces_copy(shoal_dtype_t dtype, int64_t count, const shoal_piece_t *pieces,
                       const void *src, void *dst);  // what does not move is left alone
void shoal_pieces_join(shoal_dtype_t dtype, shoal_reduce_t reduce, int64_t count,
                       const shoal_piece_t *pieces, const void *src, void *dst);
// From bf16 or f16 into floats; `add`: joined with what is there.
void shoal_pieces_widen(shoal_dtype_t dtype, shoal_reduce_t reduce, bool add, int64_t count,
                        const shoal_piece_t *pieces, const void *src, float *dst);
void shoal_pieces_zero(shoal_dtype_t dtype, int64_t count, const shoal_piece_t *pieces, void *dst);

#endif  // SHOAL_COMM_PRIMITIVE_IMPL_H_
