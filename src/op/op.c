// Using a record: emitting, completing, inferring, overwriting, cost. Registry, attributes, binding
// and cases have their own files.
#include "shoal/op.h"

#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "op/emitter.h"
#include "op/families/family.h"
#include "op/type.h"

// ---- emitter ---------------------------------------------------------------------------

void shoal_emit(shoal_emitter_t *emitter, const char *op, int32_t input_count,
                const shoal_ref_t *inputs, int32_t attr_count, const shoal_attr_t *attrs,
                int32_t output_count, shoal_ref_t *out_outputs) {
  for (int32_t i = 0; i < output_count; ++i) out_outputs[i] = SHOAL_NO_REF;
  for (int32_t i = 0; i < input_count; ++i) {
    if (inputs[i] == SHOAL_NO_REF) return;  // an error has happened before
  }
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

// ---- what varies from call to call ------------------------------------------------------

int32_t shoal_op_outputs(const shoal_op_t *op, const shoal_attr_value_t *attrs) {
  if (!op->output_number) return op->output_count;
  const int32_t number = op->output_number(op, attrs);
  return number < 1 ? 1 : number > SHOAL_MAX_OUTPUTS ? SHOAL_MAX_OUTPUTS : number;
}

// The value of the attribute "with"; "" where the op has none.
static const char *with(const shoal_op_t *op, const shoal_attr_value_t *attrs) {
  for (int32_t i = 0; i < op->attr_count; ++i) {
    if (op->attrs[i].kind == SHOAL_ATTR_STRING && strcmp(op->attrs[i].name, "with") == 0) {
      return attrs[i].s ? attrs[i].s : "";
    }
  }
  return "";
}

// Is the name one of a list with commas?
static bool is_listed(const char *list, const char *name) {
  const size_t length = strlen(name);
  while (*list) {
    const size_t size = strcspn(list, ",");
    if (size == length && strncmp(list, name, length) == 0) return true;
    list += size + (list[size] == ',');
  }
  return false;
}

int32_t shoal_op_given(const shoal_op_t *op, const shoal_attr_value_t *attrs, int32_t name) {
  const int32_t required = op->input_count - op->optional;
  if (name < required) return name;
  const char *given = with(op, attrs);
  if (!given[0] || !is_listed(given, op->inputs[name])) return -1;
  int32_t number = required;
  for (int32_t i = required; i < name; ++i) number += is_listed(given, op->inputs[i]);
  return number;
}

int32_t shoal_op_named(const shoal_op_t *op, const shoal_attr_value_t *attrs, int32_t input) {
  if (op->optional) {
    for (int32_t name = op->input_count - op->optional; name < op->input_count; ++name) {
      if (shoal_op_given(op, attrs, name) == input) return name;
    }
  }
  return input < op->input_count ? input : op->input_count - 1;
}

// ---- types -----------------------------------------------------------------------------

void shoal_op_complete(const shoal_op_t *op, int32_t input_count, const shoal_type_t *inputs,
                       shoal_attr_value_t *attrs) {
  int32_t least = op->input_count;
  if (!op->complete || input_count < least) return;  // infer says what is wrong
  const shoal_call_t call = {.op = op,
                             .input_count = input_count,
                             .output_count = op->output_count,
                             .inputs = inputs,
                             .attrs = attrs};
  op->complete(&call, attrs);
}

// Types that are for storage go to ops that move or cast elements, and come from those only.
static shoal_status_t check_storage(const shoal_call_t *call, int32_t count,
                                    const shoal_type_t *types, const char *const *names,
                                    int32_t name_count, const char *hint) {
  for (int32_t i = 0; i < count && !call->op->any_dtype; ++i) {
    if (!shoal_dtype_is_storage(types[i].dtype)) continue;
    return REFUSE(call, "%s is %s, which is for storage: %s",
                  names[i < name_count ? i : name_count - 1], shoal_dtype_name(types[i].dtype),
                  hint);
  }
  return NULL;
}

shoal_status_t shoal_op_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_op_t *op = call->op;
  const bool enough =
      op->variadic ? call->input_count >= op->input_count : call->input_count == op->input_count;
  if (!enough) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s takes %s%d input%s, not %d", op->name,
                       op->variadic ? "at least " : "", op->input_count,
                       op->input_count == 1 ? "" : "s", call->input_count);
  }
  SHOAL_RETURN_IF_ERROR(check_storage(call, call->input_count, call->inputs, op->inputs,
                                      op->input_count, "cast it first"));
  SHOAL_RETURN_IF_ERROR(op->infer(call, out_types));
  SHOAL_RETURN_IF_ERROR(check_storage(call, op->output_count, out_types, op->outputs,
                                      op->output_count, "cast to it behind the op"));
  for (int32_t i = 0; i < op->output_count; ++i) {
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
    if (pair->output == output && pair->input == input) return true;
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
