// Inputs and outputs. Fed data is copied to the host memory of its input; a FEED instruction packs
// this rank's part of a micro-batch and uploads it. A FETCH downloads; its part goes into the
// output's whole.
//
// Graphs may share names: shoal_feed feeds every graph's input of that name and size; a fetch
// returns what the last run wrote.
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/text.h"
#include "op/type.h"
#include "run/run_impl.h"
#include "shoal/options.h"

// ---- names and sizes ------------------------------------------------------------------

shoal_status_t shoal_run_first(shoal_status_t first, shoal_status_t second) {
  if (!first) return second;
  shoal_status_free(second);
  return first;
}

shoal_status_t shoal_run_unknown(const char *what, const char *name, const char *const *names,
                                 int64_t count) {
  char all[256] = "there are:";
  int length = (int)strlen(all);
  for (int64_t i = 0; i < count && length < (int)sizeof all; ++i) {
    length += snprintf(all + length, sizeof all - (size_t)length, " %s", names[i]);
  }
  shoal_hint_t hint;
  return SHOAL_ERROR_HINT(NOT_FOUND,
                          shoal_did_you_mean(name, names, count, count > 0 ? all : NULL, &hint),
                          "there is no %s '%s'", what, name);
}

shoal_status_t shoal_run_check_size(const char *what, const char *name, const shoal_type_t *type,
                                    int64_t expected, size_t given) {
  if ((size_t)expected == given) return NULL;
  char is[SHOAL_TYPE_SIZE];
  return SHOAL_ERROR(INVALID_ARGUMENT, "%s '%s' is %s, %lld bytes; %zu bytes were given", what,
                     name, shoal_type_format(type, is, sizeof is), (long long)expected, given);
}

static shoal_status_t unknown_port(const shoal_runner_t *runner, bool input, const char *name) {
  const int64_t count = input ? runner->program->input_count : runner->program->output_count;
  const shoal_program_port_t *ports = input ? runner->program->inputs : runner->program->outputs;
  shoal_arena_t arena;
  shoal_arena_init(runner->allocator, &arena);
  const char **names = SHOAL_NEW(&arena, const char *, count);
  for (int64_t i = 0; names && i < count; ++i) names[i] = ports[i].name;
  shoal_status_t status =
      shoal_run_unknown(input ? "input" : "output", name, names, names ? count : 0);
  shoal_arena_deinit(&arena);
  return status;
}

// ---- load -----------------------------------------------------------------------------

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

static int64_t part_bytes(const shoal_bound_buffer_t *part) {
  return part->count * (int64_t)shoal_dtype_size(part->type.dtype);
}

static int64_t owned_count(const shoal_boxes_t *boxes) {
  if (boxes->flat) return boxes->to - boxes->from;
  int64_t count = 1;
  for (int32_t d = 0; d < boxes->whole.rank; ++d) count *= boxes->dims[d].own_size;
  return count;
}

// First pass: sizes. offsets[m + 1] holds the bytes of micro-batch m until they are added up.
static shoal_status_t note(shoal_runner_t *runner, const char *graph, int32_t micro,
                           const shoal_bound_instruction_t *bound) {
  const shoal_bound_buffer_t *part = part_of(bound);
  if (!part) return NULL;
  int64_t index;
  SHOAL_RETURN_IF_ERROR(port_of(runner, graph, bound->instruction, &index));
  if (bound->instruction->opcode == SHOAL_OPCODE_FETCH) {
    runner->outputs[index].covered += owned_count(&part->boxes);
    return NULL;
  }
  shoal_run_input_t *input = &runner->inputs[index];
  const int32_t buffer = bound->instruction->outputs[0];
  if (input->buffer >= 0 && input->buffer != buffer) input->several = true;
  input->buffer = buffer;
  input->offsets[micro + 1] = part_bytes(part);
  // Terms of a sum differ from rank to rank: nothing to compare.
  if (shoal_layout_is_partial(runner->bound.rank_class->buffers[buffer].layout)) return NULL;
  const bool whole = micro < 0 && part_bytes(part) == input->whole_bytes;
  input->part_key = whole ? SHOAL_RUN_WHOLE : shoal_run_key(input->part_key, micro, &part->boxes);
  return NULL;
}

static shoal_status_t input_memory(shoal_runner_t *runner, shoal_run_input_t *input) {
  int64_t total = 0;
  for (int64_t m = 0; m <= runner->program->micro; ++m) {
    const int64_t bytes = input->offsets[m];
    input->offsets[m] = total;
    total += bytes;
  }
  input->part_bytes = total;
  if (input->buffer < 0) return NULL;
  const int64_t bytes = total > input->whole_bytes ? total : input->whole_bytes;
  input->host = shoal_arena_alloc(&runner->arena, (size_t)bytes, 1);
  return input->host ? NULL : SHOAL_OOM();
}

shoal_status_t shoal_run_ports_init(shoal_runner_t *runner) {
  const shoal_program_t *program = runner->program;
  runner->inputs = SHOAL_NEW(&runner->arena, shoal_run_input_t, program->input_count);
  runner->outputs = SHOAL_NEW(&runner->arena, shoal_run_output_t, program->output_count);
  if (!runner->inputs || !runner->outputs) return SHOAL_OOM();
  for (int64_t i = 0; i < program->input_count; ++i) {
    runner->inputs[i] = (shoal_run_input_t){
        .port = &program->inputs[i],
        .whole_bytes = shoal_type_bytes(&program->inputs[i].type),
        .buffer = -1,
        .offsets = SHOAL_NEW(&runner->arena, int64_t, program->micro + 1),
    };
    if (!runner->inputs[i].offsets) return SHOAL_OOM();
  }
  for (int64_t i = 0; i < program->output_count; ++i) {
    runner->outputs[i] = (shoal_run_output_t){
        .port = &program->outputs[i],
        .whole_bytes = shoal_type_bytes(&program->outputs[i].type),
    };
  }
  for (int64_t o = 0; o < runner->bound.order_count; ++o) {
    const shoal_bound_order_t *order = &runner->bound.orders[o];
    for (int64_t c = 0; c < order->call_count; ++c) {
      const shoal_bound_call_t *call = &order->calls[c];
      for (int64_t i = 0; i < call->instruction_count; ++i) {
        const shoal_opcode_t opcode = call->instructions[i].instruction->opcode;
        if (opcode != SHOAL_OPCODE_FEED && opcode != SHOAL_OPCODE_FETCH) continue;
        SHOAL_RETURN_IF_ERROR(note(runner, order->graph, call->micro, &call->instructions[i]));
      }
    }
  }
  for (int64_t i = 0; i < program->input_count; ++i) {
    SHOAL_RETURN_IF_ERROR(input_memory(runner, &runner->inputs[i]));
  }
  for (int64_t i = 0; i < program->output_count; ++i) {
    shoal_run_output_t *output = &runner->outputs[i];
    output->host = shoal_arena_alloc(&runner->arena, (size_t)output->whole_bytes, 1);
    if (!output->host) return SHOAL_OOM();
  }
  return NULL;
}

shoal_status_t shoal_run_transfer_init(shoal_runner_t *runner, const char *graph, int32_t micro,
                                       const shoal_bound_instruction_t *bound, char *staging,
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
  *out_transfer = (shoal_run_transfer_t){
      .input = feed ? &runner->inputs[index] : NULL,
      .output = feed ? NULL : &runner->outputs[index],
      .part = part,
      .address = runner->memory + (shoal_address_t)part->offset,
      .bytes = part_bytes(part),
      .part_offset = feed ? runner->inputs[index].offsets[micro + 1] : 0,
      .staging = part->count == shoal_shape_count(&whole->shape) ? NULL : staging,
  };
  return NULL;
}

// ---- run ------------------------------------------------------------------------------

shoal_status_t shoal_run_feed_check(const shoal_runner_t *runner, const char *graph) {
  for (int64_t i = 0; i < runner->program->input_count; ++i) {
    const shoal_run_input_t *input = &runner->inputs[i];
    if (strcmp(input->port->graph, graph) != 0 || input->buffer < 0 || input->fed) continue;
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "call shoal_feed before shoal_run",
                            "input '%s' of graph '%s' was not fed", input->port->name, graph);
  }
  return NULL;
}

shoal_status_t shoal_run_feed(shoal_queue_t *queue, const shoal_run_transfer_t *feed) {
  if (!feed->part) return NULL;
  const char *data = feed->input->host;
  if (feed->input->is_part) {
    data += feed->part_offset;
  } else if (feed->staging) {
    SHOAL_RETURN_IF_ERROR(shoal_boxes_pack(
        &feed->part->boxes, shoal_dtype_size(feed->part->type.dtype), data, feed->staging));
    data = feed->staging;
  }
  return shoal_queue_upload(queue, data, feed->address, feed->bytes);
}

shoal_status_t shoal_run_fetch(shoal_queue_t *queue, const shoal_run_transfer_t *fetch) {
  if (!fetch->part) return NULL;
  char *to = fetch->staging ? fetch->staging : fetch->output->host;
  return shoal_queue_download(queue, fetch->address, to, fetch->bytes);
}

shoal_status_t shoal_run_fetched(const shoal_run_transfer_t *fetch) {
  if (!fetch->part || !fetch->staging) return NULL;
  return shoal_boxes_unpack(&fetch->part->boxes, shoal_dtype_size(fetch->part->type.dtype),
                            fetch->staging, true, fetch->output->host);
}

// ---- what users call ------------------------------------------------------------------

static shoal_status_t feed(shoal_runner_t *runner, const char *name, const void *data, size_t size,
                           bool is_part) {
  const shoal_run_input_t *named = NULL;
  const bool compare = !runner->options.no_compare && shoal_world_size(runner->world) > 1;
  uint64_t hash = 0;
  bool taken = false;
  for (int64_t i = 0; i < runner->program->input_count; ++i) {
    shoal_run_input_t *input = &runner->inputs[i];
    if (strcmp(input->port->name, name) != 0) continue;
    if (is_part && input->several) {
      return SHOAL_ERROR_HINT(UNSUPPORTED, "feed the whole with shoal_feed",
                              "this rank needs input '%s' in several layouts", name);
    }
    named = input;
    if ((size_t)(is_part ? input->part_bytes : input->whole_bytes) != size) continue;
    if (compare) {
      if (!taken) hash = shoal_hash_sample(data, size);
      input->hash = hash;
      input->key = is_part ? input->part_key : SHOAL_RUN_WHOLE;
    }
    taken = true;
    if (!input->host) continue;
    if (size > 0) memcpy(input->host, data, size);
    input->fed = true;
    input->is_part = is_part;
  }
  if (taken) return NULL;
  if (!named) return unknown_port(runner, true, name);
  shoal_status_t status = shoal_run_check_size(
      is_part ? "this rank's part of input" : "input", name, &named->port->type,
      is_part ? named->part_bytes : named->whole_bytes, size);
  return is_part ? shoal_status_annotatef(status, "rank %d", runner->rank) : status;
}

shoal_status_t shoal_runner_feed(shoal_runner_t *runner, const char *name, const void *data,
                                 size_t size) {
  return feed(runner, name, data, size, false);
}

shoal_status_t shoal_runner_feed_part(shoal_runner_t *runner, const char *name, const void *data,
                                      size_t size) {
  return feed(runner, name, data, size, true);
}

shoal_status_t shoal_runner_fetch(const shoal_runner_t *runner, const char *name, void *data,
                                  size_t size) {
  const shoal_run_output_t *found = NULL;
  for (int64_t i = 0; i < runner->program->output_count; ++i) {
    const shoal_run_output_t *output = &runner->outputs[i];
    if (strcmp(output->port->name, name) != 0) continue;
    if (!found || output->run > found->run) found = output;
  }
  if (!found) return unknown_port(runner, false, name);
  SHOAL_RETURN_IF_ERROR(
      shoal_run_check_size("output", name, &found->port->type, found->whole_bytes, size));
  if (found->covered < shoal_shape_count(&found->port->type.shape)) {
    return SHOAL_ERROR(UNSUPPORTED,
                       "the program does not bring the whole of output '%s' to rank %d", name,
                       runner->rank);
  }
  if (found->run == 0 && found->whole_bytes > 0) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "run the graph first",
                            "output '%s' of graph '%s' has no value yet", name, found->port->graph);
  }
  if (found->lost) {
    return SHOAL_ERROR(INVALID_ARGUMENT,
                       "output '%s' has no value: the last run of graph '%s' failed", name,
                       found->port->graph);
  }
  if (size > 0) memcpy(data, found->host, size);
  return NULL;
}
