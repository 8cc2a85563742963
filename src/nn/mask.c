// Tokens hidden for a model that guesses them. Random nodes number elements by their place in the
// whole batch, so that the same tokens are hidden on every mesh.
// Reference: Devlin et al. 2018, section 3.1 and appendix A.1; at least one token of a row is
// picked, as the authors' create_pretraining_data.py has it.
#include "nn/build.h"

static const double HIDDEN = 0.8, REPLACED = 0.1;  // shares of what is picked; the rest stays

static shoal_value_t draw(shoal_graph_t *graph, const char *name, shoal_value_t step,
                          shoal_shape_t shape, double high) {
  shoal_scope_push(graph, name);
  const int64_t key = shoal_random_key(graph, "random");
  shoal_value_t x = shoal_random_uniform(graph, step, shape, key, SHOAL_F32, 0, high);
  shoal_scope_pop(graph);
  return x;
}

static shoal_value_t below(shoal_graph_t *graph, shoal_value_t x, double limit) {
  return shoal_less(graph, x, shoal_full(graph, SHOAL_SCALAR, limit, SHOAL_F32));
}

// Which of the tokens are picked, bools [B, T].
static shoal_value_t pick(shoal_graph_t *graph, shoal_value_t step, shoal_shape_t shape,
                          const shoal_nn_mask_options_t *o) {
  const double share = o->share > 0 ? o->share : 0.15;
  shoal_value_t x = draw(graph, "pick", step, shape, 1);
  if (o->seen.graph)  // padding is picked last
    x = shoal_where(graph, o->seen, x, shoal_full(graph, SHOAL_SCALAR, 2, SHOAL_F32));
  const shoal_reduce_min_options_t keep = {.keep = 1};
  shoal_value_t least = shoal_reduce_min_with(graph, x, SHOAL_SHAPE(1), &keep);
  shoal_value_t picked =
      shoal_logical_or(graph, below(graph, x, share), shoal_equal(graph, x, least));
  return o->seen.graph ? shoal_logical_and(graph, picked, o->seen) : picked;
}

static bool fits(shoal_graph_t *graph, shoal_value_t ids, int64_t vocabulary,
                 const shoal_nn_mask_options_t *o) {
  const shoal_type_t type = shoal_value_type(ids);
  if (type.shape.rank != 2 || (type.dtype != SHOAL_I32 && type.dtype != SHOAL_I64)) {
    shoal_nn_refuse(graph, "mask_tokens: ids must be i32 or i64 [B, T]");
  } else if (!(o->share >= 0 && o->share <= 1)) {
    shoal_nn_refuse(graph, "mask_tokens: share is %g, not in [0, 1]", o->share);
  } else if (vocabulary < 1 || o->mask_id < 0 || o->mask_id >= vocabulary) {
    shoal_nn_refuse_hint(graph, "name an id that stands for no word",
                         "mask_tokens: mask_id is "
                         "%lld, and the vocabulary has %lld tokens",
                         (long long)o->mask_id, (long long)vocabulary);
  } else {
    return true;
  }
  return false;
}

void shoal_nn_mask_tokens_at(shoal_graph_t *graph, const char *name, shoal_value_t ids,
                             int64_t vocabulary, const shoal_nn_mask_options_t *options,
                             shoal_value_t *out_ids, shoal_value_t *out_labels, const char *file,
                             int line) {
  static const shoal_nn_mask_options_t defaults = {0};
  if (!options) options = &defaults;
  *out_ids = *out_labels = (shoal_value_t){NULL, -1};
  if (!graph || !shoal_value_ok(ids)) return;
  shoal_nn_enter(graph, name, file, line);
  if (fits(graph, ids, vocabulary, options)) {
    const shoal_type_t type = shoal_value_type(ids);
    const shoal_value_t step =
        options->same ? shoal_full(graph, SHOAL_SCALAR, 0, SHOAL_I64) : shoal_step(graph);
    const int64_t mask_id = options->mask_id ? options->mask_id : vocabulary - 1;
    const shoal_value_t picked = pick(graph, step, type.shape, options);
    const shoal_value_t fate = draw(graph, "fate", step, type.shape, 1);
    shoal_value_t other = draw(graph, "other", step, type.shape, (double)vocabulary);
    other = shoal_cast(graph, shoal_floor(graph, other), type.dtype);
    // in f32 it may round up to the end
    other = shoal_minimum(graph, other,
                          shoal_full(graph, SHOAL_SCALAR, (double)vocabulary - 1, type.dtype));
    shoal_value_t x = shoal_where(graph, below(graph, fate, HIDDEN + REPLACED), other, ids);
    x = shoal_where(graph, below(graph, fate, HIDDEN),
                    shoal_full(graph, SHOAL_SCALAR, (double)mask_id, type.dtype), x);
    *out_ids = shoal_where(graph, picked, x, ids);
    *out_labels =
        shoal_where(graph, picked, ids, shoal_full(graph, SHOAL_SCALAR, -100, type.dtype));
  }
  shoal_nn_leave(graph);
}
