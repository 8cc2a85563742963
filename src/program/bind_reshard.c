// A rank's share of a reshard: a motion. What it is follows from the two layouts, and
// layout/motion.h works it out; here are the questions that a channel and its micro-batches add.
#include "program/program_impl.h"
#include "program/sample.h"

shoal_status_t shoal_channel_describe(const shoal_channel_t *channel, int64_t micro,
                                      shoal_allocator_t allocator,
                                      shoal_reshard_facts_t *out_facts) {
  return shoal_reshard_describe(channel->src, shoal_program_micro_of(channel->src, micro),
                                channel->dst, shoal_program_micro_of(channel->dst, micro),
                                &channel->type.shape, allocator, out_facts);
}

shoal_status_t shoal_bind_reshard(const shoal_channel_t *channel, int64_t micro, int32_t rank,
                                  const shoal_bound_buffer_t *input,
                                  const shoal_bound_buffer_t *output,
                                  const shoal_reshard_facts_t *facts, shoal_arena_t *arena,
                                  shoal_motion_t *out_motion) {
  const shoal_motion_options_t options = {.dtype = channel->type.dtype,
                                          .rank = rank,
                                          .detach = true,
                                          .input_count = input ? input->count : 0,
                                          .output_count = output ? output->count : 0};
  return shoal_motion_of_rank(channel->src, shoal_program_micro_of(channel->src, micro),
                              channel->dst, shoal_program_micro_of(channel->dst, micro),
                              &channel->type.shape, facts, &options, arena, out_motion);
}

shoal_status_t shoal_bind_messages(const shoal_channel_t *channel, int32_t rank,
                                   const shoal_bound_buffer_t *input,
                                   const shoal_bound_buffer_t *output, shoal_arena_t *arena,
                                   shoal_motion_t *out_motion) {
  shoal_reshard_facts_t facts;
  SHOAL_RETURN_IF_ERROR(shoal_channel_describe(channel, -1, arena->allocator, &facts));
  facts.collective = false;
  return shoal_bind_reshard(channel, -1, rank, input, output, &facts, arena, out_motion);
}

// ---- all ranks and micro-batches ------------------------------------------------------

static int64_t loop_of(const shoal_channel_t *channel, int64_t micro_count) {
  return channel->micro ? micro_count : 0;
}

// What one of several values takes of the packed buffer of a collective, at its largest.
static shoal_status_t packed_collective(const shoal_channel_t *channel,
                                        const shoal_reshard_facts_t *facts,
                                        const shoal_class_t *class, shoal_arena_t *scratch,
                                        int64_t *out_bytes) {
  const bool scatters = facts->kind == SHOAL_RESHARD_REDUCE_SCATTER;
  return shoal_layout_largest(scatters ? channel->src : channel->dst, &channel->type, class,
                              scratch->allocator, out_bytes);
}

// `packed`: as one of several values.
static shoal_status_t find_workspace(const shoal_channel_t *channel, int64_t micro_count,
                                     const shoal_class_t *class, bool packed,
                                     shoal_arena_t *scratch, int64_t *out_bytes) {
  const shoal_layout_t *src = channel->src, *dst = channel->dst;
  int64_t count;
  const int64_t *micros;
  *out_bytes = 0;
  SHOAL_RETURN_IF_ERROR(shoal_sample_micros(
      src, dst, &channel->type.shape, loop_of(channel, micro_count), scratch, &count, &micros));
  const bool all =
      !class || (shoal_class_covers(class, src->mesh) && shoal_class_covers(class, dst->mesh));
  for (int64_t i = 0; i < count; ++i) {
    int64_t bytes = 0;
    shoal_reshard_facts_t facts = {0};
    if (packed) {
      SHOAL_RETURN_IF_ERROR(shoal_channel_describe(channel, micros[i], scratch->allocator, &facts));
    }
    if (facts.collective) {
      SHOAL_RETURN_IF_ERROR(packed_collective(channel, &facts, class, scratch, &bytes));
    } else {
      SHOAL_RETURN_IF_ERROR(shoal_reshard_staging_largest(
          src, shoal_program_micro_of(src, micros[i]), dst, shoal_program_micro_of(dst, micros[i]),
          &channel->type.shape, channel->type.dtype, packed, all ? 0 : class->rank_count,
          all ? NULL : class->ranks, scratch, &bytes));
    }
    if (bytes > *out_bytes) *out_bytes = bytes;
  }
  return NULL;
}

shoal_status_t shoal_channel_workspace(const shoal_channel_t *channel, int64_t micro_count,
                                       const shoal_class_t *class, shoal_arena_t *scratch,
                                       int64_t *out_bytes) {
  return find_workspace(channel, micro_count, class, false, scratch, out_bytes);
}

shoal_status_t shoal_reshard_workspace(const shoal_channel_t *table, int32_t count,
                                       const int32_t *channels, int64_t micro_count,
                                       const shoal_class_t *class, shoal_arena_t *scratch,
                                       int64_t *out_bytes) {
  if (count == 1) {
    return find_workspace(&table[channels[0]], micro_count, class, false, scratch, out_bytes);
  }
  *out_bytes = 0;
  bool mixed = false;
  for (int32_t i = 0; i < count; ++i) {
    const shoal_channel_t *channel = &table[channels[i]];
    int64_t bytes;
    SHOAL_RETURN_IF_ERROR(find_workspace(channel, micro_count, class, true, scratch, &bytes));
    if (__builtin_add_overflow(*out_bytes, bytes, out_bytes))
      return SHOAL_ERROR(INVALID_ARGUMENT, "the messages of a reshard fit no memory");
    mixed |= channel->type.dtype != table[channels[0]].type.dtype;
  }
  // Parts of a collective of several types start aligned.
  const int64_t ranks = shoal_mesh_size(table[channels[0]].dst->mesh);
  if (mixed && *out_bytes > 0) *out_bytes += ranks * (int64_t)sizeof(double);
  *out_bytes = shoal_program_align(*out_bytes);
  return NULL;
}

shoal_status_t shoal_channel_is_silent(const shoal_channel_t *channel, int64_t micro_count,
                                       shoal_arena_t *scratch, bool *out_silent) {
  int64_t count;
  const int64_t *micros;
  SHOAL_RETURN_IF_ERROR(shoal_sample_micros(channel->src, channel->dst, &channel->type.shape,
                                            loop_of(channel, micro_count), scratch, &count,
                                            &micros));
  *out_silent = true;
  for (int64_t i = 0; i < count && *out_silent; ++i) {
    shoal_reshard_facts_t facts;
    SHOAL_RETURN_IF_ERROR(shoal_channel_describe(channel, micros[i], scratch->allocator, &facts));
    *out_silent = facts.kind == SHOAL_RESHARD_NONE || facts.kind == SHOAL_RESHARD_SLICE;
  }
  return NULL;
}
