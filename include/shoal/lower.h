// Shoal, lower: from a plan to the program that its ranks execute.
//
// Lowering puts a reshard wherever the layout in which a value is produced differs from the one in
// which it is needed, splits a step into segments, plans slots and memory of every class of ranks,
// and adds the waits that order the queues, also across calls and steps. shoal_parallelize
// (session.h) does all of this; call it yourself to look at a program, to simulate it or to keep
// it, without running it:
//
//   status = shoal_lower(plan, NULL, &program);
//   if (!status) status = shoal_program_check(program, shoal_allocator_system());
#ifndef SHOAL_LOWER_H_
#define SHOAL_LOWER_H_

#include "shoal/plan.h"
#include "shoal/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_lower_options {
  shoal_allocator_t allocator;  // zero: the system's
  // Names of values to fetch besides outputs; NULL-terminated, may be NULL.
  const char *const *fetches;
} shoal_lower_options_t;

// Makes the program of a plan. NULL options are all defaults. The caller owns the program and frees
// it with shoal_program_free. It borrows op records from the registry of the plan's model, and
// nothing else: the plan may be freed before it. Errors name the node, value or decision
// (UNSUPPORTED; NOT_FOUND for a fetch). *Not collective*, does not block.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_lower(const shoal_plan_t *plan,
                                                    const shoal_lower_options_t *options,
                                                    shoal_program_t **out_program);

// Lowering goes through *passes*, as a compiler does. Each takes a list of items (instructions that
// are the same for all ranks) nearer to a program. They are numbered from 0 in the order in which
// they run. Names and docs are static, NULL where there is no such pass.
SHOAL_API int64_t shoal_lower_pass_count(void);
SHOAL_API const char *shoal_lower_pass_name(int64_t index);  // "paths"
SHOAL_API const char *shoal_lower_pass_doc(int64_t index);   // what it does, in a line
// Describes for people what is there after the pass of that name, as text in `arena`: the items of
// each graph, one a line, and from pass "classes" on the program so far. For whoever wants to know
// where an instruction comes from, or writes a pass; `shoal explain --pass` prints it. NOT_FOUND,
// with a suggestion, if there is no such pass; else errors as of shoal_lower. *Not collective*,
// does not block.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_lower_explain(const shoal_plan_t *plan,
                                                            const shoal_lower_options_t *options,
                                                            const char *pass, shoal_arena_t *arena,
                                                            const char **out_text);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_LOWER_H_
