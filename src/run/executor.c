// The executor: walks an order and enqueues what load.c built. It joins nothing: queues run in
// order, and wait for each other where the program says so, across calls and steps.
//
// The host may be two runs ahead: a run waits for the end of the one before the last. An error in
// the middle of a run breaks the world from the thread it comes up on (broken.c).
#include <string.h>

#include "base/status.h"
#include "base/time.h"
#include "comm/progress.h"
#include "run/run_impl.h"

// ---- enqueueing -----------------------------------------------------------------------

static shoal_status_t enqueue_work(shoal_queue_t *queue, int32_t index, shoal_action_t *action) {
  switch (action->bound->instruction->opcode) {
    case SHOAL_OPCODE_COMPUTE:
      return shoal_queue_launch(queue, &action->launch);
    case SHOAL_OPCODE_COPY:
    case SHOAL_OPCODE_ACCUMULATE:
      if (shoal_run_is_offload(action->bound)) return shoal_run_offload(queue, &action->offload);
      return shoal_queue_copy(queue, &action->copy);
    case SHOAL_OPCODE_ASSEMBLE:
      return shoal_queue_copy(queue, &action->copy);
    case SHOAL_OPCODE_FILL:
      return shoal_queue_fill(queue, &action->fill);
    case SHOAL_OPCODE_FEED:
      return shoal_run_feed(queue, index, &action->transfer);
    case SHOAL_OPCODE_FETCH:
      return shoal_run_fetch(queue, index, &action->transfer);
    case SHOAL_OPCODE_RESHARD:
      return shoal_carrier_enqueue(&action->move->carrier, queue);
    case SHOAL_OPCODE_EXCHANGE:
      return shoal_run_exchange(queue, action->exchange);
    case SHOAL_OPCODE_COUNT:
      break;
  }
  return SHOAL_ERROR(INTERNAL, "an instruction without opcode");
}

// Waits for earlier calls that no run since the join has made are over.
static shoal_status_t await_calls(shoal_queue_t *queue, const shoal_action_t *action, int64_t step,
                                  int64_t cycle) {
  for (int32_t i = 0; i < action->call_await_count; ++i) {
    const shoal_run_await_t *await = &action->call_awaits[i];
    if (await->steps > step) continue;
    SHOAL_RETURN_IF_ERROR(shoal_queue_await(queue, await->events[(step - await->steps) % cycle]));
  }
  return NULL;
}

static shoal_status_t enqueue(shoal_runner_t *runner, shoal_action_t *action, int64_t step,
                              int64_t cycle, shoal_run_timer_t *timer) {
  const int32_t index = action->bound->instruction->queue;
  shoal_queue_t *queue = runner->queues[index];
  const bool waits = action->await_count + action->call_await_count > 0;
  if (waits) SHOAL_RETURN_IF_ERROR(shoal_run_meter_pause(runner, index));
  for (int32_t i = 0; i < action->await_count; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_queue_await(queue, action->awaits[i]));
  }
  SHOAL_RETURN_IF_ERROR(await_calls(queue, action, step, cycle));
  if (waits) SHOAL_RETURN_IF_ERROR(shoal_run_meter_go_on(runner, index));
  if (!action->bound->idle) {
    SHOAL_RETURN_IF_ERROR(shoal_run_meter_begin(runner, action));
    if (timer) SHOAL_RETURN_IF_ERROR(shoal_queue_call(queue, shoal_run_timer_begin, timer));
    SHOAL_RETURN_IF_ERROR(enqueue_work(queue, index, action));
    if (timer) SHOAL_RETURN_IF_ERROR(shoal_queue_call(queue, shoal_run_timer_end, timer));
    SHOAL_RETURN_IF_ERROR(shoal_run_meter_end(runner, action));
    if (action->taps) SHOAL_RETURN_IF_ERROR(shoal_run_tap(queue, action));
  }
  if (action->posted) {
    SHOAL_RETURN_IF_ERROR(shoal_queue_record(queue, action->posted[step % cycle]));
  }
  return action->record ? shoal_queue_record(queue, action->record) : NULL;
}

static shoal_status_t enqueue_order(shoal_runner_t *runner, const shoal_run_order_t *order) {
  const int64_t step = runner->step;
  const shoal_run_call_t *calls = order->calls + step % runner->bound.period * order->call_count;
  const bool timed = runner->timers && order->run_count > 0;  // the first touches memory anew
  for (int64_t c = 0; c < order->call_count; ++c) {
    for (int64_t i = 0; i < calls[c].action_count; ++i) {
      SHOAL_RETURN_IF_ERROR(enqueue(runner, &calls[c].actions[i], step, order->cycle,
                                    timed ? &runner->timers[calls[c].segment][i] : NULL));
    }
  }
  return NULL;
}

// ---- runs in flight -------------------------------------------------------------------

// Waits until a run has ended.
static shoal_status_t land(shoal_runner_t *runner, shoal_run_flight_t *flight) {
  for (int32_t q = 0; q < runner->bound.rank_class->queue_count; ++q) {
    if (flight->ends[q]) SHOAL_RETURN_IF_ERROR(shoal_event_wait(flight->ends[q]));
  }
  shoal_run_timer_land(runner, flight);
  return NULL;
}

static shoal_status_t mark_end(shoal_runner_t *runner, shoal_run_flight_t *flight) {
  for (int32_t q = 0; q < runner->bound.rank_class->queue_count; ++q) {
    shoal_queue_t *queue = runner->queues[q];
    if (!queue) continue;
    SHOAL_RETURN_IF_ERROR(shoal_run_meter_pause(runner, q));
    if (runner->timers) {
      SHOAL_RETURN_IF_ERROR(shoal_queue_call(queue, shoal_run_timer_stamp, &flight->stamps[q]));
    }
    SHOAL_RETURN_IF_ERROR(shoal_queue_record(queue, flight->ends[q]));
  }
  return NULL;
}

void shoal_run_join(shoal_runner_t *runner) {
  if (!runner->steady) return;
  // The agreement first: ranks that differ may have left work on the queues that hangs.
  shoal_run_agree_collect(runner);
  ++runner->counters.joins;
  for (int32_t q = 0; q < runner->bound.rank_class->queue_count; ++q) {
    // What failed has been told to shoal_run_queue_failed.
    if (runner->queues[q]) shoal_status_free(shoal_queue_wait(runner->queues[q]));
  }
  shoal_run_break(runner, shoal_run_moves_drain(runner));
  for (int64_t i = runner->run_count; i < runner->run_count + SHOAL_RUN_AHEAD; ++i) {
    shoal_run_timer_land(runner, &runner->flights[i % SHOAL_RUN_AHEAD]);
  }
  runner->steady = NULL;
}

// ---- running --------------------------------------------------------------------------

shoal_status_t shoal_run_find_order(const shoal_runner_t *runner, const char *graph,
                                    shoal_run_order_t **out_order) {
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

// Everything is joined, and all ranks are here with the same graph.
static shoal_status_t begin_first(shoal_runner_t *runner, const char *graph) {
  shoal_run_order_t *order = NULL;
  shoal_status_t status = shoal_run_find_order(runner, graph, &order);
  if (!status) status = shoal_run_feed_check(order);
  const shoal_run_meeting_t meeting = {
      .call = "shoal_run", .name = graph, .order = status ? NULL : order};
  SHOAL_RETURN_IF_ERROR(shoal_run_meet(runner, &meeting, status));
  runner->steady = order;
  runner->step = 0;
  return NULL;
}

static shoal_status_t begin_steady(shoal_runner_t *runner) {
  SHOAL_RETURN_IF_ERROR(shoal_run_broken(runner));
  return shoal_run_agree_before(runner);
}

static shoal_status_t enqueue_run(shoal_runner_t *runner) {
  shoal_run_order_t *order = runner->steady;
  shoal_run_flight_t *flight = &runner->flights[runner->run_count % SHOAL_RUN_AHEAD];
  SHOAL_RETURN_IF_ERROR(land(runner, flight));
  ++runner->run_count;
  if (runner->everyone) {
    shoal_progress_tell(runner->everyone, (uint64_t)runner->counters.meetings,
                        (uint64_t)runner->run_count);
  }
  for (int64_t i = 0; i < order->outputs.count; ++i) {
    shoal_run_output_t *output = order->outputs.items[i];
    output->store.slot = (output->store.slot + 1) % SHOAL_RUN_AHEAD;
    output->run = runner->run_count;
  }
  if (runner->timers) {
    flight->begin = shoal_time_ns();
    flight->timer = order->run_count > 0 ? &runner->run_timers[order - runner->orders] : NULL;
  }
  if (runner->meter.compute >= 0)
    SHOAL_RETURN_IF_ERROR(shoal_run_meter_go_on(runner, runner->meter.compute));
  SHOAL_RETURN_IF_ERROR(enqueue_order(runner, order));
  SHOAL_RETURN_IF_ERROR(mark_end(runner, flight));
  for (int64_t i = 0; i < order->inputs.count; ++i) order->inputs.items[i]->used = true;
  ++order->run_count;
  ++runner->step;
  return NULL;
}

shoal_status_t shoal_runner_run(shoal_runner_t *runner, const char *graph) {
  const bool steady = runner->steady && strcmp(runner->steady->graph, graph) == 0;
  SHOAL_RETURN_IF_ERROR(steady ? begin_steady(runner) : begin_first(runner, graph));
  shoal_status_t status = enqueue_run(runner);
  if (!status && steady) status = shoal_run_agree_after(runner);
  if (!status && !steady) shoal_run_agree_reset(runner);
  if (!status) return NULL;
  shoal_run_break(runner, status);
  return shoal_run_broken(runner);
}

shoal_runner_counters_t shoal_runner_counters(const shoal_runner_t *runner) {
  shoal_runner_counters_t counters = runner->counters;
  counters.runs = runner->run_count;
  counters.exchanged = atomic_load(&runner->exchanged);
  counters.communication = atomic_load(&runner->meter.communication);
  counters.exposed = atomic_load(&runner->meter.exposed);
  return counters;
}
