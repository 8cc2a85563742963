// See ranks.h.
#include "ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/thread.h"
#include "launch/launch.h"

typedef struct rank_job {
  cli_rank_fn_t function;
  void *self;
  shoal_world_t *world;
  shoal_status_t status;
} rank_job_t;

static void run_thread(void *self) {
  rank_job_t *job = self;
  job->status = job->function(job->self, job->world);
}

// Ranks agree on an error; "rank 2: " before it says whose it is.
static bool is_alike(shoal_status_t status, shoal_status_t other) {
  return shoal_status_code(status) == shoal_status_code(other) &&
         (strstr(shoal_status_message(other), shoal_status_message(status)) ||
          strstr(shoal_status_message(status), shoal_status_message(other)));
}

static shoal_status_t run_threads(int32_t count, cli_rank_fn_t function, void *self,
                                  shoal_arena_t *arena) {
  shoal_world_t **worlds = SHOAL_NEW(arena, shoal_world_t *, count);
  rank_job_t *jobs = SHOAL_NEW(arena, rank_job_t, count);
  shoal_thread_t *threads = SHOAL_NEW(arena, shoal_thread_t, count);
  if (!worlds || !jobs || !threads) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_world_threads(NULL, count, worlds));
  shoal_status_t status = NULL;
  for (int32_t r = 0; r < count; ++r) {
    jobs[r] = (rank_job_t){function, self, worlds[r], NULL};
    if (!status) status = shoal_thread_start(run_thread, &jobs[r], &threads[r]);
    if (status) shoal_world_abort(worlds[r], status);
  }
  for (int32_t r = 0; r < count; ++r) shoal_thread_join(&threads[r]);
  int32_t first = 0;
  for (int32_t r = 0; r < count; ++r) {
    shoal_status_t other = jobs[r].status;
    if (!status) {
      status = other;
      first = r;
    } else if (other) {
      if (!is_alike(status, other))
        status = shoal_status_annotatef(status, "rank %d fails otherwise (%s: %s), rank %d so", r,
                                        shoal_code_name(shoal_status_code(other)),
                                        shoal_status_message(other), first);
      shoal_status_free(other);
    }
    shoal_world_release(worlds[r]);
  }
  return status;
}

// ---- the launcher's ranks -----------------------------------------------------------------------

bool cli_ranks_given(int argc, char **argv) {
  const char *variable = getenv("SHOAL_RANKS");
  bool given = variable && variable[0];
  for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; ++i)
    given = given || strncmp(argv[i], "-n", 2) == 0 || strcmp(argv[i], "--ranks") == 0 ||
            strncmp(argv[i], "--ranks=", 8) == 0;
  return given;
}

shoal_status_t cli_ranks_threads(cli_ranks_t *ranks, bool *out_told) {
  const char *told = getenv("SHOAL_THREADS");  // by `shoal run --threads`
  *out_told = told != NULL;
  if (!told) return NULL;
  char *end;
  const int64_t count = strtoll(told, &end, 10);
  if (*end || count < 1 || count > SHOAL_LAUNCH_MAX_RANKS)
    return SHOAL_ERROR(INVALID_ARGUMENT,
                       "SHOAL_THREADS is '%s', not a number of ranks from 1 to %d", told,
                       SHOAL_LAUNCH_MAX_RANKS);
  ranks->count = count;
  ranks->threads = true;
  return NULL;
}

shoal_status_t cli_ranks_join(const cli_ranks_t *ranks, shoal_world_t **out_world) {
  shoal_world_t *world = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_world_join(NULL, &world));
  const int32_t size = shoal_world_size(world);
  if (ranks->given && ranks->count != size) {
    shoal_world_release(world);
    return SHOAL_ERROR_HINT(
        INVALID_ARGUMENT, "leave -n to the launcher, or start the command without one",
        "-n %lld, but a launcher started this command on %d ranks", (long long)ranks->count, size);
  }
  *out_world = world;
  return NULL;
}

// ---- one rank, or processes ---------------------------------------------------------------------

static shoal_status_t run_alone(cli_rank_fn_t function, void *self) {
  shoal_world_t *world = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_world_join(NULL, &world));
  shoal_status_t status = function(self, world);
  shoal_world_release(world);
  return status;
}

// What forked ranks share: a pipe on which rank 0 hands its error - all ranks agree on it - to the
// parent.
typedef struct process_job {
  cli_rank_fn_t function;
  void *self;
  int error_pipe[2];
} process_job_t;

enum { ERROR_SIZE = 4096 };  // PIPE_BUF: written in one piece

static int run_process(void *self, int rank) {
  const process_job_t *job = self;
  shoal_status_t status = run_alone(job->function, job->self);
  fflush(stdout);
  int code = shoal_code_exit(shoal_status_code(status));
  if (status && rank == 0) {
    char text[ERROR_SIZE] = {0};
    int length = snprintf(text, sizeof text, "%d%c%s%c%s", (int)shoal_status_code(status), 0,
                          shoal_status_message(status), 0, shoal_status_hint(status));
    size_t size = length < ERROR_SIZE - 1 ? (size_t)length + 1 : ERROR_SIZE;
    if (write(job->error_pipe[1], text, size) < 0) code = shoal_code_exit(SHOAL_IO);
  }
  shoal_status_free(status);
  return code;
}

// The error rank 0 handed over, or `status` itself if there is none: a rank died without a word.
static shoal_status_t handed_over(int pipe_end, shoal_status_t status) {
  char text[ERROR_SIZE + 1] = {0};
  ssize_t size = read(pipe_end, text, ERROR_SIZE);
  if (size <= 2) return status;
  const char *message = text + strlen(text) + 1;
  const char *hint = message + strlen(message) + 1;
  bool has_hint = hint < text + size && hint[0];
  shoal_status_t theirs = shoal_status_create((shoal_code_t)strtol(text, NULL, 10), __FILE__,
                                              __LINE__, message, has_hint ? hint : NULL);
  shoal_status_free(status);
  return theirs;
}

static shoal_status_t run_processes(int32_t count, cli_rank_fn_t function, void *self) {
  process_job_t job = {function, self, {-1, -1}};
  if (pipe2(job.error_pipe, O_CLOEXEC) != 0) return SHOAL_ERROR(IO, "pipe: %s", strerror(errno));
  fflush(stdout);  // or every child would print what is buffered
  shoal_status_t status = shoal_launch_processes(
      &(shoal_launch_options_t){.size = count, .no_prefix = true}, run_process, &job);
  close(job.error_pipe[1]);
  if (status) status = handed_over(job.error_pipe[0], status);
  close(job.error_pipe[0]);
  return status;
}

static shoal_status_t run_joined(const cli_ranks_t *ranks, cli_rank_fn_t function, void *self) {
  shoal_world_t *world = NULL;
  SHOAL_RETURN_IF_ERROR(cli_ranks_join(ranks, &world));
  shoal_status_t status = function(self, world);
  shoal_world_release(world);
  return status;
}

shoal_status_t cli_ranks_run(const cli_ranks_t *ranks, cli_rank_fn_t function, void *self) {
  if (ranks->count < 1 || ranks->count > SHOAL_LAUNCH_MAX_RANKS)
    return SHOAL_ERROR(INVALID_ARGUMENT, "-n %lld: from 1 to %d local ranks",
                       (long long)ranks->count, SHOAL_LAUNCH_MAX_RANKS);
  cli_ranks_t told = *ranks;
  bool is_told = false;
  SHOAL_RETURN_IF_ERROR(cli_ranks_threads(&told, &is_told));
  if (!is_told && shoal_launched()) return run_joined(ranks, function, self);
  const int64_t count = told.count;
  if (count == 1) return run_alone(function, self);
  if (!told.threads) return run_processes((int32_t)count, function, self);
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_status_t status = run_threads((int32_t)count, function, self, &arena);
  shoal_arena_deinit(&arena);
  return status;
}
