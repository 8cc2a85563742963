// Symbols: the sizes of a call (slots), and those that are free to be chosen.
//
// Each size is changed alone, and the shape function says which others must follow (blocks.c). Two
// kinds of relations are not seen by this: windows, whose begin, length and rest are symbols
// (slice, pad), and reshapes, whose sizes are products (regroup.c). Attributes that are what the op
// makes of their default (counts, an attention's scale) are made anew for other sizes.
#include "rules/symbols.h"

#include <math.h>
#include <string.h>

#include "base/number.h"
#include "base/status.h"
#include "op/attrs.h"
#include "op/families/family.h"
#include "op/operands.h"

// ---- trying ------------------------------------------------------------------------------------

bool symbols_accepts(symbols_t *s, const int64_t *values) {
  memcpy(s->tried_types, s->types, sizeof *s->types * (size_t)s->input_count);
  for (int32_t i = 0; i < s->op->attr_count; ++i) {
    s->tried_attrs[i] = s->completed[i] ? s->op->attrs[i].fallback : s->attrs[i];
    if (s->tried_lists[i]) s->tried_attrs[i].list = s->tried_lists[i];
  }
  for (int32_t i = 0; i < s->slot_count; ++i) {
    const slot_t *slot = &s->slots[i];
    if (values[i] < 0) return false;
    if (slot->operand >= 0)
      s->tried_types[slot->operand].shape.dims[slot->dim] = values[i];
    else if (slot->entry >= 0)
      (s->tried_lists[slot->attr] ? s->tried_lists[slot->attr]
                                  : s->tried_attrs[slot->attr].ints)[slot->entry] = values[i];
    else
      s->tried_attrs[slot->attr].i = values[i];
  }
  shoal_op_complete(s->op, s->input_count, s->tried_types, s->tried_attrs);
  shoal_call_t call = {.op = s->op,
                       .input_count = s->input_count,
                       .output_count = s->operand_count - s->input_count,
                       .inputs = s->tried_types,
                       .attrs = s->tried_attrs};
  const bool silent = shoal_status_silence(true);
  shoal_status_t status = shoal_op_infer(&call, s->tried_types + s->input_count);
  shoal_status_silence(silent);
  if (shoal_status_code(status) == SHOAL_OUT_OF_MEMORY && !s->error) {
    s->error = status;
    return false;
  }
  shoal_status_free(status);
  if (status) return false;
  for (int32_t i = s->input_count; i < s->operand_count; ++i) {
    if (s->tried_types[i].shape.rank != s->types[i].shape.rank) return false;
  }
  return true;
}

const int64_t *symbols_values(symbols_t *s, const int64_t *sizes) {
  for (int32_t i = 0; i < s->slot_count; ++i) {
    const slot_t *slot = &s->slots[i];
    int64_t sum = 0;
    for (int32_t k = 0; k < slot->term_count; ++k) sum += sizes[slot->terms[k]];
    s->values[i] = slot->times * sum + slot->plus;
  }
  return s->values;
}

// ---- slots -------------------------------------------------------------------------------------

static void add_slot(symbols_t *s, int32_t operand, int32_t attr, int32_t dim, int32_t entry,
                     int64_t value) {
  s->slots[s->slot_count++] = (slot_t){.operand = operand,
                                       .attr = attr,
                                       .dim = dim,
                                       .entry = entry,
                                       .value = value,
                                       .times = 1,
                                       .plus = value};
}

// The operand that an attribute speaks of; -1 if it is not there.
static int32_t spoken_of(const symbols_t *s, int32_t attr) {
  return shoal_attr_operand(s->op, s->attrs, s->input_count, attr);
}

static void collect_slots(symbols_t *s) {
  for (int32_t i = 0; i < s->input_count; ++i) {
    const shoal_shape_t *shape = &s->types[i].shape;
    for (int32_t d = 0; d < shape->rank; ++d) add_slot(s, i, -1, d, -1, shape->dims[d]);
  }
  for (int32_t a = 0; a < s->op->attr_count; ++a) {
    const shoal_attr_schema_t *schema = &s->op->attrs[a];
    int32_t operand = spoken_of(s, a);
    if (s->completed[a] || operand < 0) continue;
    const shoal_attr_value_t *value = &s->attrs[a];
    if (schema->role == SHOAL_ROLE_POSITIONS) {
      const int32_t rank = s->types[operand].shape.rank;
      const int32_t along = shoal_normal_axis(s->attrs[schema->dim].i, rank);
      for (int32_t k = 0; k < value->count; ++k) {
        add_slot(s, -1, a, along, k, shoal_attr_list(value)[k]);
      }
    }
    if (schema->role != SHOAL_ROLE_SIZE && schema->role != SHOAL_ROLE_POSITION) continue;
    int32_t dim = schema->dim < 0 ? schema->dim + s->types[operand].shape.rank : schema->dim;
    if (schema->kind == SHOAL_ATTR_INT) add_slot(s, -1, a, dim, -1, value->i);
    for (int32_t d = 0; schema->kind == SHOAL_ATTR_INTS && d < value->count; ++d) {
      add_slot(s, -1, a, d, d, value->ints[d]);
    }
  }
}

bool symbols_is_position(const symbols_t *s, const slot_t *slot) {
  return slot->attr >= 0 && s->op->attrs[slot->attr].role == SHOAL_ROLE_POSITION;
}

int32_t symbols_add(symbols_t *s, int64_t real) {
  s->symbols[s->symbol_count] = (symbol_t){.real = real};
  return s->symbol_count++;
}

// ---- windows -----------------------------------------------------------------------------------

// Sizes along `dim` beside a position: those of the operand the position counts in, and one other.
// Returns the other, or -1 if they are not a window and what it lies in.
static int64_t window_length(const symbols_t *s, int32_t dim, int64_t outer) {
  int64_t inner = -1;
  for (int32_t i = 0; i < s->slot_count; ++i) {
    const slot_t *slot = &s->slots[i];
    if (slot->dim != dim || symbols_is_position(s, slot) || slot->value == outer) continue;
    if (inner >= 0 && slot->value != inner) return -1;
    inner = slot->value;
  }
  return inner;
}

// What lies before the window, in it and behind it are symbols, unless there is nothing.
static void find_windows(symbols_t *s) {
  for (int32_t p = 0; p < s->slot_count; ++p) {
    const slot_t at = s->slots[p];
    if (!symbols_is_position(s, &at)) continue;
    int32_t operand = spoken_of(s, at.attr);
    if (at.dim < 0 || at.dim >= s->types[operand].shape.rank) continue;
    int64_t outer = s->types[operand].shape.dims[at.dim];
    int64_t inner = window_length(s, at.dim, outer), behind = outer - at.value - inner;
    if (inner < 0 || at.value < 0 || behind < 0) continue;
    const int64_t lengths[MAX_TERMS] = {at.value, inner, behind};
    slot_t whole = {.times = 1}, parts[MAX_TERMS] = {{0}};
    for (int32_t k = 0; k < MAX_TERMS; ++k) {
      parts[k] = (slot_t){.times = 1, .plus = lengths[k]};
      // A window of one element is none that could be cut; around it, one is as good as many.
      if (lengths[k] == 0 || (k == 1 && lengths[k] == 1)) {
        whole.plus += lengths[k];
        continue;
      }
      int32_t symbol = symbols_add(s, lengths[k]);
      whole.terms[whole.term_count++] = symbol;
      parts[k] = (slot_t){.times = 1, .term_count = 1, .terms = {symbol}};
    }
    for (int32_t i = 0; i < s->slot_count; ++i) {
      slot_t *slot = &s->slots[i];
      if (slot->dim != at.dim || (symbols_is_position(s, slot) && i != p)) continue;
      const slot_t *form = i == p ? &parts[0] : slot->value == outer ? &whole : &parts[1];
      slot->windowed = true;
      slot->times = 1;
      slot->plus = form->plus;
      slot->term_count = form->term_count;
      memcpy(slot->terms, form->terms, sizeof slot->terms);
    }
  }
}

// ---- splits ------------------------------------------------------------------------------------

// Positions along one dim (role POSITIONS), and the dim itself, are multiples of one symbol where
// they have a common divisor; else they are literal.
static void find_splits(symbols_t *s) {
  for (int32_t a = 0; a < s->op->attr_count; ++a) {
    const int32_t operand = spoken_of(s, a);
    if (s->op->attrs[a].role != SHOAL_ROLE_POSITIONS || operand < 0) continue;
    const int32_t rank = s->types[operand].shape.rank;
    const int64_t dim = shoal_normal_axis(s->attrs[s->op->attrs[a].dim].i, rank);
    if (dim < 0 || dim >= rank) continue;
    int64_t unit = 0;
    for (int32_t i = 0; i < s->slot_count; ++i) {
      slot_t *slot = &s->slots[i];
      if (slot->attr != a && (slot->operand != operand || slot->dim != dim)) continue;
      slot->windowed = true;
      unit = shoal_gcd(unit, slot->value);
    }
    if (unit < 2) continue;
    const int32_t symbol = symbols_add(s, unit);
    for (int32_t i = 0; i < s->slot_count; ++i) {
      slot_t *slot = &s->slots[i];
      if (slot->attr != a && (slot->operand != operand || slot->dim != dim)) continue;
      if (slot->value == 0) continue;
      slot->times = slot->value / unit;
      slot->plus = 0;
      slot->term_count = 1;
      slot->terms[0] = symbol;
    }
  }
}

// ---- a call ------------------------------------------------------------------------------------

static bool same_value(shoal_attr_kind_t kind, const shoal_attr_value_t *a,
                       const shoal_attr_value_t *b) {
  if (kind == SHOAL_ATTR_REAL) return a->f == b->f;
  if (kind == SHOAL_ATTR_INTS) return shoal_attr_same_ints(a, b);
  return kind == SHOAL_ATTR_INT && a->i == b->i;
}

// Attributes that are what the op makes of their default: it shall make it anew.
static void find_completed(symbols_t *s, bool *completed) {
  for (int32_t a = 0; s->op->complete && a < s->op->attr_count; ++a) {
    if (!s->op->attrs[a].optional) continue;
    memcpy(s->tried_attrs, s->attrs, sizeof *s->attrs * (size_t)s->op->attr_count);
    s->tried_attrs[a] = s->op->attrs[a].fallback;
    shoal_op_complete(s->op, s->input_count, s->types, s->tried_attrs);
    completed[a] = same_value(s->op->attrs[a].kind, &s->tried_attrs[a], &s->attrs[a]);
  }
}

// What a random op draws from is no more to its rule than which numbers it draws: of its real
// attributes only whole numbers count (0 and 1 may be special), the others have a value for all.
static double real_for_all(const shoal_op_t *op, int32_t attr, double value) {
  if (!op->random || value != value || value == floor(value)) return value;
  return copysign((fabs(value) < 1 ? 0.25 : 1.25) + attr / 64.0, value);
}

bool symbols_is_stream_key(const shoal_op_t *op, int32_t attr) {
  return op->random && op->attrs[attr].kind == SHOAL_ATTR_INT &&
         op->attrs[attr].role == SHOAL_ROLE_PLAIN && strcmp(op->attrs[attr].name, "key") == 0;
}

static shoal_status_t find_types(const shoal_call_t *call, shoal_type_t *types) {
  shoal_call_t whole = *call;
  whole.inputs = types;
  whole.outputs = NULL;
  for (int32_t i = 0; i < call->input_count; ++i) {
    types[i] = call->inputs[i];
    if (call->op->kernel && shoal_dtype_is_float(types[i].dtype)) types[i].dtype = SHOAL_F64;
  }
  shoal_status_t status = shoal_op_infer(&whole, types + call->input_count);
  if (!status || shoal_status_code(status) == SHOAL_OUT_OF_MEMORY) return status;
  shoal_status_free(status);
  for (int32_t i = 0; i < call->input_count; ++i) types[i] = call->inputs[i];
  return shoal_op_infer(&whole, types + call->input_count);
}

static shoal_status_t prepare(const shoal_call_t *call, shoal_arena_t *arena, symbols_t *s) {
  const shoal_op_t *op = call->op;
  int32_t count = s->operand_count;
  int64_t slots = (int64_t)(call->input_count + op->attr_count) * SHOAL_MAX_RANK;
  s->tried_lists = SHOAL_NEW(arena, int64_t *, op->attr_count);
  if (!s->tried_lists) return SHOAL_OOM();
  for (int32_t a = 0; a < op->attr_count; ++a) {
    const shoal_attr_value_t *value = &call->attrs[a];
    if (op->attrs[a].kind != SHOAL_ATTR_INTS || value->count <= SHOAL_MAX_RANK) continue;
    slots += value->count;
    s->tried_lists[a] = shoal_arena_copy(arena, value->list, (size_t)value->count, sizeof(int64_t));
    if (!s->tried_lists[a]) return SHOAL_OOM();
  }
  shoal_type_t *types = SHOAL_NEW(arena, shoal_type_t, count);
  shoal_attr_value_t *attrs = SHOAL_NEW(arena, shoal_attr_value_t, op->attr_count);
  bool *completed = SHOAL_NEW(arena, bool, op->attr_count), *placed = SHOAL_NEW(arena, bool, count);
  s->slots = SHOAL_NEW(arena, slot_t, slots);
  s->symbols = SHOAL_NEW(arena, symbol_t, 2 * MAX_TERMS * slots);
  s->tried_types = SHOAL_NEW(arena, shoal_type_t, count);
  s->tried_attrs = SHOAL_NEW(arena, shoal_attr_value_t, op->attr_count);
  s->values = SHOAL_NEW(arena, int64_t, slots);
  s->sizes = SHOAL_NEW(arena, int64_t, MAX_TERMS * slots);
  if (!types || !attrs || !completed || !placed || !s->slots || !s->symbols || !s->tried_types ||
      !s->tried_attrs || !s->values || !s->sizes) {
    return SHOAL_OOM();
  }
  SHOAL_RETURN_IF_ERROR(find_types(call, types));
  s->types = types;
  s->attrs = attrs;
  s->completed = completed;
  s->placed = placed;
  for (int32_t a = 0; a < op->attr_count; ++a) {
    attrs[a] = call->attrs[a];
    if (symbols_is_stream_key(op, a)) attrs[a].i = 1;
    if (op->attrs[a].kind == SHOAL_ATTR_REAL) attrs[a].f = real_for_all(op, a, attrs[a].f);
  }
  for (int32_t a = 0; a < op->attr_count; ++a) {
    int32_t operand = op->attrs[a].role == SHOAL_ROLE_PLACE ? spoken_of(s, a) : -1;
    if (operand >= 0) placed[operand] = true;
  }
  find_completed(s, completed);
  return NULL;
}

// A reshape: one input, and an attribute that is the output's shape; no places, which say that
// elements are more than moved.
static bool is_reshape(const symbols_t *s) {
  bool shaped = false;
  if (s->input_count != 1 || s->operand_count != 2) return false;
  for (int32_t i = 0; i < s->op->attr_count; ++i) {
    const shoal_attr_schema_t *schema = &s->op->attrs[i];
    if (schema->role == SHOAL_ROLE_POSITION || schema->role == SHOAL_ROLE_PLACE) return false;
    bool sizes = schema->role == SHOAL_ROLE_SIZE && schema->kind == SHOAL_ATTR_INTS;
    shaped |= sizes && schema->operand == SHOAL_OUTPUT(0);
  }
  return shaped;
}

// Writes the small shapes into the slots' values; the op has to accept them.
static bool regroup(symbols_t *s) {
  shoal_shape_t in, out;
  if (!is_reshape(s) ||
      !regroup_make(&s->types[0].shape, &s->types[1].shape, &s->regroup, &in, &out)) {
    s->regroup.count = 0;
    return false;
  }
  for (int32_t i = 0; i < s->slot_count; ++i) {
    const slot_t *slot = &s->slots[i];
    s->values[i] = slot->operand >= 0 ? in.dims[slot->dim] : out.dims[slot->dim];
  }
  bool good = symbols_accepts(s, s->values) && shoal_shape_equal(&s->tried_types[1].shape, &out);
  if (!good) s->regroup.count = 0;
  return good;
}

void symbols_drop(symbols_t *s, int32_t symbol) {
  for (int32_t i = 0; i < s->slot_count; ++i) {
    slot_t *slot = &s->slots[i];
    for (int32_t k = slot->term_count - 1; k >= 0; --k) {
      if (slot->terms[k] != symbol) continue;
      slot->plus += slot->times * s->symbols[symbol].real;
      slot->terms[k] = slot->terms[--slot->term_count];
    }
  }
  int32_t kept = 0;
  for (int32_t i = 0; i < s->slid_output_count; ++i) {
    if (s->slid_outputs[i].symbol != symbol) s->slid_outputs[kept++] = s->slid_outputs[i];
  }
  s->slid_output_count = kept;
}

// Numbers the symbols in the order of the slots and forgets those that nothing is made of.
void symbols_number(symbols_t *s) {
  symbol_t *old = s->symbols + s->symbol_count;
  int32_t count = 0;
  memcpy(old, s->symbols, sizeof *old * (size_t)s->symbol_count);
  int64_t *number = s->sizes;
  for (int32_t i = 0; i < s->symbol_count; ++i) number[i] = -1;
  for (int32_t i = 0; i < s->slot_count; ++i) {
    for (int32_t k = 0; k < s->slots[i].term_count; ++k) {
      int32_t *term = &s->slots[i].terms[k];
      if (number[*term] < 0) {
        number[*term] = count;
        s->symbols[count++] = old[*term];
      }
      *term = (int32_t)number[*term];
    }
  }
  for (int32_t i = 0; i < s->slid_output_count; ++i) {
    s->slid_outputs[i].symbol = (int32_t)number[s->slid_outputs[i].symbol];
  }
  s->symbol_count = count;
}

shoal_status_t symbols_find(const shoal_call_t *call, shoal_arena_t *arena, symbols_t *out) {
  *out = (symbols_t){.op = call->op,
                     .input_count = call->input_count,
                     .operand_count = call->input_count + shoal_op_outputs(call->op, call->attrs)};
  SHOAL_RETURN_IF_ERROR(prepare(call, arena, out));
  collect_slots(out);
  bool *in = SHOAL_NEW(arena, bool, out->slot_count),
       *scratch = SHOAL_NEW(arena, bool, out->slot_count);
  if (!in || !scratch) return SHOAL_OOM();
  if (regroup(out)) return NULL;
  find_windows(out);
  find_splits(out);
  symbols_find_blocks(out, in, scratch);
  symbols_find_slides(out);
  symbols_number(out);
  return out->error;
}
