// Turns: when the nodes of a graph are computed, for the first time or again. A node of a region
// that the plan recomputes gets a second turn on the backward side, if somebody there needs what it
// makes. Values that leave their region in the forward pass are kept, and so are those that are
// fetched, assigned or read by an update, or wait in other memory: the second turn starts from
// them. Attributes are the same both times, and so are random numbers.
//
// A second turn stands in front of the first node that needs it. It would be ready as soon as the
// forward pass is through, and its result would then lie in memory as long as what it saves: so
// that the region's turns come when its backward does, they wait at a *gate*, gradients that this
// backward waits for, too. Whatever makes the gradients of the gate comes before the first who
// needs the region: it cannot wait for the region itself.
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "lower/build.h"

typedef struct finding {
  graph_build_t *graph;
  const shoal_graph_t *g;
  const int32_t *regions;  // by node
  bool *listed;            // by node: it has its second turn
  SHOAL_VEC(int32_t) stack, batch;
  shoal_arena_t *arena;
} finding_t;

shoal_side_t shoal_lower_side(const shoal_node_t *node) {
  if (node->kind == SHOAL_NODE_UPDATE) return SHOAL_SIDE_UPDATE;
  return node->kind == SHOAL_NODE_FORWARD ? SHOAL_SIDE_FORWARD : SHOAL_SIDE_BACKWARD;
}

static bool is_fetched(const build_t *b, const char *name) {
  for (const char *const *fetch = b->options->fetches; fetch && *fetch; ++fetch)
    if (strcmp(*fetch, name) == 0) return true;
  return false;
}

// Marks the values that are computed again if the backward side needs them.
static void find_again(const build_t *b, const finding_t *f) {
  bool *again = f->graph->again;
  shoal_plan_find_again(f->graph->gp, again);
  for (int64_t v = 0; v < f->g->values.count; ++v) {
    const shoal_keep_t keep = f->graph->gp->keeps[v];
    again[v] = again[v] && keep != SHOAL_KEEP_HOST && keep != SHOAL_KEEP_FILE &&
               !is_fetched(b, f->g->values.items[v].name);
  }
}

static bool is_gradient(const shoal_graph_t *g, int32_t value) {
  const shoal_value_info_t *info = &g->values.items[value];
  return info->source == SHOAL_FROM_NODE &&
         shoal_lower_side(&g->nodes.items[info->node]) == SHOAL_SIDE_BACKWARD;
}

// Node n needs the region. Closes the gate if nobody has so far and n has gradients to wait for.
static void note_gate(const finding_t *f, int32_t region, int32_t n) {
  gate_t *gate = &f->graph->gates[region];
  if (gate->first < 0) gate->first = n;
  const shoal_node_t *node = &f->g->nodes.items[n];
  for (int32_t i = 0; i < node->input_count && gate->node < 0; ++i)
    if (is_gradient(f->g, node->inputs[i]) &&
        f->g->values.items[node->inputs[i]].node < gate->first)
      gate->node = n;
}

bool shoal_lower_is_gate(const graph_build_t *graph, const gate_t *gate, int32_t input) {
  const int32_t value = graph->graph->nodes.items[gate->node].inputs[input];
  return is_gradient(graph->graph, value) && graph->graph->values.items[value].node < gate->first;
}

static bool wait_for(finding_t *f, int32_t value) {
  if (!f->graph->again[value]) return true;
  const int32_t node = f->g->values.items[value].node;
  if (f->listed[node]) return true;
  f->listed[node] = true;
  return SHOAL_PUSH(f->arena, &f->stack, node);
}

static int by_number(const void *a, const void *b) {
  const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return x < y ? -1 : x > y;
}

// The second turns that node n of the backward side is the first to need, in the graph's order.
static shoal_status_t list_again(finding_t *f, int32_t n) {
  const shoal_node_t *node = &f->g->nodes.items[n];
  f->batch.count = 0;
  for (int32_t i = 0; i < node->input_count; ++i) {
    if (!f->graph->again[node->inputs[i]]) continue;
    note_gate(f, f->regions[f->g->values.items[node->inputs[i]].node], n);
    if (!wait_for(f, node->inputs[i])) return SHOAL_OOM();
  }
  while (f->stack.count > 0) {
    const int32_t at = f->stack.items[--f->stack.count];
    const shoal_node_t *maker = &f->g->nodes.items[at];
    if (!SHOAL_PUSH(f->arena, &f->batch, at)) return SHOAL_OOM();
    for (int32_t i = 0; i < maker->input_count; ++i)
      if (!wait_for(f, maker->inputs[i])) return SHOAL_OOM();
  }
  if (f->batch.count > 0)
    qsort(f->batch.items, (size_t)f->batch.count, sizeof *f->batch.items, by_number);
  for (int64_t i = 0; i < f->batch.count; ++i) {
    const turn_t turn = {.node = f->batch.items[i], .again = true};
    if (!SHOAL_PUSH(f->arena, &f->graph->turns, turn)) return SHOAL_OOM();
  }
  return NULL;
}

shoal_status_t shoal_lower_turns(build_t *b, graph_build_t *graph) {
  const shoal_graph_t *g = graph->graph;
  finding_t f = {.graph = graph, .g = g, .regions = graph->gp->regions, .arena = b->arena};
  int32_t regions = 0;
  for (int64_t n = 0; n < g->nodes.count; ++n)
    if (f.regions[n] >= regions) regions = f.regions[n] + 1;
  if (regions > 0) {
    graph->again = SHOAL_NEW(b->arena, bool, g->values.count);
    graph->gates = SHOAL_NEW(b->arena, gate_t, regions);
    f.listed = SHOAL_NEW(b->arena, bool, g->nodes.count);
    if (!graph->again || !graph->gates || !f.listed) return SHOAL_OOM();
    for (int32_t r = 0; r < regions; ++r) graph->gates[r] = (gate_t){-1, -1};
    find_again(b, &f);
  }
  for (int32_t n = 0; n < g->nodes.count; ++n) {
    if (regions > 0 && shoal_lower_side(&g->nodes.items[n]) == SHOAL_SIDE_BACKWARD)
      SHOAL_RETURN_IF_ERROR(list_again(&f, n));
    if (!SHOAL_PUSH(b->arena, &graph->turns, (turn_t){.node = n})) return SHOAL_OOM();
  }
  return NULL;
}

bool shoal_lower_reads_again(const graph_build_t *graph, const turn_t *turn, int32_t value) {
  if (!graph->again || !graph->again[value]) return false;
  return turn->again ||
         shoal_lower_side(&graph->graph->nodes.items[turn->node]) == SHOAL_SIDE_BACKWARD;
}

static bool is_read_later(const graph_build_t *graph, int32_t value) {
  const shoal_graph_t *g = graph->graph;
  for (int64_t t = 0; t < graph->turns.count; ++t) {
    const turn_t *turn = &graph->turns.items[t];
    const shoal_node_t *node = &g->nodes.items[turn->node];
    if (!turn->again && shoal_lower_side(node) == SHOAL_SIDE_FORWARD) continue;
    for (int32_t i = 0; i < node->input_count; ++i)
      if (node->inputs[i] == value) return true;
  }
  for (int64_t a = 0; a < g->assigns.count; ++a)
    if (g->assigns.items[a].value == value) return true;
  return false;
}

bool shoal_lower_is_put_away(const graph_build_t *graph, int32_t value) {
  const shoal_keep_t keep = graph->gp->keeps[value];
  const shoal_value_info_t *info = &graph->graph->values.items[value];
  if (keep != SHOAL_KEEP_HOST && keep != SHOAL_KEEP_FILE) return false;
  if (info->source == SHOAL_FROM_NODE &&
      shoal_lower_side(&graph->graph->nodes.items[info->node]) != SHOAL_SIDE_FORWARD)
    return false;
  return is_read_later(graph, value);
}
