// See memo.h.
#include "base/memo.h"

#include <string.h>

#include "base/hash.h"

void shoal_key_init(shoal_arena_t *arena, shoal_key_t *out_key) {
  *out_key = (shoal_key_t){.arena = arena};
}

void shoal_key_clear(shoal_key_t *key) {
  key->words.count = 0;
  key->failed = false;
}

void shoal_key_add(shoal_key_t *key, int64_t word) {
  if (!SHOAL_PUSH(key->arena, &key->words, word)) key->failed = true;
}

void shoal_key_add_pointer(shoal_key_t *key, const void *pointer) {
  shoal_key_add(key, (int64_t)(intptr_t)pointer);
}

void shoal_key_add_real(shoal_key_t *key, double value) {
  int64_t word;
  memcpy(&word, &value, sizeof word);
  shoal_key_add(key, word);
}

void shoal_key_add_string(shoal_key_t *key, const char *text) {
  size_t length = text ? strlen(text) : 0;
  shoal_key_add(key, text ? (int64_t)length : -1);
  for (size_t at = 0; at < length; at += sizeof(int64_t)) {
    int64_t word = 0;
    size_t rest = length - at;
    memcpy(&word, text + at, rest < sizeof word ? rest : sizeof word);
    shoal_key_add(key, word);
  }
}

void shoal_memo_init(shoal_arena_t *arena, shoal_memo_t *out_memo) {
  *out_memo = (shoal_memo_t){.arena = arena};
  shoal_index_init(arena, &out_memo->index);
}

static uint64_t hash_of(const shoal_key_t *key) {
  return shoal_hash_bytes(SHOAL_HASH_START, key->words.items,
                          (size_t)key->words.count * sizeof *key->words.items);
}

bool shoal_memo_find(const shoal_memo_t *memo, const shoal_key_t *key, int64_t *out_answer) {
  if (key->failed) return false;
  uint64_t hash = hash_of(key);
  for (int64_t at = -1, n; (n = shoal_index_next(&memo->index, hash, &at)) >= 0;) {
    const shoal_memo_entry_t *entry = &memo->entries.items[n];
    if (entry->word_count != key->words.count ||
        memcmp(entry->words, key->words.items, (size_t)entry->word_count * sizeof(int64_t)) != 0) {
      continue;
    }
    *out_answer = entry->answer;
    return true;
  }
  return false;
}

bool shoal_memo_add(shoal_memo_t *memo, const shoal_key_t *key, int64_t answer) {
  if (key->failed) return false;
  shoal_memo_entry_t entry = {.word_count = key->words.count, .answer = answer};
  entry.words = shoal_arena_copy(memo->arena, key->words.items, (size_t)key->words.count,
                                 sizeof *key->words.items);
  return entry.words && shoal_index_add(&memo->index, hash_of(key), memo->entries.count) &&
         SHOAL_PUSH(memo->arena, &memo->entries, entry);
}
