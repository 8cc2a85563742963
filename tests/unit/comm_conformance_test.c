// Conformance of communication backends: one list of cases, run on every backend and number of
// ranks, compared bit by bit with a serial model. Each rank has different data.
// links: launch
#include "comm_cases.h"
#include "comm_cases_more.h"
#include "comm_throttled.h"

typedef shoal_status_t (*case_fn_t)(shoal_group_t *, int32_t, const int32_t *, buffers_t *);
static const struct {
  const char *name;
  case_fn_t run;
} cases[] = {
    {"barrier", case_barrier},       {"broadcast", case_broadcast},
    {"all_reduce", case_all_reduce}, {"reduce_scatter", case_reduce_scatter},
    {"all_gather", case_all_gather}, {"all_to_all", case_all_to_all},
    {"reduce", case_reduce},         {"scan", case_scan},
    {"gather", case_gather},         {"bounded", case_bounded},
    {"large", case_large},           {"any_order", case_any_order},
    {"point", case_point},
};

// Groups: all ranks, all backwards, every second one, each alone
// ----------------------------------------------

static int32_t group_ranks(int kind, int32_t me, int32_t size, int32_t *out_ranks) {
  int32_t count = 0;
  for (int32_t i = 0; i < size; ++i) {
    if (kind == 0) out_ranks[count++] = i;
    if (kind == 1) out_ranks[count++] = size - 1 - i;
    if (kind == 2 && i % 2 == me % 2) out_ranks[count++] = i;
    if (kind == 3 && i == me) out_ranks[count++] = i;
  }
  return count;
}

// Where buffers lie: every rank's private, every rank's node-addressable, or the even ones'
// private.
typedef enum memory { PRIVATE, SHARED, MIXED } memory_t;

static shoal_status_t conformance(shoal_world_t *world, void *self) {
  const memory_t memory = self ? *(const memory_t *)self : PRIVATE;
  buffers_t *buffers = NULL;
  const bool shared = memory == SHARED || (memory == MIXED && shoal_world_rank(world) % 2);
  shoal_status_t status = NULL;
  if (shared) {
    status = shoal_comm_alloc(world, sizeof *buffers, (void **)&buffers);
  } else {
    buffers = malloc(sizeof *buffers);
  }
  for (int kind = 0; kind < 4 && !status; ++kind) {
    int32_t ranks[MAX_RANKS];
    int32_t n = group_ranks(kind, shoal_world_rank(world), shoal_world_size(world), ranks);
    shoal_group_t *group = NULL;
    status = shoal_group_create(world, n, ranks, &group);
    for (size_t c = 0; c < sizeof cases / sizeof *cases && !status; ++c) {
      if (kind > 1 && cases[c].run == case_all_reduce && n > 1) continue;  // time
      status = shoal_status_annotatef(cases[c].run(group, n, ranks, buffers), "%s, group %d",
                                      cases[c].name, kind);
    }
    shoal_group_free(group);
  }
  if (shared) {
    shoal_comm_release(world, buffers);
  } else {
    free(buffers);
  }
  return status;
}

static void test_self(void **state) {
  (void)state;
  run_threads(&(shoal_world_options_t){.backend = "self"}, 1, conformance, NULL);
}

static void test_threads(void **state) {
  (void)state;
  const int32_t counts[] = {1, 2, 3, 4, 7, 8};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
    run_threads(NULL, counts[i], conformance, NULL);
  }
}

static void test_processes(void **state) {
  (void)state;
  const int32_t counts[] = {2, 3, 5};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
    for (memory_t memory = PRIVATE; memory <= MIXED; ++memory) {
      assert_ok(run_processes(NULL, counts[i], conformance, &memory));
    }
  }
}

// Through links: messages that come late change nothing.
static void test_throttle(void **state) {
  (void)state;
  throttle("shoal_cluster: 1\nlink: {latency: 1.0e-6, bandwidth: 1.0e9}\n", "");
  const shoal_world_options_t options = {.backend = "throttle:local"};
#ifdef SHOAL_SANITIZE_THREAD  // time
  const int32_t counts[] = {3};
#else
  const int32_t counts[] = {1, 2, 3, 4};
#endif
  for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
    run_threads(&options, counts[i], conformance, NULL);
  }
  memory_t memory = MIXED;
  assert_ok(run_processes(&options, 3, conformance, &memory));
  run_threads(&(shoal_world_options_t){.backend = "throttle:self"}, 1, conformance, NULL);
  unthrottle();
}

// Every algorithm, also where the table would not choose it.
static void test_algorithms(void **state) {
  (void)state;
  const char *const tables[] = {"*=direct/16K", "*=bounce/16K", "*=composed", "*=inline"};
  for (size_t i = 0; i < sizeof tables / sizeof *tables; ++i) {
    setenv("SHOAL_COMM_TABLE", tables[i], 1);
    run_threads(NULL, 2, conformance, NULL);
    memory_t memory = MIXED;
    assert_ok(run_processes(NULL, 3, conformance, &memory));
#ifndef SHOAL_SANITIZE_THREAD  // time
    run_threads(NULL, 4, conformance, NULL);
    memory = SHARED;
    assert_ok(run_processes(NULL, 2, conformance, &memory));
#endif
  }
  shoal_world_t *world;
  const struct {
    const char *table, *part;
  } wrong[] = {{"all_reduce", "no '=ALGORITHM'"},
               {"all_redoce=inline", "no such collective"},
               {"*=swift", "algorithms are"},
               {"*,m<=3=inline", "a condition is"},
               {"*=bounce/12", "a chunk is"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    setenv("SHOAL_COMM_TABLE", wrong[i].table, 1);
    shoal_status_t status = shoal_world_threads(NULL, 1, &world);
    assert_int_equal(shoal_status_code(status), SHOAL_INVALID_ARGUMENT);
    assert_non_null(strstr(shoal_status_message(status), wrong[i].part));
    shoal_status_free(status);
  }
  unsetenv("SHOAL_COMM_TABLE");
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "join") == 0) return run_joined(NULL, conformance, NULL);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_self),       cmocka_unit_test(test_processes),
      cmocka_unit_test(test_threads),    cmocka_unit_test(test_throttle),
      cmocka_unit_test(test_algorithms),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
