// Shoal, comm: the ranks of a job, and communication between them.
//
// A *world* is this rank's handle on all ranks. It is joined from the environment (`shoal run`,
// mpirun, Slurm, torchrun's variables), made of threads, or alone ("self"). A *group* is an ordered
// list of its ranks. Functions marked *Collective* must be called by every rank of the group in the
// same order; they block unless said otherwise, and an error on one rank becomes an error on all:
// the world is then *broken*, and every present and later call returns that error. A rank that
// needs nothing more from the others may return OK from the call in which another rank failed; its
// next call returns the error.
//
// Everything may be called from several threads, but a group's calls from one at a time. Groups,
// windows, memory and started operations belong to their world and must be gone before it is
// released.
#ifndef SHOAL_COMM_H_
#define SHOAL_COMM_H_

#include "shoal/base.h"
#include "shoal/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_world shoal_world_t;
typedef struct shoal_group shoal_group_t;
typedef struct shoal_lane shoal_lane_t;

typedef struct shoal_world_options {
  shoal_allocator_t allocator;  // zero: the system's
  const char *backend;          // NULL: chosen from the environment; "throttle:local": slowed down
  int64_t timeout_ms;           // without progress; 0: SHOAL_TIMEOUT_MS or 300000
} shoal_world_options_t;

// Joins the world that the environment describes: that of `shoal run`, Open MPI, MPICH (Hydra,
// PMI), Slurm or torchrun (docs/cluster.md). Without any of them this rank is alone. If
// SHOAL_COMM_THROTTLE names a cluster, this world and worlds of threads are slowed down to its
// links. Blocks, for timeout_ms at most, until the ranks that this one must know have joined.
// Joining again returns the same world, reference-counted, whatever the options. *Collective.*
// UNAVAILABLE: the launcher's MPI has no plug-in here. UNSUPPORTED: `shoal run --threads` started
// it (SHOAL_THREADS is above 1), and no backend is named: shoal_launch_ranks makes such ranks.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_world_join(const shoal_world_options_t *options,
                                                         shoal_world_t **out_world);
// n worlds for n threads of this process, at most 128. Not collective: one thread makes all; each
// is released by whoever used it.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_world_threads(const shoal_world_options_t *options,
                                                            int32_t n, shoal_world_t **out_worlds);
SHOAL_API void shoal_world_retain(shoal_world_t *world);
SHOAL_API void shoal_world_release(shoal_world_t *world);
SHOAL_API int32_t shoal_world_rank(const shoal_world_t *world);
SHOAL_API int32_t shoal_world_size(const shoal_world_t *world);
SHOAL_API const char *shoal_world_backend(const shoal_world_t *world);

// Names the backends of this build, and the MPI plug-ins that are installed, by `index` from 0;
// NULL after the last. *out_available (may be NULL) says whether it can be used now.
SHOAL_API const char *shoal_comm_backend(int64_t index, bool *out_available);
// Prints, into the arena, which algorithm the backend `local` uses for which collective, number of
// ranks and bytes: the rows of SHOAL_COMM_TABLE, then the built-in ones. INVALID_ARGUMENT: that
// variable is wrong.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_comm_table_print(shoal_arena_t *arena,
                                                               const char **out_text);

// Takes this rank's status; returns OK if it is OK on all ranks, else - on every rank - the error
// of the lowest failing rank (annotated with its number on the others, unless they failed alike).
// *Collective.* Does not break the world.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_world_agree(shoal_world_t *world,
                                                          shoal_status_t status);
// Breaks the world: every rank's present and future calls return ABORTED quoting `reason`, which
// stays the caller's. Not collective.
SHOAL_API void shoal_world_abort(shoal_world_t *world, shoal_status_t reason);

// -------------------------------------------------------------------------------------------------
// The flight recorder. Every operation below is numbered and described when it begins. When no
// message has moved for `timeout_ms`, or a rank has died, every rank gets an error that says which
// rank waits in which operation for whom, and which rank keeps the others waiting.
// -------------------------------------------------------------------------------------------------

// Gives the same report at any time: what every rank does now, its last operation, and which rank
// it waits for. Waits are listed once they have lasted a tenth of a second. Not collective, from
// any thread; over MPI it asks the other ranks, for a second at most. Written to `buffer` as far as
// it fits, always ended by a zero.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_world_report(shoal_world_t *world, char *buffer,
                                                           size_t capacity);
// Names, in reports, what this thread's operations are for, as "backward/fc1: reduce gradients";
// NULL: nothing. The text must stay while it is set, and until what was started is done. Not
// collective.
SHOAL_API void shoal_comm_label(const char *label);

// An ordered list of ranks (NULL: the first `count`; this rank need not be among them). Exchanges
// no message, but the ranks of a group must create groups of the same list in the same order.
// Freeing is not collective. Groups do not disturb each other: each may be used from a thread of
// its own.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_group_create(shoal_world_t *world, int32_t count,
                                                           const int32_t *ranks,
                                                           shoal_group_t **out_group);
SHOAL_API void shoal_group_free(shoal_group_t *group);
SHOAL_API int32_t shoal_group_size(const shoal_group_t *group);
SHOAL_API int32_t shoal_group_rank(const shoal_group_t *group);  // mine in it, or -1
// The rank in the world of group rank `rank`; -1: it is not in the group.
SHOAL_API int32_t shoal_group_world_rank(const shoal_group_t *group, int32_t rank);

// -------------------------------------------------------------------------------------------------
// Collectives. Buffers are dense; counts may be zero and differ between ranks. Reductions (sum,
// prod, max, min; for floats also lse, log-sum-exp) combine the ranks' elements in ascending group
// rank, bf16 and f16 in f32 with one rounding, so that every rank gets the same bits every time.
// Integers wrap; max and min keep a NaN. A call may work in place: `send` equals `recv` where both
// have the same length, and otherwise the shorter buffer may be this rank's own part of the longer
// one. The buffers of all_to_all must not overlap.
// -------------------------------------------------------------------------------------------------

typedef enum shoal_collective_kind {
#define SHOAL_COLLECTIVE(id, ...) SHOAL_COLLECTIVE_##id,
#include "shoal/collectives.inc"
#undef SHOAL_COLLECTIVE
  SHOAL_COLLECTIVE_COUNT
} shoal_collective_kind_t;

// One collective call of any kind; fields that a kind does not use are zero. The functions below
// fill it in. Asynchronous and bounded calls take it as an argument.
//
// `any_order` (on all ranks alike): a reduction need not combine elements in ascending group rank.
// Bits may then differ between runs, numbers of ranks and backends, though not between the ranks of
// a call. Over MPI the call is then MPI's own reduction, where MPI has the element type; in shared
// memory the order stays ascending.
//
// `bounded` (on all ranks alike): send_counts and recv_counts are capacities, which say where parts
// lie in the buffers; how many elements move is read when the call runs, from *send_counts_at_run:
// one count per group rank for scatter (at the root), reduce_scatter (the same on all ranks) and
// all_to_all, else this rank's one. What came is written to *recv_counts_at_run if that is not
// NULL: one count per group rank for gather (at the root), all_gather and all_to_all; else one. A
// count above its capacity is an error.
typedef struct shoal_collective {
  shoal_collective_kind_t kind;
  shoal_dtype_t dtype;
  shoal_reduce_t reduce;
  int32_t root;  // group rank
  bool bounded;
  bool any_order;              // the backend may join in any order: faster perhaps, but see above
  int64_t count;               // elements: barrier 0, broadcast, reduce, all_reduce, scan, exscan
  const int64_t *send_counts;  // one per group rank: scatter, reduce_scatter, all_to_all
  const int64_t *recv_counts;  // one per group rank: gather, all_gather, all_to_all
  const int64_t *send_counts_at_run;
  int64_t *recv_counts_at_run;
  const void *send;  // broadcast: equals recv
  void *recv;        // reduce, gather: used at the root only
} shoal_collective_t;

SHOAL_API const char *shoal_collective_name(shoal_collective_kind_t kind);  // "all_reduce"
// Runs a collective of any kind. *Collective*; blocks.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_collective_run(shoal_group_t *group,
                                                             const shoal_collective_t *collective);

SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_barrier(shoal_group_t *group);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_broadcast(shoal_group_t *group, void *data,
                                                        int64_t bytes, int32_t root);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_reduce_to(shoal_group_t *group, shoal_dtype_t dtype,
                                                        shoal_reduce_t reduce, int64_t count,
                                                        const void *send, void *recv, int32_t root);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_all_reduce(shoal_group_t *group, shoal_dtype_t dtype,
                                                         shoal_reduce_t reduce, int64_t count,
                                                         const void *send, void *recv);
// counts[i] elements come from / go to group rank i.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_gather_to(shoal_group_t *group, shoal_dtype_t dtype,
                                                        const int64_t *counts, const void *send,
                                                        void *recv, int32_t root);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_scatter_from(shoal_group_t *group,
                                                           shoal_dtype_t dtype,
                                                           const int64_t *counts, const void *send,
                                                           void *recv, int32_t root);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_all_gather(shoal_group_t *group, shoal_dtype_t dtype,
                                                         const int64_t *counts, const void *send,
                                                         void *recv);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_reduce_scatter(shoal_group_t *group,
                                                             shoal_dtype_t dtype,
                                                             shoal_reduce_t reduce,
                                                             const int64_t *counts,
                                                             const void *send, void *recv);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_all_to_all(shoal_group_t *group, shoal_dtype_t dtype,
                                                         const int64_t *send_counts,
                                                         const void *send,
                                                         const int64_t *recv_counts, void *recv);
// Reduces over the group ranks up to and including this one (scan), or before it (exclusive_scan;
// group rank 0 gets the reduction's identity).
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_scan(shoal_group_t *group, shoal_dtype_t dtype,
                                                   shoal_reduce_t reduce, int64_t count,
                                                   const void *send, void *recv);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_exclusive_scan(shoal_group_t *group,
                                                             shoal_dtype_t dtype,
                                                             shoal_reduce_t reduce, int64_t count,
                                                             const void *send, void *recv);

// Asynchronous collectives make progress without further calls: each group that uses them has a
// thread, so that groups never hold each other up, in whatever order ranks start them. Within a
// group, calls run in the order in which they were started, blocking ones included. Starting does
// not block, and allocates only in the first calls. The request is the caller's storage; it, the
// buffers and the counts must stay until it is done, and it must be waited for once, before its
// group is freed.
typedef struct shoal_request {
  shoal_group_t *group;
  shoal_collective_t collective;
  struct shoal_request *next;  // private from here
  shoal_status_t status;
  const char *label;
  bool done;
} shoal_request_t;

SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_collective_start(shoal_group_t *group,
                                                               const shoal_collective_t *collective,
                                                               shoal_request_t *out_request);
SHOAL_API bool shoal_request_test(shoal_request_t *request);  // true when it has ended, well or not
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_request_wait(shoal_request_t *request);  // blocks

// Memory that all ranks of this node can address: collectives work in place on buffers that lie in
// it, and go through bounce buffers for those that do not. Zeroed; in whole pages, taken when they
// are touched. Backends without such memory give private memory. Not collective. Released by the
// rank that allocated it, before its world; NULL is allowed.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_comm_alloc(shoal_world_t *world, int64_t bytes,
                                                         void **out_memory);
SHOAL_API void shoal_comm_release(shoal_world_t *world, void *memory);

// Point to point, grouped: messages between a pair of ranks match in order; `tag` and bytes must
// agree (else MISMATCH naming both sides, on every rank). A rank may send to itself. Several
// exchanges may be in flight: start any number, never blocking, wait for them in any order and from
// any thread. Started messages make progress without further calls, and are fastest while their
// rank waits in any call.
typedef struct shoal_message {
  int32_t peer;  // rank in the world
  int32_t tag;
  int64_t bytes;
  void *data;  // sent from, or received into
} shoal_message_t;

// A started exchange; caller's storage, no allocation. Messages must stay valid until it is done.
typedef struct shoal_exchange {
  shoal_world_t *world;
  int32_t send_count, recv_count;
  const shoal_message_t *sends, *recvs;
  struct shoal_exchange *next;  // private from here
  int64_t progress[2];
  uint64_t state;
  uint64_t record;
  void *private_data;
  shoal_message_t own;  // the one message of shoal_send_start and shoal_recv_start
} shoal_exchange_t;

SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_exchange_start(
    shoal_world_t *world, int32_t send_count, const shoal_message_t *sends, int32_t recv_count,
    const shoal_message_t *recvs, shoal_exchange_t *out_exchange);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_exchange_wait(shoal_exchange_t *exchange);

// A lane is an order of messages of its own: an exchange on it matches only with exchanges on the
// lane of the same name, so that threads of a rank which use different lanes never hold each other
// up, in whatever order ranks use them. Creating one exchanges no message; every rank of the world
// creates lanes of a name equally often, and in the same order. Freeing is not collective; what was
// started on a lane must be waited for before. NULL is allowed.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_lane_create(shoal_world_t *world, const char *name,
                                                          shoal_lane_t **out_lane);
SHOAL_API void shoal_lane_free(shoal_lane_t *lane);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_lane_exchange_start(
    shoal_lane_t *lane, int32_t send_count, const shoal_message_t *sends, int32_t recv_count,
    const shoal_message_t *recvs, shoal_exchange_t *out_exchange);
// A group as shoal_group_create makes it, apart from all groups of the same ranks on other lanes:
// only those of one lane must be created in the same order.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_lane_group_create(shoal_lane_t *lane, int32_t count,
                                                                const int32_t *ranks,
                                                                shoal_group_t **out_group);

// Point to point on a group: `to` and `from` are group ranks. Every group has an order of messages
// of its own, apart from its collectives, other groups' and shoal_exchange_start's; else messages
// match as above. Not collective: only the two ranks call, the one sends and the other receives,
// with equal tag and bytes. `data` stays the caller's, and may be NULL when there are no bytes. A
// rank outside the group (this one too), negative bytes or missing data: INVALID_ARGUMENT, on this
// rank only, and nothing was sent.
//
// Both block: `send` until the data may be written again, which may be before the other rank
// receives or only when it does; `recv` until it is there. So ranks that send each other start at
// least one of the two.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_send(shoal_group_t *group, int32_t to, int32_t tag,
                                                   int64_t bytes, const void *data);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_recv(shoal_group_t *group, int32_t from, int32_t tag,
                                                   int64_t bytes, void *data);
// The same without blocking: each is an exchange of one message, to be waited for once with
// shoal_exchange_wait, before its group is freed. Grouped: start all of them, then wait for all.
// The data and the exchange, which must not be moved, stay until it is done. Only the first on a
// group allocates.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_send_start(shoal_group_t *group, int32_t to,
                                                         int32_t tag, int64_t bytes,
                                                         const void *data,
                                                         shoal_exchange_t *out_exchange);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_recv_start(shoal_group_t *group, int32_t from,
                                                         int32_t tag, int64_t bytes, void *data,
                                                         shoal_exchange_t *out_exchange);

// -------------------------------------------------------------------------------------------------
// Windows: one-sided communication. Every rank of a group owns a shard of memory, and every rank of
// the group may write to any shard. A shard has one version counter per writer.
// -------------------------------------------------------------------------------------------------

typedef struct shoal_window shoal_window_t;

// `bytes`: of this rank's shard, zeroed; versions start at 0. *Collective*, as is freeing; NULL is
// allowed.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_window_create(shoal_group_t *group, int64_t bytes,
                                                            shoal_window_t **out_window);
SHOAL_API void shoal_window_free(shoal_window_t *window);
SHOAL_API int64_t shoal_window_bytes(const shoal_window_t *window, int32_t owner);  // of its shard

// In all functions below, ranks are group ranks, and offsets and sizes are in bytes. They are *Not
// collective*. Except for `wait` they block only while others read or write the shard and, over
// MPI, until a thread of the owner's process has served them.

// Adds `count` elements to the shard of `owner` and 1 to this rank's version there: seen together
// or not at all, by every reader. Count 0 only raises the version.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_window_put_add(shoal_window_t *window, int32_t owner,
                                                             shoal_dtype_t dtype, int64_t offset,
                                                             int64_t count, const void *data);
// Copies a part of a shard. The copy is consistent: it contains exactly the writes that
// `out_versions` (one per group rank, or NULL) counts.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_window_get(shoal_window_t *window, int32_t owner,
                                                         int64_t offset, int64_t bytes, void *data,
                                                         uint64_t *out_versions);
// Blocks until the version of `writer` (-1: of every rank of the group) in that shard is at least
// `version`.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_window_wait(shoal_window_t *window, int32_t owner,
                                                          int32_t writer, uint64_t version);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_COMM_H_
