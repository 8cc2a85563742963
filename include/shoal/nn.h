// Shoal, nn: layers, losses, optimizers and zoo models. They only build graphs; everything here
// could be written by a user with graph.h and ops.h.
#ifndef SHOAL_NN_H_
#define SHOAL_NN_H_

#include "shoal/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

// Layers. Their states are in scope `name` and have the dtype of x. The macros without _at give the
// caller's file and line to errors.

// y = x W + b over the last dim; states "name/weight" [in, out] and "name/bias" [out].
SHOAL_API shoal_value_t shoal_nn_linear_at(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                           int64_t out_features, const char *file, int line);
// Rows of the state "name/table" [rows, width].
SHOAL_API shoal_value_t shoal_nn_embedding_at(shoal_graph_t *graph, const char *name,
                                              shoal_value_t ids, int64_t rows, int64_t width,
                                              shoal_dtype_t dtype, const char *file, int line);
// Over the last dim; states "name/gamma" and "name/beta".
SHOAL_API shoal_value_t shoal_nn_layer_norm_at(shoal_graph_t *graph, const char *name,
                                               shoal_value_t x, const char *file, int line);
// Zeroes elements with probability p and scales the others by 1 / (1 - p). Which ones depends on
// the model's seed, on "name" and on the step number, which the graph then counts (shoal_step).
SHOAL_API shoal_value_t shoal_nn_dropout_at(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                            double p, const char *file, int line);
// Convolution of x [N, C, ...] over its one to three last dims, `kernel` wide along each; states
// "name/weight" [channels, C / groups, kernel, ...] and "name/bias" [channels]. Options may be
// NULL. Transposed: "name/weight" is [C, channels / groups, kernel, ...].
typedef struct shoal_nn_conv_options {
  int64_t stride, dilation;  // 0: 1
  int64_t padding;           // zeros on both sides of each dim
  int64_t groups;            // of channels, each of which sees its own; 0: 1
  int64_t output_padding;    // transposed: so many elements more at the end of each dim
  bool no_bias;
} shoal_nn_conv_options_t;
SHOAL_API shoal_value_t shoal_nn_conv_at(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                         int64_t channels, int64_t kernel,
                                         const shoal_nn_conv_options_t *options, const char *file,
                                         int line);
SHOAL_API shoal_value_t shoal_nn_conv_transpose_at(shoal_graph_t *graph, const char *name,
                                                   shoal_value_t x, int64_t channels,
                                                   int64_t kernel,
                                                   const shoal_nn_conv_options_t *options,
                                                   const char *file, int line);
// The same for x [N, C, L], [N, C, H, W], [N, C, D, H, W], with stride and padding.
SHOAL_API shoal_value_t shoal_nn_conv1d_at(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                           int64_t channels, int64_t kernel, int64_t stride,
                                           int64_t padding, const char *file, int line);
SHOAL_API shoal_value_t shoal_nn_conv2d_at(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                           int64_t channels, int64_t kernel, int64_t stride,
                                           int64_t padding, const char *file, int line);
SHOAL_API shoal_value_t shoal_nn_conv3d_at(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                           int64_t channels, int64_t kernel, int64_t stride,
                                           int64_t padding, const char *file, int line);
// Mean over all labels of -log softmax(logits)[label]; logits [..., classes], labels [...].
SHOAL_API shoal_value_t shoal_nn_cross_entropy_at(shoal_graph_t *graph, shoal_value_t logits,
                                                  shoal_value_t labels, const char *file, int line);
// Multi-head causal self-attention on [B, T, C] with one fused QKV weight: states "name/qkv/weight"
// [C, 3 C], "name/qkv/bias", "name/proj/weight" [C, C], "name/proj/bias".
SHOAL_API shoal_value_t shoal_nn_self_attention_at(shoal_graph_t *graph, const char *name,
                                                   shoal_value_t x, int64_t heads, const char *file,
                                                   int line);

#define shoal_nn_linear(graph, name, x, out_features) \
  shoal_nn_linear_at(graph, name, x, out_features, SHOAL_HERE)
#define shoal_nn_embedding(graph, name, ids, rows, width, dtype) \
  shoal_nn_embedding_at(graph, name, ids, rows, width, dtype, SHOAL_HERE)
#define shoal_nn_layer_norm(graph, name, x) shoal_nn_layer_norm_at(graph, name, x, SHOAL_HERE)
#define shoal_nn_dropout(graph, name, x, p) shoal_nn_dropout_at(graph, name, x, p, SHOAL_HERE)
#define shoal_nn_conv(graph, name, x, channels, kernel, options) \
  shoal_nn_conv_at(graph, name, x, channels, kernel, options, SHOAL_HERE)
#define shoal_nn_conv_transpose(graph, name, x, channels, kernel, options) \
  shoal_nn_conv_transpose_at(graph, name, x, channels, kernel, options, SHOAL_HERE)
#define shoal_nn_conv1d(graph, name, x, channels, kernel, stride, padding) \
  shoal_nn_conv1d_at(graph, name, x, channels, kernel, stride, padding, SHOAL_HERE)
#define shoal_nn_conv3d(graph, name, x, channels, kernel, stride, padding) \
  shoal_nn_conv3d_at(graph, name, x, channels, kernel, stride, padding, SHOAL_HERE)
#define shoal_nn_conv2d(graph, name, x, channels, kernel, stride, padding) \
  shoal_nn_conv2d_at(graph, name, x, channels, kernel, stride, padding, SHOAL_HERE)
#define shoal_nn_cross_entropy(graph, logits, labels) \
  shoal_nn_cross_entropy_at(graph, logits, labels, SHOAL_HERE)
#define shoal_nn_self_attention(graph, name, x, heads) \
  shoal_nn_self_attention_at(graph, name, x, heads, SHOAL_HERE)

// Losses of two tensors of one shape, x and its target, element by element and then reduced.
// Options may be NULL.
typedef enum shoal_reduction {
  SHOAL_REDUCTION_MEAN,  // over all elements
  SHOAL_REDUCTION_SUM,
  SHOAL_REDUCTION_BATCH,  // the sum divided by the size of dim 0
  SHOAL_REDUCTION_NONE    // a loss for each element
} shoal_reduction_t;
typedef struct shoal_loss_options {
  shoal_reduction_t reduction;
  shoal_value_t weight;           // factor of each element's loss, broadcast; zero: none
  shoal_value_t positive_weight;  // bce_with_logits: factor where the target is 1, broadcast
  double delta;                   // huber and smooth_l1: where the square ends; 0: 1
  bool log_target;                // kl_div: the target is a logarithm, as x is
  bool rates;                     // poisson_nll: x is the rate, not its logarithm
  bool full;                      // poisson_nll: with Stirling's term
  double eps;                     // poisson_nll: added to rates before the logarithm; 0: 1e-8
} shoal_loss_options_t;
// (x - t)^2, |x - t|, and what is a square near 0 and straight further out.
SHOAL_API shoal_value_t shoal_nn_mse_loss_at(shoal_graph_t *graph, shoal_value_t x,
                                             shoal_value_t target,
                                             const shoal_loss_options_t *options, const char *file,
                                             int line);
SHOAL_API shoal_value_t shoal_nn_l1_loss_at(shoal_graph_t *graph, shoal_value_t x,
                                            shoal_value_t target,
                                            const shoal_loss_options_t *options, const char *file,
                                            int line);
SHOAL_API shoal_value_t shoal_nn_huber_loss_at(shoal_graph_t *graph, shoal_value_t x,
                                               shoal_value_t target,
                                               const shoal_loss_options_t *options,
                                               const char *file, int line);
SHOAL_API shoal_value_t shoal_nn_smooth_l1_loss_at(shoal_graph_t *graph, shoal_value_t x,
                                                   shoal_value_t target,
                                                   const shoal_loss_options_t *options,
                                                   const char *file, int line);
// Binary cross-entropy of probabilities, and of logits.
SHOAL_API shoal_value_t shoal_nn_bce_loss_at(shoal_graph_t *graph, shoal_value_t x,
                                             shoal_value_t target,
                                             const shoal_loss_options_t *options, const char *file,
                                             int line);
SHOAL_API shoal_value_t shoal_nn_bce_with_logits_loss_at(shoal_graph_t *graph, shoal_value_t x,
                                                         shoal_value_t target,
                                                         const shoal_loss_options_t *options,
                                                         const char *file, int line);
// Kullback-Leibler divergence of the target from e^x: most want SHOAL_REDUCTION_BATCH.
SHOAL_API shoal_value_t shoal_nn_kl_div_loss_at(shoal_graph_t *graph, shoal_value_t x,
                                                shoal_value_t target,
                                                const shoal_loss_options_t *options,
                                                const char *file, int line);
// Negative log-likelihood of counts whose rates are e^x.
SHOAL_API shoal_value_t shoal_nn_poisson_nll_loss_at(shoal_graph_t *graph, shoal_value_t x,
                                                     shoal_value_t target,
                                                     const shoal_loss_options_t *options,
                                                     const char *file, int line);
#define shoal_nn_mse_loss(graph, x, target, ...) \
  shoal_nn_mse_loss_at(graph, x, target, __VA_ARGS__, SHOAL_HERE)
#define shoal_nn_l1_loss(graph, x, target, ...) \
  shoal_nn_l1_loss_at(graph, x, target, __VA_ARGS__, SHOAL_HERE)
#define shoal_nn_huber_loss(graph, x, target, ...) \
  shoal_nn_huber_loss_at(graph, x, target, __VA_ARGS__, SHOAL_HERE)
#define shoal_nn_smooth_l1_loss(graph, x, target, ...) \
  shoal_nn_smooth_l1_loss_at(graph, x, target, __VA_ARGS__, SHOAL_HERE)
#define shoal_nn_bce_loss(graph, x, target, ...) \
  shoal_nn_bce_loss_at(graph, x, target, __VA_ARGS__, SHOAL_HERE)
#define shoal_nn_bce_with_logits_loss(graph, x, target, ...) \
  shoal_nn_bce_with_logits_loss_at(graph, x, target, __VA_ARGS__, SHOAL_HERE)
#define shoal_nn_kl_div_loss(graph, x, target, ...) \
  shoal_nn_kl_div_loss_at(graph, x, target, __VA_ARGS__, SHOAL_HERE)
#define shoal_nn_poisson_nll_loss(graph, x, target, ...) \
  shoal_nn_poisson_nll_loss_at(graph, x, target, __VA_ARGS__, SHOAL_HERE)

// Optimizers. lr is a value: the f32 scalar state "lr" (set with shoal_session_set), or lr_value if
// given.
typedef struct shoal_sgd {
  double lr, momentum, weight_decay;  // zeros: 1e-2, none, none
  bool nesterov;                      // needs a momentum
  shoal_value_t lr_value;             // zero: state "lr", initially .lr
} shoal_sgd_t;
typedef struct shoal_adam {
  double lr, beta1, beta2, eps;  // zeros: 1e-3, 0.9, 0.999, 1e-8
  double weight_decay;           // times the parameter is added to the gradient
  shoal_value_t lr_value;
} shoal_adam_t;
typedef struct shoal_adamw {
  double lr, beta1, beta2, eps, weight_decay;  // zeros: 1e-3, 0.9, 0.999, 1e-8, 0
  shoal_value_t lr_value;
} shoal_adamw_t;
typedef struct shoal_lion {
  double lr, beta1, beta2, weight_decay;  // zeros: 1e-4, 0.9, 0.99, 0
  shoal_value_t lr_value;
} shoal_lion_t;

// Adds backward and update nodes for every trainable state the graph reads that is not frozen, and
// counts the step. shoal_minimize is AdamW. Moments are states next to their parameter:
// "name#adamw.m", "name#adamw.v", "name#adam.m", "name#adam.v", "name#sgd.momentum", "name#lion.m".
// Options may be NULL.
SHOAL_API void shoal_minimize_sgd_at(shoal_graph_t *graph, shoal_value_t loss,
                                     const shoal_sgd_t *options, const char *file, int line);
SHOAL_API void shoal_minimize_adam_at(shoal_graph_t *graph, shoal_value_t loss,
                                      const shoal_adam_t *options, const char *file, int line);
SHOAL_API void shoal_minimize_lion_at(shoal_graph_t *graph, shoal_value_t loss,
                                      const shoal_lion_t *options, const char *file, int line);
SHOAL_API void shoal_minimize_at(shoal_graph_t *graph, shoal_value_t loss,
                                 const shoal_adamw_t *options, const char *file, int line);
#define shoal_minimize_sgd(graph, loss, ...) \
  shoal_minimize_sgd_at(graph, loss, __VA_ARGS__, SHOAL_HERE)
#define shoal_minimize_adam(graph, loss, ...) \
  shoal_minimize_adam_at(graph, loss, __VA_ARGS__, SHOAL_HERE)
#define shoal_minimize_lion(graph, loss, ...) \
  shoal_minimize_lion_at(graph, loss, __VA_ARGS__, SHOAL_HERE)
#define shoal_minimize(graph, loss, ...) shoal_minimize_at(graph, loss, __VA_ARGS__, SHOAL_HERE)

// Zoo models. Each builds the graphs "train" and "eval". All-zero options give small sizes for a
// demo.
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
