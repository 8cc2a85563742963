// Form C: decompose, sort marks, compose. Texts are cut into stretches that have nothing to do with
// each other: ASCII is copied as it is, but for a character that a mark may follow. The tables are
// written by tools/unicode_tables.
#include "data/normal.h"

#include <stdlib.h>

#include "data/unicode.h"

typedef struct marks {
  uint32_t first, last;
  int32_t class;
} marks_t;

typedef struct parts {
  uint32_t code, first, second;
} parts_t;

typedef struct join {
  uint32_t first, second, code;
} join_t;

#define MARK(first, last, class) {first, last, class},
#define PARTS(code, first, second)
#define JOIN(first, second, code)
static const marks_t marks[] = {
#include "data/normal.inc"
};
#undef MARK
#undef PARTS
#define MARK(first, last, class)
#define PARTS(code, first, second) {code, first, second},
static const parts_t table[] = {
#include "data/normal.inc"
};
#undef PARTS
#undef JOIN
#define PARTS(code, first, second)
#define JOIN(first, second, code) {first, second, code},
static const join_t joins[] = {
#include "data/normal.inc"
};
#undef MARK
#undef PARTS
#undef JOIN
enum { TABLE = sizeof table / sizeof *table, JOINS = sizeof joins / sizeof *joins };

enum { MOST_MARKS = 1 << 22 };  // in a row that are sorted: 254 classes fit beside

// Hangul syllables are made of a lead, a vowel and perhaps a tail, by arithmetic.
enum { S = 0xAC00, L = 0x1100, V = 0x1161, T = 0x11A7, LS = 19, VS = 21, TS = 28 };

typedef struct letter {
  uint32_t code;
  int32_t class;
} letter_t;

static int32_t class_of(uint32_t code) {
  if (code < marks[0].first) return 0;
  size_t low = 0, high = sizeof marks / sizeof *marks;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (code > marks[middle].last) {
      low = middle + 1;
    } else if (code < marks[middle].first) {
      high = middle;
    } else {
      return marks[middle].class;
    }
  }
  return 0;
}

// ---- taking apart -------------------------------------------------------------------------------

static const parts_t *parts_of(uint32_t code) {
  size_t low = 0, high = TABLE;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (table[middle].code < code) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < TABLE && table[low].code == code ? &table[low] : NULL;
}

static bool add_letter(shoal_allocator_t allocator, shoal_buffer_t *codes, uint32_t code) {
  const letter_t letter = {code, class_of(code)};
  return shoal_buffer_add(allocator, codes, &letter, sizeof letter);
}

static bool decompose(shoal_allocator_t allocator, shoal_buffer_t *codes, uint32_t code) {
  if (code >= S && code < S + LS * VS * TS) {
    const uint32_t at = code - S, tail = at % TS;
    return add_letter(allocator, codes, L + at / (VS * TS)) &&
           add_letter(allocator, codes, V + at % (VS * TS) / TS) &&
           (!tail || add_letter(allocator, codes, T + tail));
  }
  const parts_t *parts = code < 0xC0 ? NULL : parts_of(code);
  if (!parts) return add_letter(allocator, codes, code);
  return decompose(allocator, codes, parts->first) &&
         (!parts->second || decompose(allocator, codes, parts->second));
}

static int by_class(const void *a, const void *b) {
  return ((const letter_t *)a)->class - ((const letter_t *)b)->class;
}

// Marks behind a letter by their classes; those of one class keep their order. Long runs, which no
// language has, carry their places beside their classes meanwhile.
static void sort_marks(letter_t *letters, int64_t count) {
  for (int64_t start = 0, end; start < count; start = end) {
    for (end = start; end < count && letters[end].class; ++end) {
      if (end - start >= MOST_MARKS) break;
    }
    if (end - start > 1) {
      for (int64_t i = start; i < end; ++i)
        letters[i].class = letters[i].class * MOST_MARKS + (int32_t)(i - start);
      qsort(letters + start, (size_t)(end - start), sizeof *letters, by_class);
      for (int64_t i = start; i < end; ++i) letters[i].class /= MOST_MARKS;
    }
    if (end == start) ++end;
  }
}

// ---- putting together ---------------------------------------------------------------------------

// 0: they do not compose.
static uint32_t composed(uint32_t first, uint32_t second) {
  if (first >= L && first < L + LS && second >= V && second < V + VS)
    return S + ((first - L) * VS + (second - V)) * TS;
  if (first >= S && first < S + LS * VS * TS && (first - S) % TS == 0 && second > T &&
      second < T + TS)
    return first + (second - T);
  const uint64_t key = (uint64_t)first << 32 | second;
  size_t low = 0, high = JOINS;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    const uint64_t at = (uint64_t)joins[middle].first << 32 | joins[middle].second;
    if (at == key) return joins[middle].code;
    if (at < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return 0;
}

// In place; returns how many are left.
static int64_t compose(letter_t *letters, int64_t count) {
  int64_t starter = -1, left = 0;
  int32_t before = -1;  // the class of what stands between the starter and here; -1: nothing
  for (int64_t i = 0; i < count; ++i) {
    const letter_t letter = letters[i];
    const uint32_t whole =
        starter >= 0 && before < letter.class ? composed(letters[starter].code, letter.code) : 0;
    if (whole) {
      letters[starter].code = whole;
      continue;
    }
    if (letter.class == 0) {
      starter = left;
      before = -1;
    } else {
      before = letter.class;
    }
    letters[left++] = letter;
  }
  return left;
}

static bool finish(shoal_allocator_t allocator, shoal_buffer_t *codes, shoal_buffer_t *out) {
  letter_t *letters = (letter_t *)codes->data;
  int64_t count = codes->length / (int64_t)sizeof *letters;
  codes->length = 0;
  sort_marks(letters, count);
  count = compose(letters, count);
  for (int64_t i = 0; i < count; ++i) {
    char bytes[4];
    if (!shoal_buffer_add(allocator, out, bytes, shoal_utf8_write(letters[i].code, bytes)))
      return false;
  }
  return true;
}

// ---- a text -------------------------------------------------------------------------------------

static bool is_ascii(const char *text, int64_t at, int64_t length) {
  return at >= length || (unsigned char)text[at] < 0x80;
}

bool shoal_nfc(shoal_allocator_t allocator, const char *text, int64_t length, shoal_buffer_t *codes,
               shoal_buffer_t *out) {
  codes->length = 0;
  for (int64_t at = 0; at < length;) {
    const int64_t start = at;
    while (at < length && is_ascii(text, at, length) && is_ascii(text, at + 1, length)) ++at;
    if (!shoal_buffer_add(allocator, out, text + start, at - start)) return false;
    bool first = true;  // an ASCII character may begin a stretch, and ends it elsewhere
    while (at < length && (first || !is_ascii(text, at, length))) {
      const shoal_character_t c = shoal_utf8_read(text + at, length - at);
      first = false;
      if (!c.valid) break;
      if (!decompose(allocator, codes, c.code)) return false;
      at += c.length;
    }
    if (!finish(allocator, codes, out)) return false;
    if (at < length && !is_ascii(text, at, length)) {  // no UTF-8
      const int32_t size = shoal_utf8_read(text + at, length - at).length;
      if (!shoal_buffer_add(allocator, out, text + at, size)) return false;
      at += size;
    }
  }
  return true;
}
