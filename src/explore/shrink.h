// Makes a failing random case smaller while it still fails.
#ifndef SHOAL_EXPLORE_SHRINK_H_
#define SHOAL_EXPLORE_SHRINK_H_

#include "explore/random_case.h"

// *c, which failed with `report` and `status`, is replaced by the smallest case found that fails
// the same way: same code, same step of the check, and there the same kind of difference or the
// same first words of the message. *out_status is its error, NULL if there is none. `with` as for
// shoal_random_case_check. Tries a few hundred cases at most.
void shoal_shrink_case(shoal_random_case_t *c, shoal_registry_t *registry,
                       const shoal_check_options_t *with, const shoal_check_report_t *report,
                       shoal_status_t status, shoal_arena_t *arena, shoal_status_t *out_status);

#endif  // SHOAL_EXPLORE_SHRINK_H_
