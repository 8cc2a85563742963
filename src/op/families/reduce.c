// Reductions over named dims: sum, max, min for every dtype, mean for floats. Sums run in row-major
// order; half-size floats are summed in f32; sums of integers wrap, of bool they are "any". Over no
// elements the result is the identity (0, -inf or the least integer, +inf or the largest).
#ifndef KERNELS_HERE
#include "op/reduce.h"
#include "op/families/reduced.h"

enum { COUNT = 2 };

// Joins the walk's elements of x (operand 0) into out (operand 1).
typedef void (*reduce_fn_t)(shoal_walk_t *walk, const void *x, void *out);

#define EACH (EACH_REAL + EACH_INT)
#define KERNELS "op/families/reduce.c"
#include "op/families/each.h"

static shoal_status_t reduce_mean_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 1));
  REQUIRE(call, call->attrs[COUNT].i >= 0, "count %lld is negative",
          (long long)call->attrs[COUNT].i);
  return shoal_reduced_infer(call, out_types);
}

static shoal_status_t reduce_run(const shoal_call_t *call, const shoal_tensor_t *x,
                                 const shoal_tensor_t *out, shoal_reduce_t kind, reduce_fn_t loop) {
  shoal_walk_t walk;
  SHOAL_RETURN_IF_ERROR(shoal_reduced_walk(call, &walk));
  shoal_reduce_fill(out->dtype, kind, shoal_shape_count(&out->shape), out->data);
  loop(&walk, x->data, out->data);
  return NULL;
}

#define TABLE_UNHALVED(name)                                                      \
  {                                                                               \
    [SHOAL_F64] = name##_f64, [SHOAL_F32] = name##_f32, [SHOAL_I64] = name##_i64, \
    [SHOAL_I32] = name##_i32, [SHOAL_U8] = name##_u8, [SHOAL_BOOL] = name##_bool  \
  }

#define REDUCE_KERNEL(name, kind)                                                             \
  static shoal_status_t name##_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs, \
                                      const shoal_tensor_t *outputs, void *workspace) {       \
    static const reduce_fn_t loops[SHOAL_DTYPE_COUNT] = TABLE_UNHALVED(name);                 \
    if (shoal_kernel_is_half(call)) {                                                         \
      return shoal_kernel_widened(call, inputs, outputs, workspace, name##_kernel);           \
    }                                                                                         \
    return reduce_run(call, inputs, outputs, kind, loops[inputs->dtype]);                     \
  }

REDUCE_KERNEL(reduce_sum, SHOAL_REDUCE_SUM)
REDUCE_KERNEL(reduce_max, SHOAL_REDUCE_MAX)
REDUCE_KERNEL(reduce_min, SHOAL_REDUCE_MIN)

// ---- mean ------------------------------------------------------------------------------

// The divisor: the whole's, or that of this call.
static int64_t mean_count(const shoal_call_t *call) {
  return call->attrs[COUNT].i > 0 ? call->attrs[COUNT].i : shoal_reduced_count(call);
}

static void reduce_mean_complete(const shoal_call_t *call, shoal_attr_value_t *attrs) {
  attrs[COUNT].i = mean_count(call);
}

static shoal_status_t reduce_mean_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                         const shoal_tensor_t *outputs, void *workspace) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, reduce_mean_kernel);
  }
  SHOAL_RETURN_IF_ERROR(reduce_sum_kernel(call, inputs, outputs, workspace));
  const int64_t n = shoal_shape_count(&outputs->shape), count = mean_count(call);
  if (outputs->dtype == SHOAL_F64) {
    double *out = outputs->data;
    for (int64_t i = 0; i < n; ++i) out[i] /= (double)count;
  } else {
    float *out = outputs->data;
    for (int64_t i = 0; i < n; ++i) out[i] /= (float)count;
  }
  return NULL;
}

// ---- gradients -------------------------------------------------------------------------

OP_GRADIENT(reduce_sum) {
  (void)in, (void)out;
  in_grads[0] = shoal_reduced_repeat(call, e, grads[0]);
}

OP_GRADIENT(reduce_mean) {
  (void)in, (void)out;
  in_grads[0] = shoal_reduced_repeat(
      call, e, shoal_emit_affine(e, grads[0], 1 / (double)mean_count(call), 0));
}

// Elements equal to the extreme share its gradient: dy / (number of ties), where x is the extreme.
OP_GRADIENT(extreme) {
  const shoal_dtype_t dtype = call->inputs[0].dtype;
  const shoal_ref_t hit =
      shoal_emit_binary(e, "shoal.equal", in[0], shoal_reduced_repeat(call, e, out[0]));
  const shoal_ref_t ties =
      shoal_reduced_emit(call, e, "shoal.reduce_sum", shoal_emit_cast(e, hit, dtype),
                         call->attrs[SHOAL_REDUCED_KEEP].i != 0);
  const shoal_ref_t share =
      shoal_reduced_repeat(call, e, shoal_emit_binary(e, "shoal.div", grads[0], ties));
  in_grads[0] = shoal_emit_where(e, hit, share, shoal_emit_scalar(e, dtype, 0));
}

// ---- records ---------------------------------------------------------------------------

#define REDUCE_CASES                                                                 \
  "f64[3,5] ; dims=[1]", "f32[3,5,7] ; dims=[0,2]", "f64[3,5,2] ; dims=[1], keep=1", \
      "f64[4,3] ; dims=[0,1]", "bf16[3,9] ; dims=[-1]", "i64[3,5]<9 ; dims=[0]",     \
      "u8[3,5]<9 ; dims=[1]", "f32[3,0] ; dims=[1]", "f64[3,5] ; dims=[]"

#define REDUCE(op_name, text, gradient_fn)   \
  const shoal_op_t shoal_op_##op_name = {    \
      .name = "shoal." #op_name,             \
      .doc = text,                           \
      SHOAL_OP_INPUTS("x"),                  \
      SHOAL_OP_OUTPUTS("out"),               \
      SHOAL_OP_ATTRS(SHOAL_REDUCED_ATTRS),   \
      .infer = shoal_reduced_infer,          \
      .gradient = gradient_fn,               \
      .cost = shoal_reduced_cost,            \
      .workspace = shoal_kernel_widen_bytes, \
      .kernel = op_name##_kernel,            \
      SHOAL_OP_CASES(REDUCE_CASES),          \
  }

REDUCE(reduce_sum,
       "Sum over the given dims, in x's dtype; 0 of no elements. Half-size floats are summed in "
       "f32, integers wrap, and of bools it is \"any\": cast them to count.",
       reduce_sum_gradient);
REDUCE(reduce_max,
       "Largest element over the given dims; NaN if one is, and -inf or the least integer of no "
       "elements. Elements that are equally large share the gradient.",
       extreme_gradient);
REDUCE(reduce_min,
       "Smallest element over the given dims; NaN if one is, and inf or the largest integer of no "
       "elements. Elements that are equally small share the gradient.",
       extreme_gradient);

const shoal_op_t shoal_op_reduce_mean = {
    .name = "shoal.reduce_mean",
    .doc =
        "Mean of floats over the given dims: their sum, divided by count; NaN of no elements. "
        "Half-size floats are summed in f32.",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(SHOAL_REDUCED_ATTRS,
                   SHOAL_ATTR_COUNT_OF("what the sum is divided by; 0: how many are reduced")),
    .complete = reduce_mean_complete,
    .infer = reduce_mean_infer,
    .gradient = reduce_mean_gradient,
    .cost = shoal_reduced_cost,
    .workspace = shoal_kernel_widen_bytes,
    .kernel = reduce_mean_kernel,
    SHOAL_OP_CASES("f64[3,5] ; dims=[1]", "f32[3,5,7] ; dims=[0,2]",
                   "f64[3,5,2] ; dims=[-1], keep=1", "bf16[3,9] ; dims=[1]",
                   "f64[3,5] ; dims=[0,1], count=7"),
};

#else  // per element type

// Inner runs either stay on one element of out, or follow it.
#define REDUCE_LOOP(name, JOIN)                                                    \
  static void K(name)(shoal_walk_t * walk, const void *in, void *result) {         \
    for (bool more = shoal_walk_start(walk); more; more = shoal_walk_next(walk)) { \
      const S *restrict x = (const S *)in + walk->offset[0];                       \
      S *restrict out = (S *)result + walk->offset[1];                             \
      const int64_t n = walk->run, step = walk->step[0];                           \
      if (walk->step[1] == 0) {                                                    \
        R a = LOAD(out[0]);                                                        \
        for (int64_t i = 0; i < n; ++i) {                                          \
          const R b = LOAD(x[i * step]);                                           \
          a = JOIN;                                                                \
        }                                                                          \
        out[0] = STORE(a);                                                         \
      } else {                                                                     \
        for (int64_t i = 0; i < n; ++i) {                                          \
          const R a = LOAD(out[i]), b = LOAD(x[i]);                                \
          out[i] = STORE(JOIN);                                                    \
        }                                                                          \
      }                                                                            \
    }                                                                              \
  }

REDUCE_LOOP(reduce_sum, (R)((W)a + (W)b))
REDUCE_LOOP(reduce_max, a > b || IS_NAN(a) ? a : b)
REDUCE_LOOP(reduce_min, a < b || IS_NAN(a) ? a : b)

#endif
