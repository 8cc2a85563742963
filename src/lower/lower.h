// Lowering: from a plan to a program. Puts reshards where producer and consumer differ, splits a
// step into segments, plans memory and adds the waits that order queues. Knows no op by name.
#ifndef SHOAL_LOWER_LOWER_H_
#define SHOAL_LOWER_LOWER_H_

#include "plan/plan.h"
#include "shoal/program.h"

typedef struct shoal_lower_options {
  shoal_allocator_t allocator;
  const char *const
      *fetches;  // names of values to fetch besides outputs; NULL-terminated, may be NULL
} shoal_lower_options_t;

SHOAL_MUST_USE shoal_status_t shoal_lower(const shoal_plan_t *plan,
                                          const shoal_lower_options_t *options,
                                          shoal_program_t **out_program);

#endif  // SHOAL_LOWER_LOWER_H_
