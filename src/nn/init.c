// Initial values as torch.nn.init has them: Glorot and Bengio 2010 (xavier), He et al. 2015
// (kaiming).
#include <math.h>
#include <string.h>

#include "nn/build.h"

// With this standard deviation.
static shoal_init_t uniform_of(double deviation) {
  const double bound = sqrt(3) * deviation;
  return (shoal_init_t){.kind = SHOAL_INIT_UNIFORM, .a = -bound, .b = bound};
}

static shoal_init_t normal_of(double deviation) {
  return (shoal_init_t){.kind = SHOAL_INIT_NORMAL, .a = 0, .b = deviation};
}

static double xavier(double fan_in, double fan_out, double gain) {
  return (gain != 0 ? gain : 1) * sqrt(2 / (fan_in + fan_out));
}

static double kaiming(double fan, double gain) {
  return (gain != 0 ? gain : sqrt(2)) / sqrt(fan);
}

shoal_init_t shoal_init_xavier_uniform(double fan_in, double fan_out, double gain) {
  return uniform_of(xavier(fan_in, fan_out, gain));
}

shoal_init_t shoal_init_xavier_normal(double fan_in, double fan_out, double gain) {
  return normal_of(xavier(fan_in, fan_out, gain));
}

shoal_init_t shoal_init_kaiming_uniform(double fan, double gain) {
  return uniform_of(kaiming(fan, gain));
}

shoal_init_t shoal_init_kaiming_normal(double fan, double gain) {
  return normal_of(kaiming(fan, gain));
}

double shoal_init_gain(const char *activation) {
  const struct {
    const char *name;
    double gain;
  } gains[] = {{"none", 1},       {"sigmoid", 1},
               {"relu", sqrt(2)}, {"leaky_relu", sqrt(2 / 1.0001)},
               {"tanh", 5.0 / 3}, {"selu", 0.75}};
  for (size_t i = 0; i < sizeof gains / sizeof *gains; ++i) {
    if (strcmp(gains[i].name, activation ? activation : "none") == 0) return gains[i].gain;
  }
  return NAN;
}
