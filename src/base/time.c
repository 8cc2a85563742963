// The monotonic clock.
#include "base/time.h"

#include <errno.h>
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
