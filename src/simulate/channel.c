// What a channel sends, as each actor takes part. Worked out once for each size of micro-batches,
// and without listing all ranks: a collective's group is found by axes, and of messages those of
// the ranks of one or two nodes of an actor are looked at.
#include "layout/motion.h"
#include "program/program_impl.h"
#include "simulate/simulate_impl.h"

// Axes of the mesh along which ranks exchange something, a bit each.
static uint32_t axes_of(const shoal_reshard_facts_t *facts) {
  uint32_t axes = 0;
  for (int a = 0; a < SHOAL_MAX_AXES; ++a) axes |= (uint32_t)facts->axes[a] << a;
  return axes;
}

// ---- actors that meet -----------------------------------------------------------------

static int32_t root_of(int32_t *parents, int32_t i) {
  while (parents[i] != i) i = parents[i];
  return i;
}

// Does the first rank of an actor share a group with a rank on nodes of that kind?
static bool meets(const shoal_sim_t *sim, const shoal_channel_t *channel, uint32_t axes,
                  const shoal_sim_actor_t *actor, int32_t kind) {
  const shoal_mesh_t *mesh = channel->dst->mesh;
  const int64_t position = shoal_mesh_position(mesh, actor->first_rank);
  if (position < 0) return true;
  for (int64_t i = 0; i < sim->span_count; ++i) {
    const shoal_sim_span_t *span = &sim->spans[i];
    if (span->kind != kind) continue;
    if (shoal_sim_count_axes(mesh, axes, position, span->from, span->to) > 0) return true;
  }
  return false;
}

shoal_status_t shoal_sim_meetings(shoal_sim_t *sim, int32_t index, const int32_t **out_meetings,
                                  int32_t *out_count) {
  const shoal_channel_t *channel = &sim->program->channels[index];
  const int32_t n = (int32_t)sim->actor_count;
  int32_t *meetings = SHOAL_NEW(sim->arena, int32_t, n);
  if (!meetings) return SHOAL_OOM();
  *out_meetings = meetings;
  *out_count = 1;
  const bool apart = n > sim->program->class_count && channel->src->mesh == channel->dst->mesh;
  if (!apart) return NULL;  // all of them are in one
  shoal_reshard_facts_t facts;
  SHOAL_RETURN_IF_ERROR(
      shoal_channel_describe(channel, channel->micro ? 0 : -1, sim->arena->allocator, &facts));
  const uint32_t axes = axes_of(&facts);
  for (int32_t i = 0; i < n; ++i) meetings[i] = i;
  for (int32_t i = 0; i < n; ++i) {
    for (int32_t k = i + 1; k < n; ++k) {
      if (sim->actors[i].rank_class != sim->actors[k].rank_class ||
          meets(sim, channel, axes, &sim->actors[i], sim->actors[k].kind)) {
        meetings[root_of(meetings, k)] = root_of(meetings, i);
      }
    }
  }
  for (int32_t i = 0; i < n; ++i) meetings[i] = root_of(meetings, i);
  *out_count = n;
  return NULL;
}

// ---- collectives ----------------------------------------------------------------------

static shoal_status_t bytes_at(const shoal_layout_t *layout, const shoal_type_t *type, int32_t rank,
                               int64_t micro, shoal_arena_t *scratch, double *out_bytes) {
  shoal_boxes_t boxes;
  SHOAL_RETURN_IF_ERROR(shoal_layout_boxes(layout, &type->shape,
                                           shoal_mesh_position(layout->mesh, rank),
                                           shoal_program_micro_of(layout, micro), scratch, &boxes));
  const shoal_shape_t shape = shoal_boxes_shape(&boxes);
  *out_bytes = (double)shoal_shape_count(&shape) * (double)shoal_dtype_size(type->dtype);
  return NULL;
}

// What a reshard carries, in one micro-batch.
typedef struct cargo {
  const shoal_sim_t *sim;
  int32_t count;
  const int32_t *channels;
  int64_t micro;
} cargo_t;

static const shoal_channel_t *channel_of(const cargo_t *cargo, int32_t i) {
  return &cargo->sim->program->channels[cargo->channels[i]];
}

// One collective of all values: their bytes add up, its latency is waited for once.
static shoal_status_t find_collective(const cargo_t *cargo, const shoal_reshard_facts_t *facts,
                                      const shoal_sim_actor_t *actor, shoal_arena_t *scratch,
                                      shoal_sim_flow_t *flow) {
  const int32_t rank = actor->first_rank;
  const shoal_mesh_t *mesh = channel_of(cargo, 0)->dst->mesh;
  const int64_t position = shoal_mesh_position(mesh, rank);
  if (position < 0) return NULL;
  shoal_sim_place_t place;
  double total = 0;
  shoal_sim_place_axes(cargo->sim->cluster, mesh, axes_of(facts), position, &place);
  for (int32_t i = 0; i < cargo->count; ++i) {
    const shoal_channel_t *channel = channel_of(cargo, i);
    double bytes;
    SHOAL_RETURN_IF_ERROR(
        bytes_at(facts->kind == SHOAL_RESHARD_REDUCE_SCATTER ? channel->src : channel->dst,
                 &channel->type, rank, cargo->micro, scratch, &bytes));
    total += bytes;
  }
  shoal_sim_collective(cargo->sim, actor, facts->kind, total, &place, flow);
  return NULL;
}

// ---- messages -------------------------------------------------------------------------

// What the ranks of one node send and receive of one value, summed up.
static shoal_status_t look_at_value(const cargo_t *cargo, const shoal_channel_t *channel,
                                    const shoal_sim_actor_t *actor, int32_t rank,
                                    shoal_arena_t *scratch, double *out_peers,
                                    shoal_sim_flow_t *flow) {
  const double element = (double)shoal_dtype_size(channel->type.dtype);
  shoal_links_t links;
  SHOAL_RETURN_IF_ERROR(
      shoal_links_list(channel->src, shoal_program_micro_of(channel->src, cargo->micro),
                       channel->dst, shoal_program_micro_of(channel->dst, cargo->micro),
                       &channel->type.shape, rank, scratch, &links));
  for (int64_t i = 0; i < links.count; ++i) {
    const shoal_link_t *link = &links.items[i];
    const double bytes = (double)link->count * element;
    if (link->count == 0) continue;
    if (link->from == link->to) {
      flow->local += bytes;
      continue;
    }
    const bool sends = link->from == rank;
    const shoal_cluster_level_t level =
        shoal_cluster_level(cargo->sim->cluster, link->from, link->to);
    flow->sends |= sends;
    flow->receives |= !sends;
    flow->bytes[sends ? SHOAL_SIM_OUT : SHOAL_SIM_IN][level] += bytes;
    if (sends && level == SHOAL_CLUSTER_NODE) *out_peers += 1;
    const double latency = shoal_sim_latency(cargo->sim, actor, level);
    if (latency > flow->latency) flow->latency = latency;
  }
  return NULL;
}

// Values for the same peer travel in one message.
static shoal_status_t look_at_rank(const cargo_t *cargo, const shoal_sim_actor_t *actor,
                                   int32_t rank, shoal_arena_t *scratch, shoal_sim_flow_t *flow) {
  double most = 0;
  for (int32_t i = 0; i < cargo->count; ++i) {
    double peers = 0;
    SHOAL_RETURN_IF_ERROR(
        look_at_value(cargo, channel_of(cargo, i), actor, rank, scratch, &peers, flow));
    if (peers > most) most = peers;
  }
  flow->peers += most;
  return NULL;
}

// The average of the actor's ranks on this rank's node; the larger of it and `flow`.
static shoal_status_t look_at_node(const cargo_t *cargo, const shoal_sim_actor_t *actor,
                                   int32_t rank, shoal_arena_t *scratch, shoal_sim_flow_t *flow) {
  const shoal_sim_t *sim = cargo->sim;
  shoal_sim_flow_t found = {0};
  int32_t first, end, count = 0;
  shoal_cluster_node_ranks(sim->cluster, shoal_cluster_node(sim->cluster, rank), &first, &end);
  if (end > sim->program->world) end = sim->program->world;
  for (int32_t r = first; r < end; ++r) {
    if (!shoal_sim_has_rank(actor->rank_class, r)) continue;
    SHOAL_RETURN_IF_ERROR(look_at_rank(cargo, actor, r, scratch, &found));
    ++count;
  }
  if (count == 0) return NULL;
  flow->sends |= found.sends;
  flow->receives |= found.receives;
  if (found.latency > flow->latency) flow->latency = found.latency;
  if (found.peers / count > flow->peers) flow->peers = found.peers / count;
  if (found.local / count > flow->local) flow->local = found.local / count;
  for (int way = 0; way < SHOAL_SIM_WAYS; ++way) {
    for (int level = 0; level < SHOAL_SIM_LEVELS; ++level) {
      const double mean = found.bytes[way][level] / count;
      if (mean > flow->bytes[way][level]) flow->bytes[way][level] = mean;
    }
  }
  return NULL;
}

// Parts are largest on the first node; neighbours on both sides are had in the middle.
static shoal_status_t find_messages(const cargo_t *cargo, const shoal_sim_actor_t *actor,
                                    shoal_arena_t *scratch, shoal_sim_flow_t *flow) {
  const shoal_cluster_t *cluster = cargo->sim->cluster;
  SHOAL_RETURN_IF_ERROR(look_at_node(cargo, actor, actor->first_rank, scratch, flow));
  if (shoal_cluster_node(cluster, actor->middle_rank) ==
      shoal_cluster_node(cluster, actor->first_rank)) {
    return NULL;
  }
  return look_at_node(cargo, actor, actor->middle_rank, scratch, flow);
}

// ---- all together ---------------------------------------------------------------------

static shoal_status_t find_flows(const cargo_t *cargo, shoal_sim_flow_t *flows) {
  const shoal_sim_t *sim = cargo->sim;
  shoal_arena_t scratch;
  shoal_arena_init(sim->arena->allocator, &scratch);
  shoal_reshard_facts_t facts = {0};
  shoal_status_t status =
      shoal_channel_describe(channel_of(cargo, 0), cargo->micro, scratch.allocator, &facts);
  for (int64_t a = 0; a < sim->actor_count && !status; ++a) {
    const shoal_sim_actor_t *actor = &sim->actors[a];
    status = facts.collective ? find_collective(cargo, &facts, actor, &scratch, &flows[a])
                              : find_messages(cargo, actor, &scratch, &flows[a]);
  }
  shoal_arena_deinit(&scratch);
  return status;
}

shoal_status_t shoal_sim_reshard(shoal_sim_t *sim, const shoal_instruction_t *in, int32_t variant,
                                 const shoal_sim_flow_t **out_flows) {
  const int32_t first = in->channels[0];
  shoal_sim_flow_t **entry = &sim->flows[(int64_t)first * sim->variant_count + variant];
  if (!*entry) {
    // How many rows an exchange moves is known only when it runs: it counts with all of them.
    const cargo_t cargo = {sim, shoal_instruction_channels(in), in->channels,
                           sim->variant_micros[variant]};
    *entry = SHOAL_NEW(sim->arena, shoal_sim_flow_t, sim->actor_count);
    if (!*entry) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(shoal_status_annotatef(find_flows(&cargo, *entry), "channel %d", first));
  }
  *out_flows = *entry;
  return NULL;
}
