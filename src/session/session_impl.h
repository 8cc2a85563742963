// The session, inside.
//
//   parallelize.c   from a model or a program to a session: plan, lower, check, load, initialise
//   session.c       what users call on it
#ifndef SHOAL_SESSION_IMPL_H_
#define SHOAL_SESSION_IMPL_H_

#include "base/arena.h"
#include "base/failing.h"
#include "run/run.h"
#include "shoal/rules.h"
#include "shoal/session.h"

struct shoal_session {
  shoal_allocator_t outer;   // the user's; only the session itself comes from it
  shoal_failing_t counting;  // wraps it and counts; everything else comes from there
  shoal_allocator_t allocator;
  shoal_arena_t arena;  // texts
  shoal_world_t *world;
  shoal_group_t *everyone;     // all ranks, for what the session itself agrees on
  shoal_registry_t *registry;  // parsed programs: their ops. Owned, may be NULL
  shoal_rules_t *rules;
  shoal_provider_fn_t provider;  // of the options: executes ops without a kernel
  void *provider_self;
  shoal_plan_t *plan;              // NULL for a given program
  bool rebuilt_plan;               // its text was resolved for something else
  shoal_program_t *owned_program;  // NULL when `program` is the user's
  const shoal_program_t *program;
  shoal_device_t *device;
  shoal_runner_t *runner;  // NULL in a dry run
  bool has_seed;
  uint64_t seed;
  bool catches_signals, stop;
};

#endif  // SHOAL_SESSION_IMPL_H_
