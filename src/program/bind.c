// Binding: what one rank does, with sizes, places, addresses and transfers worked out.
//
// Buffers are bound once per micro-batch, segments once per (segment, micro-batch), however many
// orders call them. A rank that is not on the mesh of an instruction's buffers is idle there: that
// is how one class may serve ranks with nothing to do.
#include <stdio.h>

#include "base/dtype.h"
#include "program/program_impl.h"

typedef struct binder {
  const shoal_program_t *program;
  const shoal_class_t *class;
  int32_t rank;
  shoal_arena_t *arena;
  const shoal_bound_buffer_t ***buffers;        // [buffer][micro + 1]
  const shoal_bound_instruction_t ***segments;  // [segment][micro + 1]
} binder_t;

// ---- buffers
// ---------------------------------------------------------------------------------------

shoal_status_t shoal_buffer_bind(const shoal_buffer_t *buffer, int32_t rank, int64_t micro,
                                 shoal_arena_t *arena, shoal_bound_buffer_t *out_bound) {
  int64_t position = shoal_mesh_position(buffer->layout.mesh, rank);
  if (position < 0) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "rank %d is not on the mesh of buffer '%s'", rank,
                       buffer->name);
  }
  micro = shoal_program_micro_of(&buffer->layout, micro);
  shoal_bound_buffer_t bound = {.type.dtype = buffer->type.dtype, .offset = buffer->offset};
  SHOAL_RETURN_IF_ERROR(shoal_layout_boxes(&buffer->layout, &buffer->type.shape, position, micro,
                                           arena, &bound.boxes));
  bound.type.shape = shoal_boxes_shape(&bound.boxes);
  bound.count = shoal_shape_count(&bound.type.shape);
  if (micro > 0 && buffer->slots > 1) bound.offset += micro % buffer->slots * buffer->bytes;
  *out_bound = bound;
  return NULL;
}

// NULL where this rank is not on the buffer's mesh, or `index` is -1.
static shoal_status_t bind_buffer(binder_t *b, int32_t index, int64_t micro,
                                  const shoal_bound_buffer_t **out_bound) {
  *out_bound = NULL;
  if (index < 0) return NULL;
  const shoal_buffer_t *buffer = &b->class->buffers[index];
  if (shoal_mesh_position(buffer->layout.mesh, b->rank) < 0) return NULL;
  micro = shoal_program_micro_of(&buffer->layout, micro);
  if (!b->buffers[index]) {
    int64_t entries = shoal_program_has_micro(&buffer->layout) ? b->program->micro + 1 : 1;
    b->buffers[index] = SHOAL_NEW(b->arena, const shoal_bound_buffer_t *, entries);
    if (!b->buffers[index]) return SHOAL_OOM();
  }
  const shoal_bound_buffer_t **entry = &b->buffers[index][micro + 1];
  if (!*entry) {
    shoal_bound_buffer_t *bound = SHOAL_NEW(b->arena, shoal_bound_buffer_t, 1);
    if (!bound) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(shoal_buffer_bind(buffer, b->rank, micro, b->arena, bound));
    *entry = bound;
  }
  *out_bound = *entry;
  return NULL;
}

// ---- compute
// ---------------------------------------------------------------------------------------

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
  if (in->output_count != in->op->output_count) {
    return SHOAL_ERROR(MISMATCH, "%s has %d outputs, not %d", in->op->name, in->op->output_count,
                       in->output_count);
  }
  shoal_call_t asked = bound->call;
  asked.outputs = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_op_infer(&asked, inferred));
  for (int32_t i = 0; i < in->output_count; ++i) {
    if (shoal_program_type_equal(&inferred[i], &outputs[i])) continue;
    char made[160], stored[160];
    return SHOAL_ERROR_HINT(
        MISMATCH, "the layouts of the inputs and of the output do not go together",
        "%s makes %s of this rank's parts, but its part of output %d '%s' is %s", in->op->name,
        shoal_program_type_format(&inferred[i], made, sizeof made), i,
        b->class->buffers[in->outputs[i]].name,
        shoal_program_type_format(&outputs[i], stored, sizeof stored));
  }
  int64_t workspace = in->op->workspace ? in->op->workspace(&bound->call) : 0;
  if (workspace > in->workspace) {
    return SHOAL_ERROR_HINT(MISMATCH, "plan the workspace at the largest over ranks",
                            "%s needs %lld bytes of workspace here, the program gives it %lld",
                            in->op->name, (long long)workspace, (long long)in->workspace);
  }
  return NULL;
}

// ---- copies
// ----------------------------------------------------------------------------------------

static shoal_status_t one_piece(binder_t *b, int64_t count, shoal_bound_instruction_t *bound) {
  shoal_piece_t *piece = SHOAL_NEW(b->arena, shoal_piece_t, 1);
  if (!piece) return SHOAL_OOM();
  *piece = (shoal_piece_t){.rank = 1, .size = {count}, .src_stride = {1}, .dst_stride = {1}};
  bound->pieces = piece;
  bound->piece_count = count > 0;
  return NULL;
}

// What two parts share along one dim: runs, with where they start in each part.
typedef struct run {
  int64_t size, src, dst;
} run_t;

static shoal_status_t shared_runs(const shoal_dim_part_t *src, const shoal_dim_part_t *dst,
                                  shoal_arena_t *scratch, run_t **out_runs, int64_t *out_count) {
  run_t *runs = SHOAL_NEW(scratch, run_t, src->held_count + dst->held_count);
  if (!runs) return SHOAL_OOM();
  int64_t count = 0, src_at = 0, dst_at = 0;
  for (int32_t i = 0, j = 0; i < src->held_count && j < dst->held_count;) {
    shoal_interval_t a = src->held[i], b = dst->held[j];
    int64_t start = a.start > b.start ? a.start : b.start;
    int64_t a_end = a.start + a.size, b_end = b.start + b.size;
    int64_t end = a_end < b_end ? a_end : b_end;
    if (start < end) {
      runs[count++] = (run_t){end - start, src_at + start - a.start, dst_at + start - b.start};
    }
    if (a_end <= b_end) src_at += a.size, ++i;
    if (b_end <= a_end) dst_at += b.size, ++j;
  }
  *out_runs = runs;
  *out_count = count;
  return NULL;
}

// Joins dims that are adjacent in both buffers: most pieces become one run.
static void join_dims(shoal_piece_t *piece) {
  int32_t last = 0;
  for (int32_t d = 1; d < piece->rank; ++d) {
    bool adjacent = piece->src_stride[last] == piece->src_stride[d] * piece->size[d] &&
                    piece->dst_stride[last] == piece->dst_stride[d] * piece->size[d];
    int64_t size = adjacent ? piece->size[last] * piece->size[d] : piece->size[d];
    if (!adjacent) ++last;
    piece->size[last] = size;
    piece->src_stride[last] = piece->src_stride[d];
    piece->dst_stride[last] = piece->dst_stride[d];
  }
  piece->rank = last + 1;
}

// The blocks that two parts of one value, on one rank, have in common.
static shoal_status_t shared_pieces(binder_t *b, const shoal_bound_buffer_t *src,
                                    const shoal_bound_buffer_t *dst, shoal_arena_t *scratch,
                                    shoal_bound_instruction_t *bound, int64_t *out_elements) {
  int32_t rank = src->boxes.whole.rank;
  if (rank == 0) {
    *out_elements = 1;
    return one_piece(b, 1, bound);
  }
  run_t *runs[SHOAL_MAX_RANK];
  int64_t counts[SHOAL_MAX_RANK], pieces = 1, src_stride = 1, dst_stride = 1;
  shoal_piece_t form = {.rank = rank};
  for (int32_t d = rank - 1; d >= 0; --d) {
    SHOAL_RETURN_IF_ERROR(
        shared_runs(&src->boxes.dims[d], &dst->boxes.dims[d], scratch, &runs[d], &counts[d]));
    form.src_stride[d] = src_stride;
    form.dst_stride[d] = dst_stride;
    src_stride *= src->boxes.dims[d].held_size;
    dst_stride *= dst->boxes.dims[d].held_size;
    pieces *= counts[d];
  }
  shoal_piece_t *list = SHOAL_NEW(b->arena, shoal_piece_t, pieces);
  if (!list) return SHOAL_OOM();
  *out_elements = 0;
  for (int64_t i = 0; i < pieces; ++i) {
    int64_t rest = i, elements = 1;
    list[i] = form;
    for (int32_t d = rank - 1; d >= 0; --d) {
      const run_t *run = &runs[d][rest % counts[d]];
      rest /= counts[d];
      list[i].size[d] = run->size;
      list[i].src_offset += run->src * form.src_stride[d];
      list[i].dst_offset += run->dst * form.dst_stride[d];
      elements *= run->size;
    }
    join_dims(&list[i]);
    *out_elements += elements;
  }
  bound->pieces = list;
  bound->piece_count = pieces;
  return NULL;
}

// Between a value over all micro-batches and one micro-batch of it: this rank must have all it
// needs.
static shoal_status_t bind_copy(binder_t *b, int64_t micro, shoal_bound_instruction_t *bound,
                                shoal_arena_t *scratch) {
  const shoal_instruction_t *in = bound->instruction;
  const shoal_buffer_t *from = &b->class->buffers[in->inputs[0]];
  const shoal_buffer_t *to = &b->class->buffers[in->outputs[0]];
  const shoal_bound_buffer_t *src = bound->inputs[0], *dst = bound->outputs[0];
  if (!shoal_program_type_equal(&from->type, &to->type)) {
    return SHOAL_ERROR(MISMATCH, "a copy cannot change the type of '%s'", from->name);
  }
  shoal_layout_t a = shoal_program_without_micro(&from->layout);
  shoal_layout_t c = shoal_program_without_micro(&to->layout);
  if (!shoal_layout_equal(&a, &c)) {
    return SHOAL_ERROR_HINT(MISMATCH, "use a reshard",
                            "a copy of '%s' may only add or drop micro-batches", from->name);
  }
  if (shoal_layout_equal(&from->layout, &to->layout)) return one_piece(b, src->count, bound);
  bool src_micro = micro >= 0 && shoal_program_has_micro(&from->layout);
  bool dst_micro = micro >= 0 && shoal_program_has_micro(&to->layout);
  if (src->boxes.flat || (src_micro && dst_micro)) {
    return SHOAL_ERROR_HINT(
        MISMATCH, "use a reshard",
        "a copy of '%s' in or out of micro-batches cannot be flat, nor change how "
        "micro-batches are cut",
        from->name);
  }
  int64_t elements, needed = src_micro ? src->count : dst->count;
  SHOAL_RETURN_IF_ERROR(shared_pieces(b, src, dst, scratch, bound, &elements));
  if (elements != needed) {
    return SHOAL_ERROR_HINT(
        MISMATCH, "use a reshard",
        "copying '%s' needs elements that this rank does not have: %lld of %lld", from->name,
        (long long)elements, (long long)needed);
  }
  return NULL;
}

static shoal_status_t bind_accumulate(binder_t *b, shoal_bound_instruction_t *bound) {
  const shoal_instruction_t *in = bound->instruction;
  const shoal_buffer_t *from = &b->class->buffers[in->inputs[0]];
  const shoal_buffer_t *to = &b->class->buffers[in->outputs[0]];
  const shoal_cut_t *partial = shoal_program_micro_partial(&from->layout);
  shoal_layout_t rest = shoal_program_without_micro(&from->layout);
  if (!partial || !shoal_layout_equal(&rest, &to->layout) ||
      !shoal_program_type_equal(&from->type, &to->type)) {
    return SHOAL_ERROR_HINT(
        MISMATCH,
        "the source is partial along micro, the target has the same type and the "
        "same layout without that",
        "cannot accumulate '%s' into '%s'", from->name, to->name);
  }
  return one_piece(b, bound->inputs[0]->count, bound);
}

// ---- reshards
// --------------------------------------------------------------------------------------

static shoal_status_t bind_channel(binder_t *b, int64_t micro, shoal_bound_instruction_t *bound,
                                   shoal_arena_t *scratch) {
  const shoal_instruction_t *in = bound->instruction;
  if (in->channel < 0 || in->channel >= b->program->channel_count) {
    return SHOAL_ERROR(MISMATCH, "there is no channel %d", in->channel);
  }
  const shoal_channel_t *channel = &b->program->channels[in->channel];
  bool sends = shoal_mesh_position(channel->src.mesh, b->rank) >= 0;
  bool receives = shoal_mesh_position(channel->dst.mesh, b->rank) >= 0;
  bound->idle = !sends && !receives;
  if (bound->idle) return NULL;
  if (sends != (bound->inputs[0] != NULL) || receives != (bound->outputs[0] != NULL)) {
    return SHOAL_ERROR_HINT(MISMATCH, "give the buffers on the meshes of the channel's two layouts",
                            "rank %d %s a buffer for the %s of channel %d", b->rank,
                            sends == (bound->inputs[0] != NULL) ? (receives ? "lacks" : "has")
                            : sends                             ? "lacks"
                                                                : "has",
                            sends == (bound->inputs[0] != NULL) ? "destination" : "source",
                            in->channel);
  }
  shoal_reshard_t reshard;
  SHOAL_RETURN_IF_ERROR(shoal_channel_reshard(channel, micro, scratch, &reshard));
  shoal_bound_reshard_t *own = SHOAL_NEW(b->arena, shoal_bound_reshard_t, 1);
  if (!own) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(
      shoal_bind_reshard(channel, &reshard, b->rank, bound->outputs[0], b->arena, own));
  if (own->all_reduce) {
    bound->idle = own->group_count == 0;  // an empty part, on the whole group
    if (bound->inputs[0]->count != bound->outputs[0]->count) {
      return SHOAL_ERROR(INTERNAL, "an all-reduce of channel %d changes the part", in->channel);
    }
  } else {
    bound->idle = own->send_count == 0 && own->step_count == 0 && !own->clear;
  }
  if (own->workspace > in->workspace) {
    return SHOAL_ERROR_HINT(MISMATCH, "plan the workspace with shoal_channel_workspace",
                            "the messages of channel %d need %lld bytes of workspace here, the "
                            "program gives it %lld",
                            in->channel, (long long)own->workspace, (long long)in->workspace);
  }
  bound->reshard = own;
  return NULL;
}

// ---- instructions
// ----------------------------------------------------------------------------------

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
  if (in->opcode == SHOAL_OPCODE_RESHARD) return bind_channel(b, micro, bound, scratch);
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
      return bind_copy(b, micro, bound, scratch);
    case SHOAL_OPCODE_ACCUMULATE:
      return bind_accumulate(b, bound);
    default:
      return NULL;
  }
}

static shoal_status_t bind_instruction(binder_t *b, const shoal_instruction_t *in, int64_t micro,
                                       shoal_bound_instruction_t *bound) {
  int32_t inputs, outputs;
  shoal_opcode_arity(in->opcode, &inputs, &outputs);
  if (inputs >= 0 && (in->input_count != inputs || in->output_count != outputs)) {
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
  shoal_arena_t scratch;
  shoal_arena_init(b->arena->allocator, &scratch);
  shoal_status_t status = bind_opcode(b, micro, bound, &scratch);
  shoal_arena_deinit(&scratch);
  return status;
}

static shoal_status_t bind_segment(binder_t *b, int32_t index, int64_t micro,
                                   const shoal_bound_instruction_t **out_instructions) {
  const shoal_segment_t *segment = &b->class->segments[index];
  if (!b->segments[index]) {
    b->segments[index] =
        SHOAL_NEW(b->arena, const shoal_bound_instruction_t *, b->program->micro + 1);
    if (!b->segments[index]) return SHOAL_OOM();
  }
  const shoal_bound_instruction_t **entry = &b->segments[index][micro + 1];
  if (!*entry) {
    shoal_bound_instruction_t *bound =
        SHOAL_NEW(b->arena, shoal_bound_instruction_t, segment->instruction_count);
    if (!bound) return SHOAL_OOM();
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
    *entry = bound;
  }
  *out_instructions = *entry;
  return NULL;
}

// ---- all together
// ----------------------------------------------------------------------------------

static shoal_status_t bind_order(binder_t *b, const shoal_order_t *order,
                                 shoal_bound_order_t *bound) {
  shoal_bound_call_t *calls = SHOAL_NEW(b->arena, shoal_bound_call_t, order->call_count);
  if (!calls) return SHOAL_OOM();
  for (int64_t i = 0; i < order->call_count; ++i) {
    const shoal_segment_call_t *call = &order->calls[i];
    if (call->segment < 0 || call->segment >= b->class->segment_count || call->micro < -1 ||
        call->micro >= b->program->micro) {
      return SHOAL_ERROR(MISMATCH,
                         "order '%s', call %lld: there is no segment %d in micro-batch %d",
                         order->graph, (long long)i, call->segment, call->micro);
    }
    calls[i].segment = call->segment;
    calls[i].micro = call->micro;
    calls[i].instruction_count = b->class->segments[call->segment].instruction_count;
    SHOAL_RETURN_IF_ERROR(bind_segment(b, call->segment, call->micro, &calls[i].instructions));
  }
  *bound =
      (shoal_bound_order_t){.graph = order->graph, .call_count = order->call_count, .calls = calls};
  return NULL;
}

shoal_status_t shoal_bind_orders(const shoal_program_t *program, const shoal_class_t *class,
                                 int32_t rank, int64_t order_count, const shoal_order_t *list,
                                 shoal_arena_t *arena, shoal_bound_t *out_bound) {
  binder_t b = {.program = program, .class = class, .rank = rank, .arena = arena};
  b.buffers = SHOAL_NEW(arena, const shoal_bound_buffer_t **, class->buffer_count);
  b.segments = SHOAL_NEW(arena, const shoal_bound_instruction_t **, class->segment_count);
  shoal_bound_order_t *orders = SHOAL_NEW(arena, shoal_bound_order_t, order_count);
  if (!b.buffers || !b.segments || !orders) return SHOAL_OOM();
  for (int64_t i = 0; i < order_count; ++i) {
    SHOAL_RETURN_IF_ERROR(bind_order(&b, &list[i], &orders[i]));
  }
  *out_bound = (shoal_bound_t){.program = program,
                               .rank_class = class,
                               .rank = rank,
                               .order_count = order_count,
                               .orders = orders};
  return NULL;
}

shoal_status_t shoal_program_bind(const shoal_program_t *program, int32_t rank,
                                  shoal_arena_t *arena, shoal_bound_t *out_bound) {
  const shoal_class_t *class = shoal_program_class_of(program, rank);
  if (!class) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "run it on the number of ranks it was made for",
                            "the program has no rank %d; it is for %d ranks", rank, program->world);
  }
  return shoal_bind_orders(program, class, rank, class->order_count, class->orders, arena,
                           out_bound);
}
