// Pass `buckets`: several reshards become one of many operands. So far each stays alone.
#include "lower/build.h"

shoal_status_t shoal_lower_pass_buckets(build_t *b) {
  (void)b;
  return NULL;
}
