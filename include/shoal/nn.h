// Shoal, nn: layers, losses, optimizers and zoo models. They only build graphs; everything here could be
// written by a user with graph.h and ops.h.
#ifndef SHOAL_NN_H_
#define SHOAL_NN_H_

#include "shoal/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

// y = x W + b over the last dim; states "name/weight" [in, out] and "name/bias" [out]. dtype follows x.
SHOAL_API shoal_value_t shoal_nn_linear(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                        int64_t out_features);
SHOAL_API shoal_value_t shoal_nn_embedding(shoal_graph_t *graph, const char *name, shoal_value_t ids,
                                           int64_t rows, int64_t width, shoal_dtype_t dtype);
SHOAL_API shoal_value_t shoal_nn_layer_norm(shoal_graph_t *graph, const char *name, shoal_value_t x);
SHOAL_API shoal_value_t shoal_nn_dropout(shoal_graph_t *graph, const char *name, shoal_value_t x, double p);
SHOAL_API shoal_value_t shoal_nn_conv2d(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                        int64_t channels, int64_t kernel, int64_t stride, int64_t padding);
// Mean over all labels of -log softmax(logits)[label].
SHOAL_API shoal_value_t shoal_nn_cross_entropy(shoal_graph_t *graph, shoal_value_t logits,
                                               shoal_value_t labels);
// Multi-head causal self-attention on [B, T, C] with one fused QKV weight [C, 3 C].
SHOAL_API shoal_value_t shoal_nn_self_attention(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                                int64_t heads);

// Optimizers. lr is a value: the f32 scalar state "lr" (set with shoal_session_set), or lr_value if given.
typedef struct shoal_sgd {
  double lr, momentum, weight_decay;
  shoal_value_t lr_value;  // zero: state "lr", initially .lr
} shoal_sgd_t;
typedef struct shoal_adamw {
  double lr, beta1, beta2, eps, weight_decay;  // zeros: 1e-3, 0.9, 0.999, 1e-8, 0
  shoal_value_t lr_value;
} shoal_adamw_t;

// Adds backward and update nodes for every trainable state the graph reads. States "name#adamw.m" etc.
SHOAL_API void shoal_minimize_sgd(shoal_graph_t *graph, shoal_value_t loss, const shoal_sgd_t *options);
SHOAL_API void shoal_minimize(shoal_graph_t *graph, shoal_value_t loss, const shoal_adamw_t *options);

// Zoo: builds graphs "train" and "eval". All-zero options are small sizes for a demo.
typedef struct shoal_mlp_options {
  int64_t batch, in_features, hidden, classes, layers;  // 64, 64, 128, 10, 2
  shoal_dtype_t dtype;                                  // note: 0 is f64
  bool sgd;
  double dropout, lr, eps;
} shoal_mlp_options_t;
// Inputs x [batch, in], y i32 [batch]; output loss (eval: loss and logits).
SHOAL_API void shoal_zoo_mlp(shoal_model_t *model, const shoal_mlp_options_t *options);

typedef struct shoal_gpt_options {
  int64_t batch, context, vocabulary, width, heads, layers;  // 8, 64, 256, 64, 4, 2
  shoal_dtype_t dtype;
  double dropout, lr, eps;
  bool tied;  // head reads the embedding
} shoal_gpt_options_t;
// Inputs ids i32 [B, T], labels i32 [B, T]; output loss (eval: loss and logits).
SHOAL_API void shoal_zoo_gpt(shoal_model_t *model, const shoal_gpt_options_t *options);

// Small convolutional classifier (halos are real): conv, relu, pool, conv, relu, linear.
typedef struct shoal_cnn_options {
  int64_t batch, channels, size, classes;  // 4, 3, 12, 10
  shoal_dtype_t dtype;
  double lr, eps;
} shoal_cnn_options_t;
SHOAL_API void shoal_zoo_cnn(shoal_model_t *model, const shoal_cnn_options_t *options);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_NN_H_
