// Using a record: emitting, completing, inferring, overwriting, cost. Registry, attributes, binding
// and cases have their own files.
#include "shoal/op.h"

#include "base/dtype.h"
#include "base/status.h"
#include "op/emitter.h"
#include "op/families/family.h"
#include "op/operands.h"
#include "op/type.h"

// ---- emitter ---------------------------------------------------------------------------

void shoal_emit(shoal_emitter_t *emitter, const char *op, int32_t input_count,
                const shoal_ref_t *inputs, int32_t attr_count, const shoal_attr_t *attrs,
                int32_t output_count, shoal_ref_t *out_outputs) {
  emitter->ops->emit(emitter, op, input_count, inputs, attr_count, attrs, output_count,
                     out_outputs);
}

shoal_type_t shoal_emit_type(shoal_emitter_t *emitter, shoal_ref_t ref) {
  if (ref == SHOAL_NO_REF) return (shoal_type_t){.dtype = SHOAL_F32};
  return emitter->ops->type(emitter, ref);
}

void shoal_emit_fail(shoal_emitter_t *emitter, shoal_status_t status) {
  emitter->ops->fail(emitter, status);
}

// ---- types -----------------------------------------------------------------------------

void shoal_op_complete(const shoal_op_t *op, int32_t input_count, const shoal_type_t *inputs,
                       shoal_attr_value_t *attrs) {
  if (!op->complete) return;
  shoal_status_t status = shoal_op_check_inputs(op, attrs, input_count);
  shoal_status_free(status);
  if (status) return;  // infer says what is wrong
  const shoal_call_t call = {.op = op,
                             .input_count = input_count,
                             .output_count = shoal_op_outputs(op, attrs),
                             .inputs = inputs,
                             .attrs = attrs};
  op->complete(&call, attrs);
}

// Types that are for storage go to ops that move or cast elements, and come from those only.
static shoal_status_t check_storage(const shoal_call_t *call, int32_t count,
                                    const shoal_type_t *types, bool output, const char *hint) {
  const shoal_op_t *op = call->op;
  for (int32_t i = 0; i < count && !op->any_dtype; ++i) {
    if (!shoal_dtype_is_storage(types[i].dtype)) continue;
    const shoal_operand_name_t name =
        output ? shoal_output_name(op, count, i) : shoal_input_name(op, call->attrs, i);
    return REFUSE(call, "%s is %s, which is for storage: %s", name.name,
                  shoal_dtype_name(types[i].dtype), hint);
  }
  return NULL;
}

shoal_status_t shoal_op_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_op_t *op = call->op;
  SHOAL_RETURN_IF_ERROR(shoal_op_check_inputs(op, call->attrs, call->input_count));
  const int32_t outputs = shoal_op_outputs(op, call->attrs);
  if (call->output_count != outputs) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s has %d output%s, not %d", op->name, outputs,
                       outputs == 1 ? "" : "s", call->output_count);
  }
  SHOAL_RETURN_IF_ERROR(
      check_storage(call, call->input_count, call->inputs, false, "cast it first"));
  SHOAL_RETURN_IF_ERROR(op->infer(call, out_types));
  SHOAL_RETURN_IF_ERROR(check_storage(call, outputs, out_types, true, "cast to it behind the op"));
  for (int32_t i = 0; i < outputs; ++i) {
    int64_t bytes;
    shoal_status_t status =
        shoal_dtype_bytes(out_types[i].dtype, shoal_shape_count(&out_types[i].shape), &bytes);
    if (status) return shoal_status_annotate(status, op->name);
  }
  return NULL;
}

// ---- overwriting -----------------------------------------------------------------------

bool shoal_op_overwrites(const shoal_call_t *call, int32_t output, int32_t input) {
  const shoal_type_t *to = &call->outputs[output], *from = &call->inputs[input];
  if (shoal_dtype_size(to->dtype) != shoal_dtype_size(from->dtype) ||
      shoal_shape_count(&to->shape) != shoal_shape_count(&from->shape)) {
    return false;
  }
  for (int32_t i = 0; i < call->op->overwrite_count; ++i) {
    const shoal_overwrite_t *pair = &call->op->overwrites[i];
    if (pair->output != output) continue;
    if (shoal_op_given(call->op, call->attrs, pair->input) == input) return true;
  }
  return false;
}

// ---- cost ------------------------------------------------------------------------------

shoal_cost_t shoal_op_cost(const shoal_call_t *call) {
  shoal_cost_t cost = {0};
  for (int32_t i = 0; i < call->input_count; ++i)
    cost.bytes += (double)shoal_type_bytes(&call->inputs[i]);
  for (int32_t i = 0; call->outputs && i < call->output_count; ++i) {
    cost.bytes += (double)shoal_type_bytes(&call->outputs[i]);
    cost.flops += (double)shoal_shape_count(&call->outputs[i].shape);
  }
  if (call->op->cost) call->op->cost(call, &cost);  // finds the defaults in place
  return cost;
}
