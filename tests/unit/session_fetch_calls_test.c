// Calls about outputs that are gathered on request: fetches before the first run, twice, behind a
// further run, while it is held up, with a wrong size, by some ranks only, behind a stop; ranks
// that are fed their own rows, uneven ones; values asked for by name beside them.
// links: all
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "device_gate.h"
#include "fetch_support.h"

// What one rank does with its session.
typedef struct play play_t;
typedef shoal_status_t (*scene_fn_t)(play_t *play, shoal_session_t *session, int32_t rank);

struct play {
  const shoal_program_t *program;
  scene_fn_t scene;
  gate_t gate;
  shoal_tap_fn_t tap;
  atomic_int taps;
  int stopped_at[MOST_RANKS];
  values_t values[MOST_RANKS];
};

static shoal_status_t play_rank(void *self, shoal_world_t *world) {
  play_t *play = self;
  shoal_session_t *session = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_session_create(
      play->program,
      &(shoal_parallelize_options_t){.world = world, .tap = play->tap, .tap_self = play},
      &session));
  shoal_status_t status = play->scene(play, session, shoal_world_rank(world));
  shoal_session_free(session);
  return status;
}

static play_t *new_play(const shoal_program_t *program, scene_fn_t scene) {
  play_t *play = calloc(1, sizeof *play);
  assert_non_null(play);
  play->program = program;
  play->scene = scene;
  play->gate = (gate_t)GATE_CLOSED;
  return play;
}

static const plan_case_t two = {2, {"data=2"}, "data:0", NULL, false, NULL};

// Plays a scene on the ranks of a plan whose outputs are all on request; every rank succeeds.
static void expect_played(const plan_case_t *c, scene_fn_t scene, int64_t timeout_ms) {
  shoal_model_t *model = make_model(BATCH, CLASSES);
  shoal_program_t *program = lower_as(model, c, "request");
  play_t *play = new_play(program, scene);
  shoal_status_t statuses[MOST_RANKS];
  run_ranks_within(timeout_ms, c->world, play_rank, play, statuses);
  for (int32_t r = 0; r < c->world; ++r) assert_ok(statuses[r]);
  free(play);
  shoal_program_free(program);
  shoal_model_free(model);
}

// Takes an error that has this code and says this.
static shoal_status_t expect_error(shoal_status_t status, shoal_code_t code, const char *says) {
  const bool good = shoal_status_code(status) == code && strstr(shoal_status_message(status), says);
  if (!good)
    return shoal_status_annotatef(status ? status : SHOAL_ERROR(INTERNAL, "succeeded"),
                                  "expected '%s'", says);
  shoal_status_free(status);
  return NULL;
}

// ---- one after the other ----------------------------------------------------------------

static shoal_status_t calls(play_t *play, shoal_session_t *session, int32_t rank) {
  (void)play;
  values_t first, second;
  memset(&first, 0, sizeof first);
  memset(&second, 0, sizeof second);
  const size_t bytes = sizeof first.logits;
  SHOAL_RETURN_IF_ERROR(
      expect_error(fetch_logits(session, &first), SHOAL_INVALID_ARGUMENT, "has no value yet"));
  SHOAL_RETURN_IF_ERROR(feed_and_run(session, "train", 0));
  // One rank gives a wrong size: all hear of it, and can go on.
  SHOAL_RETURN_IF_ERROR(
      expect_error(shoal_fetch(session, "logits", first.logits, rank == 1 ? bytes - 4 : bytes),
                   SHOAL_INVALID_ARGUMENT, "bytes were given"));
  SHOAL_RETURN_IF_ERROR(fetch_logits(session, &first));
  SHOAL_RETURN_IF_ERROR(fetch_logits(session, &second));
  EXPECT(memcmp(first.logits, second.logits, bytes) == 0, "the second fetch differs");
  SHOAL_RETURN_IF_ERROR(feed_and_run(session, "train", 1));
  const int64_t before = shoal_session_counters(session).meetings;
  SHOAL_RETURN_IF_ERROR(fetch_logits(session, &second));
  EXPECT(memcmp(first.logits, second.logits, bytes) != 0, "a further run changes nothing");
  EXPECT(shoal_session_counters(session).meetings == before + 1, "a further run: no gather");
  // It is no state of the model.
  SHOAL_RETURN_IF_ERROR(expect_error(shoal_session_get(session, "train:logits", &first, bytes),
                                     SHOAL_NOT_FOUND, "there is no state 'train:logits'"));
  return expect_error(shoal_session_set(session, "train:logits", &first, bytes), SHOAL_NOT_FOUND,
                      "there is no state 'train:logits'");
}

static void test_calls(void **state) {
  (void)state;
  expect_played(&two, calls, 15000);
}

// A fetch leaves nothing behind in the session, however often it is made.
static shoal_status_t leaves_nothing(play_t *play, shoal_session_t *session, int32_t rank) {
  (void)rank;
  (void)play;
  values_t values;
  int64_t fixed = 0;
  for (int step = 0; step < 4; ++step) {
    SHOAL_RETURN_IF_ERROR(feed_and_run(session, "train", step));
    SHOAL_RETURN_IF_ERROR(fetch_logits(session, &values));
    const int64_t now = shoal_session_memory(session).fixed;
    EXPECT(step == 0 || now == fixed, "%lld bytes, then %lld", (long long)fixed, (long long)now);
    fixed = now;
  }
  return NULL;
}

static void test_leaves_nothing(void **state) {
  (void)state;
  expect_played(&two, leaves_nothing, 60000);
}

// ---- not all ranks ----------------------------------------------------------------------

static shoal_status_t one_runs_on(play_t *play, shoal_session_t *session, int32_t rank) {
  (void)play;
  values_t values;
  SHOAL_RETURN_IF_ERROR(feed_and_run(session, "train", 0));
  shoal_status_t status = rank == 0 ? fetch_logits(session, &values) : NULL;
  for (int step = 1; step < 200 && rank == 1 && !status; ++step)
    status = feed_and_run(session, "train", step);
  return expect_error(status, SHOAL_MISMATCH, "shoal_fetch(\"logits\")");
}

static shoal_status_t one_is_gone(play_t *play, shoal_session_t *session, int32_t rank) {
  (void)play;
  values_t values;
  SHOAL_RETURN_IF_ERROR(feed_and_run(session, "train", 0));
  if (rank == 1) return NULL;
  shoal_status_t status = fetch_logits(session, &values);
  return expect_error(status, status ? shoal_status_code(status) : SHOAL_UNAVAILABLE, "rank 1");
}

// Rank 1 is there and says nothing, until rank 0 has heard that it is the one.
static shoal_status_t one_is_silent(play_t *play, shoal_session_t *session, int32_t rank) {
  values_t values;
  SHOAL_RETURN_IF_ERROR(feed_and_run(session, "train", 0));
  if (rank == 1) SHOAL_RETURN_IF_ERROR(pass_gate(&play->gate));
  shoal_status_t status = fetch_logits(session, &values);
  if (rank == 0) shoal_status_free(open_gate(&play->gate));
  SHOAL_RETURN_IF_ERROR(expect_error(status, SHOAL_DEADLINE, "rank 1"));
  // It sticks, and nobody waits again.
  return expect_error(fetch_logits(session, &values), SHOAL_DEADLINE, "rank 1");
}

static void test_some_ranks(void **state) {
  (void)state;
  expect_played(&two, one_runs_on, 15000);
  expect_played(&two, one_is_gone, 60000);
  expect_played(&two, one_is_silent, 3000);
}

// ---- runs under way ---------------------------------------------------------------------

// Holds rank 1 up in its second run.
static void hold_up(void *self, int32_t rank, const char *graph, const char *value,
                    const shoal_layout_t *layout, const shoal_type_t *whole, int64_t micro,
                    const void *data, int64_t bytes) {
  (void)layout, (void)whole, (void)micro, (void)data, (void)bytes;
  play_t *play = self;
  if (rank != 1 || strcmp(graph, "train") != 0 || strcmp(value, "fc1/add") != 0) return;
  if (atomic_fetch_add(&play->taps, 1) == 1) shoal_status_free(pass_gate(&play->gate));
}

// What is fetched is of the run that was enqueued last, though one rank has hardly begun with it.
static shoal_status_t fetch_ahead(play_t *play, shoal_session_t *session, int32_t rank) {
  SHOAL_RETURN_IF_ERROR(feed_and_run(session, "train", 0));
  SHOAL_RETURN_IF_ERROR(feed_and_run(session, "train", 1));
  if (rank == 0) shoal_status_free(open_gate(&play->gate));
  return fetch_logits(session, &play->values[rank]);
}

static void test_held_up(void **state) {
  (void)state;
  shoal_model_t *model = make_model(BATCH, CLASSES);
  shoal_program_t *always = lower_as(model, &two, "always");
  shoal_program_t *request = lower_as(model, &two, "request");
  play_t *expected = new_play(always, fetch_ahead), *play = new_play(request, fetch_ahead);
  play->tap = hold_up;
  run_ranks_ok(2, play_rank, expected);
  run_ranks_ok(2, play_rank, play);
  assert_int_equal(play->taps, 2);
  for (int32_t r = 0; r < 2; ++r)
    assert_memory_equal(play->values[r].logits, expected->values[0].logits,
                        sizeof expected->values[0].logits);
  free(expected);
  free(play);
  shoal_program_free(always);
  shoal_program_free(request);
  shoal_model_free(model);
}

// ---- behind a stop ----------------------------------------------------------------------

// All ranks see a stop after the same call, though each run is followed by a fetch, and what the
// last run has kept can be fetched then.
static shoal_status_t stop(play_t *play, shoal_session_t *session, int32_t rank) {
  const bool often = play->stopped_at[rank] < 0;  // fetch behind every run, or only at the end
  SHOAL_RETURN_IF_ERROR(shoal_session_catch_signals(session));
  for (int step = 0; step < 100; ++step) {
    play->stopped_at[rank] = step;
    if (rank == 0 && step == 5) raise(SIGTERM);
    SHOAL_RETURN_IF_ERROR(feed_and_run(session, "train", step));
    if (often) SHOAL_RETURN_IF_ERROR(fetch_logits(session, &play->values[rank]));
    if (shoal_session_should_stop(session)) return fetch_logits(session, &play->values[rank]);
  }
  return SHOAL_ERROR(MISMATCH, "the ranks go on");
}

static void ignore(int number) {
  (void)number;
}

static void test_stop(void **state) {
  (void)state;
  shoal_model_t *model = make_model(BATCH, CLASSES);
  shoal_program_t *program = lower_as(model, &two, "request");
  signal(SIGTERM, ignore);
  for (int often = 0; often < 2; ++often) {
    play_t *play = new_play(program, stop);
    for (int32_t r = 0; r < 2; ++r) play->stopped_at[r] = often ? -1 : 0;
    run_ranks_ok(2, play_rank, play);
    assert_in_range(play->stopped_at[0], 5, 5 + 2 * 16);
    assert_int_equal(play->stopped_at[0], play->stopped_at[1]);
    assert_memory_equal(play->values[0].logits, play->values[1].logits,
                        sizeof play->values[0].logits);
    free(play);
  }
  signal(SIGTERM, SIG_DFL);
  shoal_program_free(program);
  shoal_model_free(model);
}

// ---- parts ------------------------------------------------------------------------------

// Each rank is fed its own rows: 12, 6 and 6.
static shoal_status_t feed_own(play_t *play, shoal_session_t *session, int32_t rank) {
  for (int step = 0; step < 2; ++step) {
    SHOAL_RETURN_IF_ERROR(feed_rows(session, step, rank == 0 ? 0 : 6 + 6 * rank, rank ? 6 : 12));
    SHOAL_RETURN_IF_ERROR(shoal_run(session, "train"));
  }
  return fetch_logits(session, &play->values[rank]);
}

static shoal_status_t feed_whole(play_t *play, shoal_session_t *session, int32_t rank) {
  for (int step = 0; step < 2; ++step) SHOAL_RETURN_IF_ERROR(feed_and_run(session, "train", step));
  return fetch_logits(session, &play->values[rank]);
}

static void test_parts(void **state) {
  (void)state;
  const plan_case_t c = {3, {"data=3"}, "data:0(2,1,1)", NULL, false, NULL};
  shoal_model_t *model = make_model(BATCH, CLASSES);
  shoal_program_t *always = lower_as(model, &c, "always");
  shoal_program_t *request = lower_as(model, &c, "request");
  play_t *expected = new_play(always, feed_whole), *play = new_play(request, feed_own);
  run_ranks_ok(3, play_rank, expected);
  run_ranks_ok(3, play_rank, play);
  for (int32_t r = 0; r < 3; ++r)
    assert_memory_equal(play->values[r].logits, expected->values[0].logits,
                        sizeof expected->values[0].logits);
  free(expected);
  free(play);
  shoal_program_free(always);
  shoal_program_free(request);
  shoal_model_free(model);
}

// ---- by name ----------------------------------------------------------------------------

// The value of an output on request, asked for by its own name, is in every run beside it.
static shoal_status_t by_name(void *self, shoal_world_t *world) {
  static const char *const names[] = {"fc2/add", NULL};
  const shoal_intent_decision_t decision = {
      .kind = "fetch", .pattern = "*", .choice = "request", .by = "user", .reason = ""};
  shoal_session_t *session = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_parallelize(self,
                                          &(shoal_parallelize_options_t){.world = world,
                                                                         .strategy = "data",
                                                                         .fetches = names,
                                                                         .decision_count = 1,
                                                                         .decisions = &decision},
                                          &session));
  values_t values, named;
  shoal_status_t status = feed_and_run(session, "train", 3);
  if (!status) status = fetch_logits(session, &values);
  // This one is no business of the others.
  if (!status && shoal_world_rank(world) == 1)
    status = shoal_fetch(session, "fc2/add", named.logits, sizeof named.logits);
  if (!status && shoal_world_rank(world) == 1 &&
      memcmp(values.logits, named.logits, sizeof named.logits) != 0)
    status = SHOAL_ERROR(MISMATCH, "the two differ");
  shoal_session_free(session);
  return status;
}

static void test_by_name(void **state) {
  (void)state;
  shoal_model_t *model = make_model(BATCH, CLASSES);
  run_ranks_ok(2, by_name, model);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_calls),      cmocka_unit_test(test_leaves_nothing),
      cmocka_unit_test(test_some_ranks), cmocka_unit_test(test_held_up),
      cmocka_unit_test(test_stop),       cmocka_unit_test(test_parts),
      cmocka_unit_test(test_by_name),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
