// How far each rank has come in something that all ranks of a group count alike, as the runs of a
// session: one number of each rank, which the others can read where they can read its records.
// Asked for when somebody waits in vain; telling costs one store.
#ifndef SHOAL_COMM_PROGRESS_H_
#define SHOAL_COMM_PROGRESS_H_

#include "shoal/comm.h"

// Tells the others that this rank has come to `count` (below 2^40) in what the group counts, in a
// phase that the ranks begin together. A rank tells of one group at a time, the last one.
void shoal_progress_tell(const shoal_group_t *group, uint64_t phase, uint64_t count);
// The lowest rank of the world that has told a larger count in this phase; -1: none has, or nobody
// can be asked. Takes a second at most.
int32_t shoal_progress_ahead(const shoal_group_t *group, uint64_t phase, uint64_t count);
// Breaks the world because ranks do different things: all get a MISMATCH with these words.
void shoal_progress_break(const shoal_group_t *group, const char *message);
// Waits for a started collective until the monotonic clock is at `until_ns`; false: it has not
// ended. Whoever waits so may look at the others' progress meanwhile.
bool shoal_request_wait_until(shoal_request_t *request, int64_t until_ns);

#endif  // SHOAL_COMM_PROGRESS_H_
