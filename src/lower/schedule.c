// Pass `schedule`: the order of items within their segments, the same for all ranks. It is that of
// the list so far: a value is brought where it is needed first.
#include "lower/build.h"

shoal_status_t shoal_lower_pass_schedule(build_t *b) {
  (void)b;
  return NULL;
}
