// Coverage: what the plans and programs of a series of checks have exercised. The random generator
// prefers what is missing; `shoal check` prints it and may insist on it.
//
// A key is "group name": "op shoal.matmul", "gradient shoal.matmul" (it was differentiated),
// "cut shoal.matmul" (a plan cut it), "way shoal.matmul {a:d -> out:d}" (numbers left out),
// "reshard halo", "feature flat". What may occur is declared with count 0 first, so that what never
// did can be named.
#ifndef SHOAL_EXPLORE_COVERAGE_H_
#define SHOAL_EXPLORE_COVERAGE_H_

#include "base/text.h"
#include "explore/random_case.h"
#include "plan/plan.h"
#include "prove/prove.h"

typedef struct shoal_coverage shoal_coverage_t;

// Declares every op of the registry, and its gradient if it has one, every reshard kind and every
// feature.
SHOAL_MUST_USE shoal_status_t shoal_coverage_create(shoal_allocator_t allocator,
                                                    const shoal_registry_t *registry,
                                                    shoal_coverage_t **out_coverage);
void shoal_coverage_free(shoal_coverage_t *coverage);
// Counts what one case exercises (each key once a case); `self` is the coverage. It is a
// shoal_check_planned_fn_t.
SHOAL_MUST_USE shoal_status_t shoal_coverage_add(void *self, const shoal_plan_t *plan,
                                                 const shoal_program_t *program,
                                                 const shoal_check_options_t *options);
// coverage_program.c: the part of it that is about the program. `arena` is used for a moment.
SHOAL_MUST_USE shoal_status_t shoal_coverage_program(shoal_coverage_t *coverage,
                                                     const shoal_program_t *program,
                                                     shoal_arena_t *arena);
// Counts a key of the case at hand; false: memory ran short.
bool shoal_coverage_occurs(shoal_coverage_t *coverage, const char *group, const char *name);
// coverage_case.c: counts what is seen in the case that comes next, and not in its plan.
SHOAL_MUST_USE shoal_status_t shoal_coverage_case(shoal_coverage_t *coverage,
                                                  const shoal_random_case_t *c,
                                                  const shoal_registry_t *registry,
                                                  shoal_arena_t *arena);
// Counts a feature of the case that comes next, which is not seen in its plan.
SHOAL_MUST_USE shoal_status_t shoal_coverage_see(shoal_coverage_t *coverage, const char *feature);
// In how many cases it occurred; -1: no such key.
int64_t shoal_coverage_count(const shoal_coverage_t *coverage, const char *group, const char *name);
// In how many cases a way could have occurred.
int64_t shoal_coverage_offered(const shoal_coverage_t *coverage, const char *way);
// The key's name of a way: its text without numbers.
SHOAL_MUST_USE shoal_status_t shoal_coverage_way(const shoal_node_t *node, const shoal_way_t *way,
                                                 shoal_arena_t *arena, const char **out_name);
// Key "group name" number `index` that has not occurred yet, NULL when there are no more: what to
// aim at.
const char *shoal_coverage_missing(const shoal_coverage_t *coverage, const char *group,
                                   int64_t index);

// Which values of a graph can be unreduced at all: somebody makes them so. [value][reduction], see
// below.
SHOAL_MUST_USE shoal_status_t shoal_graph_unreduced(const shoal_graph_t *graph,
                                                    shoal_rules_t *rules, shoal_arena_t *arena,
                                                    const bool **out_unreduced);
// How many inputs a way wants unreduced; -1 if one of them cannot be had so.
int shoal_way_unreduced_inputs(const shoal_node_t *node, const shoal_way_t *way,
                               const bool *unreduced);

void shoal_coverage_print(const shoal_coverage_t *coverage, shoal_text_t *text);
// MISMATCH that names what never occurred among ops, their gradients and cuts, reshard kinds and
// features, and ways that could have occurred in 10 cases.
SHOAL_MUST_USE shoal_status_t shoal_coverage_assert(const shoal_coverage_t *coverage);

#endif  // SHOAL_EXPLORE_COVERAGE_H_
