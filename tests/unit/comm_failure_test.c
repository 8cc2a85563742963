// What goes wrong must end on every rank with the named status: aborts, time limits,
// ranks that leave or die, bad arguments, allocations that fail.
// links: launch
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/failing.h"
#include "comm_ranks.h"
#include "launch/launch.h"

#define SHORT_MS 300  // where a time limit must pass

// ---- aborting and agreeing ------------------------------------------------------------

static shoal_status_t aborts(shoal_world_t *world, void *self) {
  const int32_t who = *(const int32_t *)self;
  shoal_group_t *group;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, shoal_world_size(world), NULL, &group));
  shoal_status_t first = shoal_barrier(group);  // some may still be in it when the other aborts
  if (first) CHECK_ERROR(ABORTED, "the disk is on fire", first);
  if (shoal_world_rank(world) == who) {
    shoal_status_t reason = SHOAL_ERROR(IO, "the disk is on fire");
    shoal_world_abort(world, reason);
    shoal_status_free(reason);
  }
  CHECK_ERROR(ABORTED, "the disk is on fire", shoal_barrier(group));  // present and
  CHECK_ERROR(ABORTED, "IO", shoal_barrier(group));                   // future
  shoal_group_free(group);
  return NULL;
}

static void test_abort(void **state) {
  (void)state;
  int32_t who = 1;
  run_threads(NULL, 4, aborts, &who);
  assert_ok(run_processes(NULL, 3, aborts, &who));
  who = 0;
  run_threads(&(shoal_world_options_t){.backend = "self"}, 1, aborts, &who);
}

// Rank 0 has nothing to receive, is done at once and waits for rank 1, which is held in the middle
// of reading rank 0's memory: at the first page it writes. Then rank 2 aborts, rank 0 gives its
// memory back, and rank 1 goes on. It must not take what it reads then for a result.
enum { HELD_COUNT = 1 << 16, HELD_BYTES = HELD_COUNT * 8 };
static int64_t *held;
static int reading[2], given_back[2];  // pipes: 1 to 2, 0 to 1

static void hold(int signal_number) {
  char byte = 0;
  if (write(reading[1], &byte, 1) != 1 || read(given_back[0], &byte, 1) != 1 ||
      mprotect(held, HELD_BYTES, PROT_READ | PROT_WRITE) != 0) {
    _exit(signal_number);
  }
}

static shoal_status_t read_beside_abort(shoal_world_t *world, shoal_group_t *pair, int64_t *data) {
  const int32_t me = shoal_world_rank(world);
  const int64_t sends[2] = {0, me == 0 ? HELD_COUNT : 0};
  const int64_t recvs[2] = {me == 1 ? HELD_COUNT : 0, 0};
  for (int64_t i = 0; i < HELD_COUNT; ++i) data[i] = i + 1;
  if (me == 1) {
    held = mmap(NULL, HELD_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(held != MAP_FAILED && signal(SIGSEGV, hold) != SIG_ERR, "memory");
  }
  shoal_status_t status = shoal_all_to_all(pair, SHOAL_I64, sends, data, recvs, held);
  if (me == 0) shoal_comm_release(world, data);
  CHECK(me == 1 || write(given_back[1], "", 1) == 1, "pipe");
  CHECK(status || me == 0, "it succeeded; the first element is %lld", (long long)held[0]);
  return status;
}

static shoal_status_t gives_back(shoal_world_t *world, void *self) {
  (void)self;
  char byte;
  if (shoal_world_rank(world) == 2) {
    char report[2000];
    CHECK(read(reading[0], &byte, 1) == 1, "pipe");
    do {  // until rank 0 is at the end of it
      SHOAL_RETURN_IF_ERROR(shoal_world_report(world, report, sizeof report));
      sched_yield();
    } while (!strstr(report, "rank 0 waits in"));
    shoal_status_t reason = SHOAL_ERROR(IO, "the disk is on fire");
    shoal_world_abort(world, reason);
    shoal_status_free(reason);
    return NULL;
  }
  shoal_group_t *pair;
  void *data;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, 2, (const int32_t[]){0, 1}, &pair));
  SHOAL_RETURN_IF_ERROR(shoal_comm_alloc(world, HELD_BYTES, &data));
  CHECK_ERROR(ABORTED, "the disk is on fire", read_beside_abort(world, pair, data));
  shoal_group_free(pair);
  return NULL;
}

static void test_abort_beside_reading(void **state) {
  (void)state;
  assert_int_equal(pipe(reading), 0);
  assert_int_equal(pipe(given_back), 0);
  assert_ok(run_processes(NULL, 3, gives_back, NULL));
  for (int i = 0; i < 2; ++i) close(reading[i]), close(given_back[i]);
}

static shoal_status_t agrees(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t me = shoal_world_rank(world), n = shoal_world_size(world);
  SHOAL_RETURN_IF_ERROR(shoal_world_agree(world, NULL));
  for (int32_t lowest = 0; lowest < n; ++lowest) {
    shoal_status_t mine =
        me >= lowest && (me - lowest) % 2 == 0
            ? SHOAL_ERROR_HINT(NOT_FOUND, "look again", "rank %d lost its keys", me)
            : NULL;
    shoal_status_t agreed = shoal_world_agree(world, mine);
    char part[32];
    snprintf(part, sizeof part, "rank %d lost", lowest);
    CHECK(shoal_status_code(agreed) == SHOAL_NOT_FOUND, "code");
    CHECK(strstr(shoal_status_message(agreed), part), "message %s", shoal_status_message(agreed));
    CHECK(strcmp(shoal_status_hint(agreed), "look again") == 0, "hint");
    shoal_status_free(agreed);
  }
  return shoal_world_agree(world, NULL);  // it is not broken
}

static void test_agree(void **state) {
  (void)state;
  run_threads(NULL, 1, agrees, NULL);
  run_threads(NULL, 2, agrees, NULL);
  run_threads(NULL, 5, agrees, NULL);
  run_threads(&(shoal_world_options_t){.backend = "self"}, 1, agrees, NULL);
  assert_ok(run_processes(NULL, 3, agrees, NULL));
}

// ---- time limits ----------------------------------------------------------------------

// Rank 1 waits for a message that rank 0 never sends; rank 0 waits for rank 1's.
static shoal_status_t deadline(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t me = shoal_world_rank(world);
  char data[32];
  shoal_message_t recv = {1 - me, 77, 32, data};
  shoal_exchange_t exchange;
  SHOAL_RETURN_IF_ERROR(shoal_exchange_start(world, 0, NULL, 1, &recv, &exchange));
  CHECK_ERROR(DEADLINE, "waits to receive tag 77, 32 bytes (0 there) from rank",
              shoal_exchange_wait(&exchange));
  CHECK_ERROR(DEADLINE, "waits to receive", shoal_world_agree(world, NULL));
  return NULL;
}

static shoal_status_t deadline_send(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t me = shoal_world_rank(world);
  const int64_t bytes = 1 << 20;
  void *data = calloc(1, (size_t)bytes);
  shoal_message_t send = {1 - me, 3, bytes, data};
  shoal_exchange_t exchange;
  SHOAL_RETURN_IF_ERROR(shoal_exchange_start(world, 1, &send, 0, NULL, &exchange));
  shoal_status_t status = shoal_exchange_wait(&exchange);
  free(data);
  CHECK_ERROR(DEADLINE, "waits to send tag 3, 1048576 bytes", status);
  return NULL;
}

static void test_deadline(void **state) {
  (void)state;
  shoal_world_options_t options = {.timeout_ms = SHORT_MS};
  run_threads(&options, 2, deadline, NULL);
  run_threads(&options, 2, deadline_send, NULL);
  assert_ok(run_processes(&options, 2, deadline, NULL));

  options.backend = "self";
  shoal_world_t *world;
  assert_ok(shoal_world_threads(&options, 1, &world));
  char data[4];
  shoal_message_t recv = {0, 1, 4, data};
  shoal_exchange_t exchange;
  assert_ok(shoal_exchange_start(world, 0, NULL, 1, &recv, &exchange));
  assert_error(DEADLINE, "0 of 1 received", shoal_exchange_wait(&exchange));
  shoal_world_release(world);
}

// ---- ranks that leave or die ----------------------------------------------------------

static shoal_status_t leaves(shoal_world_t *world, void *self) {
  (void)self;
  shoal_group_t *group;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, shoal_world_size(world), NULL, &group));
  shoal_status_t status = NULL;
  if (shoal_world_rank(world) != 1) status = shoal_barrier(group);
  shoal_group_free(group);
  if (shoal_world_rank(world) != 1) CHECK_ERROR(ABORTED, "rank 1 has left", status);
  return NULL;
}

static void test_leave(void **state) {
  (void)state;
  run_threads(NULL, 2, leaves, NULL);
  run_threads(NULL, 4, leaves, NULL);
}

// Rank `who` kills itself while the others wait for it; they must be told, not time out.
static shoal_status_t dies(shoal_world_t *world, void *self) {
  const int32_t who = *(const int32_t *)self;
  shoal_group_t *group;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, shoal_world_size(world), NULL, &group));
  SHOAL_RETURN_IF_ERROR(shoal_barrier(group));
  if (shoal_world_rank(world) == who) kill(getpid(), SIGKILL);
  shoal_status_t status = shoal_barrier(group);
  shoal_group_free(group);
  CHECK(shoal_status_code(status) == SHOAL_ABORTED, "survivor got %s",
        shoal_status_message(status));
  fprintf(stderr, "survivor %d heard\n", shoal_world_rank(world));
  return status;
}

static void test_killed(void **state) {
  (void)state;
  for (int32_t who = 0; who < 3; ++who) {
    char part[64];
    snprintf(part, sizeof part, "rank %d was killed by signal 9 (SIGKILL)", who);
    shoal_status_t status = run_processes(NULL, 3, dies, &who);
    assert_error(ABORTED, part, status);
  }
}

// Without the launcher's help: waiters see by themselves that a process is dead, a zombie or not.
typedef struct middle {
  int32_t who;
  bool reap;
} middle_t;

static int middle_man(void *self, int rank) {
  const middle_t *middle = self;
  if (rank != middle->who) {
    int code = run_joined(NULL, dies, self);  // which reads `who`
    // It tells the launcher by a code of its own that it was told.
    return code == shoal_code_exit(SHOAL_ABORTED) ? shoal_code_exit(SHOAL_MISMATCH) : 1;
  }
  // This rank lives in a process that the launcher does not see end.
  pid_t inner = fork();
  if (inner == 0) _exit(run_joined(NULL, dies, self));
  int status;
  if (middle->reap) waitpid(inner, &status, 0);
  for (;;) pause();  // until the launcher ends it
}

static void test_death_seen_by_peers(void **state) {
  (void)state;
  for (int reap = 0; reap < 2; ++reap) {
    middle_t middle = {1, reap};
    shoal_launch_options_t options = {.ranks = 2, .grace_ms = 10, .timeout_ms = 20000};
    assert_error(MISMATCH, "rank 0 ended with exit code 8",
                 shoal_launch_processes(&options, middle_man, &middle, NULL));
  }
}

// ---- bad arguments, failing allocations -----------------------------------------------

static shoal_status_t bad_arguments(shoal_world_t *world, void *self) {
  (void)self;
  shoal_group_t *group;
  CHECK_ERROR(INVALID_ARGUMENT, "rank 9", shoal_group_create(world, 1, (int32_t[]){9}, &group));
  CHECK_ERROR(INVALID_ARGUMENT, "twice", shoal_group_create(world, 2, (int32_t[]){0, 0}, &group));
  CHECK_ERROR(INVALID_ARGUMENT, "3 ranks", shoal_group_create(world, 3, NULL, &group));
  shoal_exchange_t exchange;
  shoal_message_t message = {5, 0, 4, NULL};
  CHECK_ERROR(INVALID_ARGUMENT, "peer 5",
              shoal_exchange_start(world, 1, &message, 0, NULL, &exchange));
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, 1, (int32_t[]){0}, &group));
  if (shoal_world_rank(world) == 1) {
    CHECK_ERROR(INVALID_ARGUMENT, "not in the group", shoal_barrier(group));
  }
  shoal_group_free(group);
  return shoal_world_agree(world, NULL);  // nothing of this breaks the world
}

// Inside a collective one rank's error is everyone's.
static shoal_status_t bad_collective(shoal_world_t *world, void *self) {
  (void)self;
  shoal_group_t *group;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, 2, NULL, &group));
  int64_t data[2] = {0};
  shoal_status_t status = shoal_world_rank(world) == 0
                              ? shoal_all_reduce(group, SHOAL_I64, SHOAL_REDUCE_LSE, 1, data, data)
                              : shoal_all_reduce(group, SHOAL_I64, SHOAL_REDUCE_SUM, 1, data, data);
  CHECK_ERROR(UNSUPPORTED, "cannot be joined by lse", status);
  shoal_group_free(group);
  return NULL;
}

static void test_bad_arguments(void **state) {
  (void)state;
  run_threads(NULL, 2, bad_arguments, NULL);
  run_threads(NULL, 2, bad_collective, NULL);
  shoal_world_t *world;
  assert_error(NOT_FOUND, "local",
               shoal_world_join(&(shoal_world_options_t){.backend = "lokal"}, &world));
  assert_error(INVALID_ARGUMENT, "0 ranks", shoal_world_threads(NULL, 0, &world));
  assert_error(UNSUPPORTED, "ranks", shoal_world_threads(NULL, 100000, NULL));
  setenv("SHOAL_SIZE", "2", 1);
  assert_error(INVALID_ARGUMENT, "SHOAL_RANK", shoal_world_join(NULL, &world));
  setenv("SHOAL_RANK", "1", 1);
  assert_error(INVALID_ARGUMENT, "SHOAL_LOCAL_FD", shoal_world_join(NULL, &world));
  setenv("SHOAL_LOCAL_FD", "0", 1);
  assert_error(UNAVAILABLE, "shared memory", shoal_world_join(NULL, &world));
  setenv("SHOAL_RANK", "x2", 1);
  assert_error(INVALID_ARGUMENT, "'x2'", shoal_world_join(NULL, &world));
  unsetenv("SHOAL_SIZE");
  unsetenv("SHOAL_RANK");
  unsetenv("SHOAL_LOCAL_FD");
}

// A session's shape: create, agree on it, reduce.
static shoal_status_t small_session(shoal_world_t *world, void *self) {
  (void)self;
  shoal_group_t *group = NULL;
  shoal_status_t status =
      shoal_world_agree(world, shoal_group_create(world, shoal_world_size(world), NULL, &group));
  float data[2000] = {0};
  if (!status) status = shoal_all_reduce(group, SHOAL_F32, SHOAL_REDUCE_SUM, 2000, data, data);
  shoal_group_free(group);
  return status;
}

static void test_nth_allocation(void **state) {
  (void)state;
  int64_t failed = 0;
  for (int64_t n = 1;; ++n) {
    shoal_failing_t failing = {.fail_at = n};
    shoal_world_options_t options = {.allocator = shoal_allocator_failing(&failing)};
    const shoal_ranks_options_t two = ranks_like(&options, 2, false);
    rank_call_t call = {small_session, NULL};
    shoal_status_t statuses[2];
    shoal_status_t status = shoal_launch_ranks(&two, run_rank_call, &call, statuses);
    assert_int_equal(atomic_load(&failing.live_blocks), 0);
    assert_int_equal(shoal_status_code(statuses[0]), shoal_status_code(statuses[1]));
    const shoal_code_t code = shoal_status_code(status);
    shoal_status_free(status);
    shoal_status_free(statuses[0]);
    shoal_status_free(statuses[1]);
    if (code == SHOAL_OK) break;
    assert_int_equal(code, SHOAL_OUT_OF_MEMORY);
    ++failed;
  }
  assert_true(failed >= 8);
}

static double cpu_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
         (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

// Rank 0 waits two seconds for rank 1 in an exchange, then in a collective; what that costs it, of
// a core.
static shoal_status_t blocked(shoal_world_t *world, void *self) {
  const double limit = *(const double *)self;
  const int32_t me = shoal_world_rank(world);
  float data[3000] = {0};
  shoal_message_t message = {1 - me, 1, 1, data};
  shoal_exchange_t exchange;
  shoal_group_t *group;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, 2, NULL, &group));
  for (int part = 0; part < 2; ++part) {
    SHOAL_RETURN_IF_ERROR(shoal_barrier(group));
    const double before = cpu_seconds();
    if (me == 1) sleep(2);
    if (part == 0) {
      SHOAL_RETURN_IF_ERROR(
          shoal_exchange_start(world, me == 1, &message, me == 0, &message, &exchange));
      SHOAL_RETURN_IF_ERROR(shoal_exchange_wait(&exchange));
    } else {
      SHOAL_RETURN_IF_ERROR(shoal_all_reduce(group, SHOAL_F32, SHOAL_REDUCE_SUM, 3000, data, data));
    }
    const double used = (cpu_seconds() - before) / 2;
    printf("rank %d %s with %.1f %% of a core\n", me,
           me     ? "slept"
           : part ? "was blocked in a collective"
                  : "was blocked in an exchange",
           used * 100);
    CHECK(used < limit, "a blocked rank used %.3f of a core for 2 s", used);
  }
  shoal_group_free(group);
  return NULL;
}

// To be killed from outside.
static shoal_status_t sleeps(shoal_world_t *world, void *self) {
  (void)self;
  printf("up %d pid %d\n", shoal_world_rank(world), (int)getpid());
  fflush(stdout);
  return shoal_world_rank(world) == 1 ? (sleep(60), NULL) : shoal_world_agree(world, NULL);
}

// Talks until the line between the hosts is cut.
static shoal_status_t cut(shoal_world_t *world, void *self) {
  (void)self;
  for (int i = 0; i < 100000; ++i) {
    if (i == 10) {
      printf("up %d\n", shoal_world_rank(world));
      fflush(stdout);
    }
    SHOAL_RETURN_IF_ERROR(shoal_world_agree(world, NULL));
    usleep(1000);
  }
  return NULL;
}

// For mpirun and srun: every rank is one of these, then ends with 0 though its world is broken.
static int join_case(const char *name) {
  static int32_t who = 1;
  static double share = 0.2;
  static const shoal_world_options_t short_time = {.timeout_ms = SHORT_MS};
  const joined_case_t joined[] = {
      {"abort", NULL, aborts, &who},
      {"agree", NULL, agrees, NULL},
      {"deadline", &short_time, deadline, NULL},
      {"send", &short_time, deadline_send, NULL},
      {"leave", NULL, leaves, NULL},
      {"blocked", NULL, blocked, &share},
      {"sleep", NULL, sleeps, NULL},
      {"cut", NULL, cut, NULL},
  };
  return run_joined_case(name, sizeof joined / sizeof *joined, joined);
}

int main(int argc, char **argv) {
  if (argc > 2 && strcmp(argv[1], "join") == 0) return join_case(argv[2]);
  const struct CMUnitTest tests[] = {

      cmocka_unit_test(test_abort),
      cmocka_unit_test(test_abort_beside_reading),
      cmocka_unit_test(test_agree),
      cmocka_unit_test(test_deadline),
      cmocka_unit_test(test_leave),
      cmocka_unit_test(test_killed),
      cmocka_unit_test(test_death_seen_by_peers),
      cmocka_unit_test(test_bad_arguments),
      cmocka_unit_test(test_nth_allocation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
