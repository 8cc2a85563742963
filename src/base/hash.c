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
