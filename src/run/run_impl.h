// The runner's internal header: what its files share.
//
//   load.c       create and free: everything a run enqueues is built here
//   queues.c     queues, and the events by which they wait for each other
//   executor.c   run, join
//   broken.c     errors that stick: those of queues, of ranks that differ
//   meet.c       begins collective calls, and agrees now and then during runs
//   tell.c       finds who differs from whom, when ranks do
//   bounded.c    compute on as many rows as a buffer says
//   ports.c      inputs and outputs: what load builds for them, and runs on a queue
//   feed.c       feed, fetch
//   tap.c        shows what instructions wrote
//   timer.c      times of instructions, when they are asked for
//   meter.c      time spent on communication, and how much of it compute hides
//   offload.c    arenas of host and file memory, and copies from and to them
//   move.c       reshards: what load builds for them, and runs on a queue
//   exchange.c   reshards of the rows that are used, read at run time
//   states.c     get, set, gather
//   parts.c      get and set of a rank's part
//   signal.c     signals that ask for a stop
//   checkpoint.c, saving.c, restore.c, owned.c   save and load (checkpoint.h)
//   steps.c      folders of checkpoints
#ifndef SHOAL_RUN_IMPL_H_
#define SHOAL_RUN_IMPL_H_

#include "base/arena.h"
#include "base/scratch.h"
#include "base/thread.h"
#include "primitive/carrier.h"
#include "program/bind.h"
#include "run/run.h"

// Runs in flight at most; and slots, on the host, of what is fed and fetched.
enum { SHOAL_RUN_AHEAD = 2 };

// A part of an input or output in one micro-batch, as it lies in a slot.
typedef struct shoal_run_part {
  int32_t buffer, micro;
  const shoal_bound_buffer_t *bound;
  int64_t offset, bytes;
} shoal_run_part_t;

// What this rank feeds or fetches: its parts one behind the other, in slots of host memory.
typedef struct shoal_run_store {
  SHOAL_VEC(shoal_run_part_t) parts;
  int64_t bytes;  // of one slot
  char *slots[SHOAL_RUN_AHEAD];
  int32_t slot;  // that the last feed wrote; that the last run fetches into
  // Recorded behind a run's last transfer on a queue; NULL: none lies there.
  shoal_event_t *done[SHOAL_RUN_AHEAD][SHOAL_MAX_QUEUES];
  struct shoal_run_transfer *latest[SHOAL_MAX_QUEUES];  // while it is built
} shoal_run_store_t;

// What ranks compare of an input. A key stands for which elements of the whole were fed, in which
// order: ranks with the same key must have been fed the same data. 0: nothing to compare.
typedef struct shoal_run_fed {
  uint64_t key, hash;  // of one feed; or of the sequence of those of several runs
  uint64_t last;       // the key that was fed last
} shoal_run_fed_t;

typedef struct shoal_run_input {
  const shoal_program_port_t *port;
  int64_t whole_bytes;
  shoal_run_store_t store;  // no parts: this rank takes no part
  bool several;             // fed into several buffers: only the whole can be fed
  bool fed, used;           // used: by a run since it was fed
  uint64_t part_key;        // of this rank's part
  uint64_t key, hash;       // of what was fed last
  uint64_t known_key;       // that `weight` was worked out for
  uint64_t weight;          // of the hash; those of all ranks with this key add up to 0
  shoal_run_fed_t window;   // of the runs since the last agreement
  bool mixed;               // they had different keys
  shoal_run_fed_t asked;    // the window of the agreement under way
} shoal_run_input_t;

typedef struct shoal_run_output {
  const shoal_program_port_t *port;
  int64_t whole_bytes;
  int64_t covered;  // elements this rank fetches
  shoal_run_store_t store;
  int64_t run;  // number of the graph's last run; 0: none
} shoal_run_output_t;

// FEED and FETCH in one call.
typedef struct shoal_run_transfer {
  shoal_run_store_t *store;  // NULL: the part is empty
  shoal_address_t address;
  int64_t offset, bytes;
  bool last;  // of the run on this queue
} shoal_run_transfer_t;

// RESHARD in one call. One in which this rank only sends is *lazy*: it is posted from a send buffer
// of its own, because the receivers may come to it much later (a pipeline's next stage). Every call
// of an order has its own, so that within a run no send waits for another.
typedef struct shoal_run_move {
  shoal_carrier_t carrier;
  const shoal_address_t *inputs, *outputs;  // of each value
  shoal_address_t workspace;
  int32_t queue, lane;
  bool lazy;
  struct shoal_run_move *next;  // all of the runner
} shoal_run_move_t;

// COPY from, to or between memory beside the device's, in one call: piece by piece where a file is
// part of it.
typedef struct shoal_run_passage {
  shoal_runner_t *runner;
  const shoal_bound_buffer_t *from, *to;
  void *bounce;       // of the queue, where data may pass; NULL: no file is part of it
  int64_t at, bytes;  // of the part
} shoal_run_passage_t;

typedef struct shoal_run_offload {
  const shoal_bound_buffer_t *from, *to;
  int64_t bytes;
  int64_t passage_count;
  shoal_run_passage_t *passages;
} shoal_run_offload_t;

// Rows that go to one rank, or come from it: a box of the whole value, of which some are used.
typedef struct shoal_run_cargo {
  int32_t peer;
  shoal_box_t box;
} shoal_run_cargo_t;

// What this rank has of an exchanged value, or is to have.
typedef struct shoal_run_exchange_side {
  shoal_box_t part;
  shoal_address_t value, counts;
  int64_t bytes, count_bytes;
  int32_t cargo_count, message_count;
  shoal_run_cargo_t *cargo;
  shoal_message_t *messages;  // those of this run
  int64_t most;               // bytes of all cargo, if every row is used
  char *packed;               // cargo one behind the other; the queue's exchanges share it
  char *host, *host_counts;   // where the device is blind: value and counts on the host
  char *value_now, *counts_now;
} shoal_run_exchange_side_t;

// EXCHANGE in one call, carried out on the host.
typedef struct shoal_run_exchange {
  shoal_runner_t *runner;
  int32_t lane, queue, tag, me;
  const char *label, *what;
  int32_t rank, groups;       // dims of the value; those in front of its rows
  int64_t element, capacity;  // bytes; rows of a group
  shoal_dtype_t dtype;        // of the counts
  bool viewed;                // the host can look at the device's memory
  shoal_run_exchange_side_t here, there;
  struct shoal_run_exchange *next;  // all of the runner
} shoal_run_exchange_t;

// A value that an instruction writes, to be shown to the tap.
typedef struct shoal_run_tap {
  shoal_runner_t *runner;
  const char *graph;
  const shoal_buffer_t *buffer;
  int32_t micro;
  const shoal_bound_buffer_t *part;
  char *data;  // of the queue
  int64_t bytes;
} shoal_run_tap_t;

// A wait for an instruction of an earlier call, which may be one of an earlier step.
typedef struct shoal_run_await {
  shoal_event_t *const *events;  // of that call's instruction, one per step mod the order's cycle
  int64_t steps;                 // back
} shoal_run_await_t;

// One instruction of one call, ready to be enqueued.
typedef struct shoal_action {
  const shoal_bound_instruction_t *bound;
  shoal_event_t *record;         // for later instructions of this call. NULL: nobody waits
  shoal_event_t *const *posted;  // for later calls, one per step mod the cycle; NULL: nobody waits
  int32_t await_count, call_await_count;
  shoal_event_t *const *awaits;
  const shoal_run_await_t *call_awaits;
  int32_t tap_count;
  shoal_run_tap_t *taps;
  union {
    shoal_launch_t launch;
    shoal_copy_t copy;
    shoal_fill_t fill;
    shoal_run_transfer_t transfer;
    shoal_run_move_t *move;
    shoal_run_exchange_t *exchange;
    shoal_run_offload_t offload;  // COPY, where shoal_run_is_offload says so
  };
} shoal_action_t;

enum { SHOAL_RUN_SAMPLES = 64 };
// The last samples of an instruction's, or a run's, time. Written on the queue's thread.
typedef struct shoal_run_timer {
  int64_t begin, count;
  int64_t samples[SHOAL_RUN_SAMPLES];  // nanoseconds
} shoal_run_timer_t;

typedef struct shoal_run_call {
  int32_t segment, micro;
  int64_t action_count;
  shoal_action_t *actions;
} shoal_run_call_t;

typedef struct shoal_run_order {
  const char *graph;
  int64_t call_count;
  shoal_run_call_t *calls;   // period * call_count, as those of shoal_bound_order_t
  int64_t cycle;             // steps that waits reach back, at least 1
  shoal_event_t ****posted;  // [call][instruction][step mod cycle]; NULL where nobody waits
  SHOAL_VEC(shoal_run_input_t *) inputs;
  SHOAL_VEC(shoal_run_output_t *) outputs;
  int64_t run_count;
} shoal_run_order_t;

typedef struct shoal_run_group {
  int32_t lane;
  int32_t count;
  const int32_t *ranks;
  shoal_group_t *group;
} shoal_run_group_t;

// What ranks add up when they meet or agree (meet.c).
enum { SHOAL_RUN_WORDS = 7 };

// The agreement that goes on beside the runs.
typedef struct shoal_run_agreement {
  shoal_request_t request;
  bool pending;
  uint64_t words[SHOAL_RUN_WORDS];
  int64_t interval;     // runs between agreements
  int64_t since;        // runs since the last one was started
  int64_t since_ns;     // when that was
  int64_t first, last;  // runs of the graph that the pending one is about
  bool save_failed;     // the last one found that a save beside the runs has, on some rank
} shoal_run_agreement_t;

// What meter.c keeps: of a queue's exchange under way, and of all so far.
typedef struct shoal_run_meter_queue {
  struct shoal_run_meter *meter;
  int64_t begin, idle;  // when it began; how long compute had waited by then
} shoal_run_meter_queue_t;
typedef struct shoal_run_meter {
  bool used;          // there is anything to measure
  int32_t compute;    // the queue that may hide communication; -1: nothing is hidden
  atomic_llong word;  // how long it has waited; see meter.c
  atomic_llong communication, exposed;  // nanoseconds
  shoal_run_meter_queue_t queues[SHOAL_MAX_QUEUES];
} shoal_run_meter_t;

// Runs in flight: where they end.
typedef struct shoal_run_flight {
  shoal_event_t *ends[SHOAL_MAX_QUEUES];
  int64_t stamps[SHOAL_MAX_QUEUES];  // timed: when the queues came there
  int64_t begin;                     // timed: when the run was enqueued
  shoal_run_timer_t *timer;          // timed: of the run; NULL: this one is not counted
} shoal_run_flight_t;

struct shoal_runner {
  shoal_allocator_t allocator;
  shoal_arena_t arena;  // everything on the host
  shoal_runner_options_t options;
  const shoal_program_t *program;
  shoal_world_t *world;
  shoal_device_t *device;
  int32_t rank;
  shoal_bound_t bound;
  shoal_address_t memory;                   // the arena on the device
  void *host;                               // the arena on the host; NULL: it is empty
  shoal_scratch_t file;                     // the arena in a file
  void *file_bounces[SHOAL_MAX_QUEUES];     // host memory of copies from and to it
  int64_t file_bounce;                      // bytes of one of them
  _Atomic int64_t bounced;                  // that passed them
  int64_t file_copies, direct_copies;       // from and to it; those that go past the page cache
  int64_t touched[SHOAL_MEMORY_COUNT];      // highest byte that was used, but of the device's
  shoal_queue_t *queues[SHOAL_MAX_QUEUES];  // as the class's; NULL where nothing lies on it
  shoal_queue_t *aside;     // one of them: for copies that are not part of a program, after a join
  shoal_event_t ***events;  // [segment][instruction], NULL where nobody waits
  int64_t order_count;
  shoal_run_order_t *orders;
  shoal_run_input_t *inputs;  // one per port of the program
  shoal_run_output_t *outputs;
  SHOAL_VEC(shoal_run_group_t) groups;
  shoal_group_t *everyone;                  // for meet.c; NULL in a world of one
  shoal_group_t *save_group;                // for saves beside the runs; NULL: there was none yet
  struct shoal_saving *saving;              // beside the runs; NULL: none is under way
  int64_t saving_bytes;                     // that one takes
  shoal_run_move_t *moves;                  // all, the latest first
  shoal_run_exchange_t *exchanges;          // all, the latest first
  shoal_lane_t *lanes[SHOAL_MAX_LANES];     // those that the program's channels name
  char *bounces[SHOAL_MAX_QUEUES];          // host memory of reshards, where the device is blind
  shoal_address_t posts[SHOAL_MAX_QUEUES];  // device memory from which lazy ones are sent there
  int64_t message_bytes;                    // of both
  shoal_run_timer_t **timers;               // [segment][instruction]; NULL: nothing is timed
  shoal_run_timer_t *run_timers;            // one per order
  int64_t last_end;                         // timed: of the run before
  shoal_run_meter_t meter;
  shoal_mutex_t tap_lock;            // the tap is called by one queue at a time
  char *tap_data[SHOAL_MAX_QUEUES];  // the largest part, when there is a tap
  // What goes on now:
  shoal_run_order_t *steady;  // ran last, and no collective call since; NULL: queues are joined
  int64_t step;               // how often, since the queues were joined
  int64_t run_count;
  shoal_run_flight_t flights[SHOAL_RUN_AHEAD];
  shoal_run_agreement_t agreement;
  bool wants_stop, stop;  // asked for on this rank; agreed
  shoal_runner_counters_t counters;
  atomic_llong exchanged;  // bytes that exchanges have sent to other ranks
  // What broke it (broken.c):
  shoal_mutex_t error_lock;  // of `error`
  shoal_status_t error;      // this rank's first one
  atomic_bool failed;        // set behind it
  shoal_status_t broken;     // what every call returns; only the host's thread looks
};

// ---- queues.c -------------------------------------------------------------------------

SHOAL_MUST_USE shoal_status_t shoal_run_queues_init(shoal_runner_t *runner);
// Once the orders are built: room for the runs in flight.
SHOAL_MUST_USE shoal_status_t shoal_run_queues_reserve(shoal_runner_t *runner);
// For waits inside segments; for waits into earlier calls of an order.
SHOAL_MUST_USE shoal_status_t shoal_run_events_init(shoal_runner_t *runner);
SHOAL_MUST_USE shoal_status_t shoal_run_posted_init(shoal_runner_t *runner,
                                                    const shoal_order_t *from,
                                                    shoal_run_order_t *to);
// What instruction `index` of a call of the order waits for, and records.
SHOAL_MUST_USE shoal_status_t shoal_run_awaits_init(shoal_runner_t *runner,
                                                    const shoal_order_t *from,
                                                    const shoal_run_order_t *to, int64_t call,
                                                    int64_t index, shoal_action_t *action);
void shoal_run_events_deinit(shoal_runner_t *runner);

// ---- ports.c --------------------------------------------------------------------------

// Walks the bound orders: who feeds and fetches what on this rank, and the host memory for it.
SHOAL_MUST_USE shoal_status_t shoal_run_ports_init(shoal_runner_t *runner);
// FEED or FETCH in one call.
SHOAL_MUST_USE shoal_status_t shoal_run_transfer_init(shoal_runner_t *runner, const char *graph,
                                                      int32_t micro,
                                                      const shoal_bound_instruction_t *bound,
                                                      shoal_run_transfer_t *out_transfer);
// Once an order is built: the events that its transfers record.
SHOAL_MUST_USE shoal_status_t shoal_run_transfers_finish(shoal_runner_t *runner,
                                                         shoal_run_order_t *order);
void shoal_run_ports_deinit(shoal_runner_t *runner);
// Enqueues the upload of a FEED, the download of a FETCH.
SHOAL_MUST_USE shoal_status_t shoal_run_feed(shoal_queue_t *queue, int32_t index,
                                             const shoal_run_transfer_t *feed);
SHOAL_MUST_USE shoal_status_t shoal_run_fetch(shoal_queue_t *queue, int32_t index,
                                              const shoal_run_transfer_t *fetch);
// Waits for what was enqueued with a slot.
SHOAL_MUST_USE shoal_status_t shoal_run_store_wait(const shoal_run_store_t *store, int32_t slot);

// ---- feed.c ---------------------------------------------------------------------------

// Checks that everything was fed that this rank needs to run the graph.
SHOAL_MUST_USE shoal_status_t shoal_run_feed_check(const shoal_run_order_t *order);

// ---- meet.c ---------------------------------------------------------------------------

#define SHOAL_RUN_WHOLE 1  // key of a whole input

// A collective call, as this rank makes it.
typedef struct shoal_run_meeting {
  const char *call, *name;         // "shoal_run", "train"
  const shoal_run_order_t *order;  // whose inputs are compared; NULL: none
  bool has_value;
  uint64_t value;  // hash of what every rank gives
  bool steady;     // an agreement: runs have begun, and an error sticks
} shoal_run_meeting_t;

// Begins a call: joins the queues, agrees on `status` as shoal_runner_agree does, at the same cost,
// and compares the calls.
SHOAL_MUST_USE shoal_status_t shoal_run_meet(shoal_runner_t *runner,
                                             const shoal_run_meeting_t *mine,
                                             shoal_status_t status);
// The key of a part with one more micro-batch (-1: outside the loop) of these boxes.
uint64_t shoal_run_key(uint64_t key, int32_t micro, const shoal_boxes_t *boxes);
// Of the hash of the member at `index` of `count` that share a key.
uint64_t shoal_run_weight(uint64_t key, int64_t index, int64_t count);

// The agreement beside the runs. `reset` begins with the runs after this one, the first after a
// meeting. In a steady run `before` collects the last one if the next is due; `after`, when the run
// is enqueued, starts that. An error of `before` sticks.
void shoal_run_agree_reset(shoal_runner_t *runner);
SHOAL_MUST_USE shoal_status_t shoal_run_agree_before(shoal_runner_t *runner);
SHOAL_MUST_USE shoal_status_t shoal_run_agree_after(shoal_runner_t *runner);
// Waits for the one under way, if there is one. Errors stick.
void shoal_run_agree_collect(shoal_runner_t *runner);

// ---- saving.c -------------------------------------------------------------------------

// Has the save beside the runs, if there is one, failed on any rank? May be known to some ranks
// earlier than to others.
bool shoal_run_save_failed(const shoal_runner_t *runner);
// Waits for it and returns its error, agreed. *Collective.*
SHOAL_MUST_USE shoal_status_t shoal_run_save_wait(shoal_runner_t *runner);
// Works out runner->saving_bytes.
SHOAL_MUST_USE shoal_status_t shoal_run_saving_measure(shoal_runner_t *runner);

// ---- tell.c ---------------------------------------------------------------------------

// All ranks tell each other what they do and were fed: the same error on all, which names who
// differs. Works out new weights. `out_hangs`: with an error, whether some ranks have runs enqueued
// that others do not.
SHOAL_MUST_USE shoal_status_t shoal_run_tell(shoal_runner_t *runner,
                                             const shoal_run_meeting_t *mine, bool *out_hangs);

// ---- broken.c -------------------------------------------------------------------------

// Takes an error; NULL is allowed. From then on every call returns an error, on all ranks: the
// world is broken, so that no rank waits for data that will not come. (A world of one has nobody to
// tell and stays good for others.) From any thread.
void shoal_run_break(shoal_runner_t *runner, shoal_status_t status);
// The same for an error that all ranks have: each of them calls it, and returns the error as it
// is. Where work may hang that was enqueued (`hangs`, alike) the world is broken.
void shoal_run_break_alike(shoal_runner_t *runner, shoal_status_t status, bool hangs);
// What every rank returns since something broke; NULL: nothing did.
SHOAL_MUST_USE shoal_status_t shoal_run_broken(shoal_runner_t *runner);
// A shoal_queue_error_fn_t; self is the runner.
void shoal_run_queue_failed(void *self, shoal_status_t status);
// Ends a phase with communication: as shoal_runner_agree, but an error breaks the world first.
SHOAL_MUST_USE shoal_status_t shoal_run_finish(shoal_runner_t *runner, shoal_status_t status);

// ---- offload.c ------------------------------------------------------------------------

// The memory that the program plans, of all kinds. IO where the disk has no room for the file.
SHOAL_MUST_USE shoal_status_t shoal_run_arenas_init(shoal_runner_t *runner);
void shoal_run_arenas_deinit(shoal_runner_t *runner);
// The first bytes of a part in any memory, to and from the host, now: the queues are joined, or it
// is called on the one that has written the part, which is not in the device's memory then.
SHOAL_MUST_USE shoal_status_t shoal_run_part_read(shoal_runner_t *runner,
                                                  const shoal_bound_buffer_t *part, int64_t bytes,
                                                  void *data);
SHOAL_MUST_USE shoal_status_t shoal_run_part_write(shoal_runner_t *runner,
                                                   const shoal_bound_buffer_t *part, int64_t bytes,
                                                   const void *data);
// Is it a copy that touches memory beside the device's?
bool shoal_run_is_offload(const shoal_bound_instruction_t *bound);
SHOAL_MUST_USE shoal_status_t shoal_run_offload_init(shoal_runner_t *runner,
                                                     const shoal_bound_instruction_t *bound,
                                                     shoal_run_offload_t *out_offload);
// Enqueues it; at most two commands for each passage.
SHOAL_MUST_USE shoal_status_t shoal_run_offload(shoal_queue_t *queue,
                                                const shoal_run_offload_t *offload);

// ---- move.c ---------------------------------------------------------------------------

// The tag of a channel's messages in a micro-batch (-1: outside the loop).
int32_t shoal_run_tag(const shoal_program_t *program, int32_t channel, int32_t micro);
// Prepares a reshard without moving anything. What it enqueues is its carrier's.
SHOAL_MUST_USE shoal_status_t shoal_run_move_init(shoal_runner_t *runner, const char *segment,
                                                  int32_t micro,
                                                  const shoal_bound_instruction_t *bound,
                                                  shoal_run_move_t **out_move);
// Once all are made: their lanes and groups, then their memory. Late, when no rank can fail any
// more for reasons of its own: all must make the same groups.
SHOAL_MUST_USE shoal_status_t shoal_run_moves_bind(shoal_runner_t *runner);
// When the queues are idle: waits for the lazy ones. Returns the first error; none is under way
// after it.
SHOAL_MUST_USE shoal_status_t shoal_run_moves_drain(shoal_runner_t *runner);
void shoal_run_moves_free(shoal_runner_t *runner);  // when the queues are idle

// ---- exchange.c -----------------------------------------------------------------------

SHOAL_MUST_USE shoal_status_t shoal_run_exchange_init(shoal_runner_t *runner, const char *segment,
                                                      int32_t micro,
                                                      const shoal_bound_instruction_t *bound,
                                                      shoal_run_exchange_t **out_exchange);
// Once all are prepared: host memory for each queue's.
SHOAL_MUST_USE shoal_status_t shoal_run_exchanges_bind(shoal_runner_t *runner);
SHOAL_MUST_USE shoal_status_t shoal_run_exchange(shoal_queue_t *queue,
                                                 shoal_run_exchange_t *exchange);

// ---- bounded.c ------------------------------------------------------------------------

// Tells the launch of the instruction which of its operands are bounded; nothing where none is.
SHOAL_MUST_USE shoal_status_t shoal_run_bounded(shoal_runner_t *runner,
                                                const shoal_bound_instruction_t *bound,
                                                shoal_launch_t *launch);

// ---- tap.c ----------------------------------------------------------------------------

// Memory for the values; nothing where there is no tap.
SHOAL_MUST_USE shoal_status_t shoal_run_taps_init(shoal_runner_t *runner);
// What the tap sees of an instruction in one call.
SHOAL_MUST_USE shoal_status_t shoal_run_tap_init(shoal_runner_t *runner, const char *graph,
                                                 int32_t micro, shoal_action_t *action);
// Enqueues it, behind the instruction.
SHOAL_MUST_USE shoal_status_t shoal_run_tap(shoal_queue_t *queue, const shoal_action_t *action);

// ---- timer.c --------------------------------------------------------------------------

// Once the orders are built. Nothing where nothing is timed.
SHOAL_MUST_USE shoal_status_t shoal_run_timers_init(shoal_runner_t *runner);
// On a queue; self is a shoal_run_timer_t.
SHOAL_MUST_USE shoal_status_t shoal_run_timer_begin(void *self);
SHOAL_MUST_USE shoal_status_t shoal_run_timer_end(void *self);
// On a queue, at the end of a run; self is an int64_t.
SHOAL_MUST_USE shoal_status_t shoal_run_timer_stamp(void *self);
// A run has ended: its time is noted.
void shoal_run_timer_land(shoal_runner_t *runner, shoal_run_flight_t *flight);

// ---- meter.c --------------------------------------------------------------------------

// Once the orders are built.
void shoal_run_meter_init(shoal_runner_t *runner);
// Enqueued around what a queue waits for, and behind a run: nothing but on the compute queue.
SHOAL_MUST_USE shoal_status_t shoal_run_meter_pause(shoal_runner_t *runner, int32_t queue);
SHOAL_MUST_USE shoal_status_t shoal_run_meter_go_on(shoal_runner_t *runner, int32_t queue);
// Enqueued around an action's work: nothing but where it communicates.
SHOAL_MUST_USE shoal_status_t shoal_run_meter_begin(shoal_runner_t *runner,
                                                    const shoal_action_t *action);
SHOAL_MUST_USE shoal_status_t shoal_run_meter_end(shoal_runner_t *runner,
                                                  const shoal_action_t *action);

// ---- executor.c -----------------------------------------------------------------------

// Waits for everything that was enqueued. What went wrong sticks. The next run is the first again.
void shoal_run_join(shoal_runner_t *runner);
// NOT_FOUND suggests the nearest graph.
SHOAL_MUST_USE shoal_status_t shoal_run_find_order(const shoal_runner_t *runner, const char *graph,
                                                   shoal_run_order_t **out_order);

// ---- names and sizes ------------------------------------------------------------------

// NOT_FOUND: "no input 'xs'", with the nearest of the names as its hint.
SHOAL_MUST_USE shoal_status_t shoal_run_unknown(const char *what, const char *name,
                                                const char *const *names, int64_t count);
// INVALID_ARGUMENT when the sizes differ: "'x' is f32[64, 784], 200704 bytes; 4 bytes were given".
SHOAL_MUST_USE shoal_status_t shoal_run_check_size(const char *what, const char *name,
                                                   const shoal_type_t *type, int64_t expected,
                                                   size_t given);
// Returns the first error of two and frees the other.
shoal_status_t shoal_run_first(shoal_status_t first, shoal_status_t second);

#endif  // SHOAL_RUN_IMPL_H_
