// constrain: its input, laid out over ranks as an attribute says. The op computes nothing: it is a
// place in the graph where a model, not the planner, decides about a layout (shoal_constrain in
// graph.h). The gradient has the same layout, as in GSPMD; but an unreduced value has a gradient
// like any other: each rank's summand needs all of it.
#include <string.h>

#include "op/families/emit.h"
#include "op/families/kernel.h"

static shoal_status_t constrain_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  out_types[0] = call->inputs[0];
  return NULL;
}

OP_GRADIENT(constrain) {
  (void)in, (void)out;
  const char *layout = call->attrs[0].s;
  in_grads[0] = strstr(layout, ":partial(")
                    ? grads[0]
                    : shoal_emit_one(e, "shoal.constrain", REFS(grads[0]),
                                     ATTRS(shoal_attr_string("layout", layout)));
}

OP_KERNEL(constrain) {
  (void)call, (void)workspace;
  const size_t bytes = shoal_tensor_bytes(inputs);
  if (bytes && outputs->data != inputs->data) memcpy(outputs->data, inputs->data, bytes);
  return NULL;
}

const shoal_op_t shoal_op_constrain = {
    .name = "shoal.constrain",
    .doc =
        "Its input, held by ranks as `layout` says, under every plan; so is its gradient. "
        "shoal_constrain adds it.",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS({.name = "layout",
                    .kind = SHOAL_ATTR_STRING,
                    .doc = "which axis of the mesh cuts which dim: \"data:0,tensor:2\""}),
    .constrains = "layout",
    SHOAL_OP_OVERWRITES({0, 0}),
    .any_dtype = true,
    .infer = constrain_infer,
    .gradient = constrain_gradient,
    .cost = shoal_cost_move,
    .kernel = constrain_kernel,
    SHOAL_OP_CASES("f64[3,10] ; layout=\"data:0\"", "f32[3,5,2] ; layout=\"data:1,tensor:2\"",
                   "i32[6] ; layout=\"\"", "bool[] ; layout=\"\"",
                   "f64[4,6] ; layout=\"tensor:partial(sum)\"", "bf16[0,3] ; layout=\"tensor:1\""),
};
