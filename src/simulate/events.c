// The run: every actor's order as discrete events.
//
// A queue starts its next instruction when the one before it and all it waits for are done; a call
// starts when the one before it is. An instruction that computes or copies ends after its price. A
// reshard *arrives* at its transfer - one for each use of a channel - and the transfer starts when
// all actors that send have arrived: those that receive then wait for it, those that only send go
// on (and are waited for at the end of the run, as the executor does).
//
// A transfer first moves its data, sharing links with others (traffic.c), then its latencies pass.
// Time is exact: nothing is sampled, and ties are taken in the order of actors and queues.
#include "simulate/traffic.h"

typedef struct lane {
  const int32_t *items;  // instructions of the call on this queue
  int64_t count, at;
  bool running;
  double started;
} lane_t;

// Instructions of a segment that are on one queue.
typedef struct lane_list {
  int32_t *items;
  int64_t count;
} lane_list_t;

typedef struct player {
  int64_t call;  // under way
  const shoal_segment_t *segment;
  int32_t micro, variant;
  const double *seconds;
  int64_t left;  // instructions of the call that are not done
  bool *done;
  lane_t lanes[SHOAL_MAX_QUEUES];
  int64_t *uses;  // of each channel so far
  bool finished;
} player_t;

// A completion: of an instruction, or of a transfer's latency.
typedef struct event {
  double time;
  int64_t number;  // earlier ones first
  int32_t actor, queue;
  shoal_sim_transfer_t *transfer;
} event_t;

typedef struct run {
  shoal_sim_t *sim;
  shoal_simulated_t *groups;
  shoal_sim_spans_t *spans;
  player_t *players;
  double now;
  int64_t number;
  SHOAL_VEC(event_t) heap;
  shoal_sim_traffic_t traffic;
  lane_list_t **lists;  // [class][segment * queues + queue]
  bool one_queue;       // everything of a rank runs one after the other
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

// ---- spans ----------------------------------------------------------------------------

static shoal_queue_kind_t kind_of(const run_t *run, int32_t actor, const shoal_instruction_t *in) {
  return run->sim->actors[actor].rank_class->queues[in->queue].kind;
}

static shoal_status_t add_span(run_t *run, int32_t actor, int32_t queue, bool waits, double start,
                               double end) {
  if (!run->spans || end <= start) return NULL;
  const player_t *player = &run->players[actor];
  const lane_t *lane = &player->lanes[queue];
  const shoal_instruction_t *in = &player->segment->instructions[lane->items[lane->at]];
  const shoal_simulated_span_t span = {.group = actor,
                                       .queue = kind_of(run, actor, in),
                                       .waits = waits,
                                       .name = in->name,
                                       .segment = player->segment->name,
                                       .micro = player->micro,
                                       .start = start,
                                       .end = end};
  return SHOAL_PUSH(run->sim->arena, run->spans, span) ? NULL : SHOAL_OOM();
}

// ---- instructions ---------------------------------------------------------------------

static shoal_status_t start_calls(run_t *run, int32_t actor);
static shoal_status_t start_lanes(run_t *run, int32_t actor);

static shoal_status_t finish_instruction(run_t *run, int32_t actor, int32_t queue) {
  player_t *player = &run->players[actor];
  lane_t *lane = &player->lanes[queue];
  player->done[lane->items[lane->at++]] = true;
  lane->running = false;
  if (run->now > run->groups[actor].seconds) run->groups[actor].seconds = run->now;
  if (--player->left > 0) return NULL;
  ++player->call;
  return start_calls(run, actor);
}

// A reshard that waited for the transfer is done.
static shoal_status_t finish_reshard(run_t *run, shoal_sim_party_t party,
                                     const shoal_sim_transfer_t *transfer) {
  shoal_simulated_t *group = &run->groups[party.actor];
  const double arrived = run->players[party.actor].lanes[party.queue].started;
  const double start = transfer->start > arrived ? transfer->start : arrived;
  group->waiting += start - arrived;
  group->busy[SHOAL_QUEUE_COMM] += run->now - start;
  SHOAL_RETURN_IF_ERROR(add_span(run, party.actor, party.queue, true, arrived, start));
  SHOAL_RETURN_IF_ERROR(add_span(run, party.actor, party.queue, false, start, run->now));
  SHOAL_RETURN_IF_ERROR(finish_instruction(run, party.actor, party.queue));
  return start_lanes(run, party.actor);
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

// A reshard in which this rank neither sends nor receives copies in its own memory.
static shoal_status_t start_local(run_t *run, shoal_sim_party_t party, shoal_queue_kind_t queue,
                                  double seconds, bool *out_done) {
  run->groups[party.actor].busy[queue] += seconds;
  *out_done = seconds <= 0;
  if (*out_done) return NULL;
  SHOAL_RETURN_IF_ERROR(
      add_span(run, party.actor, party.queue, false, run->now, run->now + seconds));
  return push_event(
      run, (event_t){.time = run->now + seconds, .actor = party.actor, .queue = party.queue});
}

// Arrives at the transfer. *out_done: nothing more is to be waited for.
static shoal_status_t start_reshard(run_t *run, shoal_sim_party_t party,
                                    const shoal_instruction_t *in, double price, bool *out_done) {
  shoal_sim_t *sim = run->sim;
  player_t *player = &run->players[party.actor];
  const shoal_sim_flow_t *flows;
  SHOAL_RETURN_IF_ERROR(shoal_sim_channel(sim, in->channel, player->variant, &flows));
  const shoal_sim_flow_t *mine = &flows[party.actor];
  const int64_t use = player->uses[in->channel]++;
  *out_done = false;
  if (!mine->sends && !mine->receives) {
    const double rate = sim->actors[party.actor].target.bytes_per_second;
    return start_local(run, party, kind_of(run, party.actor, in),
                       price > 0 ? price : mine->local / rate, out_done);
  }
  for (int level = 0; level < SHOAL_SIM_LEVELS; ++level) {
    run->groups[party.actor].sent[level] += mine->bytes[SHOAL_SIM_OUT][level];
  }
  shoal_sim_transfer_t *transfer;
  SHOAL_RETURN_IF_ERROR(shoal_sim_traffic_find(&run->traffic, in->channel, player->variant,
                                               party.actor, use, flows, &transfer));
  if (!mine->receives) {
    *out_done = true;
    if (!SHOAL_PUSH(sim->arena, &transfer->lazy, party.actor)) return SHOAL_OOM();
  } else if (transfer->delivered) {
    *out_done = true;
    return NULL;
  } else if (!SHOAL_PUSH(sim->arena, &transfer->blocked, party)) {
    return SHOAL_OOM();
  }
  if (!mine->sends || --transfer->awaited > 0) return NULL;
  return shoal_sim_traffic_start(&run->traffic, run->now, transfer);
}

static bool may_start(const player_t *player, const shoal_instruction_t *in) {
  for (int32_t w = 0; w < in->wait_count; ++w) {
    if (!player->done[in->waits[w]]) return false;
  }
  return true;
}

// Starts what it can on one lane; what takes no time ends at once. *out_ended: something ended.
static shoal_status_t start_lane(run_t *run, int32_t actor, int32_t queue, bool *out_ended) {
  player_t *player = &run->players[actor];
  lane_t *lane = &player->lanes[queue];
  const int64_t call = player->call;
  while (!player->finished && player->call == call && !lane->running && lane->at < lane->count) {
    const int32_t index = lane->items[lane->at];
    const shoal_instruction_t *in = &player->segment->instructions[index];
    if (!may_start(player, in)) return NULL;
    const double seconds = player->seconds[index];
    bool done = false;
    lane->running = true;
    lane->started = run->now;
    if (in->opcode == SHOAL_OPCODE_RESHARD) {
      SHOAL_RETURN_IF_ERROR(
          start_reshard(run, (shoal_sim_party_t){actor, queue}, in, seconds, &done));
    } else {
      run->groups[actor].busy[kind_of(run, actor, in)] += seconds;
      done = seconds <= 0;
      SHOAL_RETURN_IF_ERROR(add_span(run, actor, queue, false, run->now, run->now + seconds));
      if (!done) {
        SHOAL_RETURN_IF_ERROR(
            push_event(run, (event_t){.time = run->now + seconds, .actor = actor, .queue = queue}));
      }
    }
    if (!done) return NULL;
    *out_ended = true;
    SHOAL_RETURN_IF_ERROR(finish_instruction(run, actor, queue));
  }
  return NULL;
}

static shoal_status_t start_lanes(run_t *run, int32_t actor) {
  bool ended = true;
  while (ended) {
    ended = false;
    for (int32_t queue = 0; queue < SHOAL_MAX_QUEUES; ++queue) {
      SHOAL_RETURN_IF_ERROR(start_lane(run, actor, queue, &ended));
    }
  }
  return NULL;
}

// ---- calls ----------------------------------------------------------------------------

static shoal_status_t list_lanes(run_t *run, const shoal_segment_t *segment, lane_list_t *lists) {
  for (int64_t i = 0; i < segment->instruction_count; ++i) {
    ++lists[run->one_queue ? 0 : segment->instructions[i].queue].count;
  }
  for (int q = 0; q < SHOAL_MAX_QUEUES; ++q) {
    lists[q].items = SHOAL_NEW(run->sim->arena, int32_t, lists[q].count);
    if (!lists[q].items) return SHOAL_OOM();
    lists[q].count = 0;
  }
  for (int64_t i = 0; i < segment->instruction_count; ++i) {
    lane_list_t *list = &lists[run->one_queue ? 0 : segment->instructions[i].queue];
    list->items[list->count++] = (int32_t)i;
  }
  return NULL;
}

// Goes to the next call that has instructions, or to the end.
static shoal_status_t start_calls(run_t *run, int32_t actor) {
  shoal_sim_t *sim = run->sim;
  player_t *player = &run->players[actor];
  const shoal_sim_actor_t *who = &sim->actors[actor];
  for (; who->order && player->call < who->order->call_count; ++player->call) {
    const shoal_segment_call_t *call = &who->order->calls[player->call];
    const shoal_segment_t *segment = &who->rank_class->segments[call->segment];
    if (segment->instruction_count == 0) continue;
    const int32_t micro = call->micro < sim->program->micro ? call->micro : -1;
    player->segment = segment;
    player->micro = call->micro;
    player->variant = sim->variants[micro + 1];
    player->left = segment->instruction_count;
    SHOAL_RETURN_IF_ERROR(
        shoal_sim_segment(sim, actor, call->segment, player->variant, &player->seconds));
    lane_list_t *lists = &run->lists[who->class_index][(int64_t)call->segment * SHOAL_MAX_QUEUES];
    if (!lists[0].items) SHOAL_RETURN_IF_ERROR(list_lanes(run, segment, lists));
    for (int q = 0; q < SHOAL_MAX_QUEUES; ++q) {
      player->lanes[q] = (lane_t){.items = lists[q].items, .count = lists[q].count};
    }
    for (int64_t i = 0; i < segment->instruction_count; ++i) player->done[i] = false;
    return NULL;
  }
  player->finished = true;
  return NULL;
}

// ---- all together ---------------------------------------------------------------------

static shoal_status_t make_players(run_t *run) {
  shoal_sim_t *sim = run->sim;
  run->players = SHOAL_NEW(sim->arena, player_t, sim->actor_count);
  run->lists = SHOAL_NEW(sim->arena, lane_list_t *, sim->program->class_count);
  if (!run->players || !run->lists) return SHOAL_OOM();
  for (int64_t c = 0; c < sim->program->class_count; ++c) {
    run->lists[c] = SHOAL_NEW(sim->arena, lane_list_t,
                              sim->program->classes[c].segment_count * SHOAL_MAX_QUEUES);
    if (!run->lists[c]) return SHOAL_OOM();
  }
  for (int64_t a = 0; a < sim->actor_count; ++a) {
    const shoal_class_t *rank_class = sim->actors[a].rank_class;
    int64_t most = 0;
    for (int64_t s = 0; s < rank_class->segment_count; ++s) {
      const int64_t count = rank_class->segments[s].instruction_count;
      most = count > most ? count : most;
    }
    run->players[a].done = SHOAL_NEW(sim->arena, bool, most);
    run->players[a].uses = SHOAL_NEW(sim->arena, int64_t, sim->program->channel_count);
    if (!run->players[a].done || !run->players[a].uses) return SHOAL_OOM();
  }
  return NULL;
}

// Names a reshard that waits for others, of the first actor that is not through.
static shoal_status_t stuck(const run_t *run) {
  for (int64_t a = 0; a < run->sim->actor_count; ++a) {
    const player_t *player = &run->players[a];
    for (int q = 0; q < SHOAL_MAX_QUEUES && !player->finished; ++q) {
      const lane_t *lane = &player->lanes[q];
      if (!lane->running) continue;
      return SHOAL_ERROR_HINT(
          MISMATCH, "shoal_program_check says where classes do not match",
          "the ranks wait for each other: class %lld does not get beyond '%s' of segment '%s'",
          (long long)run->sim->actors[a].class_index,
          player->segment->instructions[lane->items[lane->at]].name, player->segment->name);
    }
    if (!player->finished) {
      return SHOAL_ERROR(MISMATCH, "segment '%s' of class %lld waits for itself",
                         player->segment->name, (long long)run->sim->actors[a].class_index);
    }
  }
  return NULL;
}

static shoal_status_t loop(run_t *run) {
  for (int32_t a = 0; a < run->sim->actor_count; ++a) {
    SHOAL_RETURN_IF_ERROR(start_calls(run, a));
    SHOAL_RETURN_IF_ERROR(start_lanes(run, a));
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
        SHOAL_RETURN_IF_ERROR(finish_instruction(run, event.actor, event.queue));
        SHOAL_RETURN_IF_ERROR(start_lanes(run, event.actor));
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

shoal_status_t shoal_sim_run(shoal_sim_t *sim, shoal_simulated_t *groups, shoal_sim_spans_t *spans,
                             double *out_seconds) {
  run_t run = {.sim = sim,
               .groups = groups,
               .spans = spans,
               .one_queue = sim->times && !shoal_times_overlap(sim->times)};
  SHOAL_RETURN_IF_ERROR(shoal_sim_traffic_init(sim, &run.traffic));
  SHOAL_RETURN_IF_ERROR(make_players(&run));
  SHOAL_RETURN_IF_ERROR(loop(&run));
  *out_seconds = 0;
  for (int64_t a = 0; a < sim->actor_count; ++a) {
    if (groups[a].seconds > *out_seconds) *out_seconds = groups[a].seconds;
  }
  return NULL;
}
