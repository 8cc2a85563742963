// `local`: ranks on one machine, as threads or processes. What its files share.
//
//   hub.c     shared memory, bells, who is alive
//   engine.c  moving messages through the hub, waiting
//   mover.c   the progress thread: moves them while no call waits
//   heap.c    memory that all ranks can address
//   meet.c    how the ranks of a group synchronise
//   shared.c  collectives on shared memory; job.c: their work;
//             bounce.c: on private buffers
//   copy.c    copying large buffers
//   table.c   which algorithm and chunk, by collective, ranks and bytes
//   window.c  windows
//   local.c   ops table, joining and leaving
#ifndef SHOAL_COMM_BACKENDS_LOCAL_LOCAL_H_
#define SHOAL_COMM_BACKENDS_LOCAL_LOCAL_H_

#include "comm/backends/local/hub.h"
#include "comm/backends/local/meet.h"
#include "comm/backends/local/table.h"
#include "comm/pending.h"

// One direction with one peer: the message that is moving, and how far it is.
typedef struct shoal_local_flow {
  shoal_cursor_t cursor;
  uint64_t sequence;  // of that message
  int64_t offset;     // bytes moved
  int8_t pipe;        // sending: where its header went; -1: not begun
} shoal_local_flow_t;

typedef struct shoal_local_stream {
  shoal_stream_t base;
  shoal_pending_t pending;
  int32_t meeting;                    // tag of the call that waits for the group's slot
  uint64_t moved;                     // grows with everything that moves: what a timeout looks at
  shoal_local_flow_t *sends, *recvs;  // one per rank of the world
  struct shoal_local_stream *next;    // of the world
} shoal_local_stream_t;

typedef struct shoal_local_world {
  shoal_world_t base;
  shoal_hub_t *hub;
  bool threads;  // ranks of one process
  bool spin;     // a core for every rank
  uint32_t generation;
  shoal_mutex_t mutex;  // of all below, and of the callers' exchanges
  shoal_local_stream_t *streams;
  // [rank * PIPES + pipe]: the stream whose message is half through this pipe, or NULL.
  shoal_local_stream_t **sending, **receiving;
  shoal_mutex_t heap_lock;
  struct shoal_local_block *blocks;  // of this rank's heap, by address
  int32_t colours;                   // given to blocks so far
  shoal_local_table_t table;
  shoal_thread_t mover;
  bool has_mover;            // with the mutex, or when nobody starts any more
  _Atomic bool mover_begun;  // once: well or not
  _Atomic bool mover_ends;
  _Atomic bool mover_naps;      // by the clock, at its bell
  _Atomic uint32_t mover_bell;  // a futex
  _Atomic int32_t waiters;      // threads in a call that moves everything along
  _Atomic bool posted;          // something may be under way that nobody waits for
} shoal_local_world_t;

SHOAL_MUST_USE shoal_status_t shoal_local_exchange_start(shoal_stream_t *stream,
                                                         shoal_exchange_t *exchange);
SHOAL_MUST_USE shoal_status_t shoal_local_exchange_wait(shoal_stream_t *stream,
                                                        shoal_exchange_t *exchange);

// ---- waiting (engine.c) ---------------------------------------------------------------

// Blocks until done(self) says so; all that this rank has started moves meanwhile. `done` gives the
// rank that it waits for (-1: none in particular) and may be called at any time. The rank that
// makes it true must then look whether this rank has sleepers, and ring its bell if so. Fails when
// the world is broken, when the missing rank leaves or dies, or when the time limit is over.
typedef bool (*shoal_local_done_fn_t)(void *self, int32_t *out_missing);
typedef void (*shoal_local_describe_fn_t)(void *self, char *buffer, size_t capacity);
SHOAL_MUST_USE shoal_status_t shoal_local_wait_until(shoal_local_world_t *world,
                                                     shoal_local_done_fn_t done,
                                                     shoal_local_describe_fn_t describe,
                                                     void *self);
// Moves what can be moved now; says whether anything is still under way.
bool shoal_local_move_started(shoal_local_world_t *world, bool *out_moved);
// Starts the progress thread, so that started exchanges move without further calls. If no thread
// can be had, they move while this rank waits in any call.
void shoal_local_mover_start(shoal_local_world_t *world);
void shoal_local_mover_stop(shoal_local_world_t *world);
// Somebody has started messages and goes away: the mover looks after them now.
void shoal_local_stir(shoal_world_t *world);
// A thread begins, and ends, a call that moves everything along.
void shoal_local_waits(shoal_local_world_t *world);
void shoal_local_waits_no_more(shoal_local_world_t *world);
SHOAL_MUST_USE shoal_status_t shoal_local_rest(shoal_world_t *world, int64_t until_ns);
static inline void shoal_local_pause(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// ---- memory (heap.c) ------------------------------------------------------------------

SHOAL_MUST_USE shoal_status_t shoal_local_alloc(shoal_world_t *world, int64_t bytes,
                                                void **out_memory);
void shoal_local_release(shoal_world_t *world, void *memory);
void shoal_local_heap_deinit(shoal_local_world_t *world);
// Translates a pointer into a number by which other ranks find the memory, and back: its offset in
// the hub (processes) or its address (threads). 0: there are no bytes; SHOAL_PLACE_PRIVATE: others
// cannot reach it.
int64_t shoal_local_place(const shoal_local_world_t *world, const void *memory, int64_t bytes);
static inline void *shoal_local_at(const shoal_local_world_t *world, int64_t place) {
  return world->threads ? (void *)(uintptr_t)place : (uint8_t *)world->hub + place;
}

// ---- collectives (shared.c), windows (window.c) ---------------------------------------

SHOAL_MUST_USE shoal_status_t shoal_local_collective(shoal_group_t *group,
                                                     const shoal_collective_t *collective);
extern const shoal_window_ops_t shoal_local_windows;

#endif  // SHOAL_COMM_BACKENDS_LOCAL_LOCAL_H_
