// The run: every actor's order as discrete events.
//
// A queue starts its next instruction when the one before it and all it waits for are done; a call
// starts when the one before it is. An instruction that computes or copies ends after its price. A
// reshard *arrives* at its transfer - one for each use of a channel - and the transfer starts when
// all actors that send have arrived: those that receive then wait for it, those that only send go
// on (and are waited for at the end of the run, as the executor does).
//
// A transfer first moves its data, then its latencies pass. What a rank sends over one of its links
// goes out in the order of starting: a transfer is *held* while an earlier one of the same ranks is
// on that link. While it moves data it takes a share of links that others use too: `demand`, of
// each second it lasts when it is alone, how much of one it keeps a link busy. Where the demands on
// a link add up to more than 1, all of its transfers slow down alike.
// Time is exact: nothing is sampled, and ties are taken in the order of actors and queues.
#include "simulate/simulate_impl.h"

#define NEVER 1e300

typedef struct use {
  int32_t resource;
  double demand;
} use_t;

// What each use of a channel takes, in one size of micro-batches.
typedef struct load {
  int32_t senders;  // actors
  double seconds;   // of data, at full speed
  double latency;
  int64_t use_count;
  use_t *uses;
} load_t;

typedef struct party {
  int32_t actor, queue;
} party_t;

typedef struct transfer {
  const load_t *load;  // NULL: nobody has arrived
  int32_t awaited;     // senders that have not arrived
  bool delivered;
  double start;                // when the last sender arrived
  double left;                 // seconds of data, at full speed
  int64_t number;              // earlier ones first
  double rate;                 // 0: held
  SHOAL_VEC(party_t) blocked;  // whose reshards wait for it
  SHOAL_VEC(int32_t) lazy;     // actors that only send
} transfer_t;

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
  lane_t lanes[SHOAL_QUEUE_COUNT];
  int64_t *uses;  // of each channel so far
  bool finished;
} player_t;

// A completion: of an instruction, or of a transfer's latency.
typedef struct event {
  double time;
  int64_t number;  // earlier ones first
  int32_t actor, queue;
  transfer_t *transfer;
} event_t;

typedef struct run {
  shoal_sim_t *sim;
  shoal_simulated_t *groups;
  shoal_sim_spans_t *spans;
  player_t *players;
  double now;
  int64_t number;
  SHOAL_VEC(event_t) heap;
  SHOAL_VEC(transfer_t *) moving;
  transfer_t **transfers;  // [channel][use]
  load_t **loads;          // [channel * variants + variant], when asked
  lane_list_t **lists;     // [class][segment * queues + queue]
  double *crowds;          // demand on each resource, while rates are worked out; else 0
  bool one_queue;          // everything of a rank runs one after the other
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

static shoal_status_t add_span(run_t *run, int32_t actor, int32_t queue, bool waits, double start,
                               double end) {
  if (!run->spans || end <= start) return NULL;
  const player_t *player = &run->players[actor];
  const lane_t *lane = &player->lanes[queue];
  const shoal_instruction_t *in = &player->segment->instructions[lane->items[lane->at]];
  const shoal_simulated_span_t span = {.group = actor,
                                       .queue = in->queue,
                                       .waits = waits,
                                       .name = in->name,
                                       .segment = player->segment->name,
                                       .micro = player->micro,
                                       .start = start,
                                       .end = end};
  return SHOAL_PUSH(run->sim->arena, run->spans, span) ? NULL : SHOAL_OOM();
}

// ---- transfers ------------------------------------------------------------------------

// Resources, each both ways: of each actor its port (a node's bus is its site's) and its card, of
// each site the cards, of each region the uplink.
static int32_t resource_of(const run_t *run, int64_t actor, int kind, int way) {
  const shoal_sim_t *sim = run->sim;
  const shoal_sim_actor_t *who = &sim->actors[actor];
  const int32_t n = (int32_t)sim->actor_count;
  int32_t index = (int32_t)actor;
  if (kind == SHOAL_SIM_PORT && who->nodes->per == SHOAL_CLUSTER_PER_NODE) index = who->site;
  if (kind == SHOAL_SIM_CARDS) index = who->site;
  if (kind == SHOAL_SIM_UPLINK) index = who->region;
  return (kind * n + index) * SHOAL_SIM_WAYS + way;
}

// What the flows of all who take part keep busy, and for how long.
static shoal_status_t make_load(run_t *run, const shoal_sim_flow_t *flows, load_t *out_load) {
  shoal_sim_t *sim = run->sim;
  const int64_t most = sim->actor_count * SHOAL_SIM_RESOURCES * SHOAL_SIM_WAYS;
  use_t *uses = SHOAL_NEW(sim->arena, use_t, most);
  if (!uses) return SHOAL_OOM();
  int64_t count = 0, kept = 0;
  for (int64_t a = 0; a < sim->actor_count; ++a) {
    out_load->senders += flows[a].sends;
    if (flows[a].latency > out_load->latency) out_load->latency = flows[a].latency;
    for (int way = 0; way < SHOAL_SIM_WAYS; ++way) {
      double seconds[SHOAL_SIM_RESOURCES];
      shoal_sim_load(sim, &sim->actors[a], &flows[a], way, seconds);
      for (int kind = 0; kind < SHOAL_SIM_RESOURCES; ++kind) {
        if (seconds[kind] <= 0) continue;
        uses[count++] = (use_t){resource_of(run, a, kind, way), seconds[kind]};
      }
    }
  }
  // Actors of one site use its cards together: their seconds add up.
  for (int64_t i = 0; i < count; ++i) run->crowds[uses[i].resource] += uses[i].demand;
  for (int64_t i = 0; i < count; ++i) {
    const double seconds = run->crowds[uses[i].resource];
    if (seconds > out_load->seconds) out_load->seconds = seconds;
  }
  for (int64_t i = 0; i < count; ++i) {
    const int32_t resource = uses[i].resource;
    if (run->crowds[resource] <= 0) continue;  // it is among the kept
    uses[kept++] = (use_t){resource, run->crowds[resource] / out_load->seconds};
    run->crowds[resource] = 0;
  }
  out_load->uses = uses;
  out_load->use_count = kept;
  return NULL;
}

static shoal_status_t load_of(run_t *run, int32_t channel, int32_t variant,
                              const shoal_sim_flow_t *flows, const load_t **out_load) {
  load_t **entry = &run->loads[(int64_t)channel * run->sim->variant_count + variant];
  if (!*entry) {
    *entry = SHOAL_NEW(run->sim->arena, load_t, 1);
    if (!*entry) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(make_load(run, flows, *entry));
  }
  *out_load = *entry;
  return NULL;
}

// A link that only the ranks of one actor use, each its own, to send.
static bool is_own_way_out(const run_t *run, int32_t resource) {
  const int64_t kind = resource / SHOAL_SIM_WAYS / run->sim->actor_count;
  return resource % SHOAL_SIM_WAYS == SHOAL_SIM_OUT &&
         (kind == SHOAL_SIM_PORT || kind == SHOAL_SIM_CARD);
}

static bool is_behind(const run_t *run, const transfer_t *transfer, const transfer_t *earlier) {
  if (earlier->number >= transfer->number) return false;
  const load_t *a = transfer->load, *b = earlier->load;
  for (int64_t i = 0; i < a->use_count; ++i) {
    if (!is_own_way_out(run, a->uses[i].resource)) continue;
    for (int64_t k = 0; k < b->use_count; ++k) {
      if (b->uses[k].resource == a->uses[i].resource) return true;
    }
  }
  return false;
}

// Transfers that are not held slow down as their most crowded link does.
static void set_rates(run_t *run) {
  for (int64_t i = 0; i < run->moving.count; ++i) {
    transfer_t *transfer = run->moving.items[i];
    bool held = false;
    for (int64_t k = 0; k < run->moving.count && !held; ++k) {
      held = is_behind(run, transfer, run->moving.items[k]);
    }
    transfer->rate = held ? 0 : 1;
    for (int64_t u = 0; u < transfer->load->use_count && !held; ++u) {
      run->crowds[transfer->load->uses[u].resource] += transfer->load->uses[u].demand;
    }
  }
  for (int64_t i = 0; i < run->moving.count; ++i) {
    const load_t *load = run->moving.items[i]->load;
    if (run->moving.items[i]->rate == 0) continue;
    double crowd = 1;
    for (int64_t u = 0; u < load->use_count; ++u) {
      if (run->crowds[load->uses[u].resource] > crowd) crowd = run->crowds[load->uses[u].resource];
    }
    run->moving.items[i]->rate = 1 / crowd;
  }
  for (int64_t i = 0; i < run->moving.count; ++i) {
    const load_t *load = run->moving.items[i]->load;
    for (int64_t u = 0; u < load->use_count; ++u) run->crowds[load->uses[u].resource] = 0;
  }
}

// The transfer whose data will be through first, and when.
static int64_t first_through(const run_t *run, double *out_time) {
  int64_t first = -1;
  *out_time = NEVER;
  for (int64_t i = 0; i < run->moving.count; ++i) {
    const transfer_t *transfer = run->moving.items[i];
    if (transfer->rate == 0) continue;
    const double time = run->now + transfer->left / transfer->rate;
    if (time >= *out_time) continue;
    *out_time = time;
    first = i;
  }
  return first;
}

static void advance(run_t *run, double time) {
  for (int64_t i = 0; i < run->moving.count; ++i) {
    transfer_t *t = run->moving.items[i];
    t->left -= (time - run->now) * t->rate;
    if (t->left < 0) t->left = 0;
  }
  run->now = time;
}

static shoal_status_t start_transfer(run_t *run, transfer_t *transfer) {
  transfer->start = run->now;
  transfer->left = transfer->load->seconds;
  transfer->number = run->number++;
  if (!SHOAL_PUSH(run->sim->arena, &run->moving, transfer)) return SHOAL_OOM();
  set_rates(run);
  return NULL;
}

static shoal_status_t through(run_t *run, int64_t index) {
  transfer_t *transfer = run->moving.items[index];
  run->moving.items[index] = run->moving.items[--run->moving.count];
  set_rates(run);
  return push_event(run,
                    (event_t){.time = run->now + transfer->load->latency, .transfer = transfer});
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
static shoal_status_t finish_reshard(run_t *run, party_t party, const transfer_t *transfer) {
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

static shoal_status_t deliver(run_t *run, transfer_t *transfer) {
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
static shoal_status_t start_local(run_t *run, party_t party, shoal_queue_kind_t queue,
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
static shoal_status_t start_reshard(run_t *run, party_t party, const shoal_instruction_t *in,
                                    double price, bool *out_done) {
  shoal_sim_t *sim = run->sim;
  player_t *player = &run->players[party.actor];
  const shoal_sim_flow_t *flows;
  SHOAL_RETURN_IF_ERROR(shoal_sim_channel(sim, in->channel, player->variant, &flows));
  const shoal_sim_flow_t *mine = &flows[party.actor];
  transfer_t *transfer = &run->transfers[in->channel][player->uses[in->channel]++];
  *out_done = false;
  if (!mine->sends && !mine->receives) {
    const double rate = sim->actors[party.actor].target.bytes_per_second;
    return start_local(run, party, in->queue, price > 0 ? price : mine->local / rate, out_done);
  }
  for (int level = 0; level < SHOAL_SIM_LEVELS; ++level) {
    run->groups[party.actor].sent[level] += mine->bytes[SHOAL_SIM_OUT][level];
  }
  if (!transfer->load) {
    SHOAL_RETURN_IF_ERROR(load_of(run, in->channel, player->variant, flows, &transfer->load));
    transfer->awaited = transfer->load->senders;
  }
  if (!mine->receives) {
    *out_done = true;
    if (!SHOAL_PUSH(sim->arena, &transfer->lazy, party.actor)) return SHOAL_OOM();
  } else if (transfer->delivered) {
    *out_done = true;
    return NULL;
  } else if (!SHOAL_PUSH(sim->arena, &transfer->blocked, party)) {
    return SHOAL_OOM();
  }
  return mine->sends && --transfer->awaited == 0 ? start_transfer(run, transfer) : NULL;
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
      SHOAL_RETURN_IF_ERROR(start_reshard(run, (party_t){actor, queue}, in, seconds, &done));
    } else {
      run->groups[actor].busy[in->queue] += seconds;
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
    for (int32_t queue = 0; queue < SHOAL_QUEUE_COUNT; ++queue) {
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
  for (int q = 0; q < SHOAL_QUEUE_COUNT; ++q) {
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
    lane_list_t *lists = &run->lists[who->class_index][(int64_t)call->segment * SHOAL_QUEUE_COUNT];
    if (!lists[0].items) SHOAL_RETURN_IF_ERROR(list_lanes(run, segment, lists));
    for (int q = 0; q < SHOAL_QUEUE_COUNT; ++q) {
      player->lanes[q] = (lane_t){.items = lists[q].items, .count = lists[q].count};
    }
    for (int64_t i = 0; i < segment->instruction_count; ++i) player->done[i] = false;
    return NULL;
  }
  player->finished = true;
  return NULL;
}

// ---- all together ---------------------------------------------------------------------

// How often each channel is used, at most; room for the transfers.
static shoal_status_t make_transfers(run_t *run) {
  shoal_sim_t *sim = run->sim;
  const int64_t channels = sim->program->channel_count;
  int64_t *most = SHOAL_NEW(sim->arena, int64_t, channels);
  int64_t *mine = SHOAL_NEW(sim->arena, int64_t, channels);
  run->transfers = SHOAL_NEW(sim->arena, transfer_t *, channels);
  if (!most || !mine || !run->transfers) return SHOAL_OOM();
  for (int64_t a = 0; a < sim->actor_count; ++a) {
    const shoal_sim_actor_t *who = &sim->actors[a];
    for (int64_t c = 0; c < channels; ++c) mine[c] = 0;
    for (int64_t c = 0; who->order && c < who->order->call_count; ++c) {
      const shoal_segment_t *segment = &who->rank_class->segments[who->order->calls[c].segment];
      for (int64_t i = 0; i < segment->instruction_count; ++i) {
        if (segment->instructions[i].opcode == SHOAL_OPCODE_RESHARD) {
          ++mine[segment->instructions[i].channel];
        }
      }
    }
    for (int64_t c = 0; c < channels; ++c) most[c] = mine[c] > most[c] ? mine[c] : most[c];
  }
  for (int64_t c = 0; c < channels; ++c) {
    run->transfers[c] = SHOAL_NEW(sim->arena, transfer_t, most[c]);
    if (!run->transfers[c]) return SHOAL_OOM();
  }
  return NULL;
}

static shoal_status_t make_players(run_t *run) {
  shoal_sim_t *sim = run->sim;
  run->players = SHOAL_NEW(sim->arena, player_t, sim->actor_count);
  run->lists = SHOAL_NEW(sim->arena, lane_list_t *, sim->program->class_count);
  run->loads = SHOAL_NEW(sim->arena, load_t *, sim->program->channel_count * sim->variant_count);
  run->crowds =
      SHOAL_NEW(sim->arena, double, SHOAL_SIM_RESOURCES * sim->actor_count * SHOAL_SIM_WAYS);
  if (!run->players || !run->lists || !run->loads || !run->crowds) return SHOAL_OOM();
  for (int64_t c = 0; c < sim->program->class_count; ++c) {
    run->lists[c] = SHOAL_NEW(sim->arena, lane_list_t,
                              sim->program->classes[c].segment_count * SHOAL_QUEUE_COUNT);
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
    for (int q = 0; q < SHOAL_QUEUE_COUNT && !player->finished; ++q) {
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
    double time;
    const int64_t next = first_through(run, &time);
    if (run->heap.count > 0 && run->heap.items[0].time <= time) {
      const event_t event = pop_event(run);
      advance(run, event.time);
      if (event.transfer) {
        SHOAL_RETURN_IF_ERROR(deliver(run, event.transfer));
      } else {
        SHOAL_RETURN_IF_ERROR(finish_instruction(run, event.actor, event.queue));
        SHOAL_RETURN_IF_ERROR(start_lanes(run, event.actor));
      }
    } else if (next >= 0) {
      advance(run, time);
      run->moving.items[next]->left = 0;
      SHOAL_RETURN_IF_ERROR(through(run, next));
    } else {
      return stuck(run);
    }
  }
}

shoal_status_t shoal_sim_run(shoal_sim_t *sim, shoal_simulated_t *groups, shoal_sim_spans_t *spans,
                             double *out_seconds) {
  run_t run = {.sim = sim,
               .groups = groups,
               .spans = spans,
               .one_queue = sim->times && !shoal_times_overlap(sim->times)};
  SHOAL_RETURN_IF_ERROR(make_transfers(&run));
  SHOAL_RETURN_IF_ERROR(make_players(&run));
  SHOAL_RETURN_IF_ERROR(loop(&run));
  *out_seconds = 0;
  for (int64_t a = 0; a < sim->actor_count; ++a) {
    if (groups[a].seconds > *out_seconds) *out_seconds = groups[a].seconds;
  }
  return NULL;
}
