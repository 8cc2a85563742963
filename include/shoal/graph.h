// Shoal, graph: one training step on one device, as data.
//
// A *model* has states (named tensors that outlive the step) and graphs over them ("train", "eval"
// ...). A *graph* has nodes (applications of ops) and values. Backward and optimizer are ordinary
// nodes. Builder calls need no checking: a model keeps its first error, with the file and line of
// the call, returns null values from then on and hands the error to shoal_model_status (which
// shoal_parallelize calls).
//
//   shoal_graph_t *g = shoal_model_graph(model, "train");
//   shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(64, 784));
//   ...
//   shoal_output(g, "loss", loss);
//
// Calls that end in _at take the file and line to blame; the macros without it pass the caller's.
// They are variadic where an argument may be a compound literal with commas.
//
// Names of states, nodes and scopes consist of letters, digits and _ . / # - ; "a/b" is b in scope
// a; a leading '/' leaves the current scope ("/lr" is the state lr wherever it is asked for).
//
// All functions are *Not collective* and do not block. None of them crashes after an error, or when
// given a NULL graph or a null value.
#ifndef SHOAL_GRAPH_H_
#define SHOAL_GRAPH_H_

#include "shoal/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_model shoal_model_t;
typedef struct shoal_graph shoal_graph_t;

// A value knows its graph; the null value {NULL, -1} stands for "an error has happened".
typedef struct shoal_value {
  shoal_graph_t *graph;
  int32_t id;
} shoal_value_t;

typedef struct shoal_model_options {
  shoal_allocator_t allocator;  // zero: the system's
  shoal_registry_t *registry;   // NULL: native ops only. Retained
  uint64_t seed;                // of all random nodes
  // Mixed precision: layers (nn.h) that compute in bf16 or f16 keep their parameters, and so
  // optimizers their moments, in f32, and cast them where they are used; losses are f32.
  bool mixed;
} shoal_model_options_t;

// An empty model; NULL options are all defaults. Graphs, values and names belong to it.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_model_create(const shoal_model_options_t *options,
                                                           shoal_model_t **out_model);
SHOAL_API void shoal_model_free(shoal_model_t *model);  // NULL is allowed
// The first error of any builder call so far, cloned; OK if none.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_model_status(const shoal_model_t *model);

// The graph of that name, made empty on first use; NULL when memory is short or the name is bad.
// "init" is reserved: it assigns every state its initial value and is written by shoal_state;
// adding to it is an error.
SHOAL_API shoal_graph_t *shoal_model_graph(shoal_model_t *model, const char *name);
// The graph of that name if there is one, else NULL.
SHOAL_API const shoal_graph_t *shoal_model_find_graph(const shoal_model_t *model, const char *name);
// Elements of all trainable states.
SHOAL_API int64_t shoal_model_parameters(const shoal_model_t *model);
// A graph's name and the model that owns it; borrowed.
SHOAL_API const char *shoal_graph_name(const shoal_graph_t *graph);
SHOAL_API shoal_model_t *shoal_graph_model(const shoal_graph_t *graph);

// -------------------------------------------------------------------------------------------------
// Values in and out. `name`s of inputs and outputs are unique in a graph and not scoped.
// -------------------------------------------------------------------------------------------------

#define SHOAL_HERE __FILE__, __LINE__

// A value that is fed from outside; the null value if the call is wrong.
SHOAL_API shoal_value_t shoal_input_at(shoal_graph_t *graph, const char *name, shoal_dtype_t dtype,
                                       shoal_shape_t shape, const char *file, int line);
#define shoal_input(graph, name, dtype, shape) shoal_input_at(graph, name, dtype, shape, SHOAL_HERE)

// Lets the value be fetched under that name after each run.
SHOAL_API void shoal_output_at(shoal_graph_t *graph, const char *name, shoal_value_t value,
                               const char *file, int line);
#define shoal_output(graph, name, ...) shoal_output_at(graph, name, __VA_ARGS__, SHOAL_HERE)

// The type of an input or output of that name; false: the graph has none.
SHOAL_API bool shoal_graph_input_type(const shoal_graph_t *graph, const char *name,
                                      shoal_type_t *out_type);
SHOAL_API bool shoal_graph_output_type(const shoal_graph_t *graph, const char *name,
                                       shoal_type_t *out_type);

// How many indices an integer input may hold: [0, count), the least that an op allows which reads
// it ("ids" of an embedding: the rows of its table). 0: no op says. What made-up data are drawn
// from.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_graph_input_indices(const shoal_graph_t *graph,
                                                                  const char *name,
                                                                  int64_t *out_count);

SHOAL_API shoal_type_t shoal_value_type(shoal_value_t value);  // of the null value: f32 scalar
SHOAL_API const char *shoal_value_name(shoal_value_t value);   // of the null value: ""
SHOAL_API bool shoal_value_ok(shoal_value_t value);            // false for the null value
// In the place of an optional input: it is left out. For any other input it is the null value.
static inline shoal_value_t shoal_none(void) {
  shoal_value_t none = {NULL, -1};
  return none;
}

// Adds a node of any registered op by qualified name: what typed builders (ops.h) and front-ends
// call. Inputs are in the order of the record; optional ones may be shoal_none(), or missing at the
// end. Who gives the attribute "with" himself gives just the inputs that it names.
SHOAL_API void shoal_node_add_at(shoal_graph_t *graph, const char *op, int32_t input_count,
                                 const shoal_value_t *inputs, int32_t attr_count,
                                 const shoal_attr_t *attrs, int32_t output_count,
                                 shoal_value_t *out_outputs, const char *file, int line);
// shoal_node_add(graph, op, input_count, inputs, attr_count, attrs, output_count, out_outputs)
#define shoal_node_add(graph, ...) shoal_node_add_at(graph, __VA_ARGS__, SHOAL_HERE)

// Names: nodes made inside are called "scope/op" ("scope/op_1" for the second). Stable across edits
// elsewhere. Scopes nest: "block0" / "attn" gives "block0/attn/...".
SHOAL_API void shoal_scope_push_at(shoal_graph_t *graph, const char *name, const char *file,
                                   int line);
SHOAL_API void shoal_scope_pop_at(shoal_graph_t *graph, const char *file, int line);
#define shoal_scope_push(graph, name) shoal_scope_push_at(graph, name, SHOAL_HERE)
#define shoal_scope_pop(graph) shoal_scope_pop_at(graph, SHOAL_HERE)

// What a node is for: which part of the step it belongs to. Shoal's differentiation and optimizers
// say so themselves; plans and schedules go by it.
typedef enum shoal_node_kind {
  SHOAL_NODE_FORWARD,
  SHOAL_NODE_INPUT_GRADIENT,   // also what yields gradients of inputs and of weights at once
  SHOAL_NODE_WEIGHT_GRADIENT,  // leads only to gradients of values that depend on states alone
  SHOAL_NODE_UPDATE,
  SHOAL_NODE_KIND_COUNT
} shoal_node_kind_t;

// Until the matching pop, nodes that are added are of this kind: for those who write updates (or
// gradients) by hand. Kinds nest; without one nodes are FORWARD. Nodes of shoal_gradients are
// gradients anywhere.
SHOAL_API void shoal_kind_push_at(shoal_graph_t *graph, shoal_node_kind_t kind, const char *file,
                                  int line);
SHOAL_API void shoal_kind_pop_at(shoal_graph_t *graph, const char *file, int line);
#define shoal_kind_push(graph, kind) shoal_kind_push_at(graph, kind, SHOAL_HERE)
#define shoal_kind_pop(graph) shoal_kind_pop_at(graph, SHOAL_HERE)

// Forward nodes that are added inside belong to this stage of a pipeline, from 0 on:
//
//   shoal_with_stage(g, 0) h = shoal_nn_linear(g, "fc1", x, 256);
//   shoal_with_stage(g, 1) {
//     h = shoal_relu(g, h);
//     ...
//   }
//
// The strategies "pipeline", "uniform-pipeline" and "annotated" put each stage on ranks of its own;
// other strategies ignore stages. Nodes outside of a stage follow what they read; gradients follow
// their forward nodes. Do not leave the statement by break, goto or return. Stages do not nest: one
// inside of another is an error.
#define shoal_with_stage(graph, stage)                                                \
  for (bool shoal_once_ = shoal_stage_push_at(graph, stage, SHOAL_HERE); shoal_once_; \
       shoal_once_ = shoal_stage_pop_at(graph, SHOAL_HERE))
// The same for those who have no such statement. The first returns true, the second false.
SHOAL_API bool shoal_stage_push_at(shoal_graph_t *graph, int32_t stage, const char *file, int line);
SHOAL_API bool shoal_stage_pop_at(shoal_graph_t *graph, const char *file, int line);

// How ranks share the work of the forward nodes that are added inside. REPLICATE: each rank takes
// some rows of the batch and has all parameters (data parallel). SPLIT: each rank has a shard of
// the parameters and computes a part of every row (tensor parallel: products with their biases, and
// losses, argmax and accuracy on logits that are cut by classes).
//
//   shoal_with_replicate(g, 8) features = resnet(g, images);
//   shoal_with_split(g, 8) {
//     logits = shoal_nn_linear(g, "head", features, 100000);
//     loss = shoal_nn_cross_entropy(g, logits, labels);
//   }
//
// `ranks` says how many ranks work on one copy of the part; 0: all ranks of the world or stage.
// Where there are more ranks, several copies of the part share the batch. Both parts above run on
// the same 8 ranks; inside of stages (shoal_with_stage) they run on the ranks of their stage.
// Parts may be split over different numbers of ranks, up to three, that divide one another.
// Annotations say who computes, never what: N ranks always compute what one device computes.
//
// The strategy "annotated" plans what they say, and is the default for a model that has them; other
// strategies ignore them. Graph "train" decides (without one, the first graph), and other graphs
// follow it: to split a part of one where "train" splits none is an error. Nodes outside follow
// shoal_default_replicate or shoal_default_split, and without these what they read. Gradients
// follow their forward nodes. Do not leave the statement by break, goto or return. A replicated or
// split part inside of another is an error; a stage inside or around is not.
typedef enum shoal_share {
  SHOAL_SHARE_NONE,  // nothing is asked for
  SHOAL_SHARE_REPLICATE,
  SHOAL_SHARE_SPLIT,
  SHOAL_SHARE_COUNT
} shoal_share_t;

#define shoal_with_replicate(graph, ranks) shoal_with_share_(graph, SHOAL_SHARE_REPLICATE, ranks)
#define shoal_with_split(graph, ranks) shoal_with_share_(graph, SHOAL_SHARE_SPLIT, ranks)
#define shoal_with_share_(graph, share, ranks)                                                   \
  for (bool shoal_shared_ = shoal_share_push_at(graph, share, ranks, SHOAL_HERE); shoal_shared_; \
       shoal_shared_ = shoal_share_pop_at(graph, SHOAL_HERE))
// The same for those who have no such statement. The first returns true, the second false.
SHOAL_API bool shoal_share_push_at(shoal_graph_t *graph, shoal_share_t share, int32_t ranks,
                                   const char *file, int line);
SHOAL_API bool shoal_share_pop_at(shoal_graph_t *graph, const char *file, int line);
// What holds for forward nodes that are added from now on outside of such statements; NONE takes it
// back. Inside of one it is an error.
SHOAL_API void shoal_share_default_at(shoal_graph_t *graph, shoal_share_t share, int32_t ranks,
                                      const char *file, int line);
#define shoal_default_replicate(graph, ranks) \
  shoal_share_default_at(graph, SHOAL_SHARE_REPLICATE, ranks, SHOAL_HERE)
#define shoal_default_split(graph, ranks) \
  shoal_share_default_at(graph, SHOAL_SHARE_SPLIT, ranks, SHOAL_HERE)

// The forward nodes that are added inside are computed again in the backward pass instead of kept
// for it: less memory for more time (activation checkpointing).
//
//   for (int i = 0; i < layers; ++i)
//     shoal_with_recompute(g) h = block(g, h, i);
//
// What one run of the statement adds is one region: its nodes are computed again together, when the
// backward pass comes to them, from the values that go into it. Values that nodes outside read in
// the forward pass, outputs and what is assigned to states are kept. In a pipeline a region that
// crosses stages is one on each. Results have the same bits as without, random numbers among them.
//
// It holds under every strategy. What a person decides comes later and wins node by node: the
// choice `recompute` (planners.h, --recompute), whose word "none" takes all marks back, and
// --decide 'recompute PATTERN no'. In a graph without a backward pass it has no effect. Do not
// leave the statement by break, goto or return. One inside of another is an error; it may stand
// inside of stages, replicated or split parts and scopes, or around them.
#define shoal_with_recompute(graph)                                                    \
  for (bool shoal_marked_ = shoal_recompute_push_at(graph, SHOAL_HERE); shoal_marked_; \
       shoal_marked_ = shoal_recompute_pop_at(graph, SHOAL_HERE))
// The same for those who have no such statement. The first returns true, the second false.
SHOAL_API bool shoal_recompute_push_at(shoal_graph_t *graph, const char *file, int line);
SHOAL_API bool shoal_recompute_pop_at(shoal_graph_t *graph, const char *file, int line);

// Says how ranks hold a value, under every strategy. What it returns is laid out like that, or the
// plan is refused with an error that names this line (JAX: with_sharding_constraint):
//
//   h = shoal_constrain(g, h, "data:0,tensor:2");
//
// `layout` is written as layout.h describes: which dim is cut over which axis of the mesh; "" is
// the whole on every rank. For a computed value it adds a node, "NAME/constrain", whose output has
// the layout: use what is returned, for the value itself stays as its own node makes it. Where the
// two differ, ranks exchange parts in between; where they do not, the node costs nothing, also on
// one rank. Its gradient has the same layout. An unreduced sum ("tensor:partial(sum)") is possible,
// and says nothing about the gradient; other reductions, halos and axes that cut one dim in another
// order than the mesh has them in are refused. A value may be constrained again, to another layout.
//
// An input or a state is constrained itself, and returned: the input is fed like that in this
// graph, the state rests like that in all graphs. Two layouts for one of these are an error.
//
// Micro-batches are not the layout's business: they cut the value as they cut what it is computed
// from, and dim 0 of an input, unless the layout names the axis `micro`. What a person decides
// (plan options, --layouts, --decide) comes later and wins; `shoal explain --why NAME` says who
// decided. On one rank there is nothing to do, and the layout is not looked at.
SHOAL_API shoal_value_t shoal_constrain_at(shoal_graph_t *graph, shoal_value_t value,
                                           const char *layout, const char *file, int line);
#define shoal_constrain(graph, value, layout) shoal_constrain_at(graph, value, layout, SHOAL_HERE)

// Until the matching pop, nodes and errors are blamed on this file and line: for functions that
// build layers and want to name their caller. The outermost push wins.
SHOAL_API void shoal_site_push(shoal_graph_t *graph, const char *file, int line);
SHOAL_API void shoal_site_pop(shoal_graph_t *graph);

// -------------------------------------------------------------------------------------------------
// States
// -------------------------------------------------------------------------------------------------

typedef enum shoal_init_kind {
  SHOAL_INIT_ZEROS,
  SHOAL_INIT_FILL,
  SHOAL_INIT_UNIFORM,
  SHOAL_INIT_NORMAL,
  SHOAL_INIT_TRUNCATED_NORMAL,
  SHOAL_INIT_KIND_COUNT
} shoal_init_kind_t;

typedef struct shoal_init {
  shoal_init_kind_t kind;
  double a, b;  // FILL: a. UNIFORM: [a, b). NORMAL: mean a, standard deviation b
  // TRUNCATED_NORMAL: a and b of the normal that is cut at these; both 0: -2 and 2, as PyTorch's
  // trunc_normal_ has it, whatever a and b are.
  double low, high;
} shoal_init_t;

typedef struct shoal_state_options {
  shoal_init_t init;
  bool trainable;
  bool not_saved;  // left out of checkpoints
} shoal_state_options_t;

// Reads a state as a value. Declares it on first use (name is scoped: "fc1" / "weight" gives
// "fc1/weight"); later uses, also in other graphs, must agree in dtype and shape. One value per
// graph: reading twice gives the same value. Its initial value is written into graph "init".
SHOAL_API shoal_value_t shoal_state_at(shoal_graph_t *graph, const char *name, shoal_dtype_t dtype,
                                       shoal_shape_t shape, const shoal_state_options_t *options,
                                       const char *file, int line);
// shoal_state(graph, name, dtype, shape, options); options NULL: zeros, not trainable.
#define shoal_state(graph, name, dtype, ...) \
  shoal_state_at(graph, name, dtype, __VA_ARGS__, SHOAL_HERE)

// Assigns the state that `state` reads, once per graph, at the end of the step.
SHOAL_API void shoal_assign_at(shoal_graph_t *graph, shoal_value_t state, shoal_value_t value,
                               const char *file, int line);
#define shoal_assign(graph, ...) \
  shoal_assign_at(graph, __VA_ARGS__, SHOAL_HERE)  // graph, state, value

// The same, but the state takes the value only in steps in which `predicate`, a bool scalar, is
// true; in others it stays as it is. All ranks decide alike. For updates that are left out after an
// overflow:
//   shoal_assign_if(graph, w, new_w, finite);
SHOAL_API void shoal_assign_if_at(shoal_graph_t *graph, shoal_value_t state, shoal_value_t value,
                                  shoal_value_t predicate, const char *file, int line);
#define shoal_assign_if(graph, ...) \
  shoal_assign_if_at(graph, __VA_ARGS__, SHOAL_HERE)  // graph, state, value, predicate

// The step number, an i64 scalar state "step": 0 after init; a graph that calls shoal_step sees the
// number of the step it runs (1 for the first) and stores it.
SHOAL_API shoal_value_t shoal_step_at(shoal_graph_t *graph, const char *file, int line);
#define shoal_step(graph) shoal_step_at(graph, SHOAL_HERE)
// Key of a random node called `name` in the current scope: seed xor hash(full name).
SHOAL_API int64_t shoal_random_key(shoal_graph_t *graph, const char *name);

// Excludes states from training by pattern ('*' matches anything): "block0/*". Counts for every
// shoal_minimize that follows. In a model that trains, a pattern that no trainable state has, or
// one that comes after the shoal_minimize it is meant for, is an error of shoal_model_status.
SHOAL_API void shoal_freeze_at(shoal_model_t *model, const char *pattern, const char *file,
                               int line);
#define shoal_freeze(model, pattern) shoal_freeze_at(model, pattern, SHOAL_HERE)

// -------------------------------------------------------------------------------------------------
// Differentiation
// -------------------------------------------------------------------------------------------------

// Gradients of a float scalar with respect to values, as new nodes: those of forward node n are
// called "grad/n/op" and are of kind INPUT_GRADIENT or WEIGHT_GRADIENT. Values the loss does not
// depend on get zeros. Nothing is left in the graph that no gradient needs. An op on the way that
// has no gradient is an error that names the node.
SHOAL_API void shoal_gradients_at(shoal_graph_t *graph, shoal_value_t loss, int32_t count,
                                  const shoal_value_t *wrt, shoal_value_t *out_gradients,
                                  const char *file, int line);
// shoal_gradients(graph, loss, count, wrt, out_gradients)
#define shoal_gradients(graph, loss, ...) shoal_gradients_at(graph, loss, __VA_ARGS__, SHOAL_HERE)

// -------------------------------------------------------------------------------------------------
// Text, checks
// -------------------------------------------------------------------------------------------------

// Readable text of all states and graphs; parses back to an equal model (but for files and lines).
// The graph "init" follows from the states and is left out, unless it was rewritten.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_model_print(const shoal_model_t *model,
                                                          shoal_arena_t *arena,
                                                          const char **out_text);
// `name` is the text's file, for messages. The text's seed counts, not the options'.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_model_parse(const char *name, const char *text,
                                                          const shoal_model_options_t *options,
                                                          shoal_model_t **out_model);
// Every operand is defined before use, types agree with infer, assignments match, names are unique.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_model_verify(const shoal_model_t *model);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_GRAPH_H_
