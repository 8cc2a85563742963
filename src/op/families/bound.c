// bound: rows of bounded sizes. A value has a fixed room for rows in each group (the rows an expert
// gets from a rank), of which as many are used as a number says that is known only at run time. The
// rest is set to zero here, whatever it held: so what follows may rely on it, and communication
// moves only the rows that are used.
//   x [g.., C, ..]   counts [g..]   out [g.., C, ..]
#include "op/bounded.h"
#include "op/families/emit.h"
#include "op/families/kernel.h"

enum { X, COUNTS };

static shoal_status_t bound_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_shape_t *x = &call->inputs[X].shape, *counts = &call->inputs[COUNTS].shape;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, COUNTS));
  REQUIRE(call, x->rank > counts->rank,
          "x needs the dims of counts and a dim of rows behind them: %d at least, not %d",
          counts->rank + 1, x->rank);
  const shoal_shape_t groups = shoal_shape_part(x, 0, counts->rank);
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, COUNTS, &groups));
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, 0, x, &place));
  REQUIRE(call, !place.flat, "a flat part has no rows");
  out_types[0] = call->inputs[X];
  return NULL;
}

static int64_t bound_index_count(const shoal_call_t *call, int32_t input) {
  return input == COUNTS ? call->inputs[X].shape.dims[call->inputs[COUNTS].shape.rank] + 1 : 0;
}

OP_GRADIENT(bound) {
  (void)call, (void)out;
  in_grads[X] = shoal_emit_one(e, "shoal.bound", REFS(grads[0], in[COUNTS]), NO_ATTRS);
}

// How many rows of the whole the group uses.
static shoal_status_t count_of(const shoal_call_t *call, const shoal_tensor_t *counts,
                               int64_t group, const shoal_place_t *place, int64_t *out_count) {
  const int32_t rows = counts->shape.rank;
  *out_count = shoal_dtype_load_int(counts->dtype, counts->data, group);
  if (*out_count >= 0 && *out_count <= place->whole.dims[rows]) return NULL;
  shoal_shape_t at = {.rank = rows};
  for (int32_t d = rows - 1; d >= 0; --d) {
    const int64_t here = group % counts->shape.dims[d];
    at.dims[d] = place->index[d] ? place->index[d][here] : here;
    group /= counts->shape.dims[d];
  }
  return shoal_op_blame(call,
                        shoal_bounded_overflow(&at, *out_count, rows, place->whole.dims[rows]));
}

OP_KERNEL(bound) {
  (void)workspace;
  const shoal_shape_t *shape = &inputs[X].shape, *groups = &inputs[COUNTS].shape;
  const int32_t dim = groups->rank;
  const int64_t group_count = shoal_shape_count(groups), rows = shape->dims[dim];
  const size_t row =
      (size_t)shoal_shape_product(shape, dim + 1, shape->rank) * shoal_dtype_size(inputs[X].dtype);
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, 0, shape, &place));
  const int64_t *index = place.index[dim];
  for (int64_t g = 0; g < group_count; ++g) {
    int64_t count = 0, used = 0;
    SHOAL_RETURN_IF_ERROR(count_of(call, &inputs[COUNTS], g, &place, &count));
    while (used < rows && (index ? index[used] : used) < count) ++used;
    if (rows == 0 || row == 0) continue;
    const char *from = (const char *)inputs[X].data + (size_t)(g * rows) * row;
    char *to = (char *)outputs->data + (size_t)(g * rows) * row;
    if (from != to) memcpy(to, from, (size_t)used * row);
    memset(to + (size_t)used * row, 0, (size_t)(rows - used) * row);
  }
  return NULL;
}

const shoal_op_t shoal_op_bound = {
    .name = "shoal.bound",
    .doc =
        "The first counts[g..] rows of each group of x [g.., C, ..], zeros behind them. A count "
        "that is negative or above C is an error.",
    SHOAL_OP_INPUTS("x", "counts"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(SHOAL_ATTR_PLACE_OF("place", SHOAL_INPUT(X))),
    .bounds = true,
    SHOAL_OP_OVERWRITES({0, X}),
    .infer = bound_infer,
    .index_count = bound_index_count,
    .gradient = bound_gradient,
    .cost = shoal_cost_move,
    .kernel = bound_kernel,
    SHOAL_OP_CASES("f64[3,5,2], i64[3]<6", "f32[2,3,7,3], i32[2,3]<8", "f64[7], i32[]<8",
                   "bf16[5,9,2], u8[5]<10", "f16[3,4], i64[3]<5", "f32[3,0,2], i64[3]<1"),
};
