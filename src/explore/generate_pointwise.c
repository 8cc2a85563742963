// Uses of ops that work element by element, of reductions and of what makes values from nothing.
#include <math.h>
#include <string.h>

#include "explore/generators.h"

typedef shoal_case_ref_t ref_t;
typedef shoal_generator_t gen_t;

// Integers of both signs, through a few ops, to a float.
static void integers(gen_t *g, const shoal_shape_t *shape) {
  static const char *const binary[] = {"add", "sub", "mul", "maximum", "minimum"};
  static const char *const reductions[] = {"reduce_sum", "reduce_max", "reduce_min"};
  const shoal_case_input_t input = {.type = {shoal_chance(g, 50) ? SHOAL_I32 : SHOAL_I64, *shape},
                                    .magnitude = 4};
  ref_t x = shoal_generate_input(g, &input), out;
  double bound = 4;
  if (shoal_chance(g, 40) &&
      NODE(binary[shoal_roll(g, 5)], bound * bound, "", &out, x, shoal_generate_input(g, &input)))
    x = out, bound *= bound;
  if (shape->rank > 0 && shoal_chance(g, 50)) {
    const long long dim = (long long)shoal_roll(g, shape->rank);
    const double size = (double)shape->dims[dim];
    if (NODE(reductions[shoal_roll(g, 3)], bound * size, TEXT("dims=[%lld], keep=0", dim), &out, x))
      x = out, bound *= size;
  }
  NODE("cast", bound, TEXT("dtype=%s", shoal_dtype_name(g->dtype)), &out, x);
}

void shoal_use_unary(gen_t *g, const char *op) {
  ref_t x = shoal_generate_some(g, 0, 4), out;
  double bound = shoal_generate_bound(g, x);
  if (strcmp(op, "exp") == 0) bound = exp(bound);
  if (strcmp(op, "square") == 0) bound = bound * bound;
  if (strcmp(op, "tanh") == 0) bound = 1;
  if (strcmp(op, "log") == 0 || strcmp(op, "sqrt") == 0)
    x = shoal_generate_positive(g, x), bound = bound + 1;
  bool affine = strcmp(op, "affine") == 0;
  NODE(op, affine ? 1.5 * bound + 0.3 : bound, affine ? "scale=1.5, shift=-0.3" : "", &out, x);
}

void shoal_use_binary(gen_t *g, const char *op) {
  ref_t a = shoal_generate_some(g, 0, 4), b = shoal_generate_partner(g, a), out;
  double bound = shoal_generate_bound(g, a) + shoal_generate_bound(g, b);
  if (strcmp(op, "mul") == 0) bound = shoal_generate_bound(g, a) * shoal_generate_bound(g, b);
  if (shoal_chance(g, 30)) {
    ref_t swap = a;
    a = b, b = swap;
  }
  if (strcmp(op, "div") == 0)
    b = shoal_generate_positive(g, b), bound = 2 * shoal_generate_bound(g, a);
  NODE(op, bound, "", &out, a, b);
}

void shoal_use_choice(gen_t *g, const char *op) {
  ref_t a = shoal_generate_some(g, 0, 4), b = shoal_generate_partner(g, a), condition, out;
  if (strcmp(op, "equal") == 0) {
    shoal_shape_t shape = shoal_generate_shape(g, a),
                  wider = shoal_generate_broadcastable(g, &shape);
    ref_t x = shoal_generate_indices(g, &shape, 3), y = shoal_generate_indices(g, &wider, 3);
    if (!NODE("equal", 1, "", &condition, x, y)) return;
  } else if (!NODE("greater_equal", 1, "", &condition, a, b)) {
    return;
  }
  if (shoal_chance(g, 85))
    NODE("where", shoal_generate_bound(g, a) + shoal_generate_bound(g, b), "", &out, condition, b,
         a);
}

void shoal_use_cast(gen_t *g, const char *op) {
  ref_t x = shoal_generate_some(g, 0, 4), narrow, out;
  const char *there = g->dtype == SHOAL_F64 ? "f32" : g->dtype == SHOAL_F32 ? "bf16" : "f32";
  const char *back = shoal_dtype_name(g->dtype);
  // Types for storage have so few digits that the next number is far: only of numbers that agree in
  // all of theirs.
  gen_t aside = *g;  // dice of its own: other casts are what they were
  aside.state = ~g->state;
  const bool scarce = shoal_coverage_count(g->coverage, "feature", "f8 cast") < 3;
  if (g->dtype == SHOAL_F64 && shoal_chance(&aside, scarce ? 80 : 20))
    there = shoal_chance(&aside, 50) ? "f8_e4m3" : "f8_e5m2";
  if (shoal_chance(g, 40)) {
    shoal_shape_t shape = shoal_generate_shape(g, x);
    integers(g, &shape);
  } else if (NODE(op, shoal_generate_bound(g, x), TEXT("dtype=%s", there), &narrow, x)) {
    NODE(op, shoal_generate_bound(g, x), TEXT("dtype=%s", back), &out, narrow);
  }
}

void shoal_use_reduce(gen_t *g, const char *op) {
  ref_t x = shoal_generate_some(g, 1, 4), out;
  shoal_shape_t shape = shoal_generate_shape(g, x);
  int64_t dims[SHOAL_MAX_RANK];
  int32_t count = 0;
  double summed = 1;
  for (int32_t d = 0; d < shape.rank; ++d)
    if (shoal_chance(g, 45)) dims[count++] = d, summed *= (double)shape.dims[d];
  if (count == 0) dims[count++] = shoal_roll(g, shape.rank), summed = 9;
  bool sum = strcmp(op, "reduce_sum") == 0;
  NODE(op, (sum ? summed : 1) * shoal_generate_bound(g, x),
       TEXT("dims=%s, keep=%d", shoal_ints_text(g, count, dims), shoal_chance(g, 30)), &out, x);
}

// Values from nothing, added to what is there.
void shoal_use_source(gen_t *g, const char *op) {
  ref_t x = shoal_generate_some(g, 1, 4), made, out;
  shoal_shape_t shape = shoal_generate_shape(g, x);
  const char *sizes = shoal_ints_text(g, shape.rank, shape.dims),
             *dtype = shoal_dtype_name(g->dtype);
  bool ok;
  if (strcmp(op, "full") == 0) {
    ok = shoal_generate_node(g, op, 0, NULL, TEXT("shape=%s, value=0.75, dtype=%s", sizes, dtype),
                             1, &made);
  } else if (strcmp(op, "iota") == 0) {
    ok = shoal_generate_node(
        g, op, 0, NULL,
        TEXT("shape=%s, axis=%lld, dtype=%s", sizes, (long long)shoal_roll(g, shape.rank), dtype),
        9, &made);
  } else {
    bool normal = strcmp(op, "random_normal") == 0;
    ok = NODE(op, 4,
              TEXT("shape=%s, key=%lld, dtype=%s, %s", sizes, (long long)shoal_roll(g, 1000), dtype,
                   normal ? "mean=0, std=1" : "low=-1, high=2"),
              &made, {.kind = 'n'});
  }
  if (ok)
    NODE("add", shoal_generate_bound(g, x) + shoal_generate_bound(g, made), "", &out, x, made);
}

void shoal_use_dropout(gen_t *g, const char *op) {
  ref_t x = shoal_generate_some(g, 1, 4), out;
  NODE(op, 2 * shoal_generate_bound(g, x), TEXT("p=0.4, key=%lld", (long long)shoal_roll(g, 1000)),
       &out, x, {.kind = 'n'});
}
