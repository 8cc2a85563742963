// Time: the monotonic clock in nanoseconds.
#ifndef SHOAL_BASE_TIME_H_
#define SHOAL_BASE_TIME_H_

#include <stdint.h>

int64_t shoal_time_ns(void);
void shoal_time_sleep_ns(int64_t ns);

#endif  // SHOAL_BASE_TIME_H_
