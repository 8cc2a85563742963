// The machines of a cluster file one by one: what a launcher needs. AutoDist's resource_spec.yml,
// as it is; Shoal's own files may have the same `nodes` and `ssh`.
//
//   nodes:                             # required
//     - address: 10.0.0.1              # or a host name; loopback only when it is alone
//       gpus: [0, 1]                   # a rank each; else
//       cpus: [0, 1]                   #   a rank each (CPU 0 is always there)
//       chief: true                    # exactly one, the node that one launches from; alone:
//       implied ssh_config: conf               # required but for the chief network_bandwidth: 10
//       # Gbit/s; 1
//   ssh:
//     conf: {username: me, port: 22, key_file: ~/.ssh/id, python_venv: "source env", shared_envs:
//     {K: V}}
#ifndef SHOAL_CLUSTER_NODES_H_
#define SHOAL_CLUSTER_NODES_H_

#include "base/json.h"

typedef struct shoal_cluster_variable {
  const char *name, *value;
} shoal_cluster_variable_t;

// How to reach a node; strings are NULL where the file says nothing.
typedef struct shoal_cluster_ssh {
  const char *name, *username, *key_file, *python_venv;
  int32_t port;  // 0: ssh's own choice
  const shoal_cluster_variable_t *shared_envs;
  int64_t shared_env_count;
} shoal_cluster_ssh_t;

typedef struct shoal_cluster_node {
  const char *address;
  int32_t gpus, cpus;  // how many; cpus is at least 1
  int32_t ranks;       // gpus, or cpus where there are none
  bool chief;
  double network_bandwidth;        // bytes per second
  const shoal_cluster_ssh_t *ssh;  // NULL: none
} shoal_cluster_node_t;

typedef struct shoal_cluster_nodes {
  const shoal_cluster_node_t *items;  // in file order
  int64_t count;
  int32_t ranks;  // of all
  int64_t chief;  // index
} shoal_cluster_nodes_t;

// Reads `nodes` and `ssh` of a parsed file; errors name line and key. Results live in the arena.
SHOAL_MUST_USE shoal_status_t shoal_cluster_nodes_read(const shoal_json_t *root,
                                                       shoal_arena_t *arena,
                                                       shoal_cluster_nodes_t *out_nodes);
// The same from a file's text; a file without nodes is an error.
SHOAL_MUST_USE shoal_status_t shoal_cluster_nodes_parse(const char *name, const char *text,
                                                        shoal_arena_t *arena,
                                                        shoal_cluster_nodes_t *out_nodes);

#endif  // SHOAL_CLUSTER_NODES_H_
