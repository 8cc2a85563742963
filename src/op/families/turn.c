// flip and roll: elements that change their places along some dims.
//   flip  out[.., i, ..] = x[.., n - 1 - i, ..]      along each of `dims`
//   roll  out[.., i, ..] = x[.., (i - shift) mod n, ..]
// Along dims that are turned, a part of the result is made from all of x: the parts would have to
// change places. Other dims are cut as they are.
#include "op/families/emit.h"
#include "op/families/kernel.h"

// Along dim d, element i of the result is element (sign * i + shift) mod n of x.
typedef struct turn {
  int64_t sign, shift;
  bool turned;
} turn_t;

enum { DIMS, FLIP_SHAPE, FLIP_PLACE };
enum { SHIFTS = 1, ROLL_SHAPE, ROLL_PLACE };

static bool is_flip(const shoal_call_t *call) {
  return call->op->attr_count == FLIP_PLACE + 1;
}

// How each dim is turned. `whole` has the sizes of the whole.
static shoal_status_t read_turns(const shoal_call_t *call, const shoal_shape_t *whole,
                                 turn_t out_turns[SHOAL_MAX_RANK]) {
  const shoal_attr_value_t *dims = &call->attrs[DIMS], *shifts = &call->attrs[SHIFTS];
  const bool flips = is_flip(call);
  for (int32_t d = 0; d < SHOAL_MAX_RANK; ++d) out_turns[d] = (turn_t){.sign = 1};
  REQUIRE(call, flips || shifts->count == dims->count, "%d shifts for %d dims", shifts->count,
          dims->count);
  for (int32_t i = 0; i < dims->count; ++i) {
    int32_t d;
    SHOAL_RETURN_IF_ERROR(shoal_check_axis(call, dims->ints[i], whole->rank, &d));
    REQUIRE(call, !out_turns[d].turned, "dim %d is named twice in dims", d);
    const int64_t size = whole->dims[d];
    if (flips) {
      out_turns[d] = (turn_t){.sign = -1, .shift = size - 1, .turned = true};
      continue;
    }
    // What a shift by more than the size is depends on the size: rules are found on small ones.
    REQUIRE_HINT(call, shifts->ints[i] == 0 || (shifts->ints[i] > -size && shifts->ints[i] < size),
                 "take the shift modulo the size",
                 "the shift %lld is not smaller than the %lld elements of dim %d",
                 (long long)shifts->ints[i], (long long)size, d);
    const int64_t shift = shifts->ints[i];
    out_turns[d] = (turn_t){.sign = 1, .shift = shift > 0 ? size - shift : -shift, .turned = true};
  }
  return NULL;
}

static void turn_complete(const shoal_call_t *call, shoal_attr_value_t *attrs) {
  shoal_attr_value_t *shape = &attrs[is_flip(call) ? FLIP_SHAPE : ROLL_SHAPE];
  const shoal_shape_t *x = &call->inputs[0].shape;
  if (shape->count > 0) return;
  shape->count = x->rank;
  for (int32_t d = 0; d < x->rank; ++d) shape->ints[d] = x->dims[d];
}

static shoal_status_t turn_check(const shoal_call_t *call, shoal_shape_t *out_shape,
                                 shoal_place_t *out_place, turn_t out_turns[SHOAL_MAX_RANK]) {
  const shoal_shape_t *x = &call->inputs[0].shape;
  const bool flips = is_flip(call);
  SHOAL_RETURN_IF_ERROR(shoal_check_sizes(call, flips ? FLIP_SHAPE : ROLL_SHAPE, out_shape));
  SHOAL_RETURN_IF_ERROR(
      shoal_check_place(call, flips ? FLIP_PLACE : ROLL_PLACE, out_shape, out_place));
  REQUIRE(call, !out_place->flat, "a flat part has no dims");
  REQUIRE(call, out_shape->rank == x->rank, "the result has as many dims as x");
  SHOAL_RETURN_IF_ERROR(read_turns(call, &out_place->whole, out_turns));
  for (int32_t d = 0; d < x->rank; ++d) {
    const int64_t size = out_turns[d].turned ? out_place->whole.dims[d] : out_shape->dims[d];
    REQUIRE(call, x->dims[d] == size, "x must have %lld elements along dim %d", (long long)size, d);
  }
  return NULL;
}

static shoal_status_t turn_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_place_t place;
  turn_t turns[SHOAL_MAX_RANK];
  out_types[0].dtype = call->inputs[0].dtype;
  return turn_check(call, &out_types[0].shape, &place, turns);
}

// Rows behind the last dim that is turned stay as they are.
OP_KERNEL(turn) {
  (void)workspace;
  shoal_shape_t shape;
  shoal_place_t place;
  turn_t turns[SHOAL_MAX_RANK];
  SHOAL_RETURN_IF_ERROR(turn_check(call, &shape, &place, turns));
  int32_t last = shape.rank;
  while (last > 0 && !turns[last - 1].turned) --last;
  const int64_t rows = shoal_shape_product(&shape, 0, last);
  const size_t row =
      (size_t)shoal_shape_product(&shape, last, shape.rank) * shoal_dtype_size(inputs->dtype);
  if (row == 0) return NULL;
  for (int64_t r = 0; r < rows; ++r) {
    int64_t rest = r, from = 0, stride = 1;
    for (int32_t d = last - 1; d >= 0; --d) {
      int64_t i = rest % shape.dims[d];
      rest /= shape.dims[d];
      if (turns[d].turned) {
        if (place.index[d]) i = place.index[d][i];
        i = (turns[d].sign * i + turns[d].shift) % place.whole.dims[d];
      }
      from += i * stride;
      stride *= inputs->shape.dims[d];
    }
    memcpy((char *)outputs->data + (size_t)r * row, (const char *)inputs->data + (size_t)from * row,
           row);
  }
  return NULL;
}

OP_GRADIENT(flip) {
  (void)in, (void)out;
  const shoal_attr_value_t *dims = &call->attrs[DIMS];
  in_grads[0] = shoal_emit_one(e, "shoal.flip", REFS(grads[0]),
                               ATTRS(shoal_attr_ints("dims", dims->count, dims->ints)));
}

OP_GRADIENT(roll) {
  (void)in, (void)out;
  const shoal_attr_value_t *dims = &call->attrs[DIMS], *shifts = &call->attrs[SHIFTS];
  int64_t back[SHOAL_MAX_RANK];
  for (int32_t i = 0; i < shifts->count; ++i) back[i] = -shifts->ints[i];
  in_grads[0] = shoal_emit_one(e, "shoal.roll", REFS(grads[0]),
                               ATTRS(shoal_attr_ints("dims", dims->count, dims->ints),
                                     shoal_attr_ints("shifts", shifts->count, back)));
}

#define TURNED_SHAPE                                                                               \
  {                                                                                                \
    .name = "shape", .kind = SHOAL_ATTR_INTS, .role = SHOAL_ROLE_SIZE, .operand = SHOAL_OUTPUT(0), \
    .optional = true, .doc = "shape of the result: that of x"                                      \
  }

const shoal_op_t shoal_op_flip = {
    .name = "shoal.flip",
    .doc = "x with its elements in reverse order along each of dims.",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    .any_dtype = true,
    .uncut =
        "dims that turn: the parts would change places; a rank that has all of x makes its part of "
        "the result",
    SHOAL_OP_ATTRS({.name = "dims", .kind = SHOAL_ATTR_INTS, .doc = "dims; -1 is the last"},
                   TURNED_SHAPE, SHOAL_ATTR_PLACE_OF("place", SHOAL_OUTPUT(0))),
    .complete = turn_complete,
    .infer = turn_infer,
    .gradient = flip_gradient,
    .cost = shoal_cost_move,
    .kernel = turn_kernel,
    SHOAL_OP_CASES("f64[3,5] ; dims=[1]", "f32[3,5,2] ; dims=[0,-1]", "bf16[3,1,5] ; dims=[1,0]",
                   "i64[7]<50 ; dims=[0]", "u8[0,3]<9 ; dims=[0]"),
};

const shoal_op_t shoal_op_roll = {
    .name = "shoal.roll",
    .doc =
        "x with its elements moved by a shift along each of dims; those that leave one end come "
        "back at the other: out[i] = x[(i - shift) mod n]. A shift lies in (-n, n), or is 0.",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    .any_dtype = true,
    .uncut =
        "dims that turn: the parts would change places; a rank that has all of x makes its part of "
        "the result",
    SHOAL_OP_ATTRS({.name = "dims", .kind = SHOAL_ATTR_INTS, .doc = "dims; -1 is the last"},
                   {.name = "shifts",
                    .kind = SHOAL_ATTR_INTS,
                    .doc = "by how many elements, for each of dims"},
                   TURNED_SHAPE, SHOAL_ATTR_PLACE_OF("place", SHOAL_OUTPUT(0))),
    .complete = turn_complete,
    .infer = turn_infer,
    .gradient = roll_gradient,
    .cost = shoal_cost_move,
    .kernel = turn_kernel,
    SHOAL_OP_CASES("f64[3,5] ; dims=[1], shifts=[2]", "f32[3,5,7] ; dims=[0,-1], shifts=[1,-3]",
                   "bf16[1,5] ; dims=[0,1], shifts=[0,4]", "i32[7]<50 ; dims=[0], shifts=[-6]",
                   "f32[0,3] ; dims=[1], shifts=[1]"),
};
