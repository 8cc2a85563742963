// What commands print with, and the clock they measure by.
#ifndef SHOAL_CLI_PRINT_H_
#define SHOAL_CLI_PRINT_H_

#include <stdio.h>

#include "shoal/program.h"

// printf into the arena; NULL when memory is short.
char *cli_format(shoal_arena_t *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// "[64, 784]" and "f32[64, 784]".
void cli_print_shape(const shoal_shape_t *shape, FILE *out);
void cli_print_type(const shoal_type_t *type, FILE *out);
// "4.47 MiB".
void cli_print_bytes(int64_t bytes, FILE *out);
// "2 ranks, 4.47 MiB each": how much memory the ranks of a class plan. With several classes the
// first rank of each is named too: "2 ranks from rank 0 on, 4.47 MiB each".
void cli_print_class(const shoal_program_t *program, int64_t index, FILE *out);
// A string of JSON, in quotes.
void cli_print_json(const char *text, FILE *out);

int64_t cli_time_ns(void);  // monotonic

#endif  // SHOAL_CLI_PRINT_H_
