// Who runs: the classes of the program, apart by what they run on. Ranks are never walked one by
// one where they are neighbours: a class's ranks are taken in runs.
#include <stdlib.h>
#include <string.h>

#include "simulate/simulate_impl.h"

static bool same_link(shoal_cluster_link_t a, shoal_cluster_link_t b) {
  return a.latency == b.latency && a.bandwidth == b.bandwidth;
}

static bool same_nodes(const shoal_cluster_nodes_t *a, const shoal_cluster_nodes_t *b) {
  return strcmp(a->device.name, b->device.name) == 0 && a->devices == b->devices &&
         memcmp(a->device.flops, b->device.flops, sizeof a->device.flops) == 0 &&
         a->device.bandwidth == b->device.bandwidth && a->device.memory == b->device.memory &&
         a->device.ring == b->device.ring && a->per == b->per && a->cards == b->cards &&
         same_link(a->node_link, b->node_link) && same_link(a->link, b->link);
}

// Neighbouring groups of nodes that are alike in all that matters here have one number.
static shoal_status_t find_kinds(const shoal_sim_t *sim, int32_t **out_kinds) {
  const shoal_cluster_t *cluster = sim->cluster;
  int32_t *kinds = SHOAL_NEW(sim->arena, int32_t, cluster->group_count);
  int64_t *first = SHOAL_NEW(sim->arena, int64_t, cluster->group_count);
  if (!kinds || !first) return SHOAL_OOM();
  int32_t count = 0;
  for (int64_t i = 0; i < cluster->group_count; ++i) {
    int32_t k = 0;
    while (k < count && !same_nodes(&cluster->groups[first[k]], &cluster->groups[i])) ++k;
    if (k == count) first[count++] = i;
    kinds[i] = k;
  }
  *out_kinds = kinds;
  return NULL;
}

static shoal_status_t find_spans(shoal_sim_t *sim, const int32_t *kinds) {
  const shoal_cluster_t *cluster = sim->cluster;
  sim->spans = SHOAL_NEW(sim->arena, shoal_sim_span_t, cluster->group_count);
  if (!sim->spans) return SHOAL_OOM();
  for (int64_t i = 0; i < cluster->group_count; ++i) {
    const shoal_cluster_nodes_t *nodes = &cluster->groups[i];
    const int64_t to = nodes->first_rank + (int64_t)nodes->count * nodes->devices;
    if (i > 0 && kinds[i] == kinds[i - 1]) {
      sim->spans[sim->span_count - 1].to = to;
    } else {
      sim->spans[sim->span_count++] = (shoal_sim_span_t){nodes->first_rank, to, kinds[i]};
    }
  }
  return NULL;
}

// The first of ascending ranks[from..count) that is not below `rank`.
static int64_t lower_bound(const int32_t *ranks, int64_t from, int64_t count, int64_t rank) {
  while (from < count) {
    const int64_t middle = from + (count - from) / 2;
    if (ranks[middle] < rank) {
      from = middle + 1;
    } else {
      count = middle;
    }
  }
  return from;
}

static int64_t ranks_in(const shoal_class_t *rank_class, int64_t from, int64_t to) {
  return lower_bound(rank_class->ranks, 0, rank_class->rank_count, to) -
         lower_bound(rank_class->ranks, 0, rank_class->rank_count, from);
}

bool shoal_sim_has_rank(const shoal_class_t *rank_class, int32_t rank) {
  return ranks_in(rank_class, rank, (int64_t)rank + 1) > 0;
}

static const shoal_order_t *find_order(const shoal_class_t *rank_class, const char *graph) {
  for (int64_t i = 0; i < rank_class->order_count; ++i) {
    if (strcmp(rank_class->orders[i].graph, graph) == 0) return &rank_class->orders[i];
  }
  return NULL;
}

static shoal_target_t target_of(const shoal_cluster_device_t *device) {
  shoal_target_t target = shoal_target_described(device->name, device->flops[SHOAL_F32],
                                                 device->bandwidth, device->memory);
  memcpy(target.flops_per_second, device->flops, sizeof target.flops_per_second);
  return target;
}

// How crowded the node of this rank is, and its rack.
static void look_at_node(const shoal_sim_t *sim, int32_t rank, shoal_sim_actor_t *actor) {
  int32_t first, end;
  const int32_t node = shoal_cluster_node(sim->cluster, rank);
  shoal_cluster_node_ranks(sim->cluster, node, &first, &end);
  const int64_t here = ranks_in(actor->rank_class, first, end);
  if (here > actor->node_ranks) actor->node_ranks = here;
  const int32_t rack = sim->cluster->rack_nodes;
  if (rack == 0 || actor->node_ranks == 0) return;
  int32_t last;
  shoal_cluster_node_ranks(sim->cluster, node / rack * rack, &first, &last);
  int32_t behind = (node / rack + 1) * rack - 1;
  if (behind >= sim->cluster->node_count) behind = sim->cluster->node_count - 1;
  shoal_cluster_node_ranks(sim->cluster, behind, &last, &end);
  const int64_t in_rack = ranks_in(actor->rank_class, first, end);
  const int64_t nodes = (in_rack + actor->node_ranks - 1) / actor->node_ranks;
  if (nodes > actor->rack_nodes) actor->rack_nodes = nodes;
}

// A class's ranks by kind of nodes, in runs that end where the kind may change.
static shoal_status_t split_class(shoal_sim_t *sim, int64_t index, const int32_t *kinds,
                                  shoal_sim_actor_t *actors, int64_t *count) {
  const shoal_class_t *rank_class = &sim->program->classes[index];
  const int64_t before = *count;
  for (int64_t i = 0; i < rank_class->rank_count;) {
    const int32_t rank = rank_class->ranks[i];
    const shoal_cluster_nodes_t *nodes = shoal_cluster_group(sim->cluster, rank);
    const int64_t end = nodes->first_rank + (int64_t)nodes->count * nodes->devices;
    int64_t next = lower_bound(rank_class->ranks, i, rank_class->rank_count, end);
    const int32_t kind = kinds[nodes - sim->cluster->groups];
    int64_t a = before;
    while (a < *count && actors[a].kind != kind) ++a;
    if (a == *count) {
      actors[(*count)++] = (shoal_sim_actor_t){.class_index = index,
                                               .rank_class = rank_class,
                                               .order = find_order(rank_class, sim->graph),
                                               .nodes = nodes,
                                               .kind = kind,
                                               .first_rank = rank,
                                               .target = target_of(&nodes->device)};
    }
    actors[a].rank_count += next - i;
    actors[a].middle_rank = rank_class->ranks[i + (next - i) / 2];
    look_at_node(sim, rank, &actors[a]);
    look_at_node(sim, actors[a].middle_rank, &actors[a]);
    i = next;
  }
  return NULL;
}

// ---- who shares nodes, who racks ------------------------------------------------------

typedef struct run {
  int32_t first, last;  // ranks
  int64_t actor;
} run_t;

typedef SHOAL_VEC(run_t) runs_t;

static int64_t actor_of(const shoal_sim_t *sim, int64_t class_index, const int32_t *kinds,
                        int32_t rank) {
  const int32_t kind = kinds[shoal_cluster_group(sim->cluster, rank) - sim->cluster->groups];
  for (int64_t a = 0; a < sim->actor_count; ++a) {
    if (sim->actors[a].class_index == class_index && sim->actors[a].kind == kind) return a;
  }
  return -1;
}

// Neighbours of one class and one group of nodes, found by doubling: a run costs its logarithm.
static shoal_status_t find_runs(const shoal_sim_t *sim, const int32_t *kinds, runs_t *runs) {
  for (int64_t c = 0; c < sim->program->class_count; ++c) {
    const shoal_class_t *rank_class = &sim->program->classes[c];
    const int32_t *ranks = rank_class->ranks;
    for (int64_t i = 0, next; i < rank_class->rank_count; i = next) {
      const shoal_cluster_nodes_t *nodes = shoal_cluster_group(sim->cluster, ranks[i]);
      int64_t limit = i + nodes->first_rank + (int64_t)nodes->count * nodes->devices - ranks[i],
              step = 1;
      if (limit > rank_class->rank_count) limit = rank_class->rank_count;
      next = i + 1;  // [i, next) are neighbours
      while (next < limit && step > 0) {
        const int64_t try = next + step <= limit ? next + step : limit;
        if (ranks[try - 1] - ranks[i] == try - 1 - i) {
          next = try;
          step *= 2;
        } else {
          step /= 2;
        }
      }
      run_t run = {ranks[i], ranks[next - 1], actor_of(sim, c, kinds, ranks[i])};
      if (!SHOAL_PUSH(sim->arena, runs, run)) return SHOAL_OOM();
    }
  }
  return NULL;
}

static int compare_runs(const void *a, const void *b) {
  const run_t *x = a, *y = b;
  return (x->first > y->first) - (x->first < y->first);
}

static int32_t root_of(int32_t *parents, int32_t i) {
  while (parents[i] != i) i = parents[i] = parents[parents[i]];
  return i;
}

static void join_neighbours(const shoal_sim_t *sim, const runs_t *runs, int32_t *sites,
                            int32_t *regions) {
  const int32_t rack = sim->cluster->rack_nodes;
  for (int64_t i = 1; i < runs->count; ++i) {
    const int32_t a = shoal_cluster_node(sim->cluster, runs->items[i - 1].last);
    const int32_t b = shoal_cluster_node(sim->cluster, runs->items[i].first);
    const int32_t from = (int32_t)runs->items[i - 1].actor, to = (int32_t)runs->items[i].actor;
    if (a == b) sites[root_of(sites, from)] = root_of(sites, to);
    if (rack > 0 && a / rack == b / rack) regions[root_of(regions, from)] = root_of(regions, to);
  }
}

static shoal_status_t find_sites(shoal_sim_t *sim, const int32_t *kinds) {
  const int64_t n = sim->actor_count;
  int32_t *sites = SHOAL_NEW(sim->arena, int32_t, n), *regions = SHOAL_NEW(sim->arena, int32_t, n);
  if (!sites || !regions) return SHOAL_OOM();
  for (int32_t i = 0; i < n; ++i) sites[i] = regions[i] = i;
  if (n > 1) {
    runs_t runs = {0};
    SHOAL_RETURN_IF_ERROR(find_runs(sim, kinds, &runs));
    qsort(runs.items, (size_t)runs.count, sizeof *runs.items, compare_runs);
    join_neighbours(sim, &runs, sites, regions);
  }
  for (int32_t i = 0; i < n; ++i) {
    sim->actors[i].site = root_of(sites, i);
    sim->actors[i].region = root_of(regions, i);
  }
  return NULL;
}

shoal_status_t shoal_sim_find_actors(shoal_sim_t *sim) {
  const int32_t ranks = shoal_cluster_ranks(sim->cluster);
  if (ranks > 0 && ranks < sim->program->world) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "the program is for %d ranks, the cluster has %d devices",
                       sim->program->world, ranks);
  }
  int32_t *kinds = NULL;
  SHOAL_RETURN_IF_ERROR(find_kinds(sim, &kinds));
  SHOAL_RETURN_IF_ERROR(find_spans(sim, kinds));
  int64_t most = 0;
  for (int64_t i = 0; i < sim->cluster->group_count; ++i) most = kinds[i] > most ? kinds[i] : most;
  sim->actors = SHOAL_NEW(sim->arena, shoal_sim_actor_t, (most + 1) * sim->program->class_count);
  if (!sim->actors) return SHOAL_OOM();
  for (int64_t c = 0; c < sim->program->class_count; ++c) {
    SHOAL_RETURN_IF_ERROR(split_class(sim, c, kinds, sim->actors, &sim->actor_count));
  }
  return find_sites(sim, kinds);
}
