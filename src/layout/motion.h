// A motion is one rank's side of a reshard: which messages it packs, sends and receives, and in
// which steps its output is built. Programs and primitives both plan their motions here;
// primitive/carrier.h runs them.
//
// A *link* is the set of elements that go from one rank's part to another's: a block of ones, if a
// reshard is regarded as a matrix. Everything else is derived from one list of links, forward and,
// with the two sides swapped, backward: that is what makes the two directions transposes of each
// other.
#ifndef SHOAL_LAYOUT_MOTION_H_
#define SHOAL_LAYOUT_MOTION_H_

#include "base/arena.h"
#include "shoal/layout.h"

// ---- links ----------------------------------------------------------------------------

typedef struct shoal_link {
  int32_t from, to;  // ranks of the world
  int64_t piece_count;
  const shoal_piece_t *pieces;
  int64_t count;  // elements
} shoal_link_t;

// The links of one rank - those from it or to it - in an order that all ranks share.
typedef struct shoal_links {
  int64_t count;
  const shoal_link_t *items;
  shoal_reshard_kind_t kind;
  bool collective;
  bool reduces;           // several contributions to an element,
  shoal_reduce_t reduce;  // joined so; also what parts without any start at
  bool own_first;         // in the adjoint: what a rank has of itself comes first
} shoal_links_t;

// The links of one rank, worked out for it alone: what it costs grows with the rank's peers, and
// with what shoal_reshard_describe costs. MISMATCH where nobody owns an element that some rank's
// part needs.
SHOAL_MUST_USE shoal_status_t shoal_links_of_rank(const shoal_layout_t *src, int64_t src_micro,
                                                  const shoal_layout_t *dst, int64_t dst_micro,
                                                  const shoal_shape_t *shape, int32_t rank,
                                                  shoal_arena_t *arena, shoal_links_t *out_links);
// The same where the reshard was described before: `kind` and `collective` are left at between and
// false. MISMATCH where nobody owns an element that this rank's part needs.
SHOAL_MUST_USE shoal_status_t shoal_links_list(const shoal_layout_t *src, int64_t src_micro,
                                               const shoal_layout_t *dst, int64_t dst_micro,
                                               const shoal_shape_t *shape, int32_t rank,
                                               shoal_arena_t *arena, shoal_links_t *out_links);

// Of a reshard that was worked out for all ranks, as tests do; pieces are borrowed from it.
SHOAL_MUST_USE shoal_status_t shoal_links_find(const shoal_reshard_t *reshard,
                                               const shoal_layout_t *src, const shoal_layout_t *dst,
                                               int32_t rank, shoal_arena_t *arena,
                                               shoal_links_t *out_links);

// ---- motions --------------------------------------------------------------------------

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

typedef struct shoal_motion {
  shoal_dtype_t dtype;
  shoal_reshard_kind_t kind;
  shoal_reduce_t reduce;
  int64_t input_count, output_count;  // elements
  // The ranks of `group`, in this order, run the collective of `kind`: no messages, no steps. There
  // is no group where all its parts are empty.
  bool collective;
  int32_t group_count;
  const int32_t *group;
  const int64_t *counts;  // all_gather, reduce_scatter: elements of each one's part
  int32_t send_count, recv_count;
  int64_t step_count;
  const shoal_parcel_t *sends, *recvs;
  const shoal_step_t *steps;
  bool adds;   // some step does: steps run in order, when all is received
  bool clear;  // elements without a contribution: the output starts at the identity
  int64_t zero_count;
  const shoal_piece_t *zeros;  // instead of clear, where the output may be the input: (dst side)
  bool wide;                   // joins of half precision: through output_count floats
  int64_t wide_at;             // in the staging memory
  int64_t staging;             // bytes: sends, receives, then those floats
} shoal_motion_t;

typedef struct shoal_motion_options {
  shoal_dtype_t dtype;
  int32_t rank;
  bool adjoint;
  bool detach;                        // where it only sends, the input is free once it is started
  int64_t input_count, output_count;  // elements of this rank's parts, in the motion's direction
} shoal_motion_options_t;

// Both ends of a message walk the same links in the same order, so messages between two ranks match
// in order and are dense in the order of the pieces on both ends.
SHOAL_MUST_USE shoal_status_t shoal_motion_plan(const shoal_links_t *links,
                                                const shoal_motion_options_t *options,
                                                shoal_arena_t *arena, shoal_motion_t *out_motion);
// The same, forward or adjoint, straight from two layouts. `facts` may be NULL; they are found then
// (shoal_reshard_describe). Costs the rank's peers.
SHOAL_MUST_USE shoal_status_t shoal_motion_of_rank(
    const shoal_layout_t *src, int64_t src_micro, const shoal_layout_t *dst, int64_t dst_micro,
    const shoal_shape_t *shape, const shoal_reshard_facts_t *facts,
    const shoal_motion_options_t *options, shoal_arena_t *arena, shoal_motion_t *out_motion);
// The kind of the adjoint: all_gather for reduce_scatter, and so on.
shoal_reshard_kind_t shoal_reshard_adjoint(shoal_reshard_kind_t kind);
// Says whether this rank has nothing to do.
bool shoal_motion_is_idle(const shoal_motion_t *motion);
// Says whether the rank only sends. A detached motion then needs its staging until the last message
// is sent.
bool shoal_motion_only_sends(const shoal_motion_t *motion);
// The staging bytes of all ranks' detached forward motions, those that only send left out, without
// planning any: bytes[rank] for every rank below rank_count. See shoal_reshard_staging_largest in
// layout/cells.h for many ranks.
SHOAL_MUST_USE shoal_status_t shoal_motion_staging(const shoal_reshard_t *reshard,
                                                   const shoal_layout_t *src,
                                                   const shoal_layout_t *dst, int64_t dst_micro,
                                                   const shoal_shape_t *shape, shoal_dtype_t dtype,
                                                   int64_t rank_count, shoal_arena_t *scratch,
                                                   int64_t *out_bytes);

// ---- pieces, walked -------------------------------------------------------------------

int64_t shoal_piece_count(const shoal_piece_t *piece);  // elements
// Calls fn(self, src, dst, count, src_stride, dst_stride) for each row, offsets in elements.
typedef void (*shoal_row_fn_t)(void *self, int64_t src, int64_t dst, int64_t count,
                               int64_t src_stride, int64_t dst_stride);
void shoal_piece_rows(const shoal_piece_t *piece, shoal_row_fn_t fn, void *self);

#endif  // SHOAL_LAYOUT_MOTION_H_
