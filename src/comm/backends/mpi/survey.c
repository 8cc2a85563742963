// What every rank does, over MPI: each is asked for its account (comm/recorder.h), which whoever
// moves that rank along gives - a thread that waits, else the progress thread. So a rank answers
// while its program computes or is stuck elsewhere, but not when its process is stopped or gone.
// Threads of a rank that time out together each ask for themselves.
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
    return;
  }
  shoal_mpi_survey_t *survey = world->surveys;
  while (survey && survey->id != packet->header.sequence) survey = survey->next;
  if (!survey) return;  // too late
  memcpy(&survey->accounts[packet->peer], packet->bytes, sizeof *survey->accounts);
  --survey->due;
}

// A world that breaks ends it: nobody answers any more.
static void await_answers(shoal_mpi_world_t *world, const shoal_mpi_survey_t *survey) {
  const int64_t deadline = shoal_time_ns() + PATIENCE_NS;
  while (survey->due > 0 && !shoal_failure_is_set(&world->failure) && shoal_time_ns() < deadline) {
    shoal_mpi_progress(world);
    shoal_mutex_unlock(&world->mutex);
    shoal_time_sleep_ns(PAUSE_NS);
    shoal_mutex_lock(&world->mutex);
  }
}

static void forget(shoal_mpi_world_t *world, const shoal_mpi_survey_t *survey) {
  shoal_mpi_survey_t **at = &world->surveys;
  while (*at != survey) at = &(*at)->next;
  *at = survey->next;
}

void shoal_mpi_survey(shoal_world_t *base, shoal_account_t *out_accounts) {
  shoal_mpi_world_t *world = (shoal_mpi_world_t *)base;
  shoal_account_take(base->recorder, &out_accounts[base->rank]);
  shoal_mutex_lock(&world->mutex);
  shoal_mpi_survey_t survey = {world->surveys, ++world->last_survey, out_accounts, 0};
  world->surveys = &survey;
  for (int32_t i = 0; i < base->size; ++i) {
    if (i == base->rank) continue;
    out_accounts[i].presence = SHOAL_PRESENCE_UNASKED;
    // In a broken world nothing moves any more.
    if (world->peers[i].left || shoal_failure_is_set(&world->failure)) continue;
    if (!send(world, i, SHOAL_MPI_ASK, survey.id, NULL)) continue;
    out_accounts[i].presence = SHOAL_PRESENCE_SILENT;
    ++survey.due;
  }
  await_answers(world, &survey);
  forget(world, &survey);
  for (int32_t i = 0; i < base->size; ++i) {
    shoal_account_t *account = &out_accounts[i];
    if (account->presence == SHOAL_PRESENCE_HERE) continue;
    if (world->peers[i].left) {
      account->presence = SHOAL_PRESENCE_LEFT;
    } else if (shoal_failure_is_set(&world->failure)) {  // it had no time to answer
      account->presence = SHOAL_PRESENCE_UNASKED;
    }
  }
  shoal_mutex_unlock(&world->mutex);
}
