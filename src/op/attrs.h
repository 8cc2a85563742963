// Values of attributes, as wholes.
#ifndef SHOAL_OP_ATTRS_H_
#define SHOAL_OP_ATTRS_H_

#include "shoal/op.h"

// A copy that owns what it points to, but for places. NULL when memory is short.
shoal_attr_value_t *shoal_attrs_copy(const shoal_op_t *op, const shoal_attr_value_t *attrs,
                                     shoal_arena_t *arena);
// The layout that an op of these attributes gives its output (shoal_op_t.constrains); NULL: it says
// nothing.
const char *shoal_op_constraint(const shoal_op_t *op, const shoal_attr_value_t *attrs);
// Of two INTS.
bool shoal_attr_same_ints(const shoal_attr_value_t *a, const shoal_attr_value_t *b);

#endif  // SHOAL_OP_ATTRS_H_
