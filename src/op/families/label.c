// What each label counts: labels [..] make out[..] = 0 where the label is the index to ignore, else
// 1. Their sum, weighted by class where classes have weights (shoal.gather), is what a mean over
// the labels that are kept is divided by.
#include "op/families/kernel.h"
#include "op/families/loss.h"

enum { CLASSES, DTYPE, IGNORE };

static shoal_status_t label_weight_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_dtype_t dtype = (shoal_dtype_t)call->attrs[DTYPE].i;
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, 0));
  REQUIRE(call, shoal_dtype_is_float(dtype), "dtype must be a float, not %s",
          shoal_dtype_name(dtype));
  REQUIRE(call, call->attrs[CLASSES].i >= 0, "classes is %lld: it must not be negative",
          (long long)call->attrs[CLASSES].i);
  out_types[0] = (shoal_type_t){dtype, call->inputs[0].shape};
  return NULL;
}

static int64_t label_weight_index_count(const shoal_call_t *call, int32_t input) {
  return input == 0 ? call->attrs[CLASSES].i : 0;
}

OP_KERNEL(label_weight) {
  const int64_t count = shoal_shape_count(&outputs->shape);
  const shoal_shape_t all = SHOAL_SHAPE(call->attrs[CLASSES].i);
  const shoal_place_t place = shoal_place_whole(&all);
  (void)workspace;
  for (int64_t i = 0; i < count; ++i) {
    int64_t at;
    bool ignored;
    SHOAL_RETURN_IF_ERROR(
        shoal_loss_label(call, 0, inputs, i, call->attrs[IGNORE].i, &place, 0, &at, &ignored));
    shoal_dtype_store(outputs->dtype, outputs->data, i, !ignored);
  }
  return NULL;
}

const shoal_op_t shoal_op_label_weight = {
    .name = "shoal.label_weight",
    .doc =
        "What each label counts: 0 where it is `ignore`, else 1. Their sum divides a mean over the "
        "labels that are kept (cross_entropy's total). Any other label outside the classes is an "
        "error.",
    SHOAL_OP_INPUTS("labels"),
    SHOAL_OP_OUTPUTS("out"),
    .spare = "ignore",
    SHOAL_OP_ATTRS({.name = "classes",
                    .kind = SHOAL_ATTR_INT,
                    .role = SHOAL_ROLE_COUNT,
                    .doc = "how many there are: labels are below it"},
                   {.name = "dtype", .kind = SHOAL_ATTR_DTYPE, .doc = "of the result, a float"},
                   {.name = "ignore",
                    .kind = SHOAL_ATTR_INT,
                    .role = SHOAL_ROLE_COUNT,
                    .optional = true,
                    .fallback = {.i = -100},
                    .doc = "the label that counts nothing"}),
    .infer = label_weight_infer,
    .index_count = label_weight_index_count,
    .gradient = shoal_gradient_none,
    .cost = shoal_cost_move,
    .kernel = label_weight_kernel,
    SHOAL_OP_CASES("i64[9]<7 ; classes=7, dtype=f64", "i32[2,5]<4 ; classes=4, dtype=f32",
                   "u8[9]<3 ; classes=3, dtype=f64, ignore=1", "i64[5,1]<9 ; classes=9, dtype=bf16",
                   "i32[0]<3 ; classes=3, dtype=f32"),
};
