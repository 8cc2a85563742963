// Logs: see log.h. Lines are formatted on the stack; long ones end in "...".
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/locale.h"

static void emit(const shoal_log_t *log, shoal_log_level_t level, const char *format,
                 va_list args) {
  char line[1024];
  size_t used = 0;
  if (log->rank >= 0) used = (size_t)snprintf(line, sizeof line, "[%d] ", (int)log->rank);
  int length = shoal_format_args(line + used, sizeof line - used, format, args);
  if (length >= 0 && (size_t)length >= sizeof line - used) memcpy(line + sizeof line - 4, "...", 4);
  log->sink(log->self, level, line);
}

void shoal_log_write(const shoal_log_t *log, shoal_log_level_t level, const char *format, ...) {
  if (!log || !log->sink || level > log->level) return;
  va_list args;
  va_start(args, format);
  emit(log, level, format, args);
  va_end(args);
}

void shoal_log_progress(const shoal_log_t *log, const char *format, ...) {
  if (!log || !log->sink || SHOAL_LOG_INFO > log->level || log->rank > 0) return;
  va_list args;
  va_start(args, format);
  emit(log, SHOAL_LOG_INFO, format, args);
  va_end(args);
}
