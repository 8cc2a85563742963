// shoal slurm-watch JOB.sbatch [ARGS]: submits a batch job, watches it, and submits it again when
// it fails, a limited number of times and each time after a longer pause. The job sees
// SHOAL_ATTEMPT (0, 1, ...), so that it can resume from its last checkpoint.
//
// Asks sbatch and scontrol only: no accounting database is needed. A job that somebody cancelled
// stays so. Ending slurm-watch leaves the job alone.
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "print.h"
#include "shoal/options.h"

#define CALL_LIMIT_NS INT64_C(60000000000)  // Slurm's clients block while its daemon is away
#define LONGEST_PAUSE_S 600.0
#define SILENCE_LIMIT 60  // questions in a row without an answer

typedef struct watch_options {
  int64_t retries;
  double backoff, poll;
  bool help;
} watch_options_t;

static const shoal_option_t OPTIONS[] = {
    SHOAL_OPTION(watch_options_t, INT, retries, "3", "how often a failed job is submitted again"),
    SHOAL_OPTION(watch_options_t, REAL, backoff, "10",
                 "seconds before the first time; doubled each time, up to ten minutes"),
    SHOAL_OPTION(watch_options_t, REAL, poll, "5", "seconds between looks at the job",
                 .no_environment = true),
    SHOAL_OPTION(watch_options_t, BOOL, help, NULL, "say what the options are", .letter = 'h'),
};
enum { OPTION_COUNT = sizeof OPTIONS / sizeof *OPTIONS };

static void pause_s(double seconds) {
  struct timespec left = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

// ---- asking Slurm ---------------------------------------------------------------------

// Runs a program; its stdout and stderr, as much as fits, in `buffer`. Returns its exit code, -1
// when it could not be run or took too long.
static int call(const char *const *argv, char *buffer, size_t capacity) {
  int ends[2];
  buffer[0] = 0;
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    execvp(argv[0], (char *const *)argv);
    dprintf(STDERR_FILENO, "cannot run '%s': %s", argv[0], strerror(errno));
    _exit(127);
  }
  close(ends[1]);
  const int64_t deadline = cli_time_ns() + CALL_LIMIT_NS;
  size_t used = 0;
  for (;;) {
    struct pollfd one = {.fd = ends[0], .events = POLLIN};
    const int64_t left = (deadline - cli_time_ns()) / 1000000;
    if (left <= 0 && child > 0) kill(child, SIGKILL);
    if (left <= 0 || (poll(&one, 1, (int)left) < 0 && errno != EINTR)) break;
    char spill[512];
    const bool room = used + 1 < capacity;
    const ssize_t got =
        read(ends[0], room ? buffer + used : spill, room ? capacity - 1 - used : sizeof spill);
    if (got == 0 || (got < 0 && errno != EINTR)) break;
    if (got > 0 && room) used += (size_t)got;
  }
  close(ends[0]);
  buffer[used] = 0;
  while (used > 0 && (buffer[used - 1] == '\n' || buffer[used - 1] == ' ')) buffer[--used] = 0;
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

static shoal_status_t submit(const shoal_words_t *words, int64_t attempt, shoal_arena_t *arena,
                             char id[32]) {
  const char **argv = SHOAL_NEW(arena, const char *, words->count + 3);
  if (!argv) return SHOAL_OOM();
  argv[0] = "sbatch";
  argv[1] = "--parsable";
  for (int64_t i = 0; i < words->count; ++i) argv[2 + i] = words->items[i];
  char number[24], answer[1024];
  snprintf(number, sizeof number, "%lld", (long long)attempt);
  setenv("SHOAL_ATTEMPT", number, 1);
  const int code = call(argv, answer, sizeof answer);
  const size_t digits = strspn(answer, "0123456789");  // "12" or "12;cluster"
  if (code != 0 || digits == 0 || digits > 20) {
    const char *why = answer[0] ? answer : "no answer";
    if (code == 127)
      return SHOAL_ERROR_HINT(UNAVAILABLE, "run it where Slurm's commands are installed",
                              "sbatch did not take '%s': %s", words->items[0], why);
    return SHOAL_ERROR(ABORTED, "sbatch did not take '%s': %s", words->items[0], why);
  }
  snprintf(id, 32, "%.*s", (int)digits, answer);
  return NULL;
}

typedef struct job_state {
  char state[32], exit_code[16], reason[64];
} job_state_t;

// The value of " Key=" in scontrol's one line.
static void take(const char *line, const char *key, char *buffer, size_t capacity) {
  const char *at = strstr(line, key);
  buffer[0] = 0;
  if (!at || (at > line && at[-1] != ' ')) return;
  at += strlen(key);
  snprintf(buffer, capacity, "%.*s", (int)strcspn(at, " \n"), at);
}

// False: no answer, which is in `why`.
static bool ask(const char *id, job_state_t *out_state, char *why, size_t capacity) {
  const char *const argv[] = {"scontrol", "-o", "show", "job", id, NULL};
  char line[8192];
  const int code = call(argv, line, sizeof line);
  take(line, "JobState=", out_state->state, sizeof out_state->state);
  take(line, "ExitCode=", out_state->exit_code, sizeof out_state->exit_code);
  take(line, "Reason=", out_state->reason, sizeof out_state->reason);
  snprintf(why, capacity, "%.200s", line);
  return code == 0 && out_state->state[0];
}

// ---- watching -------------------------------------------------------------------------

static bool is_one_of(const char *state, const char *const *names) {
  for (; *names; ++names) {
    if (strcmp(state, *names) == 0) return true;
  }
  return false;
}

static bool has_failed(const char *state) {
  static const char *const names[] = {"FAILED",  "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY",
                                      "TIMEOUT", "PREEMPTED", "DEADLINE",  NULL};
  return is_one_of(state, names);
}

// Until the job has ended, one way or the other; prints what changes.
static shoal_status_t watch(const char *id, double poll_s, FILE *out, job_state_t *out_state) {
  char last[32] = "", why[256];
  int silent = 0, ended = 0;
  for (;;) {
    job_state_t now;
    if (!ask(id, &now, why, sizeof why)) {
      if (++silent > SILENCE_LIMIT) {
        return SHOAL_ERROR(UNAVAILABLE, "Slurm says nothing about job %s any more: %s", id, why);
      }
    } else {
      silent = 0;
      if (strcmp(now.state, last) != 0) {
        fprintf(out, "job %s: %s%s%s\n", id, now.state, strcmp(now.reason, "None") ? ", " : "",
                strcmp(now.reason, "None") ? now.reason : "");
        fflush(out);
        snprintf(last, sizeof last, "%s", now.state);
      }
      const bool over = has_failed(now.state) || strcmp(now.state, "COMPLETED") == 0 ||
                        strcmp(now.state, "CANCELLED") == 0;
      ended = over ? ended + 1 : 0;
      // Slurm itself may put a job of a lost node, or a preempted one, back in the queue.
      const bool may_return =
          strcmp(now.state, "NODE_FAIL") == 0 || strcmp(now.state, "PREEMPTED") == 0;
      if (ended > (may_return ? 1 : 0)) {
        *out_state = now;
        return NULL;
      }
    }
    pause_s(poll_s);
  }
}

static shoal_status_t run(const watch_options_t *options, const shoal_words_t *words,
                          shoal_arena_t *arena, FILE *out) {
  double pause = options->backoff;
  for (int64_t attempt = 0;; ++attempt) {
    char id[32];
    job_state_t state;
    SHOAL_RETURN_IF_ERROR(submit(words, attempt, arena, id));
    fprintf(out, "job %s: submitted, attempt %lld of %lld\n", id, (long long)attempt + 1,
            (long long)options->retries + 1);
    fflush(out);
    SHOAL_RETURN_IF_ERROR(watch(id, options->poll, out, &state));
    if (strcmp(state.state, "COMPLETED") == 0) return NULL;
    if (!has_failed(state.state)) return SHOAL_ERROR(ABORTED, "job %s was cancelled", id);
    if (attempt == options->retries) {
      return SHOAL_ERROR_HINT(ABORTED, "scontrol show job, and the job's own output, say more",
                              "job %s ended as %s, exit code %s, after %lld attempts", id,
                              state.state, state.exit_code, (long long)attempt + 1);
    }
    fprintf(out, "job %s: ended as %s, exit code %s; again in %g s\n", id, state.state,
            state.exit_code, pause);
    fflush(out);
    pause_s(pause);
    pause = pause * 2 < LONGEST_PAUSE_S ? pause * 2 : LONGEST_PAUSE_S;
  }
}

// ---- the command ----------------------------------------------------------------------

static shoal_status_t print_help(shoal_arena_t *arena, FILE *out) {
  const char *text = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_options_help(OPTIONS, OPTION_COUNT, arena, &text));
  fprintf(out, "usage: shoal slurm-watch [OPTIONS] JOB.sbatch [ARGS]\n\n%s", text);
  return NULL;
}

static shoal_status_t parse_and_run(int argc, char **argv, shoal_arena_t *arena, FILE *out) {
  watch_options_t options = {0};
  shoal_words_t words;
  SHOAL_RETURN_IF_ERROR(shoal_options_defaults(OPTIONS, OPTION_COUNT, arena, &options));
  SHOAL_RETURN_IF_ERROR(shoal_options_environment(OPTIONS, OPTION_COUNT, arena, &options));
  SHOAL_RETURN_IF_ERROR(shoal_options_parse(OPTIONS, OPTION_COUNT, argc, (const char *const *)argv,
                                            arena, &options, &words));
  if (options.help) return print_help(arena, out);
  if (words.count == 0) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "shoal slurm-watch JOB.sbatch", "there is no job");
  }
  if (options.retries < 0 || !(options.backoff >= 0) || !(options.poll > 0)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "--retries and --backoff are at least 0, --poll more");
  }
  return run(&options, &words, arena, out);
}

shoal_status_t cli_slurm_watch(int argc, char **argv, shoal_arena_t *arena, FILE *out) {
  return parse_and_run(argc, argv, arena, out);
}
