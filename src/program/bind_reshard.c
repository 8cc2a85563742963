// A rank's share of a reshard: a motion (layout/motion.h). Who sends what to whom is
// shoal_layout_reshard's business, what a rank makes of it shoal_motion_plan's; here are the
// questions that a channel and its micro-batches add.
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

// The motion copies what it needs of the links: they go.
shoal_status_t shoal_bind_reshard(const shoal_channel_t *channel, const shoal_reshard_t *reshard,
                                  int32_t rank, const shoal_bound_buffer_t *input,
                                  const shoal_bound_buffer_t *output, shoal_arena_t *arena,
                                  shoal_motion_t *out_motion) {
  shoal_arena_t scratch;
  shoal_arena_init(arena->allocator, &scratch);
  shoal_links_t links;
  shoal_status_t status =
      shoal_links_find(reshard, &channel->src, &channel->dst, rank, &scratch, &links);
  if (!status) {
    const shoal_motion_options_t options = {.dtype = channel->type.dtype,
                                            .rank = rank,
                                            .detach = true,
                                            .input_count = input ? input->count : 0,
                                            .output_count = output ? output->count : 0};
    status = shoal_motion_plan(&links, &options, arena, out_motion);
  }
  shoal_arena_deinit(&scratch);
  return status;
}

// ---- workspace ----------------------------------------------------------------------

// What the calls of a channel need, as far as they were looked at.
typedef struct need {
  const shoal_channel_t *channel;
  const shoal_class_t *class;
  int64_t ranks, *bytes;  // by rank
  int64_t most;
  int32_t collectives, exchanges;  // calls
} need_t;

static shoal_status_t look_at(need_t *need, int64_t micro, shoal_arena_t *scratch) {
  const shoal_channel_t *channel = need->channel;
  shoal_reshard_t reshard;
  SHOAL_RETURN_IF_ERROR(shoal_channel_reshard(channel, micro, scratch, &reshard));
  ++*(reshard.collective ? &need->collectives : &need->exchanges);
  SHOAL_RETURN_IF_ERROR(shoal_motion_staging(&reshard, &channel->src, &channel->dst,
                                             channel->type.dtype, need->ranks, scratch,
                                             need->bytes));
  for (int64_t i = 0; i < (need->class ? need->class->rank_count : need->ranks); ++i) {
    const int64_t rank = need->class ? need->class->ranks[i] : i;
    if (rank < need->ranks && need->bytes[rank] > need->most) need->most = need->bytes[rank];
  }
  return NULL;
}

static shoal_status_t look_at_all(need_t *need, int64_t first, int64_t last,
                                  shoal_allocator_t allocator) {
  for (int64_t m = first; m <= last; ++m) {
    shoal_arena_t scratch;
    shoal_arena_init(allocator, &scratch);
    shoal_status_t status = look_at(need, m, &scratch);
    shoal_arena_deinit(&scratch);
    if (status) return status;
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
  int64_t ranks = ranks_of(channel->src.mesh), other = ranks_of(channel->dst.mesh);
  need_t need = {.channel = channel, .class = class, .ranks = ranks > other ? ranks : other};
  need.bytes = SHOAL_NEW(scratch, int64_t, need.ranks);
  *out_bytes = 0;
  if (!need.bytes) return SHOAL_OOM();
  bool micro = channel->micro &&
               (shoal_program_has_micro(&channel->src) || shoal_program_has_micro(&channel->dst));
  int64_t first = channel->micro ? 0 : -1, last = micro ? micro_count - 1 : first;
  if (last < first) last = first;
  bool few = micro_count > 8 && last > 2 && !shoal_layout_uneven(&channel->src, SHOAL_AXIS_MICRO) &&
             !shoal_layout_uneven(&channel->dst, SHOAL_AXIS_MICRO);
  shoal_allocator_t allocator = scratch->allocator;
  if (few) {
    // Dealt evenly, the first, the second and the last micro-batch show the largest, unless some
    // are collectives and others are not.
    SHOAL_RETURN_IF_ERROR(look_at_all(&need, 0, 1, allocator));
    SHOAL_RETURN_IF_ERROR(look_at_all(&need, last, last, allocator));
    few = need.collectives == 0 || need.exchanges == 0;
  }
  if (!few) SHOAL_RETURN_IF_ERROR(look_at_all(&need, first, last, allocator));
  *out_bytes = need.most;
  return NULL;
}
