// Index: from 64-bit hashes to numbers, by open addressing. It finds things in lists that are too
// long to scan: the caller keeps the things themselves, hashes their keys, and compares keys when a
// hash is found, because different keys may share one. Lies in an arena; nothing is ever removed.
#ifndef SHOAL_BASE_INDEX_H_
#define SHOAL_BASE_INDEX_H_

#include "base/arena.h"

typedef struct shoal_index_entry {
  uint64_t hash;
  int64_t number;  // plus 1: 0 is free
} shoal_index_entry_t;

typedef struct shoal_index {
  shoal_arena_t *arena;
  int64_t count, capacity;  // a power of two, or 0
  shoal_index_entry_t *entries;
} shoal_index_t;

// The caller's storage; an index without an arena (all zero) is empty and must not be added to.
void shoal_index_init(shoal_arena_t *arena, shoal_index_t *out_index);
// False when memory is short. Several numbers may be added under one hash.
bool shoal_index_add(shoal_index_t *index, uint64_t hash, int64_t number);
// The numbers under a hash, in the order they were added; -1: no more. `cursor` starts at -1:
//   for (int64_t at = -1, n; (n = shoal_index_next(&index, hash, &at)) >= 0;) ...
int64_t shoal_index_next(const shoal_index_t *index, uint64_t hash, int64_t *cursor);

#endif  // SHOAL_BASE_INDEX_H_
