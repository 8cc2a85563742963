// The run: every actor's order as discrete events, for a few steps that follow each other.
//
// A queue starts its next instruction when the one before it and all it waits for, in its own call
// and in earlier ones, are done (queues.c). Calls and steps are not joined. An instruction that
// computes or copies ends after its price. A reshard *arrives* at its transfer - one for each use
// of a channel - and the transfer starts when all actors that send have arrived: those that receive
// then wait for it, those that only send go on (and their run lasts until it has been delivered).
//
// A transfer first moves its data, sharing links with others (traffic.c), then its latencies pass.
// Time is exact: nothing is sampled, and ties are taken in the order of actors and queues.
#include "simulate/queues.h"
#include "simulate/traffic.h"

// A completion: of an instruction, or of a transfer's latency.
typedef struct event {
  double time;
  int64_t number;  // earlier ones first
  int32_t actor, queue;
  shoal_sim_transfer_t *transfer;
} event_t;

typedef struct run {
  shoal_sim_t *sim;
  const shoal_sim_steps_t *steps;
  shoal_simulated_t *groups;
  shoal_sim_player_t *players;
  double now;
  int64_t number;
  SHOAL_VEC(event_t) heap;
  shoal_sim_traffic_t traffic;
} run_t;

// ---- the heap -------------------------------------------------------------------------

static bool before(const event_t *a, const event_t *b) {
  return a->time != b->time ? a->time < b->time : a->number < b->number;
}

static shoal_status_t push_event(run_t *run, event_t event) {
  event.number = run->number++;
  if (!SHOAL_PUSH(run->sim->arena, &run->heap, event)) return SHOAL_OOM();
  int64_t i = run->heap.count - 1;
  for (; i > 0 && before(&event, &run->heap.items[(i - 1) / 2]); i = (i - 1) / 2) {
    run->heap.items[i] = run->heap.items[(i - 1) / 2];
  }
  run->heap.items[i] = event;
  return NULL;
}

static event_t pop_event(run_t *run) {
  const event_t top = run->heap.items[0], last = run->heap.items[--run->heap.count];
  int64_t i = 0;
  for (int64_t child; (child = 2 * i + 1) < run->heap.count; i = child) {
    if (child + 1 < run->heap.count &&
        before(&run->heap.items[child + 1], &run->heap.items[child])) {
      ++child;
    }
    if (!before(&run->heap.items[child], &last)) break;
    run->heap.items[i] = run->heap.items[child];
  }
  run->heap.items[i] = last;
  return top;
}

// ---- figures --------------------------------------------------------------------------

static const shoal_instruction_t *head_of(const shoal_sim_queue_t *queue) {
  return &queue->segment->instructions[shoal_sim_queue_head(queue)];
}

static shoal_queue_kind_t kind_of(const run_t *run, int32_t actor, const shoal_instruction_t *in) {
  return run->sim->actors[actor].rank_class->queues[in->queue].kind;
}

static bool counts(const run_t *run, shoal_sim_party_t party) {
  const shoal_sim_player_t *player = &run->players[party.actor];
  return shoal_sim_queue_step(player, &player->queues[party.queue]) == run->steps->counted;
}

static shoal_status_t add_span(run_t *run, shoal_sim_party_t party, bool waits, double start,
                               double end) {
  if (!run->steps->spans || end <= start) return NULL;
  const shoal_sim_player_t *player = &run->players[party.actor];
  const shoal_sim_queue_t *queue = &player->queues[party.queue];
  const shoal_simulated_span_t span = {.group = party.actor,
                                       .queue = head_of(queue)->queue,
                                       .waits = waits,
                                       .name = head_of(queue)->name,
                                       .segment = queue->segment->name,
                                       .instruction = shoal_sim_queue_head(queue),
                                       .step = (int32_t)shoal_sim_queue_step(player, queue),
                                       .call = queue->call % player->order->call_count,
                                       .micro = queue->micro,
                                       .start = start,
                                       .end = end};
  return SHOAL_PUSH(run->sim->arena, run->steps->spans, span) ? NULL : SHOAL_OOM();
}

// The instruction at the queue's head works from now on; while it does, what others communicate is
// hidden if it computes.
static void begin_work(run_t *run, shoal_sim_party_t party) {
  shoal_sim_player_t *player = &run->players[party.actor];
  shoal_sim_queue_t *queue = &player->queues[party.queue];
  queue->idle = shoal_sim_player_idle(player, run->now);
  if (kind_of(run, party.actor, head_of(queue)) != SHOAL_QUEUE_COMPUTE) return;
  player->idle = queue->idle;
  ++player->computing;
}

// It has worked from `start`, for `seconds`.
static shoal_status_t end_work(run_t *run, shoal_sim_party_t party, double start, double seconds) {
  shoal_sim_player_t *player = &run->players[party.actor];
  shoal_simulated_t *group = &run->groups[party.actor];
  const shoal_sim_queue_t *queue = &player->queues[party.queue];
  const shoal_queue_kind_t kind = kind_of(run, party.actor, head_of(queue));
  if (counts(run, party)) {
    group->busy[kind] += seconds;
    group->queues[head_of(queue)->queue].busy += seconds;
    if (kind == SHOAL_QUEUE_COMM) {
      group->exposed += shoal_sim_player_idle(player, run->now) - queue->idle;
    }
  }
  if (kind == SHOAL_QUEUE_COMPUTE && --player->computing == 0) player->since = run->now;
  return add_span(run, party, false, start, run->now);
}

// ---- instructions ---------------------------------------------------------------------

static shoal_status_t start_queues(run_t *run, int32_t actor);

static shoal_status_t finish_instruction(run_t *run, shoal_sim_party_t party) {
  shoal_sim_player_t *player = &run->players[party.actor];
  shoal_sim_queue_t *queue = &player->queues[party.queue];
  double *end = &run->steps->ends[shoal_sim_queue_step(player, queue)];
  if (run->now > *end) *end = run->now;
  if (run->now > run->groups[party.actor].seconds) run->groups[party.actor].seconds = run->now;
  return shoal_sim_queue_next(run->sim, player, queue);
}

// A reshard that waited for the transfer is done.
static shoal_status_t finish_reshard(run_t *run, shoal_sim_party_t party,
                                     const shoal_sim_transfer_t *transfer) {
  const double arrived = run->players[party.actor].queues[party.queue].started;
  const double start = transfer->start > arrived ? transfer->start : arrived;
  if (counts(run, party)) run->groups[party.actor].waiting += start - arrived;
  SHOAL_RETURN_IF_ERROR(add_span(run, party, true, arrived, start));
  SHOAL_RETURN_IF_ERROR(end_work(run, party, start, run->now - start));
  SHOAL_RETURN_IF_ERROR(finish_instruction(run, party));
  return start_queues(run, party.actor);
}

static shoal_status_t deliver(run_t *run, shoal_sim_transfer_t *transfer) {
  transfer->delivered = true;
  for (int64_t i = 0; i < transfer->lazy.count; ++i) {
    const int32_t actor = transfer->lazy.items[i];
    if (run->now > run->groups[actor].seconds) run->groups[actor].seconds = run->now;
  }
  for (int64_t i = 0; i < transfer->blocked.count; ++i) {
    SHOAL_RETURN_IF_ERROR(finish_reshard(run, transfer->blocked.items[i], transfer));
  }
  return NULL;
}

// Work of a rank alone. *out_done: it takes no time.
static shoal_status_t start_alone(run_t *run, shoal_sim_party_t party, double seconds,
                                  bool *out_done) {
  *out_done = seconds <= 0;
  if (*out_done) return NULL;
  begin_work(run, party);
  run->players[party.actor].queues[party.queue].alone = seconds;
  return push_event(
      run, (event_t){.time = run->now + seconds, .actor = party.actor, .queue = party.queue});
}

// The last sender has arrived: whoever waits for data gets it from now on.
static shoal_status_t start_transfer(run_t *run, shoal_sim_transfer_t *transfer) {
  for (int64_t i = 0; i < transfer->blocked.count; ++i) begin_work(run, transfer->blocked.items[i]);
  return shoal_sim_traffic_start(&run->traffic, run->now, transfer);
}

// Arrives at the transfer. *out_done: nothing more is to be waited for.
static shoal_status_t start_reshard(run_t *run, shoal_sim_party_t party, double price,
                                    bool *out_done) {
  shoal_sim_t *sim = run->sim;
  shoal_sim_player_t *player = &run->players[party.actor];
  const shoal_sim_queue_t *queue = &player->queues[party.queue];
  const int32_t channel = head_of(queue)->channels[0];
  const shoal_sim_flow_t *flows;
  SHOAL_RETURN_IF_ERROR(shoal_sim_reshard(sim, head_of(queue), queue->variant, &flows));
  const shoal_sim_flow_t *mine = &flows[party.actor];
  const int64_t use = player->uses[channel]++;
  *out_done = false;
  if (!mine->sends && !mine->receives) {  // it copies in its own memory
    const double rate = sim->actors[party.actor].target.bytes_per_second;
    return start_alone(run, party, price > 0 ? price : mine->local / rate, out_done);
  }
  for (int level = 0; level < SHOAL_SIM_LEVELS && counts(run, party); ++level) {
    run->groups[party.actor].sent[level] += mine->bytes[SHOAL_SIM_OUT][level];
  }
  shoal_sim_transfer_t *transfer;
  SHOAL_RETURN_IF_ERROR(shoal_sim_traffic_find(&run->traffic, channel, queue->variant, party.actor,
                                               use, flows, &transfer));
  const bool sends = mine->sends || transfer->load->unseen;
  if (!mine->receives) {
    *out_done = true;
    if (!SHOAL_PUSH(sim->arena, &transfer->lazy, party.actor)) return SHOAL_OOM();
  } else if (transfer->delivered) {
    *out_done = true;
    return NULL;
  } else {
    if (!SHOAL_PUSH(sim->arena, &transfer->blocked, party)) return SHOAL_OOM();
    if (!sends && transfer->awaited == 0) begin_work(run, party);  // it is under way
  }
  if (!sends || --transfer->awaited > 0) return NULL;
  return start_transfer(run, transfer);
}

// Starts what it can on one queue; what takes no time ends at once. *out_ended: something ended.
static shoal_status_t start_queue(run_t *run, shoal_sim_party_t party, bool *out_ended) {
  shoal_sim_player_t *player = &run->players[party.actor];
  shoal_sim_queue_t *queue = &player->queues[party.queue];
  while (!queue->running && shoal_sim_queue_head(queue) >= 0) {
    if (!shoal_sim_queue_ready(player, queue)) return NULL;
    const double seconds = queue->seconds[shoal_sim_queue_head(queue)];
    bool done;
    queue->running = true;
    queue->started = run->now;
    if (head_of(queue)->channels) {
      SHOAL_RETURN_IF_ERROR(start_reshard(run, party, seconds, &done));
    } else {
      SHOAL_RETURN_IF_ERROR(start_alone(run, party, seconds, &done));
    }
    if (!done) return NULL;
    *out_ended = true;
    SHOAL_RETURN_IF_ERROR(finish_instruction(run, party));
  }
  return NULL;
}

static shoal_status_t start_queues(run_t *run, int32_t actor) {
  bool ended = true;
  while (ended) {
    ended = false;
    for (int32_t queue = 0; queue < run->players[actor].queue_count; ++queue) {
      SHOAL_RETURN_IF_ERROR(start_queue(run, (shoal_sim_party_t){actor, queue}, &ended));
    }
  }
  return NULL;
}

// ---- all together ---------------------------------------------------------------------

// Names a reshard that waits for others, of the first actor that is not through.
static shoal_status_t stuck(const run_t *run) {
  for (int64_t a = 0; a < run->sim->actor_count; ++a) {
    const shoal_sim_player_t *player = &run->players[a];
    const shoal_sim_queue_t *left = NULL;
    for (int q = 0; q < player->queue_count; ++q) {
      const shoal_sim_queue_t *queue = &player->queues[q];
      if (shoal_sim_queue_head(queue) < 0) continue;
      left = queue;
      if (!queue->running) continue;
      return SHOAL_ERROR_HINT(
          MISMATCH, "shoal_program_check says where classes do not match",
          "the ranks wait for each other: class %lld does not get beyond '%s' of segment '%s'",
          (long long)run->sim->actors[a].class_index, head_of(queue)->name, queue->segment->name);
    }
    if (!left) continue;
    return SHOAL_ERROR(MISMATCH, "segment '%s' of class %lld waits for itself at '%s'",
                       left->segment->name, (long long)run->sim->actors[a].class_index,
                       head_of(left)->name);
  }
  return NULL;
}

static shoal_status_t loop(run_t *run) {
  for (int32_t a = 0; a < run->sim->actor_count; ++a) {
    SHOAL_RETURN_IF_ERROR(start_queues(run, a));
  }
  for (;;) {
    int64_t index;
    const double next = shoal_sim_traffic_next(&run->traffic, &index);
    const bool moves = index >= 0, waits = run->heap.count > 0;
    if (!moves && !waits) return stuck(run);
    if (waits && (!moves || run->heap.items[0].time <= run->now + next)) {
      const event_t event = pop_event(run);
      shoal_sim_traffic_pass(&run->traffic, event.time - run->now);
      run->now = event.time;
      if (event.transfer) {
        SHOAL_RETURN_IF_ERROR(deliver(run, event.transfer));
      } else {
        const shoal_sim_party_t party = {event.actor, event.queue};
        const shoal_sim_queue_t *queue = &run->players[event.actor].queues[event.queue];
        SHOAL_RETURN_IF_ERROR(end_work(run, party, queue->started, queue->alone));
        SHOAL_RETURN_IF_ERROR(finish_instruction(run, party));
        SHOAL_RETURN_IF_ERROR(start_queues(run, event.actor));
      }
    } else {
      shoal_sim_traffic_pass(&run->traffic, next);
      run->now += next;
      shoal_sim_transfer_t *transfer = shoal_sim_traffic_take(&run->traffic, index);
      SHOAL_RETURN_IF_ERROR(push_event(
          run, (event_t){.time = run->now + transfer->load->latency, .transfer = transfer}));
    }
  }
}

shoal_status_t shoal_sim_run(shoal_sim_t *sim, const shoal_sim_steps_t *steps,
                             shoal_simulated_t *groups) {
  run_t run = {.sim = sim, .steps = steps, .groups = groups};
  SHOAL_RETURN_IF_ERROR(shoal_sim_traffic_init(sim, steps->count, &run.traffic));
  SHOAL_RETURN_IF_ERROR(shoal_sim_players_create(sim, steps->count, &run.players));
  return loop(&run);
}
