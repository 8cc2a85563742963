// What is special about an instruction that takes part in an exchange between ranks.
#ifndef SHOAL_EXPLORE_EXCHANGES_H_
#define SHOAL_EXPLORE_EXCHANGES_H_

#include "shoal/program.h"

// The feature that coverage counts, as "bucket reduced"; NULL: none.
const char *shoal_exchange_feature(const shoal_program_t *program, const shoal_class_t *class,
                                   const shoal_instruction_t *instruction);

#endif  // SHOAL_EXPLORE_EXCHANGES_H_
