// Optimizer updates, as pure element-wise ops: any shape, also a flat part. Learning rate and step
// are scalars, values of the graph; other settings are attributes. With weight decay d:
//   sgd      w' = w - lr (g + d w)
//   momentum m' = momentum m + (1 - dampening) (g + d w),   w' = w - lr m'
//            Nesterov's: w' = w - lr (g + d w + momentum m'). The first step is not dampened: there
//            is nothing before it
//   adam     as adamw with g + d w in the place of g, and no other decay (Kingma 2014)
//   adamw    m' = b1 m + (1 - b1) g,  v' = b2 v + (1 - b2) g^2,
//            w' = w - lr (m' / (1 - b1^step) / (sqrt(v' / (1 - b2^step)) + eps) + d w) (Loshchilov
//            2019)
// Steps count from 1; a smaller one is taken for 1.
// Half-size floats are updated in f32 and rounded once.
#ifndef KERNELS_HERE
#include "op/families/kernel.h"

enum { SGD_DECAY };
enum { MOMENTUM, MOMENTUM_DECAY, NESTEROV, DAMPENING };
enum { MOMENTUM_STEP = 4 };
enum { BETA1, BETA2, EPS, DECAY };

#define EACH (EACH_REAL + EACH_HALF)
#define KERNELS "op/families/update.c"
#include "op/families/each.h"

static shoal_status_t sgd_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  out_types[0] = call->inputs[0];
  return shoal_check_update(call, 2);
}

static shoal_status_t momentum_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const int32_t step = GIVEN(call, MOMENTUM_STEP);
  const bool dampens = call->attrs[DAMPENING].f != 0;
  out_types[0] = out_types[1] = call->inputs[0];
  SHOAL_RETURN_IF_ERROR(shoal_check_update(call, 3));
  REQUIRE(call, !dampens || !call->attrs[NESTEROV].i,
          "dampening is %g, and Nesterov's momentum has none", call->attrs[DAMPENING].f);
  REQUIRE_HINT(call, !dampens || step >= 0, "give the input step, which counts from 1",
               "dampening is %g, and the first step, which has none, is not known",
               call->attrs[DAMPENING].f);
  if (step < 0) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_check_scalar(call, step));
  return shoal_check_integer(call, step);
}

static shoal_status_t adam_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  out_types[0] = out_types[1] = out_types[2] = call->inputs[0];
  SHOAL_RETURN_IF_ERROR(shoal_check_update(call, 4));
  SHOAL_RETURN_IF_ERROR(shoal_check_scalar(call, 5));
  return shoal_check_integer(call, 5);
}

typedef void (*update_fn_t)(int64_t n, const shoal_attr_value_t *attrs, double lr, int64_t step,
                            const shoal_tensor_t *inputs, const shoal_tensor_t *outputs);

static int64_t step_or(const shoal_call_t *call, const shoal_tensor_t *inputs, int64_t fallback) {
  const int32_t step = GIVEN(call, MOMENTUM_STEP);
  return step < 0 ? fallback : shoal_dtype_load_int(inputs[step].dtype, inputs[step].data, 0);
}

#define KERNEL(name, lr_input, step_of)                                                       \
  static shoal_status_t name##_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs, \
                                      const shoal_tensor_t *outputs, void *workspace) {       \
    static const update_fn_t loops[SHOAL_DTYPE_COUNT] = TABLE_FLOAT(name);                    \
    const double lr = shoal_dtype_load(inputs[lr_input].dtype, inputs[lr_input].data, 0);     \
    (void)workspace;                                                                          \
    loops[inputs->dtype](shoal_shape_count(&inputs->shape), call->attrs, lr, step_of, inputs, \
                         outputs);                                                            \
    return NULL;                                                                              \
  }

KERNEL(sgd, 2, 0)
KERNEL(momentum, 3, step_or(call, inputs, 1))
KERNEL(adam, 4, shoal_dtype_load_int(inputs[5].dtype, inputs[5].data, 0))
KERNEL(adamw, 4, shoal_dtype_load_int(inputs[5].dtype, inputs[5].data, 0))

static void momentum_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = 6.0 * (double)shoal_shape_count(&call->inputs[0].shape);
}

static void adam_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = 15.0 * (double)shoal_shape_count(&call->inputs[0].shape);
}

#define REAL(attr_name, text) \
  { .name = attr_name, .kind = SHOAL_ATTR_REAL, .doc = text }

const shoal_op_t shoal_op_sgd_update = {
    .name = "shoal.sgd_update",
    .doc = "SGD, element by element: w' = w - lr (g + weight_decay w).",
    SHOAL_OP_INPUTS("w", "g", "lr"),
    SHOAL_OP_OUTPUTS("w"),
    SHOAL_OP_ATTRS(REAL("weight_decay", "how much of w is added to g")),
    SHOAL_OP_OVERWRITES({0, 0}, {0, 1}),
    .infer = sgd_infer,
    .cost = momentum_cost,
    .kernel = sgd_kernel,
    SHOAL_OP_CASES("f64[3,5], f64[3,5], f64[]+ ; weight_decay=0.1",
                   "f32[7], f32[7], f32[]+ ; weight_decay=0",
                   "bf16[3,5], bf16[3,5], f32[]+ ; weight_decay=0.1"),
};

const shoal_op_t shoal_op_sgd_momentum_update = {
    .name = "shoal.sgd_momentum_update",
    .doc =
        "SGD with momentum, element by element: m' = momentum m + (1 - dampening) (g + "
        "weight_decay "
        "w), in step 1 without dampening; w' = w - lr m', or, where nesterov is 1, w - lr (g + "
        "weight_decay w + momentum m'). m is 0 at first.",
    SHOAL_OP_INPUTS("w", "g", "m", "lr", "step"),
    SHOAL_OP_OUTPUTS("w", "m"),
    .optional = 1,
    SHOAL_OP_ATTRS(REAL("momentum", "what is kept of m"),
                   REAL("weight_decay", "how much of w is added to g"),
                   {.name = "nesterov",
                    .kind = SHOAL_ATTR_INT,
                    .optional = true,
                    .doc = "1: Nesterov's step, by where the momentum leads"},
                   {.name = "dampening",
                    .kind = SHOAL_ATTR_REAL,
                    .optional = true,
                    .doc = "what m does not take of the gradient; needs step"},
                   SHOAL_ATTR_WITH),
    SHOAL_OP_OVERWRITES({0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}),
    .infer = momentum_infer,
    .cost = momentum_cost,
    .kernel = momentum_kernel,
    SHOAL_OP_CASES("f64[3,5], f64[3,5], f64[3,5], f64[]+ ; momentum=0.9, weight_decay=0.1",
                   "f32[7], f32[7], f32[7], f32[]+ ; momentum=0.5, weight_decay=0",
                   "f64[3,5], f64[3,5], f64[3,5], f64[]+ ; "
                   "momentum=0.9, weight_decay=0.1, nesterov=1",
                   "f64[3,5], f64[3,5], f64[3,5], f64[]+, i64[]<9+ ; "
                   "momentum=0.9, weight_decay=0.1, dampening=0.3, with=\"step\"",
                   "bf16[5], bf16[5], bf16[5], f32[]+ ; momentum=0.9, weight_decay=0"),
};

// The two Adams have the same operands and attributes.
#define ADAM_OPERANDS                                                                              \
  SHOAL_OP_INPUTS("w", "g", "m", "v", "lr", "step"), SHOAL_OP_OUTPUTS("w", "m", "v"),              \
      SHOAL_OP_ATTRS(                                                                              \
          REAL("beta1", "what is kept of m"), REAL("beta2", "what is kept of v"),                  \
          REAL("eps", "added to the root of v"),                                                   \
          REAL("weight_decay", "decay of w, by lr times it (adam: how much of w is added to g)")), \
      SHOAL_OP_OVERWRITES({0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 0}, {1, 1}, {1, 2}, {1, 3}, {2, 0},  \
                          {2, 1}, {2, 2}, {2, 3})
#define ADAM_CASES                                                   \
  SHOAL_OP_CASES(                                                    \
      "f64[3,5], f64[3,5], f64[3,5], f64[3,5]+, f32[]+, i64[]<9+ ; " \
      "beta1=0.9, beta2=0.999, eps=1e-3, weight_decay=0.1",          \
      "f32[7], f32[7], f32[7], f32[7]+, f32[]+, i64[]<9+ ; "         \
      "beta1=0.8, beta2=0.95, eps=1e-8, weight_decay=0",             \
      "bf16[5], bf16[5], bf16[5], bf16[5]+, f32[]+, i64[]<9+ ; "     \
      "beta1=0.9, beta2=0.999, eps=1e-3, weight_decay=0.1")

const shoal_op_t shoal_op_adam_update = {
    .name = "shoal.adam_update",
    .doc =
        "Adam, element by element: with h = g + weight_decay w, m' = beta1 m + (1 - beta1) h, v' = "
        "beta2 v + (1 - beta2) h^2, w' = w - lr m' / (1 - beta1^step) / (sqrt(v' / (1 - "
        "beta2^step)) + eps). step counts from 1; m and v are 0 at first.",
    ADAM_OPERANDS,
    .infer = adam_infer,
    .cost = adam_cost,
    .kernel = adam_kernel,
    ADAM_CASES,
};

const shoal_op_t shoal_op_adamw_update = {
    .name = "shoal.adamw_update",
    .doc =
        "AdamW, element by element: m' = beta1 m + (1 - beta1) g, v' = beta2 v + (1 - beta2) g^2, "
        "w' = w - lr (m' / (1 - beta1^step) / (sqrt(v' / (1 - beta2^step)) + eps) + weight_decay "
        "w). step counts from 1; m and v are 0 at first.",
    ADAM_OPERANDS,
    .infer = adam_infer,
    .cost = adam_cost,
    .kernel = adamw_kernel,
    ADAM_CASES,
};

#else  // per element type

static void K(sgd)(int64_t n, const shoal_attr_value_t *attrs, double lr_in, int64_t step,
                   const shoal_tensor_t *inputs, const shoal_tensor_t *outputs) {
  const S *w = inputs[0].data, *g = inputs[1].data;
  S *new_w = outputs[0].data;
  const R lr = (R)lr_in, decay = (R)attrs[SGD_DECAY].f;
  (void)step;
  EACH_BY_ITSELF
  for (int64_t i = 0; i < n; ++i) {
    const R x = LOAD(w[i]);
    new_w[i] = STORE(x - lr * (LOAD(g[i]) + decay * x));
  }
}

static void K(momentum)(int64_t n, const shoal_attr_value_t *attrs, double lr_in, int64_t step,
                        const shoal_tensor_t *inputs, const shoal_tensor_t *outputs) {
  const S *w = inputs[0].data, *g = inputs[1].data, *m = inputs[2].data;
  S *new_w = outputs[0].data, *new_m = outputs[1].data;
  const R lr = (R)lr_in, keep = (R)attrs[MOMENTUM].f, decay = (R)attrs[MOMENTUM_DECAY].f;
  const R fresh = step > 1 ? 1 - (R)attrs[DAMPENING].f : 1;
  const bool nesterov = attrs[NESTEROV].i;
  EACH_BY_ITSELF
  for (int64_t i = 0; i < n; ++i) {
    const R x = LOAD(w[i]), slope = LOAD(g[i]) + decay * x;
    const R moved = keep * LOAD(m[i]) + fresh * slope;
    new_m[i] = STORE(moved);
    new_w[i] = STORE(x - lr * (nesterov ? slope + keep * moved : moved));
  }
}

// The weight decay belongs to the gradient (Adam), or to the step (AdamW).
static void K(adam_any)(int64_t n, const shoal_attr_value_t *attrs, double lr_in, int64_t step,
                        const shoal_tensor_t *inputs, const shoal_tensor_t *outputs, bool coupled) {
  const S *w = inputs[0].data, *g = inputs[1].data;
  const S *m = inputs[2].data, *v = inputs[3].data;
  S *new_w = outputs[0].data, *new_m = outputs[1].data;
  S *new_v = outputs[2].data;
  const double beta1 = attrs[BETA1].f, beta2 = attrs[BETA2].f;
  const R b1 = (R)beta1, c1 = (R)(1 - beta1), b2 = (R)beta2, c2 = (R)(1 - beta2);
  const double steps = step < 1 ? 1 : (double)step;
  const R fix1 = (R)(1 / (1 - pow(beta1, steps))), fix2 = (R)(1 / (1 - pow(beta2, steps)));
  const R lr = (R)lr_in, eps = (R)attrs[EPS].f, decay = (R)attrs[DECAY].f;
  EACH_BY_ITSELF
  for (int64_t i = 0; i < n; ++i) {
    const R x = LOAD(w[i]), slope = coupled ? LOAD(g[i]) + decay * x : LOAD(g[i]);
    const R first = b1 * LOAD(m[i]) + c1 * slope;
    const R second = b2 * LOAD(v[i]) + c2 * slope * slope;
    const R change = first * fix1 / (sqrt(second * fix2) + eps);
    new_m[i] = STORE(first);
    new_v[i] = STORE(second);
    new_w[i] = STORE(x - lr * (coupled ? change : change + decay * x));
  }
}

static void K(adam)(int64_t n, const shoal_attr_value_t *attrs, double lr_in, int64_t step,
                    const shoal_tensor_t *inputs, const shoal_tensor_t *outputs) {
  K(adam_any)(n, attrs, lr_in, step, inputs, outputs, true);
}

static void K(adamw)(int64_t n, const shoal_attr_value_t *attrs, double lr_in, int64_t step,
                     const shoal_tensor_t *inputs, const shoal_tensor_t *outputs) {
  K(adam_any)(n, attrs, lr_in, step, inputs, outputs, false);
}

#endif
