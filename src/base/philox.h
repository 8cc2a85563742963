// Philox4x32-10 (Salmon et al., SC'11) and what Shoal draws from it. Contract 2 of the design: the
// word for element i of the random node `stream` at `step` is
//   philox(counter = (i / 4, step), key = seed ^ stream)[i mod 4]
// so the same bits come out on every layout and device.
#ifndef SHOAL_BASE_PHILOX_H_
#define SHOAL_BASE_PHILOX_H_

#include "shoal/base.h"

void shoal_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out_words[4]);
uint32_t shoal_philox_word(uint64_t seed, uint64_t stream, uint64_t step, uint64_t index);
// ((word >> 9) + 0.5) * 2^-23: in (0, 1), exact in f32 (24 significant bits; one more would round
// to 1).
double shoal_philox_uniform(uint32_t word);
// Standard normal from ONE word: inverse normal CDF by a stated rational of IEEE +, *, /, sqrt only
// (AS 241; compiled without contraction), so that all devices give the same bits. No libm.
double shoal_philox_normal(uint32_t word);
// The same of a number in [2^-24, 1 - 2^-24], and the number that it comes nearest to z with: 0 and
// 1 where z is beyond all of them.
double shoal_normal_of(double u);
double shoal_normal_share(double z);

#endif  // SHOAL_BASE_PHILOX_H_
