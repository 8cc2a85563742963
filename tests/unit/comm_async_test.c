// Asynchronous collectives: many in flight on several groups started in different orders, progress
// while the caller computes, blocking calls among them, errors, no allocation once warm; and how
// much of a core a blocked rank uses.
// links: launch
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "base/failing.h"
#include "base/time.h"
#include "comm_ranks.h"

#define GROUPS 4
#define DEEP 6
#define COUNT 5000

static shoal_collective_t sum_of(int64_t *data, int64_t count) {
  return (shoal_collective_t){.kind = SHOAL_COLLECTIVE_ALL_REDUCE,
                              .dtype = SHOAL_I64,
                              .reduce = SHOAL_REDUCE_SUM,
                              .count = count,
                              .send = data,
                              .recv = data};
}

// Each rank starts the groups' calls in an order of its own. `self`, if any: whether reductions may
// join in any order.
static shoal_status_t in_flight(shoal_world_t *world, void *self) {
  const bool any_order = self && *(const bool *)self;
  const int32_t n = shoal_world_size(world), me = shoal_world_rank(world);
  shoal_group_t *groups[GROUPS];
  shoal_request_t requests[GROUPS][DEEP];
  int64_t *data = malloc(GROUPS * DEEP * COUNT * sizeof *data);
  for (int g = 0; g < GROUPS; ++g) {
    SHOAL_RETURN_IF_ERROR(shoal_group_create(world, n, NULL, &groups[g]));
  }
  for (int i = 0; i < GROUPS; ++i) {
    const int g = (i + me) % GROUPS;
    for (int d = 0; d < DEEP; ++d) {
      int64_t *mine = data + (g * DEEP + d) * COUNT;
      const int64_t count = d % 2 ? COUNT : 3;
      for (int64_t k = 0; k < count; ++k) mine[k] = (g * 100 + d * 10 + me) * (k + 1);
      shoal_collective_t c = sum_of(mine, count);
      c.any_order = any_order;
      SHOAL_RETURN_IF_ERROR(shoal_collective_start(groups[g], &c, &requests[g][d]));
    }
  }
  // A blocking call queues behind what was started.
  int64_t one = 1;
  SHOAL_RETURN_IF_ERROR(shoal_all_reduce(groups[0], SHOAL_I64, SHOAL_REDUCE_SUM, 1, &one, &one));
  CHECK(one == n, "blocking call got %lld", (long long)one);
  CHECK(shoal_request_test(&requests[0][DEEP - 1]), "it came before what was started first");
  for (int i = GROUPS - 1; i >= 0; --i) {
    const int g = (i + 2 * me) % GROUPS;
    for (int d = DEEP - 1; d >= 0; --d) {
      SHOAL_RETURN_IF_ERROR(shoal_request_wait(&requests[g][d]));
      CHECK(shoal_request_test(&requests[g][d]), "waited for, but not done");
      for (int64_t k = 0; k < (d % 2 ? COUNT : 3); ++k) {
        const int64_t want = (n * (g * 100 + d * 10) + n * (n - 1) / 2) * (k + 1);
        CHECK(data[(g * DEEP + d) * COUNT + k] == want, "group %d call %d element %lld", g, d,
              (long long)k);
      }
    }
  }
  for (int g = 0; g < GROUPS; ++g) shoal_group_free(groups[g]);
  free(data);
  return NULL;
}

static void test_in_flight(void **state) {
  (void)state;
  run_threads(&(shoal_world_options_t){.backend = "self"}, 1, in_flight, NULL);
  for (int32_t n = 1; n <= 4; ++n) run_threads(NULL, n, in_flight, NULL);
#ifndef SHOAL_SANITIZE_THREAD  // which does not support threads after fork
  assert_ok(run_processes(NULL, 3, in_flight, NULL));
#endif
}

// It ends although the caller makes no call of Shoal's meanwhile, but for asking.
static shoal_status_t without_help(shoal_world_t *world, void *self) {
  (void)self;
  shoal_group_t *group;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, shoal_world_size(world), NULL, &group));
  const int64_t count = 1 << 20;
  int64_t *data = calloc((size_t)count, sizeof *data);
  const shoal_collective_t c = sum_of(data, count);
  shoal_request_t request;
  if (shoal_world_rank(world) == 0) shoal_time_sleep_ns(50000000);
  SHOAL_RETURN_IF_ERROR(shoal_collective_start(group, &c, &request));
  const int64_t limit = shoal_time_ns() + INT64_C(20000000000);
  while (!shoal_request_test(&request) && shoal_time_ns() < limit) shoal_time_sleep_ns(1000000);
  CHECK(shoal_request_test(&request), "no progress");
  SHOAL_RETURN_IF_ERROR(shoal_request_wait(&request));
  shoal_group_free(group);
  free(data);
  return NULL;
}

static void test_without_help(void **state) {
  (void)state;
  run_threads(NULL, 2, without_help, NULL);
#ifndef SHOAL_SANITIZE_THREAD
  assert_ok(run_processes(NULL, 2, without_help, NULL));
#endif
}

static shoal_status_t fails(shoal_world_t *world, void *self) {
  (void)self;
  shoal_group_t *group;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, 2, NULL, &group));
  int64_t data[2] = {0};
  shoal_collective_t c = sum_of(data, 2);
  if (shoal_world_rank(world) == 0) c.count = 1;
  shoal_request_t request;
  SHOAL_RETURN_IF_ERROR(shoal_collective_start(group, &c, &request));
  CHECK_ERROR(MISMATCH, "all_reduce of i64 by sum", shoal_request_wait(&request));
  shoal_group_free(group);
  return NULL;
}

static shoal_status_t steady(shoal_world_t *world, void *self) {
  shoal_failing_t *counter = self;
  shoal_group_t *group;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, shoal_world_size(world), NULL, &group));
  int64_t data[2000] = {0}, before = 0;
  for (int round = 0; round < 5; ++round) {
    SHOAL_RETURN_IF_ERROR(shoal_barrier(group));
    if (round == 2) before = atomic_load(&counter->calls);
    SHOAL_RETURN_IF_ERROR(shoal_barrier(group));
    shoal_request_t small, large;
    const shoal_collective_t a = sum_of(data, 3);
    shoal_collective_t b = sum_of(data, 2000);
    b.any_order = true;
    SHOAL_RETURN_IF_ERROR(shoal_collective_start(group, &a, &small));
    SHOAL_RETURN_IF_ERROR(shoal_collective_start(group, &b, &large));
    SHOAL_RETURN_IF_ERROR(shoal_request_wait(&large));
    SHOAL_RETURN_IF_ERROR(shoal_request_wait(&small));
  }
  SHOAL_RETURN_IF_ERROR(shoal_barrier(group));
  CHECK(atomic_load(&counter->calls) == before, "allocations in the steady state");
  SHOAL_RETURN_IF_ERROR(shoal_barrier(group));
  shoal_group_free(group);
  return NULL;
}

static void test_errors_and_allocations(void **state) {
  (void)state;
  run_threads(NULL, 2, fails, NULL);
  shoal_failing_t counter = {0};
  run_threads(&(shoal_world_options_t){.allocator = shoal_allocator_failing(&counter)}, 2, steady,
              &counter);
  assert_int_equal(atomic_load(&counter.live_blocks), 0);
}

// Rank 0 comes late: how much of a core do the others use until then? The bar is 2 %; the limit
// here is generous, because sanitizers and busy machines are slow to fall asleep.
#define LATE_NS INT64_C(1500000000)
static shoal_status_t blocked(shoal_world_t *world, void *self) {
  const bool exchange = self != NULL;
  shoal_group_t *group;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, shoal_world_size(world), NULL, &group));
  SHOAL_RETURN_IF_ERROR(shoal_barrier(group));
  struct rusage before, after;
  const int32_t me = shoal_world_rank(world);
  getrusage(RUSAGE_SELF, &before);
  if (me == 0) shoal_time_sleep_ns(LATE_NS);
  if (exchange) {
    char byte = 0;
    shoal_message_t message = {me == 0 ? 1 : 0, 1, 1, &byte};
    shoal_exchange_t e;
    SHOAL_RETURN_IF_ERROR(shoal_exchange_start(world, me == 0, &message, me == 1, &message, &e));
    SHOAL_RETURN_IF_ERROR(shoal_exchange_wait(&e));
  } else {
    SHOAL_RETURN_IF_ERROR(shoal_barrier(group));
  }
  getrusage(RUSAGE_SELF, &after);
  const double used = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec) +
                      (double)(after.ru_stime.tv_sec - before.ru_stime.tv_sec) +
                      1e-6 * (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec) +
                      1e-6 * (double)(after.ru_stime.tv_usec - before.ru_stime.tv_usec);
  const double share = used / ((double)LATE_NS * 1e-9);
  printf("rank %d used %.2f %% of a core while it was blocked\n", me, share * 100);
  CHECK(share < 0.06, "a blocked rank used %.1f %% of a core", share * 100);
  shoal_group_free(group);
  return NULL;
}

static void test_blocked_rank_sleeps(void **state) {
  (void)state;
  int exchange = 1;
  assert_ok(run_processes(NULL, 2, blocked, NULL));
  assert_ok(run_processes(NULL, 2, blocked, &exchange));
  assert_ok(run_processes(NULL, 5, blocked, NULL));
}

// For mpirun and srun.
static shoal_status_t everything(shoal_world_t *world, void *self) {
  bool any_order = true;
  SHOAL_RETURN_IF_ERROR(in_flight(world, NULL));
  for (int i = 0; i < 3; ++i) SHOAL_RETURN_IF_ERROR(in_flight(world, &any_order));
  SHOAL_RETURN_IF_ERROR(without_help(world, NULL));
  SHOAL_RETURN_IF_ERROR(steady(world, self));
  return steady(world, self);
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "join") == 0) {
    shoal_failing_t counter = {0};
    return run_joined(&(shoal_world_options_t){.allocator = shoal_allocator_failing(&counter)},
                      everything, &counter);
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_in_flight),
      cmocka_unit_test(test_without_help),
      cmocka_unit_test(test_errors_and_allocations),
      cmocka_unit_test(test_blocked_rank_sleeps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
