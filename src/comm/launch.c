// The launcher: forks the ranks, relays their output, and sees to it that they all end.
#include "comm/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "base/time.h"
#include "comm/backends/local/hub.h"
#include "comm/comm_impl.h"
#include "comm/launch_guard.h"
#include "comm/relay.h"

#define DEFAULT_GRACE_MS 5000
#define KILL_AFTER_MS 1000  // from SIGTERM to SIGKILL
#define DRAIN_STEPS 256     // reads of a dead rank's pipes: more than pipes hold

_Static_assert(SHOAL_LAUNCH_MAX_RANKS == SHOAL_HUB_MAX_RANKS, "what a hub has room for");

typedef struct child {
  pid_t pid;
  int pidfd;  // -1: ended, or never started
  bool started;
  int wait_status;
  shoal_relay_t relays[2];  // stdout, stderr
} child_t;

typedef struct launch {
  const shoal_launch_options_t *options;
  int (*function)(void *self, int rank);  // or
  char *const *argv;
  void *self;
  shoal_hub_t *hub;
  int hub_fd, signal_fd;
  shoal_launch_guard_t guard;
  sigset_t old_mask;
  child_t *children;
  struct pollfd *polls;
  int32_t alive;
  int32_t first_failed;  // rank whose end is the cause, -1: none
  int interrupted;       // signal that was forwarded
  int64_t deadline;      // of the next harsher step; 0: none
  int harshness;         // 0: waiting, 1: SIGTERM was sent, 2: SIGKILL was sent
} launch_t;

// ---- in the child ---------------------------------------------------------------------

static void set_number(const char *name, int64_t value) {
  char text[24];
  snprintf(text, sizeof text, "%lld", (long long)value);
  setenv(name, text, 1);
}

// Rank i of n gets the i-th of n equal shares of the cores this process may use.
static void pin(int32_t rank, int32_t size) {
  cpu_set_t allowed, mine;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  const int64_t cores = CPU_COUNT(&allowed);
  if (size > cores) return;
  const int64_t from = rank * cores / size, to = (rank + 1) * cores / size;
  int64_t seen = 0;
  CPU_ZERO(&mine);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed)) continue;
    if (seen >= from && seen < to) CPU_SET(core, &mine);
    ++seen;
  }
  sched_setaffinity(0, sizeof mine, &mine);
}

_Noreturn static void run_child(launch_t *launch, int32_t rank, pid_t parent, int out, int err) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(shoal_code_exit(SHOAL_ABORTED));
  setpgid(0, 0);  // so that what it starts can be ended with it
  shoal_launch_guard_add(&launch->guard, getpid());
  shoal_launch_guard_leave(&launch->guard);
  sigprocmask(SIG_SETMASK, &launch->old_mask, NULL);
  for (int32_t i = 0; i < launch->options->size; ++i) {  // elder siblings'
    if (launch->children[i].pidfd >= 0) close(launch->children[i].pidfd);
    for (int k = 0; k < 2; ++k) {
      if (launch->children[i].relays[k].from >= 0) close(launch->children[i].relays[k].from);
    }
  }
  close(launch->signal_fd);
  if (!launch->options->no_pin) pin(rank, launch->options->size);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  close(out);
  close(err);
  if (rank > 0 || isatty(STDIN_FILENO)) {  // a terminal would stop readers in the background
    int null = open("/dev/null", O_RDONLY);
    if (null >= 0) dup2(null, STDIN_FILENO);
    if (null > STDIN_FILENO) close(null);
  }
  set_number("SHOAL_RANK", rank);
  set_number("SHOAL_SIZE", launch->options->size);
  set_number("SHOAL_LOCAL_FD", launch->hub_fd);
  if (launch->options->timeout_ms > 0) set_number("SHOAL_TIMEOUT_MS", launch->options->timeout_ms);
  if (launch->function) {
    shoal_world_forget_joined();
    int code = launch->function(launch->self, rank);
    fflush(NULL);
    _exit(code);
  }
  fcntl(launch->hub_fd, F_SETFD, 0);  // it must survive exec
  execvp(launch->argv[0], launch->argv);
  dprintf(STDERR_FILENO, "cannot run '%s': %s\n", launch->argv[0], strerror(errno));
  _exit(shoal_code_exit(errno == ENOENT ? SHOAL_NOT_FOUND : SHOAL_INVALID_ARGUMENT));
}

// ---- starting -------------------------------------------------------------------------

static shoal_status_t start_child(launch_t *launch, int32_t rank) {
  child_t *child = &launch->children[rank];
  int out[2] = {-1, -1}, err[2] = {-1, -1};
  if (pipe2(out, O_CLOEXEC) != 0) {
    return SHOAL_ERROR(UNAVAILABLE, "cannot make a pipe: %s", strerror(errno));
  }
  if (pipe2(err, O_CLOEXEC) != 0) {
    shoal_status_t status = SHOAL_ERROR(UNAVAILABLE, "cannot make a pipe: %s", strerror(errno));
    close(out[0]);
    close(out[1]);
    return status;
  }
  char prefix[16] = "";
  if (!launch->options->no_prefix) snprintf(prefix, sizeof prefix, "[%d] ", rank);
  shoal_relay_init(out[0], STDOUT_FILENO, prefix, &child->relays[0]);
  shoal_relay_init(err[0], STDERR_FILENO, prefix, &child->relays[1]);
  fflush(NULL);  // else the child would print it again
  const pid_t parent = getpid();
  child->pid = fork();
  if (child->pid == 0) run_child(launch, rank, parent, out[1], err[1]);
  shoal_status_t status = NULL;
  if (child->pid < 0) {
    status = SHOAL_ERROR(UNAVAILABLE, "cannot start rank %d: %s", rank, strerror(errno));
  } else {
    child->started = true;
    setpgid(child->pid, child->pid);
    child->pidfd = (int)syscall(SYS_pidfd_open, child->pid, 0);
    if (child->pidfd < 0) {
      status = SHOAL_ERROR(UNAVAILABLE, "cannot watch rank %d: %s", rank, strerror(errno));
      kill(child->pid, SIGKILL);
      waitpid(child->pid, NULL, 0);
      child->started = false;
    } else {
      ++launch->alive;
    }
  }
  close(out[1]);
  close(err[1]);
  return status;
}

// ---- ends -----------------------------------------------------------------------------

static void describe_end(const launch_t *launch, int32_t rank, char *buffer, size_t capacity) {
  const int status = launch->children[rank].wait_status;
  if (WIFSIGNALED(status)) {
    const char *name = sigabbrev_np(WTERMSIG(status));
    snprintf(buffer, capacity, "rank %d was killed by signal %d (SIG%s)", rank, WTERMSIG(status),
             name ? name : "?");
  } else {
    snprintf(buffer, capacity, "rank %d ended with exit code %d", rank, WEXITSTATUS(status));
  }
}

bool shoal_launched(void) {
  return shoal_comm_local.detect() || shoal_comm_mpi.detect() || shoal_comm_rendezvous.detect();
}

shoal_code_t shoal_launch_code(int wait_status) {
  if (!WIFEXITED(wait_status)) return SHOAL_ABORTED;
#define SHOAL_STATUS_CODE(id, number, exit_code, text) \
  if (WEXITSTATUS(wait_status) == (exit_code)) return SHOAL_##id;
#include "shoal/status.inc"
#undef SHOAL_STATUS_CODE
  return SHOAL_ABORTED;
}

// Did it only end because another rank failed?
static bool is_echo(int wait_status) {
  return WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == shoal_code_exit(SHOAL_ABORTED);
}

static void signal_alive(launch_t *launch, int signal_number) {
  for (int32_t i = 0; i < launch->options->size; ++i) {
    child_t *child = &launch->children[i];
    if (child->pidfd >= 0 && kill(-child->pid, signal_number) != 0) {
      kill(child->pid, signal_number);
    }
  }
}

static void begin_ending(launch_t *launch) {
  const int64_t grace = launch->options->grace_ms ? launch->options->grace_ms : DEFAULT_GRACE_MS;
  if (!launch->deadline) launch->deadline = shoal_time_ns() + grace * 1000000;
}

// Is this rank's end more likely the cause than that of the one blamed so far? Not if the launcher
// ended it. Whoever broke the world has named one; else it is not one that ended with the error
// that another failed.
static bool is_to_blame(const launch_t *launch, int32_t rank) {
  const int32_t first = launch->first_failed;
  const int wait_status = launch->children[rank].wait_status;
  if (first < 0) return true;
  if (launch->harshness > 0 && WIFSIGNALED(wait_status)) return false;
  const shoal_failure_t *failure = &launch->hub->failure;
  if (atomic_load(&failure->state) == 2 && failure->rank == rank) return true;
  if (atomic_load(&failure->state) == 2 && failure->rank == first) return false;
  return is_echo(launch->children[first].wait_status) && !is_echo(wait_status);
}

static void reap(launch_t *launch, int32_t rank) {
  child_t *child = &launch->children[rank];
  kill(-child->pid, SIGKILL);  // whatever it started and left; as a zombie it holds its number
  if (waitpid(child->pid, &child->wait_status, WNOHANG) != child->pid) return;
  shoal_launch_guard_remove(&launch->guard, child->pid);
  close(child->pidfd);
  child->pidfd = -1;
  --launch->alive;
  // Somebody may have got away with the pipe, and write for ever: take no more than there is.
  for (int i = 0; i < DRAIN_STEPS; ++i) {
    const bool more = shoal_relay_step(&child->relays[0]);
    if (!shoal_relay_step(&child->relays[1]) && !more) break;
  }
  if (WIFEXITED(child->wait_status) && WEXITSTATUS(child->wait_status) == 0) {
    shoal_hub_leave(launch->hub, rank, SHOAL_HUB_GONE);
    return;
  }
  char message[128];
  describe_end(launch, rank, message, sizeof message);
  shoal_hub_fail(launch->hub, SHOAL_ABORTED, rank, message);
  if (is_to_blame(launch, rank)) launch->first_failed = rank;
  begin_ending(launch);
}

// All that have ended by now, the likely causes first: a survivor may have seen a rank die, and
// ended for that, before the launcher came to look.
static void reap_ended(launch_t *launch) {
  for (int pass = 0; pass < 3; ++pass) {
    for (int32_t i = 0; i < launch->options->size; ++i) {
      siginfo_t info = {0};
      const child_t *child = &launch->children[i];
      if (child->pidfd < 0 ||
          waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
          info.si_pid != child->pid) {
        continue;
      }
      const bool echo =
          info.si_code == CLD_EXITED && info.si_status == shoal_code_exit(SHOAL_ABORTED);
      if (pass >= (info.si_code == CLD_EXITED) + echo) reap(launch, i);
    }
  }
}

// These say something to the ranks; the others are to end them.
static bool is_message(int signal_number) {
  return signal_number == SIGUSR1 || signal_number == SIGUSR2;
}

static void forward_signal(launch_t *launch) {
  struct signalfd_siginfo info;
  if (read(launch->signal_fd, &info, sizeof info) != sizeof info) return;
  const int signal_number = (int)info.ssi_signo;
  if (is_message(signal_number)) {
    signal_alive(launch, signal_number);
    return;
  }
  signal_alive(launch, launch->interrupted ? SIGKILL : signal_number);
  launch->interrupted = signal_number;
  begin_ending(launch);
}

// Time is up for those who still run.
static void be_harsher(launch_t *launch) {
  signal_alive(launch, launch->harshness == 0 ? SIGTERM : SIGKILL);
  launch->harshness = launch->harshness == 0 ? 1 : 2;
  launch->deadline = shoal_time_ns() + KILL_AFTER_MS * INT64_C(1000000);
}

// ---- the loop -------------------------------------------------------------------------

static void watch(launch_t *launch) {
  const int32_t n = launch->options->size;
  while (launch->alive > 0) {
    int64_t left_ms = -1;
    if (launch->deadline) {
      left_ms = (launch->deadline - shoal_time_ns()) / 1000000 + 1;
      if (left_ms <= 0) {
        be_harsher(launch);
        continue;
      }
    }
    struct pollfd *polls = launch->polls;
    polls[0] = (struct pollfd){.fd = launch->signal_fd, .events = POLLIN};
    for (int32_t i = 0; i < n; ++i) {
      const child_t *child = &launch->children[i];
      polls[1 + 3 * i] = (struct pollfd){.fd = child->pidfd, .events = POLLIN};
      polls[2 + 3 * i] = (struct pollfd){.fd = child->relays[0].from, .events = POLLIN};
      polls[3 + 3 * i] = (struct pollfd){.fd = child->relays[1].from, .events = POLLIN};
    }
    if (poll(polls, (nfds_t)(1 + 3 * n), (int)left_ms) <= 0) continue;
    if (polls[0].revents) forward_signal(launch);
    bool ended = false;
    for (int32_t i = 0; i < n; ++i) {
      for (int k = 0; k < 2; ++k) {
        if (polls[2 + 3 * i + k].revents) shoal_relay_step(&launch->children[i].relays[k]);
      }
      ended |= polls[1 + 3 * i].revents != 0;
    }
    if (ended) reap_ended(launch);
  }
}

static shoal_status_t outcome(const launch_t *launch) {
  if (launch->interrupted) {
    const char *name = sigabbrev_np(launch->interrupted);
    return SHOAL_ERROR(ABORTED, "interrupted by SIG%s", name ? name : "?");
  }
  const int32_t rank = launch->first_failed;
  if (rank < 0) return NULL;
  char why[128];
  describe_end(launch, rank, why, sizeof why);
  const child_t *child = &launch->children[rank];
  const char *words = child->relays[1].last;
  size_t length = strlen(words);
  while (length > 0 && words[length - 1] == '\n') --length;
  return shoal_status_format(shoal_launch_code(child->wait_status), __FILE__, __LINE__, NULL,
                             "%s%s%.*s", why, length ? "; its last words:\n" : "", (int)length,
                             words);
}

// The signals to forward. Blocked ones are seen even if they are ignored: of those, only what a
// shell has its background jobs ignore is taken, not what `nohup` does.
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

static shoal_status_t launch_all(launch_t *launch) {
  const int32_t n = launch->options->size;
  shoal_allocator_t allocator = launch->options->allocator;
  SHOAL_RETURN_IF_ERROR(shoal_hub_create(n, &launch->hub_fd, &launch->hub));
  launch->children = allocator.alloc(allocator.self, (size_t)n * sizeof *launch->children);
  launch->polls = allocator.alloc(allocator.self, (size_t)(1 + 3 * n) * sizeof *launch->polls);
  if (!launch->children || !launch->polls) return SHOAL_OOM();
  for (int32_t i = 0; i < n; ++i) {
    child_t *child = &launch->children[i];
    child->pidfd = child->relays[0].from = child->relays[1].from = -1;
    child->started = false;
    child->wait_status = 0;
  }
  sigset_t mask;
  choose_signals(&mask);
  pthread_sigmask(SIG_BLOCK, &mask, &launch->old_mask);
  launch->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC);
  shoal_status_t status = launch->signal_fd >= 0 ? NULL : SHOAL_ERROR(UNAVAILABLE, "no signalfd");
  for (int32_t i = 0; i < n && !status; ++i) status = start_child(launch, i);
  if (status) {  // those that run already
    launch->harshness = 2;
    signal_alive(launch, SIGKILL);
  }
  watch(launch);
  for (int32_t i = 0; i < n; ++i) {
    shoal_relay_close(&launch->children[i].relays[0]);
    shoal_relay_close(&launch->children[i].relays[1]);
  }
  if (launch->signal_fd >= 0) close(launch->signal_fd);
  pthread_sigmask(SIG_SETMASK, &launch->old_mask, NULL);
  if (!status) status = outcome(launch);
  for (int32_t i = 0; i < n && !status; ++i)
    for (int k = 0; k < 2 && !status; ++k)
      if (launch->children[i].relays[k].error)
        status = SHOAL_ERROR(IO, "the output of rank %d could not be written: %s", i,
                             strerror(launch->children[i].relays[k].error));
  return status;
}

static shoal_status_t launch_ranks(const shoal_launch_options_t *given,
                                   int (*function)(void *self, int rank), void *self,
                                   char *const *argv) {
  shoal_launch_options_t options = *given;
  if (!options.allocator.alloc) options.allocator = shoal_allocator_system();
  launch_t launch = {.options = &options,
                     .function = function,
                     .self = self,
                     .argv = argv,
                     .hub_fd = -1,
                     .signal_fd = -1,
                     .first_failed = -1};
  shoal_status_t status = shoal_launch_guard_start(&launch.guard);
  if (!status) status = launch_all(&launch);
  shoal_launch_guard_stop(&launch.guard);
  options.allocator.free(options.allocator.self, launch.polls);
  options.allocator.free(options.allocator.self, launch.children);
  shoal_hub_close(launch.hub);
  if (launch.hub_fd >= 0) close(launch.hub_fd);
  return status;
}

shoal_status_t shoal_launch_processes(const shoal_launch_options_t *options,
                                      int (*child)(void *self, int rank), void *self) {
  return launch_ranks(options, child, self, NULL);
}

shoal_status_t shoal_launch_program(const shoal_launch_options_t *options, char *const *argv) {
  if (!argv || !argv[0]) return SHOAL_ERROR(INVALID_ARGUMENT, "there is no program to launch");
  return launch_ranks(options, NULL, NULL, argv);
}
