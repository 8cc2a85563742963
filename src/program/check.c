// The static check: the order of its parts, and places in messages.
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

const char *shoal_program_check_call(const shoal_class_t *class, const shoal_order_t *order,
                                     int64_t index, char *buffer, size_t capacity) {
  const shoal_segment_call_t *call = &order->calls[index];
  char micro[40] = "";
  if (call->micro >= 0) snprintf(micro, sizeof micro, ", micro-batch %d", call->micro);
  snprintf(buffer, capacity, "call %lld (segment %d '%s'%s)", (long long)index, call->segment,
           class->segments[call->segment].name, micro);
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

int64_t shoal_program_check_present(const check_t *check, int64_t class, const shoal_mesh_t *mesh) {
  return check->present[class * check->program->mesh_count + (mesh - check->program->meshes)];
}

// Classes partition the ranks, and meshes name ranks of the world: that is checked.
static shoal_status_t count_present(check_t *check) {
  const shoal_program_t *program = check->program;
  int64_t *present = SHOAL_NEW(check->scratch, int64_t, program->class_count * program->mesh_count);
  int64_t *class_of = SHOAL_NEW(check->scratch, int64_t, program->world);
  if (!present || !class_of) return SHOAL_OOM();
  for (int64_t c = 0; c < program->class_count; ++c) {
    const shoal_class_t *class = &program->classes[c];
    for (int64_t i = 0; i < class->rank_count; ++i) class_of[class->ranks[i]] = c;
  }
  for (int64_t m = 0; m < program->mesh_count; ++m) {
    for (int64_t p = 0, size = shoal_mesh_size(&program->meshes[m]); p < size; ++p) {
      ++present[class_of[shoal_mesh_rank(&program->meshes[m], p)] * program->mesh_count + m];
    }
  }
  check->present = present;
  return NULL;
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

// ---- all together -------------------------------------------------------------------

static shoal_status_t check_all(check_t *check) {
  SHOAL_RETURN_IF_ERROR(shoal_program_check_tables(check));
  SHOAL_RETURN_IF_ERROR(count_present(check));
  SHOAL_RETURN_IF_ERROR(shoal_program_check_structure(check));
  SHOAL_RETURN_IF_ERROR(shoal_program_check_operands(check));
  for (int64_t c = 0; c < check->program->class_count; ++c) {
    SHOAL_RETURN_IF_ERROR(shoal_program_check_types(check, c));
    SHOAL_RETURN_IF_ERROR(shoal_program_check_memory(check, c));
  }
  return shoal_program_check_comm(check);
}

shoal_status_t shoal_program_check(const shoal_program_t *program, shoal_allocator_t allocator) {
  shoal_arena_t scratch;
  shoal_arena_init(allocator, &scratch);
  check_t check = {.program = program, .scratch = &scratch};
  shoal_status_t status = check_all(&check);
  shoal_arena_deinit(&scratch);
  return status;
}
