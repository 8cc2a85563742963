// What clipping asks for where each rank clips its own part of a gradient before ranks sum them.
//   summands      x [..] -> [parts, ..]: `parts` tensors whose sum is x. Which ones, x does not
//                 say: the kernel gives x and zeros. Along the data axes of a plan each rank's
//                 unreduced part of x becomes a row of its own: the way that the record claims.
//   row_squares   x [n, ..] -> [n]: the sum of x^2 of each row, summed in f64 and rounded once
//   clip_factor   norm [..]: min(1, limit / parts / (norm + 1e-6)): what scales a summand of that
//                 norm down, so that the sum of all `parts` of them has a norm of at most `limit`
//   weighted_sum  x [n, ..], w [n] -> [..]: the sum of w[i] x[i], in f64 and rounded once
#include "base/dtype.h"
#include "op/families/emit.h"
#include "op/families/kernel.h"

#define MARGIN 1e-6  // added to norms before they divide, as PyTorch does

enum { X, W };

// The rows of a tensor, and the elements of one.
typedef struct rows {
  int64_t count, length;
} rows_t;

static rows_t rows_of(const shoal_shape_t *shape) {
  return (rows_t){shape->dims[0], shoal_shape_product(shape, 1, shape->rank)};
}

static shoal_status_t check_rows(const shoal_call_t *call) {
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, X, 1));
  REQUIRE(call, call->inputs[X].shape.rank > 0, "x is a scalar: it has no rows");
  return NULL;
}

static shoal_status_t check_parts(const shoal_call_t *call, int32_t attr) {
  REQUIRE(call, call->attrs[attr].i >= 1, "parts is %lld: it must be at least 1",
          (long long)call->attrs[attr].i);
  return NULL;
}

#define PARTS(ROLE, ...)                                                                      \
  {                                                                                           \
    .name = "parts", .kind = SHOAL_ATTR_INT, .role = ROLE, .optional = true, .fallback.i = 1, \
    .doc = "how many summands there are; a plan writes it", __VA_ARGS__                       \
  }

// ---- summands -----------------------------------------------------------------------------------

static shoal_status_t summands_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_shape_t *x = &call->inputs[X].shape;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, X, 1));
  SHOAL_RETURN_IF_ERROR(check_parts(call, 0));
  REQUIRE(call, x->rank < SHOAL_MAX_RANK, "the result would have more than %d dims",
          SHOAL_MAX_RANK);
  out_types[0] = call->inputs[X];
  shoal_shape_t *out = &out_types[0].shape;
  for (int32_t d = out->rank++; d > 0; --d) out->dims[d] = out->dims[d - 1];
  out->dims[0] = call->attrs[0].i;
  return NULL;
}

OP_KERNEL(summands) {
  (void)call, (void)workspace;
  const size_t bytes = shoal_tensor_bytes(inputs), all = shoal_tensor_bytes(outputs);
  if (all == 0) return NULL;
  if (outputs->data != inputs->data) memcpy(outputs->data, inputs->data, bytes);
  memset((char *)outputs->data + bytes, 0, all - bytes);
  return NULL;
}

const shoal_op_t shoal_op_summands = {
    .name = "shoal.summands",
    .doc =
        "`parts` tensors whose sum is x, along a new first dim: x and zeros, or in a plan that "
        "clips gradients before they are summed, what each rank has of x.",
    .uncut = "the new dim of out: x does not say what its summands are",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(PARTS(SHOAL_ROLE_SIZE, .operand = SHOAL_OUTPUT(0), .dim = 0)),
    .summands = "parts",
    .claimed = "{x:sum -> out:0}",
    SHOAL_OP_OVERWRITES({0, X}),
    .infer = summands_infer,
    .cost = shoal_cost_move,
    .kernel = summands_kernel,
    SHOAL_OP_CASES("f64[3,5] ; parts=2", "f32[7] ; parts=3", "bf16[5,2,3]", "f16[4] ; parts=4",
                   "f64[] ; parts=2", "f32[0,3] ; parts=2"),
};

// ---- row_squares --------------------------------------------------------------------------------

static shoal_status_t row_squares_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(check_rows(call));
  const shoal_type_t *x = &call->inputs[X];
  out_types[0] = (shoal_type_t){shoal_statistics_dtype(x->dtype), SHOAL_SHAPE(x->shape.dims[0])};
  return NULL;
}

OP_KERNEL(row_squares) {
  (void)call, (void)workspace;
  const rows_t rows = rows_of(&inputs[X].shape);
  for (int64_t r = 0; r < rows.count; ++r) {
    double sum = 0;
    for (int64_t i = r * rows.length; i < (r + 1) * rows.length; ++i) {
      const double x = shoal_dtype_load(inputs[X].dtype, inputs[X].data, i);
      sum += x * x;
    }
    shoal_dtype_store(outputs->dtype, outputs->data, r, sum);
  }
  return NULL;
}

static void row_squares_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = 2.0 * (double)shoal_shape_count(&call->inputs[X].shape);
}

const shoal_op_t shoal_op_row_squares = {
    .name = "shoal.row_squares",
    .doc =
        "The sum of x^2 over each row of x, which its first dim counts (f32 for half-size "
        "floats).",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    .infer = row_squares_infer,
    .cost = row_squares_cost,
    .kernel = row_squares_kernel,
    SHOAL_OP_CASES("f64[3,5]", "f32[2,3,7]", "bf16[4,9]", "f16[2,3]", "f64[5]", "f32[3,0]"),
};

// ---- clip_factor --------------------------------------------------------------------------------

enum { LIMIT, FACTOR_PARTS };

static shoal_status_t clip_factor_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const double limit = call->attrs[LIMIT].f;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 1));
  SHOAL_RETURN_IF_ERROR(check_parts(call, FACTOR_PARTS));
  REQUIRE(call, limit > 0, "limit is %g: it must be above 0", limit);
  out_types[0] = call->inputs[0];
  return NULL;
}

OP_KERNEL(clip_factor) {
  (void)workspace;
  const double limit = call->attrs[LIMIT].f / (double)call->attrs[FACTOR_PARTS].i;
  const int64_t count = shoal_shape_count(&inputs->shape);
  for (int64_t i = 0; i < count; ++i) {
    const double ratio = limit / (shoal_dtype_load(inputs->dtype, inputs->data, i) + MARGIN);
    shoal_dtype_store(outputs->dtype, outputs->data, i, ratio > 1 ? 1 : ratio);  // NaN stays
  }
  return NULL;
}

const shoal_op_t shoal_op_clip_factor = {
    .name = "shoal.clip_factor",
    .doc =
        "min(1, limit / parts / (norm + 1e-6)): scaled by it, `parts` summands of these norms "
        "have a sum whose norm is at most `limit`.",
    SHOAL_OP_INPUTS("norm"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(
        {.name = "limit", .kind = SHOAL_ATTR_REAL, .doc = "the largest norm of the sum; above 0"},
        PARTS(SHOAL_ROLE_COUNT)),
    .summands = "parts",
    SHOAL_OP_OVERWRITES({0, 0}),
    .infer = clip_factor_infer,
    .kernel = clip_factor_kernel,
    SHOAL_OP_CASES("f64[5]+ ; limit=0.5", "f32[3,4]+ ; limit=2, parts=3", "bf16[7]+ ; limit=1",
                   "f16[]+ ; limit=0.25, parts=2"),
};

// ---- weighted_sum -------------------------------------------------------------------------------

static shoal_status_t weighted_sum_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(check_rows(call));
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, W, 1));
  const shoal_shape_t *x = &call->inputs[X].shape, rows = SHOAL_SHAPE(x->dims[0]);
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, W, &rows));
  out_types[0] = (shoal_type_t){call->inputs[X].dtype, shoal_shape_part(x, 1, x->rank)};
  return NULL;
}

OP_KERNEL(weighted_sum) {
  (void)call, (void)workspace;
  const rows_t rows = rows_of(&inputs[X].shape);
  for (int64_t i = 0; i < rows.length; ++i) {
    double sum = 0;
    for (int64_t r = 0; r < rows.count; ++r)
      sum += shoal_dtype_load(inputs[W].dtype, inputs[W].data, r) *
             shoal_dtype_load(inputs[X].dtype, inputs[X].data, r * rows.length + i);
    shoal_dtype_store(outputs->dtype, outputs->data, i, sum);
  }
  return NULL;
}

static void weighted_sum_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = 2.0 * (double)shoal_shape_count(&call->inputs[X].shape);
}

const shoal_op_t shoal_op_weighted_sum = {
    .name = "shoal.weighted_sum",
    .doc = "The sum of w[i] x[i] over the rows of x, which its first dim counts.",
    SHOAL_OP_INPUTS("x", "w"),
    SHOAL_OP_OUTPUTS("out"),
    .sums_summands = true,
    SHOAL_OP_OVERWRITES({0, X}),
    .infer = weighted_sum_infer,
    .cost = weighted_sum_cost,
    .kernel = weighted_sum_kernel,
    SHOAL_OP_CASES("f64[3,5], f64[3]", "f32[2,3,7], f32[2]", "bf16[4,9], f32[4]",
                   "f16[2,3], f32[2]", "f64[5], f64[5]", "f32[0,3], f32[0]", "f64[1,6], f64[1]"),
};
