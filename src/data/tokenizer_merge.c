// A word's tokens by byte pair encoding (Sennrich et al., ACL 2016): from single bytes or
// characters on, the adjacent pair of the lowest rank is joined, the leftmost first, until no pair
// is left.
//
// Short words look for the lowest rank again each time; long ones, which may be whole texts, keep
// the pairs in a heap and the tokens in a linked list: n log n. Words that were seen are
// remembered.
#include <limits.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "data/tokenizer.h"
#include "data/unicode.h"

enum { SHORT = 48, SLOTS = 1 << 16, CACHE_TEXTS = 1 << 20, CACHE_IDS = 1 << 18 };

static const tokenizer_pair_t *find_pair(const shoal_tokenizer_t *t, int32_t left, int32_t right) {
  const uint64_t key = ((uint64_t)left << 32 | (uint32_t)right) + 1;
  uint64_t at = shoal_tokenizer_pair_hash(key) & t->pair_mask;
  for (; t->pairs[at].key; at = (at + 1) & t->pair_mask) {
    if (t->pairs[at].key == key) return &t->pairs[at];
  }
  return NULL;
}

// The token of exactly these bytes, of those that words have; -1: none.
static int32_t find_word(const shoal_tokenizer_t *t, const char *text, int64_t length) {
  const uint64_t hash = shoal_hash_bytes(SHOAL_HASH_START, text, (size_t)length);
  for (int64_t at = -1, id; (id = shoal_index_next(&t->texts, hash, &at)) >= 0;) {
    const tokenizer_token_t *token = &t->tokens[id];
    if (token->word && token->key_length == length && memcmp(token->key, text, (size_t)length) == 0)
      return (int32_t)id;
  }
  return -1;
}

// ---- from text to the first tokens --------------------------------------------------------------

static int64_t bytes_of_word(const shoal_tokenizer_t *t, const char *word, int64_t length,
                             int32_t *ids) {
  int64_t count = 0;
  for (int64_t i = 0; i < length; ++i) {
    const int32_t id = t->byte_ids[(unsigned char)word[i]];
    if (id >= 0 || t->unknown >= 0) ids[count++] = id >= 0 ? id : t->unknown;
    if (id < 0 && t->fuse_unknown && count > 1 && ids[count - 2] == t->unknown) --count;
  }
  return count;
}

static bool falls_back(const shoal_tokenizer_t *t, const char *text, int64_t length) {
  if (!t->byte_fallback) return false;
  for (int64_t i = 0; i < length; ++i) {
    if (t->byte_ids[(unsigned char)text[i]] < 0) return false;
  }
  return true;
}

// Characters that are tokens; others become their bytes, or the token for what is unknown. That one
// is put down when the next character that is a token comes, as the reference does it.
static int64_t characters_of_word(const shoal_tokenizer_t *t, const char *word, int64_t length,
                                  int32_t *ids) {
  int64_t count = 0;
  bool waits = false;
  for (int64_t at = 0; at < length;) {
    const int32_t size = shoal_utf8_read(word + at, length - at).length;
    const int32_t id = find_word(t, word + at, size);
    if (id >= 0) {
      if (waits) ids[count++] = t->unknown;
      waits = false;
      ids[count++] = id;
    } else if (falls_back(t, word + at, size)) {
      for (int32_t i = 0; i < size; ++i) ids[count++] = t->byte_ids[(unsigned char)word[at + i]];
    } else if (t->unknown >= 0) {
      if (waits && !t->fuse_unknown) ids[count++] = t->unknown;
      waits = true;
    }
    at += size;
  }
  if (waits) ids[count++] = t->unknown;
  return count;
}

// ---- joining ------------------------------------------------------------------------------------

// In place; returns how many are left.
static int64_t join_few(const shoal_tokenizer_t *t, int32_t *ids, int64_t count) {
  const tokenizer_pair_t *pairs[SHORT];
  for (int64_t i = 0; i + 1 < count; ++i) pairs[i] = find_pair(t, ids[i], ids[i + 1]);
  for (;;) {
    int64_t best = -1;
    for (int64_t i = 0; i + 1 < count; ++i) {
      if (pairs[i] && (best < 0 || pairs[i]->rank < pairs[best]->rank)) best = i;
    }
    if (best < 0) return count;
    ids[best] = pairs[best]->id;
    --count;
    for (int64_t i = best + 1; i < count; ++i) ids[i] = ids[i + 1];
    for (int64_t i = best + 1; i + 1 < count; ++i) pairs[i] = pairs[i + 1];
    if (best > 0) pairs[best - 1] = find_pair(t, ids[best - 1], ids[best]);
    if (best + 1 < count) pairs[best] = find_pair(t, ids[best], ids[best + 1]);
  }
}

// A pair that may be joined, the lowest rank and then the leftmost on top. One of its tokens may
// have been joined with another since: `left` and `right` say what they were.
typedef struct candidate {
  int32_t rank, at, left, right, id;
} candidate_t;

typedef struct chain {
  const shoal_tokenizer_t *t;
  int32_t *ids, *next, *last;  // of each token its followers; an id of -1 is gone
  candidate_t *heap;
  int64_t count;  // in the heap
} chain_t;

static bool comes_first(const candidate_t *a, const candidate_t *b) {
  return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void push(chain_t *chain, int32_t at) {
  const int32_t right = chain->next[at];
  const tokenizer_pair_t *pair =
      right < 0 ? NULL : find_pair(chain->t, chain->ids[at], chain->ids[right]);
  if (!pair) return;
  const candidate_t new = {pair->rank, at, chain->ids[at], chain->ids[right], pair->id};
  int64_t place = chain->count++;
  for (int64_t up; place > 0; place = up) {
    up = (place - 1) / 2;
    if (!comes_first(&new, &chain->heap[up])) break;
    chain->heap[place] = chain->heap[up];
  }
  chain->heap[place] = new;
}

static candidate_t pop(chain_t *chain) {
  const candidate_t top = chain->heap[0], moved = chain->heap[--chain->count];
  int64_t place = 0;
  for (int64_t down; (down = 2 * place + 1) < chain->count; place = down) {
    if (down + 1 < chain->count && comes_first(&chain->heap[down + 1], &chain->heap[down])) ++down;
    if (!comes_first(&chain->heap[down], &moved)) break;
    chain->heap[place] = chain->heap[down];
  }
  chain->heap[place] = moved;
  return top;
}

static shoal_status_t join_many(const shoal_tokenizer_t *t, int32_t *ids, int64_t *count) {
  // Every join takes one candidate out and puts at most two in.
  const size_t n = (size_t)*count, heap_size = 2 * n * sizeof(candidate_t);
  char *memory = t->allocator.alloc(t->allocator.self, heap_size + 2 * n * sizeof(int32_t));
  if (!memory) return SHOAL_OOM();
  chain_t chain = {.t = t, .ids = ids, .heap = (candidate_t *)memory};
  chain.next = (int32_t *)(memory + heap_size);
  chain.last = chain.next + n;
  for (int32_t i = 0; i < *count; ++i) {
    chain.next[i] = i + 1 < *count ? i + 1 : -1;
    chain.last[i] = i - 1;
  }
  for (int32_t i = 0; i < *count; ++i) push(&chain, i);
  while (chain.count) {
    const candidate_t best = pop(&chain);
    const int32_t right = ids[best.at] < 0 ? -1 : chain.next[best.at];
    if (right < 0 || ids[best.at] != best.left || ids[right] != best.right) continue;
    ids[best.at] = best.id;
    ids[right] = -1;
    chain.next[best.at] = chain.next[right];
    if (chain.next[right] >= 0) chain.last[chain.next[right]] = best.at;
    if (chain.last[best.at] >= 0) push(&chain, chain.last[best.at]);
    push(&chain, best.at);
  }
  int64_t left = 0;
  for (int64_t i = 0; i < *count; ++i) {
    if (ids[i] >= 0) ids[left++] = ids[i];
  }
  *count = left;
  t->allocator.free(t->allocator.self, memory);
  return NULL;
}

// ---- words that were seen -----------------------------------------------------------------------

static bool cache_init(shoal_tokenizer_t *t) {
  tokenizer_cache_t *cache = &t->cache;
  if (cache->slots) return true;
  const size_t slots = SLOTS * sizeof *cache->slots;
  char *memory =
      t->allocator.alloc(t->allocator.self, slots + CACHE_IDS * sizeof *cache->ids + CACHE_TEXTS);
  if (!memory) return false;
  memset(memory, 0, slots);
  cache->slots = (tokenizer_cache_slot_t *)memory;
  cache->ids = (int32_t *)(memory + slots);
  cache->texts = memory + slots + CACHE_IDS * sizeof *cache->ids;
  return true;
}

void shoal_tokenizer_cache_deinit(shoal_tokenizer_t *t) {
  if (t->cache.slots) t->allocator.free(t->allocator.self, t->cache.slots);
  t->cache = (tokenizer_cache_t){0};
}

// The slot of a word: its own, or a free one.
static tokenizer_cache_slot_t *cache_slot(tokenizer_cache_t *cache, uint64_t hash, const char *word,
                                          int64_t length) {
  for (uint64_t at = hash & (SLOTS - 1);; at = (at + 1) & (SLOTS - 1)) {
    tokenizer_cache_slot_t *slot = &cache->slots[at];
    if (!slot->hash || (slot->hash == hash && slot->length == length &&
                        memcmp(cache->texts + slot->text, word, (size_t)length) == 0))
      return slot;
  }
}

// When it is full it begins anew: the words that are frequent are soon back.
static void cache_add(tokenizer_cache_t *cache, uint64_t hash, const char *word, int64_t length,
                      const int32_t *ids, int64_t count) {
  if (cache->count >= SLOTS / 2 || cache->text_length + length > CACHE_TEXTS ||
      cache->id_count + count > CACHE_IDS) {
    memset(cache->slots, 0, SLOTS * sizeof *cache->slots);
    cache->count = cache->text_length = cache->id_count = 0;
  }
  *cache_slot(cache, hash, word, length) = (tokenizer_cache_slot_t){
      hash, cache->text_length, cache->id_count, (int32_t)length, (int32_t)count};
  memcpy(cache->texts + cache->text_length, word, (size_t)length);
  memcpy(cache->ids + cache->id_count, ids, (size_t)count * sizeof *ids);
  ++cache->count;
  cache->text_length += (int32_t)length;
  cache->id_count += (int32_t)count;
}

// ---- a word -------------------------------------------------------------------------------------

shoal_status_t shoal_tokenizer_add_ids(shoal_tokenizer_t *t, const int32_t *ids, int64_t count) {
  return shoal_buffer_add(t->allocator, &t->ids, ids, count * (int64_t)sizeof *ids) ? NULL
                                                                                    : SHOAL_OOM();
}

static shoal_status_t encode_word(shoal_tokenizer_t *t, const char *word, int64_t length) {
  if (t->ignore_merges) {
    const int32_t id = find_word(t, word, length);
    if (id >= 0) return shoal_tokenizer_add_ids(t, &id, 1);
  }
  // No more tokens than bytes, and one for what is unknown at the end.
  const int64_t most = (length + 1) * (int64_t)sizeof(int32_t);
  if (!shoal_buffer_reserve(t->allocator, &t->ids, most)) return SHOAL_OOM();
  int32_t *ids = (int32_t *)(t->ids.data + t->ids.length);
  int64_t count = t->byte_level ? bytes_of_word(t, word, length, ids)
                                : characters_of_word(t, word, length, ids);
  if (count <= SHORT) {
    count = join_few(t, ids, count);
  } else {
    SHOAL_RETURN_IF_ERROR(join_many(t, ids, &count));
  }
  t->ids.length += count * (int64_t)sizeof *ids;
  return NULL;
}

shoal_status_t shoal_tokenizer_merge(shoal_tokenizer_t *t, const char *word, int64_t length) {
  if (length > TOKENIZER_CACHE_WORD) return encode_word(t, word, length);
  if (!cache_init(t)) return SHOAL_OOM();
  const uint64_t hash = shoal_hash_bytes(SHOAL_HASH_START, word, (size_t)length) | UINT64_C(1)
                                                                                       << 63;
  const tokenizer_cache_slot_t *slot = cache_slot(&t->cache, hash, word, length);
  if (slot->hash) return shoal_tokenizer_add_ids(t, t->cache.ids + slot->ids, slot->count);
  const int64_t start = t->ids.length;
  SHOAL_RETURN_IF_ERROR(encode_word(t, word, length));
  cache_add(&t->cache, hash, word, length, (const int32_t *)(t->ids.data + start),
            (t->ids.length - start) / (int64_t)sizeof(int32_t));
  return NULL;
}
