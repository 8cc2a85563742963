// The system's allocator as a value.
#include <stdlib.h>

#include "shoal/base.h"

static void *system_alloc(void *self, size_t size) {
  (void)self;
  if (size > SIZE_MAX - 63) return NULL;
  size_t rounded = (size + 63) & ~(size_t)63;
  return aligned_alloc(64, rounded ? rounded : 64);
}

static void system_free(void *self, void *memory) {
  (void)self;
  free(memory);
}

shoal_allocator_t shoal_allocator_system(void) {
  return (shoal_allocator_t){.alloc = system_alloc, .free = system_free};
}
