// What users feed and fetch. Fed data is packed at once, into the slot that no run reads any more;
// a fetch waits for its value alone, and unpacks it into the user's memory. What is fetched on
// request is gathered from where the last run has kept it, straight into the user's memory.
//
// Graphs may share names: shoal_feed feeds every graph's input of that name and size; a fetch
// returns what the last run wrote.
#include <stdio.h>
#include <stdlib.h>
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

// ---- feeding --------------------------------------------------------------------------

// What the data is: the whole; this rank's part; the whole's shape with this rank's rows in it.
typedef enum form { WHOLE, PART, ROWS } form_t;

shoal_status_t shoal_run_feed_check(const shoal_run_order_t *order) {
  for (int64_t i = 0; i < order->inputs.count; ++i) {
    const shoal_run_input_t *input = order->inputs.items[i];
    if (input->store.parts.count == 0 || input->fed) continue;
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "call shoal_feed before shoal_run",
                            "input '%s' of graph '%s' was not fed", input->port->name,
                            order->graph);
  }
  return NULL;
}

static shoal_status_t pack(const shoal_run_input_t *input, const void *whole, char *slot) {
  for (int64_t i = 0; i < input->store.parts.count; ++i) {
    const shoal_run_part_t *part = &input->store.parts.items[i];
    if (part->bytes == input->whole_bytes) {
      memcpy(slot + part->offset, whole, (size_t)part->bytes);
      continue;
    }
    SHOAL_RETURN_IF_ERROR(shoal_boxes_pack(&part->bound->boxes,
                                           shoal_dtype_size(part->bound->type.dtype), whole,
                                           slot + part->offset));
  }
  return NULL;
}

// A run that has this data enqueued may still read it: the next goes into the other slot, which at
// most the run before that one reads.
static shoal_status_t store(shoal_run_input_t *input, const void *data, size_t size, form_t form) {
  shoal_run_store_t *to = &input->store;
  if (to->parts.count == 0) return NULL;
  const int32_t slot = input->used ? (to->slot + 1) % SHOAL_RUN_AHEAD : to->slot;
  SHOAL_RETURN_IF_ERROR(shoal_run_store_wait(to, slot));
  if (form != PART) {
    SHOAL_RETURN_IF_ERROR(pack(input, data, to->slots[slot]));
  } else if (size > 0) {
    memcpy(to->slots[slot], data, size);
  }
  to->slot = slot;
  input->used = false;
  input->fed = true;
  return NULL;
}

static shoal_status_t feed(shoal_runner_t *runner, const char *name, const void *data, size_t size,
                           form_t form) {
  const shoal_run_input_t *named = NULL;
  const bool is_part = form == PART;
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
    if ((size_t)(is_part ? input->store.bytes : input->whole_bytes) != size) continue;
    if (compare && form != ROWS) {
      if (!taken) hash = shoal_hash_sample(data, size);
      input->hash = hash;
      input->key = is_part ? input->part_key : SHOAL_RUN_WHOLE;
    }
    taken = true;
    SHOAL_RETURN_IF_ERROR(store(input, data, size, form));
    if (compare && form == ROWS) {  // rows that others need were not read here
      const shoal_run_store_t *to = &input->store;
      input->key = input->part_key;
      input->hash = shoal_hash_sample(to->slots[to->slot], (size_t)to->bytes);
    }
  }
  if (taken) return NULL;
  if (!named) return unknown_port(runner, true, name);
  shoal_status_t status = shoal_run_check_size(
      is_part ? "this rank's part of input" : "input", name, &named->port->type,
      is_part ? named->store.bytes : named->whole_bytes, size);
  return is_part ? shoal_status_annotatef(status, "rank %d", runner->rank) : status;
}

shoal_status_t shoal_runner_feed(shoal_runner_t *runner, const char *name, const void *data,
                                 size_t size) {
  return feed(runner, name, data, size, WHOLE);
}

shoal_status_t shoal_runner_feed_part(shoal_runner_t *runner, const char *name, const void *data,
                                      size_t size) {
  return feed(runner, name, data, size, PART);
}

shoal_status_t shoal_runner_feed_rows(shoal_runner_t *runner, const char *name, const void *data,
                                      size_t size) {
  return feed(runner, name, data, size, ROWS);
}

// ---- rows -----------------------------------------------------------------------------

static int by_start(const void *a, const void *b) {
  const shoal_interval_t *x = a, *y = b;
  return (x->start > y->start) - (x->start < y->start);
}

// Joins intervals that touch or overlap; returns how many are left.
static int64_t merge(shoal_interval_t *rows, int64_t count) {
  int64_t merged = 0;
  if (count > 1) qsort(rows, (size_t)count, sizeof *rows, by_start);
  for (int64_t i = 0; i < count; ++i) {
    shoal_interval_t *last = merged ? &rows[merged - 1] : NULL;
    const int64_t end = rows[i].start + rows[i].size;
    if (!last || rows[i].start > last->start + last->size) {
      rows[merged++] = rows[i];
    } else if (end > last->start + last->size) {
      last->size = end - last->start;
    }
  }
  return merged;
}

shoal_status_t shoal_runner_rows(const shoal_runner_t *runner, const char *graph, const char *name,
                                 shoal_arena_t *arena, int64_t *out_count,
                                 const shoal_interval_t **out_rows) {
  const shoal_run_input_t *input = NULL;
  for (int64_t i = 0; i < runner->program->input_count && !input; ++i) {
    const shoal_program_port_t *port = runner->inputs[i].port;
    if (strcmp(port->name, name) == 0 && strcmp(port->graph, graph) == 0) {
      input = &runner->inputs[i];
    }
  }
  if (!input) return unknown_port(runner, true, name);
  SHOAL_VEC(shoal_interval_t) rows = {0};
  for (int64_t p = 0; p < input->store.parts.count; ++p) {
    const shoal_boxes_t *boxes = &input->store.parts.items[p].bound->boxes;
    const shoal_interval_t scalar = {0, 1};
    const int64_t count = boxes->whole.rank ? boxes->dims[0].held_count : 1;
    const shoal_interval_t *held = boxes->whole.rank ? boxes->dims[0].held : &scalar;
    for (int64_t i = 0; i < count; ++i) {
      if (!SHOAL_PUSH(arena, &rows, held[i])) return SHOAL_OOM();
    }
  }
  *out_count = merge(rows.items, rows.count);
  *out_rows = rows.items;
  return NULL;
}

// ---- fetching -------------------------------------------------------------------------

static shoal_status_t unpack(const shoal_run_output_t *output, void *data) {
  const shoal_run_store_t *from = &output->store;
  for (int64_t i = 0; i < from->parts.count; ++i) {
    const shoal_run_part_t *part = &from->parts.items[i];
    const char *at = from->slots[from->slot] + part->offset;
    if (part->bytes == output->whole_bytes) {
      memcpy(data, at, (size_t)part->bytes);
      continue;
    }
    SHOAL_RETURN_IF_ERROR(shoal_boxes_unpack(
        &part->bound->boxes, shoal_dtype_size(part->bound->type.dtype), at, true, data));
  }
  return NULL;
}

static shoal_status_t check_fetch(const shoal_runner_t *runner, const shoal_run_output_t *output,
                                  size_t size) {
  const shoal_program_port_t *port = output->port;
  SHOAL_RETURN_IF_ERROR(
      shoal_run_check_size("output", port->name, &port->type, output->whole_bytes, size));
  if (!port->on_request && output->covered < shoal_shape_count(&port->type.shape)) {
    return SHOAL_ERROR(UNSUPPORTED,
                       "the program does not bring the whole of output '%s' to rank %d", port->name,
                       runner->rank);
  }
  if (output->run == 0 && output->whole_bytes > 0) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "run the graph first",
                            "output '%s' of graph '%s' has no value yet", port->name, port->graph);
  }
  return NULL;
}

static shoal_status_t find_output(const shoal_runner_t *runner, const char *name,
                                  const shoal_run_output_t **out_output) {
  *out_output = NULL;
  for (int64_t i = 0; i < runner->program->output_count; ++i) {
    const shoal_run_output_t *output = &runner->outputs[i];
    if (strcmp(output->port->name, name) != 0) continue;
    if (!*out_output || output->run > (*out_output)->run) *out_output = output;
  }
  return *out_output ? NULL : unknown_port(runner, false, name);
}

static shoal_status_t fetch_on_request(shoal_runner_t *runner, const shoal_run_output_t *output,
                                       void *data, size_t size) {
  const shoal_run_meeting_t meeting = {.call = "shoal_fetch", .name = output->port->name};
  SHOAL_RETURN_IF_ERROR(shoal_run_meet(runner, &meeting, check_fetch(runner, output, size)));
  return shoal_runner_gather(runner, output->port->state, -1, data);
}

shoal_status_t shoal_runner_fetch(shoal_runner_t *runner, const char *name, void *data,
                                  size_t size) {
  const shoal_run_output_t *output = NULL;
  SHOAL_RETURN_IF_ERROR(find_output(runner, name, &output));
  if (output->port->on_request) return fetch_on_request(runner, output, data, size);
  SHOAL_RETURN_IF_ERROR(check_fetch(runner, output, size));
  SHOAL_RETURN_IF_ERROR(shoal_run_store_wait(&output->store, output->store.slot));
  // Asked behind the wait: a queue that failed fires its events, too.
  SHOAL_RETURN_IF_ERROR(shoal_run_broken(runner));
  return unpack(output, data);
}
