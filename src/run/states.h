// A rank's part of a state as a list of pieces of the whole: what setting and loading states share.
#ifndef SHOAL_RUN_STATES_H_
#define SHOAL_RUN_STATES_H_

#include "run/run_impl.h"

typedef struct shoal_run_state_part {
  shoal_dtype_t dtype;
  int64_t count;              // elements this rank holds; 0: none
  shoal_bound_buffer_t part;  // where it rests
  int64_t piece_count;        // whole -> part
  const shoal_piece_t *pieces;
  bool clear;  // starts at the identity of `reduce`
  shoal_reduce_t reduce;
} shoal_run_state_part_t;

// Index of a state of the model; NOT_FOUND suggests the nearest.
SHOAL_MUST_USE shoal_status_t shoal_run_state_named(const shoal_program_t *program,
                                                    shoal_allocator_t allocator, const char *name,
                                                    int64_t *out_state);
// Where this rank's part of a state rests. Count 0 and offset -1 when it holds none.
SHOAL_MUST_USE shoal_status_t shoal_run_state_find(const shoal_runner_t *runner, int64_t state,
                                                   shoal_arena_t *arena,
                                                   shoal_bound_buffer_t *out_part);
// The pieces by which the whole of a state goes into a part of it in some layout without partial
// sums, on this rank.
SHOAL_MUST_USE shoal_status_t shoal_run_layout_pieces(const shoal_runner_t *runner, int64_t state,
                                                      const shoal_layout_t *layout,
                                                      const shoal_bound_buffer_t *part,
                                                      shoal_arena_t *arena, int64_t *out_count,
                                                      const shoal_piece_t **out_pieces);
// Moves a state into another layout, of the same mesh or another: `out_part` gets this rank's part
// on the host. *Collective*; errors are agreed.
SHOAL_MUST_USE shoal_status_t shoal_run_state_reshard(shoal_runner_t *runner, int64_t state,
                                                      const shoal_layout_t *layout, void *out_part);
SHOAL_MUST_USE shoal_status_t shoal_run_state_pieces(const shoal_runner_t *runner, int64_t state,
                                                     shoal_arena_t *arena,
                                                     shoal_run_state_part_t *out_part);
// Takes this rank's part out of `whole` and uploads it. The pieces' source offsets count from
// `whole`.
SHOAL_MUST_USE shoal_status_t shoal_run_state_store(shoal_runner_t *runner,
                                                    const shoal_run_state_part_t *part,
                                                    const void *whole, shoal_arena_t *arena);

#endif  // SHOAL_RUN_STATES_H_
