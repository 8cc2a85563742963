// An arena that lives as long as a test program: pass setup_arena and teardown_arena to
// cmocka_run_group_tests.
#ifndef SHOAL_TESTS_ARENA_H_
#define SHOAL_TESTS_ARENA_H_

#include "base/arena.h"
#include "unit/unit.h"

static shoal_arena_t arena;

static int setup_arena(void **state) {
  (void)state;
  shoal_arena_init(shoal_allocator_system(), &arena);
  return 0;
}

static int teardown_arena(void **state) {
  (void)state;
  shoal_arena_deinit(&arena);
  return 0;
}

#endif  // SHOAL_TESTS_ARENA_H_
