// Windows: concurrent writers, reads that are never torn, waiting for one writer or all, bounded
// staleness, wrong arguments, waits that nobody ends.
#include <stdlib.h>

#include "comm_ranks.h"

#define ELEMENTS 3000
#define ROUNDS 60

// Every rank adds to every shard, again and again; all elements of a shard are equal whenever one
// looks, and equal what the versions say.
static shoal_status_t writers(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t n = shoal_world_size(world), me = shoal_world_rank(world);
  shoal_group_t *group;
  shoal_window_t *window;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, n, NULL, &group));
  const int64_t bytes = ELEMENTS * (int64_t)sizeof(double);
  SHOAL_RETURN_IF_ERROR(shoal_window_create(group, bytes, &window));
  double *mine = malloc((size_t)bytes), *seen = malloc((size_t)bytes);
  for (int i = 0; i < ELEMENTS; ++i) mine[i] = me + 1;
  uint64_t last[MAX_RANKS] = {0};
  for (int round = 0; round < ROUNDS; ++round) {
    for (int32_t k = 0; k < n; ++k) {
      const int32_t owner = (k + me) % n;
      SHOAL_RETURN_IF_ERROR(shoal_window_put_add(window, owner, SHOAL_F64, 0, ELEMENTS, mine));
    }
    uint64_t versions[MAX_RANKS];
    const int32_t owner = (me + round) % n;
    SHOAL_RETURN_IF_ERROR(shoal_window_get(window, owner, 0, bytes, seen, versions));
    double want = 0;
    for (int32_t i = 0; i < n; ++i) want += (double)versions[i] * (i + 1);
    for (int i = 0; i < ELEMENTS; ++i) {
      CHECK(seen[i] == want, "shard %d element %d is %g, its versions say %g", owner, i, seen[i],
            want);
    }
    CHECK(versions[me] == (uint64_t)round + 1, "own version %llu in round %d",
          (unsigned long long)versions[me], round);
    if (owner == 0) {
      for (int32_t i = 0; i < n; ++i) CHECK(versions[i] >= last[i], "a version went back");
      memcpy(last, versions, sizeof last);
    }
  }
  for (int32_t owner = 0; owner < n; ++owner) {
    SHOAL_RETURN_IF_ERROR(shoal_window_wait(window, owner, -1, ROUNDS));
    SHOAL_RETURN_IF_ERROR(shoal_window_get(window, owner, bytes - 8, 8, seen, NULL));
    CHECK(seen[0] == ROUNDS * n * (n + 1) / 2.0, "shard %d ends at %g", owner, seen[0]);
  }
  shoal_window_free(window);
  shoal_group_free(group);
  free(mine);
  free(seen);
  return NULL;
}

// Bounded staleness: nobody is more than 2 steps ahead of the slowest. Shards of different sizes,
// of which one is empty.
static shoal_status_t stale(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t n = shoal_world_size(world), me = shoal_world_rank(world);
  shoal_group_t *group;
  shoal_window_t *window;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, n, NULL, &group));
  SHOAL_RETURN_IF_ERROR(shoal_window_create(group, me == 0 ? 40 : 0, &window));
  CHECK(shoal_window_bytes(window, 0) == 40 && (n == 1 || shoal_window_bytes(window, 1) == 0),
        "sizes");
  for (uint64_t step = 1; step <= 200; ++step) {
    const int32_t one = 1;
    SHOAL_RETURN_IF_ERROR(shoal_window_put_add(window, 0, SHOAL_I32, 36, 1, &one));
    if (step > 2) SHOAL_RETURN_IF_ERROR(shoal_window_wait(window, 0, -1, step - 2));
    uint64_t versions[MAX_RANKS];
    int32_t total;
    SHOAL_RETURN_IF_ERROR(shoal_window_get(window, 0, 36, 4, &total, versions));
    uint64_t sum = 0;
    for (int32_t i = 0; i < n; ++i) {
      CHECK(versions[i] + 2 >= step, "rank %d is at %llu, this one at %llu", i,
            (unsigned long long)versions[i], (unsigned long long)step);
      sum += versions[i];
    }
    CHECK((uint64_t)total == sum, "%d added, versions say %llu", total, (unsigned long long)sum);
  }
  SHOAL_RETURN_IF_ERROR(shoal_barrier(group));
  // An empty write raises the version; the one writer is waited for.
  if (me == n - 1) SHOAL_RETURN_IF_ERROR(shoal_window_put_add(window, 0, SHOAL_F32, 0, 0, NULL));
  SHOAL_RETURN_IF_ERROR(shoal_window_wait(window, 0, n - 1, 201));
  shoal_window_free(window);
  shoal_group_free(group);
  return NULL;
}

static void run_all(rank_fn_t function) {
  run_threads(&(shoal_world_options_t){.backend = "self"}, 1, function, NULL);
  for (int32_t n = 1; n <= 4; ++n) run_threads(NULL, n, function, NULL);
  assert_ok(run_processes(NULL, 2, function, NULL));
  assert_ok(run_processes(NULL, 5, function, NULL));
}

static void test_writers(void **state) {
  (void)state;
  run_all(writers);
}

static void test_staleness(void **state) {
  (void)state;
  run_all(stale);
}

static shoal_status_t wrong(shoal_world_t *world, void *self) {
  (void)self;
  shoal_group_t *group;
  shoal_window_t *window;
  float data[8] = {0};
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, shoal_world_size(world), NULL, &group));
  SHOAL_RETURN_IF_ERROR(shoal_window_create(group, 16, &window));
  CHECK_ERROR(INVALID_ARGUMENT, "20 bytes at 0 of a shard of 16",
              shoal_window_put_add(window, 0, SHOAL_F32, 0, 5, data));
  CHECK_ERROR(INVALID_ARGUMENT, "no multiple",
              shoal_window_put_add(window, 0, SHOAL_F32, 2, 1, data));
  CHECK_ERROR(INVALID_ARGUMENT, "owner 9", shoal_window_get(window, 9, 0, 4, data, NULL));
  CHECK_ERROR(INVALID_ARGUMENT, "8 bytes at 12", shoal_window_get(window, 0, 12, 8, data, NULL));
  CHECK_ERROR(INVALID_ARGUMENT, "writer 7", shoal_window_wait(window, 0, 7, 1));
  SHOAL_RETURN_IF_ERROR(shoal_world_agree(world, NULL));  // none of this breaks the world
  CHECK_ERROR(DEADLINE, "for version 1", shoal_window_wait(window, 0, -1, 1));
  shoal_window_free(window);
  shoal_group_free(group);
  return NULL;
}

// The writer that is waited for leaves.
static shoal_status_t leaves(shoal_world_t *world, void *self) {
  (void)self;
  shoal_group_t *group;
  shoal_window_t *window;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, 2, NULL, &group));
  SHOAL_RETURN_IF_ERROR(shoal_window_create(group, 16, &window));
  shoal_status_t status = NULL;
  if (shoal_world_rank(world) == 0) {
    status = shoal_window_wait(window, 0, 1, 1);
  } else {
    shoal_status_t reason = SHOAL_ERROR(IO, "out of paper");
    shoal_world_abort(world, reason);
    shoal_status_free(reason);
  }
  shoal_window_free(window);
  shoal_group_free(group);
  if (shoal_world_rank(world) == 0) CHECK_ERROR(ABORTED, "out of paper", status);
  return NULL;
}

static void test_errors(void **state) {
  (void)state;
  shoal_world_options_t options = {.timeout_ms = 300};
  run_threads(&options, 2, wrong, NULL);
  assert_ok(run_processes(&options, 2, wrong, NULL));
  options.backend = "self";
  run_threads(&options, 1, wrong, NULL);
  run_threads(NULL, 2, leaves, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_writers),
      cmocka_unit_test(test_staleness),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
