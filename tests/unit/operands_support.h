// Two ops whose operands vary from call to call, for tests of several layers:
//   user.fma    y = x [* scale] [+ shift], all of one shape; scale and shift are optional
//   user.fan    ys[i] = (i + 1) x for i < count: so many outputs
#ifndef SHOAL_TESTS_OPERANDS_SUPPORT_H_
#define SHOAL_TESTS_OPERANDS_SUPPORT_H_

#include <stdio.h>

#include "shoal/shoal.h"
#include "unit.h"

enum { FMA_X, FMA_SCALE, FMA_SHIFT };
enum { FMA_WITH, FMA_PLACE };

static inline shoal_status_t not_alike(const shoal_call_t *call) {
  return shoal_status_create(SHOAL_INVALID_ARGUMENT, __FILE__, __LINE__, call->op->name, NULL);
}

static inline shoal_status_t fma_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  for (int32_t i = 0; i < call->input_count; ++i) {
    if (call->inputs[i].dtype != SHOAL_F64 ||
        !shoal_shape_equal(&call->inputs[i].shape, &call->inputs[0].shape)) {
      return not_alike(call);
    }
  }
  out_types[0] = call->inputs[0];
  return NULL;
}

static inline shoal_status_t fma_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                        const shoal_tensor_t *outputs, void *workspace) {
  (void)workspace;
  const int32_t scale = shoal_op_given(call->op, call->attrs, FMA_SCALE);
  const int32_t shift = shoal_op_given(call->op, call->attrs, FMA_SHIFT);
  for (int64_t i = 0; i < shoal_shape_count(&inputs[0].shape); ++i) {
    double y = ((const double *)inputs[0].data)[i];
    if (scale >= 0) y *= ((const double *)inputs[scale].data)[i];
    if (shift >= 0) y += ((const double *)inputs[shift].data)[i];
    ((double *)outputs[0].data)[i] = y;
  }
  return NULL;
}

// dx is an fma of its own, in which the shift is left out, and the scale if there is none.
static inline void fma_gradient(const shoal_call_t *call, shoal_emitter_t *emitter,
                                const shoal_ref_t *inputs, const shoal_ref_t *outputs,
                                const shoal_ref_t *output_grads, shoal_ref_t *out_input_grads) {
  (void)outputs;
  const int32_t scale = shoal_op_given(call->op, call->attrs, FMA_SCALE);
  const int32_t shift = shoal_op_given(call->op, call->attrs, FMA_SHIFT);
  const shoal_ref_t dx[] = {output_grads[0], scale < 0 ? SHOAL_NO_REF : inputs[scale],
                            SHOAL_NO_REF};
  shoal_emit(emitter, "user.fma", 3, dx, 0, NULL, 1, &out_input_grads[FMA_X]);
  const shoal_ref_t dscale[] = {output_grads[0], inputs[FMA_X]};
  if (scale >= 0) shoal_emit(emitter, "shoal.mul", 2, dscale, 0, NULL, 1, &out_input_grads[scale]);
  if (shift >= 0) out_input_grads[shift] = output_grads[0];
}

static inline shoal_status_t fan_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  if (call->attrs[0].i < 1 || call->inputs[0].dtype != SHOAL_F64) return not_alike(call);
  for (int32_t i = 0; i < call->output_count; ++i) out_types[i] = call->inputs[0];
  return NULL;
}

static inline int32_t fan_outputs(const shoal_op_t *op, const shoal_attr_value_t *attrs) {
  (void)op;
  return attrs[0].i > 0 && attrs[0].i < 100 ? (int32_t)attrs[0].i : 1;
}

static inline shoal_status_t fan_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                        const shoal_tensor_t *outputs, void *workspace) {
  (void)workspace;
  for (int32_t o = 0; o < call->output_count; ++o) {
    for (int64_t i = 0; i < shoal_shape_count(&inputs[0].shape); ++i) {
      ((double *)outputs[o].data)[i] = (o + 1) * ((const double *)inputs[0].data)[i];
    }
  }
  return NULL;
}

static inline void fan_gradient(const shoal_call_t *call, shoal_emitter_t *emitter,
                                const shoal_ref_t *inputs, const shoal_ref_t *outputs,
                                const shoal_ref_t *output_grads, shoal_ref_t *out_input_grads) {
  (void)inputs, (void)outputs;
  for (int32_t o = 0; o < call->output_count; ++o) {
    if (output_grads[o] == SHOAL_NO_REF) continue;
    const shoal_attr_t times[] = {shoal_attr_real("scale", o + 1), shoal_attr_real("shift", 0)};
    shoal_ref_t both[2] = {out_input_grads[0], SHOAL_NO_REF};
    shoal_emit(emitter, "shoal.affine", 1, &output_grads[o], 2, times, 1, &both[1]);
    out_input_grads[0] = both[1];
    if (both[0] != SHOAL_NO_REF)
      shoal_emit(emitter, "shoal.add", 2, both, 0, NULL, 1, out_input_grads);
  }
}

static inline shoal_registry_t *operands_registry(void) {
  static const char *const fma_inputs[] = {"x", "scale", "shift"}, *const fma_outputs[] = {"y"};
  static const shoal_attr_schema_t fma_attrs[] = {
      [FMA_WITH] = {.name = "with",
                    .kind = SHOAL_ATTR_STRING,
                    .optional = true,
                    .fallback = {.s = ""}},
      [FMA_PLACE] = {.name = "place",
                     .kind = SHOAL_ATTR_PLACE,
                     .role = SHOAL_ROLE_PLACE,
                     .operand = SHOAL_INPUT(FMA_SHIFT)}};
  static const shoal_overwrite_t fma_overwrites[] = {{0, FMA_X}, {0, FMA_SHIFT}};
  static const shoal_op_t fma = {.name = "user.fma",
                                 .input_count = 3,
                                 .inputs = fma_inputs,
                                 .output_count = 1,
                                 .outputs = fma_outputs,
                                 .optional = 2,
                                 .attr_count = 2,
                                 .attrs = fma_attrs,
                                 .infer = fma_infer,
                                 .gradient = fma_gradient,
                                 .overwrite_count = 2,
                                 .overwrites = fma_overwrites,
                                 .kernel = fma_kernel};
  static const char *const fan_inputs[] = {"x"}, *const fan_names[] = {"ys"};
  static const shoal_attr_schema_t fan_attrs[] = {{.name = "count", .kind = SHOAL_ATTR_INT}};
  static const shoal_op_t fan = {.name = "user.fan",
                                 .input_count = 1,
                                 .inputs = fan_inputs,
                                 .output_count = 1,
                                 .outputs = fan_names,
                                 .output_number = fan_outputs,
                                 .attr_count = 1,
                                 .attrs = fan_attrs,
                                 .infer = fan_infer,
                                 .gradient = fan_gradient,
                                 .kernel = fan_kernel};
  shoal_registry_t *registry = NULL;
  assert_ok(shoal_registry_create(shoal_allocator_system(), &registry));
  assert_ok(shoal_op_register(registry, &fma));
  assert_ok(shoal_op_register(registry, &fan));
  return registry;
}

// A step that uses both: a fma without scale, one without shift, one with all, and a fan of three
// of which the middle one is not used.
static inline shoal_model_t *operands_model(void) {
  shoal_registry_t *registry = operands_registry();
  shoal_model_t *model = NULL;
  assert_ok(shoal_model_create(&(shoal_model_options_t){.registry = registry, .seed = 3}, &model));
  shoal_registry_release(registry);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  const shoal_shape_t shape = SHOAL_SHAPE(6, 5);
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, shape), ys[3];
  shoal_state_options_t drawn = {.init = {SHOAL_INIT_UNIFORM, -1, 1}, .trainable = true};
  const shoal_value_t w = shoal_state(g, "w", SHOAL_F64, shape, &drawn);
  const shoal_value_t b = shoal_state(g, "b", SHOAL_F64, shape, &drawn);
  const shoal_attr_t three = shoal_attr_int("count", 3);
  shoal_node_add(g, "user.fma", 3, (shoal_value_t[]){x, shoal_none(), b}, 0, NULL, 1, &x);
  shoal_node_add(g, "user.fan", 1, &x, 1, &three, 3, ys);
  shoal_node_add(g, "user.fma", 2, (shoal_value_t[]){ys[2], w}, 0, NULL, 1, &x);
  shoal_node_add(g, "user.fma", 3, (shoal_value_t[]){x, ys[0], b}, 0, NULL, 1, &x);
  shoal_value_t loss = shoal_reduce_mean(g, x, SHOAL_SHAPE(0, 1));
  shoal_minimize_sgd(g, loss, &(shoal_sgd_t){.lr = 0.1});
  shoal_output(g, "loss", loss);
  assert_ok(shoal_model_status(model));
  return model;
}

#endif  // SHOAL_TESTS_OPERANDS_SUPPORT_H_
