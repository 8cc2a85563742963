// The executor: walks an order, enqueues what load.c built, joins the queues at the end of each
// call.
//
// An error in the middle of a run breaks the world, so that no rank waits for what will not come;
// the run ends with an agreement, so that every rank returns the same error.
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "run/run_impl.h"

// ---- enqueueing -----------------------------------------------------------------------

static shoal_status_t enqueue_work(shoal_queue_t *queue, shoal_action_t *action) {
  if (action->bound->idle) return NULL;
  switch (action->bound->instruction->opcode) {
    case SHOAL_OPCODE_COMPUTE:
      return shoal_queue_launch(queue, &action->launch);
    case SHOAL_OPCODE_COPY:
    case SHOAL_OPCODE_ACCUMULATE:
      return shoal_queue_copy(queue, &action->copy);
    case SHOAL_OPCODE_FILL:
      return shoal_queue_fill(queue, &action->fill);
    case SHOAL_OPCODE_FEED:
      return shoal_run_feed(queue, &action->transfer);
    case SHOAL_OPCODE_FETCH:
      return shoal_run_fetch(queue, &action->transfer);
    case SHOAL_OPCODE_RESHARD:
      return shoal_carrier_enqueue(&action->move->carrier, queue);
    case SHOAL_OPCODE_COUNT:
      break;
  }
  return SHOAL_ERROR(INTERNAL, "an instruction without opcode");
}

static shoal_status_t enqueue(shoal_runner_t *runner, shoal_action_t *action,
                              shoal_run_timer_t *timer) {
  shoal_queue_t *queue = runner->queues[action->bound->instruction->queue];
  for (int32_t i = 0; i < action->await_count; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_queue_await(queue, action->awaits[i]));
  }
  if (timer && action->bound->idle) timer = NULL;
  if (timer) SHOAL_RETURN_IF_ERROR(shoal_queue_call(queue, shoal_run_timer_begin, timer));
  SHOAL_RETURN_IF_ERROR(enqueue_work(queue, action));
  if (timer) SHOAL_RETURN_IF_ERROR(shoal_queue_call(queue, shoal_run_timer_end, timer));
  return action->record ? shoal_queue_record(queue, action->record) : NULL;
}

// Breaks the world with this error, so that no rank waits for data that will not come. Does nothing
// in a world of one rank. NULL is allowed.
static void break_world(shoal_runner_t *runner, shoal_status_t status) {
  if (status && shoal_world_size(runner->world) > 1) shoal_world_abort(runner->world, status);
}

// A world of one has nobody to abort and stays good for others; the runner breaks alone.
shoal_status_t shoal_runner_agree(shoal_runner_t *runner, shoal_status_t status) {
  if (runner->broken) {
    shoal_status_free(status);
    return shoal_status_clone(runner->broken);
  }
  return shoal_world_agree(runner->world, status);
}

shoal_status_t shoal_run_finish(shoal_runner_t *runner, shoal_status_t status) {
  break_world(runner, status);
  if (status && shoal_world_size(runner->world) > 1 &&
      shoal_status_code(status) != SHOAL_DEADLINE) {
    shoal_status_free(status);  // every rank, this one too, returns what broke the world
    status = NULL;              // (where nobody came, each says in which instruction it waited)
  }
  status = shoal_runner_agree(runner, status);
  if (status && shoal_world_size(runner->world) == 1 && !runner->broken) {
    runner->broken = shoal_status_clone(status);
  }
  return status;
}

// Waits for all queues. The world is broken at the first error: another queue may hang on peers
// that will not come.
static shoal_status_t join_queues(shoal_runner_t *runner, shoal_status_t status) {
  break_world(runner, status);
  for (int32_t i = 0; i < runner->bound.rank_class->queue_count; ++i) {
    shoal_status_t next = shoal_queue_wait(runner->queues[i]);
    if (!status) break_world(runner, next);
    status = shoal_run_first(status, next);
  }
  return status;
}

// ---- taps -----------------------------------------------------------------------------

static shoal_status_t tap(shoal_runner_t *runner, const char *graph, int32_t micro,
                          const shoal_bound_instruction_t *bound) {
  shoal_queue_t *queue = runner->aside;
  for (int32_t i = 0; i < bound->instruction->output_count && !bound->idle; ++i) {
    const shoal_bound_buffer_t *part = bound->outputs[i];
    if (!part || bound->instruction->outputs[i] < 0) continue;
    const shoal_buffer_t *buffer =
        &runner->bound.rank_class->buffers[bound->instruction->outputs[i]];
    const int64_t bytes = part->count * (int64_t)shoal_dtype_size(part->type.dtype);
    SHOAL_RETURN_IF_ERROR(shoal_queue_download(
        queue, runner->memory + (shoal_address_t)part->offset, runner->tap_data, bytes));
    SHOAL_RETURN_IF_ERROR(shoal_queue_wait(queue));
    runner->options.tap(runner->options.tap_self, runner->rank, graph, buffer->name, buffer->layout,
                        &buffer->type, micro, runner->tap_data, bytes);
  }
  return NULL;
}

// ---- running --------------------------------------------------------------------------

static shoal_status_t run_call(shoal_runner_t *runner, const char *graph,
                               const shoal_run_call_t *call) {
  shoal_status_t status = NULL;
  for (int64_t i = 0; i < call->action_count && !status; ++i) {
    shoal_action_t *action = &call->actions[i];
    status = enqueue(runner, action, runner->timers ? &runner->timers[call->segment][i] : NULL);
    if (!runner->options.tap) continue;
    status = join_queues(runner, status);
    if (!status) status = tap(runner, graph, call->micro, action->bound);
  }
  status = join_queues(runner, status);
  for (int64_t i = 0; i < call->action_count && !status; ++i) {
    const shoal_action_t *action = &call->actions[i];
    if (action->bound->instruction->opcode != SHOAL_OPCODE_FETCH || action->bound->idle) continue;
    status = shoal_run_fetched(&action->transfer);
  }
  return status;
}

shoal_status_t shoal_run_find_order(const shoal_runner_t *runner, const char *graph,
                                    const shoal_run_order_t **out_order) {
  for (int64_t i = 0; i < runner->order_count; ++i) {
    *out_order = &runner->orders[i];
    if (strcmp(runner->orders[i].graph, graph) == 0) return NULL;
  }
  shoal_arena_t arena;
  shoal_arena_init(runner->allocator, &arena);
  const char **names = SHOAL_NEW(&arena, const char *, runner->order_count);
  for (int64_t i = 0; names && i < runner->order_count; ++i) names[i] = runner->orders[i].graph;
  shoal_status_t status = shoal_run_unknown("graph", graph, names, names ? runner->order_count : 0);
  shoal_arena_deinit(&arena);
  return status;
}

// A graph's outputs are lost while it runs: a run that fails leaves no answer, not half of one.
static void set_lost(shoal_runner_t *runner, const char *graph, bool lost) {
  for (int64_t i = 0; i < runner->program->output_count; ++i) {
    shoal_run_output_t *output = &runner->outputs[i];
    if (strcmp(output->port->graph, graph) != 0) continue;
    output->run = runner->run_count;
    output->lost = lost;
  }
}

shoal_status_t shoal_runner_run(shoal_runner_t *runner, const char *graph) {
  const shoal_run_order_t *order = NULL;
  shoal_status_t status = shoal_run_find_order(runner, graph, &order);
  if (!status) status = shoal_run_feed_check(runner, graph);
  const shoal_run_meeting_t meeting = {.call = "shoal_run", .name = graph, .graph = graph};
  SHOAL_RETURN_IF_ERROR(shoal_run_meet(runner, &meeting, status));
  ++runner->run_count;
  shoal_run_timer_t *timer = runner->timers ? &runner->run_timers[order - runner->orders] : NULL;
  if (timer) status = shoal_run_timer_begin(timer);
  set_lost(runner, graph, true);
  for (int64_t i = 0; i < order->call_count && !status; ++i) {
    status = run_call(runner, graph, &order->calls[i]);
  }
  break_world(runner, status);
  shoal_status_t drained = shoal_run_moves_drain(runner);
  SHOAL_RETURN_IF_ERROR(shoal_run_finish(runner, shoal_run_first(status, drained)));
  set_lost(runner, graph, false);
  if (!timer) return NULL;
  status = shoal_run_timer_end(timer);
  shoal_run_timers_forget(runner, order);
  return status;
}
