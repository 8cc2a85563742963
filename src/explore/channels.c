// Channel by channel, in the first and the last micro-batch: the transfers that are enumerated over
// all ranks fill every destination part. A planned path of the same two layouts is compared here,
// element by element, where there is one.
#include "explore/channels.h"

#include <string.h>

#include "base/arena.h"
#include "base/status.h"
#include "prove/compare.h"

static int64_t micro_of(const shoal_layout_t *layout, int64_t micro) {
  return shoal_layout_speaks_of_micro(layout) ? micro : -1;
}

// Does the destination keep the summands of that axis of the source apart? By an axis of the same
// name and size, on another mesh too.
static bool keeps(const shoal_layout_t *dst, const shoal_axis_t *axis, shoal_reduce_t reduce) {
  for (int32_t i = 0; i < dst->cut_count; ++i) {
    const shoal_cut_t *cut = &dst->cuts[i];
    if (cut->kind != SHOAL_CUT_PARTIAL || cut->axis < 0 || cut->reduce != reduce) continue;
    const shoal_axis_t *own = &dst->mesh->axes[cut->axis];
    if (strcmp(own->name, axis->name) == 0 && own->size == axis->size) return true;
  }
  return false;
}

// How many ranks' contributions make an element.
static int64_t summands(const shoal_channel_t *channel) {
  int64_t count = 1;
  for (int32_t i = 0; i < channel->src->cut_count; ++i) {
    const shoal_cut_t *cut = &channel->src->cuts[i];
    if (cut->kind != SHOAL_CUT_PARTIAL || cut->axis < 0) continue;
    const shoal_axis_t *axis = &channel->src->mesh->axes[cut->axis];
    if (!keeps(channel->dst, axis, cut->reduce)) count *= axis->size;
  }
  return count;
}

static bool is_partial(const shoal_layout_t *layout) {
  for (int32_t i = 0; i < layout->cut_count; ++i)
    if (layout->cuts[i].kind == SHOAL_CUT_PARTIAL) return true;
  return false;
}

static void count_piece(const shoal_piece_t *piece, int32_t dim, int64_t at, int32_t *counts) {
  if (dim == piece->rank) {
    ++counts[at];
    return;
  }
  for (int64_t i = 0; i < piece->size[dim]; ++i)
    count_piece(piece, dim + 1, at + i * piece->dst_stride[dim], counts);
}

// Transfers are sorted by destination: *next is the first of this one's, then of the next one's.
static shoal_status_t check_part(const shoal_channel_t *channel, const shoal_reshard_t *reshard,
                                 int64_t position, int64_t micro, shoal_arena_t *arena,
                                 int64_t *next) {
  shoal_boxes_t boxes;
  SHOAL_RETURN_IF_ERROR(shoal_layout_boxes(channel->dst, &channel->type.shape, position,
                                           micro_of(channel->dst, micro), arena, &boxes));
  const shoal_shape_t shape = shoal_boxes_shape(&boxes);
  const int64_t size = shoal_shape_count(&shape), wanted = summands(channel);
  int32_t *counts = SHOAL_NEW(arena, int32_t, size + 1);
  if (!counts) return SHOAL_OOM();
  const int64_t first = *next;
  for (; *next < reshard->transfer_count && reshard->transfers[*next].dst == position; ++*next) {
    const shoal_transfer_t *transfer = &reshard->transfers[*next];
    for (int64_t k = 0; k < transfer->piece_count; ++k)
      count_piece(&transfer->pieces[k], 0, transfer->pieces[k].dst_offset, counts);
  }
  // Where the destination is partial, one summand has the value and the others start at nothing.
  if (first == *next && is_partial(channel->dst)) return NULL;
  for (int64_t i = 0; i < size; ++i)
    if (counts[i] != wanted)
      return SHOAL_ERROR(MISMATCH, "rank %d gets element %lld of its part %d times, not %lld",
                         shoal_mesh_rank(channel->dst->mesh, position), (long long)i, counts[i],
                         (long long)wanted);
  return NULL;
}

static shoal_status_t check_channel(const shoal_channel_t *channel, int64_t micro,
                                    shoal_arena_t *arena) {
  shoal_reshard_t reshard;
  int64_t next = 0;
  SHOAL_RETURN_IF_ERROR(shoal_layout_reshard(channel->src, micro_of(channel->src, micro),
                                             channel->dst, micro_of(channel->dst, micro),
                                             &channel->type.shape, arena, &reshard));
  if (reshard.kind == SHOAL_RESHARD_NONE) return NULL;
  for (int64_t p = 0; p < shoal_mesh_size(channel->dst->mesh); ++p)
    SHOAL_RETURN_IF_ERROR(check_part(channel, &reshard, p, micro, arena, &next));
  return NULL;
}

shoal_status_t shoal_check_channels(const shoal_program_t *program, shoal_allocator_t allocator) {
  for (int64_t c = 0; c < program->channel_count; ++c) {
    const shoal_channel_t *channel = &program->channels[c];
    const int64_t micros[2] = {channel->micro ? 0 : -1, channel->micro ? program->micro - 1 : -1};
    for (int k = 0; k < (channel->micro && program->micro > 1 ? 2 : 1); ++k) {
      shoal_arena_t arena;
      shoal_arena_init(allocator, &arena);
      shoal_status_t status = check_channel(channel, micros[k], &arena);
      shoal_arena_deinit(&arena);
      if (status) return shoal_status_annotatef(status, "channel %lld", (long long)c);
    }
  }
  return NULL;
}
