// Lifting: the ways of a probe, in the numbers of the real call.
//
// Dims, kinds and halos are the same in both. Windows are read off the real call again: a window is
// as long as its operand, and begins where an attribute says or where the operands before it end.
// Scales and repeats are products of the symbols' sizes (of a reshape's atoms), or numbers of the
// op itself (a stride). Whatever comes out has to fit the real sizes.
#include "op/operands.h"
#include "rules/symbols.h"

// The position along `dim` that an attribute gives, or -1.
static int64_t position(const symbols_t *s, const shoal_attr_value_t *attrs, int32_t attr,
                        int32_t dim) {
  const shoal_attr_schema_t *schema = &s->op->attrs[attr];
  if (schema->role != SHOAL_ROLE_POSITION) return -1;
  if (schema->kind == SHOAL_ATTR_INTS) return dim < attrs[attr].count ? attrs[attr].ints[dim] : -1;
  int32_t operand = shoal_attr_operand(s->op, attrs, s->input_count, attr);
  if (operand < 0) return -1;
  int32_t own = schema->dim < 0 ? schema->dim + s->types[operand].shape.rank : schema->dim;
  return own == dim ? attrs[attr].i : -1;
}

// Where the operand's window begins in the real call; -1 if that cannot be told.
static int64_t lift_offset(const symbols_t *s, const probe_t *probe, int32_t operand,
                           const shoal_way_operand_t *small) {
  if (s->op->variadic && operand < s->input_count && operand >= s->op->input_count - 1) {
    int64_t real = 0, at = 0;
    for (int32_t i = s->op->input_count - 1; i < operand; ++i) {
      at += probe->types[i].shape.dims[small->dim];
      real += s->types[i].shape.dims[small->dim];
    }
    return at == small->offset ? real : -1;
  }
  for (int32_t a = 0; a < s->op->attr_count; ++a) {
    const int32_t entry = operand - s->input_count;  // an output that begins at one of several
    if (s->op->attrs[a].role == SHOAL_ROLE_POSITIONS && entry >= 0 && entry < s->attrs[a].count &&
        shoal_attr_list(&probe->call.attrs[a])[entry] == small->offset)
      return shoal_attr_list(&s->attrs[a])[entry];
    if (position(s, probe->call.attrs, a, small->dim) == small->offset)
      return position(s, s->attrs, a, small->dim);
  }
  return -1;
}

// A number as a product of sizes that symbols have in the probe.
static int64_t lift_product(const symbols_t *s, const probe_t *probe, int64_t small) {
  int64_t real = 1;
  for (int32_t i = 0; i < s->symbol_count; ++i) {
    while (probe->sizes[i] > 1 && small % probe->sizes[i] == 0) {
      small /= probe->sizes[i];
      if (__builtin_mul_overflow(real, s->symbols[i].real, &real)) return 0;
    }
  }
  return __builtin_mul_overflow(real, small, &real) ? 0 : real;
}

static lifted_t lift_operand(const symbols_t *s, const probe_t *probe, int32_t operand,
                             bool products, const shoal_way_operand_t *small,
                             shoal_way_operand_t *out) {
  *out = *small;
  if (small->kind != SHOAL_OPERAND_CUT) return LIFTED;
  if (s->regroup.count) {
    uint32_t crossed = operand ? s->regroup.crossed_out : s->regroup.crossed_in;
    if (crossed >> small->dim & 1) return LIFTED_DROPPED;
    out->scale = regroup_lift(&s->regroup, small->scale);
    out->repeat = regroup_lift(&s->regroup, small->repeat);
    return out->scale && out->repeat ? LIFTED : LIFTED_UNCLEAR;
  }
  if (products) {
    out->scale = lift_product(s, probe, small->scale);
    out->repeat = lift_product(s, probe, small->repeat);
    if (!out->scale || !out->repeat) return LIFTED_UNCLEAR;
  }
  if (small->length == 0) return LIFTED;
  out->offset = lift_offset(s, probe, operand, small);
  out->length = s->types[operand].shape.dims[small->dim];
  bool own = small->length == probe->types[operand].shape.dims[small->dim];
  return out->offset >= 0 && own ? LIFTED : LIFTED_UNCLEAR;
}

// Items of the real call, as an operand shows them that is cut into them evenly; -1 if two
// disagree.
static int64_t real_items(const symbols_t *s, const shoal_way_operand_t *operands, bool plain) {
  int64_t items = 0;
  for (int32_t i = 0; i < s->operand_count; ++i) {
    const shoal_way_operand_t *o = &operands[i];
    if (o->kind != SHOAL_OPERAND_CUT || o->dealt_by_items || o->length) continue;
    int64_t each = o->scale * o->repeat, length = s->types[i].shape.dims[o->dim];
    if ((each == 1) != plain) continue;
    if (length % each || (items && items != length / each)) return -1;
    items = length / each;
  }
  return items;
}

// Do the lifted numbers fit the real sizes? A stride leaves over as many elements in both calls:
// sizes of the probe that only happen to be alike say nothing.
static bool fits(const symbols_t *s, const probe_t *probe, const shoal_way_t *way, int64_t items,
                 int32_t operand, shoal_way_operand_t *o) {
  int64_t length = s->types[operand].shape.dims[o->dim];
  int64_t each = o->scale * o->repeat, window = o->length ? o->length : items;
  bool even = length % each == 0 && length / each == window;
  if (o->length || o->repeat > 1) return even;
  if (s->slides) o->dealt_by_items = !even;
  if (!o->dealt_by_items) return even;
  int64_t rest = probe->types[operand].shape.dims[o->dim] - way->items * o->scale;
  return length - items * o->scale == rest;
}

static lifted_t lift_with(const symbols_t *s, const probe_t *probe, bool products,
                          const shoal_way_t *way, shoal_way_operand_t *out_operands,
                          int64_t *out_items) {
  for (int32_t i = 0; i < s->operand_count; ++i) {
    lifted_t lifted = lift_operand(s, probe, i, products, &way->operands[i], &out_operands[i]);
    if (lifted != LIFTED) return lifted;
  }
  int64_t items = way->items ? real_items(s, out_operands, true) : 0;
  if (way->items && !items) items = real_items(s, out_operands, false);
  if (items < 0 || (way->items && !items)) return LIFTED_UNCLEAR;
  for (int32_t i = 0; i < s->operand_count; ++i) {
    if (out_operands[i].kind != SHOAL_OPERAND_CUT) continue;
    if (!fits(s, probe, way, items, i, &out_operands[i])) return LIFTED_UNCLEAR;
  }
  *out_items = items;
  return LIFTED;
}

lifted_t lift_way(const symbols_t *s, const probe_t *probe, const shoal_way_t *way,
                  shoal_way_operand_t *out_operands, int64_t *out_items) {
  lifted_t lifted = lift_with(s, probe, !s->slides, way, out_operands, out_items);
  if (lifted != LIFTED_UNCLEAR || s->regroup.count) return lifted;
  return lift_with(s, probe, s->slides, way, out_operands, out_items);
}
