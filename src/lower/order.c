// The order in which the nodes of a graph are lowered, which is the order of its instructions: one
// that needs little memory. A turn that can come, and leaves no more behind than it uses up, comes
// at once: so a weight is updated as soon as its gradient is complete, and the gradient is gone.
// Otherwise turns keep the order of the graph.
//
// A node that makes a state's next value comes behind those that read the old one, as far as they
// stand before it in the list, and behind what decides whether the state takes it: it can then
// write over it (alias.c). A node's second turn waits for its region's gate (recompute.c) besides.
//
// Communication comes where its value is needed first, so it moves along. The order is the same on
// all ranks: what meets in a collective still meets.
#include "base/status.h"
#include "lower/build.h"
#include "op/type.h"

// Turns, the first of the list on top.
typedef struct heap {
  int32_t count, *items;
} heap_t;

typedef struct hold {
  int32_t turn, next;  // -1: no more
} hold_t;

// Values have two numbers where something is computed again: v as made the first time, v plus the
// number of values as made the second time.
typedef struct scheduling {
  const graph_build_t *build;
  const shoal_graph_t *graph;
  int32_t value_count;
  int64_t *bytes;             // by value: of the whole; 0: it takes no memory of its own
  int32_t *starts, *readers;  // the turns that read value v: readers[starts[v]] ... up to
                              // starts[v + 1]; each once
  int32_t *left;              // by value: those that have not come, and one more if it is kept
  int32_t *updater;           // by value: if it is a state, the turn that makes the next; -1: none
  int32_t *waiting;           // by turn: values that are not there, readers that come before it
  int64_t *growth;            // by turn: bytes that are alive behind it and not before it
  int32_t *first;             // by node: its first turn
  int32_t *held;              // by value: the first of `holds`, -1: none
  SHOAL_VEC(hold_t) holds;    // turns that wait for values which they do not read
  bool *done;                 // by turn
  heap_t ready, shrinking;    // those that wait for nothing; those of them that do not grow
} scheduling_t;

static void push(heap_t *heap, int32_t turn) {
  int32_t at = heap->count++;
  for (; at > 0 && heap->items[(at - 1) / 2] > turn; at = (at - 1) / 2)
    heap->items[at] = heap->items[(at - 1) / 2];
  heap->items[at] = turn;
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

static const shoal_node_t *node_of(const scheduling_t *s, int32_t turn) {
  return &s->graph->nodes.items[s->build->turns.items[turn].node];
}

static int32_t input_of(const scheduling_t *s, int32_t turn, int32_t i) {
  const int32_t value = node_of(s, turn)->inputs[i];
  const bool again = shoal_lower_reads_again(s->build, &s->build->turns.items[turn], value);
  return again ? (int32_t)s->graph->values.count + value : value;
}

static int32_t output_of(const scheduling_t *s, int32_t turn, int32_t o) {
  const int32_t value = node_of(s, turn)->outputs[o];
  return s->build->turns.items[turn].again ? (int32_t)s->graph->values.count + value : value;
}

static const shoal_value_info_t *info_of(const scheduling_t *s, int32_t value) {
  const int32_t count = (int32_t)s->graph->values.count;
  return &s->graph->values.items[value < count ? value : value - count];
}

// ---- sizes and readers -----------------------------------------------------------------

static shoal_status_t list_readers(scheduling_t *s, shoal_arena_t *scratch) {
  int32_t *last = SHOAL_NEW(scratch, int32_t, s->value_count);
  int64_t total = 0;
  if (!last) return SHOAL_OOM();
  for (int32_t v = 0; v < s->value_count; ++v) last[v] = -1;
  for (int32_t t = 0; t < s->build->turns.count; ++t) {
    for (int32_t i = 0; i < node_of(s, t)->input_count; ++i) {
      const int32_t v = input_of(s, t, i);
      if (last[v] != t) ++s->left[v], ++total;
      last[v] = t;
    }
  }
  s->readers = SHOAL_NEW(scratch, int32_t, total);
  if (!s->readers) return SHOAL_OOM();
  for (int32_t v = 0; v < s->value_count; ++v) {
    s->starts[v + 1] = s->starts[v] + s->left[v];
    s->left[v] = 0;
    last[v] = -1;
  }
  for (int32_t t = 0; t < s->build->turns.count; ++t) {
    for (int32_t i = 0; i < node_of(s, t)->input_count; ++i) {
      const int32_t v = input_of(s, t, i);
      if (last[v] != t) s->readers[s->starts[v] + s->left[v]++] = t;
      last[v] = t;
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
  for (int32_t t = 0; t < s->build->turns.count; ++t)
    if (!s->build->turns.items[t].again) s->first[s->build->turns.items[t].node] = t;
  for (int32_t v = 0; v < s->value_count; ++v) {
    const shoal_value_info_t *info = info_of(s, v);
    s->updater[v] = -1;
    const bool counts = shoal_shape_count(&info->type.shape) > 1;
    if (info->source == SHOAL_FROM_NODE && counts) s->bytes[v] = shoal_type_bytes(&info->type);
  }
  for (int64_t i = 0; i < graph->outputs.count; ++i) ++s->left[graph->outputs.items[i].value];
  for (int64_t i = 0; i < graph->assigns.count; ++i) {
    const shoal_assignment_t *assign = &graph->assigns.items[i];
    const shoal_value_info_t *info = &graph->values.items[assign->value];
    s->bytes[assign->value] = 0;
    if (info->source == SHOAL_FROM_NODE) makers[assign->state] = s->first[info->node];
  }
  for (int64_t v = 0; v < graph->values.count; ++v) {
    const shoal_value_info_t *info = &graph->values.items[v];
    if (info->source == SHOAL_FROM_STATE) s->updater[v] = makers[info->index];
  }
  return NULL;
}

static bool hold(scheduling_t *s, int32_t value, int32_t turn, shoal_arena_t *scratch) {
  const hold_t entry = {.turn = turn, .next = s->held[value]};
  s->held[value] = (int32_t)s->holds.count;
  ++s->waiting[turn];
  return SHOAL_PUSH(scratch, &s->holds, entry);
}

// Second turns wait at their gates.
static shoal_status_t wait_at_gates(scheduling_t *s, shoal_arena_t *scratch) {
  const graph_build_t *build = s->build;
  for (int32_t t = 0; t < build->turns.count; ++t) {
    if (!build->turns.items[t].again) continue;
    const gate_t *gate = &build->gates[build->gp->regions[build->turns.items[t].node]];
    if (gate->node < 0) continue;
    const shoal_node_t *node = &s->graph->nodes.items[gate->node];
    for (int32_t i = 0; i < node->input_count; ++i)
      if (shoal_lower_is_gate(build, gate, i) && !hold(s, node->inputs[i], t, scratch))
        return SHOAL_OOM();
  }
  return NULL;
}

// What makes a state's next value waits for the assignment's predicate, if that is made before it.
static shoal_status_t wait_for_predicates(scheduling_t *s, shoal_arena_t *scratch) {
  for (int64_t i = 0; i < s->graph->assigns.count; ++i) {
    const shoal_assignment_t *assign = &s->graph->assigns.items[i];
    if (assign->predicate < 0) continue;
    const int32_t by = s->graph->values.items[assign->predicate].node;
    const int32_t node = s->graph->values.items[assign->value].node;
    if (by < 0 || by >= node) continue;
    if (!hold(s, assign->predicate, s->first[node], scratch)) return SHOAL_OOM();
  }
  return NULL;
}

// ---- scheduling ------------------------------------------------------------------------

static void make_ready(scheduling_t *s, int32_t turn) {
  push(&s->ready, turn);
  if (s->growth[turn] <= 0) push(&s->shrinking, turn);
}

static void wait_less(scheduling_t *s, int32_t turn) {
  if (--s->waiting[turn] == 0) make_ready(s, turn);
}

// Its last reader ends its life.
static void note_last_reader(scheduling_t *s, int32_t value) {
  for (int32_t i = s->starts[value]; i < s->starts[value + 1] && s->bytes[value] > 0; ++i) {
    const int32_t turn = s->readers[i];
    if (s->done[turn]) continue;
    const bool grew = s->growth[turn] > 0;
    s->growth[turn] -= s->bytes[value];
    if (grew && s->growth[turn] <= 0 && s->waiting[turn] == 0) push(&s->shrinking, turn);
    return;
  }
}

static void start(scheduling_t *s) {
  const int32_t turns = (int32_t)s->build->turns.count;
  for (int32_t t = 0; t < turns; ++t)
    for (int32_t o = 0; o < node_of(s, t)->output_count; ++o)
      s->growth[t] += s->bytes[output_of(s, t, o)];
  for (int32_t v = 0; v < s->value_count; ++v) {
    const bool made = info_of(s, v)->source == SHOAL_FROM_NODE;
    for (int32_t i = s->starts[v]; i < s->starts[v + 1]; ++i) {
      if (made) ++s->waiting[s->readers[i]];
      if (s->updater[v] > s->readers[i]) ++s->waiting[s->updater[v]];
    }
    if (s->left[v] == 1 && s->starts[v + 1] > s->starts[v])
      s->growth[s->readers[s->starts[v]]] -= s->bytes[v];
  }
  for (int32_t t = 0; t < turns; ++t)
    if (s->waiting[t] == 0) make_ready(s, t);
}

static void finish(scheduling_t *s, int32_t turn) {
  const shoal_node_t *node = node_of(s, turn);
  s->done[turn] = true;
  for (int32_t i = 0; i < node->input_count; ++i) {
    const int32_t v = input_of(s, turn, i);
    bool again = false;
    for (int32_t k = 0; k < i; ++k) again |= node->inputs[k] == node->inputs[i];
    if (again) continue;
    if (s->updater[v] > turn) wait_less(s, s->updater[v]);
    if (--s->left[v] == 1) note_last_reader(s, v);
  }
  for (int32_t o = 0; o < node->output_count; ++o) {
    const int32_t v = output_of(s, turn, o);
    for (int32_t i = s->starts[v]; i < s->starts[v + 1]; ++i) wait_less(s, s->readers[i]);
    for (int32_t h = s->held[v]; h >= 0; h = s->holds.items[h].next)
      wait_less(s, s->holds.items[h].turn);
  }
}

static shoal_status_t schedule(const build_t *b, const graph_build_t *build, shoal_arena_t *scratch,
                               int32_t *order) {
  const int64_t turns = build->turns.count;
  const int64_t values = build->graph->values.count * (build->again ? 2 : 1);
  scheduling_t s = {.build = build,
                    .graph = build->graph,
                    .value_count = (int32_t)values,
                    .bytes = SHOAL_NEW(scratch, int64_t, values),
                    .starts = SHOAL_NEW(scratch, int32_t, values + 1),
                    .left = SHOAL_NEW(scratch, int32_t, values),
                    .updater = SHOAL_NEW(scratch, int32_t, values),
                    .first = SHOAL_NEW(scratch, int32_t, build->graph->nodes.count),
                    .held = SHOAL_NEW(scratch, int32_t, values),
                    .waiting = SHOAL_NEW(scratch, int32_t, turns),
                    .growth = SHOAL_NEW(scratch, int64_t, turns),
                    .done = SHOAL_NEW(scratch, bool, turns),
                    .ready = {.items = SHOAL_NEW(scratch, int32_t, turns)},
                    .shrinking = {.items = SHOAL_NEW(scratch, int32_t, turns)}};
  if (!s.bytes || !s.starts || !s.left || !s.updater || !s.first || !s.held || !s.waiting ||
      !s.growth || !s.done || !s.ready.items || !s.shrinking.items)
    return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(list_readers(&s, scratch));
  SHOAL_RETURN_IF_ERROR(weigh(&s, b, scratch));
  for (int64_t v = 0; v < values; ++v) s.held[v] = -1;
  SHOAL_RETURN_IF_ERROR(wait_at_gates(&s, scratch));
  SHOAL_RETURN_IF_ERROR(wait_for_predicates(&s, scratch));
  start(&s);
  for (int64_t k = 0; k < turns;) {
    if (s.ready.count == 0) return SHOAL_ERROR(INTERNAL, "nodes wait for each other");
    const int32_t turn = pop(s.shrinking.count > 0 ? &s.shrinking : &s.ready);
    if (s.done[turn]) continue;  // it was on both heaps
    order[k++] = turn;
    finish(&s, turn);
  }
  return NULL;
}

shoal_status_t shoal_lower_order(const build_t *b, const graph_build_t *graph, int32_t *order) {
  shoal_arena_t scratch;
  shoal_arena_init(b->plan->allocator, &scratch);
  shoal_status_t status = schedule(b, graph, &scratch, order);
  shoal_arena_deinit(&scratch);
  return status;
}
