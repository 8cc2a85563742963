// The template mechanism of kernels: includes the file KERNELS once per element type of EACH, with
//   S        the type an element is stored as
//   R        the type it is computed in (half-size floats: float)
//   W        R, or its unsigned twin for integers: sums and products wrap instead of being
//            undefined
//   LOAD(v)  S -> R      STORE(v)  R -> S, rounding to nearest even
//   IS_NAN(v)  false for integers      FLOATING  1, or 0 for integers
//   K(name)  the name for this type: add_f32
// EACH is a sum of EACH_REAL (f64, f32), EACH_HALF (bf16, f16) and EACH_INT (i64, i32, u8, bool). A
// family file includes itself: what stands under `#ifdef KERNELS_HERE` is the part to be repeated.
#include "op/families/kernel.h"

#define KERNELS_HERE
#define IS_NAN(v) ((v) != (v))
#define FLOATING 1

#if EACH & EACH_REAL
#define S double
#define R double
#define W double
#define LOAD(v) (v)
#define STORE(v) (v)
#define K(name) name##_f64
#include KERNELS
#undef S
#undef R
#undef W
#undef K
#define S float
#define R float
#define W float
#define K(name) name##_f32
#include KERNELS
#undef S
#undef R
#undef W
#undef K
#undef LOAD
#undef STORE
#endif

#if EACH & EACH_HALF
#define S uint16_t
#define R float
#define W float
#define LOAD(v) shoal_bf16_to_f32(v)
#define STORE(v) shoal_f32_to_bf16(v)
#define K(name) name##_bf16
#include KERNELS
#undef LOAD
#undef STORE
#undef K
#define LOAD(v) shoal_f16_to_f32(v)
#define STORE(v) shoal_f32_to_f16(v)
#define K(name) name##_f16
#include KERNELS
#undef LOAD
#undef STORE
#undef S
#undef R
#undef W
#undef K
#endif

#if EACH & EACH_INT
#undef IS_NAN
#undef FLOATING
#define IS_NAN(v) false
#define FLOATING 0
#define LOAD(v) (v)
#define STORE(v) ((S)(v))
#define S int64_t
#define R int64_t
#define W uint64_t
#define K(name) name##_i64
#include KERNELS
#undef S
#undef R
#undef W
#undef K
#define S int32_t
#define R int32_t
#define W uint32_t
#define K(name) name##_i32
#include KERNELS
#undef S
#undef R
#undef W
#undef K
#define S uint8_t
#define R uint8_t
#define W uint32_t
#define K(name) name##_u8
#include KERNELS
#undef R
#undef K
#undef STORE
#define R int32_t
#define STORE(v) ((S)((v) != 0))
#define K(name) name##_bool
#include KERNELS
#undef S
#undef R
#undef W
#undef K
#undef LOAD
#undef STORE
#endif

#undef IS_NAN
#undef FLOATING
#undef EACH
#undef KERNELS
#undef KERNELS_HERE
