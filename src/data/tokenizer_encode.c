// A text's tokens: added tokens are found in it, what lies between is normalized, cut into words,
// and each word encoded.
#include <limits.h>
#include <string.h>

#include "base/number.h"
#include "base/status.h"
#include "data/normal.h"
#include "data/tokenizer.h"
#include "data/unicode.h"

enum { MOST = (1 << 29) - 1 };  // a space may become three bytes

// What is handed down from the text to its words.
typedef struct encoding {
  shoal_tokenizer_t *t;
  bool plain;
} encoding_t;

// ---- words --------------------------------------------------------------------------------------

static shoal_status_t encode_words(const encoding_t *e, int32_t step, const char *text,
                                   int64_t length) {
  shoal_tokenizer_t *t = e->t;
  if (t->bytes) {
    for (int64_t i = 0; i < length; ++i) {
      const int32_t id = (unsigned char)text[i];
      SHOAL_RETURN_IF_ERROR(shoal_tokenizer_add_ids(t, &id, 1));
    }
    return NULL;
  }
  if (step == t->split_count) return shoal_tokenizer_merge(t, text, length);
  for (int64_t at = 0, end; at < length; at = end) {
    end = shoal_tokenizer_word_end(t, t->splits[step], text, at, length);
    SHOAL_RETURN_IF_ERROR(encode_words(e, step + 1, text + at, end - at));
  }
  return NULL;
}

static bool replace(shoal_allocator_t allocator, const char *text, int64_t length, const char *from,
                    const char *to, shoal_buffer_t *out) {
  const int64_t skip = (int64_t)strlen(from), size = (int64_t)strlen(to);
  for (int64_t at = 0;;) {
    const char *found = memmem(text + at, (size_t)(length - at), from, (size_t)skip);
    const int64_t end = found ? found - text : length;
    if (!shoal_buffer_add(allocator, out, text + at, end - at)) return false;
    if (!found) return true;
    if (!shoal_buffer_add(allocator, out, to, size)) return false;
    at = end + skip;
  }
}

// A piece between added tokens, in its final form but for spaces. `first`: at the start of the
// text.
static shoal_status_t encode_piece(const encoding_t *e, const char *text, int64_t length,
                                   bool first) {
  shoal_tokenizer_t *t = e->t;
  if (length == 0) return NULL;
  const char *space = t->metaspace ? t->metaspace : " ";
  const bool may = t->prefix == TOKENIZER_PREFIX_ALWAYS || (first && t->prefix);
  if (!t->metaspace && !may) return encode_words(e, 0, text, length);
  const int64_t size = (int64_t)strlen(space);
  const bool begins = text[0] == ' ' || (length >= size && !memcmp(text, space, (size_t)size));
  t->word.length = 0;
  if (may && !begins && !shoal_buffer_add(t->allocator, &t->word, space, size)) return SHOAL_OOM();
  if (!replace(t->allocator, text, length, " ", space, &t->word)) return SHOAL_OOM();
  return encode_words(e, 0, t->word.data, t->word.length);
}

// ---- added tokens -------------------------------------------------------------------------------

// The longest added token that a text begins with; NULL: none.
static const tokenizer_added_t *match(const shoal_tokenizer_t *t, const char *text, int64_t length,
                                      bool normalized) {
  for (int64_t i = 0; i < t->added_count; ++i) {
    const tokenizer_added_t *added = &t->added[i];
    if (added->normalized == normalized && added->length <= length &&
        memcmp(added->text, text, (size_t)added->length) == 0)
      return added;
  }
  return NULL;
}

static int64_t skip_spaces(const char *text, int64_t at, int64_t length) {
  while (at < length) {
    const shoal_character_t c = shoal_utf8_read(text + at, length - at);
    if (!c.valid || shoal_unicode_class(c.code) != SHOAL_CLASS_SPACE) break;
    at += c.length;
  }
  return at;
}

// Where the white space before `at` begins, at `start` at the earliest.
static int64_t skip_back(const char *text, int64_t start, int64_t at) {
  while (at > start) {
    int64_t before = at - 1;
    while (before > start && ((unsigned char)text[before] & 0xC0) == 0x80) --before;
    const shoal_character_t c = shoal_utf8_read(text + before, at - before);
    if (!c.valid || shoal_unicode_class(c.code) != SHOAL_CLASS_SPACE) break;
    at = before;
  }
  return at;
}

typedef shoal_status_t (*piece_fn_t)(const encoding_t *e, const char *text, int64_t length,
                                     bool first);

// Calls `piece` for what lies between the added tokens of a kind, and adds those.
static shoal_status_t between_added(const encoding_t *e, const char *text, int64_t length,
                                    bool first, bool normalized, piece_fn_t piece) {
  shoal_tokenizer_t *t = e->t;
  int64_t start = 0;
  for (int64_t at = 0; at < length;) {
    const tokenizer_added_t *added = NULL;
    if (t->added_first[normalized][(unsigned char)text[at]])
      added = match(t, text + at, length - at, normalized);
    if (!added) {
      ++at;
      continue;
    }
    const int64_t found = at;
    at += added->length;
    if (e->plain && added->special) continue;
    const int64_t end = added->strip_left ? skip_back(text, start, found) : found;
    if (end > start) SHOAL_RETURN_IF_ERROR(piece(e, text + start, end - start, first && !start));
    SHOAL_RETURN_IF_ERROR(shoal_tokenizer_add_ids(t, &added->id, 1));
    start = added->strip_right ? skip_spaces(text, at, length) : at;
    if (at < start) at = start;
  }
  return length > start ? piece(e, text + start, length - start, first && !start) : NULL;
}

static shoal_status_t encode_normal(const encoding_t *e, const char *text, int64_t length,
                                    bool first) {
  return between_added(e, text, length, first, true, encode_piece);
}

// ---- a text -------------------------------------------------------------------------------------

static bool apply(shoal_tokenizer_t *t, const tokenizer_normalizer_t *n, const char *text,
                  int64_t length, shoal_buffer_t *out) {
  switch (n->kind) {
    case TOKENIZER_NORMAL_PREPEND:
      return shoal_buffer_add(t->allocator, out, n->to, (int64_t)strlen(n->to)) &&
             shoal_buffer_add(t->allocator, out, text, length);
    case TOKENIZER_NORMAL_REPLACE:
      return replace(t->allocator, text, length, n->from, n->to, out);
    case TOKENIZER_NORMAL_NFC:
      return shoal_nfc(t->allocator, text, length, &t->word, out);
  }
  return false;
}

static shoal_status_t normalize(const encoding_t *e, const char *text, int64_t length, bool first) {
  shoal_tokenizer_t *t = e->t;
  for (int32_t i = 0; i < t->normalizer_count && length > 0; ++i) {
    t->other.length = 0;
    if (!apply(t, &t->normalizers[i], text, length, &t->other)) return SHOAL_OOM();
    const shoal_buffer_t result = t->other;
    t->other = t->normal;
    t->normal = result;
    text = result.data;
    length = result.length;
  }
  return encode_normal(e, text, length, first);
}

shoal_status_t shoal_tokenizer_encode(shoal_tokenizer_t *t, const char *text, int64_t length,
                                      const shoal_encode_options_t *options,
                                      const int32_t **out_ids, int64_t *out_count) {
  *out_ids = NULL;
  *out_count = 0;
  if (length < 0) length = (int64_t)strlen(text);
  if (length > MOST) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "encode it in pieces (shoal_tokenizer_cut)",
                            "a text of %lld bytes; at most %d are encoded at once",
                            (long long)length, MOST);
  }
  const encoding_t e = {.t = t, .plain = options && options->special_as_text};
  t->ids.length = 0;
  if (!shoal_buffer_reserve(t->allocator, &t->ids, 1)) return SHOAL_OOM();
  if (options && options->add_special)
    SHOAL_RETURN_IF_ERROR(shoal_tokenizer_add_ids(t, t->before, t->before_count));
  SHOAL_RETURN_IF_ERROR(between_added(&e, text, length, true, false, normalize));
  if (options && options->add_special)
    SHOAL_RETURN_IF_ERROR(shoal_tokenizer_add_ids(t, t->behind, t->behind_count));
  *out_ids = (const int32_t *)t->ids.data;
  *out_count = t->ids.length / (int64_t)sizeof(int32_t);
  return NULL;
}

// A space behind a character that is none begins a word, in all the patterns there are, and no word
// depends on what lies before or behind such a place.
int64_t shoal_tokenizer_cut(const shoal_tokenizer_t *t, const char *text, int64_t length) {
  if (t->metaspace || t->prefix) return 0;
  for (int32_t i = 0; i < t->normalizer_count; ++i) {
    if (t->normalizers[i].kind != TOKENIZER_NORMAL_NFC) return 0;
  }
  if (t->bytes) return shoal_max64(length - 1, 0);
  if (!t->split_count) return 0;
  for (int64_t i = 0; i < t->added_count; ++i) {
    const tokenizer_added_t *added = &t->added[i];
    if (added->strip_left || added->strip_right || memchr(added->text, ' ', (size_t)added->length))
      return 0;
  }
  for (int64_t at = length - 1; at > 0; --at) {
    if (text[at] != ' ') continue;
    if (skip_back(text, 0, at) == at) return at;
  }
  return 0;
}
