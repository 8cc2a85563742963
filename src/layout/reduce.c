// Names of the ways to join unreduced parts.
#include "layout/reduce.h"

#include <string.h>

static const char *const names[] = {
#define SHOAL_REDUCE_KIND(id, name, real, integer) [SHOAL_REDUCE_##id] = name,
#include "shoal/reduce.inc"
#undef SHOAL_REDUCE_KIND
};

const char *shoal_reduce_name(shoal_reduce_t reduce) {
  return (unsigned)reduce < SHOAL_REDUCE_COUNT ? names[reduce] : "?";
}

bool shoal_reduce_parse(const char *name, shoal_reduce_t *out_reduce) {
  for (int i = 0; i < SHOAL_REDUCE_COUNT; ++i) {
    if (strcmp(name, names[i]) != 0) continue;
    *out_reduce = (shoal_reduce_t)i;
    return true;
  }
  return false;
}
