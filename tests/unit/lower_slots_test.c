// links: all
//
// Slots against a shadow of the arena, which knows whose value each block holds; how many there
// are; and the queues and lanes of messages. For the orders that lowering makes, and for others
// that a test writes.
#include "lower_orders.h"

// ---- slots ------------------------------------------------------------------------------

enum { BLOCK = 64 };

// Whose value a block of the arena holds: buffer, micro-batch and step; 0: nobody's.
typedef struct shadow {
  const shoal_program_t *program;
  const shoal_class_t *c;
  const shoal_segment_call_t *call;
  int64_t step;
  int64_t *owners;
} shadow_t;

static int64_t owner_of(const shadow_t *shadow, int32_t index) {
  const shoal_buffer_t *buffer = &shadow->c->buffers[index];
  const bool looped = shoal_layout_along(buffer->layout, SHOAL_AXIS_MICRO) != NULL;
  const int64_t micro = looped ? shadow->call->micro : -1;
  return ((index + 1) * 100 + micro + 1) * 100 + shadow->step;
}

static void shade(const shadow_t *shadow, const shoal_instruction_t *in, int32_t index,
                  bool write) {
  if (index < 0) return;
  const shoal_buffer_t *buffer = &shadow->c->buffers[index];
  if (buffer->kind == SHOAL_BUFFER_STATE || buffer->kind == SHOAL_BUFFER_NEXT) return;
  const int32_t slot = shoal_call_slot(shadow->c, shadow->call, buffer->group, shadow->step);
  const int64_t from = shoal_buffer_slot_offset(shadow->c, buffer, slot);
  for (int64_t b = from / BLOCK; b < (from + buffer->bytes) / BLOCK; ++b) {
    if (write) shadow->owners[b] = owner_of(shadow, index);
    if (shadow->owners[b] != owner_of(shadow, index))
      fail_msg("'%s' of micro-batch %d in step %lld finds another value than '%s'", in->name,
               shadow->call->micro, (long long)shadow->step, buffer->name);
  }
}

static void shade_call(const shadow_t *shadow) {
  const shoal_segment_t *segment = &shadow->c->segments[shadow->call->segment];
  for (int64_t i = 0; i < segment->instruction_count; ++i) {
    const shoal_instruction_t *in = &segment->instructions[i];
    for (int32_t k = 0; k < in->input_count; ++k) shade(shadow, in, in->inputs[k], false);
    shade(shadow, in, in->predicate, false);
    for (int64_t b = 0; b < in->workspace / BLOCK; ++b)
      shadow->owners[in->workspace_offset / BLOCK + b] = 0;
    for (int32_t k = 0; k < in->output_count; ++k)
      shade(shadow, in, in->outputs[k], in->opcode != SHOAL_OPCODE_ACCUMULATE);
  }
}

static void expect_values(const example_t *example, shoal_program_t *program) {
  (void)example;
  for (int64_t k = 0; k < program->class_count; ++k) {
    const shoal_class_t *c = &program->classes[k];
    for (int64_t o = 0; o < c->order_count; ++o) {
      shadow_t shadow = {.program = program, .c = c};
      shadow.owners =
          test_calloc((size_t)(c->arena_bytes[SHOAL_MEMORY_DEVICE] / BLOCK + 1), sizeof(int64_t));
      for (shadow.step = 0; shadow.step < 4; ++shadow.step)
        for (int64_t i = 0; i < c->orders[o].call_count; ++i) {
          shadow.call = &c->orders[o].calls[i];
          shade_call(&shadow);
        }
      test_free(shadow.owners);
    }
  }
}

static void test_values_are_there(void **state) {
  (void)state;
  for_each_example(expect_values);
}

// Of the buffers that cross from one segment of the loop to another: the most slots.
static int32_t most_slots(const shoal_class_t *c, const char *from, const char *to) {
  const shoal_segment_t *first = segment_of(c, from), *last = segment_of(c, to);
  int32_t most = 0;
  for (int64_t i = 0; i < first->instruction_count; ++i) {
    const shoal_instruction_t *made = &first->instructions[i];
    if (made->opcode != SHOAL_OPCODE_COMPUTE) continue;
    for (int64_t j = 0; j < last->instruction_count; ++j)
      for (int32_t k = 0; k < last->instructions[j].input_count; ++k) {
        if (last->instructions[j].inputs[k] != made->outputs[0]) continue;
        const int32_t slots = shoal_buffer_slots(c, &c->buffers[made->outputs[0]]);
        most = slots > most ? slots : most;
      }
  }
  return most;
}

static int32_t slots_of(const shoal_class_t *c, const char *segment, shoal_opcode_t opcode) {
  const shoal_segment_t *s = segment_of(c, segment);
  for (int64_t i = 0; i < s->instruction_count; ++i)
    if (s->instructions[i].opcode == opcode && s->instructions[i].output_count > 0 &&
        s->instructions[i].outputs[0] >= 0)
      return shoal_buffer_slots(c, &c->buffers[s->instructions[i].outputs[0]]);
  return 0;
}

static void test_slots_are_what_is_in_flight(void **state) {
  (void)state;
  const example_t *example = NULL;
  for (int64_t i = 0; i < COUNT(EXAMPLES); ++i)
    if (strcmp(EXAMPLES[i].name, "3 stages") == 0) example = &EXAMPLES[i];
  shoal_model_t *model = example_model(example);
  shoal_plan_t *plan = staged(example, model);
  shoal_program_t *program = lower(plan);
  const shoal_class_t *c = program->classes;
  for (int round = 0; round < 2; ++round) {  // GPipe, then 1F1B
    assert_int_equal(most_slots(&c[0], "train.loop.0", "train.loop.4"), round ? 3 : 5);
    assert_int_equal(most_slots(&c[1], "train.loop.1", "train.loop.3"), round ? 2 : 5);
    // What is received or fed has one more, if there are so many micro-batches.
    assert_int_equal(slots_of(&c[0], "train.loop.0", SHOAL_OPCODE_FEED), round ? 4 : 5);
    assert_int_equal(slots_of(&c[1], "train.loop.1", SHOAL_OPCODE_RESHARD), round ? 3 : 5);
    assert_int_equal(slots_of(&c[1], "train.loop.3", SHOAL_OPCODE_RESHARD), 2);
    assert_int_equal(slots_of(&c[2], "train.loop.2", SHOAL_OPCODE_RESHARD), 2);
    assert_int_equal(slots_of(&c[2], "train.loop.0", SHOAL_OPCODE_FEED), round ? 2 : 5);
    if (round == 0) reschedule(example, program);
    assert_ok(shoal_program_check(program, shoal_allocator_system()));
  }
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// Inputs that are fed once a step: the next step's are fed while this one's are read.
static void test_inputs_have_two_slots(void **state) {
  (void)state;
  shoal_model_t *model = small_mlp(6);
  shoal_plan_t *plan = plan_by(model, rules, "data", "data=2", 2);
  shoal_program_t *program = lower(plan);
  const shoal_class_t *c = program->classes;
  assert_int_equal(shoal_class_period(c), 2);
  for (int64_t i = 0; i < c->buffer_count; ++i) {
    const shoal_buffer_t *buffer = &c->buffers[i];
    assert_int_equal(shoal_buffer_slots(c, buffer), buffer->kind == SHOAL_BUFFER_INPUT ? 2 : 1);
    if (buffer->group >= 0) assert_true(c->slot_groups[buffer->group].by_step);
  }
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// ---- queues -----------------------------------------------------------------------------

// What is only sent or only received has its own lane, and a queue for each direction; classes
// without such messages have the queues that all have.
static void expect_queues(const example_t *example, shoal_program_t *program) {
  (void)example;
  for (int64_t k = 0; k < program->class_count; ++k) {
    const shoal_class_t *c = &program->classes[k];
    bool sends = false, receives = false;
    for (int64_t s = 0; s < c->segment_count; ++s)
      for (int64_t i = 0; i < c->segments[s].instruction_count; ++i) {
        const shoal_instruction_t *in = &c->segments[s].instructions[i];
        if (in->opcode != SHOAL_OPCODE_RESHARD) continue;
        const shoal_channel_t *channel = &program->channels[in->channels[0]];
        const bool apart = !shoal_mesh_overlap(channel->src->mesh, channel->dst->mesh);
        const char *queue = !apart ? "comm" : in->outputs[0] < 0 ? "send" : "receive";
        assert_string_equal(c->queues[in->queue].name, queue);
        assert_int_equal(c->queues[in->queue].kind, SHOAL_QUEUE_COMM);
        assert_int_equal(channel->lane, apart);
        sends |= apart && in->outputs[0] < 0;
        receives |= apart && in->outputs[0] >= 0;
      }
    assert_int_equal(c->queue_count, SHOAL_QUEUE_KIND_COUNT + sends + receives);
  }
}

static void test_messages_have_queues(void **state) {
  (void)state;
  for_each_example(expect_queues);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values_are_there),
      cmocka_unit_test(test_slots_are_what_is_in_flight),
      cmocka_unit_test(test_inputs_have_two_slots),
      cmocka_unit_test(test_messages_have_queues),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
