// `nodes` and `ssh` of cluster files; see nodes.h.
#include "cluster/nodes.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/yaml.h"

#define MAX_RANKS (1 << 24)
#define GBIT (1e9 / 8)

// ---- pieces ---------------------------------------------------------------------------

// A string that may be missing or empty: then NULL. Numbers are taken as they were written.
static shoal_status_t read_text(const shoal_json_t *object, const char *key, shoal_arena_t *arena,
                                const char **out_text) {
  const shoal_json_t *child = shoal_json_find(object, key);
  *out_text = NULL;
  if (!child || child->kind == SHOAL_JSON_NULL) return NULL;
  if (child->kind == SHOAL_JSON_INT) {
    *out_text = shoal_arena_printf(arena, "%lld", (long long)child->integer);
  } else if (child->kind == SHOAL_JSON_STRING) {
    if (!child->string[0]) return NULL;
    *out_text = shoal_arena_strdup(arena, child->string);
  } else {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s is not a text", child->path);
  }
  return *out_text ? NULL : SHOAL_OOM();
}

// How many different indices a list has; those of `with_zero` lists include 0 anyway.
static shoal_status_t count_devices(const shoal_json_t *node, const char *key, bool with_zero,
                                    int32_t *out_count) {
  const shoal_json_t *list = shoal_json_find(node, key);
  *out_count = with_zero;
  if (!list || list->kind == SHOAL_JSON_NULL) return NULL;
  if (list->kind != SHOAL_JSON_ARRAY || list->count > MAX_RANKS) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "write the devices' numbers: [0, 1]",
                            "%s is not a list", list->path);
  }
  int32_t count = 0;
  bool zero = false;
  for (int64_t i = 0; i < list->count; ++i) {
    const shoal_json_t *item = &list->children[i];
    if (item->kind != SHOAL_JSON_INT || item->integer < 0) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s is not a device's number", item->path);
    }
    for (int64_t j = 0; j < i; ++j) {
      if (list->children[j].integer == item->integer) {
        return SHOAL_ERROR(INVALID_ARGUMENT, "%s names device %lld again", item->path,
                           (long long)item->integer);
      }
    }
    zero |= item->integer == 0;
    ++count;
  }
  *out_count = count + (with_zero && !zero);
  return NULL;
}

static bool is_loopback(const char *address) {
  return strcmp(address, "localhost") == 0 || strncmp(address, "127.", 4) == 0 ||
         strcmp(address, "::1") == 0;
}

// It becomes a line of a host file and a word of ssh's: letters, digits and what addresses have.
static bool is_address(const char *address) {
  const char *allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:-_%";
  return address[0] && address[0] != '-' && strspn(address, allowed) == strlen(address);
}

// ---- ssh ------------------------------------------------------------------------------

static shoal_status_t read_shared_envs(const shoal_json_t *object, shoal_arena_t *arena,
                                       shoal_cluster_ssh_t *ssh) {
  const shoal_json_t *envs = shoal_json_find(object, "shared_envs");
  if (!envs || envs->kind == SHOAL_JSON_NULL) return NULL;
  if (envs->kind != SHOAL_JSON_OBJECT) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s is not a mapping", envs->path);
  }
  shoal_cluster_variable_t *variables = SHOAL_NEW(arena, shoal_cluster_variable_t, envs->count);
  if (!variables) return SHOAL_OOM();
  for (int64_t i = 0; i < envs->count; ++i) {
    const char *key = envs->children[i].key;
    if (strpbrk(key, "= \t\n") || !key[0]) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s is no variable's name", envs->children[i].path);
    }
    variables[i].name = shoal_arena_strdup(arena, key);
    if (!variables[i].name) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(read_text(envs, key, arena, &variables[i].value));
    if (!variables[i].value) variables[i].value = "";
  }
  ssh->shared_envs = variables;
  ssh->shared_env_count = envs->count;
  return NULL;
}

static shoal_status_t read_ssh(const shoal_json_t *object, shoal_arena_t *arena,
                               shoal_cluster_ssh_t *out_ssh) {
  static const char *const keys[] = {"username", "port", "key_file", "python_venv", "shared_envs"};
  if (object->kind != SHOAL_JSON_OBJECT) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s is not a mapping", object->path);
  }
  SHOAL_RETURN_IF_ERROR(shoal_json_only(object, keys, 5));
  shoal_cluster_ssh_t ssh = {.name = shoal_arena_strdup(arena, object->key)};
  if (!ssh.name) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(read_text(object, "username", arena, &ssh.username));
  SHOAL_RETURN_IF_ERROR(read_text(object, "key_file", arena, &ssh.key_file));
  SHOAL_RETURN_IF_ERROR(read_text(object, "python_venv", arena, &ssh.python_venv));
  SHOAL_RETURN_IF_ERROR(read_shared_envs(object, arena, &ssh));
  const shoal_json_t *port = shoal_json_find(object, "port");
  if (port) {
    if (port->kind != SHOAL_JSON_INT || port->integer < 1 || port->integer > 65535) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s is not a port", port->path);
    }
    ssh.port = (int32_t)port->integer;
  }
  const char *texts[] = {ssh.username, ssh.key_file};
  for (int i = 0; i < 2; ++i) {
    if (texts[i] && strpbrk(texts[i], "\n\r\"")) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s: %s has a quote or a line break", object->path,
                         i ? "key_file" : "username");
    }
  }
  *out_ssh = ssh;
  return NULL;
}

static shoal_status_t read_all_ssh(const shoal_json_t *root, shoal_arena_t *arena,
                                   shoal_cluster_ssh_t **out_items, int64_t *out_count) {
  const shoal_json_t *all = shoal_json_find(root, "ssh");
  *out_items = NULL;
  *out_count = 0;
  if (!all || all->kind == SHOAL_JSON_NULL) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(root, "ssh", SHOAL_JSON_OBJECT, &all));
  shoal_cluster_ssh_t *items = SHOAL_NEW(arena, shoal_cluster_ssh_t, all->count);
  if (!items) return SHOAL_OOM();
  for (int64_t i = 0; i < all->count; ++i) {
    SHOAL_RETURN_IF_ERROR(read_ssh(&all->children[i], arena, &items[i]));
  }
  *out_items = items;
  *out_count = all->count;
  return NULL;
}

// ---- nodes ----------------------------------------------------------------------------

static shoal_status_t find_ssh(const shoal_json_t *node, const shoal_cluster_ssh_t *items,
                               int64_t count, const shoal_cluster_ssh_t **out_ssh) {
  const shoal_json_t *name = shoal_json_find(node, "ssh_config");
  *out_ssh = NULL;
  if (!name || name->kind == SHOAL_JSON_NULL) return NULL;
  const char *text;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(node, "ssh_config", &text));
  for (int64_t i = 0; i < count; ++i) {
    if (strcmp(items[i].name, text) == 0) {
      *out_ssh = &items[i];
      return NULL;
    }
  }
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "the top-level key `ssh` holds them",
                          "%s: there is no ssh configuration '%s'", name->path, text);
}

static shoal_status_t read_node(const shoal_json_t *object, const shoal_cluster_ssh_t *ssh,
                                int64_t ssh_count, shoal_arena_t *arena,
                                shoal_cluster_node_t *out_node) {
  static const char *const keys[] = {"address", "cpus",       "gpus",
                                     "chief",   "ssh_config", "network_bandwidth"};
  if (object->kind != SHOAL_JSON_OBJECT) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s is not a mapping", object->path);
  }
  SHOAL_RETURN_IF_ERROR(shoal_json_only(object, keys, 6));
  shoal_cluster_node_t node = {.network_bandwidth = GBIT};
  const char *address;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(object, "address", &address));
  if (!is_address(address)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s: '%s' is neither an address nor a host's name",
                       shoal_json_find(object, "address")->path, address);
  }
  node.address = shoal_arena_strdup(arena, address);
  if (!node.address) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(count_devices(object, "gpus", false, &node.gpus));
  SHOAL_RETURN_IF_ERROR(count_devices(object, "cpus", true, &node.cpus));
  node.ranks = node.gpus > 0 ? node.gpus : node.cpus;
  const shoal_json_t *chief = shoal_json_find(object, "chief");
  if (chief) {
    if (chief->kind != SHOAL_JSON_BOOL) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s is neither true nor false", chief->path);
    }
    node.chief = chief->boolean;
  }
  const shoal_json_t *bandwidth = shoal_json_find(object, "network_bandwidth");
  if (bandwidth) {
    double gbit = 0;
    SHOAL_RETURN_IF_ERROR(shoal_json_get_real(object, "network_bandwidth", &gbit));
    if (!(gbit > 0)) return SHOAL_ERROR(INVALID_ARGUMENT, "%s must be positive", bandwidth->path);
    node.network_bandwidth = gbit * GBIT;
  }
  SHOAL_RETURN_IF_ERROR(find_ssh(object, ssh, ssh_count, &node.ssh));
  *out_node = node;
  return NULL;
}

// What only all of them together can get wrong.
static shoal_status_t check_nodes(const shoal_json_t *list, shoal_cluster_node_t *nodes,
                                  shoal_cluster_nodes_t *out) {
  out->chief = -1;
  if (list->count == 1) nodes[0].chief = true;
  for (int64_t i = 0; i < list->count; ++i) {
    const char *path = list->children[i].path;
    if (list->count > 1 && is_loopback(nodes[i].address)) {
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give the address by which the others reach it",
                              "%s: '%s' is this machine itself, but there are %lld nodes", path,
                              nodes[i].address, (long long)list->count);
    }
    for (int64_t j = 0; j < i; ++j) {
      if (strcmp(nodes[i].address, nodes[j].address) == 0) {
        return SHOAL_ERROR(INVALID_ARGUMENT, "%s: address '%s' is there already", path,
                           nodes[i].address);
      }
    }
    if (nodes[i].chief && out->chief >= 0) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s: a second chief, after nodes[%lld]", path,
                         (long long)out->chief);
    }
    if (nodes[i].chief) out->chief = i;
    out->ranks += nodes[i].ranks;
    if (out->ranks > MAX_RANKS) return SHOAL_ERROR(UNSUPPORTED, "%s: too many devices", path);
  }
  if (out->chief < 0) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "add `chief: true` to the node you launch from",
                            "%s has no chief", list->path);
  }
  for (int64_t i = 0; i < list->count; ++i) {
    if (!nodes[i].chief && !nodes[i].ssh) {
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "name one of the configurations under `ssh`",
                              "%s: a node that is not the chief needs ssh_config",
                              list->children[i].path);
    }
  }
  return NULL;
}

shoal_status_t shoal_cluster_nodes_read(const shoal_json_t *root, shoal_arena_t *arena,
                                        shoal_cluster_nodes_t *out_nodes) {
  const shoal_json_t *list;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(root, "nodes", SHOAL_JSON_ARRAY, &list));
  if (list->count == 0) return SHOAL_ERROR(INVALID_ARGUMENT, "%s is empty", list->path);
  shoal_cluster_ssh_t *ssh;
  int64_t ssh_count;
  SHOAL_RETURN_IF_ERROR(read_all_ssh(root, arena, &ssh, &ssh_count));
  shoal_cluster_node_t *nodes = SHOAL_NEW(arena, shoal_cluster_node_t, list->count);
  if (!nodes) return SHOAL_OOM();
  for (int64_t i = 0; i < list->count; ++i) {
    SHOAL_RETURN_IF_ERROR(read_node(&list->children[i], ssh, ssh_count, arena, &nodes[i]));
  }
  shoal_cluster_nodes_t result = {.items = nodes, .count = list->count};
  SHOAL_RETURN_IF_ERROR(check_nodes(list, nodes, &result));
  *out_nodes = result;
  return NULL;
}

shoal_status_t shoal_cluster_nodes_parse(const char *name, const char *text, shoal_arena_t *arena,
                                         shoal_cluster_nodes_t *out_nodes) {
  static const char *const keys[] = {"nodes",  "ssh",  "shoal_cluster", "ranks",
                                     "device", "link", "node_link"};
  const shoal_json_t *root;
  SHOAL_RETURN_IF_ERROR(shoal_yaml_parse(name, text, arena, &root));
  if (root->kind != SHOAL_JSON_OBJECT) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s: a cluster file is a mapping", name);
  }
  SHOAL_RETURN_IF_ERROR(shoal_json_only(root, keys, 7));
  return shoal_cluster_nodes_read(root, arena, out_nodes);
}
