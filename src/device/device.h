// Device functions for other layers of the library, which are not public.
#ifndef SHOAL_DEVICE_DEVICE_H_
#define SHOAL_DEVICE_DEVICE_H_

#include "shoal/device.h"
#include "target/target.h"

// What lowering asks about this device. Borrows the device.
shoal_target_t shoal_device_target(const shoal_device_t *device);

#endif  // SHOAL_DEVICE_DEVICE_H_
