// Kinds of devices (kinds.inc), and presets made of them: KIND[xDEVICES][:NODES], joined by '+', as
// in "v100x8:2+p100x8:2". One device and one node where nothing is said.
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "cluster/cluster.h"
#include "shoal/options.h"

#define GIB (INT64_C(1) << 30)
#define MAX_PARTS 64
#define DISK 2e9  // bytes per second of one disk, where nothing is said

typedef struct kind {
  shoal_cluster_nodes_t nodes;  // any number of them, with one device each
  int32_t cards;                // of a node of 8
} kind_t;

static const kind_t kinds[] = {
#define SHOAL_CLUSTER_KIND(name_, f64, f32, bf16, f16, memory_, bandwidth_, host_, ring_, \
                           node_latency, node_bandwidth, latency_, card, cards_)          \
  {.nodes = {.count = SHOAL_CLUSTER_MAX_RANKS,                                            \
             .devices = 1,                                                                \
             .device = {.name = #name_,                                                   \
                        .flops = {[SHOAL_F64] = f64,                                      \
                                  [SHOAL_F32] = f32,                                      \
                                  [SHOAL_BF16] = bf16,                                    \
                                  [SHOAL_F16] = f16,                                      \
                                  [SHOAL_I64] = f32,                                      \
                                  [SHOAL_I32] = f32,                                      \
                                  [SHOAL_U8] = f32,                                       \
                                  [SHOAL_BOOL] = f32,                                     \
                                  [SHOAL_I8] = f32,                                       \
                                  [SHOAL_F8_E4M3] = f32,                                  \
                                  [SHOAL_F8_E5M2] = f32},                                 \
                        .bandwidth = bandwidth_,                                          \
                        .host_bandwidth = host_,                                          \
                        .disk_bandwidth = DISK,                                           \
                        .memory = memory_ * GIB,                                          \
                        .ring = ring_},                                                   \
             .node_link = {node_latency, node_bandwidth},                                 \
             .link = {latency_, card},                                                    \
             .cards = 1},                                                                 \
   .cards = cards_},
#include "cluster/kinds.inc"
#undef SHOAL_CLUSTER_KIND
};
enum { KIND_COUNT = sizeof kinds / sizeof *kinds, CPU = 0 };

static const shoal_cluster_t default_cluster = {
    .node_count = SHOAL_CLUSTER_MAX_RANKS, .group_count = 1, .groups = &kinds[CPU].nodes};

const shoal_cluster_t *shoal_cluster_default(void) {
  return &default_cluster;
}

const shoal_cluster_device_t *shoal_cluster_kind(int64_t index) {
  return index >= 0 && index < KIND_COUNT ? &kinds[index].nodes.device : NULL;
}

static const kind_t *find_kind(const char *name) {
  for (int i = 0; i < KIND_COUNT; ++i) {
    if (strcmp(kinds[i].nodes.device.name, name) == 0) return &kinds[i];
  }
  return NULL;
}

shoal_status_t shoal_cluster_kind_nodes(const char *where, const char *kind,
                                        shoal_cluster_nodes_t *out_nodes) {
  const kind_t *found = find_kind(kind);
  if (!found) {
    const char *names[KIND_COUNT];
    for (int i = 0; i < KIND_COUNT; ++i) names[i] = kinds[i].nodes.device.name;
    shoal_hint_t hint;
    return SHOAL_ERROR_HINT(
        INVALID_ARGUMENT,
        shoal_did_you_mean(kind, names, KIND_COUNT, "`shoal info` lists the kinds", &hint),
        "%s: there is no kind of device '%s'", where, kind);
  }
  *out_nodes = found->nodes;
  out_nodes->count = 1;
  out_nodes->has_node_link = found != &kinds[CPU];
  return NULL;
}

bool shoal_cluster_is_kind(const shoal_cluster_device_t *device) {
  const kind_t *found = find_kind(device->name);
  if (!found) return false;
  const shoal_cluster_device_t *built_in = &found->nodes.device;
  bool same = built_in->bandwidth == device->bandwidth && built_in->memory == device->memory &&
              built_in->ring == device->ring &&
              built_in->host_bandwidth == device->host_bandwidth &&
              built_in->disk_bandwidth == device->disk_bandwidth;
  for (int i = 0; i < SHOAL_DTYPE_COUNT; ++i) same &= built_in->flops[i] == device->flops[i];
  return same;
}

// ---- presets --------------------------------------------------------------------------

typedef struct part {
  char kind[32];
  int64_t devices, nodes;
} part_t;

// Digits from 1 on; false: there are none.
static bool read_digits(const char **at, int64_t *out_value) {
  char *end;
  if (**at < '1' || **at > '9') return false;
  *out_value = strtoll(*at, &end, 10);
  *at = end;
  return true;
}

static bool read_part(const char **at, part_t *out_part) {
  *out_part = (part_t){.devices = 1, .nodes = 1};
  // A kind is letters and digits; "x8" at its end is how many.
  size_t length = strspn(*at, "abcdefghijklmnopqrstuvwxyz0123456789");
  if (length == 0 || length >= sizeof out_part->kind || **at < 'a') return false;
  memcpy(out_part->kind, *at, length);
  *at += length;
  char *x = strrchr(out_part->kind, 'x');
  if (x && x > out_part->kind && x[1]) {
    const char *digits = x + 1;
    if (read_digits(&digits, &out_part->devices) && !*digits) {
      *x = 0;
    } else {
      out_part->devices = 1;
    }
  }
  if (**at == ':') {
    ++*at;
    if (!read_digits(at, &out_part->nodes)) return false;
  }
  return true;
}

static bool read_parts(const char *text, part_t *parts, int64_t *out_count) {
  *out_count = 0;
  for (const char *at = text;; ++at) {
    if (*out_count == MAX_PARTS || !read_part(&at, &parts[(*out_count)++])) return false;
    at += strspn(at, "\n");  // a file that holds nothing else
    if (!*at) return true;
    if (*at != '+') return false;
  }
}

bool shoal_cluster_is_preset(const char *text) {
  part_t parts[MAX_PARTS];
  int64_t count;
  return read_parts(text, parts, &count);
}

shoal_status_t shoal_cluster_preset(const char *name, const char *text, shoal_cluster_t *cluster) {
  part_t parts[MAX_PARTS];
  int64_t count;
  if (!read_parts(text, parts, &count)) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "as in a100x8:128 or v100x8:2+p100x8:2",
                            "%s: a cluster file is a mapping, or a preset KIND[xDEVICES][:NODES]",
                            name);
  }
  shoal_cluster_nodes_t *groups = SHOAL_NEW(cluster->arena, shoal_cluster_nodes_t, count);
  if (!groups) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_cluster_kind_nodes(name, parts[i].kind, &groups[i]));
    if (parts[i].devices > SHOAL_CLUSTER_MAX_RANKS || parts[i].nodes > SHOAL_CLUSTER_MAX_RANKS) {
      return SHOAL_ERROR(UNSUPPORTED, "%s: too many devices", name);
    }
    groups[i].count = (int32_t)parts[i].nodes;
    groups[i].devices = (int32_t)parts[i].devices;
    const int32_t cards = find_kind(parts[i].kind)->cards;  // as many for each device as in 8
    groups[i].cards = (int32_t)((parts[i].devices * cards + 7) / 8);
    groups[i].has_node_link = true;
  }
  cluster->has_nodes = cluster->has_link = true;
  return shoal_cluster_number(groups, count, cluster);
}
