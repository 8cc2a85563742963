// Zoo: a multi-layer perceptron. fc1, relu, [dropout], fc2, relu ... cross-entropy.
#include <stdio.h>

#include "nn/build.h"

static void build(shoal_graph_t *g, const shoal_mlp_options_t *o, bool train) {
  shoal_value_t x = shoal_input(g, "x", o->dtype, SHOAL_SHAPE(o->batch, o->in_features));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(o->batch));
  for (int64_t i = 1; i < o->layers; ++i) {
    char name[32], drop[32];
    snprintf(name, sizeof name, "fc%lld", (long long)i);
    snprintf(drop, sizeof drop, "drop%lld", (long long)i);
    x = shoal_nn_linear(g, name, x, o->hidden);
    x = shoal_relu(g, x);
    if (train) x = shoal_nn_dropout(g, drop, x, o->dropout);
  }
  char name[32];
  snprintf(name, sizeof name, "fc%lld", (long long)o->layers);
  shoal_value_t logits = shoal_nn_linear(g, name, x, o->classes);
  shoal_value_t loss = shoal_nn_cross_entropy(g, logits, y);
  if (!train) {
    shoal_output(g, "logits", logits);
  } else if (o->sgd) {
    shoal_minimize_sgd(g, loss, &(shoal_sgd_t){.lr = o->lr});
  } else {
    shoal_minimize(g, loss, &(shoal_adamw_t){.lr = o->lr, .eps = o->eps});
  }
  shoal_output(g, "loss", loss);
}

void shoal_zoo_mlp(shoal_model_t *model, const shoal_mlp_options_t *options) {
  shoal_mlp_options_t o = options ? *options : (shoal_mlp_options_t){.dtype = SHOAL_F32};
  o.batch = shoal_nn_size(o.batch, 64);
  o.in_features = shoal_nn_size(o.in_features, 64);
  o.hidden = shoal_nn_size(o.hidden, 128);
  o.classes = shoal_nn_size(o.classes, 10);
  o.layers = shoal_nn_size(o.layers, 2);
  build(shoal_model_graph(model, "train"), &o, true);
  build(shoal_model_graph(model, "eval"), &o, false);
}
