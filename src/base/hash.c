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

uint64_t shoal_hash_sample(const void *data, size_t size) {
  const unsigned char *bytes = data;
  uint64_t lanes[LANES];
  for (int i = 0; i < LANES; ++i) lanes[i] = SHOAL_HASH_START + (uint64_t)i;
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
  uint64_t hash = shoal_hash_int(SHOAL_HASH_START, (int64_t)size);
  for (int i = 0; i < LANES; ++i) hash = shoal_hash_int(hash, (int64_t)lanes[i]);
  return hash;
}
