// Products of rows by the matrix of their group: a mixture of experts that drops nothing.
//   grouped_matmul         x [T, K]  w [E, K, N]  ends [E]   out [T, N]: out[t] = x[t] w[e]
//   grouped_matmul_grad_w  x [T, K]  dy [T, N]    ends [E]   dw [E, K, N]: the sum of x[t]' dy[t]
// Rows are sorted by group: row t of the whole belongs to the first group e with t < ends[e]. Where
// an end is below one before it the group is empty; rows behind the last end belong to none, and
// are 0. Ends count rows of the whole and are always those of all groups, so that a part of the
// rows or of the groups (which gives partial sums) needs only its place.
#include "op/families/along.h"
#include "op/families/emit.h"
#include "op/families/product.h"

enum { X, W, ENDS };
enum { TRANSPOSE, PLACE_X, PLACE_W };
enum { DY = 1 };  // of grad_w, in the place of w
enum { GROUPS, GRAD_PLACE_X, PLACE_DW };

static shoal_status_t check_ends(const shoal_call_t *call, const shoal_place_t *groups) {
  const shoal_shape_t one_each = shoal_shape_part(&groups->whole, 0, 1);
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, ENDS));
  return shoal_check_shape(call, ENDS, &one_each);
}

// An end may lie behind the last row.
static int64_t ends_index_count(const shoal_call_t *call, int32_t input) {
  return input == ENDS ? call->inputs[X].shape.dims[0] + 1 : 0;
}

static shoal_status_t check_end_values(const shoal_call_t *call, const shoal_tensor_t *ends,
                                       const shoal_place_t *x) {
  for (int64_t e = 0; e < ends->shape.dims[0]; ++e) {
    const int64_t end = shoal_dtype_load_int(ends->dtype, ends->data, e);
    REQUIRE_HINT(call, end >= 0 && end <= x->whole.dims[0],
                 "ends are running sums of the groups' sizes",
                 "end %lld of group %lld is not in [0, %lld]", (long long)end, (long long)e,
                 (long long)x->whole.dims[0]);
  }
  return NULL;
}

// ---- runs of rows -----------------------------------------------------------------------

// Rows of the part, one behind the other, that belong to one group.
typedef struct run {
  int64_t first, count;
  int64_t group;  // its place in the part of the groups; -1: elsewhere, or no group
} run_t;

static int64_t row_of_whole(const shoal_place_t *x, int64_t row) {
  return x->index[0] ? x->index[0][row] : row;
}

// The run behind *run, which starts as zeros; false: that was the last one.
static bool run_next(const shoal_tensor_t *ends, const shoal_place_t *x,
                     const shoal_place_t *groups, run_t *run) {
  const int64_t rows = x->part.dims[0], count = ends->shape.dims[0];
  run->first += run->count;
  if (run->first >= rows) return false;
  const int64_t row = row_of_whole(x, run->first);
  int64_t group = 0, begin = 0, end = 0;
  for (; group < count; ++group) {
    const int64_t next = shoal_dtype_load_int(ends->dtype, ends->data, group);
    begin = end;
    if (next > end) end = next;
    if (row < end) break;
  }
  if (group == count) begin = end, end = INT64_MAX;
  run->group = group < count ? shoal_place_local(groups, 0, group) : -1;
  for (run->count = 1; run->first + run->count < rows; ++run->count) {
    const int64_t next = row_of_whole(x, run->first + run->count);
    if (next < begin || next >= end) break;
  }
  return true;
}

// ---- grouped_matmul ---------------------------------------------------------------------

static shoal_status_t grouped_matmul_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_shape_t *x = &call->inputs[X].shape, *w = &call->inputs[W].shape;
  const bool turned = call->attrs[TRANSPOSE].i;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, X, 2));
  SHOAL_RETURN_IF_ERROR(shoal_check_rank(call, X, 2));
  SHOAL_RETURN_IF_ERROR(shoal_check_rank(call, W, 3));
  SHOAL_RETURN_IF_ERROR(shoal_check_dims(call, PLACE_X, x, &place));
  SHOAL_RETURN_IF_ERROR(shoal_check_dims(call, PLACE_W, w, &place));
  SHOAL_RETURN_IF_ERROR(check_ends(call, &place));
  const int64_t summed = w->dims[turned ? 2 : 1];
  REQUIRE_HINT(call, x->dims[1] == summed,
               x->dims[1] == w->dims[turned ? 1 : 2]
                   ? "the other way round it fits: switch transpose_w"
                   : NULL,
               "the summed sizes differ: dim 1 of x has %lld elements, dim %d of w %lld",
               (long long)x->dims[1], turned ? 2 : 1, (long long)summed);
  out_types[0] = (shoal_type_t){call->inputs[X].dtype,
                                {.rank = 2, .dims = {x->dims[0], w->dims[turned ? 1 : 2]}}};
  return NULL;
}

static shoal_ref_t emit_grouped(shoal_emitter_t *e, shoal_ref_t x, shoal_ref_t w, shoal_ref_t ends,
                                bool turned) {
  return shoal_emit_one(e, "shoal.grouped_matmul", REFS(x, w, ends),
                        ATTRS(shoal_attr_int("transpose_w", turned)));
}

OP_GRADIENT(grouped_matmul) {
  const bool turned = call->attrs[TRANSPOSE].i;
  (void)out;
  in_grads[X] = emit_grouped(e, grads[0], in[W], in[ENDS], !turned);
  in_grads[W] = shoal_emit_one(e, "shoal.grouped_matmul_grad_w",
                               REFS(turned ? grads[0] : in[X], turned ? in[X] : grads[0], in[ENDS]),
                               ATTRS(shoal_attr_int("groups", call->inputs[W].shape.dims[0])));
}

static double flops(const shoal_shape_t *x, const shoal_shape_t *y) {
  return 2.0 * (double)x->dims[0] * (double)x->dims[1] * (double)y->dims[1];
}

static void grouped_matmul_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = flops(&call->inputs[X].shape, &call->outputs[0].shape);
}

static shoal_product_t grouped_product(const shoal_call_t *call) {
  const int64_t k = call->inputs[X].shape.dims[1], n = call->outputs[0].shape.dims[1];
  shoal_product_t product = {
      .m = call->inputs[X].shape.dims[0], .n = n, .k = k, .a = {k, 1}, .b = {n, 1}, .c = {n, 1}};
  if (call->attrs[TRANSPOSE].i) product.b[0] = 1, product.b[1] = k;
  return product;
}

static int64_t grouped_matmul_workspace(const shoal_call_t *call) {
  const shoal_product_t product = grouped_product(call);
  return shoal_product_workspace(&product, call->outputs[0].dtype) + shoal_kernel_widen_bytes(call);
}

OP_KERNEL(grouped_matmul) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, grouped_matmul_kernel);
  }
  shoal_place_t x, w;
  SHOAL_RETURN_IF_ERROR(shoal_check_dims(call, PLACE_X, &inputs[X].shape, &x));
  SHOAL_RETURN_IF_ERROR(shoal_check_dims(call, PLACE_W, &inputs[W].shape, &w));
  SHOAL_RETURN_IF_ERROR(check_end_values(call, &inputs[ENDS], &x));
  const size_t bytes = shoal_tensor_bytes(outputs), element = shoal_dtype_size(outputs->dtype);
  if (bytes) memset(outputs->data, 0, bytes);
  shoal_product_t product = grouped_product(call);
  for (run_t run = {0}; run_next(&inputs[ENDS], &x, &w, &run);) {
    if (run.group < 0 || product.k == 0 || product.n == 0) continue;
    product.m = run.count;
    shoal_product_run(
        &product, outputs->dtype,
        (const char *)inputs[X].data + (size_t)(run.first * product.k) * element,
        (const char *)inputs[W].data + (size_t)(run.group * product.k * product.n) * element,
        (char *)outputs->data + (size_t)(run.first * product.n) * element, workspace);
  }
  return NULL;
}

#define ENDS_DOC                                                                                  \
  "Row t is of the first group e with t < ends[e]; rows behind the last end are of none. An end " \
  "outside [0, T] is an error."

const shoal_op_t shoal_op_grouped_matmul = {
    .name = "shoal.grouped_matmul",
    .doc =
        "out[t, n] = sum over k of x[t, k] w[e, k, n], for rows sorted by group; 0 for rows of no "
        "group. " ENDS_DOC,
    .uncut = "ends: where a group begins is said by the one before it",
    SHOAL_OP_INPUTS("x", "w", "ends"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS({.name = "transpose_w",
                    .kind = SHOAL_ATTR_INT,
                    .optional = true,
                    .doc = "1: w is [groups, n, k]"},
                   SHOAL_ATTR_PLACE_OF("place_x", SHOAL_INPUT(X)),
                   SHOAL_ATTR_PLACE_OF("place_w", SHOAL_INPUT(W))),
    .window = "",
    .infer = grouped_matmul_infer,
    .index_count = ends_index_count,
    .gradient = grouped_matmul_gradient,
    .cost = grouped_matmul_cost,
    .workspace = grouped_matmul_workspace,
    .kernel = grouped_matmul_kernel,
    SHOAL_OP_CASES("f64[9,3], f64[4,3,5], i64[4]<10",
                   "f32[7,3], f32[3,2,3], i32[3]<8 ; transpose_w=1",
                   "bf16[5,2], bf16[2,2,3], i64[2]<6", "f64[5,1], f64[1,1,2], i64[1]<6",
                   "f32[0,3], f32[2,3,4], i64[2]<1"),
};

// ---- grouped_matmul_grad_w --------------------------------------------------------------

static shoal_status_t grouped_grad_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_shape_t *x = &call->inputs[X].shape, *dy = &call->inputs[DY].shape;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, X, 2));
  SHOAL_RETURN_IF_ERROR(shoal_check_rank(call, X, 2));
  SHOAL_RETURN_IF_ERROR(shoal_check_rank(call, DY, 2));
  REQUIRE(call, x->dims[0] == dy->dims[0], "x has %lld rows and dy %lld", (long long)x->dims[0],
          (long long)dy->dims[0]);
  REQUIRE(call, call->attrs[GROUPS].i >= 0, "groups is %lld: it must not be negative",
          (long long)call->attrs[GROUPS].i);
  const shoal_shape_t shape = {.rank = 3, .dims = {call->attrs[GROUPS].i, x->dims[1], dy->dims[1]}};
  SHOAL_RETURN_IF_ERROR(shoal_check_dims(call, GRAD_PLACE_X, x, &place));
  SHOAL_RETURN_IF_ERROR(shoal_check_dims(call, PLACE_DW, &shape, &place));
  out_types[0] = (shoal_type_t){call->inputs[X].dtype, shape};
  return check_ends(call, &place);
}

// Each row meets the gradient of its group's matrix.
OP_GRADIENT(grouped_grad) {
  (void)call, (void)out;
  in_grads[X] = emit_grouped(e, in[DY], grads[0], in[ENDS], true);
  in_grads[DY] = emit_grouped(e, in[X], grads[0], in[ENDS], false);
}

static void grouped_grad_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = flops(&call->inputs[X].shape, &call->inputs[DY].shape);
}

// x' dy: the rows are summed.
static shoal_product_t grouped_grad_product(const shoal_call_t *call) {
  const int64_t m = call->inputs[X].shape.dims[1], n = call->inputs[DY].shape.dims[1];
  return (shoal_product_t){
      .m = m, .n = n, .k = call->inputs[X].shape.dims[0], .a = {1, m}, .b = {n, 1}, .c = {n, 1}};
}

static int64_t grouped_grad_workspace(const shoal_call_t *call) {
  const shoal_product_t product = grouped_grad_product(call);
  return shoal_product_workspace(&product, call->outputs[0].dtype) + shoal_kernel_widen_bytes(call);
}

OP_KERNEL(grouped_grad) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, grouped_grad_kernel);
  }
  shoal_place_t x, dw;
  SHOAL_RETURN_IF_ERROR(shoal_check_dims(call, GRAD_PLACE_X, &inputs[X].shape, &x));
  SHOAL_RETURN_IF_ERROR(shoal_check_dims(call, PLACE_DW, &outputs->shape, &dw));
  SHOAL_RETURN_IF_ERROR(check_end_values(call, &inputs[ENDS], &x));
  const size_t bytes = shoal_tensor_bytes(outputs), element = shoal_dtype_size(outputs->dtype);
  if (bytes) memset(outputs->data, 0, bytes);
  shoal_product_t product = grouped_grad_product(call);
  for (run_t run = {0}; run_next(&inputs[ENDS], &x, &dw, &run);) {
    if (run.group < 0 || product.m == 0 || product.n == 0) continue;
    product.k = run.count;
    shoal_product_run(&product, outputs->dtype,
                      (const char *)inputs[X].data + (size_t)(run.first * product.m) * element,
                      (const char *)inputs[DY].data + (size_t)(run.first * product.n) * element,
                      (char *)outputs->data + (size_t)(run.group * product.m * product.n) * element,
                      workspace);
  }
  return NULL;
}

const shoal_op_t shoal_op_grouped_matmul_grad_w = {
    .name = "shoal.grouped_matmul_grad_w",
    .doc =
        "Gradient of grouped_matmul by w: dw[e, k, n] is the sum of x[t, k] dy[t, n] over the rows "
        "of group e. " ENDS_DOC,
    .uncut = "ends: where a group begins is said by the one before it",
    SHOAL_OP_INPUTS("x", "dy", "ends"),
    SHOAL_OP_OUTPUTS("dw"),
    SHOAL_OP_ATTRS({.name = "groups",
                    .kind = SHOAL_ATTR_INT,
                    .role = SHOAL_ROLE_SIZE,
                    .operand = SHOAL_OUTPUT(0),
                    .dim = 0,
                    .doc = "how many groups there are: one for each end"},
                   SHOAL_ATTR_PLACE_OF("place_x", SHOAL_INPUT(X)),
                   SHOAL_ATTR_PLACE_OF("place_dw", SHOAL_OUTPUT(0))),
    .window = "",
    .infer = grouped_grad_infer,
    .index_count = ends_index_count,
    .gradient = grouped_grad_gradient,
    .cost = grouped_grad_cost,
    .workspace = grouped_grad_workspace,
    .kernel = grouped_grad_kernel,
    SHOAL_OP_CASES(
        "f64[9,3], f64[9,5], i64[4]<10 ; groups=4", "f32[7,3], f32[7,2], i32[3]<8 ; groups=3",
        "bf16[5,2], bf16[5,3], i64[2]<6 ; groups=2", "f64[5,1], f64[5,2], i64[1]<6 ; groups=1",
        "f32[0,3], f32[0,4], i64[2]<1 ; groups=2"),
};
