// A small convolutional classifier. conv 3x3, relu, max-pool 2x2, conv 3x3 without padding, relu,
// linear: windows that overlap and windows that do not, with and without padding.
#include "zoo/family.h"

typedef struct settings {
  int64_t channels, size, classes;
} settings_t;

static const shoal_option_t SETTINGS[] = {
    SHOAL_ZOO_SETTING(INT, channels, "3", "channels of x"),
    SHOAL_OPTION(settings_t, INT, size, "12", "height and width of x", .no_environment = true,
                 .positive = true),
    SHOAL_ZOO_SETTING(INT, classes, "10", "classes")};

static const shoal_zoo_preset_t PRESETS[] = {
    {"cnn-tiny", "batch=3 channels=2 size=8 classes=5", "for tests"}};

static void build(shoal_graph_t *g, const shoal_zoo_job_t *job) {
  const settings_t *s = job->settings;
  shoal_value_t x =
      shoal_input(g, "x", job->dtype, SHOAL_SHAPE(job->rows, s->channels, s->size, s->size));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(job->rows));
  x = shoal_nn_conv2d(g, "conv1", x, 8, 3, 1, 1);
  x = shoal_relu(g, x);
  x = shoal_max_pool(g, x, SHOAL_SHAPE(2, 2), SHOAL_SHAPE(2, 2), SHOAL_SHAPE(0, 0));
  x = shoal_nn_conv2d(g, "conv2", x, 16, 3, 1, 0);
  x = shoal_relu(g, x);
  x = shoal_reshape(g, x, SHOAL_SHAPE(job->rows, -1));
  shoal_value_t logits = shoal_nn_linear(g, "head", x, s->classes);
  shoal_zoo_end(g, job, shoal_nn_cross_entropy(g, logits, y), logits);
}

const shoal_zoo_family_t shoal_zoo_family_cnn = {.name = "cnn",
                                                 .doc = "small convolutional classifier of images",
                                                 SHOAL_ZOO_SETTINGS(SETTINGS),
                                                 SHOAL_ZOO_PRESETS(PRESETS),
                                                 .rows = 4,
                                                 .build = build};
