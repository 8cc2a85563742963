// A cluster as its file's text, in full: every node says all that is known of it.
#include <string.h>

#include "base/text.h"
#include "cluster/cluster.h"

// A double that the parser takes for a number, exactly this one.
static void add_pair(shoal_text_t *text, const char *before, const char *key, double value) {
  shoal_text_addf(text, "%s%s: ", before, key);
  shoal_text_add_double(text, value);
}

// As YAML takes it for a text, whatever is in it (line breaks are refused when files are read).
static void add_quoted(shoal_text_t *text, const char *value) {
  shoal_text_add(text, "'");
  for (const char *at = value; *at; ++at) {
    const char letter[2] = {*at, 0};
    shoal_text_add(text, *at == '\'' ? "''" : letter);
  }
  shoal_text_add(text, "'");
}

static void add_string(shoal_text_t *text, const char *before, const char *key, const char *value) {
  shoal_text_addf(text, "%s%s: ", before, key);
  add_quoted(text, value);
}

static void add_device(shoal_text_t *text, const shoal_cluster_device_t *device) {
  if (shoal_cluster_is_kind(device)) {
    shoal_text_addf(text, "device: %s", device->name);
    return;
  }
  add_string(text, "device: {", "name", device->name);
  add_pair(text, ", flops: {", "f64", device->flops[SHOAL_F64]);
  add_pair(text, ", ", "f32", device->flops[SHOAL_F32]);
  add_pair(text, ", ", "bf16", device->flops[SHOAL_BF16]);
  add_pair(text, ", ", "f16", device->flops[SHOAL_F16]);
  add_pair(text, "}, ", "bandwidth", device->bandwidth);
  add_pair(text, ", ", "host_bandwidth", device->host_bandwidth);
  add_pair(text, ", ", "disk_bandwidth", device->disk_bandwidth);
  if (device->memory > 0) shoal_text_addf(text, ", memory: %lld", (long long)device->memory);
  shoal_text_addf(text, ", collectives: %s}", device->ring ? "ring" : "direct");
}

static void add_node_link(shoal_text_t *text, const shoal_cluster_nodes_t *nodes) {
  static const char *const pers[] = {[SHOAL_CLUSTER_PER_DEVICE] = "device",
                                     [SHOAL_CLUSTER_PER_PAIR] = "pair",
                                     [SHOAL_CLUSTER_PER_NODE] = "node"};
  add_pair(text, "node_link: {", "latency", nodes->node_link.latency);
  add_pair(text, ", ", "bandwidth", nodes->node_link.bandwidth);
  shoal_text_addf(text, ", per: %s}", pers[nodes->per]);
}

static void add_links(shoal_text_t *text, const char *between, const shoal_cluster_nodes_t *nodes) {
  shoal_text_add(text, between);
  add_pair(text, "link: {", "latency", nodes->link.latency);
  add_pair(text, ", ", "bandwidth", nodes->link.bandwidth);
  shoal_text_addf(text, ", cards: %d}", nodes->cards);
  if (!nodes->has_node_link) return;
  shoal_text_add(text, between);
  add_node_link(text, nodes);
}

static void add_numbers(shoal_text_t *text, const char *key, int64_t count,
                        const int64_t *numbers) {
  if (count == 0) return;
  shoal_text_addf(text, "\n    %s: [", key);
  for (int64_t i = 0; i < count; ++i) {
    shoal_text_addf(text, "%s%lld", i ? ", " : "", (long long)numbers[i]);
  }
  shoal_text_add(text, "]");
}

static void add_nodes(shoal_text_t *text, const shoal_cluster_nodes_t *nodes) {
  if (nodes->address) {
    add_string(text, "  - ", "address", nodes->address);
    add_numbers(text, "gpus", nodes->gpu_count, nodes->gpus);
    add_numbers(text, "cpus", nodes->cpu_count, nodes->cpus);
    if (nodes->gpu_count + nodes->cpu_count == 0) {
      shoal_text_addf(text, "\n    devices: %d", nodes->devices);
    }
    if (nodes->chief) shoal_text_add(text, "\n    chief: true");
    if (nodes->ssh) add_string(text, "\n    ", "ssh_config", nodes->ssh->name);
  } else {
    shoal_text_addf(text, "  - count: %d\n    devices: %d", nodes->count, nodes->devices);
  }
  shoal_text_add(text, "\n    ");
  add_device(text, &nodes->device);
  add_links(text, "\n    ", nodes);
  shoal_text_add(text, "\n");
}

static void add_ssh(shoal_text_t *text, const shoal_cluster_ssh_t *ssh) {
  shoal_text_add(text, "  ");
  add_quoted(text, ssh->name);
  shoal_text_add(text, ": {");
  const char *between = "";
  const char *const keys[] = {"username", "key_file", "python_venv"};
  const char *const values[] = {ssh->username, ssh->key_file, ssh->python_venv};
  for (int i = 0; i < 3; ++i) {
    if (!values[i]) continue;
    add_string(text, between, keys[i], values[i]);
    between = ", ";
  }
  if (ssh->port) {
    shoal_text_addf(text, "%sport: %d", between, ssh->port);
    between = ", ";
  }
  if (ssh->shared_env_count > 0) {
    shoal_text_addf(text, "%sshared_envs: {", between);
    for (int64_t i = 0; i < ssh->shared_env_count; ++i) {
      add_string(text, i ? ", " : "", ssh->shared_envs[i].name, ssh->shared_envs[i].value);
    }
    shoal_text_add(text, "}");
  }
  shoal_text_add(text, "}\n");
}

shoal_status_t shoal_cluster_print(const shoal_cluster_t *cluster, shoal_arena_t *arena,
                                   const char **out_text) {
  shoal_text_t text;
  shoal_text_init(arena->allocator, &text);
  shoal_text_add(&text, "shoal_cluster: 1\n");
  if (!cluster->has_nodes) {
    const shoal_cluster_nodes_t *all = &cluster->groups[0];
    if (cluster->ranks) shoal_text_addf(&text, "ranks: %d\n", cluster->ranks);
    add_device(&text, &all->device);
    if (cluster->has_link) {
      add_links(&text, "\n", all);
    } else if (all->has_node_link) {
      shoal_text_add(&text, "\n");
      add_node_link(&text, all);
    }
    shoal_text_add(&text, "\n");
  }
  if (cluster->rack_nodes > 0) {
    shoal_text_addf(&text, "rack_link: {nodes: %d", cluster->rack_nodes);
    if (cluster->rack_link.latency > 0) {
      add_pair(&text, ", ", "latency", cluster->rack_link.latency);
    }
    add_pair(&text, ", ", "bandwidth", cluster->rack_link.bandwidth);
    shoal_text_add(&text, "}\n");
  }
  if (cluster->has_nodes) shoal_text_add(&text, "nodes:\n");
  for (int64_t i = 0; i < cluster->group_count && cluster->has_nodes; ++i) {
    add_nodes(&text, &cluster->groups[i]);
  }
  if (cluster->ssh_count > 0) shoal_text_add(&text, "ssh:\n");
  for (int64_t i = 0; i < cluster->ssh_count; ++i) add_ssh(&text, &cluster->ssh[i]);
  return shoal_text_finish(&text, arena, out_text);
}
