// Reshards: at load each is bound to a carrier of comm, with memory of the plan's arena; on a queue
// it is run, or started if this rank only sends.
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "run/run_impl.h"

// ---- at load --------------------------------------------------------------------------

static int32_t tag_of(const shoal_program_t *program, int32_t channel, int32_t micro) {
  return (int32_t)(((int64_t)channel * (program->micro + 1) + micro + 1) & INT32_MAX);
}

shoal_status_t shoal_run_move_init(shoal_runner_t *runner, const char *segment, int32_t micro,
                                   const shoal_bound_instruction_t *bound,
                                   shoal_run_move_t **out_move) {
  const shoal_instruction_t *in = bound->instruction;
  const shoal_motion_t *motion = bound->reshard;
  const shoal_bound_buffer_t *input = bound->inputs[0], *output = bound->outputs[0];
  shoal_run_move_t *move = SHOAL_NEW(&runner->arena, shoal_run_move_t, 1);
  if (!move) return SHOAL_OOM();
  *move = (shoal_run_move_t){
      .runner = runner,
      .name = in->name,
      .segment = segment,
      .label = shoal_arena_printf(&runner->arena, "%s: reshard of %s", segment, in->name),
      .input = input ? runner->memory + (shoal_address_t)input->offset : 0,
      .output = output ? runner->memory + (shoal_address_t)output->offset : 0,
      .workspace = runner->memory + (shoal_address_t)in->workspace_offset,
      .lazy = shoal_motion_only_sends(motion),
  };
  if (!move->label) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_carrier_init(runner->world, motion,
                                           tag_of(runner->program, in->channel, micro),
                                           &runner->arena, &move->carrier));
  if (move->lazy) {
    move->carrier.staging = shoal_arena_alloc(&runner->arena, (size_t)motion->staging, 1);
    if (!move->carrier.staging) return SHOAL_OOM();
  }
  if (motion->wide && motion->output_count > runner->scratch_count) {
    runner->scratch_count = motion->output_count;
  }
  *out_move = move;
  return NULL;
}

typedef shoal_status_t (*move_fn_t)(shoal_runner_t *runner, shoal_carrier_t *carrier);

static shoal_status_t for_each(shoal_runner_t *runner, move_fn_t fn) {
  for (int64_t o = 0; o < runner->order_count; ++o) {
    for (int64_t c = 0; c < runner->orders[o].call_count; ++c) {
      const shoal_run_call_t *call = &runner->orders[o].calls[c];
      for (int64_t i = 0; i < call->action_count; ++i) {
        const shoal_bound_instruction_t *bound = call->actions[i].bound;
        if (bound->idle || bound->instruction->opcode != SHOAL_OPCODE_RESHARD) continue;
        SHOAL_RETURN_IF_ERROR(fn(runner, &call->actions[i].move->carrier));
      }
    }
  }
  return NULL;
}

static shoal_status_t give_scratch(shoal_runner_t *runner, shoal_carrier_t *carrier) {
  carrier->scratch = runner->scratch;
  return NULL;
}

shoal_status_t shoal_run_moves_scratch(shoal_runner_t *runner) {
  if (runner->scratch_count == 0) return NULL;
  runner->scratch = SHOAL_NEW(&runner->arena, float, runner->scratch_count);
  return runner->scratch ? for_each(runner, give_scratch) : SHOAL_OOM();
}

// Groups are made once per list of ranks.
static shoal_status_t give_group(shoal_runner_t *runner, shoal_carrier_t *carrier) {
  const shoal_motion_t *motion = carrier->motion;
  if (!motion->collective) return NULL;
  for (int64_t i = 0; i < runner->groups.count; ++i) {
    const shoal_run_group_t *known = &runner->groups.items[i];
    if (known->count != motion->group_count ||
        memcmp(known->ranks, motion->group, sizeof *motion->group * (size_t)known->count) != 0) {
      continue;
    }
    carrier->group = known->group;
    return NULL;
  }
  // The slot first: then a group that was made is always found again and freed.
  if (!SHOAL_PUSH(&runner->arena, &runner->groups,
                  ((shoal_run_group_t){motion->group_count, motion->group, NULL}))) {
    return SHOAL_OOM();
  }
  SHOAL_RETURN_IF_ERROR(
      shoal_group_create(runner->world, motion->group_count, motion->group, &carrier->group));
  runner->groups.items[runner->groups.count - 1].group = carrier->group;
  return NULL;
}

shoal_status_t shoal_run_moves_group(shoal_runner_t *runner) {
  return for_each(runner, give_group);
}

// ---- on the queue ---------------------------------------------------------------------

static shoal_status_t run(shoal_run_move_t *move) {
  shoal_runner_t *runner = move->runner;
  shoal_carrier_t *carrier = &move->carrier;
  const shoal_motion_t *motion = carrier->motion;
  const int64_t element = (int64_t)shoal_dtype_size(motion->dtype);
  void *input, *output;
  SHOAL_RETURN_IF_ERROR(shoal_run_view(runner, move->input, motion->input_count * element, &input));
  SHOAL_RETURN_IF_ERROR(
      shoal_run_view(runner, move->output, motion->output_count * element, &output));
  if (!move->lazy) {
    SHOAL_RETURN_IF_ERROR(
        shoal_run_view(runner, move->workspace, motion->staging, &carrier->staging));
    return shoal_carrier_run(carrier, input, output);
  }
  SHOAL_RETURN_IF_ERROR(shoal_carrier_start(carrier, input, output));
  if (runner->last_lazy) {
    runner->last_lazy->next = move;
  } else {
    runner->first_lazy = move;
  }
  runner->last_lazy = move;
  return NULL;
}

shoal_status_t shoal_run_move(void *self) {
  shoal_run_move_t *move = self;
  shoal_comm_label(move->label);
  shoal_status_t status = run(move);
  shoal_comm_label(NULL);
  if (!status) return NULL;
  return shoal_status_annotatef(status, "rank %d, reshard of '%s' in segment '%s'",
                                move->runner->rank, move->name, move->segment);
}

shoal_status_t shoal_run_moves_drain(shoal_runner_t *runner) {
  shoal_status_t first = NULL;
  while (runner->first_lazy) {
    shoal_run_move_t *move = runner->first_lazy;
    runner->first_lazy = move->next;
    move->next = NULL;
    first = shoal_run_first(first, shoal_carrier_wait(&move->carrier));
  }
  runner->last_lazy = NULL;
  return first;
}
