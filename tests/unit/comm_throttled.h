// Worlds that SHOAL_COMM_THROTTLE throttles: a cluster file for the time of a test.
#ifndef SHOAL_TESTS_UNIT_COMM_THROTTLED_H_
#define SHOAL_TESTS_UNIT_COMM_THROTTLED_H_

#include <stdlib.h>
#include <unistd.h>

#include "unit.h"

static char throttled_path[] = "/tmp/shoal_throttled_XXXXXX";

static inline void unthrottle(void) {
  unsetenv("SHOAL_COMM_THROTTLE");
  if (!strstr(throttled_path, "XXXXXX")) unlink(throttled_path);
  memcpy(throttled_path + strlen(throttled_path) - 6, "XXXXXX", 6);
}

// Sets the variable to a file of that text (NULL: none) and faults ("" or "lose=1@0,..."), until
// unthrottle.
static inline void throttle(const char *text, const char *faults) {
  char settings[200];
  unthrottle();  // also after a test that failed
  snprintf(settings, sizeof settings, "%s", faults);
  if (text) {
    const int fd = mkstemp(throttled_path);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    snprintf(settings, sizeof settings, "%s%s%s", throttled_path, faults[0] ? "," : "", faults);
  }
  setenv("SHOAL_COMM_THROTTLE", settings, 1);
}

#endif  // SHOAL_TESTS_UNIT_COMM_THROTTLED_H_
