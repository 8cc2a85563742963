// Element-wise ops of one operand (and the fused gradients of relu and gelu), for floats; neg and
// relu take integers too.
//
// gelu is the tanh form, as in GPT-2: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
#ifndef KERNELS_HERE
#include "op/families/pointwise.h"

#define EACH (EACH_REAL + EACH_HALF)
#define KERNELS "op/families/unary.c"
#include "op/families/each.h"

MAP_KERNEL(exp, TABLE_FLOAT)
MAP_KERNEL(log, TABLE_FLOAT)
MAP_KERNEL(sqrt, TABLE_FLOAT)
MAP_KERNEL(tanh, TABLE_FLOAT)
MAP_KERNEL(square, TABLE_FLOAT)
MAP_KERNEL(gelu, TABLE_FLOAT)
MAP_KERNEL(relu_grad, TABLE_FLOAT)
MAP_KERNEL(gelu_grad, TABLE_FLOAT)

INTS_1(neg, 0 - (uint64_t)x)
INTS_1(relu, x > 0 ? x : 0)

// Floats by their typed loops, integers as 64 bits.
#define NUMBER_KERNEL(name)                                                                   \
  static shoal_status_t name##_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs, \
                                      const shoal_tensor_t *outputs, void *workspace) {       \
    static const shoal_map_fn_t loops[SHOAL_DTYPE_COUNT] = TABLE_FLOAT(name);                 \
    const shoal_map_fn_t loop = loops[inputs->dtype];                                         \
    (void)workspace;                                                                          \
    return loop ? shoal_map_run(inputs, 1, outputs, loop, NULL)                               \
                : shoal_map_blocks(call, inputs, outputs, NULL, name##_ints);                 \
  }

NUMBER_KERNEL(neg)
NUMBER_KERNEL(relu)

enum { AFFINE_SCALE, AFFINE_SHIFT };

static shoal_status_t affine_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                    const shoal_tensor_t *outputs, void *workspace) {
  static const shoal_map_fn_t loops[SHOAL_DTYPE_COUNT] = TABLE_FLOAT(affine);
  const double params[2] = {call->attrs[AFFINE_SCALE].f, call->attrs[AFFINE_SHIFT].f};
  (void)workspace;
  return shoal_map_run(inputs, 1, outputs, loops[inputs->dtype], params);
}

static shoal_status_t unary_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 1));
  out_types[0] = call->inputs[0];
  return NULL;
}

static shoal_status_t grad_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 2));
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, 1, &call->inputs[0].shape));
  out_types[0] = call->inputs[0];
  return NULL;
}

// ---- gradients -------------------------------------------------------------------------

#define GRADIENT(name, result)                                                                     \
  static void name##_gradient(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in, \
                              const shoal_ref_t *out, const shoal_ref_t *grads,                    \
                              shoal_ref_t *in_grads) {                                             \
    const shoal_ref_t x = in[0], y = out[0], dy = grads[0];                                        \
    (void)call, (void)x, (void)y;                                                                  \
    in_grads[0] = result;                                                                          \
  }

GRADIENT(neg, shoal_emit_unary(e, "shoal.neg", dy))
GRADIENT(exp, shoal_emit_binary(e, "shoal.mul", dy, y))
GRADIENT(log, shoal_emit_binary(e, "shoal.div", dy, x))
GRADIENT(sqrt, shoal_emit_binary(e, "shoal.div", shoal_emit_affine(e, dy, 0.5, 0), y))
GRADIENT(tanh,
         shoal_emit_binary(e, "shoal.mul", dy,
                           shoal_emit_affine(e, shoal_emit_unary(e, "shoal.square", y), -1, 1)))
GRADIENT(square, shoal_emit_binary(e, "shoal.mul", dy, shoal_emit_affine(e, x, 2, 0)))
GRADIENT(relu, shoal_emit_binary(e, "shoal.relu_grad", x, dy))
GRADIENT(gelu, shoal_emit_binary(e, "shoal.gelu_grad", x, dy))
GRADIENT(affine, shoal_emit_affine(e, dy, call->attrs[AFFINE_SCALE].f, 0))

// ---- records ---------------------------------------------------------------------------

#define UNARY(op_name, text, cost_fn, ...) \
  UNARY_OF(op_name, text, unary_infer, cost_fn, __VA_ARGS__)
#define UNARY_OF(op_name, text, infer_fn, cost_fn, ...) \
  const shoal_op_t shoal_op_##op_name = {               \
      .name = "shoal." #op_name,                        \
      .doc = text,                                      \
      SHOAL_OP_INPUTS("x"),                             \
      SHOAL_OP_OUTPUTS("out"),                          \
      SHOAL_OP_OVERWRITES({0, 0}),                      \
      .infer = infer_fn,                                \
      .gradient = op_name##_gradient,                   \
      .cost = cost_fn,                                  \
      .kernel = op_name##_kernel,                       \
      SHOAL_OP_CASES(__VA_ARGS__),                      \
  }
#define ANY_CASES "f64[3,5]", "f32[7,3]", "f64[]", "bf16[9]", "f16[5]", "f32[0,3]"
#define NUMBER_CASES ANY_CASES, "i64[3,5]<9>-9", "i32[7]<9>-9", "u8[5]<200"
#define POSITIVE_CASES "f64[3,5]+", "f32[7,3]+", "f64[]+", "bf16[9]+"

UNARY_OF(neg, "-x, of floats and integers, which wrap.", shoal_infer_broadcast_numbers, NULL,
         NUMBER_CASES);
UNARY(exp, "e to the power of x.", shoal_cost_libm, ANY_CASES);
UNARY(log, "Natural logarithm of x: -inf of 0, NaN below it.", shoal_cost_libm, POSITIVE_CASES);
UNARY(sqrt, "Square root of x: NaN below 0.", NULL, POSITIVE_CASES);
UNARY(tanh, "Hyperbolic tangent of x.", shoal_cost_libm, ANY_CASES);
UNARY(square, "x * x.", NULL, ANY_CASES);
UNARY_OF(relu, "x where x > 0, else 0, of floats and integers; NaN stays NaN.",
         shoal_infer_broadcast_numbers, NULL, NUMBER_CASES);
UNARY(gelu,
      "0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): the tanh form of gelu (gelu_erf is the "
      "exact one).",
      shoal_cost_libm, ANY_CASES);

#define GRAD(op_name, text, cost_fn, has_jumps, ...)                                  \
  const shoal_op_t shoal_op_##op_name = {                                             \
      .name = "shoal." #op_name,                                                      \
      .doc = text,                                                                    \
      SHOAL_OP_INPUTS("x", "dy"),                                                     \
      SHOAL_OP_OUTPUTS("dx"),                                                         \
      SHOAL_OP_OVERWRITES({0, 0}, {0, 1}),                                            \
      .jumps = has_jumps,                                                             \
      __VA_ARGS__.infer = grad_infer,                                                 \
      .cost = cost_fn,                                                                \
      .kernel = op_name##_kernel,                                                     \
      SHOAL_OP_CASES("f64[3,5], f64[3,5]", "f32[7], f32[7]", "bf16[3,5], bf16[3,5]"), \
  }

GRAD(relu_grad, "Gradient of relu: 0 where x <= 0, else dy.", NULL, true,
     .nan = "dy where x is NaN", );
GRAD(gelu_grad, "Gradient of gelu (tanh form): dy times its derivative at x.", shoal_cost_libm,
     false, );

const shoal_op_t shoal_op_affine = {
    .name = "shoal.affine",
    .doc = "scale * x + shift of floats, with numbers that are known when the graph is built.",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS({.name = "scale", .kind = SHOAL_ATTR_REAL, .doc = "factor"},
                   {.name = "shift", .kind = SHOAL_ATTR_REAL, .doc = "summand"}),
    SHOAL_OP_OVERWRITES({0, 0}),
    .infer = unary_infer,
    .gradient = affine_gradient,
    .kernel = affine_kernel,
    SHOAL_OP_CASES("f64[3,5] ; scale=1.5, shift=-0.25", "f32[7,3] ; scale=-2, shift=0",
                   "bf16[5] ; scale=0.5, shift=1"),
};

#else  // per element type

static inline R K(gelu_tanh)(R x) {
  return tanh((R)0.7978845608028654 * (x + (R)0.044715 * x * x * x));
}

static inline R K(gelu_slope)(R x) {
  const R t = K(gelu_tanh)(x);
  const R inner = (R)0.7978845608028654 * (1 + (R)(3 * 0.044715) * x * x);
  return (R)0.5 * (1 + t) + (R)0.5 * x * (1 - t * t) * inner;
}

MAP_LOOP(neg, -x)
MAP_LOOP(exp, exp(x))
MAP_LOOP(log, log(x))
MAP_LOOP(sqrt, sqrt(x))
MAP_LOOP(tanh, tanh(x))
MAP_LOOP(square, x *x)
MAP_LOOP(relu, x < 0 ? 0 : x)
MAP_LOOP(gelu, (R)0.5 * x * (1 + K(gelu_tanh)(x)))
MAP_LOOP(affine, (R)params[0] * x + (R)params[1])
MAP_GRAD_LOOP(relu_grad, x <= 0 ? 0 : dy)
MAP_GRAD_LOOP(gelu_grad, dy *K(gelu_slope)(x))

#endif
