// Edges: a line cut at numbers, in ascending order, each once; piece i lies between edge i and the
// next.
#ifndef SHOAL_BASE_EDGES_H_
#define SHOAL_BASE_EDGES_H_

#include <stdint.h>

// Sorts them in place and drops those that are there twice; returns how many are left.
int64_t shoal_edges_sort(int64_t *edges, int64_t count);
// The first of sorted edges that is not below `at`; `count` if there is none.
int64_t shoal_edges_find(const int64_t *edges, int64_t count, int64_t at);

#endif  // SHOAL_BASE_EDGES_H_
