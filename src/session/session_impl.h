// The session's internal header.
//
//   parallelize.c   from a model or a program to a session: plan, lower, check, load, initialise
//   alike.c         checks that all ranks have the same model, ops and options
//   share.c         sends rank 0's program to the others
//   times.c         measured times, as a file for the simulator
//   notes.c         texts that checkpoints carry
//   session.c       what users call on it
#ifndef SHOAL_SESSION_IMPL_H_
#define SHOAL_SESSION_IMPL_H_

#include "base/arena.h"
#include "base/failing.h"
#include "run/run.h"
#include "run/safetensors.h"
#include "shoal/planners.h"
#include "shoal/rules.h"
#include "shoal/session.h"

struct shoal_session {
  shoal_allocator_t outer;   // the user's; only the session itself comes from it
  shoal_failing_t counting;  // wraps it and counts; everything else comes from there
  shoal_allocator_t allocator;
  shoal_arena_t arena;  // texts
  shoal_world_t *world;
  shoal_group_t *everyone;       // all ranks, for what the session itself agrees on
  shoal_registry_t *registry;    // the ops of the program. An owner of it, may be NULL
  shoal_rules_t *rules;          // rank 0 of a model's session; else NULL
  shoal_provider_fn_t provider;  // of the options: executes ops without a kernel
  void *provider_self;
  shoal_plan_t *plan;  // as rules
  bool rebuilt_plan;   // its text was resolved for something else
  shoal_cache_note_t cache_note;
  shoal_program_t *owned_program;  // NULL when `program` is the user's
  const shoal_program_t *program;
  shoal_device_t *device;
  shoal_runner_t *runner;  // NULL in a dry run
  bool has_seed;
  uint64_t seed;
  bool catches_signals;
  SHOAL_VEC(shoal_safetensors_note_t) notes;  // for checkpoints; without a value: taken away
};

// What a session is made from: a model or a program.
typedef struct shoal_session_source {
  const shoal_model_t *model;
  const shoal_program_t *program;
  const shoal_parallelize_options_t *options;
} shoal_session_source_t;

// Checks that all ranks have the same ops, model, seed, program and options as rank 0; else
// MISMATCH on all ranks, which names the rank, what differs and where. *Collective.*
SHOAL_MUST_USE shoal_status_t shoal_session_compare(shoal_session_t *session,
                                                    const shoal_session_source_t *source);
// What a checkpoint's metadata gets from the session: its seed and the notes it was given. Borrowed
// until the next call.
SHOAL_MUST_USE shoal_status_t shoal_session_notes(shoal_session_t *session,
                                                  const shoal_safetensors_note_t **out_notes,
                                                  int64_t *out_count);
// Makes the session's program from a model.
typedef shoal_status_t (*shoal_session_plan_fn_t)(shoal_session_t *session,
                                                  const shoal_session_source_t *source);
// Calls `plan` on rank 0 and broadcasts the text of its program, which the other ranks parse. An
// error of rank 0 is returned on all ranks. *Collective.*
SHOAL_MUST_USE shoal_status_t shoal_session_share(shoal_session_t *session,
                                                  shoal_session_plan_fn_t plan,
                                                  const shoal_session_source_t *source);

#endif  // SHOAL_SESSION_IMPL_H_
