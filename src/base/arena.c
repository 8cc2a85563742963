// Arenas: a list of blocks, the newest first; small requests are cut off the newest one. Requests
// that would waste much of it get a block of their own behind it.
#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/locale.h"
#include "base/status.h"

struct shoal_arena_block {
  shoal_arena_block_t *next;
  size_t capacity;  // bytes after the header
};

enum { HEADER = 64, ALIGN = 16, FIRST_BLOCK = 4096 - HEADER, LARGEST_BLOCK = (1 << 20) - HEADER };
_Static_assert(sizeof(shoal_arena_block_t) <= HEADER, "the header keeps blocks 64-byte aligned");

void shoal_arena_init(shoal_allocator_t allocator, shoal_arena_t *out_arena) {
  *out_arena = (shoal_arena_t){.allocator = allocator};
}

static void free_blocks(const shoal_arena_t *arena, shoal_arena_block_t *block) {
  for (shoal_arena_block_t *next; block; block = next) {
    next = block->next;
    arena->allocator.free(arena->allocator.self, block);
  }
}

void shoal_arena_deinit(shoal_arena_t *arena) {
  if (!arena) return;
  free_blocks(arena, arena->blocks);
  *arena = (shoal_arena_t){.allocator = arena->allocator};
}

void shoal_arena_clear(shoal_arena_t *arena) {
  if (!arena->blocks) return;
  free_blocks(arena, arena->blocks->next);
  arena->blocks->next = NULL;
  arena->used = 0;
}

shoal_status_t shoal_arena_create(shoal_allocator_t allocator, shoal_arena_t **out_arena) {
  *out_arena = NULL;
  shoal_arena_t *arena = allocator.alloc(allocator.self, sizeof *arena);
  if (!arena) return SHOAL_OOM();
  shoal_arena_init(allocator, arena);
  *out_arena = arena;
  return NULL;
}

void shoal_arena_free(shoal_arena_t *arena) {
  if (!arena) return;
  shoal_allocator_t allocator = arena->allocator;
  shoal_arena_deinit(arena);
  allocator.free(allocator.self, arena);
}

static shoal_arena_block_t *new_block(shoal_arena_t *arena, size_t capacity) {
  if (capacity > SIZE_MAX - HEADER) return NULL;
  shoal_arena_block_t *block = arena->allocator.alloc(arena->allocator.self, HEADER + capacity);
  if (block) *block = (shoal_arena_block_t){.capacity = capacity};
  return block;
}

void *shoal_arena_alloc(shoal_arena_t *arena, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - ALIGN) return NULL;
  bytes = bytes ? (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1) : ALIGN;
  if (bytes > arena->capacity - arena->used) {
    size_t capacity = arena->blocks ? arena->capacity * 2 + HEADER : FIRST_BLOCK;
    if (capacity > LARGEST_BLOCK) capacity = LARGEST_BLOCK;
    if (bytes > capacity / 4 && arena->blocks) {
      shoal_arena_block_t *own = new_block(arena, bytes);
      if (!own) return NULL;
      own->next = arena->blocks->next;
      arena->blocks->next = own;
      return memset((char *)own + HEADER, 0, bytes);
    }
    shoal_arena_block_t *block = new_block(arena, bytes > capacity ? bytes : capacity);
    if (!block) return NULL;
    block->next = arena->blocks;
    arena->blocks = block;
    arena->capacity = block->capacity;
    arena->used = 0;
  }
  char *memory = (char *)arena->blocks + HEADER + arena->used;
  arena->used += bytes;
  return memset(memory, 0, bytes);
}

void *shoal_arena_copy(shoal_arena_t *arena, const void *data, size_t count, size_t size) {
  void *memory = shoal_arena_alloc(arena, count, size);
  if (memory && count && size) memcpy(memory, data, count * size);
  return memory;
}

char *shoal_arena_strdup(shoal_arena_t *arena, const char *text) {
  return shoal_arena_copy(arena, text, strlen(text) + 1, 1);
}

char *shoal_arena_printf(shoal_arena_t *arena, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int length = shoal_format_args(NULL, 0, format, args);
  char *text = length < 0 ? NULL : shoal_arena_alloc(arena, (size_t)length + 1, 1);
  if (text) shoal_format_args(text, (size_t)length + 1, format, again);
  va_end(again);
  va_end(args);
  return text;
}

bool shoal_vec_grow(shoal_arena_t *arena, void **items, int64_t *count, int64_t *capacity,
                    size_t size) {
  if (*count == *capacity) {
    // `items` points at a T *: it is read and written as bytes, not as a void *.
    void *old;
    memcpy(&old, items, sizeof old);
    int64_t larger = *capacity ? *capacity * 2 : 8;
    void *grown = shoal_arena_alloc(arena, (size_t)larger, size);
    if (!grown) return false;
    if (*count) memcpy(grown, old, (size_t)*count * size);
    memcpy(items, &grown, sizeof grown);
    *capacity = larger;
  }
  ++*count;
  return true;
}
