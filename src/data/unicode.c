// Characters and their classes. The ranges are tables that tools/unicode_tables writes.
#include "data/unicode.h"

typedef struct range {
  uint32_t first, last;
  shoal_class_t class;
} range_t;

static const range_t ranges[] = {
#define SHOAL_RANGE(first, last, class) {first, last, SHOAL_CLASS_##class},
#include "data/unicode.inc"
#undef SHOAL_RANGE
};

static shoal_class_t find(uint32_t code) {
  size_t low = 0, high = sizeof ranges / sizeof *ranges;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (code > ranges[middle].last) {
      low = middle + 1;
    } else if (code < ranges[middle].first) {
      high = middle;
    } else {
      return ranges[middle].class;
    }
  }
  return SHOAL_CLASS_OTHER;
}

shoal_class_t shoal_unicode_class(uint32_t code) {
  if (code >= 0x80) return find(code);
  if ((code | 0x20) - 'a' < 26) return SHOAL_CLASS_LETTER;
  if (code - '0' < 10) return SHOAL_CLASS_NUMBER;
  return code == ' ' || code - '\t' < 5 ? SHOAL_CLASS_SPACE : SHOAL_CLASS_OTHER;
}

shoal_character_t shoal_utf8_read(const char *text, int64_t length) {
  const unsigned char *bytes = (const unsigned char *)text;
  const uint32_t lead = bytes[0];
  if (lead < 0x80) return (shoal_character_t){.code = lead, .length = 1, .valid = true};
  shoal_character_t bad = {.code = 0xFFFD, .length = 1};
  if (lead < 0xC2 || lead > 0xF4) return bad;
  const int32_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // What may follow the lead: nothing overlong, no surrogates, nothing above U+10FFFF.
  uint32_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  uint32_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  uint32_t code = lead & (0x7Fu >> size);
  for (int32_t i = 1; i < size; ++i) {
    bad.length = i;
    if (i >= length) {
      bad.cut = true;
      return bad;
    }
    if (bytes[i] < low || bytes[i] > high) return bad;
    code = code << 6 | (bytes[i] & 0x3Fu);
    low = 0x80;
    high = 0xBF;
  }
  return (shoal_character_t){.code = code, .length = size, .valid = true};
}

int32_t shoal_utf8_write(uint32_t code, char out[4]) {
  if (code < 0x80) {
    out[0] = (char)code;
    return 1;
  }
  const int32_t size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  for (int32_t i = size - 1; i > 0; --i, code >>= 6) out[i] = (char)(0x80 | (code & 0x3F));
  out[0] = (char)(code | (size == 2 ? 0xC0 : size == 3 ? 0xE0 : 0xF0));
  return size;
}
