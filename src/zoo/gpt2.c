// GPT-2, and GPT-3's shapes: a decoder, pre-norm. B rows, T context, C width, V vocabulary.
//   x = wte[ids] + wpe                                                  [B, T, C]
//   x = x + attn(ln_1 x);  x = x + mlp(ln_2 x)                          per block
//   logits = x wte^T when tied, else head(ln_f x)                       [B, T, V]
// References: Radford et al. 2019, Brown et al. 2020; projections into the residual start smaller
// by sqrt(2 layers).
#include <math.h>

#include "zoo/family.h"

typedef struct settings {
  int64_t context, vocabulary, width, heads, layers, hidden, positions;
  double dropout;
  bool tied;
} settings_t;

static const shoal_option_t SETTINGS[] = {
    SHOAL_ZOO_TEXT_SETTINGS,
    SHOAL_ZOO_SETTING(INT, layers, "2", "blocks"),
    SHOAL_ZOO_SETTING(INT, hidden, NULL, "width inside a block; by default 4 times the model's"),
    SHOAL_ZOO_SETTING(INT, positions, NULL, "positions that are learned; by default the context"),
    SHOAL_ZOO_SHARE(dropout, NULL, "probability of dropping an activation"),
    SHOAL_ZOO_FLAG(tied, "true", "the head reads the embedding")};

#define GPT2 "vocabulary=50257 context=1024 "
#define GPT3 "vocabulary=50257 context=2048 "
static const shoal_zoo_preset_t PRESETS[] = {
    {"gpt", "tied=false", "a small one whose head has a weight of its own"},
    {"gpt2-tiny", "batch=3 context=5 vocabulary=11 width=12 heads=3", "for tests"},
    {"gpt2-124m", GPT2 "width=768 heads=12 layers=12", "GPT-2 small"},
    {"gpt2-355m", GPT2 "width=1024 heads=16 layers=24", "GPT-2 medium"},
    {"gpt2-774m", GPT2 "width=1280 heads=20 layers=36", "GPT-2 large"},
    {"gpt2-1.5b", GPT2 "width=1600 heads=25 layers=48", "GPT-2 XL"},
    {"gpt3-125m", GPT3 "width=768 heads=12 layers=12", "GPT-3 small"},
    {"gpt3-350m", GPT3 "width=1024 heads=16 layers=24", "GPT-3 medium"},
    {"gpt3-760m", GPT3 "width=1536 heads=16 layers=24", "GPT-3 large"},
    {"gpt3-1.3b", GPT3 "width=2048 heads=16 layers=24", "GPT-3 XL, heads of 128"},
    {"gpt3-2.7b", GPT3 "width=2560 heads=32 layers=32", "GPT-3 2.7B"},
    {"gpt3-6.7b", GPT3 "width=4096 heads=32 layers=32", "GPT-3 6.7B"},
    {"gpt3-13b", GPT3 "width=5120 heads=40 layers=40", "GPT-3 13B, heads of 128"},
    {"gpt3-175b", GPT3 "width=12288 heads=96 layers=96", "GPT-3"}};

static const shoal_init_t NORMAL = {SHOAL_INIT_NORMAL, 0, 0.02};

static shoal_value_t block(shoal_graph_t *g, const shoal_zoo_job_t *job,
                           const shoal_zoo_text_t *text, shoal_value_t x) {
  const settings_t *s = job->settings;
  const double p = job->phase == SHOAL_ZOO_TRAIN ? s->dropout : 0;
  const shoal_init_t residual = {SHOAL_INIT_NORMAL, 0, 0.02 / sqrt(2 * (double)s->layers)};
  const shoal_nn_linear_options_t in = {.weight_init = NORMAL}, out = {.weight_init = residual};
  shoal_nn_attention_options_t attention = {.proj_init = residual};
  shoal_zoo_remember(job, text, &attention);
  shoal_value_t y = shoal_nn_layer_norm(g, "ln_1", x);
  y = shoal_nn_self_attention_with(g, "attn", y, s->heads, &attention);
  x = shoal_add(g, x, shoal_nn_dropout(g, "attn_drop", y, p));
  y = shoal_nn_layer_norm(g, "ln_2", x);
  shoal_scope_push(g, "mlp");
  y = shoal_nn_linear_with(g, "fc1", y, shoal_nn_size(s->hidden, 4 * s->width), &in);
  y = shoal_gelu(g, y);
  y = shoal_nn_linear_with(g, "fc2", y, s->width, &out);
  shoal_scope_pop(g);
  return shoal_add(g, x, shoal_nn_dropout(g, "mlp_drop", y, p));
}

// Adds what is learned of positions: all of the table, or its rows for tokens that say where they
// stand.
static shoal_value_t add_positions(shoal_graph_t *g, const shoal_zoo_job_t *job,
                                   const shoal_zoo_text_t *text, shoal_value_t x) {
  const settings_t *s = job->settings;
  const int64_t rows = shoal_nn_size(s->positions, s->context);
  shoal_scope_push(g, "wpe");
  shoal_value_t table =
      shoal_nn_parameter(g, "table", job->dtype, SHOAL_SHAPE(rows, s->width), NORMAL);
  if (job->phase == SHOAL_ZOO_DECODE) {
    table = shoal_embedding(g, table, shoal_reshape(g, text->positions, SHOAL_SHAPE(job->rows, 1)));
  } else if (rows != text->tokens) {
    table = shoal_slice(g, table, SHOAL_SHAPE(0, 0), SHOAL_SHAPE(text->tokens, s->width));
  }
  x = shoal_add(g, x, table);
  shoal_scope_pop(g);
  return x;
}

static void build(shoal_graph_t *g, const shoal_zoo_job_t *job) {
  const settings_t *s = job->settings;
  const shoal_zoo_text_t text = shoal_zoo_text(g, job, s->context);
  shoal_value_t x = shoal_nn_embedding(g, "wte", text.ids, s->vocabulary, s->width, job->dtype);
  x = add_positions(g, job, &text, x);
  if (job->phase == SHOAL_ZOO_TRAIN) x = shoal_nn_dropout(g, "drop", x, s->dropout);
  for (int64_t i = 0; i < s->layers; ++i) {
    shoal_zoo_scope(g, "block", i);
    x = block(g, job, &text, x);
    shoal_scope_pop(g);
  }
  x = shoal_nn_layer_norm(g, "ln_f", shoal_zoo_last(g, job, &text, x));
  shoal_zoo_text_end(g, job, &text, x, s->vocabulary, s->tied, shoal_none());
}

static const shoal_zoo_key_t KEYS[] = {{"vocabulary", "vocab_size"},
                                       {"positions", "n_positions"},
                                       {"width", "n_embd"},
                                       {"heads", "n_head"},
                                       {"layers", "n_layer"},
                                       {"hidden", "n_inner"},
                                       {"tied", "tie_word_embeddings"}};

// Hugging Face's GPT2LMHeadModel; its Conv1D keeps weights as we do, [in, out].
static void names(const void *settings, shoal_zoo_map_t *map) {
  const settings_t *s = settings;
  SHOAL_ZOO_SAME(map, "wte/table", "transformer.wte.weight");
  SHOAL_ZOO_SAME(map, "wpe/table", "transformer.wpe.weight");
  for (map->number = 0; map->number < s->layers; ++map->number) {
    shoal_zoo_map_norm(map, "block#/ln_1", "transformer.h.#.ln_1", true);
    shoal_zoo_map_norm(map, "block#/ln_2", "transformer.h.#.ln_2", true);
    SHOAL_ZOO_SAME(map, "block#/attn/qkv/weight", "transformer.h.#.attn.c_attn.weight");
    SHOAL_ZOO_SAME(map, "block#/attn/qkv/bias", "transformer.h.#.attn.c_attn.bias");
    SHOAL_ZOO_SAME(map, "block#/attn/proj/weight", "transformer.h.#.attn.c_proj.weight");
    SHOAL_ZOO_SAME(map, "block#/attn/proj/bias", "transformer.h.#.attn.c_proj.bias");
    SHOAL_ZOO_SAME(map, "block#/mlp/fc1/weight", "transformer.h.#.mlp.c_fc.weight");
    SHOAL_ZOO_SAME(map, "block#/mlp/fc1/bias", "transformer.h.#.mlp.c_fc.bias");
    SHOAL_ZOO_SAME(map, "block#/mlp/fc2/weight", "transformer.h.#.mlp.c_proj.weight");
    SHOAL_ZOO_SAME(map, "block#/mlp/fc2/bias", "transformer.h.#.mlp.c_proj.bias");
  }
  shoal_zoo_map_norm(map, "ln_f", "transformer.ln_f", true);
  shoal_zoo_map_head(map, s->tied);
}

const shoal_zoo_family_t shoal_zoo_family_gpt2 = {
    .name = "gpt2",
    .doc = "GPT-2 and GPT-3 shapes: decoder with learned positions",
    SHOAL_ZOO_SETTINGS(SETTINGS),
    SHOAL_ZOO_PRESETS(PRESETS),
    .rows = 8,
    .phases = SHOAL_ZOO_DECODER,
    .build = build,
    .model_type = "gpt2",
    SHOAL_ZOO_KEYS(KEYS),
    .names = names};
