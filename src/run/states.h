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

SHOAL_MUST_USE shoal_status_t shoal_run_state_pieces(const shoal_runner_t *runner, int64_t state,
                                                     shoal_arena_t *arena,
                                                     shoal_run_state_part_t *out_part);
// Takes this rank's part out of `whole` and uploads it. The pieces' source offsets count from
// `whole`.
SHOAL_MUST_USE shoal_status_t shoal_run_state_store(shoal_runner_t *runner,
                                                    const shoal_run_state_part_t *part,
                                                    const void *whole, shoal_arena_t *arena);

#endif  // SHOAL_RUN_STATES_H_
