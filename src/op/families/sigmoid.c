// sigmoid: 1 / (1 + e^-x), the logistic function, for floats. Computed with the exponential that
// cannot overflow: of -|x|.
#ifndef KERNELS_HERE
#include "op/families/emit.h"
#include "op/families/kernel.h"

#define EACH (EACH_REAL + EACH_HALF)
#define KERNELS "op/families/sigmoid.c"
#include "op/families/each.h"

MAP_KERNEL(sigmoid, TABLE_FLOAT)

static shoal_status_t sigmoid_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 1));
  out_types[0] = call->inputs[0];
  return NULL;
}

// dy y (1 - y)
static void sigmoid_gradient(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                             const shoal_ref_t *out, const shoal_ref_t *grads,
                             shoal_ref_t *in_grads) {
  (void)call, (void)in;
  const shoal_ref_t y = out[0];
  in_grads[0] =
      shoal_emit_binary(e, "shoal.mul", grads[0],
                        shoal_emit_binary(e, "shoal.mul", y, shoal_emit_affine(e, y, -1, 1)));
}

// Ten for the exponential, as shoal_cost_libm counts; one for the sum and one for the quotient.
static void sigmoid_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  (void)call;
  out_cost->flops *= 12;
}

const shoal_op_t shoal_op_sigmoid = {
    .name = "shoal.sigmoid",
    .doc = "1 / (1 + e^-x).",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_OVERWRITES({0, 0}),
    .infer = sigmoid_infer,
    .gradient = sigmoid_gradient,
    .cost = sigmoid_cost,
    .kernel = sigmoid_kernel,
    SHOAL_OP_CASES("f64[3,5]", "f32[7,3]", "f64[]", "bf16[9]", "f16[5]", "f32[0,3]"),
};

#else  // per element type

static void K(sigmoid)(int64_t n, const void *const *in, const int64_t *step, void *out,
                       const double *params) {
  const S *a = in[0];
  S *o = out;
  (void)params, (void)step;
  EACH_BY_ITSELF
  for (int64_t i = 0; i < n; ++i) {
    const R x = LOAD(a[i]), t = exp(x < 0 ? x : -x);
    o[i] = STORE((x < 0 ? t : 1) / (1 + t));
  }
}

#endif
