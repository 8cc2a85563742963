// Reading a printed program (the form is at the head of print.c). Any bytes may come: what is wrong
// is said with line and column; indices, shapes, layouts, ops and attributes are checked as they
// are read, so what has been parsed is safe to walk. Whether it makes sense is
// shoal_program_check's question.
#include <string.h>

#include "program/parse_impl.h"

// ---- tokens -------------------------------------------------------------------------

bool shoal_parse_line_end(parse_t *p) {
  if (shoal_scan_at_end(&p->scan)) return true;
  if (!shoal_scan_expect(&p->scan, "\n")) return false;
  while (shoal_scan_accept(&p->scan, "\n")) continue;
  return true;
}

bool shoal_parse_int(parse_t *p, const char *what, int64_t low, int64_t high, int64_t *out_value) {
  int64_t value = 0;
  if (!shoal_scan_int(&p->scan, &value)) return false;
  if (value < low || value > high) {
    if (high < low)
      return shoal_scan_fail(&p->scan, "%s %lld: there is none", what, (long long)value);
    return shoal_scan_fail(&p->scan, "%s %lld is not between %lld and %lld", what, (long long)value,
                           (long long)low, (long long)high);
  }
  *out_value = value;
  return true;
}

bool shoal_parse_int32(parse_t *p, const char *what, int64_t low, int64_t high,
                       int32_t *out_value) {
  int64_t value = 0;
  if (!shoal_parse_int(p, what, low, high < INT32_MAX ? high : INT32_MAX, &value)) return false;
  *out_value = (int32_t)value;
  return true;
}

bool shoal_parse_index(parse_t *p, const char *what, int64_t expected) {
  int64_t value = 0;
  if (!shoal_scan_int(&p->scan, &value)) return false;
  return value == expected || shoal_scan_fail(&p->scan, "%s %lld must come here, found %lld", what,
                                              (long long)expected, (long long)value);
}

bool shoal_parse_layout(parse_t *p, const shoal_type_t *type, const shoal_layout_t **out_layout) {
  const char *text;
  if (!shoal_scan_string(&p->scan, p->arena, &text)) return false;
  shoal_program_t *program = p->program;
  shoal_layout_t layout;
  return shoal_scan_check(&p->scan, shoal_layout_parse(text, program->meshes, program->mesh_count,
                                                       p->arena, &layout)) &&
         shoal_scan_check(&p->scan, shoal_layout_check(&layout, &type->shape)) &&
         shoal_scan_check(&p->scan, shoal_layouts_keep(&p->layouts, &layout, out_layout));
}

// ---- tables -------------------------------------------------------------------------

// The text up to the blank. Its size is looked at before its list of ranks makes room for itself.
static bool read_mesh(parse_t *p, shoal_mesh_t *out_mesh) {
  shoal_program_t *program = p->program;
  if (shoal_scan_at_end(&p->scan)) return shoal_scan_expect(&p->scan, "a mesh");
  size_t length = strcspn(p->scan.at, " \t\r\n"), axes = strcspn(p->scan.at, "@ \t\r\n");
  char *text = shoal_arena_alloc(p->arena, length + 1, 1);
  if (!text) return shoal_scan_check(&p->scan, SHOAL_OOM());
  memcpy(text, p->scan.at, axes);
  if (!shoal_scan_check(&p->scan, shoal_mesh_parse(text, p->arena, out_mesh))) return false;
  if (shoal_mesh_size(out_mesh) > program->world) {
    return shoal_scan_fail(&p->scan, "the mesh has %lld ranks, the world %d",
                           (long long)shoal_mesh_size(out_mesh), program->world);
  }
  memcpy(text, p->scan.at, length);
  if (!shoal_scan_check(&p->scan, shoal_mesh_parse(text, p->arena, out_mesh))) return false;
  for (int64_t i = 0, size = shoal_mesh_size(out_mesh); out_mesh->ranks && i < size; ++i) {
    if (out_mesh->ranks[i] < program->world) continue;
    return shoal_scan_fail(&p->scan, "the mesh has rank %d, the world %d ranks", out_mesh->ranks[i],
                           program->world);
  }
  int64_t micro = out_mesh->micro > 1 ? out_mesh->micro : 1;
  if (micro != program->micro) {
    return shoal_scan_fail(&p->scan, "the mesh has %lld micro-batches, the program %lld",
                           (long long)micro, (long long)program->micro);
  }
  p->scan.at += length;
  return true;
}

static bool read_meshes(parse_t *p) {
  shoal_program_t *program = p->program;
  SHOAL_VEC(shoal_mesh_t) meshes = {0};
  while (shoal_scan_accept(&p->scan, "mesh")) {
    shoal_mesh_t mesh;
    if (!read_mesh(p, &mesh)) return false;
    for (int64_t i = 0; i < meshes.count; ++i) {
      if (strcmp(meshes.items[i].name, mesh.name) == 0) {
        return shoal_scan_fail(&p->scan, "two meshes have the name '%s'", mesh.name);
      }
    }
    if (!SHOAL_PUSH(p->arena, &meshes, mesh)) return shoal_scan_check(&p->scan, SHOAL_OOM());
    if (!shoal_parse_line_end(p)) return false;
  }
  program->meshes = meshes.items;
  program->mesh_count = meshes.count;
  return meshes.count > 0 || shoal_scan_expect(&p->scan, "mesh");
}

static bool read_states(parse_t *p) {
  SHOAL_VEC(shoal_program_state_t) states = {0};
  while (shoal_scan_accept(&p->scan, "state")) {
    shoal_program_state_t state = {0};
    if (!shoal_scan_name(&p->scan, p->arena, &state.name)) return false;
    if (!shoal_scan_type(&p->scan, &state.type)) return false;
    if (!shoal_parse_layout(p, &state.type, &state.layout)) return false;
    state.saved = shoal_scan_accept(&p->scan, "saved");
    if (!SHOAL_PUSH(p->arena, &states, state)) return shoal_scan_check(&p->scan, SHOAL_OOM());
    if (!shoal_parse_line_end(p)) return false;
  }
  p->program->states = states.items;
  p->program->state_count = states.count;
  return !p->scan.error;
}

// Where an output is kept that is fetched on request.
static bool read_request(parse_t *p, shoal_program_port_t *port) {
  port->on_request = shoal_scan_accept(&p->scan, "request");
  return !port->on_request ||
         shoal_parse_int32(p, "state", 0, p->program->state_count - 1, &port->state);
}

static bool read_ports(parse_t *p, const char *keyword, shoal_program_port_t **out_ports,
                       int64_t *out_count) {
  SHOAL_VEC(shoal_program_port_t) ports = {0};
  while (shoal_scan_accept(&p->scan, keyword)) {
    shoal_program_port_t port = {0};
    if (!shoal_scan_name(&p->scan, p->arena, &port.graph)) return false;
    if (!shoal_scan_name(&p->scan, p->arena, &port.name)) return false;
    if (!shoal_scan_type(&p->scan, &port.type)) return false;
    if (out_ports == &p->program->outputs && !read_request(p, &port)) return false;
    if (!SHOAL_PUSH(p->arena, &ports, port)) return shoal_scan_check(&p->scan, SHOAL_OOM());
    if (!shoal_parse_line_end(p)) return false;
  }
  *out_ports = ports.items;
  *out_count = ports.count;
  return !p->scan.error;
}

static bool read_channels(parse_t *p) {
  SHOAL_VEC(shoal_channel_t) channels = {0};
  while (shoal_scan_accept(&p->scan, "channel")) {
    shoal_channel_t channel = {0};
    if (!shoal_parse_index(p, "channel", channels.count)) return false;
    if (!shoal_scan_type(&p->scan, &channel.type)) return false;
    if (!shoal_parse_layout(p, &channel.type, &channel.src)) return false;
    if (!shoal_scan_expect(&p->scan, "->")) return false;
    if (!shoal_parse_layout(p, &channel.type, &channel.dst)) return false;
    channel.micro = shoal_scan_accept(&p->scan, "micro");
    if (shoal_scan_accept(&p->scan, "lane") &&
        !shoal_parse_int32(p, "lane", 0, SHOAL_MAX_LANES - 1, &channel.lane)) {
      return false;
    }
    if (!SHOAL_PUSH(p->arena, &channels, channel)) return shoal_scan_check(&p->scan, SHOAL_OOM());
    if (!shoal_parse_line_end(p)) return false;
  }
  p->program->channels = channels.items;
  p->program->channel_count = channels.count;
  return !p->scan.error;
}

static bool read_classes(parse_t *p) {
  SHOAL_VEC(shoal_class_t) classes = {0};
  while (shoal_scan_accept(&p->scan, "class")) {
    shoal_class_t class = {0};
    if (!shoal_parse_class(p, classes.count, &class)) return false;
    if (!SHOAL_PUSH(p->arena, &classes, class)) return shoal_scan_check(&p->scan, SHOAL_OOM());
  }
  p->program->classes = classes.items;
  p->program->class_count = classes.count;
  return classes.count > 0 || shoal_scan_expect(&p->scan, "class");
}

static bool read_program(parse_t *p) {
  shoal_program_t *program = p->program;
  while (shoal_scan_accept(&p->scan, "\n")) continue;
  if (!shoal_scan_expect(&p->scan, "shoal_program")) return false;
  int64_t version;
  if (!shoal_parse_int(p, "version", 1, 1, &version) || !shoal_parse_line_end(p)) return false;
  if (!shoal_scan_expect(&p->scan, "world")) return false;
  if (!shoal_parse_int32(p, "world", 1, SHOAL_PROGRAM_MAX_WORLD, &program->world)) return false;
  if (!shoal_parse_line_end(p) || !shoal_scan_expect(&p->scan, "micro")) return false;
  if (!shoal_parse_int(p, "micro", 1, SHOAL_PROGRAM_MAX_MICRO, &program->micro)) return false;
  return shoal_parse_line_end(p) && read_meshes(p) && read_states(p) &&
         read_ports(p, "input", &program->inputs, &program->input_count) &&
         read_ports(p, "output", &program->outputs, &program->output_count) && read_channels(p) &&
         read_classes(p) &&
         (shoal_scan_at_end(&p->scan) || shoal_scan_fail(&p->scan, "this is no line of a program"));
}

shoal_status_t shoal_program_parse(const char *name, const char *text,
                                   const shoal_registry_t *registry, shoal_allocator_t allocator,
                                   shoal_program_t **out_program) {
  *out_program = NULL;
  shoal_arena_t *arena;
  SHOAL_RETURN_IF_ERROR(shoal_arena_create(allocator, &arena));
  shoal_program_t *program = SHOAL_NEW(arena, shoal_program_t, 1);
  if (!program) {
    shoal_arena_free(arena);
    return SHOAL_OOM();
  }
  program->arena = arena;
  parse_t p = {.registry = registry, .arena = arena, .program = program};
  shoal_layouts_init(arena, &p.layouts);
  shoal_scan_init(name, text, &p.scan);
  p.scan.lines = p.scan.comments = true;
  bool good = read_program(&p);
  shoal_status_t status = shoal_scan_status(&p.scan);
  if (!good && !status) status = SHOAL_ERROR(INTERNAL, "%s: the program was not read", p.scan.name);
  if (status) {
    shoal_program_free(program);
    return status;
  }
  *out_program = program;
  return NULL;
}
