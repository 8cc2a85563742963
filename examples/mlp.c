// The smallest whole program: a classifier written for one device. Alone it runs on one device;
// under `shoal run -n 4 -- ./mlp` the same binary is parallel.
#include <shoal/shoal.h>
#include <stdio.h>

enum { BATCH = 64, FEATURES = 20, CLASSES = 5, STEPS = 60 };

static void train(shoal_graph_t *g) {
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(BATCH, FEATURES));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(BATCH));
  shoal_value_t h = shoal_relu(g, shoal_nn_linear(g, "fc1", x, 64));
  shoal_value_t loss = shoal_nn_cross_entropy(g, shoal_nn_linear(g, "fc2", h, CLASSES), y);
  shoal_adamw_t adamw = {.lr = 1e-2};
  shoal_minimize(g, loss, &adamw);
  shoal_output(g, "loss", loss);
}

// Points around one centre per class; every rank makes the same batch and Shoal takes its rows.
static void make_batch(unsigned *seed, float xs[BATCH][FEATURES], int32_t ys[BATCH]) {
  for (int i = 0; i < BATCH; ++i) {
    ys[i] = i % CLASSES;
    for (int j = 0; j < FEATURES; ++j) {
      *seed = *seed * 1664525u + 1013904223u;
      xs[i][j] = (float)(*seed >> 8) / (1 << 24) + (j % CLASSES == ys[i] ? 1.0f : 0.0f);
    }
  }
}

int main(void) {
  static float xs[BATCH][FEATURES];
  static int32_t ys[BATCH];
  shoal_model_t *model = NULL;
  shoal_session_t *s = NULL;
  unsigned seed = 1;
  float loss = 0;
  shoal_status_t status = NULL;
  SHOAL_GOTO_IF_ERROR(status, done, shoal_model_create(NULL, &model));
  train(shoal_model_graph(model, "train"));
  SHOAL_GOTO_IF_ERROR(status, done, shoal_parallelize(model, NULL, &s));  // the one line
  for (int step = 1; step <= STEPS; ++step) {
    make_batch(&seed, xs, ys);
    SHOAL_GOTO_IF_ERROR(status, done, shoal_feed(s, "x", xs, sizeof xs));
    SHOAL_GOTO_IF_ERROR(status, done, shoal_feed(s, "y", ys, sizeof ys));
    SHOAL_GOTO_IF_ERROR(status, done, shoal_run(s, "train"));
    if (step % 20 != 0) continue;  // the step runs while the next one is fed; a fetch waits
    SHOAL_GOTO_IF_ERROR(status, done, shoal_fetch(s, "loss", &loss, sizeof loss));
    if (shoal_world_rank(shoal_session_world(s)) == 0)
      printf("step %d loss %.4f\n", step, (double)loss);
  }
done:
  shoal_status_print(status, stderr);
  int code = shoal_code_exit(shoal_status_code(status));
  shoal_status_free(status);
  shoal_session_free(s);
  shoal_model_free(model);
  return code;
}
