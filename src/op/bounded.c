// See bounded.h.
#include "op/bounded.h"

#include "base/dtype.h"
#include "base/status.h"

// All in the message: other ranks are told no hints.
shoal_status_t shoal_bounded_overflow(const shoal_shape_t *group, int64_t count, int32_t dim,
                                      int64_t room) {
  char text[128];
  shoal_shape_format(group, text, sizeof text);
  if (count < 0)
    return SHOAL_ERROR(INVALID_ARGUMENT,
                       "the count of group %s is %lld: a group has from 0 to %lld rows along dim "
                       "%d; look at what computes or feeds the counts",
                       text, (long long)count, (long long)room, dim);
  return SHOAL_ERROR(
      INVALID_ARGUMENT,
      "group %s has %lld rows, and dim %d has room for %lld: raise the capacity (the "
      "factor that makes that dim larger), or give the group fewer rows",
      text, (long long)count, dim, (long long)room);
}
