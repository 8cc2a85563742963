// Logs: a value passed down, not a global. Without a sink nothing is formatted and nothing is
// printed: the library is silent until a program gives it somewhere to talk. Messages are lower
// case, value after a space: "step 10 loss 2.31". NULL logs are allowed everywhere.
#ifndef SHOAL_BASE_LOG_H_
#define SHOAL_BASE_LOG_H_

#include "shoal/base.h"

typedef enum shoal_log_level {
  SHOAL_LOG_WARNING,
  SHOAL_LOG_INFO,
  SHOAL_LOG_DEBUG
} shoal_log_level_t;

// `line` is "[rank] message" without a line break. May be called from any thread.
typedef void (*shoal_log_fn_t)(void *self, shoal_log_level_t level, const char *line);

typedef struct shoal_log {
  shoal_log_fn_t sink;  // NULL: silent
  void *self;
  shoal_log_level_t level;  // the most talkative level that passes
  int32_t rank;             // -1: no rank yet, no prefix
} shoal_log_t;

void shoal_log_write(const shoal_log_t *log, shoal_log_level_t level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// INFO, but only from rank 0 (or from before there are ranks): what all ranks would say alike.
void shoal_log_progress(const shoal_log_t *log, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif  // SHOAL_BASE_LOG_H_
