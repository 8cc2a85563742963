// The reference interpreter: allocates every value of a graph, runs the nodes in order, then
// assigns the states. No fusion, no reuse of memory, no threads: it is what everything else is
// compared with.
//
// Promoted, every float is an f64: inputs are widened, float dtype attributes say f64, and ops that
// draw floats from a key (random initial values) draw in their own dtype first, so that the values
// are the ones the unpromoted run sees. State reads are copies: nothing changes a state before the
// end of the step.
#include "graph/interpret.h"

#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "op/type.h"

typedef struct feed {
  struct feed *next;
  const char *name;  // the model's
  size_t size;
  void *data;  // behind the struct
} feed_t;

struct shoal_interpreter {
  const shoal_model_t *model;
  shoal_interpreter_options_t options;
  int64_t state_count;
  shoal_tensor_t *states;      // as stored: f64 if promoted
  const shoal_graph_t *graph;  // of the last run
  int64_t value_count;
  shoal_tensor_t *values;  // of the last run
  bool complete;           // did it end well?
  feed_t *feeds;
};

// ---- executor --------------------------------------------------------------------------

static shoal_status_t reference_execute(void *self, const shoal_call_t *call,
                                        const shoal_tensor_t *inputs,
                                        const shoal_tensor_t *outputs) {
  const shoal_allocator_t *allocator = self;
  if (!call->op->kernel)
    return SHOAL_ERROR(UNSUPPORTED, "%s has no reference kernel", call->op->name);
  int64_t size = call->op->workspace ? call->op->workspace(call) : 0;
  void *workspace = NULL;
  if (size > 0 && !(workspace = allocator->alloc(allocator->self, (size_t)size)))
    return SHOAL_OOM();
  shoal_status_t status = call->op->kernel(call, inputs, outputs, workspace);
  allocator->free(allocator->self, workspace);
  return status;
}

shoal_executor_t shoal_executor_reference(const shoal_allocator_t *allocator) {
  return (shoal_executor_t){.self = (void *)allocator, .execute = reference_execute};
}

// ---- tensors ---------------------------------------------------------------------------

static shoal_dtype_t stored_dtype(const shoal_interpreter_t *in, shoal_dtype_t dtype) {
  return in->options.promote && shoal_dtype_is_float(dtype) ? SHOAL_F64 : dtype;
}

static shoal_status_t tensor_alloc(shoal_interpreter_t *in, shoal_dtype_t dtype,
                                   const shoal_shape_t *shape, shoal_tensor_t *out_tensor) {
  int64_t bytes;
  SHOAL_RETURN_IF_ERROR(shoal_dtype_bytes(dtype, shoal_shape_count(shape), &bytes));
  void *data = in->options.allocator.alloc(in->options.allocator.self, bytes ? (size_t)bytes : 1);
  if (!data) return SHOAL_OOM();
  memset(data, 0, (size_t)bytes);
  *out_tensor = (shoal_tensor_t){.data = data, .dtype = dtype, .shape = *shape};
  return NULL;
}

static void tensors_free(shoal_interpreter_t *in, int64_t count, shoal_tensor_t *tensors) {
  shoal_allocator_t *a = &in->options.allocator;
  for (int64_t i = 0; tensors && i < count; ++i) a->free(a->self, tensors[i].data);
  a->free(a->self, tensors);
}

static shoal_tensor_t *tensors_new(shoal_interpreter_t *in, int64_t count) {
  size_t bytes = (size_t)(count ? count : 1) * sizeof(shoal_tensor_t);
  shoal_tensor_t *tensors = in->options.allocator.alloc(in->options.allocator.self, bytes);
  return tensors ? memset(tensors, 0, bytes) : NULL;
}

static void widen(const shoal_tensor_t *from, const shoal_tensor_t *to) {
  if (from->dtype == to->dtype) {
    memcpy(to->data, from->data, shoal_tensor_bytes(from));
    return;
  }
  int64_t count = shoal_shape_count(&from->shape);
  for (int64_t i = 0; i < count; ++i) {
    shoal_dtype_store(to->dtype, to->data, i, shoal_dtype_load(from->dtype, from->data, i));
  }
}

// ---- create, feed ----------------------------------------------------------------------

shoal_status_t shoal_interpreter_create(const shoal_model_t *model,
                                        const shoal_interpreter_options_t *options,
                                        shoal_interpreter_t **out_interpreter) {
  *out_interpreter = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_model_status(model));
  shoal_interpreter_options_t o = options ? *options : (shoal_interpreter_options_t){0};
  if (!o.allocator.alloc) o.allocator = shoal_allocator_system();
  shoal_interpreter_t *in = o.allocator.alloc(o.allocator.self, sizeof *in);
  if (!in) return SHOAL_OOM();
  *in = (shoal_interpreter_t){.model = model, .options = o, .state_count = model->states.count};
  if (!o.executor.execute) in->options.executor = shoal_executor_reference(&in->options.allocator);
  shoal_status_t status = NULL;
  in->states = tensors_new(in, in->state_count);
  if (!in->states) SHOAL_GOTO_IF_ERROR(status, done, SHOAL_OOM());
  for (int64_t i = 0; i < in->state_count; ++i) {
    const shoal_type_t *type = &model->states.items[i].type;
    SHOAL_GOTO_IF_ERROR(
        status, done,
        tensor_alloc(in, stored_dtype(in, type->dtype), &type->shape, &in->states[i]));
  }
  *out_interpreter = in;
done:
  if (status) shoal_interpreter_free(in);
  return status;
}

void shoal_interpreter_free(shoal_interpreter_t *in) {
  if (!in) return;
  shoal_allocator_t allocator = in->options.allocator;
  tensors_free(in, in->state_count, in->states);
  tensors_free(in, in->value_count, in->values);
  for (feed_t *feed = in->feeds, *next; feed; feed = next) {
    next = feed->next;
    allocator.free(allocator.self, feed);
  }
  allocator.free(allocator.self, in);
}

// Finds an input of that name and size in any graph.
static shoal_status_t find_input(const shoal_model_t *model, const char *name, size_t size,
                                 const char **out_name) {
  int64_t wanted = -1;
  for (int64_t g = 0; g < model->graphs.count; ++g) {
    const shoal_graph_t *graph = model->graphs.items[g];
    for (int64_t i = 0; i < graph->inputs.count; ++i) {
      if (strcmp(graph->inputs.items[i].name, name) != 0) continue;
      const shoal_type_t *type = &graph->values.items[graph->inputs.items[i].value].type;
      SHOAL_RETURN_IF_ERROR(
          shoal_dtype_bytes(type->dtype, shoal_shape_count(&type->shape), &wanted));
      *out_name = graph->inputs.items[i].name;
      if ((size_t)wanted == size) return NULL;
    }
  }
  if (wanted < 0) return SHOAL_ERROR(NOT_FOUND, "no graph has an input '%s'", name);
  return SHOAL_ERROR(INVALID_ARGUMENT, "input '%s' takes %lld bytes, not %zu", name,
                     (long long)wanted, size);
}

shoal_status_t shoal_interpreter_feed(shoal_interpreter_t *in, const char *name, const void *data,
                                      size_t size) {
  SHOAL_RETURN_IF_ERROR(find_input(in->model, name, size, &name));
  shoal_allocator_t *allocator = &in->options.allocator;
  feed_t **at = &in->feeds;
  while (*at && strcmp((*at)->name, name) != 0) at = &(*at)->next;
  if (!*at || (*at)->size != size) {
    size_t header = (sizeof(feed_t) + 63) & ~(size_t)63;
    feed_t *feed = allocator->alloc(allocator->self, header + size);
    if (!feed) return SHOAL_OOM();
    *feed = (feed_t){.next = *at ? (*at)->next : NULL,
                     .name = name,
                     .size = size,
                     .data = (char *)feed + header};
    allocator->free(allocator->self, *at);
    *at = feed;
  }
  if (size) memcpy((*at)->data, data, size);
  return NULL;
}

// ---- run -------------------------------------------------------------------------------

// All values of the graph, allocated unless the last run was of the same graph.
static shoal_status_t prepare_values(shoal_interpreter_t *in, const shoal_graph_t *graph) {
  in->complete = false;
  if (in->graph == graph && in->value_count == graph->values.count) return NULL;
  tensors_free(in, in->value_count, in->values);
  in->graph = NULL;
  in->value_count = 0;
  in->values = tensors_new(in, graph->values.count);
  if (!in->values) return SHOAL_OOM();
  in->value_count = graph->values.count;
  for (int64_t i = 0; i < in->value_count; ++i) {
    const shoal_type_t *type = &graph->values.items[i].type;
    SHOAL_RETURN_IF_ERROR(
        tensor_alloc(in, stored_dtype(in, type->dtype), &type->shape, &in->values[i]));
  }
  in->graph = graph;
  return NULL;
}

static shoal_status_t load_input(shoal_interpreter_t *in, const shoal_value_info_t *value,
                                 const shoal_tensor_t *tensor) {
  const feed_t *feed = in->feeds;
  while (feed && strcmp(feed->name, value->name) != 0) feed = feed->next;
  if (!feed) return SHOAL_ERROR(INVALID_ARGUMENT, "input '%s' was not fed", value->name);
  shoal_tensor_t fed = {.data = feed->data, .dtype = value->type.dtype, .shape = value->type.shape};
  if (feed->size != shoal_tensor_bytes(&fed)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "input '%s' takes %zu bytes and was fed %zu", value->name,
                       shoal_tensor_bytes(&fed), feed->size);
  }
  widen(&fed, tensor);
  return NULL;
}

// Does the op draw floats from a random stream alone?
static bool draws_floats(const shoal_call_t *call) {
  for (int32_t i = 0; i < call->input_count; ++i) {
    if (shoal_dtype_is_float(call->inputs[i].dtype)) return false;
  }
  return call->op->random;
}

// Runs the call as written into temporaries, then widens.
static shoal_status_t run_then_widen(shoal_interpreter_t *in, const shoal_call_t *call,
                                     const shoal_tensor_t *inputs, const shoal_tensor_t *outputs) {
  shoal_tensor_t *temporary = tensors_new(in, call->output_count);
  if (!temporary) return SHOAL_OOM();
  shoal_status_t status = NULL;
  for (int32_t i = 0; i < call->output_count && !status; ++i) {
    status = tensor_alloc(in, call->outputs[i].dtype, &call->outputs[i].shape, &temporary[i]);
  }
  if (!status) {
    status = in->options.executor.execute(in->options.executor.self, call, inputs, temporary);
  }
  for (int32_t i = 0; i < call->output_count && !status; ++i) widen(&temporary[i], &outputs[i]);
  tensors_free(in, call->output_count, temporary);
  return status;
}

// The call with every float an f64.
static shoal_status_t promote_call(shoal_arena_t *scratch, shoal_call_t *call) {
  const shoal_op_t *op = call->op;
  int32_t count = call->input_count + call->output_count;
  shoal_type_t *types = SHOAL_NEW(scratch, shoal_type_t, count);
  shoal_type_t *inferred = SHOAL_NEW(scratch, shoal_type_t, call->output_count);
  shoal_attr_value_t *attrs =
      shoal_arena_copy(scratch, call->attrs, (size_t)op->attr_count, sizeof *attrs);
  if (!types || !inferred || !attrs) return SHOAL_OOM();
  for (int32_t i = 0; i < count; ++i) {
    types[i] = i < call->input_count ? call->inputs[i] : call->outputs[i - call->input_count];
    if (shoal_dtype_is_float(types[i].dtype)) types[i].dtype = SHOAL_F64;
  }
  for (int32_t i = 0; i < op->attr_count; ++i) {
    if (op->attrs[i].kind == SHOAL_ATTR_DTYPE && shoal_dtype_is_float((shoal_dtype_t)attrs[i].i)) {
      attrs[i].i = SHOAL_F64;
    }
  }
  call->inputs = types;
  call->outputs = NULL;
  call->attrs = attrs;
  SHOAL_RETURN_IF_ERROR(shoal_op_infer(call, inferred));
  call->outputs = types + call->input_count;
  for (int32_t i = 0; i < call->output_count; ++i) {
    if (!shoal_type_equal(&inferred[i], &call->outputs[i])) {
      return SHOAL_ERROR(UNSUPPORTED, "%s does not become f64 when its inputs do", op->name);
    }
  }
  return NULL;
}

static shoal_status_t run_node(shoal_interpreter_t *in, const shoal_graph_t *graph,
                               const shoal_node_t *node, shoal_arena_t *scratch) {
  shoal_call_t call;
  SHOAL_RETURN_IF_ERROR(shoal_node_call(graph, node, scratch, &call));
  shoal_tensor_t *inputs =
      SHOAL_NEW(scratch, shoal_tensor_t, node->input_count + node->output_count);
  if (!inputs) return SHOAL_OOM();
  shoal_tensor_t *outputs = inputs + node->input_count;
  for (int32_t i = 0; i < node->input_count; ++i) inputs[i] = in->values[node->inputs[i]];
  for (int32_t i = 0; i < node->output_count; ++i) {
    outputs[i] = in->values[node->outputs[i]];
    memset(outputs[i].data, 0xff,
           shoal_tensor_bytes(&outputs[i]));  // NaNs: what a kernel forgets, shows
  }
  if (in->options.promote) {
    if (draws_floats(&call)) return run_then_widen(in, &call, inputs, outputs);
    SHOAL_RETURN_IF_ERROR(promote_call(scratch, &call));
  }
  return in->options.executor.execute(in->options.executor.self, &call, inputs, outputs);
}

static void observe(shoal_interpreter_t *in, const shoal_graph_t *graph, int32_t value) {
  if (in->options.observe) {
    in->options.observe(in->options.observe_self, graph, value, in->values[value]);
  }
}

static shoal_status_t run_graph(shoal_interpreter_t *in, const shoal_graph_t *graph) {
  for (int32_t i = 0; i < in->value_count; ++i) {
    const shoal_value_info_t *value = &graph->values.items[i];
    if (value->source == SHOAL_FROM_INPUT) {
      SHOAL_RETURN_IF_ERROR(load_input(in, value, &in->values[i]));
    } else if (value->source == SHOAL_FROM_STATE) {
      widen(&in->states[value->index], &in->values[i]);
    } else if (value->output == 0) {
      const shoal_node_t *node = &graph->nodes.items[value->node];
      shoal_arena_t scratch;
      shoal_arena_init(in->options.allocator, &scratch);
      shoal_status_t status = run_node(in, graph, node, &scratch);
      shoal_arena_deinit(&scratch);
      SHOAL_RETURN_IF_ERROR(
          shoal_status_annotatef(status, "node '%s' (%s:%d)", node->name, node->file, node->line));
    }
    observe(in, graph, i);
  }
  for (int64_t i = 0; i < graph->assigns.count; ++i) {
    const shoal_assignment_t *assign = &graph->assigns.items[i];
    const bool *decides = assign->predicate < 0 ? NULL : in->values[assign->predicate].data;
    if (!decides || *decides) widen(&in->values[assign->value], &in->states[assign->state]);
  }
  return NULL;
}

shoal_status_t shoal_interpreter_run(shoal_interpreter_t *in, const char *name) {
  SHOAL_RETURN_IF_ERROR(shoal_model_status(in->model));
  const shoal_graph_t *graph = shoal_model_find_graph(in->model, name);
  if (!graph) return SHOAL_ERROR(NOT_FOUND, "the model has no graph '%s'", name);
  if (in->state_count != in->model->states.count) {
    return SHOAL_ERROR(INVALID_ARGUMENT,
                       "the model has gained states since the interpreter was made");
  }
  SHOAL_RETURN_IF_ERROR(prepare_values(in, graph));
  SHOAL_RETURN_IF_ERROR(shoal_status_annotatef(run_graph(in, graph), "running graph '%s'", name));
  in->complete = true;
  return NULL;
}

// ---- results ---------------------------------------------------------------------------

shoal_status_t shoal_interpreter_value(shoal_interpreter_t *in, int32_t value,
                                       shoal_tensor_t *out_tensor) {
  if (!in->complete) return SHOAL_ERROR(INVALID_ARGUMENT, "no graph has been run");
  if (value < 0 || value >= in->value_count) {
    return SHOAL_ERROR(NOT_FOUND, "graph '%s' has no value %d", in->graph->name, (int)value);
  }
  *out_tensor = in->values[value];
  return NULL;
}

shoal_status_t shoal_interpreter_output(shoal_interpreter_t *in, const char *name,
                                        shoal_tensor_t *out_tensor) {
  if (!in->complete) return SHOAL_ERROR(INVALID_ARGUMENT, "no graph has been run");
  for (int64_t i = 0; i < in->graph->outputs.count; ++i) {
    if (strcmp(in->graph->outputs.items[i].name, name) == 0) {
      return shoal_interpreter_value(in, in->graph->outputs.items[i].value, out_tensor);
    }
  }
  return SHOAL_ERROR(NOT_FOUND, "graph '%s' has no output '%s'", in->graph->name, name);
}

shoal_status_t shoal_interpreter_state(shoal_interpreter_t *in, int32_t state,
                                       shoal_tensor_t *out_tensor) {
  if (state < 0 || state >= in->state_count) {
    return SHOAL_ERROR(NOT_FOUND, "the model has no state %d", (int)state);
  }
  *out_tensor = in->states[state];
  return NULL;
}
