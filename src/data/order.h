// Shuffling without a table: a permutation of [0, n) by a Feistel network whose round function is
// Philox, walked until it lands inside [0, n) (Black & Rogaway, CT-RSA 2002).
#ifndef SHOAL_DATA_ORDER_H_
#define SHOAL_DATA_ORDER_H_

#include "shoal/base.h"

// Where `index` goes, of [0, count).
int64_t shoal_order_permute(uint64_t seed, int64_t epoch, int64_t count, int64_t index);
// A word of the epoch's own that no permutation uses; `stream` 0 is the offset of windows.
uint64_t shoal_order_word(uint64_t seed, int64_t epoch, uint64_t stream);

#endif  // SHOAL_DATA_ORDER_H_
