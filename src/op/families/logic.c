// Logic of bools, bits of integers (and of bools: the same as logic) and shifts of integers, of one
// or two operands that broadcast like numpy. A shift by less than 0 or by as many bits as there are
// gives what shifting one bit at a time would come to: 0, or -1 where a negative number is shifted
// to the right.
#include "op/families/pointwise.h"

#define LOGIC(name, LOOP, RESULT) \
  LOOP(name, RESULT)              \
  BLOCK_KERNEL(name, NULL, name##_ints)

LOGIC(logical_and, INTS_2, x &&y)
LOGIC(logical_or, INTS_2, x || y)
LOGIC(logical_xor, INTS_2, !x != !y)
LOGIC(logical_not, INTS_1, !x)
LOGIC(bitwise_and, INTS_2, x &y)
LOGIC(bitwise_or, INTS_2, x | y)
LOGIC(bitwise_xor, INTS_2, x ^ y)
INTS_1(bitwise_not, ~x)

// ~0 and ~1 are both "not 0": a bool is turned by itself.
OP_KERNEL(bitwise_not) {
  if (inputs->dtype == SHOAL_BOOL) return logical_not_kernel(call, inputs, outputs, workspace);
  return shoal_map_blocks(call, inputs, outputs, NULL, bitwise_not_ints);
}

// Operands are 64 bits wide here: a shift of a narrower one that leaves its bits is cut off when it
// is stored, and sign or zeros came with the load.
static int64_t shifted_left(int64_t x, int64_t by) {
  return by < 0 || by > 63 ? 0 : (int64_t)((uint64_t)x << by);
}

static int64_t shifted_right(int64_t x, int64_t by) {
  const uint64_t sign = x < 0 ? UINT64_MAX : 0;
  if (by < 0 || by > 63) return (int64_t)sign;
  return (int64_t)((((uint64_t)x ^ sign) >> by) ^ sign);
}

LOGIC(shift_left, INTS_2, shifted_left(x, y))
LOGIC(shift_right, INTS_2, shifted_right(x, y))

// ---- types -----------------------------------------------------------------------------

static shoal_status_t logical_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  REQUIRE_HINT(call, call->inputs[0].dtype == SHOAL_BOOL, "compare numbers with something first",
               "%s must be bool, not %s", call->op->inputs[0],
               shoal_dtype_name(call->inputs[0].dtype));
  return shoal_infer_broadcast(call, out_types);
}

static shoal_status_t bitwise_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  REQUIRE_HINT(call, !shoal_dtype_is_float(call->inputs[0].dtype), "cast it first (shoal_cast)",
               "%s must be an integer or bool, not %s", call->op->inputs[0],
               shoal_dtype_name(call->inputs[0].dtype));
  return shoal_infer_broadcast(call, out_types);
}

static shoal_status_t shift_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, 0));
  return shoal_infer_broadcast(call, out_types);
}

// ---- records ---------------------------------------------------------------------------

#define RECORD(op_name, text, infer_fn, ...) \
  const shoal_op_t shoal_op_##op_name = {    \
      .name = "shoal." #op_name,             \
      .doc = text,                           \
      SHOAL_OP_OUTPUTS("out"),               \
      .infer = infer_fn,                     \
      .gradient = shoal_gradient_none,       \
      .kernel = op_name##_kernel,            \
      __VA_ARGS__,                           \
  }
#define ONE SHOAL_OP_INPUTS("x"), SHOAL_OP_OVERWRITES({0, 0})
#define TWO SHOAL_OP_INPUTS("a", "b"), SHOAL_OP_OVERWRITES({0, 0}, {0, 1})
#define BOOL_PAIRS                                                                          \
  TWO, SHOAL_OP_CASES("bool[3,5], bool[3,5]", "bool[2,3,5], bool[5]", "bool[3,1], bool[7]", \
                      "bool[], bool[4]", "bool[0,3], bool[3]")
#define BIT_PAIRS                                                             \
  TWO, SHOAL_OP_CASES("i64[3,5]<100, i64[3,5]<100", "i32[2,3,5]<9, i32[5]<9", \
                      "u8[3,1]<200, "                                         \
                      "u8[7]<200",                                            \
                      "bool[3,5], bool[1,5]", "i32[0,3], i32[3]")
#define SHIFTS                                                               \
  TWO, SHOAL_OP_CASES("i64[3,5]<100, i64[3,5]<9", "i32[2,3,5]<9, i32[5]<40", \
                      "u8[3,1]<200, "                                        \
                      "u8[7]<9",                                             \
                      "i64[0,3], i64[3]")

RECORD(logical_and, "Whether a and b are true; bools, broadcast like numpy.", logical_infer,
       BOOL_PAIRS);
RECORD(logical_or, "Whether a or b or both are true; bools, broadcast like numpy.", logical_infer,
       BOOL_PAIRS);
RECORD(logical_xor, "Whether just one of a and b is true; bools, broadcast like numpy.",
       logical_infer, BOOL_PAIRS);
RECORD(logical_not, "Whether x, a bool, is false.", logical_infer, ONE,
       SHOAL_OP_CASES("bool[3,5]", "bool[7,1]", "bool[]", "bool[0,3]"));
RECORD(bitwise_and, "The bits that a and b both have; integers or bools, broadcast like numpy.",
       bitwise_infer, BIT_PAIRS);
RECORD(bitwise_or, "The bits that a or b or both have; integers or bools, broadcast like numpy.",
       bitwise_infer, BIT_PAIRS);
RECORD(bitwise_xor,
       "The bits that just one of a and b has; integers or bools, broadcast like numpy.",
       bitwise_infer, BIT_PAIRS);
RECORD(bitwise_not, "The bits that x, an integer or a bool, does not have.", bitwise_infer, ONE,
       SHOAL_OP_CASES("i64[3,5]<100", "i32[7,1]<9", "u8[9]<200", "bool[3,5]", "i32[0,3]"));
RECORD(shift_left,
       "a times 2 to the power of b: integers, broadcast like numpy. Bits that leave a are lost; a "
       "b below 0 or of all bits or more gives 0.",
       shift_infer, SHIFTS);
RECORD(shift_right,
       "a divided by 2 to the power of b, rounded down: integers, broadcast like numpy. A b below "
       "0 or of all bits or more gives 0, or -1 where a is negative.",
       shift_infer, SHIFTS);
