// Cross-entropy of logits [.., V] and integer labels [..]:
//   loss = sum over rows of (log_sum_exp(row) - row[label]) / count,   dlogits = dloss (softmax -
//   onehot) / count
// count is the whole's number of rows, so a part of the rows gives a partial sum. The fused form
// needs whole rows; for a cut vocabulary there is the decomposition, whose `pick` takes 0 for
// labels of other parts. The loss is f32 for half-size logits.
#ifndef KERNELS_HERE
#include "op/families/emit.h"
#include "op/families/kernel.h"

enum { PLACE, COUNT };
enum { LOGITS, LABELS, DLOSS };

static int64_t count_of(const shoal_call_t *call) {
  const shoal_shape_t *logits = &call->inputs[LOGITS].shape;
  if (call->attrs[COUNT].i > 0) return call->attrs[COUNT].i;
  return logits->rank ? shoal_row_count(logits) : 1;
}

#define EACH EACH_REAL
#define KERNELS "op/families/loss.c"
#include "op/families/each.h"

static void cross_entropy_complete(const shoal_call_t *call, shoal_attr_value_t *attrs) {
  attrs[COUNT].i = count_of(call);
}

static shoal_status_t check_logits(const shoal_call_t *call) {
  const shoal_type_t *logits = &call->inputs[LOGITS];
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, LOGITS, 1));
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, LABELS));
  REQUIRE(call, logits->shape.rank >= 1, "logits need a last dim of classes");
  const shoal_shape_t rows = shoal_shape_part(&logits->shape, 0, logits->shape.rank - 1);
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, LABELS, &rows));
  return shoal_check_place(call, PLACE, &logits->shape, &place);
}

static shoal_status_t cross_entropy_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(check_logits(call));
  out_types[0] = (shoal_type_t){.dtype = shoal_statistics_dtype(call->inputs[LOGITS].dtype)};
  return NULL;
}

static shoal_status_t cross_entropy_grad_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(check_logits(call));
  SHOAL_RETURN_IF_ERROR(shoal_check_scalar(call, DLOSS));
  const shoal_dtype_t wide = shoal_statistics_dtype(call->inputs[LOGITS].dtype);
  REQUIRE(call, call->inputs[DLOSS].dtype == wide, "dloss must be %s", shoal_dtype_name(wide));
  out_types[0] = call->inputs[LOGITS];
  return NULL;
}

static int64_t label_count(const shoal_call_t *call, int32_t input) {
  return input == LABELS ? shoal_row_length(&call->inputs[LOGITS].shape) : 0;
}

#define KERNEL(name)                                                                          \
  static shoal_status_t name##_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs, \
                                      const shoal_tensor_t *outputs, void *workspace) {       \
    if (shoal_kernel_is_half(call)) {                                                         \
      return shoal_kernel_widened(call, inputs, outputs, workspace, name##_kernel);           \
    }                                                                                         \
    return inputs->dtype == SHOAL_F64 ? name##_f64(call, inputs, outputs)                     \
                                      : name##_f32(call, inputs, outputs);                    \
  }

KERNEL(cross_entropy)
KERNEL(cross_entropy_grad)

OP_GRADIENT(cross_entropy) {
  (void)out;
  in_grads[0] = shoal_emit_one(e, "shoal.cross_entropy_grad", REFS(in[0], in[1], grads[0]),
                               ATTRS(shoal_attr_int("count", count_of(call))));
}

static void cross_entropy_decompose(const shoal_call_t *call, shoal_emitter_t *e,
                                    const shoal_ref_t *in, shoal_ref_t *outputs) {
  if (!shoal_emit_whole(call, e)) return;
  const shoal_type_t *type = &call->inputs[LOGITS];
  const int32_t axis = type->shape.rank - 1;
  const shoal_shape_t rows = shoal_shape_part(&type->shape, 0, axis);
  const shoal_ref_t x = shoal_emit_cast(e, in[LOGITS], shoal_statistics_dtype(type->dtype));
  shoal_ref_t max, sum;
  shoal_emit_exp(e, x, axis, &max, &sum);
  const shoal_ref_t lse =
      shoal_emit_binary(e, "shoal.add", shoal_emit_unary(e, "shoal.log", sum), max);
  const shoal_ref_t picked = shoal_emit_binary(e, "shoal.pick", x, in[LABELS]);
  const shoal_ref_t each =
      shoal_emit_binary(e, "shoal.sub", shoal_emit_reshape(e, lse, &rows), picked);
  int64_t dims[SHOAL_MAX_RANK];
  for (int32_t d = 0; d < axis; ++d) dims[d] = d;
  outputs[0] = shoal_emit_one(
      e, "shoal.reduce_mean", REFS(each),
      ATTRS(shoal_attr_ints("dims", axis, dims), shoal_attr_int("count", count_of(call))));
}

// (softmax - onehot) dloss / count
static void cross_entropy_grad_decompose(const shoal_call_t *call, shoal_emitter_t *e,
                                         const shoal_ref_t *in, shoal_ref_t *outputs) {
  if (!shoal_emit_whole(call, e)) return;
  const shoal_type_t *type = &call->inputs[LOGITS];
  const shoal_dtype_t wide = shoal_statistics_dtype(type->dtype);
  const int32_t axis = type->shape.rank - 1;
  const shoal_shape_t rows = shoal_shape_part(&type->shape, 0, axis);
  const shoal_ref_t share = shoal_emit_affine(e, in[DLOSS], 1 / (double)count_of(call), 0);
  shoal_ref_t max, sum;
  const shoal_ref_t p = shoal_emit_exp(e, shoal_emit_cast(e, in[LOGITS], wide), axis, &max, &sum);
  const shoal_ref_t softmax = shoal_emit_binary(e, "shoal.div", p, sum);
  const shoal_ref_t hit =
      shoal_emit_one(e, "shoal.pick_grad", REFS(in[LABELS], shoal_emit_broadcast(e, share, &rows)),
                     ATTRS(shoal_attr_int("size", type->shape.dims[axis])));
  const shoal_ref_t dx =
      shoal_emit_binary(e, "shoal.sub", shoal_emit_binary(e, "shoal.mul", softmax, share), hit);
  outputs[0] = shoal_emit_cast(e, dx, type->dtype);
}

static void loss_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = 14.0 * (double)shoal_shape_count(&call->inputs[LOGITS].shape);
}

#define LOSS_ATTRS                              \
  SHOAL_ATTR_PLACE_OF("place", SHOAL_INPUT(0)), \
      SHOAL_ATTR_COUNT_OF("number of rows; 0: as many as there are")

const shoal_op_t shoal_op_cross_entropy = {
    .name = "shoal.cross_entropy",
    .doc =
        "Sum over rows of (log-sum-exp of the logits - logit of the label), divided by count: the "
        "mean "
        "over all labels.",
    .uncut = "the classes: a row's log-sum-exp needs them all (its decomposition cuts them)",
    SHOAL_OP_INPUTS("logits", "labels"),
    SHOAL_OP_OUTPUTS("loss"),
    SHOAL_OP_ATTRS(LOSS_ATTRS),
    .complete = cross_entropy_complete,
    .infer = cross_entropy_infer,
    .index_count = label_count,
    .gradient = cross_entropy_gradient,
    .decompose = cross_entropy_decompose,
    .cost = loss_cost,
    .workspace = shoal_kernel_widen_bytes,
    .kernel = cross_entropy_kernel,
    SHOAL_OP_CASES("f64[5,7], i64[5]<7", "f32[2,3,9], i32[2,3]<9", "f64[7], i32[]<7",
                   "f64[3,5], u8[3]<5 ; count=11", "bf16[5,9], i32[5]<9"),
};

const shoal_op_t shoal_op_cross_entropy_grad = {
    .name = "shoal.cross_entropy_grad",
    .doc = "Gradient of cross_entropy: dloss (softmax(logits) - onehot(labels)) / count.",
    SHOAL_OP_INPUTS("logits", "labels", "dloss"),
    SHOAL_OP_OUTPUTS("dlogits"),
    SHOAL_OP_ATTRS(LOSS_ATTRS),
    .complete = cross_entropy_complete,
    SHOAL_OP_OVERWRITES({0, LOGITS}),
    .infer = cross_entropy_grad_infer,
    .index_count = label_count,
    .decompose = cross_entropy_grad_decompose,
    .cost = loss_cost,
    .workspace = shoal_kernel_widen_bytes,
    .kernel = cross_entropy_grad_kernel,
    SHOAL_OP_CASES("f64[5,7], i64[5]<7, f64[]", "f32[2,3,9], i32[2,3]<9, f32[]",
                   "f64[3,5], u8[3]<5, f64[] ; count=11", "bf16[5,9], i32[5]<9, f32[]"),
};

#else  // per element type

// Maximum of a row and the sum of exp(x - max); an empty row has -inf and 0.
static R K(row_sum)(const R *x, int64_t n, R *out_max) {
  R max = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (x[i] > max || IS_NAN(x[i])) max = x[i];
  }
  for (int64_t i = 0; i < n; ++i) sum += exp(x[i] - max);
  *out_max = max;
  return sum;
}

static shoal_status_t K(cross_entropy)(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                       const shoal_tensor_t *outputs) {
  const shoal_shape_t *shape = &inputs[LOGITS].shape;
  const int64_t rows = shoal_row_count(shape), n = shoal_row_length(shape);
  const R *x = inputs[LOGITS].data;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, PLACE, shape, &place));
  R loss = 0;
  for (int64_t r = 0; r < rows; ++r, x += n) {
    int64_t at = -1;
    SHOAL_RETURN_IF_ERROR(
        shoal_check_index(call, LABELS, &inputs[LABELS], r, &place, shape->rank - 1, &at));
    R max;
    const R sum = K(row_sum)(x, n, &max);
    loss += log(sum) + (max - (at >= 0 ? x[at] : 0));
  }
  *(R *)outputs[0].data = loss / (R)count_of(call);
  return NULL;
}

static shoal_status_t K(cross_entropy_grad)(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                            const shoal_tensor_t *outputs) {
  const shoal_shape_t *shape = &inputs[LOGITS].shape;
  const int64_t rows = shoal_row_count(shape), n = shoal_row_length(shape);
  const R *x = inputs[LOGITS].data;
  const R share = *(const R *)inputs[DLOSS].data / (R)count_of(call);
  R *dx = outputs[0].data;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, PLACE, shape, &place));
  for (int64_t r = 0; r < rows; ++r, x += n, dx += n) {
    int64_t at = -1;
    SHOAL_RETURN_IF_ERROR(
        shoal_check_index(call, LABELS, &inputs[LABELS], r, &place, shape->rank - 1, &at));
    R max;
    const R sum = K(row_sum)(x, n, &max);
    for (int64_t i = 0; i < n; ++i) dx[i] = share * (exp(x[i] - max) / sum);
    if (at >= 0) dx[at] -= share;
  }
  return NULL;
}

#endif
