// Numbers as text, alike in every locale. A program that uses Shoal may have set one in which the
// decimal point is a comma: what Shoal prints must parse back, also on a rank with another locale.
// Base's printing and scanning go through here; so does whoever prints a double itself.
#ifndef SHOAL_BASE_LOCALE_H_
#define SHOAL_BASE_LOCALE_H_

#include <locale.h>
#include <stdarg.h>

#include "shoal/base.h"

// As vsnprintf, snprintf and strtod, in the C locale.
int shoal_format_args(char *buffer, size_t capacity, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
int shoal_format(char *buffer, size_t capacity, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
double shoal_parse_double(const char *text, char **out_end);
// ASCII only, as names of environment variables are: in Turkish the capital of i is another letter.
char shoal_upper(char c);

// Between enter and leave this thread's locale is C: for libraries that print or parse numbers.
locale_t shoal_locale_enter(void);
void shoal_locale_leave(locale_t before);

#endif  // SHOAL_BASE_LOCALE_H_
