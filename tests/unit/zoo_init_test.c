// Parameters begin as the authors of a family have them: ranges, means and deviations of some
// tensors against what their own code says, in numbers.
#include "graph_support.h"
#include "shoal/zoo.h"

typedef struct known {
  const char *model, *state;
  shoal_init_kind_t kind;  // UNIFORM: a to b; NORMAL: mean a, deviation b; FILL: a
  double a, b;
} known_t;

static const known_t KNOWN[] = {
    // torchvision's VisionTransformer: a patch has 3 8 8 pixels, the width is 64
    {"vit", "patches/weight", SHOAL_INIT_NORMAL, 0, 0.07216878},
    {"vit", "patches/bias", SHOAL_INIT_FILL, 0, 0},
    {"vit", "class_token", SHOAL_INIT_FILL, 0, 0},
    {"vit", "positions", SHOAL_INIT_NORMAL, 0, 0.02},
    {"vit", "block0/attn/qkv/weight", SHOAL_INIT_UNIFORM, -0.15309311, 0.15309311},
    {"vit", "block0/attn/proj/weight", SHOAL_INIT_UNIFORM, -0.125, 0.125},
    {"vit", "block0/mlp/fc1/weight", SHOAL_INIT_UNIFORM, -0.13693064, 0.13693064},
    {"vit", "block0/mlp/fc1/bias", SHOAL_INIT_NORMAL, 0, 1e-6},
    {"vit", "head/weight", SHOAL_INIT_FILL, 0, 0},
    // torch.nn.LSTM of width 64, and PyTorch's example of a language model
    {"lstm", "embedding/table", SHOAL_INIT_UNIFORM, -0.1, 0.1},
    {"lstm", "layer1/ih/weight", SHOAL_INIT_UNIFORM, -0.125, 0.125},
    {"lstm", "layer0/hh/weight", SHOAL_INIT_UNIFORM, -0.125, 0.125},
    {"lstm", "layer0/hh/bias", SHOAL_INIT_UNIFORM, -0.125, 0.125},
    {"lstm", "head/weight", SHOAL_INIT_UNIFORM, -0.1, 0.1},
    {"lstm", "head/bias", SHOAL_INIT_FILL, 0, 0},
    // PyTorch's convolutions: 128 channels of 2 2, transposed; 32 and 16 channels
    {"unet", "up1/up/weight", SHOAL_INIT_UNIFORM, -0.04419417, 0.04419417},
    {"unet", "up1/up/bias", SHOAL_INIT_UNIFORM, -0.04419417, 0.04419417},
    {"unet", "down1/conv2/weight", SHOAL_INIT_UNIFORM, -0.05892557, 0.05892557},
    {"unet", "outc/weight", SHOAL_INIT_UNIFORM, -0.25, 0.25},
    {"unet", "outc/bias", SHOAL_INIT_UNIFORM, -0.25, 0.25},
    // DLRM's dlrm_s_pytorch.py: a table of 1000 rows; from 13 to 64
    {"dlrm", "table0/table", SHOAL_INIT_UNIFORM, -0.03162278, 0.03162278},
    {"dlrm", "bottom/fc1/weight", SHOAL_INIT_NORMAL, 0, 0.16116459},
    {"dlrm", "bottom/fc1/bias", SHOAL_INIT_NORMAL, 0, 0.125},
    // DCGAN, section 4, and PyTorch's example of it
    {"gan", "generator/conv1/weight", SHOAL_INIT_NORMAL, 0, 0.02},
    {"gan", "generator/bn0/gamma", SHOAL_INIT_NORMAL, 1, 0.02},
    {"gan", "discriminator/conv0/weight", SHOAL_INIT_NORMAL, 0, 0.02},
    {"gan", "discriminator/bn1/beta", SHOAL_INIT_FILL, 0, 0}};

static void check(const known_t *k, shoal_tensor_t tensor) {
  const int64_t count = shoal_shape_count(&tensor.shape);
  double sum = 0, squares = 0, least = INFINITY, most = -INFINITY;
  for (int64_t i = 0; i < count; ++i) {
    const double x = element(tensor, i);
    sum += x;
    least = fmin(least, x);
    most = fmax(most, x);
  }
  const double mean = sum / (double)count;
  for (int64_t i = 0; i < count; ++i) {
    squares += (element(tensor, i) - mean) * (element(tensor, i) - mean);
  }
  const double deviation = sqrt(squares / (double)count);
  double middle = k->a, wide = 0;
  if (k->kind == SHOAL_INIT_NORMAL) wide = k->b;
  if (k->kind == SHOAL_INIT_UNIFORM) middle = (k->a + k->b) / 2, wide = (k->b - k->a) / sqrt(12);
  const double root = sqrt((double)count);
  bool fits = fabs(mean - middle) <= 4 * wide / root;
  // of a normal the deviation has the deviation wide / sqrt(2 count), of others less
  fits = fits && (count < 8 || fabs(deviation - wide) <= 4 * wide / (sqrt(2) * root));
  if (k->kind == SHOAL_INIT_UNIFORM) fits = fits && least >= k->a && most <= k->b && least != most;
  if (!fits)
    fail_msg("%s: %s has %g to %g, mean %g, deviation %g; not %g and %g", k->model, k->state, least,
             most, mean, deviation, middle, wide);
}

static void authors_values(void **state) {
  (void)state;
  const char *model_name = "";
  shoal_zoo_t *zoo = NULL;
  shoal_model_t *model = NULL;
  shoal_interpreter_t *in = NULL;
  for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; ++i) {
    const known_t *k = &KNOWN[i];
    if (strcmp(k->model, model_name) != 0) {
      shoal_interpreter_free(in);
      shoal_model_free(model);
      shoal_zoo_free(zoo);
      model_name = k->model;
      assert_ok(shoal_zoo_create(k->model, NULL, &zoo));
      model = new_model(7);
      shoal_zoo_build(zoo, shoal_model_graph(model, "eval"), "eval", 1);
      assert_ok(shoal_interpreter_create(model, NULL, &in));
      assert_ok(shoal_interpreter_run(in, "init"));
    }
    const int32_t number = shoal_model_find_state(model, k->state);
    if (number < 0) fail_msg("%s has no state '%s'", k->model, k->state);
    shoal_tensor_t tensor;
    assert_ok(shoal_interpreter_state(in, number, &tensor));
    check(k, tensor);
  }
  shoal_interpreter_free(in);
  shoal_model_free(model);
  shoal_zoo_free(zoo);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(authors_values)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
