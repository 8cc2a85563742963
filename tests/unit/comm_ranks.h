// Running a function on every rank of a world: alone, as threads, or as processes. What the tests
// of comm share. cmocka's assertions belong to the main thread, so rank functions return statuses.
#ifndef SHOAL_TESTS_UNIT_COMM_RANKS_H_
#define SHOAL_TESTS_UNIT_COMM_RANKS_H_

#include "base/status.h"
#include "base/thread.h"
#include "launch/launch.h"
#include "shoal/comm.h"
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

typedef struct rank_thread {
  shoal_thread_t thread;
  shoal_world_t *world;
  rank_fn_t function;
  void *self;
  shoal_status_t status;
} rank_thread_t;

static void run_rank_thread(void *self) {
  rank_thread_t *rank = self;
  rank->status = rank->function(rank->world, rank->self);
  shoal_world_release(rank->world);
}

// Returns rank i's status in out_statuses[i].
static inline void run_threads_statuses(const shoal_world_options_t *options, int32_t n,
                                        rank_fn_t function, void *self,
                                        shoal_status_t *out_statuses) {
  shoal_world_t *worlds[MAX_RANKS];
  rank_thread_t ranks[MAX_RANKS] = {0};
  assert_ok(shoal_world_threads(options, n, worlds));
  for (int32_t i = 0; i < n; ++i) {
    ranks[i] = (rank_thread_t){.world = worlds[i], .function = function, .self = self};
    assert_ok(shoal_thread_start(run_rank_thread, &ranks[i], &ranks[i].thread));
  }
  for (int32_t i = 0; i < n; ++i) {
    shoal_thread_join(&ranks[i].thread);
    out_statuses[i] = ranks[i].status;
  }
}

// Every rank must succeed.
static inline void run_threads(const shoal_world_options_t *options, int32_t n, rank_fn_t function,
                               void *self) {
  shoal_status_t statuses[MAX_RANKS], first = NULL;
  run_threads_statuses(options, n, function, self, statuses);
  for (int32_t i = 0; i < n; ++i) {
    statuses[i] = shoal_status_annotatef(statuses[i], "rank %d of %d", i, n);
    if (first) {
      shoal_status_free(statuses[i]);
    } else {
      first = statuses[i];
    }
  }
  assert_ok(first);
}

typedef struct rank_process {
  const shoal_world_options_t *options;
  rank_fn_t function;
  void *self;
} rank_process_t;

static int run_rank_process(void *self, int rank) {
  const rank_process_t *process = self;
  shoal_world_t *world = NULL;
  shoal_status_t status = shoal_world_join(process->options, &world);
  if (!status && shoal_world_rank(world) != rank) status = SHOAL_ERROR(INTERNAL, "not my rank");
  if (!status) status = process->function(world, process->self);
  shoal_world_release(world);
  if (status) fprintf(stderr, "%s\n", shoal_status_message(status));
  int code = shoal_code_exit(shoal_status_code(status));
  shoal_status_free(status);
  return code;
}

SHOAL_MUST_USE static inline shoal_status_t run_processes(const shoal_world_options_t *options,
                                                          int32_t n, rank_fn_t function,
                                                          void *self) {
  rank_process_t process = {options, function, self};
  return shoal_launch_processes(&(shoal_launch_options_t){.size = n}, run_rank_process, &process);
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
