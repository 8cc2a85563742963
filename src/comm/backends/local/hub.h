// The hub of `local`: one block of memory that all ranks of a world see. An anonymous memfd between
// processes (its descriptor is inherited, so there is no name to leave behind), plain memory
// between threads.
//
//   header   who is there, why the world is broken
//   ranks    one *bell* each: a futex that others ring when something changed for that rank
//   records  what every rank does (comm/recorder.h)
//   pipes    PIPES byte rings for every ordered pair of ranks, (src * size + dst) * PIPES + pipe;
//            beside them how many of a pair's were ever used, so that readers look at no others
//   slots    where the ranks of a group meet (meet.h): SLOTS for every rank that may lead a group
//   heaps    one per rank: its node-addressable memory (heap.c). Only between processes: threads
//            see each other's memory anyway
//
// All of it is one sparse file: pages that nobody touched cost nothing, and every process maps the
// whole, so that memory which one rank allocates is at once addressable on all others, at the same
// offset, without a descriptor passed around.
//
// A pipe has one writer and one reader rank. It carries the messages of one stream at a time, each
// behind a header, and may change stream only when it is empty: so a stream whose receiver comes
// late never holds up another, while there are fewer such streams than pipes. A rank has at most a
// thread for each of its queues, and each leaves one or two. Positions count bytes and never wrap;
// the byte is at position mod ring size.
#ifndef SHOAL_COMM_BACKENDS_LOCAL_HUB_H_
#define SHOAL_COMM_BACKENDS_LOCAL_HUB_H_

#include <stdalign.h>

#include "comm/comm_impl.h"

#define SHOAL_HUB_PIPES 32
#define SHOAL_HUB_MAX_RANKS 128
#define SHOAL_HUB_SLOTS 64  // groups one rank may lead at a time that meet in shared memory

typedef enum shoal_hub_state {
  SHOAL_HUB_ABSENT,  // not joined yet
  SHOAL_HUB_JOINED,
  SHOAL_HUB_LEFT,  // of its own will; may join again
  SHOAL_HUB_GONE   // its process has ended
} shoal_hub_state_t;

typedef struct shoal_hub_rank {
  alignas(64) _Atomic uint32_t bell;
  _Atomic uint32_t sleepers;  // threads waiting at the bell
  _Atomic uint32_t presence;  // how often it joined * 4 + shoal_hub_state_t
  _Atomic int64_t pid;        // 0: a thread of this process
  _Atomic uint64_t born;      // start time of that process: pids are used again
} shoal_hub_rank_t;

typedef struct shoal_hub_pipe {
  alignas(64) _Atomic uint64_t tail;  // written so far
  uint64_t stream;                    // whose it is; the writer's business only
  alignas(64) _Atomic uint64_t head;  // read so far
} shoal_hub_pipe_t;

typedef struct shoal_hub {
  uint64_t magic;
  int64_t bytes;         // of the whole hub
  int32_t size;          // ranks
  uint32_t ring;         // bytes of one pipe's ring, a power of two
  int64_t recorders_at;  // offsets
  int64_t used_at, pipes_at, rings_at;
  int64_t slots_at, slot_bytes;
  int64_t heaps_at, heap_bytes;  // of one rank
  _Atomic int32_t references;    // of threads' worlds; the last one unmaps
  shoal_failure_t failure;
  shoal_hub_rank_t ranks[];
} shoal_hub_t;

// Precedes every message in a pipe.
typedef struct shoal_hub_header {
  uint64_t stream;
  uint64_t sequence;  // of the stream's messages between the two ranks
  int64_t bytes;
  int32_t tag;
  uint32_t check;  // constant: the flow is still in step
} shoal_hub_header_t;
#define SHOAL_HUB_CHECK 0x5ca1ab1eu

// A hub for `size` ranks; out_fd NULL: plain memory. The descriptor is close-on-exec.
SHOAL_MUST_USE shoal_status_t shoal_hub_create(int32_t size, int *out_fd, shoal_hub_t **out_hub);
SHOAL_MUST_USE shoal_status_t shoal_hub_open(int fd, int32_t size, shoal_hub_t **out_hub);
void shoal_hub_close(shoal_hub_t *hub);  // unmaps

static inline shoal_recorder_t *shoal_hub_recorder(shoal_hub_t *hub, int32_t rank) {
  return (shoal_recorder_t *)((uint8_t *)hub + hub->recorders_at) + rank;
}
static inline _Atomic uint32_t *shoal_hub_used(shoal_hub_t *hub, int32_t src, int32_t dst) {
  return (_Atomic uint32_t *)((uint8_t *)hub + hub->used_at) + (int64_t)dst * hub->size + src;
}
static inline shoal_hub_pipe_t *shoal_hub_pipe(shoal_hub_t *hub, int32_t src, int32_t dst,
                                               int pipe) {
  return (shoal_hub_pipe_t *)((uint8_t *)hub + hub->pipes_at) +
         ((int64_t)src * hub->size + dst) * SHOAL_HUB_PIPES + pipe;
}
static inline uint8_t *shoal_hub_ring(shoal_hub_t *hub, int32_t src, int32_t dst, int pipe) {
  return (uint8_t *)hub + hub->rings_at +
         (((int64_t)src * hub->size + dst) * SHOAL_HUB_PIPES + pipe) * hub->ring;
}

void shoal_hub_ring_bell(shoal_hub_t *hub, int32_t rank);
// Breaks the world and wakes all ranks. The first failure is kept.
void shoal_hub_fail(shoal_hub_t *hub, shoal_code_t code, int32_t rank, const char *message);
// Says which process a rank is; its start time is looked up. Wakes those who wait for it.
void shoal_hub_set_process(shoal_hub_t *hub, int32_t rank, int64_t pid);
// Joining and leaving. Joining begins a new *generation* of the rank and returns its number; LEFT
// and GONE end it.
uint32_t shoal_hub_join(shoal_hub_t *hub, int32_t rank);
void shoal_hub_leave(shoal_hub_t *hub, int32_t rank, shoal_hub_state_t state);
static inline shoal_hub_state_t shoal_hub_state(shoal_hub_t *hub, int32_t rank) {
  return (shoal_hub_state_t)(atomic_load(&hub->ranks[rank].presence) & 3);
}
// Says whether nothing more will come from this rank to one of that generation. A rank that left an
// earlier generation and has not joined the next one yet still will.
bool shoal_hub_has_left(shoal_hub_t *hub, int32_t rank, uint32_t generation);
// Marks ranks whose process has died as gone, so that ranks which wait for them fail.
void shoal_hub_check_processes(shoal_hub_t *hub, int32_t own_rank);

#endif  // SHOAL_COMM_BACKENDS_LOCAL_HUB_H_
