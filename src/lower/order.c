// The order in which the nodes of a graph are lowered, which is the order of its instructions: one
// that needs little memory. A node that can run, and leaves no more behind than it uses up, runs at
// once: so a weight is updated as soon as its gradient is complete, and the gradient is gone.
// Otherwise nodes keep the order of the graph.
//
// A node that makes a state's next value comes behind those that read the old one, as far as they
// stand before it in the graph, and behind what decides whether the state takes it: it can then
// write over it (alias.c).
//
// Communication comes where its value is needed first, so it moves along. The order is that of the
// graph on all ranks: what meets in a collective still meets.
#include "base/status.h"
#include "lower/build.h"
#include "op/type.h"

// Nodes, the first of the graph on top.
typedef struct heap {
  int32_t count, *items;
} heap_t;

typedef struct scheduling {
  const shoal_graph_t *graph;
  int64_t *bytes;             // by value: of the whole; 0: it takes no memory of its own
  int32_t *starts, *readers;  // the nodes that read value v: readers[starts[v]] ... up to
                              // starts[v + 1]; each once
  int32_t *left;              // by value: those that have not run, and one more if it is kept
  int32_t *updater;           // by value: if it is a state, the node that makes the next; -1: none
  int32_t *decides;           // by node: the first assignment its value decides about; -1: none
  int32_t *next_decided;      // by assignment: another of the same node
  int32_t *waiting;           // by node: values that are not there, others that come before it
  int64_t *growth;            // by node: bytes that are alive behind it and not before it
  bool *done;                 // by node
  heap_t ready, shrinking;    // those that wait for nothing; those of them that do not grow
} scheduling_t;

static void push(heap_t *heap, int32_t node) {
  int32_t at = heap->count++;
  for (; at > 0 && heap->items[(at - 1) / 2] > node; at = (at - 1) / 2)
    heap->items[at] = heap->items[(at - 1) / 2];
  heap->items[at] = node;
}

static int32_t pop(heap_t *heap) {
  const int32_t top = heap->items[0], node = heap->items[--heap->count];
  int32_t at = 0;
  for (int32_t child; (child = 2 * at + 1) < heap->count; at = child) {
    if (child + 1 < heap->count && heap->items[child + 1] < heap->items[child]) ++child;
    if (heap->items[child] >= node) break;
    heap->items[at] = heap->items[child];
  }
  heap->items[at] = node;
  return top;
}

// ---- sizes and readers -----------------------------------------------------------------

static shoal_status_t list_readers(scheduling_t *s, shoal_arena_t *scratch) {
  const shoal_graph_t *graph = s->graph;
  int32_t *last = SHOAL_NEW(scratch, int32_t, graph->values.count);
  int64_t total = 0;
  if (!last) return SHOAL_OOM();
  for (int64_t v = 0; v < graph->values.count; ++v) last[v] = -1;
  for (int32_t n = 0; n < graph->nodes.count; ++n) {
    const shoal_node_t *node = &graph->nodes.items[n];
    for (int32_t i = 0; i < node->input_count; ++i) {
      const int32_t v = node->inputs[i];
      if (last[v] != n) ++s->left[v], ++total;
      last[v] = n;
    }
  }
  s->readers = SHOAL_NEW(scratch, int32_t, total);
  if (!s->readers) return SHOAL_OOM();
  for (int64_t v = 0; v < graph->values.count; ++v) {
    s->starts[v + 1] = s->starts[v] + s->left[v];
    s->left[v] = 0;
    last[v] = -1;
  }
  for (int32_t n = 0; n < graph->nodes.count; ++n) {
    const shoal_node_t *node = &graph->nodes.items[n];
    for (int32_t i = 0; i < node->input_count; ++i) {
      const int32_t v = node->inputs[i];
      if (last[v] != n) s->readers[s->starts[v] + s->left[v]++] = n;
      last[v] = n;
    }
  }
  return NULL;
}

// Values of nodes take memory, but for those that are written to a state's and single numbers: a
// step count or a learning rate must not hold up the updates that need it. Wholes are compared, not
// parts: the order is the same for any number of ranks.
static shoal_status_t weigh(scheduling_t *s, const build_t *b, shoal_arena_t *scratch) {
  const shoal_graph_t *graph = s->graph;
  int32_t *makers = SHOAL_NEW(scratch, int32_t, b->program->state_count);
  if (!makers) return SHOAL_OOM();
  for (int64_t i = 0; i < b->program->state_count; ++i) makers[i] = -1;
  for (int64_t v = 0; v < graph->values.count; ++v) {
    const shoal_value_info_t *info = &graph->values.items[v];
    s->updater[v] = -1;
    const bool counts = shoal_shape_count(&info->type.shape) > 1;
    if (info->source == SHOAL_FROM_NODE && counts) s->bytes[v] = shoal_type_bytes(&info->type);
  }
  for (int64_t i = 0; i < graph->outputs.count; ++i) ++s->left[graph->outputs.items[i].value];
  for (int64_t i = 0; i < graph->assigns.count; ++i) {
    const shoal_assignment_t *assign = &graph->assigns.items[i];
    const shoal_value_info_t *info = &graph->values.items[assign->value];
    s->bytes[assign->value] = 0;
    if (info->source == SHOAL_FROM_NODE) makers[assign->state] = info->node;
  }
  for (int64_t v = 0; v < graph->values.count; ++v) {
    const shoal_value_info_t *info = &graph->values.items[v];
    if (info->source == SHOAL_FROM_STATE) s->updater[v] = makers[info->index];
  }
  return NULL;
}

// The node that must come behind the one that makes an assignment's predicate; -1: none need.
static int32_t decided(const shoal_graph_t *graph, const shoal_assignment_t *assign,
                       int32_t *out_by) {
  if (assign->predicate < 0) return -1;
  *out_by = graph->values.items[assign->predicate].node;
  const int32_t node = graph->values.items[assign->value].node;
  return *out_by >= 0 && *out_by < node ? node : -1;
}

static void list_decisions(scheduling_t *s) {
  const shoal_graph_t *graph = s->graph;
  for (int64_t n = 0; n < graph->nodes.count; ++n) s->decides[n] = -1;
  for (int32_t i = 0; i < graph->assigns.count; ++i) {
    int32_t by = -1, node = decided(graph, &graph->assigns.items[i], &by);
    if (node < 0) continue;
    ++s->waiting[node];
    s->next_decided[i] = s->decides[by];
    s->decides[by] = i;
  }
}

// ---- scheduling ------------------------------------------------------------------------

static void make_ready(scheduling_t *s, int32_t node) {
  push(&s->ready, node);
  if (s->growth[node] <= 0) push(&s->shrinking, node);
}

static void wait_less(scheduling_t *s, int32_t node) {
  if (--s->waiting[node] == 0) make_ready(s, node);
}

// Its last reader ends its life.
static void note_last_reader(scheduling_t *s, int32_t value) {
  for (int32_t i = s->starts[value]; i < s->starts[value + 1] && s->bytes[value] > 0; ++i) {
    const int32_t node = s->readers[i];
    if (s->done[node]) continue;
    const bool grew = s->growth[node] > 0;
    s->growth[node] -= s->bytes[value];
    if (grew && s->growth[node] <= 0 && s->waiting[node] == 0) push(&s->shrinking, node);
    return;
  }
}

static void start(scheduling_t *s) {
  const shoal_graph_t *graph = s->graph;
  for (int32_t n = 0; n < graph->nodes.count; ++n) {
    const shoal_node_t *node = &graph->nodes.items[n];
    for (int32_t o = 0; o < node->output_count; ++o) s->growth[n] += s->bytes[node->outputs[o]];
  }
  for (int32_t v = 0; v < graph->values.count; ++v) {
    const bool made = graph->values.items[v].source == SHOAL_FROM_NODE;
    for (int32_t i = s->starts[v]; i < s->starts[v + 1]; ++i) {
      if (made) ++s->waiting[s->readers[i]];
      if (s->updater[v] > s->readers[i]) ++s->waiting[s->updater[v]];
    }
    if (s->left[v] == 1 && s->starts[v + 1] > s->starts[v])
      s->growth[s->readers[s->starts[v]]] -= s->bytes[v];
  }
  for (int32_t n = 0; n < graph->nodes.count; ++n)
    if (s->waiting[n] == 0) make_ready(s, n);
}

static void finish(scheduling_t *s, int32_t n) {
  const shoal_node_t *node = &s->graph->nodes.items[n];
  s->done[n] = true;
  for (int32_t i = 0; i < node->input_count; ++i) {
    const int32_t v = node->inputs[i];
    bool again = false;
    for (int32_t k = 0; k < i; ++k) again |= node->inputs[k] == v;
    if (again) continue;
    if (s->updater[v] > n) wait_less(s, s->updater[v]);
    if (--s->left[v] == 1) note_last_reader(s, v);
  }
  for (int32_t o = 0; o < node->output_count; ++o) {
    const int32_t v = node->outputs[o];
    for (int32_t i = s->starts[v]; i < s->starts[v + 1]; ++i) wait_less(s, s->readers[i]);
  }
  for (int32_t i = s->decides[n]; i >= 0; i = s->next_decided[i])
    wait_less(s, s->graph->values.items[s->graph->assigns.items[i].value].node);
}

static shoal_status_t schedule(const build_t *b, const shoal_graph_t *graph, shoal_arena_t *scratch,
                               int32_t *order) {
  const int64_t values = graph->values.count, nodes = graph->nodes.count;
  scheduling_t s = {.graph = graph,
                    .bytes = SHOAL_NEW(scratch, int64_t, values),
                    .starts = SHOAL_NEW(scratch, int32_t, values + 1),
                    .left = SHOAL_NEW(scratch, int32_t, values),
                    .updater = SHOAL_NEW(scratch, int32_t, values),
                    .decides = SHOAL_NEW(scratch, int32_t, nodes),
                    .next_decided = SHOAL_NEW(scratch, int32_t, graph->assigns.count),
                    .waiting = SHOAL_NEW(scratch, int32_t, nodes),
                    .growth = SHOAL_NEW(scratch, int64_t, nodes),
                    .done = SHOAL_NEW(scratch, bool, nodes),
                    .ready = {.items = SHOAL_NEW(scratch, int32_t, nodes)},
                    .shrinking = {.items = SHOAL_NEW(scratch, int32_t, nodes)}};
  if (!s.bytes || !s.starts || !s.left || !s.updater || !s.decides || !s.next_decided ||
      !s.waiting || !s.growth || !s.done || !s.ready.items || !s.shrinking.items)
    return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(list_readers(&s, scratch));
  SHOAL_RETURN_IF_ERROR(weigh(&s, b, scratch));
  list_decisions(&s);
  start(&s);
  for (int64_t k = 0; k < nodes;) {
    if (s.ready.count == 0) return SHOAL_ERROR(INTERNAL, "nodes wait for each other");
    const int32_t node = pop(s.shrinking.count > 0 ? &s.shrinking : &s.ready);
    if (s.done[node]) continue;  // it was on both heaps
    order[k++] = node;
    finish(&s, node);
  }
  return NULL;
}

shoal_status_t shoal_lower_order(const build_t *b, const shoal_graph_t *graph, int32_t *order) {
  shoal_arena_t scratch;
  shoal_arena_init(b->plan->allocator, &scratch);
  shoal_status_t status = schedule(b, graph, &scratch, order);
  shoal_arena_deinit(&scratch);
  return status;
}
