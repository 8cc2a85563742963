// Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2,
// 3", SC'11. Normals: M. Wichura, "Algorithm AS 241", Applied Statistics 37 (1988), PPND16, whose
// logarithm is written out here. Every double operation below is one of + - * / sqrt, in the order
// written: the bits are the same wherever IEEE 754 is kept and nothing is contracted.
#include "base/philox.h"

#include <math.h>
#include <string.h>

void shoal_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out_words[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = UINT64_C(0xD2511F53) * c0;
    uint64_t p1 = UINT64_C(0xCD9E8D57) * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c1 = (uint32_t)p1;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c3 = (uint32_t)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out_words[0] = c0, out_words[1] = c1, out_words[2] = c2, out_words[3] = c3;
}

uint32_t shoal_philox_word(uint64_t seed, uint64_t stream, uint64_t step, uint64_t index) {
  uint64_t key = seed ^ stream, block = index / 4;
  uint32_t words[4];
  shoal_philox4x32((uint32_t[4]){(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)step,
                                 (uint32_t)(step >> 32)},
                   (uint32_t[2]){(uint32_t)key, (uint32_t)(key >> 32)}, words);
  return words[index % 4];
}

double shoal_philox_uniform(uint32_t word) {
  return ((double)(word >> 9) + 0.5) * 0x1p-23;
}

// ln(x) for normal x > 0: x = m 2^e with m in [sqrt(1/2), sqrt(2)), ln m = 2 artanh((m-1)/(m+1)),
// whose series in s^2 (|s| < 0.1716) is cut after s^21/21, below 2^-60.
static double log_plain(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  double exponent = (double)((int64_t)(bits >> 52) - 1023);
  bits = (bits & UINT64_C(0x000fffffffffffff)) | UINT64_C(0x3ff0000000000000);
  double m;
  memcpy(&m, &bits, sizeof m);
  if (m > 1.4142135623730951) {
    m = m * 0.5;
    exponent = exponent + 1.0;
  }
  double s = (m - 1.0) / (m + 1.0), z = s * s;
  double series = 1.0 / 21.0;
  for (int k = 19; k >= 1; k -= 2) series = series * z + 1.0 / (double)k;
  return exponent * 0.6931471805599453 + 2.0 * (s * series);
}

// c[0] + c[1] x + ... + c[7] x^7
static double polynomial(const double c[8], double x) {
  double value = c[7];
  for (int k = 6; k >= 0; --k) value = value * x + c[k];
  return value;
}

double shoal_normal_of(double u) {
  static const double a[8] = {3.3871328727963666080e0, 1.3314166789178437745e2,
                              1.9715909503065514427e3, 1.3731693765509461125e4,
                              4.5921953931549871457e4, 6.7265770927008700853e4,
                              3.3430575583588128105e4, 2.5090809287301226727e3};
  static const double b[8] = {1.0,
                              4.2313330701600911252e1,
                              6.8718700749205790830e2,
                              5.3941960214247511077e3,
                              2.1213794301586595867e4,
                              3.9307895800092710610e4,
                              2.8729085735721942674e4,
                              5.2264952788528545610e3};
  static const double c[8] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                              5.76949722146069140550e0,  3.64784832476320460504e0,
                              1.27045825245236838258e0,  2.41780725177450611770e-1,
                              2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static const double d[8] = {1.0,
                              2.05319162663775882187e0,
                              1.67638483018380384940e0,
                              6.89767334985100004550e-1,
                              1.48103976427480074590e-1,
                              1.51986665636164571966e-2,
                              5.47593808499534494600e-4,
                              1.05075007164441684324e-9};
  double q = u - 0.5;
  if (q >= -0.425 && q <= 0.425) {
    double r = 0.180625 - q * q;
    return q * polynomial(a, r) / polynomial(b, r);
  }
  // The smaller tail is at least 2^-24, so r <= 4.08: AS 241's far tail (r > 5) is never reached.
  double r = sqrt(0.0 - log_plain(q < 0.0 ? u : 1.0 - u)) - 1.6;
  double z = polynomial(c, r) / polynomial(d, r);
  return q < 0.0 ? 0.0 - z : z;
}

double shoal_philox_normal(uint32_t word) {
  return shoal_normal_of(shoal_philox_uniform(word));
}

// By bisection: no error function is the same on all machines.
double shoal_normal_share(double z) {
  double low = 0x1p-24, high = 1.0 - 0x1p-24;
  if (z <= shoal_normal_of(low)) return 0.0;
  if (z >= shoal_normal_of(high)) return 1.0;
  for (int k = 0; k < 64; ++k) {
    const double middle = (low + high) * 0.5;
    if (shoal_normal_of(middle) < z) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return (low + high) * 0.5;
}
