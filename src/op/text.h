// Printed forms of what ops speak of, out and in: types "f32[64, 784]", integer lists "[2, 3]",
// attribute lists "{axis=1, shape=[2, 3]}". Models, programs, examples and random cases all write
// them this way.
//
// Readers return false once the scan has an error, with line and column; what they have read is not
// used then. Text speaks of the whole: a place has no printed form.
#ifndef SHOAL_OP_TEXT_H_
#define SHOAL_OP_TEXT_H_

#include "base/text.h"
#include "shoal/op.h"

void shoal_text_add_type(shoal_text_t *text, const shoal_type_t *type);
// " {axis=1, shape=[2, 3]}": attributes that have their default are left out, and if all have it
// nothing is added. UNSUPPORTED if one is a place that speaks of a part.
SHOAL_MUST_USE shoal_status_t shoal_text_add_attrs(shoal_text_t *text, const shoal_op_t *op,
                                                   const shoal_attr_value_t *attrs);

bool shoal_scan_type(shoal_scan_t *scan, shoal_type_t *out_type);  // it has passed shoal_type_check
// A list between `open` and `close` ("{" and "}"; "" to close: up to what is no ','), or nothing,
// which is the empty list. Values in schema order, defaults filled in, as shoal_op_attrs gives
// them; in the arena.
bool shoal_scan_attrs(shoal_scan_t *scan, const char *open, const char *close, const shoal_op_t *op,
                      shoal_arena_t *arena, shoal_attr_value_t **out_values);

#endif  // SHOAL_OP_TEXT_H_
