// Which integers an input of a call may hold, as the op's record says: what test data are drawn
// from.
#ifndef SHOAL_OP_INDICES_H_
#define SHOAL_OP_INDICES_H_

#include "shoal/op.h"

// Of input `input` of a call on the whole: how many indices there are; 0: it holds none, or nothing
// is known. Needs call->outputs.
int64_t shoal_indices(const shoal_call_t *call, int32_t input);
// Gives the number besides that the input may hold ("no index"), if the op has one and the input's
// type holds it.
bool shoal_indices_spare(const shoal_call_t *call, int32_t input, int64_t *out_spare);

#endif  // SHOAL_OP_INDICES_H_
