// Pairs that log-sum-exp merges. What a rank has of such a value is nothing without the rest and
// without its logarithms: it becomes a row of a stack of parts, and nobody else reads it; and a
// value and its logarithms are exchanged in one reshard.
#include "program/check_impl.h"

static bool is_merged(const shoal_layout_t *layout) {
  bool found = false;
  for (int32_t i = 0; i < layout->cut_count; ++i)
    found |=
        layout->cuts[i].kind == SHOAL_CUT_PARTIAL && layout->cuts[i].reduce == SHOAL_REDUCE_LSE;
  return found;
}

// May the instruction write this from parts? It stacks them, or only puts them elsewhere.
static bool keeps_parts(const shoal_instruction_t *in, const shoal_buffer_t *to) {
  if (in->opcode == SHOAL_OPCODE_COMPUTE) return to->parts;
  return (in->opcode == SHOAL_OPCODE_COPY || in->opcode == SHOAL_OPCODE_ASSEMBLE) &&
         is_merged(to->layout);
}

static shoal_status_t check_reader(const shoal_class_t *class, const shoal_instruction_t *in,
                                   const shoal_buffer_t *read) {
  bool kept = in->output_count > 0;
  for (int32_t o = 0; o < in->output_count && kept; ++o)
    kept = in->outputs[o] >= 0 && keeps_parts(in, &class->buffers[in->outputs[o]]);
  if (kept) return NULL;
  return SHOAL_ERROR_HINT(MISMATCH, "merge it with its log-sum-exp first, by shoal.lse_merge",
                          "it reads '%s', of which log-sum-exp has not merged the parts yet",
                          read->name);
}

// Has the second what the first has, but for its last dim?
static bool go_together(const shoal_type_t *value, const shoal_type_t *lse) {
  const int32_t rank = value->shape.rank, own = lse->shape.rank;
  bool same = rank > 0 && (own == rank - 1 || (own == rank && lse->shape.dims[rank - 1] == 1));
  for (int32_t d = 0; d < rank - 1 && same; ++d) same = value->shape.dims[d] == lse->shape.dims[d];
  return same;
}

// What goes round a ring is a sum so far: it needs nothing else.
static bool goes_round(const shoal_channel_t *channel) {
  bool turned = false;
  for (int side = 0; side < 2; ++side) {
    const shoal_layout_t *layout = side ? channel->dst : channel->src;
    for (int32_t i = 0; i < layout->cut_count; ++i) turned |= layout->cuts[i].turn > 0;
  }
  return turned;
}

static shoal_status_t check_reshard(const shoal_program_t *program, const shoal_class_t *class,
                                    const shoal_instruction_t *in) {
  const char *parts = NULL;
  for (int32_t i = 0; i < in->input_count; ++i) {
    const int32_t buffer = in->inputs[i] >= 0 ? in->inputs[i] : in->outputs[i];
    if (buffer >= 0 && class->buffers[buffer].parts) parts = class->buffers[buffer].name;
  }
  if (!parts || goes_round(&program->channels[in->channels[0]]) ||
      (in->input_count == 2 && go_together(&program->channels[in->channels[0]].type,
                                           &program->channels[in->channels[1]].type)))
    return NULL;
  return SHOAL_ERROR_HINT(MISMATCH, "a value and its log-sum-exp go in one reshard",
                          "it carries parts of '%s' without their log-sum-exp", parts);
}

shoal_status_t shoal_program_check_pair(const shoal_program_t *program, const shoal_class_t *class,
                                        const shoal_instruction_t *in) {
  for (int32_t i = 0; i < in->input_count; ++i) {
    const shoal_buffer_t *read = in->inputs[i] >= 0 ? &class->buffers[in->inputs[i]] : NULL;
    if (read && is_merged(read->layout)) SHOAL_RETURN_IF_ERROR(check_reader(class, in, read));
  }
  return in->opcode == SHOAL_OPCODE_RESHARD ? check_reshard(program, class, in) : NULL;
}
