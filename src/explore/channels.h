// Checks what a program's channels move by listing the transfers of all ranks. It is slow and
// simple: the oracle that quicker ways to plan a reshard are compared with.
#ifndef SHOAL_EXPLORE_CHANNELS_H_
#define SHOAL_EXPLORE_CHANNELS_H_

#include "shoal/program.h"

// MISMATCH if a rank does not get every element of its part of a channel's destination as often as
// the layouts say: once, or one summand per coordinate of the axes that are reduced.
SHOAL_MUST_USE shoal_status_t shoal_check_channels(const shoal_program_t *program,
                                                   shoal_allocator_t allocator);

#endif  // SHOAL_EXPLORE_CHANNELS_H_
