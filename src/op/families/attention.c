// Scaled dot-product attention on q [B,H,T,D], k [B,Hk,S,D] and v [B,Hk,S,Dv]:
//   s[t,s] = scale q[t] k[s] + bias[t,s],  lse[t] = log sum over visible s of exp(s[t,s]),
//   out[t] = sum of exp(s - lse) v[s]
// Of grouped queries, r = H / Hk heads in a row share a head of k and v. bias, and mask, which is
// true where a key is seen, are [B,H,T,S] or have a 1 for any of these. With causal, query t sees
// keys of global index <= its own, with a window only those less than so many away; the places of q
// and k give the indices, so that either may be cut along its T. A row that sees no key gives out 0
// and lse -inf. With a step, weights are dropped by their index in the whole [B,H,T,S], as
// shoal.dropout does; lse is that of all. Parts of the keys are merged by log-sum-exp. Backward
// (FlashAttention, Dao 2022, eq. 3-5), with p = exp(s - lse) and m the factors of dropout:
//   delta[t] = out[t] dout[t],  ds = p (m dout v - delta),  dbias = ds,  dq = scale ds k,
//   dk = scale ds^T q,  dv = (m p)^T dout
// lse is f32 for half-size floats.
#ifndef KERNELS_HERE
#include "op/families/attention.h"

#include "base/philox.h"
#include "op/families/kernel.h"

enum { Q = ATTENTION_Q, KEYS = ATTENTION_K, V = ATTENTION_V };
enum { OUT = ATTENTION_OUT, LSE = ATTENTION_LSE, DOUT = ATTENTION_DOUT };

// An optional operand that broadcasts to [B,H,T,S].
typedef struct scattered {
  const void *data;  // NULL: left out
  int64_t stride[4];
} scattered_t;

// One call's sizes and options, those of its part. Indices are NULL where they are 0, 1, 2 ...
typedef struct attention {
  int64_t b, h, t, s, d, dv;
  int64_t keys_h, ratio;  // heads of k's part; query heads of one of k in the whole
  bool causal;
  int64_t window;
  double scale, p;
  int64_t key, step;
  shoal_place_t q, k;
  scattered_t bias, mask;
} attention_t;

static inline int64_t global(const shoal_place_t *place, int32_t dim, int64_t i) {
  return place->index[dim] ? place->index[dim][i] : i;
}

static inline int64_t offset(const scattered_t *x, int64_t b, int64_t h, int64_t t, int64_t s) {
  return b * x->stride[0] + h * x->stride[1] + t * x->stride[2] + s * x->stride[3];
}

// Do indices let query t see key s?
static inline bool reaches(const attention_t *a, int64_t t, int64_t s) {
  const int64_t back = global(&a->q, 2, t) - global(&a->k, 2, s);
  if (a->causal && back < 0) return false;
  return a->window <= 0 || (back < a->window && back > -a->window);
}

// Is key s visible from query t of head h?
static inline bool sees(const attention_t *a, int64_t b, int64_t h, int64_t t, int64_t s) {
  if (!reaches(a, t, s)) return false;
  return !a->mask.data || ((const uint8_t *)a->mask.data)[offset(&a->mask, b, h, t, s)];
}

// One more than the last key that indices let query t see.
static int64_t visible(const attention_t *a, int64_t t) {
  int64_t end = a->s;
  while (end > 0 && !reaches(a, t, end - 1)) --end;
  return end;
}

// The factor that dropout has for a weight.
static inline double kept(const attention_t *a, int64_t b, int64_t h, int64_t t, int64_t s) {
  if (a->p <= 0) return 1;
  const int64_t *whole = a->q.whole.dims;
  int64_t index = global(&a->q, 0, b) * whole[1] + global(&a->q, 1, h);
  index = (index * whole[2] + global(&a->q, 2, t)) * a->k.whole.dims[2] + global(&a->k, 2, s);
  const uint32_t word = shoal_philox_word((uint64_t)a->key, 0, (uint64_t)a->step, (uint64_t)index);
  return shoal_philox_uniform(word) >= a->p && a->p < 1 ? 1 / (1 - a->p) : 0;
}

// The head of k's part that head h of q's part reads; -1: it lies elsewhere.
static int64_t key_head(const attention_t *a, int64_t h) {
  return shoal_place_local(&a->k, 1, global(&a->q, 1, h) / a->ratio);
}

#define EACH EACH_REAL
#define KERNELS "op/families/attention.c"
#include "op/families/each.h"

double shoal_attention_scale(const shoal_call_t *call) {
  const shoal_shape_t *q = &call->inputs[Q].shape;
  if (call->attrs[SCALE].f != 0) return call->attrs[SCALE].f;
  return q->rank == 4 && q->dims[3] > 0 ? 1 / sqrt((double)q->dims[3]) : 1;
}

static void attention_complete(const shoal_call_t *call, shoal_attr_value_t *attrs) {
  attrs[SCALE].f = shoal_attention_scale(call);
}

// Heads of k and v divide those of q. Where they are fewer, a part has all of them, or those of its
// queries.
static shoal_status_t check_heads(const shoal_call_t *call, const shoal_place_t *q,
                                  const shoal_place_t *k) {
  const int64_t all = q->whole.dims[1], keys = k->whole.dims[1], ratio = call->attrs[GROUPS].i;
  REQUIRE_HINT(call, ratio > 0 && all % ratio == 0 && all / ratio == keys,
               "groups says how many heads of q share a head of k and v",
               "q has %lld heads and k %lld, each of which is for %lld of q (groups)",
               (long long)all, (long long)keys, (long long)ratio);
  REQUIRE(call,
          q->part.dims[1] == ratio * k->part.dims[1] || (ratio > 1 && k->part.dims[1] == keys),
          "q has %lld heads and k %lld, which are not those of its queries",
          (long long)q->part.dims[1], (long long)k->part.dims[1]);
  return NULL;
}

// bias, mask and step, where they are given.
static shoal_status_t check_optional(const shoal_call_t *call) {
  const shoal_type_t *in = call->inputs;
  const int64_t *q = in[Q].shape.dims;
  const int64_t scores[] = {q[0], q[1], q[2], in[KEYS].shape.dims[2]};
  for (int32_t i = ATTENTION_BIAS; i <= ATTENTION_MASK; ++i) {
    const int32_t at = shoal_attention_given(call, i);
    if (at < 0) continue;
    SHOAL_RETURN_IF_ERROR(shoal_check_rank(call, at, 4));
    for (int32_t d = 0; d < 4; ++d) {
      REQUIRE(call, in[at].shape.dims[d] == scores[d] || in[at].shape.dims[d] == 1,
              "%s has size %lld along dim %d: it must be 1 or %lld",
              call->op->inputs[shoal_attention_optional(call) + i], (long long)in[at].shape.dims[d],
              d, (long long)scores[d]);
    }
    const shoal_dtype_t dtype = i == ATTENTION_BIAS ? in[Q].dtype : SHOAL_BOOL;
    SHOAL_RETURN_IF_ERROR(shoal_check_dtype(call, at, dtype));
  }
  REQUIRE(call, call->attrs[WINDOW].i >= 0, "window is %lld: it must not be negative",
          (long long)call->attrs[WINDOW].i);
  const int32_t step = shoal_attention_given(call, ATTENTION_STEP);
  const double p = call->attrs[DROP].f;
  REQUIRE(call, p >= 0 && p <= 1, "p must be in [0, 1], not %g", p);
  REQUIRE_HINT(call, p == 0 || step >= 0, "give the step number: shoal_step(graph)",
               "dropout with p = %g needs the input step", p);
  if (step < 0) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_check_scalar(call, step));
  return shoal_check_integer(call, step);
}

static shoal_status_t check_qkv(const shoal_call_t *call) {
  const shoal_type_t *in = call->inputs;
  shoal_place_t q, k;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, Q, 3));
  for (int32_t i = Q; i <= V; ++i) SHOAL_RETURN_IF_ERROR(shoal_check_rank(call, i, 4));
  shoal_shape_t keys = in[Q].shape;
  keys.dims[1] = in[KEYS].shape.dims[1];
  keys.dims[2] = in[KEYS].shape.dims[2];
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, KEYS, &keys));
  keys.dims[3] = in[V].shape.dims[3];
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, V, &keys));
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, PLACE_Q, &in[Q].shape, &q));
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, PLACE_K, &in[KEYS].shape, &k));
  SHOAL_RETURN_IF_ERROR(check_heads(call, &q, &k));
  return check_optional(call);
}

static shoal_shape_t out_shape(const shoal_call_t *call) {
  shoal_shape_t shape = call->inputs[Q].shape;
  shape.dims[3] = call->inputs[V].shape.dims[3];
  return shape;
}

static shoal_status_t attention_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(check_qkv(call));
  const shoal_type_t *q = &call->inputs[Q];
  out_types[0] = (shoal_type_t){q->dtype, out_shape(call)};
  out_types[1] =
      (shoal_type_t){shoal_statistics_dtype(q->dtype), shoal_shape_part(&q->shape, 0, 3)};
  return NULL;
}

static int32_t attention_grad_outputs(const shoal_op_t *op, const shoal_attr_value_t *attrs) {
  return shoal_op_given(op, attrs, ATTENTION_GRAD_OPTIONAL + ATTENTION_BIAS) < 0 ? 3 : 4;
}

static shoal_status_t attention_grad_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(check_qkv(call));
  const shoal_type_t *in = call->inputs;
  const shoal_shape_t rows = shoal_shape_part(&in[Q].shape, 0, 3), out = out_shape(call);
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, OUT, &out));
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, LSE, &rows));
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, DOUT, &out));
  SHOAL_RETURN_IF_ERROR(shoal_check_same_dtype(call, Q, OUT));
  SHOAL_RETURN_IF_ERROR(shoal_check_same_dtype(call, Q, DOUT));
  SHOAL_RETURN_IF_ERROR(shoal_check_dtype(call, LSE, shoal_statistics_dtype(in[Q].dtype)));
  for (int32_t i = Q; i <= V; ++i) out_types[i] = in[i];
  if (call->output_count > 3) out_types[3] = in[shoal_attention_given(call, ATTENTION_BIAS)];
  return NULL;
}

static scattered_t scattered(const shoal_call_t *call, const shoal_tensor_t *inputs,
                             int32_t optional) {
  const int32_t at = shoal_attention_given(call, optional);
  scattered_t x = {0};
  if (at < 0) return x;
  x.data = inputs[at].data;
  int64_t stride = 1;
  for (int32_t d = 3; d >= 0; --d) {
    x.stride[d] = inputs[at].shape.dims[d] == 1 ? 0 : stride;
    stride *= inputs[at].shape.dims[d];
  }
  return x;
}

// Of a call that infer has accepted; `inputs` may be NULL: only its sizes are wanted.
static attention_t attention_of(const shoal_call_t *call, const shoal_tensor_t *inputs) {
  const shoal_shape_t *q = &call->inputs[Q].shape, *k = &call->inputs[KEYS].shape;
  const shoal_place_t *place_q = call->attrs[PLACE_Q].place, *place_k = call->attrs[PLACE_K].place;
  attention_t a = {.b = q->dims[0],
                   .h = q->dims[1],
                   .t = q->dims[2],
                   .s = k->dims[2],
                   .d = q->dims[3],
                   .dv = call->inputs[V].shape.dims[3],
                   .keys_h = k->dims[1],
                   .ratio = call->attrs[GROUPS].i,
                   .causal = call->attrs[CAUSAL].i != 0,
                   .window = call->attrs[WINDOW].i,
                   .scale = shoal_attention_scale(call),
                   .p = call->attrs[DROP].f,
                   .key = call->attrs[KEY].i,
                   .q = place_q ? *place_q : shoal_place_whole(q),
                   .k = place_k ? *place_k : shoal_place_whole(k)};
  if (!inputs) return a;
  const int32_t step = shoal_attention_given(call, ATTENTION_STEP);
  if (step >= 0) a.step = shoal_dtype_load_int(inputs[step].dtype, inputs[step].data, 0);
  a.bias = scattered(call, inputs, ATTENTION_BIAS);
  a.mask = scattered(call, inputs, ATTENTION_MASK);
  return a;
}

static shoal_status_t check_parts(const shoal_call_t *call, const attention_t *a) {
  for (int64_t h = 0; h < a->h; ++h) {
    REQUIRE(call, key_head(a, h) >= 0, "the keys of query head %lld lie in another part",
            (long long)global(&a->q, 1, h));
  }
  return NULL;
}

// Transposed operands and a row of scores for each.
static int64_t attention_workspace(const shoal_call_t *call) {
  const attention_t a = attention_of(call, NULL);
  const int64_t element = (int64_t)shoal_dtype_size(shoal_statistics_dtype(call->inputs[Q].dtype));
  return (a.d + 1) * a.s * element + shoal_kernel_widen_bytes(call);
}

static int64_t attention_grad_workspace(const shoal_call_t *call) {
  const attention_t a = attention_of(call, NULL);
  const int64_t element = (int64_t)shoal_dtype_size(shoal_statistics_dtype(call->inputs[Q].dtype));
  return (a.d + a.dv + 2) * a.s * element + shoal_kernel_widen_bytes(call);
}

#define KERNEL(name)                                                                        \
  OP_KERNEL(name) {                                                                         \
    if (shoal_kernel_is_half(call)) {                                                       \
      return shoal_kernel_widened(call, inputs, outputs, workspace, name##_kernel);         \
    }                                                                                       \
    const attention_t a = attention_of(call, inputs);                                       \
    SHOAL_RETURN_IF_ERROR(check_parts(call, &a));                                           \
    (inputs->dtype == SHOAL_F64 ? name##_f64 : name##_f32)(&a, inputs, outputs, workspace); \
    return NULL;                                                                            \
  }

KERNEL(attention)
KERNEL(attention_grad)

// ---- records ---------------------------------------------------------------------------

static double score_flops(const shoal_call_t *call) {
  const attention_t a = attention_of(call, NULL);
  double keys = (a.causal ? 0.5 : 1.0) * (double)a.s;
  const double window = (a.causal ? 1.0 : 2.0) * (double)a.window;
  if (a.window > 0 && window < keys) keys = window;
  return (double)a.b * (double)a.h * (double)a.t * keys * (double)(a.d + a.dv + 6) / 2;
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
      SHOAL_ATTR_PLACE_OF("place_k", SHOAL_INPUT(KEYS)),                                         \
      {.name = "window",                                                                         \
       .kind = SHOAL_ATTR_INT,                                                                   \
       .role = SHOAL_ROLE_COUNT,                                                                 \
       .optional = true,                                                                         \
       .doc = "a query sees only keys less than so many away; 0: all"},                          \
      {.name = "groups",                                                                         \
       .kind = SHOAL_ATTR_INT,                                                                   \
       .role = SHOAL_ROLE_COUNT,                                                                 \
       .optional = true,                                                                         \
       .fallback = {.i = 1},                                                                     \
       .doc = "how many heads of q in a row share one of k and v"},                              \
      {.name = "p",                                                                              \
       .kind = SHOAL_ATTR_REAL,                                                                  \
       .optional = true,                                                                         \
       .doc = "probability that a weight is dropped; needs step"},                               \
      {.name = "key",                                                                            \
       .kind = SHOAL_ATTR_INT,                                                                   \
       .optional = true,                                                                         \
       .doc = "key of dropout's stream: seed ^ hash(name of the node)"},                         \
      SHOAL_ATTR_WITH

const shoal_op_t shoal_op_attention = {
    .name = "shoal.attention",
    .doc =
        "softmax(scale q k^T + bias) v of q [B, H, T, D], k [B, Hk, S, D] and v [B, Hk, S, Dv], "
        "and the scores' log-sum-exp [B, H, T]. H is groups times Hk: so many heads of q in a row "
        "share one of k and v. bias and mask (true: seen) are [B, H, T, S], or 1 along any of "
        "these dims. Where no key is seen, out is 0 and lse -inf.",
    .nan = "keys that are not seen are not read",
    .uncut = "the last dim of q and k: a score is the product of whole rows",
    SHOAL_OP_INPUTS("q", "k", "v", "bias", "mask", "step"),
    SHOAL_OP_OUTPUTS("out", "lse"),
    .optional = 3,
    .random = true,
    .window = "",
    SHOAL_OP_ATTRS(ATTENTION_ATTRS),
    .complete = attention_complete,
    .infer = attention_infer,
    .gradient = shoal_attention_gradient,
    .decompose = shoal_attention_decompose,
    .cost = attention_cost,
    .workspace = attention_workspace,
    .kernel = attention_kernel,
    SHOAL_OP_CASES(
        "f64[2,3,5,4], f64[2,3,5,4], f64[2,3,5,4] ; causal=1",
        "f32[2,2,7,3], f32[2,2,7,3], f32[2,2,7,3] ; causal=1, window=3",
        "f64[1,2,3,5], f64[1,2,7,5], f64[1,2,7,3] ; causal=0, scale=0.5",
        "bf16[1,3,5,4], bf16[1,3,5,4], bf16[1,3,5,4] ; causal=1",
        "f64[2,4,3,2], f64[2,2,5,2], f64[2,2,5,2], f64[1,4,3,5], bool[2,1,1,5] ; "
        "causal=0, groups=2, with=\"bias,mask\"",
        "f64[1,4,5,2], f64[1,1,5,2], f64[1,1,5,2], i64[]<9 ; causal=0, groups=4, window=2, "
        "p=0.3, key=77, with=\"step\""),
};

const shoal_op_t shoal_op_attention_grad = {
    .name = "shoal.attention_grad",
    .doc =
        "Gradients of attention's out with respect to q, k, v and, where it is given, bias, from "
        "its results.",
    .nan = "keys that are not seen are not read",
    .uncut = "the last dim of q and k: a score is the product of whole rows",
    SHOAL_OP_INPUTS("q", "k", "v", "out", "lse", "dout", "bias", "mask", "step"),
    SHOAL_OP_OUTPUTS("dq", "dk", "dv", "dbias"),
    .optional = 3,
    .output_number = attention_grad_outputs,
    .random = true,
    .window = "",
    SHOAL_OP_ATTRS(ATTENTION_ATTRS),
    .complete = attention_complete,
    .infer = attention_grad_infer,
    .decompose = shoal_attention_grad_decompose,
    .cost = attention_grad_cost,
    .workspace = attention_grad_workspace,
    .kernel = attention_grad_kernel,
    SHOAL_OP_CASES(
        "f64[2,3,5,4], f64[2,3,5,4], f64[2,3,5,4], f64[2,3,5,4], f64[2,3,5], f64[2,3,5,4] ; "
        "causal=1",
        "f32[1,2,3,5], f32[1,2,7,5], f32[1,2,7,5], f32[1,2,3,5], f32[1,2,3], f32[1,2,3,5] ; "
        "causal=0, scale=0.5",
        "bf16[1,3,5,4], bf16[1,3,5,4], bf16[1,3,5,4], bf16[1,3,5,4], f32[1,3,5], "
        "bf16[1,3,5,4] ; causal=1",
        "f64[2,4,3,2], f64[2,2,5,2], f64[2,2,5,3], f64[2,4,3,3], f64[2,4,3], f64[2,4,3,3], "
        "f64[1,4,3,5], bool[2,1,1,5], i64[]<9 ; causal=0, groups=2, window=2, p=0.3, key=77, "
        "with=\"bias,mask,step\""),
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
  const int64_t d = a->d, dv = a->dv;
  const R scale = (R)a->scale, *bias = a->bias.data;
  R *kt = workspace, *p = kt + d * a->s;
  for (int64_t r = 0; r < a->b * a->h; ++r) {
    const int64_t b = r / a->h, h = r % a->h, keys = b * a->keys_h + key_head(a, h);
    const R *q = (const R *)inputs[Q].data + r * a->t * d;
    const R *v = (const R *)inputs[V].data + keys * a->s * dv;
    R *out = (R *)outputs[0].data + r * a->t * dv, *lse = (R *)outputs[1].data + r * a->t;
    K(transpose)((const R *)inputs[KEYS].data + keys * a->s * d, a->s, d, kt);
    for (int64_t t = 0; t < a->t; ++t, q += d, out += dv) {
      const int64_t n = visible(a, t);
      R max = -INFINITY, sum = 0;
      K(row_product)(q, kt, d, a->s, n, p);
      for (int64_t s = 0; s < n; ++s) {
        const bool seen = sees(a, b, h, t, s);
        p[s] = seen ? scale * p[s] : -(R)INFINITY;
        if (bias && seen) p[s] += bias[offset(&a->bias, b, h, t, s)];
        if (p[s] > max || IS_NAN(p[s])) max = p[s];
      }
      for (int64_t j = 0; j < dv; ++j) out[j] = 0;
      lse[t] = -INFINITY;
      if (max == -(R)INFINITY) continue;  // no key is seen
      for (int64_t s = 0; s < n; ++s) {
        p[s] = exp(p[s] - max);
        sum += p[s];
      }
      for (int64_t s = 0; s < n; ++s) {
        const R weight = p[s] / sum * (R)kept(a, b, h, t, s);
        if (weight != 0) K(add_scaled)(weight, v + s * dv, dv, out);
      }
      lse[t] = max + log(sum);
    }
  }
}

static void K(attention_grad)(const attention_t *a, const shoal_tensor_t *inputs,
                              const shoal_tensor_t *outputs, void *workspace) {
  const int64_t d = a->d, dv = a->dv;
  const R scale = (R)a->scale, *bias = a->bias.data;
  R *kt = workspace, *vt = kt + d * a->s, *p = vt + dv * a->s, *dp = p + a->s;
  R *dk_all = outputs[KEYS].data, *dv_all = outputs[V].data;
  R *dbias = bias ? outputs[3].data : NULL;
  for (int64_t i = 0; i < a->b * a->keys_h * a->s * d; ++i) dk_all[i] = 0;
  for (int64_t i = 0; i < a->b * a->keys_h * a->s * dv; ++i) dv_all[i] = 0;
  const int64_t biases = dbias ? shoal_shape_count(&outputs[3].shape) : 0;
  for (int64_t i = 0; i < biases; ++i) dbias[i] = 0;
  for (int64_t r = 0; r < a->b * a->h; ++r) {
    const int64_t b = r / a->h, h = r % a->h, keys = b * a->keys_h + key_head(a, h);
    const int64_t at_k = keys * a->s * d, at_v = keys * a->s * dv;
    const R *q = (const R *)inputs[Q].data + r * a->t * d;
    const R *k = (const R *)inputs[KEYS].data + at_k;
    const R *out = (const R *)inputs[OUT].data + r * a->t * dv;
    const R *dout = (const R *)inputs[DOUT].data + r * a->t * dv;
    const R *lse = (const R *)inputs[LSE].data + r * a->t;
    R *dq = (R *)outputs[Q].data + r * a->t * d;
    K(transpose)(k, a->s, d, kt);
    K(transpose)((const R *)inputs[V].data + at_v, a->s, dv, vt);
    for (int64_t t = 0; t < a->t; ++t, q += d, out += dv, dout += dv, dq += d) {
      const int64_t n = visible(a, t);
      R delta = 0;
      for (int64_t j = 0; j < d; ++j) dq[j] = 0;
      if (lse[t] == -(R)INFINITY) continue;
      for (int64_t j = 0; j < dv; ++j) delta += out[j] * dout[j];
      K(row_product)(q, kt, d, a->s, n, p);
      K(row_product)(dout, vt, dv, a->s, n, dp);
      for (int64_t s = 0; s < n; ++s) {
        if (!sees(a, b, h, t, s)) continue;
        const int64_t at = bias ? offset(&a->bias, b, h, t, s) : 0;
        const R weight = exp(scale * p[s] + (bias ? bias[at] : 0) - lse[t]);
        const R factor = (R)kept(a, b, h, t, s), change = weight * (factor * dp[s] - delta);
        if (dbias) dbias[at] += change;
        K(add_scaled)(scale * change, k + s * d, d, dq);
        K(add_scaled)(scale * change, q, d, dk_all + at_k + s * d);
        K(add_scaled)(factor * weight, dout, dv, dv_all + at_v + s * dv);
      }
    }
  }
}

#endif
