// See buffer.h.
#include "data/buffer.h"

#include <string.h>

bool shoal_buffer_reserve(shoal_allocator_t allocator, shoal_buffer_t *buffer, int64_t more) {
  if (more <= buffer->capacity - buffer->length) return true;
  int64_t capacity = buffer->capacity ? buffer->capacity : 4096;
  while (capacity - buffer->length < more) {
    if (capacity > INT64_MAX / 2) return false;
    capacity *= 2;
  }
  char *data = allocator.alloc(allocator.self, (size_t)capacity);
  if (!data) return false;
  if (buffer->length) memcpy(data, buffer->data, (size_t)buffer->length);
  if (buffer->data) allocator.free(allocator.self, buffer->data);
  buffer->data = data;
  buffer->capacity = capacity;
  return true;
}

bool shoal_buffer_add(shoal_allocator_t allocator, shoal_buffer_t *buffer, const void *data,
                      int64_t length) {
  if (!shoal_buffer_reserve(allocator, buffer, length)) return false;
  if (length) memcpy(buffer->data + buffer->length, data, (size_t)length);
  buffer->length += length;
  return true;
}

void shoal_buffer_deinit(shoal_allocator_t allocator, shoal_buffer_t *buffer) {
  if (buffer->data) allocator.free(allocator.self, buffer->data);
  *buffer = (shoal_buffer_t){0};
}
