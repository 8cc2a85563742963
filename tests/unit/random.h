// Reproducible random numbers, and texts with random edits for whatever parses text.
#ifndef SHOAL_TESTS_RANDOM_H_
#define SHOAL_TESTS_RANDOM_H_

#include "base/philox.h"
#include "unit/unit.h"

typedef struct random {
  uint64_t seed, round;  // where the stream starts
  uint64_t at;           // numbers drawn
} random_t;

// In [0, below).
static inline uint32_t draw(random_t *r, uint64_t below) {
  return shoal_philox_word(r->seed, r->round, 0, r->at++) % (uint32_t)below;
}

// A copy with one to three edits: digits changed and numbers replaced (so that some texts still
// parse), characters changed, pieces removed, doubled or copied from elsewhere, the end cut off.
// From test_malloc.
static inline char *random_edits(random_t *r, const char *text) {
  static const char characters[] = " \n\"()[]{}-+:,.@!#%*/=>0123456789abcdefgmprstuxz\\\x01\xff";
  static const char *const numbers[] = {"0", "-1", "99999999999", "1e9", "\"\"", "[]"};
  enum { NUMBERS = sizeof numbers / sizeof *numbers, ROOM = 3 * 16 };
  size_t length = strlen(text);
  char *copy = test_malloc(length + ROOM + 1);
  memcpy(copy, text, length + 1);
  for (uint32_t edits = 1 + draw(r, 3); edits > 0 && length > 0; --edits) {
    char *at = copy + draw(r, length), *digit = strpbrk(at, "0123456789");
    size_t rest = strlen(at), size = 1 + draw(r, rest < 12 ? rest : 12);
    const char *number = numbers[draw(r, NUMBERS)];
    switch (draw(r, 9)) {
      case 0:
      case 1:
      case 2:
        if (digit) *digit = (char)('0' + draw(r, 10));
        break;
      case 3:
        if (!digit) break;
        memmove(digit + strlen(number), digit + 1, strlen(digit));
        memcpy(digit, number, strlen(number));
        break;
      case 4:
        *at = characters[draw(r, sizeof characters - 1)];
        break;
      case 5:
        memmove(at, at + size, rest - size + 1);
        break;
      case 6:
        memmove(at + size, at, rest + 1);
        break;
      case 7:
        memmove(at, copy + draw(r, length - size + 1), size);
        break;
      case 8:
        *at = draw(r, 8) == 0 ? 0 : (char)draw(r, 256);
        break;
    }
    length = strlen(copy);
  }
  return copy;
}

#endif  // SHOAL_TESTS_RANDOM_H_
