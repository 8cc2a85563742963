// Each block has a 64-byte header with its size: it keeps the 64-byte alignment that allocators
// promise.
#include "base/failing.h"

#include <string.h>

enum { HEADER = 64 };

static shoal_allocator_t inner_of(const shoal_failing_t *state) {
  return state->inner.alloc ? state->inner : shoal_allocator_system();
}

static void *failing_alloc(void *self, size_t size) {
  shoal_failing_t *state = self;
  int64_t call = atomic_fetch_add(&state->calls, 1) + 1;
  if (call == atomic_load(&state->fail_at) || size > SIZE_MAX - HEADER) return NULL;
  shoal_allocator_t inner = inner_of(state);
  char *block = inner.alloc(inner.self, size + HEADER);
  if (!block) return NULL;
  memcpy(block, &size, sizeof size);
  atomic_fetch_add(&state->live_blocks, 1);
  int64_t live = atomic_fetch_add(&state->live_bytes, (int64_t)size) + (int64_t)size;
  int64_t peak = atomic_load(&state->peak_bytes);
  while (live > peak && !atomic_compare_exchange_weak(&state->peak_bytes, &peak, live)) {
  }
  return block + HEADER;
}

static void failing_free(void *self, void *memory) {
  shoal_failing_t *state = self;
  if (!memory) return;
  char *block = (char *)memory - HEADER;
  size_t size;
  memcpy(&size, block, sizeof size);
  atomic_fetch_sub(&state->live_blocks, 1);
  atomic_fetch_sub(&state->live_bytes, (int64_t)size);
  shoal_allocator_t inner = inner_of(state);
  inner.free(inner.self, block);
}

shoal_allocator_t shoal_allocator_failing(shoal_failing_t *state) {
  return (shoal_allocator_t){.self = state, .alloc = failing_alloc, .free = failing_free};
}
