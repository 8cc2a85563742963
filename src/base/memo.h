// Memo: answers by key, so that what is asked many times is worked out once. A key is a list of
// words that the caller writes; equal lists are the same question. Lies in an arena.
#ifndef SHOAL_BASE_MEMO_H_
#define SHOAL_BASE_MEMO_H_

#include "base/index.h"

typedef struct shoal_key {
  shoal_arena_t *arena;
  SHOAL_VEC(int64_t) words;
  bool failed;  // memory was short: the key is not whole
} shoal_key_t;

void shoal_key_init(shoal_arena_t *arena, shoal_key_t *out_key);
void shoal_key_clear(shoal_key_t *key);  // to write another with the same storage
void shoal_key_add(shoal_key_t *key, int64_t word);
void shoal_key_add_pointer(shoal_key_t *key, const void *pointer);
void shoal_key_add_real(shoal_key_t *key, double value);  // by its bits
void shoal_key_add_string(shoal_key_t *key,
                          const char *text);  // by its characters; NULL is one too

typedef struct shoal_memo_entry {
  const int64_t *words;
  int64_t word_count, answer;
} shoal_memo_entry_t;

typedef struct shoal_memo {
  shoal_arena_t *arena;
  shoal_index_t index;
  SHOAL_VEC(shoal_memo_entry_t) entries;
} shoal_memo_t;

void shoal_memo_init(shoal_arena_t *arena, shoal_memo_t *out_memo);
bool shoal_memo_find(const shoal_memo_t *memo, const shoal_key_t *key, int64_t *out_answer);
// Copies the key, which must not be there yet. False when memory is short, or was when the key was
// written.
bool shoal_memo_add(shoal_memo_t *memo, const shoal_key_t *key, int64_t answer);

#endif  // SHOAL_BASE_MEMO_H_
