// Wide ResNet for small pictures (CIFAR), pre-activation: WRN-DEPTH-WIDEN. B rows.
//   conv 3x3                                              [B, 16, S, S]
//   three stages of (depth - 4) / 6 blocks                16, 32 and 64 channels, times widen
//     batch norm, relu, conv 3x3, batch norm, relu, [dropout], conv 3x3; and what came in
//   batch norm, relu, mean over the picture, linear       [B, classes]
// Reference: Zagoruyko and Komodakis 2016. (Wide ones for large pictures are presets of resnet.)
#include "base/locale.h"
#include "zoo/family.h"

typedef struct settings {
  int64_t depth, widen, channels, size, classes;
  double dropout;
} settings_t;

static const shoal_option_t SETTINGS[] = {
    SHOAL_ZOO_SETTING(INT, depth, "10", "how deep: 4 and a multiple of 6"),
    SHOAL_ZOO_SETTING(INT, widen, "1", "how many times as wide as the plain one"),
    SHOAL_ZOO_SHARE(dropout, NULL, "probability of dropping an activation"),
    SHOAL_ZOO_PICTURE_SETTINGS("32", "10")};

static const shoal_zoo_preset_t PRESETS[] = {
    {"wide-resnet-tiny", "batch=5 channels=2 size=4 classes=5", "for tests"},
    {"wrn-16-8", "depth=16 widen=8", "for CIFAR-10"},
    {"wrn-28-10", "depth=28 widen=10", "for CIFAR-10"},
    {"wrn-40-4", "depth=40 widen=4", "for CIFAR-10"}};

static shoal_value_t norm_relu(shoal_graph_t *g, const char *name, shoal_value_t x, bool eval) {
  return shoal_relu(g, shoal_nn_batch_norm(g, name, x, &(shoal_nn_norm_options_t){.eval = eval}));
}

static shoal_value_t conv(shoal_graph_t *g, const char *name, shoal_value_t x, int64_t channels,
                          int64_t kernel, int64_t stride) {
  const double fan_out = (double)(channels * kernel * kernel);
  const shoal_nn_conv_options_t options = {.stride = stride,
                                           .padding = kernel / 2,
                                           .no_bias = true,
                                           .weight_init = shoal_init_kaiming_normal(fan_out, 0)};
  return shoal_nn_conv(g, name, x, channels, kernel, &options);
}

static shoal_value_t block(shoal_graph_t *g, shoal_value_t x, int64_t channels, int64_t stride,
                           double p, bool eval) {
  const shoal_value_t active = norm_relu(g, "bn1", x, eval);
  shoal_value_t y = conv(g, "conv1", active, channels, 3, stride);
  y = shoal_nn_dropout(g, "drop", norm_relu(g, "bn2", y, eval), p);
  y = conv(g, "conv2", y, channels, 3, 1);
  // where the shape changes, what came in takes part in the activation and gets a 1x1
  const bool same = shoal_value_type(x).shape.dims[1] == channels;
  return shoal_add(g, y, same ? x : conv(g, "shortcut", active, channels, 1, stride));
}

static void build(shoal_graph_t *g, const shoal_zoo_job_t *job) {
  const settings_t *s = job->settings;
  const bool eval = job->phase == SHOAL_ZOO_EVAL;
  if (s->depth % 6 != 4) {
    shoal_nn_refuse_hint(g, "use 10, 16, 22, 28, 34 or 40",
                         "wide-resnet: depth is 4 and a multiple of 6, not %lld",
                         (long long)s->depth);
    return;
  }
  shoal_value_t x =
      shoal_input(g, "x", job->dtype, SHOAL_SHAPE(job->rows, s->channels, s->size, s->size));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(job->rows));
  x = conv(g, "conv1", x, 16, 3, 1);
  for (int64_t stage = 0; stage < 3; ++stage) {
    shoal_zoo_scope(g, "block", stage + 1);
    for (int64_t i = 0; i < (s->depth - 4) / 6; ++i) {
      shoal_zoo_scope(g, "layer/", i);
      x = block(g, x, (16 << stage) * s->widen, stage && !i ? 2 : 1, eval ? 0 : s->dropout, eval);
      shoal_scope_pop(g);
    }
    shoal_scope_pop(g);
  }
  x = shoal_reduce_mean(g, norm_relu(g, "bn1", x, eval), SHOAL_SHAPE(2, 3));
  shoal_value_t logits = shoal_nn_linear(g, "fc", x, s->classes);
  shoal_zoo_end(g, job, shoal_nn_cross_entropy(g, logits, y), logits);
}

// As in https://github.com/xternalbin/WideResNet-pytorch.
static void names(const void *settings, shoal_zoo_map_t *map) {
  const settings_t *s = settings;
  shoal_zoo_map_conv(map, "conv1", NULL, false);
  for (int64_t stage = 0; stage < 3; ++stage) {
    for (map->number = 0; map->number < (s->depth - 4) / 6; ++map->number) {
      static const char *const parts[] = {"conv1", "conv2", "bn1", "bn2"};
      char ours[64], theirs[64];
      for (int i = 0; i < 4; ++i) {
        shoal_format(ours, sizeof ours, "block%d/layer/#/%s", (int)stage + 1, parts[i]);
        if (i < 2) shoal_zoo_map_conv(map, ours, NULL, false);
        if (i >= 2) shoal_zoo_map_batch_norm(map, ours, NULL);
      }
      if (map->number || (!stage && s->widen == 1)) continue;
      shoal_format(ours, sizeof ours, "block%d/layer/#/shortcut", (int)stage + 1);
      shoal_format(theirs, sizeof theirs, "block%d.layer.#.convShortcut", (int)stage + 1);
      shoal_zoo_map_conv(map, ours, theirs, false);
    }
  }
  shoal_zoo_map_batch_norm(map, "bn1", NULL);
  shoal_zoo_map_linear(map, "fc", "fc", true);
}

const shoal_zoo_family_t shoal_zoo_family_wide_resnet = {.name = "wide-resnet",
                                                         .doc = "wide ResNet for small pictures",
                                                         SHOAL_ZOO_SETTINGS(SETTINGS),
                                                         SHOAL_ZOO_PRESETS(PRESETS),
                                                         .rows = 16,
                                                         .build = build,
                                                         .names = names};
