// Windows: concurrent writers, reads that are never torn, waiting for one writer or all, bounded
// staleness, wrong arguments, waits that nobody ends.
// links: launch
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/failing.h"
#include "base/thread.h"
#include "base/time.h"
#include "comm_ranks.h"

#define ELEMENTS 3000
#define ROUNDS 60

// Every rank adds to every shard, again and again; all elements of a shard are equal whenever one
// looks, and equal what the versions say. The group has the ranks backwards.
static shoal_status_t writers(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t n = shoal_world_size(world), me = n - 1 - shoal_world_rank(world);
  shoal_group_t *group;
  shoal_window_t *window;
  int32_t ranks[MAX_RANKS];
  for (int32_t i = 0; i < n; ++i) ranks[i] = n - 1 - i;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, n, ranks, &group));
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

// Threads of a rank use two windows at once, one of every rank and one of every second.
typedef struct user {
  shoal_thread_t thread;
  shoal_window_t *windows[2];
  int32_t sizes[2], number;
  shoal_status_t status;
} user_t;
#define USERS 3
#define USES 40

static shoal_status_t use_both(const user_t *user) {
  int64_t data[600], seen[600];
  for (int i = 0; i < 600; ++i) data[i] = 1;
  for (int i = 0; i < USES; ++i) {
    for (int w = 0; w < 2; ++w) {
      const int32_t owner = (i + user->number) % user->sizes[w];
      const int64_t count = (i + w) % 2 ? 600 : 3;
      SHOAL_RETURN_IF_ERROR(
          shoal_window_put_add(user->windows[w], owner, SHOAL_I64, 0, count, data));
      SHOAL_RETURN_IF_ERROR(shoal_window_get(user->windows[w], owner, 0, sizeof seen, seen, NULL));
      CHECK(seen[0] == seen[2] && seen[3] == seen[599] && seen[0] >= seen[3], "torn: %lld %lld",
            (long long)seen[0], (long long)seen[2]);
    }
  }
  return NULL;
}

static void run_user(void *self) {
  user_t *user = self;
  user->status = use_both(user);
}

static shoal_status_t users(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t n = shoal_world_size(world), me = shoal_world_rank(world);
  int32_t ranks[MAX_RANKS], count = 0;
  for (int32_t i = me % 2; i < n; i += 2) ranks[count++] = i;
  shoal_group_t *groups[2];
  shoal_window_t *windows[2];
  const int32_t sizes[2] = {n, count};
  user_t all[USERS] = {0};
  for (int w = 0; w < 2; ++w) {
    SHOAL_RETURN_IF_ERROR(shoal_group_create(world, sizes[w], w ? ranks : NULL, &groups[w]));
    SHOAL_RETURN_IF_ERROR(shoal_window_create(groups[w], 600 * 8, &windows[w]));
  }
  shoal_status_t status = NULL;
  for (int u = 0; u < USERS; ++u) {
    all[u].number = u + me;
    for (int w = 0; w < 2; ++w) all[u].windows[w] = windows[w], all[u].sizes[w] = sizes[w];
    SHOAL_RETURN_IF_ERROR(shoal_thread_start(run_user, &all[u], &all[u].thread));
  }
  for (int u = 0; u < USERS; ++u) {
    shoal_thread_join(&all[u].thread);
    if (!status) status = all[u].status;
  }
  SHOAL_RETURN_IF_ERROR(status);
  for (int w = 0; w < 2; ++w) {  // what all added is in some shard
    SHOAL_RETURN_IF_ERROR(shoal_barrier(groups[w]));
    uint64_t versions[MAX_RANKS], sum = 0;
    for (int32_t owner = 0; owner < sizes[w]; ++owner) {
      int64_t seen = 0;
      SHOAL_RETURN_IF_ERROR(shoal_window_get(windows[w], owner, 8, 8, &seen, versions));
      sum += (uint64_t)seen;
    }
    CHECK(sum == (uint64_t)(USERS * USES * sizes[w]), "%llu added", (unsigned long long)sum);
    shoal_window_free(windows[w]);
    shoal_group_free(groups[w]);
  }
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

static void test_users(void **state) {
  (void)state;
  run_all(users);
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
  shoal_window_t *window = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, 2, NULL, &group));
  // Rank 0 may still be in it when rank 1, which has heard enough, aborts.
  shoal_status_t status = shoal_window_create(group, 16, &window);
  if (shoal_world_rank(world) == 0) {
    if (!status) status = shoal_window_wait(window, 0, 1, 1);
  } else if (!status) {
    shoal_status_t reason = SHOAL_ERROR(IO, "out of paper");
    shoal_world_abort(world, reason);
    shoal_status_free(reason);
  }
  shoal_window_free(window);
  shoal_group_free(group);
  if (shoal_world_rank(world) == 1) return status;
  CHECK_ERROR(ABORTED, "out of paper", status);
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

// ---- large shards, an owner that is elsewhere, nothing allocated --------------------------

// Writes of many megabytes, several ranks at a time, and reads of all of it in between: every
// element tells the same.
static shoal_status_t large(shoal_world_t *world, void *self) {
  const int64_t count = *(const int64_t *)self, bytes = count * (int64_t)sizeof(float);
  const int32_t n = shoal_world_size(world), me = shoal_world_rank(world);
  shoal_group_t *group;
  shoal_window_t *window;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, n, NULL, &group));
  SHOAL_RETURN_IF_ERROR(shoal_window_create(group, me == 0 ? bytes : 8, &window));
  float *mine = malloc((size_t)bytes), *seen = malloc((size_t)bytes);
  for (int64_t i = 0; i < count; ++i) mine[i] = (float)(me + 1 + i % 3);
  for (int round = 0; round < 3; ++round) {
    uint64_t versions[MAX_RANKS] = {0};
    SHOAL_RETURN_IF_ERROR(shoal_window_put_add(window, 0, SHOAL_F32, 0, count, mine));
    SHOAL_RETURN_IF_ERROR(shoal_window_get(window, 0, 0, bytes, seen, versions));
    for (int64_t i = 0; i < count; ++i) {
      float want = 0;
      for (int32_t k = 0; k < n; ++k) want += (float)versions[k] * (float)(k + 1 + i % 3);
      CHECK(seen[i] == want, "element %lld is %g, its versions say %g", (long long)i, seen[i],
            want);
    }
  }
  free(mine);
  free(seen);
  shoal_window_free(window);
  shoal_group_free(group);
  return NULL;
}

static void test_large(void **state) {
  (void)state;
  int64_t count = 300001;
  run_threads(NULL, 3, large, &count);
  assert_ok(run_processes(NULL, 2, large, &count));
}

static double cpu_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
         (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

// Rank 0 does not call Shoal until a file is there that rank 1 writes when it has read what it
// wrote: the shard is served nevertheless. Then rank 0 waits for a version that comes two seconds
// later, and rank 1 sleeps: neither takes much of a core.
static shoal_status_t absent(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t me = shoal_world_rank(world);
  const char *path = getenv("SHOAL_TEST_FILE");
  shoal_group_t *group;
  shoal_window_t *window;
  double one = 1, seen = 0;
  CHECK(path, "SHOAL_TEST_FILE is not set");
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, shoal_world_size(world), NULL, &group));
  SHOAL_RETURN_IF_ERROR(shoal_window_create(group, 64, &window));
  if (me == 1) {
    const int64_t start = shoal_time_ns();
    for (uint64_t i = 1; i <= 50; ++i) {
      uint64_t versions[MAX_RANKS];
      SHOAL_RETURN_IF_ERROR(shoal_window_put_add(window, 0, SHOAL_F64, 8, 1, &one));
      SHOAL_RETURN_IF_ERROR(shoal_window_get(window, 0, 8, 8, &seen, versions));
      CHECK(seen == (double)i && versions[1] == i, "%g after %llu", seen, (unsigned long long)i);
      SHOAL_RETURN_IF_ERROR(shoal_window_wait(window, 0, 1, i));
    }
    printf("rank 1: a call takes %.0f us while the owner is elsewhere\n",
           (double)(shoal_time_ns() - start) * 1e-3 / 150);
    FILE *file = fopen(path, "w");
    CHECK(file, "cannot write %s", path);
    fclose(file);
  } else if (me == 0) {
    const int64_t deadline = shoal_time_ns() + INT64_C(60000000000);
    while (access(path, R_OK) != 0) {
      CHECK(shoal_time_ns() < deadline, "rank 1 is not served while rank 0 is elsewhere");
      shoal_time_sleep_ns(1000000);
    }
  }
  SHOAL_RETURN_IF_ERROR(shoal_barrier(group));
  const double before = cpu_seconds();
  if (me != 0) sleep(2);
  if (me == 1) SHOAL_RETURN_IF_ERROR(shoal_window_put_add(window, 0, SHOAL_F64, 8, 1, &one));
  if (me == 0) SHOAL_RETURN_IF_ERROR(shoal_window_wait(window, 0, 1, 51));
  const double used = (cpu_seconds() - before) / 2;
  printf("rank %d %s with %.1f %% of a core\n", me, me ? "slept" : "waited for a version",
         used * 100);
  CHECK(used < 0.2, "rank %d used %.2f of a core in 2 s", me, used);
  shoal_window_free(window);
  shoal_group_free(group);
  return NULL;
}

// Once warm, no call allocates, on any rank; `self` counts.
static shoal_status_t steady(shoal_world_t *world, void *self) {
  shoal_failing_t *counter = self;
  const int32_t n = shoal_world_size(world), me = shoal_world_rank(world);
  shoal_group_t *group;
  shoal_window_t *window;
  enum { COUNT = 5000 };
  static float data[COUNT];
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, n, NULL, &group));
  SHOAL_RETURN_IF_ERROR(shoal_window_create(group, sizeof data, &window));
  int64_t before = 0;
  for (uint64_t step = 1; step <= 60; ++step) {
    if (step == 20) {
      SHOAL_RETURN_IF_ERROR(shoal_barrier(group));
      before = atomic_load(&counter->calls);
    }
    const int32_t owner = (int32_t)(step + (uint64_t)me) % n;
    uint64_t versions[MAX_RANKS];
    SHOAL_RETURN_IF_ERROR(shoal_window_put_add(window, 0, SHOAL_F32, 0, COUNT, data));
    SHOAL_RETURN_IF_ERROR(shoal_window_put_add(window, owner, SHOAL_F32, 4, 9, data));
    SHOAL_RETURN_IF_ERROR(shoal_window_get(window, owner, 0, sizeof data, data, versions));
    if (step > 2) SHOAL_RETURN_IF_ERROR(shoal_window_wait(window, 0, -1, step - 2));
  }
  SHOAL_RETURN_IF_ERROR(shoal_barrier(group));
  const int64_t more = atomic_load(&counter->calls) - before;
  CHECK(more == 0, "rank %d allocated %lld times when warm", me, (long long)more);
  shoal_window_free(window);
  shoal_group_free(group);
  return NULL;
}

// ---- over mpirun and srun ------------------------------------------------------------------

// The owner, or the writer that is waited for, leaves the world without a word.
static shoal_status_t deserted(shoal_world_t *world, void *self) {
  const bool owner_leaves = *(const bool *)self;
  const int32_t me = shoal_world_rank(world);
  shoal_group_t *group;
  shoal_window_t *window;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, 2, NULL, &group));
  SHOAL_RETURN_IF_ERROR(shoal_window_create(group, 16, &window));
  if (me == 1) return NULL;  // its window goes with the process
  CHECK_ERROR(ABORTED, "rank 1 has left", shoal_window_wait(window, owner_leaves, 1, 1));
  CHECK_ERROR(ABORTED, "rank 1 has left", shoal_window_get(window, 0, 0, 0, NULL, NULL));
  shoal_window_free(window);
  shoal_group_free(group);
  return NULL;
}

static int join_case(const char *name) {
  static const shoal_world_options_t short_time = {.timeout_ms = 300};
  static int64_t count = 3000001;
  static bool yes = true, no = false;
  shoal_failing_t counter = {0};
  const shoal_world_options_t counted = {.allocator = shoal_allocator_failing(&counter)};
  const joined_case_t joined[] = {
      {"users", NULL, users, NULL},           {"writers", NULL, writers, NULL},
      {"stale", NULL, stale, NULL},           {"large", NULL, large, &count},
      {"steady", &counted, steady, &counter}, {"absent", NULL, absent, NULL},
      {"wrong", &short_time, wrong, NULL},    {"leaves", NULL, leaves, NULL},
      {"owner", NULL, deserted, &yes},        {"writer", NULL, deserted, &no},
  };
  return run_joined_case(name, sizeof joined / sizeof *joined, joined);
}

int main(int argc, char **argv) {
  if (argc > 2 && strcmp(argv[1], "join") == 0) return join_case(argv[2]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_writers), cmocka_unit_test(test_staleness),
      cmocka_unit_test(test_large),   cmocka_unit_test(test_users),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
