// ResNet as torchvision builds it (v1.5: a bottleneck's stride is in its 3x3), with the wide ones
// and ResNeXt, which differ in two numbers. B rows, S side of a picture.
//   conv 7x7 / 2, batch norm, relu, max pool 3x3 / 2      [B, 64, S / 4, S / 4]
//   four stages of residual blocks                        each with twice the channels, half the S
//   mean over the picture, linear                         [B, classes]
// References: He et al. 2015, Zagoruyko and Komodakis 2016, Xie et al. 2017.
#include "base/locale.h"
#include "zoo/family.h"

typedef struct settings {
  int64_t layers, planes, width, groups, channels, size, classes;
} settings_t;

static const shoal_option_t SETTINGS[] = {
    SHOAL_ZOO_SETTING(INT, layers, "18", "how deep: 10, 14, 18, 34, 50, 101 or 152"),
    SHOAL_ZOO_SETTING(INT, planes, "64", "channels of the first stage"),
    SHOAL_ZOO_SETTING(INT, width, "64",
                      "channels of a group of a bottleneck's 3x3, where planes are 64"),
    SHOAL_ZOO_SETTING(INT, groups, "1", "groups of channels of a bottleneck's 3x3"),
    SHOAL_ZOO_PICTURE_SETTINGS("32", "10")};

#define IMAGENET " size=224 classes=1000"
static const shoal_zoo_preset_t PRESETS[] = {
    {"resnet-tiny", "batch=5 layers=10 planes=4 size=16 classes=5", "for tests"},
    {"resnet-tiny-deep", "batch=5 layers=14 planes=4 width=96 groups=2 size=16 classes=5",
     "for tests, of bottlenecks in groups"},
    {"resnet18", "layers=18" IMAGENET, "torchvision's resnet18"},
    {"resnet34", "layers=34" IMAGENET, "torchvision's resnet34"},
    {"resnet50", "layers=50" IMAGENET, "torchvision's resnet50"},
    {"resnet101", "layers=101" IMAGENET, "torchvision's resnet101"},
    {"resnet152", "layers=152" IMAGENET, "torchvision's resnet152"},
    {"wide-resnet50-2", "layers=50 width=128" IMAGENET, "torchvision's wide_resnet50_2"},
    {"wide-resnet101-2", "layers=101 width=128" IMAGENET, "torchvision's wide_resnet101_2"},
    {"resnext50-32x4d", "layers=50 width=4 groups=32" IMAGENET, "torchvision's resnext50_32x4d"},
    {"resnext101-32x8d", "layers=101 width=8 groups=32" IMAGENET,
     "torchvision's resnext101_32x8d"}};

typedef struct depth {
  int64_t layers, blocks[4];  // of each stage
  bool bottleneck;
} depth_t;
static const depth_t DEPTHS[] = {{10, {1, 1, 1, 1}, false}, {14, {1, 1, 1, 1}, true},
                                 {18, {2, 2, 2, 2}, false}, {34, {3, 4, 6, 3}, false},
                                 {50, {3, 4, 6, 3}, true},  {101, {3, 4, 23, 3}, true},
                                 {152, {3, 8, 36, 3}, true}};

static const depth_t *depth_of(const settings_t *s) {
  for (size_t i = 0; i < sizeof DEPTHS / sizeof *DEPTHS; ++i)
    if (DEPTHS[i].layers == s->layers) return &DEPTHS[i];
  return NULL;
}

// A block: where it is, what it makes. Graph and names both walk over them.
typedef struct block {
  char name[32];
  int64_t planes, inner, out, stride;
  bool bottleneck, projected;  // what came in is brought to another shape
} block_t;

static block_t block_at(const settings_t *s, const depth_t *depth, int64_t stage, int64_t i) {
  const int64_t planes = s->planes << stage, grow = depth->bottleneck ? 4 : 1;
  block_t b = {.planes = planes,
               .inner = planes * s->width / 64 * s->groups,
               .out = grow * planes,
               .stride = stage && !i ? 2 : 1,
               .bottleneck = depth->bottleneck,
               .projected = !i && (stage || depth->bottleneck)};
  shoal_format(b.name, sizeof b.name, "layer%d/%d", (int)stage + 1, (int)i);
  return b;
}

static shoal_value_t conv_norm(shoal_graph_t *g, const char *conv, const char *norm,
                               shoal_value_t x, int64_t channels, int64_t kernel, int64_t stride,
                               int64_t groups, bool eval) {
  const double fan_out = (double)(channels * kernel * kernel);
  const shoal_nn_conv_options_t options = {.stride = stride,
                                           .padding = kernel / 2,
                                           .groups = groups,
                                           .no_bias = true,
                                           .weight_init = shoal_init_kaiming_normal(fan_out, 0)};
  x = shoal_nn_conv(g, conv, x, channels, kernel, &options);
  return shoal_nn_batch_norm(g, norm, x, &(shoal_nn_norm_options_t){.eval = eval});
}

// Two 3x3, or 1x1, 3x3 and 1x1.
static shoal_value_t add_block(shoal_graph_t *g, const block_t *b, int64_t groups, shoal_value_t x,
                               bool eval) {
  shoal_value_t y, way = x;
  shoal_scope_push(g, b->name);
  if (b->bottleneck) {
    y = shoal_relu(g, conv_norm(g, "conv1", "bn1", x, b->inner, 1, 1, 1, eval));
    y = shoal_relu(g, conv_norm(g, "conv2", "bn2", y, b->inner, 3, b->stride, groups, eval));
    y = conv_norm(g, "conv3", "bn3", y, b->out, 1, 1, 1, eval);
  } else {
    y = shoal_relu(g, conv_norm(g, "conv1", "bn1", x, b->planes, 3, b->stride, 1, eval));
    y = conv_norm(g, "conv2", "bn2", y, b->out, 3, 1, 1, eval);
  }
  if (b->projected)
    way = conv_norm(g, "downsample/0", "downsample/1", x, b->out, 1, b->stride, 1, eval);
  y = shoal_relu(g, shoal_add(g, y, way));
  shoal_scope_pop(g);
  return y;
}

static void build(shoal_graph_t *g, const shoal_zoo_job_t *job) {
  const settings_t *s = job->settings;
  const depth_t *depth = depth_of(s);
  const bool eval = job->phase == SHOAL_ZOO_EVAL;
  if (!depth) {
    shoal_nn_refuse_hint(g, "use 10, 14, 18, 34, 50, 101 or 152",
                         "there is no resnet of %lld layers", (long long)s->layers);
    return;
  }
  if (s->width * s->groups > 1 << 20) {  // as the first 64 channels have it
    shoal_nn_refuse(g, "resnet: %lld groups of %lld channels are too many", (long long)s->groups,
                    (long long)s->width);
    return;
  }
  shoal_value_t x =
      shoal_input(g, "x", job->dtype, SHOAL_SHAPE(job->rows, s->channels, s->size, s->size));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(job->rows));
  x = shoal_relu(g, conv_norm(g, "conv1", "bn1", x, s->planes, 7, 2, 1, eval));
  x = shoal_max_pool(g, x, SHOAL_SHAPE(3, 3), SHOAL_SHAPE(2, 2), SHOAL_SHAPE(1, 1));
  for (int64_t stage = 0; stage < 4; ++stage) {
    for (int64_t i = 0; i < depth->blocks[stage]; ++i) {
      const block_t b = block_at(s, depth, stage, i);
      x = add_block(g, &b, s->groups, x, eval);
    }
  }
  x = shoal_reduce_mean(g, x, SHOAL_SHAPE(2, 3));
  shoal_value_t logits = shoal_nn_linear(g, "fc", x, s->classes);
  shoal_zoo_end(g, job, shoal_nn_cross_entropy(g, logits, y), logits);
}

// torchvision's, which are ours with dots.
static void names(const void *settings, shoal_zoo_map_t *map) {
  const settings_t *s = settings;
  const depth_t *depth = depth_of(s);
  shoal_zoo_map_conv(map, "conv1", NULL, false);
  shoal_zoo_map_batch_norm(map, "bn1", NULL);
  for (int64_t stage = 0; depth && stage < 4; ++stage) {
    for (int64_t i = 0; i < depth->blocks[stage]; ++i) {
      const block_t b = block_at(s, depth, stage, i);
      char name[64];
      for (int c = 1; c <= (b.bottleneck ? 3 : 2); ++c) {
        shoal_format(name, sizeof name, "%s/conv%d", b.name, c);
        shoal_zoo_map_conv(map, name, NULL, false);
        shoal_format(name, sizeof name, "%s/bn%d", b.name, c);
        shoal_zoo_map_batch_norm(map, name, NULL);
      }
      if (!b.projected) continue;
      shoal_format(name, sizeof name, "%s/downsample/0", b.name);
      shoal_zoo_map_conv(map, name, NULL, false);
      shoal_format(name, sizeof name, "%s/downsample/1", b.name);
      shoal_zoo_map_batch_norm(map, name, NULL);
    }
  }
  shoal_zoo_map_linear(map, "fc", "fc", true);
}

const shoal_zoo_family_t shoal_zoo_family_resnet = {
    .name = "resnet",
    .doc = "ResNet, wide ResNet and ResNeXt: convolutions in residual blocks",
    SHOAL_ZOO_SETTINGS(SETTINGS),
    SHOAL_ZOO_PRESETS(PRESETS),
    .rows = 16,
    .build = build,
    .names = names};
