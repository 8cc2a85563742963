// See print.h.
#include "print.h"

#include <stdarg.h>
#include <sys/stat.h>
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

shoal_status_t cli_check_apart(const char *input, const char *output) {
  struct stat in, out;
  if (stat(input, &in) != 0 || stat(output, &out) != 0) return NULL;
  if (in.st_dev != out.st_dev || in.st_ino != out.st_ino) return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give -o another file",
                          "'%s' is a file that is read: it is not written over", output);
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

void cli_print_bytes(int64_t bytes, FILE *out) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = (double)bytes;
  int unit = 0;
  for (; value >= 1024 && unit < 6; ++unit) value /= 1024;
  fprintf(out, unit ? "%.2f %s" : "%.0f %s", value, units[unit]);
}

void cli_print_class(const shoal_program_t *program, int64_t index, FILE *out) {
  const shoal_class_t *rank_class = &program->classes[index];
  fprintf(out, "%lld rank%s", (long long)rank_class->rank_count,
          rank_class->rank_count == 1 ? "" : "s");
  if (program->class_count > 1) fprintf(out, " from rank %d on", rank_class->ranks[0]);
  fputs(", ", out);
  cli_print_bytes(rank_class->arena_bytes[SHOAL_MEMORY_DEVICE], out);
  fputs(" each", out);
  for (int kind = SHOAL_MEMORY_HOST; kind < SHOAL_MEMORY_COUNT; ++kind) {
    if (rank_class->arena_bytes[kind] == 0) continue;
    fputs(" and ", out);
    cli_print_bytes(rank_class->arena_bytes[kind], out);
    fprintf(out, " of %s memory", shoal_memory_kind_name((shoal_memory_kind_t)kind));
  }
}

shoal_status_t cli_print_memory(const shoal_program_t *program, int64_t index, FILE *out) {
  shoal_memory_use_t use;
  SHOAL_RETURN_IF_ERROR(shoal_program_memory(program, index, shoal_allocator_system(), &use));
  fputs("states ", out);
  cli_print_bytes(use.states, out);
  fputs(", inputs ", out);
  cli_print_bytes(use.inputs, out);
  fputs(", temporaries ", out);
  cli_print_bytes(use.temporaries, out);
  fputs(" (at least ", out);
  cli_print_bytes(use.bound, out);
  fprintf(out, ") in '%s'", use.graph ? use.graph : "");
  return NULL;
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
