// See index.h. At most half of the entries are in use, so that searches stay short.
#include "base/index.h"

void shoal_index_init(shoal_arena_t *arena, shoal_index_t *out_index) {
  *out_index = (shoal_index_t){.arena = arena};
}

// FNV-1a leaves the low bits of short keys alike: they are mixed once more (SplitMix64's finish).
static uint64_t spread(uint64_t hash) {
  hash = (hash ^ (hash >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  hash = (hash ^ (hash >> 27)) * UINT64_C(0x94d049bb133111eb);
  return hash ^ (hash >> 31);
}

static void put(shoal_index_t *index, shoal_index_entry_t entry) {
  uint64_t mask = (uint64_t)index->capacity - 1, at = spread(entry.hash) & mask;
  while (index->entries[at].number) at = (at + 1) & mask;
  index->entries[at] = entry;
}

bool shoal_index_add(shoal_index_t *index, uint64_t hash, int64_t number) {
  if (2 * (index->count + 1) > index->capacity) {
    shoal_index_t larger = {.arena = index->arena,
                            .count = index->count,
                            .capacity = index->capacity ? 4 * index->capacity : 64};
    larger.entries = SHOAL_NEW(index->arena, shoal_index_entry_t, larger.capacity);
    if (!larger.entries) return false;
    // From the first entry of a run on, so that equal hashes keep their order.
    int64_t start = 0;
    while (start < index->capacity && index->entries[start].number) ++start;
    for (int64_t i = 0; i < index->capacity; ++i) {
      const shoal_index_entry_t *entry = &index->entries[(start + i) & (index->capacity - 1)];
      if (entry->number) put(&larger, *entry);
    }
    *index = larger;
  }
  put(index, (shoal_index_entry_t){hash, number + 1});
  ++index->count;
  return true;
}

int64_t shoal_index_next(const shoal_index_t *index, uint64_t hash, int64_t *cursor) {
  if (index->capacity == 0) return -1;
  uint64_t mask = (uint64_t)index->capacity - 1;
  uint64_t at = *cursor < 0 ? spread(hash) & mask : ((uint64_t)*cursor + 1) & mask;
  for (; index->entries[at].number; at = (at + 1) & mask) {
    if (index->entries[at].hash != hash) continue;
    *cursor = (int64_t)at;
    return index->entries[at].number - 1;
  }
  return -1;
}
