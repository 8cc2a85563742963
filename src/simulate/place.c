// Where the ranks of a group lie: those that differ from one rank in some axes of a mesh only. On a
// mesh without a list of ranks their numbers are sums of multiples of the axes' strides, so those
// below a bound are counted axis by axis; with a list the group is walked.
#include "simulate/simulate_impl.h"

// The first rank of the group, and how many ranks it has.
static int64_t group_of(const shoal_mesh_t *mesh, uint32_t axes, int64_t position,
                        int64_t strides[SHOAL_MAX_AXES], int64_t *out_count) {
  int64_t stride = 1, first = 0, count = 1;
  for (int32_t a = mesh->axis_count - 1; a >= 0; --a) {
    const int64_t size = mesh->axes[a].size, coordinate = position / stride % size;
    strides[a] = stride;
    if (axes >> a & 1) {
      count *= size;
    } else {
      first += coordinate * stride;
    }
    stride *= size;
  }
  *out_count = count;
  return first;
}

// Positions below `bound`. Inner axes together are shorter than one step of an outer axis: as many
// whole steps as fit are counted with all that is inside them, then what is left is looked at.
static int64_t count_below(const shoal_mesh_t *mesh, uint32_t axes, int64_t first,
                           const int64_t strides[SHOAL_MAX_AXES], int64_t inside, int64_t bound) {
  int64_t left = bound - first, total = 0;
  for (int32_t a = 0; a < mesh->axis_count && left > 0; ++a) {
    if (!(axes >> a & 1)) continue;
    const int64_t size = mesh->axes[a].size;
    inside /= size;
    const int64_t steps = left / strides[a];
    if (steps >= size) return total + size * inside;
    total += steps * inside;
    left -= steps * strides[a];
  }
  return total + (left > 0 ? inside : 0);
}

int64_t shoal_sim_count_axes(const shoal_mesh_t *mesh, uint32_t axes, int64_t position,
                             int64_t from, int64_t to) {
  int64_t strides[SHOAL_MAX_AXES], count;
  const int64_t first = group_of(mesh, axes, position, strides, &count);
  if (!mesh->ranks) {
    return count_below(mesh, axes, first, strides, count, to) -
           count_below(mesh, axes, first, strides, count, from);
  }
  int64_t found = 0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = first, rest = i;
    for (int32_t a = mesh->axis_count - 1; a >= 0; --a) {
      if (!(axes >> a & 1)) continue;
      at += rest % mesh->axes[a].size * strides[a];
      rest /= mesh->axes[a].size;
    }
    const int32_t rank = mesh->ranks[at];
    found += rank >= from && rank < to;
  }
  return found;
}

void shoal_sim_place_axes(const shoal_cluster_t *cluster, const shoal_mesh_t *mesh, uint32_t axes,
                          int64_t position, shoal_sim_place_t *out_place) {
  int64_t strides[SHOAL_MAX_AXES], count;
  group_of(mesh, axes, position, strides, &count);
  const int32_t node = shoal_cluster_node(cluster, shoal_mesh_rank(mesh, position));
  int32_t first, end, unused;
  shoal_cluster_node_ranks(cluster, node, &first, &end);
  *out_place =
      (shoal_sim_place_t){.count = (double)count,
                          .node = (double)shoal_sim_count_axes(mesh, axes, position, first, end),
                          .rack = (double)count};
  const int32_t rack = cluster->rack_nodes;
  if (rack == 0) return;
  int32_t last = (node / rack + 1) * rack - 1;
  if (last >= cluster->node_count) last = cluster->node_count - 1;
  shoal_cluster_node_ranks(cluster, node / rack * rack, &first, &unused);
  shoal_cluster_node_ranks(cluster, last, &unused, &end);
  out_place->rack = (double)shoal_sim_count_axes(mesh, axes, position, first, end);
}
