// Memory that all ranks can address. Between processes it comes from this rank's heap in the hub,
// which everyone maps; between threads any memory will do. Blocks are whole pages, first fit; the
// list of them is this rank's own and private. A released block's pages go back to the system.
//
// Blocks are *coloured*. Some processors (AMD Zen) find a line in the first-level cache by a hash
// of its address's bits 12 to 27; streams whose addresses hash alike throw each other out, and a
// sum over two such buffers was measured 20 times slower. Buffers of equal, round sizes in equal
// heaps would do so always. So a block starts at the page whose hash is the next colour.
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/status.h"
#include "comm/backends/local/local.h"

#define PAGE INT64_C(4096)
#define COLOURS 256

typedef struct shoal_local_block {
  uint8_t *memory;  // what was handed out
  uint8_t *base;    // pages in front of it, up to here, are left untouched
  int64_t bytes;    // from base
  struct shoal_local_block *next;
} block_t;

static uint32_t colour_of(const uint8_t *memory) {
  const uint32_t bits = (uint32_t)((uintptr_t)memory >> 12) & 0xffff;
  uint32_t colour = bits & 0xff;
  for (int i = 0; i < 3; ++i) colour ^= (bits >> (15 - i) & 1) << i;  // 12 with 27, 13, 14
  for (int i = 3; i < 8; ++i) colour ^= (bits >> (5 + i) & 1) << i;   // 15 with 20, to 19 with 24
  return colour;
}

// The first page from `base` on that has the next colour; within COLOURS pages.
static uint8_t *coloured(shoal_local_world_t *world, uint8_t *base) {
  const uint32_t wanted = (uint32_t)(world->base.rank * 61 + world->colours++ * 17) % COLOURS;
  uint8_t *at = base;
  for (int i = 0; i < COLOURS - 1 && colour_of(at) != wanted; ++i) at += PAGE;
  return at;
}

// The first gap that is large enough, as the link where the block belongs.
static block_t **find_gap(shoal_local_world_t *world, int64_t bytes, uint8_t **out_memory) {
  uint8_t *at =
      (uint8_t *)world->hub + world->hub->heaps_at + world->base.rank * world->hub->heap_bytes;
  uint8_t *end = at + world->hub->heap_bytes;
  block_t **link = &world->blocks;
  for (; *link; link = &(*link)->next) {
    if ((*link)->base - at >= bytes) break;
    at = (*link)->base + (*link)->bytes;
  }
  if (!*link && end - at < bytes) return NULL;
  *out_memory = at;
  return link;
}

shoal_status_t shoal_local_alloc(shoal_world_t *base, int64_t bytes, void **out_memory) {
  shoal_local_world_t *world = (shoal_local_world_t *)base;
  if (bytes < 0 || bytes > INT64_MAX - (COLOURS + 1) * PAGE) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%lld bytes", (long long)bytes);
  }
  block_t *block = base->allocator.alloc(base->allocator.self, sizeof *block);
  if (!block) return SHOAL_OOM();
  *block = (block_t){.bytes = ((bytes + PAGE - 1) / PAGE + COLOURS) * PAGE};
  shoal_mutex_lock(&world->heap_lock);
  block_t **link = &world->blocks;
  if (world->threads) {
    block->base = mmap(NULL, (size_t)block->bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block->base == MAP_FAILED) link = NULL;
  } else {
    link = find_gap(world, block->bytes, &block->base);
  }
  if (link) {
    block->memory = coloured(world, block->base);
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
    munmap(block->base, (size_t)block->bytes);
  } else {
    madvise(block->base, (size_t)block->bytes, MADV_REMOVE);
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
