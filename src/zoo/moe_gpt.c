// A mixture of experts, as Mixtral: Llama's decoder whose blocks have E gated products, of which a
// router picks top_k for each token. B rows, T context, C width, F hidden, N = B T tokens.
//   p = softmax(router x)                                               [B, T, E]
//   y = sum over the top_k experts e of x: p_e / (their sum) expert_e(x)
// Dropless: all N top_k picks are sorted by expert and multiplied in groups. With a capacity, each
// row has so many places for each expert, tokens take them in order, and those that find none get
// nothing: a row's tokens then stay together, which cuts well along rows and experts. Bounded: the
// same without dropping; how many places are taken is counted as it runs, and a pick that finds
// none is an error.
// Training adds balance E sum_e(share of picks of e, share of p of e), over all blocks together.
// References: Jiang et al. 2024 (Mixtral), Fedus et al. 2021 (Switch).
#include <math.h>

#include "zoo/family.h"

typedef struct settings {
  int64_t context, vocabulary, width, heads, key_heads, layers, hidden, experts, top_k;
  double capacity, balance, rotary_base, norm_eps;
  bool bounded, tied;
} settings_t;

static const shoal_option_t SETTINGS[] = {
    SHOAL_ZOO_TEXT_SETTINGS,
    SHOAL_ZOO_SETTING(INT, key_heads, NULL, "heads of keys and values; by default as many"),
    SHOAL_ZOO_SETTING(INT, layers, "2", "blocks"),
    SHOAL_ZOO_SETTING(INT, hidden, "128", "width inside an expert"),
    SHOAL_ZOO_SETTING(INT, experts, "4", "experts of a block"),
    SHOAL_ZOO_SETTING(INT, top_k, "2", "experts of a token"),
    SHOAL_ZOO_SETTING(REAL, capacity, NULL,
                      "places of an expert, times an equal share (0: none is dropped)"),
    SHOAL_ZOO_FLAG(bounded, "false",
                   "a pick without a place is an error, not dropped (capacity 0: all have one)"),
    SHOAL_ZOO_SHARE(balance, "0.02", "weight of the loss for uneven experts, in training"),
    SHOAL_ZOO_SETTING(REAL, rotary_base, "10000", "how slowly positions turn"),
    SHOAL_ZOO_SETTING(REAL, norm_eps, "1e-5", "what norms add to the mean of squares"),
    SHOAL_ZOO_FLAG(tied, "false", "the head reads the embedding")};

#define MIXTRAL "context=4096 experts=8 key_heads=8 rotary_base=1e6 "
static const shoal_zoo_preset_t PRESETS[] = {
    {"moe-gpt-tiny",
     "batch=3 context=5 vocabulary=11 width=12 heads=6 key_heads=3 hidden=10 experts=3",
     "for tests"},
    {"mixtral-8x7b", MIXTRAL "vocabulary=32000 width=4096 heads=32 layers=32 hidden=14336",
     "Mixtral 8x7B"},
    {"mixtral-8x22b", MIXTRAL "vocabulary=32000 width=6144 heads=48 layers=56 hidden=16384",
     "Mixtral 8x22B"}};

static const shoal_init_t NORMAL = {SHOAL_INIT_NORMAL, 0, 0.02};

// Which experts the tokens of a block take.
typedef struct picks {
  shoal_value_t experts;  // i64 [B, T, K]
  shoal_value_t weights;  // [B, T, K], 1 in sum
} picks_t;

// Shares of picks and of probability that experts have, [E] each, summed over blocks.
typedef struct balance {
  shoal_value_t picks, probability;
} balance_t;

static void add_to(shoal_graph_t *g, shoal_value_t *sum, shoal_value_t x) {
  *sum = sum->graph ? shoal_add(g, *sum, x) : x;
}

static const shoal_nn_linear_options_t ROUTER = {.no_bias = true,
                                                 .weight_init = {SHOAL_INIT_NORMAL, 0, 0.02}};

static picks_t route(shoal_graph_t *g, const settings_t *s, shoal_value_t x, balance_t *balance) {
  const shoal_dtype_t dtype = shoal_value_type(x).dtype;
  const bool half = dtype == SHOAL_BF16 || dtype == SHOAL_F16;
  shoal_value_t p = shoal_nn_linear_with(g, "router", x, s->experts, &ROUTER), sum;
  p = shoal_softmax(g, half ? shoal_cast(g, p, SHOAL_F32) : p, -1);
  picks_t picks;
  shoal_top_k(g, p, s->top_k, -1, 1, &picks.weights, &picks.experts);
  sum = shoal_reduce_sum_with(g, picks.weights, SHOAL_SHAPE(-1),
                              &(shoal_reduce_sum_options_t){.keep = 1});
  picks.weights = shoal_div(g, picks.weights, sum);
  if (half) picks.weights = shoal_cast(g, picks.weights, dtype);
  if (balance) {
    shoal_value_t taken = shoal_one_hot(g, picks.experts, s->experts, half ? SHOAL_F32 : dtype);
    taken = shoal_reduce_sum(g, taken, SHOAL_SHAPE(2));
    add_to(g, &balance->picks, shoal_reduce_mean(g, taken, SHOAL_SHAPE(0, 1)));
    add_to(g, &balance->probability, shoal_reduce_mean(g, p, SHOAL_SHAPE(0, 1)));
  }
  return picks;
}

// Weights [E, C, F] of gate and up, [E, F, C] of down.
typedef struct weights {
  shoal_value_t gate, up, down;
} weights_t;

static weights_t expert_weights(shoal_graph_t *g, const settings_t *s, shoal_dtype_t dtype) {
  const shoal_shape_t in = SHOAL_SHAPE(s->experts, s->width, s->hidden);
  const shoal_shape_t out = SHOAL_SHAPE(s->experts, s->hidden, s->width);
  return (weights_t){.gate = shoal_nn_parameter(g, "gate", dtype, in, NORMAL),
                     .up = shoal_nn_parameter(g, "up", dtype, in, NORMAL),
                     .down = shoal_nn_parameter(g, "down", dtype, out, NORMAL)};
}

// x [B, T, C] -> [B, T, C], all picks sorted by expert and multiplied in groups.
static shoal_value_t dropless(shoal_graph_t *g, const settings_t *s, shoal_value_t x,
                              const picks_t *picks, const weights_t *w) {
  const shoal_shape_t shape = shoal_value_type(x).shape;
  const int64_t N = shape.dims[0] * shape.dims[1], K = s->top_k, C = shape.dims[2];
  shoal_value_t flat = shoal_reshape(g, picks->experts, SHOAL_SHAPE(N * K)), order;
  shoal_sort(g, flat, 0, NULL, &order);
  shoal_value_t ends = shoal_one_hot(g, flat, s->experts, SHOAL_I64);
  ends = shoal_cumsum(g, shoal_reduce_sum(g, ends, SHOAL_SHAPE(0)), 0);
  shoal_value_t token =
      shoal_floor_div(g, order, shoal_full(g, SHOAL_SHAPE(1), (double)K, SHOAL_I64));
  x = shoal_gather(g, shoal_reshape(g, x, SHOAL_SHAPE(N, C)), token, 0);
  shoal_value_t gate = shoal_silu(g, shoal_grouped_matmul(g, x, w->gate, ends));
  shoal_value_t h = shoal_mul(g, gate, shoal_grouped_matmul(g, x, w->up, ends));
  shoal_value_t y = shoal_grouped_matmul(g, h, w->down, ends);
  shoal_value_t weight =
      shoal_gather(g, shoal_reshape(g, picks->weights, SHOAL_SHAPE(N * K)), order, 0);
  y = shoal_mul(g, y, shoal_reshape(g, weight, SHOAL_SHAPE(N * K, 1)));
  return shoal_reshape(g, shoal_scatter_add(g, token, y, 0, SHOAL_SHAPE(N, C)), shape);
}

// The same with P places for each expert in each row: x goes to places [B, E, P, C] and back.
static shoal_value_t bounded(shoal_graph_t *g, const settings_t *s, shoal_value_t x,
                             const picks_t *picks, const weights_t *w) {
  const shoal_type_t type = shoal_value_type(x);
  const int64_t B = type.shape.dims[0], T = type.shape.dims[1], C = type.shape.dims[2];
  const int64_t K = s->top_k, E = s->experts;
  const double share = ceil(s->capacity * (double)(K * T) / (double)E);
  const int64_t P = share > 0 && share < (double)T ? (int64_t)share : T;
  const shoal_shape_t many = SHOAL_SHAPE(B, T * K, C);
  shoal_scope_push(g, "dispatch");
  shoal_value_t flat = shoal_reshape(g, picks->experts, SHOAL_SHAPE(B, T * K));
  shoal_value_t hot = shoal_one_hot(g, flat, E, SHOAL_I64);  // [B, T K, E]
  shoal_value_t before = shoal_cumsum_with(g, hot, 1, &(shoal_cumsum_options_t){.exclusive = 1});
  shoal_value_t place = shoal_reduce_sum(g, shoal_mul(g, hot, before), SHOAL_SHAPE(2));
  shoal_value_t places = shoal_full(g, SHOAL_SHAPE(1), (double)P, SHOAL_I64);
  shoal_value_t kept = shoal_less(g, place, places);
  place = shoal_add(g, shoal_mul(g, flat, places), place);
  place = shoal_where(g, kept, place, shoal_full(g, SHOAL_SHAPE(1), (double)(E * P), SHOAL_I64));
  place = shoal_broadcast_to(g, shoal_reshape(g, place, SHOAL_SHAPE(B, T * K, 1)), many);
  shoal_value_t counts = shoal_reduce_sum(g, hot, SHOAL_SHAPE(1));
  if (!s->bounded) counts = shoal_minimum(g, counts, places);
  x = shoal_broadcast_to(g, shoal_reshape(g, x, SHOAL_SHAPE(B, T, 1, C)), SHOAL_SHAPE(B, T, K, C));
  // One place more, behind the others, takes what is dropped.
  shoal_value_t sent = shoal_full(g, SHOAL_SHAPE(B, E * P + 1, C), 0, type.dtype);
  sent = shoal_put_along(g, sent, place, shoal_reshape(g, x, many), 1);
  sent = shoal_slice(g, sent, SHOAL_SHAPE(0, 0, 0), SHOAL_SHAPE(B, E * P, C));
  sent = shoal_bound(g, shoal_reshape(g, sent, SHOAL_SHAPE(B, E, P, C)), counts);
  shoal_scope_pop(g);
  shoal_scope_push(g, "expert");
  shoal_value_t gate = shoal_silu(g, shoal_einsum(g, sent, w->gate, "bepc,ecf->bepf"));
  shoal_value_t h = shoal_mul(g, gate, shoal_einsum(g, sent, w->up, "bepc,ecf->bepf"));
  shoal_value_t y = shoal_bound(g, shoal_einsum(g, h, w->down, "bepf,efc->bepc"), counts);
  shoal_scope_pop(g);
  shoal_scope_push(g, "combine");
  y = shoal_pad(g, shoal_reshape(g, y, SHOAL_SHAPE(B, E * P, C)), SHOAL_SHAPE(0, 0, 0),
                SHOAL_SHAPE(B, E * P + 1, C));
  y = shoal_reshape(g, shoal_take_along(g, y, place, 1), SHOAL_SHAPE(B, T, K, C));
  y = shoal_mul(g, y, shoal_reshape(g, picks->weights, SHOAL_SHAPE(B, T, K, 1)));
  y = shoal_reduce_sum(g, y, SHOAL_SHAPE(2));
  shoal_scope_pop(g);
  return y;
}

static shoal_value_t experts(shoal_graph_t *g, const settings_t *s, shoal_value_t x,
                             balance_t *balance) {
  shoal_scope_push(g, "moe");
  const picks_t picks = route(g, s, x, balance);
  const weights_t w = expert_weights(g, s, shoal_value_type(x).dtype);
  const bool sorted = s->capacity == 0 && !s->bounded;
  shoal_value_t y = (sorted ? dropless : bounded)(g, s, x, &picks, &w);
  shoal_scope_pop(g);
  return y;
}

static void build(shoal_graph_t *g, const shoal_zoo_job_t *job) {
  const settings_t *s = job->settings;
  const shoal_zoo_text_t text = shoal_zoo_text(g, job, s->context);
  const bool balances = job->phase == SHOAL_ZOO_TRAIN && s->balance != 0;
  balance_t balance = {0};
  shoal_nn_attention_options_t attention = {
      .key_heads = s->key_heads, .no_bias = true, .rotary = true, .rotary_base = s->rotary_base};
  shoal_zoo_remember(job, &text, &attention);
  shoal_value_t x = shoal_nn_embedding(g, "wte", text.ids, s->vocabulary, s->width, job->dtype);
  for (int64_t i = 0; i < s->layers; ++i) {
    shoal_zoo_scope(g, "block", i);
    shoal_value_t y = shoal_zoo_rms(g, "norm_1", x, s->norm_eps);
    y = shoal_nn_self_attention_with(g, "attn", y, s->heads, &attention);
    x = shoal_add(g, x, y);
    y = shoal_zoo_rms(g, "norm_2", x, s->norm_eps);
    x = shoal_add(g, x, experts(g, s, y, balances ? &balance : NULL));
    shoal_scope_pop(g);
  }
  x = shoal_zoo_rms(g, "norm_f", shoal_zoo_last(g, job, &text, x), s->norm_eps);
  shoal_value_t more = {0};
  if (balances) {
    const double blocks = (double)s->layers;
    more = shoal_reduce_sum(g, shoal_mul(g, balance.picks, balance.probability), SHOAL_SHAPE(0));
    more = shoal_affine(g, more, s->balance * (double)s->experts / (blocks * blocks), 0);
  }
  shoal_zoo_text_end(g, job, &text, x, s->vocabulary, s->tied, more);
}

static const shoal_zoo_key_t KEYS[] = {{"vocabulary", "vocab_size"},
                                       {"context", "max_position_embeddings"},
                                       {"width", "hidden_size"},
                                       {"heads", "num_attention_heads"},
                                       {"key_heads", "num_key_value_heads"},
                                       {"layers", "num_hidden_layers"},
                                       {"hidden", "intermediate_size"},
                                       {"experts", "num_local_experts"},
                                       {"top_k", "num_experts_per_tok"},
                                       {"balance", "router_aux_loss_coef"},
                                       {"rotary_base", "rope_theta"},
                                       {"norm_eps", "rms_norm_eps"},
                                       {"tied", "tie_word_embeddings"}};

static void expert_name(shoal_zoo_map_t *map, int64_t expert, const char *ours,
                        const char *theirs) {
  const char *name = shoal_zoo_map_text(
      map, "model.layers.#.block_sparse_moe.experts.%lld.%s.weight", (long long)expert, theirs);
  shoal_zoo_map_add(map, (shoal_zoo_name_t){.ours = ours,
                                            .theirs = name,
                                            .transposed = true,
                                            .dropped = true,
                                            .from = expert,
                                            .size = 1});
}

// Hugging Face's MixtralForCausalLM.
static void names(const void *settings, shoal_zoo_map_t *map) {
  const settings_t *s = settings;
  SHOAL_ZOO_SAME(map, "wte/table", "model.embed_tokens.weight");
  for (map->number = 0; map->number < s->layers; ++map->number) {
    shoal_zoo_map_llama(map, s->width / s->heads, s->heads, s->key_heads);
    shoal_zoo_map_linear(map, "block#/moe/router", "model.layers.#.block_sparse_moe.gate", false);
    for (int64_t e = 0; e < s->experts; ++e) {
      expert_name(map, e, "block#/moe/gate", "w1");
      expert_name(map, e, "block#/moe/up", "w3");
      expert_name(map, e, "block#/moe/down", "w2");
    }
  }
  shoal_zoo_map_norm(map, "norm_f", "model.norm", false);
  shoal_zoo_map_head(map, s->tied);
}

const shoal_zoo_family_t shoal_zoo_family_moe_gpt = {
    .name = "moe-gpt",
    .doc = "Mixtral: Llama whose tokens choose among experts",
    SHOAL_ZOO_SETTINGS(SETTINGS),
    SHOAL_ZOO_PRESETS(PRESETS),
    .rows = 8,
    .phases = SHOAL_ZOO_DECODER,
    .build = build,
    .model_type = "mixtral",
    SHOAL_ZOO_KEYS(KEYS),
    .names = names};
