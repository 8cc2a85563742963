// Passes `slots`, `memory` and `waits`, which follow from the orders of a program: see time.h.
#include "lower/time.h"

#include "base/status.h"
#include "lower/build.h"

static shoal_status_t find_waits(shoal_program_t *program, shoal_class_t *c,
                                 shoal_allocator_t allocator) {
  SHOAL_RETURN_IF_ERROR(shoal_lower_waits(c, program->arena, allocator));
  return shoal_lower_call_waits(c, program->arena, allocator);
}

shoal_status_t shoal_lower_time(shoal_program_t *program, shoal_allocator_t allocator) {
  for (int64_t k = 0; k < program->class_count; ++k) {
    shoal_class_t *c = &program->classes[k];
    SHOAL_RETURN_IF_ERROR(shoal_lower_slots(program, c, allocator));
    SHOAL_RETURN_IF_ERROR(shoal_lower_memory(c, allocator));
    SHOAL_RETURN_IF_ERROR(find_waits(program, c, allocator));
  }
  return NULL;
}

shoal_status_t shoal_lower_pass_slots(build_t *b) {
  shoal_program_t *program = b->program;
  for (int64_t k = 0; k < program->class_count; ++k)
    SHOAL_RETURN_IF_ERROR(shoal_lower_slots(program, &program->classes[k], b->plan->allocator));
  return NULL;
}

shoal_status_t shoal_lower_pass_memory(build_t *b) {
  for (int64_t k = 0; k < b->program->class_count; ++k)
    SHOAL_RETURN_IF_ERROR(shoal_lower_memory(&b->program->classes[k], b->plan->allocator));
  return NULL;
}

shoal_status_t shoal_lower_pass_waits(build_t *b) {
  shoal_program_t *program = b->program;
  for (int64_t k = 0; k < program->class_count; ++k)
    SHOAL_RETURN_IF_ERROR(find_waits(program, &program->classes[k], b->plan->allocator));
  return NULL;
}
