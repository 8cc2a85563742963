// A stable order of numbers, for ops that sort.
#ifndef SHOAL_OP_SORT_H_
#define SHOAL_OP_SORT_H_

#include "op/families/kernel.h"

// What is sorted: `count` numbers of a tensor, from element `first` on, `stride` apart.
typedef struct shoal_sort {
  const shoal_tensor_t *x;
  int64_t first, stride, count;
  bool descending;
} shoal_sort_t;

// Whether element a of those comes before element b for sure. NaN is larger than every number.
bool shoal_sort_before(const shoal_sort_t *sort, int64_t a, int64_t b);
// Bytes of scratch for `count` numbers.
int64_t shoal_sort_bytes(int64_t count);
// The elements' numbers in order, equal ones as they were; the order lies in the scratch.
const int64_t *shoal_sort_run(const shoal_sort_t *sort, void *scratch);

#endif  // SHOAL_OP_SORT_H_
