// Cluster files: see shoal/cluster.h.
#include "shoal/cluster.h"

#include "base/options.h"
#include "base/status.h"
#include "base/yaml.h"
#include "cluster/nodes.h"

shoal_cluster_t shoal_cluster_default(void) {
  return (shoal_cluster_t){
      .flops = 5e9, .memory_bandwidth = 1e10, .link_latency = 5e-6, .link_bandwidth = 2e9};
}

static shoal_status_t read_positive(const shoal_json_t *object, const char *key, double *value) {
  const shoal_json_t *child = shoal_json_find(object, key);
  if (!child) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_real(object, key, value));
  if (*value > 0) return NULL;
  return SHOAL_ERROR(INVALID_ARGUMENT, "%s must be positive", child->path);
}

static shoal_status_t read_memory(const shoal_json_t *device, int64_t *out_bytes) {
  const shoal_json_t *memory = shoal_json_find(device, "memory");
  if (!memory) return NULL;
  if (memory->kind == SHOAL_JSON_INT && memory->integer > 0) {
    *out_bytes = memory->integer;
    return NULL;
  }
  if (memory->kind == SHOAL_JSON_STRING && shoal_size_parse(memory->string, out_bytes)) return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "write bytes, or a number with K, M, G or T: 24G",
                          "%s is not a size", memory->path);
}

// A rank per device, and the slowest node's network between them.
static shoal_status_t read_nodes(const shoal_json_t *root, shoal_arena_t *arena,
                                 shoal_cluster_t *cluster) {
  if (!shoal_json_find(root, "nodes")) return NULL;
  shoal_cluster_nodes_t nodes;
  SHOAL_RETURN_IF_ERROR(shoal_cluster_nodes_read(root, arena, &nodes));
  cluster->ranks = nodes.ranks;
  if (nodes.count == 1) return NULL;
  cluster->link_bandwidth = nodes.items[0].network_bandwidth;
  for (int64_t i = 1; i < nodes.count; ++i) {
    if (nodes.items[i].network_bandwidth < cluster->link_bandwidth)
      cluster->link_bandwidth = nodes.items[i].network_bandwidth;
  }
  return NULL;
}

static shoal_status_t read_link(const shoal_json_t *root, const char *key, double *latency,
                                double *bandwidth) {
  static const char *const keys[] = {"latency", "bandwidth"};
  const shoal_json_t *link = NULL;
  if (!shoal_json_find(root, key)) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(root, key, SHOAL_JSON_OBJECT, &link));
  SHOAL_RETURN_IF_ERROR(shoal_json_only(link, keys, 2));
  SHOAL_RETURN_IF_ERROR(read_positive(link, "latency", latency));
  return read_positive(link, "bandwidth", bandwidth);
}

static shoal_status_t read_all(const shoal_json_t *root, shoal_arena_t *arena,
                               shoal_cluster_t *cluster) {
  static const char *const keys[] = {"shoal_cluster", "ranks", "device", "link",
                                     "node_link",     "nodes", "ssh"};
  static const char *const device_keys[] = {"flops", "bandwidth", "memory"};
  SHOAL_RETURN_IF_ERROR(shoal_json_only(root, keys, 7));
  int64_t version = 1, ranks = 0;
  SHOAL_RETURN_IF_ERROR(read_nodes(root, arena, cluster));
  // A file of nodes alone is AutoDist's, which has no version.
  if (!shoal_json_find(root, "nodes") || shoal_json_find(root, "shoal_cluster"))
    SHOAL_RETURN_IF_ERROR(shoal_json_get_int(root, "shoal_cluster", &version));
  if (version != 1)
    return SHOAL_ERROR(UNSUPPORTED, "%s: cluster format %lld; this version reads 1",
                       shoal_json_find(root, "shoal_cluster")->path, (long long)version);
  if (shoal_json_find(root, "ranks")) {
    SHOAL_RETURN_IF_ERROR(shoal_json_get_int(root, "ranks", &ranks));
    if (ranks < 1 || ranks > 1 << 24)
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s is %lld; it must be from 1 to %d",
                         shoal_json_find(root, "ranks")->path, (long long)ranks, 1 << 24);
    cluster->ranks = (int32_t)ranks;
  }
  const shoal_json_t *part = NULL;
  if (shoal_json_find(root, "device")) {
    SHOAL_RETURN_IF_ERROR(shoal_json_get_child(root, "device", SHOAL_JSON_OBJECT, &part));
    SHOAL_RETURN_IF_ERROR(shoal_json_only(part, device_keys, 3));
    SHOAL_RETURN_IF_ERROR(read_positive(part, "flops", &cluster->flops));
    SHOAL_RETURN_IF_ERROR(read_positive(part, "bandwidth", &cluster->memory_bandwidth));
    SHOAL_RETURN_IF_ERROR(read_memory(part, &cluster->memory));
  }
  SHOAL_RETURN_IF_ERROR(read_link(root, "link", &cluster->link_latency, &cluster->link_bandwidth));
  if (!shoal_json_find(root, "node_link")) return NULL;
  cluster->node_link_latency = shoal_cluster_default().link_latency;
  cluster->node_link_bandwidth = shoal_cluster_default().link_bandwidth;
  return read_link(root, "node_link", &cluster->node_link_latency, &cluster->node_link_bandwidth);
}

shoal_status_t shoal_cluster_parse(const char *name, const char *text,
                                   shoal_cluster_t *out_cluster) {
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const shoal_json_t *root = NULL;
  shoal_cluster_t cluster = shoal_cluster_default();
  shoal_status_t status = shoal_yaml_parse(name, text, &arena, &root);
  if (!status && root->kind != SHOAL_JSON_OBJECT)
    status = SHOAL_ERROR(INVALID_ARGUMENT, "%s: a cluster file is a mapping", name);
  if (!status) status = read_all(root, &arena, &cluster);
  shoal_arena_deinit(&arena);
  if (!status) *out_cluster = cluster;
  return status;
}
