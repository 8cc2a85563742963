// Bags of rows of a table.
//   embedding_bag  table [V, C]  ids [N]  offsets [B]  weights [N]   out [B, C]
//                  bag b has ids[offsets[b] .. offsets[b + 1]), the last one all that follow; their
//                  rows are summed (each times its weight, if given), averaged, or their maximum is
//                  taken. An empty bag gives 0.
//   bag_index      offsets [B]   out [count]: which bag each of `count` elements is in
// Offsets that go back count as the one before them, and the first as 0: bags follow one another
// from the first element to the last. A row of the table that lies in another part contributes the
// identity: 0, or -inf where the maximum is taken.
#include <math.h>

#include "op/families/along.h"
#include "op/families/emit.h"

// Where bag b ends, if it begins at `begin`: where the next one begins. Its own offset is looked at
// only to refuse a wrong one.
static shoal_status_t end_of_bag(const shoal_call_t *call, int32_t input,
                                 const shoal_tensor_t *offsets, int64_t b, int64_t begin,
                                 int64_t count, int64_t *out_end) {
  const shoal_shape_t range = SHOAL_SHAPE(count + 1);
  const shoal_place_t all = shoal_place_whole(&range);
  int64_t own, next = count;
  SHOAL_RETURN_IF_ERROR(shoal_check_index(call, input, offsets, b, &all, 0, &own));
  if (b + 1 < offsets->shape.dims[0]) {
    SHOAL_RETURN_IF_ERROR(shoal_check_index(call, input, offsets, b + 1, &all, 0, &next));
  }
  *out_end = next > begin ? next : begin;
  return NULL;
}

// ---- bag_index -------------------------------------------------------------------------

enum { COUNT, INDEX_PLACE };

static shoal_status_t bag_index_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const int64_t count = call->attrs[COUNT].i;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_rank(call, 0, 1));
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, 0));
  REQUIRE(call, count >= 0, "count is %lld: it must not be negative", (long long)count);
  out_types[0] = (shoal_type_t){SHOAL_I64, SHOAL_SHAPE(count)};
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, INDEX_PLACE, &out_types[0].shape, &place));
  REQUIRE(call, call->inputs[0].shape.dims[0] >= 1 || place.whole.dims[0] == 0,
          "%lld elements need a bag, and offsets is empty", (long long)place.whole.dims[0]);
  return NULL;
}

static int64_t bag_index_index_count(const shoal_call_t *call, int32_t input) {
  return input == 0 ? call->attrs[COUNT].i + 1 : 0;
}

OP_KERNEL(bag_index) {
  (void)workspace;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, INDEX_PLACE, &outputs->shape, &place));
  const int64_t bags = inputs->shape.dims[0], size = outputs->shape.dims[0];
  int64_t *out = outputs->data, i = 0;
  for (int64_t b = 0, end = 0; b < bags; ++b) {
    SHOAL_RETURN_IF_ERROR(end_of_bag(call, 0, inputs, b, end, place.whole.dims[0], &end));
    while (i < size && shoal_place_global(&place, i) < end) out[i++] = b;
  }
  return NULL;
}

const shoal_op_t shoal_op_bag_index = {
    .name = "shoal.bag_index",
    .doc =
        "Which bag each of count elements is in, where bag b begins at offsets[b]. Offsets that go "
        "back count as the one before them, and the first as 0. An offset outside [0, count] is an "
        "error.",
    SHOAL_OP_INPUTS("offsets"),
    SHOAL_OP_OUTPUTS("out"),
    .uncut = "offsets: where a bag ends is said by the next one",
    SHOAL_OP_ATTRS({.name = "count",
                    .kind = SHOAL_ATTR_INT,
                    .role = SHOAL_ROLE_SIZE,
                    .operand = SHOAL_OUTPUT(0),
                    .doc = "how many elements there are"},
                   SHOAL_ATTR_PLACE_OF("place", SHOAL_OUTPUT(0))),
    .infer = bag_index_infer,
    .index_count = bag_index_index_count,
    .gradient = shoal_gradient_none,
    .cost = shoal_cost_move,
    .kernel = bag_index_kernel,
    SHOAL_OP_CASES("i64[3]<10 ; count=9", "i32[5]<6 ; count=5", "u8[1]<8 ; count=7",
                   "i64[4]<1 ; count=0"),
};

// ---- embedding_bag ---------------------------------------------------------------------

enum { TABLE, IDS, OFFSETS, WEIGHTS };
enum { MODE, PLACE };

static const char *const MODES[] = {"sum", "mean", "max"};

static bool is_mode(const shoal_call_t *call, const char *mode) {
  return strcmp(call->attrs[MODE].s, mode) == 0;
}

static shoal_status_t embedding_bag_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_shape_t *table = &call->inputs[TABLE].shape, *ids = &call->inputs[IDS].shape;
  const int32_t weights = GIVEN(call, WEIGHTS);
  int32_t mode;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, TABLE, 1));
  SHOAL_RETURN_IF_ERROR(shoal_check_rank(call, TABLE, 2));
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, IDS));
  SHOAL_RETURN_IF_ERROR(shoal_check_rank(call, IDS, 1));
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, OFFSETS));
  SHOAL_RETURN_IF_ERROR(shoal_check_rank(call, OFFSETS, 1));
  SHOAL_RETURN_IF_ERROR(shoal_check_choice(call, MODE, MODES, 3, &mode));
  const int64_t bags = call->inputs[OFFSETS].shape.dims[0];
  REQUIRE(call, bags >= 1 || ids->dims[0] == 0, "%lld ids need a bag, and offsets is empty",
          (long long)ids->dims[0]);
  if (weights >= 0) {
    REQUIRE(call, is_mode(call, "sum"), "weights are for mode 'sum', not for mode '%s'",
            call->attrs[MODE].s);
    SHOAL_RETURN_IF_ERROR(shoal_check_same_dtype(call, TABLE, weights));
    SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, weights, ids));
  }
  out_types[0] = (shoal_type_t){call->inputs[TABLE].dtype, SHOAL_SHAPE(bags, table->dims[1])};
  return shoal_check_dims(call, PLACE, table, &place);
}

static int64_t embedding_bag_index_count(const shoal_call_t *call, int32_t input) {
  if (input == OFFSETS) return call->inputs[IDS].shape.dims[0] + 1;
  return input == IDS ? call->inputs[TABLE].shape.dims[0] : 0;
}

// ---- its parts -------------------------------------------------------------------------

static shoal_ref_t emit_gather(shoal_emitter_t *e, shoal_ref_t x, shoal_ref_t ids) {
  return shoal_emit_one(e, "shoal.gather", REFS(x, ids), ATTRS(shoal_attr_int("axis", 0)));
}

static shoal_ref_t emit_segments(shoal_emitter_t *e, const char *op, shoal_ref_t x,
                                 shoal_ref_t bags, int64_t count) {
  return shoal_emit_one(e, op, REFS(x, bags), ATTRS(shoal_attr_int("segments", count)));
}

static shoal_ref_t emit_bags(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in) {
  return shoal_emit_one(e, "shoal.bag_index", REFS(in[OFFSETS]),
                        ATTRS(shoal_attr_int("count", call->inputs[IDS].shape.dims[0])));
}

// How many ids each bag has, at least 1, as a column.
static shoal_ref_t emit_sizes(const shoal_call_t *call, shoal_emitter_t *e, shoal_ref_t bags) {
  const shoal_dtype_t dtype = shoal_statistics_dtype(call->inputs[TABLE].dtype);
  const shoal_ref_t ones =
      shoal_emit_one(e, "shoal.full", NO_REFS,
                     ATTRS(shoal_attr_shape("shape", &call->inputs[IDS].shape),
                           shoal_attr_real("value", 1), shoal_attr_dtype("dtype", dtype)));
  const shoal_ref_t sizes =
      emit_segments(e, "shoal.segment_sum", ones, bags, call->inputs[OFFSETS].shape.dims[0]);
  return shoal_emit_unsqueeze(e, sizes, 1);
}

static shoal_ref_t emit_mean(const shoal_call_t *call, shoal_emitter_t *e, shoal_ref_t sum,
                             shoal_ref_t bags) {
  const shoal_dtype_t dtype = call->inputs[TABLE].dtype, wide = shoal_statistics_dtype(dtype);
  const shoal_ref_t sizes = shoal_emit_binary(e, "shoal.maximum", emit_sizes(call, e, bags),
                                              shoal_emit_scalar(e, wide, 1));
  return shoal_emit_cast(e, shoal_emit_binary(e, "shoal.div", shoal_emit_cast(e, sum, wide), sizes),
                         dtype);
}

static void embedding_bag_decompose(const shoal_call_t *call, shoal_emitter_t *e,
                                    const shoal_ref_t *in, shoal_ref_t *outputs) {
  if (!shoal_emit_whole(call, e)) return;
  const int32_t weights = GIVEN(call, WEIGHTS);
  const int64_t count = call->inputs[OFFSETS].shape.dims[0];
  const shoal_dtype_t dtype = call->inputs[TABLE].dtype;
  const shoal_ref_t bags = emit_bags(call, e, in);
  shoal_ref_t rows = emit_gather(e, in[TABLE], in[IDS]);
  if (weights >= 0) {
    rows = shoal_emit_binary(e, "shoal.mul", rows, shoal_emit_unsqueeze(e, in[weights], 1));
  }
  if (is_mode(call, "max")) {
    const shoal_ref_t used =
        shoal_emit_binary(e, "shoal.greater_equal", emit_sizes(call, e, bags),
                          shoal_emit_scalar(e, shoal_statistics_dtype(dtype), 1));
    const shoal_ref_t most = emit_segments(e, "shoal.segment_max", rows, bags, count);
    outputs[0] = shoal_emit_where(e, used, most, shoal_emit_scalar(e, dtype, 0));
    return;
  }
  outputs[0] = emit_segments(e, "shoal.segment_sum", rows, bags, count);
  if (is_mode(call, "mean")) outputs[0] = emit_mean(call, e, outputs[0], bags);
}

// What each of the N ids gets of dy: all, its share of the bag, or of those that are the maximum.
OP_GRADIENT(embedding_bag) {
  const int32_t weights = GIVEN(call, WEIGHTS);
  const shoal_dtype_t dtype = call->inputs[TABLE].dtype;
  const shoal_ref_t bags = emit_bags(call, e, in);
  shoal_ref_t dy = grads[0], rows = SHOAL_NO_REF, hit = SHOAL_NO_REF;
  if (weights >= 0 || is_mode(call, "max")) rows = emit_gather(e, in[TABLE], in[IDS]);
  if (is_mode(call, "mean")) dy = emit_mean(call, e, dy, bags);
  if (is_mode(call, "max")) {
    hit = shoal_emit_cast(
        e, shoal_emit_binary(e, "shoal.equal", rows, emit_gather(e, out[0], bags)), dtype);
    const shoal_ref_t hits =
        emit_segments(e, "shoal.segment_sum", hit, bags, call->inputs[OFFSETS].shape.dims[0]);
    dy = shoal_emit_binary(
        e, "shoal.div", dy,
        shoal_emit_binary(e, "shoal.maximum", hits, shoal_emit_scalar(e, dtype, 1)));
  }
  shoal_ref_t share = emit_gather(e, dy, bags);
  if (hit != SHOAL_NO_REF) share = shoal_emit_binary(e, "shoal.mul", share, hit);
  if (weights >= 0) {
    in_grads[weights] = shoal_emit_reduce(e, "shoal.reduce_sum",
                                          shoal_emit_binary(e, "shoal.mul", share, rows), 1, false);
    share = shoal_emit_binary(e, "shoal.mul", share, shoal_emit_unsqueeze(e, in[weights], 1));
  }
  in_grads[TABLE] =
      shoal_emit_one(e, "shoal.embedding_grad", REFS(in[IDS], share),
                     ATTRS(shoal_attr_int("rows", call->inputs[TABLE].shape.dims[0])));
}

// ---- kernel and record -----------------------------------------------------------------

typedef struct bag {
  int64_t begin, end;
  double *row;  // what was joined so far
} bag_t;

// Joins the rows of a bag.
static shoal_status_t fill_bag(const shoal_call_t *call, const shoal_tensor_t *inputs,
                               const shoal_place_t *place, bool max, const bag_t *bag) {
  const shoal_tensor_t *table = &inputs[TABLE];
  const int64_t width = table->shape.dims[1];
  const int32_t weights = GIVEN(call, WEIGHTS);
  for (int64_t c = 0; c < width; ++c) bag->row[c] = max && bag->end > bag->begin ? -INFINITY : 0;
  for (int64_t i = bag->begin; i < bag->end; ++i) {
    int64_t at = -1;
    SHOAL_RETURN_IF_ERROR(shoal_check_index(call, IDS, &inputs[IDS], i, place, 0, &at));
    const double weight =
        weights < 0 ? 1 : shoal_dtype_load(inputs[weights].dtype, inputs[weights].data, i);
    for (int64_t c = 0; at >= 0 && c < width; ++c) {
      const double value = shoal_dtype_load(table->dtype, table->data, at * width + c);
      if (!max) {
        bag->row[c] += weight * value;
      } else if (value > bag->row[c] || isnan(value)) {
        bag->row[c] = value;
      }
    }
  }
  return NULL;
}

OP_KERNEL(embedding_bag) {
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_dims(call, PLACE, &inputs[TABLE].shape, &place));
  const int64_t count = inputs[IDS].shape.dims[0], bags = inputs[OFFSETS].shape.dims[0];
  const int64_t width = outputs->shape.dims[1];
  const bool mean = is_mode(call, "mean");
  bag_t bag = {.row = workspace};
  for (int64_t b = 0; b < bags; ++b, bag.begin = bag.end) {
    SHOAL_RETURN_IF_ERROR(
        end_of_bag(call, OFFSETS, &inputs[OFFSETS], b, bag.begin, count, &bag.end));
    SHOAL_RETURN_IF_ERROR(fill_bag(call, inputs, &place, is_mode(call, "max"), &bag));
    const double by = mean && bag.end > bag.begin ? (double)(bag.end - bag.begin) : 1;
    for (int64_t c = 0; c < width; ++c) {
      shoal_dtype_store(outputs->dtype, outputs->data, b * width + c, bag.row[c] / by);
    }
  }
  return NULL;
}

static int64_t embedding_bag_workspace(const shoal_call_t *call) {
  return shoal_align64(call->inputs[TABLE].shape.dims[1] * (int64_t)sizeof(double));
}

static void embedding_bag_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops =
      2 * (double)call->inputs[IDS].shape.dims[0] * (double)call->inputs[TABLE].shape.dims[1];
}

const shoal_op_t shoal_op_embedding_bag = {
    .name = "shoal.embedding_bag",
    .doc =
        "Rows of the table [V, C] joined in bags: out[b, :] is the sum (each row times its weight, "
        "if given), the mean or the maximum of the rows ids[offsets[b] .. offsets[b + 1]), 0 for "
        "an empty bag. Offsets that go back count as the one before them, and the first as 0. Rows "
        "that are equally large share the gradient of a maximum. An id outside [0, V) and an "
        "offset outside [0, N], of N ids, are errors.",
    SHOAL_OP_INPUTS("table", "ids", "offsets", "weights"),
    SHOAL_OP_OUTPUTS("out"),
    .optional = 1,
    .uncut = "ids and offsets: where a bag ends is said by the next one",
    SHOAL_OP_ATTRS(
        {.name = "mode", .kind = SHOAL_ATTR_STRING, .doc = "sum, mean or max; weights are for sum"},
        SHOAL_ATTR_PLACE_OF("place", SHOAL_INPUT(TABLE)), SHOAL_ATTR_WITH),
    .infer = embedding_bag_infer,
    .index_count = embedding_bag_index_count,
    .gradient = embedding_bag_gradient,
    .decompose = embedding_bag_decompose,
    .cost = embedding_bag_cost,
    .workspace = embedding_bag_workspace,
    .kernel = embedding_bag_kernel,
    SHOAL_OP_CASES("f64[5,3], i64[9]<5, i64[4]<10 ; mode=\"sum\"",
                   "f32[5,3], i32[9]<5, i32[4]<10, f32[9] ; mode=\"sum\", with=\"weights\"",
                   "f64[5,3], u8[9]<5, u8[4]<10 ; mode=\"mean\"",
                   "f32[5,1], i64[9]<5, i64[4]<10 ; mode=\"max\"",
                   "bf16[5,3], i64[9]<5, i64[2]<10, bf16[9] ; mode=\"sum\", with=\"weights\"",
                   "f32[5,3], i64[0]<5, i64[2]<1 ; mode=\"mean\""),
};
