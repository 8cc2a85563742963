// Reference interpreter: runs a model's graphs on one device, whole, node by node, with the
// reference kernels. It defines what a graph means: everything else is compared with it.
#ifndef SHOAL_GRAPH_INTERPRET_H_
#define SHOAL_GRAPH_INTERPRET_H_

#include "graph/graph.h"

// Executes one op on tensors; default: the record's kernel. Rule discovery and foreign ops plug in
// here. Returns UNSUPPORTED, MISMATCH or INVALID_ARGUMENT when the op cannot run on these inputs.
typedef struct shoal_executor {
  void *self;
  shoal_status_t (*execute)(void *self, const shoal_call_t *call, const shoal_tensor_t *inputs,
                            const shoal_tensor_t *outputs);
} shoal_executor_t;

// Runs the reference kernel, allocating its workspace from the system allocator's `allocator`.
shoal_executor_t shoal_executor_reference(const shoal_allocator_t *allocator);

typedef struct shoal_interpreter shoal_interpreter_t;

typedef struct shoal_interpreter_options {
  shoal_allocator_t allocator;
  shoal_executor_t executor;  // zero: reference
  bool promote;  // compute every float as f64 (random values are rounded to their own dtype first)
  // Called after each value is known (inputs and states too). May overwrite the tensor's data: taps
  // impose decisions this way.
  void (*observe)(void *self, const shoal_graph_t *graph, int32_t value, shoal_tensor_t tensor);
  void *observe_self;
} shoal_interpreter_options_t;

SHOAL_MUST_USE shoal_status_t shoal_interpreter_create(const shoal_model_t *model,
                                                       const shoal_interpreter_options_t *options,
                                                       shoal_interpreter_t **out_interpreter);
void shoal_interpreter_free(shoal_interpreter_t *interpreter);
// Feeds an input of the graph, in the input's own dtype. Data is copied.
SHOAL_MUST_USE shoal_status_t shoal_interpreter_feed(shoal_interpreter_t *interpreter,
                                                     const char *name, const void *data,
                                                     size_t size);
SHOAL_MUST_USE shoal_status_t shoal_interpreter_run(shoal_interpreter_t *interpreter,
                                                    const char *graph);
// After a run: any value of that graph; any state. Borrowed until the next run. dtype is f64 if
// promoted.
SHOAL_MUST_USE shoal_status_t shoal_interpreter_value(shoal_interpreter_t *interpreter,
                                                      int32_t value, shoal_tensor_t *out_tensor);
SHOAL_MUST_USE shoal_status_t shoal_interpreter_output(shoal_interpreter_t *interpreter,
                                                       const char *name,
                                                       shoal_tensor_t *out_tensor);
SHOAL_MUST_USE shoal_status_t shoal_interpreter_state(shoal_interpreter_t *interpreter,
                                                      int32_t state,
                                                      shoal_tensor_t *out_tensor);  // writable

#endif  // SHOAL_GRAPH_INTERPRET_H_
