// The emitter of op/emitter.h on a graph: gradients and decompositions write nodes through it. Refs
// are value ids. Keeps its first error; afterwards everything is SHOAL_NO_REF.
#include "base/status.h"
#include "graph/builder.h"

// Is a required input not there? What is made of nothing is nothing.
static shoal_status_t find_lacking(const shoal_graph_t *graph, const char *name,
                                   int32_t input_count, const shoal_ref_t *inputs,
                                   bool *out_lacks) {
  const shoal_op_t *op;
  for (int32_t i = 0; i < input_count; ++i) {
    if (inputs[i] >= 0 && inputs[i] < graph->values.count) continue;
    if (inputs[i] != SHOAL_NO_REF) return SHOAL_ERROR(INTERNAL, "input %d is not a value", (int)i);
    SHOAL_RETURN_IF_ERROR(shoal_op_find(graph->model->registry, name, &op));
    *out_lacks |= i < op->input_count - op->optional || i >= op->input_count;
  }
  return NULL;
}

static void emit(shoal_emitter_t *base, const char *op, int32_t input_count,
                 const shoal_ref_t *inputs, int32_t attr_count, const shoal_attr_t *attrs,
                 int32_t output_count, shoal_ref_t *out_outputs) {
  shoal_graph_emitter_t *emitter = base->self;
  shoal_graph_t *graph = emitter->graph;
  shoal_status_t status = NULL;
  bool lacks = false;
  if (!emitter->error) status = find_lacking(graph, op, input_count, inputs, &lacks);
  // out_outputs may be the inputs' own variables: it is written last
  if (!status && !lacks && !emitter->error) {
    status = shoal_graph_emit(graph, op, input_count, inputs, attr_count, attrs, emitter->file,
                              emitter->line, output_count, out_outputs);
    if (!status) return;
  }
  for (int32_t i = 0; i < output_count; ++i) out_outputs[i] = SHOAL_NO_REF;
  if (status) emitter->error = shoal_status_annotatef(status, "emitting %s", op);
}

static shoal_type_t type(shoal_emitter_t *base, shoal_ref_t ref) {
  shoal_graph_emitter_t *emitter = base->self;
  if (ref < 0 || ref >= emitter->graph->values.count) return (shoal_type_t){.dtype = SHOAL_F32};
  return emitter->graph->values.items[ref].type;
}

static void fail(shoal_emitter_t *base, shoal_status_t status) {
  shoal_graph_emitter_t *emitter = base->self;
  if (emitter->error) {
    shoal_status_free(status);
  } else {
    emitter->error = status;
  }
}

void shoal_graph_emitter_init(shoal_graph_t *graph, const char *file, int line,
                              shoal_graph_emitter_t *out_emitter) {
  static const shoal_emitter_ops_t ops = {.emit = emit, .type = type, .fail = fail};
  *out_emitter = (shoal_graph_emitter_t){.graph = graph, .file = file, .line = line};
  out_emitter->base = (shoal_emitter_t){.ops = &ops, .self = out_emitter};
}

shoal_status_t shoal_graph_emitter_status(shoal_graph_emitter_t *emitter) {
  shoal_status_t error = emitter->error;
  emitter->error = NULL;
  return error;
}
