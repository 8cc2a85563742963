// Uses of ops in random cases: what the files that draw them share.
//   generate_ops.c        which op is next; generators.inc says which have a use of their own
//   generate_wire.c       what goes into a node: values at hand that are made to fit, or fresh ones
//   generate_pointwise.c, generate_shapes.c, generate_heavy.c    uses of some ops
//   generate_record.c     a use of any op, from the examples of its record
#ifndef SHOAL_EXPLORE_GENERATORS_H_
#define SHOAL_EXPLORE_GENERATORS_H_

#include "explore/generate.h"

#define TEXT(...) shoal_arena_printf(g->arena, __VA_ARGS__)
// Adds a node on the refs behind `out`; false if there is none.
#define NODE(op, bound, attrs, out, ...)                                                \
  shoal_generate_node(g, op, (int32_t)(sizeof((ref_t[]){__VA_ARGS__}) / sizeof(ref_t)), \
                      (ref_t[]){__VA_ARGS__}, attrs, bound, out)

// ---- what goes into a node ---------------------------------------------------------------------

shoal_shape_t shoal_generate_shape(const shoal_generator_t *g, shoal_case_ref_t x);
// The value with magnitudes below 4: products and exponentials must not run away.
shoal_case_ref_t shoal_generate_tame(shoal_generator_t *g, shoal_case_ref_t x);
// A tame value of so many dims.
shoal_case_ref_t shoal_generate_some(shoal_generator_t *g, int32_t least, int32_t most);
// x^2 + 1/2: for logarithms and denominators.
shoal_case_ref_t shoal_generate_positive(shoal_generator_t *g, shoal_case_ref_t x);
// A shape that broadcasts to `shape`; and something to go with x in an element-wise op.
shoal_shape_t shoal_generate_broadcastable(shoal_generator_t *g, const shoal_shape_t *shape);
shoal_case_ref_t shoal_generate_partner(shoal_generator_t *g, shoal_case_ref_t x);
// Indices below `limit`, of any integer type that has room for them.
shoal_case_ref_t shoal_generate_indices(shoal_generator_t *g, const shoal_shape_t *shape,
                                        int64_t limit);
// Does what ref stands for change when a state is trained? Then whoever reads it must have a
// gradient.
bool shoal_generate_is_trained(const shoal_generator_t *g, shoal_case_ref_t ref);
// A trained value of that shape, in the case's type: a state, a value at hand that is reshaped or
// sliced, a sum over a state's last dim (which can be had unreduced).
shoal_case_ref_t shoal_generate_trained(shoal_generator_t *g, const shoal_shape_t *shape);

// ---- uses of ops -------------------------------------------------------------------------------

#define SHOAL_GENERATE(op, function) void shoal_use_##function(shoal_generator_t *, const char *);
#include "explore/generators.inc"
#undef SHOAL_GENERATE

// Any op, as an example of its record has it: mostly with other sizes, in the case's type where it
// can be. Float inputs are trained where the op has a gradient, and what it makes is used: false if
// nothing came of it.
bool shoal_generate_from_record(shoal_generator_t *g, const shoal_op_t *op);

#endif  // SHOAL_EXPLORE_GENERATORS_H_
