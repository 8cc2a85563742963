// Reshards: at load each is bound to a carrier of comm, with memory of the plan's arena.
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "run/run_impl.h"

// ---- at load --------------------------------------------------------------------------

int32_t shoal_run_tag(const shoal_program_t *program, int32_t channel, int32_t micro) {
  return (int32_t)(((int64_t)channel * (program->micro + 1) + micro + 1) & INT32_MAX);
}

static shoal_address_t address_of(const shoal_runner_t *runner, const shoal_bound_buffer_t *part) {
  return part ? runner->memory + (shoal_address_t)part->offset : 0;
}

shoal_status_t shoal_run_move_init(shoal_runner_t *runner, const char *segment, int32_t micro,
                                   const shoal_bound_instruction_t *bound,
                                   shoal_run_move_t **out_move) {
  const shoal_instruction_t *in = bound->instruction;
  const shoal_bundle_t *bundle = bound->reshard;
  shoal_run_move_t *move = SHOAL_NEW(&runner->arena, shoal_run_move_t, 1);
  shoal_address_t *inputs = SHOAL_NEW(&runner->arena, shoal_address_t, bundle->count);
  shoal_address_t *outputs = SHOAL_NEW(&runner->arena, shoal_address_t, bundle->count);
  if (!move || !inputs || !outputs) return SHOAL_OOM();
  for (int32_t i = 0; i < bundle->count; ++i) {
    inputs[i] = address_of(runner, bound->inputs[i]);
    outputs[i] = address_of(runner, bound->outputs[i]);
  }
  *move = (shoal_run_move_t){
      .inputs = inputs,
      .outputs = outputs,
      .workspace = runner->memory + (shoal_address_t)in->workspace_offset,
      .queue = in->queue,
      .lane = runner->program->channels[in->channels[0]].lane,
      .lazy = shoal_motion_only_sends(&bundle->whole),
      .next = runner->moves,
  };
  shoal_carrier_t *carrier = &move->carrier;
  SHOAL_RETURN_IF_ERROR(shoal_carrier_init_bundle(
      runner->world, bundle, shoal_run_tag(runner->program, in->channels[0], micro), &runner->arena,
      carrier));
  carrier->label = shoal_arena_printf(&runner->arena, "%s: reshard of %s", segment, in->name);
  carrier->what = shoal_arena_printf(&runner->arena, "rank %d, reshard of '%s' in segment '%s'",
                                     runner->rank, in->name, segment);
  if (!carrier->label || !carrier->what) return SHOAL_OOM();
  runner->moves = move;
  *out_move = move;
  return NULL;
}

// Every rank makes every lane of the program, in the same order.
static shoal_status_t make_lanes(shoal_runner_t *runner) {
  for (int64_t i = 0; i < runner->program->channel_count; ++i) {
    const int32_t lane = runner->program->channels[i].lane;
    char name[16];
    if (runner->lanes[lane]) continue;
    snprintf(name, sizeof name, "%d", lane);
    SHOAL_RETURN_IF_ERROR(shoal_lane_create(runner->world, name, &runner->lanes[lane]));
  }
  return NULL;
}

// Groups are made once per list of ranks and lane.
static shoal_status_t find_group(shoal_runner_t *runner, int32_t lane, int32_t count,
                                 const int32_t *ranks, shoal_group_t **out_group) {
  for (int64_t i = 0; i < runner->groups.count; ++i) {
    const shoal_run_group_t *known = &runner->groups.items[i];
    if (known->lane != lane || known->count != count ||
        memcmp(known->ranks, ranks, sizeof *ranks * (size_t)count) != 0) {
      continue;
    }
    *out_group = known->group;
    return NULL;
  }
  // The slot first: then a group that was made is always found again and freed.
  if (!SHOAL_PUSH(&runner->arena, &runner->groups,
                  ((shoal_run_group_t){lane, count, ranks, NULL}))) {
    return SHOAL_OOM();
  }
  SHOAL_RETURN_IF_ERROR(shoal_lane_group_create(runner->lanes[lane], count, ranks, out_group));
  runner->groups.items[runner->groups.count - 1].group = *out_group;
  return NULL;
}

static shoal_status_t give_group(shoal_runner_t *runner, shoal_run_move_t *move) {
  const shoal_motion_t *motion = move->carrier.motion;
  move->carrier.lane = runner->lanes[move->lane];
  if (!motion->collective || motion->group_count == 0) return NULL;
  return find_group(runner, move->lane, motion->group_count, motion->group, &move->carrier.group);
}

// Where the device is blind, lazy reshards are packed in device memory outside the arena: the plan
// gives them no workspace. Those of a queue follow each other, and share it.
static shoal_status_t make_posts(shoal_runner_t *runner) {
  if (shoal_work_way(runner->world, runner->device) == SHOAL_WORK_VIEWED) return NULL;
  int64_t most[SHOAL_MAX_QUEUES] = {0};
  for (const shoal_run_move_t *move = runner->moves; move; move = move->next) {
    const int64_t bytes = move->lazy ? move->carrier.motion->staging : 0;
    if (bytes > most[move->queue]) most[move->queue] = bytes;
  }
  for (int i = 0; i < SHOAL_MAX_QUEUES; ++i) {
    if (most[i] == 0) continue;
    SHOAL_RETURN_IF_ERROR(shoal_device_alloc(runner->device, most[i], &runner->posts[i]));
    runner->message_bytes += most[i];
  }
  return NULL;
}

static shoal_status_t bind(shoal_runner_t *runner, shoal_run_move_t *move) {
  shoal_carrier_t *carrier = &move->carrier;
  shoal_address_t workspace = move->workspace;
  if (move->lazy) {
    workspace = runner->posts[move->queue];
    if (!workspace) {
      carrier->staging = shoal_arena_alloc(&runner->arena, (size_t)carrier->motion->staging, 1);
      if (!carrier->staging) return SHOAL_OOM();
    }
  }
  SHOAL_RETURN_IF_ERROR(shoal_carrier_bind_bundle(carrier, runner->device, move->inputs,
                                                  move->outputs, workspace, &runner->arena));
  if (!move->lazy || shoal_carrier_bounce(carrier) == 0) return NULL;
  carrier->on->work.bounce =
      shoal_arena_alloc(&runner->arena, (size_t)shoal_carrier_bounce(carrier), 1);
  return carrier->on->work.bounce ? NULL : SHOAL_OOM();
}

// Reshards of a queue follow each other, and share host memory.
static shoal_status_t make_bounces(shoal_runner_t *runner) {
  int64_t most[SHOAL_MAX_QUEUES] = {0};
  for (const shoal_run_move_t *move = runner->moves; move; move = move->next) {
    const int64_t bytes = move->lazy ? 0 : shoal_carrier_bounce(&move->carrier);
    if (bytes > most[move->queue]) most[move->queue] = bytes;
  }
  for (int i = 0; i < SHOAL_MAX_QUEUES; ++i) {
    void *memory;
    if (most[i] == 0) continue;
    SHOAL_RETURN_IF_ERROR(shoal_comm_alloc(runner->world, most[i], &memory));
    runner->bounces[i] = memory;
    runner->message_bytes += most[i];
  }
  for (shoal_run_move_t *move = runner->moves; move; move = move->next) {
    if (!move->lazy) move->carrier.on->work.bounce = runner->bounces[move->queue];
  }
  return NULL;
}

shoal_status_t shoal_run_moves_bind(shoal_runner_t *runner) {
  SHOAL_RETURN_IF_ERROR(make_lanes(runner));
  for (shoal_run_move_t *move = runner->moves; move; move = move->next) {
    SHOAL_RETURN_IF_ERROR(give_group(runner, move));
  }
  SHOAL_RETURN_IF_ERROR(shoal_run_exchanges_bind(runner));
  SHOAL_RETURN_IF_ERROR(make_posts(runner));
  for (shoal_run_move_t *move = runner->moves; move; move = move->next) {
    SHOAL_RETURN_IF_ERROR(bind(runner, move));
  }
  return make_bounces(runner);
}

// ---- afterwards -----------------------------------------------------------------------

shoal_status_t shoal_run_moves_drain(shoal_runner_t *runner) {
  shoal_status_t first = NULL;
  for (shoal_run_move_t *move = runner->moves; move; move = move->next) {
    if (move->lazy) first = shoal_run_first(first, shoal_carrier_drain(&move->carrier));
  }
  return first;
}

void shoal_run_moves_free(shoal_runner_t *runner) {
  shoal_status_free(shoal_run_moves_drain(runner));
  for (shoal_run_move_t *move = runner->moves; move; move = move->next) {
    shoal_carrier_unbind(&move->carrier);
  }
  for (int i = 0; i < SHOAL_MAX_QUEUES; ++i) {
    shoal_comm_release(runner->world, runner->bounces[i]);
    if (runner->posts[i]) shoal_device_release(runner->device, runner->posts[i]);
  }
  for (int64_t i = 0; i < runner->groups.count; ++i) {
    shoal_group_free(runner->groups.items[i].group);
  }
  for (int i = 0; i < SHOAL_MAX_LANES; ++i) shoal_lane_free(runner->lanes[i]);
}
