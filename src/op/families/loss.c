// Cross-entropy of logits [.., V] and integer labels [..]. A row with label y costs, with its
// logarithms of probabilities l = logits - log_sum_exp(logits), class weights w[V] (or ones) and
// smoothing s,
//   -(1 - s) w[y] l[y] - s / V sum over v of w[v] l[v]
// and nothing if y is the index to ignore. The loss is their sum divided by `total`, a scalar, or
// else by count, the whole's number of rows: a part of the rows gives a partial sum. With p =
// softmax(row) and W = sum(w), a row's gradient is that share of dloss times
//   ((1 - s) w[y] + s W / V) p[v] - s / V w[v] - (1 - s) w[y] (v = y)
// The fused form needs whole rows; for a cut vocabulary there is the decomposition (loss_parts.c).
// The loss is f32 for half-size logits, and so are weights and total.
#ifndef KERNELS_HERE
#include "op/families/loss.h"

#include "op/families/kernel.h"

int64_t shoal_loss_count(const shoal_call_t *call) {
  const shoal_shape_t *logits = &call->inputs[LOSS_LOGITS].shape;
  if (call->attrs[LOSS_COUNT].i > 0) return call->attrs[LOSS_COUNT].i;
  return logits->rank ? shoal_row_count(logits) : 1;
}

#define EACH EACH_REAL
#define KERNELS "op/families/loss.c"
#include "op/families/each.h"

static void cross_entropy_complete(const shoal_call_t *call, shoal_attr_value_t *attrs) {
  attrs[LOSS_COUNT].i = shoal_loss_count(call);
}

// The operands that the loss and its gradient share; `weights` and `total` are numbers of names.
static shoal_status_t check_operands(const shoal_call_t *call, int32_t weights, int32_t total) {
  const shoal_type_t *in = call->inputs, *logits = &in[LOSS_LOGITS];
  const double smoothing = call->attrs[LOSS_SMOOTHING].f;
  const shoal_dtype_t wide = shoal_statistics_dtype(logits->dtype);
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, LOSS_LOGITS, 1));
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, LOSS_LABELS));
  REQUIRE(call, logits->shape.rank >= 1, "logits need a last dim of classes, and have no dims");
  const int32_t last = logits->shape.rank - 1;
  const shoal_shape_t rows = shoal_shape_part(&logits->shape, 0, last);
  const shoal_shape_t classes = shoal_shape_part(&logits->shape, last, last + 1);
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, LOSS_LABELS, &rows));
  weights = GIVEN(call, weights), total = GIVEN(call, total);
  if (weights >= 0) {
    SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, weights, &classes));
    SHOAL_RETURN_IF_ERROR(shoal_check_dtype(call, weights, wide));
  }
  if (total >= 0) {
    SHOAL_RETURN_IF_ERROR(shoal_check_scalar(call, total));
    SHOAL_RETURN_IF_ERROR(shoal_check_dtype(call, total, wide));
  }
  REQUIRE(call, smoothing >= 0 && smoothing <= 1, "smoothing is %g: it must be in [0, 1]",
          smoothing);
  return shoal_check_place(call, LOSS_PLACE, &logits->shape, &place);
}

static shoal_status_t cross_entropy_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(check_operands(call, LOSS_WEIGHTS, LOSS_TOTAL));
  out_types[0] = (shoal_type_t){.dtype = shoal_statistics_dtype(call->inputs[LOSS_LOGITS].dtype)};
  return NULL;
}

static shoal_status_t cross_entropy_grad_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(check_operands(call, LOSS_GRAD_WEIGHTS, LOSS_GRAD_TOTAL));
  SHOAL_RETURN_IF_ERROR(shoal_check_scalar(call, LOSS_DLOSS));
  const shoal_dtype_t wide = shoal_statistics_dtype(call->inputs[LOSS_LOGITS].dtype);
  SHOAL_RETURN_IF_ERROR(shoal_check_dtype(call, LOSS_DLOSS, wide));
  out_types[0] = call->inputs[LOSS_LOGITS];
  return NULL;
}

static int64_t label_count(const shoal_call_t *call, int32_t input) {
  return input == LOSS_LABELS ? shoal_row_length(&call->inputs[LOSS_LOGITS].shape) : 0;
}

shoal_status_t shoal_loss_label(const shoal_call_t *call, int32_t input,
                                const shoal_tensor_t *labels, int64_t i, int64_t ignore,
                                const shoal_place_t *place, int32_t dim, int64_t *out_local,
                                bool *out_ignored) {
  *out_ignored = shoal_dtype_load_int(labels->dtype, labels->data, i) == ignore;
  *out_local = -1;
  if (*out_ignored) return NULL;
  return shoal_check_index(call, input, labels, i, place, dim, out_local);
}

#define KERNEL(name)                                                                \
  OP_KERNEL(name) {                                                                 \
    if (shoal_kernel_is_half(call)) {                                               \
      return shoal_kernel_widened(call, inputs, outputs, workspace, name##_kernel); \
    }                                                                               \
    return inputs->dtype == SHOAL_F64 ? name##_f64(call, inputs, outputs)           \
                                      : name##_f32(call, inputs, outputs);          \
  }

KERNEL(cross_entropy)
KERNEL(cross_entropy_grad)

static void loss_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = 14.0 * (double)shoal_shape_count(&call->inputs[LOSS_LOGITS].shape);
}

#define LOSS_ATTRS                                                                            \
  SHOAL_ATTR_PLACE_OF("place", SHOAL_INPUT(0)),                                               \
      SHOAL_ATTR_COUNT_OF("what the sum is divided by without total; 0: the number of rows"), \
      {.name = "ignore",                                                                      \
       .kind = SHOAL_ATTR_INT,                                                                \
       .role = SHOAL_ROLE_COUNT,                                                              \
       .optional = true,                                                                      \
       .fallback = {.i = -100},                                                               \
       .doc = "rows with this label cost nothing"},                                           \
      {.name = "smoothing",                                                                   \
       .kind = SHOAL_ATTR_REAL,                                                               \
       .optional = true,                                                                      \
       .doc = "share of a row's cost that is spread over all classes"},                       \
      SHOAL_ATTR_WITH

const shoal_op_t shoal_op_cross_entropy = {
    .name = "shoal.cross_entropy",
    .doc =
        "Sum over rows of (log-sum-exp of the logits - logit of the label), divided by count, "
        "which is the mean over all labels, or by total. Rows whose label is `ignore` cost "
        "nothing; any other label outside the classes is an error. weights has a factor for each "
        "class.",
    .uncut = "the classes: a row's log-sum-exp needs them all (its decomposition cuts them)",
    .nan = "rows that are ignored are not read; a total of 0 gives NaN",
    SHOAL_OP_INPUTS("logits", "labels", "weights", "total"),
    SHOAL_OP_OUTPUTS("loss"),
    .optional = 2,
    .spare = "ignore",
    SHOAL_OP_ATTRS(LOSS_ATTRS),
    .complete = cross_entropy_complete,
    .infer = cross_entropy_infer,
    .index_count = label_count,
    .gradient = shoal_cross_entropy_gradient,
    .decompose = shoal_cross_entropy_decompose,
    .cost = loss_cost,
    .workspace = shoal_kernel_widen_bytes,
    .kernel = cross_entropy_kernel,
    SHOAL_OP_CASES(
        "f64[5,7], i64[5]<7", "f32[2,3,9], i32[2,3]<9 ; ignore=2", "f64[7], i32[]<7",
        "f64[3,5], u8[3]<5 ; count=11", "bf16[5,9], i32[5]<9 ; smoothing=0.1",
        "f64[9,3], i64[9]<3, f64[3]+, f64[]+ ; ignore=1, smoothing=0.2, with=\"weights,total\"",
        "f32[0,3], i32[0]<3, f32[]+ ; with=\"total\""),
};

const shoal_op_t shoal_op_cross_entropy_grad = {
    .name = "shoal.cross_entropy_grad",
    .doc =
        "Gradient of cross_entropy by its logits: dloss (softmax(logits) - onehot(labels)) / count "
        "without weights, total and smoothing; 0 where the label is ignored.",
    .nan = "rows that are ignored are not read; a total of 0 gives NaN",
    .uncut = "the classes: a row's log-sum-exp needs them all (its decomposition cuts them)",
    SHOAL_OP_INPUTS("logits", "labels", "dloss", "weights", "total"),
    SHOAL_OP_OUTPUTS("dlogits"),
    .optional = 2,
    .spare = "ignore",
    SHOAL_OP_ATTRS(LOSS_ATTRS),
    .complete = cross_entropy_complete,
    SHOAL_OP_OVERWRITES({0, LOSS_LOGITS}),
    .infer = cross_entropy_grad_infer,
    .index_count = label_count,
    .decompose = shoal_cross_entropy_grad_decompose,
    .cost = loss_cost,
    .workspace = shoal_kernel_widen_bytes,
    .kernel = cross_entropy_grad_kernel,
    SHOAL_OP_CASES("f64[5,7], i64[5]<7, f64[]", "f32[2,3,9], i32[2,3]<9, f32[] ; ignore=2",
                   "f64[3,5], u8[3]<5, f64[] ; count=11",
                   "bf16[5,9], i32[5]<9, f32[] ; smoothing=0.1",
                   "f64[9,3], i64[9]<3, f64[], f64[3]+, f64[]+ ; ignore=1, smoothing=0.2, "
                   "with=\"weights,total\""),
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

// What the two kernels read besides logits and labels.
typedef struct K(terms) {
  const R *weights;  // NULL: ones
  R total;           // what the sum over rows is divided by
  R direct, spread;  // 1 - smoothing; smoothing / V
  R all;             // sum of the weights
} K(terms_t);

static K(terms_t) K(terms)(const shoal_call_t *call, const shoal_tensor_t *inputs, int32_t weights,
                           int32_t total, const shoal_place_t *place) {
  const int32_t last = inputs[LOSS_LOGITS].shape.rank - 1;
  const int64_t n = inputs[LOSS_LOGITS].shape.dims[last];
  const R smoothing = (R)call->attrs[LOSS_SMOOTHING].f;
  weights = GIVEN(call, weights), total = GIVEN(call, total);
  K(terms_t) terms = {.direct = 1 - smoothing, .all = (R)n};
  terms.spread = smoothing / (R)place->whole.dims[last];
  terms.total = total < 0 ? (R)shoal_loss_count(call) : *(const R *)inputs[total].data;
  if (weights < 0) return terms;
  terms.weights = inputs[weights].data;
  terms.all = 0;
  for (int64_t v = 0; v < n; ++v) terms.all += terms.weights[v];
  return terms;
}

static shoal_status_t K(cross_entropy)(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                       const shoal_tensor_t *outputs) {
  const shoal_shape_t *shape = &inputs[LOSS_LOGITS].shape;
  const int64_t rows = shoal_row_count(shape), n = shoal_row_length(shape);
  const R *x = inputs[LOSS_LOGITS].data;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, LOSS_PLACE, shape, &place));
  const K(terms_t) terms = K(terms)(call, inputs, LOSS_WEIGHTS, LOSS_TOTAL, &place);
  R loss = 0;
  for (int64_t r = 0; r < rows; ++r, x += n) {
    int64_t at = -1;
    bool ignored;
    SHOAL_RETURN_IF_ERROR(shoal_loss_label(call, LOSS_LABELS, &inputs[LOSS_LABELS], r,
                                           call->attrs[LOSS_IGNORE].i, &place, shape->rank - 1, &at,
                                           &ignored));
    if (ignored) continue;
    R max;
    const R sum = K(row_sum)(x, n, &max);
    const R weight = terms.weights && at >= 0 ? terms.weights[at] : 1;
    loss += terms.direct * weight * (log(sum) + (max - (at >= 0 ? x[at] : 0)));
    for (int64_t v = 0; terms.spread != 0 && v < n; ++v) {
      loss += terms.spread * (terms.weights ? terms.weights[v] : 1) * (log(sum) + (max - x[v]));
    }
  }
  *(R *)outputs[0].data = loss / terms.total;
  return NULL;
}

static shoal_status_t K(cross_entropy_grad)(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                            const shoal_tensor_t *outputs) {
  const shoal_shape_t *shape = &inputs[LOSS_LOGITS].shape;
  const int64_t rows = shoal_row_count(shape), n = shoal_row_length(shape);
  const R *x = inputs[LOSS_LOGITS].data;
  R *dx = outputs[0].data;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, LOSS_PLACE, shape, &place));
  const K(terms_t) terms = K(terms)(call, inputs, LOSS_GRAD_WEIGHTS, LOSS_GRAD_TOTAL, &place);
  const R share = *(const R *)inputs[LOSS_DLOSS].data / terms.total;
  for (int64_t r = 0; r < rows; ++r, x += n, dx += n) {
    int64_t at = -1;
    bool ignored;
    SHOAL_RETURN_IF_ERROR(shoal_loss_label(call, LOSS_LABELS, &inputs[LOSS_LABELS], r,
                                           call->attrs[LOSS_IGNORE].i, &place, shape->rank - 1, &at,
                                           &ignored));
    if (ignored) {
      for (int64_t i = 0; i < n; ++i) dx[i] = 0;
      continue;
    }
    R max;
    const R sum = K(row_sum)(x, n, &max);
    const R weight = terms.direct * (terms.weights && at >= 0 ? terms.weights[at] : 1);
    const R factor = share * (weight + terms.spread * terms.all);
    for (int64_t i = 0; i < n; ++i) dx[i] = factor * (exp(x[i] - max) / sum);
    for (int64_t i = 0; terms.spread != 0 && i < n; ++i) {
      dx[i] -= share * terms.spread * (terms.weights ? terms.weights[i] : 1);
    }
    if (at >= 0) dx[at] -= share * weight;
  }
  return NULL;
}

#endif
