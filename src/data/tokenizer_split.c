// Where a text is cut into words: the regular expressions of well-known tokenizers, scanned by
// hand. Alternatives are tried in their order at each place, as those expressions say; every text
// is covered, so that a word begins where the last one ended.
//
//   GPT-2     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   Llama 3   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
//             ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//   Qwen 2    the same with \p{N}
#include <string.h>

#include "data/tokenizer.h"
#include "data/unicode.h"

typedef struct text {
  const char *data;
  int64_t length;
} text_t;

// The class of the character at a place, and where it ends.
static shoal_class_t class_at(const text_t *text, int64_t at, int64_t *out_next) {
  const unsigned char byte = (unsigned char)text->data[at];
  if (byte < 0x80) {
    *out_next = at + 1;
    return shoal_unicode_class(byte);
  }
  const shoal_character_t c = shoal_utf8_read(text->data + at, text->length - at);
  *out_next = at + c.length;
  return c.valid ? shoal_unicode_class(c.code) : SHOAL_CLASS_OTHER;
}

// The end of at most `most` characters of a class.
static int64_t run_end(const text_t *text, int64_t at, shoal_class_t class, int64_t most) {
  for (int64_t next; at < text->length && most > 0; at = next, --most) {
    if (class_at(text, at, &next) != class) break;
  }
  return at;
}

static bool is_line_end(char c) {
  return c == '\r' || c == '\n';
}

// The end of 's 't 're 've 'm 'll 'd behind an apostrophe, or `at`. Without regard to case, a long
// s is an s too.
static int64_t contraction_end(const text_t *text, int64_t at, bool any_case) {
  const int64_t left = text->length - at;
  if (left < 2 || text->data[at] != '\'') return at;
  const char fold = any_case ? 0x20 : 0;
  const char a = (char)(text->data[at + 1] | fold);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return at + 2;
  if (left < 3) return at;
  if (any_case && memcmp(text->data + at + 1, "\xC5\xBF", 2) == 0) return at + 3;
  const char b = (char)(text->data[at + 2] | fold);
  return ((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l') ? at + 3 : at;
}

// White space from `at` on: \s+(?!\S)|\s+. All of it, but for the last character if something
// follows and it is not the only one.
static int64_t space_end(const text_t *text, int64_t at) {
  int64_t end = at, last = at;
  for (int64_t next; end < text->length; end = next) {
    if (class_at(text, end, &next) != SHOAL_CLASS_SPACE) break;
    last = end;
  }
  return end == text->length || last == at ? end : last;
}

static int64_t gpt2_end(const text_t *text, int64_t at) {
  const int64_t contraction = contraction_end(text, at, false);
  if (contraction > at) return contraction;
  int64_t next;
  int64_t start = at;
  shoal_class_t class = class_at(text, at, &next);
  if (text->data[at] == ' ' && next < text->length) {
    start = next;
    class = class_at(text, start, &next);
  }
  if (class != SHOAL_CLASS_SPACE) return run_end(text, next, class, INT64_MAX);
  return space_end(text, at);
}

// \s*[\r\n]+: up to the last line end of the white space, or `at`.
static int64_t lines_end(const text_t *text, int64_t at) {
  int64_t end = at;
  for (int64_t next; at < text->length; at = next) {
    if (class_at(text, at, &next) != SHOAL_CLASS_SPACE) break;
    if (is_line_end(text->data[at])) end = next;
  }
  return end;
}

static int64_t llama3_end(const text_t *text, int64_t at, int64_t digits) {
  const int64_t contraction = contraction_end(text, at, true);
  if (contraction > at) return contraction;
  int64_t next, second;
  const shoal_class_t class = class_at(text, at, &next);
  if (class == SHOAL_CLASS_LETTER) return run_end(text, next, class, INT64_MAX);
  if (class == SHOAL_CLASS_NUMBER) return run_end(text, next, class, digits - 1);
  const shoal_class_t follows =
      next < text->length ? class_at(text, next, &second) : SHOAL_CLASS_SPACE;
  if (follows == SHOAL_CLASS_LETTER && !is_line_end(text->data[at]))
    return run_end(text, second, follows, INT64_MAX);
  if (class == SHOAL_CLASS_OTHER || (text->data[at] == ' ' && follows == SHOAL_CLASS_OTHER)) {
    int64_t end = run_end(text, next, SHOAL_CLASS_OTHER, INT64_MAX);
    while (end < text->length && is_line_end(text->data[end])) ++end;
    return end;
  }
  const int64_t lines = lines_end(text, at);
  return lines > at ? lines : space_end(text, at);
}

// Numbers apart from what lies between; each digit, or each run of them.
static int64_t digits_end(const text_t *text, int64_t at, int64_t most) {
  const int64_t end = run_end(text, at, SHOAL_CLASS_NUMBER, most);
  if (end > at) return end;
  for (int64_t next; at < text->length; at = next) {
    if (class_at(text, at, &next) == SHOAL_CLASS_NUMBER) break;
  }
  return at;
}

int64_t shoal_tokenizer_word_end(const shoal_tokenizer_t *tokenizer, tokenizer_split_t split,
                                 const char *data, int64_t at, int64_t length) {
  const text_t text = {data, length};
  switch (split) {
    case TOKENIZER_SPLIT_GPT2:
      return gpt2_end(&text, at);
    case TOKENIZER_SPLIT_LLAMA3:
      return llama3_end(&text, at, 3);
    case TOKENIZER_SPLIT_QWEN2:
      return llama3_end(&text, at, 1);
    case TOKENIZER_SPLIT_DIGITS:
      return digits_end(&text, at, 1);
    case TOKENIZER_SPLIT_NUMBERS:
      return digits_end(&text, at, INT64_MAX);
    case TOKENIZER_SPLIT_METASPACE: {
      const char *from = data + at + 1;
      const char *next = memmem(from, (size_t)(length - at - 1), tokenizer->metaspace,
                                strlen(tokenizer->metaspace));
      return next ? next - data : length;
    }
  }
  return length;
}
