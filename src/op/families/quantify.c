// reduce_any and reduce_all over named dims: whether any element, or each, is true. Bools only:
// with numbers that are seldom 0, discovery would not see how the results of parts are joined. Over
// no elements: false, and true.
#include "op/families/reduced.h"

static shoal_status_t quantify_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  REQUIRE_HINT(call, call->inputs[0].dtype == SHOAL_BOOL, "compare numbers with something first",
               "x must be bool, not %s", shoal_dtype_name(call->inputs[0].dtype));
  return shoal_reduced_infer(call, out_types);
}

static shoal_status_t run(const shoal_call_t *call, const shoal_tensor_t *x,
                          const shoal_tensor_t *out, bool all) {
  const uint8_t *from = x->data;
  uint8_t *result = out->data;
  shoal_walk_t walk;
  SHOAL_RETURN_IF_ERROR(shoal_reduced_walk(call, &walk));
  memset(result, all, (size_t)shoal_shape_count(&out->shape));
  for (bool more = shoal_walk_start(&walk); more; more = shoal_walk_next(&walk)) {
    for (int64_t i = 0; i < walk.run; ++i) {
      const int64_t to = walk.offset[1] + i * walk.step[1];
      const bool is = from[walk.offset[0] + i * walk.step[0]] != 0;
      if (is != all) result[to] = is;
    }
  }
  return NULL;
}

OP_KERNEL(reduce_any) {
  (void)workspace;
  return run(call, inputs, outputs, false);
}

OP_KERNEL(reduce_all) {
  (void)workspace;
  return run(call, inputs, outputs, true);
}

#define QUANTIFY(op_name, text)                                                  \
  const shoal_op_t shoal_op_##op_name = {                                        \
      .name = "shoal." #op_name,                                                 \
      .doc = text,                                                               \
      SHOAL_OP_INPUTS("x"),                                                      \
      SHOAL_OP_OUTPUTS("out"),                                                   \
      SHOAL_OP_ATTRS(SHOAL_REDUCED_ATTRS),                                       \
      .infer = quantify_infer,                                                   \
      .gradient = shoal_gradient_none,                                           \
      .cost = shoal_reduced_cost,                                                \
      .kernel = op_name##_kernel,                                                \
      SHOAL_OP_CASES("bool[3,5] ; dims=[1]", "bool[3,1,7] ; dims=[0,2], keep=1", \
                     "bool[4,3] ; dims=[0,1]", "bool[3,0] ; dims=[1]"),          \
  }

QUANTIFY(reduce_any,
         "Whether any element over the given dims is true, of bools; false of no elements.");
QUANTIFY(reduce_all,
         "Whether each element over the given dims is true, of bools; true of no elements.");
