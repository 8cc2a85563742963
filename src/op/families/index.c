// Reading and adding rows by index: embedding (rows of a table) and pick (one element of each row),
// with their adjoints. An index that lies in the whole but not in the part contributes 0, so that a
// table cut along its rows gives partial sums; one outside the whole is the caller's mistake and
// refused. Of embedding's adjoint ranks may exchange the rows that are not zero: rows.c.
#include "op/families/along.h"
#include "op/families/emit.h"

// shape with `size` appended.
static shoal_status_t with_last(const shoal_call_t *call, const shoal_shape_t *shape, int64_t size,
                                shoal_shape_t *out_shape) {
  REQUIRE(call, shape->rank < SHOAL_MAX_RANK, "the result would have more than %d dims",
          SHOAL_MAX_RANK);
  *out_shape = *shape;
  out_shape->dims[out_shape->rank++] = size;
  return NULL;
}

// ---- embedding -------------------------------------------------------------------------

static shoal_status_t embedding_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_type_t *table = &call->inputs[0];
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 1));
  SHOAL_RETURN_IF_ERROR(shoal_check_rank(call, 0, 2));
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, 1));
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, 0, &table->shape, &place));
  out_types[0].dtype = table->dtype;
  return with_last(call, &call->inputs[1].shape, table->shape.dims[1], &out_types[0].shape);
}

static int64_t embedding_index_count(const shoal_call_t *call, int32_t input) {
  return input == 1 ? call->inputs[0].shape.dims[0] : 0;
}

OP_GRADIENT(embedding) {
  (void)out;
  in_grads[0] = shoal_emit_one(e, "shoal.embedding_grad", REFS(in[1], grads[0]),
                               ATTRS(shoal_attr_int("rows", call->inputs[0].shape.dims[0]),
                                     shoal_attr_int("padding", call->attrs[1].i)));
}

OP_KERNEL(embedding) {
  (void)workspace;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, 0, &inputs[0].shape, &place));
  const int64_t count = shoal_shape_count(&inputs[1].shape);
  const int64_t width = inputs[0].shape.dims[1];
  const size_t size = shoal_dtype_size(inputs[0].dtype);
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = -1;
    SHOAL_RETURN_IF_ERROR(shoal_check_index(call, 1, &inputs[1], i, &place, 0, &at));
    shoal_copy_run(size, inputs[0].data, at < 0 ? -1 : at * width, outputs->data, i * width, width);
  }
  return NULL;
}

#define PADDING_ATTR                                                                       \
  {                                                                                        \
    .name = "padding", .kind = SHOAL_ATTR_INT, .role = SHOAL_ROLE_COUNT, .optional = true, \
    .fallback = {.i = -1}, .doc = "index of a row that gets no gradient; -1: none is"      \
  }

const shoal_op_t shoal_op_embedding = {
    .name = "shoal.embedding",
    .doc =
        "Rows of the table [V, C], of floats, by index: out[.., :] = table[ids[..], :]. An index "
        "outside [0, V) is an error, a negative one too.",
    SHOAL_OP_INPUTS("table", "ids"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(SHOAL_ATTR_PLACE_OF("place", SHOAL_INPUT(0)), PADDING_ATTR),
    .infer = embedding_infer,
    .index_count = embedding_index_count,
    .gradient = embedding_gradient,
    .cost = shoal_cost_move,
    .kernel = embedding_kernel,
    SHOAL_OP_CASES("f64[7,3], i64[5]<7", "f32[9,5], i32[2,3]<9", "f64[5,3], i32[]<5",
                   "bf16[7,3], u8[5]<7", "f32[7,3], i64[0]<7", "f64[7,3], i64[5]<6 ; padding=6"),
};

enum { ROWS, ROWS_PLACE, ROWS_PADDING };

static shoal_status_t embedding_grad_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_type_t *ids = &call->inputs[0], *dy = &call->inputs[1];
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, 0));
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 1, 1));
  REQUIRE(call, dy->shape.rank == ids->shape.rank + 1,
          "dy must have one dim more than ids, %d, not %d", ids->shape.rank + 1, dy->shape.rank);
  const shoal_shape_t leading = shoal_shape_part(&dy->shape, 0, ids->shape.rank);
  REQUIRE(call, shoal_shape_equal(&leading, &ids->shape), "dy must have the leading dims of ids");
  REQUIRE(call, call->attrs[ROWS].i >= 0, "rows is %lld: it must not be negative",
          (long long)call->attrs[ROWS].i);
  out_types[0] = (shoal_type_t){
      dy->dtype, {.rank = 2, .dims = {call->attrs[ROWS].i, dy->shape.dims[ids->shape.rank]}}};
  return shoal_check_place(call, ROWS_PLACE, &out_types[0].shape, &place);
}

OP_KERNEL(embedding_grad) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, embedding_grad_kernel);
  }
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, ROWS_PLACE, &outputs->shape, &place));
  const int64_t count = shoal_shape_count(&inputs[0].shape), width = outputs->shape.dims[1];
  const int64_t size = shoal_shape_count(&outputs->shape), padding = call->attrs[ROWS_PADDING].i;
  if (size) memset(outputs->data, 0, (size_t)size * shoal_dtype_size(outputs->dtype));
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = -1;
    SHOAL_RETURN_IF_ERROR(shoal_check_index(call, 0, &inputs[0], i, &place, 0, &at));
    if (at < 0) continue;
    if (padding >= 0 && shoal_dtype_load_int(inputs->dtype, inputs->data, i) == padding) continue;
    shoal_add_run(outputs->dtype, inputs[1].data, i * width, outputs->data, at * width, width);
  }
  return NULL;
}

// What is exchanged by rows: the ids of a group - the last dim of ids - are merged, and only merged
// rows are sent. Where each id is a group of its own there is nothing to merge, but the padding may
// be left out.
static void embedding_grad_decompose(const shoal_call_t *call, shoal_emitter_t *e,
                                     const shoal_ref_t *in, shoal_ref_t *outputs) {
  const int64_t padding = call->attrs[ROWS_PADDING].i;
  const int32_t rank = call->inputs[0].shape.rank;
  const shoal_attr_t rows = shoal_attr_int("rows", call->attrs[ROWS].i);
  shoal_ref_t ids = in[0], dy = in[1], merged[3];
  if (!shoal_emit_whole(call, e)) return;
  if (rank > 1 || padding >= 0) {
    if (rank < 2) {
      ids = shoal_emit_unsqueeze(e, ids, rank);
      dy = shoal_emit_unsqueeze(e, dy, rank);
    }
    shoal_emit(e, "shoal.embedding_rows", REFS(ids, dy),
               ATTRS(rows, shoal_attr_int("padding", padding)), 3, merged);
    ids = shoal_emit_one(e, "shoal.bound", REFS(merged[0], merged[2]), NO_ATTRS);
    dy = shoal_emit_one(e, "shoal.bound", REFS(merged[1], merged[2]), NO_ATTRS);
  }
  outputs[0] = shoal_emit_one(e, "shoal.rows_add", REFS(ids, dy), ATTRS(rows));
}

static int64_t embedding_grad_index_count(const shoal_call_t *call, int32_t input) {
  return input == 0 ? call->attrs[ROWS].i : 0;
}

static void embedding_grad_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = (double)shoal_shape_count(&call->inputs[1].shape);
}

const shoal_op_t shoal_op_embedding_grad = {
    .name = "shoal.embedding_grad",
    .doc =
        "Adjoint of embedding: zeros [rows, C] with dy[i, :] added to row ids[i], in order; the "
        "row `padding` stays 0.",
    SHOAL_OP_INPUTS("ids", "dy"),
    SHOAL_OP_OUTPUTS("dtable"),
    .sparse = true,
    SHOAL_OP_ATTRS({.name = "rows",
                    .kind = SHOAL_ATTR_INT,
                    .role = SHOAL_ROLE_SIZE,
                    .operand = SHOAL_OUTPUT(0),
                    .dim = 0,
                    .doc = "rows of the table"},
                   SHOAL_ATTR_PLACE_OF("place", SHOAL_OUTPUT(0)), PADDING_ATTR),
    .infer = embedding_grad_infer,
    .index_count = embedding_grad_index_count,
    .decompose = embedding_grad_decompose,
    .cost = embedding_grad_cost,
    .workspace = shoal_kernel_widen_bytes,
    .kernel = embedding_grad_kernel,
    SHOAL_OP_CASES("i64[5]<7, f64[5,3] ; rows=7", "i32[2,3]<9, f32[2,3,5] ; rows=9",
                   "u8[9]<3, bf16[9,3] ; rows=3", "i64[0]<3, f32[0,3] ; rows=3",
                   "i64[9]<4, f64[9,3] ; rows=4, padding=2"),
};

// ---- pick ------------------------------------------------------------------------------

static shoal_status_t pick_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_type_t *x = &call->inputs[0];
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 1));
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, 1));
  REQUIRE(call, x->shape.rank >= 1, "x needs a last dim to pick from, and has none");
  const shoal_shape_t leading = shoal_shape_part(&x->shape, 0, x->shape.rank - 1);
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, 1, &leading));
  out_types[0] = (shoal_type_t){x->dtype, leading};
  return shoal_check_place(call, 0, &x->shape, &place);
}

static int64_t pick_index_count(const shoal_call_t *call, int32_t input) {
  return input == 1 ? shoal_row_length(&call->inputs[0].shape) : 0;
}

OP_GRADIENT(pick) {
  (void)out;
  in_grads[0] =
      shoal_emit_one(e, "shoal.pick_grad", REFS(in[1], grads[0]),
                     ATTRS(shoal_attr_int("size", shoal_row_length(&call->inputs[0].shape))));
}

OP_KERNEL(pick) {
  (void)workspace;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, 0, &inputs[0].shape, &place));
  const int64_t rows = shoal_row_count(&inputs[0].shape),
                width = shoal_row_length(&inputs[0].shape);
  const size_t size = shoal_dtype_size(inputs[0].dtype);
  for (int64_t i = 0; i < rows; ++i) {
    int64_t at = -1;
    SHOAL_RETURN_IF_ERROR(
        shoal_check_index(call, 1, &inputs[1], i, &place, inputs[0].shape.rank - 1, &at));
    shoal_copy_run(size, inputs[0].data, at < 0 ? -1 : i * width + at, outputs->data, i, 1);
  }
  return NULL;
}

const shoal_op_t shoal_op_pick = {
    .name = "shoal.pick",
    .doc =
        "One element of each row: out[..] = x[.., labels[..]], of floats. A label outside [0, n), "
        "n the size of the last dim, is an error, a negative one too.",
    SHOAL_OP_INPUTS("x", "labels"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(SHOAL_ATTR_PLACE_OF("place", SHOAL_INPUT(0))),
    .infer = pick_infer,
    .index_count = pick_index_count,
    .gradient = pick_gradient,
    .cost = shoal_cost_move,
    .kernel = pick_kernel,
    SHOAL_OP_CASES("f64[5,7], i64[5]<7", "f32[2,3,5], i32[2,3]<5", "f64[7], i32[]<7",
                   "bf16[5,9], u8[5]<9"),
};

enum { SIZE, SIZE_PLACE };

static shoal_status_t pick_grad_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, 0));
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 1, 1));
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, 1, &call->inputs[0].shape));
  REQUIRE(call, call->attrs[SIZE].i >= 0, "size is %lld: it must not be negative",
          (long long)call->attrs[SIZE].i);
  out_types[0].dtype = call->inputs[1].dtype;
  SHOAL_RETURN_IF_ERROR(
      with_last(call, &call->inputs[0].shape, call->attrs[SIZE].i, &out_types[0].shape));
  return shoal_check_place(call, SIZE_PLACE, &out_types[0].shape, &place);
}

static int64_t pick_grad_index_count(const shoal_call_t *call, int32_t input) {
  return input == 0 ? call->attrs[SIZE].i : 0;
}

OP_KERNEL(pick_grad) {
  (void)workspace;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, SIZE_PLACE, &outputs->shape, &place));
  const int64_t rows = shoal_row_count(&outputs->shape), width = shoal_row_length(&outputs->shape);
  const size_t bytes = shoal_tensor_bytes(outputs), element = shoal_dtype_size(outputs->dtype);
  if (bytes) memset(outputs->data, 0, bytes);
  for (int64_t i = 0; i < rows; ++i) {
    int64_t at = -1;
    SHOAL_RETURN_IF_ERROR(
        shoal_check_index(call, 0, &inputs[0], i, &place, outputs->shape.rank - 1, &at));
    if (at >= 0) shoal_copy_run(element, inputs[1].data, i, outputs->data, i * width + at, 1);
  }
  return NULL;
}

const shoal_op_t shoal_op_pick_grad = {
    .name = "shoal.pick_grad",
    .doc = "Adjoint of pick: zeros with dy[..] at [.., labels[..]].",
    SHOAL_OP_INPUTS("labels", "dy"),
    SHOAL_OP_OUTPUTS("dx"),
    SHOAL_OP_ATTRS({.name = "size",
                    .kind = SHOAL_ATTR_INT,
                    .role = SHOAL_ROLE_SIZE,
                    .operand = SHOAL_OUTPUT(0),
                    .dim = -1,
                    .doc = "size of the last dim"},
                   SHOAL_ATTR_PLACE_OF("place", SHOAL_OUTPUT(0))),
    .infer = pick_grad_infer,
    .index_count = pick_grad_index_count,
    .cost = shoal_cost_move,
    .kernel = pick_grad_kernel,
    SHOAL_OP_CASES("i64[5]<7, f64[5] ; size=7", "i32[2,3]<5, f32[2,3] ; size=5",
                   "i32[]<7, f64[] ; size=7", "u8[5]<9, bf16[5] ; size=9"),
};
