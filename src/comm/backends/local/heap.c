// Memory that all ranks can address. Between processes it comes from this rank's heap in the hub,
// which everyone maps; between threads any memory will do. Blocks are whole pages, first fit; the
// list of them is this rank's own and private. A released block's pages go back to the system.
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/status.h"
#include "comm/backends/local/local.h"

#define PAGE INT64_C(4096)

typedef struct shoal_local_block {
  uint8_t *memory;
  int64_t bytes;
  struct shoal_local_block *next;
} block_t;

// The first gap that is large enough, as the link where the block belongs.
static block_t **find_gap(shoal_local_world_t *world, int64_t bytes, uint8_t **out_memory) {
  uint8_t *at =
      (uint8_t *)world->hub + world->hub->heaps_at + world->base.rank * world->hub->heap_bytes;
  uint8_t *end = at + world->hub->heap_bytes;
  block_t **link = &world->blocks;
  for (; *link; link = &(*link)->next) {
    if ((*link)->memory - at >= bytes) break;
    at = (*link)->memory + (*link)->bytes;
  }
  if (!*link && end - at < bytes) return NULL;
  *out_memory = at;
  return link;
}

shoal_status_t shoal_local_alloc(shoal_world_t *base, int64_t bytes, void **out_memory) {
  shoal_local_world_t *world = (shoal_local_world_t *)base;
  if (bytes < 0 || bytes > INT64_MAX - PAGE) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%lld bytes", (long long)bytes);
  }
  block_t *block = base->allocator.alloc(base->allocator.self, sizeof *block);
  if (!block) return SHOAL_OOM();
  *block = (block_t){.bytes = (bytes + PAGE - 1) / PAGE * PAGE + (bytes == 0) * PAGE};
  shoal_mutex_lock(&world->heap_lock);
  block_t **link = &world->blocks;
  if (world->threads) {
    block->memory = mmap(NULL, (size_t)block->bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block->memory == MAP_FAILED) link = NULL;
  } else {
    link = find_gap(world, block->bytes, &block->memory);
  }
  if (link) {
    block->next = *link;
    *link = block;
  }
  shoal_mutex_unlock(&world->heap_lock);
  if (!link) {
    base->allocator.free(base->allocator.self, block);
    return SHOAL_ERROR(OUT_OF_MEMORY, "no %lld bytes that all ranks can address", (long long)bytes);
  }
  *out_memory = block->memory;
  return NULL;
}

static void free_block(shoal_local_world_t *world, block_t *block) {
  if (world->threads) {
    munmap(block->memory, (size_t)block->bytes);
  } else {
    madvise(block->memory, (size_t)block->bytes, MADV_REMOVE);
  }
  world->base.allocator.free(world->base.allocator.self, block);
}

void shoal_local_release(shoal_world_t *base, void *memory) {
  shoal_local_world_t *world = (shoal_local_world_t *)base;
  if (!memory) return;
  shoal_mutex_lock(&world->heap_lock);
  block_t **link = &world->blocks;
  while (*link && (*link)->memory != memory) link = &(*link)->next;
  block_t *block = *link;
  if (block) {
    *link = block->next;
    free_block(world, block);
  }
  shoal_mutex_unlock(&world->heap_lock);
}

void shoal_local_heap_deinit(shoal_local_world_t *world) {
  while (world->blocks) {
    block_t *next = world->blocks->next;
    free_block(world, world->blocks);
    world->blocks = next;
  }
}

int64_t shoal_local_place(const shoal_local_world_t *world, const void *memory, int64_t bytes) {
  if (!memory || bytes == 0) return 0;
  if (world->threads) return (int64_t)(uintptr_t)memory;
  const uintptr_t at = (uintptr_t)memory, hub = (uintptr_t)world->hub;
  const uintptr_t end = hub + (uintptr_t)world->hub->bytes;
  if (at < hub + (uintptr_t)world->hub->heaps_at || at >= end || end - at < (uintptr_t)bytes) {
    return SHOAL_PLACE_PRIVATE;
  }
  return (int64_t)(at - hub);
}
