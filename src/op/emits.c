// Asks a record for its gradient or decomposition of an example, and notes the ops it writes.
#include <string.h>

#include "base/arena.h"
#include "base/status.h"
#include "op/case.h"
#include "op/describe.h"
#include "op/emitter.h"
#include "op/operands.h"

typedef struct notes {
  shoal_emitter_t base;
  const shoal_registry_t *registry;
  shoal_arena_t *arena;
  SHOAL_VEC(shoal_type_t) types;  // of the values; a ref is a number in it
  SHOAL_VEC(const char *) names;
  shoal_status_t error;
} notes_t;

static void fail(shoal_emitter_t *base, shoal_status_t status) {
  notes_t *notes = base->self;
  if (notes->error) {
    shoal_status_free(status);
  } else {
    notes->error = status;
  }
}

static shoal_type_t type(shoal_emitter_t *base, shoal_ref_t ref) {
  const notes_t *notes = base->self;
  if (ref < 0 || ref >= notes->types.count) return (shoal_type_t){.dtype = SHOAL_F32};
  return notes->types.items[ref];
}

static shoal_status_t add_value(notes_t *notes, const shoal_type_t *of, shoal_ref_t *out_ref) {
  *out_ref = (shoal_ref_t)notes->types.count;
  return SHOAL_PUSH(notes->arena, &notes->types, *of) ? NULL : SHOAL_OOM();
}

static shoal_status_t note(notes_t *notes, const char *name) {
  for (int64_t i = 0; i < notes->names.count; ++i) {
    if (strcmp(notes->names.items[i], name) == 0) return NULL;
  }
  return SHOAL_PUSH(notes->arena, &notes->names, name) ? NULL : SHOAL_OOM();
}

// Inputs lie in the places of the record's names; those left out are dropped, and the others named.
static shoal_status_t leave_out(notes_t *notes, const shoal_op_t *op, int32_t *input_count,
                                shoal_ref_t *inputs, int32_t *attr_count, shoal_attr_t *attrs) {
  const char *with = "";
  int32_t count = 0;
  for (int32_t i = 0; i < *attr_count; ++i) {
    if (strcmp(attrs[i].name, SHOAL_WITH) == 0) return NULL;
  }
  for (int32_t i = 0; i < *input_count; ++i) {
    if (inputs[i] == SHOAL_NO_REF) continue;
    inputs[count++] = inputs[i];
    if (i < op->input_count - op->optional || i >= op->input_count) continue;
    with = shoal_arena_printf(notes->arena, "%s%s%s", with, with[0] ? "," : "", op->inputs[i]);
    if (!with) return SHOAL_OOM();
  }
  *input_count = count;
  attrs[(*attr_count)++] = shoal_attr_string(SHOAL_WITH, with);
  return NULL;
}

typedef struct node {
  int32_t input_count, attr_count, output_count;
  shoal_ref_t *inputs;
  shoal_attr_t *attrs;  // one more would fit
} node_t;

static shoal_status_t write_node(notes_t *notes, const char *name, node_t *node,
                                 shoal_ref_t *out_outputs) {
  const shoal_op_t *op;
  shoal_attr_value_t *values;
  SHOAL_RETURN_IF_ERROR(shoal_op_find(notes->registry, name, &op));
  if (op->optional) {
    SHOAL_RETURN_IF_ERROR(
        leave_out(notes, op, &node->input_count, node->inputs, &node->attr_count, node->attrs));
  }
  SHOAL_RETURN_IF_ERROR(shoal_op_attrs(op, node->attr_count, node->attrs, notes->arena, &values));
  const int32_t inputs = node->input_count, outputs = node->output_count;
  shoal_type_t *types = SHOAL_NEW(notes->arena, shoal_type_t, inputs + outputs);
  if (!types) return SHOAL_OOM();
  for (int32_t i = 0; i < inputs; ++i) types[i] = type(&notes->base, node->inputs[i]);
  shoal_op_complete(op, inputs, types, values);
  const shoal_call_t call = {
      .op = op, .input_count = inputs, .output_count = outputs, .inputs = types, .attrs = values};
  if (shoal_op_outputs(op, values) != outputs)
    return SHOAL_ERROR(INTERNAL, "%s is written with %d outputs", name, outputs);
  SHOAL_RETURN_IF_ERROR(shoal_op_infer(&call, types + inputs));
  for (int32_t i = 0; i < outputs; ++i) {
    SHOAL_RETURN_IF_ERROR(add_value(notes, &types[inputs + i], &out_outputs[i]));
  }
  return note(notes, op->name);
}

static void emit(shoal_emitter_t *base, const char *op, int32_t input_count,
                 const shoal_ref_t *inputs, int32_t attr_count, const shoal_attr_t *attrs,
                 int32_t output_count, shoal_ref_t *out_outputs) {
  notes_t *notes = base->self;
  shoal_status_t status = NULL;
  if (!notes->error) {
    node_t node = {.input_count = input_count,
                   .attr_count = attr_count,
                   .output_count = output_count,
                   .inputs = SHOAL_NEW(notes->arena, shoal_ref_t, input_count),
                   .attrs = SHOAL_NEW(notes->arena, shoal_attr_t, attr_count + 1)};
    for (int32_t i = 0; node.inputs && i < input_count; ++i) node.inputs[i] = inputs[i];
    for (int32_t i = 0; node.attrs && i < attr_count; ++i) node.attrs[i] = attrs[i];
    status = node.inputs && node.attrs ? write_node(notes, op, &node, out_outputs) : SHOAL_OOM();
    if (!status) return;
  }
  for (int32_t i = 0; i < output_count; ++i) out_outputs[i] = SHOAL_NO_REF;
  if (status) fail(base, status);
}

// All values of the call, then the gradients of its float outputs.
static shoal_status_t ask(notes_t *notes, const shoal_call_t *call, bool gradient) {
  const int32_t inputs = call->input_count, outputs = call->output_count;
  shoal_ref_t *refs = SHOAL_NEW(notes->arena, shoal_ref_t, 2 * inputs + 2 * outputs);
  if (!refs) return SHOAL_OOM();
  shoal_ref_t *out = refs + inputs, *grads = out + outputs, *in_grads = grads + outputs;
  for (int32_t i = 0; i < inputs; ++i) {
    SHOAL_RETURN_IF_ERROR(add_value(notes, &call->inputs[i], &refs[i]));
    in_grads[i] = SHOAL_NO_REF;
  }
  for (int32_t i = 0; i < outputs; ++i) {
    SHOAL_RETURN_IF_ERROR(add_value(notes, &call->outputs[i], &out[i]));
    grads[i] = SHOAL_NO_REF;
    if (gradient && shoal_dtype_is_float(call->outputs[i].dtype)) {
      SHOAL_RETURN_IF_ERROR(add_value(notes, &call->outputs[i], &grads[i]));
    }
  }
  if (gradient) {
    call->op->gradient(call, &notes->base, refs, out, grads, in_grads);
  } else {
    call->op->decompose(call, &notes->base, refs, out);
  }
  return NULL;
}

static shoal_status_t ask_case(notes_t *notes, const shoal_op_t *op, const char *text,
                               bool gradient) {
  shoal_case_t example;
  SHOAL_RETURN_IF_ERROR(shoal_case_parse(op, text, notes->arena, &example));
  const int32_t outputs = shoal_op_outputs(op, example.attrs);
  shoal_type_t *types = SHOAL_NEW(notes->arena, shoal_type_t, outputs);
  if (!types) return SHOAL_OOM();
  shoal_call_t call = {.op = op,
                       .input_count = example.input_count,
                       .output_count = outputs,
                       .inputs = example.inputs,
                       .attrs = example.attrs};
  SHOAL_RETURN_IF_ERROR(shoal_op_infer(&call, types));
  call.outputs = types;
  return ask(notes, &call, gradient);
}

shoal_status_t shoal_op_emits(const shoal_registry_t *registry, const shoal_op_t *op, bool gradient,
                              shoal_arena_t *arena, const char *const **out_names) {
  static const shoal_emitter_ops_t ops = {.emit = emit, .type = type, .fail = fail};
  notes_t notes = {.registry = registry, .arena = arena};
  const bool asked = gradient ? op->gradient != NULL : op->decompose != NULL;
  for (int32_t i = 0; asked && op->cases && op->cases[i] && notes.names.count == 0; ++i) {
    notes = (notes_t){.registry = registry, .arena = arena};
    notes.base = (shoal_emitter_t){.ops = &ops, .self = &notes};
    shoal_status_t status = ask_case(&notes, op, op->cases[i], gradient);
    if (!status) {
      status = notes.error;
      notes.error = NULL;
    }
    shoal_status_free(notes.error);
    if (shoal_status_code(status) == SHOAL_OUT_OF_MEMORY) return status;
    if (status) notes.names.count = 0;  // the next example may do
    shoal_status_free(status);
  }
  if (!SHOAL_PUSH(arena, &notes.names, (const char *)NULL)) return SHOAL_OOM();
  *out_names = notes.names.items;
  return NULL;
}
