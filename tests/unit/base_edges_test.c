// Edges: sorted, each once, and found by bisection as by looking at all of them.
#include "base/edges.h"

#include "unit.h"

static void test_edges(void **state) {
  (void)state;
  int64_t edges[] = {64, 0, 7, 64, 7, 7, -3, 1024};
  assert_int_equal(shoal_edges_sort(edges, 0), 0);
  const int64_t count = shoal_edges_sort(edges, 8), sorted[] = {-3, 0, 7, 64, 1024};
  assert_int_equal(count, 5);
  assert_memory_equal(edges, sorted, sizeof sorted);
  for (int64_t at = -5; at <= 1030; ++at) {
    int64_t first = 0;
    while (first < count && edges[first] < at) ++first;
    assert_int_equal(shoal_edges_find(edges, count, at), first);
  }
  assert_int_equal(shoal_edges_find(edges, 0, 7), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_edges)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
