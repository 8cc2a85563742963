// What a reshard sends: bytes by level of the links they pass, and how often a latency is waited
// for. A cost is latency plus bytes over bandwidth; events.c lets transfers share what is shared.
//
// Two ways of collectives. *Direct*, as comm/compose.c does them: every rank sends to every other
// at once, large reductions block by block. *Ring*, as NCCL does them, over the hierarchy: inside a
// node first, then each device with its likes of other nodes, so that every byte leaves a node
// once; an all-reduce between nodes goes up and down a tree.
#include <math.h>

#include "simulate/simulate_impl.h"

#define BLOCK_BYTES (128.0 * 1024)  // compose.c: of a reduction, per source
#define SMALL_BYTES 4096.0          // compose.c: up to here everyone sends all to everyone

double shoal_sim_latency(const shoal_sim_t *sim, const shoal_sim_actor_t *actor, int level) {
  const shoal_cluster_link_t *measured = sim->times ? shoal_times_link(sim->times) : NULL;
  if (measured) return measured->latency;
  if (level == SHOAL_CLUSTER_NODE) return actor->nodes->node_link.latency;
  return actor->nodes->link.latency +
         (level == SHOAL_CLUSTER_RACK ? sim->cluster->rack_link.latency : 0);
}

// ---- collectives ----------------------------------------------------------------------

static void add_bytes(shoal_sim_flow_t *flow, int level, double bytes) {
  flow->bytes[SHOAL_SIM_OUT][level] += bytes;
  flow->bytes[SHOAL_SIM_IN][level] += bytes;
}

// `bytes` to each other rank of the group, all at once, `rounds` times a latency.
static void add_direct(const shoal_sim_t *sim, const shoal_sim_actor_t *actor,
                       const shoal_sim_place_t *place, double bytes, double rounds,
                       shoal_sim_flow_t *flow) {
  const double counts[SHOAL_SIM_LEVELS] = {[SHOAL_CLUSTER_NODE] = place->node - 1,
                                           [SHOAL_CLUSTER_NETWORK] = place->rack - place->node,
                                           [SHOAL_CLUSTER_RACK] = place->count - place->rack};
  int farthest = SHOAL_CLUSTER_NODE;
  for (int level = 0; level < SHOAL_SIM_LEVELS; ++level) {
    add_bytes(flow, level, counts[level] * bytes);
    if (counts[level] > 0) farthest = level;
  }
  flow->latency += rounds * shoal_sim_latency(sim, actor, farthest);
}

// A ring of a node's `place->node` ranks and one between nodes, each of which sends its own share
// of `bytes` to all others; `times` is 2 for an all-reduce, which goes around twice.
static void add_rings(const shoal_sim_t *sim, const shoal_sim_actor_t *actor,
                      const shoal_sim_place_t *place, double bytes, double times,
                      shoal_sim_flow_t *flow) {
  const double inner = place->node, nodes = ceil(place->count / inner);
  const double racks = ceil(place->count / place->rack);
  add_bytes(flow, SHOAL_CLUSTER_NODE, times * (inner - 1) / inner * bytes);
  flow->latency += times * (inner - 1) * shoal_sim_latency(sim, actor, SHOAL_CLUSTER_NODE);
  if (nodes <= 1) return;
  // Of the nodes' ring, as many steps as there are racks leave a rack.
  const double between = times * (nodes - 1) / nodes * bytes / inner;
  const double far = racks > 1 ? between * racks / nodes : 0;
  add_bytes(flow, SHOAL_CLUSTER_NETWORK, between - far);
  add_bytes(flow, SHOAL_CLUSTER_RACK, far);
  const double steps = times > 1 ? fmin(nodes - 1, ceil(log2(nodes))) : nodes - 1;
  const double far_steps = racks > 1 ? (times > 1 ? ceil(log2(racks)) : racks) : 0;
  flow->latency += times * (steps * shoal_sim_latency(sim, actor, SHOAL_CLUSTER_NETWORK) +
                            far_steps * sim->cluster->rack_link.latency);
}

void shoal_sim_collective(const shoal_sim_t *sim, const shoal_sim_actor_t *actor,
                          shoal_reshard_kind_t kind, double bytes, const shoal_sim_place_t *place,
                          shoal_sim_flow_t *flow) {
  const double n = place->count, part = bytes / n;
  if (n <= 1) return;
  flow->sends = flow->receives = true;
  if (place->node - 1 > flow->peers) flow->peers = place->node - 1;
  const bool reduces = kind != SHOAL_RESHARD_ALL_GATHER;
  if (actor->nodes->device.ring) {
    add_rings(sim, actor, place, bytes, kind == SHOAL_RESHARD_ALL_REDUCE ? 2 : 1, flow);
  } else if (kind == SHOAL_RESHARD_ALL_REDUCE && bytes <= SMALL_BYTES) {
    add_direct(sim, actor, place, bytes, 1, flow);
  } else {
    const double blocks = reduces ? fmax(1, ceil(part / BLOCK_BYTES)) : 0;
    if (reduces) add_direct(sim, actor, place, part, blocks, flow);
    if (kind != SHOAL_RESHARD_REDUCE_SCATTER) add_direct(sim, actor, place, part, 1, flow);
  }
}

// ---- what a flow takes of its links ---------------------------------------------------

void shoal_sim_load(const shoal_sim_t *sim, const shoal_sim_actor_t *actor,
                    const shoal_sim_flow_t *flow, int way,
                    double out_seconds[SHOAL_SIM_RESOURCES]) {
  const shoal_cluster_nodes_t *nodes = actor->nodes;
  const double *bytes = flow->bytes[way];
  const shoal_cluster_link_t *measured = sim->times ? shoal_times_link(sim->times) : NULL;
  const double on_node = (double)actor->node_ranks;
  double port = measured ? measured->bandwidth : nodes->node_link.bandwidth;
  if (nodes->per == SHOAL_CLUSTER_PER_PAIR && flow->peers > 1) port *= flow->peers;
  if (nodes->per == SHOAL_CLUSTER_PER_NODE) port /= on_node;
  // Devices that share a card, as far as they are used; or cards that a device has.
  double sharers = (double)nodes->devices / nodes->cards;
  if (sharers > on_node) sharers = on_node;
  const double card = measured ? measured->bandwidth : nodes->link.bandwidth;
  const double out = bytes[SHOAL_CLUSTER_NETWORK] + bytes[SHOAL_CLUSTER_RACK];
  const double uplink = sim->cluster->rack_link.bandwidth;
  out_seconds[SHOAL_SIM_PORT] = bytes[SHOAL_CLUSTER_NODE] / port;
  out_seconds[SHOAL_SIM_CARD] = out * sharers / card;
  out_seconds[SHOAL_SIM_CARDS] = out * on_node / (card * nodes->cards);
  out_seconds[SHOAL_SIM_UPLINK] =
      uplink > 0 ? bytes[SHOAL_CLUSTER_RACK] * on_node * (double)actor->rack_nodes / uplink : 0;
}
