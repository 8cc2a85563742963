// Exchanges: all-to-alls whose parts have as many rows as a buffer says when they run.
#include "program/check_impl.h"

static bool is_plain(const shoal_cut_t *cut) {
  return cut->kind == SHOAL_CUT_DIM && cut->axis >= 0 && cut->unit <= 1 && cut->chunk_count == 0 &&
         !cut->weights && cut->items == 0 && cut->before == 0 && cut->after == 0;
}

shoal_status_t shoal_channel_exchange(const shoal_channel_t *channel,
                                      shoal_exchange_sizes_t *out_sizes) {
  const shoal_layout_t *layout = channel->src;
  const shoal_mesh_t *mesh = layout->mesh;
  *out_sizes = (shoal_exchange_sizes_t){.axis = -1};
  bool plain = channel->type.shape.rank > 0 && shoal_layout_equal(channel->src, channel->dst);
  for (int32_t i = 0; i < layout->cut_count && plain; ++i) {
    const shoal_cut_t *cut = &layout->cuts[i];
    plain = is_plain(cut) && !(cut->dim == 0 && out_sizes->axis >= 0);
    if (plain && cut->dim == 0) out_sizes->axis = cut->axis;
  }
  if (!plain || out_sizes->axis < 0 || channel->capacity < 1) {
    return SHOAL_ERROR_HINT(MISMATCH, "cut the rows along one axis, evenly, on both sides",
                            "its channel has no capacity, or its layouts are no exchange's");
  }
  const int64_t ranks = mesh->axes[out_sizes->axis].size, rows = channel->type.shape.dims[0];
  if (rows % (ranks * ranks) != 0) {
    return SHOAL_ERROR_HINT(MISMATCH, "give each rank a part for each rank, of equally many rows",
                            "%lld rows are not %lld equal parts on each of %lld ranks",
                            (long long)rows, (long long)ranks, (long long)ranks);
  }
  out_sizes->parts = ranks;
  out_sizes->rows = rows / (ranks * ranks);
  return NULL;
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
  shoal_exchange_sizes_t sizes;
  SHOAL_RETURN_IF_ERROR(shoal_channel_exchange(channel, &sizes));
  shoal_type_t came = channel->type;
  came.shape.dims[0] = sizes.parts * channel->capacity;
  const shoal_type_t counts = {SHOAL_I64, {.rank = 1, .dims = {sizes.parts * sizes.parts}}};
  shoal_layout_t by_rank = *channel->src;
  by_rank.cut_count = 1;
  for (int32_t i = 0; i < channel->src->cut_count; ++i)
    if (channel->src->cuts[i].dim == 0) by_rank.cuts[0] = channel->src->cuts[i];
  SHOAL_RETURN_IF_ERROR(check_operand(class, in->inputs[0], &channel->type, channel->src));
  SHOAL_RETURN_IF_ERROR(check_operand(class, in->inputs[1], &counts, &by_rank));
  SHOAL_RETURN_IF_ERROR(check_operand(class, in->outputs[0], &came, channel->dst));
  return check_operand(class, in->outputs[1], &counts, &by_rank);
}
