// A carrier runs one rank's side of a reshard, its motion (layout/motion.h): on memory of the host,
// or enqueued on a device's queue. A primitive has one per direction, and a loaded program one per
// reshard: no other code moves a value between two layouts. A reshard of several values is a bundle
// of motions (layout/bundle.h).
//
// Everything is allocated by init and bind; starting, waiting, running and enqueueing allocate
// nothing. Contributions are reduced in the motion's order, so that every rank gets the same bits
// each time; bf16 and f16 are reduced in f32 and rounded once.
#ifndef SHOAL_PRIMITIVE_CARRIER_H_
#define SHOAL_PRIMITIVE_CARRIER_H_

#include "comm/enqueue.h"
#include "layout/bundle.h"
#include "shoal/comm.h"

// A carrier on a device; see shoal_carrier_bind.
typedef struct shoal_carrier_device {
  shoal_device_t *device;
  shoal_address_t input, output, workspace;
  // One host call on the queue, on the host's view of the device's memory,
  bool viewed;
  // or copies on the device before the communication, then it, then copies after it.
  int64_t before_count, after_count;
  const shoal_copy_t *before, *after;
  shoal_work_t work;
} shoal_carrier_device_t;

// One value of a bundle.
typedef struct shoal_carrier_part {
  const shoal_motion_t *motion;
  shoal_message_t *sends, *recvs;  // where its shares of the messages lie
  shoal_address_t input_at, output_at;
  const void *input;  // under way
  void *output;
} shoal_carrier_part_t;

typedef struct shoal_carrier {
  shoal_world_t *world;
  const shoal_motion_t *motion;  // what is communicated
  shoal_message_t *sends, *recvs;
  const shoal_bundle_t *bundle;  // of several values; NULL: of one
  shoal_carrier_part_t *parts;   // of the bundle
  // The caller's to set, and to keep until nothing is under way:
  shoal_group_t *group;  // collective
  shoal_lane_t *lane;    // of messages; NULL: the world's own order
  void *staging;         // motion->staging bytes; not where it is enqueued and views the device
  const char *label;     // for reports, when it is enqueued; may be NULL
  const char *what;      // errors of what was enqueued are annotated with it; may be NULL
  // Under way:
  bool busy;
  const void *input;
  void *output;
  union {
    shoal_exchange_t exchange;
    shoal_request_t request;  // collective
  };
  shoal_carrier_device_t *on;  // NULL: not bound to a device
} shoal_carrier_t;

// `tag` tells apart what ranks may run at the same time. Borrows the motion.
SHOAL_MUST_USE shoal_status_t shoal_carrier_init(shoal_world_t *world, const shoal_motion_t *motion,
                                                 int32_t tag, shoal_arena_t *arena,
                                                 shoal_carrier_t *out_carrier);
// The same for a bundle, which is run on a device's queue only.
SHOAL_MUST_USE shoal_status_t shoal_carrier_init_bundle(shoal_world_t *world,
                                                        const shoal_bundle_t *bundle, int32_t tag,
                                                        shoal_arena_t *arena,
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

// ---- on a device's queue --------------------------------------------------------------

// Binds a carrier to places in device memory; the workspace has motion->staging bytes, and is free
// for others when what is enqueued is done. Group, lane, label and `what` are set before. Where the
// device gives the host a view, one host call on the queue does everything, as shoal_carrier_run
// does. Elsewhere messages are packed, joined and unpacked by copies on the device.
//
// A motion that only sends is *posted*: the queue does not wait for its receivers. Only the next
// enqueueing of the same carrier does, on the queue, until the sends before it are through. Its
// messages therefore wait in memory of its own: `staging` where the device is viewed, else
// carrier->on->work.bounce.
SHOAL_MUST_USE shoal_status_t shoal_carrier_bind(shoal_carrier_t *carrier, shoal_device_t *device,
                                                 shoal_address_t input, shoal_address_t output,
                                                 shoal_address_t workspace, shoal_arena_t *arena);
// The same for a bundle: inputs and outputs of its values, 0 where this rank has none.
SHOAL_MUST_USE shoal_status_t shoal_carrier_bind_bundle(
    shoal_carrier_t *carrier, shoal_device_t *device, const shoal_address_t *inputs,
    const shoal_address_t *outputs, shoal_address_t workspace, shoal_arena_t *arena);
// Host memory that a bound carrier needs in carrier->on->work.bounce, to be set before it is
// enqueued. Carriers of one queue may share it, but not those that post.
int64_t shoal_carrier_bounce(const shoal_carrier_t *carrier);
int64_t shoal_carrier_commands(const shoal_carrier_t *carrier);  // as shoal_work_commands
// *Collective* over the ranks that take part; does not block.
SHOAL_MUST_USE shoal_status_t shoal_carrier_enqueue(shoal_carrier_t *carrier, shoal_queue_t *queue);
// Waits until what was posted is through. When the queue is idle; returns at once if nothing is.
SHOAL_MUST_USE shoal_status_t shoal_carrier_drain(shoal_carrier_t *carrier);
void shoal_carrier_unbind(shoal_carrier_t *carrier);  // when it is drained; also where never bound

// The collective of a motion, on these buffers.
shoal_collective_t shoal_motion_collective(const shoal_motion_t *motion, const void *input,
                                           void *output);

// ---- in between, on bare memory: tests run ranks in one thread with these -------------

// Fills in the messages' data and packs what is sent.
void shoal_motion_pack(const shoal_motion_t *motion, const void *input, void *output, void *staging,
                       shoal_message_t *sends, shoal_message_t *recvs);
void shoal_motion_begin(const shoal_motion_t *motion, const void *input,
                        void *output);  // local copies, where nothing is added
void shoal_motion_finish(const shoal_motion_t *motion, const void *input, void *output,
                         const shoal_message_t *recvs, float *scratch);

// The same for all values of a carrier's bundle, on its staging memory. A collective's elements are
// copied there by pack, and from there by finish.
void shoal_bundle_pack(shoal_carrier_t *carrier);
void shoal_bundle_begin(const shoal_carrier_t *carrier);
void shoal_bundle_finish(const shoal_carrier_t *carrier);
shoal_collective_t shoal_bundle_collective(const shoal_carrier_t *carrier);

// ---- strided copies on host memory; nothing allocates ---------------------------------

bool shoal_piece_stays(const shoal_piece_t *piece);  // at the same places on both sides
void shoal_pieces_copy(shoal_dtype_t dtype, int64_t count, const shoal_piece_t *pieces,
                       const void *src, void *dst);  // what does not move is left alone
void shoal_pieces_join(shoal_dtype_t dtype, shoal_reduce_t reduce, int64_t count,
                       const shoal_piece_t *pieces, const void *src, void *dst);
// From bf16 or f16 into floats; `add`: joined with what is there.
void shoal_pieces_widen(shoal_dtype_t dtype, shoal_reduce_t reduce, bool add, int64_t count,
                        const shoal_piece_t *pieces, const void *src, float *dst);
void shoal_pieces_zero(shoal_dtype_t dtype, int64_t count, const shoal_piece_t *pieces, void *dst);

#endif  // SHOAL_PRIMITIVE_CARRIER_H_
