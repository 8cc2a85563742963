// Deals the global instructions out to classes: ranks that are on the same meshes run the same
// program. Each class gets its own numbering of buffers, its segments (one per phase and depth it
// has work in) and, per graph, the order in which they are called. Buffers and workspaces are as
// large as the largest of the class's own ranks needs.
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "lower/build.h"
#include "plan/cut.h"
#include "program/bind.h"

#define ALIGNMENT 64

// Bit m: the rank is on mesh m.
static uint64_t membership(const build_t *b, int32_t rank) {
  uint64_t mask = 0;
  for (int64_t m = 0; m < b->program->mesh_count; ++m)
    if (shoal_mesh_position(&b->meshes[m], rank) >= 0) mask |= UINT64_C(1) << m;
  return mask;
}

static bool on_mesh(const build_t *b, uint64_t mask, int32_t buffer) {
  return mask >> (b->buffers.items[buffer]->layout.mesh - b->meshes) & 1;
}

// What a class does with an instruction. Between meshes that share no rank, a value is sent where
// it is made and received where it is used; in any other reshard all run it together, where it is
// used.
typedef enum role { ROLE_NONE, ROLE_RECEIVER, ROLE_WORKER, ROLE_SENDER } role_t;

static bool share_ranks(const build_t *b, int32_t first, int32_t second) {
  const shoal_mesh_t *mesh = b->buffers.items[first]->layout.mesh;
  const shoal_mesh_t *other = b->buffers.items[second]->layout.mesh;
  return shoal_mesh_overlap(mesh, other);
}

static role_t role_of(const build_t *b, uint64_t mask, const global_instruction_t *in,
                      int32_t *out_depth) {
  *out_depth = in->depth;
  int32_t first = in->code.output_count > 0 ? in->code.outputs[0] : in->code.inputs[0];
  bool works = on_mesh(b, mask, first);
  if (in->code.opcode != SHOAL_OPCODE_RESHARD) return works ? ROLE_WORKER : ROLE_NONE;
  bool sends = on_mesh(b, mask, in->code.inputs[0]);
  if (!sends && !works) return ROLE_NONE;
  if (share_ranks(b, in->code.inputs[0], in->code.outputs[0])) return ROLE_WORKER;
  if (sends) *out_depth = in->send_depth;
  return sends ? ROLE_SENDER : ROLE_RECEIVER;
}

typedef struct class_emitter {
  build_t *b;
  shoal_class_t *c;
  uint64_t mask;
  int32_t *local;        // class buffer of each global buffer; -1: none
  phase_t *first_phase;  // where a class buffer was first seen: to tell which need slots
  int32_t *first_depth;
  SHOAL_VEC(shoal_buffer_t) buffers;
  SHOAL_VEC(int32_t) global;  // global buffer of each class buffer
  SHOAL_VEC(shoal_segment_t) segments;
} class_emitter_t;

static int64_t aligned(int64_t bytes) {
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

// Bytes of a part at its largest in this class: what ranks of another one hold costs nothing here.
static shoal_status_t measure(const class_emitter_t *e, const global_buffer_t *buffer,
                              int64_t *out_bytes) {
  shoal_status_t status =
      shoal_layout_largest(&buffer->layout, &buffer->type, e->c, e->b->plan->allocator, out_bytes);
  if (status) return shoal_status_annotatef(status, "while sizing '%s'", buffer->name);
  *out_bytes = aligned(*out_bytes);
  return NULL;
}

// The class's number of a global buffer; -1 if the class is not on its mesh.
static shoal_status_t local_buffer(class_emitter_t *e, int32_t global, phase_t phase, int32_t depth,
                                   int32_t *out_local) {
  const global_buffer_t *buffer = e->b->buffers.items[global];
  if (buffer->kind == SHOAL_BUFFER_STATE) global = e->b->state_buffers[buffer->state];
  buffer = e->b->buffers.items[global];
  *out_local = -1;
  if (!(e->mask >> (buffer->layout.mesh - e->b->meshes) & 1)) return NULL;
  if (e->local[global] < 0) {
    e->local[global] = (int32_t)e->buffers.count;
    e->first_phase[global] = phase;
    e->first_depth[global] = depth;
    shoal_buffer_t record = {.name = buffer->name,
                             .kind = buffer->kind,
                             .state = buffer->state,
                             .type = buffer->type,
                             .layout = buffer->layout,
                             .slots = 1,
                             .count = -1};
    SHOAL_RETURN_IF_ERROR(measure(e, buffer, &record.bytes));
    if (!SHOAL_PUSH(e->b->arena, &e->buffers, record) ||
        !SHOAL_PUSH(e->b->arena, &e->global, global))
      return SHOAL_OOM();
  }
  *out_local = e->local[global];
  // Made for micro-batch m in one loop segment, used for m in another: all micro-batches are alive
  // at once.
  if (phase == PHASE_LOOP && e->first_phase[global] == PHASE_LOOP &&
      e->first_depth[global] != depth)
    e->buffers.items[*out_local].slots = (int32_t)e->b->program->micro;
  return NULL;
}

// Scratch the kernel wants on one rank in one micro-batch.
static shoal_status_t workspace_at(const build_t *b, const shoal_instruction_t *code,
                                   int64_t position, int64_t micro, shoal_arena_t *scratch,
                                   int64_t *out_bytes) {
  int32_t count = code->input_count + code->output_count;
  shoal_type_t *types = SHOAL_NEW(scratch, shoal_type_t, count);
  shoal_boxes_t *boxes = SHOAL_NEW(scratch, shoal_boxes_t, count);
  shoal_attr_value_t *attrs = SHOAL_NEW(scratch, shoal_attr_value_t, code->op->attr_count);
  if (!types || !boxes || !attrs) return SHOAL_OOM();
  for (int32_t k = 0; k < count; ++k) {
    int32_t id = k < code->input_count ? code->inputs[k] : code->outputs[k - code->input_count];
    const global_buffer_t *buffer = b->buffers.items[id];
    bool cut = shoal_layout_along(&buffer->layout, SHOAL_AXIS_MICRO) != NULL;
    SHOAL_RETURN_IF_ERROR(shoal_layout_boxes(&buffer->layout, &buffer->type.shape, position,
                                             cut ? micro : -1, scratch, &boxes[k]));
    types[k] = (shoal_type_t){buffer->type.dtype, shoal_boxes_shape(&boxes[k])};
  }
  SHOAL_RETURN_IF_ERROR(shoal_op_bind(code->op, code->input_count, code->attrs, boxes,
                                      boxes + code->input_count, scratch, attrs));
  shoal_call_t call = {code->op, code->input_count,         code->output_count,
                       types,    types + code->input_count, attrs};
  *out_bytes = code->op->workspace(&call);
  return NULL;
}

// All micro-batches, or only the first two and the last? As in shoal_layout_largest.
static bool few_micros_tell(const build_t *b, const shoal_instruction_t *code) {
  bool few = b->program->micro > 8;
  for (int32_t k = 0; k < code->input_count + code->output_count && few; ++k) {
    int32_t id = k < code->input_count ? code->inputs[k] : code->outputs[k - code->input_count];
    few = !shoal_layout_uneven(&b->buffers.items[id]->layout, SHOAL_AXIS_MICRO);
  }
  return few;
}

// On the class's worst rank.
static shoal_status_t compute_workspace(const class_emitter_t *e, const global_instruction_t *in,
                                        int64_t *out_bytes) {
  *out_bytes = 0;
  if (!in->code.op->workspace) return NULL;
  const build_t *b = e->b;
  shoal_arena_t scratch;
  shoal_arena_init(b->plan->allocator, &scratch);
  shoal_status_t status = NULL;
  const shoal_mesh_t *mesh = b->buffers.items[in->code.outputs[0]]->layout.mesh;
  bool few = few_micros_tell(b, &in->code);
  int64_t all = b->program->micro, looked_at = in->phase != PHASE_LOOP ? 1 : few ? 3 : all;
  for (int64_t m = 0; m < looked_at && !status; ++m)
    for (int64_t i = 0; i < e->c->rank_count && !status; ++i) {
      int64_t bytes = 0, position = shoal_mesh_position(mesh, e->c->ranks[i]);
      status = workspace_at(b, &in->code, position, m == 2 && few ? all - 1 : m, &scratch, &bytes);
      if (bytes > *out_bytes) *out_bytes = bytes;
    }
  shoal_arena_deinit(&scratch);
  return status;
}

static shoal_status_t workspace_of(const class_emitter_t *e, const global_instruction_t *in,
                                   int64_t *out_bytes) {
  const build_t *b = e->b;
  shoal_status_t status = NULL;
  *out_bytes = 0;
  if (in->code.opcode == SHOAL_OPCODE_COMPUTE) {
    status = compute_workspace(e, in, out_bytes);
  } else if (in->code.opcode == SHOAL_OPCODE_RESHARD) {
    shoal_arena_t scratch;
    shoal_arena_init(b->plan->allocator, &scratch);
    status = shoal_channel_workspace(&b->channels.items[in->code.channel], b->program->micro, e->c,
                                     &scratch, out_bytes);
    shoal_arena_deinit(&scratch);
  }
  *out_bytes = aligned(*out_bytes);
  if (status) return shoal_status_annotatef(status, "workspace of '%s'", in->code.name);
  return NULL;
}

static shoal_status_t emit_instruction(class_emitter_t *e, const global_instruction_t *in,
                                       int32_t depth, shoal_instruction_t *out) {
  *out = in->code;
  int32_t *inputs = SHOAL_NEW(e->b->arena, int32_t, in->code.input_count);
  int32_t *outputs = SHOAL_NEW(e->b->arena, int32_t, in->code.output_count);
  if (!inputs || !outputs) return SHOAL_OOM();
  for (int32_t i = 0; i < in->code.input_count; ++i)
    SHOAL_RETURN_IF_ERROR(local_buffer(e, in->code.inputs[i], in->phase, depth, &inputs[i]));
  for (int32_t o = 0; o < in->code.output_count; ++o)
    SHOAL_RETURN_IF_ERROR(local_buffer(e, in->code.outputs[o], in->phase, depth, &outputs[o]));
  out->inputs = inputs;
  out->outputs = outputs;
  return workspace_of(e, in, &out->workspace);
}

static const char *const phase_names[PHASE_COUNT] = {"before", "loop", "after", "commit"};

// The segments and the order of one graph.
static shoal_status_t emit_graph(class_emitter_t *e, const graph_build_t *graph,
                                 shoal_order_t *order) {
  build_t *b = e->b;
  SHOAL_VEC(shoal_segment_call_t) calls = {0};
  for (int phase = 0; phase < PHASE_COUNT; ++phase) {
    int32_t deepest = -1, depth = 0;
    for (int64_t i = 0; i < graph->instructions.count; ++i) {
      const global_instruction_t *in = graph->instructions.items[i];
      if (in->phase == (phase_t)phase && role_of(b, e->mask, in, &depth) && depth > deepest)
        deepest = depth;
    }
    for (int32_t d = 0; d <= deepest; ++d) {
      SHOAL_VEC(shoal_instruction_t) list = {0};
      // What is only received comes first and what is only sent last, so that the messages between
      // two ranks come in the same order on both sides, whatever else the two do together at this
      // depth.
      for (int role = ROLE_RECEIVER; role <= ROLE_SENDER; ++role)
        for (int64_t i = 0; i < graph->instructions.count; ++i) {
          const global_instruction_t *in = graph->instructions.items[i];
          if (in->phase != (phase_t)phase || role_of(b, e->mask, in, &depth) != (role_t)role ||
              depth != d)
            continue;
          shoal_instruction_t code;
          SHOAL_RETURN_IF_ERROR(emit_instruction(e, in, d, &code));
          if (!SHOAL_PUSH(b->arena, &list, code)) return SHOAL_OOM();
        }
      if (list.count == 0) continue;
      shoal_segment_t segment = {.instruction_count = list.count, .instructions = list.items};
      segment.name = shoal_arena_printf(b->arena, "%s.%s.%d", graph->name, phase_names[phase], d);
      int32_t index = (int32_t)e->segments.count;
      if (!segment.name || !SHOAL_PUSH(b->arena, &e->segments, segment)) return SHOAL_OOM();
      int64_t repeats = phase == PHASE_LOOP ? b->program->micro : 1;
      for (int64_t m = 0; m < repeats; ++m) {
        shoal_segment_call_t call = {index, phase == PHASE_LOOP ? (int32_t)m : -1};
        if (!SHOAL_PUSH(b->arena, &calls, call)) return SHOAL_OOM();
      }
    }
  }
  *order = (shoal_order_t){graph->name, calls.count, calls.items};
  return NULL;
}

static shoal_status_t emit_class(build_t *b, shoal_class_t *c, uint64_t mask) {
  class_emitter_t e = {.b = b, .c = c, .mask = mask};
  e.local = SHOAL_NEW(b->arena, int32_t, b->buffers.count);
  e.first_phase = SHOAL_NEW(b->arena, phase_t, b->buffers.count);
  e.first_depth = SHOAL_NEW(b->arena, int32_t, b->buffers.count);
  c->order_count = b->plan->model->graphs.count;
  c->orders = SHOAL_NEW(b->arena, shoal_order_t, c->order_count);
  if (!e.local || !e.first_phase || !e.first_depth || !c->orders) return SHOAL_OOM();
  for (int64_t i = 0; i < b->buffers.count; ++i) e.local[i] = -1;
  // States are there whether this class's graphs read them or not: they can be saved and fetched.
  for (int64_t s = 0; s < b->program->state_count; ++s) {
    int32_t unused;
    SHOAL_RETURN_IF_ERROR(local_buffer(&e, b->state_buffers[s], PHASE_BEFORE, 0, &unused));
  }
  for (int64_t g = 0; g < c->order_count; ++g)
    SHOAL_RETURN_IF_ERROR(emit_graph(&e, &b->graphs[g], &c->orders[g]));
  c->buffers = e.buffers.items;
  c->buffer_count = e.buffers.count;
  c->segments = e.segments.items;
  c->segment_count = e.segments.count;
  return NULL;
}

shoal_status_t shoal_lower_emit(build_t *b) {
  shoal_program_t *program = b->program;
  if (program->mesh_count > 64) return SHOAL_ERROR(UNSUPPORTED, "a plan has at most 63 meshes");
  uint64_t *masks = SHOAL_NEW(b->arena, uint64_t, program->world);
  program->classes = SHOAL_NEW(b->arena, shoal_class_t, program->world);
  if (!masks || !program->classes) return SHOAL_OOM();
  for (int32_t r = 0; r < program->world; ++r) {
    uint64_t mask = membership(b, r);
    int64_t k = 0;
    while (k < program->class_count && masks[k] != mask) ++k;
    if (k < program->class_count) continue;
    masks[program->class_count++] = mask;
    shoal_class_t *c = &program->classes[k];
    int32_t *ranks = SHOAL_NEW(b->arena, int32_t, program->world);
    if (!ranks) return SHOAL_OOM();
    for (int32_t other = r; other < program->world; ++other)
      if (membership(b, other) == mask) ranks[c->rank_count++] = other;
    c->ranks = ranks;
    SHOAL_RETURN_IF_ERROR(emit_class(b, c, mask));
  }
  return NULL;
}
