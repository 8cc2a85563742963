// A carrier runs one rank's side of a reshard, its motion (layout/motion.h), on memory that the
// host can read. A primitive has one per direction, and a loaded program one per reshard: no other
// code moves a value between two layouts.
//
// Everything is allocated by init; starting, waiting and running allocate nothing. Contributions
// are reduced in the motion's order, so that every rank gets the same bits each time; bf16 and f16
// are reduced in f32 and rounded once.
#ifndef SHOAL_PRIMITIVE_CARRIER_H_
#define SHOAL_PRIMITIVE_CARRIER_H_

#include "layout/motion.h"
#include "shoal/comm.h"

typedef struct shoal_carrier {
  shoal_world_t *world;
  const shoal_motion_t *motion;
  shoal_message_t *sends, *recvs;
  // The caller's to set, and to keep until nothing is under way:
  shoal_group_t *group;  // collective
  shoal_lane_t *lane;    // of messages; NULL: the world's own order
  void *staging;         // motion->staging bytes
  float *scratch;        // wide: motion->output_count
  // Under way:
  bool busy;
  const void *input;
  void *output;
  union {
    shoal_exchange_t exchange;
    shoal_request_t request;  // collective
  };
} shoal_carrier_t;

// `tag` tells apart what ranks may run at the same time. Borrows the motion.
SHOAL_MUST_USE shoal_status_t shoal_carrier_init(shoal_world_t *world, const shoal_motion_t *motion,
                                                 int32_t tag, shoal_arena_t *arena,
                                                 shoal_carrier_t *out_carrier);
// Packs and starts, never blocking. Until it is waited for, the input is not changed - unless the
// motion has no direct messages and receives nothing - and the output is not touched. *Collective*
// over the ranks that take part.
SHOAL_MUST_USE shoal_status_t shoal_carrier_start(shoal_carrier_t *carrier, const void *input,
                                                  void *output);
SHOAL_MUST_USE shoal_status_t shoal_carrier_wait(shoal_carrier_t *carrier);
// Both at once, without a thread of its own for a collective.
SHOAL_MUST_USE shoal_status_t shoal_carrier_run(shoal_carrier_t *carrier, const void *input,
                                                void *output);

// ---- in between, on bare memory: tests run ranks in one thread with these -------------

// Fills in the messages' data and packs what is sent.
void shoal_motion_pack(const shoal_motion_t *motion, const void *input, void *output, void *staging,
                       shoal_message_t *sends, shoal_message_t *recvs);
void shoal_motion_begin(const shoal_motion_t *motion, const void *input,
                        void *output);  // local copies, where nothing is added
void shoal_motion_finish(const shoal_motion_t *motion, const void *input, void *output,
                         const shoal_message_t *recvs, float *scratch);

// ---- strided copies on host memory; nothing allocates ---------------------------------

void shoal_pieces_copy(shoal_dtype_t dtype, int64_t count, const shoal_piece_t *pieces,
                       const void *src, void *dst);  // what does not move is left alone
void shoal_pieces_join(shoal_dtype_t dtype, shoal_reduce_t reduce, int64_t count,
                       const shoal_piece_t *pieces, const void *src, void *dst);
// From bf16 or f16 into floats; `add`: joined with what is there.
void shoal_pieces_widen(shoal_dtype_t dtype, shoal_reduce_t reduce, bool add, int64_t count,
                        const shoal_piece_t *pieces, const void *src, float *dst);
void shoal_pieces_zero(shoal_dtype_t dtype, int64_t count, const shoal_piece_t *pieces, void *dst);

#endif  // SHOAL_PRIMITIVE_CARRIER_H_
