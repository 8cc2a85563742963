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
// "states 3.10 MiB, inputs 2.00 KiB, temporaries 1.37 MiB (at least 1.36 MiB) in 'train'": what the
// memory of a class holds, in the graph that needs most.
SHOAL_MUST_USE shoal_status_t cli_print_memory(const shoal_program_t *program, int64_t index,
                                               FILE *out);
// Refuses to write over what is read, under whatever name. Either may not be there.
SHOAL_MUST_USE shoal_status_t cli_check_apart(const char *input, const char *output);
// A string of JSON, in quotes.
void cli_print_json(const char *text, FILE *out);

int64_t cli_time_ns(void);  // monotonic

#endif  // SHOAL_CLI_PRINT_H_
