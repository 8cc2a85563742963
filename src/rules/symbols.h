// Symbols: how the sizes of a call are related. Private to rules/.
//
// How a call may be cut depends on which of its sizes determine others, not on how large they are.
// So every size of a call (a dim of an input, an entry of a size or position attribute) is written
// as  times * (sum of symbols) + plus, where symbols are sizes that may be chosen freely; what
// cannot be written so stays a literal number.
//
//   symbols.c   the sizes, windows, and all together
//   blocks.c    sizes that must change together
//   slides.c    sizes that windows slide over
//   regroup.c   reshapes
//   probe.c     small sizes for the symbols, and the small call's text, which is the rule's key
//   lift.c      the small call's ways as ways of the real one
#ifndef SHOAL_RULES_SYMBOLS_H_
#define SHOAL_RULES_SYMBOLS_H_

#include "base/arena.h"
#include "shoal/rules.h"

enum { MAX_TERMS = 3, MAX_STEP = 32 };

// ---- reshapes (regroup.c) ----------------------------------------------------------------------

// A reshape's sizes as products of atoms.
#define REGROUP_MAX 8
typedef struct regroup {
  int32_t count;  // 0: it is none
  int64_t real[REGROUP_MAX], small[REGROUP_MAX];
  uint32_t crossed_in, crossed_out;  // bit per dim: stands for dims that were merged
} regroup_t;

// Small shapes with the same atoms; false where there are too many.
bool regroup_make(const shoal_shape_t *in, const shoal_shape_t *out, regroup_t *regroup,
                  shoal_shape_t *small_in, shoal_shape_t *small_out);
int64_t regroup_lift(const regroup_t *regroup, int64_t small);  // 0: is no product of atoms

// ---- slots and symbols -------------------------------------------------------------------------

// One size of the call.
typedef struct slot {
  int32_t operand;  // an input, or -1
  int32_t attr;     // the attribute otherwise
  int32_t dim;      // of the input, or of the operand that the attribute speaks of
  int32_t entry;    // of the attribute; -1: it is one number
  bool windowed;    // one of a window's sizes
  int64_t value;
  int64_t times, plus;  // value = times * (sum of the terms' sizes) + plus
  int32_t term_count;   // 0: literal
  int32_t terms[MAX_TERMS];
} slot_t;

typedef struct symbol {
  int64_t real;
  bool slid;      // windows move over it: how large it is compared with them matters
  int64_t least;  // of one that is slid: kernels, strides and paddings stay smaller
} symbol_t;

// An output's dim that windows slide over must keep its relation to the symbol.
typedef struct slid_output {
  int32_t operand, dim, symbol;
  int64_t times, plus;
} slid_output_t;

typedef struct symbols {
  const shoal_op_t *op;
  int32_t input_count, operand_count;
  const shoal_type_t *types;  // inputs, then outputs; floats are f64 where the op has a kernel
  const shoal_attr_value_t *attrs;  // streams have one key for all
  const bool *completed;            // by attribute: it is what the op makes of its default
  const bool *placed;               // by operand
  bool slides;                      // several operands have places, and windows move over them
  int32_t slot_count;
  slot_t *slots;
  int32_t symbol_count;
  symbol_t *symbols;
  int32_t slid_output_count;
  slid_output_t slid_outputs[2 * SHOAL_MAX_RANK];
  regroup_t regroup;          // a reshape: nothing else counts
  shoal_type_t *tried_types;  // of the last trial: inputs, then outputs
  shoal_attr_value_t *tried_attrs;
  int64_t **tried_lists;    // by attribute: the numbers of a long list, NULL: it is none
  int64_t *values, *sizes;  // scratch: by slot, by symbol
  shoal_status_t error;     // memory ran short
} symbols_t;

// Finds the symbols of a call on the whole. INVALID_ARGUMENT if the op does not accept it.
SHOAL_MUST_USE shoal_status_t symbols_find(const shoal_call_t *call, shoal_arena_t *arena,
                                           symbols_t *out_symbols);
// A random op's key decides which numbers are drawn, never how they may be cut: calls that differ
// in it alone share a rule.
bool symbols_is_stream_key(const shoal_op_t *op, int32_t attr);
// Says whether the op accepts these numbers in the slots, with outputs of the same number of dims.
// Types and attributes are in tried_types and tried_attrs afterwards.
bool symbols_accepts(symbols_t *s, const int64_t *values);
// The slots' numbers when the symbols have these sizes, into s->values.
const int64_t *symbols_values(symbols_t *s, const int64_t *sizes);
bool symbols_is_position(const symbols_t *s, const slot_t *slot);
int32_t symbols_add(symbols_t *s, int64_t real);  // a new symbol; returns its index
// The symbols of slots that must change together (blocks.c). Scratch by slot is given.
void symbols_find_blocks(symbols_t *s, bool *in, bool *part);
// Makes symbol `symbol` a literal again.
void symbols_drop(symbols_t *s, int32_t symbol);
// Numbers the symbols in the order of the slots and forgets those that nothing is made of.
void symbols_number(symbols_t *s);
// The symbols that windows slide over, and kernels, which stay literal (slides.c).
void symbols_find_slides(symbols_t *s);

// ---- probes ------------------------------------------------------------------------------------

// A small call with the rule of the real one.
typedef struct probe {
  bool found;
  shoal_call_t call;
  const shoal_type_t *types;  // inputs, then outputs
  const int64_t *sizes;       // by symbol
} probe_t;

// Chooses small sizes. `larger` makes the dims that windows slide over larger than without it: a
// way that holds for both holds for all sizes. If no probe is found, the call has to be executed as
// it is.
SHOAL_MUST_USE shoal_status_t probe_make(symbols_t *s, bool larger, shoal_arena_t *arena,
                                         probe_t *out_probe);
// The call's text, which is the key its rule is stored by:
// "shoal.matmul f64[4, 5], f64[5, 7] {transpose_a=1}".
SHOAL_MUST_USE shoal_status_t probe_key(const shoal_call_t *call, shoal_arena_t *arena,
                                        const char **out_key);

// ---- lifting -----------------------------------------------------------------------------------

typedef enum lifted { LIFTED, LIFTED_DROPPED, LIFTED_UNCLEAR } lifted_t;
// Translates a way of the probe into one of the real call, into out_operands and out_items.
// Dropped: it is a way of the probe only. Unclear: it cannot be translated.
lifted_t lift_way(const symbols_t *s, const probe_t *probe, const shoal_way_t *way,
                  shoal_way_operand_t *out_operands, int64_t *out_items);

#endif  // SHOAL_RULES_SYMBOLS_H_
