// Progress: see progress.h. Group, phase and count share a word, so that they are read together.
#include "comm/progress.h"

#include "comm/comm_impl.h"

#define COUNT_BITS 40
#define COUNT_MASK ((UINT64_C(1) << COUNT_BITS) - 1)

static uint64_t mark_of(const shoal_group_t *group, uint64_t phase) {
  return (group->stream->id + phase) << COUNT_BITS;
}

void shoal_progress_tell(const shoal_group_t *group, uint64_t phase, uint64_t count) {
  atomic_store_explicit(&group->world->recorder->progress,
                        mark_of(group, phase) | (count & COUNT_MASK), memory_order_release);
}

int32_t shoal_progress_ahead(const shoal_group_t *group, uint64_t phase, uint64_t count) {
  shoal_world_t *world = group->world;
  shoal_allocator_t allocator = world->allocator;
  int32_t found = -1;
  if (!world->ops->survey) return -1;
  shoal_account_t *accounts =
      allocator.alloc(allocator.self, (size_t)world->size * sizeof *accounts);
  if (!accounts) return -1;  // the others will be asked another time
  for (int32_t i = 0; i < world->size; ++i) accounts[i] = (shoal_account_t){0};
  world->ops->survey(world, accounts);
  for (int32_t i = 0; i < world->size && found < 0; ++i) {
    const uint64_t told = accounts[i].progress;
    if (accounts[i].presence != SHOAL_PRESENCE_HERE ||
        (told & ~COUNT_MASK) != mark_of(group, phase)) {
      continue;
    }
    if ((told & COUNT_MASK) > count) found = i;
  }
  allocator.free(allocator.self, accounts);
  return found;
}

void shoal_progress_break(const shoal_group_t *group, const char *message) {
  group->world->ops->fail(group->world, SHOAL_MISMATCH, message);
}
