// Vision transformer, pre-norm, as torchvision builds it. B rows, P patches, C width.
//   x = [class token, conv patch x patch / patch of the picture] + positions     [B, 1 + P, C]
//   x = x + attn(ln_1 x);  x = x + mlp(ln_2 x)                                   per block
//   logits = head(ln x of the class token)                                       [B, classes]
// Reference: Dosovitskiy et al. 2020.
#include <math.h>

#include "zoo/family.h"

typedef struct settings {
  int64_t patch, width, heads, layers, hidden, channels, size, classes;
  double dropout;
} settings_t;

static const shoal_option_t SETTINGS[] = {
    SHOAL_ZOO_SETTING(INT, patch, "8", "side of a patch"),
    SHOAL_ZOO_SETTING(INT, width, "64", "width of the model"),
    SHOAL_ZOO_SETTING(INT, heads, "4", "attention heads"),
    SHOAL_ZOO_SETTING(INT, layers, "4", "blocks"),
    SHOAL_ZOO_SETTING(INT, hidden, NULL, "width inside a block; by default 4 times the model's"),
    SHOAL_ZOO_SHARE(dropout, NULL, "probability of dropping an activation"),
    SHOAL_ZOO_PICTURE_SETTINGS("32", "10")};

#define IMAGENET " size=224 classes=1000"
#define BASE " width=768 heads=12 layers=12" IMAGENET
#define LARGE " width=1024 heads=16 layers=24" IMAGENET
static const shoal_zoo_preset_t PRESETS[] = {
    {"vit-tiny", "batch=3 patch=4 width=12 heads=3 layers=2 channels=2 size=8 classes=5",
     "for tests"},
    {"vit-b16", "patch=16" BASE, "torchvision's vit_b_16"},
    {"vit-b32", "patch=32" BASE, "torchvision's vit_b_32"},
    {"vit-l16", "patch=16" LARGE, "torchvision's vit_l_16"},
    {"vit-l32", "patch=32" LARGE, "torchvision's vit_l_32"},
    {"vit-h14", "patch=14 width=1280 heads=16 layers=32" IMAGENET, "torchvision's vit_h_14"}};

static shoal_value_t norm(shoal_graph_t *g, const char *name, shoal_value_t x) {
  return shoal_nn_layer_norm_with(g, name, x, &(shoal_nn_layer_norm_options_t){.eps = 1e-6});
}

// A layer of an MLP.
static shoal_value_t layer(shoal_graph_t *g, const char *name, shoal_value_t x, int64_t from,
                           int64_t to) {
  const shoal_nn_linear_options_t options = {
      .weight_init = shoal_init_xavier_uniform((double)from, (double)to, 0),
      .bias_init = {SHOAL_INIT_NORMAL, 0, 1e-6}};
  return shoal_nn_linear_with(g, name, x, to, &options);
}

static shoal_value_t block(shoal_graph_t *g, const settings_t *s, shoal_value_t x, double p) {
  const int64_t C = s->width, hidden = shoal_nn_size(s->hidden, 4 * C);
  const double bound = 1 / sqrt((double)C);
  const shoal_nn_attention_options_t all = {
      .sees_ahead = true,
      .weight_init = shoal_init_xavier_uniform((double)C, 3 * (double)C, 0),
      .proj_init = {SHOAL_INIT_UNIFORM, -bound, bound}};
  shoal_value_t y = shoal_nn_self_attention_with(g, "attn", norm(g, "ln_1", x), s->heads, &all);
  x = shoal_add(g, x, shoal_nn_dropout(g, "attn_drop", y, p));
  y = norm(g, "ln_2", x);
  shoal_scope_push(g, "mlp");
  y = shoal_gelu_erf(g, layer(g, "fc1", y, C, hidden));
  y = layer(g, "fc2", shoal_nn_dropout(g, "drop", y, p), hidden, C);
  shoal_scope_pop(g);
  return shoal_add(g, x, shoal_nn_dropout(g, "mlp_drop", y, p));
}

static void build(shoal_graph_t *g, const shoal_zoo_job_t *job) {
  const settings_t *s = job->settings;
  const double p = job->phase == SHOAL_ZOO_TRAIN ? s->dropout : 0;
  const int64_t B = job->rows, C = s->width, side = s->size / s->patch, P = side * side;
  if (s->size % s->patch) {
    shoal_nn_refuse_hint(g, "take a size that is a multiple of patch",
                         "vit: pictures of %lld pixels are not patches of %lld", (long long)s->size,
                         (long long)s->patch);
    return;
  }
  shoal_value_t x = shoal_input(g, "x", job->dtype, SHOAL_SHAPE(B, s->channels, s->size, s->size));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(B));
  const double pixels = (double)(s->channels * s->patch * s->patch);
  const shoal_nn_conv_options_t cut = {
      .stride = s->patch, .weight_init = {SHOAL_INIT_TRUNCATED_NORMAL, 0, 1 / sqrt(pixels)}};
  x = shoal_nn_conv(g, "patches", x, C, s->patch, &cut);
  x = shoal_transpose(g, shoal_reshape(g, x, SHOAL_SHAPE(B, C, P)), SHOAL_SHAPE(0, 2, 1));
  const shoal_init_t zeros = {0}, normal = {SHOAL_INIT_NORMAL, 0, 0.02};
  shoal_value_t token =
      shoal_nn_parameter(g, "class_token", job->dtype, SHOAL_SHAPE(1, 1, C), zeros);
  token = shoal_broadcast_to(g, token, SHOAL_SHAPE(B, 1, C));
  x = shoal_concat(g, 2, (shoal_value_t[]){token, x}, 1);
  x = shoal_add(g, x,
                shoal_nn_parameter(g, "positions", job->dtype, SHOAL_SHAPE(1, 1 + P, C), normal));
  x = shoal_nn_dropout(g, "drop", x, p);
  for (int64_t i = 0; i < s->layers; ++i) {
    shoal_zoo_scope(g, "block", i);
    x = block(g, s, x, p);
    shoal_scope_pop(g);
  }
  x = norm(g, "ln", x);
  x = shoal_reshape(g, shoal_slice(g, x, SHOAL_SHAPE(0, 0, 0), SHOAL_SHAPE(B, 1, C)),
                    SHOAL_SHAPE(B, C));
  const shoal_nn_linear_options_t head = {.weight_init = {SHOAL_INIT_FILL, 0}};
  shoal_value_t logits = shoal_nn_linear_with(g, "head", x, s->classes, &head);
  shoal_zoo_end(g, job, shoal_nn_cross_entropy(g, logits, y), logits);
}

// torchvision's VisionTransformer.
static void names(const void *settings, shoal_zoo_map_t *map) {
  const settings_t *s = settings;
  SHOAL_ZOO_SAME(map, "class_token", "class_token");
  SHOAL_ZOO_SAME(map, "positions", "encoder.pos_embedding");
  shoal_zoo_map_conv(map, "patches", "conv_proj", true);
  for (map->number = 0; map->number < s->layers; ++map->number) {
#define THEIRS "encoder.layers.encoder_layer_#."
    shoal_zoo_map_norm(map, "block#/ln_1", THEIRS "ln_1", true);
    SHOAL_ZOO_TURNED(map, "block#/attn/qkv/weight", THEIRS "self_attention.in_proj_weight");
    SHOAL_ZOO_SAME(map, "block#/attn/qkv/bias", THEIRS "self_attention.in_proj_bias");
    shoal_zoo_map_linear(map, "block#/attn/proj", THEIRS "self_attention.out_proj", true);
    shoal_zoo_map_norm(map, "block#/ln_2", THEIRS "ln_2", true);
    shoal_zoo_map_linear(map, "block#/mlp/fc1", THEIRS "mlp.0", true);
    shoal_zoo_map_linear(map, "block#/mlp/fc2", THEIRS "mlp.3", true);
#undef THEIRS
  }
  shoal_zoo_map_norm(map, "ln", "encoder.ln", true);
  shoal_zoo_map_linear(map, "head", "heads.head", true);
}

const shoal_zoo_family_t shoal_zoo_family_vit = {
    .name = "vit",
    .doc = "vision transformer: a picture's patches as tokens",
    SHOAL_ZOO_SETTINGS(SETTINGS),
    SHOAL_ZOO_PRESETS(PRESETS),
    .rows = 16,
    .build = build,
    .names = names};
