// Names that ops have elsewhere.
#ifndef SHOAL_OP_ALIASES_H_
#define SHOAL_OP_ALIASES_H_

#include <stdint.h>

typedef struct shoal_alias {
  const char *name, *here;  // "permute"; "shoal.transpose", or how to write it
} shoal_alias_t;
extern const shoal_alias_t shoal_op_aliases[];
extern const int32_t shoal_op_alias_count;

// How what is called so elsewhere is written here; NULL: nothing is known. `name` may begin with
// "shoal.".
const char *shoal_op_alias(const char *name);

#endif  // SHOAL_OP_ALIASES_H_
