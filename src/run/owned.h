// What a rank writes into a checkpoint, and checks of one: its *own* elements of a state. Every
// element of the whole is owned by one rank. Ranks that hold the same part deal its elements out
// among themselves, so that all of them write.
#ifndef SHOAL_RUN_OWNED_H_
#define SHOAL_RUN_OWNED_H_

#include "run/run_impl.h"

typedef struct shoal_owned {
  shoal_layout_t layout;  // the state's, without partial sums and halos
  bool moves;             // which it does not rest in: its parts must be reduced or trimmed first
  int64_t part_count;     // elements of the part in that layout; 0: none
  int64_t piece_count;    // whole -> part
  const shoal_piece_t *pieces;
  int64_t from, to;  // of the part's elements, in the order of the walk: the rank's own
} shoal_owned_t;

SHOAL_MUST_USE shoal_status_t shoal_owned_find(const shoal_runner_t *runner, int64_t state,
                                               shoal_arena_t *arena, shoal_owned_t *out_owned);
// This rank's part in the owned layout, on the host: `part_count` elements. *Collective* where it
// moves; then errors are agreed.
SHOAL_MUST_USE shoal_status_t shoal_owned_read(shoal_runner_t *runner, int64_t state,
                                               const shoal_owned_t *owned, shoal_arena_t *arena,
                                               void *out_part);

// Calls fn(self, whole, part, count) for each run of elements [from, to) of the walk through these
// pieces that is dense in the whole and in the part, until one returns an error.
typedef shoal_status_t (*shoal_owned_fn_t)(void *self, int64_t whole, int64_t part, int64_t count);
SHOAL_MUST_USE shoal_status_t shoal_owned_walk(int64_t piece_count, const shoal_piece_t *pieces,
                                               int64_t from, int64_t to, shoal_owned_fn_t fn,
                                               void *self);

// Joins the sums of parts (base/hash.h) of all ranks of a group, or of none (NULL): `sums` are the
// wholes' then. `words` has room for twice as many. *Collective.*
SHOAL_MUST_USE shoal_status_t shoal_run_sums_join(shoal_group_t *group, int64_t count,
                                                  uint64_t *sums, int64_t *words);

#endif  // SHOAL_RUN_OWNED_H_
