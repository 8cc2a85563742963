// links: all
//
// The walks of the design, kept as tests: micro-batches of unequal size (walk 1), two stages on
// meshes of different size with a tied embedding and flat moments (walk 3); and that programs do
// not grow with ranks or micro-batches.
#include "plan_fixture.h"
#include "shoal/ops.h"

static const shoal_instruction_t *find(const shoal_segment_t *segment, shoal_opcode_t opcode,
                                       const char *name) {
  for (int64_t i = 0; segment && i < segment->instruction_count; ++i)
    if (segment->instructions[i].opcode == opcode &&
        (!name || strcmp(segment->instructions[i].name, name) == 0))
      return &segment->instructions[i];
  fail_msg("segment '%s' has no %s '%s'", segment ? segment->name : "?", shoal_opcode_name(opcode),
           name ? name : "");
  return NULL;
}

static void expect_calls(const shoal_class_t *c, const char *graph, const char *expected) {
  const shoal_order_t *order = order_of(c, graph);
  char text[1024] = "";
  for (int64_t k = 0; k < order->call_count; ++k) {
    size_t at = strlen(text);
    const char *name = c->segments[order->calls[k].segment].name + strlen(graph) + 1;
    if (order->calls[k].micro >= 0)
      snprintf(text + at, sizeof text - at, "%s%s:%d", k ? " " : "", name, order->calls[k].micro);
    else
      snprintf(text + at, sizeof text - at, "%s%s", k ? " " : "", name);
  }
  assert_string_equal(text, expected);
}

// ---- walk 1 ---------------------------------------------------------------------------

static const char *const GRADIENTS[] = {"grad/fc1/einsum/einsum_1", "grad/fc1/add/reduce_sum",
                                        "grad/fc2/einsum/einsum_1", "grad/fc2/add/reduce_sum"};

static void test_walk_1_structure(void **state) {
  (void)state;
  shoal_model_t *model = small_mlp(7);
  shoal_plan_t *plan = plan_by(model, rules, "data", "data=2,micro=3", 2);
  shoal_program_t *program = lower(plan);
  assert_int_equal(program->class_count, 1);
  const shoal_class_t *c = &program->classes[0];
  expect_calls(c, "train", "before.0 loop.0:0 loop.0:1 loop.0:2 after.0");
  expect_calls(c, "init", "before.0");
  const shoal_segment_t *before = segment_of(c, "train.before.0"),
                        *loop = segment_of(c, "train.loop.0"),
                        *after = segment_of(c, "train.after.0");
  // Zero at the start, add per call, reduce once.
  for (int64_t i = 0; i < COUNT(GRADIENTS); ++i) {
    const shoal_instruction_t *fill = find(before, SHOAL_OPCODE_FILL, GRADIENTS[i]);
    const shoal_instruction_t *add = find(loop, SHOAL_OPCODE_ACCUMULATE, GRADIENTS[i]);
    const shoal_instruction_t *reduce = find(after, SHOAL_OPCODE_RESHARD, GRADIENTS[i]);
    assert_true(fill->value == 0);
    assert_int_equal(add->reduce, SHOAL_REDUCE_SUM);
    assert_int_equal(fill->outputs[0], add->outputs[0]);
    assert_int_equal(add->outputs[0], reduce->inputs[0]);
    assert_int_equal(channel_kind(&program->channels[reduce->channels[0]]),
                     SHOAL_RESHARD_ALL_REDUCE);
  }
  assert_int_equal(count_in(before, SHOAL_OPCODE_FILL, NULL), 5);  // and the loss
  assert_int_equal(count_in(loop, SHOAL_OPCODE_ACCUMULATE, NULL), 5);
  assert_int_equal(count_in(loop, SHOAL_OPCODE_RESHARD, NULL), 0);
  assert_int_equal(count_in(after, SHOAL_OPCODE_RESHARD, NULL), 5);
  // States are updated in place: 4 weights with 2 moments each, and the step; "init" makes them and
  // the learning rate.
  int64_t next = 0;
  for (int64_t i = 0; i < c->buffer_count; ++i) next += c->buffers[i].kind == SHOAL_BUFFER_NEXT;
  assert_int_equal(next, 13 + 14);
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// Rows of each rank in each micro-batch, as the loop's feed of x is bound.
static void expect_rows(const shoal_program_t *program, const int64_t expected[2][3]) {
  for (int32_t rank = 0; rank < 2; ++rank) {
    shoal_arena_t arena;
    shoal_arena_init(shoal_allocator_system(), &arena);
    shoal_bound_t bound;
    assert_ok(shoal_program_bind(program, rank, &arena, &bound));
    for (int64_t o = 0; o < bound.order_count; ++o) {
      if (strcmp(bound.orders[o].graph, "train") != 0) continue;
      for (int64_t k = 0; k < bound.orders[o].call_count; ++k) {
        const shoal_bound_call_t *call = &bound.orders[o].calls[k];
        for (int64_t i = 0; i < call->instruction_count; ++i) {
          const shoal_bound_instruction_t *in = &call->instructions[i];
          if (strcmp(in->instruction->name, "x") == 0)
            assert_int_equal(in->outputs[0]->type.shape.dims[0], expected[rank][call->micro]);
          if (strcmp(in->instruction->name, "cross_entropy") != 0 || !in->call.op) continue;
          // The divisor is the whole's.
          for (int32_t a = 0; a < in->call.op->attr_count; ++a)
            if (strcmp(in->call.op->attrs[a].name, "count") == 0)
              assert_int_equal(in->call.attrs[a].i, program->inputs[0].type.shape.dims[0]);
        }
      }
    }
    shoal_arena_deinit(&arena);
  }
}

static void test_walk_1_sizes(void **state) {
  (void)state;
  static const struct {
    int64_t batch, rows[2][3];
  } cases[] = {{7, {{2, 1, 1}, {1, 1, 1}}}, {4, {{1, 1, 1}, {1, 0, 0}}}};
  for (int64_t i = 0; i < COUNT(cases); ++i) {
    shoal_model_t *model = small_mlp(cases[i].batch);
    shoal_plan_t *plan = plan_by(model, rules, "data", "data=2,micro=3", 2);
    shoal_program_t *program = lower(plan);
    expect_rows(program, cases[i].rows);
    shoal_program_free(program);
    shoal_plan_free(plan);
    shoal_model_free(model);
  }
}

// ---- walk 3 ---------------------------------------------------------------------------

static shoal_plan_t *two_stages(const shoal_model_t *model, const char *a, const char *b,
                                int32_t world) {
  const shoal_intent_entry_t layouts[] = {{"ids", "a!micro:0,data:0"},
                                          {"labels", "b!micro:0,data:0"},
                                          {"wte/table", "a!"},
                                          {"*#adamw.m", "data:flat"},
                                          {"*#adamw.v", "data:flat"}};
  const shoal_intent_entry_t stages[] = {
      {"block1/*", "b"}, {"ln_f/*", "b"}, {"head/*", "b"}, {"cross_entropy", "b"}};
  shoal_plan_t *plan;
  assert_ok(shoal_plan_create(model, rules,
                              &(shoal_intent_t){.mesh_count = 2,
                                                .meshes = (const char *[]){a, b},
                                                .layout_count = COUNT(layouts),
                                                .layouts = layouts,
                                                .stage_count = 4,
                                                .stages = stages},
                              world, shoal_allocator_system(), &plan));
  return plan;
}

static const shoal_channel_t *channel_of(const shoal_program_t *program, int64_t c,
                                         const char *segment, const char *name) {
  const shoal_instruction_t *in =
      find(segment_of(&program->classes[c], segment), SHOAL_OPCODE_RESHARD, name);
  return &program->channels[in->channels[0]];
}

static void expect_channel(const shoal_channel_t *channel, shoal_reshard_kind_t kind,
                           const char *src, const char *dst) {
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const char *from, *to;
  assert_ok(shoal_layout_print(channel->src, &arena, &from));
  assert_ok(shoal_layout_print(channel->dst, &arena, &to));
  assert_string_equal(from, src);
  assert_string_equal(to, dst);
  assert_int_equal(channel_kind(channel), kind);
  shoal_arena_deinit(&arena);
}

static void test_walk_3(void **state) {
  (void)state;
  shoal_model_t *model = small_gpt(true);
  shoal_plan_t *plan = two_stages(model, "a!data=2,micro=3@0-1", "b!data=3,micro=3@2-4", 5);
  expect_state(plan, "wte/table", "a!");
  expect_state(plan, "wte/table#adamw.m", "a!data:flat");
  expect_state(plan, "block0/attn/qkv/weight#adamw.v", "a!data:flat");
  expect_state(plan, "block1/attn/qkv/weight", "b!");
  expect_state(plan, "block1/attn/qkv/weight#adamw.v", "b!data:flat");
  shoal_program_t *program = lower(plan);
  assert_int_equal(program->class_count, 2);
  // Forward on a, both on b, backward on a: nobody named these segments.
  expect_calls(&program->classes[0], "train",
               "before.0 loop.0:0 loop.0:1 loop.0:2 loop.2:0 loop.2:1 loop.2:2 after.0 after.1");
  expect_calls(
      &program->classes[1], "train",
      "before.0 before.1 loop.0:0 loop.0:1 loop.0:2 loop.1:0 loop.1:1 loop.1:2 after.0 after.1");
  // The boundary: rows of micro-batch i of a are rows of micro-batch i of b.
  expect_channel(channel_of(program, 1, "train.loop.1", "block0/add_1"), SHOAL_RESHARD_BETWEEN,
                 "a!micro:0,data:0", "b!micro:0,data:0");
  expect_channel(channel_of(program, 0, "train.loop.2", "grad/block0/add_1/add"),
                 SHOAL_RESHARD_BETWEEN, "b!micro:0,data:0", "a!micro:0,data:0");
  // The head on b reads the table once a step; its gradient returns as one summand, once.
  expect_channel(channel_of(program, 1, "train.before.1", "wte/table"), SHOAL_RESHARD_BETWEEN, "a!",
                 "b!");
  expect_channel(channel_of(program, 0, "train.after.1", "grad/head/einsum/einsum_1"),
                 SHOAL_RESHARD_BETWEEN, "b!data:partial(sum)", "a!data:partial(sum)");
  // Flat moments: the gradient is scattered as it is reduced, the new weight is gathered.
  expect_channel(channel_of(program, 0, "train.after.1", "grad/wte/table/add"),
                 SHOAL_RESHARD_REDUCE_SCATTER, "a!data:partial(sum)", "a!data:flat");
  expect_channel(channel_of(program, 0, "train.after.1", "update/wte/table/adamw_update.w"),
                 SHOAL_RESHARD_ALL_GATHER, "a!data:flat", "a!");
  expect_channel(channel_of(program, 1, "train.after.0", "grad/block1/attn/qkv/einsum/einsum_1"),
                 SHOAL_RESHARD_REDUCE_SCATTER, "b!data:partial(sum)", "b!data:flat");
  expect_channel(channel_of(program, 0, "train.before.0", "wte/table"), SHOAL_RESHARD_SLICE, "a!",
                 "a!data:flat");
  // The loss lives on b; everybody fetches it.
  const shoal_channel_t *loss = channel_of(program, 0, "train.after.1", "cross_entropy");
  expect_channel(loss, SHOAL_RESHARD_BETWEEN, "b!data:partial(sum)", "world!");
  for (int64_t c = 0; c < 2; ++c)
    assert_int_equal(
        count_in(segment_of(&program->classes[c], "train.after.1"), SHOAL_OPCODE_FETCH, "loss"), 1);
  // Activations made in the forward loop and used in the backward one are alive for all
  // micro-batches; what is received or fed has two slots.
  int64_t slotted = 0;
  for (int64_t i = 0; i < program->classes[0].buffer_count; ++i) {
    const shoal_buffer_t *buffer = &program->classes[0].buffers[i];
    const int32_t slots = shoal_buffer_slots(&program->classes[0], buffer);
    slotted += slots == 3;
    if (strcmp(buffer->name, "grad/block0/add_1/add") == 0) assert_int_equal(slots, 2);
    assert_true(slots <= 3);
  }
  assert_true(slotted > 5);
  for (int64_t i = 0; i < program->classes[1].buffer_count; ++i) {
    const shoal_buffer_t *buffer = &program->classes[1].buffers[i];
    const int32_t slots = shoal_buffer_slots(&program->classes[1], buffer);
    if (slots == 3) assert_string_equal(buffer->name, "labels");  // fed before the stage begins
    if (strcmp(buffer->name, "block0/add_1") == 0) assert_int_equal(slots, 2);
    assert_true(slots <= 3);
  }
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// ---- nothing grows but the order ------------------------------------------------------

static void expect_alike(const shoal_program_t *small, const shoal_program_t *large,
                         int64_t micro) {
  assert_int_equal(small->class_count, large->class_count);
  assert_int_equal(small->channel_count, large->channel_count);
  for (int64_t k = 0; k < small->class_count; ++k) {
    const shoal_class_t *a = &small->classes[k], *b = &large->classes[k];
    assert_int_equal(a->buffer_count, b->buffer_count);
    assert_int_equal(a->segment_count, b->segment_count);
    for (int64_t s = 0; s < a->segment_count; ++s) {
      assert_string_equal(a->segments[s].name, b->segments[s].name);
      assert_int_equal(a->segments[s].instruction_count, b->segments[s].instruction_count);
      for (int64_t i = 0; i < a->segments[s].instruction_count; ++i) {
        const shoal_instruction_t *x = &a->segments[s].instructions[i],
                                  *y = &b->segments[s].instructions[i];
        assert_int_equal(x->opcode, y->opcode);
        assert_string_equal(x->name, y->name);
      }
    }
    for (int64_t o = 0; o < a->order_count; ++o) {
      int64_t loops = 0, rest = 0;
      for (int64_t i = 0; i < a->orders[o].call_count; ++i)
        a->orders[o].calls[i].micro >= 0 ? ++loops : ++rest;
      assert_int_equal(loops % 3, 0);
      assert_int_equal(b->orders[o].call_count, rest + loops / 3 * micro);
    }
  }
}

static void expect_no_growth(const shoal_model_t *model, const char *strategy, const char *small,
                             int32_t small_world, const char *large, int32_t large_world) {
  shoal_plan_t *plans[] = {plan_by(model, rules, strategy, small, small_world),
                           plan_by(model, rules, strategy, large, large_world)};
  shoal_program_t *programs[2];
  for (int i = 0; i < 2; ++i) assert_ok(shoal_lower(plans[i], NULL, &programs[i]));
  expect_alike(programs[0], programs[1], 64);
  for (int i = 0; i < 2; ++i) shoal_program_free(programs[i]), shoal_plan_free(plans[i]);
}

static void test_no_growth(void **state) {
  (void)state;
  static const int64_t batches[] = {4096, 100};  // even, and with ranks that have nothing to do
  for (int i = 0; i < 2; ++i) {
    shoal_model_t *model = make_mlp(&(mlp_sizes_t){.batch = batches[i]});
    expect_no_growth(model, "data", "data=2,micro=3", 2, "data=64,micro=64", 64);
    expect_no_growth(model, "tensor", "data=2,tensor=2,micro=3", 4, "data=16,tensor=4,micro=64",
                     64);
    shoal_model_free(model);
  }
  shoal_model_t *model = make_gpt(&(gpt_sizes_t){.batch = 64,
                                                 .context = 6,
                                                 .vocabulary = 11,
                                                 .width = 48,
                                                 .heads = 12,
                                                 .layers = 2,
                                                 .tied = true});
  shoal_plan_t *plans[] = {
      two_stages(model, "a!data=2,micro=3@0-1", "b!data=3,micro=3@2-4", 5),
      two_stages(model, "a!data=8,micro=64@0-7", "b!data=24,micro=64@8-31", 32)};
  shoal_program_t *programs[2];
  for (int i = 0; i < 2; ++i) assert_ok(shoal_lower(plans[i], NULL, &programs[i]));
  expect_alike(programs[0], programs[1], 64);
  for (int i = 0; i < 2; ++i) shoal_program_free(programs[i]), shoal_plan_free(plans[i]);
  shoal_model_free(model);
}

// ---- paths ------------------------------------------------------------------------------

// A sum over one axis that is cut along another, wanted whole: in one step every rank would get
// everybody's summands; in two it gets the sum of its own columns, and then the others' columns.
static void test_two_axes_change_in_two_steps(void **state) {
  (void)state;
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t a = shoal_input(g, "a", SHOAL_F32, SHOAL_SHAPE(64, 96));
  shoal_value_t b = shoal_input(g, "b", SHOAL_F32, SHOAL_SHAPE(96, 64));
  shoal_output(g, "c", shoal_matmul(g, a, b));
  assert_ok(shoal_model_status(model));
  const shoal_intent_entry_t layouts[] = {{"a", "data:1"}, {"b", "data:0,tensor:1"}};
  shoal_plan_t *plan = plan_of(model, rules, "data=4,tensor=4", COUNT(layouts), layouts, 16);
  expect_layout(plan, "matmul", "data:partial(sum),tensor:1");
  shoal_program_t *program = lower(plan);
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
  kinds_t kinds = reshards_of(program, 0, "train");
  assert_int_equal(kinds.count[SHOAL_RESHARD_BETWEEN], 0);
  assert_true(total_of(&kinds) >= 2);
  const shoal_channel_t *last = &program->channels[program->channel_count - 1];
  assert_int_equal(last->dst->cut_count, 0);
  for (int64_t i = 1; i < program->channel_count; ++i)
    assert_ptr_equal(program->channels[i].src, program->channels[i - 1].dst);
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_walk_1_structure),
      cmocka_unit_test(test_walk_1_sizes),
      cmocka_unit_test(test_walk_3),
      cmocka_unit_test(test_no_growth),
      cmocka_unit_test(test_two_axes_change_in_two_steps),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
