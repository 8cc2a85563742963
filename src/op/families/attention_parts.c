// Attention in simpler ops: decompositions for keys that are cut, and the gradient where one flows
// into lse too. Letters are those of attention.c; keys and values of grouped queries are repeated
// for each query head. Hidden keys have a score of -1e30, of which exp gives 0 as long as one key
// is seen; rows that may see none are told by their maximum.
#include <math.h>

#include "op/families/attention.h"
#include "op/families/emit.h"

#define HIDDEN (-1e30)
#define NOTHING (-1e29)  // a maximum below: no key is seen

#define BINARY(op, a, b) shoal_emit_binary(e, "shoal." op, (a), (b))
#define SCALAR(value) shoal_emit_scalar(e, wide, (value))

// Values of a call in the precision of its statistics.
typedef struct attention {
  shoal_dtype_t dtype, wide;
  shoal_shape_t q, k, v;   // shapes as they are given
  int64_t ratio;           // query heads of a key head
  shoal_ref_t qkv[3];      // keys and values repeated
  shoal_ref_t scores;      // [B, H, T, S]
  shoal_ref_t bias, step;  // or SHOAL_NO_REF
  bool dead;               // may a row see nothing?
} attention_t;

static shoal_ref_t given(const shoal_call_t *call, const shoal_ref_t *in, int32_t optional) {
  const int32_t at = shoal_attention_given(call, optional);
  return at < 0 ? SHOAL_NO_REF : in[at];
}

// Indices 0, 1, 2 ... along `axis` of a 2-d shape.
static shoal_ref_t emit_iota(shoal_emitter_t *e, int64_t rows, int64_t columns, int32_t axis) {
  const int64_t shape[] = {rows, columns};
  return shoal_emit_one(e, "shoal.iota", NO_REFS,
                        ATTRS(shoal_attr_ints("shape", 2, shape), shoal_attr_int("axis", axis),
                              shoal_attr_dtype("dtype", SHOAL_I32)));
}

static shoal_ref_t emit_and(shoal_emitter_t *e, shoal_ref_t a, shoal_ref_t b) {
  return a == SHOAL_NO_REF ? b : BINARY("logical_and", a, b);
}

// Which keys are seen, as bools that broadcast to the scores; SHOAL_NO_REF: all.
static shoal_ref_t emit_seen(const shoal_call_t *call, shoal_emitter_t *e, shoal_ref_t mask) {
  const int64_t t = call->inputs[ATTENTION_Q].shape.dims[2];
  const int64_t s = call->inputs[ATTENTION_K].shape.dims[2], window = call->attrs[WINDOW].i;
  shoal_ref_t seen = mask;
  if (!call->attrs[CAUSAL].i && window <= 0) return seen;
  const shoal_ref_t queries = emit_iota(e, t, 1, 0), keys = emit_iota(e, 1, s, 1);
  if (call->attrs[CAUSAL].i) seen = emit_and(e, seen, BINARY("greater_equal", queries, keys));
  if (window > 0) {
    const shoal_ref_t back = BINARY("sub", queries, keys);
    const shoal_ref_t far = shoal_emit_scalar(e, SHOAL_I32, (double)window);
    seen = emit_and(e, seen, BINARY("less", back, far));
    if (!call->attrs[CAUSAL].i) {
      const shoal_ref_t ahead = shoal_emit_scalar(e, SHOAL_I32, -(double)window);
      seen = emit_and(e, seen, BINARY("greater", back, ahead));
    }
  }
  return seen;
}

// [B, Hk, S, D] -> [B, H, S, D], each head `ratio` times.
static shoal_ref_t repeat(shoal_emitter_t *e, shoal_ref_t x, int64_t ratio) {
  const shoal_shape_t shape = shoal_emit_type(e, x).shape;
  if (ratio == 1) return x;
  const int64_t *d = shape.dims;
  const shoal_shape_t many = SHOAL_SHAPE(d[0], d[1], ratio, d[2], d[3]);
  const shoal_shape_t joined = SHOAL_SHAPE(d[0], d[1] * ratio, d[2], d[3]);
  x = shoal_emit_broadcast(e, shoal_emit_unsqueeze(e, x, 2), &many);
  return shoal_emit_reshape(e, x, &joined);
}

// The adjoint of repeat: sums what the query heads of a key head got.
static shoal_ref_t sum_repeated(shoal_emitter_t *e, shoal_ref_t x, int64_t ratio) {
  const shoal_shape_t shape = shoal_emit_type(e, x).shape;
  if (ratio == 1) return x;
  const int64_t *d = shape.dims;
  const shoal_shape_t many = SHOAL_SHAPE(d[0], d[1] / ratio, ratio, d[2], d[3]);
  return shoal_emit_reduce(e, "shoal.reduce_sum", shoal_emit_reshape(e, x, &many), 2, false);
}

static attention_t attention_of(const shoal_call_t *call, shoal_emitter_t *e,
                                const shoal_ref_t *in) {
  attention_t a = {.dtype = call->inputs[ATTENTION_Q].dtype};
  const shoal_dtype_t wide = a.wide = shoal_statistics_dtype(a.dtype);
  a.q = call->inputs[ATTENTION_Q].shape, a.k = call->inputs[ATTENTION_K].shape;
  a.v = call->inputs[ATTENTION_V].shape;
  a.ratio = call->attrs[GROUPS].i;
  a.bias = given(call, in, ATTENTION_BIAS);
  a.step = given(call, in, ATTENTION_STEP);
  const shoal_ref_t mask = given(call, in, ATTENTION_MASK);
  a.dead = a.bias != SHOAL_NO_REF || mask != SHOAL_NO_REF || call->attrs[WINDOW].i > 0;
  for (int32_t i = ATTENTION_Q; i <= ATTENTION_V; ++i) {
    a.qkv[i] = repeat(e, shoal_emit_cast(e, in[i], wide), i == ATTENTION_Q ? 1 : a.ratio);
  }
  a.scores = shoal_emit_affine(
      e, shoal_emit_einsum(e, "bhtd,bhsd->bhts", a.qkv[ATTENTION_Q], a.qkv[ATTENTION_K]),
      shoal_attention_scale(call), 0);
  if (a.bias != SHOAL_NO_REF) {
    a.scores = BINARY("add", a.scores, shoal_emit_cast(e, a.bias, wide));
  }
  const shoal_ref_t seen = emit_seen(call, e, mask);
  if (seen != SHOAL_NO_REF) a.scores = shoal_emit_where(e, seen, a.scores, SCALAR(HIDDEN));
  return a;
}

// Dropout of weights, or of their gradient: the same elements.
static shoal_ref_t dropped(const shoal_call_t *call, shoal_emitter_t *e, const attention_t *a,
                           shoal_ref_t x) {
  if (a->step == SHOAL_NO_REF) return x;
  return shoal_emit_one(
      e, "shoal.dropout", REFS(x, a->step),
      ATTRS(shoal_attr_real("p", call->attrs[DROP].f), shoal_attr_int("key", call->attrs[KEY].i)));
}

void shoal_attention_decompose(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                               shoal_ref_t *outputs) {
  if (!shoal_emit_whole(call, e)) return;
  const attention_t a = attention_of(call, e, in);
  const shoal_dtype_t wide = a.wide;
  const shoal_shape_t rows = shoal_shape_part(&a.q, 0, 3);
  shoal_ref_t max = shoal_emit_reduce(e, "shoal.reduce_max", a.scores, 3, true), blind = max;
  if (a.dead) {  // not so where a score is NaN
    blind = BINARY("less_equal", max, SCALAR(NOTHING));
    max = shoal_emit_where(e, blind, SCALAR(0), max);
  }
  shoal_ref_t p = shoal_emit_unary(e, "shoal.exp", BINARY("sub", a.scores, max));
  shoal_ref_t sum = shoal_emit_reduce(e, "shoal.reduce_sum", p, 3, true);
  if (a.dead) sum = shoal_emit_where(e, blind, SCALAR(1), sum);
  p = dropped(call, e, &a, BINARY("div", p, sum));
  const shoal_ref_t out = shoal_emit_einsum(e, "bhts,bhsd->bhtd", p, a.qkv[ATTENTION_V]);
  shoal_ref_t lse = BINARY("add", shoal_emit_unary(e, "shoal.log", sum), max);
  if (a.dead) lse = shoal_emit_where(e, blind, SCALAR(-INFINITY), lse);
  outputs[0] = shoal_emit_cast(e, out, a.dtype);
  outputs[1] = shoal_emit_reshape(e, lse, &rows);
}

// Backward in simpler ops. dout or dlse may be missing; d(lse)/ds is p.
static void emit_grads(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                       shoal_ref_t out, shoal_ref_t lse, shoal_ref_t dout, shoal_ref_t dlse,
                       shoal_ref_t *grads, shoal_ref_t *out_dbias) {
  const attention_t a = attention_of(call, e, in);
  const shoal_dtype_t wide = a.wide;
  const double scale = shoal_attention_scale(call);
  if (a.dead) {
    lse = shoal_emit_where(e, BINARY("less", lse, SCALAR(NOTHING)), SCALAR(0), lse);
  }
  const shoal_ref_t p =
      shoal_emit_unary(e, "shoal.exp", BINARY("sub", a.scores, shoal_emit_unsqueeze(e, lse, 3)));
  shoal_ref_t slope = SHOAL_NO_REF;  // ds = p * slope
  if (dout != SHOAL_NO_REF) {
    dout = shoal_emit_cast(e, dout, wide);
    out = shoal_emit_cast(e, out, wide);
    const shoal_ref_t delta =
        shoal_emit_reduce(e, "shoal.reduce_sum", BINARY("mul", dout, out), 3, true);
    const shoal_ref_t dp = shoal_emit_einsum(e, "bhtd,bhsd->bhts", dout, a.qkv[ATTENTION_V]);
    slope = BINARY("sub", dropped(call, e, &a, dp), delta);
    const shoal_ref_t dv = shoal_emit_einsum(e, "bhts,bhtd->bhsd", dropped(call, e, &a, p), dout);
    grads[ATTENTION_V] = shoal_emit_cast(e, sum_repeated(e, dv, a.ratio), a.dtype);
  }
  if (dlse != SHOAL_NO_REF) {
    const shoal_ref_t more = shoal_emit_unsqueeze(e, dlse, 3);
    slope = slope == SHOAL_NO_REF ? more : BINARY("add", slope, more);
  }
  const shoal_ref_t change = BINARY("mul", p, slope), ds = shoal_emit_affine(e, change, scale, 0);
  const shoal_ref_t dk = shoal_emit_einsum(e, "bhts,bhtd->bhsd", ds, a.qkv[ATTENTION_Q]);
  grads[ATTENTION_Q] =
      shoal_emit_cast(e, shoal_emit_einsum(e, "bhts,bhsd->bhtd", ds, a.qkv[ATTENTION_K]), a.dtype);
  grads[ATTENTION_K] = shoal_emit_cast(e, sum_repeated(e, dk, a.ratio), a.dtype);
  if (a.bias != SHOAL_NO_REF) {
    const shoal_shape_t shape = shoal_emit_type(e, a.bias).shape;
    *out_dbias = shoal_emit_cast(e, shoal_emit_sum_to(e, change, &shape), a.dtype);
  }
}

void shoal_attention_grad_decompose(const shoal_call_t *call, shoal_emitter_t *e,
                                    const shoal_ref_t *in, shoal_ref_t *outputs) {
  if (!shoal_emit_whole(call, e)) return;
  emit_grads(call, e, in, in[ATTENTION_OUT], in[ATTENTION_LSE], in[ATTENTION_DOUT], SHOAL_NO_REF,
             outputs, &outputs[3]);
}

void shoal_attention_gradient(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                              const shoal_ref_t *out, const shoal_ref_t *grads,
                              shoal_ref_t *in_grads) {
  const int32_t bias = shoal_attention_given(call, ATTENTION_BIAS);
  shoal_ref_t all[4] = {SHOAL_NO_REF, SHOAL_NO_REF, SHOAL_NO_REF, SHOAL_NO_REF};
  if (grads[1] != SHOAL_NO_REF) {  // rare: a loss on lse itself
    emit_grads(call, e, in, out[0], out[1], grads[0], grads[1], all, &all[3]);
  } else {
    const shoal_ref_t operands[] = {in[ATTENTION_Q],
                                    in[ATTENTION_K],
                                    in[ATTENTION_V],
                                    out[0],
                                    out[1],
                                    grads[0],
                                    given(call, in, ATTENTION_BIAS),
                                    given(call, in, ATTENTION_MASK),
                                    given(call, in, ATTENTION_STEP)};
    const shoal_attr_t attrs[] = {shoal_attr_int("causal", call->attrs[CAUSAL].i),
                                  shoal_attr_real("scale", shoal_attention_scale(call)),
                                  shoal_attr_int("window", call->attrs[WINDOW].i),
                                  shoal_attr_int("groups", call->attrs[GROUPS].i),
                                  shoal_attr_real("p", call->attrs[DROP].f),
                                  shoal_attr_int("key", call->attrs[KEY].i)};
    shoal_emit(e, "shoal.attention_grad", 9, operands, 6, attrs, bias < 0 ? 3 : 4, all);
  }
  for (int32_t i = ATTENTION_Q; i <= ATTENTION_V; ++i) in_grads[i] = all[i];
  if (bias >= 0) in_grads[bias] = all[3];
}
