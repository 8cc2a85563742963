// What the tests of run and session share: ranks as threads, parsed programs, an op without a
// kernel.
#ifndef SHOAL_TESTS_RUN_SUPPORT_H_
#define SHOAL_TESTS_RUN_SUPPORT_H_

#include <stdlib.h>

#include "base/arena.h"
#include "base/status.h"
#include "shoal/device.h"
#include "shoal/launch.h"
#include "shoal/program.h"
#include "unit.h"

#define MOST_RANKS 8

// cmocka's assertions jump and may not be used off the main thread: rank functions return statuses.
#define EXPECT(condition, ...)                                   \
  do {                                                           \
    if (!(condition)) return SHOAL_ERROR(MISMATCH, __VA_ARGS__); \
  } while (0)

typedef shoal_status_t (*rank_fn_t)(void *self, shoal_world_t *world);

typedef struct rank_call {
  rank_fn_t fn;
  void *self;
} rank_call_t;

static inline shoal_status_t run_rank_call(void *self, shoal_world_t *world, int32_t rank) {
  (void)rank;
  const rank_call_t *call = self;
  return call->fn(call->self, world);
}

// Runs fn on n ranks in a new world; statuses[r] is what rank r returned.
static inline void run_ranks_within(int64_t timeout_ms, int32_t n, rank_fn_t fn, void *self,
                                    shoal_status_t *statuses) {
  rank_call_t call = {fn, self};
  const shoal_ranks_options_t options = {.ranks = n, .timeout_ms = timeout_ms};
  shoal_status_free(shoal_launch_ranks(&options, run_rank_call, &call, statuses));
}

static inline void run_ranks(int32_t n, rank_fn_t fn, void *self, shoal_status_t *statuses) {
  run_ranks_within(60000, n, fn, self, statuses);
}

static inline void run_ranks_ok(int32_t n, rank_fn_t fn, void *self) {
  shoal_status_t statuses[MOST_RANKS];
  run_ranks(n, fn, self, statuses);
  for (int32_t r = 0; r < n; ++r) assert_ok(statuses[r]);
}

// ---- an op that only a provider can execute: y = 2 x ----------------------------------

static inline shoal_status_t twice_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  out_types[0] = call->inputs[0];
  return NULL;
}

static inline shoal_registry_t *test_registry(void) {
  static const char *const inputs[] = {"x"}, *const outputs[] = {"y"};
  shoal_registry_t *registry;
  assert_ok(shoal_registry_create(shoal_allocator_system(), &registry));
  assert_ok(shoal_op_register(registry, &(shoal_op_t){.name = "test.twice",
                                                      .doc = "2 x",
                                                      .input_count = 1,
                                                      .inputs = inputs,
                                                      .output_count = 1,
                                                      .outputs = outputs,
                                                      .infer = twice_infer}));
  return registry;
}

static inline shoal_program_t *parse_program(const char *text, const shoal_registry_t *registry) {
  shoal_program_t *program;
  assert_ok(shoal_program_parse("test", text, registry, shoal_allocator_system(), &program));
  return program;
}

#endif  // SHOAL_TESTS_RUN_SUPPORT_H_
