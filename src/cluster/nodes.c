// `nodes` and `ssh` of cluster files: Shoal's own, and AutoDist's resource_spec.yml as it is.
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "cluster/cluster.h"

#define GBIT (1e9 / 8)
#define COUNT(array) ((int64_t)(sizeof(array) / sizeof *(array)))

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

typedef struct entry {
  const char *text;
  int64_t number, index;
} entry_t;

static int compare_entries(const void *a, const void *b) {
  const entry_t *x = a, *y = b;
  const int text = x->text ? strcmp(x->text, y->text) : 0;
  if (text) return text;
  if (x->number != y->number) return x->number < y->number ? -1 : 1;
  return x->index < y->index ? -1 : 1;
}

// The first entry that another one before it equals; -1: all differ. Sorts them.
static int64_t first_again(entry_t *entries, int64_t count) {
  int64_t first = -1;
  if (count > 1) qsort(entries, (size_t)count, sizeof *entries, compare_entries);
  for (int64_t i = 1; i < count; ++i) {
    const entry_t *a = &entries[i - 1], *b = &entries[i];
    if (a->number != b->number || (a->text && strcmp(a->text, b->text) != 0)) continue;
    if (first < 0 || b->index < first) first = b->index;
  }
  return first;
}

// Numbers of devices, all different; a missing list is empty.
static shoal_status_t read_devices(const shoal_json_t *node, const char *key, shoal_arena_t *arena,
                                   int64_t *out_count, const int64_t **out_numbers) {
  const shoal_json_t *list = shoal_json_find(node, key);
  *out_count = 0;
  if (!list || list->kind == SHOAL_JSON_NULL) return NULL;
  if (list->kind != SHOAL_JSON_ARRAY || list->count > SHOAL_CLUSTER_MAX_RANKS) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "write the devices' numbers: [0, 1]",
                            "%s is not a list", list->path);
  }
  int64_t *numbers = SHOAL_NEW(arena, int64_t, list->count);
  entry_t *entries = SHOAL_NEW(arena, entry_t, list->count);
  if (!numbers || !entries) return SHOAL_OOM();
  for (int64_t i = 0; i < list->count; ++i) {
    const shoal_json_t *item = &list->children[i];
    if (item->kind != SHOAL_JSON_INT || item->integer < 0) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s is not a device's number", item->path);
    }
    numbers[i] = item->integer;
    entries[i] = (entry_t){.number = item->integer, .index = i};
  }
  const int64_t again = first_again(entries, list->count);
  if (again >= 0) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s names device %lld again", list->children[again].path,
                       (long long)numbers[again]);
  }
  *out_count = list->count;
  *out_numbers = numbers;
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

#define NAME_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789"

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
    if (!key[0] || key[strspn(key, NAME_LETTERS)]) {
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

// Its ranks: the gpus; else the cpus, of which number 0 is always there; else what `devices` says.
static shoal_status_t count_devices(const shoal_json_t *object, shoal_arena_t *arena,
                                    shoal_cluster_nodes_t *node) {
  SHOAL_RETURN_IF_ERROR(read_devices(object, "gpus", arena, &node->gpu_count, &node->gpus));
  SHOAL_RETURN_IF_ERROR(read_devices(object, "cpus", arena, &node->cpu_count, &node->cpus));
  bool zero = false;
  for (int64_t i = 0; i < node->cpu_count; ++i) zero |= node->cpus[i] == 0;
  node->devices = (int32_t)(node->gpu_count > 0 ? node->gpu_count : node->cpu_count + !zero);
  const shoal_json_t *devices = shoal_json_find(object, "devices");
  if (devices && (shoal_json_find(object, "gpus") || shoal_json_find(object, "cpus"))) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s: devices are counted or listed, not both",
                       devices->path);
  }
  return shoal_cluster_read_count(object, "devices", &node->devices);
}

static shoal_status_t read_address(const shoal_json_t *object, shoal_arena_t *arena,
                                   shoal_cluster_nodes_t *node) {
  const char *address;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(object, "address", &address));
  if (!is_address(address)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s: '%s' is neither an address nor a host's name",
                       shoal_json_find(object, "address")->path, address);
  }
  const shoal_json_t *count = shoal_json_find(object, "count");
  if (count) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s: one address is one node", count->path);
  }
  node->address = shoal_arena_strdup(arena, address);
  return node->address ? NULL : SHOAL_OOM();
}

// AutoDist's network_bandwidth counts unless a link's bandwidth is given, here or for all nodes; a
// node that is launched on and says nothing has 1 Gbit/s, as there.
static shoal_status_t read_network(const shoal_json_t *root, const shoal_json_t *object,
                                   shoal_cluster_nodes_t *node) {
  const shoal_json_t *given = shoal_json_find(object, "network_bandwidth");
  const shoal_json_t *all = shoal_json_find(root, "link");
  double gbit = 1;
  SHOAL_RETURN_IF_ERROR(shoal_cluster_read_positive(object, "network_bandwidth", &gbit));
  const bool kind = shoal_json_find(object, "device") || shoal_json_find(root, "device");
  const bool known = all && shoal_json_find(all, "bandwidth");
  if (!known && (given || (node->address && !kind))) node->link.bandwidth = gbit * GBIT;
  return NULL;
}

static shoal_status_t read_node(const shoal_json_t *root, const shoal_json_t *object,
                                const shoal_cluster_ssh_t *ssh, int64_t ssh_count,
                                shoal_arena_t *arena, shoal_cluster_nodes_t *node) {
  static const char *const keys[] = {"address",    "cpus",  "gpus",     "chief",
                                     "ssh_config", "count", "devices",  "network_bandwidth",
                                     "device",     "link",  "node_link"};
  if (object->kind != SHOAL_JSON_OBJECT) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s is not a mapping", object->path);
  }
  SHOAL_RETURN_IF_ERROR(shoal_json_only(object, keys, COUNT(keys)));
  // AutoDist's nodes have addresses; one that says how many devices it has may do without.
  if (shoal_json_find(object, "address") || !shoal_json_find(object, "devices")) {
    SHOAL_RETURN_IF_ERROR(read_address(object, arena, node));
  }
  SHOAL_RETURN_IF_ERROR(count_devices(object, arena, node));
  SHOAL_RETURN_IF_ERROR(shoal_cluster_read_count(object, "count", &node->count));
  const shoal_json_t *chief = shoal_json_find(object, "chief");
  if (chief) {
    if (chief->kind != SHOAL_JSON_BOOL) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s is neither true nor false", chief->path);
    }
    node->chief = chief->boolean;
  }
  SHOAL_RETURN_IF_ERROR(shoal_cluster_read_device(object, arena, node));
  SHOAL_RETURN_IF_ERROR(read_network(root, object, node));
  SHOAL_RETURN_IF_ERROR(shoal_cluster_read_links(object, node));
  return find_ssh(object, ssh, ssh_count, &node->ssh);
}

// What only all of them together can get wrong; *out_chief is -1 where nothing is launched.
static shoal_status_t check_nodes(const shoal_json_t *list, shoal_cluster_nodes_t *nodes,
                                  entry_t *entries, int64_t *out_chief) {
  *out_chief = -1;
  for (int64_t i = 0; i < list->count; ++i) {
    const char *path = list->children[i].path;
    if (!nodes[i].address != !nodes[0].address) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s has %s address, but nodes[0] has %s", path,
                         nodes[i].address ? "an" : "no", nodes[i].address ? "none" : "one");
    }
    if (!nodes[i].address) continue;
    if (list->count > 1 && is_loopback(nodes[i].address)) {
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give the address by which the others reach it",
                              "%s: '%s' is this machine itself, but there are %lld nodes", path,
                              nodes[i].address, (long long)list->count);
    }
    if (nodes[i].chief && *out_chief >= 0) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s: a second chief, after nodes[%lld]", path,
                         (long long)*out_chief);
    }
    if (nodes[i].chief) *out_chief = i;
    entries[i] = (entry_t){.text = nodes[i].address, .index = i};
  }
  if (!nodes[0].address) return NULL;
  const int64_t again = first_again(entries, list->count);
  if (again >= 0) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s: address '%s' is there already",
                       list->children[again].path, nodes[again].address);
  }
  if (list->count == 1) *out_chief = 0;
  if (*out_chief < 0) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "add `chief: true` to the node you launch from",
                            "%s has no chief", list->path);
  }
  for (int64_t i = 0; i < list->count; ++i) {
    if (i != *out_chief && !nodes[i].ssh) {
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "name one of the configurations under `ssh`",
                              "%s: a node that is not the chief needs ssh_config",
                              list->children[i].path);
    }
  }
  return NULL;
}

shoal_status_t shoal_cluster_read_nodes(const shoal_json_t *root, const shoal_cluster_nodes_t *like,
                                        shoal_cluster_t *cluster) {
  const shoal_json_t *list;
  shoal_arena_t *arena = cluster->arena;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(root, "nodes", SHOAL_JSON_ARRAY, &list));
  if (list->count == 0) return SHOAL_ERROR(INVALID_ARGUMENT, "%s is empty", list->path);
  shoal_cluster_ssh_t *ssh;
  SHOAL_RETURN_IF_ERROR(read_all_ssh(root, arena, &ssh, &cluster->ssh_count));
  cluster->ssh = ssh;
  // The chief's ranks are the first: it may have to change places.
  shoal_cluster_nodes_t *nodes = SHOAL_NEW(arena, shoal_cluster_nodes_t, list->count);
  entry_t *entries = SHOAL_NEW(arena, entry_t, list->count);
  if (!nodes || !entries) return SHOAL_OOM();
  for (int64_t i = 0; i < list->count; ++i) {
    nodes[i] = *like;
    SHOAL_RETURN_IF_ERROR(
        read_node(root, &list->children[i], ssh, cluster->ssh_count, arena, &nodes[i]));
  }
  int64_t chief;
  SHOAL_RETURN_IF_ERROR(check_nodes(list, nodes, entries, &chief));
  if (chief >= 0) {
    nodes[chief].chief = true;
    const shoal_cluster_nodes_t first = nodes[chief];
    memmove(&nodes[1], &nodes[0], (size_t)chief * sizeof *nodes);
    nodes[0] = first;
  }
  cluster->has_nodes = true;
  return shoal_cluster_number(nodes, list->count, cluster);
}
