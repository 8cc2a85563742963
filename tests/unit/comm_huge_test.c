// Messages and buffers over 2 GiB, with counts that an int does not hold: between two ranks, on
// every backend; over MPI by tests/mpi_huge.sh. Pages that nobody wrote cost no memory: what is
// sent is zero but for marks around every power of two where a count could be cut off.
// labels: slow
// links: launch
#include <sys/mman.h>

#include "comm_ranks.h"
#include "comm_throttled.h"

#define GIB (INT64_C(1) << 30)
#define BYTES (2 * GIB + 12345)

// Marks, different for each rank and place; elsewhere 0. Maxima keep them.
static const int64_t marks[] = {0,       1,           GIB - 1,     GIB,           2 * GIB - 2,
                                2 * GIB, 2 * GIB - 1, 2 * GIB + 1, BYTES / 2 + 7, BYTES - 1};
enum { MARKS = sizeof marks / sizeof *marks };

static uint8_t mark(int32_t rank, int i) {
  return (uint8_t)(10 + 20 * rank + i);
}

static uint8_t *map(int64_t bytes) {
  void *memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

static void write_marks(uint8_t *data, int32_t rank) {
  for (int i = 0; i < MARKS; ++i) data[marks[i]] = mark(rank, i);
}

// Every mark of that rank is there, and nothing else.
static shoal_status_t check_marks(uint8_t *data, int32_t rank, const char *what) {
  for (int i = 0; i < MARKS; ++i) {
    CHECK(data[marks[i]] == mark(rank, i), "%s: %d at %lld", what, data[marks[i]],
          (long long)marks[i]);
    data[marks[i]] = 0;
  }
  uint64_t word;
  for (int64_t at = 0; at + 8 <= BYTES; at += 8) {
    memcpy(&word, data + at, sizeof word);
    CHECK(word == 0, "%s: bytes at %lld are not 0", what, (long long)at);
  }
  return NULL;
}

static shoal_status_t message(shoal_world_t *world, uint8_t *data) {
  const int32_t me = shoal_world_rank(world);
  if (me == 0) write_marks(data, 0);
  shoal_message_t m = {1 - me, 3, BYTES, data};
  shoal_exchange_t e;
  SHOAL_RETURN_IF_ERROR(shoal_exchange_start(world, me == 0, &m, me == 1, &m, &e));
  SHOAL_RETURN_IF_ERROR(shoal_exchange_wait(&e));
  return me == 1 ? check_marks(data, 0, "message") : NULL;
}

// More elements than an int counts. In place; rank 1's marks are the larger ones.
static shoal_status_t reduce(shoal_world_t *world, shoal_group_t *group, uint8_t *data,
                             bool any_order) {
  write_marks(data, shoal_world_rank(world));
  SHOAL_RETURN_IF_ERROR(
      shoal_collective_run(group, &(shoal_collective_t){.kind = SHOAL_COLLECTIVE_ALL_REDUCE,
                                                        .dtype = SHOAL_U8,
                                                        .reduce = SHOAL_REDUCE_MAX,
                                                        .any_order = any_order,
                                                        .count = BYTES,
                                                        .send = data,
                                                        .recv = data}));
  return check_marks(data, 1, any_order ? "all_reduce in any order" : "all_reduce");
}

// Parts whose offset, and one whose size, an int of bytes does not hold.
static shoal_status_t gather(shoal_world_t *world, shoal_group_t *group, float *data) {
  const int64_t counts[2] = {BYTES / 4 - 3, 3};
  const float own[3] = {5, 6, 7};
  const int32_t me = shoal_world_rank(world);
  const int64_t last = counts[0] - 1;
  if (me == 0) data[0] = 1, data[last / 2] = 2, data[last] = 3;
  SHOAL_RETURN_IF_ERROR(shoal_all_gather(group, SHOAL_F32, counts, me == 0 ? data : own, data));
  CHECK(data[0] == 1 && data[last / 2] == 2 && data[last] == 3 && data[last + 1] == 5 &&
            data[last + 2] == 6 && data[last + 3] == 7,
        "all_gather: %g %g %g, %g %g %g", data[0], data[last / 2], data[last], data[last + 1],
        data[last + 2], data[last + 3]);
  return NULL;
}

// One kind after the other, each on fresh pages. `self`: "m", "r", "g", "a" (any order).
static shoal_status_t huge(shoal_world_t *world, void *self) {
  shoal_group_t *group;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, 2, NULL, &group));
  for (const char *kind = self; *kind; ++kind) {
    uint8_t *data = map(BYTES + 8);
    if (!data) return SHOAL_OOM();
    shoal_status_t status = *kind == 'm'   ? message(world, data)
                            : *kind == 'g' ? gather(world, group, (float *)(void *)data)
                                           : reduce(world, group, data, *kind == 'a');
    munmap(data, (size_t)BYTES + 8);
    SHOAL_RETURN_IF_ERROR(status);
  }
  shoal_group_free(group);
  return shoal_world_agree(world, NULL);
}

static void test_local(void **state) {
  (void)state;
  run_threads(NULL, 2, huge, "mrg");
  assert_ok(run_processes(NULL, 2, huge, "mr"));
}

static void test_throttle(void **state) {
  (void)state;
  throttle("shoal_cluster: 1\nlink: {latency: 1.0e-6, bandwidth: 1.0e12}\n", "");
  run_threads(NULL, 2, huge, "mg");
  unthrottle();
}

int main(int argc, char **argv) {
  if (argc > 2 && strcmp(argv[1], "join") == 0) return run_joined(NULL, huge, argv[2]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_local), cmocka_unit_test(test_throttle)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
