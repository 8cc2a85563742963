// The cluster's internal header: what its files share, and what launching and slowed-down links
// need beyond the public functions.
//
//   cluster.c   life, and questions about ranks
//   parse.c     the file: devices and links
//   nodes.c     the file: nodes and ssh
//   preset.c    kinds of devices, and presets of them
//   print.c     and back
#ifndef SHOAL_CLUSTER_CLUSTER_H_
#define SHOAL_CLUSTER_CLUSTER_H_

#include "base/json.h"
#include "shoal/cluster.h"

#define SHOAL_CLUSTER_MAX_RANKS (1 << 24)

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

// Which devices share a node's internal link.
typedef enum shoal_cluster_per {
  SHOAL_CLUSTER_PER_DEVICE,  // each device: it goes to a switch
  SHOAL_CLUSTER_PER_PAIR,    // each two devices
  SHOAL_CLUSTER_PER_NODE     // nobody: the node's devices share one bus
} shoal_cluster_per_t;

// A run of equal neighbouring nodes.
typedef struct shoal_cluster_nodes {
  int32_t first_rank, first_node;
  int32_t count;    // nodes
  int32_t devices;  // of each: a rank each
  shoal_cluster_device_t device;
  shoal_cluster_link_t node_link;  // between devices of one node
  shoal_cluster_per_t per;
  bool has_node_link;         // the file, or a device's kind, describes it
  shoal_cluster_link_t link;  // one network card of a node
  int32_t cards;              // dealt to the node's devices
  // For launching; a node with an address stands alone (count 1).
  const char *address;  // NULL: only described
  bool chief;
  const shoal_cluster_ssh_t *ssh;  // NULL: none
  int64_t gpu_count, cpu_count;    // as the file lists them
  const int64_t *gpus, *cpus;
} shoal_cluster_nodes_t;

struct shoal_cluster {
  shoal_arena_t *arena;  // owns everything, this too; NULL: the default's
  int32_t ranks;         // 0: any number
  int32_t node_count;
  bool has_nodes, has_link;             // the file has them
  int64_t group_count;                  // at least 1
  const shoal_cluster_nodes_t *groups;  // in the order of ranks
  int32_t rack_nodes;                   // nodes of a rack; 0: there are no racks
  shoal_cluster_link_t rack_link;       // a rack's uplink, shared by its nodes
  int64_t ssh_count;
  const shoal_cluster_ssh_t *ssh;
};

// The nodes that a rank, or a node, is among.
const shoal_cluster_nodes_t *shoal_cluster_group(const shoal_cluster_t *cluster, int32_t rank);
const shoal_cluster_nodes_t *shoal_cluster_group_of_node(const shoal_cluster_t *cluster,
                                                         int32_t node);
// Ranks [*out_first, *out_end) of a node. Where any number of ranks is described a node has one.
void shoal_cluster_node_ranks(const shoal_cluster_t *cluster, int32_t node, int32_t *out_first,
                              int32_t *out_end);
// The first rank that shares a rank's network card, and its link inside the node: their names.
int32_t shoal_cluster_card(const shoal_cluster_t *cluster, int32_t rank);
int32_t shoal_cluster_port(const shoal_cluster_t *cluster, int32_t rank);
// INVALID_ARGUMENT unless every node has an address.
SHOAL_MUST_USE shoal_status_t shoal_cluster_check_launch(const shoal_cluster_t *cluster);
// INVALID_ARGUMENT for a file that would delay nothing.
SHOAL_MUST_USE shoal_status_t shoal_cluster_check_links(const shoal_cluster_t *cluster,
                                                        const char *name);

// ---- reading --------------------------------------------------------------------------

// One node of the kind, alone, with the links that are typical for it. INVALID_ARGUMENT, with a
// suggestion, where there is no such kind; `where` stands before the message.
SHOAL_MUST_USE shoal_status_t shoal_cluster_kind_nodes(const char *where, const char *kind,
                                                       shoal_cluster_nodes_t *out_nodes);
bool shoal_cluster_is_kind(const shoal_cluster_device_t *device);  // as built in, unchanged
// Says whether the text has the form of a preset, whether or not its kinds are known.
bool shoal_cluster_is_preset(const char *text);
SHOAL_MUST_USE shoal_status_t shoal_cluster_preset(const char *name, const char *text,
                                                   shoal_cluster_t *cluster);
// Keys that may stand at the top of a file and in a node; both change `nodes`.
SHOAL_MUST_USE shoal_status_t shoal_cluster_read_device(const shoal_json_t *parent,
                                                        shoal_arena_t *arena,
                                                        shoal_cluster_nodes_t *nodes);
SHOAL_MUST_USE shoal_status_t shoal_cluster_read_links(const shoal_json_t *parent,
                                                       shoal_cluster_nodes_t *nodes);
SHOAL_MUST_USE shoal_status_t shoal_cluster_read_positive(const shoal_json_t *object,
                                                          const char *key, double *value);
SHOAL_MUST_USE shoal_status_t shoal_cluster_read_count(const shoal_json_t *object, const char *key,
                                                       int32_t *value);
// `nodes` and `ssh`; every node starts as `like`.
SHOAL_MUST_USE shoal_status_t shoal_cluster_read_nodes(const shoal_json_t *root,
                                                       const shoal_cluster_nodes_t *like,
                                                       shoal_cluster_t *cluster);
// Deals ranks and nodes to the groups, in order. UNSUPPORTED for too many.
SHOAL_MUST_USE shoal_status_t shoal_cluster_number(shoal_cluster_nodes_t *groups, int64_t count,
                                                   shoal_cluster_t *cluster);

#endif  // SHOAL_CLUSTER_CLUSTER_H_
