// A bundle is what one rank does in a reshard of several values: their motions (motion.h), carried
// out as one collective, or with one message to each peer. The values are packed one behind the
// other into the staging memory; primitive/carrier.h runs it.
//
// A collective joins the same elements in the same order, wherever they lie in the packed buffer:
// bundled or one by one, the bits are the same.
#ifndef SHOAL_LAYOUT_BUNDLE_H_
#define SHOAL_LAYOUT_BUNDLE_H_

#include "layout/motion.h"

// Elements of a value that lie dense, in its buffer and in the staging memory.
typedef struct shoal_bundle_range {
  int32_t value;
  int64_t at, count;  // elements of the value's input (packed) or output (unpacked)
  int64_t offset;     // bytes in the staging memory
} shoal_bundle_range_t;

typedef struct shoal_bundle {
  int32_t count;                  // values
  const shoal_motion_t *motions;  // of each; their messages lie in the bundle's staging memory
  // What is communicated. Of one value it is its motion. Of several it is a collective of packed
  // elements, or messages of packed bytes; its staging is the bundle's.
  shoal_motion_t whole;
  // A collective of several values: where it lies in the staging memory, and what is copied there
  // before it and from there behind it.
  int64_t send_at, recv_at;
  int64_t pack_count, unpack_count;
  const shoal_bundle_range_t *packs, *unpacks;
} shoal_bundle_t;

// Says why motions of `rank` cannot be carried out as one collective or one message to each peer:
// MISMATCH that names the two values by `names`. What is asked is the same on all ranks.
SHOAL_MUST_USE shoal_status_t shoal_bundle_check(int32_t count, const shoal_reshard_facts_t *facts,
                                                 const shoal_dtype_t *dtypes, const int32_t *names);
// `motions` are forward ones, as shoal_motion_of_rank plans them; they are kept and changed.
SHOAL_MUST_USE shoal_status_t shoal_bundle_plan(int32_t count, shoal_motion_t *motions,
                                                int32_t rank, shoal_arena_t *arena,
                                                shoal_bundle_t *out_bundle);
// Says whether this rank has nothing to do.
bool shoal_bundle_is_idle(const shoal_bundle_t *bundle);

#endif  // SHOAL_LAYOUT_BUNDLE_H_
