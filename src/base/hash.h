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

// A checksum of all bytes of data that comes in pieces of any size, several bytes a cycle. Finds
// damage, not intent. Stable across versions, and across machines of the same byte order.
typedef struct shoal_checksum {
  uint64_t lanes[8];
  uint64_t size;           // so far
  unsigned char rest[64];  // what does not fill a block yet
} shoal_checksum_t;
void shoal_checksum_init(shoal_checksum_t *out_sum);
void shoal_checksum_add(shoal_checksum_t *sum, const void *data, size_t size);
uint64_t shoal_checksum_value(const shoal_checksum_t *sum);

// A checksum of data whose parts lie in several hands: each adds the bytes it has to a sum that
// starts at 0, with their offset in the whole and in any order, and the sums of disjoint parts join
// to that of the whole. Any change within 4 bytes is found for certain, others but once in 2^59 or
// so. Finds damage, not intent. Stable as shoal_checksum_t is.
uint64_t shoal_parts_sum(uint64_t sum, int64_t offset, const void *data, size_t size);
uint64_t shoal_parts_sum_join(uint64_t a, uint64_t b);
// Sums can be added up in halves: this is a sum times 2^bits (at most 60), of any number.
uint64_t shoal_parts_sum_scale(uint64_t sum, int bits);

#endif  // SHOAL_BASE_HASH_H_
