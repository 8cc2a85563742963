// What the fuzz entries share. An entry is one file with LLVMFuzzerTestOneInput, which hands bytes
// to one parser: whatever they are, it returns OK or an error that says something, reads and writes
// nothing it should not, leaks nothing, and what parses prints and parses back to the same text.
//
// Built with libFuzzer where clang has it (tools/fuzz), and always with driver.c, which runs the
// seeds and simple mutations of them.
#ifndef SHOAL_TESTS_FUZZ_H_
#define SHOAL_TESTS_FUZZ_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shoal/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition, ...)                                    \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: " #condition ": ", __FILE__, __LINE__); \
      fprintf(stderr, __VA_ARGS__);                                   \
      fprintf(stderr, "\n");                                          \
      abort();                                                        \
    }                                                                 \
  } while (0)

// An allocator that has no more than this at a time: a text may ask for a lot, and is then told
// that there is not enough.
enum { FUZZ_MEMORY = 128 << 20 };

typedef struct fuzz_block {
  size_t size;
  char padding[64 - sizeof(size_t)];  // blocks stay aligned
} fuzz_block_t;

static size_t fuzz_used;

static inline void *fuzz_alloc(void *self, size_t size) {
  (void)self;
  if (size > FUZZ_MEMORY - fuzz_used) return NULL;
  fuzz_block_t *block = aligned_alloc(64, (size + sizeof *block + 63) / 64 * 64);
  if (!block) return NULL;
  block->size = size;
  fuzz_used += size;
  return block + 1;
}

static inline void fuzz_free(void *self, void *memory) {
  (void)self;
  if (!memory) return;
  fuzz_block_t *block = (fuzz_block_t *)memory - 1;
  fuzz_used -= block->size;
  free(block);
}

static inline shoal_allocator_t fuzz_allocator(void) {
  return (shoal_allocator_t){.alloc = fuzz_alloc, .free = fuzz_free};
}

static inline shoal_arena_t *fuzz_arena(void) {
  shoal_arena_t *arena = NULL;
  shoal_status_t status = shoal_arena_create(fuzz_allocator(), &arena);
  FUZZ_CHECK(!status, "no arena");
  return arena;
}

// The bytes as a text that ends in a zero, in the arena.
static inline char *fuzz_text(const uint8_t *data, size_t size, shoal_arena_t *arena) {
  char *text = SHOAL_NEW(arena, char, size + 1);
  FUZZ_CHECK(text, "no memory for the input");
  if (size > 0) memcpy(text, data, size);
  return text;
}

// Cuts the first line off; returns what follows it ("" if nothing does).
static inline char *fuzz_cut_line(char *text) {
  char *end = strchr(text, '\n');
  if (!end) return text + strlen(text);
  *end = 0;
  return end + 1;
}

// Was it OK? An error must have a message and be none of ours.
static inline bool fuzz_ok(shoal_status_t status) {
  if (!status) return true;
  FUZZ_CHECK(shoal_status_message(status)[0], "an error without a message");
  FUZZ_CHECK(shoal_status_code(status) != SHOAL_INTERNAL, "%s", shoal_status_message(status));
  if (getenv("FUZZ_VERBOSE")) shoal_status_print(status, stderr);
  shoal_status_free(status);
  return false;
}

// What was accepted must be accepted again, unless memory ran short.
static inline bool fuzz_again(shoal_status_t status, const char *text) {
  if (!status) return true;
  FUZZ_CHECK(shoal_status_code(status) == SHOAL_OUT_OF_MEMORY, "it printed\n%s\nbut: %s", text,
             shoal_status_message(status));
  shoal_status_free(status);
  return false;
}

static inline void fuzz_same(const char *first, const char *second) {
  FUZZ_CHECK(strcmp(first, second) == 0, "printed\n%s\nthen\n%s", first, second);
}

// Things that are made once and live as long as the process.
static inline void fuzz_must(shoal_status_t status) {
  FUZZ_CHECK(!status, "%s", shoal_status_message(status));
}

#endif  // SHOAL_TESTS_FUZZ_H_
