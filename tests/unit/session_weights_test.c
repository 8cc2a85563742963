// Weights through the session: a model that only answers, on another mesh, loads what a training
// one saved and gives the same answers; ranks that ask for different things are told.
// links: session zoo launch
#include <stdlib.h>
#include <unistd.h>

#include "run_support.h"
#include "shoal/session.h"
#include "shoal/zoo.h"
#include "unit/folder.h"

enum { ROWS = 6, IN = 5, CLASSES = 3 };

typedef struct job {
  bool trains;
  const char *strategy;
  shoal_status_t (*act)(shoal_session_t *session, int32_t rank);
  double logits[ROWS * CLASSES];
} job_t;

static void path_of(const char *name, char out[300]) {
  snprintf(out, 300, "%s/%s", folder, name);
}

static shoal_status_t answer(shoal_session_t *session, double logits[ROWS * CLASSES]) {
  double x[ROWS * IN];
  const int32_t y[ROWS] = {0, 1, 2, 0, 1, 2};
  for (int i = 0; i < ROWS * IN; ++i) x[i] = (i * 7 % 11) * 0.1 - 0.5;
  SHOAL_RETURN_IF_ERROR(shoal_feed(session, "x", x, sizeof x));
  SHOAL_RETURN_IF_ERROR(shoal_feed(session, "y", y, sizeof y));
  SHOAL_RETURN_IF_ERROR(shoal_run(session, "eval"));
  return shoal_fetch(session, "logits", logits, ROWS * CLASSES * sizeof(double));
}

static shoal_status_t rank_body(void *self, shoal_world_t *world) {
  job_t *job = self;
  shoal_zoo_t *zoo = NULL;
  shoal_model_t *model = NULL;
  shoal_session_t *session = NULL;
  double logits[ROWS * CLASSES] = {0};
  shoal_status_t status = shoal_zoo_create(
      "mlp",
      &(shoal_zoo_options_t){.settings = "batch=6 in_features=5 hidden=4 classes=3 dtype=f64"},
      &zoo);
  if (!status) {
    status = shoal_model_create(&(shoal_model_options_t){.seed = job->trains ? 1 : 2}, &model);
  }
  if (!status && job->trains) {
    shoal_zoo_build(zoo, shoal_model_graph(model, "train"), "train", 0);
  }
  if (!status) {
    shoal_zoo_build(zoo, shoal_model_graph(model, "eval"), "eval", 0);
    status = shoal_parallelize(
        model, &(shoal_parallelize_options_t){.world = world, .strategy = job->strategy}, &session);
  }
  if (!status) status = job->act(session, shoal_world_rank(world));
  if (!status) status = answer(session, logits);
  if (!status && shoal_world_rank(world) == 0) memcpy(job->logits, logits, sizeof logits);
  shoal_session_free(session);
  shoal_model_free(model);
  shoal_zoo_free(zoo);
  return status;
}

static shoal_status_t save_both(shoal_session_t *session, int32_t rank) {
  (void)rank;
  char all[300], weights[300];
  path_of("all", all), path_of("weights", weights);
  SHOAL_RETURN_IF_ERROR(shoal_save(session, all));
  return shoal_save_with(session, weights, NULL);
}

static shoal_status_t load_all(shoal_session_t *session, int32_t rank) {
  (void)rank;
  char path[300];
  path_of("all", path);
  return shoal_load(session, path);
}

static shoal_status_t load_weights(shoal_session_t *session, int32_t rank) {
  (void)rank;
  char path[300];
  path_of("weights", path);
  return shoal_load_with(session, path, NULL);
}

static shoal_status_t load_of_all(shoal_session_t *session, int32_t rank) {
  (void)rank;
  char path[300];
  path_of("all", path);
  return shoal_load_with(session, path, NULL);
}

static shoal_status_t nothing(shoal_session_t *session, int32_t rank) {
  (void)session, (void)rank;
  return NULL;
}

static void test_answers(void **state) {
  (void)state;
  job_t trained = {.trains = true, .strategy = "zero1", .act = save_both};
  job_t alone = {.strategy = "tensor", .act = nothing};
  run_ranks_ok(2, rank_body, &trained);
  run_ranks_ok(2, rank_body, &alone);
  assert_memory_not_equal(alone.logits, trained.logits, sizeof alone.logits);
  shoal_status_t (*const loads[])(shoal_session_t *, int32_t) = {load_all, load_weights,
                                                                 load_of_all};
  for (size_t i = 0; i < sizeof loads / sizeof *loads; ++i) {
    job_t answers = {.strategy = "tensor", .act = loads[i]};
    run_ranks_ok(3, rank_body, &answers);
    for (int e = 0; e < ROWS * CLASSES; ++e) {
      const double difference = answers.logits[e] - trained.logits[e];
      assert_true(difference < 1e-12 && difference > -1e-12);
    }
  }
}

// Ranks that would save different states would wait for each other.
static shoal_status_t save_apart(shoal_session_t *session, int32_t rank) {
  char path[300];
  path_of("apart", path);
  shoal_status_t status =
      shoal_save_with(session, path, &(shoal_save_options_t){.only = rank == 1 ? "fc1/*" : NULL});
  const bool told = shoal_status_code(status) == SHOAL_MISMATCH &&
                    strstr(shoal_status_message(status), "only fc1/*") != NULL;
  shoal_status_free(status);
  EXPECT(told, "rank %d is not told", rank);
  EXPECT(access(path, F_OK) != 0, "something was written");
  return NULL;
}

static void test_apart(void **state) {
  (void)state;
  job_t job = {.strategy = "data", .act = save_apart};
  run_ranks_ok(2, rank_body, &job);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_answers),
      cmocka_unit_test(test_apart),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
