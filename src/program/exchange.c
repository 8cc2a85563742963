// Exchanges: reshards of which only the rows move that are used. The value [g.., C, ..] has room
// for C rows in each group and uses as many as the counts [g..] say when the exchange runs. Both
// sides have the counts of their own groups in a buffer, so both know what is sent.
#include "program/check_impl.h"

// Is a rank's part one box?
static bool is_box(const shoal_layout_t *layout) {
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *cut = &layout->cuts[i];
    if (cut->kind != SHOAL_CUT_DIM || cut->chunk_count > 0 || cut->before != 0 || cut->after != 0)
      return false;
  }
  return true;
}

bool shoal_exchange_fits(const shoal_layout_t *src, const shoal_layout_t *dst) {
  return src->mesh == dst->mesh && is_box(src) && is_box(dst);
}

shoal_layout_t shoal_exchange_counts(const shoal_layout_t *layout, int32_t groups) {
  shoal_layout_t out = *layout;
  out.cut_count = 0;
  for (int32_t i = 0; i < layout->cut_count; ++i)
    if (layout->cuts[i].dim < groups) out.cuts[out.cut_count++] = layout->cuts[i];
  return out;
}

static shoal_status_t check_operand(const shoal_class_t *class, int32_t index,
                                    const shoal_type_t *type, const shoal_layout_t *layout) {
  const shoal_buffer_t *buffer = &class->buffers[index];
  if (shoal_type_equal(&buffer->type, type) && shoal_layout_equal(buffer->layout, layout))
    return NULL;
  char should[160];
  return SHOAL_ERROR_HINT(MISMATCH, "give it the type and the layout that the channel asks for",
                          "buffer %d '%s' is not the %s that it exchanges", index, buffer->name,
                          shoal_type_format(type, should, sizeof should));
}

shoal_status_t shoal_program_check_exchange(const shoal_class_t *class,
                                            const shoal_channel_t *channel,
                                            const shoal_instruction_t *in) {
  if (!shoal_exchange_fits(channel->src, channel->dst)) {
    return SHOAL_ERROR_HINT(MISMATCH, "reshard it, with all its rows",
                            "its layouts are on two meshes, or a rank's part is not one box");
  }
  shoal_type_t counts = class->buffers[in->inputs[1]].type;
  if ((counts.dtype != SHOAL_I64 && counts.dtype != SHOAL_I32 && counts.dtype != SHOAL_U8) ||
      counts.shape.rank >= channel->type.shape.rank) {
    return SHOAL_ERROR_HINT(MISMATCH, "give an integer for each group",
                            "buffer %d '%s' holds no counts of its rows", in->inputs[1],
                            class->buffers[in->inputs[1]].name);
  }
  for (int32_t d = 0; d < counts.shape.rank; ++d)
    counts.shape.dims[d] = channel->type.shape.dims[d];
  const shoal_layout_t here = shoal_exchange_counts(channel->src, counts.shape.rank),
                       there = shoal_exchange_counts(channel->dst, counts.shape.rank);
  SHOAL_RETURN_IF_ERROR(check_operand(class, in->inputs[0], &channel->type, channel->src));
  SHOAL_RETURN_IF_ERROR(check_operand(class, in->inputs[1], &counts, &here));
  SHOAL_RETURN_IF_ERROR(check_operand(class, in->inputs[2], &counts, &there));
  return check_operand(class, in->outputs[0], &channel->type, channel->dst);
}
