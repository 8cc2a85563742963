// What a channel sends, as each actor takes part. Worked out once for each size of micro-batches.
#include "program/program_impl.h"
#include "simulate/simulate_impl.h"

static int64_t actor_of(const shoal_sim_t *sim, int32_t rank) {
  const shoal_class_t *rank_class = shoal_program_class_of(sim->program, rank);
  const shoal_cluster_nodes_t *nodes = shoal_cluster_group(sim->cluster, rank);
  int64_t found = -1;
  for (int64_t a = 0; a < sim->actor_count; ++a) {
    if (sim->actors[a].rank_class != rank_class) continue;
    if (found < 0 || sim->actors[a].nodes == nodes) found = a;
  }
  return found;
}

// The group of a collective, as its first rank sees it: the sources of one destination.
static void place_group(const shoal_sim_t *sim, const shoal_channel_t *channel,
                        const shoal_reshard_t *reshard, int32_t rank,
                        shoal_sim_place_t *out_place) {
  const int64_t position = shoal_mesh_position(channel->dst->mesh, rank);
  *out_place = (shoal_sim_place_t){0};
  for (int64_t i = 0; i < reshard->transfer_count; ++i) {
    if (reshard->transfers[i].dst != position) continue;
    const int32_t other = shoal_mesh_rank(channel->src->mesh, reshard->transfers[i].src);
    const shoal_cluster_level_t level = shoal_cluster_level(sim->cluster, rank, other);
    out_place->count += 1;
    out_place->node += level == SHOAL_CLUSTER_NODE;
    out_place->rack += level != SHOAL_CLUSTER_RACK;
  }
}

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

static shoal_status_t find_collective(const shoal_sim_t *sim, const shoal_channel_t *channel,
                                      const shoal_reshard_t *reshard, int64_t micro,
                                      shoal_arena_t *scratch, shoal_sim_flow_t *flows) {
  for (int64_t a = 0; a < sim->actor_count; ++a) {
    const shoal_sim_actor_t *actor = &sim->actors[a];
    const int32_t rank = actor->first_rank;
    if (shoal_mesh_position(channel->dst->mesh, rank) < 0) continue;
    const bool scatters = reshard->kind == SHOAL_RESHARD_REDUCE_SCATTER;
    shoal_sim_place_t place;
    double bytes;
    place_group(sim, channel, reshard, rank, &place);
    SHOAL_RETURN_IF_ERROR(bytes_at(scatters ? channel->src : channel->dst, &channel->type, rank,
                                   micro, scratch, &bytes));
    shoal_sim_collective(sim, actor, reshard->kind, bytes, &place, &flows[a]);
  }
  return NULL;
}

// Messages from each source to each destination, all at once.
static void find_messages(const shoal_sim_t *sim, const shoal_channel_t *channel,
                          const shoal_reshard_t *reshard, shoal_sim_flow_t *flows) {
  const double element = (double)shoal_dtype_size(channel->type.dtype);
  for (int64_t i = 0; i < reshard->transfer_count; ++i) {
    const shoal_transfer_t *transfer = &reshard->transfers[i];
    const int32_t from = shoal_mesh_rank(channel->src->mesh, transfer->src);
    const int32_t to = shoal_mesh_rank(channel->dst->mesh, transfer->dst);
    const int64_t sender = actor_of(sim, from), receiver = actor_of(sim, to);
    if (sender < 0 || receiver < 0 || transfer->count == 0) continue;
    const double bytes = (double)transfer->count * element;
    shoal_sim_flow_t *out = &flows[sender], *in = &flows[receiver];
    if (from == to) {
      out->local += bytes / (double)sim->actors[sender].rank_count;
      continue;
    }
    const shoal_cluster_level_t level = shoal_cluster_level(sim->cluster, from, to);
    out->sends = in->receives = true;
    out->bytes[SHOAL_SIM_OUT][level] += bytes / (double)sim->actors[sender].rank_count;
    in->bytes[SHOAL_SIM_IN][level] += bytes / (double)sim->actors[receiver].rank_count;
    const double latency = shoal_sim_latency(sim, &sim->actors[sender], level);
    if (latency > out->latency) out->latency = latency;
    if (latency > in->latency) in->latency = latency;
  }
}

static shoal_status_t find_flows(const shoal_sim_t *sim, int32_t index, int64_t micro,
                                 shoal_sim_flow_t *flows) {
  const shoal_channel_t *channel = &sim->program->channels[index];
  shoal_arena_t scratch;
  shoal_arena_init(sim->arena->allocator, &scratch);
  shoal_reshard_t reshard;
  shoal_status_t status = shoal_layout_reshard(
      channel->src, shoal_program_micro_of(channel->src, micro), channel->dst,
      shoal_program_micro_of(channel->dst, micro), &channel->type.shape, &scratch, &reshard);
  if (!status && reshard.collective) {
    status = find_collective(sim, channel, &reshard, micro, &scratch, flows);
  } else if (!status) {
    find_messages(sim, channel, &reshard, flows);
  }
  shoal_arena_deinit(&scratch);
  return status;
}

shoal_status_t shoal_sim_channel(shoal_sim_t *sim, int32_t channel, int32_t variant,
                                 const shoal_sim_flow_t **out_flows) {
  shoal_sim_flow_t **entry = &sim->flows[(int64_t)channel * sim->variant_count + variant];
  if (!*entry) {
    *entry = SHOAL_NEW(sim->arena, shoal_sim_flow_t, sim->actor_count);
    if (!*entry) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(shoal_status_annotatef(
        find_flows(sim, channel, sim->variant_micros[variant], *entry), "channel %d", channel));
  }
  *out_flows = *entry;
  return NULL;
}
