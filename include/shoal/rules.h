// Shoal, rules: how ops may be cut, found by executing them cut and whole (ShardCombine).
//
// A *rule* is the list of *ways* of one call (op, attributes, input types). A way cuts an *item
// space* of `items` items and says of each operand (inputs, then outputs) how it follows:
//   whole      every rank has (or computes) all of it
//   cut        dim `dim` is `repeat` copies of the window [offset, offset + length) of the item
//              space, each item `scale` elements long, widened by a halo of before/after elements
//   flat       row-major range (all flat operands have the same number of elements)
//   partial    every rank has a partial result; `reduce` combines them. SHOAL_REDUCE_LSE is always
//              that of two outputs, a value and its log-sum-exp (the value's shape without its last
//              dim, or with 1 there): they are merged together, before anybody reads them
// Printed:  matmul: {a:0 -> out:0} {b:1 -> out:1} {a:1, b:0 -> out:sum}
//   reshape [B,T,768] -> [B,T,12,64]:  {x:2/64 -> out:2}        scale 64
//   reshape [B,T] -> [B*T], cut on T:  {x:1 -> out:0*B}         repeat B
//   reshape [A,B,C] -> [A*B*C], on B:  {x:1 -> out:0*A/C}       both
//   slice 768..1536 of 2304:           {x:1 -> out:1@768..1536} window; items are also cut at its
//                                                               ends, as chunks are
//   conv, stride 2, kernel 3, pad 1:   {x:2/2#8+1+0 -> out:2}   '#8': x has the output's 8 items
//   attention, keys are cut:           {k:2, v:2 -> out:lse, lse:lse}
//   add: {a:sum, b:sum -> out:sum}; adamw: {w:flat, g:flat, ... -> ...}
// A way marked "~" behind its brace stays right when its items are dealt in chunks or any other
// order (element-wise dims). Variadic inputs are written x[0], x[1]. Operands that are whole are
// not written. Rules are discovered and verified on uneven cuts, never typed in.
//
// Everything here is *Not collective*. Stores find the same rules on every rank; in a session only
// rank 0 has one, because it plans for all. A store may be used by one thread at a time, also to
// read, because asking may discover; different stores are independent. Rules and ways are constant
// once handed out, and the functions on ways may be called from anywhere.
#ifndef SHOAL_RULES_H_
#define SHOAL_RULES_H_

#include "shoal/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum shoal_operand_kind {
  SHOAL_OPERAND_WHOLE,
  SHOAL_OPERAND_CUT,
  SHOAL_OPERAND_FLAT,
  SHOAL_OPERAND_PARTIAL
} shoal_operand_kind_t;

typedef struct shoal_way_operand {
  shoal_operand_kind_t kind;
  shoal_reduce_t reduce;          // PARTIAL
  int32_t dim;                    // CUT
  int64_t scale, repeat, offset;  // CUT; scale and repeat are >= 1
  int64_t before, after;          // halo
  bool dealt_by_items;            // '#': the dim's length is not items * scale
  int64_t length;                 // CUT: items in the window; 0: all of them
} shoal_way_operand_t;

typedef struct shoal_way {
  int32_t input_count, output_count;
  const shoal_way_operand_t *operands;  // inputs, then outputs
  int64_t items;   // size of the item space; 0 for flat and partial-only ways, and
                   // for parsed ones whose text does not say ('#')
  bool any_order;  // "~"
} shoal_way_t;

typedef struct shoal_rule {
  const char *op;
  const shoal_attr_value_t *attrs;  // the call's: they say what operands it has
  int32_t way_count;
  const shoal_way_t *ways;
  const shoal_way_t *claimed;  // the way that the op's record claims (op.h), or NULL. It is not
                               // among the others: nothing may choose it but a plan that clips
                               // gradients before they are summed
  const char *key;   // the small call that was executed: "shoal.matmul f64[4, 5], f64[5, 7]"
  bool shipped;      // it came with the build; else it was discovered
  const char *note;  // what discovery found wrong with an op that therefore has no ways, in words
                     // ("executed again, it gives another result"); NULL: nothing
} shoal_rule_t;

// How a plan deals a way's items over an axis: units, chunks (lengths in items) and weights.
typedef struct shoal_item_cut {
  int64_t unit;  // items per unit; 0 means 1
  int32_t chunk_count;
  shoal_chunk_t chunks[SHOAL_MAX_CHUNKS];
  const int64_t *weights;
} shoal_item_cut_t;

// A store is a cache of rules. It has the rules that came with the build, discovers others on first
// use and keeps them.
typedef struct shoal_rules shoal_rules_t;

// An empty store, which runs calls with their reference kernels. One thread at a time.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_rules_create(shoal_allocator_t allocator,
                                                           shoal_rules_t **out_rules);
SHOAL_API void shoal_rules_free(shoal_rules_t *rules);  // NULL is allowed
// The rule of a call on the whole; borrowed, lives as long as the store. Calls that differ only in
// sizes share one: rules are found by executing a small call with the same relations between its
// sizes (which must be equal, multiples, windows), and their numbers are those of the call asked
// for. What did not come with the build is discovered the first time it is asked for, by executing
// that small call cut and whole, many times: that blocks. Errors are the executor's, if the call
// cannot be executed at all.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_rules_get(shoal_rules_t *rules,
                                                        const shoal_call_t *call,
                                                        const shoal_rule_t **out_rule);
// The rule of an example call, written as in `cases` of the op's record (op.h).
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_rules_of_case(shoal_rules_t *rules,
                                                            const shoal_op_t *op, const char *text,
                                                            const shoal_rule_t **out_rule);
// Text of a rule ("shoal.matmul: {a:0 -> out:0} ..."), given the record for operand names; parses
// back. `attrs` are the call's, which say what operands it has; they are not looked at where the op
// has no optional inputs and always as many outputs.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_way_print(const shoal_op_t *op,
                                                        const shoal_attr_value_t *attrs,
                                                        const shoal_way_t *way,
                                                        shoal_arena_t *arena,
                                                        const char **out_text);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_rule_print(const shoal_op_t *op,
                                                         const shoal_rule_t *rule,
                                                         shoal_arena_t *arena,
                                                         const char **out_text);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_way_parse(const char *text, const shoal_op_t *op,
                                                        const shoal_attr_value_t *attrs,
                                                        int32_t input_count, shoal_arena_t *arena,
                                                        shoal_way_t *out_way);

// Translates a way into a layout: gives the cut of operand `operand` (of the given whole shape)
// when the way is used along `axis`. Sets *out_cuts false (and leaves out_cut alone) when the
// operand is whole.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_way_cut(const shoal_way_t *way, int32_t operand,
                                                      const shoal_shape_t *shape, int32_t axis,
                                                      const shoal_item_cut_t *item_cut,
                                                      bool *out_cuts, shoal_cut_t *out_cut);
// The inverse: finds the item cut with which the way cuts the operand like `cut` (kinds and dims
// agree, scale divides). False if there is none. Halos are not compared.
SHOAL_API bool shoal_way_match(const shoal_way_t *way, int32_t operand, const shoal_shape_t *shape,
                               const shoal_cut_t *cut, shoal_item_cut_t *out_item_cut);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_RULES_H_
