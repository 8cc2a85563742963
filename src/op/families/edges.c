// edges: x with a border made of its own elements, and its adjoint.
//   x [n..]   out [before + n + after ..]
//   reflect    a b c d  ->  c b | a b c d | c b      (before and after are below n)
//   replicate  a b c d  ->  a a | a b c d | d d
//   circular   a b c d  ->  c d | a b c d | a b      (before and after are at most n)
// Dims that get no border are cut as they are.
#include "op/families/along.h"
#include "op/families/emit.h"

enum { BEFORE, AFTER, MODE };
typedef enum border { REFLECT, REPLICATE, CIRCULAR } border_t;
static const char *const MODES[] = {"reflect", "replicate", "circular"};

static shoal_status_t read_mode(const shoal_call_t *call, border_t *out_mode) {
  int32_t mode;
  SHOAL_RETURN_IF_ERROR(shoal_check_choice(call, MODE, MODES, 3, &mode));
  *out_mode = (border_t)mode;
  return NULL;
}

// `inner`: x, of which the border is made.
static shoal_status_t check_edges(const shoal_call_t *call, const shoal_shape_t *inner,
                                  border_t *out_mode) {
  const shoal_attr_value_t *before = &call->attrs[BEFORE], *after = &call->attrs[AFTER];
  SHOAL_RETURN_IF_ERROR(read_mode(call, out_mode));
  for (int32_t d = 0; d < inner->rank; ++d) {
    const int64_t size = inner->dims[d];
    const int64_t widest = before->ints[d] > after->ints[d] ? before->ints[d] : after->ints[d];
    const int64_t least = *out_mode == REPLICATE ? 1 : widest;
    const bool fits = *out_mode == REFLECT ? size > least : size >= least;
    REQUIRE_HINT(call, widest == 0 || fits,
                 "reflect takes fewer than x has, circular at most as many, replicate any",
                 "a border of %lld elements along dim %d cannot be made of %lld (%s)",
                 (long long)widest, d, (long long)size, MODES[*out_mode]);
  }
  return NULL;
}

static shoal_status_t check_border(const shoal_call_t *call) {
  const shoal_attr_value_t *before = &call->attrs[BEFORE], *after = &call->attrs[AFTER];
  const int32_t rank = call->inputs[0].shape.rank;
  SHOAL_RETURN_IF_ERROR(shoal_check_entries(call, BEFORE, rank));
  SHOAL_RETURN_IF_ERROR(shoal_check_entries(call, AFTER, rank));
  for (int32_t d = 0; d < rank; ++d) {
    REQUIRE(call, before->ints[d] >= 0 && after->ints[d] >= 0,
            "a border cannot have %lld elements: to leave some out, slice",
            (long long)(before->ints[d] < 0 ? before->ints[d] : after->ints[d]));
  }
  return NULL;
}

static shoal_status_t edges_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  border_t mode;
  SHOAL_RETURN_IF_ERROR(check_border(call));
  SHOAL_RETURN_IF_ERROR(check_edges(call, &call->inputs[0].shape, &mode));
  out_types[0] = call->inputs[0];
  for (int32_t d = 0; d < call->inputs[0].shape.rank; ++d) {
    const int64_t before = call->attrs[BEFORE].ints[d], after = call->attrs[AFTER].ints[d];
    int64_t *size = &out_types[0].shape.dims[d];
    REQUIRE(
        call,
        !__builtin_add_overflow(*size, before, size) && !__builtin_add_overflow(*size, after, size),
        "borders of %lld and %lld elements along dim %d do not fit 64 bits", (long long)before,
        (long long)after, d);
  }
  return NULL;
}

static shoal_status_t edges_grad_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  border_t mode;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 1));
  SHOAL_RETURN_IF_ERROR(check_border(call));
  out_types[0] = call->inputs[0];
  for (int32_t d = 0; d < call->inputs[0].shape.rank; ++d) {
    int64_t *size = &out_types[0].shape.dims[d];
    // Neither is negative, so that what is left after one cannot overflow by the other.
    *size = *size - call->attrs[BEFORE].ints[d];
    if (*size >= 0) *size -= call->attrs[AFTER].ints[d];
    REQUIRE(call, *size >= 0, "dy has fewer elements along dim %d than its border", d);
  }
  return check_edges(call, &out_types[0].shape, &mode);
}

// Which element of x, of n, stands at i (which may be negative, or behind the last).
static int64_t source_of(border_t mode, int64_t i, int64_t n) {
  switch (mode) {
    case REFLECT:
      return i < 0 ? -i : i >= n ? 2 * n - 2 - i : i;
    case REPLICATE:
      return i < 0 ? 0 : i >= n ? n - 1 : i;
    default:
      return (i + n) % n;
  }
}

// Element i of the wide tensor comes from this one of the inner tensor.
static int64_t source_at(const shoal_call_t *call, border_t mode, const shoal_shape_t *wide,
                         const shoal_shape_t *inner, int64_t i) {
  int64_t at = 0, stride = 1;
  for (int32_t d = wide->rank - 1; d >= 0; --d) {
    const int64_t here = i % wide->dims[d] - call->attrs[BEFORE].ints[d];
    at += source_of(mode, here, inner->dims[d]) * stride;
    stride *= inner->dims[d];
    i /= wide->dims[d];
  }
  return at;
}

OP_KERNEL(edges) {
  (void)workspace;
  border_t mode;
  SHOAL_RETURN_IF_ERROR(read_mode(call, &mode));
  const int64_t count = shoal_shape_count(&outputs->shape);
  const size_t size = shoal_dtype_size(inputs->dtype);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t from = source_at(call, mode, &outputs->shape, &inputs->shape, i);
    shoal_copy_run(size, inputs->data, from, outputs->data, i, 1);
  }
  return NULL;
}

OP_KERNEL(edges_grad) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, edges_grad_kernel);
  }
  border_t mode;
  SHOAL_RETURN_IF_ERROR(read_mode(call, &mode));
  const int64_t count = shoal_shape_count(&inputs->shape);
  const size_t bytes = shoal_tensor_bytes(outputs);
  if (bytes) memset(outputs->data, 0, bytes);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t to = source_at(call, mode, &inputs->shape, &outputs->shape, i);
    shoal_add_run(outputs->dtype, inputs->data, i, outputs->data, to, 1);
  }
  return NULL;
}

static shoal_ref_t emit_edges(const shoal_call_t *call, shoal_emitter_t *e, const char *op,
                              shoal_ref_t x) {
  const shoal_attr_value_t *before = &call->attrs[BEFORE], *after = &call->attrs[AFTER];
  return shoal_emit_one(e, op, REFS(x),
                        ATTRS(shoal_attr_ints("before", before->count, before->ints),
                              shoal_attr_ints("after", after->count, after->ints),
                              shoal_attr_string("mode", call->attrs[MODE].s)));
}

OP_GRADIENT(edges) {
  (void)in, (void)out;
  in_grads[0] = emit_edges(call, e, "shoal.edges_grad", grads[0]);
}

OP_GRADIENT(edges_grad) {
  (void)in, (void)out;
  in_grads[0] = emit_edges(call, e, "shoal.edges", grads[0]);
}

#define EDGES_ATTRS                                           \
  SHOAL_OP_ATTRS(                                             \
      {.name = "before",                                      \
       .kind = SHOAL_ATTR_INTS,                               \
       .doc = "elements before x along each dim, 0 or more"}, \
      {.name = "after",                                       \
       .kind = SHOAL_ATTR_INTS,                               \
       .doc = "elements behind x along each dim, 0 or more"}, \
      {.name = "mode", .kind = SHOAL_ATTR_STRING, .doc = "reflect, replicate or circular"})
#define EDGES_UNCUT "dims that get a border: it repeats elements of other parts"

const shoal_op_t shoal_op_edges = {
    .name = "shoal.edges",
    .doc =
        "x with a border of its own elements around it: reflected without the outermost one (a "
        "border is narrower than x), the outermost one repeated (of any width), or those of the "
        "other end (at most as wide as x). (A border of one value: pad.)",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    .any_dtype = true,
    .uncut = EDGES_UNCUT,
    EDGES_ATTRS,
    .infer = edges_infer,
    .gradient = edges_gradient,
    .cost = shoal_cost_move,
    .kernel = edges_kernel,
    SHOAL_OP_CASES("f64[3,5] ; before=[0,2], after=[0,3], mode=\"reflect\"",
                   "f32[2,3,4] ; before=[0,1,3], after=[0,0,5], mode=\"replicate\"",
                   "bf16[3,5] ; before=[0,5], after=[0,2], mode=\"circular\"",
                   "i64[3,1]<50 ; before=[0,2], after=[0,2], mode=\"replicate\"",
                   "f32[0,3] ; before=[0,1], after=[0,1], mode=\"reflect\""),
};

const shoal_op_t shoal_op_edges_grad = {
    .name = "shoal.edges_grad",
    .doc =
        "Adjoint of edges: the inner part of dy, with what stands in the border added where it "
        "came from.",
    SHOAL_OP_INPUTS("dy"),
    SHOAL_OP_OUTPUTS("dx"),
    .uncut = EDGES_UNCUT,
    EDGES_ATTRS,
    .infer = edges_grad_infer,
    .gradient = edges_grad_gradient,
    .workspace = shoal_kernel_widen_bytes,
    .kernel = edges_grad_kernel,
    SHOAL_OP_CASES("f64[3,7] ; before=[0,1], after=[0,1], mode=\"reflect\"",
                   "f32[2,4,6] ; before=[0,1,0], after=[0,0,2], mode=\"replicate\"",
                   "bf16[3,6] ; before=[0,2], after=[0,1], mode=\"circular\"",
                   "f64[3,3] ; before=[0,1], after=[0,1], mode=\"replicate\"",
                   "f32[0,5] ; before=[0,1], after=[0,1], mode=\"reflect\""),
};
