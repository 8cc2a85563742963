// Shoal, comm: primitives - data movement between ranks as linear maps with exact adjoints.
//
// A *holding* says which rank stores which elements of a value: a layout on a mesh, or a list of
// boxes. A primitive takes a value from one holding to another, and its adjoint takes gradients
// back. It is planned once per (element type, shape, two holdings): buffers and messages are
// allocated then; applying it allocates nothing (a collective once, what its group needs). All
// kinds - broadcast, sum-reduce, all-sum-reduce, all-gather, reduce-scatter, all-to-all,
// repartition, halo exchange - are this one object and differ only in the two holdings.
//
// What is computed. Stack the parts that all ranks store in the source holding, ghosts and replicas
// included, to a vector x, and those of the destination to y. Then apply is y = F x and
// apply_adjoint is x = F* y, with F a matrix of zeros and ones and F* its transpose, so <F x, y> =
// <x, F* y> for any x and y, replicas that differ included:
//   - an element of a destination part comes from one stored element of the source: the rank's own
//     if it holds it (ghosts too), else that of one owner, chosen as shoal_layout_reshard says
//     (replicas share the load); the others contribute nothing;
//   - where the source is partial(sum) and the destination is not, it is the sum of one stored
//     element per coordinate of the partial axes, in ascending coordinate: same bits on every
//     replica;
//   - where the destination is partial(sum) and the source is not, coordinate 0 gets the value, the
//     others 0;
//   - in the adjoint, an element of a source part is the sum of what was made of it, in ascending
//     position of the destination (between lists of boxes: its own first, then in the order of the
//     list), and 0 where it was not used: ghosts and unread replicas.
// So the adjoint of a copy is a sum, that of a sum is a copy, that of a halo exchange adds what
// lies in ghosts into their owner. bf16 and f16 sum in f32 and round once. Partials other than sum
// work forward only.
//
// Ranks that are on neither side have nothing to do and may leave the calls out; on a side where a
// rank is not, its part has no elements and its pointer may be NULL.
#ifndef SHOAL_PRIMITIVE_H_
#define SHOAL_PRIMITIVE_H_

#include "shoal/comm.h"
#include "shoal/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

// -------------------------------------------------------------------------------------------------
// Holdings
// -------------------------------------------------------------------------------------------------

// One rank's part as a box of the whole. Dense row-major storage of `held`, which covers `own`.
typedef struct shoal_part {
  int32_t rank;  // in the world
  int32_t
      replica;  // where several ranks own an element: taken from a part of the same number first
  shoal_box_t own;  // what other ranks may take from it
  shoal_box_t held;
} shoal_part_t;

typedef struct shoal_holding {
  const shoal_layout_t *layout;  // NULL: parts
  int64_t micro;                 // layout: the micro-batch; 0 when there are none, -1: all
  int64_t part_count;            // a rank is there once at most
  const shoal_part_t *parts;
} shoal_holding_t;

// -------------------------------------------------------------------------------------------------
// Primitives
// -------------------------------------------------------------------------------------------------

typedef struct shoal_primitive shoal_primitive_t;

typedef struct shoal_primitive_options {
  shoal_allocator_t allocator;  // zero: the world's
  // Of the source, only what a rank owns is read, never its ghosts. If both sides are stored alike,
  // source and destination may be the same memory: apply fills the ghosts, the adjoint adds them
  // into their owners and zeroes them.
  bool refresh;
} shoal_primitive_options_t;

// Repartition, and what all others are made of. All arguments are copied; `options` may be NULL.
// Exchanges no message, but the ranks of both sides create their primitives from the same
// arguments, in the same order. Where the two layouts amount to an all-reduce, or to an all-gather
// or reduce-scatter of parts that lie one behind the other, that collective is what runs, on a
// group of its own; all else is messages. MISMATCH: an element that the destination holds is owned
// by nobody. UNSUPPORTED: partial layouts together with lists of boxes.
SHOAL_API SHOAL_MUST_USE shoal_status_t
shoal_primitive_create(shoal_world_t *world, shoal_dtype_t dtype, const shoal_shape_t *shape,
                       const shoal_holding_t *src, const shoal_holding_t *dst,
                       const shoal_primitive_options_t *options, shoal_primitive_t **out_primitive);
// Waits for what is under way.
SHOAL_API void shoal_primitive_free(shoal_primitive_t *primitive);

// dst part = F (src part). *Collective* over the ranks of both sides; blocks. The parts do not
// overlap, but may be the same memory with `refresh`, in an all-sum-reduce, and where nothing
// moves. A wrong call breaks the world, so that nobody waits for this rank.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_primitive_apply(shoal_primitive_t *primitive,
                                                              const void *src, void *dst);
// src part = F* (dst part), overwritten. UNSUPPORTED where F is not linear: partial(max) and the
// like.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_primitive_apply_adjoint(shoal_primitive_t *primitive,
                                                                      const void *dst, void *src);

// The same in two halves. Starting does not block; all ranks start their primitives (and other
// exchanges) in the same order and wait in any. Between the two, the input is not changed and the
// output is not touched, except that after shoal_primitive_start the boxes of
// shoal_primitive_interior may be read. One may be under way per primitive.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_primitive_start(shoal_primitive_t *primitive,
                                                              const void *src, void *dst);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_primitive_start_adjoint(shoal_primitive_t *primitive,
                                                                      const void *dst, void *src);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_primitive_wait(shoal_primitive_t *primitive);

// Shapes of the dense buffers this rank passes; [0] on a side where it is not.
SHOAL_API shoal_shape_t shoal_primitive_src_shape(const shoal_primitive_t *primitive);
SHOAL_API shoal_shape_t shoal_primitive_dst_shape(const shoal_primitive_t *primitive);
// Boxes of the whole that this rank's destination part has from its own source part: there once
// apply has started. None where a part is flat, several contributions are summed, or a collective
// runs. Borrowed.
SHOAL_API void shoal_primitive_interior(const shoal_primitive_t *primitive,
                                        const shoal_box_t **out_boxes, int64_t *out_count);

// What one call moves and keeps, on this rank; `adjoint` swaps sent and received.
typedef struct shoal_primitive_stats {
  int32_t send_count, recv_count;  // messages
  int32_t group_size;              // of the collective that is run instead of messages; 0: none
  int64_t send_bytes, recv_bytes;
  int64_t local_bytes;    // copied within the rank
  int64_t staging_bytes;  // kept for both directions
} shoal_primitive_stats_t;
SHOAL_API shoal_primitive_stats_t shoal_primitive_stats(const shoal_primitive_t *primitive);

// -------------------------------------------------------------------------------------------------
// Kinds: the two layouts, made from one. `axes` is a text of names as in group.h
// -------------------------------------------------------------------------------------------------

// Broadcast: `layout` on the ranks at coordinate 0 along `axes`, which it does not name ->
// `layout`, a copy at every coordinate. Adjoint: their sum at coordinate 0.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_primitive_broadcast(
    shoal_world_t *world, shoal_dtype_t dtype, const shoal_shape_t *shape,
    const shoal_layout_t *layout, const char *axes, const shoal_primitive_options_t *options,
    shoal_primitive_t **out_primitive);
// Sum-reduce: the other way round; its adjoint is the broadcast.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_primitive_sum_reduce(
    shoal_world_t *world, shoal_dtype_t dtype, const shoal_shape_t *shape,
    const shoal_layout_t *layout, const char *axes, const shoal_primitive_options_t *options,
    shoal_primitive_t **out_primitive);
// All-sum-reduce: the sum over `axes`, at every coordinate. It is its own adjoint.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_primitive_all_sum_reduce(
    shoal_world_t *world, shoal_dtype_t dtype, const shoal_shape_t *shape,
    const shoal_layout_t *layout, const char *axes, const shoal_primitive_options_t *options,
    shoal_primitive_t **out_primitive);
// All-gather: `layout`, which cuts along `axes` -> the same without those cuts. Adjoint:
// reduce-scatter.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_primitive_all_gather(
    shoal_world_t *world, shoal_dtype_t dtype, const shoal_shape_t *shape,
    const shoal_layout_t *layout, const char *axes, const shoal_primitive_options_t *options,
    shoal_primitive_t **out_primitive);
// Reduce-scatter: partial(sum) along `axes` -> `layout`, which cuts along them. Adjoint:
// all-gather.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_primitive_reduce_scatter(
    shoal_world_t *world, shoal_dtype_t dtype, const shoal_shape_t *shape,
    const shoal_layout_t *layout, const char *axes, const shoal_primitive_options_t *options,
    shoal_primitive_t **out_primitive);
// All-to-all: `layout`, in which `axis` cuts a dim -> the same, cutting `dim` instead. Adjoint:
// back.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_primitive_all_to_all(
    shoal_world_t *world, shoal_dtype_t dtype, const shoal_shape_t *shape,
    const shoal_layout_t *layout, const char *axis, int32_t dim,
    const shoal_primitive_options_t *options, shoal_primitive_t **out_primitive);

// -------------------------------------------------------------------------------------------------
// Halo exchange
// -------------------------------------------------------------------------------------------------

// A sliding window along one dim: convolution, pooling. Output j reads inputs j*stride - before +
// i*dilation, i < kernel; what lies outside the input is padding, which the local kernel adds.
typedef struct shoal_stencil {
  int64_t kernel;            // 0: the dim has no window, parts are as the layout has them
  int64_t stride, dilation;  // 0 means 1
  int64_t before, after;     // padding
  const int64_t *outputs;    // how many outputs each part computes; NULL: dealt balanced
} shoal_stencil_t;

// One part along the dim. A kernel without padding that runs over pad_before zeros, `needed` and
// pad_after zeros gives exactly `output`; there is nothing to run when that is empty.
typedef struct shoal_stencil_part {
  shoal_interval_t output;  // outputs it computes
  shoal_interval_t needed;  // inputs those read
  shoal_interval_t owned;   // inputs it owns
  int64_t pad_before, pad_after;
} shoal_stencil_part_t;

typedef struct shoal_stencil_split {
  int64_t output_size;
  int64_t part_count;
  const shoal_stencil_part_t *parts;
  // If outputs are dealt balanced and there are any, a cut "axis:dim" with `text` behind it
  // ("/2#5+1-1") holds what each part needs, from the same start (the last part may hold a tail
  // that nobody reads), as the destination of a reshard. `cut` is the same, axis and dim left 0.
  bool constant;
  shoal_cut_t cut;
  const char *text;
} shoal_stencil_split_t;

// The geometry of one dim of length `size` over `parts` parts. owned: what each part owns of the
// input, ascending and disjoint; NULL: dealt balanced. Halos may be wider than a neighbour's part,
// parts may have no outputs or no inputs. *Not collective*; allocates from the arena.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_stencil_deal(const shoal_stencil_t *stencil,
                                                           int64_t size, int64_t parts,
                                                           const shoal_interval_t *owned,
                                                           shoal_arena_t *arena,
                                                           shoal_stencil_split_t *out_split);
// The outputs of a part that read nothing but what it owns: what can be computed between start and
// wait.
SHOAL_API shoal_interval_t shoal_stencil_inner(const shoal_stencil_t *stencil, int64_t size,
                                               const shoal_stencil_part_t *part);

// Halo exchange: the owned parts of `layout` -> the box that each rank's outputs need, whatever
// ranks that comes from. stencils: one per dim; a dim with a window is dealt over the axes that cut
// it, outermost first. Replicas along other axes exchange among themselves. Adjoint: what lies in
// each box is added into the elements' owners. UNSUPPORTED: layouts that are flat, partial, or
// chunked.
SHOAL_API SHOAL_MUST_USE shoal_status_t
shoal_primitive_halo(shoal_world_t *world, shoal_dtype_t dtype, const shoal_shape_t *shape,
                     const shoal_layout_t *layout, const shoal_stencil_t *stencils,
                     const shoal_primitive_options_t *options, shoal_primitive_t **out_primitive);
// This rank's geometry along dim d of a primitive made by shoal_primitive_halo; all zero for
// others, and on ranks that are not on the mesh.
SHOAL_API shoal_stencil_part_t shoal_primitive_stencil(const shoal_primitive_t *primitive,
                                                       int32_t dim);
// Halo exchange in place: `layout` has halos (+before+after); fills them, `refresh` on both sides.
SHOAL_API SHOAL_MUST_USE shoal_status_t
shoal_primitive_refresh(shoal_world_t *world, shoal_dtype_t dtype, const shoal_shape_t *shape,
                        const shoal_layout_t *layout, const shoal_primitive_options_t *options,
                        shoal_primitive_t **out_primitive);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_PRIMITIVE_H_
