// Pass `classes`: deals the items out to classes. Ranks that are on the same meshes run the same
// program. Each class gets its own numbering of buffers, its queues, its segments (those in which
// it has work) and, per graph, the order in which they are called. Buffers and workspaces are as
// large as the largest of the class's own ranks needs.
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "lower/build.h"
#include "plan/cut.h"
#include "program/bind.h"
#include "program/key.h"
#include "program/sample.h"

static bool on_mesh(const build_t *b, uint64_t mask, int32_t buffer) {
  return mask >> (b->instances.items[buffer]->layout->mesh - b->meshes) & 1;
}

// What a class does with an instruction. Between meshes that share no rank, a value is sent where
// it is made and received where it is used; in any other reshard all run it together, where it is
// used.
typedef enum role { ROLE_NONE, ROLE_RECEIVER, ROLE_WORKER, ROLE_SENDER } role_t;

static role_t role_of(const build_t *b, uint64_t mask, const item_t *in, int32_t *out_segment) {
  *out_segment = in->segment;
  int32_t first = in->code.output_count > 0 ? in->code.outputs[0] : in->code.inputs[0];
  bool works = on_mesh(b, mask, first);
  if (in->code.opcode != SHOAL_OPCODE_RESHARD) return works ? ROLE_WORKER : ROLE_NONE;
  bool sends = on_mesh(b, mask, in->code.inputs[0]);
  if (!sends && !works) return ROLE_NONE;
  if (shoal_lower_share_ranks(b, b->instances.items[in->code.inputs[0]]->layout,
                              b->instances.items[in->code.outputs[0]]->layout))
    return ROLE_WORKER;
  if (sends) *out_segment = in->send_segment;
  return sends ? ROLE_SENDER : ROLE_RECEIVER;
}

typedef struct class_emitter {
  build_t *b;
  shoal_class_t *c;
  uint64_t mask;
  int32_t *local;  // class buffer of each instance; -1: none
  SHOAL_VEC(shoal_program_queue_t) queues;
  SHOAL_VEC(shoal_buffer_t) buffers;
  SHOAL_VEC(shoal_segment_t) segments;
  shoal_arena_t scratch;  // for the class: what follows
  shoal_key_t key;
  shoal_memo_t sizes;       // bytes of a part, by type and layout
  shoal_memo_t workspaces;  // by op, attributes, types and layouts; by channel
} class_emitter_t;

static int64_t aligned(const build_t *b, int64_t bytes) {
  const int64_t alignment = b->target.alignment;
  return (bytes + alignment - 1) / alignment * alignment;
}

// Bytes of a part at its largest in this class: what ranks of another one hold costs nothing here.
static shoal_status_t measure(class_emitter_t *e, const instance_t *buffer, int64_t *out_bytes) {
  shoal_key_clear(&e->key);
  shoal_key_add_pointer(&e->key, buffer->layout);
  shoal_key_add_type(&e->key, &buffer->type);
  if (shoal_memo_find(&e->sizes, &e->key, out_bytes)) return NULL;
  shoal_status_t status =
      shoal_layout_largest(buffer->layout, &buffer->type, e->c, e->b->plan->allocator, out_bytes);
  if (status) return shoal_status_annotatef(status, "while sizing '%s'", buffer->name);
  *out_bytes = aligned(e->b, *out_bytes);
  return shoal_memo_add(&e->sizes, &e->key, *out_bytes) ? NULL : SHOAL_OOM();
}

// The class's number of an instance; -1 if the class is not on its mesh.
static shoal_status_t local_buffer(class_emitter_t *e, int32_t global, int32_t *out_local) {
  const instance_t *buffer = e->b->instances.items[global];
  if (buffer->kind == SHOAL_BUFFER_STATE) global = e->b->state_homes[buffer->state];
  buffer = e->b->instances.items[global];
  *out_local = -1;
  if (!(e->mask >> (buffer->layout->mesh - e->b->meshes) & 1)) return NULL;
  if (e->local[global] < 0) {
    e->local[global] = (int32_t)e->buffers.count;
    shoal_buffer_t record = {.name = buffer->name,
                             .kind = buffer->kind,
                             .state = buffer->state,
                             .type = buffer->type,
                             .layout = buffer->layout,
                             .memory = buffer->memory,
                             .parts = buffer->parts,
                             .group = -1,
                             .count = -1};
    SHOAL_RETURN_IF_ERROR(measure(e, buffer, &record.bytes));
    if (!SHOAL_PUSH(&e->scratch, &e->buffers, record)) return SHOAL_OOM();
  }
  *out_local = e->local[global];
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
    const instance_t *buffer = b->instances.items[id];
    bool cut = shoal_layout_along(buffer->layout, SHOAL_AXIS_MICRO) != NULL;
    SHOAL_RETURN_IF_ERROR(shoal_layout_boxes(buffer->layout, &buffer->type.shape, position,
                                             cut ? micro : -1, scratch, &boxes[k]));
    types[k] = (shoal_type_t){buffer->type.dtype, shoal_boxes_shape(&boxes[k])};
  }
  SHOAL_RETURN_IF_ERROR(shoal_op_bind(code->op, code->input_count, code->attrs, boxes,
                                      boxes + code->input_count, scratch, attrs));
  shoal_call_t call = {code->op, code->input_count,         code->output_count,
                       types,    types + code->input_count, attrs};
  *out_bytes = shoal_target_workspace(&b->target, &call);
  return NULL;
}

// On the class's worst rank.
static shoal_status_t look_for_worst(const class_emitter_t *e, const item_t *in,
                                     shoal_arena_t *scratch, int64_t *out_bytes) {
  const build_t *b = e->b;
  const shoal_mesh_t *mesh = b->instances.items[in->code.outputs[0]]->layout->mesh;
  const int32_t count = in->code.input_count + in->code.output_count;
  shoal_cells_of_t *values = SHOAL_NEW(scratch, shoal_cells_of_t, count);
  shoal_samples_t samples;
  if (!values) return SHOAL_OOM();
  for (int32_t k = 0; k < count; ++k) {
    const int32_t id =
        k < in->code.input_count ? in->code.inputs[k] : in->code.outputs[k - in->code.input_count];
    const instance_t *buffer = b->instances.items[id];
    values[k] = (shoal_cells_of_t){.layout = buffer->layout, .shape = &buffer->type.shape};
  }
  SHOAL_RETURN_IF_ERROR(shoal_sample_values(
      e->c, count, values, in->phase == PHASE_LOOP ? b->program->micro : 0, scratch, &samples));
  for (int64_t i = 0; i < samples.count; ++i) {
    const int64_t position = shoal_mesh_position(mesh, samples.items[i].rank);
    int64_t bytes = 0;
    SHOAL_RETURN_IF_ERROR(
        workspace_at(b, &in->code, position, samples.items[i].micro, scratch, &bytes));
    if (bytes > *out_bytes) *out_bytes = bytes;
  }
  return NULL;
}

static shoal_status_t compute_workspace(const class_emitter_t *e, const item_t *in,
                                        int64_t *out_bytes) {
  shoal_arena_t scratch;
  shoal_arena_init(e->b->plan->allocator, &scratch);
  shoal_status_t status = look_for_worst(e, in, &scratch, out_bytes);
  shoal_arena_deinit(&scratch);
  return status;
}

// What the workspace of an instruction depends on, besides the class.
static void write_key(class_emitter_t *e, const item_t *in) {
  const build_t *b = e->b;
  shoal_key_clear(&e->key);
  shoal_key_add(&e->key, in->code.opcode * 2 + (in->phase == PHASE_LOOP));
  if (in->code.op) shoal_key_add_op(&e->key, in->code.op, in->code.attrs);
  for (int32_t i = 0; i < in->code.input_count + in->code.output_count; ++i) {
    int32_t id =
        i < in->code.input_count ? in->code.inputs[i] : in->code.outputs[i - in->code.input_count];
    shoal_key_add_pointer(&e->key, b->instances.items[id]->layout);
    shoal_key_add_type(&e->key, &b->instances.items[id]->type);
  }
}

static shoal_status_t workspace_of(class_emitter_t *e, const item_t *in, int64_t *out_bytes) {
  const build_t *b = e->b;
  *out_bytes = 0;
  bool computes = in->code.opcode == SHOAL_OPCODE_COMPUTE &&
                  shoal_target_wants_workspace(&b->target, in->code.op);
  if (!computes && in->code.opcode != SHOAL_OPCODE_RESHARD) return NULL;
  write_key(e, in);
  if (shoal_memo_find(&e->workspaces, &e->key, out_bytes)) return NULL;
  shoal_status_t status;
  if (computes) {
    status = compute_workspace(e, in, out_bytes);
  } else {
    shoal_arena_t scratch;
    shoal_arena_init(b->plan->allocator, &scratch);
    status = shoal_reshard_workspace(b->channels.items, in->code.input_count, in->code.channels,
                                     b->program->micro, e->c, &scratch, out_bytes);
    shoal_arena_deinit(&scratch);
  }
  if (status) return shoal_status_annotatef(status, "workspace of '%s'", in->code.name);
  *out_bytes = aligned(e->b, *out_bytes);
  return shoal_memo_add(&e->workspaces, &e->key, *out_bytes) ? NULL : SHOAL_OOM();
}

// The class's queue of this name, for messages.
static shoal_status_t queue_of(class_emitter_t *e, const char *name, int32_t *out_queue) {
  for (*out_queue = 0; *out_queue < e->queues.count; ++*out_queue)
    if (strcmp(e->queues.items[*out_queue].name, name) == 0) return NULL;
  const shoal_program_queue_t queue = {.name = name, .kind = SHOAL_QUEUE_COMM};
  return SHOAL_PUSH(e->b->arena, &e->queues, queue) ? NULL : SHOAL_OOM();
}

// Messages between meshes that share no rank have a lane and queues of their own: they hold up
// nothing but what needs them. What is received on the spare lane waits with what goes forward: a
// class needs it in the order in which it receives. What is sent must not wait for another message
// that is received later, so that each lane has a queue for that.
static const char *const message_queues[SHOAL_LOWER_LANE_COUNT][2] = {
    [SHOAL_LOWER_LANE_MESSAGES] = {"send", "receive"},
    [SHOAL_LOWER_LANE_BACK] = {"send_back", "receive_back"},
    [SHOAL_LOWER_LANE_SPARE] = {"send_aside", "receive"},
};
_Static_assert(SHOAL_QUEUE_KIND_COUNT + 5 <= SHOAL_MAX_QUEUES, "a class has all of them");

static shoal_status_t emit_instruction(class_emitter_t *e, const item_t *in, role_t role,
                                       shoal_instruction_t *out) {
  *out = in->code;
  if (role == ROLE_SENDER || role == ROLE_RECEIVER) {
    const int32_t lane = e->b->channels.items[in->code.channels[0]].lane;
    SHOAL_RETURN_IF_ERROR(queue_of(e, message_queues[lane][role == ROLE_RECEIVER], &out->queue));
  }
  int32_t *inputs = SHOAL_NEW(e->b->arena, int32_t, in->code.input_count);
  int32_t *outputs = SHOAL_NEW(e->b->arena, int32_t, in->code.output_count);
  if (!inputs || !outputs) return SHOAL_OOM();
  for (int32_t i = 0; i < in->code.input_count; ++i)
    SHOAL_RETURN_IF_ERROR(local_buffer(e, in->code.inputs[i], &inputs[i]));
  for (int32_t o = 0; o < in->code.output_count; ++o)
    SHOAL_RETURN_IF_ERROR(local_buffer(e, in->code.outputs[o], &outputs[o]));
  if (in->code.predicate >= 0)
    SHOAL_RETURN_IF_ERROR(local_buffer(e, in->code.predicate, &out->predicate));
  out->inputs = inputs;
  out->outputs = outputs;
  return workspace_of(e, in, &out->workspace);
}

// Where an instruction goes in a class. What is only received comes first and what is only sent
// last, so that the messages between two ranks come in the same order on both sides, whatever else
// the two do together in this segment.
typedef struct slot {
  int32_t segment, role;
  int64_t index;  // in the graph's list
} slot_t;

static int compare_slots(const void *a, const void *b) {
  const slot_t *x = a, *y = b;
  if (x->segment != y->segment) return x->segment < y->segment ? -1 : 1;
  if (x->role != y->role) return x->role < y->role ? -1 : 1;
  return x->index < y->index ? -1 : 1;
}

static shoal_status_t emit_segment(class_emitter_t *e, const graph_build_t *graph,
                                   const slot_t *slots, int64_t count, int32_t *out_index) {
  build_t *b = e->b;
  shoal_segment_t segment = {.instruction_count = count};
  segment.name = graph->segments.items[slots->segment].name;
  segment.instructions = SHOAL_NEW(b->arena, shoal_instruction_t, count);
  if (!segment.instructions) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i)
    SHOAL_RETURN_IF_ERROR(emit_instruction(e, graph->items.items[slots[i].index],
                                           (role_t)slots[i].role, &segment.instructions[i]));
  *out_index = (int32_t)e->segments.count;
  return SHOAL_PUSH(b->arena, &e->segments, segment) ? NULL : SHOAL_OOM();
}

// The segments and the order of one graph.
static shoal_status_t emit_graph(class_emitter_t *e, const graph_build_t *graph,
                                 shoal_order_t *order) {
  build_t *b = e->b;
  slot_t *slots = SHOAL_NEW(&e->scratch, slot_t, graph->items.count);
  int64_t count = 0;
  if (!slots) return SHOAL_OOM();
  for (int64_t i = 0; i < graph->items.count; ++i) {
    const item_t *in = graph->items.items[i];
    slot_t slot = {.index = i};
    slot.role = (int32_t)role_of(b, e->mask, in, &slot.segment);
    if (slot.role != ROLE_NONE) slots[count++] = slot;
  }
  if (count > 0) qsort(slots, (size_t)count, sizeof *slots, compare_slots);
  int32_t *numbers = SHOAL_NEW(&e->scratch, int32_t, graph->segments.count);
  if (!numbers) return SHOAL_OOM();
  for (int64_t s = 0; s < graph->segments.count; ++s) numbers[s] = -1;
  for (int64_t from = 0, to; from < count; from = to) {
    const slot_t *first = &slots[from];
    for (to = from + 1; to < count && slots[to].segment == first->segment;) ++to;
    SHOAL_RETURN_IF_ERROR(emit_segment(e, graph, first, to - from, &numbers[first->segment]));
  }
  return shoal_lower_calls(b, graph, e->mask, numbers, order);
}

static shoal_status_t fill_class(class_emitter_t *e) {
  build_t *b = e->b;
  shoal_class_t *c = e->c;
  e->local = SHOAL_NEW(&e->scratch, int32_t, b->instances.count);
  c->order_count = b->plan->model->graphs.count;
  c->orders = SHOAL_NEW(b->arena, shoal_order_t, c->order_count);
  if (!e->local || !c->orders) return SHOAL_OOM();
  for (int64_t i = 0; i < b->instances.count; ++i) e->local[i] = -1;
  for (int q = 0; q < SHOAL_QUEUE_KIND_COUNT; ++q)
    if (!SHOAL_PUSH(b->arena, &e->queues, shoal_program_default_queues[q])) return SHOAL_OOM();
  // States are there whether this class's graphs read them or not: they can be saved and fetched.
  for (int64_t s = 0; s < b->program->state_count; ++s) {
    int32_t unused;
    SHOAL_RETURN_IF_ERROR(local_buffer(e, b->state_homes[s], &unused));
  }
  for (int64_t g = 0; g < c->order_count; ++g)
    SHOAL_RETURN_IF_ERROR(emit_graph(e, &b->graphs[g], &c->orders[g]));
  c->buffers = shoal_arena_copy(b->arena, e->buffers.items, (size_t)e->buffers.count,
                                sizeof *e->buffers.items);
  if (!c->buffers) return SHOAL_OOM();
  c->buffer_count = e->buffers.count;
  c->queues = e->queues.items;
  c->queue_count = (int32_t)e->queues.count;
  c->segments = e->segments.items;
  c->segment_count = e->segments.count;
  return NULL;
}

static shoal_status_t emit_class(build_t *b, shoal_class_t *c, uint64_t mask) {
  class_emitter_t e = {.b = b, .c = c, .mask = mask};
  shoal_arena_init(b->plan->allocator, &e.scratch);
  shoal_key_init(&e.scratch, &e.key);
  shoal_memo_init(&e.scratch, &e.sizes);
  shoal_memo_init(&e.scratch, &e.workspaces);
  shoal_status_t status = fill_class(&e);
  shoal_arena_deinit(&e.scratch);
  return status;
}

// Deals the ranks out to classes by the meshes they are on: bit m of a mask is mesh m.
static shoal_status_t make_classes(build_t *b, uint64_t **out_masks) {
  shoal_program_t *program = b->program;
  uint64_t *of_rank = SHOAL_NEW(b->arena, uint64_t, program->world);
  int64_t *class_of = SHOAL_NEW(b->arena, int64_t, program->world), *sizes, *starts;
  SHOAL_VEC(uint64_t) masks = {0};
  shoal_index_t index;
  shoal_index_init(b->arena, &index);
  if (!of_rank || !class_of) return SHOAL_OOM();
  for (int64_t m = 0; m < program->mesh_count; ++m)
    for (int64_t p = 0, size = shoal_mesh_size(&b->meshes[m]); p < size; ++p)
      of_rank[shoal_mesh_rank(&b->meshes[m], p)] |= UINT64_C(1) << m;
  for (int32_t r = 0; r < program->world; ++r) {
    int64_t at = -1, k = shoal_index_next(&index, of_rank[r], &at);
    if (k < 0) {
      k = masks.count;
      if (!shoal_index_add(&index, of_rank[r], k) || !SHOAL_PUSH(b->arena, &masks, of_rank[r]))
        return SHOAL_OOM();
    }
    class_of[r] = k;
  }
  program->class_count = masks.count;
  program->classes = SHOAL_NEW(b->arena, shoal_class_t, masks.count);
  sizes = SHOAL_NEW(b->arena, int64_t, masks.count);
  starts = SHOAL_NEW(b->arena, int64_t, masks.count);
  int32_t *ranks = SHOAL_NEW(b->arena, int32_t, program->world);
  if (!program->classes || !sizes || !starts || !ranks) return SHOAL_OOM();
  for (int32_t r = 0; r < program->world; ++r) ++sizes[class_of[r]];
  for (int64_t k = 1; k < masks.count; ++k) starts[k] = starts[k - 1] + sizes[k - 1];
  for (int32_t r = 0; r < program->world; ++r) {
    shoal_class_t *c = &program->classes[class_of[r]];
    ranks[starts[class_of[r]] + c->rank_count++] = r;
  }
  for (int64_t k = 0; k < masks.count; ++k) program->classes[k].ranks = ranks + starts[k];
  *out_masks = masks.items;
  return NULL;
}

shoal_status_t shoal_lower_pass_classes(build_t *b) {
  shoal_program_t *program = b->program;
  uint64_t *masks = NULL;
  if (program->mesh_count > 64) return SHOAL_ERROR(UNSUPPORTED, "a plan has at most 63 meshes");
  program->channels = b->channels.items;
  program->channel_count = b->channels.count;
  program->inputs = b->inputs.items;
  program->input_count = b->inputs.count;
  program->outputs = b->outputs.items;
  program->output_count = b->outputs.count;
  SHOAL_RETURN_IF_ERROR(make_classes(b, &masks));
  for (int64_t k = 0; k < program->class_count; ++k)
    SHOAL_RETURN_IF_ERROR(emit_class(b, &program->classes[k], masks[k]));
  return NULL;
}
