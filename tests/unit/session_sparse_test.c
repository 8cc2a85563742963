// Rows of embeddings' gradients between ranks: each sends the different ids of its rows of the
// batch and their sums, and nothing for the room that is left; the new table is that of one rank.
// links: all
#include "plan_support.h"
#include "run_support.h"
#include "shoal/ops.h"
#include "shoal/optimize.h"
#include "shoal/session.h"

enum { B = 5, T = 6, V = 9, C = 2, PADDING = 4, STEPS = 3 };

// The sum of the rows of a table that are named, each by factors that are fed.
static shoal_model_t *make_model(int64_t padding) {
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  const shoal_value_t ids = shoal_input(g, "ids", SHOAL_I32, SHOAL_SHAPE(B, T));
  const shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(B, T, C));
  const shoal_value_t table = shoal_state(g, "table", SHOAL_F64, SHOAL_SHAPE(V, C),
                                          &(shoal_state_options_t){.trainable = true});
  const shoal_value_t rows =
      shoal_embedding_with(g, table, ids, &(shoal_embedding_options_t){.padding = padding});
  const shoal_value_t loss = shoal_reduce_sum(g, shoal_mul(g, rows, x), SHOAL_SHAPE(0, 1, 2));
  shoal_minimize_sgd(g, loss, &(shoal_sgd_t){.lr = 1});
  assert_ok(shoal_model_status(model));
  return model;
}

// In the first step a row names one id only, then more and more.
static int32_t id_of(int64_t step, int64_t index) {
  return (int32_t)((index / T * 5 + index % T * step) % V);
}

static double factor(int64_t step, int64_t index) {
  return (double)(1 + index % 7 + 10 * step);
}

typedef struct job {
  const shoal_model_t *model;
  int32_t world;
  const char *mesh, *words;
  int64_t padding;
  bool opaque;
  int64_t sent[MOST_RANKS][STEPS];
} job_t;

static shoal_status_t step(const job_t *job, shoal_session_t *session, int64_t step,
                           double *table) {
  int32_t ids[B * T];
  double x[B * T * C], now[V * C];
  for (int64_t i = 0; i < B * T; ++i) ids[i] = id_of(step, i);
  for (int64_t i = 0; i < B * T * C; ++i) x[i] = factor(step, i);
  for (int64_t i = 0; i < B * T * C; ++i)
    if (ids[i / C] != job->padding) table[ids[i / C] * C + i % C] -= x[i];
  SHOAL_RETURN_IF_ERROR(shoal_feed(session, "ids", ids, sizeof ids));
  SHOAL_RETURN_IF_ERROR(shoal_feed(session, "x", x, sizeof x));
  SHOAL_RETURN_IF_ERROR(shoal_run(session, "train"));
  SHOAL_RETURN_IF_ERROR(shoal_session_get(session, "table", now, sizeof now));
  for (int64_t i = 0; i < V * C; ++i)
    EXPECT(now[i] == table[i], "step %lld: element %lld is %g, not %g", (long long)step,
           (long long)i, now[i], table[i]);
  return NULL;
}

static shoal_status_t rank_body(void *self, shoal_world_t *world) {
  job_t *job = self;
  const shoal_intent_decision_t sync = {.kind = "sync", .pattern = "table", .choice = job->words};
  double table[V * C] = {0};
  int64_t before = 0;
  shoal_session_t *session = NULL;
  shoal_status_t status = shoal_parallelize(job->model,
                                            &(shoal_parallelize_options_t){.world = world,
                                                                           .strategy = "data",
                                                                           .mesh = job->mesh,
                                                                           .decision_count = 1,
                                                                           .decisions = &sync,
                                                                           .opaque = job->opaque,
                                                                           .cache = ""},
                                            &session);
  for (int64_t s = 0; s < STEPS && !status; ++s) {
    status = step(job, session, s, table);
    const int64_t sent = status ? before : shoal_session_counters(session).exchanged;
    job->sent[shoal_world_rank(world)][s] = sent - before;
    before = sent;
  }
  shoal_session_free(session);
  return status;
}

// The different ids of a row of the batch.
static int64_t different(int64_t step, int64_t row, int64_t padding) {
  bool named[V] = {0};
  int64_t count = 0;
  for (int64_t t = 0; t < T; ++t) {
    const int32_t id = id_of(step, row * T + t);
    count += id != padding && !named[id];
    named[id] = true;
  }
  return count;
}

static void expect_sent(job_t *job, bool rows) {
  run_ranks_ok(job->world, rank_body, job);
  for (int64_t s = 0; s < STEPS; ++s) {
    int64_t row = 0;
    for (int64_t r = 0; r < job->world; ++r) {
      const int64_t end = row + B / job->world + (r < B % job->world);
      int64_t bytes = 0;
      for (; row < end; ++row)
        bytes += different(s, row, job->padding) * (job->world - 1) *
                 (int64_t)(sizeof(int64_t) + C * sizeof(double));
      assert_int_equal(job->sent[r][s], rows ? bytes : 0);
    }
  }
}

static void rows_are_sent(void **state) {
  (void)state;
  for (int with = 0; with < 2; ++with) {
    const int64_t padding = with ? PADDING : -1;
    shoal_model_t *model = make_model(padding);
    for (int32_t world = 1; world <= 6; ++world) {  // of 6 ranks the last has nothing
      job_t job = {.model = model,
                   .world = world,
                   .words = "sparse",
                   .padding = padding,
                   .opaque = world == 3};
      expect_sent(&job, true);
    }
    job_t dense = {.model = model, .world = 2, .words = "dense", .padding = padding};
    expect_sent(&dense, false);
    shoal_model_free(model);
  }
}

// Micro-batches send their own rows, in all as many.
static void in_micro_batches(void **state) {
  (void)state;
  shoal_model_t *model = make_model(-1);
  job_t job = {
      .model = model, .world = 2, .mesh = "data=2,micro=2", .words = "sparse", .padding = -1};
  run_ranks_ok(job.world, rank_body, &job);
  for (int64_t s = 0; s < STEPS; ++s) {
    int64_t bytes = 0;
    for (int64_t row = 0; row < B; ++row)
      bytes += different(s, row, -1) * (int64_t)(sizeof(int64_t) + C * sizeof(double));
    assert_int_equal(job.sent[0][s] + job.sent[1][s], bytes);
  }
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_are_sent),
      cmocka_unit_test(in_micro_batches),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
