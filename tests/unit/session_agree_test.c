// Ranks that disagree at run time hear of it by name, all of them: batches, parts that several
// ranks hold, states, calls. In the first run of a graph before anything runs, in later ones a few
// runs later. Also run by tests/mpi_failures.sh.
// links: all
#include <math.h>

#include "comm/comm_impl.h"
#include "comm_ranks.h"
#include "shoal/session.h"
#include "unit/zoo_sizes.h"

enum { BATCH = 8, MOST_IN = 4096 };

static const shoal_world_options_t soon = {.timeout_ms = 60000};

// ---- an mlp and its batches -----------------------------------------------------------

typedef struct job {
  const shoal_model_t *model;
  shoal_parallelize_options_t options;
  int64_t in;
  int32_t odd;       // the rank that gives something else
  bool parts;        // feeds its rows only
  bool crossed;      // ranks 1 and 3 feed each other's
  const char *says;  // what the error must say
} job_t;

static shoal_model_t *make_model(int64_t in) {
  shoal_model_t *model;
  assert_ok(shoal_model_create(&(shoal_model_options_t){.seed = 11}, &model));
  add_mlp(
      model,
      &(mlp_sizes_t){
          .batch = BATCH, .in_features = in, .hidden = 6, .classes = 3, .layers = 2, .lr = 0.05});
  assert_ok(shoal_model_status(model));
  return model;
}

static shoal_status_t begin(const job_t *job, shoal_world_t *world, shoal_session_t **out_session) {
  shoal_parallelize_options_t options = job->options;
  options.world = world;
  return shoal_parallelize(job->model, &options, out_session);
}

static double element(int64_t step, int64_t i) {
  return sin((double)(i * 3 + step * 17));
}

// Rows are split over `shares` equal parts, of which this rank feeds part `share`; 1: the whole.
// `wrong` is what an odd rank adds to all, or to the last element alone.
typedef struct rows {
  int64_t share, shares;
  double wrong;
  bool last_only;
} rows_t;

static shoal_status_t feed(const job_t *job, shoal_session_t *session, int64_t step, rows_t rows) {
  static _Thread_local double x[BATCH * MOST_IN];
  int32_t y[BATCH];
  const int64_t count = BATCH / rows.shares, first = rows.share * count, size = count * job->in;
  for (int64_t i = 0; i < size; ++i) {
    const bool wrong = !rows.last_only || i == size - 1;
    x[i] = element(step, first * job->in + i) + (wrong ? rows.wrong : 0);
  }
  for (int64_t i = 0; i < count; ++i) y[i] = (int32_t)((first + i + step) % 3);
  const size_t x_bytes = sizeof *x * (size_t)size, y_bytes = sizeof *y * (size_t)count;
  if (!job->parts) {
    SHOAL_RETURN_IF_ERROR(shoal_feed(session, "x", x, x_bytes));
    return shoal_feed(session, "y", y, y_bytes);
  }
  SHOAL_RETURN_IF_ERROR(shoal_feed_part(session, "x", x, x_bytes));
  return shoal_feed_part(session, "y", y, y_bytes);
}

static shoal_status_t run(shoal_session_t *session) {
  double loss = 0;
  SHOAL_RETURN_IF_ERROR(shoal_run(session, "train"));
  SHOAL_RETURN_IF_ERROR(shoal_fetch(session, "loss", &loss, sizeof loss));
  CHECK(isfinite(loss) && loss > 0, "loss %g", loss);
  return NULL;
}

// As CHECK_ERROR, for a text that is not a literal.
static shoal_status_t expect_mismatch(shoal_status_t status, const char *says) {
  if (shoal_status_code(status) == SHOAL_MISMATCH && strstr(shoal_status_message(status), says)) {
    shoal_status_free(status);
    return NULL;
  }
  return shoal_status_annotatef(status ? status : SHOAL_ERROR(INTERNAL, "succeeded"),
                                "expected MISMATCH '%s'", says);
}

// ---- batches --------------------------------------------------------------------------

// Two steps alike, one in which a rank has another batch - it is a first run, so nothing runs -,
// and two more.
static shoal_status_t batches_of(const job_t *job, shoal_session_t *session, rows_t good) {
  const int32_t rank = shoal_world_rank(shoal_session_world(session));
  for (int64_t step = 0; step < 5; ++step) {
    rows_t rows = good;
    if (step == 2 && rank == job->odd) rows.wrong = 0.25, rows.last_only = job->in < 100;
    if (step == 2 && job->crossed) rows.share = rank == 1 || rank == 2;
    if (step == 2) SHOAL_RETURN_IF_ERROR(shoal_session_wait(session));
    SHOAL_RETURN_IF_ERROR(feed(job, session, step, rows));
    shoal_status_t status = run(session);
    if (step == 2) status = expect_mismatch(status, job->says);
    SHOAL_RETURN_IF_ERROR(shoal_status_annotatef(status, "step %d", (int)step));
  }
  return NULL;
}

static shoal_status_t batches(shoal_world_t *world, void *self) {
  const job_t *job = self;
  shoal_session_t *session = NULL;
  SHOAL_RETURN_IF_ERROR(begin(job, world, &session));
  // Parts: the mesh is data=2,tensor=2, so two ranks hold the same rows.
  const rows_t good = job->parts ? (rows_t){.share = shoal_world_rank(world) / 2, .shares = 2}
                                 : (rows_t){.shares = 1};
  shoal_status_t status = batches_of(job, session, good);
  shoal_session_free(session);
  return status;
}

static void test_batches(void **state) {
  (void)state;
  static const struct {
    int32_t n, odd;
    int64_t in;
    const char *strategy, *mesh;
    bool opaque, parts;
    const char *says;
  } cases[] = {
      {2, 1, 5, "data", NULL, false, false, "input 'x' of graph 'train' on rank 1 differs from"},
      {3, 2, 5, "data", "data=3,micro=2", true, false, "on rank 2 differs from rank 0"},
      {3, 0, 5, "tensor", NULL, false, false, "on rank 0 differs from rank 1"},
      {2, 1, MOST_IN, "data", NULL, false, false, "input 'x' of graph 'train' on rank 1"},
      {4, 3, 5, "tensor", "data=2,tensor=2", false, true, "on rank 3 differs from rank 2"},
      {4, 0, 5, "tensor", "data=2,tensor=2", true, true, "on rank 1 differs from rank 0"},
      {4, 3, MOST_IN, "tensor", "data=2,tensor=2", false, true, "on rank 3 differs from rank 2"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    shoal_model_t *model = make_model(cases[i].in);
    job_t job = {.model = model,
                 .options = {.strategy = cases[i].strategy,
                             .mesh = cases[i].mesh,
                             .opaque = cases[i].opaque},
                 .in = cases[i].in,
                 .odd = cases[i].odd,
                 .parts = cases[i].parts,
                 .says = cases[i].says};
    run_threads(&soon, cases[i].n, batches, &job);
    shoal_model_free(model);
  }
}

// Two pairs of ranks hold the same rows each; one of each feeds the other's, so that both pairs
// differ by the same.
static void test_crossed_parts(void **state) {
  (void)state;
  shoal_model_t *model = make_model(5);
  job_t job = {.model = model,
               .options = {.strategy = "tensor", .mesh = "data=2,tensor=2"},
               .in = 5,
               .odd = -1,
               .parts = true,
               .crossed = true,
               .says = "on rank 1 differs from rank 0"};
  run_threads(&soon, 4, batches, &job);
  shoal_model_free(model);
}

// ---- steady runs ----------------------------------------------------------------------

enum { STEADY = 80, WRONG = 41 };

// Runs on and on until something is wrong; then every call says so, in the same words.
static shoal_status_t until_wrong(const job_t *job, shoal_session_t *session, int64_t *out_step) {
  const int32_t rank = shoal_world_rank(shoal_session_world(session));
  const bool odd = rank == job->odd;
  double loss;
  shoal_status_t status = NULL;
  for (int64_t step = 1; step <= STEADY && !status; ++step) {
    rows_t rows = {.shares = 1, .wrong = odd && !job->crossed && step == WRONG ? 0.25 : 0};
    // Crossed: the odd rank has two batches in the wrong order.
    const bool crossed = odd && job->crossed && (step == WRONG || step == WRONG + 1);
    const int64_t batch = crossed ? 2 * WRONG + 1 - step : step;
    *out_step = step;
    SHOAL_RETURN_IF_ERROR(feed(job, session, batch, rows));
    status = shoal_run(session, "train");
  }
  CHECK(status, "nobody noticed");
  shoal_status_t after[] = {shoal_run(session, "train"), shoal_session_wait(session),
                            shoal_fetch(session, "loss", &loss, sizeof loss)};
  bool sticks = true;
  for (size_t i = 0; i < sizeof after / sizeof after[0]; ++i) {
    sticks &= shoal_status_code(after[i]) == SHOAL_MISMATCH;
    sticks &= strcmp(shoal_status_message(after[i]), shoal_status_message(status)) == 0;
    shoal_status_free(after[i]);
  }
  const char *runs = strstr(shoal_status_message(status), "runs ");
  int first = 0, last = 0;
  const bool named = runs && sscanf(runs, "runs %d to %d", &first, &last) == 2 && first <= WRONG &&
                     last >= WRONG && last - first < 16;
  SHOAL_RETURN_IF_ERROR(expect_mismatch(status, job->says));
  CHECK(sticks, "the error does not stick");
  CHECK(named, "run %d is not one of runs %d to %d", WRONG, first, last);
  return NULL;
}

static int64_t steps_until_wrong[MAX_RANKS];

static shoal_status_t steady(shoal_world_t *world, void *self) {
  const job_t *job = self;
  shoal_session_t *session = NULL;
  SHOAL_RETURN_IF_ERROR(begin(job, world, &session));
  shoal_status_t status = until_wrong(job, session, &steps_until_wrong[shoal_world_rank(world)]);
  shoal_session_free(session);
  return status;
}

// A difference in one of many runs that wait for nobody: all ranks end after the same run.
static void test_steady(void **state) {
  (void)state;
  shoal_model_t *model = make_model(5);
  for (int i = 0; i < 4; ++i) {
    job_t job = {.model = model,
                 .options = {.strategy = i < 2 ? "data" : "tensor", .opaque = i & 1},
                 .in = 5,
                 .odd = i % 3,
                 .crossed = i & 1,
                 .says = "the ranks were fed different batches: input 'x' of graph 'train' on"};
    run_threads(&soon, 3, steady, &job);
    assert_int_equal(steps_until_wrong[0], steps_until_wrong[1]);
    assert_int_equal(steps_until_wrong[0], steps_until_wrong[2]);
    assert_in_range(steps_until_wrong[0], WRONG + 1, WRONG + 32);
  }
  shoal_model_free(model);
}

// Rank 1 saves while the others run on: at first, and when runs wait for nobody.
static shoal_status_t other_call(shoal_world_t *world, void *self) {
  const job_t *job = self;
  const int32_t rank = shoal_world_rank(world);
  shoal_session_t *session = NULL;
  SHOAL_RETURN_IF_ERROR(begin(job, world, &session));
  shoal_status_t status = feed(job, session, 0, (rows_t){.shares = 1});
  for (int64_t step = 1; step <= STEADY && !status; ++step) {
    status = rank == 1 && step == job->odd ? shoal_save(session, "/there/is/a")
                                           : shoal_run(session, "train");
  }
  shoal_status_t again = shoal_session_wait(session);
  const bool sticks = shoal_status_code(again) == shoal_status_code(status);
  shoal_status_free(again);
  shoal_session_free(session);
  const bool named = shoal_status_code(status) == SHOAL_MISMATCH &&
                     strstr(shoal_status_message(status), "rank 1 calls shoal_save(") != NULL;
  if (!named || !sticks) return shoal_status_annotate(status, "not the expected error");
  shoal_status_free(status);
  return NULL;
}

static void test_other_calls(void **state) {
  (void)state;
  shoal_model_t *model = make_model(5);
  for (int32_t at = 2; at < STEADY; at += 13) {
    job_t job = {.model = model, .options = {.strategy = "data"}, .in = 5, .odd = at};
    run_threads(&soon, 2 + at % 2, other_call, &job);
  }
  shoal_model_free(model);
}

// Rank 1 fails as it begins a call, while the others run on: they hear of it soon.
static shoal_status_t other_graph(shoal_world_t *world, void *self) {
  const job_t *job = self;
  shoal_session_t *session = NULL;
  SHOAL_RETURN_IF_ERROR(begin(job, world, &session));
  shoal_status_t status = feed(job, session, 0, (rows_t){.shares = 1});
  for (int64_t step = 1; step <= 4 && !status; ++step) {
    const bool odd = shoal_world_rank(world) == 1 && step == 2;
    status = shoal_run(session, odd ? "trial" : "train");
  }
  shoal_session_free(session);
  // It has no such graph, or calls something else: both are true.
  if (!strstr(shoal_status_message(status), "trial")) {
    return shoal_status_annotate(status ? status : SHOAL_ERROR(INTERNAL, "succeeded"),
                                 "not the expected error");
  }
  shoal_status_free(status);
  return NULL;
}

static void test_other_graphs(void **state) {
  (void)state;
  shoal_model_t *model = make_model(5);
  job_t job = {.model = model, .options = {.strategy = "data"}, .in = 5};
  run_threads(&soon, 3, other_graph, &job);
  shoal_model_free(model);
}

// ---- states and calls -----------------------------------------------------------------

static shoal_status_t set_of(shoal_session_t *session, int32_t rank) {
  const char *name = "fc2/bias";
  double value[3] = {1, 2, 3}, now[3] = {0};
  SHOAL_RETURN_IF_ERROR(shoal_session_set(session, name, value, sizeof value));
  value[1] = 4 + rank;
  SHOAL_RETURN_IF_ERROR(expect_mismatch(shoal_session_set(session, name, value, sizeof value),
                                        "state 'fc2/bias' on rank 1 differs from rank 0"));
  SHOAL_RETURN_IF_ERROR(shoal_session_get(session, name, now, sizeof now));
  CHECK(now[1] == 2, "the state is %g", now[1]);
  value[1] = 7;
  SHOAL_RETURN_IF_ERROR(shoal_session_set(session, name, value, sizeof value));
  return NULL;
}

static shoal_status_t calls_of(const job_t *job, shoal_session_t *session, int32_t rank) {
  double bias[6] = {0};
  SHOAL_RETURN_IF_ERROR(feed(job, session, 0, (rows_t){.shares = 1}));
  SHOAL_RETURN_IF_ERROR(run(session));
  SHOAL_RETURN_IF_ERROR(shoal_session_wait(session));
  SHOAL_RETURN_IF_ERROR(expect_mismatch(shoal_run(session, rank == 1 ? "eval" : "train"),
                                        "rank 1 calls shoal_run(\"eval\"), rank 0 "
                                        "shoal_run(\"train\")"));
  SHOAL_RETURN_IF_ERROR(
      expect_mismatch(rank == 1 ? shoal_session_get(session, "fc1/bias", bias, sizeof bias)
                                : shoal_run(session, "train"),
                      "rank 1 calls shoal_session_get(\"fc1/bias\"), rank 0 shoal_run(\"train\")"));
  SHOAL_RETURN_IF_ERROR(
      expect_mismatch(shoal_save(session, rank == 1 ? "/there/is/b" : "/there/is/a"),
                      "rank 1 calls shoal_save(\"/there/is/b\")"));
  SHOAL_RETURN_IF_ERROR(expect_mismatch(
      rank == 1 ? shoal_load(session, "/there/is/a") : shoal_session_catch_signals(session),
      "rank 1 calls shoal_load(\"/there/is/a\"), rank 0 shoal_session_catch_signals()"));
  return run(session);
}

static shoal_status_t states_and_calls(shoal_world_t *world, void *self) {
  const job_t *job = self;
  shoal_session_t *session = NULL;
  SHOAL_RETURN_IF_ERROR(begin(job, world, &session));
  shoal_status_t status = set_of(session, shoal_world_rank(world));
  if (!status) status = calls_of(job, session, shoal_world_rank(world));
  shoal_session_free(session);
  return status;
}

static void test_states_and_calls(void **state) {
  (void)state;
  shoal_model_t *model = make_model(5);
  job_t job = {.model = model, .options = {.strategy = "data"}, .in = 5};
  run_threads(&soon, 2, states_and_calls, &job);
  job.options.opaque = true;
  run_threads(&soon, 2, states_and_calls, &job);
  job.options.opaque = false;
  assert_ok(run_processes(&soon, 2, states_and_calls, &job));
  shoal_model_free(model);
}

// ---- what is allowed ------------------------------------------------------------------

// Some ranks feed the whole, others their rows: what cannot be compared is no difference. And a
// rank may change its mind.
static shoal_status_t mixed(shoal_world_t *world, void *self) {
  job_t job = *(job_t *)self;
  const int32_t rank = shoal_world_rank(world);
  shoal_session_t *session = NULL;
  SHOAL_RETURN_IF_ERROR(begin(&job, world, &session));
  shoal_status_t status = NULL;
  for (int64_t step = 0; step < 4 && !status; ++step) {
    job.parts = (rank + step / 2) % 2 == 0;
    status = feed(&job, session, step,
                  job.parts ? (rows_t){.share = rank, .shares = 2} : (rows_t){.shares = 1});
    if (!status) status = run(session);
  }
  shoal_session_free(session);
  return status;
}

// Told not to, nobody looks; and what looking costs is no operation and no allocation.
static shoal_status_t unlike(shoal_world_t *world, void *self) {
  const job_t *job = self;
  const int32_t rank = shoal_world_rank(world);
  shoal_session_t *session = NULL;
  SHOAL_RETURN_IF_ERROR(begin(job, world, &session));
  double value[3] = {rank, 2, 3};
  shoal_status_t status = shoal_session_set(session, "fc2/bias", value, sizeof value);
  if (!status) status = feed(job, session, 0, (rows_t){.shares = 1, .wrong = rank});
  if (!status) status = run(session);
  shoal_session_free(session);
  return status;
}

static shoal_status_t operations(const job_t *job, shoal_world_t *world, uint64_t *out_count) {
  shoal_session_t *session = NULL;
  SHOAL_RETURN_IF_ERROR(begin(job, world, &session));
  shoal_status_t status = NULL;
  uint64_t before = 0;
  int64_t allocations = 0;
  for (int64_t step = 0; step < 6 && !status; ++step) {
    if (step == 2) {
      status = shoal_session_wait(session);
      before = atomic_load(&world->recorder->begun);
      allocations = shoal_session_memory(session).allocations;
    }
    if (!status) status = feed(job, session, step, (rows_t){.shares = 1});
    if (!status) status = run(session);
  }
  if (!status) status = shoal_session_wait(session);
  *out_count = atomic_load(&world->recorder->begun) - before;
  allocations = shoal_session_memory(session).allocations - allocations;
  shoal_session_free(session);
  SHOAL_RETURN_IF_ERROR(status);
  CHECK(allocations == 0, "%lld allocations", (long long)allocations);
  return NULL;
}

static shoal_status_t costs(shoal_world_t *world, void *self) {
  job_t job = *(job_t *)self;
  uint64_t with, without;
  SHOAL_RETURN_IF_ERROR(operations(&job, world, &with));
  job.options.no_compare = true;
  SHOAL_RETURN_IF_ERROR(operations(&job, world, &without));
  CHECK(with == without, "%d operations, %d without comparing", (int)with, (int)without);
  return NULL;
}

static void test_allowed(void **state) {
  (void)state;
  shoal_model_t *model = make_model(5);
  job_t job = {.model = model, .options = {.strategy = "data"}, .in = 5};
  run_threads(&soon, 2, mixed, &job);
  run_threads(&soon, 2, costs, &job);
  job.options.no_compare = true;
  run_threads(&soon, 2, unlike, &job);
  shoal_model_free(model);
}

// ---- over whatever started this -------------------------------------------------------

static int join(const char *name) {
  shoal_model_t *model = make_model(5);
  job_t job = {.model = model,
               .options = {.strategy = "data"},
               .in = 5,
               .odd = 1,
               .says = "on rank 1 differs from rank 0"};
  const joined_case_t cases[] = {{"batches", &soon, batches, &job},
                                 {"calls", &soon, states_and_calls, &job}};
  const int code = run_joined_case(name, sizeof cases / sizeof *cases, cases);
  shoal_model_free(model);
  return code;
}

int main(int argc, char **argv) {
  if (argc > 2 && strcmp(argv[1], "join") == 0) return join(argv[2]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_batches),      cmocka_unit_test(test_crossed_parts),
      cmocka_unit_test(test_steady),       cmocka_unit_test(test_other_calls),
      cmocka_unit_test(test_other_graphs), cmocka_unit_test(test_states_and_calls),
      cmocka_unit_test(test_allowed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
