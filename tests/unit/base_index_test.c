// Index: everything added is found, in order, also where hashes collide and the table grows.
#include "base/index.h"
#include "unit.h"

static void test_finds_all(void **state) {
  (void)state;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_index_t index = {0};
  int64_t at = -1;
  assert_int_equal(shoal_index_next(&index, 7, &at), -1);
  shoal_index_init(&arena, &index);
  // 97 hashes for 5000 numbers: runs are long, wrap around, and are moved when the table grows.
  for (int64_t i = 0; i < 5000; ++i) assert_true(shoal_index_add(&index, (uint64_t)(i % 97), i));
  for (uint64_t hash = 0; hash < 97; ++hash) {
    int64_t expected = (int64_t)hash, n;
    for (at = -1; (n = shoal_index_next(&index, hash, &at)) >= 0; expected += 97) {
      assert_int_equal(n, expected);
    }
    assert_true(expected >= 5000);
  }
  at = -1;
  assert_int_equal(shoal_index_next(&index, 97, &at), -1);
  shoal_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_finds_all)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
