// Parts of states: what a rank reads is its slice of the whole, what ranks set is the whole;
// replicas that differ, wrong sizes and names are errors on all ranks. And a model that is larger
// than what a rank may use begins, and is filled, in parts. links: session nn launch
#include "run_support.h"
#include "shoal/nn.h"
#include "shoal/ops.h"
#include "shoal/optimize.h"
#include "shoal/session.h"

enum { BATCH = 6, IN = 50, HIDDEN = 33, CLASSES = 5, MOST = IN * HIDDEN };

typedef struct job {
  const shoal_model_t *model;
  const char *strategy, *mesh;
  int32_t wrong;        // a rank that sets another value than its replica
  const char *differs;  // what is said then; NULL: no rank has a replica
} job_t;

static shoal_model_t *make_model(void) {
  shoal_model_t *model;
  assert_ok(shoal_model_create(&(shoal_model_options_t){.seed = 7}, &model));
  shoal_graph_t *g = shoal_model_graph(model, "train");
  const shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(BATCH, IN));
  const shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(BATCH));
  const shoal_value_t h = shoal_tanh(g, shoal_nn_linear(g, "fc1", x, HIDDEN));
  const shoal_value_t loss = shoal_nn_cross_entropy(g, shoal_nn_linear(g, "fc2", h, CLASSES), y);
  shoal_minimize(g, loss, &(shoal_adamw_t){.lr = 1e-2f});
  shoal_output(g, "loss", loss);
  assert_ok(shoal_model_status(model));
  return model;
}

static shoal_status_t compare_parts(shoal_session_t *session, shoal_arena_t *arena) {
  static const char *const names[] = {"fc1/weight", "fc1/bias", "fc2/weight#adamw.m", "lr"};
  const shoal_program_t *program = shoal_session_program(session);
  for (size_t n = 0; n < sizeof names / sizeof *names; ++n) {
    int64_t s = 0;
    while (s < program->state_count && strcmp(program->states[s].name, names[n]) != 0) ++s;
    EXPECT(s < program->state_count, "no state %s", names[n]);
    const int64_t count = shoal_shape_count(&program->states[s].type.shape);
    float whole[MOST], part[MOST + 1], want[MOST], again[MOST];
    shoal_boxes_t boxes;
    SHOAL_RETURN_IF_ERROR(shoal_session_boxes(session, names[n], arena, &boxes));
    const shoal_shape_t shape = shoal_boxes_shape(&boxes);
    const int64_t held = shoal_shape_count(&shape);
    SHOAL_RETURN_IF_ERROR(shoal_session_get(session, names[n], whole, (size_t)count * 4));
    SHOAL_RETURN_IF_ERROR(shoal_session_get_part(session, names[n], part, (size_t)held * 4));
    SHOAL_RETURN_IF_ERROR(shoal_boxes_pack(&boxes, 4, whole, want));
    EXPECT(memcmp(part, want, (size_t)held * 4) == 0, "%s: parts differ", names[n]);
    for (int64_t i = 0; i < count; ++i) whole[i] = (float)(i * 3 + (int64_t)n);
    SHOAL_RETURN_IF_ERROR(shoal_boxes_pack(&boxes, 4, whole, part));
    SHOAL_RETURN_IF_ERROR(shoal_session_set_part(session, names[n], part, (size_t)held * 4));
    SHOAL_RETURN_IF_ERROR(shoal_session_get(session, names[n], again, (size_t)count * 4));
    EXPECT(memcmp(again, whole, (size_t)count * 4) == 0, "%s: the whole differs", names[n]);
  }
  return NULL;
}

// An error on all ranks, after which the session goes on.
static shoal_status_t expect_error(shoal_status_t status, shoal_code_t code, const char *words) {
  const bool right =
      shoal_status_code(status) == code && strstr(shoal_status_message(status), words);
  if (right) {
    shoal_status_free(status);
    return NULL;
  }
  return status ? status : SHOAL_ERROR(MISMATCH, "no error: %s", words);
}

static shoal_status_t misuse(const job_t *job, shoal_session_t *session, int32_t rank,
                             shoal_arena_t *arena) {
  float part[MOST + 1] = {0};
  shoal_boxes_t boxes;
  SHOAL_RETURN_IF_ERROR(shoal_session_boxes(session, "fc1/weight", arena, &boxes));
  const shoal_shape_t shape = shoal_boxes_shape(&boxes);
  const size_t size = (size_t)shoal_shape_count(&shape) * 4;
  SHOAL_RETURN_IF_ERROR(
      expect_error(shoal_session_get_part(session, "fc1/weight", part, rank == 1 ? size + 4 : size),
                   SHOAL_INVALID_ARGUMENT, "rank 1 holds"));
  SHOAL_RETURN_IF_ERROR(expect_error(shoal_session_set_part(session, "fc1/wait", part, size),
                                     SHOAL_NOT_FOUND, "fc1/wait"));
  SHOAL_RETURN_IF_ERROR(expect_error(shoal_session_boxes(session, "fc1/wait", arena, &boxes),
                                     SHOAL_NOT_FOUND, "fc1/wait"));
  if (!job->differs) return NULL;
  part[size / 4 - 1] = rank == job->wrong ? 1 : 2;
  SHOAL_RETURN_IF_ERROR(expect_error(shoal_session_set_part(session, "fc1/weight", part, size),
                                     SHOAL_MISMATCH, job->differs));
  float first[MOST];
  SHOAL_RETURN_IF_ERROR(shoal_session_get(session, "fc1/weight", first, sizeof first));
  EXPECT(first[1] == 3, "a part that was refused has been set");
  return NULL;
}

static shoal_status_t rank_body(void *self, shoal_world_t *world) {
  job_t *job = self;
  const int32_t rank = shoal_world_rank(world);
  shoal_session_t *session;
  shoal_arena_t arena;
  SHOAL_RETURN_IF_ERROR(shoal_parallelize(
      job->model,
      &(shoal_parallelize_options_t){.world = world, .strategy = job->strategy, .mesh = job->mesh},
      &session));
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_status_t status = compare_parts(session, &arena);
  if (!status && shoal_world_size(world) > 1) status = misuse(job, session, rank, &arena);
  shoal_arena_deinit(&arena);
  shoal_session_free(session);
  return status;
}

static void test_parts(void **state) {
  (void)state;
  shoal_model_t *model = make_model();
  job_t jobs[] = {{.strategy = "data", .wrong = 1, .differs = "ranks 0 and 1 set different values"},
                  {.strategy = "zero3"},
                  {.strategy = "tensor"},
                  {.strategy = "tensor",
                   .mesh = "data=2,tensor=2",
                   .wrong = 2,
                   .differs = "ranks 0 and 2 set different values"},
                  {.strategy = "tensor",
                   .mesh = "data=2,tensor=2",
                   .wrong = 3,
                   .differs = "ranks 1 and 3 set different values"}};
  for (size_t i = 0; i < sizeof jobs / sizeof *jobs; ++i) {
    jobs[i].model = model;
    run_ranks_ok(jobs[i].mesh ? 4 : 3, rank_body, &jobs[i]);
  }
  job_t one = {.model = model, .strategy = "data"};
  run_ranks_ok(1, rank_body, &one);
  shoal_model_free(model);
}

// ---- larger than a rank's memory ------------------------------------------------------

enum { LAYERS = 6, WIDTH = 41 };

typedef struct birth {
  const shoal_model_t *model;
  const char *strategy;
  int64_t memory;
  int64_t arena[MOST_RANKS];
  float weights[MOST_RANKS][LAYERS][WIDTH * WIDTH];  // as they begin
} birth_t;

static shoal_model_t *make_deep_model(void) {
  shoal_model_t *model;
  assert_ok(shoal_model_create(&(shoal_model_options_t){.seed = 3}, &model));
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t h = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(4, WIDTH));
  for (int i = 0; i < LAYERS; ++i) {
    char name[16];
    snprintf(name, sizeof name, "fc%d", i);
    h = shoal_tanh(g, shoal_nn_linear(g, name, h, WIDTH));
  }
  const shoal_value_t loss = shoal_reduce_mean(g, shoal_square(g, h), SHOAL_SHAPE(0, 1));
  shoal_minimize(g, loss, &(shoal_adamw_t){.lr = 1e-2f});
  shoal_output(g, "loss", loss);
  assert_ok(shoal_model_status(model));
  return model;
}

static shoal_status_t give_birth(void *self, shoal_world_t *world) {
  birth_t *birth = self;
  const int32_t rank = shoal_world_rank(world);
  shoal_session_t *session;
  SHOAL_RETURN_IF_ERROR(
      shoal_parallelize(birth->model,
                        &(shoal_parallelize_options_t){
                            .world = world, .strategy = birth->strategy, .memory = birth->memory},
                        &session));
  shoal_status_t status = NULL;
  for (int i = 0; i < LAYERS && !status; ++i) {
    char name[32];
    snprintf(name, sizeof name, "fc%d/weight", i);
    status = shoal_session_get(session, name, birth->weights[rank][i], sizeof *birth->weights[0]);
  }
  float x[4 * WIDTH] = {1};
  if (!status) status = shoal_feed(session, "x", x, sizeof x);
  for (int step = 0; step < 2 && !status; ++step) status = shoal_run(session, "train");
  if (!status) status = shoal_session_wait(session);
  const shoal_memory_report_t memory = shoal_session_memory(session);
  birth->arena[rank] = memory.arena_touched[SHOAL_MEMORY_DEVICE];
  shoal_session_free(session);
  return status;
}

static void test_larger_than_a_rank(void **state) {
  (void)state;
  shoal_model_t *model = make_deep_model();
  const int64_t states = 3LL * LAYERS * (WIDTH * WIDTH + WIDTH) * 4;
  birth_t *one = calloc(1, sizeof *one), *four = calloc(1, sizeof *four);
  assert_non_null(one);
  assert_non_null(four);
  one->model = four->model = model;
  run_ranks_ok(1, give_birth, one);
  four->memory = states;  // no room for anything beside whole states
  four->strategy = "data";
  shoal_status_t statuses[MOST_RANKS];
  run_ranks(4, give_birth, four, statuses);
  for (int r = 0; r < 4; ++r) {
    assert_non_null(statuses[r]);
    assert_non_null(strstr(shoal_status_message(statuses[r]), "memory"));
    shoal_status_free(statuses[r]);
  }
  four->strategy = "zero3";
  run_ranks_ok(4, give_birth, four);
  for (int r = 0; r < 4; ++r) {
    assert_memory_equal(four->weights[r], one->weights[0], sizeof one->weights[0]);
    assert_in_range(four->arena[r], 1, states - 1);
  }
  free(one);
  free(four);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts),
                                     cmocka_unit_test(test_larger_than_a_rank)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
