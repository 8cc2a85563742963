// Cluster files: what stands at the top of them, devices and links. docs/cluster.md describes the
// keys; nodes.c reads `nodes` and `ssh`.
#include <string.h>

#include "base/status.h"
#include "base/yaml.h"
#include "cluster/cluster.h"
#include "shoal/options.h"

#define COUNT(array) ((int64_t)(sizeof(array) / sizeof *(array)))

// ---- pieces ---------------------------------------------------------------------------

shoal_status_t shoal_cluster_read_positive(const shoal_json_t *object, const char *key,
                                           double *value) {
  const shoal_json_t *child = shoal_json_find(object, key);
  if (!child) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_real(object, key, value));
  // Beyond these limits times would no longer be numbers that can be added.
  if (*value >= 1e-40 && *value <= 1e40) return NULL;
  if (*value > 0) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s is %g; it must be from 1e-40 to 1e40", child->path,
                       *value);
  }
  return SHOAL_ERROR(INVALID_ARGUMENT, "%s must be positive", child->path);
}

shoal_status_t shoal_cluster_read_count(const shoal_json_t *object, const char *key,
                                        int32_t *value) {
  const shoal_json_t *child = shoal_json_find(object, key);
  int64_t count;
  if (!child) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_int(object, key, &count));
  if (count < 1 || count > SHOAL_CLUSTER_MAX_RANKS) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s is %lld; it must be from 1 to %d", child->path,
                       (long long)count, SHOAL_CLUSTER_MAX_RANKS);
  }
  *value = (int32_t)count;
  return NULL;
}

static shoal_status_t read_choice(const shoal_json_t *object, const char *key,
                                  const char *const *choices, int count, int *out_choice) {
  if (!shoal_json_find(object, key)) return NULL;
  const char *text;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(object, key, &text));
  for (int i = 0; i < count; ++i) {
    if (strcmp(text, choices[i]) != 0) continue;
    *out_choice = i;
    return NULL;
  }
  return SHOAL_ERROR(INVALID_ARGUMENT, "%s is '%s'; it must be %s, %s%s%s",
                     shoal_json_find(object, key)->path, text, choices[0], choices[1],
                     count > 2 ? " or " : "", count > 2 ? choices[2] : "");
}

// ---- devices --------------------------------------------------------------------------

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

// One number for all types, or a number for each; integers follow f32.
static shoal_status_t read_flops(const shoal_json_t *device, double flops[SHOAL_DTYPE_COUNT]) {
  const shoal_json_t *given = shoal_json_find(device, "flops");
  if (!given) return NULL;
  static const char *const keys[] = {"f64", "f32", "bf16", "f16"};
  double rates[4] = {flops[SHOAL_F64], flops[SHOAL_F32], flops[SHOAL_BF16], flops[SHOAL_F16]};
  if (given->kind == SHOAL_JSON_OBJECT) {
    SHOAL_RETURN_IF_ERROR(shoal_json_only(given, keys, COUNT(keys)));
    for (int i = 0; i < 4; ++i) {
      SHOAL_RETURN_IF_ERROR(shoal_cluster_read_positive(given, keys[i], &rates[i]));
    }
  } else {
    SHOAL_RETURN_IF_ERROR(shoal_cluster_read_positive(device, "flops", &rates[0]));
    for (int i = 1; i < 4; ++i) rates[i] = rates[0];
  }
  for (int i = 0; i < SHOAL_DTYPE_COUNT; ++i) flops[i] = rates[1];
  flops[SHOAL_F64] = rates[0];
  flops[SHOAL_BF16] = rates[2];
  flops[SHOAL_F16] = rates[3];
  return NULL;
}

// A kind brings its links, unless the file said before what they are.
static shoal_status_t take_kind(const char *where, const char *kind, shoal_cluster_nodes_t *nodes) {
  shoal_cluster_nodes_t like;
  SHOAL_RETURN_IF_ERROR(shoal_cluster_kind_nodes(where, kind, &like));
  nodes->device = like.device;
  nodes->node_link = like.node_link;
  nodes->has_node_link = like.has_node_link;
  nodes->link = like.link;
  return NULL;
}

shoal_status_t shoal_cluster_read_device(const shoal_json_t *parent, shoal_arena_t *arena,
                                         shoal_cluster_nodes_t *nodes) {
  static const char *const keys[] = {"kind",           "name",           "flops",  "bandwidth",
                                     "host_bandwidth", "disk_bandwidth", "memory", "collectives"};
  static const char *const ways[] = {"direct", "ring"};
  const shoal_json_t *device = shoal_json_find(parent, "device");
  if (!device) return NULL;
  if (device->kind == SHOAL_JSON_STRING) return take_kind(device->path, device->string, nodes);
  if (device->kind != SHOAL_JSON_OBJECT) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s is neither a kind of device nor a mapping",
                       device->path);
  }
  SHOAL_RETURN_IF_ERROR(shoal_json_only(device, keys, COUNT(keys)));
  const char *text;
  if (shoal_json_find(device, "kind")) {
    SHOAL_RETURN_IF_ERROR(shoal_json_get_string(device, "kind", &text));
    SHOAL_RETURN_IF_ERROR(take_kind(shoal_json_find(device, "kind")->path, text, nodes));
  }
  if (shoal_json_find(device, "name")) {
    SHOAL_RETURN_IF_ERROR(shoal_json_get_string(device, "name", &text));
    nodes->device.name = shoal_arena_strdup(arena, text);
    if (!nodes->device.name) return SHOAL_OOM();
  }
  int way = nodes->device.ring;
  SHOAL_RETURN_IF_ERROR(read_flops(device, nodes->device.flops));
  SHOAL_RETURN_IF_ERROR(shoal_cluster_read_positive(device, "bandwidth", &nodes->device.bandwidth));
  SHOAL_RETURN_IF_ERROR(
      shoal_cluster_read_positive(device, "host_bandwidth", &nodes->device.host_bandwidth));
  SHOAL_RETURN_IF_ERROR(
      shoal_cluster_read_positive(device, "disk_bandwidth", &nodes->device.disk_bandwidth));
  SHOAL_RETURN_IF_ERROR(read_memory(device, &nodes->device.memory));
  SHOAL_RETURN_IF_ERROR(read_choice(device, "collectives", ways, 2, &way));
  nodes->device.ring = way == 1;
  return NULL;
}

// ---- links ----------------------------------------------------------------------------

static shoal_status_t read_link(const shoal_json_t *parent, const char *key, const char *extra,
                                const shoal_json_t **out_json, shoal_cluster_link_t *link) {
  const char *const keys[] = {"latency", "bandwidth", extra};
  *out_json = NULL;
  if (!shoal_json_find(parent, key)) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(parent, key, SHOAL_JSON_OBJECT, out_json));
  SHOAL_RETURN_IF_ERROR(shoal_json_only(*out_json, keys, 3));
  SHOAL_RETURN_IF_ERROR(shoal_cluster_read_positive(*out_json, "latency", &link->latency));
  return shoal_cluster_read_positive(*out_json, "bandwidth", &link->bandwidth);
}

shoal_status_t shoal_cluster_read_links(const shoal_json_t *parent, shoal_cluster_nodes_t *nodes) {
  static const char *const pers[] = {"device", "pair", "node"};
  const shoal_json_t *json;
  SHOAL_RETURN_IF_ERROR(read_link(parent, "link", "cards", &json, &nodes->link));
  if (json) SHOAL_RETURN_IF_ERROR(shoal_cluster_read_count(json, "cards", &nodes->cards));
  SHOAL_RETURN_IF_ERROR(read_link(parent, "node_link", "per", &json, &nodes->node_link));
  if (!json) return NULL;
  int per = (int)nodes->per;
  SHOAL_RETURN_IF_ERROR(read_choice(json, "per", pers, 3, &per));
  nodes->per = (shoal_cluster_per_t)per;
  nodes->has_node_link = true;
  return NULL;
}

static shoal_status_t read_racks(const shoal_json_t *root, shoal_cluster_t *cluster) {
  const shoal_json_t *json;
  SHOAL_RETURN_IF_ERROR(read_link(root, "rack_link", "nodes", &json, &cluster->rack_link));
  if (!json) return NULL;
  for (int i = 0; i < 2; ++i) {
    const char *needed = i ? "bandwidth" : "nodes";
    if (!shoal_json_find(json, needed)) {
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "as in {nodes: 16, bandwidth: 200.0e9}",
                              "%s needs '%s'", json->path, needed);
    }
  }
  return shoal_cluster_read_count(json, "nodes", &cluster->rack_nodes);
}

// ---- the file -------------------------------------------------------------------------

static shoal_status_t check_version(const shoal_json_t *root) {
  int64_t version = 1;
  // A file of nodes alone is AutoDist's, which has no version.
  if (!shoal_json_find(root, "nodes") || shoal_json_find(root, "shoal_cluster")) {
    SHOAL_RETURN_IF_ERROR(shoal_json_get_int(root, "shoal_cluster", &version));
  }
  if (version == 1) return NULL;
  return SHOAL_ERROR(UNSUPPORTED, "%s: cluster format %lld; this version reads 1",
                     shoal_json_find(root, "shoal_cluster")->path, (long long)version);
}

// Without nodes every device is a node of its own.
static shoal_status_t read_ranks(const shoal_json_t *root, const shoal_cluster_nodes_t *like,
                                 shoal_cluster_t *cluster) {
  shoal_cluster_nodes_t *group = SHOAL_NEW(cluster->arena, shoal_cluster_nodes_t, 1);
  int32_t ranks = 0;
  if (!group) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_cluster_read_count(root, "ranks", &ranks));
  *group = *like;
  group->count = ranks ? ranks : SHOAL_CLUSTER_MAX_RANKS;
  SHOAL_RETURN_IF_ERROR(shoal_cluster_number(group, 1, cluster));
  cluster->ranks = ranks;
  return NULL;
}

static shoal_status_t read_all(const shoal_json_t *root, shoal_cluster_t *cluster) {
  static const char *const keys[] = {"shoal_cluster", "ranks",     "device", "link",
                                     "node_link",     "rack_link", "nodes",  "ssh"};
  SHOAL_RETURN_IF_ERROR(shoal_json_only(root, keys, COUNT(keys)));
  SHOAL_RETURN_IF_ERROR(check_version(root));
  shoal_cluster_nodes_t like;
  SHOAL_RETURN_IF_ERROR(shoal_cluster_kind_nodes("default", "cpu", &like));
  SHOAL_RETURN_IF_ERROR(shoal_cluster_read_device(root, cluster->arena, &like));
  SHOAL_RETURN_IF_ERROR(shoal_cluster_read_links(root, &like));
  SHOAL_RETURN_IF_ERROR(read_racks(root, cluster));
  cluster->has_link = shoal_json_find(root, "link") != NULL;
  if (!shoal_json_find(root, "nodes")) return read_ranks(root, &like, cluster);
  const shoal_json_t *ranks = shoal_json_find(root, "ranks");
  if (ranks) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "leave it out",
                            "%s: a file with nodes has as many ranks as they have devices",
                            ranks->path);
  }
  return shoal_cluster_read_nodes(root, &like, cluster);
}

shoal_status_t shoal_cluster_parse(const char *name, const char *text, shoal_allocator_t allocator,
                                   shoal_cluster_t **out_cluster) {
  *out_cluster = NULL;
  shoal_arena_t *arena;
  SHOAL_RETURN_IF_ERROR(
      shoal_arena_create(allocator.alloc ? allocator : shoal_allocator_system(), &arena));
  shoal_cluster_t *cluster = SHOAL_NEW(arena, shoal_cluster_t, 1);
  const shoal_json_t *root = NULL;
  shoal_status_t status = cluster ? shoal_yaml_parse(name, text, arena, &root) : SHOAL_OOM();
  if (!status) {
    cluster->arena = arena;
    if (root->kind == SHOAL_JSON_OBJECT) {
      status = read_all(root, cluster);
    } else {
      status =
          shoal_cluster_preset(name, root->kind == SHOAL_JSON_STRING ? root->string : "", cluster);
    }
  }
  if (status) {
    shoal_arena_free(arena);
    return status;
  }
  *out_cluster = cluster;
  return NULL;
}
