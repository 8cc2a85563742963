// From the orders of a program to slots, memory and waits: see time.h.
#include "lower/time.h"

#include "base/status.h"

shoal_status_t shoal_lower_time(shoal_program_t *program, shoal_allocator_t allocator) {
  for (int64_t k = 0; k < program->class_count; ++k) {
    shoal_class_t *c = &program->classes[k];
    SHOAL_RETURN_IF_ERROR(shoal_lower_slots(program, c, allocator));
    SHOAL_RETURN_IF_ERROR(shoal_lower_memory(c, allocator));
    SHOAL_RETURN_IF_ERROR(shoal_lower_waits(c, program->arena, allocator));
    SHOAL_RETURN_IF_ERROR(shoal_lower_call_waits(c, program->arena, allocator));
  }
  return NULL;
}
