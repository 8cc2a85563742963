// T5: encoder and decoder with relative positions, RMS norms and no biases. B rows, S context of
// the encoder, T target of the decoder, C width, H heads, D their size, V vocabulary.
//   encoder   x = x + attn(norm x);  x = x + mlp(norm x)                [B, S, C]
//   decoder   y = y + attn(norm y);  y = y + cross(norm y, x);  y = y + mlp(norm y)   [B, T, C]
//   logits = y wte^T / sqrt(C) when tied (version 1.0), else head y     [B, T, V]
// Generation: prefill runs the encoder once and the decoder's first token, 0, and keeps keys and
// values of both; decode reads these. The target is how many tokens an answer has at most.
// The decoder reads the labels shifted by one, 0 first; a label of -100 is read as 0 and counts
// neither in the loss nor in its mean. Scores are not scaled; to those of attention to the own
// text is added a number per head and bucket of distances, the same in all blocks.
// References: Raffel et al. 2019; gated: version 1.1.
#include <math.h>

#include "zoo/family.h"

typedef struct settings {
  int64_t context, target, vocabulary, width, heads, head_size, layers, decoder_layers, hidden;
  int64_t buckets, distance;
  double dropout, norm_eps;
  bool gated, tied, padded;
} settings_t;

static const shoal_option_t SETTINGS[] = {
    SHOAL_ZOO_SETTING(INT, context, "64", "tokens per row"),
    SHOAL_ZOO_SETTING(INT, target, "32", "tokens per row of the labels"),
    SHOAL_ZOO_SETTING(INT, vocabulary, "256", "size of the vocabulary"),
    SHOAL_ZOO_SETTING(INT, width, "64", "width of the model"),
    SHOAL_ZOO_SETTING(INT, heads, "4", "attention heads"),
    SHOAL_ZOO_SETTING(INT, head_size, NULL, "width of a head; by default the width over the heads"),
    SHOAL_ZOO_SETTING(INT, layers, "2", "blocks"),
    SHOAL_ZOO_SETTING(INT, decoder_layers, NULL, "blocks of the decoder; by default as many"),
    SHOAL_ZOO_SETTING(INT, hidden, NULL, "width inside a block; by default 4 times the model's"),
    SHOAL_ZOO_SETTING(INT, buckets, "32", "buckets of distances"),
    SHOAL_ZOO_SETTING(INT, distance, "128", "distances from here on share a bucket"),
    SHOAL_ZOO_SHARE(dropout, NULL, "probability of dropping an activation"),
    SHOAL_ZOO_SETTING(REAL, norm_eps, "1e-6", "what norms add to the mean of squares"),
    SHOAL_ZOO_FLAG(gated, "false", "version 1.1: gelu-gated products instead of relu"),
    SHOAL_ZOO_FLAG(tied, "true", "the head reads the embedding"),
    SHOAL_ZOO_FLAG(padded, "false", "a further input mask, i32 [rows, context]: 0 is padding")};

#define T5 "vocabulary=32128 context=512 target=114 "
#define T511 T5 "gated=true tied=false "
static const shoal_zoo_preset_t PRESETS[] = {
    {"t5-tiny",
     "batch=3 context=5 target=4 vocabulary=11 width=12 heads=3 head_size=2 buckets=8 distance=5",
     "for tests"},
    {"t5-small", T5 "width=512 heads=8 layers=6 hidden=2048", "T5 small"},
    {"t5-base", T5 "width=768 heads=12 layers=12 hidden=3072", "T5 base"},
    {"t5-large", T5 "width=1024 heads=16 layers=24 hidden=4096", "T5 large"},
    {"t5-3b", T5 "width=1024 heads=32 head_size=128 layers=24 hidden=16384", "T5 3B"},
    {"t5-11b", T5 "width=1024 heads=128 head_size=128 layers=24 hidden=65536", "T5 11B"},
    {"t5-v1.1-small", T511 "width=512 heads=6 head_size=64 layers=8 hidden=1024", "T5 1.1 small"},
    {"t5-v1.1-base", T511 "width=768 heads=12 layers=12 hidden=2048", "T5 1.1 base"},
    {"t5-v1.1-large", T511 "width=1024 heads=16 layers=24 hidden=2816", "T5 1.1 large"},
    {"t5-v1.1-xl", T511 "width=2048 heads=32 layers=24 hidden=5120", "T5 1.1 XL"},
    {"t5-v1.1-xxl", T511 "width=4096 heads=64 layers=24 hidden=10240", "T5 1.1 XXL"}};

// Of variance 1 / fan.
static shoal_init_t normal(double fan) {
  return (shoal_init_t){SHOAL_INIT_NORMAL, 0, 1 / sqrt(fan)};
}

// x W without a bias.
static shoal_value_t product(shoal_graph_t *g, const char *name, shoal_value_t x, int64_t size,
                             double fan) {
  return shoal_nn_linear_with(
      g, name, x, size, &(shoal_nn_linear_options_t){.no_bias = true, .weight_init = normal(fan)});
}

static int64_t head_size(const settings_t *s) {
  return shoal_nn_size(s->head_size, s->width / s->heads);
}

static shoal_value_t heads_of(shoal_graph_t *g, const settings_t *s, const char *name,
                              shoal_value_t x, double fan) {
  const int64_t *d, D = head_size(s);
  x = product(g, name, x, s->heads * D, fan);
  const shoal_shape_t shape = shoal_value_type(x).shape;
  d = shape.dims;
  x = shoal_reshape(g, x, SHOAL_SHAPE(d[0], d[1], s->heads, D));
  return shoal_transpose(g, x, SHOAL_SHAPE(0, 2, 1, 3));
}

typedef struct view {  // what is seen of a memory
  shoal_value_t bias, mask;
  bool causal;
  int64_t keep;      // generation: keys and values of so many tokens are kept
  shoal_value_t at;  // of these the token at these positions [B] is written, and all are seen
} view_t;

// Keys and values of a memory, or where it is none those that were kept.
static void keys_of(shoal_graph_t *g, const shoal_zoo_job_t *job, shoal_value_t memory,
                    const view_t *view, shoal_value_t *out_keys, shoal_value_t *out_values) {
  static const char *const names[][2] = {{"cache_k", "cache_v"}, {"memory_k", "memory_v"}};
  const settings_t *s = job->settings;
  const bool own = view->causal || view->at.graph;
  shoal_value_t *const out[] = {out_keys, out_values};
  for (int i = 0; i < 2; ++i) {
    if (memory.graph) {
      *out[i] = heads_of(g, s, i == 0 ? "k" : "v", memory, (double)s->width);
      if (view->keep) *out[i] = shoal_nn_remember(g, names[!own][i], *out[i], view->keep, view->at);
    } else {
      const shoal_shape_t shape = SHOAL_SHAPE(job->rows, s->heads, view->keep, head_size(s));
      const shoal_state_options_t kept = {.not_saved = true};
      *out[i] = shoal_state(g, names[!own][i], job->dtype, shape, &kept);
    }
  }
}

// Attention of x to a memory: [B, T, C] x [B, S, C] -> [B, T, C].

static shoal_value_t attend(shoal_graph_t *g, const shoal_zoo_job_t *job, const char *name,
                            shoal_value_t x, shoal_value_t memory, const view_t *view) {
  const settings_t *s = job->settings;
  const shoal_shape_t shape = shoal_value_type(x).shape;
  const double C = (double)s->width, D = (double)head_size(s);
  shoal_attention_options_t with = {.scale = 1};
  if (view->bias.graph) with.bias = view->bias;
  if (view->mask.graph) with.mask = view->mask;
  shoal_scope_push(g, name);
  shoal_value_t q = heads_of(g, s, "q", x, C * D), k, v, y;
  keys_of(g, job, memory, view, &k, &v);
  shoal_attention_with(g, q, k, v, view->causal, &with, &y, NULL);
  y = shoal_transpose(g, y, SHOAL_SHAPE(0, 2, 1, 3));
  y = shoal_reshape(g, y, SHOAL_SHAPE(shape.dims[0], shape.dims[1], s->heads * head_size(s)));
  y = product(g, "o", y, s->width, (double)s->heads * D);
  shoal_scope_pop(g);
  return y;
}

static shoal_value_t mlp(shoal_graph_t *g, const settings_t *s, shoal_value_t x) {
  const int64_t F = shoal_nn_size(s->hidden, 4 * s->width);
  const double in = (double)s->width;
  shoal_scope_push(g, "mlp");
  shoal_value_t h = product(g, s->gated ? "wi_0" : "wi", x, F, in);
  h = s->gated ? shoal_gelu(g, h) : shoal_relu(g, h);
  if (s->gated) h = shoal_mul(g, h, product(g, "wi_1", x, F, in));
  shoal_value_t y = product(g, "wo", h, s->width, (double)F);
  shoal_scope_pop(g);
  return y;
}

// ---- relative positions -------------------------------------------------------------------------

// The first distance of bucket `exact + i`, as PyTorch rounds it: log(d / exact) / log(distance /
// exact) (count - exact), in f32, reaches i.
static int64_t threshold(const settings_t *s, int64_t exact, int64_t count, int64_t i) {
  const float all = logf((float)s->distance / (float)exact);
  int64_t d = exact;
  for (; d < s->distance; ++d) {
    if (logf((float)d / (float)exact) / all * (float)(count - exact) >= (float)i) break;
  }
  return d;
}

// Scores' bias [1, H, T, T] of a text that sees itself; or [B, H, 1, keep] of tokens that stand at
// view->at and see as many.
static shoal_value_t relative(shoal_graph_t *g, const shoal_zoo_job_t *job, int64_t T,
                              const view_t *view) {
  const settings_t *s = job->settings;
  const bool places = view->at.graph != NULL, causal = view->causal || places;
  const int64_t count = causal ? s->buckets : s->buckets / 2, exact = count / 2;
  const shoal_shape_t scores =
      places ? SHOAL_SHAPE(job->rows, 1, view->keep) : SHOAL_SHAPE(1, T, T);
  const shoal_shape_t one = SHOAL_SHAPE(1, 1, 1);
  shoal_scope_push(g, "relative");
  shoal_value_t queries = places ? shoal_reshape(g, view->at, SHOAL_SHAPE(job->rows, 1, 1))
                                 : shoal_iota(g, scores, 1, SHOAL_I32);
  shoal_value_t ahead = shoal_sub(g, shoal_iota(g, scores, 2, SHOAL_I32), queries);
  shoal_value_t zero = shoal_full(g, one, 0, SHOAL_I32), bucket;
  shoal_value_t apart = causal ? shoal_neg(g, shoal_minimum(g, ahead, zero)) : shoal_abs(g, ahead);
  bucket = shoal_minimum(g, apart, shoal_full(g, one, (double)exact, SHOAL_I32));
  for (int64_t i = 1; i < count - exact; ++i) {
    const double from = (double)threshold(s, exact, count, i);
    shoal_value_t far = shoal_greater_equal(g, apart, shoal_full(g, one, from, SHOAL_I32));
    bucket = shoal_add(g, bucket, shoal_cast(g, far, SHOAL_I32));
  }
  if (!causal) {
    shoal_value_t behind = shoal_cast(g, shoal_greater(g, ahead, zero), SHOAL_I32);
    shoal_value_t half = shoal_full(g, one, (double)count, SHOAL_I32);
    bucket = shoal_add(g, bucket, shoal_mul(g, behind, half));
  }
  shoal_value_t table = shoal_nn_parameter(
      g, "table", job->dtype, SHOAL_SHAPE(s->buckets, s->heads), normal((double)s->width));
  bucket = shoal_embedding(g, table, bucket);  // [1 or B, T or 1, keys, H]
  shoal_value_t bias = shoal_transpose(g, bucket, SHOAL_SHAPE(0, 3, 1, 2));
  shoal_scope_pop(g);
  return bias;
}

// ---- the model ----------------------------------------------------------------------------------

typedef struct half {  // encoder or decoder
  const shoal_zoo_job_t *job;
  const settings_t *s;
  double p;
} half_t;

static shoal_value_t norm(shoal_graph_t *g, const half_t *h, const char *name, shoal_value_t x) {
  return shoal_zoo_rms(g, name, x, h->s->norm_eps);
}

static shoal_value_t add(shoal_graph_t *g, const half_t *h, const char *name, shoal_value_t x,
                         shoal_value_t y) {
  return shoal_add(g, x, shoal_nn_dropout(g, name, y, h->p));
}

static shoal_value_t stack(shoal_graph_t *g, const half_t *h, const char *name, shoal_value_t x,
                           const view_t *own, shoal_value_t memory, const view_t *other,
                           int64_t layers) {
  shoal_scope_push(g, name);
  const int64_t T = shoal_value_type(x).shape.dims[1];
  view_t view = *own;
  view.bias = relative(g, h->job, T, own);
  x = shoal_nn_dropout(g, "drop", x, h->p);
  for (int64_t i = 0; i < layers; ++i) {
    shoal_zoo_scope(g, "block", i);
    shoal_value_t y = norm(g, h, "norm_1", x);
    x = add(g, h, "attn_drop", x, attend(g, h->job, "attn", y, y, &view));
    if (other) {
      y = norm(g, h, "norm_2", x);
      x = add(g, h, "cross_drop", x, attend(g, h->job, "cross", y, memory, other));
    }
    y = norm(g, h, "norm_3", x);
    x = add(g, h, "mlp_drop", x, mlp(g, h->s, y));
    shoal_scope_pop(g);
  }
  x = shoal_nn_dropout(g, "drop_f", norm(g, h, "norm_f", x), h->p);
  shoal_scope_pop(g);
  return x;
}

// What the decoder reads: 0, and then the labels but the last, -100 as 0.
static shoal_value_t shifted(shoal_graph_t *g, shoal_value_t labels) {
  const shoal_shape_t shape = shoal_value_type(labels).shape;
  shoal_value_t x = shoal_full(g, SHOAL_SHAPE(shape.dims[0], 1), 0, SHOAL_I32);
  if (shape.dims[1] > 1) {
    const shoal_shape_t fewer = SHOAL_SHAPE(shape.dims[0], shape.dims[1] - 1);
    const shoal_value_t both[] = {x, shoal_slice(g, labels, SHOAL_SHAPE(0, 0), fewer)};
    x = shoal_concat(g, 2, both, 1);
  }
  return shoal_maximum(g, x, shoal_full(g, SHOAL_SHAPE(1, 1), 0, SHOAL_I32));
}

// Which of so many tokens are before the end of their row: bools [B, 1, 1, size].
static shoal_value_t before(shoal_graph_t *g, shoal_value_t ends, int64_t size) {
  const int64_t rows = shoal_value_type(ends).shape.dims[0];
  shoal_value_t places = shoal_iota(g, SHOAL_SHAPE(1, 1, 1, size), 3, SHOAL_I32);
  return shoal_less(g, places, shoal_reshape(g, ends, SHOAL_SHAPE(rows, 1, 1, 1)));
}

static shoal_value_t logits_of(shoal_graph_t *g, const shoal_zoo_job_t *job, shoal_value_t y) {
  const settings_t *s = job->settings;
  if (s->tied) y = shoal_affine(g, y, 1 / sqrt((double)s->width), 0);
  return shoal_zoo_head(g, job, y, s->vocabulary, s->tied);
}

static shoal_value_t word_table(shoal_graph_t *g, const shoal_zoo_job_t *job) {
  const settings_t *s = job->settings;
  return shoal_nn_parameter(g, "wte/table", job->dtype, SHOAL_SHAPE(s->vocabulary, s->width),
                            normal(1));
}

// The graphs of generation: prefill, which reads the text, and decode, of one token of an answer.
static void generate(shoal_graph_t *g, const half_t *h) {
  const shoal_zoo_job_t *job = h->job;
  const settings_t *s = h->s;
  const bool first = job->phase == SHOAL_ZOO_PREFILL;
  const shoal_state_options_t kept = {.not_saved = true};
  view_t own = {.causal = first, .keep = s->target}, all = {.keep = s->context};
  shoal_value_t x = shoal_none(), words = word_table(g, job), answer;
  shoal_value_t ends = shoal_state(g, "memory_lengths", SHOAL_I32, SHOAL_SHAPE(job->rows), &kept);
  if (first) {
    const int64_t tokens = shoal_zoo_tokens(g, job, s->context);
    shoal_value_t ids = shoal_input(g, "ids", SHOAL_I32, SHOAL_SHAPE(job->rows, tokens));
    shoal_value_t lengths = shoal_input(g, "lengths", SHOAL_I32, SHOAL_SHAPE(job->rows));
    shoal_assign(g, ends, lengths);
    all.mask = before(g, lengths, tokens);
    const view_t text = {.mask = all.mask};
    x = stack(g, h, "encoder", shoal_embedding(g, words, ids), &text, shoal_none(), NULL,
              s->layers);
    answer = shoal_full(g, SHOAL_SHAPE(job->rows, 1), 0, SHOAL_I32);
  } else {
    answer = shoal_input(g, "ids", SHOAL_I32, SHOAL_SHAPE(job->rows, 1));
    own.at = shoal_input(g, "positions", SHOAL_I32, SHOAL_SHAPE(job->rows));
    shoal_value_t behind = shoal_full(g, SHOAL_SHAPE(1), 1, SHOAL_I32);
    own.mask = before(g, shoal_add(g, own.at, behind), s->target);
    all.mask = before(g, ends, s->context);
  }
  shoal_value_t y = stack(g, h, "decoder", shoal_embedding(g, words, answer), &own, x, &all,
                          shoal_nn_size(s->decoder_layers, s->layers));
  shoal_value_t logits = logits_of(g, job, y);
  shoal_output(g, "logits", shoal_reshape(g, logits, SHOAL_SHAPE(job->rows, s->vocabulary)));
}

static void build(shoal_graph_t *g, const shoal_zoo_job_t *job) {
  const settings_t *s = job->settings;
  const half_t h = {job, s, job->phase == SHOAL_ZOO_TRAIN ? s->dropout : 0};
  if (job->phase == SHOAL_ZOO_PREFILL || job->phase == SHOAL_ZOO_DECODE) {
    generate(g, &h);
    return;
  }
  const int64_t tokens = shoal_zoo_tokens(g, job, s->context);
  shoal_value_t ids = shoal_input(g, "ids", SHOAL_I32, SHOAL_SHAPE(job->rows, tokens));
  shoal_value_t labels = shoal_input(g, "labels", SHOAL_I32, SHOAL_SHAPE(job->rows, s->target));
  view_t all = {0}, own = {.causal = true};
  if (s->padded) {
    shoal_value_t mask = shoal_input(g, "mask", SHOAL_I32, SHOAL_SHAPE(job->rows, tokens));
    mask = shoal_reshape(g, mask, SHOAL_SHAPE(job->rows, 1, 1, tokens));
    all.mask = shoal_cast(g, mask, SHOAL_BOOL);
  }
  shoal_value_t words = word_table(g, job);
  shoal_value_t x =
      stack(g, &h, "encoder", shoal_embedding(g, words, ids), &all, shoal_none(), NULL, s->layers);
  shoal_value_t y = stack(g, &h, "decoder", shoal_embedding(g, words, shifted(g, labels)), &own, x,
                          &all, shoal_nn_size(s->decoder_layers, s->layers));
  shoal_value_t logits = logits_of(g, job, y);
  shoal_zoo_end(g, job, shoal_nn_cross_entropy_with(g, logits, labels, NULL), logits);
}

static const shoal_zoo_key_t KEYS[] = {{"vocabulary", "vocab_size"},
                                       {"width", "d_model"},
                                       {"heads", "num_heads"},
                                       {"head_size", "d_kv"},
                                       {"layers", "num_layers"},
                                       {"decoder_layers", "num_decoder_layers"},
                                       {"hidden", "d_ff"},
                                       {"buckets", "relative_attention_num_buckets"},
                                       {"distance", "relative_attention_max_distance"},
                                       {"norm_eps", "layer_norm_epsilon"},
                                       {"tied", "tie_word_embeddings"}};

static void attention_names(shoal_zoo_map_t *map, const char *half, const char *ours, int64_t layer,
                            const char *theirs) {
  static const char *const parts[] = {"q", "k", "v", "o"};
  for (int i = 0; i < 4; ++i)
    shoal_zoo_map_linear(map, shoal_zoo_map_text(map, "%s/block#/%s/%s", half, ours, parts[i]),
                         shoal_zoo_map_text(map, "%s.block.#.layer.%lld.%s.%s", half,
                                            (long long)layer, theirs, parts[i]),
                         false);
}

static void half_names(shoal_zoo_map_t *map, const settings_t *s, const char *half, int64_t layers,
                       bool decodes) {
  SHOAL_ZOO_SAME(map, shoal_zoo_map_text(map, "%s/relative/table", half),
                 shoal_zoo_map_text(
                     map, "%s.block.0.layer.0.SelfAttention.relative_attention_bias.weight", half));
  SHOAL_ZOO_AGAIN(map, "wte/table", shoal_zoo_map_text(map, "%s.embed_tokens.weight", half));
  for (map->number = 0; map->number < layers; ++map->number) {
    const int64_t last = decodes ? 2 : 1;
    attention_names(map, half, "attn", 0, "SelfAttention");
    if (decodes) attention_names(map, half, "cross", 1, "EncDecAttention");
    for (int64_t n = 0; n <= last; ++n)
      shoal_zoo_map_norm(
          map, shoal_zoo_map_text(map, "%s/block#/norm_%d", half, n == last ? 3 : (int)n + 1),
          shoal_zoo_map_text(map, "%s.block.#.layer.%lld.layer_norm", half, (long long)n), false);
    for (int i = 0; i < 3; ++i) {
      static const char *const parts[2][3] = {{"wi", "wo", NULL}, {"wi_0", "wi_1", "wo"}};
      const char *part = parts[s->gated][i];
      if (part)
        shoal_zoo_map_linear(map, shoal_zoo_map_text(map, "%s/block#/mlp/%s", half, part),
                             shoal_zoo_map_text(map, "%s.block.#.layer.%lld.DenseReluDense.%s",
                                                half, (long long)last, part),
                             false);
    }
  }
  shoal_zoo_map_norm(map, shoal_zoo_map_text(map, "%s/norm_f", half),
                     shoal_zoo_map_text(map, "%s.final_layer_norm", half), false);
}

// Hugging Face's T5ForConditionalGeneration.
static void names(const void *settings, shoal_zoo_map_t *map) {
  const settings_t *s = settings;
  SHOAL_ZOO_SAME(map, "wte/table", "shared.weight");
  half_names(map, s, "encoder", s->layers, false);
  half_names(map, s, "decoder", shoal_nn_size(s->decoder_layers, s->layers), true);
  shoal_zoo_map_head(map, s->tied);
}

const shoal_zoo_family_t shoal_zoo_family_t5 = {
    .name = "t5",
    .doc = "T5 1.0 and 1.1: encoder and decoder with relative positions",
    SHOAL_ZOO_SETTINGS(SETTINGS),
    SHOAL_ZOO_PRESETS(PRESETS),
    .rows = 8,
    .sees_ahead = true,
    .phases = SHOAL_ZOO_DECODER,
    .build = build,
    .model_type = "t5",
    SHOAL_ZOO_KEYS(KEYS),
    .names = names};
