// Transfers under way and the links they share; see traffic.c.
#ifndef SHOAL_SIMULATE_TRAFFIC_H_
#define SHOAL_SIMULATE_TRAFFIC_H_

#include "simulate/simulate_impl.h"

typedef struct shoal_sim_use {
  int32_t resource;
  double demand;  // seconds that it is busy, of each that the transfer lasts alone
} shoal_sim_use_t;

// The cost of one use of a channel, for micro-batches of one size.
typedef struct shoal_sim_load {
  int32_t senders;  // actors
  bool unseen;      // the ranks looked at only receive: whoever receives counts as a sender
  double seconds;   // of data, at full speed
  double latency;
  int64_t use_count;
  shoal_sim_use_t *uses;
} shoal_sim_load_t;

typedef struct shoal_sim_party {
  int32_t actor, queue;
} shoal_sim_party_t;

// One use of a channel by the actors that exchange data in it.
typedef struct shoal_sim_transfer {
  const shoal_sim_load_t *load;  // NULL: nobody has arrived
  int32_t awaited;               // senders that have not arrived
  bool delivered;
  double start;                          // when the last sender arrived
  double left;                           // seconds of data, at full speed
  int64_t number;                        // earlier ones first
  double rate;                           // 0: held
  SHOAL_VEC(shoal_sim_party_t) blocked;  // whose reshards wait for it
  SHOAL_VEC(int32_t) lazy;               // actors that only send
} shoal_sim_transfer_t;

typedef struct shoal_sim_traffic {
  shoal_sim_t *sim;
  int64_t started;                   // how many
  const int32_t **meetings;          // [channel][actor]: the number of the meeting it takes part in
  int32_t *meeting_counts;           // [channel]
  shoal_sim_transfer_t **transfers;  // [channel][use * meetings + meeting]
  shoal_sim_load_t **loads;          // [channel][variant * meetings + meeting]
  double *crowds;                    // demand on each resource, while rates are worked out; else 0
  SHOAL_VEC(shoal_sim_transfer_t *) moving;
} shoal_sim_traffic_t;

// Makes room for one transfer for each use of a channel in `steps` runs of the orders. Everything
// is in the simulation's arena.
SHOAL_MUST_USE shoal_status_t shoal_sim_traffic_init(shoal_sim_t *sim, int64_t steps,
                                                     shoal_sim_traffic_t *out_traffic);
// Finds the transfer that belongs to an actor's use number `use` (from 0) of a channel, of which
// `flows` are the costs.
SHOAL_MUST_USE shoal_status_t shoal_sim_traffic_find(shoal_sim_traffic_t *traffic, int32_t channel,
                                                     int32_t variant, int32_t actor, int64_t use,
                                                     const shoal_sim_flow_t *flows,
                                                     shoal_sim_transfer_t **out_transfer);
SHOAL_MUST_USE shoal_status_t shoal_sim_traffic_start(shoal_sim_traffic_t *traffic, double now,
                                                      shoal_sim_transfer_t *transfer);
// Seconds until the first transfer has sent its data if no other starts before; -1 if nothing
// moves. *out_index is for shoal_sim_traffic_take.
double shoal_sim_traffic_next(const shoal_sim_traffic_t *traffic, int64_t *out_index);
void shoal_sim_traffic_pass(shoal_sim_traffic_t *traffic, double seconds);
shoal_sim_transfer_t *shoal_sim_traffic_take(shoal_sim_traffic_t *traffic, int64_t index);

#endif  // SHOAL_SIMULATE_TRAFFIC_H_
