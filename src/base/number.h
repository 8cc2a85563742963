// Small functions on 64-bit integers that C lacks.
#ifndef SHOAL_BASE_NUMBER_H_
#define SHOAL_BASE_NUMBER_H_

#include <stdint.h>

static inline int64_t shoal_min64(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static inline int64_t shoal_max64(int64_t a, int64_t b) {
  return a > b ? a : b;
}

// The greatest common divisor of numbers that are not negative; of 0 and n it is n.
static inline int64_t shoal_gcd(int64_t a, int64_t b) {
  while (b) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

#endif  // SHOAL_BASE_NUMBER_H_
