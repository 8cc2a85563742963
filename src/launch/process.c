// See process.h.
#include "launch/process.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/status.h"
#include "base/time.h"

#define DEFAULT_GRACE_MS 5000
#define MAX_GRACE_MS (INT64_C(1000) * 3600 * 24 * 36500)  // a hundred years: for ever

// Blocked signals are seen even if they are ignored: of those, only what a shell has its background
// jobs ignore is taken, not what `nohup` does.
static void choose_signals(sigset_t *out_mask) {
  static const int optional[] = {SIGHUP, SIGUSR1, SIGUSR2};
  sigemptyset(out_mask);
  sigaddset(out_mask, SIGINT);
  sigaddset(out_mask, SIGQUIT);
  sigaddset(out_mask, SIGTERM);
  for (size_t i = 0; i < sizeof optional / sizeof *optional; ++i) {
    struct sigaction now;
    if (sigaction(optional[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN) {
      sigaddset(out_mask, optional[i]);
    }
  }
}

static shoal_status_t raise_limit(int64_t files, shoal_launch_process_t *process) {
  process->has_limit = getrlimit(RLIMIT_NOFILE, &process->old_limit) == 0;
  if (!process->has_limit || process->old_limit.rlim_cur >= (rlim_t)files) return NULL;
  struct rlimit limit = process->old_limit;
  limit.rlim_cur = limit.rlim_max < (rlim_t)files ? limit.rlim_max : (rlim_t)files;
  if (limit.rlim_cur < (rlim_t)files) {
    return SHOAL_ERROR_HINT(UNAVAILABLE, "raise the limit with `ulimit -n`, or start fewer ranks",
                            "the launcher needs %lld open files, but the limit is %lld",
                            (long long)files, (long long)limit.rlim_max);
  }
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0) return NULL;
  return SHOAL_ERROR(UNAVAILABLE, "cannot raise the limit of open files (ulimit -n) to %lld: %s",
                     (long long)files, strerror(errno));
}

shoal_status_t shoal_launch_process_borrow(int64_t files, shoal_launch_process_t *out_process) {
  SHOAL_RETURN_IF_ERROR(raise_limit(files, out_process));
  const struct sigaction standard = {.sa_handler = SIG_DFL};
  sigaction(SIGCHLD, &standard, &out_process->old_child);
  sigset_t mask;
  choose_signals(&mask);
  pthread_sigmask(SIG_BLOCK, &mask, &out_process->old_mask);
  out_process->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC);
  if (out_process->signal_fd >= 0) return NULL;
  shoal_status_t status = shoal_launch_no_descriptor("cannot listen to signals", errno);
  shoal_launch_process_give_back(out_process);
  return status;
}

void shoal_launch_process_give_back(shoal_launch_process_t *process) {
  if (process->signal_fd >= 0) close(process->signal_fd);
  process->signal_fd = -1;
  sigaction(SIGCHLD, &process->old_child, NULL);
  pthread_sigmask(SIG_SETMASK, &process->old_mask, NULL);
  if (process->has_limit) setrlimit(RLIMIT_NOFILE, &process->old_limit);
}

bool shoal_launch_is_message(int signal_number) {
  return signal_number == SIGUSR1 || signal_number == SIGUSR2;
}

shoal_status_t shoal_launch_no_descriptor(const char *what, int error) {
  const char *hint = error == EMFILE ? "raise the limit of open files with `ulimit -n`" : NULL;
  return shoal_status_format(SHOAL_UNAVAILABLE, __FILE__, __LINE__, hint, "%s: %s", what,
                             strerror(error));
}

int64_t shoal_launch_grace_ns(const shoal_launch_options_t *options) {
  const int64_t ms = options->grace_ms ? options->grace_ms : DEFAULT_GRACE_MS;
  return (ms < MAX_GRACE_MS ? ms : MAX_GRACE_MS) * 1000000;
}

int shoal_launch_poll_ms(int64_t deadline_ns) {
  if (!deadline_ns) return -1;
  const int64_t left_ns = deadline_ns - shoal_time_ns();
  if (left_ns <= 0) return 0;
  const int64_t ms = left_ns / 1000000 + 1;
  return ms < INT_MAX ? (int)ms : INT_MAX;
}
