// Communication of one graph, as all classes see it: what check_comm.c and check_walk.c share.
#ifndef SHOAL_PROGRAM_CHECK_COMM_H_
#define SHOAL_PROGRAM_CHECK_COMM_H_

#include "program/check_impl.h"

// A reshard in a call, of one class, that moves something between ranks.
typedef struct event {
  int64_t call;  // of the class's order
  int32_t segment, instruction, micro, channel;
  int64_t meeting;
} event_t;

// One channel in one micro-batch.
typedef struct meeting {
  int32_t senders, others;  // classes that only send, and the rest
  int32_t sent, arrived;    // of those, how many so far
} meeting_t;

// The instructions of a segment that lie on one queue.
typedef struct queue_list {
  int64_t count;
  int32_t *items;
} queue_list_t;

// How far a queue has come in a step.
typedef struct queue_head {
  int64_t call, at;  // call, and place in its segment's list for the queue
  int64_t done;      // instructions so far
  bool arrived;      // at the meeting that it stands before
} queue_head_t;

typedef struct walker {  // a class
  const shoal_class_t *class;
  const shoal_order_t *order;       // NULL: it has nothing to do in the graph
  SHOAL_VEC(event_t) events;        // in the order in which the host comes to them
  SHOAL_VEC(int64_t) passages;      // it is an end of
  queue_list_t *lists;              // [segment * queues + queue]
  int32_t **ranks;                  // [segment][instruction]: its place in its queue's list
  int64_t *before;                  // [call * queues + queue]: instructions of earlier calls
  const shoal_call_wait_t **waits;  // by call, sorted by instruction
  queue_head_t heads[SHOAL_MAX_QUEUES];
  bool awake;  // on the list of those to walk on
} walker_t;

// What passes from one class that only sends to another on a lane, as each of the two lists it.
typedef struct passage {
  int64_t from, to;  // classes
  int32_t lane;
  SHOAL_VEC(int64_t) sent, due;  // events of `from`, and of `to`
} passage_t;

typedef struct comm {
  const check_t *check;
  const shoal_program_t *program;
  const char *graph;
  shoal_arena_t *arena;
  const bool *silent;  // by channel: nothing moves between ranks
  walker_t *walkers;   // by class
  int64_t *first;      // by channel: number of its first meeting
  meeting_t *meetings;
  int64_t meeting_count;
  SHOAL_VEC(int32_t) * members;  // by channel: classes that take part
  shoal_index_t passage_index;
  SHOAL_VEC(passage_t) passages;
} comm_t;

static inline const shoal_instruction_t *shoal_comm_instruction(const comm_t *c, int64_t class,
                                                                const event_t *event) {
  return &c->program->classes[class].segments[event->segment].instructions[event->instruction];
}
// The meeting of a reshard's channel in a call's micro-batch.
static inline int64_t shoal_comm_meeting(const comm_t *c, int32_t channel, int32_t micro) {
  return c->first[channel] + (micro > 0 ? micro : 0);
}
place_t shoal_comm_place(const comm_t *c, int64_t class_index, const event_t *event);
// The first of the class's ranks that takes part in the event.
int32_t shoal_comm_rank(const comm_t *c, int64_t class_index, const event_t *event);

// Lets all queues of all classes run for a step: nobody waits for ever.
SHOAL_MUST_USE shoal_status_t shoal_comm_walk(comm_t *c);
// Those who work together come to it in one order, whatever the queues.
SHOAL_MUST_USE shoal_status_t shoal_comm_host_order(comm_t *c);

#endif  // SHOAL_PROGRAM_CHECK_COMM_H_
