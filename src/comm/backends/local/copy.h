// Copying between buffers that may be large: see copy.c.
#ifndef SHOAL_COMM_BACKENDS_LOCAL_COPY_H_
#define SHOAL_COMM_BACKENDS_LOCAL_COPY_H_

#include <stdbool.h>
#include <stdint.h>

// As memmove; nothing if the two are the same.
void shoal_local_copy(void *to, const void *from, int64_t bytes);
// Past the caches, for another core to read: lines that one core has just written are slow to fetch
// for the next. The two must not overlap.
void shoal_local_copy_past(void *to, const void *from, int64_t bytes);

#endif  // SHOAL_COMM_BACKENDS_LOCAL_COPY_H_
