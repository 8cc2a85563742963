// Starting ranks on a cluster's machines: host file, ssh configuration, and `mpirun` (Open MPI or
// MPICH, whichever is there). Both files are anonymous memory that mpirun reads through /proc:
// nothing is left behind.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "base/time.h"
#include "cluster/cluster.h"
#include "launch/here.h"
#include "launch/launch.h"
#include "launch/process.h"
#include "launch/relay.h"

#define DRAIN_NS INT64_C(2000000000)  // for readers that do not take what mpirun said last
#define OWN_FILES 24

extern char **environ;

// What mpirun is called with, and what it reads; in the arena. When the only node is this machine
// and no MPI was asked for: the program, its local ranks and their variables.
typedef struct command {
  const char **argv;  // NULL-terminated
  const char *hosts, *ssh_config, *ssh_script;
  const char *family;   // "openmpi", "mpich"
  int32_t local_ranks;  // 0: mpirun
  const shoal_cluster_variable_t *variables;
  int64_t variable_count;
} command_t;

// ---- which mpirun ---------------------------------------------------------------------

typedef struct mpi {
  const char *family;
  const char *programs[2];  // the first that is in PATH
} mpi_t;

static const mpi_t mpis[] = {
    {"openmpi", {"mpirun.openmpi", "orterun"}},
    {"mpich", {"mpiexec.hydra", "mpiexec.mpich"}},
};

static bool is_in_path(const char *program) {
  const char *path = getenv("PATH");
  char file[PATH_MAX];
  while (path && path[0]) {
    const size_t length = strcspn(path, ":");
    snprintf(file, sizeof file, "%.*s/%s", (int)length, path, program);
    if (access(file, X_OK) == 0) return true;
    path += length + (path[length] == ':');
  }
  return false;
}

static bool is_any(const char *wanted) {
  return !wanted || strcmp(wanted, "auto") == 0;
}

static shoal_status_t find_mpi(const char *wanted, const char **out_family,
                               const char **out_program) {
  const bool any = is_any(wanted);
  for (size_t i = 0; i < sizeof mpis / sizeof *mpis; ++i) {
    if (!any && strcmp(wanted, mpis[i].family) != 0) continue;
    for (int k = 0; k < 2; ++k) {
      if (!is_in_path(mpis[i].programs[k])) continue;
      *out_family = mpis[i].family;
      *out_program = mpis[i].programs[k];
      return NULL;
    }
  }
  return SHOAL_ERROR_HINT(UNAVAILABLE,
                          "install Open MPI or MPICH on every node (tools/bootstrap --optional)",
                          "no launcher of %s is in PATH: mpirun.openmpi, orterun, mpiexec.hydra",
                          any ? "any MPI" : wanted);
}

// ---- the call -------------------------------------------------------------------------

typedef SHOAL_VEC(const char *) words_t;

static shoal_status_t add(shoal_arena_t *arena, words_t *words, const char *word) {
  return word && SHOAL_PUSH(arena, words, word) ? NULL : SHOAL_OOM();
}

// Words until NULL.
static shoal_status_t add_all(shoal_arena_t *arena, words_t *words, const char *const *list) {
  for (; *list; ++list) SHOAL_RETURN_IF_ERROR(add(arena, words, *list));
  return NULL;
}

static shoal_status_t add_split(shoal_arena_t *arena, words_t *words, const char *text) {
  while (text && *(text += strspn(text, " \t\n"))) {
    const size_t length = strcspn(text, " \t\n");
    SHOAL_RETURN_IF_ERROR(add(arena, words, shoal_arena_printf(arena, "%.*s", (int)length, text)));
    text += length;
  }
  return NULL;
}

// One environment for all: mpirun sets no variable on one host only.
static shoal_status_t shared_variables(const shoal_cluster_t *cluster, shoal_arena_t *arena,
                                       const char *family, words_t *words) {
  for (int64_t i = 0; i < cluster->group_count; ++i) {
    const shoal_cluster_ssh_t *ssh = cluster->groups[i].ssh;
    for (int64_t k = 0; ssh && k < ssh->shared_env_count; ++k) {
      const shoal_cluster_variable_t *v = &ssh->shared_envs[k];
      bool there = false;
      for (int64_t j = 0; j < i; ++j) {
        const shoal_cluster_ssh_t *other = cluster->groups[j].ssh;
        for (int64_t l = 0; other && l < other->shared_env_count; ++l) {
          if (strcmp(other->shared_envs[l].name, v->name) != 0) continue;
          if (strcmp(other->shared_envs[l].value, v->value) != 0) {
            return SHOAL_ERROR(UNSUPPORTED, "%s has different values on %s and %s", v->name,
                               cluster->groups[j].address, cluster->groups[i].address);
          }
          there = true;
        }
      }
      if (there) continue;
      const bool open = strcmp(family, "openmpi") == 0;
      const char *pair = shoal_arena_printf(arena, "%s=%s", v->name, v->value);
      const char *const openmpi[] = {"-x", pair, NULL};
      const char *const mpich[] = {"-genv", v->name, v->value, NULL};
      SHOAL_RETURN_IF_ERROR(add_all(arena, words, open ? openmpi : mpich));
    }
  }
  return NULL;
}

// What Shoal reads must arrive; Hydra passes everything anyway.
static shoal_status_t own_variables(const shoal_launch_options_t *options, shoal_arena_t *arena,
                                    words_t *words) {
  if (options->timeout_ms > 0 && !getenv("SHOAL_TIMEOUT_MS")) {
    const char *const timeout[] = {"-x", "SHOAL_TIMEOUT_MS", NULL};
    SHOAL_RETURN_IF_ERROR(add_all(arena, words, timeout));
  }
  for (char **at = environ; *at; ++at) {
    if (strncmp(*at, "SHOAL_", 6) != 0 && strncmp(*at, "LD_LIBRARY_PATH=", 16) != 0) continue;
    const char *const pair[] = {
        "-x", shoal_arena_printf(arena, "%.*s", (int)strcspn(*at, "="), *at), NULL};
    SHOAL_RETURN_IF_ERROR(add_all(arena, words, pair));
  }
  return NULL;
}

static shoal_status_t add_program(const shoal_cluster_t *cluster, char *const *program,
                                  shoal_arena_t *arena, words_t *words) {
  const char *before = NULL;
  for (int64_t i = 0; i < cluster->group_count; ++i) {
    const shoal_cluster_ssh_t *ssh = cluster->groups[i].ssh;
    if (!ssh || !ssh->python_venv) continue;
    if (before && strcmp(before, ssh->python_venv) != 0) {
      return SHOAL_ERROR(UNSUPPORTED, "python_venv differs between nodes: '%s' and '%s'", before,
                         ssh->python_venv);
    }
    before = ssh->python_venv;
  }
  if (before) {
    const char *const shell[] = {
        "bash", "-c", shoal_arena_printf(arena, "%s && exec \"$0\" \"$@\"", before), NULL};
    SHOAL_RETURN_IF_ERROR(add_all(arena, words, shell));
  }
  char full[PATH_MAX];  // as seen from here; it must be the same on every node
  const bool relative = strchr(program[0], '/') && program[0][0] != '/';
  const char *name = relative && realpath(program[0], full) ? full : program[0];
  SHOAL_RETURN_IF_ERROR(add(arena, words, shoal_arena_strdup(arena, name)));
  return add_all(arena, words, (const char *const *)program + 1);
}

static shoal_status_t compose_argv(const shoal_launch_cluster_options_t *options,
                                   const shoal_cluster_t *cluster, char *const *program,
                                   const char *hosts, const char *ssh, const char *family,
                                   const char *mpirun, shoal_arena_t *arena, words_t *words) {
  const int32_t size = options->launch.ranks ? options->launch.ranks : cluster->ranks;
  const char *n = shoal_arena_printf(arena, "%d", size);
  // Open MPI: every ssh starts here, where its files are, and stays: its end tells of a lost
  // machine.
  const char *const openmpi[] = {mpirun,
                                 "--hostfile",
                                 hosts,
                                 "-np",
                                 n,
                                 "--bind-to",
                                 "none",
                                 "--mca",
                                 "plm_rsh_agent",
                                 ssh,
                                 "--mca",
                                 "plm_rsh_no_tree_spawn",
                                 "1",
                                 "--leave-session-attached",
                                 NULL};
  const char *const mpich[] = {mpirun,           "-f", hosts, "-n", n, "-launcher", "ssh",
                               "-launcher-exec", ssh,  NULL};
  const bool open = strcmp(family, "openmpi") == 0;
  SHOAL_RETURN_IF_ERROR(add_all(arena, words, open ? openmpi : mpich));
  if (!options->launch.no_prefix) {
    const char *const tag[] = {"--tag-output", NULL};
    const char *const pattern[] = {"-prepend-pattern", "[%r] ", NULL};
    SHOAL_RETURN_IF_ERROR(add_all(arena, words, open ? tag : pattern));
  }
  if (open) SHOAL_RETURN_IF_ERROR(own_variables(&options->launch, arena, words));
  SHOAL_RETURN_IF_ERROR(shared_variables(cluster, arena, family, words));
  SHOAL_RETURN_IF_ERROR(add_split(arena, words, options->mpi_options));
  SHOAL_RETURN_IF_ERROR(add_program(cluster, program, arena, words));
  return SHOAL_PUSH(arena, words, NULL) ? NULL : SHOAL_OOM();
}

// ---- the files ------------------------------------------------------------------------

static shoal_status_t compose_files(const shoal_launch_cluster_options_t *options,
                                    const shoal_cluster_t *cluster, const char *family,
                                    const char *config_path, shoal_arena_t *arena,
                                    command_t *command) {
  shoal_text_t hosts, config;
  shoal_text_init(shoal_allocator_system(), &hosts);
  shoal_text_init(shoal_allocator_system(), &config);
  for (int64_t i = 0; i < cluster->group_count; ++i) {
    const shoal_cluster_nodes_t *node = &cluster->groups[i];
    shoal_text_addf(&hosts, strcmp(family, "openmpi") == 0 ? "%s slots=%d\n" : "%s:%d\n",
                    node->address, node->devices);
    shoal_text_addf(&config, "Host %s\n", node->address);
    const shoal_cluster_ssh_t *ssh = node->ssh;
    if (ssh && ssh->username) shoal_text_addf(&config, "  User \"%s\"\n", ssh->username);
    if (ssh && ssh->port) shoal_text_addf(&config, "  Port %d\n", ssh->port);
    if (ssh && ssh->key_file) shoal_text_addf(&config, "  IdentityFile \"%s\"\n", ssh->key_file);
  }
  // No question can be answered here, and a machine that is off, or falls silent, holds up nothing.
  shoal_text_add(&config,
                 "Host *\n  BatchMode yes\n  ConnectTimeout 10\n"
                 "  ServerAliveInterval 5\n  ServerAliveCountMax 3\n"
                 "  StrictHostKeyChecking accept-new\n");
  shoal_status_t status = shoal_text_finish(&hosts, arena, &command->hosts);
  shoal_status_t other = shoal_text_finish(&config, arena, &command->ssh_config);
  if (status) {
    shoal_status_free(other);
    return status;
  }
  SHOAL_RETURN_IF_ERROR(other);
  command->ssh_script = shoal_arena_printf(arena, "#!/bin/sh\nexec %s -F %s \"$@\"\n",
                                           options->ssh ? options->ssh : "ssh", config_path);
  return command->ssh_script ? NULL : SHOAL_OOM();
}

static shoal_status_t compose_local(const shoal_launch_cluster_options_t *options,
                                    const shoal_cluster_t *cluster, char *const *program,
                                    shoal_arena_t *arena, command_t *command) {
  words_t words = {0};
  SHOAL_RETURN_IF_ERROR(add_program(cluster, program, arena, &words));
  if (!SHOAL_PUSH(arena, &words, NULL)) return SHOAL_OOM();
  command->argv = words.items;
  command->local_ranks = options->launch.ranks ? options->launch.ranks : cluster->ranks;
  const shoal_cluster_ssh_t *ssh = cluster->groups[0].ssh;
  command->variables = ssh ? ssh->shared_envs : NULL;
  command->variable_count = ssh ? ssh->shared_env_count : 0;
  return NULL;
}

// Composes the call for a cluster whose nodes have addresses (else INVALID_ARGUMENT); its files
// will be at these paths.
static shoal_status_t compose(const shoal_launch_cluster_options_t *options,
                              const shoal_cluster_t *cluster, char *const *program,
                              const char *hosts_path, const char *ssh_path, const char *config_path,
                              shoal_arena_t *arena, command_t *out_command) {
  SHOAL_RETURN_IF_ERROR(shoal_cluster_check_launch(cluster));
  if (options->launch.ranks > cluster->ranks) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "list more cpus or gpus in the file",
                            "%d ranks, but the cluster has %d devices", options->launch.ranks,
                            cluster->ranks);
  }
  *out_command = (command_t){0};
  // One node, this one: nothing but Shoal is needed, unless an MPI is wished for.
  if (cluster->group_count == 1 && is_any(options->mpi) && !options->mpi_options &&
      shoal_launch_is_here(cluster->groups[0].address)) {
    return compose_local(options, cluster, program, arena, out_command);
  }
  const char *family = NULL, *mpirun = NULL;
  SHOAL_RETURN_IF_ERROR(find_mpi(options->mpi, &family, &mpirun));
  words_t words = {0};
  SHOAL_RETURN_IF_ERROR(
      compose_argv(options, cluster, program, hosts_path, ssh_path, family, mpirun, arena, &words));
  SHOAL_RETURN_IF_ERROR(compose_files(options, cluster, family, config_path, arena, out_command));
  out_command->argv = words.items;
  out_command->family = family;
  return NULL;
}

// ---- running --------------------------------------------------------------------------

// An anonymous file with a name that other processes can read it by.
static shoal_status_t make_file(const char *name, mode_t mode, int *out_fd, char path[64]) {
  const int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0 || fchmod(fd, mode) != 0) {
    shoal_status_t status = SHOAL_ERROR(UNAVAILABLE, "no file in memory: %s", strerror(errno));
    if (fd >= 0) close(fd);
    return status;
  }
  snprintf(path, 64, "/proc/%d/fd/%d", (int)getpid(), fd);
  *out_fd = fd;
  return NULL;
}

// Closed and opened again for reading: a script that somebody can write to cannot be executed.
static shoal_status_t fill_file(const char *text, int *fd, char path[64]) {
  const size_t size = strlen(text);
  if (write(*fd, text, size) != (ssize_t)size) {
    return SHOAL_ERROR(IO, "cannot write a file in memory: %s", strerror(errno));
  }
  const int reader = open(path, O_RDONLY | O_CLOEXEC);
  if (reader < 0) return SHOAL_ERROR(IO, "cannot open %s: %s", path, strerror(errno));
  shoal_status_t status = NULL;
  if (dup3(reader, *fd, O_CLOEXEC) < 0) status = SHOAL_ERROR(IO, "dup3: %s", strerror(errno));
  close(reader);
  return status;
}

_Noreturn static void run_mpirun(const command_t *command, const shoal_launch_options_t *options,
                                 shoal_launch_process_t *process, pid_t parent, int errors) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // it ends its ranks then
  if (getppid() != parent) _exit(shoal_code_exit(SHOAL_ABORTED));
  setpgid(0, 0);  // a Ctrl-C reaches it once, through Shoal
  dup2(errors, STDERR_FILENO);
  if (isatty(STDIN_FILENO)) {  // which would stop readers in the background
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null >= 0) dup2(null, STDIN_FILENO);
  }
  shoal_launch_process_give_back(process);
  if (geteuid() == 0) {  // who runs Shoal as root means it
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  }
  if (options->timeout_ms > 0) {
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)options->timeout_ms);
    setenv("SHOAL_TIMEOUT_MS", text, 1);
  }
  execvp(command->argv[0], (char *const *)command->argv);
  dprintf(STDERR_FILENO, "cannot run '%s': %s\n", command->argv[0], strerror(errno));
  _exit(shoal_code_exit(SHOAL_NOT_FOUND));
}

static shoal_status_t outcome(const char *program, int wait_status, int interrupted, bool asked) {
  if (interrupted) {
    const char *name = sigabbrev_np(interrupted);
    return SHOAL_ERROR(ABORTED, "interrupted by SIG%s", name ? name : "?");
  }
  if (asked) {
    return SHOAL_ERROR(ABORTED, "a rank failed; %s waited too long for every machine and was ended",
                       program);
  }
  if (WIFSIGNALED(wait_status)) {
    return SHOAL_ERROR(ABORTED, "%s was killed by signal %d", program, WTERMSIG(wait_status));
  }
  if (WEXITSTATUS(wait_status) == 0) return NULL;
  return shoal_status_format(shoal_launch_code(wait_status), __FILE__, __LINE__, NULL,
                             "%s ended with exit code %d", program, WEXITSTATUS(wait_status));
}

// mpirun has begun to end the job, and says so: in a line of its own. Lines of ranks carry their
// tag
// ("[1,0]<stderr>:", "[0] ") at the front, or there is no telling (--no-prefix).
static bool is_ending(const char *line, size_t size) {
  static const char *const mpich = "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES";
  static const char *const openmpi[] = {
      "Primary job  terminated normally, but",
      "a non-zero exit code. Per user-direction,",
      "MPI_ABORT was invoked on rank",
      "ORTE has lost communication with",
      " noticed that process rank",
      " detected that one or more processes exited with",
  };
  if (size >= strlen(mpich) && memcmp(line, mpich, strlen(mpich)) == 0) return true;
  for (size_t i = 0; i < sizeof openmpi / sizeof *openmpi; ++i) {
    const char *sentence = openmpi[i];
    size_t skip = 0;  // the program's name
    while (sentence[0] == ' ' && skip < size && line[skip] != ' ' && line[skip] != '\n') ++skip;
    if (size - skip < strlen(sentence)) continue;
    if (memcmp(line + skip, sentence, strlen(sentence)) == 0 && line[0] != '[') return true;
  }
  return false;
}

typedef struct watch {
  pid_t child;
  int pidfd;
  shoal_launch_process_t process;
  shoal_relay_sink_t sink;
  shoal_relay_t errors;
  int wait_status;
  int interrupted;
  int64_t deadline;  // of the next harsher step; 0: none
  int64_t grace_ns;
  bool asked;    // SIGTERM was sent
  bool no_usr2;  // it would die of SIGUSR2
} watch_t;

static void be_harsher(watch_t *watch) {
  if (watch->asked) {
    kill(-watch->child, SIGKILL);  // with its ssh
  } else {                         // Open MPI takes the second for an order
    kill(watch->child, SIGTERM);
  }
  watch->asked = true;
  watch->deadline = shoal_time_ns() + watch->grace_ns;
}

// mpirun passes messages on to the ranks, and ends them for SIGINT and SIGTERM; not every one does
// so for SIGHUP and SIGQUIT.
static void forward_signal(watch_t *watch) {
  struct signalfd_siginfo info;
  if (read(watch->process.signal_fd, &info, sizeof info) != sizeof info) return;
  const int signal_number = (int)info.ssi_signo;
  if (shoal_launch_is_message(signal_number)) {
    if (signal_number != SIGUSR2 || !watch->no_usr2) kill(watch->child, signal_number);
  } else if (watch->interrupted) {
    kill(-watch->child, SIGKILL);
  } else {
    kill(watch->child, signal_number == SIGINT ? SIGINT : SIGTERM);
    watch->interrupted = signal_number;
  }
}

static bool has_ended(watch_t *watch) {
  const pid_t got = waitpid(watch->child, &watch->wait_status, WNOHANG);
  if (got < 0 && errno == ECHILD) {  // somebody else knows how
    watch->wait_status = W_EXITCODE(shoal_code_exit(SHOAL_ABORTED), 0);
    return true;
  }
  return got == watch->child;
}

// Once: until there is something to do, or time is up.
static shoal_status_t wait_once(watch_t *watch, int64_t deadline, int pidfd) {
  const bool readable = watch->errors.from >= 0 && shoal_relay_sink_has_room(&watch->sink);
  struct pollfd polls[4] = {
      {.fd = watch->process.signal_fd, .events = POLLIN},
      {.fd = readable ? watch->errors.from : -1, .events = POLLIN},
      {.fd = watch->sink.used > 0 ? watch->sink.fd : -1, .events = POLLOUT},
      {.fd = pidfd, .events = POLLIN},
  };
  const int ready = poll(polls, 4, shoal_launch_poll_ms(deadline));
  if (ready < 0 && errno != EINTR) {
    return SHOAL_ERROR(UNAVAILABLE, "cannot watch mpirun: %s", strerror(errno));
  }
  if (ready <= 0) return NULL;
  if (polls[0].revents) forward_signal(watch);
  if (polls[2].revents) shoal_relay_sink_flush(&watch->sink);
  if (polls[1].revents) shoal_relay_step(&watch->errors);
  return NULL;
}

// Until mpirun has ended, and what it said has been read.
static shoal_status_t watch_mpirun(watch_t *watch) {
  while (!has_ended(watch)) {
    if (!watch->deadline && (watch->interrupted || watch->errors.noted)) {
      watch->deadline = shoal_time_ns() + watch->grace_ns;
    }
    if (watch->deadline && shoal_time_ns() >= watch->deadline) be_harsher(watch);
    SHOAL_RETURN_IF_ERROR(wait_once(watch, watch->deadline, watch->pidfd));
  }
  watch->child = -1;
  const int64_t deadline = shoal_time_ns() + DRAIN_NS;
  for (;;) {  // an ssh that outlives it may hold the pipe: what is there now is enough
    while (shoal_relay_step(&watch->errors)) {
    }
    if (shoal_relay_sink_has_room(&watch->sink)) shoal_relay_close(&watch->errors);
    shoal_relay_sink_flush(&watch->sink);
    if (watch->errors.from < 0 && watch->sink.used == 0) return NULL;
    if (shoal_time_ns() >= deadline) return NULL;
    SHOAL_RETURN_IF_ERROR(wait_once(watch, deadline, -1));
  }
}

static shoal_status_t run_command(const command_t *command, const shoal_launch_options_t *options,
                                  watch_t *watch) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
    return shoal_launch_no_descriptor("cannot make a pipe", errno);
  }
  shoal_relay_sink_init(STDERR_FILENO, &watch->sink);
  shoal_relay_init(pipe_fds[0], &watch->sink, "", &watch->errors);
  if (!options->no_prefix) watch->errors.is_notable = is_ending;
  fflush(NULL);
  const pid_t parent = getpid();
  watch->child = fork();
  if (watch->child == 0) run_mpirun(command, options, &watch->process, parent, pipe_fds[1]);
  shoal_status_t status = NULL;
  if (watch->child < 0) {
    status = SHOAL_ERROR(UNAVAILABLE, "cannot start mpirun: %s", strerror(errno));
  } else {
    setpgid(watch->child, watch->child);
    watch->pidfd = (int)syscall(SYS_pidfd_open, watch->child, 0);
    if (watch->pidfd < 0) status = shoal_launch_no_descriptor("cannot watch mpirun", errno);
  }
  close(pipe_fds[1]);
  if (!status) status = watch_mpirun(watch);
  if (status && watch->child > 0) {
    kill(-watch->child, SIGKILL);
    waitpid(watch->child, NULL, 0);
  }
  shoal_relay_close(&watch->errors);
  shoal_relay_sink_deinit(&watch->sink);
  if (watch->pidfd >= 0) close(watch->pidfd);
  if (status) return status;
  return outcome(command->argv[0], watch->wait_status, watch->interrupted, watch->asked);
}

static shoal_status_t run_local(const command_t *command, const shoal_launch_options_t *options) {
  shoal_launch_options_t local = *options;
  local.ranks = command->local_ranks;
  return shoal_launch_program_with(&local, command->variables, command->variable_count,
                                   (char *const *)command->argv);
}

static shoal_status_t run_mpi(const command_t *command, const shoal_launch_options_t *options,
                              shoal_arena_t *arena) {
  watch_t *watch = SHOAL_NEW(arena, watch_t, 1);
  if (!watch) return SHOAL_OOM();
  *watch = (watch_t){.pidfd = -1,
                     .grace_ns = shoal_launch_grace_ns(options),
                     .no_usr2 = strcmp(command->family, "mpich") == 0};
  SHOAL_RETURN_IF_ERROR(shoal_launch_process_borrow(OWN_FILES, &watch->process));
  shoal_status_t status = run_command(command, options, watch);
  shoal_launch_process_give_back(&watch->process);
  return status;
}

shoal_status_t shoal_launch_cluster(const shoal_launch_cluster_options_t *options,
                                    const shoal_cluster_t *cluster, char *const *program) {
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  int fds[3] = {-1, -1, -1};
  char paths[3][64] = {"HOSTS", "SSH", "SSH_CONFIG"};
  command_t command = {0};
  shoal_status_t status = NULL;
  for (int i = 0; i < 3 && !status; ++i) {
    status = make_file(paths[i], i == 1 ? 0700 : 0600, &fds[i], paths[i]);
  }
  if (!status) {
    status = compose(options, cluster, program, paths[0], paths[1], paths[2], &arena, &command);
  }
  if (!status && command.local_ranks) {
    status = run_local(&command, &options->launch);
  } else if (!status) {
    const char *texts[3] = {command.hosts, command.ssh_script, command.ssh_config};
    for (int i = 0; i < 3 && !status; ++i) status = fill_file(texts[i], &fds[i], paths[i]);
    if (!status) status = run_mpi(&command, &options->launch, &arena);
  }
  for (int i = 0; i < 3; ++i) {
    if (fds[i] >= 0) close(fds[i]);
  }
  shoal_arena_deinit(&arena);
  return status;
}

// ---- saying it ------------------------------------------------------------------------

shoal_status_t shoal_launch_cluster_print(const shoal_launch_cluster_options_t *options,
                                          const shoal_cluster_t *cluster, char *const *argv,
                                          shoal_arena_t *arena, const char **out_text) {
  command_t command;
  SHOAL_RETURN_IF_ERROR(
      compose(options, cluster, argv, "HOSTS", "SSH", "SSH_CONFIG", arena, &command));
  shoal_text_t text;
  shoal_text_init(arena->allocator, &text);
  if (command.local_ranks) {  // no mpirun
    shoal_text_addf(&text, "local ranks: %d\n", command.local_ranks);
    for (int64_t i = 0; i < command.variable_count; ++i) {
      shoal_text_addf(&text, "variable: %s=%s\n", command.variables[i].name,
                      command.variables[i].value);
    }
    shoal_text_add(&text, "call of each:\n");
  } else {
    shoal_text_addf(&text, "HOSTS:\n%s\nSSH:\n%s\nSSH_CONFIG:\n%s\ncall:\n", command.hosts,
                    command.ssh_script, command.ssh_config);
  }
  for (const char **word = command.argv; *word; ++word) {
    shoal_text_addf(&text, "%s%c", *word, word[1] ? ' ' : '\n');
  }
  return shoal_text_finish(&text, arena, out_text);
}
