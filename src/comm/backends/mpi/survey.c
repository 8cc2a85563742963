// What every rank does, over MPI: each is asked for its account (comm/recorder.h), which whoever
// moves that rank along gives - a thread that waits, else the progress thread. So a rank answers
// while its program computes or is stuck elsewhere, but not when its process is stopped or gone.
#include <string.h>

#include "base/time.h"
#include "comm/backends/mpi/engine.h"

#define PATIENCE_NS INT64_C(1000000000)  // for answers
#define PAUSE_NS 200000

_Static_assert(sizeof(shoal_account_t) <= SHOAL_MPI_INLINE, "an account fits into a packet");

// Without memory for a flight that rank stays unknown.
static bool send(shoal_mpi_world_t *world, int32_t peer, shoal_mpi_kind_t kind, uint64_t survey,
                 const shoal_account_t *account) {
  shoal_mpi_flight_t *flight = shoal_mpi_take_flight(world);
  if (!flight) return false;
  flight->peer = peer;
  flight->packet.header = (shoal_mpi_header_t){.kind = kind, .sequence = survey};
  if (account) memcpy(flight->packet.bytes, account, sizeof *account);
  shoal_mpi_depart(world, flight, account ? (int64_t)sizeof *account : 0, false);
  return true;
}

void shoal_mpi_survey_take(shoal_mpi_world_t *world, const shoal_mpi_packet_t *packet) {
  if (packet->header.kind == SHOAL_MPI_ASK) {
    shoal_account_t own;
    shoal_account_take(world->base.recorder, &own);
    send(world, packet->peer, SHOAL_MPI_ACCOUNT, packet->header.sequence, &own);
  } else if (world->accounts && packet->header.sequence == world->last_survey) {
    memcpy(&world->accounts[packet->peer], packet->bytes, sizeof *world->accounts);
    --world->accounts_due;
  }
}

void shoal_mpi_survey(shoal_world_t *base, shoal_account_t *out_accounts) {
  shoal_mpi_world_t *world = (shoal_mpi_world_t *)base;
  shoal_account_take(base->recorder, &out_accounts[base->rank]);
  shoal_mutex_lock(&world->mutex);
  // In a broken world nothing moves any more; one thread asks at a time.
  if (shoal_failure_is_set(&world->failure) || world->accounts) {
    shoal_mutex_unlock(&world->mutex);
    return;
  }
  world->accounts = out_accounts;
  world->accounts_due = 0;
  ++world->last_survey;
  for (int32_t i = 0; i < base->size; ++i) {
    if (i == base->rank || world->peers[i].left) continue;
    if (send(world, i, SHOAL_MPI_ASK, world->last_survey, NULL)) ++world->accounts_due;
  }
  const int64_t deadline = shoal_time_ns() + PATIENCE_NS;
  while (world->accounts_due > 0 && !shoal_failure_is_set(&world->failure) &&
         shoal_time_ns() < deadline) {
    shoal_mpi_progress(world);
    shoal_mutex_unlock(&world->mutex);
    shoal_time_sleep_ns(PAUSE_NS);
    shoal_mutex_lock(&world->mutex);
  }
  world->accounts = NULL;
  shoal_mutex_unlock(&world->mutex);
}
