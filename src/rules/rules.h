// Rules inside the library: discovery with a chosen executor, and the rules that come with the
// build.
#ifndef SHOAL_RULES_RULES_H_
#define SHOAL_RULES_RULES_H_

#include "graph/interpret.h"
#include "shoal/rules.h"

// Uses `executor` (zero: reference kernels) for discovery from now on. For ops that have a kernel
// it must compute what the kernel does, because their rules may come with the build.
void shoal_rules_set_executor(shoal_rules_t *rules, shoal_executor_t executor);
// Discovers all rules, even those that come with the build. Tests and the build's own generator use
// this.
void shoal_rules_ignore_shipped(shoal_rules_t *rules);
// Hash of the rules of all calls of `model`, node by node. A plan file carries it, so that a plan
// made from other rules is noticed. Numbers that change no rule (an optimizer's eps) do not count,
// nor does it matter where a rule came from.
SHOAL_MUST_USE shoal_status_t shoal_rules_hash(shoal_rules_t *rules, const shoal_model_t *model,
                                               uint64_t *out_hash);

// ---- other sizes -------------------------------------------------------------------------------

// A call with the relations that the sizes of `call` have, and sizes drawn by `seed`. *out_found is
// false where there is none: nothing is free, or the op refuses whatever is drawn.
SHOAL_MUST_USE shoal_status_t shoal_rules_vary(const shoal_call_t *call, uint64_t seed,
                                               shoal_arena_t *arena, shoal_call_t *out_call,
                                               bool *out_found);
// `call` with its free size number `which` set to `size`, and with it all that follow.
typedef struct shoal_resized {
  bool exists;        // it has so many free sizes
  bool accepted;      // the op takes it
  shoal_call_t call;  // in the arena; its outputs count only if it is accepted
} shoal_resized_t;
SHOAL_MUST_USE shoal_status_t shoal_rules_resize(const shoal_call_t *call, int32_t which,
                                                 int64_t size, shoal_arena_t *arena,
                                                 shoal_resized_t *out_resized);
typedef struct shoal_tried {
  int64_t ways, executions;
  int32_t wrong;  // the first way that does not hold; -1: none
} shoal_tried_t;
// Executes all ways of the call in `parts` parts of random lengths, empty ones among them, with the
// reference kernel.
SHOAL_MUST_USE shoal_status_t shoal_rules_try(const shoal_call_t *call, const shoal_rule_t *rule,
                                              int64_t parts, uint64_t seed,
                                              shoal_allocator_t allocator,
                                              shoal_tried_t *out_tried);

// ---- rules by key ------------------------------------------------------------------------------

// The rule of a small call, which holds for all calls with the same size relations.
typedef struct shoal_keyed_rule {
  const char *key;  // the call's text
  const char *op;
  const shoal_attr_value_t *attrs;  // the call's
  int32_t way_count;
  const shoal_way_t *ways;
  bool shipped;
  const char *note;  // as in shoal_rule_t
} shoal_keyed_rule_t;

// Those that the store was asked for so far, in that order; NULL after the last. Borrowed.
const shoal_keyed_rule_t *shoal_rules_known(const shoal_rules_t *rules, int64_t index);

// What came with the build, by ascending key. tools/rulegen writes the table.
typedef struct shoal_shipped_rule {
  const char *key, *ways;  // as text
} shoal_shipped_rule_t;
typedef struct shoal_shipped_rules {
  int64_t count;
  const shoal_shipped_rule_t *rules;
} shoal_shipped_rules_t;
extern const shoal_shipped_rules_t shoal_shipped_rules;

#endif  // SHOAL_RULES_RULES_H_
