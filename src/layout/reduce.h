// Names of the reductions (shoal/reduce.inc). op/reduce.h has what they compute.
#ifndef SHOAL_LAYOUT_REDUCE_H_
#define SHOAL_LAYOUT_REDUCE_H_

#include "shoal/layout.h"

enum {
  SHOAL_REDUCE_COUNT = 0
#define SHOAL_REDUCE_KIND(id, name, real, integer) +1
#include "shoal/reduce.inc"
#undef SHOAL_REDUCE_KIND
};

bool shoal_reduce_parse(const char *name, shoal_reduce_t *out_reduce);

#endif  // SHOAL_LAYOUT_REDUCE_H_
