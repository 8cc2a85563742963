// States from outside: whole in, whole out, whatever their resting layout. Each is a reshard
// between the resting layout and one that has everything on the ranks that want it, run by the same
// code as a program's. Memory is taken for one state at a time.
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/hash.h"
#include "base/status.h"
#include "op/reduce.h"
#include "op/type.h"
#include "program/program_impl.h"
#include "run/run_impl.h"
#include "run/states.h"

shoal_status_t shoal_run_state_find(const shoal_runner_t *runner, int64_t state,
                                    shoal_arena_t *arena, shoal_bound_buffer_t *out_part) {
  const shoal_program_state_t *info = &runner->program->states[state];
  const shoal_class_t *rank_class = runner->bound.rank_class;
  *out_part = (shoal_bound_buffer_t){.type.dtype = info->type.dtype, .offset = -1};
  if (shoal_mesh_position(info->layout->mesh, runner->rank) < 0) return NULL;
  for (int64_t i = 0; i < rank_class->buffer_count; ++i) {
    const shoal_buffer_t *buffer = &rank_class->buffers[i];
    if (buffer->kind != SHOAL_BUFFER_STATE || buffer->state != state) continue;
    if (!shoal_layout_equal(buffer->layout, info->layout)) continue;
    return shoal_buffer_bind(runner->bound.rank_class, buffer, runner->rank, -1, 0, arena,
                             out_part);
  }
  return SHOAL_ERROR(INVALID_ARGUMENT, "the program has no buffer for state '%s' on rank %d",
                     info->name, runner->rank);
}

static int64_t bytes_of(const shoal_bound_buffer_t *part) {
  return part->count * (int64_t)shoal_dtype_size(part->type.dtype);
}

// A mesh of all ranks, or of rank `only`.
static void mesh_of(const shoal_runner_t *runner, const int32_t *only, shoal_mesh_t *out_mesh) {
  *out_mesh = (shoal_mesh_t){
      .name = "whole",
      .axis_count = 1,
      .axes = {{.name = "whole", .size = only ? 1 : shoal_world_size(runner->world)}},
      .ranks = only,
  };
}

// ---- reading --------------------------------------------------------------------------

typedef struct gather {
  shoal_channel_t channel;
  shoal_motion_t motion;
  shoal_carrier_t carrier;
  char *part;
} gather_t;

// Everything that can fail on one rank alone comes before the first message.
static shoal_status_t gather_prepare(shoal_runner_t *runner, int64_t state,
                                     const shoal_layout_t *layout, shoal_arena_t *arena,
                                     gather_t *gather) {
  const shoal_program_state_t *info = &runner->program->states[state];
  shoal_bound_buffer_t part, to = {.type.dtype = info->type.dtype};
  SHOAL_RETURN_IF_ERROR(shoal_run_state_find(runner, state, arena, &part));
  gather->channel = (shoal_channel_t){.type = info->type, .src = info->layout, .dst = layout};
  const int64_t position = shoal_mesh_position(layout->mesh, runner->rank);
  if (position >= 0) {
    SHOAL_RETURN_IF_ERROR(
        shoal_layout_boxes(layout, &info->type.shape, position, -1, arena, &to.boxes));
    to.type.shape = shoal_boxes_shape(&to.boxes);
    to.count = shoal_shape_count(&to.type.shape);
  }
  // As messages: a collective would need a group made for this once.
  SHOAL_RETURN_IF_ERROR(shoal_bind_messages(&gather->channel, runner->rank, &part,
                                            position >= 0 ? &to : NULL, arena, &gather->motion));
  shoal_carrier_t *carrier = &gather->carrier;
  SHOAL_RETURN_IF_ERROR(
      shoal_carrier_init(runner->world, &gather->motion, INT32_MAX, arena, carrier));
  carrier->staging = shoal_arena_alloc(arena, (size_t)gather->motion.staging, 1);
  gather->part = shoal_arena_alloc(arena, (size_t)bytes_of(&part), 1);
  if (!carrier->staging || !gather->part) return SHOAL_OOM();
  if (part.count == 0) return NULL;
  return shoal_run_part_read(runner, &part, bytes_of(&part), gather->part);
}

shoal_status_t shoal_run_state_reshard(shoal_runner_t *runner, int64_t state,
                                       const shoal_layout_t *layout, void *out_part) {
  shoal_arena_t arena;
  shoal_arena_init(runner->allocator, &arena);
  gather_t gather = {0};
  shoal_status_t status = gather_prepare(runner, state, layout, &arena, &gather);
  status = shoal_runner_agree(runner, status);
  if (!status) {
    status = shoal_carrier_run(&gather.carrier, gather.part, out_part);
    status = shoal_run_finish(runner, status);
  }
  shoal_arena_deinit(&arena);
  return status;
}

shoal_status_t shoal_runner_gather(shoal_runner_t *runner, int64_t state, int32_t root,
                                   void *data) {
  shoal_mesh_t mesh;
  mesh_of(runner, root < 0 ? NULL : &root, &mesh);
  return shoal_run_state_reshard(runner, state, &(shoal_layout_t){.mesh = &mesh}, data);
}

static shoal_status_t find_of_size(const shoal_runner_t *runner, const char *name, size_t size,
                                   int64_t *out_state) {
  SHOAL_RETURN_IF_ERROR(shoal_run_state_named(runner->program, runner->allocator, name, out_state));
  const shoal_type_t *type = &runner->program->states[*out_state].type;
  return shoal_run_check_size("state", name, type, shoal_type_bytes(type), size);
}

shoal_status_t shoal_runner_get(shoal_runner_t *runner, const char *name, void *data, size_t size) {
  int64_t state = 0;
  const shoal_run_meeting_t meeting = {.call = "shoal_session_get", .name = name};
  SHOAL_RETURN_IF_ERROR(shoal_run_meet(runner, &meeting, find_of_size(runner, name, size, &state)));
  return shoal_runner_gather(runner, state, -1, data);
}

// ---- looking --------------------------------------------------------------------------

static shoal_status_t check_part(shoal_runner_t *runner, int64_t state, shoal_arena_t *arena) {
  shoal_bound_buffer_t part;
  SHOAL_RETURN_IF_ERROR(shoal_run_state_find(runner, state, arena, &part));
  const shoal_dtype_t dtype = part.type.dtype;
  if (part.count == 0 || !shoal_dtype_is_float(dtype)) return NULL;
  char *data = shoal_arena_alloc(arena, (size_t)bytes_of(&part), 1);
  if (!data) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_run_part_read(runner, &part, bytes_of(&part), data));
  for (int64_t i = 0; i < part.count; ++i) {
    const double value = shoal_dtype_load(dtype, data, i);
    if (isfinite(value)) continue;
    return SHOAL_ERROR(MISMATCH, "state '%s' has a value that is %s",
                       runner->program->states[state].name,
                       isnan(value) ? "not a number" : "infinite");
  }
  return NULL;
}

shoal_status_t shoal_runner_check_finite(shoal_runner_t *runner, int64_t count,
                                         const char *const *states) {
  const shoal_run_meeting_t meeting = {.call = "shoal_session_check_finite", .name = ""};
  SHOAL_RETURN_IF_ERROR(shoal_run_meet(runner, &meeting, NULL));
  shoal_status_t status = NULL;
  for (int64_t i = 0; i < count && !status; ++i) {
    shoal_arena_t arena;
    int64_t state = 0;
    shoal_arena_init(runner->allocator, &arena);
    status = shoal_run_state_named(runner->program, runner->allocator, states[i], &state);
    if (!status) status = check_part(runner, state, &arena);
    shoal_arena_deinit(&arena);
  }
  return shoal_runner_agree(runner, status);
}

// ---- writing --------------------------------------------------------------------------

// From a mesh on which this rank alone has everything: what it gets is local.
static shoal_status_t motion_from_whole(const shoal_runner_t *runner, int64_t state,
                                        const shoal_layout_t *layout,
                                        const shoal_bound_buffer_t *part, shoal_arena_t *arena,
                                        shoal_motion_t *out_motion) {
  const shoal_program_state_t *info = &runner->program->states[state];
  shoal_mesh_t mesh;
  mesh_of(runner, &runner->rank, &mesh);
  const shoal_layout_t here = {.mesh = &mesh};
  shoal_channel_t channel = {.type = info->type, .src = &here, .dst = layout};
  shoal_bound_buffer_t whole = {.count = shoal_shape_count(&info->type.shape)};
  SHOAL_RETURN_IF_ERROR(
      shoal_bind_messages(&channel, runner->rank, &whole, part, arena, out_motion));
  if (out_motion->step_count == 0) return NULL;
  if (out_motion->step_count == 1 && out_motion->steps[0].recv < 0) return NULL;
  return SHOAL_ERROR(INTERNAL, "state '%s' has several sources on rank %d", info->name,
                     runner->rank);
}

shoal_status_t shoal_run_layout_pieces(const shoal_runner_t *runner, int64_t state,
                                       const shoal_layout_t *layout,
                                       const shoal_bound_buffer_t *part, shoal_arena_t *arena,
                                       int64_t *out_count, const shoal_piece_t **out_pieces) {
  shoal_motion_t motion;
  SHOAL_RETURN_IF_ERROR(motion_from_whole(runner, state, layout, part, arena, &motion));
  *out_count = motion.step_count > 0 ? motion.steps[0].piece_count : 0;
  *out_pieces = motion.step_count > 0 ? motion.steps[0].pieces : NULL;
  return NULL;
}

shoal_status_t shoal_run_state_pieces(const shoal_runner_t *runner, int64_t state,
                                      shoal_arena_t *arena, shoal_run_state_part_t *out_part) {
  const shoal_program_state_t *info = &runner->program->states[state];
  *out_part = (shoal_run_state_part_t){.dtype = info->type.dtype};
  shoal_bound_buffer_t part;
  SHOAL_RETURN_IF_ERROR(shoal_run_state_find(runner, state, arena, &part));
  if (part.count == 0) return NULL;
  out_part->count = part.count;
  out_part->part = part;
  shoal_motion_t motion;
  SHOAL_RETURN_IF_ERROR(motion_from_whole(runner, state, info->layout, &part, arena, &motion));
  out_part->clear = motion.clear;  // partial, and this rank is not the one that brings the value
  out_part->reduce = motion.reduce;
  if (motion.step_count == 0) return NULL;
  out_part->piece_count = motion.steps[0].piece_count;
  out_part->pieces = motion.steps[0].pieces;
  return NULL;
}

shoal_status_t shoal_run_state_store(shoal_runner_t *runner, const shoal_run_state_part_t *part,
                                     const void *whole, shoal_arena_t *arena) {
  if (part->count == 0) return NULL;
  const size_t element = shoal_dtype_size(part->dtype);
  char *data = shoal_arena_alloc(arena, (size_t)part->count, element);
  if (!data) return SHOAL_OOM();
  if (part->clear) shoal_reduce_fill(part->dtype, part->reduce, part->count, data);
  shoal_pieces_copy(part->dtype, part->piece_count, part->pieces, whole, data);
  return shoal_run_part_write(runner, &part->part, part->count * (int64_t)element, data);
}

shoal_status_t shoal_runner_set(shoal_runner_t *runner, const char *name, const void *data,
                                size_t size) {
  int64_t state = 0;
  shoal_run_meeting_t meeting = {
      .call = "shoal_session_set", .name = name, .has_value = !runner->options.no_compare};
  if (meeting.has_value) meeting.value = shoal_hash_sample(data, size);
  SHOAL_RETURN_IF_ERROR(shoal_run_meet(runner, &meeting, find_of_size(runner, name, size, &state)));
  shoal_arena_t arena;
  shoal_arena_init(runner->allocator, &arena);
  shoal_run_state_part_t part;
  shoal_status_t status = shoal_run_state_pieces(runner, state, &arena, &part);
  if (!status) status = shoal_run_state_store(runner, &part, data, &arena);
  shoal_arena_deinit(&arena);
  return shoal_runner_agree(runner, status);
}
