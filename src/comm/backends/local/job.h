// A collective on shared memory as its algorithms see it: what this rank sends and receives, and
// the loops that run once the sources are known. All algorithms *pull*: a rank reads what it needs
// from every source, in ascending group rank, and reduces or stores it; they differ only in where
// the sources are. So all algorithms give the same bits: each element is reduced once, in ascending
// rank.
#ifndef SHOAL_COMM_BACKENDS_LOCAL_JOB_H_
#define SHOAL_COMM_BACKENDS_LOCAL_JOB_H_

#include "base/number.h"
#include "comm/backends/local/local.h"

// Announced in a post; a bounce adds its round, from bit 4 up.
enum { STEP_INLINE = 1, STEP_DIRECT, STEP_END, STEP_BOUNCE };

typedef struct job {
  shoal_group_t *group;
  const shoal_collective_t *c;
  shoal_local_world_t *world;
  int32_t n, me, tag;
  bool many;           // `send` has a part for every rank
  int64_t element;     // bytes
  int64_t send_bytes;  // of this rank's buffers
  int64_t recv_bytes;
  int64_t longest_send;   // of all ranks, where they agree; else -1
  int64_t bytes;          // that all ranks agree on: what the table is asked with
  const int64_t *counts;  // a count of every rank, that all agree on; or NULL
} job_t;

job_t shoal_local_job(shoal_group_t *group, const shoal_collective_t *c);
bool shoal_local_job_is_source(const job_t *job, int32_t rank);
int64_t shoal_local_job_own_part(const job_t *job);  // bytes from where its sources begin
int64_t shoal_local_job_sum(const int64_t *counts, int32_t end);
int64_t shoal_local_job_largest(const int64_t *counts, int32_t n);
// Hash of the counts that all ranks must agree on, for the post: ranks with other counts of the
// same sum would read past the end of each other's buffers. 0 where there are none.
uint64_t shoal_local_job_counts_hash(const job_t *job);
// The elements that a rank of n works on for all of them.
void shoal_local_job_slice(int64_t count, int32_t n, int32_t index, int64_t *out_lo,
                           int64_t *out_hi);

// Takes elements [lo, hi) of every part that is for this rank; group->sources point at element lo.
void shoal_local_job_pull(const job_t *job, int64_t lo, int64_t hi);
// outs[k][i] = join over group->sources; all are advanced by `at` bytes. An out may be a source.
void shoal_local_job_join(const job_t *job, int64_t at, int64_t count, int32_t n_outs,
                          uint8_t *const *outs);

// Through node-addressable buffers, chunk by chunk (bounce.c). All have announced themselves.
SHOAL_MUST_USE shoal_status_t shoal_local_bounce(const job_t *job, int64_t chunk);

#endif  // SHOAL_COMM_BACKENDS_LOCAL_JOB_H_
