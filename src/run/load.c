// Loading a program: binds it to this rank, takes the arena, and builds every launch, copy and
// message, so that a run only enqueues.
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "device/device.h"
#include "run/run_impl.h"
#include "run/saving.h"

enum { BLOCK = 64 };  // what buffers are aligned to

// ---- per instruction ------------------------------------------------------------------

static shoal_address_t address_of(const shoal_runner_t *runner,
                                  const shoal_bound_buffer_t *buffer) {
  return buffer ? runner->memory + (shoal_address_t)buffer->offset : 0;
}

static shoal_status_t addresses_of(shoal_runner_t *runner,
                                   const shoal_bound_buffer_t *const *buffers, int32_t count,
                                   const shoal_address_t **out_addresses) {
  shoal_address_t *addresses = SHOAL_NEW(&runner->arena, shoal_address_t, count);
  if (!addresses) return SHOAL_OOM();
  for (int32_t i = 0; i < count; ++i) addresses[i] = address_of(runner, buffers[i]);
  *out_addresses = addresses;
  return NULL;
}

static shoal_status_t predicate_of(shoal_runner_t *runner, const shoal_bound_instruction_t *bound,
                                   const shoal_address_t **out_predicate) {
  *out_predicate = NULL;
  if (!bound->predicate) return NULL;
  return addresses_of(runner, &bound->predicate, 1, out_predicate);
}

static shoal_status_t build_launch(shoal_runner_t *runner, const shoal_bound_instruction_t *bound,
                                   shoal_launch_t *out_launch) {
  const shoal_instruction_t *instruction = bound->instruction;
  const bool foreign = !instruction->op->kernel;
  if (foreign && !runner->options.provider) {
    return SHOAL_ERROR_HINT(UNAVAILABLE, "give a kernel provider in the options",
                            "op '%s' of node '%s' has no kernel", instruction->op->name,
                            instruction->name);
  }
  *out_launch = (shoal_launch_t){
      .call = bound->call,
      .workspace = instruction->workspace > 0
                       ? runner->memory + (shoal_address_t)instruction->workspace_offset
                       : 0,
      .provider = foreign ? runner->options.provider : NULL,
      .provider_self = runner->options.provider_self,
      .name = instruction->name,
  };
  SHOAL_RETURN_IF_ERROR(
      addresses_of(runner, bound->inputs, instruction->input_count, &out_launch->inputs));
  SHOAL_RETURN_IF_ERROR(
      addresses_of(runner, bound->outputs, instruction->output_count, &out_launch->outputs));
  SHOAL_RETURN_IF_ERROR(predicate_of(runner, bound, &out_launch->predicate));
  SHOAL_RETURN_IF_ERROR(shoal_run_bounded(runner, bound, out_launch));
  return shoal_launch_prepare(runner->device, &runner->arena, out_launch);
}

static shoal_status_t build_copy(shoal_runner_t *runner, const shoal_bound_instruction_t *bound,
                                 shoal_copy_t *out_copy) {
  *out_copy = (shoal_copy_t){
      .src = address_of(runner, bound->inputs[0]),
      .dst = address_of(runner, bound->outputs[0]),
      .dtype = bound->outputs[0]->type.dtype,
      .accumulate = bound->instruction->opcode == SHOAL_OPCODE_ACCUMULATE,
      .reduce = bound->instruction->reduce,
      .piece_count = bound->piece_count,
      .pieces = bound->pieces,
  };
  SHOAL_RETURN_IF_ERROR(predicate_of(runner, bound, &out_copy->predicate));
  return shoal_copy_prepare(runner->device, &runner->arena, out_copy);
}

static shoal_status_t build_fill(shoal_runner_t *runner, const shoal_bound_instruction_t *bound,
                                 shoal_fill_t *out_fill) {
  *out_fill = (shoal_fill_t){
      .dst = address_of(runner, bound->outputs[0]),
      .dtype = bound->outputs[0]->type.dtype,
      .count = bound->outputs[0]->count,
      .value = bound->instruction->value,
  };
  SHOAL_RETURN_IF_ERROR(predicate_of(runner, bound, &out_fill->predicate));
  return shoal_fill_prepare(runner->device, &runner->arena, out_fill);
}

static shoal_status_t build_action(shoal_runner_t *runner, const char *graph,
                                   const shoal_bound_call_t *call, int64_t index,
                                   shoal_action_t *action) {
  const shoal_bound_instruction_t *bound = action->bound;
  const char *segment = runner->bound.rank_class->segments[call->segment].name;
  if (bound->idle) return NULL;
  shoal_status_t status = NULL;
  switch (bound->instruction->opcode) {
    case SHOAL_OPCODE_COMPUTE:
      status = build_launch(runner, bound, &action->launch);
      break;
    case SHOAL_OPCODE_COPY:
    case SHOAL_OPCODE_ACCUMULATE:
      status = shoal_run_is_offload(bound) ? shoal_run_offload_init(runner, bound, &action->offload)
                                           : build_copy(runner, bound, &action->copy);
      break;
    case SHOAL_OPCODE_ASSEMBLE:
      status = build_copy(runner, bound, &action->copy);
      break;
    case SHOAL_OPCODE_FILL:
      status = build_fill(runner, bound, &action->fill);
      break;
    case SHOAL_OPCODE_FEED:
    case SHOAL_OPCODE_FETCH:
      status = shoal_run_transfer_init(runner, graph, call->micro, bound, &action->transfer);
      break;
    case SHOAL_OPCODE_RESHARD:
      status = shoal_run_move_init(runner, segment, call->micro, bound, &action->move);
      break;
    case SHOAL_OPCODE_EXCHANGE:
      status = shoal_run_exchange_init(runner, segment, call->micro, bound, &action->exchange);
      break;
    case SHOAL_OPCODE_COUNT:
      status = SHOAL_ERROR(INTERNAL, "an instruction without opcode");
      break;
  }
  return shoal_status_annotatef(status, "instruction %lld of segment '%s'", (long long)index,
                                segment);
}

// ---- all together ---------------------------------------------------------------------

static shoal_status_t build_call(shoal_runner_t *runner, const shoal_order_t *from, int64_t index,
                                 const shoal_bound_call_t *bound, shoal_run_order_t *order) {
  const int64_t c = index % order->call_count;
  shoal_action_t *actions = SHOAL_NEW(&runner->arena, shoal_action_t, bound->instruction_count);
  if (!actions) return SHOAL_OOM();
  for (int64_t i = 0; i < bound->instruction_count; ++i) {
    shoal_action_t *action = &actions[i];
    action->bound = &bound->instructions[i];
    SHOAL_RETURN_IF_ERROR(shoal_run_awaits_init(runner, from, order, c, i, action));
    SHOAL_RETURN_IF_ERROR(build_action(runner, order->graph, bound, i, action));
    SHOAL_RETURN_IF_ERROR(shoal_run_tap_init(runner, order->graph, bound->micro, action));
  }
  order->calls[index] = (shoal_run_call_t){.segment = bound->segment,
                                           .micro = bound->micro,
                                           .action_count = bound->instruction_count,
                                           .actions = actions};
  return NULL;
}

static shoal_status_t build_orders(shoal_runner_t *runner) {
  const shoal_bound_t *bound = &runner->bound;
  runner->orders = SHOAL_NEW(&runner->arena, shoal_run_order_t, bound->order_count);
  if (!runner->orders) return SHOAL_OOM();
  for (int64_t o = 0; o < bound->order_count; ++o) {
    const shoal_bound_order_t *from = &bound->orders[o];
    const int64_t count = bound->period * from->call_count;
    shoal_run_order_t *to = &runner->orders[runner->order_count++];
    *to = (shoal_run_order_t){.graph = from->graph,
                              .call_count = from->call_count,
                              .calls = SHOAL_NEW(&runner->arena, shoal_run_call_t, count)};
    if (!to->calls) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(shoal_run_posted_init(runner, &bound->rank_class->orders[o], to));
    for (int64_t c = 0; c < count; ++c) {
      SHOAL_RETURN_IF_ERROR(
          build_call(runner, &bound->rank_class->orders[o], c, &from->calls[c], to));
    }
    SHOAL_RETURN_IF_ERROR(shoal_run_transfers_finish(runner, to));
  }
  return NULL;
}

// ---- creating and freeing -------------------------------------------------------------

static shoal_status_t load(shoal_runner_t *runner) {
  const shoal_program_t *program = runner->program;
  const int32_t size = shoal_world_size(runner->world);
  if (program->world != size) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "the program is for %d ranks, the world has %d",
                       program->world, size);
  }
  SHOAL_RETURN_IF_ERROR(shoal_program_bind(program, runner->rank, &runner->arena, &runner->bound));
  SHOAL_RETURN_IF_ERROR(shoal_run_arenas_init(runner));
  SHOAL_RETURN_IF_ERROR(shoal_run_queues_init(runner));
  SHOAL_RETURN_IF_ERROR(shoal_run_taps_init(runner));
  SHOAL_RETURN_IF_ERROR(shoal_run_events_init(runner));
  SHOAL_RETURN_IF_ERROR(shoal_run_ports_init(runner));
  SHOAL_RETURN_IF_ERROR(build_orders(runner));
  shoal_run_meter_init(runner);
  return shoal_run_timers_init(runner);
}

static shoal_status_t make_groups(shoal_runner_t *runner) {
  const int32_t size = shoal_world_size(runner->world);
  if (size > 1) {
    SHOAL_RETURN_IF_ERROR(shoal_group_create(runner->world, size, NULL, &runner->everyone));
  }
  SHOAL_RETURN_IF_ERROR(shoal_run_moves_bind(runner));
  return shoal_run_queues_reserve(runner);
}

shoal_status_t shoal_runner_create(const shoal_program_t *program, shoal_world_t *world,
                                   shoal_device_t *device, const shoal_runner_options_t *options,
                                   shoal_runner_t **out_runner) {
  *out_runner = NULL;
  shoal_runner_options_t filled = options ? *options : (shoal_runner_options_t){0};
  if (!filled.allocator.alloc) filled.allocator = shoal_allocator_system();
  shoal_runner_t *runner = filled.allocator.alloc(filled.allocator.self, sizeof *runner);
  shoal_status_t status = NULL;
  if (runner) {
    *runner = (shoal_runner_t){
        .allocator = filled.allocator,
        .options = filled,
        .program = program,
        .world = world,
        .device = device,
        .rank = shoal_world_rank(world),
    };
    shoal_arena_init(filled.allocator, &runner->arena);
    status = shoal_mutex_init(&runner->tap_lock);
    if (!status) status = shoal_mutex_init(&runner->error_lock);
    if (!status) status = shoal_status_annotate(load(runner), "while loading the program");
    if (!status) status = shoal_run_saving_measure(runner);
  } else {
    status = SHOAL_OOM();
  }
  status = shoal_world_agree(world, status);
  if (!status) status = shoal_world_agree(world, make_groups(runner));
  if (status) {
    shoal_runner_free(runner);
    return status;
  }
  *out_runner = runner;
  return NULL;
}

void shoal_runner_free(shoal_runner_t *runner) {
  if (!runner) return;
  shoal_run_join(runner);  // what went wrong was, or will be, said by others
  shoal_saving_free(runner->saving);
  shoal_group_free(runner->save_group);
  shoal_run_moves_free(runner);
  for (int i = 0; i < SHOAL_MAX_QUEUES; ++i) shoal_queue_free(runner->queues[i]);
  shoal_group_free(runner->everyone);
  shoal_run_events_deinit(runner);
  shoal_run_ports_deinit(runner);
  shoal_run_arenas_deinit(runner);
  shoal_status_free(runner->broken);
  shoal_status_free(runner->error);
  shoal_mutex_deinit(&runner->error_lock);
  shoal_mutex_deinit(&runner->tap_lock);
  shoal_arena_deinit(&runner->arena);
  shoal_allocator_t allocator = runner->allocator;
  allocator.free(allocator.self, runner);
}

void shoal_runner_memory(const shoal_runner_t *runner, int64_t planned[SHOAL_MEMORY_COUNT],
                         int64_t touched[SHOAL_MEMORY_COUNT]) {
  for (int k = 0; k < SHOAL_RUN_AHEAD; ++k) {
    for (int q = 0; q < SHOAL_MAX_QUEUES; ++q) {
      shoal_event_t *end = runner->flights[k].ends[q];
      if (end) shoal_status_free(shoal_event_wait(end));  // of the device itself: others say it
    }
  }
  // Buffers are planned in whole blocks; the last one may be touched in part.
  for (int kind = 0; kind < SHOAL_MEMORY_COUNT; ++kind) {
    int64_t highest = runner->touched[kind];
    if (kind == SHOAL_MEMORY_DEVICE && runner->memory)
      highest = shoal_device_touched(runner->device, runner->memory);
    planned[kind] = runner->bound.rank_class->arena_bytes[kind];
    touched[kind] = highest < 0 ? -1 : (highest + BLOCK - 1) / BLOCK * BLOCK;
  }
}

// What a queue's thread touches of its stack; kernels keep their scratch in the arena.
enum { STACK = 128 << 10 };

int64_t shoal_runner_fixed(const shoal_runner_t *runner) {
  int64_t bytes = runner->message_bytes;
  for (int q = 0; q < SHOAL_MAX_QUEUES; ++q) bytes += runner->queues[q] ? STACK : 0;
  if (shoal_device_host_is_plain(runner->device))
    bytes -= runner->bound.rank_class->arena_bytes[SHOAL_MEMORY_HOST];
  return bytes;
}
