// What family files share: writing records, refusing operands with a message that shows the call.
#ifndef SHOAL_OP_FAMILY_H_
#define SHOAL_OP_FAMILY_H_

#include "base/status.h"
#include "shoal/op.h"

// ---- records ------------------------------------------------------------------------------------

#define SHOAL_OP_LENGTH(type, ...) ((int32_t)(sizeof((type[]){__VA_ARGS__}) / sizeof(type)))
#define SHOAL_OP_INPUTS(...)                                      \
  .input_count = SHOAL_OP_LENGTH(const char *const, __VA_ARGS__), \
  .inputs = (const char *const[]) {                               \
    __VA_ARGS__                                                   \
  }
#define SHOAL_OP_OUTPUTS(...)                                      \
  .output_count = SHOAL_OP_LENGTH(const char *const, __VA_ARGS__), \
  .outputs = (const char *const[]) {                               \
    __VA_ARGS__                                                    \
  }
#define SHOAL_OP_ATTRS(...)                                              \
  .attr_count = SHOAL_OP_LENGTH(const shoal_attr_schema_t, __VA_ARGS__), \
  .attrs = (const shoal_attr_schema_t[]) {                               \
    __VA_ARGS__                                                          \
  }
#define SHOAL_OP_OVERWRITES(...)                                            \
  .overwrite_count = SHOAL_OP_LENGTH(const shoal_overwrite_t, __VA_ARGS__), \
  .overwrites = (const shoal_overwrite_t[]) {                               \
    __VA_ARGS__                                                             \
  }
#define SHOAL_OP_CASES(...)        \
  .cases = (const char *const[]) { \
    __VA_ARGS__, NULL              \
  }

// The record of an op of two inputs, name_kernel, with its cases behind the functions.
#define SHOAL_OP_BINARY(op_name, text, nan_text, infer_fn, gradient_fn, ...) \
  const shoal_op_t shoal_op_##op_name = {                                    \
      .name = "shoal." #op_name,                                             \
      .doc = text,                                                           \
      .nan = nan_text,                                                       \
      SHOAL_OP_INPUTS("a", "b"),                                             \
      SHOAL_OP_OUTPUTS("out"),                                               \
      SHOAL_OP_OVERWRITES({0, 0}, {0, 1}),                                   \
      .infer = infer_fn,                                                     \
      .gradient = gradient_fn,                                               \
      .kernel = op_name##_kernel,                                            \
      SHOAL_OP_CASES(__VA_ARGS__),                                           \
  }

// Attributes that many ops have.
#define SHOAL_ATTR_SIZES(attr_name, of, text)                                           \
  {                                                                                     \
    .name = attr_name, .kind = SHOAL_ATTR_INTS, .role = SHOAL_ROLE_SIZE, .operand = of, \
    .doc = text                                                                         \
  }
#define SHOAL_ATTR_PLACE_OF(attr_name, of)                                                \
  {                                                                                       \
    .name = attr_name, .kind = SHOAL_ATTR_PLACE, .role = SHOAL_ROLE_PLACE, .operand = of, \
    .optional = true, .doc = "set by Shoal where the op is cut, never by you"             \
  }
#define SHOAL_ATTR_AXIS \
  { .name = "axis", .kind = SHOAL_ATTR_INT, .doc = "the dim, from 0 on; -1 is the last" }
#define SHOAL_ATTR_COUNT_OF(text)                                                        \
  {                                                                                      \
    .name = "count", .kind = SHOAL_ATTR_INT, .role = SHOAL_ROLE_COUNT, .optional = true, \
    .doc = text                                                                          \
  }

// For records with optional inputs.
#define SHOAL_ATTR_WITH                                                            \
  {                                                                                \
    .name = "with", .kind = SHOAL_ATTR_STRING, .optional = true, .fallback.s = "", \
    .doc = "names of the optional inputs that are given; builders fill it in"      \
  }
// The number among a call's inputs of the one with the record's name number `name`; -1: left out.
#define GIVEN(call, name) shoal_op_given((call)->op, (call)->attrs, (name))

// ---- refusing -----------------------------------------------------------------------------------

// Puts the call before the message: "shoal.matmul(a f32[3, 4], b f32[5, 6]): ...". Takes status,
// returns it.
SHOAL_MUST_USE shoal_status_t shoal_op_blame(const shoal_call_t *call, shoal_status_t status);
#define REFUSE(call, ...) shoal_op_blame((call), SHOAL_ERROR(INVALID_ARGUMENT, __VA_ARGS__))
#define REQUIRE(call, condition, ...)                     \
  do {                                                    \
    if (!(condition)) return REFUSE((call), __VA_ARGS__); \
  } while (0)
// With a hint: what the user may do about it. The hint is made only where it is read.
#define REFUSE_HINT(call, hint, ...)                        \
  shoal_op_blame((call), SHOAL_ERROR_HINT(INVALID_ARGUMENT, \
                                          shoal_status_is_silent() ? NULL : (hint), __VA_ARGS__))
#define REQUIRE_HINT(call, condition, hint, ...)                       \
  do {                                                                 \
    if (!(condition)) return REFUSE_HINT((call), (hint), __VA_ARGS__); \
  } while (0)

// All inputs from `first` on have the dtype of input `first`, which is a float.
SHOAL_MUST_USE shoal_status_t shoal_check_floats(const shoal_call_t *call, int32_t first,
                                                 int32_t count);
// Both inputs have one dtype, whatever it is.
SHOAL_MUST_USE shoal_status_t shoal_check_same_dtype(const shoal_call_t *call, int32_t first,
                                                     int32_t second);
SHOAL_MUST_USE shoal_status_t shoal_check_dtype(const shoal_call_t *call, int32_t input,
                                                shoal_dtype_t dtype);
// Inputs from `first` on are broadcast together.
SHOAL_MUST_USE shoal_status_t shoal_check_broadcast(const shoal_call_t *call, int32_t first,
                                                    int32_t count, shoal_shape_t *out_shape);
SHOAL_MUST_USE shoal_status_t shoal_check_rank(const shoal_call_t *call, int32_t input,
                                               int32_t rank);
SHOAL_MUST_USE shoal_status_t shoal_check_shape(const shoal_call_t *call, int32_t input,
                                                const shoal_shape_t *shape);
SHOAL_MUST_USE shoal_status_t shoal_check_scalar(const shoal_call_t *call, int32_t input);
SHOAL_MUST_USE shoal_status_t shoal_check_integer(const shoal_call_t *call, int32_t input);
// Of an optimizer's update: the first `count` inputs (parameter, gradient, moments) are floats of
// one dtype and shape, and the next is a scalar of any float type (the learning rate).
SHOAL_MUST_USE shoal_status_t shoal_check_update(const shoal_call_t *call, int32_t count);
// Attribute INTS as a shape: no negative sizes.
SHOAL_MUST_USE shoal_status_t shoal_check_sizes(const shoal_call_t *call, int32_t attr,
                                                shoal_shape_t *out_shape);
// The number of the attribute's string among `names`.
SHOAL_MUST_USE shoal_status_t shoal_check_choice(const shoal_call_t *call, int32_t attr,
                                                 const char *const *names, int32_t count,
                                                 int32_t *out_choice);
// INTS with one entry for each of `rank` dims.
SHOAL_MUST_USE shoal_status_t shoal_check_entries(const shoal_call_t *call, int32_t attr,
                                                  int32_t rank);
// -1 is the last dim.
SHOAL_MUST_USE shoal_status_t shoal_check_axis(const shoal_call_t *call, int64_t axis, int32_t rank,
                                               int32_t *out_axis);
// Where in the part, along its dim, the index lies that element i of the integer input holds: -1 if
// elsewhere in the whole. An index outside the whole is refused.
SHOAL_MUST_USE shoal_status_t shoal_check_index(const shoal_call_t *call, int32_t input,
                                                const shoal_tensor_t *indices, int64_t i,
                                                const shoal_place_t *place, int32_t dim,
                                                int64_t *out_local);
// The place of an operand of that shape, the whole if none was given.
SHOAL_MUST_USE shoal_status_t shoal_check_place(const shoal_call_t *call, int32_t attr,
                                                const shoal_shape_t *shape,
                                                shoal_place_t *out_place);

// ---- small things -------------------------------------------------------------------------------

static inline bool shoal_is_integer(shoal_dtype_t dtype) {
  return dtype == SHOAL_I64 || dtype == SHOAL_I32 || dtype == SHOAL_U8;
}
static inline bool shoal_is_half(shoal_dtype_t dtype) {
  return dtype == SHOAL_BF16 || dtype == SHOAL_F16;
}
// Statistics of half-size floats (means, log-sum-exps, losses) are kept in f32.
static inline shoal_dtype_t shoal_statistics_dtype(shoal_dtype_t dtype) {
  return shoal_is_half(dtype) ? SHOAL_F32 : dtype;
}
static inline int32_t shoal_normal_axis(int64_t axis, int32_t rank) {
  return (int32_t)(axis < 0 ? axis + rank : axis);
}
static inline shoal_shape_t shoal_ints_shape(const shoal_attr_value_t *ints) {
  shoal_shape_t shape = {.rank = ints->count};
  for (int32_t d = 0; d < ints->count; ++d) shape.dims[d] = ints->ints[d];
  return shape;
}
// Dims `from` to `to` (excluded), and their product.
static inline shoal_shape_t shoal_shape_part(const shoal_shape_t *shape, int32_t from, int32_t to) {
  shoal_shape_t part = {.rank = to - from};
  for (int32_t d = from; d < to; ++d) part.dims[d - from] = shape->dims[d];
  return part;
}
static inline int64_t shoal_shape_product(const shoal_shape_t *shape, int32_t from, int32_t to) {
  shoal_shape_t part = shoal_shape_part(shape, from, to);
  return shoal_shape_count(&part);
}
// Rows of a tensor of at least one dim, and their length.
static inline int64_t shoal_row_count(const shoal_shape_t *shape) {
  return shoal_shape_product(shape, 0, shape->rank - 1);
}
static inline int64_t shoal_row_length(const shoal_shape_t *shape) {
  return shape->dims[shape->rank - 1];
}
// numpy's rule; false when the shapes do not fit.
bool shoal_shape_broadcast(const shoal_shape_t *a, const shoal_shape_t *b,
                           shoal_shape_t *out_shape);

// A gradient for outputs that are constants of the step (comparisons, iota, random numbers):
// nothing flows.
void shoal_gradient_none(const shoal_call_t *call, shoal_emitter_t *emitter,
                         const shoal_ref_t *inputs, const shoal_ref_t *outputs,
                         const shoal_ref_t *output_grads, shoal_ref_t *out_input_grads);

// The cost of element-wise functions of libm, which count as ten flops.
void shoal_cost_libm(const shoal_call_t *call, shoal_cost_t *out_cost);
// The cost of ops that only move elements: bytes, no flops.
void shoal_cost_move(const shoal_call_t *call, shoal_cost_t *out_cost);

#endif  // SHOAL_OP_FAMILY_H_
