// Comparisons a < b, a <= b, a > b, a != b as bool, broadcast like numpy (a >= b and a == b are in
// elementwise.c). Every comparison with NaN is false, but for a != b, which is true.
#include "op/families/pointwise.h"

#define COMPARE_LOOPS(name, RESULT) \
  REALS_2(name, RESULT)             \
  INTS_2(name, RESULT)              \
  BLOCK_KERNEL(name, name##_reals, name##_ints)

COMPARE_LOOPS(less, x < y)
COMPARE_LOOPS(less_equal, x <= y)
COMPARE_LOOPS(greater, x > y)
COMPARE_LOOPS(not_equal, x != y)

static shoal_status_t compare_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(shoal_infer_broadcast(call, out_types));
  out_types[0].dtype = SHOAL_BOOL;
  return NULL;
}

#define COMPARE(name, text, nan_text)                                                             \
  SHOAL_OP_BINARY(name, text, nan_text, compare_infer, shoal_gradient_none, "f64[3,5], f64[3,5]", \
                  "f32[3,1], f32[5]", "bf16[2,3,7], bf16[]", "i32[3,5]<3, i32[1,5]<3",            \
                  "u8[7]<4, u8[7]<4", "bool[3,5], bool[5]", "i64[0], i64[1]")

COMPARE(less, "a < b as bool, broadcast like numpy.", "false where a or b is NaN");
COMPARE(less_equal, "a <= b as bool, broadcast like numpy.", "false where a or b is NaN");
COMPARE(greater, "a > b as bool, broadcast like numpy.", "false where a or b is NaN");
COMPARE(not_equal, "a != b as bool, broadcast like numpy.", "true where a or b is NaN");
