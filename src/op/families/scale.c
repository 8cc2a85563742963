// What clipping and loss scaling ask for:
//   sum_squares        sum of x^2 over all elements of a tensor, a scalar; the global norm is the
//                      root of the sum of these. Summed in f64 and rounded once, to f32 for halves.
//   loss_scale_update  after a step that was finite: one good step more; `interval` of them in a
//                      row multiply the scale by `growth` and start anew. After one that was not:
//                      the scale times `backoff`, no good steps.
#include <math.h>

#include "base/dtype.h"
#include "op/families/emit.h"
#include "op/families/kernel.h"

// ---- sum_squares --------------------------------------------------------------------------------

static shoal_status_t squares_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 1));
  out_types[0] = (shoal_type_t){shoal_statistics_dtype(call->inputs[0].dtype), SHOAL_SCALAR};
  return NULL;
}

OP_KERNEL(squares) {
  (void)call, (void)workspace;
  const int64_t n = shoal_shape_count(&inputs->shape);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double x = shoal_dtype_load(inputs->dtype, inputs->data, i);
    sum += x * x;
  }
  shoal_dtype_store(outputs->dtype, outputs->data, 0, sum);
  return NULL;
}

// 2 x dy
OP_GRADIENT(squares) {
  (void)out;
  const shoal_ref_t dy = shoal_emit_cast(e, grads[0], call->inputs[0].dtype);
  in_grads[0] = shoal_emit_binary(e, "shoal.mul", shoal_emit_affine(e, in[0], 2, 0), dy);
}

static void squares_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = 2.0 * (double)shoal_shape_count(&call->inputs[0].shape);
}

const shoal_op_t shoal_op_sum_squares = {
    .name = "shoal.sum_squares",
    .doc =
        "The sum of x^2 over all elements, a scalar (f32 for half-size floats). The global norm "
        "of gradients is the root of the sum of these.",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    .infer = squares_infer,
    .gradient = squares_gradient,
    .cost = squares_cost,
    .kernel = squares_kernel,
    SHOAL_OP_CASES("f64[3,5]", "f32[7,1]", "bf16[9]", "f16[2,3]", "f64[]", "f32[1,3]"),
};

// ---- loss_scale_update --------------------------------------------------------------------------

enum { SCALE, GOOD, FINITE };
enum { GROWTH, BACKOFF, INTERVAL };

static shoal_status_t loss_scale_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, SCALE, 1));
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, GOOD));
  for (int32_t i = 0; i < 3; ++i) SHOAL_RETURN_IF_ERROR(shoal_check_scalar(call, i));
  REQUIRE_HINT(call, call->inputs[FINITE].dtype == SHOAL_BOOL,
               "take shoal_reduce_all of shoal_is_finite", "finite must be bool, not %s",
               shoal_dtype_name(call->inputs[FINITE].dtype));
  const double growth = call->attrs[GROWTH].f, backoff = call->attrs[BACKOFF].f;
  REQUIRE(call, growth >= 1 && isfinite(growth), "growth is %g: it must be at least 1", growth);
  REQUIRE(call, backoff > 0 && backoff <= 1, "backoff is %g: it must be in (0, 1]", backoff);
  REQUIRE(call, call->attrs[INTERVAL].i >= 1, "interval is %lld: it must be at least 1",
          (long long)call->attrs[INTERVAL].i);
  out_types[0] = call->inputs[SCALE];
  out_types[1] = call->inputs[GOOD];
  return NULL;
}

OP_KERNEL(loss_scale) {
  (void)workspace;
  const bool finite = *(const uint8_t *)inputs[FINITE].data != 0;
  double scale = shoal_dtype_load(inputs[SCALE].dtype, inputs[SCALE].data, 0);
  int64_t good = shoal_dtype_load_int(inputs[GOOD].dtype, inputs[GOOD].data, 0);
  good = finite ? good + 1 : 0;
  if (!finite) scale *= call->attrs[BACKOFF].f;
  if (good >= call->attrs[INTERVAL].i) {
    // A scale that is infinite in its type could not come down again: it stays.
    shoal_dtype_store(outputs[0].dtype, outputs[0].data, 0, scale * call->attrs[GROWTH].f);
    const double larger = shoal_dtype_load(outputs[0].dtype, outputs[0].data, 0);
    if (isfinite(larger)) scale = larger;
    good = 0;
  }
  shoal_dtype_store(outputs[0].dtype, outputs[0].data, 0, scale);
  shoal_dtype_store_int(outputs[1].dtype, outputs[1].data, 0, good);
  return NULL;
}

const shoal_op_t shoal_op_loss_scale_update = {
    .name = "shoal.loss_scale_update",
    .doc =
        "The next loss scale, and how many steps in a row were good: `interval` good steps "
        "multiply the scale by growth, one that was not finite by backoff.",
    SHOAL_OP_INPUTS("scale", "good", "finite"),
    SHOAL_OP_OUTPUTS("scale", "good"),
    SHOAL_OP_ATTRS({.name = "growth",
                    .kind = SHOAL_ATTR_REAL,
                    .optional = true,
                    .fallback.f = 2,
                    .doc = "factor after good steps"},
                   {.name = "backoff",
                    .kind = SHOAL_ATTR_REAL,
                    .optional = true,
                    .fallback.f = 0.5,
                    .doc = "factor after a bad one"},
                   {.name = "interval",
                    .kind = SHOAL_ATTR_INT,
                    .role = SHOAL_ROLE_COUNT,
                    .optional = true,
                    .fallback.i = 2000,
                    .doc = "how many good steps in a row"}),
    SHOAL_OP_OVERWRITES({0, 0}, {1, 1}),
    .infer = loss_scale_infer,
    .kernel = loss_scale_kernel,
    SHOAL_OP_CASES("f32[]+, i64[]<9, bool[] ; interval=3", "f64[]+, i32[]<9, bool[] ; growth=4",
                   "bf16[]+, i64[]<9, bool[]"),
};
