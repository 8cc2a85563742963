// Programs: names and small questions.
#include <string.h>

#include "program/program_impl.h"

const char *shoal_opcode_name(shoal_opcode_t opcode) {
  static const char *const names[] = {
#define SHOAL_OPCODE(id, name, doc) [SHOAL_OPCODE_##id] = name,
#include "shoal/opcodes.inc"
#undef SHOAL_OPCODE
  };
  return (unsigned)opcode < SHOAL_OPCODE_COUNT ? names[opcode] : "?";
}

const char *shoal_queue_kind_name(shoal_queue_kind_t queue) {
  static const char *const names[] = {
      [SHOAL_QUEUE_COMPUTE] = "compute", [SHOAL_QUEUE_COMM] = "comm", [SHOAL_QUEUE_COPY] = "copy"};
  return (unsigned)queue < SHOAL_QUEUE_KIND_COUNT ? names[queue] : "?";
}

const shoal_program_queue_t shoal_program_default_queues[SHOAL_QUEUE_KIND_COUNT] = {
    {"compute", SHOAL_QUEUE_COMPUTE}, {"comm", SHOAL_QUEUE_COMM}, {"copy", SHOAL_QUEUE_COPY}};

bool shoal_class_has_default_queues(const shoal_class_t *class) {
  if (class->queue_count != SHOAL_QUEUE_KIND_COUNT) return false;
  for (int32_t i = 0; i < class->queue_count; ++i) {
    const shoal_program_queue_t *usual = &shoal_program_default_queues[i];
    if (class->queues[i].kind != usual->kind) return false;
    if (strcmp(class->queues[i].name, usual->name) != 0) return false;
  }
  return true;
}

int64_t shoal_class_period(const shoal_class_t *class) {
  int64_t period = 1;
  for (int32_t g = 0; g < class->slot_group_count; ++g) {
    if (!class->slot_groups[g].by_step) continue;
    int64_t a = period, b = class->slot_groups[g].slots;
    while (b != 0) {  // their greatest common divisor
      const int64_t rest = a % b;
      a = b;
      b = rest;
    }
    period = period / a * class->slot_groups[g].slots;
    if (period > SHOAL_PROGRAM_MAX_PERIOD) return SHOAL_PROGRAM_MAX_PERIOD + 1;
  }
  return period;
}

const char *shoal_buffer_kind_name(shoal_buffer_kind_t kind) {
  static const char *const names[] = {[SHOAL_BUFFER_TEMP] = "temp",
                                      [SHOAL_BUFFER_STATE] = "state",
                                      [SHOAL_BUFFER_INPUT] = "input",
                                      [SHOAL_BUFFER_OUTPUT] = "output",
                                      [SHOAL_BUFFER_NEXT] = "next"};
  return (unsigned)kind < SHOAL_BUFFER_KIND_COUNT ? names[kind] : "?";
}

void shoal_program_free(shoal_program_t *program) {
  if (program) shoal_arena_free(program->arena);  // the program lies in it
}

int64_t shoal_class_find(const shoal_class_t *class, int32_t rank) {
  int64_t low = 0, high = class->rank_count;  // the first rank >= rank lies in [low, high]
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (class->ranks[middle] < rank)
      low = middle + 1;
    else
      high = middle;
  }
  return low < class->rank_count && class->ranks[low] == rank ? low : -1;
}

const shoal_class_t *shoal_program_class_of(const shoal_program_t *program, int32_t rank) {
  for (int64_t c = 0; c < program->class_count; ++c) {
    if (shoal_class_find(&program->classes[c], rank) >= 0) return &program->classes[c];
  }
  return NULL;
}

bool shoal_program_has_micro(const shoal_layout_t *layout) {
  return shoal_layout_along(layout, SHOAL_AXIS_MICRO) != NULL;
}

const shoal_cut_t *shoal_program_micro_partial(const shoal_layout_t *layout) {
  const shoal_cut_t *cut = shoal_layout_along(layout, SHOAL_AXIS_MICRO);
  return cut && cut->kind == SHOAL_CUT_PARTIAL ? cut : NULL;
}

shoal_layout_t shoal_program_without_micro(const shoal_layout_t *layout) {
  shoal_layout_t result = {.mesh = layout->mesh, .tile = layout->tile};
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    if (layout->cuts[i].axis != SHOAL_AXIS_MICRO) result.cuts[result.cut_count++] = layout->cuts[i];
  }
  return result;
}

static bool is_plain(const shoal_cut_t *cut) {
  return cut->kind == SHOAL_CUT_DIM && cut->chunk_count == 0 && cut->items == 0 &&
         cut->before == 0 && cut->after == 0;
}

bool shoal_program_over_micro(const shoal_layout_t *layout, const shoal_shape_t *shape,
                              shoal_layout_t *out_layout) {
  const shoal_cut_t *micro = shoal_layout_along(layout, SHOAL_AXIS_MICRO);
  const int64_t count = layout->mesh->micro;
  if (!micro || !is_plain(micro) || micro->weights || count < 1 || count > INT32_MAX) return false;
  const int64_t length = shape->dims[micro->dim];
  if (length % count != 0 || (micro->unit > 1 && length / count % micro->unit != 0)) return false;
  int32_t inside = 0;
  *out_layout = shoal_program_without_micro(layout);
  for (int32_t i = 0; i < out_layout->cut_count; ++i) {
    shoal_cut_t *cut = &out_layout->cuts[i];
    if (cut->kind != SHOAL_CUT_DIM) return false;
    if (cut->dim != micro->dim) continue;
    if (!is_plain(cut) || ++inside > 1) return false;
    cut->chunk_count = count > 1 ? (int32_t)count : 0;
  }
  return true;
}

bool shoal_program_is_over_micro(const shoal_layout_t *layout, const shoal_shape_t *shape,
                                 const shoal_layout_t *over) {
  shoal_layout_t found;
  return shoal_program_over_micro(layout, shape, &found) && shoal_layout_equal(&found, over);
}

const shoal_program_port_t *shoal_program_kept_in(const shoal_program_t *program, int64_t state) {
  for (int64_t i = 0; i < program->output_count; ++i) {
    const shoal_program_port_t *port = &program->outputs[i];
    if (port->on_request && port->state == state) return port;
  }
  return NULL;
}

void shoal_opcode_arity(shoal_opcode_t opcode, int32_t *out_inputs, int32_t *out_outputs) {
  static const struct {
    int32_t inputs, outputs;
  } arity[] = {[SHOAL_OPCODE_COMPUTE] = {-1, -1},  [SHOAL_OPCODE_RESHARD] = {-1, -1},
               [SHOAL_OPCODE_EXCHANGE] = {3, 1},   [SHOAL_OPCODE_COPY] = {1, 1},
               [SHOAL_OPCODE_ACCUMULATE] = {1, 1}, [SHOAL_OPCODE_FILL] = {0, 1},
               [SHOAL_OPCODE_FEED] = {0, 1},       [SHOAL_OPCODE_FETCH] = {1, 0},
               [SHOAL_OPCODE_ASSEMBLE] = {-1, 1}};
  *out_inputs = arity[opcode].inputs;
  *out_outputs = arity[opcode].outputs;
}
