// States from outside, part by part: each rank reads and sets what it holds, and nothing moves.
#include <string.h>

#include "base/dtype.h"
#include "base/hash.h"
#include "base/status.h"
#include "program/program_impl.h"
#include "run/run_impl.h"
#include "run/states.h"

shoal_status_t shoal_run_state_named(const shoal_program_t *program, shoal_allocator_t allocator,
                                     const char *name, int64_t *out_state) {
  for (int64_t i = 0; i < program->state_count; ++i) {
    *out_state = i;
    if (strcmp(program->states[i].name, name) == 0 && !shoal_program_kept_in(program, i))
      return NULL;
  }
  shoal_arena_t arena;
  shoal_arena_init(allocator, &arena);
  const char **names = SHOAL_NEW(&arena, const char *, program->state_count);
  int64_t count = 0;
  for (int64_t i = 0; names && i < program->state_count; ++i)
    if (!shoal_program_kept_in(program, i)) names[count++] = program->states[i].name;
  shoal_status_t status = shoal_run_unknown("state", name, names, count);
  shoal_arena_deinit(&arena);
  return status;
}

shoal_status_t shoal_program_state_boxes(const shoal_program_t *program, int32_t rank,
                                         const char *name, shoal_arena_t *arena,
                                         shoal_boxes_t *out_boxes) {
  int64_t state = 0;
  SHOAL_RETURN_IF_ERROR(shoal_run_state_named(program, arena->allocator, name, &state));
  const shoal_program_state_t *info = &program->states[state];
  const int64_t position = shoal_mesh_position(info->layout->mesh, rank);
  if (position >= 0)
    return shoal_layout_boxes(info->layout, &info->type.shape, position, -1, arena, out_boxes);
  *out_boxes = (shoal_boxes_t){.whole = info->type.shape, .flat = true};
  return NULL;
}

static shoal_status_t find_part(const shoal_runner_t *runner, const char *name, size_t size,
                                shoal_arena_t *arena, int64_t *out_state,
                                shoal_bound_buffer_t *out_part) {
  SHOAL_RETURN_IF_ERROR(shoal_run_state_named(runner->program, runner->allocator, name, out_state));
  SHOAL_RETURN_IF_ERROR(shoal_run_state_find(runner, *out_state, arena, out_part));
  const int64_t bytes = out_part->count * (int64_t)shoal_dtype_size(out_part->type.dtype);
  if (size == (size_t)bytes) return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "shoal_session_boxes says what this rank holds",
                          "rank %d holds %lld bytes of state '%s', and %zu were given",
                          runner->rank, (long long)bytes, name, size);
}

shoal_status_t shoal_runner_get_part(shoal_runner_t *runner, const char *name, void *data,
                                     size_t size) {
  int64_t state = 0;
  shoal_bound_buffer_t part = {0};
  shoal_arena_t arena;
  shoal_arena_init(runner->allocator, &arena);
  const shoal_run_meeting_t meeting = {.call = "shoal_session_get_part", .name = name};
  shoal_status_t status =
      shoal_run_meet(runner, &meeting, find_part(runner, name, size, &arena, &state, &part));
  if (!status) {
    status = part.count > 0 ? shoal_run_part_read(runner, &part, (int64_t)size, data) : NULL;
    status = shoal_runner_agree(runner, status);
  }
  shoal_arena_deinit(&arena);
  return status;
}

// ---- setting --------------------------------------------------------------------------

// Ranks with the same key must set the same: those that hold the same elements, but addends.
static uint64_t key_of(const shoal_runner_t *runner, int64_t state,
                       const shoal_bound_buffer_t *part) {
  const shoal_layout_t *layout = runner->program->states[state].layout;
  const int64_t position = shoal_mesh_position(layout->mesh, runner->rank);
  if (position < 0 || part->count == 0) return 0;
  int64_t coords[SHOAL_MAX_AXES];
  shoal_mesh_coords(layout->mesh, position, coords);
  uint64_t key = shoal_run_key(0, -1, &part->boxes);
  for (int32_t k = 0; k < layout->mesh->axis_count; ++k) {
    const shoal_cut_t *cut = shoal_layout_along(layout, k);
    if (cut && cut->kind == SHOAL_CUT_PARTIAL) key = shoal_hash_int(key, coords[k]);
  }
  return key ? key : 1;
}

// Every rank has all keys and hashes, and finds the same.
static shoal_status_t compare(const char *name, int32_t ranks, const uint64_t *words) {
  for (int32_t b = 1; b < ranks; ++b) {
    for (int32_t a = 0; a < b && words[2 * b]; ++a) {
      if (words[2 * a] != words[2 * b]) continue;
      if (words[2 * a + 1] == words[2 * b + 1]) break;
      return SHOAL_ERROR_HINT(MISMATCH, "set the same on all ranks that hold the same part",
                              "ranks %d and %d set different values of the same part of state '%s'",
                              a, b, name);
    }
  }
  return NULL;
}

static shoal_status_t exchange(shoal_runner_t *runner, const char *name, uint64_t key,
                               uint64_t hash, shoal_arena_t *arena) {
  const int32_t ranks = shoal_world_size(runner->world);
  if (!runner->everyone || runner->options.no_compare) return NULL;
  uint64_t *words = SHOAL_NEW(arena, uint64_t, 2 * ranks);
  int64_t *counts = SHOAL_NEW(arena, int64_t, ranks);
  SHOAL_RETURN_IF_ERROR(shoal_runner_agree(runner, words && counts ? NULL : SHOAL_OOM()));
  for (int32_t r = 0; r < ranks; ++r) counts[r] = 2;
  const uint64_t mine[] = {key, hash};
  shoal_status_t broken = shoal_all_gather(runner->everyone, SHOAL_I64, counts, mine, words);
  return broken ? shoal_run_finish(runner, broken) : compare(name, ranks, words);
}

shoal_status_t shoal_runner_set_part(shoal_runner_t *runner, const char *name, const void *data,
                                     size_t size) {
  int64_t state = 0;
  shoal_bound_buffer_t part = {0};
  shoal_arena_t arena;
  shoal_arena_init(runner->allocator, &arena);
  const shoal_run_meeting_t meeting = {.call = "shoal_session_set_part", .name = name};
  shoal_status_t status =
      shoal_run_meet(runner, &meeting, find_part(runner, name, size, &arena, &state, &part));
  if (!status)
    status =
        exchange(runner, name, key_of(runner, state, &part), shoal_hash_sample(data, size), &arena);
  if (!status) {
    status = part.count > 0 ? shoal_run_part_write(runner, &part, (int64_t)size, data) : NULL;
    status = shoal_runner_agree(runner, status);
  }
  shoal_arena_deinit(&arena);
  return status;
}
