// The static check: the order of its parts, places in messages, and binding of sample ranks.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/locale.h"
#include "program/check_impl.h"

// ---- places -------------------------------------------------------------------------

typedef struct line {
  char *buffer;
  size_t capacity, length;
} line_t;

static void add(line_t *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(line_t *line, const char *format, ...) {
  if (line->length + 2 >= line->capacity) return;
  if (line->length) line->length += (size_t)snprintf(line->buffer + line->length, 3, ", ");
  if (line->length >= line->capacity) return;
  va_list args;
  va_start(args, format);
  int length =
      shoal_format_args(line->buffer + line->length, line->capacity - line->length, format, args);
  va_end(args);
  if (length > 0) line->length += (size_t)length;
}

const char *shoal_program_check_where(const place_t *place, char *buffer, size_t capacity) {
  line_t line = {buffer, capacity, 0};
  buffer[0] = 0;
  if (place->graph) add(&line, "graph '%s'", place->graph);
  if (place->class < 0) return buffer;
  const shoal_class_t *class = place_class(place);
  add(&line, "class %lld", (long long)place->class);
  if (place->segment < 0) return buffer;
  const shoal_segment_t *segment = &class->segments[place->segment];
  add(&line, "segment %lld '%s'", (long long)place->segment, segment->name);
  if (place->instruction < 0) return buffer;
  const shoal_instruction_t *in = &segment->instructions[place->instruction];
  add(&line, "instruction %lld %s '%s'", (long long)place->instruction,
      shoal_opcode_name(in->opcode), in->name);
  if (place->micro >= 0) add(&line, "micro-batch %lld", (long long)place->micro);
  return buffer;
}

shoal_status_t shoal_program_check_at(const place_t *place, shoal_status_t status) {
  if (!status || shoal_status_code(status) == SHOAL_OUT_OF_MEMORY) return status;
  char where[512];
  shoal_program_check_where(place, where, sizeof where);
  const char *hint = shoal_status_hint(status);
  shoal_status_t found = shoal_status_format(
      SHOAL_MISMATCH, shoal_status_file(status), shoal_status_line(status), hint[0] ? hint : NULL,
      "%s%s%s", where, where[0] ? ": " : "", shoal_status_message(status));
  shoal_status_free(status);
  return found;
}

// ---- small questions ----------------------------------------------------------------

bool shoal_program_check_on_mesh(const shoal_class_t *class, const shoal_mesh_t *mesh) {
  for (int64_t i = 0; i < class->rank_count; ++i) {
    if (shoal_mesh_position(mesh, class->ranks[i]) >= 0) return true;
  }
  return false;
}

static int64_t find_port(const shoal_program_port_t *ports, int64_t count, const char *graph,
                         const char *name) {
  for (int64_t i = 0; i < count; ++i) {
    if (strcmp(ports[i].graph, graph) == 0 && strcmp(ports[i].name, name) == 0) return i;
  }
  return -1;
}

int64_t shoal_program_check_port(const shoal_program_t *program, const shoal_class_t *class,
                                 const char *graph, const shoal_instruction_t *in) {
  bool feed = in->opcode == SHOAL_OPCODE_FEED;
  const shoal_program_port_t *ports = feed ? program->inputs : program->outputs;
  int64_t count = feed ? program->input_count : program->output_count;
  int64_t port = find_port(ports, count, graph, in->name);
  if (port >= 0) return port;
  return find_port(ports, count, graph, class->buffers[feed ? in->outputs[0] : in->inputs[0]].name);
}

// ---- local types --------------------------------------------------------------------

// The calls outside the loop, and of the loop the first, second and last micro-batch.
static shoal_status_t sample_calls(const shoal_class_t *class, int64_t micro, shoal_arena_t *arena,
                                   shoal_order_t **out_orders) {
  shoal_order_t *orders = SHOAL_NEW(arena, shoal_order_t, class->order_count);
  if (!orders) return SHOAL_OOM();
  for (int64_t i = 0; i < class->order_count; ++i) {
    const shoal_order_t *all = &class->orders[i];
    orders[i].graph = all->graph;
    orders[i].calls = SHOAL_NEW(arena, shoal_segment_call_t, all->call_count);
    if (!orders[i].calls) return SHOAL_OOM();
    for (int64_t k = 0; k < all->call_count; ++k) {
      int32_t m = all->calls[k].micro;
      if (m <= 1 || m == micro - 1) orders[i].calls[orders[i].call_count++] = all->calls[k];
    }
  }
  *out_orders = orders;
  return NULL;
}

// Binds up to four ranks of a class as they would be at load, so that local types, workspaces and
// copies are checked. A rank that is not looked at here meets the same checks when it is loaded.
static shoal_status_t check_types(const shoal_program_t *program, int64_t index,
                                  shoal_allocator_t allocator) {
  const shoal_class_t *class = &program->classes[index];
  int64_t samples[] = {0, 1, class->rank_count / 2, class->rank_count - 1}, last = -1;
  for (int s = 0; s < 4; ++s) {
    if (samples[s] <= last || samples[s] >= class->rank_count) continue;
    last = samples[s];
    shoal_arena_t arena;
    shoal_arena_init(allocator, &arena);
    shoal_order_t *orders = NULL;
    shoal_bound_t bound;
    shoal_status_t status = sample_calls(class, program->micro, &arena, &orders);
    if (!status) {
      status = shoal_bind_orders(program, class, class->ranks[last], class->order_count, orders,
                                 &arena, &bound);
    }
    shoal_arena_deinit(&arena);
    if (status) {
      place_t nowhere = {.program = program, .class = -1, .micro = -1};
      return shoal_program_check_at(&nowhere, status);
    }
  }
  return NULL;
}

// ---- all together -------------------------------------------------------------------

static shoal_status_t check_all(const shoal_program_t *program, shoal_allocator_t allocator,
                                shoal_arena_t *scratch) {
  SHOAL_RETURN_IF_ERROR(shoal_program_check_structure(program, scratch));
  for (int64_t c = 0; c < program->class_count; ++c) {
    SHOAL_RETURN_IF_ERROR(check_types(program, c, allocator));
    SHOAL_RETURN_IF_ERROR(shoal_program_check_memory(program, c, scratch));
  }
  return shoal_program_check_comm(program, scratch);
}

shoal_status_t shoal_program_check(const shoal_program_t *program, shoal_allocator_t allocator) {
  shoal_arena_t scratch;
  shoal_arena_init(allocator, &scratch);
  shoal_status_t status = check_all(program, allocator, &scratch);
  shoal_arena_deinit(&scratch);
  return status;
}
