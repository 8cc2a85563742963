// Transfers under way, and how they share links.
//
// What a rank sends over one of its links goes out in the order of starting: a transfer is *held*
// while an earlier one of the same ranks is on that link. While a transfer moves data it takes a
// share of links that others use too: `demand`, of each second it lasts when it is alone, how much
// of one it keeps a link busy. Where the demands on a link add up to more than 1, all of its
// transfers slow down alike.
#include "simulate/traffic.h"

#define NEVER 1e300

// ---- resources ------------------------------------------------------------------------

// Resources, each both ways: of each actor its port (a node's bus is its site's) and its card, of
// each site the cards, of each region the uplink.
static int32_t resource_of(const shoal_sim_traffic_t *traffic, int64_t actor, int kind, int way) {
  const shoal_sim_t *sim = traffic->sim;
  const shoal_sim_actor_t *who = &sim->actors[actor];
  const int32_t n = (int32_t)sim->actor_count;
  int32_t index = (int32_t)actor;
  if (kind == SHOAL_SIM_PORT && who->nodes->per == SHOAL_CLUSTER_PER_NODE) index = who->site;
  if (kind == SHOAL_SIM_CARDS) index = who->site;
  if (kind == SHOAL_SIM_UPLINK) index = who->region;
  return (kind * n + index) * SHOAL_SIM_WAYS + way;
}

// What the flows of all who take part in a meeting keep busy, and for how long.
static shoal_status_t make_load(shoal_sim_traffic_t *traffic, int32_t channel, int32_t meeting,
                                const shoal_sim_flow_t *flows, shoal_sim_load_t *out_load) {
  shoal_sim_t *sim = traffic->sim;
  const int64_t most = sim->actor_count * SHOAL_SIM_RESOURCES * SHOAL_SIM_WAYS;
  shoal_sim_use_t *uses = SHOAL_NEW(sim->arena, shoal_sim_use_t, most);
  if (!uses) return SHOAL_OOM();
  int64_t count = 0, kept = 0;
  int32_t receivers = 0;
  for (int64_t a = 0; a < sim->actor_count; ++a) {
    if (traffic->meetings[channel][a] != meeting) continue;
    out_load->senders += flows[a].sends;
    receivers += flows[a].receives;
    if (flows[a].latency > out_load->latency) out_load->latency = flows[a].latency;
    for (int way = 0; way < SHOAL_SIM_WAYS; ++way) {
      double seconds[SHOAL_SIM_RESOURCES];
      shoal_sim_load(sim, &sim->actors[a], &flows[a], way, seconds);
      for (int kind = 0; kind < SHOAL_SIM_RESOURCES; ++kind) {
        if (seconds[kind] <= 0) continue;
        uses[count++] = (shoal_sim_use_t){resource_of(traffic, a, kind, way), seconds[kind]};
      }
    }
  }
  // Only some ranks of an actor are looked at: those that send may be others (channel.c).
  out_load->unseen = out_load->senders == 0;
  if (out_load->unseen) out_load->senders = receivers;
  // Actors of one site use its cards together: their seconds add up.
  for (int64_t i = 0; i < count; ++i) traffic->crowds[uses[i].resource] += uses[i].demand;
  for (int64_t i = 0; i < count; ++i) {
    const double seconds = traffic->crowds[uses[i].resource];
    if (seconds > out_load->seconds) out_load->seconds = seconds;
  }
  for (int64_t i = 0; i < count; ++i) {
    const int32_t resource = uses[i].resource;
    if (traffic->crowds[resource] <= 0) continue;  // it is among the kept
    uses[kept++] = (shoal_sim_use_t){resource, traffic->crowds[resource] / out_load->seconds};
    traffic->crowds[resource] = 0;
  }
  out_load->uses = uses;
  out_load->use_count = kept;
  return NULL;
}

static shoal_status_t load_of(shoal_sim_traffic_t *traffic, int32_t channel, int32_t variant,
                              int32_t meeting, const shoal_sim_flow_t *flows,
                              const shoal_sim_load_t **out_load) {
  const int64_t count = traffic->meeting_counts[channel];
  if (!traffic->loads[channel]) {
    traffic->loads[channel] =
        SHOAL_NEW(traffic->sim->arena, shoal_sim_load_t, traffic->sim->variant_count * count);
    if (!traffic->loads[channel]) return SHOAL_OOM();
  }
  shoal_sim_load_t *load = &traffic->loads[channel][variant * count + meeting];
  if (!load->uses) SHOAL_RETURN_IF_ERROR(make_load(traffic, channel, meeting, flows, load));
  *out_load = load;
  return NULL;
}

// A link that only the ranks of one actor use, each its own, to send.
static bool is_own_way_out(const shoal_sim_traffic_t *traffic, int32_t resource) {
  const int64_t kind = resource / SHOAL_SIM_WAYS / traffic->sim->actor_count;
  return resource % SHOAL_SIM_WAYS == SHOAL_SIM_OUT &&
         (kind == SHOAL_SIM_PORT || kind == SHOAL_SIM_CARD);
}

static bool is_behind(const shoal_sim_traffic_t *traffic, const shoal_sim_transfer_t *transfer,
                      const shoal_sim_transfer_t *earlier) {
  if (earlier->number >= transfer->number) return false;
  const shoal_sim_load_t *a = transfer->load, *b = earlier->load;
  for (int64_t i = 0; i < a->use_count; ++i) {
    if (!is_own_way_out(traffic, a->uses[i].resource)) continue;
    for (int64_t k = 0; k < b->use_count; ++k) {
      if (b->uses[k].resource == a->uses[i].resource) return true;
    }
  }
  return false;
}

// Transfers that are not held slow down as their most crowded link does.
static void set_rates(shoal_sim_traffic_t *traffic) {
  for (int64_t i = 0; i < traffic->moving.count; ++i) {
    shoal_sim_transfer_t *transfer = traffic->moving.items[i];
    bool held = false;
    for (int64_t k = 0; k < traffic->moving.count && !held; ++k) {
      held = is_behind(traffic, transfer, traffic->moving.items[k]);
    }
    transfer->rate = held ? 0 : 1;
    for (int64_t u = 0; u < transfer->load->use_count && !held; ++u) {
      traffic->crowds[transfer->load->uses[u].resource] += transfer->load->uses[u].demand;
    }
  }
  for (int64_t i = 0; i < traffic->moving.count; ++i) {
    const shoal_sim_load_t *load = traffic->moving.items[i]->load;
    if (traffic->moving.items[i]->rate == 0) continue;
    double crowd = 1;
    for (int64_t u = 0; u < load->use_count; ++u) {
      if (traffic->crowds[load->uses[u].resource] > crowd)
        crowd = traffic->crowds[load->uses[u].resource];
    }
    traffic->moving.items[i]->rate = 1 / crowd;
  }
  for (int64_t i = 0; i < traffic->moving.count; ++i) {
    const shoal_sim_load_t *load = traffic->moving.items[i]->load;
    for (int64_t u = 0; u < load->use_count; ++u) traffic->crowds[load->uses[u].resource] = 0;
  }
}

double shoal_sim_traffic_next(const shoal_sim_traffic_t *traffic, int64_t *out_index) {
  double first = NEVER;
  *out_index = -1;
  for (int64_t i = 0; i < traffic->moving.count; ++i) {
    const shoal_sim_transfer_t *transfer = traffic->moving.items[i];
    if (transfer->rate == 0 || transfer->left / transfer->rate >= first) continue;
    first = transfer->left / transfer->rate;
    *out_index = i;
  }
  return *out_index < 0 ? -1 : first;
}

void shoal_sim_traffic_pass(shoal_sim_traffic_t *traffic, double seconds) {
  for (int64_t i = 0; i < traffic->moving.count; ++i) {
    shoal_sim_transfer_t *transfer = traffic->moving.items[i];
    transfer->left -= seconds * transfer->rate;
    if (transfer->left < 0) transfer->left = 0;
  }
}

shoal_status_t shoal_sim_traffic_start(shoal_sim_traffic_t *traffic, double now,
                                       shoal_sim_transfer_t *transfer) {
  transfer->start = now;
  transfer->left = transfer->load->seconds;
  transfer->number = traffic->started++;
  if (!SHOAL_PUSH(traffic->sim->arena, &traffic->moving, transfer)) return SHOAL_OOM();
  set_rates(traffic);
  return NULL;
}

shoal_sim_transfer_t *shoal_sim_traffic_take(shoal_sim_traffic_t *traffic, int64_t index) {
  shoal_sim_transfer_t *transfer = traffic->moving.items[index];
  traffic->moving.items[index] = traffic->moving.items[--traffic->moving.count];
  set_rates(traffic);
  return transfer;
}

// ---- channels -------------------------------------------------------------------------

shoal_status_t shoal_sim_traffic_find(shoal_sim_traffic_t *traffic, int32_t channel,
                                      int32_t variant, int32_t actor, int64_t use,
                                      const shoal_sim_flow_t *flows,
                                      shoal_sim_transfer_t **out_transfer) {
  const int32_t meeting = traffic->meetings[channel][actor];
  *out_transfer = &traffic->transfers[channel][use * traffic->meeting_counts[channel] + meeting];
  if ((*out_transfer)->load) return NULL;
  SHOAL_RETURN_IF_ERROR(load_of(traffic, channel, variant, meeting, flows, &(*out_transfer)->load));
  (*out_transfer)->awaited = (*out_transfer)->load->senders;
  return NULL;
}

// How often each channel is used, at most.
static void count_uses(const shoal_sim_t *sim, int64_t *most, int64_t *mine) {
  const int64_t channels = sim->program->channel_count;
  for (int64_t a = 0; a < sim->actor_count; ++a) {
    const shoal_sim_actor_t *who = &sim->actors[a];
    for (int64_t c = 0; c < channels; ++c) mine[c] = 0;
    for (int64_t c = 0; who->order && c < who->order->call_count; ++c) {
      const shoal_segment_t *segment = &who->rank_class->segments[who->order->calls[c].segment];
      for (int64_t i = 0; i < segment->instruction_count; ++i) {
        if (segment->instructions[i].channels) {
          ++mine[segment->instructions[i].channels[0]];
        }
      }
    }
    for (int64_t c = 0; c < channels; ++c) most[c] = mine[c] > most[c] ? mine[c] : most[c];
  }
}

shoal_status_t shoal_sim_traffic_init(shoal_sim_t *sim, int64_t steps,
                                      shoal_sim_traffic_t *out_traffic) {
  const int64_t channels = sim->program->channel_count;
  int64_t *most = SHOAL_NEW(sim->arena, int64_t, channels);
  int64_t *mine = SHOAL_NEW(sim->arena, int64_t, channels);
  shoal_sim_traffic_t t = {
      .sim = sim,
      .meetings = SHOAL_NEW(sim->arena, const int32_t *, channels),
      .meeting_counts = SHOAL_NEW(sim->arena, int32_t, channels),
      .transfers = SHOAL_NEW(sim->arena, shoal_sim_transfer_t *, channels),
      .loads = SHOAL_NEW(sim->arena, shoal_sim_load_t *, channels),
      .crowds =
          SHOAL_NEW(sim->arena, double, SHOAL_SIM_RESOURCES * sim->actor_count * SHOAL_SIM_WAYS)};
  if (!most || !mine || !t.meetings || !t.meeting_counts || !t.transfers || !t.loads || !t.crowds) {
    return SHOAL_OOM();
  }
  count_uses(sim, most, mine);
  for (int64_t c = 0; c < channels; ++c) {
    if (most[c] == 0) continue;
    SHOAL_RETURN_IF_ERROR(
        shoal_sim_meetings(sim, (int32_t)c, &t.meetings[c], &t.meeting_counts[c]));
    t.transfers[c] =
        SHOAL_NEW(sim->arena, shoal_sim_transfer_t, steps * most[c] * t.meeting_counts[c]);
    if (!t.transfers[c]) return SHOAL_OOM();
  }
  *out_traffic = t;
  return NULL;
}
