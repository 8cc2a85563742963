// A rank's share of a reshard: messages to pack and send, messages to receive, and the steps that
// make the result. Who sends what to whom is shoal_layout_reshard's business; here it is seen from
// one rank.
//
// Both sides of a message walk the same list of transfers in the same order, so messages between a
// pair of ranks match in order, and staging is dense in the order of the pieces on both sides.
// Steps are in the order of the transfers (ascending coordinate of what is joined, the own part in
// its place): the same on every destination, so replicas end with the same bits.
#include <string.h>

#include "base/dtype.h"
#include "program/program_impl.h"

shoal_status_t shoal_channel_reshard(const shoal_channel_t *channel, int64_t micro,
                                     shoal_arena_t *arena, shoal_reshard_t *out_reshard) {
  return shoal_layout_reshard(&channel->src, shoal_program_micro_of(&channel->src, micro),
                              &channel->dst, shoal_program_micro_of(&channel->dst, micro),
                              &channel->type.shape, arena, out_reshard);
}

shoal_share_t shoal_reshard_share(const shoal_channel_t *channel, const shoal_transfer_t *transfer,
                                  int32_t rank, int32_t *out_peer) {
  int32_t from = shoal_mesh_rank(channel->src.mesh, transfer->src);
  int32_t to = shoal_mesh_rank(channel->dst.mesh, transfer->dst);
  *out_peer = from == rank ? to : from;
  if (to == rank) return from == rank ? SHOAL_SHARE_LOCAL : SHOAL_SHARE_RECV;
  return from == rank ? SHOAL_SHARE_SEND : SHOAL_SHARE_NONE;
}

// ---- staging ------------------------------------------------------------------------

// Takes room for `count` elements; *at is the end so far.
static shoal_status_t stage(shoal_dtype_t dtype, int64_t count, int64_t *at, int64_t *out_start) {
  int64_t bytes;
  SHOAL_RETURN_IF_ERROR(shoal_dtype_bytes(dtype, count, &bytes));
  *out_start = *at;
  if (bytes > INT64_MAX - SHOAL_PROGRAM_ALIGN ||
      __builtin_add_overflow(*at, shoal_program_align(bytes), at)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "the messages of a reshard fit no memory");
  }
  return NULL;
}

// The transfer's pieces with one side replaced by a dense staging buffer, in the order of the
// pieces.
static shoal_status_t stage_pieces(const shoal_transfer_t *transfer, bool send,
                                   shoal_arena_t *arena, const shoal_piece_t **out_pieces) {
  shoal_piece_t *pieces =
      shoal_arena_copy(arena, transfer->pieces, (size_t)transfer->piece_count, sizeof *pieces);
  if (!pieces) return SHOAL_OOM();
  int64_t at = 0;
  for (int64_t i = 0; i < transfer->piece_count; ++i) {
    shoal_piece_t *piece = &pieces[i];
    int64_t stride = 1, *strides = send ? piece->dst_stride : piece->src_stride;
    for (int32_t d = piece->rank - 1; d >= 0; --d) {
      strides[d] = stride;
      stride *= piece->size[d];
    }
    if (send)
      piece->dst_offset = at;
    else
      piece->src_offset = at;
    at += stride;
  }
  *out_pieces = pieces;
  return NULL;
}

// ---- binding ------------------------------------------------------------------------

// All-reduce: the ranks that contribute to this rank's part are the group, in the order they are
// joined.
static shoal_status_t bind_group(const shoal_channel_t *channel, const shoal_reshard_t *reshard,
                                 int64_t position, shoal_arena_t *arena,
                                 shoal_bound_reshard_t *bound) {
  int32_t count = 0;
  for (int64_t i = 0; i < reshard->transfer_count; ++i) {
    count += reshard->transfers[i].dst == position;
  }
  int32_t *group = SHOAL_NEW(arena, int32_t, count);
  if (!group) return SHOAL_OOM();
  for (int64_t i = 0; i < reshard->transfer_count; ++i) {
    const shoal_transfer_t *t = &reshard->transfers[i];
    if (t->dst == position) {
      group[bound->group_count++] = shoal_mesh_rank(channel->src.mesh, t->src);
    }
  }
  bound->group = group;
  bound->all_reduce = true;
  return NULL;
}

// What a destination without any source starts at: the identity of the partial it spreads to.
static shoal_reduce_t spread_reduce(const shoal_channel_t *channel,
                                    const shoal_reshard_t *reshard) {
  const shoal_cut_t *src = shoal_program_micro_partial(&channel->src);
  const shoal_cut_t *dst = shoal_program_micro_partial(&channel->dst);
  return dst && !src ? dst->reduce : reshard->reduce;
}

static shoal_status_t bind_messages(const shoal_channel_t *channel, const shoal_reshard_t *reshard,
                                    int32_t rank, const shoal_bound_buffer_t *output,
                                    shoal_arena_t *arena, shoal_bound_reshard_t *bound) {
  int32_t counts[4] = {0}, peer;
  for (int64_t i = 0; i < reshard->transfer_count; ++i) {
    ++counts[shoal_reshard_share(channel, &reshard->transfers[i], rank, &peer)];
  }
  shoal_bound_message_t *sends = SHOAL_NEW(arena, shoal_bound_message_t, counts[SHOAL_SHARE_SEND]);
  shoal_bound_message_t *recvs = SHOAL_NEW(arena, shoal_bound_message_t, counts[SHOAL_SHARE_RECV]);
  struct shoal_reshard_step *steps = SHOAL_NEW(
      arena, struct shoal_reshard_step, counts[SHOAL_SHARE_RECV] + counts[SHOAL_SHARE_LOCAL]);
  if (!sends || !recvs || !steps) return SHOAL_OOM();
  int64_t joined =
      0;  // elements of all steps so far: each coordinate that is joined fills the part once
  for (int64_t i = 0; i < reshard->transfer_count; ++i) {
    const shoal_transfer_t *t = &reshard->transfers[i];
    shoal_share_t share = shoal_reshard_share(channel, t, rank, &peer);
    if (share == SHOAL_SHARE_NONE) continue;
    shoal_bound_message_t message = {
        .peer = peer, .count = t->count, .piece_count = t->piece_count};
    if (share != SHOAL_SHARE_LOCAL) {
      SHOAL_RETURN_IF_ERROR(stage_pieces(t, share == SHOAL_SHARE_SEND, arena, &message.pack));
    }
    if (share == SHOAL_SHARE_SEND) {
      sends[bound->send_count++] = message;
      continue;
    }
    struct shoal_reshard_step *step = &steps[bound->step_count++];
    step->message = -1;
    step->accumulate = bound->reduces && output && joined >= output->count;
    joined += t->count;
    if (share == SHOAL_SHARE_RECV) {
      step->message = bound->recv_count;
      recvs[bound->recv_count++] = message;
    } else {
      step->piece_count = t->piece_count;
      step->pieces = shoal_arena_copy(arena, t->pieces, (size_t)t->piece_count, sizeof *t->pieces);
      if (!step->pieces) return SHOAL_OOM();
    }
  }
  for (int32_t i = 0; i < bound->send_count; ++i) {
    SHOAL_RETURN_IF_ERROR(
        stage(channel->type.dtype, sends[i].count, &bound->workspace, &sends[i].staging));
  }
  for (int32_t i = 0; i < bound->recv_count; ++i) {
    SHOAL_RETURN_IF_ERROR(
        stage(channel->type.dtype, recvs[i].count, &bound->workspace, &recvs[i].staging));
  }
  bound->sends = sends;
  bound->recvs = recvs;
  bound->steps = steps;
  bound->clear = output && output->count > 0 && bound->step_count == 0;
  if (bound->clear) bound->reduce = spread_reduce(channel, reshard);
  return NULL;
}

shoal_status_t shoal_bind_reshard(const shoal_channel_t *channel, const shoal_reshard_t *reshard,
                                  int32_t rank, const shoal_bound_buffer_t *output,
                                  shoal_arena_t *arena, shoal_bound_reshard_t *out_bound) {
  *out_bound = (shoal_bound_reshard_t){
      .kind = reshard->kind, .reduces = reshard->reduces, .reduce = reshard->reduce};
  if (reshard->kind == SHOAL_RESHARD_ALL_REDUCE) {
    int64_t position = shoal_mesh_position(channel->dst.mesh, rank);
    return bind_group(channel, reshard, position, arena, out_bound);
  }
  return bind_messages(channel, reshard, rank, output, arena, out_bound);
}

// ---- workspace ----------------------------------------------------------------------

// The most staging any rank needs in one call, from the transfers alone.
static shoal_status_t call_workspace(const shoal_channel_t *channel, int64_t micro, int64_t *bytes,
                                     int64_t ranks, const shoal_class_t *class,
                                     shoal_arena_t *scratch, int64_t *most) {
  shoal_reshard_t reshard;
  SHOAL_RETURN_IF_ERROR(shoal_channel_reshard(channel, micro, scratch, &reshard));
  if (reshard.kind == SHOAL_RESHARD_ALL_REDUCE) return NULL;
  memset(bytes, 0, (size_t)ranks * sizeof *bytes);
  for (int64_t i = 0; i < reshard.transfer_count; ++i) {
    const shoal_transfer_t *t = &reshard.transfers[i];
    int32_t from = shoal_mesh_rank(channel->src.mesh, t->src);
    int32_t to = shoal_mesh_rank(channel->dst.mesh, t->dst);
    int64_t start;
    if (from == to) continue;
    SHOAL_RETURN_IF_ERROR(stage(channel->type.dtype, t->count, &bytes[from], &start));
    SHOAL_RETURN_IF_ERROR(stage(channel->type.dtype, t->count, &bytes[to], &start));
  }
  for (int64_t i = 0; i < (class ? class->rank_count : ranks); ++i) {
    int64_t rank = class ? class->ranks[i] : i;
    if (rank < ranks && bytes[rank] > *most) *most = bytes[rank];
  }
  return NULL;
}

static int64_t ranks_of(const shoal_mesh_t *mesh) {
  int64_t ranks = 0;
  for (int64_t i = 0, size = shoal_mesh_size(mesh); i < size; ++i) {
    int64_t rank = shoal_mesh_rank(mesh, i);
    if (rank >= ranks) ranks = rank + 1;
  }
  return ranks;
}

shoal_status_t shoal_channel_workspace(const shoal_channel_t *channel, int64_t micro_count,
                                       const shoal_class_t *class, shoal_arena_t *scratch,
                                       int64_t *out_bytes) {
  *out_bytes = 0;
  int64_t ranks = ranks_of(channel->src.mesh), other = ranks_of(channel->dst.mesh), most = 0;
  if (other > ranks) ranks = other;
  int64_t *bytes = SHOAL_NEW(scratch, int64_t, ranks);
  if (!bytes) return SHOAL_OOM();
  bool micro = channel->micro &&
               (shoal_program_has_micro(&channel->src) || shoal_program_has_micro(&channel->dst));
  int64_t first = channel->micro ? 0 : -1, last = micro ? micro_count - 1 : first;
  if (last < first) last = first;
  bool uneven = shoal_layout_uneven(&channel->src, SHOAL_AXIS_MICRO) ||
                shoal_layout_uneven(&channel->dst, SHOAL_AXIS_MICRO);
  for (int64_t m = first; m <= last; ++m) {
    // Unless dealt unevenly, the first, the second and the last micro-batch show the largest.
    if (micro_count > 8 && !uneven && m == 2) m = last;
    shoal_arena_t transfers;
    shoal_arena_init(scratch->allocator, &transfers);
    shoal_status_t status = call_workspace(channel, m, bytes, ranks, class, &transfers, &most);
    shoal_arena_deinit(&transfers);
    if (status) return status;
  }
  *out_bytes = most;
  return NULL;
}
