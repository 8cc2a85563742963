// A full recipe: AdamW with a warm-up and a cosine schedule, Muon for the matrices of the hidden
// layers, no weight decay for biases, clipping by the norm of all gradients, averages of the
// weights (EMA), and bf16 layers with f32 parameters. The model learns which of two interleaved
// spirals a point lies on, and is evaluated with the averaged weights.
//
//   ./recipe        shoal run -n 2 -- ./recipe
#include <math.h>
#include <shoal/shoal.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 256, FEATURES = 8, WIDTH = 32, STEPS = 200 };

static shoal_value_t network(shoal_graph_t *g) {
  shoal_value_t x = shoal_input(g, "x", SHOAL_BF16, SHOAL_SHAPE(ROWS, FEATURES));
  const shoal_nn_linear_options_t hidden = {.activation = "silu",
                                            .weight_init = shoal_init_kaiming_normal(WIDTH, 0)};
  x = shoal_nn_linear(g, "embed", x, WIDTH);
  x = shoal_nn_linear_with(g, "hidden1", x, WIDTH, &hidden);
  x = shoal_nn_rms_norm(g, "norm", x);
  x = shoal_nn_linear_with(g, "hidden2", x, WIDTH, &hidden);
  return shoal_nn_linear(g, "head", x, 2);
}

static shoal_value_t loss_of(shoal_graph_t *g) {
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(ROWS));
  return shoal_nn_cross_entropy(g, network(g), y);
}

static void build(shoal_model_t *model) {
  static const shoal_parameter_group_t groups[] = {
      {.pattern = "*/bias,*/gamma", .no_decay = true},
      {.pattern = "hidden*/weight", .optimizer = "muon", .name = "muon", .lr = 0.01},
      {.pattern = "embed/*", .lr_factor = 0.5}};
  const shoal_recipe_t recipe = {
      .optimizer = "adamw",
      .lr = 0.01,
      .weight_decay = 0.01,
      .lr_schedule = {.kind = "cosine", .warmup = 20, .steps = STEPS, .last_factor = 0.1},
      .training = {.clip_norm = 1, .average = 0.98},
      .groups = groups,
      .group_count = 3};
  shoal_graph_t *train = shoal_model_graph(model, "train");
  shoal_value_t loss = loss_of(train);
  shoal_optimize(train, loss, &recipe);  // adds the output "rate"
  shoal_output(train, "loss", loss);

  shoal_graph_t *eval = shoal_model_graph(model, "eval");
  shoal_use_averages(eval);  // reads "hidden1/weight#average" where layers ask for hidden1/weight
  shoal_output(eval, "loss", loss_of(eval));
}

// ---- data ---------------------------------------------------------------------------------------

static double uniform(unsigned *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return (double)(*seed >> 8) / (1 << 24);
}

// Points on two spirals, as sines of their coordinates; bf16 is the upper half of an f32.
static void make_batch(unsigned *seed, uint16_t xs[ROWS][FEATURES], int32_t ys[ROWS]) {
  for (int i = 0; i < ROWS; ++i) {
    const double turn = uniform(seed), angle = 6 * turn + (i % 2) * 3.141592653589793;
    const double at[2] = {turn * cos(angle), turn * sin(angle)};
    ys[i] = i % 2;
    for (int j = 0; j < FEATURES; ++j) {
      const float x = (float)sin((1 + j / 4) * 3 * at[j % 2] + (j / 2 % 2) * 1.5);
      uint32_t bits;
      memcpy(&bits, &x, sizeof bits);
      xs[i][j] = (uint16_t)((bits + 0x8000) >> 16);
    }
  }
}

int main(void) {
  static uint16_t xs[ROWS][FEATURES];
  static int32_t ys[ROWS];
  shoal_model_t *model = NULL;
  shoal_session_t *s = NULL;
  unsigned seed = 1;
  float loss = 0, rate = 0;
  shoal_status_t status = NULL;
  const shoal_model_options_t mixed = {.mixed = true};
  SHOAL_GOTO_IF_ERROR(status, done, shoal_model_create(&mixed, &model));
  build(model);
  SHOAL_GOTO_IF_ERROR(status, done, shoal_parallelize(model, NULL, &s));
  const bool talks = shoal_world_rank(shoal_session_world(s)) == 0;
  for (int step = 1; step <= STEPS + 1; ++step) {
    const bool last = step > STEPS;
    make_batch(&seed, xs, ys);
    SHOAL_GOTO_IF_ERROR(status, done, shoal_feed(s, "x", xs, sizeof xs));
    SHOAL_GOTO_IF_ERROR(status, done, shoal_feed(s, "y", ys, sizeof ys));
    SHOAL_GOTO_IF_ERROR(status, done, shoal_run(s, last ? "eval" : "train"));
    if (step % 50 != 0 && !last) continue;
    SHOAL_GOTO_IF_ERROR(status, done, shoal_fetch(s, "loss", &loss, sizeof loss));
    if (!last) SHOAL_GOTO_IF_ERROR(status, done, shoal_fetch(s, "rate", &rate, sizeof rate));
    if (talks && last) printf("with averaged weights, loss %.3f\n", (double)loss);
    if (talks && !last) printf("step %d rate %.5f loss %.3f\n", step, (double)rate, (double)loss);
  }
  if (!(loss < 0.1f)) status = SHOAL_ERROR(MISMATCH, "the spirals are not told apart");
done:
  shoal_status_print(status, stderr);
  int code = shoal_code_exit(shoal_status_code(status));
  shoal_status_free(status);
  shoal_session_free(s);
  shoal_model_free(model);
  return code;
}
