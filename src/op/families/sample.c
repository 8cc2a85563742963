// multinomial: indices drawn from the distributions that rows of logits stand for.
//   x [.., V]   out i64 [.., samples]
// The largest of x[v] - log(-log u[v]) is v with probability softmax(x)[v] (Gumbel), so that a draw
// is an argmax and needs no running sums. u is drawn by its index in the whole: [.., samples, V]
// with replacement, where each sample has numbers of its own; [.., V] without, where the largest
// `samples` of one set are taken, the largest first. All of it is computed in f64, so that the
// decomposition picks the same indices, also where the classes are cut.
#include <math.h>

#include "base/philox.h"
#include "op/families/along.h"
#include "op/families/emit.h"

enum { X, STEP };
enum { SAMPLES, KEY, REPLACEMENT, PLACE };

static shoal_status_t multinomial_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_shape_t shape = call->inputs[X].shape;
  const int64_t samples = call->attrs[SAMPLES].i;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, X, 1));
  SHOAL_RETURN_IF_ERROR(shoal_check_scalar(call, STEP));
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, STEP));
  REQUIRE(call, shape.rank >= 1, "x needs a last dim of classes, and has no dims");
  const int64_t classes = shoal_row_length(&shape);
  REQUIRE(call, samples >= 1, "samples is %lld: it must be at least 1", (long long)samples);
  REQUIRE(call, classes >= 1, "there are no classes to draw from");
  REQUIRE_HINT(call, call->attrs[REPLACEMENT].i || samples <= classes,
               "take fewer samples, or replacement=1",
               "%lld samples of %lld classes without replacement", (long long)samples,
               (long long)classes);
  REQUIRE(call, !call->attrs[REPLACEMENT].i || shape.rank < SHOAL_MAX_RANK,
          "x may have at most %d dims", SHOAL_MAX_RANK - 1);
  SHOAL_RETURN_IF_ERROR(shoal_check_dims(call, PLACE, &shape, &place));
  shape.dims[shape.rank - 1] = samples;
  out_types[0] = (shoal_type_t){SHOAL_I64, shape};
  return NULL;
}

// ---- kernel -----------------------------------------------------------------------------

static double gumbel(double x, int64_t key, int64_t step, int64_t index) {
  const uint32_t word = shoal_philox_word((uint64_t)key, 0, (uint64_t)step, (uint64_t)index);
  return x - log(-log(shoal_philox_uniform(word)));
}

// NaN is the largest, and of equals the first.
static bool beats(double score, double best) {
  return score > best || (score != score && best == best);
}

// Keeps the `count` largest scores, and the classes they are of, in order.
static int64_t insert(double score, int64_t class, int64_t held, int64_t count, double *scores,
                      int64_t *classes) {
  int64_t at = held;
  while (at > 0 && beats(score, scores[at - 1])) --at;
  if (at == count) return held;
  if (held < count) ++held;
  for (int64_t i = held - 1; i > at; --i) scores[i] = scores[i - 1], classes[i] = classes[i - 1];
  scores[at] = score;
  classes[at] = class;
  return held;
}

static int64_t multinomial_workspace(const shoal_call_t *call) {
  return call->attrs[SAMPLES].i * (int64_t)sizeof(double);
}

OP_KERNEL(multinomial) {
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_dims(call, PLACE, &inputs[X].shape, &place));
  const int64_t step = shoal_dtype_load_int(inputs[STEP].dtype, inputs[STEP].data, 0);
  const int64_t key = call->attrs[KEY].i, samples = call->attrs[SAMPLES].i;
  const int64_t rows = shoal_row_count(&inputs[X].shape);
  const int64_t classes = shoal_row_length(&inputs[X].shape);
  const bool each = call->attrs[REPLACEMENT].i;
  const int64_t sets = each ? samples : 1, kept = each ? 1 : samples;
  double *scores = workspace;
  int64_t *out = outputs->data;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t of_whole = shoal_place_global(&place, row * classes) / classes;
    for (int64_t set = 0; set < sets; ++set, out += kept) {
      int64_t held = 0;
      for (int64_t class = 0; class < classes; ++class) {
        const double x = shoal_dtype_load(inputs[X].dtype, inputs[X].data, row * classes + class);
        const double score = gumbel(x, key, step, (of_whole * sets + set) * classes + class);
        held = insert(score, class, held, kept, scores, out);
      }
    }
  }
  return NULL;
}

// ---- in phases --------------------------------------------------------------------------

static void multinomial_decompose(const shoal_call_t *call, shoal_emitter_t *e,
                                  const shoal_ref_t *in, shoal_ref_t *outputs) {
  if (!shoal_emit_whole(call, e)) return;
  shoal_shape_t shape = call->inputs[X].shape;
  const int64_t samples = call->attrs[SAMPLES].i;
  const bool each = call->attrs[REPLACEMENT].i;
  shoal_ref_t x = shoal_emit_cast(e, in[X], SHOAL_F64);
  if (each) {
    x = shoal_emit_unsqueeze(e, x, shape.rank - 1);
    shape.dims[shape.rank] = shape.dims[shape.rank - 1];
    shape.dims[shape.rank++ - 1] = samples;
  }
  const shoal_ref_t u = shoal_emit_one(
      e, "shoal.random_uniform", REFS(in[STEP]),
      ATTRS(shoal_attr_shape("shape", &shape), shoal_attr_int("key", call->attrs[KEY].i),
            shoal_attr_dtype("dtype", SHOAL_F64), shoal_attr_real("low", 0),
            shoal_attr_real("high", 1)));
  const shoal_ref_t wait = shoal_emit_unary(e, "shoal.neg", shoal_emit_unary(e, "shoal.log", u));
  const shoal_ref_t scores =
      shoal_emit_binary(e, "shoal.sub", x, shoal_emit_unary(e, "shoal.log", wait));
  if (each || samples == 1) {
    outputs[0] = shoal_emit_one(
        e, "shoal.argmax", REFS(scores),
        ATTRS(shoal_attr_int("axis", shape.rank - 1), shoal_attr_int("keep", !each)));
    return;
  }
  shoal_ref_t top[2];
  shoal_emit(e, "shoal.top_k", REFS(scores),
             ATTRS(shoal_attr_int("k", samples), shoal_attr_int("axis", shape.rank - 1)), 2, top);
  outputs[0] = top[1];
}

static void multinomial_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  const double sets = call->attrs[REPLACEMENT].i ? (double)call->attrs[SAMPLES].i : 1;
  out_cost->flops = 100 * sets * (double)shoal_shape_count(&call->inputs[X].shape);
}

const shoal_op_t shoal_op_multinomial = {
    .name = "shoal.multinomial",
    .doc =
        "Indices, i64 [.., samples], drawn from softmax(x) along the last dim of x [.., classes]; "
        "for probabilities give their logarithm. Without replacement the indices of a row differ, "
        "and the likelier ones tend to come first.",
    SHOAL_OP_INPUTS("x", "step"),
    SHOAL_OP_OUTPUTS("out"),
    .random = true,
    .uncut =
        "the last dim: which class is drawn is known only when all are compared (its decomposition "
        "cuts it)",
    .nan = "a class of NaN is drawn first; one of -inf only if there is no other",
    SHOAL_OP_ATTRS({.name = "samples",
                    .kind = SHOAL_ATTR_INT,
                    .role = SHOAL_ROLE_COUNT,
                    .doc = "how many indices of each row; without replacement at most classes"},
                   {.name = "key",
                    .kind = SHOAL_ATTR_INT,
                    .doc = "key of the stream, one for each random node: seed ^ hash(its name)"},
                   {.name = "replacement",
                    .kind = SHOAL_ATTR_INT,
                    .optional = true,
                    .doc = "1: an index may be drawn again"},
                   SHOAL_ATTR_PLACE_OF("place", SHOAL_INPUT(X))),
    .infer = multinomial_infer,
    .gradient = shoal_gradient_none,
    .decompose = multinomial_decompose,
    .cost = multinomial_cost,
    .workspace = multinomial_workspace,
    .kernel = multinomial_kernel,
    SHOAL_OP_CASES("f64[3,5], i64[]<9 ; samples=1, key=77",
                   "f32[2,3,7], i64[]<9 ; samples=2, key=-5",
                   "f64[3,4], i64[]<9 ; samples=3, key=5, replacement=1",
                   "bf16[9], i32[]<9 ; samples=1, key=1",
                   "f32[0,3], i64[]<9 ; samples=2, key=3, replacement=1"),
};
