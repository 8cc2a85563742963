// DCGAN: a generator that makes pictures of noise, and a discriminator that tells them from real
// ones. Each has a loss of its own, and each loss trains its own half only. B rows, S side.
//   fake = generator(noise)                                             [B, channels, S, S]
//   discriminator's loss: bce of discriminator(x) to 1, + of discriminator(fake) to 0
//   generator's loss: bce of discriminator(fake) to 1
// Both halves take their step at the same time, from the same parameters; batch norm of real and
// fake pictures is apart. The generator's learning rate is the state "generator.lr".
// Input: x [B, channels, S, S], in (-1, 1). Outputs: loss, the discriminator's; generator_loss; in
// evaluation also images, which are fake, and logits of x.
// Reference: Radford et al. 2015; names as in PyTorch's example of it.
#include "base/locale.h"
#include "zoo/family.h"

typedef struct settings {
  int64_t noise, width, channels, size;
} settings_t;

static const shoal_option_t SETTINGS[] = {
    SHOAL_ZOO_SETTING(INT, noise, "32", "random numbers that a picture is made of"),
    SHOAL_ZOO_SETTING(INT, width, "16", "channels at half the side of a picture"),
    SHOAL_ZOO_SETTING(INT, channels, "3", "channels of a picture"),
    SHOAL_ZOO_SETTING(INT, size, "32", "side of a picture: 8, 16, 32, 64 ..")};

static const shoal_zoo_preset_t PRESETS[] = {
    {"gan-tiny", "batch=3 noise=5 width=3 channels=2 size=16", "for tests"},
    {"dcgan", "batch=128 noise=100 width=64 size=64", "DCGAN, 64 pixels a side"}};

// How often 4 pixels a side are doubled; -1: the size is none of those.
static int64_t doublings(const settings_t *s) {
  for (int64_t i = 1; i < 20; ++i)
    if (s->size == (int64_t)4 << i) return i;
  return -1;
}

// Which statistics batch norm uses: those of the step, which the running ones follow; those of the
// step alone; the running ones.
typedef enum statistics { FOLLOWED, OWN, RUNNING } statistics_t;

static shoal_value_t norm(shoal_graph_t *g, int64_t number, shoal_value_t x, statistics_t use) {
  char name[32];
  shoal_format(name, sizeof name, "bn%d", (int)number);
  const shoal_nn_norm_options_t options = {.eval = use == RUNNING,
                                           .keep_running = use == OWN,
                                           .gamma_init = {SHOAL_INIT_NORMAL, 1, 0.02}};
  return shoal_nn_batch_norm(g, name, x, &options);
}

#define NARROW \
  { SHOAL_INIT_NORMAL, 0, 0.02 }

static shoal_value_t generate(shoal_graph_t *g, const settings_t *s, shoal_value_t x,
                              statistics_t use) {
  const int64_t count = doublings(s);
  const shoal_nn_conv_options_t first = {.no_bias = true, .weight_init = NARROW};
  shoal_nn_conv_options_t twice = first;
  twice.stride = 2, twice.padding = 1;
  shoal_scope_push(g, "generator");
  for (int64_t i = 0; i <= count; ++i) {
    char name[32];
    shoal_format(name, sizeof name, "conv%d", (int)i);
    const int64_t channels = i < count ? s->width << (count - 1 - i) : s->channels;
    x = shoal_nn_conv_transpose(g, name, x, channels, 4, i ? &twice : &first);
    x = i < count ? shoal_relu(g, norm(g, i, x, use)) : shoal_tanh(g, x);
  }
  shoal_scope_pop(g);
  return x;
}

// The logits of being real, [B].
static shoal_value_t discriminate(shoal_graph_t *g, const settings_t *s, shoal_value_t x,
                                  statistics_t use) {
  const int64_t count = doublings(s), B = shoal_value_type(x).shape.dims[0];
  const shoal_nn_conv_options_t last = {.no_bias = true, .weight_init = NARROW};
  shoal_nn_conv_options_t half = last;
  half.stride = 2, half.padding = 1;
  shoal_scope_push(g, "discriminator");
  for (int64_t i = 0; i <= count; ++i) {
    char name[32];
    shoal_format(name, sizeof name, "conv%d", (int)i);
    x = shoal_nn_conv(g, name, x, i < count ? s->width << i : 1, 4, i < count ? &half : &last);
    if (i && i < count) x = norm(g, i, x, use);
    if (i < count) x = shoal_leaky_relu_with(g, x, &(shoal_leaky_relu_options_t){.slope = 0.2});
  }
  x = shoal_reshape(g, x, SHOAL_SHAPE(B));
  shoal_scope_pop(g);
  return x;
}

// Of logits, where all pictures are real (1) or fake (0).
static shoal_value_t bce(shoal_graph_t *g, shoal_value_t logits, double real) {
  const shoal_type_t type = shoal_value_type(logits);
  return shoal_nn_bce_with_logits_loss(g, logits, shoal_full(g, type.shape, real, type.dtype),
                                       NULL);
}

static void build(shoal_graph_t *g, const shoal_zoo_job_t *job) {
  const settings_t *s = job->settings;
  const bool train = job->phase == SHOAL_ZOO_TRAIN;
  if (doublings(s) < 0) {
    shoal_nn_refuse_hint(g, "use 8, 16, 32, 64 ..",
                         "gan: pictures of %lld pixels a side are not made by doubling 4",
                         (long long)s->size);
    return;
  }
  const shoal_value_t x =
      shoal_input(g, "x", job->dtype, SHOAL_SHAPE(job->rows, s->channels, s->size, s->size));
  const shoal_value_t step =
      train ? shoal_step(g) : shoal_state(g, "/step", SHOAL_I64, SHOAL_SCALAR, NULL);
  const shoal_value_t noise = shoal_random_normal(g, step, SHOAL_SHAPE(job->rows, s->noise, 1, 1),
                                                  shoal_random_key(g, "noise"), job->dtype, 0, 1);
  const shoal_value_t fake = generate(g, s, noise, train ? FOLLOWED : RUNNING);
  const shoal_value_t real_logits = discriminate(g, s, x, train ? FOLLOWED : RUNNING);
  const shoal_value_t fake_logits = discriminate(g, s, fake, train ? OWN : RUNNING);
  const shoal_value_t loss = shoal_add(g, bce(g, real_logits, 1), bce(g, fake_logits, 0));
  const shoal_value_t generator_loss = bce(g, fake_logits, 1);
  if (train) {
    shoal_zoo_train(g, job, loss, "discriminator/*", NULL);
    shoal_zoo_train(g, job, generator_loss, "generator/*", "generator");
  } else {
    shoal_output(g, "images", fake);
    shoal_output(g, "logits", real_logits);
  }
  shoal_output(g, "loss", loss);
  shoal_output(g, "generator_loss", generator_loss);
}

// Both halves in one module: "generator.main.N" and "discriminator.main.N".
static void names(const void *settings, shoal_zoo_map_t *map) {
  const int64_t count = doublings(settings);
  char ours[64], theirs[64];
  for (int64_t i = 0; i <= count; ++i) {
    for (int half = 0; half < 2; ++half) {
      const char *name = half ? "discriminator" : "generator";
      // convolution, norm, activation; the discriminator's first has no norm
      const int at = 3 * (int)i - (half && i > 0);
      shoal_format(ours, sizeof ours, "%s/conv%d", name, (int)i);
      shoal_format(theirs, sizeof theirs, "%s.main.%d", name, at);
      shoal_zoo_map_conv(map, ours, theirs, false);
      if (i == count || (half && !i)) continue;
      shoal_format(ours, sizeof ours, "%s/bn%d", name, (int)i);
      shoal_format(theirs, sizeof theirs, "%s.main.%d", name, at + 1);
      shoal_zoo_map_batch_norm(map, ours, theirs);
    }
  }
}

const shoal_zoo_family_t shoal_zoo_family_gan = {
    .name = "gan",
    .doc = "DCGAN: a generator and a discriminator of pictures",
    SHOAL_ZOO_SETTINGS(SETTINGS),
    SHOAL_ZOO_PRESETS(PRESETS),
    .rows = 16,
    .build = build,
    .names = names};
