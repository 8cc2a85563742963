// Is an address of a cluster file this machine's? Then no ssh and no MPI is needed to start ranks.
#ifndef SHOAL_LAUNCH_HERE_H_
#define SHOAL_LAUNCH_HERE_H_

#include "shoal/base.h"

// Loopback, this machine's host name, or an address of one of its interfaces. Asks no name server:
// another name of this machine is not found out. *Not collective.*
bool shoal_launch_is_here(const char *address);

#endif  // SHOAL_LAUNCH_HERE_H_
