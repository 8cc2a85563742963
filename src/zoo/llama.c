// Llama: a decoder with RMS norms, rotary positions, gated products and heads that share keys and
// values. B rows, T context, C width, V vocabulary.
//   x = wte[ids]                                                        [B, T, C]
//   x = x + attn(norm_1 x);  x = x + down(silu(gate h) up h), h = norm_2 x    per block
//   logits = head(norm_f x)                                             [B, T, V]
// With a window, a token sees only so many: Mistral. With a rotary factor, positions are stretched
// for longer texts: all alike, or as in Llama 3.1 (shoal.rotary).
// References: Touvron et al. 2023 (Llama, Llama 2), Grattafiori et al. 2024 (Llama 3), Jiang et al.
// 2023 (Mistral).
#include "zoo/family.h"

typedef struct settings {
  int64_t context, vocabulary, width, heads, key_heads, head_size, layers, hidden, window;
  int64_t rotary_original;
  double rotary_base, rotary_factor, rotary_low, rotary_high, norm_eps;
  bool tied;
} settings_t;

static const shoal_option_t SETTINGS[] = {
    SHOAL_ZOO_TEXT_SETTINGS,
    SHOAL_ZOO_SETTING(INT, key_heads, NULL, "heads of keys and values; by default as many"),
    SHOAL_ZOO_SETTING(INT, head_size, NULL, "width of a head; by default the width over the heads"),
    SHOAL_ZOO_SETTING(INT, layers, "2", "blocks"),
    SHOAL_ZOO_SETTING(INT, hidden, "172", "width inside a block"),
    SHOAL_ZOO_SETTING(INT, window, NULL, "tokens that one sees, itself among them; by default all"),
    SHOAL_ZOO_SETTING(REAL, rotary_base, "10000", "how slowly positions turn"),
    SHOAL_ZOO_SETTING(REAL, rotary_factor, NULL, "so many times slower yet, for longer texts"),
    SHOAL_ZOO_SETTING(INT, rotary_original, NULL, "Llama 3.1: context before it was made longer"),
    SHOAL_ZOO_SETTING(REAL, rotary_low, NULL, "pairs of fewer turns in it slow down; by default 1"),
    SHOAL_ZOO_SETTING(REAL, rotary_high, NULL, "pairs of as many turns do not; by default 4"),
    SHOAL_ZOO_SETTING(REAL, norm_eps, "1e-5", "what norms add to the mean of squares"),
    SHOAL_ZOO_FLAG(tied, "false", "the head reads the embedding")};

#define LLAMA1 "vocabulary=32000 context=2048 norm_eps=1e-6 "
#define LLAMA2 "vocabulary=32000 context=4096 "
#define LLAMA3 "vocabulary=128256 context=8192 rotary_base=500000 key_heads=8 "
#define LLAMA31 LLAMA3 "context=131072 rotary_factor=8 rotary_original=8192 "
static const shoal_zoo_preset_t PRESETS[] = {
    {"llama-tiny", "batch=3 context=5 vocabulary=11 width=12 heads=6 key_heads=3 hidden=10",
     "for tests"},
    {"tinyllama-1.1b",
     "vocabulary=32000 context=2048 width=2048 heads=32 key_heads=4 layers=22 hidden=5632",
     "TinyLlama"},
    {"llama-7b", LLAMA1 "width=4096 heads=32 layers=32 hidden=11008", "Llama 7B"},
    {"llama-13b", LLAMA1 "width=5120 heads=40 layers=40 hidden=13824", "Llama 13B"},
    {"llama-33b", LLAMA1 "width=6656 heads=52 layers=60 hidden=17920", "Llama 33B"},
    {"llama-65b", LLAMA1 "width=8192 heads=64 layers=80 hidden=22016", "Llama 65B"},
    {"llama2-7b", LLAMA2 "width=4096 heads=32 layers=32 hidden=11008", "Llama 2 7B"},
    {"llama2-13b", LLAMA2 "width=5120 heads=40 layers=40 hidden=13824", "Llama 2 13B"},
    {"llama2-70b", LLAMA2 "width=8192 heads=64 key_heads=8 layers=80 hidden=28672", "Llama 2 70B"},
    {"llama3-8b", LLAMA3 "width=4096 heads=32 layers=32 hidden=14336", "Llama 3 8B"},
    {"llama3-70b", LLAMA3 "width=8192 heads=64 layers=80 hidden=28672", "Llama 3 70B"},
    {"llama3-405b", LLAMA3 "width=16384 heads=128 layers=126 hidden=53248", "Llama 3.1 405B"},
    {"llama3.1-8b", LLAMA31 "width=4096 heads=32 layers=32 hidden=14336", "Llama 3.1 8B"},
    {"llama3.1-70b", LLAMA31 "width=8192 heads=64 layers=80 hidden=28672", "Llama 3.1 70B"},
    {"mistral-7b",
     "vocabulary=32000 context=32768 window=4096 width=4096 heads=32 key_heads=8 layers=32 "
     "hidden=14336",
     "Mistral 7B"}};

// Products without a bias.
static const shoal_nn_linear_options_t BARE = {.no_bias = true,
                                               .weight_init = {SHOAL_INIT_NORMAL, 0, 0.02}};

static shoal_value_t gated(shoal_graph_t *g, const settings_t *s, shoal_value_t x) {
  shoal_scope_push(g, "mlp");
  shoal_value_t gate = shoal_silu(g, shoal_nn_linear_with(g, "gate", x, s->hidden, &BARE));
  shoal_value_t up = shoal_nn_linear_with(g, "up", x, s->hidden, &BARE);
  shoal_value_t y = shoal_nn_linear_with(g, "down", shoal_mul(g, gate, up), s->width, &BARE);
  shoal_scope_pop(g);
  return y;
}

static void build(shoal_graph_t *g, const shoal_zoo_job_t *job) {
  const settings_t *s = job->settings;
  const shoal_zoo_text_t text = shoal_zoo_text(g, job, s->context);
  shoal_nn_attention_options_t attention = {.key_heads = s->key_heads,
                                            .head_size = s->head_size,
                                            .window = s->window,
                                            .no_bias = true,
                                            .rotary = true,
                                            .rotary_base = s->rotary_base,
                                            .rotary_factor = s->rotary_factor,
                                            .rotary_low = s->rotary_low,
                                            .rotary_high = s->rotary_high,
                                            .rotary_original = s->rotary_original};
  shoal_zoo_remember(job, &text, &attention);
  shoal_value_t x = shoal_nn_embedding(g, "wte", text.ids, s->vocabulary, s->width, job->dtype);
  for (int64_t i = 0; i < s->layers; ++i) {
    shoal_zoo_scope(g, "block", i);
    shoal_value_t y = shoal_zoo_rms(g, "norm_1", x, s->norm_eps);
    y = shoal_nn_self_attention_with(g, "attn", y, s->heads, &attention);
    x = shoal_add(g, x, y);
    x = shoal_add(g, x, gated(g, s, shoal_zoo_rms(g, "norm_2", x, s->norm_eps)));
    shoal_scope_pop(g);
  }
  x = shoal_zoo_rms(g, "norm_f", shoal_zoo_last(g, job, &text, x), s->norm_eps);
  shoal_zoo_text_end(g, job, &text, x, s->vocabulary, s->tied, shoal_none());
}

static const shoal_zoo_key_t KEYS[] = {{"vocabulary", "vocab_size"},
                                       {"context", "max_position_embeddings"},
                                       {"width", "hidden_size"},
                                       {"heads", "num_attention_heads"},
                                       {"key_heads", "num_key_value_heads"},
                                       {"head_size", "head_dim"},
                                       {"layers", "num_hidden_layers"},
                                       {"hidden", "intermediate_size"},
                                       {"rotary_base", "rope_theta"},
                                       {"norm_eps", "rms_norm_eps"},
                                       {"tied", "tie_word_embeddings"}};

// Hugging Face's LlamaForCausalLM.
static void names(const void *settings, shoal_zoo_map_t *map) {
  const settings_t *s = settings;
  SHOAL_ZOO_SAME(map, "wte/table", "model.embed_tokens.weight");
  for (map->number = 0; map->number < s->layers; ++map->number) {
    shoal_zoo_map_llama(map, shoal_nn_size(s->head_size, s->width / s->heads), s->heads,
                        s->key_heads);
    shoal_zoo_map_linear(map, "block#/mlp/gate", "model.layers.#.mlp.gate_proj", false);
    shoal_zoo_map_linear(map, "block#/mlp/up", "model.layers.#.mlp.up_proj", false);
    shoal_zoo_map_linear(map, "block#/mlp/down", "model.layers.#.mlp.down_proj", false);
  }
  shoal_zoo_map_norm(map, "norm_f", "model.norm", false);
  shoal_zoo_map_head(map, s->tied);
}

const shoal_zoo_family_t shoal_zoo_family_llama = {
    .name = "llama",
    .doc = "Llama 1 to 3, Mistral: decoder with rotary positions and gated products",
    SHOAL_ZOO_SETTINGS(SETTINGS),
    SHOAL_ZOO_PRESETS(PRESETS),
    .rows = 8,
    .phases = SHOAL_ZOO_DECODER,
    .build = build,
    .model_type = "llama",
    SHOAL_ZOO_KEYS(KEYS),
    .names = names};
