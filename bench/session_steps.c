// For bench/session: trains an mlp 784-256-10, batch 64, f32, and prints steps a second, on rank 0.
//
//   session_steps STEPS FETCHES   FETCHES 1: the loss of every step is fetched; 0: the last one's
//
// It is also built against an old version of the library: it uses only what that has.
#include <shoal/shoal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BATCH = 64, FEATURES = 784, HIDDEN = 256, CLASSES = 10, WARM_UP = 20 };

static void train(shoal_graph_t *g) {
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(BATCH, FEATURES));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(BATCH));
  shoal_value_t h = shoal_relu(g, shoal_nn_linear(g, "fc1", x, HIDDEN));
  shoal_value_t loss = shoal_nn_cross_entropy(g, shoal_nn_linear(g, "fc2", h, CLASSES), y);
  shoal_adamw_t adamw = {.lr = 1e-3};
  shoal_minimize(g, loss, &adamw);
  shoal_output(g, "loss", loss);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static shoal_status_t run(shoal_session_t *s, long steps, int fetches) {
  static float xs[BATCH][FEATURES];
  static int32_t ys[BATCH];
  float loss = 0;
  for (int i = 0; i < BATCH; ++i) {
    ys[i] = i % CLASSES;
    for (int j = 0; j < FEATURES; ++j) xs[i][j] = (float)((i * 31 + j * 17) % 97) / 97;
  }
  for (long step = 0; step < steps; ++step) {
    xs[step % BATCH][0] += 0.001f;  // every step has a batch of its own
    SHOAL_RETURN_IF_ERROR(shoal_feed(s, "x", xs, sizeof xs));
    SHOAL_RETURN_IF_ERROR(shoal_feed(s, "y", ys, sizeof ys));
    SHOAL_RETURN_IF_ERROR(shoal_run(s, "train"));
    if (fetches) SHOAL_RETURN_IF_ERROR(shoal_fetch(s, "loss", &loss, sizeof loss));
  }
  return shoal_fetch(s, "loss", &loss, sizeof loss);
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: session_steps STEPS FETCHES\n");
    return 2;
  }
  const long steps = atol(argv[1]);
  const int fetches = atoi(argv[2]);
  shoal_model_t *model = NULL;
  shoal_session_t *s = NULL;
  shoal_status_t status = NULL;
  SHOAL_GOTO_IF_ERROR(status, done, shoal_model_create(NULL, &model));
  train(shoal_model_graph(model, "train"));
  SHOAL_GOTO_IF_ERROR(status, done, shoal_parallelize(model, NULL, &s));
  SHOAL_GOTO_IF_ERROR(status, done, run(s, WARM_UP, fetches));
  const double start = now();
  SHOAL_GOTO_IF_ERROR(status, done, run(s, steps, fetches));
  if (shoal_world_rank(shoal_session_world(s)) == 0)
    printf("%.2f\n", (double)steps / (now() - start));
done:
  if (status) fprintf(stderr, "session_steps: %s\n", shoal_status_message(status));
  const int code = shoal_code_exit(shoal_status_code(status));
  shoal_status_free(status);
  shoal_session_free(s);
  shoal_model_free(model);
  return code;
}
