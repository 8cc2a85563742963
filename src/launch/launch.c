// The launcher: forks the ranks, relays their output, and sees to it that they all end.
#include "launch/launch.h"

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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "base/time.h"
#include "comm/backends/local/hub.h"
#include "comm/comm_impl.h"
#include "launch/guard.h"
#include "launch/process.h"
#include "launch/relay.h"

#define KILL_AFTER_MS 1000  // from SIGTERM to SIGKILL
#define DRAIN_STEPS 256     // reads of a dead rank's pipes: more than pipes hold
#define DRAIN_MS 2000       // a reader that takes nothing for so long is not waited for, in trouble
#define OWN_FILES 24        // that are open beside three for every rank

_Static_assert(SHOAL_LAUNCH_MAX_RANKS == SHOAL_HUB_MAX_RANKS, "what a hub has room for");

typedef struct child {
  pid_t pid;
  int pidfd;  // -1: ended, or never started
  bool started;
  bool lost;  // somebody else waited for it: nobody knows how it ended
  int wait_status;
  shoal_relay_t relays[2];  // stdout, stderr
  int32_t steps_left[2];    // reads of these once it is dead
} child_t;

typedef struct launch {
  const shoal_launch_options_t *options;
  int (*function)(void *self, int rank);  // or
  char *const *argv;
  void *self;
  const shoal_cluster_variable_t *variables;
  int64_t variable_count;
  shoal_hub_t *hub;
  int hub_fd;
  shoal_launch_process_t process;
  shoal_launch_guard_t guard;
  shoal_relay_sink_t *sinks;  // two; the second is of no use if both are one file
  int32_t sink_count;
  child_t *children;
  struct pollfd *polls;
  int32_t alive;
  int32_t first_failed;  // rank whose end is the cause, -1: none
  int interrupted;       // signal that was forwarded
  int64_t deadline;      // of the next harsher step; 0: none
  int harshness;         // 0: waiting, 1: SIGTERM was sent, 2: SIGKILL was sent
  bool dropped;          // output that nobody took
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
  for (int32_t i = 0; i < launch->options->ranks; ++i) {  // elder siblings'
    if (launch->children[i].pidfd >= 0) close(launch->children[i].pidfd);
    for (int k = 0; k < 2; ++k) {
      if (launch->children[i].relays[k].from >= 0) close(launch->children[i].relays[k].from);
    }
  }
  for (int32_t i = 0; i < launch->sink_count; ++i) shoal_relay_sink_deinit(&launch->sinks[i]);
  if (!launch->options->no_pin) pin(rank, launch->options->ranks);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  close(out);
  close(err);
  if (rank > 0 || isatty(STDIN_FILENO)) {  // a terminal would stop readers in the background
    int null = open("/dev/null", O_RDONLY);
    if (null >= 0) dup2(null, STDIN_FILENO);
    if (null > STDIN_FILENO) close(null);
  }
  shoal_launch_process_give_back(&launch->process);
  unsetenv("SHOAL_THREADS");  // of a launcher around this one
  for (int64_t i = 0; i < launch->variable_count; ++i) {
    setenv(launch->variables[i].name, launch->variables[i].value, 1);
  }
  set_number("SHOAL_RANK", rank);
  set_number("SHOAL_SIZE", launch->options->ranks);
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
    return shoal_launch_no_descriptor("cannot make a pipe", errno);
  }
  if (pipe2(err, O_CLOEXEC) != 0) {
    shoal_status_t status = shoal_launch_no_descriptor("cannot make a pipe", errno);
    close(out[0]);
    close(out[1]);
    return status;
  }
  char prefix[16] = "";
  if (!launch->options->no_prefix) snprintf(prefix, sizeof prefix, "[%d] ", rank);
  shoal_relay_init(out[0], &launch->sinks[0], prefix, &child->relays[0]);
  shoal_relay_init(err[0], &launch->sinks[launch->sink_count - 1], prefix, &child->relays[1]);
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
      status = shoal_launch_no_descriptor("cannot watch a rank", errno);
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
  if (launch->children[rank].lost) {
    snprintf(buffer, capacity, "rank %d has ended, and its exit code went to somebody else", rank);
  } else if (WIFSIGNALED(status)) {
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
  for (int32_t i = 0; i < launch->options->ranks; ++i) {
    child_t *child = &launch->children[i];
    if (child->pidfd >= 0 && kill(-child->pid, signal_number) != 0) {
      kill(child->pid, signal_number);
    }
  }
}

static void begin_ending(launch_t *launch) {
  if (launch->deadline) return;
  launch->deadline = shoal_time_ns() + shoal_launch_grace_ns(launch->options);
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
  if (waitpid(child->pid, &child->wait_status, WNOHANG) != child->pid) {
    if (errno != ECHILD) return;
    child->lost = true;
    child->wait_status = W_EXITCODE(shoal_code_exit(SHOAL_ABORTED), 0);
  }
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
    for (int32_t i = 0; i < launch->options->ranks; ++i) {
      siginfo_t info = {0};
      const child_t *child = &launch->children[i];
      if (child->pidfd < 0) continue;
      if (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
        if (errno == ECHILD && pass == 2) reap(launch, i);
        continue;
      }
      if (info.si_pid != child->pid) continue;
      const bool echo =
          info.si_code == CLD_EXITED && info.si_status == shoal_code_exit(SHOAL_ABORTED);
      if (pass >= (info.si_code == CLD_EXITED) + echo) reap(launch, i);
    }
  }
}

static void forward_signal(launch_t *launch) {
  struct signalfd_siginfo info;
  if (read(launch->process.signal_fd, &info, sizeof info) != sizeof info) return;
  const int signal_number = (int)info.ssi_signo;
  if (shoal_launch_is_message(signal_number)) {
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

static bool is_readable(const shoal_relay_t *relay) {
  return relay->from >= 0 && shoal_relay_sink_has_room(relay->to);
}

// Whom to wait for: signals, sinks, and of every rank its end and its streams - unless the reader
// of a stream does not keep up: then the rank waits.
static nfds_t fill_polls(const launch_t *launch) {
  struct pollfd *polls = launch->polls;
  polls[0] = (struct pollfd){.fd = launch->process.signal_fd, .events = POLLIN};
  for (int32_t k = 0; k < 2; ++k) {
    const bool waits = k < launch->sink_count && launch->sinks[k].used > 0;
    polls[1 + k] = (struct pollfd){.fd = waits ? launch->sinks[k].fd : -1, .events = POLLOUT};
  }
  for (int32_t i = 0; i < launch->options->ranks; ++i) {
    const child_t *child = &launch->children[i];
    polls[3 + 3 * i] = (struct pollfd){.fd = child->pidfd, .events = POLLIN};
    for (int k = 0; k < 2; ++k) {
      const shoal_relay_t *relay = &child->relays[k];
      polls[4 + 3 * i + k] =
          (struct pollfd){.fd = is_readable(relay) ? relay->from : -1, .events = POLLIN};
    }
  }
  return (nfds_t)(3 + 3 * launch->options->ranks);
}

static bool flush_sinks(launch_t *launch) {
  bool moved = false;
  for (int32_t k = 0; k < launch->sink_count; ++k) {
    moved |= shoal_relay_sink_flush(&launch->sinks[k]);
  }
  return moved;
}

// Until all have ended.
static shoal_status_t watch(launch_t *launch) {
  const struct pollfd *polls = launch->polls;
  while (launch->alive > 0) {
    if (launch->deadline && shoal_time_ns() >= launch->deadline) be_harsher(launch);
    const nfds_t count = fill_polls(launch);
    const int ready = poll(launch->polls, count, shoal_launch_poll_ms(launch->deadline));
    if (ready < 0 && errno != EINTR) {
      return SHOAL_ERROR(UNAVAILABLE, "cannot watch the ranks: %s", strerror(errno));
    }
    if (ready <= 0) continue;
    if (polls[0].revents) forward_signal(launch);
    if (polls[1].revents || polls[2].revents) flush_sinks(launch);
    bool ended = false;
    for (int32_t i = 0; i < launch->options->ranks; ++i) {
      for (int k = 0; k < 2; ++k) {
        if (polls[4 + 3 * i + k].revents) shoal_relay_step(&launch->children[i].relays[k]);
      }
      ended |= polls[3 + 3 * i].revents != 0;
    }
    if (ended) reap_ended(launch);
  }
  return NULL;
}

// At once, whoever still runs.
static void end_all(launch_t *launch) {
  launch->harshness = 2;
  signal_alive(launch, SIGKILL);
  for (int32_t i = 0; i < launch->options->ranks; ++i) {
    siginfo_t info;
    const child_t *child = &launch->children[i];
    if (child->pidfd < 0) continue;
    while (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
    }
    reap(launch, i);
  }
}

// What the ranks, now dead, left in their pipes: as much as there is room for. Is there more?
static bool drain_pipes(launch_t *launch) {
  bool more = false;
  for (int32_t i = 0; i < 2 * launch->options->ranks; ++i) {
    child_t *child = &launch->children[i / 2];
    shoal_relay_t *relay = &child->relays[i % 2];
    while (is_readable(relay)) {
      if (child->steps_left[i % 2]-- <= 0 || !shoal_relay_step(relay)) shoal_relay_close(relay);
    }
    more |= relay->from >= 0;
  }
  return more;
}

// All ranks have ended; what they said goes to its readers. While all is well these may take their
// time (somebody pages through it), until a signal comes. Else only as long as they take something.
static void drain(launch_t *launch, bool in_trouble) {
  int64_t deadline = 0;
  for (;;) {
    const bool moved = flush_sinks(launch);
    const bool more = drain_pipes(launch);
    bool full = false;
    for (int32_t k = 0; k < launch->sink_count; ++k) full |= launch->sinks[k].used > 0;
    if (!more && !full) return;
    if (in_trouble && (!deadline || (moved && !launch->interrupted))) {
      deadline = shoal_time_ns() + DRAIN_MS * INT64_C(1000000);
    }
    if (deadline && shoal_time_ns() >= deadline) {
      launch->dropped = true;
      for (int32_t k = 0; k < launch->sink_count; ++k) {
        launch->sinks[k].dropping = true;  // the relays still see the last words
        launch->sinks[k].used = 0;
      }
      continue;
    }
    fill_polls(launch);
    if (poll(launch->polls, 3, shoal_launch_poll_ms(deadline)) < 0 && errno != EINTR) {
      deadline = 1;
    } else if (launch->polls[0].revents) {
      forward_signal(launch);
      in_trouble |= launch->interrupted != 0;
    }
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

// stdout and stderr may be one file: then lines go there in the order in which they came.
static void open_sinks(launch_t *launch) {
  struct stat out, err;
  const bool same = fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
                    out.st_dev == err.st_dev && out.st_ino == err.st_ino;
  shoal_relay_sink_init(STDOUT_FILENO, &launch->sinks[0]);
  launch->sink_count = 1;
  if (same) return;
  shoal_relay_sink_init(STDERR_FILENO, &launch->sinks[1]);
  launch->sink_count = 2;
}

static shoal_status_t launch_all(launch_t *launch) {
  const int32_t n = launch->options->ranks;
  shoal_allocator_t allocator = launch->options->allocator;
  SHOAL_RETURN_IF_ERROR(shoal_hub_create(n, &launch->hub_fd, &launch->hub));
  launch->children = allocator.alloc(allocator.self, (size_t)n * sizeof *launch->children);
  launch->polls = allocator.alloc(allocator.self, (size_t)(3 + 3 * n) * sizeof *launch->polls);
  launch->sinks = allocator.alloc(allocator.self, 2 * sizeof *launch->sinks);
  if (!launch->children || !launch->polls || !launch->sinks) return SHOAL_OOM();
  for (int32_t i = 0; i < n; ++i) {
    child_t *child = &launch->children[i];
    child->pidfd = child->relays[0].from = child->relays[1].from = -1;
    child->started = child->lost = false;
    child->wait_status = 0;
    child->steps_left[0] = child->steps_left[1] = DRAIN_STEPS;
  }
  open_sinks(launch);
  shoal_status_t status = NULL;
  for (int32_t i = 0; i < n && !status; ++i) status = start_child(launch, i);
  if (!status) status = watch(launch);
  if (status) end_all(launch);
  drain(launch, status || launch->interrupted || launch->first_failed >= 0);
  if (!status) status = outcome(launch);
  if (status && launch->dropped) {
    status = shoal_status_annotatef(status,
                                    "the rest of the output was dropped: its reader took "
                                    "none of it");
  }
  for (int32_t k = 0; k < launch->sink_count; ++k) {
    if (!status && launch->sinks[k].error) {
      status = SHOAL_ERROR(IO, "the output of the ranks could not be written: %s",
                           strerror(launch->sinks[k].error));
    }
    shoal_relay_sink_deinit(&launch->sinks[k]);
  }
  return status;
}

static shoal_status_t launch_ranks(launch_t launch, int32_t *out_blamed) {
  shoal_launch_options_t options = *launch.options;
  if (!options.allocator.alloc) options.allocator = shoal_allocator_system();
  launch.options = &options;
  launch.hub_fd = launch.first_failed = -1;
  const int64_t ranks = options.ranks <= SHOAL_LAUNCH_MAX_RANKS ? options.ranks : 0;  // else: hub
  SHOAL_RETURN_IF_ERROR(shoal_launch_process_borrow(3 * ranks + OWN_FILES, &launch.process));
  shoal_status_t status = shoal_launch_guard_start(&launch.guard);
  if (!status) status = launch_all(&launch);
  shoal_launch_guard_stop(&launch.guard);
  shoal_launch_process_give_back(&launch.process);
  options.allocator.free(options.allocator.self, launch.sinks);
  options.allocator.free(options.allocator.self, launch.polls);
  options.allocator.free(options.allocator.self, launch.children);
  shoal_hub_close(launch.hub);
  if (launch.hub_fd >= 0) close(launch.hub_fd);
  if (out_blamed) *out_blamed = launch.interrupted ? -1 : launch.first_failed;
  return status;
}

shoal_status_t shoal_launch_processes(const shoal_launch_options_t *options,
                                      int (*child)(void *self, int rank), void *self,
                                      int32_t *out_blamed) {
  return launch_ranks((launch_t){.options = options, .function = child, .self = self}, out_blamed);
}

shoal_status_t shoal_launch_program_with(const shoal_launch_options_t *options,
                                         const shoal_cluster_variable_t *variables,
                                         int64_t variable_count, char *const *argv) {
  if (!argv || !argv[0]) return SHOAL_ERROR(INVALID_ARGUMENT, "there is no program to launch");
  const launch_t launch = {
      .options = options, .variables = variables, .variable_count = variable_count, .argv = argv};
  return launch_ranks(launch, NULL);
}

shoal_status_t shoal_launch_program(const shoal_launch_options_t *options, char *const *argv) {
  return shoal_launch_program_with(options, NULL, 0, argv);
}
