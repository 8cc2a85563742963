// Lanes: orders of messages that never hold each other up, nor mix. Threads of a rank use one each,
// in other orders on other ranks, with messages larger than any ring; many are left unreceived
// while others move; groups made on them are apart; reports and errors name them.
// links: launch
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/thread.h"
#include "comm_ranks.h"
#include "comm_throttled.h"

#define LANES 6
static const char *const names[LANES] = {"comm", "grads", "halo", "pipe", "late", "more"};

static uint8_t byte_of(int32_t lane, int64_t round, int64_t i) {
  return (uint8_t)(lane * 67 + round * 13 + i * 7 + (i >> 9));
}

// ---- a thread for each lane -----------------------------------------------------------

#define ROUNDS 30
typedef struct worker {
  shoal_world_t *world;
  shoal_lane_t *lane;
  shoal_group_t *group;
  int32_t number;
  shoal_status_t status;
} worker_t;

static shoal_status_t exchange_once(worker_t *worker, int64_t round, uint8_t *memory) {
  const int32_t n = shoal_world_size(worker->world), me = shoal_world_rank(worker->world);
  // Equal tags and peers on every lane: only the lane tells the messages apart.
  const int64_t bytes = round % 5 == 0 ? 200001 : round % 3 == 0 ? 0 : 40;
  shoal_message_t sends[2], recvs[2];
  for (int i = 0; i < 2; ++i) {
    sends[i] = (shoal_message_t){(me + 1 + i) % n, 7, bytes, memory + i * bytes};
    recvs[i] = (shoal_message_t){(me + 2 * n - 1 - i) % n, 7, bytes, memory + (2 + i) * bytes};
    for (int64_t k = 0; k < bytes; ++k) {
      memory[i * bytes + k] = (uint8_t)(byte_of(worker->number, round, k) + me);
    }
  }
  shoal_exchange_t exchange;
  SHOAL_RETURN_IF_ERROR(shoal_lane_exchange_start(worker->lane, 2, sends, 2, recvs, &exchange));
  SHOAL_RETURN_IF_ERROR(shoal_exchange_wait(&exchange));
  for (int i = 0; i < 2; ++i) {
    for (int64_t k = 0; k < bytes; ++k) {
      const uint8_t expected = (uint8_t)(byte_of(worker->number, round, k) + recvs[i].peer);
      CHECK(memory[(2 + i) * bytes + k] == expected, "lane %d, round %lld: byte %lld",
            worker->number, (long long)round, (long long)k);
    }
  }
  return NULL;
}

static shoal_status_t reduce_once(worker_t *worker, int64_t round) {
  const int32_t n = shoal_world_size(worker->world), me = shoal_world_rank(worker->world);
  int64_t value = 100 * worker->number + 10 * round + me;
  SHOAL_RETURN_IF_ERROR(
      shoal_all_reduce(worker->group, SHOAL_I64, SHOAL_REDUCE_SUM, 1, &value, &value));
  const int64_t expected = n * (100 * worker->number + 10 * round) + n * (n - 1) / 2;
  CHECK(value == expected, "lane %d, round %lld: %lld", worker->number, (long long)round,
        (long long)value);
  return NULL;
}

static void work(void *self) {
  worker_t *worker = self;
  uint8_t *memory = malloc(4 * 200001);
  for (int64_t round = 0; round < ROUNDS && !worker->status; ++round) {
    worker->status = exchange_once(worker, round, memory);
    if (!worker->status) worker->status = reduce_once(worker, round);
  }
  free(memory);
  if (worker->status) shoal_world_abort(worker->world, worker->status);
}

static shoal_status_t threads_of_lanes(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t n = shoal_world_size(world), me = shoal_world_rank(world);
  worker_t workers[LANES] = {0};
  shoal_thread_t threads[LANES];
  shoal_status_t status = NULL;
  // Each rank makes and starts them in another order.
  for (int32_t i = 0; i < LANES && !status; ++i) {
    const int32_t at = me % 2 ? LANES - 1 - i : (i + me) % LANES;
    workers[at] = (worker_t){.world = world, .number = at};
    status = shoal_lane_create(world, names[at], &workers[at].lane);
    if (!status) status = shoal_lane_group_create(workers[at].lane, n, NULL, &workers[at].group);
  }
  if (status) return status;
  for (int32_t i = 0; i < LANES; ++i) {
    const int32_t at = me % 2 ? LANES - 1 - i : (i + me) % LANES;
    SHOAL_RETURN_IF_ERROR(shoal_thread_start(work, &workers[at], &threads[at]));
  }
  for (int32_t i = 0; i < LANES; ++i) shoal_thread_join(&threads[i]);
  for (int32_t i = 0; i < LANES; ++i) {
    shoal_group_free(workers[i].group);
    shoal_lane_free(workers[i].lane);
    if (status) {
      shoal_status_free(workers[i].status);
    } else {
      status = workers[i].status;
    }
  }
  return status;
}

// ---- many are late --------------------------------------------------------------------

// Rank 0 sends on every lane before rank 1 receives on any: in the opposite order, one by one. The
// messages are small, as on their way already, and large, as waiting for room.
#define MANY 24
static shoal_status_t late_receivers(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t me = shoal_world_rank(world);
  enum { LARGE = 100000 };
  shoal_lane_t *lanes[MANY];
  shoal_exchange_t exchanges[MANY];
  shoal_message_t messages[MANY];
  uint8_t *memory = malloc(MANY * LARGE);
  for (int32_t i = 0; i < MANY; ++i) {
    char name[16];
    snprintf(name, sizeof name, "many %d", i);
    SHOAL_RETURN_IF_ERROR(shoal_lane_create(world, name, &lanes[i]));
    messages[i] = (shoal_message_t){1 - me, 3, i % 2 ? 8 : LARGE, memory + i * LARGE};
    for (int64_t k = 0; k < LARGE; ++k) memory[i * LARGE + k] = me ? 0 : byte_of(i, 0, k);
  }
  for (int32_t i = 0; i < MANY && me == 0; ++i) {
    SHOAL_RETURN_IF_ERROR(
        shoal_lane_exchange_start(lanes[i], 1, &messages[i], 0, NULL, &exchanges[i]));
  }
  for (int32_t i = MANY - 1; i >= 0 && me == 1; --i) {
    SHOAL_RETURN_IF_ERROR(
        shoal_lane_exchange_start(lanes[i], 0, NULL, 1, &messages[i], &exchanges[i]));
    SHOAL_RETURN_IF_ERROR(shoal_exchange_wait(&exchanges[i]));
    for (int64_t k = 0; k < messages[i].bytes; ++k) {
      CHECK(memory[i * LARGE + k] == byte_of(i, 0, k), "lane %d: byte %lld", i, (long long)k);
    }
  }
  for (int32_t i = 0; i < MANY && me == 0; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_exchange_wait(&exchanges[i]));
  }
  SHOAL_RETURN_IF_ERROR(shoal_world_agree(world, NULL));
  for (int32_t i = 0; i < MANY; ++i) shoal_lane_free(lanes[i]);
  free(memory);
  return NULL;
}

// ---- names ----------------------------------------------------------------------------

static shoal_status_t named(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t me = shoal_world_rank(world);
  shoal_lane_t *first, *again;
  shoal_group_t *group;
  CHECK_ERROR(INVALID_ARGUMENT, "a lane has no name", shoal_lane_create(world, "", &first));
  SHOAL_RETURN_IF_ERROR(shoal_lane_create(world, "grads", &first));
  SHOAL_RETURN_IF_ERROR(shoal_lane_create(world, "grads", &again));  // apart from the first
  SHOAL_RETURN_IF_ERROR(shoal_lane_group_create(again, 2, NULL, &group));
  CHECK_ERROR(INVALID_ARGUMENT, "a group of 3 ranks in a world of 2",
              shoal_lane_group_create(again, 3, NULL, &group));
  int64_t sent[2] = {10 + me, 20 + me}, got[2] = {-1, -1};
  shoal_message_t sends[2], recvs[2];
  shoal_exchange_t outs[2], ins[2];
  for (int i = 0; i < 2; ++i) {
    sends[i] = (shoal_message_t){1 - me, 4, 8, &sent[i]};
    recvs[i] = (shoal_message_t){1 - me, 4, 8, &got[i]};
  }
  shoal_lane_t *lanes[2] = {first, again};
  char report[4000];
  for (int i = 1; i >= 0; --i) {
    SHOAL_RETURN_IF_ERROR(shoal_lane_exchange_start(lanes[i], 0, NULL, 1, &recvs[i], &ins[i]));
  }
  SHOAL_RETURN_IF_ERROR(shoal_world_report(world, report, sizeof report));
  CHECK(strstr(report, "tag 4, 8 bytes on lane 'grads'") &&
            strstr(report, "tag 4, 8 bytes on lane 'grads #1'"),
        "the report is %s", report);
  for (int i = 0; i < 2; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_lane_exchange_start(lanes[i], 1, &sends[i], 0, NULL, &outs[i]));
  }
  for (int i = 0; i < 2; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_exchange_wait(&ins[i]));
    SHOAL_RETURN_IF_ERROR(shoal_exchange_wait(&outs[i]));
    CHECK(got[i] == 10 * (i + 1) + 1 - me, "lane %d got %lld", i, (long long)got[i]);
  }
  CHECK_ERROR(INVALID_ARGUMENT, "message 0 to send has peer 5 of 2",
              shoal_lane_exchange_start(first, 1, &(shoal_message_t){.peer = 5}, 0, NULL, outs));
  SHOAL_RETURN_IF_ERROR(shoal_barrier(group));
  SHOAL_RETURN_IF_ERROR(shoal_world_report(world, report, sizeof report));
  CHECK(strstr(report, "barrier, call 1 of ranks 0,1 on grads #1"), "the report is %s", report);
  SHOAL_RETURN_IF_ERROR(shoal_world_agree(world, NULL));
  if (me == 0) {
    sends[0].tag = 5;  // the other rank breaks the world
    SHOAL_RETURN_IF_ERROR(shoal_lane_exchange_start(first, 1, sends, 0, NULL, outs));
    shoal_status_free(shoal_exchange_wait(outs));
  } else {
    SHOAL_RETURN_IF_ERROR(shoal_lane_exchange_start(first, 0, NULL, 1, recvs, ins));
    CHECK_ERROR(MISMATCH, "rank 1 expects tag 4, 8 bytes from rank 0 on lane 'grads', but rank 0",
                shoal_exchange_wait(ins));
  }
  shoal_group_free(group);
  shoal_lane_free(first);
  shoal_lane_free(again);
  shoal_lane_free(NULL);
  return NULL;
}

// ---- alone: each sends itself ---------------------------------------------------------

static shoal_status_t alone(shoal_world_t *world, void *self) {
  (void)self;
  shoal_lane_t *lanes[3];
  shoal_exchange_t ins[3], outs[3];
  shoal_message_t sends[3], recvs[3];
  int64_t sent[3], got[3] = {-1, -1, -1};
  for (int i = 0; i < 3; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_lane_create(world, names[i], &lanes[i]));
    sent[i] = 70 + i;
    sends[i] = (shoal_message_t){0, 1, 8, &sent[i]};
    recvs[i] = (shoal_message_t){0, 1, 8, &got[i]};
    SHOAL_RETURN_IF_ERROR(shoal_lane_exchange_start(lanes[i], 1, &sends[i], 0, NULL, &outs[i]));
  }
  for (int i = 2; i >= 0; --i) {
    SHOAL_RETURN_IF_ERROR(shoal_lane_exchange_start(lanes[i], 0, NULL, 1, &recvs[i], &ins[i]));
    SHOAL_RETURN_IF_ERROR(shoal_exchange_wait(&ins[i]));
    SHOAL_RETURN_IF_ERROR(shoal_exchange_wait(&outs[i]));
    CHECK(got[i] == 70 + i, "lane %d got %lld", i, (long long)got[i]);
    shoal_lane_free(lanes[i]);
  }
  return NULL;
}

// ---- blocked: what it costs -----------------------------------------------------------

static double cpu_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
         (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static void wait_for_one(void *self) {
  worker_t *worker = self;
  uint8_t byte = 0;
  shoal_message_t message = {1 - shoal_world_rank(worker->world), 1, 1, &byte};
  const bool sends = shoal_world_rank(worker->world) == 1;
  shoal_exchange_t e;
  worker->status = shoal_lane_exchange_start(worker->lane, sends, &message, !sends, &message, &e);
  if (!worker->status) worker->status = shoal_exchange_wait(&e);
}

// A thread for each lane waits two seconds for rank 1: all of them together use little of a core.
static shoal_status_t blocked(shoal_world_t *world, void *self) {
  (void)self;
  worker_t workers[LANES] = {0};
  shoal_thread_t threads[LANES];
  for (int32_t i = 0; i < LANES; ++i) {
    workers[i] = (worker_t){.world = world, .number = i};
    SHOAL_RETURN_IF_ERROR(shoal_lane_create(world, names[i], &workers[i].lane));
  }
  SHOAL_RETURN_IF_ERROR(shoal_world_agree(world, NULL));
  const double before = cpu_seconds();
  if (shoal_world_rank(world) == 1) sleep(2);
  for (int32_t i = 0; i < LANES; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_thread_start(wait_for_one, &workers[i], &threads[i]));
  }
  for (int32_t i = 0; i < LANES; ++i) {
    shoal_thread_join(&threads[i]);
    SHOAL_RETURN_IF_ERROR(workers[i].status);
  }
  const double used = (cpu_seconds() - before) / 2;
  SHOAL_RETURN_IF_ERROR(shoal_world_agree(world, NULL));
  for (int32_t i = 0; i < LANES; ++i) shoal_lane_free(workers[i].lane);
  printf("%d threads of rank %d were blocked with %.1f %% of a core\n", LANES,
         shoal_world_rank(world), used * 100);
  CHECK(used < 0.25, "blocked threads used %.3f of a core for 2 s", used);
  return NULL;
}

// Ranks that hold each other up are told so soon.
static const shoal_world_options_t options = {.timeout_ms = 20000};

// ---- where they run -------------------------------------------------------------------

static void test_threads(void **state) {
  (void)state;
  run_threads(&options, 2, threads_of_lanes, NULL);
  run_threads(&options, 3, threads_of_lanes, NULL);
  throttle("shoal_cluster: 1\nlink: {latency: 1.0e-6, bandwidth: 1.0e9}\n", "");
  run_threads(&options, 3, threads_of_lanes, NULL);
  unthrottle();
#ifndef SHOAL_SANITIZE_THREAD  // which does not support threads after fork
  assert_ok(run_processes(&options, 2, threads_of_lanes, NULL));
#endif
}

static void test_late(void **state) {
  (void)state;
  run_threads(&options, 2, late_receivers, NULL);
  throttle("shoal_cluster: 1\nlink: {latency: 1.0e-6, bandwidth: 1.0e9}\n", "");
  run_threads(&options, 2, late_receivers, NULL);
  unthrottle();
  assert_ok(run_processes(&options, 2, late_receivers, NULL));
}

static void test_names(void **state) {
  (void)state;
  run_threads(&options, 2, named, NULL);
}

static void test_alone(void **state) {
  (void)state;
  run_threads(&(shoal_world_options_t){.backend = "self"}, 1, alone, NULL);
  run_threads(NULL, 1, alone, NULL);
}

int main(int argc, char **argv) {
  if (argc > 2 && strcmp(argv[1], "join") == 0) {
    const joined_case_t cases[] = {{"threads", NULL, threads_of_lanes, NULL},
                                   {"late", NULL, late_receivers, NULL},
                                   {"blocked", NULL, blocked, NULL}};
    return run_joined_case(argv[2], 3, cases);
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads), cmocka_unit_test(test_late),
                                     cmocka_unit_test(test_names), cmocka_unit_test(test_alone)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
