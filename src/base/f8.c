// Floats of 8 bits, from and to f32, rounded to nearest even.
//
// E4M3 (bias 7, "fn"): no infinity; all ones is NaN, so that the largest number is 448. What rounds
// beyond it becomes NaN. E5M2 (bias 15) is the upper half of an f16: it has infinities, the largest
// number is 57344. Micikevicius et al., FP8 formats for deep learning, 2022.
#include <string.h>

#include "base/dtype.h"

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// Rounds the end of an f32's bits away: to nearest, and to even between two.
static uint32_t round_off(uint32_t bits, int end) {
  return (bits + (1u << (end - 1)) - 1 + (bits >> end & 1)) >> end;
}

float shoal_f8_e4m3_to_f32(uint8_t bits) {
  const uint32_t sign = (uint32_t)(bits & 0x80u) << 24, exponent = bits >> 3 & 15,
                 fraction = bits & 7;
  if (exponent == 15 && fraction == 7) return float_of(sign | 0x7fc00000u);
  if (exponent) return float_of(sign | (exponent + 120) << 23 | fraction << 20);
  const float magnitude = (float)fraction * 0x1p-9f;  // exact
  return sign ? -magnitude : magnitude;
}

uint8_t shoal_f32_to_f8_e4m3(float value) {
  const uint32_t bits = bits_of(value), sign = bits >> 24 & 0x80u, magnitude = bits & 0x7fffffffu;
  if (magnitude >= bits_of(480.0f)) return (uint8_t)(sign | 0x7fu);
  if (magnitude < bits_of(0x1p-6f)) {
    // Subnormal: in units of 2^-9, which are the last place of numbers from 2^14 on: the addition
    // rounds.
    return (uint8_t)(sign | (bits_of(float_of(magnitude) + 0x1p14f) - bits_of(0x1p14f)));
  }
  return (uint8_t)(sign | (round_off(magnitude, 20) - (120u << 3)));
}

float shoal_f8_e5m2_to_f32(uint8_t bits) {
  return shoal_f16_to_f32((uint16_t)(bits << 8));
}

uint8_t shoal_f32_to_f8_e5m2(float value) {
  const uint32_t bits = bits_of(value), sign = bits >> 24 & 0x80u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (uint8_t)(sign | 0x7fu);
  if (magnitude >= bits_of(65536.0f)) return (uint8_t)(sign | 0x7cu);
  if (magnitude < bits_of(0x1p-14f)) {  // in units of 2^-16
    return (uint8_t)(sign | (bits_of(float_of(magnitude) + 128.0f) - bits_of(128.0f)));
  }
  return (uint8_t)(sign | (round_off(magnitude, 21) - (112u << 2)));
}
