// Memory plan of one class: where every buffer and workspace lies in the rank's arenas. There is
// one for each kind of memory, planned alike; workspaces lie on the device.
//
// States come first and stay. Behind them every graph lays out what it uses on its own, from the
// same place: graphs do not run at once. First come its inputs, which live through the whole step:
// the next ones may be fed while it still runs. Then come temporaries, packed by their lives
// (program/lives.h). Queues may run ahead of that order: waits.c and call_waits.c order them by
// address.
//
// What direct I/O copies from or to the file begins at a block of it, there and in memory.
//
// An output whose op may overwrite an input lies over it, if that input is not used any more: the
// two are one block. Next values of states lie where the states lie (alias.c).
#include "base/dtype.h"
#include "base/memo.h"
#include "base/scratch.h"
#include "base/status.h"
#include "lower/pack.h"
#include "lower/time.h"
#include "program/bind.h"
#include "program/key.h"
#include "program/lives.h"
#include "program/sample.h"

// The workspace of all instructions of a queue that run beside others: one after the other, so they
// need one between them.
typedef struct shared {
  int64_t bytes, first, last, offset;
} shared_t;

typedef struct planning {
  shoal_class_t *c;
  shoal_arena_t scratch;
  shoal_key_t key;
  shoal_memo_t alike;  // by two types and layouts: are their parts equally large on all ranks?
  shoal_lives_t lives;
  int32_t *over;   // by buffer: the one it lies over, in the end; itself where it lies over none
  bool *taken;     // by buffer: another lies over it
  int64_t *lasts;  // by buffer that lies over none: when the last one that lies over it dies
  bool *direct;    // by buffer: direct I/O moves it from or to the file
  bool *begins;    // by buffer that lies over none: it begins at a block of direct I/O
  shared_t shared[SHOAL_MAX_QUEUES];
} planning_t;

// ---- overwriting -----------------------------------------------------------------------

static shoal_status_t compare_parts(const planning_t *p, const shoal_buffer_t *a,
                                    const shoal_buffer_t *b, shoal_arena_t *scratch,
                                    int64_t *out_alike) {
  shoal_cells_of_t values[] = {{.layout = a->layout, .shape = &a->type.shape},
                               {.layout = b->layout, .shape = &b->type.shape}};
  const shoal_mesh_t *mesh = a->layout->mesh;
  const bool micro = shoal_layout_along(a->layout, SHOAL_AXIS_MICRO) ||
                     shoal_layout_along(b->layout, SHOAL_AXIS_MICRO);
  shoal_samples_t samples;
  SHOAL_RETURN_IF_ERROR(
      shoal_sample_values(p->c, 2, values, micro ? mesh->micro : 0, scratch, &samples));
  *out_alike = 1;
  for (int64_t i = 0; i < samples.count; ++i) {
    int64_t counts[2];
    for (int k = 0; k < 2; ++k) {
      const shoal_layout_t *layout = values[k].layout;
      const bool cut = shoal_layout_along(layout, SHOAL_AXIS_MICRO) != NULL;
      shoal_boxes_t boxes;
      SHOAL_RETURN_IF_ERROR(shoal_layout_boxes(layout, values[k].shape,
                                               shoal_mesh_position(mesh, samples.items[i].rank),
                                               cut ? samples.items[i].micro : -1, scratch, &boxes));
      const shoal_shape_t shape = shoal_boxes_shape(&boxes);
      counts[k] = shoal_shape_count(&shape);
    }
    if (counts[0] != counts[1]) *out_alike = 0;
  }
  return NULL;
}

// Do all ranks have equally large parts of both?
static shoal_status_t are_alike(planning_t *p, const shoal_buffer_t *a, const shoal_buffer_t *b,
                                bool *out_alike) {
  int64_t alike = shoal_dtype_size(a->type.dtype) == shoal_dtype_size(b->type.dtype);
  const bool same = a->layout == b->layout && shoal_shape_equal(&a->type.shape, &b->type.shape);
  if (alike && !same) {
    shoal_key_clear(&p->key);
    shoal_key_add_pointer(&p->key, a->layout);
    shoal_key_add_type(&p->key, &a->type);
    shoal_key_add_pointer(&p->key, b->layout);
    shoal_key_add_type(&p->key, &b->type);
    if (!shoal_memo_find(&p->alike, &p->key, &alike)) {
      shoal_arena_t scratch;
      shoal_arena_init(p->scratch.allocator, &scratch);
      shoal_status_t status = compare_parts(p, a, b, &scratch, &alike);
      shoal_arena_deinit(&scratch);
      if (!status && !shoal_memo_add(&p->alike, &p->key, alike)) status = SHOAL_OOM();
      if (status) return status;
    }
  }
  *out_alike = alike;
  return NULL;
}

// A temporary of one slot whose size is known: only such are overwritten, and overwrite.
static bool is_plain(const shoal_buffer_t *buffer) {
  return buffer->kind == SHOAL_BUFFER_TEMP && buffer->memory == SHOAL_MEMORY_DEVICE &&
         buffer->group < 0 && buffer->count < 0;
}

// Is it the only operand of the instruction that lies in this buffer, and its last use?
static bool dies_as(const planning_t *p, const shoal_instruction_t *in, int32_t input,
                    int64_t time) {
  const int32_t buffer = in->inputs[input];
  const shoal_life_t *life = &p->lives.buffers[buffer];
  if (life->last != time || life->goes_on || p->taken[buffer] || in->predicate == buffer)
    return false;
  for (int32_t i = 0; i < in->input_count; ++i)
    if (i != input && in->inputs[i] == buffer) return false;
  return true;
}

static shoal_status_t overwrite(planning_t *p, const shoal_instruction_t *in, int32_t output,
                                int64_t time) {
  const int32_t to = in->outputs[output];
  const shoal_buffer_t *buffers = p->c->buffers;
  if (!is_plain(&buffers[to]) || buffers[to].bytes == 0) return NULL;
  if (p->lives.buffers[to].first != time || p->over[to] != to) return NULL;
  for (int32_t i = 0; i < in->op->overwrite_count; ++i) {
    const shoal_overwrite_t *pair = &in->op->overwrites[i];
    const int32_t input = shoal_op_given(in->op, in->attrs, pair->input);
    if (pair->output != output || input < 0) continue;
    const int32_t from = in->inputs[input];
    if (!is_plain(&buffers[from]) || buffers[from].bytes != buffers[to].bytes) continue;
    if (!dies_as(p, in, input, time)) continue;
    bool alike;
    SHOAL_RETURN_IF_ERROR(are_alike(p, &buffers[from], &buffers[to], &alike));
    if (!alike) continue;
    p->taken[from] = true;
    p->over[to] = p->over[from];
    p->lasts[p->over[to]] = p->lives.buffers[to].last;
    return NULL;
  }
  return NULL;
}

// ---- direct I/O ------------------------------------------------------------------------

static int64_t at_block(int64_t place) {
  return (place + SHOAL_SCRATCH_BLOCK - 1) / SHOAL_SCRATCH_BLOCK * SHOAL_SCRATCH_BLOCK;
}

// Long parts that are copied from or to the file begin at blocks, there and in memory: direct I/O
// then needs no copy of them (run/offload.c).
static void find_direct(const planning_t *p) {
  const shoal_class_t *c = p->c;
  for (int64_t s = 0; s < c->segment_count; ++s)
    for (int64_t i = 0; i < c->segments[s].instruction_count; ++i) {
      const shoal_instruction_t *in = &c->segments[s].instructions[i];
      if (in->opcode != SHOAL_OPCODE_COPY || in->input_count != 1 || in->output_count != 1 ||
          in->inputs[0] < 0 || in->outputs[0] < 0)
        continue;
      const shoal_buffer_t *from = &c->buffers[in->inputs[0]], *to = &c->buffers[in->outputs[0]];
      if (from->memory != SHOAL_MEMORY_FILE && to->memory != SHOAL_MEMORY_FILE) continue;
      if (to->bytes < SHOAL_SCRATCH_LEAST) continue;
      p->direct[in->inputs[0]] = p->direct[in->outputs[0]] = true;
    }
}

// ---- graphs ----------------------------------------------------------------------------

typedef SHOAL_VEC(shoal_block_t) blocks_t;

// Finds what lies over what.
static shoal_status_t find_over(planning_t *p) {
  const shoal_class_t *c = p->c;
  for (int64_t i = 0; i < c->buffer_count; ++i) {
    p->over[i] = (int32_t)i;
    p->taken[i] = p->begins[i] = false;
    p->lasts[i] = p->lives.buffers[i].last;
  }
  for (int64_t s = 0; s < c->segment_count; ++s) {
    int64_t time = p->lives.starts[s];
    for (int64_t i = 0; i < c->segments[s].instruction_count && time >= 0; ++i, ++time) {
      const shoal_instruction_t *in = &c->segments[s].instructions[i];
      for (int32_t o = 0; o < in->output_count && in->opcode == SHOAL_OPCODE_COMPUTE; ++o)
        SHOAL_RETURN_IF_ERROR(overwrite(p, in, o, time));
    }
  }
  for (int64_t i = 0; i < c->buffer_count; ++i)
    if (p->direct[i]) p->begins[p->over[i]] = true;
  return NULL;
}

static bool runs_beside(const planning_t *p, int64_t time) {
  return p->lives.ends[time] > time;
}

static void widen_shared(planning_t *p, const shoal_instruction_t *in, int64_t time) {
  shared_t *shared = &p->shared[in->queue];
  const int64_t end = p->lives.ends[time];
  if (shared->bytes == 0) *shared = (shared_t){.first = time, .last = end};
  if (in->workspace > shared->bytes) shared->bytes = in->workspace;
  if (time < shared->first) shared->first = time;
  if (end > shared->last) shared->last = end;
}

static shoal_status_t list_workspaces(planning_t *p, blocks_t *blocks) {
  const shoal_class_t *c = p->c;
  for (int32_t q = 0; q < SHOAL_MAX_QUEUES; ++q) p->shared[q] = (shared_t){0};
  for (int64_t s = 0; s < c->segment_count; ++s) {
    int64_t time = p->lives.starts[s];
    for (int64_t i = 0; i < c->segments[s].instruction_count && time >= 0; ++i, ++time) {
      shoal_instruction_t *in = &c->segments[s].instructions[i];
      const shoal_block_t block = {in->workspace, time, time, &in->workspace_offset, 0};
      if (in->workspace == 0) continue;
      if (runs_beside(p, time))
        widen_shared(p, in, time);
      else if (!SHOAL_PUSH(&p->scratch, blocks, block))
        return SHOAL_OOM();
    }
  }
  for (int32_t q = 0; q < c->queue_count; ++q) {
    shared_t *shared = &p->shared[q];
    const shoal_block_t block = {shared->bytes, shared->first, shared->last, &shared->offset, 0};
    if (shared->bytes > 0 && !SHOAL_PUSH(&p->scratch, blocks, block)) return SHOAL_OOM();
  }
  return NULL;
}

static void place_shared(const planning_t *p) {
  const shoal_class_t *c = p->c;
  for (int64_t s = 0; s < c->segment_count; ++s) {
    int64_t time = p->lives.starts[s];
    for (int64_t i = 0; i < c->segments[s].instruction_count && time >= 0; ++i, ++time) {
      shoal_instruction_t *in = &c->segments[s].instructions[i];
      if (in->workspace > 0 && runs_beside(p, time))
        in->workspace_offset = p->shared[in->queue].offset;
    }
  }
}

static shoal_status_t list_buffers(planning_t *p, shoal_memory_kind_t memory, blocks_t *blocks) {
  const shoal_class_t *c = p->c;
  for (int64_t i = 0; i < c->buffer_count; ++i) {
    shoal_buffer_t *buffer = &c->buffers[i];
    const shoal_life_t *life = &p->lives.buffers[i];
    if (life->first > life->last || buffer->bytes == 0 || p->over[i] != i) continue;
    if (buffer->memory != memory) continue;
    if (buffer->kind != SHOAL_BUFFER_TEMP && buffer->kind != SHOAL_BUFFER_OUTPUT) continue;
    shoal_block_t block = {
        buffer->bytes * shoal_buffer_slots(c, buffer), life->first, p->lasts[i], &buffer->offset, 0,
        p->begins[i] ? SHOAL_SCRATCH_BLOCK : 0};
    if (!SHOAL_PUSH(&p->scratch, blocks, block)) return SHOAL_OOM();
  }
  return NULL;
}

// What the graph uses of one kind of memory, from `base` on.
static shoal_status_t place_kind(planning_t *p, shoal_memory_kind_t memory, int64_t base) {
  shoal_class_t *c = p->c;
  blocks_t blocks = {0};
  int64_t temporaries = 0;
  for (int64_t i = 0; i < c->buffer_count; ++i) {
    shoal_buffer_t *buffer = &c->buffers[i];
    if (buffer->kind != SHOAL_BUFFER_INPUT || buffer->memory != memory ||
        p->lives.buffers[i].last < 0)
      continue;
    if (p->direct[i]) base = at_block(base);
    buffer->offset = base;
    base += buffer->bytes * shoal_buffer_slots(c, buffer);
  }
  if (memory == SHOAL_MEMORY_DEVICE) SHOAL_RETURN_IF_ERROR(list_workspaces(p, &blocks));
  SHOAL_RETURN_IF_ERROR(list_buffers(p, memory, &blocks));
  for (int64_t i = 0; i < blocks.count; ++i)
    if (blocks.items[i].align > 0) base = at_block(base);
  SHOAL_RETURN_IF_ERROR(shoal_lower_pack(blocks.items, blocks.count, &p->scratch, &temporaries));
  for (int64_t i = 0; i < blocks.count; ++i) *blocks.items[i].offset += base;
  if (memory == SHOAL_MEMORY_DEVICE) place_shared(p);
  if (base + temporaries > c->arena_bytes[memory]) c->arena_bytes[memory] = base + temporaries;
  return NULL;
}

// Behind what is there already, by kind of memory.
static shoal_status_t place_graph(planning_t *p, const shoal_order_t *order,
                                  const int64_t bases[SHOAL_MEMORY_COUNT]) {
  const shoal_class_t *c = p->c;
  SHOAL_RETURN_IF_ERROR(shoal_lives_find(c, order, &p->scratch, &p->lives));
  SHOAL_RETURN_IF_ERROR(find_over(p));
  for (int kind = 0; kind < SHOAL_MEMORY_COUNT; ++kind)
    SHOAL_RETURN_IF_ERROR(place_kind(p, (shoal_memory_kind_t)kind, bases[kind]));
  for (int64_t i = 0; i < c->buffer_count; ++i)
    if (p->over[i] != i) c->buffers[i].offset = c->buffers[p->over[i]].offset;
  return NULL;
}

static shoal_status_t place_all(planning_t *p) {
  shoal_class_t *c = p->c;
  int64_t states = 0, bases[SHOAL_MEMORY_COUNT] = {0};
  for (int64_t i = 0; i < c->buffer_count; ++i)
    if (c->buffers[i].state >= states) states = c->buffers[i].state + 1;
  int64_t *homes = SHOAL_NEW(&p->scratch, int64_t, states);
  p->over = SHOAL_NEW(&p->scratch, int32_t, c->buffer_count);
  p->taken = SHOAL_NEW(&p->scratch, bool, c->buffer_count);
  p->lasts = SHOAL_NEW(&p->scratch, int64_t, c->buffer_count);
  p->direct = SHOAL_NEW(&p->scratch, bool, c->buffer_count);
  p->begins = SHOAL_NEW(&p->scratch, bool, c->buffer_count);
  if (!homes || !p->over || !p->taken || !p->lasts || !p->direct || !p->begins) return SHOAL_OOM();
  find_direct(p);
  for (int64_t i = 0; i < c->buffer_count; ++i) {
    shoal_buffer_t *buffer = &c->buffers[i];
    if (buffer->kind != SHOAL_BUFFER_STATE) continue;
    if (p->direct[i]) bases[buffer->memory] = at_block(bases[buffer->memory]);
    buffer->offset = homes[buffer->state] = bases[buffer->memory];
    bases[buffer->memory] += buffer->bytes;
  }
  for (int64_t i = 0; i < c->buffer_count; ++i)
    if (c->buffers[i].kind == SHOAL_BUFFER_NEXT) c->buffers[i].offset = homes[c->buffers[i].state];
  for (int kind = 0; kind < SHOAL_MEMORY_COUNT; ++kind) c->arena_bytes[kind] = bases[kind];
  for (int64_t g = 0; g < c->order_count; ++g)
    SHOAL_RETURN_IF_ERROR(place_graph(p, &c->orders[g], bases));
  return NULL;
}

shoal_status_t shoal_lower_memory(shoal_class_t *c, shoal_allocator_t allocator) {
  planning_t p = {.c = c};
  shoal_arena_init(allocator, &p.scratch);
  shoal_key_init(&p.scratch, &p.key);
  shoal_memo_init(&p.scratch, &p.alike);
  shoal_status_t status = place_all(&p);
  shoal_arena_deinit(&p.scratch);
  return status;
}
