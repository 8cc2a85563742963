// Binding: what one rank does, with sizes, places, addresses and transfers worked out.
//
// Buffers are bound once per micro-batch and slot, segments once per (segment, micro-batch, slots),
// however many orders and steps call them. A rank that is not on the mesh of an instruction's
// buffers is idle there: that is how one class may serve ranks with nothing to do.
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "program/program_impl.h"

// A buffer, or a segment, as it was bound for one micro-batch and choice of slots.
typedef struct bound_as {
  int64_t micro;
  int32_t slot;          // of a buffer
  const int32_t *slots;  // of a segment: one per group, -1: not touched
  const shoal_bound_buffer_t *buffer;
  const shoal_bound_instruction_t *instructions;
  struct bound_as *next;
} bound_as_t;

typedef struct binder {
  const shoal_program_t *program;
  const shoal_class_t *class;
  int32_t rank;
  shoal_arena_t *arena;
  const int32_t *slots;    // of the present call, by group; NULL: the first of each
  bool single;             // nothing is remembered
  bound_as_t ***buffers;   // [buffer][micro + 1]
  bound_as_t ***segments;  // [segment][micro + 1]
} binder_t;

// ---- buffers ------------------------------------------------------------------------

int64_t shoal_buffer_slot_offset(const shoal_class_t *class, const shoal_buffer_t *buffer,
                                 int64_t slot) {
  return buffer->offset + (shoal_buffer_slots(class, buffer) - 1 - slot) * buffer->bytes;
}

shoal_status_t shoal_buffer_bind(const shoal_class_t *class, const shoal_buffer_t *buffer,
                                 int32_t rank, int64_t micro, int32_t slot, shoal_arena_t *arena,
                                 shoal_bound_buffer_t *out_bound) {
  int64_t position = shoal_mesh_position(buffer->layout->mesh, rank);
  if (position < 0) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "rank %d is not on the mesh of buffer '%s'", rank,
                       buffer->name);
  }
  micro = shoal_program_micro_of(buffer->layout, micro);
  shoal_bound_buffer_t bound = {.type.dtype = buffer->type.dtype};
  SHOAL_RETURN_IF_ERROR(shoal_layout_boxes(buffer->layout, &buffer->type.shape, position, micro,
                                           arena, &bound.boxes));
  bound.type.shape = shoal_boxes_shape(&bound.boxes);
  bound.count = shoal_shape_count(&bound.type.shape);
  bound.memory = buffer->memory;
  bound.offset = shoal_buffer_slot_offset(class, buffer, slot);
  *out_bound = bound;
  return NULL;
}

// The list of what is known of number `index` in a micro-batch.
static shoal_status_t entry_of(binder_t *b, bound_as_t ***table, int64_t index, int64_t micro,
                               bound_as_t ***out_entry) {
  if (!table[index]) {
    table[index] = SHOAL_NEW(b->arena, bound_as_t *, b->program->micro + 1);
    if (!table[index]) return SHOAL_OOM();
  }
  *out_entry = &table[index][micro + 1];
  return NULL;
}

static shoal_status_t remember(binder_t *b, bound_as_t as, bound_as_t **entry) {
  bound_as_t *kept = SHOAL_NEW(b->arena, bound_as_t, 1);
  if (!kept) return SHOAL_OOM();
  *kept = as;
  kept->next = *entry;
  *entry = kept;
  return NULL;
}

// NULL where this rank is not on the buffer's mesh, or `index` is -1.
static shoal_status_t bind_buffer(binder_t *b, int32_t index, int64_t micro,
                                  const shoal_bound_buffer_t **out_bound) {
  *out_bound = NULL;
  if (index < 0) return NULL;
  const shoal_buffer_t *buffer = &b->class->buffers[index];
  if (shoal_mesh_position(buffer->layout->mesh, b->rank) < 0) return NULL;
  micro = shoal_program_micro_of(buffer->layout, micro);
  const int32_t slot = buffer->group >= 0 && b->slots ? b->slots[buffer->group] : 0;
  if (slot < 0) {
    return SHOAL_ERROR_HINT(MISMATCH, "name a slot of every group that the segment touches",
                            "the call names no slot of group %d, which buffer %d '%s' is in",
                            buffer->group, index, buffer->name);
  }
  bound_as_t **entry = NULL;
  if (!b->single) {
    SHOAL_RETURN_IF_ERROR(entry_of(b, b->buffers, index, micro, &entry));
    for (const bound_as_t *known = *entry; known; known = known->next) {
      if (known->slot != slot) continue;
      *out_bound = known->buffer;
      return NULL;
    }
  }
  shoal_bound_buffer_t *bound = SHOAL_NEW(b->arena, shoal_bound_buffer_t, 1);
  if (!bound) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_buffer_bind(b->class, buffer, b->rank, micro, slot, b->arena, bound));
  *out_bound = bound;
  if (!entry) return NULL;
  return remember(b, (bound_as_t){.slot = slot, .buffer = bound}, entry);
}

// ---- compute ------------------------------------------------------------------------

static shoal_status_t bind_types(binder_t *b, int32_t count, const shoal_bound_buffer_t **buffers,
                                 shoal_boxes_t *boxes, shoal_type_t **out_types) {
  shoal_type_t *types = SHOAL_NEW(b->arena, shoal_type_t, count);
  if (!types) return SHOAL_OOM();
  for (int32_t i = 0; i < count; ++i) {
    types[i] = buffers[i]->type;
    boxes[i] = buffers[i]->boxes;
  }
  *out_types = types;
  return NULL;
}

static shoal_status_t bind_compute(binder_t *b, shoal_bound_instruction_t *bound,
                                   shoal_arena_t *scratch) {
  const shoal_instruction_t *in = bound->instruction;
  int32_t count = in->input_count + in->output_count;
  shoal_boxes_t *boxes = SHOAL_NEW(scratch, shoal_boxes_t, count);
  shoal_type_t *inputs, *outputs, *inferred = SHOAL_NEW(scratch, shoal_type_t, in->output_count);
  shoal_attr_value_t *attrs = SHOAL_NEW(b->arena, shoal_attr_value_t, in->op->attr_count);
  if (!boxes || !inferred || !attrs) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(bind_types(b, in->input_count, bound->inputs, boxes, &inputs));
  SHOAL_RETURN_IF_ERROR(
      bind_types(b, in->output_count, bound->outputs, boxes + in->input_count, &outputs));
  SHOAL_RETURN_IF_ERROR(shoal_op_bind(in->op, in->input_count, in->attrs, boxes,
                                      boxes + in->input_count, b->arena, attrs));
  bound->call = (shoal_call_t){.op = in->op,
                               .input_count = in->input_count,
                               .output_count = in->output_count,
                               .inputs = inputs,
                               .outputs = outputs,
                               .attrs = attrs};
  const int32_t number = shoal_op_outputs(in->op, in->attrs);
  if (in->output_count != number) {
    return SHOAL_ERROR(MISMATCH, "%s has %d outputs, not %d", in->op->name, number,
                       in->output_count);
  }
  shoal_call_t asked = bound->call;
  asked.outputs = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_op_infer(&asked, inferred));
  for (int32_t i = 0; i < in->output_count; ++i) {
    if (shoal_type_equal(&inferred[i], &outputs[i])) continue;
    char made[160], stored[160];
    return SHOAL_ERROR_HINT(
        MISMATCH, "the layouts of the inputs and of the output do not go together",
        "%s makes %s of this rank's parts, but its part of output %d '%s' is %s", in->op->name,
        shoal_type_format(&inferred[i], made, sizeof made), i,
        b->class->buffers[in->outputs[i]].name,
        shoal_type_format(&outputs[i], stored, sizeof stored));
  }
  for (int32_t o = 0; o < in->output_count; ++o) {
    const int32_t over = shoal_program_overwritten(b->class, in, o);
    if (over < 0 || shoal_op_overwrites(&bound->call, o, over)) continue;
    return SHOAL_ERROR_HINT(MISMATCH, "plan the memory again, or say so in the op's record",
                            "output %d '%s' lies over input %d, which %s must not overwrite", o,
                            b->class->buffers[in->outputs[o]].name, over, in->op->name);
  }
  int64_t workspace = in->op->workspace ? in->op->workspace(&bound->call) : 0;
  if (workspace > in->workspace) {
    return SHOAL_ERROR_HINT(MISMATCH, "plan the workspace at the largest over ranks",
                            "%s needs %lld bytes of workspace here, the program gives it %lld",
                            in->op->name, (long long)workspace, (long long)in->workspace);
  }
  return NULL;
}

// ---- reshards -----------------------------------------------------------------------

// What the rank does for one of the values.
static shoal_status_t bind_channel(binder_t *b, int64_t micro, int32_t index,
                                   const shoal_bound_instruction_t *bound,
                                   shoal_reshard_facts_t *out_facts, shoal_motion_t *out_motion) {
  const int32_t number = bound->instruction->channels[index];
  const shoal_channel_t *channel = &b->program->channels[number];
  const shoal_bound_buffer_t *input = bound->inputs[index], *output = bound->outputs[index];
  const bool sends = shoal_mesh_position(channel->src->mesh, b->rank) >= 0;
  const bool receives = shoal_mesh_position(channel->dst->mesh, b->rank) >= 0;
  if (sends != (input != NULL) || receives != (output != NULL)) {
    const bool source = sends != (input != NULL);
    return SHOAL_ERROR_HINT(MISMATCH, "give the buffers on the meshes of the channel's two layouts",
                            "rank %d %s a buffer for the %s of channel %d", b->rank,
                            (source ? sends : receives) ? "lacks" : "has",
                            source ? "source" : "destination", number);
  }
  SHOAL_RETURN_IF_ERROR(shoal_channel_describe(channel, micro, b->arena->allocator, out_facts));
  return shoal_bind_reshard(channel, micro, b->rank, input, output, out_facts, b->arena,
                            out_motion);
}

static shoal_status_t check_channels(const binder_t *b, const shoal_instruction_t *in) {
  if (in->input_count < 1 || in->input_count != in->output_count || !in->channels) {
    return SHOAL_ERROR(MISMATCH, "it carries no value");
  }
  for (int32_t i = 0; i < in->input_count; ++i) {
    if (in->channels[i] >= 0 && in->channels[i] < b->program->channel_count) continue;
    return SHOAL_ERROR(MISMATCH, "there is no channel %d", in->channels[i]);
  }
  return NULL;
}

static bool takes_part(const binder_t *b, const shoal_instruction_t *in) {
  for (int32_t i = 0; i < in->input_count; ++i) {
    const shoal_channel_t *channel = &b->program->channels[in->channels[i]];
    if (shoal_mesh_position(channel->src->mesh, b->rank) >= 0) return true;
    if (shoal_mesh_position(channel->dst->mesh, b->rank) >= 0) return true;
  }
  return false;
}

static shoal_status_t bind_channels(binder_t *b, int64_t micro, shoal_bound_instruction_t *bound,
                                    shoal_arena_t *scratch) {
  const shoal_instruction_t *in = bound->instruction;
  const int32_t count = in->input_count;
  SHOAL_RETURN_IF_ERROR(check_channels(b, in));
  bound->idle = !takes_part(b, in);
  if (bound->idle) return NULL;
  shoal_bundle_t *bundle = SHOAL_NEW(b->arena, shoal_bundle_t, 1);
  shoal_motion_t *motions = SHOAL_NEW(b->arena, shoal_motion_t, count);
  shoal_reshard_facts_t *facts = SHOAL_NEW(scratch, shoal_reshard_facts_t, count);
  shoal_dtype_t *dtypes = SHOAL_NEW(scratch, shoal_dtype_t, count);
  if (!bundle || !motions || !facts || !dtypes) return SHOAL_OOM();
  for (int32_t i = 0; i < count; ++i) {
    SHOAL_RETURN_IF_ERROR(bind_channel(b, micro, i, bound, &facts[i], &motions[i]));
    dtypes[i] = b->program->channels[in->channels[i]].type.dtype;
  }
  SHOAL_RETURN_IF_ERROR(shoal_bundle_check(count, facts, dtypes, in->channels));
  SHOAL_RETURN_IF_ERROR(shoal_bundle_plan(count, motions, b->rank, b->arena, bundle));
  bound->idle = shoal_bundle_is_idle(bundle);
  // What only sends has memory of its own: its messages may be under way when this is used again.
  if (bundle->whole.staging > in->workspace && !shoal_motion_only_sends(&bundle->whole)) {
    return SHOAL_ERROR_HINT(MISMATCH, "plan the workspace with shoal_reshard_workspace",
                            "the messages of channel %d need %lld bytes of workspace here, the "
                            "program gives it %lld",
                            in->channels[0], (long long)bundle->whole.staging,
                            (long long)in->workspace);
  }
  bound->reshard = bundle;
  return NULL;
}

// ---- instructions -------------------------------------------------------------------

// All operands on this rank, or none of them: then it is idle.
static shoal_status_t all_or_none(shoal_bound_instruction_t *bound) {
  const shoal_instruction_t *in = bound->instruction;
  int32_t present = 0, count = in->input_count + in->output_count;
  for (int32_t i = 0; i < in->input_count; ++i) present += bound->inputs[i] != NULL;
  for (int32_t i = 0; i < in->output_count; ++i) present += bound->outputs[i] != NULL;
  bound->idle = present == 0 && count > 0;
  if (present == 0 || present == count) return NULL;
  return SHOAL_ERROR_HINT(MISMATCH, "put all operands on one mesh",
                          "only %d of its %d buffers are on the rank", present, count);
}

static shoal_status_t bind_opcode(binder_t *b, int64_t micro, shoal_bound_instruction_t *bound,
                                  shoal_arena_t *scratch) {
  const shoal_instruction_t *in = bound->instruction;
  if (in->opcode == SHOAL_OPCODE_RESHARD) return bind_channels(b, micro, bound, scratch);
  SHOAL_RETURN_IF_ERROR(all_or_none(bound));
  if (bound->idle) return NULL;
  if (in->predicate >= 0 && !bound->predicate) {
    return SHOAL_ERROR(MISMATCH, "its predicate '%s' is not on the rank",
                       b->class->buffers[in->predicate].name);
  }
  switch (in->opcode) {
    case SHOAL_OPCODE_COMPUTE:
      return bind_compute(b, bound, scratch);
    case SHOAL_OPCODE_COPY:
      return shoal_bind_copy(b->class, micro, b->arena, scratch, bound);
    case SHOAL_OPCODE_ACCUMULATE:
      return shoal_bind_accumulate(b->class, b->arena, bound);
    case SHOAL_OPCODE_ASSEMBLE:
      return shoal_bind_assemble(b->class, b->arena, scratch, bound);
    default:
      return NULL;
  }
}

static shoal_status_t bind_counts(binder_t *b, const shoal_instruction_t *in, int64_t micro,
                                  shoal_bound_instruction_t *bound) {
  const int32_t operands = in->input_count + in->output_count;
  if (in->opcode != SHOAL_OPCODE_COMPUTE) return NULL;
  for (int32_t k = 0; k < operands; ++k) {
    const int32_t index = k < in->input_count ? in->inputs[k] : in->outputs[k - in->input_count];
    const int32_t count = index < 0 ? -1 : b->class->buffers[index].count;
    if (count < 0) continue;
    if (!bound->counts) {
      bound->counts = SHOAL_NEW(b->arena, const shoal_bound_buffer_t *, operands);
      if (!bound->counts) return SHOAL_OOM();
    }
    SHOAL_RETURN_IF_ERROR(bind_buffer(b, count, micro, &bound->counts[k]));
  }
  return NULL;
}

static shoal_status_t bind_instruction(binder_t *b, const shoal_instruction_t *in, int64_t micro,
                                       shoal_bound_instruction_t *bound) {
  int32_t inputs, outputs;
  shoal_opcode_arity(in->opcode, &inputs, &outputs);
  if ((inputs >= 0 && in->input_count != inputs) || (outputs >= 0 && in->output_count != outputs) ||
      (in->opcode == SHOAL_OPCODE_ASSEMBLE && in->input_count < 1)) {
    return SHOAL_ERROR(INTERNAL, "%s has %d inputs and %d outputs", shoal_opcode_name(in->opcode),
                       in->input_count, in->output_count);
  }
  bound->instruction = in;
  bound->inputs = SHOAL_NEW(b->arena, const shoal_bound_buffer_t *, in->input_count);
  bound->outputs = SHOAL_NEW(b->arena, const shoal_bound_buffer_t *, in->output_count);
  if (!bound->inputs || !bound->outputs) return SHOAL_OOM();
  for (int32_t i = 0; i < in->input_count; ++i) {
    SHOAL_RETURN_IF_ERROR(bind_buffer(b, in->inputs[i], micro, &bound->inputs[i]));
  }
  for (int32_t i = 0; i < in->output_count; ++i) {
    SHOAL_RETURN_IF_ERROR(bind_buffer(b, in->outputs[i], micro, &bound->outputs[i]));
  }
  SHOAL_RETURN_IF_ERROR(bind_buffer(b, in->predicate, micro, &bound->predicate));
  SHOAL_RETURN_IF_ERROR(bind_counts(b, in, micro, bound));
  shoal_arena_t scratch;
  shoal_arena_init(b->arena->allocator, &scratch);
  shoal_status_t status = bind_opcode(b, micro, bound, &scratch);
  shoal_arena_deinit(&scratch);
  return status;
}

static shoal_status_t bind_segment(binder_t *b, int32_t index, int64_t micro,
                                   const shoal_bound_instruction_t **out_instructions) {
  const shoal_segment_t *segment = &b->class->segments[index];
  const size_t groups = (size_t)b->class->slot_group_count;
  bound_as_t **entry = NULL;
  SHOAL_RETURN_IF_ERROR(entry_of(b, b->segments, index, micro, &entry));
  for (const bound_as_t *known = *entry; known; known = known->next) {
    if (groups > 0 && memcmp(known->slots, b->slots, groups * sizeof *b->slots) != 0) continue;
    *out_instructions = known->instructions;
    return NULL;
  }
  shoal_bound_instruction_t *bound =
      SHOAL_NEW(b->arena, shoal_bound_instruction_t, segment->instruction_count);
  const int32_t *slots = shoal_arena_copy(b->arena, b->slots, groups, sizeof *slots);
  if (!bound || !slots) return SHOAL_OOM();
  for (int64_t i = 0; i < segment->instruction_count; ++i) {
    const shoal_instruction_t *in = &segment->instructions[i];
    shoal_status_t status = bind_instruction(b, in, micro, &bound[i]);
    if (status) {
      char loop[40] = "";
      if (micro >= 0) snprintf(loop, sizeof loop, ", micro-batch %lld", (long long)micro);
      return shoal_status_annotatef(
          status, "class %lld, segment %d '%s', instruction %lld %s '%s', rank %d%s",
          (long long)(b->class - b->program->classes), index, segment->name, (long long)i,
          shoal_opcode_name(in->opcode), in->name, b->rank, loop);
    }
  }
  *out_instructions = bound;
  return remember(b, (bound_as_t){.slots = slots, .instructions = bound}, entry);
}

// ---- all together -------------------------------------------------------------------

static shoal_status_t bind_order(binder_t *b, const shoal_order_t *order, int64_t period,
                                 shoal_bound_order_t *bound) {
  const int64_t count = order->call_count;
  shoal_bound_call_t *calls = SHOAL_NEW(b->arena, shoal_bound_call_t, period * count);
  int32_t *slots = SHOAL_NEW(b->arena, int32_t, b->class->slot_group_count);
  if (!calls || !slots) return SHOAL_OOM();
  b->slots = slots;
  for (int64_t k = 0; k < period * count; ++k) {
    const int64_t i = k % count;
    const shoal_segment_call_t *call = &order->calls[i];
    if (call->segment < 0 || call->segment >= b->class->segment_count || call->micro < -1 ||
        call->micro >= b->program->micro) {
      return SHOAL_ERROR(MISMATCH,
                         "order '%s', call %lld: there is no segment %d in micro-batch %d",
                         order->graph, (long long)i, call->segment, call->micro);
    }
    for (int32_t g = 0; g < b->class->slot_group_count; ++g) {
      slots[g] = shoal_call_slot(b->class, call, g, k / count);
    }
    calls[k].segment = call->segment;
    calls[k].micro = call->micro;
    calls[k].instruction_count = b->class->segments[call->segment].instruction_count;
    SHOAL_RETURN_IF_ERROR(bind_segment(b, call->segment, call->micro, &calls[k].instructions));
  }
  *bound = (shoal_bound_order_t){.graph = order->graph, .call_count = count, .calls = calls};
  return NULL;
}

static shoal_status_t binder_init(const shoal_program_t *program, const shoal_class_t *class,
                                  int32_t rank, shoal_arena_t *arena, binder_t *out_binder) {
  *out_binder = (binder_t){.program = program, .class = class, .rank = rank, .arena = arena};
  out_binder->buffers = SHOAL_NEW(arena, bound_as_t **, class->buffer_count);
  out_binder->segments = SHOAL_NEW(arena, bound_as_t **, class->segment_count);
  return out_binder->buffers && out_binder->segments ? NULL : SHOAL_OOM();
}

shoal_status_t shoal_bind_one(const shoal_program_t *program, const shoal_class_t *class,
                              int32_t rank, int64_t micro, const shoal_instruction_t *in,
                              shoal_arena_t *arena) {
  // Only this instruction's buffers: a class may have thousands.
  binder_t b = {.program = program, .class = class, .rank = rank, .arena = arena, .single = true};
  shoal_bound_instruction_t bound = {0};
  return bind_instruction(&b, in, micro, &bound);
}

shoal_status_t shoal_program_bind(const shoal_program_t *program, int32_t rank,
                                  shoal_arena_t *arena, shoal_bound_t *out_bound) {
  const shoal_class_t *class = shoal_program_class_of(program, rank);
  if (!class) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "run it on the number of ranks it was made for",
                            "the program has no rank %d; it is for %d ranks", rank, program->world);
  }
  const int64_t period = shoal_class_period(class);
  binder_t b;
  SHOAL_RETURN_IF_ERROR(binder_init(program, class, rank, arena, &b));
  shoal_bound_order_t *orders = SHOAL_NEW(arena, shoal_bound_order_t, class->order_count);
  if (!orders) return SHOAL_OOM();
  for (int64_t i = 0; i < class->order_count; ++i) {
    SHOAL_RETURN_IF_ERROR(bind_order(&b, &class->orders[i], period, &orders[i]));
  }
  *out_bound = (shoal_bound_t){.program = program,
                               .rank_class = class,
                               .rank = rank,
                               .period = period,
                               .order_count = class->order_count,
                               .orders = orders};
  return NULL;
}
