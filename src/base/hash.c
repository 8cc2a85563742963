// FNV-1a, 64 bits (Fowler, Noll, Vo). Integers are hashed as 8 little-endian bytes on every
// machine.
#include "base/hash.h"

#include <string.h>

uint64_t shoal_hash_bytes(uint64_t hash, const void *data, size_t size) {
  const unsigned char *bytes = data;
  for (size_t i = 0; i < size; ++i) hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
  return hash;
}

uint64_t shoal_hash_string(uint64_t hash, const char *string) {
  return shoal_hash_bytes(hash, string, strlen(string) + 1);
}

uint64_t shoal_hash_int(uint64_t hash, int64_t value) {
  unsigned char bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = (unsigned char)((uint64_t)value >> (8 * i));
  return shoal_hash_bytes(hash, bytes, sizeof bytes);
}

enum { BLOCK = 64, BLOCKS = 1024, LANES = BLOCK / 8 };

// Each lane takes every eighth word, one multiplication each, so that they overlap. A step can be
// undone, so two data that differ in one word never end in the same lane.
static void sample_block(uint64_t lanes[LANES], const unsigned char *bytes, size_t size) {
  uint64_t words[LANES] = {0};
  memcpy(words, bytes, size);
  for (int i = 0; i < LANES; ++i) {
    const uint64_t mixed = (lanes[i] ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
    lanes[i] = mixed << 29 | mixed >> 35;
  }
}

static void start_lanes(uint64_t lanes[LANES]) {
  for (int i = 0; i < LANES; ++i) lanes[i] = SHOAL_HASH_START + (uint64_t)i;
}

static uint64_t join_lanes(const uint64_t lanes[LANES], uint64_t size) {
  uint64_t hash = shoal_hash_int(SHOAL_HASH_START, (int64_t)size);
  for (int i = 0; i < LANES; ++i) hash = shoal_hash_int(hash, (int64_t)lanes[i]);
  return hash;
}

uint64_t shoal_hash_sample(const void *data, size_t size) {
  const unsigned char *bytes = data;
  uint64_t lanes[LANES];
  start_lanes(lanes);
  if (size > BLOCK * BLOCKS) {
    const size_t last = size - BLOCK;
    for (size_t i = 0; i < BLOCKS; ++i) {
      // last * i / (BLOCKS - 1), without overflow.
      const size_t start = last / (BLOCKS - 1) * i + last % (BLOCKS - 1) * i / (BLOCKS - 1);
      sample_block(lanes, bytes + start, BLOCK);
    }
  } else {
    size_t start = 0;
    for (; start + BLOCK <= size; start += BLOCK) sample_block(lanes, bytes + start, BLOCK);
    if (start < size) sample_block(lanes, bytes + start, size - start);
  }
  return join_lanes(lanes, size);
}

// ---- all bytes ------------------------------------------------------------------------

void shoal_checksum_init(shoal_checksum_t *out_sum) {
  *out_sum = (shoal_checksum_t){0};
  start_lanes(out_sum->lanes);
}

void shoal_checksum_add(shoal_checksum_t *sum, const void *data, size_t size) {
  const unsigned char *bytes = data;
  const size_t held = sum->size % BLOCK, room = BLOCK - held;
  sum->size += size;
  if (held > 0) {
    const size_t taken = size < room ? size : room;
    memcpy(sum->rest + held, bytes, taken);
    if (taken < room) return;
    sample_block(sum->lanes, sum->rest, BLOCK);
    bytes += taken;
    size -= taken;
  }
  for (; size >= BLOCK; bytes += BLOCK, size -= BLOCK) sample_block(sum->lanes, bytes, BLOCK);
  if (size > 0) memcpy(sum->rest, bytes, size);
}

uint64_t shoal_checksum_value(const shoal_checksum_t *sum) {
  uint64_t lanes[LANES];
  const size_t held = sum->size % BLOCK;
  memcpy(lanes, sum->lanes, sizeof lanes);
  if (held > 0) sample_block(lanes, sum->rest, held);
  return join_lanes(lanes, sum->size);
}

// ---- parts ----------------------------------------------------------------------------

// The sum of word times weight over all 4-byte words, modulo the prime 2^61 - 1. Bytes that a part
// lacks count as zeros, so a word may be split between parts. Weights are never 0, so one word that
// changes always shows; and they look random, so changes of several words cancel by chance only. A
// sum modulo 2^64 would lose them in pairs: two high bits add up to nothing.
#define PRIME ((UINT64_C(1) << 61) - 1)
__extension__ typedef unsigned __int128 wide_t;

// The finalizer of SplitMix (Steele, Lea and Flood, 2014), less 4 bits; odd, so not 0.
static uint64_t weight_of(uint64_t word) {
  uint64_t x = (word + 1) * UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return (x ^ x >> 31) >> 4 | 1;
}

static uint64_t fold(wide_t x) {
  x = (x & PRIME) + (x >> 61);  // below 2^68, as x is below 2^128
  x = (x & PRIME) + (x >> 61);
  return (uint64_t)(x >= PRIME ? x - PRIME : x);
}

// One word that the part has only some bytes of.
static wide_t edge(uint64_t offset, const unsigned char *bytes, size_t size) {
  uint64_t word = 0;
  for (size_t i = 0; i < size; ++i) word |= (uint64_t)bytes[i] << 8 * ((offset + i) % 4);
  return (wide_t)word * weight_of(offset / 4);
}

uint64_t shoal_parts_sum(uint64_t sum, int64_t offset, const void *data, size_t size) {
  const unsigned char *bytes = data;
  uint64_t at = (uint64_t)offset;
  wide_t total = sum;
  if (at % 4 != 0 && size > 0) {
    const size_t room = 4 - at % 4, taken = size < room ? size : room;
    total += edge(at, bytes, taken);
    bytes += taken, at += taken, size -= taken;
  }
  while (size >= 4) {
    // So many terms of less than 2^92 fit.
    const size_t words = size / 4 < 1 << 30 ? size / 4 : 1 << 30;
    for (size_t i = 0; i < words; ++i) {
      uint32_t word;
      memcpy(&word, bytes + 4 * i, sizeof word);
      total += (wide_t)word * weight_of(at / 4 + i);
    }
    total = fold(total);
    bytes += 4 * words, at += 4 * words, size -= 4 * words;
  }
  if (size > 0) total += edge(at, bytes, size);
  return fold(total);
}

uint64_t shoal_parts_sum_join(uint64_t a, uint64_t b) {
  return fold((wide_t)a + b);
}

uint64_t shoal_parts_sum_scale(uint64_t sum, int bits) {
  return fold((wide_t)sum << bits);
}
