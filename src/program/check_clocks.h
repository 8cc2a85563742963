// Who has finished when: vector clocks over the queues of a class, while an order is walked again
// and again. Calls are not joined, so a clock runs on from call to call and from step to step.
#ifndef SHOAL_PROGRAM_CHECK_CLOCKS_H_
#define SHOAL_PROGRAM_CHECK_CLOCKS_H_

#include "program/check_impl.h"

// An instruction that runs: the n-th on its queue since the queues were last joined, from 0.
// Packed, because there is one for each span of memory and queue.
typedef int64_t instance_t;  // -1: none

static inline instance_t shoal_instance(int32_t queue, int64_t number) {
  return number * SHOAL_MAX_QUEUES + queue;
}
static inline int32_t shoal_instance_queue(instance_t instance) {
  return (int32_t)(instance % SHOAL_MAX_QUEUES);
}

// For each queue the last that is known to be done.
typedef struct queue_clock {
  instance_t done[SHOAL_MAX_QUEUES];
} queue_clock_t;

// An instruction of a call that some call waits for.
typedef struct clock_target {
  int64_t call;
  int32_t instruction;
} clock_target_t;

// A wait of a call: for which target, and of how many steps before.
typedef struct clock_wait {
  int64_t target, steps;
} clock_wait_t;

typedef struct clocks {
  const shoal_class_t *class;
  const shoal_order_t *order;
  int64_t step, call;                    // the present ones; calls of the order, from 0
  instance_t now;                        // the present instruction
  const queue_clock_t *clock;            // its own
  queue_clock_t *local;                  // by instruction of the present call
  queue_clock_t last[SHOAL_MAX_QUEUES];  // of the last on each queue
  int64_t next[SHOAL_MAX_QUEUES];        // number of the next on each queue
  int64_t target_count;
  clock_target_t *targets;  // sorted
  int64_t *first_target;    // by call, and one more
  clock_wait_t *waits;      // of all calls, in order
  int64_t *first_wait;      // by call
  queue_clock_t *kept;      // [step][target]
} clocks_t;

// For walking `order` for `steps` steps. Lies in the arena.
SHOAL_MUST_USE shoal_status_t shoal_clocks_make(const shoal_class_t *rank_class,
                                                const shoal_order_t *order, int64_t steps,
                                                shoal_arena_t *arena, clocks_t *out_clocks);
// Enters a call, enters its instructions one by one, and leaves it.
void shoal_clocks_enter(clocks_t *clocks, int64_t step, int64_t call);
void shoal_clocks_run(clocks_t *clocks, int64_t instruction);
void shoal_clocks_leave(clocks_t *clocks);

// Has that one finished before the present one starts?
static inline bool shoal_clocks_after(const clocks_t *clocks, instance_t other) {
  return other < 0 || clocks->clock->done[shoal_instance_queue(other)] >= other;
}
// Where an earlier instance stands: its step, call and instruction.
typedef struct clock_place {
  int64_t step, call, instruction;
} clock_place_t;
clock_place_t shoal_clocks_find(const clocks_t *clocks, instance_t instance);

#endif  // SHOAL_PROGRAM_CHECK_CLOCKS_H_
