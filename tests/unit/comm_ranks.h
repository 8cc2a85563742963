// Running a function on every rank of a world: alone, as threads, or as processes. What the tests
// of comm share. cmocka's assertions belong to the main thread, so rank functions return statuses.
#ifndef SHOAL_TESTS_UNIT_COMM_RANKS_H_
#define SHOAL_TESTS_UNIT_COMM_RANKS_H_

#include "base/status.h"
#include "shoal/launch.h"
#include "unit.h"

#define MAX_RANKS 16

typedef shoal_status_t (*rank_fn_t)(shoal_world_t *world, void *self);

// CHECK(condition, "rank %d got ...", ...) inside a rank function.
#define CHECK(condition, ...)                                    \
  do {                                                           \
    if (!(condition)) return SHOAL_ERROR(INTERNAL, __VA_ARGS__); \
  } while (0)

// The expression must fail with `code` and a message that contains `part`.
#define CHECK_ERROR(code, part, expr)                                         \
  do {                                                                        \
    shoal_status_t check_status_ = (expr);                                    \
    if (shoal_status_code(check_status_) != SHOAL_##code ||                   \
        !strstr(shoal_status_message(check_status_), (part))) {               \
      return shoal_status_annotate(                                           \
          check_status_ ? check_status_ : SHOAL_ERROR(INTERNAL, "succeeded"), \
          "expected " #code " '" part "' from " #expr);                       \
    }                                                                         \
    shoal_status_free(check_status_);                                         \
  } while (0)

typedef struct rank_call {
  rank_fn_t function;
  void *self;
} rank_call_t;

static inline shoal_status_t run_rank_call(void *self, shoal_world_t *world, int32_t rank) {
  const rank_call_t *call = self;
  CHECK(shoal_world_rank(world) == rank, "rank %d is called %d", shoal_world_rank(world), rank);
  return call->function(world, call->self);
}

static inline shoal_ranks_options_t ranks_like(const shoal_world_options_t *options, int32_t n,
                                               bool processes) {
  shoal_ranks_options_t ranks = {.ranks = n, .processes = processes, .prefix = true};
  if (!options) return ranks;
  ranks.allocator = options->allocator;
  ranks.backend = options->backend;
  ranks.timeout_ms = options->timeout_ms;
  return ranks;
}

// Returns rank i's status in out_statuses[i].
static inline void run_threads_statuses(const shoal_world_options_t *options, int32_t n,
                                        rank_fn_t function, void *self,
                                        shoal_status_t *out_statuses) {
  const shoal_ranks_options_t ranks = ranks_like(options, n, false);
  rank_call_t call = {function, self};
  shoal_status_free(shoal_launch_ranks(&ranks, run_rank_call, &call, out_statuses));
}

// Every rank must succeed.
static inline void run_threads(const shoal_world_options_t *options, int32_t n, rank_fn_t function,
                               void *self) {
  const shoal_ranks_options_t ranks = ranks_like(options, n, false);
  rank_call_t call = {function, self};
  assert_ok(shoal_launch_ranks(&ranks, run_rank_call, &call, NULL));
}

SHOAL_MUST_USE static inline shoal_status_t run_processes(const shoal_world_options_t *options,
                                                          int32_t n, rank_fn_t function,
                                                          void *self) {
  const shoal_ranks_options_t ranks = ranks_like(options, n, true);
  rank_call_t call = {function, self};
  return shoal_launch_ranks(&ranks, run_rank_call, &call, NULL);
}

// For a test program that mpirun, srun or `shoal run` started: this process is one rank of the
// environment's world. Returns the exit code.
static inline int run_joined(const shoal_world_options_t *options, rank_fn_t function, void *self) {
  shoal_world_t *world = NULL;
  shoal_status_t status = shoal_world_join(options, &world);
  if (!status) status = function(world, self);
  if (!status) {
    printf("rank %d of %d over %s: well\n", shoal_world_rank(world), shoal_world_size(world),
           shoal_world_backend(world));
  } else {
    fprintf(stderr, "rank %d: %s: %s\nhint: %s\n", world ? shoal_world_rank(world) : -1,
            shoal_code_name(shoal_status_code(status)), shoal_status_message(status),
            shoal_status_hint(status));
  }
  shoal_world_release(world);
  int code = shoal_code_exit(shoal_status_code(status));
  shoal_status_free(status);
  return code;
}

// The same for one of several cases, by name; 2: there is none of that name.
typedef struct joined_case {
  const char *name;
  const shoal_world_options_t *options;
  rank_fn_t function;
  void *self;
} joined_case_t;

static inline int run_joined_case(const char *name, size_t count, const joined_case_t *cases) {
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(name, cases[i].name) != 0) continue;
    return run_joined(cases[i].options, cases[i].function, cases[i].self);
  }
  return 2;
}

#endif  // SHOAL_TESTS_UNIT_COMM_RANKS_H_
