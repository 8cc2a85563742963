// Sessions: n ranks equal one, whatever the device and through text; saving and loading across
// meshes; errors that are the same on every rank; no allocation in steady state. links: all
#include <math.h>
#include <signal.h>
#include <unistd.h>

#include "run_support.h"
#include "shoal/session.h"
#include "unit/zoo_sizes.h"

enum { BATCH = 7, IN = 5, STEPS = 4, MOST_STATES = 32 };

// ---- an mlp, trained for a few steps --------------------------------------------------

static shoal_model_t *make_model(shoal_allocator_t allocator) {
  shoal_model_t *model;
  assert_ok(
      shoal_model_create(&(shoal_model_options_t){.allocator = allocator, .seed = 11}, &model));
  add_mlp(
      model,
      &(mlp_sizes_t){
          .batch = BATCH, .in_features = IN, .hidden = 9, .classes = 3, .layers = 2, .lr = 0.05});
  assert_ok(shoal_model_status(model));
  return model;
}

static void make_batch(int64_t step, double *x, int32_t *y) {
  for (int i = 0; i < BATCH * IN; ++i) x[i] = sin((double)(i * 3 + step * 17));
  for (int i = 0; i < BATCH; ++i) y[i] = (int32_t)((i + step) % 3);
}

static shoal_status_t feed_step(shoal_session_t *session, int64_t step) {
  double x[BATCH * IN];
  int32_t y[BATCH];
  make_batch(step, x, y);
  SHOAL_RETURN_IF_ERROR(shoal_feed(session, "x", x, sizeof x));
  return shoal_feed(session, "y", y, sizeof y);
}

static shoal_status_t train_step(shoal_session_t *session, int64_t step, double *out_loss) {
  SHOAL_RETURN_IF_ERROR(feed_step(session, step));
  SHOAL_RETURN_IF_ERROR(shoal_run(session, "train"));
  return shoal_fetch(session, "loss", out_loss, sizeof *out_loss);
}

typedef struct result {
  double losses[STEPS];
  double weight[IN * 9];
} result_t;

typedef struct job {
  const shoal_model_t *model;
  shoal_parallelize_options_t options;
  result_t results[MOST_RANKS];
  const char *save, *load;
  int taps[MOST_RANKS];
  int64_t steps[MOST_RANKS];  // until it was stopped
} job_t;

static void count_taps(void *self, int32_t rank, const char *graph, const char *value,
                       const shoal_layout_t *layout, const shoal_type_t *whole, int64_t micro,
                       const void *data, int64_t bytes) {
  (void)graph, (void)value, (void)layout, (void)whole, (void)micro, (void)data, (void)bytes;
  ++((job_t *)self)->taps[rank];
}

static const char *weight_name(const shoal_program_t *program) {
  for (int64_t i = 0; i < program->state_count; ++i) {
    const shoal_type_t *type = &program->states[i].type;
    if (type->shape.rank == 2 && type->shape.dims[0] == IN) return program->states[i].name;
  }
  return "";
}

static shoal_status_t train(shoal_session_t *session, const job_t *job, result_t *result) {
  if (job->load) SHOAL_RETURN_IF_ERROR(shoal_load(session, job->load));
  for (int step = 0; step < STEPS; ++step) {
    SHOAL_RETURN_IF_ERROR(train_step(session, step, &result->losses[step]));
  }
  if (job->save) SHOAL_RETURN_IF_ERROR(shoal_save(session, job->save));
  return shoal_session_get(session, weight_name(shoal_session_program(session)), result->weight,
                           sizeof result->weight);
}

static shoal_status_t train_rank(void *self, shoal_world_t *world) {
  job_t *job = self;
  shoal_parallelize_options_t options = job->options;
  options.world = world;
  shoal_session_t *session;
  SHOAL_RETURN_IF_ERROR(shoal_parallelize(job->model, &options, &session));
  shoal_status_t status = train(session, job, &job->results[shoal_world_rank(world)]);
  shoal_session_free(session);
  return status;
}

static void expect_equal(const result_t *a, const result_t *b) {
  for (int i = 0; i < STEPS; ++i) assert_true(fabs(a->losses[i] - b->losses[i]) < 1e-10);
  for (int i = 0; i < IN * 9; ++i) assert_true(fabs(a->weight[i] - b->weight[i]) < 1e-10);
}

static void test_ranks_equal_one(void **state) {
  (void)state;
  static const struct {
    int32_t n;
    const char *strategy, *mesh;
    bool opaque, through_text, tap;
  } cases[] = {
      {1, "single", NULL, true, true, false},
      {2, "data", NULL, false, false, false},
      {2, "data", "data=2,micro=3", true, true, false},
      {3, "data", "data=3", true, false, true},
      {2, "tensor", NULL, true, true, false},
      {3, "tensor", "tensor=3,micro=2", false, true, true},
      {4, "tensor", "data=2,tensor=2", false, false, false},
      {2, NULL, NULL, false, false, false},
  };
  shoal_model_t *model = make_model(shoal_allocator_system());
  job_t one = {.model = model, .options = {.strategy = "single"}};
  run_ranks_ok(1, train_rank, &one);
  assert_true(one.results[0].losses[STEPS - 1] < one.results[0].losses[0]);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    job_t job = {.model = model,
                 .options = {.strategy = cases[i].strategy,
                             .mesh = cases[i].mesh,
                             .opaque = cases[i].opaque,
                             .through_text = cases[i].through_text}};
    if (cases[i].tap) {
      job.options.tap = count_taps;
      job.options.tap_self = &job;
    }
    run_ranks_ok(cases[i].n, train_rank, &job);
    for (int32_t r = 0; r < cases[i].n; ++r) {
      expect_equal(&one.results[0], &job.results[r]);
      assert_true(!cases[i].tap || job.taps[r] > 10);
    }
  }
  shoal_model_free(model);
}

// Trained, saved on 2 ranks; trained on from there on 3, as on 1.
static void test_resume_on_another_mesh(void **state) {
  (void)state;
  char path[] = "/tmp/shoal_session_XXXXXX";
  assert_non_null(mkdtemp(path));
  shoal_model_t *model = make_model(shoal_allocator_system());
  job_t first = {.model = model, .options = {.strategy = "data"}, .save = path};
  run_ranks_ok(2, train_rank, &first);
  job_t more = {.model = model, .options = {.strategy = "tensor"}, .load = path};
  run_ranks_ok(3, train_rank, &more);
  job_t one = {.model = model, .options = {.strategy = "single"}, .load = path};
  run_ranks_ok(1, train_rank, &one);
  for (int r = 0; r < 3; ++r) expect_equal(&one.results[0], &more.results[r]);
  assert_true(one.results[0].losses[0] < first.results[0].losses[0]);
  shoal_model_free(model);
  char command[300];
  snprintf(command, sizeof command, "rm -rf %s", path);
  assert_int_equal(system(command), 0);
}

// ---- steady state ---------------------------------------------------------------------

static shoal_status_t steady_rank(void *self, shoal_world_t *world) {
  job_t *job = self;
  shoal_parallelize_options_t options = job->options;
  options.world = world;
  shoal_session_t *session;
  SHOAL_RETURN_IF_ERROR(shoal_parallelize(job->model, &options, &session));
  shoal_status_t status = NULL;
  int64_t before = 0, after = 0;
  double loss;
  for (int step = 1; step <= 8 && !status; ++step) {
    before = step == 3 ? shoal_session_memory(session).allocations : before;
    status = train_step(session, step, &loss);
  }
  shoal_memory_report_t report = shoal_session_memory(session);
  after = report.allocations;
  shoal_session_free(session);
  SHOAL_RETURN_IF_ERROR(status);
  EXPECT(before > 0 && after == before, "%lld allocations, then %lld", (long long)before,
         (long long)after);
  EXPECT(!options.opaque || report.arena_touched[0] == report.arena_planned[0],
         "touched %lld of %lld", (long long)report.arena_touched[0],
         (long long)report.arena_planned[0]);
  return NULL;
}

static void test_no_allocation_in_steady_state(void **state) {
  (void)state;
  shoal_model_t *model = make_model(shoal_allocator_system());
  for (int i = 0; i < 4; ++i) {
    job_t job = {.model = model,
                 .options = {.strategy = i & 1 ? "tensor" : "data",
                             .opaque = i & 2,
                             .mesh = i & 1 ? NULL : "data=2,micro=3"}};
    run_ranks_ok(2, steady_rank, &job);
  }
  shoal_model_free(model);
}

// A hundred steps that fetch nothing: nothing is joined, nobody meets, and every 16th run asks how
// the others are.
static shoal_status_t hundred_rank(void *self, shoal_world_t *world) {
  enum { WARM = 64, STEADY = 100 };
  const job_t *job = self;
  shoal_parallelize_options_t options = job->options;
  options.world = world;
  shoal_session_t *session;
  SHOAL_RETURN_IF_ERROR(shoal_parallelize(job->model, &options, &session));
  shoal_status_t status = NULL;
  shoal_session_counters_t before = {0};
  for (int step = 0; step < WARM + STEADY && !status; ++step) {
    if (step == WARM) before = shoal_session_counters(session);
    status = feed_step(session, step);
    if (!status) status = shoal_run(session, "train");
  }
  const shoal_session_counters_t after = shoal_session_counters(session);
  double loss = 0;
  if (!status) status = shoal_fetch(session, "loss", &loss, sizeof loss);
  shoal_session_free(session);
  SHOAL_RETURN_IF_ERROR(status);
  EXPECT(after.runs - before.runs == STEADY, "%d runs", (int)(after.runs - before.runs));
  EXPECT(after.joins == before.joins, "%d joins", (int)(after.joins - before.joins));
  EXPECT(after.meetings == before.meetings, "meetings");
  EXPECT(after.allocations == before.allocations, "allocations");
  const int agreements = (int)(after.agreements - before.agreements);
  const bool alone = shoal_world_size(world) == 1;
  EXPECT(alone ? agreements == 0 : agreements >= STEADY / 16 && agreements <= STEADY / 16 + 1,
         "%d agreements", agreements);
  EXPECT(loss > 0, "the loss is %g", loss);
  return NULL;
}

static void test_steady_steps(void **state) {
  (void)state;
  shoal_model_t *model = make_model(shoal_allocator_system());
  for (int i = 0; i < 4; ++i) {
    job_t job = {.model = model, .options = {.strategy = "data", .opaque = i & 1}};
    run_ranks_ok(i < 2 ? 1 : 2, hundred_rank, &job);
  }
  shoal_model_free(model);
}

// ---- errors are the same on every rank ------------------------------------------------

static void expect_error(int32_t n, rank_fn_t fn, job_t *job, shoal_code_t code, const char *part) {
  shoal_status_t statuses[MOST_RANKS];
  run_ranks(n, fn, job, statuses);
  for (int32_t r = 0; r < n; ++r) {
    if (shoal_status_code(statuses[r]) != code ||
        (!strstr(shoal_status_message(statuses[r]), part) &&
         !strstr(shoal_status_hint(statuses[r]), part))) {
      fail_msg("rank %d: %s: %s (%s)", r, shoal_code_name(shoal_status_code(statuses[r])),
               shoal_status_message(statuses[r]), shoal_status_hint(statuses[r]));
    }
    shoal_status_free(statuses[r]);
  }
}

static shoal_status_t uneven_options(void *self, shoal_world_t *world) {
  job_t job = *(job_t *)self;
  if (shoal_world_rank(world) == 1) job.options.mesh = "data=2,micro=2";
  return train_rank(&job, world);
}

static shoal_status_t one_bad_mesh(void *self, shoal_world_t *world) {
  job_t job = *(job_t *)self;
  if (shoal_world_rank(world) == 1) job.options.mesh = "data=three";
  return train_rank(&job, world);
}

// A label that is no class, in the second of three steps: the run fails behind the host's back,
// leaves no answer to fetch, and nothing runs after it - on one rank as on several.
static shoal_status_t bad_label(void *self, shoal_world_t *world) {
  const job_t *job = self;
  shoal_parallelize_options_t options = job->options;
  options.world = world;
  shoal_session_t *session = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_parallelize(job->model, &options, &session));
  double loss;
  int32_t y[BATCH] = {77};
  shoal_status_t status = train_step(session, 1, &loss);
  if (!status) status = shoal_feed(session, "y", y, sizeof y);
  if (!status) status = shoal_run(session, "train");
  if (!status) {
    shoal_status_t lost = shoal_fetch(session, "loss", &loss, sizeof loss);
    shoal_status_t after[] = {shoal_run(session, "train"), shoal_session_wait(session),
                              shoal_fetch(session, "loss", &loss, sizeof loss),
                              shoal_save(session, "/there/is/nothing")};
    bool sticks = lost != NULL;
    for (size_t i = 0; i < sizeof after / sizeof after[0]; ++i) {
      sticks &= strcmp(shoal_status_message(after[i]), shoal_status_message(lost)) == 0;
      shoal_status_free(after[i]);
    }
    if (!sticks) {
      shoal_status_free(lost);
      lost = SHOAL_ERROR(INTERNAL, "a failed run left answers");
    }
    status = lost;
  }
  shoal_session_free(session);
  return status;
}

static void test_failed_run(void **state) {
  (void)state;
  shoal_model_t *model = make_model(shoal_allocator_system());
  job_t job = {.model = model, .options = {.strategy = "data"}};
  expect_error(1, bad_label, &job, SHOAL_INVALID_ARGUMENT, "77");
  expect_error(2, bad_label, &job, SHOAL_ABORTED, "77");
  job.options.opaque = true;
  expect_error(1, bad_label, &job, SHOAL_INVALID_ARGUMENT, "77");
  shoal_model_free(model);
}

// NULL where a name or data belongs: an error, and on collective calls the same one on all ranks.
static shoal_status_t null_rank(void *self, shoal_world_t *world) {
  const job_t *job = self;
  shoal_session_t *session = NULL;
  shoal_parallelize_options_t options = {.world = world, .strategy = "data"};
  SHOAL_RETURN_IF_ERROR(shoal_parallelize(job->model, &options, &session));
  float number = 0;
  shoal_status_t statuses[] = {shoal_feed(session, NULL, &number, sizeof number),
                               shoal_feed(session, "x", NULL, 4),
                               shoal_feed_part(session, NULL, &number, sizeof number),
                               shoal_fetch(session, "loss", NULL, sizeof number),
                               shoal_session_get(session, NULL, &number, sizeof number),
                               shoal_session_set(session, "lr", NULL, sizeof number),
                               shoal_save(session, NULL),
                               shoal_save(session, ""),
                               shoal_load(session, NULL)};
  bool wrong = false;
  for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; ++i) {
    wrong |= shoal_status_code(statuses[i]) != SHOAL_INVALID_ARGUMENT;
    shoal_status_free(statuses[i]);
  }
  shoal_status_t status = shoal_run(session, NULL);
  wrong |= shoal_status_code(status) != SHOAL_NOT_FOUND;
  shoal_status_free(status);
  shoal_session_free(session);
  return wrong ? shoal_status_create(SHOAL_MISMATCH, __FILE__, __LINE__, "a NULL was taken", NULL)
               : NULL;
}

static void test_null_arguments(void **state) {
  (void)state;
  shoal_model_t *model = make_model(shoal_allocator_system());
  job_t job = {.model = model};
  run_ranks_ok(2, null_rank, &job);
  shoal_model_free(model);
}

// Rank 1 builds another model.
static shoal_status_t other_model(void *self, shoal_world_t *world) {
  const job_t *job = self;
  shoal_model_t *model;
  const bool odd = shoal_world_rank(world) == 1;
  const uint64_t seed = odd && job->taps[0] ? 12 : 11;
  SHOAL_RETURN_IF_ERROR(shoal_model_create(&(shoal_model_options_t){.seed = seed}, &model));
  add_mlp(model, &(mlp_sizes_t){.batch = BATCH,
                                .in_features = IN,
                                .hidden = odd && job->taps[1] ? 8 : 9,
                                .classes = 3,
                                .layers = odd && job->taps[2] ? 1 : 2});
  shoal_parallelize_options_t options = {.world = world, .strategy = "data"};
  shoal_session_t *session = NULL;
  shoal_status_t status = shoal_parallelize(model, &options, &session);
  shoal_session_free(session);
  shoal_model_free(model);
  return status;
}

// All ranks get the same error, at once, and it says who differs in what.
static void test_other_models_are_named(void **state) {
  (void)state;
  for (int ranks = 2; ranks <= 3; ++ranks) {
    job_t seed = {.taps = {1}}, width = {.taps = {0, 1}}, depth = {.taps = {0, 0, 1}};
    expect_error(ranks, other_model, &seed, SHOAL_MISMATCH, "rank 1's has seed 12, rank 0's 11");
    expect_error(ranks, other_model, &width, SHOAL_MISMATCH,
                 "of rank 1's is 'state fc1/weight f64[5, 8]");
    expect_error(ranks, other_model, &width, SHOAL_MISMATCH,
                 "of rank 0's 'state fc1/weight f64[5, 9]");
    expect_error(ranks, other_model, &depth, SHOAL_MISMATCH, "of rank 1's is 'state ");
  }
}

static void test_errors(void **state) {
  (void)state;
  shoal_session_t *session = NULL;
  shoal_status_t status = shoal_parallelize(NULL, NULL, &session);
  assert_int_equal(shoal_status_code(status), SHOAL_INVALID_ARGUMENT);
  shoal_status_free(status);
  shoal_model_t *model = make_model(shoal_allocator_system());
  job_t job = {.model = model, .options = {.strategy = "dta"}};
  expect_error(2, train_rank, &job, SHOAL_NOT_FOUND, "data");
  job.options = (shoal_parallelize_options_t){.strategy = "data"};
  expect_error(2, uneven_options, &job, SHOAL_MISMATCH, "rank 1's is 'mesh data=2,micro=2'");
  expect_error(3, one_bad_mesh, &job, SHOAL_MISMATCH, "rank 1's is 'mesh data=three'");
  job.options.mesh = "data=three";
  expect_error(3, train_rank, &job, SHOAL_INVALID_ARGUMENT, "data=three");
  job.options.mesh = "data=3";
  expect_error(2, train_rank, &job, SHOAL_INVALID_ARGUMENT, "3");
  job.options = (shoal_parallelize_options_t){.plan = "{\"shoal_plan\": 1, \"intnet\": {}}"};
  expect_error(2, train_rank, &job, SHOAL_INVALID_ARGUMENT, "intent");
  job.options = (shoal_parallelize_options_t){.cluster = "/no/such/cluster.yml"};
  expect_error(2, train_rank, &job, SHOAL_NOT_FOUND, "/no/such/cluster.yml");
  shoal_model_free(model);
  assert_ok(shoal_model_create(NULL, &model));
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(2, 3));
  shoal_value_t bad[1];
  shoal_node_add(g, "shoal.no_such_op", 1, &x, 0, NULL, 1, bad);
  job = (job_t){.model = model};
  expect_error(2, train_rank, &job, SHOAL_NOT_FOUND, "no_such_op");
  shoal_model_free(model);
}

// ---- a given program; dry runs; signals -----------------------------------------------

static shoal_status_t program_rank(void *self, shoal_world_t *world) {
  const job_t *job = self;
  shoal_session_t *planned, *given;
  shoal_parallelize_options_t options = {.world = world, .strategy = "data", .dry_run = true};
  SHOAL_RETURN_IF_ERROR(shoal_parallelize(job->model, &options, &planned));
  double loss = 1;
  shoal_status_t status = train_step(planned, 0, &loss);  // a dry run: nothing happens
  if (!status && loss != 0) status = SHOAL_ERROR(MISMATCH, "a dry run has results");
  for (int through_text = 0; through_text < 2 && !status; ++through_text) {
    options = (shoal_parallelize_options_t){.world = world, .through_text = through_text};
    status = shoal_session_create(shoal_session_program(planned), &options, &given);
    if (status) break;
    result_t result;
    status = train(given, job, &result);
    if (!status && fabs(result.losses[2] - job->results[0].losses[2]) > 1e-10) {
      status = SHOAL_ERROR(MISMATCH, "loss %g", result.losses[2]);
    }
    shoal_session_free(given);
  }
  shoal_session_free(planned);
  return status;
}

static void test_given_program(void **state) {
  (void)state;
  shoal_model_t *model = make_model(shoal_allocator_system());
  job_t job = {.model = model, .options = {.strategy = "single"}};
  run_ranks_ok(1, train_rank, &job);
  run_ranks_ok(2, program_rank, &job);
  shoal_model_free(model);
}

// Rank 0's flag is seen by all after the same run, though the ranks run ahead of each other. (Ranks
// are threads here and the signal's flag is shared: they would see it after different runs.)
static shoal_status_t signal_steps(shoal_session_t *session, int32_t rank, int64_t *out_step) {
  double loss;
  SHOAL_RETURN_IF_ERROR(shoal_session_catch_signals(session));
  for (int step = 0; step < 100; ++step) {
    if (rank == 0 && step == 37) raise(SIGTERM);
    SHOAL_RETURN_IF_ERROR(feed_step(session, step));
    SHOAL_RETURN_IF_ERROR(shoal_run(session, "train"));
    EXPECT(step >= 37 || !shoal_session_should_stop(session), "stops too early");
    if (!shoal_session_should_stop(session)) continue;
    *out_step = step;
    return shoal_fetch(session, "loss", &loss, sizeof loss);
  }
  EXPECT(false, "goes on");
  return NULL;
}

static shoal_status_t signal_rank(void *self, shoal_world_t *world) {
  job_t *job = self;
  const int32_t rank = shoal_world_rank(world);
  shoal_session_t *session;
  SHOAL_RETURN_IF_ERROR(shoal_parallelize(
      job->model, &(shoal_parallelize_options_t){.world = world, .strategy = "data"}, &session));
  shoal_status_t status = signal_steps(session, rank, &job->steps[rank]);
  shoal_session_free(session);
  return status;
}

static void ignore(int number) {
  (void)number;
}

static void test_signals(void **state) {
  (void)state;
  shoal_model_t *model = make_model(shoal_allocator_system());
  signal(SIGTERM, ignore);
  job_t job = {.model = model};
  run_ranks_ok(2, signal_rank, &job);
  assert_int_equal(job.steps[0], job.steps[1]);
  assert_in_range(job.steps[0], 37, 37 + 2 * 16);
  run_ranks_ok(1, signal_rank, &job);
  assert_int_equal(job.steps[0], 37);
  struct sigaction now;
  sigaction(SIGTERM, NULL, &now);
  assert_ptr_equal(now.sa_handler, ignore);  // put back
  signal(SIGTERM, SIG_DFL);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ranks_equal_one),
      cmocka_unit_test(test_resume_on_another_mesh),
      cmocka_unit_test(test_no_allocation_in_steady_state),
      cmocka_unit_test(test_steady_steps),
      cmocka_unit_test(test_null_arguments),
      cmocka_unit_test(test_other_models_are_named),
      cmocka_unit_test(test_errors),
      cmocka_unit_test(test_failed_run),
      cmocka_unit_test(test_given_program),
      cmocka_unit_test(test_signals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
