// Local types: every instruction is bound as it would be at load, so that what an op makes of a
// rank's parts is what its output buffers hold, copies find what they need, and workspaces suffice.
//
// Instructions that are alike - the same op, attributes, types, layouts, workspace and inputs
// overwritten - bind alike on every rank: one of them stands for all. Of the ranks, one per cell is
// bound: those whose parts have the same sizes in all layouts of the instruction (layout/cells.h)
// cannot be told apart.
#include "program/check_impl.h"
#include "program/sample.h"

typedef struct types {
  const check_t *check;
  int64_t class;
  shoal_memo_t done;
  shoal_key_t key;
} types_t;

static const shoal_buffer_t *operand(const shoal_class_t *class, const shoal_instruction_t *in,
                                     int32_t k) {
  const int32_t index = k < in->input_count ? in->inputs[k] : in->outputs[k - in->input_count];
  return index < 0 ? NULL : &class->buffers[index];
}

// All that binding looks at. Reshards ask their channel, whose layouts are the buffers'.
static void write_key(types_t *t, const shoal_instruction_t *in, bool loop) {
  const shoal_class_t *class = &t->check->program->classes[t->class];
  shoal_key_clear(&t->key);
  shoal_key_add(&t->key, in->opcode * 2 + loop);
  shoal_key_add(&t->key, in->workspace);
  if (in->opcode == SHOAL_OPCODE_COMPUTE) shoal_key_add_op(&t->key, in->op, in->attrs);
  if (in->opcode == SHOAL_OPCODE_RESHARD) {
    for (int32_t i = 0; i < in->input_count; ++i) {
      const shoal_channel_t *channel = &t->check->program->channels[in->channels[i]];
      shoal_key_add_pointer(&t->key, channel->src);
      shoal_key_add_pointer(&t->key, channel->dst);
      shoal_key_add_type(&t->key, &channel->type);
    }
  }
  for (int32_t k = 0; k < in->input_count + in->output_count; ++k) {
    const shoal_buffer_t *buffer = operand(class, in, k);
    shoal_key_add_pointer(&t->key, buffer ? buffer->layout : NULL);
    if (buffer) shoal_key_add_type(&t->key, &buffer->type);
  }
  for (int32_t o = 0; o < in->output_count; ++o)
    shoal_key_add(&t->key, shoal_program_overwritten(class, in, o));
  const shoal_buffer_t *predicate = in->predicate >= 0 ? &class->buffers[in->predicate] : NULL;
  shoal_key_add_pointer(&t->key, predicate ? predicate->layout : NULL);
}

// May it matter where the parts of a copy lie? Between parts of two layouts it does, unless one is
// what a rank has of all micro-batches of the other.
static bool depends_on_places(const shoal_class_t *class, const shoal_instruction_t *in) {
  if (in->opcode != SHOAL_OPCODE_COPY) return false;
  const shoal_buffer_t *from = operand(class, in, 0), *to = operand(class, in, 1);
  return !shoal_program_is_over_micro(from->layout, &from->type.shape, to->layout);
}

// Ranks and micro-batches that bind the instruction as all others do, up to places. All operands
// but a reshard's are on one mesh.
static shoal_status_t choose_samples(const types_t *t, const shoal_instruction_t *in, bool loop,
                                     shoal_arena_t *arena, shoal_samples_t *out_samples) {
  const shoal_program_t *program = t->check->program;
  const shoal_class_t *class = &program->classes[t->class];
  const int64_t micros = loop ? program->micro : 0;
  if (in->opcode == SHOAL_OPCODE_RESHARD) {
    return shoal_sample_moves(class, program->channels, in->input_count, in->channels, micros,
                              arena, out_samples);
  }
  if (depends_on_places(class, in)) {
    const shoal_buffer_t *from = operand(class, in, 0), *to = operand(class, in, 1);
    return shoal_sample_move(class, from->layout, to->layout, &from->type.shape, micros, arena,
                             out_samples);
  }
  const int32_t count = in->input_count + in->output_count;
  shoal_cells_of_t *values = SHOAL_NEW(arena, shoal_cells_of_t, count);
  if (!values) return SHOAL_OOM();
  for (int32_t k = 0; k < count; ++k) {
    const shoal_buffer_t *buffer = operand(class, in, k);
    values[k] = (shoal_cells_of_t){.layout = buffer->layout, .shape = &buffer->type.shape};
  }
  return shoal_sample_values(class, count, values, micros, arena, out_samples);
}

static shoal_status_t bind_samples(const types_t *t, const shoal_instruction_t *in, bool loop,
                                   int64_t *out_micro) {
  const shoal_program_t *program = t->check->program;
  const shoal_class_t *class = &program->classes[t->class];
  shoal_arena_t arena;
  shoal_arena_init(t->check->scratch->allocator, &arena);
  shoal_samples_t samples = {0};
  shoal_status_t status = choose_samples(t, in, loop, &arena, &samples);
  for (int64_t i = 0; i < samples.count && !status; ++i) {
    shoal_arena_t scratch;
    shoal_arena_init(arena.allocator, &scratch);
    *out_micro = samples.items[i].micro;
    status = shoal_bind_one(program, class, samples.items[i].rank, *out_micro, in, &scratch);
    if (status) status = shoal_status_annotatef(status, "rank %d", samples.items[i].rank);
    shoal_arena_deinit(&scratch);
  }
  shoal_arena_deinit(&arena);
  return status;
}

static shoal_status_t check_segment(types_t *t, int64_t segment, bool loop) {
  const shoal_program_t *program = t->check->program;
  const shoal_segment_t *list = &program->classes[t->class].segments[segment];
  for (int64_t i = 0; i < list->instruction_count; ++i) {
    int64_t known = 0, micro = -1;
    write_key(t, &list->instructions[i], loop);
    if (shoal_memo_find(&t->done, &t->key, &known)) continue;
    if (!shoal_memo_add(&t->done, &t->key, 1)) return SHOAL_OOM();
    shoal_status_t status = bind_samples(t, &list->instructions[i], loop, &micro);
    const place_t place = {.program = program,
                           .class = t->class,
                           .segment = segment,
                           .instruction = i,
                           .micro = micro};
    if (status) return shoal_program_check_at(&place, status);
  }
  return NULL;
}

shoal_status_t shoal_program_check_types(const check_t *check, int64_t class_index) {
  const shoal_class_t *class = &check->program->classes[class_index];
  types_t t = {.check = check, .class = class_index};
  shoal_memo_init(check->scratch, &t.done);
  shoal_key_init(check->scratch, &t.key);
  bool *loop = SHOAL_NEW(check->scratch, bool, class->segment_count);
  if (!loop) return SHOAL_OOM();
  for (int64_t i = 0; i < class->order_count; ++i) {
    for (int64_t k = 0; k < class->orders[i].call_count; ++k) {
      const shoal_segment_call_t *call = &class->orders[i].calls[k];
      loop[call->segment] |= call->micro >= 0;
    }
  }
  for (int64_t s = 0; s < class->segment_count; ++s) {
    SHOAL_RETURN_IF_ERROR(check_segment(&t, s, loop[s]));
  }
  return NULL;
}
