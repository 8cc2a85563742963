// Settings of the process that a launcher changes while its children run, and restores: it blocks
// the signals that it forwards, stops ignoring SIGCHLD, without which it could not wait for
// children, and raises the limit of open files.
#ifndef SHOAL_LAUNCH_PROCESS_H_
#define SHOAL_LAUNCH_PROCESS_H_

#include <signal.h>
#include <sys/resource.h>

#include "launch/launch.h"

typedef struct shoal_launch_process {
  int signal_fd;  // the signals to forward
  bool has_limit;
  sigset_t old_mask;
  struct sigaction old_child;
  struct rlimit old_limit;
} shoal_launch_process_t;

// `files` descriptors are about to be opened; UNAVAILABLE if even the hard limit has no room for
// them. On an error nothing is borrowed. *Not collective.*
SHOAL_MUST_USE shoal_status_t shoal_launch_process_borrow(int64_t files,
                                                          shoal_launch_process_t *out_process);
void shoal_launch_process_give_back(shoal_launch_process_t *process);  // also in a forked child

// SIGUSR1 and SIGUSR2 say something to the ranks; the other forwarded signals are to end them.
bool shoal_launch_is_message(int signal_number);
// An error for a descriptor that could not be had, with the remedy if it is the limit of open
// files.
SHOAL_MUST_USE shoal_status_t shoal_launch_no_descriptor(const char *what, int error);

int64_t shoal_launch_grace_ns(const shoal_launch_options_t *options);
// What poll() may wait until this time, at least 0; -1 for 0: there is no limit.
int shoal_launch_poll_ms(int64_t deadline_ns);

#endif  // SHOAL_LAUNCH_PROCESS_H_
