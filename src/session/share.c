// Rank 0 plans, and all ranks get its program, or the error it got instead. The others neither plan
// nor find rules: they parse the text with their own registry, which alike.c has compared.
//
// They wait for it in a broadcast, however long planning takes: rank 0 says now and then, from a
// thread of its own, that it still plans, so that the world's time limit is about ranks that are
// stuck.
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/thread.h"
#include "base/time.h"
#include "comm/comm_impl.h"
#include "session/session_impl.h"

// What goes ahead of the text: how long it is, or why there is none; or that it is to come.
typedef struct offer {
  int64_t planning, bytes, rebuilt_plan;
  int32_t code, line;
  char file[120], message[2048], hint[520];
} offer_t;

// ---- rank 0 ---------------------------------------------------------------------------

typedef struct ticker {
  shoal_session_t *session;
  shoal_thread_t thread;
  _Atomic uint32_t done;
} ticker_t;

static void tick(void *self) {
  ticker_t *ticker = self;
  offer_t offer = {.planning = 1};
  const int64_t every_ns = ticker->session->world->timeout_ms * 1000000 / 8;
  shoal_status_t broken = NULL;
  shoal_comm_label("planning");
  for (;;) {
    const int64_t next = shoal_time_ns() + every_ns;
    while (!atomic_load(&ticker->done) && shoal_futex_wait(&ticker->done, 0, next)) continue;
    if (atomic_load(&ticker->done) || broken) break;
    broken = shoal_broadcast(ticker->session->everyone, &offer, sizeof offer, 0);
  }
  shoal_comm_label(NULL);
  shoal_status_free(broken);  // the next call gets it too
}

// Without a thread, planning just has to end within the time limit.
static shoal_status_t plan_while_ticking(shoal_session_t *session, shoal_session_plan_fn_t plan,
                                         const shoal_session_source_t *source) {
  ticker_t ticker = {.session = session};
  shoal_status_free(shoal_thread_start(tick, &ticker, &ticker.thread));
  shoal_status_t status = plan(session, source);
  atomic_store(&ticker.done, 1);
  shoal_futex_wake(&ticker.done, 1);
  shoal_thread_join(&ticker.thread);
  return status;
}

static void describe(shoal_status_t status, offer_t *offer) {
  offer->code = (int32_t)shoal_status_code(status);
  offer->line = shoal_status_line(status);
  snprintf(offer->file, sizeof offer->file, "%s", shoal_status_file(status));
  snprintf(offer->message, sizeof offer->message, "%s", shoal_status_message(status));
  snprintf(offer->hint, sizeof offer->hint, "%s", shoal_status_hint(status));
}

// ---- all ------------------------------------------------------------------------------

// Rank 0 gives its status and the length of its text. The others get them: its error as their own,
// so that all agree on it word for word.
static shoal_status_t exchange_offer(shoal_session_t *session, shoal_status_t status,
                                     offer_t *offer) {
  if (status) describe(status, offer);
  shoal_comm_label("waiting for rank 0's plan");
  shoal_status_t broken = NULL;
  do {
    broken = shoal_broadcast(session->everyone, offer, sizeof *offer, 0);
  } while (!broken && offer->planning);
  shoal_comm_label(NULL);
  if (broken) {
    shoal_status_free(status);
    return broken;
  }
  session->rebuilt_plan = offer->rebuilt_plan != 0;
  if (status || offer->code == SHOAL_OK) return status;
  return shoal_status_create((shoal_code_t)offer->code, offer->file, offer->line, offer->message,
                             offer->hint[0] ? offer->hint : NULL);
}

static shoal_status_t share(shoal_session_t *session, shoal_status_t status, shoal_arena_t *arena) {
  const bool gives = shoal_world_rank(session->world) == 0;
  const char *text = NULL;
  if (gives && !status) status = shoal_program_print(session->program, arena, &text);
  offer_t offer = {.bytes = text ? (int64_t)strlen(text) + 1 : 0,
                   .rebuilt_plan = session->rebuilt_plan};
  status = exchange_offer(session, status, &offer);
  char *copy = NULL;
  if (!status) {
    copy = shoal_arena_alloc(arena, (size_t)offer.bytes, 1);
    if (!copy) status = SHOAL_OOM();
  }
  SHOAL_RETURN_IF_ERROR(shoal_world_agree(session->world, status));
  if (gives) memcpy(copy, text, (size_t)offer.bytes);
  SHOAL_RETURN_IF_ERROR(shoal_broadcast(session->everyone, copy, offer.bytes, 0));
  if (!gives) {
    status = shoal_program_parse("rank 0's program", copy, session->registry, session->allocator,
                                 &session->owned_program);
    if (!status) session->program = session->owned_program;
  }
  return shoal_world_agree(session->world, status);
}

shoal_status_t shoal_session_share(shoal_session_t *session, shoal_session_plan_fn_t plan,
                                   const shoal_session_source_t *source) {
  if (shoal_world_size(session->world) == 1) {
    return shoal_world_agree(session->world, plan(session, source));
  }
  shoal_status_t status = NULL;
  if (shoal_world_rank(session->world) == 0) status = plan_while_ticking(session, plan, source);
  shoal_arena_t arena;
  shoal_arena_init(session->allocator, &arena);
  status = share(session, status, &arena);
  shoal_arena_deinit(&arena);
  return status;
}
