// Features of exchanges, for coverage: in each micro-batch, in another type, in a bucket, on a lane
// of its own, of the rows that are used.
#include "explore/exchanges.h"

#include <string.h>

#include "base/dtype.h"
#include "shoal/layout.h"

// Is what micro-batches add up reduced over ranks in each of them?
static bool is_in_each(const shoal_channel_t *channel) {
  const shoal_cut_t *micro = shoal_layout_along(channel->src, SHOAL_AXIS_MICRO);
  bool before = false, behind = false;
  for (int32_t i = 0; i < channel->src->cut_count; ++i)
    before |= channel->src->cuts[i].kind == SHOAL_CUT_PARTIAL &&
              channel->src->cuts[i].axis != SHOAL_AXIS_MICRO;
  for (int32_t i = 0; i < channel->dst->cut_count; ++i)
    behind |= channel->dst->cuts[i].kind == SHOAL_CUT_PARTIAL &&
              channel->dst->cuts[i].axis != SHOAL_AXIS_MICRO;
  return micro && micro->kind == SHOAL_CUT_PARTIAL && before && !behind;
}

// An instruction that brings a gradient to the type in which it is exchanged, or back: both copies
// have its name.
static const char *cast_feature(const shoal_class_t *class, const shoal_instruction_t *in) {
  if (in->input_count != 1 || in->output_count != 1) return NULL;
  const shoal_buffer_t *from = &class->buffers[in->inputs[0]];
  const shoal_buffer_t *to = &class->buffers[in->outputs[0]];
  if (strcmp(from->name, to->name) != 0 || from->type.dtype == to->type.dtype) return NULL;
  if (!shoal_layout_is_partial(from->layout))
    return strcmp(in->op->name, "shoal.cast") == 0 && in->attrs[1].f != 1 ? "exchanged scaled"
                                                                          : NULL;
  const bool narrower = shoal_dtype_epsilon(to->type.dtype) > shoal_dtype_epsilon(from->type.dtype);
  return narrower ? "exchanged narrower" : "exchanged wider";
}

const char *shoal_exchange_feature(const shoal_program_t *program, const shoal_class_t *class,
                                   const shoal_instruction_t *in) {
  if (in->opcode == SHOAL_OPCODE_COMPUTE) return cast_feature(class, in);
  if (!in->channels) return NULL;
  const shoal_channel_t *channel = &program->channels[in->channels[0]];
  if (in->opcode == SHOAL_OPCODE_EXCHANGE)
    return channel->micro ? "rows exchanged in micro-batches" : "rows exchanged";
  if (is_in_each(channel)) return "exchanged in each";
  if (channel->lane > 0) return "lane";
  if (channel->src->tile.count > 0)
    return shoal_layout_is_partial(channel->src) ? "reduced in tiles" : "gathered in tiles";
  if (in->input_count == 1) return NULL;
  return shoal_layout_is_partial(channel->src) ? "bucket reduced" : "bucket gathered";
}
