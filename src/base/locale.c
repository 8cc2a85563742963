// See locale.h. The C locale is made once and kept; glibc needs no memory for it.
#include "base/locale.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static locale_t c_locale;  // 0 if it cannot be made: the program's is used then

static void make_locale(void) {
  c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

locale_t shoal_locale_enter(void) {
  pthread_once(&once, make_locale);
  return uselocale(c_locale);
}

void shoal_locale_leave(locale_t before) {
  uselocale(before);
}

int shoal_format_args(char *buffer, size_t capacity, const char *format, va_list args) {
  const locale_t before = shoal_locale_enter();
  const int length = vsnprintf(buffer, capacity, format, args);
  shoal_locale_leave(before);
  return length;
}

int shoal_format(char *buffer, size_t capacity, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const int length = shoal_format_args(buffer, capacity, format, args);
  va_end(args);
  return length;
}

double shoal_parse_double(const char *text, char **out_end) {
  const locale_t before = shoal_locale_enter();
  const double value = strtod(text, out_end);
  shoal_locale_leave(before);
  return value;
}

char shoal_upper(char c) {
  return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}
