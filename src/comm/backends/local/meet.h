// How the ranks of a group synchronise: they share a slot of the hub, in which every member writes
// what it contributes to a collective and reads what the others contribute.
//
// Members go through *phases*, counted from 1. In phase p a member writes its post (and small data)
// into the half p mod 2 of its place and then publishes p. Publishing p also says that it has read
// all it wanted of earlier phases. Hence the one rule: a member writes phase p only when all
// members have published p - 1, so that none still reads what phase p - 2 left in that half.
//
// The group's first rank chooses one of its own slots and sends its number to the others when the
// group is first used; the slot is free again when all have left it.
#ifndef SHOAL_COMM_BACKENDS_LOCAL_MEET_H_
#define SHOAL_COMM_BACKENDS_LOCAL_MEET_H_

#include "comm/backends/local/hub.h"

#define SHOAL_MEET_DATA 8192  // bytes a member can bring with it

typedef struct shoal_meet_part {  // of an all_to_all's send buffer, for one member
  int64_t at, bytes;
  int64_t expects;  // from that member, of the receive buffer
} shoal_meet_part_t;

// What a member announces in a phase, in one cache line.
typedef struct shoal_meet_post {
  alignas(64) _Atomic uint32_t phase;  // the one that this was written for; publishing writes it
  int32_t tag;                         // shoal_collective_tag
  int32_t step;                        // which algorithm, and where in it
  int64_t bytes;                       // what all must agree on
  uint64_t counts;                     // hash of the counts that all must agree on
  int64_t send, recv, bounce;          // shoal_local_place of the buffers
  int64_t each;  // all_to_all: bytes of every part, sent and expected; -1: see the parts
} shoal_meet_post_t;

#define SHOAL_PLACE_PRIVATE INT64_C(-1)  // no other rank can address it
#define SHOAL_PLACE_BROUGHT INT64_C(-2)  // its bytes came with the post

int64_t shoal_meet_slot_bytes(int32_t size);

// A rank's view of the group's slot; zero until it is first used.
typedef struct shoal_meet {
  uint8_t *slot;  // NULL: not asked for yet, or there is none
  bool asked;
  uint32_t phase;         // last one begun
  uint32_t met;           // last one in which all were waited for
  int64_t member_bytes;   // from one member's place to the next
  const int64_t *counts;  // behind the present post's hash, for errors; NULL: not known
  void *bounce;           // node-addressable, for buffers that are not
  int64_t bounce_bytes;
} shoal_meet_t;

// Finds the group's slot; *Collective*, exchanges a message the first time. Without one, slot is
// NULL on all ranks.
SHOAL_MUST_USE shoal_status_t shoal_meet_open(shoal_group_t *group, int32_t tag,
                                              shoal_meet_t **out_meet);
void shoal_meet_close(shoal_group_t *group);  // the ops table's group_free

// Begins the next phase: gives this rank's part of the slot, once it may be written. Members that
// were not waited for in the phase before are checked now, so that a mismatch with one of them is
// found one phase late.
SHOAL_MUST_USE shoal_status_t shoal_meet_begin(shoal_group_t *group, int32_t tag,
                                               shoal_meet_post_t **out_post,
                                               shoal_meet_part_t **out_parts, uint8_t **out_data);
void shoal_meet_publish(shoal_group_t *group);
// Waits for the members [first, end) in the present phase, and checks that they do the same.
SHOAL_MUST_USE shoal_status_t shoal_meet_wait(shoal_group_t *group, int32_t first, int32_t end);
// Around work on other members' buffers. Entering fails when the world is broken. A member that
// ends with an error *abandons* the meeting: it breaks the world and, where ranks are threads,
// returns only when nobody works any more, so that its caller may free the buffers. (A process's
// memory stays mapped in its peers.)
SHOAL_MUST_USE shoal_status_t shoal_meet_enter(shoal_group_t *group);
void shoal_meet_leave(shoal_group_t *group);
void shoal_meet_abandon(shoal_group_t *group, shoal_status_t status);
// What a member contributes to the present phase, once it was waited for.
const shoal_meet_post_t *shoal_meet_post(const shoal_group_t *group, int32_t member);
const shoal_meet_part_t *shoal_meet_parts(const shoal_group_t *group, int32_t member);
const uint8_t *shoal_meet_data(const shoal_group_t *group, int32_t member);

#endif  // SHOAL_COMM_BACKENDS_LOCAL_MEET_H_
