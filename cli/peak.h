// How fast this machine multiplies: what the speed of training is compared with.
#ifndef SHOAL_CLI_PEAK_H_
#define SHOAL_CLI_PEAK_H_

#include "shoal/base.h"

// FLOPs per second that this rank's device reaches in a product of two matrices of that type, alone
// or beside other ranks that measure at the same time. Takes some 20 milliseconds. 0: this build is
// too slow to tell in that time. Not collective.
SHOAL_MUST_USE shoal_status_t cli_peak_measure(shoal_dtype_t dtype, double *out_flops);

#endif  // SHOAL_CLI_PEAK_H_
