// See interrupt.h.
#include "interrupt.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "shoal/base.h"

static pid_t main_process;

static void end(int number) {
  const char *text = number == SIGINT ? "shoal: error: ABORTED: interrupted by SIGINT\n"
                                      : "shoal: error: ABORTED: interrupted by SIGTERM\n";
  // forked ranks leave the word to their parent
  const bool said = getpid() != main_process || write(STDERR_FILENO, text, strlen(text)) >= 0;
  _exit(shoal_code_exit(said ? SHOAL_ABORTED : SHOAL_IO));
}

void cli_interrupt_watch(void) {
  static const int numbers[] = {SIGTERM, SIGINT};
  struct sigaction action = {.sa_handler = end}, before;
  main_process = getpid();
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < 2; ++i) {
    if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
      sigaction(numbers[i], &action, NULL);
  }
}
