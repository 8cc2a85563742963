// BERT: an encoder, post-norm, that guesses masked tokens, or sorts texts into classes. B rows,
// T context, C width, V vocabulary.
//   x = ln(wte[ids] + wpe + types[type])                                [B, T, C]
//   x = ln_1(x + attn x);  x = ln_2(x + mlp x)                          per block
//   masked tokens: logits = ln(gelu(dense x)) wte^T + bias              [B, T, V]
//   classes: logits = classifier tanh(pooler x_0)                       [B, classes]
// A share of the tokens is masked, others in each step, and in evaluation always the same. With
// masked=0 that is the data's business: labels are -100 where nothing is to be guessed, and count
// neither in the loss nor in its mean.
// Reference: Devlin et al. 2018.
#include "zoo/family.h"

typedef struct settings {
  int64_t context, vocabulary, width, heads, layers, hidden, positions, types, classes;
  int64_t mask_id;
  double dropout, norm_eps, masked;
  bool typed, padded;
} settings_t;

static const shoal_option_t SETTINGS[] = {
    SHOAL_ZOO_TEXT_SETTINGS,
    SHOAL_ZOO_SETTING(INT, layers, "2", "blocks"),
    SHOAL_ZOO_SETTING(INT, hidden, NULL, "width inside a block; by default 4 times the model's"),
    SHOAL_ZOO_SETTING(INT, positions, NULL, "positions that are learned; by default the context"),
    SHOAL_ZOO_SETTING(INT, types, "2", "types of tokens"),
    SHOAL_ZOO_SETTING(INT, classes, NULL, "classes of texts; by default it guesses tokens"),
    SHOAL_ZOO_SHARE(masked, "0.15", "share of tokens to guess; 0: as a further input labels says"),
    SHOAL_ZOO_SETTING(INT, mask_id, NULL, "token that hides others; by default the last there is"),
    SHOAL_ZOO_SHARE(dropout, NULL, "probability of dropping an activation"),
    SHOAL_ZOO_SETTING(REAL, norm_eps, "1e-12", "what norms add to the variance"),
    SHOAL_ZOO_FLAG(typed, "false", "a further input types, i32 [rows, context]; else all are 0"),
    SHOAL_ZOO_FLAG(padded, "false", "a further input mask, i32 [rows, context]: 0 is padding")};

#define BERT "vocabulary=30522 mask_id=103 context=512 "
static const shoal_zoo_preset_t PRESETS[] = {
    {"bert-tiny", "batch=3 context=5 vocabulary=11 width=12 heads=3", "for tests"},
    {"bert-base", BERT "width=768 heads=12 layers=12", "BERT base, uncased"},
    {"bert-large", BERT "width=1024 heads=16 layers=24", "BERT large, uncased"}};

#define NARROW \
  { SHOAL_INIT_NORMAL, 0, 0.02 }
static const shoal_init_t NORMAL = NARROW;
static const shoal_nn_linear_options_t LINEAR = {.weight_init = NARROW};

static shoal_value_t norm(shoal_graph_t *g, const settings_t *s, const char *name,
                          shoal_value_t x) {
  return shoal_nn_layer_norm_with(g, name, x, &(shoal_nn_layer_norm_options_t){.eps = s->norm_eps});
}

static shoal_value_t embed(shoal_graph_t *g, const shoal_zoo_job_t *job, int64_t tokens,
                           shoal_value_t ids) {
  const settings_t *s = job->settings;
  const int64_t rows = shoal_nn_size(s->positions, s->context);
  shoal_value_t x = shoal_nn_embedding(g, "wte", ids, s->vocabulary, s->width, job->dtype);
  shoal_value_t places =
      shoal_nn_parameter(g, "wpe/table", job->dtype, SHOAL_SHAPE(rows, s->width), NORMAL);
  if (rows != tokens)
    places = shoal_slice(g, places, SHOAL_SHAPE(0, 0), SHOAL_SHAPE(tokens, s->width));
  x = shoal_add(g, x, places);
  if (s->typed) {
    shoal_value_t types = shoal_input(g, "types", SHOAL_I32, SHOAL_SHAPE(job->rows, tokens));
    return shoal_add(g, x, shoal_nn_embedding(g, "types", types, s->types, s->width, job->dtype));
  }
  shoal_value_t first =
      shoal_nn_parameter(g, "types/table", job->dtype, SHOAL_SHAPE(s->types, s->width), NORMAL);
  return shoal_add(g, x, shoal_slice(g, first, SHOAL_SHAPE(0, 0), SHOAL_SHAPE(1, s->width)));
}

static shoal_value_t block(shoal_graph_t *g, const settings_t *s, shoal_value_t x,
                           const shoal_nn_attention_options_t *attention, double p) {
  shoal_value_t y = shoal_nn_self_attention_with(g, "attn", x, s->heads, attention);
  x = norm(g, s, "ln_1", shoal_add(g, x, shoal_nn_dropout(g, "attn_drop", y, p)));
  shoal_scope_push(g, "mlp");
  y = shoal_nn_linear_with(g, "fc1", x, shoal_nn_size(s->hidden, 4 * s->width), &LINEAR);
  y = shoal_nn_linear_with(g, "fc2", shoal_gelu_erf(g, y), s->width, &LINEAR);
  shoal_scope_pop(g);
  return norm(g, s, "ln_2", shoal_add(g, x, shoal_nn_dropout(g, "mlp_drop", y, p)));
}

static shoal_value_t pool(shoal_graph_t *g, const settings_t *s, shoal_value_t x) {
  const int64_t rows = shoal_value_type(x).shape.dims[0];
  x = shoal_slice(g, x, SHOAL_SHAPE(0, 0, 0), SHOAL_SHAPE(rows, 1, s->width));
  x = shoal_reshape(g, x, SHOAL_SHAPE(rows, s->width));
  return shoal_tanh(g, shoal_nn_linear_with(g, "pooler", x, s->width, &LINEAR));
}

static shoal_value_t guess(shoal_graph_t *g, const shoal_zoo_job_t *job, shoal_value_t x) {
  const settings_t *s = job->settings;
  shoal_scope_push(g, "guess");
  x = shoal_gelu_erf(g, shoal_nn_linear_with(g, "dense", x, s->width, &LINEAR));
  x = norm(g, s, "ln", x);
  shoal_value_t bias =
      shoal_nn_parameter(g, "bias", job->dtype, SHOAL_SHAPE(s->vocabulary), (shoal_init_t){0});
  shoal_scope_pop(g);
  return shoal_add(g, shoal_zoo_head(g, job, x, s->vocabulary, true), bias);
}

static void build(shoal_graph_t *g, const shoal_zoo_job_t *job) {
  const settings_t *s = job->settings;
  const bool trains = job->phase == SHOAL_ZOO_TRAIN, sorts = s->classes > 0;
  const double p = trains ? s->dropout : 0;
  const int64_t tokens = shoal_zoo_tokens(g, job, s->context);
  const shoal_shape_t text = SHOAL_SHAPE(job->rows, tokens);
  shoal_nn_attention_options_t attention = {.sees_ahead = true, .dropout = p};
  shoal_nn_mask_options_t hide = {.share = s->masked, .mask_id = s->mask_id, .same = !trains};
  shoal_value_t ids = shoal_input(g, "ids", SHOAL_I32, text), labels = shoal_none();
  if (s->padded) {
    hide.seen = shoal_cast(g, shoal_input(g, "mask", SHOAL_I32, text), SHOAL_BOOL);
    attention.mask = shoal_reshape(g, hide.seen, SHOAL_SHAPE(job->rows, 1, 1, tokens));
  }
  if (!sorts && s->masked != 0)
    shoal_nn_mask_tokens(g, "mask", ids, s->vocabulary, &hide, &ids, &labels);
  shoal_value_t x = norm(g, s, "ln_0", embed(g, job, tokens, ids));
  x = shoal_nn_dropout(g, "drop", x, p);
  for (int64_t i = 0; i < s->layers; ++i) {
    shoal_zoo_scope(g, "block", i);
    x = block(g, s, x, &attention, p);
    shoal_scope_pop(g);
  }
  if (sorts) {
    shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(job->rows));
    x = shoal_nn_dropout(g, "pool_drop", pool(g, s, x), p);
    shoal_value_t logits = shoal_nn_linear_with(g, "classifier", x, s->classes, &LINEAR);
    shoal_zoo_end(g, job, shoal_nn_cross_entropy(g, logits, y), logits);
    return;
  }
  if (s->masked == 0) labels = shoal_input(g, "labels", SHOAL_I32, text);
  shoal_value_t logits = guess(g, job, x);
  shoal_zoo_end(g, job, shoal_nn_cross_entropy_with(g, logits, labels, NULL), logits);
}

static const shoal_zoo_key_t KEYS[] = {
    {"vocabulary", "vocab_size"},    {"positions", "max_position_embeddings"},
    {"width", "hidden_size"},        {"heads", "num_attention_heads"},
    {"layers", "num_hidden_layers"}, {"hidden", "intermediate_size"},
    {"types", "type_vocab_size"},    {"norm_eps", "layer_norm_eps"}};

// Hugging Face's BertForMaskedLM, which has no pooler, and BertForSequenceClassification.
static void names(const void *settings, shoal_zoo_map_t *map) {
  const settings_t *s = settings;
  SHOAL_ZOO_SAME(map, "wte/table", "bert.embeddings.word_embeddings.weight");
  SHOAL_ZOO_SAME(map, "wpe/table", "bert.embeddings.position_embeddings.weight");
  SHOAL_ZOO_SAME(map, "types/table", "bert.embeddings.token_type_embeddings.weight");
  shoal_zoo_map_norm(map, "ln_0", "bert.embeddings.LayerNorm", true);
  for (map->number = 0; map->number < s->layers; ++map->number) {
    static const char *const thirds[] = {"bert.encoder.layer.#.attention.self.query",
                                         "bert.encoder.layer.#.attention.self.key",
                                         "bert.encoder.layer.#.attention.self.value"};
    for (int i = 0; i < 3; ++i)
      shoal_zoo_map_columns(map, "block#/attn/qkv", thirds[i], true, i * s->width, s->width);
    shoal_zoo_map_linear(map, "block#/attn/proj", "bert.encoder.layer.#.attention.output.dense",
                         true);
    shoal_zoo_map_norm(map, "block#/ln_1", "bert.encoder.layer.#.attention.output.LayerNorm", true);
    shoal_zoo_map_linear(map, "block#/mlp/fc1", "bert.encoder.layer.#.intermediate.dense", true);
    shoal_zoo_map_linear(map, "block#/mlp/fc2", "bert.encoder.layer.#.output.dense", true);
    shoal_zoo_map_norm(map, "block#/ln_2", "bert.encoder.layer.#.output.LayerNorm", true);
  }
  if (s->classes > 0) {
    shoal_zoo_map_linear(map, "pooler", "bert.pooler.dense", true);
    shoal_zoo_map_linear(map, "classifier", "classifier", true);
    return;
  }
  shoal_zoo_map_linear(map, "guess/dense", "cls.predictions.transform.dense", true);
  shoal_zoo_map_norm(map, "guess/ln", "cls.predictions.transform.LayerNorm", true);
  SHOAL_ZOO_SAME(map, "guess/bias", "cls.predictions.bias");
  SHOAL_ZOO_AGAIN(map, "guess/bias", "cls.predictions.decoder.bias");
  SHOAL_ZOO_AGAIN(map, "wte/table", "cls.predictions.decoder.weight");
}

const shoal_zoo_family_t shoal_zoo_family_bert = {
    .name = "bert",
    .doc = "BERT: encoder that guesses masked tokens, or sorts texts",
    SHOAL_ZOO_SETTINGS(SETTINGS),
    SHOAL_ZOO_PRESETS(PRESETS),
    .rows = 8,
    .sees_ahead = true,
    .build = build,
    .model_type = "bert",
    SHOAL_ZOO_KEYS(KEYS),
    .names = names};
