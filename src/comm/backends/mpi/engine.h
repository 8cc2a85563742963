// What the engine of `mpi`, its start and end, its waiting and its windows share. Callers hold the
// world's mutex, unless a comment says otherwise.
#ifndef SHOAL_COMM_BACKENDS_MPI_ENGINE_H_
#define SHOAL_COMM_BACKENDS_MPI_ENGINE_H_

#include "comm/backends/mpi/mpi.h"

#define SHOAL_MPI_STAGING (INT64_C(1) << 20)  // bytes of a put that are added at once

#define SHOAL_MPI_LINGER_NS INT64_C(1000000000)  // how long ending waits for what is on its way

// Makes progress with everything this rank has started; true when anything moved.
bool shoal_mpi_progress(shoal_mpi_world_t *world);
// Breaks the world and tells the other ranks; the first failure is kept.
void shoal_mpi_break(shoal_mpi_world_t *world, shoal_code_t code, const char *message);
// In a broken world: forgets the exchange, whose storage is about to be freed.
void shoal_mpi_abandon(shoal_mpi_world_t *world, shoal_mpi_stream_t *stream,
                       shoal_exchange_t *exchange);

// ---- news -----------------------------------------------------------------------------

void shoal_mpi_send_news(shoal_mpi_world_t *world, shoal_mpi_news_t *news, shoal_mpi_kind_t kind,
                         int32_t tag, const char *text);
bool shoal_mpi_news_are_out(shoal_mpi_world_t *world, shoal_mpi_news_t *news);
SHOAL_MUST_USE shoal_status_t shoal_mpi_expect_packet(shoal_mpi_world_t *world);  // the next one

// ---- packets and flights --------------------------------------------------------------

shoal_mpi_packet_t *shoal_mpi_take_packet(shoal_mpi_world_t *world);  // NULL: out of memory
void shoal_mpi_give_packet(shoal_mpi_world_t *world, shoal_mpi_packet_t *packet);
// A flight in the list, all zero; NULL: out of memory. Fill in peer, message and packet.header.
shoal_mpi_flight_t *shoal_mpi_take_flight(shoal_mpi_world_t *world);
// Sends its packet with `behind` bytes behind the header, and its message as payload or not.
void shoal_mpi_depart(shoal_mpi_world_t *world, shoal_mpi_flight_t *flight, int64_t behind,
                      bool has_payload);
// Receives the payload of its message under the tag in `payload`.
void shoal_mpi_expect_payload(shoal_mpi_world_t *world, shoal_mpi_flight_t *flight);
// Cancels a receive, so that the caller's memory may be freed; waits a moment if it must.
void shoal_mpi_recall(shoal_mpi_world_t *world, shoal_mpi_flight_t *flight);
// Waits a moment for messages in transit from or to a window's shard; false: some are left.
bool shoal_mpi_rest(shoal_mpi_world_t *world, const shoal_mpi_window_t *window);

// ---- messages: match.c ----------------------------------------------------------------

void shoal_mpi_take_message(shoal_mpi_world_t *world, int32_t rank, shoal_mpi_packet_t *packet);
// Delivers what has arrived from a peer on a stream to the exchanges that expect it.
void shoal_mpi_match(shoal_mpi_world_t *world, shoal_mpi_stream_t *stream, int32_t peer);
void shoal_mpi_finish_receive(shoal_mpi_stream_t *stream, int32_t peer);

// A question, which is answered, or an account, which is kept (survey.c).
void shoal_mpi_survey_take(shoal_mpi_world_t *world, const shoal_mpi_packet_t *packet);

// ---- waiting --------------------------------------------------------------------------

typedef struct shoal_mpi_waiting {
  void *self;
  bool (*is_done)(void *self);
  void (*describe)(void *self, char *buffer, size_t capacity);  // "rank 1 waits to ..."
  int32_t (*missing)(void *self);  // the rank that must not have left; -1: nobody
  int32_t (*late)(void *self);     // the rank that is waited for in the end; NULL: that one
  void (*abandon)(void *self);     // in a broken world: self's storage goes away
  const uint64_t *moved;           // what a timeout looks at
  bool is_brisk;                   // it is worth more of a core, for a while
} shoal_mpi_waiting_t;

// Makes progress until it is done or the world is broken. Called without the mutex.
SHOAL_MUST_USE shoal_status_t shoal_mpi_wait(shoal_mpi_world_t *world,
                                             const shoal_mpi_waiting_t *waiting);

// ---- windows: shard.c, the owner's side -----------------------------------------------

// Takes what a rank - also this one - asks of a window of this rank.
void shoal_mpi_shard_take(shoal_mpi_world_t *world, shoal_mpi_packet_t *packet);
// A chunk of a put is in its staging; the whole flight has arrived.
void shoal_mpi_shard_chunk(shoal_mpi_flight_t *flight);
void shoal_mpi_shard_landed(shoal_mpi_world_t *world, shoal_mpi_flight_t *flight);
// Ends this rank's access to its own shard.
void shoal_mpi_shard_release(shoal_mpi_world_t *world, shoal_mpi_window_t *window, bool is_put);
// Looks at calls that wait for versions: tells those that wait long which rank is behind, and
// breaks the world if that rank has left.
void shoal_mpi_shards_step(shoal_mpi_world_t *world);

// ---- windows: window.c, the caller's side ---------------------------------------------

void shoal_mpi_call_answer(shoal_mpi_world_t *world, const shoal_mpi_packet_t *packet);
shoal_mpi_call_t *shoal_mpi_find_call(shoal_mpi_world_t *world, uint64_t id);  // NULL: given up

#endif  // SHOAL_COMM_BACKENDS_MPI_ENGINE_H_
