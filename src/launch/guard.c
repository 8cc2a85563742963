// The launcher's guard: see guard.h. It only makes system calls: it may be the fork of a
// process with many threads.
#include "launch/guard.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "comm/backends/local/hub.h"

_Noreturn static void stand_guard(int socket) {
  pid_t groups[SHOAL_HUB_MAX_RANKS] = {0};
  prctl(PR_SET_NAME, "shoal-guard");
  setpgid(0, 0);  // a Ctrl-C is not meant for it
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, NULL);
  // Nobody is to wait for the end of a pipe because the guard has it open too.
  dup2(socket, 0);
  close_range(1, ~0u, 0);
  for (;;) {
    pid_t said;  // a group to add; negative: to remove; 0: the launcher is done
    const ssize_t got = recv(0, &said, sizeof said, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof said || said == 0) break;
    const pid_t looked_for = said < 0 ? -said : 0;
    for (int i = 0; i < SHOAL_HUB_MAX_RANKS; ++i) {
      if (groups[i] != looked_for) continue;
      groups[i] = said < 0 ? 0 : said;
      break;
    }
  }
  for (int i = 0; i < SHOAL_HUB_MAX_RANKS; ++i) {
    if (groups[i]) kill(-groups[i], SIGKILL);
  }
  _exit(0);
}

shoal_status_t shoal_launch_guard_start(shoal_launch_guard_t *out_guard) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return SHOAL_ERROR(UNAVAILABLE, "no socket pair for the launcher's guard: %s", strerror(errno));
  }
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    stand_guard(ends[1]);
  }
  close(ends[1]);
  if (pid < 0) {
    shoal_status_t status =
        SHOAL_ERROR(UNAVAILABLE, "cannot start the launcher's guard: %s", strerror(errno));
    close(ends[0]);
    return status;
  }
  *out_guard = (shoal_launch_guard_t){pid, ends[0]};
  return NULL;
}

// A guard that was killed is no reason to fail.
static void say(const shoal_launch_guard_t *guard, pid_t what) {
  while (send(guard->socket, &what, sizeof what, MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

void shoal_launch_guard_add(const shoal_launch_guard_t *guard, pid_t group) {
  say(guard, group);
}

void shoal_launch_guard_remove(const shoal_launch_guard_t *guard, pid_t group) {
  say(guard, -group);
}

void shoal_launch_guard_leave(shoal_launch_guard_t *guard) {
  close(guard->socket);
}

void shoal_launch_guard_stop(shoal_launch_guard_t *guard) {
  if (guard->pid <= 0) return;
  say(guard, 0);  // another fork of this process may have a copy of the socket
  close(guard->socket);
  while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR) {
  }
  guard->pid = 0;
}
