// A rank's share of a reshard: a motion (layout/motion.h). Who sends what to whom is
// shoal_layout_reshard's business, what a rank makes of it shoal_motion_plan's; here are the
// questions that a channel and its micro-batches add.
#include "program/program_impl.h"

shoal_status_t shoal_channel_describe(const shoal_channel_t *channel, int64_t micro,
                                      shoal_arena_t *scratch, shoal_reshard_kind_t *out_kind,
                                      bool *out_collective) {
  shoal_reshard_t reshard;
  SHOAL_RETURN_IF_ERROR(shoal_layout_reshard(
      channel->src, shoal_program_micro_of(channel->src, micro), channel->dst,
      shoal_program_micro_of(channel->dst, micro), &channel->type.shape, scratch, &reshard));
  *out_kind = reshard.kind;
  *out_collective = reshard.collective;
  return NULL;
}

// The motion copies what it needs of the links: they go.
static shoal_status_t plan_motion(const shoal_channel_t *channel, int64_t micro,
                                  const shoal_motion_options_t *options, bool messages,
                                  shoal_arena_t *scratch, shoal_arena_t *arena,
                                  shoal_motion_t *out_motion) {
  shoal_links_t links;
  SHOAL_RETURN_IF_ERROR(shoal_links_list(channel->src, shoal_program_micro_of(channel->src, micro),
                                         channel->dst, shoal_program_micro_of(channel->dst, micro),
                                         &channel->type.shape, options->rank, scratch, &links));
  SHOAL_RETURN_IF_ERROR(
      shoal_channel_describe(channel, micro, scratch, &links.kind, &links.collective));
  if (messages) links.collective = false;
  return shoal_motion_plan(&links, options, arena, out_motion);
}

shoal_status_t shoal_bind_reshard(const shoal_channel_t *channel, int64_t micro, int32_t rank,
                                  const shoal_bound_buffer_t *input,
                                  const shoal_bound_buffer_t *output, bool messages,
                                  shoal_arena_t *arena, shoal_motion_t *out_motion) {
  shoal_arena_t scratch;
  shoal_arena_init(arena->allocator, &scratch);
  const shoal_motion_options_t options = {.dtype = channel->type.dtype,
                                          .rank = rank,
                                          .detach = true,
                                          .input_count = input ? input->count : 0,
                                          .output_count = output ? output->count : 0};
  shoal_status_t status =
      plan_motion(channel, micro, &options, messages, &scratch, arena, out_motion);
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
} need_t;

static shoal_status_t look_at(need_t *need, int64_t micro, shoal_arena_t *scratch) {
  const shoal_channel_t *channel = need->channel;
  shoal_reshard_t reshard;
  SHOAL_RETURN_IF_ERROR(shoal_layout_reshard(
      channel->src, shoal_program_micro_of(channel->src, micro), channel->dst,
      shoal_program_micro_of(channel->dst, micro), &channel->type.shape, scratch, &reshard));
  SHOAL_RETURN_IF_ERROR(shoal_motion_staging(&reshard, channel->src, channel->dst,
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

// Of a layout, what cuts it along micro; NULL: nothing.
static const shoal_cut_t *micro_cut(const shoal_layout_t *layout) {
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *cut = &layout->cuts[i];
    if (cut->axis == SHOAL_AXIS_MICRO && cut->kind != SHOAL_CUT_PARTIAL) return cut;
  }
  return NULL;
}

enum { SAMPLES = 7 };

// Micro-batches in which ranks need the most, and how many; 0: all must be looked at. Both sides
// are cut into the same micro-batches, evenly: then ranks do the same in each of them, up to sizes.
// The sizes change where fewer units are dealt, at the last unit, which may be short, and before
// it, where a halo may end.
static int32_t sample_micros(const shoal_channel_t *channel, int64_t count, int64_t out[SAMPLES]) {
  const shoal_cut_t *a = micro_cut(channel->src), *b = micro_cut(channel->dst);
  if (count <= SAMPLES || !a != !b || shoal_layout_uneven(channel->src, SHOAL_AXIS_MICRO) ||
      shoal_layout_uneven(channel->dst, SHOAL_AXIS_MICRO)) {
    return 0;
  }
  int64_t fewer = 0;  // the first that gets one unit less
  if (a) {
    const int64_t unit = a->unit > 1 ? a->unit : 1, other = b->unit > 1 ? b->unit : 1;
    if (a->kind != SHOAL_CUT_DIM || b->kind != SHOAL_CUT_DIM || a->dim != b->dim || unit != other ||
        a->chunk_count > 0 || b->chunk_count > 0 || a->before != b->before ||
        a->after != b->after) {
      return 0;
    }
    fewer = (channel->type.shape.dims[a->dim] + unit - 1) / unit % count;
  }
  const int64_t list[SAMPLES] = {0, 1, fewer - 2, fewer - 1, fewer, count - 2, count - 1};
  int32_t found = 0;
  for (int32_t i = 0; i < SAMPLES; ++i) {
    bool known = list[i] < 0;
    for (int32_t k = 0; k < found; ++k) known |= out[k] == list[i];
    if (!known) out[found++] = list[i];
  }
  return found;
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
  int64_t ranks = ranks_of(channel->src->mesh), other = ranks_of(channel->dst->mesh);
  need_t need = {.channel = channel, .class = class, .ranks = ranks > other ? ranks : other};
  need.bytes = SHOAL_NEW(scratch, int64_t, need.ranks);
  *out_bytes = 0;
  if (!need.bytes) return SHOAL_OOM();
  bool micro = channel->micro &&
               (shoal_program_has_micro(channel->src) || shoal_program_has_micro(channel->dst));
  int64_t first = channel->micro ? 0 : -1, last = micro ? micro_count - 1 : first;
  if (last < first) last = first;
  int64_t samples[SAMPLES];
  int32_t count = micro ? sample_micros(channel, micro_count, samples) : 0;
  for (int32_t i = 0; i < count; ++i) {
    SHOAL_RETURN_IF_ERROR(look_at_all(&need, samples[i], samples[i], scratch->allocator));
  }
  if (count == 0) SHOAL_RETURN_IF_ERROR(look_at_all(&need, first, last, scratch->allocator));
  *out_bytes = need.most;
  return NULL;
}

shoal_status_t shoal_channel_is_silent(const shoal_channel_t *channel, int64_t micro_count,
                                       shoal_arena_t *scratch, bool *out_silent) {
  const bool micro = channel->micro && (shoal_program_has_micro(channel->src) ||
                                        shoal_program_has_micro(channel->dst));
  int64_t samples[SAMPLES];
  const int32_t count = micro ? sample_micros(channel, micro_count, samples) : 0;
  const int64_t calls = count > 0 ? count : micro ? micro_count : 1;
  *out_silent = true;
  for (int64_t i = 0; i < calls && *out_silent; ++i) {
    const int64_t m = count > 0 ? samples[i] : channel->micro ? i : -1;
    shoal_reshard_kind_t kind;
    bool collective;
    SHOAL_RETURN_IF_ERROR(shoal_channel_describe(channel, m, scratch, &kind, &collective));
    *out_silent = kind == SHOAL_RESHARD_NONE || kind == SHOAL_RESHARD_SLICE;
  }
  return NULL;
}
