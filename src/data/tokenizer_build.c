// A tokenizer's tables: tokens by id, tokens by text, pairs that may be joined.
#include <limits.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "data/tokenizer.h"
#include "data/unicode.h"

enum {
  MOST_IDS = 1 << 22
};  // more than any vocabulary there is; a wrong id asks for no more memory

// ---- tokens -------------------------------------------------------------------------------------

// GPT-2 writes bytes as characters that print: those of Latin-1 that do stand for themselves, the
// others are U+0100 and on, in order.
static bool prints(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
}

static int byte_of(uint32_t code) {
  if (code < 256) return prints((int)code) ? (int)code : -1;
  int shift = (int)(code < 512 ? code - 256 : 256);
  for (int byte = 0; byte < 256; ++byte) {
    if (!prints(byte) && shift-- == 0) return byte;
  }
  return -1;
}

// The bytes of a byte-level text, or false: one of its characters stands for none.
static bool to_bytes(const char *text, int64_t length, char *out, int32_t *out_length) {
  int32_t count = 0;
  for (int64_t at = 0; at < length;) {
    const shoal_character_t c = shoal_utf8_read(text + at, length - at);
    const int byte = c.valid ? byte_of(c.code) : -1;
    if (byte < 0) return false;
    out[count++] = (char)byte;
    at += c.length;
  }
  *out_length = count;
  return true;
}

// "<0x0A>": the byte, else -1.
static int16_t byte_token(const char *text, int64_t length) {
  static const char digits[] = "0123456789ABCDEF";
  if (length != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
  const char *high = memchr(digits, text[3], 16), *low = memchr(digits, text[4], 16);
  return high && low ? (int16_t)((high - digits) * 16 + (low - digits)) : -1;
}

// A copy of `text` in which `from` is a space.
static const char *with_spaces(shoal_arena_t *arena, const char *text, const char *from,
                               int32_t *out_length) {
  const size_t skip = strlen(from);
  char *copy = shoal_arena_strdup(arena, text);
  if (!copy) return NULL;
  int32_t length = 0;
  for (const char *at = text; *at;) {
    const bool is = strncmp(at, from, skip) == 0;
    copy[length++] = is ? ' ' : *at;
    at += is ? skip : 1;
  }
  copy[length] = 0;
  *out_length = length;
  return copy;
}

// Fills in a token from the text that the file has for it.
static shoal_status_t set_token(shoal_tokenizer_t *t, tokenizer_token_t *token, const char *text) {
  const size_t size = strlen(text);
  if (size > INT32_MAX) return SHOAL_ERROR(INVALID_ARGUMENT, "%s: a token is too long", t->name);
  char *key = shoal_arena_strdup(&t->arena, text);
  if (!key) return SHOAL_OOM();
  token->key = token->text = key;
  token->key_length = token->length = (int32_t)size;
  token->byte = -1;
  token->word = true;
  if (t->byte_level) {
    token->word = to_bytes(text, (int64_t)size, key, &token->length);
    if (!token->word) {
      memcpy(key, text, size);
      token->length = (int32_t)size;
    }
    token->key_length = token->length;
    return NULL;
  }
  if (t->decode_bytes) token->byte = byte_token(text, (int64_t)size);
  if (!t->decode_space || !strstr(text, t->decode_space)) return NULL;
  token->text = with_spaces(&t->arena, text, t->decode_space, &token->length);
  return token->text ? NULL : SHOAL_OOM();
}

static shoal_status_t check_id(const shoal_tokenizer_t *t, const char *text, int64_t id) {
  if (id >= 0 && id < MOST_IDS) return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "is the file damaged?",
                          "%s: token '%.60s' has the id %lld; ids are 0 to %d", t->name, text,
                          (long long)id, MOST_IDS - 1);
}

shoal_status_t shoal_tokenizer_vocabulary(shoal_tokenizer_t *t, const shoal_json_t *vocabulary,
                                          int64_t most) {
  for (int64_t i = 0; i < vocabulary->count; ++i) {
    const shoal_json_t *entry = &vocabulary->children[i];
    if (entry->kind != SHOAL_JSON_INT) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s: token '%.60s' has no whole number as its id",
                         t->name, entry->key);
    }
    SHOAL_RETURN_IF_ERROR(check_id(t, entry->key, entry->integer));
    if (entry->integer > most) most = entry->integer;
  }
  SHOAL_RETURN_IF_ERROR(check_id(t, "added", most < 0 ? 0 : most));
  t->size = most + 1;
  t->tokens = SHOAL_NEW(&t->arena, tokenizer_token_t, t->size);
  if (!t->tokens) return SHOAL_OOM();
  for (int64_t i = 0; i < vocabulary->count; ++i) {
    const shoal_json_t *entry = &vocabulary->children[i];
    tokenizer_token_t *token = &t->tokens[entry->integer];
    if (token->text) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s: tokens '%.60s' and '%.60s' have the same id, %lld",
                         t->name, token->text, entry->key, (long long)entry->integer);
    }
    SHOAL_RETURN_IF_ERROR(set_token(t, token, entry->key));
  }
  return NULL;
}

// ---- added tokens -------------------------------------------------------------------------------

shoal_status_t shoal_tokenizer_reserve_added(shoal_tokenizer_t *t, int64_t count) {
  t->added = SHOAL_NEW(&t->arena, tokenizer_added_t, count);
  return t->added ? NULL : SHOAL_OOM();
}

shoal_status_t shoal_tokenizer_add_added(shoal_tokenizer_t *t, const tokenizer_added_t *added) {
  tokenizer_token_t *token = &t->tokens[added->id];
  if (!token->text) SHOAL_RETURN_IF_ERROR(set_token(t, token, added->text));
  token->special = added->special;
  // Longest first: the longest of those that match at a place is the one.
  int64_t at = t->added_count++;
  for (; at > 0 && t->added[at - 1].length < added->length; --at) t->added[at] = t->added[at - 1];
  t->added[at] = *added;
  t->added_first[added->normalized][(unsigned char)added->text[0]] = true;
  return NULL;
}

// ---- merges -------------------------------------------------------------------------------------

shoal_status_t shoal_tokenizer_reserve_pairs(shoal_tokenizer_t *t, int64_t count) {
  uint64_t capacity = 64;
  while (capacity < 2 * (uint64_t)count) capacity *= 2;
  t->pairs = SHOAL_NEW(&t->arena, tokenizer_pair_t, capacity);
  t->pair_mask = capacity - 1;
  return t->pairs ? NULL : SHOAL_OOM();
}

static shoal_status_t find_part(const shoal_tokenizer_t *t, const shoal_json_t *vocabulary,
                                int64_t rank, const char *left, const char *right, const char *part,
                                int32_t *out_id) {
  const shoal_json_t *found = *part ? shoal_json_find(vocabulary, part) : NULL;
  if (!found) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "are vocabulary and merges of the same tokenizer?",
                            "%s: merge %lld joins '%.60s' and '%.60s', but '%.120s' is no token",
                            t->name, (long long)rank + 1, left, right, part);
  }
  *out_id = (int32_t)found->integer;
  return NULL;
}

shoal_status_t shoal_tokenizer_add_merge(shoal_tokenizer_t *t, const shoal_json_t *vocabulary,
                                         int64_t rank, const char *left, const char *right) {
  int32_t a = 0, b = 0, joined = 0;
  SHOAL_RETURN_IF_ERROR(find_part(t, vocabulary, rank, left, right, left, &a));
  SHOAL_RETURN_IF_ERROR(find_part(t, vocabulary, rank, left, right, right, &b));
  const size_t left_size = strlen(left), right_size = strlen(right);
  t->word.length = 0;
  if (!shoal_buffer_add(t->allocator, &t->word, left, (int64_t)left_size) ||
      !shoal_buffer_add(t->allocator, &t->word, right, (int64_t)right_size + 1))
    return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(find_part(t, vocabulary, rank, left, right, t->word.data, &joined));
  const uint64_t key = ((uint64_t)a << 32 | (uint32_t)b) + 1;
  uint64_t at = shoal_tokenizer_pair_hash(key) & t->pair_mask;
  while (t->pairs[at].key && t->pairs[at].key != key) at = (at + 1) & t->pair_mask;
  t->pairs[at] = (tokenizer_pair_t){key, (int32_t)rank, joined};  // of two alike the last counts
  return NULL;
}

// ---- when all is there --------------------------------------------------------------------------

static void find_bytes(shoal_tokenizer_t *t) {
  for (int byte = 0; byte < 256; ++byte) t->byte_ids[byte] = -1;
  for (int64_t id = 0; id < t->size; ++id) {
    const tokenizer_token_t *token = &t->tokens[id];
    if (!token->text) continue;
    if (t->byte_level && token->word && token->length == 1)
      t->byte_ids[(unsigned char)token->text[0]] = (int32_t)id;
    if (!t->byte_level && t->byte_fallback && byte_token(token->key, token->key_length) >= 0)
      t->byte_ids[byte_token(token->key, token->key_length)] = (int32_t)id;
  }
}

shoal_status_t shoal_tokenizer_finish(shoal_tokenizer_t *t) {
  shoal_index_init(&t->arena, &t->texts);
  for (int64_t id = 0; id < t->size; ++id) {
    const tokenizer_token_t *token = &t->tokens[id];
    if (!token->text) continue;
    const uint64_t hash = shoal_hash_bytes(SHOAL_HASH_START, token->key, (size_t)token->key_length);
    if (!shoal_index_add(&t->texts, hash, id)) return SHOAL_OOM();
  }
  find_bytes(t);
  return NULL;
}
