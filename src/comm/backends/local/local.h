// `local`: ranks on one machine, as threads or processes. What its files share.
//
//   hub.c     shared memory, bells, who is alive
//   engine.c  moving messages through the hub, waiting
//   local.c   ops table, joining and leaving
#ifndef SHOAL_COMM_BACKENDS_LOCAL_LOCAL_H_
#define SHOAL_COMM_BACKENDS_LOCAL_LOCAL_H_

#include "comm/backends/local/hub.h"
#include "comm/pending.h"

// One direction with one peer: the message that is moving, and how far it is.
typedef struct shoal_local_flow {
  shoal_cursor_t cursor;
  uint64_t sequence;  // of that message
  int64_t offset;     // bytes moved
  int8_t lane;        // sending: where its header went; -1: not begun
} shoal_local_flow_t;

typedef struct shoal_local_stream {
  shoal_stream_t base;
  shoal_pending_t pending;
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
  // [rank * LANES + lane]: the stream whose message is half through this lane, or NULL.
  shoal_local_stream_t **sending, **receiving;
} shoal_local_world_t;

SHOAL_MUST_USE shoal_status_t shoal_local_exchange_start(shoal_stream_t *stream,
                                                         shoal_exchange_t *exchange);
SHOAL_MUST_USE shoal_status_t shoal_local_exchange_wait(shoal_stream_t *stream,
                                                        shoal_exchange_t *exchange);

#endif  // SHOAL_COMM_BACKENDS_LOCAL_LOCAL_H_
