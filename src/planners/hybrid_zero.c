// Strategy `hybrid-zero` (FSDP's hybrid sharding): `zero3` among the ranks of a node, replicated
// across nodes. Weights are gathered over the fast links inside a node; between nodes only a rank's
// part of each gradient is summed. The axis `node` says which ranks share one; where the mesh has
// none, `data` is divided by the nodes of the cluster, or stays whole where none is described.
#include "base/status.h"
#include "planners/zero.h"
#include "shoal/cluster.h"

// Ranks on the first node. Nodes of different size have no axis.
static shoal_status_t count_on_node(const shoal_plan_options_t *options, int32_t *out_count) {
  shoal_cluster_t *cluster;
  SHOAL_RETURN_IF_ERROR(
      shoal_cluster_parse("cluster", options->cluster, options->allocator, &cluster));
  int32_t count = 0;
  while (count < options->world && shoal_cluster_node(cluster, count) == 0) ++count;
  bool even = options->world % count == 0;
  for (int32_t r = 0; r < options->world && even; ++r)
    even = shoal_cluster_node(cluster, r) == r / count;
  shoal_cluster_free(cluster);
  *out_count = count;
  if (even) return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give a mesh with an axis node: node=2,data=4",
                          "the cluster's nodes have different numbers of the %d ranks",
                          options->world);
}

// data=8 becomes node=2,data=4 where 4 of these ranks are on a node.
static shoal_status_t divide(shoal_strategy_context_t *context) {
  shoal_mesh_t *mesh = &context->mesh;
  const int32_t data = shoal_mesh_axis(mesh, "data");
  int64_t inner = 1;
  int32_t on_node = 0;
  SHOAL_RETURN_IF_ERROR(count_on_node(context->options, &on_node));
  for (int32_t a = data + 1; a < mesh->axis_count; ++a) inner *= mesh->axes[a].size;
  const int64_t size = mesh->axes[data].size, part = on_node / inner;
  if (part >= size) return NULL;
  if (part < 1 || on_node % inner != 0 || size % part != 0 || mesh->axis_count == SHOAL_MAX_AXES)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give a mesh with an axis node: node=2,data=4",
                            "nodes of %d ranks do not divide the %lld ranks along data", on_node,
                            (long long)size);
  for (int32_t a = mesh->axis_count++; a > data; --a) mesh->axes[a] = mesh->axes[a - 1];
  mesh->axes[data] = (shoal_axis_t){.name = "node", .size = size / part};
  mesh->axes[data + 1].size = part;
  return NULL;
}

shoal_status_t shoal_strategy_hybrid_zero(shoal_strategy_context_t *context, void *user_data) {
  (void)user_data;
  const bool nodes = shoal_context_axis(context, "node") > 0;
  if (shoal_context_axis(context, "data") == 0)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "name the ranks of a node data: node=2,data=4",
                            "the mesh has no axis 'data' to share states out over");
  if (!nodes && context->options->cluster) SHOAL_RETURN_IF_ERROR(divide(context));
  SHOAL_RETURN_IF_ERROR(shoal_zero_share(context, "data:flat", true));
  SHOAL_RETURN_IF_ERROR(shoal_zero_scatter(context));
  return shoal_zero_gather(context);
}
