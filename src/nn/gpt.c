// Zoo: a GPT-2 style decoder, pre-norm. B batch, T time, C width, H heads, V vocabulary.
//   x = wte[ids] + wpe                                                  [B, T, C]
//   x = x + attn(ln_1 x);  x = x + mlp(ln_2 x)                          per block
//   logits = head(ln_f x), or x wte^T when tied                         [B, T, V]
// Reference: Radford et al. 2019; projections into the residual start smaller by sqrt(2 layers).
#include <math.h>
#include <stdio.h>

#include "nn/build.h"

static shoal_value_t block(shoal_graph_t *g, const shoal_gpt_options_t *o, shoal_value_t x,
                           double p) {
  shoal_init_t init = {SHOAL_INIT_NORMAL, 0, 0.02};
  shoal_init_t residual = {SHOAL_INIT_NORMAL, 0, 0.02 / sqrt(2 * (double)o->layers)};
  shoal_value_t y = shoal_nn_layer_norm(g, "ln_1", x);
  y = shoal_nn_attend(g, "attn", y, shoal_none(), o->heads, NULL, init, residual);
  x = shoal_add(g, x, shoal_nn_dropout(g, "attn_drop", y, p));
  y = shoal_nn_layer_norm(g, "ln_2", x);
  shoal_scope_push(g, "mlp");
  y = shoal_nn_project(g, "fc1", y, 4 * o->width, init, false);
  y = shoal_gelu(g, y);
  y = shoal_nn_project(g, "fc2", y, o->width, residual, false);
  shoal_scope_pop(g);
  return shoal_add(g, x, shoal_nn_dropout(g, "mlp_drop", y, p));
}

static void build(shoal_graph_t *g, const shoal_gpt_options_t *o, bool train) {
  shoal_init_t init = {SHOAL_INIT_NORMAL, 0, 0.02};
  double p = train ? o->dropout : 0;
  shoal_value_t ids = shoal_input(g, "ids", SHOAL_I32, SHOAL_SHAPE(o->batch, o->context));
  shoal_value_t labels = shoal_input(g, "labels", SHOAL_I32, SHOAL_SHAPE(o->batch, o->context));
  shoal_value_t x = shoal_nn_embedding(g, "wte", ids, o->vocabulary, o->width, o->dtype);
  shoal_scope_push(g, "wpe");  // every position is there: the table itself is the embedding
  shoal_value_t positions =
      shoal_nn_parameter(g, "table", o->dtype, SHOAL_SHAPE(o->context, o->width), init);
  x = shoal_add(g, x, positions);
  shoal_scope_pop(g);
  x = shoal_nn_dropout(g, "drop", x, p);
  for (int64_t i = 0; i < o->layers; ++i) {
    char name[32];
    snprintf(name, sizeof name, "block%lld", (long long)i);
    shoal_scope_push(g, name);
    x = block(g, o, x, p);
    shoal_scope_pop(g);
  }
  x = shoal_nn_layer_norm(g, "ln_f", x);
  shoal_value_t logits;
  if (o->tied) {
    shoal_scope_push(g, "head");
    shoal_value_t table =
        shoal_nn_parameter(g, "/wte/table", o->dtype, SHOAL_SHAPE(o->vocabulary, o->width), init);
    logits = shoal_nn_product(g, x, table, true);
    shoal_scope_pop(g);
  } else {
    logits = shoal_nn_project(g, "head", x, o->vocabulary, init, true);
  }
  shoal_value_t loss = shoal_nn_cross_entropy(g, logits, labels);
  if (train) {
    shoal_minimize(g, loss, &(shoal_adamw_t){.lr = o->lr, .eps = o->eps});
  } else {
    shoal_output(g, "logits", logits);
  }
  shoal_output(g, "loss", loss);
}

void shoal_zoo_gpt(shoal_model_t *model, const shoal_gpt_options_t *options) {
  shoal_gpt_options_t o = options ? *options : (shoal_gpt_options_t){.dtype = SHOAL_F32};
  o.batch = shoal_nn_size(o.batch, 8);
  o.context = shoal_nn_size(o.context, 64);
  o.vocabulary = shoal_nn_size(o.vocabulary, 256);
  o.width = shoal_nn_size(o.width, 64);
  o.heads = shoal_nn_size(o.heads, 4);
  o.layers = shoal_nn_size(o.layers, 2);
  build(shoal_model_graph(model, "train"), &o, true);
  build(shoal_model_graph(model, "eval"), &o, false);
}
