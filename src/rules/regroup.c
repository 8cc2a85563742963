// Probes of reshapes. A reshape reads its elements in one order and writes them in the same:
// its dims, of the input and of the output, are groups of neighbours in one list of *atoms* (the
// common refinement of both shapes: [15, 2, 10] and [5, 60] have the atoms 5, 3, 2, 10). Atoms
// become distinct primes; a number of items, a scale or a repeat that is found is a product of some
// of them, and its factors tell which. Dims that cross ([6, 4] and [4, 6]) have no such refinement:
// they are merged into one atom, and ways that cut it are left out.
#include "rules/symbols.h"

static const int64_t PRIMES[] = {3, 5, 7, 11, 13, 17, 19};
enum { PRIME_COUNT = sizeof PRIMES / sizeof *PRIMES };

// A walk over one shape: the dim it is in, and how many elements lie before its end.
typedef struct side {
  const shoal_shape_t *shape;
  shoal_shape_t *small;
  int32_t dim;
  int64_t end;
} side_t;

// To the next dim longer than 1; false behind the last.
static bool next_dim(side_t *side) {
  while (++side->dim < side->shape->rank && side->shape->dims[side->dim] == 1) {
  }
  if (side->dim >= side->shape->rank) return false;
  side->end *= side->shape->dims[side->dim];
  return true;
}

typedef struct builder {
  regroup_t *regroup;
  side_t a, b;
  int64_t done;  // elements before the atom to come
} builder_t;

// Takes the next atom, up to where either side's dim ends. Both sides go on behind it.
static void take_atom(builder_t *x, bool *more_a, bool *more_b) {
  regroup_t *r = x->regroup;
  int64_t end = x->a.end < x->b.end ? x->a.end : x->b.end;
  r->real[r->count] = end / x->done;
  r->small[r->count] = PRIMES[r->count];
  x->a.small->dims[x->a.dim] *= PRIMES[r->count];
  x->b.small->dims[x->b.dim] *= PRIMES[r->count];
  ++r->count;
  x->done = end;
  if (x->a.end == end) *more_a = next_dim(&x->a);
  if (x->b.end == end) *more_b = next_dim(&x->b);
}

// Merges dims until both sides end at the same place.
static void take_crossing(builder_t *x, bool *more_a, bool *more_b) {
  regroup_t *r = x->regroup;
  int32_t first_a = x->a.dim, first_b = x->b.dim;
  r->crossed_in |= 1u << first_a;
  r->crossed_out |= 1u << first_b;
  while (x->a.end != x->b.end) {
    side_t *behind = x->a.end < x->b.end ? &x->a : &x->b;
    if (!next_dim(behind)) break;  // cannot be: the counts are equal
  }
  r->real[r->count] = x->a.end / x->done;
  r->small[r->count] = PRIMES[r->count];
  x->a.small->dims[first_a] *= PRIMES[r->count];
  x->b.small->dims[first_b] *= PRIMES[r->count];
  ++r->count;
  x->done = x->a.end;
  *more_a = next_dim(&x->a);
  *more_b = next_dim(&x->b);
}

// From here on to where both sides end together: does every dim end divide the next?
static bool is_refinable(builder_t x) {
  int64_t last = x.done;
  for (;;) {
    int64_t end = x.a.end < x.b.end ? x.a.end : x.b.end;
    if (end % last) return false;
    if (x.a.end == x.b.end) return true;
    last = end;
    if (!next_dim(x.a.end < x.b.end ? &x.a : &x.b)) return true;
  }
}

bool regroup_make(const shoal_shape_t *in, const shoal_shape_t *out, regroup_t *regroup,
                  shoal_shape_t *small_in, shoal_shape_t *small_out) {
  *regroup = (regroup_t){0};
  *small_in = (shoal_shape_t){.rank = in->rank};
  *small_out = (shoal_shape_t){.rank = out->rank};
  for (int32_t d = 0; d < in->rank; ++d) small_in->dims[d] = 1;
  for (int32_t d = 0; d < out->rank; ++d) small_out->dims[d] = 1;
  if (shoal_shape_count(in) != shoal_shape_count(out) || shoal_shape_count(in) < 2) return false;
  builder_t x = {regroup, {in, small_in, -1, 1}, {out, small_out, -1, 1}, 1};
  bool more_a = next_dim(&x.a), more_b = next_dim(&x.b), together = true, refinable = true;
  while (more_a && more_b) {
    if (regroup->count == PRIME_COUNT) return false;
    if (together) refinable = is_refinable(x);
    if (refinable)
      take_atom(&x, &more_a, &more_b);
    else
      take_crossing(&x, &more_a, &more_b);
    // A new group begins where the atom ended both dims.
    together = more_a && more_b && x.a.end / in->dims[x.a.dim] == x.done &&
               x.b.end / out->dims[x.b.dim] == x.done;
  }
  return !more_a && !more_b;
}

int64_t regroup_lift(const regroup_t *regroup, int64_t small) {
  int64_t real = 1;
  for (int32_t i = 0; i < regroup->count; ++i) {
    if (small % regroup->small[i]) continue;
    small /= regroup->small[i];
    real *= regroup->real[i];
  }
  return small == 1 ? real : 0;
}
