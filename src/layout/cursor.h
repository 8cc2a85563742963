// Cursor: the few tokens that mesh and layout texts are made of. Blanks before a token are skipped.
// Readers return false and leave the cursor where the token should have been.
#ifndef SHOAL_LAYOUT_CURSOR_H_
#define SHOAL_LAYOUT_CURSOR_H_

#include <string.h>

#include "shoal/layout.h"

typedef const char *cursor_t;

static inline void cursor_blanks(cursor_t *at) {
  while (**at == ' ' || **at == '\t' || **at == '\r' || **at == '\n') ++*at;
}

static inline bool cursor_accept(cursor_t *at, char c) {
  cursor_blanks(at);
  if (**at != c) return false;
  ++*at;
  return true;
}

static inline bool cursor_at_end(cursor_t *at) {
  cursor_blanks(at);
  return **at == 0;
}

static inline bool cursor_name_char(char c, bool first) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         (!first && c >= '0' && c <= '9');
}

// A name of letters, digits and '_' that fits SHOAL_NAME_SIZE.
static inline bool cursor_name(cursor_t *at, char out_name[SHOAL_NAME_SIZE]) {
  cursor_blanks(at);
  const char *p = *at;
  if (!cursor_name_char(*p, true)) return false;
  while (cursor_name_char(*p, false)) ++p;
  size_t length = (size_t)(p - *at);
  if (length >= SHOAL_NAME_SIZE) return false;
  memcpy(out_name, *at, length);
  out_name[length] = 0;
  *at = p;
  return true;
}

// Decimal digits that fit an int64_t; no sign.
static inline bool cursor_int(cursor_t *at, int64_t *out_value) {
  cursor_blanks(at);
  const char *p = *at;
  int64_t value = 0;
  if (*p < '0' || *p > '9') return false;
  for (; *p >= '0' && *p <= '9'; ++p) {
    if (__builtin_mul_overflow(value, 10, &value)) return false;
    if (__builtin_add_overflow(value, *p - '0', &value)) return false;
  }
  *out_value = value;
  *at = p;
  return true;
}

// '+' or '-', then digits.
static inline bool cursor_signed(cursor_t *at, int64_t *out_value) {
  cursor_blanks(at);
  const char *p = *at;
  char sign = *p;
  if (sign != '+' && sign != '-') return false;
  ++p;
  if (!cursor_int(&p, out_value)) return false;
  if (sign == '-') *out_value = -*out_value;
  *at = p;
  return true;
}

#endif  // SHOAL_LAYOUT_CURSOR_H_
