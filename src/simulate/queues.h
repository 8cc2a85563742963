// The queues of actors, and how far each has come; see queues.c.
#ifndef SHOAL_SIMULATE_QUEUES_H_
#define SHOAL_SIMULATE_QUEUES_H_

#include "simulate/simulate_impl.h"

// Runs that a session has under way at most: the next one waits until the one before the last is
// through, on each rank.
#define SHOAL_SIM_IN_FLIGHT 2

// A segment's instructions, by queue.
typedef struct shoal_sim_list {
  int32_t *items;
  int64_t count;
} shoal_sim_list_t;

// Where an instruction stands in these lists.
typedef struct shoal_sim_spot {
  int32_t queue, position;
} shoal_sim_spot_t;

typedef struct shoal_sim_lists {
  shoal_sim_list_t queues[SHOAL_MAX_QUEUES];
  shoal_sim_spot_t *spots;  // of each instruction; NULL: not listed yet
} shoal_sim_lists_t;

// Instructions of a queue are done in order, so that its position says which ones are.
typedef struct shoal_sim_queue {
  int64_t call;                    // counted over all steps; beyond the last: through
  const shoal_segment_t *segment;  // of that call, as the rest here
  const shoal_segment_call_t *order_call;
  const shoal_call_wait_t *waits;
  int32_t micro, variant;
  const double *seconds;
  const int32_t *items;  // its instructions on this queue
  int64_t count, at;
  int32_t local_waits, call_waits;  // of those of the instruction at `at`: how many are over
  bool running;
  double started;
  double alone;  // seconds of work, if they do not depend on other ranks
  double idle;   // seconds that nothing was computed when it began to work
} shoal_sim_queue_t;

typedef struct shoal_sim_player {
  int32_t actor;
  const shoal_order_t *order;  // NULL: nothing to do
  int32_t queue_count;
  int64_t call_count;               // of all steps
  shoal_sim_lists_t *lists;         // [segment]
  const shoal_call_wait_t **waits;  // [call of the order], by instruction
  shoal_sim_queue_t queues[SHOAL_MAX_QUEUES];
  int64_t *uses;      // of each channel so far
  int32_t computing;  // instructions under way on queues that compute
  double idle;        // seconds without one, up to the time when the last began
  double since;       // when the last ended
} shoal_sim_player_t;

// Makes a player of each actor, before its first instruction.
SHOAL_MUST_USE shoal_status_t shoal_sim_players_create(shoal_sim_t *sim, int64_t steps,
                                                       shoal_sim_player_t **out_players);
// The instruction that a queue is at; -1: it is through.
static inline int32_t shoal_sim_queue_head(const shoal_sim_queue_t *queue) {
  return queue->at < queue->count ? queue->items[queue->at] : -1;
}
static inline int64_t shoal_sim_queue_step(const shoal_sim_player_t *player,
                                           const shoal_sim_queue_t *queue) {
  return queue->call / player->order->call_count;
}
// Says whether everything is over that the instruction at the queue's head waits for.
bool shoal_sim_queue_ready(shoal_sim_player_t *player, shoal_sim_queue_t *queue);
// Goes on to the next instruction: that at the head is done.
SHOAL_MUST_USE shoal_status_t shoal_sim_queue_next(shoal_sim_t *sim, shoal_sim_player_t *player,
                                                   shoal_sim_queue_t *queue);
// Seconds until `now` in which no queue that computes had work under way.
double shoal_sim_player_idle(const shoal_sim_player_t *player, double now);

#endif  // SHOAL_SIMULATE_QUEUES_H_
