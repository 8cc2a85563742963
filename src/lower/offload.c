// Pass `offload`: what the plan keeps in the memory of the host or in a file goes there and comes
// back, by copies that the device makes beside its work.
//
//   states  A state that rests elsewhere comes to the device in front of its first reader on each
//           side of each segment, and is not there in between. Its next value goes back as soon as
//           nobody reads the old one any more, else at the very end.
//   values  A value that is made in the forward pass and waits elsewhere is stored behind whoever
//           makes it, and comes back in front of its first later reader on each side of a segment.
//
// Copies that bring something stand further up in the list, ahead of as many consumers as the plan
// says: they begin while those are still at work. What is brought is an instance of its own, so
// slots, memory and waits find it as any other.
#include "base/status.h"
#include "lower/build.h"

// A copy that brings something to the device.
typedef struct arrival {
  int32_t source, target;  // instances
  shoal_side_t side;
  int32_t segment;
  int64_t reader;    // the first item that reads it
  int64_t earliest;  // item in front of which it may stand at the earliest
  int32_t prefetch;  // consumers ahead
  bool own;          // the reader is itself the copy that brings it
  int32_t next;      // of the same source; -1: no more
} arrival_t;

// Where an item is added: in front of one of the list, or behind it.
typedef struct addition {
  item_t *item;
  int32_t next;  // at the same place; -1: no more
} addition_t;

typedef struct place {
  int32_t first, last;  // additions; -1: none
} place_t;

typedef struct moving {
  build_t *b;
  graph_build_t *graph;
  shoal_arena_t *scratch;
  item_t **items;  // of the graph, before anything is added
  int64_t count;
  int64_t *makers;    // by instance: the item that makes it; -1: none, -2: several
  int32_t *waiting;   // by instance: where it is stored; -1: nowhere yet
  int32_t *arrivals;  // by instance that lies elsewhere: the last that brings it; -1: none
  int64_t instance_count;
  SHOAL_VEC(arrival_t) list;  // by reader
  place_t *before, *behind;   // by item
  SHOAL_VEC(addition_t) additions;
} moving_t;

// ---- items ------------------------------------------------------------------------------

static shoal_status_t add_at(moving_t *m, place_t *place, item_t *item) {
  const int32_t number = (int32_t)m->additions.count;
  if (!SHOAL_PUSH(m->scratch, &m->additions, ((addition_t){item, -1}))) return SHOAL_OOM();
  if (place->first < 0)
    place->first = number;
  else
    m->additions.items[place->last].next = number;
  place->last = number;
  return NULL;
}

// A copy in the segment of an item; it runs beside what that one does.
static shoal_status_t make_copy(const moving_t *m, int32_t from, int32_t to, const item_t *beside,
                                int32_t segment, item_t **out_item) {
  item_t *item = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_lower_new_item(m->b, m->graph, SHOAL_OPCODE_COPY,
                                             instance_at(m->b, from)->name, from, to, &item));
  --m->graph->items.count;  // its place is not the end of the list
  item->side = beside->side;
  item->phase = beside->phase;
  item->depth = item->send_depth = beside->depth;
  item->segment = item->send_segment = segment;
  item->code.queue = SHOAL_QUEUE_COPY;
  *out_item = item;
  return NULL;
}

static shoal_status_t make_instance(const moving_t *m, int32_t like, shoal_memory_kind_t memory,
                                    const item_t *beside, int32_t *out_index) {
  instance_t proto = *instance_at(m->b, like);
  proto.kind = SHOAL_BUFFER_TEMP;
  proto.state = -1;
  proto.memory = memory;
  proto.next_copy = -1;
  proto.phase = beside->phase;
  proto.depth = beside->depth;
  return shoal_lower_new_instance(m->b, proto, out_index);
}

// Where an item reads its inputs: between meshes without a common rank it does so where it sends.
static int32_t reads_in(const moving_t *m, const item_t *item) {
  if (item->code.opcode != SHOAL_OPCODE_RESHARD) return item->segment;
  const shoal_layout_t *from = instance_at(m->b, item->code.inputs[0])->layout;
  const shoal_layout_t *to = instance_at(m->b, item->code.outputs[0])->layout;
  return shoal_lower_share_ranks(m->b, from, to) ? item->segment : item->send_segment;
}

// ---- arrivals ---------------------------------------------------------------------------

// A copy of a state that is taken aside: it may come from elsewhere as well as from the device.
static bool takes_aside(const moving_t *m, const item_t *item) {
  if (item->code.opcode != SHOAL_OPCODE_COPY || item->code.predicate >= 0) return false;
  const instance_t *from = instance_at(m->b, item->code.inputs[0]);
  const instance_t *to = instance_at(m->b, item->code.outputs[0]);
  return from->memory != SHOAL_MEMORY_DEVICE && to->memory == SHOAL_MEMORY_DEVICE &&
         shoal_layout_equal(from->layout, to->layout);
}

static shoal_status_t note_aside(moving_t *m, int64_t reader) {
  item_t *item = m->items[reader];
  const int32_t home = m->b->state_homes[instance_at(m->b, item->code.inputs[0])->state];
  const arrival_t arrival = {.source = item->code.inputs[0],
                             .target = item->code.outputs[0],
                             .side = m->items[reader]->side,
                             .segment = item->segment,
                             .reader = reader,
                             .own = true,
                             .next = m->arrivals[home]};
  item->code.queue = SHOAL_QUEUE_COPY;
  m->arrivals[home] = (int32_t)m->list.count;
  return SHOAL_PUSH(m->scratch, &m->list, arrival) ? NULL : SHOAL_OOM();
}

// The instance on the device in which item `reader` finds what lies elsewhere. `of` is the instance
// that the arrivals are listed under.
static shoal_status_t bring(moving_t *m, int64_t reader, int32_t of, int32_t source,
                            int64_t earliest, int32_t prefetch, int32_t *out_target) {
  const item_t *item = m->items[reader];
  const int32_t segment = reads_in(m, item);
  for (int32_t a = m->arrivals[of]; a >= 0; a = m->list.items[a].next) {
    const arrival_t *known = &m->list.items[a];
    *out_target = known->target;
    if (known->side == m->items[reader]->side && known->segment == segment) return NULL;
  }
  arrival_t arrival = {.source = source,
                       .side = m->items[reader]->side,
                       .segment = segment,
                       .reader = reader,
                       .earliest = earliest,
                       .prefetch = prefetch,
                       .next = m->arrivals[of]};
  SHOAL_RETURN_IF_ERROR(make_instance(m, source, SHOAL_MEMORY_DEVICE, item, &arrival.target));
  m->arrivals[of] = (int32_t)m->list.count;
  *out_target = arrival.target;
  return SHOAL_PUSH(m->scratch, &m->list, arrival) ? NULL : SHOAL_OOM();
}

// Does the plan want this value to wait elsewhere, and does it wait: made by one item of the
// forward pass, read here after it?
static bool waits_elsewhere(const moving_t *m, int32_t instance, int64_t reader,
                            shoal_memory_kind_t *out_memory) {
  const instance_t *value = instance_at(m->b, instance);
  if (value->value < 0 || value->kind == SHOAL_BUFFER_STATE) return false;
  const shoal_keep_t keep = m->graph->gp->keeps[value->value];
  if (keep != SHOAL_KEEP_HOST && keep != SHOAL_KEEP_FILE) return false;
  *out_memory = keep == SHOAL_KEEP_HOST ? SHOAL_MEMORY_HOST : SHOAL_MEMORY_FILE;
  const int64_t maker = m->makers[instance];
  return maker >= 0 && m->items[maker]->side == SHOAL_SIDE_FORWARD &&
         m->items[reader]->side != SHOAL_SIDE_FORWARD &&
         m->items[maker]->code.opcode != SHOAL_OPCODE_COPY &&
         m->items[maker]->code.opcode != SHOAL_OPCODE_ACCUMULATE;
}

static shoal_status_t store(moving_t *m, int32_t instance, shoal_memory_kind_t memory) {
  const int64_t maker = m->makers[instance];
  const item_t *made = m->items[maker];
  item_t *copy = NULL;
  SHOAL_RETURN_IF_ERROR(make_instance(m, instance, memory, made, &m->waiting[instance]));
  SHOAL_RETURN_IF_ERROR(make_copy(m, instance, m->waiting[instance], made, made->segment, &copy));
  return add_at(m, &m->behind[maker], copy);
}

// What an operand of item `reader` becomes.
static shoal_status_t find_operand(moving_t *m, int64_t reader, int32_t *operand) {
  const int32_t instance = *operand;
  const instance_t *value = instance_at(m->b, instance);
  shoal_memory_kind_t memory;
  if (value->memory != SHOAL_MEMORY_DEVICE) {
    const int32_t home = m->b->state_homes[value->state];
    return bring(m, reader, home, instance, 0, m->b->plan->syncs[value->state].prefetch, operand);
  }
  if (!waits_elsewhere(m, instance, reader, &memory)) return NULL;
  if (m->waiting[instance] < 0) SHOAL_RETURN_IF_ERROR(store(m, instance, memory));
  return bring(m, reader, instance, m->waiting[instance], m->makers[instance] + 1, 1, operand);
}

static shoal_status_t find_arrivals(moving_t *m) {
  for (int64_t i = 0; i < m->count; ++i) {
    item_t *item = m->items[i];
    if (takes_aside(m, item)) {
      SHOAL_RETURN_IF_ERROR(note_aside(m, i));
      continue;
    }
    for (int32_t k = 0; k < item->code.input_count; ++k)
      SHOAL_RETURN_IF_ERROR(find_operand(m, i, &item->inputs[k]));
    if (item->code.predicate >= 0) SHOAL_RETURN_IF_ERROR(find_operand(m, i, &item->code.predicate));
  }
  return NULL;
}

// Each in front of its reader, or of one that comes earlier in the same segment.
static shoal_status_t place_arrivals(moving_t *m) {
  for (int64_t a = 0; a < m->list.count; ++a) {
    arrival_t *arrival = &m->list.items[a];
    int64_t at = arrival->reader;
    int32_t ahead = 0;
    for (int64_t other = a - 1; other >= 0 && ahead < arrival->prefetch; --other) {
      const arrival_t *earlier = &m->list.items[other];
      if (earlier->segment != arrival->segment || earlier->reader == at) continue;
      at = earlier->reader;
      ++ahead;
    }
    if (arrival->own) continue;
    if (at < arrival->earliest) at = arrival->earliest;
    item_t *copy = NULL;
    SHOAL_RETURN_IF_ERROR(make_copy(m, arrival->source, arrival->target, m->items[arrival->reader],
                                    arrival->segment, &copy));
    SHOAL_RETURN_IF_ERROR(add_at(m, &m->before[at], copy));
  }
  return NULL;
}

// ---- states go back ---------------------------------------------------------------------

// May the next value of a state go back behind its maker, where item `index` stands? It is made
// once, and everybody has read the old one by then.
static bool goes_back(const moving_t *m, int32_t home, int64_t index, const item_t *maker) {
  if (maker->phase == PHASE_LOOP) return false;
  for (int32_t a = m->arrivals[home]; a >= 0; a = m->list.items[a].next) {
    const arrival_t *arrival = &m->list.items[a];
    if (arrival->segment > maker->segment) return false;
    if (arrival->segment == maker->segment && arrival->reader > index) return false;
  }
  return true;
}

// A predicate decides on the device: the old value is there, is written over or not, and goes back.
static shoal_status_t guard(moving_t *m, int64_t index) {
  item_t *item = m->items[index], *back = NULL, *fetch = NULL;
  const int32_t home = item->one_output;
  int32_t aside = -1;
  SHOAL_RETURN_IF_ERROR(make_instance(m, home, SHOAL_MEMORY_DEVICE, item, &aside));
  SHOAL_RETURN_IF_ERROR(make_copy(m, home, aside, item, item->segment, &fetch));
  SHOAL_RETURN_IF_ERROR(make_copy(m, aside, home, item, item->segment, &back));
  item->one_output = aside;
  SHOAL_RETURN_IF_ERROR(add_at(m, &m->before[index], fetch));
  return add_at(m, &m->behind[index], back);
}

static shoal_status_t place_assigns(moving_t *m) {
  for (int64_t i = 0; i < m->count; ++i) {
    item_t *item = m->items[i];
    if (item->phase != PHASE_COMMIT || item->code.output_count == 0) continue;
    const int32_t home = item->code.outputs[0];
    if (instance_at(m->b, home)->memory == SHOAL_MEMORY_DEVICE) continue;
    const int32_t next = item->code.inputs[0];  // it may have waited elsewhere itself
    const int64_t maker = next < m->instance_count ? m->makers[next] : -1;
    const bool guarded = item->code.predicate >= 0;  // which may be known only later
    if (!guarded && maker >= 0 && goes_back(m, home, i, m->items[maker])) {
      item->phase = m->items[maker]->phase;
      item->depth = item->send_depth = m->items[maker]->depth;
      item->segment = item->send_segment = m->items[maker]->segment;
    }
    item->code.queue = guarded ? SHOAL_QUEUE_COMPUTE : SHOAL_QUEUE_COPY;
    if (guarded) SHOAL_RETURN_IF_ERROR(guard(m, i));
  }
  return NULL;
}

// ---- graphs -----------------------------------------------------------------------------

static bool has_anything(const build_t *b, const graph_build_t *graph) {
  for (int64_t s = 0; s < b->plan->model->states.count; ++s)
    if (b->plan->memories[s] != SHOAL_MEMORY_DEVICE) return true;
  for (int64_t v = 0; v < graph->graph->values.count; ++v)
    if (graph->gp->keeps[v] == SHOAL_KEEP_HOST || graph->gp->keeps[v] == SHOAL_KEEP_FILE)
      return true;
  return false;
}

static void find_makers(moving_t *m) {
  for (int64_t i = 0; i < m->instance_count; ++i) {
    m->makers[i] = -1;
    m->waiting[i] = m->arrivals[i] = -1;
  }
  for (int64_t i = 0; i < m->count; ++i) {
    m->before[i] = m->behind[i] = (place_t){-1, -1};
    for (int32_t o = 0; o < m->items[i]->code.output_count; ++o) {
      int64_t *maker = &m->makers[m->items[i]->code.outputs[o]];
      *maker = *maker == -1 ? i : -2;
    }
  }
}

static shoal_status_t push_all(moving_t *m, place_t place) {
  for (int32_t a = place.first; a >= 0; a = m->additions.items[a].next)
    if (!SHOAL_PUSH(m->b->arena, &m->graph->items, m->additions.items[a].item)) return SHOAL_OOM();
  return NULL;
}

static shoal_status_t offload_graph(build_t *b, graph_build_t *graph, shoal_arena_t *scratch) {
  const int64_t count = graph->items.count, instances = b->instances.count;
  moving_t m = {.b = b,
                .graph = graph,
                .scratch = scratch,
                .items = shoal_arena_copy(scratch, graph->items.items, (size_t)count,
                                          sizeof *graph->items.items),
                .count = count,
                .makers = SHOAL_NEW(scratch, int64_t, instances),
                .waiting = SHOAL_NEW(scratch, int32_t, instances),
                .arrivals = SHOAL_NEW(scratch, int32_t, instances),
                .instance_count = instances,
                .before = SHOAL_NEW(scratch, place_t, count),
                .behind = SHOAL_NEW(scratch, place_t, count)};
  if (!m.items || !m.makers || !m.waiting || !m.arrivals || !m.before || !m.behind)
    return SHOAL_OOM();
  find_makers(&m);
  SHOAL_RETURN_IF_ERROR(find_arrivals(&m));
  SHOAL_RETURN_IF_ERROR(place_assigns(&m));
  SHOAL_RETURN_IF_ERROR(place_arrivals(&m));
  graph->items.count = 0;
  for (int64_t i = 0; i < count; ++i) {
    SHOAL_RETURN_IF_ERROR(push_all(&m, m.before[i]));
    if (!SHOAL_PUSH(b->arena, &graph->items, m.items[i])) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(push_all(&m, m.behind[i]));
  }
  return NULL;
}

shoal_status_t shoal_lower_pass_offload(build_t *b) {
  for (int64_t g = 0; g < b->graph_count; ++g) {
    if (!has_anything(b, &b->graphs[g])) continue;
    shoal_arena_t scratch;
    shoal_arena_init(b->plan->allocator, &scratch);
    shoal_status_t status = offload_graph(b, &b->graphs[g], &scratch);
    shoal_arena_deinit(&scratch);
    if (status)
      return shoal_status_annotatef(status, "while lowering graph '%s'", b->graphs[g].name);
  }
  return NULL;
}
