// What goes into a node that is drawn: a value at hand that is made to fit, or a fresh one.
#include "explore/generators.h"

typedef shoal_case_ref_t ref_t;
typedef shoal_generator_t gen_t;

// The value with magnitudes below 4: products and exponentials must not run away.
ref_t shoal_generate_tame(gen_t *g, ref_t x) {
  ref_t out = x;
  double bound = shoal_generate_bound(g, x);
  if (bound <= 4) return x;
  if (shoal_chance(g, 50))
    NODE("tanh", 1, "", &out, x);
  else
    NODE("affine", 2, TEXT("scale=%.3g, shift=0", 2 / bound), &out, x);
  return out;
}

ref_t shoal_generate_some(gen_t *g, int32_t least, int32_t most) {
  return shoal_generate_tame(g, shoal_generate_value(g, least, most));
}

shoal_shape_t shoal_generate_shape(const gen_t *g, ref_t x) {
  return shoal_generate_type(g, x).shape;
}

// x^2 + 1/2: for logarithms and denominators.
ref_t shoal_generate_positive(gen_t *g, ref_t x) {
  ref_t square, out = x;
  double bound = shoal_generate_bound(g, x);
  if (NODE("square", bound * bound, "", &square, x))
    NODE("affine", bound * bound + 1, "scale=1, shift=0.5", &out, square);
  return out;
}

// A shape that broadcasts to `shape`.
shoal_shape_t shoal_generate_broadcastable(gen_t *g, const shoal_shape_t *shape) {
  int32_t drop = shoal_chance(g, 50) ? (int32_t)shoal_roll(g, shape->rank + 1) : 0;
  shoal_shape_t out = {.rank = shape->rank - drop};
  for (int32_t d = 0; d < out.rank; ++d)
    out.dims[d] = shoal_chance(g, 20) ? 1 : shape->dims[d + drop];
  return out;
}

// Something to go with x in an element-wise op.
ref_t shoal_generate_partner(gen_t *g, ref_t x) {
  shoal_shape_t shape = shoal_generate_shape(g, x);
  for (int i = 0; i < 4; ++i) {
    ref_t y = shoal_generate_value(g, 0, 4);
    shoal_shape_t other = shoal_generate_shape(g, y);
    if (shoal_shape_equal(&shape, &other) && shoal_generate_bound(g, y) <= 4) return y;
  }
  shape = shoal_generate_broadcastable(g, &shape);
  return shoal_generate_fresh(g, &shape);
}

// Of any integer type that has room for them.
ref_t shoal_generate_indices(gen_t *g, const shoal_shape_t *shape, int64_t limit) {
  static const shoal_dtype_t dtypes[] = {SHOAL_I32, SHOAL_I32, SHOAL_I64, SHOAL_U8};
  return shoal_generate_input(
      g, &(shoal_case_input_t){.type = {dtypes[shoal_roll(g, 4)], *shape}, .limit = limit});
}

// ---- trained values -----------------------------------------------------------------------------

bool shoal_generate_is_trained(const gen_t *g, ref_t ref) {
  if (ref.kind != 'v') return ref.kind == 's';
  const shoal_case_node_t *node = &g->c->nodes.items[ref.index];
  for (int32_t r = 0; r < node->ref_count; ++r)
    if (shoal_generate_is_trained(g, node->refs[r])) return true;
  return false;
}

// The value in another shape, if it has enough elements; false otherwise.
static bool fit(gen_t *g, ref_t x, const shoal_shape_t *shape, ref_t *out_ref) {
  const shoal_shape_t from = shoal_generate_shape(g, x);
  const int64_t have = shoal_shape_count(&from), want = shoal_shape_count(shape);
  const double bound = shoal_generate_bound(g, x);
  *out_ref = x;
  if (shoal_shape_equal(&from, shape)) return true;
  bool inside = from.rank == shape->rank && from.rank > 0;
  for (int32_t d = 0; d < from.rank && inside; ++d) inside = from.dims[d] >= shape->dims[d];
  if (inside) {
    shoal_shape_t start = {.rank = from.rank};
    for (int32_t d = 0; d < from.rank; ++d)
      start.dims[d] = shoal_roll(g, from.dims[d] - shape->dims[d] + 1);
    return NODE("slice", bound,
                TEXT("start=%s, size=%s", shoal_ints_text(g, start.rank, start.dims),
                     shoal_ints_text(g, shape->rank, shape->dims)),
                out_ref, x);
  }
  if (have < want || have > 4 * want || want == 0) return false;
  if (have > want) {
    ref_t flat = x;
    if (from.rank != 1 && !NODE("reshape", bound, TEXT("shape=[%lld]", (long long)have), &flat, x))
      return false;
    if (!NODE("slice", bound, TEXT("start=[0], size=[%lld]", (long long)want), &x, flat))
      return false;
    *out_ref = x;
    if (shape->rank == 1) return true;
  }
  return NODE("reshape", bound, TEXT("shape=%s", shoal_ints_text(g, shape->rank, shape->dims)),
              out_ref, x);
}

// A sum over the last dim of a state: a product with a vector.
static bool contract(gen_t *g, const shoal_shape_t *shape, ref_t *out_ref) {
  static const char letters[] = "abcdefg";
  if (shape->rank > 6) return false;
  shoal_shape_t longer = *shape;
  const int64_t terms = 2 + shoal_roll(g, 2);
  longer.dims[longer.rank++] = terms;
  const shoal_shape_t row = {.rank = 1, .dims = {terms}};
  const ref_t a = shoal_generate_state(g, &longer), b = shoal_generate_fresh(g, &row);
  return NODE("einsum", (double)terms,
              TEXT("equation=\"%.*sz,z->%.*s\"", shape->rank, letters, shape->rank, letters),
              out_ref, a, b);
}

ref_t shoal_generate_trained(gen_t *g, const shoal_shape_t *shape) {
  ref_t out;
  for (int i = 0; i < 3 && shoal_chance(g, 60); ++i) {
    const ref_t x = shoal_generate_value(g, 0, 5);
    if (!shoal_generate_is_trained(g, x)) continue;
    if (fit(g, shoal_generate_tame(g, x), shape, &out)) return out;
  }
  if (shoal_chance(g, 35) && contract(g, shape, &out)) return out;
  return shoal_generate_state(g, shape);
}
