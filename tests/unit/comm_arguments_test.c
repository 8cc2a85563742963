// Calls that cannot be carried out are errors on every rank, before anything is touched.
// links: launch
#include <stdlib.h>

#include "comm_ranks.h"

// A buffer that is missing, for every kind that needs one.
static shoal_status_t missing_buffer(shoal_world_t *world, void *self) {
  const shoal_collective_kind_t kind = *(const shoal_collective_kind_t *)self;
  const int64_t counts[2] = {2, 2};
  float data[4] = {0};
  shoal_group_t *group;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, 2, NULL, &group));
  shoal_collective_t c = {.kind = kind, .dtype = SHOAL_F32, .send = data, .recv = data};
  switch (kind) {
    case SHOAL_COLLECTIVE_GATHER:
    case SHOAL_COLLECTIVE_ALL_GATHER:
      c.recv_counts = counts;
      break;
    case SHOAL_COLLECTIVE_SCATTER:
    case SHOAL_COLLECTIVE_REDUCE_SCATTER:
      c.send_counts = counts;
      break;
    case SHOAL_COLLECTIVE_ALL_TO_ALL:
      c.send_counts = c.recv_counts = counts;
      break;
    default:
      c.count = 2;
  }
  if (shoal_world_rank(world) == 0) c.send = c.recv = NULL;
  shoal_status_t status = shoal_collective_run(group, &c);
  if (!status) status = shoal_barrier(group);  // where rank 1 needs nothing of rank 0
  shoal_group_free(group);
  CHECK_ERROR(INVALID_ARGUMENT, "but no buffer", status);
  return NULL;
}

static void test_missing_buffer(void **state) {
  (void)state;
  for (int kind = 0; kind < SHOAL_COLLECTIVE_COUNT; ++kind) {
    shoal_collective_kind_t wanted = (shoal_collective_kind_t)kind;
    if (kind == SHOAL_COLLECTIVE_BARRIER) continue;
    run_threads(NULL, 2, missing_buffer, &wanted);
    assert_ok(run_processes(NULL, 2, missing_buffer, &wanted));
  }
}

static shoal_status_t negative_count(shoal_world_t *world, void *self) {
  (void)self;
  double data = 0;
  shoal_group_t *group;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, 2, NULL, &group));
  shoal_status_t status = shoal_all_reduce(group, SHOAL_F64, SHOAL_REDUCE_SUM,
                                           shoal_world_rank(world) == 0 ? -1 : 1, &data, &data);
  shoal_group_free(group);
  CHECK_ERROR(INVALID_ARGUMENT, "a count of -1", status);
  return NULL;
}

static void test_negative_count(void **state) {
  (void)state;
  run_threads(NULL, 2, negative_count, NULL);
}

static shoal_status_t meet(shoal_world_t *world, void *self) {
  (void)self;
  return shoal_world_agree(world, NULL);
}

// In nanoseconds these would not fit.
static void test_long_timeout(void **state) {
  (void)state;
  run_threads(&(shoal_world_options_t){.timeout_ms = INT64_MAX}, 3, meet, NULL);
  assert_ok(run_processes(&(shoal_world_options_t){.timeout_ms = INT64_MAX}, 2, meet, NULL));
}

static void test_questions(void **state) {
  (void)state;
  bool available = false, seen = false;
  for (int64_t i = 0; shoal_comm_backend(i, &available); ++i) {
    const char *name = shoal_comm_backend(i, NULL);
    if (strcmp(name, "local") == 0) seen = available;
    if (strcmp(name, "nccl") == 0) assert_false(available);
  }
  assert_true(seen);
  assert_null(shoal_comm_backend(-1, NULL));
  shoal_arena_t *arena;
  const char *text;
  assert_ok(shoal_arena_create(shoal_allocator_system(), &arena));
  setenv("SHOAL_COMM_TABLE", "all_reduce,n<=2=bounce/32K", 1);
  assert_ok(shoal_comm_table_print(arena, &text));
  assert_ptr_equal(strstr(text, "all_reduce,n<=2=bounce/32K"), text);
  setenv("SHOAL_COMM_TABLE", "all_reduce=sideways", 1);
  assert_error(INVALID_ARGUMENT, "sideways", shoal_comm_table_print(arena, &text));
  unsetenv("SHOAL_COMM_TABLE");
  shoal_arena_free(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_missing_buffer),
      cmocka_unit_test(test_negative_count),
      cmocka_unit_test(test_long_timeout),
      cmocka_unit_test(test_questions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
