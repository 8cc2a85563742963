// What the device's arena of a class is used for, read off the program alone: so it holds of any
// program, however its memory was planned.
#include "program/lives.h"
#include "program/program_impl.h"

typedef struct usage {
  const shoal_class_t *class;
  shoal_arena_t *scratch;
  shoal_lives_t lives;
  int64_t *change;  // by time: how many bytes more are alive than before
  int64_t end;      // of what the order uses
} usage_t;

static bool is_temporary(const shoal_buffer_t *buffer) {
  return buffer->kind == SHOAL_BUFFER_TEMP || buffer->kind == SHOAL_BUFFER_OUTPUT;
}

static void note(usage_t *u, int64_t first, int64_t last, int64_t bytes) {
  if (first > last) return;
  u->change[first] += bytes;
  u->change[last + 1] -= bytes;
}

static void reach(usage_t *u, int64_t end) {
  if (end > u->end) u->end = end;
}

// Workspaces, and outputs that lie over an input: while the instruction runs, both are one.
static void note_segment(usage_t *u, int64_t s) {
  const shoal_segment_t *segment = &u->class->segments[s];
  for (int64_t i = 0; i < segment->instruction_count; ++i) {
    const shoal_instruction_t *in = &segment->instructions[i];
    const int64_t time = u->lives.starts[s] + i;
    if (in->workspace > 0) reach(u, in->workspace_offset + in->workspace);
    note(u, time, time, in->workspace);
    for (int32_t o = 0; o < in->output_count; ++o) {
      if (in->outputs[o] < 0) continue;
      const shoal_buffer_t *buffer = &u->class->buffers[in->outputs[o]];
      const int32_t over = shoal_program_overwritten(u->class, in, o);
      if (over < 0 || in->inputs[over] == in->outputs[o] || !is_temporary(buffer)) continue;
      if (is_temporary(&u->class->buffers[in->inputs[over]])) note(u, time, time, -buffer->bytes);
    }
  }
}

static shoal_status_t use_of(usage_t *u, const shoal_order_t *order, shoal_memory_use_t *use) {
  const shoal_class_t *class = u->class;
  SHOAL_RETURN_IF_ERROR(shoal_lives_find(class, order, u->scratch, &u->lives));
  u->change = SHOAL_NEW(u->scratch, int64_t, u->lives.length + 1);
  if (!u->change) return SHOAL_OOM();
  u->end = 0;
  use->graph = order->graph;
  for (int64_t i = 0; i < class->buffer_count; ++i) {
    const shoal_buffer_t *buffer = &class->buffers[i];
    const shoal_life_t *life = &u->lives.buffers[i];
    const int64_t bytes = buffer->bytes * shoal_buffer_slots(class, buffer);
    if (buffer->memory != SHOAL_MEMORY_DEVICE) continue;
    if (buffer->kind == SHOAL_BUFFER_STATE) use->states += bytes;
    if (life->first > life->last || bytes == 0) continue;
    reach(u, buffer->offset + bytes);
    if (buffer->kind == SHOAL_BUFFER_INPUT) use->inputs += bytes;
    if (is_temporary(buffer)) note(u, life->first, life->last, bytes);
  }
  for (int64_t s = 0; s < class->segment_count; ++s)
    if (u->lives.starts[s] >= 0) note_segment(u, s);
  for (int64_t time = 0, alive = 0; time < u->lives.length; ++time) {
    alive += u->change[time];
    if (alive > use->bound) use->bound = alive;
  }
  const int64_t rest = u->end - use->states - use->inputs;
  use->temporaries = rest > 0 ? rest : 0;
  return NULL;
}

static shoal_status_t use_of_class(const shoal_class_t *class, shoal_arena_t *scratch,
                                   shoal_memory_use_t *out_use) {
  usage_t u = {.class = class, .scratch = scratch};
  int64_t most = -1;
  for (int64_t g = 0; g < class->order_count; ++g) {
    shoal_memory_use_t use = {0};
    SHOAL_RETURN_IF_ERROR(use_of(&u, &class->orders[g], &use));
    if (u.end <= most) continue;
    most = u.end;
    *out_use = use;
  }
  for (int kind = 0; kind < SHOAL_MEMORY_COUNT; ++kind)
    out_use->arenas[kind] = class->arena_bytes[kind];
  return NULL;
}

shoal_status_t shoal_program_memory(const shoal_program_t *program, int64_t index,
                                    shoal_allocator_t allocator, shoal_memory_use_t *out_use) {
  *out_use = (shoal_memory_use_t){0};
  if (index < 0 || index >= program->class_count)
    return SHOAL_ERROR(INVALID_ARGUMENT, "the program has no class %lld", (long long)index);
  shoal_arena_t scratch;
  shoal_arena_init(allocator, &scratch);
  shoal_status_t status = use_of_class(&program->classes[index], &scratch, out_use);
  shoal_arena_deinit(&scratch);
  return status;
}
