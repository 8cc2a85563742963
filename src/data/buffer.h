// Bytes that grow, with the caller's allocator. A zeroed buffer is empty.
#ifndef SHOAL_DATA_BUFFER_H_
#define SHOAL_DATA_BUFFER_H_

#include "shoal/base.h"

typedef struct shoal_buffer {
  char *data;
  int64_t length, capacity;
} shoal_buffer_t;

// Room for `more` bytes behind those that are there; false when memory is short.
bool shoal_buffer_reserve(shoal_allocator_t allocator, shoal_buffer_t *buffer, int64_t more);
bool shoal_buffer_add(shoal_allocator_t allocator, shoal_buffer_t *buffer, const void *data,
                      int64_t length);
void shoal_buffer_deinit(shoal_allocator_t allocator, shoal_buffer_t *buffer);

#endif  // SHOAL_DATA_BUFFER_H_
