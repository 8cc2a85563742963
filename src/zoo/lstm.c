// A language model of LSTM layers, unrolled in time. B rows, T context, H width, V vocabulary.
//   x = table[ids]                                                       [B, T, H]
//   i, f, g, o = x[:, t] ih + h hh, each with a bias                     per layer and time
//   c = sigmoid(f) c + sigmoid(i) tanh(g);  h = sigmoid(o) tanh(c)       both zeros at first
//   logits = head(x)                                                     [B, T, V]
// Gates in the order of torch.nn.LSTM. Reference: Zaremba et al. 2014, whose sizes the presets are.
#include <math.h>

#include "zoo/family.h"

typedef struct settings {
  int64_t context, vocabulary, width, layers;
  double dropout;
} settings_t;

static const shoal_option_t SETTINGS[] = {
    SHOAL_ZOO_SETTING(INT, context, "32", "tokens per row"),
    SHOAL_ZOO_SETTING(INT, vocabulary, "256", "size of the vocabulary"),
    SHOAL_ZOO_SETTING(INT, width, "64", "width of the model"),
    SHOAL_ZOO_SETTING(INT, layers, "2", "LSTM layers"),
    SHOAL_ZOO_SHARE(dropout, NULL, "probability of dropping an activation")};

#define PTB "batch=20 context=35 vocabulary=10000 "
static const shoal_zoo_preset_t PRESETS[] = {
    {"lstm-tiny", "batch=3 context=4 vocabulary=11 width=6", "for tests"},
    {"lstm-20m", PTB "width=650 dropout=0.5", "Zaremba's medium one, for the Penn Treebank"},
    {"lstm-66m", PTB "width=1500 dropout=0.65", "Zaremba's large one"}};

enum { TIMES = 1024 };

// One layer over all times. What does not depend on the time before is one product for all of them.
static shoal_init_t within(double bound) {
  return (shoal_init_t){SHOAL_INIT_UNIFORM, -bound, bound};
}

static shoal_value_t layer(shoal_graph_t *g, const settings_t *s, int64_t B, shoal_value_t x) {
  const int64_t T = s->context, H = s->width;
  const shoal_dtype_t dtype = shoal_value_type(x).dtype;
  const shoal_init_t own = within(1 / sqrt((double)H));
  const shoal_nn_linear_options_t linear = {.weight_init = own, .bias_init = own};
  const shoal_value_t from_below = shoal_nn_linear_with(g, "ih", x, 4 * H, &linear);  // [B, T, 4 H]
  shoal_value_t h = shoal_full(g, SHOAL_SHAPE(B, H), 0, dtype), c = h;
  shoal_value_t out[TIMES];
  for (int64_t t = 0; t < T; ++t) {
    shoal_value_t gates =
        shoal_slice(g, from_below, SHOAL_SHAPE(0, t, 0), SHOAL_SHAPE(B, 1, 4 * H));
    gates = shoal_reshape(g, gates, SHOAL_SHAPE(B, 4 * H));
    gates = shoal_add(g, gates, shoal_nn_linear_with(g, "hh", h, 4 * H, &linear));
    shoal_value_t part[4];  // i, f, g, o
    shoal_nn_split(g, gates, -1, 4, NULL, part);
    c = shoal_add(g, shoal_mul(g, shoal_sigmoid(g, part[1]), c),
                  shoal_mul(g, shoal_sigmoid(g, part[0]), shoal_tanh(g, part[2])));
    out[t] = h = shoal_mul(g, shoal_sigmoid(g, part[3]), shoal_tanh(g, c));
  }
  return shoal_stack(g, (int32_t)T, out, 1);
}

static void build(shoal_graph_t *g, const shoal_zoo_job_t *job) {
  const settings_t *s = job->settings;
  const double p = job->phase == SHOAL_ZOO_TRAIN ? s->dropout : 0;
  if (s->context > TIMES) {
    shoal_nn_refuse_hint(g, "take a shorter one: every token is a piece of the graph",
                         "lstm: a context of %lld tokens is more than %d", (long long)s->context,
                         TIMES);
    return;
  }
  const shoal_shape_t tokens = SHOAL_SHAPE(job->rows, s->context);
  shoal_value_t ids = shoal_input(g, "ids", SHOAL_I32, tokens);
  shoal_value_t labels = shoal_input(g, "labels", SHOAL_I32, tokens);
  const shoal_nn_embedding_options_t words = {.init = within(0.1)};
  const shoal_nn_linear_options_t head = {.weight_init = within(0.1)};
  shoal_value_t x =
      shoal_nn_embedding_with(g, "embedding", ids, s->vocabulary, s->width, job->dtype, &words);
  x = shoal_nn_dropout(g, "drop", x, p);
  for (int64_t i = 0; i < s->layers; ++i) {
    shoal_zoo_scope(g, "layer", i);
    x = shoal_nn_dropout(g, "drop", layer(g, s, job->rows, x), p);
    shoal_scope_pop(g);
  }
  shoal_value_t logits = shoal_nn_linear_with(g, "head", x, s->vocabulary, &head);
  shoal_zoo_end(g, job, shoal_nn_cross_entropy(g, logits, labels), logits);
}

// A torch.nn.Module with an Embedding "encoder", an LSTM "rnn" and a Linear "decoder", as PyTorch's
// example of a word language model.
static void names(const void *settings, shoal_zoo_map_t *map) {
  const settings_t *s = settings;
  SHOAL_ZOO_SAME(map, "embedding/table", "encoder.weight");
  for (map->number = 0; map->number < s->layers; ++map->number) {
    SHOAL_ZOO_TURNED(map, "layer#/ih/weight", "rnn.weight_ih_l#");
    SHOAL_ZOO_TURNED(map, "layer#/hh/weight", "rnn.weight_hh_l#");
    SHOAL_ZOO_SAME(map, "layer#/ih/bias", "rnn.bias_ih_l#");
    SHOAL_ZOO_SAME(map, "layer#/hh/bias", "rnn.bias_hh_l#");
  }
  shoal_zoo_map_linear(map, "head", "decoder", true);
}

const shoal_zoo_family_t shoal_zoo_family_lstm = {.name = "lstm",
                                                  .doc = "LSTM language model, unrolled in time",
                                                  SHOAL_ZOO_SETTINGS(SETTINGS),
                                                  SHOAL_ZOO_PRESETS(PRESETS),
                                                  .rows = 8,
                                                  .build = build,
                                                  .names = names};
