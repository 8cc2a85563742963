// Shoal, op: what an operator is.
//
// An op is a record: a qualified name, typed attributes with *roles*, and functions that passes
// ask. No pass switches over op names; what a pass needs to know it asks the record. Native ops are
// registered first (ops.inc); users add theirs with shoal_op_register and get rules, gradients,
// plans and programs like native ones.
//
// *Made to be cut.* An op whose result depends on where an element lies or how many there are takes
// that as attributes whose default speaks of the whole: a `place` (embedding, random, masks,
// convolution ...) or a `count` (means, losses). Lowering rewrites attributes by role
// (shoal_op_bind), never by op name. An index outside the part contributes the identity of the
// reduction.
//
// All functions are *Not collective* and do not block.
#ifndef SHOAL_OP_H_
#define SHOAL_OP_H_

#include "shoal/base.h"
#include "shoal/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

// -------------------------------------------------------------------------------------------------
// Attributes
// -------------------------------------------------------------------------------------------------

typedef enum shoal_attr_kind {
  SHOAL_ATTR_INT,
  SHOAL_ATTR_INTS,
  SHOAL_ATTR_REAL,
  SHOAL_ATTR_STRING,
  SHOAL_ATTR_DTYPE,
  SHOAL_ATTR_PLACE
} shoal_attr_kind_t;

typedef enum shoal_attr_role {
  SHOAL_ROLE_PLAIN,
  SHOAL_ROLE_SIZE,  // INTS: entry d is the operand's size along dim d. INT: its size along `dim`
  SHOAL_ROLE_POSITION,  // INTS: entry d is a position along the operand's dim d. INT: along `dim`
  SHOAL_ROLE_PLACE,     // PLACE: where the operand's part lies in the whole
  SHOAL_ROLE_COUNT,     // INT: a number of elements of the whole; it is never rewritten
  // INTS: every entry is a position along one dim of the operand, the one that the INT attribute
  // number `dim` of the schema names (a split's starts along its axis); up to SHOAL_MAX_INTS.
  // Outputs that repeat may each begin at one of them.
  SHOAL_ROLE_POSITIONS
} shoal_attr_role_t;

#define SHOAL_INPUT(i) (i)
#define SHOAL_OUTPUT(i) (~(i))

typedef struct shoal_attr_value {
  int32_t count;  // INTS: how many
  union {
    int64_t i;  // INT, and DTYPE as its enum
    double f;
    const char *s;
    int64_t ints[SHOAL_MAX_RANK];  // INTS: up to SHOAL_MAX_RANK of them
    const int64_t *list;           // INTS: where more of them lie (shoal_attr_list reads both)
    const shoal_place_t *place;    // NULL: the whole
  };
} shoal_attr_value_t;

#define SHOAL_MAX_INTS 4096
// The numbers of an INTS attribute, value->count of them; borrowed from the value.
SHOAL_API const int64_t *shoal_attr_list(const shoal_attr_value_t *value);

typedef struct shoal_attr_schema {
  const char *name;
  shoal_attr_kind_t kind;
  shoal_attr_role_t role;
  int32_t operand;  // SHOAL_INPUT(i) or SHOAL_OUTPUT(i) the role speaks of
  int32_t dim;      // for INT with role SIZE or POSITION; negative counts from the end. POSITIONS:
                    // the number of the attribute that names the dim
  bool optional;    // may be left out: fallback is used. PLACE is always optional
  bool stated;  // optional, but typed builders take it as an argument: 0 is as usual as fallback
  shoal_attr_value_t fallback;
  const char *doc;
} shoal_attr_schema_t;

// A named attribute, as given by a caller; made by the functions below.
typedef struct shoal_attr {
  const char *name;
  shoal_attr_kind_t kind;
  shoal_attr_value_t value;
} shoal_attr_t;

// `name` is borrowed, and so are more than SHOAL_MAX_RANK values, which only an attribute with the
// role POSITIONS takes.
SHOAL_API shoal_attr_t shoal_attr_int(const char *name, int64_t value);
SHOAL_API shoal_attr_t shoal_attr_ints(const char *name, int32_t count, const int64_t *values);
SHOAL_API shoal_attr_t shoal_attr_shape(const char *name, const shoal_shape_t *shape);
SHOAL_API shoal_attr_t shoal_attr_real(const char *name, double value);
SHOAL_API shoal_attr_t shoal_attr_string(const char *name, const char *value);  // borrowed
SHOAL_API shoal_attr_t shoal_attr_dtype(const char *name, shoal_dtype_t value);
SHOAL_API shoal_attr_t shoal_attr_place(const char *name, const shoal_place_t *value);  // borrowed

// -------------------------------------------------------------------------------------------------
// The record
// -------------------------------------------------------------------------------------------------

typedef struct shoal_type {
  shoal_dtype_t dtype;
  shoal_shape_t shape;
} shoal_type_t;

typedef struct shoal_op shoal_op_t;

// One application of an op, on the whole or on a part: types of its operands and bound attributes,
// in the order of the schema.
typedef struct shoal_call {
  const shoal_op_t *op;
  int32_t input_count, output_count;
  const shoal_type_t *inputs;
  const shoal_type_t *outputs;  // NULL while shapes are being inferred
  const shoal_attr_value_t *attrs;
} shoal_call_t;

// A value as gradients and decompositions see it; SHOAL_NO_REF where there is none.
typedef int32_t shoal_ref_t;
#define SHOAL_NO_REF (-1)

// Writes nodes; graph/ implements it. Keeps its first error: after one, everything returns
// SHOAL_NO_REF. An optional input that is SHOAL_NO_REF is left out; where another one is,
// shoal_emit does nothing and returns SHOAL_NO_REF.
typedef struct shoal_emitter shoal_emitter_t;
SHOAL_API void shoal_emit(shoal_emitter_t *emitter, const char *op, int32_t input_count,
                          const shoal_ref_t *inputs, int32_t attr_count, const shoal_attr_t *attrs,
                          int32_t output_count, shoal_ref_t *out_outputs);
SHOAL_API shoal_type_t shoal_emit_type(shoal_emitter_t *emitter,
                                       shoal_ref_t ref);  // of an emitted value
SHOAL_API void shoal_emit_fail(shoal_emitter_t *emitter, shoal_status_t status);  // takes status

typedef struct shoal_cost {
  double flops;
  double bytes;  // read and written
} shoal_cost_t;

// "Output `output` may be written over input `input`."
typedef struct shoal_overwrite {
  int32_t output, input;
} shoal_overwrite_t;

struct shoal_op {
  const char *name;           // "shoal.matmul"
  const char *doc;            // one paragraph: formula and shapes
  int32_t input_count;        // of the names below; the last repeats when variadic
  const char *const *inputs;  // names: "a", "b"
  int32_t output_count;
  const char *const *outputs;
  bool variadic;  // the last input may be given any number of times (>= 1)
  // So many of the last inputs may be left out, each by itself (not together with `variadic`). The
  // record then has a STRING attribute "with", optional and "" by default, which names those that
  // are given, in order: "bias,step". Builders write it (shoal_none in graph.h). A call's inputs,
  // and what gradients, decompositions and kernels get, are the given ones (shoal_op_given);
  // operands of attributes, `overwrites` and index_count speak of the record's names.
  int32_t optional;
  // Optional. How many outputs a call has: fewer than output_count (the last ones are not made), or
  // more (the last name repeats). It depends on the attributes alone, and asks them before anything
  // has checked them. Attributes speak of outputs that have a name of their own, or of the first of
  // those that repeat. NULL: output_count.
  int32_t (*output_number)(const shoal_op_t *op, const shoal_attr_value_t *attrs);
  // Draws numbers from a stream, by its key (the attribute `key`), the step (an input) and the
  // element's index in the whole. How it may be cut depends neither on the key nor on the numbers
  // that shape the distribution (its real attributes, but for whole numbers). Without float inputs,
  // a run promoted to f64 draws in the dtype written and widens.
  bool random;
  // Output 0 is *bounded* by the last input, a tensor of integers. The input's shape is that of the
  // leading dims of the output: one count for each group of rows, which are the elements of the
  // next dim. Of each group the first `count` rows are used, and the op writes zeros to all others,
  // so that communication may leave those out (EXCHANGE in program.h).
  bool bounds;
  // Output 0, a sum of rows at places that the inputs name, has a row for every place there is, and
  // the inputs have one for each that is named. Where ranks have their own inputs it may be cheaper
  // to send those than to add up outputs; completion weighs that, by the decomposition where there
  // is one.
  bool sparse;
  // Gives its only input back, so that plans have a place where its layout is decided: the STRING
  // attribute of this name says it (layout.h). Planning gives output 0 that layout or is refused;
  // the program has no instruction for it, where none is needed. NULL: it is no such op.
  const char *constrains;
  // Moves or casts elements and does not compute with them: it takes types that are for storage.
  bool any_dtype;
  // Compares floats inside, so that its result may jump where they change a little (the gradient of
  // relu, pooling). A check may then impose on the one device what the ranks' op read (prove.h).
  // Ops that make integers or bools of floats need not say so.
  bool jumps;
  // The INTS attribute with an entry for each dim that windows move over: so many of the last dims
  // of the operands with places. NULL: the last two, where several operands have places. "":
  // nothing slides, though several operands have places.
  const char *window;
  // The INT attribute whose value an input with an index_count may hold besides: "no index" (a
  // label that is ignored). Test data and rule discovery draw it, where the input's type holds it.
  const char *spare;
  // Of ops on the summands of a gradient, which are what each rank along the data axes of a plan
  // has of it before they are summed (`clip_before` in optimize.h): the INT attribute that says how
  // many there are. It is 1 on one device; a plan writes how many ranks there are. NULL: none.
  const char *summands;
  // A way, as rules print it, that a plan uses for the node along those axes, and nothing else
  // uses: it is *claimed*, because it does not give what one device computes, so that discovery
  // cannot find it. A plan that uses it is approximate (shoal_plan_approximate), and a check takes
  // the node's output from the ranks (prove.h): its rows must add up to what one device has. NULL:
  // none.
  const char *claimed;
  // Adds up summands, the rows of its first input: its output is the gradient that they are of.
  bool sums_summands;
  // In words, for the reader: which dims of its operands no way cuts, and why. NULL: each dim of
  // two elements or more can be cut.
  const char *uncut;
  // In words: what becomes of NaN and Inf where they do not just propagate. NULL: they do.
  const char *nan;
  int32_t attr_count;
  const shoal_attr_schema_t *attrs;

  // Optional. Writes into `attrs` (the same array as call->attrs) what was left to be taken from
  // the whole: counts left 0, sizes left -1, a default scale. Asked once, when a node is made,
  // before infer: from then on the number stays, however the node is cut. Operands may still be
  // wrong: skips those.
  void (*complete)(const shoal_call_t *call, shoal_attr_value_t *attrs);
  // Types of the outputs from types of the inputs and attributes; INVALID_ARGUMENT says what is
  // wrong. It must refuse operands that do not fit together: rules are found on sizes that differ
  // wherever it lets them.
  shoal_status_t (*infer)(const shoal_call_t *call, shoal_type_t *out_types);
  // Optional. Of an integer input, by its number among the record's names, that holds indices: how
  // many there are, so that its elements lie in [0, that many). 0: the input holds no indices.
  // Asked of calls on the whole; test data and rule discovery draw from the whole range. NULL:
  // nothing is known, they keep to 0 and 1, and to what the kernel accepts.
  int64_t (*index_count)(const shoal_call_t *call, int32_t input);
  // Optional. Emits the gradient: output_grads[i] is SHOAL_NO_REF where no gradient flows; leave
  // out_input_grads[i] at SHOAL_NO_REF where none exists. NULL: refuses to be differentiated.
  void (*gradient)(const shoal_call_t *call, shoal_emitter_t *emitter, const shoal_ref_t *inputs,
                   const shoal_ref_t *outputs, const shoal_ref_t *output_grads,
                   shoal_ref_t *out_input_grads);
  // Optional. Emits the same computation in simpler ops, for ways that need several phases.
  void (*decompose)(const shoal_call_t *call, shoal_emitter_t *emitter, const shoal_ref_t *inputs,
                    shoal_ref_t *out_outputs);
  // Optional. NULL: bytes of the operands, one flop per output element; *out_cost comes filled with
  // that.
  void (*cost)(const shoal_call_t *call, shoal_cost_t *out_cost);
  // Optional. Bytes of scratch the kernel wants; NULL: none.
  int64_t (*workspace)(const shoal_call_t *call);
  // Optional. Which outputs may lie exactly where an input lies, which saves memory: the kernel,
  // and whatever else executes the op, must then give the same bits. An element-wise op that reads
  // an element before it writes it lists all its pairs. A pair counts only where both operands have
  // as many elements of the same size, so a broadcast operand is never overwritten; several pairs
  // may be used at once, each operand in one of them. NULL: outputs never alias inputs.
  int32_t overwrite_count;
  const shoal_overwrite_t *overwrites;
  // Reference kernel. Optional: a foreign op is executed by a callback. Must cope with empty
  // tensors. `workspace` is 64-byte aligned. Outputs alias no inputs but those `overwrites` lists.
  shoal_status_t (*kernel)(const shoal_call_t *call, const shoal_tensor_t *inputs,
                           const shoal_tensor_t *outputs, void *workspace);
  // Optional. Example calls for tests, in the mini-language of src/op/case.h, NULL-terminated:
  // "f64[3,4], i32[5]<4 ; axis=1, shape=[2,3]".
  const char *const *cases;
  void *user_data;  // for user ops
};

// -------------------------------------------------------------------------------------------------
// Registry
// -------------------------------------------------------------------------------------------------

typedef struct shoal_registry shoal_registry_t;  // native ops, then the user's

// A registry of the native ops, owned once; retain and release count owners and are safe across
// threads (registering is not). It is freed with its last owner; releasing NULL is allowed.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_registry_create(shoal_allocator_t allocator,
                                                              shoal_registry_t **out_registry);
SHOAL_API void shoal_registry_retain(shoal_registry_t *registry);
SHOAL_API void shoal_registry_release(shoal_registry_t *registry);
// Adds an op. The record is copied; what it points to is borrowed for the registry's life. Refuses
// a record without name or infer, and a name that exists.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_op_register(shoal_registry_t *registry,
                                                          const shoal_op_t *op);
// Finds by qualified name ("shoal.matmul"); NOT_FOUND suggests the nearest.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_op_find(const shoal_registry_t *registry,
                                                      const char *name, const shoal_op_t **out_op);
// In order of registration, native ops first; NULL after the last. Borrowed.
SHOAL_API int64_t shoal_registry_count(const shoal_registry_t *registry);
SHOAL_API const shoal_op_t *shoal_registry_op(const shoal_registry_t *registry, int64_t index);

// -------------------------------------------------------------------------------------------------
// Using a record
// -------------------------------------------------------------------------------------------------

// Attributes by name -> values in schema order (count op->attr_count), defaults filled in. Unknown,
// missing or mistyped ones are errors with a suggestion. Strings and lists are copied into the
// arena.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_op_attrs(const shoal_op_t *op, int32_t attr_count,
                                                       const shoal_attr_t *attrs,
                                                       shoal_arena_t *arena,
                                                       shoal_attr_value_t **out_values);

// For a node on the whole, in this order: shoal_op_attrs, shoal_op_complete, shoal_op_infer.
SHOAL_API void shoal_op_complete(const shoal_op_t *op, int32_t input_count,
                                 const shoal_type_t *inputs, shoal_attr_value_t *attrs);
// How many outputs a call with these attributes has: what output_number says, 1 to
// SHOAL_MAX_OUTPUTS.
#define SHOAL_MAX_OUTPUTS 4096
SHOAL_API int32_t shoal_op_outputs(const shoal_op_t *op, const shoal_attr_value_t *attrs);
// The number, among the inputs that are given, of the one that has the record's name number `name`;
// -1: it is left out.
SHOAL_API int32_t shoal_op_given(const shoal_op_t *op, const shoal_attr_value_t *attrs,
                                 int32_t name);
// The reverse: which of the record's names input `input` of a call has.
SHOAL_API int32_t shoal_op_named(const shoal_op_t *op, const shoal_attr_value_t *attrs,
                                 int32_t input);

// Checks the numbers of inputs and outputs, then asks the record. call->outputs may be NULL;
// out_types has room for call->output_count, which is what shoal_op_outputs says.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_op_infer(const shoal_call_t *call,
                                                       shoal_type_t *out_types);

// Rewrites attributes of the whole for one rank's part, by role: SIZE becomes the held size,
// POSITION the number of held elements before it, PLACE the part's place. inputs/outputs: the
// parts, as shoal_layout_boxes gives them.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_op_bind(const shoal_op_t *op, int32_t input_count,
                                                      const shoal_attr_value_t *attrs,
                                                      const shoal_boxes_t *inputs,
                                                      const shoal_boxes_t *outputs,
                                                      shoal_arena_t *arena,
                                                      shoal_attr_value_t *out_attrs);
// Says whether this call's output may be written over its input: the record lists the pair, and the
// operands are equally large. Needs call->outputs.
SHOAL_API bool shoal_op_overwrites(const shoal_call_t *call, int32_t output, int32_t input);
// What the record says, or its default (see `cost`). Needs call->outputs.
SHOAL_API shoal_cost_t shoal_op_cost(const shoal_call_t *call);

// A record in words, as `shoal ops NAME` prints it. Strings lie in the arena, or are the record's.
typedef struct shoal_attr_description {
  const char *kind;      // "integer", "integers", "real", "string", "dtype" or "place"
  const char *role;      // what a part makes of it: "a size along each dim of out"; "": nothing
  const char *fallback;  // the default as text; NULL: it has none
} shoal_attr_description_t;

typedef struct shoal_op_description {
  const char *family;         // under which title ops are listed
  const char *summary;        // the first sentence of its doc
  const char *gradient;       // "yes", "through shoal.softmax_grad", "none flows" or "no"
  const char *decomposition;  // the ops it is made of, each once; NULL: it has none
  const shoal_attr_description_t *attrs;  // in the order of the schema
  const char *text;                       // all of it, to be read
} shoal_op_description_t;

// Gradient and decomposition are found by asking the record for those of its examples (cases).
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_op_describe(const shoal_registry_t *registry,
                                                          const shoal_op_t *op,
                                                          shoal_arena_t *arena,
                                                          shoal_op_description_t *out_description);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_OP_H_
