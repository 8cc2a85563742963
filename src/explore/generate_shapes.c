// Uses of ops that move elements: reshape, transpose, slice, pad, concat, broadcast.
#include <string.h>

#include "explore/generators.h"

typedef shoal_case_ref_t ref_t;
typedef shoal_generator_t gen_t;

void shoal_use_reshape(gen_t *g, const char *op) {
  ref_t x = shoal_generate_value(g, 1, 4), out;
  shoal_shape_t from = shoal_generate_shape(g, x), to = {0};
  int32_t merge = from.rank > 1 && shoal_chance(g, 65) ? (int32_t)shoal_roll(g, from.rank - 1) : -1;
  bool split = merge < 0 || shoal_chance(g, 30);
  for (int32_t d = 0; d < from.rank; ++d) {
    int64_t size = from.dims[d];
    if (d == merge) size *= from.dims[++d];
    int64_t factor = size % 2 == 0 ? 2 : size % 3 == 0 ? 3 : 1;
    if (size == 8 && shoal_chance(g, 50)) factor = 4;
    if (size == 6 && shoal_chance(g, 50)) factor = 3;
    if (split && factor > 1 && to.rank < 5 && shoal_chance(g, 60)) {
      to.dims[to.rank++] = size / factor;
      to.dims[to.rank++] = factor;
    } else {
      to.dims[to.rank++] = size;
    }
  }
  NODE(op, shoal_generate_bound(g, x), TEXT("shape=%s", shoal_ints_text(g, to.rank, to.dims)), &out,
       x);
}

void shoal_use_transpose(gen_t *g, const char *op) {
  ref_t x = shoal_generate_value(g, 2, 4), out;
  int32_t rank = shoal_generate_shape(g, x).rank;
  int64_t perm[SHOAL_MAX_RANK];
  for (int32_t d = 0; d < rank; ++d) {
    int64_t at = shoal_roll(g, d + 1);
    if (at != d) perm[d] = perm[at];
    perm[at] = d;
  }
  NODE(op, shoal_generate_bound(g, x), TEXT("perm=%s", shoal_ints_text(g, rank, perm)), &out, x);
}

// A slice, or a pad: the same numbers read the other way.
void shoal_use_window(gen_t *g, const char *op) {
  ref_t x = shoal_generate_value(g, 1, 4), out;
  shoal_shape_t shape = shoal_generate_shape(g, x), start = {.rank = shape.rank}, size = shape;
  bool slice = strcmp(op, "slice") == 0;
  for (int32_t d = 0; d < shape.rank; ++d) {
    if (shoal_chance(g, 50)) continue;
    start.dims[d] = shoal_roll(g, slice ? shape.dims[d] : 3);
    size.dims[d] = slice ? 1 + shoal_roll(g, shape.dims[d] - start.dims[d])
                         : shape.dims[d] + start.dims[d] + shoal_roll(g, 3);
  }
  NODE(op, shoal_generate_bound(g, x),
       TEXT("start=%s, %s=%s", shoal_ints_text(g, start.rank, start.dims), slice ? "size" : "shape",
            shoal_ints_text(g, size.rank, size.dims)),
       &out, x);
}

void shoal_use_concat(gen_t *g, const char *op) {
  ref_t refs[3], out;
  refs[0] = shoal_generate_value(g, 1, 4);
  shoal_shape_t shape = shoal_generate_shape(g, refs[0]);
  int32_t axis = (int32_t)shoal_roll(g, shape.rank), count = 2 + shoal_chance(g, 40);
  double bound = shoal_generate_bound(g, refs[0]);
  for (int32_t i = 1; i < count; ++i) {
    shape.dims[axis] = shoal_chance(g, 40) ? shape.dims[axis] : shoal_roll_size(g);
    refs[i] = shoal_chance(g, 25) ? refs[0] : shoal_generate_fresh(g, &shape);
  }
  shoal_generate_node(g, op, count, refs, TEXT("axis=%d", axis), bound, &out);
}

void shoal_use_broadcast(gen_t *g, const char *op) {
  ref_t x = shoal_generate_value(g, 0, 3), out;
  shoal_shape_t from = shoal_generate_shape(g, x),
                to = {.rank = from.rank + 1, .dims = {shoal_roll_size(g)}};
  for (int32_t d = 0; d < from.rank; ++d)
    to.dims[d + 1] = from.dims[d] == 1 ? shoal_roll_size(g) : from.dims[d];
  NODE(op, shoal_generate_bound(g, x), TEXT("shape=%s", shoal_ints_text(g, to.rank, to.dims)), &out,
       x);
}
