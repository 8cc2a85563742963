// What the files of the pass `schedule` share.
#ifndef SHOAL_LOWER_SCHEDULE_H_
#define SHOAL_LOWER_SCHEDULE_H_

#include "lower/build.h"

// prefetch.c: moves the gathers of states in a segment ahead, as the plan says. `makers`, by
// instance, is -1 before and after.
SHOAL_MUST_USE shoal_status_t shoal_lower_prefetch(build_t *b, const bool *decided, int64_t count,
                                                   item_t **items, int32_t *makers,
                                                   shoal_arena_t *scratch);

#endif  // SHOAL_LOWER_SCHEDULE_H_
