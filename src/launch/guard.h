// The launcher's guard: a process beside it that ends the ranks' process groups when the launcher
// itself is killed. A rank dies with its parent anyway (PR_SET_PDEATHSIG), but a shell in between
// would die alone and leave its children behind.
#ifndef SHOAL_LAUNCH_GUARD_H_
#define SHOAL_LAUNCH_GUARD_H_

#include <sys/types.h>

#include "shoal/base.h"

typedef struct shoal_launch_guard {
  pid_t pid;
  int socket;  // to the guard; when the last copy is closed it acts
} shoal_launch_guard_t;

// Forks the guard, for as many groups as a hub has ranks. *Not collective.*
SHOAL_MUST_USE shoal_status_t shoal_launch_guard_start(shoal_launch_guard_t *out_guard);
// Names a process group to end. The group's leader calls this itself, so that the group is never
// unguarded.
void shoal_launch_guard_add(const shoal_launch_guard_t *guard, pid_t group);
// Says that a group has ended, since its number may be reused.
void shoal_launch_guard_remove(const shoal_launch_guard_t *guard, pid_t group);
// Closes a forked child's copy of the connection; the guard takes no notice.
void shoal_launch_guard_leave(shoal_launch_guard_t *guard);
// Ends the guard, and through it every group that was not removed.
void shoal_launch_guard_stop(shoal_launch_guard_t *guard);

#endif  // SHOAL_LAUNCH_GUARD_H_
