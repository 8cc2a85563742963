// Makes a failing random case smaller while it still fails.
#ifndef SHOAL_PROVE_SHRINK_H_
#define SHOAL_PROVE_SHRINK_H_

#include "prove/random_case.h"

// *c is replaced by the smallest case found that still fails (is neither OK nor refused); *out_status is its
// error, NULL if nothing smaller fails. Tries a few hundred cases at most.
SHOAL_MUST_USE shoal_status_t shoal_shrink_case(shoal_random_case_t *c, shoal_registry_t *registry,
                                                shoal_rules_t *rules, shoal_allocator_t allocator,
                                                shoal_arena_t *arena, shoal_status_t *out_status);

#endif  // SHOAL_PROVE_SHRINK_H_
