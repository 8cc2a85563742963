// Experts on ranks of their own: tokens are sorted by expert, go to the rank of their expert, and
// come back. How many tokens a source has for an expert is known only when the step runs: there is
// room for CAPACITY, `shoal_bound` says how many of them are used, and only those are sent.
//
// Written for one device; under `shoal run -n 4 -- ./experts`, or mpirun, the ranks share sources
// and experts.
#include <shoal/shoal.h>
#include <stdio.h>

enum { SOURCES = 4, EXPERTS = 4, CAPACITY = 12, WIDTH = 8, HIDDEN = 16, STEPS = 30 };

static shoal_value_t weight(shoal_graph_t *g, const char *name, int64_t from, int64_t to) {
  const shoal_state_options_t options = {.init = {SHOAL_INIT_UNIFORM, -0.3, 0.3},
                                         .trainable = true};
  return shoal_state(g, name, SHOAL_F32, SHOAL_SHAPE(EXPERTS, from, to), &options);
}

static void train(shoal_graph_t *g) {
  const shoal_shape_t tokens = SHOAL_SHAPE(SOURCES, EXPERTS, CAPACITY, WIDTH);
  const shoal_value_t x = shoal_input(g, "x", SHOAL_F32, tokens);
  const shoal_value_t y = shoal_input(g, "y", SHOAL_F32, tokens);
  const shoal_value_t counts = shoal_input(g, "counts", SHOAL_I32, SHOAL_SHAPE(SOURCES, EXPERTS));
  const shoal_value_t w1 = weight(g, "w1", WIDTH, HIDDEN), w2 = weight(g, "w2", HIDDEN, WIDTH);
  shoal_scope_push(g, "dispatch");
  const shoal_value_t sent = shoal_bound(g, x, counts);
  shoal_scope_pop(g);
  shoal_scope_push(g, "expert");
  const shoal_value_t h = shoal_relu(g, shoal_einsum(g, sent, w1, "secd,edh->sech"));
  const shoal_value_t back = shoal_bound(g, shoal_einsum(g, h, w2, "sech,ehd->secd"), counts);
  shoal_scope_pop(g);
  shoal_scope_push(g, "combine");
  const shoal_value_t wrong = shoal_sub(g, back, shoal_bound(g, y, counts));
  const shoal_value_t loss = shoal_reduce_mean(g, shoal_square(g, wrong), SHOAL_SHAPE(0, 1, 2, 3));
  shoal_scope_pop(g);
  const shoal_adamw_t adamw = {.lr = 1e-2};
  shoal_minimize(g, loss, &adamw);
  shoal_output(g, "loss", loss);
}

// Sources have their tokens along the first dim, experts theirs along the second.
static const shoal_intent_entry_t layouts[] = {
    {"x", "expert:0"},
    {"y", "expert:0"},
    {"counts", "expert:0"},
    {"w*", "expert:0"}};  // weights and what AdamW keeps of them
static const shoal_intent_decision_t decisions[] = {
    {.kind = "way", .pattern = "expert/einsum*", .choice = "expert={a:1, b:0 -> out:1}"},
    {.kind = "way", .pattern = "expert/bound", .choice = "expert={x:1, counts:1 -> out:1}"},
    {.kind = "way", .pattern = "combine/sub", .choice = "expert={a:0, b:0 -> out:0}"},
};

static float x[SOURCES][EXPERTS][CAPACITY][WIDTH], y[SOURCES][EXPERTS][CAPACITY][WIDTH];
static int32_t counts[SOURCES][EXPERTS];

static float uniform(unsigned *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return (float)(*seed >> 8) / (1 << 24);
}

// Expert e is to learn to multiply by e. Some of what there is room for is left over as it is.
static void make_batch(unsigned *seed) {
  for (int s = 0; s < SOURCES; ++s) {
    for (int e = 0; e < EXPERTS; ++e) {
      counts[s][e] = (int32_t)(uniform(seed) * (CAPACITY / 2 + 1));
      for (int i = 0; i < CAPACITY * WIDTH; ++i) {
        const float value = uniform(seed) - 0.5f;
        x[s][e][i / WIDTH][i % WIDTH] = value;
        y[s][e][i / WIDTH][i % WIDTH] = (float)e * value;
      }
    }
  }
}

// With an argument, the last step has a token too many for its capacity: every rank says so.
int main(int argc, char **argv) {
  shoal_world_t *world = NULL;
  shoal_model_t *model = NULL;
  shoal_session_t *s = NULL;
  unsigned seed = 1;
  float loss = 0;
  char mesh[32];
  shoal_status_t status = NULL;
  (void)argv;
  SHOAL_GOTO_IF_ERROR(status, done, shoal_world_join(NULL, &world));
  SHOAL_GOTO_IF_ERROR(status, done, shoal_model_create(NULL, &model));
  train(shoal_model_graph(model, "train"));
  const int32_t ranks = shoal_world_size(world);
  snprintf(mesh, sizeof mesh, "expert=%d", ranks);
  const shoal_parallelize_options_t options = {.world = world,
                                               .strategy = "explicit",
                                               .mesh = mesh,
                                               .layout_count = 4,
                                               .layouts = layouts,
                                               .decision_count = ranks > 1 ? 3 : 0,
                                               .decisions = decisions};
  SHOAL_GOTO_IF_ERROR(status, done, shoal_parallelize(model, &options, &s));
  for (int step = 1; step <= STEPS; ++step) {
    make_batch(&seed);
    if (argc > 1 && step == STEPS) counts[SOURCES - 1][1] = CAPACITY + 1;
    SHOAL_GOTO_IF_ERROR(status, done, shoal_feed(s, "x", x, sizeof x));
    SHOAL_GOTO_IF_ERROR(status, done, shoal_feed(s, "y", y, sizeof y));
    SHOAL_GOTO_IF_ERROR(status, done, shoal_feed(s, "counts", counts, sizeof counts));
    SHOAL_GOTO_IF_ERROR(status, done, shoal_run(s, "train"));
    SHOAL_GOTO_IF_ERROR(status, done, shoal_fetch(s, "loss", &loss, sizeof loss));
    if (step % 10 == 0 && shoal_world_rank(world) == 0)
      printf("step %d loss %.3f\n", step, (double)loss);
  }
  SHOAL_GOTO_IF_ERROR(status, done, shoal_session_wait(s));
  if (shoal_world_rank(world) == 0)
    printf("rank 0 of %d sent %lld bytes of tokens\n", ranks,
           (long long)shoal_session_counters(s).exchanged);
done:
  shoal_status_print(status, stderr);
  int code = shoal_code_exit(shoal_status_code(status));
  shoal_status_free(status);
  shoal_session_free(s);
  shoal_model_free(model);
  shoal_world_release(world);
  return code;
}
