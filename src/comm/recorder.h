// The flight recorder: what a rank did last, what it is doing, and which rank it waits for. It is
// kept where other ranks can read it, even when the rank itself hangs or has died.
//
// Every operation (collective, exchange, window call) gets a number when it begins, and a *record*
// in a ring of the last few. This costs a few stores. A thread that has waited for a while without
// progress also writes a *wait*: a text of the backend that says what it waits for.
//
// All fields are atomic, because anybody may read at any time, from another thread or process; a
// record that changes meanwhile is left out. An *account* is a copy of what matters, small enough
// for one message.
#ifndef SHOAL_COMM_RECORDER_H_
#define SHOAL_COMM_RECORDER_H_

#include <stdatomic.h>

#include "shoal/comm.h"

typedef struct shoal_stream shoal_stream_t;

#define SHOAL_RECORDS 16  // a power of two
#define SHOAL_WAITS 8     // threads of a rank that wait at a time and are heard of
#define SHOAL_RECORD_GROUP 24
#define SHOAL_RECORD_LABEL 48
#define SHOAL_WAIT_TEXT 200

typedef enum shoal_record_kind {
  SHOAL_RECORD_COLLECTIVE,     // tag: shoal_collective_tag; peer: none
  SHOAL_RECORD_EXCHANGE,       // tag and peer: of its first message
  SHOAL_RECORD_LANE_EXCHANGE,  // the same; group: the lane's name
  SHOAL_RECORD_PUT_ADD,        // peer: the owner
  SHOAL_RECORD_GET,
  SHOAL_RECORD_WAIT
} shoal_record_kind_t;

typedef enum shoal_record_state {
  SHOAL_RECORD_RUNNING,
  SHOAL_RECORD_DONE,
  SHOAL_RECORD_FAILED,
  SHOAL_RECORD_ENQUEUED  // on a device's queue, behind other work
} shoal_record_state_t;

// What a record says. `call` counts a group's calls: equal numbers are the same call.
typedef struct shoal_record {
  uint64_t number;  // of this rank's operations, from 1
  uint64_t call;
  int64_t bytes;
  int32_t kind, state, tag, peer;
  char group[SHOAL_RECORD_GROUP];  // "0,1,2", cut short
  char label[SHOAL_RECORD_LABEL];  // the caller's name for it (shoal_comm_label)
} shoal_record_t;

typedef struct shoal_recorder shoal_recorder_t;
struct shoal_recorder {
  _Atomic uint64_t begun;     // operations so far
  _Atomic int32_t enqueued;   // host calls on queues that have not begun
  _Atomic uint64_t progress;  // progress.h
  struct {
    _Atomic uint64_t number;  // 0 while it is being written
    _Atomic uint64_t words[(sizeof(shoal_record_t) + 7) / 8];
  } records[SHOAL_RECORDS];
  struct {
    _Atomic uint32_t version;  // 0: free; odd: being written; else it says something
    _Atomic int32_t peer;
    _Atomic uint64_t words[SHOAL_WAIT_TEXT / 8];
  } waits[SHOAL_WAITS];
};

typedef enum shoal_presence {
  SHOAL_PRESENCE_UNASKED,  // nobody could be asked
  SHOAL_PRESENCE_HERE,
  SHOAL_PRESENCE_AWAITED,  // it has not joined yet
  SHOAL_PRESENCE_LEFT,     // of its own will
  SHOAL_PRESENCE_GONE,     // its process has ended
  SHOAL_PRESENCE_SILENT    // it was asked and did not answer
} shoal_presence_t;

typedef struct shoal_account {
  int32_t presence;  // shoal_presence_t; the rest is there unless UNASKED or SILENT
  int32_t enqueued;  // host calls on queues that have not begun
  uint64_t begun;    // operations
  uint64_t progress;
  int32_t records;  // newest first: what runs, and the last one that does not
  int32_t waits;
  shoal_record_t record[4];
  struct {
    int32_t peer;  // -1: nobody in particular
    char text[SHOAL_WAIT_TEXT];
  } wait[4];
} shoal_account_t;

const char *shoal_comm_label_of_thread(void);

// Begins an operation of this rank; returns its number, for `end`. The stream, a group's or a
// lane's, may be NULL.
uint64_t shoal_record_begin(shoal_world_t *world, shoal_record_kind_t kind,
                            const shoal_stream_t *stream, int32_t tag, int32_t peer, int64_t bytes);
void shoal_record_end(shoal_world_t *world, uint64_t number, bool failed);
// The same for one that a device's queue holds, and the moment when it is the queue's turn.
uint64_t shoal_record_enqueue(shoal_world_t *world, shoal_record_kind_t kind,
                              const shoal_stream_t *stream, int32_t tag, int32_t peer,
                              int64_t bytes);
void shoal_record_run(shoal_world_t *world, uint64_t number);

// Records, as text, which rank a thread waits for, until it is cleared. Returns the slot, or -1 if
// there is no room, which does no harm. To update a text, give the slot that an earlier call
// returned.
int32_t shoal_wait_tell(shoal_world_t *world, int32_t slot, int32_t peer, const char *text);
void shoal_wait_clear(shoal_world_t *world, int32_t slot);  // -1 is allowed

// Copies a recorder into an account of a rank that is present.
void shoal_account_take(const shoal_recorder_t *recorder, shoal_account_t *out_account);

// The report: `headline`, which says what this rank waits for, then its operation, and what every
// other rank does and whom it waits for, as far as it fits. Asks the other ranks; not collective,
// and may take a moment (never longer than a second).
void shoal_report(shoal_world_t *world, const char *headline, char *buffer, size_t capacity);

#endif  // SHOAL_COMM_RECORDER_H_
