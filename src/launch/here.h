// Recognises this machine's own addresses in a cluster file: ranks on it need neither ssh nor MPI.
#ifndef SHOAL_LAUNCH_HERE_H_
#define SHOAL_LAUNCH_HERE_H_

#include "shoal/base.h"

// Says whether the address is loopback, this machine's host name, or an address of one of its
// interfaces. It asks no name server, so other names of this machine are not recognised. *Not
// collective.*
bool shoal_launch_is_here(const char *address);

#endif  // SHOAL_LAUNCH_HERE_H_
