// Ranks that do not do the same must hear of it by name, all of them, before any data is touched:
// other kinds, types, sizes, counts, roots, orders. Also run by tests/mpi_failures.sh.
// links: launch
#include <stdlib.h>
#include <unistd.h>

#include "comm_ranks.h"

#define SHORT_MS 300  // where a time limit must pass

typedef struct sides {
  int32_t send_tag, recv_tag;
  int64_t send_bytes, recv_bytes;
} sides_t;

// Rank 0 sends, rank 1 receives something else; both must hear of it.
static shoal_status_t mismatch(shoal_world_t *world, void *self) {
  const sides_t *sides = self;
  char data[64] = {0};
  shoal_message_t send = {1, sides->send_tag, sides->send_bytes, data};
  shoal_message_t recv = {0, sides->recv_tag, sides->recv_bytes, data};
  shoal_message_t answer = {1 - shoal_world_rank(world), 9, 1, data};
  shoal_exchange_t exchange;
  shoal_status_t status = shoal_world_rank(world) == 0
                              ? shoal_exchange_start(world, 1, &send, 0, NULL, &exchange)
                              : shoal_exchange_start(world, 0, NULL, 1, &recv, &exchange);
  if (!status) status = shoal_exchange_wait(&exchange);
  if (!status &&
      shoal_world_rank(world) == 0) {  // a small send is done before the other side looks
    status = shoal_exchange_start(world, 0, NULL, 1, &answer, &exchange);
    if (!status) status = shoal_exchange_wait(&exchange);
  }
  CHECK_ERROR(MISMATCH, "rank 1 expects tag", status);
  CHECK_ERROR(MISMATCH, "rank 0 sent tag", shoal_world_agree(world, NULL));
  return NULL;
}

static shoal_status_t other_collective(shoal_world_t *world, void *self) {
  (void)self;
  shoal_group_t *group;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, 2, NULL, &group));
  int32_t data[4] = {0};
  shoal_status_t status = shoal_world_rank(world) == 0
                              ? shoal_all_reduce(group, SHOAL_I32, SHOAL_REDUCE_SUM, 2, data, data)
                              : shoal_all_reduce(group, SHOAL_F32, SHOAL_REDUCE_SUM, 2, data, data);
  if (!status) status = shoal_barrier(group);
  CHECK_ERROR(MISMATCH, "all_reduce of f32 by sum", status);
  shoal_group_free(group);
  return NULL;
}

// A reduction in any order is not the same call as one in the fixed order.
static shoal_status_t other_order(shoal_world_t *world, void *self) {
  (void)self;
  shoal_group_t *group;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, 2, NULL, &group));
  float data[3000] = {0};
  const shoal_collective_t c = {.kind = SHOAL_COLLECTIVE_ALL_REDUCE,
                                .dtype = SHOAL_F32,
                                .reduce = SHOAL_REDUCE_SUM,
                                .any_order = shoal_world_rank(world) == 0,
                                .count = 3000,
                                .send = data,
                                .recv = data};
  CHECK_ERROR(MISMATCH, "all_reduce of f32 by sum in any order", shoal_collective_run(group, &c));
  shoal_group_free(group);
  return NULL;
}

// Three ranks: while the last one is away, one waits for a message and one, over MPI, inside MPI's
// own collective. `self`: the last one aborts; else it comes too late, or with other counts, which
// may be so few that MPI's own is not for them.
typedef enum late { LATE_ABORTS, LATE_COMES_TOO_LATE, LATE_HAS_LESS, LATE_HAS_FEW } late_t;
static shoal_status_t any_order_late(shoal_world_t *world, void *self) {
  const late_t late = *(const late_t *)self;
  const int32_t me = shoal_world_rank(world);
  shoal_group_t *group;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, 3, NULL, &group));
  static float data[3][30000];
  shoal_collective_t c = {.kind = SHOAL_COLLECTIVE_ALL_REDUCE,
                          .dtype = SHOAL_F32,
                          .reduce = SHOAL_REDUCE_SUM,
                          .any_order = true,
                          .count = 30000,
                          .send = data[me],
                          .recv = data[me]};
  SHOAL_RETURN_IF_ERROR(shoal_collective_run(group, &c));
  if (me == 2 && late == LATE_ABORTS) {
    shoal_status_t reason = SHOAL_ERROR(IO, "out of paper");
    shoal_world_abort(world, reason);
    shoal_status_free(reason);
  }
  if (me == 2 && late == LATE_COMES_TOO_LATE) usleep(2 * SHORT_MS * 1000);
  if (me == 2) c.count = late == LATE_HAS_FEW ? 4 : 29999;
  shoal_status_t status = shoal_collective_run(group, &c);
  if (late == LATE_ABORTS) CHECK_ERROR(ABORTED, "out of paper", status);
  if (late == LATE_COMES_TOO_LATE) CHECK_ERROR(DEADLINE, "no progress", status);
  if (late == LATE_HAS_LESS) CHECK_ERROR(MISMATCH, "29999", status);
  if (late == LATE_HAS_FEW) {
    CHECK(strstr(shoal_status_message(status), " 30000 elements"), "%s",
          shoal_status_message(status));
    CHECK_ERROR(MISMATCH, "rank 2 composes it of messages, here one of 16 bytes", status);
  }
  sleep(2);  // a launcher may end the others when the first one ends
  shoal_group_free(group);
  return NULL;
}

// Where ranks work on each other's buffers, a wrong size must be seen before anything is touched.
static shoal_status_t other_sizes(shoal_world_t *world, void *self) {
  const bool all_to_all = self != NULL;
  const int32_t me = shoal_world_rank(world);
  shoal_group_t *group;
  float *data;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, 2, NULL, &group));
  SHOAL_RETURN_IF_ERROR(shoal_comm_alloc(world, 100000 * sizeof *data, (void **)&data));
  for (int i = 0; i < 100000; ++i) data[i] = 1;
  SHOAL_RETURN_IF_ERROR(shoal_barrier(group));
  const int64_t sends[2] = {10, me == 0 ? 11 : 10}, recvs[2] = {10, 10};
  shoal_status_t status =
      all_to_all ? shoal_all_to_all(group, SHOAL_F32, sends, data, recvs, data + 50000)
                 : shoal_all_reduce(group, SHOAL_F32, SHOAL_REDUCE_SUM, 40000 + me, data, data);
  if (all_to_all) {
    CHECK_ERROR(MISMATCH, "rank 1 expects 40 bytes of all_to_all from rank 0, but rank 0 sent 44",
                status);
  } else {
    CHECK_ERROR(MISMATCH, "160004 bytes", status);
  }
  for (int i = 0; i < 100000; ++i) CHECK(data[i] == 1, "element %d was written", i);
  shoal_comm_release(world, data);
  shoal_group_free(group);
  return NULL;
}

static void test_mismatch(void **state) {
  (void)state;
  sides_t tags = {5, 6, 8, 8}, bytes = {5, 5, 8, 12}, none = {1, 2, 0, 0};
  run_threads(NULL, 2, mismatch, &tags);
  run_threads(NULL, 2, mismatch, &bytes);
  run_threads(NULL, 2, mismatch, &none);
  assert_ok(run_processes(NULL, 2, mismatch, &tags));
  run_threads(NULL, 2, other_collective, NULL);
  run_threads(NULL, 2, other_order, NULL);
  run_threads(NULL, 2, other_sizes, NULL);
  run_threads(NULL, 2, other_sizes, &tags);
  assert_ok(run_processes(NULL, 2, other_sizes, NULL));
  assert_ok(run_processes(NULL, 2, other_sizes, &tags));
}

// Counts that differ between ranks and have the same sum: only the last rank's are others. Whoever
// is told leaves its results alone; nobody writes beyond them.
typedef struct other_counts {
  shoal_collective_kind_t kind;
  int64_t each, more;  // elements; the last rank's counts of ranks 0 and 1 are that much apart
  bool alloc;          // buffers that all ranks can address, also where they are processes
  bool first;          // the group's first call
} other_counts_t;

#define GUARD 64  // elements behind each buffer

static shoal_status_t buffer_of(shoal_world_t *world, bool alloc, int64_t count, float value,
                                float **out_data) {
  const int64_t bytes = (count + GUARD) * (int64_t)sizeof **out_data;
  if (alloc) SHOAL_RETURN_IF_ERROR(shoal_comm_alloc(world, bytes, (void **)out_data));
  if (!alloc) *out_data = malloc((size_t)bytes);
  for (int64_t i = 0; i < count + GUARD; ++i) (*out_data)[i] = value;
  return NULL;
}

static shoal_status_t other_counts(shoal_world_t *world, void *self) {
  const other_counts_t *o = self;
  const int32_t me = shoal_world_rank(world), n = shoal_world_size(world);
  const bool gathers = o->kind == SHOAL_COLLECTIVE_GATHER || o->kind == SHOAL_COLLECTIVE_ALL_GATHER;
  int64_t counts[MAX_RANKS];
  for (int32_t i = 0; i < n; ++i) counts[i] = o->each;
  if (me == n - 1) counts[0] += o->more;
  if (me == n - 1) counts[1] -= o->more;
  const int64_t recv_count = gathers ? n * o->each : counts[me];
  float *send = NULL, *recv = NULL;
  shoal_group_t *group;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, n, NULL, &group));
  SHOAL_RETURN_IF_ERROR(
      buffer_of(world, o->alloc, gathers ? counts[me] : n * o->each, 10 + (float)me, &send));
  SHOAL_RETURN_IF_ERROR(buffer_of(world, o->alloc, recv_count, -1, &recv));
  // Some may still be in it when the last rank is told already.
  shoal_status_t status = o->first ? NULL : shoal_barrier(group);
  shoal_collective_t c = {.kind = o->kind, .dtype = SHOAL_F32, .send = send, .recv = recv};
  *(gathers ? &c.recv_counts : &c.send_counts) = counts;
  if (!status) status = shoal_collective_run(group, &c);
  // Who waits for nobody else's data need not know yet, but must when it next meets the others.
  const bool told = status != NULL;
  const bool may_go_on = o->kind == SHOAL_COLLECTIVE_SCATTER  ? me != n - 1
                         : o->kind == SHOAL_COLLECTIVE_GATHER ? me != 0
                                                              : false;
  CHECK(told || may_go_on, "rank %d was not told", me);
  if (!told) status = shoal_barrier(group);
  CHECK_ERROR(MISMATCH, "other counts of the same sum", status);
  for (int64_t i = told ? 0 : recv_count; i < recv_count + GUARD; ++i) {
    CHECK(recv[i] == -1, "element %lld was written", (long long)i);
  }
  if (o->alloc) {
    shoal_comm_release(world, send);
    shoal_comm_release(world, recv);
  } else {
    free(send);
    free(recv);
  }
  shoal_group_free(group);
  return NULL;
}

static void test_other_counts(void **state) {
  (void)state;
  const shoal_collective_kind_t kinds[] = {SHOAL_COLLECTIVE_GATHER, SHOAL_COLLECTIVE_ALL_GATHER,
                                           SHOAL_COLLECTIVE_SCATTER,
                                           SHOAL_COLLECTIVE_REDUCE_SCATTER};
  // In the slot, in the slot by one rank's counts only, directly or through buffers in between.
  const int64_t sizes[][2] = {{4, 2}, {1200, 1150}, {100000, 70000}};
  for (int at = 0; at < 4 * 3 * 2 * 2; ++at) {
    other_counts_t o = {.kind = kinds[at % 4],
                        .each = sizes[at / 4 % 3][0],
                        .more = sizes[at / 4 % 3][1],
                        .alloc = at / 12 % 2,
                        .first = at / 24};
    run_threads(NULL, 2, other_counts, &o);
    run_threads(NULL, 3, other_counts, &o);
    assert_ok(run_processes(NULL, 2, other_counts, &o));
    assert_ok(run_processes(NULL, 3, other_counts, &o));
  }
}

// A call that waits for nobody is compared when the group next meets.
static shoal_status_t other_roots(shoal_world_t *world, void *self) {
  const int32_t me = shoal_world_rank(world);
  char data[16] = {0};
  shoal_group_t *group;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, 2, NULL, &group));
  if (self) SHOAL_RETURN_IF_ERROR(shoal_barrier(group));
  shoal_status_t status = shoal_broadcast(group, data, 16, me);
  if (!status) status = shoal_barrier(group);
  CHECK_ERROR(MISMATCH, "broadcast from group rank 1, 16 bytes", status);
  shoal_group_free(group);
  return NULL;
}

// What the first call of a group says is what its ranks do, not how they find where to meet.
static shoal_status_t first_call(shoal_world_t *world, void *self) {
  (void)self;
  float data[4] = {0};
  shoal_group_t *group;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, 2, NULL, &group));
  shoal_status_t status = shoal_world_rank(world) == 0
                              ? shoal_barrier(group)
                              : shoal_all_reduce(group, SHOAL_F32, SHOAL_REDUCE_SUM, 4, data, data);
  const char *text = shoal_status_message(status);
  CHECK(strstr(text, "does barrier, 0 bytes") && !strstr(text, " 8 bytes"), "text '%s'", text);
  CHECK_ERROR(MISMATCH, "does all_reduce of f32 by sum, 16 bytes", status);
  shoal_group_free(group);
  return NULL;
}

static shoal_status_t first_call_alone(shoal_world_t *world, void *self) {
  (void)self;
  shoal_group_t *group;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, 2, NULL, &group));
  shoal_status_t status = shoal_world_rank(world) == 1 ? shoal_barrier(group) : NULL;
  shoal_group_free(group);
  if (shoal_world_rank(world) == 1) {
    CHECK_ERROR(ABORTED, "rank 0 has left; rank 1 waits in barrier for rank 0", status);
  }
  return NULL;
}

static void test_first_call(void **state) {
  (void)state;
  int32_t later = 1;
  run_threads(NULL, 2, other_roots, NULL);
  run_threads(NULL, 2, other_roots, &later);
  assert_ok(run_processes(NULL, 2, other_roots, NULL));
  assert_ok(run_processes(NULL, 2, other_roots, &later));
  run_threads(NULL, 2, first_call, NULL);
  assert_ok(run_processes(NULL, 2, first_call, NULL));
  run_threads(NULL, 2, first_call_alone, NULL);
}

static void test_self_mismatch(void **state) {
  (void)state;
  shoal_world_t *world;
  assert_ok(shoal_world_threads(&(shoal_world_options_t){.backend = "self"}, 1, &world));
  char data[8] = {0};
  shoal_message_t send = {0, 1, 4, data}, recv = {0, 1, 5, data + 4};
  shoal_exchange_t exchange;
  assert_ok(shoal_exchange_start(world, 1, &send, 1, &recv, &exchange));
  assert_error(MISMATCH, "rank 0 sent tag 1, 4 bytes", shoal_exchange_wait(&exchange));
  shoal_world_release(world);
}

// For mpirun: every rank is one of these, then ends with 0 though its world is broken.
static int join_case(const char *name) {
  static sides_t tags = {5, 6, 8, 8}, bytes = {5, 5, 8, 12}, large = {5, 5, 64, 1 << 20};
  static const shoal_world_options_t short_time = {.timeout_ms = SHORT_MS};
  static late_t aborted = LATE_ABORTS, too_late = LATE_COMES_TOO_LATE, less = LATE_HAS_LESS,
                few = LATE_HAS_FEW;
  const joined_case_t joined[] = {
      {"tags", NULL, mismatch, &tags},
      {"bytes", NULL, mismatch, &bytes},
      {"large", NULL, mismatch, &large},
      {"collective", NULL, other_collective, NULL},
      {"order", NULL, other_order, NULL},
      {"abort3", NULL, any_order_late, &aborted},
      {"late3", &short_time, any_order_late, &too_late},
      {"less3", NULL, any_order_late, &less},
      {"few3", NULL, any_order_late, &few},
  };
  return run_joined_case(name, sizeof joined / sizeof *joined, joined);
}

int main(int argc, char **argv) {
  if (argc > 2 && strcmp(argv[1], "join") == 0) return join_case(argv[2]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_mismatch),
      cmocka_unit_test(test_other_counts),
      cmocka_unit_test(test_first_call),
      cmocka_unit_test(test_self_mismatch),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
