// A multi-layer perceptron. fc1, relu, [dropout], fc2, relu ... cross-entropy.
#include "base/locale.h"
#include "zoo/family.h"

typedef struct settings {
  int64_t in_features, hidden, classes, layers;
  double dropout;
} settings_t;

static const shoal_option_t SETTINGS[] = {
    SHOAL_ZOO_SETTING(INT, in_features, "64", "elements of a row of x"),
    SHOAL_ZOO_SETTING(INT, hidden, "128", "width of hidden layers"),
    SHOAL_ZOO_SETTING(INT, classes, "10", "classes"), SHOAL_ZOO_SETTING(INT, layers, "2", "layers"),
    SHOAL_ZOO_SHARE(dropout, NULL, "probability of dropping an activation")};

static const shoal_zoo_preset_t PRESETS[] = {
    {"mlp-tiny", "batch=5 in_features=6 hidden=7 classes=3 layers=3", "for tests"}};

static void build(shoal_graph_t *g, const shoal_zoo_job_t *job) {
  const settings_t *s = job->settings;
  shoal_value_t x = shoal_input(g, "x", job->dtype, SHOAL_SHAPE(job->rows, s->in_features));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(job->rows));
  for (int64_t i = 1; i <= s->layers; ++i) {
    char name[32], drop[32];
    shoal_format(name, sizeof name, "fc%lld", (long long)i);
    shoal_format(drop, sizeof drop, "drop%lld", (long long)i);
    if (i == s->layers) {
      x = shoal_nn_linear(g, name, x, s->classes);
      break;
    }
    x = shoal_nn_linear(g, name, x, s->hidden);
    x = shoal_relu(g, x);
    if (job->phase == SHOAL_ZOO_TRAIN) x = shoal_nn_dropout(g, drop, x, s->dropout);
  }
  shoal_zoo_end(g, job, shoal_nn_cross_entropy(g, x, y), x);
}

const shoal_zoo_family_t shoal_zoo_family_mlp = {.name = "mlp",
                                                 .doc = "multi-layer perceptron, a classifier",
                                                 SHOAL_ZOO_SETTINGS(SETTINGS),
                                                 SHOAL_ZOO_PRESETS(PRESETS),
                                                 .rows = 64,
                                                 .build = build};
