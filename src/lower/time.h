// When things run and where they lie, for a program whose classes, segments and orders are there:
// slots, memory and waits follow from the orders, and can be worked out again when those have
// changed.
#ifndef SHOAL_LOWER_TIME_H_
#define SHOAL_LOWER_TIME_H_

#include "shoal/program.h"

// What an instruction touches: a slot of a buffer, or its workspace.
typedef struct shoal_access {
  int32_t buffer;  // -1: the workspace
  bool write;
} shoal_access_t;

// Accesses have numbers from 0: inputs, outputs, predicate, workspace, and how many rows of its
// operands are valid. Some are none.
static inline int32_t shoal_access_count(const shoal_instruction_t *in) {
  return 2 * (in->input_count + in->output_count) + 2;
}
static inline bool shoal_access_at(const shoal_class_t *c, const shoal_instruction_t *in, int32_t k,
                                   shoal_access_t *out_access) {
  const int32_t operands = in->input_count + in->output_count;
  if (k == operands + 1) {
    *out_access = (shoal_access_t){-1, true};
    return in->workspace > 0;
  }
  const int32_t operand = k < operands ? k : k - operands - 2;
  int32_t index = k == operands               ? in->predicate
                  : operand < in->input_count ? in->inputs[operand]
                                              : in->outputs[operand - in->input_count];
  if (index >= 0 && k > operands) index = c->buffers[index].count;
  *out_access = (shoal_access_t){index, k >= in->input_count && k < operands};
  return index >= 0 && c->buffers[index].bytes > 0;
}

// time.c: slots, memory and waits of all classes, from their orders. May be called again.
SHOAL_MUST_USE shoal_status_t shoal_lower_time(shoal_program_t *program,
                                               shoal_allocator_t allocator);
// slots.c: groups of slots of one class, and the slots that calls name.
SHOAL_MUST_USE shoal_status_t shoal_lower_slots(const shoal_program_t *program, shoal_class_t *c,
                                                shoal_allocator_t allocator);
// memory.c: offsets of buffers and workspaces of one class.
SHOAL_MUST_USE shoal_status_t shoal_lower_memory(shoal_class_t *c, shoal_allocator_t allocator);
// waits.c: orders conflicting accesses of a segment on different queues.
SHOAL_MUST_USE shoal_status_t shoal_lower_waits(shoal_class_t *c, shoal_arena_t *arena,
                                                shoal_allocator_t allocator);
// call_waits.c: and those of different calls, in one step or in several.
SHOAL_MUST_USE shoal_status_t shoal_lower_call_waits(shoal_class_t *c, shoal_arena_t *arena,
                                                     shoal_allocator_t allocator);

#endif  // SHOAL_LOWER_TIME_H_
