// The gradient of an embedding by rows: only those that were used.
//   embedding_rows  ids [.., T]  dy [.., T, C]   of each group of T ids:
//                   ids [.., T]     the different ones in order, `rows` behind them
//                   sums [.., T, C] the sum of dy over each, 0 behind them
//                   count [..]      how many there are
//   rows_add        ids [..]  values [.., C]     out [rows, C]: zeros, with values added; where an
//                   id is `rows`, nothing
// rows_add of embedding_rows is embedding_grad: of one group bit by bit, of several up to the order
// of sums. What embedding_rows makes of a part of a group is no part of what it makes of all:
// merging needs the group at one place. Groups stand for themselves, so that ranks that have some
// of them make some of the rows (the decomposition of embedding_grad, in index.c).
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
  REQUIRE(call, ids->rank >= 1, "ids needs a dim along which they are merged, and has none");
  REQUIRE(call, dy->rank == ids->rank + 1, "dy must have one dim more than ids, %d, not %d",
          ids->rank + 1, dy->rank);
  const shoal_shape_t leading = shoal_shape_part(dy, 0, ids->rank);
  REQUIRE(call, shoal_shape_equal(&leading, ids), "dy must have the leading dims of ids");
  REQUIRE(call, call->attrs[ROWS].i >= 0, "rows is %lld: it must not be negative",
          (long long)call->attrs[ROWS].i);
  SHOAL_RETURN_IF_ERROR(shoal_check_dims(call, IDS_PLACE, ids, &place));
  REQUIRE(call, place.whole.dims[ids->rank - 1] == ids->dims[ids->rank - 1],
          "ids of a group can only be merged where all of them are");
  out_types[0] = (shoal_type_t){SHOAL_I64, *ids};
  out_types[1] = call->inputs[DY];
  out_types[2] = (shoal_type_t){SHOAL_I64, shoal_shape_part(ids, 0, ids->rank - 1)};
  return NULL;
}

static int64_t rows_index_count(const shoal_call_t *call, int32_t input) {
  return input == IDS ? call->attrs[ROWS].i : 0;
}

static int64_t embedding_rows_workspace(const shoal_call_t *call) {
  return shoal_kernel_widen_bytes(call) +
         shoal_sort_bytes(shoal_row_length(&call->inputs[IDS].shape));
}

// One group: its ids in order, their sums and how many there are.
static void merge_group(const shoal_call_t *call, const shoal_tensor_t *inputs,
                        const shoal_tensor_t *outputs, int64_t group, void *workspace) {
  const shoal_tensor_t *ids = &inputs[IDS];
  const int64_t count = shoal_row_length(&ids->shape), width = shoal_row_length(&outputs[1].shape);
  const shoal_sort_t sort = {ids, group * count, 1, count, false};
  const int64_t *order = shoal_sort_run(&sort, workspace);
  int64_t *out = (int64_t *)outputs[0].data + group * count, used = 0, last = -1;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t from = group * count + order[i];
    const int64_t id = shoal_dtype_load_int(ids->dtype, ids->data, from);
    if (id == call->attrs[PADDING].i) continue;
    if (id != last) out[used++] = last = id;
    shoal_add_run(outputs[1].dtype, inputs[DY].data, from * width, outputs[1].data,
                  (group * count + used - 1) * width, width);
  }
  for (int64_t i = used; i < count; ++i) out[i] = call->attrs[ROWS].i;
  ((int64_t *)outputs[2].data)[group] = used;
}

OP_KERNEL(embedding_rows) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, embedding_rows_kernel);
  }
  const shoal_shape_t rows = SHOAL_SHAPE(call->attrs[ROWS].i);
  const shoal_place_t all = shoal_place_whole(&rows);
  const int64_t count = shoal_shape_count(&inputs[IDS].shape);
  const int64_t groups = shoal_shape_count(&outputs[2].shape);
  const size_t bytes = shoal_tensor_bytes(&outputs[1]);
  if (bytes) memset(outputs[1].data, 0, bytes);
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = -1;
    SHOAL_RETURN_IF_ERROR(shoal_check_index(call, IDS, &inputs[IDS], i, &all, 0, &at));
  }
  for (int64_t g = 0; g < groups; ++g) merge_group(call, inputs, outputs, g, workspace);
  return NULL;
}

static void embedding_rows_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = (double)shoal_shape_count(&call->inputs[DY].shape);
}

const shoal_op_t shoal_op_embedding_rows = {
    .name = "shoal.embedding_rows",
    .doc =
        "The rows of an embedding's gradient that are used, of each group of ids [.., T]: the "
        "different ones in order (`rows` behind them), the sum of dy [.., T, C] over each, in "
        "order (zeros behind them), and how many there are. ids that are `padding` are left out.",
    SHOAL_OP_INPUTS("ids", "dy"),
    SHOAL_OP_OUTPUTS("ids", "sums", "count"),
    .uncut = "the last dim of ids: those of a group are merged where all of them are",
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
                   "i64[3,2,5]<4, f64[3,2,5,3] ; rows=4, padding=2", "i64[0]<3, f32[0,3] ; rows=3"),
};

// ---- rows_add --------------------------------------------------------------------------

enum { VALUES = 1 };
enum { OUT_ROWS, OUT_PLACE };

static shoal_status_t rows_add_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_type_t *values = &call->inputs[VALUES];
  const shoal_shape_t *ids = &call->inputs[IDS].shape;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, IDS));
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, VALUES, 1));
  REQUIRE(call, values->shape.rank == ids->rank + 1,
          "values must have one dim more than ids, %d, not %d", ids->rank + 1, values->shape.rank);
  const shoal_shape_t leading = shoal_shape_part(&values->shape, 0, ids->rank);
  REQUIRE(call, shoal_shape_equal(&leading, ids), "values must have the leading dims of ids");
  REQUIRE(call, call->attrs[OUT_ROWS].i >= 0, "rows is %lld: it must not be negative",
          (long long)call->attrs[OUT_ROWS].i);
  out_types[0] = (shoal_type_t){
      values->dtype, SHOAL_SHAPE(call->attrs[OUT_ROWS].i, shoal_row_length(&values->shape))};
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
  const int64_t count = shoal_shape_count(&inputs[IDS].shape), width = outputs->shape.dims[1];
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
        "Zeros [rows, C] with values [.., C] added to the rows ids [..], in order; where an id is "
        "`rows`, nothing is added. With embedding_rows, what embedding_grad makes.",
    SHOAL_OP_INPUTS("ids", "values"),
    SHOAL_OP_OUTPUTS("out"),
    .sparse = true,
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
                   "i64[3,5]<5, f64[3,5,2] ; rows=4", "i64[0]<4, f32[0,3] ; rows=3"),
};
