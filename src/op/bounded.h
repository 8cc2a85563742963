// Bounded sizes: what is said where a group has more rows than there is room for, by the op that
// bounds them and by whoever moves them.
#ifndef SHOAL_OP_BOUNDED_H_
#define SHOAL_OP_BOUNDED_H_

#include "shoal/op.h"

// INVALID_ARGUMENT: the group at this index has `count` rows, and dim `dim` room for `room`.
SHOAL_MUST_USE shoal_status_t shoal_bounded_overflow(const shoal_shape_t *group, int64_t count,
                                                     int32_t dim, int64_t room);

#endif  // SHOAL_OP_BOUNDED_H_
