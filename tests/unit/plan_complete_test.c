// links: all
//
// Completion: which ways it takes for mlp and gpt under data, tensor, both, and micro-batches;
// where that puts reshards, counted by kind.
#include "plan_fixture.h"
#include "shoal/ops.h"

typedef struct expectation {
  const char *node, *axis, *way;
} expectation_t;

static void expect_ways(const shoal_plan_t *plan, const expectation_t *list, int64_t count) {
  for (int64_t i = 0; i < count; ++i) expect_way(plan, list[i].node, list[i].axis, list[i].way);
}

static void expect_kinds(const shoal_program_t *program, const char *graph, kinds_t expected) {
  kinds_t found = reshards_of(program, 0, graph);
  for (int k = 0; k <= SHOAL_RESHARD_BETWEEN; ++k)
    if (found.count[k] != expected.count[k])
      fail_msg("graph '%s' has %lld %s, expected %lld", graph, (long long)found.count[k],
               shoal_reshard_name((shoal_reshard_kind_t)k), (long long)expected.count[k]);
}
#define KINDS(...) ((kinds_t){.count = {__VA_ARGS__}})

// ---- mlp ------------------------------------------------------------------------------

static void test_mlp_data(void **state) {
  (void)state;
  shoal_model_t *model = small_mlp(7);
  shoal_plan_t *plan = plan_by(model, rules, "data", "data=2", 2);
  static const expectation_t ways[] = {
      {"fc1/einsum", "data", "{a:0 -> out:0}~"},
      {"fc1/add", "data", "{a:0 -> out:0}~"},
      {"relu", "data", "{x:0 -> out:0}~"},
      {"cross_entropy", "data", "{logits:0, labels:0 -> loss:sum}~"},
      {"grad/fc1/add/reduce_sum", "data", "{x:0 -> out:sum}~"},
      {"grad/fc2/einsum/einsum", "data", "{a:0 -> out:0}~"},
      {"grad/fc2/einsum/einsum_1", "data", "{a:0, b:0 -> out:sum}~"},
      {"update/fc1/weight/adamw_update", "data", ""},
      {"step/add", "data", ""},
  };
  expect_ways(plan, ways, COUNT(ways));
  expect_layout(plan, "x", "data:0");
  expect_layout(plan, "cross_entropy", "data:partial(sum)");
  expect_layout(plan, "grad/fc1/einsum/einsum_1", "data:partial(sum)");
  expect_state(plan, "fc1/weight", "");
  expect_state(plan, "fc1/weight#adamw.m", "");
  shoal_program_t *program = lower(plan);
  // Four gradients and the loss.
  expect_kinds(program, "train", KINDS([SHOAL_RESHARD_ALL_REDUCE] = 5));
  expect_kinds(program, "eval",
               KINDS([SHOAL_RESHARD_ALL_REDUCE] = 1, [SHOAL_RESHARD_ALL_GATHER] = 1));
  expect_kinds(program, "init", KINDS(0));
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

static void test_mlp_tensor(void **state) {
  (void)state;
  shoal_model_t *model = small_mlp(7);
  shoal_plan_t *plan = plan_by(model, rules, "tensor", "tensor=2", 2);
  static const expectation_t ways[] = {
      {"fc1/einsum", "tensor", "{b:1 -> out:1}~"},
      {"fc1/add", "tensor", "{a:1, b:0 -> out:1}~"},
      {"relu", "tensor", "{x:1 -> out:1}~"},
      {"fc2/einsum", "tensor", "{a:1, b:0 -> out:sum}~"},
      {"fc2/add", "tensor", ""},  // the bias is added after the reduction
      {"cross_entropy", "tensor", ""},
      {"grad/fc2/einsum/einsum", "tensor", "{b:0 -> out:1}~"},
      {"grad/fc2/einsum/einsum_1", "tensor", "{b:1 -> out:0}~"},
      {"grad/fc1/einsum/einsum_1", "tensor", "{a:1 -> out:1}~"},
  };
  expect_ways(plan, ways, COUNT(ways));
  expect_state(plan, "fc1/weight", "tensor:1");
  expect_state(plan, "fc1/bias", "tensor:0");
  expect_state(plan, "fc2/weight", "tensor:0");
  expect_state(plan, "fc2/bias", "");
  expect_state(plan, "fc1/weight#adamw.m", "tensor:1");  // what is called after a state follows it
  expect_state(plan, "fc2/weight#adamw.v", "tensor:0");
  expect_state(plan, "fc2/bias#adamw.v", "");
  expect_layout(plan, "fc2/einsum", "tensor:partial(sum)");
  const shoal_choice_t *update =
      choice_of(plan, "train", "update/fc1/weight/adamw_update", "tensor");
  assert_non_null(update->way);
  assert_int_equal(update->way->operands[0].kind, SHOAL_OPERAND_CUT);
  shoal_program_t *program = lower(plan);
  expect_kinds(program, "train", KINDS([SHOAL_RESHARD_ALL_REDUCE] = 1));  // one for both products
  expect_kinds(program, "eval", KINDS([SHOAL_RESHARD_ALL_REDUCE] = 1));
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

static void test_mlp_data_tensor_micro(void **state) {
  (void)state;
  shoal_model_t *model = small_mlp(7);
  shoal_plan_t *plan = plan_by(model, rules, "tensor", "data=2,tensor=2,micro=3", 4);
  static const expectation_t ways[] = {
      {"fc1/einsum", "micro", "{a:0 -> out:0}~"},
      {"fc1/einsum", "data", "{a:0 -> out:0}~"},
      {"fc1/einsum", "tensor", "{b:1 -> out:1}~"},
      {"fc2/einsum", "tensor", "{a:1, b:0 -> out:sum}~"},
      {"grad/fc1/einsum/einsum_1", "micro", "{a:0, b:0 -> out:sum}~"},
      {"grad/fc1/einsum/einsum_1", "data", "{a:0, b:0 -> out:sum}~"},
      {"grad/fc1/einsum/einsum_1", "tensor", "{a:1 -> out:1}~"},
      {"update/fc2/bias/adamw_update", "micro", ""},
      {"update/fc2/bias/adamw_update", "data", ""},
  };
  expect_ways(plan, ways, COUNT(ways));
  expect_layout(plan, "x", "micro:0,data:0");
  expect_layout(plan, "relu", "micro:0,data:0,tensor:1");
  expect_layout(plan, "fc2/einsum", "micro:0,data:0,tensor:partial(sum)");
  expect_layout(plan, "grad/fc1/einsum/einsum_1", "micro:partial(sum),data:partial(sum),tensor:1");
  expect_layout(plan, "cross_entropy", "micro:partial(sum),data:partial(sum)");
  shoal_program_t *program = lower(plan);
  expect_kinds(program, "train", KINDS([SHOAL_RESHARD_ALL_REDUCE] = 6));
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// ---- gpt ------------------------------------------------------------------------------

static bool inside_attention(const char *name) {
  static const char *const outside[] = {"proj/einsum", "attn/qkv/einsum/einsum"};
  if (!strstr(name, "/attn/")) return false;
  for (int64_t i = 0; i < COUNT(outside); ++i)
    if (strstr(name, outside[i])) return false;
  return true;
}

// Heads 3,3,2,2,2. Between the two products of the attention, forward and backward, everything
// stays where it is: the only communication are the sums that leave it.
static void expect_attention_stays(const shoal_program_t *program) {
  const shoal_class_t *c = &program->classes[0];
  for (int64_t s = 0; s < c->segment_count; ++s)
    for (int64_t i = 0; i < c->segments[s].instruction_count; ++i) {
      const shoal_instruction_t *in = &c->segments[s].instructions[i];
      if (in->opcode != SHOAL_OPCODE_RESHARD || !strstr(in->name, "/attn/")) continue;
      if (program->micro > 1 && !program->channels[in->channels[0]].micro)
        continue;  // of weights, over data
      shoal_reshard_kind_t kind = channel_kind(&program->channels[in->channels[0]]);
      if (kind != SHOAL_RESHARD_ALL_REDUCE || inside_attention(in->name))
        fail_msg("%s of '%s'", shoal_reshard_name(kind), in->name);
    }
}

static void test_gpt_fused_heads(void **state) {
  (void)state;
  static const struct {
    int64_t batch, context;
  } sizes[] = {{7, 6}, {4, 200}};  // activations smaller and larger than the weights
  for (int64_t i = 0; i < COUNT(sizes); ++i) {
    shoal_model_t *model = make_gpt(&(gpt_sizes_t){.batch = sizes[i].batch,
                                                   .context = sizes[i].context,
                                                   .vocabulary = 11,
                                                   .width = 768,
                                                   .heads = 12,
                                                   .layers = 1,
                                                   .dtype = SHOAL_F32});
    shoal_plan_t *plan = plan_by(model, rules, "tensor", NULL, 5);
    expect_state(plan, "block0/attn/qkv/weight", "tensor:1*3/64");
    expect_state(plan, "block0/attn/qkv/bias", "tensor:0*3/64");
    expect_state(plan, "block0/attn/qkv/weight#adamw.v", "tensor:1*3/64");
    expect_state(plan, "block0/attn/proj/weight", "tensor:0/64");
    expect_state(plan, "block0/attn/proj/bias", "");
    expect_state(plan, "block0/mlp/fc1/weight", "tensor:1");
    expect_state(plan, "block0/mlp/fc2/weight", "tensor:0");
    expect_state(plan, "head/weight", "tensor:1");
    static const expectation_t ways[] = {
        {"block0/ln_1/layer_norm", "tensor", ""},
        {"block0/attn/qkv/einsum", "tensor", "{b:1 -> out:2}~"},
        {"block0/attn/q/slice", "tensor", "{x:2 -> out:2@0..768}~"},
        {"block0/attn/k/slice", "tensor", "{x:2 -> out:2@768..1536}~"},
        {"block0/attn/v/slice", "tensor", "{x:2 -> out:2@1536..2304}~"},
        {"block0/attn/q/reshape", "tensor", "{x:2/64 -> out:2}~"},
        {"block0/attn/attention", "tensor", "{q:1, k:1, v:1 -> out:1, lse:1}~"},
        {"block0/attn/proj/einsum", "tensor", "{a:2, b:0 -> out:sum}~"},
        {"block0/attn/proj/add", "tensor", ""},
        {"block0/add", "tensor", ""},
    };
    expect_ways(plan, ways, COUNT(ways));
    expect_layout(plan, "block0/attn/qkv/add", "tensor:2*3/64");
    expect_layout(plan, "block0/attn/k/reshape", "tensor:2");
    expect_layout(plan, "block0/attn/proj/einsum", "tensor:partial(sum)");
    shoal_program_t *program = lower(plan);
    expect_attention_stays(program);
    // Sums: two per block forward and backward, one behind the head; five in the loss and its
    // gradient, over a cut vocabulary; there a one-hot is sliced.
    expect_kinds(program, "train",
                 KINDS([SHOAL_RESHARD_ALL_REDUCE] = 10, [SHOAL_RESHARD_SLICE] = 1));
    expect_kinds(program, "eval",
                 KINDS([SHOAL_RESHARD_ALL_REDUCE] = 5, [SHOAL_RESHARD_ALL_GATHER] = 1));
    shoal_program_free(program);
    shoal_plan_free(plan);
    shoal_model_free(model);
  }
}

static void test_gpt_data_tensor(void **state) {
  (void)state;
  shoal_model_t *model = small_gpt(false);
  shoal_plan_t *plan = plan_by(model, rules, "tensor", "data=2,tensor=3,micro=3", 6);
  static const expectation_t ways[] = {
      {"wte/embedding", "data", "{ids:0 -> out:0}~"},
      {"block0/attn/qkv/einsum", "data", "{a:0 -> out:0}~"},
      {"block0/attn/qkv/einsum", "tensor", "{b:1 -> out:2}~"},
      {"block1/attn/attention", "data", "{q:0, k:0, v:0 -> out:0, lse:0}~"},
      {"block1/attn/attention", "tensor", "{q:1, k:1, v:1 -> out:1, lse:1}~"},
      {"grad/block1/mlp/fc2/einsum/einsum_1", "data", "{a:0, b:0 -> out:sum}~"},
  };
  expect_ways(plan, ways, COUNT(ways));
  expect_layout(plan, "block0/attn/qkv/einsum", "micro:0,data:0,tensor:2*3/4");
  expect_layout(plan, "grad/block0/attn/qkv/einsum/einsum_1",
                "micro:partial(sum),data:partial(sum),tensor:1*3/4");
  shoal_program_t *program = lower(plan);
  expect_attention_stays(program);
  kinds_t kinds = reshards_of(program, 0, "train");
  assert_int_equal(kinds.count[SHOAL_RESHARD_ALL_GATHER], 0);
  assert_int_equal(kinds.count[SHOAL_RESHARD_ALL_TO_ALL], 0);
  assert_int_equal(kinds.count[SHOAL_RESHARD_BETWEEN], 0);
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// A tied embedding gets two gradients: they are added unreduced, and reduced once.
static void test_tied_gradients_are_reduced_once(void **state) {
  (void)state;
  shoal_model_t *model = small_gpt(true);
  shoal_plan_t *plan = plan_by(model, rules, "data", "data=2,micro=3", 2);
  shoal_program_t *program = lower(plan);
  int64_t tables = 0;
  for (int64_t i = 0; i < program->channel_count; ++i) {
    const shoal_shape_t *shape = &program->channels[i].type.shape;
    tables += shape->rank == 2 && shape->dims[0] == 11 && shape->dims[1] == 48;
    assert_true(!program->channels[i].micro || !shoal_layout_is_partial(program->channels[i].src));
  }
  assert_int_equal(tables, 1);
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// ---- states that follow; expansion ----------------------------------------------------

static void test_derived_states(void **state) {
  (void)state;
  shoal_model_t *model = small_mlp(7);
  const shoal_intent_entry_t layouts[] = {
      {"fc1/weight", "data:1"}, {"fc2/weight", "data:0"}, {"*#adamw.v", "data:flat"}};
  shoal_plan_t *plan;
  assert_ok(shoal_plan_create(model, rules,
                              &(shoal_intent_t){.mesh_count = 1,
                                                .meshes = (const char *[]){"data=2"},
                                                .layout_count = 3,
                                                .layouts = layouts},
                              2, shoal_allocator_system(), &plan));
  expect_state(plan, "fc1/weight#adamw.m", "data:1");
  expect_state(plan, "fc2/weight#adamw.m", "data:0");
  expect_state(plan, "fc2/bias#adamw.m", "");
  expect_state(plan, "fc1/weight#adamw.v", "data:flat");  // one of its own wins
  shoal_program_free(lower(plan));
  shoal_plan_free(plan);
  shoal_model_free(model);
}

static void test_expansion(void **state) {
  (void)state;
  shoal_model_t *model = small_mlp(7);
  shoal_plan_t *plan;
  assert_ok(shoal_plan_create(
      model, rules,
      &(shoal_intent_t){.mesh_count = 1,
                        .meshes = (const char *[]){"tensor=2"},
                        .layout_count = 1,
                        .layouts = &(shoal_intent_entry_t){"fc2/weight", "tensor:1"},
                        .expand_count = 1,
                        .expand = (const char *[]){"cross_entropy"}},
      2, shoal_allocator_system(), &plan));
  assert_ptr_not_equal(plan->model, model);
  expect_way(plan, "cross_entropy/reduce_max", "tensor", "{x:1 -> out:max}~");
  expect_layout(plan, "cross_entropy/reduce_sum", "tensor:partial(sum)");
  shoal_program_free(lower(plan));
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// ---- nodes that are alike -------------------------------------------------------------

// Equal nodes share a decision; nodes that differ in an operand's layout or in sizes have one of
// their own.
static void test_decisions_are_shared(void **state) {
  (void)state;
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(6, 4));
  shoal_value_t y = shoal_input(g, "y", SHOAL_F32, SHOAL_SHAPE(6, 4));
  shoal_value_t z = shoal_input(g, "z", SHOAL_F32, SHOAL_SHAPE(6, 4));
  shoal_value_t u = shoal_input(g, "u", SHOAL_F32, SHOAL_SHAPE(8, 4));
  shoal_value_t first = shoal_add(g, x, y), second = shoal_add(g, x, y);
  shoal_value_t whole = shoal_add(g, z, y), mixed = shoal_add(g, x, z);
  shoal_value_t both = shoal_add(g, z, z), larger = shoal_add(g, u, u), cut = shoal_add(g, x, x);
  const shoal_value_t values[] = {first, second, whole, mixed, both, larger, cut};
  static const char *const names[] = {"o0", "o1", "o2", "o3", "o4", "o5", "o6"};
  for (int i = 0; i < 7; ++i) shoal_output(g, names[i], values[i]);
  assert_ok(shoal_model_status(model));
  const shoal_intent_entry_t layouts[] = {{"x", "data:0"}, {"y", "data:0"}};
  shoal_plan_t *plan = plan_of(model, rules, "data=2", COUNT(layouts), layouts, 2);
  expect_layout(plan, shoal_value_name(first), "data:0");
  expect_layout(plan, shoal_value_name(second), "data:0");
  expect_layout(plan, shoal_value_name(larger), "");
  const shoal_graph_plan_t *gp = &plan->graphs[1];
  assert_string_equal(gp->graph->name, "train");
  assert_ptr_equal(gp->nodes[0].decision, gp->nodes[1].decision);
  assert_ptr_equal(gp->values[gp->graph->nodes.items[0].outputs[0]],
                   gp->values[gp->graph->nodes.items[1].outputs[0]]);
  for (int n = 4; n < 6; ++n) assert_ptr_not_equal(gp->nodes[0].decision, gp->nodes[n].decision);
  // What a node wants of an input follows its own operands: z is whole, x is cut.
  for (int n = 0; n < 7; ++n) {
    const shoal_decision_t *decision = gp->nodes[n].decision;
    for (int32_t k = 0; k < decision->operand_count; ++k) {
      assert_int_equal(decision->types[k].shape.dims[0], n == 5 ? 8 : 6);
    }
  }
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// A second input that differs, a second pattern that wins: neither is taken from another node.
static void test_second_inputs_count(void **state) {
  (void)state;
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t a = shoal_input(g, "a", SHOAL_F32, SHOAL_SHAPE(6, 4));
  shoal_value_t rows = shoal_input(g, "rows", SHOAL_F32, SHOAL_SHAPE(4, 10));
  shoal_value_t columns = shoal_input(g, "columns", SHOAL_F32, SHOAL_SHAPE(4, 10));
  shoal_value_t p = shoal_matmul(g, a, rows), q = shoal_matmul(g, a, columns);
  shoal_output(g, "p", p);
  shoal_output(g, "q", q);
  assert_ok(shoal_model_status(model));
  const shoal_intent_entry_t layouts[] = {{"rows", "t:0"}, {"columns", "t:1"}};
  shoal_plan_t *plan = plan_of(model, rules, "t=2", COUNT(layouts), layouts, 2);
  expect_layout(plan, shoal_value_name(q), "t:1");
  const shoal_graph_plan_t *gp = &plan->graphs[1];
  assert_ptr_not_equal(gp->nodes[0].decision, gp->nodes[1].decision);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_decisions_are_shared),
      cmocka_unit_test(test_second_inputs_count),
      cmocka_unit_test(test_mlp_data),
      cmocka_unit_test(test_mlp_tensor),
      cmocka_unit_test(test_mlp_data_tensor_micro),
      cmocka_unit_test(test_gpt_fused_heads),
      cmocka_unit_test(test_gpt_data_tensor),
      cmocka_unit_test(test_tied_gradients_are_reduced_once),
      cmocka_unit_test(test_derived_states),
      cmocka_unit_test(test_expansion),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
