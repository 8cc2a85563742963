// One rank's side of a reshard, executed on host-readable memory: pack, exchange, join in fixed
// order.
//
// A reshard in which this rank only sends is *lazy*: it is started from staging of its own and
// completed later, because the receivers may get to it long after (a pipeline's next stage). Its
// exchange is under way until shoal_postbox_drain, at the end of a run: every call of an order has
// a mover of its own, so that its staging is not needed again before.
#ifndef SHOAL_RUN_RESHARD_H_
#define SHOAL_RUN_RESHARD_H_

#include "base/arena.h"
#include "program/bind.h"
#include "shoal/comm.h"

// Sends under way, oldest first. One per rank; used by one thread at a time.
typedef struct shoal_postbox {
  shoal_world_t *world;
  struct shoal_mover *first, *last;
} shoal_postbox_t;

typedef struct shoal_mover {
  const shoal_bound_reshard_t *bound;
  shoal_dtype_t dtype;
  int32_t tag;
  shoal_postbox_t *postbox;
  shoal_group_t *group;               // all_reduce; borrowed
  int64_t input_count, output_count;  // elements of the parts; 0 where there is none
  shoal_message_t *sends, *recvs;
  bool lazy;
  char *staging;   // lazy: of its own
  float *scratch;  // half precision and several contributions: output_count floats, borrowed
  shoal_exchange_t exchange;
  struct shoal_mover *next;  // in the postbox
} shoal_mover_t;

// Does it need a scratch of output_count floats?
bool shoal_mover_needs_scratch(const shoal_bound_reshard_t *bound, shoal_dtype_t dtype);
// Allocates messages (and staging when lazy) from the arena; the mover borrows `bound` and
// `postbox`. Group and scratch are the caller's to set.
SHOAL_MUST_USE shoal_status_t shoal_mover_init(const shoal_bound_reshard_t *bound,
                                               shoal_dtype_t dtype, int64_t input_count,
                                               int64_t output_count, int32_t tag,
                                               shoal_postbox_t *postbox, shoal_arena_t *arena,
                                               shoal_mover_t *out_mover);
// Runs it. input, output and staging may be NULL where there is no such part. *Collective* over the
// ranks that take part; blocks until everything is received.
SHOAL_MUST_USE shoal_status_t shoal_mover_run(shoal_mover_t *mover, const void *input, void *output,
                                              void *staging);
// Waits for everything that is pending, oldest first. Returns the first error; nothing is pending
// after it.
SHOAL_MUST_USE shoal_status_t shoal_postbox_drain(shoal_postbox_t *postbox);

#endif  // SHOAL_RUN_RESHARD_H_
