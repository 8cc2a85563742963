// Explains why a mutation that no check noticed computes the same result: from the program's text,
// not from results.
#ifndef SHOAL_EXPLORE_EXPLAIN_H_
#define SHOAL_EXPLORE_EXPLAIN_H_

#include "program/mutate.h"

// A reason, or NULL: then it should have been noticed. The mutated program passes the static check.
const char *shoal_explain_mutation(const shoal_program_t *program,
                                   const shoal_mutation_t *mutation);

#endif  // SHOAL_EXPLORE_EXPLAIN_H_
