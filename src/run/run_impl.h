// The runner's internal header: what its files share.
//
//   load.c       create and free: everything a run enqueues is built here
//   executor.c   run
//   meet.c       begins collective calls: checks that all ranks make the same call, on equal data
//   bounded.c    compute on as many rows as a buffer says
//   feed.c       inputs and outputs
//   timer.c      times of instructions, when they are asked for
//   move.c       reshards: what load builds for them, and runs on a queue
//   states.c     get, set, gather
//   checkpoint.c, safetensors.c   save and load
#ifndef SHOAL_RUN_IMPL_H_
#define SHOAL_RUN_IMPL_H_

#include "base/arena.h"
#include "primitive/carrier.h"
#include "program/bind.h"
#include "run/run.h"

// An input: the fed data, whole or this rank's part over all micro-batches.
typedef struct shoal_run_input {
  const shoal_program_port_t *port;
  int64_t whole_bytes;
  int64_t part_bytes;  // over all micro-batches
  int64_t *offsets;    // of micro-batch m's part at [m + 1]; [0] is outside the loop
  int32_t buffer;      // that this rank feeds; -1: this rank takes no part
  bool several;        // fed into several buffers: only the whole can be fed
  char *host;          // max(whole_bytes, part_bytes) bytes; NULL when this rank takes no part
  bool fed, is_part;
  // For the comparison between ranks (meet.c). A key stands for which elements of the whole were
  // fed, in which order: ranks with the same key must have been fed the same data.
  uint64_t part_key;   // of this rank's part
  uint64_t key, hash;  // of what was fed last; key 0: nothing to compare
  uint64_t known_key;  // that `weight` was worked out for
  uint64_t weight;     // of the hash; those of all ranks with this key add up to 0
} shoal_run_input_t;

typedef struct shoal_run_output {
  const shoal_program_port_t *port;
  int64_t whole_bytes;
  int64_t covered;  // elements this rank fetches
  char *host;       // whole_bytes; NULL when this rank fetches nothing
  int64_t run;      // number of the graph's last run; 0: none
  bool lost;        // that run failed: what is in `host` is no answer
} shoal_run_output_t;

// FEED and FETCH in one call.
typedef struct shoal_run_transfer {
  shoal_run_input_t *input;
  shoal_run_output_t *output;
  const shoal_bound_buffer_t *part;
  shoal_address_t address;
  int64_t bytes;
  int64_t part_offset;  // FEED: in the input's host data when a part was fed
  char *staging;        // of the part; NULL when the part is the whole
} shoal_run_transfer_t;

// RESHARD in one call. One in which this rank only sends is *lazy*: it is posted from a send buffer
// of its own, because the receivers may come to it much later (a pipeline's next stage). Every call
// of an order has its own, so that within a run no send waits for another.
typedef struct shoal_run_move {
  shoal_carrier_t carrier;
  shoal_address_t input, output, workspace;
  int32_t queue, lane;
  bool lazy;
  struct shoal_run_move *next;  // all of the runner
} shoal_run_move_t;

// One instruction of one call, ready to be enqueued.
typedef struct shoal_action {
  const shoal_bound_instruction_t *bound;
  shoal_event_t *record;  // NULL: nobody waits
  int32_t await_count;
  shoal_event_t *const *awaits;
  union {
    shoal_launch_t launch;
    shoal_copy_t copy;
    shoal_fill_t fill;
    shoal_run_transfer_t transfer;
    shoal_run_move_t *move;
  };
} shoal_action_t;

enum { SHOAL_RUN_SAMPLES = 64 };
// The last samples of an instruction's, or a run's, time. Written on the queue's thread.
typedef struct shoal_run_timer {
  int64_t begin, count;
  int64_t samples[SHOAL_RUN_SAMPLES];  // nanoseconds
  bool warm;                           // of a run: there was one before
} shoal_run_timer_t;

typedef struct shoal_run_call {
  int32_t segment, micro;
  int64_t action_count;
  shoal_action_t *actions;
} shoal_run_call_t;

typedef struct shoal_run_order {
  const char *graph;
  int64_t call_count;
  shoal_run_call_t *calls;
} shoal_run_order_t;

typedef struct shoal_run_group {
  int32_t lane;
  int32_t count;
  const int32_t *ranks;
  shoal_group_t *group;
} shoal_run_group_t;

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
  shoal_queue_t *queues[SHOAL_MAX_QUEUES];  // as the class's
  shoal_queue_t *aside;                     // for copies that are not part of a program
  shoal_event_t ***events;                  // [segment][instruction], NULL where nobody waits
  int64_t order_count;
  shoal_run_order_t *orders;
  shoal_run_input_t *inputs;  // one per port of the program
  shoal_run_output_t *outputs;
  SHOAL_VEC(shoal_run_group_t) groups;
  shoal_group_t *everyone;                  // for meet.c; NULL in a world of one
  shoal_run_move_t *moves;                  // all, the latest first
  shoal_lane_t *lanes[SHOAL_MAX_LANES];     // those that the program's channels name
  char *bounces[SHOAL_MAX_QUEUES];          // host memory of reshards, where the device is blind
  shoal_address_t posts[SHOAL_MAX_QUEUES];  // device memory from which lazy ones are sent there
  shoal_run_timer_t **timers;               // [segment][instruction]; NULL: nothing is timed
  shoal_run_timer_t *run_timers;            // one per order
  char *tap_data;                           // the largest part, when there is a tap
  int64_t run_count;
  shoal_status_t broken;  // a world of one: the error that broke it
};

// ---- feed.c ---------------------------------------------------------------------------

// Walks the bound orders: who feeds and fetches what on this rank, and the host memory for it.
SHOAL_MUST_USE shoal_status_t shoal_run_ports_init(shoal_runner_t *runner);
// FEED or FETCH in one call; `staging` has room for the buffer's largest part.
SHOAL_MUST_USE shoal_status_t shoal_run_transfer_init(shoal_runner_t *runner, const char *graph,
                                                      int32_t micro,
                                                      const shoal_bound_instruction_t *bound,
                                                      char *staging,
                                                      shoal_run_transfer_t *out_transfer);
// Checks that everything was fed that this rank needs to run the graph.
SHOAL_MUST_USE shoal_status_t shoal_run_feed_check(const shoal_runner_t *runner, const char *graph);
// Enqueues the upload of a FEED (its staging is packed at once), the download of a FETCH.
SHOAL_MUST_USE shoal_status_t shoal_run_feed(shoal_queue_t *queue,
                                             const shoal_run_transfer_t *feed);
SHOAL_MUST_USE shoal_status_t shoal_run_fetch(shoal_queue_t *queue,
                                              const shoal_run_transfer_t *fetch);
// Once the queue is done: the fetched part goes into the whole.
SHOAL_MUST_USE shoal_status_t shoal_run_fetched(const shoal_run_transfer_t *fetch);

// ---- meet.c ---------------------------------------------------------------------------

#define SHOAL_RUN_WHOLE 1  // key of a whole input

// A collective call, as this rank makes it.
typedef struct shoal_run_meeting {
  const char *call, *name;  // "shoal_run", "train"
  const char *graph;        // whose inputs are compared; NULL: none
  bool has_value;
  uint64_t value;  // hash of what every rank gives
} shoal_run_meeting_t;

// Begins a call: agrees on `status` as shoal_runner_agree does, at the same cost, and compares the
// calls.
SHOAL_MUST_USE shoal_status_t shoal_run_meet(shoal_runner_t *runner,
                                             const shoal_run_meeting_t *mine,
                                             shoal_status_t status);
// The key of a part with one more micro-batch (-1: outside the loop) of these boxes.
uint64_t shoal_run_key(uint64_t key, int32_t micro, const shoal_boxes_t *boxes);

// ---- move.c ---------------------------------------------------------------------------

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

// ---- bounded.c ------------------------------------------------------------------------

// Tells the launch of the instruction which of its operands are bounded; nothing where none is.
SHOAL_MUST_USE shoal_status_t shoal_run_bounded(shoal_runner_t *runner,
                                                const shoal_bound_instruction_t *bound,
                                                shoal_launch_t *launch);

// ---- timer.c --------------------------------------------------------------------------

// Once the orders are built. Nothing where nothing is timed.
SHOAL_MUST_USE shoal_status_t shoal_run_timers_init(shoal_runner_t *runner);
// On a queue; self is a shoal_run_timer_t.
SHOAL_MUST_USE shoal_status_t shoal_run_timer_begin(void *self);
SHOAL_MUST_USE shoal_status_t shoal_run_timer_end(void *self);
// After a run: the first one's samples are dropped.
void shoal_run_timers_forget(shoal_runner_t *runner, const shoal_run_order_t *order);

// ---- executor.c -----------------------------------------------------------------------

// NOT_FOUND suggests the nearest graph.
SHOAL_MUST_USE shoal_status_t shoal_run_find_order(const shoal_runner_t *runner, const char *graph,
                                                   const shoal_run_order_t **out_order);
// Ends a phase with communication: as shoal_runner_agree, but an error breaks the world first.
SHOAL_MUST_USE shoal_status_t shoal_run_finish(shoal_runner_t *runner, shoal_status_t status);

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
