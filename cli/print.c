// See print.h.
#include "print.h"

#include <stdarg.h>
#include <time.h>

char *cli_format(shoal_arena_t *arena, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  const int length = vsnprintf(NULL, 0, format, arguments);
  char *text = length < 0 ? NULL : SHOAL_NEW(arena, char, length + 1);
  if (text) vsnprintf(text, (size_t)length + 1, format, again);
  va_end(again);
  va_end(arguments);
  return text;
}

void cli_print_shape(const shoal_shape_t *shape, FILE *out) {
  fputc('[', out);
  for (int32_t d = 0; d < shape->rank; ++d)
    fprintf(out, "%s%lld", d ? ", " : "", (long long)shape->dims[d]);
  fputc(']', out);
}

void cli_print_type(const shoal_type_t *type, FILE *out) {
  fputs(shoal_dtype_name(type->dtype), out);
  cli_print_shape(&type->shape, out);
}

void cli_print_json(const char *text, FILE *out) {
  fputc('"', out);
  for (; *text; ++text) {
    const unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\')
      fprintf(out, "\\%c", c);
    else if (c < 0x20)
      fprintf(out, "\\u%04x", c);
    else
      fputc(c, out);
  }
  fputc('"', out);
}

int64_t cli_time_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
