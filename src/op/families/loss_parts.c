// Cross-entropy in simpler ops: its gradients, and the decompositions for a cut vocabulary, whose
// `pick` takes 0 for labels of other parts. Letters are those of loss.c. Rows that are ignored have
// 0 as a label and their result replaced by 0.
#include "op/families/emit.h"
#include "op/families/loss.h"

#define ADD(a, b) shoal_emit_binary(e, "shoal.add", (a), (b))
#define SUB(a, b) shoal_emit_binary(e, "shoal.sub", (a), (b))
#define MUL(a, b) shoal_emit_binary(e, "shoal.mul", (a), (b))
#define DIV(a, b) shoal_emit_binary(e, "shoal.div", (a), (b))
#define SCALE(x, factor) shoal_emit_affine(e, (x), (factor), 0)

// Which labels are ignored, as bools; SHOAL_NO_REF where the labels' type does not hold the index.
static shoal_ref_t emit_ignored(shoal_emitter_t *e, shoal_ref_t labels, int64_t ignore) {
  const shoal_dtype_t dtype = shoal_emit_type(e, labels).dtype;
  if (dtype == SHOAL_U8 && (ignore < 0 || ignore > UINT8_MAX)) return SHOAL_NO_REF;
  if (dtype == SHOAL_I32 && (ignore < INT32_MIN || ignore > INT32_MAX)) return SHOAL_NO_REF;
  return shoal_emit_binary(e, "shoal.equal", labels, shoal_emit_scalar(e, dtype, (double)ignore));
}

// 0 where ignored, else x.
static shoal_ref_t emit_kept(shoal_emitter_t *e, shoal_ref_t x, shoal_ref_t ignored) {
  if (ignored == SHOAL_NO_REF) return x;
  const shoal_ref_t zero = shoal_emit_scalar(e, shoal_emit_type(e, x).dtype, 0);
  return shoal_emit_where(e, ignored, zero, x);
}

// A call of the loss or its gradient, its values as they are wanted here.
typedef struct loss {
  shoal_type_t type;      // of the logits
  shoal_dtype_t wide;     // of the loss
  shoal_shape_t rows;     // shape of the labels
  int32_t axis;           // of the classes
  int64_t classes;        // V
  double direct, spread;  // 1 - s; s / V
  shoal_ref_t x;          // logits in the loss's type
  shoal_ref_t labels;     // 0 where ignored
  shoal_ref_t ignored;    // or SHOAL_NO_REF
  shoal_ref_t weights;    // or SHOAL_NO_REF
  shoal_ref_t total;      // or SHOAL_NO_REF
} loss_t;

static loss_t loss_of(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                      int32_t weights, int32_t total) {
  loss_t l = {.type = call->inputs[LOSS_LOGITS], .weights = SHOAL_NO_REF, .total = SHOAL_NO_REF};
  l.wide = shoal_statistics_dtype(l.type.dtype);
  l.axis = l.type.shape.rank - 1;
  l.rows = shoal_shape_part(&l.type.shape, 0, l.axis);
  l.classes = l.type.shape.dims[l.axis];
  l.direct = 1 - call->attrs[LOSS_SMOOTHING].f;
  l.spread = l.classes ? call->attrs[LOSS_SMOOTHING].f / (double)l.classes : 0;
  l.x = shoal_emit_cast(e, in[LOSS_LOGITS], l.wide);
  l.ignored = emit_ignored(e, in[LOSS_LABELS], call->attrs[LOSS_IGNORE].i);
  l.labels = emit_kept(e, in[LOSS_LABELS], l.ignored);
  if (GIVEN(call, weights) >= 0) l.weights = in[GIVEN(call, weights)];
  if (GIVEN(call, total) >= 0) l.total = in[GIVEN(call, total)];
  return l;
}

// w[y] of each row, times (1 - s).
static shoal_ref_t direct_weights(const loss_t *l, shoal_emitter_t *e) {
  if (l->weights == SHOAL_NO_REF) {
    return shoal_emit_broadcast(e, shoal_emit_scalar(e, l->wide, l->direct), &l->rows);
  }
  const shoal_ref_t all = shoal_emit_broadcast(e, l->weights, &l->type.shape);
  return SCALE(shoal_emit_binary(e, "shoal.pick", all, l->labels), l->direct);
}

// s / V times the sum of the weights.
static shoal_ref_t spread_weight(const loss_t *l, shoal_emitter_t *e) {
  if (l->weights == SHOAL_NO_REF) {
    return shoal_emit_scalar(e, l->wide, l->spread * (double)l->classes);
  }
  return SCALE(shoal_emit_reduce(e, "shoal.reduce_sum", l->weights, 0, false), l->spread);
}

static shoal_ref_t sum_rows(const shoal_call_t *call, shoal_emitter_t *e, const loss_t *l,
                            shoal_ref_t each) {
  int64_t dims[SHOAL_MAX_RANK];
  for (int32_t d = 0; d < l->axis; ++d) dims[d] = d;
  if (l->total == SHOAL_NO_REF) {
    return shoal_emit_one(e, "shoal.reduce_mean", REFS(each),
                          ATTRS(shoal_attr_ints("dims", l->axis, dims),
                                shoal_attr_int("count", shoal_loss_count(call))));
  }
  return DIV(shoal_emit_one(e, "shoal.reduce_sum", REFS(each),
                            ATTRS(shoal_attr_ints("dims", l->axis, dims))),
             l->total);
}

void shoal_cross_entropy_decompose(const shoal_call_t *call, shoal_emitter_t *e,
                                   const shoal_ref_t *in, shoal_ref_t *outputs) {
  if (!shoal_emit_whole(call, e)) return;
  const loss_t l = loss_of(call, e, in, LOSS_WEIGHTS, LOSS_TOTAL);
  shoal_ref_t max, sum;
  shoal_emit_exp(e, l.x, l.axis, &max, &sum);
  const shoal_ref_t lse =
      shoal_emit_reshape(e, ADD(shoal_emit_unary(e, "shoal.log", sum), max), &l.rows);
  shoal_ref_t each = SUB(lse, shoal_emit_binary(e, "shoal.pick", l.x, l.labels));
  if (l.weights != SHOAL_NO_REF || l.direct != 1) each = MUL(each, direct_weights(&l, e));
  if (l.spread != 0) {
    const shoal_ref_t costs = l.weights == SHOAL_NO_REF ? l.x : MUL(l.x, l.weights);
    const shoal_ref_t mean =
        SCALE(shoal_emit_reduce(e, "shoal.reduce_sum", costs, l.axis, false), l.spread);
    each = ADD(each, SUB(MUL(lse, spread_weight(&l, e)), mean));
  }
  outputs[0] = sum_rows(call, e, &l, emit_kept(e, each, l.ignored));
}

void shoal_cross_entropy_grad_decompose(const shoal_call_t *call, shoal_emitter_t *e,
                                        const shoal_ref_t *in, shoal_ref_t *outputs) {
  if (!shoal_emit_whole(call, e)) return;
  const loss_t l = loss_of(call, e, in, LOSS_GRAD_WEIGHTS, LOSS_GRAD_TOTAL);
  const shoal_ref_t share = l.total == SHOAL_NO_REF
                                ? SCALE(in[LOSS_DLOSS], 1 / (double)shoal_loss_count(call))
                                : DIV(in[LOSS_DLOSS], l.total);
  shoal_ref_t max, sum;
  const shoal_ref_t p = shoal_emit_exp(e, l.x, l.axis, &max, &sum);
  const shoal_ref_t softmax = DIV(p, sum);
  shoal_ref_t direct = shoal_emit_broadcast(e, share, &l.rows), factor = share;
  if (l.weights != SHOAL_NO_REF || l.direct != 1) {
    direct = factor = MUL(direct_weights(&l, e), share);
  }
  if (l.spread != 0) factor = ADD(factor, MUL(spread_weight(&l, e), share));
  if (shoal_emit_type(e, factor).shape.rank) factor = shoal_emit_unsqueeze(e, factor, l.axis);
  const shoal_ref_t hit = shoal_emit_one(e, "shoal.pick_grad", REFS(l.labels, direct),
                                         ATTRS(shoal_attr_int("size", l.classes)));
  shoal_ref_t dx = SUB(MUL(softmax, factor), hit);
  if (l.spread != 0) {
    const shoal_ref_t even = SCALE(share, l.spread);
    dx = SUB(dx, l.weights == SHOAL_NO_REF ? even : MUL(l.weights, even));
  }
  if (l.ignored != SHOAL_NO_REF) {
    dx = emit_kept(e, dx, shoal_emit_unsqueeze(e, l.ignored, l.axis));
  }
  outputs[0] = shoal_emit_cast(e, dx, l.type.dtype);
}

// The sum over rows of what a weight is multiplied with: -l[v] ((1 - s) (v = y) + s / V).
static shoal_ref_t weights_gradient(const loss_t *l, shoal_emitter_t *e, shoal_ref_t share) {
  const shoal_ref_t cost = shoal_emit_unary(
      e, "shoal.neg",
      shoal_emit_one(e, "shoal.log_softmax", REFS(l->x), ATTRS(shoal_attr_int("axis", l->axis))));
  const shoal_ref_t ones =
      shoal_emit_broadcast(e, shoal_emit_scalar(e, l->wide, l->direct), &l->rows);
  const shoal_ref_t hit = shoal_emit_one(e, "shoal.pick_grad", REFS(l->labels, ones),
                                         ATTRS(shoal_attr_int("size", l->classes)));
  shoal_ref_t each = MUL(cost, shoal_emit_affine(e, hit, 1, l->spread));
  if (l->ignored != SHOAL_NO_REF) {
    each = emit_kept(e, each, shoal_emit_unsqueeze(e, l->ignored, l->axis));
  }
  return MUL(shoal_emit_sum_leading(e, each), share);
}

void shoal_cross_entropy_gradient(const shoal_call_t *call, shoal_emitter_t *e,
                                  const shoal_ref_t *in, const shoal_ref_t *out,
                                  const shoal_ref_t *grads, shoal_ref_t *in_grads) {
  const int32_t weights = GIVEN(call, LOSS_WEIGHTS), total = GIVEN(call, LOSS_TOTAL);
  const double count = (double)shoal_loss_count(call);
  in_grads[LOSS_LOGITS] = shoal_emit_one(
      e, "shoal.cross_entropy_grad",
      REFS(in[LOSS_LOGITS], in[LOSS_LABELS], grads[0], weights < 0 ? SHOAL_NO_REF : in[weights],
           total < 0 ? SHOAL_NO_REF : in[total]),
      ATTRS(shoal_attr_int("count", shoal_loss_count(call)),
            shoal_attr_int("ignore", call->attrs[LOSS_IGNORE].i),
            shoal_attr_real("smoothing", call->attrs[LOSS_SMOOTHING].f)));
  if (weights >= 0) {
    const loss_t l = loss_of(call, e, in, LOSS_WEIGHTS, LOSS_TOTAL);
    const shoal_ref_t share = total < 0 ? SCALE(grads[0], 1 / count) : DIV(grads[0], in[total]);
    in_grads[weights] = weights_gradient(&l, e, share);
  }
  if (total >= 0) {
    in_grads[total] = shoal_emit_unary(e, "shoal.neg", DIV(MUL(grads[0], out[0]), in[total]));
  }
}
