// `mpi`: ranks on many machines, over the MPI that launched them. What its files share.
//
//   environment.c  which launcher started this process, as which rank of how many
//   load.c         finding and loading the plug-in for that launcher's MPI
//   start.c        MPI_Init, with a time limit
//   engine.c       packets, payloads, news; wait.c waits, life.c starts and ends it
//   match.c        messages that arrived and those who expect them
//   window.c       windows: what callers ask; shard.c is the owner's side
//   native.c       collectives that are MPI's own
//   mpi.c          ops table, joining and leaving
//   plugin.c       not in libshoal: plugin.h on mpi.h
//
// Every message is a *packet* on one communicator: a header, with the bytes behind it when they are
// few. Packets between two ranks arrive in order, which gives the order of messages and puts news
// (a rank failed, a rank left) behind everything sent before. More bytes follow as a *payload* on a
// second communicator, under a tag that the sender numbers and the header tells. Calls on windows
// and their answers are packets too, which the owner's progress serves.
//
// There is no flow control: what a rank sends ahead of its receivers waits there, a packet of some
// 2 KiB for each message (the bytes of a large one stay with the sender). Only their memory bounds
// how far ahead it gets. Taking one costs the same however many wait.
#ifndef SHOAL_COMM_BACKENDS_MPI_MPI_H_
#define SHOAL_COMM_BACKENDS_MPI_MPI_H_

#include <stdalign.h>

#include "comm/backends/mpi/plugin.h"
#include "comm/comm_impl.h"
#include "comm/pending.h"

// ---- the environment ------------------------------------------------------------------

typedef struct shoal_mpi_launch {
  const char *launcher;  // "Open MPI", "Slurm"
  const char *family;    // plug-in: "openmpi", "mpich"
  int32_t rank, size;    // as the launcher says
} shoal_mpi_launch_t;

// False when no launcher that speaks to an MPI started this process. Half-set variables: an error.
bool shoal_mpi_launched(void);
SHOAL_MUST_USE shoal_status_t shoal_mpi_read_launch(shoal_mpi_launch_t *out_launch);
SHOAL_MUST_USE shoal_status_t shoal_mpi_load(const shoal_mpi_launch_t *launch,
                                             const shoal_mpi_plugin_t **out_plugin);

// Processes on many machines do not start at the same moment: however short the world's limit is
// for a rank that makes no progress, starting may take this long.
#define SHOAL_MPI_START_LEAST_MS 5000

typedef struct shoal_mpi_start {
  int32_t rank, size;  // as MPI says
  int32_t largest_tag;
} shoal_mpi_start_t;
// Starts MPI unless it is started. DEADLINE: not all ranks did so in time; see start.c.
SHOAL_MUST_USE shoal_status_t shoal_mpi_start(const shoal_mpi_launch_t *launch,
                                              const shoal_mpi_plugin_t *plugin,
                                              shoal_allocator_t allocator, int64_t timeout_ms,
                                              shoal_mpi_start_t *out_start);

// Says whether the plug-in of this family is in its usual place. Loads nothing.
bool shoal_mpi_has_plugin(const char *family);

// ---- packets --------------------------------------------------------------------------

typedef enum shoal_mpi_kind {
  SHOAL_MPI_MESSAGE,
  SHOAL_MPI_FAILED,  // the world is broken: tag is the code, the text follows
  SHOAL_MPI_LEFT,    // the sender has left
  SHOAL_MPI_ASK,     // asks for the receiver's account; `sequence` is the survey
  SHOAL_MPI_ACCOUNT,
  // Windows; `stream` is the window, `sequence` the call. To the owner:
  SHOAL_MPI_PUT,  // tag is the element type
  SHOAL_MPI_GET,
  SHOAL_MPI_AWAIT,  // a version
  // From the owner:
  SHOAL_MPI_VERSIONS,  // some of them; an answer follows
  SHOAL_MPI_ANSWER,    // done: the rest of the versions, and what was asked for
  SHOAL_MPI_BEHIND     // who an awaited version is missing of
} shoal_mpi_kind_t;

#define SHOAL_MPI_INLINE 2048

typedef struct shoal_mpi_header {
  uint64_t stream, sequence;
  int64_t bytes;  // of the message
  int32_t tag, kind;
  int32_t payload;  // tag of the payload; 0: the bytes are in the packet
  int32_t check;    // constant
} shoal_mpi_header_t;
#define SHOAL_MPI_CHECK 0x5ca1ab1e

typedef struct shoal_mpi_packet {
  struct shoal_mpi_packet *next;
  int64_t time;               // since when it waits, of an AWAIT
  int32_t peer, told;         // who sent it; the rank that was told BEHIND, or -1
  shoal_mpi_header_t header;  // from here on it is sent
  alignas(8) uint8_t bytes[SHOAL_MPI_INLINE];
} shoal_mpi_packet_t;

// A message to every other rank that this one failed or left. It has its own storage, so that an
// error can be sent when memory is short.
typedef struct shoal_mpi_news {
  shoal_mpi_packet_t packet;
  shoal_mpi_request_t *requests;  // one per rank of the world
} shoal_mpi_news_t;

// ---- the world ------------------------------------------------------------------------

// One packet and its payload on their way out, or one payload on its way in: a message's, a
// window's.
typedef struct shoal_mpi_flight {
  struct shoal_mpi_flight *next;
  shoal_direction_t direction;
  uint64_t *moved;                  // grows with every chunk; NULL: its waiter has given up
  struct shoal_mpi_stream *stream;  // of a message
  shoal_exchange_t *exchange;
  const shoal_message_t *message;  // or &own
  shoal_message_t own;
  struct shoal_mpi_call *call;      // of a window: the caller's side
  struct shoal_mpi_window *window;  // or the owner's
  uint8_t *staging;                 // a received chunk goes here, to be added, not to its place
  int32_t peer, payload;
  int64_t most;    // bytes of a chunk; 0: the engine's
  int64_t offset;  // bytes of the payload that are through
  int64_t chunk;   // bytes of the request in flight
  shoal_mpi_request_t header_request, payload_request;
  shoal_mpi_packet_t packet;  // sending
} shoal_mpi_flight_t;

// Packets in the order in which they arrived.
typedef struct shoal_mpi_queue {
  shoal_mpi_packet_t *first, *last;
} shoal_mpi_queue_t;

typedef struct shoal_mpi_receiver {
  shoal_mpi_queue_t arrived;  // nobody has asked for them yet
  shoal_cursor_t cursor;
  uint64_t sequence;
  shoal_mpi_flight_t *flight;  // the cursor's message, when its payload is on its way
} shoal_mpi_receiver_t;

typedef struct shoal_mpi_stream {
  shoal_stream_t base;
  shoal_pending_t pending;
  uint64_t moved;                   // grows with everything that moves: what a timeout looks at
  shoal_mpi_receiver_t *receivers;  // one per rank of the world
  uint64_t *sent;                   // messages to each rank
  struct shoal_mpi_stream *next;
} shoal_mpi_stream_t;

typedef struct shoal_mpi_peer {
  shoal_mpi_queue_t strays;  // of streams that are not here (yet)
  int32_t payloads;          // tags used towards it
  bool left;
} shoal_mpi_peer_t;

// ---- windows --------------------------------------------------------------------------

// Behind the header of a window's packet.
typedef struct shoal_mpi_window_head {
  int64_t offset;    // in the shard
  uint64_t version;  // awaited; BEHIND: where it is
  int32_t writer;    // group rank: who puts, who is awaited (-1: all), who is behind
  int32_t count;     // GET: versions wanted; VERSIONS and ANSWER: versions behind this,
  int32_t first;     // from this group rank on
  int32_t unused;
} shoal_mpi_window_head_t;

// A call of this rank, in its caller's storage.
typedef struct shoal_mpi_call {
  struct shoal_mpi_call *next;
  uint64_t id;
  struct shoal_mpi_window *window;
  shoal_mpi_kind_t kind;
  int32_t owner, writer;  // group ranks
  uint64_t version;       // awaited
  int32_t behind;         // whom the owner named, or -1,
  uint64_t behind_at;     // and where that one is
  void *data;             // read by a put, written by a get
  int64_t bytes;
  uint64_t *versions;  // of a get, or NULL
  int32_t left;        // what is still to come before it is done: an answer, a payload
  uint64_t moved;
} shoal_mpi_call_t;

// This rank's shard. Calls queue for it: one that adds has it exclusively, those that read share
// it. A payload is added chunk by chunk, or sent from the shard itself, while the shard is held.
typedef struct shoal_mpi_window {
  shoal_window_t base;
  struct shoal_mpi_window *next;
  shoal_group_t *group;  // base's is filled in when others may be calling already
  uint64_t id;
  int64_t bytes;
  shoal_mpi_packet_t *first, *last;  // PUT and GET that wait for their turn
  shoal_mpi_packet_t *awaits;
  bool is_written;
  int32_t readers;
  uint64_t moved;
  uint64_t *versions;  // one per group rank
  uint8_t *data, *staging;
} shoal_mpi_window_t;

// ---- surveys --------------------------------------------------------------------------

// What a thread of this rank asks the others, in its caller's storage.
typedef struct shoal_mpi_survey {
  struct shoal_mpi_survey *next;
  uint64_t id;
  shoal_account_t *accounts;  // one per rank of the world
  int32_t due;                // answers
} shoal_mpi_survey_t;

// ---- all of it ------------------------------------------------------------------------

typedef struct shoal_mpi_world {
  shoal_world_t base;
  const shoal_mpi_plugin_t *plugin;
  shoal_mpi_comm_t comms[2];  // packets, payloads
  int32_t largest_tag;
  shoal_failure_t failure;
  shoal_mpi_news_t failed, left;
  shoal_mutex_t mutex;  // of all below, of the callers' exchanges, and of every call into MPI
  shoal_mpi_stream_t *streams;
  shoal_mpi_peer_t *peers;
  shoal_mpi_packet_t *incoming;  // what is being received into
  shoal_mpi_request_t incoming_request;
  shoal_mpi_flight_t *flights, *free_flights;
  shoal_mpi_packet_t *free_packets;
  shoal_mpi_window_t *windows, *graves;  // graves: MPI may still read or write their shards
  shoal_mpi_call_t *calls;
  uint64_t last_call;
  uint32_t last_window;
  shoal_mpi_survey_t *surveys;  // one for each thread of this rank that asks
  uint64_t last_survey;
  bool is_mute;             // MPI is called no more: it would write to a caller's memory
  _Atomic int32_t waiters;  // threads that move things along themselves
  _Atomic bool ending;
  shoal_thread_t progress;  // moves things along when nobody waits
} shoal_mpi_world_t;

// Begins to receive packets.
SHOAL_MUST_USE shoal_status_t shoal_mpi_engine_start(shoal_mpi_world_t *world);
// Tells the others that this rank leaves. False: MPI did not let go of the world's memory, which
// must stay where it is.
bool shoal_mpi_engine_stop(shoal_mpi_world_t *world);
// Breaks the world and tells the others; the first failure stays.
void shoal_mpi_fail(shoal_world_t *world, shoal_code_t code, const char *message);
// Takes over what arrived for a stream before it was here, or gives up what nobody asked for.
void shoal_mpi_stream_open(shoal_mpi_world_t *world, shoal_mpi_stream_t *stream);
void shoal_mpi_stream_close(shoal_mpi_world_t *world, shoal_mpi_stream_t *stream);
// Asks every rank what it does, for a second at most. Called without the mutex.
void shoal_mpi_survey(shoal_world_t *world, shoal_account_t *out_accounts);
SHOAL_MUST_USE shoal_status_t shoal_mpi_exchange_start(shoal_stream_t *stream,
                                                       shoal_exchange_t *exchange);
SHOAL_MUST_USE shoal_status_t shoal_mpi_exchange_wait(shoal_stream_t *stream,
                                                      shoal_exchange_t *exchange);

// A bit of its tag tells the comparison before a collective of MPI's own from a message of a
// composed one: ranks whose counts differ may choose differently, and none may take the other for
// data.
#define SHOAL_MPI_COMPARES INT32_MIN
typedef struct shoal_mpi_comparison {
  int64_t count;  // elements of the call
  uint64_t hash;  // of all that its tag does not tell
} shoal_mpi_comparison_t;
// The tag to describe, on any stream.
int32_t shoal_mpi_plain_tag(const shoal_mpi_stream_t *stream, int32_t tag);

// A reduction in any order: MPI's own where it has one, else composed.
SHOAL_MUST_USE shoal_status_t shoal_mpi_native(shoal_group_t *group,
                                               const shoal_collective_t *collective);
void shoal_mpi_group_free(shoal_group_t *group);

extern const shoal_window_ops_t shoal_mpi_windows;

#endif  // SHOAL_COMM_BACKENDS_MPI_MPI_H_
