// Arenas, growable arrays, and the allocator that fails on purpose.
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"
#include "unit/failing.h"

static void blocks_are_zeroed_aligned_and_apart(void **state) {
  (void)state;
  shoal_failing_t counter = {0};
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_failing(&counter), &arena);
  unsigned char *blocks[300];
  size_t sizes[300];
  for (int i = 0; i < 300; ++i) {
    sizes[i] = (size_t)((i * 7919) % 5000) + (i % 50 == 0 ? 100000 : 0);
    blocks[i] = shoal_arena_alloc(&arena, sizes[i], 1);
    assert_non_null(blocks[i]);
    assert_int_equal((uintptr_t)blocks[i] % 16, 0);
    for (size_t k = 0; k < sizes[i]; ++k) assert_int_equal(blocks[i][k], 0);
    memset(blocks[i], i & 255, sizes[i]);
  }
  for (int i = 0; i < 300; ++i) {
    for (size_t k = 0; k < sizes[i]; ++k) assert_int_equal(blocks[i][k], i & 255);
  }
  assert_null(shoal_arena_alloc(&arena, SIZE_MAX / 2, 4));
  assert_null(shoal_arena_alloc(&arena, SIZE_MAX - 3, 1));
  shoal_arena_deinit(&arena);
  assert_int_equal(counter.live_blocks, 0);
  assert_int_equal(counter.live_bytes, 0);
  assert_true(counter.peak_bytes > 600000);
  assert_null(
      shoal_arena_alloc(&(shoal_arena_t){.allocator = shoal_allocator_system()}, SIZE_MAX, 1));
}

static void arrays_grow(void **state) {
  (void)state;
  shoal_arena_t *arena;
  assert_ok(shoal_arena_create(shoal_allocator_system(), &arena));
  struct pair {
    int a;
    double b;
  };
  SHOAL_VEC(struct pair) pairs = {0};
  for (int i = 0; i < 1000; ++i) assert_true(SHOAL_PUSH(arena, &pairs, (struct pair){i, i * 0.5}));
  assert_int_equal(pairs.count, 1000);
  for (int i = 0; i < 1000; ++i) assert_true(pairs.items[i].a == i && pairs.items[i].b == i * 0.5);
  assert_string_equal(shoal_arena_printf(arena, "%d-%s", 7, "x"), "7-x");
  assert_string_equal(shoal_arena_strdup(arena, "abc"), "abc");
  shoal_arena_free(arena);
  shoal_arena_free(NULL);
}

static shoal_status_t use_arena_and_text(shoal_allocator_t allocator, void *context) {
  (void)context;
  shoal_arena_t *arena;
  SHOAL_RETURN_IF_ERROR(shoal_arena_create(allocator, &arena));
  SHOAL_VEC(int64_t) items = {0};
  shoal_text_t text;
  shoal_text_init(allocator, &text);
  for (int i = 0; i < 200; ++i) shoal_text_addf(&text, "item %d\n", i);
  shoal_status_t status = shoal_text_status(&text);
  for (int i = 0; i < 5000 && !status; ++i) {
    if (!SHOAL_PUSH(arena, &items, i)) status = SHOAL_OOM();
  }
  shoal_text_deinit(&text);
  shoal_arena_free(arena);
  return status;
}

// Every allocation in turn fails: no leak, and the failure is seen.
static void nth_allocation_fails(void **state) {
  (void)state;
  assert_true(check_failing_allocations(use_arena_and_text, NULL, 0) > 5);
}

// Scratch that is cleared: one block is kept, whatever was allocated.
static void cleared_scratch(void **state) {
  (void)state;
  shoal_failing_t counter = {0};
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_failing(&counter), &arena);
  shoal_arena_clear(&arena);
  for (int round = 0; round < 5; ++round) {
    char *bytes = SHOAL_NEW(&arena, char, 1000);
    assert_non_null(bytes);
    for (int i = 0; i < 1000; ++i) assert_int_equal(bytes[i], 0);
    memset(bytes, 7, 1000);
    shoal_arena_clear(&arena);
  }
  assert_int_equal(counter.calls, 1);
  for (int i = 0; i < 100; ++i) assert_non_null(SHOAL_NEW(&arena, char, 3000));
  assert_true(counter.live_blocks > 2);
  shoal_arena_clear(&arena);
  assert_int_equal(counter.live_blocks, 1);
  shoal_arena_deinit(&arena);
  assert_int_equal(counter.live_blocks, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocks_are_zeroed_aligned_and_apart),
      cmocka_unit_test(arrays_grow),
      cmocka_unit_test(cleared_scratch),
      cmocka_unit_test(nth_allocation_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
