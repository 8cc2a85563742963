// Shoal, lower: from a plan to the program that its ranks execute.
//
// Lowering puts a reshard wherever the layout in which a value is produced differs from the one in
// which it is needed, splits a step into segments, plans slots and memory of every class of ranks,
// and adds the waits that order the queues, also across calls and steps. shoal_parallelize
// (session.h) does all of this; call it yourself to look at a program, to simulate it or to keep
// it, without running it:
//
//   status = shoal_lower(plan, NULL, &program);
//   if (!status) status = shoal_program_check(program, shoal_allocator_system());
#ifndef SHOAL_LOWER_H_
#define SHOAL_LOWER_H_

#include "shoal/plan.h"
#include "shoal/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_lower_options {
  shoal_allocator_t allocator;  // zero: the system's
  // Names of values to fetch besides outputs; NULL-terminated, may be NULL.
  const char *const *fetches;
} shoal_lower_options_t;

// Makes the program of a plan. NULL options are all defaults. The program borrows op records from
// the registry of the plan's model, and nothing else: the plan may be freed before it. Errors name
// the node or value (UNSUPPORTED, NOT_FOUND for a fetch). *Not collective*, does not block.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_lower(const shoal_plan_t *plan,
                                                    const shoal_lower_options_t *options,
                                                    shoal_program_t **out_program);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_LOWER_H_
