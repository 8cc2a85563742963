// Reductions over named dims: sum, max, min for every dtype, mean for floats. Sums run in row-major
// order; half-size floats are summed in f32; sums of integers wrap, of bool they are "any". Over no
// elements the result is the identity (0, -inf or the least integer, +inf or the largest).
#ifndef KERNELS_HERE
#include "op/reduce.h"
#include "op/families/emit.h"
#include "op/families/kernel.h"

enum { DIMS, KEEP, COUNT };

// Joins the walk's elements of x (operand 0) into out (operand 1).
typedef void (*reduce_fn_t)(shoal_walk_t *walk, const void *x, void *out);

#define EACH (EACH_REAL + EACH_INT)
#define KERNELS "op/families/reduce.c"
#include "op/families/each.h"

// Which dims of x are reduced? Names a wrong or doubled one.
static shoal_status_t reduced_dims(const shoal_call_t *call, bool out_reduced[SHOAL_MAX_RANK]) {
  const shoal_attr_value_t *dims = &call->attrs[DIMS];
  memset(out_reduced, 0, SHOAL_MAX_RANK * sizeof *out_reduced);
  for (int32_t i = 0; i < dims->count; ++i) {
    int32_t axis;
    SHOAL_RETURN_IF_ERROR(shoal_check_axis(call, dims->ints[i], call->inputs[0].shape.rank, &axis));
    REQUIRE(call, !out_reduced[axis], "dim %d is named twice in dims", axis);
    out_reduced[axis] = true;
  }
  return NULL;
}

// The result's shape with reduced dims as 1, or without them.
static shoal_shape_t reduced_shape(const shoal_shape_t *x, const bool *reduced, bool keep) {
  shoal_shape_t shape = {0};
  for (int32_t d = 0; d < x->rank; ++d) {
    if (!reduced[d] || keep) shape.dims[shape.rank++] = reduced[d] ? 1 : x->dims[d];
  }
  return shape;
}

static shoal_status_t reduce_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  bool reduced[SHOAL_MAX_RANK];
  SHOAL_RETURN_IF_ERROR(reduced_dims(call, reduced));
  const shoal_type_t *x = &call->inputs[0];
  out_types[0] =
      (shoal_type_t){x->dtype, reduced_shape(&x->shape, reduced, call->attrs[KEEP].i != 0)};
  return NULL;
}

static shoal_status_t reduce_mean_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 1));
  REQUIRE(call, call->attrs[COUNT].i >= 0, "count %lld is negative",
          (long long)call->attrs[COUNT].i);
  return reduce_infer(call, out_types);
}

static shoal_status_t reduce_run(const shoal_call_t *call, const shoal_tensor_t *x,
                                 const shoal_tensor_t *out, shoal_reduce_t kind, reduce_fn_t loop) {
  bool reduced[SHOAL_MAX_RANK];
  SHOAL_RETURN_IF_ERROR(reduced_dims(call, reduced));
  shoal_reduce_fill(out->dtype, kind, shoal_shape_count(&out->shape), out->data);
  const shoal_shape_t kept = reduced_shape(&x->shape, reduced, true);
  shoal_walk_t walk;
  shoal_walk_init(&walk, &x->shape, 2);
  shoal_strides(&x->shape, walk.stride[0]);
  shoal_strides(&kept, walk.stride[1]);
  for (int32_t d = 0; d < x->shape.rank; ++d) {
    if (reduced[d]) walk.stride[1][d] = 0;
  }
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
  if (call->attrs[COUNT].i > 0) return call->attrs[COUNT].i;
  const shoal_shape_t *x = &call->inputs[0].shape;
  const shoal_attr_value_t *dims = &call->attrs[DIMS];
  int64_t count = 1;
  for (int32_t i = 0; i < dims->count; ++i) {
    const int32_t axis = shoal_normal_axis(dims->ints[i], x->rank);
    if (axis >= 0 && axis < x->rank) count *= x->dims[axis];
  }
  return count;
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

// A value of the result's shape, repeated to x's.
static shoal_ref_t repeat(const shoal_call_t *call, shoal_emitter_t *e, shoal_ref_t value) {
  bool reduced[SHOAL_MAX_RANK];
  shoal_status_t status = reduced_dims(call, reduced);
  if (status) {
    shoal_emit_fail(e, status);
    return SHOAL_NO_REF;
  }
  const shoal_shape_t *x = &call->inputs[0].shape;
  const shoal_shape_t kept = reduced_shape(x, reduced, true);
  return shoal_emit_broadcast(e, shoal_emit_reshape(e, value, &kept), x);
}

OP_GRADIENT(reduce_sum) {
  (void)in, (void)out;
  in_grads[0] = repeat(call, e, grads[0]);
}

OP_GRADIENT(reduce_mean) {
  (void)in, (void)out;
  in_grads[0] = repeat(call, e, shoal_emit_affine(e, grads[0], 1 / (double)mean_count(call), 0));
}

// Elements equal to the extreme share its gradient: dy / (number of ties), where x is the extreme.
OP_GRADIENT(extreme) {
  const shoal_dtype_t dtype = call->inputs[0].dtype;
  const shoal_ref_t hit = shoal_emit_binary(e, "shoal.equal", in[0], repeat(call, e, out[0]));
  const shoal_ref_t ties =
      shoal_emit_one(e, "shoal.reduce_sum", REFS(shoal_emit_cast(e, hit, dtype)),
                     ATTRS(shoal_attr_ints("dims", call->attrs[DIMS].count, call->attrs[DIMS].ints),
                           shoal_attr_int("keep", call->attrs[KEEP].i)));
  const shoal_ref_t share = repeat(call, e, shoal_emit_binary(e, "shoal.div", grads[0], ties));
  in_grads[0] = shoal_emit_where(e, hit, share, shoal_emit_scalar(e, dtype, 0));
}

// ---- records ---------------------------------------------------------------------------

static void reduce_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = (double)shoal_shape_count(&call->inputs[0].shape);
}

#define REDUCE_ATTRS                                                                             \
  {.name = "dims", .kind = SHOAL_ATTR_INTS, .doc = "dims to reduce; -1 is the last"}, {          \
    .name = "keep", .kind = SHOAL_ATTR_INT, .optional = true, .doc = "1: keep them, with size 1" \
  }
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
      SHOAL_OP_ATTRS(REDUCE_ATTRS),          \
      .infer = reduce_infer,                 \
      .gradient = gradient_fn,               \
      .cost = reduce_cost,                   \
      .workspace = shoal_kernel_widen_bytes, \
      .kernel = op_name##_kernel,            \
      SHOAL_OP_CASES(REDUCE_CASES),          \
  }

REDUCE(reduce_sum, "Sum over the given dims.", reduce_sum_gradient);
REDUCE(reduce_max, "Largest element over the given dims. Its gradient is shared by ties.",
       extreme_gradient);
REDUCE(reduce_min, "Smallest element over the given dims. Its gradient is shared by ties.",
       extreme_gradient);

const shoal_op_t shoal_op_reduce_mean = {
    .name = "shoal.reduce_mean",
    .doc = "Sum over the given dims divided by count.",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(REDUCE_ATTRS,
                   SHOAL_ATTR_COUNT_OF("how many are averaged; 0: as many as are reduced")),
    .complete = reduce_mean_complete,
    .infer = reduce_mean_infer,
    .gradient = reduce_mean_gradient,
    .cost = reduce_cost,
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
