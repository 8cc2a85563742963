// Edges: see edges.h.
#include "base/edges.h"

#include <stdlib.h>

static int compare(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

int64_t shoal_edges_sort(int64_t *edges, int64_t count) {
  int64_t left = 0;
  if (count == 0) return 0;
  qsort(edges, (size_t)count, sizeof *edges, compare);
  for (int64_t i = 0; i < count; ++i) {
    if (left == 0 || edges[i] != edges[left - 1]) edges[left++] = edges[i];
  }
  return left;
}

int64_t shoal_edges_find(const int64_t *edges, int64_t count, int64_t at) {
  int64_t low = 0, high = count;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (edges[middle] < at)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}
