// The table of kinds of decisions, as the files of plan/ see it.
#ifndef SHOAL_PLAN_KINDS_H_
#define SHOAL_PLAN_KINDS_H_

#include "plan/plan.h"

// What the pattern of a decision is matched with.
typedef enum shoal_of {
  SHOAL_OF_NODE,
  SHOAL_OF_VALUE,
  SHOAL_OF_STATE,
  SHOAL_OF_OUTPUT,
  SHOAL_OF_GRAPH,
  SHOAL_OF_COUNT
} shoal_of_t;

shoal_of_t shoal_kind_of(shoal_decide_t kind);
// SHOAL_DECIDE_COUNT where there is none of that name.
shoal_decide_t shoal_kind_find(const char *name);

#endif  // SHOAL_PLAN_KINDS_H_
