// The ops table of communication. comm.c, group.c and collective.c check arguments and dispatch
// here; a backend embeds the structs below as the first member of its own. backends/self is the one
// to copy.
//
// A slot is required unless it says *optional*; then it says what NULL means. The least a backend
// gives is streams, exchanges and failing: every collective is composed from exchanges where its
// slot is NULL.
#ifndef SHOAL_COMM_COMM_IMPL_H_
#define SHOAL_COMM_COMM_IMPL_H_

#include <stdatomic.h>

#include "base/thread.h"
#include "comm/enqueue.h"
#include "comm/recorder.h"
#include "shoal/comm.h"

typedef struct shoal_comm_ops shoal_comm_ops_t;

// ---- streams -------------------------------------------------------------------------

// A stream is a separate sequence of messages: the messages of one stream match in order between
// each pair of ranks, and streams never hold each other up. Point-to-point exchanges share one, and
// every lane has one; every group has one, so that groups may be used from different threads, and
// another for the messages of its users.
struct shoal_stream {
  shoal_world_t *world;
  uint64_t id;  // the same on all its ranks
  // Filled by group.c, for a group's, or exchange.c, for a lane's:
  bool collective;                 // tags are shoal_collective_tag's
  bool is_lane;                    // `ranks` is its name
  _Atomic uint64_t calls;          // of collectives, so far
  char ranks[SHOAL_RECORD_GROUP];  // "0,1,2", cut short
};

struct shoal_lane {
  shoal_world_t *world;
  shoal_stream_t *stream;
};

// ---- worlds and groups ----------------------------------------------------------------

// How many groups of these ranks, or lanes of this name, were made: part of a stream's id.
typedef struct shoal_stream_count {
  uint64_t hash;
  uint64_t count;
  struct shoal_stream_count *next;
} shoal_stream_count_t;

struct shoal_world {
  const shoal_comm_ops_t *ops;
  shoal_allocator_t allocator;
  _Atomic int32_t references;
  bool joined;  // from the environment: the process's one world
  int32_t rank, size;
  int64_t timeout_ms;
  shoal_recorder_t *recorder;  // where others can read it; NULL: comm.c makes a private one
  // Filled by comm.c after the backend's join:
  shoal_recorder_t *private_recorder;
  shoal_stream_t *stream;  // of shoal_exchange_start
  shoal_group_t *all;      // every rank, for shoal_world_agree
  shoal_mutex_t lock;      // of stream_counts
  shoal_mutex_t flights;   // of in_flight; may be taken with any other held
  bool lock_ready;
  shoal_stream_count_t *stream_counts;
  shoal_work_t *in_flight;  // native works, oldest first
};

struct shoal_group {
  shoal_world_t *world;
  shoal_stream_t *stream;
  _Atomic(shoal_stream_t *) users;  // of shoal_send and shoal_recv; NULL: none yet
  int32_t size, rank;               // rank -1: this rank is not in it
  int32_t *ranks;
  // For composed collectives; grown while warming up, never shrunk.
  shoal_message_t *messages;  // 2 * size: sends, recvs
  const void **sources;       // size
  int64_t *counts;            // 2 * size
  void *scratch;
  int64_t scratch_bytes;
  void *backend_data;
  struct shoal_async *async;  // NULL: nothing was started on it yet
};

// ---- collectives ----------------------------------------------------------------------

// The columns of shoal/collectives.inc, which says what they mean.
typedef enum shoal_joins {
  SHOAL_JOINS_NONE,
  SHOAL_JOINS_ALL,
  SHOAL_JOINS_UP_TO,
  SHOAL_JOINS_BEFORE
} shoal_joins_t;
typedef enum shoal_holds {
  SHOAL_HOLDS_NOTHING,
  SHOAL_HOLDS_COUNT,
  SHOAL_HOLDS_PART,
  SHOAL_HOLDS_PARTS
} shoal_holds_t;
typedef enum shoal_who { SHOAL_WHO_ALL, SHOAL_WHO_ROOT, SHOAL_WHO_OTHERS } shoal_who_t;
typedef struct shoal_collective_facts {
  const char *name;
  shoal_joins_t joins;
  shoal_holds_t sends, receives;
  shoal_who_t sender, receiver;
} shoal_collective_facts_t;
extern const shoal_collective_facts_t shoal_collective_facts[SHOAL_COLLECTIVE_COUNT];

static inline bool shoal_collective_is_reduction(shoal_collective_kind_t kind) {
  return shoal_collective_facts[kind].joins != SHOAL_JOINS_NONE;
}
static inline bool shoal_collective_has_root(shoal_collective_kind_t kind) {
  const shoal_collective_facts_t *facts = &shoal_collective_facts[kind];
  return facts->sender == SHOAL_WHO_ROOT || facts->receiver == SHOAL_WHO_ROOT;
}
// Says whether every count is known to two ranks only, so that no rank knows all counts.
static inline bool shoal_collective_is_pairwise(shoal_collective_kind_t kind) {
  const shoal_collective_facts_t *facts = &shoal_collective_facts[kind];
  return facts->sends == SHOAL_HOLDS_PARTS && facts->receives == SHOAL_HOLDS_PARTS;
}
static inline bool shoal_collective_takes_part(shoal_who_t who, bool is_root) {
  return who == SHOAL_WHO_ALL || is_root == (who == SHOAL_WHO_ROOT);
}
// Elements in this rank's buffers: to send, and to receive.
int64_t shoal_collective_sent(const shoal_group_t *group, const shoal_collective_t *collective);
int64_t shoal_collective_received(const shoal_group_t *group, const shoal_collective_t *collective);
// How many ranks, from the first on, a reduction combines for this one.
int32_t shoal_collective_joined(const shoal_collective_t *collective, int32_t size, int32_t rank);
// What all ranks of a call must agree on, as a message's tag, and back as text for errors.
int32_t shoal_collective_tag(const shoal_collective_t *collective);
// Tag, on a group's stream, of the message that says which slot of shared memory the group uses.
#define SHOAL_TAG_MEETING 0x3f
// "all_reduce of f32 by sum".
void shoal_collective_describe(int32_t tag, char *buffer, size_t capacity);
// "tag 7", or "all_reduce of f32 by sum" on a group's stream.
void shoal_stream_describe(const shoal_stream_t *stream, int32_t tag, char *buffer,
                           size_t capacity);

// " in call 12 of ranks 0,1,2" on a group's stream, else "": where a mismatch was met.
void shoal_stream_describe_call(const shoal_stream_t *stream, char *buffer, size_t capacity);
// What this rank expects next from a peer, and the message that came instead.
typedef struct shoal_came {
  int32_t tag;
  int64_t bytes;
  uint64_t sequence;
} shoal_came_t;
void shoal_stream_describe_mismatch(const shoal_stream_t *stream, const shoal_message_t *expected,
                                    shoal_came_t came, char *buffer, size_t capacity);

typedef shoal_status_t (*shoal_collective_fn_t)(shoal_group_t *group,
                                                const shoal_collective_t *collective);
// The composition from exchanges (compose.c); NULL for kinds that are not composed yet.
extern const shoal_collective_fn_t shoal_collective_composed[SHOAL_COLLECTIVE_COUNT];

// Runs what was started on a group, in order, on a thread of its own (async.c).
typedef struct shoal_async {
  shoal_mutex_t mutex;
  shoal_cond_t changed;
  shoal_thread_t thread;
  shoal_request_t *first, *last;  // the first one is running
  bool stopping;
} shoal_async_t;
// Says whether calls are in flight, so that a blocking one must wait its turn.
bool shoal_async_is_busy(shoal_group_t *group);
void shoal_async_free(shoal_group_t *group);  // after what is in flight
// Runs one collective now; an error of this rank breaks the world, so that nobody waits for it.
SHOAL_MUST_USE shoal_status_t shoal_collective_run_now(shoal_group_t *group,
                                                       const shoal_collective_t *collective);

// ---- windows --------------------------------------------------------------------------

// A backend embeds it. `shards` is filled by window.c before the backend's create.
struct shoal_window {
  shoal_group_t *group;
  int64_t *shards;  // bytes of every rank's
};

// All are required; arguments are checked.
typedef struct shoal_window_ops {
  // Creates this rank's shard and learns of the others'. *Collective*.
  shoal_status_t (*create)(shoal_group_t *group, const int64_t *shards,
                           shoal_window_t **out_window);
  void (*free)(shoal_window_t *window);  // after a barrier
  shoal_status_t (*put_add)(shoal_window_t *window, int32_t owner, shoal_dtype_t dtype,
                            int64_t offset, int64_t count, const void *data);
  shoal_status_t (*get)(shoal_window_t *window, int32_t owner, int64_t offset, int64_t bytes,
                        void *data, uint64_t *out_versions);
  shoal_status_t (*wait)(shoal_window_t *window, int32_t owner, int32_t writer, uint64_t version);
} shoal_window_ops_t;

// ---- failing --------------------------------------------------------------------------

#define SHOAL_FAILURE_TEXT 1400

// Why a world is broken. The first failure stays. Lives in memory that all ranks see.
typedef struct shoal_failure {
  _Atomic uint32_t state;  // 0: fine, 1: being written, 2: set
  int32_t code, rank;
  char message[SHOAL_FAILURE_TEXT];
} shoal_failure_t;

bool shoal_failure_set(shoal_failure_t *failure, shoal_code_t code, int32_t rank,
                       const char *message);
static inline bool shoal_failure_is_set(const shoal_failure_t *failure) {
  return atomic_load_explicit(&failure->state, memory_order_acquire) != 0;
}
SHOAL_MUST_USE shoal_status_t
shoal_failure_status(const shoal_failure_t *failure);  // OK if not set

// ---- the table ------------------------------------------------------------------------

struct shoal_comm_ops {
  const char *name;
  bool wraps;  // its worlds are another backend's inside, which may be named: "throttle:local"

  // ---- worlds. options: allocator and timeout are set; base members of the world are the
  // backend's to fill, but for what comm.c says above.
  bool (*detect)(void);  // does the environment describe a world of this kind?
  shoal_status_t (*join)(const shoal_world_options_t *options, shoal_world_t **out_world);
  // Optional: n worlds in one process. NULL: ranks are always processes.
  shoal_status_t (*threads)(const shoal_world_options_t *options, int32_t n,
                            shoal_world_t **out_worlds);
  void (*world_free)(shoal_world_t *world);

  // ---- failing. Breaks the world and wakes every rank; the first failure stays.
  void (*fail)(shoal_world_t *world, shoal_code_t code, const char *message);
  shoal_status_t (*broken)(shoal_world_t *world);  // OK while it is not

  // Fills in the accounts of all ranks, which are zeroed before: it reads them where they are in
  // shared memory, else asks the ranks, for a second at most. Optional; NULL: only this rank's
  // account is known.
  void (*survey)(shoal_world_t *world, shoal_account_t *out_accounts);

  // ---- exchanges: any number may be started; waiting for one moves all of this rank's forward.
  // The exchange is filled in; `start` never blocks. Both lock: several threads may use one world.
  shoal_status_t (*stream_create)(shoal_world_t *world, uint64_t id, shoal_stream_t **out_stream);
  void (*stream_free)(shoal_stream_t *stream);
  shoal_status_t (*exchange_start)(shoal_stream_t *stream, shoal_exchange_t *exchange);
  shoal_status_t (*exchange_wait)(shoal_stream_t *stream, shoal_exchange_t *exchange);
  // What was started will not be waited for soon. Optional; NULL: it makes as good progress anyway.
  void (*stir)(shoal_world_t *world);
  // Sleeps until the monotonic clock is at `until_ns`, or returns the world's error when it breaks.
  // What this rank has started makes progress meanwhile. Optional; NULL: it makes progress anyway.
  shoal_status_t (*rest)(shoal_world_t *world, int64_t until_ns);

  void (*group_free)(shoal_group_t *group);  // Optional: of backend_data

  // ---- collectives, by kind. Optional: NULL is composed from exchanges. Counts may differ between
  // ranks and be zero (the "v" forms are not apart).
  shoal_collective_fn_t collective[SHOAL_COLLECTIVE_COUNT];

  // ---- on a device's queue, at device addresses; see enqueue.h. Optional, together: `enqueues`
  // says whether it can on this device. NULL, or no: a host call on the queue does it. The two
  // enqueue work that has been prepared; they neither block nor allocate.
  bool (*enqueues)(const shoal_world_t *world, const shoal_device_t *device);
  shoal_status_t (*collective_enqueue)(shoal_work_t *work, shoal_queue_t *queue);
  shoal_status_t (*exchange_enqueue)(shoal_work_t *work, shoal_queue_t *queue);

  // ---- memory that all ranks of the node can address. Optional, together; NULL: private memory,
  // and collectives copy through buffers of their own.
  shoal_status_t (*alloc)(shoal_world_t *world, int64_t bytes, void **out_memory);
  void (*release)(shoal_world_t *world, void *memory);

  const shoal_window_ops_t *windows;  // optional; NULL: UNSUPPORTED
};

#define SHOAL_COMM_BACKEND(name) extern const shoal_comm_ops_t shoal_comm_##name;
#include "comm/backends.inc"
#undef SHOAL_COMM_BACKEND

// How often it was called with this hash before.
SHOAL_MUST_USE shoal_status_t shoal_world_count(shoal_world_t *world, uint64_t hash,
                                                uint64_t *out_ordinal);
// Starts and waits on a stream: what compose.c is made of.
SHOAL_MUST_USE shoal_status_t shoal_stream_exchange(shoal_stream_t *stream, int32_t send_count,
                                                    const shoal_message_t *sends,
                                                    int32_t recv_count,
                                                    const shoal_message_t *recvs);
// Room in the group's scratch.
SHOAL_MUST_USE shoal_status_t shoal_group_reserve(shoal_group_t *group, int64_t bytes);
// For backends that wrap another. Find: the backend of that name (NULL: the environment's); with
// `wrapped`, not one that wraps itself. Complete: adds what every world has besides its backend's
// own. Destroy: the opposite.
SHOAL_MUST_USE shoal_status_t shoal_comm_find(const char *name, bool wrapped,
                                              const shoal_comm_ops_t **out_ops);
SHOAL_MUST_USE shoal_status_t shoal_world_complete(shoal_world_t *world);
void shoal_world_destroy(shoal_world_t *world);
// After fork: the child is not in its parent's world.
void shoal_world_forget_joined(void);

#endif  // SHOAL_COMM_COMM_IMPL_H_
