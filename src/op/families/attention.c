// Scaled dot-product attention on q [B,H,T,D], k and v [B,H,S,D]:
//   s[t,s] = scale q[t] k[s],  lse[t] = log sum over visible s of exp(s[t,s]),  out[t] = sum of
//   exp(s - lse) v[s]
// With causal, query t sees keys of global index <= its own; the places of q and k give the
// indices, so that either may be cut along its T. A row that sees no key gives out 0 and lse -inf.
// Parts of the keys are merged by log-sum-exp. Backward (FlashAttention, Dao 2022, eq. 3-5), with p
// = exp(s - lse):
//   delta[t] = out[t] dout[t],  ds = p (dout v - delta),  dq = scale ds k,  dk = scale ds^T q,  dv
//   = p^T dout
// lse is f32 for half-size floats.
#ifndef KERNELS_HERE
#include "op/families/emit.h"
#include "op/families/kernel.h"

enum { Q, KEYS, V, OUT, LSE, DOUT };
enum { CAUSAL, SCALE, PLACE_Q, PLACE_K };

// One call's sizes; `rows` are B H. Indices are NULL where they are 0, 1, 2 ...
typedef struct attention {
  int64_t rows, t, s, d;
  bool causal;
  double scale;
  const int64_t *index_q, *index_k;
} attention_t;

// Is key s visible from query t?
static inline bool sees(const attention_t *a, int64_t t, int64_t s) {
  const int64_t q = a->index_q ? a->index_q[t] : t, k = a->index_k ? a->index_k[s] : s;
  return !a->causal || k <= q;
}

// One more than the last key that query t sees.
static int64_t visible(const attention_t *a, int64_t t) {
  int64_t end = a->s;
  while (end > 0 && !sees(a, t, end - 1)) --end;
  return end;
}

#define EACH EACH_REAL
#define KERNELS "op/families/attention.c"
#include "op/families/each.h"

static double scale_of(const shoal_call_t *call) {
  const shoal_shape_t *q = &call->inputs[Q].shape;
  if (call->attrs[SCALE].f != 0) return call->attrs[SCALE].f;
  return q->rank == 4 && q->dims[3] > 0 ? 1 / sqrt((double)q->dims[3]) : 1;
}

static void attention_complete(const shoal_call_t *call, shoal_attr_value_t *attrs) {
  attrs[SCALE].f = scale_of(call);
}

static shoal_status_t check_qkv(const shoal_call_t *call) {
  const shoal_type_t *in = call->inputs;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, Q, 3));
  for (int32_t i = Q; i <= V; ++i) SHOAL_RETURN_IF_ERROR(shoal_check_rank(call, i, 4));
  shoal_shape_t keys = in[Q].shape;
  keys.dims[2] = in[KEYS].shape.dims[2];
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, KEYS, &keys));
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, V, &keys));
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, PLACE_Q, &in[Q].shape, &place));
  return shoal_check_place(call, PLACE_K, &in[KEYS].shape, &place);
}

static shoal_status_t attention_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(check_qkv(call));
  const shoal_type_t *q = &call->inputs[Q];
  out_types[0] = *q;
  out_types[1] =
      (shoal_type_t){shoal_statistics_dtype(q->dtype), shoal_shape_part(&q->shape, 0, 3)};
  return NULL;
}

static shoal_status_t attention_grad_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(check_qkv(call));
  const shoal_type_t *in = call->inputs;
  const shoal_shape_t rows = shoal_shape_part(&in[Q].shape, 0, 3);
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, OUT, &in[Q].shape));
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, LSE, &rows));
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, DOUT, &in[Q].shape));
  REQUIRE(call, in[OUT].dtype == in[Q].dtype && in[DOUT].dtype == in[Q].dtype,
          "out and dout must be %s like q", shoal_dtype_name(in[Q].dtype));
  REQUIRE(call, in[LSE].dtype == shoal_statistics_dtype(in[Q].dtype), "lse must be %s",
          shoal_dtype_name(shoal_statistics_dtype(in[Q].dtype)));
  for (int32_t i = Q; i <= V; ++i) out_types[i] = in[i];
  return NULL;
}

static attention_t attention_of(const shoal_call_t *call) {
  const shoal_shape_t *q = &call->inputs[Q].shape, *k = &call->inputs[KEYS].shape;
  const shoal_place_t *place_q = call->attrs[PLACE_Q].place, *place_k = call->attrs[PLACE_K].place;
  return (attention_t){.rows = q->dims[0] * q->dims[1],
                       .t = q->dims[2],
                       .s = k->dims[2],
                       .d = q->dims[3],
                       .causal = call->attrs[CAUSAL].i != 0,
                       .scale = scale_of(call),
                       .index_q = place_q ? place_q->index[2] : NULL,
                       .index_k = place_k ? place_k->index[2] : NULL};
}

// Forward: one transposed operand and a row of scores; backward two of each.
static int64_t scratch(const shoal_call_t *call, int64_t times) {
  const attention_t a = attention_of(call);
  const int64_t element = (int64_t)shoal_dtype_size(shoal_statistics_dtype(call->inputs[Q].dtype));
  return times * (a.d + 1) * a.s * element + shoal_kernel_widen_bytes(call);
}

static int64_t attention_workspace(const shoal_call_t *call) {
  return scratch(call, 1);
}

static int64_t attention_grad_workspace(const shoal_call_t *call) {
  return scratch(call, 2);
}

static shoal_status_t attention_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                       const shoal_tensor_t *outputs, void *workspace) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, attention_kernel);
  }
  const attention_t a = attention_of(call);
  (inputs->dtype == SHOAL_F64 ? attention_f64 : attention_f32)(&a, inputs, outputs, workspace);
  return NULL;
}

static shoal_status_t attention_grad_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                            const shoal_tensor_t *outputs, void *workspace) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, attention_grad_kernel);
  }
  const attention_t a = attention_of(call);
  (inputs->dtype == SHOAL_F64 ? attention_grad_f64 : attention_grad_f32)(&a, inputs, outputs,
                                                                         workspace);
  return NULL;
}

// ---- decompositions --------------------------------------------------------------------

// Indices 0, 1, 2 ... along `axis` of a 2-d shape.
static shoal_ref_t emit_iota(shoal_emitter_t *e, int64_t rows, int64_t columns, int32_t axis) {
  const int64_t shape[] = {rows, columns};
  return shoal_emit_one(e, "shoal.iota", NO_REFS,
                        ATTRS(shoal_attr_ints("shape", 2, shape), shoal_attr_int("axis", axis),
                              shoal_attr_dtype("dtype", SHOAL_I32)));
}

// scale q k^T, hidden keys at -1e30: exp of it is 0 as long as one key is seen, and on the whole
// one is.
static shoal_ref_t emit_scores(const shoal_call_t *call, shoal_emitter_t *e, shoal_ref_t q,
                               shoal_ref_t k) {
  const int64_t t = call->inputs[Q].shape.dims[2], s = call->inputs[KEYS].shape.dims[2];
  const shoal_ref_t scores =
      shoal_emit_affine(e, shoal_emit_einsum(e, "bhtd,bhsd->bhts", q, k), scale_of(call), 0);
  if (!call->attrs[CAUSAL].i) return scores;
  const shoal_ref_t seen =
      shoal_emit_binary(e, "shoal.greater_equal", emit_iota(e, t, 1, 0), emit_iota(e, 1, s, 1));
  return shoal_emit_where(e, seen, scores,
                          shoal_emit_scalar(e, shoal_emit_type(e, scores).dtype, -1e30));
}

static void attention_decompose(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                                shoal_ref_t *outputs) {
  if (!shoal_emit_whole(call, e)) return;
  const shoal_type_t *type = &call->inputs[Q];
  const shoal_dtype_t wide = shoal_statistics_dtype(type->dtype);
  const shoal_shape_t rows = shoal_shape_part(&type->shape, 0, 3);
  shoal_ref_t qkv[3];
  for (int32_t i = Q; i <= V; ++i) qkv[i] = shoal_emit_cast(e, in[i], wide);
  const shoal_ref_t scores = emit_scores(call, e, qkv[Q], qkv[KEYS]);
  const shoal_ref_t max = shoal_emit_reduce(e, "shoal.reduce_max", scores, 3, true);
  const shoal_ref_t p =
      shoal_emit_unary(e, "shoal.exp", shoal_emit_binary(e, "shoal.sub", scores, max));
  const shoal_ref_t sum = shoal_emit_reduce(e, "shoal.reduce_sum", p, 3, true);
  const shoal_ref_t out =
      shoal_emit_einsum(e, "bhts,bhsd->bhtd", shoal_emit_binary(e, "shoal.div", p, sum), qkv[V]);
  const shoal_ref_t lse =
      shoal_emit_binary(e, "shoal.add", shoal_emit_unary(e, "shoal.log", sum), max);
  outputs[0] = shoal_emit_cast(e, out, type->dtype);
  outputs[1] = shoal_emit_reshape(e, lse, &rows);
}

// Backward in simpler ops. dout or dlse may be missing; d(lse)/ds is p.
static void emit_grads(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                       shoal_ref_t out, shoal_ref_t lse, shoal_ref_t dout, shoal_ref_t dlse,
                       shoal_ref_t *grads) {
  const shoal_dtype_t dtype = call->inputs[Q].dtype, wide = shoal_statistics_dtype(dtype);
  shoal_ref_t qkv[3];
  for (int32_t i = Q; i <= V; ++i) qkv[i] = shoal_emit_cast(e, in[i], wide);
  const shoal_ref_t p =
      shoal_emit_unary(e, "shoal.exp",
                       shoal_emit_binary(e, "shoal.sub", emit_scores(call, e, qkv[Q], qkv[KEYS]),
                                         shoal_emit_unsqueeze(e, lse, 3)));
  shoal_ref_t slope = SHOAL_NO_REF;  // ds = p * slope
  if (dout != SHOAL_NO_REF) {
    dout = shoal_emit_cast(e, dout, wide);
    out = shoal_emit_cast(e, out, wide);
    const shoal_ref_t delta = shoal_emit_reduce(
        e, "shoal.reduce_sum", shoal_emit_binary(e, "shoal.mul", dout, out), 3, true);
    slope = shoal_emit_binary(e, "shoal.sub", shoal_emit_einsum(e, "bhtd,bhsd->bhts", dout, qkv[V]),
                              delta);
    grads[V] = shoal_emit_cast(e, shoal_emit_einsum(e, "bhts,bhtd->bhsd", p, dout), dtype);
  }
  if (dlse != SHOAL_NO_REF) {
    const shoal_ref_t more = shoal_emit_unsqueeze(e, dlse, 3);
    slope = slope == SHOAL_NO_REF ? more : shoal_emit_binary(e, "shoal.add", slope, more);
  }
  const shoal_ref_t ds =
      shoal_emit_affine(e, shoal_emit_binary(e, "shoal.mul", p, slope), scale_of(call), 0);
  grads[Q] = shoal_emit_cast(e, shoal_emit_einsum(e, "bhts,bhsd->bhtd", ds, qkv[KEYS]), dtype);
  grads[KEYS] = shoal_emit_cast(e, shoal_emit_einsum(e, "bhts,bhtd->bhsd", ds, qkv[Q]), dtype);
}

static void attention_grad_decompose(const shoal_call_t *call, shoal_emitter_t *e,
                                     const shoal_ref_t *in, shoal_ref_t *outputs) {
  if (!shoal_emit_whole(call, e)) return;
  emit_grads(call, e, in, in[OUT], in[LSE], in[DOUT], SHOAL_NO_REF, outputs);
}

static void attention_gradient(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                               const shoal_ref_t *out, const shoal_ref_t *grads,
                               shoal_ref_t *in_grads) {
  if (grads[1] != SHOAL_NO_REF) {  // rare: a loss on lse itself
    emit_grads(call, e, in, out[0], out[1], grads[0], grads[1], in_grads);
    return;
  }
  const shoal_ref_t operands[] = {in[Q], in[KEYS], in[V], out[0], out[1], grads[0]};
  const shoal_attr_t attrs[] = {shoal_attr_int("causal", call->attrs[CAUSAL].i),
                                shoal_attr_real("scale", scale_of(call))};
  shoal_emit(e, "shoal.attention_grad", 6, operands, 2, attrs, 3, in_grads);
}

// ---- records ---------------------------------------------------------------------------

static double score_flops(const shoal_call_t *call) {
  const attention_t a = attention_of(call);
  return (a.causal ? 0.5 : 1.0) * (double)a.rows * (double)a.t * (double)a.s * (double)(a.d + 3);
}

static void attention_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = 4 * score_flops(call);
}

static void attention_grad_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = 10 * score_flops(call);
}

#define ATTENTION_ATTRS                                                                          \
  {.name = "causal", .kind = SHOAL_ATTR_INT, .doc = "1: a query sees keys up to its own index"}, \
      {.name = "scale",                                                                          \
       .kind = SHOAL_ATTR_REAL,                                                                  \
       .optional = true,                                                                         \
       .doc = "factor of the scores; 0: 1 / sqrt(D)"},                                           \
      SHOAL_ATTR_PLACE_OF("place_q", SHOAL_INPUT(Q)),                                            \
      SHOAL_ATTR_PLACE_OF("place_k", SHOAL_INPUT(KEYS))

const shoal_op_t shoal_op_attention = {
    .name = "shoal.attention",
    .doc = "softmax(scale q k^T) v on [B, H, T, D], and the scores' log-sum-exp [B, H, T].",
    SHOAL_OP_INPUTS("q", "k", "v"),
    SHOAL_OP_OUTPUTS("out", "lse"),
    SHOAL_OP_ATTRS(ATTENTION_ATTRS),
    .complete = attention_complete,
    .infer = attention_infer,
    .gradient = attention_gradient,
    .decompose = attention_decompose,
    .cost = attention_cost,
    .workspace = attention_workspace,
    .kernel = attention_kernel,
    SHOAL_OP_CASES("f64[2,3,5,4], f64[2,3,5,4], f64[2,3,5,4] ; causal=1",
                   "f32[2,2,7,3], f32[2,2,7,3], f32[2,2,7,3] ; causal=1",
                   "f64[1,2,3,5], f64[1,2,7,5], f64[1,2,7,5] ; causal=0, scale=0.5",
                   "bf16[1,3,5,4], bf16[1,3,5,4], bf16[1,3,5,4] ; causal=1"),
};

const shoal_op_t shoal_op_attention_grad = {
    .name = "shoal.attention_grad",
    .doc = "Gradients of attention's out with respect to q, k and v, from its results.",
    SHOAL_OP_INPUTS("q", "k", "v", "out", "lse", "dout"),
    SHOAL_OP_OUTPUTS("dq", "dk", "dv"),
    SHOAL_OP_ATTRS(ATTENTION_ATTRS),
    .complete = attention_complete,
    .infer = attention_grad_infer,
    .decompose = attention_grad_decompose,
    .cost = attention_grad_cost,
    .workspace = attention_grad_workspace,
    .kernel = attention_grad_kernel,
    SHOAL_OP_CASES(
        "f64[2,3,5,4], f64[2,3,5,4], f64[2,3,5,4], f64[2,3,5,4], f64[2,3,5], f64[2,3,5,4] ; "
        "causal=1",
        "f32[1,2,3,5], f32[1,2,7,5], f32[1,2,7,5], f32[1,2,3,5], f32[1,2,3], f32[1,2,3,5] ; "
        "causal=0, scale=0.5",
        "bf16[1,3,5,4], bf16[1,3,5,4], bf16[1,3,5,4], bf16[1,3,5,4], f32[1,3,5], "
        "bf16[1,3,5,4] ; causal=1"),
};

#else  // per element type

// x [S,D] -> x^T [D,S]: then a row of scores is a sum of scaled rows, which vectorises.
static void K(transpose)(const R *restrict x, int64_t s, int64_t d, R *restrict out) {
  for (int64_t i = 0; i < s; ++i) {
    for (int64_t j = 0; j < d; ++j) out[j * s + i] = x[i * d + j];
  }
}

// row[i] = sum over j of x[j] xt[j][i], for i < n.
static void K(row_product)(const R *restrict x, const R *restrict xt, int64_t d, int64_t s,
                           int64_t n, R *restrict row) {
  for (int64_t i = 0; i < n; ++i) row[i] = 0;
  for (int64_t j = 0; j < d; ++j) {
    const R f = x[j], *restrict line = xt + j * s;
    for (int64_t i = 0; i < n; ++i) row[i] += f * line[i];
  }
}

// out += f x
static inline void K(add_scaled)(R f, const R *restrict x, int64_t d, R *restrict out) {
  for (int64_t j = 0; j < d; ++j) out[j] += f * x[j];
}

static void K(attention)(const attention_t *a, const shoal_tensor_t *inputs,
                         const shoal_tensor_t *outputs, void *workspace) {
  const int64_t d = a->d;
  const R scale = (R)a->scale;
  R *kt = workspace, *p = kt + d * a->s;
  for (int64_t r = 0; r < a->rows; ++r) {
    const R *q = (const R *)inputs[Q].data + r * a->t * d;
    const R *v = (const R *)inputs[V].data + r * a->s * d;
    R *out = (R *)outputs[0].data + r * a->t * d, *lse = (R *)outputs[1].data + r * a->t;
    K(transpose)((const R *)inputs[KEYS].data + r * a->s * d, a->s, d, kt);
    for (int64_t t = 0; t < a->t; ++t, q += d, out += d) {
      const int64_t n = visible(a, t);
      R max = -INFINITY, sum = 0;
      K(row_product)(q, kt, d, a->s, n, p);
      for (int64_t s = 0; s < n; ++s) {
        p[s] = sees(a, t, s) ? scale * p[s] : -(R)INFINITY;
        if (p[s] > max || IS_NAN(p[s])) max = p[s];
      }
      for (int64_t j = 0; j < d; ++j) out[j] = 0;
      for (int64_t s = 0; s < n; ++s) {
        p[s] = exp(p[s] - max);
        sum += p[s];
      }
      for (int64_t s = 0; s < n; ++s) K(add_scaled)(p[s] / sum, v + s * d, d, out);
      lse[t] = n ? max + log(sum) : -(R)INFINITY;
    }
  }
}

static void K(attention_grad)(const attention_t *a, const shoal_tensor_t *inputs,
                              const shoal_tensor_t *outputs, void *workspace) {
  const int64_t d = a->d;
  const R scale = (R)a->scale;
  R *kt = workspace, *vt = kt + d * a->s, *p = vt + d * a->s, *dp = p + a->s;
  for (int64_t r = 0; r < a->rows; ++r) {
    const int64_t at_q = r * a->t * d, at_k = r * a->s * d;
    const R *q = (const R *)inputs[Q].data + at_q, *k = (const R *)inputs[KEYS].data + at_k;
    const R *out = (const R *)inputs[OUT].data + at_q, *dout = (const R *)inputs[DOUT].data + at_q;
    const R *lse = (const R *)inputs[LSE].data + r * a->t;
    R *dq = (R *)outputs[Q].data + at_q, *dk = (R *)outputs[KEYS].data + at_k;
    R *dv = (R *)outputs[V].data + at_k;
    K(transpose)(k, a->s, d, kt);
    K(transpose)((const R *)inputs[V].data + at_k, a->s, d, vt);
    for (int64_t i = 0; i < a->s * d; ++i) dk[i] = dv[i] = 0;
    for (int64_t t = 0; t < a->t; ++t, q += d, out += d, dout += d, dq += d) {
      const int64_t n = visible(a, t);
      R delta = 0;
      for (int64_t j = 0; j < d; ++j) {
        delta += out[j] * dout[j];
        dq[j] = 0;
      }
      K(row_product)(q, kt, d, a->s, n, p);
      K(row_product)(dout, vt, d, a->s, n, dp);
      for (int64_t s = 0; s < n; ++s) {
        if (!sees(a, t, s)) continue;
        const R weight = exp(scale * p[s] - lse[t]);
        const R ds = scale * weight * (dp[s] - delta);
        K(add_scaled)(ds, k + s * d, d, dq);
        K(add_scaled)(ds, q, d, dk + s * d);
        K(add_scaled)(weight, dout, d, dv + s * d);
      }
    }
  }
}

#endif
