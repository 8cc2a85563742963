// What a process takes: time, by the monotonic clock in nanoseconds, and memory.
#ifndef SHOAL_BASE_TIME_H_
#define SHOAL_BASE_TIME_H_

#include <stdint.h>

int64_t shoal_time_ns(void);
void shoal_time_sleep_ns(int64_t ns);
// Bytes of memory that the process has had at most.
int64_t shoal_peak_resident(void);

#endif  // SHOAL_BASE_TIME_H_
