// Why a mutation that nobody noticed computes the same: found from the two programs, not from their
// results.
#ifndef SHOAL_EXPLORE_EXPLAIN_H_
#define SHOAL_EXPLORE_EXPLAIN_H_

#include "base/arena.h"
#include "shoal/program.h"

// A reason, or NULL: then it should have been noticed. Both programs pass the static check.
const char *shoal_explain_mutation(const shoal_program_t *program, const shoal_program_t *mutated,
                                   const char *description, shoal_arena_t *arena);

#endif  // SHOAL_EXPLORE_EXPLAIN_H_
