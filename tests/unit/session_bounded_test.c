// Bounded values in graphs: rows sorted by expert go to the ranks of the experts and back, and only
// the rows that are used move, whatever the counts of a step are; a count beyond the capacity is
// one error on all ranks; also with uneven groups, more ranks than groups and micro-batches.
// links: all
#include <string.h>

#include "plan_support.h"
#include "run_support.h"
#include "shoal/ops.h"
#include "shoal/session.h"

// Sources, experts, rows of a group, width.
enum { S = 5, E = 4, C = 3, W = 2, ROWS = S * E * C * W, STEPS = 6 };

// Expert e doubles what it gets and adds e + 1, also to the rows that are not used.
static shoal_model_t *make_model(void) {
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "run");
  const shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(S, E, C, W));
  const shoal_value_t n = shoal_input(g, "n", SHOAL_I32, SHOAL_SHAPE(S, E));
  const shoal_value_t bias = shoal_input(g, "bias", SHOAL_F32, SHOAL_SHAPE(E, 1, 1));
  shoal_scope_push(g, "dispatch");
  const shoal_value_t sent = shoal_bound(g, x, n);
  shoal_scope_pop(g);
  shoal_scope_push(g, "expert");
  const shoal_value_t y = shoal_add(g, shoal_affine(g, sent, 2, 0), bias);
  const shoal_value_t used = shoal_bound(g, y, n);
  shoal_scope_pop(g);
  shoal_scope_push(g, "combine");
  shoal_output(g, "y", shoal_neg(g, used));
  shoal_scope_pop(g);
  assert_ok(shoal_model_status(model));
  return model;
}

typedef struct bounded_case {
  int32_t world;
  const char *mesh, *rows;   // rows: the layout of x
  int32_t sources, experts;  // dims that r cuts where rows come from, and where experts get them
  bool opaque;
  int64_t moved;  // rows that all ranks send in a step in which every row is used; -1: not asked
} bounded_case_t;

static const bounded_case_t CASES[] = {
    {1, "r=1", "r:0", 0, 1, false, 0},
    {2, "r=2", "r:0", 0, 1, false, 2 * (3 * 2 + 2 * 2) * C},
    {3, "r=3", "r:0", 0, 1, true, -1},   // 2, 2, 1 sources; 2, 1, 1 experts
    {6, "r=6", "r:0", 0, 1, false, -1},  // some ranks have nothing
    {4, "d=2,r=2", "r:0", 0, 1, true, 2 * 2 * (3 * 2 + 2 * 2) * C},  // copies along d
    {4, "d=2,r=2", "d:0,r:0", 0, 1, false, -1},                      // experts stay within d
    {2, "r=2", "r:2", 2, 1, false, -1},                              // rows are cut
    {2, "r=2", "r:3", 3, 0, false, -1},                              // what a row has is cut
    {2, "r=2,micro=5", "micro:0,r:1", 1, 0, false, -1},
    {2, "r=2,micro=4", "micro:1,r:0", 0, 3, false, -1},
    {3, "r=3,micro=2", "micro:0,r:0", 0, 1, true, -1},  // micro-batches differ
    // Parts of chunks go with all their rows; back they go as ever.
    {2, "r=2", "r:0*(2,3)", 0, 1, false, (3 * 2 + 2 * 2) * C},
};

// "r={x:1, counts:1 -> out:1}": `names` are the inputs that have the dim.
static const char *way(char text[64], const char *first, const char *second, int32_t second_dim,
                       int32_t dim) {
  char more[32] = "";
  if (second) snprintf(more, sizeof more, ", %s:%d", second, second_dim);
  snprintf(text, 64, "r={%s:%d%s -> out:%d}", first, dim, more, dim);
  return text;
}

static float element(int64_t step, int64_t index) {
  return (float)(1 + index % 97 + 100 * step);
}

// Another number for each group and step: nothing, everything, and all between.
static int32_t count_of(int64_t step, int64_t group) {
  return step == 0 ? 0 : step == 1 ? C : (int32_t)((group * 7 + step * 5) % (C + 1));
}

typedef struct job {
  const shoal_model_t *model;
  const bounded_case_t *c;
  int64_t bad_group;  // has `bad_count` rows in the second step; -1: none
  int32_t bad_count;
  int64_t sent[MOST_RANKS][STEPS];
} job_t;

static shoal_status_t step(const job_t *job, shoal_session_t *session, int64_t step) {
  float x[ROWS], y[ROWS], bias[E];
  int32_t n[S * E];
  for (int64_t i = 0; i < ROWS; ++i) x[i] = element(step, i);
  for (int64_t i = 0; i < S * E; ++i) n[i] = count_of(step, i);
  for (int64_t e = 0; e < E; ++e) bias[e] = (float)(e + 1);
  if (step == 1 && job->bad_group >= 0) n[job->bad_group] = job->bad_count;
  SHOAL_RETURN_IF_ERROR(shoal_feed(session, "x", x, sizeof x));
  SHOAL_RETURN_IF_ERROR(shoal_feed(session, "n", n, sizeof n));
  SHOAL_RETURN_IF_ERROR(shoal_feed(session, "bias", bias, sizeof bias));
  SHOAL_RETURN_IF_ERROR(shoal_run(session, "run"));
  SHOAL_RETURN_IF_ERROR(shoal_fetch(session, "y", y, sizeof y));
  for (int64_t i = 0; i < ROWS; ++i) {
    const int64_t group = i / (C * W);
    const bool used = i / W % C < n[group];
    const float should = used ? -(2 * x[i] + bias[group % E]) : 0;
    EXPECT(y[i] == should, "step %lld: element %lld is %g, not %g", (long long)step, (long long)i,
           y[i], should);
  }
  return NULL;
}

static shoal_status_t rank_body(void *self, shoal_world_t *world) {
  job_t *job = self;
  const bounded_case_t *c = job->c;
  const char *counts = c->sources < 2 ? c->rows : "";
  const shoal_intent_entry_t layouts[] = {{"x", c->rows}, {"n", counts}};
  char texts[5][64];
  const char *const dispatch =
      way(texts[0], "x", c->sources < 2 ? "counts" : NULL, c->sources, c->sources);
  const char *const expert =
      way(texts[1], "x", c->experts < 2 ? "counts" : NULL, c->experts, c->experts);
  const shoal_intent_decision_t decisions[] = {
      {.kind = "way", .pattern = "dispatch/bound", .choice = dispatch},
      {.kind = "way",
       .pattern = "expert/affine",
       .choice = way(texts[2], "x", NULL, 0, c->experts)},
      {.kind = "way",
       .pattern = "expert/add",
       .choice = way(texts[3], "a", c->experts == 1 ? "b" : NULL, 0, c->experts)},
      {.kind = "way", .pattern = "expert/bound", .choice = expert},
      {.kind = "way", .pattern = "combine/neg", .choice = way(texts[4], "x", NULL, 0, c->sources)}};
  shoal_session_t *session = NULL;
  shoal_status_t status =
      shoal_parallelize(job->model,
                        &(shoal_parallelize_options_t){.world = world,
                                                       .strategy = "explicit",
                                                       .mesh = c->mesh,
                                                       .layout_count = 2,
                                                       .layouts = layouts,
                                                       .decision_count = c->world > 1 ? 5 : 0,
                                                       .decisions = decisions,
                                                       .opaque = c->opaque,
                                                       .cache = ""},
                        &session);
  int64_t before = 0;
  for (int64_t s = 0; s < STEPS && !status; ++s) {
    status = step(job, session, s);
    if (!status) status = shoal_session_wait(session);
    const int64_t sent = status ? before : shoal_session_counters(session).exchanged;
    job->sent[shoal_world_rank(world)][s] = sent - before;
    before = sent;
  }
  shoal_session_free(session);
  return status;
}

static int64_t sent_in(const job_t *job, int64_t step) {
  int64_t bytes = 0;
  for (int32_t r = 0; r < job->c->world; ++r) bytes += job->sent[r][step];
  return bytes;
}

static void experts(void **state) {
  (void)state;
  shoal_model_t *model = make_model();
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; ++i) {
    job_t job = {.model = model, .c = &CASES[i], .bad_group = -1};
    run_ranks_ok(CASES[i].world, rank_body, &job);
    // Nothing moves where nothing is used, and else as much as is used.
    assert_int_equal(sent_in(&job, 0), 0);
    const int64_t full = sent_in(&job, 1);
    if (CASES[i].moved >= 0) {
      assert_int_equal(full, CASES[i].moved * W * (int64_t)sizeof(float));
      assert_true(full == 0 || (sent_in(&job, 2) > 0 && sent_in(&job, 2) < full));
    }
  }
  shoal_model_free(model);
}

// What one rank sends is what its groups use that lie elsewhere afterwards, in both exchanges.
static void real_size(void **state) {
  (void)state;
  shoal_model_t *model = make_model();
  job_t job = {.model = model, .c = &CASES[1], .bad_group = -1};
  run_ranks_ok(2, rank_body, &job);
  for (int64_t s = 0; s < STEPS; ++s) {
    for (int64_t r = 0; r < 2; ++r) {
      int64_t rows = 0;
      for (int64_t group = 0; group < S * E; ++group) {
        const bool source = (group / E >= 3) == r, expert = (group % E >= 2) == r;
        if (source != expert) rows += count_of(s, group);
      }
      assert_int_equal(job.sent[r][s], rows * W * (int64_t)sizeof(float));
    }
  }
  shoal_model_free(model);
}

// Every rank returns the same error, which names the node and the group.
static void expect_bad_count(int32_t count, const char *said) {
  shoal_model_t *model = make_model();
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; ++i) {
    shoal_status_t statuses[MOST_RANKS];
    job_t job = {.model = model, .c = &CASES[i], .bad_group = 18, .bad_count = count};
    run_ranks(CASES[i].world, rank_body, &job, statuses);
    for (int32_t r = 0; r < CASES[i].world; ++r) {
      const char *message = shoal_status_message(statuses[r]);
      if (!statuses[r] || !strstr(message, "'dispatch/bound'") || !strstr(message, said) ||
          strcmp(message, shoal_status_message(statuses[0])) != 0) {
        fail_msg("case %zu, rank %d: %s", i, r, message);
      }
    }
    for (int32_t r = 0; r < CASES[i].world; ++r) shoal_status_free(statuses[r]);
  }
  shoal_model_free(model);
}

static void overflow(void **state) {
  (void)state;
  expect_bad_count(C + 1, "group [4, 2] has 4 rows, and dim 2 has room for 3: raise the cap");
}

static void negative(void **state) {
  (void)state;
  expect_bad_count(-2, "the count of group [4, 2] is -2: a group has from 0 to 3 rows");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(experts),
      cmocka_unit_test(real_size),
      cmocka_unit_test(overflow),
      cmocka_unit_test(negative),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
