// Resolving: from a call to its rule. Private to rules/.
#ifndef SHOAL_RULES_RESOLVE_H_
#define SHOAL_RULES_RESOLVE_H_

#include "base/arena.h"
#include "rules/rules.h"

// A second call with the same relations, of another size: where windows slide, what was found on
// the first has to hold on it too.
typedef struct shoal_rules_second {
  const struct probe *first;
  const struct symbols *symbols;  // those of the first, with the second's sizes as the real ones
  const shoal_call_t *call;
} shoal_rules_second_t;

// The rule of a small call, shipped or discovered; borrowed. `second` may be NULL; if not, `key`
// is the text of both.
SHOAL_MUST_USE shoal_status_t shoal_rules_of_key(shoal_rules_t *rules, const shoal_call_t *call,
                                                 const shoal_rules_second_t *second,
                                                 const char *key,
                                                 const shoal_keyed_rule_t **out_rule);
// The rule that came with the build for `rule->key`, the text of that call. Leaves `shipped` false
// where there is none (shipped.c).
SHOAL_MUST_USE shoal_status_t shoal_rules_find_shipped(const shoal_call_t *call,
                                                       shoal_arena_t *arena,
                                                       shoal_keyed_rule_t *rule);
// Ways that are written one behind the other: "{a:0 -> out:0}~ {a:1, b:0 -> out:sum}~".
SHOAL_MUST_USE shoal_status_t shoal_rules_parse_ways(const shoal_call_t *call, const char *all,
                                                     shoal_arena_t *arena,
                                                     shoal_keyed_rule_t *rule);
// Finds the rule of a call by executing it, and the second (store.c); in a process of its own
// (apart.c).
SHOAL_MUST_USE shoal_status_t shoal_rules_discover_here(
    const shoal_call_t *call, const shoal_rules_second_t *second, shoal_executor_t executor,
    shoal_allocator_t allocator, shoal_arena_t *arena, shoal_keyed_rule_t *rule);
SHOAL_MUST_USE shoal_status_t shoal_rules_discover_apart(
    const shoal_call_t *call, const shoal_rules_second_t *second, shoal_executor_t executor,
    shoal_allocator_t allocator, shoal_arena_t *arena, shoal_keyed_rule_t *rule);
// Drops the ways along what windows slide over that do not hold on the second call; drops the ways
// of an op of a user's that do not hold on a much larger one (verify.c).
SHOAL_MUST_USE shoal_status_t shoal_rules_verify_second(const shoal_rules_second_t *second,
                                                        shoal_executor_t executor,
                                                        shoal_allocator_t allocator,
                                                        shoal_arena_t *arena,
                                                        shoal_keyed_rule_t *rule);
SHOAL_MUST_USE shoal_status_t shoal_rules_verify(const shoal_call_t *call,
                                                 shoal_executor_t executor,
                                                 shoal_allocator_t allocator, shoal_arena_t *arena,
                                                 shoal_keyed_rule_t *rule);
// The rule of any call on the whole, into the arena: that of its probe, lifted.
SHOAL_MUST_USE shoal_status_t shoal_rules_resolve(shoal_rules_t *rules, const shoal_call_t *call,
                                                  shoal_allocator_t allocator, shoal_arena_t *arena,
                                                  shoal_rule_t *out_rule);

#endif  // SHOAL_RULES_RESOLVE_H_
