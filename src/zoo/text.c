// What decoders share: their inputs, the cache of keys and values, how their graphs end (family.h).
#include "zoo/family.h"

int64_t shoal_zoo_tokens(shoal_graph_t *g, const shoal_zoo_job_t *job, int64_t context) {
  const int64_t tokens = shoal_nn_size(job->tokens, context);
  if (tokens > context)
    shoal_nn_refuse_hint(g, "set a larger context", "%lld tokens in a context of %lld",
                         (long long)tokens, (long long)context);
  return tokens;
}

shoal_zoo_text_t shoal_zoo_text(shoal_graph_t *g, const shoal_zoo_job_t *job, int64_t context) {
  const bool decodes = job->phase == SHOAL_ZOO_DECODE, prefills = job->phase == SHOAL_ZOO_PREFILL;
  const int64_t tokens = decodes ? 1 : shoal_zoo_tokens(g, job, context);
  shoal_zoo_text_t text = {.context = context, .tokens = tokens};
  text.ids = shoal_input(g, "ids", SHOAL_I32, SHOAL_SHAPE(job->rows, tokens));
  if (decodes) {
    text.positions = shoal_input(g, "positions", SHOAL_I32, SHOAL_SHAPE(job->rows));
  } else if (prefills) {
    text.lengths = shoal_input(g, "lengths", SHOAL_I32, SHOAL_SHAPE(job->rows));
  } else {
    text.labels = shoal_input(g, "labels", SHOAL_I32, SHOAL_SHAPE(job->rows, tokens));
  }
  return text;
}

void shoal_zoo_remember(const shoal_zoo_job_t *job, const shoal_zoo_text_t *text,
                        shoal_nn_attention_options_t *options) {
  if (job->phase != SHOAL_ZOO_PREFILL && job->phase != SHOAL_ZOO_DECODE) return;
  options->cache = text->context;
  if (job->phase == SHOAL_ZOO_DECODE) options->positions = text->positions;
}

shoal_value_t shoal_zoo_last(shoal_graph_t *g, const shoal_zoo_job_t *job,
                             const shoal_zoo_text_t *text, shoal_value_t x) {
  if (job->phase != SHOAL_ZOO_PREFILL) return x;
  shoal_shape_t shape = shoal_value_type(x).shape;
  shoal_value_t one = shoal_full(g, SHOAL_SHAPE(1), 1, SHOAL_I32);
  shoal_value_t last = shoal_sub(g, text->lengths, one);
  last = shoal_reshape(g, last, SHOAL_SHAPE(job->rows, 1, 1));
  shape.dims[1] = 1;
  return shoal_take_along(g, x, shoal_broadcast_to(g, last, shape), 1);
}

shoal_value_t shoal_zoo_head(shoal_graph_t *g, const shoal_zoo_job_t *job, shoal_value_t x,
                             int64_t vocabulary, bool tied) {
  const shoal_init_t normal = {SHOAL_INIT_NORMAL, 0, 0.02};
  const shoal_nn_linear_options_t own = {.no_bias = true, .weight_init = normal};
  const shoal_shape_t shape = shoal_value_type(x).shape;
  const int64_t width = shape.rank ? shape.dims[shape.rank - 1] : 0;
  if (!tied) return shoal_nn_linear_with(g, "head", x, vocabulary, &own);
  shoal_scope_push(g, "head");
  shoal_value_t table =
      shoal_nn_parameter(g, "/wte/table", job->dtype, SHOAL_SHAPE(vocabulary, width), normal);
  x = shoal_nn_product(g, x, table, true);
  shoal_scope_pop(g);
  return x;
}

void shoal_zoo_text_end(shoal_graph_t *g, const shoal_zoo_job_t *job, const shoal_zoo_text_t *text,
                        shoal_value_t x, int64_t vocabulary, bool tied, shoal_value_t more) {
  const shoal_value_t logits = shoal_zoo_head(g, job, x, vocabulary, tied);
  if (text->labels.graph) {
    shoal_value_t loss = shoal_nn_cross_entropy(g, logits, text->labels);
    shoal_zoo_end(g, job, more.graph ? shoal_add(g, loss, more) : loss, logits);
    return;
  }
  shoal_output(g, "logits", shoal_reshape(g, logits, SHOAL_SHAPE(job->rows, vocabulary)));
}
