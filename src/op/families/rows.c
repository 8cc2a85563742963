// The gradient of an embedding by rows: only those that were used.
//   embedding_rows  ids [..]  dy [.., C]   ids [N]: the different ids in order, `rows` behind them
//                                          sums [N, C]: the sum of dy over each, 0 behind them
//                                          count []: how many there are
//   rows_add        ids [N]  values [N, C]  out [rows, C]: zeros, with values added; an id that is
//                                          `rows` adds nothing
// rows_add of embedding_rows is embedding_grad, bit by bit. What embedding_rows makes of a part of
// the ids is no part of what it makes of all: merging needs them at one place.
#include "op/families/along.h"
#include "op/families/sort.h"

// ---- embedding_rows --------------------------------------------------------------------

enum { IDS, DY };
enum { ROWS, PADDING, IDS_PLACE };

static shoal_status_t embedding_rows_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_shape_t *ids = &call->inputs[IDS].shape, *dy = &call->inputs[DY].shape;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, IDS));
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, DY, 1));
  REQUIRE(call, dy->rank == ids->rank + 1, "dy must have one dim more than ids, %d, not %d",
          ids->rank + 1, dy->rank);
  const shoal_shape_t leading = shoal_shape_part(dy, 0, ids->rank);
  REQUIRE(call, shoal_shape_equal(&leading, ids), "dy must have the leading dims of ids");
  REQUIRE(call, call->attrs[ROWS].i >= 0, "rows is %lld: it must not be negative",
          (long long)call->attrs[ROWS].i);
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, IDS_PLACE, ids, &place));
  REQUIRE(call, shoal_shape_count(&place.whole) == shoal_shape_count(ids),
          "ids can only be merged where all of them are");
  const int64_t count = shoal_shape_count(ids);
  out_types[0] = (shoal_type_t){SHOAL_I64, SHOAL_SHAPE(count)};
  out_types[1] = (shoal_type_t){call->inputs[DY].dtype, SHOAL_SHAPE(count, dy->dims[ids->rank])};
  out_types[2] = (shoal_type_t){SHOAL_I64, SHOAL_SCALAR};
  return NULL;
}

static int64_t rows_index_count(const shoal_call_t *call, int32_t input) {
  return input == IDS ? call->attrs[ROWS].i : 0;
}

static int64_t embedding_rows_workspace(const shoal_call_t *call) {
  return shoal_kernel_widen_bytes(call) +
         shoal_sort_bytes(shoal_shape_count(&call->inputs[IDS].shape));
}

OP_KERNEL(embedding_rows) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, embedding_rows_kernel);
  }
  const shoal_tensor_t *ids = &inputs[IDS];
  const shoal_shape_t rows = SHOAL_SHAPE(call->attrs[ROWS].i);
  const shoal_place_t all = shoal_place_whole(&rows);
  const int64_t count = shoal_shape_count(&ids->shape), width = outputs[1].shape.dims[1];
  const shoal_sort_t sort = {ids, 0, 1, count, false};
  const size_t bytes = shoal_tensor_bytes(&outputs[1]);
  int64_t *out = outputs[0].data, used = 0, last = -1, at = -1;
  if (bytes) memset(outputs[1].data, 0, bytes);
  for (int64_t i = 0; i < count; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_check_index(call, IDS, ids, i, &all, 0, &at));
  }
  const int64_t *order = shoal_sort_run(&sort, workspace);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t id = shoal_dtype_load_int(ids->dtype, ids->data, order[i]);
    if (id == call->attrs[PADDING].i) continue;
    if (id != last) out[used++] = last = id;
    shoal_add_run(outputs[1].dtype, inputs[DY].data, order[i] * width, outputs[1].data,
                  (used - 1) * width, width);
  }
  for (int64_t i = used; i < count; ++i) out[i] = call->attrs[ROWS].i;
  *(int64_t *)outputs[2].data = used;
  return NULL;
}

static void embedding_rows_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = (double)shoal_shape_count(&call->inputs[DY].shape);
}

const shoal_op_t shoal_op_embedding_rows = {
    .name = "shoal.embedding_rows",
    .doc =
        "The rows of an embedding's gradient that are used: the different ids in order (`rows` "
        "behind them), the sum of dy [.., C] over each, in order (zeros behind them), and how many "
        "there are. ids that are `padding` are left out.",
    SHOAL_OP_INPUTS("ids", "dy"),
    SHOAL_OP_OUTPUTS("ids", "sums", "count"),
    .uncut = "ids: they are merged where all of them are",
    SHOAL_OP_ATTRS({.name = "rows",
                    .kind = SHOAL_ATTR_INT,
                    .role = SHOAL_ROLE_COUNT,
                    .doc = "rows of the table: ids are below it"},
                   {.name = "padding",
                    .kind = SHOAL_ATTR_INT,
                    .role = SHOAL_ROLE_COUNT,
                    .optional = true,
                    .fallback = {.i = -1},
                    .doc = "index of a row that gets no gradient; -1: none is"},
                   SHOAL_ATTR_PLACE_OF("place", SHOAL_INPUT(IDS))),
    .infer = embedding_rows_infer,
    .index_count = rows_index_count,
    .cost = embedding_rows_cost,
    .workspace = embedding_rows_workspace,
    .kernel = embedding_rows_kernel,
    SHOAL_OP_CASES("i64[9]<4, f64[9,3] ; rows=4", "i32[2,3]<9, f32[2,3,5] ; rows=9",
                   "u8[9]<3, bf16[9,2] ; rows=3, padding=1", "i64[5]<7, f32[5,1] ; rows=7",
                   "i64[0]<3, f32[0,3] ; rows=3"),
};

// ---- rows_add --------------------------------------------------------------------------

enum { VALUES = 1 };
enum { OUT_ROWS, OUT_PLACE };

static shoal_status_t rows_add_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_type_t *values = &call->inputs[VALUES];
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, IDS));
  SHOAL_RETURN_IF_ERROR(shoal_check_rank(call, IDS, 1));
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, VALUES, 1));
  SHOAL_RETURN_IF_ERROR(shoal_check_rank(call, VALUES, 2));
  REQUIRE(call, values->shape.dims[0] == call->inputs[IDS].shape.dims[0],
          "ids has %lld rows and values %lld", (long long)call->inputs[IDS].shape.dims[0],
          (long long)values->shape.dims[0]);
  REQUIRE(call, call->attrs[OUT_ROWS].i >= 0, "rows is %lld: it must not be negative",
          (long long)call->attrs[OUT_ROWS].i);
  out_types[0] =
      (shoal_type_t){values->dtype, SHOAL_SHAPE(call->attrs[OUT_ROWS].i, values->shape.dims[1])};
  return shoal_check_dims(call, OUT_PLACE, &out_types[0].shape, &place);
}

static int64_t rows_add_index_count(const shoal_call_t *call, int32_t input) {
  return input == IDS ? call->attrs[OUT_ROWS].i + 1 : 0;
}

OP_KERNEL(rows_add) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, rows_add_kernel);
  }
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_dims(call, OUT_PLACE, &outputs->shape, &place));
  const int64_t count = inputs[IDS].shape.dims[0], width = outputs->shape.dims[1];
  const shoal_shape_t range = SHOAL_SHAPE(place.whole.dims[0] + 1);
  const shoal_place_t all = shoal_place_whole(&range);
  const size_t bytes = shoal_tensor_bytes(outputs);
  if (bytes) memset(outputs->data, 0, bytes);
  for (int64_t i = 0; i < count; ++i) {
    int64_t row = -1;
    SHOAL_RETURN_IF_ERROR(shoal_check_index(call, IDS, &inputs[IDS], i, &all, 0, &row));
    const int64_t at = row == place.whole.dims[0] ? -1 : shoal_place_local(&place, 0, row);
    if (at < 0) continue;
    shoal_add_run(outputs->dtype, inputs[VALUES].data, i * width, outputs->data, at * width, width);
  }
  return NULL;
}

static void rows_add_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = (double)shoal_shape_count(&call->inputs[VALUES].shape);
}

const shoal_op_t shoal_op_rows_add = {
    .name = "shoal.rows_add",
    .doc =
        "Zeros [rows, C] with values[i, :] added to row ids[i], in order; where ids[i] is `rows`, "
        "nothing is added. With embedding_rows, what embedding_grad makes.",
    SHOAL_OP_INPUTS("ids", "values"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS({.name = "rows",
                    .kind = SHOAL_ATTR_INT,
                    .role = SHOAL_ROLE_SIZE,
                    .operand = SHOAL_OUTPUT(0),
                    .dim = 0,
                    .doc = "rows of the table"},
                   SHOAL_ATTR_PLACE_OF("place", SHOAL_OUTPUT(0))),
    .infer = rows_add_infer,
    .index_count = rows_add_index_count,
    .cost = rows_add_cost,
    .workspace = shoal_kernel_widen_bytes,
    .kernel = rows_add_kernel,
    SHOAL_OP_CASES("i64[9]<5, f64[9,3] ; rows=4", "i32[3]<10, f32[3,5] ; rows=9",
                   "u8[9]<4, bf16[9,2] ; rows=3", "i64[5]<2, f32[5,3] ; rows=1",
                   "i64[0]<4, f32[0,3] ; rows=3"),
};
