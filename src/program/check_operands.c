// Reshards of several values. One of them is one meeting of all classes that take part, so its
// values must go together: between the same meshes, on one lane, in the loop or outside it, and
// every class lists them alike. The first channel of the list then stands for all of them in the
// parts of the check that follow. (What they are carried out as, and
// whether there is room to pack them, is asked where they are bound.)
#include <string.h>

#include "program/check_impl.h"

static shoal_status_t check_together(const shoal_program_t *program,
                                     const shoal_instruction_t *in) {
  const shoal_channel_t *first = &program->channels[in->channels[0]];
  for (int32_t i = 1; i < in->input_count; ++i) {
    const shoal_channel_t *other = &program->channels[in->channels[i]];
    const char *differs =
        other->lane != first->lane     ? "are on different lanes"
        : other->micro != first->micro ? "are not both in the loop"
        : other->src->mesh != first->src->mesh || other->dst->mesh != first->dst->mesh
            ? "are between different meshes"
            : NULL;
    if (!differs) continue;
    return SHOAL_ERROR_HINT(MISMATCH, "give them reshards of their own",
                            "it carries channels %d and %d together, which %s", in->channels[0],
                            in->channels[i], differs);
  }
  return NULL;
}

// `carriers`: by channel, the first reshard that was seen with it, of any class.
static shoal_status_t check_alike(const shoal_instruction_t *in,
                                  const shoal_instruction_t **carriers) {
  const int32_t count = shoal_instruction_channels(in);
  for (int32_t i = 0; i < count; ++i) {
    const shoal_instruction_t *other = carriers[in->channels[i]];
    if (!other) {
      carriers[in->channels[i]] = in;
      continue;
    }
    if (other->opcode != in->opcode) {
      return SHOAL_ERROR_HINT(MISMATCH, "do the same with a channel in all classes",
                              "channel %d is a %s's in another class, of '%s'", in->channels[i],
                              shoal_opcode_name(other->opcode), other->name);
    }
    if (other->input_count == in->input_count &&
        memcmp(other->channels, in->channels, (size_t)count * sizeof *in->channels) == 0)
      continue;
    return SHOAL_ERROR_HINT(MISMATCH, "list the same channels in the same order in all classes",
                            "channel %d is carried with others in another class, by '%s'",
                            in->channels[i], other->name);
  }
  return NULL;
}

shoal_status_t shoal_program_check_operands(const check_t *check) {
  const shoal_program_t *program = check->program;
  const shoal_instruction_t **carriers =
      SHOAL_NEW(check->scratch, const shoal_instruction_t *, program->channel_count);
  if (!carriers) return SHOAL_OOM();
  place_t place = {.program = program, .class = 0, .micro = -1};
  for (; place.class < program->class_count; ++place.class) {
    const shoal_class_t *class = place_class(&place);
    for (place.segment = 0; place.segment < class->segment_count; ++place.segment) {
      const shoal_segment_t *segment = &class->segments[place.segment];
      for (int64_t i = 0; i < segment->instruction_count; ++i) {
        const shoal_instruction_t *in = &segment->instructions[i];
        if (!in->channels) continue;
        const bool reshard = in->opcode == SHOAL_OPCODE_RESHARD;
        shoal_status_t status = reshard ? check_together(program, in) : NULL;
        if (!status) status = check_alike(in, carriers);
        place.instruction = i;
        if (status) return shoal_program_check_at(&place, status);
      }
    }
  }
  return NULL;
}
