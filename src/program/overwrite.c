// Outputs that lie over inputs: an op whose record allows it may write an output exactly where one
// of its inputs lies. That input's value is gone then: the bytes belong to the output's buffer, and
// check_memory.c refuses whoever reads the input later.
//
// Here is what the instruction alone shows: which input it is, and that nothing else of the
// instruction lies there. Whether the record allows it, for the parts that a rank really has, is
// asked when a rank binds the instruction (bind.c).
#include "program/check_impl.h"

int32_t shoal_program_overwritten(const shoal_class_t *class, const shoal_instruction_t *in,
                                  int32_t output) {
  if (in->opcode != SHOAL_OPCODE_COMPUTE) return -1;
  const shoal_buffer_t *to = &class->buffers[in->outputs[output]];
  for (int32_t i = 0; i < in->input_count && to->bytes > 0; ++i) {
    const shoal_buffer_t *from = &class->buffers[in->inputs[i]];
    if (from->memory == to->memory && from->offset == to->offset && from->bytes == to->bytes &&
        from->group == to->group) {
      return i;
    }
  }
  return -1;
}

static bool overlap(const shoal_class_t *class, int32_t first, int32_t second) {
  if (first < 0 || second < 0) return false;
  const shoal_buffer_t *a = &class->buffers[first], *b = &class->buffers[second];
  return a->memory == b->memory &&
         a->offset < b->offset + b->bytes * shoal_buffer_slots(class, b) &&
         b->offset < a->offset + a->bytes * shoal_buffer_slots(class, a);
}

static shoal_status_t check_apart(const shoal_class_t *class, const shoal_instruction_t *in,
                                  int32_t output, int32_t input) {
  const int32_t index = in->outputs[output], operands = in->input_count + in->output_count;
  const shoal_buffer_t *to = &class->buffers[index], *from = &class->buffers[in->inputs[input]];
  if (to->count >= 0 || from->count >= 0) {
    return SHOAL_ERROR_HINT(MISMATCH, "give the output memory of its own",
                            "output %d '%s' lies over input %d, and how many rows there are is "
                            "known only when it runs",
                            output, to->name, input);
  }
  for (int32_t k = 0; k <= operands; ++k) {
    const int32_t other = k < in->input_count ? in->inputs[k]
                          : k < operands      ? in->outputs[k - in->input_count]
                                              : in->predicate;
    if (k == input || k == in->input_count + output) continue;
    const bool counted = k < operands && overlap(class, class->buffers[other].count, index);
    if (!counted && !overlap(class, other, index)) continue;
    return SHOAL_ERROR_HINT(MISMATCH, "an output lies over one input, or over none",
                            "output %d '%s' lies over input %d and over another operand, '%s'",
                            output, to->name, input, class->buffers[other].name);
  }
  return NULL;
}

shoal_status_t shoal_program_check_overwrites(const shoal_class_t *class,
                                              const shoal_instruction_t *in) {
  for (int32_t o = 0; o < in->output_count; ++o) {
    const int32_t input = shoal_program_overwritten(class, in, o);
    if (input >= 0) SHOAL_RETURN_IF_ERROR(check_apart(class, in, o, input));
  }
  return NULL;
}
