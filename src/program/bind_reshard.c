// A rank's share of a reshard: a motion (layout/motion.h). Who sends what to whom is
// shoal_layout_reshard's business, what a rank makes of it shoal_motion_plan's; here are the
// questions that a channel and its micro-batches add.
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
                                            .no_direct = true,
                                            .input_count = input ? input->count : 0,
                                            .output_count = output ? output->count : 0};
    status = shoal_motion_plan(&links, &options, arena, out_motion);
  }
  shoal_arena_deinit(&scratch);
  return status;
}

// ---- workspace ----------------------------------------------------------------------

// What a rank packs and receives.
typedef struct staged {
  int64_t bytes;
  bool receives;
} staged_t;

// The most staging any rank needs of the arena in one call, from the transfers alone. A rank that
// only sends goes on before its messages have left: it has memory of its own for them.
static shoal_status_t call_workspace(const shoal_channel_t *channel, int64_t micro,
                                     staged_t *staged, int64_t ranks, const shoal_class_t *class,
                                     shoal_arena_t *scratch, int64_t *most) {
  shoal_reshard_t reshard;
  SHOAL_RETURN_IF_ERROR(shoal_channel_reshard(channel, micro, scratch, &reshard));
  if (reshard.kind == SHOAL_RESHARD_ALL_REDUCE) return NULL;
  memset(staged, 0, (size_t)ranks * sizeof *staged);
  for (int64_t i = 0; i < reshard.transfer_count; ++i) {
    const shoal_transfer_t *t = &reshard.transfers[i];
    int32_t from = shoal_mesh_rank(channel->src.mesh, t->src);
    int32_t to = shoal_mesh_rank(channel->dst.mesh, t->dst);
    int64_t start;
    if (from == to) continue;
    SHOAL_RETURN_IF_ERROR(
        shoal_motion_stage(channel->type.dtype, t->count, &staged[from].bytes, &start));
    SHOAL_RETURN_IF_ERROR(
        shoal_motion_stage(channel->type.dtype, t->count, &staged[to].bytes, &start));
    staged[to].receives = true;
  }
  for (int64_t i = 0; i < (class ? class->rank_count : ranks); ++i) {
    int64_t rank = class ? class->ranks[i] : i;
    if (rank >= ranks || !staged[rank].receives) continue;
    if (staged[rank].bytes > *most) *most = staged[rank].bytes;
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
  staged_t *staged = SHOAL_NEW(scratch, staged_t, ranks);
  if (!staged) return SHOAL_OOM();
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
    shoal_status_t status = call_workspace(channel, m, staged, ranks, class, &transfers, &most);
    shoal_arena_deinit(&transfers);
    if (status) return status;
  }
  *out_bytes = most;
  return NULL;
}
