// Rows that belong to segments (the edges of a graph's nodes, tokens of a sequence).
//   segment_sum      x [N, ..]  ids [N]  out [segments, ..]: the sum of each segment's rows, or 0
//   segment_max      x [N, ..]  ids [N]  out [segments, ..]: their maximum, or -inf
//   segment_softmax  x [N, ..]  ids [N]  out [N, ..]: exp(x - max) / sum, both over the segment
// Rows come in any order. Sums and maxima of a part of the rows are partial ones; the softmax needs
// all rows of a segment at once, and is cut along rows in phases.
#include <math.h>

#include "op/families/along.h"
#include "op/families/emit.h"
#include "op/families/sort.h"

enum { X, IDS };
enum { SEGMENTS, PLACE };

static shoal_status_t check_rows(const shoal_call_t *call) {
  const shoal_shape_t *x = &call->inputs[X].shape;
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, IDS));
  REQUIRE(call, x->rank >= 1, "x needs a dim of rows, and has no dims");
  const shoal_shape_t rows = shoal_shape_part(x, 0, 1);
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, IDS, &rows));
  REQUIRE(call, call->attrs[SEGMENTS].i >= 0, "segments is %lld: it must not be negative",
          (long long)call->attrs[SEGMENTS].i);
  return NULL;
}

static int64_t segment_index_count(const shoal_call_t *call, int32_t input) {
  return input == IDS ? call->attrs[SEGMENTS].i : 0;
}

static shoal_status_t segments_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(check_rows(call));
  out_types[0] = call->inputs[X];
  out_types[0].shape.dims[0] = call->attrs[SEGMENTS].i;
  return shoal_check_dims(call, PLACE, &out_types[0].shape, &place);
}

static shoal_ref_t emit_rows(shoal_emitter_t *e, shoal_ref_t of_segments, shoal_ref_t ids) {
  return shoal_emit_one(e, "shoal.gather", REFS(of_segments, ids),
                        ATTRS(shoal_attr_int("axis", 0)));
}

static shoal_ref_t emit_segments(shoal_emitter_t *e, const char *op, shoal_ref_t x, shoal_ref_t ids,
                                 int64_t segments) {
  return shoal_emit_one(e, op, REFS(x, ids), ATTRS(shoal_attr_int("segments", segments)));
}

#define SEGMENTS_ATTR                                                                            \
  {                                                                                              \
    .name = "segments", .kind = SHOAL_ATTR_INT, .role = SHOAL_ROLE_SIZE,                         \
    .operand = SHOAL_OUTPUT(0), .dim = 0, .doc = "how many segments there are: ids are below it" \
  }

static void rows_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = (double)shoal_shape_count(&call->inputs[X].shape);
}

// ---- segment_sum -----------------------------------------------------------------------

static shoal_status_t segment_sum_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(shoal_check_number(call, X));
  return segments_infer(call, out_types);
}

OP_GRADIENT(segment_sum) {
  (void)call, (void)out;
  in_grads[X] = emit_rows(e, grads[0], in[IDS]);
}

OP_KERNEL(segment_sum) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, segment_sum_kernel);
  }
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_dims(call, PLACE, &outputs->shape, &place));
  const shoal_along_t x = shoal_along_of(&inputs[X].shape, 0);
  const size_t bytes = shoal_tensor_bytes(outputs);
  if (bytes) memset(outputs->data, 0, bytes);
  for (int64_t i = 0; i < x.size; ++i) {
    int64_t at = -1;
    SHOAL_RETURN_IF_ERROR(shoal_check_index(call, IDS, &inputs[IDS], i, &place, 0, &at));
    if (at < 0) continue;
    shoal_add_run(outputs->dtype, inputs[X].data, i * x.inner, outputs->data, at * x.inner,
                  x.inner);
  }
  return NULL;
}

const shoal_op_t shoal_op_segment_sum = {
    .name = "shoal.segment_sum",
    .doc =
        "out[s, ..] is the sum of the rows x[i, ..] with ids[i] = s, in order; 0 where there is "
        "none. Rows come in any order of ids. Numbers, not bools; half-size floats are added in "
        "f32. An index outside [0, segments) is an error, a negative one too.",
    SHOAL_OP_INPUTS("x", "ids"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(SEGMENTS_ATTR, SHOAL_ATTR_PLACE_OF("place", SHOAL_OUTPUT(0))),
    .infer = segment_sum_infer,
    .index_count = segment_index_count,
    .gradient = segment_sum_gradient,
    .cost = rows_cost,
    .workspace = shoal_kernel_widen_bytes,
    .kernel = segment_sum_kernel,
    SHOAL_OP_CASES("f64[9,3], i64[9]<4 ; segments=4", "f32[7,2,3], i32[7]<3 ; segments=3",
                   "bf16[9,1], u8[9]<2 ; segments=2", "i64[7,2]<50, i64[7]<5 ; segments=5",
                   "f32[0,3], i64[0]<3 ; segments=3"),
};

// ---- segment_max -----------------------------------------------------------------------

static shoal_status_t segment_max_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, X, 1));
  return segments_infer(call, out_types);
}

// Rows that are equally large share the gradient.
OP_GRADIENT(segment_max) {
  const shoal_dtype_t dtype = call->inputs[X].dtype;
  const shoal_ref_t hit = shoal_emit_binary(e, "shoal.equal", in[X], emit_rows(e, out[0], in[IDS]));
  const shoal_ref_t one = shoal_emit_cast(e, hit, dtype);
  const shoal_ref_t count = shoal_emit_binary(
      e, "shoal.maximum",
      emit_segments(e, "shoal.segment_sum", one, in[IDS], call->attrs[SEGMENTS].i),
      shoal_emit_scalar(e, dtype, 1));
  const shoal_ref_t share = shoal_emit_binary(e, "shoal.div", grads[0], count);
  in_grads[X] = shoal_emit_binary(e, "shoal.mul", one, emit_rows(e, share, in[IDS]));
}

OP_KERNEL(segment_max) {
  (void)workspace;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_dims(call, PLACE, &outputs->shape, &place));
  const shoal_along_t x = shoal_along_of(&inputs[X].shape, 0);
  const shoal_dtype_t dtype = outputs->dtype;
  for (int64_t i = 0; i < shoal_shape_count(&outputs->shape); ++i) {
    shoal_dtype_store(dtype, outputs->data, i, -INFINITY);
  }
  for (int64_t i = 0; i < x.size; ++i) {
    int64_t at = -1;
    SHOAL_RETURN_IF_ERROR(shoal_check_index(call, IDS, &inputs[IDS], i, &place, 0, &at));
    for (int64_t c = 0; at >= 0 && c < x.inner; ++c) {
      const double value = shoal_dtype_load(dtype, inputs[X].data, i * x.inner + c);
      const double best = shoal_dtype_load(dtype, outputs->data, at * x.inner + c);
      if (value > best || isnan(value)) {
        shoal_dtype_store(dtype, outputs->data, at * x.inner + c, value);
      }
    }
  }
  return NULL;
}

const shoal_op_t shoal_op_segment_max = {
    .name = "shoal.segment_max",
    .doc =
        "out[s, ..] is the maximum of the rows x[i, ..], of floats, with ids[i] = s; -inf where "
        "there is none, NaN where one is. Rows that are equally large share the gradient. An index "
        "outside [0, segments) is an error, a negative one too.",
    SHOAL_OP_INPUTS("x", "ids"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(SEGMENTS_ATTR, SHOAL_ATTR_PLACE_OF("place", SHOAL_OUTPUT(0))),
    .infer = segment_max_infer,
    .index_count = segment_index_count,
    .gradient = segment_max_gradient,
    .cost = rows_cost,
    .kernel = segment_max_kernel,
    SHOAL_OP_CASES("f64[9,3], i64[9]<2 ; segments=2", "f32[11,2,3], i32[11]<3 ; segments=3",
                   "bf16[9,1], u8[9]<2 ; segments=2", "f32[0,3], i64[0]<3 ; segments=3"),
};

// ---- segment_softmax -------------------------------------------------------------------

static shoal_status_t segment_softmax_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, X, 1));
  SHOAL_RETURN_IF_ERROR(check_rows(call));
  SHOAL_RETURN_IF_ERROR(shoal_check_dims(call, PLACE, &call->inputs[X].shape, &place));
  // Refused rather than left to discovery: on its small examples a part may happen to hold all rows
  // of the segments it sees.
  REQUIRE(call, place.whole.dims[0] == place.part.dims[0],
          "a part of the rows does not know the other rows of its segments");
  out_types[0] = call->inputs[X];
  return NULL;
}

// y * (dy - the segment's sum of y * dy)
OP_GRADIENT(segment_softmax) {
  const shoal_ref_t weighed = shoal_emit_binary(e, "shoal.mul", out[0], grads[0]);
  const shoal_ref_t sum =
      emit_segments(e, "shoal.segment_sum", weighed, in[IDS], call->attrs[SEGMENTS].i);
  in_grads[X] =
      shoal_emit_binary(e, "shoal.sub", weighed,
                        shoal_emit_binary(e, "shoal.mul", out[0], emit_rows(e, sum, in[IDS])));
}

static void segment_softmax_decompose(const shoal_call_t *call, shoal_emitter_t *e,
                                      const shoal_ref_t *in, shoal_ref_t *outputs) {
  const int64_t segments = call->attrs[SEGMENTS].i;
  if (!shoal_emit_whole(call, e)) return;
  const shoal_ref_t most = emit_segments(e, "shoal.segment_max", in[X], in[IDS], segments);
  const shoal_ref_t p = shoal_emit_unary(
      e, "shoal.exp", shoal_emit_binary(e, "shoal.sub", in[X], emit_rows(e, most, in[IDS])));
  const shoal_ref_t sum = emit_segments(e, "shoal.segment_sum", p, in[IDS], segments);
  outputs[0] = shoal_emit_binary(e, "shoal.div", p, emit_rows(e, sum, in[IDS]));
}

// The softmax of rows order[0 .. count) in column c.
static void soften(const shoal_tensor_t *x, const shoal_tensor_t *out, const int64_t *order,
                   int64_t count, int64_t width, int64_t c) {
  double most = -INFINITY, sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double value = shoal_dtype_load(x->dtype, x->data, order[i] * width + c);
    if (value > most || isnan(value)) most = value;
  }
  for (int64_t i = 0; i < count; ++i) {
    sum += exp(shoal_dtype_load(x->dtype, x->data, order[i] * width + c) - most);
  }
  for (int64_t i = 0; i < count; ++i) {
    const double value = shoal_dtype_load(x->dtype, x->data, order[i] * width + c);
    shoal_dtype_store(out->dtype, out->data, order[i] * width + c, exp(value - most) / sum);
  }
}

static int64_t segment_softmax_workspace(const shoal_call_t *call) {
  return shoal_sort_bytes(call->inputs[X].shape.dims[0]);
}

// Rows in the order of their segments, one segment after the other.
OP_KERNEL(segment_softmax) {
  const shoal_along_t x = shoal_along_of(&inputs[X].shape, 0);
  const shoal_tensor_t *ids = &inputs[IDS];
  const shoal_shape_t segments = SHOAL_SHAPE(call->attrs[SEGMENTS].i);
  const shoal_place_t all = shoal_place_whole(&segments);
  const shoal_sort_t sort = {ids, 0, 1, x.size, false};
  int64_t at;
  for (int64_t i = 0; i < x.size; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_check_index(call, IDS, ids, i, &all, 0, &at));
  }
  const int64_t *order = shoal_sort_run(&sort, workspace);
  for (int64_t i = 0, next; i < x.size; i = next) {
    for (next = i + 1; next < x.size && !shoal_sort_before(&sort, order[i], order[next]);) ++next;
    for (int64_t c = 0; c < x.inner; ++c) {
      soften(&inputs[X], outputs, order + i, next - i, x.inner, c);
    }
  }
  return NULL;
}

static void segment_softmax_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = 5 * (double)shoal_shape_count(&call->inputs[X].shape);
}

const shoal_op_t shoal_op_segment_softmax = {
    .name = "shoal.segment_softmax",
    .doc =
        "The softmax of each column of x, of floats, over the rows with the same ids[i]: exp(x - "
        "max) / sum; NaN where all of them are -inf. Rows come in any order of ids. An index "
        "outside [0, segments) is an error, a negative one too.",
    SHOAL_OP_INPUTS("x", "ids"),
    SHOAL_OP_OUTPUTS("out"),
    .uncut = "rows (dim 0): a segment's rows are normalised together; it is cut in phases",
    SHOAL_OP_ATTRS({.name = "segments",
                    .kind = SHOAL_ATTR_INT,
                    .role = SHOAL_ROLE_COUNT,
                    .doc = "how many segments there are: ids are below it"},
                   SHOAL_ATTR_PLACE_OF("place", SHOAL_INPUT(X))),
    .infer = segment_softmax_infer,
    .index_count = segment_index_count,
    .gradient = segment_softmax_gradient,
    .decompose = segment_softmax_decompose,
    .cost = segment_softmax_cost,
    .workspace = segment_softmax_workspace,
    .kernel = segment_softmax_kernel,
    SHOAL_OP_CASES("f64[9,3], i64[9]<4 ; segments=4", "f32[7,2,3], i32[7]<3 ; segments=3",
                   "bf16[9,1], u8[9]<2 ; segments=2", "f64[5], i64[5]<9 ; segments=9",
                   "f32[0,3], i64[0]<3 ; segments=3"),
};
