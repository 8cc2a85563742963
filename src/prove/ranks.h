// Ranks of a check: runs the schedule on N threads or processes and returns what each rank
// recorded.
#ifndef SHOAL_PROVE_RANKS_H_
#define SHOAL_PROVE_RANKS_H_

#include "prove/compare.h"

typedef struct shoal_check_job {
  const shoal_model_t *model;
  const shoal_check_options_t *options;  // allocator, ranks and timeout_ms set
  shoal_allocator_t allocator;
  const char *plan;                // text; ranks call shoal_parallelize with it ...
  const shoal_program_t *program;  // ... or load this one, if it is given
  const char *const *graphs;       // the schedule; "init" first
  int32_t run_count;
} shoal_check_job_t;

// One record log per rank, allocated from `arena`; in a given world, on rank 0 only. Fails with the
// first rank's error.
SHOAL_MUST_USE shoal_status_t shoal_check_ranks(const shoal_check_job_t *job, shoal_arena_t *arena,
                                                shoal_rank_log_t *out_logs);

#endif  // SHOAL_PROVE_RANKS_H_
