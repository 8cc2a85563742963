// Structure of instructions: each by itself, and channels, which a class uses once.
#include <string.h>

#include "op/reduce.h"
#include "program/check_impl.h"

static shoal_status_t check_indices(const shoal_class_t *class, const shoal_instruction_t *in,
                                    int64_t channel_count) {
  int32_t inputs, outputs;
  if ((unsigned)in->opcode >= SHOAL_OPCODE_COUNT || in->queue < 0 ||
      in->queue >= class->queue_count) {
    return SHOAL_ERROR(MISMATCH, "it has no opcode or no queue");
  }
  shoal_opcode_arity(in->opcode, &inputs, &outputs);
  if (inputs >= 0 && (in->input_count != inputs || in->output_count != outputs)) {
    return SHOAL_ERROR(MISMATCH, "it has %d inputs and %d outputs, not %d and %d", in->input_count,
                       in->output_count, inputs, outputs);
  }
  bool reshard = in->opcode == SHOAL_OPCODE_RESHARD;
  for (int32_t i = 0; i < in->input_count + in->output_count; ++i) {
    int32_t buffer = i < in->input_count ? in->inputs[i] : in->outputs[i - in->input_count];
    if (buffer < (reshard ? -1 : 0) || buffer >= class->buffer_count) {
      return SHOAL_ERROR(MISMATCH, "there is no buffer %d", buffer);
    }
  }
  if (in->predicate >= class->buffer_count) {
    return SHOAL_ERROR(MISMATCH, "there is no buffer %d", in->predicate);
  }
  const int32_t channels = shoal_instruction_channels(in);
  if (in->opcode != SHOAL_OPCODE_EXCHANGE && !reshard) return NULL;
  if (!in->channels || (reshard && (in->input_count < 1 || in->input_count != in->output_count ||
                                    in->input_count > SHOAL_PROGRAM_MAX_OPERANDS))) {
    return SHOAL_ERROR_HINT(MISMATCH, "give a reshard one input, output and channel for each value",
                            "it has %d inputs and %d outputs", in->input_count, in->output_count);
  }
  for (int32_t i = 0; i < channels; ++i) {
    if (in->channels[i] >= 0 && in->channels[i] < channel_count) continue;
    return SHOAL_ERROR(MISMATCH, "there is no channel %d", in->channels[i]);
  }
  return NULL;
}

static shoal_status_t check_queue(const shoal_class_t *class, const shoal_instruction_t *in) {
  const shoal_program_queue_t *queue = &class->queues[in->queue];
  bool fits;
  switch (in->opcode) {
    case SHOAL_OPCODE_COMPUTE:
      fits = queue->kind == SHOAL_QUEUE_COMPUTE;
      break;
    case SHOAL_OPCODE_RESHARD:
    case SHOAL_OPCODE_EXCHANGE:
      fits = queue->kind == SHOAL_QUEUE_COMM;
      break;
    default:
      fits = queue->kind != SHOAL_QUEUE_COMM;
  }
  if (fits) return NULL;
  return SHOAL_ERROR_HINT(
      MISMATCH, "ops run on queues of kind compute, reshards on comm, the rest on compute or copy",
      "it lies on queue '%s', which is of kind %s", queue->name,
      shoal_queue_kind_name(queue->kind));
}

// Is every operand of the instruction in the device's memory?
static shoal_status_t check_on_device(const shoal_class_t *class, const shoal_instruction_t *in) {
  const bool copy = in->opcode == SHOAL_OPCODE_COPY;
  const int32_t operands = in->input_count + in->output_count;
  for (int32_t i = 0; i <= operands; ++i) {
    const int32_t index = i < in->input_count ? in->inputs[i]
                          : i < operands      ? in->outputs[i - in->input_count]
                                              : in->predicate;
    const shoal_buffer_t *buffer = index < 0 ? NULL : &class->buffers[index];
    if (!buffer || buffer->memory == SHOAL_MEMORY_DEVICE) continue;
    const char *memory = shoal_memory_kind_name(buffer->memory);
    if (!copy || i == operands) {
      return SHOAL_ERROR_HINT(MISMATCH, "copy it to device memory first",
                              "%s '%s' lies in %s memory, which only copies reach",
                              i == operands ? "its predicate" : "operand", buffer->name, memory);
    }
    if (class->queues[in->queue].kind != SHOAL_QUEUE_COPY) {
      return SHOAL_ERROR_HINT(MISMATCH, "put it on a queue of kind copy",
                              "it copies '%s', which lies in %s memory, on queue '%s'",
                              buffer->name, memory, class->queues[in->queue].name);
    }
    const shoal_buffer_t *other = &class->buffers[in->inputs[0]];
    if (in->predicate >= 0 || buffer->count >= 0 || other->count >= 0) {
      return SHOAL_ERROR_HINT(MISMATCH, "decide on the device what is copied",
                              "it copies '%s', which lies in %s memory, whole or not at all",
                              buffer->name, memory);
    }
    if (!shoal_layout_equal(other->layout, class->buffers[in->outputs[0]].layout)) {
      return SHOAL_ERROR_HINT(MISMATCH, "copy between buffers of one layout",
                              "it copies '%s', which lies in %s memory, into another layout",
                              buffer->name, memory);
    }
  }
  return NULL;
}

static shoal_status_t check_waits(const shoal_segment_t *segment, int64_t index) {
  const shoal_instruction_t *in = &segment->instructions[index];
  for (int32_t i = 0; i < in->wait_count; ++i) {
    int32_t other = in->waits[i];
    if (other >= 0 && other < index && segment->instructions[other].queue != in->queue) continue;
    return SHOAL_ERROR_HINT(MISMATCH, "wait for earlier instructions on other queues",
                            "it waits for instruction %d", other);
  }
  return NULL;
}

// A predicate decides the same on all ranks: a bool that every rank has whole, and not per
// micro-batch.
static shoal_status_t check_predicate(const shoal_class_t *class, const shoal_instruction_t *in) {
  if (in->predicate < 0) return NULL;
  if (in->channels || in->opcode == SHOAL_OPCODE_FEED || in->opcode == SHOAL_OPCODE_FETCH ||
      in->opcode == SHOAL_OPCODE_ASSEMBLE) {
    return SHOAL_ERROR_HINT(MISMATCH, "leave the predicate out", "%s cannot be skipped",
                            shoal_opcode_name(in->opcode));
  }
  const shoal_buffer_t *buffer = &class->buffers[in->predicate];
  if (buffer->type.dtype != SHOAL_BOOL || buffer->type.shape.rank != 0) {
    return SHOAL_ERROR_HINT(MISMATCH, "use a bool scalar", "predicate '%s' is no bool scalar",
                            buffer->name);
  }
  if (shoal_layout_is_partial(buffer->layout) || shoal_program_has_micro(buffer->layout)) {
    return SHOAL_ERROR_HINT(MISMATCH, "reduce it first, so that all ranks agree",
                            "predicate '%s' differs between ranks or micro-batches", buffer->name);
  }
  return NULL;
}

static shoal_status_t check_workspace(const shoal_class_t *class, const shoal_instruction_t *in) {
  const int64_t arena = class->arena_bytes[SHOAL_MEMORY_DEVICE];
  if (in->workspace == 0) return NULL;
  if (in->workspace < 0 || in->workspace_offset < 0 ||
      in->workspace_offset % SHOAL_PROGRAM_ALIGN != 0 || in->workspace > arena ||
      in->workspace_offset > arena - in->workspace) {
    return SHOAL_ERROR_HINT(
        MISMATCH, "plan the memory again",
        "its workspace of %lld bytes at %lld is not aligned, or behind the arena",
        (long long)in->workspace, (long long)in->workspace_offset);
  }
  return NULL;
}

// ---- by opcode ----------------------------------------------------------------------

// On the whole: what the op makes of the inputs' types is what the outputs are.
static shoal_status_t check_compute(const shoal_class_t *class, const shoal_instruction_t *in,
                                    shoal_arena_t *scratch) {
  if (!in->op) return SHOAL_ERROR(MISMATCH, "it has no op");
  const shoal_op_t *op = in->op;
  shoal_type_t *types = SHOAL_NEW(scratch, shoal_type_t, in->input_count);
  const int32_t outputs = shoal_op_outputs(op, in->attrs);
  shoal_type_t *made = SHOAL_NEW(scratch, shoal_type_t, outputs);
  if (!types || !made) return SHOAL_OOM();
  if (in->output_count != outputs) {
    return SHOAL_ERROR(MISMATCH, "%s has %d outputs, not %d", op->name, outputs, in->output_count);
  }
  for (int32_t i = 0; i < in->input_count; ++i) types[i] = class->buffers[in->inputs[i]].type;
  shoal_call_t call = {.op = op,
                       .input_count = in->input_count,
                       .output_count = in->output_count,
                       .inputs = types,
                       .attrs = in->attrs};
  SHOAL_RETURN_IF_ERROR(shoal_op_infer(&call, made));
  for (int32_t i = 0; i < in->output_count; ++i) {
    const shoal_buffer_t *buffer = &class->buffers[in->outputs[i]];
    if (shoal_type_equal(&made[i], &buffer->type)) continue;
    char is[160], should[160];
    return SHOAL_ERROR_HINT(MISMATCH, "give the buffer the type the op makes",
                            "%s makes %s, but output %d '%s' is %s", op->name,
                            shoal_type_format(&made[i], should, sizeof should), i, buffer->name,
                            shoal_type_format(&buffer->type, is, sizeof is));
  }
  return shoal_program_check_overwrites(class, in);
}

static shoal_status_t check_side(const check_t *check, int64_t c, const shoal_channel_t *channel,
                                 bool source, int32_t index) {
  const shoal_class_t *class = &check->program->classes[c];
  const char *side = source ? "source" : "destination";
  const shoal_layout_t *layout = source ? channel->src : channel->dst;
  if ((index >= 0) != (shoal_program_check_present(check, c, layout->mesh) > 0)) {
    return SHOAL_ERROR_HINT(
        MISMATCH, "give a buffer where the class is on the mesh, and only there",
        "the class %s a buffer for the channel's %s", index >= 0 ? "has" : "lacks", side);
  }
  if (index < 0) return NULL;
  const shoal_buffer_t *buffer = &class->buffers[index];
  if (!shoal_type_equal(&buffer->type, &channel->type) ||
      !shoal_layout_equal(buffer->layout, layout)) {
    return SHOAL_ERROR_HINT(MISMATCH, "use the channel of this value and these two layouts",
                            "buffer %d '%s' and the channel's %s differ in type or layout", index,
                            buffer->name, side);
  }
  return NULL;
}

static shoal_status_t check_reshard(const check_t *check, int64_t c, const shoal_instruction_t *in,
                                    const shoal_instruction_t **users) {
  for (int32_t i = 0; i < in->input_count; ++i) {
    const int32_t number = in->channels[i];
    if (users[number]) {
      return SHOAL_ERROR_HINT(MISMATCH, "each reshard has a channel of its own",
                              "channel %d is used by '%s' too", number, users[number]->name);
    }
    users[number] = in;
    const shoal_channel_t *channel = &check->program->channels[number];
    if (in->opcode == SHOAL_OPCODE_EXCHANGE) {
      return shoal_program_check_exchange(&check->program->classes[c], channel, in);
    }
    SHOAL_RETURN_IF_ERROR(check_side(check, c, channel, true, in->inputs[i]));
    SHOAL_RETURN_IF_ERROR(check_side(check, c, channel, false, in->outputs[i]));
  }
  return NULL;
}

static shoal_status_t check_assemble(const shoal_class_t *class, const shoal_instruction_t *in) {
  const shoal_buffer_t *to = &class->buffers[in->outputs[0]];
  for (int32_t i = 0; i < in->input_count; ++i) {
    const shoal_buffer_t *from = &class->buffers[in->inputs[i]];
    if (in->inputs[i] != in->outputs[0] && shoal_type_equal(&from->type, &to->type)) continue;
    return SHOAL_ERROR_HINT(MISMATCH, "assemble pieces of one value in other buffers",
                            "it assembles '%s' of '%s'", to->name, from->name);
  }
  return NULL;  // layouts: bind_copy.c
}

static shoal_status_t check_copy(const shoal_class_t *class, const shoal_instruction_t *in) {
  const shoal_buffer_t *from = &class->buffers[in->inputs[0]];
  const shoal_buffer_t *to = &class->buffers[in->outputs[0]];
  if (in->inputs[0] == in->outputs[0] || !shoal_type_equal(&from->type, &to->type)) {
    return SHOAL_ERROR_HINT(MISMATCH, "copy between two buffers of one type",
                            "it copies '%s' to '%s'", from->name, to->name);
  }
  if (in->opcode == SHOAL_OPCODE_COPY) return NULL;  // layouts: bind.c, which knows what is local
  const shoal_cut_t *partial = shoal_program_micro_partial(from->layout);
  if (!partial || partial->reduce != in->reduce || shoal_program_has_micro(to->layout)) {
    return SHOAL_ERROR_HINT(MISMATCH,
                            "accumulate what is partial along micro, with the same reduction",
                            "it joins '%s' otherwise than its layout says", from->name);
  }
  return NULL;
}

// What instructions say of each other, by class: who accumulates into a buffer.
typedef struct joins {
  const shoal_class_t *class;
  shoal_index_t by_target;  // numbers of `items`
  SHOAL_VEC(const shoal_instruction_t *) items;
} joins_t;

static shoal_status_t list_joins(const shoal_class_t *class, shoal_arena_t *scratch,
                                 joins_t *out_joins) {
  *out_joins = (joins_t){.class = class};
  shoal_index_init(scratch, &out_joins->by_target);
  for (int64_t s = 0; s < class->segment_count; ++s) {
    for (int64_t i = 0; i < class->segments[s].instruction_count; ++i) {
      const shoal_instruction_t *in = &class->segments[s].instructions[i];
      if (in->opcode != SHOAL_OPCODE_ACCUMULATE) continue;
      if (!shoal_index_add(&out_joins->by_target, (uint64_t)in->outputs[0],
                           out_joins->items.count) ||
          !SHOAL_PUSH(scratch, &out_joins->items, in)) {
        return SHOAL_OOM();
      }
    }
  }
  return NULL;
}

// The next accumulation into a buffer, or NULL.
static const shoal_instruction_t *next_join(const joins_t *joins, int32_t target, int64_t *at) {
  const int64_t n = shoal_index_next(&joins->by_target, (uint64_t)target, at);
  return n < 0 ? NULL : joins->items.items[n];
}

// A source is joined to a target once in a call.
static shoal_status_t check_join(const joins_t *joins, const shoal_instruction_t *in) {
  SHOAL_RETURN_IF_ERROR(check_copy(joins->class, in));
  const shoal_instruction_t *other;
  for (int64_t at = -1; (other = next_join(joins, in->outputs[0], &at));) {
    if (other == in || other->inputs[0] != in->inputs[0]) continue;
    return SHOAL_ERROR_HINT(MISMATCH, "drop one of the two",
                            "'%s' is joined to the same accumulator twice, by '%s' too",
                            joins->class->buffers[in->inputs[0]].name, other->name);
  }
  return NULL;
}

static shoal_status_t check_host(const shoal_class_t *class, const shoal_instruction_t *in) {
  bool feed = in->opcode == SHOAL_OPCODE_FEED;
  const shoal_buffer_t *buffer = &class->buffers[feed ? in->outputs[0] : in->inputs[0]];
  if (feed && buffer->kind != SHOAL_BUFFER_INPUT) {
    return SHOAL_ERROR(MISMATCH, "it feeds '%s', which is no input buffer", buffer->name);
  }
  const shoal_mesh_t *mesh = buffer->layout->mesh;
  for (int32_t i = 0; i < buffer->layout->cut_count; ++i) {
    const shoal_cut_t *cut = &buffer->layout->cuts[i];
    bool micro = cut->axis == SHOAL_AXIS_MICRO, partial = cut->kind == SHOAL_CUT_PARTIAL;
    if ((micro ? mesh->micro : mesh->axes[cut->axis].size) <= 1) continue;
    if (!partial && (feed || micro)) continue;
    return SHOAL_ERROR_HINT(
        MISMATCH, feed ? "feed a part, not a summand" : "bring the whole to every rank first",
        "the host and '%s' cannot be copied: rank or micro-batch has no part of "
        "the whole that stands by itself",
        buffer->name);
  }
  return NULL;
}

// FILL may set anything, but an accumulator starts at the identity of what is accumulated.
static shoal_status_t check_fill(const joins_t *joins, const shoal_instruction_t *in) {
  const shoal_instruction_t *other;
  for (int64_t at = -1; (other = next_join(joins, in->outputs[0], &at));) {
    if (in->value == shoal_reduce_identity(other->reduce)) continue;
    return SHOAL_ERROR_HINT(MISMATCH, "start at the identity of the reduction",
                            "it fills accumulator '%s' with %g",
                            joins->class->buffers[in->outputs[0]].name, in->value);
  }
  return NULL;
}

// All operands lie on one mesh: what a rank has of them is then of one kind on all ranks alike.
static shoal_status_t check_mesh(const shoal_class_t *class, const shoal_instruction_t *in) {
  const shoal_buffer_t *first = NULL;
  for (int32_t i = 0; i < in->input_count + in->output_count; ++i) {
    const int32_t index = i < in->input_count ? in->inputs[i] : in->outputs[i - in->input_count];
    const shoal_buffer_t *buffer = &class->buffers[index];
    if (!first) first = buffer;
    if (shoal_mesh_equal(first->layout->mesh, buffer->layout->mesh)) continue;
    return SHOAL_ERROR_HINT(MISMATCH, "put all operands on one mesh",
                            "'%s' and '%s' are on different meshes", first->name, buffer->name);
  }
  return NULL;
}

// ---- all together -------------------------------------------------------------------

static shoal_status_t check_one(const check_t *check, int64_t c, const joins_t *joins,
                                const shoal_segment_t *segment, int64_t index,
                                const shoal_instruction_t **users, shoal_arena_t *scratch) {
  const shoal_class_t *class = joins->class;
  const shoal_instruction_t *in = &segment->instructions[index];
  if (in->opcode != SHOAL_OPCODE_RESHARD) SHOAL_RETURN_IF_ERROR(check_mesh(class, in));
  SHOAL_RETURN_IF_ERROR(check_queue(class, in));
  SHOAL_RETURN_IF_ERROR(check_on_device(class, in));
  SHOAL_RETURN_IF_ERROR(check_waits(segment, index));
  SHOAL_RETURN_IF_ERROR(check_predicate(class, in));
  SHOAL_RETURN_IF_ERROR(check_workspace(class, in));
  SHOAL_RETURN_IF_ERROR(shoal_program_check_pair(check->program, class, in));
  switch (in->opcode) {
    case SHOAL_OPCODE_COMPUTE:
      return check_compute(class, in, scratch);
    case SHOAL_OPCODE_COPY:
      return check_copy(class, in);
    case SHOAL_OPCODE_ACCUMULATE:
      return check_join(joins, in);
    case SHOAL_OPCODE_ASSEMBLE:
      return check_assemble(class, in);
    case SHOAL_OPCODE_FILL:
      return check_fill(joins, in);
    case SHOAL_OPCODE_FEED:
    case SHOAL_OPCODE_FETCH:
      return check_host(class, in);
    case SHOAL_OPCODE_RESHARD:
    case SHOAL_OPCODE_EXCHANGE:
      return check_reshard(check, c, in, users);
    case SHOAL_OPCODE_COUNT:
      break;
  }
  return NULL;
}

shoal_status_t shoal_program_check_instructions(const check_t *check, int64_t c) {
  const shoal_program_t *program = check->program;
  const shoal_class_t *class = &program->classes[c];
  place_t place = {.program = program, .class = c, .segment = -1, .instruction = -1, .micro = -1};
  const shoal_instruction_t **users =
      SHOAL_NEW(check->scratch, const shoal_instruction_t *, program->channel_count);
  joins_t joins = {0};
  if (!users) return SHOAL_OOM();
  for (int pass = 0; pass < 2; ++pass) {  // indices first: others are looked at by theirs
    if (pass == 1) SHOAL_RETURN_IF_ERROR(list_joins(class, check->scratch, &joins));
    for (place.segment = 0; place.segment < class->segment_count; ++place.segment) {
      const shoal_segment_t *segment = &class->segments[place.segment];
      for (int64_t i = 0; i < segment->instruction_count; ++i) {
        place.instruction = i;
        shoal_status_t status =
            pass == 0 ? check_indices(class, &segment->instructions[i], program->channel_count)
                      : check_one(check, c, &joins, segment, i, users, check->scratch);
        if (status) return shoal_program_check_at(&place, status);
      }
    }
  }
  place.segment = -1;
  for (int64_t i = 0; i < program->channel_count; ++i) {
    const shoal_channel_t *channel = &program->channels[i];
    if (users[i] || !(shoal_program_check_present(check, c, channel->src->mesh) ||
                      shoal_program_check_present(check, c, channel->dst->mesh))) {
      continue;
    }
    return MISMATCH(&place, "every class on a channel's meshes takes part in its reshard",
                    "channel %lld is not used, though the class is on its meshes", (long long)i);
  }
  return NULL;
}
