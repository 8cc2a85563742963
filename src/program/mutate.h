// Mutations: programs broken on purpose, one small change each. The proof layer runs every one of
// them: the static check or a wrong result must tell, or it must be clear why the change computes
// the same.
#ifndef SHOAL_PROGRAM_MUTATE_H_
#define SHOAL_PROGRAM_MUTATE_H_

#include "base/arena.h"
#include "shoal/program.h"

// The text of mutation `index` (from 0) of the program, and what was changed ("class 0, segment 1
// 'train.loop.0': drop instruction 3 compute 'fc1'"). NOT_FOUND when there are no more. Text and
// description lie in the arena. The text parses; `program` is not changed.
SHOAL_MUST_USE shoal_status_t shoal_program_mutate(const shoal_program_t *program, int64_t index,
                                                   shoal_arena_t *arena, const char **out_text,
                                                   const char **out_description);
// How many there are.
int64_t shoal_program_mutations(const shoal_program_t *program);

#endif  // SHOAL_PROGRAM_MUTATE_H_
