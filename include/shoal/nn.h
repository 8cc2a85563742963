// Shoal, nn: layers and losses; how models are trained is in optimize.h. They only build graphs;
// everything here could be written by a user with graph.h and ops.h.
#ifndef SHOAL_NN_H_
#define SHOAL_NN_H_

#include "shoal/graph.h"
#include "shoal/optimize.h"

#ifdef __cplusplus
extern "C" {
#endif

// Initial values, as torch.nn.init has them. Of a weight [in, out] fan_in is `in` and fan_out is
// `out`; of a convolution's both are times the elements of its window. A gain of 0 is 1 for xavier,
// and for kaiming that of relu, the root of 2. Kaiming's fan is one of the two, most often fan_in.
SHOAL_API shoal_init_t shoal_init_xavier_uniform(double fan_in, double fan_out, double gain);
SHOAL_API shoal_init_t shoal_init_xavier_normal(double fan_in, double fan_out, double gain);
SHOAL_API shoal_init_t shoal_init_kaiming_uniform(double fan, double gain);
SHOAL_API shoal_init_t shoal_init_kaiming_normal(double fan, double gain);
// The gain for layers with an activation: "none", "relu", "leaky_relu" (slope 0.01), "tanh",
// "sigmoid" or "selu"; NaN for others, which no state accepts.
SHOAL_API double shoal_init_gain(const char *activation);

// Layers. Their states are in scope `name` and have the dtype of x. The macros without _at give the
// caller's file and line to errors. Options with an `init` take it instead of the layer's own; one
// that is all zeros is the layer's own, and {SHOAL_INIT_FILL, 0} means zeros.

// A trainable state in the current scope, for layers of your own, as a value of this dtype. In
// mixed precision the state is f32 and the value a cast of it.
SHOAL_API shoal_value_t shoal_nn_parameter_at(shoal_graph_t *graph, const char *name,
                                              shoal_dtype_t dtype, shoal_shape_t shape,
                                              shoal_init_t init, const char *file, int line);
// y = x W + b over the last dim; states "name/weight" [in, out] and "name/bias" [out].
SHOAL_API shoal_value_t shoal_nn_linear_at(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                           int64_t out_features, const char *file, int line);
// The same with options, which may be NULL.
typedef struct shoal_nn_linear_options {
  bool no_bias;            // the state "name/bias" does not exist
  const char *activation;  // of the result (shoal_nn_activation); NULL: none
  // Own ones: uniform within 1 / sqrt(in); zeros.
  shoal_init_t weight_init, bias_init;
} shoal_nn_linear_options_t;
SHOAL_API shoal_value_t shoal_nn_linear_with_at(shoal_graph_t *graph, const char *name,
                                                shoal_value_t x, int64_t out_features,
                                                const shoal_nn_linear_options_t *options,
                                                const char *file, int line);
// Rows of the state "name/table" [rows, width].
SHOAL_API shoal_value_t shoal_nn_embedding_at(shoal_graph_t *graph, const char *name,
                                              shoal_value_t ids, int64_t rows, int64_t width,
                                              shoal_dtype_t dtype, const char *file, int line);
// The same with options, which may be NULL.
typedef struct shoal_nn_embedding_options {
  shoal_init_t init;  // own one: normal of deviation 0.02
} shoal_nn_embedding_options_t;
SHOAL_API shoal_value_t shoal_nn_embedding_with_at(shoal_graph_t *graph, const char *name,
                                                   shoal_value_t ids, int64_t rows, int64_t width,
                                                   shoal_dtype_t dtype,
                                                   const shoal_nn_embedding_options_t *options,
                                                   const char *file, int line);
// Rows of the state "name/table" [rows, width] joined in bags, [bags, width]: bag b has the rows
// ids[offsets[b]] to ids[offsets[b + 1]], the last one all that follow. Options may be NULL.
typedef struct shoal_nn_embedding_bag_options {
  const char *mode;       // "sum", "mean" or "max"; NULL: "mean", or "sum" with weights
  shoal_value_t weights;  // factor of each id, for sums; zero: none
  shoal_init_t init;      // own one: normal of deviation 0.02
} shoal_nn_embedding_bag_options_t;
SHOAL_API shoal_value_t shoal_nn_embedding_bag_at(shoal_graph_t *graph, const char *name,
                                                  shoal_value_t ids, shoal_value_t offsets,
                                                  int64_t rows, int64_t width, shoal_dtype_t dtype,
                                                  const shoal_nn_embedding_bag_options_t *options,
                                                  const char *file, int line);
// An activation by name, without states: "relu", "gelu" (its tanh form), "gelu_erf", "silu",
// "tanh", "sigmoid", "leaky_relu", "elu", "celu", "selu", "softplus", "softsign", "mish",
// "hard_swish", "hard_sigmoid", "log_sigmoid", with their default attributes; "none" or NULL: x.
SHOAL_API shoal_value_t shoal_nn_activation_at(shoal_graph_t *graph, const char *name,
                                               shoal_value_t x, const char *file, int line);
// Parts of x along an axis (-1: the last), `count` of them, of the given sizes; without sizes,
// equal ones.
SHOAL_API void shoal_nn_split_at(shoal_graph_t *graph, shoal_value_t x, int64_t axis, int32_t count,
                                 const int64_t *sizes, shoal_value_t *out_parts, const char *file,
                                 int line);
// Over the last dim; states "name/gamma" and "name/beta".
SHOAL_API shoal_value_t shoal_nn_layer_norm_at(shoal_graph_t *graph, const char *name,
                                               shoal_value_t x, const char *file, int line);
// The same with options, which may be NULL: over several dims gamma and beta have all of them.
typedef struct shoal_nn_layer_norm_options {
  double eps;    // added to the variance; 0: 1e-5
  int64_t dims;  // so many of the last dims are normed over together; 0: 1
  bool no_gamma, no_beta;
} shoal_nn_layer_norm_options_t;
SHOAL_API shoal_value_t shoal_nn_layer_norm_with_at(shoal_graph_t *graph, const char *name,
                                                    shoal_value_t x,
                                                    const shoal_nn_layer_norm_options_t *options,
                                                    const char *file, int line);
// x / sqrt(mean of x^2 + 1e-5) times the state "name/gamma", over the last dim.
SHOAL_API shoal_value_t shoal_nn_rms_norm_at(shoal_graph_t *graph, const char *name,
                                             shoal_value_t x, const char *file, int line);
// The same with options, which may be NULL.
typedef struct shoal_nn_rms_norm_options {
  double eps;  // 0: 1e-5
  bool no_gamma;
} shoal_nn_rms_norm_options_t;
SHOAL_API shoal_value_t shoal_nn_rms_norm_with_at(shoal_graph_t *graph, const char *name,
                                                  shoal_value_t x,
                                                  const shoal_nn_rms_norm_options_t *options,
                                                  const char *file, int line);
// Norms of x [N, C, ...] with states "name/gamma" and "name/beta" [C]. Options may be NULL.
typedef struct shoal_nn_norm_options {
  double eps;         // added to the variance; 0: 1e-5
  double momentum;    // batch norm: how fast running statistics follow those of a step; 0: 0.1
  bool no_affine;     // no gamma and beta
  bool eval;          // batch norm: normalise by the running statistics and leave them as they are
  bool keep_running;  // batch norm: the running statistics do not follow those of this step: for a
                      // layer that a graph uses twice
  shoal_init_t gamma_init;  // own one: ones
} shoal_nn_norm_options_t;
// Each channel over all else. In training it uses the statistics of the step, on all ranks
// together, and writes the running ones, the states "name/running_mean" and "name/running_variance"
// [C] (unbiased), which a graph for evaluation then uses.
SHOAL_API shoal_value_t shoal_nn_batch_norm_at(shoal_graph_t *graph, const char *name,
                                               shoal_value_t x,
                                               const shoal_nn_norm_options_t *options,
                                               const char *file, int line);
// Each group of channels of each row; 0 groups: as many as channels, which is instance norm.
SHOAL_API shoal_value_t shoal_nn_group_norm_at(shoal_graph_t *graph, const char *name,
                                               shoal_value_t x, int64_t groups,
                                               const shoal_nn_norm_options_t *options,
                                               const char *file, int line);
// Zeroes elements with probability p and scales the others by 1 / (1 - p). Which ones depends on
// the model's seed, on "name" and on the step number, which the graph then counts (shoal_step).
SHOAL_API shoal_value_t shoal_nn_dropout_at(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                            double p, const char *file, int line);
// Hides tokens of ids [B, T] for a model that guesses them (BERT). A share of the tokens is picked
// at random, at least one of each row; of these, 80 % become mask_id, 10 % any token of the
// vocabulary, and 10 % stay. *out_ids is what the model reads; *out_labels has the tokens that were
// picked and -100 elsewhere, for shoal_nn_cross_entropy_with. Which ones are picked depends on the
// model's seed, on "name", on the step number and on the place in the batch. Options may be NULL.
typedef struct shoal_nn_mask_options {
  double share;        // 0: 0.15
  int64_t mask_id;     // 0: the last of the vocabulary
  shoal_value_t seen;  // bools [B, T], false where a token is padding and not picked; zero: none is
  bool same;           // the same in every step, for evaluation; the graph then counts no steps
} shoal_nn_mask_options_t;
SHOAL_API void shoal_nn_mask_tokens_at(shoal_graph_t *graph, const char *name, shoal_value_t ids,
                                       int64_t vocabulary, const shoal_nn_mask_options_t *options,
                                       shoal_value_t *out_ids, shoal_value_t *out_labels,
                                       const char *file, int line);
// Convolution of x [N, C, ...] over its one to three last dims, `kernel` wide along each; states
// "name/weight" [channels, C / groups, kernel, ...] and "name/bias" [channels]. Options may be
// NULL. Transposed: "name/weight" is [C, channels / groups, kernel, ...].
typedef struct shoal_nn_conv_options {
  int64_t stride, dilation;  // 0: 1
  int64_t padding;           // zeros on both sides of each dim
  int64_t groups;            // of channels, each of which sees its own; 0: 1
  int64_t output_padding;    // transposed: so many elements more at the end of each dim
  bool no_bias;
  // Own ones: uniform within 1 / sqrt(elements that make one of the result); zeros.
  shoal_init_t weight_init, bias_init;
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
// Mean over all labels of -log softmax(logits)[label]; logits [..., classes], labels [...]. A label
// of -100 costs nothing, but counts in the mean; shoal_nn_cross_entropy_with leaves it out of both.
SHOAL_API shoal_value_t shoal_nn_cross_entropy_at(shoal_graph_t *graph, shoal_value_t logits,
                                                  shoal_value_t labels, const char *file, int line);
// Multi-head causal self-attention on [B, T, C] with one fused QKV weight: states "name/qkv/weight"
// [C, 3 C], "name/qkv/bias", "name/proj/weight" [C, C], "name/proj/bias".
SHOAL_API shoal_value_t shoal_nn_self_attention_at(shoal_graph_t *graph, const char *name,
                                                   shoal_value_t x, int64_t heads, const char *file,
                                                   int line);
// The same with options, which may be NULL. With fewer key heads, groups of heads share keys and
// values: "name/qkv/weight" is [C, C + 2 C key_heads / heads].
typedef struct shoal_nn_attention_options {
  int64_t key_heads;   // heads of keys and values, which divide heads; 0: as many
  int64_t window;      // a position sees only those less than so many away; 0: all
  bool sees_ahead;     // not causal
  bool no_bias;        // of the two products
  bool rotary;         // queries and keys turn by their position (shoal.rotary)
  double rotary_base;  // 0: 10000
  // For texts longer than those of training: positions are stretched by a factor (0: 1); with the
  // context of training as `original`, as in Llama 3.1 (shoal.rotary; 0: low is 1 and high is 4).
  double rotary_factor, rotary_low, rotary_high;
  int64_t rotary_original;
  double dropout;      // probability that a weight of the softmax is dropped
  shoal_value_t bias;  // added to the scores, [B or 1, heads or 1, T or 1, T or 1]; zero: none
  shoal_value_t mask;  // bools of such a shape, true where a position is seen; zero: none
  int64_t head_size;   // elements of a head, whatever C is: "name/proj/weight" is [heads of it, C],
                       // and so on; 0: C / heads
  double scale;        // factor of the scores; 0: 1 / sqrt(head_size)
  // Self-attention that remembers keys and values of so many positions in the states "name/cache_k"
  // and "name/cache_v" [B, key_heads, cache, head_size], which are not saved. Without `positions`
  // they become those of x, from the first one on. With them (i32 or i64 [B]) x is one token of
  // each row [B, 1, C] that stands there, and sees what is remembered up to itself. 0: none.
  int64_t cache;
  shoal_value_t positions;
  // Of the products before and behind; own ones: normal of deviation 0.02.
  shoal_init_t weight_init, proj_init;
} shoal_nn_attention_options_t;
SHOAL_API shoal_value_t shoal_nn_self_attention_with_at(shoal_graph_t *graph, const char *name,
                                                        shoal_value_t x, int64_t heads,
                                                        const shoal_nn_attention_options_t *options,
                                                        const char *file, int line);
// Attention of x [B, T, C] to a memory [B, S, M], all of which is seen: states "name/q/weight"
// [C, C], "name/kv/weight" [M, 2 C key_heads / heads] and "name/proj/weight" [C, C], and "bias"
// next to each. Of the options, sees_ahead makes no difference; bias and mask are [.., T, S].
SHOAL_API shoal_value_t shoal_nn_cross_attention_at(shoal_graph_t *graph, const char *name,
                                                    shoal_value_t x, shoal_value_t memory,
                                                    int64_t heads,
                                                    const shoal_nn_attention_options_t *options,
                                                    const char *file, int line);
// For generation: keeps keys or values x [B, H, T, D] in the state "name" [B, H, size, D], which is
// not saved. Without positions (shoal_none) x becomes its first T, and is the result; with
// positions [B], i32 or i64, x is of one token of each row (T = 1), written where that stands, and
// the result is the whole state.
SHOAL_API shoal_value_t shoal_nn_remember_at(shoal_graph_t *graph, const char *name,
                                             shoal_value_t x, int64_t size, shoal_value_t positions,
                                             const char *file, int line);

#define shoal_nn_parameter(graph, name, dtype, ...) \
  shoal_nn_parameter_at(graph, name, dtype, __VA_ARGS__, SHOAL_HERE)  // shape, init
#define shoal_nn_linear(graph, name, x, out_features) \
  shoal_nn_linear_at(graph, name, x, out_features, SHOAL_HERE)
#define shoal_nn_embedding(graph, name, ids, rows, width, dtype) \
  shoal_nn_embedding_at(graph, name, ids, rows, width, dtype, SHOAL_HERE)
#define shoal_nn_embedding_with(graph, name, ids, rows, width, dtype, ...) \
  shoal_nn_embedding_with_at(graph, name, ids, rows, width, dtype, __VA_ARGS__, SHOAL_HERE)
#define shoal_nn_linear_with(graph, name, x, out_features, ...) \
  shoal_nn_linear_with_at(graph, name, x, out_features, __VA_ARGS__, SHOAL_HERE)
#define shoal_nn_embedding_bag(graph, name, ids, offsets, rows, width, dtype, ...) \
  shoal_nn_embedding_bag_at(graph, name, ids, offsets, rows, width, dtype, __VA_ARGS__, SHOAL_HERE)
#define shoal_nn_activation(graph, name, x) shoal_nn_activation_at(graph, name, x, SHOAL_HERE)
#define shoal_nn_split(graph, x, axis, count, ...) \
  shoal_nn_split_at(graph, x, axis, count, __VA_ARGS__, SHOAL_HERE)  // sizes, out_parts
#define shoal_nn_layer_norm(graph, name, x) shoal_nn_layer_norm_at(graph, name, x, SHOAL_HERE)
#define shoal_nn_layer_norm_with(graph, name, x, ...) \
  shoal_nn_layer_norm_with_at(graph, name, x, __VA_ARGS__, SHOAL_HERE)
#define shoal_nn_rms_norm(graph, name, x) shoal_nn_rms_norm_at(graph, name, x, SHOAL_HERE)
#define shoal_nn_rms_norm_with(graph, name, x, ...) \
  shoal_nn_rms_norm_with_at(graph, name, x, __VA_ARGS__, SHOAL_HERE)
#define shoal_nn_batch_norm(graph, name, x, ...) \
  shoal_nn_batch_norm_at(graph, name, x, __VA_ARGS__, SHOAL_HERE)
#define shoal_nn_group_norm(graph, name, x, groups, ...) \
  shoal_nn_group_norm_at(graph, name, x, groups, __VA_ARGS__, SHOAL_HERE)
#define shoal_nn_dropout(graph, name, x, p) shoal_nn_dropout_at(graph, name, x, p, SHOAL_HERE)
#define shoal_nn_mask_tokens(graph, name, ids, vocabulary, ...) \
  shoal_nn_mask_tokens_at(graph, name, ids, vocabulary, __VA_ARGS__, SHOAL_HERE)
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
#define shoal_nn_cross_attention(graph, name, x, memory, heads, ...) \
  shoal_nn_cross_attention_at(graph, name, x, memory, heads, __VA_ARGS__, SHOAL_HERE)
#define shoal_nn_self_attention_with(graph, name, x, heads, ...) \
  shoal_nn_self_attention_with_at(graph, name, x, heads, __VA_ARGS__, SHOAL_HERE)
#define shoal_nn_remember(graph, name, x, size, positions) \
  shoal_nn_remember_at(graph, name, x, size, positions, SHOAL_HERE)

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

// Cross-entropy of logits [..., classes] and labels [...]. The mean is over the labels that are not
// ignored, weighted by their classes; NaN if there are none. Options may be NULL.
typedef struct shoal_nn_cross_entropy_options {
  shoal_reduction_t reduction;
  shoal_value_t weights;  // factor of each class, [classes]; zero: none
  double smoothing;       // share of a label's cost that is spread over all classes, in [0, 1]
  const int64_t *ignore;  // a label that costs nothing; NULL: -100
} shoal_nn_cross_entropy_options_t;
SHOAL_API shoal_value_t shoal_nn_cross_entropy_with_at(
    shoal_graph_t *graph, shoal_value_t logits, shoal_value_t labels,
    const shoal_nn_cross_entropy_options_t *options, const char *file, int line);
#define shoal_nn_cross_entropy_with(graph, logits, labels, ...) \
  shoal_nn_cross_entropy_with_at(graph, logits, labels, __VA_ARGS__, SHOAL_HERE)

// Einstein sum of 1 to 32 values, as numpy and PyTorch write it: "bij,bjk->bik", "...ij->...ji",
// "ii->i", "i,i". An ellipsis stands for the dims that no letter names; without "->" the result has
// those and then the letters that occur once, in order; a letter twice in a term takes the
// diagonal. Operands of size 1 are repeated. They are multiplied from left to right, and a letter
// is summed as soon as nothing else needs it.
SHOAL_API shoal_value_t shoal_nn_einsum_at(shoal_graph_t *graph, const char *equation,
                                           int32_t count, const shoal_value_t *values,
                                           const char *file, int line);
#define shoal_nn_einsum(graph, equation, ...) \
  shoal_nn_einsum_at(graph, equation, __VA_ARGS__, SHOAL_HERE)  // graph, equation, count, values

// Numbers in place of NaN and infinities; the others keep their gradient. Options may be NULL.
typedef struct shoal_nn_nan_to_num_options {
  double nan;                   // in place of NaN
  const double *above, *below;  // of inf and -inf; NULL: the largest and the least number there is
} shoal_nn_nan_to_num_options_t;
SHOAL_API shoal_value_t shoal_nn_nan_to_num_at(shoal_graph_t *graph, shoal_value_t x,
                                               const shoal_nn_nan_to_num_options_t *options,
                                               const char *file, int line);
#define shoal_nn_nan_to_num(graph, x, ...) shoal_nn_nan_to_num_at(graph, x, __VA_ARGS__, SHOAL_HERE)

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_NN_H_
