// Patterns of an intent, found by name without trying them all: a plan for a hundred blocks has
// hundreds of entries and tens of thousands of names.
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "plan/complete.h"

enum { LONGEST = 63 };  // longer prefixes are found by their first characters

static uint64_t next(uint64_t hash, char c) {
  return shoal_hash_bytes(hash, &c, 1);
}

shoal_status_t shoal_patterns_init(int64_t count, const shoal_intent_decision_t *entries,
                                   shoal_arena_t *arena, shoal_patterns_t *out_patterns) {
  *out_patterns = (shoal_patterns_t){.count = count, .entries = entries};
  shoal_index_init(arena, &out_patterns->exact);
  shoal_index_init(arena, &out_patterns->by_prefix);
  for (int64_t i = 0; i < count; ++i) {
    const char *pattern = entries[i].pattern;
    const bool star = shoal_pattern_is(pattern);
    size_t length = strcspn(pattern, "*");  // that of regular expressions is not in names
    if (strncmp(pattern, "re:", 3) == 0) length = 0;
    if (star && length > LONGEST) length = LONGEST;
    if (star) out_patterns->lengths |= UINT64_C(1) << length;
    uint64_t hash = SHOAL_HASH_START;
    for (size_t k = 0; k < length; ++k) hash = next(hash, pattern[k]);
    shoal_index_t *index = star ? &out_patterns->by_prefix : &out_patterns->exact;
    if (!shoal_index_add(index, hash, i)) return SHOAL_OOM();
  }
  return NULL;
}

static int64_t last_match(const shoal_patterns_t *patterns, const shoal_index_t *index,
                          uint64_t hash, const char *name, int64_t best) {
  for (int64_t at = -1, n; (n = shoal_index_next(index, hash, &at)) >= 0;) {
    if (n > best && shoal_pattern_match(patterns->entries[n].pattern, name)) best = n;
  }
  return best;
}

const shoal_intent_decision_t *shoal_patterns_find(const shoal_patterns_t *patterns,
                                                   const char *name) {
  int64_t best = -1;
  uint64_t hash = SHOAL_HASH_START;
  for (size_t k = 0;; ++k) {
    if (k <= LONGEST && (patterns->lengths >> k & 1)) {
      best = last_match(patterns, &patterns->by_prefix, hash, name, best);
    }
    if (!name[k]) break;
    hash = next(hash, name[k]);
  }
  best = last_match(patterns, &patterns->exact, hash, name, best);
  return best >= 0 ? &patterns->entries[best] : NULL;
}

const shoal_intent_decision_t *shoal_patterns_find_in(const shoal_patterns_t *patterns,
                                                      const char *graph, const char *name) {
  const shoal_intent_decision_t *best = shoal_patterns_find(patterns, name);
  const size_t length = strlen(graph);
  uint64_t hash = shoal_hash_bytes(SHOAL_HASH_START, graph, length);
  hash = shoal_hash_bytes(next(hash, ':'), name, strlen(name));
  for (int64_t at = -1, n; (n = shoal_index_next(&patterns->exact, hash, &at)) >= 0;) {
    const shoal_intent_decision_t *entry = &patterns->entries[n];
    if (strncmp(entry->pattern, graph, length) == 0 && entry->pattern[length] == ':' &&
        strcmp(entry->pattern + length + 1, name) == 0 && (!best || entry > best))
      best = entry;
  }
  return best;
}
