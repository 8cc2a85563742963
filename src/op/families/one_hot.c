// one_hot: indices as rows of zeros with a single one.
//   ids [..]   out [.., classes] with out[.., c] = 1 where c = ids[..]
#include "op/families/family.h"
#include "op/families/kernel.h"

enum { CLASSES, DTYPE, PLACE };

static shoal_status_t one_hot_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_shape_t *ids = &call->inputs[0].shape;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, 0));
  REQUIRE(call, ids->rank < SHOAL_MAX_RANK, "the result would have more than %d dims",
          SHOAL_MAX_RANK);
  REQUIRE(call, call->attrs[CLASSES].i >= 0, "classes is %lld: it must not be negative",
          (long long)call->attrs[CLASSES].i);
  out_types[0] = (shoal_type_t){(shoal_dtype_t)call->attrs[DTYPE].i, *ids};
  out_types[0].shape.dims[out_types[0].shape.rank++] = call->attrs[CLASSES].i;
  return shoal_check_place(call, PLACE, &out_types[0].shape, &place);
}

static int64_t one_hot_index_count(const shoal_call_t *call, int32_t input) {
  return input == 0 ? call->attrs[CLASSES].i : 0;
}

OP_KERNEL(one_hot) {
  (void)workspace;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, PLACE, &outputs->shape, &place));
  const int64_t count = shoal_shape_count(&inputs->shape),
                width = shoal_row_length(&outputs->shape);
  const size_t bytes = shoal_tensor_bytes(outputs);
  if (bytes) memset(outputs->data, 0, bytes);
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = -1;
    SHOAL_RETURN_IF_ERROR(
        shoal_check_index(call, 0, inputs, i, &place, outputs->shape.rank - 1, &at));
    if (at >= 0) shoal_dtype_store_int(outputs->dtype, outputs->data, i * width + at, 1);
  }
  return NULL;
}

const shoal_op_t shoal_op_one_hot = {
    .name = "shoal.one_hot",
    .doc =
        "out[.., c] is 1 where c = ids[..], else 0. An index outside [0, classes) is an error, a "
        "negative one too.",
    SHOAL_OP_INPUTS("ids"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS({.name = "classes",
                    .kind = SHOAL_ATTR_INT,
                    .role = SHOAL_ROLE_SIZE,
                    .operand = SHOAL_OUTPUT(0),
                    .dim = -1,
                    .doc = "size of the new last dim"},
                   {.name = "dtype", .kind = SHOAL_ATTR_DTYPE, .doc = "dtype of the result"},
                   SHOAL_ATTR_PLACE_OF("place", SHOAL_OUTPUT(0))),
    .infer = one_hot_infer,
    .index_count = one_hot_index_count,
    .gradient = shoal_gradient_none,
    .cost = shoal_cost_move,
    .kernel = one_hot_kernel,
    SHOAL_OP_CASES("i64[5]<7 ; classes=7, dtype=f64", "i32[2,3]<5 ; classes=5, dtype=f32",
                   "u8[]<7 ; classes=7, dtype=bf16", "i64[3,1]<9 ; classes=9, dtype=i64",
                   "i32[5]<1 ; classes=1, dtype=bool", "i64[0]<3 ; classes=3, dtype=f32"),
};
