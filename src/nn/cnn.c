// Zoo: a small convolutional classifier. conv 3x3, relu, max-pool 2x2, conv 3x3 without padding,
// relu, linear: windows that overlap and windows that do not, with and without padding.
#include "nn/build.h"

static void build(shoal_graph_t *g, const shoal_cnn_options_t *o, bool train) {
  shoal_value_t x =
      shoal_input(g, "x", o->dtype, SHOAL_SHAPE(o->batch, o->channels, o->size, o->size));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(o->batch));
  x = shoal_nn_conv2d(g, "conv1", x, 8, 3, 1, 1);
  x = shoal_relu(g, x);
  x = shoal_max_pool(g, x, SHOAL_SHAPE(2, 2), SHOAL_SHAPE(2, 2), SHOAL_SHAPE(0, 0));
  x = shoal_nn_conv2d(g, "conv2", x, 16, 3, 1, 0);
  x = shoal_relu(g, x);
  x = shoal_reshape(g, x, SHOAL_SHAPE(o->batch, -1));
  shoal_value_t logits = shoal_nn_linear(g, "head", x, o->classes);
  shoal_value_t loss = shoal_nn_cross_entropy(g, logits, y);
  if (train) {
    shoal_minimize(g, loss, &(shoal_adamw_t){.lr = o->lr, .eps = o->eps});
  } else {
    shoal_output(g, "logits", logits);
  }
  shoal_output(g, "loss", loss);
}

void shoal_zoo_cnn(shoal_model_t *model, const shoal_cnn_options_t *options) {
  shoal_cnn_options_t o = options ? *options : (shoal_cnn_options_t){.dtype = SHOAL_F32};
  o.batch = shoal_nn_size(o.batch, 4);
  o.channels = shoal_nn_size(o.channels, 3);
  o.size = shoal_nn_size(o.size, 12);
  o.classes = shoal_nn_size(o.classes, 10);
  build(shoal_model_graph(model, "train"), &o, true);
  build(shoal_model_graph(model, "eval"), &o, false);
}
