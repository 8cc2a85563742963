// See time.h.
#include "base/time.h"

#include <errno.h>
#include <sys/resource.h>
#include <time.h>

int64_t shoal_time_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void shoal_time_sleep_ns(int64_t ns) {
  if (ns <= 0) return;
  struct timespec left = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

int64_t shoal_peak_resident(void) {
  struct rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return (int64_t)usage.ru_maxrss * 1024;  // Linux counts in KiB
}
