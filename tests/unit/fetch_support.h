// What the tests of fetches on request share: a model of two graphs with large outputs, lowered as
// a plan says, and ranks that feed and run it.
#ifndef SHOAL_TESTS_UNIT_FETCH_SUPPORT_H_
#define SHOAL_TESTS_UNIT_FETCH_SUPPORT_H_

#include <string.h>

#include "plan_fixture.h"
#include "run_support.h"
#include "shoal/ops.h"
#include "shoal/session.h"

enum { BATCH = 24, WIDTH = 8, CLASSES = 24, STEPS = 3 };

// ---- a model and its plans --------------------------------------------------------------

// "hidden" and "logits" are outputs of "train"; "eval" has an output "logits" of its own.
static inline shoal_model_t *make_model(int64_t batch, int64_t classes) {
  shoal_model_t *model = empty_model();
  for (int eval = 0; eval < 2; ++eval) {
    shoal_graph_t *g = shoal_model_graph(model, eval ? "eval" : "train");
    const shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(batch, WIDTH));
    const shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(batch));
    const shoal_value_t h = shoal_tanh(g, shoal_nn_linear(g, "fc1", x, WIDTH));
    const shoal_value_t logits = shoal_nn_linear(g, "fc2", h, classes);
    const shoal_value_t loss = shoal_nn_cross_entropy(g, logits, y);
    if (!eval) shoal_minimize(g, loss, &(shoal_adamw_t){.lr = 1e-2f});
    if (!eval) shoal_output(g, "hidden", h);
    shoal_output(g, "logits", logits);
    shoal_output(g, "loss", loss);
  }
  assert_ok(shoal_model_status(model));
  return model;
}

typedef struct plan_case {
  int32_t world;
  const char *meshes[2];
  const char *x, *weight;  // layouts of x and fc2/weight; NULL: none given
  bool opaque;
  const char *input;  // whose layout `x` is; NULL: x
} plan_case_t;

// Every fetch by this choice; NULL: by default.
static inline shoal_program_t *lower_as(const shoal_model_t *model, const plan_case_t *c,
                                        const char *choice) {
  const int64_t meshes = c->meshes[1] ? 2 : 1;
  const shoal_intent_entry_t layouts[] = {{c->input ? c->input : "x", c->x},
                                          {"fc2/weight", c->weight}};
  const shoal_intent_entry_t stages[] = {
      {"fc1/*", "a"}, {"tanh*", "a"}, {"fc2/*", "b"}, {"cross_entropy*", "b"}};
  const shoal_intent_decision_t decision = {.kind = "fetch", .pattern = "*", .choice = choice};
  shoal_plan_t *plan;
  shoal_program_t *program;
  assert_ok(shoal_plan_create(model, rules,
                              &(shoal_intent_t){.mesh_count = meshes,
                                                .meshes = c->meshes,
                                                .layout_count = c->weight ? 2 : 1,
                                                .layouts = layouts,
                                                .stage_count = meshes > 1 ? COUNT(stages) : 0,
                                                .stages = stages,
                                                .decision_count = choice != NULL,
                                                .decisions = &decision},
                              c->world, shoal_allocator_system(), &plan));
  assert_ok(shoal_lower(plan, NULL, &program));
  shoal_plan_free(plan);
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
  return program;
}

static inline const shoal_program_port_t *find_output(const shoal_program_t *program,
                                                      const char *graph, const char *name) {
  for (int64_t i = 0; i < program->output_count; ++i)
    if (strcmp(program->outputs[i].graph, graph) == 0 &&
        strcmp(program->outputs[i].name, name) == 0)
      return &program->outputs[i];
  return NULL;
}

// ---- running ----------------------------------------------------------------------------

typedef struct values {
  float hidden[BATCH * WIDTH], logits[BATCH * CLASSES], loss;
} values_t;

typedef struct job {
  const shoal_program_t *program;
  bool opaque;
  values_t values[MOST_RANKS][STEPS + 1];
} job_t;

static inline shoal_status_t open_session(const job_t *job, shoal_world_t *world,
                                          shoal_session_t **out_session) {
  return shoal_session_create(job->program,
                              &(shoal_parallelize_options_t){.world = world, .opaque = job->opaque},
                              out_session);
}

// Feeds a step's batch: of x all rows, or this rank's.
static inline shoal_status_t feed_rows(shoal_session_t *session, int step, int64_t first,
                                       int64_t count) {
  float x[BATCH * WIDTH];
  int32_t y[BATCH];
  for (int64_t i = 0; i < count * WIDTH; ++i)
    x[i] = (float)(((first * WIDTH + i) * 7 + step * 13) % 19) / 9 - 1;
  for (int64_t i = 0; i < BATCH; ++i) y[i] = (int32_t)((i * 5 + step) % CLASSES);
  const size_t bytes = (size_t)count * WIDTH * sizeof *x;
  SHOAL_RETURN_IF_ERROR(shoal_feed(session, "y", y, sizeof y));
  return count == BATCH ? shoal_feed(session, "x", x, bytes)
                        : shoal_feed_part(session, "x", x, bytes);
}

static inline shoal_status_t feed_and_run(shoal_session_t *session, const char *graph, int step) {
  SHOAL_RETURN_IF_ERROR(feed_rows(session, step, 0, BATCH));
  return shoal_run(session, graph);
}

static inline shoal_status_t fetch_logits(shoal_session_t *session, values_t *out) {
  return shoal_fetch(session, "logits", out->logits, sizeof out->logits);
}

#endif  // SHOAL_TESTS_UNIT_FETCH_SUPPORT_H_
