// The flight recorder: when ranks are stuck, the error that all of them get says who waits in which
// operation for whom. Also run by tests/mpi_report.sh, one rank per process of an MPI.
// links: launch
#include <signal.h>
#include <unistd.h>

#include "base/thread.h"
#include "base/time.h"
#include "comm_ranks.h"

#define SHORT_MS 600                      // until nothing moving is an error
#define PATIENCE_NS INT64_C(30000000000)  // for what must come about

// ---- looking --------------------------------------------------------------------------

// Has the world broken? Sends nothing.
static shoal_status_t poll_world(shoal_world_t *world) {
  shoal_exchange_t exchange;
  SHOAL_RETURN_IF_ERROR(shoal_exchange_start(world, 0, NULL, 0, NULL, &exchange));
  return shoal_exchange_wait(&exchange);
}

static shoal_status_t wait_until_broken(shoal_world_t *world) {
  const int64_t end = shoal_time_ns() + PATIENCE_NS;
  while (shoal_time_ns() < end) {
    SHOAL_RETURN_IF_ERROR(poll_world(world));
    shoal_time_sleep_ns(1000000);
  }
  return NULL;
}

// Looks at reports until one contains both texts.
static shoal_status_t await_report(shoal_world_t *world, const char *first, const char *second) {
  char report[4000] = "";
  const int64_t end = shoal_time_ns() + PATIENCE_NS;
  while (shoal_time_ns() < end) {
    SHOAL_RETURN_IF_ERROR(shoal_world_report(world, report, sizeof report));
    if (strstr(report, first) && strstr(report, second)) return NULL;
    shoal_time_sleep_ns(1000000);
  }
  return SHOAL_ERROR(INTERNAL, "no '%s' and '%s' in the report: %s", first, second, report);
}

#define CHECK_TEXT(status, text)                                                \
  CHECK(strstr(shoal_status_message(status), text), "'%s' is not in: %s", text, \
        shoal_status_message(status))

// ---- what goes wrong ------------------------------------------------------------------

// Two groups of the same ranks; one uses the first, one the second: both wait for ever.
static shoal_status_t circle(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t me = shoal_world_rank(world), n = shoal_world_size(world);
  shoal_group_t *groups[2] = {0};
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, n, NULL, &groups[0]));
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, n, NULL, &groups[1]));
  float data[4] = {0};
  shoal_status_t status = shoal_barrier(groups[0]);
  shoal_comm_label("step 7");
  if (!status) {
    status = shoal_all_reduce(groups[me > 0], SHOAL_F32, SHOAL_REDUCE_SUM, 4, data, data);
  }
  shoal_comm_label(NULL);
  shoal_group_free(groups[0]);
  shoal_group_free(groups[1]);
  CHECK(shoal_status_code(status) == SHOAL_DEADLINE, "%s", shoal_status_message(status));
  CHECK_TEXT(status, "no progress in 600 ms: rank ");
  CHECK_TEXT(status, "they wait for each other: rank 0 -> 1 -> 0");
  CHECK_TEXT(status, "'step 7', all_reduce of f32 by sum, 16 bytes, call ");
  CHECK_TEXT(status, "call 2 of ranks 0,1");
  CHECK_TEXT(status, "call 1 of ranks 0,1");
  shoal_status_free(status);
  return NULL;
}

// The last rank does not come.
static shoal_status_t absent(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t me = shoal_world_rank(world), n = shoal_world_size(world);
  shoal_group_t *group = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, n, NULL, &group));
  shoal_status_t status = shoal_barrier(group);
  if (!status && me < n - 1) {
    status = shoal_broadcast(group, &(int64_t){0}, 8, n - 1);
  } else if (!status) {
    status = await_report(world, "rank 0 waits ", "broadcast from group rank 2, 8 bytes, call 2");
    if (!status) status = wait_until_broken(world);
  }
  shoal_group_free(group);
  CHECK(shoal_status_code(status) == SHOAL_DEADLINE, "%s", shoal_status_message(status));
  CHECK_TEXT(status,
             "rank 2 waits for nobody and is in no operation; its last, done, was operation");
  shoal_status_free(status);
  return NULL;
}

// Messages: rank 0 waits for one that rank 1 never sends; rank 1 waits for rank 2, which idles.
static shoal_status_t chain(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t me = shoal_world_rank(world);
  char data[32];
  shoal_message_t recv = {me + 1, 70 + me, 32, data};
  shoal_exchange_t exchange;
  SHOAL_RETURN_IF_ERROR(shoal_world_agree(world, NULL));
  shoal_status_t status = NULL;
  if (me == 2) {
    status = wait_until_broken(world);
  } else {
    status = shoal_exchange_start(world, 0, NULL, 1, &recv, &exchange);
    if (!status) status = shoal_exchange_wait(&exchange);
  }
  CHECK(shoal_status_code(status) == SHOAL_DEADLINE, "%s", shoal_status_message(status));
  CHECK_TEXT(status, "rank 0 waits to receive tag 70, 32 bytes (0 there) from rank 1");
  CHECK_TEXT(status, "rank 1 waits to receive tag 71, 32 bytes (0 there) from rank 2");
  CHECK_TEXT(status, "exchange with rank 2, tag 71, 32 bytes");
  CHECK_TEXT(status, "rank 2 waits for nobody");
  shoal_status_free(status);
  return NULL;
}

// The same calls in another order.
static shoal_status_t other_order(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t me = shoal_world_rank(world), n = shoal_world_size(world);
  shoal_group_t *group = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, n, NULL, &group));
  shoal_status_t status = shoal_barrier(group);
  float data[2] = {0};
  for (int i = 0; i < 2 && !status; ++i) {
    status = i == me % 2 ? shoal_all_reduce(group, SHOAL_F32, SHOAL_REDUCE_MAX, 2, data, data)
                         : shoal_broadcast(group, data, 8, 0);
  }
  if (!status) status = shoal_barrier(group);
  shoal_group_free(group);
  CHECK(shoal_status_code(status) == SHOAL_MISMATCH, "%s", shoal_status_message(status));
  CHECK_TEXT(status, "all_reduce of f32 by max");
  CHECK_TEXT(status, "broadcast from group rank 0");
  CHECK_TEXT(status, "in call 2 of ranks 0,1");
  shoal_status_free(status);
  return NULL;
}

// What was started keeps its name, though another thread runs it.
static shoal_status_t started(shoal_world_t *world, void *self) {
  (void)self;
  shoal_group_t *group = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, 2, NULL, &group));
  float data[2] = {0};
  const shoal_collective_t c = {.kind = SHOAL_COLLECTIVE_ALL_REDUCE,
                                .dtype = SHOAL_F32,
                                .count = 2,
                                .send = data,
                                .recv = data};
  shoal_request_t request;
  shoal_status_t status = NULL;
  if (shoal_world_rank(world) == 0) {
    shoal_comm_label("in the background");
    status = shoal_collective_start(group, &c, &request);
    shoal_comm_label(NULL);
    if (!status) status = shoal_request_wait(&request);
  } else {
    status = await_report(world, "rank 0 waits ", "'in the background', all_reduce of f32 by sum");
    if (!status) status = shoal_collective_run(group, &c);
  }
  shoal_group_free(group);
  return status;
}

// Rank 1's process is stopped: the others end, with an error that says so as well as can be.
static shoal_status_t stopped(shoal_world_t *world, void *self) {
  (void)self;
  shoal_group_t *group = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, shoal_world_size(world), NULL, &group));
  shoal_status_t status = shoal_barrier(group);
  if (shoal_world_rank(world) == 1) raise(SIGSTOP);
  if (!status) status = shoal_barrier(group);
  shoal_group_free(group);
  return status;
}

// A rank that dies leaves its record behind.
static shoal_status_t dies(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t me = shoal_world_rank(world), n = shoal_world_size(world);
  shoal_group_t *group = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, n, NULL, &group));
  SHOAL_RETURN_IF_ERROR(shoal_barrier(group));
  if (me == 1) kill(getpid(), SIGKILL);
  float data[2] = {0};
  shoal_status_t status = shoal_all_reduce(group, SHOAL_F32, SHOAL_REDUCE_SUM, 2, data, data);
  shoal_group_free(group);
  CHECK(shoal_status_code(status) == SHOAL_ABORTED, "%s", shoal_status_message(status));
  return status;
}

static shoal_status_t window(shoal_world_t *world, void *self) {
  (void)self;
  shoal_group_t *group = NULL;
  shoal_window_t *window = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, shoal_world_size(world), NULL, &group));
  shoal_status_t status = shoal_window_create(group, 64, &window);
  if (!status && shoal_world_rank(world) == 0) status = shoal_window_wait(window, 1, 1, 3);
  if (!status) status = wait_until_broken(world);
  shoal_window_free(window);
  shoal_group_free(group);
  CHECK(shoal_status_code(status) == SHOAL_DEADLINE, "%s", shoal_status_message(status));
  CHECK_TEXT(status, "rank 0 waits for version 3 of rank 1");
  CHECK_TEXT(status, "window wait of group rank 1's shard");
  CHECK_TEXT(status, "rank 1 waits for nobody");
  shoal_status_free(status);
  return NULL;
}

// Every rank waits, in its own shard, for the next one to write.
static shoal_status_t versions(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t me = shoal_world_rank(world), n = shoal_world_size(world);
  shoal_group_t *group = NULL;
  shoal_window_t *window = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, n, NULL, &group));
  shoal_status_t status = shoal_window_create(group, 64, &window);
  if (!status) status = shoal_window_wait(window, me, (me + 1) % n, 1);
  shoal_window_free(window);
  shoal_group_free(group);
  CHECK(shoal_status_code(status) == SHOAL_DEADLINE, "%s", shoal_status_message(status));
  CHECK_TEXT(status, "they wait for each other: rank 0 -> 1 -> 2 -> 0");
  shoal_status_free(status);
  return NULL;
}

// Threads of rank 0 are stuck at the same time, the others are well and compute: whichever thread
// breaks the world says so.
#define STUCK 4
typedef struct stuck {
  shoal_thread_t thread;
  shoal_group_t *group;
  shoal_status_t status;
} stuck_t;

static void run_stuck(void *self) {
  stuck_t *stuck = self;
  stuck->status = shoal_barrier(stuck->group);
}

static shoal_status_t many_threads(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t n = shoal_world_size(world);
  stuck_t stuck[STUCK] = {0};
  for (int i = 0; i < STUCK; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_group_create(world, n, NULL, &stuck[i].group));
    SHOAL_RETURN_IF_ERROR(shoal_barrier(stuck[i].group));
  }
  if (shoal_world_rank(world) == 0) {
    for (int i = 0; i < STUCK; ++i) {
      SHOAL_RETURN_IF_ERROR(shoal_thread_start(run_stuck, &stuck[i], &stuck[i].thread));
    }
    for (int i = 0; i < STUCK; ++i) shoal_thread_join(&stuck[i].thread);
  } else {
    // Seldom in Shoal, so that it takes a moment until they are heard.
    while (!stuck[0].status) {
      shoal_time_sleep_ns(100000000);
      stuck[0].status = poll_world(world);
    }
    for (int i = 1; i < STUCK; ++i) stuck[i].status = poll_world(world);
  }
  for (int i = 0; i < STUCK; ++i) {
    shoal_status_t status = stuck[i].status;
    CHECK(shoal_status_code(status) == SHOAL_DEADLINE, "%s", shoal_status_message(status));
    CHECK_TEXT(status, "rank 1 waits for nobody and is in no operation");
    CHECK_TEXT(status, "rank 2 waits for nobody and is in no operation");
    shoal_status_free(status);
    shoal_group_free(stuck[i].group);
  }
  return NULL;
}

// A rank that leaves is not one that does not answer.
static shoal_status_t left(shoal_world_t *world, void *self) {
  (void)self;
  SHOAL_RETURN_IF_ERROR(shoal_world_agree(world, NULL));
  if (shoal_world_rank(world) == 1) return NULL;
  return await_report(world, "rank 1 has left", "3 ranks");
}

// ---- tests ----------------------------------------------------------------------------

static const shoal_world_options_t limits = {.timeout_ms = SHORT_MS};

static void test_circle(void **state) {
  (void)state;
  run_threads(&limits, 2, circle, NULL);
  assert_ok(run_processes(&limits, 2, circle, NULL));
}

static void test_absent(void **state) {
  (void)state;
  run_threads(&limits, 3, absent, NULL);
  assert_ok(run_processes(&limits, 3, absent, NULL));
}

static void test_chain(void **state) {
  (void)state;
  run_threads(&limits, 3, chain, NULL);
  assert_ok(run_processes(&limits, 3, chain, NULL));
}

static void test_order(void **state) {
  (void)state;
  run_threads(&limits, 2, other_order, NULL);
  assert_ok(run_processes(&limits, 2, other_order, NULL));
}

static void test_started(void **state) {
  (void)state;
  run_threads(NULL, 2, started, NULL);
  assert_ok(run_processes(NULL, 2, started, NULL));
}

static void test_window(void **state) {
  (void)state;
  run_threads(&limits, 2, window, NULL);
  assert_ok(run_processes(&limits, 2, window, NULL));
}

static void test_versions(void **state) {
  (void)state;
  run_threads(&limits, 3, versions, NULL);
  assert_ok(run_processes(&limits, 3, versions, NULL));
}

static void test_many_threads(void **state) {
  (void)state;
  run_threads(&limits, 3, many_threads, NULL);
  assert_ok(run_processes(&limits, 3, many_threads, NULL));
}

static void test_left(void **state) {
  (void)state;
  run_threads(NULL, 3, left, NULL);  // of a process it may say that it has ended
}

static void test_stopped(void **state) {
  (void)state;
  rank_call_t call = {stopped, NULL};
  shoal_ranks_options_t options = ranks_like(&limits, 3, true);
  options.grace_ms = 100;  // it will not end by itself
  assert_error(DEADLINE, "rank 1 waits for nobody and is in no operation",
               shoal_launch_ranks(&options, run_rank_call, &call, NULL));
}

static void test_death(void **state) {
  (void)state;
  assert_error(ABORTED, "rank 1 was killed by signal 9", run_processes(NULL, 3, dies, NULL));
}

static void test_alone(void **state) {
  (void)state;
  shoal_world_t *world;
  shoal_group_t *group;
  char report[400], small[16];
  assert_ok(shoal_world_threads(&(shoal_world_options_t){.backend = "self"}, 1, &world));
  assert_ok(shoal_world_report(world, report, sizeof report));
  assert_non_null(strstr(report, "rank 0 waits for nobody and has begun no operation yet"));
  assert_ok(shoal_group_create(world, 1, NULL, &group));
  for (int i = 0; i < 40; ++i) assert_ok(shoal_barrier(group));
  assert_ok(shoal_world_report(world, report, sizeof report));
  assert_non_null(strstr(report, "operation 40, barrier, call 40 of ranks 0"));
  assert_ok(shoal_world_report(world, small, sizeof small));
  assert_int_equal(strlen(small), sizeof small - 1);
  assert_error(INVALID_ARGUMENT, "no room", shoal_world_report(world, NULL, 0));
  shoal_group_free(group);
  shoal_world_release(world);
}

int main(int argc, char **argv) {
  const joined_case_t joined[] = {
      {"circle", &limits, circle, NULL},
      {"absent", &limits, absent, NULL},
      {"chain", &limits, chain, NULL},
      {"order", &limits, other_order, NULL},
      {"window", &limits, window, NULL},
      {"stopped", &limits, stopped, NULL},
      {"versions", &limits, versions, NULL},
      {"threads", &limits, many_threads, NULL},
      {"left", NULL, left, NULL},
  };
  if (argc > 2 && strcmp(argv[1], "join") == 0) {
    return run_joined_case(argv[2], sizeof joined / sizeof *joined, joined);
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_circle),   cmocka_unit_test(test_absent),
      cmocka_unit_test(test_chain),    cmocka_unit_test(test_order),
      cmocka_unit_test(test_window),   cmocka_unit_test(test_started),
      cmocka_unit_test(test_versions), cmocka_unit_test(test_many_threads),
      cmocka_unit_test(test_left),     cmocka_unit_test(test_stopped),
      cmocka_unit_test(test_death),    cmocka_unit_test(test_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
