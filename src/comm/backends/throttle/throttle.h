// `throttle`: a world of another backend whose messages arrive late, as over a described network.
// What its files share.
//
//   settings.c  SHOAL_COMM_THROTTLE, and the cluster file it names
//   link.c      when messages get through links; sleeping until then
//   exchange.c  streams and exchanges: every message is followed by its *ticket*
//   window.c    windows
//   throttle.c  ops table, joining
//
// Choosing it. SHOAL_COMM_THROTTLE=cluster.yml throttles the world that the environment describes,
// and worlds of threads; a backend's name in the options takes none of it, but for "throttle" (over
// what the environment describes; over `local` for threads) and "throttle:NAME". The settings:
//
//   SHOAL_COMM_THROTTLE=cluster.yml,lose=17@1,delay=5@0:200ms
//
// A preset ("a100x8:2") may stand in the place of the file, which is optional where there are
// faults: then nothing is slow. lose=N@R: the Nth message that
// rank R sends to another rank, counted from 1 in the order of starting, never arrives.
// delay=N@R:T: it arrives T (us, ms or s) later. Up to SHOAL_THROTTLE_FAULTS of them.
//
// The model. Ranks are dealt to the file's nodes in order. A message of b bytes that is started at
// t has its first byte on the sender's link at max(t, when what was started before is through), is
// *through* b / bandwidth later, and *delivered* a latency after that: messages share bandwidth,
// and latencies overlap. Between nodes the link is the sending rank's network card; ranks share a
// card where they share memory (`local`, threads or processes), over other backends each rank has
// one of that speed. Racks' uplinks are not shared. Inside a node every rank has its
// own link (all ranks one, if it is `per: node`), and none at all unless the file has node_link.
// Links are full duplex: only the sending side is ever busy. Nothing delays what a rank sends to
// itself.
//
// What a caller sees. A receive is done when the message was delivered, never before. A send is
// done, and its buffer is the caller's again, when the message is through (and the backend below
// has taken it). Times are fixed when a send starts, so what was started gets through while its
// rank computes: a wait that comes later than the delivery finds it there. The bytes themselves
// move as the backend below moves them, at once or when both ranks wait, at memory speed. A rank
// that waits sleeps. Time on a link counts as progress; but a message that was through for
// `timeout_ms` and has not been delivered ends in DEADLINE. Collectives are composed from
// exchanges, so that each of their messages is delayed.
//
// Losses. The backend below does not know of them: it would deliver the next message instead. So
// each message is followed by a ticket: its number and its times. A wrong number is a MISMATCH that
// names rank, operation and peer; if nothing follows, the wait ends in the backend's own DEADLINE.
// (Texts of the backend below count tickets as messages.)
//
// One clock: all ranks must be on one machine; joining checks that, and that all have the same
// settings and the same file.
#ifndef SHOAL_COMM_BACKENDS_THROTTLE_THROTTLE_H_
#define SHOAL_COMM_BACKENDS_THROTTLE_THROTTLE_H_

#include "base/arena.h"
#include "comm/comm_impl.h"
#include "shoal/cluster.h"

#define SHOAL_THROTTLE_FAULTS 8
#define SHOAL_THROTTLE_LOST (-1)

typedef struct shoal_throttle_fault {
  int64_t message;  // which, from 1
  int32_t rank;
  int64_t delay_ns;  // or SHOAL_THROTTLE_LOST
} shoal_throttle_fault_t;

typedef struct shoal_throttle_settings {
  shoal_cluster_t *cluster;  // owned; NULL: nothing is slow
  int32_t fault_count;
  shoal_throttle_fault_t faults[SHOAL_THROTTLE_FAULTS];
  uint64_t hash;  // of all this: the same on all ranks
} shoal_throttle_settings_t;

// Parses SHOAL_COMM_THROTTLE's text (NULL: it is not set, an error) and reads its file. The cluster
// is the caller's to free, also after an error; the arena is for scratch.
SHOAL_MUST_USE shoal_status_t shoal_throttle_settings_read(const char *text, shoal_arena_t *arena,
                                                           shoal_throttle_settings_t *out_settings);

// ---- links ----------------------------------------------------------------------------

// From this rank to another, and back.
typedef struct shoal_throttle_route {
  int64_t latency_ns;
  double ns_per_byte;  // 0 with latency 0: no delay
  int32_t out, in;     // whose time it takes: index in the table
} shoal_throttle_route_t;

// Until when each link is busy, on the monotonic clock: network cards, each at the first rank that
// has it, then links inside nodes alike. Shared by the ranks that share memory.
typedef struct shoal_throttle_table {
  _Atomic int32_t references;  // of worlds of one process
  _Atomic int64_t busy[];
} shoal_throttle_table_t;

typedef struct shoal_throttle_times {
  int64_t through, delivered;
} shoal_throttle_times_t;

typedef struct shoal_throttle_world {
  shoal_world_t base;
  shoal_world_t *inner;
  shoal_throttle_table_t *table;
  bool table_is_inners;  // it lies in memory of the world below, which frees it
  _Atomic int64_t sent;  // messages to other ranks
  int32_t fault_count;
  shoal_throttle_fault_t faults[SHOAL_THROTTLE_FAULTS];  // of this rank
  shoal_throttle_route_t routes[];                       // one per rank
} shoal_throttle_world_t;

static inline shoal_world_t *shoal_throttle_inner(shoal_world_t *world) {
  return ((shoal_throttle_world_t *)world)->inner;
}

int64_t shoal_throttle_table_bytes(int32_t size);
void shoal_throttle_routes_init(const shoal_throttle_settings_t *settings,
                                shoal_throttle_world_t *world);
// Puts that many bytes on a link, after all that is on it already.
shoal_throttle_times_t shoal_throttle_book(shoal_throttle_world_t *world,
                                           const shoal_throttle_route_t *route, int32_t link,
                                           int64_t bytes, int64_t now);
// Sleeps until then, or until the world breaks: then its error. What this rank started moves on.
SHOAL_MUST_USE shoal_status_t shoal_throttle_sleep(shoal_throttle_world_t *world, int64_t until);

// ---- exchanges and windows ------------------------------------------------------------

SHOAL_MUST_USE shoal_status_t shoal_throttle_stream_create(shoal_world_t *world, uint64_t id,
                                                           shoal_stream_t **out_stream);
void shoal_throttle_stream_free(shoal_stream_t *stream);
SHOAL_MUST_USE shoal_status_t shoal_throttle_exchange_start(shoal_stream_t *stream,
                                                            shoal_exchange_t *exchange);
SHOAL_MUST_USE shoal_status_t shoal_throttle_exchange_wait(shoal_stream_t *stream,
                                                           shoal_exchange_t *exchange);
// How many messages this rank has sent to others: which faults there can be. For tests.
int64_t shoal_throttle_sent(const shoal_world_t *world);

// A window of the world below, and a group for it. Puts and gets take their time on links; they are
// never lost: faults are of exchanges only.
extern const shoal_window_ops_t shoal_throttle_windows;

#endif  // SHOAL_COMM_BACKENDS_THROTTLE_THROTTLE_H_
