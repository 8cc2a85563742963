// Device functions for other layers of the library, which are not public.
#ifndef SHOAL_DEVICE_DEVICE_H_
#define SHOAL_DEVICE_DEVICE_H_

#include "shoal/device.h"
#include "target/target.h"

// What lowering asks about this device. Borrows the device.
shoal_target_t shoal_device_target(const shoal_device_t *device);

// How many rows a bounded operand has when its count is n: the first ones of its part.
int64_t shoal_bounded_rows(const shoal_bounded_t *bounded, int64_t n);

#endif  // SHOAL_DEVICE_DEVICE_H_
