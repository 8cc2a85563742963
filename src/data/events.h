// TensorBoard's event files: records of TensorFlow's TFRecord format, each a protobuf Event written
// by hand (tensorflow/core/util/event.proto, summary.proto).
#ifndef SHOAL_DATA_EVENTS_H_
#define SHOAL_DATA_EVENTS_H_

#include "data/buffer.h"
#include "shoal/metrics.h"

// The first record of a file.
bool shoal_events_version(shoal_allocator_t allocator, double time, shoal_buffer_t *out);
// A step's scalars, as floats.
bool shoal_events_scalars(shoal_allocator_t allocator, double time, int64_t step,
                          const shoal_metric_t *values, int64_t count, shoal_buffer_t *out);
// CRC-32C (Castagnoli), as iSCSI has it.
uint32_t shoal_crc32c(const void *data, int64_t length);

#endif  // SHOAL_DATA_EVENTS_H_
