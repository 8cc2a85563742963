// Signals that end a command before its session looks for them, with the code of ABORTED as later.
#ifndef SHOAL_CLI_INTERRUPT_H_
#define SHOAL_CLI_INTERRUPT_H_

// From now on SIGTERM and SIGINT, unless they are ignored, end this process with "interrupted by
// ..."; shoal_session_catch_signals takes them over and gives them back.
void cli_interrupt_watch(void);

#endif  // SHOAL_CLI_INTERRUPT_H_
