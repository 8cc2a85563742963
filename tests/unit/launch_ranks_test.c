// shoal_launch_ranks: threads and processes with the same results, whose error is returned, ranks
// that die or wait for one that failed, and memory that runs short.
#include <signal.h>
#include <unistd.h>

#include "base/failing.h"
#include "base/status.h"
#include "shoal/launch.h"
#include "unit.h"

typedef struct job {
  shoal_code_t codes[4];  // what each rank returns
  bool waits;             // ranks that return OK meet the others first
  int32_t killed;         // this rank dies, -1: none
  int32_t seen[4];        // by threads
} job_t;

static shoal_status_t meet(shoal_world_t *world) {
  shoal_group_t *group = NULL;
  int64_t sum = shoal_world_rank(world) + 1;
  const int64_t n = shoal_world_size(world);
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, (int32_t)n, NULL, &group));
  shoal_status_t status = shoal_all_reduce(group, SHOAL_I64, SHOAL_REDUCE_SUM, 1, &sum, &sum);
  shoal_group_free(group);
  if (!status && sum != n * (n + 1) / 2)
    status = SHOAL_ERROR(INTERNAL, "the ranks add up to %lld", (long long)sum);
  return status;
}

static shoal_status_t run(void *self, shoal_world_t *world, int32_t rank) {
  job_t *job = self;
  if (shoal_world_rank(world) != rank) return SHOAL_ERROR(INTERNAL, "not rank %d", rank);
  job->seen[rank] = shoal_world_size(world);
  if (rank == job->killed) kill(getpid(), SIGKILL);
  const shoal_code_t code = job->codes[rank];
  if (code) {
    char message[64];
    snprintf(message, sizeof message, "rank %d's own words", rank);
    return shoal_status_create(code, "place.c", 7, message, "a hint");
  }
  return job->waits ? meet(world) : NULL;
}

static const shoal_ranks_options_t kinds[] = {
    {.ranks = 4}, {.ranks = 4, .processes = true}, {.ranks = 4, .backend = "local"}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void test_all_well(void **state) {
  (void)state;
  for (int k = 0; k < KINDS; ++k) {
    for (int32_t ranks = 1; ranks <= 4; ++ranks) {
      job_t job = {.waits = true, .killed = -1};
      shoal_ranks_options_t options = kinds[k];
      shoal_status_t statuses[4];
      options.ranks = ranks;
      assert_ok(shoal_launch_ranks(&options, run, &job, statuses));
      for (int32_t r = 0; r < ranks; ++r) assert_ok(statuses[r]);
      // A process has a copy of the job, threads have the job itself.
      for (int32_t r = 0; r < 4; ++r)
        assert_int_equal(job.seen[r], options.processes || r >= ranks ? 0 : ranks);
    }
  }
}

// The lowest rank's error, whatever the others return; the whole status arrives.
static void test_lowest_error(void **state) {
  (void)state;
  for (int k = 0; k < KINDS; ++k) {
    job_t job = {.codes = {0, SHOAL_ABORTED, SHOAL_MISMATCH, SHOAL_NOT_FOUND}, .killed = -1};
    shoal_status_t statuses[4];
    shoal_status_t status = shoal_launch_ranks(&kinds[k], run, &job, statuses);
    assert_int_equal(shoal_status_code(status), SHOAL_MISMATCH);
    assert_string_equal(shoal_status_message(status), "rank 2: rank 2's own words");
    assert_string_equal(shoal_status_hint(status), "a hint");
    assert_string_equal(shoal_status_file(status), "place.c");
    assert_int_equal(shoal_status_line(status), 7);
    shoal_status_free(status);
    assert_ok(statuses[0]);
    assert_error(ABORTED, "rank 1's own words", statuses[1]);
    assert_error(MISMATCH, "rank 2's own words", statuses[2]);
    assert_error(NOT_FOUND, "rank 3's own words", statuses[3]);
  }
}

static shoal_status_t fail_alike(void *self, shoal_world_t *world, int32_t rank) {
  (void)self;
  (void)rank;
  return shoal_world_agree(world, rank == 2 ? SHOAL_ERROR(IO, "no disk") : NULL);
}

// Nobody in particular is to blame: no rank stands in front.
static void test_alike(void **state) {
  (void)state;
  for (int k = 0; k < KINDS; ++k) {
    shoal_status_t status = shoal_launch_ranks(&kinds[k], fail_alike, NULL, NULL);
    assert_int_equal(shoal_status_code(status), SHOAL_IO);
    assert_string_equal(shoal_status_message(status), "rank 2: no disk");
    shoal_status_free(status);
  }
}

// Ranks that wait for the one that failed return too, long before they would give up.
static void test_others_return(void **state) {
  (void)state;
  for (int k = 0; k < KINDS; ++k) {
    job_t job = {.codes = {0, 0, 0, SHOAL_UNSUPPORTED}, .waits = true, .killed = -1};
    shoal_status_t statuses[4];
    assert_error(UNSUPPORTED, "rank 3: rank 3's own words",
                 shoal_launch_ranks(&kinds[k], run, &job, statuses));
    for (int32_t r = 0; r < 3; ++r) assert_error(ABORTED, "rank 3's own words", statuses[r]);
    assert_error(UNSUPPORTED, "rank 3's own words", statuses[3]);
  }
}

static void test_killed(void **state) {
  (void)state;
  for (int32_t who = 0; who < 4; ++who) {
    job_t job = {.waits = true, .killed = who};
    shoal_status_t statuses[4];
    char part[64];
    snprintf(part, sizeof part, "rank %d was killed by signal 9 (SIGKILL)", who);
    assert_error(ABORTED, part, shoal_launch_ranks(&kinds[1], run, &job, statuses));
    for (int32_t r = 0; r < 4; ++r) assert_error(ABORTED, "", statuses[r]);
  }
}

static shoal_status_t say_much(void *self, shoal_world_t *world, int32_t rank) {
  (void)world;
  (void)rank;
  return SHOAL_ERROR_HINT(MISMATCH, self, "%s", (const char *)self);
}

// A text that is longer than its way back has room for is cut, not lost.
static void test_long_text(void **state) {
  (void)state;
  static char text[40000];
  memset(text, 'x', sizeof text - 1);
  for (int k = 0; k < KINDS; ++k) {
    shoal_status_t status = shoal_launch_ranks(&kinds[k], say_much, text, NULL);
    assert_int_equal(shoal_status_code(status), SHOAL_MISMATCH);
    assert_true(strlen(shoal_status_message(status)) > 10000);
    assert_true(strlen(shoal_status_hint(status)) > 500);
    shoal_status_free(status);
  }
}

static void test_arguments(void **state) {
  (void)state;
  const int32_t wrong[] = {0, -1, SHOAL_LAUNCH_MAX_RANKS + 1};
  for (int i = 0; i < 3; ++i)
    for (int processes = 0; processes < 2; ++processes)
      assert_error(
          INVALID_ARGUMENT, "local ranks",
          shoal_launch_ranks(&(shoal_ranks_options_t){.ranks = wrong[i], .processes = processes},
                             run, NULL, NULL));
  assert_error(INVALID_ARGUMENT, "0 local ranks", shoal_launch_ranks(NULL, run, NULL, NULL));
  assert_error(
      NOT_FOUND, "did you mean 'local'",
      shoal_launch_ranks(&(shoal_ranks_options_t){.ranks = 2, .backend = "loca"}, run, NULL, NULL));
}

static void test_nth_allocation(void **state) {
  (void)state;
  for (int64_t n = 1;; ++n) {
    shoal_failing_t failing = {.fail_at = n};
    job_t job = {.waits = true, .killed = -1};
    shoal_ranks_options_t options = {.ranks = 2, .allocator = shoal_allocator_failing(&failing)};
    shoal_status_t status = shoal_launch_ranks(&options, run, &job, NULL);
    const bool failed = status != NULL;
    assert_int_equal(atomic_load(&failing.live_blocks), 0);
    if (failed) assert_error(OUT_OF_MEMORY, "memory", status);
    if (!failed) break;
    assert_true(n < 1000);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_well),  cmocka_unit_test(test_lowest_error),
      cmocka_unit_test(test_alike),     cmocka_unit_test(test_others_return),
      cmocka_unit_test(test_killed),    cmocka_unit_test(test_long_text),
      cmocka_unit_test(test_arguments), cmocka_unit_test(test_nth_allocation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
