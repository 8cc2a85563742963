// Rotary position embedding of x [.., T, D]: pairs of elements turn by an angle that grows with the
// position. With n = dims (all of D by default) and pair i < n / 2 at position t,
//   angle = t base^(-2 i / n),  (a, b) -> (a cos - b sin, b cos + a sin)
// A pair is the elements i and i + n / 2, or 2 i and 2 i + 1 if interleaved; those behind n stay.
// Positions are the indices along T, or given: [T], or [x's first dim, T]. The inverse turns back,
// which is also the gradient.
// For texts longer than a model was trained on, pairs turn `factor` times slower: all of them, or
// with `original`, the context of training, those that turn less than `low` times in it; pairs that
// turn `high` times or more keep their rate, and between the two it goes over linearly (Llama 3.1).
#ifndef KERNELS_HERE
#include "op/families/emit.h"
#include "op/families/kernel.h"

enum { BASE, FACTOR, LOW, HIGH, DIMS, ORIGINAL, INTERLEAVED, INVERSE, PLACE };
enum { X, POSITIONS };

// By how much pair i turns from one position to the next.
static double rate_of(const shoal_call_t *call, int64_t i) {
  const shoal_attr_value_t *a = call->attrs;
  const double rate = pow(a[BASE].f, -2.0 * (double)i / (double)a[DIMS].i), slow = 1 / a[FACTOR].f;
  if (a[ORIGINAL].i <= 0) return rate * slow;
  const double turns = (double)a[ORIGINAL].i * rate / (2 * acos(-1));
  const double kept = fmin(1, fmax(0, (turns - a[LOW].f) / (a[HIGH].f - a[LOW].f)));
  return rate * (kept + (1 - kept) * slow);
}

#define EACH EACH_REAL
#define KERNELS "op/families/rotary.c"
#include "op/families/each.h"

static void rotary_complete(const shoal_call_t *call, shoal_attr_value_t *attrs) {
  const shoal_shape_t *x = &call->inputs[X].shape;
  if (attrs[DIMS].i <= 0 && x->rank > 0) attrs[DIMS].i = x->dims[x->rank - 1];
}

static shoal_status_t rotary_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_shape_t *x = &call->inputs[X].shape;
  const int32_t rank = x->rank, positions = GIVEN(call, POSITIONS);
  const int64_t dims = call->attrs[DIMS].i;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, X, 1));
  REQUIRE(call, rank >= 2, "x needs a dim of positions and one of elements, and has %d", rank);
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, PLACE, x, &place));
  REQUIRE(call, x->dims[rank - 1] == place.whole.dims[rank - 1],
          "a part needs all elements of the last dim");
  REQUIRE(call, dims % 2 == 0 && dims >= 0 && dims <= x->dims[rank - 1],
          "dims is %lld: it must be even and at most %lld", (long long)dims,
          (long long)x->dims[rank - 1]);
  REQUIRE(call, call->attrs[BASE].f > 0, "base is %g: it must be above 0", call->attrs[BASE].f);
  REQUIRE(call, call->attrs[FACTOR].f > 0, "factor is %g: it must be above 0",
          call->attrs[FACTOR].f);
  REQUIRE(call, call->attrs[ORIGINAL].i <= 0 || call->attrs[HIGH].f > call->attrs[LOW].f,
          "high is %g: it must be above low, %g", call->attrs[HIGH].f, call->attrs[LOW].f);
  out_types[0] = call->inputs[X];
  if (positions < 0) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, positions));
  shoal_shape_t rows = SHOAL_SHAPE(x->dims[rank - 2]);
  if (call->inputs[positions].shape.rank == 2) rows = SHOAL_SHAPE(x->dims[0], x->dims[rank - 2]);
  REQUIRE(call, rows.rank == 1 || rank >= 3, "positions for each of x's first dim need three dims");
  return shoal_check_shape(call, positions, &rows);
}

// The position of row r of x, which has T rows in each of `outer` blocks.
static double position_of(const shoal_call_t *call, const shoal_tensor_t *inputs, int64_t r) {
  const shoal_shape_t *x = &inputs[X].shape;
  const int64_t size = x->dims[x->rank - 2], t = r % size;
  const int32_t positions = GIVEN(call, POSITIONS);
  const shoal_place_t *place = call->attrs[PLACE].place;
  if (positions < 0) {
    return (double)(place && place->index[x->rank - 2] ? place->index[x->rank - 2][t] : t);
  }
  const shoal_tensor_t *given = &inputs[positions];
  int64_t at = t;
  if (given->shape.rank == 2) at += r / shoal_shape_product(x, 1, x->rank - 1) * size;
  return (double)shoal_dtype_load_int(given->dtype, given->data, at);
}

OP_KERNEL(rotary) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, rotary_kernel);
  }
  const int64_t rows = shoal_row_count(&inputs[X].shape);
  for (int64_t r = 0; r < rows; ++r) {
    const double position = position_of(call, inputs, r);
    (inputs->dtype == SHOAL_F64 ? turn_f64 : turn_f32)(call, r, position, inputs[X].data,
                                                       outputs->data);
  }
  return NULL;
}

OP_GRADIENT(rotary) {
  const int32_t positions = GIVEN(call, POSITIONS);
  (void)out;
  in_grads[X] = shoal_emit_one(e, "shoal.rotary",
                               REFS(grads[0], positions < 0 ? SHOAL_NO_REF : in[positions]),
                               ATTRS(shoal_attr_real("base", call->attrs[BASE].f),
                                     shoal_attr_real("factor", call->attrs[FACTOR].f),
                                     shoal_attr_real("low", call->attrs[LOW].f),
                                     shoal_attr_real("high", call->attrs[HIGH].f),
                                     shoal_attr_int("original", call->attrs[ORIGINAL].i),
                                     shoal_attr_int("dims", call->attrs[DIMS].i),
                                     shoal_attr_int("interleaved", call->attrs[INTERLEAVED].i),
                                     shoal_attr_int("inverse", !call->attrs[INVERSE].i)));
}

static void rotary_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = 24.0 * (double)shoal_shape_count(&call->inputs[X].shape);
}

#define REAL(attr, value, text) \
  { .name = attr, .kind = SHOAL_ATTR_REAL, .optional = true, .fallback = {.f = value}, .doc = text }
#define FLAG(attr, text) \
  { .name = attr, .kind = SHOAL_ATTR_INT, .role = SHOAL_ROLE_COUNT, .optional = true, .doc = text }

const shoal_op_t shoal_op_rotary = {
    .name = "shoal.rotary",
    .doc =
        "Rotary position embedding: pairs of elements of x [.., T, D] turn by position times "
        "base^(-2 i / dims). Positions are the indices along T, or given as [T], or as [B, T] "
        "where x's first dim is B.",
    .uncut = "the last dim of x: how fast a pair turns is said by its place in all of it",
    SHOAL_OP_INPUTS("x", "positions"),
    SHOAL_OP_OUTPUTS("out"),
    .optional = 1,
    SHOAL_OP_ATTRS(
        REAL("base", 10000, "the slowest pair turns about so many times slower than the first"),
        REAL("factor", 1, "pairs turn so many times slower, for longer texts"),
        REAL("low", 1, "with original: pairs of fewer turns are slowed in full"),
        REAL("high", 4, "with original: pairs of as many turns are not slowed"),
        FLAG("dims", "so many elements of the last dim turn; 0: all"),
        FLAG("original", "positions of the shorter texts; 0: all pairs are slowed"),
        FLAG("interleaved", "1: pairs are neighbours, not half of dims apart"),
        FLAG("inverse", "1: turn back"), SHOAL_ATTR_PLACE_OF("place", SHOAL_INPUT(X)),
        SHOAL_ATTR_WITH),
    SHOAL_OP_OVERWRITES({0, X}),
    .complete = rotary_complete,
    .infer = rotary_infer,
    .gradient = rotary_gradient,
    .cost = rotary_cost,
    .workspace = shoal_kernel_widen_bytes,
    .kernel = rotary_kernel,
    SHOAL_OP_CASES("f64[2,3,5,4]", "f32[5,6] ; interleaved=1, base=100",
                   "bf16[3,5,4], i64[5]<9 ; with=\"positions\"",
                   "f64[2,3,5,6], i32[2,5]<9 ; dims=4, inverse=1, with=\"positions\"",
                   "f64[3,1,2] ; interleaved=1", "f64[2,5,6] ; factor=4",
                   "f64[2,5,8] ; base=50, factor=8, low=2, high=3, original=30", "f32[0,3,2]"),
};

#else  // per element type

// Turns row r. A pair is read before it is written: the result may lie where x lies.
static void K(turn)(const shoal_call_t *call, int64_t r, double position, const void *from,
                    void *to) {
  const int64_t width = shoal_row_length(&call->inputs[X].shape), n = call->attrs[DIMS].i;
  const bool interleaved = call->attrs[INTERLEAVED].i != 0;
  const R *x = (const R *)from + r * width;
  R *y = (R *)to + r * width;
  for (int64_t i = 0; i < n / 2; ++i) {
    const double angle = position * rate_of(call, i);
    const R c = (R)cos(angle), s = (R)(call->attrs[INVERSE].i ? -sin(angle) : sin(angle));
    const int64_t first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : i + n / 2;
    const R a = x[first], b = x[second];
    y[first] = a * c - b * s;
    y[second] = b * c + a * s;
  }
  for (int64_t i = n; i < width; ++i) y[i] = x[i];
}

#endif
