// A session's daily life: thin over the runner. In a dry run nothing is executed and values are
// zero.
#include "shoal/session.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "run/checkpoint.h"
#include "run/signal.h"
#include "session/session_impl.h"

void shoal_session_free(shoal_session_t *session) {
  if (!session) return;
  if (session->catches_signals) shoal_signals_release();
  shoal_runner_free(session->runner);
  shoal_device_free(session->device);
  shoal_program_free(session->owned_program);
  shoal_plan_free(session->plan);
  shoal_rules_free(session->rules);
  if (session->registry) shoal_registry_release(session->registry);
  shoal_group_free(session->everyone);
  shoal_arena_deinit(&session->arena);
  shoal_world_release(session->world);
  shoal_allocator_t outer = session->outer;
  outer.free(outer.self, session);
}

static shoal_status_t dry(void *data, size_t size) {
  if (data && size > 0) memset(data, 0, size);
  return NULL;
}

static shoal_status_t check_pointers(const char *name, const void *data, size_t size) {
  if (name && (data || size == 0)) return NULL;
  return SHOAL_ERROR(INVALID_ARGUMENT, name ? "there is no data: the pointer is NULL"
                                            : "there is no name: the pointer is NULL");
}

static shoal_status_t check_path(const char *path) {
  if (path && path[0]) return NULL;
  return SHOAL_ERROR(INVALID_ARGUMENT, "there is no path: it is %s", path ? "empty" : "NULL");
}

shoal_status_t shoal_feed(shoal_session_t *session, const char *name, const void *data,
                          size_t size) {
  SHOAL_RETURN_IF_ERROR(check_pointers(name, data, size));
  if (!session->runner) return NULL;
  return shoal_runner_feed(session->runner, name, data, size);
}

shoal_status_t shoal_feed_part(shoal_session_t *session, const char *name, const void *data,
                               size_t size) {
  SHOAL_RETURN_IF_ERROR(check_pointers(name, data, size));
  if (!session->runner) return NULL;
  return shoal_runner_feed_part(session->runner, name, data, size);
}

shoal_status_t shoal_feed_rows(shoal_session_t *session, const char *name, const void *data,
                               size_t size) {
  SHOAL_RETURN_IF_ERROR(check_pointers(name, data, size));
  if (!session->runner) return NULL;
  return shoal_runner_feed_rows(session->runner, name, data, size);
}

shoal_status_t shoal_session_rows(const shoal_session_t *session, const char *graph,
                                  const char *input, shoal_arena_t *arena, int64_t *out_count,
                                  const shoal_interval_t **out_rows) {
  *out_count = 0;
  *out_rows = NULL;
  if (!session->runner) return NULL;
  return shoal_runner_rows(session->runner, graph ? graph : "", input ? input : "", arena,
                           out_count, out_rows);
}

shoal_status_t shoal_run(shoal_session_t *session, const char *graph) {
  if (!session->runner) return NULL;
  if (session->catches_signals && shoal_signals_raised()) shoal_runner_ask_stop(session->runner);
  return shoal_runner_run(session->runner, graph ? graph : "");
}

shoal_status_t shoal_session_wait(shoal_session_t *session) {
  return session->runner ? shoal_runner_wait(session->runner) : NULL;
}

shoal_status_t shoal_fetch(shoal_session_t *session, const char *name, void *data, size_t size) {
  SHOAL_RETURN_IF_ERROR(check_pointers(name, data, size));
  if (!session->runner) return dry(data, size);
  return shoal_runner_fetch(session->runner, name, data, size);
}

shoal_status_t shoal_session_get(shoal_session_t *session, const char *state, void *data,
                                 size_t size) {
  if (!session->runner) return dry(data, size);
  shoal_status_t status = check_pointers(state, data, size);
  if (status) return shoal_runner_meet(session->runner, "shoal_session_get", state, status);
  return shoal_runner_get(session->runner, state, data, size);
}

shoal_status_t shoal_session_set(shoal_session_t *session, const char *state, const void *data,
                                 size_t size) {
  if (!session->runner) return NULL;
  shoal_status_t status = check_pointers(state, data, size);
  if (status) return shoal_runner_meet(session->runner, "shoal_session_set", state, status);
  return shoal_runner_set(session->runner, state, data, size);
}

shoal_status_t shoal_session_get_part(shoal_session_t *session, const char *state, void *data,
                                      size_t size) {
  if (!session->runner) return dry(data, size);
  shoal_status_t status = check_pointers(state, data, size);
  if (status) return shoal_runner_meet(session->runner, "shoal_session_get_part", state, status);
  return shoal_runner_get_part(session->runner, state, data, size);
}

shoal_status_t shoal_session_set_part(shoal_session_t *session, const char *state, const void *data,
                                      size_t size) {
  if (!session->runner) return NULL;
  shoal_status_t status = check_pointers(state, data, size);
  if (status) return shoal_runner_meet(session->runner, "shoal_session_set_part", state, status);
  return shoal_runner_set_part(session->runner, state, data, size);
}

shoal_status_t shoal_session_boxes(const shoal_session_t *session, const char *state,
                                   shoal_arena_t *arena, shoal_boxes_t *out_boxes) {
  return shoal_program_state_boxes(session->program, shoal_world_rank(session->world),
                                   state ? state : "", arena, out_boxes);
}

shoal_status_t shoal_session_check_finite(shoal_session_t *session, int64_t count,
                                          const char *const *states) {
  return session->runner ? shoal_runner_check_finite(session->runner, count, states) : NULL;
}

static shoal_status_t save(shoal_session_t *session, const char *call, const char *path,
                           const shoal_save_options_t *options) {
  if (!session->runner) return check_path(path);
  // Ranks that mean different states would wait for each other: the options count as the name.
  char name[PATH_MAX + 256];
  snprintf(name, sizeof name, "%s%s%s%s%s", path ? path : "", options->only ? ", only " : "",
           options->only ? options->only : "", options->dtype ? " as " : "",
           options->dtype ? options->dtype : "");
  SHOAL_RETURN_IF_ERROR(
      shoal_runner_meet(session->runner, call, path ? name : NULL, check_path(path)));
  const shoal_safetensors_note_t *notes;
  int64_t count;
  SHOAL_RETURN_IF_ERROR(
      shoal_runner_agree(session->runner, shoal_session_notes(session, &notes, &count)));
  return shoal_checkpoint_save(session->runner, path, options, notes, count);
}

static shoal_status_t load(shoal_session_t *session, const char *call, const char *path,
                           const shoal_load_options_t *options) {
  if (!session->runner) return check_path(path);
  SHOAL_RETURN_IF_ERROR(shoal_runner_meet(session->runner, call, path, check_path(path)));
  return shoal_checkpoint_load(session->runner, path, options);
}

shoal_status_t shoal_save(shoal_session_t *session, const char *path) {
  return save(session, "shoal_save", path, &(shoal_save_options_t){.training = true});
}

shoal_status_t shoal_load(shoal_session_t *session, const char *path) {
  return load(session, "shoal_load", path, &(shoal_load_options_t){.training = true});
}

shoal_status_t shoal_save_with(shoal_session_t *session, const char *path,
                               const shoal_save_options_t *options) {
  static const shoal_save_options_t defaults;
  return save(session, "shoal_save_with", path, options ? options : &defaults);
}

shoal_status_t shoal_load_with(shoal_session_t *session, const char *path,
                               const shoal_load_options_t *options) {
  static const shoal_load_options_t defaults;
  return load(session, "shoal_load_with", path, options ? options : &defaults);
}

shoal_status_t shoal_session_catch_signals(shoal_session_t *session) {
  shoal_status_t status = session->catches_signals ? NULL : shoal_signals_catch();
  const bool caught = !session->catches_signals && !status;
  status = session->runner
               ? shoal_runner_meet(session->runner, "shoal_session_catch_signals", NULL, status)
               : shoal_world_agree(session->world, status);
  if (status && caught) shoal_signals_release();
  if (!status) session->catches_signals = true;
  return status;
}

bool shoal_session_should_stop(const shoal_session_t *session) {
  return session->runner && shoal_runner_should_stop(session->runner);
}

shoal_world_t *shoal_session_world(const shoal_session_t *session) {
  return session->world;
}

const shoal_plan_t *shoal_session_plan(const shoal_session_t *session) {
  return session->plan;
}

const shoal_cache_note_t *shoal_session_cache_note(const shoal_session_t *session) {
  return &session->cache_note;
}

bool shoal_session_rebuilt_plan(const shoal_session_t *session) {
  return session->rebuilt_plan;
}

const shoal_program_t *shoal_session_program(const shoal_session_t *session) {
  return session->program;
}

shoal_rules_t *shoal_session_rules(const shoal_session_t *session) {
  return session->rules;
}

shoal_memory_report_t shoal_session_memory(const shoal_session_t *session) {
  shoal_memory_report_t report = {.allocations = atomic_load(&session->counting.calls)};
  report.fixed = atomic_load(&session->counting.live_bytes);
  if (session->runner) {
    report.fixed += shoal_runner_fixed(session->runner);
    shoal_runner_memory(session->runner, report.arena_planned, report.arena_touched);
    report.saving = shoal_runner_saving_bytes(session->runner);
    report.direct = shoal_runner_is_direct(session->runner);
    shoal_runner_file_copies(session->runner, &report.file_copies, &report.direct_copies);
    return report;
  }
  const shoal_class_t *rank_class =
      shoal_program_class_of(session->program, shoal_world_rank(session->world));
  for (int kind = 0; kind < SHOAL_MEMORY_COUNT; ++kind) {
    if (rank_class) report.arena_planned[kind] = rank_class->arena_bytes[kind];
    report.arena_touched[kind] = -1;
  }
  return report;
}

shoal_session_counters_t shoal_session_counters(const shoal_session_t *session) {
  shoal_session_counters_t counters = {.allocations = atomic_load(&session->counting.calls)};
  if (!session->runner) return counters;
  const shoal_runner_counters_t of_runner = shoal_runner_counters(session->runner);
  counters.runs = of_runner.runs;
  counters.joins = of_runner.joins;
  counters.meetings = of_runner.meetings;
  counters.agreements = of_runner.agreements;
  counters.exchanged = of_runner.exchanged;
  counters.communication = of_runner.communication;
  counters.exposed = of_runner.exposed;
  return counters;
}
