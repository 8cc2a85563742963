// See order.h. The network has six rounds; two halves of as few bits as hold the range.
#include "data/order.h"

#include "base/philox.h"

enum { ROUNDS = 6 };

static uint64_t round_word(uint64_t seed, int64_t epoch, int round, uint64_t half) {
  const uint32_t counter[4] = {(uint32_t)half, (uint32_t)(half >> 32), (uint32_t)round, 0};
  const uint64_t mixed = seed ^ (uint64_t)epoch * UINT64_C(0x9E3779B97F4A7C15);
  const uint32_t key[2] = {(uint32_t)mixed, (uint32_t)(mixed >> 32)};
  uint32_t words[4];
  shoal_philox4x32(counter, key, words);
  return (uint64_t)words[1] << 32 | words[0];
}

int64_t shoal_order_permute(uint64_t seed, int64_t epoch, int64_t count, int64_t index) {
  int bits = 1;  // of each half: 4^bits >= count
  while (bits < 31 && ((int64_t)1 << 2 * bits) < count) ++bits;
  if (((int64_t)1 << 2 * bits) < count) bits = 32;
  const uint64_t mask = ((uint64_t)1 << bits) - 1;
  uint64_t at = (uint64_t)index;
  do {
    uint64_t left = at >> bits, right = at & mask;
    for (int round = 0; round < ROUNDS; ++round) {
      const uint64_t next = left ^ (round_word(seed, epoch, round, right) & mask);
      left = right;
      right = next;
    }
    at = left << bits | right;
  } while (at >= (uint64_t)count);
  return (int64_t)at;
}

uint64_t shoal_order_word(uint64_t seed, int64_t epoch, uint64_t stream) {
  return round_word(seed, epoch, ROUNDS, stream);
}
