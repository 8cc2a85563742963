// argmax and argmin: where along an axis the largest or smallest element lies, as i64; the first of
// equals. NaN counts as the extreme, also as the first of them. x is seen as [outer, n, inner].
#include "op/families/reduced.h"

enum { AXIS, KEEP };

static shoal_status_t arg_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_shape_t *x = &call->inputs[0].shape;
  int32_t axis;
  SHOAL_RETURN_IF_ERROR(shoal_check_axis(call, call->attrs[AXIS].i, x->rank, &axis));
  REQUIRE(call, x->dims[axis] > 0, "dim %d has no elements to choose from", axis);
  bool reduced[SHOAL_MAX_RANK] = {false};
  reduced[axis] = true;
  const bool keep = call->attrs[KEEP].i != 0;
  out_types[0] = (shoal_type_t){SHOAL_I64, shoal_reduced_shape(x, reduced, keep)};
  return NULL;
}

// Of n elements from `at` on, `inner` apart.
static int64_t first_of_reals(const shoal_tensor_t *x, int64_t at, int64_t n, int64_t inner,
                              bool largest) {
  int64_t found = 0;
  double best = shoal_dtype_load(x->dtype, x->data, at);
  for (int64_t i = 1; i < n && best == best; ++i) {
    const double value = shoal_dtype_load(x->dtype, x->data, at + i * inner);
    if (!(largest ? value > best : value < best) && value == value) continue;
    best = value;
    found = i;
  }
  return found;
}

static int64_t first_of_ints(const shoal_tensor_t *x, int64_t at, int64_t n, int64_t inner,
                             bool largest) {
  int64_t found = 0, best = shoal_dtype_load_int(x->dtype, x->data, at);
  for (int64_t i = 1; i < n; ++i) {
    const int64_t value = shoal_dtype_load_int(x->dtype, x->data, at + i * inner);
    if (!(largest ? value > best : value < best)) continue;
    best = value;
    found = i;
  }
  return found;
}

static shoal_status_t run(const shoal_call_t *call, const shoal_tensor_t *x,
                          const shoal_tensor_t *out, bool largest) {
  const int32_t axis = shoal_normal_axis(call->attrs[AXIS].i, x->shape.rank);
  const int64_t n = x->shape.dims[axis];
  const int64_t inner = shoal_shape_product(&x->shape, axis + 1, x->shape.rank);
  int64_t *index = out->data;
  for (int64_t o = 0; o < shoal_shape_count(&out->shape); ++o) {
    const int64_t at = o / inner * n * inner + o % inner;
    index[o] = shoal_dtype_is_float(x->dtype) ? first_of_reals(x, at, n, inner, largest)
                                              : first_of_ints(x, at, n, inner, largest);
  }
  return NULL;
}

OP_KERNEL(argmax) {
  (void)workspace;
  return run(call, inputs, outputs, true);
}

OP_KERNEL(argmin) {
  (void)workspace;
  return run(call, inputs, outputs, false);
}

// The least index among those whose element is the extreme (or NaN, which then is the extreme).
static void decompose(const shoal_call_t *call, shoal_emitter_t *e, shoal_ref_t x,
                      const char *extreme, shoal_ref_t *out_outputs) {
  const shoal_shape_t *shape = &call->inputs[0].shape;
  const int32_t axis = shoal_normal_axis(call->attrs[AXIS].i, shape->rank);
  const shoal_ref_t best = shoal_emit_reduce(e, extreme, x, axis, true);
  shoal_ref_t hit = shoal_emit_binary(e, "shoal.equal", x, best);
  if (shoal_dtype_is_float(call->inputs[0].dtype)) {
    hit = shoal_emit_binary(e, "shoal.logical_or", hit, shoal_emit_unary(e, "shoal.is_nan", x));
  }
  const shoal_ref_t index =
      shoal_emit_one(e, "shoal.iota", NO_REFS,
                     ATTRS(shoal_attr_shape("shape", shape), shoal_attr_int("axis", axis),
                           shoal_attr_dtype("dtype", SHOAL_I64)));
  const shoal_ref_t none = shoal_emit_scalar(e, SHOAL_I64, (double)shape->dims[axis]);
  out_outputs[0] = shoal_emit_reduce(e, "shoal.reduce_min", shoal_emit_where(e, hit, index, none),
                                     axis, call->attrs[KEEP].i != 0);
}

static void argmax_decompose(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                             shoal_ref_t *out) {
  decompose(call, e, in[0], "shoal.reduce_max", out);
}

static void argmin_decompose(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                             shoal_ref_t *out) {
  decompose(call, e, in[0], "shoal.reduce_min", out);
}

#define ARG(op_name, text)                                                                     \
  const shoal_op_t shoal_op_##op_name = {                                                      \
      .name = "shoal." #op_name,                                                               \
      .doc = text,                                                                             \
      .nan = "NaN counts as the extreme, the first of them",                                   \
      .uncut =                                                                                 \
          "the axis: where the extreme lies is known only when all are compared (its "         \
          "decomposition cuts it)",                                                            \
      SHOAL_OP_INPUTS("x"),                                                                    \
      SHOAL_OP_OUTPUTS("index"),                                                               \
      SHOAL_OP_ATTRS(SHOAL_ATTR_AXIS, {.name = "keep",                                         \
                                       .kind = SHOAL_ATTR_INT,                                 \
                                       .optional = true,                                       \
                                       .doc = "1: the axis stays, with size 1"}),              \
      .infer = arg_infer,                                                                      \
      .gradient = shoal_gradient_none,                                                         \
      .decompose = op_name##_decompose,                                                        \
      .cost = shoal_reduced_cost,                                                              \
      .kernel = op_name##_kernel,                                                              \
      SHOAL_OP_CASES("f64[3,5] ; axis=1", "f32[3,5,2] ; axis=1, keep=1", "bf16[7,1] ; axis=0", \
                     "i32[3,7]<3 ; axis=-1", "bool[5,3] ; axis=0", "f64[0,3] ; axis=1"),       \
  }

ARG(argmax,
    "Index of the largest element along the axis, as i64; the first of equals. An axis without "
    "elements is an error.");
ARG(argmin,
    "Index of the smallest element along the axis, as i64; the first of equals. An axis without "
    "elements is an error.");
