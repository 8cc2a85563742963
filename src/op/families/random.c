// Random numbers. The word of an element is drawn from Philox by the key (an attribute), the step
// (an input) and the element's row-major index in the whole - so the same bits come out on every
// layout. Values are computed in f64 and rounded once.
#ifndef KERNELS_HERE
#include <math.h>

#include "base/philox.h"
#include "op/families/emit.h"
#include "op/families/kernel.h"

enum {
  RANDOM_SHAPE,
  RANDOM_KEY,
  RANDOM_DTYPE,
  RANDOM_PLACE,
  RANDOM_A,
  RANDOM_B,
  RANDOM_LOW,
  RANDOM_HIGH
};

static shoal_status_t random_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_scalar(call, 0));
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, 0));
  const shoal_dtype_t dtype = (shoal_dtype_t)call->attrs[RANDOM_DTYPE].i;
  REQUIRE(call, shoal_dtype_is_float(dtype), "dtype must be a float, not %s",
          shoal_dtype_name(dtype));
  out_types[0].dtype = dtype;
  SHOAL_RETURN_IF_ERROR(shoal_check_sizes(call, RANDOM_SHAPE, &out_types[0].shape));
  return shoal_check_place(call, RANDOM_PLACE, &out_types[0].shape, &place);
}

static uint32_t draw(const shoal_place_t *place, int64_t key, int64_t step, int64_t element) {
  return shoal_philox_word((uint64_t)key, 0, (uint64_t)step,
                           (uint64_t)shoal_place_global(place, element));
}

// Normals between limits: uniform numbers between the shares of all normals below either limit.
static shoal_status_t normal_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const double low = call->attrs[RANDOM_LOW].f, high = call->attrs[RANDOM_HIGH].f;
  REQUIRE(call, low < high, "low must be below high: %g and %g", low, high);
  return random_infer(call, out_types);
}

static shoal_status_t random_fill(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                  const shoal_tensor_t *outputs, bool normal) {
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, RANDOM_PLACE, &outputs->shape, &place));
  const int64_t step = shoal_dtype_load_int(inputs->dtype, inputs->data, 0);
  const int64_t key = call->attrs[RANDOM_KEY].i, count = shoal_shape_count(&outputs->shape);
  const double a = call->attrs[RANDOM_A].f, b = call->attrs[RANDOM_B].f;
  double low = -INFINITY, high = INFINITY, from = 0, share = 1;
  if (normal && b > 0) {
    low = call->attrs[RANDOM_LOW].f;
    high = call->attrs[RANDOM_HIGH].f;
    from = shoal_normal_share((low - a) / b);
    share = shoal_normal_share((high - a) / b) - from;
  }
  for (int64_t i = 0; i < count; ++i) {
    const double u = from + share * shoal_philox_uniform(draw(&place, key, step, i));
    double value = normal ? a + b * shoal_normal_of(u) : a + (b - a) * u;
    if (value < low) value = low;
    if (value > high) value = high;
    shoal_dtype_store(outputs->dtype, outputs->data, i, value);
  }
  return NULL;
}

static shoal_status_t uniform_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                     const shoal_tensor_t *outputs, void *workspace) {
  (void)workspace;
  return random_fill(call, inputs, outputs, false);
}

static shoal_status_t normal_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                    const shoal_tensor_t *outputs, void *workspace) {
  (void)workspace;
  return random_fill(call, inputs, outputs, true);
}

static void random_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  (void)call;
  out_cost->flops *= 50;  // ten rounds and a polynomial
}

#define KEY_ATTR                                                                \
  {                                                                             \
    .name = "key", .kind = SHOAL_ATTR_INT,                                      \
    .doc = "key of the stream, one for each random node: seed ^ hash(its name)" \
  }
#define RANDOM_ATTRS(a, a_text, b, b_text)                                       \
  SHOAL_ATTR_SIZES("shape", SHOAL_OUTPUT(0), "shape of the result"), KEY_ATTR,   \
      {.name = "dtype", .kind = SHOAL_ATTR_DTYPE, .doc = "dtype of the result"}, \
      SHOAL_ATTR_PLACE_OF("place", SHOAL_OUTPUT(0)),                             \
      {.name = a, .kind = SHOAL_ATTR_REAL, .doc = a_text}, {                     \
    .name = b, .kind = SHOAL_ATTR_REAL, .doc = b_text                            \
  }

const shoal_op_t shoal_op_random_uniform = {
    .name = "shoal.random_uniform",
    .doc =
        "Uniform random floats in (low, high), from 23 bits of one word of Philox each; rounding "
        "to a narrow dtype may give an end.",
    SHOAL_OP_INPUTS("step"),
    SHOAL_OP_OUTPUTS("out"),
    .random = true,
    SHOAL_OP_ATTRS(RANDOM_ATTRS("low", "lower end", "high", "upper end")),
    .infer = random_infer,
    .gradient = shoal_gradient_none,
    .cost = random_cost,
    .kernel = uniform_kernel,
    SHOAL_OP_CASES("i64[]<9 ; shape=[3,5], key=77, dtype=f64, low=-1, high=2",
                   "i64[]<9 ; shape=[7], key=-5, dtype=f32, low=0, high=1",
                   "i32[]<9 ; shape=[3,3,2], key=1, dtype=bf16, low=0, high=1"),
};

const shoal_op_t shoal_op_random_normal = {
    .name = "shoal.random_normal",
    .doc =
        "Normal random floats of the given mean and standard deviation, from 23 bits of one word "
        "of Philox each: none lies further than 5.3 standard deviations from the mean, or outside "
        "[low, high] (rounding to a narrow dtype may leave it by a rounding).",
    SHOAL_OP_INPUTS("step"),
    SHOAL_OP_OUTPUTS("out"),
    .random = true,
    SHOAL_OP_ATTRS(RANDOM_ATTRS("mean", "mean", "std", "standard deviation"),
                   {.name = "low",
                    .kind = SHOAL_ATTR_REAL,
                    .optional = true,
                    .fallback = {.f = -INFINITY},
                    .doc = "least result; -inf: no bound"},
                   {.name = "high",
                    .kind = SHOAL_ATTR_REAL,
                    .optional = true,
                    .fallback = {.f = INFINITY},
                    .doc = "largest result; inf: no bound"}),
    .infer = normal_infer,
    .gradient = shoal_gradient_none,
    .cost = random_cost,
    .kernel = normal_kernel,
    SHOAL_OP_CASES("i64[]<9 ; shape=[3,5], key=77, dtype=f64, mean=0, std=1",
                   "i64[]<9 ; shape=[7,3], key=-5, dtype=f32, mean=0.5, std=0.02",
                   "i64[]<9 ; shape=[4,3], key=9, dtype=f32, mean=1, std=2, low=0, high=2.5",
                   "i32[]<9 ; shape=[5], key=1, dtype=f16, mean=0, std=1"),
};

// ---- dropout ---------------------------------------------------------------------------

enum { DROPOUT_P, DROPOUT_KEY, DROPOUT_PLACE };

#define EACH (EACH_REAL + EACH_HALF)
#define KERNELS "op/families/random.c"
#include "op/families/each.h"

static shoal_status_t dropout_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 1));
  SHOAL_RETURN_IF_ERROR(shoal_check_scalar(call, 1));
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, 1));
  const double p = call->attrs[DROPOUT_P].f;
  REQUIRE(call, p >= 0 && p <= 1, "p must be in [0, 1], not %g", p);
  out_types[0] = call->inputs[0];
  return shoal_check_place(call, DROPOUT_PLACE, &call->inputs[0].shape, &place);
}

static void dropout_gradient(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                             const shoal_ref_t *out, const shoal_ref_t *grads,
                             shoal_ref_t *in_grads) {
  (void)out;
  in_grads[0] = shoal_emit_one(e, "shoal.dropout", REFS(grads[0], in[1]),
                               ATTRS(shoal_attr_real("p", call->attrs[DROPOUT_P].f),
                                     shoal_attr_int("key", call->attrs[DROPOUT_KEY].i)));
}

static shoal_status_t dropout_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                     const shoal_tensor_t *outputs, void *workspace) {
  typedef void (*loop_t)(int64_t, const shoal_place_t *, int64_t, int64_t, double, const void *,
                         void *);
  static const loop_t loops[SHOAL_DTYPE_COUNT] = TABLE_FLOAT(dropout);
  (void)workspace;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, DROPOUT_PLACE, &outputs->shape, &place));
  const int64_t step = shoal_dtype_load_int(inputs[1].dtype, inputs[1].data, 0);
  loops[inputs->dtype](shoal_shape_count(&outputs->shape), &place, call->attrs[DROPOUT_KEY].i, step,
                       call->attrs[DROPOUT_P].f, inputs->data, outputs->data);
  return NULL;
}

const shoal_op_t shoal_op_dropout = {
    .name = "shoal.dropout",
    .doc =
        "Each element is 0 with probability p, else x / (1 - p), for floats; all are 0 where p is "
        "1. The same key, step and index draw the same, and so does its gradient.",
    SHOAL_OP_INPUTS("x", "step"),
    SHOAL_OP_OUTPUTS("out"),
    .random = true,
    SHOAL_OP_ATTRS({.name = "p", .kind = SHOAL_ATTR_REAL, .doc = "probability of 0, in [0, 1]"},
                   KEY_ATTR, SHOAL_ATTR_PLACE_OF("place", SHOAL_OUTPUT(0))),
    SHOAL_OP_OVERWRITES({0, 0}),
    .infer = dropout_infer,
    .gradient = dropout_gradient,
    .cost = random_cost,
    .kernel = dropout_kernel,
    SHOAL_OP_CASES("f64[3,5], i64[]<9 ; p=0.3, key=77", "f32[7,3], i64[]<9 ; p=0.5, key=-5",
                   "bf16[9], i32[]<9 ; p=0.1, key=1"),
};

// ---- bernoulli -------------------------------------------------------------------------

enum { BERNOULLI_KEY, BERNOULLI_PLACE };

static shoal_status_t bernoulli_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 1));
  SHOAL_RETURN_IF_ERROR(shoal_check_scalar(call, 1));
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, 1));
  out_types[0] = call->inputs[0];
  return shoal_check_place(call, BERNOULLI_PLACE, &call->inputs[0].shape, &place);
}

static shoal_status_t bernoulli_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                       const shoal_tensor_t *outputs, void *workspace) {
  (void)workspace;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, BERNOULLI_PLACE, &outputs->shape, &place));
  const int64_t step = shoal_dtype_load_int(inputs[1].dtype, inputs[1].data, 0);
  const int64_t count = shoal_shape_count(&outputs->shape);
  for (int64_t i = 0; i < count; ++i) {
    const double u = shoal_philox_uniform(draw(&place, call->attrs[BERNOULLI_KEY].i, step, i));
    const double p = shoal_dtype_load(inputs->dtype, inputs->data, i);
    shoal_dtype_store(outputs->dtype, outputs->data, i, u < p);
  }
  return NULL;
}

const shoal_op_t shoal_op_bernoulli = {
    .name = "shoal.bernoulli",
    .doc =
        "Each element is 1 with the probability that p, a float, has there, else 0; in p's dtype. "
        "No gradient flows to p.",
    SHOAL_OP_INPUTS("p", "step"),
    SHOAL_OP_OUTPUTS("out"),
    .random = true,
    .jumps = true,
    .nan = "a probability below 0 or NaN gives 0, one above 1 gives 1",
    SHOAL_OP_ATTRS(KEY_ATTR, SHOAL_ATTR_PLACE_OF("place", SHOAL_OUTPUT(0))),
    SHOAL_OP_OVERWRITES({0, 0}),
    .infer = bernoulli_infer,
    .gradient = shoal_gradient_none,
    .cost = random_cost,
    .kernel = bernoulli_kernel,
    SHOAL_OP_CASES("f64[3,5]+, i64[]<9 ; key=77", "f32[7,3]+, i64[]<9 ; key=-5",
                   "bf16[9]+, i32[]<9 ; key=1", "f64[3,1,4]+, i64[]<9 ; key=2",
                   "f32[0,3]+, i64[]<9 ; key=3"),
};

#else  // per element type

static void K(dropout)(int64_t n, const shoal_place_t *place, int64_t key, int64_t step, double p,
                       const void *in, void *result) {
  const S *x = in;
  S *out = result;
  const R scale = (R)(p < 1 ? 1 / (1 - p) : 0);
  for (int64_t i = 0; i < n; ++i) {
    const bool kept = shoal_philox_uniform(draw(place, key, step, i)) >= p;
    out[i] = kept ? STORE(LOAD(x[i]) * scale) : 0;
  }
}

#endif
