// What the files of the pass `buckets` share.
#ifndef SHOAL_LOWER_BUCKETS_H_
#define SHOAL_LOWER_BUCKETS_H_

#include "lower/build.h"

typedef struct bucket_states bucket_states_t;

SHOAL_MUST_USE shoal_status_t shoal_bucket_states_make(const graph_build_t *graph,
                                                       const shoal_model_t *model,
                                                       shoal_arena_t *arena,
                                                       bucket_states_t **out_states);
// The state that is updated with this gradient; -1: it is none, or updates nothing.
int32_t shoal_bucket_states_of_gradient(bucket_states_t *states, int32_t value);
// The state that the value is read from or assigned to; -1: none.
int32_t shoal_bucket_states_of_copy(const bucket_states_t *states, int32_t value);

#endif  // SHOAL_LOWER_BUCKETS_H_
