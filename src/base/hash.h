// FNV-1a 64-bit hashes: cache keys and random streams. Stable across machines and versions.
#ifndef SHOAL_BASE_HASH_H_
#define SHOAL_BASE_HASH_H_

#include "shoal/base.h"

#define SHOAL_HASH_START UINT64_C(14695981039346656037)
uint64_t shoal_hash_bytes(uint64_t hash, const void *data, size_t size);
uint64_t shoal_hash_string(uint64_t hash,
                           const char *string);  // includes the NUL: "ab","c" != "a","bc"
uint64_t shoal_hash_int(uint64_t hash, int64_t value);
// Data that may be large, within a process's life: all bytes of up to 64 KiB; of more, as many in
// 64-byte blocks spread evenly from the first byte to the last. Takes microseconds at any size.
// Differs between machines of different byte order.
uint64_t shoal_hash_sample(const void *data, size_t size);

#endif  // SHOAL_BASE_HASH_H_
