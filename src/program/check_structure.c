// Structure: every table and every instruction by itself. What follows may rely on it: indices are
// in range, operands are as many as the opcode takes, layouts fit their shapes, buffers lie in the
// arena and hold their largest part, waits point backwards, and an order calls each segment once
// per micro-batch. (check_calls.c has what calls say of slots and waits.)
#include <string.h>

#include "program/check_impl.h"

#define AT(program_, class_)                                                                \
  (place_t) {                                                                               \
    .program = (program_), .class = (class_), .segment = -1, .instruction = -1, .micro = -1 \
  }

// ---- program ------------------------------------------------------------------------

static shoal_status_t check_layout(const shoal_program_t *program, const shoal_layout_t *layout,
                                   const shoal_shape_t *shape) {
  if (layout->mesh < program->meshes || layout->mesh >= program->meshes + program->mesh_count) {
    return SHOAL_ERROR(MISMATCH, "its layout is on a mesh that is not the program's");
  }
  return shoal_layout_check(layout, shape);
}

static shoal_status_t check_meshes(const shoal_program_t *program) {
  place_t place = AT(program, -1);
  for (int64_t i = 0; i < program->mesh_count; ++i) {
    const shoal_mesh_t *mesh = &program->meshes[i];
    int64_t size = shoal_mesh_size(mesh), micro = mesh->micro > 1 ? mesh->micro : 1;
    if (micro != program->micro) {
      return MISMATCH(&place, "the micro axis is the same on all meshes",
                      "mesh %lld has %lld micro-batches, the program %lld", (long long)i,
                      (long long)micro, (long long)program->micro);
    }
    for (int64_t p = 0; p < size; ++p) {
      int32_t rank = shoal_mesh_rank(mesh, p);
      if (rank >= 0 && rank < program->world) continue;
      return MISMATCH(&place, "list ranks of the world", "mesh %lld has rank %d in a world of %d",
                      (long long)i, rank, program->world);
    }
  }
  return NULL;
}

// An output on request has a state of its own, which is not saved.
static shoal_status_t check_requests(const shoal_program_t *program) {
  place_t place = AT(program, -1);
  for (int64_t i = 0; i < program->output_count; ++i) {
    const shoal_program_port_t *port = &program->outputs[i];
    if (!port->on_request) continue;
    const bool there = port->state >= 0 && port->state < program->state_count;
    const shoal_program_state_t *state = there ? &program->states[port->state] : NULL;
    if (there && !state->saved && shoal_type_equal(&state->type, &port->type) &&
        shoal_program_kept_in(program, port->state) == port)
      continue;
    return MISMATCH(&place, "give it a state of its own, of its type, which is not saved",
                    "output '%s' of graph '%s' cannot be kept in state %d", port->name, port->graph,
                    port->state);
  }
  return NULL;
}

static shoal_status_t check_layouts(const shoal_program_t *program) {
  place_t place = AT(program, -1);
  for (int64_t i = 0; i < program->state_count; ++i) {
    const shoal_program_state_t *state = &program->states[i];
    shoal_status_t status = check_layout(program, state->layout, &state->type.shape);
    if (!status &&
        (shoal_layout_is_partial(state->layout) || shoal_program_has_micro(state->layout))) {
      status = SHOAL_ERROR_HINT(MISMATCH,
                                "reduce it, and accumulate over micro-batches, before it rests",
                                "a state rests unreduced or per micro-batch");
    }
    if (status) {
      return shoal_program_check_at(&place,
                                    shoal_status_annotatef(status, "state '%s'", state->name));
    }
  }
  for (int64_t i = 0; i < program->channel_count; ++i) {
    const shoal_channel_t *channel = &program->channels[i];
    const shoal_cut_t *src = shoal_program_micro_partial(channel->src);
    const shoal_cut_t *dst = shoal_program_micro_partial(channel->dst);
    shoal_status_t status = check_layout(program, channel->src, &channel->type.shape);
    if (!status) status = check_layout(program, channel->dst, &channel->type.shape);
    if (!status && (channel->lane < 0 || channel->lane >= SHOAL_MAX_LANES)) {
      status = SHOAL_ERROR(MISMATCH, "there is no lane %d; there are %d", channel->lane,
                           SHOAL_MAX_LANES);
    }
    if (!status && src && (!dst || dst->reduce != src->reduce)) {
      status =
          SHOAL_ERROR_HINT(MISMATCH, "accumulate it first", "it drops what is partial along micro");
    }
    if (!status && !channel->micro &&
        (shoal_program_has_micro(channel->src) || shoal_program_has_micro(channel->dst))) {
      status = SHOAL_ERROR_HINT(MISMATCH, "mark the channel as one inside the loop",
                                "it moves a micro-batch, outside the loop");
    }
    if (status) {
      return shoal_program_check_at(&place,
                                    shoal_status_annotatef(status, "channel %lld", (long long)i));
    }
  }
  return NULL;
}

// Classes partition the ranks.
static shoal_status_t check_partition(const shoal_program_t *program, shoal_arena_t *scratch) {
  bool *seen = SHOAL_NEW(scratch, bool, program->world);
  if (!seen) return SHOAL_OOM();
  int64_t total = 0;
  for (int64_t c = 0; c < program->class_count; ++c) {
    const shoal_class_t *class = &program->classes[c];
    place_t place = AT(program, c);
    for (int64_t i = 0; i < class->rank_count; ++i, ++total) {
      int32_t rank = class->ranks[i];
      if (rank < 0 || rank >= program->world || seen[rank] || (i && rank <= class->ranks[i - 1])) {
        return MISMATCH(&place, "each rank of the world is in one class, ascending",
                        "rank %d is not in the world, out of order, or in two classes", rank);
      }
      seen[rank] = true;
    }
  }
  for (int32_t rank = 0; total < program->world; ++rank) {
    place_t place = AT(program, -1);
    if (!seen[rank]) return MISMATCH(&place, "put it in a class", "rank %d is in no class", rank);
  }
  return NULL;
}

// ---- buffers ------------------------------------------------------------------------

static shoal_status_t check_space(const shoal_class_t *class, const shoal_buffer_t *buffer,
                                  int64_t bytes) {
  const int64_t offset = buffer->offset;
  if ((unsigned)buffer->memory >= SHOAL_MEMORY_COUNT)
    return SHOAL_ERROR(MISMATCH, "there is no memory of kind %d", (int)buffer->memory);
  if (offset < 0 || bytes < 0 || offset % SHOAL_PROGRAM_ALIGN != 0) {
    return SHOAL_ERROR_HINT(MISMATCH, "align it to 64 bytes", "it lies at offset %lld",
                            (long long)offset);
  }
  const int64_t arena = class->arena_bytes[buffer->memory];
  if (bytes > arena || offset > arena - bytes) {
    return SHOAL_ERROR_HINT(MISMATCH, "plan the memory again",
                            "it lies at [%lld, %lld) of %s memory, behind the arena's %lld bytes",
                            (long long)offset, (long long)(offset + bytes),
                            shoal_memory_kind_name(buffer->memory), (long long)arena);
  }
  return NULL;
}

static shoal_status_t check_state_buffer(const shoal_program_t *program,
                                         const shoal_buffer_t *buffer) {
  if (buffer->state < 0 || buffer->state >= program->state_count) {
    return SHOAL_ERROR(MISMATCH, "there is no state %d", buffer->state);
  }
  const shoal_program_state_t *state = &program->states[buffer->state];
  if (!shoal_type_equal(&buffer->type, &state->type) ||
      !shoal_layout_equal(buffer->layout, state->layout)) {
    return SHOAL_ERROR_HINT(MISMATCH, "a state has one type and rests in one layout",
                            "it differs from state '%s' in type or layout", state->name);
  }
  if (buffer->group >= 0) return SHOAL_ERROR(MISMATCH, "a state has one slot");
  return NULL;
}

static shoal_status_t check_count(const shoal_class_t *class, const shoal_buffer_t *buffer) {
  if (buffer->count >= class->buffer_count) {
    return SHOAL_ERROR(MISMATCH, "it counts in buffer %d, which is not there", buffer->count);
  }
  const shoal_buffer_t *count = &class->buffers[buffer->count];
  if ((count->type.dtype != SHOAL_I32 && count->type.dtype != SHOAL_I64) ||
      count->type.shape.rank != 0 || count->count >= 0) {
    return SHOAL_ERROR_HINT(MISMATCH, "count in a scalar of i32 or i64",
                            "buffer %d '%s' cannot hold a number of rows", buffer->count,
                            count->name);
  }
  if (buffer->type.shape.rank == 0) return SHOAL_ERROR(MISMATCH, "a scalar has no rows to count");
  if (!shoal_mesh_equal(buffer->layout->mesh, count->layout->mesh)) {
    return SHOAL_ERROR(MISMATCH, "its count '%s' is on another mesh", count->name);
  }
  return NULL;
}

// The largest part of any of the class's ranks; worked out once for each type and layout.
static shoal_status_t find_largest(const shoal_class_t *class, const shoal_buffer_t *buffer,
                                   shoal_memo_t *sizes, shoal_arena_t *scratch,
                                   int64_t *out_bytes) {
  shoal_key_t key;
  shoal_key_init(scratch, &key);
  shoal_key_add_pointer(&key, buffer->layout);
  shoal_key_add_type(&key, &buffer->type);
  if (shoal_memo_find(sizes, &key, out_bytes)) return NULL;
  SHOAL_RETURN_IF_ERROR(
      shoal_layout_largest(buffer->layout, &buffer->type, class, scratch->allocator, out_bytes));
  return shoal_memo_add(sizes, &key, *out_bytes) ? NULL : SHOAL_OOM();
}

static shoal_status_t check_buffer(const shoal_program_t *program, const shoal_class_t *class,
                                   const shoal_buffer_t *buffer, shoal_memo_t *sizes,
                                   shoal_arena_t *scratch) {
  SHOAL_RETURN_IF_ERROR(check_layout(program, buffer->layout, &buffer->type.shape));
  if (buffer->group >= class->slot_group_count) {
    return SHOAL_ERROR(MISMATCH, "there is no slot group %d", buffer->group);
  }
  int64_t largest, total;
  SHOAL_RETURN_IF_ERROR(find_largest(class, buffer, sizes, scratch, &largest));
  if (buffer->bytes < largest || buffer->bytes % SHOAL_PROGRAM_ALIGN != 0) {
    return SHOAL_ERROR_HINT(MISMATCH, "give it the largest part, aligned to 64 bytes",
                            "it has %lld bytes, its largest part needs %lld",
                            (long long)buffer->bytes, (long long)largest);
  }
  const int64_t slots = shoal_buffer_slots(class, buffer);
  if (__builtin_mul_overflow(buffer->bytes, slots, &total)) total = INT64_MAX;
  SHOAL_RETURN_IF_ERROR(check_space(class, buffer, total));
  if (buffer->kind == SHOAL_BUFFER_STATE || buffer->kind == SHOAL_BUFFER_NEXT)
    SHOAL_RETURN_IF_ERROR(check_state_buffer(program, buffer));
  if (buffer->count >= 0) SHOAL_RETURN_IF_ERROR(check_count(class, buffer));
  return NULL;
}

static shoal_status_t at_buffer(const place_t *place, int64_t index, shoal_status_t status) {
  return shoal_program_check_at(place,
                                shoal_status_annotatef(status, "buffer %lld '%s'", (long long)index,
                                                       place_class(place)->buffers[index].name));
}

static shoal_status_t check_buffers(const check_t *check, int64_t c) {
  const shoal_program_t *program = check->program;
  shoal_arena_t *scratch = check->scratch;
  shoal_memo_t sizes;
  shoal_memo_init(scratch, &sizes);
  const shoal_class_t *class = &program->classes[c];
  place_t place = AT(program, c);
  const shoal_buffer_t **homes = SHOAL_NEW(scratch, const shoal_buffer_t *, program->state_count);
  if (!homes) return SHOAL_OOM();
  for (int64_t i = 0; i < class->buffer_count; ++i) {
    const shoal_buffer_t *buffer = &class->buffers[i];
    shoal_status_t status = check_buffer(program, class, buffer, &sizes, scratch);
    if (!status && buffer->kind == SHOAL_BUFFER_STATE) {
      if (homes[buffer->state]) status = SHOAL_ERROR(MISMATCH, "the state has two buffers");
      homes[buffer->state] = buffer;
    }
    if (status) return at_buffer(&place, i, status);
  }
  for (int64_t i = 0; i < class->buffer_count; ++i) {
    const shoal_buffer_t *buffer = &class->buffers[i];
    if (buffer->kind != SHOAL_BUFFER_NEXT) continue;
    const shoal_buffer_t *home = homes[buffer->state];
    if (home && home->memory == buffer->memory && home->offset == buffer->offset &&
        home->bytes == buffer->bytes)
      continue;
    return at_buffer(&place, i,
                     SHOAL_ERROR_HINT(MISMATCH, "a state's next value lies where the state lies",
                                      "it lies elsewhere than state %d", buffer->state));
  }
  for (int64_t s = 0; s < program->state_count; ++s) {
    if (homes[s] || !shoal_program_check_present(check, c, program->states[s].layout->mesh))
      continue;
    return MISMATCH(&place, "give the class a buffer for it",
                    "state '%s' rests on ranks of this class but has no buffer",
                    program->states[s].name);
  }
  return NULL;
}

// ---- orders -------------------------------------------------------------------------

// Each segment is called once, or once in each micro-batch. (A schedule that runs something again,
// to recompute it, has a segment for that.)
static shoal_status_t check_order(const shoal_program_t *program, int64_t c,
                                  const shoal_order_t *order, int64_t *used,
                                  shoal_arena_t *scratch) {
  const shoal_class_t *class = &program->classes[c];
  place_t place = AT(program, c);
  place.graph = order->graph;
  int64_t *calls = SHOAL_NEW(scratch, int64_t, class->segment_count);
  bool **seen = SHOAL_NEW(scratch, bool *, class->segment_count);
  if (!calls || !seen) return SHOAL_OOM();
  for (int64_t k = 0; k < order->call_count; ++k) {
    int32_t s = order->calls[k].segment, micro = order->calls[k].micro;
    if (s < 0 || s >= class->segment_count || micro < -1 || micro >= program->micro) {
      return MISMATCH(&place, "call a segment of the class in a micro-batch of the program",
                      "call %lld: there is no segment %d in micro-batch %d", (long long)k, s,
                      micro);
    }
    if (!seen[s] && !(seen[s] = SHOAL_NEW(scratch, bool, program->micro + 1))) return SHOAL_OOM();
    if (seen[s][micro + 1] || (micro >= 0 ? seen[s][0] : calls[s] > 0)) {
      return MISMATCH(&place, "call a segment once, or once in each micro-batch",
                      "call %lld: segment %d '%s' is called again in micro-batch %d", (long long)k,
                      s, class->segments[s].name, micro);
    }
    seen[s][micro + 1] = true;
    ++calls[s];
  }
  for (int64_t s = 0; s < class->segment_count; ++s) {
    if (calls[s] > 0 && !seen[s][0] && calls[s] != program->micro) {
      return MISMATCH(&place, "call it in every micro-batch",
                      "segment %lld '%s' is called in %lld of %lld micro-batches", (long long)s,
                      class->segments[s].name, (long long)calls[s], (long long)program->micro);
    }
    used[s] += calls[s];
  }
  return NULL;
}

static const shoal_order_t *find_order(const shoal_class_t *class, const char *graph) {
  for (int64_t i = 0; i < class->order_count; ++i) {
    if (strcmp(class->orders[i].graph, graph) == 0) return &class->orders[i];
  }
  return NULL;
}

static shoal_status_t check_orders(const shoal_program_t *program, int64_t c,
                                   shoal_arena_t *scratch) {
  const shoal_class_t *class = &program->classes[c], *first = &program->classes[0];
  place_t place = AT(program, c);
  int64_t *used = SHOAL_NEW(scratch, int64_t, class->segment_count);
  if (!used) return SHOAL_OOM();
  for (int64_t i = 0; i < class->order_count; ++i) {
    const shoal_order_t *order = &class->orders[i];
    if (find_order(class, order->graph) != order) {
      return MISMATCH(&place, "a graph has one order", "it has two orders for graph '%s'",
                      order->graph);
    }
    if (!find_order(first, order->graph)) {
      return MISMATCH(&place, "every class has an order for every graph, if an empty one",
                      "it has an order for graph '%s', class 0 has none", order->graph);
    }
    SHOAL_RETURN_IF_ERROR(check_order(program, c, order, used, scratch));
  }
  if (class->order_count != first->order_count) {
    return MISMATCH(&place, "every class has an order for every graph, if an empty one",
                    "it has orders for %lld graphs, class 0 for %lld",
                    (long long)class->order_count, (long long)first->order_count);
  }
  for (int64_t s = 0; s < class->segment_count; ++s) {
    if (!used[s]) {
      place.segment = s;
      return MISMATCH(&place, "call it in an order, or leave it out", "no order calls it");
    }
  }
  return NULL;
}

// ---- all together -------------------------------------------------------------------

shoal_status_t shoal_program_check_tables(const check_t *check) {
  const shoal_program_t *program = check->program;
  place_t place = AT(program, -1);
  if (program->world < 1 || program->world > SHOAL_PROGRAM_MAX_WORLD || program->micro < 1 ||
      program->micro > SHOAL_PROGRAM_MAX_MICRO || program->class_count < 1) {
    return MISMATCH(&place, "a program has ranks, micro-batches and classes, not too many",
                    "the program has %d ranks, %lld micro-batches, %lld classes", program->world,
                    (long long)program->micro, (long long)program->class_count);
  }
  SHOAL_RETURN_IF_ERROR(check_meshes(program));
  SHOAL_RETURN_IF_ERROR(check_layouts(program));
  SHOAL_RETURN_IF_ERROR(check_requests(program));
  return check_partition(program, check->scratch);
}

shoal_status_t shoal_program_check_structure(const check_t *check) {
  for (int64_t c = 0; c < check->program->class_count; ++c) {
    SHOAL_RETURN_IF_ERROR(shoal_program_check_queues(check, c));
    SHOAL_RETURN_IF_ERROR(check_buffers(check, c));
    SHOAL_RETURN_IF_ERROR(shoal_program_check_instructions(check, c));
    SHOAL_RETURN_IF_ERROR(check_orders(check->program, c, check->scratch));
    SHOAL_RETURN_IF_ERROR(shoal_program_check_calls(check, c));
  }
  return NULL;
}
