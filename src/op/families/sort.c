// sort and top_k along a dim.
//   sort   x [a.., n, b..]  values, indices [a.., n, b..]  stable; NaN is larger than every number
//   top_k  x [a.., n, b..]  values, indices [a.., k, b..]  the k largest (smallest), in order, the
//                                                          first of equals first
// The dim itself is not cut by a way: which element comes when depends on all of them. top_k is
// also computed in phases: k times the extreme of what is left, with the reductions between ranks
// that this takes.
#include "op/families/sort.h"

#include <math.h>

#include "op/families/along.h"
#include "op/families/emit.h"

// ---- a stable order --------------------------------------------------------------------

static bool is_less(const shoal_tensor_t *x, int64_t a, int64_t b) {
  if (!shoal_dtype_is_float(x->dtype)) {
    return shoal_dtype_load_int(x->dtype, x->data, a) < shoal_dtype_load_int(x->dtype, x->data, b);
  }
  const double left = shoal_dtype_load(x->dtype, x->data, a);
  const double right = shoal_dtype_load(x->dtype, x->data, b);
  return left < right || (isnan(right) && !isnan(left));
}

bool shoal_sort_before(const shoal_sort_t *sort, int64_t a, int64_t b) {
  const int64_t left = sort->first + a * sort->stride, right = sort->first + b * sort->stride;
  return sort->descending ? is_less(sort->x, right, left) : is_less(sort->x, left, right);
}

int64_t shoal_sort_bytes(int64_t count) {
  return shoal_align64(2 * count * (int64_t)sizeof(int64_t));
}

// Merges runs of `width` from one half of the scratch into the other.
static void merge_runs(const shoal_sort_t *sort, int64_t width, const int64_t *from, int64_t *to) {
  for (int64_t start = 0; start < sort->count; start += 2 * width) {
    const int64_t middle = start + width < sort->count ? start + width : sort->count;
    const int64_t end = middle + width < sort->count ? middle + width : sort->count;
    int64_t left = start, right = middle;
    for (int64_t i = start; i < end; ++i) {
      const bool second =
          left == middle || (right < end && shoal_sort_before(sort, from[right], from[left]));
      to[i] = from[second ? right++ : left++];
    }
  }
}

const int64_t *shoal_sort_run(const shoal_sort_t *sort, void *scratch) {
  int64_t *from = scratch, *to = from + sort->count;
  for (int64_t i = 0; i < sort->count; ++i) from[i] = i;
  for (int64_t width = 1; width < sort->count; width *= 2) {
    merge_runs(sort, width, from, to);
    int64_t *other = from;
    from = to;
    to = other;
  }
  return from;
}

// ---- sort ------------------------------------------------------------------------------

enum { AXIS, DESCENDING };

static shoal_status_t sort_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  int32_t axis;
  SHOAL_RETURN_IF_ERROR(
      shoal_check_axis(call, call->attrs[AXIS].i, call->inputs[0].shape.rank, &axis));
  SHOAL_RETURN_IF_ERROR(shoal_check_number(call, 0));
  out_types[0] = call->inputs[0];
  out_types[1] = (shoal_type_t){SHOAL_I64, call->inputs[0].shape};
  return NULL;
}

// Where values came from gets their gradient.
static shoal_ref_t emit_back(const shoal_call_t *call, shoal_emitter_t *e, shoal_ref_t indices,
                             shoal_ref_t dy, int64_t axis) {
  if (dy == SHOAL_NO_REF) return SHOAL_NO_REF;
  return shoal_emit_one(
      e, "shoal.take_along_grad", REFS(indices, dy),
      ATTRS(shoal_attr_int("axis", axis), shoal_attr_shape("shape", &call->inputs[0].shape)));
}

OP_GRADIENT(sort) {
  (void)in;
  in_grads[0] = emit_back(call, e, out[1], grads[0], call->attrs[AXIS].i);
}

static int64_t sort_workspace(const shoal_call_t *call) {
  const shoal_shape_t *x = &call->inputs[0].shape;
  return shoal_sort_bytes(x->dims[shoal_normal_axis(call->attrs[AXIS].i, x->rank)]);
}

// The first `kept` of an order as values and indices.
static void write_order(const shoal_sort_t *sort, const int64_t *order, int64_t kept,
                        const shoal_tensor_t *outputs, int64_t first, int64_t stride) {
  const size_t size = shoal_dtype_size(sort->x->dtype);
  for (int64_t i = 0; i < kept; ++i) {
    shoal_copy_run(size, sort->x->data, sort->first + order[i] * sort->stride, outputs[0].data,
                   first + i * stride, 1);
    ((int64_t *)outputs[1].data)[first + i * stride] = order[i];
  }
}

OP_KERNEL(sort) {
  const shoal_along_t x =
      shoal_along_of(&inputs->shape, shoal_normal_axis(call->attrs[AXIS].i, inputs->shape.rank));
  for (int64_t row = 0; row < x.outer * x.inner; ++row) {
    const int64_t first = row / x.inner * x.size * x.inner + row % x.inner;
    const shoal_sort_t sort = {inputs, first, x.inner, x.size, call->attrs[DESCENDING].i != 0};
    write_order(&sort, shoal_sort_run(&sort, workspace), x.size, outputs, first, x.inner);
  }
  return NULL;
}

static double log_of(int64_t count) {
  return count > 1 ? log2((double)count) : 1;
}

static void sort_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  const shoal_shape_t *x = &call->inputs[0].shape;
  const int64_t size = x->dims[shoal_normal_axis(call->attrs[AXIS].i, x->rank)];
  out_cost->flops = (double)shoal_shape_count(x) * log_of(size);
}

#define SORT_NAN "NaN counts as larger than every number"

const shoal_op_t shoal_op_sort = {
    .name = "shoal.sort",
    .doc =
        "x in ascending order along axis, and, as i64, the index along axis that each element came "
        "from. Equal elements keep their order, also where it is descending. Numbers, not bools.",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("values", "indices"),
    .jumps = true,
    .uncut = "axis: where an element comes depends on all others",
    .nan = SORT_NAN,
    SHOAL_OP_ATTRS(SHOAL_ATTR_AXIS, {.name = "descending",
                                     .kind = SHOAL_ATTR_INT,
                                     .optional = true,
                                     .doc = "1: the largest first"}),
    .infer = sort_infer,
    .gradient = sort_gradient,
    .cost = sort_cost,
    .workspace = sort_workspace,
    .kernel = sort_kernel,
    SHOAL_OP_CASES("f64[3,7] ; axis=1", "f32[5,3,2] ; axis=0, descending=1",
                   "bf16[3,5] ; axis=-1, descending=1", "i64[3,9]<4 ; axis=1", "f32[3,1] ; axis=1",
                   "f64[3,0] ; axis=1"),
};

// ---- top_k -----------------------------------------------------------------------------

enum { K, TOP_AXIS, LARGEST };
enum { FEW = 64 };  // so many are kept in order as they come; for more, all are sorted

static shoal_status_t top_k_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_type_t x = call->inputs[0];
  const int64_t k = call->attrs[K].i;
  int32_t axis;
  SHOAL_RETURN_IF_ERROR(shoal_check_axis(call, call->attrs[TOP_AXIS].i, x.shape.rank, &axis));
  SHOAL_RETURN_IF_ERROR(shoal_check_number(call, 0));
  REQUIRE(call, k >= 0 && k <= x.shape.dims[axis], "k is %lld, and dim %d has %lld elements",
          (long long)k, axis, (long long)x.shape.dims[axis]);
  x.shape.dims[axis] = k;
  out_types[0] = x;
  out_types[1] = (shoal_type_t){SHOAL_I64, x.shape};
  return NULL;
}

OP_GRADIENT(top_k) {
  (void)in;
  in_grads[0] = emit_back(call, e, out[1], grads[0], call->attrs[TOP_AXIS].i);
}

static shoal_ref_t emit_bool(shoal_emitter_t *e, bool value) {
  return shoal_emit_scalar(e, SHOAL_BOOL, value);
}

// What no element of that type is beyond.
static double end_of(shoal_dtype_t dtype, bool lowest) {
  switch (dtype) {
    case SHOAL_I64:
      return lowest ? (double)INT64_MIN : 0x1.fffffffffffffp62;  // the largest that a double holds
    case SHOAL_I32:
      return lowest ? INT32_MIN : INT32_MAX;
    case SHOAL_U8:
      return lowest ? 0 : UINT8_MAX;
    default:
      return lowest ? -INFINITY : INFINITY;
  }
}

// k times: the extreme of what is not taken, and the first place that holds it.
static void top_k_decompose(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                            shoal_ref_t *outputs) {
  const shoal_type_t x = call->inputs[0];
  const int32_t axis = shoal_normal_axis(call->attrs[TOP_AXIS].i, x.shape.rank);
  const int64_t k = call->attrs[K].i, size = x.shape.dims[axis];
  const bool largest = call->attrs[LARGEST].i != 0;
  if (!shoal_emit_whole(call, e)) return;
  const char *extreme = largest ? "shoal.reduce_max" : "shoal.reduce_min";
  const shoal_ref_t end = shoal_emit_scalar(e, x.dtype, end_of(x.dtype, largest));
  const shoal_ref_t places =
      shoal_emit_one(e, "shoal.iota", NO_REFS,
                     ATTRS(shoal_attr_shape("shape", &x.shape), shoal_attr_int("axis", axis),
                           shoal_attr_dtype("dtype", SHOAL_I64)));
  const shoal_ref_t nowhere = shoal_emit_scalar(e, SHOAL_I64, (double)size);
  const shoal_ref_t number = shoal_emit_binary(e, "shoal.equal", in[0], in[0]);  // not NaN
  shoal_ref_t left = largest ? in[0] : shoal_emit_where(e, number, in[0], end);
  shoal_ref_t taken = SHOAL_NO_REF, indices = SHOAL_NO_REF;
  for (int64_t i = 0; i < k; ++i) {
    const shoal_ref_t best = shoal_emit_reduce(e, extreme, left, axis, true);
    shoal_ref_t hit = shoal_emit_binary(e, "shoal.equal", left, best);
    if (largest) {  // the extreme is NaN where there is one
      hit = shoal_emit_where(e, shoal_emit_binary(e, "shoal.equal", left, left), hit,
                             emit_bool(e, true));
    }
    if (i) hit = shoal_emit_where(e, taken, emit_bool(e, false), hit);
    const shoal_ref_t place = shoal_emit_reduce(
        e, "shoal.reduce_min", shoal_emit_where(e, hit, places, nowhere), axis, true);
    indices = i ? shoal_emit_one(e, "shoal.concat", REFS(indices, place),
                                 ATTRS(shoal_attr_int("axis", axis)))
                : place;
    if (i + 1 == k) break;
    const shoal_ref_t here = shoal_emit_binary(e, "shoal.equal", places, place);
    taken = i ? shoal_emit_where(e, here, emit_bool(e, true), taken) : here;
    left = shoal_emit_where(e, here, end, left);
  }
  if (k == 0) {
    const shoal_shape_t *shape = &call->outputs[1].shape;
    indices = shoal_emit_one(e, "shoal.full", NO_REFS,
                             ATTRS(shoal_attr_shape("shape", shape), shoal_attr_real("value", 0),
                                   shoal_attr_dtype("dtype", SHOAL_I64)));
  }
  outputs[0] = shoal_emit_one(e, "shoal.take_along", REFS(in[0], indices),
                              ATTRS(shoal_attr_int("axis", axis)));
  outputs[1] = indices;
}

// Keeps the first `kept` in order while it goes through all.
static void keep_best(const shoal_sort_t *sort, int64_t kept, int64_t *best) {
  int64_t count = 0;
  for (int64_t i = 0; i < sort->count; ++i) {
    int64_t at = count;
    while (at > 0 && shoal_sort_before(sort, i, best[at - 1])) --at;
    if (at == kept) continue;
    if (count < kept) ++count;
    for (int64_t j = count - 1; j > at; --j) best[j] = best[j - 1];
    best[at] = i;
  }
}

static int64_t top_k_workspace(const shoal_call_t *call) {
  const shoal_shape_t *x = &call->inputs[0].shape;
  const int64_t size = x->dims[shoal_normal_axis(call->attrs[TOP_AXIS].i, x->rank)];
  return call->attrs[K].i <= FEW ? 0 : shoal_sort_bytes(size);
}

OP_KERNEL(top_k) {
  const shoal_along_t x = shoal_along_of(
      &inputs->shape, shoal_normal_axis(call->attrs[TOP_AXIS].i, inputs->shape.rank));
  const int64_t k = call->attrs[K].i;
  for (int64_t row = 0; k > 0 && row < x.outer * x.inner; ++row) {
    const int64_t o = row / x.inner, b = row % x.inner;
    const shoal_sort_t sort = {inputs, o * x.size * x.inner + b, x.inner, x.size,
                               call->attrs[LARGEST].i != 0};
    int64_t few[FEW];
    const int64_t *order = few;
    if (k <= FEW) {
      keep_best(&sort, k, few);
    } else {
      order = shoal_sort_run(&sort, workspace);
    }
    write_order(&sort, order, k, outputs, o * k * x.inner + b, x.inner);
  }
  return NULL;
}

static void top_k_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops =
      (double)shoal_shape_count(&call->inputs[0].shape) * log_of(call->attrs[K].i + 1);
}

const shoal_op_t shoal_op_top_k = {
    .name = "shoal.top_k",
    .doc =
        "The k largest elements of x along axis, the largest first, and, as i64, their indices; of "
        "equal ones the first comes first. largest=0: the k smallest, the smallest first. Numbers, "
        "not bools.",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("values", "indices"),
    .jumps = true,
    .uncut = "axis: which elements are the k largest depends on all; it is cut in phases",
    .nan = SORT_NAN,
    SHOAL_OP_ATTRS({.name = "k",
                    .kind = SHOAL_ATTR_INT,
                    .role = SHOAL_ROLE_COUNT,
                    .doc = "how many elements, at most as many as axis has"},
                   SHOAL_ATTR_AXIS,
                   {.name = "largest",
                    .kind = SHOAL_ATTR_INT,
                    .optional = true,
                    .stated = true,
                    .fallback = {.i = 1},
                    .doc = "0: the smallest"}),
    .infer = top_k_infer,
    .gradient = top_k_gradient,
    .decompose = top_k_decompose,
    .cost = top_k_cost,
    .workspace = top_k_workspace,
    .kernel = top_k_kernel,
    SHOAL_OP_CASES("f64[3,7] ; k=2, axis=1", "f32[5,3,2] ; k=3, axis=0, largest=0",
                   "bf16[3,5] ; k=1, axis=-1", "u8[3,5]<3 ; k=5, axis=1", "f32[3,1] ; k=1, axis=1",
                   "f64[3,4] ; k=0, axis=1"),
};
