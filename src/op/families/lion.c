// Two updates that keep one moment, element by element, any shape, also a flat part:
//   lion  w' = w - lr (sign(b1 m + (1 - b1) g) + d w),  m' = b2 m + (1 - b2) g   (Chen 2023)
//   ema   e' = decay e + (1 - decay) x: a moving average of parameters; decay is a value
// Half-size floats are updated in f32 and rounded once.
#ifndef KERNELS_HERE
#include "op/families/kernel.h"

enum { BETA1, BETA2, DECAY };

#define EACH (EACH_REAL + EACH_HALF)
#define KERNELS "op/families/lion.c"
#include "op/families/each.h"

static shoal_status_t lion_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  out_types[0] = out_types[1] = call->inputs[0];
  return shoal_check_update(call, 3);
}

static shoal_status_t ema_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  out_types[0] = call->inputs[0];
  return shoal_check_update(call, 2);
}

typedef void (*update_fn_t)(int64_t n, const shoal_attr_value_t *attrs, double scalar,
                            const shoal_tensor_t *inputs, const shoal_tensor_t *outputs);

OP_KERNEL(lion) {
  static const update_fn_t loops[SHOAL_DTYPE_COUNT] = TABLE_FLOAT(lion);
  (void)workspace;
  loops[inputs->dtype](shoal_shape_count(&inputs->shape), call->attrs,
                       shoal_dtype_load(inputs[3].dtype, inputs[3].data, 0), inputs, outputs);
  return NULL;
}

OP_KERNEL(ema) {
  static const update_fn_t loops[SHOAL_DTYPE_COUNT] = TABLE_FLOAT(ema);
  (void)workspace;
  loops[inputs->dtype](shoal_shape_count(&inputs->shape), call->attrs,
                       shoal_dtype_load(inputs[2].dtype, inputs[2].data, 0), inputs, outputs);
  return NULL;
}

static void lion_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = 10.0 * (double)shoal_shape_count(&call->inputs[0].shape);
}

static void ema_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = 3.0 * (double)shoal_shape_count(&call->inputs[0].shape);
}

#define REAL(attr_name, text) \
  { .name = attr_name, .kind = SHOAL_ATTR_REAL, .doc = text }

const shoal_op_t shoal_op_lion_update = {
    .name = "shoal.lion_update",
    .doc =
        "Lion, element by element: w' = w - lr (sign(beta1 m + (1 - beta1) g) + weight_decay w); "
        "m' = beta2 m + (1 - beta2) g. The sign of 0 and of NaN is 0; m is 0 at first.",
    SHOAL_OP_INPUTS("w", "g", "m", "lr"),
    SHOAL_OP_OUTPUTS("w", "m"),
    SHOAL_OP_ATTRS(REAL("beta1", "share of m in the direction"), REAL("beta2", "what is kept of m"),
                   REAL("weight_decay", "decay of w, by lr times it")),
    SHOAL_OP_OVERWRITES({0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}),
    .jumps = true,
    .nan = "w moves by weight decay alone where g is NaN; m becomes NaN",
    .infer = lion_infer,
    .cost = lion_cost,
    .kernel = lion_kernel,
    SHOAL_OP_CASES("f64[3,5], f64[3,5], f64[3,5], f64[]+ ; beta1=0.9, beta2=0.99, weight_decay=0.1",
                   "f32[7], f32[7], f32[7], f32[]+ ; beta1=0.8, beta2=0.95, weight_decay=0",
                   "bf16[5], bf16[5], bf16[5], f32[]+ ; beta1=0.5, beta2=0.5, weight_decay=0.1",
                   "f64[0,3], f64[0,3], f64[0,3], f64[]+ ; beta1=0.9, beta2=0.99, weight_decay=0"),
};

const shoal_op_t shoal_op_ema_update = {
    .name = "shoal.ema_update",
    .doc =
        "A moving average, element by element: e' = decay e + (1 - decay) x; decay is a scalar of "
        "the graph.",
    SHOAL_OP_INPUTS("e", "x", "decay"),
    SHOAL_OP_OUTPUTS("e"),
    SHOAL_OP_OVERWRITES({0, 0}, {0, 1}),
    .infer = ema_infer,
    .cost = ema_cost,
    .kernel = ema_kernel,
    SHOAL_OP_CASES("f64[3,5], f64[3,5], f64[]", "f32[7], f32[7], f64[]",
                   "bf16[5,1], bf16[5,1], f32[]", "f32[0,3], f32[0,3], f32[]"),
};

#else  // per element type

static void K(lion)(int64_t n, const shoal_attr_value_t *attrs, double lr_in,
                    const shoal_tensor_t *inputs, const shoal_tensor_t *outputs) {
  const S *w = inputs[0].data, *g = inputs[1].data, *m = inputs[2].data;
  S *new_w = outputs[0].data, *new_m = outputs[1].data;
  const double beta1 = attrs[BETA1].f, beta2 = attrs[BETA2].f;
  const R b1 = (R)beta1, c1 = (R)(1 - beta1), b2 = (R)beta2, c2 = (R)(1 - beta2);
  const R lr = (R)lr_in, decay = (R)attrs[DECAY].f;
  EACH_BY_ITSELF
  for (int64_t i = 0; i < n; ++i) {
    const R x = LOAD(w[i]), slope = LOAD(g[i]), kept = LOAD(m[i]);
    const R leads = b1 * kept + c1 * slope;
    const R sign = (R)(leads > 0) - (R)(leads < 0);
    new_m[i] = STORE(b2 * kept + c2 * slope);
    new_w[i] = STORE(x - lr * (sign + decay * x));
  }
}

static void K(ema)(int64_t n, const shoal_attr_value_t *attrs, double decay,
                   const shoal_tensor_t *inputs, const shoal_tensor_t *outputs) {
  const S *e = inputs[0].data, *x = inputs[1].data;
  S *new_e = outputs[0].data;
  const R keep = (R)decay, take = (R)(1 - decay);
  (void)attrs;
  EACH_BY_ITSELF
  for (int64_t i = 0; i < n; ++i) new_e[i] = STORE(keep * LOAD(e[i]) + take * LOAD(x[i]));
}

#endif
