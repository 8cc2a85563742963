// Running sums and products along an axis. x is seen as [outer, n, inner]; each of the outer *
// inner lines is run through by itself. Floats are summed up in doubles and rounded as they are
// stored, integers wrap.
#include "op/families/pointwise.h"

enum { AXIS, REVERSE, EXCLUSIVE };

// A line: n elements from `at` on, `step` apart.
typedef struct line {
  int64_t at, step, n;
} line_t;

static int64_t line_count(const shoal_call_t *call) {
  const shoal_shape_t *x = &call->inputs[0].shape;
  const int64_t n = x->dims[shoal_normal_axis(call->attrs[AXIS].i, x->rank)];
  return n ? shoal_shape_count(x) / n : 0;
}

static line_t line_of(const shoal_call_t *call, int64_t index, bool backwards) {
  const shoal_shape_t *x = &call->inputs[0].shape;
  const int32_t axis = shoal_normal_axis(call->attrs[AXIS].i, x->rank);
  const int64_t n = x->dims[axis], inner = shoal_shape_product(x, axis + 1, x->rank);
  const int64_t first = index / inner * n * inner + index % inner;
  return backwards ? (line_t){first + (n - 1) * inner, -inner, n} : (line_t){first, inner, n};
}

static shoal_status_t scan_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  int32_t axis;
  SHOAL_RETURN_IF_ERROR(shoal_infer_broadcast_numbers(call, out_types));
  return shoal_check_axis(call, call->attrs[AXIS].i, call->inputs[0].shape.rank, &axis);
}

static shoal_status_t cumprod_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(shoal_infer_same_floats(call, out_types));
  return scan_infer(call, out_types);
}

// ---- sums ------------------------------------------------------------------------------

static void sum_reals(const shoal_tensor_t *x, const shoal_tensor_t *out, line_t line,
                      bool exclusive) {
  double sum = 0;
  for (int64_t i = 0; i < line.n; ++i) {
    const int64_t at = line.at + i * line.step;
    const double before = sum;
    sum += shoal_dtype_load(x->dtype, x->data, at);
    shoal_dtype_store(out->dtype, out->data, at, exclusive ? before : sum);
  }
}

static void sum_ints(const shoal_tensor_t *x, const shoal_tensor_t *out, line_t line,
                     bool exclusive) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < line.n; ++i) {
    const int64_t at = line.at + i * line.step;
    const uint64_t before = sum;
    sum += (uint64_t)shoal_dtype_load_int(x->dtype, x->data, at);
    shoal_dtype_store_int(out->dtype, out->data, at, (int64_t)(exclusive ? before : sum));
  }
}

OP_KERNEL(cumsum) {
  (void)workspace;
  const bool exclusive = call->attrs[EXCLUSIVE].i != 0;
  for (int64_t k = 0; k < line_count(call); ++k) {
    const line_t line = line_of(call, k, call->attrs[REVERSE].i != 0);
    if (shoal_dtype_is_float(inputs->dtype)) {
      sum_reals(inputs, outputs, line, exclusive);
    } else {
      sum_ints(inputs, outputs, line, exclusive);
    }
  }
  return NULL;
}

// What an element goes into lies on its other side.
OP_GRADIENT(cumsum) {
  (void)in, (void)out;
  in_grads[0] = shoal_emit_one(e, "shoal.cumsum", REFS(grads[0]),
                               ATTRS(shoal_attr_int("axis", call->attrs[AXIS].i),
                                     shoal_attr_int("reverse", call->attrs[REVERSE].i == 0),
                                     shoal_attr_int("exclusive", call->attrs[EXCLUSIVE].i)));
}

// ---- sums in phases --------------------------------------------------------------------

// The axis in blocks, so that it may be cut between them: each block is run through by itself, and
// the sums of all blocks before it, of which there are few, come on top.
enum { MOST_BLOCKS = 64 };

// How long blocks of a line of n are: so long that there are not too many, and so that they fit in
// where that takes at most twice as long ones.
static int64_t block_length(int64_t n) {
  const int64_t few = n < 32 ? 2 : 4, many = (n + MOST_BLOCKS - 1) / MOST_BLOCKS;
  const int64_t least = many > few ? many : few;
  for (int64_t length = least; length <= 2 * least; ++length)
    if (n % length == 0) return length;
  return least;
}

static shoal_ref_t emit_cumsum(shoal_emitter_t *e, const shoal_call_t *call, shoal_ref_t x,
                               int32_t axis, bool exclusive) {
  return shoal_emit_one(
      e, "shoal.cumsum", REFS(x),
      ATTRS(shoal_attr_int("axis", axis), shoal_attr_int("reverse", call->attrs[REVERSE].i),
            shoal_attr_int("exclusive", exclusive)));
}

// One element of each block, [.., 1, ..] along the axis.
static shoal_ref_t emit_end(shoal_emitter_t *e, shoal_ref_t x, int32_t axis, int64_t at) {
  shoal_shape_t size = shoal_emit_type(e, x).shape, start = {.rank = size.rank};
  start.dims[axis] = at;
  size.dims[axis] = 1;
  return shoal_emit_one(e, "shoal.slice", REFS(x),
                        ATTRS(shoal_attr_shape("start", &start), shoal_attr_shape("size", &size)));
}

// Of x in blocks, [.., blocks, length, ..].
static shoal_ref_t emit_blocks(shoal_emitter_t *e, const shoal_call_t *call, shoal_ref_t x,
                               int32_t axis) {
  const bool exclusive = call->attrs[EXCLUSIVE].i != 0;
  const int64_t length = shoal_emit_type(e, x).shape.dims[axis + 1];
  const int64_t last = call->attrs[REVERSE].i != 0 ? 0 : length - 1;
  const shoal_ref_t sums = emit_cumsum(e, call, x, axis + 1, exclusive);
  shoal_ref_t total = emit_end(e, sums, axis + 1, last);
  if (exclusive) total = shoal_emit_binary(e, "shoal.add", total, emit_end(e, x, axis + 1, last));
  return shoal_emit_binary(e, "shoal.add", sums, emit_cumsum(e, call, total, axis, true));
}

static void cumsum_decompose(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                             shoal_ref_t *outputs) {
  const shoal_type_t *type = &call->inputs[0];
  const int32_t axis = shoal_normal_axis(call->attrs[AXIS].i, type->shape.rank);
  const int64_t n = type->shape.dims[axis], length = block_length(n);
  const int64_t blocks = (n + length - 1) / length;
  const bool wide = shoal_dtype_is_float(type->dtype);
  const shoal_dtype_t dtype = wide ? shoal_statistics_dtype(type->dtype) : type->dtype;
  if (blocks < 2 || type->shape.rank == SHOAL_MAX_RANK) {
    outputs[0] = emit_cumsum(e, call, in[0], axis, call->attrs[EXCLUSIVE].i != 0);
    return;
  }
  const shoal_shape_t none = {.rank = type->shape.rank};
  shoal_ref_t x = shoal_emit_cast(e, in[0], dtype);
  shoal_shape_t filled = type->shape, parted = {.rank = type->shape.rank + 1};
  filled.dims[axis] = blocks * length;
  for (int32_t d = 0; d < parted.rank; ++d)
    parted.dims[d] = d == axis ? blocks : d == axis + 1 ? length : type->shape.dims[d - (d > axis)];
  if (blocks * length > n)
    x = shoal_emit_one(e, "shoal.pad", REFS(x),
                       ATTRS(shoal_attr_shape("start", &none), shoal_attr_shape("shape", &filled)));
  x = emit_blocks(e, call, shoal_emit_reshape(e, x, &parted), axis);
  x = shoal_emit_reshape(e, x, &filled);
  if (blocks * length > n)
    x = shoal_emit_one(
        e, "shoal.slice", REFS(x),
        ATTRS(shoal_attr_shape("start", &none), shoal_attr_shape("size", &type->shape)));
  outputs[0] = shoal_emit_cast(e, x, type->dtype);
}

// ---- products --------------------------------------------------------------------------

OP_KERNEL(cumprod) {
  (void)workspace;
  for (int64_t k = 0; k < line_count(call); ++k) {
    const line_t line = line_of(call, k, false);
    double product = 1;
    uint64_t whole = 1;
    for (int64_t i = 0; i < line.n; ++i) {
      const int64_t at = line.at + i * line.step;
      if (shoal_dtype_is_float(inputs->dtype)) {
        product *= shoal_dtype_load(inputs->dtype, inputs->data, at);
        shoal_dtype_store(outputs->dtype, outputs->data, at, product);
      } else {
        whole *= (uint64_t)shoal_dtype_load_int(inputs->dtype, inputs->data, at);
        shoal_dtype_store_int(outputs->dtype, outputs->data, at, (int64_t)whole);
      }
    }
  }
  return NULL;
}

OP_GRADIENT(cumprod) {
  (void)out;
  in_grads[0] = shoal_emit_alike(e, "shoal.cumprod_grad", REFS(in[0], grads[0]), call);
}

static int64_t cumprod_grad_workspace(const shoal_call_t *call) {
  const shoal_shape_t *x = &call->inputs[0].shape;
  return x->dims[shoal_normal_axis(call->attrs[AXIS].i, x->rank)] * (int64_t)sizeof(double);
}

// dx[k] = (product of all before k) * s[k] with s[k] = dy[k] + x[k+1] s[k+1]: nothing is divided,
// so zeros do no harm.
OP_KERNEL(cumprod_grad) {
  double *s = workspace;
  for (int64_t k = 0; k < line_count(call); ++k) {
    const line_t line = line_of(call, k, false);
    double behind = 0;
    for (int64_t i = line.n - 1; i >= 0; --i) {
      const int64_t at = line.at + i * line.step;
      s[i] = shoal_dtype_load(inputs[1].dtype, inputs[1].data, at) + behind;
      behind = s[i] * shoal_dtype_load(inputs[0].dtype, inputs[0].data, at);
    }
    double before = 1;
    for (int64_t i = 0; i < line.n; ++i) {
      const int64_t at = line.at + i * line.step;
      const double x = shoal_dtype_load(inputs[0].dtype, inputs[0].data, at);
      shoal_dtype_store(outputs->dtype, outputs->data, at, before * s[i]);
      before *= x;
    }
  }
  return NULL;
}

// ---- records ---------------------------------------------------------------------------

const shoal_op_t shoal_op_cumsum = {
    .name = "shoal.cumsum",
    .doc =
        "Running sum along the axis, of floats and integers: out[i] = x[0] + ... + x[i], in x's "
        "dtype. Floats are summed in f64 and rounded as they are stored; integers wrap.",
    .nan = "all behind a NaN is NaN",
    .uncut = "the axis: each element needs all before it",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(SHOAL_ATTR_AXIS,
                   {.name = "reverse",
                    .kind = SHOAL_ATTR_INT,
                    .optional = true,
                    .doc = "1: from the end: out[i] = x[i] + ... + x[n-1]"},
                   {.name = "exclusive",
                    .kind = SHOAL_ATTR_INT,
                    .optional = true,
                    .doc = "1: without x[i] itself"}),
    SHOAL_OP_OVERWRITES({0, 0}),
    .infer = scan_infer,
    .gradient = cumsum_gradient,
    .decompose = cumsum_decompose,
    .kernel = cumsum_kernel,
    SHOAL_OP_CASES("f64[3,5] ; axis=1", "f32[3,5,2] ; axis=1, reverse=1",
                   "f64[4,3] ; axis=0, exclusive=1", "bf16[1,9] ; axis=-1, reverse=1, exclusive=1",
                   "i32[3,7]<9 ; axis=1", "u8[7]<200 ; axis=0", "f32[0,3] ; axis=0"),
};

const shoal_op_t shoal_op_cumprod = {
    .name = "shoal.cumprod",
    .doc =
        "Running product along the axis, of floats and integers: out[i] = x[0] * ... * x[i], in "
        "x's dtype. Floats are multiplied in f64 and rounded as they are stored; integers wrap.",
    .nan = "all behind a NaN is NaN",
    .uncut = "the axis: each element needs all before it",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(SHOAL_ATTR_AXIS),
    SHOAL_OP_OVERWRITES({0, 0}),
    .infer = scan_infer,
    .gradient = cumprod_gradient,
    .kernel = cumprod_kernel,
    SHOAL_OP_CASES("f64[3,5] ; axis=1", "f32[3,5,2] ; axis=1", "bf16[1,9] ; axis=-1",
                   "i64[4,3]<9 ; axis=0", "f32[0,3] ; axis=0"),
};

const shoal_op_t shoal_op_cumprod_grad = {
    .name = "shoal.cumprod_grad",
    .doc =
        "Gradient of cumprod: dx[k] = (x[0] * ... * x[k-1]) times the sum of dy[i] x[k+1] * ... * "
        "x[i] over i >= k, right also where x has zeros.",
    .nan = "all of a line with a NaN is NaN",
    .uncut = "the axis: each element needs all before and behind it",
    SHOAL_OP_INPUTS("x", "dy"),
    SHOAL_OP_OUTPUTS("dx"),
    SHOAL_OP_ATTRS(SHOAL_ATTR_AXIS),
    SHOAL_OP_OVERWRITES({0, 0}, {0, 1}),
    .infer = cumprod_infer,
    .workspace = cumprod_grad_workspace,
    .kernel = cumprod_grad_kernel,
    SHOAL_OP_CASES("f64[3,5], f64[3,5] ; axis=1", "f32[3,5,2], f32[3,5,2] ; axis=1",
                   "bf16[1,9], bf16[1,9] ; axis=-1", "f32[0,3], f32[0,3] ; axis=0"),
};
