// Inputs and outputs as a loaded program has them: which parts this rank feeds and fetches, and
// host memory for them in two slots, so that the host fills or reads one while a run works with the
// other. FEED and FETCH are plain transfers from and to a slot; data is packed and unpacked by who
// feeds and fetches (feed.c).
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "op/type.h"
#include "run/run_impl.h"

// ---- parts ----------------------------------------------------------------------------

static int64_t find_port(const shoal_program_port_t *ports, int64_t count, const char *graph,
                         const char *name) {
  for (int64_t i = 0; i < count; ++i) {
    if (strcmp(ports[i].graph, graph) == 0 && strcmp(ports[i].name, name) == 0) return i;
  }
  return -1;
}

// The port of a FEED or FETCH: called as the instruction is, or as its buffer.
static shoal_status_t port_of(const shoal_runner_t *runner, const char *graph,
                              const shoal_instruction_t *instruction, int64_t *out_index) {
  const bool feed = instruction->opcode == SHOAL_OPCODE_FEED;
  const shoal_program_port_t *ports = feed ? runner->program->inputs : runner->program->outputs;
  const int64_t count = feed ? runner->program->input_count : runner->program->output_count;
  const int32_t buffer = feed ? instruction->outputs[0] : instruction->inputs[0];
  const char *buffer_name = runner->bound.rank_class->buffers[buffer].name;
  *out_index = find_port(ports, count, graph, instruction->name);
  if (*out_index < 0) *out_index = find_port(ports, count, graph, buffer_name);
  if (*out_index >= 0) return NULL;
  return SHOAL_ERROR(INVALID_ARGUMENT, "the program's graph '%s' %s '%s', which it does not list",
                     graph, feed ? "feeds" : "fetches", instruction->name);
}

static const shoal_bound_buffer_t *part_of(const shoal_bound_instruction_t *bound) {
  if (bound->idle) return NULL;
  const shoal_bound_buffer_t *part =
      bound->instruction->opcode == SHOAL_OPCODE_FEED ? bound->outputs[0] : bound->inputs[0];
  return part && part->count > 0 ? part : NULL;
}

static int32_t buffer_of(const shoal_instruction_t *instruction) {
  return instruction->opcode == SHOAL_OPCODE_FEED ? instruction->outputs[0]
                                                  : instruction->inputs[0];
}

static int64_t owned_count(const shoal_boxes_t *boxes) {
  if (boxes->flat) return boxes->to - boxes->from;
  int64_t count = 1;
  for (int32_t d = 0; d < boxes->whole.rank; ++d) count *= boxes->dims[d].own_size;
  return count;
}

static shoal_run_part_t *find_part(shoal_run_store_t *store, int32_t buffer, int32_t micro) {
  for (int64_t i = store->parts.count; i-- > 0;) {
    shoal_run_part_t *part = &store->parts.items[i];
    if (part->buffer == buffer && part->micro == micro) return part;
  }
  return NULL;
}

// Notes the part of a FEED or FETCH, once for every buffer and micro-batch.
static shoal_status_t note(shoal_runner_t *runner, const char *graph, int32_t micro,
                           const shoal_bound_instruction_t *bound) {
  const shoal_bound_buffer_t *part = part_of(bound);
  if (!part) return NULL;
  int64_t index;
  SHOAL_RETURN_IF_ERROR(port_of(runner, graph, bound->instruction, &index));
  const bool feed = bound->instruction->opcode == SHOAL_OPCODE_FEED;
  shoal_run_store_t *store = feed ? &runner->inputs[index].store : &runner->outputs[index].store;
  const int32_t buffer = buffer_of(bound->instruction);
  if (find_part(store, buffer, micro)) return NULL;
  if (!feed) runner->outputs[index].covered += owned_count(&part->boxes);
  if (feed && store->parts.count > 0 && store->parts.items[0].buffer != buffer) {
    runner->inputs[index].several = true;
  }
  const shoal_run_part_t noted = {
      .buffer = buffer,
      .micro = micro,
      .bound = part,
      .bytes = part->count * (int64_t)shoal_dtype_size(part->type.dtype),
  };
  return SHOAL_PUSH(&runner->arena, &store->parts, noted) ? NULL : SHOAL_OOM();
}

static int by_buffer_and_micro(const void *a, const void *b) {
  const shoal_run_part_t *x = a, *y = b;
  if (x->buffer != y->buffer) return x->buffer < y->buffer ? -1 : 1;
  return (x->micro > y->micro) - (x->micro < y->micro);
}

static shoal_status_t store_memory(shoal_runner_t *runner, shoal_run_store_t *store) {
  for (int64_t i = 0; i < store->parts.count; ++i) {
    store->parts.items[i].offset = store->bytes;
    store->bytes += store->parts.items[i].bytes;
  }
  for (int k = 0; k < SHOAL_RUN_AHEAD && store->parts.count > 0; ++k) {
    store->slots[k] = shoal_arena_alloc(&runner->arena, (size_t)store->bytes, 1);
    if (!store->slots[k]) return SHOAL_OOM();
  }
  return NULL;
}

// Parts lie in the order in which they are fed.
static shoal_status_t input_memory(shoal_runner_t *runner, shoal_run_input_t *input) {
  shoal_run_store_t *store = &input->store;
  if (store->parts.count > 0) {
    qsort(store->parts.items, (size_t)store->parts.count, sizeof *store->parts.items,
          by_buffer_and_micro);
  }
  for (int64_t i = 0; i < store->parts.count; ++i) {
    const shoal_run_part_t *part = &store->parts.items[i];
    // Terms of a sum differ from rank to rank: nothing to compare.
    if (shoal_layout_is_partial(runner->bound.rank_class->buffers[part->buffer].layout)) continue;
    const bool whole = part->micro < 0 && part->bytes == input->whole_bytes;
    input->part_key =
        whole ? SHOAL_RUN_WHOLE : shoal_run_key(input->part_key, part->micro, &part->bound->boxes);
  }
  return store_memory(runner, store);
}

static shoal_status_t note_order(shoal_runner_t *runner, const shoal_bound_order_t *order) {
  for (int64_t c = 0; c < order->call_count; ++c) {
    const shoal_bound_call_t *call = &order->calls[c];
    for (int64_t i = 0; i < call->instruction_count; ++i) {
      const shoal_opcode_t opcode = call->instructions[i].instruction->opcode;
      if (opcode != SHOAL_OPCODE_FEED && opcode != SHOAL_OPCODE_FETCH) continue;
      SHOAL_RETURN_IF_ERROR(note(runner, order->graph, call->micro, &call->instructions[i]));
    }
  }
  return NULL;
}

shoal_status_t shoal_run_ports_init(shoal_runner_t *runner) {
  const shoal_program_t *program = runner->program;
  runner->inputs = SHOAL_NEW(&runner->arena, shoal_run_input_t, program->input_count);
  runner->outputs = SHOAL_NEW(&runner->arena, shoal_run_output_t, program->output_count);
  if (!runner->inputs || !runner->outputs) return SHOAL_OOM();
  for (int64_t i = 0; i < program->input_count; ++i) {
    runner->inputs[i].port = &program->inputs[i];
    runner->inputs[i].whole_bytes = shoal_type_bytes(&program->inputs[i].type);
  }
  for (int64_t i = 0; i < program->output_count; ++i) {
    runner->outputs[i].port = &program->outputs[i];
    runner->outputs[i].whole_bytes = shoal_type_bytes(&program->outputs[i].type);
  }
  for (int64_t o = 0; o < runner->bound.order_count; ++o) {
    SHOAL_RETURN_IF_ERROR(note_order(runner, &runner->bound.orders[o]));
  }
  for (int64_t i = 0; i < program->input_count; ++i) {
    SHOAL_RETURN_IF_ERROR(input_memory(runner, &runner->inputs[i]));
  }
  for (int64_t i = 0; i < program->output_count; ++i) {
    SHOAL_RETURN_IF_ERROR(store_memory(runner, &runner->outputs[i].store));
  }
  return NULL;
}

// ---- transfers ------------------------------------------------------------------------

shoal_status_t shoal_run_transfer_init(shoal_runner_t *runner, const char *graph, int32_t micro,
                                       const shoal_bound_instruction_t *bound,
                                       shoal_run_transfer_t *out_transfer) {
  *out_transfer = (shoal_run_transfer_t){0};
  const shoal_bound_buffer_t *part = part_of(bound);
  if (!part) return NULL;
  int64_t index;
  SHOAL_RETURN_IF_ERROR(port_of(runner, graph, bound->instruction, &index));
  const bool feed = bound->instruction->opcode == SHOAL_OPCODE_FEED;
  const shoal_type_t *whole =
      feed ? &runner->program->inputs[index].type : &runner->program->outputs[index].type;
  if (whole->dtype != part->type.dtype || !shoal_shape_equal(&whole->shape, &part->boxes.whole)) {
    return SHOAL_ERROR(INVALID_ARGUMENT,
                       "the buffer of '%s' and the %s of graph '%s' differ in type",
                       bound->instruction->name, feed ? "input" : "output", graph);
  }
  shoal_run_store_t *store = feed ? &runner->inputs[index].store : &runner->outputs[index].store;
  const shoal_run_part_t *noted = find_part(store, buffer_of(bound->instruction), micro);
  *out_transfer = (shoal_run_transfer_t){
      .store = store,
      .address = runner->memory + (shoal_address_t)part->offset,
      .offset = noted->offset,
      .bytes = noted->bytes,
  };
  return NULL;
}

static shoal_status_t make_events(shoal_runner_t *runner, shoal_run_store_t *store, int32_t queue) {
  for (int k = 0; k < SHOAL_RUN_AHEAD; ++k) {
    if (store->done[k][queue]) continue;
    SHOAL_RETURN_IF_ERROR(shoal_event_create(runner->device, &store->done[k][queue]));
  }
  return NULL;
}

static bool is_transfer(const shoal_action_t *action) {
  const shoal_opcode_t opcode = action->bound->instruction->opcode;
  return !action->bound->idle && (opcode == SHOAL_OPCODE_FEED || opcode == SHOAL_OPCODE_FETCH) &&
         action->transfer.store;
}

// Of one step's calls: a transfer is the last of its store and queue if none follows.
static shoal_status_t mark_last(shoal_runner_t *runner, const shoal_run_call_t *calls,
                                int64_t count) {
  for (int64_t c = 0; c < count; ++c) {
    for (int64_t i = 0; i < calls[c].action_count; ++i) {
      shoal_action_t *action = &calls[c].actions[i];
      if (!is_transfer(action)) continue;
      shoal_run_store_t *store = action->transfer.store;
      const int32_t queue = action->bound->instruction->queue;
      SHOAL_RETURN_IF_ERROR(make_events(runner, store, queue));
      if (store->latest[queue]) store->latest[queue]->last = false;
      store->latest[queue] = &action->transfer;
      action->transfer.last = true;
    }
  }
  return NULL;
}

static void forget_latest(shoal_run_store_t *store) {
  memset(store->latest, 0, sizeof store->latest);
}

shoal_status_t shoal_run_transfers_finish(shoal_runner_t *runner, shoal_run_order_t *order) {
  for (int64_t i = 0; i < runner->program->input_count; ++i) {
    shoal_run_input_t *input = &runner->inputs[i];
    if (strcmp(input->port->graph, order->graph) != 0) continue;
    if (!SHOAL_PUSH(&runner->arena, &order->inputs, input)) return SHOAL_OOM();
  }
  for (int64_t i = 0; i < runner->program->output_count; ++i) {
    shoal_run_output_t *output = &runner->outputs[i];
    if (strcmp(output->port->graph, order->graph) != 0) continue;
    if (!SHOAL_PUSH(&runner->arena, &order->outputs, output)) return SHOAL_OOM();
  }
  for (int64_t phase = 0; phase < runner->bound.period; ++phase) {
    for (int64_t i = 0; i < order->inputs.count; ++i) {
      forget_latest(&order->inputs.items[i]->store);
    }
    for (int64_t i = 0; i < order->outputs.count; ++i) {
      forget_latest(&order->outputs.items[i]->store);
    }
    SHOAL_RETURN_IF_ERROR(
        mark_last(runner, order->calls + phase * order->call_count, order->call_count));
  }
  return NULL;
}

static void free_events(shoal_run_store_t *store) {
  for (int k = 0; k < SHOAL_RUN_AHEAD; ++k) {
    for (int q = 0; q < SHOAL_MAX_QUEUES; ++q) shoal_event_free(store->done[k][q]);
  }
}

void shoal_run_ports_deinit(shoal_runner_t *runner) {
  for (int64_t i = 0; runner->inputs && i < runner->program->input_count; ++i) {
    free_events(&runner->inputs[i].store);
  }
  for (int64_t i = 0; runner->outputs && i < runner->program->output_count; ++i) {
    free_events(&runner->outputs[i].store);
  }
}

// ---- run ------------------------------------------------------------------------------

static shoal_status_t record_last(shoal_queue_t *queue, int32_t index,
                                  const shoal_run_transfer_t *transfer) {
  const shoal_run_store_t *store = transfer->store;
  return transfer->last ? shoal_queue_record(queue, store->done[store->slot][index]) : NULL;
}

shoal_status_t shoal_run_feed(shoal_queue_t *queue, int32_t index,
                              const shoal_run_transfer_t *feed) {
  const shoal_run_store_t *store = feed->store;
  if (!store) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_queue_upload(queue, store->slots[store->slot] + feed->offset,
                                           feed->address, feed->bytes));
  return record_last(queue, index, feed);
}

shoal_status_t shoal_run_fetch(shoal_queue_t *queue, int32_t index,
                               const shoal_run_transfer_t *fetch) {
  const shoal_run_store_t *store = fetch->store;
  if (!store) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_queue_download(
      queue, fetch->address, store->slots[store->slot] + fetch->offset, fetch->bytes));
  return record_last(queue, index, fetch);
}

shoal_status_t shoal_run_store_wait(const shoal_run_store_t *store, int32_t slot) {
  for (int q = 0; q < SHOAL_MAX_QUEUES; ++q) {
    if (store->done[slot][q]) SHOAL_RETURN_IF_ERROR(shoal_event_wait(store->done[slot][q]));
  }
  return NULL;
}
