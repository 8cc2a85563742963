// What families compute, on the reference interpreter: an LSTM against its formula, graphs of a
// batch that do not see each other, the halves of a GAN, and where a ResNet halves the side.
// (tests/torch_zoo.py compares whole models with PyTorch.)
#include "graph_support.h"
#include "shoal/zoo.h"

typedef struct run {
  shoal_zoo_t *zoo;
  shoal_model_t *model;
  shoal_interpreter_t *in;
} run_t;

static run_t start(const char *name, const char *settings) {
  run_t r = {.model = new_model(3)};
  assert_ok(shoal_zoo_create(name, &(shoal_zoo_options_t){.settings = settings}, &r.zoo));
  shoal_zoo_add(r.zoo, r.model);
  assert_ok(shoal_model_status(r.model));
  assert_ok(shoal_interpreter_create(r.model, NULL, &r.in));
  assert_ok(shoal_interpreter_run(r.in, "init"));
  return r;
}

static void end(run_t *r) {
  shoal_interpreter_free(r->in);
  shoal_model_free(r->model);
  shoal_zoo_free(r->zoo);
}

static const double *state_of(const run_t *r, const char *name) {
  shoal_tensor_t tensor;
  const int32_t state = shoal_model_find_state(r->model, name);
  assert_true(state >= 0);
  assert_ok(shoal_interpreter_state(r->in, state, &tensor));
  return tensor.data;
}

#define FEED(r, name, data) assert_ok(shoal_interpreter_feed((r)->in, name, data, sizeof data))

// ---- lstm ---------------------------------------------------------------------------------------

enum { B = 2, T = 3, V = 5, H = 4 };

static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

// The cell of row b after ids[0 .. t], by the formula.
static void cell(const run_t *r, const int32_t *ids, int times, double *h) {
  const double *table = state_of(r, "embedding/table"), *ih = state_of(r, "layer0/ih/weight"),
               *hh = state_of(r, "layer0/hh/weight"), *below = state_of(r, "layer0/ih/bias"),
               *before = state_of(r, "layer0/hh/bias");
  double c[H] = {0}, gate[4][H];
  for (int i = 0; i < H; ++i) h[i] = 0;
  for (int t = 0; t < times; ++t) {
    for (int g = 0; g < 4; ++g) {
      for (int i = 0; i < H; ++i) {
        gate[g][i] = below[g * H + i] + before[g * H + i];
        for (int k = 0; k < H; ++k)
          gate[g][i] +=
              table[ids[t] * H + k] * ih[k * 4 * H + g * H + i] + h[k] * hh[k * 4 * H + g * H + i];
      }
    }
    for (int i = 0; i < H; ++i) {  // input, forget, cell, output
      c[i] = sigmoid(gate[1][i]) * c[i] + sigmoid(gate[0][i]) * tanh(gate[2][i]);
      h[i] = sigmoid(gate[3][i]) * tanh(c[i]);
    }
  }
}

static void lstm_follows_its_formula(void **state) {
  (void)state;
  run_t r = start("lstm", "batch=2 context=3 vocabulary=5 width=4 layers=1 dtype=f64");
  static const int32_t ids[B][T] = {{0, 4, 2}, {3, 3, 1}}, labels[B][T] = {{0}};
  FEED(&r, "ids", ids);
  FEED(&r, "labels", labels);
  assert_ok(shoal_interpreter_run(r.in, "eval"));
  shoal_tensor_t logits;
  assert_ok(shoal_interpreter_output(r.in, "logits", &logits));
  const double *head = state_of(&r, "head/weight");
  for (int b = 0; b < B; ++b) {
    for (int t = 0; t < T; ++t) {
      double h[H];
      cell(&r, ids[b], t + 1, h);
      for (int v = 0; v < V; ++v) {
        double want = 0;
        for (int k = 0; k < H; ++k) want += h[k] * head[k * V + v];
        assert_true(fabs(element(logits, (b * T + t) * V + v) - want) < 1e-13);
      }
    }
  }
  end(&r);
}

// ---- gat ----------------------------------------------------------------------------------------

enum { NODES = 3, EDGES = 2, FEATURES = 2, CLASSES = 2 };

static void evaluate_graphs(run_t *r, const double (*x)[NODES][FEATURES],
                            double (*out)[NODES][CLASSES]) {
  static const int32_t src[B][EDGES] = {{0, 1}, {2, 0}}, dst[B][EDGES] = {{1, 2}, {1, 1}},
                       y[B][NODES] = {{0}};
  assert_ok(shoal_interpreter_feed(r->in, "x", x, sizeof(double) * B * NODES * FEATURES));
  FEED(r, "src", src);
  FEED(r, "dst", dst);
  FEED(r, "y", y);
  assert_ok(shoal_interpreter_run(r->in, "eval"));
  shoal_tensor_t logits;
  assert_ok(shoal_interpreter_output(r->in, "logits", &logits));
  memcpy(out, logits.data, sizeof(double) * B * NODES * CLASSES);
}

static bool same(const double *a, const double *b) {
  for (int i = 0; i < CLASSES; ++i)
    if (a[i] != b[i]) return false;
  return true;
}

// A node sees itself and those with an edge to it, two layers deep, in its own graph only.
static void graphs_see_their_own_nodes(void **state) {
  (void)state;
  run_t r = start("gat", "batch=2 nodes=3 edges=2 features=2 width=3 heads=2 classes=2 dtype=f64");
  double x[B][NODES][FEATURES], before[B][NODES][CLASSES], after[B][NODES][CLASSES];
  for (int i = 0; i < B * NODES * FEATURES; ++i) (&x[0][0][0])[i] = sin(i + 1);
  evaluate_graphs(&r, x, before);
  x[0][1][0] += 1;  // of the first graph: 0 -> 1 -> 2
  evaluate_graphs(&r, x, after);
  assert_true(same(before[0][0], after[0][0]));
  assert_false(same(before[0][1], after[0][1]));
  assert_false(same(before[0][2], after[0][2]));
  for (int n = 0; n < NODES; ++n) assert_true(same(before[1][n], after[1][n]));
  x[1][2][0] += 1;  // of the second: 2 -> 1
  evaluate_graphs(&r, x, before);
  assert_false(same(before[1][1], after[1][1]));
  assert_true(same(before[1][0], after[1][0]));
  for (int n = 0; n < NODES; ++n) assert_true(same(before[0][n], after[0][n]));
  static const int32_t beyond[B][EDGES] = {{0, 3}, {0, 0}};  // 3 is the next graph's first node
  FEED(&r, "src", beyond);
  shoal_status_t status = shoal_interpreter_run(r.in, "eval");
  assert_non_null(status);
  shoal_status_free(status);
  end(&r);
}

// ---- gan ----------------------------------------------------------------------------------------

// Running statistics of the discriminator are those of real pictures; each half is trained.
static void gan_halves(void **state) {
  (void)state;
  run_t r = start("gan-tiny", "dtype=f64");
  static const double black[3 * 2 * 16 * 16];
  const double generator = state_of(&r, "generator/conv0/weight")[0],
               discriminator = state_of(&r, "discriminator/conv2/weight")[0];
  FEED(&r, "x", black);
  assert_ok(shoal_interpreter_run(r.in, "train"));
  for (int c = 0; c < 6; ++c) assert_true(state_of(&r, "discriminator/bn1/running_mean")[c] == 0);
  assert_true(state_of(&r, "generator/bn0/running_mean")[0] != 0);
  assert_true(state_of(&r, "generator/conv0/weight")[0] != generator);
  assert_true(state_of(&r, "discriminator/conv2/weight")[0] != discriminator);
  end(&r);
}

// ---- resnet -------------------------------------------------------------------------------------

static int64_t side_of(const shoal_graph_t *g, const char *name) {
  for (int64_t v = 0; v < g->values.count; ++v)
    if (strcmp(g->values.items[v].name, name) == 0) return g->values.items[v].type.shape.dims[2];
  fail_msg("there is no '%s'", name);
  return 0;
}

static void resnet_halves_in_the_middle(void **state) {
  (void)state;
  shoal_zoo_t *zoo;
  assert_ok(shoal_zoo_create("resnet50", NULL, &zoo));
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "eval");
  shoal_zoo_build(zoo, g, "eval", 1);
  assert_ok(shoal_model_status(model));
  assert_int_equal(side_of(g, "layer1/0/conv1/conv"), 56);
  assert_int_equal(side_of(g, "layer2/0/conv1/conv"), 56);
  assert_int_equal(side_of(g, "layer2/0/conv2/conv"), 28);
  assert_int_equal(side_of(g, "layer4/2/conv3/conv"), 7);
  shoal_model_free(model);
  shoal_zoo_free(zoo);
}

// Names of the input of a node, the first or another.
static const char *reads(const shoal_graph_t *g, const char *name, int32_t input) {
  for (int64_t n = 0; n < g->nodes.count; ++n)
    if (strcmp(g->nodes.items[n].name, name) == 0)
      return g->values.items[g->nodes.items[n].inputs[input]].name;
  fail_msg("there is no '%s'", name);
  return "";
}

// The skip comes first, as in the weights that others have trained; what is brought to another
// shape is the activation.
static void ways_around(void **state) {
  (void)state;
  run_t r = start("unet-tiny", NULL);
  const shoal_graph_t *g = shoal_model_find_graph(r.model, "eval");
  assert_string_equal(reads(g, "up1/concat", 0), "down1/relu_1");
  assert_string_equal(reads(g, "up2/concat", 0), "inc/relu_1");
  end(&r);
  r = start("wide-resnet-tiny", NULL);
  g = shoal_model_find_graph(r.model, "eval");
  assert_string_equal(reads(g, "block2/layer/0/shortcut/conv", 0), "block2/layer/0/relu");
  end(&r);
}

// ---- vit ----------------------------------------------------------------------------------------

enum { SIDE = 8, PATCH = 4, PIXELS = SIDE * SIDE };

static void evaluate_pictures(run_t *r, const double *x, double *out) {
  static const int32_t y[B] = {0};
  assert_ok(shoal_interpreter_feed(r->in, "x", x, sizeof(double) * B * PIXELS));
  FEED(r, "y", y);
  assert_ok(shoal_interpreter_run(r->in, "eval"));
  shoal_tensor_t logits;
  assert_ok(shoal_interpreter_output(r->in, "logits", &logits));
  memcpy(out, logits.data, sizeof(double) * B * 3);
}

// The class token sees all patches; without positions their order makes no difference.
static void vit_sees_all_patches(void **state) {
  (void)state;
  run_t r = start("vit-tiny", "batch=2 channels=1 classes=3 dtype=f64");
  double x[B * PIXELS], before[B * 3], after[B * 3];
  for (int i = 0; i < B * PIXELS; ++i) x[i] = cos(i * i + 1);
  double *positions = (double *)(uintptr_t)state_of(&r, "positions");
  for (int i = 0; i < 5 * 12; ++i) positions[i] = 0;
  double *head = (double *)(uintptr_t)state_of(&r, "head/weight");  // which begins as zeros
  for (int i = 0; i < 12 * 3; ++i) head[i] = sin(i + 1);
  evaluate_pictures(&r, x, before);
  for (int row = 0; row < PATCH;
       ++row) {  // the last two patches of the first picture change places
    for (int i = 0; i < PATCH; ++i) {
      double *left = &x[(PATCH + row) * SIDE + i], *right = left + PATCH, old = *left;
      *left = *right, *right = old;
    }
  }
  evaluate_pictures(&r, x, after);
  for (int i = 0; i < B * 3; ++i) assert_true(fabs(before[i] - after[i]) < 1e-12);
  x[PIXELS - 1] += 1;  // of the last patch of the first picture
  evaluate_pictures(&r, x, after);
  for (int i = 0; i < B * 3; ++i) assert_true((fabs(before[i] - after[i]) > 1e-9) == (i < 3));
  end(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(lstm_follows_its_formula),
                                     cmocka_unit_test(graphs_see_their_own_nodes),
                                     cmocka_unit_test(gan_halves),
                                     cmocka_unit_test(resnet_halves_in_the_middle),
                                     cmocka_unit_test(ways_around),
                                     cmocka_unit_test(vit_sees_all_patches)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
