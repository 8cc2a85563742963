// FNV-1a 64-bit hashes: cache keys and random streams. Stable across machines and versions.
#ifndef SHOAL_BASE_HASH_H_
#define SHOAL_BASE_HASH_H_

#include "shoal/base.h"

#define SHOAL_HASH_START UINT64_C(14695981039346656037)
uint64_t shoal_hash_bytes(uint64_t hash, const void *data, size_t size);
uint64_t shoal_hash_string(uint64_t hash,
                           const char *string);  // includes the NUL: "ab","c" != "a","bc"
uint64_t shoal_hash_int(uint64_t hash, int64_t value);

#endif  // SHOAL_BASE_HASH_H_
