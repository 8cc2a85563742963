// A generative adversarial network (Goodfellow et al., 2014): the maker (generator) makes points
// out of noise, the critic (discriminator) tells them from real ones, which lie on a ring. Each has
// its own loss, optimizer, learning rate and count of steps, in a graph of its own. Both belong to
// one model, and a third graph draws points with the averaged weights of the maker.
//
//   ./gan        shoal run -n 4 -- ./gan
#include <math.h>
#include <shoal/shoal.h>
#include <stdio.h>

enum { ROWS = 128, NOISE = 4, WIDTH = 32, STEPS = 600 };
static const double RADIUS = 2, THICKNESS = 0.1;

// noise [ROWS, NOISE] -> points [ROWS, 2]
static shoal_value_t make(shoal_graph_t *g) {
  const shoal_value_t step = shoal_step(g);
  const int64_t key = shoal_random_key(g, "noise");
  shoal_value_t h = shoal_random_normal(g, step, SHOAL_SHAPE(ROWS, NOISE), key, SHOAL_F32, 0, 1);
  shoal_scope_push(g, "maker");
  h = shoal_tanh(g, shoal_nn_linear(g, "fc1", h, WIDTH));
  h = shoal_tanh(g, shoal_nn_linear(g, "fc2", h, WIDTH));
  h = shoal_nn_linear(g, "fc3", h, 2);
  shoal_scope_pop(g);
  return h;
}

// points [ROWS, 2] -> how real each looks, as a logit [ROWS, 1]
static shoal_value_t judge(shoal_graph_t *g, shoal_value_t points) {
  shoal_scope_push(g, "critic");
  shoal_value_t h = shoal_leaky_relu(g, shoal_nn_linear(g, "fc1", points, WIDTH));
  h = shoal_leaky_relu(g, shoal_nn_linear(g, "fc2", h, WIDTH));
  h = shoal_nn_linear(g, "fc3", h, 1);
  shoal_scope_pop(g);
  return h;
}

static shoal_value_t loss_as(shoal_graph_t *g, shoal_value_t logits, double label) {
  const shoal_value_t labels = shoal_full(g, SHOAL_SHAPE(ROWS, 1), label, SHOAL_F32);
  return shoal_nn_bce_with_logits_loss(g, logits, labels, NULL);
}

static void build(shoal_model_t *model) {
  shoal_recipe_t recipe = {.optimizer = "adam", .beta1 = 0.5, .lr = 2e-3};

  shoal_graph_t *g = shoal_model_graph(model, "critic");
  shoal_value_t real = shoal_input(g, "real", SHOAL_F32, SHOAL_SHAPE(ROWS, 2));
  shoal_value_t loss =
      shoal_add(g, loss_as(g, judge(g, real), 1), loss_as(g, judge(g, make(g)), 0));
  recipe.training = (shoal_training_t){.name = "critic", .only = "critic/*"};
  shoal_optimize(g, loss, &recipe);
  shoal_output(g, "loss", loss);

  g = shoal_model_graph(model, "maker");
  loss = loss_as(g, judge(g, make(g)), 1);
  recipe.lr = 1e-3;
  recipe.training = (shoal_training_t){.name = "maker", .only = "maker/*", .average = 0.98};
  shoal_optimize(g, loss, &recipe);
  shoal_output(g, "loss", loss);

  g = shoal_model_graph(model, "draw");
  shoal_use_averages(g);
  shoal_output(g, "points", make(g));
}

// ---- data and report ----------------------------------------------------------------------------

static double uniform(unsigned *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return (double)(*seed >> 8) / (1 << 24);
}

static void make_ring(unsigned *seed, float points[ROWS][2]) {
  for (int i = 0; i < ROWS; ++i) {
    const double angle = 6.283185307179586 * uniform(seed);
    const double radius = RADIUS + THICKNESS * (2 * uniform(seed) - 1);
    points[i][0] = (float)(radius * cos(angle));
    points[i][1] = (float)(radius * sin(angle));
  }
}

// How many points lie near the ring, and how many eighths of the ring have any.
static void judge_points(float points[ROWS][2], int *out_near, int *out_eighths) {
  int count[8] = {0}, near = 0, eighths = 0;
  for (int i = 0; i < ROWS; ++i) {
    const double x = (double)points[i][0], y = (double)points[i][1];
    if (fabs(hypot(x, y) - RADIUS) > 0.5) continue;
    ++near;
    ++count[(int)((atan2(y, x) + 3.141592653589793) / 0.7853981633974484) % 8];
  }
  for (int i = 0; i < 8; ++i) eighths += count[i] > 0;
  *out_near = near;
  *out_eighths = eighths;
}

int main(void) {
  static float points[ROWS][2];
  shoal_model_t *model = NULL;
  shoal_session_t *s = NULL;
  unsigned seed = 1;
  int near = 0, eighths = 0;
  shoal_status_t status = NULL;
  SHOAL_GOTO_IF_ERROR(status, done, shoal_model_create(NULL, &model));
  build(model);
  SHOAL_GOTO_IF_ERROR(status, done, shoal_parallelize(model, NULL, &s));
  for (int step = 1; step <= STEPS; ++step) {
    make_ring(&seed, points);
    SHOAL_GOTO_IF_ERROR(status, done, shoal_feed(s, "real", points, sizeof points));
    SHOAL_GOTO_IF_ERROR(status, done, shoal_run(s, "critic"));
    SHOAL_GOTO_IF_ERROR(status, done, shoal_run(s, "maker"));
    if (step % 150 != 0) continue;
    SHOAL_GOTO_IF_ERROR(status, done, shoal_run(s, "draw"));
    SHOAL_GOTO_IF_ERROR(status, done, shoal_fetch(s, "points", points, sizeof points));
    judge_points(points, &near, &eighths);
    if (shoal_world_rank(shoal_session_world(s)) == 0)
      printf("step %d: %d of %d points near the ring, in %d of 8 parts\n", step, near, ROWS,
             eighths);
  }
  if (near < ROWS * 3 / 4 || eighths < 8)
    status = SHOAL_ERROR(MISMATCH, "the maker has not learned the ring");
done:
  shoal_status_print(status, stderr);
  int code = shoal_code_exit(shoal_status_code(status));
  shoal_status_free(status);
  shoal_session_free(s);
  shoal_model_free(model);
  return code;
}
