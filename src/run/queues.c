// Queues, and the events by which they wait for each other: inside a segment, for earlier calls,
// and at the end of a run. All are made at load.
#include "base/status.h"
#include "run/run_impl.h"

// ---- queues ---------------------------------------------------------------------------

// Only those that something lies on: each may be a thread.
shoal_status_t shoal_run_queues_init(shoal_runner_t *runner) {
  const shoal_class_t *rank_class = runner->bound.rank_class;
  bool used[SHOAL_MAX_QUEUES] = {true};
  for (int64_t s = 0; s < rank_class->segment_count; ++s) {
    const shoal_segment_t *segment = &rank_class->segments[s];
    for (int64_t i = 0; i < segment->instruction_count; ++i) {
      used[segment->instructions[i].queue] = true;
    }
  }
  for (int32_t q = 0; q < rank_class->queue_count; ++q) {
    if (!used[q]) continue;
    SHOAL_RETURN_IF_ERROR(shoal_queue_create(runner->device, &runner->queues[q]));
    shoal_queue_on_error(runner->queues[q], shoal_run_queue_failed, runner);
    for (int k = 0; k < SHOAL_RUN_AHEAD; ++k) {
      SHOAL_RETURN_IF_ERROR(shoal_event_create(runner->device, &runner->flights[k].ends[q]));
    }
  }
  runner->aside = runner->queues[0];
  return NULL;
}

static int64_t commands_of(const shoal_action_t *action) {
  const shoal_opcode_t opcode = action->bound->instruction->opcode;
  if (action->bound->idle) return 0;
  if (opcode == SHOAL_OPCODE_RESHARD) return shoal_carrier_commands(&action->move->carrier);
  if (opcode == SHOAL_OPCODE_EXCHANGE) return 5;
  if (shoal_run_is_offload(action->bound)) return 2 * action->offload.passage_count;
  return opcode == SHOAL_OPCODE_FEED || opcode == SHOAL_OPCODE_FETCH ? 2 : 1;
}

// Room on the queues for the commands of as many runs of the longest order as may be in flight, or
// for very many.
shoal_status_t shoal_run_queues_reserve(shoal_runner_t *runner) {
  enum { MOST = 1 << 16, METER = 2, TAP = 2, END = 4 };
  const int64_t stamps = METER + (runner->timers ? 2 : 0);
  const int32_t queue_count = runner->bound.rank_class->queue_count;
  int64_t most[SHOAL_MAX_QUEUES] = {0};
  for (int64_t o = 0; o < runner->order_count; ++o) {
    const shoal_run_order_t *order = &runner->orders[o];
    int64_t counts[SHOAL_MAX_QUEUES] = {0};
    for (int64_t c = 0; c < order->call_count; ++c) {
      for (int64_t i = 0; i < order->calls[c].action_count; ++i) {
        const shoal_action_t *action = &order->calls[c].actions[i];
        counts[action->bound->instruction->queue] +=
            commands_of(action) + stamps + TAP * action->tap_count + action->await_count +
            action->call_await_count + (action->record != NULL) + (action->posted != NULL);
      }
    }
    for (int32_t q = 0; q < queue_count; ++q) {
      if (counts[q] + END > most[q]) most[q] = counts[q] + END;
    }
  }
  for (int32_t q = 0; q < queue_count; ++q) {
    if (!runner->queues[q]) continue;
    const int64_t wanted = most[q] < MOST / SHOAL_RUN_AHEAD ? SHOAL_RUN_AHEAD * most[q] : MOST;
    SHOAL_RETURN_IF_ERROR(shoal_queue_reserve(runner->queues[q], wanted));
  }
  return NULL;
}

// ---- events ---------------------------------------------------------------------------

// Inside segments. Calls are enqueued one after the other, so those of a segment share them.

shoal_status_t shoal_run_events_init(shoal_runner_t *runner) {
  const shoal_class_t *rank_class = runner->bound.rank_class;
  runner->events = SHOAL_NEW(&runner->arena, shoal_event_t **, rank_class->segment_count);
  if (!runner->events) return SHOAL_OOM();
  for (int64_t s = 0; s < rank_class->segment_count; ++s) {
    const shoal_segment_t *segment = &rank_class->segments[s];
    shoal_event_t **events = SHOAL_NEW(&runner->arena, shoal_event_t *, segment->instruction_count);
    if (!events) return SHOAL_OOM();
    runner->events[s] = events;
    for (int64_t i = 0; i < segment->instruction_count; ++i) {
      const shoal_instruction_t *instruction = &segment->instructions[i];
      for (int32_t w = 0; w < instruction->wait_count; ++w) {
        const int32_t other = instruction->waits[w];
        if (!events[other]) {
          SHOAL_RETURN_IF_ERROR(shoal_event_create(runner->device, &events[other]));
        }
      }
    }
  }
  return NULL;
}

static shoal_status_t awaits_init(shoal_runner_t *runner, int32_t segment,
                                  const shoal_instruction_t *instruction, shoal_action_t *action) {
  shoal_event_t **awaits = SHOAL_NEW(&runner->arena, shoal_event_t *, instruction->wait_count);
  if (!awaits) return SHOAL_OOM();
  for (int32_t w = 0; w < instruction->wait_count; ++w) {
    awaits[w] = runner->events[segment][instruction->waits[w]];
  }
  action->awaits = awaits;
  action->await_count = instruction->wait_count;
  return NULL;
}

// Of waits into earlier calls. An event that is recorded in every step may not be recorded again
// before the last wait for it was enqueued: so there is one for every step that waits reach back.
shoal_status_t shoal_run_posted_init(shoal_runner_t *runner, const shoal_order_t *from,
                                     shoal_run_order_t *to) {
  const shoal_class_t *rank_class = runner->bound.rank_class;
  to->cycle = 1;
  to->posted = SHOAL_NEW(&runner->arena, shoal_event_t ***, from->call_count);
  if (!to->posted) return SHOAL_OOM();
  for (int64_t c = 0; c < from->call_count; ++c) {
    for (int32_t w = 0; w < from->calls[c].wait_count; ++w) {
      const int64_t cycle = from->calls[c].waits[w].back / from->call_count + 1;
      if (cycle > to->cycle) to->cycle = cycle;
    }
  }
  for (int64_t c = 0; c < from->call_count; ++c) {
    for (int32_t w = 0; w < from->calls[c].wait_count; ++w) {
      const shoal_call_wait_t *wait = &from->calls[c].waits[w];
      const shoal_segment_call_t *other = shoal_order_back(from, c, wait->back);
      const shoal_segment_t *segment = &rank_class->segments[other->segment];
      shoal_event_t ****posted = &to->posted[other - from->calls];
      if (!*posted)
        *posted = SHOAL_NEW(&runner->arena, shoal_event_t **, segment->instruction_count);
      if (!*posted) return SHOAL_OOM();
      shoal_event_t ***events = &(*posted)[wait->other];
      if (*events) continue;
      *events = SHOAL_NEW(&runner->arena, shoal_event_t *, to->cycle);
      if (!*events) return SHOAL_OOM();
      for (int64_t k = 0; k < to->cycle; ++k) {
        SHOAL_RETURN_IF_ERROR(shoal_event_create(runner->device, &(*events)[k]));
      }
    }
  }
  return NULL;
}

// Those of instruction `index` of call `c`. Waits on one's own queue are kept by its order.
static shoal_status_t call_awaits_init(shoal_runner_t *runner, const shoal_order_t *from,
                                       const shoal_run_order_t *to, int64_t c, int64_t index,
                                       shoal_action_t *action) {
  const shoal_class_t *rank_class = runner->bound.rank_class;
  const shoal_segment_call_t *call = &from->calls[c];
  shoal_run_await_t *awaits = NULL;
  for (int32_t w = 0; w < call->wait_count; ++w) {
    const shoal_call_wait_t *wait = &call->waits[w];
    const shoal_segment_call_t *other = shoal_order_back(from, c, wait->back);
    const int64_t at = other - from->calls;
    const shoal_segment_t *segment = &rank_class->segments[other->segment];
    if (wait->instruction != index ||
        segment->instructions[wait->other].queue == action->bound->instruction->queue) {
      continue;
    }
    if (!awaits) awaits = SHOAL_NEW(&runner->arena, shoal_run_await_t, call->wait_count);
    if (!awaits) return SHOAL_OOM();
    awaits[action->call_await_count++] = (shoal_run_await_t){
        .events = to->posted[at][wait->other],
        .steps = (wait->back - (c - at)) / from->call_count,
    };
  }
  action->call_awaits = awaits;
  return NULL;
}

shoal_status_t shoal_run_awaits_init(shoal_runner_t *runner, const shoal_order_t *from,
                                     const shoal_run_order_t *to, int64_t call, int64_t index,
                                     shoal_action_t *action) {
  const int32_t segment = from->calls[call].segment;
  action->record = runner->events[segment][index];
  action->posted = to->posted[call] ? to->posted[call][index] : NULL;
  SHOAL_RETURN_IF_ERROR(awaits_init(runner, segment, action->bound->instruction, action));
  return call_awaits_init(runner, from, to, call, index, action);
}

void shoal_run_events_deinit(shoal_runner_t *runner) {
  const shoal_class_t *rank_class = runner->bound.rank_class;
  for (int64_t s = 0; runner->events && s < rank_class->segment_count; ++s) {
    for (int64_t i = 0; runner->events[s] && i < rank_class->segments[s].instruction_count; ++i) {
      shoal_event_free(runner->events[s][i]);
    }
  }
  for (int64_t o = 0; o < runner->order_count; ++o) {
    const shoal_run_order_t *order = &runner->orders[o];
    const shoal_segment_call_t *calls = rank_class->orders[o].calls;
    for (int64_t c = 0; order->posted && c < order->call_count; ++c) {
      const int64_t count = rank_class->segments[calls[c].segment].instruction_count;
      for (int64_t i = 0; order->posted[c] && i < count; ++i) {
        shoal_event_t **posted = order->posted[c][i];
        for (int64_t k = 0; posted && k < order->cycle; ++k) shoal_event_free(posted[k]);
      }
    }
  }
  for (int q = 0; q < SHOAL_MAX_QUEUES; ++q) {
    for (int k = 0; k < SHOAL_RUN_AHEAD; ++k) shoal_event_free(runner->flights[k].ends[q]);
  }
}
