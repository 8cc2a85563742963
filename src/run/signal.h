// Signals: SIGTERM and SIGINT set a flag instead of ending the process, so that a training loop can
// save first. A second signal ends the process as usual.
#ifndef SHOAL_RUN_SIGNAL_H_
#define SHOAL_RUN_SIGNAL_H_

#include "shoal/base.h"

// Counts its users: the first installs the handlers, the last restores what was there before. The
// handlers are the process's, whatever number of ranks lives in it.
SHOAL_MUST_USE shoal_status_t shoal_signals_catch(void);
void shoal_signals_release(void);
bool shoal_signals_raised(void);  // since the first catch

#endif  // SHOAL_RUN_SIGNAL_H_
