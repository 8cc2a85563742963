// Rules inside the library: discovery with a chosen executor.
#ifndef SHOAL_RULES_RULES_H_
#define SHOAL_RULES_RULES_H_

#include "graph/interpret.h"
#include "shoal/rules.h"

// Uses `executor` (zero: reference kernels) for discovery from now on.
void shoal_rules_set_executor(shoal_rules_t *rules, shoal_executor_t executor);
// Hash of what the rules known so far say of the calls of `model`, node by node; part of a plan's
// guard. Numbers that change no rule (an optimizer's eps) do not enter.
SHOAL_MUST_USE shoal_status_t shoal_rules_hash(shoal_rules_t *rules, const shoal_model_t *model,
                                               uint64_t *out_hash);

#endif  // SHOAL_RULES_RULES_H_
