// Arena: many small zeroed blocks, freed together. Graphs, plans and programs live in one each.
// Also growable arrays inside an arena (old storage stays until the arena goes: fine for build-once
// data).
#ifndef SHOAL_BASE_ARENA_H_
#define SHOAL_BASE_ARENA_H_

#include "shoal/base.h"

typedef struct shoal_arena_block shoal_arena_block_t;
typedef struct shoal_arena {
  shoal_allocator_t allocator;
  shoal_arena_block_t *blocks;
  size_t used, capacity;  // of the newest block
} shoal_arena_t;

void shoal_arena_init(shoal_allocator_t allocator, shoal_arena_t *out_arena);
void shoal_arena_deinit(shoal_arena_t *arena);  // zeroed arenas are allowed
// Gives back everything that was allocated but keeps one block for what comes next, so that scratch
// of about the same size again allocates nothing.
void shoal_arena_clear(shoal_arena_t *arena);

char *shoal_arena_strdup(shoal_arena_t *arena, const char *text);  // NULL when memory is short
char *shoal_arena_printf(shoal_arena_t *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void *shoal_arena_copy(shoal_arena_t *arena, const void *data, size_t count, size_t size);

// struct { T *items; int64_t count, capacity; }
#define SHOAL_VEC(T)         \
  struct {                   \
    T *items;                \
    int64_t count, capacity; \
  }

// Makes room for one more item and counts it; false when memory is short.
bool shoal_vec_grow(shoal_arena_t *arena, void **items, int64_t *count, int64_t *capacity,
                    size_t size);

// Appends `value`; evaluates to false when memory is short.
#define SHOAL_PUSH(arena, vec, ...)                                                 \
  (shoal_vec_grow((arena), (void **)&(vec)->items, &(vec)->count, &(vec)->capacity, \
                  sizeof(*(vec)->items)) &&                                         \
   ((vec)->items[(vec)->count - 1] = __VA_ARGS__, true))

#endif  // SHOAL_BASE_ARENA_H_
