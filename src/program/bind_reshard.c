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

shoal_status_t shoal_channel_workspace(const shoal_channel_t *channel, int64_t micro_count,
                                       const shoal_class_t *class, shoal_arena_t *scratch,
                                       int64_t *out_bytes) {
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
    SHOAL_RETURN_IF_ERROR(shoal_reshard_staging_largest(
        src, shoal_program_micro_of(src, micros[i]), dst, shoal_program_micro_of(dst, micros[i]),
        &channel->type.shape, channel->type.dtype, all ? 0 : class->rank_count,
        all ? NULL : class->ranks, scratch, &bytes));
    if (bytes > *out_bytes) *out_bytes = bytes;
  }
  return NULL;
}

// ---- several values ---------------------------------------------------------------------

// The rank's part of one side, as a buffer of it is bound.
static shoal_status_t bind_side(const shoal_layout_t *layout, const shoal_type_t *type,
                                const shoal_sample_t *sample, shoal_arena_t *scratch,
                                shoal_bound_buffer_t *storage,
                                const shoal_bound_buffer_t **out_bound) {
  const int64_t position = shoal_mesh_position(layout->mesh, sample->rank);
  *out_bound = NULL;
  if (position < 0) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_layout_boxes(layout, &type->shape, position,
                                           shoal_program_micro_of(layout, sample->micro), scratch,
                                           &storage->boxes));
  const shoal_shape_t shape = shoal_boxes_shape(&storage->boxes);
  storage->count = shoal_shape_count(&shape);
  *out_bound = storage;
  return NULL;
}

static shoal_status_t bind_value(const shoal_channel_t *channel, const shoal_sample_t *sample,
                                 shoal_arena_t *scratch, shoal_motion_t *out_motion) {
  shoal_bound_buffer_t storage[2];
  const shoal_bound_buffer_t *input, *output;
  shoal_reshard_facts_t facts;
  SHOAL_RETURN_IF_ERROR(
      bind_side(channel->src, &channel->type, sample, scratch, &storage[0], &input));
  SHOAL_RETURN_IF_ERROR(
      bind_side(channel->dst, &channel->type, sample, scratch, &storage[1], &output));
  SHOAL_RETURN_IF_ERROR(shoal_channel_describe(channel, sample->micro, scratch->allocator, &facts));
  return shoal_bind_reshard(channel, sample->micro, sample->rank, input, output, &facts, scratch,
                            out_motion);
}

static bool is_same(const shoal_channel_t *a, const shoal_channel_t *b) {
  return a->src == b->src && a->dst == b->dst && shoal_type_equal(&a->type, &b->type);
}

// What one rank stages: all values are packed together, as they will be when it is bound. Values
// that are alike move alike.
static shoal_status_t stage_values(const shoal_channel_t *table, int32_t count,
                                   const int32_t *channels, const shoal_sample_t *sample,
                                   shoal_arena_t *scratch, int64_t *out_bytes) {
  shoal_motion_t *motions = SHOAL_NEW(scratch, shoal_motion_t, count);
  shoal_bundle_t bundle;
  if (!motions) return SHOAL_OOM();
  for (int32_t i = 0; i < count; ++i) {
    const shoal_channel_t *channel = &table[channels[i]];
    int32_t same = 0;
    while (same < i && !is_same(&table[channels[same]], channel)) ++same;
    if (same < i)
      motions[i] = motions[same];
    else
      SHOAL_RETURN_IF_ERROR(bind_value(channel, sample, scratch, &motions[i]));
  }
  SHOAL_RETURN_IF_ERROR(shoal_bundle_plan(count, motions, sample->rank, scratch, &bundle));
  *out_bytes = shoal_motion_only_sends(&bundle.whole) ? 0 : bundle.whole.staging;
  return NULL;
}

shoal_status_t shoal_reshard_workspace(const shoal_channel_t *table, int32_t count,
                                       const int32_t *channels, int64_t micro_count,
                                       const shoal_class_t *class, shoal_arena_t *scratch,
                                       int64_t *out_bytes) {
  const shoal_channel_t *first = &table[channels[0]];
  shoal_samples_t samples;
  if (count == 1) return shoal_channel_workspace(first, micro_count, class, scratch, out_bytes);
  SHOAL_RETURN_IF_ERROR(shoal_sample_moves(class, table, count, channels,
                                           loop_of(first, micro_count), scratch, &samples));
  *out_bytes = 0;
  for (int64_t i = 0; i < samples.count; ++i) {
    shoal_arena_t arena;
    shoal_arena_init(scratch->allocator, &arena);
    int64_t bytes = 0;
    shoal_status_t status = stage_values(table, count, channels, &samples.items[i], &arena, &bytes);
    shoal_arena_deinit(&arena);
    SHOAL_RETURN_IF_ERROR(status);
    if (bytes > *out_bytes) *out_bytes = bytes;
  }
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
