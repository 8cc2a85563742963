// Joining `local` under launchers that only number their processes: torchrun (RANK, WORLD_SIZE,
// MASTER_PORT) and srun without an MPI. Rank 0 makes the hub and hands its descriptor to the others
// over an abstract Unix socket, whose name is the job's and which leaves nothing behind. All ranks
// must be on this machine: between machines Shoal has no transport but MPI, and says so.
//
// Not a backend of its own: its worlds are `local`'s.
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/status.h"
#include "base/time.h"
#include "comm/backends/local/hub.h"
#include "comm/comm_impl.h"

#define RETRY_NS 5000000
#define REMEDY                                                                          \
  "use `mpirun` or `srun --mpi=pmix` (Open MPI) or `srun --mpi=pmi2` (MPICH) for many " \
  "machines, `shoal run -n N` for one"

// ---- the environment ------------------------------------------------------------------

typedef struct job {
  const char *launcher;
  int32_t rank, size;
  bool one_host;
  char key[80];  // the same for all ranks of the job, and no other's
} job_t;

static bool is_torchrun(void) {
  return getenv("RANK") && getenv("WORLD_SIZE") && getenv("MASTER_PORT");
}

// SLURM_STEP_ID: in a batch script itself SLURM_PROCID is set too, but nothing was launched.
static bool is_slurm(void) {
  const char *size = getenv("SLURM_STEP_NUM_TASKS");
  return size && getenv("SLURM_PROCID") && getenv("SLURM_STEP_ID") && strcmp(size, "1") != 0;
}

static bool rendezvous_detect(void) {
  return is_torchrun() || is_slurm();
}

static shoal_status_t read_number(const char *name, int32_t *out_value) {
  const char *text = getenv(name);
  char *end = NULL;
  const long value = text ? strtol(text, &end, 10) : -1;
  if (!text || !text[0] || *end || value < 0 || value > INT32_MAX) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s is %s%s%s, not a number", name, text ? "'" : "not set",
                       text ? text : "", text ? "'" : "");
  }
  *out_value = (int32_t)value;
  return NULL;
}

// A variable as a part of the key; "" when it is not set.
static const char *part(const char *name) {
  const char *text = getenv(name);
  return text ? text : "";
}

static bool is_this_host(const char *address) {
  char own[256] = "";
  gethostname(own, sizeof own - 1);
  const size_t length = strcspn(own, ".");
  return strncmp(address, "127.", 4) == 0 || strcmp(address, "localhost") == 0 ||
         strcmp(address, "::1") == 0 || strcmp(address, own) == 0 ||
         (strlen(address) == length && strncmp(address, own, length) == 0);
}

static shoal_status_t read_job(job_t *out_job) {
  job_t job = {.launcher = is_torchrun() ? "torchrun" : "Slurm"};
  if (is_torchrun()) {
    SHOAL_RETURN_IF_ERROR(read_number("RANK", &job.rank));
    SHOAL_RETURN_IF_ERROR(read_number("WORLD_SIZE", &job.size));
    const char *local = getenv("LOCAL_WORLD_SIZE"), *address = getenv("MASTER_ADDR");
    job.one_host = local ? strtol(local, NULL, 10) == job.size : !address || is_this_host(address);
    snprintf(job.key, sizeof job.key, "torch-%.16s-%.32s-%.8s", part("MASTER_PORT"),
             part("TORCHELASTIC_RUN_ID"), part("TORCHELASTIC_RESTART_COUNT"));
  } else {
    SHOAL_RETURN_IF_ERROR(read_number("SLURM_PROCID", &job.rank));
    SHOAL_RETURN_IF_ERROR(read_number("SLURM_STEP_NUM_TASKS", &job.size));
    job.one_host = strcmp(part("SLURM_STEP_NUM_NODES"), "1") == 0;
    snprintf(job.key, sizeof job.key, "slurm-%.24s-%.24s", part("SLURM_JOB_ID"),
             part("SLURM_STEP_ID"));
  }
  if (job.rank >= job.size) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s says that this is rank %d of %d", job.launcher,
                       job.rank, job.size);
  }
  *out_job = job;
  return NULL;
}

// ---- meeting --------------------------------------------------------------------------

typedef struct hello {
  uint64_t magic;
  int32_t rank, size;
} hello_t;
#define MAGIC UINT64_C(0x314f4c4c45485353)

static socklen_t name_socket(const job_t *job, struct sockaddr_un *out_address) {
  *out_address = (struct sockaddr_un){.sun_family = AF_UNIX};
  const int length = snprintf(out_address->sun_path + 1, sizeof out_address->sun_path - 1,
                              "shoal-%u-%s", (unsigned)getuid(), job->key);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

// Abstract sockets have no owner: whoever is at the other end must be the same user.
static bool is_same_user(int socket, pid_t *out_pid) {
  struct ucred who;
  socklen_t size = sizeof who;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 || who.uid != getuid()) {
    return false;
  }
  *out_pid = who.pid;
  return true;
}

// Waits for something to read, or for a connection.
static bool is_ready(int fd, int64_t deadline) {
  for (;;) {
    const int64_t left = (deadline - shoal_time_ns()) / 1000000;
    struct pollfd one = {.fd = fd, .events = POLLIN};
    const int got = poll(&one, 1, left > 0 ? (int)(left < 1000 ? left + 1 : 1000) : 0);
    if (got > 0) return true;
    if ((got < 0 && errno != EINTR) || left <= 0) return false;
  }
}

static bool send_descriptor(int socket, int fd) {
  char byte = 0;
  _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec data = {&byte, 1};
  struct msghdr message = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &fd, sizeof fd);
  return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

static int receive_descriptor(int socket) {
  char byte;
  int fd = -1;
  _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  struct iovec data = {&byte, 1};
  struct msghdr message = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (header && header->cmsg_type == SCM_RIGHTS) memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return fd;
}

// Rank 0: one visitor; true when it was one of ours and has the descriptor. The hub learns its
// process right here: should it die before it has joined, the others see that.
static shoal_status_t serve(const job_t *job, int visitor, shoal_hub_t *hub, int hub_fd,
                            uint64_t *seen, int64_t deadline, bool *out_ours) {
  hello_t hello = {0};
  pid_t pid;
  *out_ours = false;
  if (!is_same_user(visitor, &pid) || !is_ready(visitor, deadline) ||
      read(visitor, &hello, sizeof hello) != sizeof hello || hello.magic != MAGIC) {
    return NULL;
  }
  if (hello.size != job->size || hello.rank < 1 || hello.rank >= job->size ||
      (seen[hello.rank / 64] >> (hello.rank % 64) & 1)) {
    return SHOAL_ERROR(
        INVALID_ARGUMENT, "%s started this process as rank 0 of %d, and another as rank %d of %d%s",
        job->launcher, job->size, hello.rank, hello.size, hello.size == job->size ? ", twice" : "");
  }
  seen[hello.rank / 64] |= UINT64_C(1) << (hello.rank % 64);
  if (pid > 0) shoal_hub_set_process(hub, hello.rank, pid);
  *out_ours = send_descriptor(visitor, hub_fd);
  return NULL;
}

static shoal_status_t host(const job_t *job, shoal_hub_t *hub, int hub_fd, int64_t deadline) {
  struct sockaddr_un address;
  const socklen_t length = name_socket(job, &address);
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) != 0 ||
      listen(listener, SHOAL_HUB_MAX_RANKS) != 0) {
    shoal_status_t status = SHOAL_ERROR_HINT(
        UNAVAILABLE, "two jobs with one MASTER_PORT? give each its own",
        "rank 0 cannot meet the other ranks as '%s': %s", address.sun_path + 1, strerror(errno));
    if (listener >= 0) close(listener);
    return status;
  }
  uint64_t seen[SHOAL_HUB_MAX_RANKS / 64] = {0};
  shoal_status_t status = NULL;
  for (int32_t there = 1; there < job->size && !status;) {
    if (!is_ready(listener, deadline)) {
      status = SHOAL_ERROR_HINT(DEADLINE, REMEDY,
                                "only %d of %d ranks came to this machine's meeting point in time",
                                there, job->size);
      break;
    }
    const int visitor = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (visitor < 0) continue;
    bool ours;
    status = serve(job, visitor, hub, hub_fd, seen, deadline, &ours);
    there += ours;
    close(visitor);
  }
  close(listener);
  return status;
}

static shoal_status_t visit(const job_t *job, int64_t deadline, int *out_fd) {
  struct sockaddr_un address;
  const socklen_t length = name_socket(job, &address);
  do {
    pid_t pid;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return SHOAL_ERROR(UNAVAILABLE, "no Unix socket: %s", strerror(errno));
    if (connect(fd, (struct sockaddr *)&address, length) == 0 && is_same_user(fd, &pid)) {
      const hello_t hello = {MAGIC, job->rank, job->size};
      *out_fd = -1;
      if (write(fd, &hello, sizeof hello) == sizeof hello && is_ready(fd, deadline)) {
        *out_fd = receive_descriptor(fd);
      }
      close(fd);
      if (*out_fd >= 0) return NULL;
      return SHOAL_ERROR(ABORTED, "rank 0 ended, or did not let rank %d of %d join", job->rank,
                         job->size);
    }
    close(fd);
    shoal_time_sleep_ns(RETRY_NS);
  } while (shoal_time_ns() < deadline);
  return SHOAL_ERROR_HINT(DEADLINE, REMEDY, "rank %d of %d waited in vain for rank 0", job->rank,
                          job->size);
}

// ---- joining --------------------------------------------------------------------------

static void set_number(const char *name, int32_t value) {
  char text[16];
  snprintf(text, sizeof text, "%d", value);
  setenv(name, text, 1);
}

// From here on this process is as `shoal run` starts one: joining again finds the same hub.
static void tell_local(const job_t *job, int hub_fd) {
  set_number("SHOAL_RANK", job->rank);
  set_number("SHOAL_SIZE", job->size);
  set_number("SHOAL_LOCAL_FD", hub_fd);
}

static shoal_status_t rendezvous_join(const shoal_world_options_t *options,
                                      shoal_world_t **out_world) {
  job_t job;
  SHOAL_RETURN_IF_ERROR(read_job(&job));
  if (job.size == 1) return shoal_comm_self.join(options, out_world);
  if (!job.one_host) {
    return SHOAL_ERROR_HINT(UNAVAILABLE, REMEDY,
                            "%s started %d ranks on several machines, without an MPI", job.launcher,
                            job.size);
  }
  const int64_t deadline = shoal_time_ns() + options->timeout_ms * 1000000;
  int fd = -1;
  if (job.rank == 0) {
    shoal_hub_t *hub;
    SHOAL_RETURN_IF_ERROR(shoal_hub_create(job.size, &fd, &hub));
    shoal_hub_set_process(hub, 0, getpid());
    shoal_status_t status = host(&job, hub, fd, deadline);
    shoal_hub_close(hub);
    if (status) {
      close(fd);
      return status;
    }
  } else {
    SHOAL_RETURN_IF_ERROR(visit(&job, deadline, &fd));
  }
  tell_local(&job, fd);
  return shoal_comm_local.join(options, out_world);
}

const shoal_comm_ops_t shoal_comm_rendezvous = {
    .name = "rendezvous",
    .detect = rendezvous_detect,
    .join = rendezvous_join,
};
