// U-Net, which gives each pixel of a picture a class. N rows, C channels, S side.
//   down: two 3x3 convolutions with batch norm and relu, max pool 2x2       half of S, twice C
//   at the bottom two more convolutions
//   up: twice the side by a transposed convolution (or bilinear), beside it what was there on the
//   way down, and two convolutions
//   1x1                                                                     [N, S, S, classes]
// Reference: Ronneberger et al. 2015, with padding and batch norm as most implementations have it;
// names as in https://github.com/milesial/Pytorch-UNet.
#include <math.h>

#include "base/locale.h"
#include "zoo/family.h"

typedef struct settings {
  int64_t width, levels, channels, size, classes;
  bool bilinear;
} settings_t;

static const shoal_option_t SETTINGS[] = {
    SHOAL_ZOO_SETTING(INT, width, "16", "channels of the first level"),
    SHOAL_ZOO_SETTING(INT, levels, "4", "how often the side is halved"),
    SHOAL_ZOO_FLAG(bilinear, NULL, "bilinear in place of transposed convolutions"),
    SHOAL_ZOO_PICTURE_SETTINGS("64", "2")};

static const shoal_zoo_preset_t PRESETS[] = {
    {"unet-tiny", "batch=3 width=3 levels=2 channels=2 size=8 classes=3", "for tests"},
    {"unet-31m", "width=64 size=256", "the classic one: 64 to 1024 channels"},
    {"unet-17m", "width=64 size=256 bilinear=true", "the same, bilinear"}};

enum { LEVELS = 16 };

static shoal_value_t conv_norm(shoal_graph_t *g, const char *conv, const char *norm,
                               shoal_value_t x, int64_t channels, bool eval) {
  const shoal_nn_conv_options_t same = {.padding = 1, .no_bias = true};
  x = shoal_nn_conv(g, conv, x, channels, 3, &same);
  return shoal_relu(g, shoal_nn_batch_norm(g, norm, x, &(shoal_nn_norm_options_t){.eval = eval}));
}

static shoal_value_t double_conv(shoal_graph_t *g, const char *name, shoal_value_t x, int64_t inner,
                                 int64_t channels, bool eval) {
  shoal_scope_push(g, name);
  x = conv_norm(g, "conv1", "bn1", x, inner, eval);
  x = conv_norm(g, "conv2", "bn2", x, channels, eval);
  shoal_scope_pop(g);
  return x;
}

// PyTorch's biases of convolutions; weights are layers' own.
static shoal_init_t within(int64_t fan_in) {
  const double bound = 1 / sqrt((double)fan_in);
  return (shoal_init_t){SHOAL_INIT_UNIFORM, -bound, bound};
}

// x at twice the side, brought to the side of `skip`, and beside it.
static shoal_value_t climb(shoal_graph_t *g, const settings_t *s, shoal_value_t x,
                           shoal_value_t skip) {
  const shoal_shape_t want = shoal_value_type(skip).shape;
  if (s->bilinear) {
    shoal_shape_t shape = shoal_value_type(x).shape;
    shape.dims[2] = want.dims[2], shape.dims[3] = want.dims[3];
    x = shoal_resize_with(g, x, shape, &(shoal_resize_options_t){.mode = "linear", .align = 1});
  } else {
    const shoal_nn_conv_options_t twice = {.stride = 2, .bias_init = within(4 * want.dims[1])};
    x = shoal_nn_conv_transpose(g, "up", x, want.dims[1], 2, &twice);
  }
  return shoal_concat(g, 2, (shoal_value_t[]){skip, x}, 1);
}

static void build(shoal_graph_t *g, const shoal_zoo_job_t *job) {
  const settings_t *s = job->settings;
  const bool eval = job->phase == SHOAL_ZOO_EVAL;
  if (s->levels > LEVELS || s->size % ((int64_t)1 << s->levels)) {
    shoal_nn_refuse_hint(g, "take another size, or fewer levels",
                         "unet: pictures of %lld pixels cannot be halved %lld times",
                         (long long)s->size, (long long)s->levels);
    return;
  }
  shoal_value_t x =
      shoal_input(g, "x", job->dtype, SHOAL_SHAPE(job->rows, s->channels, s->size, s->size));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(job->rows, s->size, s->size));
  shoal_value_t skips[LEVELS];
  // bilinear growth has no weights that could halve the channels, so that the level below does
  const int64_t halve = s->bilinear ? 2 : 1;
  char name[32];
  x = double_conv(g, "inc", x, s->width, s->width, eval);
  for (int64_t i = 0; i < s->levels; ++i) {
    const int64_t channels = (s->width << (i + 1)) / (i + 1 == s->levels ? halve : 1);
    skips[i] = x;
    x = shoal_max_pool(g, x, SHOAL_SHAPE(2, 2), SHOAL_SHAPE(2, 2), SHOAL_SHAPE(0, 0));
    snprintf(name, sizeof name, "down%d", (int)i + 1);
    x = double_conv(g, name, x, channels, channels, eval);
  }
  for (int64_t i = s->levels - 1; i >= 0; --i) {
    const int64_t channels = (s->width << i) / (i ? halve : 1);
    snprintf(name, sizeof name, "up%d", (int)(s->levels - i));
    shoal_scope_push(g, name);
    x = climb(g, s, x, skips[i]);
    const int64_t inner = s->bilinear ? shoal_value_type(x).shape.dims[1] / 2 : channels;
    x = double_conv(g, "conv", x, inner, channels, eval);
    shoal_scope_pop(g);
  }
  const shoal_nn_conv_options_t last = {.bias_init = within(s->width)};
  x = shoal_nn_conv(g, "outc", x, s->classes, 1, &last);
  shoal_value_t logits = shoal_transpose(g, x, SHOAL_SHAPE(0, 2, 3, 1));  // classes last
  shoal_zoo_end(g, job, shoal_nn_cross_entropy(g, logits, y), logits);
}

static void map_double(shoal_zoo_map_t *map, const char *ours, const char *theirs) {
  char a[64], b[64];
  for (int i = 0; i < 2; ++i) {
    shoal_format(a, sizeof a, "%s/conv%d", ours, i + 1);
    shoal_format(b, sizeof b, "%s.double_conv.%d", theirs, 3 * i);
    shoal_zoo_map_conv(map, a, b, false);
    shoal_format(a, sizeof a, "%s/bn%d", ours, i + 1);
    shoal_format(b, sizeof b, "%s.double_conv.%d", theirs, 3 * i + 1);
    shoal_zoo_map_batch_norm(map, a, b);
  }
}

static void names(const void *settings, shoal_zoo_map_t *map) {
  const settings_t *s = settings;
  map_double(map, "inc", "inc");
  for (map->number = 1; map->number <= s->levels; ++map->number) {
    map_double(map, "down#", "down#.maxpool_conv.1");
    if (!s->bilinear) shoal_zoo_map_conv(map, "up#/up", "up#.up", true);
    map_double(map, "up#/conv", "up#.conv");
  }
  shoal_zoo_map_conv(map, "outc", "outc.conv", true);
}

const shoal_zoo_family_t shoal_zoo_family_unet = {.name = "unet",
                                                  .doc = "U-Net: a class for each pixel",
                                                  SHOAL_ZOO_SETTINGS(SETTINGS),
                                                  SHOAL_ZOO_PRESETS(PRESETS),
                                                  .rows = 4,
                                                  .build = build,
                                                  .names = names};
