// Programs corrupted by editing their text: each must be refused by the static check, with a
// message that names what is wrong.
#ifndef SHOAL_TESTS_PROGRAM_CORRUPT_H_
#define SHOAL_TESTS_PROGRAM_CORRUPT_H_

#include "program_support.h"
#include "shoal/program.h"

typedef struct corruption {
  const char *from, *to, *message;
} corruption_t;

static void all_are_caught(const char *base, const corruption_t *cases, size_t count) {
  shoal_registry_t *registry = test_registry();
  for (size_t i = 0; i < count; ++i) {
    char *text = edit(base, cases[i].from, cases[i].to);
    shoal_program_t *program = parse_ok(text, registry);
    assert_error(MISMATCH, cases[i].message,
                 shoal_program_check(program, shoal_allocator_system()));
    shoal_program_free(program);
    test_free(text);
  }
  shoal_registry_release(registry);
}
#define ALL_ARE_CAUGHT(base, cases) all_are_caught((base), (cases), sizeof(cases) / sizeof *(cases))

#endif  // SHOAL_TESTS_PROGRAM_CORRUPT_H_
